"""The generalized Gaussian mechanism of the Rao paper, Appendix E: noise of density ∝
exp(−(|x|/σ)^N). The paper gives its Rao distance θ (Theorem E.3). Its privacy profile
δ(ε) is here as well, because θ alone implies no ε at a small δ.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.papers.rao.laws import GeneralizedGaussian
from curvedp.papers.rao.mechanisms import (
    generalized_gaussian_hellinger,
    generalized_gaussian_theta,
)
from curvedp.privacy import RaoDP

__all__ = ["GeneralizedGaussianMechanism"]

# δ is a difference of two numbers of this accuracy, relative to the first.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class GeneralizedGaussianMechanism:
    """Add noise of density ∝ exp(−(|x|/σ)^N) to a number that one record moves by Δ.

    For experiments with the paper, NOT for publication: the noise is drawn in floats,
    whose last bits can give the value away. N = 1 is Laplace noise, and N = 2 is
    Gaussian noise of standard deviation σ/√2 (docs/errata.md, E17).

    Parameters
    ----------
    sensitivity : float
        Δ > 0, how far one record moves the number.
    scale : float
        σ > 0, the length by which noise is divided in the density.
    power : float
        N ≥ 1, the power in the exponent.

    Examples
    --------
    >>> mechanism = GeneralizedGaussianMechanism.calibrated(1.0, RaoDP(0.5), power=4.0)
    >>> round(mechanism.theta, 12)
    0.5
    >>> round(mechanism.delta(1.0), 6)
    0.025704
    """

    sensitivity: float
    scale: float
    power: float

    def __post_init__(self) -> None:
        """Check that the parameters are finite and in their ranges."""
        _validate.positive("sensitivity", self.sensitivity)
        _validate.positive("scale", self.scale)
        _validate.within("power", self.power, 1.0, math.inf, open_high=True)

    @classmethod
    def calibrated(
        cls, sensitivity: float, guarantee: RaoDP, power: float
    ) -> "GeneralizedGaussianMechanism":
        """Return the mechanism whose Rao distance is the θ of a guarantee.

        By Theorem E.3 θ is proportional to 1/σ, so that σ follows from one evaluation.

        Parameters
        ----------
        sensitivity : float
            Δ > 0, how far one record moves the number.
        guarantee : RaoDP
            The distance θ that neighboring outputs shall have, parametric.
        power : float
            N ≥ 1, the power in the exponent.

        Raises
        ------
        ParameterError
            If the guarantee is of another definition, or is a Hellinger angle.
        """
        if not isinstance(guarantee, RaoDP) or guarantee.angle != "parametric":
            raise ParameterError(
                "guarantee must be RaoDP(theta): the theorem is about Rao's distance"
            )
        theta_of_unit_scale = generalized_gaussian_theta(sensitivity, 1.0, power)
        return cls(sensitivity, theta_of_unit_scale / guarantee.theta, power)

    @property
    def law(self) -> GeneralizedGaussian:
        """The distribution of the noise."""
        return GeneralizedGaussian(1, self.scale, self.power)

    @property
    def theta(self) -> float:
        """The parametric Rao distance of neighboring outputs (Theorem E.3)."""
        return generalized_gaussian_theta(self.sensitivity, self.scale, self.power)

    @property
    def hellinger_angle(self) -> float:
        """The Hellinger angle of neighboring outputs, which is at most θ."""
        return generalized_gaussian_hellinger(self.sensitivity, self.scale, self.power)

    def delta(self, eps: float) -> float:
        """Return the privacy profile δ(ε), exact up to rounding, and rounded up.

        Let the noise x, the sensitivity Δ and the threshold t be in units of the scale
        σ. The privacy loss |x + Δ|^N − |x|^N is antisymmetric about x = −Δ/2, where it
        is 0, and does not decrease in x. So it exceeds ε exactly for x > t, where t is
        the point at which it equals ε. Then δ(ε) = P(x > t) − e^ε·P(x > t + Δ).

        Parameters
        ----------
        eps : float
            ε ≥ 0.

        Returns
        -------
        float
            The smallest δ for which the mechanism is (ε, δ)-DP, rounded up.
        """
        eps = _validate.within("eps", eps, 0.0, math.inf)
        shift = self.sensitivity / self.scale

        def loss_above_eps(x: float) -> float:
            """Return the privacy loss at the noise σ·x, minus ε."""
            return float(abs(x + shift) ** self.power - abs(x) ** self.power - eps)

        # For N = 1 the loss never exceeds Δ/σ.
        if self.power == 1.0 and eps >= shift:
            return 0.0
        threshold = -shift / 2  # where the loss is 0
        if eps > 0:
            upper_end = 1.0
            while loss_above_eps(upper_end) < 0:
                upper_end *= 2
            threshold = brentq(
                loss_above_eps, threshold, upper_end, xtol=1e-15, rtol=8.9e-16
            )

        # A small P(x > t) is computed accurately as P(x < −t), but not as 1 − P(x < t).
        law = GeneralizedGaussian(1, 1.0, self.power)
        tail = float(law.cdf(-threshold))
        neighbor_tail = float(law.cdf(-threshold - shift))
        difference = tail - math.exp(eps) * neighbor_tail
        # The last term is a bound on the rounding errors.
        return min(1.0, max(0.0, difference) + _ROUNDING * tail)

    def release(self, value: float, rng: np.random.Generator) -> float:
        """Return a number with noise added. For experiments, NOT for publication.

        Parameters
        ----------
        value : float
            The number that one record moves by at most Δ.
        rng : numpy.random.Generator
            The source of the noise; it is not cryptographic, and draws floats.
        """
        return float(self.law.sample(rng, np.array([float(value)]))[0])
