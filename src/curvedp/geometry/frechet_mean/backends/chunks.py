"""The Fréchet mean of records that are seen only through sums over them.

The records are chunks on a cluster or arrays on a device. Each pass sends out an
iterate x and brings back two sums over the records: the coordinates of log_x xᵢ and the
squares of d(x, xᵢ). Both are added in fixed point, so that a pass, and with it the
mean, is the same to the last bit for every way of cutting the records into chunks and
for every order in which the chunks come in.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from curvedp._silence import numerical_silence
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.frechet_mean.ball_mean import mean_in_ball, project_to_safe_ball
from curvedp.geometry.frechet_mean.public_ball import (
    PublicBall,
    is_surely_inside,
    is_tensor_space,
)
from curvedp.geometry.frechet_mean.solver import (
    MeanBackend,
    NewtonStep,
    PassResult,
    run_search,
    search_mean,
)
from curvedp.geometry.manifold import Array, Manifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_common import pack
from curvedp.numerics.arrays import namespace
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.numerics.spd3 import Factor, Logs, lower_entries, whitened_logs
from curvedp.numerics.spd_pencil import log_spectrum

_PASSES = 20  # of the search, before the fixed-step descent takes over
_BLOCK = 1 << 13  # records whose logarithms are in memory at once

# How the start is computed from a sample of the records: its mean is searched for up to
# this residual, and up to this dimension the Hessian there is found by differences with
# this step. Differences use so many records that a pass over them, for all dimensions
# together, goes through about `_HESSIAN_NUMBERS` numbers, but never fewer records than
# `_LEAST_HESSIAN_RECORDS`.
_SAMPLE_TOLERANCE = 1e-6
_LARGEST_DENSE_DIM = 32
_DIFFERENCE_STEP = 1e-4
_HESSIAN_NUMBERS = 1 << 18
_LEAST_HESSIAN_RECORDS = 128

MeanAndSquare = tuple[np.ndarray, float]
"""A mean, and the mean squared distance of the records to it."""

Sums = Callable[[np.ndarray], Any]
"""Maps an iterate x to exact sums over all records, as `block_sums` gives them."""

GroupSums = Callable[[dict[int, np.ndarray]], Iterable[Any]]
"""The same for several groups of records, each with its own iterate."""


class Start(NamedTuple):
    """Where a search for a mean begins, and the matrix of its Newton steps.

    Attributes
    ----------
    x : array of shape point_shape
        The first iterate.
    inverse : array of shape (dim, dim), or 1
        The inverse Hessian of the cost ½·mean d² at x, in coordinates. It is the number
        1 where none is known: Newton's step is then the mean logarithm itself.
    """

    x: np.ndarray
    inverse: np.ndarray | float


def block_sums(ball: PublicBall, x: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return exact sums of logarithms and squared distances over a block of records.

    Each record is clipped into the ball first. Sums of several blocks may be added up.
    They are the same to the last bit however the records are cut into blocks, because
    a record's terms depend on it alone and are added as integers. Most 3×3 matrices
    that lie inside the ball take a faster way; `_fast_tensor_sums` adds them up.

    Parameters
    ----------
    ball : PublicBall
        The manifold and the ball, of radius r.
    x : array of shape point_shape
        The point at which logarithms are taken.
    X : array of shape (k, *point_shape)
        The records (NumPy).

    Returns
    -------
    array of int64, shape (2, dim + 1)
        High and low halves of the sums on the ball's fixed-point grid (`FixedPoint`):
        the coordinates of log_x xᵢ first, and d²(x, xᵢ)/2r as the last entry. Divided
        by 2r, squared distances have the same bound 2r as the coordinates.
    """
    M = ball.manifold
    X = np.asarray(X, dtype=np.float64, order="C")  # float sums depend on the layout
    total = np.zeros((2, M.dim + 1), dtype=np.int64)
    with numerical_silence():
        if is_tensor_space(M):
            total, X = _fast_tensor_sums(ball, x, X)
        for start in range(0, len(X), _BLOCK):
            clipped = project_to_ball(*ball, X[start : start + _BLOCK])
            total += inside_sums(M, ball.grid, x, clipped)
    return total


def _fast_tensor_sums(
    ball: PublicBall, x: np.ndarray, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum logarithms over the 3×3 matrices that need neither clipping nor much care.

    These are the matrices that are surely inside the ball, and whose logarithms are
    accurate by the closed formula of `numerics.spd3`.

    Parameters
    ----------
    ball : PublicBall
        The public ball, on the space of 3×3 SPD matrices.
    x : array of shape (3, 3)
        The point at which logarithms are taken.
    X : array of shape (k, 3, 3)
        The records.

    Returns
    -------
    total : array of int64, shape (2, 7)
        The sums over these matrices, in the form of `block_sums`.
    remaining : array of shape (l, 3, 3)
        The records that are not among them.
    """
    center_factor, factor = Factor.of(ball.center), Factor.of(x)
    total = np.zeros((2, ball.manifold.dim + 1), dtype=np.int64)
    remaining = [X[:0]]
    for start in range(0, len(X), _BLOCK):
        block = X[start : start + _BLOCK]
        entries, skewness = lower_entries(block)
        logs = whitened_logs(factor, entries)
        is_inside = is_surely_inside(center_factor, ball.radius, entries, skewness)
        is_summed = is_inside & logs.is_accurate
        total += tensor_sums(ball.grid, logs, is_summed)
        remaining.append(block[~is_summed])
    return total, np.concatenate(remaining)


def inside_sums(M: Manifold, grid: FixedPoint, x: Array, X: Array) -> Array:
    """Sum logarithms and squared distances over records that are inside the ball.

    This is `block_sums` for records that were clipped before, on every array library.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    grid : FixedPoint
        The grid on which sums are exact; its bound 2r is the ball's diameter.
    x : array of shape point_shape
        The point at which logarithms are taken.
    X : array of shape (n, *point_shape)
        The records.

    Returns
    -------
    array of int64, shape (2, dim + 1)
        High and low halves of the sums: the coordinates of log_x xᵢ first, and
        d²(x, xᵢ)/2r as the last entry.
    """
    xp = namespace(X)
    if isinstance(M, SPDAffineInvariant):
        # log(L⁻¹XL⁻ᵀ), x = LLᵀ, without going through log_x X
        _, logs, U = log_spectrum(x, X)
        Z = pack((U * logs[..., None, :]) @ U.mT)
    else:
        Z = M.to_coordinates(x, M.log(x, X))
    squared_distance = xp.sum(Z * Z, axis=-1)
    # NaN fails; everything else passes unless a kernel broke down.
    is_usable = squared_distance <= grid.bound**2
    terms = xp.concat([Z, (squared_distance / grid.bound)[:, None]], axis=-1)
    return grid.sums(xp.where(is_usable[:, None], terms, 0.0))


def tensor_sums(grid: FixedPoint, logs: Logs, is_summed: Array) -> Array:
    """Sum logarithms of 3×3 matrices, and their squared lengths, over some matrices.

    The sums are made coordinate by coordinate. A compiler makes one kernel of this
    code, which writes no array as long as the records.

    Parameters
    ----------
    grid : FixedPoint
        The grid on which sums are exact; its bound is the ball's diameter 2r.
    logs : Logs
        The logarithms of n matrices, by coordinate.
    is_summed : array of bool, shape (n,)
        Which matrices enter the sums.

    Returns
    -------
    array of int64, shape (2, 7)
        High and low halves of the sums: six coordinates, and the squared length over
        2r.
    """
    xp = namespace(is_summed)
    rows = [*logs.coordinates, logs.squared_length / grid.bound]
    return xp.stack([grid.sums(xp.where(is_summed, row, 0.0)) for row in rows], axis=1)


class _SumsBackend(MeanBackend):
    """Backend of a search that knows the records only through sums over them.

    Iterates stay in the public ball, which contains the mean.
    """

    def __init__(self, ball: PublicBall, start: Start) -> None:
        """Begin in the ball: the start is clipped into it.

        Parameters
        ----------
        ball : PublicBall
            The public ball of the records.
        start : Start
            The first iterate, and the inverse Hessian of the cost there.
        """
        self._ball = ball
        self._inverse_hessian = np.asarray(start.inverse)
        self.start = ball.clip(start.x)

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the point that a step from x leads to, clipped into the public ball.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate.
        step : array of shape (dim,)
            A tangent vector at x, in coordinates.

        Returns
        -------
        array of shape point_shape
            A point of the ball that floats represent well.
        """
        M = self._ball.manifold
        moved = np.asarray(M.from_normal_coordinates(x, step))
        safe_point = project_to_safe_ball(self._ball, moved)
        # On one Hadamard manifold the projection clips to the ball; elsewhere not.
        is_in_ball = len(M.factors) == 1 and M.convexity_radius == inf
        return safe_point if is_in_ball else self._ball.clip(safe_point)

    def newton(self, x: np.ndarray, convergence: float) -> NewtonStep | None:
        """Return Newton's method with the inverse Hessian that came with the start.

        There is no other Hessian, so the same one serves for every iterate.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate; not used.
        convergence : float
            Fraction of the residual that the last step left; inf where there was none.

        Returns
        -------
        callable or None
            Maps the mean logarithm to its product with the inverse Hessian. None,
            which means that the search goes on with the method in use, unless
            `convergence` is inf.
        """
        if convergence != inf:
            return None
        inverse = self._inverse_hessian

        def newton_step(mean_log: np.ndarray) -> np.ndarray:
            """Return the inverse Hessian times the mean logarithm."""
            if inverse.ndim == 0:  # the number 1: no Hessian is known
                return np.asarray(inverse * mean_log)
            return np.asarray(inverse @ mean_log)

        return newton_step

    def result_from_sums(self, n: int, sums: Any) -> PassResult:
        """Return the means over n records that their sums give.

        Parameters
        ----------
        n : int
            The number of records.
        sums : array of int64, shape (2, dim + 1)
            What `block_sums` returns, added up over all blocks.

        Returns
        -------
        PassResult
            The mean logarithm and the mean squared distance.
        """
        mean = self._ball.grid.mean(sums, n)
        return PassResult(mean[:-1], float(mean[-1]) * self._ball.grid.bound)


def streamed_mean(ball: PublicBall, n: int, sums: Sums, start: Start) -> MeanAndSquare:
    """Return the Fréchet mean of records that are seen only through sums over them.

    Parameters
    ----------
    ball : PublicBall
        The manifold and the ball.
    n : int
        The number of records.
    sums : callable
        Makes one pass over the records: maps an iterate to what `block_sums` returns at
        it, added up over all blocks.
    start : Start
        Where the search begins.

    Returns
    -------
    mean : array of shape point_shape
        The mean.
    mean_square : float
        The mean squared distance of the records to it.
    """
    return streamed_means(ball, [n], lambda points: [sums(points[0])], [start])[0]


def streamed_means(
    ball: PublicBall, sizes: Sequence[int], sums: GroupSums, starts: Sequence[Start]
) -> list[MeanAndSquare]:
    """Return the Fréchet means of several groups of records, searched side by side.

    One pass over the data serves all groups whose search has not ended.

    Parameters
    ----------
    ball : PublicBall
        The manifold and the ball.
    sizes : sequence of int
        The number of records of each group.
    sums : callable
        Makes one pass for all groups that are not done yet: takes a dictionary from the
        number of a group to its iterate, and returns for each group, in the same order,
        what `block_sums` returns, added up over its records.
    starts : sequence of Start
        Where the search of each group begins.

    Returns
    -------
    list of (array, float)
        For each group its mean, and the mean squared distance of its records to it.
    """
    backends = [_SumsBackend(ball, start) for start in starts]
    searches = [mean_in_ball(ball, backend, _PASSES) for backend in backends]
    # The first request of a search names its first iterate.
    iterates = {group: next(search).x for group, search in enumerate(searches)}
    means: dict[int, MeanAndSquare] = {}
    while iterates:
        for group, group_sums in zip(list(iterates), sums(iterates), strict=True):
            result = backends[group].result_from_sums(sizes[group], group_sums)
            try:
                iterates[group] = searches[group].send(result).x
            except StopIteration as finished:
                means[group] = finished.value
                del iterates[group]
    return [means[group] for group in range(len(searches))]


def start_from_sample(ball: PublicBall, X: np.ndarray) -> Start:
    """Return a start for the search of a mean, computed from a sample of the records.

    The start decides how many passes are needed, and nothing else.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The sample.

    Returns
    -------
    Start
        The mean of the sample, with the inverse Hessian of its cost there where the
        dimension is small.
    """
    M = ball.manifold
    backend = _SumsBackend(ball, Start(ball.center, 1.0))

    def pass_over(x: np.ndarray, records: np.ndarray) -> PassResult:
        """Return the mean logarithm and the mean squared distance at x."""
        sums = block_sums(ball, x, records)
        return backend.result_from_sums(len(records), sums)

    search = search_mean(backend, _SAMPLE_TOLERANCE, _PASSES)
    x = run_search(search, lambda request: pass_over(request.x, X))[0]
    if M.dim > _LARGEST_DENSE_DIM or M.curvature_bounds == (0.0, 0.0):
        return Start(x, 1.0)

    # The Hessian by differences: minus the change of the mean logarithm per unit step.
    n_used = max(_LEAST_HESSIAN_RECORDS, _HESSIAN_NUMBERS // (M.dim * X[0].size))
    used_records = X[:n_used]
    mean_logs_after_step = []
    for step in _DIFFERENCE_STEP * np.eye(M.dim):
        moved = np.asarray(M.from_normal_coordinates(x, step))
        mean_logs_after_step.append(pass_over(moved, used_records).mean_log)
    decrease = pass_over(x, used_records).mean_log - np.stack(mean_logs_after_step)
    hessian = decrease.T / _DIFFERENCE_STEP
    try:
        inverse = np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        return Start(x, 1.0)
    return Start(x, inverse) if np.all(np.isfinite(inverse)) else Start(x, 1.0)
