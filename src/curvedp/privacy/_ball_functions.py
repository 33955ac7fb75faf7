"""The functions that certificates are made of, in ball arithmetic (Arb, through python-flint)."""

from functools import lru_cache
from typing import Any

from flint import acb, acb_poly, arb, ctx

from curvedp.entropy.precision import precision


def phi(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def lifted_tail(eps: arb, z: arb) -> arb:
    """e^ε·Φ(−z), z > 0, as e^{ε − z²/2} times e^{z²/2}·Φ(−z); far out that lies between z/(1+z²) and 1/z, over √2π."""
    lift = (eps - z * z / 2).exp()
    if z < 1e6:
        return lift * (z * z / 2).exp() * phi(-z)
    return lift * (z / (1 + z * z)).union(1 / z) / (2 * arb.pi()).sqrt()


def gdp_ball(mu: arb, eps: arb) -> tuple[arb, arb]:
    """(δ_μ(ε), its derivative in u = e^ε, which is −Φ(−ε/μ − μ/2))."""
    second = phi(-eps / mu - mu / 2)
    return phi(-eps / mu + mu / 2) - eps.exp() * second, -second


def mu_lower(delta: arb, eps: float) -> float:
    """A float below the μ at which δ_μ(eps) = δ."""
    low, high = 0.0, 1.0
    with precision(256):
        while gdp_ball(arb(high), arb(eps))[0] < delta:
            low, high = high, 2 * high
        for _ in range(60):
            mid = (low + high) / 2
            if gdp_ball(arb(mid), arb(eps))[0] < delta:
                low = mid
            else:
                high = mid
    return low


def integral(f: Any, a: arb, b: arb, tolerance: arb) -> arb:
    """∫f from a to b, f(r, analytic)."""
    goal = arb(2) ** (-(3 * ctx.prec) // 5)
    return acb.integral(f, acb(a), acb(b), abs_tol=tolerance, rel_tol=goal, eval_limit=200000, depth_limit=400).real


def sn(k: int, r: acb) -> acb:
    return r if k == 0 else (r.sin() if k == 1 else r.sinh())


def ct(k: int, r: arb) -> arb:
    return 1 / r if k == 0 else (r.cot() if k == 1 else r.coth())


def sine_integral(m: int, x: acb, y: acb, analytic: bool) -> acb:
    """∫_φ^π sin^m, given x = cos²(φ/2) and y = sin²(φ/2).

    J_m = c·(1−c²)^{(m−1)/2}/m + (m−1)/m·J_{m−2} with c = cos φ, from J₀ = π − φ or J₁ = 1 + c; that is a multiple of
    J₀ or J₁ and c times a polynomial in 1 − c² = 4xy (`recurrence`). Analytic while 4xy stays off (−∞, 0], which √
    verifies: the cut of arctan √(x/y) is y ∈ (−∞, 0], where x = 1 − y makes 4xy negative too.
    """
    c, square = x - y, 4 * x * y
    polynomial, share = recurrence(m, ctx.prec)
    if m % 2:
        return share * 2 * x + c * square * polynomial(square)
    # π − φ = 2·arctan √(x/y), by whichever of √(x/y) and √(y/x) stays away from the pole
    root = square.sqrt(analytic=analytic)
    angle = acb(arb.pi()) - 2 * (root / (2 * x)).atan() if abs(x) > abs(y) else 2 * (root / (2 * y)).atan()
    return share * angle + c * root * polynomial(square)


@lru_cache(maxsize=16)
def recurrence(m: int, precision: int) -> tuple[acb_poly, arb]:
    """The recurrence of J_m summed up at the given precision: (Σ a_i·(4xy)^i, ∏(j−1)/j)."""
    share, coefficients = arb(1), []
    for j in range(m, 1, -2):
        coefficients.append(share / j)
        share = share * (j - 1) / j
    return acb_poly(coefficients[::-1]), share
