"""The proof of μ by intervals: coarse ones are halved, wrong ones refused, and the enclosure does not depend on them."""

import itertools
import math

import numpy as np
import pytest
from flint import arb

from curvedp.errors import NotResolved
from curvedp.privacy import certify, gaussian_profile, laplace_profile
from curvedp.privacy._ball_functions import gdp_ball
from curvedp.privacy.certify import _Certifier
from curvedp.privacy.gaussian import gdp_delta


@pytest.mark.parametrize("profile", [gaussian_profile(1.0, 1, 2.0, 1.0), laplace_profile(0.0, 1, 1.0, 0.8)], ids=str)
def test_coarse_intervals_are_halved_until_each_is_proved(profile, monkeypatch):
    enclosure = _Certifier(profile).mu()
    assert enclosure[0] <= profile.mu <= enclosure[1] * (1 + 1e-12)
    assert enclosure[1] - enclosure[0] < 2e-6 * profile.mu
    end = profile.pure_epsilon
    for knots in ([0.0, end], [0.0, 0.3 * end, end]):
        monkeypatch.setattr(_Certifier, "_knots", lambda self, mu, end, knots=knots: knots)
        assert _Certifier(profile).mu() == pytest.approx(enclosure, rel=1e-12)


def test_intervals_without_room_are_not_proved(monkeypatch):
    profile = gaussian_profile(1.0, 1, 2.0, 1.0)
    certifier = _Certifier(profile)
    mu, end = profile.mu, profile.pure_epsilon
    assert certifier._below(0.0, 1e-3 * end, arb(mu * 1.01))
    assert not certifier._below(0.0, 1e-3 * end, arb(mu * 0.99))
    assert certifier._below(0.9 * end, end, arb(mu))
    assert certifier._below(0.0, end, arb(20.0))
    # δ itself below δ_μ at the right end
    assert certifier.delta(0.5 * end) < gdp_delta(mu, 0.51 * end)
    assert certifier._below(0.5 * end, 0.51 * end, arb(mu))
    # a chord that touches δ_μ between its ends
    for a, b in ((0.0, 0.6 * end), (0.0, 0.9 * end)):
        chord = [float(certifier.delta(a)) * (1 - s) + float(certifier.delta(b)) * s for s in (0.25, 0.5, 0.75)]
        u = [math.exp(a) + (math.exp(b) - math.exp(a)) * s for s in (0.25, 0.5, 0.75)]
        above = any(c > gdp_delta(mu * (1 + 1e-6), math.log(x)) for c, x in zip(chord, u, strict=True))
        if above:
            assert not certifier._below(a, b, arb(mu * (1 + 1e-6)))
    monkeypatch.setattr(certify, "_WIDTHS", (-1e-3,))  # below the truth: no interval at 0 can be proved
    with pytest.raises(NotResolved, match="could not be certified"):
        _Certifier(profile).mu()
    monkeypatch.setattr(certify, "_MOST_INTERVALS", 1)
    with pytest.raises(NotResolved, match="too close"):
        _Certifier(profile).mu()


def test_knots_run_from_zero_to_the_end():
    profile = gaussian_profile(1.0, 2, 1.0, 1.0)
    certifier = _Certifier(profile)
    end = profile.pure_epsilon
    knots = certifier._knots(profile.mu * (1 + 1e-6), end)
    assert knots[0] == 0.0
    assert knots[-1] == end
    assert all(a < b for a, b in itertools.pairwise(knots))
    wide = certifier._knots(profile.mu * (1 + 1e-2), end)
    assert len(wide) < len(knots) < 2500
    for a, b in itertools.pairwise(wide):  # suggested so that nearly all are proved at once
        assert certifier._below(a, b, arb(profile.mu * 1.01)) or b < 0.2


def test_a_closed_tail_is_below_the_gaussian():
    """Hyperbolic: from the ε returned on, certified δ stays below δ_μ; a μ at or below D/s closes nothing."""
    profile = gaussian_profile(-1.0, 3, 1.0, 0.5)
    certifier = _Certifier(profile)
    mu = profile.mu * 1.001
    end = certifier._closing(arb(mu))
    s, D = 1.0, 0.5
    r = (2 * s * s * end - D * D) / (2 * D)
    assert certifier._closes(arb(mu), arb(r * (1 + 1e-12)))
    assert math.log(4 * r, 1.125) == pytest.approx(round(math.log(4 * r, 1.125)), abs=1e-6)  # a rung of the search
    assert not certifier._closes(arb(mu), arb(r / 1.13))
    assert not certifier._closes(arb(0.5), arb(1e3))
    assert not certifier._closes(arb(0.499), arb(1e3))
    certifier.least_log = -1e5
    for eps in (end, 1.3 * end):
        assert certifier.delta(eps).upper() < gdp_ball(arb(mu), arb(eps))[0]
    law = profile.tails
    for x in (0.5, 2.0):
        density = float(law.log_rho(np.array([x - law.mode]))[0]) - law.log_mass
        assert float(certifier._log_density(arb(x))) == pytest.approx(density, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "curvature", "dim", "scale", "D"),
    [
        (laplace_profile, 0.0, 3, 2.0, 5.0),
        (gaussian_profile, -1.0, 2, 1.0, 4.0),
        (gaussian_profile, 1.0, 2, 2.0, math.pi),
        (gaussian_profile, 0.25, 2, 2.0, 2 * math.pi),
    ],
)
def test_distances_beyond_half_a_turn_are_certified(make, curvature, dim, scale, D):
    """π is the end of a sphere alone."""
    profile = make(curvature, dim, scale, D)
    certifier = _Certifier(profile)
    assert float(certifier._units()[1]) == pytest.approx(D * (math.sqrt(abs(curvature)) or 1.0), rel=1e-14)
    for eps in (0.0, 0.5):
        ball = certifier.delta(eps)
        assert float(ball) == pytest.approx(float(profile.delta(eps)), rel=4e-9)
