"""Sums of independent losses."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from curvedp.privacy import gaussian_profile
from curvedp.privacy.loss.line_and_circle import CircleGaussianLoss
from curvedp.privacy.loss.sum import GaussianLoss, SumOfLosses
from curvedp.privacy.loss.table import TabulatedLossLaw
from support.privacy import NormalLoss


@pytest.mark.parametrize(("mu", "nu"), [(0.3, 1.0), (2.0, 1.5)])
def test_a_sum_of_normal_losses_is_normal(mu, nu):
    total = math.hypot(mu, nu)
    for first in (GaussianLoss(nu), TabulatedLossLaw(NormalLoss(nu))):
        tails = SumOfLosses(first, GaussianLoss(mu), nu, mu)
        assert tails.loss_scale == pytest.approx(total)
        assert tails.max_loss == math.inf
        assert tails.breakpoints == ()
        t = total * np.array([0.0, 0.5, 1.0, 3.0, 8.0])
        upper, lower = tails.log_tails(t)
        assert upper == pytest.approx(
            log_ndtr(total / 2 - t / total), rel=1e-8, abs=1e-9
        )
        assert lower == pytest.approx(
            log_ndtr(t / total - total / 2), rel=1e-8, abs=1e-9
        )


def test_a_sum_of_bounded_losses():
    """Two circles: kinks where ends meet, the largest loss, and tails by sampling both on a fine grid."""
    laws = [CircleGaussianLoss(1.2, 1.0), CircleGaussianLoss(0.9, 0.5)]
    a, b = (TabulatedLossLaw(law) for law in laws)
    tails = SumOfLosses(a, b, laws[0].loss_scale, laws[1].loss_scale)
    assert tails.max_loss == pytest.approx(laws[0].max_loss + laws[1].max_loss)
    assert tails.breakpoints == pytest.approx(
        (abs(laws[0].max_loss - laws[1].max_loss),)
    )
    y = (np.arange(4000) + 0.5) * 2 * math.pi / 4000 - math.pi
    parts = []
    for law in laws:
        other = np.minimum(
            np.abs(y - law.distance), 2 * math.pi - np.abs(y - law.distance)
        )
        p = np.exp(-(y**2) / (2 * law.s**2))
        parts.append((p / p.sum(), (other**2 - y**2) / (2 * law.s**2)))
    (p, first), (q, second) = parts
    order = np.argsort(second)
    above = np.append(np.cumsum(q[order][::-1])[::-1], 0.0)
    for t in (0.0, 0.4, 1.5):
        truth = np.sum(
            p * above[np.searchsorted(second[order], t - first, side="right")]
        )
        upper, lower = tails.log_tails(np.array([t]))
        assert math.exp(upper[0]) == pytest.approx(truth, abs=1e-3)
        assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("d", "s", "D", "order"),
    [(2, 1.0, 6.0, 64), (2, 3.0, 12.0, 128), (3, 1.0, 10.0, 1024)],
)
def test_steep_flanks_take_more_nodes(d, s, D, order):
    """On large hyperbolic distances the sum of two losses is taken with more nodes, and only there."""
    profile = gaussian_profile(-1.0, d, s, D)
    scale = profile.loss_law.loss_scale
    found = SumOfLosses(profile.loss_table, profile.loss_table, scale, scale)
    assert found.order == order
    t = scale * np.array([0.0, 1.0, 4.0])
    upper, lower = found.log_tails(t)
    finest = found._log_tails(t, 1024)
    assert upper == pytest.approx(finest[0], rel=1e-9, abs=1e-9)
    assert lower == pytest.approx(finest[1], rel=1e-9, abs=1e-9)
