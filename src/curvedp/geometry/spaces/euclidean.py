"""Flat space R^d, and base classes for spaces whose points are vectors. The metric of
these spaces is the Euclidean inner product of tangent vectors.
"""

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
        """The dimension d."""
        return self.d

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product Σ uᵢvᵢ of u and v, tangent vectors at any point p.

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
        _, u, v = xp.broadcast_arrays(p, u, v)
        return xp.vecdot(u, v)

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length √Σ vᵢ² of the tangent vector v, whatever the point p.

        The squares of very large or small entries neither overflow nor underflow.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (...)
            The lengths.
        """
        xp = namespace(p, v)
        _, v = xp.broadcast_arrays(p, v)
        return euclidean_norm(xp, v)


class FlatVectorManifold(VectorManifold):
    """Flat spaces in which any d numbers are a point."""

    curvature_bounds = (0.0, 0.0)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a vector of d numbers."""
        return (self.d,)

    @property
    def origin(self) -> Array:
        """The zero vector of R^d."""
        return np.zeros(self.d)

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q: the Euclidean length of log(p, q)."""
        return euclidean_norm(namespace(p, q), self.log(p, q))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return the tangent vector v unchanged: parallel transport is trivial if flat.

        The result has the shape to which p, q and v broadcast.
        """
        _, _, transported = namespace(p, q, v).broadcast_arrays(p, q, v)
        return transported

    def from_record(self, x: Array) -> Array:
        """Return the point that a record x stands for: `project(x)`, for every vector."""
        return self.project(x)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return x itself: every vector of R^d is tangent at every point p."""
        _, tangent = namespace(p, x).broadcast_arrays(p, x)
        return tangent

    def residual(self, p: Array) -> Array:
        """Return the residual of p: 0, or NaN where an entry of p is not finite.

        Any finite numbers are a point, so there is no equation that p could miss.
        """
        return namespace(p).sum(p * 0, axis=-1)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector with coordinates z: z itself, at every point p."""
        return self.to_tangent(p, z)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the coordinates of the tangent vector v: v itself, at every point p."""
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
        """The set of well-represented points: all points.

        At distance r from 0 a relative error u of the coordinates moves a point by r·u,
        so that the amplification of errors is r.
        """
        return FloatSet(amplification=float)  # `float` maps a radius to itself

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end p + v of the straight line from p with velocity v."""
        return p + v

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity q − p that carries p to q."""
        return q - p

    def project(self, x: Array) -> Array:
        """Return x itself: every vector is a point."""
        return x
