"""Spaces that are another space, the model, in other coordinates. A map φ takes points
of the space to points of the model, and distances are those of the images, up to a
constant factor. So every kernel is computed in the model.
"""

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from curvedp.geometry import capabilities
from curvedp.geometry.capabilities import CheapKernels, OriginIsometry
from curvedp.geometry.float_set import FloatSet, PullbackFloatSet
from curvedp.geometry.manifold import Array, Manifold
from curvedp.numerics.arrays import namespace


class PullbackManifold(OriginIsometry, CheapKernels):
    """A manifold M with a map φ: M → model whose metric is scale² times the model's.

    φ is an isometry, up to the factor `scale`, onto the model or onto a totally geodesic
    part of it. A subclass defines φ, its inverse and their differentials. If the part
    has fewer dimensions than the model, it also defines how coordinates correspond. All
    other methods follow from these.
    """

    scale: ClassVar[float] = 1.0

    # ---- what a subclass states ------------------------------------------------------

    @property
    @abstractmethod
    def model(self) -> Manifold:
        """The space in which kernels are computed; it contains the image of φ."""

    @abstractmethod
    def to_model(self, x: Array) -> Array:
        """Return the image φ(x) in the model.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Points of this manifold.

        Returns
        -------
        array of shape (..., *model.point_shape)
            Points of the model.
        """

    @abstractmethod
    def from_model(self, y: Array) -> Array:
        """Return the points φ⁻¹(y) of this manifold.

        Parameters
        ----------
        y : array of shape (..., *model.point_shape)
            Points of the model, in the image of φ up to round-off.

        Returns
        -------
        array of shape (..., *point_shape)
            Points of this manifold.
        """

    def differential(self, p: Array, v: Array) -> Array:
        """Return dφ_p(v), the velocity of φ(p) for a velocity v of p.

        By default φ is linear, and its own differential.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            Points, and tangent vectors at them.

        Returns
        -------
        array of shape (..., *model.point_shape)
            Tangent vectors of the model at φ(p).
        """
        return self.to_model(v)

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the tangent vector v at p with dφ_p(v) = w.

        By default φ is linear, and φ⁻¹ its own differential.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Points.
        w : array of shape (..., *model.point_shape)
            Tangent vectors of the model at φ(p).

        Returns
        -------
        array of shape (..., *point_shape)
            Tangent vectors at p.
        """
        return self.from_model(w)

    def coordinates_to_model(self, z: Array) -> Array:
        """Return the model's coordinates of tangent vectors with coordinates z here.

        By default they are the same. If φ maps to a part of the model of lower
        dimension, a subclass embeds them isometrically.

        Parameters
        ----------
        z : array of shape (..., dim)
            Coordinates on this manifold, divided by the scale.

        Returns
        -------
        array of shape (..., model.dim)
            Coordinates in the model.
        """
        return z

    def coordinates_from_model(self, z: Array) -> Array:
        """Return the coordinates here of tangent vectors with coordinates z in the model.

        It is the inverse of `coordinates_to_model`.

        Parameters
        ----------
        z : array of shape (..., model.dim)
            Coordinates in the model of vectors tangent to the image of φ.

        Returns
        -------
        array of shape (..., dim)
            Coordinates on this manifold, divided by the scale.
        """
        return z

    # ---- constants -------------------------------------------------------------------

    @cached_property
    def dim(self) -> int:
        """The dimension of the model."""
        return self.model.dim

    @property
    def origin(self) -> Array:
        """The point that φ takes to the model's origin."""
        return self.from_model(self.model.origin)

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds of sectional curvatures: those of the model, divided by scale²."""
        low, high = self.model.curvature_bounds
        return (low / self.scale**2, high / self.scale**2)

    @cached_property
    def injectivity_radius(self) -> float:
        """The length up to which geodesics are shortest: the scale times the model's."""
        return self.scale * self.model.injectivity_radius

    @cached_property
    def is_homogeneous(self) -> bool:
        """Whether isometries carry any point to any other, as they do in the model."""
        return self.model.is_homogeneous

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether this is a symmetric space, as the model is."""
        return self.model.is_symmetric

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: those that φ maps into the model's set."""
        return PullbackFloatSet(
            max_distance=self.scale * self.model.float_set.max_distance,
            model=self.model.float_set,
            scale=self.scale,
            to_model=self.coordinates_to_model,
            from_model=self.coordinates_from_model,
        )

    # ---- isometries to the origin ----------------------------------------------------

    def canonical_center(self, center: Array) -> Array:
        """Return where `move_to_origin` takes a public center.

        It is φ⁻¹ of the point to which the model's isometry takes φ(center).

        Parameters
        ----------
        center : array of shape point_shape
            A public point.

        Returns
        -------
        array of shape point_shape
            The canonical center; the same object if nothing moves.
        """
        center_in_model = self.to_model(center)
        canonical = capabilities.canonical_center(self.model, center_in_model)
        if np.array_equal(canonical, center_in_model):
            return center
        return self.from_model(canonical)

    def move_to_origin(self, center: Array, X: Array) -> Array:
        """Move points by the isometry that takes a public center to its canonical place.

        The points go to the model by φ, are moved by the model's isometry, and come
        back by φ⁻¹.

        Parameters
        ----------
        center : array of shape point_shape
            A public point.
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved points.
        """
        if self.canonical_center(center) is center:
            return X
        moved = capabilities.move_to_origin(
            self.model, self.to_model(center), self.to_model(X)
        )
        return self.from_model(moved)

    def move_from_origin(self, center: Array, X: Array) -> Array:
        """Move points by the inverse of `move_to_origin` for the same center.

        Parameters
        ----------
        center : array of shape point_shape
            A public point.
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved points.
        """
        if self.canonical_center(center) is center:
            return X
        moved = capabilities.move_from_origin(
            self.model, self.to_model(center), self.to_model(X)
        )
        return self.from_model(moved)

    # ---- kernels ---------------------------------------------------------------------

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        With the chart φ to the model space, it is φ⁻¹(exp(φ(p), dφ(v))).

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
        return self.from_model(
            self.model.exp(self.to_model(p), self.differential(p, v))
        )

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        With the chart φ to the model space, it is dφ⁻¹(log(φ(p), φ(q))).

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        q : array, shape (..., *point_shape)
            Another point.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        velocity = self.model.log(self.to_model(p), self.to_model(q))
        return self.inverse_differential(p, velocity)

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q: the scale times that of φ(p) and φ(q)."""
        return self.scale * self.model.dist(self.to_model(p), self.to_model(q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product of u and v at p: that of their coordinates.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        u, v : arrays of shape (..., *point_shape)
            Tangent vectors at p.

        Returns
        -------
        array of shape (...)
            The inner products.
        """
        xp = namespace(p, u, v)
        products = xp.multiply(self.to_coordinates(p, u), self.to_coordinates(p, v))
        return xp.sum(products, axis=-1)

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length of v at p: the scale times the model's length of dφ(v)."""
        return self.scale * self.model.norm(self.to_model(p), self.differential(p, v))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q: dφ⁻¹ of the model's transport of dφ(v).

        The model moves dφ(v) from φ(p) to φ(q).

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
        moved = self.model.transport(
            self.to_model(p), self.to_model(q), self.differential(p, v)
        )
        return self.inverse_differential(q, moved)

    def project(self, x: Array) -> Array:
        """Return a point near x: φ⁻¹ of the model's projection of φ(x)."""
        return self.from_model(self.model.project(self.to_model(x)))

    def from_record(self, x: Array) -> Array:
        """Return the point that a record x stands for.

        It is φ⁻¹ of the point of the model that φ(x) stands for.
        """
        return self.from_model(self.model.from_record(self.to_model(x)))

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return a tangent vector at p near x: dφ⁻¹ of the tangent part of dφ(x).

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
        tangent = self.model.to_tangent(self.to_model(p), self.differential(p, x))
        return self.inverse_differential(p, tangent)

    def residual(self, p: Array) -> Array:
        """Return how far p is from the manifold: the model's residual of φ(p)."""
        return self.model.residual(self.to_model(p))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with orthonormal coordinates z.

        It is dφ⁻¹ of the model's vector at φ(p) with the coordinates of z/scale.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        z : array of shape (..., dim)
            Coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        z_in_model = self.coordinates_to_model(z / self.scale)
        vector = self.model.from_coordinates(self.to_model(p), z_in_model)
        return self.inverse_differential(p, vector)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of v at p: the scale times those of dφ(v).

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        z_in_model = self.model.to_coordinates(
            self.to_model(p), self.differential(p, v)
        )
        return self.scale * self.coordinates_from_model(z_in_model)

    def normal_coordinates(self, p: Array, q: Array) -> Array:
        """Return the normal coordinates of q at p.

        They are the scale times those of φ(q) at φ(p).

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the coordinates are taken, and the point they describe.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        z_in_model = self.model.normal_coordinates(self.to_model(p), self.to_model(q))
        return self.scale * self.coordinates_from_model(z_in_model)

    def from_normal_coordinates(self, p: Array, z: Array) -> Array:
        """Return the point with normal coordinates z at p.

        It is φ⁻¹ of the model's point with the coordinates of z/scale at φ(p).

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            The point at which the coordinates are taken.
        z : array of shape (..., dim)
            Normal coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        z_in_model = self.coordinates_to_model(z / self.scale)
        point = self.model.from_normal_coordinates(self.to_model(p), z_in_model)
        return self.from_model(point)

    def transport_coordinates(self, p: Array, q: Array, z: Array) -> Array:
        """Return the coordinates at q of the transported vector with coordinates z at p.

        The model moves the vector from φ(p) to φ(q); the scale cancels.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        z : array of shape (..., dim)
            Its coordinates at p.

        Returns
        -------
        array of shape (..., dim)
            Its coordinates at q.
        """
        moved = capabilities.transport_coordinates(
            self.model, self.to_model(p), self.to_model(q), self.coordinates_to_model(z)
        )
        return self.coordinates_from_model(moved)

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the Jacobi operator R_v at p, from that of the model.

        The model's operator is restricted to the coordinates of this space.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., dim, dim)
            Symmetric matrices, in the coordinates of `to_coordinates` (NumPy).
        """
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        in_model = self.model.jacobi_operator(self.to_model(p), self.differential(p, v))
        # Rows: the images of the basis vectors, in the model's coordinates.
        basis_in_model = np.asarray(self.coordinates_to_model(np.eye(self.dim)))
        return np.asarray(basis_in_model @ in_model @ basis_in_model.T)
