"""Tables of losses against laws in closed form."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr

from curvedp.numerics.log_space import log_sum_exp
from curvedp.privacy.guarantees.gaussian import gdp_log_delta
from curvedp.privacy.loss.line_and_circle import LineLaplaceLoss
from curvedp.privacy.loss.sum import GaussianLoss
from curvedp.privacy.loss.table import TabulatedLossLaw
from support.privacy import NormalLoss, one_minus_delta


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0, 12.0])
def test_a_table_of_a_normal_loss(mu):
    table = TabulatedLossLaw(NormalLoss(mu))
    t = mu * mu / 2 + mu * np.array([-3.0, -1.0, 0.0, 0.5, 2.0, 6.0, 12.0])
    t = np.append(t[t > 0], [0.0, 1e-9])
    assert table.log_upper_tail(t) == pytest.approx(
        log_ndtr(mu / 2 - t / mu), rel=1e-11, abs=1e-11
    )
    assert table.log_lower_tail(t) == pytest.approx(
        log_ndtr(t / mu - mu / 2), rel=1e-11, abs=1e-11
    )
    assert table.log_delta(t) == pytest.approx(
        gdp_log_delta(mu, t), rel=1e-10, abs=1e-10
    )
    rest = np.array([float(mp.log(one_minus_delta(mu, x))) for x in t])
    assert table.log_one_minus_delta(t) == pytest.approx(rest, rel=1e-9, abs=1e-10)
    assert table.log_upper_tail_of_second_law(t) == pytest.approx(
        log_ndtr(-t / mu - mu / 2), rel=1e-8, abs=1e-8
    )
    line = np.concatenate([-t, t])
    assert table.log_upper_tail_at_any_loss(line) == pytest.approx(
        log_ndtr(mu / 2 - line / mu), rel=1e-7, abs=1e-8
    )
    assert table.log_lower_tail_at_any_loss(line) == pytest.approx(
        log_ndtr(line / mu - mu / 2), rel=1e-7, abs=1e-8
    )
    z = line / mu - mu / 2
    density = -z * z / 2 - math.log(mu * math.sqrt(2 * math.pi))
    assert table.log_density_at_any_loss(line) == pytest.approx(
        density, rel=1e-7, abs=1e-7
    )
    normal = GaussianLoss(mu)
    assert normal.log_density_at_any_loss(line) == pytest.approx(density, rel=1e-13)
    assert normal.log_upper_tail_at_any_loss(line) == pytest.approx(
        log_ndtr(mu / 2 - line / mu), rel=1e-13
    )
    assert normal.log_lower_tail_at_any_loss(line) == pytest.approx(
        log_ndtr(line / mu - mu / 2), rel=1e-13
    )
    for s in (-0.5, 0.5, 1.0, 7.0):  # E e^{sL} = e^{s(s+1)μ²/2} = 1 + s·J
        truth = (
            math.log(math.expm1(s * (s + 1) * mu * mu / 2) / s)
            if s * (s + 1) * mu * mu < 1400
            else math.nan
        )
        if math.isfinite(truth):
            assert table.log_moment_integral(s) == pytest.approx(
                truth, rel=1e-10, abs=1e-10
            )
    assert table.log_moment_integral(0.0) == pytest.approx(
        math.log(mu * mu / 2), abs=1e-10
    )
    assert table.log_upper_tail(np.array([table.end]))[0] <= -760.0
    grid = table.grid()
    assert grid[0] == 0.0
    assert grid[-1] == table.end == table.series.end
    assert len(grid) == 12 * (len(table.series.edges) - 1) + 1
    end = table.end
    table.extend_table_to(1.5 * end)
    assert table.end == 2 * end
    assert table.log_upper_tail(np.array([1.5 * end]))[0] == pytest.approx(
        log_ndtr(mu / 2 - 1.5 * end / mu), rel=1e-10
    )
    assert np.all(table.relative_error_near_max_loss(t) == 0)


@pytest.mark.parametrize("largest", [0.01, 1.0, 9.0])
def test_a_table_of_a_bounded_loss_with_atoms(largest):
    """The Laplace mechanism on the line: everything in closed form."""
    table, T = TabulatedLossLaw(LineLaplaceLoss(1.0, largest)), largest
    assert table.max_loss == T
    t = T * np.array([0.0, 0.1, 0.45, 0.55, 0.9, 0.999, 1 - 1e-7])
    lower = -(T - t) / 2 - math.log(2)
    assert table.log_lower_tail(t) == pytest.approx(lower, rel=1e-10, abs=1e-10)
    assert table.log_upper_tail(t) == pytest.approx(
        np.log1p(-np.exp(lower)), rel=1e-10, abs=1e-10
    )
    delta = np.log(-np.expm1((t - T) / 2))
    assert table.log_delta(t) == pytest.approx(delta, rel=1e-7, abs=1e-7)
    assert np.all(table.log_delta(t) >= delta - 1e-9)
    assert table.log_one_minus_delta(t) == pytest.approx((t - T) / 2, abs=1e-8)
    last = T * (
        1 - np.array([1e-7, 1e-10])
    )  # beyond the last panel: rounded to the side that adds to δ
    assert np.all(table.log_one_minus_delta(last) < (last - T) / 2)
    assert np.all(table.log_delta(last) > np.log(-np.expm1((last - T) / 2)))
    for s in (0.5, 1.0, 6.0):
        a = s + 1
        mean = a / (2 * a - 1) * math.exp(s * T) + s / (2 * a - 1) * math.exp(-a * T)
        assert table.log_moment_integral(s) == pytest.approx(
            math.log((mean - 1) / s), abs=1e-8
        )
    assert table.loss_at(np.array([0.0, 40.0])) == pytest.approx(
        [0.0, T], abs=1e-12 * T
    )
    assert table.end < T
    noise = table.relative_error_near_max_loss(np.array([0.0, 0.5 * T, T * (1 - 1e-9)]))
    assert noise[:2].tolist() == [0.0, 0.0]
    assert 1e-8 < noise[2] < 1e-3


def test_logarithms_of_sums():
    assert log_sum_exp(
        np.array([[0.0, 0.0], [-math.inf, -math.inf]]), axis=1
    ).tolist() == [
        math.log(2),
        -math.inf,
    ]
    assert log_sum_exp(np.array([1000.0, 1000.0]), axis=0) == pytest.approx(
        1000 + math.log(2)
    )
