"""The sphere against 50 digits, from 1e-15 to the cut locus, and its frame against the printed one."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from support.geometry import mpf_vector

DISTANCES = [
    1e-15,
    1e-12,
    1e-8,
    1e-4,
    0.1,
    1.0,
    2.0,
    3.0,
    *(math.pi - 10.0**-k for k in (2, 4, 7, 10, 13, 15)),
]


def norm(x):
    return mp.sqrt(mp.fsum(t * t for t in x))


def unit(x):
    length = norm(x)
    return [t / length for t in x]


def oracle_log(p, q):
    """The velocity from the ray of p to the ray of q, the floats taken as exact."""
    p, q = (unit(mpf_vector(x)) for x in (p, q))
    cosine = mp.fdot(p, q)
    rest = [b - cosine * a for a, b in zip(p, q, strict=True)]
    sine = norm(rest)
    angle = mp.atan2(sine, cosine)
    return angle, [angle * t / sine for t in rest] if sine else rest


def error(actual, truth):
    return float(
        norm([mp.mpf(float(a)) - b for a, b in zip(actual, truth, strict=True)])
        / norm(truth)
    )


def pairs(M, rng, distance, n):
    p = M.project(rng.normal(size=(n, M.d + 1)))
    z = rng.normal(size=(n, M.d))
    return p, M.exp(
        p,
        M.from_coordinates(p, distance * z / np.linalg.norm(z, axis=-1, keepdims=True)),
    )


@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("distance", DISTANCES)
def test_dist_and_log_to_twelve_digits(d, distance):
    M = Sphere(d)
    p, q = pairs(M, np.random.default_rng(d), distance, 10)
    dist, log = M.dist(p, q), M.log(p, q)
    with mp.workdps(60):
        for i in range(10):
            angle, velocity = oracle_log(p[i], q[i])
            if angle == 0:
                continue  # the two rays coincide: rounding brought q onto p
            assert abs(dist[i] / angle - 1) < 1e-12
            assert error(log[i], velocity) < 1e-12


@pytest.mark.parametrize(
    "length", [1e-300, 1e-15, 1e-8, 9.9e-4, 1.1e-3, 0.5, 3.0, math.pi - 1e-7, 20.0]
)
def test_exp_to_twelve_digits(length):
    M = Sphere(4)
    rng = np.random.default_rng(0)
    p = M.project(rng.normal(size=5))
    v = M.from_coordinates(p, length * np.array([0.5, -0.5, 0.1, 0.7]))
    with mp.workdps(60):
        x, w = mpf_vector(p), mpf_vector(v)
        n = norm(w)
        truth = [mp.cos(n) * a + mp.sin(n) / n * b for a, b in zip(x, w, strict=True)]
        assert error(M.exp(p, v), truth) < 1e-14


def test_arccos_would_fail():
    """The control: the textbook distance reads 0 where the true one is 1e-9."""
    M = Sphere(2)
    q = M.exp(M.origin, np.array([0.0, 1e-9, 0.0]))
    assert np.arccos(np.clip(M.origin @ q, -1, 1)) == 0
    assert M.dist(M.origin, q) == 1e-9


def test_distance_ignores_the_lengths_of_the_vectors():
    M = Sphere(2)
    p = M.project(np.array([0.3, -0.7, 0.4]))
    assert M.dist(p, 2 * p) < 1e-30  # the same ray, exactly
    assert M.dist(1e-3 * p, 5 * M.origin) == pytest.approx(
        M.dist(p, M.origin), rel=1e-15
    )


def test_antipode_has_a_fixed_shortest_way():
    M = Sphere(3)
    rng = np.random.default_rng(1)
    points = np.concatenate(
        [np.eye(4), -np.eye(4), M.project(rng.normal(size=(20, 4)))]
    )
    for q in (-points, -points * (1 + 2**-52), -points * (1 - 2**-53)):
        v = M.log(points, q)
        assert np.all(np.isfinite(v))
        np.testing.assert_allclose(M.norm(points, v), math.pi, rtol=1e-15)
        np.testing.assert_allclose(np.sum(points * v, axis=-1), 0, atol=4e-15)
        np.testing.assert_allclose(M.exp(points, v), q, atol=2e-15)
        np.testing.assert_array_equal(v, M.log(points, q))
        u = M.from_coordinates(points, rng.normal(size=(28, 3)))
        np.testing.assert_allclose(
            M.norm(q, M.transport(points, q, u)), M.norm(points, u), rtol=1e-14
        )


def test_ten_thousand_dimensions():
    M = Sphere(10_000)
    rng = np.random.default_rng(2)
    for distance in (1e-15, math.pi - 1e-7):
        p, q = pairs(M, rng, distance, 2)
        with mp.workdps(40):
            angle, velocity = oracle_log(p[0], q[0])
            if angle:
                assert abs(M.dist(p, q)[0] / angle - 1) < 1e-12
                assert error(M.log(p, q)[0], velocity) < 1e-12


def test_frame_at_both_poles_and_across_the_equator():
    M = Sphere(2)
    for p in (
        [1, 0, 0],
        [-1, 0, 0],
        [-1 + 1e-16, 1e-9, 0],
        [1e-300, 1, 0],
        [-1e-300, 1, 0],
        [0, 0, -1],
    ):
        p = np.array(p, dtype=float)
        frame = M.from_coordinates(p, np.eye(2))
        np.testing.assert_allclose(frame @ frame.T, np.eye(2), atol=1e-15)
        np.testing.assert_allclose(frame @ p, 0, atol=1e-15)


def test_erratum_e10_the_printed_frame_is_not_orthonormal():
    M = Sphere(3)
    w = M.project(np.random.default_rng(3).normal(size=4) + 2 * np.eye(4)[0])
    printed = np.eye(4)[1:] - w[1:, None] * w  # ē_i - w_{i+1} w
    assert np.max(np.abs(printed @ printed.T - np.eye(3))) > 0.1
    ours = M.from_coordinates(w, np.eye(3))
    np.testing.assert_allclose(
        ours, np.eye(4)[1:] - w[1:, None] / (1 + w[0]) * (np.eye(4)[0] + w), atol=1e-15
    )
    np.testing.assert_allclose(ours @ ours.T, np.eye(3), atol=1e-15)


def test_long_walks_stay_on_the_sphere():
    M = Sphere(10)
    rng = np.random.default_rng(4)
    p = M.origin
    for _ in range(3_000):
        p = M.exp(p, M.from_coordinates(p, 0.1 * rng.normal(size=10)))
    assert M.residual(p) < 1e-13


@pytest.mark.parametrize("size", [0, -2, 1.5, float("nan"), False, "2"])
def test_sizes_are_whole_and_positive(size):
    with pytest.raises(ParameterError, match=r"d=.* must be"):
        Sphere(size)
