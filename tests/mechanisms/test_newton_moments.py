"""The last Newton step releases second moments: their sensitivity, what they say, and old certificates."""

from dataclasses import replace
from math import sqrt

import flint
import numpy as np
import pytest
from scipy.stats import ks_2samp

from curvedp import PrivateFrechetMean
from curvedp.core.certificate import seal
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Lorentz, PoincareBall, Sphere, frechet_mean
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.privacy import GDP, ApproxDP, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.release.rebuild import mechanism_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics import hyperbolic_moments
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.hyperbolic_moments import (
    HyperbolicMomentVector,
    hessian_excess,
)
from curvedp.statistics.searched_ball import SearchedMean
from support.transcript import spent


def records_in_ball(manifold, radius, n, rng):
    """Draw records all over a ball about the origin."""
    z = rng.standard_normal((n, manifold.dim))
    lengths = radius * rng.uniform(size=(n, 1)) ** 0.5
    z *= lengths / np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, z))


def vectors_at(manifold, vector, offset, points):
    """Return the vectors of records at the point at a distance from the origin."""
    along = offset * np.eye(manifold.dim)[0]
    w = np.asarray(manifold.from_normal_coordinates(manifold.origin, along))
    logs = np.asarray(manifold.normal_coordinates(w, points))
    return np.concatenate(
        [vector.sum_vectors(z[None, None], slice(None)) for z in logs]
    )


def farthest_pair(manifold, radius, offset, rng):
    """Climb to records whose vectors are far apart; return the distance over the claim."""
    dim = manifold.dim
    vector = HyperbolicMomentVector(
        dim, sqrt(-manifold.constant_curvature), radius, np.array([offset])
    )

    def distance(pair):
        lengths = np.linalg.norm(pair, axis=1, keepdims=True)
        pair = pair * np.minimum(1, radius / np.maximum(lengths, 1e-300))
        points = np.asarray(manifold.from_normal_coordinates(manifold.origin, pair))
        first, second = vectors_at(manifold, vector, offset, points)
        return float(np.linalg.norm(first - second))

    largest = 0.0
    for start in range(6):
        end = radius * np.eye(dim)[start % 2]
        pair = np.stack([end, -end])
        if start >= 2:
            pair = radius * rng.standard_normal((2, dim))
        best = distance(pair)
        for step in range(400):
            size = radius * 0.985**step
            other = pair + size * rng.standard_normal((2, dim))
            if distance(other) > best:
                pair, best = other, distance(other)
        largest = max(largest, best)
    return largest / float(vector.sensitivity(1)[0])


BALLS = [
    (Lorentz(2), 1.0, 0.0),
    (Lorentz(2), 1.0, 0.3),
    (PoincareBall(3), 6.0, 0.25),
    (Lorentz(2), 0.01, 0.004),
    (Lorentz(4), 9.0, 2.0),
]


@pytest.mark.parametrize(("manifold", "radius", "offset"), BALLS, ids=str)
def test_no_pair_of_records_has_vectors_farther_apart_than_claimed(
    manifold, radius, offset
):
    ratio = farthest_pair(manifold, radius, offset, np.random.default_rng(0))
    assert 0.95 < ratio <= 1


@pytest.mark.parametrize("weight", ["_MATRIX_SQUARE", "_SCALAR_SQUARE"])
def test_larger_weights_are_seen_by_the_same_search(weight, monkeypatch):
    """The matrix may have no larger weight, and the scalars one that is hardly larger."""
    factor = 1.5 if weight == "_MATRIX_SQUARE" else 1.3
    monkeypatch.setattr(
        hyperbolic_moments, weight, factor * getattr(hyperbolic_moments, weight)
    )
    ratio = farthest_pair(Lorentz(2), 1.0, 0.0, np.random.default_rng(0))
    assert ratio > 1.0001


def test_the_logarithms_alone_would_need_hardly_less_noise():
    """At the center nothing, and elsewhere at most 4 % more."""
    offsets = np.array([0.0, 0.01, 0.5, 3.0])
    vector = HyperbolicMomentVector(3, 1.0, 3.0, offsets)
    increase = vector.sensitivity(50) / (2 * 3.0 / 50)
    assert increase[0] < 1 + 1e-8
    assert np.all(increase <= 1.0393)


def test_the_hessian_excess_is_accurate():
    for s in (1e-12, 1e-5, 0.02, 0.0999, 0.1001, 1.0, 30.0):
        with flint.ctx.workprec(300):
            exact = flint.arb(s) * flint.arb(s).coth() - 1
        assert float(hessian_excess(s)) == pytest.approx(float(exact), rel=1e-12)


def test_moments_without_noise_are_those_of_the_records():
    """The Hessian is compared with differences of the mean logarithm."""
    manifold, radius, offset, rng = Lorentz(3), 2.5, 0.4, np.random.default_rng(1)
    points = records_in_ball(manifold, radius, 40, rng)
    vector = HyperbolicMomentVector(3, 1.0, radius, np.array([offset]))
    mean = vectors_at(manifold, vector, offset, points).mean(axis=0)
    moments = vector.estimate_moments(mean[None], np.zeros(1))
    w = manifold.from_normal_coordinates(manifold.origin, offset * np.eye(3)[0])
    w = np.asarray(w)
    distances = np.asarray(manifold.dist(w, points))
    assert moments.mean_square[0] == pytest.approx(np.mean(distances**2))
    assert moments.mean_excess[0] == pytest.approx(hessian_excess(distances).mean())

    # Second differences of ½·mean d² along geodesics are the Hessian's quadratic form.
    hessian = (1 + moments.mean_excess[0]) * np.eye(3) - moments.excess_matrix[0]
    step = 1e-3
    for direction in rng.standard_normal((5, 3)):
        e = direction / np.linalg.norm(direction)
        costs = [
            np.mean(
                np.asarray(
                    manifold.dist(
                        np.asarray(manifold.from_normal_coordinates(w, h * e)), points
                    )
                )
                ** 2
            )
            / 2
            for h in (-step, 0.0, step)
        ]
        second = (costs[0] - 2 * costs[1] + costs[2]) / step**2
        assert e @ hessian @ e == pytest.approx(second, rel=1e-4)


def mechanism(manifold, radius, n, **options):
    """Return a mechanism with second moments, at GDP(1)."""
    statistic = FrechetMean(manifold, None, radius, n)
    plain = NewtonMechanism(scale=1.0, statistic=statistic, **options)
    return plain.with_second_moments()


@pytest.mark.parametrize("manifold", [Lorentz(2), PoincareBall(3)], ids=str)
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_transcripts_of_neighbors_differ_by_at_most_the_budget(manifold, steps):
    """Records at opposite ends, in one direction, and at random."""
    rng, n, radius = np.random.default_rng(2), 6, 2.0
    release = mechanism(manifold, radius, n, steps=steps)
    ends = radius * np.eye(manifold.dim)[0]
    worst = 0.0
    for seed in range(12):
        X = records_in_ball(manifold, radius, n, rng)
        if seed % 3 == 0:
            X[:] = manifold.from_normal_coordinates(manifold.origin, ends)
        Y = X.copy()
        X[0] = manifold.from_normal_coordinates(manifold.origin, ends)
        if seed % 2 == 0:
            ends = radius * np.eye(manifold.dim)[seed % manifold.dim]
        Y[0] = manifold.from_normal_coordinates(manifold.origin, -ends)
        worst = max(worst, spent(release.release, X, Y, seed))
    assert 0.5 < worst <= 1.0


def test_half_of_the_noise_is_seen_by_the_same_attack():
    manifold, radius = Lorentz(2), 2.0
    release = replace(mechanism(manifold, radius, 6), scale=0.5)
    end = radius * np.eye(2)[0]
    X = np.stack([manifold.from_normal_coordinates(manifold.origin, end)] * 6)
    Y = X.copy()
    Y[0] = manifold.from_normal_coordinates(manifold.origin, -end)
    assert spent(release.release, X, Y, 0) > 1.0


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_shares_add_up_and_certificates_verify(steps):
    manifold, radius, n = PoincareBall(3), 2.0, 80
    release = mechanism(manifold, radius, n, steps=steps)
    X = records_in_ball(manifold, radius, n, np.random.default_rng(3))
    released = release.release(X)
    stages = released.certificate.release["stages"]
    spent_square = 0.0
    for step, stage in enumerate(stages):
        sensitivity = release.step_sensitivity(step, stage["distance"])
        spent_square += (sensitivity / stage["gradient_scale"]) ** 2
        if stage["hessian_scale"] is not None:
            spent_square += (release.hessian_sensitivity / stage["hessian_scale"]) ** 2
    assert 0.999 < spent_square <= 1
    assert released.certificate.parameters["moments"] == "first-and-second"
    assert all(check.holds for check in verify_certificate(released.certificate))
    replayed = release.reconstruct_value(released.certificate)
    np.testing.assert_allclose(replayed, released.value)


def test_the_release_has_the_law_that_is_simulated():
    manifold, rng = PoincareBall(3), np.random.default_rng(4)
    X = records_in_ball(manifold, 3.0, 80, rng)
    release = replace(mechanism(manifold, 3.0, 80), scale=2.0)
    mean = frechet_mean(manifold, X)
    source = GeneratorSource(np.random.default_rng(5))
    released = np.stack([release.release(X, source=source).value for _ in range(150)])
    distances = [
        np.asarray(manifold.dist(mean, points))
        for points in (released, release.simulate(rng, X, 3000))
    ]
    wrong = replace(release, scale=4.0).simulate(rng, X, 3000)
    assert ks_2samp(*distances).pvalue > 1e-4
    wrong_distances = np.asarray(manifold.dist(mean, wrong))
    assert ks_2samp(distances[0], wrong_distances).pvalue < 1e-6


def test_errors_are_no_larger_than_without_second_moments():
    """Predicted from the same populations and budget, for three steps as in a search."""
    manifold, radius, n, rng = PoincareBall(10), 6.0, 500, np.random.default_rng(6)
    X = records_in_ball(manifold, radius, n, rng)
    mean = frechet_mean(manifold, X)
    with_moments = mechanism(manifold, radius, n, steps=3)
    errors = [
        np.sqrt(np.mean(np.asarray(manifold.dist(mean, m.simulate(rng, X, 400))) ** 2))
        for m in (with_moments, replace(with_moments, moments="first"))
    ]
    assert errors[0] < 1.05 * errors[1]


def test_second_moments_are_for_hyperbolic_spaces_and_gaussian_noise():
    sphere = NewtonMechanism(scale=1.0, statistic=FrechetMean(Sphere(2), None, 0.5, 9))
    hyperbolic = FrechetMean(Lorentz(2), None, 0.5, 9)
    laplace = NewtonMechanism(scale=1.0, statistic=hyperbolic, noise_kind="laplace")
    for plain in (sphere, laplace):
        assert plain.with_second_moments() is plain
        with pytest.raises(ParameterError, match="hyperbolic"):
            replace(plain, moments="first-and-second")
    with pytest.raises(ParameterError):
        NewtonMechanism(scale=1.0, statistic=hyperbolic, moments="third")
    large = FrechetMean(Lorentz(40), None, 0.5, 9)
    assert (
        not NewtonMechanism(scale=1.0, statistic=large)
        .with_second_moments()
        .releases_second_moments
    )


@pytest.mark.parametrize(
    ("manifold", "guarantee", "expected"),
    [
        (Lorentz(2), GDP(1.0), True),
        (Lorentz(2), PureDP(4.0), False),
        (Sphere(2), GDP(1.0), False),
        (Sphere(2), ApproxDP(1.0, 1e-6), False),
    ],
    ids=str,
)
def test_only_a_search_in_hyperbolic_space_asks_for_them(manifold, guarantee, expected):
    statistic = SearchedMean(manifold, manifold.origin, 1.0, 400)
    search = PrivateBallMechanism.calibrate(statistic, guarantee)
    assert ("moments" in search.parameters) == expected


def test_certificates_that_do_not_state_second_moments_verify_as_before():
    """They are those of earlier versions; a certificate cannot pass for one of them."""
    manifold = PoincareBall(2)
    X = records_in_ball(manifold, 0.8, 300, np.random.default_rng(7))
    model = PrivateFrechetMean(manifold, radius="private", guarantee=GDP(1.0)).fit(X)
    certificate = model.certificate_
    search = mechanism_of(certificate)
    assert search.final_mechanism(certificate).releases_second_moments

    earlier = replace(search, moments="first")
    released = earlier.release(X)
    assert "moments" not in released.certificate.parameters
    assert all(check.holds for check in verify_certificate(released.certificate))
    final = mechanism_of(released.certificate).final_mechanism(released.certificate)
    assert not final.releases_second_moments

    parameters = {k: v for k, v in certificate.parameters.items() if k != "moments"}
    forged = seal(replace(certificate, parameters=parameters))
    try:
        checks = verify_certificate(forged)
    except CurvedpError:
        return
    assert any(check.holds is False for check in checks)
