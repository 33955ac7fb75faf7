"""The Riemannian Laplace law: density ∝ exp(−d(x, p)/σ) with respect to the Riemannian volume."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry.capabilities import AffineInvariantCone
from curvedp.geometry.manifold import Manifold
from curvedp.laws.base import IsotropicLaw
from curvedp.laws.radial import Engine, Floats
from curvedp.laws.spaceform import SpaceForm, space_form
from curvedp.laws.spd_laplace import MatrixLaplace, half_sum
from curvedp.numerics.directed_rounding import round_fraction
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.ricci_bound import PureProfile


@dataclass(frozen=True)
class RiemannianLaplace(IsotropicLaw):
    """Density ∝ exp(−d(x, p)/σ), σ = `scale`, on every two-point homogeneous space (see
    `RiemannianGaussian`), the SPD metrics but one, and HPD.

    On a space of negative curvature the volume grows exponentially and the law exists for small scales only:
    1/σ > d − 1 on Lorentz(d) and PoincareBall(d), 1/σ > √(m(m²−1)/12) on SPDAffineInvariant(m), twice that on
    HPDAffineInvariant(m). Other scales raise.

    Guarantees:
        - Draws are exact and independent: rejection under a checked hat, no Markov chain, no cap on the loop.
        - `profile` is the exact profile of the law on the reals, never above pure Δ/σ; on matrices it is pure Δ/σ.

    Parameters
    ----------
    manifold : Manifold
        Where the points live.
    scale : float
        σ > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Lorentz
    >>> RiemannianLaplace(Lorentz(3), 0.2).sample(np.random.default_rng(0), Lorentz(3).origin, (2, 5)).shape
    (2, 5, 4)
    >>> RiemannianLaplace(Lorentz(5), 0.5)
    Traceback (most recent call last):
    curvedp.errors.NotIntegrable: scale=0.5: infinite mass on Lorentz(d=5) unless scale < 0.25
    """

    @property
    def _engine(self) -> Engine:
        return _engine(self.manifold, self.scale)

    def _log_weight(self, distance: Floats) -> Floats:
        return -distance / self.scale

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """The exact privacy profile of releasing a draw about a statistic that moves by at most `sensitivity`.

        On SPDAffineInvariant and HPDAffineInvariant of size 2 and more: that of pure Δ/σ, by the triangle inequality and a
        normalizer that is the same everywhere (Reimherr et al. 2021, Thm 1).
        """
        if isinstance(self._engine, SpaceForm):
            return self._engine.profile(sensitivity)
        moved = Fraction(_validate.length("sensitivity", sensitivity))
        return PureProfile(round_fraction(moved / Fraction(self.scale), up=True))


@lru_cache(maxsize=256)
def _engine(manifold: Manifold, scale: float) -> Engine:
    form = space_form("laplace", manifold, scale)
    # the volume of a ball of radius r grows as e^{growth·r}: (d−1)√−κ on H^d, √(m(m²−1)/12) on SPD(m)
    growth = (
        form.rays.growth
        if form is not None
        else half_sum(
            *(
                manifold.cone_size
                if isinstance(manifold, AffineInvariantCone)
                else (1, 1)
            )
        )
    )
    if not scale * growth < 1.0:
        raise NotIntegrable(
            f": infinite mass on {manifold!r} unless scale < {1 / growth:.6g}",
            parameter="scale",
            value=scale,
        )
    if form is not None:
        return form
    if isinstance(manifold, AffineInvariantCone):
        return MatrixLaplace(*manifold.cone_size, _validate.length("scale", scale))
    raise ParameterError(
        f"RiemannianLaplace on {manifold!r} has no exact sampler; use the mechanism "
        "tangent-laplace"
    )
