"""A metric made from a density estimate of the records, with one isolated record.

*Conformal-DP* (He et al. 2025, arXiv 2504.20941) multiplies the metric of a manifold by
a factor made from a kernel density estimate, which makes the records look evenly
spread, and adds Laplace noise with the new distance. Only its abstract and beginnings
could be read. What is computed here is the question that they raise: the new distance
depends on the records, so how much of the privacy loss comes from the metric itself?
"""

import math
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

__all__ = ["conformal", "isolated_record_length", "metric_losses"]

# Half the side of the flat torus on which records lie; all of them are within 1 of 0.
_HALF_SIDE = 1.6
# Steps of a path on the grid: to the 8 neighbors and by knight's moves.
_STEPS = [(0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1)]
# Bandwidth of the kernel, and standard deviation of all records but one.
_BANDWIDTH = 0.1
_SPREAD = 0.1


def isolated_record_length(n: int) -> float:
    """Return the length that one record far from all others adds around itself.

    In two dimensions the factor that evens out a density f is f itself, so that lengths
    are multiplied by √f. One of n records gives a Gaussian kernel of bandwidth h the
    density e^{−r²/2h²}/(2πnh²). Every path from its center outward has the length

        ∫√f dr = 1/√(2n),

    whatever h is.

    Parameters
    ----------
    n : int
        The number of records.

    Examples
    --------
    >>> round(isolated_record_length(50), 12)
    0.1
    """
    return 1 / math.sqrt(2 * n)


def metric_losses(n: int, cells: int, uniform_share: float) -> dict[str, float]:
    """Return what the metric alone adds to the privacy loss, over ε.

    n records lie on a flat torus, in a ball of radius 1. All but one follow a normal
    law around the origin. The last one is at (1, 0), or also at the origin. The density
    is ∝ e^{−ε·d(y, mean)/Δ}, where d is the distance of the metric made from the
    records. Δ = 2/n times the largest factor of lengths is the most that the mean moves
    in a metric that stays. The mean is taken to be the origin for both data sets, so
    that a metric that stays would give no loss at all.

    Parameters
    ----------
    n : int
        The number of records.
    cells : int
        The number of grid lines in each direction.
    uniform_share : float
        The share of a uniform law that is mixed into the density estimate.

    Returns
    -------
    dict
        "largest", the largest |log-ratio| of the two densities over ε, and "by the length
        around the record", what the length of `isolated_record_length` alone gives.
    """
    line = 2 * _HALF_SIDE * (np.arange(cells) - cells // 2) / cells
    x, y = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))

    def kernel(center: float, width: float) -> np.ndarray:
        """Return a normal density about (center, 0) at all points of the grid."""
        square = (x - center) ** 2 + y**2
        return np.asarray(np.exp(-square / (2 * width**2)) / (2 * math.pi * width**2))

    cluster = (n - 1) / n * kernel(0.0, math.hypot(_BANDWIDTH, _SPREAD))
    uniform = uniform_share / (2 * _HALF_SIDE) ** 2
    # The factor of lengths is the square root of the density estimate.
    factors = []
    for place in (1.0, 0.0):
        density = cluster + kernel(place, _BANDWIDTH) / n
        factors.append(np.sqrt((1 - uniform_share) * density + uniform))

    sensitivity = 2 / n * max(float(factor.max()) for factor in factors)
    origin = int(np.argmin(x**2 + y**2))
    log_densities = []
    for factor in factors:
        distance = _grid_distances(factor, cells, origin)
        weight = np.exp(-distance / sensitivity)
        log_densities.append(-distance / sensitivity - math.log(float(weight.sum())))
    loss = np.abs(log_densities[0] - log_densities[1])
    return {
        "largest": float(loss.max()),
        "by the length around the record": isolated_record_length(n) / sensitivity,
    }


def _grid_distances(factor: np.ndarray, cells: int, start: int) -> np.ndarray:
    """Return shortest distances on the torus from one point, by Dijkstra's algorithm.

    Parameters
    ----------
    factor : array of shape (cells²,)
        The factor of lengths at each point of the grid.
    cells : int
        The number of grid lines in each direction.
    start : int
        The number of the point.

    Returns
    -------
    array of shape (cells²,)
        Distances along paths of the grid, a little above the true ones.
    """
    spacing = 2 * _HALF_SIDE / cells
    index = np.arange(cells * cells).reshape(cells, cells)
    tails, heads, lengths = [], [], []
    for down, right in _STEPS:
        first = index.ravel()
        second = np.roll(index, (-down, -right), axis=(0, 1)).ravel()
        mean_factor = (factor[first] + factor[second]) / 2
        tails.append(first)
        heads.append(second)
        lengths.append(spacing * math.hypot(down, right) * mean_factor)
    edges = (np.concatenate(lengths), (np.concatenate(tails), np.concatenate(heads)))
    graph = coo_array(edges, shape=(cells**2, cells**2)).tocsr()
    return np.asarray(dijkstra(graph, directed=False, indices=start))


def conformal(full: bool) -> dict[str, Any]:
    """Return what the metric alone adds to the privacy loss, for growing n.

    Parameters
    ----------
    full : bool
        Whether to take a finer grid and one size more.

    Returns
    -------
    dict
        "records", the sizes, and three rows of losses over ε: by the density estimate,
        by the length around the isolated record, and with a tenth of a uniform law.
    """
    cells = 160 if full else 80
    sizes = [100, 1000, 10_000] if full else [100, 1000]
    plain = [metric_losses(n, cells, 0.0) for n in sizes]
    mixed = [metric_losses(n, cells, 0.1) for n in sizes]
    name = "by the length around the record"
    return {
        "records": sizes,
        "loss over ε": [losses["largest"] for losses in plain],
        "loss over ε, by the length": [losses[name] for losses in plain],
        "loss over ε, a tenth uniform": [losses["largest"] for losses in mixed],
    }
