"""The Fréchet mean of records that are seen only through sums over them. The records
are chunks on a cluster or arrays on a device. Each pass sends out a point x and brings
back two sums over the records: the coordinates of log_x xᵢ and the squares of d(x, xᵢ).
Both are added in fixed point (`FixedPoint`, exact integer sums on a grid), so that the
mean is the same to the last bit, however the records are cut into chunks and in
whatever order the chunks come in.
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
from curvedp.numerics.matrix_functions import from_spectrum
from curvedp.numerics.spd3 import (
    InverseFactor,
    WhitenedLogs,
    lower_entries,
    whitened_logs,
)
from curvedp.numerics.spd_pencil import log_spectrum

# How many passes a search may make before a fixed number of gradient steps is made
# instead. A pass may be a pass over a cluster.
_PASSES = 20

# How many records have their logarithms in memory at once.
_BLOCK = 1 << 13

# The start is the mean of a sample of the records, computed to this residual.
_SAMPLE_TOLERANCE = 1e-6

# Up to the dimension `_LARGEST_DENSE_DIM` the Hessian at the start is computed, by
# differences of mean logarithms for steps of the length `_DIFFERENCE_STEP`.
_LARGEST_DENSE_DIM = 32
_DIFFERENCE_STEP = 1e-4

# The number of records from which the differences are computed, with one pass for each
# dimension. All passes together read about `_HESSIAN_NUMBERS` numbers, but at least
# `_LEAST_HESSIAN_RECORDS` records are used.
_HESSIAN_NUMBERS = 1 << 18
_LEAST_HESSIAN_RECORDS = 128

MeanAndSquare = tuple[np.ndarray, float]
"""A mean, and the mean squared distance of the records to it."""

Sums = Callable[[np.ndarray], Any]
"""A function that maps a point x to exact sums over all records (`block_sums`)."""

GroupSums = Callable[[dict[int, np.ndarray]], Iterable[Any]]
"""A function that maps the points x of several groups of records, by the number of the
group, to the exact sums over the records of each group (`block_sums`)."""


class Start(NamedTuple):
    """The point where a search for a mean begins, and the matrix of its Newton steps.

    Attributes
    ----------
    x : array of shape point_shape
        The first iterate.
    inverse_hessian : array of shape (dim, dim), or None
        The inverse Hessian of the cost ½·mean d² at x, in coordinates. None if it is
        not known: then a step is the mean logarithm itself.
    """

    x: np.ndarray
    inverse_hessian: np.ndarray | None = None


def block_sums(ball: PublicBall, x: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return exact sums of logarithms and squared distances over a block of records.

    Each record is clipped into the ball first. The sums of several blocks can be added.
    The total is the same to the last bit however the records are cut into blocks: the
    terms of a record depend on that record alone, and are added as integers. For 3×3
    positive definite matrices inside the ball `_fast_tensor_sums` is faster.

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
        # The fast sums of 3×3 matrices leave the other records in X.
        if is_tensor_space(M):
            total, X = _fast_tensor_sums(ball, x, X)
        for start in range(0, len(X), _BLOCK):
            clipped = project_to_ball(*ball, X[start : start + _BLOCK])
            total += inside_sums(M, ball.grid, x, clipped)
    return total


def _fast_tensor_sums(
    ball: PublicBall, x: np.ndarray, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum logarithms over the 3×3 matrices for which the closed formula is accurate.

    These are the matrices that are surely inside the ball, so that they need no
    clipping, and whose logarithms by the formula of `numerics.spd3` are accurate. The
    other matrices are returned.

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
        All other records.
    """
    center_factor = InverseFactor.of(ball.center)
    factor = InverseFactor.of(x)
    total = np.zeros((2, ball.manifold.dim + 1), dtype=np.int64)
    remaining = [X[:0]]  # so that there is an array also without records
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
        The manifold of the points.
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
        # The coordinates of log(L⁻¹XL⁻ᵀ) with x = LLᵀ. The tangent matrix log_x X is not
        # needed.
        _, logs, U = log_spectrum(x, X)
        Z = pack(from_spectrum(logs, U))
    else:
        Z = M.to_coordinates(x, M.log(x, X))
    squared_distance = xp.sum(Z * Z, axis=-1)

    # Records of the ball are at most 2r from each other. Only a record whose kernel
    # failed (NaN, or a distance beyond 2r) is left out.
    is_usable = squared_distance <= grid.bound**2
    terms = xp.concat([Z, (squared_distance / grid.bound)[:, None]], axis=-1)
    return grid.sums(xp.where(is_usable[:, None], terms, 0.0))


def tensor_sums(grid: FixedPoint, logs: WhitenedLogs, is_summed: Array) -> Array:
    """Sum logarithms of 3×3 matrices, and their squared lengths, over some matrices.

    The sums are computed coordinate by coordinate. JAX compiles this code into one
    kernel, which writes no array with as many entries as there are records.

    Parameters
    ----------
    grid : FixedPoint
        The grid on which sums are exact; its bound is the ball's diameter 2r.
    logs : WhitenedLogs
        The logarithms of n matrices, by coordinate.
    is_summed : array of bool, shape (n,)
        True for the matrices that enter the sums.

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

    All points of the search are in the public ball, which contains the mean: only there
    are logarithms at most 2r long, so that the fixed-point sums cannot overflow.
    """

    def __init__(self, ball: PublicBall, start: Start) -> None:
        """Store the ball and the start, which is clipped into the ball.

        Parameters
        ----------
        ball : PublicBall
            The public ball of the records.
        start : Start
            The first iterate, and the inverse Hessian of the cost there.
        """
        self._ball = ball
        self._inverse_hessian = start.inverse_hessian
        self.first_iterate = ball.clip(start.x)

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the point that a step from x leads to, clipped into the public ball.

        A search for the mean takes its steps by this method.

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

        # On a Hadamard manifold that is no product this projection also clips to the
        # ball. On other spaces it need not.
        is_in_ball = len(M.factors) == 1 and M.convexity_radius == inf
        return safe_point if is_in_ball else self._ball.clip(safe_point)

    def newton(self, x: np.ndarray, convergence: float) -> NewtonStep | None:
        """Return Newton's method with the inverse Hessian that came with the start.

        There is no other Hessian, so the same one is used at every iterate.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate; not used.
        convergence : float
            The fraction of the residual that the last step left. If there was no last
            step it is inf.

        Returns
        -------
        callable or None
            If `convergence` is inf, a function that multiplies the mean logarithm by
            the inverse Hessian, if that is known. Otherwise None: the search keeps the
            method in use.
        """
        if convergence != inf:
            return None
        inverse_hessian = self._inverse_hessian

        def newton_step(mean_log: np.ndarray) -> np.ndarray:
            """Return the inverse Hessian, if it is known, times the mean logarithm."""
            if inverse_hessian is None:
                return mean_log
            return np.asarray(inverse_hessian @ mean_log)

        return newton_step

    def result_from_sums(self, n: int, sums: Any) -> PassResult:
        """Return the mean logarithm and the mean squared distance from sums over records.

        Parameters
        ----------
        n : int
            The number of records.
        sums : array of int64, shape (2, dim + 1)
            The result of `block_sums`, added up over all blocks.

        Returns
        -------
        PassResult
            The mean logarithm and the mean squared distance.
        """
        mean = self._ball.grid.mean(sums, n)
        return PassResult(mean[:-1], float(mean[-1]) * self._ball.grid.bound)


def streamed_mean(ball: PublicBall, n: int, sums: Sums, start: Start) -> MeanAndSquare:
    """Return the Fréchet mean of records that are seen only through sums over them.

    The search asks for the sums at one point after another, and so never needs a record
    itself.

    Parameters
    ----------
    ball : PublicBall
        The manifold and the ball.
    n : int
        The number of records.
    sums : callable
        Makes one pass over the records: maps a point to the total of `block_sums` over
        all blocks at this point.
    start : Start
        The iterate at which the search begins.

    Returns
    -------
    mean : array of shape point_shape
        The mean.
    mean_square : float
        The mean squared distance of the records to it.
    """

    def sums_of_the_group(points: dict[int, np.ndarray]) -> list[Any]:
        """Make one pass for the only group, which has the number 0."""
        return [sums(points[0])]

    (mean_and_square,) = streamed_means(ball, [n], sums_of_the_group, [start])
    return mean_and_square


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
        Makes one pass for all groups whose search has not ended. It takes a dictionary
        that maps the number of such a group to its point, and returns for each of them,
        in the same order, the total of `block_sums` over its records.
    starts : sequence of Start
        The start of the search of each group.

    Returns
    -------
    list of (array, float)
        For each group its mean, and the mean squared distance of its records to it.
    """
    backends = [_SumsBackend(ball, start) for start in starts]
    searches = [mean_in_ball(ball, backend, _PASSES) for backend in backends]

    # The points at which the searches want their first pass, by the number of the group.
    points = {group: next(search).x for group, search in enumerate(searches)}
    means: dict[int, MeanAndSquare] = {}
    while points:
        # One pass for all groups; each search then asks for the next one or ends.
        for group, group_sums in zip(list(points), sums(points), strict=True):
            result = backends[group].result_from_sums(sizes[group], group_sums)
            try:
                points[group] = searches[group].send(result).x
            except StopIteration as finished:
                means[group] = finished.value
                del points[group]
    return [means[group] for group in range(len(searches))]


def start_from_sample(ball: PublicBall, X: np.ndarray) -> Start:
    """Return a start for the search of a mean, computed from a sample of the records.

    The start has an influence on the number of passes, but not on the result.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The sample.

    Returns
    -------
    Start
        The mean of the sample, and the inverse Hessian of the cost there. There is no
        Hessian if the dimension is large, the space is flat, or the Hessian cannot be
        inverted.
    """
    M = ball.manifold
    backend = _SumsBackend(ball, Start(ball.center))

    def pass_over(x: np.ndarray, records: np.ndarray) -> PassResult:
        """Return the mean logarithm and the mean squared distance at x."""
        sums = block_sums(ball, x, records)
        return backend.result_from_sums(len(records), sums)

    # The mean of the sample.
    search = search_mean(backend, _SAMPLE_TOLERANCE, _PASSES)
    x, _, _ = run_search(search, lambda request: pass_over(request.x, X))
    if M.dim > _LARGEST_DENSE_DIM or M.curvature_bounds == (0.0, 0.0):
        return Start(x)

    # The Hessian there, from a part of the sample.
    n_used = max(_LEAST_HESSIAN_RECORDS, _HESSIAN_NUMBERS // (M.dim * X[0].size))
    used_records = X[:n_used]
    hessian = _hessian_by_differences(
        M, x, lambda point: pass_over(point, used_records).mean_log
    )
    try:
        inverse_hessian = np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        return Start(x)
    if not np.all(np.isfinite(inverse_hessian)):
        return Start(x)
    return Start(x, inverse_hessian)


def _hessian_by_differences(
    M: Manifold, x: np.ndarray, mean_log_at: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the Hessian of the cost ½·mean d² at x, by differences of mean logarithms.

    Column j is minus the change of the mean logarithm per unit step along axis j.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    x : array of shape point_shape
        The point at which the Hessian is taken.
    mean_log_at : callable
        Maps a point to the mean logarithm of the records there, in coordinates.

    Returns
    -------
    array of shape (dim, dim)
        The Hessian, in coordinates at x.
    """
    mean_logs_after_step = []
    for step in _DIFFERENCE_STEP * np.eye(M.dim):
        moved = np.asarray(M.from_normal_coordinates(x, step))
        mean_logs_after_step.append(mean_log_at(moved))
    decrease = mean_log_at(x) - np.stack(mean_logs_after_step)
    return np.asarray(decrease.T / _DIFFERENCE_STEP)
