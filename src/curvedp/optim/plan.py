"""The public plan of a private descent: what it releases, how it is noised, what it costs.

A `DescentPlan` is fixed before a record is used, apart from the noisy count of records
where their number is private. `plan_replace_one` makes plans for a public number of
records, `plan_add_remove` for a private one; `dp_rgd` and `dp_rsgd` carry them out.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.optimizer import (
    AddRemoveDescentMechanism,
    BatchDescentMechanism,
    DescentMechanism,
    OptimizerMechanism,
)
from curvedp.optim._batches import check_batch
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.privacy import Guarantee
from curvedp.privacy import optimizer_accounting as accounting
from curvedp.statistics.clipped_gradient import ClippedGradient, ClippedGradientSum


@dataclass(frozen=True, eq=False)
class DescentPlan:
    """What is fixed about one run of `dp_rgd` or `dp_rsgd` before its first step.

    Attributes
    ----------
    mechanism : OptimizerMechanism
        What the run releases; it goes into the certificate.
    guarantee : Guarantee
        What the run costs.
    noise_std : float
        The standard deviation that the result reports: on the averaged gradient, or on
        the sum where n is private.
    noise_unit : float
        What standard normals are multiplied by in a step: `noise_std`, or where n is
        private `noise_std`/C, because sums are then in units of the clip C.
    mean_scale : float or None
        Where n is private: C over the noisy size of a batch. None divides sums by the
        public batch size.
    batch_size : int
        How many records a batch has, or has on average. Where n is private it depends
        on n, so that it is not public; it only sets the sizes of arrays.
    uses_all_records : bool
        Whether every step reads every record, so that no batch is drawn.
    sampling_rate : float or None
        Where n is private: the public probability that a record is in a batch.
    """

    mechanism: OptimizerMechanism
    guarantee: Guarantee
    noise_std: float
    noise_unit: float
    mean_scale: float | None
    batch_size: int
    uses_all_records: bool
    sampling_rate: float | None = None


def plan_replace_one(
    manifold: Manifold,
    n: int,
    steps: int,
    clip: float,
    dtype: np.dtype,
    guarantee: Guarantee | None,
    noise: float | None,
    batch_size: float | None,
    sampling: str,
) -> DescentPlan:
    """Plan a descent where the number of records is public and one may be replaced.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the descent takes place.
    n : int
        How many records, or people.
    steps : int
        How many gradient steps.
    clip : float
        C, the largest length of a record's gradient.
    dtype : dtype
        The precision of the iterates: its round-off is charged as sensitivity.
    guarantee : Guarantee or None
        The guarantee that the run must satisfy. None if `noise` is given.
    noise : float or None
        The standard deviation of the noise on an averaged gradient. None if `guarantee`
        is given.
    batch_size : int, optional
        None takes every record in every step; a number that is not whole is refused.
    sampling : {"poisson", "fixed-size"}
        Whether every record is in a batch independently, or batches have exactly
        `batch_size` records.

    Returns
    -------
    DescentPlan
        The mechanism, its noise, and its guarantee.
    """
    uses_all_records = batch_size is None
    size = n if batch_size is None else check_batch(batch_size, n, sampling)
    # The clip is enlarged by rounding errors, so that the accounting covers them.
    charged_size = None if uses_all_records else size
    charged_clip = accounting.rounded_clip(clip, manifold.dim, dtype, n, charged_size)
    statistic = ClippedGradient(manifold, charged_clip, n)

    if uses_all_records:
        noise_std, implied = accounting.noise_and_guarantee(
            guarantee,
            noise,
            partial(accounting.rgd_noise, n, steps, charged_clip),
            partial(accounting.rgd_guarantee, n, steps, charged_clip),
        )
        mechanism: OptimizerMechanism = DescentMechanism(
            statistic=statistic, steps=steps, noise=noise_std
        )
    else:
        public = (n, steps, size, charged_clip)
        noise_std, implied = accounting.noise_and_guarantee(
            guarantee,
            noise,
            partial(accounting.rsgd_noise, *public, sampling=sampling),
            partial(accounting.rsgd_guarantee, *public, sampling=sampling),
        )
        mechanism = BatchDescentMechanism(
            statistic=statistic,
            steps=steps,
            noise=noise_std,
            batch_size=size,
            sampling=sampling,
        )
    return DescentPlan(
        mechanism=mechanism,
        guarantee=guarantee or implied,
        noise_std=noise_std,
        noise_unit=noise_std,
        mean_scale=None,
        batch_size=size,
        uses_all_records=uses_all_records,
    )


def plan_add_remove(
    manifold: Manifold,
    n: int,
    steps: int,
    clip: float,
    dtype: np.dtype,
    guarantee: Guarantee,
    sampling_rate: float,
    randomness: Randomness,
) -> DescentPlan:
    """Plan a descent where n is private, because a record may be added or removed.

    A noisy count of the records is drawn here. It is part of what the run releases and
    pays for; steps go along the quotient of noisy sums and this count.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the descent takes place.
    n : int
        How many records, or people: private.
    steps : int
        How many gradient steps.
    clip : float
        C, the largest length of a record's gradient.
    dtype : dtype
        The precision of the iterates: its round-off is charged as sensitivity.
    guarantee : Guarantee
        The guarantee that the run must satisfy, for the adjacency add-remove.
    sampling_rate : float
        The public probability that a record is in a batch; 1 takes all.
    randomness : Randomness
        Where the noise of the count comes from.

    Returns
    -------
    DescentPlan
        The mechanism, its noise and its guarantee. Its `mean_scale` contains the noisy
        count. Its `batch_size` depends on n and is NOT public.
    """
    charged_clip = accounting.add_remove_clip(clip, manifold.dim, dtype)
    noise_std, count_noise = accounting.add_remove_noise(
        steps, sampling_rate, charged_clip, guarantee
    )
    mechanism = AddRemoveDescentMechanism(
        statistic=ClippedGradientSum(manifold, charged_clip),
        steps=steps,
        noise=noise_std,
        rate=sampling_rate,
        count_noise=count_noise,
    )
    noisy_count = randomness.noisy_count(n, count_noise)
    return DescentPlan(
        mechanism=mechanism,
        guarantee=guarantee,
        noise_std=noise_std,
        noise_unit=noise_std / clip,
        mean_scale=clip / (sampling_rate * noisy_count),
        batch_size=max(int(sampling_rate * n), 1),
        uses_all_records=sampling_rate == 1 or not n,
        sampling_rate=sampling_rate,
    )


def full_descent_mechanism(
    problem: Problem, n: int, steps: int, clip: float, guarantee: Guarantee
) -> DescentMechanism:
    """Return the calibrated mechanism of `dp_rgd` in double precision.

    An estimator that runs `dp_rgd` later calls this first, so that what cannot be met
    is refused before anything is spent.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    n : int
        How many records, or people; public.
    steps : int
        How many gradient steps.
    clip : float
        The largest length of a record's gradient.
    guarantee : Guarantee
        The guarantee that the run must satisfy.

    Returns
    -------
    DescentMechanism
        What the run will release, with the smallest noise that suffices.

    Raises
    ------
    UnattainableGuarantee
        If no Gaussian noise satisfies the guarantee, such as pure DP.
    """
    charged_clip = accounting.rounded_clip(clip, problem.manifold.dim, np.float64, n)
    noise_std = accounting.rgd_noise(n, steps, charged_clip, guarantee)
    statistic = ClippedGradient(problem.manifold, charged_clip, n)
    return DescentMechanism(statistic=statistic, steps=steps, noise=noise_std)


def adds_or_removes(guarantee: Any, noise: Any) -> bool:
    """Return whether n is private, that is whether the guarantee is for add-remove.

    Parameters
    ----------
    guarantee : Guarantee or None
        The guarantee that the user asks for.
    noise : float or None
        The noise that the user asks for instead; then n is public.

    Returns
    -------
    bool
        True if neighboring data sets differ by one additional record, so that the
        number n of records must not be revealed.

    Raises
    ------
    ParameterError
        If neither a guarantee nor noise is given, or both are.
    """
    accounting.check_request(guarantee, noise, "replace-one", ADD_REMOVE)
    return guarantee is not None and guarantee.adjacency == ADD_REMOVE
