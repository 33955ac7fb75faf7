"""Plan private classifiers of covariance matrices: predict the share of new records
that each kind of classifier would misclassify. A starter kit is a classifier that was
made from a few people, and is used by new ones.
"""

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.mechanisms.staged.reduced_classifier import candidate_classifiers
from curvedp.numerics.threads import one_blas_thread
from curvedp.planning.advice import KIT_RADIUS
from curvedp.planning.request import PlanRequest
from curvedp.planning.result import Plan

__all__ = ["plan_classifier", "plan_starter_kit"]

# A classifier is of little use if it errs at least this often, relative to guessing.
_USELESS_SHARE_OF_GUESSING = 0.8


def plan_classifier(request: PlanRequest) -> Plan:
    """Return the plan of a classifier of covariance matrices of many channels.

    The classifiers reduce the matrices to a few components privately. They are named by
    the calls with which a user makes them, such as "PrivateSoftmax".

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`; there must be no ball.

    Returns
    -------
    Plan
        The predicted error rate of each call, best first.

    Raises
    ------
    ParameterError
        If the caller has named a ball.
    """
    ball = (request.radius, request.center, request.outer_radius)
    if any(parameter is not None for parameter in ball):
        raise ParameterError(
            "a classifier needs no ball: leave radius, center and outer_radius out"
        )

    candidates = candidate_classifiers(
        request.manifold, request.n, request.classes, request.guarantee
    )
    calls = list(candidates)
    if request.mechanism != "auto":
        call = _validate.choice("mechanism", request.mechanism, tuple(candidates))
        calls = [call]
    with one_blas_thread():
        errors = {call: candidates[call].predict_error() for call in calls}
    return _plan_classifier_calls(request, errors, spread=1.0)


def plan_starter_kit(request: PlanRequest) -> Plan:
    """Return the plan of a starter kit: how often it would be right for a new person.

    A starter kit is a set of released class means, from which new users calibrate.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`. Without a radius, a ball of radius 0.5 is compared
        with a private one. The spread is the distance of a person's class center from
        the identity.

    Returns
    -------
    Plan
        The predicted share of wrong trials by call, such as
        "PrivateStarterKit(radius=0.5)", best first.

    Raises
    ------
    ParameterError
        If the records are no covariance matrices, there are fewer than two classes, or
        a parameter is not usable.
    """
    # This import is slow, and most plans do not need it.
    from curvedp.neuro.class_centers import TYPICAL_SPREAD, predict_kit

    _check_kit_request(request)
    radii = _kit_radii(request.radius)
    stated_spread = TYPICAL_SPREAD if request.spread is None else request.spread
    spread = _validate.length("spread", stated_spread)

    radius_of_call = {
        f"PrivateStarterKit(radius={radius!r})": radius for radius in radii
    }
    if request.mechanism != "auto":
        call = _validate.choice("mechanism", request.mechanism, tuple(radius_of_call))
        radius_of_call = {call: radius_of_call[call]}

    channels = request.manifold.point_shape[0]
    errors = {}
    with one_blas_thread():  # more threads do not pay for small matrices
        for call, radius in radius_of_call.items():
            prediction = predict_kit(
                channels,
                request.classes,
                request.n,
                radius,
                request.guarantee,
                spread,
            )
            errors[call] = prediction.error
    return _plan_classifier_calls(request, errors, spread)


def _check_kit_request(request: PlanRequest) -> None:
    """Refuse parameters that a starter kit cannot have.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`.
    """
    if request.center is not None or request.outer_radius is not None:
        raise ParameterError(
            "a starter kit is centered at the identity: leave center and outer_radius "
            "out"
        )
    if not isinstance(request.manifold, SPD):
        raise ParameterError(
            "must be a space of covariance matrices, such as SPDAffineInvariant(8), "
            "for a starter kit",
            parameter="manifold",
            value=request.manifold,
        )
    if request.classes < 2:
        raise ParameterError(
            "must be two or more for a starter kit",
            parameter="classes",
            value=request.classes,
        )


def _kit_radii(radius: float | str | None) -> list[float | str]:
    """Return the radii that the plan of a starter kit compares.

    Parameters
    ----------
    radius : float, "private" or None
        The radius that the caller of `plan` states; None compares 0.5 with "private".
    """
    if radius is None:
        return [KIT_RADIUS, "private"]
    if isinstance(radius, str):
        _validate.private_radius(radius)
        return [radius]
    return [_validate.length("radius", radius)]


def _plan_classifier_calls(
    request: PlanRequest, errors: dict[str, float], spread: float
) -> Plan:
    """Return a plan that compares the calls which make a classifier.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`.
    errors : dict
        The predicted share of wrong answers, by call, in any order.
    spread : float
        The distance of class centers from the identity, for a starter kit.
    """
    guessing_error = 1 - 1 / request.classes
    calls_best_first = sorted(errors, key=errors.__getitem__)
    return Plan(
        manifold=request.manifold,
        n=request.n,
        radius=request.radius,
        guarantee=request.guarantee,
        center=None,
        outer_radius=None,
        spread=spread,
        useless_error=_USELESS_SHARE_OF_GUESSING * guessing_error,
        errors={call: errors[call] for call in calls_best_first},
        left_out={},
        statistic=request.statistic,
        classes=request.classes,
    )
