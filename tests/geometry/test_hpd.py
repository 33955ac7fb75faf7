"""Hermitian matrices against complex linear algebra."""

import numpy as np
import pytest
import scipy.linalg

from curvedp.errors import ParameterError
from curvedp.geometry import HPDAffineInvariant, SPDAffineInvariant, frechet_mean
from curvedp.geometry.capabilities import euclidean_factor


def some(rng, n, m):
    A = rng.normal(size=(n, m, 2 * m)) + 1j * rng.normal(size=(n, m, 2 * m))
    return A @ np.conj(A.mT) / (2 * m)


def test_distance_exp_and_log_by_complex_matrix_functions():
    M, rng = HPDAffineInvariant(3), np.random.default_rng(0)
    for p, q in zip(some(rng, 5, 3), some(rng, 5, 3), strict=True):
        x, y = M.from_complex(p), M.from_complex(q)
        values = scipy.linalg.eigh(q, p, eigvals_only=True)
        assert M.dist(x, y) == pytest.approx(
            np.sqrt(np.sum(np.log(values) ** 2)), rel=1e-12
        )
        root = scipy.linalg.sqrtm(p)
        back = np.linalg.inv(root)
        v = root @ scipy.linalg.logm(back @ q @ back) @ root
        np.testing.assert_allclose(M.to_complex(M.log(x, y)), v, atol=1e-10)
        assert M.inner(x, M.from_complex(v), M.from_complex(v)) == pytest.approx(
            M.dist(x, y) ** 2, rel=1e-10
        )


def test_real_matrices_are_spd():
    rng = np.random.default_rng(1)
    A, B = some(rng, 2, 3).real
    flat = HPDAffineInvariant.from_complex
    assert HPDAffineInvariant(3).dist(flat(A), flat(B)) == pytest.approx(
        SPDAffineInvariant(3).dist(A, B), rel=1e-13
    )


def test_invariance_under_complex_congruence():
    M, rng = HPDAffineInvariant(2), np.random.default_rng(2)
    X, G = some(rng, 30, 2), rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2))
    mean, moved = (
        frechet_mean(M, M.from_complex(X)),
        frechet_mean(M, M.from_complex(G @ X @ np.conj(G.T))),
    )
    np.testing.assert_allclose(
        M.to_complex(moved), G @ M.to_complex(mean) @ np.conj(G.T), atol=1e-8
    )


def test_intake_takes_the_hermitian_part():
    M, rng = HPDAffineInvariant(2), np.random.default_rng(3)
    x = some(rng, 1, 2)[0]
    rough = 1e-10 * (
        x + 1e-4 * (rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2)))
    )
    found = M.to_complex(M.from_record(M.from_complex(rough)))
    np.testing.assert_allclose(found, (rough + np.conj(rough.T)) / 2, atol=1e-25)
    assert np.all(np.isnan(M.from_record(M.from_complex(np.diag([1.0, -1.0])))))
    with pytest.raises(ParameterError, match="complex numbers"):
        M.from_complex(np.array([["a"]]))


def test_two_by_two_is_a_line_times_hyperbolic_space():
    """ℝ × H³ of curvature −½: three curvatures across the flat direction, all −½ or 0."""
    M = HPDAffineInvariant(2)
    p = M.from_complex(some(np.random.default_rng(4), 1, 2)[0])
    flat = euclidean_factor(M, p)
    np.testing.assert_allclose(flat @ flat.T, 1, atol=1e-14)
    z = np.linalg.svd(flat)[2][1]  # a unit vector across
    operator = M.jacobi_operator(p, M.from_coordinates(p, z))
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvalsh(operator)), [-0.5, -0.5, 0, 0], atol=1e-13
    )
