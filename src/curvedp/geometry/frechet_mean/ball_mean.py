"""The mean of records in a public ball, within the a-priori error of `solver_error`.

A fast search with Newton's steps comes first. Its answer is taken if its residual
proves it to be close enough to the mean. Otherwise a public number of gradient steps is
made, whose error the theorem in `error_bound` bounds for all records.
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

    This generator yields a `PassRequest` for each pass over the records that it needs
    and is to be sent the `PassResult`; `run_search` runs it.

    Let r be the radius, f = ½·mean d² the cost and μ its convexity. The answer x of a
    search by Newton's method is taken if the length of the mean logarithm there is
    within `residual_tolerance` and, under positive curvature, x is in the ball and the
    mean squared distance to it is at most r². From such an x the gradient flow ends at
    the mean after a length of at most ‖∇f(x)‖/μ (docs/theory/frechet-mean.md).
    Otherwise a public number of gradient steps is made from the center. Either way the
    value is within `solver_error`; only the time depends on which, and so on the
    records. A residual counts, and a step begins, only at points that floats represent
    well.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        Moves iterates and supplies Newton's method.
    max_passes : int
        Cap on the number of passes of the search by Newton's method.

    Returns
    -------
    x : Iterate
        The mean, as the backend represents points.
    mean_square : float
        Mean squared distance of the records to it.
    """
    M, center, radius = ball
    tolerance = residual_tolerance(M, radius)
    x, result, converged = yield from search_mean(backend, tolerance, max_passes)
    if converged:
        safe_iterate = _to_safe_iterate(ball, backend, x)
        if safe_iterate is not x:
            x = safe_iterate
            result = yield PassRequest(x, with_cost=True)
            converged = result.residual <= tolerance
    if converged and isnan(result.mean_square):
        result = yield PassRequest(x, with_cost=True)

    has_proved_error = M.curvature_bounds[1] <= 0 or (
        result.mean_square <= radius**2 and float(M.dist(center, x)) <= radius
    )
    if converged and has_proved_error:
        return x, result.mean_square
    return (yield from fixed_step_descent(ball, backend))


def fixed_step_descent(
    ball: PublicBall, backend: MeanBackend
) -> Search[tuple[Any, float]]:
    """Approximate the mean of records by a public number of gradient steps.

    The number of steps and their length depend on the manifold and the radius alone;
    the steps begin at the center. This generator yields a `PassRequest` for each pass
    over the records and is to be sent the `PassResult`.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        Moves iterates.

    Returns
    -------
    x : Iterate
        The last iterate, as the backend represents points.
    mean_square : float
        Mean squared distance of the records to it.
    """
    M, center, radius = ball
    x = backend.iterate_at(center)
    step_length = _step_length(M, radius)
    for _ in range(mean_iterations(M, radius)):
        result = yield PassRequest(x, with_cost=True)
        moved = backend.move(x, step_length * result.mean_log)
        x = _to_safe_iterate(ball, backend, moved)
    result = yield PassRequest(x, with_cost=True)
    return x, result.mean_square


def _to_safe_iterate(ball: PublicBall, backend: MeanBackend, x: Iterate) -> Iterate:
    """Move an iterate to the nearest point of the ball that floats represent well.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        Says which point an iterate stands for.
    x : Iterate
        The iterate.

    Returns
    -------
    Iterate
        x itself, the same object, if its point is in the ball and well represented.
    """
    point = backend.point(x)
    safe_point = project_to_safe_ball(ball, point)
    return x if safe_point is point else backend.iterate_at(safe_point)


def project_to_safe_ball(ball: PublicBall, x: np.ndarray) -> np.ndarray:
    """Return the nearest point of the ball that floats represent well.

    Where curvature is ≤ 0, the ball and the set of well-represented points
    (`M.float_set`) are convex and contain the center: the nearest point of one, then of
    the other, is in both, and no farther from any record, which is in both (Bridson &
    Haefliger 1999, II.2.4). Under the affine-invariant metric, too, the nearest matrix
    with a spectrum of a convex set has the nearest spectrum and the same eigenvectors,
    since d(A, B) is at least the distance of the sorted log-eigenvalues (Bhatia 2007,
    ch. 6; Lidskii). On other spaces nothing is done: iterates are proved to stay in the
    ball, and floats represent all of it.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    x : array of shape point_shape
        A point of the manifold.

    Returns
    -------
    array of shape point_shape
        The nearest point; x itself, the same object, if nothing has to move.
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

    is_hadamard = M.convexity_radius == inf
    if not is_hadamard:
        return x
    # Whether some points of the ball are not represented well.
    exceeds_safe_radius = radius > M.float_set.safe_radius
    if not exceeds_safe_radius and float(M.dist(center, x)) <= radius:
        return x

    z = np.asarray(M.normal_coordinates(center, x))
    length = float(np.linalg.norm(z))
    is_well_represented = True
    if exceeds_safe_radius:
        shrink_factor = float(M.float_set.shrink_factor(z))
        is_well_represented = not shrink_factor * ROUNDOFF_ROOM < 1
    if length <= radius * ROUNDOFF_ROOM and is_well_represented:
        return x

    z = z * min(1.0, radius / length)
    if exceeds_safe_radius:
        z = M.float_set.project(z)
    return np.asarray(M.from_normal_coordinates(center, z))


def _step_length(M: Manifold, radius: float) -> np.ndarray | float:
    """Return the length t of the gradient steps of the theorem in `error_bound`.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float or array of shape (dim,)
        By what the mean logarithm is multiplied: one number, or on a product one for
        each coordinate, because every factor has its own.
    """
    if isinstance(M, Product):
        lengths = [
            np.full(factor.dim, _step_length(factor, radius)) for factor in M.factors
        ]
        return np.concatenate(lengths)
    return contraction(M, radius).step
