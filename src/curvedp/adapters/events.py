"""Guarantees as events of Google's dp-accounting. An *event* describes a mechanism that
loses at least as much privacy as ours; other software adds such events up.
"""

from fractions import Fraction
from math import exp, inf, nextafter
from typing import TYPE_CHECKING

from curvedp.core.mechanism import check_guarantee
from curvedp.errors import MissingExtra, ParameterError
from curvedp.numerics.directed_rounding import round_down
from curvedp.privacy import GDP, ZCDP, Guarantee, PureDP

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Relative margin for the rounding of an exponential, a sum and a quotient.
_ROUNDING = 1e-15


def to_dp_event(guarantee: Guarantee) -> "DpEvent":
    """Return an event of dp-accounting that is at most as private as a guarantee.

    A μ-GDP release is dominated by the Gaussian mechanism with noise multiplier 1/μ
    (Dong, Roth & Su 2022). A pure ε-DP release is dominated by binary randomized
    response (Kairouz, Oh & Viswanath 2015), NOT by Laplace noise of scale 1/ε, which is
    more private. Parameters are rounded toward less privacy.

    Our guarantees are for replace-one adjacency: give the accountant
    `NeighboringRelation.REPLACE_ONE`. With another relation it may promise more than is
    true: with REPLACE_SPECIAL, ε = 0.62 at δ = 1e-5 for a pure ε of 1.

    Parameters
    ----------
    guarantee : GDP, PureDP or ZCDP
        The guarantee of a release, such as `mean.certificate_.guarantee`.

    Returns
    -------
    dp_accounting.DpEvent
        The event to give to an accountant.

    Raises
    ------
    ParameterError
        For another kind of guarantee, which no event describes without promising more,
        or for another adjacency.
    MissingExtra
        If dp-accounting is not installed.

    Examples
    --------
    >>> to_dp_event(GDP(0.5))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    check_guarantee(guarantee)
    try:
        from dp_accounting import GaussianDpEvent, RandomizedResponseDpEvent, ZCDpEvent
    except ImportError as error:
        raise MissingExtra(
            "events of dp-accounting need it: pip install dp-accounting"
        ) from error

    if isinstance(guarantee, GDP):
        return GaussianDpEvent(_reciprocal_rounded_down(guarantee.mu))
    if isinstance(guarantee, PureDP):
        # Each of the 2 answers is replaced by a uniform one with the probability
        # 2/(1 + e^ε). In terms of e^-ε a large ε does not overflow.
        decay = exp(-guarantee.eps)
        replacement_probability = round_down(2 * decay / (1 + decay), _ROUNDING)
        return RandomizedResponseDpEvent(max(0.0, replacement_probability), 2)
    if isinstance(guarantee, ZCDP):
        return ZCDpEvent(guarantee.rho)
    raise ParameterError(
        f"{guarantee} has no event in dp-accounting; export GDP, PureDP or ZCDP"
    )


def _reciprocal_rounded_down(mu: float) -> float:
    """Return a float that is at most 1/μ: a smaller multiplier is less noise.

    The comparison is exact. A product of floats may be rounded down to 1.

    Parameters
    ----------
    mu : float
        The parameter of a GDP guarantee.
    """
    reciprocal = 1 / mu
    if reciprocal < inf and Fraction(reciprocal) * Fraction(mu) <= 1:
        return reciprocal
    return nextafter(reciprocal, -inf)
