"""What a release says about itself: every public quantity from which an auditor can recompute the guarantee.

Compatibility: the meaning of a field never changes within a schema, and no field is removed from one. A reader knows the
schemas in `SCHEMA` and refuses all others; a new meaning is a new schema.

A certificate holds no data and no hash of data. Everything in it is a function of public parameters and of the released
grid integers. `curvedp verify` (`mechanisms/verify.py`) builds statistic and mechanism anew and recomputes each claim.

Its last field is the SHA-256 of all others, so that no field can be changed alone, not even one on which no claim rests. It
is no signature: who forges takes it anew, and has a true certificate of another release. `curvedp sign` is against that.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, cached_property, lru_cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from math import exp, inf
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp._files import write_atomically
from curvedp.errors import CurvedpError, ParameterError
from curvedp.mechanisms.certificate_fields import (
    NOT_INSTALLED,
    PACKAGES,
    check_fields,
)
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy import GDP, ZCDP, Guarantee, PrivacyProfile, PureDP, RaoDP, convert
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.signing import digest, is_signed, signature

SCHEMA = "curvedp-certificate/2"
CURVE_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MOST_BYTES = (
    1 << 25
)  # of a certificate's text; beyond, it is not read. Stages list millions of integers at most


class Check(NamedTuple):
    """One claim of a certificate: confirmed, refuted, or (None) of a kind that nobody can confirm from the certificate."""

    claim: str
    holds: bool | None
    detail: str


ROUNDED = 1e-12  # what the last digits of a recomputed sensitivity may differ by


def at_least(claim: str, stated: Any, least: float) -> Check:
    """Whether a stated noise or sensitivity is no less than the recomputed one; what is not a number never is."""
    number = (
        stated
        if isinstance(stated, int | float) and not isinstance(stated, bool)
        else float("nan")
    )
    return Check(
        f"{claim} {number:.9g}",
        bool(least * (1 - ROUNDED) <= number < inf),
        f"recomputed {least:.9g}",
    )


@dataclass(frozen=True)
class Claims:
    """The guarantee in every definition: μ, ε, ρ and θ of the ideal law, None where the mechanism does not have it.

    The released law is within total variation τ, the slack, of the ideal one at each data set, so that each of the four holds
    up to it, and δ(ε) grows by (1+e^ε)τ."""

    gdp: float | None
    pure: float | None
    zcdp: float | None
    rao: float | None
    slack: float
    curve: tuple[tuple[float, float], ...]  # (ε, δ), with the slack already added to δ

    @classmethod
    @lru_cache(
        maxsize=64
    )  # the same for every release of a mechanism, and most of what a release takes
    def of(cls, promise: Guarantee, slack: float) -> "Claims":
        """What a profile, or one guarantee such as pure ε, gives in every definition."""
        if isinstance(promise, PrivacyProfile):
            # μ-GDP implies μ²/2-zCDP (Dong, Roth & Su 2022, Corollary B.6)
            named = (
                promise.mu,
                promise.pure_epsilon,
                round_up(promise.mu**2 / 2),
                promise.rao,
            )
        elif isinstance(promise, PureDP):
            converted = (
                convert(promise, to=GDP).mu,
                convert(promise, to=ZCDP).rho,
                convert(promise, to=RaoDP).theta,
            )
            named = (converted[0], promise.eps, converted[1], converted[2])
        else:
            named = (
                _implied(promise, GDP, "mu"),
                inf,
                _implied(promise, ZCDP, "rho"),
                inf,
            )
        curve = (
            (eps, min(1.0, float(promise.delta(eps)) + (1 + exp(eps)) * slack))
            for eps in CURVE_EPSILONS
        )
        gdp, pure, zcdp, rao = (
            float(value) if value < inf else None for value in named
        )
        return cls(gdp, pure, zcdp, rao, slack, tuple(curve))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**vars(self), "curve": [list(pair) for pair in self.curve]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Claims":
        """Built again; whatever is not a number raises."""
        named = {
            name: None if value is None else _real(value)
            for name, value in record.items()
            if name != "curve"
        }
        return cls(
            **named,  # type: ignore[arg-type]  # a slack of None is refused by `verify`
            curve=tuple((_real(eps), _real(delta)) for eps, delta in record["curve"]),
        )


def _real(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError("a text of digits, of any script, is not a number")
    return float(value)


def _implied(promise: Guarantee, to: Any, name: str) -> float:
    try:
        return float(getattr(convert(promise, to=to), name))
    except CurvedpError:  # it implies none
        return inf


def exact_integers(part: Any) -> list[int]:
    """Return the integers of one draw as Python integers, whatever their size.

    NumPy is never asked for a common type of Python integers: it takes doubles where
    some are negative and others are 2^63 or more, and different integers become equal.

    Parameters
    ----------
    part : array of integers, or sequence of int
        One draw, of any shape, or one list of a certificate.

    Raises
    ------
    ParameterError
        Where an entry is not an integer, such as a float with an integer value.
    """
    entries = part.ravel().tolist() if isinstance(part, np.ndarray) else part
    try:
        numbers = [index(entry) for entry in entries]
    except TypeError:
        raise ParameterError("the released integers are not integers") from None
    if any(isinstance(entry, bool) for entry in entries):
        raise ParameterError("the released integers are not integers")
    return numbers


def digest_of_integers(integers: Sequence[Any]) -> str:
    """Return the SHA-256 of released grid integers, in the order of the draws.

    What is hashed are the decimal digits of each integer, with commas between the
    integers of one draw and semicolons between draws: different integers never have
    the same text.
    """
    draws = [",".join(map(str, exact_integers(part))) for part in integers]
    return hashlib.sha256(";".join(draws).encode()).hexdigest()


@cache  # reading the packages' metadata takes longer than most draws
def installed_software() -> Mapping[str, str]:
    """Return the versions that a certificate made here records, by package."""
    versions = {package: _version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **versions}


def _version(package: str) -> str:
    """Return a package's version; a release that was paid for is not lost over it."""
    try:
        return version(package)
    except PackageNotFoundError:  # the package runs from its sources
        return NOT_INSTALLED


@dataclass(frozen=True)
class Certificate:
    """Mechanism, statistic, claims, numerics and entropy of one release, as JSON.

    Attributes
    ----------
    mechanism, manifold : str
        The registered name, and where the released value lives.
    parameters, statistic : mapping
        The mechanism's own public numbers, and `Statistic.to_dict()`: what was released, of how many records, in which public
        ball; enough to build both again.
    sensitivity : float
        How far the statistic (or each gradient of it) can move.
    guarantee, claims : Guarantee and Claims
        What was asked for, and what is given in every definition.
    unit, trust : str
        Whose data are protected, and who is trusted with them, in words. Where a statistic
        may protect several units, `statistic` says which, and both must agree.
    numerics, entropy : mapping
        How the noise was drawn, and from which bits.
    release : mapping
        The released grid integers (none of one draw of many), their SHA-256, the stages of a release in several draws,
        why this mechanism, and what was done to the draw afterwards.
    ledger, sha256 : mapping or None, and str
        Number and hash of the entry that paid for the release; the fingerprint that it was sealed with.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import GaussianMechanism
    >>> from curvedp.privacy import GDP
    >>> mechanism = GaussianMechanism.calibrated(Sphere(2), 0.01, GDP(0.5))
    >>> certificate = mechanism.release(Sphere(2).origin).certificate
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    """

    mechanism: str
    manifold: str
    parameters: Mapping[str, Any]
    statistic: Mapping[str, Any]
    sensitivity: float
    guarantee: Guarantee
    claims: Claims
    unit: str
    trust: str
    numerics: Mapping[str, Any]
    entropy: Mapping[str, Any]
    release: Mapping[str, Any]
    ledger: Mapping[str, Any] | None = None
    created: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    software: Mapping[str, str] = field(
        default_factory=lambda: dict(installed_software())
    )
    schema: str = SCHEMA
    sha256: str = ""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of every field but `sha256`."""
        return digest(
            {name: value for name, value in self.to_dict().items() if name != "sha256"}
        ).hex()

    def sealed(self) -> "Certificate":
        """The same with its own fingerprint: the last thing that is done to a certificate."""
        return replace(self, sha256=self.fingerprint)

    def signature(self, identity: Ed25519PrivateKey) -> str:
        """The holder's signature of the whole of it: integers or their SHA-256, public numbers, ledger's head; in hex."""
        return signature(identity, self.to_dict(), SCHEMA)

    def is_signed(self, key: str, sign: Any) -> bool:
        """Whether the holder of the public key (in hexadecimal) signed this certificate as it stands."""
        return is_signed(key, self.to_dict(), sign, SCHEMA)

    @cached_property
    def made_by(self) -> Any:
        """The mechanism that it describes: the one that has just released it, or rebuilt, once; `verify` builds its own."""
        from curvedp.mechanisms.verify import (
            rebuild_mechanism,
        )  # which needs to know every mechanism

        return rebuild_mechanism(self)

    # of what one is protected, and the space of the records, which sums and variances of them are not in
    whose = cached_property(
        lambda self: next(
            (
                each
                for each in ("person", "pair")
                if self.unit.startswith(f"one {each}")
            ),
            "record",
        )
    )
    where = cached_property(
        lambda self: str(self.statistic.get("manifold", self.manifold))
    )

    @property
    def change(self) -> tuple[str, str]:
        """What is done to one of them, and what who knows all others must guess: in words for a reader."""
        if self.guarantee.adjacency == "replace-one":
            return (
                f"replacing one {self.whose}",
                f"which of two values one {self.whose} has",
            )
        return (
            f"adding or removing one {self.whose}",
            f"whether one {self.whose} is there at all",
        )

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    # what the mechanism reads off the integers, for regions; those that `inference.region_of` has found; the last draw's own
    reading = cached_property(
        lambda self: self.made_by.reading(self.release["integers"])
    )
    regions = cached_property(lambda self: dict[Any, Any]())
    ending = cached_property(lambda self: self.made_by.ending(self))

    @property
    def alarms(self) -> list[str]:
        """What should make a reader think again, one line each: computed from the grid integers, where they are listed."""
        from curvedp.mechanisms.alarms import (
            alarms_of,
        )  # which needs to know every mechanism

        if self.release["integers"] is None:
            return []
        return alarms_of(self.made_by.value_of(self), self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values only."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **named,
            "guarantee": self.guarantee.to_dict(),
            "claims": self.claims.to_dict(),
        }

    def to_json(self) -> str:
        """The certificate as text; floats are written so that they read back exactly."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file, whole or not at all."""
        write_atomically(path, self.to_json() + "\n")

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate; refuses what is not one of this schema: too long, a key twice, a field missing or one more."""
        try:
            if len(text) > MOST_BYTES:
                raise ParameterError(
                    f"a certificate has at most {MOST_BYTES} characters; this text has {len(text)}"
                )
            record = json.loads(
                text, object_pairs_hook=_once, parse_constant=_no_number
            )
            if not isinstance(record, dict) or record.get("schema") != SCHEMA:
                raise ParameterError(
                    f"the schema is not {SCHEMA!r}; other schemas need the version that wrote them"
                )
            check_fields(record, _names())
            claims, guarantee = (
                Claims.from_dict(record["claims"]),
                guarantee_from_dict(record["guarantee"]),
            )
            return cls(**{**record, "claims": claims, "guarantee": guarantee})
        except ParameterError as error:
            raise ParameterError(f"not a curvedp certificate: {error}") from None
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
            RecursionError,
        ):
            raise ParameterError(
                "not a curvedp certificate: a field is missing or of the wrong kind"
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate from a file."""
        try:
            with Path(path).open("rb") as file:
                return cls.from_json(file.read(MOST_BYTES + 1).decode("utf-8"))
        except UnicodeDecodeError:
            raise ParameterError(
                f"{path} is not a certificate: it is not text"
            ) from None
        except OSError as error:
            raise ParameterError(
                f"cannot read the certificate {path}: {error.strerror}"
            ) from None

    def _repr_html_(self) -> str:
        """A small page for notebooks."""
        rows = [
            ("guarantee", str(self.guarantee)),
            ("statistic", f"{self.statistic.get('name')} on {self.manifold}"),
            ("unit", self.unit),
            ("mechanism", self.mechanism),
            ("sensitivity", f"{self.sensitivity:.6g}"),
            ("entropy", str(self.entropy.get("source"))),
            *(("note", alarm) for alarm in self.alarms),
        ]
        cells = "".join(
            f"<tr><th align='left'>{escape(k)}</th><td>{escape(v)}</td></tr>"
            for k, v in rows
        )
        return f"<b>curvedp certificate</b><table>{cells}</table>"


def _names() -> set[str]:
    return {each.name for each in fields(Certificate)}


def check_form(certificate: Certificate) -> None:
    """Refuse a certificate with a field that does not have its form, wherever it was made."""
    check_fields(certificate.to_dict(), _names())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ParameterError("a key occurs twice")
    return found


def _no_number(name: str) -> Any:
    raise ParameterError("NaN and Infinity are not JSON numbers")


@dataclass(frozen=True)
class Release:
    """A value that may leave the machine, and the certificate that says why.

    Attributes
    ----------
    value, certificate : Any and Certificate
        What was released; what it costs and how it was drawn.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0]).value.shape
    (2,)
    """

    value: Any
    certificate: Certificate
