"""Certificates of local reports: what one device promises, and how it can be recomputed.
A local mechanism has no statistic and no curator, and metric privacy has no profile
δ(ε). So these certificates have a schema of their own. As those of releases, they hold
codes and numbers, no sentences and no data, and end in the SHA-256 of all other fields.
`curvedp verify` recomputes every claim.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp._files import write_atomically
from curvedp.core.certificate import installed_software
from curvedp.core.certificate_form import (
    are_versions,
    is_64_hex_digits,
    is_plain_text,
    read_time,
)
from curvedp.core.codes import SamplingPath, TrustModel
from curvedp.errors import ParameterError
from curvedp.signing import digest

SCHEMA = "curvedp-local-certificate/1"

# The longest certificate that is read, in characters.
_MAX_CHARACTERS = 1 << 22

# Reports with at most this many numbers are listed in the certificate.
MAX_LISTED_INTEGERS = 4096

_MAPPING_FIELDS = ("parameters", "guarantee", "entropy", "software")
_TEXT_FIELDS = ("mechanism", "space", "created", "schema", "sha256")


@dataclass(frozen=True)
class LocalCertificate:
    """The public record of how a device perturbs records, and of one batch of reports.

    Attributes
    ----------
    mechanism : str
        "metric-laplace", "privunit", "local-gaussian" or "local-laplace".
    space : str
        Where the records live: the name of a manifold, or "earth".
    parameters : mapping
        The public parameters, from which the mechanism can be built again.
    guarantee : mapping
        Under "kind" the word "metric" or "local", and its numbers.
    slack : float
        A bound of the total variation between the drawn and the ideal report. In
        numbers, δ of at most (1 + e^ε)·slack.
    path : SamplingPath
        How reports are drawn.
    entropy : mapping
        Where the random bits come from.
    reports : mapping or None
        How many reports were made, the SHA-256 of their integers, and the integers
        themselves if they are few. None before the first report.
    trust : TrustModel
        Always "local".
    created : str
        The time, in ISO 8601.
    software : mapping
        The versions of Python and of the packages.
    schema : str
        The version of the format.
    sha256 : str
        The hash of all other fields.

    Examples
    --------
    >>> from curvedp.local import Earth, MetricLaplace
    >>> certificate = MetricLaplace(Earth(), epsilon=1.0).certificate_
    >>> LocalCertificate.from_json(certificate.to_json()) == certificate
    True
    >>> certificate.guarantee["epsilon"], certificate.guarantee["per"]
    (1.0, 'kilometer')
    """

    mechanism: str
    space: str
    parameters: Mapping[str, Any]
    guarantee: Mapping[str, Any]
    slack: float
    path: SamplingPath
    entropy: Mapping[str, Any]
    reports: Mapping[str, Any] | None = None
    trust: TrustModel = TrustModel.LOCAL
    created: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    software: Mapping[str, str] = field(
        default_factory=lambda: dict(installed_software())
    )
    schema: str = SCHEMA
    sha256: str = ""

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def fingerprint(self) -> str:
        """Compute the SHA-256 of the canonical JSON of every field except `sha256`."""
        record = self.to_dict()
        del record["sha256"]
        return digest(record).hex()

    def sealed(self) -> "LocalCertificate":
        """Return a copy whose field `sha256` is the hash of all other fields."""
        return replace(self, sha256=self.fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as JSON values."""
        record = _validate.field_values(self)
        record["path"] = self.path.value
        record["trust"] = self.trust.value
        return record

    def to_json(self) -> str:
        """Return the certificate as JSON text, from which floats are read back exactly."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file. If that fails, the old file is unchanged."""
        write_atomically(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "LocalCertificate":
        """Read a certificate from a file that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise ParameterError(f"cannot read the certificate {path}") from None

    @classmethod
    def from_json(cls, text: str) -> "LocalCertificate":
        """Parse a certificate.

        Parameters
        ----------
        text : str
            The JSON text that `to_json` wrote.

        Raises
        ------
        ParameterError
            If the text is not a certificate of this schema.
        """
        problem = "not a curvedp certificate of local reports"
        if len(text) > _MAX_CHARACTERS:
            raise ParameterError(f"{problem}: it is too long")
        try:
            record = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise ParameterError(f"{problem}: it is not JSON") from None
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            raise ParameterError(f"{problem}: the schema is not {SCHEMA!r}")
        if set(record) != {entry.name for entry in fields(cls)}:
            raise ParameterError(f"{problem}: a field is missing or unknown")
        if not _has_form(record):
            raise ParameterError(f"{problem}: a field is of the wrong kind")
        record["path"] = SamplingPath(record["path"])
        record["trust"] = TrustModel(record["trust"])
        return cls(**record)

    def explain(self) -> str:
        """Explain in plain words what the reports protect, and what they do not."""
        from curvedp.local.wording import promise_sentences

        return "\n".join(promise_sentences(self))


def is_local_certificate(text: str) -> bool:
    """Return whether a text claims to be a certificate of local reports.

    Parameters
    ----------
    text : str
        A certificate of either kind, or anything else.
    """
    # The field `schema` is near the end of what `to_json` writes. Another writer may
    # put it first; looking at both ends keeps the test fast for a huge file.
    quoted_schema = f'"{SCHEMA}"'
    return quoted_schema in text[-4096:] or quoted_schema in text[:4096]


def describe_reports(integers: np.ndarray) -> dict[str, Any]:
    """Return the entry of a certificate that identifies a batch of reports.

    Reports are public. Their hash binds the certificate to this batch. A short batch is
    also listed in full, so that the hash can be recomputed from the certificate.

    Parameters
    ----------
    integers : array of integers, shape (n, ...)
        The reports in units of 2^-grid, the grid of the mechanism.

    Returns
    -------
    dict
        The number of reports, their SHA-256, and the integers of each report (None if
        there are too many to list).
    """
    rows = integers.reshape(len(integers), -1).tolist() if len(integers) else []
    return {
        "count": len(rows),
        "sha256": hash_reports(rows),
        "integers": rows if integers.size <= MAX_LISTED_INTEGERS else None,
    }


def hash_reports(rows: list[list[int]]) -> str:
    """Return the SHA-256 of reports, by which a certificate names its batch.

    The hashed text has one line for each report: its integers in decimal digits,
    separated by commas, and a line feed.

    Parameters
    ----------
    rows : list of lists of int
        One list for each report.
    """
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    return hashlib.sha256(lines.encode()).hexdigest()


def _has_form(record: dict[str, Any]) -> bool:
    """Return whether every field of a parsed certificate has its type and form.

    Nothing of a file from someone else is used before this check. Whether the claims are true is
    decided by `curvedp.local.verify` afterwards.

    Parameters
    ----------
    record : dict
        The JSON object, with exactly the fields of `LocalCertificate`.
    """
    has_texts = all(is_plain_text(record[name]) for name in _TEXT_FIELDS)
    has_mappings = all(
        isinstance(record[name], dict) and _is_plain(record[name])
        for name in _MAPPING_FIELDS
    )
    if not (has_texts and has_mappings):
        return False
    # Every local mechanism draws exactly.
    is_exact = record["path"] == SamplingPath.EXACT_THEN_ROUND
    slack = record["slack"]
    has_slack = isinstance(slack, float) and 0 <= slack <= 1
    reports = record["reports"]
    return (
        is_exact
        and record["trust"] == TrustModel.LOCAL
        and has_slack
        and _is_guarantee(record["guarantee"], record["parameters"])
        and _is_entropy(record["entropy"])
        and are_versions(record["software"])
        and read_time(record["created"]) is not None
        and (reports is None or _are_reports(reports))
        and is_64_hex_digits(record["sha256"])
    )


def _is_guarantee(guarantee: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a guarantee of local reports with all its fields.

    A metric guarantee has ε > 0 per unit of distance, and the name of that unit. A local
    one has the promise in words and the definition as JSON values.

    Parameters
    ----------
    guarantee : mapping
        The field `guarantee` of a certificate, maybe from someone else.
    parameters : mapping
        The field `parameters`. For a metric guarantee it must state `unit_length`, the
        positive length of the unit.
    """
    if guarantee.get("kind") == "metric":
        numbers = (guarantee.get("epsilon"), parameters.get("unit_length"))
        has_numbers = all(type(number) is float and number > 0 for number in numbers)
        has_unit = isinstance(guarantee.get("per"), str)
        return set(guarantee) == {"kind", "epsilon", "per"} and has_numbers and has_unit
    if guarantee.get("kind") == "local":
        has_definition = isinstance(guarantee.get("definition"), dict)
        has_promise = isinstance(guarantee.get("promise"), str)
        names = {"kind", "promise", "definition"}
        return set(guarantee) == names and has_definition and has_promise
    return False


def _is_entropy(entropy: Mapping[str, Any]) -> bool:
    """Return whether a record names a random source, and says if it is cryptographic."""
    return (
        set(entropy) == {"source", "cryptographic"}
        and isinstance(entropy["source"], str)
        and type(entropy["cryptographic"]) is bool
    )


# No certificate of this library is nested more deeply.
_DEEPEST_NESTING = 4


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a JSON value is safe to print and to compute with.

    A certificate may come from someone else. Later it is printed, and the mechanism is
    reconstructed from it. A text with control characters could manipulate a terminal,
    and deep nesting could exhaust the stack, so both are refused.

    Parameters
    ----------
    value : JSON value
        A part of a parsed certificate.
    depth : int
        The number of lists and objects that contain this part.
    """
    if depth > _DEEPEST_NESTING:
        return False
    if isinstance(value, dict):
        keys_are_plain = all(is_plain_text(key) for key in value)
        entries_are_plain = all(_is_plain(entry, depth + 1) for entry in value.values())
        return keys_are_plain and entries_are_plain
    if isinstance(value, list):
        return all(_is_plain(entry, depth + 1) for entry in value)
    return value is None or isinstance(value, int | float) or is_plain_text(value)


def _are_reports(reports: Any) -> bool:
    """Return whether the field `reports` has its form.

    Parameters
    ----------
    reports : JSON value
        Valid is an object with the number of reports under "count", their "sha256", and
        under "integers" one list of integers for each report, or null.
    """
    if not isinstance(reports, dict):
        return False
    if set(reports) != {"count", "sha256", "integers"}:
        return False
    integers = reports["integers"]
    has_integers = integers is None or (
        isinstance(integers, list) and all(map(_is_list_of_integers, integers))
    )
    count = reports["count"]
    has_count = type(count) is int and count >= 0
    return has_integers and has_count and is_64_hex_digits(reports["sha256"])


def _is_list_of_integers(row: Any) -> bool:
    """Return whether a JSON value is a list of integers.

    Parameters
    ----------
    row : JSON value
        Anything; one row of the reports, if the file is in order.
    """
    return isinstance(row, list) and all(type(entry) is int for entry in row)


def _refuse_constant(name: str) -> Any:
    """Raise `ValueError` for NaN or Infinity, which Python's parser would accept."""
    raise ValueError(name)
