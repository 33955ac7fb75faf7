"""Regions hold the truth as often as they say, and no oftener where they are exact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, chi, gamma

from curvedp import GDP, PrivateDispersion, PrivateFrechetMean
from curvedp.entropy import GeneratorSource
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    frechet_mean,
    project_to_ball,
)
from curvedp.inference import Region, region_of
from curvedp.mechanisms.choose import choose_mechanism
from curvedp.mechanisms.statistic import FrechetMean
from curvedp.records.base import open_records

RUNS, LEVEL, N = 400, 0.9, 25


def records(M, spread=0.3, shift=0.3, n=N, seed=0):
    rng = np.random.default_rng(seed)
    return np.asarray(M.unchart(M.origin, shift / np.sqrt(M.dim) + spread * rng.standard_normal((n, M.dim))))


def truth(M, X, radius):
    return np.asarray(frechet_mean(M, project_to_ball(M, M.origin, radius, X)))


def regions(M, name, radius, mu=1.0, runs=RUNS):
    """Regions of independent releases of one data set, and the Fréchet mean of its clipped records."""
    X = records(M)
    mechanism = choose_mechanism(name, FrechetMean(M, None, radius, N), GDP(mu)).mechanism
    data = mechanism.statistic.of(open_records(X, M.point_shape)) if mechanism.reads == "value" else X
    source = GeneratorSource(np.random.default_rng(1))
    found = [region_of(mechanism.release(data, source=source).certificate, LEVEL) for _ in range(runs)]
    return found, truth(M, X, radius)


def shrunk(region, factor=0.8):
    if region.chart is None:
        return replace(region, radius=factor * region.radius)
    return replace(region, chart=region.chart._replace(quantile=factor * region.chart.quantile))


EXACT = [
    (Sphere(2), "gaussian", 0.7, 1.0),
    (Sphere(2), "laplace", 0.7, 1.0),
    (Sphere(4), "log-gaussian", 0.7, 0.3),  # noise as wide as the ball: shrinkage and projection at work
    (Lorentz(3), "log-gaussian", 1.0, 1.0),
    (SPDAffineInvariant(2), "log-laplace", 1.0, 1.0),
    (SPDLogEuclidean(2), "gradient", 1.0, 1.0),
    (Euclidean(3), "gaussian", 1.0, 0.5),
]


@pytest.mark.parametrize(("M", "name", "radius", "mu"), EXACT, ids=lambda v: str(v))
def test_exact_regions_cover_as_often_as_they_say(M, name, radius, mu):
    found, mean = regions(M, name, radius, mu)
    hits = sum(bool(region.contains(mean)) for region in found)
    assert binomtest(hits, RUNS, LEVEL).pvalue > 1e-4
    assert binomtest(sum(bool(shrunk(region).contains(mean)) for region in found), RUNS, LEVEL).pvalue < 1e-6
    # what the ball of `radius` leaves out is not in the region either
    assert all(float(M.dist(region.center, mean)) <= region.radius for region in found if region.contains(mean))


@pytest.mark.parametrize(
    ("M", "name", "radius"),
    [
        (Lorentz(2), "newton", 1.0),
        (Sphere(3), "newton", 0.5),
        (Rotations(3), "gradient", 0.5),
        (SPDAffineInvariant(2), "gradient", 1.0),
    ],
    ids=lambda v: str(v),
)
def test_regions_after_gradient_steps_cover_at_least_as_often(M, name, radius):
    found, mean = regions(M, name, radius)
    hits = sum(bool(region.contains(mean)) for region in found)
    assert binomtest(hits, RUNS, LEVEL, alternative="less").pvalue > 1e-4
    less = sum(bool(shrunk(region, 0.1).contains(mean)) for region in found)
    assert binomtest(less, RUNS, LEVEL, alternative="less").pvalue < 1e-6  # the test has power


def test_a_wide_ball_is_the_region_itself_where_gradients_say_no_more():
    M = Sphere(2)
    mean = PrivateFrechetMean(M, radius=1.2, mechanism="newton", guarantee=GDP(0.5)).fit(records(M))
    region = mean.confidence_region()
    assert region.radius == pytest.approx(1.2)
    assert np.allclose(region.center, M.origin)


def test_the_radius_is_the_law_s_quantile():
    for name, law in (("log-gaussian", chi(4)), ("log-laplace", gamma(4))):
        mean = PrivateFrechetMean(Euclidean(4), radius=1.0, mechanism=name).fit(records(Euclidean(4)))
        wanted = law.ppf(0.95) * mean.certificate_.parameters["scale"]
        assert mean.confidence_region().radius == pytest.approx(wanted, rel=1e-6)


def test_the_radius_holds_the_chart_region():
    """Points of the region's boundary, far from the chart's base where curvature stretches them."""
    M, rng = Lorentz(3), np.random.default_rng(3)
    found, _ = regions(M, "log-gaussian", 2.0, 0.5, runs=10)
    for region in found:
        _, base, drawn, quantile, reach = region.chart
        u = rng.standard_normal((2000, 3))
        z = drawn + quantile * rng.uniform(size=(2000, 1)) ** (1 / 3) * u / np.linalg.norm(u, axis=1, keepdims=True)
        points = M.unchart(base, z[np.linalg.norm(z, axis=1) <= reach])
        assert np.all(region.contains(points))
        assert np.all(np.asarray(M.dist(region.center, points)) <= region.radius * (1 + 1e-9))


@pytest.mark.parametrize("M", [Euclidean(2), Lorentz(2), Sphere(2)], ids=str)
def test_the_population_s_mean_is_covered(M):
    radius, hits, runs = 0.5, 0, 60
    population = truth(M, records(M, n=4000, shift=0.1), radius)
    for seed in range(runs):
        mean = PrivateFrechetMean(M, radius=radius, mechanism="log-gaussian").fit(records(M, shift=0.1, seed=seed + 9))
        region = mean.confidence_region(level=0.8, of="population")
        assert region.radius > mean.confidence_region(level=0.8).radius
        hits += bool(region.contains(population))
    assert hits >= 0.8 * runs


def test_a_region_needs_the_certificate_only_and_a_shifted_center_moves_it():
    M = SPDAffineInvariant(2)
    center = np.array([[40.0, 3.0], [3.0, 9.0]])
    X = np.asarray(M.from_origin(center, records(M, 0.1, 0.1, 400)))
    mean = PrivateFrechetMean(M, radius=1.0, center=center, mechanism="log-gaussian", guarantee=GDP(2.0)).fit(X)
    again = region_of(type(mean.certificate_).from_json(mean.certificate_.to_json()), 0.9999)
    assert isinstance(again, Region)
    assert again.contains(frechet_mean(M, X))
    assert not again.contains(center)
    assert not again.contains(np.full((2, 2), np.nan))


def test_the_dispersion_has_an_interval():
    M = Sphere(2)
    found = PrivateDispersion(M, radius=0.9, guarantee=GDP(5.0)).fit(records(M, 0.2, 0.0, 500))
    region = found.confidence_region(0.999)
    X = records(M, 0.2, 0.0, 500)
    clipped = project_to_ball(M, M.origin, 0.9, X)
    variance = np.mean(np.asarray(M.dist(frechet_mean(M, clipped), clipped)) ** 2)
    assert region.contains(np.array([variance]))
    with pytest.raises(ParameterError, match="Fréchet means"):
        found.confidence_region(of="population")


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 2, np.nan, np.inf, "0.9", None])
def test_a_level_is_a_probability(level):
    mean = PrivateFrechetMean(Euclidean(2), radius=1.0).fit(records(Euclidean(2)))
    with pytest.raises(ParameterError, match="level"):
        mean.confidence_region(level)


def test_refusals_are_one_line():
    M = Euclidean(2)
    X = records(M)
    fitted = PrivateFrechetMean(M, radius=1.0).fit(X)
    wide = PrivateFrechetMean(Sphere(2), radius=2.0, mechanism="gradient").fit(records(Sphere(2)))
    stripped = replace(fitted.certificate_, release={**fitted.certificate_.release, "integers": None})
    refused = [
        lambda: PrivateFrechetMean(M, radius=1.0).confidence_region(),
        lambda: fitted.confidence_region(of="people"),
        lambda: region_of(stripped),
        lambda: region_of("certificate"),
        lambda: PrivateFrechetMean(M, radius=1.0, mechanism="kng").fit(X).confidence_region(),
        lambda: wide.confidence_region(),
        lambda: wide.confidence_region(of="population"),
        lambda: fitted.confidence_region().contains(np.zeros(3)),
    ]
    for ask in refused:
        with pytest.raises(ParameterError) as error:
            ask()
        assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")
def test_a_private_ball_has_no_region():
    mean = PrivateFrechetMean(Euclidean(2), radius="private").fit(records(Euclidean(2)))
    with pytest.raises(ParameterError, match="public radius"):
        mean.confidence_region()
