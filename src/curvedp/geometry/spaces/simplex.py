"""Proportions: the simplex with the Fisher–Rao metric."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.numerics.arrays import namespace


@dataclass(frozen=True)
class Simplex(PullbackManifold):
    """k + 1 proportions p ≥ 0, Σp = 1, with the Fisher–Rao metric Σ uᵢvᵢ/pᵢ. Curvature
    ¼.

    p ↦ 2√p is an isometry onto the orthant of the sphere of radius 2 (Rao 1945; Amari &
    Nagaoka 2000, §2.2), which is convex, so means stay in it, zeros are allowed, and
    `dist` has all its digits there. Tangent vectors are changes of p, which sum to 0
    and cannot leave a face to first order: a footpoint on the boundary loses those
    directions in `log`, but not in `normal_coordinates`. A geodesic that leaves the
    orthant ends at the nearest point of the orthant. The radii of injectivity and
    convexity are those of the sphere: `exp` inverts `log` everywhere, `log` inverts
    `exp` as long as it stays inside.

    Parameters
    ----------
    k : int
        The dimension, one less than the number of proportions.

    Examples
    --------
    >>> float(Simplex(1).dist(np.array([1.0, 0.0]), np.array([0.0, 1.0])) / np.pi)  # the largest distance
    1.0
    """

    kind = "simplex"
    scale = 2.0
    k: int

    sizes = (("k", 1),)
    model = fact(lambda self: Sphere(self.k))
    point_shape = fact(lambda self: (self.k + 1,))
    origin = property(
        lambda self: np.full(self.k + 1, 1 / (self.k + 1))
    )  # equal proportions
    is_homogeneous = False  # the orthant has a boundary
    boundary_distance = fact(lambda self: 2 * math.asin((self.k + 1) ** -0.5))

    def project(self, x: Array) -> Array:
        """Positive parts divided by their sum; equal proportions where nothing is
        positive.
        """
        xp = namespace(x)
        point = self.from_record(x)
        return xp.where(xp.isnan(point) & ~xp.isnan(x), 1 / (self.k + 1), point)

    def from_record(self, x: Array) -> Array:
        """Positive parts divided by their sum: counts and percentages stand for
        proportions.
        """
        xp = namespace(x)
        part = xp.where(x < 0, 0.0, x)
        largest = xp.max(part, axis=-1, keepdims=True)
        part = part / xp.where(largest > 0, largest, 1.0)
        total = xp.sum(part, axis=-1, keepdims=True)
        return xp.where(total > 0, part / xp.where(total > 0, total, 1.0), xp.nan)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """x without its mean: sums of tangent vectors vanish."""
        xp = namespace(p, x)
        return x - xp.mean(x, axis=-1, keepdims=True) + xp.zeros_like(p)

    def residual(self, p: Array) -> Array:
        """How far the sum is from 1, plus what is negative."""
        xp = namespace(p)
        return xp.abs(xp.sum(p, axis=-1) - 1) + xp.sum(
            xp.where(p < 0, -p, 0.0), axis=-1
        )

    def to_model(self, x: Array) -> Array:
        return _root(namespace(x), x)

    def from_model(self, y: Array) -> Array:
        """Squares, after what is negative went to 0: the nearest point of the orthant.
        Where nothing is positive, of −y.
        """
        xp = namespace(y)
        part = xp.where(y < 0, 0.0, y)
        part = xp.where(xp.max(part, axis=-1, keepdims=True) <= 0, -y, part)
        square = part * part
        return square / xp.sum(square, axis=-1, keepdims=True)

    def _push(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        root = _root(xp, p)
        inside = root != 0  # NaN is no boundary
        return xp.where(inside, v / (2 * xp.where(inside, root, 1.0)), 0.0)

    def _pull(self, p: Array, w: Array) -> Array:
        return 2 * _root(namespace(p), p) * w


def _root(xp: Any, p: Array) -> Array:
    """√p, 0 where p is not positive, with a finite derivative there."""
    inside = p > 0
    return xp.where(inside, xp.sqrt(xp.where(inside, p, 1.0)), 0 * p)
