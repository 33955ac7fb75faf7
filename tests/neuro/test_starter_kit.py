"""Starter kits: class means of source subjects that a new user needs no trials for."""

import json
import warnings

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, Ledger
from curvedp.errors import BudgetExceeded, ParameterError, ReleaseWarning
from curvedp.neuro import PrivateStarterKit
from curvedp.neuro.class_centers import shrink_centers
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate

pytestmark = pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")


def cohort(n_subjects, trials, seed=0, channels=3):
    """Trials of two classes, which differ in the power of two sources; each subject mixes these in their own way."""
    rng = np.random.default_rng(seed)
    y = np.tile(["left", "right"], n_subjects * trials // 2)
    subject = np.repeat(np.arange(n_subjects), trials)
    power = np.ones((len(y), channels, 1))
    power[y == "left", 0] = 2.0
    power[y == "right", 1] = 2.0
    scale = rng.uniform(0.5, 2.0, size=(n_subjects, 1, 1))
    mixing = scale * (
        np.eye(channels) + 0.2 * rng.normal(size=(n_subjects, channels, channels))
    )
    signals = mixing[subject] @ (power * rng.normal(size=(len(y), channels, 60)))
    return 1e-10 * signals @ signals.swapaxes(1, 2) / 60, y, subject


X, Y, SUBJECT = cohort(120, 20)
OLD = SUBJECT < 100


def fitted(**options):
    return PrivateStarterKit(**options).fit(X[OLD], Y[OLD], SUBJECT[OLD])


def test_a_new_user_is_classified_without_anyones_trials(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    kit = fitted(ledger=ledger)
    assert len(ledger.entries) == 1
    assert ledger.unit.value == "person"
    (certificate,) = kit.certificates_
    assert certificate.privacy_unit == "person"
    assert certificate.statistic["n"] == 100
    assert all(c.holds is not False for c in verify_certificate(certificate))
    scores = [kit.score(X[s == SUBJECT], Y[s == SUBJECT]) for s in range(100, 120)]
    assert np.mean(scores) > 0.85
    # the mean may be taken from other trials of the same user
    mine = SUBJECT == 110
    one = kit.predict(X[mine][:1], own_trials=X[mine][1:])
    assert one[0] == Y[mine][0]


def test_it_calibrates_a_classifier_of_pyriemann():
    MDM = pytest.importorskip("pyriemann.classification").MDM
    kit = fitted()
    model = MDM().fit(*kit.calibration_set())
    mine = SUBJECT == 105
    moved = kit.recenter(X[mine])
    np.testing.assert_array_equal(model.predict(moved), kit.predict(X[mine]))


def test_a_subject_moves_all_classes_by_no_more_than_the_sensitivity():
    """Trials, labels and odd matrices of one subject, all classes at once."""
    rng = np.random.default_rng(0)
    options = {"radius": 1.0, "source": GeneratorSource(np.random.default_rng(1))}
    base = fitted(**options)
    kinds = [
        np.full((20, 3, 3), np.nan), np.zeros((20, 3, 3)), np.full((20, 3, 3), 1e300),
        *(10.0 ** rng.uniform(-200, 200, (8, 20, 1, 1)) * np.eye(3)),
        rng.normal(size=(20, 3, 3)),
    ]  # fmt: skip
    largest = 0.0
    for trials in kinds:
        other, labels = X[OLD].copy(), Y[OLD].copy()
        other[SUBJECT[OLD] == 7] = trials
        labels[SUBJECT[OLD] == 7] = rng.choice(["left", "right"], 20)
        options["source"] = GeneratorSource(np.random.default_rng(1))
        kit = PrivateStarterKit(**options).fit(other, labels, SUBJECT[OLD])
        drawn = [each.mean_.confidence_region().center for each in (base, kit)]
        largest = max(largest, np.linalg.norm(np.subtract(*drawn)))
    assert 1e-3 < largest <= 2 * 1.0 / 100 * (1 + 1e-9)


def test_trials_as_the_unit_compose_references_and_class_means(tmp_path):
    few, y, subject = cohort(3, 300, seed=1)
    ledger = Ledger(tmp_path / "a.ledger", GDP(2.0))
    kit = PrivateStarterKit(unit="trial", guarantee=GDP(2.0), ledger=ledger)
    kit.fit(few, y, subject)
    labels = [entry.label for entry in ledger.entries]
    assert labels == ["starter kit: references", "starter kit: class means"]
    mu_squared = {
        c.claims.gdp**2 for c in (kit.certificates_[0], kit.certificates_[-1])
    }
    assert sum(mu_squared) <= 4.0 or len(mu_squared) == 1
    assert [c.privacy_unit for c in kit.certificates_] == ["record_in_domain"] * 3 + [
        "record_in_class"
    ] * 2
    new, truth, _ = cohort(1, 200, seed=9)
    assert kit.score(new, truth) > 0.8
    with pytest.raises(BudgetExceeded):
        kit.fit(few, y, subject)
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("unit", ["subject", "trial"])
def test_a_file_holds_the_kit_and_nothing_else(unit, tmp_path):
    if unit == "subject":
        kit = fitted()
    else:
        kit = PrivateStarterKit(unit="trial", guarantee=GDP(3.0)).fit(*cohort(2, 200))
    path = tmp_path / "kit.json"
    kit.save(path)
    loaded = PrivateStarterKit.load(path)
    np.testing.assert_allclose(loaded.means_, kit.means_, rtol=1e-9)
    mine = SUBJECT == 111
    np.testing.assert_array_equal(loaded.predict(X[mine]), kit.predict(X[mine]))
    content = json.loads(path.read_text())
    content["parameters"]["means"][0][0][0] += 0.1
    path.write_text(json.dumps(content))
    with pytest.raises(ParameterError, match="not those of its certificates"):
        PrivateStarterKit.load(path)
    content["parameters"]["means"][0][0][0] -= 0.1
    for name, wrong in (("n_subjects", 7), ("unit", "trial" if unit == "subject" else "subject"),
                        ("classes", ["a", "b", "c"]), ("classes", ["a", "a"]), ("means", None)):  # fmt: skip
        changed = {**content, "parameters": {**content["parameters"], name: wrong}}
        path.write_text(json.dumps(changed))
        with pytest.raises(ParameterError, match=r"starter kit|not those of"):
            PrivateStarterKit.load(path)
    path.write_text('{"schema": "curvedp-starter-kit/1"}')
    with pytest.raises(ParameterError, match=r"kit\.json"):
        PrivateStarterKit.load(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unit": "person"}, "unit"),
        ({"radius": "wide"}, "radius"),
        ({"radius": 1.0, "unit": "trial"}, "radius"),
        ({"classes": ["left", "right"], "unit": "trial"}, "classes"),
        ({"guarantee": ApproxDP(1.0, 1e-6), "unit": "trial"}, "guarantee"),
        ({"guarantee": GDP(1.0, adjacency="add-remove")}, "adjacency"),
    ],
)
def test_refusals_spend_nothing(options, said, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(9.0))
    with pytest.raises(ParameterError, match=said):
        fitted(ledger=ledger, **options)
    kit = PrivateStarterKit(ledger=ledger)
    with pytest.raises(ParameterError, match="two subjects"):
        kit.fit(X[:20], Y[:20], SUBJECT[:20])
    with pytest.raises(ParameterError, match="shape"):
        kit.fit(X[:, 0], Y, SUBJECT)
    with pytest.raises(ParameterError, match="two classes"):
        kit.fit(X, np.zeros(len(X)), SUBJECT)
    of_trials = PrivateStarterKit(unit="trial", ledger=ledger)
    for labels, subjects in (
        (np.where(np.arange(len(Y)) == 5, "odd", Y), SUBJECT),
        (Y, np.where(np.arange(len(Y)) == 5, 999, SUBJECT)),
    ):
        with pytest.raises(ParameterError, match="two trials"):
            of_trials.fit(X, labels, subjects)
    assert not ledger.entries
    with pytest.raises(Exception, match="not fitted"):
        kit.predict(X)


def test_odd_trials_of_a_new_user_are_classified_without_a_word():
    kit = fitted()
    odd = np.stack([np.full((3, 3), np.nan), np.zeros((3, 3)), 1e300 * np.eye(3), X[0]])
    assert set(kit.predict(odd)) <= {"left", "right"}


def test_labels_are_private_if_the_classes_are_public():
    """One subject with labels of any kind releases as all others do."""
    options = {"classes": ["left", "right"], "radius": 1.0}
    clean = fitted(**options)
    odd_labels = Y[OLD].astype(object)
    odd_labels[SUBJECT[OLD] == 3] = [None, 1.5, [2], "new"] * 5
    odd = PrivateStarterKit(**options).fit(X[OLD], odd_labels, SUBJECT[OLD])
    assert odd.classes_.tolist() == clean.classes_.tolist() == ["left", "right"]
    assert odd.certificates_[0].sensitivity == clean.certificates_[0].sensitivity


def test_a_kit_of_trials_has_the_guarantee_of_both_parts(tmp_path):
    kit = PrivateStarterKit(unit="trial", guarantee=GDP(2.0)).fit(*cohort(2, 200))
    kit.save(tmp_path / "kit.json")
    loaded = PrivateStarterKit.load(tmp_path / "kit.json")
    assert loaded.guarantee.mu == pytest.approx(2.0)


def scores_of(kit, X, y, subject):
    """Return the accuracy of a kit on the trials of each new person."""
    new = np.unique(subject)
    return [kit.score(X[subject == s], y[subject == s]) for s in new]


def test_twelve_people_are_enough_for_eight_channels():
    """A small public ball, in which every person is clipped, costs no accuracy."""
    X, y, subject = cohort(24, 40, seed=5, channels=8)
    old = subject < 12
    accuracies = []
    for seed in range(5):
        source = GeneratorSource(np.random.default_rng(seed))
        kit = PrivateStarterKit(radius=0.5, guarantee=GDP(2.0), source=source)
        kit.fit(X[old], y[old], subject[old])
        accuracies += scores_of(kit, X[~old], y[~old], subject[~old])
    assert np.mean(accuracies) > 0.8


def test_noise_shrinks_class_centers_but_never_to_one_point():
    """Against the rule of James and Stein, written out for each part."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        noisy = rng.normal(size=(3, 10)) + rng.uniform(0, 2) * np.eye(3, 10)
        std = rng.uniform(0.3, 1.5)
        average = noisy.sum(axis=0) / 3
        parts = {"average": (np.tile(average, (3, 1)), 10, 0.0)}
        parts["differences"] = (noisy - average, 20, 0.1)
        expected = np.zeros((3, 10))
        for part, dimension, least in parts.values():
            factor = 1 - (dimension - 2) * std**2 / np.linalg.norm(part) ** 2
            expected += max(factor, least) * part
        centers = shrink_centers(noisy.ravel(), std, 3)
        np.testing.assert_allclose(centers.logs, expected, rtol=1e-12)
        factor = 1 - 18 * std**2 / np.linalg.norm(noisy - average) ** 2
        assert centers.are_noise == (factor <= 0.1)
        assert np.linalg.norm(centers.logs[0] - centers.logs[1]) > 0.01
    exact = shrink_centers(noisy.ravel(), 0.0, 3)
    np.testing.assert_allclose(exact.logs, noisy, rtol=1e-12)
    assert not exact.are_noise
    # One channel has one entry, for which the rule does not hold.
    np.testing.assert_array_equal(
        shrink_centers(np.array([1.0, -1.0]), 9.0, 2).logs, [[1.0], [-1.0]]
    )


@pytest.mark.parametrize("options", [{"radius": 0.5}, {}, {"unit": "trial"}])
def test_a_kit_of_little_use_is_told_of_before_it_is_paid_for(options, tmp_path):
    X, y, subject = cohort(8, 10, channels=16)
    ledger = Ledger(tmp_path / "a.ledger", GDP(9.0))
    kit = PrivateStarterKit(guarantee=GDP(0.5), ledger=ledger, **options)
    # The words follow from public numbers: those of other trials are the same.
    words = set()
    for trials in (X, np.tile(np.eye(16), (80, 1, 1))):
        with (
            warnings.catch_warnings(action="error"),
            pytest.raises(ReleaseWarning, match="larger budget") as said,
        ):
            kit.fit(trials, y, subject)
        words.add(str(said.value))
    assert len(words) == 1
    assert ledger.entries == []


def test_a_useful_kit_is_released_without_a_word(tmp_path):
    X, y, subject = cohort(16, 40, seed=5, channels=4)
    ledger = Ledger(tmp_path / "a.ledger", GDP(9.0))
    source = GeneratorSource(np.random.default_rng(0))
    kit = PrivateStarterKit(
        radius=0.5, guarantee=GDP(2.0), ledger=ledger, source=source
    )
    with warnings.catch_warnings(action="error"):
        kit.fit(X, y, subject)
    assert len(ledger.entries) == 1


def test_classes_that_do_not_differ_are_warned_of_after_the_release():
    """The released differences are noise alone in about half of the releases."""
    rng = np.random.default_rng(1)
    signals = rng.normal(size=(800, 8, 50))
    X, subject = signals @ signals.mT / 50, np.repeat(np.arange(40), 20)
    y = np.tile(["left", "right"], 400)
    said = 0
    for seed in range(12):
        source = GeneratorSource(np.random.default_rng(seed))
        kit = PrivateStarterKit(radius=9.0, guarantee=GDP(2.0), source=source)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kit.fit(X, y, subject)
        said += any("than noise alone" in str(each.message) for each in caught)
        assert len(kit.releases) == 1
    assert 1 <= said <= 11


def test_a_loaded_kit_has_the_class_means_of_its_certificate(tmp_path):
    """They follow from the noisy draw, which the certificate lists, and not from its shrunk value."""
    kit = PrivateStarterKit(radius=0.5, guarantee=GDP(0.3)).fit(*cohort(12, 20))
    kit.save(tmp_path / "kit.json")
    loaded = PrivateStarterKit.load(tmp_path / "kit.json")
    np.testing.assert_allclose(loaded.means_, kit.means_, rtol=1e-9)
    assert not np.allclose(loaded.means_[0], loaded.means_[1])


def test_a_charge_that_could_be_smaller_is_remarked_on(tmp_path):
    """Laplace noise of pure ε is dear in a ledger that counts μ; it is said before the charge."""
    ledger = Ledger(tmp_path / "a.ledger", GDP(30.0))
    kit = PrivateStarterKit(guarantee=ApproxDP(20.0, 1e-6), ledger=ledger)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(ReleaseWarning, match="the ledger will be charged"),
    ):
        kit.fit(X[OLD][:, :2, :2], Y[OLD], SUBJECT[OLD])
    assert ledger.entries == []


@pytest.mark.parametrize("wrong", [["a", "b"], [None] * 8, ["a", "a "] * 4])
def test_messages_name_the_parameter_that_is_wrong(wrong):
    X, y, _ = cohort(2, 4)
    with pytest.raises(ParameterError, match="subjects") as refusal:
        PrivateStarterKit(classes=["left", "right"]).fit(X, y, wrong)
    assert "groups" not in str(refusal.value)
