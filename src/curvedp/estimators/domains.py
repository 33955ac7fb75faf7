"""The domain of each record, and the people who are protected in it.
A *domain* is a subject, a session or a site. Its name comes from the caller, or from
labels "domain/label" as pyRiemann writes them. A person whose records are in several
domains would be read several times, and is refused.
"""

import warnings
from typing import Any

import numpy as np

from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.privacy.unit import PrivacyUnit
from curvedp.records.base import is_chunked
from curvedp.records.identifiers import as_label_array
from curvedp.records.labels import Labels
from curvedp.records.persons import encode_persons

# What stands between a domain and a label in pyRiemann's extended labels.
_SEPARATOR = "/"

_GROUPS_ARE_DOMAINS = (
    "groups names the domains here, because there are no other: this release protects "
    "one record within its domain, not a person. Say domains=, and groups= for persons"
)


def domains_or_subjects(domains: Any, subjects: Any) -> Any:
    """Return the domains, which the caller may also have given as `subjects`.

    Parameters
    ----------
    domains : sequence of labels, or None
        The domain of each record.
    subjects : sequence of labels, or None
        The same under the name that MOABB gives it.

    Raises
    ------
    ParameterError
        If both are given.
    """
    if domains is not None and subjects is not None:
        raise ParameterError(
            "is another name of the domains: give one of the two", parameter="subjects"
        )
    return subjects if domains is None else domains


def domains_and_persons(y: Any, groups: Any, domains: Any) -> tuple[Any, Any]:
    """Return the domain of each record, and the people to protect or None.

    The domains are the ones that are given, else those in extended labels, else the
    groups.

    Parameters
    ----------
    y : sequence of labels, or None
        Maybe extended labels "domain/label".
    groups : sequence of ids, or None
        The person to whom each record belongs.
    domains : sequence of labels, or None
        The public domain of each record.

    Returns
    -------
    domains : sequence of labels
        The domain of each record.
    persons : sequence of ids, or None
        The person of each record; None if records are protected. So they are if the
        groups serve as domains, and a `ReleaseWarning` says it.

    Raises
    ------
    ParameterError
        If nothing names the domains.
    """
    if domains is not None:
        return domains, groups
    if _are_extended_labels(y):
        texts = as_label_array(y).tolist()
        return [text.split(_SEPARATOR)[-2] for text in texts], groups
    if groups is not None:
        warnings.warn(_GROUPS_ARE_DOMAINS, ReleaseWarning, stacklevel=3)
        return groups, None
    raise ParameterError(
        "domains are missing: name the domain of each record, or give labels "
        "'domain/label' as "
        "pyriemann.transfer.encode_domains makes them"
    )


def _are_extended_labels(y: Any) -> bool:
    """Return whether all labels are texts of the form "domain/label".

    pyRiemann writes the domain and the class of a record into one text. If labels are
    of this form, the domains are read from them.

    Parameters
    ----------
    y : sequence of labels, or None
        The labels of the records, as `pyriemann.transfer.encode_domains` may make.
    """
    if y is None or is_chunked(y):
        return False
    try:
        labels = as_label_array(y)
    except (TypeError, ValueError):
        return False
    return labels.ndim == 1 and all(
        isinstance(label, str) and _SEPARATOR in label for label in labels.tolist()
    )


def check_persons_in_domains(labels: Labels, persons: Any) -> None:
    """Refuse people who have records in several domains, and domains of one person.

    A person of several domains would be read once for each of these, and one charge
    would not cover that.

    Parameters
    ----------
    labels : Labels
        The public domain of each record.
    persons : sequence of ids
        The person to whom each record belongs.

    Raises
    ------
    ParameterError
        If a person is in several domains, or a domain has one person.
    """
    person_index = encode_persons(persons, len(labels.codes))
    _, first_record = np.unique(person_index, return_index=True)
    domain_of_person = labels.codes[first_record]
    if (domain_of_person[person_index] != labels.codes).any():
        raise ParameterError(
            "groups has a person with records in several domains, whom the guarantee "
            "would not protect; without persons one record within its domain is protected"
        )
    persons_per_domain = np.bincount(domain_of_person, minlength=len(labels.classes))
    if persons_per_domain.min() < 2:
        small_domain = labels.classes[int(persons_per_domain.argmin())]
        raise ParameterError(
            f"domain {small_domain} has one person only, whose mean cannot be released "
            "under a guarantee for persons; without persons one record within its domain "
            "is protected"
        )


def unit_within_domains(persons: Any) -> PrivacyUnit:
    """Return the privacy unit of a ledger for domains, which count as public classes.

    Parameters
    ----------
    persons : sequence of ids, or None
        The person to whom each record belongs.
    """
    if persons is None:
        return PrivacyUnit.RECORD_IN_CLASS
    return PrivacyUnit.PERSON_IN_CLASS
