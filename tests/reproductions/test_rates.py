"""Theorems 6 to 8 of the optimization paper: parameters, limits and, for Theorem 6, runs."""

import math

import numpy as np
import pytest

from curvedp.papers.opt import (
    claim_5_constant,
    claim_5_sigma,
    compare_rates,
    curvature_constant,
    moments_rho,
    theorem_6,
    theorem_7,
    theorem_8,
)


def test_claim_5_is_what_its_proof_asks_for():
    """λ(λ+1)ρ ≤ λε/2 and e^{−λε/2} ≤ δ at λ = 2·log(1/δ)/ε, with equality in both."""
    n, epochs, inner, eps, delta = 10_000, 5, 200, 0.7, 1e-5
    sigma = claim_5_sigma(n, epochs * inner, 1.0, eps, delta)
    rho = moments_rho(n, epochs, inner, (1.0, 1.0), sigma)
    order = 2 * math.log(1 / delta) / eps
    assert (order + 1) * rho == pytest.approx(eps / 2)
    assert math.exp(-order * eps / 2) == pytest.approx(delta)
    assert claim_5_constant(eps, delta) > 4 * (math.sqrt(2) + math.sqrt(28)) ** 2


def svrg_on_a_quadratic(plan, curvatures, start, rng, runs):
    """Run Algorithm 11, as meant, on the mean of ½Σ aᵢ(w − zᵢ)², without clipping."""
    scales, centers = curvatures
    w = np.full(runs, start)
    for _ in range(plan.epochs):
        anchor = w.copy()
        full = np.mean(scales * (anchor[:, None] - centers), axis=1)
        for _ in range(plan.inner_steps):
            i = rng.integers(len(centers), size=runs)
            difference = scales[i] * (w - anchor)
            noise = plan.sigma * rng.standard_normal(runs)
            w = w - plan.learning_rate * (difference + full + noise)
    return w


@pytest.mark.parametrize("sigma", [0.05, 1.0])
@pytest.mark.parametrize("smooth", [1.0, 2.0])
def test_theorem_6_bounds_the_risk_of_runs(sigma, smooth):
    rng = np.random.default_rng(0)
    scales = np.linspace(2 - smooth, smooth, 50)  # mean 1: μ = 1
    centers = rng.standard_normal(50)
    best = float(np.sum(scales * centers) / np.sum(scales))
    convex, start = float(np.mean(scales)), best + 2.0
    plan = theorem_6(50, 1, 1.0, 1e-6, 1.0, smooth, convex, 1.0, 4.0, sigma=sigma)
    w = svrg_on_a_quadratic(plan, (scales, centers), start, rng, runs=400)
    risk = 0.5 * convex * (w - best) ** 2
    assert np.mean(risk) <= plan.bound
    # The bound follows the noise: it is not so large that nothing could break it.
    if sigma == 1.0:
        assert np.mean(risk) > plan.bound / 40
        doubled = plan._replace(learning_rate=30 * plan.learning_rate)
        far = svrg_on_a_quadratic(doubled, (scales, centers), start, rng, runs=400)
        assert not np.mean(0.5 * convex * (far - best) ** 2) <= plan.bound


def test_rates_fall_as_they_are_printed():
    common = {"dim": 2, "eps": 1.0, "delta": 1e-6, "lipschitz": 1.0, "smooth": 1.0}
    sevens = [theorem_7(n, zeta=1.0, gap=1.0, **common).bound for n in (10**5, 10**6)]
    assert sevens[0] / sevens[1] == pytest.approx(10, rel=0.1)
    sixes = [
        theorem_6(n, convex=1.0, zeta=1.0, start=1.0, **common).bound
        for n in (10**4, 10**5)
    ]
    assert sixes[0] / sixes[1] == pytest.approx(100, rel=0.35)  # log n is in m·S
    eights = [
        theorem_8(n, zeta=1.0, pl=0.5, gap=1.0, **common).bound for n in (10**5, 10**6)
    ]
    # E48: with whole epochs the bound falls like n^{-5/3}, which is 46, less a logarithm.
    assert eights[0] / eights[1] == pytest.approx(10 ** (5 / 3), rel=0.2)
    many = [
        theorem_8(n, zeta=1.0, pl=1e4, gap=1e9, **common).bound for n in (10**5, 10**6)
    ]
    assert many[0] / many[1] == pytest.approx(100, rel=0.35)  # where S is large
    rows = compare_rates(
        1000, convex=1.0, pl=0.5, zeta=1.0, start=1.0, gap=1.0, **common
    )
    assert len(rows) == 9
    assert rows[0].gradients == 10**6


def test_the_curvature_constant_holds_in_the_hyperbolic_cosine_rule():
    """Lemma 10 on H² at a right angle: cosh c = cosh a·cosh b, c² ≤ ζa² + b²."""
    for a in (0.5, 2.0, 4.0):
        for b in (0.5, 2.0):
            c = math.acosh(math.cosh(a) * math.cosh(b))
            zeta = curvature_constant(-1.0, max(a, b, c))
            assert c * c <= zeta * a * a + b * b + 1e-9
