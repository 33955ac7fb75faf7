"""Guarantees as events of Google's dp-accounting, for totals that other software keeps."""

from math import exp, inf, nextafter
from typing import Any

from curvedp.core.mechanism import check_guarantee
from curvedp.errors import MissingExtra, ParameterError
from curvedp.privacy import GDP, ZCDP, Guarantee, PureDP


def to_dp_event(guarantee: Guarantee) -> Any:
    """The event whose accountants never promise more than this guarantee does.

    A μ-GDP release is dominated by the Gaussian mechanism with noise multiplier 1/μ (Dong, Roth & Su 2022), a pure ε one by
    binary randomized response (Kairouz, Oh & Viswanath 2015), NOT by Laplace noise of scale 1/ε, which is more private.
    Ours are for replacing a record: give the accountant `NeighboringRelation.REPLACE_ONE`. With another relation it may
    promise more than is true: with REPLACE_SPECIAL ε = 0.62 at δ = 1e-5 for a pure ε of 1.

    Parameters
    ----------
    guarantee : GDP, PureDP or ZCDP
        Such as `mean.certificate_.guarantee`.

    Raises
    ------
    ParameterError
        For another definition, which has no event that is not more than it says, or another adjacency.
    MissingExtra
        Without dp-accounting.

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
        multiplier = 1 / guarantee.mu
        return GaussianDpEvent(
            multiplier
            if multiplier * guarantee.mu <= 1
            else nextafter(multiplier, -inf)
        )
    if isinstance(guarantee, PureDP):
        return RandomizedResponseDpEvent(
            nextafter(2 / (1 + exp(guarantee.eps)), -inf), 2
        )
    if isinstance(guarantee, ZCDP):
        return ZCDpEvent(guarantee.rho)
    raise ParameterError(
        f"{guarantee} has no event in dp-accounting; export GDP, PureDP or ZCDP"
    )
