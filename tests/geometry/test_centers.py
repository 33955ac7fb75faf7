"""Public centers far out or badly scaled: records are carried to the origin, and one record moves the mean as claimed."""

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    project_to_ball,
)
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import (
    OriginIsometry,
    canonical_center,
    move_from_origin,
    move_to_origin,
)
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.geometry.spaces.euclidean import FlatVectorManifold
from curvedp.records.base import open_records
from curvedp.statistics.sensitivity import frechet_mean_sensitivity
from support.spaces import EDGES, SPACES, sample


def turned(logs):
    """An SPD matrix with these log10 eigenvalues and no axis along a coordinate."""
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(len(logs), len(logs))))[0]
    P = (Q * 10.0 ** np.asarray(logs)) @ Q.T
    return (P + P.T) / 2


def out(M, distance):
    z = np.ones(M.dim) * distance / np.sqrt(M.dim)
    return np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, z)))


BAD = [
    *((SPDAffineInvariant(2), turned([k / 2, -k / 2])) for k in (8, 10, 11, 12, 13)),
    *((SPDAffineInvariant(3), turned([k / 2, 0, -k / 2])) for k in (10, 12)),
    (SPDAffineInvariant(2), 1e-12 * np.eye(2)),
    *((M, out(M, d)) for M in (Lorentz(2), Lorentz(5)) for d in (25.0, 30.0, 34.0)),
    *(
        (M, out(M, d))
        for M in (PoincareBall(2), PoincareBall(5))
        for d in (25.0, 30.0, 34.0)
    ),
    (SPDLogEuclidean(2), turned([5, -5])),
    (SPDLogCholesky(2), turned([5, -5])),
    (Euclidean(3), np.array([1e9, -1e9, 1.0])),
    (
        Product(SPDAffineInvariant(2), Lorentz(2), Sphere(2)),
        np.concatenate(
            [turned([5.5, -5.5]).ravel(), out(Lorentz(2), 30.0), [0, 0, 1.0]]
        ),
    ),
]


@pytest.mark.parametrize("radius", [1e-3, 1.0])
@pytest.mark.parametrize(("M", "center"), BAD, ids=lambda value: str(value)[:40])
def test_one_record_moves_the_mean_by_no_more_than_is_claimed(M, center, radius):
    rng, n = np.random.default_rng(3), 300
    z = radius * rng.normal(size=(n + 1, M.dim)) / np.sqrt(M.dim)
    X = np.asarray(M.exp(center, M.from_coordinates(center, z)))
    home = np.asarray(canonical_center(M, center))
    domain = PublicBall(M, home, radius)
    claim = frechet_mean_sensitivity(M, radius, n) + 2 * solver_error(M, radius)
    means = []
    for rows in (X[:n], X[1:], np.concatenate([X[1:n], np.full_like(X[:1], np.nan)])):
        records = open_records(rows, M.point_shape).to_canonical_frame(M, center)
        means.append(records.moments(domain)[0])
        assert float(M.dist(home, means[-1])) <= radius * (1 + 1e-9)
    for other in means[1:]:
        assert float(M.dist(means[0], other)) <= claim


@pytest.mark.parametrize("M", [*SPACES, *EDGES], ids=str)
def test_carrying_is_an_isometry_and_comes_back(M):
    points = sample(M, np.random.default_rng(0), 7)
    center, X = points["p"][0], points["q"]
    if M.injectivity_radius == np.inf and not isinstance(M, OriginIsometry):
        pytest.fail("a space that is not compact must carry")
    there = move_to_origin(M, center, X)
    np.testing.assert_allclose(
        M.dist(canonical_center(M, center), there),
        M.dist(center, X),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        M.dist(there[1:], there[:-1]), M.dist(X[1:], X[:-1]), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        move_from_origin(M, center, there), X, rtol=1e-9, atol=1e-9
    )
    assert np.all(M.residual(there) <= 1e-12)


def test_the_congruence_against_60_digits():
    """L⁻¹XL⁻ᵀ of a center of condition 1e12: what every later digit rests on."""
    M, center = SPDAffineInvariant(2), turned([6, -6])
    X = np.asarray(
        M.exp(center, M.from_coordinates(center, 1e-3 * np.array([[1.0, -2.0, 0.5]])))
    )[0]
    with mp.workdps(60):
        L = mp.cholesky(mp.matrix(center.tolist()))
        inverse = L**-1
        exact = inverse * mp.matrix(((X + X.T) / 2).tolist()) * inverse.T
    exact = np.array(exact.tolist(), dtype=float)
    np.testing.assert_allclose(
        move_to_origin(M, center, X[None])[0], exact, rtol=1e-12, atol=1e-14
    )


def test_unusable_records_become_the_center():
    M, center = SPDAffineInvariant(2), turned([4, -4])
    X = np.stack(
        [
            np.full((2, 2), np.nan),
            -np.eye(2),
            np.array([[1.0, 5.0], [0.0, 1.0]]),
            center,
        ]
    )
    inside = project_to_ball(M, np.eye(2), 0.1, carry_records(M, center, X))
    np.testing.assert_allclose(inside, np.broadcast_to(np.eye(2), (4, 2, 2)), atol=1e-9)


def test_a_center_off_the_origin_is_refused_without_an_origin_isometry():
    class Mine(FlatVectorManifold):
        """A flat space whose author states no isometry."""

        injectivity_radius = np.inf
        exp = Euclidean.exp
        log = Euclidean.log
        project = Euclidean.project

    M = Mine(2)
    assert np.array_equal(canonical_center(M, np.zeros(2)), np.zeros(2))
    with pytest.raises(ParameterError, match="leave the center out"):
        canonical_center(M, np.ones(2))
