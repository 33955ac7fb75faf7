"""The samplers' parts one by one: envelopes by their acceptance, series by mpmath, volumes by differences, sums by χ²."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import EnvelopeViolation, NotIntegrable, ParameterError
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace, spd_gaussian
from curvedp.laws.base import blocks, draw_shape, uniform_directions
from curvedp.laws.cells import CellSampler, _corners, _Thinning
from curvedp.laws.composite import _moment, _support
from curvedp.laws.domains import GeodesicBall, TangentBundleBall, _log_sn, _mean_sn
from curvedp.laws.logconcave import TangentHat, _meeting_points, radius_sampler
from curvedp.laws.logconcave import mode as mode_of
from curvedp.laws.radial import RadialLaw
from curvedp.laws.spd_chain import ChainEnvelope
from curvedp.laws.spd_gaussian import (
    FarEnvelope,
    NearEnvelope,
    _coth_minus_inverse,
    _haar,
    _log_sinhc,
    _symmetric_gaussian_eigenvalues,
    acceptance,
    sample_log_eigenvalues,
    sample_spd,
)
from curvedp.laws.spd_normalizer import _half, log_normalizer, log_pfaffian, mean_square_radius, radial_cdf
from goodness import form


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# ---- SPD: envelopes


@pytest.mark.parametrize("x", [1e-6, 9e-3, 0.0101, 0.029, 0.031, 0.5, 3.0, 40.0])
def test_series_meet_their_functions(x):
    with mp.workdps(40):
        t = mp.mpf(x)
        assert _coth_minus_inverse(x) == pytest.approx(float(mp.coth(t) - 1 / t), rel=2e-13)
        truth = float(mp.log(mp.sinh(t) / t))
        assert float(_log_sinhc(x)) == pytest.approx(truth, rel=1e-12, abs=2e-16)
        assert float(_log_sn(-1.0, np.array(x))) == pytest.approx(truth, rel=1e-8, abs=2e-16)
        half = x / 2
        assert float(_log_sn(-0.25, np.array(x))) == pytest.approx(float(mp.log(mp.sinh(half) / half)), rel=1e-8)
        assert float(_mean_sn(-4.0, np.array(x))) == pytest.approx(float((mp.cosh(2 * t) - 1) / (4 * t)), rel=1e-12)
        assert float(_log_sn(0.0, np.array(x))) == 0.0
        if x < 3:
            assert float(_log_sn(1.0, np.array(x))) == pytest.approx(float(mp.log(mp.sin(t) / t)), rel=1e-8)
            assert float(_mean_sn(1.0, np.array(x))) == pytest.approx(float((1 - mp.cos(t)) / t), rel=1e-12)
    assert float(_mean_sn(1.0, np.array(0.0))) == 0.0


ENVELOPES = [
    (NearEnvelope.tightest, 2, 0.5),
    (NearEnvelope.tightest, 3, 0.4),
    (NearEnvelope.tightest, 5, 0.3),
    (FarEnvelope, 2, 1.5),
    (FarEnvelope, 3, 1.2),
    (FarEnvelope, 4, 1.0),
    (ChainEnvelope.tightest, 3, 1.0),
    (ChainEnvelope.tightest, 5, 0.8),
]


@pytest.mark.parametrize(("make", "m", "sigma"), ENVELOPES)
def test_an_envelope_accepts_what_it_says_and_gives_the_target(make, m, sigma):
    """E(ratio) is the acceptance; ratio·envelope is the target, so ratio-weighted moments are the target's."""
    envelope, n = make(m, sigma), 20_000
    rho, log_ratio = envelope.propose(rng(1), n)
    assert rho.shape == (n, m)
    assert log_ratio.max() <= 1e-9
    ordered = log_ratio > -np.inf
    assert np.all(np.diff(rho[ordered], axis=1) <= 0)
    weight = np.exp(log_ratio)
    error = weight.std() / math.sqrt(n)
    assert weight.mean() == pytest.approx(math.exp(envelope.log_acceptance), abs=5 * error)
    square = (rho**2).sum(axis=1)
    mean = (weight * square).sum() / weight.sum()
    error = math.sqrt(np.mean(weight**2 * (square - mean) ** 2) / n) / weight.mean()
    assert mean == pytest.approx(mean_square_radius(m, sigma), abs=5 * error)
    trace = rho.sum(axis=1)
    spread = (weight * trace**2).sum() / weight.sum()
    error = math.sqrt(np.mean(weight**2 * (trace**2 - spread) ** 2) / n) / weight.mean()
    assert spread == pytest.approx(m * sigma**2, abs=5 * error)  # sinh does not see the trace


@pytest.mark.parametrize(("m", "sigma"), [(2, 0.3), (3, 1.0), (6, 0.2), (20, 0.1)])
def test_the_tightest_tangent_is_the_best(m, sigma):
    best = NearEnvelope.tightest(m, sigma)
    for factor in (0.98, 1.02):
        assert NearEnvelope(m, sigma, best.tangent * factor).log_acceptance < best.log_acceptance
    assert best.name == "near"
    names = acceptance(m, sigma)
    assert ("chain" in names) == (max(names["near"], names["far"]) <= 0.5)
    assert names["near"] == pytest.approx(math.exp(best.log_acceptance), rel=1e-12)
    assert spd_gaussian.best_envelope(m, sigma).name == max(names, key=names.__getitem__)


def test_chain_of_cells_by_brute_force():
    m, sigma = 4, 0.8
    chain = ChainEnvelope.tightest(m, sigma)
    lower, upper = chain._lower, chain._upper
    assert lower[0] == -np.inf
    assert upper[-1] == np.inf
    assert np.array_equal(lower[1:], upper[:-1])
    z = np.diff(stats.norm.cdf(np.append(lower, np.inf)[None, :], chain.means[:, None], sigma), axis=1)
    assert chain._weights == pytest.approx(z, abs=1e-15)
    mean = chain._mean_positions()
    assert mean == pytest.approx(-mean[::-1], abs=1e-12)
    rho = sample_log_eigenvalues(rng(2), m, sigma, 4000)
    assert mean == pytest.approx(rho.mean(axis=0), abs=0.25)  # the envelope's means are near the target's
    assert np.all(np.diff(chain.means) < 0)
    cell = rng(3).integers(0, len(lower), 4000)
    inside = chain._inside(rng(4), 1, cell)
    assert np.all((lower[cell] <= inside) & (inside <= upper[cell]))
    # one wide cell on each side: half a normal
    ends = chain._inside(rng(5), 0, np.zeros(2000, dtype=int))
    truth = stats.truncnorm(-np.inf, (upper[0] - chain.means[0]) / sigma, chain.means[0], sigma)
    assert stats.kstest(ends, truth.cdf).pvalue > 1e-4
    ends = chain._inside(rng(6), 0, np.full(2000, len(lower) - 1))
    truth = stats.truncnorm((lower[-1] - chain.means[0]) / sigma, np.inf, chain.means[0], sigma)
    assert stats.kstest(ends, truth.cdf).pvalue > 1e-4
    above = np.full(3000, 2400)
    below = chain._next_cell(rng(7), m - 1, above)
    mass = z[-1] * np.where(np.arange(len(lower)) <= 2400, -np.expm1(np.minimum(lower - upper[2400], 0.0)), 0.0)
    cdf = np.cumsum(mass) / mass.sum()
    assert np.all(below <= 2400)
    assert stats.kstest(cdf[below] - rng(8).random(3000) * (mass / mass.sum())[below], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("m", [2, 3, 4])
def test_gaussian_matrices_and_rotations(m):
    n = 4000
    found = _symmetric_gaussian_eigenvalues(rng(1), n, m)
    g = rng(2).standard_normal((n, m, m)) / math.sqrt(2)
    s = np.where(np.eye(m) == 1, g * math.sqrt(2), np.triu(g, 1) + np.swapaxes(np.triu(g, 1), 1, 2))
    truth = np.linalg.eigvalsh(s)[:, ::-1]
    for i in range(m):
        assert stats.ks_2samp(found[:, i], truth[:, i]).pvalue > 1e-4
        assert stats.ks_2samp(1.1 * (found[:, 0] - found[:, -1]), truth[:, 0] - truth[:, -1]).pvalue < 1e-6
    for i, j in itertools.combinations(range(m), 2):
        assert stats.ks_2samp(found[:, i] - found[:, j], truth[:, i] - truth[:, j]).pvalue > 1e-4
    assert stats.kstest(found.sum(axis=1) / math.sqrt(m), "norm").pvalue > 1e-4
    q = _haar(rng(3), n, m)
    assert q @ np.swapaxes(q, 1, 2) == pytest.approx(np.broadcast_to(np.eye(m), q.shape), abs=1e-12)
    for i, j in itertools.product(range(m), repeat=2):  # the square of an entry is Beta(1/2, (m−1)/2)
        assert stats.kstest(q[:, i, j] ** 2, stats.beta(0.5, (m - 1) / 2).cdf).pvalue > 1e-4


def test_spd_draws_in_pieces_and_about_many_centres(monkeypatch):
    centers = np.array([np.diag([1.0, 4.0]), [[2.0, 0.5], [0.5, 1.0]], np.eye(2)])
    whole = sample_spd(rng(0), 2, 1e-9, centers, (4, 3))
    assert whole == pytest.approx(np.broadcast_to(centers, (4, 3, 2, 2)), abs=1e-7)
    monkeypatch.setattr(spd_gaussian, "_CHUNK", 20)  # five matrices at a time
    pieces = sample_spd(rng(0), 2, 1e-9, centers, (4, 3))
    assert pieces == pytest.approx(whole, abs=1e-7)
    many = sample_spd(rng(0), 2, 0.3, np.eye(2), 23)
    assert len(np.unique(many[:, 0, 0])) == 23
    assert sample_spd(rng(0), 2, 0.3, np.eye(2)).shape == (2, 2)
    assert sample_log_eigenvalues(rng(0), 1, 2.0, (2, 3)).shape == (2, 3, 1)
    assert sample_log_eigenvalues(rng(0), 2, 2.0, 0).shape == (0, 2)
    assert stats.kstest(sample_log_eigenvalues(rng(1), 1, 2.0, 2000).ravel() / 2, "norm").pvalue > 1e-4


def test_what_has_no_draw_is_refused():
    eye = np.eye(2)
    for center in (np.eye(3), [[math.nan, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], np.array([1.0, 2.0])):
        with pytest.raises(ParameterError):
            sample_spd(rng(), 2, 0.3, center)
    for size in (-1, 1.5, "3", (2, -1)):
        with pytest.raises(ParameterError):
            sample_spd(rng(), 2, 0.3, eye, size)
    edge = -12 + math.sqrt(144 + 2 * 700)  # σ²/2 + 12σ = 700
    assert np.all(np.isfinite(sample_spd(rng(), 2, edge * (1 - 1e-9), eye, 50)))
    with pytest.raises(ParameterError, match="overflow"):
        sample_spd(rng(), 2, edge * (1 + 1e-9), eye)
    poor = FarEnvelope(2, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spd_gaussian, "_envelopes", lambda m, sigma, beta: (poor,))
        patch.setattr(NearEnvelope, "log_least", -math.inf)
        patch.setattr(FarEnvelope, "log_acceptance", math.log(1e-5) - 1e-9)
        with pytest.raises(ParameterError, match="accepts"):
            sample_log_eigenvalues(rng(), 2, 1.0)
        patch.setattr(FarEnvelope, "log_acceptance", math.log(1e-5))
        assert sample_log_eigenvalues(rng(), 2, 1.0).shape == (2,)
    for m, sigma in ((1, 1.0), (2, -1.0), (2, math.nan)):
        with pytest.raises(ParameterError):
            acceptance(m, sigma)


def test_a_broken_envelope_is_noticed(monkeypatch):
    class Wrong(FarEnvelope):
        def propose(self, rng, n):
            rho, log_ratio = super().propose(rng, n)
            return rho, log_ratio + 1e-6

    monkeypatch.setattr(spd_gaussian, "best_envelope", lambda m, sigma, beta=1: Wrong(m, sigma))
    with pytest.raises(EnvelopeViolation):
        sample_log_eigenvalues(rng(0), 2, 8.0, 3000)


# ---- SPD: closed forms


@pytest.mark.parametrize("sigma", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("m", [2, 3])
def test_normaliser_moments_and_radii_by_quadrature(m, sigma):
    """ρ = trace part + r·(direction in the traceless plane): volume C·∏2sinh, C from the flat limit."""
    r = np.linspace(0, 14 * sigma + 5 * m * sigma**2, 40_001)
    if m == 2:
        log_constant, density = math.log(math.sqrt(2) * math.pi), 2 * np.sinh(r / np.sqrt(2))
    else:
        t = (np.arange(300) + 0.5) * (np.pi / 3) / 300 + np.pi / 6
        rho = np.cos(t)[:, None] * [1, -1, 0] / np.sqrt(2) + np.sin(t)[:, None] * [1, 1, -2] / np.sqrt(6)
        pairs = ((0, 1), (0, 2), (1, 2))
        flat = np.sum(np.prod([rho[:, i] - rho[:, j] for i, j in pairs], axis=0)) * np.pi / 900
        log_constant = 3 * math.log(2 * math.pi) - math.log(3 * math.sqrt(math.pi / 2) * math.sqrt(2 * math.pi) * flat)
        density = r * sum(
            np.prod([2 * np.sinh((x[i] - x[j]) * r / 2) for i, j in pairs], axis=0) for x in rho
        ) * (np.pi / 900)  # fmt: skip
    weight = density * np.exp(-(r**2) / (2 * sigma**2))
    mass = integrate.cumulative_simpson(weight, x=r, initial=0)
    total = math.log(mass[-1]) + 0.5 * math.log(2 * math.pi * sigma**2) + log_constant
    assert log_normalizer(m, sigma) == pytest.approx(total, abs=2e-6)
    second = integrate.simpson(r**2 * weight, x=r) / mass[-1]
    assert mean_square_radius(m, sigma) == pytest.approx(second + sigma**2, rel=1e-5)
    # the whole radius: the trace is an independent normal
    for at in (0.4, 0.8, 1.0, 1.4, 2.0):
        radius = at * math.sqrt(second + sigma**2)
        rest = np.sqrt(np.maximum(radius**2 - (sigma * np.linspace(-8, 8, 8001)) ** 2, 0.0))
        inner = np.interp(rest, r, mass / mass[-1])
        grid = np.linspace(-8, 8, 8001)
        truth = integrate.simpson(inner * stats.norm.pdf(grid), x=grid)
        assert float(radial_cdf(m, sigma, radius)) == pytest.approx(truth, abs=2e-5)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_half_a_determinant_is_the_pfaffian(m):
    f = [0.0, *rng(m).random(m)]
    size = m + m % 2
    full = np.zeros((size, size))
    for j in range(m):
        for k in range(m):
            full[j, k] = f[k - j] if k >= j else -f[j - k]
    if m % 2:
        full[:m, m], full[m, :m] = 1.0, -1.0
    half = np.array(_half(m, f[:m], 1.0), dtype=float)
    assert np.linalg.det(half) ** 2 == pytest.approx(np.linalg.det(full), rel=1e-9)
    assert log_pfaffian(2, 1.3) == pytest.approx(math.log(math.erf(0.65)), rel=1e-14)


def test_ends_of_the_radial_law():
    assert radial_cdf(3, 1.0, [0.0, -1.0, 1e-9, 1e3]).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert float(radial_cdf(1, 2.0, 3.0)) == pytest.approx(math.erf(1.5 / math.sqrt(2)), rel=1e-14)
    with pytest.raises(ParameterError, match="NaN"):
        radial_cdf(2, 1.0, [0.5, math.nan])
    for sigma in (0.05, 1.0, 6.0):
        r = math.sqrt(mean_square_radius(4, sigma)) * np.linspace(0.02, 4, 400)
        cdf = radial_cdf(4, sigma, r)
        assert np.all(np.diff(cdf) >= -1e-9)
        assert cdf.min() < 1e-6
        assert cdf.max() == pytest.approx(1.0, abs=1e-9)
        middle = (np.diff(cdf) * (r[1:] ** 2 + r[:-1] ** 2) / 2).sum()
        assert middle == pytest.approx(mean_square_radius(4, sigma), rel=1e-3)
    with pytest.raises(ParameterError, match="larger scale"):
        log_pfaffian(40, 1e-300)


# ---- hats of tangents


@pytest.mark.parametrize(
    ("kind", "curvature", "dim", "scale"),
    [
        ("gaussian", 1, 1, 0.5),
        ("gaussian", 1, 3, 0.3),
        ("gaussian", 1, 50, 5.0),
        ("gaussian", -1, 1, 2.0),
        ("gaussian", -1, 4, 1.5),
        ("laplace", 1, 2, 0.5),
        ("laplace", 1, 5, 40.0),
        ("laplace", -1, 3, 0.4),
    ],
)
def test_hats_lie_above_touch_and_draw(kind, curvature, dim, scale):
    mode, hat = radius_sampler(kind, form(curvature, dim), scale)
    sn = np.sin if curvature > 0 else np.sinh

    def log_density(r):
        return (-(r**2) / (2 * scale**2) if kind == "gaussian" else -r / scale) + (dim - 1) * np.log(sn(r))

    if dim > 1:
        for step in (-1e-4, 1e-4):
            assert log_density(mode * (1 + step)) < log_density(mode)
    else:
        assert mode == 0.0
    end = math.pi if curvature > 0 else mode + 40 * scale * (1 + scale * dim)
    r = np.linspace(0, end, 4001)[1:-1]
    truth = log_density(r) - (log_density(mode) if mode else 0.0)
    assert hat._g(r - mode) == pytest.approx(truth, rel=1e-9, abs=1e-9)
    mass = integrate.quad(
        lambda x: math.exp(min(float(hat._g(np.array([x]))[0]), 0.0)),
        -mode,
        min(end - mode, 30 * scale * dim),
        points=sorted({max(-mode, -scale), 0.0, min(scale, end - mode)}),
        limit=400,
    )[0]
    assert 1 - 1e-6 <= hat._cumulative[-1] / mass < 1.01  # rejects a few in a thousand
    draws = mode + hat.draw(rng(dim), 4000)
    law = RadialLaw(kind, form(curvature, dim), scale)
    assert stats.kstest(draws, lambda x: law.table.cdf(x)).pvalue > 1e-4
    assert stats.kstest(np.minimum(1.1 * draws, end), lambda x: law.table.cdf(x)).pvalue < 1e-6 or scale > 1


def test_a_hat_on_an_interval():
    """A level density, a rising one, one that is not concave; ends on either side of 0."""
    for tilt, low, high in ((0.0, -1.0, 2.0), (3.0, -2.0, 0.0), (-3.0, 0.0, 2.0), (-1e-20, -1.0, 1.0)):
        hat = TangentHat(lambda t, k=tilt: k * t, lambda t, k=tilt: np.full_like(t, k), low, high, 0.1)
        draws = hat.draw(rng(1), 3000)
        assert low <= draws.min() < low + 0.2 * (high - low) + (tilt > 0)
        assert draws.max() <= high

        def cdf(t, tilt=tilt, low=low, high=high):
            if abs(tilt) < 1e-9:
                return (t - low) / (high - low)
            return np.expm1(tilt * (t - low)) / np.expm1(tilt * (high - low))

        assert stats.kstest(draws, cdf).pvalue > 1e-4
    with pytest.raises(EnvelopeViolation):
        TangentHat(lambda t: t**2 - 1e-3, lambda t: 2 * t, -1.0, 1.0, 0.1).draw(rng(0), 100)
    knots, height, rise = np.array([-1.0, 0.0, 2.0]), np.array([-0.5, 0.0, -2.0]), np.array([1.0, 0.0, -2.0])
    assert _meeting_points(knots, height, rise) == pytest.approx([-0.5, 1.0])  # −t²/2
    assert _meeting_points(knots, np.zeros(3), np.zeros(3)) == pytest.approx([-0.5, 1.0])
    assert mode_of("gaussian", form(1, 1), 1.0) == 0.0
    assert mode_of("gaussian", form(1, 4), 1e9) == pytest.approx(math.pi / 2)


# ---- domains


@pytest.mark.parametrize(
    ("space", "radius"),
    [
        (Sphere(2), 1.0),
        (Sphere(3), 2.0),
        (Lorentz(2), 1.5),
        (PoincareBall(3), 1.0),
        (SPDAffineInvariant(2), 1.2),
        (SPDLogEuclidean(2), 1.0),
        (KendallShapes(4), 0.7),
        (Rotations(3), 1.5),
        (Euclidean(2), 3.0),
    ],
)
def test_volume_and_stretch_of_normal_coordinates(space, radius):
    ball = GeodesicBall(space, radius=radius)
    k = ball.block_dim
    assert (ball.dim, ball.radii) == (space.dim, (radius,))
    c = ball.center
    for seed in range(6):
        z = rng(seed).standard_normal(k)
        z *= radius * 0.9 * rng(seed).random() / np.linalg.norm(z)
        x = ball.points(z[None, None])[0][0]
        assert space.dist(c, x) == pytest.approx(np.linalg.norm(z), abs=1e-7)
        h, columns = 1e-5, []
        for e in np.eye(k):
            ahead, behind = (space.exp(c, space.from_coordinates(c, z + s * h * e)) for s in (1, -1))
            columns.append((space.log(x, ahead) - space.log(x, behind)) / (2 * h))
        gram = np.array([[float(space.inner(x, a, b)) for b in columns] for a in columns])
        volume = float(ball.log_volume(z[None, None])[0])
        assert 0.5 * np.linalg.slogdet(gram)[1] == pytest.approx(volume, abs=1e-5)
        r = np.array([[np.linalg.norm(z)]])
        stretch = math.sqrt(np.linalg.eigvalsh(gram)[-1])
        assert stretch <= float(ball.stretch(r)[0, 0]) + 1e-5
        if space.dim > 1:
            assert stretch == pytest.approx(float(ball.stretch(r)[0, 0]), abs=2e-2) or isinstance(
                space, SPDAffineInvariant
            )
        assert ball.lipschitz((3.0,), r) == pytest.approx(3 * ball.stretch(r))
        across = ball.across(z[None, None])
        for low, high in ((0.9, 1.1), (0.0, 2.0), (1.0, 1.0)):
            bound = ball.log_volume_bound(r * low, r * high, across * 1.05)
            assert bound[0] >= volume - 1e-12
        assert ball.log_volume_bound(r, r, across)[0] == pytest.approx(volume, abs=1e-12)


def test_tangent_bundles_move_velocities_by_transport():
    space = Sphere(2)
    bundle = TangentBundleBall(space, radius=0.8, speed=2.0)
    assert (bundle.dim, bundle.block_dim, bundle.radii) == (4, 2, (0.8, 2.0))
    z = np.array([[[0.3, 0.4], [1.0, -0.5]]])
    p, v = bundle.points(z)
    assert space.dist(space.origin, p[0]) == pytest.approx(0.5)
    assert space.norm(p[0], v[0]) == pytest.approx(math.hypot(1.0, 0.5))
    assert bundle.log_volume(z) == pytest.approx(math.log(math.sin(0.5) / 0.5))
    assert bundle.across(z) == pytest.approx(0.5)
    high = np.array([[0.5, 2.0]])
    first = 3.0 * 1.0 + 7.0 * (1 - math.cos(0.5)) / 0.5 * 2.0  # holonomy of the thin triangle
    assert bundle.lipschitz((3.0, 7.0), high) == pytest.approx(np.array([[first, 7.0]]))
    wide = TangentBundleBall(Lorentz(2), radius=0.8, speed=2.0)
    first = 3.0 * math.sinh(0.5) / 0.5 + 7.0 * (math.cosh(0.5) - 1) / 0.5 * 2.0
    assert wide.lipschitz((3.0, 7.0), high) == pytest.approx(np.array([[first, 7.0]]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GeodesicBall(Sphere(2), radius=math.pi),
        lambda: GeodesicBall(Sphere(5), radius=1.0),
        lambda: GeodesicBall(Stiefel(3, 2), radius=0.1),
        lambda: GeodesicBall(SPDAffineInvariant(3), radius=0.1),
        lambda: GeodesicBall(Rotations(4), radius=0.1),
        lambda: GeodesicBall(Lorentz(2), radius=300.1),
        lambda: GeodesicBall(Sphere(2), radius=math.nan),
        lambda: GeodesicBall(Sphere(2), [1.0, 1.0, 0.0], 0.5),
        lambda: GeodesicBall(Sphere(2), np.eye(3), 0.5),
        lambda: TangentBundleBall(Sphere(3), radius=0.5, speed=1.0),
        lambda: TangentBundleBall(Sphere(2), radius=0.5, speed=0.0),
    ],
)
def test_domains_without_cells_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_the_largest_domains():
    assert GeodesicBall(Sphere(2), radius=math.nextafter(math.pi, 0)).dim == 2
    assert GeodesicBall(Sphere(4), radius=1.0).dim == 4
    assert GeodesicBall(Lorentz(2), radius=300.0).dim == 2
    assert GeodesicBall(SPDAffineInvariant(2), radius=300.0 * math.sqrt(2) * (1 - 1e-12)).dim == 3
    assert GeodesicBall(Euclidean(1), radius=1e100).dim == 1


# ---- cells


def test_corners_and_thinning():
    assert sorted(map(tuple, _corners(2).tolist())) == [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    assert _corners(3).shape == (8, 3)
    thin = _Thinning(2, 2)
    reach, depth = np.array([[0.5, 0.3], [0.0, 0.0]]), np.array([1.0, 2.0])
    w = np.linalg.norm(rng(9).uniform(-1, 1, (200_000, 2, 2)), axis=2) / math.sqrt(2)
    truth = np.log(np.mean(np.exp(-np.maximum(depth[:, None] - reach @ w.T, 0.0)), axis=1))
    assert thin(reach, depth) == pytest.approx(truth, abs=0.05)
    assert thin(reach, depth)[1] == pytest.approx(-2.0, rel=1e-12)


def test_cells_bound_the_target_and_count_their_work():
    """g = |x − a| on a disc: after refining, cells still tile it, bound g from below and the target from above."""
    ball, calls = GeodesicBall(Euclidean(2), radius=1.0), []

    def g(x):
        calls.append(len(x))
        return np.linalg.norm(x - [0.3, 0.1], axis=-1)

    sampler = CellSampler(ball, 0.05, g, (1.0,), rng(0))
    for _ in range(4):
        assert sampler._refine()
    c = sampler._cells
    assert sampler.built == sum(calls)
    assert sampler.tried == 0
    area = np.prod(2 * c["half"], axis=(1,)) ** 2
    assert area.sum() <= 4 + 1e-12
    x = rng(1).uniform(-1, 1, (4000, 2))
    x = x[np.linalg.norm(x, axis=1) <= 1]
    owner = np.all(np.abs(x[:, None] - c["center"][None, :, 0]) <= c["half"][None, :, 0, None], axis=2)
    assert np.all(owner.sum(axis=1) == 1)
    cell = owner.argmax(axis=1)
    value = np.linalg.norm(x - [0.3, 0.1], axis=1)
    assert np.all(c["lower"][cell] <= value)
    assert np.all(c["lower"] >= 0)
    assert np.all(-value / 0.05 <= c["log_top"][cell] + 1e-12)
    assert c["log_mass"] == pytest.approx(c["log_top"] + np.log(area), rel=1e-9)
    assert np.all(np.linalg.norm(c["at"][:, 0], axis=1) <= 1 + 1e-12)
    assert c["value"] == pytest.approx(np.linalg.norm(c["at"][:, 0] - [0.3, 0.1], axis=1))
    before = sum(calls)
    points = sampler.draw(500)
    assert points.shape == (500, 1, 2)
    assert sampler.built + sampler.tried == sum(calls) > before
    assert sampler.tried >= 500
    assert sampler.draw(0).shape == (0, 1, 2)
    for wrong in (lambda x: np.full(len(x), -1.0), lambda x: np.zeros(3), lambda x: np.full(len(x), math.nan)):
        with pytest.raises(EnvelopeViolation, match="numbers >= 0"):
            CellSampler(ball, 0.05, wrong, (1.0,), rng(0)).draw(5)
    with pytest.raises(EnvelopeViolation, match="Lipschitz"):
        CellSampler(ball, 0.05, g, (0.9,), rng(0)).draw(200)


# ---- products and shapes


def test_products_of_flat_spaces_have_the_radius_of_their_sum():
    law = RiemannianGaussian(Product(Euclidean(1), SPDLogEuclidean(2), Euclidean(1)), 0.7)
    r = np.linspace(0, 4, 200)
    assert law.radial_cdf(r) == pytest.approx(stats.chi.cdf(r / 0.7, 5), abs=1e-5)
    assert law.mean_square_radius == pytest.approx(5 * 0.49, rel=1e-9)
    assert law.mean_radius == pytest.approx(0.7 * stats.chi.mean(5), rel=1e-4)
    assert law.log_normalizer == pytest.approx(2.5 * math.log(2 * math.pi * 0.49), rel=1e-12)
    assert law.radial_cdf([1e9, -1.0]).tolist() == [1.0, 0.0]
    one = RiemannianGaussian(Product(Euclidean(3)), 0.7)
    assert one.radial_cdf(1.0) == pytest.approx(stats.chi.cdf(1 / 0.7, 3), rel=1e-9)
    matrices = RiemannianGaussian(Product(SPDAffineInvariant(2), Euclidean(1)), 0.5)
    single = RiemannianGaussian(SPDAffineInvariant(2), 0.5)
    assert matrices.mean_square_radius == pytest.approx(single.mean_square_radius + 0.25, rel=1e-9)
    assert single.mean_radius == pytest.approx(
        integrate.quad(lambda r: 1 - float(single.radial_cdf(r)), 0, 6)[0], rel=1e-6
    )
    low, high = _support(lambda r: stats.chi.cdf(np.asarray(r) / 2, 3), 2.0)
    assert stats.chi.cdf(low / 2, 3) <= 1e-13
    assert stats.chi.cdf(1.01 * low / 2, 3) > 1e-13
    assert stats.chi.sf(high / 2, 3) <= 1.01e-13
    assert stats.chi.sf(0.99 * high / 2, 3) > 1e-13
    for order in (1, 2, 3):
        moment = _moment(lambda r: stats.chi.cdf(np.asarray(r) / 2, 3), order, 2.0)
        assert moment == pytest.approx(2**order * stats.chi(3).moment(order), rel=1e-9)
    sphere = RiemannianGaussian(Product(Sphere(2), Sphere(1)), 50.0)  # all but uniform: the support ends
    assert float(sphere.radial_cdf(1.001 * math.hypot(math.pi, math.pi))) == 1.0
    truth = integrate.quad(
        lambda a: math.sin(a) / 2 * min(math.sqrt(9 - a * a), math.pi) / math.pi if a < 3 else 0, 0, 3
    )
    assert float(sphere.radial_cdf(3.0)) == pytest.approx(truth[0], abs=1e-3)


def test_shapes_blocks_and_directions():
    for size, center, shape in (
        (None, np.zeros((5, 2)), (5,)),
        (3, np.zeros(2), (3,)),
        ([4, 5], np.zeros((5, 2)), (4, 5)),
        ((), np.zeros(2), ()),
    ):
        assert draw_shape(size, center, (2,))[1] == shape
    for size, center in (
        (3, np.zeros((5, 2))),
        (5, np.zeros(3)),
        (5, 1.0),
        (-1, np.zeros(2)),
        ((5,), np.zeros((2, 5, 2))),
    ):
        with pytest.raises(ParameterError):
            draw_shape(size, center, (2,))
    centers = np.arange(70_000.0).reshape(-1, 1)
    seen = [(part, points) for part, points in blocks(centers, (70_000,), (1,), 1)]
    assert [part.start for part, _ in seen] == [0, 32_768, 65_536]
    assert seen[-1][0].stop == 70_000
    assert np.array_equal(np.concatenate([points for _, points in seen]), centers)
    assert len(list(blocks(np.zeros(9), (10,), (9,), 40_000))) == 10
    assert [p.shape for _, p in blocks(np.zeros(2), (40_000,), (2,), 2)] == [(2,)] * 3
    for dim in (1, 2, 5):
        u = uniform_directions(rng(dim), 4000, dim)
        assert np.linalg.norm(u, axis=1) == pytest.approx(np.ones(4000), rel=1e-12)
        assert abs(u.mean(axis=0)).max() < 5 / math.sqrt(4000)
    for bad in (None, 3, np.random.RandomState(0)):
        with pytest.raises(ParameterError, match="Generator"):
            RiemannianGaussian(Sphere(2), 0.5).sample(bad, Sphere(2).origin, 3)
    with pytest.raises(ParameterError, match="manifold"):
        RiemannianGaussian("S2", 0.5)
    with pytest.raises(NotIntegrable):
        RiemannianLaplace(Lorentz(3), 0.5)
