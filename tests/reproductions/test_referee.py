"""The referee's own instruments, each against something it does not use."""

import math

import numpy as np
import pytest
from scipy import integrate

from curvedp.papers.referee import run


@pytest.mark.parametrize("t", [0.2, 1.0])
def test_heat_kernels_have_mass_one_and_solve_the_heat_equation(t):
    circle = integrate.quad(
        lambda y: float(run.circle_kernel(np.array(y), t)), -math.pi, math.pi
    )[0]
    sphere = (
        2
        * math.pi
        * integrate.quad(lambda c: float(run.sphere_kernel(np.array(c), t)), -1, 1)[0]
    )
    assert circle == pytest.approx(1.0, rel=1e-9)
    assert sphere == pytest.approx(1.0, rel=1e-9)
    assert math.exp(run.renyi_hyperbolic(1.0 + 1e-7, t, 0.0) * 1e-7) == pytest.approx(
        1.0, rel=1e-8
    )  # the mass on H³

    def kernel(r, t):  # H³ again, from its formula
        return (
            (4 * math.pi * t) ** -1.5
            * r
            / math.sinh(r)
            * math.exp(-t - r * r / (4 * t))
        )

    r, h = 0.7, 1e-4
    in_time = (kernel(r, t + h) - kernel(r, t - h)) / (2 * h)
    first = (kernel(r + h, t) - kernel(r - h, t)) / (2 * h)
    second = (kernel(r + h, t) - 2 * kernel(r, t) + kernel(r - h, t)) / h**2
    assert in_time == pytest.approx(
        second + 2 / math.tanh(r) * first, rel=1e-5
    )  # ∂_t = Δ, radial


def test_short_times_are_nearly_flat():
    """For small t all three are near Gaussians of variance 2t, D_α = αd²/4t: less on the sphere, more on H³."""
    flat = 2 * 0.01 / 0.4
    assert run.renyi_circle(2.0, 0.1, 0.1) == pytest.approx(flat, rel=1e-3)
    assert 0.8 * flat < run.renyi_sphere(2.0, 0.1, 0.1) < flat
    assert flat < run.renyi_hyperbolic(2.0, 0.1, 0.1) < 1.25 * flat


def test_the_bingham_loss_is_a_sine():
    """|(x·μ)² − (x·ν)²| ≤ sin of the quaternions' angle: half the rotation, so ½ of it at most."""
    assert run.rotations(2000)["Bingham"] == pytest.approx(
        math.sin(0.01) / 0.02, rel=1e-6
    )


def test_one_round_of_the_federation_costs_what_it_says():
    found = run.federated()
    assert found["exact"][0] < 0.15 < found["advanced"][0]
    assert np.all(np.diff(found["exact"]) > 0)
