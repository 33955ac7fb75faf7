"""Reduced classifiers: no pair of neighbors moves the released numbers by more than is paid for; walks read back."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from curvedp import GDP
from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant, SPDLogEuclidean, Sphere, Stiefel
from curvedp.mechanisms.staged.reduced_classifier import ReducedMeans, ReducedSoftmax
from curvedp.release.verify import verify_certificate
from curvedp.statistics.reduced_classes import (
    LinearClassifier,
    ReducedClasses,
    normalize_matrices,
)

M, N, KINDS = 5, 30, (ReducedMeans, ReducedSoftmax)


def records(rng, n=N, m=M):
    signals = rng.normal(size=(n, m, 3 * m)) * rng.uniform(0.2, 3, size=(n, m, 1))
    return signals @ signals.mT


def spent(mechanism, one, two, script):
    """Σ (difference/noise)² of all released numbers at two data sets, led along the same released values."""
    seen, other = [], []

    def lead(values, scales):
        released = values + scales[:, None] * script.standard_normal(values.shape)
        seen.append((values.copy(), scales.copy(), released))
        return released

    mechanism.run(mechanism.queries(mechanism.prepare_data(one)), lead)
    path = iter(seen)

    def follow(values, scales):
        first, noise, released = next(path)
        assert np.array_equal(noise, scales)
        other.append(float(np.sum((values - first) ** 2) / noise[0] ** 2))
        return released

    mechanism.run(mechanism.queries(mechanism.prepare_data(two)), follow)
    return sum(other)


def neighbors(rng):
    """Pairs that attack the stages: rank-one records along two axes, all but one alike, far units, no matrices at all."""
    X, codes = records(rng), rng.integers(3, size=N)
    strange = [
        np.diag(np.eye(M)[0]),
        np.diag(np.eye(M)[1]),
        1e30 * np.ones((M, M)),
        np.full((M, M), np.nan),
        -np.eye(M),  # not positive: were it taken as it is, tr AB would be negative
        np.diag([1.0, -1, 1, -1, 1]),
        1e-300 * np.eye(M),
        rng.normal(size=(M, M)),
        np.zeros((M, M)),
        np.full((M, M), np.inf),
    ]
    base = [
        X,
        np.repeat(X[:1], N, axis=0),
        np.repeat(np.diag(np.eye(M)[2])[None], N, axis=0),
    ]
    for Z in base:
        first, second = rng.permutation(len(strange))[:2]
        one, two, other = Z.copy(), Z.copy(), codes.copy()
        one[7], two[7] = strange[first], strange[second]
        other[7] = (codes[7] + rng.integers(3)) % 3
        yield (one, codes), (two, other)


@pytest.mark.parametrize("features", ["power", "log"])
@pytest.mark.parametrize("kind", KINDS)
def test_privacy_loss_of_every_pair_of_neighbors_is_within_the_charge(kind, features):
    """... and some pair spends so much that half the noise would be found out."""
    mechanism = kind.calibrate(
        ReducedClasses(SPDAffineInvariant(M), 3, features, 60.0, 3, N), GDP(1.0)
    )
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(25):
        for one, two in neighbors(rng):
            worst = max(worst, spent(mechanism, one, two, rng))
    assert worst <= 1.0
    assert worst > 0.26  # noise halved: four times as much, and above 1


@pytest.mark.parametrize("kind", KINDS)
def test_persons_may_change_all_their_records(kind):
    statistic = ReducedClasses(SPDAffineInvariant(M), 3, "power", 3.0, 3, 6)
    mechanism = kind.calibrate(statistic, GDP(1.0))
    rng, persons, worst = np.random.default_rng(1), np.arange(N) % 6, 0.0
    for _ in range(25):
        X, codes = records(rng), rng.integers(3, size=N)
        two, other = X.copy(), codes.copy()
        two[persons == 2] = np.diag(np.eye(M)[rng.integers(M)])
        other[persons == 2] = rng.integers(3)
        worst = max(
            worst, spent(mechanism, (X, codes, persons), (two, other, persons), rng)
        )
    assert 0 < worst <= 1.0
    # as many records one by one would spend more: the unit is a person
    single = kind.calibrate(replace(statistic, n=N), GDP(1.0))
    assert spent(single, (X, codes), (two, other), rng) > 1.0


def test_a_matrix_that_is_not_positive_would_break_the_moment():
    """Control: the √2 of the moment rests on positive matrices, so that `normalize_matrices` must make them so."""
    A, B = np.diag([1.0, 0]), np.diag([-1.0, 0])
    assert np.linalg.norm(A - B) > sqrt(2)
    for bad in (
        B,
        [[np.nan, 0], [0, 1]],
        np.zeros((2, 2)),
        [[0, 1e308], [-1e308, 0]],
        [[1e308, 1e308], [1e308, 1e308]],
    ):
        found = normalize_matrices(np.asarray(bad, dtype=float)[None])[0]
        assert np.linalg.eigvalsh(found)[0] >= -1e-15
        assert np.trace(found) == pytest.approx(1.0)


def test_units_do_not_matter():
    X = records(np.random.default_rng(2))
    for unit in (1e-280, 1e-12, 1e200):
        np.testing.assert_allclose(
            normalize_matrices(unit * X), normalize_matrices(X), atol=1e-14
        )
    np.testing.assert_allclose(
        normalize_matrices(X),
        X / np.trace(X, axis1=1, axis2=2)[:, None, None],
        atol=1e-14,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_classifier_is_read_back_from_its_certificate(kind):
    rng = np.random.default_rng(3)
    mechanism = kind.calibrate(
        ReducedClasses(SPDLogEuclidean(M), 2, "log", 50.0, 3, N), GDP(2.0)
    )
    release = mechanism.release((records(rng), rng.integers(3, size=N)))
    again = mechanism.reconstruct_value(release.certificate)
    assert isinstance(again, LinearClassifier)
    Z = records(rng)
    np.testing.assert_allclose(again.scores(Z), release.value.scores(Z), rtol=1e-12)
    assert all(check.holds for check in verify_certificate(release.certificate))
    total = sum(stage["share"] for stage in release.certificate.release["stages"])
    assert total == pytest.approx(1.0, abs=1e-12)


def test_without_noise_it_is_what_it_says():
    """An oracle in a few lines: eigenvectors of the mean, square roots, nearest class mean."""
    rng = np.random.default_rng(4)
    X, codes = records(rng, 400, 4), np.arange(400) % 2
    X[codes == 1] *= np.outer([3, 1, 1, 1], [3, 1, 1, 1])
    mechanism = ReducedMeans.calibrate(
        ReducedClasses(SPDAffineInvariant(4), 2, "power", 3.0, 2, 400), GDP(1e6)
    )
    value = mechanism.release((X, codes)).value
    A = X / np.trace(X, axis1=1, axis2=2)[:, None, None]
    w, V = np.linalg.eigh(A.mean(axis=0))
    U = V[:, ::-1][:, :2]
    assert np.linalg.norm(value.reduction.directions @ U) == pytest.approx(
        sqrt(2), abs=1e-3
    )
    np.testing.assert_allclose(value.reduction.scales, w[::-1][:2], rtol=1e-2)

    def root(S):
        v, Q = np.linalg.eigh(S)
        return (Q * np.sqrt(v)[:, None]) @ Q.mT

    Z = root(U.T @ A @ U)
    means = np.stack([Z[codes == c].mean(axis=0) for c in range(2)])
    nearest = np.argmin(((Z[:, None] - means) ** 2).sum(axis=(-2, -1)), axis=1)
    assert (
        np.mean(np.argmax(value.scores(X), axis=1) == nearest) > 0.98
    )  # clipping moves a few


@pytest.mark.parametrize(
    "change",
    [{"manifold": Sphere(2)}, {"manifold": Stiefel(3, 3)}, {"components": 6}, {"components": 0}, {"features": "linear"},
     {"classes": 1}, {"radius": -1.0}, {"radius": np.nan}, {"n": 1}],
)  # fmt: skip
def test_statistics_of_another_kind_are_refused(change):
    fields = {
        "manifold": SPDAffineInvariant(M),
        "components": 3,
        "features": "power",
        "radius": 3.0,
        "classes": 3,
        "n": N,
    }
    with pytest.raises(ParameterError):
        ReducedClasses(**{**fields, **change})
