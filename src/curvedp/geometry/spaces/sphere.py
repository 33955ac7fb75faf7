"""The unit sphere, with the angle between unit vectors as distance. The angle of p and q
is computed from the part of q that is orthogonal to p, which keeps the digits of small
angles; this part is also the direction of the geodesic from p to q.
"""

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from curvedp.geometry.capabilities import EmbeddedMean, UnitQuadric
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.euclidean import VectorManifold
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.elementary import (
    cos_sinc,
    direction,
    dot_lists,
    euclidean_norm,
    fast_path,
    versine_quotient,
)

# Lengths above this one have squares that do not underflow.
_LEAST_LENGTH = 1e-140


class _Angle(NamedTuple):
    """The angle between the rays through p and q, with intermediate results.

    Attributes
    ----------
    angle : array of shape (...)
        Between 0 and π.
    orthogonal : array of shape (..., d + 1)
        The part of q orthogonal to p.
    length : array of shape (...)
        The length of that part.
    cosine : array of shape (...)
        |p||q|·cos(angle).
    """

    angle: Array
    orthogonal: Array
    length: Array
    cosine: Array


class Sphere(VectorManifold, UnitQuadric, EmbeddedMean):
    """Unit vectors of R^{d+1} with the angle as distance. Curvature 1.

    A vector of floats is hardly ever exactly a unit vector. So `dist` and `log` use the
    angle between the rays through p and q: the round-off of the lengths of p and q does
    not count as distance. The relative error is a few units of round-off, from distance
    1e-300 up to the antipode. At the antipode `log` returns one of the shortest
    velocities, always the same.

    Parameters
    ----------
    d : int
        The dimension; points have one number more.

    Examples
    --------
    >>> M = Sphere(2)
    >>> float(M.dist(np.array([1.0, 0.0, 0.0]), np.array([1.0, 1e-15, 0.0])))
    1e-15
    """

    kind = "sphere"
    injectivity_radius = math.pi
    embedded_diameter = 2.0

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a vector of d + 1 numbers."""
        return (self.d + 1,)

    @property
    def origin(self) -> Array:
        """The first unit vector (1, 0, …, 0)."""
        return np.eye(1, self.d + 1)[0]

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The curvature 1 as lower and upper bound; 0 on the circle, without planes."""
        return (1.0, 1.0) if self.d > 1 else (0.0, 0.0)

    @cached_property
    def embedding_signature(self) -> np.ndarray:
        """The signs sᵢ in Σ sᵢxᵢ² = 1, the equation of the sphere: all are +1."""
        return np.ones(self.d + 1)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        It is cos|v|·p + (sin|v|/|v|)·v.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        xp = namespace(p, v)
        cos, sinc = cos_sinc(xp, xp.vecdot(v, v)[..., None])
        return cos * p + sinc * v

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        It is angle·w/|w|, where w is the part of q orthogonal to p. NumPy arrays are
        computed coordinate by coordinate; where that is not accurate, and for other
        libraries, `_careful_log` is used.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """

        def fast(x: list[Array], y: list[Array]) -> tuple[Array, Array]:
            """Return the velocities from x to y, and where they are accurate.

            Both arguments are lists with one array for each coordinate, which is faster
            for batches of short vectors.
            """
            angle, orthogonal, length = _angle_by_coordinates(x, y, passes=2)
            factor = angle / length
            velocity = [factor * coordinate for coordinate in orthogonal]
            return np.stack(velocity, axis=-1), length > _LEAST_LENGTH

        return fast_path(self._careful_log, fast, p, q)

    def _careful_log(self, p: Array, q: Array) -> Array:
        """Return the logarithm also for parallel vectors and for very near ones.

        `log` calls this method where its fast formula is not accurate.

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
        angle, orthogonal, length, cosine = self._angle(xp, p, q)

        # The factor angle/length, which is 1 for equal points.
        parallel = length == 0
        quotient = angle / xp.where(parallel, 1.0, length)
        factor = xp.where(parallel, 1.0, quotient)

        # At the antipode every direction is shortest: take the first axis of the frame.
        axis = like(orthogonal, np.eye(1, self.d)[0])
        axis = xp.broadcast_to(axis, (*orthogonal.shape[:-1], self.d))
        to_antipode = math.pi * self.from_coordinates(p, axis)
        at_antipode = (parallel & (cosine < 0))[..., None]
        return xp.where(at_antipode, to_antipode, factor[..., None] * orthogonal)

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is the angle between the rays through p and q.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        array of shape (...)
            The distances.
        """

        def fast(x: list[Array], y: list[Array]) -> tuple[Array, Array]:
            """Return the distances of x and y, and where they are accurate.

            Both arguments are lists with one array for each coordinate, which is faster
            for batches of short vectors.
            """
            angle, _, length = _angle_by_coordinates(x, y, passes=1)
            return angle, length > _LEAST_LENGTH

        def careful(p: Array, q: Array) -> Array:
            """Return the distances of p and q, accurate even where squares underflow."""
            return self._angle(namespace(p, q), p, q).angle

        return fast_path(careful, fast, p, q)

    def _angle(self, xp: Any, p: Array, q: Array) -> _Angle:
        """Return the angle between the rays through p and q, and intermediate results.

        The vectors q, q − p and q + p have the same part orthogonal to p. Of the last
        two, the shorter one is used. Where it is short it has no rounding error, so that
        its orthogonal part keeps its digits near p and near the antipode. The component
        along p is removed twice, because the first removal leaves some round-off.

        Parameters
        ----------
        xp : module
            The array library of p and q.
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        _Angle
            The angle, the part of q orthogonal to p, its length, and ⟨p, q⟩.
        """
        cosine = xp.vecdot(p, q)
        p_square = xp.vecdot(p, p)
        orthogonal = xp.where((cosine < 0)[..., None], q + p, q - p)
        for _ in range(2):
            along = xp.vecdot(p, orthogonal) / p_square
            orthogonal = orthogonal - along[..., None] * p
        length = euclidean_norm(xp, orthogonal)
        angle = xp.atan2(length * xp.sqrt(p_square), cosine)
        return _Angle(angle, orthogonal, length, cosine)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return the parallel transport of v along the shortest geodesic.

        Let θ be the distance and e the unit velocity from p to q. Transport turns e into
        cos θ·e − sin θ·p, and leaves the part of v orthogonal to e unchanged. The
        formula is written with the velocity θ·e instead of e, which makes it smooth at
        p = q. It also holds for opposite points, where the usual formula
        v − ⟨q,v⟩/(1 + ⟨p,q⟩)·(p + q) divides by 0.

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
        velocity = self.log(p, q)
        angle_square = xp.vecdot(velocity, velocity)[..., None]
        along = xp.vecdot(velocity, v)[..., None]
        _, sinc = cos_sinc(xp, angle_square)
        versine = versine_quotient(xp, angle_square)
        return v - along * (sinc * p + versine * velocity)

    def project(self, x: Array) -> Array:
        """Return the point x/|x| of the sphere nearest to x; the origin for x = 0.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, usually one near the manifold.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        xp = namespace(x)
        length = euclidean_norm(xp, x)[..., None]
        unit = x / xp.where(length == 0, 1.0, length)
        return xp.where(length == 0, like(x, self.origin), unit)

    def from_record(self, x: Array) -> Array:
        """Return the unit vector along a record x of any length; NaN for x = 0."""
        return direction(namespace(x), x)

    def embed(self, X: Array) -> np.ndarray:
        """Return the embedding of points X in R^{d+1}: the unit vectors themselves."""
        return np.asarray(X)

    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the point nearest to a vector z of R^{d+1}: the unit vector along z."""
        return np.asarray(self.project(z))

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent vector at p nearest to x: x without its component along p.

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
        along = xp.vecdot(p, x) / xp.vecdot(p, p)
        return x - along[..., None] * p

    def residual(self, p: Array) -> Array:
        """Return how far the length of p is from 1: | |p| − 1 |.

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
        return xp.abs(euclidean_norm(xp, p) - 1)

    # The Householder reflection that carries ±e₁ to p also carries the vectors (0, z) to
    # the tangent vectors at p. The sign depends on that of p₁ so that the formulas divide
    # by 1 + |p₁|, which is never near 0. The more usual frame
    # eᵢ − pᵢ₊₁/(1 + p₁)·(e₁ + p) is undefined at p = −e₁.

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        It is (0, z) after the Householder reflection that carries ±e₁ to p.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        z : array of shape (..., dim)
            Coordinates of a tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        xp = namespace(p, z)
        p_first = p[..., :1]
        p_others = p[..., 1:]

        # The reflected vector: its first entry, and the others.
        along = xp.vecdot(p_others, z)[..., None]
        first = xp.where(p_first < 0, along, -along)
        others = z - along / (1 + xp.abs(p_first)) * p_others
        return xp.concat([first, others], axis=-1)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        They are all entries but the first of v, reflected as in `from_coordinates`.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        xp = namespace(p, v)
        p_first = p[..., :1]
        p_others = p[..., 1:]
        along = xp.where(p_first < 0, -v[..., :1], v[..., :1])
        return v[..., 1:] - along / (1 + xp.abs(p_first)) * p_others


def _angle_by_coordinates(
    x: list[Array], y: list[Array], passes: int
) -> tuple[Array, list[Array], Array]:
    """Return the angles between the rays through x and y, coordinate by coordinate.

    Batches of vectors are given as one array per coordinate, which makes NumPy's
    operations on them fast.

    Parameters
    ----------
    x, y : list of arrays
        The coordinates of two batches of vectors.
    passes : int
        How often the component along x is removed from y. One removal leaves some
        round-off, which does not matter for the length of the result. Two removals give
        its direction to full precision.

    Returns
    -------
    angle : array
        The angles, between 0 and π.
    orthogonal : list of arrays
        The coordinates of the part of y orthogonal to x.
    length : array
        The length of that part.
    """
    cosine = dot_lists(x, y)
    x_square = dot_lists(x, x)
    sign = np.copysign(1.0, cosine)

    # y − x, or y + x if the angle is obtuse. It has the same part orthogonal to x as y,
    # and no rounding error where it is short.
    orthogonal = [
        y_coordinate - sign * x_coordinate
        for x_coordinate, y_coordinate in zip(x, y, strict=True)
    ]
    for _ in range(passes):
        along = dot_lists(x, orthogonal) / x_square
        orthogonal = [
            coordinate - along * x_coordinate
            for x_coordinate, coordinate in zip(x, orthogonal, strict=True)
        ]
    length = np.sqrt(dot_lists(orthogonal, orthogonal))
    angle = np.arctan2(length * np.sqrt(x_square), cosine)
    return angle, orthogonal, length
