"""`PrivateSynthesizer`: what goes in and comes out, units of privacy, bad rows, files that repeat, error bars."""

import warnings

import numpy as np
import pytest

from curvedp import GDP, Ledger, PrivateSynthesizer, PureDP, ReleaseWarning
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import ParameterError
from curvedp.estimators.synthesizer import population_from_certificate
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.inference import combine_synthetic
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from curvedp.statistics.energy import energy_distance
from support.transcript import cloud, spent

S2 = Sphere(2)
MODELS = ("wrapped-gaussian", "mixture", "tree")


def records(n=600, M=S2, seed=0, spread=0.3):
    center = np.asarray(M.from_normal_coordinates(M.origin, 0.2 * np.eye(M.dim)[0]))
    return cloud(M, spread, n, np.random.default_rng(seed), center)


@pytest.mark.parametrize("model", ["auto", *MODELS])
@pytest.mark.parametrize("radius", [1.0, "private"])
def test_a_file_repeats_exactly_from_its_certificate_and_a_public_seed(
    model, radius, tmp_path
):
    fitted = PrivateSynthesizer(S2, model, radius).fit(records())
    path = tmp_path / "certificate.json"
    path.write_text(fitted.certificate_.to_json())
    again = population_from_certificate(Certificate.from_json(path.read_text()))
    drawn = fitted.sample(250, rng=11)
    assert np.array_equal(drawn, again.sample(250, np.random.default_rng(11)).points)
    assert not np.array_equal(drawn, fitted.sample(250, rng=12))
    assert all(check.holds for check in verify_certificate(fitted.certificate_))
    assert fitted.model_ in MODELS
    assert np.max(S2.residual(drawn)) < 1e-9
    assert np.max(S2.dist(fitted.ball_.center, drawn)) <= fitted.ball_.radius + 1e-9


def test_sampling_costs_nothing_and_a_release_costs_once(tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    fitted = PrivateSynthesizer(S2, radius=1.0, guarantee=GDP(0.8), ledger=ledger)
    fitted.fit(records())
    fitted.sample(10)
    fitted.sample(100_000)
    assert [entry.label for entry in ledger.entries] == ["synthetic records"]
    assert ledger.spent.mu == pytest.approx(0.8)


@pytest.mark.parametrize("model", MODELS)
def test_labels_private_and_public(model):
    X = np.concatenate([records(400), -records(400, seed=1)])
    y = np.repeat(["a", "b"], 400)
    private = PrivateSynthesizer(S2, model, 3.0, classes=["a", "b"]).fit(X, y)
    public = PrivateSynthesizer(S2, model, 3.0).fit(X, y)
    assert private.certificate_.privacy_unit is ProtectedUnit.LABELED_RECORD
    assert public.certificate_.privacy_unit is ProtectedUnit.RECORD_IN_CLASS
    for fitted in (private, public):
        points, labels = fitted.sample(1000, rng=1)
        assert set(labels) <= {"a", "b"}
        nearest = np.where(points[:, 0] > 0, "a", "b")
        assert np.mean(nearest == labels) > 0.9
        assert all(check.holds for check in verify_certificate(fitted.certificate_))


def test_a_label_that_is_no_class_is_data_and_never_an_error():
    X = records(300)
    y = np.array(["a", "b"] * 150, dtype=object)
    odd = y.copy()
    odd[:3] = "never seen", None, 7
    fitted = [
        PrivateSynthesizer(S2, "wrapped-gaussian", 1.0, classes=["a", "b"]).fit(
            X, labels
        )
        for labels in (y, odd)
    ]
    assert fitted[0].certificate_.statistic == fitted[1].certificate_.statistic


@pytest.mark.parametrize("model", MODELS)
def test_a_predictor_comes_back_with_its_slope(model):
    rng = np.random.default_rng(2)
    age = rng.uniform(20, 80, 3000)
    angle = 0.5 * (age - 50) / 30
    X = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    X = np.asarray(S2.project(X + 0.05 * rng.normal(size=X.shape)))
    bad = age.copy()
    bad[:3] = np.nan, np.inf, -1e9
    fitted = PrivateSynthesizer(S2, model, 1.0, x_range=(20, 80), guarantee=GDP(2.0))
    fitted.fit(X, column=bad)
    points, drawn = fitted.sample(3000, rng=3)
    assert fitted.certificate_.privacy_unit is ProtectedUnit.PREDICTOR_AND_RESPONSE
    assert 20 <= drawn.min() <= drawn.max() <= 80
    slope = np.polyfit(drawn, np.arctan2(points[:, 1], points[:, 0]), 1)[0]
    assert slope == pytest.approx(0.5 / 30, rel=0.15)


@pytest.mark.parametrize("model", MODELS)
def test_persons_are_the_unit(model):
    """All records of one person change; and one with many records counts as much as any other."""
    X = records(120)
    Y = X.copy()
    Y[-4:] = -X[-4:]
    ids = np.array([f"p{k // 4}" for k in range(120)])
    model = PrivateSynthesizer(S2, model, 1.5)
    worst = max(
        spent(lambda Z: model.fit(Z, groups=ids), X, Y, seed) for seed in range(2)
    )
    assert 0.01 < worst <= 1.0
    certificate = model.fit(X, groups=ids).certificate_
    assert certificate.statistic["n"] == 30
    assert certificate.privacy_unit is ProtectedUnit.PERSON
    assert all(check.holds for check in verify_certificate(certificate))


@pytest.mark.parametrize("radius", [1.0, "private"])
@pytest.mark.parametrize("model", MODELS)
def test_bad_rows_change_nothing_but_values(model, radius):
    """A record that is none counts as the center: no error, no warning, the same public numbers."""
    M = SPDAffineInvariant(2)
    X = records(300, M)
    bad = X.copy()
    bad[0], bad[1], bad[2], bad[3] = np.nan, np.inf, -np.eye(2), 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReleaseWarning)
        fitted = [PrivateSynthesizer(M, model, radius).fit(Z) for Z in (X, bad)]
    for name in ("parameters", "statistic", "sensitivity", "mechanism"):
        sides = [getattr(each.certificate_, name) for each in fitted]
        assert repr(sides[0]) == repr(sides[1])
    drawn = fitted[1].sample(200)
    assert np.all(np.linalg.eigvalsh(drawn) > 0)


def test_few_records_are_warned_about_before_anything_is_paid(tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        for radius in (1.0, "private"):
            fitted = PrivateSynthesizer(S2, radius=radius, ledger=ledger)
            with pytest.raises(ReleaseWarning, match="small"):
                fitted.fit(records(12))
    assert len(ledger.entries) == 0


@pytest.mark.parametrize(
    ("options", "fit", "match"),
    [
        ({"model": "gan"}, {}, "model"),
        ({"radius": None}, {}, "radius"),
        ({"radius": -1.0}, {}, "radius"),
        ({"classes": ["a", "b"]}, {}, "classes"),
        ({"x_range": (0, 1)}, {}, "x_range"),
        ({}, {"column": np.zeros(600)}, "x_range"),
        ({"x_range": (1, 0)}, {"column": np.zeros(600)}, "x_range"),
        ({"x_range": (0, 1)}, {"column": np.zeros(5)}, "column"),
        ({}, {"y": ["a"] * 5}, "y"),
        ({}, {"groups": ["a"] * 5}, "groups"),
        ({"guarantee": GDP(1.0, adjacency="add-remove")}, {}, "replace"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_before_anything_is_paid(
    options, fit, match, tmp_path
):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(2.0))
    model = PrivateSynthesizer(S2, **{"radius": 1.0, "ledger": ledger, **options})
    with pytest.raises(ParameterError, match=match):
        model.fit(records(), **fit)
    assert len(ledger.entries) == 0


@pytest.mark.parametrize("n", [0, -3, 2.5, "many"])
def test_a_number_of_records_is_checked(n):
    fitted = PrivateSynthesizer(S2, "wrapped-gaussian", 1.0).fit(records())
    with pytest.raises(ParameterError):
        fitted.sample(n)


def test_chunks_are_streamed_to_the_same_release():
    dask_array = pytest.importorskip("dask.array")
    X = records(500)
    chunks = dask_array.from_array(X, chunks=(77, 3))
    fitted = PrivateSynthesizer(S2, "tree", 1.0).fit(chunks)
    assert all(check.holds for check in verify_certificate(fitted.certificate_))
    assert energy_distance(S2, X, fitted.sample(500)) < 0.3


def test_pure_epsilon_and_auto():
    fitted = PrivateSynthesizer(S2, radius=1.0, guarantee=PureDP(2.0)).fit(
        records(2000)
    )
    assert all(check.holds for check in verify_certificate(fitted.certificate_))
    assert energy_distance(S2, records(1000, seed=5), fitted.sample(1000)) < 0.4
    assert 0 < fitted.predicted_error_ < 1


@pytest.mark.parametrize("M", [S2, SPDAffineInvariant(3), KendallShapes(5)], ids=str)
def test_a_mean_of_the_file_is_that_of_the_records(M):
    X = records(2000, M)
    fitted = PrivateSynthesizer(M, radius="private", guarantee=GDP(2.0)).fit(X)
    drawn = fitted.sample(2000, rng=4)
    distance = float(M.dist(frechet_mean(M, drawn), frechet_mean(M, X)))
    assert distance < 0.06
    spreads = [
        np.sqrt(np.mean(np.asarray(M.dist(frechet_mean(M, Z), Z)) ** 2))
        for Z in (X, drawn)
    ]
    assert spreads[1] == pytest.approx(spreads[0], rel=0.15)


# ---- error bars of what is computed from a file ------------------------------------------


def first_two(synthetic):
    return np.array([synthetic.points[:, 0].mean(), synthetic.points[:, 0].var()])


def test_intervals_hold_the_truth_and_those_of_the_file_alone_do_not():
    truth = np.array([0.3, 0.49])
    held = np.zeros(2)
    alone = np.zeros(2)
    runs = 30
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = rng.normal([0.3, 0.0], [0.7, 0.5], (200, 2))
        fitted = PrivateSynthesizer(
            Euclidean(2),
            "wrapped-gaussian",
            4.0,
            guarantee=GDP(0.7),
            source=GeneratorSource(rng),
        ).fit(X)
        result = combine_synthetic(
            fitted.certificate_, first_two, files=2, simulations=20, seed=seed
        )
        held += (result.lower <= truth) & (truth <= result.upper)
        alone += np.abs(result.estimate - truth) <= 1.96 * result.file_error
    assert np.all(held >= 0.85 * runs)
    assert np.all(alone < 0.85 * runs)


def test_combining_needs_a_certificate_of_a_population():
    from curvedp import PrivateFrechetMean

    mean = PrivateFrechetMean(S2, radius=0.7).fit(records())
    with pytest.raises(ParameterError):
        combine_synthetic(mean.certificate_, first_two)
    with pytest.raises(ParameterError):
        population_from_certificate(mean.certificate_)
