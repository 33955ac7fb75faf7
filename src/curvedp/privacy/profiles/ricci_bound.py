"""Bounds on whole profiles, proved and in closed form, where the exact one is not known.

On a complete, simply connected manifold with sectional curvatures <= 0 and Ric >= −k, kσ² < 1, telling the Gaussians of
scale σ about two points Δ apart from each other is at least as hard as with flat Gaussians of scale s = σ√(1 − kσ²): the
release is Δ/s-GDP, and each f-divergence is at most theirs (docs/exact-profiles.md, Theorem 4).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import Array
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import PureDP
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import GaussianProfile


@dataclass(frozen=True)
class HadamardProfile(GaussianProfile):
    """A flat Gaussian which gives away at least as much, `scale` its own: σ√(1 − kσ²)."""

    @classmethod
    def of(
        cls, dim: int, sigma: float, sensitivity: float, ricci: float
    ) -> "HadamardProfile":
        """For the Gaussian of scale σ where Ric >= `ricci`, and ricci·σ² >= −½: beyond, more noise would bound no better."""
        return cls(
            "gaussian",
            0.0,
            dim,
            _flat(_validate.length("sigma", sigma), -ricci),
            sensitivity,
        )

    space, label = "this space, by its Ricci curvature", Guarantee.label


@dataclass(frozen=True)
class PureProfile(PrivacyProfile):
    """What is known of a loss |L| ≤ `eps` alone: randomized response is the worst case (Kairouz, Oh & Viswanath 2015). Of
    the Laplace law exp(−d/σ) with a constant normalizer: |L| ≤ Δ/σ and |∂L| ≤ 1/σ along a geodesic, so the Rao distance
    is at most ε too."""

    eps: float

    label = Guarantee.label
    kind = "laplace"
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"eps": (0, math.inf)}

    def bound(self, of: str) -> float:
        return self.eps if of == "rao" else self._pure.bound(of)

    @property
    def _pure(self) -> PureDP:
        return PureDP(self.eps, adjacency=self.adjacency)

    pure_epsilon = rao = property(lambda self: self.eps)
    mu = property(lambda self: self.bound("gdp"))
    rho = property(lambda self: self.bound("zcdp"))
    hellinger_angle = property(lambda self: self.bound("angle"))

    def renyi_bound(self, order: float) -> float:
        return self._pure.renyi_bound(order)

    def _delta(self, eps: Array) -> Any:
        return self._pure._delta(eps)

    def _tradeoff(self, alpha: Array) -> Any:
        return self._pure._tradeoff(alpha)


def _flat(sigma: float, k: float) -> float:
    """σ√(1 − kσ²), rounded down."""
    if not k * sigma * sigma <= 0.5:
        raise ParameterError(
            f": no bound by the Ricci curvature {-k:g} beyond {math.sqrt(0.5 / k):g}",
            parameter="sigma",
            value=sigma,
        )
    return sigma * math.sqrt(1 - k * sigma * sigma) * (1 - 2.0**-50)


def hadamard_scale(flat: float, ricci: float) -> float:
    """The smallest σ with σ√(1 + ricci·σ²) >= flat, rounded up; refused beyond flat² = −1/(4·ricci), where the bound ends."""
    flat, k = _validate.length("flat", flat), -ricci
    room = 1 - 4 * k * flat * flat * (1 + 2.0**-40)
    if room < 0:
        raise UnattainableGuarantee(
            f"so much noise ({flat:.4g} in flat space, at most {0.5 / math.sqrt(k):.4g}) has no proved bound on this space; "
            "use the mechanism log-gaussian"
        )
    sigma = flat * math.sqrt(2 / (1 + math.sqrt(room)))
    while _flat(sigma, k) < flat:
        sigma = math.nextafter(sigma * (1 + 2.0**-50), math.inf)
    return sigma
