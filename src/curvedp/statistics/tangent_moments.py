"""The mean and the second moment of records' logarithms at a public point, released as
one vector. The *covariance* is the second moment minus the outer product of the mean;
its eigenvectors are the principal directions. *Noise* is a symmetric Gaussian matrix
that is added to it.

Records in a ball about c are the tangent vectors log_c xᵢ. Their mean leads to a
private mean of the records, and their second moment to a private covariance, hence to
principal geodesics. Both are released together, because that costs less than one after
the other (`TangentMoments`). `estimate_moments` says what a released vector means, and
`separate_from_noise` which of its principal directions are more than noise.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, nextafter, pi, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri

from curvedp.core.capabilities import BoundsSamplingError
from curvedp.core.chart import shrink_vector
from curvedp.core.codes import PostProcessing
from curvedp.core.statistic import Ball, ClippedToBall, is_point
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.capabilities import canonical_center, move_from_origin
from curvedp.geometry.frechet_mean.error_bound import farthest_record
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.fixed_point import FixedPoint, gram_mean, gram_radius, gram_sums
from curvedp.records.base import Records, open_records
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.searched_ball import BallSearchStatistic
from curvedp.statistics.second_moment import symmetric_to_vector, vector_to_symmetric
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# The weight a of the second moment beside the mean. At 2 the moment has 79% of μ² and
# the mean 40%: together they cost less than one after the other
# (docs/theory/tangent-pca.md, Theorem T1).
MOMENT_WEIGHT = 2.0

# The largest dimension whose d(d+1)/2 products are drawn: certificates of more than a
# million numbers are not verified.
MAX_DIMENSION = 1400

# Tangent vectors are moved between frames as logarithms of points this fraction of the
# injectivity radius away, and at most this far.
_SHORT_FRACTION = 0.1
_SHORT_LENGTH = 1e-2

# Sums over entries are of vectors of length 1, whose entries are at most 1.
_UNIT_GRID = FixedPoint(2.0)

# Relative margin for the length of a clipped logarithm, which is computed in floats.
_ROUNDING_OF_LENGTH = 1e-9


def moments_diameter(weight: float = MOMENT_WEIGHT) -> float:
    """Return the diameter of the set of vectors (u, a·uuᵀ) with |u| ≤ 1.

    Theorem T1 (docs/theory/tangent-pca.md). For |u|, |v| ≤ 1 and a > 0,

        |u − v|² + a²·‖uuᵀ − vvᵀ‖² ≤ 2 + 2a² + 1/(2a²),

    with equality for unit vectors of the inner product −1/(2a²), which exist for
    a² ≥ ½. Proof. With c = ⟨u, v⟩ the left-hand side is

        |u|² + |v|² + a²·(|u|⁴ + |v|⁴) − 2c − 2a²c²,

    and −2c − 2a²c² = 1/(2a²) − 2a²·(c + 1/(2a²))² ≤ 1/(2a²).

    It bounds how far replacing one record moves the mean of such vectors, times n.

    Parameters
    ----------
    weight : float
        The weight a of the second moment.

    Returns
    -------
    float
        √(2 + 2a² + 1/(2a²)).

    Examples
    --------
    >>> round(moments_diameter(1.0), 4)  # the mean alone has 2, the moment alone √2
    2.1213
    """
    square = weight * weight
    return sqrt(2 + 2 * square + 1 / (2 * square))


# The squares of longer logarithms may overflow when they are added up.
_LARGEST_LENGTH = 1e140


@dataclass(frozen=True, eq=False)
class TangentMoments(ClippedToBall, BoundsSamplingError):
    """The mean and second moment of logarithms u = log_c(x)/r, as one vector.

    For n records x in a ball of radius r about c it is (mean u, a·mean uuᵀ).

    The value is a vector of d + d(d + 1)/2 numbers in units of r: the mean logarithm,
    then `MOMENT_WEIGHT` times the second moment in orthonormal coordinates of the
    symmetric matrices (`symmetric_to_vector`). Coordinates are those at the center in
    the canonical frame; `estimate_moments` translates them.

    With `groups=` an estimator gives one record for each person. A vector that averages
    (u, a·uuᵀ) over the records of a person would move no farther: averages stay in the
    convex hull, which has the same diameter.
    """

    name: ClassVar[str] = "mean and second moment of logarithms"

    def __post_init__(self) -> None:
        """Check the ball and n, and that a covariance of this dimension can be drawn."""
        super().__post_init__()
        check_dimension(self.manifold)

    @property
    def value_space(self) -> Euclidean:
        """The Euclidean space of the d + d(d + 1)/2 numbers of both moments."""
        return Euclidean(moments_size(self.manifold.dim))

    @cached_property
    def sensitivity(self) -> float:
        """The sensitivity of the joint vector by Theorem T1, in units of the radius.

        In exact arithmetic it is √10.125/n, the diameter of (u, 2·uuᵀ) over n. Rounding
        is added: entries of u are rounded to a grid in the mean, and to 40 bits in the
        products; sums are exact, and both means are rounded in both data sets.
        """
        return _joint_diameter(self.manifold.dim) / self.n + _rounding_of_mean(
            self.manifold.dim
        )

    @property
    def frechet_mean(self) -> FrechetMean:
        """The Fréchet mean of the same records, to which the mean logarithm leads."""
        return FrechetMean(self.manifold, self.center, self.radius, self.n)

    def sampling_error(self, failure_probability: float) -> float:
        """Bound the distance of this vector from the population's vector.

        A record's vector has length at most √(1 + a²), so that the expected distance
        is at most √((1 + a²)/n), and a record moves the mean by at most the diameter of
        Theorem T1 over n (McDiarmid; docs/theory/inference.md, "Regions of the
        population").

        Parameters
        ----------
        failure_probability : float
            The probability with which the bound may be wrong.

        Returns
        -------
        float
            The bound, in units of the radius.
        """
        expected = sqrt((1 + MOMENT_WEIGHT**2) / self.n)
        tail = sqrt(-np.log(failure_probability) / (2 * self.n))
        return float(expected + moments_diameter() * tail)

    def compute(self, records: Records) -> np.ndarray:
        """Return the mean and the weighted second moment as one vector. NOT private.

        Parameters
        ----------
        records : Records
            n records; those in memory, on a device or in chunks give the same vector.

        Returns
        -------
        array of shape (d + d(d + 1)/2,)
            The vector in units of the radius.
        """
        dim = self.manifold.dim
        if records.location == "memory":
            inside = self.clip_records(records.array())
            logs = logs_at(self.manifold, self.ball.center, inside)
            total = open_records(logs, (dim,)).sums(self._sum_logs)
        else:
            if records.n != self.n:
                raise ParameterError(f"{records.n} records, not {self.n}")
            canonical = records.to_canonical_frame(self.manifold, self.center)
            total = canonical.sums(self._sum_points)

        mean = _UNIT_GRID.mean(total[: 2 * dim].reshape(2, dim), self.n)
        moment = gram_mean(total[2 * dim :].reshape(6, dim, dim), self.n, 1.0)
        return join_moments(mean, moment)

    def _sum_points(self, block: np.ndarray) -> np.ndarray:
        """Return the exact sums of logarithms and their products over a block of records.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        block : array of shape (k, *point_shape)
            Some of the records, in the canonical frame, not yet clipped.

        Returns
        -------
        array of int
            The whole numbers that `_sum_logs` returns.
        """
        points = np.asarray(block, dtype=np.float64)
        inside = np.asarray(
            project_to_ball(self.manifold, self.ball.center, self.radius, points)
        )
        return self._sum_logs(logs_at(self.manifold, self.ball.center, inside))

    def _sum_logs(self, logs: np.ndarray) -> np.ndarray:
        """Return the exact sums of u and of uuᵀ over logarithms, as whole numbers.

        Parameters
        ----------
        logs : array of shape (k, d)
            Logarithms at the center. They are clipped here, and divided by the radius:
            u.

        Returns
        -------
        array of int, shape (2d + 6d²,)
            Two parts of the sum of u, then six parts of the sum of uuᵀ. They add up
            over blocks without rounding.
        """
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            unit_logs = clip_rows_to(logs, self.clipping_radius) / self.clipping_radius
            unit_logs = np.ascontiguousarray(unit_logs)
            sums = _UNIT_GRID.sums(unit_logs).ravel()
            products = gram_sums(unit_logs, 1.0).ravel()
        return np.concatenate([sums, products])


@dataclass(frozen=True, eq=False)
class SearchedTangentMoments(BallSearchStatistic):
    """The tangent moments of the records in a ball that is found privately."""

    name: ClassVar[str] = "mean and second moment of logarithms in a private ball"
    # The noise of a covariance is of order r²·√d/(nμ), that of a mean r·√d/(nμ), and
    # the smaller variances are to stand out of it.
    min_records_factor: ClassVar[float] = 2.5

    def __post_init__(self) -> None:
        """Check every field, and that a covariance of this dimension can be drawn."""
        super().__post_init__()
        check_dimension(self.manifold)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """None: a moment is released as it was drawn, and read by `estimate_moments`."""
        return ()

    def with_ball(self, ball: Ball) -> TangentMoments:
        """Return the tangent moments of the records in a ball that was found.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.
        """
        return TangentMoments(self.manifold, *ball, self.n)

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the option of the mechanism that makes the final release.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            The kind of noise of all stages.
        in_memory : bool
            Whether the records are in memory; one reading of them is enough.

        Returns
        -------
        list of str
            The isotropic mechanism with the stages' kind of noise.
        """
        if noise_kind == "laplace":
            return ["riemannian-laplace"]
        return ["riemannian-gaussian"]

    def simulated_error(
        self,
        final_mechanism: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Simulate one release, and return the error of its first principal direction.

        The error is the angle to the first principal direction of the logarithms of all
        records at their mean, in radians.

        Parameters
        ----------
        final_mechanism : Mechanism
            The mechanism that releases the moments in the ball that was found.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        mean : array of shape point_shape
            The mean of this population.

        Returns
        -------
        float
            From 0 to π/2. It is π/2 also if the logarithms are too long for floats.
        """
        logs = np.asarray(self.manifold.normal_coordinates(mean, records))
        if not np.isfinite(logs).all() or np.max(np.abs(logs)) > _LARGEST_LENGTH:
            return pi / 2
        true_direction = _first_direction(logs)
        opened = open_records(records, self.manifold.point_shape)
        statistic = replace(final_mechanism.statistic, n=opened.n)
        value = statistic.compute(opened)
        released = np.asarray(final_mechanism.simulate(rng, value, (1,)))[0]
        estimate = estimate_moments(
            self.manifold, Ball(statistic.center, statistic.radius), released, 0.0
        )
        return first_direction_angle(self.manifold, estimate, mean, true_direction)


@dataclass(frozen=True, eq=False)
class TangentMomentsNearMean(SearchedTangentMoments):
    """The tangent moments of records in a public ball, about a private mean of them.

    The outer ball is the public ball. One noisy step leads from its center c to a point
    m; the moments are those of the logarithms at m, in a ball about m that holds the
    public one. In curved space logarithms at a distant point distort what they
    measure, so that the step improves the result more than it costs in budget.
    """

    name: ClassVar[str] = "mean and second moment of logarithms near the mean"


@dataclass(frozen=True, eq=False)
class TangentMomentsSum(ClippedSum):
    """The sum (Σ u, w·n, a·Σ uuᵀ) of logarithms u = log_c(x)/r; n is private.

    A record's vector has length at most √(1 + w² + a²). `estimate_from_sum` returns the vector
    of `TangentMoments` followed by the noisy count.
    """

    name: ClassVar[str] = (
        "mean and second moment of logarithms, number of records private"
    )

    def __post_init__(self) -> None:
        """Check the ball, and that a covariance of this dimension can be drawn."""
        super().__post_init__()
        check_dimension(self.manifold)

    @property
    def vector_size(self) -> int:
        """The entries of both moments, and one for the count."""
        return moments_size(self.manifold.dim) + 1

    @property
    def vector_length(self) -> float:
        """√(1 + w² + a²), for the weights w of the count and a of the second moment."""
        return sqrt(1 + self.count_weight**2 + MOMENT_WEIGHT**2)

    @property
    def release_ball(self) -> Ball | None:
        """None, because moments are not a point of the ball."""
        return None

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return the vector (u, w, a·uuᵀ) that each record adds to the sum.

        Here u is the clipped logarithm of the record in units of the radius, w the
        weight of a count, and a = `MOMENT_WEIGHT`. The symmetric matrix uuᵀ is written
        as its diagonal and √2 times its upper triangle, as in `symmetric_to_vector`, so
        that lengths are Frobenius norms.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. Entries may be anything.

        Returns
        -------
        array of shape (n, vector_size)
            Rows of length at most `vector_length`.
        """
        vectors = super().to_vectors(records)
        u = vectors[:, : self.manifold.dim]
        # (i, j) are the entries above the diagonal, row by row.
        i, j = np.triu_indices(self.manifold.dim, 1)
        products = np.concatenate([u * u, sqrt(2) * u[:, i] * u[:, j]], axis=1)
        return np.concatenate([vectors, MOMENT_WEIGHT * products], axis=1)

    def estimate_from_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Divide the noisy sums by the noisy count, and append the noisy count.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`.
        noise_std : float
            Not used. Other statistics shrink their value by it.

        Returns
        -------
        array
            The mean, the weighted second moment, and the noisy number of records.
        """
        count = self.noisy_count(noisy_sum)
        sums = np.delete(noisy_sum, self.manifold.dim)  # all entries but the count's
        return np.append(sums / count, count)


def moments_size(dim: int) -> int:
    """Return the number of entries of the vector of both moments in `dim` dimensions.

    Parameters
    ----------
    dim : int
        The dimension d of the manifold.
    """
    return dim + dim * (dim + 1) // 2


def join_moments(mean: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Return a mean and a second moment as the one vector that is released.

    Parameters
    ----------
    mean : array, shape (d,)
        The mean of unit logarithms u.
    moment : array, shape (d, d)
        The mean of uuᵀ.

    Returns
    -------
    array, shape (d + d(d + 1)/2,)
        The mean, then `MOMENT_WEIGHT` times the matrix as a vector.
    """
    return np.concatenate([mean, MOMENT_WEIGHT * symmetric_to_vector(moment)])


class UnitMoments(NamedTuple):
    """The two moments of unit logarithms, from a released vector.

    Attributes
    ----------
    mean : array, shape (d,)
        The mean of the unit logarithms u.
    moment : array, shape (d, d)
        The mean of the matrices uuᵀ.
    """

    mean: np.ndarray
    moment: np.ndarray


def split_moments(vector: np.ndarray, dim: int) -> UnitMoments:
    """Return the mean and the second moment that a released vector holds.

    Parameters
    ----------
    vector : array
        What `join_moments` made, with noise.
    dim : int
        The dimension d of the manifold.

    Returns
    -------
    UnitMoments
        The two parts, with their noise, in units of the radius.
    """
    moment = vector_to_symmetric(vector[dim : moments_size(dim)], dim)
    return UnitMoments(vector[:dim], moment / MOMENT_WEIGHT)


class TangentEstimate(NamedTuple):
    """A private mean and a private covariance about it.

    Attributes
    ----------
    mean : array, shape point_shape
        The private mean, in the frame of the records.
    covariance : array, shape (d, d)
        The noisy covariance of the records' logarithms, in the coordinates
        `manifold.to_coordinates(mean, ·)`. It is symmetric and nearly unbiased; noise
        may have made some of its eigenvalues negative (`separate_from_noise`).
    mean_noise : float
        The standard deviation of the noise in one coordinate of the mean.
    covariance_noise : float
        The standard deviation of the noise in a diagonal entry of the covariance. In
        other entries it is smaller by the factor √2.
    """

    mean: np.ndarray
    covariance: np.ndarray
    mean_noise: float
    covariance_noise: float


def estimate_moments(
    manifold: Manifold,
    ball: Ball,
    vector: np.ndarray,
    noise_std: float,
) -> TangentEstimate:
    """Return the private mean and covariance that follow from a released vector.

    The released vector contains the noisy mean logarithm g of the records at the center
    c of the ball, and their noisy second moment S, both in units of the radius r.

    - The mean is exp_c of g, shrunk by the rule of James and Stein and at most r long.
    - The covariance at c is S − ggᵀ + s²·1, where s is the standard deviation of the
      noise in a coordinate of g. Its expectation is the covariance of the logarithms,
      because E[ggᵀ] exceeds the square of the noiseless mean by s²·1. Parallel
      transport along the geodesic carries it to the mean.

    All of this is post-processing.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    ball : Ball
        The ball of the statistic: its center in the frame of the records, and its
        radius.
    vector : array
        What was released: the value of a `TangentMoments`, with noise.
    noise_std : float
        The standard deviation of the noise in each entry of the vector.

    Returns
    -------
    TangentEstimate
        The mean and the covariance, with the standard deviations of their noise.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> statistic = TangentMoments(Euclidean(2), None, 10.0, 4)
    >>> rows = np.array([[4.0, 1.0], [2.0, 1.0], [4.0, 1.0], [2.0, 1.0]])
    >>> value = statistic.compute(open_records(rows, (2,)))
    >>> estimate = estimate_moments(Euclidean(2), Ball(np.zeros(2), 10.0), value, 0.0)
    >>> estimate.mean.round(6).tolist(), estimate.covariance.round(6).tolist()
    ([3.0, 1.0], [[1.0, 0.0], [0.0, 0.0]])
    """
    # The covariance at the center, from the two noisy moments in units of the radius.
    radius = farthest_record(manifold, ball.radius)
    moments = split_moments(vector, manifold.dim)
    mean_log = radius * moments.mean
    mean_noise = radius * noise_std
    squared_radius = radius**2
    covariance = squared_radius * moments.moment - np.outer(mean_log, mean_log)
    covariance = covariance + mean_noise**2 * np.eye(manifold.dim)

    # The private mean, and the frame in which the covariance is stated there.
    step = shrink_vector(mean_log, mean_noise)
    length = float(np.linalg.norm(step))
    step = step * min(1.0, radius / max(length, radius))
    mean, frame = _transport_frame(manifold, ball.center, step)
    covariance_in_frame = frame.T @ covariance @ frame
    return TangentEstimate(
        mean,
        (covariance_in_frame + covariance_in_frame.T) / 2,
        mean_noise,
        squared_radius * noise_std / MOMENT_WEIGHT,
    )


class FrameAtMean(NamedTuple):
    """A point, and an orthonormal frame that was carried to it along a geodesic.

    Attributes
    ----------
    point : array
        In the frame of the records.
    rotation : array, shape (d, d)
        Orthogonal. Row k has the coordinates, at the point, of the k-th vector of the
        frame at the public center.
    """

    point: np.ndarray
    rotation: np.ndarray


def _transport_frame(
    manifold: Manifold, center: np.ndarray, step: np.ndarray
) -> FrameAtMean:
    """Carry the orthonormal frame at a center along a geodesic to the private mean.

    The covariance at the center is stated in this frame, which parallel transport
    carries to the mean. If the end of the geodesic, or a frame there, is not
    representable in doubles, the frame stays at the center.

    In the canonical frame an isometry has moved the ball's center to where floats are
    most accurate: the origin, or the center itself on a compact space.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array of shape point_shape
        The public center, in the frame of the records.
    step : array, shape (dim,)
        The velocity of the geodesic: coordinates at the ball's center in the canonical
        frame.

    Returns
    -------
    FrameAtMean
        The end of the geodesic, and the coordinates of the carried frame there.
    """
    base = np.asarray(canonical_center(manifold, center))
    identity = np.eye(manifold.dim)
    with np.errstate(all="ignore"):  # these are released numbers
        basis = np.asarray(manifold.from_coordinates(base, identity))
        mean = np.asarray(manifold.from_normal_coordinates(base, step))
        vectors = np.asarray(manifold.transport(base, mean, basis))
        if not (is_point(manifold, mean) and np.all(np.isfinite(vectors))):
            mean, vectors = base, basis
        if not np.array_equal(base, center):
            mean, vectors = _move_vectors(manifold, center, mean, vectors)
        coordinates = np.asarray(manifold.to_coordinates(mean, vectors))
        frame_at_mean = np.asarray(manifold.from_coordinates(mean, identity))
    if not np.all(np.isfinite(frame_at_mean)):
        return FrameAtMean(np.asarray(center), identity)
    if not np.all(np.isfinite(coordinates)):
        return FrameAtMean(mean, identity)
    # The nearest orthogonal matrix: rounding has made the frame slightly oblique.
    left, _, right = np.linalg.svd(coordinates)
    return FrameAtMean(mean, left @ right)


def _move_vectors(
    manifold: Manifold, center: np.ndarray, point: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move tangent vectors with the isometry that carries the origin to the center.

    The isometry carries geodesics to geodesics, so that the moved vectors are
    logarithms of moved points.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array of shape point_shape
        The public center, in the frame of the records.
    point : array of shape point_shape
        A point in the canonical frame.
    vectors : array of shape (dim, *point_shape)
        Tangent vectors at that point.

    Returns
    -------
    moved_point, moved_vectors : arrays
        The point and the vectors in the frame of the records.
    """
    length = min(_SHORT_LENGTH, _SHORT_FRACTION * manifold.injectivity_radius)
    ends = np.asarray(manifold.exp(point, length * vectors))
    moved_point = np.asarray(move_from_origin(manifold, center, point))
    moved_ends = np.asarray(move_from_origin(manifold, center, ends))
    return moved_point, np.asarray(manifold.log(moved_point, moved_ends)) / length


class Spectrum(NamedTuple):
    """Principal directions and variances, estimated from a noisy covariance.

    Attributes
    ----------
    variances : array, shape (d,)
        The variances from large to small, corrected for the bias of the noise. Those
        that cannot be distinguished from noise share the rest of the total evenly.
    directions : array, shape (d, d)
        Orthonormal rows, one for each variance.
    n_above_noise : int
        The number of variances that are too large to be noise (`count_above_noise`).
    """

    variances: np.ndarray
    directions: np.ndarray
    n_above_noise: int

    @property
    def covariance(self) -> np.ndarray:
        """The positive semidefinite matrix Σ variance·direction·directionᵀ."""
        return np.asarray(self.directions.T * self.variances @ self.directions)


def count_above_noise(
    noisy_eigenvalues: np.ndarray,
    noise: float,
    failure_probability: float,
    further_error: float = 0.0,
) -> int:
    """Return how many eigenvalues of a noisy covariance are too large to be noise.

    Theorem T4 (docs/theory/tangent-pca.md). The noisy covariance is M + N + D. Here M is
    the true covariance, which is positive semidefinite. N is symmetric Gaussian noise
    with standard deviation σ on the diagonal and σ/√2 off it. D is any matrix of
    operator norm at most B.

    Suppose that M has rank k. By the min-max principle of Courant and Fischer, the
    (k + 1)-th eigenvalue of the sum is at most B plus the largest eigenvalue of N on
    the kernel of M, a fixed space of dimension d − k. `largest_noise_eigenvalue` bounds
    the latter with high probability. The function counts eigenvalues from the largest
    on while they exceed this bound. So it counts more than k only if the bound fails.

    Parameters
    ----------
    noisy_eigenvalues : array, shape (d,)
        The eigenvalues of the noisy covariance, from large to small.
    noise : float
        σ, the standard deviation of the noise in a diagonal entry.
    failure_probability : float
        The largest probability with which the count may exceed the rank of M.
    further_error : float
        B, a bound on the operator norm of other errors, such as rounding.

    Returns
    -------
    int
        A lower bound on the rank of M, which is the number of directions with a variance
        above 0. It holds except with the failure probability.

    Examples
    --------
    >>> count_above_noise(np.array([4.0, 0.2, -0.1]), 0.1, 0.05)
    1
    """
    dim = len(noisy_eigenvalues)
    for count, eigenvalue in enumerate(noisy_eigenvalues):
        # If only `count` variances are above 0, noise is alone in dim − count dimensions.
        noise_bound = largest_noise_eigenvalue(dim - count, noise, failure_probability)
        is_above_noise = eigenvalue > further_error + noise_bound
        if not is_above_noise:
            return count
    return dim


def separate_from_noise(
    covariance: np.ndarray, noise: float, n_above_noise: int
) -> Spectrum:
    """Return the principal directions of a noisy covariance, and unbiased variances.

    The noise is symmetric and Gaussian, with standard deviation σ on the diagonal and
    σ/√2 off it. It increases an eigenvalue λ to λ̂. In the limit d → ∞ the increase is
    σ²/2·Σ 1/(λ̂ − λ̂_j) over the other noisy eigenvalues λ̂_j (the subordination
    function of the semicircle distribution; Capitaine et al. 2009). It is subtracted
    from the variances that are above the noise, which are at least 0 afterwards. Noise
    does not bias the trace. So the rest of the trace is divided evenly among the other
    directions.

    Parameters
    ----------
    covariance : array, shape (d, d)
        The noisy covariance.
    noise : float
        σ, the standard deviation of the noise in a diagonal entry.
    n_above_noise : int
        How many variances are too large to be noise (`count_above_noise`).

    Returns
    -------
    Spectrum
        Variances from large to small with their directions.

    Examples
    --------
    >>> spectrum = separate_from_noise(np.diag([4.0, 0.2, -0.1]), 0.1, 1)
    >>> spectrum.variances.round(3).tolist()
    [3.997, 0.051, 0.051]
    """
    dim = len(covariance)
    # `eigh` sorts from small to large; here the largest eigenvalue comes first.
    ascending_eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    eigenvalues = ascending_eigenvalues[::-1]
    directions = np.ascontiguousarray(eigenvectors[:, ::-1].T)

    variances = np.zeros(dim)
    for k in range(n_above_noise):
        bias = _eigenvalue_bias(eigenvalues, k, noise)
        variances[k] = max(eigenvalues[k] - bias, 0.0)
    variances[:n_above_noise] = np.sort(variances[:n_above_noise])[::-1]

    # Divide the rest of the trace evenly among the other directions.
    n_others = dim - n_above_noise
    if n_others > 0:
        mean_of_others = (eigenvalues.sum() - variances.sum()) / n_others
        smallest = variances[n_above_noise - 1] if n_above_noise else inf
        variances[n_above_noise:] = min(max(mean_of_others, 0.0), smallest)
    return Spectrum(variances, directions, n_above_noise)


def _eigenvalue_bias(eigenvalues: np.ndarray, k: int, noise: float) -> float:
    """Return by how much noise increases an eigenvalue, in the limit of high dimension.

    Parameters
    ----------
    eigenvalues : array, shape (d,)
        The noisy eigenvalues.
    k : int
        The number of the eigenvalue.
    noise : float
        σ, the standard deviation of the noise in a diagonal entry.
    """
    differences = eigenvalues[k] - np.delete(eigenvalues, k)
    # Two eigenvalues closer than the noise would give a huge term: it is left out.
    differences = np.where(np.abs(differences) < noise, inf, differences)
    return float(noise**2 / 2 * np.sum(1 / differences))


def largest_noise_eigenvalue(
    dim: int, noise: float, failure_probability: float
) -> float:
    """Bound the largest eigenvalue of symmetric Gaussian noise, with high probability.

    The noise has standard deviation σ on the diagonal and σ/√2 off it. The mean of its
    largest eigenvalue is at most σ·√(2d). As a function of the independent standard
    normals in the matrix, the eigenvalue is Lipschitz with constant σ. So it exceeds
    σ·(√(2d) + z) with at most the probability that a standard normal exceeds z
    (Davidson and Szarek 2001, Theorem 2.11). For d = 1 the mean is 0.

    Parameters
    ----------
    dim : int
        The dimension d.
    noise : float
        σ, the standard deviation of the noise in a diagonal entry.
    failure_probability : float
        The largest probability with which the bound may fail.

    Returns
    -------
    float
        A bound that the largest eigenvalue exceeds with at most this probability.
    """
    z = -float(ndtri(failure_probability))
    mean = 0.0 if dim == 1 else sqrt(2 * dim)
    return noise * (mean + z)


def first_direction_angle(
    manifold: Manifold,
    estimate: TangentEstimate,
    mean: np.ndarray,
    direction: np.ndarray,
) -> float:
    """Return the angle between the first principal direction and a reference direction.

    The two directions are tangent vectors at different points. The first is carried to
    the point of the second by parallel transport. Predicted errors of principal
    geodesics are such angles.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    estimate : TangentEstimate
        A private mean with a private covariance, whose leading eigenvector is compared.
    mean : array of shape point_shape
        The point at which the reference direction is a tangent vector.
    direction : array, shape (dim,)
        The coordinates of the reference direction, a unit vector, at this point.

    Returns
    -------
    float
        In radians, at most π/2, because a direction has no sign.
    """
    _, eigenvectors = np.linalg.eigh(estimate.covariance)
    vector = manifold.from_coordinates(estimate.mean, eigenvectors[:, -1])
    transported_direction = manifold.transport(estimate.mean, mean, np.asarray(vector))
    coordinates = np.asarray(
        manifold.to_coordinates(mean, np.asarray(transported_direction))
    )
    length = float(np.linalg.norm(coordinates))
    if not (isfinite(length) and length > 0):
        # Overflow or underflow has destroyed the direction.
        return pi / 2
    cosine = abs(float(coordinates @ direction)) / length
    return float(np.arccos(min(cosine, 1.0)))


def _first_direction(vectors: np.ndarray) -> np.ndarray:
    """Return the leading eigenvector of the covariance of vectors in rows.

    Parameters
    ----------
    vectors : array, shape (n, d)
        Logarithms in coordinates.

    Returns
    -------
    array, shape (d,)
        A unit vector, whose sign is arbitrary.
    """
    centered = vectors - vectors.mean(axis=0)
    return np.asarray(np.linalg.eigh(centered.T @ centered)[1][:, -1])


def check_dimension(manifold: Manifold) -> None:
    """Raise `ParameterError` if covariances have too many entries to be drawn exactly.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.

    Raises
    ------
    ParameterError
        Above `MAX_DIMENSION` dimensions d, because d(d + 1)/2 numbers are drawn.
    """
    if manifold.dim > MAX_DIMENSION:
        raise ParameterError(
            f"has {manifold.dim} dimensions; covariances are drawn for at most "
            f"{MAX_DIMENSION}",
            parameter="manifold",
            value=manifold,
        )


def _joint_diameter(dim: int) -> float:
    """Return the diameter of Theorem T1, enlarged by rounding errors.

    Theorem T1 bounds the distance of two exact vectors (u, a·uuᵀ) with |u| ≤ 1. The
    entries of u and of the products uuᵀ are rounded before they are added up.

    Parameters
    ----------
    dim : int
        The dimension d of the manifold.

    Returns
    -------
    float
        A bound on the distance of two computed vectors (u, a·uuᵀ).
    """
    exact = moments_diameter() * (1 + 4 * _ROUNDING_OF_LENGTH)
    rounding_of_vector = sqrt(dim) * _UNIT_GRID.resolution
    rounding_of_row = gram_radius(1.0, dim) - 1
    rounding_of_products = 3 * MOMENT_WEIGHT * rounding_of_row
    return nextafter(exact + 2 * (rounding_of_vector + rounding_of_products), inf)


def _rounding_of_mean(dim: int) -> float:
    """Bound the final rounding errors of both means, summed over two neighboring data sets.

    Parameters
    ----------
    dim : int
        The dimension d of the manifold.
    """
    largest_entry = 1 + MOMENT_WEIGHT
    return sqrt(moments_size(dim)) * largest_entry * 2.0**-50
