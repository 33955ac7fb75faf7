"""The questions about the records that the stages of a release may ask. An answer is
exact and NOT private; noise is added to it by its *sensitivity*, how far it can move if
one record is replaced. A *block* is a part of the records that is read at once; sums
over blocks are sums of whole numbers.

The sensitivities are public. They hold for the *computed* numbers, on any manifold and
for any records.

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


class Answer(NamedTuple):
    """Exact numbers about the records, with their public sensitivity. NOT private.

    Attributes
    ----------
    values : array
        The numbers, such as counts or a mean.
    sensitivity : float
        How far they can move if one record is replaced, in the Euclidean norm.
    """

    values: np.ndarray
    sensitivity: float


class Queries:
    """Exact counts and means of n records in a public outer ball. NOT private.

    Parameters
    ----------
    statistic : SearchedBallStatistic
        The statistic, with the public manifold, outer ball and number n of records.
    records : Records, optional
        The records. If they are None, as in a replay, every answer consists of zeros
        and has the same shape and sensitivity as with records. In a simulation there
        may be k < n records; counts are then multiplied by n/k.
    """

    def __init__(
        self, statistic: SearchedBallStatistic, records: Records | None = None
    ) -> None:
        """Store the records, and whether they must still be clipped into the outer ball.

        Parameters
        ----------
        statistic : SearchedBallStatistic
            The statistic, with the public manifold, outer ball and number n of records.
        records : Records, optional
            The records; None in a replay.
        """
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

        The factor is a cone of matrices; the scale of a matrix is its unit of
        measurement. Each record adds weights to the two edges of its bin
        (`_edge_weights`). The sensitivity of the histogram is √2 in the Euclidean norm
        for bins made for Gaussian noise, and 2 in the ℓ₁ norm for Laplace noise.

        Parameters
        ----------
        center : array of shape point_shape
            The public point from which scales are measured.
        factor_index : int
            The index of the factor.
        bins : Bins
            The public bins.

        Returns
        -------
        array of shape (2·half_count + 1,)
            The sum of the records' weights at each edge, from small to large scales.
        """
        n_edges = 2 * bins.half_count + 1
        if len(self._manifold.factors) == 1:
            # The logarithms at the center are cached: the next query may need them.
            axis = scaling_direction(self._manifold, center)
            count_block: Any = partial(_sum_edge_weights_of_logs, axis, bins)
            return self._count(count_block, n_edges, center) / _WEIGHT_RESOLUTION

        count_block = partial(_sum_edge_weights_of_factor, center, factor_index, bins)
        return self._count(count_block, n_edges) / _WEIGHT_RESOLUTION

    def mean_embedding(self, factor_index: int) -> Answer:
        """Return the mean of the records' embedded points in one factor of the manifold.

        A search for a ball takes a first center from it.

        Parameters
        ----------
        factor_index : int
            The index of the factor, which must be embedded in a vector space
            (`EmbeddedMean`).

        Returns
        -------
        Answer
            The mean vector, and its sensitivity.
        """
        factor = self._manifold.factors[factor_index]
        assert isinstance(factor, EmbeddedMean)
        grid = FixedPoint(2.0)
        size = np.asarray(factor.embed(factor.origin)).size
        mean = self.mean(partial(_sum_embedded, factor_index, grid), grid, size)

        # If one of n vectors is replaced, the mean moves by at most diameter/n. Vectors
        # of length at most diameter/2 have the same sensitivity.
        half_diameter = factor.embedded_diameter / 2
        return Answer(mean, mean_sensitivity(half_diameter, grid, size, self._n))

    def count_beyond(self, center: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records are farther from a center than each of several radii.

        Each count has sensitivity 1.

        Parameters
        ----------
        center : array of shape point_shape
            A public point.
        radii : array of shape (k,)
            The public radii.

        Returns
        -------
        array of shape (k,)
            One count for each radius, as floats.
        """
        counts = self._count(partial(_count_longer, radii), len(radii), center)
        return counts.astype(np.float64)

    def mean_clipped_log(self, center: np.ndarray, radius: float) -> Answer:
        """Return the mean of the records' logarithms at a center, each clipped to a radius.

        Parameters
        ----------
        center : array of shape point_shape
            The public point at which logarithms are taken.
        radius : float
            Longer logarithms are shortened to this length.

        Returns
        -------
        Answer
            The mean in coordinates at the center, shape (dim,), and its sensitivity.
        """
        dim = self._manifold.dim
        grid = FixedPoint(2 * radius)
        mean = self.mean(partial(sum_clipped, radius, grid), grid, dim, center)
        return Answer(mean, mean_sensitivity(radius, grid, dim, self._n))

    def hessian_excess(
        self, center: np.ndarray, radius: float, direction: np.ndarray
    ) -> Answer:
        """Return two means from which the mean Hessian along a direction follows.

        Half the squared distance to a record at distance s, in hyperbolic space of
        curvature −1, has the Hessian 1 along the geodesic to the record, and s·coth s
        across it. Let t = s·coth s − 1, with s clipped to the radius, and φ the angle
        between the direction and the geodesic. Then the mean Hessian along the
        direction is 1 + mean(t) − mean(t·cos²φ).

        Parameters
        ----------
        center : array of shape point_shape
            The public point at which the Hessian is taken.
        radius : float
            Distances are clipped to this number.
        direction : array of shape (dim,)
            The direction, in coordinates at the center; its length has no effect.

        Returns
        -------
        Answer
            The numbers mean(t) and mean(t·cos²φ). Each moves by at most t(radius)/n if
            one record is replaced, so the pair moves by at most √2 times that.
        """
        root_curvature = sqrt(abs(self._manifold.constant_curvature or 0.0))
        largest_excess = float(
            _hessian_excess_at(np.asarray(radius), radius, root_curvature)
        )
        grid = FixedPoint(2 * largest_excess)
        length = float(np.linalg.norm(direction))
        axis = direction / length if length > 0 else direction

        sum_block = partial(_sum_hessian_excess, radius, root_curvature, axis, grid)
        mean = self.mean(sum_block, grid, 2, center)
        # A number in [0, t(radius)] moves a mean as much as one of length t(radius)/2.
        sensitivity = mean_sensitivity(largest_excess / 2, grid, 2, self._n)
        return Answer(mean, sqrt(2) * sensitivity * (1 + _ROUNDING_MARGIN))

    def mean(
        self,
        sum_block: Any,
        grid: FixedPoint,
        size: int,
        center: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the mean over all records of a vector that is computed from each record.

        Parameters
        ----------
        sum_block : function
            Maps some of the records to the exact sum of their vectors, in `grid`. It
            takes (manifold, points), or, if `center` is given, the logarithms of the
            points at the center.
        grid : FixedPoint
            The grid to which the entries of the vectors are rounded.
        size : int
            The number of entries of a vector.
        center : array of shape point_shape, optional
            The public point at which logarithms are taken.

        Returns
        -------
        array of shape (size,)
            The mean; zeros in a replay, which has no records.
        """
        if self._records is None:
            return np.zeros(size)
        # Exact sums have a high and a low part.
        sums = self._sum(self._records, sum_block, center).reshape(2, size)
        return grid.mean(sums, self._records.n)

    def logs(self, center: np.ndarray) -> Records:
        """Return the logarithms of the records at a center.

        The records must be in memory. The last result is cached, so that another query
        at the same center is fast.

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
        self, count_block: Any, size: int, center: np.ndarray | None = None
    ) -> np.ndarray:
        """Return counts over all records; zeros in a replay, which has no records.

        If a simulation has k records instead of n, counts are multiplied by n/k.

        Parameters
        ----------
        count_block : function
            Counts among some of the records. It takes (manifold, points), or, if
            `center` is given, the logarithms of the points at the center.
        size : int
            The number of counts.
        center : array of shape point_shape, optional
            The public point at which logarithms are taken.

        Returns
        -------
        array of shape (size,)
            The counts. NOT private.
        """
        if self._records is None:
            return np.zeros(size, dtype=np.int64)
        counts = self._sum(self._records, count_block, center)
        if self._records.n == self._n:
            return counts
        return np.round(counts * (self._n / self._records.n))

    def _sum(
        self, records: Records, sum_block: Any, center: np.ndarray | None
    ) -> np.ndarray:
        """Return a sum of whole numbers over all records, a block of records at a time.

        All counts and means are such sums. Records are read in blocks, because they
        need not fit in memory.

        Parameters
        ----------
        records : Records
            The records.
        sum_block : function
            Maps a block of records to an array of whole numbers. It takes (manifold,
            points), or, if `center` is given, the logarithms of the points at the
            center.
        center : array of shape point_shape, or None
            The public point at which logarithms are taken.

        Returns
        -------
        array of int
            The sum of `sum_block` over all blocks.
        """
        are_clipped = self._outer_ball is None
        if center is not None and are_clipped:
            # Records in memory: their logarithms are cached for the next query.
            with np.errstate(all="ignore"):  # a data-dependent warning is a release
                return self.logs(center).sums(sum_block)

        if center is not None:
            sum_block = partial(_apply_to_logs, center, sum_block)
        return records.sums(
            partial(_apply_to_clipped, self._manifold, self._outer_ball, sum_block)
        )


def mean_sensitivity(bound: float, grid: FixedPoint, size: int, n: int) -> float:
    """Return how far a computed mean of n vectors can move if one is replaced.

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


def likeliest_bin(
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
    competitors = np.where(can_tell_apart, _pairs_as_near(n_pairs, center), n_pairs)
    penalized_gain = gain - 2 * np.log(competitors)

    # The best pair of edges, and where between the two the records are.
    best_pair = np.argmax(penalized_gain, axis=-1)
    best_gain = _entry_of_pair(penalized_gain, best_pair)
    weights = np.maximum(noisy_weights, 0.0)
    lower_weight = _entry_of_pair(weights[..., :-1], best_pair)
    upper_weight = _entry_of_pair(weights[..., 1:], best_pair)
    position = _position_between_edges(lower_weight, upper_weight, noise_kind)
    return np.where(best_gain > 0, best_pair - center + position, 0.0)


def _pairs_as_near(n_pairs: int, center: int) -> np.ndarray:
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

    The formulas of the log likelihoods are in the docstring of `likeliest_bin`.

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
    gain_of_lower = _laplace_gain(y_lower, n * (1 - upper_weight))
    gain_of_upper = _laplace_gain(y_upper, n * upper_weight)
    log_likelihood = inverse_scale * (gain_of_lower + gain_of_upper)
    log_likelihood_at_center = inverse_scale * _laplace_gain(y_center, n)
    expected_gain = inverse_scale * n
    return log_likelihood - log_likelihood_at_center, expected_gain


def _laplace_gain(noisy: np.ndarray, expected: Any) -> np.ndarray:
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


# ---- exact sums over a block of records ----


def sum_clipped(radius: float, grid: FixedPoint, logs: np.ndarray) -> np.ndarray:
    """Return the exact sum of vectors that are clipped to a radius.

    Parameters
    ----------
    radius : float
        Longer vectors are shortened to this length.
    grid : FixedPoint
        The grid to which entries are rounded.
    logs : array of shape (k, dim)
        The vectors: the logarithms of k records.

    Returns
    -------
    array of int, shape (2·dim,)
        The high parts of the sums of all entries, then the low parts.
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        return np.asarray(grid.sums(clip_rows_to(logs, radius)).ravel())


def _apply_to_clipped(
    manifold: Manifold, outer_ball: Ball | None, sum_points: Any, block: Any
) -> np.ndarray:
    """Apply a function to a block of records, after clipping them into the outer ball.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    outer_ball : Ball or None
        The public outer ball; None if the records have been clipped before.
    sum_points : function of (manifold, points)
        Returns an array of whole numbers, such as counts or an exact sum over points.
    block : array of shape (k, *point_shape)
        The records: some of all that there are.

    Returns
    -------
    array of int
        The value of the function.
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        points = np.asarray(block, dtype=np.float64)
        if outer_ball is not None:
            points = np.asarray(project_to_ball(manifold, *outer_ball, points))
        return np.asarray(sum_points(manifold, points), dtype=np.int64)


def _apply_to_logs(
    center: np.ndarray, sum_logs: Any, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    """Apply a function to the logarithms of points at a center.

    Parameters
    ----------
    center : array of shape point_shape
        The public point at which logarithms are taken.
    sum_logs : function of an array of shape (k, dim)
        Maps logarithms to whole numbers, such as counts or an exact sum.
    manifold : Manifold
        The space of the points.
    points : array of shape (k, *point_shape)
        The records.

    Returns
    -------
    array of int
        The value of the function.
    """
    return np.asarray(sum_logs(logs_at(manifold, center, points)))


def _count_longer(radii: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return how many vectors are longer than each of several radii.

    Parameters
    ----------
    radii : array of shape (r,)
        The radii.
    logs : array of shape (k, dim)
        The vectors: the logarithms of k records.

    Returns
    -------
    array of int, shape (r,)
        One count for each radius.
    """
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
    return _sum_edge_weights(bins, lower_edges, weights)


def _sum_edge_weights_of_logs(
    axis: np.ndarray, bins: Bins, logs: np.ndarray
) -> np.ndarray:
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
    return _sum_edge_weights(bins, lower_edges, weights)


def _sum_edge_weights(
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
    whole_weights = _WEIGHT_RESOLUTION * weights  # whole numbers: sums are exact
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
    rounded_down = np.floor(_WEIGHT_RESOLUTION * weights) / _WEIGHT_RESOLUTION
    return lower.astype(np.int64) + bins.half_count, rounded_down


def _sum_embedded(
    factor_index: int, grid: FixedPoint, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    """Return the exact sum of the embedded points of one factor of the manifold.

    Parameters
    ----------
    factor_index : int
        The index of the factor, which is embedded in a vector space (`EmbeddedMean`).
    grid : FixedPoint
        The grid to which entries are rounded.
    manifold : Manifold
        The space of the points, usually a product.
    points : array of shape (k, *point_shape)
        The records. Entries of embedded points that are not finite count as zero.

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
    """Return the Hessian excess s·coth s − 1 of records in hyperbolic space.

    Here s is the distance to the record in radii of curvature.

    Parameters
    ----------
    distance : array
        The distances to the records.
    radius : float
        Distances beyond it count as the radius.
    root_curvature : float
        √|κ|, where κ < 0 is the curvature of the space.
    """
    # Smaller s are raised to 1e-4, where the value is below 1e-8, to avoid 0/0.
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

    Here t = s·coth s − 1 for a record at distance s in radii of curvature, and φ is the
    angle between the axis and the direction to the record. The mean Hessian of half the
    squared distance along the axis is 1 + mean(t) − mean(t·cos²φ).

    Parameters
    ----------
    radius : float
        Distances beyond it count as the radius.
    root_curvature : float
        √|κ|, where κ < 0 is the curvature of the space.
    axis : array of shape (dim,)
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
