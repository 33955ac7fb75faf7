"""The Riemannian Gaussian: density ∝ exp(−d(x, p)²/2σ²) with respect to the Riemannian volume."""

import math
from dataclasses import dataclass
from functools import lru_cache

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.capabilities import AffineInvariantCone, ricci_lower_bound
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.grassmann import Grassmann
from curvedp.laws.base import IsotropicLaw
from curvedp.laws.composite import ProductGaussian, SPDGaussian
from curvedp.laws.grassmann import GrassmannGaussian
from curvedp.laws.radial import Engine, Floats
from curvedp.laws.spaceform import SpaceForm, space_form, space_form_factors
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.products import product_profile
from curvedp.privacy.profiles.ricci_bound import HadamardProfile


@dataclass(frozen=True)
class RiemannianGaussian(IsotropicLaw):
    """Density ∝ exp(−d(x, p)²/2σ²), σ = `scale`, on two-point homogeneous spaces, Grassmann, SPD, HPD and products.

    Two-point homogeneous are Euclidean, Sphere, Lorentz, PoincareBall, Rotations(3), KendallShapes and Grassmann(m, 1).

    Guarantees:
        - Draws are exact and independent: rejection under a checked hat, no Markov chain, no cap on the loop.
        - `profile` is the exact profile of the law on the reals. Doubles have last bits: a release needs
          `curvedp.entropy` besides.

    Parameters
    ----------
    manifold : Manifold
        Where the points live.
    scale : float
        σ > 0.

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
    def _engine(self) -> Engine:
        return _engine(self.manifold, self.scale)

    def _log_weight(self, distance: Floats) -> Floats:
        return -((distance / self.scale) ** 2) / 2

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """The exact privacy profile of a draw about a statistic that moves by at most `sensitivity`.

        On spaces of constant curvature, their products, and SPDAffineInvariant(2) and HPDAffineInvariant(2), which are
        ℝ × H² and ℝ × H³. On larger ones of both, and products with them, `ricci_bound`.
        Elsewhere, and where the scale is too large for that bound, it raises.
        """
        if isinstance(self._engine, SpaceForm):
            return self._engine.profile(sensitivity)
        if (factors := space_form_factors(self.manifold)) is not None:
            return product_profile(factors, self.scale, sensitivity)
        if (bound := self.ricci_bound(sensitivity)) is not None:
            return bound
        if isinstance(self.manifold, AffineInvariantCone):
            largest = math.sqrt(-0.5 / ricci_lower_bound(self.manifold))
            raise ParameterError(
                f"no profile is proved on {self.manifold!r} at the scale {self.scale:g}: "
                f"the bound by the Ricci curvature ends at {largest:g}; "
                "use the mechanism tangent-gaussian"
            )
        raise ParameterError(
            f"no exact profile is known on {self.manifold!r}; use the mechanism "
            "tangent-gaussian"
        )

    def ricci_bound(
        self, sensitivity: float, within: float = 0.5
    ) -> HadamardProfile | None:
        """A proved upper bound in closed form, at most 1/√(1 − `within`) times the truth; None where it may be worse, and
        where curvatures are positive."""
        space = self.manifold
        if (
            space.convexity_radius < math.inf
            or -ricci_lower_bound(space) * self.scale * self.scale > within
        ):
            return None
        return HadamardProfile.of(
            space.dim, self.scale, sensitivity, ricci_lower_bound(space)
        )


@lru_cache(maxsize=256)
def _engine(manifold: Manifold, scale: float) -> Engine:
    if (engine := space_form("gaussian", manifold, scale)) is not None:
        return engine
    _validate.length("scale", scale)
    if isinstance(manifold, AffineInvariantCone):
        return SPDGaussian(*manifold.cone_size, scale)
    if isinstance(manifold, Grassmann):
        return GrassmannGaussian(manifold, *manifold.ranks, scale)
    if len(manifold.factors) > 1:
        return ProductGaussian(
            manifold,
            scale,
            tuple(_engine(factor, scale) for factor in manifold.factors),
        )
    raise ParameterError(
        f"RiemannianGaussian on {manifold!r} has no exact sampler; "
        "use from_coordinates(p, sigma·z) for noise in a tangent space, the mechanism tangent-gaussian for a release"
    )
