"""Limits, refusals, monotonicity in the distance, and the hyperbolic floor."""

import math

import mpmath
import numpy as np
import pytest

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.privacy import FloorProfile, gaussian_floor, gaussian_profile, laplace_profile
from curvedp.privacy._floor import FloorTails
from profile_oracle import brute_delta


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
@pytest.mark.parametrize("d", [2, 3, 7])
def test_delta_grows_with_the_distance(kind, k, d):
    """Theorem 1 of docs/exact-profiles.md, tried on brute force: no shorter distance is worse."""
    scale = 0.1 if kind == "laplace" else 0.7
    distances = [0.05, 0.2, 0.6, 1.2, 2.4]
    for eps in (0.0, 0.3, 1.5):
        deltas = [brute_delta(kind, k, d, scale, D, eps) for D in distances]
        assert np.all(np.diff(deltas) >= -1e-10)


def test_floor_value():
    assert gaussian_floor(-1, 10, 1.0) == pytest.approx(2.86205, abs=5e-6)
    assert gaussian_floor(1, 10, 1.0) == 0.0
    assert gaussian_floor(0, 10, 1.0) == 0.0
    # H²: TV of the harmonic measure against the uniform one, by quadrature over the circle
    phi = (np.arange(200_000) + 0.5) * math.pi / 200_000
    density = 1 / (math.cosh(1.0) - math.sinh(1.0) * np.cos(phi))
    tv = np.mean(np.maximum(1 - density, 0.0))
    assert FloorProfile(-1.0, 2, 1.0).delta(0.0) == pytest.approx(tv, rel=1e-6)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_no_scale_goes_below_the_floor_and_large_ones_reach_it(d):
    """By post-processing (docs/exact-profiles.md, Theorem 3), at every ε; the Laplace law too."""
    floor = FloorProfile(-1.0, d, 1.0)
    eps = np.array([0.0, 0.3, 0.9]) * floor.pure_epsilon
    bottom = floor.delta(eps) * (1 - 3e-9)
    for sigma in (0.1, 0.5, 1.0, 2.0, 5.0, 50.0):
        assert np.all(gaussian_profile(-1, d, sigma, 1.0).delta(eps) >= bottom)
    for part in (0.1, 0.5, 0.9, 0.999):
        assert np.all(laplace_profile(-1, d, part / (d - 1), 1.0).delta(eps) >= bottom)
    assert gaussian_profile(-1, d, 200.0, 1.0).mu == pytest.approx(floor.mu, rel=1e-4)


def test_the_floor_where_the_far_tail_is_below_every_float():
    """d = 3: the boundary's height is uniform, so P(L <= t) = (e^{t/2} − e^{−D})/(e^D − e^{−D}), at D = 1000 too."""
    D, t = 1000.0, np.array([0.0, 500.0, 1500.0, 1999.0])
    with mpmath.workdps(50):
        exact = [float(mpmath.log((mpmath.exp(mpmath.mpf(x) / 2) - mpmath.exp(-D)) / (2 * mpmath.sinh(D)))) for x in t]
    np.testing.assert_allclose(FloorTails(3, D).log_tails(t)[1], exact, rtol=1e-13)
    assert gaussian_floor(-1.0, 2, D) == pytest.approx(gaussian_floor(-1.0, 2, 700.0) * math.sqrt(D / 700), rel=5e-3)


@pytest.mark.parametrize("loss", [1e3, 1e9, 1e12, 1e15, 1e17, 1e140])
def test_divergences_of_a_huge_loss(loss):
    """The Laplace law on ℝ: KL = T − 1 + e^{−T}, order 2 gives T + log ⅔ + o(1); never below, nor above T."""
    profile = laplace_profile(0.0, 1, 1e-50, loss * 1e-50)
    for order, exact in ((1.0, loss - 1), (2.0, loss + math.log(2 / 3)), (1e6, loss - 2e-6), (1e200, loss)):
        assert exact * (1 - 1e-14) <= profile.renyi(order) <= max(exact * (1 + 3e-9), profile.pure_epsilon)
    with pytest.raises(ParameterError):
        profile.renyi("2")
