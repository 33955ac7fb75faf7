"""What the user of a release should know, for free: from the released values and public parameters alone."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from curvedp.errors import ParameterError
from curvedp.mechanisms.alarms import alarms_of
from curvedp.mechanisms.certificate import Certificate

__all__ = ["ReleasedValue", "Releasing", "alarms", "releases_of"]


class ReleasedValue(NamedTuple):
    """One value that a fitted estimator has released."""

    title: str  # what it is, in words
    value: Any  # the array that may be published
    certificate: Certificate  # why it may be published


@runtime_checkable
class Releasing(Protocol):
    """A fitted estimator that lists what it has released."""

    @property
    def releases(self) -> list[ReleasedValue]:
        """Everything that was released, in the order in which it is shown."""
        ...


def releases_of(estimator: Any) -> list[ReleasedValue]:
    """Return what a fitted estimator has released, or refuse anything else."""
    if not isinstance(estimator, Releasing):
        raise ParameterError(
            "a fitted estimator is needed, or a released value with its certificate"
        )
    return estimator.releases


def alarms(estimator: Releasing) -> list[str]:
    """What should make the user of any fitted estimator think again, one line each: post-processing, so it costs nothing.
    That nothing is odd proves nothing: what moving the records into the ball has done is not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import GDP, PrivateFrechetMean
    >>> from curvedp.geometry import Euclidean
    >>> far = PrivateFrechetMean(Euclidean(2), radius=1.0, guarantee=GDP(50.0)).fit(np.full((1000, 2), 9.0))
    >>> alarms(far)[0][:40]
    'the release lies on the edge of the ball'
    """
    lines = [
        line
        for release in releases_of(estimator)
        for line in alarms_of(release.value, release.certificate)
    ]
    return list(dict.fromkeys(lines))
