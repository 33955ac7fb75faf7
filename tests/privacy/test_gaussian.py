"""The Gaussian profile to its last digits."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.privacy.guarantees.gaussian import (
    RELATIVE_ERROR,
    gdp_delta,
    gdp_log_delta,
    gdp_mu,
)


def test_log_delta_beyond_floats():
    for mu, eps in itertools.product((0.01, 1.0, 30.0), (0.0, 1.0, 700.0)):
        with mp.workdps(60):
            m, e = mp.mpf(mu), mp.mpf(eps)
            a, b = e / m - m / 2, e / m + m / 2
            truth = (
                mp.log(
                    mp.erfc(a / mp.sqrt(2)) / 2
                    - mp.exp(e) * mp.erfc(b / mp.sqrt(2)) / 2
                )
                if mu > 0.5
                else None
            )
        if truth is not None:
            found = gdp_log_delta(mu, eps)
            assert found >= float(truth) - 1e-300
            assert found == pytest.approx(float(truth), rel=1e-12, abs=1e-12)


def truth(mu, eps):
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(eps)
        a, b = e / m - m / 2, e / m + m / 2
        # Φ(−a) − e^ε Φ(−b), by scaled complementary error functions where both are tiny
        return mp.erfc(a / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc(b / mp.sqrt(2)) / 2


def test_delta_and_its_logarithm_to_the_last_digits():
    rng = np.random.default_rng(0)
    mu = 10.0 ** rng.uniform(-3, 1.6, 500)
    a = rng.uniform(-6, 36, 500)
    eps = np.maximum(mu * (a + mu / 2), 0.0)
    delta, log_delta = gdp_delta(mu, eps), gdp_log_delta(mu, eps)
    for m, e, found, log_found in zip(mu, eps, delta, log_delta, strict=True):
        exact = truth(m, e)
        if exact > mp.mpf(10) ** -40 * mp.erfc(40):
            assert 0 <= float(mp.mpf(found) / exact - 1) <= 3 * RELATIVE_ERROR
            excess = float(mp.mpf(log_found) - mp.log(exact))
            assert 0 <= excess <= 3 * RELATIVE_ERROR + 4e-16 * abs(log_found)


def test_logarithms_far_below_the_smallest_double():
    for mu, eps in ((0.5, 60.0), (1.0, 300.0), (0.01, 3.0), (3.0, 2e3), (40.0, 1e4)):
        with mp.workdps(900):
            m, e = mp.mpf(mu), mp.mpf(eps)
            a, b = e / m - m / 2, e / m + m / 2
            exact = mp.log(
                mp.erfc(a / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc(b / mp.sqrt(2)) / 2
            )
            excess = float(mp.mpf(float(gdp_log_delta(mu, eps))) - exact)
        assert 0 <= excess <= 3 * RELATIVE_ERROR + 4e-16 * abs(float(exact))


def test_extremes_are_numbers():
    for mu, eps in (
        (1e-200, 0.0),
        (1e200, 1e10),
        (1e-150, 1e-100),
        (1.0, 1e200),
        (1e150, 1e299),
        (5e-324, 1.0),
    ):
        assert 0 < gdp_delta(mu, eps) <= 1
        assert not math.isnan(gdp_log_delta(mu, eps))
    assert abs(gdp_delta(1e-150, 0.0) * math.sqrt(2 * math.pi) / 1e-150 - 1) < 1e-13
    assert gdp_delta(1.0, math.inf) == 0.0
    assert gdp_log_delta(1.0, math.inf) == -math.inf


def test_mu_there_and_back_on_the_private_side():
    rng = np.random.default_rng(1)
    mu, eps = 10.0 ** rng.uniform(-4, 1, 200), rng.exponential(2.0, 200)
    delta = gdp_delta(mu, eps)
    good = (delta < 0.9) & (delta > 1e-300)
    found = gdp_mu(eps[good], delta[good])
    assert np.all(found >= mu[good] * (1 - 1e-15))
    assert np.all(found <= mu[good] * (1 + 1e-11))
    assert gdp_mu(1.0, 0.0) == 0.0
    assert (
        gdp_mu(1.0, np.nextafter(1.0, 0.0)) == math.inf
        or gdp_mu(1.0, np.nextafter(1.0, 0.0)) > 16
    )


def test_where_the_exponent_vanishes():
    """ε = μ²/2: a = 0."""
    for mu in (0.5, 1.0, 4.0):
        exact = truth(mu, mu * mu / 2)
        assert (
            0
            <= float(mp.mpf(gdp_delta(mu, mu * mu / 2)) / exact - 1)
            <= 3 * RELATIVE_ERROR
        )
