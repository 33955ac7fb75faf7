"""The referee's own instruments, each against something it does not use."""

import math

import numpy as np
import pytest
from scipy import integrate

from curvedp.local import Earth, MetricLaplace
from curvedp.papers.referee import location, run
from curvedp.randomness import SecureSource


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


# ---- location privacy


def test_noise_in_degrees_has_the_density_that_its_log_ratios_use():
    """Histograms of draws against the density, at 60° and 1.1 km from the pole."""
    rng = np.random.default_rng(0)
    for degrees, as_places in ((60.0, False), (89.99, True)):
        latitude = math.radians(degrees)
        radii = rng.gamma(2.0, 1.0, 400_000) / location.EARTH_RADIUS_KM
        turns = rng.uniform(0, 2 * np.pi, len(radii))
        north = latitude + radii * np.cos(turns)
        east = radii * np.sin(turns) / math.cos(latitude)
        if as_places:
            is_beyond = north > np.pi / 2
            north = np.where(is_beyond, np.pi - north, north)
            east = (east + np.pi * is_beyond + np.pi) % (2 * np.pi) - np.pi
        # Cells of 0.6 km to the north, and as long a part of the circle of latitude.
        top = min(latitude + 1.5 / location.EARTH_RADIUS_KM, np.pi / 2 - 1e-5)
        edges = np.linspace(top - 3 / location.EARTH_RADIUS_KM, top, 6)
        sides = np.linspace(-0.7, 0.7, 6) if as_places else np.linspace(-5e-4, 5e-4, 6)
        counts = np.histogram2d(north, east, [edges, sides])[0] / len(radii)
        # Each cell has 20 × 20 nodes.
        nodes = [
            part[0] + (np.arange(100) + 0.5) * (part[-1] - part[0]) / 100
            for part in (edges, sides)
        ]
        grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        density = np.exp(
            location.degree_log_density(
                np.array([latitude, 0.0]), grid, as_places=as_places
            )
        )
        # Per unit of latitude and longitude: places have the area cos(latitude).
        area = np.cos(grid[:, 0]) if as_places else 1.0
        size = (edges[1] - edges[0]) * (sides[1] - sides[0])
        masses = density * area * size * location.EARTH_RADIUS_KM**2 / (2 * np.pi)
        expected = masses.reshape(5, 20, 5, 20).mean(axis=(1, 3)).ravel()
        np.testing.assert_allclose(counts.ravel(), expected, rtol=0.12, atol=3e-4)


def test_degrees_are_planar_at_the_equator_and_not_near_a_pole():
    assert location.noise_in_degrees(0.0) == pytest.approx(1.0, abs=1e-6)
    assert location.noise_in_degrees(89.99) > 5
    as_places = location.noise_in_degrees(89.99, as_places=True)
    assert 1.5 < as_places < location.noise_in_degrees(89.99)


def test_the_same_instrument_passes_our_noise_and_catches_half_of_it(monkeypatch):
    assert location.metric_laplace_log_ratio(10.0) <= 1 + 1e-9

    class HalfNoise(MetricLaplace):
        """The law at 2ε, which is still called ε."""

        def __init__(self, manifold, epsilon):
            super().__init__(manifold, 2 * epsilon)

    monkeypatch.setattr(location, "MetricLaplace", HalfNoise)
    assert location.metric_laplace_log_ratio(10.0) > 1.8


def test_hyperbolic_noise_is_private_by_volume_and_not_in_a_disc():
    figures = location.hyperbolic_words()
    assert figures["hyperbolic in a disc of radius 12, ε = 2, log-ratio"] < 1.001
    assert figures["hyperbolic in a disc of radius 12, ε = 0.5, log-ratio"] > 1.3
    # Against Lebesgue's measure no ε helps: masses differ as (1 − tanh²(r/2))² does.
    assert figures["hyperbolic by Lebesgue measure, ε = 2, log-ratio"] > 1.4


def test_one_last_bit_tells_two_latitudes_apart_and_a_public_grid_does_not():
    rng = np.random.default_rng(1)
    assert location.odd_last_bits(0.0, 40_000, rng) == pytest.approx(0.5, abs=0.1)
    assert location.odd_last_bits(1.0, 40_000, rng) == 0.0
    places = MetricLaplace(Earth(), 0.01)
    shares = []
    for latitude in (0.0, 1.0):
        records = np.tile([latitude, 0.0], (2000, 1))
        integers = np.asarray(
            places.draw_reports(Earth().read(records), SecureSource())
        )
        shares.append(float(np.mean(integers[:, 2] % 2)))
    np.testing.assert_allclose(shares, 0.5, atol=0.06)
