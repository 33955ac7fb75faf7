"""Correlation matrices against Fisher's z, the half-space model and plain finite differences. exp(S + D) of unit diagonal
against a root search in 40 digits, and no matrix's answer depends on those beside it."""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import linalg

from curvedp.geometry import Correlation, CorrelationOffLog, frechet_mean
from curvedp.numerics.constant_work import public_time
from curvedp.numerics.unit_exponential import unit_exponential


def some(rng, n, m):
    A = rng.normal(size=(n, m, 2 * m))
    return Correlation(m).from_record(A @ A.mT)


def test_two_variables_are_fishers_z():
    r = np.array([-0.9, 0.1, 0.999])
    C = np.eye(2) + r[:, None, None] * np.array([[0, 1], [1, 0]])
    np.testing.assert_allclose(
        Correlation(2).dist(np.eye(2), C), np.arctanh(np.abs(r)), rtol=1e-12
    )


def test_distance_by_the_hemisphere_model():
    """cosh d = (1 − ⟨x, y⟩)/(x_k y_k) + 1 − 1/… on each hemisphere row: here as 1 + |x − y|²/(2 x_k y_k)."""
    rng = np.random.default_rng(0)
    C, D = some(rng, 20, 4), some(rng, 20, 4)
    L, K = np.linalg.cholesky(C), np.linalg.cholesky(D)
    square = np.zeros(20)
    for i in range(1, 4):
        x, y = L[:, i, : i + 1], K[:, i, : i + 1]
        square += (
            np.arccosh(1 + np.sum((x - y) ** 2, axis=-1) / (2 * x[:, -1] * y[:, -1]))
            ** 2
        )
    np.testing.assert_allclose(Correlation(4).dist(C, D), np.sqrt(square), rtol=1e-10)


@pytest.mark.parametrize("M", [Correlation(4), CorrelationOffLog(4)], ids=repr)
def test_differentials_are_differences(M):
    rng = np.random.default_rng(1)
    C = some(rng, 1, 4)[0]
    v = M.to_tangent(C, rng.normal(size=(4, 4)))
    h = 1e-6
    numeric = (M.to_model(C + h * v) - M.to_model(C - h * v)) / (
        2 * h
    )  # a distance would not tell which of the two is off
    np.testing.assert_allclose(M.differential(C, v), numeric, atol=1e-8)
    np.testing.assert_allclose(
        M.inverse_differential(C, M.differential(C, v)), v, atol=1e-13
    )


def test_covariances_in_any_units_and_the_diagonal():
    M, rng = Correlation(3), np.random.default_rng(2)
    C = some(rng, 5, 3)
    scales = 10.0 ** rng.uniform(-6, 6, (5, 3))
    np.testing.assert_allclose(
        M.from_record(scales[:, :, None] * C * scales[:, None, :]), C, atol=1e-14
    )
    for x in (frechet_mean(M, C), M.exp(C[0], M.log(C[0], C[1]))):
        np.testing.assert_array_equal(np.diag(x), 1.0)
        assert M.residual(x) < 1e-15


def test_curvature_is_between_minus_one_and_zero():
    assert Correlation(2).curvature_bounds == (0.0, 0.0)
    assert Correlation(5).curvature_bounds == (-1.0, 0.0)
    assert Correlation(5).dim == 10
    assert Correlation(3).dist(
        np.eye(3), np.ones((3, 3)) * 0.5 + 0.5 * np.eye(3)
    ) == pytest.approx(0.855, abs=0.01)


# ---- the off-log metric ---------------------------------------------------------------------------------------------------


def hollow(rng, n, m, r):
    """Coordinates of length r: random ones, of one factor, of its negative, of few pairs."""
    a, z = rng.normal(size=(n, m, 1)), rng.normal(size=(n, m, m))
    z = np.concatenate(
        [
            z + z.mT,
            a @ a.mT,
            -a @ a.mT,
            (z + z.mT) * (rng.random((n, m, m)) < 0.1) + 1e-9,
        ]
    )
    y = z[:, *np.tril_indices(m, -1)]
    return r * y / np.linalg.norm(y, axis=-1, keepdims=True)


def test_off_log_is_fishers_z_and_the_logarithm_off_its_diagonal():
    r = np.array([-0.9, 0.1, 0.999])
    C = np.eye(2) + r[:, None, None] * np.array([[0, 1], [1, 0]])
    np.testing.assert_allclose(
        CorrelationOffLog(2).dist(np.eye(2), C),
        np.sqrt(2) * np.arctanh(np.abs(r)),
        rtol=1e-12,
    )
    M, (A, B) = CorrelationOffLog(4), some(np.random.default_rng(3), 2, 4)
    difference = linalg.logm(A) - linalg.logm(B)
    assert M.dist(A, B) == pytest.approx(
        np.linalg.norm(difference - np.diag(np.diag(difference))), rel=1e-12
    )


def test_off_log_metric_is_invariant_under_permutations():
    M, rng = CorrelationOffLog(5), np.random.default_rng(4)
    C, order = some(rng, 2, 5), rng.permutation(5)
    turned = C[:, order][:, :, order]
    assert M.dist(*C) == pytest.approx(M.dist(*turned), rel=1e-12)
    assert (
        abs(Correlation(5).dist(*C) - Correlation(5).dist(*turned)) > 1e-3
    )  # the other metric does


@pytest.mark.parametrize("m", [3, 10, 30])
@pytest.mark.parametrize("r", [0.5, 3.0, 7.99])
def test_every_hollow_matrix_is_a_logarithm_off_its_diagonal(m, r):
    M, y = CorrelationOffLog(m), hollow(np.random.default_rng(m), 15, m, r)
    C = M.from_model(y)
    least = np.linalg.eigvalsh(C)[:, 0]
    assert np.all(-np.log(least) <= M._largest_exponent(r))
    np.testing.assert_allclose(M.to_model(C), y, atol=3e-14 * m / least.min())
    np.testing.assert_array_equal(C[:, np.arange(m), np.arange(m)], 1.0)


def test_far_noise_ends_at_the_reach():
    M = CorrelationOffLog(3)
    C = M.from_normal_coordinates(
        M.origin,
        hollow(np.random.default_rng(0), 5, 3, 1.0) * 10.0 ** np.arange(0, 20)[:, None],
    )
    assert np.all(M.residual(C) < 1e-12)
    assert np.all(np.linalg.eigvalsh(C) > 0)


def off_diagonal(rng, m, length):
    S = np.tril(rng.normal(size=(m, m)), -1)
    return (S + S.T) * length / np.linalg.norm(S + S.T)


def truth(S):
    """Newton's method with differences for derivatives."""
    m = len(S)

    def excess(*x):
        E = mp.expm(mp.matrix(S.tolist()) + mp.diag(list(x)))
        return [mp.log(E[i, i]) for i in range(m)]

    with mp.workdps(40):
        x = mp.findroot(
            excess,
            [-0.5 * np.log1p(s) for s in np.sum(S * S, axis=1)],
            tol=1e-50,
            verify=False,
        )
        E = mp.expm(mp.matrix(S.tolist()) + mp.diag(list(x)))
        return np.array([[float(E[i, j]) for j in range(m)] for i in range(m)])


@pytest.mark.parametrize("length", [1e-8, 0.3, 1.5, 4.0, 7.9])
def test_against_many_digits(length):
    for m in (2, 3):
        S = off_diagonal(np.random.default_rng(m), m, length)
        found, expected = unit_exponential(S, 30.0), truth(S)
        np.testing.assert_allclose(found, expected, atol=3e-14)
        off = ~np.eye(m, dtype=bool)
        np.testing.assert_allclose(
            found[off], expected[off], rtol=1e-12 + 1e-14 * np.exp(2 * length)
        )
        with public_time():
            np.testing.assert_allclose(unit_exponential(S, 30.0), expected, atol=3e-14)


@pytest.mark.parametrize("m", [2, 4, 9])
def test_each_result_depends_on_its_own_record_alone(m):
    rng = np.random.default_rng(0)
    S = np.stack([off_diagonal(rng, m, length) for length in rng.uniform(0, 8, 300)])
    S[7] = np.nan
    together = unit_exponential(S, 30.0)
    assert np.isnan(together[7]).all()
    for i in (0, 1, 5, 9, 250):
        np.testing.assert_array_equal(
            together[i], unit_exponential(S[i : i + 1], 30.0)[0]
        )
    assert unit_exponential(S[:0], 30.0).shape == (0, m, m)
    finite = np.arange(300) != 7
    assert np.max(np.abs(np.diagonal(together[finite], axis1=1, axis2=2) - 1)) < 2e-14


def test_unit_exponential_of_float32_arrays_of_jax():
    """16! was read as a whole number of 32 bits, and refused."""
    S = off_diagonal(np.random.default_rng(0), 3, 1.0)
    np.testing.assert_allclose(
        np.asarray(unit_exponential(jnp.asarray(S, dtype=jnp.float32), 30.0)),
        truth(S),
        atol=1e-5,
    )
