"""The ball model of hyperbolic space."""

import numpy as np

from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.hyperbolic import Hyperbolic, dot, far_exp, lift, turn
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import (
    direction,
    euclidean_norm,
    one_minus_square,
    reject,
    tanhc,
)

_NEAR = 0.5  # Inside this Euclidean length the plain forms lose at most a digit.


class PoincareBall(Hyperbolic):
    """The open unit ball of R^d with metric 4|dw|²/(1-|w|²)². Float64 resolves it out to distance about 37.

    1 - |w|² is formed in twice the working precision, so points at norm 1 - 1e-12 keep their digits. A result that
    would round onto the boundary is kept at norm 1 - 4u or so: points stay points.

    Parameters
    ----------
    d : int
        The dimension.

    Examples
    --------
    >>> M = PoincareBall(2)
    >>> float(M.dist(M.origin, np.array([np.tanh(0.5), 0.0])))
    1.0
    """

    kind = "poincare"
    point_shape = fact(lambda self: (self.d,))
    origin = property(lambda self: np.zeros(self.d))
    float_reach = 36.0  # 1 − |x| = 2e^-r, above half an ulp of 1

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        gap = one_minus_square(xp, p)[..., None]
        z = 2 / gap * v
        # From anywhere in the ball of floats, 128 leads past every float: longer steps need not overflow.
        step = euclidean_norm(xp, z)[..., None]
        shrink = xp.where(step > 128.0, 128.0 / xp.where(step > 128.0, step, 1.0), 1.0)
        z = shrink * z
        length = euclidean_norm(xp, p)[..., None]
        inside = length < _NEAR
        # near: Möbius addition of p and y = tanh(|z|/2) z/|z|
        w = xp.where(inside, p, 0.0)
        y = tanhc(xp, xp.vecdot(z, z)[..., None] / 4) * z / 2
        middle, square = 1 + 2 * dot(xp, w, y), dot(xp, y, y)
        near = ((middle + square) * w + gap * y) / (middle + dot(xp, w, w) * square)
        # far: through the hyperboloid, in polar form
        along = dot(xp, z, p) / xp.where(length == 0, 1.0, length)
        across = reject(xp, v, p) * (2 / gap) * shrink
        spatial = far_exp(
            xp,
            2 / gap * p,
            (1 + length * length) / gap,
            2 * length / gap,
            along,
            across,
        )
        return self.project(
            xp.where(inside, near, spatial / (1 + lift(xp, spatial)[0]))
        )

    def log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        gap = one_minus_square(xp, p)[..., None]
        difference = q - p
        # (-p) ⊕ q is along this vector, whose length is |q-p| √(gap_p gap_q + |q-p|²): its terms do not cancel.
        direction = gap * difference - dot(xp, difference, difference) * p
        length = euclidean_norm(xp, direction)[..., None]
        none = length == 0
        far = self.dist(p, q)[..., None] * gap / 2 / xp.where(none, 1.0, length)
        return xp.where(none, 1 / gap, far) * direction

    def dist(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        gaps = xp.sqrt(one_minus_square(xp, p)) * xp.sqrt(one_minus_square(xp, q))
        return 2 * xp.asinh(euclidean_norm(xp, q - p) / gaps)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        xp = namespace(p, q, v)
        difference = q - p
        gap_p, gap_q = (
            one_minus_square(xp, p)[..., None],
            one_minus_square(xp, q)[..., None],
        )
        depth = (gap_p + gap_q + dot(xp, difference, difference)) / 2  # 1 - <p,q>
        return turn(xp, p, reject(xp, q, p), depth, gap_q / gap_p * v)

    def project(self, x: Array) -> Array:
        """x itself inside the ball; from its boundary on, the last float inside on the ray to x. A point that was
        rounded onto the boundary is far out in its direction, and a public ball brings it back along it."""
        xp = namespace(x)
        inside = one_minus_square(xp, x)[..., None] > 0
        inward = 1 - 4 * float(xp.finfo(x.dtype).eps)
        return xp.where(inside, x, inward * direction(xp, xp.where(inside, 1.0, x)))

    def to_tangent(self, p: Array, x: Array) -> Array:
        return namespace(p, x).broadcast_arrays(p, x)[1]

    def residual(self, p: Array) -> Array:
        """0 inside the open ball, |p| on its boundary and outside."""
        xp = namespace(p)
        return xp.where(one_minus_square(xp, p) > 0, 0.0, euclidean_norm(xp, p))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return one_minus_square(namespace(p, z), p)[..., None] / 2 * z

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return 2 / one_minus_square(namespace(p, v), p)[..., None] * v
