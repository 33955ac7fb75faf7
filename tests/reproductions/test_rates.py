"""Theorems 6 to 8 of the optimization paper: parameters, limits and runs."""

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


def random_iterate(plan, gradient, n, start, rng):
    """Run Algorithm 11 with output II for each start: an iterate drawn uniformly."""
    w = np.array(start)
    runs = len(w)
    steps = plan.epochs * plan.inner_steps
    chosen = rng.integers(steps, size=runs)
    output = w.copy()
    for step in range(steps):
        if step % plan.inner_steps == 0:
            anchor = w.copy()
            full = np.mean([gradient(i, anchor) for i in range(n)], axis=0)
        output = np.where(chosen == step, w, output)
        i = rng.integers(n, size=runs)
        difference = gradient(i, w) - gradient(i, anchor)
        noise = plan.sigma * rng.standard_normal(runs)
        w = w - plan.learning_rate * (difference + full + noise)
    return output


def waves(n, rng):
    """Return gradient and value of fᵢ(w) = 1 − cos(w − zᵢ), which is 1-smooth."""
    centers = 0.8 * rng.standard_normal(n)

    def gradient(i, w):
        return np.sin(w - centers[i])

    def value(w):
        return np.mean(1 - np.cos(w[:, None] - centers), axis=1)

    return gradient, value


@pytest.mark.parametrize("sigma", [0.02, 2.0])
def test_theorem_7_bounds_the_gradient_of_runs_on_waves(sigma):
    """The mean of waves is not convex: the runs start beside its maximum."""
    rng = np.random.default_rng(1)
    n, runs = 20, 300
    gradient, value = waves(n, rng)
    places = np.linspace(-math.pi, math.pi, 4001)
    lowest, top = value(places).min(), places[np.argmax(value(places))]
    start = np.full(runs, top + 0.5)
    gap = float(value(start)[0] - lowest)
    plan = theorem_7(n, 1, 3.0, 1e-6, 1.0, 1.0, 1.0, gap, sigma=sigma)
    w = random_iterate(plan, gradient, n, start, rng)
    slope = np.mean([gradient(i, w) for i in range(n)], axis=0)
    assert np.mean(slope**2) <= plan.bound
    assert np.mean(slope**2) > plan.bound / 100
    if sigma == 0.02:
        # Steps that hardly move miss the bound, so that it can be missed.
        still = plan._replace(learning_rate=plan.learning_rate / 1000)
        w = random_iterate(still, gradient, n, np.full(runs, top + 1.5), rng)
        slope = np.mean([gradient(i, w) for i in range(n)], axis=0)
        assert np.mean(slope**2) > plan.bound


def test_theorem_8_bounds_the_risk_of_runs():
    """Quadratics ½aᵢ(w − zᵢ)² have the PL condition with τ = 1/2μ; K restarts."""
    rng = np.random.default_rng(2)
    n, runs = 20, 300
    scales = np.linspace(0.5, 1.5, n)
    centers = rng.standard_normal(n)
    best = float(np.sum(scales * centers) / np.sum(scales))

    def gradient(i, w):
        return scales[i] * (w - centers[i])

    w = np.full(runs, best + 2.0)
    gap = 0.5 * 2.0**2
    plan = theorem_8(n, 1, 1.0, 1e-6, 1.0, 1.5, 1.0, 0.5, gap, sigma=0.5)
    for _ in range(plan.restarts):
        w = random_iterate(plan, gradient, n, w, rng)
    risk = np.mean(0.5 * (w - best) ** 2)
    assert risk <= plan.bound
    assert risk > plan.bound / 100
    still = plan._replace(learning_rate=plan.learning_rate / 1e4)
    w = random_iterate(still, gradient, n, np.full(runs, best + 2.0), rng)
    assert np.mean(0.5 * (w - best) ** 2) > plan.bound


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
