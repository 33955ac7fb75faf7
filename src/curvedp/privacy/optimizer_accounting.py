"""What the optimizers cost, and the noise that meets a guarantee.

Replacing a record moves a clipped sum by 2C, adding or removing one by C. In the second case n is private: a noisy count
is released once, with 1/20 of μ², and steps are along the quotient of noisy sum and noisy count.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import expm1, inf, log1p, nextafter, sqrt
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

Pair = tuple[float, float]

BLOCK, ACCELERATOR_BLOCK = (
    4096,
    32768,
)  # records whose gradients are held and summed at once in a full pass


def rounded_clip(
    clip: float, dim: int, dtype: Any, n: int, batch_size: int | None = None
) -> float:
    """The clipping norm that is charged: clip enlarged by the round-off of a gradient's length and of the sum.

    A clipped length is off by a few units of its own precision per coordinate. A sum of N doubles with k additions in a row,
    in any order, is off by at most k·u·N·C (Higham 2002, §4.2), and the round-off of ALL terms may change with one record, so
    it is charged N times over, not once. A Poisson batch has more than 2·batch_size + 2000 terms with a chance below e^-500
    (Chernoff).
    """
    if batch_size is None:
        terms, additions = n, min(n, ACCELERATOR_BLOCK) + n // BLOCK
    else:
        terms = additions = min(n, 2 * batch_size + 2000)
    length = (dim + 8) * float(np.finfo(dtype).eps)
    return clip * (
        1 + 2 * (length + terms * additions * float(np.finfo(np.float64).eps))
    )


def rgd_guarantee(n: int, steps: int, clip: float, noise: float) -> GDP:
    """T noisy mean gradients of sensitivity 2C/n: μ = √T·2C/(nσ) (Dong, Roth & Su 2022, Corollary 3.3)."""
    return GDP(round_up(sqrt(steps) * 2 * clip / (n * noise), 1e-15))


def rgd_noise(n: int, steps: int, clip: float, guarantee: Guarantee) -> float:
    """The smallest tangent standard deviation at which `rgd_guarantee` meets the guarantee."""
    if isinstance(guarantee, PureDP):
        raise UnattainableGuarantee(
            f"Gaussian noise has no pure ε; ask for GDP or ApproxDP instead of {guarantee}"
        )
    if isinstance(guarantee, GDP):
        return nextafter(sqrt(steps) * 2 * clip / (n * guarantee.mu) * (1 + 1e-14), inf)
    # T Gaussian steps are one Gaussian step of √T times the sensitivity, whatever the definition.
    moved = sqrt(steps) * 2 * clip / n
    return float(
        round_up(
            smallest_scale(
                lambda scale: gaussian_profile(0.0, 1, scale, moved), guarantee, moved
            ),
            1e-14,
        )
    )


def rsgd_guarantee(
    n: int, steps: int, batch_size: int, clip: float, noise: float, sampling: str
) -> Guarantee:
    """T noisy sums over random batches; the noise on the sum is batch_size times the noise on the average."""
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
    """The smallest noise on the average at which T noisy sums over random batches meet the guarantee.

    What (ε, δ) gains from a batch being random, μ and ρ lose again: they must hold for the tail of the loss as well (E4),
    and there +C against −C among zeros is as far apart as N(0, 1) and N(√T·C/σ, 1), whatever the chance. So for them the
    batch is taken as known, and a sum over it moves by 2C: at most twice the μ that a finer account could find.
    """
    if batch_size == n or not isinstance(guarantee, ApproxDP):
        return rgd_noise(batch_size, steps, clip, guarantee)
    return (
        subsampled_noise_multiplier(guarantee, batch_size / n, steps, sampling=sampling)
        * clip
        / batch_size
    )


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
    """One noisy full gradient an epoch (charged once, then post-processing), and the inner steps on differences; where the
    batches are `known`, nothing is gained from their chance."""
    full, steps = rgd_guarantee(n, epochs, clip[0], noise[0]), epochs * inner_steps
    if known:
        return compose(full, rgd_guarantee(batch_size, steps, clip[1], noise[1]))
    return compose(
        full, rsgd_guarantee(n, steps, batch_size, clip[1], noise[1], sampling)
    )


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
    """(σ₁, σ₂) at which a run meets the guarantee, split for the smallest error that noise leaves at the end.

    The split is that of the central limit, for a quadratic objective of curvature 1 (docs/optimization.md); the common factor
    is then found exactly, on the private side. Guarantees that gain nothing from random batches (`rsgd_noise`) have
    batch_size for n in the second term, and there the central limit is exact.
    """
    move = clip[0] / n, clip[1] / (n if isinstance(guarantee, ApproxDP) else batch_size)
    a, b = (
        max(weight, 1e-300) for weight in error_weights(inner_steps, rate)
    )  # only their ratio matters
    first, second = sqrt(move[0] / sqrt(a)), sqrt(move[1] * sqrt(inner_steps / b))
    limit = sqrt(epochs) * sqrt(
        (move[0] / first) ** 2 + inner_steps * (move[1] / second) ** 2
    )

    def noise(factor: float) -> Pair:
        return factor * first, factor * second

    if not isinstance(guarantee, ApproxDP):
        return noise(round_up(rgd_noise(1, 1, limit, guarantee), 1e-14))
    start = 2 * limit / gdp_mu(guarantee.eps, guarantee.delta0)
    terms = n, epochs, inner_steps, batch_size, clip
    return noise(
        smallest_scale_meeting(
            lambda f: rsvrg_guarantee(*terms, noise(f), sampling),
            guarantee,
            start,
            1e-3,
        )
    )


def error_weights(inner_steps: int, rate: float) -> Pair:
    """(a, b): aσ₁² + bσ₂² is the variance that the two noises of an epoch leave, for curvature 1."""
    rate = min(
        rate, 1.0
    )  # beyond it an error changes its sign at every step, and no step size of use is there
    lost = (
        -expm1(inner_steps * log1p(-rate)) if rate < 1 else 1.0
    )  # 1 − (1 − rate)^m, with its digits
    square = -expm1(2 * inner_steps * log1p(-rate)) if rate < 1 else 1.0
    return lost**2, rate * square / (2 - rate)


WHOLE_BITS = 20  # of an entry of a clipped gradient in units of C, where n is private: whole numbers add up exactly
_COUNT = 1 / 20  # the count's share of μ²


def add_remove_clip(clip: float, dim: int, dtype: Any) -> float:
    """The clipping norm that is charged where n is private: with the round-off of a gradient's length and the rounding of its
    entries to whole multiples of C/2^20, whose sums are exact. It must not depend on n."""
    return clip * (
        1
        + 2 * (dim + 8) * float(np.finfo(dtype).eps)
        + sqrt(dim) * 2.0 ** -(WHOLE_BITS + 1)
    )


def add_remove_guarantee(
    steps: int, rate: float, clip: float, noise: float, count_noise: float
) -> Guarantee:
    """T noisy sums, each record in them with chance `rate`, and a noisy count, for adding or removing a record."""
    count = GDP(round_up(1 / count_noise, 1e-15), adjacency="add-remove")
    return compose(
        subsampled_gaussian(
            round_down(noise / clip, 1e-15), rate, steps, adjacency="add-remove"
        ),
        count,
    )


def add_remove_noise(
    steps: int, rate: float, clip: float, guarantee: Guarantee
) -> Pair:
    """(noise on a sum, noise on the count) at which `added_guarantee` meets the guarantee; as `rsgd_noise` for others than
    (ε, δ)."""
    if rate == 1 or not isinstance(guarantee, ApproxDP):
        whole, count = _known_batches(guarantee)
        return round_up(whole * clip * sqrt(steps / (1 - _COUNT)), 1e-14), count
    count = _count_noise(guarantee)
    least = smallest_noise_multiplier(
        lambda m: add_remove_guarantee(steps, rate, 1.0, m, count), guarantee
    )
    return least * clip * (1 + 1e-14), count


def _known_batches(guarantee: Guarantee) -> Pair:
    """The noise of one Gaussian release that moves by 1, and on the count, where chance gains nothing."""
    whole = rgd_noise(2, 1, 1.0, replace(guarantee, adjacency="replace-one"))
    return whole, round_up(whole / sqrt(_COUNT), 1e-14)


def _count_noise(guarantee: ApproxDP) -> float:
    return float(
        round_up(1 / (sqrt(_COUNT) * gdp_mu(guarantee.eps, guarantee.delta0)), 1e-14)
    )


def add_remove_rsvrg_guarantee(
    epochs: int,
    inner_steps: int,
    rate: float,
    clip: Pair,
    noise: Pair,
    count_noise: float,
) -> Guarantee:
    """A noisy sum of gradients an epoch, noisy sums of differences over random batches, and a noisy count."""
    first = subsampled_gaussian(
        round_down(noise[0] / clip[0], 1e-15), 1.0, epochs, adjacency="add-remove"
    )
    return compose(
        first,
        add_remove_guarantee(
            epochs * inner_steps, rate, clip[1], noise[1], count_noise
        ),
    )


@lru_cache(maxsize=64)
def add_remove_rsvrg_noise(
    epochs: int,
    inner_steps: int,
    rate: float,
    clip: Pair,
    guarantee: Guarantee,
    step: float,
) -> tuple[Pair, float]:
    """((noise on a sum of gradients, on one of differences), noise on the count) at which `added_rsvrg_guarantee` meets the
    guarantee; split as in `rsvrg_noise`: what is left of the noises are aσ₁²/n² + bσ₂²/(rate·n)²."""
    gained = rate if isinstance(guarantee, ApproxDP) else 1.0
    a, b = (max(weight, 1e-300) for weight in error_weights(inner_steps, step))
    first, second = (
        sqrt(clip[0] / sqrt(a)),
        sqrt(gained * clip[1] * sqrt(inner_steps / b) * rate),
    )
    if gained == 1 or not isinstance(guarantee, ApproxDP):
        whole, count = _known_batches(guarantee)
        limit = sqrt(
            epochs
            * ((clip[0] / first) ** 2 + inner_steps * (clip[1] / second) ** 2)
            / (1 - _COUNT)
        )
        factor = round_up(whole * limit, 1e-14)
    else:
        count, terms, start = (
            _count_noise(guarantee),
            (epochs, inner_steps, rate, clip),
            clip[0] * sqrt(epochs) / first,
        )
        factor = smallest_scale_meeting(
            lambda f: add_remove_rsvrg_guarantee(
                *terms, (f * first, f * second), count
            ),
            guarantee,
            start,
            1e-3,
        )
    return (factor * first, factor * second), count


def check_request(
    guarantee: Guarantee | None, noise: object, *adjacencies: str
) -> None:
    """Exactly one of the two is given, the first for one of these adjacencies: replacing a record, where none is said."""
    if (guarantee is None) == (noise is None):
        raise ParameterError(
            "give guarantee= (the noise is derived) or noise= (the guarantee is derived), not both"
        )
    if guarantee is not None and not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as ApproxDP(0.5, 1e-6)",
            parameter="guarantee",
            value=guarantee,
        )
    if guarantee is not None and guarantee.adjacency not in (
        adjacencies or ("replace-one",)
    ):
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
    """(noise, guarantee) from whichever of the two was asked for."""
    check_request(guarantee, noise)
    sd = (
        to_noise(guarantee)
        if guarantee is not None
        else _validate.length("noise", noise)
    )
    return sd, to_guarantee(sd)
