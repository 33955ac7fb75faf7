"""Isotropic laws where one radius and one uniform direction make a point: two-point homogeneous spaces.

Polar coordinates about the footpoint p: y = exp_p(r·u), u uniform among unit tangent vectors, r as in `radial`. These are
the Euclidean, hyperbolic and spherical spaces and, with a cut locus at half the way around, the projective ones: lines,
rotations of space, planar shapes.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, Lorentz, PoincareBall, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.laws.base import uniform_directions
from curvedp.laws.logconcave import radius_sampler
from curvedp.laws.radial import Floats, Kind, RadialLaw, Rays
from curvedp.privacy.enclosure.delta import certified_delta, certified_projective_delta
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile
from curvedp.privacy.profiles.projective import ProjectiveProfile

# Adding cosh(r)·p cancels on the way back to the origin and loses up to the square of p's time coordinate in digits:
# three at most; farther out `Lorentz.exp` takes its polar form.
_BOOST_LIMIT = 32.0


@lru_cache(maxsize=256)
def rays_of(manifold: Manifold) -> Rays | None:
    """The rays of a two-point homogeneous space, read off its curvatures; None where directions differ."""
    roots, end, dim = (
        manifold.jacobi_spectrum,
        manifold.injectivity_radius,
        manifold.dim,
    )
    if roots is None or not (manifold.is_homogeneous and manifold.is_symmetric):
        return None
    if dim > 1 and not roots and math.isinf(end):
        roots = ((0.0, dim - 1),)
    return (
        Rays(roots, end) if Rays(roots).dim == dim else None
    )  # the others have flat directions


def space_form_factors(manifold: Manifold) -> tuple[tuple[float, int], ...] | None:
    """(curvature, dimension) of the space forms whose product the manifold is, if they are at most two and one flat space
    counts for all, else None. SPD(2) is ℝ × H² with κ = −½."""
    if len(manifold.factors) > 1 and rays_of(manifold) is None:
        parts = [space_form_factors(factor) for factor in manifold.factors]
        pairs = tuple(pair for part in parts for pair in part or ())
        curved = sum(k > 0 or (k < 0 and d > 1) for k, d in pairs)
        return (
            pairs if None not in parts and curved + (curved < len(pairs)) <= 2 else None
        )
    rays = rays_of(manifold)
    if rays is not None:
        return None if rays.curvature is None else ((rays.curvature, manifold.dim),)
    roots = manifold.jacobi_spectrum
    if not roots or len(roots) > 1 or roots[0][0] > 0 or not manifold.is_homogeneous:
        return None
    (curvature, count), flat = roots[0], manifold.dim - 1 - roots[0][1]
    return ((0.0, flat), (curvature, count + 1))


def space_form(kind: Kind, manifold: Manifold, scale: float) -> "SpaceForm | None":
    """The engine for a two-point homogeneous manifold, else None."""
    rays = rays_of(manifold)
    return None if rays is None else SpaceForm(kind, rays, scale, manifold)


@dataclass(frozen=True)
class SpaceForm(RadialLaw):
    """The isotropic law of one kind on one two-point homogeneous space."""

    manifold: Manifold

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """The exact profile: of constant curvature, or of a real or complex projective space."""
        kind, rays = self.kind, self.rays
        if rays.curvature is not None:
            return constant_curvature_profile(
                kind, rays.curvature, rays.dim, self.scale, sensitivity
            )
        least = min(curvature for curvature, _ in rays.roots)
        field = "real" if len(rays.roots) == 1 else "complex"
        return ProjectiveProfile(kind, field, rays.dim, least, self.scale, sensitivity)

    def certified_delta(self, sensitivity: float, eps: float) -> tuple[float, float]:
        kind, rays = self.kind, self.rays
        if rays.curvature is not None:
            return certified_delta(
                kind, rays.curvature, rays.dim, self.scale, sensitivity, eps
            )
        if len(rays.roots) == 1:
            return certified_projective_delta(
                kind, rays.roots[0][0], rays.dim, self.scale, sensitivity, eps
            )
        raise ParameterError(
            "certified bounds on projective spaces are for real ones, as Rotations(3) and lines"
        )

    def check_representable(self) -> None:
        reach, limit = self.reach, self.manifold.float_set.max_distance
        if reach > limit:
            raise ParameterError(
                f": on {self.manifold!r} this law reaches distances of {reach:.4g}, "
                f"but its double-precision coordinates hold {limit:g}; use a smaller "
                "scale, or other coordinates",
                parameter="scale",
                value=self.scale,
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        manifold, dim = self.manifold, self.manifold.dim
        if self.rays.curvature == 0:
            if self.kind == "gaussian":
                z = rng.standard_normal((count, dim))
                z *= self.scale
            else:  # r^{d−1}e^{−r/σ} is the Gamma law of shape d
                z = uniform_directions(rng, count, dim)
                z *= rng.standard_gamma(dim, count)[:, None] * self.scale
            return np.asarray(manifold.from_normal_coordinates(center, z))
        mode, hat = radius_sampler(self.kind, self.rays, self.scale)
        r = hat.draw(rng, count)
        r += mode
        return placed(manifold, center, uniform_directions(rng, count, dim), r)


def placed(manifold: Manifold, center: Floats, u: Floats, r: Floats) -> Floats:
    """exp(center, r·u), u in coordinates at the center or in those of any other frame: u is uniform."""
    found = _carried(manifold, center, u, r)
    return (
        np.asarray(
            manifold.exp(center, manifold.from_coordinates(center, u * r[:, None]))
        )
        if found is None
        else found
    )


@singledispatch
def _carried(manifold: Manifold, center: Floats, u: Floats, r: Floats) -> Floats | None:
    """The polar point about the origin, (cs r, sn r·u), carried to p by one isometry in O(d); None where none is known, or
    it would lose digits."""
    return None


@_carried.register
def _(manifold: Sphere, center: Floats, u: Floats, r: Floats) -> Floats:
    return _about_on_sphere(center, u, r)


@_carried.register
def _(manifold: Grassmann, center: Floats, u: Floats, r: Floats) -> Floats | None:
    """A line is a unit vector up to its sign."""
    return None if manifold.r > 1 else _about_on_sphere(center[..., 0], u, r)[..., None]


@_carried.register
def _(manifold: Lorentz, center: Floats, u: Floats, r: Floats) -> Floats | None:
    return (
        _about_on_hyperboloid(center, u, r)
        if np.max(center[..., 0]) < _BOOST_LIMIT
        else None
    )


@_carried.register
def _(manifold: PoincareBall, center: Floats, u: Floats, r: Floats) -> Floats | None:
    square = np.einsum("...i,...i->...", center, center)[..., None]
    if np.max(square) >= 1.0 - 2.0 / _BOOST_LIMIT:
        return None
    # The ball is the hyperboloid seen from (−1, 0): x = y/(1 + y₀).
    lifted = np.concatenate([1.0 + square, 2.0 * center], axis=-1) / (1.0 - square)
    y = _about_on_hyperboloid(lifted, u, r)
    x = y[:, 1:] / (1.0 + y[:, :1])
    return x if np.max(y[:, 0]) < 2.0**50 else np.asarray(manifold.project(x))


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
    np.sqrt(
        1.0 + np.einsum("ij,ij->i", space, space), out=y[:, 0]
    )  # the time coordinate is the lift of the others
    return y


def _dot(y: Floats, w: Floats) -> Floats:
    """Inner products of the rows of y with w, one vector or one for each row; a column."""
    return (y @ w if w.ndim == 1 else np.einsum("ij,ij->i", y, w))[:, None]
