"""Projection onto a public ball: always inside, along the geodesic, and silent."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Correlation,
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
    Stiefel,
    project_to_ball,
)
from curvedp.geometry.ball import ball_coordinates
from curvedp.mechanisms import LogGaussianMechanism
from curvedp.privacy import GDP
from support import spaces

SPACES = [
    M for M in spaces.SPACES if not isinstance(M, SPDBuresWasserstein)
]  # there no ball is claimed to be convex


def draw(M, rng, n, scale):
    z = rng.normal(size=(n, M.dim))
    z *= (
        scale
        * rng.uniform(0, 1, size=(n, 1))
        / np.linalg.norm(z, axis=-1, keepdims=True)
    )
    return M.exp(M.origin, M.from_coordinates(M.origin, z))


@pytest.mark.parametrize("M", SPACES, ids=repr)
@pytest.mark.parametrize("radius", [1e-3, 0.3])
def test_inside_stays_and_outside_moves_along_its_geodesic(M, radius):
    rng = np.random.default_rng(0)
    center = draw(M, rng, 1, 0.3)[0]
    X = draw(M, rng, 60, min(1.2, 0.7 * M.injectivity_radius))
    X[:4] = M.exp(
        center,
        M.from_coordinates(center, radius * 1.005 * np.eye(M.dim)[[0, -1, 0, -1]]),
    )  # just outside
    Y = project_to_ball(M, center, radius, X)
    before, after = M.dist(center, X), M.dist(center, Y)
    assert np.all(after <= radius)
    inside = before <= radius
    assert np.all(M.dist(X[inside], Y[inside]) < 1e-13)
    far = ~inside
    assert np.any(far)
    np.testing.assert_allclose(after[far], radius, rtol=1e-10)
    # on the geodesic: the two distances add up
    np.testing.assert_allclose(after[far] + M.dist(Y, X)[far], before[far], rtol=1e-9)
    assert np.max(M.residual(Y)) < 1e-12
    np.testing.assert_allclose(
        project_to_ball(M, center, radius, Y), Y, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_bad_records_become_the_center_silently(M):
    """Warnings are errors in this suite, so a record that warns fails here."""
    rng = np.random.default_rng(1)
    center = draw(M, rng, 1, 0.3)[0]
    size = math.prod(M.point_shape)
    rows = [
        np.full(size, value)
        for value in (np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, 1e-320, -1.0)
    ]
    rows += [rng.normal(size=size) * 10.0**k for k in (-300, -10, 3, 100, 300)]
    one_bad = draw(M, rng, 1, 0.3)[0].reshape(-1).copy()
    one_bad[-1] = np.nan
    X = np.stack([*rows, one_bad]).reshape(-1, *M.point_shape)
    Y = project_to_ball(M, center, 0.4, X)
    assert np.all(np.isfinite(Y))
    assert np.all(M.dist(center, Y) <= 0.4)
    for i in (0, 1, 2, -1):
        np.testing.assert_array_equal(Y[i], center)


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_each_record_is_mapped_independently_of_the_others(M):
    rng = np.random.default_rng(2)
    center = draw(M, rng, 1, 0.3)[0]
    X = draw(M, rng, 12, 0.9)
    X[3] = np.nan
    whole = project_to_ball(M, center, 0.2, X.reshape(3, 4, *M.point_shape)).reshape(
        X.shape
    )
    for i in range(12):
        np.testing.assert_allclose(
            project_to_ball(M, center, 0.2, X[i]), whole[i], rtol=0, atol=1e-14
        )


# ---- the chart of the ball, for statistics anywhere ------------------------------------------------------------------------

CHARTED = [
    Sphere(2),
    Sphere(1),
    Rotations(3),
    Rotations(4),
    Rotations(2),
    Grassmann(4, 2),
    Grassmann(3, 1),
]
CHARTED += [
    KendallShapes(4),
    KendallShapes(3),
    Stiefel(3, 2),
    Product(Sphere(1), Sphere(1)),
    Euclidean(2),
]
CHARTED += [
    Product(Sphere(2), Euclidean(1)),
    Lorentz(2),
    SPDAffineInvariant(2),
    Product(Sphere(2), Lorentz(2)),
]


def stretch(M, radius):
    """ρ/sn(ρ), as the mechanisms charge it."""
    s = radius * math.sqrt(max(M.curvature_bounds[1], 0.0))
    return s / math.sin(s) if s > 0 else 1.0


def close_pairs(M, rng, n, step):
    """Pairs at most a step apart: anywhere, and most of them about the cut locus, where log jumps."""
    far = min(M.injectivity_radius, 6.0)
    z = rng.normal(size=(n, M.dim))
    reach = np.where(
        np.arange(n) % 3 > 0,
        far + step * rng.uniform(-2, 2, n),
        far * 1.3 * rng.uniform(0, 1, n),
    )
    a = M.from_normal_coordinates(
        M.origin, z * (reach / np.linalg.norm(z, axis=-1))[:, None]
    )
    y = rng.normal(size=(n, M.dim))
    across = np.where(np.arange(n)[:, None] % 2, y, -z)  # anywhere, or straight over it
    return a, M.from_normal_coordinates(
        a, step * across / np.linalg.norm(across, axis=-1, keepdims=True)
    )


@pytest.mark.parametrize("M", CHARTED, ids=repr)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_chart_of_the_ball_stretches_nowhere_more_than_the_ball(M, share):
    rng = np.random.default_rng(5)
    radius = share * min(M.convexity_radius, 2.0)
    for step in (1e-3, 1e-2, 0.1):
        a, b = close_pairs(M, rng, 30 if isinstance(M, Stiefel) else 3000, step)
        moved = np.linalg.norm(
            ball_coordinates(M, M.origin, radius, a)
            - ball_coordinates(M, M.origin, radius, b),
            axis=-1,
        )
        assert np.max(moved) <= stretch(M, radius) * step * (1 + 1e-9) + 1e-12


def test_shortening_alone_would_break_the_lipschitz_bound():
    """The control, and the attack that found it: claimed μ = 1, actual 168 (two points of S² by the antipode)."""
    M, e = Sphere(2), 0.005
    a, b = np.array(
        [[-math.cos(e), math.sin(e), 0.0], [-math.cos(e), -math.sin(e), 0.0]]
    )
    mechanism = LogGaussianMechanism.calibrated(
        M, 0.01, GDP(1.0), base=M.origin, radius=1.0
    )
    z = M.normal_coordinates(M.origin, np.stack([a, b]))
    short = z / np.linalg.norm(z, axis=-1, keepdims=True)
    assert np.linalg.norm(short[0] - short[1]) / mechanism.scale > 160
    kept = ball_coordinates(M, M.origin, 1.0, np.stack([a, b]))
    assert np.linalg.norm(kept[0] - kept[1]) / mechanism.scale <= 1


HELD = [
    SPDAffineInvariant(2),
    SPDAffineInvariant(3),
    Lorentz(3),
    Product(SPDAffineInvariant(2), Lorentz(2)),
]


@pytest.mark.parametrize("M", [*HELD, Correlation(3), HPDAffineInvariant(2)], ids=repr)
def test_projection_onto_the_float_set_is_nonexpansive(M):
    rng = np.random.default_rng(8)
    z = rng.normal(size=(20_000, M.dim)) * rng.uniform(1, 60, size=(20_000, 1))
    step = rng.normal(size=z.shape) * 10.0 ** rng.uniform(-4, 1, size=(20_000, 1))
    held, other = M.float_set.project(z), M.float_set.project(z + step)
    assert (
        np.max(np.linalg.norm(held - other, axis=-1) / np.linalg.norm(step, axis=-1))
        <= 1 + 1e-9
    )
    assert np.min(M.float_set.shrink_factor(held)) >= 1 - 1e-12
    assert np.all(
        np.linalg.norm(held, axis=-1) <= np.linalg.norm(z, axis=-1) * (1 + 1e-12)
    )
    inside = M.float_set.shrink_factor(z) == 1
    np.testing.assert_allclose(held[inside], z[inside], rtol=0, atol=1e-12)


@pytest.mark.parametrize("M", [HELD[0], HELD[1], HELD[3]], ids=repr)
def test_one_common_shrink_factor_would_stretch_other_coordinates(M):
    """The control: by up to the radius over the spread."""
    rng = np.random.default_rng(9)
    z = rng.normal(size=(20_000, M.dim)) * rng.uniform(1, 60, size=(20_000, 1))
    step = 1e-4 * rng.normal(size=z.shape)
    moved = [x * M.float_set.shrink_factor(x)[:, None] for x in (z, z + step)]
    assert (
        np.max(
            np.linalg.norm(moved[0] - moved[1], axis=-1) / np.linalg.norm(step, axis=-1)
        )
        > 1.3
    )


@pytest.mark.parametrize("M", CHARTED, ids=repr)
def test_in_the_ball_the_chart_is_log(M):
    radius = 0.9 * min(M.convexity_radius, 2.0)
    X = draw(M, np.random.default_rng(6), 40, radius)
    np.testing.assert_allclose(
        ball_coordinates(M, M.origin, radius, X),
        M.normal_coordinates(M.origin, X),
        rtol=0,
        atol=1e-13,
    )


def test_sphere_far_side_and_antipode():
    M = Sphere(2)
    center = M.origin
    Y = project_to_ball(
        M, center, 0.5, np.array([[-1, 0, 0], [-1, 0, 0], [0, 0, 1], [2, 0, 0]])
    )
    np.testing.assert_array_equal(Y[0], Y[1])
    np.testing.assert_allclose(M.dist(center, Y[:3]), 0.5, rtol=1e-15)
    np.testing.assert_allclose(Y[2], [np.cos(0.5), 0, np.sin(0.5)], atol=1e-15)
    np.testing.assert_array_equal(Y[3], center)  # its direction is the center's


def test_far_out_in_hyperbolic_space_the_guarantee_holds():
    M = Lorentz(2)
    rng = np.random.default_rng(3)
    for depth in (5.0, 15.0, 30.0):
        center = M.exp(
            M.origin, M.from_coordinates(M.origin, depth * np.array([0.6, 0.8]))
        )
        X = M.exp(center, M.from_coordinates(center, rng.normal(size=(200, 2)) * 5))
        assert np.all(M.dist(center, project_to_ball(M, center, 0.1, X)) <= 0.1)


def test_other_libraries_and_lists():
    np.testing.assert_allclose(
        project_to_ball(Euclidean(2), [0, 0], 1, [[3, 4]]), [[0.6, 0.8]]
    )
    strict = pytest.importorskip("array_api_strict")
    X = strict.asarray([[3.0, 4.0], [float("nan"), 0.0]])
    Y = project_to_ball(Euclidean(2), strict.asarray([0.0, 0.0]), 1.0, X)
    np.testing.assert_allclose(np.asarray(Y), [[0.6, 0.8], [0, 0]])
    elsewhere = strict.Device("device1")  # the center follows the records
    Y = project_to_ball(
        Sphere(1),
        np.array([1.0, 0.0]),
        1.0,
        strict.asarray([[0.0, 1.0]], device=elsewhere),
    )
    assert Y.device == elsewhere


@pytest.mark.parametrize("radius", [0, -1, math.nan, math.inf, "1", True, None])
def test_the_radius_is_checked(radius):
    with pytest.raises(ParameterError, match="radius="):
        project_to_ball(Sphere(2), Sphere(2).origin, radius, np.eye(3))


def test_shapes_dtypes_and_the_center_are_checked():
    M = Sphere(2)
    with pytest.raises(ParameterError, match=r"shape \(4, 2\)"):
        project_to_ball(M, M.origin, 1.0, np.zeros((4, 2)))
    with pytest.raises(ParameterError, match="real numbers"):
        project_to_ball(M, M.origin, 1.0, np.array([["a", "b", "c"]]))
    for center in ([2.0, 0, 0], [np.nan, 0, 0], np.eye(3)):
        with pytest.raises(ParameterError, match="one point of"):
            project_to_ball(M, np.array(center), 1.0, np.eye(3))
