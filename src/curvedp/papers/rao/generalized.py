"""The generalized Gaussian mechanism of the Rao paper, Appendix E.

The paper gives its Rao distance (Theorem E.3). Its privacy profile is here as well,
because θ alone implies no ε at a small δ.
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
        Δ > 0.
    scale : float
        σ > 0.
    power : float
        N ≥ 1.

    Examples
    --------
    >>> mechanism = GeneralizedGaussianMechanism.calibrated(1.0, RaoDP(0.5), power=4.0)
    >>> round(mechanism.theta, 12)
    0.5
    >>> round(mechanism.delta(1.0), 6)
    0.00062
    """

    sensitivity: float
    scale: float
    power: float

    def __post_init__(self) -> None:
        _validate.positive("sensitivity", self.sensitivity)
        _validate.positive("scale", self.scale)
        _validate.within("power", self.power, 1.0, math.inf, open_high=True)

    @classmethod
    def calibrated(
        cls, sensitivity: float, guarantee: RaoDP, power: float
    ) -> "GeneralizedGaussianMechanism":
        """Return the mechanism whose parametric Rao distance is that of a guarantee.

        Parameters
        ----------
        sensitivity : float
            Δ.
        guarantee : RaoDP
            θ.
        power : float
            N.
        """
        if not isinstance(guarantee, RaoDP) or guarantee.angle != "parametric":
            raise ParameterError(
                "guarantee must be RaoDP(theta): the theorem is about Rao's distance"
            )
        # θ is proportional to 1/σ.
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
        """Return δ(ε), exact but for rounding, which is added.

        The privacy loss ((x + Δ)^N − x^N)/σ^N at a noise x grows with x on [−Δ/2, ∞)
        and is the negative of that on the other side. So it is above ε beyond one point
        t, and δ(ε) = P(x > t) − e^ε·P(x > t + Δ).

        Parameters
        ----------
        eps : float
            ε ≥ 0.
        """
        eps = _validate.within("eps", eps, 0.0, math.inf)
        shift = self.sensitivity / self.scale

        def excess(x: float) -> float:
            """Return the loss at the noise σ·x, less ε."""
            return float(abs(x + shift) ** self.power - abs(x) ** self.power - eps)

        # For N = 1 the loss is at most Δ/σ, and reached on a half-line.
        if self.power == 1.0 and eps >= shift:
            return 0.0
        low, high = -shift / 2, 1.0
        while excess(high) < 0:
            high *= 2
        start = brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16) if eps else low
        law = GeneralizedGaussian(1, 1.0, self.power)
        above = float(law.cdf(-start))
        above_neighbor = float(law.cdf(-start - shift))
        difference = above - math.exp(eps) * above_neighbor
        return min(1.0, max(0.0, difference) + _ROUNDING * above)

    def release(self, value: float, rng: np.random.Generator) -> float:
        """Return the value with noise. For experiments, not for publication.

        Parameters
        ----------
        value : float
            The statistic.
        rng : numpy.random.Generator
            Draws the noise.
        """
        return float(self.law.sample(rng, np.array([float(value)]))[0])
