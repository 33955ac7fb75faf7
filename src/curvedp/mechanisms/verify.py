"""Recompute a certificate's claims from its public parameters alone.

Sensitivity and solver error are recomputed by the theorems; δ at every point of the curve and μ by ball arithmetic where
the law has a certified path, and by the exact profile otherwise (the check says which). A claim is confirmed when the
recomputed upper bound is at most the claim, up to the relative width 1e-6 of the enclosures.
"""

from math import exp
from typing import NamedTuple

import numpy as np

from curvedp.errors import CurvedpError, ParameterError, VerificationFailed
from curvedp.geometry import Euclidean, parse_manifold
from curvedp.geometry.base import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.spaceform import curvature_of
from curvedp.mechanisms.base import GRID, Mechanism
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.log_gaussian import LogGaussianMechanism, LogLaplaceMechanism, chart_stretch
from curvedp.mechanisms.mean_solver import solver_error
from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity, mean_chart_sensitivity
from curvedp.privacy import certified_mu, meets

__all__ = ["Check", "rebuild_mechanism", "verify_certificate"]

_WIDTH = 1e-6  # relative width of the certified enclosures
_LARGEST_TAU = 2.0**-100


class Check(NamedTuple):
    """One claim of a certificate."""

    claim: str
    holds: bool
    detail: str


def rebuild_mechanism(certificate: Certificate) -> Mechanism:
    """The mechanism that the certificate describes, validated anew."""
    manifold, sensitivity = parse_manifold(certificate.manifold), certificate.sensitivity
    parameters = dict(certificate.parameters)
    kinds = {
        kind.name: kind for kind in (GaussianMechanism, LaplaceMechanism, LogGaussianMechanism, LogLaplaceMechanism)
    }
    if certificate.mechanism not in kinds:
        raise ParameterError(f"unknown mechanism {certificate.mechanism!r}; known: {', '.join(kinds)}")
    if "base" in parameters:
        parameters["base"] = np.asarray(parameters["base"], dtype=np.float64)
    try:
        mechanism: Mechanism = kinds[certificate.mechanism](manifold, sensitivity, **parameters)
    except TypeError as error:
        raise ParameterError(f"the parameters do not fit {certificate.mechanism}: {error}") from None
    return mechanism


def verify_certificate(certificate: Certificate) -> list[Check]:
    """Every claim, checked. Raises `VerificationFailed` where the certificate describes nothing that can be rebuilt."""
    if certificate.numerics.get("path") != "exact-then-round":
        raise VerificationFailed(
            f"numerics {certificate.numerics.get('path')!r}: only exact-then-round releases have a law that can be verified"
        )
    try:
        mechanism = rebuild_mechanism(certificate)
        checks = [*_check_sensitivity(certificate, mechanism), *_check_claims(certificate, mechanism)]
    except CurvedpError as error:
        raise VerificationFailed(f"the certificate cannot be recomputed: {error}") from None
    tau, grid = float(certificate.numerics["tau"]), certificate.numerics["grid"]
    asked = certificate.guarantee
    return [
        *checks,
        Check(f"{asked} as asked", meets(mechanism.profile, asked), "the ideal law's profile meets it"),
        Check(f"slack τ = {tau:.3g}", 0 <= tau <= _LARGEST_TAU, "at most 2^-100, added to δ as (1+e^ε)τ"),
        Check(f"grid 2^-{grid}", grid == GRID, "the public grid of releases"),
        Check(
            f"entropy: {certificate.entropy['source']}",
            bool(certificate.entropy["cryptographic"]),
            "a simulated source is not private",
        ),
    ]


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
            centred = np.array_equal(certificate.parameters["base"], statistic["center"])
            checks.append(_at_least("sensitivity in the chart at the ball's centre", chart if centred else -1.0, least))
        return checks
    if name == "Fréchet variance":
        least = 4 * statistic["radius"] ** 2 / statistic["n"]
        return [_at_least("sensitivity of the Fréchet variance", certificate.sensitivity, least)]
    if name == "second moment":
        least = 2**0.5 * statistic["radius"] ** 2 / statistic["n"]
        return [_at_least("sensitivity of the second moment", certificate.sensitivity, least)]
    return [Check(f"sensitivity of {name!r}", False, "unknown statistic")]


def _at_least(claim: str, stated: float, least: float) -> Check:
    return Check(f"{claim} {stated:.9g}", stated >= least * (1 - 1e-12), f"recomputed {least:.9g}")


def _check_claims(certificate: Certificate, mechanism: Mechanism) -> list[Check]:
    claims, tau = certificate.claims, float(certificate.numerics["tau"])
    true = Claims.of(mechanism.profile, tau)
    kind, curvature, dim, scale, moved = _law(mechanism)
    checks = []
    for name in ("pure", "zcdp", "rao"):
        stated, least = getattr(claims, name), getattr(true, name)
        if stated is not None:
            holds = least is not None and stated >= least * (1 - _WIDTH)
            checks.append(Check(f"{name} {stated:.9g}", holds, f"recomputed {least}"))
    if claims.gdp is not None:
        if curvature is None or (kind == "gaussian" and curvature != 0):
            # On nearly flat curved space the supremum over ε is approached only where δ is below e^-1000, and enclosing it
            # takes minutes (`certified_mu`); here the exact profile, whose tail is closed by a theorem, decides.
            upper, how = true.gdp, "exact profile"
        else:
            upper, how = certified_mu(kind, curvature, dim, scale, moved)[1], "certified"
        holds = upper is not None and upper <= claims.gdp * (1 + _WIDTH)
        checks.append(Check(f"μ = {claims.gdp:.9g}", holds, f"{how} upper bound {upper}"))
    for (eps, stated), (_, exact) in zip(claims.curve, true.curve, strict=True):
        if curvature is None:
            upper, how = exact, "exact profile"
        else:
            law = (RiemannianGaussian if kind == "gaussian" else RiemannianLaplace)(_space(mechanism), scale)
            upper, how = law.certified_delta(moved, eps)[1] + (1 + exp(eps)) * tau, "certified"
        checks.append(Check(f"δ({eps:g}) = {stated:.6g}", upper <= stated * (1 + _WIDTH), f"{how} upper {upper:.9g}"))
    return checks


def _space(mechanism: Mechanism) -> Manifold:
    is_chart = isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism)
    return Euclidean(mechanism.manifold.dim) if is_chart else mechanism.manifold


def _law(mechanism: Mechanism) -> tuple[str, float | None, int, float, float]:
    """Kind, curvature (None where there is no certified path), dimension, scale and sensitivity of the noise law."""
    inner = mechanism.in_chart if isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism) else mechanism
    assert isinstance(inner, GaussianMechanism | LaplaceMechanism)  # rebuild_mechanism knows no other
    kind = "gaussian" if isinstance(inner, GaussianMechanism) else "laplace"
    return kind, curvature_of(inner.manifold), inner.manifold.dim, inner.law.scale, inner.sensitivity
