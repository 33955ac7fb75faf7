"""Algorithms 1 and 2 as printed: below the truth, or noisy; corrected: sound with the stated confidence."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.privacy import gaussian_profile
from reproductions.gdp.algorithms import algorithm1_estimate, algorithm2_estimate, loss_sampler


def test_algorithm_1_is_a_lower_bound():
    """E2: the grid leaves out ε = 0, where the supremum is."""
    truth = gaussian_profile(1, 1, 2.0, 1.0).mu
    assert algorithm1_estimate(2.0, 1.0, 20) < algorithm1_estimate(2.0, 1.0, 1000) < truth
    assert algorithm1_estimate(2.0, 1.0, corrected=True) == pytest.approx(truth, rel=1e-8)


def test_algorithm_2_as_printed_scatters_around_the_truth_with_the_stated_variance():
    rng, profile = np.random.default_rng(0), gaussian_profile(1, 2, 1.0, 1.0)
    runs = [algorithm2_estimate(loss_sampler(1, 2, 1.0, 1.0), 1.0, math.pi / 2, rng, m=10) for _ in range(40)]
    i = 300
    truth = profile.delta(runs[0].eps[i])
    z = np.array([(run.delta[i] - truth) / math.sqrt(run.variance[i]) for run in runs])
    assert abs(z.mean()) < 5 / math.sqrt(len(runs))
    assert 0.5 < z.std() < 1.6
    assert max(run.mu for run in runs) > profile.mu > min(run.mu for run in runs)  # an estimate errs on both sides
    assert all(math.isinf(run.mu_upper) for run in runs)


def test_corrected_algorithm_2_is_sharper_and_bounds_mu():
    cap, profile = (2 * math.pi - 1) / 2, gaussian_profile(1, 2, 1.0, 1.0)
    sampler = loss_sampler(1, 2, 1.0, 1.0)
    for seed in range(20):
        run = algorithm2_estimate(
            sampler, 1.0, cap, np.random.default_rng(seed), m=20, corrected=True, max_loss=cap, failure_probability=0.05
        )
        assert profile.mu <= run.mu_upper < profile.mu * 1.2
        assert abs(run.delta[200] - profile.delta(run.eps[200])) < 6 * math.sqrt(run.variance[200])
    printed = algorithm2_estimate(sampler, 1.0, cap, np.random.default_rng(0), m=20)
    assert run.variance[200] < printed.variance[199] / 2


def test_without_a_bounded_loss_no_sample_bounds_mu():
    run = algorithm2_estimate(loss_sampler(-1, 2, 1.0, 1.0), 1.0, 8.0, np.random.default_rng(0), m=5, corrected=True)
    assert math.isinf(run.mu_upper)


def test_refusals():
    with pytest.raises(ParameterError):
        algorithm1_estimate(2.0, 4.0)
    with pytest.raises(ParameterError):
        algorithm2_estimate(
            lambda rng, which, n: np.full(n, np.nan), 1.0, 1.0, np.random.default_rng(0), corrected=True
        )
