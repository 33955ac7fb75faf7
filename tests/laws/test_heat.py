"""The heat kernel against eigenfunctions, closed forms and an integral of the likelihood ratio itself."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, Rotations, Sphere
from curvedp.laws import HeatKernel, RiemannianGaussian
from curvedp.laws.heat import heat_scale
from curvedp.privacy import GDP

SPACES = [
    Sphere(2),
    Sphere(3),
    Sphere(6),
    Lorentz(2),
    Lorentz(3),
    Lorentz(4),
    Lorentz(7),
    PoincareBall(2),
]
MANY = [
    (M, s) for M in SPACES for s in (0.003, 0.03, 0.1, 0.29, 0.6, 1.2)
]  # the way of computing it changes at 0.3
MANY += [
    (M, s)
    for M in (Sphere(20), Sphere(41), Sphere(100), Lorentz(41), Lorentz(100))
    for s in (0.003, 0.03, 0.09)
]


@pytest.mark.parametrize(("M", "scale"), MANY, ids=str)
def test_eigenfunctions_decay_as_they_must(M, scale):
    """cos r and cosh r are eigenfunctions of the Laplacian: E = e^{∓d·t/2}. A Gaussian misses it by far more."""
    k, d = math.copysign(1.0, M.curvature_bounds[0]), M.dim
    table = HeatKernel(
        M, scale
    )._engine.table  # what draws and the normalizer are made of
    waves = np.cos if k > 0 else np.cosh
    less = -k * _mean(
        table, lambda r: 2 * (np.sin if k > 0 else np.sinh)(r / 2) ** 2
    )  # E cos r − 1, E cosh r − 1
    assert less == pytest.approx(math.expm1(-k * d * scale**2 / 2), rel=1e-9)
    mean = 1 + less
    if scale == 0.6 and d > 2:
        gaussian = RiemannianGaussian(M, scale)._engine.table
        assert abs(1 + _mean(gaussian, lambda r: waves(r) - 1) - mean) > 1e-3


def _mean(table, f):
    z, w = np.polynomial.legendre.leggauss(40)
    edges = table._edges
    r = edges[:-1, None] + np.diff(edges)[:, None] * (z + 1) / 2
    p = np.exp(table._log_density(r) - table.log_mass) * np.diff(edges)[:, None] / 2 * w
    return float(np.sum(p * f(r)))


def test_closed_forms():
    r, t = np.array([0.0, 0.3, 1.0, 2.0]), 0.49
    mine = HeatKernel(Lorentz(3), 0.7)
    points = np.stack([np.cosh(r), np.sinh(r), 0 * r, 0 * r], axis=-1)
    ratio = np.where(r > 0, r / np.sinh(np.maximum(r, 1e-9)), 1.0)
    closed = -1.5 * math.log(2 * math.pi * t) + np.log(ratio) - t / 2 - r * r / (2 * t)
    np.testing.assert_allclose(mine.log_prob(points, points[0]), closed, atol=1e-10)
    k = np.arange(-20, 21)  # S³: wrapped
    sphere = np.stack([np.cos(r[1:]), np.sin(r[1:]), 0 * r[1:], 0 * r[1:]], axis=-1)
    lifts = r[1:, None] + 2 * math.pi * k
    wrapped = np.sum(lifts * np.exp(-(lifts**2) / (2 * t)), axis=1) / np.sin(r[1:])
    closed = np.log(wrapped) - 1.5 * math.log(2 * math.pi * t) + t / 2
    np.testing.assert_allclose(
        HeatKernel(Sphere(3), 0.7).log_prob(sphere, Sphere(3).origin),
        closed,
        atol=1e-10,
    )


def _delta(law, D, eps):
    """∫(p₁ − e^ε·p₂)₊ in polar coordinates about the first point, p from `log_weight`: no theorem in it."""
    engine, d, k = law._engine, law.manifold.dim, law._engine.curvature
    end = engine._end if k > 0 else min(engine._end, 10.0)
    r, wr = (np.asarray(x) for x in np.polynomial.legendre.leggauss(240))
    r, wr = end * (r + 1) / 2, wr * end / 2
    c, wc = np.polynomial.legendre.leggauss(120)
    phi, wphi = math.pi * (c + 1) / 2, wc * math.pi / 2
    sn = np.sin(r) if k > 0 else np.sinh(r)
    half = np.sin(phi / 2) ** 2
    f = np.sin if k > 0 else np.sinh
    inside = f((r[:, None] - D) / 2) ** 2 + sn[:, None] * f(D) * half
    other = 2 * (
        np.arcsin(np.sqrt(np.minimum(inside, 1.0)))
        if k > 0
        else np.arcsinh(np.sqrt(inside))
    )
    one, two = engine.log_weight(r)[:, None], engine.log_weight(other)
    volume = (sn ** (d - 1) * wr)[:, None] * np.sin(phi) ** (d - 2) * wphi
    total = np.sum(np.exp(one) * volume)
    return float(
        np.sum(np.maximum(np.exp(one) - np.exp(eps + two), 0.0) * volume) / total
    )


@pytest.mark.parametrize(
    "M", [Sphere(2), Sphere(4), Lorentz(2), Lorentz(3), Lorentz(5)], ids=repr
)
@pytest.mark.parametrize(("scale", "D"), [(0.3, 0.1), (0.6, 0.6), (1.2, 0.8)])
def test_the_bound_holds_and_is_close(M, scale, D):
    law = HeatKernel(M, scale)
    bound = law.profile(D)
    for eps in (0.0, 0.3, 1.0):
        delta = _delta(law, D, eps)
        assert delta <= float(bound.delta(eps)) * (1 + 1e-3) + 1e-5
    tv = _delta(law, D, 0.0)
    share = 0.9 if scale < 1 else 0.6  # the law is nearly uniform, or at the floor
    assert tv > float(
        GDP(share * bound.mu).delta(0.0)
    )  # a bound that much smaller is refuted
    if scale > 1 and M.curvature_bounds[0] < 0:
        assert tv > float(GDP(D / scale).delta(0.0))  # and so is the flat one


def test_it_buys_nothing_at_equal_mu():
    """Root mean square distance on S², both at the μ of the heat kernel."""
    heat = HeatKernel(Sphere(2), 0.45)
    D = 0.2
    mu = 2 * ndtri((1 + _delta(heat, D, 0.0)) / 2)
    scales = np.linspace(0.4, 0.5, 41)
    mus = [RiemannianGaussian(Sphere(2), s).profile(D).mu for s in scales]
    same = RiemannianGaussian(Sphere(2), float(np.interp(-mu, -np.array(mus), scales)))
    assert math.sqrt(heat.mean_square_radius) == pytest.approx(
        math.sqrt(same.mean_square_radius), rel=5e-3
    )


def test_draws_follow_it():
    for M in (Sphere(2), Lorentz(3)):
        law = HeatKernel(M, 0.5)
        r = np.asarray(
            M.dist(M.origin, law.sample(np.random.default_rng(1), M.origin, 20_000))
        )
        share = np.sort(law.radial_cdf(r))
        distance = np.max(np.abs(share - (np.arange(share.size) + 0.5) / share.size))
        assert distance < 1.9 / math.sqrt(share.size)
        wrong = np.sort(HeatKernel(M, 0.52).radial_cdf(r))
        assert np.max(
            np.abs(wrong - (np.arange(share.size) + 0.5) / share.size)
        ) > 2.5 / math.sqrt(share.size)


def test_refusals():
    elsewhere = [(Euclidean(2), 0.5), (Sphere(1), 0.5), (Rotations(3), 0.5)]
    for M, scale in [
        *elsewhere,
        (Sphere(2), 1e-10),
        (Lorentz(2), 2.5),
        (Lorentz(20), 1.5),
        (Sphere(60), 0.2),
    ]:
        with pytest.raises(ParameterError):
            HeatKernel(M, scale)


@pytest.mark.parametrize("M", [Sphere(2), Sphere(9), Lorentz(3), Lorentz(20)], ids=repr)
def test_the_least_time_for_flat_noise(M):
    """(e^{kt} − 1)/k = flat² in 40 digits: never less time, and hardly more."""
    k = mpmath.mpf(math.copysign(M.dim - 1, M.curvature_bounds[0]))
    for flat in np.random.default_rng(0).uniform(0.01, 0.2, 60).tolist():
        with mpmath.workdps(40):
            exact = mpmath.sqrt(mpmath.log1p(k * mpmath.mpf(flat) ** 2) / k)
            assert 0 <= heat_scale(M, flat) / exact - 1 < 1e-13
