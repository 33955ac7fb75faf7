"""How much noise the private gradient methods need, and what a given noise guarantees.
Three methods add Gaussian noise to clipped gradients: RGD uses all records in each
step, RSGD a random batch, and RSVRG a full gradient in each epoch and differences of
gradients of random batches in between.

Theorem O1 (docs/theory/optimization.md, "Privacy cost"). Let every gradient be clipped
to the norm C. Replacing a record changes a sum of gradients by at most 2C. However the
iterates depend on earlier outputs,

- T noisy sums over all n records, with the noise σ on their mean, are μ-GDP with
  μ = √T·2C/(nσ);
- T noisy sums over random batches are the T-fold composition of one subsampled Gaussian
  (docs/theory/accounting.md, Theorem C4; `subsampling`).

Adding or removing a record changes a sum by at most C, and the number n of records is
private. Then a noisy count is released once, with 1/20 of μ², and steps follow the
quotient of a noisy sum and the noisy count.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    NINETY_ROUNDINGS,
    round_down,
    round_up,
)
from curvedp.privacy.calibration import smallest_scale
from curvedp.privacy.composition import compose
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ApproxDP, PureDP
from curvedp.privacy.guarantees.gaussian import gdp_mu
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import gaussian_profile
from curvedp.privacy.subsampling import (
    smallest_noise_multiplier,
    smallest_scale_meeting,
    subsampled_gaussian,
    subsampled_noise_multiplier,
)

# For RSVRG: (a number for full gradients, a number for differences of gradients).
Pair = tuple[float, float]

# How many gradients are summed at once in a pass over all records, on a CPU and on an
# accelerator.
BLOCK = 4096
ACCELERATOR_BLOCK = 32768
# If n is private, the entries of clipped gradients are rounded to multiples of C/2^20,
# so that their sums are exact.
WHOLE_BITS = 20

_COUNT_SHARE = 1 / 20  # the part of μ² that is spent on the noisy count
_DOUBLE_EPS = float(np.finfo(np.float64).eps)
_SMALLEST_WEIGHT = 1e-300  # keeps the weights of `error_weights` above 0
# A Poisson batch has more than 2·(expected size) + 2000 records with a probability of
# less than e^-500, by Chernoff's bound.
_BATCH_SIZE_MARGIN = 2000
_LENGTH_ROUNDINGS = 8  # in a clipped gradient's length, beside one for each entry
# How far a noise for RSVRG may exceed the smallest one, relative to it.
_SEARCH_TOLERANCE = 1e-3


# ---- full batches


def rounded_clip(
    clip: float, dim: int, dtype: Any, n: int, batch_size: int | None = None
) -> float:
    """Return the clipping norm C, enlarged so that it covers all rounding errors.

    Gradients are clipped to length C and summed in floating-point arithmetic. So one
    record changes the sum by slightly more than C, and privacy is accounted for with
    the norm that this function returns. The length of a clipped gradient has an error
    of a few roundings for each entry. A sum of N numbers with k additions in a row has
    an error of at most k·u·N·C, with the unit roundoff u (Higham 2002, §4.2). One
    record can change the rounding of all N terms, so the full error is charged.

    Parameters
    ----------
    clip : float
        The norm C to which gradients are clipped.
    dim : int
        The number of entries of a gradient.
    dtype : dtype
        The floating-point type of these entries.
    n : int
        The number of records.
    batch_size : int, optional
        The expected number of records in a random batch. None means that every step
        uses all records.

    Returns
    -------
    float
        The norm to use in place of C, slightly larger.
    """
    # Count the numbers that are summed, and the additions that follow each other.
    if batch_size is None:
        n_terms = n
        n_additions = min(n, ACCELERATOR_BLOCK) + n // BLOCK
    else:
        n_terms = min(n, 2 * batch_size + _BATCH_SIZE_MARGIN)
        n_additions = n_terms

    # Bound the two errors, relative to the norm.
    length_error = (dim + _LENGTH_ROUNDINGS) * float(np.finfo(dtype).eps)
    sum_error = n_terms * n_additions * _DOUBLE_EPS
    return clip * (1 + 2 * (length_error + sum_error))


def rgd_guarantee(n: int, steps: int, clip: float, noise: float) -> GDP:
    """Return the guarantee of gradient descent with noisy gradients of all records.

    Each step releases the mean of the n clipped gradients with added noise. For
    replacing one record the guarantee is Gaussian DP (GDP) with μ = √T·2C/(nσ), by
    Dong, Roth and Su (2022), Corollary 3.3.

    Parameters
    ----------
    n : int
        The number of records.
    steps : int
        The number T of gradient steps.
    clip : float
        The norm C to which gradients are clipped.
    noise : float
        The standard deviation σ of the noise on a mean gradient.

    Returns
    -------
    GDP
        The guarantee, with μ rounded up.
    """
    return GDP(round_up(math.sqrt(steps) * 2 * clip / (n * noise), NINE_ROUNDINGS))


def rgd_noise(n: int, steps: int, clip: float, guarantee: Guarantee) -> float:
    """Return the smallest noise with which gradient descent meets a guarantee.

    Each of its T steps adds the noise to the mean gradient of all n records. T Gaussian
    steps are as private as a single one with √T times the sensitivity 2C/n.

    Parameters
    ----------
    n : int
        The number of records.
    steps : int
        The number T of gradient steps.
    clip : float
        The norm C to which gradients are clipped.
    guarantee : Guarantee
        The guarantee that must be met.

    Returns
    -------
    float
        The standard deviation σ of the noise on a mean gradient, rounded up.

    Raises
    ------
    UnattainableGuarantee
        For pure DP, which no Gaussian noise satisfies.
    """
    if isinstance(guarantee, PureDP):
        raise UnattainableGuarantee(
            f"Gaussian noise has no pure ε; use GDP or ApproxDP instead of {guarantee}"
        )

    # For GDP the noise has a closed form.
    if isinstance(guarantee, GDP):
        noise = math.sqrt(steps) * 2 * clip / (n * guarantee.mu)
        return math.nextafter(noise * (1 + NINETY_ROUNDINGS), math.inf)

    sensitivity = math.sqrt(steps) * 2 * clip / n

    def profile_at(scale: float) -> PrivacyProfile:
        """Return the profile of one Gaussian release with this standard deviation.

        Its sensitivity √T·2C/n makes it as private as the T steps together.
        """
        return gaussian_profile(0.0, 1, scale, sensitivity)

    scale = smallest_scale(profile_at, guarantee, sensitivity)
    return float(round_up(scale, NINETY_ROUNDINGS))


# ---- random batches


def rsgd_guarantee(
    n: int, steps: int, batch_size: int, clip: float, noise: float, sampling: str
) -> Guarantee:
    """Return the guarantee of gradient descent with noisy gradients of random batches.

    Each step clips the gradients of a random batch to the norm C, and releases their
    average with added Gaussian noise. A step is more private than one over known
    records, because no one knows which records are in a batch (Theorem C4,
    docs/theory/accounting.md).

    Parameters
    ----------
    n, batch_size : int
        The number of records, and the expected number in a batch.
    steps : int
        The number T of gradient steps.
    clip : float
        The norm C to which gradients are clipped.
    noise : float
        The standard deviation of the noise on the average gradient of a batch. The
        noise on the sum is `batch_size` times as large.
    sampling : str
        How batches are drawn: 'poisson' (every record independently) or 'fixed-size'.

    Returns
    -------
    Guarantee
        A composition of T Gaussian mechanisms on random batches.
    """
    # Less noise than there is gives an upper bound on δ, in spite of rounding.
    noise_multiplier = round_down(noise * batch_size / clip, NINE_ROUNDINGS)
    sampling_rate = batch_size / n
    return subsampled_gaussian(
        noise_multiplier, sampling_rate, steps, sampling=sampling
    )


def rsgd_noise(
    n: int,
    steps: int,
    batch_size: int,
    clip: float,
    guarantee: Guarantee,
    sampling: str,
) -> float:
    """Return the smallest noise with which RSGD (random batches) meets a guarantee.

    The noise is added to the mean gradient of a random batch. Only (ε, δ)-DP gains from
    the random choice of the batch. The μ of Gaussian DP and the ρ of zCDP must also
    hold for very unlikely outputs, where the random choice does not help
    (docs/errata.md, E4): for T steps with the clipping norm C and the noise σ, μ cannot
    be smaller than √T·C/σ, however rarely a record is drawn. For these definitions the
    batches are therefore treated as known, so that replacing a record changes a sum by
    2C. The resulting μ is at most twice what a finer analysis could give.

    Parameters
    ----------
    n : int
        The number of records.
    steps : int
        The number T of gradient steps.
    batch_size : int
        The expected number of records in a batch.
    clip : float
        The norm C to which gradients are clipped.
    guarantee : Guarantee
        The guarantee that must be met.
    sampling : str
        How batches are drawn: 'poisson' (every record independently) or 'fixed-size'.

    Returns
    -------
    float
        The standard deviation of the noise on the average gradient of a batch.
    """
    # Without amplification, account as if the batch were the whole data set.
    batches_count_as_known = not isinstance(guarantee, ApproxDP)
    if batch_size == n or batches_count_as_known:
        return rgd_noise(batch_size, steps, clip, guarantee)

    # For (ε, δ), the random choice of the batch amplifies privacy.
    assert isinstance(guarantee, ApproxDP)
    multiplier = subsampled_noise_multiplier(
        guarantee, batch_size / n, steps, sampling=sampling
    )
    # Raised by more than what `rsgd_guarantee` takes off again.
    return float(round_up(multiplier * clip / batch_size, NINETY_ROUNDINGS))


# ---- variance reduction


def rsvrg_guarantee(
    n: int,
    epochs: int,
    inner_steps: int,
    batch_size: int,
    clip: Pair,
    noise: Pair,
    sampling: str,
    known: bool = False,
) -> Guarantee:
    """Return the guarantee of variance-reduced stochastic gradient descent (RSVRG).

    Each epoch releases a noisy mean gradient of all records, which is charged once,
    although all inner steps use it. Each inner step releases a noisy mean difference
    of gradients of a random batch.

    Parameters
    ----------
    n, batch_size : int
        The number of records, and the expected number in a batch.
    epochs, inner_steps : int
        The number of epochs, and of inner steps in each of them.
    clip : pair of float
        The norms to which full gradients and differences are clipped.
    noise : pair of float
        The standard deviations of the noise on the mean of full gradients, and on the
        mean of differences.
    sampling : str
        How batches are drawn: 'poisson' (every record independently) or 'fixed-size'.
    known : bool
        Whether the batches are treated as known. Then nothing is gained from their
        random choice.

    Returns
    -------
    Guarantee
        The composition of full gradients and differences.
    """
    full_clip, difference_clip = clip
    full_noise, difference_noise = noise
    full_gradients = rgd_guarantee(n, epochs, full_clip, full_noise)

    steps = epochs * inner_steps
    if known:
        differences: Guarantee = rgd_guarantee(
            batch_size, steps, difference_clip, difference_noise
        )
    else:
        differences = rsgd_guarantee(
            n, steps, batch_size, difference_clip, difference_noise, sampling
        )
    return compose(full_gradients, differences)


def rsvrg_noise(
    n: int,
    epochs: int,
    inner_steps: int,
    batch_size: int,
    clip: Pair,
    guarantee: Guarantee,
    sampling: str,
    rate: float,
) -> Pair:
    """Return the two noises with which RSVRG meets a guarantee.

    RSVRG is variance-reduced gradient descent. One noise is added to full gradients,
    the other to differences of gradients. Their ratio minimizes the error that they
    leave at the end, for a quadratic objective of curvature 1
    (docs/theory/optimization.md). Their common factor is the smallest one, rounded up,
    that meets the guarantee. Only (ε, δ)-DP gains from the random choice of batches.
    For other definitions the batches are treated as known; then the factor has a closed
    form.

    Parameters
    ----------
    n : int
        The number of records.
    epochs : int
        The number of epochs.
    inner_steps : int
        The number of inner steps in each epoch.
    batch_size : int
        The expected number of records in a batch.
    clip : pair of float
        The norms to which full gradients and differences are clipped.
    guarantee : Guarantee
        The guarantee that must be met.
    sampling : str
        How batches are drawn: 'poisson' (every record independently) or 'fixed-size'.
    rate : float
        The step size.

    Returns
    -------
    noise : pair of float
        The standard deviations of the noise on the mean of full gradients, and on the
        mean of differences.
    """
    # How much one record adds to a mean, at most. A record is rarely in a random batch.
    full_clip, difference_clip = clip
    gains_from_sampling = isinstance(guarantee, ApproxDP)
    effective_batch_size = n if gains_from_sampling else batch_size
    full_shift = full_clip / n
    difference_shift = difference_clip / effective_batch_size

    # The two noises up to a common factor.
    full_weight, difference_weight = _positive_error_weights(inner_steps, rate)
    full_noise = math.sqrt(full_shift / math.sqrt(full_weight))
    difference_noise = math.sqrt(
        difference_shift * math.sqrt(inner_steps / difference_weight)
    )

    # Half of the μ of Gaussian DP of the run with these noises: a record shifts a mean
    # by up to twice the shifts above if it is replaced. (For random batches it is an
    # approximation, by the central limit theorem.)
    full_term = (full_shift / full_noise) ** 2
    difference_term = inner_steps * (difference_shift / difference_noise) ** 2
    half_mu = math.sqrt(epochs) * math.sqrt(full_term + difference_term)

    if not isinstance(guarantee, ApproxDP):
        # One step over one record, clipped to half_mu, has the sensitivity 2·half_mu.
        # Its noise is the factor.
        factor = round_up(rgd_noise(1, 1, half_mu, guarantee), NINETY_ROUNDINGS)
        return factor * full_noise, factor * difference_noise

    def guarantee_at(factor: float) -> Guarantee:
        """Return the guarantee of the run with both noises multiplied by a factor."""
        noise = (factor * full_noise, factor * difference_noise)
        return rsvrg_guarantee(
            n, epochs, inner_steps, batch_size, clip, noise, sampling
        )

    first_guess = 2 * half_mu / gdp_mu(guarantee.eps, guarantee.delta0)
    factor = smallest_scale_meeting(
        guarantee_at, guarantee, first_guess, _SEARCH_TOLERANCE
    )
    return factor * full_noise, factor * difference_noise


def error_weights(inner_steps: int, rate: float) -> Pair:
    """Return how much the two noises of RSVRG contribute to the error after an epoch.

    RSVRG adds noise of standard deviation σ₁ to a full gradient in each epoch, and σ₂
    to a difference of gradients in each inner step. After an epoch the error has the
    variance a·σ₁² + b·σ₂². For a quadratic objective of curvature 1, step size r and m
    inner steps,

        a = (1 − (1−r)^m)²      and      b = r·(1 − (1−r)^{2m})/(2 − r).

    Parameters
    ----------
    inner_steps : int
        The number m of inner steps.
    rate : float
        The step size r. A step size above 1 is useless, because the error would change
        its sign at every step. It counts as 1.

    Returns
    -------
    a, b : float
        The weights of σ₁² and of σ₂².
    """
    rate = min(rate, 1.0)
    if rate < 1:
        one_minus_power = -math.expm1(inner_steps * math.log1p(-rate))
        one_minus_squared_power = -math.expm1(2 * inner_steps * math.log1p(-rate))
    else:
        one_minus_power = 1.0
        one_minus_squared_power = 1.0
    return one_minus_power**2, rate * one_minus_squared_power / (2 - rate)


def _positive_error_weights(inner_steps: int, rate: float) -> Pair:
    """Return the weights of the two noises of RSVRG, each at least 1e-300.

    `error_weights` computes them. Callers divide by them, so they must not be 0.

    Parameters
    ----------
    inner_steps : int
        The number of inner steps.
    rate : float
        The step size.

    Returns
    -------
    full_weight, difference_weight : float
        The weights of the noise on full gradients and on differences.
    """
    full_weight, difference_weight = error_weights(inner_steps, rate)
    return max(full_weight, _SMALLEST_WEIGHT), max(difference_weight, _SMALLEST_WEIGHT)


# ---- adding or removing a record: n is private


def add_remove_clip(clip: float, dim: int, dtype: Any) -> float:
    """Return the clipping norm C, enlarged by rounding errors, if n is private.

    Privacy is accounted for with this norm instead of C. It covers the rounding errors
    of a gradient's length and of its entries, which are rounded to multiples of C/2^20
    so that their sums are exact. It must not depend on the private number n of records.

    Parameters
    ----------
    clip : float
        The norm C to which gradients are clipped.
    dim : int
        The number of entries of a gradient.
    dtype : dtype
        The floating-point type of these entries.

    Returns
    -------
    float
        The norm to use for accounting in place of C, slightly larger.
    """
    length_error = 2 * (dim + _LENGTH_ROUNDINGS) * float(np.finfo(dtype).eps)
    # An entry is rounded by at most C/2^21.
    entries_error = math.sqrt(dim) * 2.0 ** -(WHOLE_BITS + 1)
    return clip * (1 + length_error + entries_error)


def add_remove_guarantee(
    steps: int, rate: float, clip: float, noise: float, count_noise: float
) -> Guarantee:
    """Return the guarantee of T noisy sums of gradients and one noisy count.

    Neighboring data sets differ by one additional record (add-remove adjacency), so
    that the number of records is private and only a noisy count of it is used.

    Parameters
    ----------
    steps : int
        The number T of noisy sums.
    rate : float
        The probability that a record is in the batch of a sum.
    clip : float
        The norm to which gradients are clipped.
    noise, count_noise : float
        The standard deviations of the noise on a sum and on the count.

    Returns
    -------
    Guarantee
        The composition, for the adjacency 'add-remove'.
    """
    noise_multiplier = round_down(noise / clip, NINE_ROUNDINGS)
    guarantee_of_sums = subsampled_gaussian(
        noise_multiplier, rate, steps, adjacency="add-remove"
    )
    mu_of_count = round_up(1 / count_noise, NINE_ROUNDINGS)
    guarantee_of_count = GDP(mu_of_count, adjacency="add-remove")
    return compose(guarantee_of_sums, guarantee_of_count)


def add_remove_noise(
    steps: int, rate: float, clip: float, guarantee: Guarantee
) -> Pair:
    """Return the noise on sums of gradients, and on the count, that meets a guarantee.

    There are T noisy sums of gradients and one noisy count of the records, whose number
    is private. The count spends 1/20 of μ². Only (ε, δ)-DP gains from the random choice
    of batches; for other definitions the batches are treated as known.

    Parameters
    ----------
    steps : int
        The number T of noisy sums.
    rate : float
        The probability that a record is in the batch of a sum.
    clip : float
        The norm to which gradients are clipped.
    guarantee : Guarantee
        The guarantee that must be met, for the adjacency 'add-remove'.

    Returns
    -------
    sum_noise, count_noise : float
        The standard deviations of the noise on a sum and on the count.
    """
    # Known batches: a closed form.
    if rate == 1 or not isinstance(guarantee, ApproxDP):
        unit_noise, count_noise = _known_batch_noises(guarantee)
        sum_noise = unit_noise * clip * math.sqrt(steps / (1 - _COUNT_SHARE))
        return round_up(sum_noise, NINETY_ROUNDINGS), count_noise

    # Random batches: a search.
    count_noise = _count_noise(guarantee)

    def guarantee_at(noise_multiplier: float) -> Guarantee:
        """Return the guarantee for gradients clipped to norm 1 with this noise."""
        return add_remove_guarantee(steps, rate, 1.0, noise_multiplier, count_noise)

    multiplier = smallest_noise_multiplier(guarantee_at, guarantee)
    return multiplier * clip * (1 + NINETY_ROUNDINGS), count_noise


def _known_batch_noises(guarantee: Guarantee) -> Pair:
    """Return the noise for one release of sensitivity 1, and the noise on the count.

    They are for guarantees that gain nothing from the random choice of batches, so that
    the batches are treated as known.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee that the optimizer must satisfy.

    Returns
    -------
    unit_noise : float
        The standard deviation at which one Gaussian release of sensitivity 1 meets the
        guarantee.
    count_noise : float
        The standard deviation at which the noisy count spends its part of μ².
    """
    # Replacing one record changes the mean of two numbers in [−1, 1] by at most 1.
    replace_one = replace(guarantee, adjacency="replace-one")
    unit_noise = rgd_noise(2, 1, 1.0, replace_one)
    count_noise = round_up(unit_noise / math.sqrt(_COUNT_SHARE), NINETY_ROUNDINGS)
    return unit_noise, count_noise


def _count_noise(guarantee: ApproxDP) -> float:
    """Return the noise on the count of records: it spends 1/20 of what (ε, δ) allows.

    The optimizer divides noisy sums by this noisy count, because the number of records
    is private. (ε, δ)-DP allows Gaussian noise with a certain μ of Gaussian DP, and
    1/20 of μ² is spent here. One record changes the count by 1.

    Parameters
    ----------
    guarantee : ApproxDP
        The (ε, δ) guarantee that the optimizer must satisfy.

    Returns
    -------
    float
        The standard deviation 1/(μ·√(1/20)) of the noise on the count, rounded up.
    """
    mu = gdp_mu(guarantee.eps, guarantee.delta0)
    return float(round_up(1 / (math.sqrt(_COUNT_SHARE) * mu), NINETY_ROUNDINGS))


def add_remove_rsvrg_guarantee(
    epochs: int,
    inner_steps: int,
    rate: float,
    clip: Pair,
    noise: Pair,
    count_noise: float,
) -> Guarantee:
    """Return the guarantee of RSVRG (variance-reduced descent) with a private n.

    It releases one noisy count of the n records, a noisy sum of all gradients in each
    epoch, and a noisy sum of differences of gradients over a random batch in each inner
    step. Neighboring data sets differ by one additional record.

    Parameters
    ----------
    epochs, inner_steps : int
        The number of epochs, and of inner steps in each of them.
    rate : float
        The probability that a record is in a batch.
    clip : pair of float
        The norms to which gradients and differences are clipped.
    noise : pair of float
        The standard deviations of the noise on a sum of gradients and on a sum of
        differences.
    count_noise : float
        The standard deviation of the noise on the count.

    Returns
    -------
    Guarantee
        The composition, for the adjacency 'add-remove'.
    """
    full_clip, difference_clip = clip
    full_noise, difference_noise = noise
    noise_multiplier = round_down(full_noise / full_clip, NINE_ROUNDINGS)
    all_records = 1.0  # the sampling rate
    full_gradients = subsampled_gaussian(
        noise_multiplier, all_records, epochs, adjacency="add-remove"
    )
    differences_and_count = add_remove_guarantee(
        epochs * inner_steps, rate, difference_clip, difference_noise, count_noise
    )
    return compose(full_gradients, differences_and_count)


@lru_cache(maxsize=64)
def add_remove_rsvrg_noise(
    epochs: int,
    inner_steps: int,
    rate: float,
    clip: Pair,
    guarantee: Guarantee,
    step: float,
) -> tuple[Pair, float]:
    """Return the noises with which RSVRG meets a guarantee if n is private.

    They are added to sums of all gradients (σ₁), to sums of differences of gradients
    over random batches (σ₂), and to one count of the n records. The ratio of σ₁ and σ₂
    minimizes the variance a·σ₁²/n² + b·σ₂²/(rate·n)² that they leave at the end, with
    the weights a and b of `error_weights`. The result is cached.

    Parameters
    ----------
    epochs : int
        The number of epochs.
    inner_steps : int
        The number of inner steps in each epoch.
    rate : float
        The probability that a record is in a batch.
    clip : pair of float
        The norms to which gradients and differences are clipped.
    guarantee : Guarantee
        The guarantee that must be met, for the adjacency 'add-remove'.
    step : float
        The step size.

    Returns
    -------
    noise : pair of float
        The standard deviations of the noise on a sum of gradients and on a sum of
        differences.
    count_noise : float
        The standard deviation of the noise on the count.
    """
    # Only (ε, δ)-DP gains from the random choice of batches.
    full_clip, difference_clip = clip
    effective_rate = rate if isinstance(guarantee, ApproxDP) else 1.0

    # The two noises up to a common factor.
    full_weight, difference_weight = _positive_error_weights(inner_steps, step)
    full_noise = math.sqrt(full_clip / math.sqrt(full_weight))
    effective_clip = effective_rate * difference_clip
    difference_noise = math.sqrt(
        effective_clip * math.sqrt(inner_steps / difference_weight) * rate
    )

    # Known batches: the factor has a closed form.
    if effective_rate == 1 or not isinstance(guarantee, ApproxDP):
        unit_noise, count_noise = _known_batch_noises(guarantee)
        full_term = (full_clip / full_noise) ** 2
        difference_term = inner_steps * (difference_clip / difference_noise) ** 2
        squared_mu = epochs * (full_term + difference_term)
        factor = round_up(
            unit_noise * math.sqrt(squared_mu / (1 - _COUNT_SHARE)), NINETY_ROUNDINGS
        )
        return (factor * full_noise, factor * difference_noise), count_noise

    # Random batches: the factor is searched for.
    count_noise = _count_noise(guarantee)

    def guarantee_at(factor: float) -> Guarantee:
        """Return the guarantee of the run with both noises multiplied by a factor."""
        noise = (factor * full_noise, factor * difference_noise)
        return add_remove_rsvrg_guarantee(
            epochs, inner_steps, rate, clip, noise, count_noise
        )

    first_guess = full_clip * math.sqrt(epochs) / full_noise
    factor = smallest_scale_meeting(
        guarantee_at, guarantee, first_guess, _SEARCH_TOLERANCE
    )
    return (factor * full_noise, factor * difference_noise), count_noise


# ---- the arguments guarantee= and noise= of an optimizer


def check_guarantee_or_noise(
    guarantee: Guarantee | None, noise: object, *adjacencies: str
) -> None:
    """Check that an optimizer was given exactly one of `guarantee` and `noise`.

    The other one is computed from it. A guarantee must also be for an adjacency that
    the optimizer accounts for.

    Parameters
    ----------
    guarantee : Guarantee or None
        The guarantee that must be met.
    noise : object or None
        The noise that must be used.
    *adjacencies : str
        The adjacencies (kinds of neighboring data sets) that the guarantee may have;
        only 'replace-one' by default.

    Raises
    ------
    ParameterError
        If both or none are given, or if the guarantee has another adjacency.
    """
    if (guarantee is None) == (noise is None):
        raise ParameterError(
            "give guarantee= (the noise is computed from it) or noise= (the guarantee "
            "is computed from it), not both"
        )

    # A given noise needs no further check here.
    if guarantee is None:
        return
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as ApproxDP(0.5, 1e-6)",
            parameter="guarantee",
            value=guarantee,
        )

    # The kind of neighboring data sets must be one that the optimizer accounts for.
    if guarantee.adjacency not in (adjacencies or ("replace-one",)):
        raise ParameterError(
            "is not supported here, because the number of records is public",
            parameter="adjacency",
            value=guarantee.adjacency,
        )


def noise_and_guarantee(
    guarantee: Guarantee | None,
    noise: float | None,
    to_noise: Callable[[Guarantee], float],
    to_guarantee: Callable[[float], Guarantee],
) -> tuple[float, Guarantee]:
    """Return both the noise and the guarantee of an optimizer, given one of them.

    The user of an optimizer chooses either its noise or its guarantee.

    Parameters
    ----------
    guarantee : Guarantee or None
        The guarantee that must be met, if the user chose it.
    noise : float or None
        The standard deviation of the noise, if the user chose it.
    to_noise : callable
        A function that returns the smallest noise for a guarantee.
    to_guarantee : callable
        A function that returns the guarantee of a noise.

    Returns
    -------
    noise : float
        The noise that is used.
    guarantee : Guarantee
        The guarantee of that noise. It may be slightly stronger than the required one.

    Raises
    ------
    ParameterError
        If both or none are given.
    """
    check_guarantee_or_noise(guarantee, noise)
    if guarantee is not None:
        deviation = to_noise(guarantee)
    else:
        deviation = _validate.length("noise", noise)
    return deviation, to_guarantee(deviation)
