"""Correlation matrices against Fisher's z, the half-space model and plain finite differences."""

import numpy as np
import pytest

from curvedp.geometry import Correlation, frechet_mean


def some(rng, n, m):
    A = rng.normal(size=(n, m, 2 * m))
    return Correlation(m).nearest(A @ A.mT)


def test_two_variables_are_fishers_z():
    r = np.array([-0.9, 0.1, 0.999])
    C = np.eye(2) + r[:, None, None] * np.array([[0, 1], [1, 0]])
    np.testing.assert_allclose(Correlation(2).dist(np.eye(2), C), np.arctanh(np.abs(r)), rtol=1e-12)


def test_distance_by_the_hemisphere_model():
    """cosh d = (1 − ⟨x, y⟩)/(x_k y_k) + 1 − 1/… on each hemisphere row: here as 1 + |x − y|²/(2 x_k y_k)."""
    rng = np.random.default_rng(0)
    C, D = some(rng, 20, 4), some(rng, 20, 4)
    L, K = np.linalg.cholesky(C), np.linalg.cholesky(D)
    square = np.zeros(20)
    for i in range(1, 4):
        x, y = L[:, i, : i + 1], K[:, i, : i + 1]
        square += np.arccosh(1 + np.sum((x - y) ** 2, axis=-1) / (2 * x[:, -1] * y[:, -1])) ** 2
    np.testing.assert_allclose(Correlation(4).dist(C, D), np.sqrt(square), rtol=1e-10)


def test_differentials_are_differences():
    M, rng = Correlation(4), np.random.default_rng(1)
    C = some(rng, 1, 4)[0]
    v = M.to_tangent(C, rng.normal(size=(4, 4)))
    h = 1e-6
    numeric = (M.to_model(C + h * v) - M.to_model(C - h * v)) / (2 * h)  # a distance would not tell which of the two is off
    np.testing.assert_allclose(M._push(C, v), numeric, atol=1e-8)
    np.testing.assert_allclose(M._pull(C, M._push(C, v)), v, atol=1e-13)


def test_covariances_in_any_units_and_the_diagonal():
    M, rng = Correlation(3), np.random.default_rng(2)
    C = some(rng, 5, 3)
    scales = 10.0 ** rng.uniform(-6, 6, (5, 3))
    np.testing.assert_allclose(M.nearest(scales[:, :, None] * C * scales[:, None, :]), C, atol=1e-14)
    for x in (frechet_mean(M, C), M.exp(C[0], M.log(C[0], C[1]))):
        np.testing.assert_array_equal(np.diag(x), 1.0)
        assert M.residual(x) < 1e-15


def test_curvature_is_between_minus_one_and_zero():
    assert Correlation(2).curvature_bounds == (0.0, 0.0)
    assert Correlation(5).curvature_bounds == (-1.0, 0.0)
    assert Correlation(5).dim == 10
    assert Correlation(3).dist(np.eye(3), np.ones((3, 3)) * 0.5 + 0.5 * np.eye(3)) == pytest.approx(0.855, abs=0.01)
