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
    """√−κ_min and √κ_max for curvatures between κ_min and κ_max.

    Attributes
    ----------
    negative : float
        √−κ_min; 0 if no curvature is negative.
    positive : float
        √κ_max; 0 if no curvature is positive.
    """

    negative: float
    positive: float


class HessianBounds(NamedTuple):
    """Bounds on the eigenvalues of the Hessian of a function.

    Attributes
    ----------
    lowest : float
        A lower bound. The function is convex if it is positive; a bound ≤ 0, which may
        be −inf, proves nothing.
    highest : float
        An upper bound.
    """

    lowest: float
    highest: float


def curvature_roots(manifold: Manifold) -> CurvatureRoots:
    """Return (√−κ_min, √κ_max) of a manifold with curvature between κ_min and κ_max.

    Comparison theorems multiply lengths by these roots. A curve has no curvature.

    Parameters
    ----------
    manifold : Manifold
        The space.

    Returns
    -------
    CurvatureRoots
        The two roots, each 0 if no plane has curvature of that sign.

    Raises
    ------
    ParameterError
        If the curvature is not bounded.
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
    """Return how much exp stretches vectors up to a length: sinh(s)/s ≥ 1 (Rauch).

    s is the length times √−κ_min, κ_min the least sectional curvature. So a step of
    length h between tangent vectors becomes at most h·sinh(s)/s between points.

    Parameters
    ----------
    manifold : Manifold
        The space.
    length : float
        The largest length of the tangent vectors.

    Returns
    -------
    float
        The factor. From s = 700 on, where sinh overflows, it is e^700.
    """
    s = curvature_roots(manifold).negative * length
    if s == 0:
        return 1.0
    if s < _MAX_SINH_ANGLE:
        return sinh(s) / s
    return exp(_MAX_SINH_ANGLE)


def hessian_bounds(manifold: Manifold, distance: float) -> HessianBounds:
    """Bound the Hessian of ½d²(·, y) at points within `distance` of y (Karcher 1977).

    κ_min and κ_max bound the sectional curvature. The eigenvalues lie between s·cot s,
    s = √κ_max·distance, and s'·coth s', s' = √−κ_min·distance. The lower bound is −inf
    from s = π/2 on.

    Parameters
    ----------
    manifold : Manifold
        The space.
    distance : float
        The largest distance of a point from y.

    Returns
    -------
    HessianBounds
        The bounds; both are 1 where the space is flat.
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
    """Bound the Hessian of the mean of ½d²(·, yᵢ), given the mean square of dᵢ.

    Theorem (docs/theory/inference.md, "The mean Hessian"). Let all dᵢ ≤ D, and let m² ≤
    D² be the mean of dᵢ². As functions of d², √κ·d·cot(√κ·d) and k·d·coth(k·d) are
    concave. So by the chord from 0 to D and by Jensen's inequality the eigenvalues of
    the mean Hessian lie between

        1 − (1 − √κ·D·cot(√κ·D))·m²/D²   and   k·m·coth(k·m),

    for √κ·D < π. With m = D these are the bounds of `hessian_bounds`.

    Parameters
    ----------
    manifold : Manifold
        The space; κ is its largest and −k² its least sectional curvature.
    distance : float
        D, the largest distance of a point from a record yᵢ.
    root_mean_square : float
        m, the root of the mean square of the distances; cut to D if it is larger.

    Returns
    -------
    HessianBounds
        The bounds; the lower one is −inf for √κ·D ≥ π.
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
    """Return whether every plane has positive curvature, in two dimensions or more.

    Only spaces count whose curvatures along a geodesic are known, and are the same
    along every one (`jacobi_spectrum`): spheres, rotations in space, lines of a vector
    space, simplices and planar shapes.

    Parameters
    ----------
    manifold : Manifold
        The space.

    Returns
    -------
    bool
        False also if the curvatures are not known in closed form.
    """
    spectrum = manifold.jacobi_spectrum
    if not spectrum or min(kappa for kappa, _ in spectrum) <= 0:
        return False
    return sum(multiplicity for _, multiplicity in spectrum) == manifold.dim - 1


def hessian_along_step(
    manifold: Manifold, root_mean_square: Any, step_length: Any
) -> np.ndarray:
    """Estimate the Hessian of the mean of ½d²(·, yᵢ) along the mean logarithm.

    Let κ₁, …, κ_{D−1} be the curvatures of the planes that hold a direction
    (`jacobi_spectrum`), D the dimension, and h(d) the mean of √κⱼ·d·cot(√κⱼ·d). A
    record at distance d contributes h(d) across its own direction, on average over the
    directions across, and 1 along it. Let m² be the mean of dᵢ² and g the mean
    logarithm. If the logarithms spread about g alike in all directions, their mean
    square along g is s² = |g|² + (m² − |g|²)/D, and the estimate is

        h(m) + (1 − h(m))·s²/m².

    Theorem B2 (docs/theory/private-ball.md) says what it leaves of the error of a step.
    The estimate is between 0 and 1.

    Parameters
    ----------
    manifold : Manifold
        Whose curvature is positive (`is_positively_curved`).
    root_mean_square : float or array
        m; in the cotangents √κⱼ·m is cut to π/2.
    step_length : float or array
        |g|; a value above m is cut to m.

    Returns
    -------
    array or float
        The estimates, of the shape to which the two lengths broadcast.
    """
    spectrum = manifold.jacobi_spectrum
    assert spectrum  # the curvature is positive
    across: Any = 0.0
    for curvature, multiplicity in spectrum:
        angle = np.clip(sqrt(curvature) * root_mean_square, _SMALLEST_ANGLE, pi / 2)
        across = across + multiplicity / (manifold.dim - 1) * angle / np.tan(angle)

    smallest_length = _SMALLEST_ANGLE / sqrt(max(kappa for kappa, _ in spectrum))
    distance = np.maximum(root_mean_square, smallest_length)
    step_share = np.minimum(np.asarray(step_length) / distance, 1.0) ** 2
    share_along = step_share + (1 - step_share) / manifold.dim
    return np.asarray(across + (1 - across) * share_along)
