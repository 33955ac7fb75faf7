"""Curvature, injectivity and Taylor slopes of every manifold, against distances alone."""

import math

import numpy as np
import pytest

from curvedp.geometry import (
    CorrelationOffLog,
    Grassmann,
    KendallShapes,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.testing import sectional_curvatures
from support.spaces import EDGES, SPACES, reach, sample

every = pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)


@pytest.fixture
def rng():
    return np.random.default_rng(2026)


# ---- Taylor slopes and curvature ---------------------------------------------------------------------------------------


DIFFERENCE_STEP = 1e-2
"""Step h of the difference quotients of the Hessian; the smaller one of two."""

KERNEL_ROUNDOFF = 32 * 2.0**-53
"""Rounding error of a value computed here: at most eight calls of kernels, on points
and vectors of lengths up to 1, each good to m·2^−53 with at most m = 4 rows."""


def slope(t, error):
    """Order of decay, by least squares in log-log."""
    return np.polyfit(np.log(t), np.log(error), 1)[0]


def points_of_the_slope_test(M, rng):
    """Return a point p, a point q as far from p as from the origin, a velocity at p."""
    s = sample(M, rng, 1)
    p, v = s["p"][0], s["v"][0]
    q = M.from_normal_coordinates(p, M.normal_coordinates(M.origin, s["q"][0]))
    return p, q, v * (reach(M) / 2 / M.norm(p, v))


def hessian_of_the_squared_distance(M, p, q, v):
    """Return <∇_v(−log q), v> at p by differences along the geodesic of v.

    Richardson's extrapolation from the steps h and 2h leaves a truncation error of
    order h⁴. On a flat space there is none.
    """

    def slope_at(time):
        """Return the derivative of ½d²(·, q) along the geodesic at a time."""
        end = M.exp(p, time * v)
        velocity = M.log(end, M.exp(p, 2 * time * v)) / time  # it is parallel
        return -M.inner(end, velocity, M.log(end, q))

    def central_difference(h):
        return (slope_at(h) - slope_at(-h)) / (2 * h)

    h = DIFFERENCE_STEP
    return (4 * central_difference(h) - central_difference(2 * h)) / 3


def second_order_rounding(t):
    """Return the rounding error of the second-order remainder at the times t.

    The velocity is a difference over h, and the Hessian is a difference of such values
    over 2h: an error ε of a kernel becomes ε/h², and (4 + 1/4)/3 = 17/12 times that
    after extrapolation. The remainder multiplies it by t²/2, so this error has slope 2,
    as a wrong Hessian has. It must therefore be bounded, not recognized by its slope.
    """
    hessian_rounding = 17 / 12 * KERNEL_ROUNDOFF / DIFFERENCE_STEP**2
    return KERNEL_ROUNDOFF + t**2 / 2 * hessian_rounding


@every
def test_slopes_of_the_squared_distance(M, rng):
    """½d² has gradient -log (slope 2) and a Hessian made of Jacobi fields (slope 3).

    A remainder that is no more than rounding has no slope; it is bounded instead.
    """
    p, q, v = points_of_the_slope_test(M, rng)

    def f(t):
        velocity = np.reshape(t, np.shape(t) + (1,) * p.ndim) * v
        return M.dist(M.exp(p, velocity), q) ** 2 / 2

    t = np.geomspace(0.02, 0.2, 8)
    first = f(t) - f(0.0) + t * M.inner(p, v, M.log(p, q))
    assert slope(t, np.abs(first)) > 1.9

    hessian = hessian_of_the_squared_distance(M, p, q, v)
    second = np.abs(first - t**2 / 2 * hessian)
    assert np.all(second < second_order_rounding(t)) or slope(t, second) > 2.8


def with_distances_of_curvature(M, kappa, rng):
    """Return the flat space M with distances that belong to curvature kappa.

    In normal coordinates x, y at the point p of the slope test they are

        d²(x, y) = |x − y|² − κ/3·(|x|²|y|² − ⟨x, y⟩²),

    the expansion to fourth order. The gradient of ½d²(·, q) at p is still −log q; only
    its Hessian is wrong, by κ/3·(|v|²|q|² − ⟨v, q⟩²).
    """
    p, _, _ = points_of_the_slope_test(M, rng)

    class WrongDistances(type(M)):
        kind = None

        def dist(self, x, y):
            x = self.normal_coordinates(p, x)
            y = self.normal_coordinates(p, y)
            square = np.sum((x - y) ** 2, axis=-1)
            inner = np.sum(x * y, axis=-1)
            area = np.sum(x * x, axis=-1) * np.sum(y * y, axis=-1) - inner**2
            return np.sqrt(square - kappa / 3 * area)

    return WrongDistances(M.m)


@pytest.mark.parametrize("M", [CorrelationOffLog(4), SPDLogEuclidean(3)], ids=repr)
@pytest.mark.parametrize("kappa", [1.0, -1e-2, 1e-6])
def test_a_wrong_curvature_fails_the_slopes(M, kappa):
    flat = with_distances_of_curvature(M, 0.0, np.random.default_rng(2026))
    test_slopes_of_the_squared_distance(flat, np.random.default_rng(2026))

    wrong = with_distances_of_curvature(M, kappa, np.random.default_rng(2026))
    with pytest.raises(AssertionError):
        test_slopes_of_the_squared_distance(wrong, np.random.default_rng(2026))


def curvature_of(M, p, pair):
    """Sectional curvature of planes given by orthonormal pairs of coordinate vectors, shape (n, dim, 2)."""
    return sectional_curvatures(M, p, pair, 0.04 * reach(M))


def axis_planes(M):
    i, j = np.triu_indices(M.dim, 1)
    return np.stack([np.eye(M.dim)[i], np.eye(M.dim)[j]], axis=-1)


CURVED = [M for M in SPACES + EDGES if M.dim > 1]


@pytest.mark.parametrize("M", CURVED, ids=repr)
def test_curvatures_lie_within_the_bounds(M, rng):
    low, high = M.curvature_bounds
    p = sample(M, rng, 1)["p"][0]
    random = np.linalg.qr(rng.normal(size=(40, M.dim, 2)))[0]
    values = curvature_of(M, p, np.concatenate([axis_planes(M), random]))
    assert np.min(values) >= low - 1e-4
    assert np.max(values) <= high + 1e-4


# Climbing over planes costs minutes on Stiefel, whose log is iterative; Bures-Wasserstein's bounds hold over all points.
CLIMBED = [
    SPDAffineInvariant(3),
    Grassmann(5, 2),
    Rotations(4),
    KendallShapes(5),
    SPACES[-1],
]


@pytest.mark.parametrize("M", CLIMBED, ids=repr)
@pytest.mark.parametrize("sign", [1, -1])
def test_curvature_bounds_are_sharp_and_not_passed_by_climbing(M, rng, sign):
    p = sample(M, rng, 1)["p"][0]
    pair = axis_planes(M)
    value = sign * curvature_of(M, p, pair)
    top = np.argsort(value)[-12:]
    pair, value = pair[top], value[top]
    for step in np.geomspace(0.7, 0.005, 60):
        trial = np.linalg.qr(pair + step * rng.normal(size=pair.shape))[0]
        new = sign * curvature_of(M, p, trial)
        better = new > value
        pair, value = (
            np.where(better[:, None, None], trial, pair),
            np.where(better, new, value),
        )
    extreme, bound = sign * np.max(value), M.curvature_bounds[sign == 1]
    assert sign * (extreme - bound) <= 2e-4
    assert abs(extreme - bound) < 0.02


def scalar_curvature(M, p):
    return 2 * np.sum(curvature_of(M, p, axis_planes(M)))


@pytest.mark.parametrize("M", CURVED, ids=repr)
def test_homogeneous_spaces_look_the_same_everywhere(M, rng):
    """Isometries carry the scalar curvature along, so it is constant on a homogeneous space."""
    values = np.array([scalar_curvature(M, p) for p in sample(M, rng, 3)["q"]])
    spread = np.ptp(values)
    if M.is_homogeneous or isinstance(
        M, Simplex
    ):  # which has a boundary, and constant curvature inside
        assert spread < 1e-3
    else:
        assert spread > 1e-2, "claimed inhomogeneous but looks the same everywhere"


@every
def test_injectivity_radius(M, rng):
    radius = M.injectivity_radius
    if radius == 0 or isinstance(M, Simplex):
        return  # no radius is claimed; that of the simplex is the whole sphere's
    p = sample(M, rng, 1)["p"][0]
    z = rng.normal(size=(30, M.dim))
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    z = np.concatenate([z, np.eye(M.dim)])
    inside = 0.999 * radius if math.isfinite(radius) else 5.0
    q = M.exp(p, M.from_coordinates(p, inside * z))
    np.testing.assert_allclose(M.dist(p, q), inside, rtol=1e-9)
    np.testing.assert_allclose(
        M.to_coordinates(p, M.log(p, q)), inside * z, rtol=0, atol=1e-7
    )
    if math.isfinite(radius):  # sharp: beyond it, some direction has a shorter way
        beyond = M.dist(p, M.exp(p, M.from_coordinates(p, 1.01 * radius * z)))
        assert np.min(beyond) < 1.005 * radius


# ---- the suite can fail ----------------------------------------------------------------------------------------------------


class _WrongCurvature(Sphere):
    @property
    def curvature_bounds(self):
        return (0.0, 0.9)


class _WrongInjectivity(Sphere):
    @property
    def injectivity_radius(self):
        return 1.2 * math.pi


@pytest.mark.parametrize(
    ("M", "check"),
    [
        (_WrongCurvature(3), test_curvatures_lie_within_the_bounds),
        (_WrongInjectivity(3), test_injectivity_radius),
    ],
    ids=lambda x: type(x).__name__ if hasattr(x, "dim") else "",
)
def test_wrong_spaces_are_caught(M, check, rng):
    with pytest.raises(AssertionError):
        check(M, rng)
