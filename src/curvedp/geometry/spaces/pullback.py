"""Spaces that are another one in other coordinates: an isometry, up to a constant factor, carries every kernel over."""

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from curvedp.geometry.manifold import Array, Manifold, fact
from curvedp.numerics.arrays import namespace


class PullbackManifold(Manifold):
    """What φ: M → model gives, where the metric of M is that of the model times `scale`² (on a totally geodesic part of it).
    A subclass states φ, its inverse and their differentials; `_lift` and `_drop` where the part has fewer dimensions."""

    scale: ClassVar[float] = 1.0

    @cached_property
    @abstractmethod
    def model(self) -> Manifold:
        """The space that does the work."""

    @abstractmethod
    def to_model(self, x: Array) -> Array:
        """φ."""

    @abstractmethod
    def from_model(self, y: Array) -> Array:
        """φ⁻¹."""

    def _push(self, p: Array, v: Array) -> Array:
        """dφ at p; φ itself where it is linear."""
        return self.to_model(v)

    def _pull(self, p: Array, w: Array) -> Array:
        """dφ⁻¹ at φ(p)."""
        return self.from_model(w)

    def _lift(self, z: Array) -> Array:
        """Coordinates in the model of coordinates z; an isometry of vector spaces."""
        return z

    def _drop(self, z: Array) -> Array:
        """Inverse of `_lift`."""
        return z

    dim = fact(lambda self: self.model.dim)
    origin = property(lambda self: self.from_model(self.model.origin))
    curvature_bounds = fact(
        lambda self: tuple(k / self.scale**2 for k in self.model.curvature_bounds)
    )
    injectivity_radius = fact(lambda self: self.scale * self.model.injectivity_radius)
    is_homogeneous = fact(lambda self: self.model.is_homogeneous)
    is_symmetric = fact(lambda self: self.model.is_symmetric)
    float_reach = fact(lambda self: self.scale * self.model.float_reach)
    held_reach = fact(lambda self: self.scale * self.model.held_reach)

    def held_share(self, z: Array) -> Array:
        return self.model.held_share(self._lift(z / self.scale))

    def held_coordinates(self, z: Array) -> Array:
        return self.scale * self._drop(
            self.model.held_coordinates(self._lift(z / self.scale))
        )

    def held_radius(self, radius: float) -> float:
        return self.scale * self.model.held_radius(radius / self.scale)

    def float_spread(self, radius: float) -> float:
        return self.model.float_spread(radius / self.scale)

    def home(self, center: Array) -> Array:
        there = self.to_model(center)
        home = self.model.home(there)
        return center if np.array_equal(home, there) else self.from_model(home)

    def to_origin(self, center: Array, X: Array) -> Array:
        there = self.home(center) is center
        return (
            X
            if there
            else self.from_model(
                self.model.to_origin(self.to_model(center), self.to_model(X))
            )
        )

    def from_origin(self, center: Array, X: Array) -> Array:
        there = self.home(center) is center
        return (
            X
            if there
            else self.from_model(
                self.model.from_origin(self.to_model(center), self.to_model(X))
            )
        )

    def exp(self, p: Array, v: Array) -> Array:
        return self.from_model(self.model.exp(self.to_model(p), self._push(p, v)))

    def log(self, p: Array, q: Array) -> Array:
        return self._pull(p, self.model.log(self.to_model(p), self.to_model(q)))

    def dist(self, p: Array, q: Array) -> Array:
        return self.scale * self.model.dist(self.to_model(p), self.to_model(q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.sum(
            xp.multiply(self.to_coordinates(p, u), self.to_coordinates(p, v)), axis=-1
        )

    def norm(self, p: Array, v: Array) -> Array:
        return self.scale * self.model.norm(self.to_model(p), self._push(p, v))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return self._pull(
            q,
            self.model.transport(self.to_model(p), self.to_model(q), self._push(p, v)),
        )

    def project(self, x: Array) -> Array:
        return self.from_model(self.model.project(self.to_model(x)))

    def from_record(self, x: Array) -> Array:
        return self.from_model(self.model.from_record(self.to_model(x)))

    def to_tangent(self, p: Array, x: Array) -> Array:
        return self._pull(p, self.model.to_tangent(self.to_model(p), self._push(p, x)))

    def residual(self, p: Array) -> Array:
        return self.model.residual(self.to_model(p))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return self._pull(
            p, self.model.from_coordinates(self.to_model(p), self._lift(z / self.scale))
        )

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return self.scale * self._drop(
            self.model.to_coordinates(self.to_model(p), self._push(p, v))
        )

    def normal_coordinates(self, p: Array, q: Array) -> Array:
        return self.scale * self._drop(
            self.model.normal_coordinates(self.to_model(p), self.to_model(q))
        )

    def from_normal_coordinates(self, p: Array, z: Array) -> Array:
        return self.from_model(
            self.model.from_normal_coordinates(
                self.to_model(p), self._lift(z / self.scale)
            )
        )

    def carry(self, p: Array, q: Array, z: Array) -> Array:
        return self._drop(
            self.model.carry(self.to_model(p), self.to_model(q), self._lift(z))
        )

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        whole = self.model.jacobi_operator(self.to_model(p), self._push(p, v))
        part = np.asarray(self._lift(np.eye(self.dim)))
        return np.asarray(part @ whole @ part.T)
