"""The interface of a privacy loss law: its two tails, and where they end.

Definition. For two output distributions p₁ and p₂ of neighboring data sets the privacy
loss is L = log p₁(Y)/p₂(Y) with Y drawn from p₁. Here an isometry swaps p₁ and p₂, so
that P₂(L > t) = P₁(L < −t), and P₁(L > t) for t >= 0 determines everything.
"""

import math

import numpy as np

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.numerics.piecewise_chebyshev import RESOLUTION

# A quadrature rule on (0, 1) with nodes that are dense at both ends: Gauss–Legendre in
# the angle θ with x = sin²(θ/2).
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(40)
_THETA = np.pi / 2 * (_LEGENDRE_NODES + 1)
UNIT_NODES = np.sin(_THETA / 2) ** 2
UNIT_LOG_WEIGHTS = np.log(_LEGENDRE_WEIGHTS * np.pi / 4 * np.sin(_THETA))

# An integrand that has fallen by the factor e^-44 is negligible beside a rounding error.
NEGLIGIBLE = 44.0


class PrivacyLossLaw:
    """The distribution of a privacy loss L between two neighboring data sets.

    Attributes
    ----------
    resolution : float
        The relative error of the tails. A series need not be more accurate.
    breakpoints : tuple of float
        Losses > 0 at which the tails are not analytic.
    table_end : float or None
        For a loss with an atom at its maximum T: how close to T a table must go, as
        −log(1 − t/T). None without an atom.
    """

    resolution: float = RESOLUTION
    breakpoints: tuple[float, ...] = ()
    table_end: float | None = None

    @property
    def max_loss(self) -> float:
        """The supremum of L; possibly infinite."""
        raise NotImplementedError

    @property
    def loss_scale(self) -> float:
        """A length on which the tails vary: about the standard deviation of L."""
        raise NotImplementedError

    def resolved(self) -> "PrivacyLossLaw":
        """Return the same law with as many quadrature nodes as its tails need."""
        return self

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return (log P₁(L > t), log P₁(L <= t)), each with its own digits.

        Parameters
        ----------
        t : array
            Losses with 0 <= t < max_loss.
        """
        raise NotImplementedError

    def delta(self, eps: float) -> float:
        """Return an estimate of δ(ε) = ∫_ε^∞ e^{ε−t}·P₁(L > t) dt, by one quadrature.

        It is not rounded up. The rule covers the losses that matter if L is nearly normal or
        close to its largest value, which is enough to start a search.
        """
        distance_past_mean = eps - self.loss_scale**2 / 2
        root = math.sqrt(
            distance_past_mean * distance_past_mean
            + 2 * NEGLIGIBLE * self.loss_scale**2
        )
        normal_reach = root - distance_past_mean
        reach = min(self.max_loss - eps, NEGLIGIBLE, normal_reach)
        if reach <= 0:
            return 0.0
        t = eps + reach * UNIT_NODES
        log_terms = self.log_tails(t)[0] + eps - t + UNIT_LOG_WEIGHTS
        return reach * math.exp(log_sum_exp(log_terms, axis=0))
