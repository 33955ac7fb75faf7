"""Riemannian products of manifolds, the factors, with vectors as points. A point of a
product has one part in each factor. The parts are raveled and concatenated into one
vector.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import capabilities
from curvedp.geometry.capabilities import OriginIsometry
from curvedp.geometry.float_set import FloatSet, ProductFloatSet
from curvedp.geometry.manifold import Array, Manifold
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import euclidean_norm


@dataclass(frozen=True, init=False)
class Product(OriginIsometry):
    """The Riemannian product of its factors: squared distances add.

    A point is one vector: the points of the factors, raveled in row-major order and
    concatenated. `split` returns the parts of a point or tangent vector, and `join` puts
    parts together. The curvature of a plane in one factor is that of the factor, and
    planes that mix two factors have curvature 0 (O'Neill 1983, ch. 3).

    Parameters
    ----------
    *factors : Manifold
        At least one.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean, Sphere
    >>> M = Product(Sphere(2), Euclidean(1))
    >>> float(M.dist(np.array([1.0, 0, 0, 0]), np.array([1.0, 0, 0, 2])))
    2.0
    """

    # `__init__` sets this field. The default is needed because otherwise the property
    # of the base class would be taken for the default.
    factors: tuple[Manifold, ...] = ()

    def __init__(self, *factors: Manifold) -> None:
        """Store the factors.

        Parameters
        ----------
        *factors : Manifold
            At least one.

        Raises
        ------
        ParameterError
            If there is no factor, or one of them is not a manifold.
        """
        if not factors or not all(isinstance(factor, Manifold) for factor in factors):
            raise ParameterError(
                "must be one or more manifolds", parameter="factors", value=factors
            )
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        """Return the expression that builds this product."""
        return f"Product({', '.join(map(repr, self.factors))})"

    # ---- constants -------------------------------------------------------------------

    @cached_property
    def name(self) -> str:
        """The name of the product, such as ``product(sphere:2,torus:1)``."""
        return f"product({','.join(factor.name for factor in self.factors)})"

    @cached_property
    def dim(self) -> int:
        """The dimension: the sum of the factors' dimensions."""
        return sum(factor.dim for factor in self.factors)

    @cached_property
    def point_shape(self) -> tuple[int, ...]:
        """A point is one vector with the numbers of all its parts."""
        return (sum(math.prod(factor.point_shape) for factor in self.factors),)

    @property
    def origin(self) -> Array:
        """The point whose parts are the origins of the factors."""
        return np.concatenate([np.ravel(factor.origin) for factor in self.factors])

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """The lower and upper bound of sectional curvatures.

        They are the extremes of the factors' bounds and of 0, the curvature of a plane
        that contains vectors of two factors.
        """
        if len(self.factors) == 1:
            return self.factors[0].curvature_bounds
        lower = [factor.curvature_bounds[0] for factor in self.factors]
        upper = [factor.curvature_bounds[1] for factor in self.factors]
        return (min(0.0, *lower), max(0.0, *upper))

    @cached_property
    def injectivity_radius(self) -> float:
        """The least of the factors' radii.

        A geodesic of a product is shortest as long as each of its parts is.
        """
        return min(factor.injectivity_radius for factor in self.factors)

    @cached_property
    def is_homogeneous(self) -> bool:
        """Whether isometries carry any point to any other: true if so in every factor."""
        return all(factor.is_homogeneous for factor in self.factors)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether this is a symmetric space: true if every factor is one."""
        return all(factor.is_symmetric for factor in self.factors)

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: all parts must be well represented."""
        distances = [factor.float_set.max_distance for factor in self.factors]
        parts = tuple((factor.float_set, factor.dim) for factor in self.factors)
        return ProductFloatSet(max_distance=min(distances), parts=parts)

    # ---- parts -----------------------------------------------------------------------

    def split(self, x: Array) -> tuple[Array, ...]:
        """Return the parts of a point or tangent vector, each with its factor's shape.

        Kernels treat each part by the kernel of its factor.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            A point or a tangent vector.

        Returns
        -------
        tuple of arrays
            One array of shape (..., *factor.point_shape) for each factor.
        """
        xp = namespace(x)
        parts = []
        start = 0
        for factor in self.factors:
            stop = start + math.prod(factor.point_shape)
            part = xp.reshape(x[..., start:stop], (*x.shape[:-1], *factor.point_shape))
            parts.append(part)
            start = stop
        return tuple(parts)

    def join(self, parts: Sequence[Array]) -> Array:
        """Return the point or tangent vector that has the given parts.

        This is the inverse of `split`.

        Parameters
        ----------
        parts : sequence of arrays
            A point or tangent vector of each factor; leading axes are broadcast.

        Returns
        -------
        array of shape (..., *point_shape)
            The parts, raveled and concatenated.
        """
        xp = namespace(*parts)
        flat_parts = []
        for factor, part in zip(self.factors, parts, strict=True):
            batch = part.shape[: part.ndim - len(factor.point_shape)]
            flat_part = xp.reshape(part, (*batch, math.prod(factor.point_shape)))
            flat_parts.append(flat_part)
        return _concat(xp, flat_parts)

    def _split_coordinates(self, z: Array) -> list[Array]:
        """Return the coordinates that belong to each factor.

        Parameters
        ----------
        z : array of shape (..., dim)
            Coordinates.

        Returns
        -------
        list of arrays
            One array of shape (..., factor.dim) for each factor.
        """
        parts = []
        start = 0
        for factor in self.factors:
            parts.append(z[..., start : start + factor.dim])
            start += factor.dim
        return parts

    def _by_factor(self, *arrays: Array) -> Iterator[tuple[Any, ...]]:
        """Yield, for each factor of the product, the factor and its parts of arrays.

        Parameters
        ----------
        *arrays : arrays of shape (..., *point_shape)
            Points or tangent vectors.

        Yields
        ------
        tuple
            The factor, then for each of the arrays the part that belongs to it.
        """
        return zip(self.factors, *map(self.split, arrays), strict=True)

    # ---- isometries to the origin ----------------------------------------------------

    def canonical_center(self, center: Array) -> Array:
        """Return where `move_to_origin` takes a center, part by part.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.

        Returns
        -------
        array of shape point_shape
            The image of the center.
        """
        parts = zip(self.factors, self.split(center), strict=True)
        return self.join(
            [capabilities.canonical_center(factor, part) for factor, part in parts]
        )

    def move_to_origin(self, center: Array, X: Array) -> Array:
        """Move each part of the points X by the isometry for its part of the center.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved points.
        """
        parts = zip(self.factors, self.split(center), self.split(X), strict=True)
        moved_parts = [
            capabilities.move_to_origin(factor, part_of_center, part)
            for factor, part_of_center, part in parts
        ]
        return self.join(moved_parts)

    def move_from_origin(self, center: Array, X: Array) -> Array:
        """Move each part of the points X by the inverse of `move_to_origin`.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.
        X : array of shape (..., *point_shape)
            Points, moved by `move_to_origin`.

        Returns
        -------
        array of shape (..., *point_shape)
            The points where they belong.
        """
        parts = zip(self.factors, self.split(center), self.split(X), strict=True)
        moved_parts = [
            capabilities.move_from_origin(factor, part_of_center, part)
            for factor, part_of_center, part in parts
        ]
        return self.join(moved_parts)

    # ---- kernels ---------------------------------------------------------------------

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v, part by part.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            The points where the geodesics start.
        v : array of shape (..., *point_shape)
            Their velocities, tangent vectors at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        return self.join(
            [factor.exp(*parts) for factor, *parts in self._by_factor(p, v)]
        )

    def log(self, p: Array, q: Array) -> Array:
        """Return the shortest velocity from p to q, part by part.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        return self.join(
            [factor.log(*parts) for factor, *parts in self._by_factor(p, q)]
        )

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance √Σdᵢ² of p and q, dᵢ the distance of their i-th parts.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (...)
            The distances.
        """
        distances = [factor.dist(*parts) for factor, *parts in self._by_factor(p, q)]
        return _length(namespace(p, q), distances)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product of u and v at p: the sum of those of their parts.

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
        products = [factor.inner(*parts) for factor, *parts in self._by_factor(p, u, v)]
        return reduce(add, products)

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length √Σlᵢ² of v at p, lᵢ the length of its i-th part.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (...)
            The lengths.
        """
        lengths = [factor.norm(*parts) for factor, *parts in self._by_factor(p, v)]
        return _length(namespace(p, v), lengths)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q, each part by the transport of its factor.

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
        return self.join(
            [factor.transport(*parts) for factor, *parts in self._by_factor(p, q, v)]
        )

    def project(self, x: Array) -> Array:
        """Return a point near x: each part is projected to its factor.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, usually one near the manifold.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        return self.join(
            [factor.project(*parts) for factor, *parts in self._by_factor(x)]
        )

    def from_record(self, x: Array) -> Array:
        """Return the point that a record x stands for, part by part.

        If one part stands for no point its numbers are NaN, and so the record has none.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        return self.join(
            [factor.from_record(*parts) for factor, *parts in self._by_factor(x)]
        )

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent vector at p nearest to x, part by part.

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
        return self.join(
            [factor.to_tangent(*parts) for factor, *parts in self._by_factor(p, x)]
        )

    def residual(self, p: Array) -> Array:
        """Return how far p is from the product: the largest residual of its parts.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals.
        """
        xp = namespace(p)
        return xp.max(
            xp.stack(
                [factor.residual(*parts) for factor, *parts in self._by_factor(p)],
                axis=-1,
            ),
            axis=-1,
        )

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with coordinates z, part by part.

        The coordinates of the factors follow each other in z.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        z : array of shape (..., dim)
            Orthonormal coordinates of a tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        parts = zip(
            self.factors, self.split(p), self._split_coordinates(z), strict=True
        )
        return self.join(
            [factor.from_coordinates(point, part) for factor, point, part in parts]
        )

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the coordinates of v at p: those of its parts, concatenated.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        return _concat(
            namespace(p, v),
            [factor.to_coordinates(*parts) for factor, *parts in self._by_factor(p, v)],
        )

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the Jacobi operator R_v, with those of the factors as diagonal blocks.

        The other blocks are 0, because planes that mix two factors are flat.

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
        blocks = [
            factor.jacobi_operator(*parts) for factor, *parts in self._by_factor(p, v)
        ]

        # Put the blocks on the diagonal.
        operator = np.zeros((*blocks[0].shape[:-2], self.dim, self.dim))
        start = 0
        for block in blocks:
            rows = slice(start, start + block.shape[-1])
            operator[..., rows, rows] = block
            start = rows.stop
        return operator


def _concat(xp: Any, vectors: Sequence[Array]) -> Array:
    """Concatenate vectors along the last axis, with leading axes broadcast.

    Kernels join the parts of their results by it.

    Parameters
    ----------
    xp : module
        The array library of the vectors.
    vectors : sequence of arrays
        The vectors.

    Returns
    -------
    array
        The concatenated vectors.
    """
    batch = np.broadcast_shapes(*(tuple(vector.shape[:-1]) for vector in vectors))
    broadcast = [
        xp.broadcast_to(vector, (*batch, vector.shape[-1])) for vector in vectors
    ]
    return xp.concat(broadcast, axis=-1)


def _length(xp: Any, parts: Sequence[Array]) -> Array:
    """Return √Σlᵢ² from the lengths of the parts of a vector.

    Parameters
    ----------
    xp : module
        The array library.
    parts : sequence of arrays
        One array of lengths, or distances, for each factor; shapes broadcast.

    Returns
    -------
    array
        The length of the vector that has these parts.
    """
    return euclidean_norm(xp, xp.stack(xp.broadcast_arrays(*parts), axis=-1))


def split_into_factors(M: Manifold, x: Array) -> tuple[Array, ...]:
    """Split points or tangent vectors into their parts, one for each of `M.factors`.

    A manifold that is not a `Product` is its own single factor. So code that works
    factor by factor can be used for every manifold.

    Parameters
    ----------
    M : Manifold
        The space.
    x : array of shape (..., *point_shape)
        Points or tangent vectors.

    Returns
    -------
    tuple of arrays
        One array of shape (..., *factor.point_shape) for each factor.
    """
    return M.split(x) if isinstance(M, Product) else (x,)


def join_factors(M: Manifold, parts: Sequence[Array]) -> Array:
    """Join parts into points or tangent vectors: the inverse of `split_into_factors`.

    Parameters
    ----------
    M : Manifold
        The space.
    parts : sequence of arrays
        One array of shape (..., *factor.point_shape) for each factor.

    Returns
    -------
    array of shape (..., *point_shape)
        The points or tangent vectors.
    """
    return M.join(parts) if isinstance(M, Product) else parts[0]
