"""The sensitivity of the Fréchet mean: how far one replaced record can move it. All n
records lie in a public ball of radius r, where curvature is at most κ. Lengths are in
units of the curvature: s = r√κ is the ball's radius, and a is the distance of a point
from its center.

Every function here takes only these public numbers, never the data. The theorems and
their proofs are in docs/theory/sensitivity.md, whose symbols are used below:

- s = r√κ is the radius of the ball in units of the curvature;
- a is the distance of a point x from the center of the ball, in the same units.
"""

from collections.abc import Callable
from math import inf, isfinite, nextafter, pi, sqrt, tan
from typing import Any, Literal

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold

# A bound on the relative rounding error of tan(s)/s for s < 1.5: s itself is off by 2
# units in the last place, which the tangent makes at most 2s/sin(2s) ≤ 22 times as
# many, and 3 more roundings follow.
_TANGENT_ERROR = 2.0**-46

# A bound on the relative rounding error of R(a), the largest gradient difference. It is
# worst near a = s = π/2, where doubles know a·cot(a) to fewer digits: to 1e-7 at
# π/2 − 1e-9.
_GRADIENT_DIFFERENCE_ERROR = 1e-5

# The largest s for which the tight bound is used. Beyond it the Hessian of the squared
# distance, s·cot(s), falls below 0.1, and the bound grows without limit.
_LARGEST_RADIUS = 1.5

# Bisections of an interval of length at most π, after which its ends agree to the
# accuracy of doubles.
_N_BISECTIONS = 60


def frechet_mean_sensitivity(
    manifold: Manifold,
    radius: float,
    n: int,
    bound: Literal["tight", "reimherr"] = "tight",
) -> float:
    """Return the largest distance between the Fréchet means of neighboring data sets.

    The two data sets have n records each in a ball of the given radius, and differ in
    one record.

    Theorem S1 (docs/theory/sensitivity.md). Let the curvature be at most κ, and
    s = r√κ. The distance is at most 2r/n if κ ≤ 0, and at most (2r/n)·tan(s)/s if
    κ > 0. Some data sets come arbitrarily close to this.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    radius : float
        The radius r of the public ball that holds all records.
    n : int
        The number of records.
    bound : {"tight", "reimherr"}
        "tight" is Theorem S1. "reimherr" is the published bound (2r/n)·(2 − h)/h with
        h = 2s·cot(2s), which needs s < π/4 (Reimherr, Bharath & Soto 2021, Theorem 2).

    Returns
    -------
    float
        An upper bound, rounded up, and never more than the diameter 2r of the ball.

    Raises
    ------
    ParameterError
        If the ball is so large that the mean need not be unique, or the bound is not
        defined for it.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> round(frechet_mean_sensitivity(Sphere(2), radius=0.7, n=10), 4)
    0.1685
    >>> round(frechet_mean_sensitivity(Sphere(2), radius=0.7, n=10, bound="reimherr"), 4)
    1.0196
    """
    _validate.choice("bound", bound, ("tight", "reimherr"))
    curvature_factor = _tight_factor if bound == "tight" else _reimherr_factor
    return _enlarged_flat_sensitivity(manifold, radius, n, curvature_factor)


def mean_coordinates_sensitivity(manifold: Manifold, radius: float, n: int) -> float:
    """Return how far the mean's coordinates in the chart at the ball's center can move.

    The coordinates are those of the logarithm at the center.

    Theorem (docs/theory/sensitivity.md, "In the chart at the center"). The bound of
    Theorem S1 holds for the coordinates too. At distance a from the center the
    logarithm stretches distances by at most a/sin(a), and the product with the
    movement of the mean there is at most tan(s), its value at a = 0, for s ≤ 1.5.
    Where the curvature is at most 0, the logarithm stretches nothing.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    radius : float
        The radius of the public ball that holds all records.
    n : int
        The number of records.

    Returns
    -------
    float
        An upper bound, rounded up, and never more than the diameter of the ball.
    """
    return _enlarged_flat_sensitivity(manifold, radius, n, _tight_factor)


def _enlarged_flat_sensitivity(
    manifold: Manifold,
    radius: float,
    n: int,
    curvature_factor: Callable[[float], float],
) -> float:
    """Return the sensitivity 2r/n of a mean in flat space times a factor for curvature.

    The result is rounded up, and never more than the diameter 2r of the ball.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    radius : float
        The radius r of the public ball.
    n : int
        The number of records.
    curvature_factor : callable
        Maps s = r√κ to the factor. It is called only if the curvature can be positive.

    Returns
    -------
    float
        min(2r·factor/n, 2r).
    """
    normalized_radius, max_curvature = _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    factor = curvature_factor(normalized_radius) if max_curvature > 0 else 1.0
    return nextafter(min(2 * radius * factor / n, 2 * radius), inf)


def mean_gradient_sensitivity(
    manifold: Manifold, radius: float, n: int, distance: Any = None
) -> Any:
    """Return the sensitivity of the gradient of the mean squared distance.

    The gradient is that of ½·mean d²(x, xᵢ) at a public point x, which is the negative
    mean logarithm of the records. One of the n records is replaced. At distance a from
    the center of the ball the gradient moves by at most 2R(a)/n, and R increases with a
    (docs/theory/sensitivity.md).

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    radius : float
        The radius of the public ball.
    n : int
        The number of records.
    distance : float or array, optional
        The distance of x from the center of the ball. By default it is the radius, so
        that the result holds for every x in the ball.

    Returns
    -------
    float or array of the shape of `distance`
        (2r/n)·R(a)/s in units of distance, rounded up; 2r/n if the curvature is at most
        0. Noise that is added to a mean logarithm is calibrated to it.
    """
    normalized_radius, max_curvature = _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    distance = np.asarray(radius if distance is None else distance)
    if max_curvature <= 0:
        flat_sensitivity = np.nextafter(2 * radius / n, inf)
        return np.broadcast_to(flat_sensitivity, distance.shape)[()]

    center_distance = distance.ravel() * sqrt(max_curvature)
    center_distance = np.minimum(center_distance, normalized_radius)
    difference = _largest_gradient_difference(normalized_radius, center_distance)
    factor = difference / normalized_radius * (1 + _GRADIENT_DIFFERENCE_ERROR)
    return np.nextafter(2 * radius * factor / n, inf).reshape(distance.shape)[()]


def dispersion_sensitivity(manifold: Manifold, radius: float, n: int) -> float:
    """Return the largest change of the Fréchet variance if one record is replaced.

    The Fréchet variance is the least mean squared distance min_x mean d²(x, xᵢ).

    Theorem S3 (docs/theory/sensitivity.md). The change is at most 4r²(n − 1)/n² on a
    manifold whose curvatures have one sign, and on a product of such manifolds if
    r√κ < π/4. It is at most 4r²/n on every manifold. In flat space the first bound is
    attained.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    radius : float
        The radius r of the public ball that holds all records.
    n : int
        The number of records.

    Returns
    -------
    float
        An upper bound in squared units of distance, rounded up.
    """
    normalized_radius, _ = _normalized_radius(manifold, radius)
    n = _validate.integer("n", n, 1)
    is_sharper_bound_proved = _has_curvatures_of_one_sign(manifold) or (
        all(map(_has_curvatures_of_one_sign, manifold.factors))
        and normalized_radius < pi / 4
    )
    ratio = (n - 1) / n if is_sharper_bound_proved else 1.0
    return nextafter(4 * radius**2 * ratio / n, inf)


def _has_curvatures_of_one_sign(manifold: Manifold) -> bool:
    """Return whether all sectional curvatures are at least 0, or all are at most 0.

    Parameters
    ----------
    manifold : Manifold
        A space, or a factor of one.
    """
    smallest, largest = manifold.curvature_bounds
    return smallest >= 0 or largest <= 0


def _normalized_radius(manifold: Manifold, radius: float) -> tuple[float, float]:
    """Return r√κ and κ, after checking that records in the ball have a unique mean.

    The mean is unique if the ball is strongly convex (Afsari 2011, Theorem 2.1): r must
    be less than half the injectivity radius, and less than π/(2√κ).

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    radius : float
        The radius r of the public ball.

    Returns
    -------
    normalized_radius : float
        r√κ; 0 if the curvature is at most 0.
    max_curvature : float
        κ, the largest sectional curvature, which may be negative.

    Raises
    ------
    ParameterError
        If the ball is too large, or the curvature has no upper bound.
    """
    check_manifold(manifold)
    radius = _validate.length("radius", radius)

    max_curvature = manifold.curvature_bounds[1]
    if not isfinite(max_curvature):
        raise ParameterError(
            f"no sensitivity of the Fréchet mean is known on {manifold!r}, whose "
            "curvature has no upper bound; use a flat or affine-invariant metric"
        )

    # The radius below which the ball is strongly convex.
    limit = manifold.injectivity_radius / 2
    if max_curvature > 0:
        limit = min(limit, pi / (2 * sqrt(max_curvature)))
    if not radius < limit:
        raise ParameterError(
            f"must be < {limit:.6g} on {manifold!r}: in a larger ball the Fréchet "
            "mean need not be unique; choose a smaller public ball (records outside "
            "are clipped to it)",
            parameter="radius",
            value=radius,
        )
    return radius * sqrt(max(max_curvature, 0.0)), max_curvature


def _reimherr_factor(s: float) -> float:
    """Return the published factor by which curvature enlarges the sensitivity 2r/n.

    It is (2 − h)/h with h = 2s·cot(2s) (Reimherr, Bharath & Soto 2021, Theorem 2).

    Parameters
    ----------
    s : float
        The normalized radius r√κ of the ball, less than π/4.

    Returns
    -------
    float
        At least 1; it grows without limit as s approaches π/4.

    Raises
    ------
    ParameterError
        If s ≥ π/4, where the published bound is not defined.
    """
    if not s < pi / 4:
        raise ParameterError(
            f"the published bound needs radius·√κ={s:.6g} < π/4; use bound='tight'"
        )
    h = 2 * s / tan(2 * s)
    return (2 - h) / h


def _tight_factor(s: float) -> float:
    """Return tan(s)/s, by which curvature enlarges the sensitivity 2r/n of a mean.

    Theorem (docs/theory/sensitivity.md, "The supremum is at the center"). Let x be the
    mean, at distance a from the center o of the ball, for curvature 1. Let h(a) be the
    least eigenvalue of the Hessian of ½d² at x, and R(a) the largest
    ‖log_x(y) − log_x(o)‖ over the ball. Then R(a)/h(a) ≤ tan(s) for 0 ≤ a ≤ s < π/2,
    with equality at a = 0.

    Parameters
    ----------
    s : float
        The normalized radius r√κ of the ball.

    Returns
    -------
    float
        At least 1, rounded up; no factor that is smaller holds for every data set.

    Raises
    ------
    ParameterError
        If s ≥ 1.5, where the Hessian of the squared distance is near 0.
    """
    if not s < _LARGEST_RADIUS:
        raise ParameterError(
            f"radius·√κ={s:.6g} is too large: the mean's Hessian is no longer bounded "
            "away from 0; use a smaller radius"
        )
    return tan(s) / s * (1 + _TANGENT_ERROR)


def _largest_gradient_difference(s: float, a: np.ndarray) -> np.ndarray:
    """Return R(a), the largest ‖log_x(y) − log_x(o)‖ over points y at distance s from o.

    This is on the unit sphere, where x is at distance a from o, and 0 ≤ a ≤ s < π/2.
    With d = d(x, y), cos(u) = cos(s)/cos(a) and A = a·cot(a), the law of cosines gives

        ‖log_x(y) − log_x(o)‖² = a² + d² + 2A·(d/sin d)·(cos d − cos u).

    Its maximum over s − a ≤ d ≤ s + a is where (cos u − cos d)/ρ(d) = (1 − A)/A, with
    ρ(d) = d·sin²d/(sin d − d·cos d), or at the nearer end of this interval. The left
    side of the equation increases on (u, π), so bisection solves it
    (docs/theory/sensitivity.md).

    Parameters
    ----------
    s : float
        The radius of the ball about o.
    a : array
        The distances of points x from o.

    Returns
    -------
    array of the shape of `a`
        R(a) for curvature 1, with the relative error `_GRADIENT_DIFFERENCE_ERROR` at
        most.
    """
    A = _times_cotangent(a)
    # sin²(u/2) = (1 − cos u)/2, without the cancellation in 1 − cos(s)/cos(a).
    half_chord = np.sin((s - a) / 2) * np.sin((s + a) / 2) / np.cos(a)
    u = 2 * np.arcsin(np.sqrt(half_chord))

    d = np.clip(_distance_of_maximum(u, A), s - a, s + a)
    d_over_sin_d = 1 / np.sinc(d / pi)
    square = a * a + d * d - 2 * A * d_over_sin_d * _cosine_difference(u, d)
    return np.asarray(np.sqrt(square))


def _distance_of_maximum(u: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Solve (cos u − cos d)/ρ(d) = (1 − A)/A for d in (u, π), by bisection.

    Here ρ(d) = d·sin²d/(sin d − d·cos d). The left side increases with d.

    Parameters
    ----------
    u, A : arrays
        The numbers u and A of `_largest_gradient_difference`, one pair per equation.

    Returns
    -------
    array
        Each d, from below.
    """
    lower = u
    upper = np.full_like(u, pi)
    for _ in range(_N_BISECTIONS):
        d = (lower + upper) / 2
        # Both sides times A·ρ(d)·(sin d − d·cos d), so that nothing is divided by 0.
        left = _cosine_difference(u, d) * (np.sin(d) - d * np.cos(d)) * A
        right = (1 - A) * d * np.sin(d) ** 2
        is_below_maximum = left < right
        lower = np.where(is_below_maximum, d, lower)
        upper = np.where(is_below_maximum, upper, d)
    return lower


def _cosine_difference(u: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return cos(u) − cos(d), computed without cancellation.

    By the identity cos(u) − cos(d) = 2·sin((d − u)/2)·sin((d + u)/2), a difference of
    near angles keeps its digits.

    Parameters
    ----------
    u, d : arrays
        Angles in radians, of one shape.
    """
    return np.asarray(2 * np.sin((d - u) / 2) * np.sin((d + u) / 2))


def _times_cotangent(a: np.ndarray) -> np.ndarray:
    """Return a·cot(a), the least eigenvalue of the Hessian of ½d² on the unit sphere.

    It is 1 at a = 0, where NumPy's sinc(x) = sin(πx)/(πx) avoids a division by 0.

    Parameters
    ----------
    a : array
        Distances on the unit sphere, from 0 to π/2.
    """
    return np.asarray(np.cos(a) / np.sinc(a / pi))
