"""Hyperbolic space H^d of curvature −1: the forms that its two models share.

Far out, the ambient coordinates are exponentially larger than what they say about the
point: at distance a from the origin, a displacement of unit length has a radial ambient
size of cosh a and a tangential one of 1. Every form here therefore splits a vector into
its part along the footpoint's direction and the part orthogonal to it
(`elementary.orthogonal_part` keeps the digits of the latter), and adds terms of one
sign. Near the origin, where polar coordinates are singular and would spoil gradients,
the plain forms are well conditioned and are used instead.
"""

import math
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.capabilities import OriginIsometry
from curvedp.geometry.float_set import BallFloatSet, FloatSet
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.euclidean import VectorManifold
from curvedp.numerics import elementary
from curvedp.numerics.arrays import namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.elementary import cosh_sinhc, euclidean_norm, safe_sqrt
from curvedp.numerics.threads import blocks

_BLOCK = 1 << 15  # numbers of one array that are worked on together

# Distance from the origin up to which points are well represented: e^15 units of
# round-off are 4e-10.
_SAFE_RADIUS = 15.0


class Hyperbolic(VectorManifold, OriginIsometry):
    """What both models share: the constants of the space, and lengths."""

    injectivity_radius = math.inf
    max_representable_distance: ClassVar[float]

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """−1, and 0 on the line H¹."""
        return (-1.0, -1.0) if self.d > 1 else (0.0, 0.0)

    @cached_property
    def float_set(self) -> FloatSet:
        """The ball of radius 15 about the origin."""
        return BallFloatSet(
            max_distance=self.max_representable_distance,
            amplification=_roundoff_amplification,
            ball_radius=_SAFE_RADIUS,
        )

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the product of the coordinates."""
        u_coordinates = self.to_coordinates(p, u)
        v_coordinates = self.to_coordinates(p, v)
        return namespace(p, u, v).vecdot(u_coordinates, v_coordinates)

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length of the coordinates."""
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def from_record(self, x: Array) -> Array:
        """Return `project(x)`: every record has a nearest point in both models."""
        return self.project(x)


def _roundoff_amplification(radius: float) -> float:
    """Return (1 + 2r)·e^r at r = min(radius, 15).

    At distance r points are e^r times finer than their coordinates, and so are the
    vectors there, of length at most 2r, that are summed
    (`tests/mechanisms/test_solver_error.py` finds about 2e^r units of round-off a
    step).
    """
    r = min(radius, _SAFE_RADIUS)
    return (1 + 2 * r) * math.exp(r)


def in_cache_blocks(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a kernel of vectors so that large NumPy batches run block by block.

    A kernel here takes some hundred small steps. With ten thousand records at once most
    of the time would go into memory for temporaries; blocks stay in the cache.

    Parameters
    ----------
    kernel : callable
        A method of vectors, whose first argument is the manifold.
    """

    @wraps(kernel)
    def blocked_kernel(self: Any, *arrays: Array) -> Array:
        """Call the kernel for blocks of records and concatenate the results."""
        if not all(map(is_numpy_array, arrays)):
            return kernel(self, *arrays)
        batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        n_records = math.prod(batch)
        block_size = max(2, _BLOCK // arrays[0].shape[-1])
        is_small = n_records <= block_size and n_records != 1
        if not batch or is_small:
            return kernel(self, *arrays)

        flat_arrays = [_flatten_batch(array, batch) for array in arrays]
        results = []
        for block in blocks(n_records, block_size):
            size = block.stop - block.start
            # One record alone would be added up in another order (`elementary.dot`):
            # doubled, it gets what it gets in any batch.
            rows: Any = block if size > 1 else [block.start, block.start]
            arguments = [a if a.ndim == 1 else a[rows] for a in flat_arrays]
            results.append(kernel(self, *arguments)[:size])
        return np.concatenate(results).reshape(*batch, *results[0].shape[1:])

    return blocked_kernel


def _flatten_batch(array: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """Return the array broadcast to one leading axis; a vector stays one."""
    if array.ndim == 1:
        return array
    broadcast = np.broadcast_to(array, (*batch, array.shape[-1]))
    return broadcast.reshape(math.prod(batch), -1)


def dot(xp: Any, u: Array, v: Array) -> Array:
    """Return Σ uᵢvᵢ with a last axis of length 1, as all scalars have here."""
    return elementary.dot(xp, u, v)[..., None]


def hypot_one(xp: Any, x: Array) -> Array:
    """Return √(1 + x²) without overflow, smooth at 0.

    The library's `hypot` would take ten times as long.

    Parameters
    ----------
    xp : module
        The array library of x.
    x : array
        Any numbers.
    """
    size = xp.abs(x)
    is_large = size > 1
    ratio = xp.where(is_large, 1 / xp.where(is_large, size, 1.0), x)
    root = xp.sqrt(1 + ratio * ratio)
    return xp.where(is_large, size * root, root)


def lift(xp: Any, x: Array) -> tuple[Array, Array]:
    """Return the time coordinate √(1 + |x|²) above a spatial part x, and |x|."""
    length = euclidean_norm(xp, x)[..., None]
    return hypot_one(xp, length), length


def apply_where(
    xp: Any, condition: Array, near: Callable[[], Array], far: Callable[[], Array]
) -> Array:
    """Return near() where the condition holds and far() elsewhere.

    NumPy evaluates only what is needed, except in public time.

    Parameters
    ----------
    xp : module
        The array library.
    condition : array of bool
        Which entries `near` computes.
    near, far : callables
        Return the values in each case.
    """
    if is_numpy_array(condition) and not in_public_time():
        all_alike = np.all(condition) == np.any(condition)
        if all_alike:
            return near() if np.all(condition) else far()
    return xp.where(condition, near(), far())


def polar_exp(
    xp: Any, x: Array, time: Array, length: Array, radial: Array, tangential: Array
) -> Array:
    """Return the spatial part of the exponential from a point x that is not the origin.

    With a the distance of x from the origin, n the length of the velocity and ψ its
    angle to the radial direction, the radial part of the end point is
    sinh a·cosh n + cosh a·sinh n·cos ψ. It cancels on the way inward; there it is
    sinh(a − n) + cosh a·sinh n·(1 + cos ψ), and n(1 + cos ψ) = |tangential|²/(n −
    radial).

    Parameters
    ----------
    x, time, length : array
        Spatial part of the footpoint, its time coordinate cosh a and length sinh a.
    radial : array, shape (..., 1)
        Component of the velocity along the radial unit vector.
    tangential : array
        The spatial part of the velocity orthogonal to x.
    """
    tangential_square = dot(xp, tangential, tangential)
    square = radial * radial + tangential_square
    cosh, sinhc = cosh_sinhc(xp, square)
    outward = cosh * length + sinhc * radial * time

    goes_inward = radial < -1
    speed = safe_sqrt(xp, xp.where(goes_inward, square, 1.0))
    inward = xp.sinh(xp.asinh(length) - speed) + sinhc * time * tangential_square / (
        speed - xp.where(goes_inward, radial, -1.0)
    )

    radial_part = xp.where(goes_inward, inward, outward)
    return radial_part / xp.where(length == 0, 1.0, length) * x + sinhc * tangential


def rotate_by_holonomy(
    xp: Any, w: Array, u: Array, one_minus_inner: Array, z: Array
) -> Array:
    """Return coordinates z after parallel transport between two points.

    Both points have the frames that radial transport from the origin gives them. In
    these frames the transport is the rotation by the area A of the geodesic triangle
    (origin, w, second point) in its plane: tan(A/2) = |w∧y|/(1 − ⟨w,y⟩) for vectors w,
    y of the ball model (Ungar 2008, gyr[y, −w]). Its Cayley form needs no angle and is
    smooth where w and y are parallel.

    Parameters
    ----------
    w : array
        The first point in the ball model.
    u : array
        The part of the second point y orthogonal to w.
    one_minus_inner : array, shape (..., 1)
        1 − ⟨w, y⟩.
    z : array
        Coordinates at the first point.
    """
    w_square = dot(xp, w, w)
    u_square = dot(xp, u, u)
    w_part = dot(xp, w, z)
    u_part = dot(xp, u, z)
    scale = 2 / (w_square * u_square + one_minus_inner * one_minus_inner)
    first_order = u_part * w - w_part * u
    second_order = u_square * w_part * w + w_square * u_part * u
    return z + scale * (one_minus_inner * first_order - second_order)
