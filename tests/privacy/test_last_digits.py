"""The Gaussian profile to its last digits, from δ near 1 down to the smallest doubles and far below."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.privacy import gaussian_profile
from curvedp.privacy.certify import _Certifier
from curvedp.privacy.gaussian import RELATIVE_ERROR, gdp_delta, gdp_log_delta, gdp_mu
from curvedp.privacy.rao import rao_epsilon
from curvedp.privacy.subsampled import FixedSizeGaussianStep, PoissonGaussianStep
from reproductions.gdp.circle import circle_gaussian_delta


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
            exact = mp.log(mp.erfc(a / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc(b / mp.sqrt(2)) / 2)
            excess = float(mp.mpf(float(gdp_log_delta(mu, eps))) - exact)
        assert 0 <= excess <= 3 * RELATIVE_ERROR + 4e-16 * abs(float(exact))


def test_extremes_are_numbers():
    for mu, eps in ((1e-200, 0.0), (1e200, 1e10), (1e-150, 1e-100), (1.0, 1e200), (1e150, 1e299), (5e-324, 1.0)):
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
    assert gdp_mu(1.0, np.nextafter(1.0, 0.0)) == math.inf or gdp_mu(1.0, np.nextafter(1.0, 0.0)) > 16


@pytest.mark.parametrize(("s", "D"), [(2.0, 3.0), (1.0, 0.5), (0.7, 2.0), (3.0, math.pi)])
def test_the_circle_up_to_its_cap(s, D):
    """The closed form for reading against the same in balls, also where the far end of the arc is met from behind."""
    certifier = _Certifier(gaussian_profile(1.0, 1, s, D))
    cap = D * (2 * math.pi - D) / (2 * s * s)
    for share in (0.0, 0.2, 0.5, 0.8, 0.95, 0.99):
        found, exact = circle_gaussian_delta(s, D, share * cap), float(certifier.delta(share * cap))
        assert found == pytest.approx(exact, rel=1e-7, abs=1e-12)
    assert circle_gaussian_delta(s, D, cap) == 0.0


def test_where_the_exponent_vanishes():
    """ε = μ²/2: a = 0."""
    for mu in (0.5, 1.0, 4.0):
        exact = truth(mu, mu * mu / 2)
        assert 0 <= float(mp.mpf(gdp_delta(mu, mu * mu / 2)) / exact - 1) <= 3 * RELATIVE_ERROR


@pytest.mark.parametrize("q", [1e-3, 0.5])
def test_batches_are_rounded_up_in_the_far_tail(q):
    """There an ulp of ε is many ulps of δ."""
    for multiplier, eps in ((20.0, 2.0), (8.0, 5.0), (40.0, 0.9)):
        with mp.workdps(400):
            mu, rate, g = 1 / mp.mpf(multiplier), mp.mpf(q), mp.exp(mp.mpf(eps))
            inner = mp.log(1 + (g - 1) / rate)
            a, b = inner / (2 * mu) - mu, inner / (2 * mu) + mu
            exact = rate * (mp.erfc(a / mp.sqrt(2)) - mp.exp(inner) * mp.erfc(b / mp.sqrt(2))) / 2
            fixed = mp.mpf(FixedSizeGaussianStep(multiplier, q).delta(eps))
            if exact > mp.mpf(10) ** -300:
                assert exact <= fixed <= exact * (1 + mp.mpf(10) ** -10)
            # Poisson: (1−q)(1−g) + q·v − g·q·e^{−μ²}/v = 0 at v = e^{μx − μ²/2}
            h = (1 - rate) * (g - 1)
            v = (h + mp.sqrt(h * h + 4 * g * rate * rate * mp.exp(-mu * mu))) / (2 * rate)
            x = mp.log(v) / mu + mu / 2

            def tail(z):
                return mp.erfc(z / mp.sqrt(2)) / 2

            exact = (1 - rate) * (1 - g) * tail(x) + rate * (tail(x - mu) - g * tail(x + mu))
            poisson = mp.mpf(PoissonGaussianStep(multiplier, q).delta(eps))
            if exact > mp.mpf(10) ** -300:
                assert exact <= poisson <= exact * (1 + mp.mpf(10) ** -10)


def test_epsilon_of_an_angle_is_rounded_up_next_to_its_pole():
    """δ − sin²(θ/2) of a few ulps to a few percent: the quotient magnifies every rounding."""
    rng = np.random.default_rng(2)
    for theta in rng.uniform(0.05, 2.5, 40):
        square = math.sin(theta / 2) ** 2
        for gap in (1e-13, 1e-9, 1e-4, 0.05):
            delta = square * (1 + gap)
            with mp.workdps(60):
                s2, d = mp.sin(mp.mpf(float(theta)) / 2) ** 2, mp.mpf(delta)
                exact = mp.log(d * (1 - d) / (d - s2))
                found = rao_epsilon(float(theta), delta)
                if math.isfinite(found) and exact > 0:
                    assert mp.mpf(found) >= exact
                    assert found <= float(exact) + 1e-13 + 4e-15 * delta / (delta - square)
    assert rao_epsilon(1.0, math.sin(0.5) ** 2 * (1 - 1e-12)) == math.inf


@pytest.mark.parametrize("q", [1e-3, 0.5])
@pytest.mark.parametrize("eps", [29.9, 30.0, 30.5, 31.0, 31.5])
def test_batches_of_fixed_size_where_the_logarithm_changes_its_form(q, eps):
    """From ε = 30 on log(1 + (e^ε−1)/q) is ε − log q and a little less, never more."""
    with mp.workdps(60):
        mu, rate, g = mp.mpf(2) / mp.mpf(0.4), mp.mpf(q), mp.exp(mp.mpf(eps))
        inner = mp.log(1 + (g - 1) / rate)
        a, b = inner / mu - mu / 2, inner / mu + mu / 2
        exact = rate * (mp.erfc(a / mp.sqrt(2)) - mp.exp(inner) * mp.erfc(b / mp.sqrt(2))) / 2
        found = mp.mpf(FixedSizeGaussianStep(0.4, q).delta(eps))
        assert exact <= found <= exact * (1 + mp.mpf(10) ** -11)
