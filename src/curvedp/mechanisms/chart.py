"""The normal chart at a public point: how much it stretches, the float error of its coordinates, and shrinking in it."""

from math import ceil, isfinite, log2, sin, sqrt
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

GRID = 30  # releases are whole multiples of 2^-30, a public constant, where their noise is that coarse (`grid_of`)
_FINER = 10  # bits of the grid below a scale: rounding is then less than a thousandth of the noise
_FINEST = 200  # what exact draws know

# log_o and to_coordinates are accurate to 1e-12 relative on every space (tests/geometry); tenfold is allowed for.
CHART_ERROR = 1e-11
# Where no ball is given, a statistic is moved to within this distance of the base, so that the float error is bounded.
REACH = 100.0


def grid_of(scale: float) -> int:
    """k: a draw of this public scale is a whole multiple of 2^-k. In small units 2^-30 would be coarser than the noise.

    >>> grid_of(0.01), grid_of(1e-12)
    (30, 50)
    """
    return min(max(GRID, _FINER + ceil(-log2(scale))), _FINEST)


def chart_stretch(manifold: Manifold, radius: float | None) -> float:
    """Lipschitz constant of log_o on the ball of `radius` about o; 1 on Hadamard manifolds, where no ball is needed."""
    upper = 0.0 if manifold.dim == 1 else manifold.curvature_bounds[1]
    if not isfinite(upper):
        raise ParameterError(
            f"the logarithm on {manifold!r} has no public Lipschitz constant; use another metric"
        )
    if radius is None:
        if isfinite(manifold.injectivity_radius) or upper > 0:
            raise ParameterError(
                f"is missing: noise in the chart of {manifold!r} needs a public ball "
                "about the base that holds the statistic, below "
                f"{manifold.convexity_radius:.6g}",
                parameter="radius",
            )
        return 1.0
    if not radius < manifold.convexity_radius:
        raise ParameterError(
            f"must be < {manifold.convexity_radius:.6g} on {manifold!r}",
            parameter="radius",
            value=radius,
        )
    s = radius * sqrt(max(upper, 0.0))
    return s / sin(s) if s > 0 else 1.0


def james_stein(
    manifold: Manifold, center: np.ndarray, points: np.ndarray, noise: Any
) -> np.ndarray:
    """Points, shape (k, *point_shape), drawn towards the public center; `noise` is the σ of each coordinate, one or a column.

    Positive-part James-Stein in the normal chart, which costs no privacy. For z ~ N(m, σ²I) in dimension d >= 3,
    (1 − (d−2)σ²/|z|²)₊ z has a smaller mean square error than z for EVERY m (James & Stein 1961; Baranchik 1964); the gain is
    all of the noise but 2σ² where m is near the center, and vanishes where |m| is large against the noise.

    >>> from curvedp.geometry import Euclidean
    >>> james_stein(Euclidean(3), np.zeros(3), np.array([[2.0, 0, 0], [0.5, 0, 0]]), 1.0)
    array([[1.5, 0. , 0. ],
           [0. , 0. , 0. ]])
    """
    if manifold.dim < 3:
        return points
    z = np.asarray(manifold.normal_coordinates(center, points))
    square = np.sum(z * z, axis=-1, keepdims=True)
    lost = (manifold.dim - 2) * np.square(noise)
    keep = np.where(square > lost, 1 - lost / np.where(square > lost, square, 1.0), 0.0)
    return np.asarray(manifold.from_normal_coordinates(center, keep * z))


def shrunk(v: np.ndarray, noise: float) -> np.ndarray:
    """One vector drawn towards 0, where the dimension allows it.

    >>> shrunk(np.array([2.0, 0, 0]), 1.0)
    array([1.5, 0. , 0. ])
    """
    square, lost = float(v @ v), (v.size - 2) * noise**2
    if v.size < 3:
        return v
    return v * (1 - lost / square) if square > lost else np.zeros_like(v)
