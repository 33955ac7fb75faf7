"""The unit sphere S^d in R^{d+1}."""

import math
from typing import Any

import numpy as np

from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.euclidean import Vectors
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.elementary import (
    cos_sinc,
    direction,
    dot_lists,
    euclidean_norm,
    quick_or,
    versine_quotient,
)

_SQUARES = 1e-140  # lengths above it have squares that do not underflow


class Sphere(Vectors):
    """Unit vectors of R^{d+1} with the angle as distance. Curvature 1.

    A float vector is never exactly a unit vector: `dist` and `log` take the angle between the RAYS through p and q, so
    that the radial round-off of the points does not count as distance. Relative error of a few units of round-off
    from distance 1e-300 up to the antipode, where `log` returns one of the shortest velocities, always the same.

    Parameters
    ----------
    d : int
        The dimension; points have one number more.

    Examples
    --------
    >>> M = Sphere(2)
    >>> float(M.dist(np.array([1.0, 0.0, 0.0]), np.array([1.0, 1e-15, 0.0])))
    1e-15
    """

    kind = "sphere"
    point_shape = fact(lambda self: (self.d + 1,))
    origin = property(lambda self: np.eye(1, self.d + 1)[0])
    curvature_bounds = fact(lambda self: (1.0, 1.0) if self.d > 1 else (0.0, 0.0))
    injectivity_radius = math.pi
    quadric = fact(lambda self: np.ones(self.d + 1))
    embedded_diameter = 2.0

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        cos, sinc = cos_sinc(xp, xp.vecdot(v, v)[..., None])
        return cos * p + sinc * v

    def log(self, p: Array, q: Array) -> Array:
        def quick(x: list[Array], y: list[Array]) -> tuple[Array, Array]:
            angle, parts, length = _quick_angle(x, y, 2)
            factor = angle / length
            return np.stack(
                [factor * part for part in parts], axis=-1
            ), length > _SQUARES

        return quick_or(self._log, quick, p, q)

    def _log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        angle, rest, length, cosine = self._angle(xp, p, q)
        none = length == 0
        factor = xp.where(none, 1.0, angle / xp.where(none, 1.0, length))
        # At the antipode every direction is shortest: take the first coordinate axis of the frame at p.
        axis = like(rest, np.eye(1, self.d)[0])
        cut = math.pi * self.from_coordinates(
            p, xp.broadcast_to(axis, (*rest.shape[:-1], self.d))
        )
        return xp.where((none & (cosine < 0))[..., None], cut, factor[..., None] * rest)

    def dist(self, p: Array, q: Array) -> Array:
        def quick(x: list[Array], y: list[Array]) -> tuple[Array, Array]:
            angle, _, length = _quick_angle(x, y, 1)
            return angle, length > _SQUARES

        return quick_or(lambda p, q: self._angle(namespace(p, q), p, q)[0], quick, p, q)

    def _angle(self, xp: Any, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
        """The angle between the rays through p and q; the part of q orthogonal to p, and its length; |p||q| cos."""
        cosine = xp.vecdot(p, q)
        square = xp.vecdot(p, p)
        # q, q - p and q + p have the same part orthogonal to p. The shorter of the last two is exact where it is
        # small, so its orthogonal part keeps its digits near p as well as near the antipode. The second pass makes
        # the direction tangent even where the first one leaves only round-off.
        rest = xp.where((cosine < 0)[..., None], q + p, q - p)
        for _ in range(2):
            rest = rest - (xp.vecdot(p, rest) / square)[..., None] * p
        length = euclidean_norm(xp, rest)
        return xp.atan2(length * xp.sqrt(square), cosine), rest, length, cosine

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        xp = namespace(p, q, v)
        velocity = self.log(p, q)
        square = xp.vecdot(velocity, velocity)[..., None]
        along = xp.vecdot(velocity, v)[..., None]
        # v turns with the geodesic: its part along the unit velocity e becomes cos e - sin p. Written in the velocity
        # itself it is smooth at p = q, and holds at the cut locus, where v - <q,v>/(1+<p,q>)(p+q) divides by 0.
        return v - along * (
            cos_sinc(xp, square)[1] * p + versine_quotient(xp, square) * velocity
        )

    def project(self, x: Array) -> Array:
        xp = namespace(x)
        length = euclidean_norm(xp, x)[..., None]
        return xp.where(
            length == 0, like(x, self.origin), x / xp.where(length == 0, 1.0, length)
        )

    def from_record(self, x: Array) -> Array:
        """The unit vector along x, whatever its length; 0 has none."""
        return direction(namespace(x), x)

    def embedded(self, X: Array) -> np.ndarray:
        return np.asarray(X)

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.project(z))

    def to_tangent(self, p: Array, x: Array) -> Array:
        xp = namespace(p, x)
        return x - (xp.vecdot(p, x) / xp.vecdot(p, p))[..., None] * p

    def residual(self, p: Array) -> Array:
        xp = namespace(p)
        return xp.abs(euclidean_norm(xp, p) - 1)

    # The Householder reflection that carries ±e1 to p carries (0, z) into the tangent space at p. With the sign of p1
    # the reflected pole is never close to p, so 1 + |p1| replaces the 1 + p1 of the frame e_i - p_{i+1}/(1+p1)(e1+p),
    # which is undefined at p = -e1.

    def from_coordinates(self, p: Array, z: Array) -> Array:
        xp = namespace(p, z)
        first, rest = p[..., :1], p[..., 1:]
        along = xp.vecdot(rest, z)[..., None]
        return xp.concat(
            [
                xp.where(first < 0, along, -along),
                z - along / (1 + xp.abs(first)) * rest,
            ],
            axis=-1,
        )

    def to_coordinates(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        first, rest = p[..., :1], p[..., 1:]
        along = xp.where(first < 0, -v[..., :1], v[..., :1])
        return v[..., 1:] - along / (1 + xp.abs(first)) * rest


def _quick_angle(
    x: list[Array], y: list[Array], passes: int
) -> tuple[Array, list[Array], Array]:
    """`_angle` coordinate by coordinate; the part orthogonal to p is cleaned twice where its direction counts."""
    cosine, square = dot_lists(x, y), dot_lists(x, x)
    side = np.copysign(1.0, cosine)
    rest = [b - side * a for a, b in zip(x, y, strict=True)]  # exact where it is small
    for _ in range(passes):
        along = dot_lists(x, rest) / square
        rest = [r - along * a for a, r in zip(x, rest, strict=True)]
    length = np.sqrt(dot_lists(rest, rest))
    return np.arctan2(length * np.sqrt(square), cosine), rest, length
