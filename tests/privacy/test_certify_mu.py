"""The smallest μ in ball arithmetic: enclosures, proofs by chords, and what is not certified."""

import itertools
import math

import mpmath
import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from scipy import optimize

from curvedp.errors import NotResolved
from curvedp.privacy import certified_mu, gaussian_profile, laplace_profile
from curvedp.privacy.enclosure import mu as certify_mu
from curvedp.privacy.enclosure.functions import normal_cdf, scaled_normal_tail
from curvedp.privacy.enclosure.mu import (
    MuEnclosure,
    gdp_delta_and_slope,
    mu_lower_bound,
)
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_log_delta


@pytest.mark.parametrize(
    "case",
    [
        ("gaussian", 1, 3, 1.0, 1.0),
        ("gaussian", -1, 3, 1.0, 1.0),
        ("laplace", 0, 1, 1.0, 1.0),
    ],
)
def test_certified_mu(case):
    lower, upper = certified_mu(*case)
    mu = (gaussian_profile if case[0] == "gaussian" else laplace_profile)(*case[1:]).mu
    assert lower <= mu <= upper <= lower * (1 + 1e-6)


def h3_mu(k, s, D, eps):
    """μ_ε on H³ of curvature −k² in mpmath: the cosine of the angle is uniform, so only the radius is left."""
    s, D, eps = (mpmath.mpf(x) for x in (s * k, D * k, eps))

    def part(t, sign):
        def fraction(r):
            b = mpmath.sqrt(max(r * r + 2 * s * s * t, 0))
            cosine = (mpmath.cosh(r) * mpmath.cosh(D) - mpmath.cosh(b)) / (
                mpmath.sinh(r) * mpmath.sinh(D)
            )
            return (1 + sign * cosine) / 2

        def rho(r):
            return mpmath.exp(-r * r / (2 * s * s)) * mpmath.sinh(r) ** 2

        edge = abs(D**2 - 2 * s**2 * t) / (2 * D)
        points = [edge + x * s for x in (0, 1, 2, 4, 8, 16)]
        inside = mpmath.quad(lambda r: rho(r) * fraction(r), points)
        if sign > 0 and 2 * s**2 * t < D**2:
            inside += mpmath.quad(rho, [0, edge])
        return inside / mpmath.quad(rho, [x * s for x in (0, 1, 2, 4, 8, 16)])

    delta = part(eps, 1) - mpmath.exp(eps) * part(-eps, -1)

    def gap(mu):
        return (
            mpmath.ncdf(mu / 2 - eps / mu)
            - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)
            - delta
        )

    return mpmath.findroot(gap, (D / s, D / s * 1.01))


def test_certified_mu_where_space_is_nearly_flat():
    """κ = −0.0625: μ_ε falls from its largest value, at ε = 0, to Δ/σ, by 2.1 per cent."""
    lower, upper = certified_mu("gaussian", -0.0625, 3, 1.0, 1.0)
    assert (
        lower
        <= gaussian_profile(-0.0625, 3, 1.0, 1.0).mu
        <= upper
        <= lower * (1 + 1e-6)
    )
    with mpmath.workdps(20):
        truth = [h3_mu(0.25, 1, 1, eps) for eps in (0, 3)]
    assert lower <= truth[0] <= upper  # the supremum is at 0
    assert 1 < truth[1] < lower


def test_a_mu_that_is_too_small_is_not_certified():
    certifier = MuEnclosure(gaussian_profile(-0.04, 3, 1.0, 1.0))
    mu = certifier.profile.mu
    assert certifier._is_proved_by_chord(0.0, 0.01, arb(mu * (1 + 1e-3)))
    assert not certifier._is_proved_by_chord(0.0, 0.01, arb(mu * (1 - 1e-6)))
    # nor does the tail close for a μ at or below its limit Δ/σ, at any radius
    assert not any(
        certifier.hyperbolic_tail.applies(arb(1.0 - 1e-9), arb(r))
        for r in (0.1, 1.0, 10.0, 1000.0)
    )


@pytest.mark.parametrize(
    "case",
    [
        (-0.01, 3, 1.0, 1.0),
        (-1.0, 2, 0.3, 1.0),
        (-1.0, 20, 0.5, 0.2),
        (-4.0, 5, 0.2, 2.0),
    ],
)
def test_where_the_tail_is_closed_it_stays_so(case):
    """The table, far beyond the ε at which the theorem takes over."""
    profile = gaussian_profile(*case)
    mu = profile.mu * (1 + 1e-6)
    start = MuEnclosure(profile).hyperbolic_tail.smallest_eps(arb(mu))
    eps = np.geomspace(start, 20 * start, 200)
    profile.loss_table.extend_table_to(eps[-1])
    assert np.all(profile.loss_table.log_delta(eps) < gdp_log_delta(mu, eps))


@pytest.mark.parametrize(
    "profile",
    [gaussian_profile(1.0, 1, 2.0, 1.0), laplace_profile(0.0, 1, 1.0, 0.8)],
    ids=str,
)
def test_coarse_intervals_are_halved_until_each_is_proved(profile, monkeypatch):
    enclosure = MuEnclosure(profile).mu()
    assert enclosure[0] <= profile.mu <= enclosure[1] * (1 + 1e-12)
    assert enclosure[1] - enclosure[0] < 2e-6 * profile.mu
    end = profile.pure_epsilon
    for knots in ([0.0, end], [0.0, 0.3 * end, end]):
        monkeypatch.setattr(
            MuEnclosure, "_suggest_knots", lambda self, mu, end, knots=knots: knots
        )
        assert MuEnclosure(profile).mu() == pytest.approx(enclosure, rel=1e-12)


def test_intervals_without_room_are_not_proved(monkeypatch):
    profile = gaussian_profile(1.0, 1, 2.0, 1.0)
    certifier = MuEnclosure(profile)
    mu, end = profile.mu, profile.pure_epsilon
    assert certifier._is_proved_by_chord(0.0, 1e-3 * end, arb(mu * 1.01))
    assert not certifier._is_proved_by_chord(0.0, 1e-3 * end, arb(mu * 0.99))
    assert certifier._is_proved_by_chord(0.9 * end, end, arb(mu))
    assert certifier._is_proved_by_chord(0.0, end, arb(20.0))
    # δ itself below δ_μ at the right end
    assert certifier.delta(0.5 * end) < gdp_delta(mu, 0.51 * end)
    assert certifier._is_proved_by_chord(0.5 * end, 0.51 * end, arb(mu))
    # a chord that touches δ_μ between its ends
    for a, b in ((0.0, 0.6 * end), (0.0, 0.9 * end)):
        chord = [
            float(certifier.delta(a)) * (1 - s) + float(certifier.delta(b)) * s
            for s in (0.25, 0.5, 0.75)
        ]
        u = [math.exp(a) + (math.exp(b) - math.exp(a)) * s for s in (0.25, 0.5, 0.75)]
        above = any(
            c > gdp_delta(mu * (1 + 1e-6), math.log(x))
            for c, x in zip(chord, u, strict=True)
        )
        if above:
            assert not certifier._is_proved_by_chord(a, b, arb(mu * (1 + 1e-6)))
    monkeypatch.setattr(
        certify_mu, "_RELATIVE_WIDTHS", (-1e-3,)
    )  # below the truth: no interval at 0 can be proved
    with pytest.raises(NotResolved, match="could not be certified"):
        MuEnclosure(profile).mu()
    monkeypatch.setattr(certify_mu, "_MOST_INTERVALS", 1)
    with pytest.raises(NotResolved, match="over a long range"):
        MuEnclosure(profile).mu()


def test_a_chord_that_crosses_between_two_points_is_not_proved():
    """A μ at which the chord is below δ_μ at all 25 ends of the pieces, and above it in between."""
    certifier = MuEnclosure(gaussian_profile(1.0, 1, 2.0, 1.0))
    b = 0.6 * certifier.profile.pure_epsilon
    ends = [float(certifier.delta(e)) for e in (0.0, b)]

    def room(mu, points):
        share = np.linspace(0.0, 1.0, points)
        return np.min(
            gdp_delta(mu, np.log1p(math.expm1(b) * share))
            - (ends[0] + (ends[1] - ends[0]) * share)
        )

    sparse, dense = (
        optimize.brentq(room, 0.1, 5.0, args=(points,), xtol=1e-15)
        for points in (25, 24001)
    )
    assert sparse < dense * (1 - 1e-9)
    assert not certifier._is_proved_by_chord(0.0, b, arb((sparse + dense) / 2))
    assert certifier._is_proved_by_chord(0.0, b, arb(dense * (1 + 1e-3)))


def test_knots_run_from_zero_to_the_end():
    profile = gaussian_profile(1.0, 2, 1.0, 1.0)
    certifier = MuEnclosure(profile)
    end = profile.pure_epsilon
    knots = certifier._suggest_knots(profile.mu * (1 + 1e-6), end)
    assert knots[0] == 0.0
    assert knots[-1] == end
    assert all(a < b for a, b in itertools.pairwise(knots))
    wide = certifier._suggest_knots(profile.mu * (1 + 1e-2), end)
    assert len(wide) < len(knots) < 2500
    for a, b in itertools.pairwise(
        wide
    ):  # suggested so that nearly all are proved at once
        assert certifier._is_proved_by_chord(a, b, arb(profile.mu * 1.01)) or b < 0.2


def test_a_closed_tail_is_below_the_gaussian():
    """Hyperbolic: from the ε returned on, certified δ stays below δ_μ; a μ at or below D/s closes nothing."""
    profile = gaussian_profile(-1.0, 3, 1.0, 0.5)
    certifier = MuEnclosure(profile)
    mu = profile.mu * 1.001
    end = certifier.hyperbolic_tail.smallest_eps(arb(mu))
    s, D = 1.0, 0.5
    r = (2 * s * s * end - D * D) / (2 * D)
    assert certifier.hyperbolic_tail.applies(arb(mu), arb(r * (1 + 1e-12)))
    assert math.log(4 * r, 1.125) == pytest.approx(
        round(math.log(4 * r, 1.125)), abs=1e-6
    )  # a rung of the search
    assert not certifier.hyperbolic_tail.applies(arb(mu), arb(r / 1.13))
    assert not certifier.hyperbolic_tail.applies(arb(0.5), arb(1e3))
    assert not certifier.hyperbolic_tail.applies(arb(0.499), arb(1e3))
    for eps in (end, 1.3 * end):
        assert certifier.delta(eps).upper() < gdp_delta_and_slope(arb(mu), arb(eps))[0]
    law = profile.loss_law
    for x in (0.5, 2.0):
        density = float(law.log_rho(np.array([x - law.mode]))[0]) - law.log_mass
        assert float(
            certifier.hyperbolic_tail.log_density_bound(arb(x))
        ) == pytest.approx(density, abs=1e-6)


def test_gaussian_pieces_in_balls():
    with mp.workdps(40), ctx.workprec(160):
        for x in (-8.0, 0.0, 3.0):
            assert float(normal_cdf(arb(x))) == pytest.approx(
                float(mp.ncdf(x)), rel=1e-14
            )
        for eps, z in (
            (0.0, 0.5),
            (3.0, 5.0),
            (4.5e4, 300.0),
            (2e12, 2e6),
            (0.5e12, 1e6),
        ):
            tail = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
            truth = mp.exp(mp.mpf(eps)) * tail
            found = scaled_normal_tail(arb(eps), arb(z))
            assert float(found) == pytest.approx(float(truth), rel=1e-9)
            assert float(found.rad()) < 1e-10 * float(found)
        for mu, eps in ((0.5, 0.0), (2.0, 1.3)):
            value, slope = gdp_delta_and_slope(arb(mu), arb(eps))
            truth = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(
                -eps / mu - mu / 2
            )
            assert float(value) == pytest.approx(float(truth), rel=1e-13)
            derivative = mp.diff(
                lambda u, m=mu: (
                    mp.ncdf(m / 2 - mp.log(u) / m) - u * mp.ncdf(-mp.log(u) / m - m / 2)
                ),
                mp.exp(eps),
            )
            assert float(slope) == pytest.approx(float(derivative), rel=1e-12)
            lower = mu_lower_bound(value, eps)
            assert mu * (1 - 1e-14) < lower <= mu
        high = mu_lower_bound(gdp_delta_and_slope(arb(9.5), arb(0.2))[0], 0.2)
        assert high == pytest.approx(9.5, rel=1e-12)
