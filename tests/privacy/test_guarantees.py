"""Each guarantee against an independent oracle: δ(ε) exact or above, ε(δ) on the private side, limits instead of NaN."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    RenyiDP,
    convert,
)
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_log_delta, gdp_mu
from privacy.guarantees import ALL, IDS


def gaussian_delta(mu, eps):
    """Φ(−a) − e^ε Φ(−b) with as many digits as cancel."""
    with mp.workdps(60 + int(2 * max(0, math.log10(1 + eps / mu) - math.log10(mu)))):
        mu, eps = mp.mpf(mu), mp.mpf(eps)
        a = eps / mu - mu / 2
        return (
            mp.erfc(a / mp.sqrt(2)) / 2
            - mp.exp(eps) * mp.erfc((a + mu) / mp.sqrt(2)) / 2
        )


def test_gaussian_profile_against_mpmath():
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(1500):
        mu = 10 ** rng.uniform(-6, 3)
        a = rng.uniform(-10, 37)
        eps = mu * (a + mu / 2) if a + mu / 2 > 0 else mu * 10 ** rng.uniform(-5, 0)
        truth = gaussian_delta(mu, eps)
        if truth > mp.mpf("1e-300"):
            error = float(mp.mpf(gdp_delta(mu, eps)) / truth - 1)
            assert error >= 0, (mu, eps)
            worst = max(worst, error)
        assert gdp_log_delta(mu, eps) >= mp.log(truth)
    assert worst < 4e-14


def test_gaussian_profile_far_below_the_smallest_float():
    for mu, eps in [(1.0, 100.0), (0.01, 30.0), (3.0, 900.0)]:
        with mp.workdps(3000):
            truth = mp.log(gaussian_delta(mu, eps) if mu > 0.5 else _tail(mu, eps))
        assert gdp_log_delta(mu, eps) == pytest.approx(float(truth), rel=1e-13)
        assert gdp_log_delta(mu, eps) >= truth


def _tail(mu, eps):
    """The positive integral, for where 3000 digits would not do."""
    mu, eps = mp.mpf(mu), mp.mpf(eps)
    a = eps / mu - mu / 2
    with mp.workdps(30):
        integral = mp.quad(
            lambda s: (1 - mp.exp(-mu * s)) * mp.exp(-a * s - s * s / 2),
            [0, 1 / a, 10 / a, 80 / a],
        )
    return mp.npdf(a) * integral


def test_gdp_mu_inverts_delta():
    rng = np.random.default_rng(3)
    eps, mu = 10 ** rng.uniform(-3, 1, 300), 10 ** rng.uniform(-2, 1, 300)
    delta = gdp_delta(mu, eps)
    keep = (delta > 1e-290) & (delta < 0.999)
    found = gdp_mu(eps[keep], delta[keep])
    assert np.all(found >= mu[keep] * (1 - 1e-15))
    assert np.all(found <= mu[keep] * (1 + 1e-10))
    assert gdp_mu(1.0, 0.0) == 0.0


@pytest.mark.parametrize("g", ALL, ids=IDS)
def test_delta_falls_and_epsilon_is_its_private_inverse(g):
    eps = np.linspace(0, 12, 25)
    delta = g.delta(eps)
    assert delta.shape == eps.shape
    assert np.all(np.diff(delta) <= 1e-12 * delta[:-1])
    assert np.all((delta >= 0) & (delta <= 1))
    for d in (0.3, 1e-5, 1e-20):
        e = g.epsilon(d)
        if math.isinf(e):
            assert g.delta(1e300) > d
            continue
        assert g.delta(e) <= d * (1 + 1e-12)
        if e > 1e-6:
            assert g.delta(e * (1 - 1e-6)) > d * (1 - 1e-7)
    assert isinstance(g.delta(1.0), float)
    assert isinstance(g.epsilon(0.1), float)


@pytest.mark.parametrize("size", [5e-324, 1e-150, 1e-12, 1e-3, 30.0, 1e6, 1e300])
@pytest.mark.parametrize(
    "make", [PureDP, ZCDP, GDP, RaoDP, KLDP, lambda s: MeanConcentratedDP(s, s), lambda s: RenyiDP(1.5, s),
             lambda s: ApproxDP(s, 0.1)],
)  # fmt: skip
def test_extreme_parameters(make, size):
    g = make(size)
    values = np.concatenate(
        [g.delta(np.array([0.0, size, 1e5])), [g.epsilon(1e-3), g.epsilon(0.9)]]
    )
    assert not np.any(np.isnan(values))
    assert np.all(values >= 0)
    assert np.all(g.tradeoff(np.array([0.0, 1e-300, 0.5, 1.0])) >= 0)


def test_pure_profile_is_randomized_response():
    e0 = 1.3
    p, q = math.exp(e0) / (1 + math.exp(e0)), 1 / (1 + math.exp(e0))
    for eps in (0.0, 0.4, 1.0, 1.29):
        assert PureDP(e0).delta(eps) == pytest.approx(p - math.exp(eps) * q, rel=1e-13)
    assert PureDP(e0).delta(e0) == 0.0
    assert PureDP(e0).epsilon(1e-30) == e0


def test_approx_profile_is_the_four_point_pair():
    e0, d0 = 0.9, 0.05
    p = np.array([d0, (1 - d0) / (1 + math.exp(-e0)), (1 - d0) / (1 + math.exp(e0)), 0])
    q = p[::-1]
    for eps in (0.0, 0.3, 0.9, 2.0):
        assert ApproxDP(e0, d0).delta(eps) == pytest.approx(
            np.sum(np.maximum(p - math.exp(eps) * q, 0)), rel=1e-13
        )
    assert ApproxDP(e0, d0).epsilon(0.04) == math.inf


@pytest.mark.parametrize("g", ALL, ids=IDS)
def test_tradeoff_never_promises_more_than_delta_allows(g):
    # At any test (α, β): 1 − β ≤ δ(ε) + e^ε α. The curve must lie on or above each of these lines' maximum … and a valid
    # pair of errors exists on the curve, so no line may lie above it by more than the grid's resolution.
    alpha = np.linspace(0, 1, 41)
    curve = g.tradeoff(alpha)
    for eps in (0.0, 0.5, 2.0):
        assert np.all(curve >= 1 - g.delta(eps) - math.exp(eps) * alpha - 2e-3)
    assert np.all(np.diff(curve) <= 1e-12)


def test_tradeoff_of_the_gaussian():
    alpha = np.array([0.01, 0.3])
    expected = [
        float(mp.ncdf(-mp.sqrt(2) * mp.erfinv(2 * mp.mpf(a) - 1) - 0.8)) for a in alpha
    ]
    assert GDP(0.8).tradeoff(alpha) == pytest.approx(expected, rel=1e-12)


BAD = [math.nan, math.inf, -math.inf, -1.0, 0.0, 0, "1", True, None, [1.0, 2.0]]


@pytest.mark.parametrize("bad", BAD, ids=map(repr, BAD))
@pytest.mark.parametrize(
    "make",
    [
        PureDP,
        ZCDP,
        GDP,
        RaoDP,
        lambda x: ApproxDP(x, 1e-6),
        lambda x: ApproxDP(1.0, x),
        lambda x: RenyiDP(x, 1.0),
        lambda x: RenyiDP(2.0, x),
    ],
)
def test_bad_parameters_raise(make, bad):
    with pytest.raises(ParameterError, match=r"must"):
        make(bad)


def test_more_bad_parameters():
    for build in (
        lambda: ApproxDP(1.0, 1.0),
        lambda: RenyiDP(1.0, 1.0),
        lambda: RaoDP(4.0, angle="hellinger"),
        lambda: RaoDP(1.0, angle="other"),
        lambda: GDP(1.0, adjacency="none"),
        lambda: GDP(1.0).delta(-0.1),
        lambda: GDP(1.0).delta(math.nan),
        lambda: GDP(1.0).delta("1"),
        lambda: GDP(1.0).delta(None),
        lambda: GDP(1.0).epsilon(0.0),
        lambda: GDP(1.0).epsilon(1.0),
        lambda: GDP(1.0).epsilon(np.array([0.1, math.nan])),
        lambda: GDP(1.0).tradeoff(1.1),
    ):
        with pytest.raises(ParameterError):
            build()


# ---- every "rounded up" near every edge, against 60 digits


def test_epsilon_of_randomized_response_is_never_below():
    """The true δ at the ε returned is at most the δ asked for, next to 0, to tanh(ε₀/2) and at large ε₀ too."""
    rng = np.random.default_rng(4)
    for _ in range(800):
        eps0 = float(10 ** rng.uniform(-9, 2.5))
        edge = math.tanh(eps0 / 2)
        delta = float(
            rng.choice(
                [
                    edge * rng.uniform(0, 1),
                    edge * (1 - 10 ** rng.uniform(-16, -1)),
                    10 ** rng.uniform(-300, 0),
                ]
            )
        )
        delta = min(max(delta, 5e-324), math.nextafter(1.0, 0.0))
        with mp.workdps(500):
            e0, d = mp.mpf(eps0), mp.mpf(delta)
            found = mp.mpf(float(PureDP(eps0).epsilon(delta)))
            assert (mp.exp(e0) - mp.exp(found)) / (1 + mp.exp(e0)) <= d
            inside = mp.exp(e0) * (1 - d) - d
            truth = mp.log(inside) if inside > 1 else mp.mpf(0)
            assert found <= truth + mp.mpf(2) ** -47 * (1 + e0)
            approx = ApproxDP(eps0, 0.25 * delta)
            rest = mp.mpf(float(approx.epsilon(delta)))
            d0 = mp.mpf(approx.delta0)
            assert (
                d0 + (1 - d0) * max(mp.exp(e0) - mp.exp(rest), 0) / (1 + mp.exp(e0))
                <= d
            )


def test_tradeoffs_of_gaussians_and_angles_are_rounded_down():
    rng = np.random.default_rng(5)
    for _ in range(1500):
        mu, theta = (
            float(10 ** rng.uniform(-8, 1.3)),
            float(10 ** rng.uniform(-8, 0.49)),
        )
        alpha = float(
            rng.choice(
                [
                    rng.uniform(),
                    10 ** rng.uniform(-300, 0),
                    1 - 10 ** rng.uniform(-16, 0),
                ]
            )
        )
        with mp.workdps(400):
            a = mp.mpf(alpha)
            turned = mp.asin(mp.sqrt(a)) + mp.mpf(theta) / 2
            truth = mp.cos(turned) ** 2 if turned < mp.pi / 2 else mp.mpf(0)
            found = mp.mpf(RaoDP(theta).tradeoff(alpha))
            assert found <= truth
            assert found >= truth * (1 - mp.mpf(10) ** -13) - mp.mpf(
                10
            ) ** -14 * mp.sqrt(truth)
        if alpha > 1e-100 and 0 < alpha < 1:
            with mp.workdps(120):
                z = (
                    -mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(alpha))
                    if alpha > 1e-40
                    else None
                )
                if z is not None:
                    truth = mp.erfc((z + mp.mpf(mu)) / mp.sqrt(2)) / 2
                    found = mp.mpf(GDP(mu).tradeoff(alpha))
                    assert found <= truth
                    assert found >= truth * (1 - mp.mpf(10) ** -11) - mp.mpf(10) ** -300
    assert GDP(1.0).tradeoff(0.0) == 1.0
    assert RaoDP(1.0).tradeoff(0.0) <= math.cos(0.5) ** 2


def test_pi_stands_for_every_angle_that_large():
    for guarantee in (RaoDP(math.pi, angle="hellinger"), RaoDP(math.pi), RaoDP(4.0)):
        assert guarantee.delta(3.0) == 1.0
        assert guarantee.tradeoff(0.3) == 0.0


ULP = 1e-13


def above(found, truth, slack=ULP):
    """Rounded up, and by no more than the slack."""
    return truth * (1 - 1e-16) <= found <= truth * (1 + slack)


@pytest.mark.parametrize("guarantee", [ZCDP(600.0), RenyiDP(4.0, 690.0)])
def test_tradeoff_where_powers_of_e_overflow(guarantee):
    beta = guarantee.tradeoff(np.array([0.0, 1e-300, 0.5, 1.0]))
    assert np.all(np.isfinite(beta))
    assert np.all(np.diff(beta) <= 0)


def test_zero_is_no_parameter():
    assert convert(PureDP(1.0), to=ApproxDP, eps=2.0) == ApproxDP(2.0, 5e-324)
    assert convert(GDP(0.1), to=ApproxDP, delta=0.5) == ApproxDP(5e-324, 0.5)


@pytest.mark.parametrize("eps0", [1e-6, 0.8, 5.0, 60.0])
def test_randomized_response_there_and_back(eps0):
    pure, approx = PureDP(eps0), ApproxDP(eps0, 0.125)
    with mp.workdps(60):
        for share in (0.0, 0.3, 0.9):
            eps = share * eps0
            e0, e = mp.exp(mp.mpf(eps0)), mp.exp(mp.mpf(eps))
            truth = (e0 - e) / (1 + e0)
            assert above(pure.delta(eps), float(truth), 1e-12)
            assert above(approx.delta(eps), float(mp.mpf(1) / 8 + 7 * truth / 8), 1e-12)
            if pure.delta(eps) < 1:
                assert pure.epsilon(pure.delta(eps)) == pytest.approx(
                    eps, rel=1e-9, abs=1e-14
                )
    assert pure.delta(eps0) == 0.0
    assert pure.epsilon(5e-324) == eps0
    assert approx.epsilon(0.124) == math.inf
    assert approx.epsilon(0.125) == eps0
    assert approx.delta(2 * eps0) == 0.125
    assert pure.tradeoff(0.0) == 1.0


@pytest.mark.parametrize(
    "bad",
    [True, "1", b"1", None, 1j, [None], [True], float("nan"), [0.1, float("nan")]],
)
def test_what_is_no_number_is_refused(bad):
    for ask in (GDP(1.0).delta, GDP(1.0).epsilon, GDP(1.0).tradeoff):
        with pytest.raises(ParameterError):
            ask(bad)
    assert isinstance(GDP(1.0).delta(1), float)
    assert GDP(1.0).delta([1.0]).shape == (1,)


@pytest.mark.parametrize("guarantee", [ZCDP(0.5), RenyiDP(3.0, 0.4)])
def test_curves_of_divergences(guarantee):
    eps = np.array([0.0, 1.0])
    delta, grid = guarantee.delta(eps), guarantee.delta_upper_bound(eps)
    assert np.all(grid >= delta * (1 - 1e-9))
    assert np.all(grid <= delta * 1.002)
    alpha = np.array([0.02, 0.3, 0.8])
    gaussian = (
        GDP(1.0) if isinstance(guarantee, ZCDP) else GDP(math.sqrt(0.8 / 3))
    )  # one mechanism that has it
    beta = guarantee.tradeoff(alpha)
    assert np.all(beta <= gaussian.tradeoff(alpha))
    assert np.all(
        beta >= np.max(1 - delta - np.exp(eps) * alpha[:, None], axis=1) - 0.01
    )
    for bad in (-0.1, 1.1, [0.5, 2.0]):
        with pytest.raises(ParameterError):
            guarantee.tradeoff(bad)


@pytest.mark.parametrize("eps", [1.0, 699.0, 800.0, 1e6])
def test_no_type_one_error_catches_nothing(eps):
    assert PureDP(eps).tradeoff(0.0) == pytest.approx(1.0, abs=1e-15)
    assert ApproxDP(eps, 0.25).tradeoff(0.0) == pytest.approx(0.75, abs=1e-15)
    assert PureDP(eps).tradeoff(0.5) <= math.exp(-eps) / 2 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(PureDP, {}), (ApproxDP, {"delta": 1e-6}), (RenyiDP, {"order": 2.0})],
    ids=["pure", "approx", "renyi"],
)
def test_epsilon_has_the_same_name_in_every_guarantee(kind, numbers):
    assert kind(epsilon=0.5, **numbers) == kind(eps=0.5, **numbers)
    with pytest.raises(TypeError, match="epsilon once"):
        kind(epsilon=0.5, eps=0.5, **numbers)
    with pytest.raises(TypeError, match="epsilon once"):
        kind(**numbers)
