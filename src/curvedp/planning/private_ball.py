"""Plan statistics with `radius="private"`: the release first finds a ball that holds
most records, and then releases a statistic of the records in it. The error is predicted
by a rehearsal: simulated releases of made-up records.
"""

import numpy as np

from curvedp import _validate
from curvedp.mechanisms.staged.ball_search import (
    PrivateBallMechanism,
    class_mean_statistic,
)
from curvedp.numerics.threads import one_blas_thread
from curvedp.planning.public_ball import USELESS_ANGLE
from curvedp.planning.request import PlanRequest
from curvedp.planning.result import Plan
from curvedp.release.warnings import USELESS_FRACTION
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    SearchedGeodesic,
    SearchedMean,
    SearchedVariance,
)
from curvedp.statistics.tangent_moments import SearchedTangentMoments

__all__ = ["plan_private_ball"]

# A mean or a geodesic is of little use if its error is at least this share of the
# spread of the records.
_USELESS_SHARE_OF_SPREAD = {
    "mean": USELESS_FRACTION,
    "regression": 2 * USELESS_FRACTION,
}


def plan_private_ball(request: PlanRequest) -> Plan:
    """Return the plan of a named statistic with a private search for the ball.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`, with `radius="private"`. The statistic is "mean",
        "dispersion", "regression" or "tangent-pca".

    Returns
    -------
    Plan
        The error of the rehearsal, and about the radius that would be found.
    """
    assert isinstance(request.statistic, str), "classes take a public ball"
    statistic = _searched_statistic(request)
    search_name = PrivateBallMechanism.info.name
    _validate.choice("mechanism", request.mechanism, ("auto", search_name))
    spread = statistic.reference_spread if request.spread is None else request.spread
    search = PrivateBallMechanism.calibrate(statistic, request.guarantee)
    with one_blas_thread():  # more threads do not pay for small matrices
        rehearsal = search.simulate_releases(spread)
    return Plan(
        manifold=statistic.manifold,
        n=request.n,
        radius="private",
        guarantee=request.guarantee,
        center=np.asarray(statistic.center, dtype=np.float64),
        outer_radius=statistic.outer_radius,
        spread=spread,
        useless_error=_useless_error(request.statistic, spread),
        errors={search_name: rehearsal.error},
        left_out={},
        statistic=request.statistic,
        classes=request.classes,
        found_radius=rehearsal.radius,
        wide_radius=rehearsal.wide_radius,
        median_error=rehearsal.median_error,
        clipped_share=search.clipped_share,
    )


def _searched_statistic(request: PlanRequest) -> BallSearchStatistic:
    """Return the planned statistic, with the outer ball in which a ball is searched.

    The ball is searched with the records of all classes. With several classes the
    release is the mean of one of them.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`, with `radius="private"`.
    """
    _validate.private_radius(request.radius)
    outer_ball = (request.manifold, request.center, request.outer_radius, request.n)
    if request.statistic == "regression":
        predictor_ranges = [(0.0, 1.0)]
        return SearchedGeodesic(*outer_ball, predictor_ranges)
    if request.statistic == "dispersion":
        return SearchedVariance(*outer_ball)
    if request.statistic == "tangent-pca":
        return SearchedTangentMoments(*outer_ball)

    mean = SearchedMean(*outer_ball)
    if request.classes == 1:
        return mean
    class_size = request.class_size
    return class_mean_statistic(mean, class_size, class_size, request.guarantee)


def _useless_error(statistic: str, spread: float) -> float:
    """Return the error from which a release in a private ball is of little use.

    Parameters
    ----------
    statistic : str
        The name of the statistic.
    spread : float
        The root mean square distance of the records to their mean.
    """
    if statistic == "dispersion":
        return spread**2
    if statistic == "tangent-pca":
        return USELESS_ANGLE
    return _USELESS_SHARE_OF_SPREAD[statistic] * spread
