"""Rényi divergences near every edge, against many digits."""

import math
from functools import partial

import mpmath as mp
import numpy as np
import pytest

from curvedp.privacy import GDP, ZCDP, PureDP, RenyiDP, compose, convert
from curvedp.privacy.guarantees.conversions import randomized_response_renyi
from curvedp.privacy.guarantees.renyi import _log_h_at_one, renyi_epsilon, zcdp_epsilon


def randomized_response(eps, order):
    """D_α of randomized response from its two probabilities, with digits to lose."""
    with mp.workdps(200):
        e, a = mp.mpf(eps), mp.mpf(order)
        p, q = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
        return mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


ORDERS = [1 + 2.0**-k for k in (52, 51, 47, 40, 33, 20, 10, 3)] + [
    1.5,
    2.0,
    3.7,
    50.0,
    1e4,
    1e9,
]
EPS = [1e-40, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.99, 1.0, 1.01, 3.0, 30.0, 700.0]


@pytest.mark.parametrize("order", ORDERS)
def test_pure_to_renyi_is_never_below_and_close_above_at_every_order(order):
    """At order 1 + 1e-15 the difference of two products was once 2.3 % too small."""
    for eps in EPS:
        if order * eps > 1e6:
            continue
        truth = randomized_response(eps, order)
        found = mp.mpf(float(randomized_response_renyi(eps, order)))
        assert found >= truth * (1 - mp.mpf(10) ** -40), (eps, order)
        assert found <= truth * (1 + mp.mpf(10) ** -13) + mp.mpf(10) ** -320, (
            eps,
            order,
        )


def test_conversions_and_compositions_near_order_one_inherit_it():
    for order in ORDERS[:6]:
        truth = randomized_response(1e-3, order)
        assert mp.mpf(convert(PureDP(1e-3), to=RenyiDP, order=order).eps) >= truth
        both = compose(PureDP(1e-3), RenyiDP(order, 1e-9))
        assert mp.mpf(both.eps) >= truth + mp.mpf(1e-9)


def test_arrays_and_numbers_agree():
    eps = np.array([1e-8, 0.3, 2.0, 9.0])
    assert randomized_response_renyi(eps, 1.5).tolist() == [
        randomized_response_renyi(float(e), 1.5) for e in eps
    ]


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
            assert mp.mpf(float(renyi_epsilon(1e6, divergence, delta))) >= min(
                truth, mp.mpf(divergence)
            ) - mp.mpf(10) ** -40 or renyi_epsilon(1e6, divergence, delta) < float(
                truth
            ) * (1 - 1e-6)  # another bound may be lower


def test_gaussians_have_order_times_half_a_square():
    for mu in (1e-160, 1e-3, 0.7, 1e3):
        for order in ORDERS[:12]:
            found = convert(GDP(mu), to=RenyiDP, order=order).eps
            with mp.workdps(60):
                truth = mp.mpf(order) * mp.mpf(mu) ** 2 / 2
            assert (
                truth
                <= mp.mpf(found)
                <= truth * (1 + mp.mpf(10) ** -15) + mp.mpf(10) ** -320
            )


ULP = 1e-13


def above(found, truth, slack=ULP):
    """Rounded up, and by no more than the slack."""
    return truth * (1 - 1e-16) <= found <= truth * (1 + slack)


@pytest.mark.parametrize("eps", [1e-8, 0.3, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("order", [1.01, 2.0, 9.0])
def test_divergence_of_randomized_response(eps, order):
    with mp.workdps(60):
        e, a = mp.mpf(eps), mp.mpf(order)
        truth = mp.log(mp.cosh((a - 0.5) * e) / mp.cosh(e / 2)) / (a - 1)
        assert above(randomized_response_renyi(eps, order), float(truth), 1e-12)
        assert above(
            convert(PureDP(eps), to=RenyiDP, order=order).eps, float(truth), 1e-12
        )
        assert above(convert(PureDP(eps), to=ZCDP).rho, float(e * mp.tanh(e / 2)))


def test_corner_of_a_divergence():
    """δ ≥ 1/α: ε = ε_R + log(1 − δ)."""
    assert renyi_epsilon(4.0, 2.0, 0.5) <= 2.0 + math.log(0.5) + 1e-12
    assert renyi_epsilon(4.0, 2.0, 0.25) == pytest.approx(
        2.0 + math.log(0.75), abs=1e-9
    )
    assert renyi_epsilon(4.0, 2.0, 0.4) <= 2.0 + math.log(0.6) + 1e-12
    assert renyi_epsilon(4.0, 0.1, 0.5) == 0.0


@pytest.mark.parametrize(("order", "bound"), [(1.5, 0.1), (2.5, 1.0), (4.0, 2.0)])
def test_divergences_against_all_coins(order, bound):
    """δ at ε = ½: the largest p − e^½ q with D_order(p‖q) ≤ bound, by bisection for q on a grid of p."""
    p = np.linspace(1e-4, 1 - 1e-4, 20_001)
    low, high = np.full_like(p, 1e-12), p.copy()
    for _ in range(80):
        q = (low + high) / 2
        far = (
            np.log(
                p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
            )
            > (order - 1) * bound
        )
        low, high = np.where(far, q, low), np.where(far, high, q)
    truth = float(np.max(p - math.exp(0.5) * high))
    assert truth * (1 - 1e-6) <= RenyiDP(order, bound).delta(0.5) <= truth * (1 + 1e-4)


@pytest.mark.parametrize("order", [1.2, 2.0, 9.0])
@pytest.mark.parametrize("y", [1e-9, 0.01, 0.3, 2.0])
def test_touching_function_at_one(order, y):
    """log(1 − αu^{α−1} + (α−1)u^α), u = e^{−y}, on both sides of the switch to a series."""
    with mp.workdps(60):
        a, u = mp.mpf(order), mp.exp(-mp.mpf(y))
        truth = mp.log(1 - a * u ** (a - 1) + (a - 1) * u**a)
    assert float(_log_h_at_one(order, np.array(-y))) == pytest.approx(
        float(truth), rel=1e-12, abs=1e-11
    )


@pytest.mark.parametrize(("epsilon", "delta"), [
    (partial(zcdp_epsilon, 0.1), ZCDP(0.1).delta), (partial(zcdp_epsilon, 20.0), ZCDP(20.0).delta),
    (partial(renyi_epsilon, 3.0, 0.7), RenyiDP(3.0, 0.7).delta),
])  # fmt: skip
def test_delta_is_on_the_private_side_of_epsilon_and_close(epsilon, delta):
    eps = np.array([0.0, 1e-3, 0.4, 1.0, 3.0, 7.7, 15.0])
    found = delta(eps)
    assert np.all(epsilon(found) <= eps)  # as evaluated, to the last bit
    assert np.all(epsilon(found * (1 - 1e-11)) > eps)
    np.testing.assert_allclose([delta(float(e)) for e in eps], found, rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bound", [1e-6, 1e-3, 1.0])
def test_delta_is_not_below_that_of_a_coin_at_any_order(order, bound):
    """A coin p against 1 − p with D_order = bound. At order 1 + 2^-52 the claim was once half of the truth."""
    with mp.workdps(60):
        low, high = mp.mpf(0), mp.mpf(60)
        for _ in range(110):  # to 5e-32, far below the doubles that are asked
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if randomized_response(middle, order) <= bound
                else (low, middle)
            )
        p = 1 / (1 + mp.exp(-low))
        asked = [0.0, bound, 3 * bound]
        for eps, claimed in zip(
            asked, RenyiDP(order, bound).delta(np.array(asked)).tolist(), strict=True
        ):
            truth, found = p - mp.exp(mp.mpf(eps)) * (1 - p), mp.mpf(claimed)
            assert found >= truth
            if (
                order < 1.01 and bound < 1e-2
            ):  # small divergences of small orders: this coin is all but the worst
                assert found <= truth * (1 + 2 * mp.sqrt(bound))


@pytest.mark.parametrize("alpha", [1 + 2.0**-52, 1 + 1e-9, 1.01, 1.5, 3.0, 50.0, 1e4])
def test_the_series_near_one_against_60_digits(alpha):
    for y in np.array([0.4999, 0.3, 1e-2, 1e-6]) / alpha:
        with mp.workdps(80):
            a, u = mp.mpf(alpha), mp.exp(-mp.mpf(y))
            truth = float(mp.log(1 - a * u ** (a - 1) + (a - 1) * u**a))
        assert _log_h_at_one(alpha, np.array(-y)) == pytest.approx(
            truth, abs=4e-15, rel=4e-15
        )
