"""Divide one GDP guarantee among the parts of an estimator that releases several things.
The squares μ² of Gaussian DP add up when releases are composed. So a part that takes
the share s of the budget is calibrated to GDP(μ√s).
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Any

from curvedp.errors import BudgetExceeded, ParameterError, ReleaseWarning
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
from curvedp.privacy.unit import PrivacyUnit

# So that the parts together are not more than the whole in floats.
_ROUNDED_DOWN = 1 - 1e-12


def check_divisible(guarantee: Any, release_name: str) -> GDP:
    """Check that a guarantee can be divided among several releases, and return it.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of all parts together.
    release_name : str
        The name of the release that has several parts, such as "comparison". It is
        for the error message.

    Returns
    -------
    GDP
        The same guarantee.

    Raises
    ------
    ParameterError
        Unless it is GDP for replacing one record: other definitions have no exact rule
        by which parts add up to the whole.
    """
    if isinstance(guarantee, GDP) and guarantee.adjacency == "replace-one":
        return guarantee
    raise ParameterError(
        f"must be GDP, such as GDP(1.0), because a {release_name} has several parts",
        parameter="guarantee",
        value=guarantee,
    )


@contextmanager
def collect_release_warnings() -> Iterator[list[str]]:
    """Hold back the warnings of a release in several parts until all parts are paid.

    If a user turns warnings into errors, a warning after the first payment would end
    the release, and that payment would be lost. Warnings other than `ReleaseWarning`
    are issued at the end.

    Yields
    ------
    list of str
        The texts of the warnings, each once. It is filled when the context ends.
    """
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReleaseWarning)
        yield texts
    for warning in caught:
        if not issubclass(warning.category, ReleaseWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif str(warning.message) not in texts:
            texts.append(str(warning.message))


def issue_warnings(texts: Iterable[str]) -> None:
    """Issue what `collect_release_warnings` has collected, at the caller's caller.

    Parameters
    ----------
    texts : iterable of str
        The texts of the warnings.
    """
    for text in texts:
        warnings.warn(text, ReleaseWarning, stacklevel=3)


def share_of_guarantee(guarantee: GDP, share: float) -> GDP:
    """Return the guarantee of one part of a release: a share of μ², rounded down.

    Under composition squares of μ add up. So parts whose shares add up to 1 satisfy the
    whole guarantee together.

    Parameters
    ----------
    guarantee : GDP
        The guarantee of all parts together.
    share : float
        The fraction of μ², in (0, 1].
    """
    return GDP(guarantee.mu * sqrt(share) * _ROUNDED_DOWN)


def check_ledger_can_pay(
    ledger: Ledger | None, guarantee: GDP, unit: PrivacyUnit, release_name: str
) -> None:
    """Check, before its first part, that a ledger can pay for a release in parts.

    The parts are charged one after the other. Without this check the budget might
    suffice for the first part only, which would then be spent in vain.

    Parameters
    ----------
    ledger : Ledger or None
        The ledger that is charged; None if there is none.
    guarantee : GDP
        The guarantee of all parts together.
    unit : PrivacyUnit
        The privacy unit of the parts, such as one record.
    release_name : str
        The name of the release that has several parts, such as "comparison". It is
        for the error message.

    Raises
    ------
    ParameterError
        If the ledger counts for another unit.
    BudgetExceeded
        If the ledger has less left than all parts need.
    """
    if ledger is None:
        return
    if ledger.unit is not None:
        check_ledger_unit(ledger, unit, release_name)
    remaining = ledger.remaining
    # The tolerance is for rounding in the sum of earlier charges.
    needed_mu = guarantee.mu * (1 - 1e-12)
    is_too_small = isinstance(remaining, GDP) and remaining.mu < needed_mu
    if remaining is None or is_too_small:
        raise BudgetExceeded(
            f"refused: the {release_name} at {guarantee} does not fit: "
            f"{remaining or 'nothing'} of {ledger.budget} remains"
        )


def check_ledger_unit(ledger: Ledger, unit: PrivacyUnit, release_name: str) -> None:
    """Refuse a ledger that does not count for exactly this unit.

    A unit is a record or a person. Budgets for different units cannot be added up.

    Parameters
    ----------
    ledger : Ledger
        The ledger that pays.
    unit : PrivacyUnit
        The privacy unit.
    release_name : str
        The name of the release, for the message, such as "comparison".

    Raises
    ------
    ParameterError
        If the ledger counts for another unit, or for none so far.
    """
    if ledger.unit is unit:
        return
    counted = "no unit so far" if ledger.unit is None else f"one {ledger.unit.words}"
    raise ParameterError(
        f"must count what a {release_name} protects, one {unit.words}, and "
        f"{ledger.path.name} counts for {counted}: start one for the unit "
        f"{unit.value!r} (curvedp ledger create … --unit {unit.value})",
        parameter="ledger",
    )
