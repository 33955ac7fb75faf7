"""The normal chart at a public point o: points p are vectors log_o p. Noise is added to
such a vector. Here are the *stretch* of the chart (how much it increases distances),
the grid to which noise is rounded, and *shrinkage*, which moves noisy vectors toward 0
(James & Stein 1961).
"""

from math import ceil, isfinite, log2, sin, sqrt
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

# Released coordinates are integer multiples of 2^-30, or of a smaller power of two if
# the noise is small (`grid_of`).
GRID = 30

# The grid is finer than the noise scale by this many bits, so that rounding moves a
# release by less than a thousandth of its noise.
_BITS_BELOW_SCALE = 10

# The finest grid that exact draws support is 2^-200.
_FINEST_GRID = 200

# The relative error of logarithms and coordinates in float64. Tests show 1e-12 on every
# manifold (tests/geometry); ten times as much is assumed.
CHART_ERROR = 1e-11

# If no ball is given, a value is clipped to this distance from the base point, so that
# the float error of its coordinates is bounded.
MAX_CHART_LENGTH = 100.0


def grid_of(scale: float) -> int:
    """Return the k such that noise of a given scale is rounded to multiples of 2^-k.

    It is 30, or more if 2^-30 would be too coarse: the grid is at least 2^10 times as
    fine as the noise scale, so that rounding is negligible beside the noise. It never
    exceeds 200, the finest grid that exact draws support.

    Examples
    --------
    >>> grid_of(0.01), grid_of(1e-12)
    (30, 50)

    Parameters
    ----------
    scale : float
        The noise scale in one coordinate, > 0. It is public, and hence is the grid.
    """
    exponent_for_scale = _BITS_BELOW_SCALE + ceil(-log2(scale))
    return min(max(GRID, exponent_for_scale), _FINEST_GRID)


def chart_stretch(manifold: Manifold, radius: float | None) -> float:
    """Return the Lipschitz constant of the logarithm log_o on a ball about o.

    It is 1 on Hadamard manifolds (complete, simply connected, curvature ≤ 0), where no
    ball is needed. If the curvature is at most κ > 0, it is α/sin(α) for the
    angle α = radius·√κ, by Rauch's comparison theorem.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the values lie.
    radius : float or None
        The radius of the ball about the base point o; None means the whole manifold.

    Returns
    -------
    float
        The largest ‖log_o p − log_o q‖ / d(p, q) for p, q in the ball, at least 1. A
        sensitivity in distance times this number is one in coordinates, which is what
        noise in the chart needs.

    Raises
    ------
    ParameterError
        If no such constant is known, or if the ball is missing or too large.
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
    angle = radius * sqrt(max(upper_curvature, 0.0))
    return 1.0 if angle == 0 else angle / sin(angle)


def shrink_points(
    manifold: Manifold, center: np.ndarray, points: np.ndarray, noise_std: Any
) -> np.ndarray:
    """Shrink noisy points toward a public center by the rule of James and Stein.

    For z ~ N(m, σ²I) in dimension d ≥ 3, the estimator (1 − (d−2)σ²/|z|²)₊·z of m has a
    smaller mean squared error than z, whatever m is (James & Stein 1961; Baranchik
    1964). If m is near 0, only an error of about 2σ² is left; if |m| is large, the gain
    vanishes. Here z are the normal coordinates of a point at the center. Shrinkage is
    post-processing: it costs no privacy.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    center : point
        The public center, where the normal chart is taken.
    points : array, shape (k, *point_shape)
        The noisy points.
    noise_std : float or array, shape (k, 1)
        σ, the standard deviation of each coordinate of the noise.

    Returns
    -------
    array, shape (k, *point_shape)
        The points themselves if the dimension is below 3.

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
    shrunk = shrink_rows(z, noise_std)
    return np.asarray(manifold.from_normal_coordinates(center, shrunk))


def shrink_rows(z: np.ndarray, noise_std: Any) -> np.ndarray:
    """Shrink each noisy row z toward 0 by the rule of James and Stein.

    In dimension d ≥ 3, a row is multiplied by (1 − (d−2)σ²/|z|²)₊; in fewer dimensions
    it stays as it is. The result has a smaller mean squared error than z as an estimate
    of the row without noise, at no cost in privacy.

    Parameters
    ----------
    z : array, shape (k, d)
        The noisy rows.
    noise_std : float or array, shape (k, 1)
        σ, the standard deviation of each coordinate of the noise.

    Returns
    -------
    array, shape (k, d)
        The shrunk rows; a row shorter than σ√(d−2) becomes 0.
    """
    dim = z.shape[-1]
    if dim < 3:
        return z
    square = np.sum(z * z, axis=-1, keepdims=True)
    noise_square = (dim - 2) * np.square(noise_std)
    is_above_noise = square > noise_square
    safe_square = np.where(is_above_noise, square, 1.0)
    factor = np.where(is_above_noise, 1 - noise_square / safe_square, 0.0)
    return np.asarray(factor * z)


def shrink_vector(vector: np.ndarray, noise_std: float) -> np.ndarray:
    """Shrink a noisy vector z toward 0 by the rule of James and Stein.

    In dimension d ≥ 3, z is multiplied by (1 − (d−2)σ²/|z|²)₊.

    Parameters
    ----------
    vector : array of shape (d,)
        The noisy vector z.
    noise_std : float
        The standard deviation σ of the noise in each coordinate.

    Returns
    -------
    array of shape (d,)
        The shrunk vector: z itself if d < 3, and 0 if |z|² ≤ (d−2)σ².

    Examples
    --------
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
