"""The best of a random number of runs: its law summed from its definition, for runs that try to exceed the bound."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from curvedp.privacy.selection import NegativeBinomialRuns
from support.goodness import generating

RUNS = [
    NegativeBinomialRuns(g, e)
    for g in (0.02, 0.3, 0.9)
    for e in (-0.5, 0.0, 0.5, 1.0, 3.0)
]


def chances(runs, most=4000):
    """P(K = k) from the definition, k = 0 … most."""
    weight = [0.0, 1.0]
    for k in range(
        2, most
    ):  # ratios of ∏(l+η)/(l+1)·(1−γ)^k; the common factor η (or 1 at η = 0) drops out
        weight.append(weight[-1] * (1 - runs.stop) * (k - 1 + runs.shape) / k)
    return np.array(weight) / sum(weight)


def best_of(masses, runs):
    """The law of the best run over ordered outcomes, summed over K; a last atom where there is no run."""
    p = chances(runs)
    below = np.concatenate([[0.0], np.cumsum(masses)])
    powers = np.array(
        [np.sum(p[1:] * np.minimum(x, 1.0) ** np.arange(1, len(p))) for x in below]
    )
    return np.append(np.diff(powers), p[0])


def renyi(p, q, order):
    keep = p > 0
    return math.log(np.sum(p[keep] ** order * q[keep] ** (1 - order))) / (order - 1)


@pytest.mark.parametrize("runs", RUNS, ids=repr)
def test_generating_functions_and_means_by_summation(runs):
    p, k = chances(runs), np.arange(4000)
    assert runs.mean == pytest.approx(float(p @ k), rel=1e-9)
    for x in (0.0, 0.3, 0.99):
        assert generating(runs, x) == pytest.approx(
            float(p @ x**k), rel=1e-9, abs=1e-300
        )


def pure_pair(eps, seed, size=4):
    """q = p·e^{εs}/Z with s in [0, 1]: Z lies between 1 and e^ε, so no ratio leaves e^{±ε}."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(size, 0.3)) * (1 - 1e-6) + 1e-6 / size
    q = p * np.exp(eps * (rng.random(size) < 0.5))
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("runs", RUNS, ids=repr)
def test_no_pure_pair_exceeds_the_price(runs):
    eps, worst = 0.7, 0.0
    bound = runs.best(PureDP(eps)).eps
    for seed in range(40):
        pair = pure_pair(eps, seed)
        actual = float(np.max(np.abs(np.log(pair[0] / pair[1]))))
        if actual < 1e-3:
            continue
        p, q = (best_of(m, runs)[:-1] for m in pair)
        keep = (p > 1e-250) & (q > 1e-250)
        loss = float(np.max(np.abs(np.log(p[keep] / q[keep]))))
        assert loss <= bound * (1 + 1e-9)
        worst = max(worst, loss / bound)
        for order in (1.5, 3.0, 20.0):
            divergence = runs.best(RenyiDP(1e9, actual), order=order)
            assert max(renyi(p, q, order), renyi(q, p, order)) <= divergence.eps * (
                1 + 1e-9
            )
    assert worst > 0.9 / (2 + runs.shape)  # the pairs do press


@pytest.mark.parametrize(
    "runs", [NegativeBinomialRuns(0.05, 0.0), NegativeBinomialRuns(0.2, 1.0)], ids=repr
)
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.5])
def test_gaussian_runs_stay_below_the_renyi_price(runs, mu):
    """One run tells N(0, 1) or N(μ, 1), and the largest is published: the order that hurts most."""
    x = np.linspace(-9, 9 + mu, 3001)
    for sign in (1, -1):
        cdf = [
            0.5 * np.array([math.erfc(-(v - m) / math.sqrt(2)) for v in sign * x])
            for m in (0.0, mu)
        ]
        masses = [np.abs(np.diff(c)) for c in cdf]
        p, q = (best_of_fast(m / m.sum(), runs) for m in masses)
        for order in (1.2, 2.0, 6.0):
            bound = runs.best(GDP(mu), order=order).eps
            keep = (p > 1e-200) & (q > 1e-200)
            assert max(
                renyi(p[keep], q[keep], order), renyi(q[keep], p[keep], order)
            ) <= bound * (1 + 1e-6)


def best_of_fast(masses, runs):
    below = np.minimum(np.concatenate([[0.0], np.cumsum(masses)]), 1.0)
    values = np.array([generating(runs, float(b)) for b in below])
    return np.append(np.diff(values), generating(runs, 0.0))


def test_prices():
    assert NegativeBinomialRuns(0.01, 0.0).best(PureDP(0.5)) == PureDP(1.0)
    assert NegativeBinomialRuns(0.01, 1.0).best(PureDP(0.5)) == PureDP(1.5)
    many, few = NegativeBinomialRuns(1e-4), NegativeBinomialRuns(0.5)
    assert many.mean > 900
    ten = NegativeBinomialRuns(0.025).best(ZCDP(0.01), order=20.0)
    assert ten.eps < 20 * 0.01 * 10  # cheaper than running ten times
    assert few.best(GDP(0.3), order=4.0).eps < many.best(GDP(0.3), order=4.0).eps
    assert many.best(PureDP(0.1, adjacency="add-remove")).adjacency == "add-remove"
    assert (
        few.best(GDP(0.3, adjacency="add-remove"), order=2.0).adjacency == "add-remove"
    )


def test_refusals():
    for bad in (
        {"stop": 0.0},
        {"stop": 1.0},
        {"stop": math.nan},
        {"stop": 0.5, "shape": -1.0},
        {"stop": 0.5, "shape": math.nan},
    ):
        with pytest.raises(ParameterError):
            NegativeBinomialRuns(**bad)
    with pytest.raises(ParameterError, match="order="):
        NegativeBinomialRuns(0.5).best(GDP(1.0))
    with pytest.raises(UnattainableGuarantee):
        NegativeBinomialRuns(0.5).best(ApproxDP(1.0, 1e-6), order=2.0)
    with pytest.raises(UnattainableGuarantee):
        NegativeBinomialRuns(0.5).best(RenyiDP(2.0, 0.1), order=3.0)


@pytest.mark.parametrize("runs", RUNS, ids=repr)
def test_what_one_run_may_cost_by_the_price_of_the_best(runs):
    one, order = runs.one_of(PureDP(1.0, adjacency="add-remove"))
    assert order is None
    assert 1 - 1e-12 < runs.best(one).eps <= 1
    assert one.adjacency == "add-remove"


@pytest.mark.parametrize(
    "runs", [NegativeBinomialRuns(0.05), NegativeBinomialRuns(0.3, 1.0)], ids=repr
)
def test_the_largest_mu_of_one_run(runs):
    """At the order that comes with it the best run meets the target; at no order does it with 1% more."""
    target = ApproxDP(1.0, 1e-6)
    one, order = runs.one_of(target)
    assert runs.best(one, order).delta(1.0) <= 1e-6
    more = GDP(1.01 * one.mu)
    assert all(
        runs.best(more, order).delta(1.0) > 1e-6
        for order in np.geomspace(1.5, 1000, 60).tolist()
    )


@pytest.mark.parametrize("mu", [0.1, 0.7, 2.0])
def test_the_second_order_is_the_best_one(mu):
    """Of Gaussian runs (1 − 1/x)·xμ²/2 + log(1/γ)/x is least at x = √(2·log(1/γ))/μ, or at 1 if that is less."""
    runs, order = NegativeBinomialRuns(0.02), 4.0
    x = max(math.sqrt(-2 * math.log(0.02)) / mu, 1.0)
    exact = (
        order * mu * mu / 2
        + (x - 1) * mu * mu / 2
        - math.log(0.02) / x
        + math.log(runs.mean) / (order - 1)
    )
    assert exact * (1 - 1e-12) <= runs.best(GDP(mu), order).eps <= exact * (1 + 1e-3)
