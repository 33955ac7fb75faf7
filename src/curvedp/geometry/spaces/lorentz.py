"""The hyperboloid model of hyperbolic space. A point is a vector (x₀, x) with the time
coordinate x₀ = cosh a and the spatial part x, a vector of length sinh a, where a is the
distance from the origin (1, 0, …, 0). The Minkowski product of two vectors is −x₀y₀ +
⟨x, y⟩; a boost is an isometry that moves a given point to the origin or back.
"""

from functools import cached_property
from operator import add, mul
from typing import Any, NamedTuple

import numpy as np

from curvedp.geometry.capabilities import UnitQuadric
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.hyperbolic import (
    Hyperbolic,
    apply_where,
    dot,
    hypot_one,
    in_cache_blocks,
    lift,
    polar_exp,
    rotate_by_holonomy,
)
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import (
    columns,
    cosh_sinhc,
    dot_lists,
    euclidean_norm,
    fast_path,
    orthogonal_part,
)

# A square above this number has not lost digits to underflow.
_LEAST_SQUARE = 1e-250

# Up to this time coordinate the plain formula |y − x|² − (y₀ − x₀)² for a squared chord is
# accurate: cancellation multiplies its relative error by at most 2·8².
_LARGEST_TIME = 8.0

# Up to this length of the spatial part the plain formulas lose at most a digit.
_NEAR = 1.0


class Lorentz(Hyperbolic, UnitQuadric):
    """The upper sheet of −x₀² + |x|² = −1 in R^{d+1}, time coordinate first.

    Kernels read only the spatial part x of points and tangent vectors, and compute the
    time coordinate √(1 + |x|²) from it. So the round-off of a given time coordinate
    cannot change a result.

    The relative errors of `dist` and of the vector `log` are a few units of round-off,
    up to a distance of 300 from the origin, and nothing overflows up to there. Tangent
    vectors far from the origin cannot be as accurate: at distance a, the floats of a
    vector determine it to e^a units of round-off of its length. So exp(p, log(p, q))
    differs from q by about as much, whatever the algorithm.

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
    max_representable_distance = 350.0  # coordinates are e^r, squared in the lift

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a vector of d + 1 numbers: the time coordinate and d spatial ones."""
        return (self.d + 1,)

    @property
    def origin(self) -> Array:
        """The point (1, 0, …, 0), whose spatial part is 0."""
        return np.eye(1, self.d + 1)[0]

    @cached_property
    def embedding_signature(self) -> np.ndarray:
        """The signs sᵢ in Σ sᵢxᵢ² = −1: −1 for the time coordinate, +1 for the others."""
        return np.array([-1.0] + [1.0] * self.d)

    @in_cache_blocks
    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        The end is cosh|v|·p + sinh|v|·v/|v|, with the hyperbolic length |v| of v. If p
        is near the origin, a boost moves the velocity to the origin first. Farther out
        this would lose digits by cancellation. There the velocity is split into its
        part along the spatial part of p and the part orthogonal to it.

        Parameters
        ----------
        p : array, shape (..., d + 1)
            A point.
        v : array, shape (..., d + 1)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        xp = namespace(p, v)
        x = columns(p[..., 1:])
        velocity = columns(v[..., 1:])
        time, length = lift(xp, x)
        is_near = length < _NEAR

        def near() -> Array:
            """Return the end's spatial part by boosts, for points p near the origin."""
            # Points that are not near are masked: this form may overflow there.
            at_origin = xp.where(is_near, _unboost(xp, x, time, velocity), 0.0)
            near_x = xp.where(is_near, x, 0.0)
            cosh, sinhc = cosh_sinhc(xp, dot(xp, at_origin, at_origin))
            _, space = _boost(xp, near_x, time, cosh, sinhc * at_origin)
            return space

        def far() -> Array:
            """Return the end's spatial part in polar form, for points p farther out."""
            radial, tangential = _split_tangent(xp, x, time, length, velocity)
            return polar_exp(xp, x, time, length, radial, tangential)

        return _point_above(xp, apply_where(xp, is_near, near, far))

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of the geodesic to q: (D/sinh D)·(q − cosh(D)·p).

        D is the distance of p and q. For most points a fast formula is used, coordinate
        by coordinate. Where that is not accurate, `_careful_log` is used.

        Parameters
        ----------
        p : array, shape (..., d + 1)
            The point at which the velocity is tangent.
        q : array, shape (..., d + 1)
            The point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """

        def fast(p: list[Array], q: list[Array]) -> tuple[Array, Array]:
            """Return the velocities from p to q, and where they are accurate.

            Both arguments are lists with one array for each coordinate, which is faster
            for batches of short vectors.
            """
            chord = _chord_by_coordinates(p[1:], q[1:])

            # D/sinh D for the distance D, computed as in `_distance_over_sinh`.
            length = np.sqrt(chord.square)
            sinh = length * np.sqrt(1 + chord.square / 4)
            factor = 2 * np.arcsinh(length / 2) / sinh

            # With the spatial parts x and y, y − cosh(D)·x = (y − x) − (chord²/2)·x.
            half_square = 0.5 * chord.square
            velocity = []
            for coordinate, difference in zip(chord.x, chord.difference, strict=True):
                velocity.append(factor * (difference - half_square * coordinate))
            # The time coordinate that makes the velocity tangent at p.
            time = sum(map(mul, chord.x, velocity)) / chord.x_time
            entries = np.broadcast_arrays(time, *velocity)
            return np.stack(entries, axis=-1), chord.is_accurate

        return fast_path(self._careful_log, fast, p, q)

    @in_cache_blocks
    def _careful_log(self, p: Array, q: Array) -> Array:
        """Return the logarithm for points at any distance from the origin.

        `log` calls this method where its fast formula is not accurate. Let x and y be
        the spatial parts of p and q, and D their distance. The spatial part of the
        logarithm is (D/sinh D)·(y − cosh(D)·x). For p near the origin it is computed by
        boosts (`_near_direction`). Farther out it is split into the part along x and
        the part orthogonal to x (`_far_direction`).

        Parameters
        ----------
        p : array, shape (..., d + 1)
            The point at which the velocity is tangent.
        q : array, shape (..., d + 1)
            The point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        xp = namespace(p, q)
        x = columns(p[..., 1:])
        y = columns(q[..., 1:])
        x_time, x_length = lift(xp, x)
        y_time, y_length = lift(xp, y)
        chord = _chord(xp, x, y, x_length, y_length)
        factor = _distance_over_sinh(xp, chord)
        is_near = x_length < _NEAR

        def near() -> Array:
            """Return the spatial part by boosts, for points p near the origin."""
            at_origin = _near_direction(xp, x, y, x_time, y_time)
            # Points that are not near are masked: this form may overflow there.
            at_origin = xp.where(is_near, factor * at_origin, 0.0)
            near_x = xp.where(is_near, x, 0.0)
            _, space = _boost(xp, near_x, x_time, 0.0, at_origin)
            return space

        def far() -> Array:
            """Return the spatial part by its parts along x and orthogonal to it."""
            safe_length = xp.where(x_length == 0, 1.0, x_length)
            radial, tangential = _far_direction(
                xp, x, y, x_time, y_time, x_length, y_length
            )
            # The radial unit vector has the spatial part x₀·x/|x|.
            return factor * radial * x_time / safe_length * x + factor * tangential

        return _tangent_above(xp, x, x_time, apply_where(xp, is_near, near, far))

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is 2·arsinh(chord/2), where the chord is the Minkowski length of q − p, the
        root of the Minkowski product of q − p with itself.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        array of shape (...)
            The distances.
        """

        def fast(p: list[Array], q: list[Array]) -> tuple[Array, Array]:
            """Return the distances of p and q, and where they are accurate.

            Both arguments are lists with one array for each coordinate, which is faster
            for batches of short vectors.
            """
            chord = _chord_by_coordinates(p[1:], q[1:])
            return 2 * np.arcsinh(0.5 * np.sqrt(chord.square)), chord.is_accurate

        return fast_path(self._careful_dist, fast, p, q)

    @in_cache_blocks
    def _careful_dist(self, p: Array, q: Array) -> Array:
        """Return the distance of two points that may be far from the origin.

        `dist` calls this method where its fast formula is not accurate.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        array of shape (...)
            The distances.
        """
        xp = namespace(p, q)
        x = columns(p[..., 1:])
        y = columns(q[..., 1:])
        x_length = euclidean_norm(xp, x)[..., None]
        y_length = euclidean_norm(xp, y)[..., None]
        chord = _chord(xp, x, y, x_length, y_length)
        return 2 * xp.asinh(chord[..., 0] / 2)

    @in_cache_blocks
    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport along the geodesic.

        The orthonormal coordinates of v at p are rotated by the area of the triangle of
        p, q and the origin (`rotate_by_holonomy`). The results are the coordinates at q
        of the transported vector.

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
        x = columns(p[..., 1:])
        y = columns(q[..., 1:])
        x_time, x_length = lift(xp, x)
        y_time, y_length = lift(xp, y)
        chord = _chord(xp, x, y, x_length, y_length)

        # The points w = x/(1+x₀) and u = y/(1+y₀) of the ball model, and 1 − ⟨w, u⟩, for
        # which x₀y₀ − ⟨x, y⟩ = cosh D = 1 + chord²/2.
        w = x / (1 + x_time)
        u_orthogonal = orthogonal_part(xp, y, x) / (1 + y_time)
        numerator = 2 + x_time + y_time + chord * chord / 2
        one_minus_inner = numerator / ((1 + x_time) * (1 + y_time))

        z = self.to_coordinates(p, v)
        rotated = rotate_by_holonomy(xp, w, u_orthogonal, one_minus_inner, z)
        return self.from_coordinates(q, rotated)

    def project(self, x: Array) -> Array:
        """Return the point of the hyperboloid with the same spatial part as x.

        Its time coordinate is √(1 + |y|²), where y is the spatial part. A rounded point
        is changed by no more than its rounding error. Far from the origin the time
        coordinate has no more information than the spatial part.

        Parameters
        ----------
        x : array of shape (..., d + 1)
            Any numbers; the time coordinate, which comes first, is not used.

        Returns
        -------
        array of shape (..., d + 1)
            The points.
        """
        return _point_above(namespace(x), x[..., 1:])

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return x + ⟨p, x⟩·p with the Minkowski product ⟨p, x⟩.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        x : array of shape (..., *point_shape)
            Any array.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        xp = namespace(p, x)
        space = p[..., 1:]
        time, _ = lift(xp, space)
        minkowski = dot(xp, space, x[..., 1:]) - time * x[..., :1]
        return _tangent_above(xp, space, time, x[..., 1:] + minkowski * space)

    def residual(self, p: Array) -> Array:
        """Return the relative error of the time coordinate of an array p.

        It is |p₀ − t|/t with t = √(1 + |x|²), where x is the spatial part of p.

        Parameters
        ----------
        p : array of shape (..., d + 1)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals.
        """
        xp = namespace(p)
        time, _ = lift(xp, p[..., 1:])
        return (xp.abs(p[..., :1] - time) / time)[..., 0]

    @in_cache_blocks
    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        It is the image of (0, z), a tangent vector at the origin, under the boost that
        takes the origin to p.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        z : array, shape (..., dim)
            Coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        xp = namespace(p, z)
        x = columns(p[..., 1:])
        time_of_p, _ = lift(xp, x)
        time, space = _boost(xp, x, time_of_p, 0.0, z)
        return xp.concat([time, space], axis=-1)

    @in_cache_blocks
    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        They are the spatial part of v after the boost that takes p to the origin.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        xp = namespace(p, v)
        x = columns(p[..., 1:])
        velocity = columns(v[..., 1:])
        time, length = lift(xp, x)

        def near() -> Array:
            """Return the coordinates by the boost, for points near the origin."""
            return _unboost(xp, x, time, velocity)

        def far() -> Array:
            """Return the coordinates by the parts of v along x and orthogonal to it."""
            radial, tangential = _split_tangent(xp, x, time, length, velocity)
            return tangential + radial / xp.where(length == 0, 1.0, length) * x

        return apply_where(xp, length < _NEAR, near, far)


def _point_above(xp: Any, x: Array) -> Array:
    """Return the point of the hyperboloid with a given spatial part.

    Parameters
    ----------
    xp : module
        The array library.
    x : array of shape (..., d)
        Spatial parts.

    Returns
    -------
    array of shape (..., d + 1)
        The points: √(1 + |x|²) first, and then x.
    """
    time, _ = lift(xp, x)
    return xp.concat([time, x], axis=-1)


def _tangent_above(xp: Any, x: Array, time: Array, v: Array) -> Array:
    """Return the tangent vector at (time, x) with spatial part v.

    Its time coordinate makes it Minkowski-orthogonal to the point.

    Parameters
    ----------
    xp : module
        The array library.
    x : array, shape (..., d)
        The spatial part of the point.
    time : array, shape (..., 1)
        Its time coordinate.
    v : array, shape (..., d)
        The spatial part of the tangent vector.

    Returns
    -------
    array, shape (..., d + 1)
        The tangent vector, time coordinate first.
    """
    return xp.concat([dot(xp, x, v) / time, v], axis=-1)


def _boost(xp: Any, x: Array, time: Array, z0: Any, z: Array) -> tuple[Array, Array]:
    """Apply the boost that takes the origin to the point (time, x) to a vector (z0, z).

    The boost is the isometry of the hyperboloid that acts in the plane of x and the time
    axis, and leaves vectors orthogonal to this plane unchanged.

    Parameters
    ----------
    xp : module
        The array library.
    x : array, shape (..., d)
        The spatial part of a point.
    time : array, shape (..., 1)
        Its time coordinate.
    z0 : array or float
        The time coordinate of the vector; 0 if it is tangent at the origin.
    z : array, shape (..., d)
        Its spatial part.

    Returns
    -------
    image_time : array, shape (..., 1)
        The time coordinate of the image.
    image_space : array, shape (..., d)
        Its spatial part.
    """
    along = dot(xp, x, z)
    return time * z0 + along, z + (z0 + along / (1 + time)) * x


def _unboost(xp: Any, x: Array, time: Array, v: Array) -> Array:
    """Apply the boost that takes a point to the origin to a tangent vector at the point.

    This is the inverse of `_boost`. It is accurate only for points that are not far
    from the origin.

    Parameters
    ----------
    xp : module
        The array library.
    x : array, shape (..., d)
        The spatial part of the point.
    time : array, shape (..., 1)
        Its time coordinate.
    v : array, shape (..., d)
        The spatial part of a tangent vector there.

    Returns
    -------
    array, shape (..., d)
        The spatial part of the image, which is tangent at the origin: the orthonormal
        coordinates of the vector.
    """
    return v - dot(xp, x, v) / (time * (1 + time)) * x


def _split_tangent(
    xp: Any, x: Array, time: Array, length: Array, v: Array
) -> tuple[Array, Array]:
    """Split a tangent vector at a point into its radial and its tangential part.

    The radial direction is that of the geodesic from the origin through the point.

    Parameters
    ----------
    xp : module
        The array library.
    x, time, length : arrays, shapes (..., d), (..., 1) and (..., 1)
        Spatial part of the point, its time coordinate, and |x|.
    v : array, shape (..., d)
        Spatial part of the tangent vector.

    Returns
    -------
    radial : array, shape (..., 1)
        The component of v along the radial unit vector, under the hyperbolic metric.
    tangential : array, shape (..., d)
        The part of v orthogonal to x.
    """
    radial = dot(xp, x, v) / xp.where(length == 0, 1.0, length) / time
    return radial, orthogonal_part(xp, v, x)


def _near_direction(xp: Any, x: Array, y: Array, x_time: Array, y_time: Array) -> Array:
    """Return the vector y − cosh(D)·x, moved to the origin by a boost.

    The vector points along the logarithm of y at x; D is the distance of the points.
    Differences are formed before the boost, so that near points keep their digits. The
    formula is accurate only if x is not far from the origin.

    Parameters
    ----------
    xp : module
        The array library.
    x, y : arrays of shape (..., d)
        The spatial parts of two points.
    x_time, y_time : arrays of shape (..., 1)
        Their time coordinates.

    Returns
    -------
    array of shape (..., d)
        The spatial part of the vector, which is tangent at the origin.
    """
    difference = y - x
    time_difference = dot(xp, difference, x + y) / (x_time + y_time)
    along = dot(xp, x, difference) / (1 + x_time)
    return difference + x * (along - time_difference)


def _far_direction(
    xp: Any,
    x: Array,
    y: Array,
    x_time: Array,
    y_time: Array,
    x_length: Array,
    y_length: Array,
) -> tuple[Array, Array]:
    """Return the parts of y − cosh(D)·x along x and across it, for x far from the origin.

    This vector at x points along the logarithm of y; D is the distance of the points.
    With x̂ = x/|x| its component along the radial unit vector at x is x₀⟨x̂, y⟩ − |x|y₀.
    This formula is used for y near the origin. For other y its terms cancel, and an
    equal expression is used: sinh(b − a) − x₀(|y| − ⟨x̂, y⟩), where a and b are the
    distances of x and y from the origin.

    Parameters
    ----------
    xp : module
        The array library.
    x, y : arrays of shape (..., d)
        The spatial parts of two points.
    x_time, y_time : arrays of shape (..., 1)
        Their time coordinates x₀, y₀.
    x_length, y_length : arrays of shape (..., 1)
        The lengths |x|, |y|.

    Returns
    -------
    radial : array of shape (..., 1)
        The component along the radial unit vector at x.
    tangential : array of shape (..., d)
        The part of y orthogonal to x.
    """
    safe_length = xp.where(x_length == 0, 1.0, x_length)
    tangential = orthogonal_part(xp, y, x)
    y_along_x = dot(xp, x, y) / safe_length  # ⟨x̂, y⟩
    radial_if_near = x_time * y_along_x - x_length * y_time

    # |y| − ⟨x̂, y⟩. If y is on the side of x, it is computed without cancellation as
    # (|y|² − ⟨x̂, y⟩²)/(|y| + ⟨x̂, y⟩).
    is_ahead = y_along_x > 0
    tangential_square = dot(xp, tangential, tangential)
    gap_ahead = tangential_square / xp.where(is_ahead, y_length + y_along_x, 1.0)
    gap = xp.where(is_ahead, gap_ahead, y_length - y_along_x)
    sinh_radial = _sinh_radial(xp, x, y, x_time, y_time, x_length, y_length)
    radial_if_far = sinh_radial - x_time * gap
    return xp.where(y_length < _NEAR, radial_if_near, radial_if_far), tangential


def _sinh_radial(
    xp: Any,
    x: Array,
    y: Array,
    x_time: Array,
    y_time: Array,
    x_length: Array,
    y_length: Array,
) -> Array:
    """Return sinh(b − a) for the distances a, b of x, y from the origin.

    sinh(b − a) = |y|x₀ − |x|y₀ = (|y|² − |x|²)/(|y|x₀ + |x|y₀), and the difference of
    squares is ⟨y − x, y + x⟩, which does not cancel.

    Parameters
    ----------
    xp : module
        The array library.
    x, y : arrays of shape (..., dim)
        The spatial parts of two points.
    x_time, y_time : arrays
        Their time coordinates x₀, y₀.
    x_length, y_length : arrays
        The lengths |x|, |y| of their spatial parts.

    Returns
    -------
    array of shape (..., 1)
        sinh(b − a).
    """
    total = y_length * x_time + x_length * y_time
    return dot(xp, y - x, y + x) / xp.where(total == 0, 1.0, total)


def _chord(xp: Any, p: Array, q: Array, p_length: Array, q_length: Array) -> Array:
    """Return the chord 2·sinh(D/2) of two points at the distance D.

    Let x and x₀ be the spatial part and the time coordinate of the point nearer to the
    origin, and y and y₀ those of the other point. Two formulas are used, and neither
    subtracts numbers that nearly cancel:

    - Near the origin the chord is computed in the ball model, as
      |u − w|·√((1+x₀)(1+y₀)) with w = x/(1+x₀) and u = y/(1+y₀).
    - Farther out it follows from the half-angle law of cosines, sinh²(D/2) =
      sinh²((b−a)/2) + |x||y|·sin²(φ/2). Here a and b are the distances from the origin,
      and φ is the angle between x and y.

    Parameters
    ----------
    xp : module
        The array library.
    p, q : array, shape (..., dim)
        The spatial parts of two points.
    p_length, q_length : array, shape (..., 1)
        Their lengths.

    Returns
    -------
    array, shape (..., 1)
        The chords.
    """
    is_swapped = p_length > q_length
    x = xp.where(is_swapped, q, p)
    y = xp.where(is_swapped, p, q)
    x_length = xp.where(is_swapped, q_length, p_length)  # |x| <= |y|
    y_length = xp.where(is_swapped, p_length, q_length)
    x_time = hypot_one(xp, x_length)
    y_time = hypot_one(xp, y_length)

    def near() -> Array:
        """Return the chord |u − w|·√((1+x₀)(1+y₀)), by the ball model."""
        difference = y - x
        time_difference = dot(xp, difference, x + y) / (x_time + y_time)
        scaled_difference = difference - time_difference / (1 + x_time) * x
        scale = xp.sqrt((1 + x_time) / (1 + y_time))
        return euclidean_norm(xp, scaled_difference)[..., None] * scale

    def far() -> Array:
        """Return the chord by the half-angle law of cosines.

        It is the length of the vector (2·sinh((b−a)/2), √(|x||y|)·2·sin(φ/2)), whose
        entries are called radial and angular.
        """
        sinh = _sinh_radial(xp, x, y, x_time, y_time, x_length, y_length)
        radial = sinh * xp.sqrt(2 / (1 + hypot_one(xp, sinh)))
        angular = _angular_chord(xp, x, y, x_length, y_length)
        return euclidean_norm(xp, xp.concat([radial, angular], axis=-1))[..., None]

    return apply_where(xp, x_length < _NEAR, near, far)


def _angular_chord(
    xp: Any, x: Array, y: Array, x_length: Array, y_length: Array
) -> Array:
    """Return √(|x||y|)·2·sin(φ/2) for the angle φ between x and y.

    It is the part of a chord that is due to the different directions of two points
    (`_chord`).

    Parameters
    ----------
    xp : module
        The array library.
    x, y : arrays of shape (..., d)
        The spatial parts of two points.
    x_length, y_length : arrays of shape (..., 1)
        Their lengths |x| and |y|.

    Returns
    -------
    array of shape (..., 1)
        The values.
    """
    safe_x_length = xp.where(x_length == 0, 1.0, x_length)
    safe_y_length = xp.where(y_length == 0, 1.0, y_length)
    sine = euclidean_norm(xp, orthogonal_part(xp, x, y) / safe_x_length)[..., None]
    cosine = dot(xp, x / safe_x_length, y / safe_y_length)
    root_of_lengths = xp.sqrt(safe_x_length) * xp.sqrt(safe_y_length)
    return root_of_lengths * _twice_sine_of_half(xp, sine, cosine)


def _distance_over_sinh(xp: Any, chord: Array) -> Array:
    """Return D/sinh D from the chord 2·sinh(D/2); 1 for D = 0.

    sinh D is computed as 2·sinh(D/2)·cosh(D/2).

    Parameters
    ----------
    xp : module
        The array library.
    chord : array
        The chords of pairs of points at the distance D.

    Returns
    -------
    array
        The factors, of the same shape.
    """
    sinh = chord * xp.sqrt(1 + chord * chord / 4)
    coincide = sinh == 0
    quotient = 2 * xp.asinh(chord / 2) / xp.where(coincide, 1.0, sinh)
    return xp.where(coincide, 1.0, quotient)


def _twice_sine_of_half(xp: Any, sine: Array, cosine: Array) -> Array:
    """Return 2·sin(φ/2) from the sine and the cosine of an angle φ between 0 and π.

    For acute angles it is sin φ·√(2/(1 + cos φ)), which keeps the digits of small
    angles. For other angles it is √(2 − 2·cos φ).

    Parameters
    ----------
    xp : module
        The array library.
    sine, cosine : arrays
        sin φ ≥ 0 and cos φ.

    Returns
    -------
    array
        2·sin(φ/2).
    """
    is_acute = cosine > 0
    acute_result = sine * xp.sqrt(2 / (1 + xp.where(is_acute, cosine, 0.0)))
    obtuse_result = xp.sqrt(2 - 2 * xp.where(is_acute, 0.0, cosine))
    return xp.where(is_acute, acute_result, obtuse_result)


class _Chord(NamedTuple):
    """The squared chord of pairs of points, with intermediate results that callers use.

    x and y are the spatial parts of the two points, and D is their distance.

    Attributes
    ----------
    square : array
        4·sinh²(D/2).
    is_accurate : array of bool
        True for the pairs whose square is accurate.
    x : list of arrays
        The coordinates of x.
    difference : list of arrays
        The coordinates of y − x.
    x_time : array
        The time coordinate √(1 + |x|²).
    """

    square: Array
    is_accurate: Array
    x: list[Array]
    difference: list[Array]
    x_time: Array


def _chord_by_coordinates(x: list[Array], y: list[Array]) -> _Chord:
    """Return the squared chord 4·sinh²(D/2) of two points, coordinate by coordinate.

    It is |y − x|² − (y₀ − x₀)², where x and y are the spatial parts of the points and
    x₀ and y₀ their time coordinates. The formula is accurate if neither point is far
    from the origin and the square has not underflowed.

    Parameters
    ----------
    x, y : lists of arrays
        The coordinates of the spatial parts: one array, with an element per pair of
        points, for each coordinate.

    Returns
    -------
    _Chord
        The squared chord, where it is accurate, and intermediate results.
    """
    x_time = np.sqrt(1 + dot_lists(x, x))
    y_time = np.sqrt(1 + dot_lists(y, y))
    difference = [
        y_coordinate - x_coordinate
        for x_coordinate, y_coordinate in zip(x, y, strict=True)
    ]
    total = list(map(add, x, y))
    # y₀ − x₀ = ⟨y − x, y + x⟩/(y₀ + x₀), which does not cancel.
    time_difference = dot_lists(difference, total) / (x_time + y_time)
    square = dot_lists(difference, difference) - time_difference * time_difference
    square = np.maximum(square, 0.0)
    is_inside = np.maximum(x_time, y_time) < _LARGEST_TIME
    is_accurate = is_inside & (square > _LEAST_SQUARE)
    return _Chord(square, is_accurate, x, difference, x_time)
