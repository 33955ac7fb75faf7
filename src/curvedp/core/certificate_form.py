"""What each field of a certificate may hold: types, forms and closed lists.

A certificate may come from a stranger, and its texts are printed in terminals and on
pages. Every field therefore has a form that is checked when a certificate is read,
whether or not a claim rests on it. `curvedp.release.verify` then compares what can be
recomputed.
"""

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any

from curvedp.core.codes import (
    ChoiceRule,
    PostProcessing,
    ProfileKind,
    ProtectedUnit,
    SamplingPath,
    TrustModel,
)
from curvedp.errors import ParameterError

# The packages whose versions a certificate records, besides Python.
PACKAGES = ("curvedp", "numpy", "scipy", "python-flint", "cryptography")
NOT_INSTALLED = "not installed"  # the version of a package that runs from its sources

# Characters of one text. The reason of a choice names every mechanism it left out.
_LONGEST_TEXT = 4000
_DEEPEST = 12  # objects and lists inside one another
_CLOCK_SKEW = timedelta(minutes=5)  # between the clocks of two machines

_64_DIGITS = re.compile(r"[0-9a-f]{64}")
# A public version by PEP 440: numbers and the words "a", "b", "rc", "post" and "dev". The
# local part ("+" and any letters) is not recorded, because it could say anything.
_VERSION = re.compile(
    r"[0-9]{1,8}(\.[0-9]{1,8}){0,5}((a|b|rc)[0-9]{1,8})?"
    r"(\.post[0-9]{1,8})?(\.dev[0-9]{1,8})?"
)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)

_OBJECTS = (
    "parameters",
    "statistic",
    "claims",
    "guarantee",
    "numerics",
    "entropy",
    "release",
    "software",
)
_TEXTS = (
    "mechanism",
    "manifold",
    "privacy_unit",
    "trust",
    "created",
    "schema",
    "sha256",
)
_NUMERICS = {"path", "slack", "profile"}
_ENTROPY = {"source", "cryptographic"}
_RELEASE = {"integers", "sha256", "stages", "post_processing", "choice"}
_CHOICE = {"rule", "predicted_errors", "excluded"}
_LEDGER = {"entry", "head"}


def is_plain_text(value: Any) -> bool:
    """Whether a value is a short text that looks the same wherever it is printed.

    It has no control, formatting or private characters (which hold escapes and marks
    that reverse the direction of writing), no line ends, no spaces but ordinary ones,
    and no marks that are drawn over other characters.

    Examples
    --------
    >>> is_plain_text("δ(1) ≤ 0.1"), is_plain_text("\\u202e"), is_plain_text("\\x1b[8m")
    (True, False, False)
    """
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        return False
    has_marks = any(unicodedata.category(letter).startswith("M") for letter in value)
    return value.isprintable() and not has_marks


def check_plain_text(name: str, value: Any) -> str:
    """Return a text that may be written into a certificate, or refuse it."""
    if not is_plain_text(value):
        raise ParameterError(
            f"{name} must be a text of at most {_LONGEST_TEXT} printable characters"
        )
    return str(value)


def is_lower_hex(value: Any) -> bool:
    """Whether a value is a text of 64 hexadecimal digits in lower case: a hash, a key."""
    return isinstance(value, str) and _64_DIGITS.fullmatch(value) is not None


def is_version(value: Any) -> bool:
    """Whether a value is the public version of a package, or says that there is none.

    Examples
    --------
    >>> is_version("2.1.0rc1"), is_version("2.1.0+audited"), is_version("2audited")
    (True, False, False)
    """
    if value == NOT_INSTALLED:
        return True
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def public_version(version: str) -> str:
    """Return the public part of a version, as certificates record it.

    A version that does not begin with one is recorded as `NOT_INSTALLED`.

    Examples
    --------
    >>> public_version("2.1.0.dev3+g1a2b3c"), public_version("unknown")
    ('2.1.0.dev3', 'not installed')
    """
    match = _VERSION.match(version)
    return NOT_INSTALLED if match is None else match.group()


def read_time(value: Any) -> datetime | None:
    """Return a time in ISO 8601 with its offset from UTC; None where it is no such time.

    Examples
    --------
    >>> read_time("2026-01-31T12:00:00+00:00").year, read_time("2026-02-31T12:00:00Z")
    (2026, None)
    """
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:  # the 31st of February
        return None


def lies_in_future(created: str) -> bool:
    """Whether a certificate's time is later than this machine's clock says."""
    time = read_time(created)
    return time is not None and time > datetime.now(UTC) + _CLOCK_SKEW


def check_form_of(record: Mapping[str, Any], names: set[str]) -> None:
    """Refuse a record that does not have the form of a certificate.

    Parameters
    ----------
    record : mapping
        The certificate as JSON values.
    names : set of str
        The names of its fields.

    Raises
    ------
    ParameterError
        Names the field that is missing, too many or not of its form. No value of the
        record is quoted.
    """
    if set(record) != names:
        wanted = ", ".join(sorted(names))
        raise ParameterError(f"it must have exactly the fields {wanted}")
    for name in names:
        _check_leaves(name, record[name], may_be_boolean=name == "entropy")
    for name in _OBJECTS:
        _require(name, isinstance(record[name], dict))
    for name in _TEXTS:
        _require(name, isinstance(record[name], str))
    _require("sensitivity", isinstance(record["sensitivity"], int | float))
    _require("sha256", is_lower_hex(record["sha256"]))
    _require("created", read_time(record["created"]) is not None)
    _require("privacy_unit", _are_codes([record["privacy_unit"]], ProtectedUnit))
    _require("trust", _are_codes([record["trust"]], TrustModel))
    _check_software(record["software"])
    _check_ledger(record["ledger"])
    _check_release(record["release"])
    _check_draw(record["numerics"], record["entropy"])


def _require(name: str, holds: bool) -> None:
    if not holds:
        raise ParameterError(f"the field {name} does not have its form")


def _check_leaves(
    name: str, value: Any, *, may_be_boolean: bool, depth: int = 0
) -> None:
    """Refuse what no field may hold: odd texts, numbers that are not finite, booleans.

    Python takes True for 1, so that a boolean would pass for a number; only `entropy`
    says yes or no.
    """
    _require(name, depth <= _DEEPEST)
    if isinstance(value, dict):
        for key in value:
            _require(name, is_plain_text(key))
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        for part in parts:
            if type(part) is not int:  # a certificate may list millions of integers
                _check_leaves(
                    name, part, may_be_boolean=may_be_boolean, depth=depth + 1
                )
    elif isinstance(value, bool):
        _require(name, may_be_boolean)
    elif isinstance(value, float):
        _require(name, isfinite(value))
    else:
        _require(name, value is None or type(value) is int or is_plain_text(value))


def _check_software(software: Mapping[str, Any]) -> None:
    """Known packages and their versions; curvedp is always among them."""
    known = {"python", *PACKAGES}
    _require("software", {"curvedp"} <= set(software) <= known)
    _require("software", all(is_version(version) for version in software.values()))


def _check_ledger(ledger: Any) -> None:
    """The number of an entry, from 1 on, and the hash of the ledger after it; or none."""
    if ledger is None:
        return
    _require("ledger", isinstance(ledger, dict) and set(ledger) == _LEDGER)
    _require("ledger", type(ledger["entry"]) is int and ledger["entry"] >= 1)
    _require("ledger", is_lower_hex(ledger["head"]))


def _check_release(release: Mapping[str, Any]) -> None:
    """Refuse a release whose integers, hash, stages or codes have another form."""
    _require("release", set(release) == _RELEASE)
    integers = release["integers"]
    if integers is not None:
        _require("release", isinstance(integers, list))
        _require("release", all(isinstance(part, list) for part in integers))
        all_whole = all(type(k) is int for part in integers for k in part)
        _require("release", all_whole)
    stages = release["stages"]
    _require("release", is_lower_hex(release["sha256"]))
    _require("release", isinstance(stages, list))
    _require("release", all(isinstance(stage, dict) for stage in stages))
    _require("release", _are_codes(release["post_processing"], PostProcessing))
    _check_choice(release["choice"])


def _check_choice(choice: Any) -> None:
    """Refuse a choice that is not a rule, predicted errors and names left out."""
    _require("release", isinstance(choice, dict) and set(choice) == _CHOICE)
    _require("release", _are_codes([choice["rule"]], ChoiceRule))
    errors = choice["predicted_errors"]
    _require("release", isinstance(errors, dict))
    _require("release", all(isinstance(error, float) for error in errors.values()))
    _require("release", isinstance(choice["excluded"], list))
    _require("release", all(isinstance(name, str) for name in choice["excluded"]))


def _are_codes(values: Any, codes: type[StrEnum]) -> bool:
    """Return whether a value is a list of codes of one kind."""
    known = {code.value for code in codes}
    return isinstance(values, list) and all(
        isinstance(value, str) and value in known for value in values
    )


def _check_draw(numerics: Mapping[str, Any], entropy: Mapping[str, Any]) -> None:
    """Refuse numerics or a random source that have another form."""
    _require("numerics", set(numerics) == _NUMERICS)
    _require("numerics", _are_codes([numerics["path"]], SamplingPath))
    _require("numerics", _are_codes([numerics["profile"]], ProfileKind))
    slack = numerics["slack"]
    _require("numerics", slack is None or isinstance(slack, float))
    _require("entropy", set(entropy) == _ENTROPY)
    _require("entropy", isinstance(entropy["source"], str))
    _require("entropy", type(entropy["cryptographic"]) is bool)
