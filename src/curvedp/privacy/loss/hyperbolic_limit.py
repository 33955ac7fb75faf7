"""The privacy loss that remains on a hyperbolic space for arbitrarily much noise. The
noise is centered at one of two points, D apart. Even very far out, an output shows by
its direction which of the two centers is nearer.

Theorem (docs/theory/hyperbolic-floor.md, Theorem P3). As the scale grows, the loss of
every isotropic law on the hyperbolic space of dimension d tends to L = (d−1)·log(cosh D
− sinh D·cos φ), with φ the angle between a uniformly random direction and the direction
of the second center. This is the loss between the two harmonic measures on the
boundary.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_symmetric_beta
from curvedp.privacy.loss.law import PrivacyLossLaw

# The regularized incomplete beta function I_y(a, a) is a power series in y whose second
# term is smaller than the first by the factor a·y. Below this value of log y only the
# first term counts.
_LOG_OF_TINY_Y = -600.0


@dataclass(frozen=True)
class LimitingLoss(PrivacyLossLaw):
    """The limiting privacy loss on H^d, curvature −1, for centers a distance D apart.

    L = (d−1)·log(cosh D − sinh D·cos φ), where φ is the angle between a uniformly
    random direction and the direction of the second center. So cos²(φ/2) ~ Beta(a, a)
    with a = (d−1)/2, and cosh D − sinh D·cos φ = e^D − 2·sinh D·cos²(φ/2).

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
        """The largest loss (d−1)·D, with the dimension d and the distance D of centers.

        It is attained in the direction φ = π, away from the second center.
        """
        return (self.d - 1) * self.distance

    @property
    def loss_scale(self) -> float:
        """The standard deviation of L for a small distance D: (d−1)·D/√d.

        To first order L = −(d−1)·D·cos φ, where φ is the angle of a uniformly random
        direction, and E[cos² φ] = 1/d.
        """
        return (self.d - 1) * self.distance / math.sqrt(self.d)

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t) at losses 0 <= t < max_loss.

        L is the privacy loss, d the dimension, D the distance of the two centers, and φ
        the angle between a uniformly random direction and the direction of the second
        center. Then L = (d−1)·log(e^D − 2·sinh D·cos²(φ/2)), and cos²(φ/2) ~ Beta(a, a)
        with a = (d−1)/2. So L > t exactly if cos²(φ/2) < x, where λ = t/(d−1) and

            x     = (e^D − e^λ)/(2·sinh D) = (e^{λ−D} − 1)/(e^{−2D} − 1),
            1 − x = e^{λ−D}·(e^{−λ−D} − 1)/(e^{−2D} − 1).

        The two probabilities are I_x(a, a) and I_{1−x}(a, a), with I the regularized
        incomplete beta function. If 1 − x is too small for a float, the second one is
        replaced by the first term of its power series, (1−x)^a/(a·B(a, a)), with B the
        beta function.

        Parameters
        ----------
        t : array
            Losses t, 0 <= t < max_loss.

        Returns
        -------
        log_upper, log_lower : array
            The logarithms of the two probabilities, which add up to 1.
        """
        D = self.distance
        lam = t / (self.d - 1)  # λ
        denominator = math.expm1(-2 * D)
        x = np.expm1(lam - D) / denominator
        one_minus_x = np.exp(lam - D) * np.expm1(-lam - D) / denominator

        a = (self.d - 1) / 2
        log_upper = log_symmetric_beta(a, x, one_minus_x)
        log_lower = log_symmetric_beta(a, one_minus_x, x)

        # The first term of the power series of the lower tail.
        log_one_minus_x = lam - D + np.log(np.expm1(-lam - D) / denominator)
        log_beta_function = float(scipy.special.betaln(a, a))
        first_term = a * log_one_minus_x - math.log(a) - log_beta_function
        is_tiny = log_one_minus_x < _LOG_OF_TINY_Y
        return log_upper, np.where(is_tiny, first_term, log_lower)
