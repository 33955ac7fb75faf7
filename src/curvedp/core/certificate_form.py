"""Check the format of a certificate: the type and the allowed values of every field.
A certificate may come from someone else, and its texts are printed in terminals and on
web pages. Every field is therefore checked when a certificate is read, whether or not a
privacy claim depends on it. Afterwards `curvedp.release.verify` recomputes the claims.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
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

# The recorded version of a package that is not installed but runs from its sources.
NOT_INSTALLED = "not installed"

# The longest text in a certificate, in characters. A list of excluded mechanisms can
# take some hundred; no text needs as many as this.
_MAX_TEXT_LENGTH = 4000

# How deeply objects and lists may be nested in a certificate.
_MAX_NESTING_DEPTH = 12

# How far the clocks of two machines may differ.
_CLOCK_SKEW = timedelta(minutes=5)

_64_HEX_DIGITS = re.compile(r"[0-9a-f]{64}")
# A public version by PEP 440: numbers and the words "a", "b", "rc", "post" and "dev".
# The local part ("+" and any letters) is not recorded, because it could say anything.
_VERSION_PATTERN = re.compile(
    r"[0-9]{1,8}(\.[0-9]{1,8}){0,5}((a|b|rc)[0-9]{1,8})?"
    r"(\.post[0-9]{1,8})?(\.dev[0-9]{1,8})?"
)
# A date and time in ISO 8601 with its offset from UTC.
_TIME_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)

# The fields of a certificate that are JSON objects.
_OBJECT_FIELDS = (
    "parameters",
    "statistic",
    "claims",
    "guarantee",
    "numerics",
    "entropy",
    "release",
    "software",
)
# The fields of a certificate that are texts.
_TEXT_FIELDS = (
    "mechanism",
    "manifold",
    "privacy_unit",
    "trust",
    "created",
    "schema",
    "sha256",
)
# The keys of the nested objects.
_NUMERICS_KEYS = {"path", "slack", "profile"}
_ENTROPY_KEYS = {"source", "cryptographic"}
_RELEASE_KEYS = {"integers", "sha256", "stages", "post_processing", "choice"}
_CHOICE_KEYS = {"rule", "predicted_errors", "excluded"}
_LEDGER_KEYS = {"entry", "head"}


def is_plain_text(value: Any) -> bool:
    """Return whether a value is a short text that looks the same in every terminal.

    Line breaks, unusual spaces and combining marks are not allowed. Neither are
    control, formatting or private-use characters, which could hide terminal escapes or
    reverse the direction of writing.

    Parameters
    ----------
    value : object
        Any JSON value.

    Examples
    --------
    >>> is_plain_text("δ(1) ≤ 0.1"), is_plain_text("\\u202e"), is_plain_text("\\x1b[8m")
    (True, False, False)
    """
    if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH:
        return False
    has_marks = any(unicodedata.category(letter).startswith("M") for letter in value)
    return value.isprintable() and not has_marks


def check_plain_text(name: str, value: Any) -> str:
    """Return `value` if it may be written into a certificate as a text.

    Parameters
    ----------
    name : str
        What the error message calls the value.
    value : object
        The value, which should be a text.

    Raises
    ------
    ParameterError
        If it is not a plain text; the message calls the value `name`.
    """
    if not is_plain_text(value):
        raise ParameterError(
            f"{name} must be a text of at most {_MAX_TEXT_LENGTH} printable characters"
        )
    return str(value)


def is_64_hex_digits(value: Any) -> bool:
    """Return whether a value is 64 lower-case hexadecimal digits: a SHA-256 or a key.

    Parameters
    ----------
    value : object
        Any JSON value.
    """
    return isinstance(value, str) and _64_HEX_DIGITS.fullmatch(value) is not None


def is_version(value: Any) -> bool:
    """Return whether a value is a public version by PEP 440, or `NOT_INSTALLED`.

    Parameters
    ----------
    value : object
        Any JSON value.

    Examples
    --------
    >>> is_version("2.1.0rc1"), is_version("2.1.0+audited"), is_version("2audited")
    (True, False, False)
    """
    if value == NOT_INSTALLED:
        return True
    return isinstance(value, str) and _VERSION_PATTERN.fullmatch(value) is not None


def public_version(version: str) -> str:
    """Return the public part of a package's version, as certificates record it.

    A version that does not follow PEP 440 is recorded as `NOT_INSTALLED`.

    Parameters
    ----------
    version : str
        A version as the metadata of a package states it.

    Examples
    --------
    >>> public_version("2.1.0.dev3+g1a2b3c"), public_version("unknown")
    ('2.1.0.dev3', 'not installed')
    """
    match = _VERSION_PATTERN.match(version)
    return NOT_INSTALLED if match is None else match.group()


def read_time(value: Any) -> datetime | None:
    """Parse a date and time in ISO 8601 with its offset from UTC.

    Parameters
    ----------
    value : object
        Any JSON value.

    Returns
    -------
    datetime or None
        None if the value is anything else.

    Examples
    --------
    >>> read_time("2026-01-31T12:00:00+00:00").year, read_time("2026-02-31T12:00:00Z")
    (2026, None)
    """
    if not isinstance(value, str) or _TIME_PATTERN.fullmatch(value) is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:  # the 31st of February
        return None


def lies_in_future(created: str) -> bool:
    """Return whether a certificate claims to be made after now, by this machine's clock.

    Differences of up to five minutes between two clocks are tolerated.

    Parameters
    ----------
    created : str
        The certificate's field `created`, in ISO 8601. A text that is no time does not
        lie in the future; another check refuses it.
    """
    time = read_time(created)
    return time is not None and time > datetime.now(UTC) + _CLOCK_SKEW


def check_form_of(record: Mapping[str, Any], names: set[str]) -> None:
    """Refuse a record that does not have the format of a certificate.

    Parameters
    ----------
    record : mapping
        The certificate as JSON values.
    names : set of str
        The names of its fields.

    Raises
    ------
    ParameterError
        If a field is missing, unknown or malformed. The message names the field, but
        quotes no value of the record.
    """
    if set(record) != names:
        expected_names = ", ".join(sorted(names))
        raise ParameterError(f"it must have exactly the fields {expected_names}")

    # First the values, then their kinds, then what each field may say.
    for name in names:
        _check_nested_values(name, record[name], may_be_boolean=name == "entropy")
    for name in _OBJECT_FIELDS:
        _require(name, isinstance(record[name], dict))
    for name in _TEXT_FIELDS:
        _require(name, isinstance(record[name], str))

    _require("sensitivity", isinstance(record["sensitivity"], int | float))
    _require("sha256", is_64_hex_digits(record["sha256"]))
    _require("created", read_time(record["created"]) is not None)
    _require("privacy_unit", _are_codes([record["privacy_unit"]], ProtectedUnit))
    _require("trust", _are_codes([record["trust"]], TrustModel))
    _require("software", are_versions(record["software"]))
    _check_ledger(record["ledger"])
    _check_release(record["release"])
    _check_draw(record["numerics"], record["entropy"])


def check_values(field: str, value: Any) -> None:
    """Refuse what the certificate's fields "statistic" and "parameters" may not contain.

    These are booleans, numbers that are not finite, texts that are not plain, and
    anything that JSON does not have.

    Parameters
    ----------
    field : str
        What the error message calls the field.
    value : object
        The value of the field.

    Raises
    ------
    ParameterError
        If a certificate with such a value would be refused.

    Examples
    --------
    >>> check_values("axis", [1.0, 0.0])
    >>> check_values("is_weighted", True)
    Traceback (most recent call last):
        ...
    curvedp.errors.ParameterError: the field is_weighted does not have the expected format
    """
    _check_nested_values(field, value, may_be_boolean=False)


def _require(field: str, is_well_formed: bool) -> None:
    """Raise `ParameterError` that names a field unless the field is well formed.

    Parameters
    ----------
    field : str
        The name of the field, which the message quotes. Its value is never quoted.
    is_well_formed : bool
        The result of a check of the field.
    """
    if not is_well_formed:
        raise ParameterError(f"the field {field} does not have the expected format")


def _check_nested_values(
    field: str, value: Any, *, may_be_boolean: bool, depth: int = 0
) -> None:
    """Refuse values that no field of a certificate may contain, at any depth.

    These are texts that are not plain, numbers that are not finite, and booleans: in
    Python True equals 1, so a boolean would pass as a number. Lists and objects are
    checked recursively.

    Parameters
    ----------
    field : str
        The name of the field, for the error message.
    value : JSON value
        The value of the field, or a part of it.
    may_be_boolean : bool
        Whether booleans are allowed; only the field `entropy` has one.
    depth : int
        How deeply `value` is nested in the field.
    """
    _require(field, depth <= _MAX_NESTING_DEPTH)
    items: Iterable[Any] | None = None
    if isinstance(value, list):
        items = value
    elif isinstance(value, dict):
        _require(field, all(is_plain_text(key) for key in value))
        items = value.values()

    if items is not None:
        for item in items:
            # Integers need no check. A certificate may list millions of them.
            if type(item) is not int:
                _check_nested_values(
                    field, item, may_be_boolean=may_be_boolean, depth=depth + 1
                )
    elif isinstance(value, bool):
        _require(field, may_be_boolean)
    elif isinstance(value, float):
        _require(field, isfinite(value))
    else:
        _require(field, value is None or type(value) is int or is_plain_text(value))


def are_versions(software: Mapping[str, Any]) -> bool:
    """Return whether a record holds versions of known packages, curvedp among them.

    Parameters
    ----------
    software : mapping
        The version of each package, by its name.

    Examples
    --------
    >>> are_versions({"curvedp": "0.2.0"}), are_versions({"curvedp": "audited"})
    (True, False)
    """
    known_packages = {"python", *PACKAGES}
    has_known_names = {"curvedp"} <= set(software) <= known_packages
    return has_known_names and all(map(is_version, software.values()))


def _check_ledger(ledger: Any) -> None:
    """Refuse a malformed reference to a ledger.

    Parameters
    ----------
    ledger : object
        None, or an object with the number of the entry, counted from 1, and the hash of
        the ledger after that entry.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    if ledger is None:
        return
    _require("ledger", isinstance(ledger, dict) and set(ledger) == _LEDGER_KEYS)
    _require("ledger", type(ledger["entry"]) is int and ledger["entry"] >= 1)
    _require("ledger", is_64_hex_digits(ledger["head"]))


def _check_release(release: Mapping[str, Any]) -> None:
    """Refuse a malformed record of the draw.

    Parameters
    ----------
    release : mapping
        The released integers (None, or one list of integers for each draw), their hash,
        a list of stages, the codes of the post-processing, and why the mechanism was
        chosen.

    Raises
    ------
    ParameterError
        If a part is missing, unknown or of the wrong kind.
    """
    _require("release", set(release) == _RELEASE_KEYS)

    integers = release["integers"]
    if integers is not None:
        _require("release", isinstance(integers, list))
        for draw in integers:
            _require("release", isinstance(draw, list))
            _require("release", all(type(number) is int for number in draw))
    _require("release", is_64_hex_digits(release["sha256"]))

    stages = release["stages"]
    _require("release", isinstance(stages, list))
    _require("release", all(isinstance(stage, dict) for stage in stages))

    _require("release", _are_codes(release["post_processing"], PostProcessing))
    _check_choice(release["choice"])


def _check_choice(choice: Any) -> None:
    """Refuse a malformed record of why the mechanism was chosen.

    Parameters
    ----------
    choice : object
        The code of a rule, the predicted error of each candidate by its name, and the
        list of the mechanisms that were excluded.

    Raises
    ------
    ParameterError
        If a part is missing, unknown or of the wrong kind.
    """
    _require("release", isinstance(choice, dict) and set(choice) == _CHOICE_KEYS)
    _require("release", _are_codes([choice["rule"]], ChoiceRule))
    errors = choice["predicted_errors"]
    _require("release", isinstance(errors, dict))
    _require("release", all(isinstance(error, float) for error in errors.values()))
    _require("release", isinstance(choice["excluded"], list))
    _require("release", all(isinstance(name, str) for name in choice["excluded"]))


def _are_codes(values: Any, codes: type[StrEnum]) -> bool:
    """Return whether `values` is a list of codes of one enumeration.

    Parameters
    ----------
    values : object
        Any JSON value. Entries that are no texts are not codes.
    codes : type of StrEnum
        The enumeration, such as `PostProcessing`.
    """
    known_codes = {code.value for code in codes}
    return isinstance(values, list) and all(
        isinstance(value, str) and value in known_codes for value in values
    )


def _check_draw(numerics: Mapping[str, Any], entropy: Mapping[str, Any]) -> None:
    """Refuse malformed records of how the noise was drawn and from which random source.

    Parameters
    ----------
    numerics : mapping
        How the noise was sampled, the bound on the sampling error (`slack`: None if no
        bound is known), and what is known of the privacy profile.
    entropy : mapping
        The name of the random source, and whether it is cryptographic.
    """
    _require("numerics", set(numerics) == _NUMERICS_KEYS)
    _require("numerics", _are_codes([numerics["path"]], SamplingPath))
    _require("numerics", _are_codes([numerics["profile"]], ProfileKind))
    slack = numerics["slack"]
    _require("numerics", slack is None or isinstance(slack, float))
    _require("entropy", set(entropy) == _ENTROPY_KEYS)
    _require("entropy", isinstance(entropy["source"], str))
    _require("entropy", type(entropy["cryptographic"]) is bool)
