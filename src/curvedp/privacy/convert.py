"""From one definition of privacy to another: never stronger than the source, and tight wherever a tight form is known.

| from | to | parameter | source |
|---|---|---|---|
| PureDP(ε) | ApproxDP | (e^ε − e^{ε'})/(1 + e^ε) | randomised response is the worst case: Kairouz et al. 2015 |
| | GDP | μ = −2Φ⁻¹(1/(1 + e^ε)) | tight at ε' = 0: the trade-off curves touch where α = β |
| | ZCDP | ρ = ε·tanh(ε/2) ≤ ε²/2 | s ↦ log cosh(ε√s) is concave, taken at s = (α−½)² |
| | RenyiDP | log(cosh((α−½)ε)/cosh(ε/2))/(α−1) | Bun and Steinke 2016 |
| | RaoDP | θ = 2·arctan(sinh(ε/2)) (Hellinger) | affinity 1/cosh(ε/2) of randomised response |
| ApproxDP(ε, δ) | RaoDP | cos(θ/2) = (1 − δ)/cosh(ε/2) | the four-point worst case |
| GDP(μ) | ApproxDP | δ_μ(ε) | Dong et al. 2022 |
| | ZCDP, RenyiDP | ρ = μ²/2, αμ²/2 | every μ-GDP mechanism is a post-processing of the Gaussian (Blackwell) |
| | RaoDP | cos(θ/2) = e^{−μ²/8} (Hellinger) | the same |
| ZCDP(ρ) | RenyiDP | ρα | definition |
| | ApproxDP | best order of the exact single-order bound | Canonne et al. 2020; Asoodeh et al. 2021 |
| | RaoDP | cos(θ/2) = e^{−ρ/2} | D_{1/2} ≤ D_1 ≤ ρ |
| RenyiDP(α, ε) | RenyiDP, lower order | ε | the divergence grows with the order |
| | ApproxDP | the exact two-point bound | Asoodeh et al. 2021 |
| | RaoDP | cos(θ/2) = e^{−ε/2} | D_{1/2} ≤ D_α |
| RaoDP(θ) | ApproxDP | ½(1 − γ + √((γ−1)² + 4γ sin²(θ/2))), γ = e^ε | Helstrom bound, see `privacy.rao` |
| PrivacyProfile | any | its own μ, Rényi divergence, Hellinger angle, sup of the loss | exact |
| Composition | any | each part, then the closed form | |

What is missing is impossible: there are mechanisms with the first guarantee and, for no parameter, the second.
"""

import math
from fractions import Fraction
from typing import Any, TypeVar

from scipy.special import erfinv, ndtri_exp

from curvedp._numerics import up
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, RenyiDP
from curvedp.privacy.profile import PrivacyProfile
from curvedp.privacy.rao import hellinger_from_affinity
from curvedp.privacy.renyi import pure_renyi

__all__ = ["convert", "pure_to_gdp_mu"]

G = TypeVar("G", bound=Guarantee)

_WHY_NOT = {
    PureDP: "its loss is not bounded",
    GDP: "its tail can be heavier than every Gaussian's",
    ZCDP: "a Rényi divergence of it can be infinite",
    RenyiDP: "that Rényi divergence of it can be infinite",
    RaoDP: "its profile alone bounds the Hellinger angle only loosely; convert its parts",
}


def pure_to_gdp_mu(eps: float) -> float:
    """μ = −2Φ⁻¹(1/(1+e^ε)), rounded up, to full precision for tiny and for huge ε.

    >>> round(pure_to_gdp_mu(1.0), 6)
    1.232035
    """
    if eps < 1:
        return float(up(2 * math.sqrt(2) * erfinv(math.tanh(eps / 2)), 4e-15))
    return float(up(-2 * ndtri_exp(-(eps + math.log1p(math.exp(-eps)))), 4e-15))


def convert(
    guarantee: Guarantee,
    *,
    to: type[G],
    eps: float | None = None,
    delta: float | None = None,
    order: float | None = None,
) -> G:
    """The guarantee in the definition `to`. ApproxDP needs `eps` or `delta`, RenyiDP needs `order`.

    Guarantees: everything that satisfies the argument satisfies the result. Raises UnattainableGuarantee where
    no parameter of the target definition is implied.

    >>> convert(GDP(1.0), to=ZCDP).rho
    0.5
    >>> convert(GDP(1.0), to=ApproxDP, delta=1e-6).eps < 5
    True
    """
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(f"{guarantee!r} is not a guarantee")
    from curvedp.privacy.compose import Composition, compose  # compose converts its parts, so it imports this module

    if isinstance(guarantee, Composition) and to is not ApproxDP:
        parts = [_convert(part, to, eps, delta, order) for part in guarantee.parts]
        result = compose(p for p, count in zip(parts, guarantee.counts, strict=True) for _ in range(count))
    else:
        result = _convert(guarantee, to, eps, delta, order)
    assert isinstance(result, to)
    return result


def _convert(g: Guarantee, to: Any, eps: float | None, delta: float | None, order: float | None) -> Guarantee:
    near = {"adjacency": g.adjacency}
    if to is ApproxDP:
        return _approx(g, eps, delta)
    if to is RenyiDP:
        return _renyi(g, order)
    if to is RaoDP:
        return _rao(g)
    if type(g) is to:
        return g
    if isinstance(g, PrivacyProfile):
        return _from_profile(g, to)
    if to is GDP and isinstance(g, PureDP):
        return GDP(pure_to_gdp_mu(g.eps), **near)
    if to is ZCDP and isinstance(g, PureDP):
        return ZCDP(up(g.eps * math.tanh(g.eps / 2), 1e-15), **near)
    if to is ZCDP and isinstance(g, GDP):
        return ZCDP(_half_square(g.mu), **near)
    raise _impossible(g, to)


def _from_profile(g: PrivacyProfile, to: Any) -> Guarantee:
    if to is PureDP and g.pure_epsilon < math.inf:
        return PureDP(g.pure_epsilon, adjacency=g.adjacency)
    if to is GDP and g.mu < math.inf:
        return GDP(g.mu, adjacency=g.adjacency)
    if to is ZCDP:
        pure = g.pure_epsilon
        rho = min(_half_square(g.mu), up(pure * math.tanh(pure / 2), 1e-15) if pure < math.inf else math.inf)
        if rho < math.inf:
            return ZCDP(rho, adjacency=g.adjacency)
    raise _impossible(g, to)


def _approx(g: Guarantee, eps: float | None, delta: float | None) -> ApproxDP:
    if (eps is None) == (delta is None):
        raise ParameterError(f"converting to ApproxDP needs one of eps={eps!r} and delta={delta!r}")
    if delta is not None:
        eps = g.epsilon(delta)
        if not eps < math.inf:
            raise UnattainableGuarantee(
                f"{g!r} implies no (ε, {delta:g}): its δ stays at {g.delta(math.inf):g} or above"
            )
        # (0, δ) implies (ε, δ) for every ε > 0, and 0 is not a parameter: take the smallest that is.
        return ApproxDP(max(eps, 5e-324), delta, adjacency=g.adjacency)
    found = g.delta(eps)
    return ApproxDP(eps, max(found, 5e-324), adjacency=g.adjacency)  # type: ignore[arg-type]


def _renyi(g: Guarantee, order: float | None) -> RenyiDP:
    if order is None:
        raise ParameterError("converting to RenyiDP needs order=…")
    order = RenyiDP(order, 1.0).order  # validated as a field of it
    near = {"adjacency": g.adjacency}
    if isinstance(g, PureDP):
        return RenyiDP(order, pure_renyi(g.eps, RenyiDP(order, 1.0).order), **near)
    if isinstance(g, GDP):
        return RenyiDP(order, up(order * _half_square(g.mu)), **near)
    if isinstance(g, ZCDP):
        return RenyiDP(order, up(order * g.rho), **near)
    if isinstance(g, PrivacyProfile) and g.renyi(RenyiDP(order, 1.0).order) < math.inf:
        return RenyiDP(order, g.renyi(order), **near)
    if isinstance(g, RenyiDP) and order <= g.order:
        return RenyiDP(order, g.eps, **near)
    raise _impossible(g, RenyiDP)


def _rao(g: Guarantee) -> RaoDP:
    if isinstance(g, RaoDP):
        return RaoDP(min(g.theta, math.pi), angle="hellinger", adjacency=g.adjacency)
    if isinstance(g, PrivacyProfile):
        return RaoDP(g.hellinger_angle, angle="hellinger", adjacency=g.adjacency)
    if isinstance(g, PureDP):
        x = _log_cosh(g.eps / 2)
    elif isinstance(g, ApproxDP):
        x = _log_cosh(g.eps / 2) - math.log1p(-g.delta0)
    elif isinstance(g, GDP):
        x = g.mu * g.mu / 8
    elif isinstance(g, ZCDP):
        x = g.rho / 2
    elif isinstance(g, RenyiDP):
        x = g.eps / 2
    else:
        raise _impossible(g, RaoDP)
    return RaoDP(hellinger_from_affinity(up(x, 1e-14)), angle="hellinger", adjacency=g.adjacency)


def _log_cosh(x: float) -> float:
    """log cosh x for x >= 0; 2 sinh²(x/2) = cosh x − 1 keeps the digits near 0."""
    if x < 1:
        return math.log1p(2 * math.sinh(x / 2) ** 2)
    return x + math.log1p(math.exp(-2 * x)) - math.log(2)


def _half_square(mu: float) -> float:
    """μ²/2, rounded up unless it is exact."""
    half = mu * mu / 2
    return half if math.isinf(half) or 2 * Fraction(half) >= Fraction(mu) ** 2 else math.nextafter(half, math.inf)


def _impossible(g: Guarantee, to: Any) -> UnattainableGuarantee:
    why = _WHY_NOT.get(to, "no rule is known")
    name = getattr(to, "__name__", to)
    return UnattainableGuarantee(f"{type(g).__name__} implies no {name}: {why}. Use its delta(eps) instead")
