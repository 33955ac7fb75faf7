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

__all__ = ["conformal", "isolated_record_length", "privacy_losses"]

_EXTENT = 1.6
# Steps of a path on the grid: to the 8 neighbors and by knight's moves.
_STEPS = [(0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1)]


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
        Number of records.

    Examples
    --------
    >>> round(isolated_record_length(50), 12)
    0.1
    """
    return 1 / math.sqrt(2 * n)


def privacy_losses(
    n: int, cells: int, *, is_metric_public: bool = False
) -> dict[str, float]:
    """Return the largest log-ratio of densities over ε, for two data sets on a disc.

    n records of ℝ² lie in the unit disc. All but one follow a normal law around the
    origin. The last is at (1, 0), or also at the origin. The density is
    ∝ e^{−ε·d(y, mean)/Δ} with respect to the volume of the metric, where d is the
    distance of the metric made from the records, and Δ = 2/n times the largest factor
    that lengths are multiplied by: the most that the mean moves if the metric stays.

    Parameters
    ----------
    n : int
        Number of records.
    cells : int
        Number of grid lines in each direction.
    is_metric_public : bool
        Whether both data sets use the metric of the first.
    """
    line = np.linspace(-_EXTENT, _EXTENT, cells)
    x, y = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))
    bandwidth, spread = 0.2, 0.3

    def kernel(center: float, width: float) -> np.ndarray:
        square = (x - center) ** 2 + y**2
        return np.asarray(np.exp(-square / (2 * width**2)) / (2 * math.pi * width**2))

    cluster = (n - 1) / n * kernel(0.0, math.hypot(bandwidth, spread))
    densities = [cluster + kernel(place, bandwidth) / n for place in (1.0, 0.0)]
    sensitivity = 2 / n * math.sqrt(max(float(f.max()) for f in densities))
    log_densities = []
    for place, density in zip((1.0, 0.0), densities, strict=True):
        metric = densities[0] if is_metric_public else density
        mean = int(np.argmin((x - place / n) ** 2 + y**2))
        distance = _grid_distances(np.sqrt(metric), cells, mean)
        volume = float(np.sum(metric * np.exp(-distance / sensitivity)))
        log_density = -distance / sensitivity - math.log(volume)
        log_densities.append(log_density + np.log(metric))
    loss = np.abs(log_densities[0] - log_densities[1])
    at_record = int(np.argmin((x - 1.0) ** 2 + y**2))
    inside = np.hypot(x, y) <= 1.0 + 1e-9
    return {
        "largest": float(loss[inside].max()),
        "at the isolated record": float(loss[at_record]),
        "by the length around it": isolated_record_length(n) / sensitivity,
    }


def _grid_distances(factor: np.ndarray, cells: int, start: int) -> np.ndarray:
    """Return distances from one point of the grid, lengths multiplied by a factor."""
    spacing = 2 * _EXTENT / (cells - 1)
    index = np.arange(cells * cells).reshape(cells, cells)
    tails, heads, lengths = [], [], []
    for down, right in _STEPS:
        first = index[: cells - down, max(0, -right) : cells - max(0, right)].ravel()
        second = index[down:, max(0, right) : cells + min(0, right)].ravel()
        mean_factor = (factor[first] + factor[second]) / 2
        tails.append(first)
        heads.append(second)
        lengths.append(spacing * math.hypot(down, right) * mean_factor)
    edges = (np.concatenate(lengths), (np.concatenate(tails), np.concatenate(heads)))
    graph = coo_array(edges, shape=(cells**2, cells**2)).tocsr()
    return np.asarray(dijkstra(graph, directed=False, indices=start))


def conformal(full: bool) -> dict[str, Any]:
    """Return the losses for growing n, at a claimed ε of 1 per sensitivity.

    Parameters
    ----------
    full : bool
        A finer grid and more sizes.
    """
    cells = 161 if full else 61
    sizes = [100, 1000, 10_000] if full else [100, 1000]
    figures: dict[str, Any] = {"records": sizes}
    losses = [privacy_losses(n, cells) for n in sizes]
    for name in losses[0]:
        figures[f"{name}, loss over ε"] = [values[name] for values in losses]
    public = [privacy_losses(n, cells, is_metric_public=True) for n in sizes]
    figures["with a public metric, loss over ε"] = [row["largest"] for row in public]
    return figures
