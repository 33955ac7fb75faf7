"""The hyperboloid model of hyperbolic space.

Notation: a point is (x₀, x) with time coordinate x₀ = cosh a = √(1 + |x|²) and spatial
part x of length sinh a, a the distance from the origin (1, 0, …, 0).
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

# Squares above this have not lost digits to underflow.
_LEAST_SQUARE = 1e-250

# Time coordinate up to which the plain chord |y − x|² − (y₀ − x₀)² keeps its digits: it
# loses a factor of 2·64.
_LARGEST_TIME = 8.0

# Length of the spatial part up to which the plain forms lose at most a digit.
_NEAR = 1.0


class Lorentz(Hyperbolic, UnitQuadric):
    """The upper sheet of −x₀² + |x|² = −1 in R^{d+1}, time coordinate first.

    The spatial part is the truth and the time coordinate its lift √(1 + |x|²): kernels
    read only the spatial part of points and tangent vectors, so round-off of the time
    coordinate is never mistaken for geometry. Relative error of `dist`, and of the
    vector `log`: a few units of round-off out to distance 300 from the origin; nothing
    overflows up to there. A tangent vector far out is another matter: at distance a its
    floats resolve e^a units of round-off of its own length, so that exp(p, log(p, q))
    misses q by about as much, whatever the algorithm.

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

        It is cosh|v|·p + sinh|v|·v/|v|, with |v| the hyperbolic length of v.
        Near the origin the velocity is first moved to the origin by a boost, the
        isometry between p and the origin. Farther out this would lose digits by
        cancellation, and the velocity is split into its part along the spatial part of
        p and the part orthogonal to it.

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
            # Points far out are masked, because this form may overflow there.
            velocity_at_origin = xp.where(is_near, _unboost(xp, x, time, velocity), 0.0)
            cosh, sinhc = cosh_sinhc(
                xp, dot(xp, velocity_at_origin, velocity_at_origin)
            )
            _, space = _boost(
                xp, xp.where(is_near, x, 0.0), time, cosh, sinhc * velocity_at_origin
            )
            return space

        def far() -> Array:
            """Return the end's spatial part in polar form, for points p farther out."""
            radial, tangential = _split_tangent(xp, x, time, length, velocity)
            return polar_exp(xp, x, time, length, radial, tangential)

        return _point_above(xp, apply_where(xp, is_near, near, far))

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of the geodesic to q: (D/sinh D)·(q − cosh(D)·p).

        D is the distance. Most points take a fast path, coordinate by coordinate; those
        for which it is not accurate take `_careful_log`.

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
            # With x and y the spatial parts and d the distance, y − cosh(d)·x =
            # (y − x) − (chord²/2)·x, and d/sinh d is computed as in `_careful_log`.
            length = np.sqrt(chord.square)
            factor = 2 * np.arcsinh(length / 2)
            factor = factor / (length * np.sqrt(1 + chord.square / 4))
            velocity = [
                factor * (difference - 0.5 * chord.square * coordinate)
                for coordinate, difference in zip(
                    chord.x, chord.difference, strict=True
                )
            ]
            time = sum(map(mul, chord.x, velocity)) / chord.x_time
            entries = np.broadcast_arrays(time, *velocity)
            return np.stack(entries, axis=-1), chord.is_accurate

        return fast_path(self._careful_log, fast, p, q)

    @in_cache_blocks
    def _careful_log(self, p: Array, q: Array) -> Array:
        """Return the logarithm for points at any distance from the origin.

        `log` calls this where its fast formula is not accurate. With the spatial parts
        x and y of p and q and their distance d, the spatial part of the logarithm is
        (d/sinh d)·(y − cosh(d)·x). Near the origin it is computed by boosts
        (`_near_direction`). Farther out it is split into the part along x and the part
        orthogonal to it (`_far_direction`).

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
        x, y = columns(p[..., 1:]), columns(q[..., 1:])
        x_time, x_length = lift(xp, x)
        y_time, y_length = lift(xp, y)

        # d/sinh d, with sinh d = 2 sinh(d/2) cosh(d/2) and chord = 2 sinh(d/2)
        chord = _chord(xp, x, y, x_length, y_length)
        sinh = chord * xp.sqrt(1 + chord * chord / 4)
        coincide = sinh == 0
        quotient = 2 * xp.asinh(chord / 2) / xp.where(coincide, 1.0, sinh)
        factor = xp.where(coincide, 1.0, quotient)
        is_near = x_length < _NEAR

        def near() -> Array:
            """Return the spatial part by boosts, for points p near the origin."""
            at_origin = _near_direction(xp, x, y, x_time, y_time)
            # Points far out are masked, because this form may overflow there.
            at_origin = xp.where(is_near, factor * at_origin, 0.0)
            _, space = _boost(xp, xp.where(is_near, x, 0.0), x_time, 0.0, at_origin)
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

        It is 2·arsinh(chord/2), where the chord is the Minkowski length of q − p.

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

        `dist` calls this where its fast formula is not accurate.

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
        x, y = columns(p[..., 1:]), columns(q[..., 1:])
        x_length = euclidean_norm(xp, x)[..., None]
        y_length = euclidean_norm(xp, y)[..., None]
        chord = _chord(xp, x, y, x_length, y_length)
        return 2 * xp.asinh(chord[..., 0] / 2)

    @in_cache_blocks
    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport along the geodesic.

        The orthonormal coordinates of v at p are rotated by the area of the triangle of
        p, q and the origin (`rotate_by_holonomy`); the result are those at q.

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
        x, y = columns(p[..., 1:]), columns(q[..., 1:])
        x_time, x_length = lift(xp, x)
        y_time, y_length = lift(xp, y)
        chord = _chord(xp, x, y, x_length, y_length)

        # 1 − ⟨w,u⟩ for the vectors of the ball model, from cosh d = 1 + chord²/2 =
        # x₀y₀ − ⟨x,y⟩
        numerator = 2 + x_time + y_time + chord * chord / 2
        one_minus_inner = numerator / ((1 + x_time) * (1 + y_time))
        rotated = rotate_by_holonomy(
            xp,
            x / (1 + x_time),
            orthogonal_part(xp, y, x) / (1 + y_time),
            one_minus_inner,
            self.to_coordinates(p, v),
        )
        return self.from_coordinates(q, rotated)

    def project(self, x: Array) -> Array:
        """Return the point of the hyperboloid with the same spatial part as x.

        Its time coordinate is √(1 + |y|²), y the spatial part. For a point that was
        rounded this changes no more than rounding did. Far out the time coordinate has
        no more information than the spatial part.

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
        time = lift(xp, space)[0]
        minkowski = dot(xp, space, x[..., 1:]) - time * x[..., :1]
        return _tangent_above(xp, space, time, x[..., 1:] + minkowski * space)

    def residual(self, p: Array) -> Array:
        """Return the relative error of the time coordinate of an array p.

        It is |p₀ − t|/t, where t = √(1 + |x|²) belongs to the spatial part x.

        Parameters
        ----------
        p : array of shape (..., d + 1)
            What may be points.

        Returns
        -------
        array of shape (...)
            The residuals.
        """
        xp = namespace(p)
        time = lift(xp, p[..., 1:])[0]
        return (xp.abs(p[..., :1] - time) / time)[..., 0]

    @in_cache_blocks
    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        It is (0, z), carried by the boost that takes the origin to p.

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
        time, space = _boost(xp, x, lift(xp, x)[0], 0.0, z)
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
    return xp.concat([lift(xp, x)[0], x], axis=-1)


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

    The boost is the isometry of the hyperboloid that moves every point in the plane of
    x and the time axis, and nothing orthogonal to it.

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
    """Apply the boost that takes a point to the origin to a tangent vector there.

    This inverts `_boost`. It is accurate only for points that are not far out.

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
        The spatial part of the image, which is tangent at the origin. These are the
        orthonormal coordinates of the vector.
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
    """Return the vector y − cosh(d)·x, moved to the origin by a boost.

    It points along the logarithm; d is the distance of the points. Differences are
    formed before the boost, so that near points keep their digits. It is accurate only
    for x that is not far out.

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
    """Return the radial and the tangential part of y − cosh(d)·x, for x far out.

    This vector at x points along the logarithm; d is the distance of the points. With
    x̂ = x/|x| its component along the radial unit vector is x₀⟨x̂, y⟩ − |x|y₀. That
    form is used for y near the origin. For y far out it would cancel; it equals sinh(b
    − a) − x₀(|y| − ⟨x̂, y⟩), a and b the distances of x and y from the origin.

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

    # |y| − ⟨x̂, y⟩, without cancellation where y is near the ray of x.
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
    """Return the chord 2·sinh(d/2) of two points at the distance d.

    With the spatial part x and the time coordinate x₀ of the point nearer to the
    origin, and y, y₀ of the other one, there are two forms, both sums of positive
    terms:

    - Near the origin it is the chord of the ball model, |u − w|·√((1+x₀)(1+y₀)) with w
      = x/(1+x₀) and u = y/(1+y₀).
    - Farther out it comes from the half-angle law of cosines, sinh²(d/2) =
      sinh²((b−a)/2) + |x||y|·sin²(φ/2), with a and b the distances from the origin and
      φ the angle between x and y.

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
    x, y = xp.where(is_swapped, q, p), xp.where(is_swapped, p, q)
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

        It is the length of (2·sinh((b−a)/2), √(|x||y|)·2·sin(φ/2)).
        """
        sinh = _sinh_radial(xp, x, y, x_time, y_time, x_length, y_length)
        radial = sinh * xp.sqrt(2 / (1 + hypot_one(xp, sinh)))  # 2 sinh((b−a)/2)

        safe_x_length = xp.where(x_length == 0, 1.0, x_length)
        safe_y_length = xp.where(y_length == 0, 1.0, y_length)
        sine = euclidean_norm(xp, orthogonal_part(xp, x, y) / safe_x_length)[..., None]
        cosine = dot(xp, x / safe_x_length, y / safe_y_length)
        angular = (
            xp.sqrt(safe_x_length)
            * xp.sqrt(safe_y_length)
            * _twice_sine_of_half(xp, sine, cosine)
        )
        return euclidean_norm(xp, xp.concat([radial, angular], axis=-1))[..., None]

    return apply_where(xp, x_length < _NEAR, near, far)


def _twice_sine_of_half(xp: Any, sine: Array, cosine: Array) -> Array:
    """Return 2·sin(φ/2) from the sine and the cosine of an angle φ between 0 and π.

    For acute angles it is sin φ·√(2/(1 + cos φ)), which keeps the digits of small ones;
    for others √(2 − 2·cos φ).

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
    """The squared chord of pairs of points, and intermediate results.

    x and y are the spatial parts of two points, and d is their distance.

    Attributes
    ----------
    square : array
        4·sinh²(d/2).
    is_accurate : array of bool
        Where the square is accurate.
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
    """Return the squared chord 4·sinh²(d/2) of two points, coordinate by coordinate.

    It is |y − x|² − (y₀ − x₀)², with x, y the spatial parts of the points and x₀, y₀
    their time coordinates. It is accurate where neither point is far out and the square
    has not underflowed.

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
