"""What an optimizer returns."""

from typing import Any, NamedTuple

from curvedp.errors import ParameterError
from curvedp.privacy import Guarantee


class OptimResult(NamedTuple):
    """The private point and what it costs.

    `history` is None, or, when it was asked for, the objective on the data after each recorded step: computed without
    noise, so NOT private. `noise` is the standard deviation of the tangent noise on the averaged gradient.

    Attributes
    ----------
    point : array
        Private.
    guarantee : Guarantee
        What it costs.
    noise : float or array
        Of the averaged gradients.
    history : array or None
        Of the objective.
    history_is_private : bool
        Whether that may leave.
    certificate : Certificate
        As of every release.

    Examples
    --------
    >>> from curvedp.privacy import GDP
    >>> result = OptimResult(point=[0.0, 1.0], guarantee=GDP(1.0), noise=0.1)
    >>> result.history is None  # it was not asked for
    True
    """

    point: Any
    guarantee: Guarantee
    noise: Any
    history: Any = None
    history_is_private: bool = False
    certificate: Any = None  # why the point may be published; None where the manifold has no name


def finished(
    mechanism: Any,
    point: Any,
    guarantee: Guarantee,
    noise: Any,
    random: Any,
    history: Any = None,
    persons: bool = False,
) -> OptimResult:
    """The result of a descent with its certificate: what it cost, from which bits, for whom; None where the manifold has
    no name."""
    try:
        mechanism.described()
    except ParameterError:
        return OptimResult(point, guarantee, noise, history)
    unit = mechanism.statistic.units[0] if persons else None
    release = mechanism.release(lambda _: point, source=random.source, guarantee=guarantee, unit=unit)
    return OptimResult(point, guarantee, noise, history, certificate=release.certificate)
