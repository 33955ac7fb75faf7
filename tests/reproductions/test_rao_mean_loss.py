"""KL and mean-concentrated privacy: exact two-point distributions, quadrature, the mechanisms they describe, ledgers."""

import functools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import BudgetExceeded, ParameterError, UnattainableGuarantee
from curvedp.estimators import PrivateFrechetMean
from curvedp.geometry import Sphere
from curvedp.ledger import Ledger
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
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
    smallest_scale,
)
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.release.verify import verify_certificate


def kl(p, q):
    return p * mp.log(p / q) + (1 - p) * mp.log((1 - p) / (1 - q))


def largest_delta(alpha, eps):
    """max p − e^ε q over two-point distributions with kl(p‖q) = alpha, in 40 digits: q by bisection, p by golden section."""
    with mp.workdps(40):
        gamma = mp.exp(eps)

        @functools.cache
        def at(x):
            p = 1 / (1 + mp.exp(-x))
            low, high = mp.mpf(10) ** -400, p  # kl falls as q grows to p
            low, high = mp.log(low), mp.log(high)
            for _ in range(75):  # log q to 3e-20
                middle = (low + high) / 2
                low, high = (
                    (middle, high) if kl(p, mp.exp(middle)) > alpha else (low, middle)
                )
            return p - gamma * mp.exp(high)

        xs = [mp.mpf(x) / 2 for x in range(-30, 31)]
        x = max(xs, key=at)
        a, b, g = x - mp.mpf(1) / 2, x + mp.mpf(1) / 2, (mp.sqrt(5) - 1) / 2
        c, d = b - g * (b - a), a + g * (b - a)
        for _ in range(38):  # the largest is flat: 1e-8 away is 1e-16 less
            if at(c) > at(d):
                a, b, c, d = a, d, d - g * (d - a), c
            else:
                a, b, c, d = c, b, d, c + g * (b - c)
        return at((a + b) / 2)


@pytest.mark.parametrize(
    ("alpha", "eps"), [(1e-4, 0.01), (0.05, 0.0), (0.05, 1.0), (0.5, 3.0), (3.0, 0.3)]
)
def test_kl_delta_is_attained_by_two_points_and_by_nothing_above(alpha, eps):
    truth = largest_delta(alpha, eps)
    found = KLDP(alpha).delta(eps)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-10)
    assert (
        KLDP(alpha * (1 - 1e-6)).delta(eps) < truth
    )  # a bound for less divergence is none: the oracle refutes it


@pytest.mark.parametrize("x", [0.1, 1.0])
def test_both_bound_the_laplace_mechanism(x):
    mean = integrate.quad(
        lambda y: stats.laplace.pdf(y) * (abs(y - x) - abs(y)), -40, 40, points=[0, x]
    )[0]
    profile = laplace_profile(0, 1, 1 / x, 1.0)
    assert convert(profile, to=KLDP).alpha == pytest.approx(mean, rel=1e-8)
    assert convert(profile, to=KLDP).alpha >= mean
    concentrated = convert(profile, to=MeanConcentratedDP)
    assert (concentrated.mean, concentrated.deviation) == pytest.approx(
        (mean, x), rel=1e-8
    )
    eps = np.linspace(0, x, 7)
    for guarantee in (KLDP(mean), concentrated):
        assert np.all(profile.delta(eps) <= guarantee.delta(eps) * (1 + 1e-9))


@pytest.mark.parametrize("k", [1, 10])
def test_composed_they_bound_composed_gaussians(k):
    exact, eps = GDP(0.3 * math.sqrt(k)), np.array([0.0, 0.5, 1.0, 3.0])
    total = compose([MeanConcentratedDP(0.045, 0.3)] * k)
    assert np.all(exact.delta(eps) <= compose([KLDP(0.045)] * k).delta(eps))
    assert np.all(exact.delta(eps) <= total.delta(eps))
    assert np.any(
        exact.delta(eps) > compose([MeanConcentratedDP(0.045, 0.15)] * k).delta(eps)
    )  # half the deviation
    # the tail bound that the definition is usually given with is never better
    assert total.epsilon(1e-6) <= total.mean + total.deviation * math.sqrt(
        2 * math.log(1e6)
    )
    assert total.epsilon(1e-6) == pytest.approx(ZCDP(0.045 * k).epsilon(1e-6), rel=1e-9)


@pytest.mark.parametrize("eps", [0.01, 0.7, 3.0])
def test_what_pure_implies_holds_for_losses_on_any_three_points(eps):
    """Losses −ε, t, ε with E[e^{−L}] = 1: their means and centered moments, against Hoeffding's."""
    claim, rng = convert(PureDP(eps), to=MeanConcentratedDP), np.random.default_rng(0)
    assert (claim.deviation, claim.mean) == pytest.approx(
        (eps, eps * math.tanh(eps / 2)), rel=1e-12
    )
    orders = (
        np.concatenate([-np.geomspace(0.01, 20, 30), np.geomspace(0.01, 20, 30)]) / eps
    )
    closest = 0.0
    for t in rng.uniform(-eps, eps, 200):
        share = rng.uniform()
        up, down, middle = math.expm1(-eps), math.expm1(eps), share * math.expm1(-t)
        top = -(middle + (1 - share) * down) / (
            up - down
        )  # the probability of ε: E[e^{−L}] = 1
        if not 0 <= top <= 1 - share:
            continue
        losses, chance = (
            np.array([eps, t, -eps]),
            np.array([top, share, 1 - share - top]),
        )
        mean = chance @ losses
        assert mean <= claim.mean + 1e-12
        moments = np.log(np.exp(np.outer(orders, losses - mean)) @ chance)
        assert np.all(moments <= (orders * claim.deviation) ** 2 / 2 + 1e-12)
        closest = max(closest, mean / claim.mean)
    assert closest > 0.5  # the losses tried are not all mild


def test_conversions_never_claim_more():
    eps = np.linspace(0, 8, 41)
    for source in (
        PureDP(0.7),
        ZCDP(0.3),
        RenyiDP(8.0, 0.9),
        GDP(0.8),
        compose(GDP(0.5), PureDP(0.3)),
    ):
        assert np.all(
            convert(source, to=KLDP).delta(eps) >= source.delta(eps) * (1 - 1e-4)
        )  # zCDP's δ(0) is searched
    m = MeanConcentratedDP(0.1, 0.6)
    assert convert(m, to=ZCDP).rho == pytest.approx(0.18)
    assert convert(MeanConcentratedDP(0.3, 0.1), to=ZCDP).rho == pytest.approx(0.3)
    assert convert(m, to=RenyiDP, order=3.0).eps == pytest.approx(0.46)
    assert convert(m, to=KLDP) == KLDP(0.1)
    # KL(N(0,1), N(0.6,1)) and its Hellinger angle, by quadrature
    x = np.linspace(-20, 20, 200001)
    p, q = (stats.norm.pdf(x, c) for c in (0.0, 0.6))
    alpha = float(np.sum(p * np.log(p / q)) * (x[1] - x[0]))
    angle = 2 * math.acos(np.sum(np.sqrt(p * q)) * (x[1] - x[0]))
    assert convert(GDP(0.6), to=KLDP).alpha == pytest.approx(alpha)
    assert angle <= convert(KLDP(alpha), to=RaoDP).theta


@pytest.mark.parametrize(
    ("mean", "deviation"), [(1e-8, 1e6), (1e-3, 10.0), (0.3, 0.1), (1e-8, 1e-3)]
)
def test_concentration_is_worth_no_less_than_its_mean_alone(mean, deviation):
    """Order 1 is among the orders: δ(0) was once 0.9999 where a KL divergence of 1e-8 allows 7e-5."""
    eps = np.array([0.0, 0.01, 1.0])
    assert np.all(
        MeanConcentratedDP(mean, deviation).delta(eps)
        <= KLDP(mean).delta(eps) * (1 + 1e-10)
    )


@pytest.mark.parametrize(
    ("source", "to"),
    [(ApproxDP(1.0, 1e-6), KLDP), (RaoDP(0.5), KLDP), (KLDP(0.5), ZCDP), (KLDP(0.5), GDP), (KLDP(0.5), PureDP),
     (GDP(1.0), MeanConcentratedDP), (ZCDP(1.0), MeanConcentratedDP), (KLDP(0.5), MeanConcentratedDP),
     (gaussian_profile(0.0, 2, 0.5, 0.3), MeanConcentratedDP)],
)  # fmt: skip
def test_what_does_not_follow_is_refused_in_one_line(source, to):
    with pytest.raises(UnattainableGuarantee) as error:
        convert(source, to=to)
    assert "\n" not in str(error.value)


def test_mixed_with_others_they_compose_soundly():
    both = compose(KLDP(0.02), KLDP(0.03), GDP(0.5))
    assert KLDP(0.05) in both.parts
    # P = N(0,1) × a two-point law that attains KL 0.05 at ε = 1
    assert both.delta(1.0) >= max(KLDP(0.05).delta(1.0), GDP(0.5).delta(1.0))
    assert both.delta(1.0) >= compose(GDP(0.5), GDP(math.sqrt(0.1))).delta(
        1.0
    )  # a Gaussian of that divergence


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_parameters(bad):
    for make in (
        KLDP,
        lambda x: MeanConcentratedDP(x, 1.0),
        lambda x: MeanConcentratedDP(1.0, x),
    ):
        with pytest.raises(ParameterError):
            make(bad)
    for guarantee in (KLDP(0.1, adjacency="add-remove"), MeanConcentratedDP(0.1, 0.2)):
        assert guarantee_from_dict(guarantee.to_dict()) == guarantee


def test_ledgers_count_them(tmp_path):
    ledger = Ledger(tmp_path / "kl.db", KLDP(0.5))
    ledger.spend(KLDP(0.25), "one")
    ledger.spend(GDP(0.5), "two")  # KL 1/8
    assert ledger.spent.alpha == pytest.approx(0.375, rel=1e-15)
    with pytest.raises(BudgetExceeded):
        ledger.spend(KLDP(0.2), "three")
    ledger = Ledger(tmp_path / "mcdp.db", MeanConcentratedDP(1.0, 5.0))
    ledger.spend(MeanConcentratedDP(0.5, 3.0), "one")
    ledger.spend(PureDP(0.25), "two")
    assert ledger.spent.deviation == pytest.approx(math.hypot(3.0, 0.25))
    with pytest.raises(BudgetExceeded):
        ledger.spend(MeanConcentratedDP(0.1, 4.0), "three")
    with pytest.raises(UnattainableGuarantee):
        ledger.spend(GDP(0.1), "four")
    ledger = Ledger(tmp_path / "approx.db", ApproxDP(2.0, 1e-6))
    ledger.spend(MeanConcentratedDP(0.005, 0.1), "one")  # counted as zCDP
    assert ledger.spent.eps <= 2.0


@pytest.mark.parametrize("asked", [KLDP(0.125), MeanConcentratedDP(0.125, 0.7)])
def test_a_mean_released_at_them(asked):
    X = np.random.default_rng(0).normal(size=(200, 3)) * 0.1 + [0, 0, 1]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    mean = PrivateFrechetMean(
        Sphere(2), radius=0.5, center=[0.0, 0.0, 1.0], guarantee=asked
    ).fit(X)
    assert all(
        check.holds is not False for check in verify_certificate(mean.certificate_)
    )


def test_noise_at_a_target_in_the_plane_and_none_where_the_loss_is_unbounded():
    def calibrate(make, dim, moved, target):
        return smallest_scale(lambda s: make(0.0, dim, s, moved), target, moved)

    assert calibrate(gaussian_profile, 2, 0.3, KLDP(0.125)) == pytest.approx(
        0.6, rel=1e-9
    )  # Δ/√(2α)
    scale = calibrate(laplace_profile, 1, 1.0, MeanConcentratedDP(0.1, 0.9))
    # x + e^{−x} − 1 = 0.1, the mean of the loss at x = Δ/scale, comes before the deviation 0.9
    assert scale**-1 + math.expm1(-(scale**-1)) == pytest.approx(0.1, rel=1e-8)
    assert calibrate(
        laplace_profile, 1, 1.0, MeanConcentratedDP(5.0, 0.5)
    ) == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(UnattainableGuarantee):
        calibrate(gaussian_profile, 2, 0.3, MeanConcentratedDP(0.1, 0.9))
