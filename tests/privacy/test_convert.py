"""Every conversion against a dense oracle, and for its direction: the result is never stronger than the source."""

import functools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    RenyiDP,
    compose,
    convert,
    gaussian_profile,
    laplace_profile,
)
from curvedp.privacy.guarantees.conversions import randomized_response_mu
from curvedp.privacy.guarantees.gaussian import gdp_delta

EPS = np.linspace(0, 15, 301)


def renyi(p, q, order):
    p, q = np.asarray(p), np.asarray(q)
    return np.log(np.sum(p**order * q ** (1 - order), axis=-1)) / (order - 1)


def hockey(p, q, eps):
    return np.sum(np.maximum(np.asarray(p) - math.exp(eps) * np.asarray(q), 0), axis=-1)


@pytest.mark.parametrize("eps", [1e-9, 1e-3, 0.3, 1.0, 3.0, 20.0, 300.0])
def test_pure_to_gdp(eps):
    mu = randomized_response_mu(eps)
    with mp.workdps(400):
        t = mp.tanh(mp.mpf(eps) / 2)
        truth = mp.findroot(lambda m: mp.erf(m / (2 * mp.sqrt(2))) - t, mu)
    assert 0 <= float(mp.mpf(mu) / truth - 1) < 1e-13
    alpha = np.concatenate([np.geomspace(1e-12, 0.5, 2000), np.linspace(0.5, 1, 500)])
    assert np.all(GDP(mu).tradeoff(alpha) <= PureDP(eps).tradeoff(alpha) + 1e-15)
    if 1e-3 <= eps <= 3:  # tight: a hundredth less fails
        assert np.any(
            GDP(mu * 0.99).tradeoff(alpha) > PureDP(eps).tradeoff(alpha) + 1e-15
        )
        assert np.any(GDP(mu * 0.99).delta(EPS) < PureDP(eps).delta(EPS))


@pytest.mark.parametrize("eps", [1e-6, 0.1, 1.0, 5.0, 50.0])
def test_pure_to_zcdp_and_renyi_against_randomized_response(eps):
    rho = convert(PureDP(eps), to=ZCDP).rho
    assert rho <= eps * eps / 2 * (1 + 1e-14)
    ratios = []
    for order in (1 + 1e-9, 1.01, 1.5, 2.0, 7.0, 100.0):
        with mp.workdps(60):
            a, e = mp.mpf(order), mp.mpf(eps)
            p, q = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
            truth = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        found = convert(PureDP(eps), to=RenyiDP, order=order).eps
        assert (
            float(truth) * (1 - 1e-15)
            <= found
            <= float(truth) * (1 + 1e-6 * (order < 1.001) + 1e-12)
        )
        assert rho * order >= truth
        ratios.append(float(truth / (a * rho)))
    assert max(ratios) > 1 - 1e-8  # tight as the order goes to 1


def test_gdp_to_divergences_and_angle_by_quadrature():
    mu = 0.7
    x = np.linspace(-40, 40, 400001)
    p, q = (
        np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
        for m in (mu, 0.0)
    )
    for order in (1.3, 2.0, 6.0):
        log_sum = np.log(
            np.sum(np.exp(-order * (x - mu) ** 2 / 2 - (1 - order) * x**2 / 2))
        ) + math.log(x[1] - x[0])
        truth = (log_sum - 0.5 * math.log(2 * math.pi)) / (order - 1)
        assert convert(GDP(mu), to=RenyiDP, order=order).eps == pytest.approx(
            truth, rel=1e-9
        )
    assert convert(GDP(mu), to=ZCDP).rho == pytest.approx(mu * mu / 2, rel=1e-15)
    assert convert(GDP(mu), to=RaoDP).theta == pytest.approx(
        2 * math.acos(np.sum(np.sqrt(p * q))), rel=1e-9
    )


def two_point_delta(order, bound, eps):
    """max p − e^ε q over coins with D_order(p‖q) ≤ bound, by brute force."""

    def least_q(p):
        def f(log_q):
            q = math.exp(log_q)
            one = order * math.log(p) + (1 - order) * log_q
            other = order * math.log1p(-p) + (1 - order) * math.log1p(-q)
            return np.logaddexp(one, other) - (order - 1) * bound

        return math.exp(brentq(f, -600, math.log(p), xtol=1e-13))

    def loss(log_odds):
        p = 1 / (1 + math.exp(-log_odds))
        return -(p - math.exp(eps) * least_q(p))

    grid = np.linspace(-25, 25, 401)
    values = [loss(x) for x in grid]
    i = int(np.argmin(values))
    refined = minimize_scalar(
        loss, bounds=(grid[max(i - 1, 0)], grid[min(i + 1, 400)]), method="bounded"
    )
    return -min(refined.fun, values[i])


@pytest.mark.parametrize(
    ("order", "bound", "eps"),
    [
        (2, 0.5, 1.0),
        (8, 1.0, 2.2),
        (8, 1.0, 0.0),
        (1.5, 0.1, 0.1),
        (1.1, 0.01, 0.0),
        (30, 0.3, 0.4),
        (2, 1e-4, 0.0),
    ],
)
def test_renyi_to_approx_is_the_exact_joint_range(order, bound, eps):
    found = RenyiDP(order, bound).delta(eps)
    truth = two_point_delta(order, bound, eps)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-5)
    log_cks = (
        (order - 1) * (bound - eps)
        - math.log(order)
        + (order - 1) * math.log1p(-1 / order)
    )
    assert found <= math.exp(log_cks) * (1 + 1e-11)


def test_renyi_bound_holds_for_random_distributions():
    rng = np.random.default_rng(4)
    p, q = rng.dirichlet(np.full(3, 0.5), size=(2, 4000)) + 1e-12
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    for order in (1.2, 3.0):
        bound = np.maximum(renyi(p, q, order), 1e-12)
        for eps in (0.0, 0.7):
            true = hockey(p, q, eps)
            for i in rng.integers(0, 4000, 3):
                assert RenyiDP(order, float(bound[i])).delta(eps) >= true[i] * (
                    1 - 1e-12
                )


def test_zcdp_lies_between_the_gaussian_and_the_older_conversion():
    for rho in (1e-3, 0.1, 2.0):
        eps = np.array([0.0, 0.1, 1.0, 4.0])
        found = ZCDP(rho).delta(eps)
        order = 1 + np.exp(np.linspace(-6, 7, 3000))[:, None]
        log_cks = (
            (order - 1) * (order * rho - eps)
            - np.log(order)
            + (order - 1) * np.log1p(-1 / order)
        )
        assert np.all(
            found <= np.exp(np.maximum(np.min(log_cks, axis=0), -740)) * (1 + 1e-6)
        )
        assert np.all(found >= gdp_delta(math.sqrt(2 * rho), eps))
        for order in (1.7, 4.0):
            single = convert(ZCDP(rho), to=RenyiDP, order=order)
            assert np.all(single.delta(eps) >= found * (1 - 1e-6))


CHAINS = [
    (PureDP(0.8), GDP, {}),
    (PureDP(0.8), ZCDP, {}),
    (PureDP(0.8), RenyiDP, {"order": 3.0}),
    (PureDP(0.8), RaoDP, {}),
    (PureDP(0.8), ApproxDP, {"eps": 0.3}),
    (ApproxDP(0.8, 1e-3), RaoDP, {}),
    (ApproxDP(0.8, 1e-3), ApproxDP, {"eps": 0.4}),
    (GDP(0.9), ZCDP, {}),
    (GDP(0.9), RenyiDP, {"order": 5.0}),
    (GDP(0.9), RaoDP, {}),
    (GDP(0.9), ApproxDP, {"delta": 1e-7}),
    (ZCDP(0.4), RenyiDP, {"order": 5.0}),
    (ZCDP(0.4), ApproxDP, {"eps": 2.0}),
    (ZCDP(0.4), RaoDP, {}),
    (RenyiDP(5.0, 0.4), RenyiDP, {"order": 2.0}),
    (RenyiDP(5.0, 0.4), ApproxDP, {"delta": 1e-4}),
    (RenyiDP(5.0, 0.4), RaoDP, {}),
    (RaoDP(0.4), RaoDP, {}),
    (RaoDP(0.4), ApproxDP, {"eps": 1.0}),
]


@functools.cache
def curves(guarantee):
    """δ and the tradeoff, once for each guarantee: several chains begin or end at one."""
    return guarantee.delta(EPS[::10]), guarantee.tradeoff(np.linspace(0, 1, 41))


@pytest.mark.parametrize(
    ("source", "to", "options"),
    CHAINS,
    ids=[f"{s!r} to {t.__name__}" for s, t, _ in CHAINS],
)
def test_converted_is_never_stronger(source, to, options):
    converted = convert(source, to=to, **options)
    assert type(converted) is to
    (delta, tradeoff), (before, allowed) = curves(converted), curves(source)
    assert np.all(delta >= before * (1 - 1e-9))
    slack = (
        3e-3 if isinstance(source, ZCDP | RenyiDP) else 0.0
    )  # their curves are the hull of finitely many lines
    assert np.all(tradeoff <= allowed + slack + 1e-12)


def test_adjacency_travels():
    assert (
        convert(PureDP(1.0, adjacency="add-remove"), to=GDP).adjacency == "add-remove"
    )


@pytest.mark.parametrize(
    ("source", "to", "options"),
    [
        (GDP(1.0), PureDP, {}),
        (ZCDP(1.0), GDP, {}),
        (ApproxDP(1.0, 1e-6), GDP, {}),
        (ApproxDP(1.0, 1e-6), ZCDP, {}),
        (ApproxDP(1.0, 1e-6), RenyiDP, {"order": 2.0}),
        (RenyiDP(2.0, 1.0), RenyiDP, {"order": 3.0}),
        (RenyiDP(2.0, 1.0), ZCDP, {}),
        (RaoDP(1.0), GDP, {}),
        (RaoDP(1.0), ApproxDP, {"delta": 1e-6}),
        (ApproxDP(1.0, 1e-3), ApproxDP, {"delta": 1e-6}),
    ],
)
def test_the_impossible_says_so(source, to, options):
    with pytest.raises(UnattainableGuarantee, match="implies no"):
        convert(source, to=to, **options)


def test_missing_options_raise():
    for to, options in (
        (ApproxDP, {}),
        (ApproxDP, {"eps": 1.0, "delta": 0.1}),
        (RenyiDP, {}),
        (RenyiDP, {"order": 0.5}),
    ):
        with pytest.raises(ParameterError):
            convert(GDP(1.0), to=to, **options)
    with pytest.raises(ParameterError):
        convert(1.0, to=GDP)


@pytest.mark.parametrize("mu", [0.3, 2.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 7.0])
def test_gaussian_to_renyi_is_the_divergence_of_two_normal_laws(mu, order):
    """log ∫ p^α q^{1−α} / (α − 1) for p = N(μ, 1), q = N(0, 1), by quadrature."""
    x = np.linspace(-12 + mu, 12 + order * mu, 200_001)
    log_p, log_q = -((x - mu) ** 2) / 2, -(x**2) / 2
    integrand = np.exp(order * log_p + (1 - order) * log_q) / np.sqrt(2 * np.pi)
    divergence = np.log(np.trapezoid(integrand, x)) / (order - 1)
    stated = convert(GDP(mu), to=RenyiDP, order=order).eps
    assert stated == pytest.approx(divergence, rel=1e-9)


def test_profiles_and_compositions_convert():
    profile = gaussian_profile(-1.0, 3, 1.0, 1.0)
    assert convert(profile, to=GDP).mu == pytest.approx(1.36656, abs=1e-5)
    assert np.all(
        convert(profile, to=GDP).delta(EPS) >= profile.delta(EPS) * (1 - 3e-9)
    )
    assert convert(profile, to=RenyiDP, order=2.0).eps == profile.renyi(2.0)
    assert convert(laplace_profile(0.0, 1, 1.0, 0.5), to=PureDP).eps == pytest.approx(
        0.5, rel=1e-12
    )
    both = compose(GDP(0.6), PureDP(0.2))
    assert convert(both, to=GDP).mu == pytest.approx(
        math.hypot(0.6, randomized_response_mu(0.2)), rel=1e-14
    )
    assert np.all(
        convert(both, to=GDP).delta(EPS[:100]) >= both.delta(EPS[:100]) * (1 - 1e-4)
    )


ULP = 1e-13


def above(found, truth, slack=ULP):
    """Rounded up, and by no more than the slack."""
    return truth * (1 - 1e-16) <= found <= truth * (1 + slack)


@pytest.mark.parametrize("to", [GDP, ZCDP, RenyiDP, RaoDP, ApproxDP])
@pytest.mark.parametrize("source", [PureDP, GDP, ZCDP])
def test_every_conversion_keeps_the_adjacency(source, to):
    if (source, to) == (ZCDP, GDP):
        pytest.skip("impossible")
    options = {RenyiDP: {"order": 2.0}, ApproxDP: {"delta": 1e-3}}.get(to, {})
    assert (
        convert(source(0.5, adjacency="add-remove"), to=to, **options).adjacency
        == "add-remove"
    )


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


def test_half_squares_are_exact_or_next_above():
    assert convert(GDP(1.5), to=ZCDP).rho == 1.125
    for mu in np.random.default_rng(0).uniform(0.1, 3, 50):
        rho = convert(GDP(mu), to=ZCDP).rho
        assert (
            2 * Fraction(math.nextafter(rho, 0.0))
            < Fraction(mu) ** 2
            <= 2 * Fraction(rho)
        )
    assert convert(GDP(2.0), to=RenyiDP, order=3.0).eps == pytest.approx(6.0, rel=1e-14)
    assert convert(ZCDP(0.25), to=RenyiDP, order=8.0).eps == pytest.approx(
        2.0, rel=1e-14
    )
    assert convert(RenyiDP(4.0, 0.5), to=RenyiDP, order=4.0) == RenyiDP(4.0, 0.5)


def test_a_profile_without_any_divergence_implies_no_zcdp(monkeypatch):
    profile = gaussian_profile(
        0.0, 1, 1.0, 0.987654321
    )  # of nobody else: profiles are shared, with what they know
    for name in ("mu", "pure_epsilon"):
        monkeypatch.setattr(type(profile), name, math.inf)
    for to in (ZCDP, GDP, PureDP):
        with pytest.raises(UnattainableGuarantee):
            convert(profile, to=to)


def test_a_bounded_loss_is_used_where_it_is_better():
    profile = laplace_profile(0.0, 1, 1.0, 0.5)
    assert convert(profile, to=ZCDP).rho <= 0.5 * math.tanh(0.25) * (1 + 1e-9)
