"""Whose data a guarantee protects: one record, or one person with all their records. A
guarantee compares two data sets that differ in one privacy unit: a record or a person.
In a data set with classes, the class of that record or person may be public.

A bound for one record says little about a person with twenty. A bound for changes
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
        One record with everything that belongs to it, such as its label. For a person with
        k records, the μ of GDP and the ε of pure DP are up to k times as large.
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
        """The variant of this unit whose class is public and never differs."""
        if self in (PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_CLASS):
            return PrivacyUnit.RECORD_IN_CLASS
        return PrivacyUnit.PERSON_IN_CLASS

    @property
    def words(self) -> str:
        """The unit in words that follow "one", such as "record within its class"."""
        return _WORDS[self]

    def implies(self, other: "PrivacyUnit") -> bool:
        """Return whether a guarantee for this unit is also one for the other unit.

        A guarantee for all changes of a record covers changes within its class. The
        converse is false: a record that moves to another class changes two classes and
        their sizes. Records and persons never imply each other here.

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


# How certificates, reports, ledgers and statements call a person in full.
PERSON_IN_FULL = "one person with all their records"

_WORDS = {
    PrivacyUnit.RECORD: "record",
    PrivacyUnit.PERSON: "person",
    PrivacyUnit.RECORD_IN_CLASS: "record within its public class",
    PrivacyUnit.PERSON_IN_CLASS: "person within their public class",
}


def check_unit(name: str, value: Any) -> PrivacyUnit | None:
    """Convert a user's argument to a privacy unit; None stays None.

    Parameters
    ----------
    name : str
        The name of the argument, for the error message.
    value : PrivacyUnit, str or None
        A unit, its name such as 'record', or None if the user chose none.

    Returns
    -------
    PrivacyUnit or None
        The unit.

    Raises
    ------
    ParameterError
        For any other value.

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
