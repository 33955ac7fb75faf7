"""How far the Fréchet mean can move when one record of n is replaced, all records in a public ball.

`docs/sensitivity.md` has the theorem and its proof; the names below follow it. Everything is public: the bound depends
on the manifold, the ball's radius and n, never on the data.
"""

from collections.abc import Callable
from functools import lru_cache
from math import cos, inf, isfinite, nextafter, pi, sqrt, tan
from typing import Any, Literal

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold

# The two suprema below are taken on grids of smooth functions; their error is of second order in the spacing, at most
# 5e-6 relative (`test_the_grids_are_fine_enough`). This margin covers it with room.
_GRID_MARGIN = 1e-5
_LARGEST = 1.5  # where the Hessian s·cot s may fall to 0.1


def frechet_mean_sensitivity(
    manifold: Manifold,
    radius: float,
    n: int,
    bound: Literal["tight", "reimherr"] = "tight",
) -> float:
    """Largest distance between the Fréchet means of two data sets that differ in one of n records, in a ball of `radius`.

    Guarantees
    - never below the true supremum over adjacent data sets (attacked in `tests/mechanisms/test_sensitivity.py`);
    - never above 2r, the diameter of the ball, and decreasing in n.

    Parameters
    ----------
    manifold, radius, n : Manifold, float and int
        Where the records live, r of the public ball, and the number of records.
    bound : "tight" or "reimherr"
        Our theorem: 2r/n where curvature is <= 0, and tan(s)/s times that for s = r√κ where it is at most κ > 0, which data
        sets come arbitrarily close to. Or the published one, (2r/n)(2-h)/h with h = 2s·cot 2s (Reimherr, Bharath &
        Soto 2021, Theorem 2), which needs s < π/4.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> round(frechet_mean_sensitivity(Sphere(2), radius=0.7, n=10), 4)
    0.1685
    >>> round(frechet_mean_sensitivity(Sphere(2), radius=0.7, n=10, bound="reimherr"), 4)
    1.0196
    """
    if _validate.choice("bound", bound, ("tight", "reimherr")) == "tight":
        return _mean_moves(
            manifold, radius, n, lambda s: _tight_factor(s, in_chart=False)
        )
    return _mean_moves(manifold, radius, n, _reimherr_factor)


def mean_chart_sensitivity(manifold: Manifold, radius: float, n: int) -> float:
    """Largest distance between the two means' coordinates in the normal chart at the ball's center.

    Where curvature is <= 0 the logarithm does not stretch, and this is the sensitivity itself. Otherwise the stretch
    a/sin a at distance a from the center enters the supremum, which is less than the product of the two suprema.
    """
    return _mean_moves(manifold, radius, n, lambda s: _tight_factor(s, in_chart=True))


def _mean_moves(
    manifold: Manifold, radius: float, n: int, factor: Callable[[float], float]
) -> float:
    """2r/n, times a factor of r√κ where curvature is at most κ > 0."""
    s, upper = _normalized_radius(manifold, radius)
    n, more = _validate.integer("n", n, 1), factor(s) if upper > 0 else 1.0
    return nextafter(min(2 * radius * more / n, 2 * radius), inf)


def mean_gradient_sensitivity(
    manifold: Manifold, radius: float, n: int, distance: Any = None
) -> Any:
    """Largest change of the gradient of ½·mean d²(x, xᵢ) when one record is replaced, at `distance` from the center.

    At distance a it is at most 2R(a)/n (`docs/sensitivity.md`), and R increases with a: by default the whole ball's.
    """
    s, upper = _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    distance = np.asarray(radius if distance is None else distance)
    if upper <= 0:
        return np.broadcast_to(np.nextafter(2 * radius / n, inf), distance.shape)[()]
    spread = (
        _spread(s, np.minimum(distance.ravel() * sqrt(upper), s))
        / s
        * (1 + _GRID_MARGIN)
    )
    return np.nextafter(2 * radius * spread / n, inf).reshape(distance.shape)[()]


def dispersion_sensitivity(manifold: Manifold, radius: float, n: int) -> float:
    """Largest change of the Fréchet variance V = min_x mean d²(x, xᵢ) when one of n records in a ball is replaced.

    4r²(n−1)/n² where curvatures have one sign, which is attained in flat space; 4r²/n otherwise (proof: docs/sensitivity.md).
    """
    _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    low, high = manifold.curvature_bounds
    share = (n - 1) / n if low >= 0 or high <= 0 else 1.0
    return nextafter(4 * radius**2 * share / n, inf)


def _normalized_radius(manifold: Manifold, radius: float) -> tuple[float, float]:
    """(r√κ, κ) after the preconditions: a strongly convex ball in which the mean is unique (Afsari 2011, Theorem 2.1)."""
    check_manifold(manifold)
    radius = _validate.length("radius", radius)
    upper = manifold.curvature_bounds[1]
    if not isfinite(upper):
        raise ParameterError(
            f"no sensitivity of the Fréchet mean is known on {manifold!r}, whose curvature has no upper bound; "
            "use a flat or affine-invariant metric"
        )
    limit = manifold.injectivity_radius / 2
    if upper > 0:
        limit = min(limit, pi / (2 * sqrt(upper)))
    if not radius < limit:
        raise ParameterError(
            f"radius={radius!r} must be < {limit:.6g} on {manifold!r}: in a larger ball the Fréchet mean need not be "
            "unique; choose a smaller public ball (records outside are moved onto it)"
        )
    return radius * sqrt(max(upper, 0.0)), upper


def _reimherr_factor(s: float) -> float:
    if not s < pi / 4:
        raise ParameterError(
            f"the published bound needs radius·√κ={s:.6g} < π/4; use bound='tight'"
        )
    h = 2 * s / tan(2 * s)
    return (2 - h) / h


@lru_cache(maxsize=256)
def _tight_factor(s: float, in_chart: bool) -> float:
    """sup over a in [0, s] of (R(a)/s)/h(a), the mean being at distance a from the center (curvature scaled to 1). It is
    tan(s)/s, at a = 0, wherever it was computed; in the chart too."""
    if not s < _LARGEST:
        raise ParameterError(
            f"radius·√κ={s:.6g} is too large: the mean's Hessian is no longer bounded away from 0; use a smaller radius"
        )
    a = np.linspace(0.0, s, 513)
    u = np.arccos(
        np.minimum(cos(s) / np.cos(a), 1.0)
    )  # half the chord of the ball across its radius, at a
    h = np.where(u > 1e-3, u / np.tan(np.maximum(u, 1e-3)), 1 - u * u / 3 - u**4 / 40)
    ratio = _spread(s, a) / s / h
    return float(np.max(ratio / np.sinc(a / pi) if in_chart else ratio)) * (
        1 + _GRID_MARGIN
    )


def _spread(s: float, a: np.ndarray) -> np.ndarray:
    """R(a): the largest ‖log_x y - log_x m₀‖ over d(y, m₀) = s on the unit sphere, with d(x, m₀) = a."""
    a = a[:, None]
    angle = np.linspace(
        0.0, pi, 257 if s < 1 else 1025
    )  # at m₀, from x to y; the maximum narrows as s nears π/2
    half = np.sqrt(
        np.sin((s - a) / 2) ** 2 + np.sin(s) * np.sin(a) * np.sin(angle / 2) ** 2
    )
    distance = 2 * np.arcsin(half)  # haversine form: no cancellation when x is near y
    stretch = 1 / np.sinc(distance / pi)
    across = stretch * np.sin(s) * np.sin(angle)
    along = (
        stretch * (np.sin(a) * np.cos(s) - np.cos(a) * np.sin(s) * np.cos(angle)) - a
    )
    return np.asarray(np.hypot(across, along).max(axis=1))
