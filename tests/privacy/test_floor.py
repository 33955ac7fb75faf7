"""The hyperbolic floor by its angle."""

import math

import mpmath
import numpy as np
import pytest

from curvedp.privacy import gaussian_floor, gaussian_profile, laplace_profile
from curvedp.privacy.loss.hyperbolic_limit import LimitingLoss
from curvedp.privacy.profiles.hyperbolic_floor import FloorProfile


@pytest.mark.parametrize(("d", "D"), [(2, 0.5), (3, 2.0), (10, 1.0)])
def test_the_floor_by_its_angle(d, D):
    law = LimitingLoss(d, D)
    phi = (np.arange(400_000) + 0.5) * math.pi / 400_000
    weight = np.sin(phi) ** (d - 2)
    p = weight / weight.sum()
    loss = (d - 1) * np.log(math.cosh(D) - math.sinh(D) * np.cos(phi))
    assert law.max_loss == pytest.approx(loss.max(), rel=1e-6)
    assert law.loss_scale == pytest.approx((d - 1) * D / math.sqrt(d), rel=1e-14)
    assert float(np.sum(p * np.exp(-loss))) == pytest.approx(
        1.0, abs=1e-5
    )  # it is a likelihood ratio
    for t in law.max_loss * np.array([0.0, 0.3, 0.8]):
        upper, lower = law.log_tails(np.array([t]))
        assert math.exp(upper[0]) == pytest.approx(p[loss > t].sum(), abs=2e-5)
        assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(1.0, abs=1e-12)
    profile = FloorProfile(-1.0, d, D)
    assert profile.delta(0.1) == pytest.approx(
        np.sum(p * np.maximum(1 - np.exp(0.1 - loss), 0.0)), rel=1e-4
    )
    assert profile.rao == pytest.approx(law.loss_scale, rel=1e-13)


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
    """By post-processing (docs/theory/hyperbolic-floor.md, Theorem P3), at every ε; the Laplace law too."""
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
        exact = [
            float(
                mpmath.log(
                    (mpmath.exp(mpmath.mpf(x) / 2) - mpmath.exp(-D))
                    / (2 * mpmath.sinh(D))
                )
            )
            for x in t
        ]
    np.testing.assert_allclose(LimitingLoss(3, D).log_tails(t)[1], exact, rtol=1e-13)
    assert gaussian_floor(-1.0, 2, D) == pytest.approx(
        gaussian_floor(-1.0, 2, 700.0) * math.sqrt(D / 700), rel=5e-3
    )
