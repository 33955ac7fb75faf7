"""The Riemannian Gaussian law, the noise of the intrinsic Gaussian mechanism. Its
density is ∝ exp(−d(x, p)²/2σ²) with respect to the Riemannian volume, where d is the
distance, p the center (the footpoint) and σ the scale. A backend draws from it, and a
privacy profile says how private it is.

This module chooses both for each manifold.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, Torus
from curvedp.geometry.capabilities import AffineInvariantCone, ricci_lower_bound
from curvedp.geometry.manifold import Manifold
from curvedp.laws.backend import Floats, LawBackend
from curvedp.laws.grassmann import GrassmannGaussian, rank_of
from curvedp.laws.isotropic.law import (
    TwoPointHomogeneousLaw,
    two_point_homogeneous_law,
)
from curvedp.laws.isotropic.space import constant_curvature_factors
from curvedp.laws.law import IsotropicLaw
from curvedp.laws.product import ProductGaussian, TorusGaussian
from curvedp.laws.spd.gaussian import SPDGaussian
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.positive_curvature import PositiveCurvatureProfile
from curvedp.privacy.profiles.products import product_profile
from curvedp.privacy.profiles.ricci_bound import HadamardProfile

# `RiemannianGaussian.profile` uses the Ricci bound up to −Ric·σ² = 1/2, where it is at
# most √2 times the truth (docs/theory/exact-profiles.md).
_LARGEST_RICCI_TERM = 0.5

# The factors of Torus(2), as (curvature, dimension). A circle counts as a sphere of
# curvature 1, because its injectivity radius is π.
_TWO_CIRCLES = ((1.0, 1), (1.0, 1))


@dataclass(frozen=True)
class RiemannianGaussian(IsotropicLaw):
    """Density ∝ exp(−d(x, p)²/2σ²) with respect to the Riemannian volume.

    It exists on two-point homogeneous spaces (Euclidean, Sphere, Lorentz, PoincareBall,
    Rotations(3), KendallShapes, Grassmann(m, 1) and Grassmann(m, m − 1)), on other
    Grassmann manifolds, on affine-invariant SPD and HPD matrices, on flat spaces, on
    tori, and on products of these.

    Draws are exact and independent: rejection under a checked envelope, no Markov
    chain, no cap on the loop. `profile` is the privacy profile of the law on the real
    numbers; a release is drawn by `curvedp.laws.exact`, whose rounding leaks nothing.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    scale : float
        The scale σ > 0 of the law.

    Raises
    ------
    ParameterError
        If no exact sampler is known on the manifold.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> law = RiemannianGaussian(Sphere(2), 0.5)
    >>> law.sample(np.random.default_rng(0), Sphere(2).origin, 1000).shape
    (1000, 3)
    >>> float(law.radial_cdf(np.pi))
    1.0
    """

    @property
    def _backend(self) -> LawBackend:
        """The sampler and the integrals of this Gaussian; raises if none are known."""
        return _gaussian_backend(self.manifold, self.scale)

    def _log_weight(self, distance: Floats) -> Floats:
        """Return −d²/2σ² at distances d, the log-density up to the normalizer.

        σ is the scale.

        Called by `log_prob`.
        """
        return -((distance / self.scale) ** 2) / 2

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """Return the privacy profile of one draw.

        It is exact on spaces of constant curvature, real and complex projective spaces,
        Torus(2), products of at most two spaces of constant curvature,
        SPDAffineInvariant(2), which is ℝ × H², and HPDAffineInvariant(2), which is ℝ ×
        H³. On other Grassmann manifolds and tori, and on products of these, spheres,
        projective and flat spaces, it is an upper bound: the profile of flat space
        (docs/theory/exact-profiles.md, Theorem P6). On larger matrices and on products
        with them it is the upper bound `ricci_bound`, which is proved for small scales.

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.

        Returns
        -------
        PrivacyProfile
            δ(ε), μ and so on, of the pair of laws about two footpoints that far apart.

        Raises
        ------
        ParameterError
            If no profile is known: the message names the largest scale that has one.
        """
        # An exact profile, where one is known.
        backend = self._backend
        if isinstance(backend, TwoPointHomogeneousLaw):
            return backend.profile(sensitivity)
        if isinstance(backend, TorusGaussian) and self.manifold.dim == 2:
            return product_profile(_TWO_CIRCLES, self.scale, sensitivity)
        factors = constant_curvature_factors(self.manifold)
        if factors is not None:
            return product_profile(factors, self.scale, sensitivity)

        # Otherwise an upper bound.
        flat_bound = self.flat_bound(sensitivity)
        if flat_bound is not None:
            return flat_bound
        bound = self.ricci_bound(sensitivity)
        if bound is not None:
            return bound
        raise ParameterError(self._no_profile_message())

    def _no_profile_message(self) -> str:
        """Say why no profile is known, with the largest scale that has one.

        Called by `profile` when neither an exact profile nor a bound is known.

        Returns
        -------
        str
            The text of the error.
        """
        has_ricci_bound = math.isinf(self.manifold.convexity_radius)
        if not has_ricci_bound:
            return (
                f"no exact profile is known on {self.manifold!r}; "
                "use the mechanism tangent-gaussian"
            )

        # There is a bound, but for smaller scales only.
        ricci = -ricci_lower_bound(self.manifold)
        largest_scale = math.sqrt(_LARGEST_RICCI_TERM / ricci)
        return (
            f"no profile is proved on {self.manifold!r} at the scale {self.scale:g}: "
            f"the bound by the Ricci curvature ends at {largest_scale:g}; use a smaller "
            "scale, or the mechanism tangent-gaussian"
        )

    def flat_bound(self, sensitivity: float) -> PositiveCurvatureProfile | None:
        """Return the profile of flat space, if it is an upper bound of this profile.

        This is true on compact symmetric spaces with a convex injectivity domain, and
        on their products with one another and with flat space
        (docs/theory/exact-profiles.md, Theorem P6).

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.

        Returns
        -------
        PositiveCurvatureProfile or None
            None on a space to which the theorem does not apply.
        """
        if not _is_covered_by_theorem_p6(self._backend):
            return None
        return PositiveCurvatureProfile.from_gaussian(
            self.manifold.dim, self.scale, sensitivity
        )

    def ricci_bound(
        self, sensitivity: float, within: float = _LARGEST_RICCI_TERM
    ) -> HadamardProfile | None:
        """Return an upper bound of the profile, from the Ricci curvature.

        It holds where no curvature is positive (docs/theory/exact-profiles.md).

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.
        within : float
            The bound is returned only if it is at most 1/√(1 − within) times the truth.

        Returns
        -------
        HadamardProfile or None
            None where curvatures are positive or the bound may be worse than `within`.
        """
        manifold = self.manifold
        if manifold.convexity_radius < math.inf:
            return None
        if -ricci_lower_bound(manifold) * self.scale * self.scale > within:
            return None
        return HadamardProfile.from_ricci_bound(
            manifold.dim, self.scale, sensitivity, ricci_lower_bound(manifold)
        )


def _is_covered_by_theorem_p6(backend: LawBackend) -> bool:
    """Return whether Theorem P6 bounds the privacy profile of a Gaussian law.

    The theorem holds on compact symmetric spaces with a convex injectivity domain, flat
    spaces, and their products (docs/theory/exact-profiles.md). Among the spaces with an
    exact sampler these are the Grassmann manifolds, the two-point homogeneous spaces
    whose curvature is not negative, tori, and the products of these.

    Parameters
    ----------
    backend : LawBackend
        The law, as `_gaussian_backend` returns it.
    """
    if isinstance(backend, ProductGaussian):
        return all(_is_covered_by_theorem_p6(factor) for factor in backend.factors)
    if isinstance(backend, TwoPointHomogeneousLaw):
        return bool(backend.manifold.curvature_bounds[0] >= 0)
    return isinstance(backend, GrassmannGaussian)


@lru_cache(maxsize=256)
def _gaussian_backend(manifold: Manifold, scale: float) -> LawBackend:
    """Choose sampler and integrals of the Gaussian law for a manifold.

    Called by every method of `RiemannianGaussian`. The result is cached, because
    calibration asks for the same law many times.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.
    scale : float
        The scale σ > 0 of the law.

    Returns
    -------
    LawBackend
        The implementation for this kind of manifold.

    Raises
    ------
    ParameterError
        If no exact sampler is known.
    """
    law = two_point_homogeneous_law("gaussian", manifold, scale)
    if law is not None:
        return law

    _validate.length("scale", scale)
    if isinstance(manifold, AffineInvariantCone):
        m, beta = manifold.cone_size
        return SPDGaussian(m, beta, scale)
    rank = rank_of(manifold)
    if isinstance(manifold, Grassmann) and rank is not None:
        return GrassmannGaussian(manifold, rank, manifold.m - rank, scale)

    # On a product the parts are independent, because squared distances add.
    if isinstance(manifold, Torus):
        circle = _gaussian_backend(Torus(1), scale)
        return TorusGaussian(manifold, scale, (circle,) * manifold.d)
    if len(manifold.factors) > 1:
        factors = tuple(_gaussian_backend(factor, scale) for factor in manifold.factors)
        return ProductGaussian(manifold, scale, factors)

    raise ParameterError(
        f"RiemannianGaussian on {manifold!r} has no exact sampler; "
        "use from_coordinates(p, sigma·z) for noise in a tangent space, "
        "the mechanism tangent-gaussian for a release"
    )
