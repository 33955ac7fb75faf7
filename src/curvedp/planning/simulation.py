"""Simulate releases of made-up records for a `Plan`: how wide the confidence region of
the release would be, and how often a two-sample test would find a difference.
"""

from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

from curvedp import _validate
from curvedp.core.mechanism import Mechanism
from curvedp.errors import ParameterError
from curvedp.numerics.threads import one_blas_thread
from curvedp.randomness import GeneratorSource
from curvedp.release.choose import choose_mechanism
from curvedp.release.predict import reference_ball
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.populations import (
    Population,
    population_of_spread,
    reference_populations,
)
from curvedp.statistics.searched_ball import SearchedMean

if TYPE_CHECKING:
    from curvedp.planning.result import Plan

__all__ = [
    "MAX_SIMULATED_RECORDS",
    "check_region_can_be_simulated",
    "simulated_power",
    "simulated_region_radius",
]

# The most records of a release that `Plan.region` simulates.
MAX_SIMULATED_RECORDS = 10**5

# Tests that are simulated to estimate a power, the public seed of the simulation, and
# the fewest permutations of each test.
_SIMULATED_TESTS = 200
_POWER_SEED = 20231019
_MIN_PERMUTATIONS = 99


def simulated_region_radius(plan: "Plan", level: float) -> float:
    """Return the radius of the confidence region of one simulated release.

    The release is that of the plan's best mechanism.

    Parameters
    ----------
    plan : Plan
        The plan of one mean.
    level : float
        The probability that the region covers the truth.
    """
    # This import is slow, and most plans do not need it.
    from curvedp.inference import region_of

    statistic = _planned_mean(plan)
    choice = choose_mechanism(plan.mechanism, statistic, plan.guarantee)
    population = _simulated_population(plan, statistic)
    data = _simulated_data(choice.mechanism, population, plan.n)

    with one_blas_thread():
        source = GeneratorSource(np.random.default_rng(0))
        simulated_release = choice.mechanism.release(data, source=source)
        return region_of(simulated_release.certificate, level).radius


def check_region_can_be_simulated(plan: "Plan") -> None:
    """Refuse plans of anything but a single mean, and of too many records.

    Parameters
    ----------
    plan : Plan
        The plan that was asked for its region.

    Raises
    ------
    ParameterError
        If `simulated_region_radius` cannot simulate a confidence region.
    """
    has_too_many_records = plan.n > MAX_SIMULATED_RECORDS
    if plan.releases_one_mean and not has_too_many_records:
        return
    if plan.statistic == "synthetic":
        raise ParameterError(
            "synthetic records have no region: combine_synthetic gives error bars "
            "of what is computed from them"
        )
    if plan.statistic == "starter-kit":
        raise ParameterError(
            "a starter kit has no region: its error is the share of wrong trials"
        )
    if has_too_many_records:
        subject = f"{plan.n} records"
    else:
        subject = f"a {plan.statistic_name}"
    raise ParameterError(
        f"the region of {subject} is known after the release; its noise is `error`"
    )


def _planned_mean(plan: "Plan") -> FrechetMean | SearchedMean:
    """Return the mean that the planned release has as its statistic.

    Parameters
    ----------
    plan : Plan
        The plan of one mean.
    """
    if plan.has_private_ball:
        return SearchedMean(plan.manifold, plan.center, plan.outer_radius, plan.n)
    assert isinstance(plan.radius, float), "a mean in a public ball has a radius"
    return FrechetMean(plan.manifold, plan.center, plan.radius, plan.n)


def _simulated_population(
    plan: "Plan", statistic: FrechetMean | SearchedMean
) -> Population:
    """Return made-up records with their Fréchet mean, for a simulated release.

    Parameters
    ----------
    plan : Plan
        The plan of one mean.
    statistic : FrechetMean or SearchedMean
        The planned statistic, with its ball.
    """
    if isinstance(statistic, SearchedMean):
        return population_of_spread(
            plan.manifold,
            statistic.center,
            plan.spread,
            plan.n,
            statistic.reference_shape,
        )
    ball = reference_ball(statistic)
    assert ball is not None, "every statistic that is planned has a ball"
    return reference_populations(plan.manifold, ball)[0]


def _simulated_data(mechanism: Mechanism, population: Population, n: int) -> np.ndarray:
    """Return the data that a mechanism needs for a simulated release.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that is simulated.
    population : Population
        Made-up records with their mean.
    n : int
        The number of records of the release.

    Returns
    -------
    array
        The mean, if the mechanism reads the statistic's value; otherwise the records,
        repeated or cut to n.
    """
    if mechanism.info.reads == "value":
        return population.mean
    return np.resize(population.records, (n, *population.mean.shape))


def simulated_power(
    plan: "Plan",
    radius: float,
    shift: float,
    spread: float,
    sample_sizes: list[int],
    level: float,
) -> float:
    """Return the share of simulated two-sample tests that find a difference.

    Parameters
    ----------
    plan : Plan
        The plan whose space, center and guarantee the tests have.
    radius : float
        The radius of the public ball.
    shift : float
        The distance between the centers of the two populations, in the normal chart at
        the center of the ball.
    spread : float
        The root mean square distance of the records to the center of their population.
    sample_sizes : list of two int
        The number of records in each sample.
    level : float
        The level of the test.

    Returns
    -------
    float
        The share of 200 tests that reject.
    """
    # These imports are slow, and most plans do not need them.
    from curvedp.inference.kernel import SamplesDistance
    from curvedp.inference.permutation import PermutationMechanism

    statistic = SamplesDistance(plan.manifold, plan.center, radius, sample_sizes)
    level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
    permutations = max(_MIN_PERMUTATIONS, ceil(1 / level))
    mechanism = PermutationMechanism.calibrate(statistic, plan.guarantee)
    test = mechanism.at_level(level, permutations)

    rng = np.random.default_rng(_POWER_SEED)
    rejections = 0
    for _ in range(_SIMULATED_TESTS):
        records = _two_shifted_samples(
            rng, sample_sizes, plan.manifold.dim, shift, spread, radius
        )
        rejections += test.simulate_decision(rng, records)
    return rejections / _SIMULATED_TESTS


def _two_shifted_samples(
    rng: np.random.Generator,
    sample_sizes: list[int],
    dim: int,
    shift: float,
    spread: float,
    radius: float,
) -> np.ndarray:
    """Draw two normal samples of vectors whose centers are `shift` apart.

    The vectors are coordinates in a chart of a ball.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the samples.
    sample_sizes : list of two int
        The number of records in each sample.
    dim : int
        The dimension of the chart.
    shift : float
        The distance between the two centers, which lie on either side of the origin.
    spread : float
        The root mean square distance of a sample's records to its center.
    radius : float
        Records that are farther from the origin are clipped to this length.

    Returns
    -------
    array of shape (sum of the sizes, dim)
        The records of the first sample, followed by those of the second.
    """
    first_axis = np.eye(1, dim)
    offsets = np.repeat([shift / 2, -shift / 2], sample_sizes)
    centers = offsets[:, np.newaxis] * first_axis
    noise = rng.standard_normal((sum(sample_sizes), dim))
    spread_per_axis = spread / sqrt(dim)
    records = centers + spread_per_axis * noise
    lengths = np.linalg.norm(records, axis=1, keepdims=True)
    clipping_factors = np.minimum(1.0, radius / lengths)
    return np.asarray(records * clipping_factors)
