"""The interface that every distribution of a privacy loss implements. For the output
densities p₁ and p₂ on two neighboring data sets, the privacy loss is L = log
p₁(Y)/p₂(Y) at an output Y drawn from p₁. Its tails are P(L > t) and P(L <= t).

An isometry of the space swaps p₁ and p₂ here. So P₂(L > t) = P₁(L < −t), and P₁(L > t)
for t >= 0 determines everything.
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

# A logarithm: an integrand that has fallen by the factor e^-44 = 8e-20 is negligible
# beside a rounding error of a double (1e-16).
NEGLIGIBLE = 44.0


class PrivacyLossLaw:
    """The distribution of a privacy loss L between two neighboring data sets.

    L = log p₁(Y)/p₂(Y), where p₁ and p₂ are the output densities on the two data sets
    and Y is drawn from p₁. A subclass implements `max_loss`, `loss_scale` and
    `log_tails`.

    Attributes
    ----------
    resolution : float
        The relative error of the tails. A series that approximates them need not be
        more accurate.
    breakpoints : tuple of float
        Losses > 0 at which the tails are not analytic.
    table_end : float or None
        If L has an atom at its maximum T: how close to T a table must go, expressed as
        −log(1 − t/T). None if L has no atom.
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
        """About the standard deviation of L: the length on which its tails vary."""
        raise NotImplementedError

    def with_enough_nodes(self) -> "PrivacyLossLaw":
        """Return a law with enough quadrature nodes for accurate tails.

        A profile calls it once, before it tabulates the tails. A law whose tails have
        closed forms needs no quadrature and returns itself, which is the default.

        Returns
        -------
        PrivacyLossLaw
            The same distribution.
        """
        return self

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t), both to full relative precision.

        L is the privacy loss and P₁ the output distribution on the first of two
        neighboring data sets. Subclasses must define this method. Neither probability
        may be computed as one minus the other if that would lose digits.

        Parameters
        ----------
        t : array
            Losses with 0 <= t < max_loss, in one dimension.

        Returns
        -------
        log_upper, log_lower : array
            One logarithm for each t.
        """
        raise NotImplementedError

    def delta(self, eps: float) -> float:
        """Return a quick estimate of δ(ε), by one quadrature.

        δ(ε) is the smallest δ for which the release is (ε, δ)-differentially private.
        With the privacy loss L and the output distribution P₁ on the first data set, it
        is ∫_ε^∞ e^{ε−t}·P₁(L > t) dt. The estimate is not rounded up: use it to start a
        search, not to claim privacy.

        The integral is cut off where its integrand is negligible. Its length is the
        smallest of three bounds:

        - The losses end at the largest one, `max_loss`.
        - From t = ε + 44 on, e^{ε−t} is negligible (`NEGLIGIBLE`).
        - If L is about normal with the standard deviation s, its law is N(s²/2, s²).
          That density falls by the factor e^-44 between ε and ε + h, where h is the
          solution of (h + ε − s²/2)² − (ε − s²/2)² = 88·s² (`length_for_normal_loss`).

        Parameters
        ----------
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        float
            An approximation of δ(ε); 0 from the largest loss on.
        """
        # The three bounds on the length of the integral.
        distance_past_mean = eps - self.loss_scale**2 / 2
        root = math.sqrt(
            distance_past_mean * distance_past_mean
            + 2 * NEGLIGIBLE * self.loss_scale**2
        )
        length_for_normal_loss = root - distance_past_mean
        length = min(self.max_loss - eps, NEGLIGIBLE, length_for_normal_loss)
        if length <= 0:
            return 0.0

        # Gauss–Legendre quadrature of e^{ε−t}·P₁(L > t) from ε to ε + length.
        t = eps + length * UNIT_NODES
        log_upper, _ = self.log_tails(t)
        log_terms = log_upper + eps - t + UNIT_LOG_WEIGHTS
        return length * math.exp(log_sum_exp(log_terms, axis=0))
