"""The Fréchet mean as a statistic: fast, and off by no more than a number known before the records are."""

import numpy as np

from curvedp.geometry import Product, frechet_mean, mean_error_bound
from curvedp.geometry.base import Manifold
from curvedp.geometry.mean.bound import contraction
from curvedp.geometry.numerics.threads import blocks, in_threads
from curvedp.mechanisms.base import Ball

__all__ = ["bounded_mean", "solver_error"]

_RESIDUAL = 1e-9  # ‖mean log‖ that the fast solver reaches
_BLOCK = 1 << 16  # records in a block: large enough that threads seldom meet at the lock, small beside the data


def solver_error(manifold: Manifold, radius: float) -> float:
    """η: `bounded_mean`, projected onto the ball, is within this distance of the true mean, for any records in the ball.

    The two ways there are summed, as the float error of the residual is within the bound for the steps. Doubled, because a
    computed mean that fell just outside the ball is moved onto it by as much again.
    """
    return 2 * (mean_error_bound(manifold, radius) + 1.01 * _RESIDUAL / _convexity(manifold, radius))


def bounded_mean(manifold: Manifold, records: np.ndarray, ball: Ball) -> np.ndarray:
    """The Fréchet mean of records in the ball, with an error that is known before the records are.

    The fast solver's answer x is kept if its residual and its mean square distance are small enough: the gradient flow from
    x then ends at the mean after a length of at most ‖∇f(x)‖ over the convexity (`mean_bound`, step 3). Otherwise the fixed
    number of contracting steps is taken. Either way the value is within `solver_error`; only the time depends on which.
    """
    x = np.asarray(frechet_mean(manifold, records))

    def moments(part: slice) -> tuple[np.ndarray, float]:
        logs = np.asarray(manifold.log(x, records[part]))
        return logs.sum(axis=0), float(np.sum(np.asarray(manifold.inner(x, logs, logs))))

    sums = in_threads(moments, blocks(len(records), _BLOCK))
    velocity = np.sum([velocity for velocity, _ in sums], axis=0) / len(records)
    squares = sum(square for _, square in sums) / len(records)
    small = float(manifold.norm(x, velocity)) <= _RESIDUAL
    near = squares <= ball.radius**2
    inside = float(manifold.dist(ball.center, x)) <= ball.radius
    return x if small and near and inside else np.asarray(frechet_mean(manifold, records, ball=ball))


def _convexity(manifold: Manifold, radius: float) -> float:
    if isinstance(manifold, Product):
        return min(_convexity(factor, radius) for factor in manifold.factors)
    return contraction(manifold, radius).convexity
