"""The profile of a release of which nothing is known but a bound on its privacy loss."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvedp import _validate
from curvedp.privacy._loss_table import LossTails
from curvedp.privacy.guarantees import PureDP
from curvedp.privacy.profile import PrivacyProfile

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PureProfile(PrivacyProfile):
    """What |L| ≤ `eps` implies: randomized response is the worst case (Kairouz, Oh & Viswanath 2015).

    Of the Laplace law exp(−d/σ) with a constant normalizer: |L| ≤ Δ/σ and |∂L| ≤ 1/σ along a geodesic, so the Rao distance
    is at most ε too.
    """

    eps: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eps", _validate.positive("eps", self.eps))

    @property
    def _pure(self) -> PureDP:
        return PureDP(self.eps, adjacency=self.adjacency)

    @property
    def label(self) -> str:
        return "proved bound"

    @property
    def tails(self) -> LossTails:
        raise NotImplementedError("a bound on the loss has no distribution")

    @property
    def pure_epsilon(self) -> float:
        return self.eps

    @property
    def mu(self) -> float:
        return self._pure.gdp_bound()

    @property
    def rho(self) -> float:
        return self._pure.zcdp_bound()

    @property
    def rao(self) -> float:
        return self.eps

    @property
    def hellinger_angle(self) -> float:
        return self._pure.angle_bound()

    def _renyi(self, order: float) -> float:
        return self._pure.renyi_bound(order)

    def _delta(self, eps: Array) -> Any:
        return self._pure._delta(eps)

    def _tradeoff(self, alpha: Array) -> Any:
        return self._pure._tradeoff(alpha)
