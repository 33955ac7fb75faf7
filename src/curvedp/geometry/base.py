"""What a manifold is here: one set with one metric, as a frozen value with batched Array-API kernels.

Kernels take the point first, broadcast over leading axes, run on any array library (`array_namespace`), never
validate, and use no randomness. A subclass states its constants and closed forms; what follows from them is here.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, device

from curvedp import _validate
from curvedp.errors import ParameterError

__all__ = ["Array", "Manifold", "check_manifold"]

Array = Any  # an array of any Array-API library; there is no common static type


class Manifold(ABC):
    """One set with one Riemannian metric. Subclasses are frozen dataclasses: stateless, hashable, comparable."""

    # ---- constants -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the manifold."""

    @property
    @abstractmethod
    def point_shape(self) -> tuple[int, ...]:
        """Shape of one point; every array ends with these axes."""

    @property
    @abstractmethod
    def origin(self) -> Array:
        """A public reference point (NumPy float64)."""

    @property
    @abstractmethod
    def curvature_bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the sectional curvatures."""

    @property
    @abstractmethod
    def injectivity_radius(self) -> float:
        """Radius up to which `log` inverts `exp`; inf on Hadamard manifolds."""

    @property
    @abstractmethod
    def convexity_radius(self) -> float:
        """Geodesic balls of a smaller radius are strongly convex; inf on Hadamard manifolds."""

    @property
    @abstractmethod
    def is_homogeneous(self) -> bool:
        """Whether isometries carry any point to any other: normalising constants do not depend on the footpoint."""

    # ---- kernels ---------------------------------------------------------------------------------------------

    @abstractmethod
    def exp(self, p: Array, v: Array) -> Array:
        """The point reached from p after unit time with velocity v."""

    @abstractmethod
    def log(self, p: Array, q: Array) -> Array:
        """The shortest velocity that carries p to q."""

    @abstractmethod
    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Riemannian inner product of two tangent vectors at p."""

    @abstractmethod
    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """v moved from p to q by an isometry (parallel along the shortest geodesic, unless the class says otherwise)."""

    @abstractmethod
    def project(self, x: Array) -> Array:
        """A point of the manifold near the ambient x."""

    @abstractmethod
    def to_tangent(self, p: Array, x: Array) -> Array:
        """The tangent vector at p nearest to the ambient x."""

    @abstractmethod
    def residual(self, p: Array) -> Array:
        """How far p is from satisfying the manifold's equations; 0 on the manifold."""

    @abstractmethod
    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Linear isometry from R^dim (last axis of z) to the tangent space at p."""

    @abstractmethod
    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Inverse of `from_coordinates`."""

    # ---- a public center, carried to where the floats are fine -----------------------------------------------

    carries: ClassVar[bool] = False
    """Whether reading at one point the coordinates of logarithms at another is an isometry of the whole space."""

    def home(self, center: Array) -> Array:
        """Where `to_origin` takes a public center: the origin, or the center itself where nothing moves.

        Raises
        ------
        ParameterError
            On a space that is not compact and has no such isometry, for a center that is not the origin.
        """
        if self.carries:
            return self.origin
        if self.injectivity_radius == np.inf and not np.array_equal(center, self.origin):
            raise ParameterError(f"{self!r} has no isometry from another center to its origin; use center=None")
        return center

    def to_origin(self, center: Array, X: Array) -> Array:
        """The points X moved by the isometry that takes `center` to the origin, where coordinates are well scaled.

        Far from the origin of a Hadamard manifold, the floats of a point say little about it. What is computed of records
        there depends on round-off more than on one record; carried to the origin first, it does not. On compact spaces
        points are well scaled everywhere and nothing moves.
        """
        return self._carried(center, self.home(center), X)

    def from_origin(self, center: Array, X: Array) -> Array:
        """The inverse of `to_origin`."""
        return self._carried(self.home(center), center, X)

    def _carried(self, start: Array, end: Array, X: Array) -> Array:
        if np.array_equal(start, end):
            return X
        xp = array_namespace(X)
        start, end = (xp.asarray(point, dtype=X.dtype, device=device(X)) for point in (start, end))
        return self.exp(end, self.from_coordinates(end, self.to_coordinates(start, self.log(start, X))))

    def norm(self, p: Array, v: Array) -> Array:
        """Riemannian length of v."""
        square = self.inner(p, v, v)
        xp = array_namespace(square)
        # A negative square is round-off of a zero one; the inner where keeps reverse-mode gradients finite at 0.
        safe = xp.where(square > 0, square, xp.ones_like(square))
        return xp.where(square > 0, xp.sqrt(safe), 0 * square)  # NaN stays NaN: a length of 0 would fail open

    def dist(self, p: Array, q: Array) -> Array:
        """Riemannian distance."""
        return self.norm(p, self.log(p, q))


def check_manifold(manifold: Any) -> Manifold:
    """A manifold of ours, or a `ParameterError`."""
    if not isinstance(manifold, Manifold):
        raise ParameterError(
            f"manifold={_validate.shown(manifold)} must be a curvedp manifold, such as curvedp.geometry.Sphere(2)"
        )
    return manifold
