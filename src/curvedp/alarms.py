"""What the user of a release should know, for free: from the released value and public parameters alone."""

from typing import Any

import numpy as np

from curvedp.errors import CurvedpError
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.choose import predicted_error, useless_error
from curvedp.mechanisms.verify import rebuild_mechanism

__all__ = ["alarms", "alarms_of", "foreseen_error", "released"]

_EDGE, _HOME = 0.1, 1e-9  # of the radius; records that were all moved onto the ball have their mean a little inside
_NOISY = 0.1  # of the radius: errors below do not need an alarm


def released(estimator: Any) -> list[tuple[str, np.ndarray, Certificate]]:
    """(what it is, its value, its certificate) of everything that a fitted estimator has released.

    Raises
    ------
    AttributeError
        If it is not fitted.
    """
    if hasattr(estimator, "certificates_"):
        names = [f"mean of class {label}" for label in estimator.classes_]
        return list(zip(names, estimator.means_, estimator.certificates_, strict=True))
    for name, what in (("location_", "location"), ("components_", "components"), ("footpoint_", "footpoint")):
        if hasattr(estimator, name):
            return [(what, np.asarray(getattr(estimator, name)), estimator.certificate_)]
    return [("variance", np.array([estimator.variance_]), estimator.certificate_)]


def alarms(estimator: Any) -> list[str]:
    """What should make the user of a fitted estimator think again, one line each: post-processing, so it costs nothing.

    Parameters
    ----------
    estimator : fitted estimator
        Any of curvedp's.

    Returns
    -------
    list of str
        Empty where nothing is odd, which proves nothing: what moving the records into the ball has done is not seen.

    Examples
    --------
    >>> from curvedp import GDP, PrivateFrechetMean
    >>> from curvedp.geometry import Euclidean
    >>> far = PrivateFrechetMean(Euclidean(2), radius=1.0, guarantee=GDP(50.0)).fit(np.full((1000, 2), 9.0))
    >>> alarms(far)[0][:42]
    'the release lies on the edge of the public'
    """
    found = [alarm for _, value, certificate in released(estimator) for alarm in alarms_of(value, certificate)]
    return list(dict.fromkeys(found))


def alarms_of(value: Any, certificate: Certificate) -> list[str]:
    """`alarms` of one released value."""
    mechanism = rebuild_mechanism(certificate)
    statistic, space = mechanism.statistic, mechanism.manifold
    ball = statistic.values
    if ball is None or np.shape(value) != space.point_shape:
        return []
    center = np.asarray(statistic.placed(np.asarray(ball.center)[None])[0])
    away = float(space.dist(center, np.asarray(value)))
    edge = _EDGE if getattr(statistic, "manifold", None) is space else _HOME  # a variance may well be near 0
    return [*_place(away, ball.radius, edge, mechanism.afterwards), *_noise(away, ball.radius, mechanism)]


def _place(away: float, radius: float, edge: float, afterwards: list[str]) -> list[str]:
    if away >= radius * (1 - edge):
        return [
            "the release lies on the edge of the public ball: the ball is too small or misplaced, or noise dominates"
        ]
    if away <= radius * _HOME and any("shrinkage" in step for step in afterwards):
        return ["the release was shrunk to the public center: noise hides the statistic"]
    return []


def _noise(away: float, radius: float, mechanism: Any) -> list[str]:
    error = foreseen_error(mechanism)
    if error is None:
        return []
    if error >= useless_error(mechanism.statistic):
        return [f"the predicted error {error:.3g} is so large (radius {radius:g}) that the public center is as good"]
    if error >= max(away, _NOISY * radius):
        return [f"the release is nearer to the public center than its predicted error {error:.3g}: noise dominates"]
    return []


def foreseen_error(mechanism: Any) -> float | None:
    """The predicted error, of mechanisms that have one."""
    try:
        return predicted_error(mechanism)
    except (CurvedpError, AttributeError):  # one that does not predict
        return None
