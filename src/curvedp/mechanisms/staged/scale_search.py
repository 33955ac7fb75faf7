"""Find the unit of measurement in which records are, by a noisy histogram. Matrices of a
*cone*, such as covariances, can be multiplied by any positive number, their *scale*. The
histogram counts log scales in public *bins* on both sides of a center; a record gives
weights to the two edges of its bin.
"""

from collections.abc import Callable
from math import ceil, log, pi, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from curvedp.core.statistic import check_point
from curvedp.errors import CurvedpError
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.statistics.tangent_vectors import logs_at

if TYPE_CHECKING:
    # It imports `curvedp.laws`, which a process of a federated site must not.
    from curvedp.mechanisms.vector import NoiseKind

__all__ = [
    "WEIGHT_RESOLUTION",
    "Bins",
    "edge_weights_of_factor",
    "half_bin_count",
    "histogram_along_axis",
    "likeliest_position",
    "point_or_fallback",
    "rescale_factor",
    "scale_histogram_of_factor",
    "scaling_direction",
]

# The weights of a record at the edges of its bin are whole multiples of 2^-20. They are
# rounded down, so that no pair of weights becomes longer.
WEIGHT_RESOLUTION = 2.0**20

# On a cone of m × m matrices, the geodesic distance from the identity to any multiple
# of it that doubles can hold is at most this number times √m.
_FARTHEST_UNIT = 100

# Keeps a quotient of two numbers finite if both are 0.
_TINY = 1e-300


class Bins(NamedTuple):
    """Bins for the scale (unit of measurement) of matrices, on the logarithmic axis.

    They lie on both sides of a public center.

    Attributes
    ----------
    width : float
        The width of a bin, as a geodesic length.
    half_count : int
        The number of bins on each side of the center.
    noise_kind : {"gaussian", "laplace"}
        The noise that will be added. Each record's weights at the two edges of its bin
        depend on it (`_edge_weights`).
    """

    width: float
    half_count: int
    noise_kind: "NoiseKind"


def scaling_direction(cone: Manifold, center: np.ndarray) -> np.ndarray:
    """Return the direction at a matrix that points to its positive multiples.

    Parameters
    ----------
    cone : Manifold
        A cone of matrices.
    center : array of shape point_shape
        The matrix.

    Returns
    -------
    array of shape (dim,)
        A unit vector in coordinates at the matrix.
    """
    coordinates = np.asarray(cone.normal_coordinates(center, np.e * center))
    return np.asarray(coordinates / np.linalg.norm(coordinates))


def half_bin_count(cone: Manifold, outer_radius: float, width: float) -> int:
    """Return how many bins of a cone's log scale there are on each side of the center.

    The scale of a matrix is its unit of measurement. The bins reach to the outer
    radius, or to the largest scale that doubles can hold if that is nearer.

    Parameters
    ----------
    cone : Manifold
        A cone of matrices.
    outer_radius : float
        The radius of the public outer ball.
    width : float
        The width of a bin.
    """
    farthest = min(outer_radius, _FARTHEST_UNIT * sqrt(cone.point_shape[0]))
    return ceil(farthest / width)


def likeliest_position(
    noisy_weights: np.ndarray, noise_std: Any, n: int, noise_kind: "NoiseKind"
) -> np.ndarray:
    """Return the likeliest position of the records, by a noisy histogram of weights.

    It is the center unless there is evidence against it, because a release in a
    wrong unit of measurement is useless. Two neighboring edges are chosen if the log
    likelihood that all n records lie between them exceeds that of the center by more
    than 2·log(k). Here k is the number of pairs of edges that are as near to the
    center; it is the number of all pairs if there are too few records to tell pairs
    apart.

    Let y₁ and y₂ be the noisy weights at the two edges. For Gaussian noise of standard
    deviation σ the log likelihood is n·√(y₁² + y₂²)/σ², up to a constant. For Laplace
    noise of scale b it is Σ (|yᵢ| − |yᵢ − n·sᵢ|)/b, where s₁ and s₂ are the weights of
    a record at the likeliest place between the edges.

    Parameters
    ----------
    noisy_weights : array of shape (…, edges)
        The released histogram, or several of them.
    noise_std : float or array of shape (…)
        The standard deviation of the noise in each weight.
    n : int
        The number of records.
    noise_kind : {"gaussian", "laplace"}
        The kind of noise.

    Returns
    -------
    array of shape (…)
        The signed distance from the center in bins, which need not be a whole number.
    """
    n_pairs = noisy_weights.shape[-1] - 1
    center = noisy_weights.shape[-1] // 2
    std = np.asarray(noise_std)[..., np.newaxis]
    gain, expected_gain = _gain_over_center(noisy_weights, std, n, noise_kind)

    # The more pairs compete, the larger is the gain that one of them has by chance.
    can_tell_apart = expected_gain > 2 * log(n_pairs)
    competitors = np.where(
        can_tell_apart, _count_nearer_pairs(n_pairs, center), n_pairs
    )
    penalized_gain = gain - 2 * np.log(competitors)

    # The best pair of edges, and where between the two the records are.
    best_pair = np.argmax(penalized_gain, axis=-1)
    best_gain = _entry_of_pair(penalized_gain, best_pair)
    weights = np.maximum(noisy_weights, 0.0)
    lower_weight = _entry_of_pair(weights[..., :-1], best_pair)
    upper_weight = _entry_of_pair(weights[..., 1:], best_pair)
    position = _position_between_edges(lower_weight, upper_weight, noise_kind)
    return np.where(best_gain > 0, best_pair - center + position, 0.0)


def _count_nearer_pairs(n_pairs: int, center: int) -> np.ndarray:
    """Return how many pairs of edges are at most as far from the center as each pair.

    Parameters
    ----------
    n_pairs : int
        The number of pairs of neighboring edges.
    center : int
        The number of the center's edge, which is the lower one of its pair.

    Returns
    -------
    array of shape (n_pairs,)
        Even numbers: 2 for the two pairs that contain the center.
    """
    offset = np.arange(n_pairs) - center
    return 2 * np.where(offset < 0, -offset, offset + 1)


def _entry_of_pair(values: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Return one entry of the last axis of an array, for each of several histograms.

    Parameters
    ----------
    values : array of shape (…, pairs)
        A number for each pair of edges.
    pair : int array of shape (…)
        The number of a pair in each histogram.

    Returns
    -------
    array of shape (…)
        The number of that pair.
    """
    entries = np.take_along_axis(values, pair[..., np.newaxis], axis=-1)
    return entries[..., 0]


def _gain_over_center(
    noisy_weights: np.ndarray, std: np.ndarray, n: int, noise_kind: "NoiseKind"
) -> tuple[np.ndarray, np.ndarray]:
    """Return how much likelier the records are at each pair of edges than at the center.

    The formulas of the log likelihoods are in the docstring of `likeliest_position`.

    Parameters
    ----------
    noisy_weights : array of shape (…, edges)
        The released histogram, or several of them.
    std : array of shape (…, 1) or (1,)
        The standard deviation of the noise in each weight.
    n : int
        The number of records.
    noise_kind : {"gaussian", "laplace"}
        The kind of noise.

    Returns
    -------
    gain : array of shape (…, edges − 1)
        For each pair of neighboring edges, the log likelihood that all records lie
        between them, minus the log likelihood that all are at the center.
    expected_gain : array of shape (…, 1) or (1,)
        About how much likelier the true pair is than pure noise, as a logarithm. If
        this is small, pairs cannot be told apart.
    """
    y_lower = noisy_weights[..., :-1]
    y_upper = noisy_weights[..., 1:]
    center = noisy_weights.shape[-1] // 2
    y_center = noisy_weights[..., [center]]
    # True weights are not negative.
    lower = np.maximum(y_lower, 0.0)
    upper = np.maximum(y_upper, 0.0)

    if noise_kind == "gaussian":
        likelihood_factor = n / std**2
        log_likelihood = likelihood_factor * np.sqrt(upper**2 + lower**2)
        log_likelihood_at_center = likelihood_factor * y_center
        expected_gain = (n / std) ** 2 / 2
        return log_likelihood - log_likelihood_at_center, expected_gain

    # Laplace noise of standard deviation σ has the scale σ/√2.
    inverse_scale = sqrt(2) / std
    upper_weight = upper / np.maximum(lower + upper, _TINY)
    gain_of_lower = _laplace_log_likelihood_ratio(y_lower, n * (1 - upper_weight))
    gain_of_upper = _laplace_log_likelihood_ratio(y_upper, n * upper_weight)
    log_likelihood = inverse_scale * (gain_of_lower + gain_of_upper)
    log_likelihood_at_center = inverse_scale * _laplace_log_likelihood_ratio(
        y_center, n
    )
    expected_gain = inverse_scale * n
    return log_likelihood - log_likelihood_at_center, expected_gain


def _laplace_log_likelihood_ratio(noisy: np.ndarray, expected: Any) -> np.ndarray:
    """Return the log likelihood ratio of two means of a number with Laplace noise.

    It is |y| − |y − m| in units of 1/b, where y is the noisy number, m its expected
    value under the alternative (0 under the null hypothesis), and b the noise scale.

    Parameters
    ----------
    noisy : array
        The noisy numbers y.
    expected : float or array
        The alternative m for each number.
    """
    return np.asarray(np.abs(noisy) - np.abs(noisy - expected))


def _position_between_edges(
    lower: np.ndarray, upper: np.ndarray, noise_kind: "NoiseKind"
) -> np.ndarray:
    """Return the position of a record inside its bin, from its weights at the two edges.

    This inverts `_edge_weights`; a common factor of both weights has no effect.

    Parameters
    ----------
    lower, upper : arrays
        The weights at the lower and at the upper edge.
    noise_kind : {"gaussian", "laplace"}
        The kind of noise, which decides how weights are divided.

    Returns
    -------
    array
        The positions, from 0 at the lower edge to 1 at the upper edge.
    """
    if noise_kind == "laplace":
        return np.asarray(upper / np.maximum(lower + upper, _TINY))
    return np.asarray(np.arctan2(upper, lower) / (pi / 2))


def rescale_factor(
    manifold: Manifold, center: np.ndarray, factor_index: int, length: float
) -> np.ndarray:
    """Return a point with one of its factors, a cone of matrices, rescaled.

    Parameters
    ----------
    manifold : Manifold
        The space of the point, usually a product.
    center : array of shape point_shape
        The point. Its factor at `factor_index` is a positive definite matrix.
    factor_index : int
        The index of the factor that is rescaled.
    length : float
        The signed geodesic length by which the factor moves; positive toward larger
        multiples.

    Returns
    -------
    array of shape point_shape
        The new point, or the old one if doubles cannot hold the new one.
    """
    cone = manifold.factors[factor_index]
    components = list(split_into_factors(manifold, center))
    matrix = components[factor_index]
    step = length * scaling_direction(cone, matrix)
    components[factor_index] = np.asarray(cone.from_normal_coordinates(matrix, step))
    return point_or_fallback(
        manifold, lambda: join_factors(manifold, components), center
    )


def scale_histogram_of_factor(
    center: np.ndarray,
    factor_index: int,
    bins: Bins,
    manifold: Manifold,
    points: np.ndarray,
) -> np.ndarray:
    """Return a histogram of the scales of points in one factor of the manifold.

    The query `scale_histogram` adds these histograms up over all blocks of records.

    Parameters
    ----------
    center : array of shape point_shape
        A public point. The scales of the records are measured relative to its scale.
    factor_index : int
        The index of the factor, which is a cone of matrices.
    bins : Bins
        The public bins of log scales.
    manifold : Manifold
        The space of the points, a product of several factors.
    points : array of shape (records, *point_shape)
        The records.

    Returns
    -------
    array of int, shape (2·half_count + 1,)
        The sum of the points' weights at each edge, in units of 2^-20.
    """
    lower_edges, weights = edge_weights_of_factor(
        manifold, center, factor_index, bins, points
    )
    return _histogram_of_weights(bins, lower_edges, weights)


def histogram_along_axis(axis: np.ndarray, bins: Bins, logs: np.ndarray) -> np.ndarray:
    """Return a histogram of the components of vectors along an axis.

    If the axis points to the multiples of a matrix, the components are log scales.

    Parameters
    ----------
    axis : array of shape (dim,)
        A unit vector.
    bins : Bins
        The public bins of components.
    logs : array of shape (records, dim)
        The vectors: the logarithms of the records.

    Returns
    -------
    array of int, shape (2·half_count + 1,)
        The sum of the vectors' weights at each edge, in units of 2^-20.
    """
    lower_edges, weights = _edge_weights(axis, bins, logs)
    return _histogram_of_weights(bins, lower_edges, weights)


def _histogram_of_weights(
    bins: Bins, lower_edges: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Sum up the weights of all records at each edge of the bins.

    Parameters
    ----------
    bins : Bins
        The public bins.
    lower_edges : array of int, shape (k,)
        The index of the lower edge of each record's bin.
    weights : array of shape (2, k)
        The weights of each record at the lower and at the upper edge of its bin. They
        are multiples of 2^-20.

    Returns
    -------
    array of int, shape (2·half_count + 1,)
        The sum at each edge, in units of 2^-20.
    """
    n_edges = 2 * bins.half_count + 1
    whole_weights = WEIGHT_RESOLUTION * weights  # whole numbers: sums are exact
    at_lower_edges = np.bincount(lower_edges, whole_weights[0], n_edges)
    at_upper_edges = np.bincount(lower_edges + 1, whole_weights[1], n_edges)
    return np.asarray(at_lower_edges + at_upper_edges).astype(np.int64)


def edge_weights_of_factor(
    manifold: Manifold,
    center: np.ndarray,
    factor_index: int,
    bins: Bins,
    points: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each point's scale in one factor, and its weights at the edges.

    Parameters
    ----------
    manifold : Manifold
        The space of the points, usually a product.
    center : array of shape point_shape
        The public point from which scales are measured.
    factor_index : int
        The index of the factor, which is a cone of matrices.
    bins : Bins
        The public bins.
    points : array of shape (k, *point_shape)
        The records.

    Returns
    -------
    lower_edges : array of int, shape (k,)
        The index of the lower edge of each point's bin, from 0 to 2·half_count − 1.
    weights : array of shape (2, k)
        The weights of each point at the lower and at the upper edge of its bin.
    """
    factor = manifold.factors[factor_index]
    factor_center = np.asarray(split_into_factors(manifold, center)[factor_index])
    factor_points = np.asarray(split_into_factors(manifold, points)[factor_index])
    logs = logs_at(factor, factor_center, factor_points)
    return _edge_weights(scaling_direction(factor, factor_center), bins, logs)


def _edge_weights(
    axis: np.ndarray, bins: Bins, logs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each vector's component along an axis, and weights at its edges.

    A component at the fraction f of the way from the lower to the upper edge of its bin
    has the weights (cos(πf/2), sin(πf/2)), whose length is 1; for Laplace noise it has
    (1 − f, f), whose sum is 1. The weights encode the position inside the bin and cost
    no more privacy than a count: they are nonnegative, so those of two records differ
    by at most √2, or by 2 in the ℓ₁ norm.

    Parameters
    ----------
    axis : array of shape (dim,)
        A unit vector.
    bins : Bins
        The public bins. A component outside all bins counts in the outermost one.
    logs : array of shape (k, dim)
        The vectors: logarithms of records.

    Returns
    -------
    lower_edges : array of int, shape (k,)
        The index of the lower edge of each record's bin, from 0 to 2·half_count − 1.
    weights : array of shape (2, k)
        The weights at the lower and at the upper edge, rounded down to 2^-20.
    """
    position = np.clip((logs @ axis) / bins.width, -bins.half_count, bins.half_count)
    lower = np.minimum(np.floor(position), bins.half_count - 1)
    fraction = position - lower
    if bins.noise_kind == "laplace":
        weights = np.stack((1 - fraction, fraction))
    else:
        weights = np.stack((np.cos(pi / 2 * fraction), np.sin(pi / 2 * fraction)))
    rounded_down = np.floor(WEIGHT_RESOLUTION * weights) / WEIGHT_RESOLUTION
    return lower.astype(np.int64) + bins.half_count, rounded_down


def point_or_fallback(
    manifold: Manifold, compute_point: Callable[[], Any], fallback: np.ndarray
) -> np.ndarray:
    """Compute a point from released numbers, or return a fallback if that fails.

    It fails if doubles cannot hold the point. Since it depends on released numbers
    only, this is post-processing.

    Parameters
    ----------
    manifold : Manifold
        The space of the point.
    compute_point : function without arguments
        Returns the point, or raises.
    fallback : array of shape point_shape
        The point that is returned if the computation fails.

    Returns
    -------
    array of shape point_shape
        A valid point of the manifold.
    """
    try:
        with np.errstate(all="ignore"):
            return check_point("center", manifold, compute_point())
    except (CurvedpError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return fallback
