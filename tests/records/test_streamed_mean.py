"""The mean from exact sums: right on every space, the same bits for every way of cutting the records."""

import numpy as np
import pytest

from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    project_to_ball,
)
from curvedp.geometry.frechet_mean.backends import chunks
from curvedp.geometry.frechet_mean.backends.chunks import (
    Start,
    block_sums,
    start_from_sample,
    streamed_mean,
)
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.numerics.spd3 import InverseFactor, lower_entries, whitened_logs
from support.rough_records import cloud

SPACES = [
    (Euclidean(3), 1.0),
    (Sphere(2), 0.6),
    (Sphere(9), 0.5),
    (Lorentz(3), 1.0),
    (PoincareBall(2), 2.0),
    (SPDAffineInvariant(2), 1.0),
    (SPDAffineInvariant(3), 1.0),
    (SPDAffineInvariant(3), 4.0),
    (SPDAffineInvariant(5), 1.5),
    (SPDLogEuclidean(3), 1.0),
    (SPDLogCholesky(2), 1.0),
    (Rotations(3), 0.5),
    (Grassmann(4, 2), 0.3),
    (KendallShapes(5), 0.3),
    (Product(Sphere(2), Euclidean(2)), 0.5),
]


def residual(M, x, inside):
    return float(M.norm(x, np.mean(M.log(x, inside), axis=0)))


@pytest.mark.parametrize(("M", "radius"), SPACES, ids=str)
def test_the_mean_is_right_and_its_bits_do_not_depend_on_the_chunks(M, radius):
    X, domain = cloud(M, radius, 600), PublicBall(M, np.asarray(M.origin), radius)
    start = start_from_sample(domain, X[:200])
    results = []
    for cuts in ([], [1, 2, 3, 599], [100, 101, 350]):
        chunks = np.split(X, cuts)[:: 1 if len(cuts) < 4 else -1]

        def sums(x, chunks=chunks):
            return np.sum([block_sums(domain, x, chunk) for chunk in chunks], axis=0)

        results.append(streamed_mean(domain, len(X), sums, start))
    (x, square), *others = results
    assert all(np.array_equal(x, y) and square == other for y, other in others)
    inside = project_to_ball(M, M.origin, radius, X)
    # Hessians are at least 0.5 here, so a residual bounds the distance to the mean up to a factor of 2.
    assert 2 * residual(M, x, inside) <= solver_error(M, radius)
    assert square == pytest.approx(float(np.mean(M.dist(x, inside) ** 2)), rel=1e-9)


@pytest.mark.parametrize(
    "M", [Sphere(50), Lorentz(20), KendallShapes(30), Grassmann(50, 1)], ids=str
)
def test_the_layout_of_a_chunk_in_memory_does_not_matter(M):
    # Tables of columns come in Fortran's order, in which NumPy adds up a row's terms in another order.
    X, domain = cloud(M, 0.3, 200), PublicBall(M, np.asarray(M.origin), 0.3)
    x = domain.clip(X[7])
    whole = block_sums(domain, x, X)
    assert np.array_equal(block_sums(domain, x, np.asfortranarray(X)), whole)
    assert np.array_equal(
        sum(block_sums(domain, x, X[i : i + 1]) for i in range(200)), whole
    )


def test_an_unlucky_start_costs_passes_and_nothing_else():
    M, domain = SPDAffineInvariant(3), PublicBall(SPDAffineInvariant(3), np.eye(3), 1.5)
    X = cloud(M, 1.5, 60)
    good = streamed_mean(
        domain, 60, lambda x: block_sums(domain, x, X), start_from_sample(domain, X)
    )[0]
    wrong = Start(
        domain.clip(50 * np.eye(3)), -np.ones((6, 6))
    )  # far off, with a Hessian that points uphill
    bad = streamed_mean(domain, 60, lambda x: block_sums(domain, x, X), wrong)[0]
    assert float(M.dist(good, bad)) <= 2 * solver_error(M, 1.5)


def test_where_acceleration_fails_the_contraction_finds_the_mean(monkeypatch):
    monkeypatch.setattr(chunks, "_PASSES", 1)
    M, domain = (
        Product(Sphere(2), Euclidean(1)),
        PublicBall(Product(Sphere(2), Euclidean(1)), np.array([1.0, 0, 0, 0]), 0.4),
    )
    X = cloud(M, 0.4, 50)
    x, square = streamed_mean(
        domain, 50, lambda x: block_sums(domain, x, X), Start(domain.center)
    )
    inside = project_to_ball(M, domain.center, 0.4, X)
    assert residual(M, x, inside) <= 1e-9
    assert square == pytest.approx(float(np.mean(M.dist(x, inside) ** 2)), rel=1e-9)


@pytest.mark.parametrize("spread", [1e-12, 1e-6, 0.3, 1.0])
def test_logarithms_of_tensors_without_eigenvectors(spread):
    M, rng = SPDAffineInvariant(3), np.random.default_rng(3)
    p = M.exp(np.eye(3), M.from_coordinates(np.eye(3), 0.4 * rng.normal(size=6)))
    X = np.asarray(M.exp(p, M.from_coordinates(p, spread * rng.normal(size=(4000, 6)))))
    X[0] = p
    logs = whitened_logs(InverseFactor.of(p), lower_entries(X)[0])
    Z, found = M.to_coordinates(p, M.log(p, X)), np.stack(logs.coordinates, axis=1)
    error = np.linalg.norm(found - Z, axis=1)[logs.is_accurate]
    assert logs.is_accurate.mean() > 0.9
    assert error.max() <= 2e-12 * max(1.0, np.linalg.norm(Z, axis=1).max())
    with np.errstate(invalid="ignore"):
        assert not whitened_logs(
            InverseFactor.of(p), lower_entries(-X[:9])[0]
        ).is_accurate.any()


@pytest.mark.parametrize("m", [4, 6])
def test_a_far_matrix_does_not_change_its_neighbors_logarithms(m):
    # The careful path sweeps until all its matrices have converged: each must stop by itself.
    M, rng = SPDAffineInvariant(m), np.random.default_rng(m)
    X = np.asarray(
        M.exp(
            np.eye(m), M.from_coordinates(np.eye(m), 2 * rng.normal(size=(40, M.dim)))
        )
    )
    together = M.log(X[0], X)
    assert all(
        np.array_equal(M.log(X[0], X[i : i + 1])[0], together[i]) for i in range(40)
    )
