"""Isotropic laws where one radius and one uniform direction make a point: spaces of constant curvature.

Polar coordinates about the footpoint p: y = exp_p(r·u), u uniform among unit tangent vectors, r as in `radial`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.geometry.base import Manifold
from curvedp.laws.base import Floats, uniform_directions
from curvedp.laws.logconcave import radius_sampler
from curvedp.laws.radial import Kind, RadialLaw, radial_law

__all__ = ["SpaceForm", "curvature_of", "space_form", "space_form_factors"]

# Adding cosh(r)·p cancels on the way back to the origin and loses up to the square of p's time coordinate in digits:
# three at most; farther out `Lorentz.exp` takes its polar form.
_BOOST_LIMIT = 32.0
# Beyond this value of (d−1)σ the position of the peak, (d−1)σ², has lost half its digits beside the width σ.
_LARGEST_SHIFT = 1e8


def curvature_of(manifold: Manifold) -> int | None:
    """−1, 0 or 1 where the manifold is H^d, R^d or S^d (1 for the circle too: it closes at distance π), else None.

    >>> curvature_of(Product(Euclidean(2), SPDLogEuclidean(2))), curvature_of(Product(Euclidean(2), Sphere(2)))
    (0, None)
    """
    match manifold:
        case Sphere():
            return 1
        case Lorentz() | PoincareBall():
            return -1
        case Euclidean() | SPDLogEuclidean() | SPDLogCholesky() | SPDAffineInvariant(m=1):
            return 0
        case Product(factors=factors):  # of flat spaces, or of one factor
            curvatures = {curvature_of(factor) for factor in factors}
            return curvatures.pop() if curvatures == {0} or len(factors) == 1 else None
        case _:
            return None


def space_form_factors(manifold: Manifold) -> tuple[tuple[float, int], ...] | None:
    """(curvature, dimension) of space forms whose product the manifold is, else None. SPD(2) is ℝ × H² with κ = −½.

    >>> space_form_factors(Product(Sphere(3), SPDAffineInvariant(2)))
    ((1.0, 3), (0.0, 1), (-0.5, 2))
    """
    curvature = curvature_of(manifold)
    if curvature is not None:
        return ((float(curvature), manifold.dim),)
    if isinstance(manifold, SPDAffineInvariant) and manifold.m == 2:
        return ((0.0, 1), (-0.5, 2))
    if not isinstance(manifold, Product):
        return None
    parts = [space_form_factors(factor) for factor in manifold.factors]
    found = [part for part in parts if part is not None]
    return tuple(pair for part in found for pair in part) if len(found) == len(parts) else None


def _largest_radius(manifold: Manifold) -> float:
    """How far from the origin double-precision coordinates reach."""
    match manifold:
        case Lorentz():
            return 350.0  # coordinates e^r, squared in the lift
        case PoincareBall():
            return 36.0  # 1 − |x| = 2e^-r, above half an ulp of 1
        case SPDLogEuclidean(m=1) | SPDAffineInvariant(m=1):
            return 700.0  # e^r
        case SPDLogCholesky(m=1):
            return 350.0  # (e^r)²
        case SPDLogEuclidean():
            return 25.0  # eigenvalues a factor e^{√2·r} apart; 2^52 = e^36 and the small ones are lost
        case SPDLogCholesky():
            return 18.0  # diagonals of L a factor e^r apart, squared in LLᵀ
        case Product(factors=factors):
            return min(map(_largest_radius, factors))
        case _:
            return math.inf


def space_form(kind: Kind, manifold: Manifold, scale: float) -> "SpaceForm | None":
    """The engine for a manifold of constant curvature, else None."""
    curvature = curvature_of(manifold)
    return None if curvature is None else SpaceForm(kind, manifold, curvature, scale)


@dataclass(frozen=True)
class SpaceForm:
    """The isotropic law of one kind on one space of constant curvature."""

    kind: Kind
    manifold: Manifold
    curvature: int
    scale: float

    @property
    def radial(self) -> RadialLaw:
        """The law of the distance."""
        shift = (self.manifold.dim - 1) * self.scale
        if self.curvature < 0 and self.kind == "gaussian" and not shift <= _LARGEST_SHIFT:
            raise ParameterError(
                f"scale={self.scale!r}: on {self.manifold!r} the distances concentrate at (d−1)·scale² = "
                f"{shift * self.scale:.3g}, beyond double precision; use a smaller scale"
            )
        return radial_law(self.kind, self.curvature, self.manifold.dim, self.scale)

    @property
    def log_normalizer(self) -> float:
        """log ∫ weight(d(x, p)) dvol(x)."""
        return self.radial.log_normalizer

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(d ≤ r)."""
        return self.radial.table.cdf(r)

    def moment(self, order: int) -> float:
        """E[d^order]."""
        return self.radial.table.moment(order)

    def check_representable(self) -> None:
        """Refuses parameters whose draws double-precision coordinates cannot hold; the rule reads no data."""
        limit = _largest_radius(self.manifold)
        if self.radial.reach > limit:
            other = "Lorentz, or " if isinstance(self.manifold, PoincareBall) else ""
            raise ParameterError(
                f"scale={self.scale!r}: on {self.manifold!r} this law reaches distances of {self.radial.reach:.4g}, "
                f"but its double-precision coordinates hold {limit:g}; use {other}a smaller scale"
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """`count` points about the centre (one point, or `count` of them)."""
        manifold, dim = self.manifold, self.manifold.dim
        if self.curvature == 0:
            if self.kind == "gaussian":
                z = rng.standard_normal((count, dim))
                z *= self.scale
            else:  # r^{d−1}e^{−r/σ} is the Gamma law of shape d
                z = uniform_directions(rng, count, dim)
                z *= rng.standard_gamma(dim, count)[:, None] * self.scale
            return np.asarray(manifold.exp(center, manifold.from_coordinates(center, z)))
        mode, hat = radius_sampler(self.kind, self.curvature, dim, self.scale)
        r = hat.draw(rng, count)
        r += mode
        u = uniform_directions(rng, count, dim)
        if isinstance(manifold, Sphere):
            return _about_on_sphere(center, u, r)
        if isinstance(manifold, Lorentz) and np.max(center[..., 0]) < _BOOST_LIMIT:
            return _about_on_hyperboloid(center, u, r)
        if isinstance(manifold, PoincareBall):
            square = np.einsum("...i,...i->...", center, center)[..., None]
            if np.max(square) < 1.0 - 2.0 / _BOOST_LIMIT:
                # The ball is the hyperboloid seen from (−1, 0): x = y/(1 + y₀).
                lifted = np.concatenate([1.0 + square, 2.0 * center], axis=-1) / (1.0 - square)
                y = _about_on_hyperboloid(lifted, u, r)
                x = y[:, 1:] / (1.0 + y[:, :1])
                return x if np.max(y[:, 0]) < 2.0**50 else np.asarray(manifold.project(x))
        u *= r[:, None]
        return np.asarray(manifold.exp(center, manifold.from_coordinates(center, u)))


# Both below: the polar point about the origin, (cs r, sn r·u), carried to p by one isometry in O(d).


def _about_on_sphere(p: Floats, u: Floats, r: Floats) -> Floats:
    """By the reflection along w = e₁ ± p, whose sign keeps |w|² = 2(1 + |p₁|) away from 0."""
    y = np.empty((len(u), u.shape[1] + 1))
    np.cos(r, out=y[:, 0])
    np.multiply(u, np.sin(r)[:, None], out=y[:, 1:])
    sign = np.where(p[..., :1] < 0.0, -1.0, 1.0)
    w = sign * p
    w[..., 0] += 1.0
    y -= _dot(y, w) / (1.0 + np.abs(p[..., :1])) * w  # e₁ goes to −sign·p
    y *= -sign
    return y


def _about_on_hyperboloid(p: Floats, u: Floats, r: Floats) -> Floats:
    """By the boost that carries the origin to p."""
    x = p[..., 1:]
    y = np.empty((len(u), u.shape[1] + 1))
    space = y[:, 1:]
    np.multiply(u, np.sinh(r)[:, None], out=space)
    space += (np.cosh(r)[:, None] + _dot(space, x) / (1.0 + p[..., :1])) * x
    np.sqrt(1.0 + np.einsum("ij,ij->i", space, space), out=y[:, 0])  # the time coordinate is the lift of the others
    return y


def _dot(y: Floats, w: Floats) -> Floats:
    """Inner products of the rows of y with w, one vector or one for each row; a column."""
    return (y @ w if w.ndim == 1 else np.einsum("ij,ij->i", y, w))[:, None]
