"""One dimension: the corrected closed form against quadrature, the printed one against both (E1)."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.papers.gdp.circle import (
    circle_gaussian_delta,
    circle_gaussian_delta_printed,
)
from curvedp.privacy import gaussian_profile, laplace_profile
from curvedp.privacy.enclosure.delta import DeltaEnclosure
from curvedp.privacy.loss.line_and_circle import (
    CircleGaussianLoss,
    CircleLaplaceLoss,
    LineLaplaceLoss,
    _log_normal_between,
)


def by_quadrature(weight, D, eps, n=2_000_000):
    y = (np.arange(n) + 0.5) * 2 * math.pi / n - math.pi
    other = np.abs(y - D)
    p = weight(np.abs(y))
    q = weight(np.minimum(other, 2 * math.pi - other))
    return float(np.sum(np.maximum(p - math.exp(eps) * q, 0.0)) / np.sum(p))


@pytest.mark.parametrize(
    ("s", "D", "eps"),
    [
        (2.0, 1.0, 0.3),
        (2.0, 1.0, 0.0),
        (0.7, 3.0, 2.0),
        (1.0, math.pi, 1.0),
        (0.3, 0.5, 4.0),
    ],
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
    assert circle_gaussian_delta_printed(2.0, 1.0, 0.3) == pytest.approx(
        0.0122, abs=5e-5
    )
    assert circle_gaussian_delta(2.0, 1.0, 0.3) == pytest.approx(0.0422557, abs=5e-8)
    assert circle_gaussian_delta_printed(2.0, 1.0, 1e-12) == pytest.approx(
        circle_gaussian_delta(2.0, 1.0, 0.0), rel=1e-6
    )
    beyond = math.pi / 8 * 1.05
    assert circle_gaussian_delta(2.0, 1.0, beyond) > 1e-3


def test_profile_and_closed_form_agree_to_rounding():
    for s, D, eps in ((2.0, 1.0, 0.3), (1.0, 2.0, 1.0), (0.5, 3.0, 5.0)):
        assert gaussian_profile(1, 1, s, D).delta(eps) == pytest.approx(
            circle_gaussian_delta(s, D, eps), rel=3e-9
        )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-40, -39),
        (-1, 1),
        (0.5, 0.5001),
        (3, 30),
        (-30, -3),
        (-0.1, 20),
        (8, 8.2),
        (-2, 5),
    ],
)
def test_mass_of_a_normal_between(a, b):
    with mp.workdps(60):
        truth = mp.log(
            (mp.erfc(-mp.mpf(b) / mp.sqrt(2)) - mp.erfc(-mp.mpf(a) / mp.sqrt(2))) / 2
        )
    found = float(_log_normal_between(np.array([float(a)]), np.array([float(b)]))[0])
    assert found == pytest.approx(float(truth), rel=1e-13, abs=2e-14)


@pytest.mark.parametrize(("s", "D"), [(0.3, 1.0), (1.0, 3.0), (5.0, 0.4)])
def test_losses_on_the_circle_and_the_line(s, D):
    y = np.linspace(-math.pi, math.pi, 400_001)[:-1] + math.pi / 400_000
    other = np.abs(y - D)
    other = np.minimum(other, 2 * math.pi - other)
    for law, weight, loss in (
        (
            CircleGaussianLoss(s, D),
            np.exp(-(y**2) / (2 * s * s)),
            (other**2 - y**2) / (2 * s * s),
        ),
        (CircleLaplaceLoss(s, D), np.exp(-np.abs(y) / s), (other - np.abs(y)) / s),
    ):
        p = weight / weight.sum()
        assert law.max_loss == pytest.approx(loss.max(), rel=1e-5)
        assert law.root_fisher_information**2 == pytest.approx(
            np.sum(p * (y / s**2) ** 2)
            if isinstance(law, CircleGaussianLoss)
            else 1 / s**2,
            rel=1e-4,
        )
        assert law.loss_scale == pytest.approx(
            D * law.root_fisher_information, rel=1e-14
        )
        for t in law.max_loss * np.array([0.0, 0.2, 0.7, 0.95]):
            upper, lower = law.log_tails(np.array([t]))
            assert math.exp(upper[0]) == pytest.approx(p[loss > t].sum(), abs=2e-5)
            assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(
                1.0, abs=1e-13
            )
            if isinstance(law, CircleGaussianLoss):
                direct = np.sum(np.maximum(p - math.exp(t) * p * np.exp(-loss), 0.0))
                assert circle_gaussian_delta(s, D, float(t)) == pytest.approx(
                    direct, abs=2e-5
                )
    assert circle_gaussian_delta(s, D, CircleGaussianLoss(s, D).max_loss) == 0.0
    line = LineLaplaceLoss(s, D)
    upper, lower = line.log_tails(np.array([0.0, 0.5 * D / s]))
    assert np.exp(lower) == pytest.approx(
        [math.exp(-D / s / 2) / 2, math.exp(-D / s / 4) / 2], rel=1e-13
    )
    assert np.exp(upper) == pytest.approx(1 - np.exp(lower), rel=1e-13)
    assert line.table_end == max(16.0, math.log(D / s) + 9.5)


@pytest.mark.parametrize(
    ("s", "D"), [(2.0, 3.0), (1.0, 0.5), (0.7, 2.0), (3.0, math.pi)]
)
def test_the_circle_up_to_its_cap(s, D):
    """The closed form for reading against the same in balls, also where the far end of the arc is met from behind."""
    certifier = DeltaEnclosure(gaussian_profile(1.0, 1, s, D))
    cap = D * (2 * math.pi - D) / (2 * s * s)
    for share in (0.0, 0.2, 0.5, 0.8, 0.95, 0.99):
        found, exact = (
            circle_gaussian_delta(s, D, share * cap),
            float(certifier.delta(share * cap)),
        )
        assert found == pytest.approx(exact, rel=1e-7, abs=1e-12)
    assert circle_gaussian_delta(s, D, cap) == 0.0
