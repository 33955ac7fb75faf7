"""Plan statistics whose records are clipped to a public ball: predict the error of each
mechanism that can release them.
"""

from math import pi

import numpy as np

from curvedp import _validate
from curvedp.core.statistic import ClippedToBall
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.mechanisms.staged.step_to_mean import releases_in_public_ball
from curvedp.numerics.threads import one_blas_thread
from curvedp.planning.request import PlanRequest
from curvedp.planning.result import Plan
from curvedp.privacy import Guarantee
from curvedp.release.choose import choose_mechanism, rank_mechanisms
from curvedp.release.predict import baseline_error, predicted_error, reference_ball
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.population import SyntheticPopulation
from curvedp.statistics.tangent_moments import TangentMoments

__all__ = [
    "USELESS_ANGLE",
    "plan_clipped_statistic",
    "plan_public_ball",
    "predict_errors",
]

# A first direction is of little use if it is farther than this from the true one, in
# radians: half a right angle.
USELESS_ANGLE = pi / 4


def plan_public_ball(request: PlanRequest) -> Plan:
    """Return the plan of a named statistic of records in a public ball.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`. The statistic is "mean", "dispersion" or
        "tangent-pca"; a regression is refused.

    Returns
    -------
    Plan
        The predicted error of each mechanism, best first.
    """
    # The statistic describes one class.
    ball = (request.manifold, request.center, request.radius, request.class_size)
    if request.statistic == "regression":
        raise ParameterError(
            "must be 'private' for a regression, which finds its speed and clip too",
            parameter="radius",
            value=request.radius,
        )
    if request.statistic == "tangent-pca":
        return _plan_tangent_pca(TangentMoments(*ball), request)
    if request.statistic == "dispersion":
        return plan_clipped_statistic(FrechetVariance(*ball), request)
    return plan_clipped_statistic(FrechetMean(*ball), request)


def plan_clipped_statistic(statistic: ClippedToBall, request: PlanRequest) -> Plan:
    """Return the plan of a statistic that any of several mechanisms can release.

    Parameters
    ----------
    statistic : ClippedToBall
        The statistic of the records of one class, with its public ball.
    request : PlanRequest
        The parameters of `plan`.

    Returns
    -------
    Plan
        The predicted error of each mechanism, best first.
    """
    errors, left_out = predict_errors(statistic, request.guarantee, request.mechanism)
    radius = float(statistic.radius)
    if request.statistic == "dispersion":
        spread = radius
        useless_error = _variance_of_half_ball(radius, statistic.manifold.dim)
    else:
        ball = reference_ball(statistic)
        assert ball is not None, "every statistic that is planned has a ball"
        spread = ball.radius
        useless_error = baseline_error(statistic)
    return Plan(
        manifold=statistic.manifold,
        n=request.n,
        radius=radius,
        guarantee=request.guarantee,
        center=np.asarray(statistic.center, dtype=np.float64),
        outer_radius=None,
        spread=spread,
        useless_error=useless_error,
        errors=errors,
        left_out=left_out,
        statistic=request.statistic,
        classes=request.classes,
    )


def _variance_of_half_ball(radius: float, dim: int) -> float:
    """Return the variance of records that fill a flat ball of half this radius.

    Parameters
    ----------
    radius : float
        The radius of the public ball.
    dim : int
        The dimension of the manifold.
    """
    return radius**2 / 4 * dim / (dim + 2)


def _plan_tangent_pca(statistic: TangentMoments, request: PlanRequest) -> Plan:
    """Return the plan of principal geodesics of records clipped to a public ball.

    Parameters
    ----------
    statistic : TangentMoments
        The statistic: the moments of the records' logarithms at the ball's center.
    request : PlanRequest
        The parameters of `plan`.

    Returns
    -------
    Plan
        The predicted angle of the first direction, for each mechanism.
    """
    with one_blas_thread():
        options = releases_in_public_ball(statistic, request.guarantee)
    if request.mechanism != "auto":
        name = _validate.choice("mechanism", request.mechanism, tuple(options))
        options = {name: options[name]}
    return Plan(
        manifold=statistic.manifold,
        n=statistic.n,
        radius=float(statistic.radius),
        guarantee=request.guarantee,
        center=np.asarray(statistic.center, dtype=np.float64),
        outer_radius=None,
        spread=float(statistic.radius),
        useless_error=USELESS_ANGLE,
        errors={name: option.angle for name, option in options.items()},
        left_out={},
        statistic="tangent-pca",
    )


def predict_errors(
    statistic: ClippedToBall | SyntheticPopulation,
    guarantee: Guarantee,
    mechanism: str,
) -> tuple[dict[str, float], dict[str, str]]:
    """Predict the error of the named mechanism, or of all of them with "auto".

    Parameters
    ----------
    statistic : ClippedToBall or SyntheticPopulation
        The statistic, with its ball.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.

    Returns
    -------
    errors : dict
        The predicted error by mechanism, best first.
    left_out : dict
        By mechanism, why no error was predicted for the others.

    Raises
    ------
    UnattainableGuarantee
        If no mechanism meets the guarantee.
    """
    with one_blas_thread():  # more threads do not pay for small matrices
        if mechanism != "auto":
            named_mechanism = choose_mechanism(
                mechanism, statistic, guarantee
            ).mechanism
            return {mechanism: predicted_error(named_mechanism)}, {}
        ranking = rank_mechanisms(statistic, guarantee)
    if not ranking.candidates:
        # A statistic without a sensitivity raises here, and says why it has none.
        _ = statistic.sensitivity
        reasons = "; ".join(
            f"{name}: {reason}" for name, reason in ranking.excluded.items()
        )
        raise UnattainableGuarantee(
            f"no mechanism meets {guarantee} on {statistic.manifold!r}: {reasons}"
        )
    errors = {name: candidate.error for name, candidate in ranking.candidates.items()}
    return errors, ranking.excluded
