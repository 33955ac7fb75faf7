"""Where tails are closed by a bound: the bound is the one that was proved, and it holds."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.privacy import gaussian_profile
from curvedp.privacy.products import _split


def log_constant(d, s, D):
    """log K: ρ(m + u) <= e^g·e^{−u²/2s²}, e^g = (1 − e^{−2m})^{−(d−1)}, over ∫ρ, times s√2π."""
    law = gaussian_profile(-1.0, d, s, D).tails
    return -(d - 1) * math.log(-math.expm1(-2 * law.mode)) - law.log_mass + math.log(s * math.sqrt(2 * math.pi)), law


def lower_bound(mu, eps):
    """log of φ(x)·μ/(y + √2)², which δ_μ(ε) is not below."""
    x, y = eps / mu - mu / 2, eps / mu + mu / 2
    return stats.norm.logpdf(x) + math.log(mu) - 2 * math.log(y + math.sqrt(2))


def flip(holds, low, high):
    assert not holds(low)
    assert holds(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@pytest.mark.parametrize(("d", "s", "D"), [(2, 1.0, 0.5), (5, 0.4, 1.0), (3, 3.0, 2.0)])
def test_hyperbolic_tails_close_where_two_bounds_meet(d, s, D):
    profile = gaussian_profile(-1.0, d, s, D)
    log_k, law = log_constant(d, s, D)
    assert profile._log_k() == pytest.approx(log_k, abs=1e-9)
    assert log_k >= 0
    u = np.linspace(0, 8 * s, 200)
    growth = -(d - 1) * math.log(-math.expm1(-2 * law.mode))
    assert np.all(law.log_rho(u) <= growth - u**2 / (2 * s * s) + 1e-9)
    mu, limit = profile.mu * 1.05, D / s
    assert profile._tail_mu == pytest.approx(limit)

    def z(eps):
        return eps / limit - limit / 2 - law.mode / s

    eps = flip(lambda e: profile._closes(mu, e), 1e-6, 1e5)
    excess = log_k + stats.norm.logpdf(z(eps)) - math.log(z(eps)) - lower_bound(mu, eps)
    slope = z(eps) / limit - eps / mu**2 + 0.5 - 2 / (mu * (eps / mu + mu / 2 + math.sqrt(2)))
    assert excess == pytest.approx(0.0, abs=1e-6) or slope == pytest.approx(0.0, abs=1e-6)
    assert excess <= 1e-6
    assert slope >= -1e-6
    assert not profile._closes(limit, 1e9)
    tail = np.exp(profile._table.log_upper(np.array([min(eps, profile._table.end)])))[0]
    assert tail <= math.exp(log_k) * stats.norm.sf(z(min(eps, profile._table.end))) * (1 + 1e-9)
    # orders: log E e^{(α−1)L}/(α−1) is bounded by the same constant
    order = flip(lambda a: profile._order_closes(a, profile.rho * 1.01), 1.0 + 1e-9, 1e9)
    share = order - 1
    bound = limit**2 / 2 + (log_k / share + law.mode * D / s**2) / order
    assert bound == pytest.approx(max(profile.rho * 1.01, limit**2 / 2 * (1 + 1e-10)), rel=1e-6)
    for a in (2.0, 5.0):
        assert profile.renyi(a) <= (log_k / (a - 1) + law.mode * D / s**2 + a * limit**2 / 2) * (1 + 1e-6)


@pytest.mark.parametrize("flat", [0.0, 0.4])
def test_tails_of_products_close_where_two_bounds_meet(flat):
    """H³ × S² × ℝ: Chernoff's K·e^{−z²/2} with the sphere's largest loss and the flat mean in its shift."""
    factors, s, distances = ((-1.0, 3), (1.0, 2)), 1.5, (0.6, 0.5)
    split = _split(factors, s, flat, distances)
    log_k, law = log_constant(3, s, 0.6)
    sphere = gaussian_profile(1.0, 2, s, 0.5)
    shift = flat**2 / (2 * s * s) + law.mode * 0.6 / s**2 + (0.6 / s) ** 2 / 2 + sphere.pure_epsilon
    limit = math.hypot(flat, 0.6) / s
    assert split._tail_mu == pytest.approx(limit)
    mu = 1.3 * limit
    eps = flip(lambda e: split._closes(mu, e), 1e-6, 1e6)
    z = (eps - shift) / limit
    excess = log_k - z * z / 2 - lower_bound(mu, eps)
    slope = z / limit - (eps / mu - mu / 2) / mu - 2 / (mu * (eps / mu + mu / 2 + math.sqrt(2)))
    assert min(abs(excess), abs(slope)) < 1e-6
    assert excess <= 1e-6
    assert slope >= -1e-6
    assert not split._closes(limit, 1e9)
    rho = limit**2 / 2 * 1.2
    order = flip(lambda a: split._order_closes(a, rho), 1.0 + 1e-9, 1e9)
    drift = law.mode * 0.6 / s**2 + sphere.pure_epsilon
    assert limit**2 / 2 + (log_k / (order - 1) + drift) / order == pytest.approx(rho, rel=1e-6)
