"""`plan`: public numbers only; its errors are those of real releases, and its answers are the wanted ones."""

import json
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PrivateSynthesizer,
    PureDP,
    plan,
)
from curvedp.cli import app
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
    frechet_mean,
)
from curvedp.inference import two_sample_test
from curvedp.planning import AdviceKind
from curvedp.randomness import GeneratorSource
from curvedp.release.warnings import certificate_warnings
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.populations import (
    MEAN_SHAPE,
    SKEWED_SHAPE,
    population_of_spread,
)
from curvedp.statistics.searched_ball import SearchedMean
from support.releases import warning_texts
from support.spaces import SPACES


def test_the_predicted_error_is_that_of_releases():
    """Against the mean of real releases, whose noise is drawn by another path, of records that fill half the ball."""
    manifold, rng = SPDAffineInvariant(2), np.random.default_rng(0)
    study = plan(manifold, n=60, radius=1.5, guarantee=GDP(1.0))
    records = manifold.from_normal_coordinates(
        np.eye(2), rng.uniform(-0.4, 0.4, (60, 3)) + np.array([0.3, 0, 0])
    )
    truth = frechet_mean(manifold, records)
    model = PrivateFrechetMean(manifold, radius=1.5, mechanism=study.mechanism)
    errors = [
        float(manifold.dist(truth, model.fit(records).location_)) for _ in range(100)
    ]
    assert np.mean(errors) == pytest.approx(study.error, rel=0.25)


@pytest.mark.parametrize(
    "manifold", [Sphere(2), SPDLogEuclidean(3), Lorentz(3)], ids=repr
)
def test_the_number_of_records_gives_the_wanted_error(manifold):
    study = plan(manifold, n=200, radius=0.7)
    error = study.error * (2 if manifold == Sphere(2) else 1 / 3)
    n = study.records_needed(error)
    assert plan(manifold, n=n, radius=0.7).error == pytest.approx(error, rel=0.05)
    r = study.radius_for(study.error / 2)
    assert plan(manifold, n=200, radius=r).error == pytest.approx(
        study.error / 2, rel=0.05
    )


def test_an_error_that_any_study_has_needs_two_records_and_any_radius():
    study = plan(Sphere(2), n=200, radius=0.7)
    assert study.records_needed(10.0) == 2
    assert study.radius_for(10.0) == np.inf
    given = [
        "plan",
        "-m",
        "sphere:2",
        "-n",
        "200",
        "-r",
        "0.7",
        "--rho",
        "0.5",
        "--error",
        "10",
    ]
    assert "2 records, or any radius" in CliRunner().invoke(app, given).stdout


def test_what_is_said():
    study = plan(Sphere(2), n=200, radius=0.7)
    assert list(study.errors.values()) == sorted(study.errors.values())
    assert "tangent-laplace" in study.dominated
    assert "kng" in study.left_out
    assert not study.too_small
    assert study.mechanism in repr(study)
    assert "<table>" in study._repr_html_()
    assert json.loads(json.dumps(study.to_dict()))["mechanism"] == study.mechanism
    small = plan(Euclidean(20), n=5, radius=1.0, guarantee=GDP(0.1))
    assert small.too_small
    assert "too small: the public center alone would be as accurate" in str(small)
    # Shrinkage keeps the error of a hopeless study below a third of the radius; the center is as good all the same.
    assert plan(SPDAffineInvariant(8), n=50, radius=3.0, guarantee=GDP(0.1)).too_small


def test_a_few_records_stand_for_many_in_hyperbolic_space():
    """A few public records that stand for n, against n real ones: the same error, which falls like 1/n."""
    small, large = (plan(Lorentz(3), n=n, radius="private").error for n in (1000, 8000))
    assert 3 < small / large < 30
    manifold, rng = Lorentz(3), np.random.default_rng(0)
    records = manifold.from_normal_coordinates(
        manifold.origin, rng.uniform(-0.3, 0.3, (1000, 3))
    )
    truth, model = (
        frechet_mean(manifold, records),
        PrivateFrechetMean(manifold, radius="private"),
    )
    real = np.mean(
        [float(manifold.dist(truth, model.fit(records).location_)) for _ in range(10)]
    )
    assert 0.2 < real / small < 5


@pytest.mark.parametrize(
    ("manifold", "spread"),
    [
        (Sphere(2), 0.4),
        (Euclidean(3), 7e3),
        (SPDAffineInvariant(2), 1.0),
        (SPDAffineInvariant(2), 1e-3),
        (Lorentz(3), 2.0),
        (Euclidean(40), 1.0),
    ],
    ids=repr,
)
def test_a_stated_spread_gives_the_error_of_records_of_that_spread(manifold, spread):
    """Against real releases, drawn by another path, of normal records elsewhere."""
    rng, n = np.random.default_rng(1), 500
    away = rng.normal(size=manifold.dim)
    middle = manifold.from_normal_coordinates(
        manifold.origin, 0.5 * spread * away / np.sqrt(away @ away)
    )
    z = rng.normal(size=(n, manifold.dim)) / np.arange(1, manifold.dim + 1) ** 0.5
    z *= spread / np.sqrt(np.mean(np.sum(z**2, axis=1)))
    X = np.asarray(manifold.from_normal_coordinates(middle, z))
    mean = frechet_mean(manifold, X)
    model = PrivateFrechetMean(manifold, radius="private")
    errors = [float(manifold.dist(mean, model.fit(X).location_)) for _ in range(48)]
    study = plan(manifold, n, "private", spread=spread)
    # Of a twelfth of the spread, as was predicted before, this would be 2 or more. Of
    # forty-eight errors the root mean square varies by about a fourteenth.
    assert 1 / 1.8 < np.sqrt(np.mean(np.square(errors))) / study.error < 1.8
    assert study.spread == spread
    assert f"taken as {spread:.3g}" in str(study)


def test_wide_hyperbolic_records_lie_near_an_edge():
    """Against real releases of records far out, as embeddings of trees are.

    With tails as on other spaces the prediction would be three times as large.
    """
    disk, n = Lorentz(2), 1000
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(n, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = rng.uniform(5.0, 9.0, (n, 1))
    X = np.asarray(disk.from_normal_coordinates(disk.origin, lengths * directions))
    mean = frechet_mean(disk, X)
    spread = float(np.sqrt(np.mean(np.asarray(disk.dist(mean, X)) ** 2)))
    model = PrivateFrechetMean(disk, radius="private")
    errors = [float(disk.dist(mean, model.fit(X).location_)) for _ in range(40)]
    study = plan(disk, n, "private", spread=spread)
    assert 1 / 1.8 < np.sqrt(np.mean(np.square(errors))) / study.error < 1.8


def test_public_records_of_means_are_less_skewed_than_those_of_directions():
    """The shape decides about skewness and about how many directions matter."""
    space = Euclidean(20)
    skewness, dimension = {}, {}
    for shape in (SKEWED_SHAPE, MEAN_SHAPE):
        X = population_of_spread(space, space.origin, 2.0, 1024, shape).records
        X = X - X.mean(axis=0)
        skewness[shape] = float(np.mean(np.mean(X**3, axis=0) / X.std(axis=0) ** 3))
        variances = X.var(axis=0)
        dimension[shape] = variances.sum() ** 2 / np.sum(variances**2)
        assert np.sqrt(variances.sum()) == pytest.approx(2.0, rel=0.03)
    # A Gamma variable of shape a has the skewness 2/√a.
    assert skewness[SKEWED_SHAPE] == pytest.approx(2 / 3, abs=0.1)
    assert skewness[MEAN_SHAPE] == pytest.approx(1 / 3, abs=0.1)
    assert dimension[MEAN_SHAPE] < 0.6 * dimension[SKEWED_SHAPE]


def kinds_of_advice(study):
    return {line.kind for line in study.advice_with_kinds()}


def test_plans_say_where_they_cannot_be_relied_upon():
    """Most records outside, a ball that is too wide one time in ten, rare errors."""
    few = plan(Sphere(2), 50, "private", spread=0.3)
    assert AdviceKind.RECORDS_OUTSIDE in kinds_of_advice(few)
    assert f"about {few.clipped_share:.0%} of so few records" in str(few)

    study = plan(Sphere(2), 1000, "private", spread=0.3)
    doubts = {
        AdviceKind.RECORDS_OUTSIDE,
        AdviceKind.SEVERAL_MEANS,
        AdviceKind.RARE_ERRORS,
    }
    assert not doubts & kinds_of_advice(study)
    assert study.found_radius <= study.wide_radius < Sphere(2).convexity_radius
    sometimes_wide = replace(study, wide_radius=1.6)
    assert AdviceKind.SEVERAL_MEANS in kinds_of_advice(sometimes_wide)
    rarely_wrong = replace(study, median_error=study.error / 3)
    assert AdviceKind.RARE_ERRORS in kinds_of_advice(rarely_wrong)
    assert f"less than {study.error / 3:.2g}" in str(rarely_wrong)


def test_a_spread_is_for_private_balls():
    with pytest.raises(ParameterError, match="private"):
        plan(Sphere(2), 500, 0.7, spread=0.3)
    for wrong in (0, -1.0, np.nan, np.inf, "wide"):
        with pytest.raises(ParameterError, match="spread"):
            plan(Sphere(2), 500, "private", spread=wrong)
    given = ["plan", "-m", "sphere:2", "-n", "500", "-r", "private", "--mu", "1"]
    shown = CliRunner().invoke(app, [*given, "--spread", "0.3", "--json"])
    assert json.loads(shown.stdout)["spread"] == 0.3


def test_plans_for_records_without_one_mean_say_so():
    words = "have only one mean for sure below"
    assert words in str(plan(Sphere(2), 500, "private", spread=1.3))
    assert words not in str(plan(Sphere(2), 500, "private", spread=0.4))
    assert words not in str(plan(SPDBuresWasserstein(2), 500, "private"))


def test_many_dimensions_and_few_records_are_too_few():
    assert plan(Euclidean(400), 200, "private").too_small
    assert not plan(Euclidean(400), 5000, "private").too_small


def test_a_private_ball_is_planned():
    study = plan(Sphere(2), n=2000, radius="private")
    assert study.mechanism == "private-ball"
    assert 0 < study.error < 0.1
    assert study.records_needed(study.error / 2) > 2500


@pytest.mark.parametrize(
    "manifold", [Sphere(2), Euclidean(3), SPDAffineInvariant(2)], ids=repr
)
def test_variances_and_lines_in_a_private_ball_are_planned(manifold):
    """Against real releases, drawn by another path, of records of the planned spread."""
    rng, n = np.random.default_rng(0), 400
    study = plan(manifold, n, "private", statistic="dispersion")
    z = study.spread / np.sqrt(manifold.dim) * rng.normal(size=(n, manifold.dim))
    X = np.asarray(manifold.from_normal_coordinates(manifold.origin, z))
    truth = np.mean(np.asarray(manifold.dist(frechet_mean(manifold, X), X)) ** 2)
    assert truth == pytest.approx(
        study.useless_error, rel=0.3
    )  # 0 would miss it by that
    model = PrivateDispersion(manifold, radius="private")
    real = np.mean([abs(model.fit(X).deviation_ ** 2 - truth) for _ in range(40)])
    assert 1 / 3 < real / study.error < 3
    line = plan(manifold, n, "private", statistic="regression")
    x = rng.uniform(size=n)
    fits = [
        PrivateGeodesicRegression(
            manifold, radius="private", guarantee=GDP(1.0), x_range=(0, 1)
        ).fit(x, X)
        for _ in range(10)
    ]
    middle = np.concatenate([fit.predict(np.array([0.5])) for fit in fits])
    away = np.asarray(
        manifold.dist(middle, frechet_mean(manifold, X))
    )  # no trend: the line is near the mean
    assert 1 / 6 < np.mean(away) / line.error < 3  # the error counts the velocity too
    few = plan(manifold, 12, "private", GDP(0.1), statistic="regression")
    assert few.too_small
    assert line.records_needed(line.error / 2) > 1.3 * n
    assert "private regression" in str(line)


def test_variances_in_a_given_ball_are_planned():
    study = plan(Euclidean(2), 500, 1.0, statistic="dispersion")
    model = PrivateDispersion(Euclidean(2), radius=1.0, mechanism=study.mechanism)
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
    real = [abs(model.fit(X).deviation_ ** 2 - X.var(axis=0).sum()) for _ in range(100)]
    assert np.mean(real) == pytest.approx(study.error, rel=0.4)
    shown = CliRunner().invoke(app, ["plan", "-m", "euclidean:2", "-n", "500", "-r", "1", "--mu", "1", "--statistic",
                                     "dispersion", "--json"])  # fmt: skip
    assert json.loads(shown.stdout)["error"] == study.error


@pytest.mark.parametrize(
    "given",
    [{"n": 1}, {"n": 2.5}, {"radius": 0}, {"radius": np.nan}, {"radius": "large"}, {"radius": None}, {"guarantee": 1.0},
     {"manifold": "sphere"}, {"center": [2.0, 0, 0]}, {"radius": 3.0}, {"guarantee": GDP(1.0, adjacency="add-remove")},
     {"statistic": "mode"}, {"statistic": None}, {"statistic": "regression"}],
    ids=repr,
)  # fmt: skip
def test_mistakes_are_one_line(given):
    with pytest.raises((ParameterError, UnattainableGuarantee)) as raised:
        plan(
            **{
                "manifold": Sphere(2),
                "n": 100,
                "radius": 0.5,
                "guarantee": PureDP(1.0),
                **given,
            }
        )
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, np.inf, None])
def test_errors_that_are_none_are_refused(wrong):
    with pytest.raises(ParameterError):
        plan(Sphere(2), n=100, radius=0.5, mechanism="tangent-gaussian").records_needed(
            wrong
        )


def test_warnings_of_releases():
    """Enumerated: a misplaced ball, one too small, too much noise; and silence where all is well."""
    X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (300, 3)))
    rare = GDP(20.0)
    assert (
        warning_texts(PrivateFrechetMean(Sphere(2), radius=0.7, guarantee=rare).fit(X))
        == []
    )
    for center, radius in (([0.0, 1, 0], 0.5), ([-0.6, 0.8, 0], 0.3)):
        model = PrivateFrechetMean(
            Sphere(2), radius=radius, center=center, guarantee=rare
        ).fit(X)
        assert "edge" in warning_texts(model)[0]
    tensors = SPDAffineInvariant(3).from_normal_coordinates(
        np.eye(3), np.full((9, 6), 0.1)
    )
    found = warning_texts(
        PrivateFrechetMean(SPDAffineInvariant(3), radius=3, guarantee=GDP(0.05)).fit(
            tensors
        )
    )
    assert any(
        "center of the ball is an equally good estimate" in line for line in found
    )
    for quiet in (
        PrivateMDM(Sphere(2), radius=0.7, guarantee=rare).fit(X, np.arange(300) % 2),
        PrivatePCA(1, 1.2).fit(X),
    ):
        assert warning_texts(quiet) == []


def test_the_region_is_about_that_of_a_release():
    """Against the exact quantile on flat space, and against releases of real records on curved space."""
    study = plan(
        Euclidean(2),
        n=100,
        radius=1.0,
        guarantee=GDP(1.0),
        mechanism="tangent-gaussian",
    )
    sigma = 2 * 1.0 / 100
    assert study.region(0.95) == pytest.approx(
        sigma * np.sqrt(-2 * np.log(0.05)), rel=1e-3
    )  # of a Rayleigh law
    for manifold in (Sphere(2), SPDAffineInvariant(2)):
        # As far from the center as the mean of the public records: a step's region
        # grows with that distance.
        coordinates = np.random.default_rng(0).uniform(-0.2, 0.2, (300, manifold.dim))
        coordinates[:, 0] += 0.12
        records = manifold.from_normal_coordinates(manifold.origin, coordinates)
        study = plan(manifold, n=300, radius=0.7)
        radii = []
        for seed in range(6):
            source = GeneratorSource(np.random.default_rng(seed))
            mean = PrivateFrechetMean(
                manifold, radius=0.7, mechanism=study.mechanism, source=source
            ).fit(records)
            radii.append(mean.confidence_region(0.95).radius)
        assert study.region() == pytest.approx(np.mean(radii), rel=0.3)
    for manifold in (
        Euclidean(3),
        Sphere(2),
        SPDAffineInvariant(2),
        Lorentz(2),
    ):  # the ball that is found has a size too
        study = plan(manifold, n=600, radius="private")
        assert 0.5 * study.error < study.region() < 5 * study.error
    with pytest.raises(ParameterError, match="after the release"):
        plan(Sphere(2), n=10**6, radius=0.7, mechanism="gaussian").region()


def test_a_ball_that_is_to_be_found_has_a_size_on_every_space():
    """Or a plan would say that nothing is lost, as it did under Bures and Wasserstein's metric."""
    sizes = {
        repr(M): SearchedMean(M, None, None, 400).reference_ball.radius for M in SPACES
    }
    assert min(sizes.values()) > 0.05, sizes
    study = plan(SPDBuresWasserstein(2), n=400, radius="private")
    assert (
        study.error > study.spread / 4 * 2 / 400
    )  # the least noise of records that fill a quarter of it


def test_one_mechanism_is_predicted_as_among_all():
    study = plan(Sphere(2), n=200, radius=0.7)
    for name, error in list(study.errors.items())[:2]:
        assert plan(Sphere(2), n=200, radius=0.7, mechanism=name).errors == {
            name: error
        }
    with pytest.raises(ParameterError, match="mechanism"):
        plan(Sphere(2), n=200, radius=0.7, mechanism="none")


def test_warnings_follow_from_the_certificate_alone(tmp_path):
    far = PrivateFrechetMean(Euclidean(2), radius=1.0, guarantee=GDP(10.0)).fit(
        np.full((1000, 2), 9.0)
    )
    again = type(far.certificate_).from_json(far.certificate_.to_json())
    texts = [warning.text for warning in certificate_warnings(again)]
    assert texts == warning_texts(far)
    assert "edge" in texts[0]
    assert "edge" in again._repr_html_()
    unlisted = replace(again, release={**again.release, "integers": None})
    assert certificate_warnings(unlisted) == []
    again.save(tmp_path / "certificate.json")
    shown = CliRunner().invoke(
        app, ["verify", str(tmp_path / "certificate.json"), "--seconds", "60"]
    )
    assert shown.exit_code == 0
    assert "edge" in shown.stdout


def test_the_predicted_power_is_that_of_the_test():
    """Against real tests, through the public path, of samples that are drawn anew."""
    M, rng, runs = Euclidean(2), np.random.default_rng(0), 60
    study = plan(M, n=60, radius=1.0, guarantee=GDP(2.0))
    expected = study.power(0.15, spread=0.4)
    draws = (
        0.4 / np.sqrt(2) * rng.standard_normal((2, 60, 2))
        + [[[0.075, 0]], [[-0.075, 0]]]
        for _ in range(runs)
    )
    found = sum(
        two_sample_test(
            M, *pair, radius=1.0, guarantee=GDP(2.0), permutations=99
        ).rejected
        for pair in draws
    )
    assert 0.2 < expected < 0.95
    assert binomtest(found, runs, expected).pvalue > 1e-4
    assert study.power(0.0) <= 0.15
    assert study.power(0.15, spread=0.4, m=300) > expected - 0.1
    for wrong in (
        {"shift": -1.0},
        {"shift": 0.1, "level": 2},
        {"shift": 0.1, "spread": 0},
        {"shift": 0.1, "m": 1},
    ):
        with pytest.raises(ParameterError):
            study.power(**wrong)


def test_the_picture_of_a_plan_shows_its_error(tmp_path):
    picture = plan(Euclidean(2), n=50, radius=1.0).plot()
    by_n, by_mu = (axes.lines[0].get_xydata() for axes in picture.axes)
    assert by_n[3].tolist() == [
        50,
        pytest.approx(plan(Euclidean(2), n=50, radius=1.0).error),
    ]
    assert np.all(np.diff(by_n[:, 1]) < 0)
    assert np.all(np.diff(by_mu[:, 1]) < 0)
    study = [
        "plan",
        "-m",
        "euclidean:2",
        "-n",
        "50",
        "-r",
        "1",
        "--mu",
        "1",
        "--shift",
        "0.5",
        "--plot",
    ]
    ran = CliRunner().invoke(app, [*study, str(tmp_path / "p.svg")])
    assert ran.exit_code == 0
    assert "power" in ran.stdout
    assert (tmp_path / "p.svg").exists()


def test_class_means_are_planned_as_they_are_released():
    """A class is a mean of its own records; small classes share a ball. Against real releases, drawn by another path."""
    assert plan(Sphere(2), 400, 0.7, classes=4).error == plan(Sphere(2), 100, 0.7).error
    assert (
        plan(Sphere(2), 400, "private", classes=4).error
        == plan(Sphere(2), 100, "private").error
    )
    M, rng, y = Sphere(2), np.random.default_rng(0), np.arange(120) % 4
    study = plan(
        M, 120, "private", GDP(1.0), classes=4
    )  # 30 records are too few for a ball of their own
    assert study.error < 0.8 * plan(M, 30, "private", GDP(1.0)).error
    z = rng.uniform(-1, 1, (120, 2))
    X = np.asarray(
        M.from_normal_coordinates(
            M.origin,
            study.spread * z * np.sqrt(3 / 2),
        )
    )
    truth = [frechet_mean(M, X[y == k]) for k in range(4)]
    fits = [PrivateMDM(M, radius="private").fit(X, y) for _ in range(10)]
    assert (
        1 / 3
        < np.mean([M.dist(np.stack(truth), fit.means_) for fit in fits]) / study.error
        < 3
    )
    assert "in 4 classes" in study.title
    assert 100 < study.records_needed(study.error) < 150


def test_the_classifier_of_many_channels_is_chosen():
    """By simulation of public records, square roots come before logarithms.

    This is as measured on others (docs/howto/high-dimensional-covariances.md). Where
    records are too few, the plan says how many would do.
    """
    M = SPDAffineInvariant(16)
    study = plan(M, 160, statistic="classifier", classes=4, guarantee=GDP(1.0))
    assert "power" in study.mechanism
    assert study.errors["PrivateMDM(reduce=12, features='log')"] > 2 * study.error
    assert 0 < study.error < 0.35
    assert study.advice()[0].startswith(f"take {study.mechanism}: ")
    few = plan(M, 40, statistic="classifier", classes=4, guarantee=GDP(0.5))
    assert few.too_small
    assert "records would do" in few.advice()[-1]
    assert (
        plan(
            M, 10**6, statistic="classifier", classes=4, mechanism=study.mechanism
        ).error
        < 0.1
    )
    shown = CliRunner().invoke(app, ["plan", "-m", "spd-affine:4", "-n", "60", "--mu", "1", "--statistic", "classifier",
                                     "--classes", "2", "--json"])  # fmt: skip
    small = plan(
        SPDAffineInvariant(4), 60, statistic="classifier", classes=2, guarantee=GDP(1.0)
    )
    assert json.loads(shown.stdout)["errors"] == small.errors


@pytest.mark.parametrize(
    "given",
    [{"classes": 0}, {"classes": 60}, {"classes": 2, "statistic": "dispersion"}, {"classes": 1.5}, {"classes": None},
     {"statistic": "classifier"}, {"statistic": "classifier", "radius": None},
     {"manifold": SPDAffineInvariant(4), "statistic": "classifier", "radius": None},
     {"manifold": SPDAffineInvariant(4), "statistic": "classifier", "radius": 1.0, "classes": 2},
     {"manifold": SPDAffineInvariant(4), "statistic": "classifier", "radius": None, "classes": 2, "guarantee": PureDP(1.0)}],
    ids=repr,
)  # fmt: skip
def test_mistakes_about_classes_are_one_line(given):
    with pytest.raises((ParameterError, UnattainableGuarantee)) as raised:
        plan(**{"manifold": Sphere(2), "n": 100, "radius": 0.5, **given})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("wanted", [1e-2, 1e-7])
def test_the_number_of_records_is_that_of_the_mechanism_that_is_best_there(wanted):
    """At few records one gradient step is the best on a sphere; with many its bias is all that is left of its error."""
    n = plan(Sphere(2), n=50, radius=1.0).records_needed(wanted)
    assert plan(Sphere(2), n=n, radius=1.0).error == pytest.approx(wanted, rel=0.03)


def test_errors_no_number_of_records_has_are_refused_in_one_line():
    with pytest.raises(UnattainableGuarantee, match="no number of records"):
        plan(Sphere(2), n=100, radius=0.5, mechanism="tangent-gaussian").records_needed(
            1e-300
        )


@pytest.mark.parametrize("wanted", [0.03, 0.1, 1.0])
def test_every_radius_that_is_suggested_can_be_planned(wanted):
    radius = plan(Sphere(2), n=100, radius=1.0).radius_for(wanted)
    assert radius == np.inf or plan(
        Sphere(2), n=100, radius=radius
    ).error == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("classes", [2, 40])
def test_every_class_has_two_records_at_least(classes):
    study = plan(Sphere(2), n=400, radius=1.0, classes=classes)
    assert study.records_needed(5.0) == 2 * classes
    for factor in (0.5, 1.5, 10):
        n = study.records_needed(factor * study.error)
        assert n >= 2 * classes
        assert (
            plan(Sphere(2), n=n, radius=1.0, classes=classes).error
            <= 1.1 * factor * study.error
        )


def test_a_mechanism_with_a_useful_region_is_named():
    """In wide balls on the sphere Newton's steps err least, with the ball as region."""
    from curvedp.planning import AdviceKind

    def advice(manifold, n, radius):
        lines = plan(manifold, n, radius, GDP(1.0)).advice_with_kinds()
        return [line.text for line in lines if line.kind is AdviceKind.WIDE_REGION]

    (text,) = advice(Sphere(2), 705, 1.3)
    assert text.startswith("the 95% region of newton can be as wide as the ball")
    assert "gradient about 0.0" in text
    assert not advice(Sphere(2), 705, 0.5)
    assert not advice(Sphere(2), 705, 1.2)  # the sharper bounds reach as far
    assert not advice(Euclidean(2), 705, 1.3)
    wide = PrivateFrechetMean(Sphere(2), radius=1.2, mechanism="gradient")
    records = Sphere(2).project(
        np.random.default_rng(0).normal([2.5, 0, 0], 0.5, (705, 3))
    )
    assert wide.fit(records).confidence_region(0.95).radius < 0.1


# ---- synthetic records


def test_synthetic_records_are_planned_as_they_are_released():
    """The same models in the same order, and the error that the release states."""
    study = plan(Sphere(2), 800, 0.8, GDP(1.0), statistic="synthetic")
    assert set(study.errors) == {"tree", "mixture", "wrapped-gaussian"}
    assert not study.too_small
    assert "energy distance" in str(study)
    X = Sphere(2).project(np.random.default_rng(0).normal([2.0, 0, 0], 0.4, (800, 3)))
    fitted = PrivateSynthesizer(Sphere(2), radius=0.8, guarantee=GDP(1.0)).fit(X)
    assert fitted.model_ == study.mechanism
    assert fitted.predicted_error_ == pytest.approx(study.error)
    # More records, a smaller error; and few of them are too few.
    needed = study.records_needed(study.error / 2)
    assert needed > 1200
    assert plan(Sphere(2), 20, 0.8, GDP(0.2), statistic="synthetic").too_small


def test_synthetic_records_in_a_private_ball_are_planned():
    study = plan(
        Sphere(2), 800, "private", statistic="synthetic", classes=2, spread=0.3
    )
    assert list(study.errors) == ["tree"]
    assert 0 < study.error < study.useless_error
    with pytest.raises(ParameterError, match="mechanism"):
        plan(Sphere(2), 800, "private", statistic="synthetic", mechanism="mixture")
    with pytest.raises(ParameterError, match="combine_synthetic"):
        study.region()


# ---- statistics of one's own with further parameters


@dataclass(frozen=True, eq=False)
class _ScaledVariance(FrechetVariance):
    """The variance times a public factor of at most 1; it has no name of its own."""

    factor: float


def test_a_statistic_with_parameters_of_its_own_is_planned():
    public = (Sphere(2), 500, 0.7, GDP(1.0))
    planned = plan(*public, statistic=partial(_ScaledVariance, factor=0.5))
    assert planned.error == plan(*public, statistic=FrechetVariance).error
    assert planned.records_needed(planned.error / 2) == pytest.approx(1000, rel=0.1)
    for wrong in (_ScaledVariance, partial(_ScaledVariance, factor=1.0, scale=2.0)):
        with pytest.raises(ParameterError, match=r"of its own \(factor\)"):
            plan(*public, statistic=wrong)
    with pytest.raises(ParameterError, match="derives from ClippedToBall"):
        plan(*public, statistic=partial(dict, factor=1.0))
