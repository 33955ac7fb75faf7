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

# Of the first guess from a sample: the residual at which it ends, the dimension up to
# which a Hessian is found by differences, their step, and the numbers of the records
# that are used for it.
_SAMPLE_TOLERANCE = 1e-6
_LARGEST_DENSE_DIM = 32
_DIFFERENCE_STEP = 1e-4
_HESSIAN_WORK = 1 << 18

MeanAndSquare = tuple[np.ndarray, float]
"""A mean, and the mean squared distance of the records to it."""

Sums = Callable[[np.ndarray], Any]
"""Maps an iterate x to exact sums over all records, as `block_sums` gives them."""

GroupSums = Callable[[dict[int, np.ndarray]], Iterable[Any]]
"""The same for several groups of records, each with its own iterate."""


class Start(NamedTuple):
    """Where the passes begin."""

    x: np.ndarray
    inverse: np.ndarray | float  # inverse Hessian there; 1 where it is not known


def block_sums(ball: PublicBall, x: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return exact sums over NumPy records, after clipping each into the ball.

    Parameters
    ----------
    ball : PublicBall
        The manifold and the ball.
    x : array
        The iterate.
    X : array, shape (k, *point_shape)
        Records. A record's terms depend on it alone.

    Returns
    -------
    array, shape (2, dim + 1), int64
        The sums of the coordinates of log_x xᵢ; the last entry is that of d²(x, xᵢ)/2r,
        which has the same bound as the others.
    """
    M = ball.manifold
    X = np.asarray(X, dtype=np.float64, order="C")  # float sums depend on the layout
    total = np.zeros((2, M.dim + 1), dtype=np.int64)
    with numerical_silence():
        if is_tensor_space(M):
            center, factor = Factor.of(ball.center), Factor.of(x)
            others = [X[:0]]
            for start in range(0, len(X), _BLOCK):
                block = X[start : start + _BLOCK]
                entries, skewness = lower_entries(block)
                logs = whitened_logs(factor, entries)
                inside = is_surely_inside(center, ball.radius, entries, skewness)
                counted = inside & logs.sure  # the ball leaves these as they are
                total += tensor_sums(ball.grid, logs, counted)
                others.append(block[~counted])
            X = np.concatenate(others)
        for start in range(0, len(X), _BLOCK):
            clipped = project_to_ball(*ball, X[start : start + _BLOCK])
            total += inside_sums(M, ball.grid, x, clipped)
    return total


def inside_sums(M: Manifold, grid: FixedPoint, x: Array, X: Array) -> Array:
    """Return the sums of `block_sums` over records in the ball, of any library.

    Parameters
    ----------
    M : Manifold
        Where the points are.
    grid : FixedPoint
        The grid on which sums are exact.
    x : array of shape point_shape
        The iterate.
    X : array of shape (n, *point_shape)
        The records.
    """
    xp = namespace(X)
    if isinstance(M, SPDAffineInvariant):
        # log(L⁻¹XL⁻ᵀ) directly, without going through log_x X
        _, logs, U = log_spectrum(x, X)
        Z = pack((U * logs[..., None, :]) @ U.mT)
    else:
        Z = M.to_coordinates(x, M.log(x, X))
    square = xp.sum(Z * Z, axis=-1)
    is_usable = square <= grid.bound**2  # NaN fails; true unless a kernel broke down
    terms = xp.concat([Z, (square / grid.bound)[:, None]], axis=-1)
    return grid.sums(xp.where(is_usable[:, None], terms, 0.0))


def tensor_sums(grid: FixedPoint, logs: Logs, counted: Array) -> Array:
    """Return the sums of `inside_sums` over the 3×3 matrices that are counted.

    Row by row: a compiler makes one kernel of it, and nothing as long as the records is
    written.
    """
    xp = namespace(counted)
    rows = [*logs.coordinates, logs.square / grid.bound]
    return xp.stack([grid.sums(xp.where(counted, row, 0.0)) for row in rows], axis=1)


class _SumsBackend(MeanBackend):
    """A search that sees sums alone: it stays in the ball, which contains the mean."""

    def __init__(self, ball: PublicBall, start: Start) -> None:
        self._ball = ball
        self._inverse_hessian = np.asarray(start.inverse)
        self.start = ball.clip(start.x)

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the point after the step, projected onto the ball.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate.
        step : array of shape (dim,)
            A tangent vector at x, in coordinates.
        """
        M = self._ball.manifold
        moved = np.asarray(M.from_normal_coordinates(x, step))
        safe_point = project_to_safe_ball(self._ball, moved)
        is_in_ball = len(M.factors) == 1 and M.convexity_radius == inf
        return safe_point if is_in_ball else self._ball.clip(safe_point)

    def newton(self, x: np.ndarray, convergence: float) -> NewtonStep | None:
        """Return the product with the inverse Hessian of the start.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate.
        convergence : float
            By how much the residual fell in the last step.
        """
        if convergence != inf:
            return None
        inverse = self._inverse_hessian

        def newton_step(velocity: np.ndarray) -> np.ndarray:
            product = inverse @ velocity if inverse.ndim else inverse * velocity
            return np.asarray(product)

        return newton_step

    def result_of(self, n: int, sums: Any) -> PassResult:
        """Return the result of a pass from the sums over n records."""
        mean = self._ball.grid.mean(sums, n)
        return PassResult(mean[:-1], float(mean[-1]) * self._ball.grid.bound)


def streamed_mean(ball: PublicBall, n: int, sums: Sums, start: Start) -> MeanAndSquare:
    """Return the Fréchet mean of n records in the ball, from exact sums over them."""
    return streamed_means(ball, [n], lambda points: [sums(points[0])], [start])[0]


def streamed_means(
    ball: PublicBall, sizes: Sequence[int], sums: GroupSums, starts: Sequence[Start]
) -> list[MeanAndSquare]:
    """Return the Fréchet means of several groups of records, searched side by side.

    Parameters
    ----------
    ball : PublicBall
        The manifold and the ball.
    sizes : sequence of int
        The number of records of each group.
    sums : callable
        Makes one pass for all groups that are not done yet: takes their iterates by
        group number and returns their sums in the same order.
    starts : sequence of Start
        Where each search begins.
    """
    backends = [_SumsBackend(ball, start) for start in starts]
    searches = [mean_in_ball(ball, backend, _PASSES) for backend in backends]
    iterates = {group: next(search).x for group, search in enumerate(searches)}
    means: dict[int, MeanAndSquare] = {}
    while iterates:
        for group, group_sums in zip(list(iterates), sums(iterates), strict=True):
            result = backends[group].result_of(sizes[group], group_sums)
            try:
                iterates[group] = searches[group].send(result).x
            except StopIteration as finished:
                means[group] = finished.value
                del iterates[group]
    return [means[group] for group in range(len(searches))]


def start_from_sample(ball: PublicBall, X: np.ndarray) -> Start:
    """Return a start from a few of the records.

    It is their own mean, with the inverse of their Hessian by differences where the
    dimension is small. It decides how many passes are needed, and nothing else.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    """
    M = ball.manifold
    backend = _SumsBackend(ball, Start(ball.center, 1.0))

    def pass_over(x: np.ndarray, records: np.ndarray) -> PassResult:
        return backend.result_of(len(records), block_sums(ball, x, records))

    search = search_mean(backend, _SAMPLE_TOLERANCE, _PASSES)
    x = run_search(search, lambda request: pass_over(request.x, X))[0]
    if M.dim > _LARGEST_DENSE_DIM or M.curvature_bounds == (0.0, 0.0):
        return Start(x, 1.0)

    some = X[: max(128, _HESSIAN_WORK // (M.dim * X[0].size))]
    velocities_ahead = []
    for step in _DIFFERENCE_STEP * np.eye(M.dim):
        ahead = np.asarray(M.from_normal_coordinates(x, step))
        velocities_ahead.append(pass_over(ahead, some).velocity)
    decrease = pass_over(x, some).velocity - np.stack(velocities_ahead)
    hessian = decrease.T / _DIFFERENCE_STEP
    try:
        inverse = np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        return Start(x, 1.0)
    return Start(x, inverse) if np.all(np.isfinite(inverse)) else Start(x, 1.0)
