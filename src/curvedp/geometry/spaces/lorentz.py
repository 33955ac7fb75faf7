"""The hyperboloid model of hyperbolic space."""

from operator import add, mul
from typing import Any

import numpy as np

from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.hyperbolic import (
    Hyperbolic,
    blocked,
    dot,
    either,
    far_exp,
    hypot1,
    lift,
    turn,
)
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import (
    columns,
    cosh_sinhc,
    dot_lists,
    euclidean_norm,
    quick_or,
    reject,
)

_SQUARES = 1e-250  # squares above it have not lost digits to underflow
_LARGEST_TIME = 8.0  # up to which the plain chord |y − x|² − (y₀ − x₀)² keeps its digits: it loses a factor of 2·64
_NEAR = (
    1.0  # Inside this length of the spatial part the plain forms lose at most a digit.
)


class Lorentz(Hyperbolic):
    """The upper sheet of -x0² + |x|² = -1 in R^{d+1}, time coordinate first.

    The spatial part is the truth and the time coordinate its lift √(1+|x|²): kernels read only the spatial part of
    points and tangent vectors, so round-off of the time coordinate is never mistaken for geometry. Relative error of
    `dist`, and of the vector `log`: a few units of round-off out to distance 300 from the origin; nothing overflows up
    to there. A tangent vector far out is another matter: at distance a its floats resolve e^a units of round-off of its
    own length, so that exp(p, log(p, q)) misses q by about as much, whatever the algorithm.

    Parameters
    ----------
    d : int
        The dimension; points have one number more.

    Examples
    --------
    >>> M = Lorentz(2)
    >>> float(M.dist(M.origin, M.exp(M.origin, np.array([0.0, 30.0, 0.0]))))
    30.0
    """

    kind = "lorentz"
    point_shape = fact(lambda self: (self.d + 1,))
    origin = property(lambda self: np.eye(1, self.d + 1)[0])
    quadric = fact(lambda self: np.array([-1.0] + [1.0] * self.d))
    float_reach = 350.0  # coordinates e^r, squared in the lift

    @blocked
    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        x, velocity = columns(p[..., 1:]), columns(v[..., 1:])
        time, length = lift(xp, x)
        inside = length < _NEAR

        def near() -> Array:
            z = xp.where(
                inside, _unboost(xp, x, time, velocity), 0.0
            )  # elsewhere the form may overflow
            cosh, sinhc = cosh_sinhc(xp, dot(xp, z, z))
            return _boost(xp, xp.where(inside, x, 0.0), time, cosh, sinhc * z)[1]

        def far() -> Array:
            return far_exp(xp, x, time, length, *_split(xp, x, time, length, velocity))

        return _above(xp, either(xp, inside, near, far))

    def log(self, p: Array, q: Array) -> Array:
        def quick(p: list[Array], q: list[Array]) -> tuple[Array, Array]:
            square, good, x, difference, x0 = _quick_chord(p[1:], q[1:])
            # d / sinh d, as below; log is along y − cosh(d) x = (y − x) − (chord²/2) x
            chord = np.sqrt(square)
            factor = 2 * np.arcsinh(chord / 2) / (chord * np.sqrt(1 + square / 4))
            v = [
                factor * (d - 0.5 * square * a)
                for a, d in zip(x, difference, strict=True)
            ]
            return np.stack(
                np.broadcast_arrays(sum(map(mul, x, v)) / x0, *v), axis=-1
            ), good

        return quick_or(self._log, quick, p, q)

    @blocked
    def _log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        x, y = columns(p[..., 1:]), columns(q[..., 1:])
        (x0, x_length), (y0, y_length) = lift(xp, x), lift(xp, y)
        chord = _chord(xp, x, y, x_length, y_length)
        # d / sinh d, with sinh d = 2 sinh(d/2) cosh(d/2) and chord = 2 sinh(d/2)
        sinh = chord * xp.sqrt(1 + chord * chord / 4)
        none = sinh == 0
        factor = xp.where(
            none, 1.0, 2 * xp.asinh(chord / 2) / xp.where(none, 1.0, sinh)
        )
        inside, difference = x_length < _NEAR, y - x

        def near() -> Array:
            """y seen from x, its differences formed before the boost."""
            rise = dot(xp, difference, x + y) / (x0 + y0)
            z = difference + x * (
                dot(xp, x, difference) / (1 + x0) - rise
            )  # elsewhere the form may overflow
            return _boost(
                xp, xp.where(inside, x, 0.0), x0, 0.0, xp.where(inside, factor * z, 0.0)
            )[1]

        def far() -> Array:
            """Components along the radial unit vector (|x|, x0 x̂) and across it."""
            safe = xp.where(x_length == 0, 1.0, x_length)
            across = reject(xp, y, x)
            cosine = dot(xp, x, y) / safe  # times |y|
            plain = x0 * cosine - x_length * y0
            # |y| - <x̂,y> without cancellation where y is near the ray of x
            ahead = cosine > 0
            gap = dot(xp, across, across) / xp.where(ahead, y_length + cosine, 1.0)
            polar = _sinh_radial(xp, x, y, x0, y0, x_length, y_length) - x0 * xp.where(
                ahead, gap, y_length - cosine
            )
            along = xp.where(y_length < _NEAR, plain, polar)
            return factor * along * x0 / safe * x + factor * across

        return _lift_tangent(xp, x, x0, either(xp, inside, near, far))

    def dist(self, p: Array, q: Array) -> Array:
        def quick(p: list[Array], q: list[Array]) -> tuple[Array, Array]:
            square, good, *_ = _quick_chord(p[1:], q[1:])
            return 2 * np.arcsinh(0.5 * np.sqrt(square)), good

        return quick_or(self._dist, quick, p, q)

    @blocked
    def _dist(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        x, y = columns(p[..., 1:]), columns(q[..., 1:])
        chord = _chord(
            xp, x, y, euclidean_norm(xp, x)[..., None], euclidean_norm(xp, y)[..., None]
        )
        return 2 * xp.asinh(chord[..., 0] / 2)

    @blocked
    def transport(self, p: Array, q: Array, v: Array) -> Array:
        xp = namespace(p, q, v)
        x, y = columns(p[..., 1:]), columns(q[..., 1:])
        (x0, x_length), (y0, y_length) = lift(xp, x), lift(xp, y)
        chord = _chord(xp, x, y, x_length, y_length)
        # 1 - <w,u> for the ball vectors, from cosh d = 1 + chord²/2 = x0 y0 - <x,y>
        depth = (2 + x0 + y0 + chord * chord / 2) / ((1 + x0) * (1 + y0))
        turned = turn(
            xp,
            x / (1 + x0),
            reject(xp, y, x) / (1 + y0),
            depth,
            self.to_coordinates(p, v),
        )
        return self.from_coordinates(q, turned)

    def project(self, x: Array) -> Array:
        """The point above the spatial part of x: moving it there changes a rounded point by no more than its rounding, while
        the time coordinate of a far one says nothing that its spatial part does not."""
        return _above(namespace(x), x[..., 1:])

    def to_tangent(self, p: Array, x: Array) -> Array:
        xp = namespace(p, x)
        space = p[..., 1:]
        time = lift(xp, space)[0]
        form = (
            dot(xp, space, x[..., 1:]) - time * x[..., :1]
        )  # Minkowski product with p
        return _lift_tangent(xp, space, time, x[..., 1:] + form * space)

    def residual(self, p: Array) -> Array:
        """Error of the time coordinate relative to the lift of the spatial part."""
        xp = namespace(p)
        time = lift(xp, p[..., 1:])[0]
        return (xp.abs(p[..., :1] - time) / time)[..., 0]

    # The boost that carries the origin to p carries (0, z) into the tangent space at p.

    @blocked
    def from_coordinates(self, p: Array, z: Array) -> Array:
        xp = namespace(p, z)
        x = columns(p[..., 1:])
        time, space = _boost(xp, x, lift(xp, x)[0], 0.0, z)
        return xp.concat([time, space], axis=-1)

    @blocked
    def to_coordinates(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        x, velocity = columns(p[..., 1:]), columns(v[..., 1:])
        time, length = lift(xp, x)

        def far() -> Array:
            along, across = _split(xp, x, time, length, velocity)
            return across + along / xp.where(length == 0, 1.0, length) * x

        return either(xp, length < _NEAR, lambda: _unboost(xp, x, time, velocity), far)


def _above(xp: Any, x: Array) -> Array:
    """The point with this spatial part."""
    return xp.concat([lift(xp, x)[0], x], axis=-1)


def _lift_tangent(xp: Any, x: Array, time: Array, v: Array) -> Array:
    """The tangent vector at (time, x) with spatial part v: Minkowski-orthogonal to the point."""
    return xp.concat([dot(xp, x, v) / time, v], axis=-1)


def _boost(xp: Any, x: Array, time: Array, z0: Any, z: Array) -> tuple[Array, Array]:
    """(z0, z) carried by the boost that takes the origin to (time, x)."""
    along = dot(xp, x, z)
    return time * z0 + along, z + (z0 + along / (1 + time)) * x


def _unboost(xp: Any, x: Array, time: Array, v: Array) -> Array:
    """Coordinates of the tangent vector with spatial part v, for x not far out: the inverse of `_boost` there."""
    return v - dot(xp, x, v) / (time * (1 + time)) * x


def _split(
    xp: Any, x: Array, time: Array, length: Array, v: Array
) -> tuple[Array, Array]:
    """Riemannian component along the radial unit vector, and the part across it, of a tangent vector's spatial part."""
    return dot(xp, x, v) / xp.where(length == 0, 1.0, length) / time, reject(xp, v, x)


def _sinh_radial(
    xp: Any, x: Array, y: Array, x0: Array, y0: Array, x_length: Array, y_length: Array
) -> Array:
    """sinh(b - a) for the distances a, b of x, y from the origin: |y|x0 - |x|y0, its difference taken exactly."""
    total = y_length * x0 + x_length * y0
    return dot(xp, y - x, y + x) / xp.where(total == 0, 1.0, total)


def _chord(xp: Any, p: Array, q: Array, p_length: Array, q_length: Array) -> Array:
    """2 sinh(d/2) from spatial parts and their lengths, as a sum of positive terms."""
    swap = p_length > q_length
    x, y = xp.where(swap, q, p), xp.where(swap, p, q)
    x_length, y_length = (
        xp.where(swap, q_length, p_length),
        xp.where(swap, p_length, q_length),
    )  # |x| <= |y|
    x0, y0 = hypot1(xp, x_length), hypot1(xp, y_length)

    def near() -> Array:
        """The chord of the ball model, |u - w| √((1+x0)(1+y0)) with w = x/(1+x0), u = y/(1+y0)."""
        difference = y - x
        rise = dot(xp, difference, x + y) / (x0 + y0)
        return euclidean_norm(xp, difference - rise / (1 + x0) * x)[
            ..., None
        ] * xp.sqrt((1 + x0) / (1 + y0))

    def far() -> Array:
        """sinh²(d/2) = sinh²((a-b)/2) + |x||y| sin²(φ/2), the half-angle law of cosines."""
        sinh = _sinh_radial(xp, x, y, x0, y0, x_length, y_length)
        radial = sinh * xp.sqrt(2 / (1 + hypot1(xp, sinh)))
        safe_x, safe_y = (
            xp.where(length == 0, 1.0, length) for length in (x_length, y_length)
        )
        sine = euclidean_norm(xp, reject(xp, x, y) / safe_x)[..., None]
        cosine = dot(xp, x / safe_x, y / safe_y)
        ahead = cosine > 0
        small = sine * xp.sqrt(2 / (1 + xp.where(ahead, cosine, 0.0)))
        large = xp.sqrt(2 - 2 * xp.where(ahead, 0.0, cosine))
        angular = xp.sqrt(safe_x) * xp.sqrt(safe_y) * xp.where(ahead, small, large)
        return euclidean_norm(xp, xp.concat([radial, angular], axis=-1))[..., None]

    return either(xp, x_length < _NEAR, near, far)


def _quick_chord(
    x: list[Array], y: list[Array]
) -> tuple[Array, Array, list[Array], list[Array], Array]:
    """(chord² = 4 sinh²(d/2), where it is good, x, y − x, time of x), coordinate by coordinate."""
    x0, y0 = np.sqrt(1 + dot_lists(x, x)), np.sqrt(1 + dot_lists(y, y))
    difference = [b - a for a, b in zip(x, y, strict=True)]
    rise = dot_lists(difference, list(map(add, x, y))) / (x0 + y0)
    square = np.maximum(dot_lists(difference, difference) - rise * rise, 0.0)
    return (
        square,
        (np.maximum(x0, y0) < _LARGEST_TIME) & (square > _SQUARES),
        x,
        difference,
        x0,
    )
