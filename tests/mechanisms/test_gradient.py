"""What one record moves in a gradient step from the center, computed, against what is charged for it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from curvedp import PrivateFrechetMean, plan
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    Sphere,
    Stiefel,
    frechet_mean,
)
from curvedp.geometry.comparison import hessian_along_step
from curvedp.laws.exact import exact_gaussian
from curvedp.mechanisms import vector
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.privacy import GDP
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean

N, RADIUS = 10, 0.6


@pytest.mark.parametrize(
    "M", [Euclidean(2), Sphere(2), SPDAffineInvariant(2), Stiefel(3, 2)], ids=repr
)
def test_the_worst_record_moves_the_step_by_what_is_charged(M, monkeypatch):
    """From one end of the ball to the other: all of the charge, and never more of it."""
    mechanism = GradientMechanism(statistic=FrechetMean(M, None, RADIUS, N), scale=1.0)
    others, noised = np.repeat(np.asarray(M.origin)[None], N - 1, axis=0), []

    def draw(space, scale, value, **options):
        noised.append(value / scale)  # in units of the noise, which is 1
        return exact_gaussian(space, scale, value, **options)

    monkeypatch.setattr(vector, "exact_gaussian", draw)
    for z in (
        (-5 * RADIUS, -RADIUS, 0.0, RADIUS, 5 * RADIUS)
        if M.injectivity_radius > 4
        else (-RADIUS, 0.0, RADIUS)
    ):
        mechanism.release(
            np.concatenate(
                [M.from_normal_coordinates(M.origin, z * np.eye(M.dim)[:1]), others]
            )
        )
    moved = max(float(np.linalg.norm(a - b)) for a in noised for b in noised)
    assert 0.999 * mechanism.sensitivity < moved <= mechanism.sensitivity


@pytest.mark.parametrize("M", [Sphere(2), Sphere(20)], ids=repr)
def test_the_second_moment_moves_with_the_mean_by_no_more(M):
    """Hill climbing over pairs of records, NaN and far ones among them, on what is noised."""
    mechanism = GradientMechanism.calibrate(FrechetMean(M, None, 1.2, N), GDP(1.0))
    assert mechanism.divides_by_hessian
    rng = np.random.default_rng(3)
    others = np.repeat(np.asarray(M.origin)[None], N - 1, axis=0)

    def noised(record):
        values = []

        def draw(space, scale, value, **options):
            values.append(np.asarray(value) / scale)
            return exact_gaussian(space, scale, value, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vector, "exact_gaussian", draw)
            mechanism.release(np.concatenate([record[None], others]))
        return values[0]

    def moved(pair):
        return float(np.linalg.norm(noised(pair[0]) - noised(pair[1])))

    pair = np.asarray(M.project(rng.normal(size=(2, M.dim + 1))))
    best = moved(pair)
    for step in range(60):
        size = 1.0 if step < 20 else 0.3
        trial = np.asarray(M.project(pair + size * rng.normal(size=pair.shape)))
        if moved(trial) > best:
            pair, best = trial, moved(trial)
    far_apart = np.zeros((2, M.dim + 1))
    far_apart[:, 1] = (1.0, -1.0)
    best = max(best, moved(far_apart))
    nan_record = np.full(M.dim + 1, np.nan)
    assert moved((nan_record, far_apart[0])) <= 1 + 1e-9
    assert 0.99 < best <= 1 + 1e-9  # in units of μ = 1: a noise of 0.98 is found out


def shell_of_records(n, dim, angle, rng):
    """Return records at about one angle, 62 degrees or so, from e₁."""
    angles = rng.normal(angle, 0.03, size=(n, 1))
    across = rng.normal(size=(n, dim + 1))
    across[:, 0] = 0.0
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return np.cos(angles) * np.eye(dim + 1)[0] + np.sin(angles) * across


def test_a_step_on_a_sphere_is_divided_by_the_hessian():
    """Records 62° from their mean, which is 17° from the center: nearly nothing is left."""
    M = Sphere(100)
    rng = np.random.default_rng(1)
    records = shell_of_records(4000, 100, 1.08, rng)
    mean = np.asarray(frechet_mean(M, records))
    center = np.asarray(M.exp(mean, 0.3 * M.to_tangent(mean, np.eye(101)[1])))
    statistic = FrechetMean(M, center, 1.5, len(records))
    divided = GradientMechanism.calibrate(statistic, GDP(20.0))
    undivided = replace(divided, hessian="identity")
    errors = [
        float(M.dist(mean, mechanism.release(records).value))
        for mechanism in (divided, undivided)
    ]
    assert errors[0] < 0.02
    assert errors[1] > 0.1  # the deliberately wrong version is found out


@pytest.mark.parametrize("radius", [1.5, 6.0])
def test_the_divided_step_is_replayed(radius):
    """The value follows from the integers, however far noise and division lead."""
    M = Sphere(3)
    records = np.asarray(M.project(np.random.default_rng(2).normal(size=(5, 4))))
    mechanism = GradientMechanism.calibrate(FrechetMean(M, None, radius, 5), GDP(0.1))
    release = mechanism.release(records)
    assert "divide_by_hessian" in release.certificate.release["post_processing"]
    np.testing.assert_allclose(
        mechanism.reconstruct_value(release.certificate), release.value, atol=1e-12
    )
    checks = verify_certificate(release.certificate)
    assert all(check.holds is not False for check in checks)


def test_a_step_on_planar_shapes_is_divided_by_the_mean_of_both_curvatures():
    """One of 75 directions has curvature 4, the others 1; without division a third is left."""
    M = KendallShapes(40)
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(1000, M.dim))
    directions *= 0.9 / np.linalg.norm(directions, axis=1, keepdims=True)
    records = np.asarray(
        M.from_normal_coordinates(M.origin, np.concatenate([directions, -directions]))
    )
    center = np.asarray(M.from_normal_coordinates(M.origin, 0.1 * np.eye(M.dim)[2]))
    statistic = FrechetMean(M, center, 1.2, len(records))
    divided = GradientMechanism.calibrate(statistic, GDP(200.0))
    assert divided.divides_by_hessian
    errors = [
        float(M.dist(M.origin, mechanism.release(records).value))
        for mechanism in (divided, replace(divided, hessian="identity"))
    ]
    assert errors[0] < 0.005
    assert errors[1] > 0.025


@pytest.mark.parametrize(
    ("M", "spread"),
    [
        (Sphere(60), 1.05),
        (Sphere(2), 0.8),
        (KendallShapes(20), 0.8),
        (Grassmann(6, 2), 0.6),
        (Rotations(5), 1.5),
        (Product(Sphere(2), Rotations(3)), 0.8),
        (Simplex(10), 0.7),
    ],
    ids=repr,
)
def test_a_predicted_error_is_right_within_a_half(M, spread):
    """In a private ball, where the records are far and the ball is much wider than they."""
    rng = np.random.default_rng(4)
    directions = rng.normal(size=(1000, M.dim))
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    steps = spread * directions / np.maximum(lengths, 1e-9)
    mean = np.asarray(M.from_normal_coordinates(M.origin, 0.2 * np.eye(M.dim)[0]))
    records = np.asarray(
        M.from_normal_coordinates(mean, np.concatenate([steps, -steps]))
    )
    mean = np.asarray(frechet_mean(M, records))
    errors = []
    predictions = []
    for seed in range(8):
        source = GeneratorSource(np.random.default_rng(seed))
        fitted = PrivateFrechetMean(
            M, radius="private", guarantee=GDP(2.0), source=source
        ).fit(records)
        errors.append(float(M.dist(mean, fitted.location_)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predictions.append(fitted.predicted_error_)
    ratio = np.mean(predictions) / np.mean(errors)
    assert 1 / 1.5 < ratio < 1.5


def test_plan_predicts_a_mean_of_embeddings():
    """Unit vectors 62° from their mean: `plan` with their spread, and with none stated."""
    M = Sphere(100)
    records = shell_of_records(3000, 100, 1.08, np.random.default_rng(1))
    mean = np.asarray(frechet_mean(M, records))
    errors = []
    for seed in range(5):
        source = GeneratorSource(np.random.default_rng(seed))
        fitted = PrivateFrechetMean(M, radius="private", source=source).fit(records)
        errors.append(float(M.dist(mean, fitted.location_)))
    for options in ({"spread": 1.08}, {}):
        study = plan(M, n=3000, radius="private", **options)
        assert 1 / 1.5 < study.error / np.mean(errors) < 1.5


def test_the_hessian_needs_a_mean_square_and_a_sphere():
    """Refused before anything is drawn."""
    for manifold, moments in ((Sphere(2), "first"), (Euclidean(2), "first-and-second")):
        statistic = FrechetMean(manifold, None, 1.0, N)
        with pytest.raises(ParameterError, match="hessian"):
            GradientMechanism(
                statistic=statistic,
                scale=1.0,
                moments=moments,
                hessian="from-mean-square",
            )


def test_the_hessian_along_a_step_is_that_of_the_records():
    """Against the mean Hessian itself, of records that spread alike in all directions."""
    M = Sphere(40)
    records = shell_of_records(3000, 40, 0.9, np.random.default_rng(5))
    base = np.asarray(M.exp(np.eye(41)[0], 0.4 * np.eye(41)[1]))
    logs = np.asarray(M.normal_coordinates(base, records))
    distances = np.linalg.norm(logs, axis=1)
    step = logs.mean(axis=0)
    axis = step / np.linalg.norm(step)
    cosines = logs @ axis / distances
    across = distances / np.tan(distances)
    exact = np.mean(across + (1 - across) * cosines**2)
    root_mean_square = np.sqrt(np.mean(distances**2))
    estimate = hessian_along_step(M, root_mean_square, np.linalg.norm(step))
    assert estimate == pytest.approx(exact, abs=0.02)


def test_an_error_is_predicted_where_a_certificate_lists_no_integers(monkeypatch):
    """Of a very large draw it has the hash alone; the error is that of public numbers."""
    monkeypatch.setattr("curvedp.core.mechanism.MAX_LISTED_INTEGERS", 1)
    X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (99, 3)))
    mean = PrivateFrechetMean(Sphere(2), radius=1.0, mechanism="gradient").fit(X)
    assert mean.certificate_.release["integers"] is None
    assert 0 < mean.predicted_error_ < 1.0
