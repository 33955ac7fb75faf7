"""Regions hold the truth as often as they say, and no oftener where they are exact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, chi, gamma

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateMDM,
)
from curvedp.core.capabilities import NoisyDraw
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
from curvedp.geometry.capabilities import move_from_origin
from curvedp.inference import Region, consistent, region_of
from curvedp.inference.region import sampling_error
from curvedp.inference.shapes import SHAPES
from curvedp.laws import RiemannianGaussian
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.choose import choose_mechanism
from curvedp.report import write_report
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.geometric_median import GeometricMedian
from support.inference import mean_in_ball, shrink_region

RUNS, LEVEL, N = (
    160,
    0.9,
    25,
)  # so many that radii of 0.6 of the right ones are rejected at p < 1e-6


CELL = 2.0**-30  # the grid of draws of unit scale


def records(M, spread=0.3, shift=0.3, n=N, seed=0):
    rng = np.random.default_rng(seed)
    return np.asarray(
        M.from_normal_coordinates(
            M.origin, shift / np.sqrt(M.dim) + spread * rng.standard_normal((n, M.dim))
        )
    )


def regions(M, name, radius, mu=1.0, runs=RUNS):
    """Regions of independent releases of one data set, and the Fréchet mean of its clipped records."""
    X = records(M)
    mechanism = choose_mechanism(
        name, FrechetMean(M, None, radius, N), GDP(mu)
    ).mechanism
    data = (
        mechanism.statistic.compute(open_records(X, M.point_shape))
        if mechanism.info.reads == "value"
        else X
    )
    source = GeneratorSource(np.random.default_rng(1))
    found = [
        region_of(mechanism.release(data, source=source).certificate, LEVEL)
        for _ in range(runs)
    ]
    return found, mean_in_ball(M, X, radius)


EXACT = [
    (Sphere(2), "gaussian", 0.7, 1.0),
    (Sphere(2), "laplace", 0.7, 1.0),
    (
        Sphere(4),
        "tangent-gaussian",
        0.7,
        0.3,
    ),  # noise as wide as the ball: shrinkage and projection at work
    (Lorentz(3), "tangent-gaussian", 1.0, 1.0),
    (SPDAffineInvariant(2), "tangent-laplace", 1.0, 1.0),
    (SPDLogEuclidean(2), "gradient", 1.0, 1.0),
    (Euclidean(3), "gaussian", 1.0, 0.5),
]


@pytest.mark.parametrize(("M", "name", "radius", "mu"), EXACT, ids=lambda v: str(v))
def test_exact_regions_cover_as_often_as_they_say(M, name, radius, mu):
    found, mean = regions(M, name, radius, mu)
    hits = sum(bool(region.contains(mean)) for region in found)
    assert binomtest(hits, RUNS, LEVEL).pvalue > 1e-4
    assert (
        binomtest(
            sum(bool(shrink_region(region).contains(mean)) for region in found),
            RUNS,
            LEVEL,
        ).pvalue
        < 1e-6
    )
    # what the ball of `radius` leaves out is not in the region either
    assert all(
        float(M.dist(region.center, mean)) <= region.radius
        for region in found
        if region.contains(mean)
    )


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
    found, mean = regions(M, name, radius, runs=36)
    hits = sum(bool(region.contains(mean)) for region in found)
    assert binomtest(hits, len(found), LEVEL, alternative="less").pvalue > 1e-4
    less = sum(bool(shrink_region(region, 0.1).contains(mean)) for region in found)
    assert (
        binomtest(less, len(found), LEVEL, alternative="less").pvalue < 1e-6
    )  # the test has power


def test_a_wide_ball_is_the_region_itself_where_gradients_say_no_more():
    M = Sphere(2)
    mean = PrivateFrechetMean(
        M, radius=1.2, mechanism="newton", guarantee=GDP(0.5)
    ).fit(records(M))
    region = mean.confidence_region()
    assert region.radius == pytest.approx(1.2)
    assert np.allclose(region.center, M.origin)


def test_the_radius_is_the_law_s_quantile():
    for name, law in (("tangent-gaussian", chi(4)), ("tangent-laplace", gamma(4))):
        mean = PrivateFrechetMean(Euclidean(4), radius=1.0, mechanism=name).fit(
            records(Euclidean(4))
        )
        wanted = law.ppf(0.95) * mean.certificate_.parameters["scale"]
        assert mean.confidence_region().radius == pytest.approx(wanted, rel=1e-6)


def test_the_radius_holds_the_chart_region():
    """Points of the region's boundary, far from the chart's base where curvature stretches them."""
    M, rng = Lorentz(3), np.random.default_rng(3)
    found, _ = regions(M, "tangent-gaussian", 2.0, 0.5, runs=10)
    for region in found:
        _, base, drawn, quantile, reach = region.within
        u = rng.standard_normal((2000, 3))
        z = drawn + quantile * rng.uniform(size=(2000, 1)) ** (
            1 / 3
        ) * u / np.linalg.norm(u, axis=1, keepdims=True)
        points = M.from_normal_coordinates(base, z[np.linalg.norm(z, axis=1) <= reach])
        assert np.all(region.contains(points))
        assert np.all(
            np.asarray(M.dist(region.center, points)) <= region.radius * (1 + 1e-9)
        )


@pytest.mark.parametrize("M", [Euclidean(2), Lorentz(2), Sphere(2)], ids=str)
def test_the_population_s_mean_is_covered(M):
    radius, hits, runs = 0.5, 0, 60
    population = mean_in_ball(M, records(M, n=4000, shift=0.1), radius)
    for seed in range(runs):
        mean = PrivateFrechetMean(M, radius=radius, mechanism="tangent-gaussian").fit(
            records(M, shift=0.1, seed=seed + 9)
        )
        region = mean.confidence_region(level=0.8, of="population")
        assert region.radius > mean.confidence_region(level=0.8).radius
        hits += bool(region.contains(population))
    assert hits >= 0.8 * runs


def law_of_records(M):
    """Draws of one population on M, all of them well inside the ball of radius 0.5."""
    return lambda n, seed: records(M, 0.1, 0.05, n, seed)


def population_of_dispersion(M):
    X = law_of_records(M)(40_000, 1)
    return np.mean(np.asarray(M.dist(frechet_mean(M, X), X)) ** 2)


@pytest.mark.parametrize("M", [Euclidean(2), Lorentz(2), Sphere(2)], ids=str)
def test_the_population_s_dispersion_is_covered(M):
    """Nearly without noise, so that the region of the records' own dispersion does not cover it."""
    wanted, drawn, found, records_only = (
        population_of_dispersion(M),
        law_of_records(M),
        0,
        0,
    )
    for seed in range(40):
        fitted = PrivateDispersion(M, radius=0.5, guarantee=GDP(1e4)).fit(
            drawn(100, seed + 9)
        )
        found += bool(fitted.confidence_region(0.8, of="population").contains([wanted]))
        records_only += bool(fitted.confidence_region(0.8).contains([wanted]))
    assert found >= 32
    assert binomtest(records_only, 40, 0.8).pvalue < 1e-6


@pytest.mark.parametrize("M", [Euclidean(2), Lorentz(2)], ids=str)
def test_the_population_s_median_is_covered(M):
    wanted, drawn = median_of(M, law_of_records(M)(8000, 1)), law_of_records(M)
    for seed in range(20):
        fitted = PrivateFrechetMedian(M, radius=2.0, guarantee=GDP(3.0)).fit(
            drawn(2000, seed + 9)
        )
        region = fitted.confidence_region(0.8, of="population")
        assert region.contains(wanted)
        assert fitted.confidence_region(0.9).radius < region.radius < 2.0


def test_counts_of_a_sample_cover_the_population_s_median():
    """Two heaps, 51% of the population in the first: a sample with more in the second has its median there, whatever R is."""
    rng, statistic = (
        np.random.default_rng(4),
        GeometricMedian(Euclidean(1), None, 3.0, 400),
    )
    sampled, missed, wrong = sampling_error(statistic, 0.2), 0, 0
    for share in rng.binomial(400, 0.51, 500) / 400:
        w, beyond = (
            (np.array([0.0]), 1 - share) if share > 0.5 else (np.array([1.0]), share)
        )
        law = RiemannianGaussian(Euclidean(1), 1e-9)
        reading = NoisyDraw(
            "counts", law, np.array([400 * beyond]), CELL, w, 3.0, np.array([1e-3])
        )
        regions = [
            SHAPES["counts"](Euclidean(1), statistic, reading, 0.9, each)
            for each in (sampled, 0.0)
        ]
        away, own = (float(abs(shape.base[0])) > shape.radius for shape in regions)
        missed, wrong = missed + away, wrong + own
    assert missed <= 100
    assert wrong > 150  # what holds the records' median misses the population's


def test_a_region_needs_the_certificate_only_and_a_shifted_center_moves_it():
    M = SPDAffineInvariant(2)
    center = np.array([[40.0, 3.0], [3.0, 9.0]])
    X = np.asarray(move_from_origin(M, center, records(M, 0.1, 0.1, 400)))
    mean = PrivateFrechetMean(
        M, radius=1.0, center=center, mechanism="tangent-gaussian", guarantee=GDP(2.0)
    ).fit(X)
    again = region_of(
        type(mean.certificate_).from_json(mean.certificate_.to_json()), 0.9999
    )
    assert isinstance(again, Region)
    assert again.contains(frechet_mean(M, X))
    assert not again.contains(center)
    assert not again.contains(np.full((2, 2), np.nan))


@pytest.mark.parametrize("M", [Sphere(2), SPDAffineInvariant(2)], ids=str)
def test_a_dispersion_in_a_private_ball_has_an_interval_of_numbers(M, tmp_path):
    """Not a cap of the records' sphere; and a page can be drawn of it, after it is paid for."""
    X = records(M, 0.2, 0.0, 2000)
    found = PrivateDispersion(M, radius="private", guarantee=GDP(20.0)).fit(X)
    region = found.confidence_region(0.999)
    assert region.manifold == Euclidean(1)
    moved = project_to_ball(M, found.ball_.center, found.ball_.radius, X)
    variance = np.mean(np.asarray(M.dist(frechet_mean(M, moved), moved)) ** 2)
    assert region.contains(np.array([variance]))
    assert not region.contains(np.array([1.5 * variance]))
    write_report(tmp_path / "r.html", found)


def test_the_dispersion_has_an_interval():
    M = Sphere(2)
    found = PrivateDispersion(M, radius=0.9, guarantee=GDP(5.0)).fit(
        records(M, 0.2, 0.0, 500)
    )
    region = found.confidence_region(0.999)
    X = records(M, 0.2, 0.0, 500)
    clipped = project_to_ball(M, M.origin, 0.9, X)
    variance = np.mean(np.asarray(M.dist(frechet_mean(M, clipped), clipped)) ** 2)
    assert region.contains(np.array([variance]))
    with pytest.raises(ParameterError, match="too wide for a population region"):
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
    wide = PrivateFrechetMean(Sphere(2), radius=2.0, mechanism="gradient").fit(
        records(Sphere(2))
    )
    far = PrivateFrechetMedian(Sphere(2), radius=3.0).fit(records(Sphere(2)))
    stripped = replace(
        fitted.certificate_, release={**fitted.certificate_.release, "integers": None}
    )
    refused = [
        lambda: PrivateFrechetMean(M, radius=1.0).confidence_region(),
        lambda: fitted.confidence_region(of="people"),
        lambda: region_of(stripped),
        lambda: region_of("certificate"),
        lambda: (
            PrivateFrechetMean(M, radius=1.0, mechanism="kng")
            .fit(X)
            .confidence_region()
        ),
        lambda: wide.confidence_region(),
        lambda: wide.confidence_region(of="population"),
        lambda: far.confidence_region(of="population"),
        lambda: fitted.confidence_region().contains(np.zeros(3)),
    ]
    for ask in refused:
        with pytest.raises(ParameterError) as error:
            ask()
        assert "\n" not in str(error.value)


def clipped_mean(M, X, ball):
    return np.asarray(frechet_mean(M, project_to_ball(M, *ball, X)))


@pytest.mark.parametrize("M", [Euclidean(3), Sphere(2), Lorentz(2)], ids=str)
def test_a_private_ball_s_region_holds_the_mean_of_the_records_in_that_ball(M):
    X, source, runs = (
        records(M, 0.1, 0.2, 600),
        GeneratorSource(np.random.default_rng(1)),
        36,
    )
    fits = [
        PrivateFrechetMean(M, radius="private", source=source).fit(X)
        for _ in range(runs)
    ]
    fits = [
        fit for fit in fits if fit.ball_.radius < M.convexity_radius
    ]  # others are refused, by the ball alone
    runs = len(fits)
    found = [
        (fit.confidence_region(LEVEL), clipped_mean(M, X, fit.ball_)) for fit in fits
    ]
    hits = sum(bool(region.contains(mean)) for region, mean in found)
    assert binomtest(hits, runs, LEVEL, alternative="less").pvalue > 1e-4
    less = sum(
        bool(shrink_region(region, 0.1).contains(mean)) for region, mean in found
    )
    assert (
        binomtest(less, runs, LEVEL, alternative="less").pvalue < 1e-6
    )  # the test has power
    assert np.median([region.radius for region, _ in found]) < 0.5
    theorem = fits[0].confidence_region(of="population").theorem
    assert theorem.startswith("asymptotic")


def median_of(M, X):
    """By plain descent with tiny steps: an oracle that shares nothing with the mechanism."""
    w = np.asarray(frechet_mean(M, X))
    for step in np.geomspace(0.1, 1e-5, 400):
        z = np.asarray(M.normal_coordinates(w, X))
        w = np.asarray(
            M.from_normal_coordinates(
                w,
                step
                * np.mean(
                    z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12),
                    axis=0,
                ),
            )
        )
    return w


@pytest.mark.parametrize("M", [Euclidean(2), Sphere(2), SPDAffineInvariant(2)], ids=str)
def test_the_median_s_region_holds_it(M):
    X, source, runs = (
        records(M, 0.1, 0.3, 1500),
        GeneratorSource(np.random.default_rng(1)),
        30,
    )
    X[:150] = np.asarray(
        M.from_normal_coordinates(M.origin, np.full((150, M.dim), 0.6))
    )  # far ones, all in one place
    found = [
        PrivateFrechetMedian(M, radius=1.5, source=source)
        .fit(X)
        .confidence_region(LEVEL)
        for _ in range(runs)
    ]
    truth = median_of(M, X)
    assert (
        binomtest(
            sum(bool(region.contains(truth)) for region in found),
            runs,
            LEVEL,
            alternative="less",
        ).pvalue
        > 1e-4
    )
    assert (
        np.median([region.radius for region in found]) < 1.2
    )  # and it is not the whole ball


def test_a_median_s_ball_is_the_theorem_s_on_the_worst_records():
    """n·p records at distance R towards the others, which are far away: the median stays within 2pR/(2p − 1)."""
    for p, distance in ((0.6, 50.0), (0.8, 50.0), (0.55, 1e4)):
        X = np.array([[1.0]] * round(1000 * p) + [[distance]] * round(1000 * (1 - p)))
        median = float(np.median(X))
        assert abs(median) <= 2 * p / (2 * p - 1)
    source = GeneratorSource(np.random.default_rng(0))
    few = (
        PrivateFrechetMedian(Euclidean(2), radius=1.5, source=source)
        .fit(records(Euclidean(2), n=20))
        .confidence_region()
    )
    assert few.radius == 1.5  # nothing is known of so few


def test_all_class_means_are_covered_together():
    M, source, runs = Euclidean(2), GeneratorSource(np.random.default_rng(1)), 160
    X, y = records(M, n=120), np.repeat(["a", "b", "c", "d"], 30)
    truths = {label: mean_in_ball(M, X[y == label], 1.0) for label in "abcd"}
    hits, once = 0, 0
    for _ in range(runs):
        fitted = PrivateMDM(
            M, radius=1.0, source=source, mechanism="tangent-gaussian"
        ).fit(X, y)
        hits += all(
            bool(region.contains(truths[label]))
            for label, region in fitted.confidence_region(LEVEL).items()
        )
        alone = [region_of(each, LEVEL) for each in fitted.certificates_]
        once += all(
            bool(region.contains(truths[label]))
            for label, region in zip("abcd", alone, strict=True)
        )
    assert binomtest(hits, runs, LEVEL).pvalue > 1e-4
    assert (
        binomtest(once, runs, LEVEL).pvalue < 1e-6
    )  # each at the level itself would not do
    with pytest.raises(ParameterError, match="not fitted"):
        PrivateMDM(M, radius=1.0).confidence_region()


def test_two_releases_are_consistent_unless_they_differ():
    M, source = Sphere(2), GeneratorSource(np.random.default_rng(1))
    X = records(M, 0.1, 0.2, 300)

    def mean(data):
        return (
            PrivateFrechetMean(
                M, radius=0.7, source=source, mechanism="tangent-gaussian"
            )
            .fit(data)
            .certificate_
        )

    first = mean(X)
    assert sum(consistent(first, mean(X), LEVEL) for _ in range(60)) >= 50
    assert not consistent(first, mean(M.project(X + np.array([0, 0.4, 0]))), LEVEL)
    assert consistent(
        first, mean(M.project(X + np.array([0, 0.4, 0]))), LEVEL, of="population"
    )
    with pytest.raises(ParameterError, match="nothing to compare"):
        consistent(
            first,
            PrivateFrechetMean(Euclidean(2), radius=1.0)
            .fit(records(Euclidean(2)))
            .certificate_,
        )


@pytest.mark.parametrize(
    ("radii", "sizes", "message"),
    [
        ((0.7, 0.7), (300, 299), "300 and 299 records.*two_sample_test"),
        ((0.7, 0.8), (300, 300), "two balls.*two_sample_test"),
        (("private", "private"), (300, 300), "a private ball of its own"),
    ],
)
def test_releases_that_cannot_be_of_one_value_are_not_compared(radii, sizes, message):
    """They may differ although nothing is wrong, so no level would hold."""
    M = Sphere(2)
    X = records(M, 0.1, 0.2, 300)
    first, second = (
        PrivateFrechetMean(M, radius=radius).fit(X[:size]).certificate_
        for radius, size in zip(radii, sizes, strict=True)
    )
    with pytest.raises(ParameterError, match=message):
        consistent(first, second)
    consistent(first, second, of="population")


@pytest.mark.parametrize("M", [Euclidean(9), Sphere(2), SPDLogEuclidean(3)])
def test_an_empty_region_says_that_it_is_empty(M):
    """Noise of many radii: at next to no level the draw is too far from the ball for any point of it."""
    mean = PrivateFrechetMean(
        M, radius=0.3, guarantee=GDP(0.01), mechanism="tangent-gaussian"
    ).fit(np.stack([M.origin] * 2))
    none, some = mean.confidence_region(1e-9), mean.confidence_region(1 - 1e-9)
    assert ("empty" in none.theorem, bool(none.contains(none.center))) == (True, False)
    assert ("empty" in some.theorem, bool(some.contains(some.center))) == (False, True)
