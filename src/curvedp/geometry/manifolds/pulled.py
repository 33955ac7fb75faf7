"""Spaces that are another one in other coordinates: an isometry, up to a constant factor, carries every kernel over."""

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from curvedp.geometry.base import Array, Manifold
from curvedp.geometry.numerics.namespace import namespace

__all__ = ["Pulled"]


class Pulled(Manifold):
    """What φ: M → model gives, where the metric of M is that of the model times `scale`² (on a totally geodesic part of it).

    A subclass states φ, its inverse and their differentials; `_lift` and `_drop` where the part has fewer dimensions.
    """

    scale: ClassVar[float] = 1.0

    @cached_property
    @abstractmethod
    def model(self) -> Manifold:
        """The space that does the work."""

    @abstractmethod
    def _to(self, x: Array) -> Array:
        """φ."""

    @abstractmethod
    def _from(self, y: Array) -> Array:
        """φ⁻¹."""

    @abstractmethod
    def _push(self, p: Array, v: Array) -> Array:
        """dφ at p."""

    @abstractmethod
    def _pull(self, p: Array, w: Array) -> Array:
        """dφ⁻¹ at φ(p)."""

    def _lift(self, z: Array) -> Array:
        """Coordinates in the model of coordinates z; an isometry of vector spaces."""
        return z

    def _drop(self, z: Array) -> Array:
        """Inverse of `_lift`."""
        return z

    # ---- constants -------------------------------------------------------------------------------------------

    @cached_property
    def dim(self) -> int:
        return self.model.dim

    @property
    def origin(self) -> Array:
        return self._from(self.model.origin)

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        low, high = self.model.curvature_bounds
        return low / self.scale**2, high / self.scale**2

    @cached_property
    def injectivity_radius(self) -> float:
        return self.scale * self.model.injectivity_radius

    @cached_property
    def convexity_radius(self) -> float:
        return self.scale * self.model.convexity_radius

    @cached_property
    def is_homogeneous(self) -> bool:
        return self.model.is_homogeneous

    @cached_property
    def is_symmetric(self) -> bool:
        return self.model.is_symmetric

    @cached_property
    def float_reach(self) -> float:
        return self.scale * self.model.float_reach

    @cached_property
    def held_reach(self) -> float:
        return self.scale * self.model.held_reach

    def held_share(self, z: Array) -> Array:
        return self.model.held_share(self._lift(z / self.scale))

    def held_coordinates(self, z: Array) -> Array:
        return self.scale * self._drop(self.model.held_coordinates(self._lift(z / self.scale)))

    def held_radius(self, radius: float) -> float:
        return self.scale * self.model.held_radius(radius / self.scale)

    def float_spread(self, radius: float) -> float:
        return self.model.float_spread(radius / self.scale)

    def home(self, center: Array) -> Array:
        there = self._to(center)
        home = self.model.home(there)
        return center if np.array_equal(home, there) else self._from(home)

    def to_origin(self, center: Array, X: Array) -> Array:
        return X if self.home(center) is center else self._from(self.model.to_origin(self._to(center), self._to(X)))

    def from_origin(self, center: Array, X: Array) -> Array:
        return X if self.home(center) is center else self._from(self.model.from_origin(self._to(center), self._to(X)))

    # ---- kernels -----------------------------------------------------------------------------------------------

    def exp(self, p: Array, v: Array) -> Array:
        return self._from(self.model.exp(self._to(p), self._push(p, v)))

    def log(self, p: Array, q: Array) -> Array:
        return self._pull(p, self.model.log(self._to(p), self._to(q)))

    def dist(self, p: Array, q: Array) -> Array:
        return self.scale * self.model.dist(self._to(p), self._to(q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.sum(xp.multiply(self.to_coordinates(p, u), self.to_coordinates(p, v)), axis=-1)

    def norm(self, p: Array, v: Array) -> Array:
        return self.scale * self.model.norm(self._to(p), self._push(p, v))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return self._pull(q, self.model.transport(self._to(p), self._to(q), self._push(p, v)))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return self._pull(p, self.model.from_coordinates(self._to(p), self._lift(z / self.scale)))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return self.scale * self._drop(self.model.to_coordinates(self._to(p), self._push(p, v)))

    def chart(self, p: Array, q: Array) -> Array:
        return self.scale * self._drop(self.model.chart(self._to(p), self._to(q)))

    def unchart(self, p: Array, z: Array) -> Array:
        return self._from(self.model.unchart(self._to(p), self._lift(z / self.scale)))

    def _curvature_operator(self, p: Array, v: Array) -> np.ndarray:
        whole = self.model.curvature_operator(self._to(p), self._push(p, v))
        part = np.asarray(self._lift(np.eye(self.dim)))
        return np.asarray(part @ whole @ part.T)
