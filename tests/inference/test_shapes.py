"""Regions of directions: they cover as often as they say, and their angle holds every subspace."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from curvedp import (
    GDP,
    PrivatePCA,
)
from curvedp.core.capabilities import NoisyDraw
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.geometry.comparison import hessian_bounds, mean_hessian_bounds
from curvedp.inference.shapes import _distance_to_mean, shape_after_gradient
from curvedp.laws import RiemannianGaussian
from curvedp.randomness import GeneratorSource
from curvedp.statistics.frechet_mean import FrechetMean
from support.inference import elongated_vectors, shrink_region

RUNS, LEVEL, N = (
    160,
    0.9,
    25,
)  # so many that radii of 0.6 of the right ones are rejected at p < 1e-6


def principal_angle(P, Q):
    return float(
        np.linalg.norm(
            np.arccos(np.clip(np.linalg.svd(P @ Q.T, compute_uv=False), -1, 1))
        )
    )


def test_the_population_s_directions_are_covered():
    rng, wanted, found, records_only = (
        np.random.default_rng(2),
        np.array([[1.0, 0.0, 0.0]]),
        0,
        0,
    )
    for _ in range(40):
        fitted = PrivatePCA(1, radius=1.0, guarantee=GDP(1e4), method="one-shot").fit(
            elongated_vectors(rng, 20_000)
        )
        population, own = (
            fitted.confidence_region(0.8, of=of) for of in ("population", "records")
        )
        assert own.radius < population.radius < 0.6
        found += bool(population.contains(wanted.T))
        records_only += bool(own.contains(wanted.T))
        assert principal_angle(population.center.T, wanted) <= population.radius
    assert found >= 32
    assert binomtest(records_only, 40, 0.8).pvalue < 1e-6


def spiked(d=6, n=4000, k=1, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d)) * np.where(
        np.arange(d) < k, 1.0, 0.2
    )
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / 2.5, 1.0)


@pytest.mark.parametrize("k", [1, 2])
def test_directions_are_covered_as_often_as_said(k):
    X, source = spiked(k=k), GeneratorSource(np.random.default_rng(1))
    truth = np.linalg.eigh(X.T @ X / len(X))[1][:, ::-1][:, :k]
    fits = [
        PrivatePCA(k, radius=2.5, guarantee=GDP(0.5), source=source).fit(X)
        for _ in range(RUNS)
    ]
    found = [fit.confidence_region(LEVEL) for fit in fits]
    hits = sum(bool(region.contains(truth)) for region in found)
    assert (
        binomtest(hits, RUNS, LEVEL + 0.1 * (1 - LEVEL)).pvalue > 1e-4
    )  # the tenth that is kept for swaps is not used
    less = sum(bool(shrink_region(region).contains(truth)) for region in found)
    assert binomtest(less, RUNS, LEVEL).pvalue < 1e-6
    assert all(
        np.allclose(
            region.center @ region.center.T, fit.components_.T @ fit.components_
        )
        for region, fit in zip(found, fits, strict=True)
    )
    assert all(region.radius < 0.5 for region in found)


def test_the_angle_holds_every_subspace_of_the_region():
    """Points of the exact set near the center, found by brute force, are within the angle of the theorem."""
    region = (
        PrivatePCA(1, radius=2.5, guarantee=GDP(0.5))
        .fit(spiked(3))
        .confidence_region(LEVEL)
    )
    rng = np.random.default_rng(5)
    near = region.manifold.from_normal_coordinates(
        region.center, 2 * region.radius * rng.uniform(-1, 1, (20000, 2))
    )
    inside = region.within.contains(region.manifold, near)
    away = np.asarray(region.manifold.dist(region.center, near))
    assert inside.sum() > 100
    assert np.all(away[inside] <= region.radius)
    assert np.max(away[inside]) > 0.8 * region.radius  # and is not much too wide
    hidden = (
        PrivatePCA(1, radius=2.5, guarantee=GDP(0.01))
        .fit(spiked(3, n=50))
        .confidence_region(LEVEL)
    )
    assert hidden.radius == pytest.approx(np.pi / 2)


@pytest.mark.parametrize(
    "M", [Sphere(2), Sphere(5), KendallShapes(4), Rotations(3)], ids=repr
)
def test_the_distance_to_the_mean_is_that_of_a_fixed_point(M):
    """ρ·λ(D + ρ) ≥ γ for what is returned, and not for a thousandth less."""
    root = math.sqrt(M.curvature_bounds[1])
    found = 0
    for farthest in np.array([0.1, 0.6, 1.0, 1.3]) / root:
        for gradient in np.array([1e-6, 0.01, 0.1, 0.3, 1.0]) / root:
            distance = _distance_to_mean(M, farthest, farthest, gradient)
            if distance == math.inf:
                continue
            found += 1
            low, _ = mean_hessian_bounds(M, farthest + distance, farthest)
            assert distance * low >= gradient
            less = 0.999 * distance
            low, _ = mean_hessian_bounds(M, farthest + less, farthest)
            assert less * low < gradient
            # the bound that was used before is less: the mean lies beyond the points it knew
            assert distance > gradient / hessian_bounds(M, farthest)[0]
    assert found >= 10


def test_the_distance_to_the_mean_where_curvature_is_not_positive():
    for M in (Euclidean(3), Lorentz(2), SPDAffineInvariant(2)):
        for gradient in (0.0, 1e-3, 0.5):
            distance = _distance_to_mean(M, 5.0, 5.0, gradient)
            assert gradient <= distance <= gradient * (1 + 2e-6)


@pytest.mark.parametrize("r", [0.4, 0.7, 1.0])
def test_the_mean_is_within_the_distance_of_its_gradient(r):
    """Two or three weighted records and a point near their mean, on the sphere."""
    rng, M = np.random.default_rng(4), Sphere(2)
    tried = 0
    for _ in range(300):
        z = rng.normal(size=(rng.integers(2, 4), 2))
        z *= r / np.linalg.norm(z, axis=1)[:, None]
        X = np.asarray(M.from_normal_coordinates(M.origin, z))
        weights = rng.dirichlet(np.ones(len(X)))
        points = [M.origin]
        for number in range(400):
            step = np.tensordot(weights, np.asarray(M.log(points[-1], X)), axes=1)
            points.append(np.asarray(M.project(M.exp(points[-1], step))))
            if number >= 2 and np.linalg.norm(step) < 1e-14:
                break  # no step of those that are left would move it
        mean = points[-1]
        for point in points[:3]:
            gradient = np.tensordot(weights, np.asarray(M.log(point, X)), axes=1)
            farthest = float(np.max(M.dist(point, X)))
            squares = np.asarray(M.dist(point, X)) ** 2
            spread = math.sqrt(float(weights @ squares))
            length = float(M.norm(point, gradient))
            bound = _distance_to_mean(M, farthest, farthest, length)
            sharper_bound = _distance_to_mean(M, farthest, spread, length)
            assert sharper_bound <= bound * (1 + 1e-9)
            if sharper_bound < math.inf:
                tried += 1
                assert float(M.dist(point, mean)) <= sharper_bound + 1e-9
    assert tried >= 200


@pytest.mark.parametrize(
    ("M", "radius"),
    [(Sphere(2), 0.7), (Lorentz(3), 2.5), (SPDAffineInvariant(2), 2.5)],
    ids=repr,
)
def test_the_mean_is_in_the_region_of_its_own_gradient(M, radius):
    """Theorem I2 without noise, for records of all kinds about a base off their mean.

    The root mean square distance is that at the base, as the theorem says; on the way
    to the mean it must not grow. With a bound at half of it the theorem is wrong, and
    some means are outside.
    """
    rng = np.random.default_rng(6)
    base = np.asarray(M.origin)
    outside, is_narrower = 0, 0
    for _ in range(300):
        k = rng.integers(2, 6)
        lengths = radius * rng.uniform(0.0, 1.0, (k, 1)) ** 0.3
        directions = rng.normal(size=(k, M.dim)) + rng.normal(size=M.dim)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        logs = lengths * directions
        records = np.asarray(M.from_normal_coordinates(base, logs))
        gradient = logs.mean(axis=0)
        spread = float(np.sqrt(np.mean(lengths**2)))
        mean = np.asarray(frechet_mean(M, records))

        draw = NoisyDraw(
            "gradient",
            RiemannianGaussian(Euclidean(M.dim), 1e-3),
            gradient,
            grid_width=2.0**-30,
            base=base,
            max_length=radius,
        )
        statistic = FrechetMean(M, base, radius, 100)
        shape = shape_after_gradient(M, statistic, draw, 0.0, 0.0, spread)
        distance = float(M.dist(shape.center(M), mean))
        assert distance <= shape.radius + 1e-9
        looser = shape_after_gradient(
            M, statistic, draw, 0.0, 0.0, spread + float(np.linalg.norm(gradient))
        )
        assert shape.radius <= looser.radius
        is_narrower += shape.radius < looser.radius
        wrong = shape_after_gradient(M, statistic, draw, 0.0, 0.0, spread / 2)
        outside += float(M.dist(wrong.center(M), mean)) > wrong.radius

        # The cost falls along the step, up to twice the inverse of the Hessian.
        _, highest = mean_hessian_bounds(M, 2 * radius, spread)
        steps = np.linspace(0, 2 / highest, 9)[:, None] * gradient
        path = np.asarray(M.from_normal_coordinates(base, steps))
        along = [float(np.sqrt(np.mean(np.square(M.dist(p, records))))) for p in path]
        assert max(along) <= spread + 1e-9
    assert outside >= 10
    assert is_narrower >= 200


@pytest.mark.parametrize("M", [Sphere(3), Lorentz(3), SPDAffineInvariant(2)], ids=repr)
def test_the_mean_hessian_lies_within_its_bounds(M):
    """Second differences of the mean of ½d² along geodesics, at many sets of records."""
    rng = np.random.default_rng(8)
    step = 1e-3
    narrower = 0
    for _ in range(200):
        lengths = rng.uniform(0.0, 1.3, size=(6, 1))
        directions = rng.normal(size=(6, M.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        records = np.asarray(M.from_normal_coordinates(M.origin, lengths * directions))
        line = rng.normal(size=M.dim)
        line = np.array([-step, 0.0, step])[:, None] * line / np.linalg.norm(line)
        points = np.asarray(M.from_normal_coordinates(M.origin, line))
        values = [float(np.mean(np.square(M.dist(p, records)))) / 2 for p in points]
        second_difference = (values[0] - 2 * values[1] + values[2]) / step**2

        root_mean_square = float(np.sqrt(np.mean(lengths**2)))
        bounds = mean_hessian_bounds(M, float(lengths.max()), root_mean_square)
        assert bounds.lowest - 1e-4 <= second_difference <= bounds.highest + 1e-4
        farthest = hessian_bounds(M, float(lengths.max()))
        narrower += bounds.highest - bounds.lowest < farthest.highest - farthest.lowest
    assert narrower == 200
