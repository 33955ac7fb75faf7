"""The chain envelope of eigenvalues, cell by cell."""

import numpy as np
import pytest
from scipy import stats

from curvedp.laws.spd_chain import ChainEnvelope
from curvedp.laws.spd_gaussian import (
    sample_log_eigenvalues,
)


def test_chain_of_cells_by_brute_force():
    m, sigma = 4, 0.8
    chain = ChainEnvelope.tightest(m, sigma)
    lower, upper = chain._lower, chain._upper
    assert lower[0] == -np.inf
    assert upper[-1] == np.inf
    assert np.array_equal(lower[1:], upper[:-1])
    z = np.diff(
        stats.norm.cdf(np.append(lower, np.inf)[None, :], chain.means[:, None], sigma),
        axis=1,
    )
    assert chain._weights == pytest.approx(z, abs=1e-15)
    mean = chain._mean_positions()
    assert mean == pytest.approx(-mean[::-1], abs=1e-12)
    rho = sample_log_eigenvalues(np.random.default_rng(2), m, sigma, 4000)
    assert mean == pytest.approx(
        rho.mean(axis=0), abs=0.25
    )  # the envelope's means are near the target's
    assert np.all(np.diff(chain.means) < 0)
    cell = np.random.default_rng(3).integers(0, len(lower), 4000)
    inside = chain._inside(np.random.default_rng(4), 1, cell)
    assert np.all((lower[cell] <= inside) & (inside <= upper[cell]))
    # one wide cell on each side: half a normal
    ends = chain._inside(np.random.default_rng(5), 0, np.zeros(2000, dtype=int))
    truth = stats.truncnorm(
        -np.inf, (upper[0] - chain.means[0]) / sigma, chain.means[0], sigma
    )
    assert stats.kstest(ends, truth.cdf).pvalue > 1e-4
    ends = chain._inside(np.random.default_rng(6), 0, np.full(2000, len(lower) - 1))
    truth = stats.truncnorm(
        (lower[-1] - chain.means[0]) / sigma, np.inf, chain.means[0], sigma
    )
    assert stats.kstest(ends, truth.cdf).pvalue > 1e-4
    above = np.full(3000, 2400)
    below = chain._next_cell(np.random.default_rng(7), m - 1, above)
    mass = z[-1] * np.where(
        np.arange(len(lower)) <= 2400,
        -np.expm1(np.minimum(lower - upper[2400], 0.0)),
        0.0,
    )
    cdf = np.cumsum(mass) / mass.sum()
    assert np.all(below <= 2400)
    assert (
        stats.kstest(
            cdf[below]
            - np.random.default_rng(8).random(3000) * (mass / mass.sum())[below],
            "uniform",
        ).pvalue
        > 1e-4
    )
