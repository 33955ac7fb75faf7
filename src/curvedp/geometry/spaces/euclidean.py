"""Flat space."""

import math
from dataclasses import dataclass

import numpy as np

from curvedp.geometry.manifold import Array, Inherited, fact
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import euclidean_norm


@dataclass(frozen=True)
class Vectors(Inherited):
    """Symmetric spaces of one size d, with the length of tangent vectors that they have as vectors of R^n."""

    d: int
    sizes = (("d", 1),)
    dim = fact(lambda self: self.d)
    is_homogeneous = True
    is_symmetric = True

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.vecdot(*xp.broadcast_arrays(p, u, v)[1:])

    def norm(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        return euclidean_norm(xp, xp.broadcast_arrays(p, v)[1])


class FlatVectors(Vectors):
    """Vectors of d numbers with the flat metric, any of which are a point."""

    curvature_bounds = (0.0, 0.0)
    point_shape = fact(lambda self: (self.d,))
    origin = property(lambda self: np.zeros(self.d))

    def dist(self, p: Array, q: Array) -> Array:
        return euclidean_norm(namespace(p, q), self.log(p, q))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return namespace(p, q, v).broadcast_arrays(p, q, v)[2]

    def from_record(self, x: Array) -> Array:
        return self.project(x)

    def to_tangent(self, p: Array, x: Array) -> Array:
        return namespace(p, x).broadcast_arrays(p, x)[1]

    def residual(self, p: Array) -> Array:
        xp = namespace(p)
        return xp.sum(
            p * 0, axis=-1
        )  # 0, and NaN where p is not finite: no equation to satisfy but being a number

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return self.to_tangent(p, z)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return self.to_tangent(p, v)


class Euclidean(FlatVectors):
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
    carries = True
    injectivity_radius = math.inf
    is_linear = True

    def float_spread(self, radius: float) -> float:
        return radius

    def exp(self, p: Array, v: Array) -> Array:
        return p + v

    def log(self, p: Array, q: Array) -> Array:
        return q - p

    def project(self, x: Array) -> Array:
        return x
