"""Curvature, injectivity and Taylor slopes of every manifold, against distances alone."""

import math

import numpy as np
import pytest

from curvedp.geometry import (
    Grassmann,
    KendallShapes,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.testing import sectional_curvatures
from spaces import EDGES, SPACES, reach, sample

every = pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)


@pytest.fixture
def rng():
    return np.random.default_rng(2026)


# ---- Taylor slopes and curvature ---------------------------------------------------------------------------------------


def slope(t, error):
    """Order of decay, by least squares in log-log."""
    return np.polyfit(np.log(t), np.log(error), 1)[0]


@every
def test_slopes_of_the_squared_distance(M, rng):
    """½d² has gradient -log (slope 2) and a Hessian made of Jacobi fields (slope 3)."""
    s = sample(M, rng, 1)
    p, v = s["p"][0], s["v"][0]
    q = M.from_normal_coordinates(
        p, M.normal_coordinates(M.origin, s["q"][0])
    )  # as far from p as from the origin
    v = v * (reach(M) / 2 / M.norm(p, v))

    def f(t):
        return (
            M.dist(M.exp(p, np.reshape(t, np.shape(t) + (1,) * p.ndim) * v), q) ** 2 / 2
        )

    t = np.geomspace(0.02, 0.2, 8)
    first = f(t) - f(0.0) + t * M.inner(p, v, M.log(p, q))
    assert slope(t, np.abs(first)) > 1.9

    def hessian(
        h,
    ):  # <∇_v(-log q), v>, along the geodesic itself, whose velocity is parallel
        ends = [(M.exp(p, x * v), x) for x in (h, -h)]
        values = []
        for end, x in ends:
            velocity = M.log(end, M.exp(p, 2 * x * v)) / x
            values.append(-M.inner(end, velocity, M.log(end, q)))
        return (values[0] - values[1]) / (2 * h)

    second = (4 * hessian(1e-3) - hessian(2e-3)) / 3
    error = np.abs(first - t**2 / 2 * second)
    assert np.all(error < 1e-11) or slope(t, error) > 2.8


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
