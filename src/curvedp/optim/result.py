"""The result of a private optimizer: the point, its guarantee, and its certificate."""

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
    """The private point that an optimizer returns, with its guarantee and certificate.

    Attributes
    ----------
    point : array
        The point, which may be published.
    guarantee : Guarantee
        The guarantee that the point satisfies.
    noise : float or pair of floats
        The standard deviation of the noise on the averaged gradient, or on the sum of
        gradients if the number of records is private.
    history : array or None
        The objective on the data after each recorded step; None if it was not asked
        for. It is computed without noise, so it is NOT private.
    certificate : Certificate or None
        The certificate, with which anyone can check the guarantee. None if the manifold
        has no name by which another machine could rebuild it.

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
    """Return the result of a descent, with a certificate if one can be written.

    Parameters
    ----------
    mechanism : OptimizerMechanism
        The mechanism that the descent has carried out.
    point : array
        The last iterate.
    guarantee : Guarantee
        The guarantee that the descent satisfies.
    noise : float or pair of floats
        The standard deviation of the noise on an averaged gradient, or on a sum where
        the number of records is private.
    source : Source
        The source of the random bits of the descent.
    history : array or None
        The recorded objectives, which are NOT private.
    has_persons : bool
        Whether a person, and not a record, is the unit of privacy.

    Returns
    -------
    OptimResult
        The point, its guarantee, and the certificate, which is None if the manifold is
        the user's own and has no name.
    """
    point = np.asarray(point)
    try:
        describe_mechanism(mechanism)
    except ParameterError:
        # The manifold is the user's own and cannot be named in a certificate.
        return OptimResult(point, guarantee, noise, history)

    # The noise was added in the steps, so that only the certificate is written here.
    unit = ProtectedUnit.PERSON if has_persons else None
    release = mechanism.release(
        lambda _: point,
        source=source,
        terms=ReleaseTerms(guarantee, unit, Choice(ChoiceRule.ONLY_ONE)),
    )
    return OptimResult(point, guarantee, noise, history, release.certificate)
