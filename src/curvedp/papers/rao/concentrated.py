"""(ξ, ρ)-zCDP, Definition 2.4 of the Rao paper (Bun and Steinke 2016): a bound ξ + ρα
on the Rényi divergence of every order α > 1. The library's `ZCDP` is the case ξ = 0.
"""

from dataclasses import dataclass

import numpy as np

from curvedp import _validate

__all__ = ["OffsetZCDP"]

# Orders α at which conversions are evaluated. Every order gives a valid bound, so a
# finite grid is sound; this one is fine enough to be within 10⁻⁵ of the best.
_ORDERS = 1 + np.geomspace(1e-3, 1e5, 4000)


@dataclass(frozen=True)
class OffsetZCDP:
    """(ξ, ρ)-zCDP: D_α(P‖Q) ≤ ξ + ρα at every order α > 1, for all neighbors.

    A pure ε-DP mechanism is (ε, 0)-zCDP. Compositions add both numbers.

    Parameters
    ----------
    xi : float
        ξ ≥ 0, the part of the bound that does not grow with the order.
    rho : float
        ρ ≥ 0, the slope of the bound in the order.

    Examples
    --------
    >>> OffsetZCDP(0.1, 0.02).compose(OffsetZCDP(0.2, 0.01))
    OffsetZCDP(xi=0.30000000000000004, rho=0.03)
    >>> OffsetZCDP(0.5, 0.0).delta(0.6) < 1e-30
    True
    """

    xi: float
    rho: float

    def __post_init__(self) -> None:
        """Check that both numbers are finite and not negative."""
        for name, stated in (("xi", self.xi), ("rho", self.rho)):
            object.__setattr__(self, name, _validate.nonnegative(name, stated))

    def compose(self, other: "OffsetZCDP") -> "OffsetZCDP":
        """Return what two releases together satisfy: both numbers are added.

        Parameters
        ----------
        other : OffsetZCDP
            The guarantee of the second release.
        """
        return OffsetZCDP(self.xi + other.xi, self.rho + other.rho)

    def renyi(self, order: float) -> float:
        """Return the bound ξ + ρα on the Rényi divergence D_α.

        Parameters
        ----------
        order : float
            α > 1.
        """
        order = _validate.within("order", order, 1.0, np.inf, open_low=True)
        return self.xi + self.rho * order

    def delta(self, eps: float) -> float:
        """Return a δ for which every mechanism with this guarantee is (ε, δ)-DP.

        δ = e^{(α−1)(D_α − ε)}·(1 − 1/α)^α/(α − 1) is valid at every order α > 1
        (Canonne, Kamath and Steinke 2020, Corollary 13); the least over a grid of
        orders is returned, rounded up.

        Parameters
        ----------
        eps : float
            ε ≥ 0.
        """
        eps = _validate.nonnegative("eps", eps)
        orders = _ORDERS
        log_delta = (orders - 1) * (self.xi + self.rho * orders - eps)
        log_delta += orders * np.log1p(-1 / orders) - np.log(orders - 1)
        return float(min(1.0, np.exp(np.min(log_delta)) * (1 + 1e-12)))

    def epsilon(self, delta: float) -> float:
        """Return an ε for which every mechanism with this guarantee is (ε, δ)-DP.

        It is the inverse of `delta`, by the same conversion, rounded up.

        Parameters
        ----------
        delta : float
            δ between 0 and 1, both excluded.
        """
        delta = _validate.within(
            "delta", delta, 0.0, 1.0, open_low=True, open_high=True
        )
        orders = _ORDERS
        log_terms = orders * np.log1p(-1 / orders) - np.log(orders - 1) - np.log(delta)
        eps_by_order = self.xi + self.rho * orders + log_terms / (orders - 1)
        return float(max(0.0, np.min(eps_by_order) * (1 + 1e-12)))
