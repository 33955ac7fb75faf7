"""Recompute what a certificate claims, from the certificate alone.

Statistic and mechanism are built anew from their dictionaries, validated as if a user had given them. A number that is
claimed (sensitivity, noise, μ, ε, ρ, θ, δ) must be no better than the recomputed one; everything else must be what the
mechanism itself would have written. A certificate in which anything was changed is refused by its own SHA-256; if that was
taken anew, what was changed is refused, claims less, or makes it the certificate of another release.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import exp, inf, isclose, isfinite, pi, sqrt
from typing import Any

import numpy as np

from curvedp.entropy.csprng import Allowance
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed
from curvedp.geometry import Euclidean, parse_manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.mechanisms.base import EXACT, FLOAT, Mechanism
from curvedp.mechanisms.certificate import (
    CURVE_EPSILONS,
    ROUNDED,
    Certificate,
    Check,
    Claims,
    at_least,
    check_form,
    digest_of_integers,
)
from curvedp.mechanisms.certificate_fields import lies_in_future
from curvedp.mechanisms.statistic import UNIT_FIELD, Stated, Statistic
from curvedp.mechanisms.value import ValueMechanism
from curvedp.privacy import certified_mu
from curvedp.privacy.calibration import meets

_WIDTH = 1e-6  # relative width of the certified enclosures
_LARGEST_TAU = 2.0**-80  # of a whole release
# Beyond these dimensions nothing is recomputed: a short text could ask for any amount
# of work. Flat spaces take less of it.
_LARGEST_DIMENSION = 20_000
_LARGEST_FLAT_DIMENSION = 999_999
SOURCES = {
    "AES-256-CTR keyed by the operating system": True
}  # every other source is a simulation
_WRONG = (
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    LookupError,
    RecursionError,
)
_REFUSALS = (CurvedpError, *_WRONG)  # what a stranger's numbers may lead to


def verify_certificate(certificate: Certificate) -> list[Check]:
    """Every claim, checked: confirmed (True), refuted (False), or of a kind that no certificate can confirm (None).

    A certificate comes from outside: whatever its fields hold, the worst answer is `VerificationFailed`, where it describes
    nothing that can be rebuilt.
    """
    try:
        check_form(certificate)
        if certificate.sha256 != certificate.fingerprint:
            raise VerificationFailed(
                "the certificate was changed: its SHA-256 is not the one it was written with"
            )
        with np.errstate(all="ignore"):  # a stranger's numbers may overflow anything
            return _checks(certificate, rebuild_mechanism(certificate))
    except VerificationFailed:
        raise
    except KeyError as error:
        raise VerificationFailed(f"the certificate does not say its {error}") from None
    except _REFUSALS as error:
        text = _shown(str(error).replace("\n", " "))
        raise VerificationFailed(
            f"the certificate cannot be recomputed: {text}"
        ) from None


def _checks(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    """The claims, which take long, only where they are of this mechanism and this sensitivity."""
    sealed = "of all that the certificate says; a signature would say whose"
    checks = [
        Check(f"SHA-256 {certificate.sha256[:16]}…", True, sealed),
        _check_unit(certificate, mechanism.statistic),
        _describe_statistic(certificate),
        *_check_sensitivity(certificate, mechanism),
        *mechanism.checks(certificate),
        *_check_words(certificate, mechanism),
    ]
    if any(check.holds is False for check in checks):
        return checks
    return [
        *checks,
        *_check_claims(certificate, mechanism),
        *_check_numerics(certificate, mechanism),
    ]


def rebuild_mechanism(certificate: Certificate) -> Any:
    """The mechanism that the certificate describes, validated anew."""
    if certificate.mechanism not in Mechanism.registry:
        raise ParameterError(
            f"unknown mechanism; known: {', '.join(Mechanism.registry)}"
        )
    _check_size(certificate)
    kind, statistic = (
        Mechanism.registry[certificate.mechanism],
        Statistic.from_dict(dict(certificate.statistic)),
    )
    if not kind.serves(statistic):
        raise ParameterError(f"{kind.name} does not release a {statistic.name}")
    described = {
        name: value
        for name, value in certificate.statistic.items()
        if name != UNIT_FIELD
    }
    if not _has_form_of(statistic.to_dict(), described):
        raise ParameterError("the statistic is not written as it writes itself")
    mechanism = kind.rebuilt(statistic, certificate.parameters)
    if sorted(mechanism.parameters) != sorted(certificate.parameters):
        raise ParameterError(
            f"the parameters of {kind.name} are {', '.join(mechanism.parameters)}"
        )
    for name, own in mechanism.parameters.items():
        stated = certificate.parameters[name]
        same_kind = type(stated) is type(own) or (
            isinstance(own, float) and type(stated) is int
        )
        more = (
            name == "scale"
            and isinstance(stated, float)
            and stated >= own * (1 - ROUNDED)
        )
        if not more and (
            not same_kind or stated != own
        ):  # more noise than it takes is no lie
            raise ParameterError(f"the parameter {name} is not what the others imply")
    charted = hasattr(mechanism, "base") or not isinstance(statistic, Stated)
    if not charted and any(
        getattr(statistic, part) is not None
        for part in ("center", "radius", "in_chart")
    ):
        raise ParameterError(
            "this mechanism has no chart, so no ball of one can be stated"
        )
    if certificate.manifold != mechanism.manifold.name:
        raise ParameterError("the manifold is not that of the statistic")
    return mechanism


def _check_size(certificate: Certificate) -> None:
    """Refuse what would take minutes or gigabytes before anything is built.

    The parser of names reads the numbers: a length may have any number of digits.
    """
    space_of_records = str(certificate.statistic.get("manifold", certificate.manifold))
    for name in (certificate.manifold, space_of_records):
        if len(name) > 400 or name.count("product") > 8:
            raise ParameterError("the manifold's name is too long")

        manifold = parse_manifold(name)
        is_flat = isinstance(manifold, Euclidean)
        most = _LARGEST_FLAT_DIMENSION if is_flat else _LARGEST_DIMENSION
        if manifold.dim > most:
            raise ParameterError(f"the manifold has more than {most} dimensions")
        if len(manifold.factors) > 8:
            raise ParameterError("the manifold has more than eight factors")


def _check_sensitivity(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    if isinstance(mechanism.statistic, Stated):
        claim = f"sensitivity {certificate.sensitivity:.9g}"
        same = certificate.sensitivity == mechanism.sensitivity
        return [
            Check(
                claim,
                None if same else False,
                "stated by the caller, who vouches for it",
            )
        ]
    least = mechanism.sensitivity
    stated = at_least(
        f"sensitivity of the {mechanism.statistic.name}", certificate.sensitivity, least
    )
    # A larger one would belong to fewer records or a wider ball than the certificate says.
    return [
        stated
        if certificate.sensitivity <= least * (1 + _WIDTH)
        else stated._replace(holds=False)
    ]


# ---- what every certificate claims ----


def _check_claims(certificate: Certificate, mechanism: Any) -> list[Check]:
    claims, profile = certificate.claims, mechanism.profile
    tau = certificate.numerics["tau"]
    true = Claims.of(profile, tau or 0.0)
    checks = [
        Check(
            f"slack {claims.slack:.3g}", claims.slack == true.slack, "the numerics' τ"
        )
    ]
    for name in ("gdp", "pure", "zcdp", "rao"):
        stated, least = getattr(claims, name), getattr(true, name)
        if stated is not None:
            least = _certified_mu(mechanism, least) if name == "gdp" else least
            holds = least is not None and least * (1 - _WIDTH) <= stated < inf
            checks.append(
                Check(
                    f"{name} {stated:.9g}",
                    holds,
                    f"recomputed {least and format(least, '.9g')}",
                )
            )
    if tuple(eps for eps, _ in claims.curve) != CURVE_EPSILONS:
        return [
            *checks,
            Check(
                "(ε, δ) curve",
                False,
                "not at the values of ε that certificates of this schema have",
            ),
        ]
    for (eps, stated), (_, exact) in zip(claims.curve, true.curve, strict=True):
        close = exact * (1 - _WIDTH) <= stated and _quick(mechanism)
        upper = (
            _delta_of(*mechanism.noise, eps) + (1 + exp(eps)) * (tau or 0.0)
            if close
            else exact
        )
        holds = min(upper, 1.0) * (1 - _WIDTH) <= stated <= 1
        checks.append(
            Check(f"δ({eps:g}) = {stated:.6g}", holds, f"recomputed {upper:.9g}")
        )
    asked = certificate.guarantee
    if asked.adjacency != profile.adjacency:
        return [
            *checks,
            Check(
                f"{asked} as asked",
                False,
                f"this release is for {profile.adjacency} adjacency",
            ),
        ]
    return [
        *checks,
        Check(
            f"{asked} as asked",
            _met(mechanism, asked),
            "the ideal law's profile meets it",
        ),
    ]


def _met(mechanism: Any, asked: Any) -> bool:
    from curvedp.mechanisms.kng import pure_epsilon
    from curvedp.privacy import GDP, ApproxDP, PureDP, convert, gaussian_profile
    from curvedp.privacy.profiles.ricci_bound import PureProfile

    if isinstance(mechanism.profile, PureDP) and isinstance(
        asked, PureDP | ApproxDP | GDP
    ):
        return bool(
            mechanism.profile.eps
            <= pure_epsilon(replace(asked, adjacency="replace-one")) * (1 + 1e-12)
        )
    if isinstance(asked, ApproxDP):
        return bool(
            float(mechanism.profile.delta(asked.eps)) <= asked.delta0 * (1 + 1e-9)
        )
    if isinstance(mechanism.profile, PureDP):
        return bool(
            meets(PureProfile(mechanism.profile.eps, adjacency=asked.adjacency), asked)
        )
    if not hasattr(mechanism, "known_batches"):
        return bool(meets(mechanism.profile, asked))
    mu = convert(mechanism.known_batches, to=GDP).mu * (
        1 - 1e-9
    )  # of Gaussian releases, which are together one
    return bool(
        meets(
            gaussian_profile(0.0, 1, 1.0, mu), replace(asked, adjacency="replace-one")
        )
    )


def _certified_mu(mechanism: Any, own: float | None) -> float | None:
    """By the certified path on flat space and for Laplace laws, which knows spheres, hyperbolic and Euclidean spaces, and not
    what is less than they are: circles, lines through 0, rotations. On nearly flat curved space the supremum over ε is
    approached only where δ is below e^-1000, and enclosing it takes minutes (`certified_mu`); there the exact profile, whose
    tail is closed by a theorem, decides."""
    if own is None or not _quick(mechanism):
        return own
    kind, space, scale, moved = mechanism.noise
    curvature = space.constant_curvature
    whole = isclose(
        space.injectivity_radius, pi / sqrt(curvature) if curvature > 0 else inf
    )
    if not whole or (kind == "gaussian" and curvature != 0):
        return own
    return max(own * (1 - _WIDTH / 2), _mu_of(kind, curvature, space.dim, scale, moved))


# Certified numbers take most of the time, and the certificates of all classes ask for the same.


@lru_cache(maxsize=256)
def _mu_of(kind: str, curvature: float, dim: int, scale: float, moved: float) -> float:
    return float(certified_mu(kind, curvature, dim, scale, moved)[1])


@lru_cache(maxsize=1024)
def _delta_of(kind: str, space: Any, scale: float, moved: float, eps: float) -> float:
    law = (RiemannianGaussian if kind == "gaussian" else RiemannianLaplace)(
        space, scale
    )
    return float(law.certified_delta(moved, eps)[1])


def _quick(mechanism: Any) -> bool:
    """Whether there is a certified path, and it ends within seconds."""
    if not isinstance(mechanism, ValueMechanism):
        return False
    kind, space, *_ = mechanism.noise
    curvature = space.constant_curvature
    return curvature is not None and (
        (curvature == 0 and kind == "gaussian") or space.dim <= 30
    )


# ---- how it was drawn, and in which words ----


def _check_numerics(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    numerics, entropy = certificate.numerics, certificate.entropy
    source, grid, path, label, tau = (
        entropy["source"],
        *(numerics[name] for name in ("grid", "path", "profile", "tau")),
    )
    private = (
        isinstance(source, str)
        and SOURCES.get(source) is True
        and entropy["cryptographic"] is True
    )
    public = type(grid) is int and grid == mechanism.grid
    checks = [
        Check(
            f"entropy: {_shown(source)}", private, "a simulated source is not private"
        ),
        Check(f"grid 2^-{_shown(grid)}", public, "public"),
        Check(
            f"path: {_shown(path)}",
            path == mechanism.path,
            "the mechanism has no other",
        ),
        Check(
            f"profile: {_shown(label)}", label == mechanism.profile.label, "recomputed"
        ),
    ]
    if mechanism.path == FLOAT:
        unknown = "the claims hold for the ideal law; how far the drawn one is from it, τ, is not known"
        return [
            *checks,
            Check(
                "sampler: float64",
                None if tau is None else False,
                f"drawn in float64: {unknown}",
            ),
        ]
    number = isinstance(tau, float) and isfinite(tau)
    # What every exact draw of so many numbers costs at least; discrete noise has its own bound (`Mechanism.checks`).
    drawn = certificate.release["integers"] or [[0]]
    least = (
        sum(Allowance(len(part)).tau() for part in drawn)
        if mechanism.path == EXACT
        else 0.0
    )
    usable = number and 0 < tau <= _LARGEST_TAU and least <= tau
    return [
        *checks,
        Check(f"slack τ = {_shown(tau)}", usable, "added to δ as (1+e^ε)τ"),
    ]


def _check_words(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    release = certificate.release
    kept = release["integers"]
    bound = kept is None or digest_of_integers(kept) == release["sha256"]
    checks = [Check("integers", bound, "their SHA-256 is the one stated")]
    if kept is None and mechanism.staged:
        raise ParameterError("a release in stages lists its integers")
    if kept is not None:
        mechanism.value_of(
            certificate
        )  # refuses integers that are not of this mechanism
        if kept and _has_value(
            replace(certificate, release={**release, "integers": kept[:-1]}), mechanism
        ):
            raise ParameterError(
                "the release lists integers that its value does not need"
            )
    same_words = (
        certificate.trust == mechanism.trust
        and release["afterwards"] == list(mechanism.afterwards)
        and bool(release["stages"]) == mechanism.staged
    )
    claim = "trust and post-processing"
    return [*checks, Check(claim, same_words, "as the mechanism says")]


def _check_unit(certificate: Certificate, statistic: Statistic) -> Check:
    """Whose data are protected: the unit that the statistic itself is of.

    A statistic that can protect several units (records, or persons whose records were
    averaged) names the one it is of. Certificates of earlier versions do not; then no claim
    rests on the unit, and it is not known.
    """
    claim = f"unit: {certificate.unit}"
    if certificate.unit not in (statistic.unit, *statistic.units):
        return Check(
            f"unit: {_shown(certificate.unit)}", False, "not of this statistic"
        )
    says_unit = UNIT_FIELD in certificate.statistic
    if not statistic.units:
        return Check(claim, not says_unit, "the statistic protects no other")
    if not says_unit:
        return Check(claim, None, "the statistic does not say whose values it is of")
    is_same = certificate.statistic[UNIT_FIELD] == certificate.unit
    detail = "the statistic is of such values, as its curator recorded"
    return Check(claim, is_same, detail)


def _describe_statistic(certificate: Certificate) -> Check:
    """What was released, of how many, and where: for the reader, from what was rebuilt."""
    n = certificate.statistic.get("n")
    number = "" if n is None else f" of n = {n} {certificate.whose}s"
    name = certificate.statistic["name"]
    space = _shown(certificate.where)
    detail = "statistic and space were built again; n is the curator's word"
    if n is None and certificate.guarantee.adjacency == "add-remove":
        detail = "statistic and space were built again; n is private"
    return Check(f"statistic: {name}{number} on {space}", True, detail)


def _has_form_of(own: Any, stated: Any) -> bool:
    """Whether a stated JSON value is as one's own, but for the size of its numbers."""
    if isinstance(own, Mapping):
        return (
            isinstance(stated, Mapping)
            and set(stated) == set(own)
            and all(_has_form_of(part, stated[name]) for name, part in own.items())
        )
    if isinstance(own, list | tuple):
        return (
            isinstance(stated, list | tuple)
            and len(stated) == len(own)
            and all(map(_has_form_of, own, stated))
        )
    if isinstance(own, int | float):
        return isinstance(stated, int | float)
    return bool(stated == own)


def remarks_on(certificate: Certificate) -> list[str]:
    """Return what a reader should know of the fields that nobody can recompute.

    Parameters
    ----------
    certificate : Certificate
        One whose fields have their form (`check_form`).

    Returns
    -------
    list of str
        What the software recorded; then a remark where the time lies in the future.
    """
    entry = "no ledger"
    if certificate.ledger is not None:
        entry = f"entry {certificate.ledger['entry']} of a ledger"
    version = certificate.software["curvedp"]
    recorded = f"made {certificate.created} by curvedp {version}, paid by {entry}"
    remarks = [f"recorded by the software, not recomputed: {recorded}"]
    if lies_in_future(certificate.created):
        remarks.append("the certificate's time lies in the future by this clock")
    return remarks


def _has_value(certificate: Certificate, mechanism: Mechanism) -> bool:
    try:
        mechanism.value_of(certificate)
    except _REFUSALS:
        return False
    return True


def _shown(value: Any) -> str:
    """A field of a stranger's certificate, inert and short."""
    return re.sub(r"[^\w .,;:='()-]", "?", str(value))[:80]
