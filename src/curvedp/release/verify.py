"""Recompute what a certificate claims, from the certificate alone.
Statistic and mechanism are rebuilt from their dictionaries, and validated as if a user
had passed them. A claimed number (sensitivity, noise, μ, ε, ρ, θ, δ) must be no better
than the recomputed one; everything else must be what the mechanism itself would have
written. A changed certificate does not have the SHA-256 that it states. If someone
changes that too, the certificate is refused, or it claims less, or it describes another
release.
"""

import re
from dataclasses import replace
from functools import lru_cache
from math import exp, inf, isclose, isfinite, pi, prod, sqrt
from typing import Any

import numpy as np

from curvedp.core.capabilities import ChecksItself
from curvedp.core.certificate import (
    CURVE_EPSILONS,
    Certificate,
    Check,
    Claims,
    check_at_least,
    check_form,
    compute_sha256,
    hash_integers,
    record_space,
)
from curvedp.core.certificate_form import lies_in_future
from curvedp.core.codes import SamplingPath
from curvedp.core.mechanism import (
    MAX_LISTED_INTEGERS,
    Mechanism,
    post_processing_of,
    profile_kind,
)
from curvedp.core.statistic import UNIT_FIELD, ExternalValue, Statistic
from curvedp.core.wording import UNIT_WORDS, protected_unit_sentence
from curvedp.errors import ParameterError, VerificationFailed
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.mechanisms.geodesic_knorm import GeodesicMechanism
from curvedp.mechanisms.isotropic.base import NoiseDescription, ValueMechanism
from curvedp.mechanisms.knorm_gradient import pure_epsilon
from curvedp.mechanisms.optimizer import BatchMechanism, OptimizerMechanism
from curvedp.privacy import (
    GDP,
    ApproxDP,
    Guarantee,
    PureDP,
    certified_mu,
    convert,
    gaussian_profile,
)
from curvedp.privacy.calibration import meets
from curvedp.privacy.profiles.ricci_bound import PureProfile
from curvedp.randomness.csprng import SECURE_SOURCE_NAME, Allowance
from curvedp.release.rebuild import RECOMPUTATION_FAILURES, rebuild_mechanism
from curvedp.release.verify_choice import check_choice

# The relative width of certified enclosures of μ and δ, and of the tolerance with which
# claims are compared with them.
_ENCLOSURE_WIDTH = 1e-6
# The largest total variation distance (slack) of a whole release from its ideal law.
_MAX_SLACK = 2.0**-80
# Up to this dimension a certified enclosure takes seconds.
_MAX_ENCLOSED_DIMENSION = 30


def verify_certificate(certificate: Certificate) -> list[Check]:
    """Check every claim of a certificate by computing it again, without the records.

    Parameters
    ----------
    certificate : Certificate
        The certificate, which may come from someone else.

    Returns
    -------
    list of Check
        One check for each claim. `holds` is True if it was confirmed, False if it was
        refuted, and None if no certificate can confirm such a claim.

    Raises
    ------
    VerificationFailed
        If the certificate was changed, or does not describe a mechanism that can be
        rebuilt. No other exception is raised, whatever its fields contain.
    """
    try:
        check_form(certificate)
        if certificate.provenance.sha256 != compute_sha256(certificate):
            raise VerificationFailed(
                "the certificate was changed: its SHA-256 is not the one it was written "
                "with"
            )
        with np.errstate(all="ignore"):  # numbers from someone else may overflow
            return _check_all(certificate, rebuild_mechanism(certificate))
    except VerificationFailed:
        raise
    except KeyError as error:
        raise VerificationFailed(f"the certificate does not say its {error}") from None
    except RECOMPUTATION_FAILURES as error:
        text = _harmless_text(str(error).replace("\n", " "))
        raise VerificationFailed(
            f"the certificate cannot be recomputed: {text}"
        ) from None


def _check_all(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    """Check everything that a certificate states.

    Checking the claims about privacy takes long, so it is done only if all other checks
    hold.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    mechanism : Mechanism
        The mechanism that was rebuilt from it.

    Returns
    -------
    list of Check
        One check for each claim.
    """
    checks = [
        Check(
            f"SHA-256 {certificate.provenance.sha256[:16]}…",
            True,
            "it covers all fields of the certificate, but does not say who wrote them; "
            "a signature does",
        ),
        _check_unit(certificate, mechanism.statistic),
        _describe_statistic(certificate),
        _check_sensitivity(certificate, mechanism),
    ]
    if isinstance(mechanism, ChecksItself):
        checks += mechanism.further_checks(certificate)
    checks += _check_release(certificate, mechanism)
    if any(check.holds is False for check in checks):
        return checks
    return [
        *checks,
        *_check_claims(certificate, mechanism),
        *_check_numerics(certificate, mechanism),
    ]


# ---- whose data, what, how far ----


def _check_unit(certificate: Certificate, statistic: Statistic) -> Check:
    """Check the stated unit of privacy against the statistic's.

    A statistic that can protect several units (records, or people whose records were
    averaged) states which one it protects.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    statistic : Statistic
        The statistic that was built from it.

    Returns
    -------
    Check
        It holds if the statistic protects that unit; None if the statistic states none.
    """
    claim = f"protected: {protected_unit_sentence(certificate)}"
    if certificate.privacy_unit not in statistic.privacy_units:
        return Check(claim, False, "not a unit of this statistic")
    if len(statistic.privacy_units) == 1:
        holds = UNIT_FIELD not in certificate.statistic
        return Check(claim, holds, "the only unit of this statistic")
    if UNIT_FIELD not in certificate.statistic:
        return Check(claim, None, "the statistic states no privacy unit")
    holds = certificate.statistic[UNIT_FIELD] == certificate.privacy_unit.value
    return Check(claim, holds, "consistent with the statistic; recorded by the curator")


def _describe_statistic(certificate: Certificate) -> Check:
    """Return a line for the reader that names the released statistic, n and the space.

    It has the form of a check that always holds, because the statistic has been
    rebuilt.

    Parameters
    ----------
    certificate : Certificate
        The certificate, whose statistic and space were rebuilt.

    Returns
    -------
    Check
        Always true: it tells the reader what the other checks are about.
    """
    n = certificate.statistic.get("n")
    count = ""
    if n is not None:
        count = f" of n = {n} {UNIT_WORDS[certificate.privacy_unit].plural}"
    detail = "statistic and manifold were rebuilt; n is stated by the curator"
    if n is None and certificate.guarantee.adjacency == "add-remove":
        detail = "statistic and manifold were rebuilt; n is private"
    name = certificate.statistic["name"]
    space = _harmless_text(record_space(certificate))
    return Check(f"statistic: {name}{count} on {space}", True, detail)


def _check_sensitivity(certificate: Certificate, mechanism: Mechanism) -> Check:
    """Check that the stated sensitivity equals the theorem's.

    A larger sensitivity is refuted too, because it does not follow from the number of
    records and the ball that the certificate states.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    mechanism : Mechanism
        The mechanism that was built from it.

    Returns
    -------
    Check
        None, neither true nor false, for a sensitivity that the caller vouched for.
    """
    recomputed = mechanism.sensitivity
    if isinstance(mechanism.statistic, ExternalValue):
        is_same = certificate.sensitivity == recomputed
        return Check(
            f"sensitivity {certificate.sensitivity:.9g}",
            None if is_same else False,
            "supplied by the user, not recomputed",
        )
    check = check_at_least(
        f"sensitivity of the {mechanism.statistic.name}",
        certificate.sensitivity,
        recomputed,
    )
    if certificate.sensitivity > recomputed * (1 + _ENCLOSURE_WIDTH):
        return check._replace(holds=False)
    return check


# ---- the guarantee in every definition ----


def _check_claims(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    """Check the stated μ, ε, ρ, θ and (ε, δ) curve, and the requested guarantee.

    The slack is the stated total variation distance between the drawn and the ideal
    noise; it is added to every δ.

    Parameters
    ----------
    certificate : Certificate
        The certificate with the claims.
    mechanism : Mechanism
        The mechanism that was built from it, whose profile is computed again.

    Returns
    -------
    list of Check
        One for the slack, each finite parameter, each point of the curve, and the
        request.
    """
    claims = certificate.claims
    slack = certificate.provenance.numerics["slack"] or 0.0
    recomputed = Claims.from_profile(mechanism.privacy_profile, slack)
    checks = [
        Check(
            f"slack {claims.slack:.3g}",
            claims.slack == recomputed.slack,
            "equals the slack of the sampler",
        )
    ]

    # Each stated parameter must be at least the recomputed one.
    smallest_by_name = recomputed.parameters()
    for name, stated in claims.parameters().items():
        if stated is None:
            continue
        smallest = smallest_by_name[name]
        if name == "gdp":
            smallest = _certified_mu_of(mechanism, smallest)
        checks.append(_check_parameter(name, stated, smallest))

    checks += _check_curve(mechanism, claims, recomputed, slack)
    checks.append(_check_request(certificate, mechanism))
    return checks


def _check_curve(
    mechanism: Mechanism, claims: Claims, recomputed: Claims, slack: float
) -> list[Check]:
    """Check the points (ε, δ) of a certificate's curve.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was built from the certificate.
    claims, recomputed : Claims
        The claims of the certificate, and the same claims computed again.
    slack : float
        The stated total variation distance between the drawn and the ideal noise.

    Returns
    -------
    list of Check
        One for each point; a single failed one if the values of ε are wrong.
    """
    if tuple(eps for eps, _ in claims.curve) != CURVE_EPSILONS:
        detail = "not at the values of ε that certificates of this schema have"
        return [Check("(ε, δ) curve", False, detail)]
    points = zip(claims.curve, recomputed.curve, strict=True)
    return [
        _check_delta(mechanism, eps, stated, exact, slack)
        for (eps, stated), (_, exact) in points
    ]


def _check_parameter(name: str, stated: float, smallest: float | None) -> Check:
    """Check that a stated parameter is no better than the recomputed one.

    Parameters
    ----------
    name : str
        The name of the parameter, such as "gdp".
    stated : float
        The parameter in the certificate.
    smallest : float or None
        The recomputed parameter; None if the mechanism has no finite one.

    Returns
    -------
    Check
        It holds if the stated parameter is finite, and at least the recomputed one up
        to a relative 1e-6: claiming less privacy than there is is allowed.
    """
    if smallest is None:
        return Check(f"{name} {stated:.9g}", False, "recomputed None")
    holds = smallest * (1 - _ENCLOSURE_WIDTH) <= stated < inf
    return Check(f"{name} {stated:.9g}", holds, f"recomputed {smallest:.9g}")


def _check_delta(
    mechanism: Mechanism, eps: float, stated: float, exact: float, slack: float
) -> Check:
    """Check one point of the (ε, δ) curve.

    The claim δ(ε) is refuted if it is smaller than the recomputed one. If it is close
    to it, it is compared with a certified bound instead, provided that such a bound can
    be computed within seconds.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was built from the certificate.
    eps : float
        The ε of the point.
    stated, exact : float
        The δ in the certificate, and the δ of the mechanism's profile.
    slack : float
        The total variation that the numerics add.

    Returns
    -------
    Check
        It holds if the stated δ is large enough, and at most 1.
    """
    smallest = exact
    is_close = exact * (1 - _ENCLOSURE_WIDTH) <= stated
    if is_close and isinstance(mechanism, ValueMechanism):
        if _has_quick_enclosure(mechanism.noise):
            certified = _certified_delta_of(mechanism.noise, eps)
            smallest = certified + (1 + exp(eps)) * slack
    holds = min(smallest, 1.0) * (1 - _ENCLOSURE_WIDTH) <= stated <= 1
    return Check(f"δ({eps:g}) = {stated:.6g}", holds, f"recomputed {smallest:.9g}")


def _check_request(certificate: Certificate, mechanism: Mechanism) -> Check:
    """Check that the release satisfies the guarantee that was requested.

    Parameters
    ----------
    certificate : Certificate
        The certificate, which states the request.
    mechanism : Mechanism
        The mechanism that was built from it.

    Returns
    -------
    Check
        It holds if the profile implies the guarantee that the user requested.
    """
    requested = certificate.guarantee
    adjacency = mechanism.privacy_profile.adjacency
    claim = f"requested guarantee {requested}"
    if requested.adjacency != adjacency:
        return Check(claim, False, f"this release is for {adjacency} adjacency")
    is_met = _meets_request(mechanism, requested)
    return Check(claim, is_met, "met by the profile of the ideal distribution")


def _meets_request(mechanism: Mechanism, requested: Any) -> bool:
    """Return whether a mechanism's profile implies the requested guarantee.

    A certificate states what the user requested; the mechanism may promise more, but
    not less.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was built from the certificate.
    requested : Guarantee
        The guarantee in the certificate.

    Returns
    -------
    bool
        True if it does, up to a relative rounding error.
    """
    profile = mechanism.privacy_profile
    replace_one: Guarantee = replace(requested, adjacency="replace-one")
    if isinstance(profile, PureDP):
        if isinstance(requested, PureDP | ApproxDP | GDP):
            return bool(profile.eps <= pure_epsilon(replace_one) * (1 + 1e-12))
        pure_profile = PureProfile(profile.eps, adjacency=requested.adjacency)
        return bool(meets(pure_profile, requested))
    if isinstance(requested, ApproxDP):
        delta = float(profile.delta(requested.eps))
        return bool(delta <= requested.delta0 * (1 + 1e-9))
    if not isinstance(mechanism, BatchMechanism):
        return bool(meets(profile, requested))  # type: ignore[arg-type]  # not pure
    # μ-GDP and Rényi DP are checked without amplification by sampling: all steps
    # together are one Gaussian release with this μ.
    mu = convert(mechanism.profile_of_known_batches, to=GDP).mu * (1 - 1e-9)
    return bool(meets(gaussian_profile(0.0, 1, 1.0, mu), replace_one))


def _certified_mu_of(mechanism: Mechanism, own: float | None) -> float | None:
    """Return a certified upper bound on μ, or the mechanism's own μ if there is none.

    There are certified bounds for spheres, hyperbolic and Euclidean spaces, but not for
    their quotients (circles of other lengths, lines through 0, rotations). For Gaussian
    noise on curved space μ is a supremum over ε that may be approached only where δ is
    below e^-1000; a certified bound would take minutes. The mechanism's exact profile
    is used instead, whose tail a theorem bounds.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was built from the certificate.
    own : float or None
        The μ of its profile; None if it satisfies no μ-GDP.

    Returns
    -------
    float or None
        The μ with which the stated one is compared.
    """
    if own is None or not isinstance(mechanism, ValueMechanism):
        return own
    noise = mechanism.noise
    if not _has_quick_enclosure(noise):
        return own
    curvature = noise.space.constant_curvature
    assert curvature is not None  # `_has_quick_enclosure` has seen it
    full_radius = pi / sqrt(curvature) if curvature > 0 else inf
    is_whole_space = isclose(noise.space.injectivity_radius, full_radius)
    if not is_whole_space or (noise.kind == "gaussian" and curvature != 0):
        return own
    enclosed = _cached_certified_mu(
        noise.kind, curvature, noise.space.dim, noise.scale, noise.sensitivity
    )
    return max(own * (1 - _ENCLOSURE_WIDTH / 2), enclosed)


def _has_quick_enclosure(noise: NoiseDescription) -> bool:
    """Return whether there is a certified enclosure that takes only seconds.

    Parameters
    ----------
    noise : NoiseDescription
        The kind of the noise, its scale, the sensitivity and the space.

    Returns
    -------
    bool
        True for Gaussian noise in flat space of any dimension, and for spaces of
        constant curvature up to dimension 30.
    """
    curvature = noise.space.constant_curvature
    if curvature is None:
        return False
    is_flat_gaussian = curvature == 0 and noise.kind == "gaussian"
    return is_flat_gaussian or noise.space.dim <= _MAX_ENCLOSED_DIMENSION


# Certified bounds take most of the time of a verification, and the certificates of all
# classes of a classifier need the same ones.


@lru_cache(maxsize=256)
def _cached_certified_mu(
    kind: str, curvature: float, dim: int, scale: float, sensitivity: float
) -> float:
    """Return a certified upper bound on μ of isotropic noise. The result is cached.

    Interval arithmetic proves the bound, so that no rounding can make it too small.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The kind of noise.
    curvature : float
        The constant curvature of the space.
    dim : int
        The dimension of the space.
    scale : float
        The scale of the noise.
    sensitivity : float
        The sensitivity of the statistic.

    Returns
    -------
    float
        The upper end of a certified enclosure of μ.
    """
    return float(certified_mu(kind, curvature, dim, scale, sensitivity)[1])


@lru_cache(maxsize=1024)
def _certified_delta_of(noise: NoiseDescription, eps: float) -> float:
    """Return a certified upper bound on δ(ε) of isotropic noise. The result is cached.

    Interval arithmetic proves the bound, so that no rounding can make it too small.

    Parameters
    ----------
    noise : NoiseDescription
        The kind, the scale and the space of the noise, and the sensitivity.
    eps : float
        The ε.

    Returns
    -------
    float
        The upper end of a certified enclosure of δ(ε), without slack.
    """
    law_kind = RiemannianGaussian if noise.kind == "gaussian" else RiemannianLaplace
    law = law_kind(noise.space, noise.scale)
    return float(law.certified_delta(noise.sensitivity, eps)[1])


# ---- how it was drawn, and what was done to the draw ----


def _check_numerics(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    """Check how the noise was drawn: source of bits, sampler, kind of profile, slack.

    The slack bounds the total variation distance between the drawn and the ideal noise.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    mechanism : Mechanism
        The mechanism that was built from it.

    Returns
    -------
    list of Check
        One for each of them.
    """
    numerics = certificate.provenance.numerics
    entropy = certificate.provenance.entropy
    source = entropy["source"]
    is_secure = source == SECURE_SOURCE_NAME and entropy["cryptographic"] is True
    own_path = mechanism.info.sampling
    own_profile = profile_kind(mechanism.privacy_profile)
    return [
        Check(
            f"entropy: {_harmless_text(source)}",
            is_secure,
            "a simulated source is not private",
        ),
        Check(
            f"path: {numerics['path']}",
            numerics["path"] == own_path.value,
            "the only sampler of this mechanism",
        ),
        Check(
            f"profile: {numerics['profile']}",
            numerics["profile"] == own_profile.value,
            "recomputed",
        ),
        _check_slack(certificate, own_path),
    ]


def _check_slack(certificate: Certificate, sampling: SamplingPath) -> Check:
    """Check that a certificate states enough slack for its mechanism's sampler.

    A sampler in floats has no known slack; any other must state enough of it.

    Parameters
    ----------
    certificate : Certificate
        The certificate, which states the slack.
    sampling : SamplingPath
        How the mechanism samples its noise.
    """
    slack = certificate.provenance.numerics["slack"]
    if sampling is SamplingPath.FLOAT64:
        detail = (
            "drawn in float64: the claims hold for the ideal distribution; the "
            "distance of the drawn one is not known"
        )
        return Check("sampler: float64", None if slack is None else False, detail)
    least_slack = 0.0
    if sampling is SamplingPath.EXACT_THEN_ROUND:
        # The least slack of an exact draw of this many numbers. Discrete noise has a
        # bound of its own, among the mechanism's further checks.
        draws = certificate.release["integers"] or [[0]]
        least_slack = sum(Allowance(len(draw)).tau() for draw in draws)
    is_number = isinstance(slack, float) and isfinite(slack)
    is_enough = is_number and 0 < slack <= _MAX_SLACK and least_slack <= slack
    detail = "added to δ as (1 + e^ε)·slack"
    return Check(f"slack {_harmless_text(slack)}", is_enough, detail)


def _check_release(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    """Check the released integers, the trust model, post-processing, stages and choice.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    mechanism : Mechanism
        The mechanism that was built from it.

    Returns
    -------
    list of Check
        One for the noisy integers, and others for trust, post-processing and choice.

    Raises
    ------
    ParameterError
        If the integers cannot come from this mechanism.
    """
    release = certificate.release
    own_codes = [code.value for code in post_processing_of(mechanism)]
    is_as_mechanism_says = (
        certificate.provenance.trust == mechanism.info.trust
        and release["post_processing"] == own_codes
        and bool(release["stages"]) == mechanism.info.is_staged
    )
    return [
        _check_integers(certificate, mechanism),
        Check(
            "trust and post-processing", is_as_mechanism_says, "matches the mechanism"
        ),
        check_choice(certificate, mechanism),
    ]


def _check_integers(certificate: Certificate, mechanism: Mechanism) -> Check:
    """Check the released integers: their hash, and that they lead to the value.

    Parameters
    ----------
    certificate : Certificate
        The certificate, which lists the integers or has only their hash.
    mechanism : Mechanism
        The mechanism that was built from it.

    Raises
    ------
    ParameterError
        If the integers cannot come from this mechanism, or some are superfluous.
    """
    integers = certificate.release["integers"]
    if integers is None:
        if _has_to_list_integers(mechanism):
            raise ParameterError("a release of this mechanism lists its integers")
        return Check("integers", True, "too many to list: a SHA-256 stands for them")

    is_hash_right = hash_integers(integers) == certificate.release["sha256"]
    # Integers that are not of this mechanism are refused here.
    mechanism.reconstruct_value(certificate)
    if integers and _leads_to_value(certificate, mechanism, integers[:-1]):
        raise ParameterError("the release lists integers that its value does not need")
    return Check("integers", is_hash_right, "their SHA-256 matches")


def _has_to_list_integers(mechanism: Mechanism) -> bool:
    """Return whether every certificate of a mechanism lists its released integers.

    Mechanisms in stages always list them. Optimizers and descents make any number of
    draws, and need not. Other mechanisms make one draw, with at most two integers for
    each entry of a point; they list the integers unless there are too many.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was built from a certificate.
    """
    if mechanism.info.is_staged:
        return True
    if isinstance(mechanism, OptimizerMechanism | GeodesicMechanism):
        return False
    entries = prod(mechanism.statistic.value_space.point_shape)
    return 2 * entries <= MAX_LISTED_INTEGERS


def _leads_to_value(
    certificate: Certificate, mechanism: Mechanism, integers: list[Any]
) -> bool:
    """Return whether some of the noisy integers alone determine a value.

    If all but the last draw do, the last one is superfluous, and someone else may have
    written anything there.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    mechanism : Mechanism
        The mechanism that was built from it.
    integers : list
        Some of the integers of the certificate.

    Returns
    -------
    bool
        False if the mechanism refuses the integers.
    """
    fewer = replace(certificate, release={**certificate.release, "integers": integers})
    try:
        mechanism.reconstruct_value(fewer)
    except RECOMPUTATION_FAILURES:
        return False
    return True


def remarks_on(certificate: Certificate) -> list[str]:
    """Return sentences about the fields of a certificate that nobody can recompute.

    They are printed beside the checks, because no check can confirm such fields.

    Parameters
    ----------
    certificate : Certificate
        A certificate whose fields have passed `check_form`.

    Returns
    -------
    list of str
        The unit of privacy, the number of records, the time, the version and the ledger
        entry as they were recorded, in one sentence. A second one follows if the time
        lies in the future.
    """
    provenance = certificate.provenance
    entry = "no ledger"
    if provenance.ledger is not None:
        entry = f"entry {provenance.ledger['entry']} of a ledger"
    version = provenance.software["curvedp"]
    recorded = (
        f"whom it protects, of how many records it is, created {provenance.created} by "
        f"curvedp {version}, charged to {entry}"
    )
    remarks = [f"recorded by whoever made the release, not recomputed: {recorded}"]
    if lies_in_future(provenance.created):
        remarks.append("the certificate's time lies in the future by this clock")
    return remarks


def _harmless_text(value: Any) -> str:
    """Return a field of a certificate as harmless text, for messages.

    Unusual characters become question marks, and the text is cut after 80 characters,
    because the certificate may come from someone else.

    Parameters
    ----------
    value : object
        The value of the field.

    Returns
    -------
    str
        At most 80 letters, digits and harmless signs.
    """
    return re.sub(r"[^\w .,;:='()-]", "?", str(value))[:80]
