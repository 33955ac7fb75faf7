"""Shares of discrete noise: the sampler against its masses, the guarantee against exact convolutions."""

from fractions import Fraction
from math import sqrt

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chi2

from curvedp.errors import ParameterError
from curvedp.federated.noise import (
    LEAST_VARIANCE,
    SMOOTHING,
    KeyedSource,
    discrete_gaussian,
    layer_variances,
    noise_slack,
    site_noise,
    surplus_noise,
    total_variance_for,
)
from curvedp.randomness import GeneratorSource


def masses(v, reach):
    """Of N_Z(v) on −reach … reach, by the definition, in 60 digits."""
    weights = [
        mp.exp(-mp.mpf(k * k) * v.denominator / (2 * v.numerator))
        for k in range(-reach, reach + 1)
    ]
    total = mp.fsum(weights)
    return [w / total for w in weights]


def convolved(one, two):
    out = [mp.mpf(0)] * (len(one) + len(two) - 1)
    for i, p in enumerate(one):
        for j, q in enumerate(two):
            out[i + j] += p * q
    return out


def gaussian_delta(mu, eps):
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


def delta(p, q, eps):
    return mp.fsum(max(a - mp.exp(eps) * b, 0) for a, b in zip(p, q, strict=True))


def moved(p, shift):
    return [mp.mpf(0)] * shift + p, p + [mp.mpf(0)] * shift


@pytest.mark.parametrize("v", [Fraction(1), Fraction(9, 2), Fraction(40)])
def test_draws_follow_the_masses(v):
    n, reach = 12_000, 60
    draws = discrete_gaussian(v, n, KeyedSource(b"5" * 32))
    p = np.array([float(m) for m in masses(v, reach)])
    assert fit(draws, p, reach) > 1e-4
    rounded = np.round(
        np.random.default_rng(6).normal(0, sqrt(v + Fraction(1, 2)), n)
    ).astype(int)
    if v < 5:  # a wider law is seen
        assert fit(rounded, p, reach) < 1e-6


def fit(draws, p, reach):
    """p-value of chi-square over the cells that expect 20 or more."""
    counts = np.bincount(
        np.clip(np.asarray(draws) + reach, 0, 2 * reach), minlength=2 * reach + 1
    )
    expected = p * len(draws)
    cells = expected >= 20
    statistic = ((counts - expected)[cells] ** 2 / expected[cells]).sum()
    return chi2.sf(statistic, cells.sum() - 1)


def test_large_variances_have_the_right_spread():
    v = Fraction(2**90, 3)
    draws = np.array(
        [
            x / 2**45
            for x in discrete_gaussian(
                v, 4000, GeneratorSource(np.random.default_rng(1))
            )
        ]
    )
    assert abs(np.mean(draws**2) * 3 - 1) < 4 * sqrt(2 / 4000)
    assert abs(np.mean(np.abs(draws)) * sqrt(3 * np.pi / 2) - 1) < 0.05


@pytest.mark.parametrize("shares", [1, 2, 3])
@pytest.mark.parametrize("shift", [1, 2, 7, 20])
def test_sums_of_shares_are_gdp(shares, shift):
    """The exact law of the sum, by convolution of the definition, against the profile that is claimed."""
    with mp.workdps(90):
        p = one = masses(Fraction(LEAST_VARIANCE), 75)
        for _ in range(shares - 1):
            p = convolved(p, one)
        total = LEAST_VARIANCE * shares
        mu, slack = mp.mpf(shift) / mp.sqrt(total - SMOOTHING), noise_slack(shares, 1)
        cut = mp.mpf(10) ** -70  # what lies beyond the table
        for eps in (0, 0.01, 0.1, 0.5, 1, 2, 5, 12):
            left, right = moved(p, shift)
            for a, b in ((left, right), (right, left)):
                assert delta(a, b, eps) <= gaussian_delta(mu, eps) + (
                    1 + mp.exp(eps)
                ) * (slack + cut)


def test_forgetting_what_discreteness_costs_is_seen():
    """Δ/√V, the continuous formula, is below the truth at Δ = 1."""
    with mp.workdps(60):
        p = masses(Fraction(LEAST_VARIANCE), 70)
        wrong = gaussian_delta(1 / mp.sqrt(LEAST_VARIANCE), 0)
        assert delta(*moved(p, 1), 0) > wrong * (1 + mp.mpf(1) / 500)


@pytest.mark.parametrize("shift", [(1, 1), (3, 1)])
def test_two_coordinates_are_gdp_of_their_length(shift):
    with mp.workdps(40):
        p = masses(Fraction(LEAST_VARIANCE), 40)
        rows = [moved(p, s) for s in shift]
        left = [a * b for a in rows[0][0] for b in rows[1][0]]
        right = [a * b for a in rows[0][1] for b in rows[1][1]]
        mu = mp.sqrt(sum(s * s for s in shift)) / mp.sqrt(LEAST_VARIANCE - SMOOTHING)
        for eps in (0, 0.3, 1):
            assert delta(left, right, eps) <= gaussian_delta(mu, eps)


def test_the_slack_is_above_the_true_theta():
    with mp.workdps(100):
        theta = 2 * mp.fsum(
            mp.exp(-2 * mp.pi**2 * SMOOTHING * m * m) for m in range(1, 10)
        )
        assert 2 * theta / (1 - theta) * 12 * 7 < noise_slack(12, 7) < 2.0**-210


@pytest.mark.parametrize(
    ("sites", "dropouts", "collusion"),
    [(10, 3, 0), (10, 3, 3), (3, 1, 0), (5, 0, 2), (7, 2, 2)],
)
def test_the_honest_rest_keeps_the_whole_variance(sites, dropouts, collusion):
    total = total_variance_for(2.0**30, 0.37)
    found = layer_variances(total, sites, dropouts, collusion)
    for lost in range(dropouts + 1):
        assert (sites - lost - collusion) * sum(found[: lost + 1]) == total


def test_the_variance_meets_the_guarantee_exactly():
    for sensitivity, mu in ((3.0, 0.5), (2.0**41 + 0.3, 0.123), (1.0, 10.0)):
        assert Fraction(sensitivity) ** 2 <= Fraction(mu) ** 2 * (
            total_variance_for(sensitivity, mu) - SMOOTHING
        )


def test_surplus_comes_off_to_the_last_unit():
    variances, seed = layer_variances(10**8, 7, 3, 0), b"s" * 32
    from curvedp.federated.session import hash_chain

    source = GeneratorSource(np.random.default_rng(3))
    whole = site_noise(variances, seed, 20, source)
    source = GeneratorSource(np.random.default_rng(3))
    base = np.array(discrete_gaussian(variances[0], 20, source))
    for lost in range(3):
        kept = whole - surplus_noise(variances, lost, hash_chain(seed, 3)[lost], 20)
        again = sum(
            (
                surplus_noise(variances[: lost + 1], k, hash_chain(seed, 3)[k], 20)
                for k in range(lost)[:1]
            ),
            np.zeros(20),
        )
        assert (kept == base + again).all()


def test_a_grid_too_coarse_for_its_shares_is_refused():
    with pytest.raises(ParameterError, match="finer grid"):
        layer_variances(100, 10, 3, 0)
    with pytest.raises(ParameterError):
        discrete_gaussian(Fraction(0), 1, GeneratorSource(np.random.default_rng(0)))


def test_a_key_gives_its_own_bits_again_and_no_others():
    one, two = KeyedSource(b"k" * 32), KeyedSource(b"k" * 32)
    first = one.random_bytes(40_000)
    assert first == b"".join(two.random_bytes(n) for n in (1, 39_000, 999))
    assert KeyedSource(b"l" * 32).random_bytes(40) != first[:40]
    counts = np.bincount(np.frombuffer(first, dtype=np.uint8), minlength=256)
    assert chi2.sf(((counts - 156.25) ** 2 / 156.25).sum(), 255) > 1e-5
