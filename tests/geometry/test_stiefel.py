"""Stiefel manifold: the geodesic equation to 50 digits, log up to the injectivity radius, numerical curvature."""

import math

import mpmath
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Rotations, Sphere, Stiefel
from support.geometry import unit_tangents

RNG = np.random.default_rng(20240504)
SIZES = [(3, 2), (4, 2), (5, 4), (7, 3)]


def exact_change(p, v):
    """exp(p, v) − p by Edelman, Arias & Smith 1998, eq. (2.7), which is not how the library computes it; 50 digits."""
    with mpmath.workdps(50):
        P, V = mpmath.matrix(p.tolist()), mpmath.matrix(v.tolist())
        r = P.cols
        A = P.T * V
        A = (A - A.T) / 2
        V = P * A + V - P * (P.T * V)
        S = V.T * V
        M = mpmath.zeros(2 * r)
        for i in range(r):
            M[i + r, i] = 1
            for j in range(r):
                M[i, j] = M[i + r, j + r] = A[i, j]
                M[i, j + r] = -S[i, j]
        E = mpmath.expm(M, method="taylor")
        left = P * E[:r, :r] + V * E[r:, :r]
        return np.array(
            (left * mpmath.expm(-A, method="taylor") - P).tolist(), dtype=float
        )


def exp_rounding_bound(m, r, length):
    """Bound the rounding error of an entry of exp(p, v) − p for |v| = length.

    With s = min(2r, m) columns in the frame [p Q] and v = pA + QB, three sources add
    up:

    - p + change and its difference from p are rounded: eps for entries up to 1.
    - The eigen-system that LAPACK returns for a skew W of size s is exact for a matrix
      within s·eps·‖W‖ of it, and exp is 1-Lipschitz on skew matrices. Here W is first
      [2A −Bᵀ; B 0] and then A, whose norms are at most √3·length and length/√2,
      together less than 2.5·length.
    - Four products of matrices of norm 1 with the change, which has norm at most
      min(length, 2), err by s·eps/2 of it each.

    The largest error of 216 random trials on one machine was 0.42 of the bound.
    """
    eps = np.finfo(float).eps
    s = min(2 * r, m)
    return eps * (1 + s * (2.5 * length + 2 * min(length, 2.0)))


@pytest.mark.parametrize(("m", "r"), [*SIZES, (3, 1), (3, 3)])
@pytest.mark.parametrize("length", [1e-8, 0.5, 3.0])
def test_exp_against_50_digits(m, r, length):
    M = Stiefel(m, r)
    p = M.project(RNG.standard_normal((m, r)))
    v = length * unit_tangents(RNG, M, p, 1)[0]
    np.testing.assert_allclose(
        M.exp(p, v) - p,
        exact_change(p, v),
        rtol=0,
        atol=exp_rounding_bound(m, r, length),
    )


@pytest.mark.parametrize(("m", "r"), SIZES)
def test_small_velocities_at_the_origin_keep_their_digits(m, r):
    M = Stiefel(m, r)
    v = 1e-15 * unit_tangents(RNG, M, M.origin, 1)[0]
    v = np.where(M.origin == 1, 0.0, v)
    q = M.exp(M.origin, v)
    off = M.origin != 1
    np.testing.assert_allclose(q[off], v[off], rtol=0, atol=1e-14 * 1e-15)
    np.testing.assert_allclose(M.log(M.origin, q), v, rtol=1e-13, atol=1e-29)
    assert float(M.dist(M.origin, q)) == pytest.approx(
        float(M.norm(M.origin, v)), rel=1e-13, abs=0
    )


@pytest.mark.parametrize(("m", "r"), [*SIZES, (12, 6)])
@pytest.mark.parametrize("share", [1e-5, 0.3, 0.6, 0.9, 0.97])
def test_log_inverts_exp_inside_the_injectivity_radius(m, r, share):
    M = Stiefel(m, r)
    count = 30 if r < 5 else 5
    p = M.project(RNG.standard_normal((count, m, r)))
    v = share * M.injectivity_radius * unit_tangents(RNG, M, p, count)
    q = M.exp(p, v)
    np.testing.assert_allclose(M.log(p, q), v, rtol=0, atol=1e-12)
    np.testing.assert_allclose(M.dist(p, q), share * math.pi, rtol=1e-10)
    np.testing.assert_allclose(M.transport(p, q, v), -M.log(q, p), rtol=0, atol=1e-11)


def test_exp_and_log_of_velocities_of_low_rank():
    """Directions that N lacks, where the frame of the problem has to be completed."""
    M = Stiefel(6, 3)
    p = M.project(RNG.standard_normal((20, 6, 3)))
    block = RNG.standard_normal((20, 3, 1)) * RNG.standard_normal((20, 1, 3))
    z = np.concatenate([RNG.standard_normal((20, 3)), block.reshape(20, 9)], axis=-1)
    v = 2.8 * M.from_coordinates(p, z / np.linalg.norm(z, axis=-1, keepdims=True))
    np.testing.assert_allclose(M.log(p, M.exp(p, v)), v, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "spread", [(1.0, 0.03), (0.03, 1.0)], ids=["inside the span", "out of it"]
)
def test_far_points_in_directions_where_one_start_alone_fails(spread):
    """Next to π the chord may lead to a longer geodesic, or to none."""
    M = Stiefel(4, 2)
    p = M.project(RNG.standard_normal((200, 4, 2)))
    z = RNG.standard_normal((200, 5)) * np.repeat(spread, [1, 4])
    v = (
        0.96
        * math.pi
        * M.from_coordinates(p, z / np.linalg.norm(z, axis=-1, keepdims=True))
    )
    np.testing.assert_allclose(M.log(p, M.exp(p, v)), v, rtol=0, atol=1e-11)


def test_random_frames_of_many_columns_are_joined_too():
    """Far beyond π, where steps of Newton's method by inexact linear solves do not arrive."""
    M = Stiefel(14, 7)
    p, q = M.project(RNG.standard_normal((2, 3, 14, 7)))
    np.testing.assert_allclose(M.exp(p, M.log(p, q)), q, atol=1e-12)


def test_random_frames_are_joined_by_geodesics_and_obey_the_triangle_inequality():
    M = Stiefel(5, 2)
    p, q, o = M.project(RNG.standard_normal((3, 100, 5, 2)))
    np.testing.assert_allclose(M.exp(p, M.log(p, q)), q, atol=1e-12)
    np.testing.assert_allclose(M.dist(p, q), M.dist(q, p), rtol=1e-10)
    assert np.all(M.dist(p, q) <= M.dist(p, o) + M.dist(o, q) + 1e-10)


def test_a_reversed_column_is_not_at_distance_zero():
    """The chord from p to such a point is normal: it leads nowhere."""
    M = Stiefel(4, 2)
    assert M.dist(M.origin, M.origin * np.array([-1.0, 1.0])) == pytest.approx(
        math.pi, rel=1e-9
    )
    sphere = Stiefel(4, 1)
    assert sphere.dist(sphere.origin, -sphere.origin) == pytest.approx(math.pi)


def test_one_column_is_the_sphere():
    M, S = Stiefel(4, 1), Sphere(3)
    p, q = M.project(RNG.standard_normal((2, 50, 4, 1)))
    v = M.from_coordinates(p, RNG.standard_normal((50, 3)))
    np.testing.assert_allclose(M.dist(p, q), S.dist(p[..., 0], q[..., 0]), rtol=1e-13)
    np.testing.assert_allclose(
        M.exp(p, v)[..., 0], S.exp(p[..., 0], v[..., 0]), atol=1e-14
    )
    np.testing.assert_allclose(
        M.transport(p, q, v)[..., 0],
        S.transport(p[..., 0], q[..., 0], v[..., 0]),
        atol=1e-12,
    )


def test_square_frames_are_the_orthogonal_group():
    M, R = Stiefel(3, 3), Rotations(3)
    p, q = R.project(RNG.standard_normal((2, 50, 3, 3)))
    np.testing.assert_allclose(M.dist(p, q), math.sqrt(2) * R.dist(p, q), rtol=1e-13)
    flip = np.diag([1.0, 1.0, -1.0])
    np.testing.assert_allclose(M.dist(p @ flip, q @ flip), M.dist(p, q), rtol=1e-12)
    assert np.all(M.dist(p, q @ flip) == math.inf)
    assert np.all(np.isnan(M.log(p, q @ flip)))


@pytest.mark.parametrize(("m", "r"), [*SIZES, (3, 3), (4, 4)])
def test_curvature_from_small_triangles(m, r):
    """d² = |tu − tv|² − K t⁴/3 for orthonormal u, v, against the bounds and the Gauss equation."""
    M = Stiefel(m, r)
    p = np.broadcast_to(M.origin, (100, m, r))
    u, v = unit_tangents(RNG, M, p, 100), unit_tangents(RNG, M, p, 100)
    v = v - M.inner(p, u, v)[:, None, None] * u
    v = v / M.norm(p, v)[:, None, None]
    t = 0.02
    K = 3 * (2 * t**2 - M.dist(M.exp(p, t * u), M.exp(p, t * v)) ** 2) / t**4
    low, high = M.curvature_bounds
    assert np.all((low - 5e-3 <= K) & (high + 5e-3 >= K))
    cross = u.mT @ v
    cross = (cross + cross.mT) / 2
    gauss = np.sum((u.mT @ u) * (v.mT @ v), axis=(-2, -1)) - np.sum(
        cross**2, axis=(-2, -1)
    )
    np.testing.assert_allclose(K, gauss, atol=5e-3)


def test_curvature_bounds_are_attained():
    """K = tr(uᵀu vᵀv) − ‖sym uᵀv‖² (Gauss): 1 for two turns of one column, −½ for one turn of each of two columns."""
    u, v = np.zeros((2, 4, 2))
    u[2, 0], v[3, 0] = 1.0, 1.0
    assert np.sum((u.T @ u) * (v.T @ v)) - np.sum(((u.T @ v + v.T @ u) / 2) ** 2) == 1
    u, v = np.zeros((2, 4, 2))
    u[2, 0], v[2, 1] = 1.0, 1.0
    assert (
        np.sum((u.T @ u) * (v.T @ v)) - np.sum(((u.T @ v + v.T @ u) / 2) ** 2) == -0.5
    )


def test_transport_is_a_linear_isometry_and_the_nearest_frame_agrees_with_exp():
    M = Stiefel(5, 3)
    p = M.project(RNG.standard_normal((5, 3)))
    v = unit_tangents(RNG, M, p, 1)[0]
    q = M.exp(p, 2.5 * v)
    frame = M.to_coordinates(q, M.transport(p, q, M.from_coordinates(p, np.eye(M.dim))))
    np.testing.assert_allclose(frame @ frame.T, np.eye(M.dim), atol=1e-13)
    gaps = [
        np.linalg.norm(M.project(p + t * v) - M.exp(p, t * v)) for t in (1e-2, 5e-3)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize(
    ("m", "r"),
    [(2, 3), (3, 0), (1, 1), (math.nan, 1), (3, 1.0), (3, True), (-1, -2), ("3", 1)],
)
def test_bad_sizes(m, r):
    with pytest.raises(ParameterError):
        Stiefel(m, r)


def test_distance_to_what_is_not_finite_is_not_zero():
    M = Stiefel(4, 2)
    assert np.isnan(M.dist(M.origin, np.full(M.point_shape, np.nan)))


def test_krylov_steps_solve_the_logarithm_of_a_frame_to_itself():
    M = Stiefel(24, 12)
    points = M.from_normal_coordinates(M.origin, 0.02 * RNG.standard_normal((3, M.dim)))
    logs = M.log(points[0], points)
    assert not logs[0].any()
    np.testing.assert_allclose(M.exp(points[0], logs[1:]), points[1:], atol=1e-12)


@pytest.mark.parametrize(("m", "r"), [(3, 2), (5, 3), (6, 2)])
@pytest.mark.parametrize("far", [-1.0, np.nan])
def test_a_logarithm_does_not_depend_on_the_points_beside_it(m, r, far):
    # Beside a point that is far away, which takes further starts, near ones were given a start that was nearly theirs.
    M, rng = Stiefel(m, r), np.random.default_rng(m)
    for size in (1e-8, 1e-7, 1e-6, 1e-5, 1e-3, 0.5):
        p = np.asarray(M.project(rng.standard_normal((m, r))))
        points = np.asarray(
            M.exp(p, M.from_coordinates(p, size * rng.standard_normal((6, M.dim))))
        )
        points[3] = far * p
        with np.errstate(invalid="ignore"):
            alone = np.concatenate([np.asarray(M.log(p, q[None])) for q in points])
            np.testing.assert_array_equal(np.asarray(M.log(p, points)), alone)
