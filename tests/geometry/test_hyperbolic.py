"""Both models of hyperbolic space against 130 digits, from 1e-15 out to distance 30 and beyond."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Lorentz, PoincareBall
from support.geometry import mpf_vector

DEPTHS = [0.0, 1e-8, 0.5, 0.9, 1.5, 5.0, 15.0, 30.0]
STEPS = [1e-15, 1e-8, 1e-3, 0.5, 3.0, 15.0, 30.0, 60.0]


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(130):  # cosh d - 1 = 5e-31 between coordinates of 1e26
        yield


def norm(x):
    return mp.sqrt(mp.fdot(x, x))


def combine(a, x, b, y):
    return [a * s + b * t for s, t in zip(x, y, strict=True)]


def error(actual, truth):
    return float(norm(combine(1, mpf_vector(actual), -1, truth)) / norm(truth))


class LorentzOracle:
    """Textbook forms on the exact lift of the spatial part."""

    @staticmethod
    def lift(p):
        x = mpf_vector(p[1:])
        return [mp.sqrt(1 + mp.fdot(x, x)), *x]

    @staticmethod
    def form(x, y):
        return mp.fdot(x[1:], y[1:]) - x[0] * y[0]

    @classmethod
    def log(cls, p, q):
        x, y = cls.lift(p), cls.lift(q)
        cosh = -cls.form(x, y)
        distance = mp.acosh(cosh)
        return distance, combine(
            distance / mp.sinh(distance), y, -cosh * distance / mp.sinh(distance), x
        )

    @classmethod
    def exp(cls, p, v):
        x, w = cls.lift(p), mpf_vector(v)
        w[0] = mp.fdot(x[1:], w[1:]) / x[0]
        n = mp.sqrt(cls.form(w, w))
        return combine(mp.cosh(n), x, mp.sinh(n) / n, w)


class BallOracle:
    """Möbius addition (Ungar 2008)."""

    @staticmethod
    def add(w, y):
        middle, square = 1 + 2 * mp.fdot(w, y), mp.fdot(y, y)
        scale = middle + mp.fdot(w, w) * square
        return combine((middle + square) / scale, w, (1 - mp.fdot(w, w)) / scale, y)

    @classmethod
    def log(cls, p, q):
        w = mpf_vector(p)
        y = cls.add([-t for t in w], mpf_vector(q))
        distance = 2 * mp.atanh(norm(y))
        scale = distance * (1 - mp.fdot(w, w)) / 2 / norm(y)
        return distance, [scale * t for t in y]

    @classmethod
    def exp(cls, p, v):
        w, u = mpf_vector(p), mpf_vector(v)
        n = norm(u)
        scale = mp.tanh(n / (1 - mp.fdot(w, w))) / n
        return cls.add(w, [scale * t for t in u])


def steps(M, rng, depth):
    """Points at a distance from the origin, and velocities outward, inward and in any direction."""
    z = rng.normal(size=M.d)
    z /= np.linalg.norm(z)
    p = M.exp(M.origin, M.from_coordinates(M.origin, depth * z))
    for step in STEPS:
        for direction in (
            rng.normal(size=M.d),
            z + 1e-3 * rng.normal(size=M.d),
            -z + 1e-9 * rng.normal(size=M.d),
        ):
            yield p, M.from_coordinates(p, step * direction / np.linalg.norm(direction))


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("model", "oracle"), [(Lorentz, LorentzOracle), (PoincareBall, BallOracle)]
)
def test_kernels_are_accurate_to_twelve_digits(model, oracle, d, depth):
    M = model(d)
    for p, v in steps(M, np.random.default_rng(d), depth):
        q = M.exp(p, v)
        truth = oracle.exp(p, v)
        if (
            model is Lorentz or norm(truth) < 1 - mp.mpf(2) ** -51
        ):  # beyond, the ball has no floats
            # a step that ends next to the ball's center can only be as exact as the point it starts from
            scale = max(norm(truth), norm(mpf_vector(p)))
            assert error(q, truth) * norm(truth) < 1e-12 * scale
        if np.any(p != q):
            distance, velocity = oracle.log(p, q)
            assert abs(M.dist(p, q) / distance - 1) < 1e-12
            assert abs(M.dist(q, p) / distance - 1) < 1e-12
            assert error(M.log(p, q), velocity) < 1e-12


@pytest.mark.parametrize("gap", [1e-6, 1e-12, 1e-15])
def test_poincare_at_the_boundary(gap):
    """Two points at norm 1 - gap, from next to each other to opposite; 1 - |w|² must not cancel."""
    M = PoincareBall(4)
    rng = np.random.default_rng(7)
    u = rng.normal(size=4)
    p = (1 - gap) * u / np.linalg.norm(u)
    for spread in (1e-15, 1e-12, 1e-6, 1.0):
        q = p + spread * rng.normal(size=4)
        q *= (1 - gap) / np.linalg.norm(q)
        if np.any(p != q):
            distance, velocity = BallOracle.log(p, q)
            assert abs(M.dist(p, q) / distance - 1) < 1e-12
            assert error(M.log(p, q), velocity) < 1e-12
            v = M.log(p, q)
            assert abs(M.norm(p, v) / distance - 1) < 1e-12


def test_the_two_models_are_isometric():
    lorentz, ball = Lorentz(3), PoincareBall(3)
    rng = np.random.default_rng(0)
    x = lorentz.exp(
        lorentz.origin,
        lorentz.from_coordinates(lorentz.origin, 2 * rng.normal(size=(50, 3))),
    )
    w = x[:, 1:] / (1 + x[:, :1])
    p, q, z = x[:25], x[25:], rng.normal(size=(25, 3))
    np.testing.assert_allclose(
        lorentz.dist(p, q), ball.dist(w[:25], w[25:]), rtol=1e-12
    )
    # frames correspond (both are carried from the origin radially), so do transports
    carried = lorentz.transport(p, q, lorentz.from_coordinates(p, z))
    there = ball.transport(w[:25], w[25:], ball.from_coordinates(w[:25], z))
    coordinates = lorentz.to_coordinates(q, carried)
    np.testing.assert_allclose(
        coordinates, ball.to_coordinates(w[25:], there), atol=1e-10
    )


@pytest.mark.parametrize("distance", [100.0, 300.0])
def test_kernels_far_from_the_origin_do_not_overflow(distance):
    for d in (1, 3):
        M = Lorentz(d)
        far = M.exp(M.origin, np.eye(d + 1)[1] * distance)
        farther = M.exp(M.origin, np.eye(d + 1)[1] * (distance + 1))
        back = M.exp(M.origin, -np.eye(d + 1)[1] * distance)
        for p, q, truth in [
            (far, M.origin, distance),
            (far, farther, 1.0),
            (far, back, 2 * distance),
        ]:
            for a, b in ((p, q), (q, p)):
                assert M.dist(a, b) == pytest.approx(truth, rel=1e-12)
                assert M.norm(a, M.log(a, b)) == pytest.approx(truth, rel=1e-12)
        np.testing.assert_allclose(
            M.exp(far, M.log(far, M.origin)), M.origin, atol=1e-12
        )
        assert np.all(np.isfinite(M.transport(far, back, M.log(far, M.origin))))


def test_steps_past_the_floats_of_the_ball_stay_inside():
    M = PoincareBall(3)
    rng = np.random.default_rng(1)
    p = 0.99 * np.eye(3)[0]
    v = rng.normal(size=(100, 3)) * 10.0 ** rng.uniform(0, 300, size=(100, 1))
    q = M.exp(p, v)
    assert np.all(M.residual(q) == 0)
    assert np.all(np.isfinite(M.dist(M.origin, q)))
    assert np.all(M.residual(M.project(rng.normal(size=(1000, 3)))) == 0)
    assert M.residual(np.array([1.0, 0, 0])) >= 1


def test_ten_thousand_dimensions():
    rng = np.random.default_rng(2)
    for M, oracle in (
        (Lorentz(10_000), LorentzOracle),
        (PoincareBall(10_000), BallOracle),
    ):
        p, q = M.exp(
            M.origin, M.from_coordinates(M.origin, 0.03 * rng.normal(size=(2, 10_000)))
        )
        with mp.workdps(50):
            distance, velocity = oracle.log(p, q)
            assert abs(M.dist(p, q) / distance - 1) < 1e-12
            assert error(M.log(p, q), velocity) < 1e-12


def test_erratum_e8_the_printed_poincare_scale_is_half_the_noise():
    """Metric 4|dw|²/(1-|w|²)²: an orthonormal frame is e_i (1-|w|²)/2; with 1/4 vectors have length 1/2."""
    M = PoincareBall(2)
    w = np.array([0.3, -0.6])
    gap = 1 - w @ w
    h = 1e-6
    for scale, length in ((gap / 2, 1.0), (gap / 4, 0.5)):
        assert M.dist(w, w + h * scale * np.eye(2)[0]) / h == pytest.approx(
            length, rel=1e-5
        )
    np.testing.assert_allclose(
        M.from_coordinates(w, np.eye(2)), np.eye(2) * gap / 2, rtol=1e-15
    )


def test_erratum_e9_the_printed_lorentz_transport_is_not_tangent():
    M = Lorentz(2)
    rng = np.random.default_rng(3)
    w = M.exp(M.origin, M.from_coordinates(M.origin, rng.normal(size=2)))
    u = np.array([0.0, *rng.normal(size=2)])  # tangent at the origin

    def form(x, y):
        return x[1:] @ y[1:] - x[0] * y[0]

    def moved(sign):
        return u + sign * form(w, u) / (1 - form(M.origin, w)) * (M.origin + w)

    assert abs(form(w, moved(-1))) > 0.1
    assert abs(form(w, moved(+1))) < 1e-13
    np.testing.assert_allclose(M.transport(M.origin, w, u), moved(+1), atol=1e-13)
    np.testing.assert_allclose(M.from_coordinates(w, u[1:]), moved(+1), atol=1e-13)


@pytest.mark.parametrize("model", [Lorentz, PoincareBall])
@pytest.mark.parametrize("size", [0, -1, 2.0, math.nan, True, "2"])
def test_sizes_are_whole_and_positive(model, size):
    with pytest.raises(ParameterError, match=r"d=.* must be"):
        model(size)
