"""Products of manifolds, with flat vectors as points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from inspect import signature
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array, Manifold, fact
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import euclidean_norm


def _least(name: str) -> Any:
    """The least of a number of the factors."""
    return fact(lambda self: min(getattr(factor, name) for factor in self.factors))


def _joined(name: str) -> Any:
    """A kernel made of the factors'."""

    def kernel(self: "Product", *arrays: Array, **named: Array) -> Array:
        return self.join(
            self._each(
                name,
                *arrays,
                *(named[argument] for argument in order if argument in named),
            )
        )

    order = list(signature(getattr(Manifold, name)).parameters)
    return kernel


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
    >>> from curvedp.geometry import Euclidean, Sphere
    >>> M = Product(Sphere(2), Euclidean(1))
    >>> float(M.dist(np.array([1.0, 0, 0, 0]), np.array([1.0, 0, 0, 2])))
    2.0
    """

    factors: tuple[
        Manifold, ...
    ] = ()  # set below; a default, or the base class's property would be taken for one

    def __init__(self, *factors: Manifold) -> None:
        if not factors or not all(isinstance(factor, Manifold) for factor in factors):
            raise ParameterError(
                "must be one or more manifolds", parameter="factors", value=factors
            )
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))})"

    dim = fact(lambda self: sum(factor.dim for factor in self.factors))
    point_shape = fact(
        lambda self: (sum(math.prod(factor.point_shape) for factor in self.factors),)
    )
    origin = property(
        lambda self: np.concatenate(
            [np.ravel(factor.origin) for factor in self.factors]
        )
    )
    injectivity_radius, boundary_distance = map(
        _least, ("injectivity_radius", "boundary_distance")
    )
    float_reach, held_reach = map(_least, ("float_reach", "held_reach"))
    is_homogeneous = fact(
        lambda self: all(factor.is_homogeneous for factor in self.factors)
    )
    is_symmetric = fact(
        lambda self: all(factor.is_symmetric for factor in self.factors)
    )
    name = fact(
        lambda self: f"product({','.join(factor.name for factor in self.factors)})"
    )

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        low, high = zip(
            *(factor.curvature_bounds for factor in self.factors), strict=True
        )
        return (
            (low[0], high[0])
            if len(self.factors) == 1
            else (min(0.0, *low), max(0.0, *high))
        )

    def split(self, x: Array) -> tuple[Array, ...]:
        """The parts of a flat point or tangent vector, each with its factor's shape."""
        xp = namespace(x)
        parts, start = [], 0
        for factor in self.factors:
            stop = start + math.prod(factor.point_shape)
            parts.append(
                xp.reshape(x[..., start:stop], (*x.shape[:-1], *factor.point_shape))
            )
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
        return [
            z[..., end - factor.dim : end]
            for factor, end in zip(self.factors, ends.tolist(), strict=True)
        ]

    def _each(self, method: str, *arrays: Array) -> list[Any]:
        parts = zip(*(self.split(array) for array in arrays), strict=True)
        return [
            getattr(factor, method)(*part)
            for factor, part in zip(self.factors, parts, strict=True)
        ]

    def held_coordinates(self, z: Array) -> Array:
        """Factor by factor: one share for all of them would stretch the others."""
        parts = zip(self.factors, self._split_coordinates(z), strict=True)
        return namespace(z).concat(
            [factor.held_coordinates(part) for factor, part in parts], axis=-1
        )

    def held_radius(self, radius: float) -> float:
        return min(
            radius, math.hypot(*(factor.held_radius(radius) for factor in self.factors))
        )

    def held_share(self, z: Array) -> Array:
        """The least of the factors', so that the point stays on its geodesic."""
        xp = namespace(z)
        parts = zip(self.factors, self._split_coordinates(z), strict=True)
        return xp.min(
            xp.stack([factor.held_share(part) for factor, part in parts], axis=-1),
            axis=-1,
        )

    def float_spread(self, radius: float) -> float:
        return math.hypot(*(factor.float_spread(radius) for factor in self.factors))

    # What is a point or a tangent vector again; of `from_record`, NaN in one factor is NaN in the record.
    home, to_origin, from_origin = map(_joined, ("home", "to_origin", "from_origin"))
    exp, log, transport = map(_joined, ("exp", "log", "transport"))
    project, from_record, to_tangent = map(
        _joined, ("project", "from_record", "to_tangent")
    )

    def dist(self, p: Array, q: Array) -> Array:
        return _length(namespace(p, q), self._each("dist", p, q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return reduce(lambda total, part: total + part, self._each("inner", p, u, v))

    def norm(self, p: Array, v: Array) -> Array:
        return _length(namespace(p, v), self._each("norm", p, v))

    def residual(self, p: Array) -> Array:
        """The largest residual of the factors."""
        xp = namespace(p)
        return xp.max(xp.stack(self._each("residual", p), axis=-1), axis=-1)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        points, parts = self.split(p), self._split_coordinates(z)
        return self.join(
            [
                f.from_coordinates(q, part)
                for f, q, part in zip(self.factors, points, parts, strict=True)
            ]
        )

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return _concat(namespace(p, v), self._each("to_coordinates", p, v))

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Block by block: planes that mix two factors are flat."""
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        blocks = self._each("jacobi_operator", p, v)
        whole = np.zeros((*blocks[0].shape[:-2], self.dim, self.dim))
        for block, stop in zip(
            blocks, np.cumsum([block.shape[-1] for block in blocks]), strict=True
        ):
            part = slice(stop - block.shape[-1], stop)
            whole[..., part, part] = block
        return whole


def _concat(xp: Any, vectors: Sequence[Array]) -> Array:
    """Concatenated over the last axis, leading axes broadcast."""
    batch = np.broadcast_shapes(*(tuple(vector.shape[:-1]) for vector in vectors))
    return xp.concat(
        [xp.broadcast_to(vector, (*batch, vector.shape[-1])) for vector in vectors],
        axis=-1,
    )


def _length(xp: Any, parts: Sequence[Array]) -> Array:
    return euclidean_norm(xp, xp.stack(xp.broadcast_arrays(*parts), axis=-1))
