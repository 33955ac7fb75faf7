"""Recompute a certificate's claims from its public parameters alone.

Sensitivity and solver error are recomputed by the theorems; δ at every point of the curve and μ by ball arithmetic where
the law has a certified path, and by the exact profile otherwise (the check says which). A claim is confirmed when the
recomputed upper bound is at most the claim, up to the relative width 1e-6 of the enclosures.

Where a release was drawn in float64 (K-norm gradient, descent by the optimisers) the claims on the ideal law are recomputed
all the same, but how far the floats are from that law is not known, so the answer is never a plain yes: `holds` is None.
"""

from collections.abc import Callable
from math import exp, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed
from curvedp.geometry import Euclidean, parse_manifold
from curvedp.geometry.base import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.spaceform import curvature_of
from curvedp.mechanisms.base import GRID, Mechanism
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.kng import KNGMechanism, pure_claims, pure_epsilon
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.log_gaussian import LogGaussianMechanism, LogLaplaceMechanism, chart_stretch
from curvedp.mechanisms.mean_solver import solver_error
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity, mean_chart_sensitivity
from curvedp.privacy import PureDP, certified_mu, meets
from curvedp.regression.bounds import Domain, endpoint_sensitivity, joint_sensitivity
from curvedp.regression.jacobi import check_symmetric

__all__ = ["SINGLE_DRAWS", "Check", "rebuild_mechanism", "verify_certificate"]

_WIDTH = 1e-6  # relative width of the certified enclosures
_ROUNDED = 1e-12  # what the last digits of a recomputed sensitivity may differ by
_LARGEST_TAU = 2.0**-100  # of one draw
_EXACT = "exact-then-round"


SINGLE_DRAWS: dict[str, Any] = {
    kind.name: kind for kind in (GaussianMechanism, LaplaceMechanism, LogGaussianMechanism, LogLaplaceMechanism)
}


class Check(NamedTuple):
    """One claim of a certificate: confirmed, refuted, or (None) of a kind that nobody can confirm from the certificate."""

    claim: str
    holds: bool | None
    detail: str


class _Law(NamedTuple):
    """What adds the noise: its kind on a space of one curvature (None where there is no certified path)."""

    kind: str
    curvature: float | None
    space: Manifold
    scale: float
    moved: float


def verify_certificate(certificate: Certificate) -> list[Check]:
    """Every claim, checked. Raises `VerificationFailed` where the certificate describes nothing that can be rebuilt.

    A certificate comes from outside: whatever its fields hold, the worst answer is "not confirmed".
    """
    try:
        if certificate.mechanism not in (known := {**dict.fromkeys(SINGLE_DRAWS, _verify_statistic), **_VERIFIERS}):
            raise ParameterError(f"unknown mechanism {certificate.mechanism!r}; known: {', '.join(known)}")
        return [*known[certificate.mechanism](certificate), *_check_release(certificate)]
    except VerificationFailed:
        raise
    except KeyError as error:
        raise VerificationFailed(f"the certificate does not say its {error}") from None
    except (CurvedpError, TypeError, ValueError, ArithmeticError) as error:
        raise VerificationFailed(f"the certificate cannot be recomputed: {error}") from None


# ---- noise about a statistic ----


def rebuild_mechanism(certificate: Certificate) -> Mechanism:
    """The mechanism that the certificate describes, validated anew."""
    manifold, sensitivity = parse_manifold(certificate.manifold), certificate.sensitivity
    parameters = dict(certificate.parameters)
    if certificate.mechanism not in SINGLE_DRAWS:
        raise ParameterError(f"{certificate.mechanism!r} is not one draw about a statistic: {', '.join(SINGLE_DRAWS)}")
    if "base" in parameters:
        parameters["base"] = np.asarray(parameters["base"], dtype=np.float64)
    try:
        mechanism: Mechanism = SINGLE_DRAWS[certificate.mechanism](manifold, sensitivity, **parameters)
    except TypeError as error:
        raise ParameterError(f"the parameters do not fit {certificate.mechanism}: {error}") from None
    return mechanism


def _verify_statistic(certificate: Certificate) -> list[Check]:
    mechanism = rebuild_mechanism(certificate)
    chart = isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism)
    inner = mechanism.in_chart if isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism) else mechanism
    assert isinstance(inner, GaussianMechanism | LaplaceMechanism)  # rebuild_mechanism knows no other
    law = _Law(
        "gaussian" if isinstance(inner, GaussianMechanism) else "laplace",
        curvature_of(inner.manifold),
        Euclidean(mechanism.manifold.dim) if chart else mechanism.manifold,
        inner.law.scale,
        inner.sensitivity,
    )
    return [*_check_sensitivity(certificate, mechanism), *_check_profile(certificate, mechanism.profile, law)]


def _check_sensitivity(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    statistic = certificate.statistic
    if not statistic:
        return [Check(f"sensitivity {certificate.sensitivity:.9g}", True, "stated by the caller, who vouches for it")]
    name = statistic["name"]
    if name == "Fréchet mean":
        manifold, radius, n = mechanism.manifold, statistic["radius"], statistic["n"]
        error = solver_error(manifold, radius)
        least = frechet_mean_sensitivity(manifold, radius, n, bound=statistic["bound"]) + 2 * error
        checks = [_at_least("sensitivity of the Fréchet mean", certificate.sensitivity, least)]
        chart = certificate.parameters.get("chart_sensitivity")
        if chart is not None:
            least = mean_chart_sensitivity(manifold, radius, n) + 2 * error * chart_stretch(manifold, radius)
            # Both were projected, which twice need not be once to the last digit; the chart's stretch moves by no more.
            base, center = (np.asarray(at, np.float64) for at in (certificate.parameters["base"], statistic["center"]))
            centred = base.shape == center.shape and np.allclose(base, center, rtol=_ROUNDED, atol=_ROUNDED)
            checks.append(_at_least("sensitivity in the chart at the ball's centre", chart if centred else -1.0, least))
        return checks
    if name == "Fréchet variance":
        least = 4 * statistic["radius"] ** 2 / statistic["n"]
        return [_at_least("sensitivity of the Fréchet variance", certificate.sensitivity, least)]
    if name == "second moment":
        least = 2**0.5 * statistic["radius"] ** 2 / statistic["n"]
        return [_at_least("sensitivity of the second moment", certificate.sensitivity, least)]
    return [Check(f"sensitivity of {name!r}", False, "unknown statistic")]


# ---- several Gaussian releases ----


def _verify_newton(certificate: Certificate) -> list[Check]:
    mechanism = NewtonMechanism(parse_manifold(certificate.manifold), **certificate.parameters)
    checks = [_at_least("sensitivity of the gradient at the centre", certificate.sensitivity, mechanism.sensitivity)]
    stages = certificate.statistic["stages"]
    if len(stages) != mechanism.steps:
        raise ParameterError(f"{len(stages)} stages for {mechanism.steps} steps")
    for step, stage in enumerate(stages):
        if not 0 <= stage["distance"] <= mechanism.radius:
            raise ParameterError(f"stage {step + 1} is at distance {stage['distance']!r}, outside the ball")
        least = mechanism.stage(step, stage["distance"])
        checks.append(_at_least(f"noise of gradient {step + 1}", stage["gradient_scale"], least.gradient_scale))
        if least.hessian_scale is not None:
            stated = stage["hessian_scale"]
            checks.append(_at_least(f"noise of Hessian {step + 1}", stated, least.hessian_scale))
    return [*checks, *_check_gaussian(certificate, mechanism.scale, 1.0)]


def _verify_bundle_descent(certificate: Certificate) -> list[Check]:
    p = certificate.parameters
    check_symmetric(parse_manifold(certificate.manifold))
    steps = _validate.integer("steps", p["steps"], 1)
    sensitivity = _at_least(
        "sensitivity of the clipped direction", certificate.sensitivity, joint_sensitivity(_domain(certificate))
    )
    if "sigma" not in p:  # Laplace steps, whose ε add up
        eps = steps * certificate.sensitivity / _validate.length("scale", p["scale"])
        return [sensitivity, *_check_pure(certificate, eps)]
    return [
        sensitivity,
        *_check_gaussian(certificate, p["sigma"], sqrt(steps) * certificate.sensitivity),
    ]


def _verify_descent(certificate: Certificate) -> list[Check]:
    p = certificate.parameters
    n, steps = (_validate.integer(*pair, 1) for pair in (("n", certificate.statistic["n"]), ("steps", p["steps"])))
    least = 2 * _validate.length("clip", p["clip"]) / n
    return [
        _at_least("sensitivity of the mean clipped gradient", certificate.sensitivity, least),
        *_check_gaussian(certificate, p["noise"], sqrt(steps) * certificate.sensitivity),
    ]


def _check_gaussian(certificate: Certificate, scale: float, moved: float) -> list[Check]:
    """Gaussian releases whose μ add in squares are as private as one of this scale and sensitivity."""
    mechanism = GaussianMechanism(Euclidean(1), moved, scale)
    return _check_profile(
        certificate, mechanism.profile, _Law("gaussian", 0.0, Euclidean(1), scale, mechanism.sensitivity)
    )


# ---- one K-norm draw: pure ε ----


def _verify_kng(certificate: Certificate) -> list[Check]:
    p, eps = certificate.parameters, _pure(certificate)
    mechanism = KNGMechanism(parse_manifold(certificate.manifold), p["center"], p["radius"], p["n"], PureDP(eps))
    return _check_knorm(certificate, eps, mechanism.sensitivity)


def _verify_kng_regression(certificate: Certificate) -> list[Check]:
    least = endpoint_sensitivity(parse_manifold(certificate.manifold), _domain(certificate))
    return _check_knorm(certificate, _pure(certificate), least)


def _check_knorm(certificate: Certificate, eps: float, sensitivity: float) -> list[Check]:
    return [
        _at_least("sensitivity of the gradient", certificate.sensitivity, sensitivity),
        _at_least("scale s = 2Δ/ε", certificate.parameters["scale"], 2 * certificate.sensitivity / eps),
        *_check_pure(certificate, eps),
    ]


def _check_pure(certificate: Certificate, eps: float) -> list[Check]:
    asked, tau = certificate.guarantee, float(certificate.numerics.get("tau") or 0.0)
    return [
        *_check_claims(certificate.claims, pure_claims(eps, tau)),
        Check(f"{asked} as asked", eps <= pure_epsilon(asked) * (1 + _ROUNDED), f"implied by pure ε = {eps:.9g}"),
    ]


def _pure(certificate: Certificate) -> float:
    if certificate.claims.pure is None:
        raise ParameterError("a K-norm release claims a pure ε")
    return float(certificate.claims.pure)


def _domain(certificate: Certificate) -> Domain:
    domain = Domain(**{name: certificate.parameters[name] for name in Domain._fields})
    if certificate.statistic["n"] != domain.n:
        raise ParameterError(f"the statistic has n={certificate.statistic['n']!r} records, the parameters {domain.n!r}")
    return domain


_VERIFIERS: dict[str, Callable[[Certificate], list[Check]]] = {
    NewtonMechanism.name: _verify_newton,
    KNGMechanism.name: _verify_kng,
    "k-norm-gradient-regression": _verify_kng_regression,
    "tangent-bundle-descent": _verify_bundle_descent,
    "dp-rgd": _verify_descent,
}


# ---- what every certificate claims ----


def _at_least(claim: str, stated: Any, least: float) -> Check:
    return Check(f"{claim} {stated:.9g}", bool(stated >= least * (1 - _ROUNDED)), f"recomputed {least:.9g}")


def _check_claims(claims: Claims, true: Claims, names: tuple[str, ...] = ("gdp", "pure", "zcdp", "rao")) -> list[Check]:
    checks = []
    for name in names:
        stated, least = getattr(claims, name), getattr(true, name)
        if stated is not None:
            holds = least is not None and stated >= least * (1 - _WIDTH)
            checks.append(Check(f"{name} {stated:.9g}", holds, f"recomputed {least}"))
    if [eps for eps, _ in claims.curve] == [eps for eps, _ in true.curve] and "gdp" in names:
        for (eps, stated), (_, least) in zip(claims.curve, true.curve, strict=True):
            checks.append(
                Check(f"δ({eps:g}) = {stated:.6g}", least <= stated * (1 + _WIDTH), f"recomputed {least:.9g}")
            )
    elif "gdp" in names:
        checks.append(Check("(ε, δ) curve", False, "not at the values of ε that certificates of this schema have"))
    return checks


def _check_profile(certificate: Certificate, profile: Any, law: _Law) -> list[Check]:
    claims, tau = certificate.claims, float(certificate.numerics.get("tau") or 0.0)
    true = Claims.of(profile, tau)
    checks = _check_claims(claims, true, ("pure", "zcdp", "rao"))
    if claims.gdp is not None:
        if law.curvature is None or (law.kind == "gaussian" and law.curvature != 0):
            # On nearly flat curved space the supremum over ε is approached only where δ is below e^-1000, and enclosing it
            # takes minutes (`certified_mu`); here the exact profile, whose tail is closed by a theorem, decides.
            upper, how = true.gdp, "exact profile"
        else:
            upper, how = certified_mu(law.kind, law.curvature, law.space.dim, law.scale, law.moved)[1], "certified"
        holds = upper is not None and upper <= claims.gdp * (1 + _WIDTH)
        checks.append(Check(f"μ = {claims.gdp:.9g}", holds, f"{how} upper bound {upper}"))
    for (eps, stated), (_, exact) in zip(claims.curve, true.curve, strict=True):
        if law.curvature is None:
            upper, how = exact, "exact profile"
        else:
            noise = (RiemannianGaussian if law.kind == "gaussian" else RiemannianLaplace)(law.space, law.scale)
            upper, how = noise.certified_delta(law.moved, eps)[1] + (1 + exp(eps)) * tau, "certified"
        checks.append(Check(f"δ({eps:g}) = {stated:.6g}", upper <= stated * (1 + _WIDTH), f"{how} upper {upper:.9g}"))
    asked = certificate.guarantee
    return [*checks, Check(f"{asked} as asked", meets(profile, asked), "the ideal law's profile meets it")]


def _check_release(certificate: Certificate) -> list[Check]:
    """How the draw was made: exactly, or in floats, and from which entropy."""
    numerics, entropy = certificate.numerics, certificate.entropy
    source = Check(
        f"entropy: {entropy['source']}", entropy["cryptographic"] is True, "a simulated source is not private"
    )
    if not str(numerics["path"]).startswith(_EXACT):
        detail = (
            "drawn in float64: the claims hold for the ideal law; how far the drawn one is from it, τ, is not known"
        )
        return [
            Check(f"sampler: {numerics['path']}", None, detail),
            Check("slack τ: none certified", None, detail),
            source,
        ]
    p = certificate.parameters
    draws = 2 * int(p["steps"]) if "steps" in p else 1
    tau, grid = float(numerics["tau"]), numerics["grid"]
    return [
        Check(f"slack τ = {tau:.3g}", 0 <= tau <= draws * _LARGEST_TAU, "2^-100 a draw, added to δ as (1+e^ε)τ"),
        Check(f"grid 2^-{grid}", grid == GRID, "the public grid of releases"),
        source,
    ]
