"""Composition: closed forms exactly; mixtures against exact oracles, never below, down to δ = 1e-30."""

import itertools
import json
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.special import expit, gammaln

from curvedp.errors import ParameterError
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Composition,
    PureDP,
    RaoDP,
    RenyiDP,
    compose,
    compose_profiles,
    convert,
    gaussian_profile,
)
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.privacy.guarantees.gaussian import gdp_delta


def gaussian(mu, eps):
    """δ_μ at any real ε."""
    eps = np.asarray(eps, float)
    delta = gdp_delta(mu, np.abs(eps))
    return np.where(eps < 0, -np.expm1(eps) + np.exp(eps) * delta, delta)


def test_closed_forms():
    assert compose(PureDP(0.5), PureDP(0.25)) == PureDP(0.75)
    assert compose([ApproxDP(0.5, 2**-20), ApproxDP(0.25, 2**-20)]) == ApproxDP(
        0.75, 2**-19
    )
    assert compose(ZCDP(0.5), ZCDP(0.25)) == ZCDP(0.75)
    assert compose(RenyiDP(3.0, 0.5), RenyiDP(3.0, 0.25)) == RenyiDP(3.0, 0.75)
    assert compose(RenyiDP(3.0, 0.5), RenyiDP(2.0, 0.25)) == RenyiDP(2.0, 0.75)
    assert compose(g for g in [GDP(3.0), GDP(4.0)]) == GDP(5.0)
    assert compose(RaoDP(3.0), RaoDP(4.0)) == RaoDP(5.0)
    assert compose(GDP(1.5)) == GDP(1.5)


def test_closed_forms_never_round_down():
    rng = np.random.default_rng(5)
    for _ in range(200):
        x = rng.uniform(1e-3, 1, 7)
        exact = [mp.mpf(float(v)) for v in x]
        with mp.workdps(50):
            assert mp.mpf(compose([GDP(v) for v in x]).mu) ** 2 >= mp.fsum(
                v * v for v in exact
            )
            assert mp.mpf(compose([PureDP(v) for v in x]).eps) >= mp.fsum(exact)
            assert compose([GDP(v) for v in x]).mu == pytest.approx(
                math.sqrt(float(np.sum(x * x))), rel=1e-15
            )


def test_hellinger_angles_compose_by_cosines_and_below_pythagoras():
    a, b = RaoDP(0.8, angle="hellinger"), RaoDP(1.1, angle="hellinger")
    both = compose(a, b)
    assert both.angle == "hellinger"
    assert math.cos(both.theta / 2) == pytest.approx(
        math.cos(0.4) * math.cos(0.55), rel=1e-14
    )
    assert both.theta < math.hypot(0.8, 1.1)
    assert compose(a, RaoDP(1.1)).theta == both.theta
    assert compose(a, RaoDP(math.pi, angle="hellinger")).theta == math.pi
    tiny = compose([RaoDP(1e-9, angle="hellinger")] * 4)
    assert tiny.theta == pytest.approx(2e-9, rel=1e-12)


def test_divergences_absorb_what_has_them():
    assert compose(GDP(1.0), ZCDP(0.25)) == ZCDP(0.75)
    mixed = compose(PureDP(0.5), GDP(1.0), RenyiDP(3.0, 0.2))
    expected = convert(PureDP(0.5), to=RenyiDP, order=3.0).eps + 1.5 + 0.2
    assert mixed.order == 3.0
    assert mixed.eps == pytest.approx(expected, rel=1e-14)


def test_refusals():
    for bad in (
        (),
        ([],),
        (GDP(1.0), 0.5),
        (0.5,),
        (GDP(1.0), GDP(1.0, adjacency="add-remove")),
    ):
        with pytest.raises((ParameterError, TypeError)):
            compose(*bad)
    with pytest.raises(ParameterError, match="guarantee nothing"):
        compose(GDP(1.7e308), GDP(1.7e308))
    with pytest.raises(ParameterError):
        Composition((GDP(1.0),), (0,))
    with pytest.raises(ParameterError):
        Composition((GDP(1.0),), (1, 2))
    with pytest.raises(ParameterError):
        Composition((GDP(1.0),), (1,), adjacency="add-remove")


EPS = np.concatenate([np.linspace(0, 3, 400), np.linspace(3, 9, 200)])


def check(found, truth, slack):
    keep = truth > 1e-35
    ratio = found[keep] / truth[keep]
    assert np.min(ratio) >= 1 - 1e-13
    assert np.max(ratio) < 1 + slack


def test_gaussian_with_randomized_response():
    mu, e0 = 0.7, 0.5
    p, q = expit(e0), expit(-e0)
    truth = p * gaussian(mu, EPS - e0) + q * gaussian(mu, EPS + e0)
    both = compose(GDP(mu), PureDP(e0))
    assert isinstance(both, Composition)
    check(both.delta(EPS), truth, 1e-4)
    assert both.epsilon(1e-6) < convert(both, to=GDP).epsilon(1e-6)


def test_gaussian_with_the_four_point_pair():
    mu, e0, d0 = 0.4, 0.3, 1e-9
    p, q = expit(e0), expit(-e0)
    truth = d0 + (1 - d0) * (p * gaussian(mu, EPS - e0) + q * gaussian(mu, EPS + e0))
    both = compose(GDP(mu), ApproxDP(e0, d0))
    check(both.delta(EPS), truth, 1e-4)
    assert both.epsilon(1e-10) == math.inf


@pytest.mark.parametrize("mu", [1e-3, 1e-2, 0.3, 30.0])
@pytest.mark.parametrize(
    "points",
    [
        [(0.5, 0.0)],
        [(3.0, 0.0)],
        [(1.0, 1e-6)],
        [(1.0, 1e-9), (0.05, 0.0)],
        [(40.0, 1e-6)],
    ],
)
def test_losses_in_heaps_that_lie_apart(points, mu):
    # Between heaps a tilt towards the upper one only magnified its own rounding: δ came out as 1, in the middle of a curve.
    parts = [ApproxDP(e, d) if d else PureDP(e) for e, d in points]
    heaps, infinite = (
        [(0.0, 1.0)],
        -math.expm1(math.fsum(math.log1p(-d) for _, d in points)),
    )
    for e, d in points:
        heaps = [
            (x + sign * e, p * (1 - d) * expit(sign * e))
            for x, p in heaps
            for sign in (1, -1)
        ]
    top = points[0][0]
    eps = np.sort(
        np.concatenate(
            [
                np.linspace(0, 1.5 * top, 40),
                top * (1 + np.array([-0.1, -0.01, -1e-3, 1e-3, 0.05])),
            ]
        )
    )
    truth = sum(p * gaussian(mu, eps - x) for x, p in heaps) + infinite
    both = compose(GDP(mu), *parts)
    found = both.delta(eps)
    check(found, truth, 2e-3 if top <= 1e4 * mu else 2e-2)  # one grid serves both
    assert np.all(np.diff(found) <= 1e-9 * found[1:])
    for delta in (0.3, 0.01):
        at = both.epsilon(delta)
        reached = sum(p * gaussian(mu, at - x) for x, p in heaps) + infinite
        assert delta * (1 - 2e-2) <= reached <= delta or at == 0


def test_many_randomized_responses_against_the_binomial():
    e0, k = 0.1, 100
    j = np.arange(k + 1)
    log_p = (
        gammaln(k + 1)
        - gammaln(j + 1)
        - gammaln(k - j + 1)
        + j * np.log(expit(e0))
        + (k - j) * np.log(expit(-e0))
    )
    loss = (2 * j - k) * e0
    truth = np.array(
        [np.sum(np.exp(log_p) * np.maximum(-np.expm1(e - loss), 0)) for e in EPS]
    )
    found = compose_profiles([PureDP(e0)] * k)
    ratio = found.delta(EPS[truth > 1e-30]) / truth[truth > 1e-30]
    assert np.min(ratio) >= 1 - 1e-12
    assert np.median(ratio) < 1.001


def test_a_profile_of_ours_composes():
    profile = gaussian_profile(1.0, 2, 1.0, 0.5)
    twice = compose(profile, profile)
    eps = np.linspace(0, 4, 21)
    assert np.all(twice.delta(eps) >= profile.delta(eps))
    assert np.all(
        twice.delta(eps) <= GDP(profile.mu * math.sqrt(2)).delta(eps) * (1 + 1e-3)
    )


def test_bounds_that_are_not_convex_stay_bounds():
    # A zCDP curve is a minimum over orders. The Gaussian with that ρ is one mechanism that must be covered.
    rho, e0, d0 = 0.2, 0.5, 1e-8
    mu = math.sqrt(2 * rho)
    truth = d0 + (1 - d0) * (
        expit(e0) * gaussian(mu, EPS - e0) + expit(-e0) * gaussian(mu, EPS + e0)
    )
    assert np.all(
        compose(ZCDP(rho), ApproxDP(e0, d0)).delta(EPS) >= truth * (1 - 1e-13)
    )


def test_rao_in_a_mixture_keeps_its_mass_at_infinity():
    both = compose(RaoDP(0.2), GDP(0.3))
    assert both.delta(30.0) >= math.sin(0.1) ** 2
    assert both.delta(30.0) < math.sin(0.1) ** 2 * 1.01
    pair = compose(RaoDP(0.2), ApproxDP(0.3, 1e-3))
    assert np.all(pair.delta(EPS) >= RaoDP(0.2).delta(EPS))


def test_random_points_never_below_the_truth():
    rng = np.random.default_rng(6)
    for _ in range(4):
        mu, e0 = rng.uniform(0.05, 2), rng.uniform(0.05, 2)
        eps = rng.uniform(0, 8, 2500)
        truth = expit(e0) * gaussian(mu, eps - e0) + expit(-e0) * gaussian(mu, eps + e0)
        found = compose(GDP(mu), PureDP(e0)).delta(eps)
        keep = truth > 1e-35
        assert np.all(found[keep] >= truth[keep] * (1 - 1e-13))
        assert np.all(found[keep] <= truth[keep] * 1.01)


def test_rounding_losses_to_the_nearest_bin_would_be_caught():
    """The common shortcut, mass to the nearest bin, falls below the truth: the oracle above can tell."""
    mu, width = 0.7, 0.05
    edges = (np.arange(-400, 401) - 0.5) * width
    below = 0.5 * np.array(
        [math.erfc(-(e - mu * mu / 2) / mu / math.sqrt(2)) for e in edges]
    )
    p, loss = np.diff(below), np.arange(-400, 400) * width
    naive = np.array([np.sum(p * np.maximum(-np.expm1(e - loss), 0)) for e in EPS])
    truth = gaussian(mu, EPS)
    assert np.any(naive[truth > 1e-12] < truth[truth > 1e-12] * (1 - 1e-6))


def test_compositions_are_values():
    both = compose(GDP(0.5), PureDP(0.5))
    assert both == compose(GDP(0.5), PureDP(0.5))
    again = guarantee_from_dict(json.loads(json.dumps(both.to_dict())))
    assert again.delta(1.0) == both.delta(1.0)
    more = compose(both, PureDP(0.5), GDP(1.2))
    assert more.parts == (GDP(1.3), PureDP(0.5))
    assert more.counts == (1, 2)


# ---- filters: guarantees chosen after seeing outputs


def test_composition_is_not_a_filter():
    """Two steps that a rule "go on while δ(ε) of what was spent stays within the budget" lets through, and their true δ.

    First randomized response with losses ±a. After +a, a pure release whose loss ends below ε + a, so all its δ counts in
    this branch; after −a, one that fails altogether with probability δ. Each pair is within (ε, δ); the interaction is not.
    """
    eps, delta, a = 1.0, 1e-3, 0.2
    p = expit(a)
    first, failing = PureDP(a), ApproxDP(1e-6, delta * (1 - 1e-3))
    bold = PureDP(
        float(np.log((delta * 0.999 / p + np.exp(eps - a)) / (1 - delta * 0.999 / p)))
    )
    for second in (bold, failing):
        assert (
            compose_profiles([first, second]).delta(eps) <= delta
        )  # a rule of this kind would let it through
    pairs = [  # (P, Q) of every outcome of the interaction
        *(
            ((p * x), (1 - p) * y)
            for x, y in (
                (expit(bold.eps), expit(-bold.eps)),
                (expit(-bold.eps), expit(bold.eps)),
            )
        ),
        ((1 - p) * failing.delta0, 0.0),
        ((1 - p) * (1 - failing.delta0), p),
    ]
    assert sum(x for x, _ in pairs) == pytest.approx(1.0)
    true = sum(max(x - math.exp(eps) * y, 0.0) for x, y in pairs)
    assert true > 1.4 * delta


def _game(budget, eps, price, steps=6):
    """The largest E_P(1 − e^{ε−L})₊ of an adversary who sees each loss and then decides: stop, a Gaussian or randomized
    response of one, two or more of `steps` equal parts of μ². Backward induction over the loss; `price` is what μ² costs."""
    h = 0.005
    loss = np.arange(-14.0, 16.0, h)
    payoff = np.maximum(-np.expm1(np.minimum(eps - loss, 0.0)), 0.0)
    value = [payoff]
    for left in range(1, steps + 1):
        best = payoff
        for parts in range(1, left + 1):
            square = parts * budget**2 / steps / price
            mu = math.sqrt(square)
            after = value[left - parts]
            reach = math.ceil((9 * mu + square) / h)
            step = np.exp(
                -((np.arange(-reach, reach + 1) * h - square / 2) ** 2) / (2 * square)
            )
            gauss = np.convolve(
                np.pad(after, reach, mode="edge"), step[::-1] / step.sum(), mode="valid"
            )
            e = 2 * math.atanh(
                math.erf(mu / math.sqrt(8))
            )  # randomized response that is exactly μ-GDP
            both = expit(e) * np.interp(loss + e, loss, after) + expit(-e) * np.interp(
                loss - e, loss, after
            )
            best = np.maximum(best, np.maximum(gauss, both))
        value.append(best)
    return float(np.interp(0.0, loss, value[-1]))


@pytest.mark.parametrize("budget", [0.5, 1.5])
@pytest.mark.parametrize("eps", [0.0, 0.7, 3.0])
def test_the_gaussian_filter_withstands_an_adaptive_adversary(budget, eps):
    """Smith and Thakurta 2022: Σμ² ≤ B² stays B-GDP. The best strategy reaches δ_B(ε) and not more; at a price of 0.9 per μ²
    the same adversary would pass it."""
    truth = float(gdp_delta(budget, eps))
    assert truth * (1 - 1e-3) <= _game(budget, eps, 1.0) <= truth * (1 + 2e-3) + 1e-9
    assert _game(budget, eps, 0.9) > truth * 1.02


def test_compositions_take_each_part_as_often_as_it_is_used():
    both = Composition((PureDP(0.5), GDP(0.3)), (3, 1))
    assert convert(both, to=ZCDP).rho == pytest.approx(
        3 * 0.5 * math.tanh(0.25) + 0.045, rel=1e-12
    )
    mixed = compose(RaoDP(0.3, angle="hellinger"), RaoDP(0.4))
    assert math.cos(mixed.theta / 2) == pytest.approx(
        math.cos(0.15) * math.cos(0.2), rel=1e-14
    )
    assert compose(PureDP(0.1), PureDP(0.2)).eps == math.nextafter(0.3, 1.0)


def test_sums_are_rounded_up_once():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.random(7).tolist()
        total = compose([PureDP(v) for v in values]).eps
        exact = sum(map(Fraction, values))
        assert Fraction(math.nextafter(total, 0)) < exact <= Fraction(total)
        exact = sum(Fraction(v) ** 2 for v in values)
        root = compose([GDP(v) for v in values]).mu
        assert Fraction(math.nextafter(root, 0)) ** 2 < exact <= Fraction(root) ** 2
    assert compose(PureDP(0.5), PureDP(0.25)).eps == 0.75
    assert compose(GDP(3.0), GDP(4.0)).mu == 5.0


def test_divergences_of_independent_parts_add_up():
    """D_α of N(0, 1) against N(μ, 1) is αμ²/2, and that of a product is the sum."""
    both = Composition((PureDP(0.5), GDP(0.3)), (3, 2))
    pure = math.log(
        math.exp(0.5) * expit(0.5) + math.exp(-0.5) * expit(-0.5)
    )  # of order 2: Σ p²/q of two points
    assert both.implied_renyi(2.0) == pytest.approx(3 * pure + 2 * 0.3**2, rel=1e-12)


@pytest.mark.parametrize(("eps0", "delta0", "count"), [(1.0, 0.5, 2), (0.1, 0.4, 3)])
def test_deltas_that_add_up_to_one_and_more_still_compose(eps0, delta0, count):
    """(ε, ½) twice was refused: the sum of δ's says nothing, but the profiles do.

    Oracle: all outcomes of the four-point pair that attains (ε₀, δ₀), enumerated.
    """
    both = compose([ApproxDP(eps0, delta0)] * count)
    high = (1 - delta0) * math.exp(eps0) / (1 + math.exp(eps0))
    low = (1 - delta0) / (1 + math.exp(eps0))
    first = [delta0, high, low, 0.0]
    second = [0.0, low, high, delta0]
    outcomes = list(itertools.product(range(4), repeat=count))
    p = np.array([math.prod(first[i] for i in outcome) for outcome in outcomes])
    q = np.array([math.prod(second[i] for i in outcome) for outcome in outcomes])
    for eps in (0.0, 0.5 * eps0, eps0, 1.5 * eps0, count * eps0, 9.0):
        exact = np.maximum(p - math.exp(eps) * q, 0.0).sum()
        assert exact * (1 - 1e-12) <= both.delta(eps) <= exact * (1 + 1e-5)
    assert both.delta(math.inf) == pytest.approx(1 - (1 - delta0) ** count, rel=1e-9)
    assert compose_profiles([ApproxDP(eps0, delta0)] * count) == both


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-8, 1e6, 1e10, 1e100, 1e308])
@pytest.mark.parametrize(
    "kind", [PureDP, lambda eps: ApproxDP(eps, 1e-6), GDP, ZCDP, RaoDP]
)
def test_mixtures_with_extreme_parts_have_an_upper_bound(kind, value):
    """Widths of grids under- and overflowed, and Python's own exceptions came out."""
    part, other = kind(value), ApproxDP(0.5, 1e-7)
    both = compose_profiles([part, other])
    for eps in (0.0, 1.0):
        larger = max(float(part.delta(eps)), float(other.delta(eps)))
        assert larger <= both.delta(eps) <= 1.0
