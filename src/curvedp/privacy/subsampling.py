"""The privacy of noisy sums over random batches of records, one step or many. A step
draws a batch: each record is in it with probability q, the sampling rate. It sums their
vectors, each clipped to the norm C, and adds Gaussian noise of standard deviation σ·C,
where σ is the noise multiplier.

`subsampled_gaussian` returns the guarantee of a given noise, and
`subsampled_noise_multiplier` the noise for a given guarantee. Write δ_μ(ε) for the
profile of N(0, 1) against N(μ, 1).

Poisson batches. When a record is replaced, the worst pair of output distributions is
(1−q)·N(0) + q·N(C) against (1−q)·N(0) + q·N(−C). When one is removed, it is the first
of these against N(0); when one is added, the reverse (docs/theory/accounting.md,
Theorem C4).

Batches of fixed size, without replacement. Another record takes the place of the
missing one: δ(ε) = q·δ_{2/σ}(log(1 + (e^ε−1)/q)) (Balle, Barthe and Gaboardi 2018).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    THIRTY_SIX_ROUNDINGS,
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

# A larger noise multiplier is refused: its square would overflow.
_LARGEST_MULTIPLIER = 1e100
# With a smaller one, only the random choice of the batch protects a record. Then δ(ε)
# of a step is the sampling rate q up to ε = 10¹¹, and q is returned for every ε.
_SMALLEST_MULTIPLIER = 1e-6
# The relative rounding error of intermediate ε's, which are lowered by it.
_ROUNDING = 1e-15
# From this x on, asinh(e^x) equals x + log 2 in floats: e^(−2x) is below 2^−53.
_LARGE_X = 20.0
# From this ε on, e^ε − 1 is replaced by its lower bound e^ε·(1 − e^−30).
_LARGE_EPS = 30.0
# An infinite ε is replaced by this number where 0·inf would be undefined.
_LARGEST_EPS = 1e300


@dataclass(frozen=True, repr=False)
class _Step(Guarantee):
    """One noisy sum over a random batch of records.

    Parameters
    ----------
    noise_multiplier : float
        σ, the standard deviation of the noise in units of the clipping norm C.
    sampling_rate : float
        q, the probability that a record is in the batch.
    """

    noise_multiplier: float
    sampling_rate: float

    def __post_init__(self) -> None:
        """Validate the noise multiplier and the sampling rate."""
        super().__post_init__()

        # Check the noise multiplier and the sampling rate.
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
        """Return δ(ε) of one noisy sum over a random batch.

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        # The two output distributions agree unless the record is drawn, so that δ <= q.
        if self.noise_multiplier < _SMALLEST_MULTIPLIER:
            return np.full_like(eps, self.sampling_rate)
        return self._noisy_delta(eps)

    def _noisy_delta(self, eps: Array) -> Any:
        """Return δ(ε) of one noisy sum, if the noise multiplier is at least 1e-6.

        Subclasses define it for their way of drawing batches.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        raise NotImplementedError

    def mu_of_shift(self, clips: int) -> float:
        """Return how many standard deviations of the noise a record shifts a sum.

        It is clips/σ, rounded up, because δ increases with it. σ is the noise
        multiplier: the standard deviation of the noise in clipping norms.

        Parameters
        ----------
        clips : int
            The shift in clipping norms: 1 if a record is added or removed, 2 if it is
            replaced.

        Returns
        -------
        float
            The shift in standard deviations.
        """
        return round_fraction(clips / Fraction(self.noise_multiplier), up=True)

    def _amplified_delta(self, mu: float, eps: Array) -> Any:
        """Return δ(ε) of a noisy sum in which a record takes part with probability q.

        It is q·δ_μ(ε′) with ε′ = log(1 + (e^ε−1)/q), rounded up (Balle, Barthe and
        Gaboardi 2018). q is the sampling rate, and δ_μ the profile of N(0, 1)
        against N(μ, 1). From ε = 30 on, where e^ε might overflow, the argument of the
        logarithm is replaced by the smaller e^ε·(1 − e^−30)/q. ε′ is rounded down,
        because δ_μ decreases with it.

        δ must be rounded up, hence ε′ down. tests/privacy/test_subsampled.py compares
        with high-precision arithmetic.

        Parameters
        ----------
        mu : float
            By how many standard deviations of the noise the record shifts the sum.
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            δ in [0, 1], of the shape of `eps`.
        """
        q = self.sampling_rate
        if q == 1:
            return gdp_delta(mu, eps)

        # ε′, before rounding.
        with np.errstate(over="ignore"):
            small_eps = np.minimum(eps, _LARGE_EPS)
            inner_eps_if_small = np.log1p(np.expm1(small_eps) / q)
            inner_eps_if_large = eps - math.log(q)
            inner_eps_if_large = inner_eps_if_large + math.log1p(-math.exp(-_LARGE_EPS))
            is_small = eps < _LARGE_EPS
            inner_eps = np.where(is_small, inner_eps_if_small, inner_eps_if_large)

        # ε′ lowered by its rounding error; at ε = 0 it is exact.
        size = np.minimum(np.abs(inner_eps), _LARGEST_EPS) + 1
        rounding = _ROUNDING * size * (eps > 0)
        inner_eps = np.where(eps == np.inf, np.inf, inner_eps - rounding)
        delta = q * gdp_delta(mu, np.maximum(inner_eps, 0.0))
        return np.minimum(round_up(delta, NINE_ROUNDINGS), 1.0)


@dataclass(frozen=True, repr=False)
class PoissonGaussianStep(_Step):
    """One noisy sum over a Poisson batch: each record is in it with probability q.

    δ(ε) is attained by the worst two neighboring data sets, in any dimension, whether a
    record is replaced, or added and removed. The parameters are `noise_multiplier` σ
    and `sampling_rate` q.
    """

    @property
    def delta_add(self) -> Callable[[Array], Array] | None:
        """A function that returns δ(ε) for adding a record.

        None if it is the same function as `delta`, which is for removing a record.
        """
        is_symmetric = self.adjacency == "replace-one"
        if is_symmetric or self.noise_multiplier < _SMALLEST_MULTIPLIER:
            return None
        return self._delta_when_adding

    def _delta_when_adding(self, eps: Array) -> Array:
        """Return δ(ε) for adding a record, rounded up.

        Write q for the sampling rate, σ for the noise multiplier, and δ_μ for the
        profile of N(0, 1) against N(μ, 1), with μ = 1/σ. By Theorem C4
        (docs/theory/accounting.md),

            δ(ε) = s·δ_μ(ε′),    s = q − (e^ε − 1)(1 − q),    ε′ = ε + log(q/s),

        and δ(ε) = 0 where s <= 0. It increases with s and decreases with ε′, so that s
        is rounded up and ε′ down.

        tests/privacy/test_subsampled_added.py compares the result with quadrature.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        q = self.sampling_rate
        # Each number is moved by a few times its rounding error of 1e-16, so that the
        # result is too large rather than too small. `_ROUNDING` is 9 units of 1.1e-16.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # s, rounded up.
            raised_q = q * (1 + 8 * _ROUNDING)
            lowered_term = np.expm1(eps) * (1 - q) * (1 - 4 * _ROUNDING)
            s = raised_q - lowered_term

            # ε′ = ε + log(q/s), rounded down, and at least 0.
            log_q = np.log(q * (1 - 4 * _ROUNDING))
            inner_eps = eps + log_q - np.log(np.maximum(s, 0.0))
            inner_eps = inner_eps * (1 - _ROUNDING) - 4 * _ROUNDING * (1 - math.log(q))
            inner_eps = np.where(s > 0, np.maximum(inner_eps, 0.0), 0.0)
            delta = round_up(
                s * gdp_delta(self.mu_of_shift(1), inner_eps), THIRTY_SIX_ROUNDINGS
            )
        return np.where(s > 0, np.minimum(delta, 1.0), 0.0)

    def _noisy_delta(self, eps: Array) -> Any:
        """Return δ(ε) for the adjacency of this step: replacing or removing a record.

        Parameters
        ----------
        eps : array
            Values ε >= 0 of the privacy parameter.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        if self.adjacency != "replace-one":
            return self._amplified_delta(self.mu_of_shift(1), eps)
        return self._delta_when_replacing(eps)

    def _delta_when_replacing(self, eps: Array) -> Any:
        """Return δ(ε) for replacing a record, rounded up.

        Write q for the sampling rate, σ for the noise multiplier, μ = 1/σ, and δ_μ for
        the profile of N(0, 1) against N(μ, 1). In units of the noise, the two
        output distributions that are easiest to tell apart are the mixtures
        (1−q)·N(0, 1) + q·N(μ, 1) and (1−q)·N(0, 1) + q·N(−μ, 1). The privacy loss of an
        output y exceeds ε if y > z/μ, where z = ε/2 + asinh(e^x) and
        e^x = ((1−q)/q)·e^{μ²/2}·sinh(ε/2). Hence

            δ(ε) = q·(δ_μ(z − μ²/2) + e^{ε/2 − asinh(e^x) − μ²/2}·δ_μ(z + μ²/2)).

        It decreases with z, which is rounded down, and increases with the power of e,
        which is rounded up.

        tests/privacy/test_subsampled.py compares the result with high-precision
        arithmetic.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        # Compute asinh(e^x), and ε/2 minus that number.
        q = self.sampling_rate
        mu = self.mu_of_shift(1)
        half_square = mu * mu / 2
        log_odds = np.log1p(-q) - math.log(q) if q < 1 else -np.inf
        asinh, remainder, x_is_large = _asinh_and_remainder(eps, log_odds, half_square)

        # The largest terms of a sum determine its rounding error. For a large x the
        # difference ε/2 − asinh(e^x) is computed without ε.
        finite_log_odds = log_odds if q < 1 else 0.0
        size = np.where(x_is_large, 0.0, eps) + abs(finite_log_odds) + half_square + 1
        error = _ROUNDING * size

        # z rounded down and the factor rounded up; then δ.
        z = (eps / 2 + asinh) * (1 - _ROUNDING) - error
        factor = np.exp(remainder - half_square + error)
        delta = q * (
            _gdp_delta_at_any_eps(mu, z - half_square)
            + factor * _gdp_delta_at_any_eps(mu, z + half_square)
        )
        return np.minimum(round_up(delta, THIRTY_SIX_ROUNDINGS), 1.0)


@dataclass(frozen=True, repr=False)
class FixedSizeGaussianStep(_Step):
    """One noisy sum over a batch of fixed size, drawn without replacement.

    The sampling rate is q = batch size/n. The profile is an upper bound for every pair
    of neighboring data sets, in any dimension. Only replace-one is supported, because
    the rate reveals the number n of records.
    """

    def __post_init__(self) -> None:
        """Validate the fields; refuse add-remove, because the rate reveals n."""
        super().__post_init__()
        if self.adjacency != "replace-one":
            raise ParameterError(
                "batches of a fixed size are for replace-one: "
                "their sampling rate tells the number of records"
            )

    def _noisy_delta(self, eps: Array) -> Any:
        """Return δ(ε) of one noisy sum over a batch of fixed size.

        A replaced record shifts the sum by up to 2C, where C is the clipping norm.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        return self._amplified_delta(self.mu_of_shift(2), eps)


def subsampled_gaussian(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    *,
    sampling: str = "poisson",
    adjacency: str = "replace-one",
) -> Guarantee:
    """Return the guarantee of many noisy sums over random batches.

    A step may use the outputs of earlier steps, but noise, sampling rate and number of
    steps must be fixed beforehand. At rate 1 every batch contains all records, and the
    result is Gaussian DP (GDP) in closed form: replacing a record changes a sum by up
    to 2C, adding one by up to C, where C is the clipping norm.

    Parameters
    ----------
    noise_multiplier : float
        σ/C: the standard deviation of the noise in units of the clipping norm.
    sampling_rate : float
        The probability that a record is in a batch.
    steps : int
        The number of noisy sums.
    sampling : str
        'poisson' (every record independently) or 'fixed-size' (without replacement).
    adjacency : str
        'replace-one' or 'add-remove'.

    Returns
    -------
    Guarantee
        `GDP` at rate 1, else a `Composition` of the steps.

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

    # With random batches, the result is a composition of equal steps.
    if step.sampling_rate < 1:
        return Composition((step,), (steps,), adjacency=adjacency)

    # With all records in every batch, it is Gaussian DP, whose μ² add up.
    clips = 2 if adjacency == "replace-one" else 1
    squared_mu = steps * (clips / Fraction(step.noise_multiplier)) ** 2
    return GDP(round_root(squared_mu, up=True), adjacency=adjacency)


def subsampled_noise_multiplier(
    target: ApproxDP, sampling_rate: float, steps: int, *, sampling: str = "poisson"
) -> float:
    """Return the smallest noise multiplier at which noisy sums meet (ε, δ).

    It inverts `subsampled_gaussian`. The result was verified to meet the target, and
    exceeds the smallest possible one by at most 1e-4 of it.

    Parameters
    ----------
    target : ApproxDP
        The guarantee that must be met.
    sampling_rate : float
        The probability that a record is in a batch.
    steps : int
        The number of noisy sums.
    sampling : str
        'poisson' (every record independently) or 'fixed-size' (without replacement).

    Returns
    -------
    float
        σ/C: the standard deviation of the noise in units of the clipping norm.

    Raises
    ------
    ParameterError
        If the target is not an ApproxDP, or if it would be met without any noise.

    Examples
    --------
    >>> sigma = subsampled_noise_multiplier(ApproxDP(2.0, 1e-5), 0.01, 100)
    >>> subsampled_gaussian(sigma, 0.01, 100).delta(2.0) <= 1e-5
    True
    """
    if not isinstance(target, ApproxDP):
        raise ParameterError(
            f"{target!r}: the noise on random batches is computed for ApproxDP only"
        )

    def guarantee_at(noise_multiplier: float) -> Guarantee:
        """Return the guarantee of all steps at a noise multiplier.

        Parameters
        ----------
        noise_multiplier : float
            The standard deviation of the noise in units of the clipping norm.

        Returns
        -------
        Guarantee
            The guarantee of all steps.
        """
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
    """Return the smallest noise scale at which a guarantee meets (ε, δ), rounded up.

    Parameters
    ----------
    guarantee_at : callable
        A function that returns the guarantee for a noise scale. Its δ(ε) must decrease
        as the scale grows.
    target : ApproxDP
        The guarantee (ε, δ) that must be met.
    start : float
        The scale at which the search starts.
    relative : float
        How far the result may exceed the smallest scale, relative to it.

    Returns
    -------
    float
        A scale that was verified to meet the target.
    """

    def log_excess(scale: float) -> float:
        """Return log(δ at this scale/target δ), which is <= 0 for enough noise."""
        delta = guarantee_at(scale).cheap_delta_bound(target.eps)
        return math.log(delta) - math.log(target.delta0)

    low, high = expand_bracket(log_excess, start)
    return root_rounded_up(log_excess, low, high, relative=relative)


def smallest_noise_multiplier(
    guarantee_at: Callable[[float], Guarantee], target: ApproxDP
) -> float:
    """Return the smallest noise multiplier at which a guarantee meets (ε, δ).

    The noise multiplier is the standard deviation of the noise in clipping norms. A
    target that needs no noise at all is refused first.

    Parameters
    ----------
    guarantee_at : callable
        A function that returns the guarantee for a noise multiplier. Its δ(ε) must
        decrease as the multiplier grows.
    target : ApproxDP
        The guarantee (ε, δ) that must be met.

    Returns
    -------
    float
        A noise multiplier, rounded up, that was verified to meet the target.

    Raises
    ------
    ParameterError
        If δ of the target exceeds the probability that a record is in any batch. Then
        (ε, δ) would allow publishing the records of a batch in full.
    """
    without_noise = guarantee_at(_SMALLEST_MULTIPLIER / 2)
    if without_noise.cheap_delta_bound(target.eps) <= target.delta0:
        raise ParameterError(
            "is more than the chance that a record is drawn at all: without any noise "
            "a step that draws it would reveal it; use a smaller delta0",
            parameter="delta0",
            value=target.delta0,
        )
    return smallest_scale_meeting(guarantee_at, target)


def _asinh_and_remainder(
    eps: Array, log_odds: float, half_square: float
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return asinh(e^x) and the remainder ε/2 − asinh(e^x) without loss of digits.

    Both appear in δ(ε) for replacing a record in a random batch, with
    e^x = ((1−q)/q)·e^{μ²/2}·sinh(ε/2), the sampling rate q and the shift μ. So

        x = log((1−q)/q) + μ²/2 + ε/2 + log(1 − e^{−ε}) − log 2.

    asinh(e^x) is about ε/2 for a large ε, so that the remainder ε/2 − asinh(e^x) would
    lose its digits. From x = 20 on, asinh(e^x) equals x + log 2 in floats. There the
    terms ε/2 of the remainder cancel, and are left out.

    Parameters
    ----------
    eps : array
        Numbers ε >= 0.
    log_odds : float
        log((1−q)/q); −∞ for q = 1.
    half_square : float
        μ²/2.

    Returns
    -------
    asinh : array
        asinh(e^x).
    remainder : array
        ε/2 − asinh(e^x).
    x_is_large : array of bool
        Whether x > 20.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # x, by the formula of the docstring.
        log_one_minus_exp = np.where(eps > 0, np.log(-np.expm1(-eps)), -np.inf)
        x = log_odds + half_square + eps / 2 + log_one_minus_exp - math.log(2)
        x_is_large = x > _LARGE_X

        # asinh(e^x), and the remainder, in both cases.
        asinh_if_small = np.arcsinh(np.exp(np.minimum(x, _LARGE_X)))
        asinh = np.where(x_is_large, x + math.log(2), asinh_if_small)
        remainder_if_large = -log_odds - half_square - log_one_minus_exp
        remainder = np.where(x_is_large, remainder_if_large, eps / 2 - asinh)
    return asinh, remainder, x_is_large


def _gdp_delta_at_any_eps(mu: float, eps: Array) -> Any:
    """Return the Gaussian profile δ_μ(ε) at any real ε, also a negative one.

    The profile of a random batch is a combination of such values. δ_μ is the profile of
    N(0, 1) against N(μ, 1). `gdp_delta` computes it for ε >= 0. Since the roles of the
    two laws can be exchanged, δ_μ(−ε) = 1 − e^{−ε} + e^{−ε}·δ_μ(ε).

    Parameters
    ----------
    mu : float
        The distance μ of the means of two Gaussians, in units of the noise.
    eps : array
        Real numbers ε.

    Returns
    -------
    array
        δ_μ(ε) in [0, 1], of the shape of `eps`.
    """
    negative_part = np.minimum(eps, 0.0)
    delta = gdp_delta(mu, np.abs(eps))
    delta_if_negative = -np.expm1(negative_part) + np.exp(negative_part) * delta
    return np.where(eps < 0, delta_if_negative, delta)
