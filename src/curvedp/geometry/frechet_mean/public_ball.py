"""A public ball on a manifold, and how records are clipped into it."""

from typing import Any, NamedTuple

import numpy as np

from curvedp._silence import numerical_silence
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.manifold import Array, Manifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.numerics.spd3 import Factor, lower_entries, whitened_logs
from curvedp.numerics.threads import blocks, in_threads

# Matrices that are looked at together.
_BLOCK = 1 << 13

# Room for the round-off of lengths of at most twice the radius.
ROUNDOFF_ROOM = 1 + 1e-9

# Squared relative skewness below the tolerance at which `project_to_ball` takes a
# matrix for its symmetric part.
_LARGEST_SKEWNESS = (0.99e-6) ** 2


class PublicBall(NamedTuple):
    """A manifold and the public ball on it that records are clipped into."""

    manifold: Manifold
    center: np.ndarray
    radius: float

    @property
    def grid(self) -> FixedPoint:
        """The fixed-point grid of sums: points of the ball are at most 2r apart."""
        return FixedPoint(2 * self.radius * ROUNDOFF_ROOM)

    def clip(self, x: Array) -> np.ndarray:
        """Return one point clipped into the ball."""
        return np.asarray(project_to_ball(*self, x[None])[0])


def is_tensor_space(M: Manifold) -> bool:
    """Return whether points are 3×3 SPD matrices with the affine-invariant metric.

    Diffusion tensors are; they have kernels in closed form (`numerics.spd3`).
    """
    return isinstance(M, SPDAffineInvariant) and M.m == 3


def is_surely_inside(
    center: Factor, radius: float, entries: Any, skewness: Array
) -> Array:
    """Return which 3×3 SPD matrices `project_to_ball` leaves as they are.

    Up to their symmetric parts; a matrix that is not surely inside may still be.

    Parameters
    ----------
    center : Factor
        Cholesky factor of the ball's center.
    radius : float
        Radius of the ball.
    entries, skewness
        What `lower_entries` returns for the matrices.
    """
    logs = whitened_logs(center, entries)
    is_near = logs.square <= (radius * (1 - 1e-9)) ** 2
    return logs.sure & is_near & (skewness <= _LARGEST_SKEWNESS)


def clip_records(ball: PublicBall, X: np.ndarray) -> np.ndarray:
    """Return NumPy records clipped into the ball, as `project_to_ball` does.

    3×3 SPD matrices that are surely inside are only made symmetric, which is ten times
    as fast; X itself is returned where nothing changes.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    X : array of shape (n, *point_shape)
        The records.
    """
    if not is_tensor_space(ball.manifold):
        return np.asarray(project_to_ball(*ball, X))
    center = Factor.of(ball.center)

    def examine(part: slice) -> tuple[np.ndarray, bool]:
        entries, skewness = lower_entries(X[part])
        inside = is_surely_inside(center, ball.radius, entries, skewness)
        return inside, bool(np.any(skewness[inside]))

    examined = in_threads(examine, blocks(len(X), _BLOCK))
    inside = np.concatenate([np.empty(0, dtype=bool), *(part for part, _ in examined)])
    clipped = X
    if any(is_skew for _, is_skew in examined):
        with numerical_silence():  # the sum of two entries may overflow
            clipped = 0.5 * (X + X.mT)
    if not inside.all():
        clipped = np.array(clipped)
        clipped[~inside] = project_to_ball(*ball, X[~inside])
    return clipped
