"""The ball model of hyperbolic space. Points are vectors of length below 1. The Möbius
sum p ⊕ s is the image of s under the isometry that moves the origin to p along their
geodesic.
"""

from typing import Any

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

# Up to this Euclidean length of a point the plain formulas lose at most a digit.
_NEAR = 0.5

# A step of this length leads from any point of the ball to its boundary, as far as floats
# can tell. Longer steps are shortened to it.
_LONGEST_STEP = 128.0


class PoincareBall(Hyperbolic):
    """The open unit ball of R^d with the metric 4|dw|²/(1 − |w|²)².

    Float64 resolves points up to a distance of about 35 from the origin. The number
    1 − |w|² is computed in twice the working precision, so that points of norm
    1 − 1e-12 keep their digits. A point or a result that would be rounded onto the
    boundary is moved to a norm of about 1 − 4u, where u is the unit round-off.

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

    # At distance r, 1 − |x| is about 2e^−r. For r = 36 this is half the spacing of
    # floats below 1.
    max_representable_distance = 36.0

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a vector of d numbers, of length below 1."""
        return (self.d,)

    @property
    def origin(self) -> Array:
        """The center of the ball, the zero vector."""
        return np.zeros(self.d)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        The end is the Möbius sum of p and tanh(|z|/2)·z/|z|, where z are the orthonormal
        coordinates of v. This formula is used near the origin. Farther out it would
        lose digits, and the end is computed on the hyperboloid, in polar coordinates.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        xp = namespace(p, v)
        gap = one_minus_square(xp, p)[..., None]  # 1 − |p|²

        # The orthonormal coordinates of v, shortened if the step is very long.
        coordinates = 2 / gap * v
        step_length = euclidean_norm(xp, coordinates)[..., None]
        is_long = step_length > _LONGEST_STEP
        shrink_long = _LONGEST_STEP / xp.where(is_long, step_length, 1.0)
        shrink = xp.where(is_long, shrink_long, 1.0)
        coordinates = shrink * coordinates
        tangential = orthogonal_part(xp, v, p) * (2 / gap) * shrink

        # Near the origin, by the Möbius sum. Points that are not near are masked.
        is_near = euclidean_norm(xp, p)[..., None] < _NEAR
        near = _mobius_exp(xp, xp.where(is_near, p, 0.0), gap, coordinates)
        far = _hyperboloid_exp(xp, p, gap, coordinates, tangential)
        return self.project(xp.where(is_near, near, far))

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of the geodesic to q.

        The velocity has the length dist(p, q) and points along the Möbius difference
        (−p) ⊕ q. With g = 1 − |p|² and h = 1 − |q|² this is the direction of
        g(q − p) − |q − p|²p, a vector of Euclidean length |q − p|√(gh + |q − p|²) whose
        terms do not cancel.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        xp = namespace(p, q)
        gap = one_minus_square(xp, p)[..., None]  # g
        difference = q - p
        along_geodesic = gap * difference - dot(xp, difference, difference) * p
        length = euclidean_norm(xp, along_geodesic)[..., None]
        coincide = length == 0
        euclidean_length = self.dist(p, q)[..., None] * gap / 2  # of the velocity
        scale = euclidean_length / xp.where(coincide, 1.0, length)
        return xp.where(coincide, 1 / gap, scale) * along_geodesic

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is 2·arsinh(|q − p|/√((1 − |p|²)(1 − |q|²))).

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        q : array, shape (..., *point_shape)
            Another point.

        Returns
        -------
        array of shape (...)
            The distances.
        """
        xp = namespace(p, q)
        gaps = xp.sqrt(one_minus_square(xp, p)) * xp.sqrt(one_minus_square(xp, q))
        return 2 * xp.asinh(euclidean_norm(xp, q - p) / gaps)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport.

        The vector is rotated (`rotate_by_holonomy`), and multiplied by
        (1 − |q|²)/(1 − |p|²), so that its length under the metric stays the same.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        v : array of shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved vectors, which are tangent at q.
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
        """Return x if it is inside the open unit ball; otherwise move it just inside.

        A point outside, or rounded onto the boundary, goes to norm 1 − 4u in the same
        direction, where u is the unit round-off of its type.

        Parameters
        ----------
        x : array of shape (..., d)
            Any vectors.

        Returns
        -------
        array of shape (..., d)
            Points of the open ball.
        """
        xp = namespace(x)
        is_inside = one_minus_square(xp, x)[..., None] > 0
        largest_norm = 1 - 4 * float(xp.finfo(x.dtype).eps)
        unit = direction(xp, xp.where(is_inside, 1.0, x))
        return xp.where(is_inside, x, largest_norm * unit)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return x itself: every vector of R^d is tangent at every point p of the ball."""
        _, tangent = namespace(p, x).broadcast_arrays(p, x)
        return tangent

    def residual(self, p: Array) -> Array:
        """Return 0 for a point p of the open ball, and |p| on its boundary and outside.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals; 0 on the manifold.
        """
        xp = namespace(p)
        return xp.where(one_minus_square(xp, p) > 0, 0.0, euclidean_norm(xp, p))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector (1 − |p|²)/2·z at p, with orthonormal coordinates z.

        The metric at p is 4/(1 − |p|²)² times that of R^d, so this vector is as long as
        z.
        """
        return one_minus_square(namespace(p, z), p)[..., None] / 2 * z

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates 2/(1 − |p|²)·v of a tangent vector v at p.

        The metric at p is 4/(1 − |p|²)² times that of R^d, so they are as long as v.
        """
        return 2 / one_minus_square(namespace(p, v), p)[..., None] * v


def _hyperboloid_exp(
    xp: Any, p: Array, gap: Array, coordinates: Array, tangential: Array
) -> Array:
    """Return the end of a geodesic from p, computed on the hyperboloid.

    The point of the hyperboloid that corresponds to p has the spatial part
    2p/(1 − |p|²).

    Parameters
    ----------
    xp : module
        The array library.
    p : array of shape (..., d)
        Points of the ball.
    gap : array of shape (..., 1)
        1 − |p|².
    coordinates : array of shape (..., d)
        The orthonormal coordinates of the velocities.
    tangential : array of shape (..., d)
        The part of the coordinates orthogonal to p.

    Returns
    -------
    array of shape (..., d)
        The end points, in the ball.
    """
    length = euclidean_norm(xp, p)[..., None]
    radial = dot(xp, coordinates, p) / xp.where(length == 0, 1.0, length)
    spatial = polar_exp(
        xp,
        x=2 / gap * p,
        time=(1 + length * length) / gap,
        length=2 * length / gap,
        radial=radial,
        tangential=tangential,
    )
    time, _ = lift(xp, spatial)
    return spatial / (1 + time)


def _mobius_exp(xp: Any, p: Array, gap: Array, coordinates: Array) -> Array:
    """Return the Möbius sum of p and s = tanh(|z|/2)·z/|z|, which is exp at p.

    The sum is p ⊕ s = ((1 + 2⟨p, s⟩ + |s|²)·p + (1 − |p|²)·s)/(1 + 2⟨p, s⟩ + |p|²|s|²).

    Parameters
    ----------
    xp : module
        The array library.
    p : array of shape (..., d)
        Points of the ball, not far from the origin.
    gap : array of shape (..., 1)
        1 − |p|².
    coordinates : array of shape (..., d)
        z, the orthonormal coordinates of the velocities.

    Returns
    -------
    array of shape (..., d)
        The end points.
    """
    square = xp.vecdot(coordinates, coordinates)[..., None]
    s = tanhc(xp, square / 4) * coordinates / 2
    one_plus_twice_inner = 1 + 2 * dot(xp, p, s)
    s_square = dot(xp, s, s)
    numerator = (one_plus_twice_inner + s_square) * p + gap * s
    return numerator / (one_plus_twice_inner + dot(xp, p, p) * s_square)
