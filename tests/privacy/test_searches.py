"""Searches, certificates, estimates and exact arithmetic of the accounting, part by part, against direct computation."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy import stats

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    RenyiDP,
    calibrate,
    compose,
    gaussian_profile,
    laplace_profile,
    product_profile,
    spd2_gaussian_profile,
    subsampled_gaussian,
)
from curvedp.privacy import _ball_functions as balls
from curvedp.privacy import _split_search as split
from curvedp.privacy.calibrate import (
    _bisect,
    _equal_mu,
    _excess,
    _first_guess,
    _least_cost,
    _secant,
    meets,
    smallest_scale,
)
from curvedp.privacy.certify import _Certifier, _float, _outward
from curvedp.privacy.gaussian import gdp_delta, gdp_log_delta, gdp_mu
from curvedp.privacy.rao import hellinger_from_affinity, rao_delta, rao_epsilon, rao_tradeoff
from curvedp.privacy.renyi import pure_renyi, renyi_delta, renyi_epsilon, zcdp_delta, zcdp_epsilon
from curvedp.privacy.spd_confidence import ConfidenceProfile, positive_parts, spd_confidence_profile, weyl_net
from curvedp.privacy.subsampled import FixedSizeGaussianStep, PoissonGaussianStep, _gaussian
from reproductions.gdp.algorithms import _max_mu, algorithm1_estimate, algorithm2_estimate, loss_sampler
from reproductions.gdp.circle import circle_gaussian_delta, circle_gaussian_delta_printed
from reproductions.rao.mechanisms import bernoulli_distance, exponential_distance, gaussian_distance, poisson_distance

# ---- certificates


@pytest.mark.parametrize("m", range(7))
def test_integrals_of_powers_of_the_sine(m):
    with mp.workdps(30), ctx.workprec(128):
        for phi in (0.2, 1.2, 2.0, 3.0):
            x, y = mp.cos(mp.mpf(phi) / 2) ** 2, mp.sin(mp.mpf(phi) / 2) ** 2
            truth = float(mp.quad(lambda t: mp.sin(t) ** m, [phi, mp.pi]))
            for analytic in (True, False):
                found = balls.sine_integral(m, acb(str(x)), acb(str(y)), analytic)
                assert float(found.real) == pytest.approx(truth, rel=1e-13)
    for k, sn, ct in (
        (0, 0.7, 1 / 0.7),
        (1, math.sin(0.7), 1 / math.tan(0.7)),
        (-1, math.sinh(0.7), 1 / math.tanh(0.7)),
    ):
        assert float(balls.sn(k, acb(0.7)).real) == pytest.approx(sn, rel=1e-14)
        assert float(balls.ct(k, arb(0.7))) == pytest.approx(ct, rel=1e-14)


def test_gaussian_pieces_in_balls():
    with mp.workdps(40), ctx.workprec(160):
        for x in (-8.0, 0.0, 3.0):
            assert float(balls.phi(arb(x))) == pytest.approx(float(mp.ncdf(x)), rel=1e-14)
        for eps, z in ((0.0, 0.5), (3.0, 5.0), (4.5e4, 300.0), (2e12, 2e6), (0.5e12, 1e6)):
            tail = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
            truth = mp.exp(mp.mpf(eps)) * tail
            found = balls.lifted_tail(arb(eps), arb(z))
            assert float(found) == pytest.approx(float(truth), rel=1e-9)
            assert float(found.rad()) < 1e-10 * float(found)
        for mu, eps in ((0.5, 0.0), (2.0, 1.3)):
            value, slope = balls.gdp_ball(arb(mu), arb(eps))
            truth = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-eps / mu - mu / 2)
            assert float(value) == pytest.approx(float(truth), rel=1e-13)
            derivative = mp.diff(
                lambda u, m=mu: mp.ncdf(m / 2 - mp.log(u) / m) - u * mp.ncdf(-mp.log(u) / m - m / 2), mp.exp(eps)
            )
            assert float(slope) == pytest.approx(float(derivative), rel=1e-12)
            lower = balls.mu_lower(value, eps)
            assert mu * (1 - 1e-14) < lower <= mu
        high = balls.mu_lower(balls.gdp_ball(arb(9.5), arb(0.2))[0], 0.2)
        assert high == pytest.approx(9.5, rel=1e-12)


def test_enclosures_are_rounded_outward():
    for x in (0.3, 1e-200, 0.999999999):
        low, high = _outward(arb(x))
        assert low < x * (1 - 2.9e-9)
        assert x * (1 + 2.9e-9) < high or high == 1.0
        assert high - low < 6.1e-9 * x + 1e-300 or high == 1.0
    assert _outward(arb(0.5, 0.1))[0] == pytest.approx(0.4, rel=1e-8)
    assert _outward(arb(0.5, 0.1))[1] == pytest.approx(0.6, rel=1e-8)
    assert _outward(arb(0))[0] == 0.0
    assert _float(arb(0.1), 1) == math.nextafter(0.1, 1)
    assert _float(arb(0.1), -1) == math.nextafter(0.1, -1)


@pytest.mark.parametrize(
    ("make", "curvature", "dim", "scale", "D"),
    [
        (gaussian_profile, 1.0, 3, 0.7, 1.0),
        (gaussian_profile, -1.0, 2, 1.0, 1.5),
        (gaussian_profile, 4.0, 2, 0.5, 0.6),
        (laplace_profile, 1.0, 2, 0.5, 2.0),
        (laplace_profile, 0.0, 3, 1.0, 1.0),
        (laplace_profile, -1.0, 2, 0.4, 0.5),
    ],
)
def test_certified_probabilities_are_complements_and_agree_with_floats(make, curvature, dim, scale, D):
    profile = make(curvature, dim, scale, D)
    certifier, law = _Certifier(profile), profile.tails
    s, distance = certifier._units()
    root = math.sqrt(abs(curvature)) or 1.0
    assert (float(s), float(distance)) == pytest.approx((scale * root, D * root), rel=1e-14)
    for t in (0.0, 0.4 * law.loss_scale, min(1.5 * law.loss_scale, 0.9 * law.max_loss)):
        with ctx.workprec(96):
            above = certifier._probability(law, s, distance, arb(t), 0.0, 1e-12, upper=True)
            below = certifier._probability(law, s, distance, arb(t), 0.0, 1e-12, upper=False)
            other = certifier._probability(law, s, distance, arb(-t), 0.0, 1e-12, upper=False)
        assert float(above + below) == pytest.approx(1.0, abs=1e-9)
        assert float(above) == pytest.approx(float(np.exp(law.log_tails(np.array([t]))[0][0])), rel=1e-9)
        assert float(other) == pytest.approx(float(np.exp(profile._table.log_second(np.array([t]))[0])), rel=1e-6)
        start, end = certifier._window(law, 60.0)
        assert start <= max(law.mode - law.width, 0.0)
        assert end >= law.mode + law.width or end == math.pi
        for edge in (start, end):
            if 0 < edge < math.pi or (certifier.k != 1 and edge > 0):
                fall = float(law.log_rho(np.array([edge - law.mode]))[0])
                assert -110 < fall <= -60
    cap = law.max_loss
    if math.isfinite(cap):
        assert certifier._beyond_cap(cap * (1 + 1e-9))
        assert not certifier._beyond_cap(cap * (1 - 1e-9))
        assert certifier.delta(cap * 1.01) == 0
    else:
        assert not certifier._beyond_cap(1e9)
    ball = certifier.delta(0.1)
    assert certifier.delta(0.1) is ball
    assert ball.rad() < 2e-8 * ball
    assert ctx.prec == 53


@pytest.mark.parametrize(("s", "D"), [(0.4, 1.0), (2.0, 3.0)])
def test_the_circle_certified_against_direct_sums(s, D):
    with mp.workdps(30):
        for make, weight in (
            (gaussian_profile, lambda y: mp.exp(-y * y / (2 * mp.mpf(s) ** 2))),
            (laplace_profile, lambda y: mp.exp(-abs(y) / mp.mpf(s))),
        ):
            profile = make(1.0, 1, s, D)
            certifier = _Certifier(profile)
            mass = mp.quad(weight, [-mp.pi, 0, mp.pi])
            for eps in (0.0, 0.3 * profile.pure_epsilon):
                found = certifier.delta(eps)

                def gap(y, eps=eps, weight=weight):
                    other = abs(y - D)
                    return max(weight(y) - mp.exp(eps) * weight(min(other, 2 * mp.pi - other)), mp.mpf(0))

                y_a = (D * D - 2 * s * s * eps) / (2 * D) if make is gaussian_profile else (D - s * eps) / 2
                far = 2 * math.pi - D
                r_b = (
                    (far * far - 2 * s * s * eps) / (2 * far)
                    if make is gaussian_profile
                    else math.pi - (D + s * eps) / 2
                )
                marks = sorted({-math.pi, -r_b, D - math.pi, 0.0, y_a, D, math.pi})
                assert float(found) == pytest.approx(float(mp.quad(gap, marks) / mass), rel=1e-8)
    assert circle_gaussian_delta_printed(2.0, D, 0.1) != pytest.approx(circle_gaussian_delta(2.0, D, 0.1), rel=1e-6)


# ---- calibration


def test_meeting_a_target():
    profile = gaussian_profile(0.0, 3, 2.0, 1.0)
    for target, cost in (
        (GDP, profile.mu),
        (ZCDP, profile.rho),
        (RaoDP, profile.rao),
        (lambda x: RenyiDP(4.0, x), profile.renyi(4.0)),
        (lambda x: ApproxDP(0.3, x), profile.delta(0.3)),
    ):
        assert meets(profile, target(cost))
        assert not meets(profile, target(math.nextafter(cost, 0.0)))
    assert not meets(profile, PureDP(1e9))
    assert meets(laplace_profile(0.0, 1, 1.0, 1.0), PureDP(laplace_profile(0.0, 1, 1.0, 1.0).pure_epsilon))
    assert not meets(profile, GDP(9.0, adjacency="add-remove"))
    for bad in ((GDP(1.0), GDP(1.0)), (profile, 1.0), (None, GDP(1.0))):
        with pytest.raises(ParameterError):
            meets(*bad)
    confidence = ConfidenceProfile((0.0,), (0.5,), 0.01, 10)
    assert meets(confidence, confidence)
    assert not meets(confidence, GDP(99.0))
    with pytest.raises(ParameterError, match="confidence"):
        smallest_scale(lambda s: confidence, GDP(1.0), 1.0)
    with pytest.raises(ParameterError):
        calibrate("gaussian", 0.0, 2, 1.0, 0.5)


GUESSES = [
    ("gaussian", 1.0, 3, 0.5, GDP(0.4)),
    ("gaussian", -1.0, 2, 0.2, GDP(0.4)),
    ("gaussian", -1.0, 2, 0.2, RenyiDP(5.0, 0.3)),
    ("laplace", 1.0, 2, 0.3, GDP(0.4)),
    ("laplace", -1.0, 2, 0.1, GDP(0.4)),
    ("laplace", -1.0, 2, 0.1, ApproxDP(0.5, 1e-6)),
    *(("gaussian", 0.0, 2, 1.0, t) for t in (GDP(0.4), ApproxDP(0.5, 1e-6), ZCDP(0.05), RenyiDP(5.0, 0.3), RaoDP(0.7))),
]


@pytest.mark.parametrize(("kind", "curvature", "dim", "D", "target"), GUESSES)
def test_the_first_guess_is_close_and_the_search_short(kind, curvature, dim, D, target):
    """The guess is the work saved: a dozen profiles for a scale to 40 bits."""
    asked = []

    def profile_at(scale):
        asked.append(scale)
        return (gaussian_profile if kind == "gaussian" else laplace_profile)(curvature, dim, scale, D)

    cap = 1 / (dim - 1) if kind == "laplace" and curvature < 0 else math.inf
    valid = gaussian_profile(curvature, dim, D, D) if kind == "gaussian" else laplace_profile(0.0, dim, D, D)
    guess = _first_guess(valid, curvature, target, cap)
    found = calibrate(kind, curvature, dim, D, target)
    assert 0.25 < guess / found < 4
    if isinstance(target, GDP) and kind == "gaussian":
        assert 0.8 < guess / found < 1.25
    assert smallest_scale(profile_at, target, guess) == pytest.approx(found, rel=1e-6)
    assert len(set(asked)) <= 25
    assert meets(profile_at(found), target)
    assert not meets(profile_at(found * (1 - 2.0**-20)), target)


def test_costs_and_guesses_by_definition():
    assert _equal_mu(GDP(0.3)) == 0.3
    assert _equal_mu(RaoDP(0.3)) == 0.3
    assert _equal_mu(ZCDP(0.5)) == 1.0
    assert _equal_mu(RenyiDP(4.0, 2.0)) == 1.0
    assert _equal_mu(ApproxDP(1.0, gdp_delta(0.7, 1.0))) == pytest.approx(0.7, rel=1e-9)
    assert _equal_mu(GDP(1e-200)) == 1e-100
    for spent, allowed, floor, truth in (
        (2.0, 1.0, 0.0, math.log(2)),
        (1.0, 2.0, 0.5, math.log(1 / 3)),
        (0.5, 2.0, 0.5, -700),
    ):
        assert _excess(GDP(1.0), spent, allowed, floor) == pytest.approx(truth)
    assert _excess(GDP(1.0), math.inf, 1.0, 0.0) == math.inf
    assert _excess(GDP(1.0), 1.0, 1.0, 0.0) == 0.0
    assert _excess(GDP(1.0), math.nextafter(1.0, 2.0), 1.0, 0.0) > 0
    assert _excess(GDP(1.0), 0.4, 0.3, 0.35) > 0
    low, high = gdp_delta(0.5, 0.2), gdp_delta(0.8, 0.2)
    assert _excess(ApproxDP(0.2, low), high, low, 0.0) == pytest.approx(math.log(0.8 / 0.5), rel=1e-9)
    with pytest.raises(ParameterError, match="doubles"):
        _excess(GDP(1.0), math.nan, 1.0, 0.0)
    profile = laplace_profile(1.0, 2, 1.0, 1.0)
    spent, allowed = _least_cost(profile, ZCDP(0.3))
    assert allowed == 0.3
    assert spent <= profile.rho
    assert spent == pytest.approx(max(profile.renyi(a) / a for a in (1.0, 2.0, 8.0, 64.0)), rel=1e-8)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_secant_finds_the_root_of_a_power(power):
    asked = []

    def excess(scale):
        asked.append(scale)
        return -power * math.log(scale / 3.0)

    for start in (0.01, 2.9, 500.0):
        asked.clear()
        assert _secant(excess, start, math.inf, power, 40) == pytest.approx(3.0, rel=1e-9)
        assert len(asked) <= 6
    assert _secant(lambda s: -math.log(s / (1 - s / 5) / 3.0), 0.5, 5.0, 1.0, 40) == pytest.approx(15 / 8, rel=1e-9)
    assert _secant(lambda s: math.inf, 1.0, math.inf, 1.0, 40) is None
    steep = _secant(lambda s: -700.0 if s > 2 else math.log(2 / s) + 1e-3, 8.0, math.inf, 1.0, 40)
    assert steep is None or steep == pytest.approx(2.0, rel=0.01)

    def jump(scale):
        return 1.0 if scale < 7.0 else -1.0

    for start in (1.0, 7.0, 100.0):
        assert _bisect(jump, start, lambda s: gaussian_profile(0.0, 2, s, 1.0), GDP(1.0)) == pytest.approx(
            7.0, rel=1e-9
        )
    with pytest.raises(ParameterError, match="every scale"):
        _bisect(lambda s: -1.0, 1.0, lambda s: gaussian_profile(0.0, 2, s, 1.0), GDP(1.0))
    with pytest.raises(UnattainableGuarantee):
        _bisect(lambda s: 1.0 if s < 3 else math.inf, 1.0, lambda s: gaussian_profile(0.0, 2, s, 1.0), GDP(1.0))


def test_what_no_scale_meets_says_why():
    with pytest.raises(UnattainableGuarantee, match=r"floor μ=2\.862 .* Lorentz\(10\)"):
        calibrate("gaussian", -1.0, 10, 1.0, GDP(0.5))
    for target, symbol in ((ZCDP(0.1), "ρ"), (RenyiDP(2.0, 0.1), "ε"), (RaoDP(0.1), "θ"), (ApproxDP(0.1, 1e-6), "δ")):
        with pytest.raises(UnattainableGuarantee, match=f"floor {symbol}="):
            calibrate("gaussian", -1.0, 4, 1.0, target)
    with pytest.raises(UnattainableGuarantee, match="unbounded"):
        calibrate("gaussian", 0.0, 4, 1.0, PureDP(1.0))


# ---- splits


def test_lattices_of_splits():
    for n, steps in ((2, 5), (3, 4), (4, 3)):
        w = split._simplex(n, steps)
        assert len(w) == math.comb(steps + n - 1, n - 1)
        assert w.sum(axis=1) == pytest.approx(np.ones(len(w)))
        assert w.min() == 0.0
        assert len(np.unique(w.round(12), axis=0)) == len(w)
    assert split._simplex(2, 2)[1] == pytest.approx([0.5, 0.5])
    assert split._direction(math.pi / 2).tolist() == [0.0, 1.0]
    assert split._direction(0.0).tolist() == [1.0, 0.0]
    assert split._direction(0.3) == pytest.approx([math.cos(0.3), math.sin(0.3)])
    assert split._unit(np.array([[3.0, 4.0], [1e-13, 2.0]])).tolist() == [[0.6, 0.8], [0.0, 1.0]]
    for size, degree in ((15, 2), (45, 5), (78, 7)):
        u = split._unit(np.random.default_rng(0).random((200, 3)))
        basis = split._monomials(u, size)
        assert basis.shape[1] == math.comb(degree + 2, 2) + math.comb(degree + 1, 2) <= 0.9 * size
        assert np.linalg.matrix_rank(basis) == basis.shape[1]
    peak = split._climb(lambda x: 3 - (x[:, 0] - 0.12345) ** 2, np.array([0.12]))
    assert peak == pytest.approx(3.0, abs=1e-12)
    assert split._climb(lambda x: 3 + x[:, 0], np.array([0.9999])) == pytest.approx(4.0, abs=1e-6)
    c = np.array([0.2, 0.3, 0.5])
    peak = split._climb(lambda x: 2 - ((x - c) ** 2).sum(axis=1), np.array([0.25, 0.3, 0.45]))
    assert peak == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_largest_of_known_functions(n):
    c, tilt = np.linspace(1.0, 1.4, n), np.linspace(0.2, 0.9, n)

    def value(u):
        w = np.asarray(u) ** 2
        return np.array([w @ c, math.exp(w @ tilt) / (1 + w @ tilt)])

    asked = []
    found = split.largest_over_splits(lambda u: (asked.append(1), value(u))[1], n)
    truth = np.array([1.4, math.exp(0.9) / 1.9])
    assert np.all(found >= truth * (1 - 1e-12))
    assert found == pytest.approx(truth, rel=1e-5)
    assert split.largest_over_splits(lambda u: np.array([u.sum()]), 1) == pytest.approx([1.0])
    if n == 2:
        assert len(asked) <= 33
        for low, high, best in ((0.0, 0.5, 0.5), (1.0, 1.5, 1.0)):  # linear in u itself: harder than what is spent
            part = split.largest_over_splits(lambda u: np.array([u @ [1.0, 1.0]]), 2, low, high)
            truth = math.cos(best) + math.sin(best)
            assert truth * (1 - 1e-12) <= part[0] <= truth * (1 + 2e-7)
        kink = split.largest_over_splits(lambda u: np.array([math.exp(40 * min(1.2 * u[0], u[1]))]), 2)
        corner = math.sin(math.atan(1.2))
        assert kink[0] >= math.exp(40 * corner) * (1 - 1e-12)
        assert kink[0] <= math.exp(40 * corner) * 1.01


def test_products_know_their_ends():
    profile = product_profile([(1.0, 2), (0.0, 3), (-1.0, 2), (-2.0, 1)], 1.0, 0.5)
    assert profile._has_flat
    assert profile._curved == ((1.0, 2), (-1.0, 2))
    assert profile._caps == [math.inf, math.pi, math.inf]
    assert len(profile.corners) == 3
    assert profile.pure_epsilon == math.inf == profile.renyi(math.inf)
    spheres = product_profile([(1.0, 2), (4.0, 2)], 2.0, 1.0)
    diameter = math.hypot(math.pi, math.pi / 2)
    assert spheres.pure_epsilon == pytest.approx((2 * diameter - 1) / 8, rel=1e-12)
    assert product_profile([(1.0, 2), (4.0, 2)], 2.0, diameter).sensitivity == diameter
    with pytest.raises(ParameterError, match="diameter"):
        product_profile([(1.0, 2), (4.0, 2)], 2.0, diameter * (1 + 2e-15))
    for k, d in ((1.0, 2), (-1.0, 3), (0.0, 4)):
        one, own = product_profile([(k, d)], 1.0, 0.6), gaussian_profile(k, d, 1.0, 0.6)
        assert one.mu == own.mu
        assert one.delta(0.3) == own.delta(0.3)
        assert one.tradeoff(0.2) == own.tradeoff(0.2)
        assert one.rao == pytest.approx(own.rao, rel=1e-8)
    assert spd2_gaussian_profile(1.0, 0.5).space == "SPDAffineInvariant(2)"
    assert "dimension 2 curvature 4" in spheres.space
    assert spheres.floor is None
    assert product_profile([(-1.0, 2), (0.0, 1)], 1.0, 0.5).floor == gaussian_profile(-1.0, 2, 1.0, 0.5).floor
    assert product_profile([(-1.0, 2), (-1.0, 2)], 1.0, 0.5).floor is None
    pieces = [gaussian_profile(1.0, 2, 2.0, 1.0).rao, gaussian_profile(4.0, 2, 2.0, 1.0).rao]
    assert spheres.rao == pytest.approx(max(pieces), rel=1e-8)
    flat = product_profile([(0.0, 1), (1.0, 2)], 1.0, 0.5)
    assert flat.tradeoff(np.array([0.0, 1.0])).tolist() == [1.0, 0.0]
    assert flat.delta(math.inf) == 0.0
    both = flat._at([0.3, 0.4])
    assert both.rao == pytest.approx(math.hypot(0.3, gaussian_profile(1.0, 2, 1.0, 0.4).rao), rel=1e-8)
    assert both._tail_mu == pytest.approx(0.3)


# ---- estimates


def testpositive_parts_by_hand():
    loss, eps = np.sort(np.random.default_rng(0).normal(0.3, 1.0, 500)), np.array([0.0, 0.4, 2.0, 9.0])
    mean, square = positive_parts(loss, eps)
    parts = np.maximum(1 - np.exp(eps[:, None] - loss), 0.0)
    assert mean == pytest.approx(parts.mean(axis=1), abs=1e-14)
    assert square == pytest.approx((parts**2).mean(axis=1), abs=1e-14)
    low = positive_parts(np.array([-3.0, -1.0]), np.array([0.0]))
    assert low[0].tolist() == low[1].tolist() == [0.0]
    assert _max_mu(np.array([0.0, 0.5]), np.array([0.3, -0.1])) == pytest.approx(gdp_mu(0.0, 0.3))
    assert _max_mu(np.array([0.0]), np.array([0.0])) == 0.0


@pytest.mark.parametrize(("curvature", "dim"), [(1.0, 2), (0.0, 3), (-1.0, 4), (4.0, 2)])
def test_sampled_losses_have_the_exact_tails(curvature, dim):
    sigma, D = 0.8, 0.7
    law = gaussian_profile(curvature, dim, sigma, D)
    sampler = loss_sampler(curvature, dim, sigma, D)
    loss = sampler(np.random.default_rng(1), 0, 4000) / (2 * sigma**2)
    other = sampler(np.random.default_rng(2), 1, 4000) / (2 * sigma**2)
    table = law._table
    table.cover(float(np.abs(loss).max()) + 1)
    assert stats.kstest(loss, lambda t: np.exp(table.log_lower_on_line(np.asarray(t)))).pvalue > 1e-4
    assert stats.kstest(-other, lambda t: np.exp(table.log_lower_on_line(np.asarray(t)))).pvalue > 1e-4
    assert stats.kstest(1.25 * loss, lambda t: np.exp(table.log_lower_on_line(np.asarray(t)))).pvalue < 1e-6


def test_algorithms_on_their_grids():
    def sampler(rng, which, n):
        return np.linspace(-1.0, 3.0, n) if which == 0 else np.linspace(-3.0, 1.0, n)

    printed = algorithm2_estimate(sampler, 1.0, 1.2, np.random.default_rng(0), n=5, n_eps=4, m=2)
    assert printed.eps == pytest.approx([0.3, 0.6, 0.9, 1.2])
    loss, other = np.linspace(-0.5, 1.5, 5), np.linspace(-1.5, 0.5, 5)
    p = np.array([(loss >= e).mean() for e in printed.eps])
    q = np.array([(other >= e).mean() for e in printed.eps])
    assert printed.delta == pytest.approx(p - np.exp(printed.eps) * q)
    variance = (p * (1 - p) + np.exp(2 * printed.eps) * q * (1 - q)) / 10
    assert printed.variance == pytest.approx(variance)
    assert printed.mu == pytest.approx(_max_mu(printed.eps, printed.delta))
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
    share = math.log(2 * 5 / 0.1)
    bernstein = np.sqrt(2 * better.variance * 1000 / 999 * share) + 7 * share / (3 * 999)
    bound = better.delta + np.minimum(bernstein, math.sqrt(math.log(20) / 2000))
    upper = max(gdp_mu(min(e, 1.5), b) for e, b in zip([0.4, 0.8, 1.2, 1.6], bound[:4], strict=True))
    assert better.mu_upper == pytest.approx(upper, rel=1e-9)
    eps = math.pi / 8 * np.arange(1, 6) / 5
    expected = max(gdp_mu(e, circle_gaussian_delta_printed(2.0, 1.0, e)) for e in eps)
    assert algorithm1_estimate(2.0, 1.0, 5) == pytest.approx(expected, rel=1e-9)
    eps = np.linspace(0, (2 * math.pi - 1) / 8, 6)[:-1]
    expected = max(gdp_mu(e, circle_gaussian_delta(2.0, 1.0, e)) for e in eps)
    assert algorithm1_estimate(2.0, 1.0, 5, corrected=True) == pytest.approx(expected, rel=1e-9)
    for bad in ({"n": 1}, {"m": 0}, {"n_eps": 0}, {"failure_probability": 1.0}, {"failure_probability": 0.0}):
        with pytest.raises(ParameterError):
            algorithm2_estimate(sampler, 1.0, 1.2, np.random.default_rng(0), **bad)
    for sensitivity in (0.0, math.pi * (1 + 1e-15)):
        with pytest.raises(ParameterError):
            algorithm1_estimate(1.0, sensitivity)


def test_confidence_profiles_by_hand():
    rng = np.random.default_rng(3)
    own, net = rng.random(2000) + 1, rng.random((3, 2000)) + 1
    profile = spd_confidence_profile(0.9, 0.4, own, net, 0.1, 0.05)
    losses = ((net + 0.04) ** 2 - own**2) / (2 * 0.81)
    eps = np.array(profile.eps)
    assert len(eps) == 400
    assert (eps[0], eps[-1]) == pytest.approx((0.0, losses[:, :200].max()))  # the grid is not of the samples averaged
    losses = losses[:, 200:]
    massart = math.sqrt(math.log(2 * 3 / 0.05) / 3600)
    share = math.log(4 * 3 * 400 / 0.05)
    worst = np.zeros(400)
    for row in losses:
        parts = np.maximum(1 - np.exp(eps[:, None] - row), 0.0)
        bernstein = np.sqrt(2 * parts.var(axis=1) * share / 1799) + 7 * share / (3 * 1799)
        worst = np.maximum(worst, parts.mean(axis=1) + np.minimum(bernstein, massart))
    bounds = np.minimum.accumulate(np.minimum(worst, 1.0))
    assert np.array(profile.bounds) == pytest.approx(bounds, rel=1e-12)
    assert profile.resolution == profile.bounds[-1]
    assert profile.delta(eps[7]) == profile.bounds[7]
    assert profile.delta((eps[7] + eps[8]) / 2) == profile.bounds[7]
    assert profile.delta(1e9) == profile.resolution
    assert profile.hellinger_angle == pytest.approx(2 * math.acos(1 - profile.bounds[0]), rel=1e-14)
    assert profile.label == "confidence bound from 2000 samples, wrong with probability at most 0.05"
    infinite = (profile.mu, profile.rho, profile.rao, profile.pure_epsilon, profile.renyi(2.0))
    assert set(infinite) == {math.inf}
    many = spd_confidence_profile(0.9, 0.4, np.ones(40_000), np.ones((1, 40_000)), 0.0, 0.05)
    assert many.bounds[-1] < 7e-4  # Bernstein where nothing varies
    for own_bad, net_bad, h, beta in (
        (own[:1], net[:, :1], 0.1, 0.05),
        (own, net[0], 0.1, 0.05),
        (own[None], net, 0.1, 0.05),
        (own, net[:, :9], 0.1, 0.05),
        (own, net * math.nan, 0.1, 0.05),
        (own * math.inf, net, 0.1, 0.05),
        (own, net, -0.1, 0.05),
        (own, net, 0.1, 1.0),
    ):
        with pytest.raises(ParameterError):
            spd_confidence_profile(0.9, 0.4, own_bad, net_bad, h, beta)
    points, h = weyl_net(2, 0.7)  # three steps
    assert h == pytest.approx(math.sqrt(2) / 3, abs=1e-10)
    assert np.all(np.diff(points, axis=1) >= 0)
    assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-11
    assert len(points) == 10
    for m, spacing in ((1, 0.5), (3, 0.0), (3, 2.1)):
        with pytest.raises(ParameterError):
            weyl_net(m, spacing)
    assert len(weyl_net(2, 2.0)[0]) == 3


# ---- batches


@pytest.mark.parametrize("q", [1e-9, 1e-6, 0.01, 0.5, 0.999])
@pytest.mark.parametrize("multiplier", [0.1, 0.3, 1.0, 20.0])
def test_one_batch_at_any_rate(q, multiplier):
    """P = (1−q)N(0) + qN(μ), Q = (1−q)N(0) + qN(−μ): the likelihood ratio crosses e^ε once."""
    step, fixed = PoissonGaussianStep(multiplier, q), FixedSizeGaussianStep(multiplier, q)
    with mp.workdps(160):
        mu, rate = 1 / mp.mpf(multiplier), mp.mpf(q)
        for eps in (0.0, 1e-8, 0.3, 2.0, 45.0):
            g = mp.exp(mp.mpf(eps))
            # (1−q) + q·v − g(1−q) − g·q/v = 0, v = e^{μx}·e^{−μ²/2} up to the shift
            low, high = mp.mpf(-4000), mp.mpf(4000)

            def gap(x, g=g):
                up, down = mp.exp(mu * x - mu * mu / 2), mp.exp(-mu * x - mu * mu / 2)
                return (1 - rate) * (1 - g) + rate * up - g * rate * down

            for _ in range(500):
                x = (low + high) / 2
                low, high = (x, high) if gap(x) < 0 else (low, x)
            above = (1 - rate) * mp.ncdf(-x) + rate * mp.ncdf(mu - x)
            second = (1 - rate) * mp.ncdf(-x) + rate * mp.ncdf(-mu - x)
            truth = float(above - g * second)
            if truth > 1e-140:
                assert step.delta(eps) >= truth * (1 - 1e-13)
                assert step.delta(eps) == pytest.approx(truth, rel=1e-9)
            inner = mp.log(1 + (g - 1) / rate)
            truth = float(rate * (mp.ncdf(mu - inner / (2 * mu)) - mp.exp(inner) * mp.ncdf(-inner / (2 * mu) - mu)))
            if truth > 1e-140:
                assert fixed.delta(eps) >= truth * (1 - 1e-13)
                assert fixed.delta(eps) == pytest.approx(truth, rel=1e-9)
    assert max(step.delta(math.inf), fixed.delta(math.inf)) <= 5e-324


def test_gaussian_profiles_at_negative_epsilon():
    for eps in (-3.0, -0.2, 0.0, 0.7):
        with mp.workdps(30):
            truth = mp.ncdf(mp.mpf(0.4) - eps / mp.mpf(0.8)) - mp.exp(eps) * mp.ncdf(-eps / mp.mpf(0.8) - mp.mpf(0.4))
        assert float(_gaussian(0.8, np.array(eps))) == pytest.approx(float(truth), rel=1e-12)
    for steps in (1, 4, 16, 64):
        assert subsampled_gaussian(0.5, 1.0, steps) == GDP(4.0 * math.sqrt(steps))
    for steps in (2, 3, 9):
        mu = subsampled_gaussian(0.5, 1.0, steps).mu
        assert Fraction(mu) ** 2 >= 16 * steps
        assert mu == pytest.approx(4 * math.sqrt(steps), rel=1e-14)
    third = subsampled_gaussian(0.3, 1.0, 1).mu
    assert Fraction(third) >= 2 / Fraction(0.3)
    for kind in (PoissonGaussianStep, FixedSizeGaussianStep):
        assert kind(1e-6 * (1 - 1e-9), 0.25).delta(1e9) == 0.25
        assert kind(1e-6, 0.25).delta(1e20) < 0.25
        for multiplier, rate in ((0.0, 0.5), (1.0, 0.0), (1.0, 1.1), (1.1e100, 0.5), (math.nan, 0.5), (1.0, math.nan)):
            with pytest.raises(ParameterError):
                kind(multiplier, rate)
        with pytest.raises(ParameterError):
            kind(1.0, 0.5, adjacency="add-remove")


# ---- exact arithmetic


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


def test_log_delta_beyond_floats():
    for mu, eps in itertools.product((0.01, 1.0, 30.0), (0.0, 1.0, 700.0)):
        with mp.workdps(60):
            m, e = mp.mpf(mu), mp.mpf(eps)
            a, b = e / m - m / 2, e / m + m / 2
            truth = mp.log(mp.erfc(a / mp.sqrt(2)) / 2 - mp.exp(e) * mp.erfc(b / mp.sqrt(2)) / 2) if mu > 0.5 else None
        if truth is not None:
            found = gdp_log_delta(mu, eps)
            assert found >= float(truth) - 1e-300
            assert found == pytest.approx(float(truth), rel=1e-12, abs=1e-12)


def test_numbers_in_floats_out_arrays_in_arrays_out():
    for f in (
        lambda x: gdp_delta(x, 0.5),
        lambda x: gdp_log_delta(x, 0.5),
        lambda x: gdp_mu(x, 0.1),
        lambda x: pure_renyi(x, 2.0),
        lambda x: rao_delta(x, 0.1),
        lambda x: rao_epsilon(1.0, x / 2),
        lambda x: rao_tradeoff(1.0, x),
        lambda x: hellinger_from_affinity(x),
        lambda x: renyi_epsilon(2.0, 0.5, x / 2),
        lambda x: zcdp_epsilon(0.5, x / 2),
        lambda x: renyi_delta(2.0, 0.5, x),
        lambda x: zcdp_delta(0.5, x),
        lambda x: gaussian_distance(x, 1.0, 0.0, 1.0),
        lambda x: bernoulli_distance(x, 0.1),
        lambda x: poisson_distance(x, 0.1),
        lambda x: exponential_distance(x, 0.1),
        lambda x: gaussian_profile(1.0, 2, 1.0, 1.0).renyi(1 + x),
        GDP(0.5).delta,
        GDP(0.5).tradeoff,
        gaussian_profile(1.0, 2, 1.0, 1.0).delta,
    ):
        both = f(np.array([[0.3, 0.6]]))
        assert isinstance(both, np.ndarray)
        assert both.shape == (1, 2)
        for x, y in zip((0.3, 0.6), both[0], strict=True):
            assert type(f(x)) is float
            assert f(x) == pytest.approx(float(y), rel=1e-12)
