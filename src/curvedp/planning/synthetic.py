"""Plan synthetic records: predict the energy distance between them and the real
records, for each model that could generate them, in a public or in a private ball.
"""

from math import sqrt

import numpy as np

from curvedp import _validate
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.numerics.threads import one_blas_thread
from curvedp.planning.public_ball import predict_errors
from curvedp.planning.request import PlanRequest
from curvedp.planning.result import Plan
from curvedp.statistics.population import (
    MODELS,
    SearchedPopulation,
    SyntheticPopulation,
)

__all__ = ["plan_synthetic"]

# Synthetic records are of little use from half of the energy distance of one point to
# records about it. For normal records of root mean square distance s the square of that
# is at most (2 − √2)·s.
_USELESS_SQUARED_ENERGY = (2 - sqrt(2)) / 4


def plan_synthetic(request: PlanRequest) -> Plan:
    """Return the plan of synthetic records, for the statistic "synthetic".

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`, with a public or a private radius.

    Returns
    -------
    Plan
        The predicted energy distance to the real records, for each model.
    """
    if request.has_private_ball:
        return _plan_in_private_ball(request)
    return _plan_in_public_ball(request)


def _plan_in_public_ball(request: PlanRequest) -> Plan:
    """Return the plan of synthetic records in a public ball, for every model.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`, with a public radius.
    """
    statistic = SyntheticPopulation(
        request.manifold, request.center, request.radius, request.n, request.classes
    )
    radius = float(statistic.radius)
    errors, left_out = predict_errors(statistic, request.guarantee, request.mechanism)
    # The public populations of a prediction fill half of the ball.
    typical_spread = radius / 2
    return Plan(
        manifold=statistic.manifold,
        n=statistic.n,
        radius=radius,
        guarantee=request.guarantee,
        center=np.asarray(statistic.center, dtype=np.float64),
        outer_radius=None,
        spread=radius,
        useless_error=_useless_energy_distance(typical_spread),
        errors=errors,
        left_out=left_out,
        statistic="synthetic",
        classes=statistic.classes,
    )


def _plan_in_private_ball(request: PlanRequest) -> Plan:
    """Return the plan of synthetic records in a ball that a private search finds.

    The error is that of a rehearsal: a simulated search and release of made-up records.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`, with `radius="private"`.
    """
    statistic = _searched_population(request)
    _validate.choice("mechanism", request.mechanism, ("auto", statistic.model))
    spread = statistic.reference_spread if request.spread is None else request.spread
    search = PrivateBallMechanism.calibrate(statistic, request.guarantee)
    with one_blas_thread():
        rehearsal = search.simulate_releases(spread)
    return Plan(
        manifold=statistic.manifold,
        n=statistic.n,
        radius="private",
        guarantee=request.guarantee,
        center=np.asarray(statistic.center, dtype=np.float64),
        outer_radius=statistic.outer_radius,
        spread=spread,
        useless_error=_useless_energy_distance(spread),
        errors={statistic.model: rehearsal.error},
        left_out={},
        statistic="synthetic",
        classes=statistic.classes,
        found_radius=rehearsal.radius,
        wide_radius=rehearsal.wide_radius,
    )


def _searched_population(request: PlanRequest) -> SearchedPopulation:
    """Return the population in a private ball, with the model that a release would take.

    A release takes the model that has the smallest error in a typical ball.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`, with `radius="private"`.
    """
    _validate.private_radius(request.radius)
    manifold, n, classes = request.manifold, request.n, request.classes
    any_model = SearchedPopulation(
        manifold, request.center, request.outer_radius, n, MODELS[0]
    )
    typical_ball = any_model.reference_ball
    typical = SyntheticPopulation(manifold, *typical_ball, n, classes)
    errors, _ = predict_errors(typical, request.guarantee, "auto")
    best_model = next(iter(errors))
    return SearchedPopulation(
        manifold, request.center, request.outer_radius, n, best_model, classes
    )


def _useless_energy_distance(spread: float) -> float:
    """Return the energy distance from which synthetic records are of little use.

    Parameters
    ----------
    spread : float
        The root mean square distance of the records to their mean.
    """
    return sqrt(_USELESS_SQUARED_ENERGY * spread)
