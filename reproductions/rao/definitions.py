"""The two definitions of Table 1 that the library has no guarantee type for: KL privacy and mean-concentrated privacy.

Neither is offered for releases: a bound on the mean loss alone implies no small δ, and mean concentration is superseded by
zCDP. Both compose as the table says and have a δ(ε), so that they can be compared with the others.
"""

import math
from dataclasses import dataclass
from typing import Self

from curvedp import _validate

__all__ = ["KLDP", "MeanConcentratedDP"]


@dataclass(frozen=True)
class KLDP:
    """KL(M(D) ‖ M(D′)) <= alpha for all neighbours.

    >>> KLDP.composed([KLDP(0.02), KLDP(0.03)])
    KLDP(alpha=0.05)
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _validate.length("alpha", self.alpha))

    @classmethod
    def composed(cls, parts: list[Self]) -> Self:
        """Σα: the chain rule, for adaptive releases too."""
        return cls(math.fsum(part.alpha for part in parts))

    def delta(self, eps: float) -> float:
        """The total variation it allows, by Pinsker or Bretagnolle and Huber; no ε makes it small."""
        return min(math.sqrt(self.alpha / 2), math.sqrt(-math.expm1(-self.alpha)))


@dataclass(frozen=True)
class MeanConcentratedDP:
    """The loss L has mean at most `mean`, and L − E[L] is subgaussian of variance proxy deviation² (Dwork, Rothblum 2016).

    >>> MeanConcentratedDP.composed([MeanConcentratedDP(0.5, 0.3), MeanConcentratedDP(0.5, 0.4)])
    MeanConcentratedDP(mean=1.0, deviation=0.5)
    """

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _validate.length("mean", self.mean))
        object.__setattr__(self, "deviation", _validate.positive("deviation", self.deviation))

    @classmethod
    def composed(cls, parts: list[Self]) -> Self:
        """(Σμ, √Στ²)."""
        return cls(math.fsum(p.mean for p in parts), math.sqrt(math.fsum(p.deviation**2 for p in parts)))

    def delta(self, eps: float) -> float:
        """P(L > ε) <= exp(−(ε − μ)²/2τ²) above the mean: a bound on δ(ε)."""
        return math.exp(-(max(eps - self.mean, 0.0) ** 2) / (2 * self.deviation**2))

    def epsilon(self, delta: float) -> float:
        """μ + τ√(2·log 1/δ)."""
        return self.mean + self.deviation * math.sqrt(2 * math.log(1 / delta))
