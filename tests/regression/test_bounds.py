"""What one record can contribute to a regression, over the whole domain, and the errata about it."""

import math

import numpy as np
import pytest

from benchmarks.regression import attack  # a study of its own, run here in a reduced form
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.regression.bounds import (
    Domain,
    endpoint_sensitivity,
    gradient_sensitivities,
    joint_sensitivity,
)
from curvedp.regression.gradient import clipped_gradient
from examples.geodesics import fit_geodesic

ATTACKED = [Sphere(2), Lorentz(2), SPDAffineInvariant(2), Euclidean(4)]


@pytest.mark.parametrize("M", ATTACKED, ids=repr)
def test_sensitivities_hold_under_attack_and_are_tight(M):
    speed, clip = 1.5, 0.4
    domain = Domain(0.5, speed, clip, 1, 1.0)
    foot, shoot, joint, ends = attack(M, speed, clip, (-0.5, 0.5), seed=1, pairs=200, ascent=15)[0].values()
    bounds = gradient_sensitivities(M, speed, clip, 1)
    assert foot <= bounds[0] * (1 + 1e-9)
    assert shoot <= bounds[1] * (1 + 1e-9)
    assert 0.99 * joint_sensitivity(domain) <= joint <= joint_sensitivity(domain) * (1 + 1e-9)
    assert foot >= 0.9 * bounds[0]  # what is not attained is waste
    assert shoot >= 0.9 * bounds[1]
    if not isinstance(M, SPDAffineInvariant):
        assert 0.9 * endpoint_sensitivity(M, domain) <= ends <= endpoint_sensitivity(M, domain) * (1 + 1e-9)


def test_erratum_e20_the_printed_constants_of_the_sphere_are_violated():
    """REG, App. A: ‖J_p‖ = cos 1 and ‖J_v‖ = sin 1 for x in [0, 1] and unit speed. The truth is 1 and 1."""
    clip = 0.4
    foot, shoot, *_ = attack(Sphere(2), 1.0, clip, (0.0, 1.0), seed=2, pairs=400)[0].values()
    assert 2 * clip * math.cos(1) / foot == pytest.approx(math.cos(1), abs=0.01)  # understated 1.85 times
    assert 2 * clip * math.sin(1) / shoot == pytest.approx(math.sin(1), abs=0.01)
    ours = gradient_sensitivities(Sphere(2), 1.0, clip, 1, reach=1.0)
    assert foot <= ours[0] * (1 + 1e-9)
    assert shoot <= ours[1] * (1 + 1e-9)


def test_erratum_e19_an_upper_curvature_bound_bounds_nothing():
    """REG, Thm 3.4 takes K_max, which on SPD(2) is 0 and gives Jacobi fields of norm 1; the lower bound −½ gives cosh."""
    clip = 0.4
    foot, shoot, *_ = attack(SPDAffineInvariant(2), 2.0, clip, (0.0, 1.0), seed=3, pairs=600)[0].values()
    assert 2 * clip / foot < 0.7
    assert 2 * clip / shoot < 0.9
    ours = gradient_sensitivities(SPDAffineInvariant(2), 2.0, clip, 1, reach=1.0)
    assert foot <= ours[0] * (1 + 1e-9)
    assert shoot <= ours[1] * (1 + 1e-9)


def test_erratum_e21_a_clip_read_off_the_data_is_not_private():
    """τ := largest residual: two adjacent data sets on the line get scales 2τ/(nε) that differ without bound."""
    n, eps, grid = 40, 1.0, np.linspace(-3, 3, 6001)

    def log_density(y, clip):
        residual = np.clip(y - grid[:, None], -clip, clip)
        log = -np.abs(residual.mean(axis=1)) / (2 * (2 * clip / n) / eps)
        return log - np.log(np.sum(np.exp(log)))

    first = np.r_[np.linspace(-0.01, 0.01, n - 1), 0.0]
    second = np.r_[first[:-1], 2.0]
    printed = [log_density(y, np.abs(y - y.mean()).max()) for y in (first, second)]
    public = [log_density(y, 0.5) for y in (first, second)]
    assert np.max(np.abs(printed[0] - printed[1])) > 3 * eps
    assert np.max(np.abs(public[0] - public[1])) <= eps


def test_erratum_e22_the_fitted_velocity_moves_the_footpoint_density():
    """With v̂(D) plugged in, ∇_p E at fixed p moves four times as far as Δ_p = 2τ/n allows (predictors spread over [0, 1])."""
    n, clip = 400, 0.3
    x = np.linspace(0, 1, n)
    first, second = np.zeros((n, 1)), np.zeros((n, 1))
    first[0], second[0] = clip, -clip
    moved = []
    for Y in (first, second):
        fit = fit_geodesic(Euclidean(1), x, Y)
        moved.append(float(np.mean(Y[:, 0] - x * fit.velocity)))
    assert abs(moved[0] - moved[1]) > 3.9 * 2 * clip / n


def test_erratum_e24_a_bound_at_the_optimum_is_none_elsewhere():
    """Residuals within τ at the optimum (0, 0) are longer at other velocities; only clipping bounds the gradient's change."""
    M, clip = Euclidean(1), 0.3
    x, y = np.array([0.5, -0.5]), np.array([[clip], [-clip]])
    v, p = np.array([[-2.0]]), np.zeros((1, 1))
    one = [clipped_gradient(M, x[[k]], y[[k]], 1e9, 1.0)(p, v)[0][0, 0] for k in (0, 1)]
    two = [clipped_gradient(M, x[[k]], y[[k]], clip, 1.0)(p, v)[0][0, 0] for k in (0, 1)]
    assert abs(one[0] - one[1]) > 4 * 2 * clip
    assert abs(two[0] - two[1]) <= 2 * clip * (1 + 1e-12)
