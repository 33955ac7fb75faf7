"""Bounds by curvature alone: what Rauch's and Karcher's comparison theorems give.

The functions here take a manifold and a length, and bound how exp stretches and how
convex squared distances are within that length.
"""

from math import exp, inf, isfinite, pi, sinh, sqrt, tan, tanh
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

# sinh overflows beyond this; the stretch is cut there, where it is useless anyway.
_MAX_SINH_ANGLE = 700.0
# An angle below this one has an x·cot x that doubles do not tell from 1.
_SMALLEST_ANGLE = 1e-9


class CurvatureRoots(NamedTuple):
    """√−κ_min and √κ_max, each 0 where curvature does not have that sign."""

    negative: float
    positive: float


class HessianBounds(NamedTuple):
    """Bounds on the eigenvalues of a Hessian; `lowest` is ≤ 0 where it may not be convex."""

    lowest: float
    highest: float


def curvature_roots(manifold: Manifold) -> CurvatureRoots:
    """Return (√−κ_min, √κ_max) of a manifold whose curvature is bounded, or refuse it.

    Parameters
    ----------
    manifold : Manifold
        Where the points are.
    """
    lowest, highest = (0.0, 0.0)
    if manifold.dim > 1:
        lowest, highest = manifold.curvature_bounds
    if not (isfinite(lowest) and isfinite(highest)):
        raise ParameterError(
            f"no region on {manifold!r}, whose curvature has no public bound; use "
            "another metric"
        )
    return CurvatureRoots(sqrt(max(-lowest, 0.0)), sqrt(max(highest, 0.0)))


def exp_stretch(manifold: Manifold, length: float) -> float:
    """Return how much exp stretches vectors of up to this length: sinh(s)/s ≥ 1 (Rauch).

    s is the length times √−κ_min.

    Parameters
    ----------
    manifold : Manifold
        Where the points are.
    length : float
        The largest length.
    """
    s = curvature_roots(manifold).negative * length
    if s == 0:
        return 1.0
    if s < _MAX_SINH_ANGLE:
        return sinh(s) / s
    return exp(_MAX_SINH_ANGLE)


def hessian_bounds(manifold: Manifold, distance: float) -> HessianBounds:
    """Bound the Hessian of ½d²(·, y) at distances up to `distance` (Karcher 1977).

    Its eigenvalues lie between s·cot s, s = √κ_max·distance, and s'·coth s',
    s' = √−κ_min·distance. The lower bound is −inf from s = π/2 on.

    Parameters
    ----------
    manifold : Manifold
        Where the points are.
    distance : float
        The largest distance.
    """
    roots = curvature_roots(manifold)
    lowest = 1.0
    positive_angle = roots.positive * distance
    if positive_angle >= pi / 2:
        lowest = -inf
    elif positive_angle > 0:
        lowest = positive_angle / tan(positive_angle)
    highest = 1.0
    negative_angle = roots.negative * distance
    if negative_angle > 0:
        highest = negative_angle / tanh(negative_angle)
    return HessianBounds(lowest, highest)


def mean_hessian_bounds(
    manifold: Manifold, distance: float, root_mean_square: float
) -> HessianBounds:
    """Bound the Hessian of the mean of ½d²(·, yᵢ), where the mean square of dᵢ is known.

    Theorem (docs/theory/inference.md, "The mean Hessian"). Let all dᵢ ≤ D, and let m² ≤ D² be
    the mean of dᵢ². As functions of d², √κ·d·cot(√κ·d) and k·d·coth(k·d) are concave. So
    by the chord from 0 to D and by Jensen's inequality the eigenvalues of the mean
    Hessian lie between

        1 − (1 − √κ·D·cot(√κ·D))·m²/D²   and   k·m·coth(k·m),

    for √κ·D < π. With m = D these are the bounds of `hessian_bounds`.

    Parameters
    ----------
    manifold : Manifold
    distance : float
        D, the largest distance.
    root_mean_square : float
        m; a larger value is cut to D.
    """
    m = min(root_mean_square, distance)
    highest = hessian_bounds(manifold, m).highest
    positive_angle = curvature_roots(manifold).positive * distance
    if positive_angle >= pi:
        return HessianBounds(-inf, highest)
    if m == distance or positive_angle == 0:
        return HessianBounds(hessian_bounds(manifold, distance).lowest, highest)
    farthest_hessian = positive_angle / tan(positive_angle)
    lowest = 1 - (1 - farthest_hessian) * (m / distance) ** 2
    return HessianBounds(lowest, highest)


def is_positively_curved(manifold: Manifold) -> bool:
    """Return whether a space has constant positive curvature and two dimensions or more."""
    return (manifold.constant_curvature or 0.0) > 0 and manifold.dim > 1


def hessian_along_step(
    manifold: Manifold, root_mean_square: Any, step_length: Any
) -> np.ndarray:
    """Estimate the Hessian of the mean of ½d²(·, yᵢ) along the mean logarithm.

    For constant curvature κ > 0 a record at distance d in the direction u contributes
    h(d) + (1 − h(d))·⟨u, a⟩² along an axis a, where h(d) = √κ·d·cot(√κ·d). Let m² be
    the mean of dᵢ², g the mean logarithm, D the dimension. If the logarithms spread
    about g alike in all directions, their mean square along g is
    s² = |g|² + (m² − |g|²)/D, and the estimate is

        h(m) + (1 − h(m))·s²/m².

    Theorem B2 (docs/theory/private-ball.md) says what it leaves of the error of a step.
    The estimate is between 0 and 1.

    Parameters
    ----------
    manifold : Manifold
        Of constant positive curvature.
    root_mean_square : float or array
        m; a larger value is cut to π/(2√κ).
    step_length : float or array
        |g|; a value above m is cut to m.
    """
    curvature = manifold.constant_curvature
    assert curvature is not None
    angle = np.clip(sqrt(curvature) * root_mean_square, _SMALLEST_ANGLE, pi / 2)
    across = angle / np.tan(angle)
    step_share = np.minimum(sqrt(curvature) * step_length / angle, 1.0) ** 2
    share_along = step_share + (1 - step_share) / manifold.dim
    return np.asarray(across + (1 - across) * share_along)
