"""Whose data a guarantee protects: one record, or one person with all their records.

A guarantee bounds what a change between two neighboring data sets can tell. The
adjacency says what is done (replace, or add and remove); the privacy unit says to what.
A bound for one record says little about a person with twenty: bounds for different
units do not add up, so a ledger counts for one unit only (docs/ledger.md, "One unit of
privacy").
"""

from enum import StrEnum
from typing import Any

from curvedp.errors import ParameterError


class PrivacyUnit(StrEnum):
    """What differs between two neighboring data sets.

    Attributes
    ----------
    RECORD
        One record. A person with k records is protected k times less.
    PERSON
        One person with all their records, however many.

    Examples
    --------
    >>> PrivacyUnit("person") is PrivacyUnit.PERSON
    True
    >>> f"{PrivacyUnit.RECORD}s are counted"
    'records are counted'
    """

    RECORD = "record"
    PERSON = "person"


def check_unit(name: str, value: Any) -> PrivacyUnit | None:
    """Return a privacy unit, or None where none is stated.

    Parameters
    ----------
    name : str
        The parameter's name, for the error message.
    value : PrivacyUnit, str or None
        A unit, or its name.

    Raises
    ------
    ParameterError
        For anything else.

    Examples
    --------
    >>> check_unit("unit", "record")
    <PrivacyUnit.RECORD: 'record'>
    """
    if value is None:
        return None
    if isinstance(value, str) and value in list(PrivacyUnit):
        return PrivacyUnit(value)
    raise ParameterError(
        "must be 'record', 'person' or None", parameter=name, value=value
    )
