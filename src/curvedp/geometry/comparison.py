"""Bounds that follow from curvature alone, by the comparison theorems of Rauch and
Karcher. The functions here take a manifold and a length. Within that length they bound
how much the exponential map stretches, and how convex the squared distance to a point
is.
"""

from math import exp, inf, isfinite, pi, sinh, sqrt, tan, tanh
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold

# sinh(x) overflows for x above 710. The stretch is cut at this x: a bound of e^700 is of
# no use anyway.
_MAX_SINH_ANGLE = 700.0

# For angles x below this one, x·cot x = 1 − x²/3 − … is 1 in doubles. Smaller angles are
# raised to it, so that x/tan x is not 0/0.
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

    Comparison theorems multiply lengths by these roots. A curve has no tangent planes and
    counts as flat.

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

    Here s is the length times √−κ_min, with the lower curvature bound κ_min. So two
    tangent vectors that are h apart lead to points that are at most h·sinh(s)/s apart.

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

    d(·, y) is the distance to the point y, and κ_min and κ_max bound the sectional
    curvature. The eigenvalues of the Hessian lie between s·cot s with s =
    √κ_max·distance, and s'·coth s' with s' = √−κ_min·distance. From s = π/2 on the
    function need not be convex, and the lower bound is −inf.

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

    Here dᵢ is the distance of a point x from the record yᵢ, and the Hessian is taken at
    x.

    Theorem (docs/theory/inference.md, "The mean Hessian"). Let all dᵢ ≤ D, and let m² ≤
    D² be the mean of dᵢ². Let κ be the largest sectional curvature, −k² the least one,
    and √κ·D < π. Then the eigenvalues of the mean Hessian lie between

        1 − (1 − √κ·D·cot(√κ·D))·m²/D²   and   k·m·coth(k·m).

    The reason is that √κ·d·cot(√κ·d) and k·d·coth(k·d) are concave functions of d². The
    lower bound is the chord from d = 0 to D, the upper bound is Jensen's inequality.
    With m = D they are the bounds of `hessian_bounds`.

    Parameters
    ----------
    manifold : Manifold
        The space.
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
    """Return whether all curvatures are positive and known in closed form.

    They are known if `jacobi_spectrum` is: spheres, rotations of three-dimensional
    space, lines of a vector space, simplices and planar shapes. The answer is False for
    a manifold of dimension 1, which has no tangent planes and so no sectional
    curvatures.

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
    # The spectrum lists nonzero curvatures only. A direction is in dim − 1 orthogonal
    # planes; if fewer are listed, the others have curvature 0.
    return sum(multiplicity for _, multiplicity in spectrum) == manifold.dim - 1


def hessian_along_step(
    manifold: Manifold, root_mean_square: Any, step_length: Any
) -> np.ndarray:
    """Estimate the Hessian of the mean of ½d²(·, yᵢ) along the mean logarithm.

    dᵢ is the distance to the record yᵢ, m² the mean of dᵢ², and g the mean logarithm of
    the records. A search takes a step along g, and needs the Hessian in that direction
    to know how long the step should be.

    Let D be the dimension of the manifold, κ₁, …, κ_{D−1} the curvatures of the planes
    that contain a given direction (`jacobi_spectrum`), and h(d) the mean of
    √κⱼ·d·cot(√κⱼ·d) over j. A record at distance d contributes 1 along its own
    direction, and across that direction h(d) on average. If the logarithms spread about
    g alike in all directions, their mean square along g is s² = |g|² + (m² − |g|²)/D,
    and the estimate is

        h(m) + (1 − h(m))·s²/m².

    It is between 0 and 1. Theorem B2 (docs/theory/private-ball.md) bounds the error that
    a step of this length leaves.

    Parameters
    ----------
    manifold : Manifold
        A space of positive curvature (`is_positively_curved`).
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

    # h(m), the mean of angle·cot(angle) over the D − 1 curvatures.
    hessian_across: Any = 0.0
    for curvature, multiplicity in spectrum:
        angle = np.clip(sqrt(curvature) * root_mean_square, _SMALLEST_ANGLE, pi / 2)
        weight = multiplicity / (manifold.dim - 1)
        hessian_across = hessian_across + weight * angle / np.tan(angle)

    # |g|²/m² and s²/m², with an m that is not 0.
    largest_curvature = max(curvature for curvature, _ in spectrum)
    smallest_length = _SMALLEST_ANGLE / sqrt(largest_curvature)
    distance = np.maximum(root_mean_square, smallest_length)
    step_share = np.minimum(np.asarray(step_length) / distance, 1.0) ** 2
    share_along = step_share + (1 - step_share) / manifold.dim
    return np.asarray(hessian_across + (1 - hessian_across) * share_along)
