"""The mean of records in a public ball, within the a-priori error of `solver_error`. A
fast search by Newton's method comes first. Its result is taken if the residual there,
the length of the mean logarithm, proves that the mean is close enough. Otherwise a
public number of gradient steps is made, whose error the theorem in `error_bound` bounds
for all records.
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

    This generator yields a `PassRequest` for each pass over the records that it needs,
    and its caller sends back the `PassResult`; `run_search` is such a caller.

    Let r be the radius, f = ½·mean d² the cost and μ its convexity. The result x of a
    search by Newton's method is taken if the length of the mean logarithm there is
    within `residual_tolerance` and, unless f is convex on the whole space, x is in the
    ball and the mean squared distance to it is at most r². From such an x the gradient
    flow ends at the mean after a length of at most ‖∇f(x)‖/μ
    (docs/theory/frechet-mean.md). Otherwise a public number of gradient steps is made
    from the center.

    In both cases the mean is within `solver_error`. Which case occurs depends on the
    records, and changes only the time. For the bound to hold, a residual may count, and
    a step may begin, only at points that floats represent well.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        It moves iterates and supplies Newton's method.
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

    # A result that floats do not represent well is moved, and its residual is measured
    # again.
    if converged:
        safe_iterate = _to_safe_iterate(ball, backend, x)
        if safe_iterate is not x:
            x = safe_iterate
            result = yield PassRequest(x, with_cost=True)
            converged = result.residual <= tolerance

    # The mean squared distance is returned, and checked below: compute it if the last
    # pass did not.
    if converged and isnan(result.mean_square):
        result = yield PassRequest(x, with_cost=True)

    # On spaces of positive curvature, and on tori, a small residual does not suffice:
    # the cost may have other critical points, far from the records. Elsewhere it is
    # convex.
    is_convex = M.curvature_bounds[1] <= 0 and M.injectivity_radius == inf
    has_proved_error = is_convex or (
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
    over the records, and its caller sends back the `PassResult`.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    backend : MeanBackend
        It moves an iterate by a step, in the form in which it represents points.

    Returns
    -------
    x : Iterate
        The last iterate, as the backend represents points.
    mean_square : float
        Mean squared distance of the records to it.
    """
    M, center, radius = ball
    step_length = _step_length(M, radius)
    x = backend.iterate_at(center)
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
        It says which point an iterate stands for.
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

    On a Hadamard manifold, the ball and the set of well-represented points
    (`M.float_set`) are convex and contain the center. The nearest point of the first
    set, and then of the second, is in both sets. All records are in both sets too, so
    the result is no farther from any record than x is (Bridson & Haefliger 1999,
    II.2.4). On positive definite matrices with the affine-invariant metric, the nearest
    matrix whose spectrum is in a convex set has the eigenvectors of x and the nearest
    spectrum, because d(A, B) is at least the distance of the sorted log-eigenvalues
    (Bhatia 2007, ch. 6; Lidskii). On other spaces nothing is done: iterates are proved
    to stay in the ball, and floats represent all of it.

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
        return _project_parts_to_safe_balls(M, ball, x)
    is_hadamard = M.convexity_radius == inf
    if not is_hadamard:
        return x

    # The common case: floats represent the whole ball well, and x is in it.
    exceeds_safe_radius = radius > M.float_set.safe_radius
    if not exceeds_safe_radius and float(M.dist(center, x)) <= radius:
        return x

    # x stays if it is in both sets up to round-off.
    z = np.asarray(M.normal_coordinates(center, x))
    length = float(np.linalg.norm(z))
    is_well_represented = True
    if exceeds_safe_radius:
        shrink_factor = float(M.float_set.shrink_factor(z))
        is_well_represented = not shrink_factor * ROUNDOFF_ROOM < 1
    if length <= radius * ROUNDOFF_ROOM and is_well_represented:
        return x

    # The nearest point of the ball, and then of the set of well-represented points.
    z = z * min(1.0, radius / length)
    if exceeds_safe_radius:
        z = M.float_set.project(z)
    return np.asarray(M.from_normal_coordinates(center, z))


def _project_parts_to_safe_balls(
    M: Product, ball: PublicBall, x: np.ndarray
) -> np.ndarray:
    """Return the point of a product whose parts are projected to safe balls.

    Every part is projected on its own, to the ball of the same radius in its factor.

    Parameters
    ----------
    M : Product
        The manifold of the ball.
    ball : PublicBall
        The public ball of the records.
    x : array of shape point_shape
        A point of the product.

    Returns
    -------
    array of shape point_shape
        The nearest point; x itself, the same object, if nothing has to move.
    """
    parts = M.split(x)
    centers = M.split(ball.center)
    safe_parts = []
    for factor, center, part in zip(M.factors, centers, parts, strict=True):
        ball_of_factor = PublicBall(factor, center, ball.radius)
        safe_parts.append(project_to_safe_ball(ball_of_factor, part))
    nothing_moved = all(map(operator.is_, safe_parts, parts))
    return x if nothing_moved else np.asarray(M.join(safe_parts))


def _step_length(M: Manifold, radius: float) -> np.ndarray | float:
    """Return the step length t, by which gradient steps multiply the mean logarithm.

    It is that of the theorem in `error_bound`, whose bound holds for no other length.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    radius : float
        The radius of the public ball.

    Returns
    -------
    float or array of shape (dim,)
        One number. On a product, one number for each coordinate, because every factor
        has its own step length.
    """
    if isinstance(M, Product):
        lengths = [
            np.full(factor.dim, _step_length(factor, radius)) for factor in M.factors
        ]
        return np.concatenate(lengths)
    return contraction(M, radius).step
