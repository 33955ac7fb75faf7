"""The privacy cost of repeating a private computation and publishing only the best run.
The number K of runs is random and never published. Then the best run costs about as
much privacy as two or three runs, however many there were.

`NegativeBinomialRuns` is the distribution of K, and computes this cost.

Theorem (Liu and Talwar 2019; Papernot and Steinke 2022; docs/theory/accounting.md,
Theorem C5). "Best" is by a score that is part of each run's private output, with ties
broken by the order of the outputs. Here K is truncated negative binomial:
P(K = k) ∝ (1−γ)^k·∏_{l<k}(l+η)/(l+1), k >= 1.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import (
    NINE_HUNDRED_ROUNDINGS,
    NINETY_ROUNDINGS,
    expand_bracket,
    root_rounded_up,
    round_fraction,
    round_up,
)
from curvedp.privacy.curve import PrivacyCurve
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ApproxDP, PureDP, RenyiDP
from curvedp.privacy.guarantees.gaussian import gdp_mu

# The orders λ̂ that `_least_cost_of_free_order` tries: 1, and 400 orders whose
# distances from 1 are evenly spaced on a logarithmic scale. Each order gives a valid
# bound, and the smallest one is used. A finer grid is safe and slower; it would lower
# the bound a little.
_FREE_ORDERS = np.concatenate([[1.0], 1 + np.geomspace(1e-3, 1e6, 400)])
# Rényi orders λ from which a search for an (ε, δ) guarantee chooses.
_CALIBRATION_ORDERS = 1 + np.geomspace(0.05, 5e3, 60)
# A δ below this number is replaced by it before its logarithm is taken.
_SMALLEST_DELTA = 1e-300
# How far the noise scale that a search returns may exceed the smallest one, relative.
_SCALE_TOLERANCE = 1e-3
# A search starts as if the best of many runs cost as much as so many runs.
_RUNS_THAT_COST_AS_MUCH = 3
# Bisections of γ: more than the 53 bits of a float.
_BISECTIONS = 60
# The range of γ in which `of_mean` searches: expected numbers of runs from 1 + 5e-10 to
# about 3e13.
_SMALLEST_STOP = 1e-15
_LARGEST_STOP = 1 - 1e-9


@dataclass(frozen=True)
class NegativeBinomialRuns:
    """The random number of runs of which the best is published: negative binomial.

    Parameters
    ----------
    stop : float
        γ in (0, 1); smaller means more runs.
    shape : float
        η > −1; 0 is the logarithmic law, 1 the geometric. Smaller is cheaper and has a
        wider spread.

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
        """Check the ranges of γ and η."""
        _validate.within("stop", self.stop, 0, 1, open_low=True, open_high=True)
        _validate.within("shape", self.shape, -1, 1e6, open_low=True)

    @property
    def mean(self) -> float:
        """The expected number of runs E[K], rounded up.

        With the parameters γ (`stop`) and η (`shape`) of the distribution, it is
        η(1−γ)/(γ(1 − γ^η)), and (1−γ)/(γ·log(1/γ)) for η = 0.
        """
        log_stop = math.log(self.stop)
        if self.shape == 0:
            return float(
                round_up((1 - self.stop) / self.stop / -log_stop, NINETY_ROUNDINGS)
            )
        denominator = self.stop * -math.expm1(self.shape * log_stop)
        return float(
            round_up(self.shape * (1 - self.stop) / denominator, NINE_HUNDRED_ROUNDINGS)
        )

    @classmethod
    def of_mean(cls, mean: float) -> "NegativeBinomialRuns":
        """Return the distribution with a given expected number of runs.

        It is the logarithmic one (`shape` 0). Its parameter γ (`stop`) is found by
        bisection, because the expected number decreases with γ.

        Parameters
        ----------
        mean : float
            The expected number of runs, above 1.

        Returns
        -------
        NegativeBinomialRuns
            The distribution. Its expected number is at most `mean`, and close to it.
        """
        _validate.within("mean", mean, 1, 1e12, open_low=True)

        # Bisect γ on a logarithmic scale. The mean is too large at `low`.
        low = _SMALLEST_STOP
        high = _LARGEST_STOP
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            if cls(middle).mean > mean:
                low = middle
            else:
                high = middle
        return cls(high)

    def one_of(self, target: Guarantee) -> tuple[Guarantee, float | None]:
        """Return the guarantee of one run with which the best run satisfies `target`.

        It is the inverse of `best`, and is called to choose the noise of each run.

        Parameters
        ----------
        target : PureDP or ApproxDP
            The guarantee that the best run must satisfy.

        Returns
        -------
        run : PureDP or GDP
            The weakest guarantee that suffices: ε-DP for a pure target, or μ of
            Gaussian DP for (ε, δ).
        order : float or None
            The Rényi order at which the best run is proved to meet (ε, δ); None for
            pure ε.

        Raises
        ------
        ParameterError
            For other targets.
        """
        # A closed form for pure DP: the best run costs 2 + η runs.
        if isinstance(target, PureDP):
            exact_eps = Fraction(target.eps) / (2 + Fraction(self.shape))
            eps = round_fraction(exact_eps, up=False)
            return PureDP(eps, adjacency=target.adjacency), None
        if not isinstance(target, ApproxDP):
            raise ParameterError(
                f"{target!r}: the best of many runs is calibrated to PureDP or ApproxDP"
            )

        def log_excess(scale: float) -> float:
            """Return log(δ of the best run/target δ) for runs with μ = 1/scale."""
            delta, _ = self._delta_of_best(1 / scale, target)
            return math.log(max(delta, _SMALLEST_DELTA)) - math.log(target.delta0)

        # A search for (ε, δ), over the noise scale 1/μ of one run.
        mu_of_target = float(gdp_mu(target.eps, target.delta0))
        first_scale = _RUNS_THAT_COST_AS_MUCH / mu_of_target
        low, high = expand_bracket(log_excess, first_scale)
        scale = root_rounded_up(log_excess, low, high, relative=_SCALE_TOLERANCE)
        _, order = self._delta_of_best(1 / scale, target)
        return GDP(1 / scale, adjacency=target.adjacency), order

    def _delta_of_best(self, mu: float, target: ApproxDP) -> tuple[float, float]:
        """Return δ(ε) of the best of many runs, and the Rényi order that proves it.

        A search for the noise of one run calls it. Every run satisfies μ-GDP, and the
        target gives ε. Let D_λ be the Rényi divergence of the best run at the order λ.
        Among 60 orders, the one with the smallest bound

            log δ <= (λ−1)(D_λ − ε + log(1 − 1/λ)) − log λ

        (Canonne, Kamath and Steinke 2020) is chosen. At that order, the exact largest δ
        that D_λ allows is returned.

        Parameters
        ----------
        mu : float
            The μ of Gaussian DP that every run satisfies.
        target : ApproxDP
            The guarantee whose ε is used.

        Returns
        -------
        delta : float
            δ(ε) of the best run, rounded up.
        order : float
            The order λ.
        """
        # Compute the Rényi divergence of the best run, and the bound on δ, at all
        # orders.
        run = GDP(mu, adjacency=target.adjacency)
        orders = _CALIBRATION_ORDERS
        divergences = np.array([self.best(run, order).eps for order in orders.tolist()])
        log_delta_bounds = (orders - 1) * (
            divergences - target.eps + np.log1p(-1 / orders)
        ) - np.log(orders)

        # Choose the order with the smallest bound, and compute the exact δ there.
        order = float(orders[np.argmin(log_delta_bounds)])
        return float(self.best(run, order).delta(target.eps)), order

    def best(self, run: PrivacyCurve, order: float | None = None) -> PureDP | RenyiDP:
        """Return the guarantee of the best run, if every run satisfies `run`.

        Only the best run is published. The number K of runs is random, with the
        parameters γ (`stop`) and η (`shape`). If each run is ε-DP, the best run is
        (2 + η)ε-DP (Papernot and Steinke 2022, Corollary 3). If one run has the Rényi
        divergence D(λ) at the order λ, that of the best run is at most, for any free
        order λ̂ >= 1 (Theorem 2),

            D(λ) + (1+η)(1 − 1/λ̂)·D(λ̂) + (1+η)·log(1/γ)/λ̂ + log E[K]/(λ − 1).

        The bound must hold at the given order; the free order λ̂ may be any.
        tests/privacy/test_selection.py searches for runs that exceed it.

        Parameters
        ----------
        run : Guarantee or PrivacyProfile
            What one run satisfies. It must be PureDP if no order is given.
        order : float, optional
            The Rényi order λ > 1 at which the best run is bounded.

        Returns
        -------
        PureDP | RenyiDP
            Pure ε if no order is given, else a Rényi divergence at that order.

        Raises
        ------
        ParameterError
            If `run` is not pure and no order is given.
        UnattainableGuarantee
            If the Rényi divergence of one run is infinite.
        """
        # Without an order: pure DP.
        if order is None:
            if not isinstance(run, PureDP):
                raise ParameterError(
                    f"{run!r} is not pure: give order=… for a bound in Rényi divergence"
                )
            total = (2 + Fraction(self.shape)) * Fraction(run.eps)
            return PureDP(round_fraction(total, up=True), adjacency=run.adjacency)

        # With an order: Rényi divergences.
        guarantee_of_run = run.guarantee
        one_run = RenyiDP.implied_by(guarantee_of_run, None, None, order)

        # Add what the choice of the best run costs: the terms with λ̂ and with E[K].
        log_stop = math.log(self.stop)
        cost_of_choice = (1 + self.shape) * _least_cost_of_free_order(
            guarantee_of_run, log_stop
        )
        cost_of_choice = cost_of_choice + math.log(self.mean) / (one_run.order - 1)
        cost_of_choice = max(cost_of_choice, 0.0)

        # Round the sum up.
        divergence_of_best = float(
            round_up(one_run.eps + cost_of_choice, NINE_HUNDRED_ROUNDINGS)
        )
        if not divergence_of_best < math.inf:
            raise UnattainableGuarantee(
                f"one run satisfies {one_run!r}, which gives no bound on the best of "
                "many runs"
            )
        return RenyiDP(one_run.order, divergence_of_best, adjacency=one_run.adjacency)


@functools.lru_cache(maxsize=64)
def _least_cost_of_free_order(run: Guarantee, log_stop: float) -> float:
    """Return the smallest (1 − 1/λ̂)·D(λ̂) + log(1/γ)/λ̂ over the orders λ̂ >= 1.

    This is the part of the privacy cost of the best of many runs that depends on a free
    order λ̂ (`NegativeBinomialRuns.best`). Every order gives a valid bound. The orders
    of `_FREE_ORDERS` are tried, and the smallest bound is returned. Results are cached.

    Parameters
    ----------
    run : Guarantee
        The guarantee of one run; D(λ̂) is its Rényi divergence of the order λ̂.
    log_stop : float
        log γ, where γ is the parameter `stop` of the random number of runs.

    Returns
    -------
    float
        The smallest bound on that part of the cost.
    """
    orders = _FREE_ORDERS
    divergences = np.array(
        [run.implied_renyi(order) if order > 1 else 0.0 for order in orders.tolist()]
    )
    # An order whose term is not a number is skipped: the other orders give bounds too.
    with np.errstate(invalid="ignore"):
        terms = (1 - 1 / orders) * divergences - log_stop / orders
        return float(np.nanmin(terms))
