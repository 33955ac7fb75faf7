"""Products of manifolds, with flat vectors as points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.base import Array, Manifold
from curvedp.geometry.numerics.namespace import namespace
from curvedp.geometry.numerics.stable import euclidean_norm


@dataclass(frozen=True, init=False)
class Product(Manifold):
    """The Riemannian product of its factors: squared distances add.

    A point is one flat vector, the factors' points raveled in row-major order and concatenated; `split` takes it (and
    any tangent vector) apart and `join` puts it together. Curvatures of a product are those of the factors and 0, for
    the planes that mix two factors (O'Neill 1983, ch. 3).

    Parameters
    ----------
    *factors : Manifold
        At least one.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Euclidean, Product, Sphere
    >>> M = Product(Sphere(2), Euclidean(1))
    >>> float(M.dist(np.array([1.0, 0, 0, 0]), np.array([1.0, 0, 0, 2])))
    2.0
    """

    factors: tuple[Manifold, ...] = ()  # set below; a default, or the base class's property would be taken for one

    def __init__(self, *factors: Manifold) -> None:
        if not factors or not all(isinstance(factor, Manifold) for factor in factors):
            raise ParameterError(f"factors={factors!r} must be one or more manifolds")
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))})"

    # ---- constants -------------------------------------------------------------------------------------------

    @cached_property
    def dim(self) -> int:
        return sum(factor.dim for factor in self.factors)

    @cached_property
    def point_shape(self) -> tuple[int, ...]:
        return (sum(math.prod(factor.point_shape) for factor in self.factors),)

    @property
    def origin(self) -> Array:
        return np.concatenate([np.ravel(factor.origin) for factor in self.factors])

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        low, high = zip(*(factor.curvature_bounds for factor in self.factors), strict=True)
        if len(self.factors) == 1:
            return (low[0], high[0])
        return (min(0.0, *low), max(0.0, *high))

    @cached_property
    def injectivity_radius(self) -> float:
        return min(factor.injectivity_radius for factor in self.factors)

    @cached_property
    def boundary_distance(self) -> float:
        return min(factor.boundary_distance for factor in self.factors)

    @cached_property
    def is_homogeneous(self) -> bool:
        return all(factor.is_homogeneous for factor in self.factors)

    @cached_property
    def is_symmetric(self) -> bool:
        return all(factor.is_symmetric for factor in self.factors)

    @cached_property
    def float_reach(self) -> float:
        return min(factor.float_reach for factor in self.factors)

    @cached_property
    def name(self) -> str:
        return f"product({','.join(factor.name for factor in self.factors)})"

    # ---- flat vectors and their parts --------------------------------------------------------------------------

    def split(self, x: Array) -> tuple[Array, ...]:
        """The parts of a flat point or tangent vector, each with its factor's shape."""
        xp = namespace(x)
        parts, start = [], 0
        for factor in self.factors:
            stop = start + math.prod(factor.point_shape)
            parts.append(xp.reshape(x[..., start:stop], (*x.shape[:-1], *factor.point_shape)))
            start = stop
        return tuple(parts)

    def join(self, parts: Sequence[Array]) -> Array:
        """Inverse of `split`; leading axes are broadcast against each other."""
        xp = namespace(*parts)
        flat = []
        for factor, part in zip(self.factors, parts, strict=True):
            batch = part.shape[: part.ndim - len(factor.point_shape)]
            flat.append(xp.reshape(part, (*batch, math.prod(factor.point_shape))))
        return _concat(xp, flat)

    def _split_coordinates(self, z: Array) -> list[Array]:
        ends = np.cumsum([factor.dim for factor in self.factors])
        return [z[..., end - factor.dim : end] for factor, end in zip(self.factors, ends.tolist(), strict=True)]

    def _each(self, method: str, *arrays: Array) -> list[Any]:
        parts = zip(*(self.split(array) for array in arrays), strict=True)
        return [getattr(factor, method)(*part) for factor, part in zip(self.factors, parts, strict=True)]

    @cached_property
    def held_reach(self) -> float:
        return min(factor.held_reach for factor in self.factors)

    def held_coordinates(self, z: Array) -> Array:
        """Factor by factor: one share for all of them would stretch the others."""
        parts = zip(self.factors, self._split_coordinates(z), strict=True)
        return namespace(z).concat([factor.held_coordinates(part) for factor, part in parts], axis=-1)

    def held_share(self, z: Array) -> Array:
        """The least of the factors', so that the point stays on its geodesic."""
        xp = namespace(z)
        parts = zip(self.factors, self._split_coordinates(z), strict=True)
        return xp.min(xp.stack([factor.held_share(part) for factor, part in parts], axis=-1), axis=-1)

    def float_spread(self, radius: float) -> float:
        return math.hypot(*(factor.float_spread(radius) for factor in self.factors))

    def home(self, center: Array) -> Array:
        return self.join(self._each("home", center))

    def to_origin(self, center: Array, X: Array) -> Array:
        return self.join(self._each("to_origin", center, X))

    def from_origin(self, center: Array, X: Array) -> Array:
        return self.join(self._each("from_origin", center, X))

    # ---- kernels -----------------------------------------------------------------------------------------------

    def exp(self, p: Array, v: Array) -> Array:
        return self.join(self._each("exp", p, v))

    def log(self, p: Array, q: Array) -> Array:
        return self.join(self._each("log", p, q))

    def dist(self, p: Array, q: Array) -> Array:
        return _length(namespace(p, q), self._each("dist", p, q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return reduce(lambda total, part: total + part, self._each("inner", p, u, v))

    def norm(self, p: Array, v: Array) -> Array:
        return _length(namespace(p, v), self._each("norm", p, v))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return self.join(self._each("transport", p, q, v))

    def project(self, x: Array) -> Array:
        return self.join(self._each("project", x))

    def nearest(self, x: Array) -> Array:
        """The nearest point of each factor; NaN in one of them is NaN in the record."""
        return self.join(self._each("nearest", x))

    def to_tangent(self, p: Array, x: Array) -> Array:
        return self.join(self._each("to_tangent", p, x))

    def residual(self, p: Array) -> Array:
        """The largest residual of the factors."""
        xp = namespace(p)
        return xp.max(xp.stack(self._each("residual", p), axis=-1), axis=-1)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        points, parts = self.split(p), self._split_coordinates(z)
        return self.join([f.from_coordinates(q, part) for f, q, part in zip(self.factors, points, parts, strict=True)])

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return _concat(namespace(p, v), self._each("to_coordinates", p, v))

    def _curvature_operator(self, p: Array, v: Array) -> np.ndarray:
        """Block by block: planes that mix two factors are flat."""
        blocks = self._each("curvature_operator", p, v)
        whole = np.zeros((*blocks[0].shape[:-2], self.dim, self.dim))
        for block, stop in zip(blocks, np.cumsum([block.shape[-1] for block in blocks]), strict=True):
            part = slice(stop - block.shape[-1], stop)
            whole[..., part, part] = block
        return whole


def _concat(xp: Any, vectors: Sequence[Array]) -> Array:
    """Concatenated over the last axis, leading axes broadcast."""
    batch = np.broadcast_shapes(*(tuple(vector.shape[:-1]) for vector in vectors))
    return xp.concat([xp.broadcast_to(vector, (*batch, vector.shape[-1])) for vector in vectors], axis=-1)


def _length(xp: Any, parts: Sequence[Array]) -> Array:
    return euclidean_norm(xp, xp.stack(xp.broadcast_arrays(*parts), axis=-1))
