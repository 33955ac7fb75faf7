"""Small tests that mutants of the accounting were found to survive without, or that kill many of them at once."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Composition,
    PureDP,
    RaoDP,
    RenyiDP,
    compose,
    convert,
    gaussian_profile,
    laplace_profile,
)
from curvedp.privacy.rao import hellinger_from_affinity, rao_delta, rao_epsilon, rao_tradeoff
from curvedp.privacy.renyi import _log_h_at_one, pure_renyi, renyi_epsilon

ULP = 1e-13


def above(found, truth, slack=ULP):
    """Rounded up, and by no more than the slack."""
    return truth * (1 - 1e-16) <= found <= truth * (1 + slack)


@pytest.mark.parametrize("guarantee", [ZCDP(600.0), RenyiDP(4.0, 690.0)])
def test_tradeoff_where_powers_of_e_overflow(guarantee):
    beta = guarantee.tradeoff(np.array([0.0, 1e-300, 0.5, 1.0]))
    assert np.all(np.isfinite(beta))
    assert np.all(np.diff(beta) <= 0)


@pytest.mark.parametrize("to", [GDP, ZCDP, RenyiDP, RaoDP, ApproxDP])
@pytest.mark.parametrize("source", [PureDP, GDP, ZCDP])
def test_every_conversion_keeps_the_adjacency(source, to):
    if (source, to) == (ZCDP, GDP):
        pytest.skip("impossible")
    options = {RenyiDP: {"order": 2.0}, ApproxDP: {"delta": 1e-3}}.get(to, {})
    assert convert(source(0.5, adjacency="add-remove"), to=to, **options).adjacency == "add-remove"


@pytest.mark.parametrize("eps", [1e-9, 0.5, 1.9, 2.1, 30.0])
def test_angles_in_closed_form(eps):
    with mp.workdps(50):
        e = mp.mpf(eps)
        truth = {
            PureDP(eps): 1 / mp.cosh(e / 2),
            ApproxDP(eps, 0.01): (1 - mp.mpf(0.01)) / mp.cosh(e / 2),
            GDP(eps): mp.exp(-e * e / 8),
            ZCDP(eps): mp.exp(-e / 2),
            RenyiDP(3.0, eps): mp.exp(-e / 2),
        }
        for guarantee, affinity in truth.items():
            angle = convert(guarantee, to=RaoDP)
            assert angle.angle == "hellinger"
            assert above(angle.theta, float(2 * mp.acos(affinity)), 1e-12)
    assert convert(RaoDP(4.0), to=RaoDP) == RaoDP(math.pi, angle="hellinger")


@pytest.mark.parametrize("eps", [1e-8, 0.3, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("order", [1.01, 2.0, 9.0])
def test_divergence_of_randomised_response(eps, order):
    with mp.workdps(60):
        e, a = mp.mpf(eps), mp.mpf(order)
        truth = mp.log(mp.cosh((a - 0.5) * e) / mp.cosh(e / 2)) / (a - 1)
        assert above(pure_renyi(eps, order), float(truth), 1e-12)
        assert above(convert(PureDP(eps), to=RenyiDP, order=order).eps, float(truth), 1e-12)
        assert above(convert(PureDP(eps), to=ZCDP).rho, float(e * mp.tanh(e / 2)))


def test_half_squares_are_exact_or_next_above():
    assert convert(GDP(1.5), to=ZCDP).rho == 1.125
    for mu in np.random.default_rng(0).uniform(0.1, 3, 50):
        rho = convert(GDP(mu), to=ZCDP).rho
        assert 2 * Fraction(math.nextafter(rho, 0.0)) < Fraction(mu) ** 2 <= 2 * Fraction(rho)
    assert convert(GDP(2.0), to=RenyiDP, order=3.0).eps == pytest.approx(6.0, rel=1e-14)
    assert convert(ZCDP(0.25), to=RenyiDP, order=8.0).eps == pytest.approx(2.0, rel=1e-14)
    assert convert(RenyiDP(4.0, 0.5), to=RenyiDP, order=4.0) == RenyiDP(4.0, 0.5)


def test_zero_is_no_parameter():
    assert convert(PureDP(1.0), to=ApproxDP, eps=2.0) == ApproxDP(2.0, 5e-324)
    assert convert(GDP(0.1), to=ApproxDP, delta=0.5) == ApproxDP(5e-324, 0.5)


def test_compositions_take_each_part_as_often_as_it_is_used():
    both = Composition((PureDP(0.5), GDP(0.3)), (3, 1))
    assert convert(both, to=ZCDP).rho == pytest.approx(3 * 0.5 * math.tanh(0.25) + 0.045, rel=1e-12)
    mixed = compose(RaoDP(0.3, angle="hellinger"), RaoDP(0.4))
    assert math.cos(mixed.theta / 2) == pytest.approx(math.cos(0.15) * math.cos(0.2), rel=1e-14)
    assert compose(PureDP(0.1), PureDP(0.2)).eps == math.nextafter(0.3, 1.0)
    with pytest.raises(ParameterError):
        compose([ApproxDP(0.1, 0.5), ApproxDP(0.1, 0.5)])


@pytest.mark.parametrize("theta", [1e-7, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.7, 6.0])
def test_rao_curves(theta, eps):
    with mp.workdps(60):
        s2, g = mp.sin(mp.mpf(theta) / 2) ** 2, mp.exp(mp.mpf(eps))
        truth = (1 - g + mp.sqrt((g - 1) ** 2 + 4 * g * s2)) / 2
        found = rao_delta(theta, eps)
        assert above(found, float(truth))
        assert float(1 - s2) * (1 - 1e-12) <= rao_tradeoff(theta, 0.0) <= float(1 - s2)
        turned = mp.asin(mp.sqrt(mp.mpf(0.25))) + mp.mpf(theta) / 2
        expected = float(mp.cos(turned) ** 2) if turned < mp.pi / 2 else 0.0
        assert rao_tradeoff(theta, 0.25) == pytest.approx(expected, rel=1e-12, abs=1e-30)
    if eps > 0.1:
        middle = float(s2) + (float(mp.sin(mp.mpf(theta) / 2)) - float(s2)) / 3  # between sin² and sin
        back = rao_epsilon(theta, middle)
        assert back > 0
        assert rao_delta(theta, back) == pytest.approx(middle, rel=1e-9)
        assert rao_delta(theta, back) <= middle * (1 + 4e-15)


def test_rao_ends():
    assert rao_delta(math.pi, 3.0) == 1.0 == rao_delta(4.0, 0.0)
    assert rao_epsilon(math.pi, 0.5) == math.inf == rao_epsilon(1.0, math.sin(0.5) ** 2)
    assert rao_epsilon(1.0, 0.6) == 0.0  # above sin(1/2): no ε is needed
    for x in (1e-20, 1e-3, 1.0, 800.0):
        with mp.workdps(60):
            assert above(hellinger_from_affinity(x), float(2 * mp.acos(mp.exp(-mp.mpf(x)))))


@pytest.mark.parametrize("eps0", [1e-6, 0.8, 5.0, 60.0])
def test_randomised_response_there_and_back(eps0):
    pure, approx = PureDP(eps0), ApproxDP(eps0, 0.125)
    with mp.workdps(60):
        for share in (0.0, 0.3, 0.9):
            eps = share * eps0
            e0, e = mp.exp(mp.mpf(eps0)), mp.exp(mp.mpf(eps))
            truth = (e0 - e) / (1 + e0)
            assert above(pure.delta(eps), float(truth), 1e-12)
            assert above(approx.delta(eps), float(mp.mpf(1) / 8 + 7 * truth / 8), 1e-12)
            if pure.delta(eps) < 1:
                assert pure.epsilon(pure.delta(eps)) == pytest.approx(eps, rel=1e-9, abs=1e-14)
    assert pure.delta(eps0) == 0.0
    assert pure.epsilon(5e-324) == eps0
    assert approx.epsilon(0.124) == math.inf
    assert approx.epsilon(0.125) == eps0
    assert approx.delta(2 * eps0) == 0.125
    assert pure.tradeoff(0.0) == 1.0


@pytest.mark.parametrize("bad", [True, "1", b"1", None, 1j, [None], [True], float("nan"), [0.1, float("nan")]])
def test_what_is_no_number_is_refused(bad):
    for ask in (GDP(1.0).delta, GDP(1.0).epsilon, GDP(1.0).tradeoff):
        with pytest.raises(ParameterError):
            ask(bad)
    assert isinstance(GDP(1.0).delta(1), float)
    assert GDP(1.0).delta([1.0]).shape == (1,)


def test_corner_of_a_divergence():
    """δ ≥ 1/α: ε = ε_R + log(1 − δ)."""
    assert renyi_epsilon(4.0, 2.0, 0.5) <= 2.0 + math.log(0.5) + 1e-12
    assert renyi_epsilon(4.0, 2.0, 0.25) == pytest.approx(2.0 + math.log(0.75), abs=1e-9)
    assert renyi_epsilon(4.0, 2.0, 0.4) <= 2.0 + math.log(0.6) + 1e-12
    assert renyi_epsilon(4.0, 0.1, 0.5) == 0.0


def test_a_profile_without_any_divergence_implies_no_zcdp(monkeypatch):
    profile = gaussian_profile(0.0, 1, 1.0, 1.0)
    for name in ("mu", "pure_epsilon"):
        monkeypatch.setattr(type(profile), name, math.inf)
    for to in (ZCDP, GDP, PureDP):
        with pytest.raises(UnattainableGuarantee):
            convert(profile, to=to)


@pytest.mark.parametrize("guarantee", [ZCDP(0.5), RenyiDP(3.0, 0.4)])
def test_curves_of_divergences(guarantee):
    eps = np.array([0.0, 1.0])
    delta, grid = guarantee.delta(eps), guarantee.grid_delta(eps)
    assert np.all(grid >= delta * (1 - 1e-9))
    assert np.all(grid <= delta * 1.002)
    alpha = np.array([0.02, 0.3, 0.8])
    gaussian = GDP(1.0) if isinstance(guarantee, ZCDP) else GDP(math.sqrt(0.8 / 3))  # one mechanism that has it
    beta = guarantee.tradeoff(alpha)
    assert np.all(beta <= gaussian.tradeoff(alpha))
    assert np.all(beta >= np.max(1 - delta - np.exp(eps) * alpha[:, None], axis=1) - 0.01)
    for bad in (-0.1, 1.1, [0.5, 2.0]):
        with pytest.raises(ParameterError):
            guarantee.tradeoff(bad)


@pytest.mark.parametrize(("order", "bound"), [(1.5, 0.1), (2.5, 1.0), (4.0, 2.0)])
def test_divergences_against_all_coins(order, bound):
    """δ at ε = ½: the largest p − e^½ q with D_order(p‖q) ≤ bound, by bisection for q on a grid of p."""
    p = np.linspace(1e-4, 1 - 1e-4, 20_001)
    low, high = np.full_like(p, 1e-12), p.copy()
    for _ in range(80):
        q = (low + high) / 2
        far = np.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) > (order - 1) * bound
        low, high = np.where(far, q, low), np.where(far, high, q)
    truth = float(np.max(p - math.exp(0.5) * high))
    assert truth * (1 - 1e-6) <= RenyiDP(order, bound).delta(0.5) <= truth * (1 + 1e-4)


def test_a_bounded_loss_is_used_where_it_is_better():
    profile = laplace_profile(0.0, 1, 1.0, 0.5)
    assert convert(profile, to=ZCDP).rho <= 0.5 * math.tanh(0.25) * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.2, 2.0, 9.0])
@pytest.mark.parametrize("y", [1e-9, 0.01, 0.3, 2.0])
def test_touching_function_at_one(order, y):
    """log(1 − αu^{α−1} + (α−1)u^α), u = e^{−y}, on both sides of the switch to a series."""
    with mp.workdps(60):
        a, u = mp.mpf(order), mp.exp(-mp.mpf(y))
        truth = mp.log(1 - a * u ** (a - 1) + (a - 1) * u**a)
    assert float(_log_h_at_one(order, np.array(-y))) == pytest.approx(float(truth), rel=1e-12, abs=1e-11)
