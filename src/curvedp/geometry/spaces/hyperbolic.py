"""Hyperbolic space H^d of curvature -1, the forms that its two models share. They are one geometry.

Far out, the ambient coordinates are exponentially larger than what they say about the point: at distance a from the
origin, a displacement of unit length has a radial ambient size of cosh a and a tangential one of 1. Every form here
therefore splits a vector into its part along the footpoint's direction and the part orthogonal to it (`stable.reject`
keeps the digits of the latter), and adds terms of one sign. Near the origin, where polar coordinates are singular and
would spoil gradients, the plain forms are well conditioned and are used instead.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.manifold import Array, Manifold, fact
from curvedp.geometry.spaces.euclidean import Vectors
from curvedp.numerics import elementary as stable
from curvedp.numerics.arrays import namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.elementary import cosh_sinhc, euclidean_norm, safe_sqrt
from curvedp.numerics.threads import blocks

_BLOCK = 1 << 15  # numbers in an array


class HeldBall(Manifold):
    """Floats hold well the points of a ball about the origin, which is convex."""

    def held_share(self, z: Array) -> Array:
        xp = namespace(z)
        length = euclidean_norm(xp, z)
        far = length > self.held_reach
        return xp.where(
            far, self.held_reach / xp.where(far, length, 1.0), xp.ones_like(length)
        )

    held_coordinates = (
        Manifold.held_coordinates
    )  # of a ball, also where a model's would come first

    def held_radius(self, radius: float) -> float:
        return min(radius, self.held_reach)


class Hyperbolic(HeldBall, Vectors):
    """What both models share: the constants of the space."""

    carries = True
    curvature_bounds = fact(lambda self: (-1.0, -1.0) if self.d > 1 else (0.0, 0.0))
    injectivity_radius = math.inf
    held_reach = 15.0  # e^15 units of round-off are 4e-10

    def float_spread(self, radius: float) -> float:
        """At distance r points are e^r times finer than their coordinates, and so are the vectors there, of length at most
        2r, that are summed (`tests/mechanisms/test_solver_error.py` finds about 2e^r units of round-off a step)."""
        r = self.held_radius(radius)
        return (1 + 2 * r) * math.exp(r)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return namespace(p, u, v).vecdot(
            self.to_coordinates(p, u), self.to_coordinates(p, v)
        )

    def norm(self, p: Array, v: Array) -> Array:
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def from_record(self, x: Array) -> Array:
        """As `project`: both models have a scale of their own, and every record has a nearest point."""
        return self.project(x)


def blocked(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """The kernel of vectors, NumPy batches in blocks: some hundred small steps on arrays that stay in the cache. With
    ten thousand records at once most of the time goes into fetching memory for temporaries and giving it back."""

    @wraps(kernel)
    def run(self: Any, *arrays: Array) -> Array:
        if not all(map(is_numpy_array, arrays)):
            return kernel(self, *arrays)
        batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        count, size = math.prod(batch), max(2, _BLOCK // arrays[0].shape[-1])
        if not batch or (count <= size and count != 1):
            return kernel(self, *arrays)
        flat = [
            a
            if a.ndim == 1
            else np.broadcast_to(a, (*batch, a.shape[-1])).reshape(count, -1)
            for a in arrays
        ]

        def over(part: slice) -> Array:
            # One record alone lies in memory both ways, and would be added up in the other order (`stable.dot`): doubled, it
            # gets what it gets in any batch.
            rows: Any = part if part.stop - part.start > 1 else [part.start, part.start]
            return kernel(self, *(a if a.ndim == 1 else a[rows] for a in flat))[
                : part.stop - part.start
            ]

        parts = [over(part) for part in blocks(count, size)]
        return np.concatenate(parts).reshape(*batch, *parts[0].shape[1:])

    return run


def dot(xp: Any, u: Array, v: Array) -> Array:
    """Here scalars keep a last axis of length 1."""
    return stable.dot(xp, u, v)[..., None]


def hypot1(xp: Any, x: Array) -> Array:
    """√(1+x²) without overflow, smooth at 0; `hypot` would take ten times as long."""
    size = xp.abs(x)
    large = size > 1
    part = xp.where(large, 1 / xp.where(large, size, 1.0), x)
    root = xp.sqrt(1 + part * part)
    return xp.where(large, size * root, root)


def lift(xp: Any, x: Array) -> tuple[Array, Array]:
    """Time coordinate above the spatial part x, and the length of x."""
    length = euclidean_norm(xp, x)[..., None]
    return hypot1(xp, length), length


def either(
    xp: Any, inside: Array, near: Callable[[], Array], far: Callable[[], Array]
) -> Array:
    """near() inside, far() elsewhere; NumPy computes only what is needed."""
    if (
        is_numpy_array(inside)
        and not in_public_time()
        and np.all(inside) == np.any(inside)
    ):
        return near() if np.all(inside) else far()
    return xp.where(inside, near(), far())


def far_exp(
    xp: Any, x: Array, time: Array, length: Array, along: Array, across: Array
) -> Array:
    """Spatial part of the exponential from x (not the origin) with velocity (along, across). Its radial part sinh a
    cosh n + cosh a sinh n cos ψ cancels on the way inward; there it is sinh(a - n) + cosh a sinh n (1 + cos ψ), and
    n(1 + cos ψ) = |across|²/(n - along)."""
    across_square = dot(xp, across, across)
    square = along * along + across_square
    cosh, sinhc = cosh_sinhc(xp, square)
    outward = cosh * length + sinhc * along * time
    turning = along < -1
    speed = safe_sqrt(xp, xp.where(turning, square, 1.0))
    inward = xp.sinh(xp.asinh(length) - speed) + sinhc * time * across_square / (
        speed - xp.where(turning, along, -1.0)
    )
    return (
        xp.where(turning, inward, outward) / xp.where(length == 0, 1.0, length) * x
        + sinhc * across
    )


def turn(xp: Any, w: Array, u: Array, depth: Array, z: Array) -> Array:
    """Parallel transport between two points, seen in the frames that radial transport from the origin gives them.
    It is the rotation by the area A of the geodesic triangle (origin, w, u) in its plane: tan(A/2) =
    |w∧u|/(1-<w,u>) for ball vectors (Ungar 2008, gyr[u,-w]). Its Cayley form needs no angle and is smooth where w
    and u are parallel. Takes the part u of the second vector orthogonal to w, and depth = 1 - <w,u>."""
    w_square, u_square = dot(xp, w, w), dot(xp, u, u)
    w_part, u_part = dot(xp, w, z), dot(xp, u, z)
    scale = 2 / (w_square * u_square + depth * depth)
    once = u_part * w - w_part * u
    twice = u_square * w_part * w + w_square * u_part * u
    return z + scale * (depth * once - twice)
