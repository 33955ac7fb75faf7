"""One dimension: the corrected closed form against quadrature, the printed one against both (E1)."""

import math

import numpy as np
import pytest

from curvedp.privacy import gaussian_profile, laplace_profile
from reproductions.gdp.circle import circle_gaussian_delta, circle_gaussian_delta_printed


def by_quadrature(weight, D, eps, n=2_000_000):
    y = (np.arange(n) + 0.5) * 2 * math.pi / n - math.pi
    other = np.abs(y - D)
    p = weight(np.abs(y))
    q = weight(np.minimum(other, 2 * math.pi - other))
    return float(np.sum(np.maximum(p - math.exp(eps) * q, 0.0)) / np.sum(p))


@pytest.mark.parametrize(
    ("s", "D", "eps"), [(2.0, 1.0, 0.3), (2.0, 1.0, 0.0), (0.7, 3.0, 2.0), (1.0, math.pi, 1.0), (0.3, 0.5, 4.0)]
)
def test_circle_against_quadrature(s, D, eps):
    truth = by_quadrature(lambda r: np.exp(-r * r / (2 * s * s)), D, eps)
    assert circle_gaussian_delta(s, D, eps) == pytest.approx(truth, rel=2e-6)
    assert gaussian_profile(1, 1, s, D).delta(eps) == pytest.approx(truth, rel=2e-6)
    if eps < D / s:
        truth = by_quadrature(lambda r: np.exp(-r / s), D, eps)
        assert laplace_profile(1, 1, s, D).delta(eps) == pytest.approx(truth, rel=3e-6)


def test_corollary_3_2_1_is_too_small():
    """E1: printed 0.0122, true 0.0422557; beyond the printed range of ε the true δ is not 0 yet."""
    assert circle_gaussian_delta_printed(2.0, 1.0, 0.3) == pytest.approx(0.0122, abs=5e-5)
    assert circle_gaussian_delta(2.0, 1.0, 0.3) == pytest.approx(0.0422557, abs=5e-8)
    assert circle_gaussian_delta_printed(2.0, 1.0, 1e-12) == pytest.approx(
        circle_gaussian_delta(2.0, 1.0, 0.0), rel=1e-6
    )
    beyond = math.pi / 8 * 1.05
    assert circle_gaussian_delta(2.0, 1.0, beyond) > 1e-3


def test_profile_and_closed_form_agree_to_rounding():
    for s, D, eps in ((2.0, 1.0, 0.3), (1.0, 2.0, 1.0), (0.5, 3.0, 5.0)):
        assert gaussian_profile(1, 1, s, D).delta(eps) == pytest.approx(circle_gaussian_delta(s, D, eps), rel=3e-9)
