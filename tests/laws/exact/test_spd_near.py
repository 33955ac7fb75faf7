"""The near envelope of the SPD Gaussian: above its target, and each trial is its matrix."""

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy import linalg

from curvedp.errors import ParameterError
from curvedp.laws.exact.spd import _congruence, _is_positive_definite, cholesky
from curvedp.laws.exact.spd_near import FloatExp, NearDraw, TangentBound, tangent_bound
from curvedp.laws.spd.envelopes import NearEnvelope
from curvedp.numerics.enclosures import FILTER_SIZE, FloatBall, float_ball
from curvedp.randomness.lazy_reals import LazyNormals
from support.randomness import seeded_source


def near(m: int, sigma: float) -> TangentBound:
    return tangent_bound(
        m, sigma, NearEnvelope.tightest(m, sigma).tangent if m > 1 else 1.0
    )


@pytest.mark.parametrize(
    ("m", "sigma"), [(1, 0.5), (2, 0.5), (2, 1.5), (3, 0.3), (10, 0.2)]
)
def test_the_near_envelope_lies_above_and_touches(m: int, sigma: float) -> None:
    envelope = near(m, sigma)
    dim, pairs = m * (m + 1) // 2, m * (m - 1) // 2
    mass = (
        0.5 * dim * math.log(2 * math.pi)
        + math.log(sigma)
        + (dim - 1) * math.log(envelope.traceless_scale)
    )
    mass += pairs * envelope.offset
    x = np.geomspace(1e-4, 50, 4000)
    gap = envelope.offset + float(envelope.slope()) * x**2 - np.log(np.sinh(x) / x)
    if m == 1:
        assert (envelope.traceless_scale, envelope.offset) == (sigma, 0.0)
        return
    assert gap.min() > -1e-12
    assert gap.min() < 1e-5
    slope = (1 / np.tanh(x) - 1 / x) / (2 * x)
    room = 1 / sigma**2 - m * slope / 2
    offset = np.log(np.sinh(x) / x) - slope * x**2
    with np.errstate(invalid="ignore"):
        others = (
            -0.5 * (dim - 1) * np.log(np.where(room > 0, room, np.nan)) + pairs * offset
        )
    best = 0.5 * dim * math.log(2 * math.pi) + math.log(sigma) + np.nanmin(others)
    assert mass == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize(("m", "sigma"), [(1, 0.5), (2, 0.5), (4, 0.3), (10, 0.2)])
def test_a_near_trial_is_its_matrix(m: int, sigma: float) -> None:
    envelope = near(m, sigma)
    trial = NearDraw(envelope, LazyNormals(seeded_source(m), m * (m + 1) // 2))
    z = trial._normals.floats().mid
    g = np.diag(z[:m])
    g[np.triu_indices(m, 1)] = z[m:] * math.sqrt(0.5)
    g = np.triu(g) + np.triu(g, 1).T
    trace = np.trace(g) / m
    v = envelope.traceless_scale * (g - trace * np.eye(m)) + sigma * trace * np.eye(m)
    rho = np.linalg.eigvalsh(v)
    x = np.array([(a - b) / 2 for a, b in itertools.combinations(rho, 2)])
    truth = (
        float(
            np.sum(
                np.log(np.sinh(x) / x)
                - envelope.offset
                - float(envelope.slope()) * x**2
            )
        )
        if m > 1
        else 0.0
    )
    coarse, fine = trial.log_ratio(64), trial.log_ratio(256)
    assert float(fine) == pytest.approx(truth, abs=1e-10)
    assert coarse.contains(fine.mid())
    assert float(coarse.rad()) < 1e-9
    with ctx.workprec(128):
        found = trial.exp(128)
    exact = linalg.expm(v)
    assert np.array(
        [[float(found[i, j]) for j in range(m)] for i in range(m)]
    ) == pytest.approx(exact, rel=1e-12)
    ball, error = trial.float_exp()
    assert error < 1e-12
    off = np.abs(
        [[float(arb(ball.mid[i, j]) - found[i, j]) for j in range(m)] for i in range(m)]
    )
    assert np.all(off <= ball.rad + error)
    values, vectors, gap, eta = trial._float_eigenvalues_with_errors()
    assert max(gap, eta) < 1e-13
    assert (vectors * values) @ vectors.T == pytest.approx(v, abs=1e-13)
    assert (m * (m + 1) // 2 >= FILTER_SIZE) == (m == 10)


def test_cholesky_and_congruence() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 4))
    center = a @ a.T + 0.1 * np.eye(4)
    with ctx.workprec(128):
        lower = cholesky(center)
    assert np.array([[float(x) for x in row] for row in lower]) == pytest.approx(
        np.linalg.cholesky(center), abs=1e-13
    )
    inner = a + a.T
    for error in (0.0, 1e-3):
        ball = _congruence(float_ball(lower), FloatExp(FloatBall(inner), error))
        factor = np.linalg.cholesky(center)
        assert ball.mid == pytest.approx(factor @ inner @ factor.T, abs=1e-12)
        rows = np.linalg.norm(factor, axis=1)
        assert ball.rad == pytest.approx(
            error * np.outer(rows, rows), rel=1e-6, abs=1e-12
        )
    skew = center + np.array([[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    with ctx.workprec(128):
        assert float(cholesky(skew)[1, 0]) == pytest.approx(
            np.linalg.cholesky(center)[1, 0], rel=1e-12
        )
    assert _is_positive_definite(center)
    for bad in (
        np.diag([1.0, -1.0]),
        np.ones((2, 2)),
        np.array([[-1.0]]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
    ):
        assert not _is_positive_definite(bad)
        with ctx.workprec(4096), pytest.raises(ParameterError):
            cholesky(bad)
    near = np.array([[1.0, 1.0], [1.0, math.nextafter(1.0, 2.0)]])
    assert _is_positive_definite(near)
    with ctx.workprec(32):
        assert cholesky(np.array([[0.1, 0.3], [0.3, math.nextafter(0.9, 1.0)]])) is None
    with ctx.workprec(2048):
        assert cholesky(near) is not None
