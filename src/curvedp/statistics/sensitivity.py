"""How far the Fréchet mean can move when one record of n is replaced, all records in a public ball.

`docs/theory/sensitivity.md` has the theorem and its proof; the names below follow it.
Everything is public: the bound depends on the manifold, the ball's radius and n, never
on the data.
"""

from collections.abc import Callable
from math import inf, isfinite, nextafter, pi, sqrt, tan
from typing import Any, Literal

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold

# Relative. tan(s)/s in floats is off by less: s by 2 units in the last place, which the
# tangent makes at most 2s/sin(2s) ≤ 22 times as many for s < 1.5, and 3 more roundings.
_TANGENT_MARGIN = 2.0**-46
# Relative, for R(a), whose maximum is found to float accuracy. Near r√κ = π/2 and a =
# r√κ floats know A = a·cot a to fewer digits: to 1e-7 at π/2 − 1e-9.
_SPREAD_MARGIN = 1e-5
_LARGEST = 1.5  # of r√κ, where the Hessian s·cot s may fall to 0.1
_HALVINGS = 60  # of [u, π], until the place of a maximum is known to float accuracy


def frechet_mean_sensitivity(
    manifold: Manifold,
    radius: float,
    n: int,
    bound: Literal["tight", "reimherr"] = "tight",
) -> float:
    """Largest distance between the Fréchet means of two data sets that differ in one of n records, in a ball of `radius`.

    Guarantees
    - never below the true supremum over adjacent data sets (attacked in
      `tests/mechanisms/test_sensitivity.py`);
    - never above 2r, the diameter of the ball, and decreasing in n.

    Parameters
    ----------
    manifold, radius, n : Manifold, float and int
        Where the records live, r of the public ball, and the number of records.
    bound : "tight" or "reimherr"
        Our theorem: 2r/n where curvature is <= 0, and tan(s)/s times that for s = r√κ
        where it is at most κ > 0, which data sets come arbitrarily close to. Or the
        published one, (2r/n)(2-h)/h with h = 2s·cot 2s (Reimherr, Bharath & Soto 2021,
        Theorem 2), which needs s < π/4.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> round(frechet_mean_sensitivity(Sphere(2), radius=0.7, n=10), 4)
    0.1685
    >>> round(frechet_mean_sensitivity(Sphere(2), radius=0.7, n=10, bound="reimherr"), 4)
    1.0196
    """
    if _validate.choice("bound", bound, ("tight", "reimherr")) == "tight":
        return _mean_moves(manifold, radius, n, _tight_factor)
    return _mean_moves(manifold, radius, n, _reimherr_factor)


def mean_chart_sensitivity(manifold: Manifold, radius: float, n: int) -> float:
    """Largest distance between the two means' coordinates in the normal chart at the ball's center.

    Theorem (docs/theory/sensitivity.md, "In the chart at the center"). It is the bound
    on the means themselves: the logarithm stretches by at most a/sin a at distance a
    from the center, and R(a)/h(a)·a/sin a is at most tan(r√κ), the value at a = 0, for
    r√κ ≤ 1.5. Where curvature is at most 0 the logarithm does not stretch at all.

    Parameters
    ----------
    manifold, radius, n : Manifold, float and int
        As for `frechet_mean_sensitivity`.
    """
    return _mean_moves(manifold, radius, n, _tight_factor)


def _mean_moves(
    manifold: Manifold, radius: float, n: int, factor: Callable[[float], float]
) -> float:
    """Return the sensitivity 2r/n of a mean in flat space, enlarged for curvature.

    Parameters
    ----------
    manifold : Manifold
        Where the records are.
    radius : float
        The radius r of the public ball.
    n : int
        The number of records.
    factor : callable
        Maps r√κ to the factor for curvature at most κ > 0.
    """
    s, upper = _normalized_radius(manifold, radius)
    n, curvature_factor = _validate.integer("n", n, 1), factor(s) if upper > 0 else 1.0
    return nextafter(min(2 * radius * curvature_factor / n, 2 * radius), inf)


def mean_gradient_sensitivity(
    manifold: Manifold, radius: float, n: int, distance: Any = None
) -> Any:
    """Return how far the gradient of ½·mean d²(x, xᵢ) moves if one record is replaced.

    At distance a from the center it moves by at most 2R(a)/n
    (docs/theory/sensitivity.md), and R increases with a.

    Parameters
    ----------
    manifold : Manifold
        Where the records are.
    radius : float
        The radius of the public ball.
    n : int
        The number of records.
    distance : array, optional
        Distances a of the point x from the center. By default a is the radius, so that
        the result holds in the whole ball.
    """
    s, upper = _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    distance = np.asarray(radius if distance is None else distance)
    if upper <= 0:
        return np.broadcast_to(np.nextafter(2 * radius / n, inf), distance.shape)[()]
    center_distance = np.minimum(distance.ravel() * sqrt(upper), s)
    spread = _spread(s, center_distance) / s * (1 + _SPREAD_MARGIN)
    return np.nextafter(2 * radius * spread / n, inf).reshape(distance.shape)[()]


def dispersion_sensitivity(manifold: Manifold, radius: float, n: int) -> float:
    """Largest change of the Fréchet variance V = min_x mean d²(x, xᵢ) when one of n records in a ball is replaced.

    Theorem (docs/theory/sensitivity.md, Theorem S3). It is at most 4r²(n−1)/n² where
    curvatures have one sign, and on products of factors of one sign each where r√κ <
    π/4; it is at most 4r²/n everywhere. The first is attained in flat space.

    Parameters
    ----------
    manifold, radius, n : Manifold, float and int
        As for `frechet_mean_sensitivity`.
    """
    s, _ = _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    factors_have_one_sign = all(map(_has_one_sign, manifold.factors))
    is_sharp = _has_one_sign(manifold) or (factors_have_one_sign and s < pi / 4)
    share = (n - 1) / n if is_sharp else 1.0
    return nextafter(4 * radius**2 * share / n, inf)


def _has_one_sign(manifold: Manifold) -> bool:
    """Whether all sectional curvatures are at least 0, or all at most 0."""
    low, high = manifold.curvature_bounds
    return low >= 0 or high <= 0


def _normalized_radius(manifold: Manifold, radius: float) -> tuple[float, float]:
    """Return (r√κ, κ) after checking that the mean in the ball is unique.

    The ball must be strongly convex (Afsari 2011, Theorem 2.1).

    Parameters
    ----------
    manifold : Manifold
        Where the records are.
    radius : float
        The radius of the public ball.

    Raises
    ------
    ParameterError
        If the ball is too wide.
    """
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
            f"must be < {limit:.6g} on {manifold!r}: in a larger ball the Fréchet "
            "mean need not be unique; choose a smaller public ball (records outside "
            "are clipped to it)",
            parameter="radius",
            value=radius,
        )
    return radius * sqrt(max(upper, 0.0)), upper


def _reimherr_factor(s: float) -> float:
    """Return the published factor (2 − h)/h with h = 2s·cot 2s (Reimherr et al. 2021).

    It is that of Theorem 2 of Reimherr, Bharath & Soto.

    Parameters
    ----------
    s : float
        The radius r√κ < π/4.
    """
    if not s < pi / 4:
        raise ParameterError(
            f"the published bound needs radius·√κ={s:.6g} < π/4; use bound='tight'"
        )
    h = 2 * s / tan(2 * s)
    return (2 - h) / h


def _tight_factor(s: float) -> float:
    """Return tan(s)/s, by which curvature at most 1 enlarges the sensitivity 2s/n.

    Theorem (docs/theory/sensitivity.md, "The supremum is at the center"). Let the mean
    be at distance a from the center m₀ of a ball of radius s. Let h(a) be the least
    eigenvalue of the Hessian there, and R(a) the largest ‖log_x y − log_x m₀‖. Then
    R(a)/h(a) ≤ tan(s) for 0 ≤ a ≤ s < π/2, with equality at a = 0.

    Parameters
    ----------
    s : float
        The radius of the ball, in units of 1/√κ.
    """
    if not s < _LARGEST:
        raise ParameterError(
            f"radius·√κ={s:.6g} is too large: the mean's Hessian is no longer bounded away from 0; use a smaller radius"
        )
    return tan(s) / s * (1 + _TANGENT_MARGIN)


def _spread(s: float, a: np.ndarray) -> np.ndarray:
    """Return R(a) = max ‖log_x y − log_x m₀‖ over d(y, m₀) = s, with d(x, m₀) = a.

    On the unit sphere, for 0 ≤ a ≤ s < π/2. With d = d(x, y), cos u = cos s/cos a,
    A = a·cot a and q(d) = d/sin d the law of cosines gives

        ‖log_x y − log_x m₀‖² = a² + d² + 2A·q(d)·(cos d − cos u),    s − a ≤ d ≤ s + a.

    As a function of d the right side rises up to the place where (cos u − cos d)/ρ(d) =
    (1 − A)/A, ρ(d) = d·sin²d/(sin d − d·cos d), and falls after it
    (docs/theory/sensitivity.md): the left side of that equation rises on (u, π), so
    that halving finds the place.

    Parameters
    ----------
    s : float
        The radius of the ball, in units of 1/√κ.
    a : array
        Distances of x from the center.
    """
    A = _cot_times(a)
    # (1 − cos u)/2, without the cancellation of 1 − cos s/cos a
    half_chord = np.sin((s - a) / 2) * np.sin((s + a) / 2) / np.cos(a)
    u = 2 * np.arcsin(np.sqrt(half_chord))
    below, above = u, np.full_like(a, pi)
    for _ in range(_HALVINGS):
        d = (below + above) / 2
        # (cos u − cos d)/ρ(d) < (1 − A)/A, without a division by zero
        left = _cosine_difference(u, d) * (np.sin(d) - d * np.cos(d)) * A
        rises = left < (1 - A) * d * np.sin(d) ** 2
        below, above = np.where(rises, d, below), np.where(rises, above, d)

    d = np.clip(below, s - a, s + a)
    stretch = 1 / np.sinc(d / pi)
    square = a * a + d * d - 2 * A * stretch * _cosine_difference(u, d)
    return np.asarray(np.sqrt(square))


def _cosine_difference(u: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return cos u − cos d without cancellation."""
    return np.asarray(2 * np.sin((d - u) / 2) * np.sin((d + u) / 2))


def _cot_times(a: np.ndarray) -> np.ndarray:
    """Return a·cot a, which is 1 at 0."""
    return np.asarray(np.cos(a) / np.sinc(a / pi))
