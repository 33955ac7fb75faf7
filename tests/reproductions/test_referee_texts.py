"""Instruments of the referee: low-rank tangent spaces and metrics made from records."""

import math

import numpy as np
import pytest
from scipy import integrate

from curvedp.papers.referee import conformal, low_rank, shapes


@pytest.fixture
def factors():
    rng = np.random.default_rng(3)
    return rng.standard_normal((5, 2)), rng.standard_normal((4, 2))


def test_the_projection_keeps_what_a_curve_of_rank_r_does(factors):
    """Velocities of A(t)·B(t)ᵀ by finite differences are tangent vectors."""
    left, right = factors
    rng = np.random.default_rng(4)
    turn, lift = rng.standard_normal(left.shape), rng.standard_normal(right.shape)
    h = 1e-6
    ahead = (left + h * turn) @ (right + h * lift).T
    behind = (left - h * turn) @ (right - h * lift).T
    velocity = (ahead - behind) / (2 * h)
    projected = low_rank.project_to_tangent_space(left, right, velocity)
    np.testing.assert_allclose(projected, velocity, atol=1e-8)
    other = rng.standard_normal((5, 4))
    rest = other - low_rank.project_to_tangent_space(left, right, other)
    assert float(np.sum(rest * velocity)) == pytest.approx(0.0, abs=1e-8)


def test_noise_in_the_tangent_space_has_the_claimed_energy(factors):
    left, right = factors
    basis = low_rank.basis_of_tangent_space(left, right)
    rng = np.random.default_rng(5)
    draws = rng.standard_normal((20_000, len(basis))) @ basis
    energy = float(np.mean(np.sum(draws**2, axis=1)))
    assert energy == pytest.approx(2 * (5 + 4 - 2), rel=0.02)


def test_noise_of_factors_by_simulation(factors):
    left, right = factors
    rng = np.random.default_rng(6)
    turns = rng.standard_normal((20_000, *left.shape))
    lifts = rng.standard_normal((20_000, *right.shape))
    change = turns @ right.T + left @ np.swapaxes(lifts, 1, 2)
    energy = float(np.mean(np.sum(change**2, axis=(1, 2))))
    assert energy == pytest.approx(low_rank.noise_of_factors(left, right), rel=0.03)


@pytest.mark.parametrize("bandwidth", [0.05, 1.0])
def test_the_length_around_an_isolated_record(bandwidth):
    n = 250

    def factor(r):
        height = 1 / (2 * math.pi * n * bandwidth**2)
        return math.sqrt(height * math.exp(-((r / bandwidth) ** 2) / 2))

    length = integrate.quad(factor, 0, 40 * bandwidth)[0]
    assert length == pytest.approx(conformal.isolated_record_length(n), rel=1e-6)


def test_distances_on_the_grid_are_those_of_a_flat_torus():
    cells = 64
    distance = conformal._grid_distances(np.ones(cells**2), cells, 0)
    steps = np.minimum(np.arange(cells), cells - np.arange(cells))
    x, y = np.meshgrid(steps, steps, indexing="ij")
    true = np.hypot(x, y).ravel() * 3.2 / cells
    assert np.all(distance >= true - 1e-12)
    assert np.all(distance <= 1.03 * true + 1e-12)


def test_a_metric_that_stays_adds_nothing():
    """With an almost uniform density the record hardly changes the metric."""
    uniform = conformal.metric_losses(1000, 40, uniform_share=1 - 1e-9)
    assert uniform["largest"] < 1e-4


def test_sensitivities_of_mean_shapes_over_that_of_the_gradient():
    """Reimherr et al. (2021): 2r(2 − h)/(nh), h = 2r√κ·cot(2r√κ), at κ = 4, r = π/16."""
    angle = math.pi / 4
    h = angle / math.tan(angle)
    figures = shapes.shapes(full=False)
    assert figures["mean over gradient, bound of 2021"] == pytest.approx((2 - h) / h)
    assert 1.0 < figures["mean over gradient, proved here"] < 1.06
