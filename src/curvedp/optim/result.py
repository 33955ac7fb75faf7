"""What an optimizer returns."""

from typing import Any, NamedTuple

import numpy as np

from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice, ReleaseTerms, describe_mechanism
from curvedp.errors import ParameterError
from curvedp.privacy import Guarantee


class OptimResult(NamedTuple):
    """The private point and what it costs.

    Attributes
    ----------
    point, guarantee : array and Guarantee
        The point, which is private, and what it costs.
    noise : float or array
        The standard deviation of the tangent noise on the averaged gradient.
    history : array or None
        Where it was asked for, the objective on the data after each recorded step: computed without noise, so NOT private.
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
    certificate: Any = (
        None  # why the point may be published; None where the manifold has no name
    )


def finished(
    mechanism: Any,
    point: Any,
    guarantee: Any,
    noise: Any,
    random: Any,
    history: Any,
    marks: Any,
    groups: Any,
) -> OptimResult:
    """The result of a descent with its certificate: what it cost, from which bits, for whom; None where the manifold has
    no name."""
    point = np.asarray(point)
    told = (
        np.concatenate([np.asarray(part) for part in history])[marks.ravel()]
        if marks.any()
        else None
    )
    try:
        describe_mechanism(mechanism)
    except ParameterError:
        return OptimResult(point, guarantee, noise, told)
    unit = None if groups is None else ProtectedUnit.PERSON
    release = mechanism.release(
        lambda _: point,
        source=random.source,
        terms=ReleaseTerms(guarantee, unit, Choice(ChoiceRule.ONLY_ONE)),
    )
    return OptimResult(point, guarantee, noise, told, certificate=release.certificate)
