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

from functools import partial
from math import inf, nextafter, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.statistic import Ball
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import split_into_factors
from curvedp.mechanisms.staged.scale_search import (
    WEIGHT_RESOLUTION,
    Bins,
    histogram_along_axis,
    scale_histogram_of_factor,
    scaling_direction,
)
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import Records, open_records
from curvedp.statistics.searched_ball import SearchedBallStatistic
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# A relative margin for the rounding of a few operations; it costs next to no privacy.
_ROUNDING_MARGIN = 1e-9


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
            count_block: Any = partial(histogram_along_axis, axis, bins)
            return self._count(count_block, n_edges, center) / WEIGHT_RESOLUTION

        count_block = partial(scale_histogram_of_factor, center, factor_index, bins)
        return self._count(count_block, n_edges) / WEIGHT_RESOLUTION

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
