"""Rényi divergences near every edge, against many digits."""

import mpmath as mp
import numpy as np
import pytest

from curvedp.privacy import GDP, PureDP, RenyiDP, compose, convert
from curvedp.privacy.renyi import pure_renyi, renyi_epsilon


def randomised_response(eps, order):
    """D_α of randomised response from its two probabilities, with digits to lose."""
    with mp.workdps(200):
        e, a = mp.mpf(eps), mp.mpf(order)
        p, q = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
        return mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


ORDERS = [1 + 2.0**-k for k in (52, 51, 47, 40, 33, 20, 10, 3)] + [1.5, 2.0, 3.7, 50.0, 1e4, 1e9]
EPS = [1e-40, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.99, 1.0, 1.01, 3.0, 30.0, 700.0]


@pytest.mark.parametrize("order", ORDERS)
def test_pure_to_renyi_is_never_below_and_close_above_at_every_order(order):
    """At order 1 + 1e-15 the difference of two products was once 2.3 % too small."""
    for eps in EPS:
        if order * eps > 1e6:
            continue
        truth = randomised_response(eps, order)
        found = mp.mpf(float(pure_renyi(eps, order)))
        assert found >= truth * (1 - mp.mpf(10) ** -40), (eps, order)
        assert found <= truth * (1 + mp.mpf(10) ** -13) + mp.mpf(10) ** -320, (eps, order)


def test_conversions_and_compositions_near_order_one_inherit_it():
    for order in ORDERS[:6]:
        truth = randomised_response(1e-3, order)
        assert mp.mpf(convert(PureDP(1e-3), to=RenyiDP, order=order).eps) >= truth
        both = compose(PureDP(1e-3), RenyiDP(order, 1e-9))
        assert mp.mpf(both.eps) >= truth + mp.mpf(1e-9)


def test_arrays_and_numbers_agree():
    eps = np.array([1e-8, 0.3, 2.0, 9.0])
    assert pure_renyi(eps, 1.5).tolist() == [pure_renyi(float(e), 1.5) for e in eps]


def test_the_corner_is_rounded_up_where_its_terms_cancel():
    """δ ≥ 1/α: ε = ε_R + log(1 − δ), close to 0 for δ close to 1 − e^{−ε_R}."""
    rng = np.random.default_rng(1)
    for divergence in (1.0, 8.0, 30.0, 36.0):
        for _ in range(200):
            delta = float(-np.expm1(-divergence * rng.uniform(0.5, 1.0)))
            if delta < 0.5 or delta >= 1:
                continue
            with mp.workdps(60):
                truth = mp.mpf(divergence) + mp.log1p(-mp.mpf(delta))
            assert mp.mpf(float(renyi_epsilon(1e6, divergence, delta))) >= min(truth, mp.mpf(divergence)) - mp.mpf(
                10
            ) ** -40 or renyi_epsilon(1e6, divergence, delta) < float(truth) * (1 - 1e-6)  # another bound may be lower


def test_gaussians_have_order_times_half_a_square():
    for mu in (1e-160, 1e-3, 0.7, 1e3):
        for order in ORDERS[:12]:
            found = convert(GDP(mu), to=RenyiDP, order=order).eps
            with mp.workdps(60):
                truth = mp.mpf(order) * mp.mpf(mu) ** 2 / 2
            assert truth <= mp.mpf(found) <= truth * (1 + mp.mpf(10) ** -15) + mp.mpf(10) ** -320
