"""Every number of a profile where it has a closed form, and the theorem that closes a hyperbolic tail, term by term."""

import math

import numpy as np
import pytest
from flint import arb
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from curvedp.privacy import gaussian_profile, laplace_profile
from curvedp.privacy.certify import _Certifier
from curvedp.privacy.gaussian import gdp_mu
from reproductions.gdp.algorithms import algorithm2_estimate


def renyi_of_laplace(order, e):
    """log E e^{(α−1)L}/(α−1) for Laplace densities e·scale apart; Kullback–Leibler at 1."""
    if order == 1:
        return e + math.expm1(-e)
    a = order
    return np.logaddexp(
        math.log(a / (2 * a - 1)) + (a - 1) * e, math.log((a - 1) / (2 * a - 1)) - a * e
    ) / (a - 1)  # fmt: skip


@pytest.mark.parametrize("e", [0.03, 0.7, 3.0, 12.0])
def test_every_number_of_the_laplace_mechanism(e):
    profile = laplace_profile(0.0, 1, 2.0, 2.0 * e)
    close = {"rel": 1e-7}
    assert profile.pure_epsilon == pytest.approx(e, rel=1e-14)
    for order in (1.0, 1.1, 2.0, 9.0, 300.0):
        truth = renyi_of_laplace(order, e)
        assert truth * (1 - 1e-12) <= profile.renyi(order) <= truth * (1 + 1e-7)
    assert profile.renyi(math.inf) == profile.pure_epsilon
    assert profile.renyi(np.array([1.0, 2.0])).shape == (2,)
    best = minimize_scalar(lambda x: -renyi_of_laplace(1 + 2.0**x, e) / (1 + 2.0**x), bounds=(-6, 12), method="bounded")
    rho = max(-best.fun, renyi_of_laplace(1.0, e))
    assert rho * (1 - 1e-9) <= profile.rho <= rho * (1 + 1e-6)
    x = e / 2
    truth = 2 * math.acos(math.exp(-x) * (1 + x))
    assert truth * (1 - 1e-9) <= profile.hellinger_angle <= truth * (1 + 1e-6)
    assert profile.rao == pytest.approx(e, **close)
    alpha = np.array([0.0, 0.1 * math.exp(-e), 0.5 * math.exp(-e), 0.2, 0.5, 0.9, 1.0])
    curve = np.where(
        alpha < math.exp(-e) / 2,
        1 - math.exp(e) * alpha,
        np.where(alpha <= 0.5, math.exp(-e) / (4 * np.maximum(alpha, 1e-300)), math.exp(-e) * (1 - alpha)),
    )
    found = profile.tradeoff(alpha)
    assert np.all(found <= curve * (1 + 1e-9) + 1e-15)
    assert found == pytest.approx(curve, rel=1e-6, abs=1e-12)
    eps = e * np.array([0.0, 0.3, 0.8, 0.99])
    delta = -np.expm1((eps - e) / 2)
    assert np.all(profile.delta(eps) >= delta)
    assert profile.delta(eps) == pytest.approx(delta, rel=3e-9)
    assert profile.delta(np.array([e, 2 * e])).tolist() == [0.0, 0.0]
    grid = np.linspace(0, 0.999 * e, 200)
    mu = float(gdp_mu(grid, -np.expm1((grid - e) / 2)).max())
    assert mu * (1 - 1e-9) <= profile.mu <= mu * (1 + 1e-4)
    at = profile.mu_at(np.array([0.0, 0.5 * e, e, 2 * e]))
    truth = [float(gdp_mu(0.0, -math.expm1(-e / 2))), float(gdp_mu(0.5 * e, -math.expm1(-e / 4))), 0.0, 0.0]
    assert at == pytest.approx(truth, rel=1e-8)
    for target in (0.5 * float(profile.delta(0.0)), 1e-6 * float(profile.delta(0.0))):
        found = profile.epsilon(target)
        assert found == pytest.approx(e + 2 * math.log1p(-target), rel=1e-6, abs=1e-9)
        assert profile.delta(found) <= target


def closes(d, s, D, mu, r, log_density):
    """docs/exact-profiles.md, Theorem 2′, in floats: δ <= δ_μ from ε = (2rD + D²)/2s² on."""
    n, a = d - 1, (d - 1) / 2
    coth = 1 / math.tanh(r)
    room = (1 - (D / (s * mu)) ** 2) / s**2
    slope = r / s**2 - n * coth
    if room <= 0 or slope <= 0 or n * (coth - 1 / r) / r + a * D / (r * r * (r + D)) > room:
        return False
    eps = (2 * r * D + D * D) / (2 * s * s)
    x, y = eps / mu - mu / 2, eps / mu + mu / 2
    if x <= 0:
        return False
    log_c = 0.0 if n == 1 else gammaln(2 * a) - 2 * gammaln(a) - math.log(a)
    angle = log_c + a * math.log((math.cosh(D) + math.sinh(D) * coth) / (2 * (r + D))) + gammaln(a + 1)
    tail = log_density + angle - (a + 1) * math.log(slope) - math.log1p(slope * s * s / D)
    gdp = math.log(mu) - x * x / 2 - math.log(2 * math.pi) / 2 - 2 * math.log(y + math.sqrt(2))
    return tail <= gdp


@pytest.mark.parametrize(("d", "s", "D"), [(2, 1.0, 0.5), (3, 0.5, 1.0), (6, 2.0, 0.3)])
def test_the_theorem_that_closes_a_tail_term_by_term(d, s, D):
    profile = gaussian_profile(-1.0, d, s, D)
    certifier, law = _Certifier(profile), profile.tails
    seen = set()
    for excess in (1e-4, 0.02, 0.5):
        mu = profile.mu * (1 + excess)
        for r in np.geomspace(s / 4, 200 * s, 60):
            log_density = float(law.log_rho(np.array([r - law.mode]))[0]) - law.log_mass
            answers = {closes(d, s, D, mu * f, float(r), log_density) for f in (1 - 1e-7, 1 + 1e-7)}
            if len(answers) == 1:
                assert certifier._closes(arb(mu), arb(float(r))) == answers.pop()
                seen.add(bool(certifier._closes(arb(mu), arb(float(r)))))
        # the first rung at which it does
        end = certifier._closing(arb(mu))
        rungs = [s / 4 * 1.125**k for k in range(200)]
        first = next(
            r for r in rungs
            if closes(d, s, D, mu, r, float(law.log_rho(np.array([r - law.mode]))[0]) - law.log_mass)
        )  # fmt: skip
        assert end == pytest.approx((2 * first * D + D * D) / (2 * s * s), rel=1e-9)
    assert seen == {True, False}


def test_what_is_at_the_largest_loss_counts_no_more():
    def sampler(rng, which, n):
        return np.linspace(-1.0, 2.4, n)

    def run(eps_max):
        options = {"n": 500, "m": 2, "n_eps": 4, "corrected": True, "max_loss": 1.0}
        return algorithm2_estimate(sampler, 1.0, eps_max, np.random.default_rng(0), **options)

    found = run(2.0)
    assert found.eps.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    share = math.log(2 * 5 / 0.01)
    bernstein = np.sqrt(2 * found.variance * 1000 / 999 * share) + 7 * share / (3 * 999)
    bound = found.delta + np.minimum(bernstein, math.sqrt(math.log(200) / 2000))
    at = [float(gdp_mu(e, b)) for e, b in zip([0.5, 1.0, 1.0], bound[:3], strict=True)]
    assert found.mu_upper == pytest.approx(max(at[:2]), rel=1e-9)
    assert run(0.99).mu_upper == math.inf
    assert math.isfinite(run(1.0).mu_upper)
