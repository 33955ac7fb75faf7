"""The public plan of a private descent: what it releases, with how much noise, at what
cost. A `DescentPlan` is fixed before a record is used. Only if the number n of records
is private does it contain a number that depends on the records, a noisy count of them.
`plan_replace_one` makes plans for a public n and `plan_add_remove` for a private n;
`dp_rgd` and `dp_rsgd` carry them out.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

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


class DescentTerms(NamedTuple):
    """What a user asks of a descent, besides its privacy.

    Attributes
    ----------
    manifold : Manifold
        The manifold on which the descent takes place.
    n : int
        The number of records, or of people.
    steps : int
        The number of gradient steps.
    clip : float
        C, the largest length of a record's gradient.
    dtype : dtype
        The precision of the iterates: its round-off is charged as sensitivity.
    """

    manifold: Manifold
    n: int
    steps: int
    clip: float
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class DescentPlan:
    """The numbers of one run of `dp_rgd` or `dp_rsgd` that are fixed before its first step.

    Attributes
    ----------
    mechanism : OptimizerMechanism
        The mechanism that the run carries out; the certificate describes it.
    guarantee : Guarantee
        The guarantee that the run satisfies, and for which it pays.
    noise_std : float
        The standard deviation of the noise that the result reports. It is that on the
        averaged gradient, or on the sum of gradients if n is private.
    noise_unit : float
        The number by which a step multiplies standard normals: `noise_std`, or
        `noise_std`/C if n is private, because sums are then in units of the clip C.
    mean_scale : float or None
        If n is private, C divided by the noisy size of a batch. Otherwise None: sums are
        divided by the public batch size.
    batch_size : int
        The number of records in a batch, or its expectation. If n is private it depends
        on n and is not public; then it is used for the sizes of arrays only.
    uses_all_records : bool
        Whether every step reads every record, so that no batch is drawn.
    sampling_rate : float or None
        If n is private, the public probability that a record is in a batch.
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
    terms: DescentTerms,
    guarantee: Guarantee | None,
    noise: float | None,
    batch_size: float | None,
    sampling: str,
) -> DescentPlan:
    """Plan a descent if the number n of records is public and one may be replaced.

    If a guarantee is given, the noise is computed from it; otherwise the guarantee is
    computed from the noise.

    Parameters
    ----------
    terms : DescentTerms
        Manifold, number of records, number of steps, clip, and precision.
    guarantee : Guarantee or None
        The guarantee that the run must satisfy. None if `noise` is given.
    noise : float or None
        The standard deviation of the noise on an averaged gradient. None if `guarantee`
        is given.
    batch_size : int, optional
        The size of a batch; a number that is not whole is refused. By default every
        step reads every record.
    sampling : {"poisson", "fixed-size"}
        Whether every record is in a batch independently, or batches have exactly
        `batch_size` records.

    Returns
    -------
    DescentPlan
        The mechanism, its noise, and its guarantee.
    """
    if batch_size is None:
        return _plan_full_steps(terms, guarantee, noise)
    size = check_batch(batch_size, terms.n, sampling)
    return _plan_batch_steps(terms, guarantee, noise, size, sampling)


def _plan_full_steps(
    terms: DescentTerms,
    guarantee: Guarantee | None,
    noise: float | None,
) -> DescentPlan:
    """Plan a descent whose steps read every record; n is public.

    The parameters are those of `plan_replace_one`.
    """
    # The clip is enlarged by rounding errors, so that the accounting covers them.
    manifold, n, steps, clip, dtype = terms
    charged_clip = accounting.rounded_clip(clip, manifold.dim, dtype, n)
    noise_std, implied_guarantee = accounting.noise_and_guarantee(
        guarantee,
        noise,
        partial(accounting.rgd_noise, n, steps, charged_clip),
        partial(accounting.rgd_guarantee, n, steps, charged_clip),
    )
    mechanism = DescentMechanism(
        statistic=ClippedGradient(manifold, charged_clip, n),
        steps=steps,
        noise=noise_std,
    )
    return DescentPlan(
        mechanism=mechanism,
        guarantee=guarantee or implied_guarantee,
        noise_std=noise_std,
        noise_unit=noise_std,
        mean_scale=None,
        batch_size=n,
        uses_all_records=True,
    )


def _plan_batch_steps(
    terms: DescentTerms,
    guarantee: Guarantee | None,
    noise: float | None,
    batch_size: int,
    sampling: str,
) -> DescentPlan:
    """Plan a descent whose steps read random batches; n is public.

    The parameters are those of `plan_replace_one`.
    """
    # The clip is enlarged by rounding errors, so that the accounting covers them.
    manifold, n, steps, clip, dtype = terms
    charged_clip = accounting.rounded_clip(clip, manifold.dim, dtype, n, batch_size)
    charged = (n, steps, batch_size, charged_clip)
    noise_std, implied_guarantee = accounting.noise_and_guarantee(
        guarantee,
        noise,
        partial(accounting.rsgd_noise, *charged, sampling=sampling),
        partial(accounting.rsgd_guarantee, *charged, sampling=sampling),
    )
    mechanism = BatchDescentMechanism(
        statistic=ClippedGradient(manifold, charged_clip, n),
        steps=steps,
        noise=noise_std,
        batch_size=batch_size,
        sampling=sampling,
    )
    return DescentPlan(
        mechanism=mechanism,
        guarantee=guarantee or implied_guarantee,
        noise_std=noise_std,
        noise_unit=noise_std,
        mean_scale=None,
        batch_size=batch_size,
        uses_all_records=False,
    )


def plan_add_remove(
    terms: DescentTerms,
    guarantee: Guarantee,
    sampling_rate: float,
    randomness: Randomness,
) -> DescentPlan:
    """Plan a descent if n is private, because a record may be added or removed.

    This function draws a noisy count of the records, which the run releases and pays
    for. Each step then divides a noisy sum of gradients by this count.

    Parameters
    ----------
    terms : DescentTerms
        Manifold, number of records (which is private), number of steps, clip, and
        precision.
    guarantee : Guarantee
        The guarantee that the run must satisfy, for the adjacency add-remove.
    sampling_rate : float
        The public probability that a record is in a batch; 1 takes all.
    randomness : Randomness
        The source of the noise of the count.

    Returns
    -------
    DescentPlan
        The mechanism, its noise and its guarantee. Its `mean_scale` contains the noisy
        count. Its `batch_size` depends on n and is NOT public.
    """
    manifold, n, steps, clip, dtype = terms
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
    """Return the mechanism that `dp_rgd` will carry out in double precision.

    Called by an estimator before it runs `dp_rgd`, so that a guarantee that no noise
    satisfies is refused before anything is charged.

    Parameters
    ----------
    problem : Problem
        The loss and its manifold.
    n : int
        The number of records, or of people, which is public.
    steps : int
        The number of gradient steps.
    clip : float
        The largest length of a record's gradient.
    guarantee : Guarantee
        The guarantee that the run must satisfy.

    Returns
    -------
    DescentMechanism
        The mechanism of the run, with the smallest noise that suffices.

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
    accounting.check_guarantee_or_noise(guarantee, noise, "replace-one", ADD_REMOVE)
    return guarantee is not None and guarantee.adjacency == ADD_REMOVE
