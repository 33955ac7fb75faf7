"""A metric made from a density estimate of the records, with one isolated record. The
question is how much of the privacy loss comes from such a metric alone.

*Conformal-DP* (He et al. 2025, arXiv 2504.20941) multiplies the metric of a manifold by
a factor made from a kernel density estimate, so that the records look evenly spread,
and adds Laplace noise with the new distance. Only its abstract and its first pages
could be read. This module studies a question that they raise: the new distance depends
on the records, and so may reveal something about them.
"""

import math
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

__all__ = ["conformal", "isolated_record_length", "metric_losses"]

# Half the side of the flat torus on which the records lie. Their distance from the
# origin is at most 1.
_HALF_SIDE = 1.6
# Steps of a path on the grid: to the 8 neighbors and by knight's moves.
_STEPS = [(0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1)]
# Bandwidth of the kernel, and standard deviation of all records but one.
_BANDWIDTH = 0.1
_SPREAD = 0.1


def isolated_record_length(n: int) -> float:
    """Return the length that one isolated record adds to every path that leaves it.

    *Conformal-DP* multiplies the metric of the plane by a density estimate f, so that
    the records are evenly spread in the new area. Lengths are multiplied by √f. One of
    n records contributes the Gaussian kernel e^{−r²/2h²}/(2πnh²) of bandwidth h at the
    distance r. A straight path outward from the record has the new length

        ∫√f dr = 1/√(2n),

    which does not depend on h.

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
    """Compute the privacy loss that comes from an estimated metric alone, divided by ε.

    Two neighboring data sets of n records lie in the unit disc of a flat torus. All
    records but one follow a normal law around the origin. The remaining record is at
    (1, 0) in the first data set and at the origin in the second.

    The mechanism estimates a density from the records and multiplies lengths by the
    square root of the estimate. In the distance d of this metric it draws a report y
    with the density ∝ e^{−ε·d(y, mean)/Δ}. For a fixed metric the mean moves by at most
    Δ = 2/n times the largest factor of lengths. Here the mean is set to the origin for
    both data sets. A fixed metric would then give the two data sets the same density,
    so that the whole loss comes from the dependence of the metric on the records.

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
        "largest": the largest |log-ratio| of the two densities, divided by ε.
        "isolated record": the loss, divided by ε, that follows from
        `isolated_record_length` alone.
    """
    coordinates = 2 * _HALF_SIDE * (np.arange(cells) - cells // 2) / cells
    x, y = (
        axis.ravel() for axis in np.meshgrid(coordinates, coordinates, indexing="ij")
    )

    def normal_density(center: float, width: float) -> np.ndarray:
        """Return the normal density about (center, 0) at all points of the grid."""
        square = (x - center) ** 2 + y**2
        return np.asarray(np.exp(-square / (2 * width**2)) / (2 * math.pi * width**2))

    # A kernel estimate of a normal law is about that law, convolved with the kernel.
    cluster = (n - 1) / n * normal_density(0.0, math.hypot(_BANDWIDTH, _SPREAD))
    uniform = uniform_share / (2 * _HALF_SIDE) ** 2
    # The square root of each data set's density estimate multiplies lengths.
    length_factors = []
    for last_record in (1.0, 0.0):
        density = cluster + normal_density(last_record, _BANDWIDTH) / n
        length_factors.append(np.sqrt((1 - uniform_share) * density + uniform))

    # The densities of reports for both data sets, at ε = 1, on the points of the grid.
    sensitivity = 2 / n * max(float(factor.max()) for factor in length_factors)
    origin = int(np.argmin(x**2 + y**2))
    log_densities = []
    for factor in length_factors:
        distance = _grid_distances(factor, cells, origin)
        log_weight = -distance / sensitivity
        log_densities.append(log_weight - math.log(float(np.exp(log_weight).sum())))
    loss = np.abs(log_densities[0] - log_densities[1])
    return {
        "largest": float(loss.max()),
        "isolated record": isolated_record_length(n) / sensitivity,
    }


def _grid_distances(factor: np.ndarray, cells: int, start: int) -> np.ndarray:
    """Return the distances from one grid point to all others, by Dijkstra's algorithm.

    Parameters
    ----------
    factor : array of shape (cells²,)
        By how much the metric multiplies lengths at each point of the grid.
    cells : int
        The number of grid lines in each direction of the torus.
    start : int
        The index of the point.

    Returns
    -------
    array of shape (cells²,)
        The lengths of shortest paths along the grid, which are slightly larger than
        the distances of the metric.
    """
    spacing = 2 * _HALF_SIDE / cells
    index = np.arange(cells * cells).reshape(cells, cells)
    tails, heads, lengths = [], [], []
    for down, right in _STEPS:
        # The torus has no edge: a step beyond the last row leads to the first one.
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
    """Compute the privacy loss of the estimated metric alone, for growing data sets.

    Parameters
    ----------
    full : bool
        Whether to use a finer grid and one larger data set.

    Returns
    -------
    dict
        "records", the numbers of records, and three lists of losses divided by ε: with
        the density estimate alone; from the length around the isolated record; and
        with a density estimate of which a tenth is uniform.
    """
    cells = 160 if full else 80
    sizes = [100, 1000, 10_000] if full else [100, 1000]
    without_uniform = [metric_losses(n, cells, 0.0) for n in sizes]
    with_uniform = [metric_losses(n, cells, 0.1) for n in sizes]
    return {
        "records": sizes,
        "loss over ε": [losses["largest"] for losses in without_uniform],
        "loss over ε, by the length": [
            losses["isolated record"] for losses in without_uniform
        ],
        "loss over ε, a tenth uniform": [losses["largest"] for losses in with_uniform],
    }
