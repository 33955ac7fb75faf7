"""What a release says about itself, as data from which anyone can recompute its guarantee.

A certificate holds no data and no hash of data: everything in it is a function of
public parameters and of the released grid integers. It holds codes and numbers, no
sentences (`curvedp.core.wording` has those). `curvedp verify` builds statistic and
mechanism again and recomputes each claim.

Its last field is the SHA-256 of all others, so that no field can be changed alone. It
is not a signature: a forger can take it anew, and has a true certificate of another
release then. `curvedp sign` is against that.

Compatibility: the meaning of a field never changes within a schema, and no field is
removed from one. A reader knows the schema in `SCHEMA` and refuses all others.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from math import exp, inf
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp._files import write_atomically
from curvedp.core.certificate_form import (
    NOT_INSTALLED,
    PACKAGES,
    check_form_of,
    public_version,
)
from curvedp.core.codes import ProtectedUnit, TrustModel
from curvedp.errors import CurvedpError, ParameterError
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy import GDP, ZCDP, Guarantee, PrivacyProfile, PureDP, RaoDP, convert
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.signing import digest, is_signed, signature

SCHEMA = "curvedp-certificate/3"

# The ε at which a certificate lists δ(ε).
CURVE_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

# A longer text is not read. Stages list millions of integers at most.
MAX_BYTES = 1 << 25

# By how much, relative, the last digits of a recomputed sensitivity may differ.
RECOMPUTATION_ERROR = 1e-12


class Check(NamedTuple):
    """One claim of a certificate, checked.

    Attributes
    ----------
    claim : str
    holds : bool or None
        Confirmed, refuted, or (None) of a kind that no certificate can confirm.
    detail : str
    """

    claim: str
    holds: bool | None
    detail: str


def check_at_least(claim: str, stated: Any, smallest: float) -> Check:
    """Check that a stated noise or sensitivity is no less than the recomputed one.

    A value that is not a number is refuted.
    """
    is_number = isinstance(stated, int | float) and not isinstance(stated, bool)
    number = stated if is_number else float("nan")
    holds = bool(smallest * (1 - RECOMPUTATION_ERROR) <= number < inf)
    return Check(f"{claim} {number:.9g}", holds, f"recomputed {smallest:.9g}")


@dataclass(frozen=True)
class Claims:
    """The guarantee in every definition.

    μ, ε, ρ and θ are those of the ideal law, None where the mechanism does not have
    them. The released law is within total variation distance `slack` of the ideal one
    for each data set, so each of the four holds up to it, and δ(ε) grows by (1 +
    e^ε)·slack.

    Attributes
    ----------
    gdp, pure, zcdp, rao : float or None
        μ of Gaussian DP, pure ε, ρ of zero-concentrated DP, and θ of Rao DP.
    slack : float
    curve : tuple of (ε, δ)
        With the slack already added to δ.
    """

    gdp: float | None
    pure: float | None
    zcdp: float | None
    rao: float | None
    slack: float
    curve: tuple[tuple[float, float], ...]

    @classmethod
    @lru_cache(maxsize=64)  # the same for every release of a mechanism, and costly
    def from_profile(cls, promise: Guarantee, slack: float) -> "Claims":
        """Return what a profile, or one guarantee such as pure ε, gives in every definition.

        μ-GDP implies μ²/2-zCDP (Dong, Roth & Su 2022, Corollary B.6).
        """
        if isinstance(promise, PrivacyProfile):
            mu = promise.mu
            pure = promise.pure_epsilon
            rho = round_up(mu**2 / 2)
            theta = promise.rao
        elif isinstance(promise, PureDP):
            mu = convert(promise, to=GDP).mu
            pure = promise.eps
            rho = convert(promise, to=ZCDP).rho
            theta = convert(promise, to=RaoDP).theta
        else:
            mu = _implied_parameter(promise, GDP, "mu")
            pure = inf
            rho = _implied_parameter(promise, ZCDP, "rho")
            theta = inf

        curve = []
        for eps in CURVE_EPSILONS:
            delta = float(promise.delta(eps)) + (1 + exp(eps)) * slack
            curve.append((eps, min(1.0, delta)))
        return cls(
            gdp=_finite_or_none(mu),
            pure=_finite_or_none(pure),
            zcdp=_finite_or_none(rho),
            rao=_finite_or_none(theta),
            slack=slack,
            curve=tuple(curve),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**vars(self), "curve": [list(pair) for pair in self.curve]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Claims":
        """Build the claims of a certificate; whatever is not a number raises."""
        parameters: dict[str, Any] = {}
        for name, value in record.items():
            if name != "curve":
                parameters[name] = None if value is None else _as_float(value)
        curve = tuple(
            (_as_float(eps), _as_float(delta)) for eps, delta in record["curve"]
        )
        return cls(**parameters, curve=curve)


def _as_float(value: Any) -> float:
    """Return a number as a float; a text of digits is not a number."""
    if not isinstance(value, int | float):
        raise TypeError("a text of digits, of any script, is not a number")
    return float(value)


def _finite_or_none(value: float) -> float | None:
    """Return a parameter, or None where the mechanism does not have it."""
    return float(value) if value < inf else None


def _implied_parameter(promise: Guarantee, definition: Any, name: str) -> float:
    """Return a parameter that a guarantee implies in another definition, or infinity."""
    try:
        return float(getattr(convert(promise, to=definition), name))
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


def hash_integers(integers: Sequence[Any]) -> str:
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
    versions = {package: _installed_version(package) for package in PACKAGES}
    return {"python": public_version(platform.python_version()), **versions}


def _installed_version(package: str) -> str:
    """Return a package's version; a release that was paid for is not lost over it."""
    try:
        return public_version(version(package))
    except PackageNotFoundError:  # the package runs from its sources
        return NOT_INSTALLED


@dataclass(frozen=True)
class Certificate:
    """Mechanism, statistic, claims, numerics and entropy of one release, as JSON.

    Attributes
    ----------
    mechanism, manifold : str
        The registered name, and where the released value lives.
    parameters : mapping
        The mechanism's own public numbers.
    statistic : mapping
        `Statistic.to_dict()`: what was released, of how many records, in which public
        ball.
    sensitivity : float
        How far the statistic (or each gradient of it) can move.
    guarantee : Guarantee
        What was asked for.
    claims : Claims
        What is given in every definition.
    privacy_unit : ProtectedUnit
        Whose data are protected.
    trust : TrustModel
        Who sees the records before noise is added.
    numerics, entropy : mapping
        How the noise was drawn, and from which random bits.
    release : mapping
        The released grid integers (none of one draw of many), their SHA-256, the stages
        of a release in several draws, post-processing, and why this mechanism was
        taken.
    ledger : mapping or None
        Number and hash of the entry that paid for the release.
    created, software, schema : str, mapping and str
    sha256 : str
        The fingerprint with which the certificate was sealed.

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
    privacy_unit: ProtectedUnit
    trust: TrustModel
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

    def __hash__(self) -> int:
        # Equal certificates have equal fingerprints; most fields cannot be hashed.
        return hash(self.sha256)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical JSON of every field but `sha256`."""
        record = self.to_dict()
        del record["sha256"]
        return digest(record).hex()

    def sealed(self) -> "Certificate":
        """Return the same with its own fingerprint: the last thing that is done to it."""
        return replace(self, sha256=self.fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values only."""
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        record["guarantee"] = self.guarantee.to_dict()
        record["claims"] = self.claims.to_dict()
        record["privacy_unit"] = self.privacy_unit.value
        record["trust"] = self.trust.value
        return record

    def to_json(self) -> str:
        """Return the certificate as text; floats are written so that they read back exactly."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file, whole or not at all."""
        write_atomically(path, self.to_json() + "\n")

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate.

        Raises
        ------
        ParameterError
            For what is not one of this schema: too long, a key twice, a field missing,
            of the wrong form, or one too many.
        """
        try:
            if len(text) > MAX_BYTES:
                raise ParameterError(
                    f"a certificate has at most {MAX_BYTES} characters; this text has "
                    f"{len(text)}"
                )
            record = json.loads(
                text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_nan
            )
            if not isinstance(record, dict) or record.get("schema") != SCHEMA:
                raise ParameterError(
                    f"the schema is not {SCHEMA!r}; other schemas need the version that "
                    "wrote them"
                )
            check_form_of(record, _field_names())
            record["claims"] = Claims.from_dict(record["claims"])
            record["guarantee"] = guarantee_from_dict(record["guarantee"])
            record["privacy_unit"] = ProtectedUnit(record["privacy_unit"])
            record["trust"] = TrustModel(record["trust"])
            return cls(**record)
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
                return cls.from_json(file.read(MAX_BYTES + 1).decode("utf-8"))
        except UnicodeDecodeError:
            raise ParameterError(
                f"{path} is not a certificate: it is not text"
            ) from None
        except OSError as error:
            raise ParameterError(
                f"cannot read the certificate {path}: {error.strerror}"
            ) from None

    def _repr_html_(self) -> str:
        """Return a small table for notebooks, with what is odd about the release."""
        # Words and warnings are about certificates: they can be imported only here.
        from curvedp.core.wording import protected_unit_sentence
        from curvedp.release.warnings import certificate_warnings

        rows = [
            ("guarantee", str(self.guarantee)),
            ("statistic", f"{self.statistic.get('name')} on {self.manifold}"),
            ("protected", protected_unit_sentence(self)),
            ("mechanism", self.mechanism),
            ("sensitivity", f"{self.sensitivity:.6g}"),
            ("entropy", str(self.entropy.get("source"))),
        ]
        rows += [("warning", warning.text) for warning in certificate_warnings(self)]
        cells = [
            f"<tr><th align='left'>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in rows
        ]
        return f"<b>curvedp certificate</b><table>{''.join(cells)}</table>"


def _field_names() -> set[str]:
    """Return the names of a certificate's fields."""
    return {each.name for each in fields(Certificate)}


def check_form(certificate: Certificate) -> None:
    """Refuse a certificate with a field that does not have its form."""
    check_form_of(certificate.to_dict(), _field_names())


def sign_certificate(certificate: Certificate, identity: Ed25519PrivateKey) -> str:
    """Return the holder's signature of the whole certificate, in hexadecimal."""
    return signature(identity, certificate.to_dict(), SCHEMA)


def is_certificate_signed(certificate: Certificate, key: str, signed: Any) -> bool:
    """Return whether the holder of a public key signed this certificate as it stands."""
    return is_signed(key, certificate.to_dict(), signed, SCHEMA)


def record_space(certificate: Certificate) -> str:
    """Return the name of the records' space, in which sums and variances do not live."""
    return str(certificate.statistic.get("manifold", certificate.manifold))


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse one in which a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ParameterError("a key occurs twice")
    return record


def _refuse_nan(name: str) -> Any:
    """Refuse NaN and Infinity, which Python's parser would take."""
    raise ParameterError("NaN and Infinity are not JSON numbers")


@dataclass(frozen=True)
class Release:
    """A value that may leave the machine, and the certificate that says why.

    Attributes
    ----------
    value : Any
        What was released.
    certificate : Certificate
        What it costs and how it was drawn.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0]).value.shape
    (2,)
    """

    value: Any
    certificate: Certificate
