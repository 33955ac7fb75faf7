"""The energy distance between two samples on a manifold: 0 for samples of the same
distribution, on average. It compares distances between the samples with distances
within them.
"""

from math import sqrt

import numpy as np
from scipy.spatial.distance import cdist

from curvedp.geometry import Euclidean
from curvedp.geometry.manifold import Manifold

# How many distances are computed at once.
_DISTANCES_PER_BLOCK = 1 << 18


def energy_distance(manifold: Manifold, X: np.ndarray, Y: np.ndarray) -> float:
    """Return the energy distance of two samples, with geodesic distances d.

    It is the square root of 2·E d(x, y) − E d(x, x') − E d(y, y') (Székely & Rizzo
    2013), estimated without bias and raised to 0. The unit is the square root of a
    length, as that of `scipy.stats.energy_distance`. On Euclidean, hyperbolic and
    spherical spaces it is 0 for equal distributions only.

    Parameters
    ----------
    manifold : Manifold
        The manifold of both samples.
    X, Y : arrays, shapes (n, *point_shape) and (m, *point_shape)
        At least two points each.

    Returns
    -------
    float
        At least 0. It measures how well synthetic records follow the real ones, for
        example.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> round(energy_distance(Euclidean(1), np.zeros((2, 1)), np.ones((2, 1))), 3)
    1.414
    """
    return sqrt(max(squared_energy_distance(manifold, X, Y), 0.0))


def squared_energy_distance(manifold: Manifold, X: np.ndarray, Y: np.ndarray) -> float:
    """Return the unbiased estimate of the squared energy distance, which may be below 0.

    Pairs of a point with itself, at distance 0, are left out of the means within a
    sample.

    Parameters
    ----------
    manifold : Manifold
        The manifold of both samples.
    X, Y : arrays, shapes (n, *point_shape) and (m, *point_shape)
        At least two points each.

    Returns
    -------
    float
        2·E d(x, y) − E d(x, x') − E d(y, y').
    """
    n = len(X)
    m = len(Y)
    across = _mean_distance(manifold, X, Y)
    within_first = _mean_distance(manifold, X, X) * n / (n - 1)
    within_second = _mean_distance(manifold, Y, Y) * m / (m - 1)
    return 2 * across - within_first - within_second


def _mean_distance(manifold: Manifold, X: np.ndarray, Y: np.ndarray) -> float:
    """Return the mean distance between points of one sample and points of another.

    It is computed for blocks of rows, so that at most `_DISTANCES_PER_BLOCK` distances are in memory.

    Parameters
    ----------
    manifold : Manifold
        The manifold of both samples.
    X, Y : arrays of points
        Points, along the first axis. Y may be X itself.

    Returns
    -------
    float
        The mean over all n·m pairs.
    """
    rows = max(1, _DISTANCES_PER_BLOCK // len(Y))
    total = 0.0
    # SciPy computes Euclidean distances without an array of differences.
    if isinstance(manifold, Euclidean):
        for start in range(0, len(X), rows):
            total += float(cdist(X[start : start + rows], Y).sum())
        return total / (len(X) * len(Y))
    for start in range(0, len(X), rows):
        distances = np.asarray(manifold.dist(X[start : start + rows, None], Y[None, :]))
        total += float(distances.sum())
    return total / (len(X) * len(Y))
