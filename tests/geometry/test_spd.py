"""The four geometries of SPD matrices against 50-digit arithmetic, their own identities, and automatic differentiation."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
)
from curvedp.numerics.matrix_functions import sym
from support.geometry import frobenius_norm, to_doubles

jax.config.update("jax_enable_x64", True)
SPACES = [SPDAffineInvariant, SPDLogEuclidean, SPDLogCholesky, SPDBuresWasserstein]
RNG = np.random.default_rng(7)


def points(m, n=5):
    A = RNG.normal(size=(n, m, 2 * m))
    return A @ A.mT / (2 * m)


# ---- oracle: the textbook formulas in 60 digits --------------------------------------------------------------------------


def exact(a):
    return mp.matrix([[mp.mpf(float(x)) for x in row] for row in a])


def function(S, f):
    w, U = mp.eigsy((S + S.T) / 2)
    return U * mp.diag([f(x) for x in w]) * U.T


def affine_log(p, q):
    L = mp.cholesky(p)
    inverse = L**-1
    return L * function(inverse * q * inverse.T, mp.log) * L.T


def affine_exp(p, v):
    L = mp.cholesky(p)
    inverse = L**-1
    return L * function(inverse * v * inverse.T, mp.exp) * L.T


def affine_norm(p, v):
    inverse = mp.cholesky(p) ** -1
    return frobenius_norm(inverse * v * inverse.T)


def euclidean_dist(p, q):
    return frobenius_norm(function(q, mp.log) - function(p, mp.log))


def cholesky_dist(p, q):
    L, K = mp.cholesky(p), mp.cholesky(q)
    D = K - L
    for i in range(p.rows):
        D[i, i] = mp.log(K[i, i] / L[i, i])
    return frobenius_norm(D)


def bures_dist(p, q):
    root = function(p, mp.sqrt)
    cross = function(root * q * root, mp.sqrt)
    return mp.sqrt(sum(p[i, i] + q[i, i] - 2 * cross[i, i] for i in range(p.rows)))


def affine_dist(p, q):
    return affine_norm(p, affine_log(p, q))


ORACLE = dict(
    zip(SPACES, [affine_dist, euclidean_dist, cholesky_dist, bures_dist], strict=True)
)


def conditioned(m, cond, kind):
    lam = np.exp(np.linspace(-0.5, 0.5, m) * np.log(cond))
    if kind == "diagonal":
        return np.diag(RNG.permutation(lam))
    if kind == "graded":
        D = np.sqrt(RNG.permutation(lam))
        return points(m, 1)[0] * (D[:, None] * D)
    Q = np.linalg.qr(RNG.normal(size=(m, m)))[0]
    A = (Q * lam) @ Q.T
    return (A + A.T) / 2


@pytest.mark.parametrize("kind", ["generic", "graded", "diagonal"])
@pytest.mark.parametrize("cond", [10.0, 1e4, 1e9])
@pytest.mark.parametrize("m", [2, 3, 5])
def test_affine_invariant_keeps_its_digits_from_1e15_to_30(m, cond, kind):
    M = SPDAffineInvariant(m)
    with mp.workdps(60):
        for distance in (1e-15, 1e-8, 1.0, 30.0):
            p = conditioned(m, cond, kind)
            S = RNG.normal(size=(m, m))
            S = (
                np.diag(np.diag(S))
                if kind != "generic" or distance == 30.0
                else S + S.T
            )
            if kind == "generic" and distance == 30.0:
                S = (
                    np.eye(m) + 0.05 * S
                )  # a rounded matrix of wider spread would not be positive definite
            L = np.linalg.cholesky(p)
            v = L @ S @ L.T
            v = (v + v.T) / 2
            P = exact(p)
            v = v * (distance / float(affine_norm(P, exact(v))))
            Q = affine_exp(P, exact(v))
            assert frobenius_norm(exact(M.exp(p, v)) - Q) / frobenius_norm(Q) < 1e-13
            q = to_doubles(Q)
            if min(mp.eigsy(exact(q), eigvals_only=True)) <= 0:
                continue  # rounding took the exact image out of the space
            true = affine_dist(P, exact(q))
            if true == 0:
                continue
            assert abs(mp.mpf(float(M.dist(p, q))) - true) / true < 1e-13
            log = affine_log(P, exact(q))
            assert (
                frobenius_norm(exact(M.log(p, q)) - log) / frobenius_norm(log) < 1e-12
            )


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("distance", [1e-14, 1e-7, 0.1, 2.0])
def test_distances_against_mpmath(space, distance):
    for m in (1, 2, 3, 4):
        M = space(m)
        p = points(m, 1)[0] + np.eye(m)
        v = M.from_coordinates(p, RNG.normal(size=M.dim))
        q = M.exp(p, v * (distance / 2 / M.norm(p, v)))
        with mp.workdps(60):
            true = ORACLE[space](exact(p), exact(q))
            assert abs(mp.mpf(float(M.dist(p, q))) - true) <= 2e-13 * true


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_exp_log_dist_and_norm_agree(space, m):
    M = space(m)
    p, q = points(m), points(m)
    v = M.log(p, q)
    np.testing.assert_allclose(M.exp(p, v), q, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(M.norm(p, v), M.dist(p, q), rtol=1e-10)
    np.testing.assert_allclose(M.dist(q, p), M.dist(p, q), rtol=1e-10)
    z = RNG.normal(size=(5, M.dim))
    u = M.from_coordinates(p, z)
    np.testing.assert_allclose(
        M.inner(p, u, v),
        np.sum(z * M.to_coordinates(p, v), axis=-1),
        rtol=1e-8,
        atol=1e-10,
    )
    np.testing.assert_allclose(M.to_coordinates(p, u), z, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        M.norm(q, M.transport(p, q, u)), np.linalg.norm(z, axis=-1), rtol=1e-9
    )
    frame = M.from_coordinates(p[0], np.eye(M.dim)).reshape(M.dim, -1)
    assert np.linalg.matrix_rank(frame) == M.dim
    assert (M.residual(p) == 0).all()
    assert M.exp(p[:, None], 0 * v).shape == (5, 5, m, m)
    assert M.dist(p[:, None], q).shape == (5, 5)


@pytest.mark.parametrize("space", SPACES)
def test_metric_is_the_second_derivative_of_squared_distance(space):
    # d(p, exp(tv))² / t² tends to ⟨v,v⟩: ties dist, exp and inner together without sharing code
    M = space(3)
    p = points(3, 1)[0]
    v = M.from_coordinates(p, RNG.normal(size=6))
    for t in (1e-3, 1e-5):
        assert M.dist(p, M.exp(p, t * v)) / t == pytest.approx(M.norm(p, v), rel=1e-8)


def test_affine_transport_is_parallel_and_its_own_velocity():
    M = SPDAffineInvariant(3)
    p, q = points(3, 2)
    v = M.log(p, q)
    np.testing.assert_allclose(
        M.transport(p, q, v), -M.log(q, p), rtol=1e-10, atol=1e-12
    )
    # parallel along the geodesic composes; a transport that is merely isometric does not
    middle = M.exp(p, 0.3 * v)
    u = M.from_coordinates(p, RNG.normal(size=6))
    np.testing.assert_allclose(
        M.transport(middle, q, M.transport(p, middle, u)),
        M.transport(p, q, u),
        atol=1e-11,
    )


def test_errata_e6_bures_metric_and_e7_log_euclidean_differential():
    W = points(3, 1)[0]
    u, v = (S + S.T for S in RNG.normal(size=(2, 3, 3)))
    lyapunov = np.linalg.solve(
        np.kron(W, np.eye(3)) + np.kron(np.eye(3), W), u.ravel()
    ).reshape(3, 3)
    M = SPDBuresWasserstein(3)
    assert M.inner(W, u, v) == pytest.approx(0.5 * np.trace(lyapunov @ v), rel=1e-10)
    # ¼tr at I, as the paper's Table 1 has it; what it prints of the sampler is in tests/reproductions/test_errata.py
    assert M.norm(np.eye(3), np.eye(3)) == pytest.approx(np.sqrt(3) / 2)
    E = SPDLogEuclidean(2)
    z = np.array([0.0, 1.0, 0.0])
    lam = np.array([4.0, 0.5])
    off = (lam[0] - lam[1]) / (np.log(lam[0]) - np.log(lam[1])) / np.sqrt(2)
    assert E.from_coordinates(np.diag(lam), z)[1, 0] == pytest.approx(off)
    printed = (lam[0] - lam[1]) / (np.exp(lam[0]) - np.exp(lam[1])) / np.sqrt(2)
    assert abs(printed) < 0.1 * off  # here far too little noise; too much below 0.567


@pytest.mark.parametrize("space", SPACES)
def test_derivatives_are_finite_and_right_at_repeated_eigenvalues(space):
    """Those of log and exp; that of the distance is in tests/conformance/test_array_libraries.py, at the identity too."""
    M = space(2)
    p, q = 2 * np.eye(2), points(2, 1)[0]
    v = M.from_coordinates(p, RNG.normal(size=M.dim))

    def moved(p, q):
        return M.log(p, q), M.exp(p, 0.1 * q)

    derivative = jax.jit(
        lambda p, t: jax.jvp(lambda p: moved(p, jnp.asarray(q)), (p,), (t,))[1]
    )
    slopes = derivative(jnp.asarray(p), jnp.asarray(v))
    h = 1e-6
    for slope, a, b in zip(
        slopes, moved(p + h * v, q), moved(p - h * v, q), strict=True
    ):
        np.testing.assert_allclose(
            np.asarray(slope), (a - b) / (2 * h), rtol=2e-7, atol=2e-7
        )


@pytest.mark.parametrize("space", SPACES)
def test_bad_records_never_raise(space):
    M = space(4)
    X = np.stack(
        [
            np.eye(4),
            np.diag([1.0, 1.0, 1.0, -1.0]),
            np.full((4, 4), np.nan),
            np.zeros((4, 4)),
        ]
    )
    d = M.dist(np.eye(4), X)
    assert d[0] == 0
    assert not np.isfinite(d[2])
    assert (M.residual(M.project(X[[0, 1, 3]])) == 0).all()
    assert M.residual(X)[1] > 0
    np.testing.assert_array_equal(M.project(X[0]), X[0])


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("m", [0, -1, 2.0, float("nan"), True, "3"])
def test_bad_sizes_are_refused(space, m):
    with pytest.raises(ParameterError, match="m="):
        space(m)


@pytest.mark.parametrize("spread", [0.5, 2.0, 4.0, 7.0])
@pytest.mark.parametrize("step", [1e-9, 1e-3, 1.0])
def test_many_tensors_against_60_digits_and_each_on_its_own(spread, step):
    """The fast way of 3×3 matrices up to a condition of 1e4, the careful one beyond: 1e-12 on either side."""
    import mpmath as mp

    M, rng = SPDAffineInvariant(3), np.random.default_rng(int(spread * 10))
    Q = np.linalg.qr(rng.normal(size=(40, 3, 3)))[0]
    p = (Q * np.exp(spread * rng.uniform(-1, 1, size=(40, 1, 3)))) @ Q.mT
    p = (p + p.mT) / 2
    L = np.linalg.cholesky(p)
    E = step * rng.normal(size=(40, 3, 3))
    w, U = np.linalg.eigh((E + E.mT) / 2)
    q = p + (L @ U * np.expm1(w)[:, None]) @ (L @ U).mT
    q = (q + q.mT) / 2
    distances, logs = M.dist(p, q), M.log(p, q)
    for k in range(0, 40, 8):
        with mp.workdps(60):
            inverse = mp.cholesky(mp.matrix(p[k].tolist())) ** -1
            values = mp.eigsy(
                inverse * mp.matrix(q[k].tolist()) * inverse.T, eigvals_only=True
            )
            truth = float(mp.sqrt(mp.fsum(mp.log(value) ** 2 for value in values)))
        assert distances[k] == pytest.approx(truth, rel=1e-12)
        assert M.dist(p[k], q[k]) == distances[k]  # alone, and beside others
        assert np.array_equal(M.log(p[k], q[k]), logs[k])
    np.testing.assert_allclose(M.norm(p, logs), distances, rtol=1e-11)


@pytest.mark.parametrize("unit", [1e-30, 1e-12, 1e-6, 1e6, 1e30])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 11])
def test_units_do_not_cost_accuracy(m, unit):
    """Covariances in V² are 1e-10·I: distances to the identity come from the matrices' own eigenvalues."""
    rng = np.random.default_rng(m)
    for M in (SPDAffineInvariant(m), SPDLogEuclidean(m), SPDLogCholesky(m)):
        X = unit * np.asarray(
            M.from_normal_coordinates(M.origin, 0.3 * rng.normal(size=(20, M.dim)))
        )
        if isinstance(M, SPDLogCholesky):
            K = np.linalg.cholesky(X)
            below = np.sum(np.tril(K, -1) ** 2, axis=(1, 2))
            true = np.sqrt(
                np.sum(np.log(np.diagonal(K, axis1=1, axis2=2)) ** 2, axis=1) + below
            )
        else:
            true = np.sqrt(np.sum(np.log(np.linalg.eigvalsh(X)) ** 2, axis=1))
        np.testing.assert_allclose(M.dist(np.eye(m), X), true, rtol=1e-13)
        np.testing.assert_allclose(
            M.norm(np.eye(m), M.log(np.eye(m), X)), true, rtol=1e-13
        )


@pytest.mark.parametrize("span", [-7.0, -4.0, 0.0, 4.0, 7.0])
@pytest.mark.parametrize("near", [1.0, 1e-2])
def test_bures_distances_of_channels_in_different_units(span, near):
    """Relative errors were 25 at condition 10¹², 10⁸ beyond, where small units came first."""
    M, rng = SPDBuresWasserstein(3), np.random.default_rng(4)
    units = 10.0 ** (np.array([0, span / 2, span]) - max(span, 0.0))
    for _ in range(4):
        A, B = (
            factor @ factor.T + 0.1 * np.eye(3) for factor in rng.normal(size=(2, 3, 3))
        )
        p, q = (
            sym(units[:, None] * each * units)
            for each in (A, (1 - near) * A + near * B)
        )
        with mp.workdps(60):
            P, Q = mp.matrix(p.tolist()), mp.matrix(q.tolist())
            values, U = mp.eigsy(P)
            root = U * mp.diag([mp.sqrt(value) for value in values]) * U.T
            both = sum(
                mp.sqrt(value) for value in mp.eigsy(root * Q * root, eigvals_only=True)
            )
            exact = float(mp.sqrt(sum(P[i, i] + Q[i, i] for i in range(3)) - 2 * both))
        assert float(M.dist(p, q)) == pytest.approx(exact, rel=1e-11)
        assert float(
            np.linalg.norm(M.exp(p, M.log(p, q)) - q)
        ) <= 1e-8 * np.linalg.norm(q)


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("length", [1e-6, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("base", [0.0, 3.0])
def test_log_cholesky_charts_know_all_that_the_floats_say(m, length, base):
    """Factors of one precision erred by 1e-7 at length 8, a tenth of a sensitivity of 1e-6, which no charge held."""
    M, rng = SPDLogCholesky(m), np.random.default_rng(m)
    row, column = np.tril_indices(m)
    for step in range(6):
        turns, away = rng.normal(size=(2, M.dim))
        p = np.asarray(
            M.from_normal_coordinates(np.eye(m), base * turns / np.linalg.norm(turns))
        )
        z = np.where(
            row == column, -abs(away) * (1 + step % 2), away
        )  # small pivots below large entries
        q = np.asarray(M.from_normal_coordinates(p, length * z / np.linalg.norm(z)))
        with mp.workdps(60):
            L, K = mp.cholesky(exact(p)), mp.cholesky(exact(q))
            true = [
                mp.log(K[i, i] / L[i, i]) if i == j else K[i, j] - L[i, j]
                for i, j in zip(row, column, strict=True)
            ]
            error = mp.sqrt(
                sum(
                    (mp.mpf(float(a)) - b) ** 2
                    for a, b in zip(M.normal_coordinates(p, q), true, strict=True)
                )
            )
        assert error <= 1e-14 * mp.norm(mp.matrix(true))
