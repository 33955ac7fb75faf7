"""Initial centers of clusters, from released numbers alone. A *candidate* is a public
point that may become a center; it is *occupied* if many records are nearest to it, by
noisy counts. The *gap* of a number of clusters compares them with a cloud that has
none.

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
_LLOYD_STEPS = 40

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
# At least this many candidates count as occupied.
_LEAST_OCCUPIED = 20

# How many public draws say where a Gaussian cloud without clusters would lie.
_REFERENCE_DRAWS = 20_000
# This many of them are compared with all candidates at once, to bound the memory.
_REFERENCE_BLOCK = 1000


class Subspace(NamedTuple):
    """Principal directions of vectors, computed from a noisy second moment.

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
    """Return the principal directions of a noisy second moment that exceed its noise.

    The noise is a symmetric Gaussian matrix whose entries off the diagonal have
    standard deviation τ = `noise_std`/√2. Its largest eigenvalue is about
    e = 2√d·τ (Wigner). An eigenvalue λ > √d·τ of the moment without noise appears at
    λ + dτ²/λ (Baik et al. 2005), which is solved for λ.

    Parameters
    ----------
    moment : array of shape (d, d)
        The noisy sum of yyᵀ over the vectors y of all records.
    noise_std : float
        The standard deviation of the noise in each orthonormal coordinate of the
        symmetric matrix.
    n : float
        The (noisy) number of records.
    max_components : int
        At most this many directions are returned; at least 2, or d if that is smaller.
    margin : float
        An eigenvalue exceeds the noise if it is above `margin`·e.

    Returns
    -------
    Subspace
        The directions, from the largest eigenvalue down, and the standard deviation of
        the vectors along each.
    """
    size = len(moment)
    eigenvalues, eigenvectors = np.linalg.eigh(moment)
    eigenvalues = eigenvalues[::-1]
    eigenvectors = eigenvectors[:, ::-1]

    tau = noise_std / sqrt(2)
    noise_edge = 2 * sqrt(size) * tau
    n_above_noise = int(np.sum(eigenvalues > margin * noise_edge))
    min_components = min(size, 2)
    max_components = max(max_components, min_components)
    n_components = min(max(n_above_noise, min_components), max_components, size)

    # Solve y = λ + dτ²/λ for λ. Below the edge nothing but λ ≤ √d·τ is known.
    noisy = eigenvalues[:n_components]
    root = np.sqrt(np.maximum(noisy**2 - 4 * size * tau**2, 0.0))
    without_noise = np.where(noisy > noise_edge, (noisy + root) / 2, noise_edge / 2)
    deviations = np.sqrt(without_noise / max(n, 1.0))
    directions = _fix_signs(eigenvectors[:, :n_components].T)
    # The vectors have length at most 1, so no deviation is larger.
    return Subspace(directions, np.minimum(deviations, 1.0))


def _fix_signs(rows: np.ndarray) -> np.ndarray:
    """Return eigenvectors with their signs changed so that the largest entry is positive.

    Libraries of linear algebra return eigenvectors with either sign, but a replay on
    another machine must compute the same vectors.

    Parameters
    ----------
    rows : array of shape (k, d)
        One eigenvector in each row.
    """
    index_of_largest = np.argmax(np.abs(rows), axis=1)
    signs = np.sign(rows[np.arange(len(rows)), index_of_largest])
    return np.asarray(rows * signs[:, None])


def draw_candidates(subspace: Subspace, count: int, n_leading: int) -> np.ndarray:
    """Draw candidates for cluster centers from the released covariance.

    The draws are Gaussian, with a public seed. Candidates differ in the leading
    directions only: in fewer dimensions the same number of candidates lies denser, so
    that each record has a nearer one.

    Parameters
    ----------
    subspace : Subspace
        The released directions, with the deviation of the records along each.
    count : int
        The number of candidates.
    n_leading : int
        The number of directions in which candidates differ.

    Returns
    -------
    array of shape (count, components)
        One candidate in each row, in coordinates of the subspace.
    """
    rng = np.random.default_rng(_SEED)
    n_leading = min(n_leading, len(subspace.deviations))
    candidates = np.zeros((count, len(subspace.deviations)))
    normals = rng.standard_normal((count, n_leading))
    candidates[:, :n_leading] = normals * subspace.deviations[:n_leading]
    return candidates


class WeightedPoints(NamedTuple):
    """Points with weights: the estimated number of records near each point."""

    points: np.ndarray
    weights: np.ndarray


def cluster_weighted_points(cloud: WeightedPoints, n_clusters: int) -> np.ndarray:
    """Return the centers of weighted k-means, the best of a few restarts.

    Parameters
    ----------
    cloud : WeightedPoints
        The points and their weights.
    n_clusters : int
        The number of clusters.

    Returns
    -------
    array of shape (n_clusters, components)
        The centers.
    """
    centers, _ = _best_of_restarts(cloud, n_clusters)
    return centers


def _best_of_restarts(
    cloud: WeightedPoints, n_clusters: int
) -> tuple[np.ndarray, float]:
    """Run weighted k-means from several random starts, and return the best result.

    Parameters
    ----------
    cloud : WeightedPoints
        The points and their weights.
    n_clusters : int
        The number of clusters.

    Returns
    -------
    centers : array of shape (n_clusters, components)
        The centers with the least inertia.
    inertia : float
        The weighted sum of squared distances to the nearest center.
    """
    rng = np.random.default_rng(_SEED)
    runs = [_weighted_kmeans(cloud, n_clusters, rng) for _ in range(_RESTARTS)]
    inertias = [inertia for _, inertia in runs]
    return runs[int(np.argmin(inertias))]


def _weighted_kmeans(
    cloud: WeightedPoints, n_clusters: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Run Lloyd's algorithm on weighted points from one random start.

    The points are candidates for centers, and the weights are noisy counts of the
    records nearest to them. The best of several such runs is used
    (`_best_of_restarts`).

    Parameters
    ----------
    cloud : WeightedPoints
        The points and their weights.
    n_clusters : int
        The number of clusters.
    rng : numpy.random.Generator
        A generator with a public seed.

    Returns
    -------
    centers : array of shape (n_clusters, components)
        The centers after the last step.
    inertia : float
        The weighted sum of squared distances to the nearest center.
    """
    points, weights = cloud
    centers = _spread_start(cloud, n_clusters, rng)
    labels = np.full(len(points), -1)
    for _ in range(_LLOYD_STEPS):
        squares = _squared_distances(points, centers)
        nearest = np.argmin(squares, axis=1)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
        # Row c has the weights of the points of cluster c, and zeros for the others.
        membership = np.zeros((n_clusters, len(points)))
        membership[labels, np.arange(len(points))] = weights
        cluster_weights = membership.sum(axis=1)
        has_points = cluster_weights > 0
        weighted_sums = membership @ points
        centers[has_points] = (
            weighted_sums[has_points] / cluster_weights[has_points, None]
        )
    squares = _squared_distances(points, centers)
    return centers, float(np.sum(weights * squares.min(axis=1)))


def _spread_start(
    cloud: WeightedPoints, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Choose initial centers among weighted points by k-means++.

    Each center is a random point. Its probability is proportional to its weight times
    its squared distance to the nearest center so far (Arthur & Vassilvitskii 2007).

    Parameters
    ----------
    cloud : WeightedPoints
        The points and their weights.
    n_clusters : int
        The number of centers.
    rng : numpy.random.Generator
        A generator with a public seed.

    Returns
    -------
    array of shape (n_clusters, components)
        The initial centers.
    """
    points, weights = cloud
    center_indices = [_choose_by_mass(weights, rng.random())]
    squared_norms = np.sum(points**2, axis=1)
    squares = _squared_distances(points, points[center_indices], squared_norms)[:, 0]
    while len(center_indices) < n_clusters:
        mass = weights * squares
        if not mass.sum() > 0:  # fewer distinct points than clusters
            mass = weights
        new_index = _choose_by_mass(mass, rng.random())
        center_indices.append(new_index)
        new_center = points[[new_index]]
        squares_to_new = _squared_distances(points, new_center, squared_norms)[:, 0]
        squares = np.minimum(squares, squares_to_new)
    return np.array(points[center_indices])


def _choose_by_mass(mass: np.ndarray, fraction: float) -> int:
    """Return the first index at which the cumulative mass exceeds a fraction of the total.

    For a uniformly random fraction, each index has a probability proportional to its
    mass.

    Parameters
    ----------
    mass : array of shape (k,)
        The masses, at least 0.
    fraction : float
        A number in [0, 1).
    """
    cumulative = np.cumsum(mass)
    index = np.searchsorted(cumulative, fraction * cumulative[-1], side="right")
    return int(min(index, len(mass) - 1))


def _squared_distances(
    points: np.ndarray,
    centers: np.ndarray,
    squared_norms: np.ndarray | None = None,
) -> np.ndarray:
    """Return the squared distance of each point to each center, at least 0.

    It is |p|² − 2⟨p, c⟩ + |c|², which needs one matrix product and no array of
    differences. Rounding can make it negative, hence the bound.

    Parameters
    ----------
    points : array, shape (n, k)
        The points p.
    centers : array, shape (m, k)
        The centers c.
    squared_norms : array, shape (n,), optional
        The |p|², for a caller that needs them many times.

    Returns
    -------
    array, shape (n, m)
        The squared distances.
    """
    if squared_norms is None:
        squared_norms = np.sum(points**2, axis=1)
    products = points @ centers.T
    squares = squared_norms[:, None] - 2 * products + np.sum(centers**2, axis=1)
    return np.asarray(np.maximum(squares, 0.0))


def _nearest_candidates(
    points: np.ndarray, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the nearest candidate of each point, and its squared distance.

    The expected counts of a cloud without clusters are computed with it.

    Parameters
    ----------
    points : array of shape (k, components)
        The points.
    candidates : array of shape (candidates, components)
        The candidates for centers.

    Returns
    -------
    indices : array of int, shape (k,)
        The index of the nearest candidate of each point.
    squares : array of shape (k,)
        The squared distance to it.
    """
    indices = []
    squares = []
    # In blocks, because the table of all squared distances is large.
    for block in np.array_split(points, max(1, len(points) // _REFERENCE_BLOCK)):
        block_squares = _squared_distances(block, candidates)
        indices.append(np.argmin(block_squares, axis=1))
        squares.append(np.min(block_squares, axis=1))
    return np.concatenate(indices), np.concatenate(squares)


class NoisyHistogram(NamedTuple):
    """The released numbers of records that are nearest to each candidate.

    Attributes
    ----------
    counts : array of shape (candidates,)
        The noisy number of records that are nearest to each candidate.
    std : float
        The standard deviation of the noise in each count.
    """

    counts: np.ndarray
    std: float

    def occupied_candidates(
        self, candidates: np.ndarray, min_count: int
    ) -> WeightedPoints:
        """Return the candidates whose count clearly exceeds the noise, with their counts.

        Parameters
        ----------
        candidates : array of shape (candidates, components)
            All candidates for centers, one in each row.
        min_count : int
            At least this many candidates are returned, if there are so many. They are
            those with the largest counts if fewer exceed the noise.

        Returns
        -------
        WeightedPoints
            The candidates that are likely to have records near them. Their weights are
            the noisy counts.
        """
        is_occupied = self.counts > _OCCUPIED_DEVIATIONS * self.std
        if is_occupied.sum() < min_count:
            indices_of_largest = np.argsort(-self.counts, kind="stable")[:min_count]
            is_occupied = np.zeros(len(self.counts), dtype=bool)
            is_occupied[indices_of_largest] = True
        weights = np.maximum(self.counts[is_occupied], 1e-3)  # weights are positive
        return WeightedPoints(candidates[is_occupied], weights)


def choose_number_of_clusters(
    candidates: np.ndarray,
    subspace: Subspace,
    histogram: NoisyHistogram,
    largest: int,
) -> int:
    """Choose how many clusters there are by the gap statistic of released numbers.

    Let W(k) be the mean squared distance of the occupied candidates to the nearest of
    the best k centers, weighted by the noisy counts. Let R(k) be the same for a
    reference without clusters: a Gaussian cloud of the released covariance, whose
    histogram has as much noise. Both are too small by q, the mean squared distance of a
    record to its nearest candidate. The gap log(R(k) + q) − log(W(k) + q) is large if k
    centers explain the records better than they explain the reference (Tibshirani,
    Walther & Hastie 2001). The smallest k is chosen whose gap is at most 0.05 below the
    largest gap.

    Parameters
    ----------
    candidates : array of shape (candidates, components)
        The candidates for centers, in coordinates of the subspace.
    subspace : Subspace
        The released directions with their deviations.
    histogram : NoisyHistogram
        The noisy number of records nearest to each candidate.
    largest : int
        The largest number of clusters for which the privacy budget is enough.

    Returns
    -------
    int
        The number of clusters; 2 if no number explains the records better than the
        reference.
    """
    reference_histogram, quantization = _reference_histogram(
        candidates, subspace, histogram
    )
    cloud = histogram.occupied_candidates(candidates, _LEAST_OCCUPIED)
    reference = reference_histogram.occupied_candidates(candidates, _LEAST_OCCUPIED)

    most = min(largest, len(cloud.points) // 2, len(reference.points) // 2)
    numbers = [k for k in _COMPARED_NUMBERS if k <= most]
    gaps: list[float] = []
    for k in numbers:
        mean_square = _mean_inertia(cloud, k) + quantization
        reference_square = _mean_inertia(reference, k) + quantization
        gaps.append(log(reference_square / max(mean_square, 1e-300)))

    if not gaps or max(gaps) <= 0.0:
        return 2
    smallest_gap = max(gaps) - _GAP_TOLERANCE
    return next(k for k, gap in zip(numbers, gaps, strict=True) if gap >= smallest_gap)


def _reference_histogram(
    candidates: np.ndarray, subspace: Subspace, histogram: NoisyHistogram
) -> tuple[NoisyHistogram, float]:
    """Return the histogram that a Gaussian cloud without clusters would have.

    The right number of clusters explains the released histogram much better than it
    explains this one. The reference is simulated with a public seed.

    Parameters
    ----------
    candidates : array of shape (candidates, components)
        The candidates for centers, in coordinates of the subspace.
    subspace : Subspace
        The released directions, with the deviation of the cloud along each.
    histogram : NoisyHistogram
        The released histogram. The reference has the same number of records and the
        same noise.

    Returns
    -------
    reference : NoisyHistogram
        The expected number of records nearest to each candidate, with noise.
    quantization : float
        The mean squared distance of a point of the cloud to its nearest candidate.
    """
    rng = np.random.default_rng(_SEED + 1)
    n_leading = int(np.sum(np.any(candidates != 0, axis=0)))
    draws = np.zeros((_REFERENCE_DRAWS, candidates.shape[1]))
    normals = rng.standard_normal((_REFERENCE_DRAWS, n_leading))
    draws[:, :n_leading] = normals * subspace.deviations[:n_leading]

    nearest, squares = _nearest_candidates(draws, candidates)
    counts_of_draws = np.bincount(nearest, minlength=len(candidates))
    n_records = max(float(histogram.counts.sum()), 1.0)
    noise = histogram.std * rng.standard_normal(len(candidates))
    reference_counts = n_records / _REFERENCE_DRAWS * counts_of_draws + noise
    reference = NoisyHistogram(reference_counts, histogram.std)
    return reference, float(np.mean(squares))


def _mean_inertia(cloud: WeightedPoints, n_clusters: int) -> float:
    """Return the weighted mean squared distance of points to the best k-means centers.

    Parameters
    ----------
    cloud : WeightedPoints
        The points and their weights.
    n_clusters : int
        The number of centers.
    """
    _, inertia = _best_of_restarts(cloud, n_clusters)
    return inertia / float(cloud.weights.sum())
