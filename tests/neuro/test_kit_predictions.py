"""Plans of starter kits: public numbers only, and about what releases for simulated people achieve."""

import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import GDP, PrivateMDM, PureDP, ReleaseWarning, plan
from curvedp.cli import app
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import SPDAffineInvariant, SPDLogEuclidean, Sphere
from curvedp.neuro import PrivateStarterKit
from curvedp.neuro.class_centers import (
    COMMON_SHARE,
    calibrate_kit,
    largest_length,
    predict_kit,
)
from curvedp.planning import AdviceKind
from curvedp.randomness import GeneratorSource
from curvedp.release.rebuild import mechanism_of


def symmetric(rng, *shape):
    """Return symmetric matrices whose packed entries are standard normal."""
    lower = rng.normal(size=shape) / np.sqrt(2)
    return lower + lower.swapaxes(-1, -2)


def exponential(logs):
    """Return the matrix exponentials of symmetric matrices."""
    values, vectors = np.linalg.eigh(logs)
    return (vectors * np.exp(values)[..., None, :]) @ vectors.swapaxes(-1, -2)


def people(n, channels, spread, rng, trials=20):
    """Return trials of n people, as the prediction assumes them, but as matrices.

    The strength of source 0 or 1 differs between two classes.
    """
    common = np.diag(np.eye(channels)[0] - np.eye(channels)[1])
    common *= np.sqrt(COMMON_SHARE) * spread / np.linalg.norm(common)
    logs = []
    for _ in range(n):
        own = symmetric(rng, channels, channels)
        own *= np.sqrt(1 - COMMON_SHARE) * spread / np.linalg.norm(own)
        for sign in np.tile([1, -1], trials):
            noise = 0.225 * symmetric(rng, channels, channels)
            logs.append(sign * (common + own) + noise)
    labels = np.tile(["a", "b"], n * trials)
    return exponential(np.array(logs)), labels, np.repeat(np.arange(n), 2 * trials)


@pytest.mark.parametrize(
    ("channels", "n", "mu", "radius", "spread"),
    [
        (4, 12, 1.0, 0.5, 0.5),
        (8, 12, 2.0, 0.5, 0.5),
        (8, 12, 2.0, "private", 0.5),
        (8, 20, 1.0, 0.5, 0.8),
        (3, 8, 0.2, 0.5, 0.5),
    ],
)
def test_the_predicted_accuracy_is_that_of_releases(channels, n, mu, radius, spread):
    """Releases of matrices, scored by affine-invariant distances: another path than the prediction."""
    manifold = SPDAffineInvariant(channels)
    study = plan(
        manifold,
        n=n,
        radius=radius,
        statistic="starter-kit",
        classes=2,
        guarantee=GDP(mu),
        spread=spread,
    )
    rng = np.random.default_rng(channels * n)
    accuracies = []
    for _ in range(10):
        X, y, subject = people(n + 4, channels, spread, rng)
        old = subject < n
        kit = PrivateStarterKit(
            radius=radius, guarantee=GDP(mu), source=GeneratorSource(rng)
        )
        with warnings.catch_warnings(action="ignore"):
            kit.fit(X[old], y[old], subject[old])
        for new in range(n, n + 4):
            accuracies.append(kit.score(X[subject == new], y[subject == new]))
    # The accuracies of ten kits have a standard error of about 0.03.
    assert np.mean(accuracies) == pytest.approx(1 - study.error, abs=0.1)


def test_more_people_fewer_channels_and_more_budget_help():
    def error(channels=8, n=12, mu=1.0, spread=0.5, radius=0.5):
        return predict_kit(channels, 2, n, radius, GDP(mu), spread).error

    middle = error()
    assert error(channels=4) < middle < error(channels=16)
    assert error(n=24) < middle < error(n=6)
    assert error(mu=2.0) < middle < error(mu=0.5)
    assert error(spread=1.0) < middle < error(spread=0.25)
    assert middle < error(radius=3.0)
    assert predict_kit(8, 2, 12, 0.5, PureDP(1.0)).error > middle
    # With very many people, only exact centers of all people are better.
    many = predict_kit(8, 2, 10**5, 0.5, GDP(1.0))
    assert many.error == pytest.approx(many.exact_error, abs=0.02)


def test_it_follows_from_public_numbers_alone():
    first = predict_kit(6, 3, 15, "private", GDP(1.0))
    predict_kit.cache_clear()
    assert predict_kit(6, 3, 15, "private", GDP(1.0)) == first
    assert 0 < first.exact_error < first.error < 2 / 3


@pytest.mark.parametrize(("channels", "classes"), [(1, 2), (1, 3), (2, 5)])
def test_more_classes_than_entries_are_predicted_too(channels, classes):
    prediction = predict_kit(channels, classes, 12, 0.5, GDP(2.0))
    assert 0 < prediction.error < 1


@pytest.mark.parametrize("radius", [0.5, "private"])
def test_the_planned_mechanism_is_that_of_the_release(radius):
    X, y, subject = people(10, 3, 0.5, np.random.default_rng(0), trials=4)
    kit = PrivateStarterKit(radius=radius, guarantee=GDP(4.0)).fit(X, y, subject)
    (certificate,) = kit.certificates_
    planned = calibrate_kit(3, 2, 10, radius, GDP(4.0))
    assert planned.info.name == certificate.mechanism
    released = mechanism_of(certificate)
    assert planned.scale == released.scale
    if radius == "private":
        outer_radius = certificate.statistic["outer_radius"]
        assert outer_radius == pytest.approx(largest_length(3, 2))


def test_a_plan_compares_a_small_public_ball_with_a_private_one():
    study = plan(
        SPDAffineInvariant(8),
        n=12,
        statistic="starter-kit",
        classes=2,
        guarantee=GDP(2.0),
    )
    assert set(study.errors) == {
        "PrivateStarterKit(radius=0.5)",
        "PrivateStarterKit(radius='private')",
    }
    assert study.mechanism == "PrivateStarterKit(radius=0.5)"
    assert not study.too_small
    assert "12 people in 2 classes" in study.title
    assert study.spread == 0.5
    needed = study.records_needed(0.15)
    assert 12 < needed < 30
    assert study._replan(n=needed).error == pytest.approx(0.15, abs=0.02)
    with pytest.raises(UnattainableGuarantee):
        study.records_needed(0.01)
    for question in (
        lambda: study.power(1.0),
        lambda: study.radius_for(0.2),
        study.region,
    ):
        with pytest.raises(ParameterError, match="starter kit"):
            question()


def test_a_study_that_is_too_small_is_told_what_would_do():
    study = plan(
        SPDAffineInvariant(16),
        n=8,
        radius=1.0,
        statistic="starter-kit",
        classes=2,
        guarantee=GDP(0.5),
    )
    assert study.too_small
    kinds = {line.kind: line.text for line in study.advice_with_kinds()}
    assert "guessing is about as good" in kinds[AdviceKind.TOO_SMALL]
    assert "people" in kinds[AdviceKind.REMEDY]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"manifold": Sphere(2)}, "covariance matrices"),
        ({"classes": 1}, "two or more"),
        ({"radius": "wide"}, "private"),
        ({"radius": 0.0}, "radius"),
        ({"spread": -1.0}, "spread"),
        ({"center": np.eye(8)}, "identity"),
        ({"outer_radius": 3.0}, "identity"),
        ({"n": 1}, "n=1"),
        ({"guarantee": GDP(1.0, adjacency="add-remove")}, "adjacency"),
        ({"mechanism": "newton"}, "mechanism"),
    ],
)
def test_nonsense_is_refused_in_words(given, said):
    options = {
        "manifold": SPDAffineInvariant(8),
        "n": 12,
        "statistic": "starter-kit",
        "classes": 2,
        **given,
    }
    with pytest.raises(ParameterError, match=said):
        plan(**options)


def test_another_metric_of_matrices_has_the_same_plan():
    options = {"n": 12, "statistic": "starter-kit", "classes": 2}
    assert (
        plan(SPDLogEuclidean(4), **options).errors
        == plan(SPDAffineInvariant(4), **options).errors
    )


def test_the_command_line_plans_a_kit():
    command = "plan -m spd-affine:8 -n 12 --mu 2 --statistic starter-kit --classes 2"
    answer = CliRunner().invoke(app, [*command.split(), "--json"])
    assert answer.exit_code == 0, answer.output
    content = json.loads(answer.stdout)
    assert content["mechanism"] == "PrivateStarterKit(radius=0.5)"
    assert 0.1 < content["error"] < 0.3
    refused = CliRunner().invoke(app, [*command.split()[:-2]])
    assert refused.exit_code == 2


def test_classifiers_that_guess_for_few_people_name_the_kit():
    X, y, subject = people(8, 4, 0.5, np.random.default_rng(0), trials=4)
    manifold = SPDAffineInvariant(4)
    with pytest.warns(ReleaseWarning, match="PrivateStarterKit"):
        PrivateMDM(manifold, reduce=2).fit(X, y, groups=subject)
    with pytest.warns(ReleaseWarning, match="chance level$"):
        PrivateMDM(manifold, reduce=2).fit(X, y)
    with pytest.raises(ParameterError, match="PrivateStarterKit"):
        PrivateMDM(manifold, radius="private").fit(X, y, groups=subject)
