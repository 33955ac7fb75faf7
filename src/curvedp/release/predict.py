"""Predicted errors of mechanisms, from public numbers alone."""

from functools import lru_cache
from typing import Any

import numpy as np

from curvedp.core.capabilities import PredictsError, SimulatesRelease
from curvedp.core.mechanism import Mechanism
from curvedp.core.statistic import Ball, Statistic
from curvedp.errors import CurvedpError, ParameterError
from curvedp.mechanisms.isotropic.base import ValueMechanism
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.statistics.populations import reference_populations

_SEED = 20230615
# Draws for each of three populations, times the dimension: the length of isotropic
# noise varies by about 1/√dim of itself, so the standard error is about a percent of
# the predicted error in every dimension.
_DRAWS_TIMES_DIM = 2048


@lru_cache(maxsize=64)  # mechanisms are compared by identity
@np.errstate(all="ignore")  # simulated noise may leave the floats
def predicted_error(mechanism: Mechanism) -> float:
    """Return the mean distance from a release to the true value.

    The release is simulated on public populations of records in the ball, unless the
    mechanism predicts its error itself. The result is the geometric mean over the
    populations, because ratios count.

    Parameters
    ----------
    mechanism : Mechanism
        A calibrated mechanism.

    Raises
    ------
    ParameterError
        If the mechanism can neither predict nor simulate, or has no public ball.
    """
    if isinstance(mechanism, PredictsError):
        return float(mechanism.predict_error())
    ball = mechanism.statistic.value_ball
    if ball is None or not isinstance(mechanism, SimulatesRelease):
        raise ParameterError(
            f"the error of a {mechanism.statistic.name} is not predicted: it has no "
            "public ball"
        )
    space = mechanism.statistic.value_space
    populations = reference_populations(space, ball)
    means = np.stack([population.mean for population in populations])[:, None]
    records = np.stack([population.records for population in populations])
    draws = max(4, _DRAWS_TIMES_DIM // space.dim)
    draws = min(draws, mechanism.max_simulated_draws)

    rng = np.random.default_rng(_SEED)
    released = _simulate_on(mechanism, rng, records, means, draws)
    errors = np.mean(np.asarray(space.dist(means, released)), axis=1)
    return float(np.exp(np.mean(np.log(errors))))


def _simulate_on(
    mechanism: SimulatesRelease,
    rng: np.random.Generator,
    records: np.ndarray,
    means: np.ndarray,
    draws: int,
) -> np.ndarray:
    """Simulate releases for several populations.

    Parameters
    ----------
    mechanism : SimulatesRelease
        The calibrated mechanism.
    rng : numpy.random.Generator
        The generator of the noise.
    records : array of shape (populations, n, *point_shape)
        The records of each population.
    means : array of shape (populations, 1, *point_shape)
        Their means.
    draws : int
        The number of releases for each population.

    Returns
    -------
    array of shape (populations, draws, *point_shape)
        The released values.
    """
    if isinstance(mechanism, ValueMechanism):
        return mechanism.simulate(rng, means, (len(records), draws))
    if isinstance(mechanism, NewtonMechanism):
        return mechanism.simulate(rng, records, draws)
    return np.stack([mechanism.simulate(rng, each, draws) for each in records])


def predicted_error_or_none(mechanism: Mechanism) -> float | None:
    """Return the predicted error, or None of a mechanism that does not predict."""
    try:
        return predicted_error(mechanism)
    except CurvedpError:
        return None


@lru_cache(maxsize=64)  # statistics are compared by identity
def baseline_error(statistic: Statistic) -> float:
    """Return the error at which the public center is as good as a release.

    It is the error of the center itself on the public populations, and at most a third
    of the radius.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.

    Raises
    ------
    ParameterError
        If the statistic has no public ball.
    """
    ball = reference_ball(statistic)
    if ball is None:
        raise ParameterError(
            f"the error of a {statistic.name} is not predicted: it has no public ball"
        )
    space = statistic.value_space
    means = np.stack([each.mean for each in reference_populations(space, ball)])
    distances = np.asarray(space.dist(ball.center, means))
    with np.errstate(divide="ignore"):  # 0 in a ball that doubles take for a point
        typical_distance = np.exp(np.mean(np.log(distances)))
    return float(min(ball.radius / 3, typical_distance))


def reference_ball(statistic: Any) -> Ball | None:
    """Return the ball of the public records for which errors are predicted.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.

    Returns
    -------
    Ball or None
        The public ball; for a private search, a typical result of it. None if the
        statistic has no ball.
    """
    from curvedp.statistics.searched_ball import SearchedBallStatistic

    if isinstance(statistic, SearchedBallStatistic):
        return statistic.reference_ball
    ball: Ball | None = statistic.value_ball
    return ball
