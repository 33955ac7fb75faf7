"""What an optimizer returns: the private point, its cost, and its certificate."""

from typing import Any, NamedTuple

import numpy as np

from curvedp.core.certificate import Certificate
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice, ReleaseTerms, describe_mechanism
from curvedp.errors import ParameterError
from curvedp.mechanisms.optimizer import OptimizerMechanism
from curvedp.privacy import Guarantee
from curvedp.randomness import Source


class OptimResult(NamedTuple):
    """The private point that an optimizer returns, and what it costs.

    Attributes
    ----------
    point : array
        The point, which may be published.
    guarantee : Guarantee
        What it costs.
    noise : float or pair of floats
        The standard deviation of the tangent noise on the averaged gradient; on the sum
        where the number of records is private.
    history : array or None
        The objective on the data after each recorded step, where it was asked for. It
        is computed without noise, so it is NOT private.
    certificate : Certificate or None
        Why the point may be published; None where the manifold has no name by which
        another machine could rebuild it.

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
    certificate: Certificate | None = None


def make_result(
    mechanism: OptimizerMechanism,
    point: Any,
    guarantee: Guarantee,
    noise: Any,
    source: Source,
    history: np.ndarray | None,
    *,
    has_persons: bool,
) -> OptimResult:
    """Return the result of a descent, with a certificate where one can be written.

    Parameters
    ----------
    mechanism : OptimizerMechanism
        What the descent has released.
    point : array
        Its last iterate.
    guarantee : Guarantee
        What it cost.
    noise : float or pair of floats
        The standard deviation of the noise on an averaged gradient, or on a sum where
        the number of records is private.
    source : Source
        Where its random bits came from.
    history : array or None
        The recorded objectives, which are NOT private.
    has_persons : bool
        Whether a person, and not a record, is the unit of privacy.

    Returns
    -------
    OptimResult
        The point, what it cost, and a certificate. The certificate is None if the
        manifold is the user's own and has no name.
    """
    point = np.asarray(point)
    try:
        describe_mechanism(mechanism)
    except ParameterError:
        # The manifold is the user's own and cannot be named in a certificate.
        return OptimResult(point, guarantee, noise, history)

    # The noise was added in the steps: all that is left is to write the certificate.
    unit = ProtectedUnit.PERSON if has_persons else None
    release = mechanism.release(
        lambda _: point,
        source=source,
        terms=ReleaseTerms(guarantee, unit, Choice(ChoiceRule.ONLY_ONE)),
    )
    return OptimResult(point, guarantee, noise, history, release.certificate)
