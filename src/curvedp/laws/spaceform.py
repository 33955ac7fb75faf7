"""Isotropic laws where one radius and one uniform direction make a point: two-point homogeneous spaces.

Polar coordinates about the footpoint p: y = exp_p(r·u), u uniform among unit tangent vectors, r as in `radial`. These are
the Euclidean, hyperbolic and spherical spaces and, with a cut locus at half the way around, the projective ones: lines,
rotations of space, planar shapes.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch

import numpy as np
from numpy.typing import ArrayLike

from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, Lorentz, PoincareBall, Sphere
from curvedp.geometry.base import Manifold
from curvedp.laws.base import Floats, uniform_directions
from curvedp.laws.logconcave import radius_sampler
from curvedp.laws.radial import Kind, RadialLaw, Rays, radial_law

# Adding cosh(r)·p cancels on the way back to the origin and loses up to the square of p's time coordinate in digits:
# three at most; farther out `Lorentz.exp` takes its polar form.
_BOOST_LIMIT = 32.0
# Beyond this value of (d−1)σ the position of the peak, (d−1)σ², has lost half its digits beside the width σ.
_LARGEST_SHIFT = 1e8


@lru_cache(maxsize=256)
def rays_of(manifold: Manifold) -> Rays | None:
    """The rays of a two-point homogeneous space, read off its curvatures; None where directions differ.

    >>> from curvedp.geometry import Rotations, Sphere, Stiefel
    >>> rays_of(Sphere(3)), rays_of(Stiefel(4, 2))
    (Rays(roots=((1.0, 2),), end=3.141592653589793), None)
    >>> rays_of(Rotations(3)).curvature is None  # a projective space
    True
    """
    roots, end, dim = manifold.root_curvatures, manifold.injectivity_radius, manifold.dim
    if roots is None or not (manifold.is_homogeneous and manifold.is_symmetric):
        return None
    if dim > 1 and not roots and math.isinf(end):
        roots = ((0.0, dim - 1),)
    return Rays(roots, end) if Rays(roots).dim == dim else None  # the others have flat directions


def space_form_factors(manifold: Manifold) -> tuple[tuple[float, int], ...] | None:
    """(curvature, dimension) of the space forms whose product the manifold is, if they are at most two and one flat space
    counts for all, else None. SPD(2) is ℝ × H² with κ = −½.

    >>> from curvedp.geometry import Euclidean, Product, SPDAffineInvariant
    >>> space_form_factors(Product(Euclidean(3), SPDAffineInvariant(2)))
    ((0.0, 3), (0.0, 1), (-0.5, 2))
    """
    if len(manifold.factors) > 1 and rays_of(manifold) is None:
        parts = [space_form_factors(factor) for factor in manifold.factors]
        pairs = tuple(pair for part in parts for pair in part or ())
        curved = sum(k > 0 or (k < 0 and d > 1) for k, d in pairs)
        return pairs if None not in parts and curved + (curved < len(pairs)) <= 2 else None
    rays = rays_of(manifold)
    if rays is not None:
        return None if rays.curvature is None else ((rays.curvature, manifold.dim),)
    roots = manifold.root_curvatures
    if not roots or len(roots) > 1 or roots[0][0] > 0 or not manifold.is_homogeneous:
        return None
    (curvature, count), flat = roots[0], manifold.dim - 1 - roots[0][1]
    return ((0.0, flat), (curvature, count + 1))


def space_form(kind: Kind, manifold: Manifold, scale: float) -> "SpaceForm | None":
    """The engine for a two-point homogeneous manifold, else None."""
    rays = rays_of(manifold)
    return None if rays is None else SpaceForm(kind, manifold, rays, scale)


@dataclass(frozen=True)
class SpaceForm:
    """The isotropic law of one kind on one two-point homogeneous space."""

    kind: Kind
    manifold: Manifold
    rays: Rays
    scale: float

    @property
    def radial(self) -> RadialLaw:
        """The law of the distance."""
        shift = (self.manifold.dim - 1) * self.scale
        hyperbolic = any(curvature < 0 for curvature, _ in self.rays.roots)
        if hyperbolic and self.kind == "gaussian" and not shift <= _LARGEST_SHIFT:
            raise ParameterError(
                f"scale={self.scale!r}: on {self.manifold!r} the distances concentrate at (d−1)·scale² = "
                f"{shift * self.scale:.3g}, beyond double precision; use a smaller scale"
            )
        return radial_law(self.kind, self.rays, self.scale)

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
        reach, limit = self.radial.reach, self.manifold.float_reach
        if reach > limit:
            raise ParameterError(
                f"scale={self.scale!r}: on {self.manifold!r} this law reaches distances of {reach:.4g}, "
                f"but its double-precision coordinates hold {limit:g}; use a smaller scale, or other coordinates"
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """`count` points about the center (one point, or `count` of them)."""
        manifold, dim = self.manifold, self.manifold.dim
        if self.rays.curvature == 0:
            if self.kind == "gaussian":
                z = rng.standard_normal((count, dim))
                z *= self.scale
            else:  # r^{d−1}e^{−r/σ} is the Gamma law of shape d
                z = uniform_directions(rng, count, dim)
                z *= rng.standard_gamma(dim, count)[:, None] * self.scale
            return np.asarray(manifold.unchart(center, z))
        mode, hat = radius_sampler(self.kind, self.rays, self.scale)
        r = hat.draw(rng, count)
        r += mode
        return placed(manifold, center, uniform_directions(rng, count, dim), r)


@singledispatch
def placed(manifold: Manifold, center: Floats, u: Floats, r: Floats) -> Floats:
    """exp(center, r·u), u in coordinates at the center or in those of any other frame: u is uniform."""
    return np.asarray(manifold.exp(center, manifold.from_coordinates(center, u * r[:, None])))


@placed.register
def _(manifold: Sphere, center: Floats, u: Floats, r: Floats) -> Floats:
    return _about_on_sphere(center, u, r)


@placed.register
def _(manifold: Grassmann, center: Floats, u: Floats, r: Floats) -> Floats:
    """A line is a unit vector up to its sign."""
    if manifold.r > 1:
        return np.asarray(manifold.exp(center, manifold.from_coordinates(center, u * r[:, None])))
    return _about_on_sphere(center[..., 0], u, r)[..., None]


@placed.register
def _(manifold: Lorentz, center: Floats, u: Floats, r: Floats) -> Floats:
    if np.max(center[..., 0]) < _BOOST_LIMIT:
        return _about_on_hyperboloid(center, u, r)
    return np.asarray(manifold.exp(center, manifold.from_coordinates(center, u * r[:, None])))


@placed.register
def _(manifold: PoincareBall, center: Floats, u: Floats, r: Floats) -> Floats:
    square = np.einsum("...i,...i->...", center, center)[..., None]
    if np.max(square) >= 1.0 - 2.0 / _BOOST_LIMIT:
        return np.asarray(manifold.exp(center, manifold.from_coordinates(center, u * r[:, None])))
    # The ball is the hyperboloid seen from (−1, 0): x = y/(1 + y₀).
    lifted = np.concatenate([1.0 + square, 2.0 * center], axis=-1) / (1.0 - square)
    y = _about_on_hyperboloid(lifted, u, r)
    x = y[:, 1:] / (1.0 + y[:, :1])
    return x if np.max(y[:, 0]) < 2.0**50 else np.asarray(manifold.project(x))


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
