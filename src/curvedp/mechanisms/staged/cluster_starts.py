"""Initial centers of clusters, from released numbers alone.

Everything here is post-processing of a noisy histogram or a noisy matrix. Random
numbers come from a generator with a public seed, so a replay takes the same branches.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

# The public seed of candidates and of restarts.
_SEED = 20261119

# How often weighted k-means is restarted, and how many steps it makes at most.
_RESTARTS = 5
_STEPS = 40

# The numbers of clusters that are compared if none is given.
_COMPARED_NUMBERS = (
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    12,
    14,
    16,
    18,
    20,
    25,
    30,
    35,
    40,
    50,
    60,
    75,
    100,
)

# A smaller number of clusters is preferred if its gap is within this of the largest.
_GAP_TOLERANCE = 0.05

# A candidate is occupied if its noisy count is above this many standard deviations.
_OCCUPIED_DEVIATIONS = 1.5
# At least so many candidates count as occupied.
_LEAST_OCCUPIED = 20

# How many public draws say where a Gaussian cloud without clusters would lie.
_REFERENCE_DRAWS = 20_000
# So many of them are compared with all candidates at once, which bounds the memory.
_REFERENCE_BLOCK = 1000


class Subspace(NamedTuple):
    """Principal directions of vectors, made of a noisy second moment.

    Attributes
    ----------
    directions : array, shape (components, size)
        Orthonormal rows up to the rounding to a grid.
    deviations : array, shape (components,)
        The estimated standard deviation of the vectors along each direction.
    """

    directions: np.ndarray
    deviations: np.ndarray


def leading_subspace(
    moment: np.ndarray, noise_std: float, n: float, max_components: int, margin: float
) -> Subspace:
    """Return the directions of a noisy second moment that stand out of its noise.

    The noise is a symmetric Gaussian matrix whose entries off the diagonal have
    standard deviation τ = `noise_std`/√2. Its largest eigenvalue is about
    e = 2√d·τ (Wigner). An eigenvalue λ > √d·τ of the moment without noise appears at
    λ + dτ²/λ (Baik et al. 2005), which is solved for λ.

    Parameters
    ----------
    moment : array, shape (d, d)
        The noisy sum of yyᵀ.
    noise_std : float
        The standard deviation of the noise in each orthonormal coordinate.
    n : float
        The (noisy) number of records.
    max_components : int
        At most so many directions are returned; at least 2, or d if that is smaller.
    margin : float
        An eigenvalue stands out if it is above `margin`·e.
    """
    size = len(moment)
    eigenvalues, eigenvectors = np.linalg.eigh(moment)
    eigenvalues = eigenvalues[::-1]
    eigenvectors = eigenvectors[:, ::-1]

    tau = noise_std / sqrt(2)
    edge = 2 * sqrt(size) * tau
    n_outstanding = int(np.sum(eigenvalues > margin * edge))
    least = min(size, 2)
    n_components = min(max(n_outstanding, least), max(max_components, least), size)

    seen = eigenvalues[:n_components]
    root = np.sqrt(np.maximum(seen**2 - 4 * size * tau**2, 0.0))
    without_noise = np.where(seen > edge, (seen + root) / 2, edge / 2)
    deviations = np.sqrt(without_noise / max(n, 1.0))
    directions = _fix_signs(eigenvectors[:, :n_components].T)
    return Subspace(directions, np.minimum(deviations, 1.0))


def _fix_signs(rows: np.ndarray) -> np.ndarray:
    """Make the largest entry of each row positive.

    The sign of an eigenvector is a matter of the library that computes it; a replay
    elsewhere must find the same.
    """
    largest = np.argmax(np.abs(rows), axis=1)
    signs = np.sign(rows[np.arange(len(rows)), largest])
    return np.asarray(rows * signs[:, None])


def draw_candidates(subspace: Subspace, count: int, n_leading: int) -> np.ndarray:
    """Draw candidates for centers from the released covariance, with a public seed.

    They differ in the leading directions only: in few dimensions a given number of
    candidates lies denser, and a record has a nearer one.

    Parameters
    ----------
    subspace : Subspace
    count : int
        How many candidates.
    n_leading : int
        The number of directions in which candidates differ.

    Returns
    -------
    array, shape (count, components)
    """
    rng = np.random.default_rng(_SEED)
    n_leading = min(n_leading, len(subspace.deviations))
    candidates = np.zeros((count, len(subspace.deviations)))
    normals = rng.standard_normal((count, n_leading))
    candidates[:, :n_leading] = normals * subspace.deviations[:n_leading]
    return candidates


class WeightedPoints(NamedTuple):
    """Points with the estimated number of records that each stands for."""

    points: np.ndarray
    weights: np.ndarray


def cluster_weighted_points(cloud: WeightedPoints, n_clusters: int) -> np.ndarray:
    """Return the centers of weighted k-means, the best of a few public restarts.

    Parameters
    ----------
    cloud : WeightedPoints
    n_clusters : int

    Returns
    -------
    array, shape (n_clusters, components)
    """
    centers, _ = _best_of_restarts(cloud, n_clusters)
    return centers


def _best_of_restarts(
    cloud: WeightedPoints, n_clusters: int
) -> tuple[np.ndarray, float]:
    """Return the centers of least inertia over all restarts, and that inertia."""
    rng = np.random.default_rng(_SEED)
    runs = [_weighted_kmeans(cloud, n_clusters, rng) for _ in range(_RESTARTS)]
    inertias = [inertia for _, inertia in runs]
    return runs[int(np.argmin(inertias))]


def _weighted_kmeans(
    cloud: WeightedPoints, n_clusters: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Run Lloyd's algorithm on weighted points from one random start.

    Parameters
    ----------
    cloud : WeightedPoints
    n_clusters : int
    rng : numpy.random.Generator
        With a public seed.

    Returns
    -------
    centers : array, shape (n_clusters, components)
    inertia : float
        The weighted sum of squared distances to the nearest center.
    """
    points, weights = cloud
    centers = _spread_start(cloud, n_clusters, rng)
    labels = np.full(len(points), -1)
    for _ in range(_STEPS):
        squares = _squared_distances(points, centers)
        nearest = np.argmin(squares, axis=1)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
        membership = np.zeros((n_clusters, len(points)))
        membership[labels, np.arange(len(points))] = weights
        totals = membership.sum(axis=1)
        is_used = totals > 0
        centers[is_used] = (membership @ points)[is_used] / totals[is_used, None]
    squares = _squared_distances(points, centers)
    return centers, float(np.sum(weights * squares.min(axis=1)))


def _spread_start(
    cloud: WeightedPoints, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Choose initial centers by k-means++ (Arthur & Vassilvitskii 2007).

    Parameters
    ----------
    cloud : WeightedPoints
    n_clusters : int
    rng : numpy.random.Generator
    """
    points, weights = cloud
    chosen = [_choose_by_mass(weights, rng.random())]
    squares = _squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < n_clusters:
        mass = weights * squares
        if not mass.sum() > 0:  # fewer distinct points than clusters
            mass = weights
        chosen.append(_choose_by_mass(mass, rng.random()))
        newest = _squared_distances(points, points[chosen[-1:]])[:, 0]
        squares = np.minimum(squares, newest)
    return np.array(points[chosen])


def _choose_by_mass(mass: np.ndarray, fraction: float) -> int:
    """Return the first index at which the cumulative mass exceeds a fraction of it."""
    cumulative = np.cumsum(mass)
    index = np.searchsorted(cumulative, fraction * cumulative[-1], side="right")
    return int(min(index, len(mass) - 1))


def _squared_distances(points: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the squared distance of each point to each center, at least 0."""
    products = points @ centers.T
    squares = (
        np.sum(points**2, axis=1)[:, None] - 2 * products + np.sum(centers**2, axis=1)
    )
    return np.asarray(np.maximum(squares, 0.0))


def _nearest_candidates(
    points: np.ndarray, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the nearest candidate of each point, and its squared distance.

    Parameters
    ----------
    points : array, shape (count, components)
    candidates : array, shape (candidates, components)
    """
    indices = []
    squares = []
    for block in np.array_split(points, max(1, len(points) // _REFERENCE_BLOCK)):
        block_squares = _squared_distances(block, candidates)
        indices.append(np.argmin(block_squares, axis=1))
        squares.append(np.min(block_squares, axis=1))
    return np.concatenate(indices), np.concatenate(squares)


class NoisyHistogram(NamedTuple):
    """The released numbers of records that are nearest to each candidate.

    Attributes
    ----------
    counts : array, shape (count,)
    std : float
        The standard deviation of the noise in each count.
    """

    counts: np.ndarray
    std: float

    def occupied(self, candidates: np.ndarray, least: int) -> WeightedPoints:
        """Return the candidates whose count stands out of the noise, with their counts.

        Parameters
        ----------
        candidates : array, shape (count, components)
        least : int
            At least so many candidates are returned: those of the largest counts.
        """
        is_occupied = self.counts > _OCCUPIED_DEVIATIONS * self.std
        if is_occupied.sum() < least:
            largest = np.argsort(-self.counts, kind="stable")[:least]
            is_occupied = np.zeros(len(self.counts), dtype=bool)
            is_occupied[largest] = True
        weights = np.maximum(self.counts[is_occupied], 1e-3)
        return WeightedPoints(candidates[is_occupied], weights)


def choose_number_of_clusters(
    candidates: np.ndarray,
    subspace: Subspace,
    histogram: NoisyHistogram,
    largest: int,
) -> int:
    """Choose how many clusters there are by the gap statistic of released numbers.

    With k centers the weighted inertia of the occupied candidates is W(k) for each
    record. A Gaussian cloud of the released covariance, which has no clusters and whose
    histogram has as much noise, has the inertia R(k). Both are too small by q, the mean
    squared distance of a record to its nearest candidate. The gap
    log(R(k) + q) − log(W(k) + q) is large where k centers explain the records better
    than they would explain such a cloud (Tibshirani, Walther & Hastie 2001). The
    smallest k whose gap is nearly the largest is taken.

    Parameters
    ----------
    candidates : array, shape (count, components)
    subspace : Subspace
        The released directions with their deviations.
    histogram : NoisyHistogram
        Of all candidates.
    largest : int
        The largest number of clusters that the budget can carry.
    """
    rng = np.random.default_rng(_SEED + 1)
    n_leading = int(np.sum(np.any(candidates != 0, axis=0)))
    draws = np.zeros((_REFERENCE_DRAWS, candidates.shape[1]))
    normals = rng.standard_normal((_REFERENCE_DRAWS, n_leading))
    draws[:, :n_leading] = normals * subspace.deviations[:n_leading]
    nearest, squares = _nearest_candidates(draws, candidates)
    quantization = float(np.mean(squares))
    drawn_counts = np.bincount(nearest, minlength=len(candidates))
    n = max(float(histogram.counts.sum()), 1.0)
    noise = histogram.std * rng.standard_normal(len(candidates))
    reference_counts = n / _REFERENCE_DRAWS * drawn_counts + noise

    cloud = histogram.occupied(candidates, _LEAST_OCCUPIED)
    reference = NoisyHistogram(reference_counts, histogram.std).occupied(
        candidates, _LEAST_OCCUPIED
    )
    most = min(largest, len(cloud.points) // 2, len(reference.points) // 2)
    numbers = [k for k in _COMPARED_NUMBERS if k <= most]
    gaps: list[float] = []
    for k in numbers:
        mean_square = _mean_inertia(cloud, k) + quantization
        reference_square = _mean_inertia(reference, k) + quantization
        gaps.append(log(reference_square / max(mean_square, 1e-300)))
    if not gaps or max(gaps) <= 0.0:  # no more clusters than such a cloud has
        return 2
    enough = max(gaps) - _GAP_TOLERANCE
    return next(k for k, gap in zip(numbers, gaps, strict=True) if gap >= enough)


def _mean_inertia(cloud: WeightedPoints, n_clusters: int) -> float:
    """Return the weighted mean squared distance to the nearest of the best centers."""
    _, inertia = _best_of_restarts(cloud, n_clusters)
    return inertia / float(cloud.weights.sum())
