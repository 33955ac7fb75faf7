"""The Fréchet mean of points, arg min of Σ d(x, xᵢ)², on every space, without privacy.
`frechet_mean` searches until the mean of the logarithms log_x xᵢ, which is 0 at the
mean, is at most 1e-9 long; given a public ball, it takes a public number of steps
instead. `mean_of_array` computes the mean that a private release adds noise to.
"""

import math
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from array_api_compat import device, is_array_api_obj, is_numpy_array

from curvedp import _validate
from curvedp._silence import numerical_silence
from curvedp.errors import ParameterError
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.frechet_mean.backends.generic import GenericBackend
from curvedp.geometry.frechet_mean.backends.spd import FEW_NUMBERS, SPDBackend
from curvedp.geometry.frechet_mean.ball_mean import fixed_step_descent, mean_in_ball
from curvedp.geometry.frechet_mean.error_bound import residual_tolerance
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.geometry.frechet_mean.solver import run_search, search_mean
from curvedp.geometry.manifold import Array, Manifold, check_manifold
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_bures import SPDBuresWasserstein
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.numerics.arrays import detach, namespace, to_host
from curvedp.numerics.threads import one_blas_thread

# Cap on the number of passes over the records; a handful are needed where double
# precision resolves the data.
_PASSES = 200

# ‖mean log‖ at which the search ends, half of what is promised.
_TOLERANCE = 5e-10

# Bures-Wasserstein matrices whose largest entry is below this are scaled up.
_SMALL_ENTRY = 0.25


def frechet_mean(
    M: Manifold, X: Array, *, ball: tuple[Array, float] | None = None
) -> Array:
    """Return the Fréchet mean of points: one point x with ‖mean log_x(xᵢ)‖ ≤ 1e-9.

    This accuracy is reached wherever float64 coordinates can represent the mean with
    it. Points of lower precision are averaged in float64, and the mean is returned in
    float64 if the array library has it. On spaces of positive curvature the mean is
    unique for points in a ball of radius < ½·min(injectivity radius, π/√κ) (Afsari
    2011); for other points the result is a local minimum of Σ d(x, xᵢ)².

    *Guarantees* (with `ball`). The result is within `mean_error_bound(M, radius)` of
    the true mean, whatever the data.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    X : array, shape (n, *M.point_shape)
        The points, at least one.
    ball : (center, radius), optional
        A public ball. The points are first clipped into it (`project_to_ball`). Then
        gradient steps are taken from the center, and their number depends on M and the
        radius alone, not on the data.

    Returns
    -------
    array, shape M.point_shape
        The mean, of the same array library as X.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> x = frechet_mean(Sphere(2), np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    >>> np.round(x, 12) + 0.0
    array([0.70710678, 0.70710678, 0.        ])
    """
    check_manifold(M)
    X = _convert_points(M, X)
    records = np.asarray(to_host(X), dtype=np.float64)
    weights = np.full(len(records), 1 / len(records))

    if ball is not None:
        mean = _mean_by_fixed_steps(_public_ball(M, ball), records, weights)
    elif np.all(np.isfinite(records)):
        mean = _weighted_mean(M, records, weights)
    else:
        mean = np.full(M.point_shape, np.nan)

    # The mean goes back to the array library and the device of X.
    if is_numpy_array(X):
        return mean
    return namespace(X).asarray(mean, device=device(X))  # float64 where it exists


def _convert_points(M: Manifold, X: Array) -> Array:
    """Convert X to an array of points of M, and check its shape and type.

    `frechet_mean` calls it on its argument before anything else.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    X : array of shape (n, *point_shape)
        The argument that the caller passes as at least one point.

    Returns
    -------
    array of shape (n, *point_shape)
        The same numbers, in the same array library; lists become NumPy arrays.

    Raises
    ------
    ParameterError
        If X is empty, has another shape or is not real.
    """
    if not is_array_api_obj(X):
        X = _validate.array("X", X)
    X = detach(X)
    if namespace(X).isdtype(X.dtype, "complex floating"):
        raise ParameterError(f"X has dtype {X.dtype}; it must be real numbers")
    shape = M.point_shape
    is_batch = X.ndim == len(shape) + 1 and tuple(X.shape[1:]) == shape
    if not is_batch or X.shape[0] == 0:
        raise ParameterError(
            f"X has shape {tuple(X.shape)}; "
            f"it must be (n, {', '.join(map(str, shape))}) with n >= 1"
        )
    return X


def _public_ball(M: Manifold, ball: tuple[Array, float]) -> PublicBall:
    """Return the public ball with the center and the radius of a pair, after a check.

    The center is checked later, by `project_to_ball`.

    Parameters
    ----------
    M : Manifold
        The manifold of the ball.
    ball : pair of array and float
        The argument that the caller passes: the center and the radius.

    Returns
    -------
    PublicBall
        The ball, with the center as a NumPy array.

    Raises
    ------
    ParameterError
        If the argument is not a pair, or the radius is not positive and finite.
    """
    if not isinstance(ball, tuple | list) or len(ball) != 2:
        raise ParameterError(
            "must be a pair (center, radius)", parameter="ball", value=ball
        )
    center, radius = ball
    return PublicBall(
        M, np.asarray(to_host(center)), _validate.length("radius", radius)
    )


def _mean_by_fixed_steps(
    ball: PublicBall, X: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Clip records into the ball and compute their mean by a public number of steps.

    `frechet_mean` does this if its caller states a public ball.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    array of shape point_shape
        A point within `mean_error_bound` of the mean of the clipped records.
    """
    with numerical_silence(), _without_blas_threads(X):
        clipped = np.asarray(project_to_ball(*ball, X))
        tolerance = residual_tolerance(ball.manifold, ball.radius)
        backend = _memory_backend(ball.manifold, clipped, weights, tolerance)
        descent = fixed_step_descent(ball, backend)
        x, _ = run_search(descent, backend.make_pass)
        return np.asarray(backend.point(x))


def _weighted_mean(
    M: Manifold,
    X: np.ndarray,
    weights: np.ndarray,
    tolerance: float = _TOLERANCE,
) -> np.ndarray:
    """Return the weighted Fréchet mean of finite points, without a public ball.

    On a product the mean is computed part by part. On a space that is another space in
    other coordinates (`PullbackManifold`) it is computed in that space, its model.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    X : array of shape (n, *point_shape)
        The points.
    weights : array of shape (n,)
        The weight of each point; they sum to 1.
    tolerance : float
        The length of the mean logarithm at which the search ends.

    Returns
    -------
    array of shape point_shape
        The mean; NaN, and never a point that is no mean, if logarithms are NaN.
    """
    if isinstance(M, PullbackManifold):
        # `to_model` is an isometry, up to the factor `scale`, onto a convex part of the
        # model. So the mean of the images is the image of the mean.
        images = np.asarray(M.to_model(X))
        mean_of_images = _weighted_mean(M.model, images, weights, tolerance / M.scale)
        return np.asarray(M.from_model(mean_of_images))
    if isinstance(M, Product):
        part_tolerance = tolerance / math.sqrt(len(M.factors))
        means = [
            _weighted_mean(factor, part, weights, part_tolerance)
            for factor, part in zip(M.factors, M.split(X), strict=True)
        ]
        return np.asarray(M.join(means))
    if isinstance(M, SPDBuresWasserstein):
        unit = _unit_of_small_matrices(X)
        if unit != 1:
            return unit * _weighted_mean(M, X / unit, weights, tolerance)

    with numerical_silence(), _without_blas_threads(X):
        backend = _memory_backend(M, X, weights, tolerance)
        search = search_mean(backend, tolerance, _PASSES)
        iterate, result, _ = run_search(search, backend.make_pass)
        x = np.asarray(backend.point(iterate))
    return np.full_like(x, np.nan) if math.isnan(result.residual) else x


def _unit_of_small_matrices(X: np.ndarray) -> float:
    """Return the power of 4 by which matrices with tiny entries are divided.

    Bures-Wasserstein distances scale like √X. For matrices with tiny entries all
    distances would be below the tolerance, and any start would pass for the mean.
    Dividing by a power of 4 causes no round-off.

    Parameters
    ----------
    X : array of shape (n, m, m)
        The matrices.

    Returns
    -------
    float
        The unit; 1 for matrices whose entries are not tiny, and for zeros.
    """
    largest_entry = float(np.max(np.abs(X)))
    is_small = 0 < largest_entry < _SMALL_ENTRY
    return 4.0 ** math.floor(math.log2(largest_entry) / 2) if is_small else 1.0


def _memory_backend(
    M: Manifold, X: np.ndarray, weights: np.ndarray, tolerance: float
) -> SPDBackend | GenericBackend:
    """Return the backend that makes passes over points in memory.

    Points written with few digits (float32, text) miss the manifold's equations by more
    than a residual of 1e-9 allows, so they are projected first. Symmetric matrices have
    no such equation.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    X : array of shape (n, *point_shape)
        The records.
    weights : array of shape (n,)
        The weight of each record.
    tolerance : float
        The length of the mean logarithm at which the search ends.

    Returns
    -------
    SPDBackend or GenericBackend
        `SPDBackend` for positive definite matrices with the affine-invariant metric,
        `GenericBackend` for all other spaces.
    """
    if isinstance(M, SPDAffineInvariant):
        return SPDBackend(X, weights, tolerance)
    points = X if isinstance(M, SPD) else np.asarray(M.project(X))
    return GenericBackend(M, points, weights, tolerance, _weighted_mean)


def _without_blas_threads(X: np.ndarray) -> AbstractContextManager[None]:
    """Return a context in which the linear algebra of NumPy uses one thread.

    Passes over many records run in threads of this library, which would compete with
    those of the BLAS. Passes over few records use no threads, and nothing is changed.

    Parameters
    ----------
    X : array
        The records.

    Returns
    -------
    context manager
        A context that does nothing if X has at most `FEW_NUMBERS` numbers.
    """
    return one_blas_thread() if X.size > FEW_NUMBERS else nullcontext()


def mean_of_array(ball: PublicBall, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the mean of NumPy records after clipping them into the ball.

    Private releases of a mean call this function, and add noise to the result.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.

    Returns
    -------
    x : array of shape point_shape
        A point of the ball within `solver_error` of their mean.
    mean_square : float
        The mean squared distance of the clipped records to it.
    """
    M = ball.manifold
    with numerical_silence(), _without_blas_threads(X):
        weights = np.full(len(X), 1 / len(X))
        tolerance = residual_tolerance(M, ball.radius)
        backend = _memory_backend(M, clip_records(ball, X), weights, tolerance)
        search = mean_in_ball(ball, backend, _PASSES)
        x, mean_square = run_search(search, backend.make_pass)
        return ball.clip(backend.point(x)), mean_square
