"""Whose data a guarantee protects: one record, or one person with all their records.

A guarantee bounds what a change between two neighboring data sets can tell. The
adjacency says what is done (replace, or add and remove); the privacy unit says to what.
A bound for one record says little about a person with twenty, and a bound for changes
within a public class says nothing about a change of class. A ledger therefore counts
for one unit only (docs/howto/budget.md, "One unit of privacy").
"""

from enum import StrEnum
from typing import Any

from curvedp.errors import ParameterError


class PrivacyUnit(StrEnum):
    """What differs between two neighboring data sets.

    Attributes
    ----------
    RECORD
        One record with everything that belongs to it, such as its label. A person with
        k records is protected k times less.
    PERSON
        One person with all their records, however many.
    RECORD_IN_CLASS, PERSON_IN_CLASS
        The same, but the class of the record or person is public and never differs.

    Examples
    --------
    >>> PrivacyUnit("person") is PrivacyUnit.PERSON
    True
    >>> PrivacyUnit.RECORD.implies(PrivacyUnit.RECORD_IN_CLASS)
    True
    >>> PrivacyUnit.RECORD_IN_CLASS.implies(PrivacyUnit.RECORD)
    False
    """

    RECORD = "record"
    PERSON = "person"
    RECORD_IN_CLASS = "record_in_class"
    PERSON_IN_CLASS = "person_in_class"

    @property
    def in_class(self) -> "PrivacyUnit":
        """The same unit where its class is public and never differs."""
        if self in (PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_CLASS):
            return PrivacyUnit.RECORD_IN_CLASS
        return PrivacyUnit.PERSON_IN_CLASS

    @property
    def words(self) -> str:
        """The unit in words that follow "one", such as "record within its class"."""
        return _WORDS[self]

    def implies(self, other: "PrivacyUnit") -> bool:
        """Return whether a guarantee for this unit is a guarantee for the other one too.

        Data sets that differ in one record within its class differ in one record. So
        what bounds every change of a record bounds the changes within a class. The
        converse is false: a record that changes its class changes two classes and
        their sizes. Records and persons are kept apart both ways.

        Parameters
        ----------
        other : PrivacyUnit
            The unit for which a guarantee is needed.

        Returns
        -------
        bool
            True for the same unit, and from a unit to the same unit within its class.
        """
        return other in (self, self.in_class)


_WORDS = {
    PrivacyUnit.RECORD: "record",
    PrivacyUnit.PERSON: "person",
    PrivacyUnit.RECORD_IN_CLASS: "record within its public class",
    PrivacyUnit.PERSON_IN_CLASS: "person within their public class",
}


def check_unit(name: str, value: Any) -> PrivacyUnit | None:
    """Return a privacy unit by its name; None stays None.

    Parameters
    ----------
    name : str
        The parameter's name, for the error message.
    value : PrivacyUnit, str or None
        A unit, or its name.

    Returns
    -------
    PrivacyUnit or None
        The unit, or None if none was stated.

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
        f"must be {', '.join(repr(unit.value) for unit in PrivacyUnit)} or None",
        parameter=name,
        value=value,
    )
