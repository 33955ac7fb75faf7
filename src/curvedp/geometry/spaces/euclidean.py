"""Flat space R^d, and the base classes of spaces whose points are vectors."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from curvedp.geometry.capabilities import OriginIsometry
from curvedp.geometry.float_set import FloatSet
from curvedp.geometry.manifold import Array, FrozenManifold
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import euclidean_norm


@dataclass(frozen=True)
class VectorManifold(FrozenManifold):
    """Symmetric spaces of vectors, with the metric that R^n gives tangent vectors.

    Parameters
    ----------
    d : int
        The dimension.
    """

    d: int
    sizes = (("d", 1),)
    is_homogeneous = True
    is_symmetric = True

    @property
    def dim(self) -> int:
        """The size d."""
        return self.d

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return Σ uᵢvᵢ."""
        xp = namespace(p, u, v)
        _, u, v = xp.broadcast_arrays(p, u, v)
        return xp.vecdot(u, v)

    def norm(self, p: Array, v: Array) -> Array:
        """Return √Σ vᵢ², without overflow or underflow of the squares."""
        xp = namespace(p, v)
        _, v = xp.broadcast_arrays(p, v)
        return euclidean_norm(xp, v)


class FlatVectorManifold(VectorManifold):
    """Flat spaces in which any d numbers are a point."""

    curvature_bounds = (0.0, 0.0)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A vector of d numbers."""
        return (self.d,)

    @property
    def origin(self) -> Array:
        """The zero vector."""
        return np.zeros(self.d)

    def dist(self, p: Array, q: Array) -> Array:
        """Return the length of log(p, q)."""
        return euclidean_norm(namespace(p, q), self.log(p, q))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v: parallel transport changes nothing on a flat space."""
        return namespace(p, q, v).broadcast_arrays(p, q, v)[2]

    def from_record(self, x: Array) -> Array:
        """Return `project(x)`: every vector stands for a point."""
        return self.project(x)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return x: every vector is tangent."""
        return namespace(p, x).broadcast_arrays(p, x)[1]

    def residual(self, p: Array) -> Array:
        """Return 0, or NaN where p is not finite: no other equation is to be met."""
        return namespace(p).sum(p * 0, axis=-1)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return z: coordinates are the vectors themselves."""
        return self.to_tangent(p, z)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return v: coordinates are the vectors themselves."""
        return self.to_tangent(p, v)


class Euclidean(FlatVectorManifold, OriginIsometry):
    """R^d with its usual metric; points are vectors of length d.

    Parameters
    ----------
    d : int
        The dimension.

    Examples
    --------
    >>> float(Euclidean(2).dist(np.zeros(2), np.array([3.0, 4.0])))
    5.0
    """

    kind = "euclidean"
    injectivity_radius = math.inf

    @cached_property
    def float_set(self) -> FloatSet:
        """Every point; a relative error of the coordinates moves it by its length."""
        return FloatSet(amplification=float)

    def exp(self, p: Array, v: Array) -> Array:
        """Return p + v."""
        return p + v

    def log(self, p: Array, q: Array) -> Array:
        """Return q − p."""
        return q - p

    def project(self, x: Array) -> Array:
        """Return x: every vector is a point."""
        return x
