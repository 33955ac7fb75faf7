"""Hyperbolic space H^d of curvature -1 in two models: the hyperboloid and the ball. They are one geometry.

Far out, the ambient coordinates are exponentially larger than what they say about the point: at distance a from the
origin, a displacement of unit length has a radial ambient size of cosh a and a tangential one of 1. Every form here
therefore splits a vector into its part along the footpoint's direction and the part orthogonal to it (`stable.reject`
keeps the digits of the latter), and adds terms of one sign. Near the origin, where polar coordinates are singular and
would spoil gradients, the plain forms are well conditioned and are used instead.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp._validate import integer
from curvedp.geometry._namespace import namespace
from curvedp.geometry.base import Array, Manifold
from curvedp.geometry.stable import (
    cosh_sinhc,
    euclidean_norm,
    one_minus_square,
    reject,
    safe_sqrt,
    tanhc,
)

__all__ = ["Lorentz", "PoincareBall"]

# Inside this Euclidean length (of the spatial part; of the ball vector) the plain forms lose at most a digit.
_NEAR_SPATIAL = 1.0
_NEAR_BALL = 0.5


class _Hyperbolic(Manifold):
    """What both models share: the constants of the space."""

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", integer("d", self.d, 1))

    @property
    def dim(self) -> int:
        return self.d

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (-1.0, -1.0)

    @property
    def injectivity_radius(self) -> float:
        return math.inf

    @property
    def convexity_radius(self) -> float:
        return math.inf

    @property
    def is_homogeneous(self) -> bool:
        return True


@dataclass(frozen=True)
class Lorentz(_Hyperbolic):
    """The upper sheet of -x0² + |x|² = -1 in R^{d+1}, time coordinate first.

    The spatial part is the truth and the time coordinate its lift √(1+|x|²): kernels read only the spatial part of
    points and tangent vectors, so round-off of the time coordinate is never mistaken for geometry. Relative error of
    `dist`, and of the vector `log`: a few units of round-off out to distance 300 from the origin; nothing overflows up
    to there. A tangent vector far out is another matter: at distance a its floats resolve e^a units of round-off of its
    own length, so that exp(p, log(p, q)) misses q by about as much, whatever the algorithm.

    >>> import numpy as np
    >>> from curvedp.geometry import Lorentz
    >>> M = Lorentz(2)
    >>> float(M.dist(M.origin, M.exp(M.origin, np.array([0.0, 30.0, 0.0]))))
    30.0
    """

    d: int

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d + 1,)

    @property
    def origin(self) -> Array:
        return np.eye(1, self.d + 1)[0]

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        x, velocity = p[..., 1:], v[..., 1:]
        time, length = _time(xp, x)
        along, across = _split(xp, x, time, length, velocity)
        far = _far_exp(xp, x, time, length, along, across)
        inside = length < _NEAR_SPATIAL
        zero = xp.zeros_like(x)
        z = xp.where(inside, _unboost(xp, x, time, velocity), zero)
        cosh, sinhc = cosh_sinhc(xp, xp.vecdot(z, z)[..., None])
        near = _boost(xp, xp.where(inside, x, zero), time, cosh, sinhc * z)[1]
        return self.project_spatial(xp, xp.where(inside, near, far))

    def log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        x, y = p[..., 1:], q[..., 1:]
        (x0, x_length), (y0, y_length) = _time(xp, x), _time(xp, y)
        chord = self._chord(xp, x, y)[..., None]
        # d / sinh d, with sinh d = 2 sinh(d/2) cosh(d/2) and chord = 2 sinh(d/2)
        sinh = chord * xp.sqrt(1 + chord * chord / 4)
        none = sinh == 0
        factor = xp.where(none, xp.ones_like(sinh), 2 * xp.asinh(chord / 2) / xp.where(none, xp.ones_like(sinh), sinh))
        # near: y seen from x, its differences formed before the boost
        difference = y - x
        rise = _dot(xp, difference, x + y) / (x0 + y0)
        z = difference + x * (_dot(xp, x, difference) / (1 + x0) - rise)
        inside = x_length < _NEAR_SPATIAL
        zero = xp.zeros_like(z)
        near = _boost(xp, xp.where(inside, x, zero), x0, 0.0, xp.where(inside, factor * z, zero))[1]
        # far: components along the radial unit vector (|x|, x0 x̂) and across it
        safe = xp.where(x_length == 0, xp.ones_like(x_length), x_length)
        across = reject(xp, y, x)
        cosine = _dot(xp, x, y) / safe  # times |y|
        plain = x0 * cosine - x_length * y0
        # |y| - <x̂,y> without cancellation where y is near the ray of x
        total = y_length + cosine
        ahead = cosine > 0
        gap = xp.where(ahead, _dot(xp, across, across) / xp.where(ahead, total, xp.ones_like(total)), y_length - cosine)
        polar = _sinh_radial(xp, x, y, x0, y0, x_length, y_length) - x0 * gap
        along = xp.where(y_length < _NEAR_SPATIAL, plain, polar)
        far = factor * along * x0 / safe * x + factor * across
        return _lift_tangent(xp, x, x0, xp.where(inside, near, far))

    def dist(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        return 2 * xp.asinh(self._chord(xp, p[..., 1:], q[..., 1:]) / 2)

    def _chord(self, xp: Any, p: Array, q: Array) -> Array:
        """2 sinh(d/2) from spatial parts, as a sum of positive terms."""
        p, q = xp.broadcast_arrays(p, q)
        swap = (euclidean_norm(xp, p) > euclidean_norm(xp, q))[..., None]
        x, y = xp.where(swap, q, p), xp.where(swap, p, q)  # |x| <= |y|
        (x0, x_length), (y0, y_length) = _time(xp, x), _time(xp, y)
        # near: the chord of the ball model, |u - w| √((1+x0)(1+y0)) with w = x/(1+x0), u = y/(1+y0)
        difference = y - x
        rise = _dot(xp, difference, x + y) / (x0 + y0)
        near = euclidean_norm(xp, difference - rise / (1 + x0) * x) * xp.sqrt((1 + x0) / (1 + y0))[..., 0]
        # far: sinh²(d/2) = sinh²((a-b)/2) + |x||y| sin²(φ/2), the half-angle law of cosines
        sinh = _sinh_radial(xp, x, y, x0, y0, x_length, y_length)
        radial = sinh * xp.sqrt(2 / (1 + _hypot1(xp, sinh)))
        safe_x = xp.where(x_length == 0, xp.ones_like(x_length), x_length)
        safe_y = xp.where(y_length == 0, xp.ones_like(y_length), y_length)
        sine = euclidean_norm(xp, reject(xp, x, y) / safe_x)[..., None]
        cosine = _dot(xp, x / safe_x, y / safe_y)
        ahead = cosine > 0
        half = xp.where(
            ahead,
            sine * xp.sqrt(2 / (1 + xp.where(ahead, cosine, xp.zeros_like(cosine)))),
            xp.sqrt(2 - 2 * xp.where(ahead, xp.zeros_like(cosine), cosine)),
        )
        angular = xp.sqrt(safe_x) * xp.sqrt(safe_y) * half
        far = euclidean_norm(xp, xp.concat([radial, angular], axis=-1))
        return xp.where(x_length[..., 0] < _NEAR_SPATIAL, near, far)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.vecdot(self.to_coordinates(p, u), self.to_coordinates(p, v))

    def norm(self, p: Array, v: Array) -> Array:
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        xp = namespace(p, q, v)
        x, y = p[..., 1:], q[..., 1:]
        x0, y0 = _time(xp, x)[0], _time(xp, y)[0]
        chord = self._chord(xp, x, y)[..., None]
        # 1 - <w,u> for the ball vectors, from cosh d = 1 + chord²/2 = x0 y0 - <x,y>
        depth = (2 + x0 + y0 + chord * chord / 2) / ((1 + x0) * (1 + y0))
        turned = _turn(xp, x / (1 + x0), reject(xp, y, x) / (1 + y0), depth, self.to_coordinates(p, v))
        return self.from_coordinates(q, turned)

    def project(self, x: Array) -> Array:
        return self.project_spatial(namespace(x), x[..., 1:])

    @staticmethod
    def project_spatial(xp: Any, x: Array) -> Array:
        """The point of the sheet above the spatial part x."""
        return xp.concat([_time(xp, x)[0], x], axis=-1)

    def to_tangent(self, p: Array, x: Array) -> Array:
        xp = namespace(p, x)
        space = p[..., 1:]
        time = _time(xp, space)[0]
        form = _dot(xp, space, x[..., 1:]) - time * x[..., :1]  # Minkowski product with p
        return _lift_tangent(xp, space, time, x[..., 1:] + form * space)

    def residual(self, p: Array) -> Array:
        """Error of the time coordinate relative to the lift of the spatial part."""
        xp = namespace(p)
        time = _time(xp, p[..., 1:])[0]
        return (xp.abs(p[..., :1] - time) / time)[..., 0]

    # The boost that carries the origin to p carries (0, z) into the tangent space at p.

    def from_coordinates(self, p: Array, z: Array) -> Array:
        xp = namespace(p, z)
        x = p[..., 1:]
        time, space = _boost(xp, x, _time(xp, x)[0], 0.0, z)
        return xp.concat([time, space], axis=-1)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        x = p[..., 1:]
        time, length = _time(xp, x)
        along, across = _split(xp, x, time, length, v[..., 1:])
        far = across + along / xp.where(length == 0, xp.ones_like(length), length) * x
        return xp.where(length < _NEAR_SPATIAL, _unboost(xp, x, time, v[..., 1:]), far)


@dataclass(frozen=True)
class PoincareBall(_Hyperbolic):
    """The open unit ball of R^d with metric 4|dw|²/(1-|w|²)². Float64 resolves it out to distance about 37.

    1 - |w|² is formed in twice the working precision, so points at norm 1 - 1e-12 keep their digits. A result that
    would round onto the boundary is kept at norm 1 - 4u or so: points stay points.

    >>> import numpy as np
    >>> from curvedp.geometry import PoincareBall
    >>> M = PoincareBall(2)
    >>> float(M.dist(M.origin, np.array([np.tanh(0.5), 0.0])))
    1.0
    """

    d: int

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d,)

    @property
    def origin(self) -> Array:
        return np.zeros(self.d)

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        gap = one_minus_square(xp, p)[..., None]
        z = 2 / gap * v
        # From anywhere in the ball of floats, 128 leads past every float: longer steps need not overflow.
        step = euclidean_norm(xp, z)[..., None]
        long = step > 128.0
        shrink = xp.where(long, 128.0 / xp.where(long, step, xp.ones_like(step)), xp.ones_like(step))
        z = shrink * z
        length = euclidean_norm(xp, p)[..., None]
        inside = length < _NEAR_BALL
        # near: Möbius addition of p and y = tanh(|z|/2) z/|z|
        w = xp.where(inside, p, xp.zeros_like(p))
        y = tanhc(xp, xp.vecdot(z, z)[..., None] / 4) * z / 2
        middle, square = 1 + 2 * _dot(xp, w, y), _dot(xp, y, y)
        near = ((middle + square) * w + gap * y) / (middle + _dot(xp, w, w) * square)
        # far: through the hyperboloid, in polar form
        safe = xp.where(length == 0, xp.ones_like(length), length)
        along = _dot(xp, z, p) / safe
        across = reject(xp, v, p) * (2 / gap) * shrink
        spatial = _far_exp(xp, 2 / gap * p, (1 + length * length) / gap, 2 * length / gap, along, across)
        far = spatial / (1 + _time(xp, spatial)[0])
        return self.project(xp.where(inside, near, far))

    def log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        gap = one_minus_square(xp, p)[..., None]
        difference = q - p
        # (-p) ⊕ q is along this vector, whose length is |q-p| √(gap_p gap_q + |q-p|²): its terms do not cancel.
        direction = gap * difference - _dot(xp, difference, difference) * p
        length = euclidean_norm(xp, direction)[..., None]
        none = length == 0
        factor = xp.where(
            none,
            xp.ones_like(length) / gap,
            self.dist(p, q)[..., None] * gap / 2 / xp.where(none, xp.ones_like(length), length),
        )
        return factor * direction

    def dist(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        gaps = xp.sqrt(one_minus_square(xp, p)) * xp.sqrt(one_minus_square(xp, q))
        return 2 * xp.asinh(euclidean_norm(xp, q - p) / gaps)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.vecdot(self.to_coordinates(p, u), self.to_coordinates(p, v))

    def norm(self, p: Array, v: Array) -> Array:
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        xp = namespace(p, q, v)
        difference = q - p
        gap_p, gap_q = one_minus_square(xp, p)[..., None], one_minus_square(xp, q)[..., None]
        depth = (gap_p + gap_q + _dot(xp, difference, difference)) / 2  # 1 - <p,q>
        return _turn(xp, p, reject(xp, q, p), depth, gap_q / gap_p * v)

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        length = euclidean_norm(xp, x)[..., None]
        outside = one_minus_square(xp, x)[..., None] <= 0
        inward = 1 - 4 * float(xp.finfo(length.dtype).eps)
        return xp.where(outside, x * (inward / xp.where(outside, length, xp.ones_like(length))), x)

    def to_tangent(self, p: Array, x: Array) -> Array:
        return namespace(p, x).broadcast_arrays(p, x)[1]

    def residual(self, p: Array) -> Array:
        """0 inside the open ball, |p| on its boundary and outside."""
        xp = namespace(p)
        length = euclidean_norm(xp, p)
        return xp.where(one_minus_square(xp, p) > 0, xp.zeros_like(length), length)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return one_minus_square(namespace(p, z), p)[..., None] / 2 * z

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return 2 / one_minus_square(namespace(p, v), p)[..., None] * v


# ---- shared forms; scalars keep a last axis of length 1 -----------------------------------------------------------


def _dot(xp: Any, u: Array, v: Array) -> Array:
    return xp.vecdot(u, v)[..., None]


def _hypot1(xp: Any, x: Array) -> Array:
    """√(1+x²) without overflow, smooth at 0."""
    return xp.hypot(xp.ones_like(x), x)


def _time(xp: Any, x: Array) -> tuple[Array, Array]:
    """Time coordinate above the spatial part x, and the length of x."""
    length = euclidean_norm(xp, x)[..., None]
    return _hypot1(xp, length), length


def _lift_tangent(xp: Any, x: Array, time: Array, v: Array) -> Array:
    """The tangent vector at (time, x) with spatial part v: Minkowski-orthogonal to the point."""
    return xp.concat([_dot(xp, x, v) / time, v], axis=-1)


def _boost(xp: Any, x: Array, time: Array, z0: Any, z: Array) -> tuple[Array, Array]:
    """(z0, z) carried by the boost that takes the origin to (time, x)."""
    along = _dot(xp, x, z)
    return time * z0 + along, z + (z0 + along / (1 + time)) * x


def _unboost(xp: Any, x: Array, time: Array, v: Array) -> Array:
    """Coordinates of the tangent vector with spatial part v, for x not far out: the inverse of `_boost` there."""
    return v - _dot(xp, x, v) / (time * (1 + time)) * x


def _split(xp: Any, x: Array, time: Array, length: Array, v: Array) -> tuple[Array, Array]:
    """Riemannian component along the radial unit vector, and the part across it, of a tangent vector's spatial part."""
    safe = xp.where(length == 0, xp.ones_like(length), length)
    return _dot(xp, x, v) / safe / time, reject(xp, v, x)


def _sinh_radial(xp: Any, x: Array, y: Array, x0: Array, y0: Array, x_length: Array, y_length: Array) -> Array:
    """sinh(b - a) for the distances a, b of x, y from the origin: |y|x0 - |x|y0, its difference taken exactly."""
    total = y_length * x0 + x_length * y0
    return _dot(xp, y - x, y + x) / xp.where(total == 0, xp.ones_like(total), total)


def _far_exp(xp: Any, x: Array, time: Array, length: Array, along: Array, across: Array) -> Array:
    """Spatial part of the exponential from x (not the origin) with velocity (along, across).

    Its radial part sinh a cosh n + cosh a sinh n cos ψ cancels on the way inward; there it is
    sinh(a - n) + cosh a sinh n (1 + cos ψ), and n(1 + cos ψ) = |across|²/(n - along).
    """
    across_square = _dot(xp, across, across)
    square = along * along + across_square
    cosh, sinhc = cosh_sinhc(xp, square)
    outward = cosh * length + sinhc * along * time
    turning = along < -1
    speed = safe_sqrt(xp, xp.where(turning, square, xp.ones_like(square)))
    back = xp.where(turning, along, -xp.ones_like(along))
    inward = xp.sinh(xp.asinh(length) - speed) + sinhc * time * across_square / (speed - back)
    radial = xp.where(turning, inward, outward)
    return radial / xp.where(length == 0, xp.ones_like(length), length) * x + sinhc * across


def _turn(xp: Any, w: Array, u: Array, depth: Array, z: Array) -> Array:
    """Parallel transport between two points, seen in the frames that radial transport from the origin gives them.

    It is the rotation by the area A of the geodesic triangle (origin, w, u) in its plane: tan(A/2) = |w∧u|/(1-<w,u>)
    for ball vectors (Ungar 2008, gyr[u,-w]). Its Cayley form needs no angle and is smooth where w and u are parallel.
    Takes the part u of the second vector orthogonal to w, and depth = 1 - <w,u>.
    """
    w_square, u_square = _dot(xp, w, w), _dot(xp, u, u)
    w_part, u_part = _dot(xp, w, z), _dot(xp, u, z)
    scale = 2 / (w_square * u_square + depth * depth)
    once = u_part * w - w_part * u
    twice = u_square * w_part * w + w_square * u_part * u
    return z + scale * (depth * once - twice)
