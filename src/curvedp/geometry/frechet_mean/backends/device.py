"""The Fréchet mean of an array where it lies, on any device and in any array library. A
device is, for example, an accelerator. Each pass over the records returns only sums of
dim + 1 numbers to the host, those of `chunks`.
"""

from collections.abc import Callable
from functools import reduce
from math import exp, log, sqrt
from operator import add

import numpy as np
from array_api_compat import device, is_jax_array, is_jax_namespace

from curvedp.geometry.ball import carry_records, project_to_ball
from curvedp.geometry.frechet_mean.backends.chunks import (
    Start,
    inside_sums,
    streamed_mean,
    tensor_sums,
)
from curvedp.geometry.frechet_mean.backends.spd_newton import SPDNewton, WhitenedEigen
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
from curvedp.numerics.arrays import detach, double_precision, namespace, to_host
from curvedp.numerics.autodiff import jitted
from curvedp.numerics.eigen import eigh
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.numerics.spd3 import (
    DOUBTFUL,
    InverseFactor,
    lower_entries,
    whitened_logs,
)

# How many records the device works on together: in general, if the `eigh` of the array
# library is called (which needs much memory), and for 3×3 matrices, for which a pass is
# one fused kernel.
_BLOCK = 1 << 20
_EIGH_BLOCK = 1 << 15
_TENSOR_BLOCK = 1 << 24

# How many 3×3 matrices the start is computed from.
_START_SAMPLE = 1 << 9

Pass = Callable[[np.ndarray], Array]
"""A function that maps a point to exact sums over a block of records, on the device."""


def device_mean(ball: PublicBall, X: Array) -> tuple[np.ndarray, float]:
    """Compute the mean of records on the device where they lie.

    Each record is clipped into the ball first. 3×3 matrices outside the ball are
    clipped on the host, once.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records, of any array library.

    Returns
    -------
    mean : array of shape point_shape
        The mean (NumPy).
    mean_square : float
        The mean squared distance of the records to it.
    """
    with double_precision(X), np.errstate(all="ignore"):
        X = detach(X)
        if _has_accurate_tensor_kernels(ball):
            start = _start_from_tensors(ball, X)
        else:
            start = Start(ball.center)
        passes = _block_passes(ball, X)

        def sums(x: np.ndarray) -> np.ndarray:
            """Make a pass over all blocks at x, and return the sums on the host."""
            # All blocks are started before the host waits for the result of any.
            return to_host(reduce(add, [make_pass(x) for make_pass in passes]))

        return streamed_mean(ball, X.shape[0], sums, start)


def _block_passes(ball: PublicBall, X: Array) -> list[Pass]:
    """Cut records into blocks on their device, and return the functions that sum them.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records, of any array library.

    Returns
    -------
    list of callables
        Each makes passes over a part of the records.
    """
    xp = namespace(X)
    passes: list[Pass] = []
    if _has_accurate_tensor_kernels(ball):
        for block in _split_records(X, _TENSOR_BLOCK):
            doubles = xp.astype(block, xp.float64, copy=False)
            passes.extend(_tensor_passes(ball, doubles))
    else:
        for block in _split_records(X, _records_per_block(ball.manifold)):
            doubles = xp.astype(block, xp.float64, copy=False)
            passes.append(_generic_pass(ball, doubles))
    return passes


def _records_per_block(M: Manifold) -> int:
    """Return how many records the device works on together.

    Parameters
    ----------
    M : Manifold
        The space. For matrices of more than 3 rows, whose logarithms take the library's
        `eigh`, blocks are smaller, because it needs more memory.

    Returns
    -------
    int
        The number of records in a block.
    """
    uses_eigh = len(M.point_shape) > 1 and max(M.point_shape) > 3
    return _EIGH_BLOCK if uses_eigh else _BLOCK


def _split_records(X: Array, block_size: int) -> list[Array]:
    """Cut an array of records into blocks of at most `block_size` records.

    Blocks bound the memory that intermediate results take.

    Parameters
    ----------
    X : array of shape (n, *point_shape)
        The records.
    block_size : int
        The largest number of records in a block.

    Returns
    -------
    list of arrays of shape (k, *point_shape)
        The blocks, in order.
    """
    n = X.shape[0]
    if n <= block_size:
        return [X]
    return [
        X[start : min(start + block_size, n), ...] for start in range(0, n, block_size)
    ]


def mean_of_device_array(ball: PublicBall, X: Array) -> tuple[np.ndarray, float]:
    """Compute the mean of records on their device, or on the host where that is safer.

    The host computes it from a copy if the kernels of the device are not accurate
    enough (`device_kernels_are_accurate`), and for a user's manifold whose kernels JAX
    cannot trace.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records, of any array library.

    Returns
    -------
    mean : array of shape point_shape
        The mean (NumPy).
    mean_square : float
        The mean squared distance of the records to it.
    """
    if device_kernels_are_accurate(ball, X):
        try:
            return device_mean(ball, X)
        except TypeError:  # JAX cannot trace a kernel; nothing was computed yet
            pass
    return mean_of_array(ball, np.asarray(to_host(X), dtype=np.float64))


def carry_on_device(M: Manifold, center: np.ndarray, X: Array) -> Array:
    """Move records by the isometry that takes the center to its canonical place.

    This is `carry_records` in double precision, on the device where the records lie.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The center of the public ball (NumPy).
    X : array of shape (n, *point_shape)
        The records, of any array library.

    Returns
    -------
    array of shape (n, *point_shape)
        The moved records; NaN for a record that has no nearest point.
    """
    with double_precision(X), np.errstate(all="ignore"):
        xp = namespace(X)
        return carry_records(M, center, xp.astype(X, xp.float64))


def device_kernels_are_accurate(ball: PublicBall, X: Array) -> bool:
    """Return whether the device's kernels err by little enough to compute the mean there.

    The answer is True except for SPD matrices with more than 3 rows in JAX. Their
    logarithms are computed in plain doubles, without the pairs of doubles that are used
    with NumPy (`spd_pencil`). The error is a few units of round-off times
    cond(p)·cond(A), where p is the point, A the record whitened by p and cond the
    condition number. Let r be the radius of the ball. Such records were moved so that
    the center of the ball is the identity (`carry_on_device`). So p is within r of the
    identity and A within 2r, and the product is at most e^{√2·r}·e^{√2·2r}. With m
    rows, the error is below 4·m·u·e^{3√2·r}, where u is the unit round-off.

    This error is accepted up to r·`KERNEL_ERROR`, which is what kernels are allowed
    anyway. Together they are at most twice the allowed error, for which `solver_error`
    has room.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records, of any array library.

    Returns
    -------
    bool
        Whether the mean may be computed on the device.
    """
    M = ball.manifold
    radius = ball.radius
    if not isinstance(M, SPDAffineInvariant) or M.m <= 3 or not is_jax_array(X):
        return True

    # The logarithm of the quotient of error and allowed error, for which e^{3√2·r} is
    # not computed: it may overflow.
    log_round_off = log(4 * M.m * 2.0**-52 / (radius * KERNEL_ERROR))
    log_condition = 3 * sqrt(2) * radius
    return log_round_off + log_condition <= 0


def _generic_pass(ball: PublicBall, X: Array) -> Pass:
    """Return a function that makes passes over a block of records of any space.

    The records are clipped into the ball here, once for all passes.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The block.

    Returns
    -------
    callable
        Maps an iterate to the block's sums (`chunks.inside_sums`), on the device.
    """
    M = ball.manifold
    inside = project_to_ball(M, _as_argument(X, ball.center), ball.radius, X)
    sum_kernel = inside_sums
    if is_jax_namespace(namespace(X)):
        sum_kernel = jitted(inside_sums)
    return lambda x: sum_kernel(M, ball.grid, _as_argument(X, x), inside)


def _has_accurate_tensor_kernels(ball: PublicBall) -> bool:
    """Return whether the closed formulas for 3×3 matrices are accurate in the ball.

    The formulas are accurate if cond(p)·cond(A) is at most `DOUBTFUL` (`numerics.spd3`)
    for every point p of the ball and every record A, whitened by p. Here cond is the
    condition number. Let r be the radius of the ball. The log-eigenvalues of a matrix at
    distance d from I differ by at most √2·d, so that cond(p) ≤ e^{√2·r}·cond(center)
    and cond(A) ≤ e^{√2·2r}.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.

    Returns
    -------
    bool
        False on other spaces than that of 3×3 matrices.
    """
    if not is_tensor_space(ball.manifold):
        return False
    largest_condition = (
        exp(3 * sqrt(2) * ball.radius) * InverseFactor.of(ball.center).condition
    )
    return largest_condition <= 0.99 * DOUBTFUL  # one percent of room for round-off


def _tensor_passes(ball: PublicBall, X: Array) -> list[Pass]:
    """Return functions that make passes over a block of 3×3 matrices.

    The first function is for the matrices that are surely inside the ball. If there are
    other matrices, the host clips them, and a second function is for the results.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, 3, 3)
        The block.

    Returns
    -------
    list of callables
        Each maps an iterate to sums (`chunks.tensor_sums`), on the device.
    """
    xp = namespace(X)
    find_inside = jitted(_find_inside) if is_jax_namespace(xp) else _find_inside
    center = InverseFactor.of(ball.center)
    center_inverse = _as_argument(X, np.asarray(center.inverse))
    is_inside = find_inside(center_inverse, center.condition, ball.radius, X)

    passes = [_tensor_pass(ball, X, is_inside)]
    if not bool(xp.all(is_inside)):
        clipped = project_to_ball(*ball, to_host(X[~is_inside]))
        clipped_block = xp.asarray(clipped, device=device(X))
        all_true = xp.isfinite(clipped_block[:, 0, 0])
        passes.append(_tensor_pass(ball, clipped_block, all_true))
    return passes


def _tensor_pass(ball: PublicBall, X: Array, is_summed: Array) -> Pass:
    """Return a function that makes passes over some 3×3 matrices of a block.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, 3, 3)
        Matrices.
    is_summed : array of bool, shape (n,)
        True for the matrices that enter the sums.

    Returns
    -------
    callable
        Maps an iterate x to the sums over these matrices.
    """
    is_jax = is_jax_namespace(namespace(X))
    sum_kernel = jitted(_sum_tensors) if is_jax else _sum_tensors

    def make_pass(x: np.ndarray) -> Array:
        """Return the sums at x, by the closed formula for 3×3 matrices."""
        inverse = _as_argument(X, np.asarray(InverseFactor.of(x).inverse))
        return sum_kernel(ball.grid, inverse, X, is_summed)

    return make_pass


def _start_from_tensors(ball: PublicBall, X: Array) -> Start:
    """Return a start for the search for a mean of 3×3 positive definite matrices.

    The mean of the first few hundred records is computed on the host, together with the
    inverse Hessian of their cost ½·mean d² there, with which the search takes its
    Newton steps. So the search needs few passes over all records. A bad start would
    need more passes, but would not change the mean.

    Parameters
    ----------
    ball : PublicBall
        The public ball, into which each record is clipped.
    X : array of shape (n, 3, 3)
        The records, on any device.

    Returns
    -------
    Start
        The mean of the sample, and the inverse Hessian as a 6×6 matrix.
    """
    first_records = X[: min(_START_SAMPLE, X.shape[0]), ...]
    sample = clip_records(ball, np.asarray(to_host(first_records), dtype=np.float64))
    mean = frechet_mean(ball.manifold, sample)

    # Whitening, X ↦ L⁻¹XL⁻ᵀ with mean = LLᵀ, moves the mean to the identity. There the
    # Hessian is a function of the eigenvalues and eigenvectors of the records.
    inverse_factor = np.linalg.inv(np.linalg.cholesky(mean))
    weights = np.full(len(sample), 1 / len(sample))
    whitened = inverse_factor @ sample @ inverse_factor.T
    eigensystems = WhitenedEigen(*eigh(whitened), weights)
    inverse_hessian = SPDNewton([eigensystems]).inverse  # 9×9, on all entries

    # A symmetric 3×3 matrix has six coordinates. Row j of the basis contains the nine
    # entries of the matrix whose coordinate j is 1, and whose others are 0.
    basis = unpack(np.eye(6), 3).reshape(6, 9)
    return Start(mean, basis @ inverse_hessian @ basis.T)


def _find_inside(inverse: Array, condition: float, radius: float, X: Array) -> Array:
    """Return which 3×3 matrices are surely inside a ball, in code that JAX can compile.

    Parameters
    ----------
    inverse : array of shape (6,)
        The inverse Cholesky factor of the ball's center: its lower triangle.
    condition : float
        The condition number of the center.
    radius : float
        The radius of the ball.
    X : array of shape (n, 3, 3)
        The matrices.

    Returns
    -------
    array of bool, shape (n,)
        False for a matrix that may lie outside.
    """
    return is_surely_inside(
        InverseFactor(inverse, condition), radius, *lower_entries(X)
    )


def _sum_tensors(grid: FixedPoint, inverse: Array, X: Array, is_summed: Array) -> Array:
    """Sum logarithms over some 3×3 matrices, in code that JAX can compile.

    A pass over records on a device calls it for each block.

    Parameters
    ----------
    grid : FixedPoint
        The grid on which sums are exact.
    inverse : array of shape (6,)
        The inverse Cholesky factor of the iterate: its lower triangle.
    X : array of shape (n, 3, 3)
        The matrices.
    is_summed : array of bool, shape (n,)
        True for the matrices that enter the sums.

    Returns
    -------
    array of int64, shape (2, 7)
        The sums, in the form of `chunks.tensor_sums`.
    """
    # The condition number of the factor is used to test accuracy, which was tested for
    # the whole ball (`_has_accurate_tensor_kernels`). So it is set to 1.
    factor = InverseFactor(inverse, 1.0)
    entries, _ = lower_entries(X)
    return tensor_sums(grid, whitened_logs(factor, entries), is_summed)


def _as_argument(X: Array, x: np.ndarray) -> Array:
    """Return a NumPy array as an argument for a kernel that also takes X.

    Code that JAX has compiled takes a NumPy array as it is. Converting it to an array
    of JAX would take a millisecond, so this is not done.

    Parameters
    ----------
    X : array of shape (n, *point_shape)
        The records, of any array library.
    x : array
        The other argument, such as an iterate.

    Returns
    -------
    array
        x as an array of X's library on X's device, in double precision.
    """
    xp = namespace(X)
    if is_jax_namespace(xp):
        return x
    return xp.asarray(x, dtype=xp.float64, device=device(X))
