"""(ξ, ρ)-zCDP, Definition 2.4 of the Rao paper (Bun and Steinke 2016).

The library's `ZCDP` is the case ξ = 0.
"""

from dataclasses import dataclass

import numpy as np

from curvedp import _validate

__all__ = ["OffsetZCDP"]

# Orders at which the conversion is evaluated; every one of them gives a valid bound.
_ORDERS = 1 + np.geomspace(1e-3, 1e5, 4000)


@dataclass(frozen=True)
class OffsetZCDP:
    """(ξ, ρ)-zCDP: D_α(P‖Q) ≤ ξ + ρα at every order α > 1, for all neighbors.

    A pure ε-DP mechanism is (ε, 0)-zCDP. Compositions add both numbers.

    Parameters
    ----------
    xi : float
        ξ ≥ 0.
    rho : float
        ρ ≥ 0.

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
        for name, stated in (("xi", self.xi), ("rho", self.rho)):
            value = _validate.within(name, stated, 0.0, float("inf"))
            object.__setattr__(self, name, value)

    def compose(self, other: "OffsetZCDP") -> "OffsetZCDP":
        """Return what both releases together satisfy."""
        return OffsetZCDP(self.xi + other.xi, self.rho + other.rho)

    def renyi(self, order: float) -> float:
        """Return the bound on D_α at the order α."""
        return self.xi + self.rho * order

    def delta(self, eps: float) -> float:
        """Return a valid δ at ε, by Canonne, Kamath and Steinke (2020), Corollary 13.

        δ ≤ e^{(α−1)(D_α − ε)}·(1 − 1/α)^α/(α − 1) for every α > 1.
        """
        a = _ORDERS
        logs = (a - 1) * (self.xi + self.rho * a - eps)
        logs = logs + a * np.log1p(-1 / a) - np.log(a - 1)
        return float(min(1.0, np.exp(np.min(logs)) * (1 + 1e-12)))

    def epsilon(self, delta: float) -> float:
        """Return a valid ε at δ, by the same conversion."""
        a = _ORDERS
        log_terms = a * np.log1p(-1 / a) - np.log(a - 1) - np.log(delta)
        values = self.xi + self.rho * a + log_terms / (a - 1)
        return float(max(0.0, np.min(values) * (1 + 1e-12)))
