"""The mean of records in a public ball, within the a-priori error of `solver_error`.

A search's answer is taken where the theorem of `error_bound` covers it; otherwise the
theorem's own gradient steps are made.
"""

import operator
from math import inf, isnan
from typing import Any

import numpy as np

from curvedp.geometry.frechet_mean.error_bound import (
    contraction,
    mean_iterations,
    residual_tolerance,
)
from curvedp.geometry.frechet_mean.public_ball import ROUNDOFF_ROOM, PublicBall
from curvedp.geometry.frechet_mean.solver import (
    Iterate,
    MeanBackend,
    PassRequest,
    Search,
    search_mean,
)
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import Product


def mean_in_ball(
    ball: PublicBall, backend: MeanBackend, max_passes: int
) -> Search[tuple[Any, float]]:
    """Find the mean of records in the ball, with the a-priori error of `solver_error`.

    The search's answer x is taken where its residual is within `residual_tolerance`
    and, under positive curvature, x is in the ball and the mean square distance to it
    is at most r². From such an x the gradient flow ends at the mean after a length of
    at most ‖∇f(x)‖/μ (docs/theory/frechet-mean.md). Otherwise the fixed number of
    gradient steps is made from the center. Either way the value is within
    `solver_error`; only the time depends on which, and so on the records. Residuals are
    believed, and steps begun, only where floats represent the point well.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        Makes the passes over the records.
    max_passes : int
        The largest number of passes.

    Returns
    -------
    x : Iterate
        The mean, as the backend stands for it.
    square : float
        Mean squared distance of the records to it.
    """
    M, center, radius = ball
    tolerance = residual_tolerance(M, radius)
    x, result, converged = yield from search_mean(backend, tolerance, max_passes)
    if converged:
        safe_iterate = _to_safe_iterate(ball, backend, x)
        if safe_iterate is not x:
            x = safe_iterate
            result = yield PassRequest(x, True)
            converged = result.residual <= tolerance
    if converged and isnan(result.square):
        result = yield PassRequest(x, True)

    is_covered = M.curvature_bounds[1] <= 0 or (
        result.square <= radius**2 and float(M.dist(center, x)) <= radius
    )
    if converged and is_covered:
        return x, result.square
    return (yield from fixed_step_descent(ball, backend))


def fixed_step_descent(
    ball: PublicBall, backend: MeanBackend
) -> Search[tuple[Any, float]]:
    """Make the theorem's public number of gradient steps from the center.

    Returns the last iterate and the mean squared distance of the records to it.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        Makes the passes over the records.
    """
    M, center, radius = ball
    x = backend.iterate_at(center)
    step_length = _step_length(M, radius)
    for _ in range(mean_iterations(M, radius)):
        result = yield PassRequest(x, True)
        moved = backend.move(x, step_length * result.velocity)
        x = _to_safe_iterate(ball, backend, moved)
    result = yield PassRequest(x, True)
    return x, result.square


def _to_safe_iterate(ball: PublicBall, backend: MeanBackend, x: Iterate) -> Iterate:
    """Return the iterate of the nearest safe point of the ball; x where it is one."""
    point = backend.point(x)
    safe_point = project_to_safe_ball(ball, point)
    return x if safe_point is point else backend.iterate_at(safe_point)


def project_to_safe_ball(ball: PublicBall, x: np.ndarray) -> np.ndarray:
    """Return the nearest point of the ball that floats represent well.

    x itself is returned where it is one. Where curvature is ≤ 0, the ball and the set
    of well-represented points (`M.float_set`) are convex and contain the center: the
    nearest point of one, then of the other, is in both, and no farther from any record,
    which is in both (Bridson & Haefliger 1999, II.2.4). Under the affine-invariant
    metric, too, the nearest matrix with a spectrum of a convex set has the nearest
    spectrum and the same eigenvectors, since d(A, B) is at least the distance of the
    sorted log-eigenvalues (Bhatia 2007, ch. 6; Lidskii). Elsewhere iterates are proved
    to stay in the ball, and floats represent all of it.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    x : array of shape point_shape
        The iterate.
    """
    M, center, radius = ball
    if isinstance(M, Product):
        parts = M.split(x)
        balls = [
            PublicBall(factor, part_of_center, radius)
            for factor, part_of_center in zip(M.factors, M.split(center), strict=True)
        ]
        safe_parts = list(map(project_to_safe_ball, balls, parts))
        nothing_moved = all(map(operator.is_, safe_parts, parts))
        return x if nothing_moved else np.asarray(M.join(safe_parts))
    if M.convexity_radius < inf:
        return x

    is_wide = radius > M.float_set.safe_radius
    if not is_wide and float(M.dist(center, x)) <= radius:
        return x
    z = np.asarray(M.normal_coordinates(center, x))
    length = float(np.linalg.norm(z))
    is_unsafe = is_wide and float(M.float_set.shrink_factor(z)) * ROUNDOFF_ROOM < 1
    if length <= radius * ROUNDOFF_ROOM and not is_unsafe:
        return x
    z = z * min(1.0, radius / length)
    if is_wide:
        z = M.float_set.project(z)
    return np.asarray(M.from_normal_coordinates(center, z))


def _step_length(M: Manifold, radius: float) -> np.ndarray | float:
    """Return the theorem's step length; on a product one for each coordinate.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.
    """
    if isinstance(M, Product):
        lengths = [
            np.full(factor.dim, _step_length(factor, radius)) for factor in M.factors
        ]
        return np.concatenate(lengths)
    return contraction(M, radius).step
