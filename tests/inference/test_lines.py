"""Regions of geodesics: the bound they rest on against finite differences, and how often they hold the truth."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from curvedp import GDP, PrivateGeodesicRegression, PureDP
from curvedp.core.capabilities import NoisyDraw
from curvedp.core.chart import grid_of
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Lorentz, Rotations, SPDAffineInvariant, Sphere
from curvedp.inference import region_of
from curvedp.inference.lines import PartLengthLaw, line_region
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.mechanisms import Certificate
from curvedp.mechanisms.geodesic_descent import BundleDescentMechanism
from curvedp.randomness import GeneratorSource
from curvedp.regression.bounds import PREDICTOR_UNIT
from curvedp.regression.gradient import clip_rows, clipped_direction, contributions
from curvedp.regression.linearity import Neighborhood
from curvedp.statistics.geodesic import GeodesicLine

LEVEL = 0.9


def data(M, n, sd=0.05, length=0.6, k=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, k))
    V = M.from_coordinates(
        M.origin, length / math.sqrt(M.dim * k) * np.ones((k, M.dim)) * [[1], [-1]][:k]
    )
    q = np.asarray(M.exp(M.origin, np.tensordot(x - 0.5, V, axes=1)))
    return x, np.asarray(
        M.exp(q, M.from_coordinates(q, sd * rng.standard_normal((n, M.dim))))
    )


def moved(M, p, V, z):
    q = np.asarray(M.exp(p, M.from_coordinates(p, z[0])))
    return q, np.asarray(
        M.transport(p, q, V + np.asarray(M.from_coordinates(p, z[1:] / PREDICTOR_UNIT)))
    )


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    "M",
    [Euclidean(2), Sphere(2), Lorentz(2), SPDAffineInvariant(2), Rotations(3)],
    ids=lambda M: M.name,
)
def test_contributions_change_as_bounded_and_a_third_of_the_bound_is_refuted(M, k):
    rng, n, clip = np.random.default_rng(1), 40, 0.4
    line = GeodesicLine(M, None, 0.3, 0.8, clip, 500, [[0.0, 1.0]] * k)
    near, ratios = Neighborhood(M, line.domain, 0.002), []
    for _ in range(12):
        p = np.asarray(
            M.exp(M.origin, M.from_coordinates(M.origin, 0.1 * rng.normal(size=M.dim)))
        )
        V = np.asarray(
            M.from_coordinates(p, 0.4 / math.sqrt(M.dim) * rng.normal(size=(k, M.dim)))
        )
        x = rng.choice([-0.5, -0.1, 0.0, 0.3, 0.5], size=(n, k))
        t, a = (
            x / PREDICTOR_UNIT,
            np.concatenate([np.ones((n, 1)), x / PREDICTOR_UNIT], axis=1),
        )
        q = np.asarray(M.exp(p, np.tensordot(x, V, axes=1)))
        sd = rng.choice([0.02, 0.1, 0.4], size=(n, 1))
        Y = np.asarray(
            M.exp(q, M.from_coordinates(q, sd * rng.normal(size=(n, M.dim))))
        )
        z = rng.normal(size=(1 + k, M.dim))
        z *= near.reach * rng.choice([0.3, 1.0]) / np.linalg.norm(z)
        here, (r, W) = contributions(M, t, PREDICTOR_UNIT, Y, p, V), moved(M, p, V, z)
        there = contributions(M, t, PREDICTOR_UNIT, Y, r, W).rows.reshape(
            n, 1 + k, M.dim
        )
        back = np.asarray(
            M.to_coordinates(p, M.transport(r, p, M.from_coordinates(r, there)))
        ).reshape(n, -1)
        linear = np.einsum("ni,nj,jd->nid", a, a, z).reshape(n, -1)
        bound, unit = (
            near.remainders(np.linalg.norm(t, axis=1), here),
            np.linalg.norm(z),
        )
        off = np.linalg.norm(back - here.rows + linear, axis=1) / unit
        assert np.all(off <= bound + 1e-9)
        clipped = (
            np.linalg.norm(
                clip_rows(back, clip) - clip_rows(here.rows, clip) + linear, axis=1
            )
            / unit
        )
        counted = near.linearization_rows(t, here)[:, -1] * near.units.remainder
        assert np.all(clipped <= counted + 1e-9)
        ratios.append(np.max(off / (bound + 1e-9)))
    assert M.name.startswith("euclidean") or max(ratios) > 1 / 3


def pair_of(mechanism, accepted):
    """Where the mean clipped direction vanishes, by many steps without noise."""
    M, (x, Y, codes) = mechanism.manifold, accepted
    p, V = np.asarray(M.origin), np.zeros((x.shape[1], *M.point_shape))
    for _ in range(300):
        z = clipped_direction(
            M, x / PREDICTOR_UNIT, PREDICTOR_UNIT, Y, mechanism.domain.clip, p, V, codes
        )
        if np.linalg.norm(z) < 1e-13:
            break
        p, V = moved(M, p, V, 0.7 * z)
    return p, V


def holds(region, p, V):
    """Whether the geodesic, its predictions and its velocity are in the region."""
    M, k = region.manifold, len(V)
    xs = np.random.default_rng(0).uniform(-0.5, 1.5, (4, k))
    band = region.band(xs)
    inside = [
        bool(each.contains(M.exp(p, np.tensordot(x - 0.5, V, axes=1))))
        for each, x in zip(band, xs, strict=True)
    ]
    middle = region.pairs.pair
    apart = np.linalg.norm(
        M.norm(middle[0], np.asarray(M.transport(p, middle[0], V)) - middle[1])
    )
    joint = math.hypot(float(M.dist(p, middle[0])), PREDICTOR_UNIT * apart)
    return (
        all(inside)
        and apart <= region.velocity_radius
        and joint <= 1.01 * region.pairs.radius
    )


def shrunk(region, factor):
    band = region.pairs._replace(radius=factor * region.pairs.radius)
    return replace(region, velocity_radius=factor * region.velocity_radius, pairs=band)


@pytest.mark.parametrize(
    ("M", "n", "k", "factor"),
    [(Euclidean(2), 60_000, 1, 0.5), (Sphere(2), 4000, 1, 0.25), (Lorentz(2), 4000, 1, 0.25),
     (SPDAffineInvariant(2), 4000, 1, 0.25), (Euclidean(1), 20_000, 2, 0.4)],
    ids=lambda v: getattr(v, "name", str(v)),
)  # fmt: skip
def test_regions_of_geodesics_cover_and_smaller_ones_do_not(M, n, k, factor):
    """The last release many times, at the pair of one descent: its noise is fresh."""
    mechanism = BundleDescentMechanism.calibrate(
        GeodesicLine(M, None, 0.4, 1.0, 0.3, n, [[0.0, 1.0]] * k), GDP(1.0)
    )
    accepted, rng = mechanism.prepare_data(data(M, n, k=k)), np.random.default_rng(2)
    p, V = pair_of(mechanism, accepted)
    z = rng.normal(size=(1 + k, M.dim))
    q, W = moved(M, p, V, 2 * mechanism.final_scale * z)  # about as far as descents end
    value, law = (
        mechanism.final_values(accepted, q, W),
        RiemannianGaussian(
            Euclidean(mechanism.neighborhood.release_size), mechanism.final_scale
        ),
    )
    cell = 2.0 ** -grid_of(mechanism.final_scale)
    found = []
    for _ in range(24):
        drawn = value + mechanism.final_scale * rng.standard_normal(value.size)
        found.append(
            line_region(
                mechanism.statistic,
                NoisyDraw("line", law, drawn, cell, np.stack([q, *W])),
                LEVEL,
            )
        )
    assert all(each.theorem.startswith("conservative") for each in found)
    hits = sum(holds(each, p, V) for each in found)
    assert binomtest(hits, len(found), LEVEL, alternative="less").pvalue > 1e-4
    fewer = sum(holds(shrunk(each, factor), p, V) for each in found)
    assert binomtest(fewer, len(found), LEVEL, alternative="less").pvalue < 1e-6


@pytest.mark.parametrize(
    ("M", "radius"), [(Sphere(2), 0.4), (Euclidean(2), "private")], ids=str
)
def test_a_release_s_certificate_gives_the_region(M, radius):
    x, Y = data(M, 3000)
    limits = {} if radius == "private" else {"speed": 1.0, "clip": 0.3}
    model = PrivateGeodesicRegression(
        M, radius=radius, x_range=(0, 1), guarantee=GDP(4.0), method="auto" if radius == "private" else "dp-rgd",
        source=GeneratorSource(np.random.default_rng(3)), **limits,
    ).fit(x[:, 0], Y)  # fmt: skip
    region = model.confidence_region(0.95)
    again = region_of(Certificate.from_json(model.certificate_.to_json()), 0.95)
    assert region.theorem.startswith("conservative")
    assert again.radius == region.radius
    assert np.all(M.dist(region.center, model.footpoint_) < 2 * region.radius)
    assert np.all(M.norm(region.center, region.velocity) > 0.3)
    ends = [each.radius for each in region.band([0.0, 0.5, 1.0, 2.0])]
    assert ends[1] < ends[0] < ends[3]
    assert ends[0] == pytest.approx(region.radius)
    if radius == "private":
        with pytest.raises(ParameterError, match="public ball"):
            model.confidence_region(of="population")
    else:
        wider = model.confidence_region(0.95, of="population")
        assert wider.theorem.startswith("asymptotic")
        assert wider.radius > region.radius
        assert wider.velocity_radius > region.velocity_radius


@pytest.mark.parametrize("M", [Euclidean(2), Sphere(2)], ids=str)
def test_the_population_s_geodesic_is_covered(M):
    """Nearly without noise, so that the region of the records' own geodesic does not cover it."""
    found = records_only = 0
    V = np.asarray(
        M.from_coordinates(M.origin, 0.6 / math.sqrt(M.dim) * np.ones(M.dim))
    )
    foot = np.asarray(M.exp(M.origin, -0.5 * V))
    for seed in range(12):
        x, Y = data(M, 400, seed=seed + 5)
        model = PrivateGeodesicRegression(
            M, radius=0.4, speed=1.0, clip=0.3, guarantee=GDP(300.0), method="dp-rgd",
            source=GeneratorSource(np.random.default_rng(seed)),
        x_range=(0, 1)).fit(x[:, 0], Y)  # fmt: skip
        own, wider = (
            model.confidence_region(LEVEL, of=of) for of in ("records", "population")
        )
        records_only += bool(own.contains(foot))
        found += bool(wider.contains(foot)) and bool(
            wider.band([0.5])[0].contains(M.origin)
        )
        assert wider.radius < 0.4
    assert found >= 11
    assert records_only <= 4


def test_few_records_leave_the_public_domain_and_pure_epsilon_needs_more():
    M, (x, Y) = Sphere(2), data(Sphere(2), 40)
    for guarantee in (GDP(1.0), PureDP(1.0)):
        model = PrivateGeodesicRegression(
            M,
            radius=0.8,
            speed=1.5,
            clip=0.3,
            guarantee=guarantee,
            method="dp-rgd",
            x_range=(0, 1),
        )
        region = model.fit(x[:, 0], Y).confidence_region()
        assert region.theorem == "the whole public domain"
        assert region.velocity_radius == 1.5
    with pytest.raises(ParameterError, match="draws in float64"):
        PrivateGeodesicRegression(
            M, radius=0.8, speed=1.0, clip=0.3, method="kng", x_range=(0, 1)
        ).fit(x[:, 0], Y).confidence_region()


@pytest.mark.parametrize(
    "law",
    [RiemannianGaussian(Euclidean(8), 0.3), RiemannianLaplace(Euclidean(8), 0.3)],
    ids=str,
)
@pytest.mark.parametrize("part", [1, 3, 4])
def test_the_law_of_some_coordinates(law, part):
    rng = np.random.default_rng(4)
    u = rng.standard_normal((200_000, 8))
    if isinstance(law, RiemannianLaplace):
        u *= rng.gamma(8, 1.0, (len(u), 1)) / np.linalg.norm(u, axis=1, keepdims=True)
    length = 0.3 * np.linalg.norm(u[:, :part], axis=1)
    for r in (0.2, 0.6, 1.5):
        assert float(PartLengthLaw(law, 8, part).radial_cdf(r)) == pytest.approx(
            np.mean(length <= r), abs=0.005
        )


def test_nonfinite_predictors_give_nan_without_warnings():
    x = np.linspace(0, 1, 300)
    line = PrivateGeodesicRegression(
        Sphere(2),
        radius=0.4,
        speed=0.6,
        clip=0.3,
        guarantee=GDP(1.0),
        method="dp-rgd",
        x_range=(0, 1),
    )
    line.fit(x, np.tile(Sphere(2).origin, (300, 1)))
    odd = [np.nan, np.inf]
    with warnings.catch_warnings(action="error"):
        assert np.isnan(line.predict(odd)).all()
        assert not any(
            each.contains(line.footpoint_)
            for each in line.confidence_region().band(odd)
        )
