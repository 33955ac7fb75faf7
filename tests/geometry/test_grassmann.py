"""Grassmann manifold: principal angles to 50 digits, subspaces not bases, numerical curvature."""

import math

import mpmath
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann
from support.geometry import unit_tangents

RNG = np.random.default_rng(20240502)


def exact_distance(p, q):
    """√Σθ² of the subspaces spanned by the float matrices, to 60 digits: sin²θ are the eigenvalues of I − P_p P_q on p."""
    with mpmath.workdps(60):
        a, b = (mpmath.qr(mpmath.matrix(x.tolist()), mode="skinny")[0] for x in (p, q))
        s = b - a * (a.T * b)
        angles = [
            mpmath.asin(mpmath.sqrt(abs(x)))
            for x in mpmath.eigsy(s.T * s, eigvals_only=True)
        ]
        return mpmath.sqrt(sum(x * x for x in angles))


@pytest.mark.parametrize(("m", "r"), [(2, 1), (5, 1), (5, 2), (4, 3), (7, 3)])
@pytest.mark.parametrize(
    "distance", [1e-15, 1e-10, 1e-5, 0.3, 1.0, 1.5, math.pi / 2 - 1e-6]
)
def test_distance_against_60_digits(m, r, distance):
    M = Grassmann(m, r)
    p = M.project(RNG.standard_normal((m, r)))
    q = M.exp(p, distance * unit_tangents(RNG, M, p, 1)[0])
    assert float(M.dist(p, q)) == pytest.approx(
        float(exact_distance(p, q)), rel=1e-12, abs=1e-30
    )


def test_points_are_subspaces():
    M = Grassmann(6, 3)
    p, q = M.project(RNG.standard_normal((2, 6, 3)))
    a, b = np.linalg.qr(RNG.standard_normal((2, 3, 3)))[0]
    assert M.dist(p, p @ a) < 1e-14
    assert M.dist(p @ a, q @ b) == pytest.approx(M.dist(p, q), abs=1e-14)
    np.testing.assert_allclose(M.log(p @ a, q @ b), M.log(p, q) @ a, atol=1e-14)
    x = RNG.standard_normal((6, 3))
    mixed = M.project(x @ RNG.standard_normal((3, 3)))
    assert M.dist(M.project(x), mixed) < 1e-12


def test_principal_angles_of_all_sizes():
    """Subspaces (cos θ, sin θ) with angles of all sizes at once."""
    angles = np.array([1e-12, 1e-4, 1.0, 1.57])
    q = np.concatenate([np.diag(np.cos(angles)), np.diag(np.sin(angles))])
    v = Grassmann(8, 4).log(np.eye(8, 4), q)
    np.testing.assert_allclose(np.diagonal(v[4:]), angles, rtol=1e-13)


def test_beyond_the_injectivity_radius_log_is_still_shortest():
    M = Grassmann(6, 3)
    p, q = M.project(RNG.standard_normal((2, 500, 6, 3)))
    cosines = np.linalg.svd(p.mT @ q, compute_uv=False)
    np.testing.assert_allclose(
        M.dist(p, q),
        np.linalg.norm(np.arccos(np.clip(cosines, -1, 1)), axis=-1),
        atol=1e-7,
    )
    assert np.max(M.dist(M.exp(p, M.log(p, q)), q)) < 1e-13


def test_orthogonal_subspaces_are_at_the_cut_locus():
    M = Grassmann(4, 2)
    q = np.eye(4)[:, 2:]
    assert M.dist(M.origin, q) == pytest.approx(math.sqrt(2) * math.pi / 2, abs=1e-15)
    assert M.dist(M.exp(M.origin, M.log(M.origin, q)), q) < 1e-15


def test_long_velocities_stay_on_the_manifold():
    M = Grassmann(5, 4)
    p = M.project(RNG.standard_normal((5, 4)))
    assert M.residual(M.exp(p, 1e6 * unit_tangents(RNG, M, p, 1)[0])) < 1e-13


@pytest.mark.parametrize(("m", "r"), [(4, 2), (5, 3), (4, 1), (4, 3)])
def test_curvature_from_small_triangles(m, r):
    """d² = |tu − tv|² − K t⁴/3 for orthonormal u, v, against the bounds and Wong's formula."""
    M = Grassmann(m, r)
    p = M.project(RNG.standard_normal((m, r)))
    u, v = unit_tangents(RNG, M, p, 300), unit_tangents(RNG, M, p, 300)
    v = v - M.inner(p, u, v)[:, None, None] * u
    v = v / M.norm(p, v)[:, None, None]
    t = 0.01
    K = 3 * (2 * t**2 - M.dist(M.exp(p, t * u), M.exp(p, t * v)) ** 2) / t**4
    low, high = M.curvature_bounds
    assert np.all((low - 5e-3 <= K) & (high + 5e-3 >= K))
    left, right = u @ v.mT - v @ u.mT, u.mT @ v - v.mT @ u
    np.testing.assert_allclose(
        K, np.sum(left**2, (-2, -1)) / 2 + np.sum(right**2, (-2, -1)) / 2, atol=5e-3
    )


def test_curvature_bounds_are_attained():
    M, t = Grassmann(4, 2), 0.01
    u, v = np.zeros((2, 4, 2))
    u[2, 0] = u[3, 1] = v[2, 1] = math.sqrt(0.5)
    v[3, 0] = -math.sqrt(0.5)
    curvature = (
        3
        * (2 * t**2 - M.dist(M.exp(M.origin, t * u), M.exp(M.origin, t * v)) ** 2)
        / t**4
    )
    assert curvature == pytest.approx(M.curvature_bounds[1], abs=5e-3)


def test_nonfinite_input_gives_nan_without_an_error():
    M = Grassmann(4, 2)
    bad = np.full((4, 2), np.nan)
    assert np.all(np.isnan(M.project(bad)))
    assert np.all(np.isnan(M.log(M.origin, bad)))
    mixed = np.stack([bad, M.origin])
    np.testing.assert_array_equal(M.project(mixed)[1], M.origin)


@pytest.mark.parametrize(
    ("m", "r"),
    [(3, 3), (2, 3), (3, 0), (1, 1), (math.nan, 1), (3, 1.0), (3, True), (-1, -2)],
)
def test_bad_sizes(m, r):
    with pytest.raises(ParameterError):
        Grassmann(m, r)


def test_distance_to_what_is_not_finite_is_not_zero():
    M = Grassmann(4, 2)
    assert np.isnan(M.dist(M.origin, np.full(M.point_shape, np.nan)))
