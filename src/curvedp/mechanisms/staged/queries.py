"""What the stages of a release may ask of the records, with the sensitivity of each answer.

Answers are exact sums of whole numbers, so that they do not depend on the order or
grouping of the records. All sensitivities hold for the *computed* numbers on any
manifold and for any records: clipping comes last, and no rounding of one record depends
on another.

Sensitivities (replace-one): a count of records with a property moves by 1; shares of
records at edges of bins by √2 in the Euclidean norm (2 in sum), because a record has
two nonnegative shares of length 1 (of sum 1); a mean of n vectors of length at most B
by 2B/n. docs/private-ball.md has the proofs.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, frexp, inf, log, nextafter, pi, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from curvedp.core.statistic import Ball, check_point
from curvedp.errors import CurvedpError
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean, fast_normal_coordinates
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import Records, open_records
from curvedp.statistics.searched_ball import SearchedBallStatistic

if TYPE_CHECKING:
    # It imports the laws, which a process of a federated site must not.
    from curvedp.mechanisms.vector import NoiseKind

# Shares of a record at the edges of bins are whole multiples of 2^-20, rounded down,
# which makes no pair of shares longer.
_SHARE_RESOLUTION = 2.0**20


class Bins(NamedTuple):
    """Bins of a cone's scale about a public center.

    Attributes
    ----------
    width : float
    half_count : int
        How many on either side of the center.
    noise_kind : {"gaussian", "laplace"}
        Of the noise to come, by which a record's two shares are chosen.
    """

    width: float
    half_count: int
    noise_kind: "NoiseKind"


class Answer(NamedTuple):
    """An answer about the records, NOT private, and how far it moves between neighbors."""

    values: np.ndarray
    sensitivity: float


class Queries:
    """Questions about n records in a public outer ball.

    Parameters
    ----------
    statistic : SearchedBallStatistic
        Its manifold, outer ball and n are public.
    records : Records, optional
        Without records every answer is zero, of the right shape and with the right
        sensitivity: for replaying a transcript.
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
        """Return, at each edge of bins, the summed shares of the records beside it.

        A bin holds records by the scale of one factor of the manifold, which is a cone
        of matrices: its unit of measurement.
        """
        n_edges = 2 * bins.half_count + 1
        if len(self._manifold.factors) == 1:
            # The logarithms at the center may serve the next question, too.
            axis = scaling_direction(self._manifold, center)
            kernel: Any = partial(_sum_edge_shares_of_logs, axis, bins)
            return self._count(kernel, n_edges, center) / _SHARE_RESOLUTION
        kernel = partial(_sum_edge_shares_of_factor, center, factor_index, bins)
        return self._count(kernel, n_edges) / _SHARE_RESOLUTION

    def mean_embedding(self, factor_index: int) -> Answer:
        """Return the mean of the records' points in the embedding of one factor."""
        factor = self._manifold.factors[factor_index]
        assert isinstance(factor, EmbeddedMean)  # asked for only where it is one
        diameter = factor.embedded_diameter
        grid = FixedPoint(2.0)
        size = np.asarray(factor.embed(factor.origin)).size
        mean = self.mean(partial(_sum_embedded, factor_index, grid), grid, size)
        return Answer(mean, mean_sensitivity(diameter / 2, grid, size, self._n))

    def count_beyond(self, center: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records are farther from the center than each decreasing radius."""
        counts = self._count(partial(_count_longer, radii), len(radii), center)
        return counts.astype(np.float64)

    def mean_clipped_log(self, center: np.ndarray, radius: float) -> Answer:
        """Return the mean of the logarithms at the center, each clipped to the radius."""
        dim = self._manifold.dim
        grid = FixedPoint(2 * radius)
        mean = self.mean(partial(sum_clipped, radius, grid), grid, dim, center)
        return Answer(mean, mean_sensitivity(radius, grid, dim, self._n))

    def hessian_excess(
        self, center: np.ndarray, radius: float, direction: np.ndarray
    ) -> Answer:
        """Return (mean t, mean t·cos²) with t = s·coth s − 1 for the distance s ≤ radius.

        In hyperbolic space the Hessian of ½d² at distance s is 1 along the geodesic and
        s·coth s across it; cos is that of the angle to `direction`. So the mean Hessian
        along the direction is 1 + mean t − mean t·cos².
        """
        root_curvature = sqrt(abs(self._manifold.constant_curvature or 0.0))
        largest = float(_hessian_excess_at(np.asarray(radius), radius, root_curvature))
        grid = FixedPoint(2 * largest)
        length = float(np.linalg.norm(direction))
        axis = direction / length if length > 0 else direction
        kernel = partial(_sum_hessian_excess, radius, root_curvature, axis, grid)
        mean = self.mean(kernel, grid, 2, center)
        sensitivity = mean_sensitivity(largest / 2, grid, 2, self._n)
        return Answer(mean, sqrt(2) * sensitivity * (1 + 1e-9))

    def mean(
        self,
        kernel: Any,
        grid: FixedPoint,
        size: int,
        center: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the mean of what a kernel makes of the records.

        Parameters
        ----------
        kernel : function
            Returns exact sums, in `grid`, over a block of records; of their logarithms
            at `center` where that is given.
        grid : FixedPoint
        size : int
            How many numbers the mean has.
        center : array, optional
        """
        if self._records is None:
            return np.zeros(size)
        sums = self._sum(self._records, kernel, center).reshape(2, size)
        return grid.mean(sums, self._records.n)

    def logs(self, center: np.ndarray) -> Records:
        """Return the logarithms at the center of records in memory, kept for the next question."""
        assert self._records is not None  # a replay reads nothing
        if self._cached_center is None or not np.array_equal(
            self._cached_center, center
        ):
            logs = logs_at(self._manifold, center, self._records.array())
            self._cached_center = center
            self._cached_logs = open_records(logs, (self._manifold.dim,), min_records=0)
        assert self._cached_logs is not None
        return self._cached_logs

    def _count(
        self, kernel: Any, size: int, center: np.ndarray | None = None
    ) -> np.ndarray:
        """Return a kernel's sums over all records, scaled to n where fewer stand for n."""
        if self._records is None:
            return np.zeros(size, dtype=np.int64)
        total = self._sum(self._records, kernel, center)
        if self._records.n == self._n:
            return total
        return np.round(total * (self._n / self._records.n))

    def _sum(
        self, records: Records, kernel: Any, center: np.ndarray | None
    ) -> np.ndarray:
        """Return a kernel's exact sums over the records, or over their logarithms."""
        if center is not None and self._outer_ball is None:
            with np.errstate(all="ignore"):  # a data-dependent warning is a release
                return self.logs(center).sums(kernel)
        if center is not None:
            kernel = partial(_apply_to_logs, center, kernel)
        return records.sums(
            partial(_apply_to_clipped, self._manifold, self._outer_ball, kernel)
        )


def mean_sensitivity(bound: float, grid: FixedPoint, size: int, n: int) -> float:
    """Return how far a computed mean of n vectors moves when one of them is replaced.

    Parameters
    ----------
    bound : float
        The vectors' largest length.
    grid : FixedPoint
        To which their entries are rounded.
    size : int
        The number of entries.
    n : int

    Returns
    -------
    float
        2·bound/n, enlarged by the rounding of entries, of lengths (a few units in the
        last place for each coordinate) and of the mean itself.
    """
    rounded_length = (
        bound * (1 + 1e-9 + 4 * (size + 8) * 2.0**-52)
        + sqrt(size) * grid.resolution / 2
    )
    rounding_of_mean = sqrt(size) * bound * 2.0**-51
    return nextafter(2 * rounded_length / n + rounding_of_mean, inf)


# ---- the unit of measurement of a cone ----


def scaling_direction(cone: Manifold, center: np.ndarray) -> np.ndarray:
    """Return the unit vector, in coordinates at the center, along which a cone is scaled."""
    coordinates = np.asarray(cone.normal_coordinates(center, np.e * center))
    return np.asarray(coordinates / np.linalg.norm(coordinates))


def half_bin_count(cone: Manifold, outer_radius: float, width: float) -> int:
    """Return how many bins of a cone's scale there are on either side of the center.

    They reach to the outer radius, or as far as doubles hold any unit of measurement.
    """
    farthest = min(outer_radius, 100 * sqrt(cone.point_shape[0]))
    return ceil(farthest / width)


def likeliest_bin(
    noisy_shares: np.ndarray, noise_std: Any, n: int, noise_kind: "NoiseKind"
) -> np.ndarray:
    """Return where most records are, in bins from the center, by their noisy edge shares.

    The answer lies between the two neighboring edges that are likeliest if all n
    records were there, or it is the center itself. A pair of edges must be likelier
    than the center by more than the square of the number of pairs that are as near (or
    of all pairs, where records are too few to be seen among them): a wrong unit of
    measurement is of no use.

    For Gaussian noise of deviation σ and shares (s₁, s₂) of length 1 the log-likelihood
    of a pair is n·√(y₁² + y₂²)/σ², up to what all pairs have in common; for Laplace
    noise of deviation √2·b it is Σ (|y| − |y − n·s|)/b.

    Parameters
    ----------
    noisy_shares : array, shape (…, edges)
    noise_std : float or array, shape (…)
    n : int
    noise_kind : {"gaussian", "laplace"}

    Returns
    -------
    array, shape (…)
    """
    lower_edge = noisy_shares[..., :-1]
    upper_edge = noisy_shares[..., 1:]
    n_pairs = lower_edge.shape[-1]
    center = noisy_shares.shape[-1] // 2
    at_center = noisy_shares[..., [center]]
    lower = np.maximum(lower_edge, 0.0)
    upper = np.maximum(upper_edge, 0.0)
    std = np.asarray(noise_std)[..., None]

    if noise_kind == "laplace":
        upper_share = upper / np.maximum(lower + upper, 1e-300)
        per_scale = sqrt(2) / std
        log_likelihood = per_scale * (
            _laplace_gain(lower_edge, n * (1 - upper_share))
            + _laplace_gain(upper_edge, n * upper_share)
        )
        log_likelihood_at_center = per_scale * _laplace_gain(at_center, n)
        largest_gain = per_scale * n
    else:
        log_likelihood = n / std**2 * np.sqrt(upper**2 + lower**2)
        log_likelihood_at_center = n / std**2 * at_center
        largest_gain = (n / std) ** 2 / 2

    offset = np.arange(n_pairs) - center
    pairs_as_near = 2 * np.where(offset < 0, -offset, offset + 1)
    competitors = np.where(largest_gain > 2 * log(n_pairs), pairs_as_near, n_pairs)
    gain = log_likelihood - log_likelihood_at_center - 2 * np.log(competitors)

    best = np.argmax(gain, axis=-1)[..., None]
    best_gain = np.take_along_axis(gain, best, -1)[..., 0]
    best_upper = np.take_along_axis(upper, best, -1)[..., 0]
    best_lower = np.take_along_axis(lower, best, -1)[..., 0]
    if noise_kind == "laplace":
        position = best_upper / np.maximum(best_lower + best_upper, 1e-300)
    else:
        position = np.arctan2(best_upper, best_lower) / (pi / 2)
    return np.where(best_gain > 0, best[..., 0] - center + position, 0.0)


def _laplace_gain(noisy: np.ndarray, expected: Any) -> np.ndarray:
    """Return |y| − |y − expected|: the log-likelihood gain over 0, in units of 1/b."""
    return np.asarray(np.abs(noisy) - np.abs(noisy - expected))


def rescale_factor(
    manifold: Manifold, center: np.ndarray, factor_index: int, length: float
) -> np.ndarray:
    """Return the center with one of its factors, a cone, scaled by a geodesic length."""
    cone = manifold.factors[factor_index]
    parts = list(manifold.split(center))
    part = parts[factor_index]
    step = length * scaling_direction(cone, part)
    parts[factor_index] = np.asarray(cone.from_normal_coordinates(part, step))
    return point_or_fallback(manifold, lambda: manifold.join(parts), center)


def point_or_fallback(
    manifold: Manifold, compute_point: Callable[[], Any], fallback: np.ndarray
) -> np.ndarray:
    """Return the point that released numbers lead to, or a fallback.

    The fallback is taken where doubles cannot hold the point. This is post-processing.
    """
    try:
        with np.errstate(all="ignore"):
            return check_point("center", manifold, compute_point())
    except (CurvedpError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return fallback


# ---- kernels: exact sums over a block of records ----


def logs_at(manifold: Manifold, center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the coordinates of log_center(x) of each point; zero where not finite."""
    if len(points) == 0:
        return np.zeros((0, manifold.dim))
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        logs = np.asarray(fast_normal_coordinates(manifold, center, points))
        # Column-major: rows are short, and later steps run along coordinates.
        logs = np.asfortranarray(logs)
        is_finite = np.isfinite(logs).all(axis=-1, keepdims=True)
        return np.where(is_finite, logs, 0.0)


def clip_rows_to(vectors: np.ndarray, radius: float) -> np.ndarray:
    """Shorten rows to at most the radius; a row that is not finite becomes zero."""
    # Squares of tiny numbers are 0. Scaling by a power of two changes no other bit.
    unit = 2.0 ** min(-frexp(radius)[1], 1000)
    lengths = np.linalg.norm(vectors * unit, axis=-1, keepdims=True)
    is_long = lengths > radius * unit
    safe_lengths = np.where(lengths > 0, lengths, 1.0)
    clipped = vectors * np.where(is_long, radius * unit / safe_lengths, 1.0)
    is_finite = np.isfinite(clipped).all(axis=-1, keepdims=True)
    return np.where(is_finite, clipped, 0.0)


def sum_clipped(radius: float, grid: FixedPoint, logs: np.ndarray) -> np.ndarray:
    """Return exact sums of rows that are clipped to the radius."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        return np.asarray(grid.sums(clip_rows_to(logs, radius)).ravel())


def _apply_to_clipped(
    manifold: Manifold, outer_ball: Ball | None, kernel: Any, block: Any
) -> np.ndarray:
    """Apply a kernel to a block of records, clipped into the outer ball where given."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        points = np.asarray(block, dtype=np.float64)
        if outer_ball is not None:
            points = np.asarray(project_to_ball(manifold, *outer_ball, points))
        return np.asarray(kernel(manifold, points), dtype=np.int64)


def _apply_to_logs(
    center: np.ndarray, kernel: Any, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    """Apply a kernel to the logarithms of points."""
    return np.asarray(kernel(logs_at(manifold, center, points)))


def _count_longer(radii: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return how many rows are longer than each of the radii."""
    lengths = np.sort(np.linalg.norm(logs, axis=-1))
    return len(lengths) - np.searchsorted(lengths, radii, side="right")


def _sum_edge_shares_of_factor(
    center: np.ndarray,
    factor_index: int,
    bins: Bins,
    manifold: Manifold,
    points: np.ndarray,
) -> np.ndarray:
    """Return the summed edge shares of points, by the scale of one of their factors."""
    shares = edge_shares_of_factor(manifold, center, factor_index, bins, points)
    return _sum_edge_shares(bins, *shares)


def _sum_edge_shares_of_logs(
    axis: np.ndarray, bins: Bins, logs: np.ndarray
) -> np.ndarray:
    """Return the summed edge shares of logarithms, by their component along an axis."""
    return _sum_edge_shares(bins, *_edge_shares(axis, bins, logs))


def _sum_edge_shares(
    bins: Bins, lower_edges: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    """Add up each record's two shares at its lower and upper edge: sums of whole numbers."""
    n_edges = 2 * bins.half_count + 1
    whole_shares = _SHARE_RESOLUTION * shares
    at_lower = np.bincount(lower_edges, whole_shares[0], n_edges)
    at_upper = np.bincount(lower_edges + 1, whole_shares[1], n_edges)
    return np.asarray(at_lower + at_upper).astype(np.int64)


def edge_shares_of_factor(
    manifold: Manifold,
    center: np.ndarray,
    factor_index: int,
    bins: Bins,
    points: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each point's lower edge (0 to 2·half_count − 1) and its two shares."""
    factor = manifold.factors[factor_index]
    factor_center = np.asarray(manifold.split(center)[factor_index])
    factor_points = np.asarray(manifold.split(points)[factor_index])
    logs = logs_at(factor, factor_center, factor_points)
    return _edge_shares(scaling_direction(factor, factor_center), bins, logs)


def _edge_shares(
    axis: np.ndarray, bins: Bins, logs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Split each record between the two edges of its bin.

    The two shares have length 1 (for Laplace noise: sum 1), so they tell where between
    the edges a record is and cost no more than one count: the shares of two records
    have no negative product, so they differ by at most √2 (for Laplace noise: 2 in
    sum).
    """
    position = np.clip((logs @ axis) / bins.width, -bins.half_count, bins.half_count)
    lower = np.minimum(np.floor(position), bins.half_count - 1)
    fraction = position - lower
    if bins.noise_kind == "laplace":
        shares = np.stack((1 - fraction, fraction))
    else:
        shares = np.stack((np.cos(pi / 2 * fraction), np.sin(pi / 2 * fraction)))
    rounded_down = np.floor(_SHARE_RESOLUTION * shares) / _SHARE_RESOLUTION
    return lower.astype(np.int64) + bins.half_count, rounded_down


def _sum_embedded(
    factor_index: int, grid: FixedPoint, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    """Return exact sums of one factor's embedded points; zero where not finite."""
    factor = manifold.factors[factor_index]
    assert isinstance(factor, EmbeddedMean)  # asked for only where it is one
    factor_points = np.asarray(manifold.split(points)[factor_index])
    embedded = np.asarray(factor.embed(factor_points))
    return np.asarray(grid.sums(np.where(np.isfinite(embedded), embedded, 0.0)).ravel())


def _hessian_excess_at(
    distance: np.ndarray, radius: float, root_curvature: float
) -> np.ndarray:
    """Return s·coth s − 1 at the distance s, cut at the radius, in units of curvature."""
    s = np.maximum(np.minimum(distance, radius) * root_curvature, 1e-4)
    return np.asarray(s / np.tanh(s) - 1)


def _sum_hessian_excess(
    radius: float,
    root_curvature: float,
    axis: np.ndarray,
    grid: FixedPoint,
    logs: np.ndarray,
) -> np.ndarray:
    """Return exact sums of t and t·cos² (see `Queries.hessian_excess`)."""
    clipped = clip_rows_to(logs, radius)
    distances = np.linalg.norm(clipped, axis=-1)
    cosines = (clipped @ axis) / np.maximum(distances, np.finfo(float).tiny)
    t = _hessian_excess_at(distances, radius, root_curvature)
    terms = np.stack([t, t * np.minimum(cosines**2, 1.0)], axis=-1)
    return np.asarray(grid.sums(terms).ravel())
