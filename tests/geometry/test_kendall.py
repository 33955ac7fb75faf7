"""Kendall's planar shapes: against 50-digit arithmetic, against ℂP^{k−2}, and numerical curvature."""

import math

import mpmath
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import KendallShapes
from support.geometry import unit_tangents

RNG = np.random.default_rng(20240501)


def exact_distance(p, q):
    """arccos|⟨p, q⟩| of the shapes of the float points, to 50 digits."""
    with mpmath.workdps(50):
        a, b = (
            [mpmath.mpc(*map(mpmath.mpf, map(float, row))) for row in x] for x in (p, q)
        )
        a, b = ([x - sum(c) / len(c) for x in c] for c in (a, b))
        inner = abs(sum(mpmath.conj(x) * y for x, y in zip(a, b, strict=True)))
        size = mpmath.sqrt(sum(abs(x) ** 2 for x in a) * sum(abs(x) ** 2 for x in b))
        return mpmath.acos(min(inner / size, mpmath.mpf(1)))


@pytest.mark.parametrize("k", [3, 4, 10])
@pytest.mark.parametrize(
    "distance", [1e-15, 1e-10, 1e-5, 0.3, 1.0, 1.5, math.pi / 2 - 1e-6]
)
def test_distance_against_50_digits(k, distance):
    M = KendallShapes(k)
    p = M.project(RNG.standard_normal((k, 2)))
    q = M.exp(p, distance * unit_tangents(RNG, M, p, 1)[0])
    assert float(M.dist(p, q)) == pytest.approx(
        float(exact_distance(p, q)), rel=1e-12, abs=0
    )


def test_distance_ignores_rotation_position_and_size():
    M = KendallShapes(6)
    x, y = RNG.standard_normal((2, 6, 2))
    c, s = math.cos(2.0), math.sin(2.0)
    moved = 1e150 * (y @ np.array([[c, s], [-s, c]]) + 5)
    assert M.dist(M.project(x), M.project(moved)) == pytest.approx(
        M.dist(M.project(x), M.project(y)), abs=1e-14
    )


def test_a_mirror_image_is_a_different_shape():
    M = KendallShapes(4)
    p = M.project(RNG.standard_normal((4, 2)))
    assert M.dist(p, p * np.array([1.0, -1.0])) > 0.1


def test_equal_landmarks_have_no_shape():
    M = KendallShapes(5)
    x = np.full((5, 2), 0.1)
    np.testing.assert_array_equal(M.project(x), M.origin)
    assert M.residual(M.origin) < 1e-15


def test_tangent_frame_is_horizontal_and_orthonormal():
    M = KendallShapes(6)
    p = M.project(RNG.standard_normal((6, 2)))
    frame = M.from_coordinates(p, np.eye(M.dim)).reshape(M.dim, -1)
    np.testing.assert_allclose(frame @ frame.T, np.eye(M.dim), atol=1e-14)
    turned = np.stack([-p[:, 1], p[:, 0]], axis=-1)
    normals = np.stack(
        [p, turned, np.tile([1.0, 0.0], (6, 1)), np.tile([0.0, 1.0], (6, 1))]
    ).reshape(4, -1)
    np.testing.assert_allclose(frame @ normals.T, 0, atol=1e-14)
    assert np.linalg.matrix_rank(np.concatenate([frame, normals])) == 12


def test_triangles_are_a_sphere_of_radius_one_half():
    """Shapes of triangles: the Hopf map to a sphere of radius ½ is an isometry (Kendall 1984)."""
    M = KendallShapes(3)

    def hopf(p):
        w = p[..., 0] + 1j * p[..., 1]
        a = (w[..., 0] - w[..., 1]) / math.sqrt(2)
        b = (w[..., 0] + w[..., 1] - 2 * w[..., 2]) / math.sqrt(6)
        cross = a * np.conj(b)
        return np.stack(
            [cross.real, cross.imag, (abs(a) ** 2 - abs(b) ** 2) / 2], axis=-1
        )

    p, q = M.project(RNG.standard_normal((2, 100, 3, 2)))
    angle = np.arccos(np.clip(4 * np.sum(hopf(p) * hopf(q), axis=-1), -1, 1)) / 2
    np.testing.assert_allclose(M.dist(p, q), angle, atol=1e-7)


@pytest.mark.parametrize("k", [3, 5])
def test_curvature_from_small_triangles(k):
    """Law of cosines to fourth order: d² = |tu − tv|² − K t⁴/3 for orthonormal u, v; and K = 1 + 3⟨u, iv⟩²."""
    M = KendallShapes(k)
    p = M.project(RNG.standard_normal((k, 2)))
    u = unit_tangents(RNG, M, p, 200)
    v = unit_tangents(RNG, M, p, 200)
    v = v - M.inner(p, u, v)[:, None, None] * u
    v = v / M.norm(p, v)[:, None, None]
    t = 0.01
    K = 3 * (2 * t**2 - M.dist(M.exp(p, t * u), M.exp(p, t * v)) ** 2) / t**4
    turned = np.stack([-v[..., 1], v[..., 0]], axis=-1)
    np.testing.assert_allclose(K, 1 + 3 * M.inner(p, u, turned) ** 2, atol=5e-3)
    low, high = M.curvature_bounds
    assert np.all((low - 5e-3 <= K) & (high + 5e-3 >= K))


def test_distance_at_most_the_injectivity_radius_and_log_at_the_cut_locus():
    M = KendallShapes(4)
    p = M.project(RNG.standard_normal((4, 2)))
    q = M.exp(p, M.injectivity_radius * unit_tangents(RNG, M, p, 1)[0])
    assert M.dist(p, q) == pytest.approx(math.pi / 2, abs=1e-15)
    assert M.dist(M.exp(p, M.log(p, q)), q) < 1e-14


@pytest.mark.parametrize("k", [2, 0, -1, math.nan, 3.0, True, "3"])
def test_bad_sizes(k):
    with pytest.raises(ParameterError):
        KendallShapes(k)


def test_distance_to_what_is_not_finite_is_not_zero():
    M = KendallShapes(4)
    assert np.isnan(M.dist(M.origin, np.full(M.point_shape, np.nan)))
