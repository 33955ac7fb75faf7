"""The ball model of hyperbolic space."""

import numpy as np

from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.hyperbolic import (
    Hyperbolic,
    dot,
    lift,
    polar_exp,
    rotate_by_holonomy,
)
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import (
    direction,
    euclidean_norm,
    one_minus_square,
    orthogonal_part,
    tanhc,
)

# Euclidean length up to which the plain forms lose at most a digit.
_NEAR = 0.5

# From anywhere in the ball of floats a step of this length leads past every float.
_LONGEST_STEP = 128.0


class PoincareBall(Hyperbolic):
    """The open unit ball of R^d with the metric 4|dw|²/(1 − |w|²)².

    Float64 resolves it out to distance about 37. 1 − |w|² is formed in twice the
    working precision, so points at norm 1 − 1e-12 keep their digits. A result that
    would round onto the boundary stays at norm 1 − 4u or so: points stay points.

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
    max_representable_distance = 36.0  # 1 − |x| = 2e^−r, above half an ulp of 1

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A vector of d numbers."""
        return (self.d,)

    @property
    def origin(self) -> Array:
        """The center of the ball."""
        return np.zeros(self.d)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        It is the Möbius sum of p and tanh(|z|/2)·z/|z|, where z are the orthonormal
        coordinates of v.

        Far from the origin it is computed through the hyperboloid, in polar form.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.
        """
        xp = namespace(p, v)
        gap = one_minus_square(xp, p)[..., None]
        coordinates = 2 / gap * v
        step = euclidean_norm(xp, coordinates)[..., None]
        is_long = step > _LONGEST_STEP
        shrink = xp.where(is_long, _LONGEST_STEP / xp.where(is_long, step, 1.0), 1.0)
        coordinates = shrink * coordinates
        length = euclidean_norm(xp, p)[..., None]
        is_near = length < _NEAR

        near_p = xp.where(is_near, p, 0.0)
        near_step = (
            tanhc(xp, xp.vecdot(coordinates, coordinates)[..., None] / 4)
            * coordinates
            / 2
        )
        middle = 1 + 2 * dot(xp, near_p, near_step)
        square = dot(xp, near_step, near_step)
        near = ((middle + square) * near_p + gap * near_step) / (
            middle + dot(xp, near_p, near_p) * square
        )

        radial = dot(xp, coordinates, p) / xp.where(length == 0, 1.0, length)
        tangential = orthogonal_part(xp, v, p) * (2 / gap) * shrink
        spatial = polar_exp(
            xp,
            2 / gap * p,
            (1 + length * length) / gap,
            2 * length / gap,
            radial,
            tangential,
        )
        far = spatial / (1 + lift(xp, spatial)[0])
        return self.project(xp.where(is_near, near, far))

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        It is the vector of length dist(p, q) along the Möbius difference (−p) ⊕ q.

        With gaps g = 1 − |p|² and h = 1 − |q|² it points along g(q − p) − |q − p|²p, a
        vector of length |q − p|√(gh + |q − p|²), whose terms do not cancel.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.
        """
        xp = namespace(p, q)
        gap = one_minus_square(xp, p)[..., None]
        difference = q - p
        direction = gap * difference - dot(xp, difference, difference) * p
        length = euclidean_norm(xp, direction)[..., None]
        coincide = length == 0
        scale = self.dist(p, q)[..., None] * gap / 2 / xp.where(coincide, 1.0, length)
        return xp.where(coincide, 1 / gap, scale) * direction

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is 2·arsinh(|q − p|/√((1 − |p|²)(1 − |q|²))).

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        q : array, shape (..., *point_shape)
            Another point.
        """
        xp = namespace(p, q)
        gaps = xp.sqrt(one_minus_square(xp, p)) * xp.sqrt(one_minus_square(xp, q))
        return 2 * xp.asinh(euclidean_norm(xp, q - p) / gaps)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport.

        The vector is rotated, and multiplied by the ratio of the scales of the metric
        at q and p.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        v : array of shape (..., *point_shape)
            A tangent vector at p.
        """
        xp = namespace(p, q, v)
        difference = q - p
        p_gap = one_minus_square(xp, p)[..., None]
        q_gap = one_minus_square(xp, q)[..., None]
        one_minus_inner = (p_gap + q_gap + dot(xp, difference, difference)) / 2
        return rotate_by_holonomy(
            xp, p, orthogonal_part(xp, q, p), one_minus_inner, q_gap / p_gap * v
        )

    def project(self, x: Array) -> Array:
        """Return x inside the ball, else the last float inside on the ray to x.

        A point that was rounded onto the boundary is far out in its direction, and a
        public ball brings it back along it.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, near the manifold as a rule.
        """
        xp = namespace(x)
        is_inside = one_minus_square(xp, x)[..., None] > 0
        largest_norm = 1 - 4 * float(xp.finfo(x.dtype).eps)
        unit = direction(xp, xp.where(is_inside, 1.0, x))
        return xp.where(is_inside, x, largest_norm * unit)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return x: every vector is tangent."""
        return namespace(p, x).broadcast_arrays(p, x)[1]

    def residual(self, p: Array) -> Array:
        """Return 0 inside the open ball, |p| on its boundary and outside."""
        xp = namespace(p)
        return xp.where(one_minus_square(xp, p) > 0, 0.0, euclidean_norm(xp, p))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return (1 − |p|²)/2·z."""
        return one_minus_square(namespace(p, z), p)[..., None] / 2 * z

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return 2/(1 − |p|²)·v."""
        return 2 / one_minus_square(namespace(p, v), p)[..., None] * v
