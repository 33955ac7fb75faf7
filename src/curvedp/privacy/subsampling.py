"""The Gaussian mechanism on random batches: exact steps, exact composition.

Each step releases Σ_{i in batch} xᵢ + N(0, σ²C²) with ‖xᵢ‖ ≤ C. Replacing a record of a Poisson batch, the worst pair is
(1−q)·N(0) + q·N(C) against (1−q)·N(0) + q·N(−C); adding or removing one, the first against N(0), of which the dearer way
round counts: docs/accounting.md has proofs and closed forms. A batch of fixed size without replacement meets another record
in place of the missing one: δ(ε) = q·δ_{2μ}(log(1 + (e^ε−1)/q)) (Balle, Barthe and Gaboardi 2018), μ = 1/σ.
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

_LARGEST_MULTIPLIER = (
    1e100  # more noise needs none of this accounting, and its squares overflow
)
# With less noise than this only chance protects: a step's δ(ε) is q up to ε = 10¹¹, and is taken as q for every ε.
_LEAST_MULTIPLIER = 1e-6
_ROUNDING = 1e-15  # relative error of the ε's below; they are moved down by it


@dataclass(frozen=True, repr=False)
class _Step(Guarantee):
    noise_multiplier: float
    sampling_rate: float

    def __post_init__(self) -> None:
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
        # The two outputs agree unless the record is drawn, which bounds δ(ε) by q whatever the noise.
        if self.noise_multiplier < _LEAST_MULTIPLIER:
            return np.full_like(eps, self.sampling_rate)
        return self._noisy_delta(eps)

    def contrast(self, clips: int) -> float:
        """The μ of means that many clipping norms apart, rounded up: every δ below grows with it."""
        return round_fraction(clips / Fraction(self.noise_multiplier), up=True)

    def _amplified(self, mu: float, eps: Array) -> Any:
        """q·δ_μ(log(1 + (e^ε−1)/q))."""
        q = self.sampling_rate
        if q == 1:
            return gdp_delta(mu, eps)
        with np.errstate(over="ignore"):
            inner = np.where(
                eps < 30,
                np.log1p(np.expm1(np.minimum(eps, 30.0)) / q),
                eps - math.log(q),
            )
        inner = np.where(
            eps >= 30, inner + math.log1p(-math.exp(-30)), inner
        )  # (e^ε − 1 + q)/q ≥ e^ε(1 − e^−30)/q
        inner = np.where(
            eps == np.inf,
            np.inf,
            inner - _ROUNDING * (np.minimum(np.abs(inner), 1e300) + 1) * (eps > 0),
        )
        return np.minimum(
            round_up(q * gdp_delta(mu, np.maximum(inner, 0.0)), 1e-15), 1.0
        )

    def _noisy_delta(self, eps: Array) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class PoissonGaussianStep(_Step):
    """One noisy sum of a Poisson batch: noise_multiplier = σ/C, every record in it with chance sampling_rate; exact for the
    worst pair of adjacent datasets, in any dimension, for either adjacency."""

    @property
    def backward(self) -> Callable[[Array], Array] | None:
        """δ for adding a record, where `delta` is for removing one."""
        return (
            None
            if self.adjacency == "replace-one"
            or self.noise_multiplier < _LEAST_MULTIPLIER
            else self._added
        )

    def _added(self, eps: Array) -> Array:
        """H(q − d, γ − 1 + q − d): it grows with the first and falls with the second, and both are rounded so."""
        q = self.sampling_rate
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            s = q * (1 + 8 * _ROUNDING) - np.expm1(eps) * (1 - q) * (1 - 4 * _ROUNDING)
            inner = eps + np.log(q * (1 - 4 * _ROUNDING)) - np.log(np.maximum(s, 0.0))
            inner = np.maximum(
                inner * (1 - _ROUNDING) - 4 * _ROUNDING * (1 - math.log(q)), 0.0
            )
            found = round_up(
                s * gdp_delta(self.contrast(1), np.where(s > 0, inner, 0.0)), 4e-15
            )
        return np.where(s > 0, np.minimum(found, 1.0), 0.0)

    def _noisy_delta(self, eps: Array) -> Any:
        q, mu = self.sampling_rate, self.contrast(1)
        if self.adjacency != "replace-one":
            return self._amplified(mu, eps)
        half = mu * mu / 2
        odds = np.log1p(-q) - math.log(q) if q < 1 else -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            # asinh(e^x) with x = log(((1−q)/q)·e^{μ²/2}·sinh(ε/2)); beyond x = 20 it is x + log 2 to all digits, and
            # then ε/2 − asinh is known without the ε that would cancel.
            rise = np.where(eps > 0, np.log(-np.expm1(-eps)), -np.inf)
            x = odds + half + eps / 2 + rise - math.log(2)
            far = x > 20
            arc = np.where(
                far, x + math.log(2), np.arcsinh(np.exp(np.minimum(x, 20.0)))
            )
            lag = np.where(far, -odds - half - rise, eps / 2 - arc)
        error = _ROUNDING * (
            np.where(far, 0.0, eps) + abs(odds if q < 1 else 0.0) + half + 1
        )
        z = (eps / 2 + arc) * (1 - _ROUNDING) - error
        gain = np.exp(lag - half + error)
        delta = q * (_gaussian(mu, z - half) + gain * _gaussian(mu, z + half))
        return np.minimum(round_up(delta, 4e-15), 1.0)


@dataclass(frozen=True, repr=False)
class FixedSizeGaussianStep(_Step):
    """One noisy sum of a batch of fixed size without replacement, sampling_rate = batch/n: an upper bound for every pair of
    adjacent datasets, in any dimension."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency != "replace-one":
            raise ParameterError(
                "batches of a fixed size are for replace-one: their rate tells the number of records"
            )

    def _noisy_delta(self, eps: Array) -> Any:
        return self._amplified(self.contrast(2), eps)


def subsampled_gaussian(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    *,
    sampling: str = "poisson",
    adjacency: str = "replace-one",
) -> Guarantee:
    """`steps` noisy sums of random batches; noise_multiplier = σ/C, records clipped to C.

    `sampling` is "poisson" (every record with chance sampling_rate) or "fixed-size" (without replacement). At rate 1
    the answer is GDP in closed form, with the sensitivity 2C of replacing a record or C of adding one. `delta` is an upper
    bound at every ε, for steps that adapt to earlier ones while noise, rate and number are fixed beforehand.

    Parameters
    ----------
    noise_multiplier, sampling_rate : float
        σ/C, and of a batch.
    steps : int
        How many.
    sampling, adjacency : str
        'poisson' or 'fixed-size'; 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> subsampled_gaussian(1.0, 1.0, 4)
    GDP(4.0)
    >>> subsampled_gaussian(1.0, 0.01, 1000).epsilon(1e-6) < 5.0
    True
    """
    steps = _validate.integer("steps", steps, 1)
    kinds = {"poisson": PoissonGaussianStep, "fixed-size": FixedSizeGaussianStep}
    kind = kinds[_validate.choice("sampling", sampling, tuple(kinds))]
    step = kind(noise_multiplier, sampling_rate, adjacency=adjacency)
    if step.sampling_rate == 1:
        clips = 2 if adjacency == "replace-one" else 1
        return GDP(
            round_root(steps * (clips / Fraction(step.noise_multiplier)) ** 2, up=True),
            adjacency=adjacency,
        )
    return Composition((step,), (steps,), adjacency=adjacency)


def subsampled_noise_multiplier(
    target: ApproxDP, sampling_rate: float, steps: int, *, sampling: str = "poisson"
) -> float:
    """The smallest σ/C, to 1e-4, at which `subsampled_gaussian` was seen to meet (ε, δ): on the private side.

    Parameters
    ----------
    target : ApproxDP
        To be met.
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
    options = {"sampling": sampling, "adjacency": target.adjacency}
    return smallest_noise_multiplier(
        lambda sigma: subsampled_gaussian(sigma, sampling_rate, steps, **options),
        target,
    )


def smallest_scale_meeting(
    made: Callable[[float], Guarantee],
    target: ApproxDP,
    start: float = 1.0,
    relative: float = 1e-4,
) -> float:
    """The smallest number from which what is made of it was seen to meet (ε, δ): on the private side."""

    def excess(x: float) -> float:
        return math.log(made(x).rough_delta(target.eps)) - math.log(target.delta0)

    return root_rounded_up(excess, *expand_bracket(excess, start), relative=relative)


def smallest_noise_multiplier(
    made: Callable[[float], Guarantee], target: ApproxDP
) -> float:
    """`met_from` for a noise multiplier. Raises `ParameterError` where next to no noise meets (ε, δ): a record that is drawn
    would be told in full, which no δ is meant to allow."""
    if made(_LEAST_MULTIPLIER / 2).rough_delta(target.eps) <= target.delta0:
        raise ParameterError(
            "is more than the chance that a record is drawn at all: without any noise "
            "a step that draws it would give it away; ask for a smaller delta0",
            parameter="delta0",
            value=target.delta0,
        )
    return smallest_scale_meeting(made, target)


def _gaussian(mu: float, eps: Array) -> Any:
    """δ_μ at any real ε: for negative ε it is 1 − e^ε + e^ε·δ_μ(−ε)."""
    below = np.exp(np.minimum(eps, 0.0))
    delta = gdp_delta(mu, np.abs(eps))
    return np.where(eps < 0, -np.expm1(np.minimum(eps, 0.0)) + below * delta, delta)
