"""The questions that a release in stages may ask about the records.

Every answer comes with its sensitivity: how far it can move if one record is replaced.
The sensitivities hold for the *computed* numbers, on any manifold and for any records.

Answers are exact sums of whole numbers, so they do not depend on the order or grouping
of the records. Clipping comes last, and no rounding of one record depends on another.

Sensitivities (replace-one), with proofs in docs/theory/private-ball.md:

- a count of records with a property moves by 1;
- a mean of n vectors of length at most B moves by 2B/n;
- a histogram in which each record has weights at two neighboring edges moves by √2 in
  the Euclidean norm if the two weights are nonnegative and of length 1, and by 2 in the
  ℓ₁ norm if they are of sum 1.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, inf, log, nextafter, pi, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from curvedp.core.statistic import Ball, check_point
from curvedp.errors import CurvedpError
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import Records, open_records
from curvedp.statistics.searched_ball import SearchedBallStatistic
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

if TYPE_CHECKING:
    # It imports the laws, which a process of a federated site must not.
    from curvedp.mechanisms.vector import NoiseKind

# The weights of a record at the edges of its bin are whole multiples of 2^-20. They are
# rounded down, so that no pair of weights becomes longer.
_WEIGHT_RESOLUTION = 2.0**20

# A relative margin for the rounding of a few operations; it costs next to no privacy.
_ROUNDING_MARGIN = 1e-9

# Any unit of measurement that doubles hold is within this distance of 1, times √m, on a
# cone of m × m matrices.
_FARTHEST_UNIT = 100

# Keeps a quotient of two numbers finite if both are 0.
_TINY = 1e-300


class Bins(NamedTuple):
    """Bins of the log scale of a cone of matrices, on both sides of a public center.

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


class Answer(NamedTuple):
    """An exact answer about the records. NOT private.

    Attributes
    ----------
    values : array
        The numbers.
    sensitivity : float
        How far they can move if one record is replaced, in the Euclidean norm.
    """

    values: np.ndarray
    sensitivity: float


class Queries:
    """Questions about n records in a public outer ball. The answers are NOT private.

    Parameters
    ----------
    statistic : SearchedBallStatistic
        States the manifold, the outer ball and n, which are public.
    records : Records, optional
        The records. Without them every answer is zero, of the right shape and with the
        right sensitivity, which is what a replay needs. Simulations may give k records
        that stand for n of their kind; counts are then multiplied by n/k.
    """

    def __init__(
        self, statistic: SearchedBallStatistic, records: Records | None = None
    ) -> None:
        self._manifold = statistic.manifold
        self._n = statistic.n
        self._records = records
        # Records in memory have been clipped into the outer ball before; others have
        # not.
        is_clipped = records is None or records.location == "memory"
        self._outer_ball: Ball | None = None if is_clipped else statistic.outer_ball
        self._cached_center: np.ndarray | None = None
        self._cached_logs: Records | None = None

    def scale_histogram(
        self, center: np.ndarray, factor_index: int, bins: Bins
    ) -> np.ndarray:
        """Return a histogram of the records' scales in one factor of the manifold.

        The factor is a cone of matrices, and its scale is its unit of measurement. Each
        record has weights at the two edges of its bin (`_edge_weights`). The sensitivity
        is √2 in the Euclidean norm for Gaussian bins, and 2 in the ℓ₁ norm for Laplace.

        Parameters
        ----------
        center : array
            The public point from which scales are measured.
        factor_index : int
            Which factor of the manifold.
        bins : Bins

        Returns
        -------
        array, shape (2·half_count + 1,)
            The sum of the records' weights at each edge, from small to large scales.
        """
        n_edges = 2 * bins.half_count + 1
        if len(self._manifold.factors) == 1:
            # The logarithms at the center may serve the next question, too.
            axis = scaling_direction(self._manifold, center)
            kernel: Any = partial(_sum_edge_weights_of_logs, axis, bins)
            return self._count(kernel, n_edges, center) / _WEIGHT_RESOLUTION

        kernel = partial(_sum_edge_weights_of_factor, center, factor_index, bins)
        return self._count(kernel, n_edges) / _WEIGHT_RESOLUTION

    def mean_embedding(self, factor_index: int) -> Answer:
        """Return the mean of the records' embedded points in one factor of the manifold.

        Parameters
        ----------
        factor_index : int
            Which factor. It must be embedded in a vector space (`EmbeddedMean`).
        """
        factor = self._manifold.factors[factor_index]
        assert isinstance(factor, EmbeddedMean)
        grid = FixedPoint(2.0)
        size = np.asarray(factor.embed(factor.origin)).size
        mean = self.mean(partial(_sum_embedded, factor_index, grid), grid, size)

        # Points of a set of this diameter move as vectors of half that length do.
        longest = factor.embedded_diameter / 2
        return Answer(mean, mean_sensitivity(longest, grid, size, self._n))

    def count_beyond(self, center: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records are farther from a center than each of several radii.

        Each count has sensitivity 1.

        Parameters
        ----------
        center : array
        radii : array
        """
        counts = self._count(partial(_count_longer, radii), len(radii), center)
        return counts.astype(np.float64)

    def mean_clipped_log(self, center: np.ndarray, radius: float) -> Answer:
        """Return the mean of the records' logarithms at a center, each clipped to a radius.

        Parameters
        ----------
        center : array
        radius : float
            Logarithms that are longer are shortened to this length.

        Returns
        -------
        Answer
            The mean in coordinates at the center, shape (dim,).
        """
        dim = self._manifold.dim
        grid = FixedPoint(2 * radius)
        mean = self.mean(partial(sum_clipped, radius, grid), grid, dim, center)
        return Answer(mean, mean_sensitivity(radius, grid, dim, self._n))

    def hessian_excess(
        self, center: np.ndarray, radius: float, direction: np.ndarray
    ) -> Answer:
        """Return two means that give the mean Hessian of ½d² along a direction.

        In hyperbolic space of curvature −1 the Hessian of ½d² at distance s from a
        record is 1 along the geodesic to the record, and s·coth s across it. Let
        t = s·coth s − 1, with s clipped to the radius, and φ the angle between the
        direction and the geodesic. Then the mean Hessian along the direction is
        1 + mean(t) − mean(t·cos²φ).

        Parameters
        ----------
        center : array
            Where the Hessian is taken.
        radius : float
        direction : array, shape (dim,)
            In coordinates at the center, of any length.

        Returns
        -------
        Answer
            (mean(t), mean(t·cos²φ)). Each mean moves by at most t(radius)/n, so both
            together by √2 times that.
        """
        root_curvature = sqrt(abs(self._manifold.constant_curvature or 0.0))
        largest = float(_hessian_excess_at(np.asarray(radius), radius, root_curvature))
        grid = FixedPoint(2 * largest)
        length = float(np.linalg.norm(direction))
        axis = direction / length if length > 0 else direction

        kernel = partial(_sum_hessian_excess, radius, root_curvature, axis, grid)
        mean = self.mean(kernel, grid, 2, center)
        sensitivity = mean_sensitivity(largest / 2, grid, 2, self._n)
        return Answer(mean, sqrt(2) * sensitivity * (1 + _ROUNDING_MARGIN))

    def mean(
        self,
        kernel: Any,
        grid: FixedPoint,
        size: int,
        center: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the mean over all records of vectors that a kernel sums up.

        Parameters
        ----------
        kernel : function
            Takes a block of records and returns exact sums of their vectors, in `grid`.
            With `center` it takes the logarithms of the records instead.
        grid : FixedPoint
            The grid to which the entries of the vectors are rounded.
        size : int
            The number of entries of a vector.
        center : array, optional
            Where logarithms are taken.

        Returns
        -------
        array, shape (size,)
            The mean, or zeros without records.
        """
        if self._records is None:
            return np.zeros(size)
        # Exact sums have a high and a low part.
        sums = self._sum(self._records, kernel, center).reshape(2, size)
        return grid.mean(sums, self._records.n)

    def logs(self, center: np.ndarray) -> Records:
        """Return the logarithms of the records, which are in memory, at a center.

        The last result is cached, so that another question at the same center is fast.

        Parameters
        ----------
        center : array of shape point_shape
            A public point.

        Returns
        -------
        Records
            Vectors of shape (dim,), one for each record.
        """
        assert self._records is not None  # a replay reads nothing
        is_cached = self._cached_center is not None and np.array_equal(
            self._cached_center, center
        )
        if not is_cached:
            logs = logs_at(self._manifold, center, self._records.array())
            self._cached_center = center
            self._cached_logs = open_records(logs, (self._manifold.dim,), min_records=0)
        assert self._cached_logs is not None
        return self._cached_logs

    def _count(
        self, kernel: Any, size: int, center: np.ndarray | None = None
    ) -> np.ndarray:
        """Return counts over all records, or zeros without records.

        If there are k records that stand for n, counts are multiplied by n/k.

        Parameters
        ----------
        kernel : function
            Takes a block of records, or of their logarithms at `center`, and returns
            its counts.
        size : int
            The number of counts.
        center : array, optional
        """
        if self._records is None:
            return np.zeros(size, dtype=np.int64)
        total = self._sum(self._records, kernel, center)
        if self._records.n == self._n:
            return total
        return np.round(total * (self._n / self._records.n))

    def _sum(
        self, records: Records, kernel: Any, center: np.ndarray | None
    ) -> np.ndarray:
        """Return the sum of what a kernel returns for each block of records.

        Parameters
        ----------
        records : Records
        kernel : function
            Takes a block of records, or of their logarithms if `center` is given, and
            returns whole numbers.
        center : array or None
            Where logarithms are taken.
        """
        are_clipped = self._outer_ball is None
        if center is not None and are_clipped:
            with np.errstate(all="ignore"):  # a data-dependent warning is a release
                return self.logs(center).sums(kernel)

        if center is not None:
            kernel = partial(_apply_to_logs, center, kernel)
        return records.sums(
            partial(_apply_to_clipped, self._manifold, self._outer_ball, kernel)
        )


def mean_sensitivity(bound: float, grid: FixedPoint, size: int, n: int) -> float:
    """Return how far a computed mean of n vectors moves if one of them is replaced.

    Parameters
    ----------
    bound : float
        The largest length of a vector.
    grid : FixedPoint
        The grid to which the entries of the vectors are rounded.
    size : int
        The number of entries of a vector.
    n : int
        The number of vectors.

    Returns
    -------
    float
        2·bound/n, enlarged by the rounding of entries, of lengths (a few units in the
        last place for each coordinate) and of the mean itself.
    """
    rounding_of_length = _ROUNDING_MARGIN + 4 * (size + 8) * 2.0**-52
    longest = bound * (1 + rounding_of_length) + sqrt(size) * grid.resolution / 2
    rounding_of_mean = sqrt(size) * bound * 2.0**-51
    return nextafter(2 * longest / n + rounding_of_mean, inf)


# ---- the unit of measurement of a cone ----


def scaling_direction(cone: Manifold, center: np.ndarray) -> np.ndarray:
    """Return the direction in which a cone of matrices is scaled.

    Returns
    -------
    array, shape (dim,)
        The unit vector, in coordinates at the center, that points to multiples of it.
    """
    coordinates = np.asarray(cone.normal_coordinates(center, np.e * center))
    return np.asarray(coordinates / np.linalg.norm(coordinates))


def half_bin_count(cone: Manifold, outer_radius: float, width: float) -> int:
    """Return how many bins of a cone's log scale there are on each side of the center.

    They reach to the outer radius, or to the largest unit of measurement that doubles
    hold, if that is nearer.

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


def likeliest_bin(
    noisy_weights: np.ndarray, noise_std: Any, n: int, noise_kind: "NoiseKind"
) -> np.ndarray:
    """Return where most records are, by a noisy histogram of edge weights.

    A wrong unit of measurement is of no use, so the answer is the center unless there
    is evidence against it. Two neighboring edges are chosen if the log likelihood that
    all n records lie between them exceeds that of the center by more than 2·log(k). Here
    k is the number of pairs of edges that are as near to the center; it is the number
    of all pairs if there are too few records to tell pairs apart.

    Let y₁ and y₂ be the noisy weights at the two edges. For Gaussian noise of standard
    deviation σ the log likelihood is n·√(y₁² + y₂²)/σ², up to what all pairs have in
    common. For Laplace noise of scale b it is Σ (|yᵢ| − |yᵢ − n·sᵢ|)/b, where s₁ and s₂
    are the weights of a record at the likeliest place between the edges.

    Parameters
    ----------
    noisy_weights : array, shape (…, edges)
        The released histogram, or several of them.
    noise_std : float or array, shape (…)
        The standard deviation of the noise in each weight.
    n : int
        The number of records.
    noise_kind : {"gaussian", "laplace"}

    Returns
    -------
    array, shape (…)
        The distance from the center, in bins; not a whole number in general.
    """
    y_lower = noisy_weights[..., :-1]
    y_upper = noisy_weights[..., 1:]
    n_pairs = y_lower.shape[-1]
    center = noisy_weights.shape[-1] // 2
    y_center = noisy_weights[..., [center]]
    lower = np.maximum(y_lower, 0.0)
    upper = np.maximum(y_upper, 0.0)
    std = np.asarray(noise_std)[..., None]

    if noise_kind == "laplace":
        upper_weight = upper / np.maximum(lower + upper, _TINY)
        inverse_scale = sqrt(2) / std
        log_likelihood = inverse_scale * (
            _laplace_gain(y_lower, n * (1 - upper_weight))
            + _laplace_gain(y_upper, n * upper_weight)
        )
        log_likelihood_at_center = inverse_scale * _laplace_gain(y_center, n)
        largest_gain = inverse_scale * n
    else:
        log_likelihood = n / std**2 * np.sqrt(upper**2 + lower**2)
        log_likelihood_at_center = n / std**2 * y_center
        largest_gain = (n / std) ** 2 / 2

    offset = np.arange(n_pairs) - center
    pairs_as_near = 2 * np.where(offset < 0, -offset, offset + 1)
    can_tell_apart = largest_gain > 2 * log(n_pairs)
    competitors = np.where(can_tell_apart, pairs_as_near, n_pairs)
    gain = log_likelihood - log_likelihood_at_center - 2 * np.log(competitors)

    best = np.argmax(gain, axis=-1)[..., None]
    best_gain = np.take_along_axis(gain, best, -1)[..., 0]
    best_upper = np.take_along_axis(upper, best, -1)[..., 0]
    best_lower = np.take_along_axis(lower, best, -1)[..., 0]
    position = _position_between_edges(best_lower, best_upper, noise_kind)
    return np.where(best_gain > 0, best[..., 0] - center + position, 0.0)


def _laplace_gain(noisy: np.ndarray, expected: Any) -> np.ndarray:
    """Return how much likelier Laplace noise about `expected` is than about 0.

    Returns
    -------
    array
        The log likelihood ratio |y| − |y − expected| for y = `noisy`, in units of 1/b,
        where b is the scale of the noise.
    """
    return np.asarray(np.abs(noisy) - np.abs(noisy - expected))


def _position_between_edges(
    lower: np.ndarray, upper: np.ndarray, noise_kind: "NoiseKind"
) -> np.ndarray:
    """Return where in its bin a record is, from its weights at the two edges.

    This inverts `_edge_weights`, up to a common factor of the weights.

    Parameters
    ----------
    lower, upper : arrays
        The weights at the lower and at the upper edge.
    noise_kind : {"gaussian", "laplace"}
        The kind of noise, which decides how weights are divided.

    Returns
    -------
    array
        Between 0 (at the lower edge) and 1 (at the upper edge).
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
    center : array
        The point.
    factor_index : int
        Which factor of the manifold is rescaled.
    length : float
        How far, as a signed geodesic length in the direction of larger multiples.

    Returns
    -------
    array
        The new point, or the old one if doubles cannot hold the new one.
    """
    cone = manifold.factors[factor_index]
    parts = list(split_into_factors(manifold, center))
    old_part = parts[factor_index]
    step = length * scaling_direction(cone, old_part)
    parts[factor_index] = np.asarray(cone.from_normal_coordinates(old_part, step))
    return point_or_fallback(manifold, lambda: join_factors(manifold, parts), center)


def point_or_fallback(
    manifold: Manifold, compute_point: Callable[[], Any], fallback: np.ndarray
) -> np.ndarray:
    """Compute a point from released numbers, or return a fallback if that fails.

    It fails if doubles cannot hold the point. Since it depends on released numbers only,
    this is post-processing.

    Parameters
    ----------
    manifold : Manifold
    compute_point : function without arguments
        Returns the point, or raises.
    fallback : array
        A point of the manifold.
    """
    try:
        with np.errstate(all="ignore"):
            return check_point("center", manifold, compute_point())
    except (CurvedpError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return fallback


# ---- kernels: exact sums over a block of records ----


def sum_clipped(radius: float, grid: FixedPoint, logs: np.ndarray) -> np.ndarray:
    """Return the exact sum of vectors that are clipped to a radius.

    Parameters
    ----------
    radius : float
        Longer vectors are shortened to this length.
    grid : FixedPoint
        The grid to which entries are rounded.
    logs : array, shape (k, dim)
        The vectors.

    Returns
    -------
    array of int, shape (2·dim,)
        The high parts of the sums, then the low parts.
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        return np.asarray(grid.sums(clip_rows_to(logs, radius)).ravel())


def _apply_to_clipped(
    manifold: Manifold, outer_ball: Ball | None, kernel: Any, block: Any
) -> np.ndarray:
    """Apply a kernel to a block of records, after clipping them into the outer ball.

    Parameters
    ----------
    manifold : Manifold
    outer_ball : Ball or None
        None if the records are clipped already.
    kernel : function of (manifold, points)
        Returns whole numbers.
    block : array, shape (k, *point_shape)
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        points = np.asarray(block, dtype=np.float64)
        if outer_ball is not None:
            points = np.asarray(project_to_ball(manifold, *outer_ball, points))
        return np.asarray(kernel(manifold, points), dtype=np.int64)


def _apply_to_logs(
    center: np.ndarray, kernel: Any, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    """Apply a kernel to the logarithms of points at a center."""
    return np.asarray(kernel(logs_at(manifold, center, points)))


def _count_longer(radii: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return how many rows of `logs` are longer than each of the radii."""
    lengths = np.sort(np.linalg.norm(logs, axis=-1))
    return len(lengths) - np.searchsorted(lengths, radii, side="right")


def _sum_edge_weights_of_factor(
    center: np.ndarray,
    factor_index: int,
    bins: Bins,
    manifold: Manifold,
    points: np.ndarray,
) -> np.ndarray:
    """Return a histogram of the scales of points in one factor of the manifold.

    Parameters
    ----------
    center : array of shape point_shape
        A public point; scales are relative to its own.
    factor_index : int
        The index of the factor.
    bins : Bins
        The bins of log scales.
    manifold : Manifold
        The product.
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
    return _sum_edge_weights(bins, lower_edges, weights)


def _sum_edge_weights_of_logs(
    axis: np.ndarray, bins: Bins, logs: np.ndarray
) -> np.ndarray:
    """Return a histogram of the components of vectors along an axis.

    Parameters
    ----------
    axis : array of shape (dim,)
        A unit vector.
    bins : Bins
        The bins of components.
    logs : array of shape (records, dim)
        The vectors.

    Returns
    -------
    array of int, shape (2·half_count + 1,)
        The sum of the vectors' weights at each edge, in units of 2^-20.
    """
    lower_edges, weights = _edge_weights(axis, bins, logs)
    return _sum_edge_weights(bins, lower_edges, weights)


def _sum_edge_weights(
    bins: Bins, lower_edges: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Sum up the weights of all records at each edge of the bins.

    Parameters
    ----------
    bins : Bins
    lower_edges : array of int, shape (k,)
        The index of the lower edge of each record's bin.
    weights : array, shape (2, k)
        Each record's weight at its lower and at its upper edge, multiples of 2^-20.

    Returns
    -------
    array of int, shape (2·half_count + 1,)
        The sums, in units of 2^-20.
    """
    n_edges = 2 * bins.half_count + 1
    whole_weights = _WEIGHT_RESOLUTION * weights
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
    center : array
        The point from which scales are measured.
    factor_index : int
        Which factor of the manifold, a cone of matrices.
    bins : Bins
    points : array, shape (k, *point_shape)

    Returns
    -------
    lower_edges : array of int, shape (k,)
        The index of the lower edge of each point's bin, from 0 to 2·half_count − 1.
    weights : array, shape (2, k)
        Each point's weight at its lower and at its upper edge.
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

    A record at the fraction f of its bin has the weights (cos(πf/2), sin(πf/2)), of
    length 1, or (1 − f, f), of sum 1, if the noise is Laplace. They tell where in the
    bin the record is, and cost no more privacy than a count does: weights are
    nonnegative, so those of two records differ by at most √2, or by 2 in the ℓ₁ norm.

    Parameters
    ----------
    axis : array, shape (dim,)
        A unit vector.
    bins : Bins
        Components outside all bins count in the outermost ones.
    logs : array, shape (k, dim)

    Returns
    -------
    lower_edges : array of int, shape (k,)
        The index of the lower edge of each record's bin, from 0 to 2·half_count − 1.
    weights : array, shape (2, k)
        The weight at the lower and at the upper edge, rounded down to 2^-20.
    """
    position = np.clip((logs @ axis) / bins.width, -bins.half_count, bins.half_count)
    lower = np.minimum(np.floor(position), bins.half_count - 1)
    fraction = position - lower
    if bins.noise_kind == "laplace":
        weights = np.stack((1 - fraction, fraction))
    else:
        weights = np.stack((np.cos(pi / 2 * fraction), np.sin(pi / 2 * fraction)))
    rounded_down = np.floor(_WEIGHT_RESOLUTION * weights) / _WEIGHT_RESOLUTION
    return lower.astype(np.int64) + bins.half_count, rounded_down


def _sum_embedded(
    factor_index: int, grid: FixedPoint, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    """Return the exact sum of points, embedded by one factor of the manifold.

    Parameters
    ----------
    factor_index : int
        Which factor, an `EmbeddedMean`.
    grid : FixedPoint
        The grid to which entries are rounded.
    manifold : Manifold
    points : array, shape (k, *point_shape)
        An entry of an embedded point that is not finite counts as zero.

    Returns
    -------
    array of int, shape (2·size,)
        The high parts of the sums, then the low parts.
    """
    factor = manifold.factors[factor_index]
    assert isinstance(factor, EmbeddedMean)
    factor_points = np.asarray(split_into_factors(manifold, points)[factor_index])
    embedded = np.asarray(factor.embed(factor_points))
    finite = np.where(np.isfinite(embedded), embedded, 0.0)
    return np.asarray(grid.sums(finite).ravel())


def _hessian_excess_at(
    distance: np.ndarray, radius: float, root_curvature: float
) -> np.ndarray:
    """Return s·coth s − 1, where s = √|κ|·distance and the distance is cut at a radius.

    Parameters
    ----------
    distance : array
    radius : float
    root_curvature : float
        √|κ| of a hyperbolic space.
    """
    # Below 1e-4 the value is less than 1e-8, and it would be 0/0 at 0.
    s = np.maximum(np.minimum(distance, radius) * root_curvature, 1e-4)
    return np.asarray(s / np.tanh(s) - 1)


def _sum_hessian_excess(
    radius: float,
    root_curvature: float,
    axis: np.ndarray,
    grid: FixedPoint,
    logs: np.ndarray,
) -> np.ndarray:
    """Return the exact sums of t and t·cos²φ over records in hyperbolic space.

    Here t = s·coth s − 1 for a record at distance s in units of curvature, and φ is the
    angle between the axis and the record (`Queries.hessian_excess`).

    Parameters
    ----------
    radius : float
        Distances are cut at it.
    root_curvature : float
        √|κ|.
    axis : array, shape (dim,)
        A unit vector.
    grid : FixedPoint
        The grid to which terms are rounded.
    logs : array, shape (k, dim)
        The logarithms of the records.

    Returns
    -------
    array of int, shape (4,)
        The high parts of the two sums, then the low parts.
    """
    clipped = clip_rows_to(logs, radius)
    distances = np.linalg.norm(clipped, axis=-1)
    cosines = (clipped @ axis) / np.maximum(distances, np.finfo(float).tiny)
    t = _hessian_excess_at(distances, radius, root_curvature)
    t_along_axis = t * np.minimum(cosines**2, 1.0)
    terms = np.stack([t, t_along_axis], axis=-1)
    return np.asarray(grid.sums(terms).ravel())
