"""Every metric on SPD matrices in units from 1e-290 to 1e290, against mpmath: the definitions as they stand, 120 digits."""

import mpmath as mp
import numpy as np
import pytest

from curvedp.geometry import (
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
)
from support.geometry import frobenius_norm, to_doubles

METRICS = [SPDAffineInvariant, SPDBuresWasserstein, SPDLogCholesky, SPDLogEuclidean]
UNITS = [1e-290, 1e-200, 1e-150, 1.0, 1e150, 1e200, 1e290]


def matrix(A):
    return mp.matrix(A.tolist())


def cholesky(A):
    """mpmath's refuses matrices that are small beside 1."""
    unit = mp.sqrt(abs(A[0, 0]))
    return mp.cholesky(A / unit**2) * unit


def of(S, f):
    """f(S) by eigenvalues."""
    w, U = mp.eigsy(S)
    return U * mp.diag([f(x) for x in w]) * U.T


def divided(S, V, f):
    """Entries of V in the eigenbasis of S, times f of the two eigenvalues."""
    w, U = mp.eigsy(S)
    W = U.T * V * U
    return (
        U
        * mp.matrix(
            [[W[i, j] * f(w[i], w[j]) for j in range(S.cols)] for i in range(S.rows)]
        )
        * U.T
    )


def lower(A, share):
    """The strict lower part, and this share of the diagonal."""
    return mp.matrix(
        [
            [A[i, j] * (share if i == j else i > j) for j in range(A.cols)]
            for i in range(A.rows)
        ]
    )


class Affine:
    def __init__(self, p):
        self.L = cholesky(p)
        self.K = self.L**-1

    def log(self, q):
        return self.L * of(self.K * q * self.K.T, mp.log) * self.L.T

    def exp(self, v):
        return self.L * of(self.K * v * self.K.T, mp.exp) * self.L.T

    def norm(self, v):
        return frobenius_norm(self.K * v * self.K.T)


class LogEuclidean:
    def __init__(self, p):
        self.p = p

    @staticmethod
    def slope(x, y):
        return 1 / x if x == y else mp.log(x / y) / (x - y)

    def log(self, q):
        return divided(
            self.p,
            of(q, mp.log) - of(self.p, mp.log),
            lambda x, y: 1 / self.slope(x, y),
        )

    def exp(self, v):
        return of(of(self.p, mp.log) + divided(self.p, v, self.slope), mp.exp)

    def norm(self, v):
        return frobenius_norm(divided(self.p, v, self.slope))


class LogCholesky:
    def __init__(self, p):
        self.L = cholesky(p)

    def tangent(self, v):
        K = self.L**-1
        return self.L * lower(K * v * K.T, mp.mpf(1) / 2)

    def log(self, q):
        K = cholesky(q)
        X = lower(K - self.L, 0)
        for i in range(X.rows):
            X[i, i] = self.L[i, i] * mp.log(K[i, i] / self.L[i, i])
        return self.L * X.T + X * self.L.T

    def exp(self, v):
        X = self.tangent(v)
        K = self.L + lower(X, 0)
        for i in range(X.rows):
            K[i, i] = self.L[i, i] * mp.exp(X[i, i] / self.L[i, i])
        return K * K.T

    def norm(self, v):
        X = self.tangent(v)
        return frobenius_norm(
            mp.matrix(
                [
                    [X[i, j] / (self.L[i, i] if i == j else 1) for j in range(X.cols)]
                    for i in range(X.rows)
                ]
            )
        )


class BuresWasserstein:
    def __init__(self, p):
        self.p = p

    def log(self, q):
        root = of(self.p, mp.sqrt)
        T = root**-1 * of(root * q * root, mp.sqrt) * root**-1 - mp.eye(q.rows)
        return T * self.p + self.p * T

    def lyapunov(self, v):
        return divided(self.p, v, lambda x, y: 1 / (x + y))

    def exp(self, v):
        L = mp.eye(v.rows) + self.lyapunov(v)
        return L * self.p * L

    def norm(self, v):
        return mp.sqrt(sum(a * b for a, b in zip(self.lyapunov(v), v, strict=True)) / 2)


ORACLES = dict(
    zip(METRICS, [Affine, BuresWasserstein, LogCholesky, LogEuclidean], strict=True)
)


def close(found, truth):
    np.testing.assert_allclose(found, truth, rtol=0, atol=2e-12 * np.max(np.abs(truth)))


def some(m, seed, unit):
    A = np.random.default_rng([m, seed]).normal(size=(m, 2 * m))
    return A @ A.T / (2 * m) * unit


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("metric", METRICS)
def test_results_keep_their_digits_in_every_unit(metric, m):
    M = metric(m)
    with mp.workdps(120):
        for unit in UNITS:
            p, v = some(m, 0, unit), some(m, 1, unit) - some(m, 2, unit)
            oracle = ORACLES[metric](matrix(p))
            near = p + 1e-5 * some(m, 4, unit)
            for q in (some(m, 3, unit), near):
                truth = oracle.log(matrix(q))
                close(M.log(p, q), to_doubles(truth))
                assert float(M.dist(p, q)) == pytest.approx(
                    float(oracle.norm(truth)), rel=2e-12
                )
            close(M.exp(p, 0.3 * v), to_doubles(oracle.exp(matrix(0.3 * v))))
            for share in (1.0, 1e-10):
                assert float(M.norm(p, share * v)) == pytest.approx(
                    float(oracle.norm(matrix(share * v))), rel=2e-12
                )


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("metric", METRICS)
def test_two_points_in_different_units(metric, m):
    M = metric(m)
    with mp.workdps(700):
        for one, two in [
            (1e-290, 1e290),
            (1e290, 1e-290),
            (1.0, 1e-200),
            (1e-150, 1.0),
            (1e200, 1.0),
        ]:
            p, q = some(m, 0, one), some(m, 1, two)
            oracle = ORACLES[metric](matrix(p))
            truth = oracle.log(matrix(q))
            assert float(M.dist(p, q)) == pytest.approx(
                float(oracle.norm(truth)), rel=2e-12
            )
            close(M.log(p, q), to_doubles(truth))


@pytest.mark.parametrize("metric", METRICS)
def test_short_velocities_have_a_length(metric):
    M, v = metric(2), np.array([[3.0, 0.0], [0.0, 4.0]])
    unit = float(M.norm(np.eye(2), v))
    for share in (1e-300, 1e-200, 1e-154, 1e-100, 1e100, 1e200):
        assert float(M.norm(np.eye(2), share * v)) == pytest.approx(
            share * unit, rel=1e-12
        )
    assert float(M.norm(np.eye(2), 0 * v)) == 0.0
    assert np.isnan(float(M.norm(np.eye(2), np.nan * v)))


def test_memory_layout_does_not_change_results():
    M = SPDAffineInvariant(3)
    x = np.random.default_rng(5).standard_normal((5, 4, 3, 3)).transpose(1, 0, 2, 3)
    for kernel in (M.project, M.from_record, M.residual):
        np.testing.assert_array_equal(kernel(x), kernel(x.copy()))
