"""Limits, refusals, monotonicity in the distance, and the hyperbolic floor."""

import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from scipy import stats
from scipy.special import gammaln, log_ndtr, ndtr, ndtri

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.privacy import (
    GDP,
    ZCDP,
    RaoDP,
    compose_profiles,
    convert,
    gaussian_floor,
    gaussian_profile,
    laplace_profile,
)
from curvedp.privacy.enclosure.mu import MuEnclosure
from curvedp.privacy.guarantees.gaussian import gdp_delta
from curvedp.privacy.loss.space_form import SpaceFormLoss
from curvedp.privacy.profiles import radial
from curvedp.privacy.profiles.constant_curvature import ConstantCurvatureProfile
from curvedp.privacy.profiles.hyperbolic_floor import FloorProfile
from support.privacy import delta_lower_bound, first_that_holds, log_constant
from support.profile_oracle import brute_delta


@pytest.mark.parametrize("make", [gaussian_profile, laplace_profile])
@pytest.mark.parametrize(
    "bad",
    [
        (1, 2, 1.0, math.pi * 1.01),
        (4, 2, 1.0, math.pi / 2 * 1.01),
        (1, 2, 1.0, 0.0),
        (1, 2, 1.0, -1.0),
        (1, 2, 1.0, math.nan),
        (1, 2, math.nan, 1.0),
        (1, 2, math.inf, 1.0),
        (1, 2, 0.0, 1.0),
        (math.nan, 2, 1.0, 1.0),
        (1, 0, 1.0, 1.0),
        (1, 2.5, 1.0, 1.0),
        (0.0, 2**53 + 1, 1.0, 1.0),
        (1, 2, "1", 1.0),
    ],
)
def test_bad_parameters_are_refused(make, bad):
    with pytest.raises(ParameterError):
        make(*bad)


def test_laplace_that_does_not_exist():
    with pytest.raises(NotIntegrable, match=r"0\.25"):
        laplace_profile(-1, 5, 0.5, 1.0)
    assert laplace_profile(-1, 5, 0.2499, 1.0).mu < math.inf


@pytest.mark.parametrize(
    "case",
    [
        (1, 2, 1e-6, 1.0),
        (1, 2, 1e6, 1.0),
        (1, 2, 1.0, 1e-9),
        (1, 2, 1.0, 1e-12),
        (1, 2, 1.0, math.pi),
        (1, 1, 1.0, math.pi),
        (1, 1, 1e-6, 1.0),
        (-1, 3, 1e-6, 1.0),
        (-1, 3, 1e6, 1.0),
        (-1, 3, 1.0, 1e-9),
        (0, 3, 1e-6, 1.0),
        (1, 10_000, 1.0, 1.0),
        (-1, 10_000, 0.01, 0.01),
        (-1, 2, 1.0, 50.0),
    ],
)
@pytest.mark.parametrize("make", [gaussian_profile, laplace_profile])
def test_limits_are_numbers(make, case):
    if make is laplace_profile and case[0] < 0:
        case = (*case[:2], min(case[2], 0.9 / (case[1] - 1)), case[3])
    profile = make(*case)
    eps = np.array([0.0, 1e-300, 1e-9, 1.0, 1e3, 1e9, 1e300])
    delta = profile.delta(eps)
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(np.diff(delta) <= 0)
    assert delta[-1] <= 5e-324
    assert 0 < profile.mu < math.inf
    assert 0 < profile.rao < math.inf
    assert 0 <= profile.epsilon(1e-9) < math.inf
    f = profile.tradeoff(np.array([0.0, 0.01, 0.5, 1.0]))
    assert np.all(np.isfinite(f))
    assert np.all(np.diff(f) <= 1e-12)


def test_small_scales_are_flat():
    assert gaussian_profile(1, 3, 1e-6, 1.0).mu == pytest.approx(1e6, rel=1e-4)
    assert gaussian_profile(-1, 3, 1e-6, 1.0).mu == pytest.approx(1e6, rel=1e-8)
    assert gaussian_profile(-1e-12, 3, 1.0, 1.0).mu == pytest.approx(1.0, rel=1e-7)
    assert laplace_profile(1e-12, 3, 1.0, 1.0).delta(0.2) == pytest.approx(
        laplace_profile(0, 3, 1.0, 1.0).delta(0.2), rel=1e-8
    )


def test_curvature_is_a_unit_of_length():
    a, b = gaussian_profile(-4.0, 3, 0.5, 0.25), gaussian_profile(-1.0, 3, 1.0, 0.5)
    assert a.mu == pytest.approx(b.mu, rel=1e-12)


def test_the_sphere_has_a_pure_epsilon():
    profile = gaussian_profile(1, 2, 1.0, 1.0)
    cap = (2 * math.pi - 1) / 2
    assert profile.pure_epsilon == pytest.approx(cap, rel=1e-14)
    assert profile.delta(cap * (1 + 1e-12)) == 0.0
    assert 0 < profile.delta(cap * (1 - 1e-6)) < 1e-15


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("k", [-1, 0, 1])
@pytest.mark.parametrize("d", [2, 7])
def test_delta_grows_with_the_distance(kind, k, d):
    """Theorem P1 of docs/theory/exact-profiles.md, tried on brute force: no shorter distance is worse."""
    scale = 0.1 if kind == "laplace" else 0.7
    distances = [0.05, 0.7, 2.4]
    for eps in (0.0, 1.5):
        deltas = [brute_delta(kind, k, d, scale, D, eps) for D in distances]
        assert np.all(np.diff(deltas) >= -1e-10)


@pytest.mark.parametrize("loss", [1e3, 1e9, 1e12, 1e15, 1e17, 1e140])
def test_divergences_of_a_huge_loss(loss):
    """The Laplace law on ℝ: KL = T − 1 + e^{−T}, order 2 gives T + log ⅔ + o(1); never below, nor above T."""
    profile = laplace_profile(0.0, 1, 1e-50, loss * 1e-50)
    for order, exact in (
        (1.0, loss - 1),
        (2.0, loss + math.log(2 / 3)),
        (1e6, loss - 2e-6),
        (1e200, loss),
    ):
        assert (
            exact * (1 - 1e-14)
            <= profile.renyi(order)
            <= max(exact * (1 + 3e-9), profile.pure_epsilon)
        )
    with pytest.raises(ParameterError):
        profile.renyi("2")


@pytest.mark.parametrize("make", [gaussian_profile, laplace_profile])
def test_ranges_end_where_they_say(make):
    good = [
        (1.0, 2, 1e6, 1.0),
        (0.0, 3, 1e-7, 1.0) if make is laplace_profile else (1.0, 3, 1e-7, 1.0),
        (1.0, 2, 1.0, math.pi),
        (4.0, 1, 1.0, math.pi / 2),
        (0.25, 2, 1.0, 2 * math.pi),
        (-1.0, 2, 0.5, 300.0),
        (-1.0, 1, 1e50, 1e40),
    ]
    for arguments in good:
        assert make(*arguments).dim == arguments[1]
    bad = [
        (1.0, 2, 1.01e6, 1.0),
        (1.0, 2, 1e-7 * (1 - 1e-9), 1.0),
        (1.0, 2, 1.0, 1e-15 * (1 - 1e-9)),
        (1.0, 2, 1.0, math.pi * (1 + 1e-15)),
        (4.0, 1, 1.0, math.pi / 2 * (1 + 1e-15)),
        (-1.0, 2, 0.5, 300.0001),
        (1.0, 2, 1e-21, 1e-22),
        (1.0, 0, 1.0, 1.0),
        (1.0, 1.5, 1.0, 1.0),
        (math.inf, 2, 1.0, 1.0),
        (1.0, 2, 0.0, 1.0),
        (1.0, 2, 1.0, 0.0),
    ]
    for arguments in bad:
        with pytest.raises(ParameterError):
            make(*arguments)


def test_where_laws_end_and_what_spaces_are_called():
    for curvature, dim, limit in ((-1.0, 2, 1.0), (-1.0, 3, 0.5), (-4.0, 2, 0.5)):
        with pytest.raises(NotIntegrable):
            laplace_profile(curvature, dim, limit, 1.0)
        assert laplace_profile(curvature, dim, limit * (1 - 1e-12), 1.0).scale < limit
        assert gaussian_profile(curvature, dim, limit, 1.0).scale == limit
    assert laplace_profile(-1.0, 1, 5.0, 1.0).pure_epsilon == pytest.approx(0.2)
    with pytest.raises(ParameterError, match="kind"):
        ConstantCurvatureProfile("cauchy", 0.0, 1, 1.0, 1.0)
    names = {(0.0, 3): "Euclidean(3)", (1.0, 2): "Sphere(2)", (-1.0, 4): "Lorentz(4)"}
    for (curvature, dim), name in names.items():
        assert gaussian_profile(curvature, dim, 1.0, 1.0).space == name
    assert "curvature 0.5" in gaussian_profile(0.5, 2, 1.0, 1.0).space
    for curvature, dim in ((0.0, 3), (1.0, 3), (-1.0, 1)):
        assert gaussian_floor(curvature, dim, 1.0) == 0.0
        assert gaussian_profile(curvature, dim, 1.0, 1.0).floor is None
    assert gaussian_profile(-1.0, 2, 1.0, 1.0).floor == FloorProfile(-1.0, 2, 1.0)
    assert gaussian_floor(-4.0, 3, 0.5) == pytest.approx(
        gaussian_floor(-1.0, 3, 1.0), rel=1e-9
    )
    for curvature, dim, sensitivity in (
        (0.0, 2, 1.0),
        (1.0, 2, 1.0),
        (-1.0, 1, 1.0),
        (-1.0, 2, 0.0),
    ):
        with pytest.raises(ParameterError):
            FloorProfile(curvature, dim, sensitivity)


@pytest.mark.parametrize(("curvature", "dim"), [(0.0, 3), (-1.0, 1), (0.0, 1)])
def test_flat_gaussians_in_closed_form(curvature, dim):
    profile, mu = gaussian_profile(curvature, dim, 2.0, 1.4), 0.7
    close = {"rel": 1e-13}
    assert profile.mu == pytest.approx(mu, **close)
    assert profile.rho == pytest.approx(mu * mu / 2, **close)
    assert profile.rao == pytest.approx(mu, **close)
    assert profile.renyi(3.0) == pytest.approx(3 * mu * mu / 2, **close)
    assert profile.pure_epsilon == math.inf
    assert profile.hellinger_angle == pytest.approx(
        2 * math.acos(math.exp(-mu * mu / 8)), rel=1e-12
    )
    assert profile.delta(0.5) == pytest.approx(gdp_delta(mu, 0.5), rel=1e-12)
    assert profile.tradeoff(0.3) == pytest.approx(ndtr(-ndtri(0.3) - mu), rel=1e-12)
    assert profile.mu_at(np.array([0.0, 9.0])) == pytest.approx([mu, mu], **close)


def test_gaussians_have_no_pure_epsilon():
    assert gaussian_profile(0.0, 2, 1.0, 1.0).pure_epsilon == math.inf
    assert gaussian_profile(-1.0, 2, 1.0, 1.0).pure_epsilon == math.inf
    assert gaussian_profile(1.0, 2, 1.0, 1.0).pure_epsilon == pytest.approx(
        (2 * math.pi - 1) / 2
    )  # L <= Δ(2π − Δ)/2σ²


@pytest.mark.parametrize(("d", "s", "D"), [(2, 1.0, 0.5), (5, 0.4, 1.0), (3, 3.0, 2.0)])
def test_hyperbolic_tails_close_where_two_bounds_meet(d, s, D):
    profile = gaussian_profile(-1.0, d, s, D)
    log_k, law = log_constant(d, s, D)
    assert profile._subgaussian_tail() == pytest.approx(
        (log_k, law.mode * D / s**2), abs=1e-9
    )
    assert log_k >= 0
    u = np.linspace(0, 8 * s, 200)
    growth = -(d - 1) * math.log(-math.expm1(-2 * law.mode))
    assert np.all(law.log_rho(u) <= growth - u**2 / (2 * s * s) + 1e-9)
    mu, limit = profile.mu * 1.05, D / s
    assert profile._limiting_mu == pytest.approx(limit)

    def z(eps):
        return eps / limit - limit / 2 - law.mode / s

    eps = first_that_holds(lambda e: profile._large_eps_are_proved(mu, e), 1e-6, 1e5)
    excess = log_k - z(eps) ** 2 / 2 - delta_lower_bound(mu, eps)
    slope = (
        z(eps) / limit
        - eps / mu**2
        + 0.5
        - 2 / (mu * (eps / mu + mu / 2 + math.sqrt(2)))
    )
    assert excess == pytest.approx(0.0, abs=1e-6) or slope == pytest.approx(
        0.0, abs=1e-6
    )
    assert excess <= 1e-6
    assert slope >= -1e-6
    assert not profile._large_eps_are_proved(limit, 1e9)
    tail = np.exp(
        profile.loss_table.log_upper_tail(np.array([min(eps, profile.loss_table.end)]))
    )[0]
    assert tail <= math.exp(log_k) * stats.norm.sf(
        z(min(eps, profile.loss_table.end))
    ) * (1 + 1e-9)
    # orders: log E e^{(α−1)L}/(α−1) is bounded by the same constant
    order = first_that_holds(
        lambda a: profile._no_larger_order_matters(a, profile.rho * 1.01),
        1.0 + 1e-9,
        1e9,
    )
    share = order - 1
    bound = limit**2 / 2 + (log_k / share + law.mode * D / s**2) / order
    assert bound == pytest.approx(
        max(profile.rho * 1.01, limit**2 / 2 * (1 + 1e-10)), rel=1e-6
    )
    for a in (2.0, 5.0):
        assert profile.renyi(a) <= (
            log_k / (a - 1) + law.mode * D / s**2 + a * limit**2 / 2
        ) * (1 + 1e-6)


def test_one_dimension_and_the_uniform_limit():
    line = gaussian_profile(0.0, 1, 2.0, 1.0)
    t = np.array([0.0, 0.3, 1.0])
    upper, lower = line.loss_law.log_tails(t)
    assert upper == pytest.approx(log_ndtr(0.25 - t / 0.5), rel=1e-9)
    assert lower == pytest.approx(log_ndtr(t / 0.5 - 0.25), rel=1e-9)
    assert SpaceFormLoss("gaussian", 1, 3, 1e6, 1.0).mode == pytest.approx(
        math.pi / 2, rel=1e-9
    )
    assert SpaceFormLoss("gaussian", 1, 3, 1e-9, 1.0).mode == pytest.approx(
        math.sqrt(2) * 1e-9, rel=1e-9
    )
    assert SpaceFormLoss("gaussian", 1, 2, 3e8, 1.0).mode <= math.pi / 2
    single = compose_profiles([GDP(0.3)])
    assert single == GDP(0.3)
    assert compose_profiles([GDP(3.0), GDP(4.0)]) == GDP(5.0)
    sphere = gaussian_profile(1.0, 2, 1.0, 1.0)
    assert convert(sphere, to=RaoDP) == RaoDP(sphere.hellinger_angle, angle="hellinger")


def test_more_nodes_where_the_table_asks_for_them(monkeypatch):
    orders = []
    original = radial.TabulatedLossLaw

    def fussy(law):
        orders.append(law.order)
        if law.order < 256:
            raise ArithmeticError("not resolved")
        return original(law)

    monkeypatch.setattr(radial, "TabulatedLossLaw", fussy)
    profile = ConstantCurvatureProfile("gaussian", 1.0, 2, 1.0, 1.0)
    assert profile.delta(0.2) == pytest.approx(
        gaussian_profile(1.0, 2, 1.0, 1.0).delta(0.2), rel=1e-9
    )
    assert orders[:3] == [64, 128, 256]
    monkeypatch.setattr(
        radial,
        "TabulatedLossLaw",
        lambda law: (_ for _ in ()).throw(ArithmeticError("never")),
    )
    with pytest.raises(ArithmeticError):
        _ = ConstantCurvatureProfile("gaussian", 1.0, 2, 1.0, 1.1).loss_table


def closes(d, s, D, mu, r, log_density):
    """docs/theory/exact-profiles.md, Theorem P2, in floats: δ <= δ_μ from ε = (2rD + D²)/2s² on."""
    n, a = d - 1, (d - 1) / 2
    coth = 1 / math.tanh(r)
    room = (1 - (D / (s * mu)) ** 2) / s**2
    slope = r / s**2 - n * coth
    if (
        room <= 0
        or slope <= 0
        or n * (coth - 1 / r) / r + a * D / (r * r * (r + D)) > room
    ):
        return False
    eps = (2 * r * D + D * D) / (2 * s * s)
    x, y = eps / mu - mu / 2, eps / mu + mu / 2
    if x <= 0:
        return False
    log_c = 0.0 if n == 1 else gammaln(2 * a) - 2 * gammaln(a) - math.log(a)
    angle = (
        log_c
        + a * math.log((math.cosh(D) + math.sinh(D) * coth) / (2 * (r + D)))
        + gammaln(a + 1)
    )
    tail = (
        log_density + angle - (a + 1) * math.log(slope) - math.log1p(slope * s * s / D)
    )
    gdp = (
        math.log(mu)
        - x * x / 2
        - math.log(2 * math.pi) / 2
        - 2 * math.log(y + math.sqrt(2))
    )
    return tail <= gdp


@pytest.mark.parametrize(("d", "s", "D"), [(2, 1.0, 0.5), (3, 0.5, 1.0), (6, 2.0, 0.3)])
def test_the_theorem_that_closes_a_tail_term_by_term(d, s, D):
    profile = gaussian_profile(-1.0, d, s, D)
    certifier, law = MuEnclosure(profile), profile.loss_law
    seen = set()
    for excess in (1e-4, 0.02, 0.5):
        mu = profile.mu * (1 + excess)
        for r in np.geomspace(s / 4, 200 * s, 60):
            log_density = float(law.log_rho(np.array([r - law.mode]))[0]) - law.log_mass
            answers = {
                closes(d, s, D, mu * f, float(r), log_density)
                for f in (1 - 1e-7, 1 + 1e-7)
            }
            if len(answers) == 1:
                assert (
                    certifier.hyperbolic_tail.applies(arb(mu), arb(float(r)))
                    == answers.pop()
                )
                seen.add(
                    bool(certifier.hyperbolic_tail.applies(arb(mu), arb(float(r))))
                )
        # the first rung at which it does
        end = certifier.hyperbolic_tail.smallest_eps(arb(mu))
        rungs = [s / 4 * 1.125**k for k in range(200)]
        first = next(
            r for r in rungs
            if closes(d, s, D, mu, r, float(law.log_rho(np.array([r - law.mode]))[0]) - law.log_mass)
        )  # fmt: skip
        assert end == pytest.approx((2 * first * D + D * D) / (2 * s * s), rel=1e-9)
    assert seen == {True, False}


def test_the_largest_loss_is_never_below_the_truth():
    """It carries several roundings, and π is not a double: one more ulp was not enough in one case of eight."""
    rng = np.random.default_rng(8)
    for _ in range(150):  # one case of eight failed
        curvature, s = float(10 ** rng.uniform(-2, 2)), float(10 ** rng.uniform(-1, 1))
        D = float(rng.uniform(0.01, 0.99) * math.pi / math.sqrt(curvature))
        dim = int(rng.integers(1, 6))
        with mp.workdps(50):
            x = mp.mpf(D) * mp.sqrt(mp.mpf(curvature))
            truth = x * (2 * mp.pi - x) / (2 * mp.mpf(s) ** 2 * mp.mpf(curvature))
            found = mp.mpf(gaussian_profile(curvature, dim, s, D).pure_epsilon)
            assert truth <= found <= truth * (1 + mp.mpf(10) ** -14)
            laplace = laplace_profile(curvature, dim, s, D)
            assert mp.mpf(D) / mp.mpf(s) <= mp.mpf(laplace.pure_epsilon)
            assert laplace.delta(float(laplace.pure_epsilon)) == 0.0


def test_the_same_public_parameters_give_the_same_object():
    assert gaussian_profile(1.0, 2, 0.7, 0.3) is gaussian_profile(1.0, 2, 0.7, 0.3)
    assert gaussian_profile(1.0, 2, 0.7, 0.3) is not gaussian_profile(1.0, 2, 0.7, 0.31)
    for bad in (True, "2", None, [2], np.nan):
        with pytest.raises(ParameterError):
            gaussian_profile(1.0, bad, 0.7, 0.3)
        with pytest.raises(ParameterError):
            gaussian_profile(1.0, 2, bad, 0.3)


def test_zcdp_of_a_profile_is_its_own_rho():
    for profile in (
        gaussian_profile(1.0, 2, 1.0, 1.0),
        laplace_profile(0.0, 2, 1.0, 0.5),
        laplace_profile(1.0, 2, 1.0, 0.5),
    ):
        assert convert(profile, to=ZCDP).rho == profile.rho <= profile.mu**2 / 2
        for order in (1.5, 3.0, 20.0):
            assert profile.renyi(order) <= profile.rho * order * (1 + 1e-8)


def test_no_delta_is_above_one():
    assert (
        laplace_profile(0.0, 1, 1e-3, 1.0).delta_upper_bound(np.array([0.0, 1.0])).max()
        == 1.0
    )
