"""Algorithms 1 and 2 as printed: below the truth, or noisy; corrected: sound with the stated confidence."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import ParameterError
from curvedp.papers.gdp.algorithms import (
    _largest_mu,
    _positive_parts,
    algorithm1_estimate,
    algorithm2_estimate,
    loss_sampler,
)
from curvedp.papers.gdp.circle import (
    circle_gaussian_delta,
    circle_gaussian_delta_printed,
)
from curvedp.privacy import gaussian_profile
from curvedp.privacy.guarantees.gaussian import gdp_mu


def test_algorithm_1_is_a_lower_bound():
    """E2: the grid leaves out ε = 0, where the supremum is."""
    truth = gaussian_profile(1, 1, 2.0, 1.0).mu
    assert (
        algorithm1_estimate(2.0, 1.0, 20) < algorithm1_estimate(2.0, 1.0, 1000) < truth
    )
    assert algorithm1_estimate(2.0, 1.0, corrected=True) == pytest.approx(
        truth, rel=1e-8
    )


def test_algorithm_2_as_printed_scatters_around_the_truth_with_the_stated_variance():
    rng, profile = np.random.default_rng(0), gaussian_profile(1, 2, 1.0, 1.0)
    runs = [
        algorithm2_estimate(loss_sampler(1, 2, 1.0, 1.0), 1.0, math.pi / 2, rng, m=10)
        for _ in range(40)
    ]
    i = 300
    truth = profile.delta(runs[0].eps[i])
    z = np.array([(run.delta[i] - truth) / math.sqrt(run.variance[i]) for run in runs])
    assert abs(z.mean()) < 5 / math.sqrt(len(runs))
    assert 0.5 < z.std() < 1.6
    assert (
        max(run.mu for run in runs) > profile.mu > min(run.mu for run in runs)
    )  # an estimate errs on both sides
    assert all(math.isinf(run.mu_upper) for run in runs)


def test_corrected_algorithm_2_is_sharper_and_bounds_mu():
    cap, profile = (2 * math.pi - 1) / 2, gaussian_profile(1, 2, 1.0, 1.0)
    sampler = loss_sampler(1, 2, 1.0, 1.0)
    for seed in range(8):
        run = algorithm2_estimate(
            sampler,
            1.0,
            cap,
            np.random.default_rng(seed),
            m=20,
            corrected=True,
            max_loss=cap,
            failure_probability=0.05,
        )
        assert profile.mu <= run.mu_upper < profile.mu * 1.2
        assert abs(run.delta[200] - profile.delta(run.eps[200])) < 6 * math.sqrt(
            run.variance[200]
        )
    printed = algorithm2_estimate(sampler, 1.0, cap, np.random.default_rng(0), m=20)
    assert run.variance[200] < printed.variance[199] / 2


def test_without_a_bounded_loss_no_sample_bounds_mu():
    run = algorithm2_estimate(
        loss_sampler(-1, 2, 1.0, 1.0),
        1.0,
        8.0,
        np.random.default_rng(0),
        m=5,
        corrected=True,
    )
    assert math.isinf(run.mu_upper)


@pytest.mark.parametrize(
    ("dim", "sigma", "D"), [(2, 1.0, 0.5), (3, 1.0, 1.0), (10, 1.0, 0.5), (3, 0.2, 0.2)]
)
@pytest.mark.parametrize(
    "widths", [0.2, 6.0]
)  # of the grid: the theorem takes over where it ends
def test_on_hyperbolic_spaces_the_tail_is_bounded_by_a_theorem(dim, sigma, D, widths):
    profile, sampler = (
        gaussian_profile(-1, dim, sigma, D),
        loss_sampler(-1, dim, sigma, D),
    )
    for seed in range(3 if widths > 1 else 1):
        run = algorithm2_estimate(
            sampler,
            sigma,
            widths * profile.mu,
            np.random.default_rng(seed),
            m=20,
            corrected=True,
            tail=profile,
        )
        assert profile.mu <= run.mu_upper
        assert run.mu_upper < 3 * profile.mu if widths > 1 else math.isinf(run.mu_upper)


def test_refusals():
    with pytest.raises(ParameterError):
        algorithm1_estimate(2.0, 4.0)
    with pytest.raises(ParameterError):
        algorithm2_estimate(
            lambda rng, which, n: np.full(n, np.nan),
            1.0,
            1.0,
            np.random.default_rng(0),
            corrected=True,
        )


@pytest.mark.parametrize(
    ("curvature", "dim"), [(1.0, 2), (0.0, 3), (-1.0, 4), (4.0, 2)]
)
def test_sampled_losses_have_the_exact_tails(curvature, dim):
    sigma, D = 0.8, 0.7
    law = gaussian_profile(curvature, dim, sigma, D)
    sampler = loss_sampler(curvature, dim, sigma, D)
    loss = sampler(np.random.default_rng(1), 0, 4000) / (2 * sigma**2)
    other = sampler(np.random.default_rng(2), 1, 4000) / (2 * sigma**2)
    table = law.loss_table
    table.extend_table_to(float(np.abs(loss).max()) + 1)
    assert (
        stats.kstest(
            loss, lambda t: np.exp(table.log_lower_tail_at_any_loss(np.asarray(t)))
        ).pvalue
        > 1e-4
    )
    assert (
        stats.kstest(
            -other, lambda t: np.exp(table.log_lower_tail_at_any_loss(np.asarray(t)))
        ).pvalue
        > 1e-4
    )
    assert (
        stats.kstest(
            1.25 * loss,
            lambda t: np.exp(table.log_lower_tail_at_any_loss(np.asarray(t))),
        ).pvalue
        < 1e-6
    )


def test_algorithms_on_their_grids():
    def sampler(rng, which, n):
        return np.linspace(-1.0, 3.0, n) if which == 0 else np.linspace(-3.0, 1.0, n)

    printed = algorithm2_estimate(
        sampler, 1.0, 1.2, np.random.default_rng(0), n=5, n_eps=4, m=2
    )
    assert printed.eps == pytest.approx([0.3, 0.6, 0.9, 1.2])
    loss, other = np.linspace(-0.5, 1.5, 5), np.linspace(-1.5, 0.5, 5)
    p = np.array([(loss >= e).mean() for e in printed.eps])
    q = np.array([(other >= e).mean() for e in printed.eps])
    assert printed.delta == pytest.approx(p - np.exp(printed.eps) * q)
    variance = (p * (1 - p) + np.exp(2 * printed.eps) * q * (1 - q)) / 10
    assert printed.variance == pytest.approx(variance)
    assert printed.mu == pytest.approx(_largest_mu(printed.eps, printed.delta))
    better = algorithm2_estimate(
        sampler,
        1.0,
        1.6,
        np.random.default_rng(0),
        n=500,
        n_eps=4,
        m=2,
        corrected=True,
        max_loss=1.5,
        failure_probability=0.1,
    )
    assert better.eps == pytest.approx([0.0, 0.4, 0.8, 1.2, 1.6])
    loss = np.linspace(-0.5, 1.5, 500)
    parts = np.maximum(1 - np.exp(better.eps[:, None] - loss), 0.0)
    assert better.delta == pytest.approx(parts.mean(axis=1))
    assert better.variance == pytest.approx(parts.var(axis=1) / 1000)
    # Half of the failure probability for each of two bounds.
    share = math.log(4 * 5 / 0.1)
    bernstein = np.sqrt(2 * better.variance * 1000 / 999 * share) + 7 * share / (
        3 * 999
    )
    bound = better.delta + np.minimum(bernstein, math.sqrt(math.log(20) / 2000))
    upper = max(
        gdp_mu(min(e, 1.5), b)
        for e, b in zip([0.4, 0.8, 1.2, 1.6], bound[:4], strict=True)
    )
    assert better.mu_upper == pytest.approx(upper, rel=1e-9)
    eps = math.pi / 8 * np.arange(1, 6) / 5
    expected = max(gdp_mu(e, circle_gaussian_delta_printed(2.0, 1.0, e)) for e in eps)
    assert algorithm1_estimate(2.0, 1.0, 5) == pytest.approx(expected, rel=1e-9)
    eps = np.linspace(0, (2 * math.pi - 1) / 8, 6)[:-1]
    expected = max(gdp_mu(e, circle_gaussian_delta(2.0, 1.0, e)) for e in eps)
    assert algorithm1_estimate(2.0, 1.0, 5, corrected=True) == pytest.approx(
        expected, rel=1e-9
    )
    for bad in (
        {"n": 1},
        {"m": 0},
        {"n_eps": 0},
        {"failure_probability": 1.0},
        {"failure_probability": 0.0},
    ):
        with pytest.raises(ParameterError):
            algorithm2_estimate(sampler, 1.0, 1.2, np.random.default_rng(0), **bad)
    for sensitivity in (0.0, math.pi * (1 + 1e-15)):
        with pytest.raises(ParameterError):
            algorithm1_estimate(1.0, sensitivity)


def test_the_paper_takes_a_hundred_batches_of_a_thousand():
    calls = []

    def sampler(rng, which, n):
        calls.append((which, n))
        return np.zeros(n)

    found = algorithm2_estimate(sampler, 1.0, 1.0, np.random.default_rng(0))
    assert calls == [(0, 1000)] * 100 + [(1, 1000)] * 100
    assert len(found.eps) == 1000


def test_positive_parts_by_hand():
    loss = np.sort(np.random.default_rng(0).normal(0.3, 1.0, 500))
    eps = np.array([0.0, 0.4, 2.0, 9.0])
    mean, square = _positive_parts(loss, eps)
    parts = np.maximum(1 - np.exp(eps[:, None] - loss), 0.0)
    assert mean == pytest.approx(parts.mean(axis=1), abs=1e-14)
    assert square == pytest.approx((parts**2).mean(axis=1), abs=1e-14)
    low = _positive_parts(np.array([-3.0, -1.0]), np.array([0.0]))
    assert low[0].tolist() == low[1].tolist() == [0.0]
    assert _largest_mu(np.array([0.0, 0.5]), np.array([0.3, -0.1])) == pytest.approx(
        gdp_mu(0.0, 0.3)
    )
    assert _largest_mu(np.array([0.0]), np.array([0.0])) == 0.0
