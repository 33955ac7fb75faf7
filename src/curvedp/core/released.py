"""What a fitted estimator has released, as a list that everyone reads.
Reports, the command line, the studio, warnings and regions ask an estimator for
`releases`; nobody looks for attributes such as `location_` by name.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError


class ReleasedValue(NamedTuple):
    """One value that a fitted estimator has released.

    Attributes
    ----------
    title : str
        What it is, in words.
    value : array
        What may be published.
    certificate : Certificate
        The certificate of the release.
    """

    title: str
    value: Any
    certificate: Certificate


@runtime_checkable
class Releasing(Protocol):
    """A fitted estimator that lists what it has released."""

    @property
    def releases(self) -> list[ReleasedValue]:
        """Everything that was released, in the order in which it is shown."""
        ...


def releases_of(estimator: Any) -> list[ReleasedValue]:
    """Return what a fitted estimator has released.

    Parameters
    ----------
    estimator : object
        What the caller passes as an estimator.

    Returns
    -------
    list of ReleasedValue
        One entry for each released value, in the order in which it is shown.

    Raises
    ------
    ParameterError
        If it is not an estimator of this library, or one like it.
    """
    if not isinstance(estimator, Releasing):
        raise ParameterError(
            "a fitted estimator is needed, or a released value with its certificate"
        )
    return estimator.releases
