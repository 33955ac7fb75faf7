"""The price of choosing: a private release is repeated a random number of times, and only the best run is published.

If the number K of runs is random and never told, the best of them costs about two or three runs, however many there are (Liu
and Talwar 2019; Papernot and Steinke 2022; docs/accounting.md). "Best" is by a score that is part of each run's private
output, ties by order of the outputs. K is truncated negative binomial, P(K = k) ∝ (1−γ)^k·∏_{l<k}(l+η)/(l+1), k ≥ 1.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import (
    expand_bracket,
    root_rounded_up,
    round_fraction,
    round_up,
)
from curvedp.privacy.guarantees.base import Guarantee, vouched
from curvedp.privacy.guarantees.definitions import GDP, ApproxDP, PureDP, RenyiDP
from curvedp.privacy.guarantees.gaussian import gdp_mu

_ORDERS = np.concatenate(
    [[1.0], 1 + np.geomspace(1e-3, 1e6, 400)]
)  # every one gives a bound; the best is taken


@dataclass(frozen=True)
class NegativeBinomialRuns:
    """The number of runs: truncated negative binomial.

    Parameters
    ----------
    stop : float
        γ in (0, 1): smaller, more runs.
    shape : float
        η > −1; 0 is logarithmic, 1 geometric. Smaller, cheaper and of wider spread.

    Raises
    ------
    ParameterError
        For a γ or η out of range.

    Examples
    --------
    >>> from curvedp.privacy import PureDP
    >>> runs = NegativeBinomialRuns(stop=0.1, shape=1.0)
    >>> round(runs.mean, 6), runs.best(PureDP(0.5))
    (10.0, PureDP(1.5))
    """

    stop: float
    shape: float = 0.0

    def __post_init__(self) -> None:
        _validate.within("stop", self.stop, 0, 1, open_low=True, open_high=True)
        _validate.within("shape", self.shape, -1, 1e6, open_low=True)

    @property
    def mean(self) -> float:
        """E[K], rounded up."""
        log_stop = math.log(self.stop)
        if self.shape == 0:
            return float(round_up((1 - self.stop) / self.stop / -log_stop, 1e-14))
        return float(
            round_up(
                self.shape
                * (1 - self.stop)
                / (self.stop * -math.expm1(self.shape * log_stop)),
                1e-13,
            )
        )

    @classmethod
    def of_mean(cls, mean: float) -> "NegativeBinomialRuns":
        """The logarithmic law with about this mean, above 1."""
        _validate.within("mean", mean, 1, 1e12, open_low=True)
        low, high = 1e-15, 1 - 1e-9
        for _ in range(60):  # the mean falls with γ
            middle = math.sqrt(low * high)
            low, high = (middle, high) if cls(middle).mean > mean else (low, middle)
        return cls(high)

    def one_of(self, target: Guarantee) -> tuple[Guarantee, float | None]:
        """What one run must meet so that the best meets `target`, and the order at which that is seen: pure ε of pure ε, and
        the largest μ of GDP of (ε, δ); another target is refused."""
        if isinstance(target, PureDP):
            share = Fraction(target.eps) / (2 + Fraction(self.shape))
            return PureDP(
                round_fraction(share, up=False), adjacency=target.adjacency
            ), None
        if not isinstance(target, ApproxDP):
            raise ParameterError(
                f"{target!r}: a choice is calibrated to PureDP or ApproxDP"
            )
        orders = 1 + np.geomspace(0.05, 5e3, 60)

        def found(scale: float) -> tuple[float, float]:
            run = GDP(1 / scale, adjacency=target.adjacency)
            divergences = np.array(
                [self.best(run, order).eps for order in orders.tolist()]
            )
            rough = (orders - 1) * (
                divergences - target.eps + np.log1p(-1 / orders)
            ) - np.log(orders)  # log δ, a bound
            order = float(orders[np.argmin(rough)])
            return float(self.best(run, order).delta(target.eps)), order

        def excess(scale: float) -> float:
            return math.log(max(found(scale)[0], 1e-300)) - math.log(target.delta0)

        scale = root_rounded_up(
            excess,
            *expand_bracket(excess, 3 / float(gdp_mu(target.eps, target.delta0))),
            relative=1e-3,
        )
        return GDP(1 / scale, adjacency=target.adjacency), found(scale)[1]

    def best(self, run: Guarantee, order: float | None = None) -> PureDP | RenyiDP:
        """The guarantee of the best run, each of them, its score included, private by `run`. Pure ε costs (2 + η)ε
        (Papernot and Steinke 2022, Cor. 3). In Rényi divergence, at the `order` λ and any λ̂ ≥ 1, ε(λ) + (1+η)(1 −
        1/λ̂)ε(λ̂) + (1+η)·log(1/γ)/λ̂ + log E[K]/(λ − 1)  (Thm 2); refused where one run has none."""
        vouched(run)
        if order is None:
            if not isinstance(run, PureDP):
                raise ParameterError(
                    f"{run!r} is not pure: give order=… for a bound in Rényi divergence"
                )
            total = (2 + Fraction(self.shape)) * Fraction(run.eps)
            return PureDP(round_fraction(total, up=True), adjacency=run.adjacency)
        own = RenyiDP.implied_by(run, None, None, order)
        price = (1 + self.shape) * _extra(run, math.log(self.stop)) + math.log(
            self.mean
        ) / (own.order - 1)
        spent = float(
            round_up(own.eps + max(price, 0.0), 1e-13)
        )  # never below one run's
        if not spent < math.inf:
            raise UnattainableGuarantee(
                f"{own!r} of one run leaves no bound on the best of many"
            )
        return RenyiDP(own.order, spent, adjacency=own.adjacency)


@functools.lru_cache(maxsize=64)
def _extra(run: Guarantee, log_stop: float) -> float:
    """The least (1 − 1/λ̂)ε(λ̂) + log(1/γ)/λ̂."""
    other = np.array([run.renyi_bound(x) if x > 1 else 0.0 for x in _ORDERS.tolist()])
    with np.errstate(invalid="ignore"):
        return float(
            np.nanmin(
                (1 - 1 / _ORDERS) * np.where(_ORDERS > 1, other, 0.0)
                - log_stop / _ORDERS
            )
        )
