"""Certificates: a record of a release from which anyone can recompute its guarantee.
Everything in it follows from public parameters and from the released *integers* (the
noisy numbers on a public grid). It holds codes and numbers but no data and no
sentences.

A certificate contains no hash of data, either. `curvedp.core.wording` turns its codes
into sentences. `curvedp verify` rebuilds the statistic and the mechanism and recomputes
each claim.

The last field is the SHA-256 of all others, so that no single field can be changed
unnoticed. It is not a signature: anyone can compute a new hash. `curvedp sign` protects
against that.

Compatibility: within a schema, no field changes its meaning and no field is removed.
This version reads the schema in `SCHEMA` and refuses all others.
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
from typing import Any, NamedTuple, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp import _validate
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
from curvedp.privacy import (
    GDP,
    ZCDP,
    Guarantee,
    PrivacyCurve,
    PrivacyProfile,
    PureDP,
    RaoDP,
    convert,
)
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.signing import digest, is_signed, signature

SCHEMA = "curvedp-certificate/3"

# The values of ε at which a certificate lists δ(ε).
CURVE_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

# The longest certificate that is read, in bytes: room for some million integers.
MAX_BYTES = 1 << 25

# A sensitivity that is recomputed on another machine may differ from the stated one by
# this relative error, because of rounding.
RECOMPUTATION_ERROR = 1e-12


class Check(NamedTuple):
    """The result of checking one claim of a certificate.

    Attributes
    ----------
    claim : str
        The claim, in words.
    holds : bool or None
        True if it was confirmed, False if it was refuted, None if no certificate can
        confirm such a claim.
    detail : str
        The recomputed number, or the reason.
    """

    claim: str
    holds: bool | None
    detail: str


def check_at_least(claim: str, claimed_value: Any, smallest: float) -> Check:
    """Check that a stated noise scale or sensitivity is at least the recomputed one.

    Parameters
    ----------
    claim : str
        What the number is, such as "sensitivity".
    claimed_value : JSON value
        The number in the certificate. Anything but a finite number is refuted.
    smallest : float
        The recomputed number. The stated one may be smaller by a rounding error.

    Returns
    -------
    Check
        It holds if the stated number is finite and at least `smallest` up to a relative
        rounding error of `RECOMPUTATION_ERROR`: more noise than needed is allowed, less
        is not.
    """
    is_number = isinstance(claimed_value, int | float) and not isinstance(
        claimed_value, bool
    )
    number = claimed_value if is_number else float("nan")
    holds = bool(smallest * (1 - RECOMPUTATION_ERROR) <= number < inf)
    return Check(f"{claim} {number:.9g}", holds, f"recomputed {smallest:.9g}")


@dataclass(frozen=True)
class Claims:
    """The privacy guarantee of a release, in every definition of privacy.

    The parameters μ, ε, ρ and θ describe the ideal noise. The noise that is actually
    drawn is within total variation distance `slack` of the ideal noise for every data
    set. Hence the four parameters hold up to the slack, and δ(ε) is larger than that of
    the ideal noise by at most (1 + e^ε)·slack.

    Attributes
    ----------
    gdp : float or None
        μ of Gaussian DP; None if the mechanism is not μ-GDP for any μ.
    pure : float or None
        ε of pure DP, or None.
    zcdp : float or None
        ρ of zero-concentrated DP, or None.
    rao : float or None
        θ of Rao DP, or None.
    slack : float
        The total variation distance between the drawn and the ideal noise.
    curve : tuple of (ε, δ)
        Points of the privacy profile. δ includes the slack.
    """

    gdp: float | None
    pure: float | None
    zcdp: float | None
    rao: float | None
    slack: float
    curve: tuple[tuple[float, float], ...]

    def parameters(self) -> dict[str, float | None]:
        """Return μ, ε, ρ and θ (None if infinite) by their names in a certificate."""
        return {
            "gdp": self.gdp,
            "pure": self.pure,
            "zcdp": self.zcdp,
            "rao": self.rao,
        }

    @classmethod
    @lru_cache(maxsize=64)  # the same for every release of a mechanism, and costly
    def from_profile(cls, promise: PrivacyCurve, slack: float) -> "Claims":
        """Return what a privacy profile or a guarantee implies in every definition.

        μ-GDP implies μ²/2-zCDP (Dong, Roth & Su 2022, Corollary B.6).

        Parameters
        ----------
        promise : PrivacyCurve
            A privacy profile, or one guarantee such as pure ε.
        slack : float
            The total variation distance between the drawn and the ideal noise.

        Returns
        -------
        Claims
            The parameters μ, ε, ρ and θ of the ideal noise, and the points (ε, δ(ε)) of
            its privacy profile with the slack added: noise within total variation
            distance τ of the ideal meets (ε, δ(ε) + (1 + e^ε)·τ)-DP.
        """
        ideal = _parameters_of(promise)
        curve = []
        for eps in CURVE_EPSILONS:
            delta = float(promise.delta(eps)) + (1 + exp(eps)) * slack
            curve.append((eps, min(1.0, delta)))
        return cls(
            gdp=_finite_or_none(ideal.mu),
            pure=_finite_or_none(ideal.eps),
            zcdp=_finite_or_none(ideal.rho),
            rao=_finite_or_none(ideal.theta),
            slack=slack,
            curve=tuple(curve),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the claims as JSON values, with the points (ε, δ) as lists of two."""
        return {**vars(self), "curve": [list(pair) for pair in self.curve]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Claims":
        """Build the claims from the JSON values of a certificate.

        Parameters
        ----------
        record : mapping
            The parameters of the claims by name, each a number or None, and under
            "curve" the points (ε, δ) of the privacy profile.

        Returns
        -------
        Claims
            The claims of a certificate that is read from a file.

        Raises
        ------
        TypeError
            If a value is not a number.
        """
        parameters: dict[str, Any] = {}
        for name, value in record.items():
            if name != "curve":
                parameters[name] = None if value is None else _as_float(value)
        curve = tuple(
            (_as_float(eps), _as_float(delta)) for eps, delta in record["curve"]
        )
        return cls(**parameters, curve=curve)


def _as_float(value: Any) -> float:
    """Return an int or float as a float; raise `TypeError` for anything else.

    The fields of a certificate from someone else are read with it. `float` itself
    would also accept a text of digits, in any script.

    Parameters
    ----------
    value : object
        A JSON value.
    """
    if not isinstance(value, int | float):
        raise TypeError("expected a number")
    return float(value)


def _finite_or_none(value: float) -> float | None:
    """Return a privacy parameter as a float, or None if it is infinite.

    JSON has no infinity: None in a certificate means that no finite parameter holds.

    Parameters
    ----------
    value : float
        A parameter such as μ; infinite if the mechanism has none.
    """
    return float(value) if value < inf else None


class _IdealParameters(NamedTuple):
    """The privacy parameters of ideal noise; infinite where there is none.

    Attributes
    ----------
    mu : float
        The μ of Gaussian DP.
    eps : float
        The ε of pure DP.
    rho : float
        The ρ of zCDP.
    theta : float
        The θ of Rao DP.
    """

    mu: float
    eps: float
    rho: float
    theta: float


def _parameters_of(promise: PrivacyCurve) -> _IdealParameters:
    """Return the parameters that a privacy profile or a guarantee implies.

    Parameters
    ----------
    promise : PrivacyCurve
        A privacy profile, or one guarantee such as pure ε.
    """
    if isinstance(promise, PrivacyProfile):
        return _IdealParameters(
            mu=promise.mu,
            eps=promise.pure_epsilon,
            rho=round_up(promise.mu**2 / 2),
            theta=promise.rao,
        )
    if isinstance(promise, PureDP):
        return _IdealParameters(
            mu=convert(promise, to=GDP).mu,
            eps=promise.eps,
            rho=convert(promise, to=ZCDP).rho,
            theta=convert(promise, to=RaoDP).theta,
        )
    gaussian = _implied_guarantee(promise, GDP)
    concentrated = _implied_guarantee(promise, ZCDP)
    return _IdealParameters(
        mu=inf if gaussian is None else gaussian.mu,
        eps=inf,
        rho=inf if concentrated is None else concentrated.rho,
        theta=inf,
    )


Definition = TypeVar("Definition", bound=Guarantee)


def _implied_guarantee(
    promise: PrivacyCurve, definition: type[Definition]
) -> Definition | None:
    """Return the guarantee that another one implies in a definition of privacy.

    Not every guarantee implies one in every definition: a single (ε, δ) implies no
    μ-GDP, for example.

    Parameters
    ----------
    promise : Guarantee
        What is known of the release, as a privacy profile or a guarantee.
    definition : type
        The wanted type of guarantee, such as `GDP`.

    Returns
    -------
    Guarantee or None
        None if the promise implies none.
    """
    try:
        return convert(promise, to=definition)
    except CurvedpError:
        return None


def exact_integers(draw: Any) -> list[int]:
    """Return the integers of one draw as a list of Python integers of any size.

    Python integers are not converted by NumPy: if some are negative and others are 2^63
    or more, NumPy converts all of them to doubles, and different integers become equal.

    Parameters
    ----------
    draw : array of integers, or sequence of int
        One draw, of any shape, or one list of a certificate.

    Returns
    -------
    list of int
        The integers in row-major order, unchanged whatever their size.

    Raises
    ------
    ParameterError
        If an entry is not an integer, such as 2.0 or True.
    """
    entries = draw.ravel().tolist() if isinstance(draw, np.ndarray) else draw
    if set(map(type, entries)) <= {int}:  # nearly always; a bool has another type
        return list(entries)
    try:
        numbers = [index(entry) for entry in entries]
    except TypeError:
        raise ParameterError("the released integers are not integers") from None
    if any(isinstance(entry, bool) for entry in entries):
        raise ParameterError("the released integers are not integers")
    return numbers


def hash_integers(integers: Sequence[Any]) -> str:
    """Return the SHA-256 of the released integers, in hexadecimal digits.

    The hashed text has the decimal digits of each integer, with commas between the
    integers of one draw and semicolons between draws, so different integers never have
    the same text.

    Parameters
    ----------
    integers : sequence of arrays
        The integers of each draw, in the order of the draws.

    Returns
    -------
    str
        64 hexadecimal digits. A certificate that lists no integers still binds them by
        this hash.
    """
    draws = [",".join(map(str, exact_integers(draw))) for draw in integers]
    return hashlib.sha256(";".join(draws).encode()).hexdigest()


@cache  # reading the packages' metadata takes longer than most draws
def installed_software() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that a certificate records.

    `verify` compares nothing with them. They are there to reproduce a release with the
    same versions.
    """
    versions = {package: _installed_version(package) for package in PACKAGES}
    return {"python": public_version(platform.python_version()), **versions}


def _installed_version(package: str) -> str:
    """Return the version of a package, or `NOT_INSTALLED`.

    A package that runs from its sources has no metadata. That must not raise, because
    the release has been paid for when the certificate is written.

    Parameters
    ----------
    package : str
        The name of the package.

    Returns
    -------
    str
        The public part of the version, such as "2.1.0".
    """
    try:
        return public_version(version(package))
    except PackageNotFoundError:
        return NOT_INSTALLED


@dataclass(frozen=True)
class Provenance:
    """How, when and with what a release was made.

    In a certificate's file these are fields beside the others.

    Attributes
    ----------
    trust : TrustModel
        Who sees the records before noise is added.
    numerics : mapping
        How the noise was drawn.
    entropy : mapping
        Where the random bits came from.
    ledger : mapping or None
        The number and the hash of the ledger entry that paid for the release.
    created : str
        The time of the release, in ISO 8601.
    software : mapping
        The versions of Python and of the packages that the release used.
    sha256 : str
        The hash of all other fields of the certificate; empty before it is sealed.
    """

    trust: TrustModel
    numerics: Mapping[str, Any]
    entropy: Mapping[str, Any]
    ledger: Mapping[str, Any] | None = None
    created: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    software: Mapping[str, str] = field(
        default_factory=lambda: dict(installed_software())
    )
    sha256: str = ""


@dataclass(frozen=True)
class Certificate:
    """The public record of one release, from which its guarantee can be recomputed.

    Attributes
    ----------
    mechanism : str
        The registered name of the mechanism.
    manifold : str
        The name of the manifold on which the released value lies.
    parameters : mapping
        The public parameters of the mechanism, such as its noise scale.
    statistic : mapping
        The statistic as a dictionary (`Statistic.to_dict`): its name, the number of
        records, the public ball.
    sensitivity : float
        The largest distance between the statistics (or gradients) of neighboring data
        sets.
    guarantee : Guarantee
        The guarantee that the user requested.
    claims : Claims
        The guarantee that the release meets, in every definition.
    privacy_unit : ProtectedUnit
        Whose data are protected: a record or a person.
    release : mapping
        The released integers (None if they are too many to list), their SHA-256, the
        stages of a staged release, the post-processing, and why this mechanism was
        chosen.
    provenance : Provenance
        How, when and with what the release was made, and the hash of all other fields.

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
    release: Mapping[str, Any]
    provenance: Provenance

    def __hash__(self) -> int:
        # Most fields cannot be hashed, but equal certificates have equal SHA-256.
        return hash(self.provenance.sha256)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the certificate's file as JSON values.

        The fields of `provenance` stand beside the others, not in an object of their
        own.
        """
        record = _validate.field_values(self)
        record["guarantee"] = self.guarantee.to_dict()
        record["claims"] = self.claims.to_dict()
        record["privacy_unit"] = self.privacy_unit.value
        del record["provenance"]
        record |= _validate.field_values(self.provenance)
        record["trust"] = self.provenance.trust.value
        record["schema"] = SCHEMA
        return record

    def to_json(self) -> str:
        """Return the certificate as JSON text, from which floats are read back exactly."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file. If that fails, the old file is unchanged.

        Parameters
        ----------
        path : str or Path
            The file that is written or replaced.
        """
        write_atomically(path, self.to_json() + "\n")

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Parse the JSON text of a certificate, and check the form of every field.

        Parameters
        ----------
        text : str
            The JSON text that `to_json` wrote.

        Returns
        -------
        Certificate
            The certificate with every field of the right form. Whether its claims are
            true is for `curvedp verify` to recompute.

        Raises
        ------
        ParameterError
            If the text is not a certificate of this schema: if it is too long, has a
            duplicate key, or a field is missing, unknown or malformed.
        """
        try:
            return cls._from_record(_parse_record(text))
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
    def _from_record(cls, record: dict[str, Any]) -> "Certificate":
        """Build a certificate from its JSON values, after checking their form.

        Parameters
        ----------
        record : dict
            The fields of a certificate of this schema, as JSON values.
        """
        check_form_of(record, _file_fields())
        values = {name: value for name, value in record.items() if name != "schema"}
        values["claims"] = Claims.from_dict(values["claims"])
        values["guarantee"] = guarantee_from_dict(values["guarantee"])
        values["privacy_unit"] = ProtectedUnit(values["privacy_unit"])
        values["trust"] = TrustModel(values["trust"])
        provenance = Provenance(
            **{entry.name: values.pop(entry.name) for entry in fields(Provenance)}
        )
        return cls(**values, provenance=provenance)

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate from a file.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.

        Returns
        -------
        Certificate
            The certificate as it was saved, not yet verified.

        Raises
        ------
        ParameterError
            If the file cannot be read, or holds no certificate.
        """
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
        """Return a small HTML table for notebooks, with the warnings about the release."""
        # Both modules import this one, so they cannot be imported at the top.
        from curvedp.core.wording import protected_unit_sentence
        from curvedp.release.warnings import certificate_warnings

        rows = [
            ("guarantee", str(self.guarantee)),
            ("statistic", f"{self.statistic.get('name')} on {self.manifold}"),
            ("protected", protected_unit_sentence(self)),
            ("mechanism", self.mechanism),
            ("sensitivity", f"{self.sensitivity:.6g}"),
            ("entropy", str(self.provenance.entropy.get("source"))),
        ]
        rows += [("warning", warning.text) for warning in certificate_warnings(self)]
        cells = [
            f"<tr><th align='left'>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in rows
        ]
        return f"<b>curvedp certificate</b><table>{''.join(cells)}</table>"


def _parse_record(text: str) -> dict[str, Any]:
    """Return the JSON object in the text of a certificate of this schema.

    Parameters
    ----------
    text : str
        The text, which someone else may have written.

    Raises
    ------
    ParameterError
        If the text is too long, repeats a key, or has another schema.
    """
    if len(text) > MAX_BYTES:
        raise ParameterError(
            f"a certificate has at most {MAX_BYTES} characters; this text has {len(text)}"
        )
    record = json.loads(
        text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_nan
    )
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise ParameterError(
            f"the schema is not {SCHEMA!r}; other schemas need the version that "
            "wrote them"
        )
    return record


def _file_fields() -> set[str]:
    """Return the names of the top-level fields in a certificate's file.

    The fields of `Provenance` stand beside those of `Certificate`, together with
    "schema".
    """
    declared = (*fields(Certificate), *fields(Provenance))
    names = {entry.name for entry in declared} | {"schema"}
    return names - {"provenance"}


def compute_sha256(certificate: Certificate) -> str:
    """Return the SHA-256 of the canonical JSON of every field except `sha256`.

    Canonical JSON (RFC 8785) has one text for equal values, so that the hash depends on
    the values and not on the layout of the file.

    Parameters
    ----------
    certificate : Certificate
        The certificate; its own field `sha256` is left out.
    """
    record = certificate.to_dict()
    del record["sha256"]
    return digest(record).hex()


def seal(certificate: Certificate) -> Certificate:
    """Return a copy of a certificate whose field `sha256` is the hash of all others.

    It is the last step of a release; `verify` computes the same hash and compares.

    Parameters
    ----------
    certificate : Certificate
        The complete certificate.
    """
    sha256 = compute_sha256(certificate)
    return replace(
        certificate, provenance=replace(certificate.provenance, sha256=sha256)
    )


def check_form(certificate: Certificate) -> None:
    """Raise `ParameterError` if a field of a certificate is malformed.

    Used for certificates that were built in Python. `Certificate.from_json` makes the
    same checks on a file.

    Parameters
    ----------
    certificate : Certificate
        A certificate that was built in Python.

    Raises
    ------
    ParameterError
        The message names the field.
    """
    check_form_of(certificate.to_dict(), _file_fields())


def sign_certificate(certificate: Certificate, identity: Ed25519PrivateKey) -> str:
    """Return an Ed25519 signature of the whole certificate, in hexadecimal digits.

    Parameters
    ----------
    certificate : Certificate
        The sealed certificate.
    identity : Ed25519PrivateKey
        The private key of whoever vouches for the release.
    """
    return signature(identity, certificate.to_dict(), SCHEMA)


def is_certificate_signed(certificate: Certificate, key: str, signed: Any) -> bool:
    """Return whether a signature of this certificate by a public key is valid.

    Parameters
    ----------
    certificate : Certificate
        The certificate in its present state.
    key : str
        The public key, in hexadecimal digits.
    signed : JSON value
        The signature. Anything that is not a valid signature is refused.
    """
    return is_signed(key, certificate.to_dict(), signed, SCHEMA)


def record_space(certificate: Certificate) -> str:
    """Return the name of the manifold of the records.

    It differs from the manifold of the released value if a variance or a sum was
    released.

    Parameters
    ----------
    certificate : Certificate
        The certificate of any release.
    """
    return str(certificate.statistic.get("manifold", certificate.manifold))


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise `ParameterError` for a duplicate key.

    Two parsers may read different values of a duplicate key, so that a person and
    `verify` would see different certificates.

    Parameters
    ----------
    pairs : list of (str, object)
        The members of an object, as `json.loads` passes them.

    Returns
    -------
    dict
        The members by name.
    """
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ParameterError("a key occurs twice")
    return record


def _refuse_nan(name: str) -> Any:
    """Raise `ParameterError` for NaN or Infinity, which `json.loads` would accept.

    Parameters
    ----------
    name : str
        "NaN", "Infinity" or "-Infinity", as `json.loads` passes it.
    """
    raise ParameterError("NaN and Infinity are not JSON numbers")


@dataclass(frozen=True)
class Release:
    """A released value, which may be published, with its certificate.

    Attributes
    ----------
    value : Any
        The released value: a point, a number, or an array.
    certificate : Certificate
        The record of the privacy guarantee and of how the value was drawn.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LogGaussianMechanism
    >>> LogGaussianMechanism(Euclidean(2), 0.1, 0.1).release([0.0, 0.0]).value.shape
    (2,)
    """

    value: Any
    certificate: Certificate
