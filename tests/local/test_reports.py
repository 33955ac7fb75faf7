"""Statistics from reports: their bias is taken out, and their regions and errors are right."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Lorentz, Sphere, Torus
from curvedp.local import (
    Earth,
    LocalGaussian,
    MetricLaplace,
    PrivUnit,
    PublicCells,
    compare_trust,
    estimate_density,
    estimate_histogram,
    estimate_mean,
)
from curvedp.local.moments import RadialDistribution, torus_moments
from curvedp.privacy import GDP, PureDP

RUNS = 400


def cloud(manifold, n, spread, seed=0):
    """Records about a point that is not the origin, and not symmetric about it."""
    rng = np.random.default_rng(seed)
    steps = spread * rng.gamma(2.0, size=(n, manifold.dim))
    origin = manifold.origin
    velocities = manifold.from_coordinates(origin, steps)
    return np.asarray(manifold.exp(origin, velocities))


@pytest.mark.parametrize(
    ("mechanism", "spread"),
    [
        (MetricLaplace(Sphere(2), 4.0), 0.2),
        (MetricLaplace(Sphere(1), 3.0), 0.2),
        (MetricLaplace(Euclidean(2), 2.0), 1.0),
        (MetricLaplace(Torus(2), 2.0), 0.3),
        (LocalGaussian(Sphere(2), [1.0, 0.0, 0.0], 1.5, GDP(4.0)), 0.2),
    ],
    ids=repr,
)
def test_means_are_unbiased_and_regions_cover(mechanism, spread):
    """The target is the mean direction of the records, each of the runs has new noise."""
    manifold = mechanism.space.manifold
    X = mechanism.space.read(cloud(manifold, 300, spread))
    if isinstance(manifold, Torus):
        target = np.arctan2(np.sin(X).mean(axis=0), np.cos(X).mean(axis=0))
    else:
        target = np.asarray(manifold.project(X.mean(axis=0)))
    rng = np.random.default_rng(1)
    errors, covered = [], 0
    for _ in range(RUNS):
        estimate = estimate_mean(mechanism, mechanism.simulate(X, rng), 0.9)
        errors.append(
            manifold.to_coordinates(target, manifold.log(target, estimate.value))
        )
        covered += float(manifold.dist(target, estimate.value)) <= estimate.radius
    errors = np.asarray(errors)
    z = errors.mean(axis=0) / (errors.std(axis=0) / math.sqrt(RUNS))
    assert np.abs(z).max() < 4.5
    assert stats.binom.cdf(covered, RUNS, 0.9) > 1e-4
    # The region is not ten times too large either.
    assert np.linalg.norm(errors, axis=1).mean() > 0.1 * estimate.radius


def test_the_mean_of_places_is_in_kilometers():
    mechanism = MetricLaplace(Earth(), 1.0)
    place = [51.5, 179.999]  # beside the date line
    reports = mechanism.randomize(np.tile(place, (2000, 1)))
    estimate = estimate_mean(mechanism, reports)
    assert estimate.unit == "kilometer"
    assert estimate.radius < 0.3
    assert float(Earth().dist(place, estimate.value)) < 3 * estimate.radius


def test_shrinking_factors_are_those_of_the_noise():
    mechanism = MetricLaplace(Sphere(2), 3.0)
    X = np.tile([1.0, 0.0, 0.0], (200_000, 1))
    cosines = mechanism.simulate(X, np.random.default_rng(0))[:, 0]
    factors = RadialDistribution(mechanism).legendre(3)
    for degree in range(1, 4):
        values = np.polynomial.legendre.Legendre.basis(degree)(cosines)
        error = values.std() / math.sqrt(len(values))
        assert abs(values.mean() - factors[degree]) < 4.5 * error

    torus = MetricLaplace(Torus(2), 1.5)
    angles = torus.simulate(np.zeros((200_000, 2)), np.random.default_rng(0))
    frequencies = np.array([[1, 0], [1, 1], [2, -1]])
    expected = torus_moments(torus, frequencies)
    for frequency, moment in zip(frequencies, expected, strict=True):
        waves = np.cos(angles @ frequency)
        assert abs(waves.mean() - moment) < 4.5 * waves.std() / math.sqrt(len(waves))


@pytest.mark.parametrize(
    "mechanism",
    [MetricLaplace(Sphere(2), 4.0), MetricLaplace(Torus(1), 3.0)],
    ids=repr,
)
def test_densities_are_unbiased_for_the_smoothed_density(mechanism):
    manifold = mechanism.space.manifold
    X = cloud(manifold, 400, 0.3)
    queries = np.stack([X[0], X[1], np.asarray(manifold.origin)])
    rng = np.random.default_rng(3)
    # The smoothed density of the records themselves: reports with hardly any noise.
    precise = MetricLaplace(manifold, 1e6)
    target = estimate_density(precise, X, queries, degree=4).values
    estimates = [
        estimate_density(mechanism, mechanism.simulate(X, rng), queries, degree=4)
        for _ in range(150)
    ]
    values = np.array([estimate.values for estimate in estimates])
    z = (values.mean(axis=0) - target) / (values.std(axis=0) / math.sqrt(150))
    assert np.abs(z).max() < 4.5
    stated = np.mean([estimate.standard_errors for estimate in estimates], axis=0)
    # The stated error includes that of the records, so that it is a little larger.
    assert np.all(values.std(axis=0) < 1.25 * stated)
    assert np.all(values.std(axis=0) > 0.4 * stated)


def test_densities_have_mass_one_and_find_the_records():
    mechanism = MetricLaplace(Sphere(2), 5.0)
    X = cloud(Sphere(2), 1500, 0.1)
    reports = mechanism.simulate(X, np.random.default_rng(0))
    grid = np.random.default_rng(1).standard_normal((1500, 3))
    grid /= np.linalg.norm(grid, axis=1, keepdims=True)
    density = estimate_density(mechanism, reports, grid)
    assert 4 * np.pi * density.values.mean() == pytest.approx(1.0, abs=0.1)
    best = grid[np.argmax(density.values)]
    assert float(Sphere(2).dist(best, Sphere(2).project(X.mean(axis=0)))) < 0.3
    # Where the noise has erased the details, the stated errors say so.
    blurred = estimate_density(MetricLaplace(Sphere(2), 0.01), reports, grid, degree=8)
    assert blurred.standard_errors.min() > 1.0


def test_histograms_are_unbiased_and_their_errors_right():
    cells = PublicCells(Earth(), [[51.5, -0.2], [51.5, -0.1], [51.55, -0.15]])
    mechanism = MetricLaplace(Earth(), 0.7)
    X = np.repeat(cells.centers, [300, 80, 20], axis=0)
    rng = np.random.default_rng(4)
    runs = [
        estimate_histogram(mechanism, mechanism.simulate(cells.snap(X), rng), cells)
        for _ in range(30)
    ]
    counts = np.array([run.counts for run in runs])
    z = (counts.mean(axis=0) - [300, 80, 20]) / (counts.std(axis=0) / math.sqrt(30))
    assert np.abs(z).max() < 4.5
    stated = np.mean([run.standard_errors for run in runs], axis=0)
    assert np.all(counts.std(axis=0) < 1.4 * stated)
    assert np.all(counts.std(axis=0) > 0.6 * stated)
    for run in runs:
        assert run.shares.min() >= 0
        assert run.shares.sum() == pytest.approx(1.0)
    # What the reports say without the correction is off by far more than its error.
    reported = np.bincount(cells.index(mechanism.simulate(X, rng)), minlength=3)
    assert abs(reported[0] - 300) > 3 * counts[:, 0].std() / math.sqrt(30)
    tiny = PublicCells(Earth(), [[51.5, -0.1], [51.5, -0.1001]])
    with pytest.raises(ParameterError):
        estimate_histogram(mechanism, mechanism.simulate(X, rng), tiny)


def test_broken_reports_are_data():
    mechanism = MetricLaplace(Earth(), 1.0)
    reports = mechanism.randomize(np.zeros((50, 2)))
    reports[:3] = np.nan
    assert np.isfinite(estimate_mean(mechanism, reports).value).all()
    cells = PublicCells(Earth(), [[0.0, 0.0], [0.0, 1.0]])
    assert np.isfinite(estimate_histogram(mechanism, reports, cells).counts).all()
    assert np.isfinite(
        estimate_density(mechanism, reports, [[0.0, 0.0]], degree=2).values
    ).all()
    for few in (reports[:1], reports[0]):
        with pytest.raises(ParameterError):
            estimate_mean(mechanism, few)
    with pytest.raises(ParameterError):
        estimate_mean(MetricLaplace(Lorentz(2), 4.0), np.tile([1.0, 0, 0], (3, 1)))


def test_an_estimator_of_its_own():
    privunit = PrivUnit(4, 3.0)
    X = np.tile(np.eye(4)[0], (300, 1))
    reports = privunit.randomize(X)
    estimate = estimate_mean(privunit, reports)
    assert np.array_equal(estimate.value, privunit.estimate_mean(reports).value)
    with pytest.raises(ParameterError):
        RadialDistribution(privunit)


# --- the three models of trust


@pytest.mark.parametrize(
    ("manifold", "guarantee"),
    [(Sphere(2), PureDP(2.0)), (Sphere(2), GDP(1.0)), (Euclidean(3), GDP(1.0))],
)
def test_the_local_row_is_what_simulation_gives(manifold, guarantee):
    n, radius = 4000, 0.4
    comparison = compare_trust(manifold, n, radius, guarantee, error=0.01)
    row = comparison.rows[-1]
    assert row.trust.value == "local"
    rng = np.random.default_rng(0)
    steps = rng.standard_normal((n, manifold.dim))
    steps *= 0.3 * radius / np.linalg.norm(steps, axis=1, keepdims=True)
    origin = np.asarray(manifold.origin)
    X = np.asarray(manifold.exp(origin, manifold.from_coordinates(origin, steps)))
    if row.mechanism == "privunit":
        mechanism = PrivUnit(manifold.dim + 1, guarantee.eps)
    else:
        from curvedp.local import LocalLaplace

        kinds = {"local-gaussian": LocalGaussian, "local-laplace": LocalLaplace}
        mechanism = kinds[row.mechanism](manifold, origin, radius, guarantee)
    target = np.asarray(manifold.project(X.mean(axis=0)))
    errors = []
    for _ in range(60):
        value = estimate_mean(mechanism, mechanism.simulate(X, rng)).value
        point = np.asarray(manifold.project(value))
        errors.append(float(manifold.dist(target, point)))
    measured = float(np.mean(errors))
    assert 0.8 * measured < row.error < 1.3 * measured
    people = math.ceil((row.error / 0.01) ** 2 * n)
    assert row.people == pytest.approx(people, rel=1e-3)


def test_local_reports_take_more_people_than_a_curator():
    comparison = compare_trust(Sphere(2), 10_000, 0.5, GDP(1.0), error=0.02)
    errors = {row.trust.value: row.error for row in comparison.rows}
    people = {row.trust.value: row.people for row in comparison.rows}
    assert errors["central"] <= errors["federated"] < errors["local"]
    assert people["local"] > 10 * people["central"]
    assert "local" in str(comparison)
    pure = compare_trust(Sphere(2), 1000, 0.5, PureDP(1.0))
    assert "federated" in pure.left_out
    for bad in ({"n": 1}, {"radius": 0.0}, {"manifold": Lorentz(2)}, {"error": -1.0}):
        arguments = {
            "manifold": Sphere(2),
            "n": 100,
            "radius": 0.5,
            "guarantee": GDP(1.0),
            **bad,
        }
        with pytest.raises(ParameterError):
            compare_trust(**arguments)
