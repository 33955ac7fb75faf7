"""The Gaussian mechanism on random batches: exact steps, exact composition.

Each step releases Σ_{i in batch} xᵢ + N(0, σ²C²) with ‖xᵢ‖ <= C. Write q for the
sampling rate and δ_μ for the profile of N(0, 1) against N(μ, 1).

Poisson batches. When a record is replaced, the worst pair is (1−q)·N(0) + q·N(C)
against (1−q)·N(0) + q·N(−C). When one is removed, it is the first of these against
N(0); when one is added, the other way round (docs/accounting.md, Theorem C4).

Batches of fixed size, without replacement. Another record takes the place of the
missing one: δ(ε) = q·δ_{2/σ}(log(1 + (e^ε−1)/q)) (Balle, Barthe and Gaboardi 2018).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import (
    Array,
    expand_bracket,
    root_rounded_up,
    round_fraction,
    round_root,
    round_up,
)
from curvedp.privacy.composition import Composition
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ApproxDP
from curvedp.privacy.guarantees.gaussian import gdp_delta

# More noise needs none of this accounting, and its squares overflow.
_LARGEST_MULTIPLIER = 1e100
# With less noise than this only chance protects: a step's δ(ε) is q up to ε = 10¹¹, and
# is taken as q for every ε.
_SMALLEST_MULTIPLIER = 1e-6
# The relative error of the ε's below, which are moved down by it.
_ROUNDING = 1e-15


@dataclass(frozen=True, repr=False)
class _Step(Guarantee):
    """One noisy sum of a random batch.

    Parameters
    ----------
    noise_multiplier : float
        σ, the deviation of the noise in units of the clipping norm C.
    sampling_rate : float
        q, the chance that a record is in the batch.
    """

    noise_multiplier: float
    sampling_rate: float

    def __post_init__(self) -> None:
        """Validate the noise multiplier and the sampling rate."""
        super().__post_init__()
        multiplier = _validate.within(
            "noise_multiplier",
            self.noise_multiplier,
            0,
            _LARGEST_MULTIPLIER,
            open_low=True,
        )
        object.__setattr__(self, "noise_multiplier", multiplier)
        rate = _validate.within(
            "sampling_rate", self.sampling_rate, 0, 1, open_low=True
        )
        object.__setattr__(self, "sampling_rate", rate)

    def _delta(self, eps: Array) -> Any:
        """Return δ(ε); the sampling rate q where there is next to no noise."""
        # The two outputs agree unless the record is drawn: δ <= q, whatever the noise.
        if self.noise_multiplier < _SMALLEST_MULTIPLIER:
            return np.full_like(eps, self.sampling_rate)
        return self._noisy_delta(eps)

    def _noisy_delta(self, eps: Array) -> Any:
        """Return δ(ε) where the noise is not negligible. Subclasses give it."""
        raise NotImplementedError

    def mu_of_shift(self, clips: int) -> float:
        """Return the μ of means that are `clips` clipping norms apart, rounded up.

        Every δ below grows with it.
        """
        return round_fraction(clips / Fraction(self.noise_multiplier), up=True)

    def _amplified_delta(self, mu: float, eps: Array) -> Any:
        """Return q·δ_μ(ε_inner), ε_inner = log(1 + (e^ε−1)/q); rounded up.

        From ε = 30 on, (e^ε − 1 + q)/q >= e^ε·(1 − e^−30)/q serves. ε_inner is rounded
        down, because δ_μ falls with it.
        """
        q = self.sampling_rate
        if q == 1:
            return gdp_delta(mu, eps)

        with np.errstate(over="ignore"):
            for_small = np.log1p(np.expm1(np.minimum(eps, 30.0)) / q)
            for_large = eps - math.log(q)
            for_large = for_large + math.log1p(-math.exp(-30))
            inner = np.where(eps < 30, for_small, for_large)
        rounding = _ROUNDING * (np.minimum(np.abs(inner), 1e300) + 1) * (eps > 0)
        inner = np.where(eps == np.inf, np.inf, inner - rounding)
        delta = q * gdp_delta(mu, np.maximum(inner, 0.0))
        return np.minimum(round_up(delta, 1e-15), 1.0)


@dataclass(frozen=True, repr=False)
class PoissonGaussianStep(_Step):
    """One noisy sum of a Poisson batch: every record is in it with chance q.

    Exact for the worst pair of neighboring data sets, in any dimension, for either
    adjacency. The parameters are `noise_multiplier` σ and `sampling_rate` q.
    """

    @property
    def delta_add(self) -> Callable[[Array], Array] | None:
        """δ(ε) for adding a record, where `delta` is for removing one."""
        is_symmetric = self.adjacency == "replace-one"
        if is_symmetric or self.noise_multiplier < _SMALLEST_MULTIPLIER:
            return None
        return self._delta_when_adding

    def _delta_when_adding(self, eps: Array) -> Array:
        """Return s·δ_μ(ε_inner), s = q − (e^ε − 1)(1 − q), ε_inner = ε + log(q/s).

        δ(ε) is 0 where s <= 0. It grows with s and falls with ε_inner; both are rounded
        accordingly (docs/accounting.md, Theorem C4).
        """
        q = self.sampling_rate
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            raised_q = q * (1 + 8 * _ROUNDING)
            lowered_loss = np.expm1(eps) * (1 - q) * (1 - 4 * _ROUNDING)
            s = raised_q - lowered_loss
            log_q = np.log(q * (1 - 4 * _ROUNDING))
            inner = eps + log_q - np.log(np.maximum(s, 0.0))
            inner = inner * (1 - _ROUNDING) - 4 * _ROUNDING * (1 - math.log(q))
            inner = np.where(s > 0, np.maximum(inner, 0.0), 0.0)
            delta = round_up(s * gdp_delta(self.mu_of_shift(1), inner), 4e-15)
        return np.where(s > 0, np.minimum(delta, 1.0), 0.0)

    def _noisy_delta(self, eps: Array) -> Any:
        """Return δ(ε) for removing a record, or for replacing one."""
        if self.adjacency != "replace-one":
            return self._amplified_delta(self.mu_of_shift(1), eps)
        return self._delta_when_replacing(eps)

    def _delta_when_replacing(self, eps: Array) -> Any:
        """Return δ(ε) for replacing a record.

        The loss exceeds ε where the noise exceeds z/μ, with z = ε/2 + asinh(e^x) and
        e^x = ((1−q)/q)·e^{μ²/2}·sinh(ε/2), so that

            δ(ε) = q·(δ_μ(z − μ²/2) + e^{ε/2 − asinh(e^x) − μ²/2}·δ_μ(z + μ²/2)).

        Beyond x = 20, asinh(e^x) is x + log 2 to all digits, and ε/2 − asinh(e^x) is
        known without the ε that would cancel.
        """
        q = self.sampling_rate
        mu = self.mu_of_shift(1)
        half_square = mu * mu / 2
        log_odds = np.log1p(-q) - math.log(q) if q < 1 else -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            log_rise = np.where(eps > 0, np.log(-np.expm1(-eps)), -np.inf)
            x = log_odds + half_square + eps / 2 + log_rise - math.log(2)
            is_far = x > 20
            near_asinh = np.arcsinh(np.exp(np.minimum(x, 20.0)))
            asinh = np.where(is_far, x + math.log(2), near_asinh)
            far_lag = -log_odds - half_square - log_rise
            lag = np.where(is_far, far_lag, eps / 2 - asinh)

        finite_log_odds = log_odds if q < 1 else 0.0
        size = np.where(is_far, 0.0, eps) + abs(finite_log_odds) + half_square + 1
        error = _ROUNDING * size
        z = (eps / 2 + asinh) * (1 - _ROUNDING) - error
        gain = np.exp(lag - half_square + error)
        delta = q * (
            _gdp_delta_at_any_eps(mu, z - half_square)
            + gain * _gdp_delta_at_any_eps(mu, z + half_square)
        )
        return np.minimum(round_up(delta, 4e-15), 1.0)


@dataclass(frozen=True, repr=False)
class FixedSizeGaussianStep(_Step):
    """One noisy sum of a batch of fixed size without replacement, q = batch size/n.

    An upper bound for every pair of neighboring data sets, in any dimension. Only for
    replace-one: the rate tells the number of records.
    """

    def __post_init__(self) -> None:
        """Refuse add-remove: the rate tells the number of records."""
        super().__post_init__()
        if self.adjacency != "replace-one":
            raise ParameterError(
                "batches of a fixed size are for replace-one: "
                "their rate tells the number of records"
            )

    def _noisy_delta(self, eps: Array) -> Any:
        """Return the amplified δ of means two clipping norms apart."""
        return self._amplified_delta(self.mu_of_shift(2), eps)


def subsampled_gaussian(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    *,
    sampling: str = "poisson",
    adjacency: str = "replace-one",
) -> Guarantee:
    """Return the guarantee of many noisy sums of random batches.

    `delta` is an upper bound at every ε, for steps that adapt to earlier ones while
    noise, rate and number are fixed beforehand. At rate 1 the answer is GDP in closed
    form, with the sensitivity 2C of replacing a record or C of adding one.

    Parameters
    ----------
    noise_multiplier : float
        σ/C: the noise in units of the norm to which records are clipped.
    sampling_rate : float
        The chance that a record is in a batch.
    steps : int
        The number of noisy sums.
    sampling : str
        'poisson' (every record with that chance) or 'fixed-size' (without replacement).
    adjacency : str
        'replace-one' or 'add-remove'.

    Examples
    --------
    >>> subsampled_gaussian(1.0, 1.0, 4)
    GDP(4.0)
    >>> subsampled_gaussian(1.0, 0.01, 1000).epsilon(1e-6) < 5.0
    True
    """
    steps = _validate.integer("steps", steps, 1)
    step_classes = {"poisson": PoissonGaussianStep, "fixed-size": FixedSizeGaussianStep}
    step_class = step_classes[
        _validate.choice("sampling", sampling, tuple(step_classes))
    ]
    step = step_class(noise_multiplier, sampling_rate, adjacency=adjacency)
    if step.sampling_rate < 1:
        return Composition((step,), (steps,), adjacency=adjacency)

    clips = 2 if adjacency == "replace-one" else 1
    squared_mu = steps * (clips / Fraction(step.noise_multiplier)) ** 2
    return GDP(round_root(squared_mu, up=True), adjacency=adjacency)


def subsampled_noise_multiplier(
    target: ApproxDP, sampling_rate: float, steps: int, *, sampling: str = "poisson"
) -> float:
    """Return the smallest σ/C at which `subsampled_gaussian` meets (ε, δ).

    It is found to 1e-4, on the private side: the answer was seen to meet the target.

    Parameters
    ----------
    target : ApproxDP
        What is to be met.
    sampling_rate, steps, sampling
        As of `subsampled_gaussian`.

    Raises
    ------
    ParameterError
        For another target, or one that chance alone would meet.

    Examples
    --------
    >>> sigma = subsampled_noise_multiplier(ApproxDP(2.0, 1e-5), 0.01, 100)
    >>> subsampled_gaussian(sigma, 0.01, 100).delta(2.0) <= 1e-5
    True
    """
    if not isinstance(target, ApproxDP):
        raise ParameterError(
            f"{target!r}: a subsampled Gaussian is calibrated to an ApproxDP target"
        )

    def guarantee_at(noise_multiplier: float) -> Guarantee:
        """Return the guarantee of all steps at a noise multiplier."""
        return subsampled_gaussian(
            noise_multiplier,
            sampling_rate,
            steps,
            sampling=sampling,
            adjacency=target.adjacency,
        )

    return smallest_noise_multiplier(guarantee_at, target)


def smallest_scale_meeting(
    guarantee_at: Callable[[float], Guarantee],
    target: ApproxDP,
    start: float = 1.0,
    relative: float = 1e-4,
) -> float:
    """Return the smallest scale at which a guarantee was seen to meet (ε, δ).

    Parameters
    ----------
    guarantee_at : callable
        From a noise scale to a guarantee, whose δ(ε) falls as the scale grows.
    target : ApproxDP
        What is to be met.
    start : float
        Where the search begins.
    relative : float
        How far the answer may be above the smallest scale, relative to it.
    """

    def log_excess(scale: float) -> float:
        delta = guarantee_at(scale).cheap_delta_bound(target.eps)
        return math.log(delta) - math.log(target.delta0)

    low, high = expand_bracket(log_excess, start)
    return root_rounded_up(log_excess, low, high, relative=relative)


def smallest_noise_multiplier(
    guarantee_at: Callable[[float], Guarantee], target: ApproxDP
) -> float:
    """Return `smallest_scale_meeting` for a noise multiplier.

    Raises
    ------
    ParameterError
        Where next to no noise meets (ε, δ): a record that is drawn would be published
        in full, which no δ is meant to allow.
    """
    without_noise = guarantee_at(_SMALLEST_MULTIPLIER / 2)
    if without_noise.cheap_delta_bound(target.eps) <= target.delta0:
        raise ParameterError(
            "is more than the chance that a record is drawn at all: without any noise "
            "a step that draws it would give it away; ask for a smaller delta0",
            parameter="delta0",
            value=target.delta0,
        )
    return smallest_scale_meeting(guarantee_at, target)


def _gdp_delta_at_any_eps(mu: float, eps: Array) -> Any:
    """Return δ_μ(ε) for any real ε: δ_μ(−ε) = 1 − e^{−ε} + e^{−ε}·δ_μ(ε)."""
    negative_part = np.minimum(eps, 0.0)
    delta_at_size = gdp_delta(mu, np.abs(eps))
    for_negative = -np.expm1(negative_part) + np.exp(negative_part) * delta_at_size
    return np.where(eps < 0, for_negative, delta_at_size)
