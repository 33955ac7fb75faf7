"""Rotations: angles to 50 digits from 1e-15 to π, planes that turn by π, numerical curvature."""

import math

import mpmath
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Rotations
from support.geometry import unit_tangents

RNG = np.random.default_rng(20240503)


def block_rotation(angles, n):
    """Rotations by the angles in coordinate planes, exact to one rounding."""
    R = np.eye(n)
    for j, a in enumerate(angles):
        R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [
            [math.cos(a), -math.sin(a)],
            [math.sin(a), math.cos(a)],
        ]
    return R


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize(
    "angle", [1e-150, 1e-15, 1e-8, 0.5, 3.0, math.pi - 1e-7, math.pi - 1e-13, math.pi]
)
def test_one_plane_at_every_angle(n, angle):
    M = Rotations(n)
    R = block_rotation([angle], n)
    assert float(M.dist(M.origin, R)) == pytest.approx(angle, rel=1e-14, abs=0)
    v = M.log(M.origin, R)
    expected = np.zeros((n, n))
    expected[1, 0], expected[0, 1] = angle, -angle
    sign = np.sign(v[1, 0])
    assert sign == 1 or angle == math.pi
    np.testing.assert_allclose(
        v, sign * expected, rtol=1e-12, atol=1e-14 * min(angle, 1)
    )


@pytest.mark.parametrize("n", [3, 4, 6])
@pytest.mark.parametrize("length", [1e-8, 0.5, 2.0, 3.0, math.pi - 1e-9])
def test_exp_against_50_digits_and_log_back(n, length):
    M = Rotations(n)
    p = M.project(RNG.standard_normal((n, n)))
    v = length * unit_tangents(RNG, M, p, 1)[0]
    q = M.exp(p, v)
    with mpmath.workdps(50):
        P, V = mpmath.matrix(p.tolist()), mpmath.matrix(v.tolist())
        omega = P.T * V
        exact = P * mpmath.expm((omega - omega.T) / 2, method="taylor")
        change = np.array((exact - P).tolist(), dtype=float)
    np.testing.assert_allclose(q - p, change, rtol=0, atol=2e-15)
    np.testing.assert_allclose(M.log(p, q), v, rtol=0, atol=1e-12)
    assert float(M.dist(p, q)) == pytest.approx(length, rel=1e-12, abs=3e-15)


@pytest.mark.parametrize(
    "angles",
    [
        (math.pi, math.pi),
        (math.pi, 1.0),
        (math.pi, 1.0, math.pi),
        (2.0, 2.0),
        (3.0, 1e-9),
    ],
)
def test_logarithms_of_half_turns_and_of_equal_angles(angles):
    n = 2 * len(angles) + 1
    M = Rotations(n)
    frame = M.project(RNG.standard_normal((n, n)))
    R = frame @ block_rotation(angles, n) @ frame.T
    v = M.log(M.origin, R)
    assert M.norm(M.origin, v) == pytest.approx(math.hypot(*angles), rel=1e-12)
    np.testing.assert_allclose(M.exp(M.origin, v), R, atol=1e-11)


def test_distance_on_so3_is_the_quaternion_angle():
    M = Rotations(3)
    p, q = M.project(RNG.standard_normal((2, 200, 3, 3)))
    cosine = (np.trace(p.mT @ q, axis1=-2, axis2=-1) - 1) / 2
    np.testing.assert_allclose(
        M.dist(p, q), np.arccos(np.clip(cosine, -1, 1)), atol=1e-7
    )


def test_project_is_the_nearest_rotation():
    M = Rotations(3)
    x = RNG.standard_normal((50, 3, 3))
    nearest = M.project(x)
    assert np.max(M.residual(nearest)) < 1e-13
    for angle in np.logspace(-3, 0, 4):
        others = M.exp(nearest, angle * unit_tangents(RNG, M, nearest, 50))
        assert np.all(
            np.linalg.norm(x - nearest, axis=(-2, -1))
            <= np.linalg.norm(x - others, axis=(-2, -1)) + 1e-12
        )


def test_parallel_transport_of_the_group():
    """Half of left, half of right translation: transporting there and back through a loop turns by the curvature."""
    M = Rotations(3)
    u, v, w = M.from_coordinates(M.origin, np.eye(3))
    t = 1e-3
    a, b = M.exp(M.origin, t * u), M.exp(M.origin, t * v)
    loop = M.transport(b, M.origin, M.transport(a, b, M.transport(M.origin, a, u)))
    # Holonomy of a geodesic triangle of area t²/2 in a space of curvature ¼: rotation by t²/8 in the plane of u, v.
    assert abs(M.inner(M.origin, loop, v)) == pytest.approx(t**2 / 8, rel=1e-3)
    assert abs(M.inner(M.origin, loop, w)) < 1e-9


@pytest.mark.parametrize("n", [3, 4, 5])
def test_curvature_from_small_triangles(n):
    """d² = |tu − tv|² − K t⁴/3 for orthonormal u, v, against the bounds and K = ¼‖[u, v]‖²."""
    M = Rotations(n)
    p = M.origin
    u, v = unit_tangents(RNG, M, p, 300), unit_tangents(RNG, M, p, 300)
    v = v - M.inner(p, u, v)[:, None, None] * u
    v = v / M.norm(p, v)[:, None, None]
    t = 0.02
    K = 3 * (2 * t**2 - M.dist(M.exp(p, t * u), M.exp(p, t * v)) ** 2) / t**4
    low, high = M.curvature_bounds
    assert np.all((low - 2e-3 <= K) & (high + 2e-3 >= K))
    np.testing.assert_allclose(K, M.norm(p, u @ v - v @ u) ** 2 / 4, atol=2e-3)


def test_curvature_one_half_is_attained_on_so4():
    i = np.array(
        [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]
    ) / math.sqrt(2)
    j = np.array(
        [[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]]
    ) / math.sqrt(2)
    M = Rotations(4)
    assert M.norm(M.origin, i @ j - j @ i) ** 2 / 4 == pytest.approx(
        M.curvature_bounds[1]
    )


def test_long_velocities_stay_on_the_manifold():
    for n in (2, 3, 5):
        M = Rotations(n)
        assert (
            M.residual(M.exp(M.origin, 1e6 * unit_tangents(RNG, M, M.origin, 1)[0]))
            < 1e-13
        )


@pytest.mark.parametrize("n", [1, 0, -3, math.nan, 3.0, True])
def test_bad_sizes(n):
    with pytest.raises(ParameterError):
        Rotations(n)


def test_distance_to_what_is_not_finite_is_not_zero():
    M = Rotations(4)
    assert np.isnan(M.dist(M.origin, np.full(M.point_shape, np.nan)))
