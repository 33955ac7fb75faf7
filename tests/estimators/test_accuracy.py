"""The private accuracy of a released classifier."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from curvedp import GDP, Ledger, PrivateMDM, PrivateSoftmax
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.estimators.accuracy import PrivateAccuracy
from curvedp.estimators.reduced_mdm import PrivateReducedMDM
from curvedp.geometry import SPDAffineInvariant, Sphere
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from curvedp.statistics.accuracy import SHARE_BALL, SHARE_LINE, AccuracyShare
from estimators.test_silence import SETTINGS, hostile_records, outcome
from support.transcript import spent

SPHERE = Sphere(2)
N = 60


def _records(n=N, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    shift = np.where(labels, 1.0, -1.0)[:, None] * [0, 0, 0.5]
    return SPHERE.project(rng.normal([3.0, 0, 0], 0.4, (n, 3)) + shift), labels


@pytest.fixture(scope="module")
def model():
    X, labels = _records(400, seed=1)
    return PrivateMDM(SPHERE, radius=0.8, guarantee=GDP(4.0)).fit(X, labels)


def _source():
    return GeneratorSource(np.random.default_rng(5))


def test_it_is_the_share_up_to_noise_of_one_over_n(model):
    X, labels = _records()
    true = model.score(X, labels)
    errors = [PrivateAccuracy(model).fit(X, labels).accuracy_ - true for _ in range(60)]
    assert 0.4 / N < np.std(errors) < 1.6 / N
    assert abs(np.mean(errors)) < 0.6 / N


def test_one_record_costs_no_more_than_it_may(model):
    """Every draw at two neighbors along one path, by brute force: at most μ² = 1."""
    X, labels = _records()
    other_label = labels.copy()
    other_label[0] = 1 - labels[0]
    for record in hostile_records(SPHERE):
        other = X.copy()
        other[0] = record
        for changed in (labels, other_label):
            neighbors = (X, labels), (other, changed)
            told = spent(lambda data: PrivateAccuracy(model).fit(*data), *neighbors)
            assert told <= 1.0


def test_one_person_costs_no_more_than_they_may(model):
    """A person with thirty records has as much weight as one with a single record."""
    X, labels = _records()
    persons = np.repeat(np.arange(11), [30, *([3] * 10)])
    neighbors = []
    for flipped in (labels, np.where(persons == 0, 1 - labels, labels)):
        neighbors.append((X, flipped, persons))
    told = spent(lambda data: PrivateAccuracy(model).fit(*data), *neighbors)
    assert 0.1 < told <= 1.0
    fewer = (X[29:], labels[29:], persons[29:])
    told = spent(lambda data: PrivateAccuracy(model).fit(*data), neighbors[0], fewer)
    assert told <= 1.0


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_record_decides_about_a_warning(model, setting):
    X, labels = _records()
    hostile = X.copy()
    records = list(hostile_records(SPHERE))
    hostile[: len(records)] = records

    def run(manifold, data):
        PrivateAccuracy(model, source=_source()).fit(data, labels)

    clean = outcome(run, SPHERE, X, setting)
    assert clean == ("released", [])
    assert outcome(run, SPHERE, hostile, setting) == clean


def test_the_interval_holds_the_accuracy_of_the_population(model):
    """Right predictions are drawn with probability 0.8; 200 worlds, at level 0.9."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        X, _ = _records(100, seed=int(rng.integers(1 << 30)))
        answers = np.asarray(model.predict(X))
        is_right = rng.random(100) < 0.8
        given = np.where(is_right, answers, 1 - answers)
        private = PrivateAccuracy(model, source=_source()).fit(X, given)
        low, high, *_ = private.interval(0.9, of="population")
        held += low <= 0.8 <= high
    assert held >= binom.ppf(1e-3, 200, 0.9)


def test_it_is_verified_and_charged(model, tmp_path):
    X, labels = _records()
    ledger = Ledger(tmp_path / "study.ledger", GDP(2.0))
    private = PrivateAccuracy(model, guarantee=GDP(0.7), ledger=ledger).fit(X, labels)
    (entry,) = ledger.entries
    assert (entry.n, entry.statistic) == (N, "share of right predictions")
    assert ledger.spent.mu == pytest.approx(0.7)
    certificate = Certificate.from_json(private.certificate_.to_json())
    assert all(check.holds is not False for check in verify_certificate(certificate))
    assert certificate.privacy_unit == "labeled_record"
    persons = np.arange(N) // 2
    of_people = PrivateAccuracy(model).fit(X, labels, persons).certificate_
    assert of_people.privacy_unit == "labeled_person"
    assert of_people.statistic["n"] == N // 2


def test_every_classifier_of_the_package():
    rng = np.random.default_rng(2)
    labels = np.repeat(["a", "b"], 200)
    scales = (1 + 2 * np.eye(4)[np.arange(400) // 200])[:, :, None]
    signals = rng.normal(size=(400, 4, 40)) * scales
    X = signals @ signals.mT / 40
    space = SPDAffineInvariant(4)
    for classifier in (
        PrivateMDM(space, radius="private", guarantee=GDP(4.0)),
        PrivateMDM(space, reduce=2, guarantee=GDP(4.0)),
        PrivateReducedMDM(space, reduce=2, guarantee=GDP(4.0)),
        PrivateSoftmax(space, reduce=2, guarantee=GDP(4.0)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            classifier.fit(X[::2], labels[::2])
        private = PrivateAccuracy(classifier).fit(X[1::2], labels[1::2])
        true = classifier.score(X[1::2], labels[1::2])
        assert private.accuracy_ == pytest.approx(true, abs=0.04)


def test_what_cannot_be_measured_is_refused_before_payment(model, tmp_path):
    from sklearn.linear_model import LogisticRegression

    X, labels = _records()
    ledger = Ledger(tmp_path / "study.ledger", GDP(2.0))
    for classifier in (LogisticRegression(), PrivateMDM(SPHERE), None, "mdm"):
        with pytest.raises(ParameterError, match="classifier"):
            PrivateAccuracy(classifier, ledger=ledger).fit(X, labels)
    for wrong in ((X[:1], labels[:1]), (X, labels[:-1]), (X[:, :2], labels)):
        with pytest.raises(ParameterError):
            PrivateAccuracy(model, ledger=ledger).fit(*wrong)
    assert ledger.spent is None
    for center, radius in (([0.5], 0.4), ([0.4], 0.5)):
        with pytest.raises(ParameterError):
            AccuracyShare(SHARE_LINE, center, radius, N)
    assert AccuracyShare(SHARE_LINE, *SHARE_BALL, N).sensitivity == pytest.approx(1 / N)
