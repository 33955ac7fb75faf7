"""What private optimizers cost, and the noise that meets a guarantee.

Replacing a record moves a sum of gradients clipped to C by 2C; adding or removing one
moves it by C. In the second case the number n of records is private: a noisy count is
released once, with 1/20 of μ², and steps go along the quotient of noisy sum and noisy
count.

Three algorithms are accounted: full-batch gradient descent (RGD), stochastic gradient
descent on random batches (RSGD), and variance-reduced descent (RSVRG), which takes a
full gradient in each epoch and differences of gradients in between.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import round_down, round_up
from curvedp.privacy.calibration import smallest_scale
from curvedp.privacy.composition import compose
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ApproxDP, PureDP
from curvedp.privacy.guarantees.gaussian import gdp_mu
from curvedp.privacy.profiles.constant_curvature import gaussian_profile
from curvedp.privacy.subsampling import (
    smallest_noise_multiplier,
    smallest_scale_meeting,
    subsampled_gaussian,
    subsampled_noise_multiplier,
)

# For RSVRG: a number for full gradients, and one for differences of gradients.
Pair = tuple[float, float]

# Records whose gradients are held and summed at once in a full pass.
BLOCK = 4096
ACCELERATOR_BLOCK = 32768
# Where n is private, entries of clipped gradients are rounded to multiples of C/2^20,
# so that their sums are exact.
WHOLE_BITS = 20

_COUNT_SHARE = 1 / 20  # the noisy count's share of μ²
_DOUBLE_EPS = float(np.finfo(np.float64).eps)
_SMALLEST_WEIGHT = 1e-300


# ---- full batches


def rounded_clip(
    clip: float, dim: int, dtype: Any, n: int, batch_size: int | None = None
) -> float:
    """Return the clipping norm that is charged: C enlarged by all round-off.

    A clipped length is off by a few units of its own precision for each coordinate. A
    sum of N doubles with k additions in a row, in any order, is off by at most k·u·N·C
    (Higham 2002, §4.2). The round-off of *all* terms may change with one record, so
    that it is charged N times over. A Poisson batch has more than 2·batch_size + 2000
    terms with a chance below e^-500 (Chernoff).

    Parameters
    ----------
    clip, dim, dtype : float, int, dtype
        C, the dimension, and the type of the gradients' entries.
    n, batch_size : int
        The number of records, and of those in a batch; None for full batches.
    """
    if batch_size is None:
        n_terms = n
        n_additions = min(n, ACCELERATOR_BLOCK) + n // BLOCK
    else:
        n_terms = min(n, 2 * batch_size + 2000)
        n_additions = n_terms
    length_error = (dim + 8) * float(np.finfo(dtype).eps)
    sum_error = n_terms * n_additions * _DOUBLE_EPS
    return clip * (1 + 2 * (length_error + sum_error))


def rgd_guarantee(n: int, steps: int, clip: float, noise: float) -> GDP:
    """Return the GDP of T noisy mean gradients: μ = √T·2C/(nσ).

    Dong, Roth and Su (2022), Corollary 3.3. σ is the noise on the mean.
    """
    return GDP(round_up(math.sqrt(steps) * 2 * clip / (n * noise), 1e-15))


def rgd_noise(n: int, steps: int, clip: float, guarantee: Guarantee) -> float:
    """Return the smallest noise on the mean at which `rgd_guarantee` meets a guarantee.

    T Gaussian steps are one Gaussian step of √T times the sensitivity, whatever the
    definition of privacy.
    """
    if isinstance(guarantee, PureDP):
        raise UnattainableGuarantee(
            "Gaussian noise has no pure ε; "
            f"ask for GDP or ApproxDP instead of {guarantee}"
        )
    if isinstance(guarantee, GDP):
        noise = math.sqrt(steps) * 2 * clip / (n * guarantee.mu)
        return math.nextafter(noise * (1 + 1e-14), math.inf)

    sensitivity = math.sqrt(steps) * 2 * clip / n
    scale = smallest_scale(
        lambda scale: gaussian_profile(0.0, 1, scale, sensitivity),
        guarantee,
        sensitivity,
    )
    return float(round_up(scale, 1e-14))


# ---- random batches


def rsgd_guarantee(
    n: int, steps: int, batch_size: int, clip: float, noise: float, sampling: str
) -> Guarantee:
    """Return the guarantee of T noisy sums over random batches.

    The noise on the sum is batch_size times the noise on the average.
    """
    return subsampled_gaussian(
        noise * batch_size / clip, batch_size / n, steps, sampling=sampling
    )


def rsgd_noise(
    n: int,
    steps: int,
    batch_size: int,
    clip: float,
    guarantee: Guarantee,
    sampling: str,
) -> float:
    """Return the smallest noise at which `rsgd_guarantee` meets a guarantee.

    What (ε, δ) gains from a batch being random, μ and ρ lose again: they must hold for
    the tail of the loss as well (docs/errata.md, E4), and there +C against −C among
    zeros is as far apart as N(0, 1) and N(√T·C/σ, 1), whatever the chance. So for them
    the batch is taken as known, and a sum over it moves by 2C: at most twice the μ that
    a finer account could find.
    """
    if batch_size == n or not isinstance(guarantee, ApproxDP):
        return rgd_noise(batch_size, steps, clip, guarantee)
    multiplier = subsampled_noise_multiplier(
        guarantee, batch_size / n, steps, sampling=sampling
    )
    return multiplier * clip / batch_size


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
    """Return the guarantee of a run of RSVRG.

    One noisy full gradient an epoch is charged once and is post-processing afterwards;
    the inner steps release differences of gradients over random batches.

    Parameters
    ----------
    n, epochs, inner_steps, batch_size : int
        Records, epochs, inner steps of an epoch, and records in a batch.
    clip, noise : pair of float
        For full gradients and for differences: clipping norms, and noise on the
        averages.
    sampling : str
        As of `subsampled_gaussian`.
    known : bool
        Whether the batches are taken as known: nothing is gained from their chance.
    """
    full_gradients = rgd_guarantee(n, epochs, clip[0], noise[0])
    steps = epochs * inner_steps
    if known:
        differences: Guarantee = rgd_guarantee(batch_size, steps, clip[1], noise[1])
    else:
        differences = rsgd_guarantee(n, steps, batch_size, clip[1], noise[1], sampling)
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
    """Return the two noises at which a run of RSVRG meets a guarantee.

    They are split for the smallest error that noise leaves at the end, by the central
    limit for a quadratic objective of curvature 1 (docs/optimization.md). The common
    factor is then found exactly, on the private side. Guarantees that gain nothing from
    random batches (see `rsgd_noise`) have batch_size for n in the second term, and
    there the central limit is exact. `rate` is the step size.
    """
    is_approx = isinstance(guarantee, ApproxDP)
    full_shift = clip[0] / n
    difference_shift = clip[1] / (n if is_approx else batch_size)
    full_weight, difference_weight = _positive_error_weights(inner_steps, rate)
    first = math.sqrt(full_shift / math.sqrt(full_weight))
    second = math.sqrt(difference_shift * math.sqrt(inner_steps / difference_weight))
    squared = (full_shift / first) ** 2 + inner_steps * (difference_shift / second) ** 2
    limit = math.sqrt(epochs) * math.sqrt(squared)

    if not isinstance(guarantee, ApproxDP):
        factor = round_up(rgd_noise(1, 1, limit, guarantee), 1e-14)
        return factor * first, factor * second

    def guarantee_at(factor: float) -> Guarantee:
        """Return the guarantee with both noises multiplied by a factor."""
        noise = (factor * first, factor * second)
        return rsvrg_guarantee(
            n, epochs, inner_steps, batch_size, clip, noise, sampling
        )

    start = 2 * limit / gdp_mu(guarantee.eps, guarantee.delta0)
    factor = smallest_scale_meeting(guarantee_at, guarantee, start, 1e-3)
    return factor * first, factor * second


def error_weights(inner_steps: int, rate: float) -> Pair:
    """Return (a, b): aσ₁² + bσ₂² is the variance that the noises of an epoch leave.

    For a quadratic objective of curvature 1, step size r and m inner steps:
    a = (1 − (1−r)^m)² and b = r·(1 − (1−r)^{2m})/(2 − r). A rate above 1 counts as 1:
    there an error changes its sign at every step, and no such step size is of use.
    """
    rate = min(rate, 1.0)
    if rate < 1:
        one_pass = -math.expm1(inner_steps * math.log1p(-rate))
        two_passes = -math.expm1(2 * inner_steps * math.log1p(-rate))
    else:
        one_pass = 1.0
        two_passes = 1.0
    return one_pass**2, rate * two_passes / (2 - rate)


def _positive_error_weights(inner_steps: int, rate: float) -> Pair:
    """Return `error_weights`, kept above 0; only their ratio matters."""
    full_weight, difference_weight = error_weights(inner_steps, rate)
    return max(full_weight, _SMALLEST_WEIGHT), max(difference_weight, _SMALLEST_WEIGHT)


# ---- adding or removing a record: n is private


def add_remove_clip(clip: float, dim: int, dtype: Any) -> float:
    """Return the clipping norm that is charged where n is private.

    C is enlarged by the round-off of a gradient's length and by the rounding of its
    entries to multiples of C/2^20, whose sums are exact. It must not depend on n.
    """
    length_error = 2 * (dim + 8) * float(np.finfo(dtype).eps)
    rounding = math.sqrt(dim) * 2.0 ** -(WHOLE_BITS + 1)
    return clip * (1 + length_error + rounding)


def add_remove_guarantee(
    steps: int, rate: float, clip: float, noise: float, count_noise: float
) -> Guarantee:
    """Return the guarantee of T noisy sums and a noisy count, for add-remove.

    Each record is in a sum with chance `rate`; `noise` is that on a sum.
    """
    sums = subsampled_gaussian(
        round_down(noise / clip, 1e-15), rate, steps, adjacency="add-remove"
    )
    count = GDP(round_up(1 / count_noise, 1e-15), adjacency="add-remove")
    return compose(sums, count)


def add_remove_noise(
    steps: int, rate: float, clip: float, guarantee: Guarantee
) -> Pair:
    """Return the noises at which `add_remove_guarantee` meets a guarantee.

    The first is the noise on a sum, the second that on the count. For other guarantees
    than (ε, δ) nothing is gained from chance, as in `rsgd_noise`.
    """
    if rate == 1 or not isinstance(guarantee, ApproxDP):
        unit_noise, count_noise = _known_batch_noises(guarantee)
        sum_noise = unit_noise * clip * math.sqrt(steps / (1 - _COUNT_SHARE))
        return round_up(sum_noise, 1e-14), count_noise

    count_noise = _count_noise(guarantee)
    multiplier = smallest_noise_multiplier(
        lambda m: add_remove_guarantee(steps, rate, 1.0, m, count_noise), guarantee
    )
    return multiplier * clip * (1 + 1e-14), count_noise


def _known_batch_noises(guarantee: Guarantee) -> Pair:
    """Return the noise of one Gaussian release that moves by 1, and that on the count.

    They are for guarantees that gain nothing from chance.
    """
    replace_one = replace(guarantee, adjacency="replace-one")
    unit_noise = rgd_noise(2, 1, 1.0, replace_one)
    return unit_noise, round_up(unit_noise / math.sqrt(_COUNT_SHARE), 1e-14)


def _count_noise(guarantee: ApproxDP) -> float:
    """Return the noise on the count that takes its share of the μ of (ε, δ)."""
    mu = gdp_mu(guarantee.eps, guarantee.delta0)
    return float(round_up(1 / (math.sqrt(_COUNT_SHARE) * mu), 1e-14))


def add_remove_rsvrg_guarantee(
    epochs: int,
    inner_steps: int,
    rate: float,
    clip: Pair,
    noise: Pair,
    count_noise: float,
) -> Guarantee:
    """Return the guarantee of a run of RSVRG where n is private.

    There is a noisy sum of gradients in each epoch, noisy sums of differences over
    random batches, in which each record is with chance `rate`, and one noisy count.
    """
    full_gradients = subsampled_gaussian(
        round_down(noise[0] / clip[0], 1e-15), 1.0, epochs, adjacency="add-remove"
    )
    differences_and_count = add_remove_guarantee(
        epochs * inner_steps, rate, clip[1], noise[1], count_noise
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
    """Return the noises at which `add_remove_rsvrg_guarantee` meets a guarantee.

    They are split as in `rsvrg_noise`: what the noises leave is
    aσ₁²/n² + bσ₂²/(rate·n)².

    Returns
    -------
    noise : pair of float
        On a sum of gradients, and on a sum of differences.
    count_noise : float
        On the count.
    """
    gained = rate if isinstance(guarantee, ApproxDP) else 1.0
    full_weight, difference_weight = _positive_error_weights(inner_steps, step)
    first = math.sqrt(clip[0] / math.sqrt(full_weight))
    second = math.sqrt(
        gained * clip[1] * math.sqrt(inner_steps / difference_weight) * rate
    )

    if gained == 1 or not isinstance(guarantee, ApproxDP):
        unit_noise, count_noise = _known_batch_noises(guarantee)
        squared = (clip[0] / first) ** 2 + inner_steps * (clip[1] / second) ** 2
        limit = math.sqrt(epochs * squared / (1 - _COUNT_SHARE))
        factor = round_up(unit_noise * limit, 1e-14)
        return (factor * first, factor * second), count_noise

    count_noise = _count_noise(guarantee)

    def guarantee_at(factor: float) -> Guarantee:
        """Return the guarantee with both noises multiplied by a factor."""
        noise = (factor * first, factor * second)
        return add_remove_rsvrg_guarantee(
            epochs, inner_steps, rate, clip, noise, count_noise
        )

    start = clip[0] * math.sqrt(epochs) / first
    factor = smallest_scale_meeting(guarantee_at, guarantee, start, 1e-3)
    return (factor * first, factor * second), count_noise


# ---- what an optimizer is asked for


def check_request(
    guarantee: Guarantee | None, noise: object, *adjacencies: str
) -> None:
    """Check that exactly one of guarantee and noise is given.

    The guarantee must have one of the given adjacencies; 'replace-one' if none is
    given.
    """
    if (guarantee is None) == (noise is None):
        raise ParameterError(
            "give guarantee= (the noise is derived) or noise= (the guarantee is "
            "derived), not both"
        )
    if guarantee is None:
        return
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as ApproxDP(0.5, 1e-6)",
            parameter="guarantee",
            value=guarantee,
        )
    if guarantee.adjacency not in (adjacencies or ("replace-one",)):
        raise ParameterError(
            ": here the number of records is public",
            parameter="adjacency",
            value=guarantee.adjacency,
        )


def derive(
    guarantee: Guarantee | None,
    noise: float | None,
    to_noise: Callable[[Guarantee], float],
    to_guarantee: Callable[[float], Guarantee],
) -> tuple[float, Guarantee]:
    """Return noise and guarantee from whichever of the two was given.

    `to_noise` and `to_guarantee` lead from one to the other; the guarantee returned is
    always the one of the noise returned.
    """
    check_request(guarantee, noise)
    if guarantee is not None:
        deviation = to_noise(guarantee)
    else:
        deviation = _validate.length("noise", noise)
    return deviation, to_guarantee(deviation)
