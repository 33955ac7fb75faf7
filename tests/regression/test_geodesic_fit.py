"""Geodesic regression without privacy: derivatives against finite differences, fits against linear regression and truth."""

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.geometry.manifold import follow_geodesic
from curvedp.regression import fit_geodesic
from curvedp.regression.gradient import descent_direction_function

SPACES = [
    Euclidean(3),
    Sphere(1),
    Sphere(2),
    Sphere(5),
    Lorentz(2),
    Lorentz(4),
    PoincareBall(2),
    SPDAffineInvariant(2),
    SPDAffineInvariant(3),
    SPDLogEuclidean(2),
    SPDLogCholesky(3),
    Rotations(3),
    Rotations(4),
    KendallShapes(3),
    KendallShapes(5),
    Grassmann(4, 2),
    Product(Sphere(2), Euclidean(1), SPDAffineInvariant(2)),
]


def data(M, n=40, seed=0, sd=0.08, length=0.6):
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    p = M.exp(M.origin, M.from_coordinates(M.origin, 0.1 * rng.standard_normal(M.dim)))
    v = M.from_coordinates(p, length * rng.standard_normal(M.dim) / np.sqrt(M.dim))
    q = M.exp(p, x.reshape(-1, *[1] * len(M.point_shape)) * v)
    return (
        x,
        M.exp(q, M.from_coordinates(q, sd * rng.standard_normal((n, M.dim)))),
        p,
        v,
    )


def differences(M, x, Y, p, v, loss, h=1e-5):
    """Central differences of the mean loss: p along geodesics with v parallel, and v straight."""
    times = x.reshape(-1, *[1] * len(M.point_shape))

    def energy(p, v):
        return np.mean(loss(M.dist(M.exp(p, times * v), Y)))

    foot, shoot = [], []
    for e in np.eye(M.dim):
        u = M.from_coordinates(p, e)
        ends = [M.exp(p, s * h * u) for s in (1, -1)]
        carried = [energy(q, M.transport(p, q, v)) for q in ends]
        foot.append((carried[0] - carried[1]) / (2 * h))
        shoot.append((energy(p, v + h * u) - energy(p, v - h * u)) / (2 * h))
    return -np.array(foot), -np.array(shoot)


@pytest.mark.parametrize("M", SPACES, ids=repr)
@pytest.mark.parametrize("clip", [10.0, 0.1])
def test_jacobi_gradients_by_finite_differences(M, clip):
    """Clipping the residual is the gradient of Huber's loss: ½d² up to τ, then τd − ½τ²."""
    x, Y, p, v = data(M)
    found = descent_direction_function(M, x - 0.5, Y, clip, 1.0)(p[None], v[None])
    expected = differences(
        M,
        x - 0.5,
        Y,
        p,
        v,
        lambda d: np.where(d <= clip, d * d / 2, clip * d - clip * clip / 2),
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs, atol=2e-8)


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_fit_reaches_the_minimum(M):
    x, Y, p, v = data(M)
    fit = fit_geodesic(M, x, Y)
    assert fit.gradient_norm <= 1e-10
    slope = np.concatenate(
        differences(M, x, Y, fit.footpoint, fit.velocity, lambda d: d * d / 2)
    )
    assert np.abs(slope).max() < 1e-8
    exact = fit_geodesic(M, x, M.exp(p, x.reshape(-1, *[1] * len(M.point_shape)) * v))
    assert float(M.dist(exact.footpoint, p)) < 1e-8
    assert exact.score(x, Y) < fit.score(x, Y) < 1
    np.testing.assert_allclose(fit.residuals(x, Y), M.dist(fit.predict(x), Y))


def test_euclidean_space_is_linear_regression():
    rng = np.random.default_rng(1)
    x, Y = rng.random((50, 2)), rng.standard_normal((50, 3))
    fit = fit_geodesic(Euclidean(3), x, Y, at=np.zeros(2))
    coefficients = np.linalg.lstsq(np.column_stack([np.ones(50), x]), Y, rcond=None)[0]
    np.testing.assert_allclose(fit.footpoint, coefficients[0], atol=1e-10)
    np.testing.assert_allclose(fit.velocity, coefficients[1:], atol=1e-10)
    alone = fit_geodesic(Euclidean(3), x[:, 0], Y)
    np.testing.assert_allclose(alone.velocity, np.polyfit(x[:, 0], Y, 1)[0], atol=1e-10)


@pytest.mark.parametrize(
    "M", [Sphere(2), SPDAffineInvariant(2), KendallShapes(4)], ids=repr
)
def test_several_predictors(M):
    rng = np.random.default_rng(2)
    x = rng.random((60, 2))
    V = M.from_coordinates(
        M.origin, 0.5 * rng.standard_normal((2, M.dim)) / np.sqrt(M.dim)
    )
    Y = M.exp(M.origin, np.tensordot(x - 0.5, V, axes=1))
    fit = fit_geodesic(M, x, Y, at=[0.5, 0.5])
    assert float(M.dist(fit.footpoint, M.origin)) < 1e-9
    assert np.max(M.dist(fit.predict(x), Y)) < 1e-8
    noisy = M.exp(Y, M.from_coordinates(Y, 0.05 * rng.standard_normal((60, M.dim))))
    assert fit_geodesic(M, x, noisy).gradient_norm <= 1e-10


def test_the_geodesic_is_followed_past_the_cut_locus():
    M, v = Sphere(2), np.array([0.0, 1.0, 0.0])
    p, w = follow_geodesic(M, M.origin, v, 5.0)
    np.testing.assert_allclose(p, [np.cos(5), np.sin(5), 0], atol=1e-12)
    np.testing.assert_allclose(w, [-np.sin(5), np.cos(5), 0], atol=1e-12)


def test_bad_arguments():
    x, Y, _, _ = data(Sphere(2))
    for M, a, b in (
        (Stiefel(4, 2), x, Y),
        (SPDBuresWasserstein(2), x, np.broadcast_to(np.eye(2), (40, 2, 2))),
        (Sphere(2), x[:-1], Y),
        (Sphere(2), x[:1], Y[:1]),
        (Sphere(2), np.full(40, np.nan), Y),
        (Sphere(3), x, Y),
    ):
        with pytest.raises(ParameterError):
            fit_geodesic(M, a, b)
