"""The mean square beside a mean costs nothing, and regions of the population hold it."""

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, PrivateFrechetMean, PureDP
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.geometry import Rotations, SPDAffineInvariant, Sphere, frechet_mean
from curvedp.inference import population, region_of
from curvedp.mechanisms import gradient_step
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.release.rebuild import recorded_draw_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean


def worst_distance(weight):
    """The largest distance of (u, a|u|²) from (v, a|v|²) for |u|, |v| ≤ 1.

    Lengths and the angle between u and v are searched on a grid that holds the ends.
    """
    s, t = np.meshgrid(np.linspace(0, 1, 801), np.linspace(0, 1, 801))
    farthest = 0.0
    for cosine in np.linspace(-1, 1, 21):
        between = s**2 + t**2 - 2 * s * t * cosine
        square = between + weight**2 * (s**2 - t**2) ** 2
        farthest = max(farthest, float(np.sqrt(square.max())))
    return farthest


def test_the_mean_square_moves_no_pair_of_records_farther_apart():
    assert worst_distance(gradient_step.SQUARE_WEIGHT) == 2.0
    assert worst_distance(1.66) == 2.0
    # A deliberately larger weight costs privacy, and the search finds it.
    assert worst_distance(1.8) > 2.005


def test_computed_vectors_are_no_farther_apart_than_is_charged():
    rng = np.random.default_rng(1)
    for radius in (1e-80, 0.7, 1e80):
        u = rng.normal(size=(2000, 5))
        lengths = rng.choice([0.0, 0.3, 1.0], size=(2000, 1))
        u *= radius * lengths / np.linalg.norm(u, axis=1, keepdims=True)
        rows = gradient_step._append_squares(radius, u) / radius
        moved = np.linalg.norm(
            rows - gradient_step._append_squares(radius, -u[::-1]) / radius, axis=1
        )
        assert moved.max() <= 2 * (1 + 1e-14)
        assert moved.max() > 1.9


def test_only_gaussian_noise_releases_the_mean_square():
    statistic = FrechetMean(Sphere(2), None, 0.6, 50)
    assert GradientMechanism.calibrate(statistic, GDP(1.0)).releases_mean_square
    assert not GradientMechanism.calibrate(statistic, PureDP(1.0)).releases_mean_square
    with pytest.raises(ParameterError, match="Gaussian"):
        GradientMechanism(
            statistic=statistic,
            scale=0.1,
            noise_kind="laplace",
            moments="first-and-second",
        )


def test_the_released_mean_square_is_that_of_the_records():
    S = Sphere(2)
    rng = np.random.default_rng(5)
    z = 0.2 * rng.normal(size=(20_000, 2))
    records = np.asarray(S.from_normal_coordinates(S.origin, z))
    mean = PrivateFrechetMean(S, radius=1.0, mechanism="gradient").fit(records)
    released = recorded_draw_of(mean.certificate_).mean_square
    assert released.noise_std == pytest.approx(2 / 20_000 / 1.5, rel=1e-6)
    true_mean_square = float(np.mean(np.sum(z**2, axis=1)))
    assert abs(released.value - true_mean_square) <= 6 * released.noise_std

    again = Certificate.from_json(mean.certificate_.to_json())
    assert all(check.holds for check in verify_certificate(again))


def test_the_quantile_is_the_largest_of_all_spectra():
    """Normal vectors of one trace, with random spectra, and the noise."""
    S = SPDAffineInvariant(3)
    records = np.asarray(
        S.from_normal_coordinates(
            S.origin, 0.3 * np.random.default_rng(0).normal(size=(300, 6))
        )
    )
    for guarantee in (GDP(1.0), PureDP(20.0)):
        model = PrivateFrechetMean(S, 1.5, guarantee=guarantee, mechanism="gradient")
        draw = recorded_draw_of(model.fit(records).certificate_)
        noise_std = draw.law.scale * (1 if guarantee == GDP(1.0) else np.sqrt(7))
        variance = 4 * noise_std**2
        bound = population.noise_and_sampling_quantile(draw, variance, 0.95)
        rng = np.random.default_rng(2)
        largest = 0.0
        for _ in range(60):
            spectrum = variance * rng.dirichlet(np.full(6, 0.3))
            sampling = rng.normal(size=(20_000, 6)) * np.sqrt(spectrum)
            noise = rng.normal(size=(20_000, 6))
            if guarantee != GDP(1.0):
                noise /= np.linalg.norm(noise, axis=1, keepdims=True)
                noise *= rng.gamma(6, size=(20_000, 1))
            lengths = np.linalg.norm(sampling + draw.law.scale * noise, axis=1)
            largest = max(largest, float(np.quantile(lengths, 0.95)))
        assert 0.9 * bound < largest <= bound


def test_the_quantile_with_a_fixed_error_is_the_largest_of_all():
    """Random spectra, and fixed vectors in random directions and along the main axis."""
    S = SPDAffineInvariant(3)
    rng = np.random.default_rng(4)
    records = np.asarray(S.from_normal_coordinates(S.origin, rng.normal(size=(300, 6))))
    model = PrivateFrechetMean(S, 4.0, guarantee=GDP(1.0), mechanism="gradient")
    draw = recorded_draw_of(model.fit(records).certificate_)
    scale, factor = draw.law.scale, 0.8
    variance, offset = 4 * scale**2, 1.2 * scale
    bound = population.noise_and_sampling_quantile(draw, variance, 0.95, factor, offset)
    without = population.noise_and_sampling_quantile(draw, variance, 0.95, factor)
    assert without < bound < without + offset  # less than the sum of two bounds
    largest = 0.0
    for run in range(60):
        spectrum = np.sort(variance * rng.dirichlet(np.full(6, 0.3)))[::-1]
        if run == 0:
            spectrum = np.array([variance, 0, 0, 0, 0, 0])
        fixed = rng.normal(size=6) if run % 2 else np.eye(6)[0]
        fixed *= offset / np.linalg.norm(fixed)
        errors = rng.normal(size=(20_000, 6)) * np.sqrt(spectrum)
        errors += scale * rng.normal(size=(20_000, 6))
        lengths = np.linalg.norm(factor * errors + fixed, axis=1)
        largest = max(largest, float(np.quantile(lengths, 0.95)))
    assert 0.95 * bound < largest <= bound


@pytest.mark.parametrize(
    ("space", "std"),
    [(Sphere(2), 0.2), (Rotations(3), 0.2), (SPDAffineInvariant(2), 0.5)],
    ids=repr,
)
def test_regions_of_the_population_hold_it(space, std):
    """Skewed populations; 60 samples. A region of noise alone holds few of the means."""
    rng = np.random.default_rng(3)
    z = std * (rng.gamma(2.0, size=(20_000, space.dim)) - 2.0)
    z *= np.minimum(1.0, 1.2 / np.linalg.norm(z, axis=1, keepdims=True))
    records = np.asarray(space.from_normal_coordinates(space.origin, z))
    truth = np.asarray(frechet_mean(space, records))
    held = noise_only = 0
    for _ in range(60):
        sample = records[rng.integers(len(records), size=400)]
        model = PrivateFrechetMean(space, "private", guarantee=GDP(1.0)).fit(sample)
        held += bool(model.confidence_region(of="population").contains(truth))
        noise_only += bool(model.confidence_region().contains(truth))
    assert held >= 49  # below it with probability 4e-5 at a coverage of 0.95...
    assert noise_only < 36  # ...and this region is not one of the population


def test_what_is_asymptotic_says_so():
    S = Sphere(2)
    z = 0.2 * np.random.default_rng(5).normal(size=(500, 2))
    records = np.asarray(S.from_normal_coordinates(S.origin, z))
    private_ball = PrivateFrechetMean(S, "private").fit(records)
    assert "asymptotic" in private_ball.confidence_region(of="population").theorem
    wide_ball = PrivateFrechetMean(S, 0.9, mechanism="tangent-gaussian").fit(records)
    assert "asymptotic" in wide_ball.confidence_region(of="population").theorem
    small_ball = PrivateFrechetMean(S, 0.3, mechanism="tangent-gaussian").fit(records)
    assert "finite-sample" in small_ball.confidence_region(of="population").theorem
    laplace = PrivateFrechetMean(S, "private", guarantee=ApproxDP(1.0, 1e-6)).fit(
        records
    )
    assert region_of(laplace.certificate_, of="population").radius > 0
