"""Predicted errors of mechanisms, from public numbers alone. An error is the distance
from a released value to the true one. It is predicted by simulated releases of public
populations, sets of points that stand for the records. The *baseline* is the error of
publishing the public center instead.
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from curvedp.core.capabilities import NoisyDraw, PredictsError, SimulatesRelease
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import Mechanism
from curvedp.core.statistic import Ball, Statistic
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import frechet_mean
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.mechanisms.isotropic.base import ValueMechanism
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.release.rebuild import final_mechanism_of, recorded_draw_of
from curvedp.statistics.populations import Population, reference_populations

_SEED = 20230615
# Draws for each of three populations, times the dimension: the length of isotropic
# noise varies by about 1/√dim of itself, so the standard error is about a percent of
# the predicted error in every dimension.
_DRAWS_TIMES_DIM = 2048
# At least so many draws in many dimensions, where the length of noise hardly varies.
_MIN_DRAWS = 4
# Records of a population that stands for those of a release come in so many pairs.
_PAIRS_OF_RECORDS = 16


@lru_cache(maxsize=64)  # mechanisms are compared by identity
def predicted_error(mechanism: Mechanism) -> float:
    """Return the mean distance from a release to the true value.

    The release is simulated on public populations of records in the ball, unless the
    mechanism predicts its error itself. The result is the geometric mean over the
    populations, because ratios count. It is cached: warnings about a release ask for
    the error of a mechanism that was rebuilt from the certificate, and the next release
    often has the same public parameters.

    Parameters
    ----------
    mechanism : Mechanism
        A calibrated mechanism.

    Returns
    -------
    float
        In the units of the released value: the manifold's distance for a mean.

    Raises
    ------
    ParameterError
        If the mechanism can neither predict nor simulate, or has no public ball.
    """
    try:
        described = _DescribedMechanism.wrap(mechanism)
    except (CurvedpError, TypeError, ValueError):  # it cannot be written down
        return _predict(mechanism)
    return _predict_described(described)


@dataclass(frozen=True)
class _DescribedMechanism:
    """A mechanism that is compared by its class, its statistic and its public numbers.

    Attributes
    ----------
    kinds : tuple of type
        The classes of the mechanism, of its statistic and of the statistic's space.
    record : str
        The public numbers of the mechanism and of its statistic, as JSON.
    mechanism : Mechanism
        The mechanism itself, which is not compared.
    """

    kinds: tuple[type, ...]
    record: str
    mechanism: Mechanism = field(compare=False)

    @classmethod
    def wrap(cls, mechanism: Mechanism) -> "_DescribedMechanism":
        """Return a mechanism in a form that is a key of the cache of predicted errors.

        Parameters
        ----------
        mechanism : Mechanism
            A calibrated mechanism.
        """
        statistic = mechanism.statistic
        kinds = (type(mechanism), type(statistic), type(statistic.value_space))
        public_numbers = [mechanism.parameters, statistic.to_dict()]
        return cls(kinds, json.dumps(public_numbers, sort_keys=True), mechanism)


@lru_cache(maxsize=64)
def _predict_described(described: _DescribedMechanism) -> float:
    """Return the predicted error of a mechanism. The result is cached.

    Parameters
    ----------
    described : _DescribedMechanism
        The mechanism, in a form that a cache can use as a key.
    """
    return _predict(described.mechanism)


@np.errstate(all="ignore")  # simulated noise may leave the floats
def _predict(mechanism: Mechanism) -> float:
    """Return the predicted error of a mechanism, computed anew.

    Parameters
    ----------
    mechanism : Mechanism
        A calibrated mechanism.
    """
    if isinstance(mechanism, PredictsError):
        return float(mechanism.predict_error())
    ball = mechanism.statistic.value_ball
    if ball is None or not isinstance(mechanism, SimulatesRelease):
        raise ParameterError(
            f"the error of a {mechanism.statistic.name} is not predicted: it has no "
            "public ball"
        )

    # One array for all populations, so that releases are simulated together.
    space = mechanism.statistic.value_space
    populations = reference_populations(space, ball)
    means = np.stack([population.mean for population in populations])[:, None]
    records = np.stack([population.records for population in populations])
    draws = max(_MIN_DRAWS, _DRAWS_TIMES_DIM // space.dim)
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

    The error of a mechanism is predicted from the distances of these releases to the
    true values.

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
    if isinstance(mechanism, ValueMechanism):  # it adds noise to the mean itself
        return mechanism.simulate(rng, means, (len(records), draws))
    if isinstance(mechanism, NewtonMechanism):  # it takes all populations at once
        return mechanism.simulate(rng, records, draws)
    releases = [mechanism.simulate(rng, population, draws) for population in records]
    return np.stack(releases)


def predicted_error_of_release(certificate: Certificate) -> float:
    """Return the mean distance from a released value to the true one.

    It is the predicted error of the mechanism that made the last draw. Where a step was
    taken on a space of positive curvature, its error depends much on how far the
    records are. If their mean square distance was released, the step is simulated on
    records that are as far from their mean, and whose mean is as far from the center,
    as the released numbers say.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    float
        In the units of the released value. Post-processing: it is as public as the
        certificate.

    Raises
    ------
    ParameterError
        If the error of the mechanism is not predicted.
    """
    final_mechanism = final_mechanism_of(certificate)
    if not (
        isinstance(final_mechanism, GradientMechanism)
        and final_mechanism.releases_mean_square
    ):
        return predicted_error(final_mechanism)
    if final_mechanism.manifold.curvature_bounds[1] <= 0:
        return predicted_error(final_mechanism)
    if certificate.release["integers"] is None:  # it has the hash of a large draw alone
        return predicted_error(final_mechanism)
    population = _population_of_release(final_mechanism, recorded_draw_of(certificate))
    rng = np.random.default_rng(_SEED)
    draws = max(_MIN_DRAWS, _DRAWS_TIMES_DIM // final_mechanism.manifold.dim)
    with np.errstate(all="ignore"):  # simulated noise may leave the floats
        released = final_mechanism.simulate(rng, population.records, draws)
        distances = np.asarray(final_mechanism.manifold.dist(population.mean, released))
    return float(np.mean(distances))


def _population_of_release(
    final_mechanism: GradientMechanism, draw: NoisyDraw
) -> Population:
    """Return public records with the mean and the mean square that were released.

    Half of the records lie in random directions at the released spread from the mean,
    the other half opposite to them, so that their mean is the released one.

    Parameters
    ----------
    final_mechanism : GradientMechanism
        The mechanism that released both moments of the logarithms.
    draw : NoisyDraw
        The noisy mean logarithm of that release, with the noisy mean square.

    Returns
    -------
    Population
        32 records and their Fréchet mean.
    """
    manifold = final_mechanism.manifold
    moments = draw.mean_square
    assert moments is not None  # a step is divided only if it was released
    mean_square = min(max(moments.value, 0.0), final_mechanism.clipping_radius**2)
    mean = final_mechanism.point_after_step(
        np.append(draw.value, final_mechanism.entry_of_mean_square(mean_square))
    )
    # By Pythagoras: about the center the mean square is larger, by the mean's distance.
    offset = float(manifold.dist(final_mechanism.center, mean))
    spread = sqrt(max(mean_square - offset**2, 0.0))

    rng = np.random.default_rng(_SEED)
    directions = rng.standard_normal((_PAIRS_OF_RECORDS, manifold.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    coordinates = spread * np.concatenate([directions, -directions])
    records = np.asarray(manifold.from_normal_coordinates(mean, coordinates))
    # Pairs have the middle as their mean, but not on a space with an edge.
    return Population(records, np.asarray(frechet_mean(manifold, records)))


def predicted_error_or_none(mechanism: Mechanism) -> float | None:
    """Return a mechanism's predicted error, or None if it can predict none.

    Parameters
    ----------
    mechanism : Mechanism
        A calibrated mechanism.
    """
    try:
        return predicted_error(mechanism)
    except CurvedpError:
        return None


@lru_cache(maxsize=64)  # statistics are compared by identity
def baseline_error(statistic: Statistic) -> float:
    """Return the error of publishing the public center instead of a release.

    A release with a larger predicted error is useless. The baseline is the geometric
    mean of the center's distances to the means of the public populations, and at most a
    third of the radius.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.

    Returns
    -------
    float
        In the units of the released value.

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
    populations = reference_populations(space, ball)
    means = np.stack([population.mean for population in populations])
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
