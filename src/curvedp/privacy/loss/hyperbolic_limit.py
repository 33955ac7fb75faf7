"""The privacy loss that remains on a hyperbolic space for arbitrarily much noise.

Theorem (docs/exact-profiles.md, Theorem P3). As the scale grows, the loss of every
isotropic law on H^d tends to the one between the harmonic measures on the boundary,
seen from the two centers D apart: L = (d−1)·log(cosh D − sinh D·cos φ), φ the angle of
a uniform direction.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_symmetric_beta
from curvedp.privacy.loss.law import PrivacyLossLaw

# Below this logarithm of y, the second term of the series of I_y(a, a), of relative size
# a·y, is negligible beside a rounding error.
_TINY_LOG = -600.0


@dataclass(frozen=True)
class LimitingLoss(PrivacyLossLaw):
    """The limiting privacy loss on H^d, curvature −1, for centers a distance D apart.

    L = (d−1)·log(cosh D − sinh D·cos φ), where φ is the angle of a uniform direction. So
    cos²(φ/2) ~ Beta(a, a) with a = (d−1)/2, and
    cosh D − sinh D·cos φ = e^D − 2·sinh D·cos²(φ/2).

    Attributes
    ----------
    d : int
        The dimension, d >= 2.
    distance : float
        The distance D between the centers.
    """

    d: int
    distance: float

    @property
    def max_loss(self) -> float:
        """(d−1)·D, in the direction φ = π."""
        return (self.d - 1) * self.distance

    @property
    def loss_scale(self) -> float:
        """(d−1)·D/√d: to first order L = (d−1)·D·cos φ, and E[cos² φ] = 1/d."""
        return (self.d - 1) * self.distance / math.sqrt(self.d)

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t) at losses t >= 0.

        L > t exactly if cos²(φ/2) < x = (e^D − e^{t/(d−1)})/(2·sinh D). So the tails are
        I_x(a, a) and I_{1−x}(a, a), with the regularized incomplete beta function I.
        """
        D = self.distance
        level = t / (self.d - 1)
        denominator = math.expm1(-2 * D)
        x = np.expm1(level - D) / denominator
        one_minus_x = np.exp(level - D) * np.expm1(-level - D) / denominator

        a = (self.d - 1) / 2
        log_upper = log_symmetric_beta(a, x, one_minus_x)
        log_lower = log_symmetric_beta(a, one_minus_x, x)
        # Where 1 − x is below every float, I_{1−x}(a, a) is its first term.
        log_one_minus_x = level - D + np.log(np.expm1(-level - D) / denominator)
        log_beta_function = float(scipy.special.betaln(a, a))
        first_term = a * log_one_minus_x - math.log(a) - log_beta_function
        return log_upper, np.where(log_one_minus_x < _TINY_LOG, first_term, log_lower)
