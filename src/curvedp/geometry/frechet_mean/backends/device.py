"""The Fréchet mean of an array where it lies, on any device and in any array library.

Passes are those of `chunks`: what comes back to the host are sums of dim + 1 numbers.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from math import exp, log, sqrt
from operator import add
from typing import Any

import numpy as np
from array_api_compat import device, is_jax_array, is_jax_namespace

from curvedp.geometry.ball import carry_records, project_to_ball
from curvedp.geometry.frechet_mean.backends.chunks import (
    Start,
    inside_sums,
    streamed_mean,
    tensor_sums,
)
from curvedp.geometry.frechet_mean.backends.spd import SPDNewton, WhitenedEigen
from curvedp.geometry.frechet_mean.error_bound import KERNEL_ERROR
from curvedp.geometry.frechet_mean.mean import frechet_mean, mean_of_array
from curvedp.geometry.frechet_mean.public_ball import (
    PublicBall,
    clip_records,
    is_surely_inside,
    is_tensor_space,
)
from curvedp.geometry.manifold import Array, Manifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_common import unpack
from curvedp.numerics.arrays import detach, namespace, to_host
from curvedp.numerics.autodiff import jitted
from curvedp.numerics.eigen import eigh
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.numerics.spd3 import (
    DOUBTFUL,
    Factor,
    lower_entries,
    whitened_logs,
)

# Records in a block: in general; where the library's own `eigh`, which needs much
# memory, is called; and 3×3 matrices, one fused kernel a pass.
_BLOCK = 1 << 20
_EIGH_BLOCK = 1 << 15
_TENSOR_BLOCK = 1 << 24

# 3×3 matrices that the start is computed from.
_START_SAMPLE = 1 << 9

Pass = Callable[[np.ndarray], Array]
"""Maps an iterate to exact sums over a block of records, on the device."""


def device_mean(ball: PublicBall, X: Array) -> tuple[np.ndarray, float]:
    """Return the mean of an array of any library, computed where it lies.

    3×3 matrices that must be moved into the ball are moved on the host, once.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.

    Returns
    -------
    x : array
        The mean (NumPy).
    square : float
        The mean squared distance of the records to it.
    """
    with _double_precision(X), np.errstate(all="ignore"):
        xp = namespace(X)
        X = detach(X)
        n = X.shape[0]
        passes: list[Pass] = []
        if _has_accurate_tensor_kernels(ball):
            start = _start_from_tensors(ball, X)
            for block in _split_rows(X, _TENSOR_BLOCK):
                doubles = xp.astype(block, xp.float64, copy=False)
                passes.extend(_tensor_passes(ball, doubles))
        else:
            start = Start(ball.center, 1.0)
            for block in _split_rows(X, _rows_per_block(ball.manifold)):
                doubles = xp.astype(block, xp.float64, copy=False)
                passes.append(_generic_pass(ball, doubles))

        def sums(x: np.ndarray) -> np.ndarray:
            # The device is asked for all of a pass before the host waits for any of it.
            return to_host(reduce(add, [make_pass(x) for make_pass in passes]))

        return streamed_mean(ball, n, sums, start)


def _rows_per_block(M: Manifold) -> int:
    """Return how many records a block has; fewer where `eigh` of the library runs."""
    uses_eigh = len(M.point_shape) > 1 and max(M.point_shape) > 3
    return _EIGH_BLOCK if uses_eigh else _BLOCK


def _split_rows(X: Array, n_rows: int) -> list[Array]:
    """Return X cut into blocks of at most n_rows rows."""
    n = X.shape[0]
    if n <= n_rows:
        return [X]
    return [X[start : min(start + n_rows, n), ...] for start in range(0, n, n_rows)]


def mean_of_device_array(ball: PublicBall, X: Array) -> tuple[np.ndarray, float]:
    """Return the mean by `device_mean` where its kernels are accurate enough.

    Otherwise, and for a user's kernels that JAX cannot trace, it is the mean of a copy
    on the host.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    """
    if is_accurate(ball, X):
        try:
            return device_mean(ball, X)
        except TypeError:  # raised on tracing, before anything is computed
            pass
    return mean_of_array(ball, np.asarray(to_host(X), dtype=np.float64))


def carry_on_device(M: Manifold, center: np.ndarray, X: Array) -> Array:
    """Return `carry_records` in double precision, where the array lies."""
    with _double_precision(X), np.errstate(all="ignore"):
        xp = namespace(X)
        return carry_records(M, center, xp.astype(X, xp.float64))


def is_accurate(ball: PublicBall, X: Array) -> bool:
    """Return whether the device's kernels are within twice the contract's error.

    Under JAX, SPD matrices beyond 3×3 have the plain path's error (`spd_pencil`): a few
    units of round-off times cond(p)·cond(A), which the ball bounds by e^{3√2·r}.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    """
    M, _, r = ball
    has_plain_path = isinstance(M, SPDAffineInvariant) and M.m > 3 and is_jax_array(X)
    if not has_plain_path:
        return True
    assert isinstance(M, SPDAffineInvariant)
    log_error = log(4 * M.m * 2.0**-52 / (r * KERNEL_ERROR))
    return log_error + 3 * sqrt(2) * r <= 0


def _generic_pass(ball: PublicBall, X: Array) -> Pass:
    """Return the pass over a block of records, clipped into the ball once."""
    M = ball.manifold
    inside = project_to_ball(M, _as_argument(X, ball.center), ball.radius, X)
    kernel = jitted(inside_sums) if is_jax_namespace(namespace(X)) else inside_sums
    return lambda x: kernel(M, ball.grid, _as_argument(X, x), inside)


def _has_accurate_tensor_kernels(ball: PublicBall) -> bool:
    """Return whether `spd3` is accurate for all pairs of matrices of the ball.

    Log-eigenvalues of a matrix at distance d from I span at most √2·d, and so
    cond(p) ≤ e^{√2·r}·cond(center) and cond(A) ≤ e^{√2·2r}.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    """
    if not is_tensor_space(ball.manifold):
        return False
    largest = exp(3 * sqrt(2) * ball.radius) * Factor.of(ball.center).condition
    return largest <= 0.99 * DOUBTFUL


def _tensor_passes(ball: PublicBall, X: Array) -> list[Pass]:
    """Return passes over 3×3 matrices.

    One over those that the ball leaves as they are, and one over the others, if there
    are any, after the host has moved them.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    """
    xp = namespace(X)
    center = Factor.of(ball.center)
    find_inside = _find_inside
    sum_kernel = _sum_tensors
    if is_jax_namespace(xp):
        find_inside = jitted(_find_inside)
        sum_kernel = jitted(_sum_tensors)
    center_inverse = _as_argument(X, np.asarray(center.inverse))
    inside = find_inside(center_inverse, center.condition, ball.radius, X)

    def pass_over(block: Array, counted: Array) -> Pass:
        """Return the pass over a block of matrices, of those that are counted."""

        def make_pass(x: np.ndarray) -> Array:
            inverse = _as_argument(X, np.asarray(Factor.of(x).inverse))
            return sum_kernel(ball.grid, inverse, block, counted)

        return make_pass

    passes = [pass_over(X, inside)]
    if not bool(xp.all(inside)):
        moved = project_to_ball(*ball, to_host(X[~inside]))
        block = xp.asarray(moved, device=device(X))
        all_of_them = xp.isfinite(block[:, 0, 0])
        passes.append(pass_over(block, all_of_them))
    return passes


def _start_from_tensors(ball: PublicBall, X: Array) -> Start:
    """Return the mean of the first few 3×3 matrices, with their inverse Hessian there.

    It decides how many passes are needed, and nothing else.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    """
    first = X[: min(_START_SAMPLE, X.shape[0]), ...]
    sample = clip_records(ball, np.asarray(to_host(first), dtype=np.float64))
    x = frechet_mean(ball.manifold, sample)
    inverse = np.linalg.inv(np.linalg.cholesky(x))
    weights = np.full(len(sample), 1 / len(sample))
    eigen = WhitenedEigen(*eigh(inverse @ sample @ inverse.T), weights)
    basis = unpack(np.eye(6), 3).reshape(6, 9)
    return Start(x, basis @ SPDNewton([eigen]).inverse @ basis.T)


def _find_inside(inverse: Array, condition: float, radius: float, X: Array) -> Array:
    """Return which 3×3 matrices are surely inside the ball (a kernel for JAX)."""
    return is_surely_inside(Factor(inverse, condition), radius, *lower_entries(X))


def _sum_tensors(grid: FixedPoint, inverse: Array, X: Array, counted: Array) -> Array:
    """Return the sums over 3×3 matrices that are counted (a kernel for JAX)."""
    logs = whitened_logs(Factor(inverse, 1.0), lower_entries(X)[0])
    return tensor_sums(grid, logs, counted)


def _as_argument(X: Array, x: np.ndarray) -> Array:
    """Return x as an argument for a kernel beside X.

    What JAX compiles takes a NumPy array as it is: an array of its own would cost a
    millisecond to make.

    Parameters
    ----------
    X : array of shape (n, *point_shape)
        The records.
    x : array of shape point_shape
        The iterate.
    """
    xp = namespace(X)
    if is_jax_namespace(xp):
        return x
    return xp.asarray(x, dtype=xp.float64, device=device(X))


def _double_precision(X: Array) -> AbstractContextManager[Any]:
    """Return a context in which JAX, if X is its array, has double precision.

    Parameters
    ----------
    X : array of shape (n, *point_shape)
        The records.
    """
    if not is_jax_array(X):
        return nullcontext()
    import jax

    context: AbstractContextManager[Any] = jax.enable_x64(True)
    return context
