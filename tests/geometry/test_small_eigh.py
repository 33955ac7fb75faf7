"""Closed-form eigen-systems: backward error, orthogonality, order, repeated and graded spectra, NaN, array libraries."""

import array_api_strict
import numpy as np
import pytest

from curvedp.numerics.eigen import eigh

RNG = np.random.default_rng(11)
N = 2000


def spectra(m):
    normal = RNG.normal(size=(N, m))
    return {
        "generic": normal,
        "one apart": np.c_[np.ones((N, m - 1)), normal[:, :1]],
        "cluster": 1 + 1e-8 * normal,
        "tighter": 1 + 1e-15 * normal,
        "identity": np.ones((N, m)),
        "wide": 10.0 ** RNG.uniform(-20, 20, size=(N, m)),
        "tiny": 1e-150 * normal,
        "huge": 1e140 * normal,
        "zero": np.zeros((N, m)),
    }


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7])
def test_backward_error_and_orthogonality(m):
    Q = np.linalg.qr(RNG.normal(size=(N, m, m)))[0]
    for name, lam in spectra(m).items():
        A = (Q * lam[:, None, :]) @ Q.mT
        A = (A + A.mT) / 2
        w, V = eigh(A)
        size = np.maximum(np.abs(lam).max(axis=-1), 1e-300)
        error = np.abs(A @ V - V * w[:, None, :]).max(axis=(-2, -1)) / size
        assert error.max() < 4e-15, name
        assert np.abs(V.mT @ V - np.eye(m)).max() < 4e-15, name
        assert (np.diff(w, axis=-1) >= -4e-15 * size[:, None]).all(), name
        assert (np.abs(w - np.linalg.eigvalsh(A)).max(axis=-1) / size).max() < 1e-14, (
            name
        )


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_diagonal_matrices_keep_every_digit(order):
    lam = np.array([1e-14, 3.0, 7e12])
    w, _ = eigh(np.diag(lam[order]))
    np.testing.assert_allclose(w, lam, rtol=4e-16)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_bad_matrices_give_nan_and_leave_the_others(m):
    A = np.stack([np.eye(m), np.full((m, m), np.nan), 2 * np.eye(m)])
    w, _ = eigh(A)
    assert np.isnan(w[1]).all()
    np.testing.assert_array_equal(w[[0, 2]], [[1] * m, [2] * m])


@pytest.mark.parametrize("m", [2, 3, 5])
def test_one_kernel_for_every_library(m):
    A = RNG.normal(size=(4, m, m))
    A = A + A.mT
    strict, _ = eigh(array_api_strict.asarray(A))
    np.testing.assert_allclose(np.asarray(strict), eigh(A)[0], rtol=1e-13, atol=1e-13)
