"""What the user of a release should know, for free: from the released values and public parameters alone."""

from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.mechanisms.alarms import alarms_of
from curvedp.mechanisms.certificate import Certificate

__all__ = ["alarms", "released"]


def released(estimator: Any) -> list[tuple[str, np.ndarray, Certificate]]:
    """(what it is, its value, its certificate) of everything that a fitted estimator has released."""
    if not (hasattr(estimator, "certificate_") or hasattr(estimator, "certificates_")):
        raise ParameterError(
            "a fitted estimator is needed, or a released value with its certificate="
        )
    if getattr(estimator, "reduce", None) is not None:  # one release for all classes
        return [
            (
                "weights of the classes",
                estimator.classifier_.weights,
                estimator.certificate_,
            )
        ]
    if hasattr(estimator, "certificates_"):
        names = [f"mean of class {label}" for label in estimator.classes_]
        return list(zip(names, estimator.means_, estimator.certificates_, strict=True))
    for name, what in (
        ("location_", "location"),
        ("components_", "components"),
        ("footpoint_", "footpoint"),
    ):
        if hasattr(estimator, name):
            return [
                (what, np.asarray(getattr(estimator, name)), estimator.certificate_)
            ]
    return [("variance", np.array([estimator.variance_]), estimator.certificate_)]


def alarms(estimator: Any) -> list[str]:
    """What should make the user of any fitted estimator think again, one line each: post-processing, so it costs nothing.
    That nothing is odd proves nothing: what moving the records into the ball has done is not seen.

    Examples
    --------
    >>> from curvedp import GDP, PrivateFrechetMean
    >>> from curvedp.geometry import Euclidean
    >>> far = PrivateFrechetMean(Euclidean(2), radius=1.0, guarantee=GDP(50.0)).fit(np.full((1000, 2), 9.0))
    >>> alarms(far)[0][:40]
    'the release lies on the edge of the ball'
    """
    found = [
        alarm
        for _, value, certificate in released(estimator)
        for alarm in alarms_of(value, certificate)
    ]
    return list(dict.fromkeys(found))
