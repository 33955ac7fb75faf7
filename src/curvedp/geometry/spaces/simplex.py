"""The simplex of proportions (nonnegative numbers that sum to 1), with the Fisher–Rao
metric. The square roots of proportions are a unit vector without negative entries, so
that the simplex is isometric to a part of a sphere, its orthant.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from curvedp.geometry.capabilities import ManifoldWithBoundary
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.numerics.arrays import namespace


@dataclass(frozen=True)
class Simplex(PullbackManifold, ManifoldWithBoundary):
    """k + 1 proportions p ≥ 0, Σp = 1, with the metric Σ uᵢvᵢ/pᵢ. Curvature ¼.

    The map p ↦ 2√p is an isometry onto the orthant of the sphere of radius 2 (Rao
    1945; Amari & Nagaoka 2000, §2.2). The orthant is convex, so that it contains the
    means of its points. Proportions may be 0, and `dist` is accurate there too.

    Tangent vectors are changes of p, which sum to 0. At a point of the boundary, where
    an entry of p is 0, they have no component out of the boundary to first order: such
    directions are lost in `log`, but not in `normal_coordinates`. If a geodesic would
    leave the orthant, `exp` returns the nearest point of the orthant. The radii of
    injectivity and convexity are those of the sphere. `exp` inverts `log` everywhere
    inside, and `log` inverts `exp` as long as the geodesic stays inside.

    Parameters
    ----------
    k : int
        The dimension, one less than the number of proportions.

    Examples
    --------
    >>> corners = np.eye(2)  # the largest distance is π
    >>> float(Simplex(1).dist(corners[0], corners[1]) / np.pi)
    1.0
    """

    kind = "simplex"
    scale = 2.0
    k: int
    sizes = (("k", 1),)
    is_homogeneous = False  # the orthant has a boundary

    @cached_property
    def model(self) -> Sphere:
        """The space in which distances are computed: the unit sphere of R^{k+1}."""
        return Sphere(self.k)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a vector of k + 1 proportions."""
        return (self.k + 1,)

    @property
    def origin(self) -> Array:
        """Equal proportions 1/(k + 1)."""
        return np.full(self.k + 1, 1 / (self.k + 1))

    @cached_property
    def boundary_distance(self) -> float:
        """The distance from equal proportions to a face, where one proportion is 0.

        It is 2·arcsin(1/√(k+1)): twice the angle between (1, …, 1)/√(k+1), the square
        roots of equal proportions, and the plane in which one entry is 0.
        """
        return 2 * math.asin((self.k + 1) ** -0.5)

    def project(self, x: Array) -> Array:
        """Return the positive parts of x divided by their sum.

        `from_record` computes the same, but returns NaN for an array without a positive
        entry. A projection must return a point for every array of numbers, and so
        returns equal proportions for such an array. NaN in x stays NaN.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, usually one near the manifold.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        xp = namespace(x)
        proportions = self.from_record(x)
        # All proportions are NaN if nothing is positive, or if an entry of x is NaN.
        nothing_positive = xp.isnan(proportions) & ~xp.isnan(x)
        equal_proportion = 1 / (self.k + 1)
        return xp.where(nothing_positive, equal_proportion, proportions)

    def from_record(self, x: Array) -> Array:
        """Return the positive parts divided by their sum, or NaN if there are none.

        So records may be counts or percentages too.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        # Divide by the largest entry first, so that the sum cannot overflow.
        xp = namespace(x)
        positive = xp.where(x < 0, 0.0, x)
        largest = xp.max(positive, axis=-1, keepdims=True)
        positive = positive / xp.where(largest > 0, largest, 1.0)
        total = xp.sum(positive, axis=-1, keepdims=True)
        proportions = positive / xp.where(total > 0, total, 1.0)
        return xp.where(total > 0, proportions, xp.nan)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent vector nearest to x: x without its mean, at every point p.

        Proportions keep their sum along it, because its entries sum to 0.

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
        xp = namespace(p, x)
        return x - xp.mean(x, axis=-1, keepdims=True) + xp.zeros_like(p)

    def residual(self, p: Array) -> Array:
        """Return how far p is from being proportions.

        It is |Σp − 1| plus the total by which entries are below 0.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals; 0 on the manifold.
        """
        xp = namespace(p)
        negative = xp.sum(xp.where(p < 0, -p, 0.0), axis=-1)
        return xp.abs(xp.sum(p, axis=-1) - 1) + negative

    def to_model(self, x: Array) -> Array:
        """Return φ(x) = √x: proportions as a unit vector without negative entries."""
        return _positive_root(namespace(x), x)

    def from_model(self, y: Array) -> Array:
        """Return the squares of the nearest point of the orthant.

        Negative entries become 0. If no entry is positive, −y is used instead of y.

        Parameters
        ----------
        y : array of shape (..., k + 1)
            Points of the unit sphere.

        Returns
        -------
        array of shape (..., k + 1)
            Proportions, which sum to 1.
        """
        xp = namespace(y)
        positive = xp.where(y < 0, 0.0, y)
        nothing_positive = xp.max(positive, axis=-1, keepdims=True) <= 0
        positive = xp.where(nothing_positive, -y, positive)
        square = positive * positive
        return square / xp.sum(square, axis=-1, keepdims=True)

    def differential(self, p: Array, v: Array) -> Array:
        """Return dφ_p(v) = v/(2√p), the velocity of φ(p) = √p where p has velocity v.

        It is 0 where a proportion is 0, on the boundary of the simplex.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., *model.point_shape)
            Tangent vectors of the model.
        """
        xp = namespace(p, v)
        root = _positive_root(xp, p)
        is_nonzero = root != 0  # True also for NaN, which is passed on
        return xp.where(is_nonzero, v / (2 * xp.where(is_nonzero, root, 1.0)), 0.0)

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the velocity 2√p·w of proportions p whose roots √p have velocity w."""
        return 2 * _positive_root(namespace(p), p) * w


def _positive_root(xp: Any, p: Array) -> Array:
    """Return √p, and 0 where p is not positive.

    The inner `where` keeps the derivative finite at 0; NaN stays NaN.

    Parameters
    ----------
    xp : module
        The array library.
    p : array
        Proportions.

    Returns
    -------
    array
        The roots, of the same shape.
    """
    is_positive = p > 0
    return xp.where(is_positive, xp.sqrt(xp.where(is_positive, p, 1.0)), 0 * p)
