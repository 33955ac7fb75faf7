"""Angles: the flat torus."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from curvedp._validate import integer
from curvedp.geometry.base import Array, Manifold
from curvedp.geometry.numerics.namespace import namespace
from curvedp.geometry.numerics.stable import euclidean_norm

__all__ = ["Torus"]


@dataclass(frozen=True)
class Torus(Manifold):
    """d angles in radians, each modulo 2π: a product of unit circles, and flat.

    Any real numbers are a point; results lie in [−π, π]. Balls of radius below π/2 are those of flat space, so the Fréchet
    mean costs 2r/n there, and noise in the chart is exact.

    Parameters
    ----------
    d : int
        The number of angles.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Torus
    >>> float(np.round(Torus(1).dist(np.array([3.0]), np.array([-3.0])), 6))  # the short way round
    0.283185
    """

    kind: ClassVar[str] = "torus"
    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", integer("d", self.d, 1))

    @cached_property
    def dim(self) -> int:
        return self.d

    @cached_property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d,)

    @property
    def origin(self) -> Array:
        return np.zeros(self.d)

    curvature_bounds = (0.0, 0.0)
    injectivity_radius = math.pi
    is_homogeneous = True
    is_symmetric = True

    def exp(self, p: Array, v: Array) -> Array:
        return _wrapped(p + v)

    def log(self, p: Array, q: Array) -> Array:
        return _wrapped(q - p)

    def dist(self, p: Array, q: Array) -> Array:
        return euclidean_norm(namespace(p, q), _wrapped(q - p))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.vecdot(*xp.broadcast_arrays(p, u, v)[1:])

    def norm(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        return euclidean_norm(xp, xp.broadcast_arrays(p, v)[1])

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return namespace(p, q, v).broadcast_arrays(p, q, v)[2]

    def project(self, x: Array) -> Array:
        return _wrapped(x)

    def nearest(self, x: Array) -> Array:
        return _wrapped(x)

    embedded_diameter = 2.0

    def embedded(self, X: Array) -> np.ndarray:
        X = np.asarray(X)
        return np.asarray(np.concatenate([np.cos(X), np.sin(X)], axis=-1) / self.d**0.5)

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(np.arctan2(z[self.d :], z[: self.d]))

    def to_tangent(self, p: Array, x: Array) -> Array:
        return namespace(p, x).broadcast_arrays(p, x)[1]

    def residual(self, p: Array) -> Array:
        xp = namespace(p)
        return xp.sum(p * 0, axis=-1)  # any number is an angle; NaN where p is not finite

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return namespace(p, z).broadcast_arrays(p, z)[1]

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return namespace(p, v).broadcast_arrays(p, v)[1]


def _wrapped(x: Array) -> Array:
    """x modulo 2π in [−π, π]; exactly x where it lies there, so that small angles keep their digits."""
    xp = namespace(x)
    x = x - 2 * math.pi * xp.round(x / (2 * math.pi))
    return xp.clip(x, -math.pi, math.pi)  # of numbers so large that a turn is below their spacing, anything remains
