"""Exact profiles against independent oracles: brute-force quadrature, closed forms, duality between their own numbers."""

import math
from types import SimpleNamespace

import mpmath
import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from scipy.stats import norm

from curvedp.errors import ParameterError
from curvedp.papers.gdp.algorithms import algorithm2_estimate
from curvedp.privacy import GDP, gaussian_profile, laplace_profile
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_log_delta, gdp_mu
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.mu_equation import (
    mills_difference,
    mills_ratio,
    mu_of_large_delta,
    mu_of_small_delta,
)
from support.privacy import one_minus_delta
from support.profile_oracle import brute_delta, loss


def random_case(rng):
    kind = str(rng.choice(["gaussian", "laplace"]))
    curvature = float(rng.choice([-1, 0, 1]) * rng.choice([1.0, 1.0, 0.25, 4.0]))
    d = int(rng.choice([2, 3, 4, 5, 8, 17, 40, 100]))
    root = math.sqrt(abs(curvature)) or 1.0
    scale = 10 ** rng.uniform(-1.3, 0.5) / root
    if kind == "laplace":
        scale /= math.sqrt(d)
        scale = min(scale, 0.95 / (root * (d - 1))) if curvature < 0 else scale
    elif curvature < 0:
        scale = min(scale, 6 / (root * math.sqrt(d)))
    D = scale * 10 ** rng.uniform(-2, 0.7)
    D = (
        min(D, float(rng.choice([1.0, 0.99, 0.7])) * math.pi / root)
        if curvature > 0
        else min(D, 4 / root)
    )
    unit = D / scale if kind == "gaussian" else D / (scale * math.sqrt(d))
    eps = float(rng.choice([0.0, rng.uniform(0, 1) * unit, rng.uniform(1, 8) * unit]))
    cap = profile_of(kind, curvature, d, scale, D).pure_epsilon
    return (
        kind,
        curvature,
        d,
        float(scale),
        float(D),
        eps if eps < cap else cap * rng.uniform(0, 0.99),
    )


def profile_of(kind, *numbers):
    return (gaussian_profile if kind == "gaussian" else laplace_profile)(*numbers)


@pytest.mark.parametrize("seed", range(60))
def test_delta_agrees_with_brute_force(seed):
    """The study of 500 cases is `python -m benchmarks.accounting --brute 500`."""
    case = random_case(np.random.default_rng(seed))
    ours = profile_of(*case[:-1]).delta(case[-1])
    # the brute force meets square-root singularities in dimension 2
    assert ours == pytest.approx(brute_delta(*case), rel=5e-8 if case[2] == 2 else 4e-9)


def test_a_profile_that_is_wrong_by_a_percent_in_scale_is_noticed():
    truth = brute_delta("gaussian", -1.0, 3, 1.0, 1.0, 0.7)
    assert abs(gaussian_profile(-1, 3, 1.01, 1.0).delta(0.7) / truth - 1) > 1e-3


def test_values_checked_independently():
    assert gaussian_profile(1, 2, 1.0, 1.0).mu == pytest.approx(0.82248, abs=5e-6)
    assert gaussian_profile(-1, 3, 1.0, 1.0).mu == pytest.approx(1.36656, abs=5e-6)
    assert gaussian_profile(1, 1, 2.0, 1.0).delta(0.3) == pytest.approx(
        0.0422557, abs=5e-8
    )
    assert gaussian_profile(-1, 10, 2.0, 1.0).mu == pytest.approx(2.86205, abs=5e-6)


@pytest.mark.parametrize(
    "case",
    [
        (1, 2, 1.0, 1.0),
        (-1, 3, 1.0, 1.0),
        (-1, 5, 0.1, 1.0),
        (1, 40, 0.3, 2.0),
        (-1, 10, 0.1, 1e-9),
        (1, 1, 1.0, 2.0),
    ],
)
def test_mu_is_the_supremum_over_every_eps(case):
    """E4: the tail limit alone does not decide. δ <= δ_μ down to δ = 1e-300, and a smaller μ fails somewhere."""
    profile = gaussian_profile(*case)
    eps = np.concatenate([[0.0], np.geomspace(1e-6, 60.0, 4000)]) * profile.rao
    delta = profile.delta(eps)
    assert np.all(delta <= GDP(profile.mu).delta(eps) * (1 + 1e-13) + 1e-300)
    top = GDP(profile.mu * (1 - 2e-4)).delta(eps)
    assert np.any(delta / (1 + 2e-9) > top)


def test_mu_at_eps_zero_is_total_variation():
    """E2: the grid of the printed algorithms leaves ε = 0 out, which is where the supremum is on S²."""
    profile = gaussian_profile(1, 2, 1.0, 1.0)
    at_zero = 2 * norm.ppf((1 + profile.delta(0.0)) / 2)
    assert profile.mu == pytest.approx(at_zero, rel=1e-8)


def test_text_after_theorem_3_2_has_a_typing_error():
    """E3: with both signs positive the formula is not δ of the Gaussian."""
    mu, eps = 1.0, 0.5
    true = gaussian_profile(0, 3, 1.0, 1.0).delta(eps)
    printed = ndtr(-eps / mu + mu / 2) * (1 - math.exp(eps))
    assert true == pytest.approx(
        ndtr(-eps / mu + mu / 2) - math.exp(eps) * ndtr(-eps / mu - mu / 2), rel=1e-12
    )
    assert printed < 0 < true


@pytest.mark.parametrize(
    "case",
    [
        ("gaussian", 1, 2, 1.0, 1.0),
        ("gaussian", -1, 3, 0.5, 1.0),
        ("laplace", 1, 3, 0.4, 0.5),
    ],
)
def test_tradeoff_is_the_dual_of_delta(case):
    """f(α) = sup_ε max(1 − δ − e^ε α, e^{−ε}(1 − δ − α)) (Dong, Roth and Su 2022, Prop. 2.12), convex, its own inverse."""
    profile = profile_of(*case)
    alpha = np.array([0.0, 1e-6, 1e-3, 0.05, 0.2, 0.31, 0.5, 0.9, 1.0])
    eps = np.linspace(0.0, min(profile.pure_epsilon, 20.0), 4001)
    delta = profile.delta(eps)
    lines = np.max(
        np.maximum(
            1 - delta - np.exp(eps) * alpha[:, None],
            np.exp(-eps) * (1 - delta - alpha[:, None]),
        ),
        axis=1,
    )
    f = profile.tradeoff(alpha)
    assert np.all(
        f >= np.maximum(lines, 0.0) - 1e-8
    )  # the lines are lower bounds, and f is the best of them
    assert f == pytest.approx(np.maximum(lines, 0.0), abs=1e-5)
    assert profile.tradeoff(f[1:-1]) == pytest.approx(alpha[1:-1], abs=1e-8)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 7.0])
@pytest.mark.parametrize("k", [-1, 1])
def test_renyi_by_direct_integration(order, k):
    s, D, d = 0.7, 0.9, 3
    sn = np.sinh if k < 0 else np.sin
    top = math.pi if k > 0 else 14.0
    r, w = np.polynomial.legendre.leggauss(800)
    r, w = top * (r + 1) / 2, w * top / 2
    c, v = np.polynomial.legendre.leggauss(800)  # d = 3: cos φ is uniform
    L = loss("gaussian", k, s, r[:, None], np.arccos(c)[None, :], D)
    p = (w * np.exp(-(r**2) / (2 * s * s)) * sn(r) ** 2)[:, None] * v[None, :]
    p /= p.sum()
    truth = (
        np.sum(p * L)
        if order == 1
        else math.log(np.sum(p * np.exp((order - 1) * L))) / (order - 1)
    )
    profile = gaussian_profile(k, d, s, D)
    assert profile.renyi(order) == pytest.approx(truth, rel=2e-8)
    angle = 2 * math.acos(float(np.sum(p * np.exp(-L / 2))))
    assert profile.hellinger_angle == pytest.approx(angle, rel=1e-7)
    assert profile.hellinger_angle <= profile.rao


def test_rao_is_the_slope_of_the_hellinger_angle():
    for profile, near in (
        (gaussian_profile(-1, 4, 0.6, 0.5), gaussian_profile(-1, 4, 0.6, 1e-3)),
        (laplace_profile(1, 3, 0.6, 0.5), laplace_profile(1, 3, 0.6, 1e-3)),
    ):
        assert near.hellinger_angle / 1e-3 == pytest.approx(profile.rao / 0.5, rel=2e-3)


def test_zcdp_bounds_every_order():
    profile = gaussian_profile(-1, 4, 0.8, 1.0)
    orders = 1 + np.geomspace(1e-3, 1e3, 40)
    assert np.all(profile.renyi(orders) <= profile.rho * orders * (1 + 1e-12))
    assert profile.rho == pytest.approx(profile.renyi(1.0), rel=1e-6)


def test_laplace_on_the_line_in_closed_form():
    """δ(ε) = 1 − e^{(ε−Δ/s)/2}; Rényi as in Mironov 2017, Table II."""
    profile = laplace_profile(0, 1, 1.0, 1.0)
    eps = np.array([0.0, 0.3, 0.99, 1.0, 5.0])
    assert profile.delta(eps) == pytest.approx(
        np.maximum(-np.expm1((eps - 1) / 2), 0.0), rel=1e-8
    )
    a = 3.0
    truth = math.log(
        a / (2 * a - 1) * math.exp(a - 1) + (a - 1) / (2 * a - 1) * math.exp(-a)
    ) / (a - 1)
    assert profile.renyi(a) == pytest.approx(truth, rel=1e-8)
    assert profile.renyi(math.inf) == pytest.approx(1.0, rel=1e-12)


def test_flat_laplace_in_three_dimensions():
    """An axial integral of a different shape: the density of the projection, δ at ε = 0 by total variation."""
    D = 0.8
    # TV = P₁(y·e < D/2) − P₂(…) = 2·P₁(0 < y·e < D/2); in ℝ³ the projection of e^{−r}/8π has density (1+|x|)e^{−|x|}/4
    truth = 2 * quad(lambda x: (1 + x) * math.exp(-x) / 4, 0, D / 2)[0]
    assert laplace_profile(0, 3, 1.0, D).delta(0.0) == pytest.approx(truth, rel=3e-9)


def test_epsilon_is_on_the_private_side():
    profile = gaussian_profile(-1, 3, 1.0, 1.0)
    for delta in (0.3, 1e-3, 1e-12, 1e-30):
        eps = profile.epsilon(delta)
        assert profile.delta(eps) <= delta < profile.delta(eps * (1 - 1e-9))


def test_round_trip_through_a_dictionary():
    profile = laplace_profile(1.0, 3, 0.2, 0.1)
    assert guarantee_from_dict(profile.to_dict()) == profile.guarantee


def test_bad_questions_are_refused():
    profile = gaussian_profile(1, 2, 1.0, 1.0)
    for bad in (-1.0, math.nan):
        with pytest.raises(ParameterError):
            profile.delta(bad)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError):
            profile.epsilon(bad)
    for bad in (0.5, math.nan):
        with pytest.raises(ParameterError):
            profile.renyi(bad)


def test_rho_where_space_is_nearly_flat():
    """No order above 10⁴ need be tried: between Kullback–Leibler and what μ implies there is a part in 10⁸."""
    profile = gaussian_profile(-1e-6, 100, 0.0223607, 0.01)
    assert profile.renyi(1.0) <= profile.rho <= profile.mu**2 / 2 * (1 + 2e-9)
    assert profile.rho < profile.renyi(1.0) * (1 + 1e-7)


@pytest.mark.parametrize("largest", [1e-9, 0.5, 10.001, 50.3, 1000.001, 1e5, 9e6])
def test_laplace_on_the_line_close_to_its_cap(largest: float) -> None:
    """1 − e^{(ε−T)/2} in closed form: never below it, whatever T and however close to it."""
    profile = laplace_profile(0.0, 1, 1.0, largest)
    for gap in (
        0.9 * largest,
        30.0,
        3.0,
        0.1,
        1e-3,
        1e-5,
        1e-3 * largest,
        1e-6 * largest,
        1e-9 * largest,
    ):
        eps = largest - gap
        if 0 <= eps < largest:
            with mpmath.workdps(40):
                truth = -mpmath.expm1(-(mpmath.mpf(largest) - mpmath.mpf(eps)) / 2)
                excess = float(mpmath.mpf(float(profile.delta(eps))) / truth - 1)
            assert (
                -1e-15
                <= excess
                <= 2e-9 + 4e-6 * (gap < 1e-7 * largest) + 1e-15 * largest / gap * 2
            )


@pytest.mark.parametrize("loss_cap", [0.1, 1.0, 5.0])
def test_tradeoff_of_the_laplace_on_the_line(loss_cap):
    """Dong, Roth and Su 2022: the loss has atoms at ±T, where the best test is randomized."""
    alpha = np.concatenate(
        [
            np.linspace(0.0, 1.0, 201),
            np.geomspace(1e-12, 1e-3, 20),
            1 - np.geomspace(1e-12, 1e-3, 20),
        ]
    )
    ratio = math.exp(-loss_cap)
    middle = ratio / (4 * np.maximum(alpha, 1e-300))
    truth = np.where(
        alpha < ratio / 2,
        1 - alpha / ratio,
        np.where(alpha <= 0.5, middle, ratio * (1 - alpha)),
    )
    found = laplace_profile(0.0, 1, 1.0, loss_cap).tradeoff(alpha)
    assert np.all(found <= truth * (1 + 1e-15))
    assert found == pytest.approx(truth, rel=3e-9)


def test_tradeoff_of_the_laplace_on_the_circle():
    """Convex and its own inverse, as every trade-off curve of a pair that an isometry swaps."""
    alpha = np.linspace(0.0, 1.0, 401)
    found = laplace_profile(1.0, 1, 0.5, 1.0).tradeoff(alpha)
    assert np.all(np.diff(found, 2) >= -1e-12)
    assert laplace_profile(1.0, 1, 0.5, 1.0).tradeoff(found[1:-1]) == pytest.approx(
        alpha[1:-1], rel=3e-9
    )


@pytest.mark.parametrize("curvature", [-1.0, 1.0])
def test_tradeoff_next_to_one_keeps_its_digits(curvature):
    """Where space is all but flat the curve is Φ(Φ⁻¹(1−α) − μ); 1 − α is exact in doubles."""
    alpha = 1 - np.array([1e-9, 1e-12, 2.0**-53])
    truth = norm.cdf(norm.isf(alpha) - 1.0)  # isf keeps the digits of 1 − α
    assert gaussian_profile(curvature, 3, 1e-5, 1e-5).tradeoff(alpha) == pytest.approx(
        truth, rel=3e-8
    )


@pytest.mark.parametrize(("d", "scale"), [(2, 5e-5), (10, 5e-5), (3, 1e-4)])
def test_mu_where_space_is_nearly_flat_does_not_depend_on_the_end_of_the_table(
    d, scale
):
    """To second order in the scale, μ on H^d is Δ/σ·(1 + (d−1)σ²/6): the end of a table must not show."""
    profile = gaussian_profile(-1.0, d, scale, scale)
    asked_before = gaussian_profile(-1.0, d, scale, scale)
    asked_before.renyi(256.0)
    assert 1.0 < profile.mu < 1 + (d - 1) * scale**2 + 3e-9
    assert profile.mu == pytest.approx(asked_before.mu, rel=1e-11)


@pytest.mark.parametrize("mu", [1e-6, 0.02, 1.0, 7.0, 40.0])
def test_mu_from_delta_there_and_back(mu):
    """Each by the logarithm that has the digits: of δ below one half, of 1 − δ above."""
    eps = np.array([0.0, 0.1, 1.0, 5.0]) * mu
    log_delta = gdp_log_delta(mu, eps)
    low, high = eps[log_delta < -math.log(2)], eps[log_delta > -math.log(2)]
    rest = np.array([float(mp.log(one_minus_delta(mu, x))) for x in high])
    for start in (None, 1.7 * mu):
        assert mu_of_small_delta(
            low, log_delta[log_delta < -math.log(2)], start
        ) == pytest.approx(mu, rel=1e-11)
        assert mu_of_large_delta(high, rest, start) == pytest.approx(mu, rel=1e-11)
    if mu < 7:
        assert gdp_mu(eps, gdp_delta(mu, eps)) == pytest.approx(mu, rel=1e-9)


def testmills_ratio():
    x = np.array([-3.0, 0.0, 2.0, 60.0])
    with mp.workdps(60):
        truth = [float(mp.ncdf(-v) / mp.npdf(v)) for v in x]
        assert mills_ratio(x) == pytest.approx(truth, rel=1e-13)
        for a, b in ((0.5, 3.0), (5.0, 5.0001), (150.0, 150.01), (-2.0, -1.9)):
            difference = mp.ncdf(-a) / mp.npdf(a) - mp.ncdf(-b) / mp.npdf(b)
            found = float(mills_difference(np.array(a), np.array(b)))
            assert found == pytest.approx(float(difference), rel=1e-3)
    assert mills_ratio(np.array(-50.0)) == mills_ratio(np.array(-35.0))


def test_divergences_of_a_thousand_standard_deviations_in_a_thousand_dimensions():
    profile = gaussian_profile(-1.0, 1000, 0.01, 10.0)
    # cos φ is 0 ± 0.03, so d₂ = 10 + log cosh r to within that, r the mode of the radius: E[d₂² − r²]/2σ² by the law of r.
    r = np.linspace(0.2, 0.45, 4001)
    log_law = -r * r / 2e-4 + 999 * np.log(np.sinh(r))
    law = np.exp(log_law - log_law.max())
    divergence = (
        np.sum(law * ((10 + np.log(np.cosh(r))) ** 2 - r * r)) / np.sum(law) / 2e-4
    )
    assert profile.renyi(1.0) == pytest.approx(divergence, rel=1e-3)


@pytest.mark.parametrize(
    ("scale", "sensitivity"), [(1e-3, math.pi), (1e-3, 300.0), (1e-6, 1.0)]
)
def test_divergences_of_high_orders_are_not_below_those_of_the_tail(scale, sensitivity):
    profile = gaussian_profile(-1.0, 2, scale, sensitivity)
    for order in (
        1e3,
        1e6,
        1e8,
        1e100,
    ):  # hyperbolic distances grow at least as flat ones: order·(Δ/σ)²/2 in the limit
        value = profile.renyi(order) / (order * (sensitivity / scale) ** 2 / 2)
        assert 1 - 1e-8 < value < 1 + 1e-6


def renyi_of_laplace(order, e):
    """log E e^{(α−1)L}/(α−1) for Laplace densities e·scale apart; Kullback–Leibler at 1."""
    if order == 1:
        return e + math.expm1(-e)
    a = order
    return np.logaddexp(
        math.log(a / (2 * a - 1)) + (a - 1) * e, math.log((a - 1) / (2 * a - 1)) - a * e
    ) / (a - 1)  # fmt: skip


@pytest.mark.parametrize("e", [0.03, 0.7, 3.0, 12.0])
def test_every_number_of_the_laplace_mechanism(e):
    profile = laplace_profile(0.0, 1, 2.0, 2.0 * e)
    close = {"rel": 1e-7}
    assert profile.pure_epsilon == pytest.approx(e, rel=1e-14)
    for order in (1.0, 1.1, 2.0, 9.0, 300.0):
        truth = renyi_of_laplace(order, e)
        assert truth * (1 - 1e-12) <= profile.renyi(order) <= truth * (1 + 1e-7)
    assert profile.renyi(math.inf) == profile.pure_epsilon
    assert profile.renyi(np.array([1.0, 2.0])).shape == (2,)
    best = minimize_scalar(
        lambda x: -renyi_of_laplace(1 + 2.0**x, e) / (1 + 2.0**x),
        bounds=(-6, 12),
        method="bounded",
    )
    rho = max(-best.fun, renyi_of_laplace(1.0, e))
    assert rho * (1 - 1e-9) <= profile.rho <= rho * (1 + 1e-6)
    x = e / 2
    truth = 2 * math.acos(math.exp(-x) * (1 + x))
    assert truth * (1 - 1e-9) <= profile.hellinger_angle <= truth * (1 + 1e-6)
    assert profile.rao == pytest.approx(e, **close)
    alpha = np.array([0.0, 0.1 * math.exp(-e), 0.5 * math.exp(-e), 0.2, 0.5, 0.9, 1.0])
    curve = np.where(
        alpha < math.exp(-e) / 2,
        1 - math.exp(e) * alpha,
        np.where(
            alpha <= 0.5,
            math.exp(-e) / (4 * np.maximum(alpha, 1e-300)),
            math.exp(-e) * (1 - alpha),
        ),
    )
    found = profile.tradeoff(alpha)
    assert np.all(found <= curve * (1 + 1e-9) + 1e-15)
    assert found == pytest.approx(curve, rel=1e-6, abs=1e-12)
    eps = e * np.array([0.0, 0.3, 0.8, 0.99])
    delta = -np.expm1((eps - e) / 2)
    assert np.all(profile.delta(eps) >= delta)
    assert profile.delta(eps) == pytest.approx(delta, rel=3e-9)
    assert profile.delta(np.array([e, 2 * e])).tolist() == [0.0, 0.0]
    grid = np.linspace(0, 0.999 * e, 200)
    mu = float(gdp_mu(grid, -np.expm1((grid - e) / 2)).max())
    assert mu * (1 - 1e-9) <= profile.mu <= mu * (1 + 1e-4)
    at = profile.mu_at(np.array([0.0, 0.5 * e, e, 2 * e]))
    truth = [
        float(gdp_mu(0.0, -math.expm1(-e / 2))),
        float(gdp_mu(0.5 * e, -math.expm1(-e / 4))),
        0.0,
        0.0,
    ]
    assert at == pytest.approx(truth, rel=1e-8)
    for target in (0.5 * float(profile.delta(0.0)), 1e-6 * float(profile.delta(0.0))):
        found = profile.epsilon(target)
        assert found == pytest.approx(e + 2 * math.log1p(-target), rel=1e-6, abs=1e-9)
        assert profile.delta(found) <= target


def test_what_is_at_the_largest_loss_counts_no_more():
    def sampler(rng, which, n):
        return np.linspace(-1.0, 2.4, n)

    def run(eps_max):
        options = {"n": 500, "m": 2, "n_eps": 4, "corrected": True, "max_loss": 1.0}
        return algorithm2_estimate(
            sampler, 1.0, eps_max, np.random.default_rng(0), **options
        )

    found = run(2.0)
    assert found.eps.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    share = math.log(4 * 5 / 0.01)  # half of the probability is for each bound
    bernstein = np.sqrt(2 * found.variance * 1000 / 999 * share) + 7 * share / (3 * 999)
    bound = found.delta + np.minimum(bernstein, math.sqrt(math.log(200) / 2000))
    at = [float(gdp_mu(e, b)) for e, b in zip([0.5, 1.0, 1.0], bound[:3], strict=True)]
    assert found.mu_upper == pytest.approx(max(at[:2]), rel=1e-9)
    assert run(0.99).mu_upper == math.inf
    assert math.isfinite(run(1.0).mu_upper)


def test_rho_is_the_largest_over_all_orders_wherever_it_is():
    """D_α/α = exp(−log²(α/1.6)), largest between the orders of the grid; no loss exceeds 9."""
    peaked = SimpleNamespace(
        renyi_at=lambda order: order * math.exp(-(math.log(order / 1.6) ** 2)),
        pure_epsilon=9.0,
        mu=math.inf,
    )
    peaked._divergence_ratio = lambda x: PrivacyProfile._divergence_ratio(peaked, x)
    peaked._no_larger_order_matters = lambda order, rho: (
        PrivacyProfile._no_larger_order_matters(peaked, order, rho)
    )
    assert PrivacyProfile.rho.func(peaked) == pytest.approx(1.0, rel=2e-9)
