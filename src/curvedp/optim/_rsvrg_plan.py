"""The public plan of a variance-reduced descent: what `dp_rsvrg` releases, with how much
noise, at what cost. A run has epochs of inner steps; each epoch first releases a full
gradient at a point, its anchor. `plan_replace_one` makes plans for a public number of
records, and `plan_add_remove` for a private one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.optimizer import (
    AddRemoveVarianceReducedMechanism,
    OptimizerMechanism,
    VarianceReducedMechanism,
)
from curvedp.optim import _arguments as arguments
from curvedp.optim._batches import check_batch
from curvedp.optim._randomness import Randomness
from curvedp.privacy import Guarantee
from curvedp.privacy import optimizer_accounting as accounting
from curvedp.statistics.clipped_gradient import ClippedGradient, ClippedGradientSum

# Two numbers: the first for the full gradient at the anchor, the second for the
# differences of inner steps.
Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The public steps of a run: restarts of epochs of inner steps.

    Attributes
    ----------
    learning_rates : array of shape (epochs, inner_steps)
        The learning rate of each step; all restarts have the same.
    is_recorded : array of booleans, shape (restarts, epochs, inner_steps)
        Whether the objective is recorded after each step.
    """

    learning_rates: np.ndarray
    is_recorded: np.ndarray

    @property
    def total_epochs(self) -> int:
        """The number of epochs of all restarts together."""
        restarts, epochs, _ = self.is_recorded.shape
        return int(restarts * epochs)

    @property
    def inner_steps(self) -> int:
        """The number of steps in each epoch."""
        return int(self.learning_rates.shape[1])

    @property
    def mean_learning_rate(self) -> float:
        """The mean learning rate: the budget is split as if all steps had it."""
        return float(self.learning_rates.mean())


def check_schedule(
    epochs: int,
    inner_steps: int,
    restarts: int,
    learning_rate: float | Callable[[int], float],
    record_history: int,
) -> Schedule:
    """Return the steps of a run, after checking the arguments of `dp_rsvrg`.

    Parameters
    ----------
    epochs, inner_steps, restarts : int
        The number of epochs in each restart, of steps in each epoch, and of restarts.
    learning_rate : float or callable
        One rate for all steps, or a function of the number of the step.
    record_history : bool or int
        True to record the objective after every step, k after every k-th.

    Returns
    -------
    Schedule
        The learning rate of each step, and whether the objective is recorded after it.
    """
    epochs = _validate.integer("epochs", epochs, 1)
    inner_steps = _validate.integer("inner_steps", inner_steps, 1)
    restarts = _validate.integer("restarts", restarts, 1)
    rates = arguments.learning_rates(learning_rate, epochs * inner_steps)
    is_recorded = arguments.recorded_steps(
        record_history, restarts * epochs * inner_steps
    )
    return Schedule(
        learning_rates=rates.reshape(epochs, inner_steps),
        is_recorded=is_recorded.reshape(restarts, epochs, inner_steps),
    )


class VarianceReducedTerms(NamedTuple):
    """What a user asks of a variance-reduced descent, besides its privacy.

    Attributes
    ----------
    manifold : Manifold
        The manifold on which the descent takes place.
    n : int
        The number of records, or of people.
    schedule : Schedule
        The epochs and inner steps of all restarts.
    clips : pair of floats
        The lengths to which gradients and differences are clipped.
    dtype : dtype
        The precision of the iterates: its round-off is charged as sensitivity.
    """

    manifold: Manifold
    n: int
    schedule: Schedule
    clips: Pair
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class VarianceReducedPlan:
    """The numbers of one run of `dp_rsvrg` that are fixed before its first step.

    The first number of a pair is for the full gradients at anchors, the second for the
    inner steps. n is the number of records, or of people.

    Attributes
    ----------
    mechanism : OptimizerMechanism
        The mechanism that the run carries out; the certificate describes it.
    guarantee : Guarantee
        The guarantee that the run satisfies, and for which it pays.
    noise_std : pair of floats
        The standard deviations of the noise that the result reports.
    noise_unit : pair of floats
        The numbers by which standard normals are multiplied: `noise_std`, or
        `noise_std`/C if n is private, because sums are then in units of the clip C.
    mean_scale : pair of floats, or pair of None
        If n is private, C divided by the noisy number of records in a sum. Otherwise
        None: sums are divided by public sizes.
    batch_size : int
        The number of records in the batch of an inner step, or its expectation. If n is
        private it depends on n and is not public; then it is used for the sizes of
        arrays only.
    uses_all_records : bool
        Whether every inner step reads every record, so that no batch is drawn.
    sampling_rate : float or None
        If n is private, the public probability that a record is in a batch.
    """

    mechanism: OptimizerMechanism
    guarantee: Guarantee
    noise_std: Pair
    noise_unit: Pair
    mean_scale: Pair | tuple[None, None]
    batch_size: int
    uses_all_records: bool
    sampling_rate: float | None = None


def plan_replace_one(
    terms: VarianceReducedTerms,
    guarantee: Guarantee | None,
    noise: Any,
    batch_size: float | None,
    sampling: str,
) -> VarianceReducedPlan:
    """Plan a run if the number n of records is public and one record may be replaced.

    If a guarantee is given, the noise follows from it; otherwise the guarantee follows
    from the noise. The first number of a pair is for full gradients, the second for
    inner steps.

    Parameters
    ----------
    terms : VarianceReducedTerms
        Manifold, number n of records, schedule, clips, and precision.
    guarantee : Guarantee or None
        The guarantee that the run must satisfy. None if `noise` is given.
    noise : pair of floats, float, or None
        The standard deviations of the noise on averages; used if there is no guarantee.
    batch_size : int or None
        The batch size of inner steps; ⌈√n⌉ by default.
    sampling : {"poisson", "fixed-size"}
        How batches are drawn.

    Returns
    -------
    VarianceReducedPlan
        The mechanism, its two noises, and its guarantee.
    """
    manifold, n, schedule, clips, dtype = terms
    if batch_size is None:
        batch_size = math.isqrt(n - 1) + 1
    size = check_batch(batch_size, n, sampling)

    # The clips are enlarged by rounding errors, so that the accounting covers them. The
    # full gradient is a sum over all records, differences are summed over a batch.
    full_clip, difference_clip = clips
    charged_full_clip = accounting.rounded_clip(full_clip, manifold.dim, dtype, n)
    charged_difference_clip = accounting.rounded_clip(
        difference_clip, manifold.dim, dtype, n, size
    )
    charged_clips = (charged_full_clip, charged_difference_clip)

    # The noise from the guarantee, or the guarantee from the noise.
    charged = (n, schedule.total_epochs, schedule.inner_steps, size, charged_clips)
    if guarantee is not None:
        noise_std = accounting.rsvrg_noise(
            *charged, guarantee, sampling, schedule.mean_learning_rate
        )
    else:
        pair = (noise, noise) if isinstance(noise, Real) else noise
        noise_std = convert_pair("noise", pair)
        guarantee = accounting.rsvrg_guarantee(*charged, noise_std, sampling)

    full_noise, inner_noise = noise_std
    mechanism = VarianceReducedMechanism(
        statistic=ClippedGradient(manifold, charged_full_clip, n),
        epochs=schedule.total_epochs,
        inner_steps=schedule.inner_steps,
        batch_size=size,
        difference_clip=charged_difference_clip,
        full_noise=full_noise,
        inner_noise=inner_noise,
        sampling=sampling,
    )
    return VarianceReducedPlan(
        mechanism=mechanism,
        guarantee=guarantee,
        noise_std=noise_std,
        noise_unit=noise_std,
        mean_scale=(None, None),
        batch_size=size,
        uses_all_records=False,
    )


def plan_add_remove(
    terms: VarianceReducedTerms,
    guarantee: Guarantee,
    sampling_rate: float,
    randomness: Randomness,
) -> VarianceReducedPlan:
    """Plan a run if n is private, because a record may be added or removed.

    This function draws a noisy count of the records, which the guarantee pays for. The
    first number of a pair is for full gradients, the second for inner steps.

    Parameters
    ----------
    terms : VarianceReducedTerms
        Manifold, number n of records (which is private), schedule, clips, and
        precision.
    guarantee : Guarantee
        The guarantee that the run must satisfy, for the adjacency add-remove.
    sampling_rate : float
        The public probability that a record is in a batch.
    randomness : Randomness
        The source of the noise of the count.

    Returns
    -------
    VarianceReducedPlan
        The mechanism, its two noises and its guarantee. Its `mean_scale` contains the
        noisy count.
    """
    # The clips are enlarged by rounding errors, so that the accounting covers them.
    manifold, n, schedule, clips, dtype = terms
    full_clip, difference_clip = clips
    charged_full_clip = accounting.add_remove_clip(full_clip, manifold.dim, dtype)
    charged_difference_clip = accounting.add_remove_clip(
        difference_clip, manifold.dim, dtype
    )

    noise_std, count_noise = accounting.add_remove_rsvrg_noise(
        schedule.total_epochs,
        schedule.inner_steps,
        sampling_rate,
        (charged_full_clip, charged_difference_clip),
        guarantee,
        schedule.mean_learning_rate,
    )
    noisy_count = randomness.noisy_count(n, count_noise)
    full_noise, inner_noise = noise_std
    mechanism = AddRemoveVarianceReducedMechanism(
        statistic=ClippedGradientSum(manifold, charged_full_clip),
        epochs=schedule.total_epochs,
        inner_steps=schedule.inner_steps,
        rate=sampling_rate,
        difference_clip=charged_difference_clip,
        full_noise=full_noise,
        inner_noise=inner_noise,
        count_noise=count_noise,
    )
    return VarianceReducedPlan(
        mechanism=mechanism,
        guarantee=guarantee,
        noise_std=noise_std,
        noise_unit=(full_noise / full_clip, inner_noise / difference_clip),
        mean_scale=(
            full_clip / noisy_count,
            difference_clip / (sampling_rate * noisy_count),
        ),
        batch_size=max(int(sampling_rate * n), 1),
        uses_all_records=sampling_rate == 1 or not n,
        sampling_rate=sampling_rate,
    )


def convert_pair(name: str, values: Any) -> Pair:
    """Return an argument as a pair of floats, both of them positive and finite.

    Called on the arguments `clip` and `noise` of `dp_rsvrg`.

    Parameters
    ----------
    name : str
        The argument's name, for the error message.
    values : object
        The argument of the user.

    Returns
    -------
    first, second : float
        The two numbers.

    Raises
    ------
    ParameterError
        If the argument is not a pair of positive numbers.
    """
    try:
        first, second = values
    except (TypeError, ValueError):
        raise ParameterError(
            "must be a pair of positive numbers", parameter=name, value=values
        ) from None
    return (
        _validate.length(f"{name}[0]", first),
        _validate.length(f"{name}[1]", second),
    )
