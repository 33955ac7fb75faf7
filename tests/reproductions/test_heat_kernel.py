"""The study of the heat kernel: its density is right, and it has no advantage."""

import math

import numpy as np
import pytest
from scipy import integrate

from curvedp.papers.referee.heat_kernel import (
    compare,
    root_mean_square_distance,
    sphere_heat_kernel,
    total_variation,
)


def test_kernel_has_mass_one_and_its_cosine_decays():
    """cos r is an eigenfunction of ½Δ with the eigenvalue −1 on S²: E cos r = e^{−t}."""
    t = 0.3

    def moment(f):
        density = lambda r: float(sphere_heat_kernel(np.array(r), t)) * math.sin(r)  # noqa: E731
        return 2 * math.pi * integrate.quad(lambda r: density(r) * f(r), 0, math.pi)[0]

    assert moment(lambda r: 1.0) == pytest.approx(1.0, abs=1e-10)
    assert moment(math.cos) == pytest.approx(math.exp(-t), abs=1e-10)


def test_total_variation_against_brute_force():
    t, shift = 0.3, 0.7
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400_000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    to_first = np.arccos(np.clip(points[:, 0], -1, 1))
    other = np.array([math.cos(shift), math.sin(shift), 0.0])
    to_second = np.arccos(np.clip(points @ other, -1, 1))
    difference = sphere_heat_kernel(to_first, t) - sphere_heat_kernel(to_second, t)
    brute_force = 4 * math.pi * np.mean(np.maximum(difference, 0.0))
    assert total_variation(t, shift) == pytest.approx(brute_force, abs=3e-3)


def test_bound_on_the_privacy_loss_holds():
    """μ = Δ·√(ρ/(e^{ρt} − 1)) with ρ = 1 on S²: δ(0) = 2Φ(μ/2) − 1 is not exceeded."""
    for t, shift in ((0.1, 0.1), (0.3, 0.5), (1.0, 1.0)):
        mu = shift / math.sqrt(math.expm1(t))
        bound = math.erf(mu / (2 * math.sqrt(2)))
        assert 0.8 * bound < total_variation(t, shift) <= bound


@pytest.mark.parametrize(("scale", "shift"), [(0.45, 0.2), (0.8, 1.0)])
def test_heat_kernel_has_no_advantage(scale, shift):
    heat, gaussian = compare(scale**2, shift)
    assert heat == pytest.approx(gaussian, rel=5e-3)
    assert heat == root_mean_square_distance(scale**2)
