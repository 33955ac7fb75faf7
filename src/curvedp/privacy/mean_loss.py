"""Two older definitions that bound the mean of the privacy loss L = log dP/dQ(Y), Y ~ P: KL and mean-concentrated privacy.

From KL to (ε, δ): every u in (0, 1] gives a sound γ = λu(e^{1/λ} − 1), λ = δ/(a − log u − 1 + u), and the best u is
exact; from mean and deviation: D_α ≤ m + (α−1)τ²/2 (Bun and Steinke 2016, Lemma 4.2), from which all that is said below
follows. docs/accounting.md has the proofs.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array, bisect_floats, round_up
from curvedp.privacy.guarantees.base import Guarantee, impossible
from curvedp.privacy.guarantees.definitions import half_square, hellinger_angle
from curvedp.privacy.guarantees.renyi import EpsilonFirst, all_orders_epsilon

_SERIES = [
    1.0 / k for k in range(20, 1, -1)
]  # −log(1 − w) − w = w²·Σ w^k/(k + 2), below 1/16 to the last digit


@dataclass(frozen=True, repr=False)
class KLDP(EpsilonFirst, Guarantee):
    """KL privacy: the Kullback–Leibler divergence of neighbors' outputs is at most α (Rényi DP of order 1).

    Guarantees: `delta` is the exact largest δ that KL(P‖Q) ≤ α allows.

    Parameters
    ----------
    alpha, adjacency : float, str
        The bound α > 0 on the mean of the loss, and what neighbors differ in.

    Examples
    --------
    >>> from curvedp.privacy import compose
    >>> compose(KLDP(0.25), KLDP(0.5))
    KLDP(0.75)
    """

    alpha: float

    symbol: ClassVar[str] = "α"
    scale_power: ClassVar[float] = 2.0
    additive: ClassVar[dict[str, int]] = {"alpha": 1}
    merges: ClassVar[str] = "mean"
    follows: ClassVar[tuple[str, str]] = ("kl", "the mean of its loss can be infinite")

    def _epsilon(self, delta: Array) -> Any:
        return kl_epsilon(self.alpha, delta)

    def renyi_bound(self, order: float) -> float:
        return self.alpha if order <= 1 else math.inf

    def implies(self) -> dict[str, float]:
        return {"angle": hellinger_angle(self.alpha / 2)}


@dataclass(frozen=True, repr=False)
class MeanConcentratedDP(EpsilonFirst, Guarantee):
    """(m, τ)-mean-concentrated DP: the loss has mean at most m, and about it is subgaussian (Dwork and Rothblum 2016).

    Guarantees: `delta` is the best over all orders of the exact bound that D_α ≤ m + (α−1)τ²/2 implies; composed, that
    is what holds of the result. It follows from bounded losses alone: a release at it has Laplace noise.

    Parameters
    ----------
    mean, deviation, adjacency : float, float, str
        m > 0, the subgaussian deviation τ > 0, and what neighbors differ in.

    Examples
    --------
    >>> from curvedp.privacy import compose
    >>> compose(MeanConcentratedDP(0.5, 3.0), MeanConcentratedDP(0.25, 4.0))
    MeanConcentratedDP(0.75, 5.0)
    """

    mean: float
    deviation: float

    symbol: ClassVar[str] = "share"
    additive: ClassVar[dict[str, int]] = {"mean": 1, "deviation": 2}
    merges: ClassVar[str] = "concentrated"

    def _epsilon(self, delta: Array) -> Any:
        if (rho := half_square(self.deviation)) > 1e300 or self.mean > 1e300:
            return np.full_like(delta, np.inf)  # beyond what floats add up
        found = all_orders_epsilon(
            rho, lambda alpha: self.mean + (alpha - 1) * rho, delta
        )
        return np.minimum(
            found, kl_epsilon(self.mean, delta)
        )  # of order 1, the best where m is small beside τ²

    def implies(self) -> dict[str, float]:
        largest = max(
            self.mean, half_square(self.deviation)
        )  # (m + (α−1)τ²/2)/α is monotone in α
        return {"zcdp": largest, "angle": hellinger_angle(self.mean / 2)}

    def renyi_bound(self, order: float) -> float:
        return (
            float(
                round_up(self.mean + (order - 1) * half_square(self.deviation), 1e-15)
            )
            if order > 1
            else self.mean
        )

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "MeanConcentratedDP":
        if type(other) is cls:
            return other
        if not (largest := other.bound("pure")) < math.inf:
            raise impossible(
                other,
                cls,
                "its loss need not be subgaussian about its mean, unless it is bounded",
            )
        # a loss within ±ε has deviation ε: Hoeffding's lemma
        return cls(other.renyi_bound(1.0), largest, adjacency=other.adjacency)

    def measure(self, other: Guarantee) -> float:
        """The larger of the two shares of (m, τ) that a bounded loss takes."""
        if other == self:
            return 1.0
        return float(
            round_up(
                max(
                    other.renyi_bound(1.0) / self.mean,
                    other.bound("pure") / self.deviation,
                )
            )
        )


def kl_epsilon(alpha: float, delta: Any) -> Any:
    """The smallest ε with δ(ε) ≤ delta that KL ≤ alpha implies, rounded up; arrays of delta in (0, 1)."""
    delta = np.asarray(delta, np.float64)

    def beyond(w: Array) -> NDArray[np.bool_]:
        """Whether log γ grows with w = 1 − u: its derivative, times u."""
        c = _cost(alpha, w)
        with np.errstate(over="ignore"):
            return np.asarray(w / (delta * -np.expm1(-c / delta)) >= 1 + w / c)

    # Every w gives a bound, and one 1e-9 of itself off the best hardly another.
    w = bisect_floats(
        beyond, np.full_like(delta, 1e-300), np.full_like(delta, 1 - 2.0**-53), steps=40
    )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        r = round_up(_cost(alpha, w) / delta, 4e-16)  # 1/λ
        growth = np.where(
            r < 1,
            np.log(np.expm1(np.minimum(r, 1.0)) / r),
            r + np.log1p(-np.exp(-r)) - np.log(r),
        )
        eps = np.log1p(-w) + growth
        return np.maximum(
            np.where(np.isnan(eps), np.inf, eps + 1e-15 * (1 + r - np.log1p(-w))), 0.0
        )


def _cost(alpha: float, w: Array) -> Array:
    """alpha − log u − 1 + u for u = 1 − w, rounded up."""
    near = w * w * np.polyval(_SERIES, np.minimum(w, 0.0625))
    return np.asarray(
        round_up(alpha + np.where(w < 0.0625, near, -np.log1p(-w) - w), 1e-14)
    )
