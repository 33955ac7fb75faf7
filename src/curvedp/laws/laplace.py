"""The Riemannian Laplace law, the noise of the intrinsic Laplace mechanism. Its density
is ∝ exp(−d(x, p)/σ) with respect to the Riemannian volume, where d is the distance, p
the center (the footpoint) and σ the scale. A backend draws from it, and a privacy
profile says how private it is.

This module chooses both for each manifold.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry.capabilities import AffineInvariantCone
from curvedp.geometry.manifold import Manifold
from curvedp.laws.backend import Floats, LawBackend
from curvedp.laws.isotropic.law import (
    TwoPointHomogeneousLaw,
    two_point_homogeneous_law,
)
from curvedp.laws.law import IsotropicLaw
from curvedp.laws.spd.laplace import SPDLaplace
from curvedp.laws.spd.normalizer import volume_growth_rate
from curvedp.numerics.directed_rounding import round_fraction
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.ricci_bound import PureProfile


@dataclass(frozen=True)
class RiemannianLaplace(IsotropicLaw):
    """Density ∝ exp(−d(x, p)/σ) with respect to the Riemannian volume.

    It exists on two-point homogeneous spaces (Euclidean, Sphere, Lorentz, PoincareBall,
    Rotations(3), KendallShapes, lines and hyperplanes), on the flat SPD metrics, and on
    affine-invariant SPD and HPD matrices.

    On a space of negative curvature the volume grows exponentially and the law exists
    for small scales only: 1/σ > d − 1 on Lorentz(d) and PoincareBall(d),
    1/σ > √(m(m²−1)/12) on SPDAffineInvariant(m), twice that on HPDAffineInvariant(m).

    Draws are exact and independent: rejection under a checked envelope, no Markov
    chain, no cap on the loop. `profile` is the exact profile of the law on the real
    numbers, never above pure Δ/σ; on matrices it is pure Δ/σ.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    scale : float
        The scale σ > 0 of the law.

    Raises
    ------
    NotIntegrable
        If the density has infinite mass at this scale.
    ParameterError
        If no exact sampler is known on the manifold.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Lorentz
    >>> law = RiemannianLaplace(Lorentz(3), 0.2)
    >>> law.sample(np.random.default_rng(0), Lorentz(3).origin, (2, 5)).shape
    (2, 5, 4)
    >>> RiemannianLaplace(Lorentz(5), 0.5)
    Traceback (most recent call last):
    curvedp.errors.NotIntegrable: scale=0.5 gives infinite mass on Lorentz(d=5) unless scale < 0.25
    """

    @property
    def _backend(self) -> LawBackend:
        """Sampler and integrals of this Laplace law; refused where none are known."""
        return _laplace_backend(self.manifold, self.scale)

    def _log_weight(self, distance: Floats) -> Floats:
        """Return −d/σ at distances d, the log-density up to the normalizer.

        σ is the scale.

        Called by `log_prob`.
        """
        return -distance / self.scale

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """Return the privacy profile of one draw.

        On SPD and HPD matrices of size two and more it is the profile of pure Δ/σ-DP,
        by the triangle inequality and a normalizer that is the same at every footpoint
        (Reimherr et al. 2021, Theorem 1). Elsewhere it is exact.

        σ is the scale, and pure Δ/σ-DP means (Δ/σ, 0)-differential privacy.

        Parameters
        ----------
        sensitivity : float
            Δ, how far the footpoint can move between neighboring data sets.

        Returns
        -------
        PrivacyProfile
            δ(ε), μ and so on, of the pair of laws about two footpoints that far apart.
        """
        backend = self._backend
        if isinstance(backend, TwoPointHomogeneousLaw):
            return backend.profile(sensitivity)
        delta = Fraction(_validate.length("sensitivity", sensitivity))
        return PureProfile(round_fraction(delta / Fraction(self.scale), up=True))


@lru_cache(maxsize=256)
def _laplace_backend(manifold: Manifold, scale: float) -> LawBackend:
    """Return the sampler and the integrals of the Laplace law on a manifold.

    If the volume of a ball of radius r grows as e^{hr}, the law exists exactly if
    scale·h < 1. h is (d−1)·√−κ on a hyperbolic space of dimension d and curvature κ,
    √(m(m²−1)/12) on symmetric positive definite m×m matrices, and 0 on compact and flat
    spaces.

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
    NotIntegrable
        If the law has infinite mass at this scale.
    ParameterError
        If no exact sampler is known on the manifold.
    """
    # Refuse a scale at which the density has infinite mass.
    law = two_point_homogeneous_law("laplace", manifold, scale)
    growth_rate = 0.0
    if law is not None:
        growth_rate = law.space.volume_growth_rate
    elif isinstance(manifold, AffineInvariantCone):
        growth_rate = volume_growth_rate(*manifold.cone_size)
    if not scale * growth_rate < 1.0:
        raise NotIntegrable(
            f"gives infinite mass on {manifold!r} unless scale < {1 / growth_rate:.6g}",
            parameter="scale",
            value=scale,
        )

    if law is not None:
        return law

    if isinstance(manifold, AffineInvariantCone):
        m, beta = manifold.cone_size
        return SPDLaplace(m, beta, _validate.length("scale", scale))
    raise ParameterError(
        f"RiemannianLaplace on {manifold!r} has no exact sampler; "
        "use the mechanism tangent-laplace"
    )
