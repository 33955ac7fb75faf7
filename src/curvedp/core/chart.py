"""The normal chart at a public point: its stretch, its float error, and shrinkage in it."""

from math import ceil, isfinite, log2, sin, sqrt
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

# Releases are whole multiples of 2^-30, or finer where their noise is small
# (`grid_of`).
GRID = 30
# Bits of the grid below a noise scale: rounding is then below a thousandth of the
# noise.
_BITS_BELOW_SCALE = 10
# The finest grid that exact draws know.
_FINEST_GRID = 200

# log_o and to_coordinates are accurate to 1e-12, relative, on every space
# (tests/geometry); ten times that is allowed for.
CHART_ERROR = 1e-11

# Where no ball is given, a value is clipped to this distance from the base, so that the
# float error of its coordinates has a bound.
MAX_CHART_LENGTH = 100.0


def grid_of(scale: float) -> int:
    """Return the k for which a draw of this public scale is a whole multiple of 2^-k.

    In small units of measurement 2^-30 would be coarser than the noise.

    >>> grid_of(0.01), grid_of(1e-12)
    (30, 50)
    """
    needed = _BITS_BELOW_SCALE + ceil(-log2(scale))
    return min(max(GRID, needed), _FINEST_GRID)


def chart_stretch(manifold: Manifold, radius: float | None) -> float:
    """Return the Lipschitz constant of log_o on the ball of a radius about o.

    It is 1 on Hadamard manifolds, where no ball is needed. Where curvature is at most
    κ > 0 it is s/sin s with s = radius·√κ (Rauch).

    Raises
    ------
    ParameterError
        Where there is no such constant, or the ball is missing or too large.
    """
    upper_curvature = 0.0 if manifold.dim == 1 else manifold.curvature_bounds[1]
    if not isfinite(upper_curvature):
        raise ParameterError(
            f"the logarithm on {manifold!r} has no public Lipschitz constant; use another "
            "metric"
        )
    if radius is None:
        if isfinite(manifold.injectivity_radius) or upper_curvature > 0:
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
    s = radius * sqrt(max(upper_curvature, 0.0))
    if s == 0:
        return 1.0
    return s / sin(s)


def shrink_points(
    manifold: Manifold, center: np.ndarray, points: np.ndarray, noise_std: Any
) -> np.ndarray:
    """Shrink noisy points toward a public center by the rule of James and Stein.

    For z ~ N(m, σ²I) in dimension d ≥ 3, (1 − (d−2)σ²/|z|²)₊·z has a smaller mean
    square error than z for EVERY m (James & Stein 1961; Baranchik 1964). The gain is
    all of the noise but 2σ² where m is near the center, and vanishes where |m| is
    large. Shrinkage is post-processing: it costs no privacy.

    Parameters
    ----------
    manifold : Manifold
    center : point
        The public center, where the normal chart is taken.
    points : array, shape (k, *point_shape)
    noise_std : float or array, shape (k, 1)
        σ of each coordinate of the noise.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> points = np.array([[2.0, 0, 0], [0.5, 0, 0]])
    >>> shrink_points(Euclidean(3), np.zeros(3), points, 1.0)
    array([[1.5, 0. , 0. ],
           [0. , 0. , 0. ]])
    """
    if manifold.dim < 3:
        return points
    z = np.asarray(manifold.normal_coordinates(center, points))
    square = np.sum(z * z, axis=-1, keepdims=True)
    noise_square = (manifold.dim - 2) * np.square(noise_std)
    is_above_noise = square > noise_square
    safe_square = np.where(is_above_noise, square, 1.0)
    factor = np.where(is_above_noise, 1 - noise_square / safe_square, 0.0)
    return np.asarray(manifold.from_normal_coordinates(center, factor * z))


def shrink_vector(vector: np.ndarray, noise_std: float) -> np.ndarray:
    """Shrink one noisy vector toward 0 by the rule of James and Stein.

    >>> shrink_vector(np.array([2.0, 0, 0]), 1.0)
    array([1.5, 0. , 0. ])
    """
    if vector.size < 3:
        return vector
    square = float(vector @ vector)
    noise_square = (vector.size - 2) * noise_std**2
    if square <= noise_square:
        return np.zeros_like(vector)
    return vector * (1 - noise_square / square)
