"""Statistics from reports: means, histograms on public cells, and densities.
The server sees reports only. Their noise is public, so that its bias is taken out;
error bars come from the spread of the reports. All of it is post-processing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import eval_legendre, gammaincinv

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Sphere, Torus
from curvedp.local.estimates import MeanEstimate
from curvedp.local.mechanism import LocalMechanism
from curvedp.local.metric import MetricLaplace
from curvedp.local.moments import RadialDistribution, torus_moments
from curvedp.local.privunit import PrivUnit
from curvedp.local.spaces import RecordSpace, read_batch

# The largest degree of harmonics that a density is estimated by.
_LARGEST_DEGREE = 48

# The degree is the largest at which the standard error of a uniform density is at most
# this part of it.
_RELATIVE_ERROR = 0.25

# Points of the table in which the kernel of a density is interpolated.
_TABLE_SIZE = 1 << 15

# Pairs of a query and a report that are evaluated together.
_BLOCK_PAIRS = 1 << 22

# Draws per cell from which the transition matrix of a histogram is estimated, and the
# public seed of that simulation. No record is involved.
_CELL_DRAWS = 50_000
_CELL_SEED = 20221


def estimate_mean(
    mechanism: LocalMechanism, reports: Any, level: float = 0.95
) -> MeanEstimate:
    """Return the mean place or direction of the records, from their reports.

    On a sphere the mean of the reports, as vectors, is a·(mean of the records), where
    a = E cos r is public. So the direction of the mean of the records is estimated
    without bias from the noise, and a ball about it follows from the central limit
    theorem with the covariance of the reports. On a torus each angle is treated so; in
    Euclidean space noise has no bias.

    Parameters
    ----------
    mechanism : LocalMechanism
        The mechanism that drew the reports: on a sphere, the Earth, a torus or in
        Euclidean space.
    reports : array, shape (n, *record_shape)
        One report for each person.
    level : float
        The coverage of the region.

    Returns
    -------
    MeanEstimate
        `value` in the form of the records; `radius` in the unit of the mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.local import Earth, MetricLaplace
    >>> places = MetricLaplace(Earth(), epsilon=1.0)
    >>> reports = places.randomize(np.tile([51.5, -0.1], (500, 1)))
    >>> mean = estimate_mean(places, reports)
    >>> bool(mean.radius < 0.5), mean.unit
    (True, 'kilometer')
    """
    if isinstance(mechanism, PrivUnit):
        return mechanism.estimate_mean(reports, level)
    probability = _validate.within(
        "level", level, 0.0, 1.0, open_low=True, open_high=True
    )
    space = mechanism.space
    points = _read_points(mechanism.report_space, reports)

    # Noise shrinks the mean of the reports by a known factor, except in flat space.
    manifold = space.manifold
    if isinstance(manifold, Sphere):
        value, radius = _mean_direction(mechanism, points, probability)
    elif isinstance(manifold, Torus):
        value, radius = _mean_angles(mechanism, points, probability)
    elif isinstance(manifold, Euclidean):
        value = points.mean(axis=0)
        radius = _ball_radius(points - value, probability)
    else:
        raise ParameterError(
            f"no unbiased mean of reports is known on {manifold!r}; spheres, tori and "
            "Euclidean space have one"
        )

    # The estimate, in the form in which people write records.
    reported = space.write(value[np.newaxis])[0]
    return MeanEstimate(
        reported, radius * space.unit_length, probability, len(points), space.unit
    )


def _read_points(space: RecordSpace, reports: Any) -> np.ndarray:
    """Return reports as points of the manifold, broken ones as the public record.

    Reports come from strangers, so that a broken one must not stop an estimate.

    Parameters
    ----------
    space : RecordSpace
        The space of the reports, with the form in which they are written.
    reports : array, shape (n, *record_shape)
        The reports, at least two: error bars come from their spread.

    Returns
    -------
    array, shape (n, *point_shape)
        Points of the manifold.
    """
    points, is_single = read_batch(space, reports)
    if is_single or len(points) < 2:
        raise ParameterError("reports must be at least two")
    return points


def _ball_radius(deviations: np.ndarray, level: float) -> float:
    """Return the radius of a ball that covers a mean, by the central limit theorem.

    With λ the largest eigenvalue of the covariance of n deviations of dimension d, it
    is √(λ·χ²_d(level)/n).

    Parameters
    ----------
    deviations : array, shape (n, d)
        Reports less their mean.
    level : float
        The coverage.
    """
    n, dim = deviations.shape
    covariance = deviations.T @ deviations / (n - 1)
    largest = float(np.linalg.eigvalsh(covariance)[-1])
    quantile = 2 * float(gammaincinv(dim / 2, level))  # of the chi-squared law
    return math.sqrt(max(largest, 0.0) * quantile / n)


def _mean_direction(
    mechanism: LocalMechanism, points: np.ndarray, level: float
) -> tuple[np.ndarray, float]:
    """Estimate the mean direction of records on a sphere, with a confidence radius.

    The mean direction is the direction of the mean vector in the surrounding space.
    Isotropic noise multiplies the expected vector of each report by the same public
    factor, so that the direction stays the same. Let ℓ be the length of the mean of the
    reports, and b the radius of a ball that covers the error orthogonal to it with the
    probability `level`. Then the error of the direction is at most arctan(b/ℓ).

    Parameters
    ----------
    mechanism : LocalMechanism
        Isotropic noise on a sphere.
    points : array, shape (n, d + 1)
        The reports as unit vectors.
    level : float
        The coverage of the region.

    Returns
    -------
    direction, radius : array of shape (d + 1,), float
        A unit vector, and an angle. The angle is π, which excludes no direction, if the
        mean is too short to have a direction.
    """
    manifold = mechanism.space.manifold
    mean = points.mean(axis=0)
    length = float(np.linalg.norm(mean))
    direction = np.asarray(manifold.project(mean))
    tangents = manifold.to_tangent(direction, points)
    orthogonal_parts = np.asarray(manifold.to_coordinates(direction, tangents))
    deviations = orthogonal_parts - orthogonal_parts.mean(axis=0)
    orthogonal_error = _ball_radius(deviations, level)
    if length <= orthogonal_error:
        return direction, math.pi
    # The noise multiplies both by the same factor, which cancels in the quotient.
    return direction, math.atan2(orthogonal_error, length)


def _mean_angles(
    mechanism: LocalMechanism, points: np.ndarray, level: float
) -> tuple[np.ndarray, float]:
    """Return the mean direction of each angle of a torus, with a confidence radius.

    Each angle is a point of a circle, on which symmetric noise multiplies the mean vector
    by a public factor and keeps its direction. The error of the direction is, to first
    order, the mean of sin(angle − direction) over the length of the mean vector.

    Parameters
    ----------
    mechanism : LocalMechanism
        Noise on a torus.
    points : array, shape (n, d)
        The reports, as angles.
    level : float
        The coverage of the region.

    Returns
    -------
    angles, radius : array of shape (d,), float
        The directions, and the radius of a ball that covers all of them jointly; at most
        the largest distance on the torus.
    """
    cosine = np.cos(points).mean(axis=0)
    sine = np.sin(points).mean(axis=0)
    angles = np.arctan2(sine, cosine)
    lengths = np.hypot(cosine, sine)
    deviations = np.sin(points - angles) / lengths
    radius = _ball_radius(deviations, level)
    return angles, min(radius, math.pi * math.sqrt(points.shape[1]))


class DensityEstimate(NamedTuple):
    """A density that was estimated from reports.

    Attributes
    ----------
    values : array
        The density at the queries: per steradian on a sphere, per radian^d on a torus.
    standard_errors : array
        Of each value.
    degree : int
        Harmonics up to this degree are in it; finer detail is smoothed away.

    Examples
    --------
    >>> from curvedp.geometry import Torus
    >>> from curvedp.local import MetricLaplace
    >>> mechanism = MetricLaplace(Torus(1), epsilon=4.0)
    >>> reports = mechanism.randomize(np.zeros((500, 1)))
    >>> density = estimate_density(mechanism, reports, [[0.0], [3.0]], degree=3)
    >>> bool(density.values[0] > density.values[1] + 3 * density.standard_errors[1])
    True
    """

    values: np.ndarray
    standard_errors: np.ndarray
    degree: int


def estimate_density(
    mechanism: LocalMechanism, reports: Any, at: Any, *, degree: int | None = None
) -> DensityEstimate:
    """Return the density of the records at given points, from their reports.

    The density is expanded in harmonics up to a degree L, each divided by the public
    factor a_l of the noise and smoothed by w_l = cos²(πl/(2L + 2)). So the estimate is
    unbiased for the smoothed density, and the mean of one number for each report: its
    standard error is theirs over √n.

    Parameters
    ----------
    mechanism : LocalMechanism
        The mechanism that drew the reports, on the two-sphere, the Earth, or a torus.
    reports : array, shape (n, *record_shape)
        One report for each person.
    at : array, shape (m, *record_shape)
        Where the density is wanted.
    degree : int, optional
        L. By default the largest one, up to 48, at which the standard error of a
        uniform density would be a quarter of it: a function of n and the noise alone.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.local import MetricLaplace
    >>> mechanism = MetricLaplace(Sphere(2), epsilon=4.0)
    >>> X = Sphere(2).project(np.random.default_rng(0).normal(size=(2000, 3)))
    >>> density = estimate_density(mechanism, mechanism.randomize(X), np.eye(3))
    >>> density.values.shape
    (3,)
    """
    points = _read_points(mechanism.report_space, reports)
    queries, is_single = read_batch(mechanism.space, at)
    manifold = mechanism.space.manifold
    if isinstance(manifold, Sphere) and manifold.dim == 2:
        estimate = _sphere_density(mechanism, points, queries, degree)
    elif isinstance(manifold, Torus):
        estimate = _torus_density(mechanism, points, queries, degree)
    else:
        raise ParameterError(
            f"densities are estimated on the two-sphere and on tori, not on {manifold!r}"
        )
    if is_single:
        return estimate._replace(
            values=estimate.values[0], standard_errors=estimate.standard_errors[0]
        )
    return estimate


def _window(orders: np.ndarray, degree: int) -> np.ndarray:
    """Return the smoothing weight of each harmonic in an estimated density.

    A density is cut off at the degree L. The weights w_l = cos²(πl/(2L + 2)) fall
    smoothly from 1 to nearly 0 there, so that the cut makes no ripples; beyond they are
    0.

    Parameters
    ----------
    orders : array
        The degrees l of harmonics, or lengths of frequencies on a torus.
    degree : int
        The largest degree L.
    """
    angles = np.minimum(np.pi * orders / (2 * degree + 2), np.pi / 2)
    return np.asarray(np.cos(angles) ** 2)


def _choose_degree(relative_error: Callable[[int], float], degree: int | None) -> int:
    """Choose the degree up to which a density is expanded into basis functions.

    A larger degree resolves finer details, but has a larger error by noise. If the
    caller has given no degree, it is the largest one whose error is small enough. The
    choice depends on the number of reports and on the noise, not on the reports.

    Parameters
    ----------
    relative_error : callable
        Maps a degree to the relative standard error of the estimate if the records are
        uniformly distributed.
    degree : int or None
        The degree that the caller has given, or None.

    Returns
    -------
    int
        The degree. It is at least 1, even if no degree has a small enough error.
    """
    if degree is not None:
        checked_degree = _validate.integer("degree", degree, 1)
        if checked_degree > _LARGEST_DEGREE:
            raise ParameterError(
                f"must be at most {_LARGEST_DEGREE}", parameter="degree", value=degree
            )
        return checked_degree
    accurate_degrees = [
        candidate
        for candidate in range(1, _LARGEST_DEGREE + 1)
        if relative_error(candidate) <= _RELATIVE_ERROR
    ]
    return max(accurate_degrees, default=1)


def _sphere_density(
    mechanism: LocalMechanism,
    points: np.ndarray,
    queries: np.ndarray,
    degree: int | None,
) -> DensityEstimate:
    """Estimate the density of the records at places of the two-sphere, from reports.

    Noise multiplies a harmonic of degree l by a public factor a_l. The estimate at a
    place is the mean over reports of K(t), with t the inner product of place and report,

        K(t) = Σ (2l + 1)/(4π)·(w_l/a_l)·P_l(t) over l ≤ L,

    P_l the Legendre polynomial and w_l a smoothing weight. Dividing by a_l makes it
    unbiased for the smoothed density.

    Parameters
    ----------
    mechanism : LocalMechanism
        Isotropic noise on the two-sphere.
    points, queries : arrays, shape (n, 3) and (m, 3)
        The reports, and the places at which the density is wanted, as unit vectors.
    degree : int or None
        L; None chooses it from n and the noise.

    Returns
    -------
    DensityEstimate
        The density per steradian at each query, with standard errors.
    """
    factors = RadialDistribution(mechanism).legendre(_LARGEST_DEGREE)
    orders = np.arange(_LARGEST_DEGREE + 1)
    # Below 2^-40 a factor has no digits left, and its harmonic is lost in the noise.
    usable = int(np.argmax(np.append(factors < 2.0**-40, True))) - 1

    def relative_error(limit: int) -> float:
        """Return the relative standard error of a uniform density at this degree."""
        if limit > usable:
            return math.inf
        used = orders[1 : limit + 1]
        ratio = _window(used, limit) / factors[used]
        variance = float(((2 * used + 1) * ratio**2).sum()) / len(points)
        return math.sqrt(variance)

    limit = _choose_degree(relative_error, degree)
    if limit > usable:
        raise ParameterError(
            f"noise has erased harmonics beyond {usable}",
            parameter="degree",
            value=limit,
        )
    # A table of K, between whose entries values are interpolated.
    used = orders[: limit + 1]
    multiplicities = (2 * used + 1) / (4 * np.pi)
    coefficients = multiplicities * _window(used, limit) / factors[used]
    angles = np.linspace(0.0, np.pi, _TABLE_SIZE)
    table = sum(
        coefficient * eval_legendre(order, np.cos(angles))
        for order, coefficient in zip(used, coefficients, strict=True)
    )

    def kernel(block: np.ndarray) -> np.ndarray:
        """Return K for every pair of a query of the block and a report."""
        pair_angles = np.arccos(np.clip(block @ points.T, -1.0, 1.0))
        return np.asarray(np.interp(pair_angles, angles, table))

    return _average_kernel(kernel, queries, len(points), limit)


def _positive_frequencies(dim: int, largest: int) -> np.ndarray:
    """Return the vectors of whole numbers whose first nonzero entry is positive.

    The cosines of k and −k are equal, so one of the two is enough.

    Parameters
    ----------
    dim : int
        The number of entries of a vector.
    largest : int
        The largest absolute value of an entry.

    Returns
    -------
    array of int, shape (count, dim)
        The vectors, without 0.
    """
    axis = np.arange(-largest, largest + 1)
    grid = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    is_nonzero = grid != 0
    first_nonzero = grid[np.arange(len(grid)), np.argmax(is_nonzero, axis=1)]
    return np.asarray(grid[first_nonzero > 0])


def _torus_density(
    mechanism: LocalMechanism,
    points: np.ndarray,
    queries: np.ndarray,
    degree: int | None,
) -> DensityEstimate:
    """Estimate the density of the records at places of a torus, from reports.

    Noise multiplies the Fourier coefficient at the vector k of whole numbers by a public
    factor a_k. The estimate at a place is the mean over reports of

        (2π)^{-d}·Σ (w_k/a_k)·cos⟨k, place − report⟩ over |k| ≤ L,

    w_k a smoothing weight. Dividing by a_k makes it unbiased for the smoothed density.

    Parameters
    ----------
    mechanism : LocalMechanism
        Laplace noise on the torus.
    points, queries : arrays, shape (n, d) and (m, d)
        The reports, and the places at which the density is wanted, as angles.
    degree : int or None
        L; None chooses it from n and the noise.

    Returns
    -------
    DensityEstimate
        The density per radian^d at each query, with standard errors.
    """
    dim = points.shape[1]
    largest = _LARGEST_DEGREE if dim == 1 else _LARGEST_DEGREE // 3
    all_frequencies = _positive_frequencies(dim, largest)
    lengths = np.linalg.norm(all_frequencies, axis=1)
    factors = torus_moments(mechanism, all_frequencies)

    def relative_error(limit: int) -> float:
        """Return the relative standard error of a uniform density at this degree."""
        if limit > largest:
            return math.inf
        is_used = lengths <= limit
        ratio = _window(lengths[is_used], limit) / factors[is_used]
        return math.sqrt(2 * float((ratio**2).sum()) / len(points))

    limit = _choose_degree(relative_error, degree)
    is_used = lengths <= limit
    frequencies = all_frequencies[is_used]
    coefficients = 2 * _window(lengths[is_used], limit) / factors[is_used]

    def kernel(block: np.ndarray) -> np.ndarray:
        """Return the kernel for every pair of a query of the block and a report."""
        query_phases = block @ frequencies.T
        report_phases = points @ frequencies.T
        total = (coefficients * np.cos(query_phases)) @ np.cos(report_phases).T
        total += (coefficients * np.sin(query_phases)) @ np.sin(report_phases).T
        return np.asarray((1 + total) / (2 * np.pi) ** dim)

    return _average_kernel(kernel, queries, len(points), limit)


def _average_kernel(
    kernel: Any, queries: np.ndarray, n: int, degree: int
) -> DensityEstimate:
    """Average a kernel over all reports at each query, with its standard error.

    Queries are taken in blocks, since an array of all pairs of a query and a report
    could exceed the memory.

    Parameters
    ----------
    kernel : callable
        Maps a block of queries to an array of shape (block, n): one number for each
        query and report, whose mean over reports is the density.
    queries : array, shape (m, ...)
        The places at which the density is wanted.
    n : int
        The number of reports.
    degree : int
        The largest degree of harmonics in the kernel, which the result states.

    Returns
    -------
    DensityEstimate
        Means over reports, and their standard errors.
    """
    block_size = max(1, _BLOCK_PAIRS // n)
    values = []
    errors = []
    for start in range(0, len(queries), block_size):
        kernel_values = kernel(queries[start : start + block_size])
        values.append(kernel_values.mean(axis=1))
        errors.append(kernel_values.std(axis=1, ddof=1) / math.sqrt(n))
    return DensityEstimate(np.concatenate(values), np.concatenate(errors), degree)


@dataclass(frozen=True, eq=False)
class PublicCells:
    """Cells of a space: each place belongs to the nearest of some public centers.

    Parameters
    ----------
    manifold : Manifold or Earth
        The manifold of the records.
    centers : array, shape (k, *record_shape)
        Public places, chosen without looking at the records.

    Examples
    --------
    >>> from curvedp.local import Earth
    >>> cells = PublicCells(Earth(), [[51.5, -0.1], [48.9, 2.4]])
    >>> cells.index([[50.0, 2.0]]).tolist()
    [1]
    """

    manifold: Any
    centers: Any

    def __post_init__(self) -> None:
        """Read the centers as points, and store them in the form of records again."""
        from curvedp.local.spaces import record_space

        space = record_space(self.manifold, None)
        points, is_single = read_batch(space, self.centers)
        if is_single or len(points) < 2:
            raise ParameterError("centers must be at least two places")
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "centers", space.write(points))

    space: RecordSpace = None  # type: ignore[assignment]
    points: np.ndarray = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.points)

    def index(self, records: Any) -> np.ndarray:
        """Return the cell of each record.

        Parameters
        ----------
        records : array, shape (n, *record_shape)
            Records or reports; one that cannot be read is the public record.

        Returns
        -------
        array of int, shape (n,)
            The number of the nearest center, from 0.
        """
        points, _ = read_batch(self.space, records)
        return self.nearest(points)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """Return the cell of each point: the number of the nearest center, from 0.

        Of centers at the same distance the first one counts.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Points of the manifold, in the manifold's own form (not in degrees).
        """
        manifold = self.space.manifold
        nearest = np.zeros(len(points), dtype=np.int64)
        shortest = np.full(len(points), np.inf)
        for number, center in enumerate(self.points):
            distances = np.asarray(manifold.dist(center, points))
            is_nearer = distances < shortest
            nearest[is_nearer] = number
            shortest = np.minimum(shortest, distances)
        return np.asarray(nearest)

    def snap(self, records: Any) -> np.ndarray:
        """Return the center of the cell of each record, which a device perturbs.

        Parameters
        ----------
        records : array, shape (n, *record_shape)
            Records; one that cannot be read counts as the public record.

        Returns
        -------
        array, shape (n, *record_shape)
            Centers in the form of records.
        """
        return np.asarray(np.asarray(self.centers)[self.index(records)])


class HistogramEstimate(NamedTuple):
    """How many records are in each public cell, estimated from reports.

    Attributes
    ----------
    counts : array
        Unbiased estimates; some may be negative.
    standard_errors : array
        Of each count.
    shares : array
        The most likely shares, which are not negative and add up to 1.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.local import MetricLaplace
    >>> poles = PublicCells(Sphere(2), [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    >>> mechanism = MetricLaplace(Sphere(2), epsilon=3.0)
    >>> reports = mechanism.randomize(np.tile([0.0, 0.0, 1.0], (200, 1)))
    >>> histogram = estimate_histogram(mechanism, reports, poles)
    >>> bool(histogram.counts[0] > 100), float(histogram.shares.sum().round(6))
    (True, 1.0)
    """

    counts: np.ndarray
    standard_errors: np.ndarray
    shares: np.ndarray


def estimate_histogram(
    mechanism: MetricLaplace, reports: Any, cells: PublicCells
) -> HistogramEstimate:
    """Return how many records are in each public cell, from reports of cell centers.

    Each device has replaced its record by the center of its cell (`cells.snap`) before
    it was randomized. Then P(report in cell j | record in cell k) is a public matrix C.
    The counts of the reports have the mean C·(counts of the records), so that C⁻¹ takes
    the bias out. The shares are those of the largest likelihood (expectation and
    maximization).

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that drew the reports.
    reports : array, shape (n, *record_shape)
        Reports of cell centers.
    cells : PublicCells
        The public cells.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.local import Earth, MetricLaplace
    >>> cells = PublicCells(Earth(), [[51.5, -0.1], [51.5, 0.0]])  # 7 km apart
    >>> places = MetricLaplace(Earth(), epsilon=1.0)
    >>> X = np.array([[51.5, -0.11]] * 300 + [[51.51, 0.01]] * 100)
    >>> reports = places.randomize(cells.snap(X))
    >>> histogram = estimate_histogram(places, reports, cells)
    >>> bool(np.all(np.abs(histogram.counts - [300, 100]) < 60))
    True
    """
    points = _read_points(mechanism.report_space, reports)
    n_cells = len(cells)
    transitions = _simulate_transitions(mechanism, cells)
    # An entry was simulated with a standard error of at most this, and a matrix of such
    # errors has singular values of at most about twice it times √n_cells.
    entry_error = 0.5 / math.sqrt(_CELL_DRAWS)
    smallest = float(np.linalg.svd(transitions, compute_uv=False)[-1])
    if smallest < 5 * entry_error * math.sqrt(n_cells):
        raise ParameterError(
            "the cells are too small for this noise: reports of different cells cannot "
            "be told apart; take larger cells"
        )

    reported = np.bincount(cells.nearest(points), minlength=n_cells)
    inverse = np.linalg.inv(transitions)
    counts = inverse @ reported
    shares = _most_likely_shares(transitions, reported)
    expected = np.maximum(len(points) * shares, 0.0)
    covariance = _covariance_of_reports(transitions, expected)
    # The diagonal of C⁻¹·covariance·C⁻ᵀ.
    variances = np.einsum("ij,jk,ik->i", inverse, covariance, inverse)
    return HistogramEstimate(counts, np.sqrt(np.maximum(variances, 0.0)), shares)


def _simulate_transitions(mechanism: MetricLaplace, cells: PublicCells) -> np.ndarray:
    """Estimate where the reports of the records of each cell lie, by simulation.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that drew the reports.
    cells : PublicCells
        The public cells.

    Returns
    -------
    array, shape (cells, cells)
        The matrix C: entry (j, k) is P(report in cell j | record in cell k). It is
        simulated with a public seed.
    """
    n_cells = len(cells)
    rng = np.random.default_rng(_CELL_SEED)
    transitions = np.empty((n_cells, n_cells))
    for cell, center in enumerate(cells.points):
        copies = np.repeat(center[np.newaxis], _CELL_DRAWS, axis=0)
        reported_cells = cells.nearest(mechanism.simulate_points(copies, rng))
        hits = np.bincount(reported_cells, minlength=n_cells)
        transitions[:, cell] = hits / _CELL_DRAWS
    return transitions


def _covariance_of_reports(transitions: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the covariance of the numbers of reports in each cell.

    The reports of the records of one cell are multinomial. Summed over cells, their
    covariance is diag(C·e) − C·diag(e)·Cᵀ. The variance that the simulation of C adds
    is included.

    Parameters
    ----------
    transitions : array, shape (cells, cells)
        The matrix C of `_simulate_transitions`.
    expected : array, shape (cells,)
        The expected number e of records in each cell.
    """
    covariance = np.diag(transitions @ expected)
    covariance -= (transitions * expected) @ transitions.T
    simulated_variance = transitions * (1 - transitions) / _CELL_DRAWS
    covariance += np.diag(simulated_variance @ expected**2)
    return covariance


def _most_likely_shares(transitions: np.ndarray, reported: np.ndarray) -> np.ndarray:
    """Return the shares of records in cells that make the reports most likely.

    Unlike unbiased estimates they are never negative. They are found by expectation and
    maximization: each step assigns the reports to cells by the present shares, and takes
    the assigned shares as the next ones.

    Parameters
    ----------
    transitions : array, shape (k, k)
        Column k holds the probabilities of reports from cell k.
    reported : array, shape (k,)
        How many reports lie in each cell.

    Returns
    -------
    array, shape (k,)
        Shares that add up to 1.
    """
    k = len(reported)
    shares = np.full(k, 1 / k)
    for _ in range(2000):
        # The bound avoids 0/0 where no cell explains a report.
        predicted = np.maximum(transitions @ shares, 1e-300)
        updated = shares * (transitions.T @ (reported / predicted)) / reported.sum()
        if np.abs(updated - shares).max() < 1e-10:
            return np.asarray(updated)
        shares = np.asarray(updated)
    return shares
