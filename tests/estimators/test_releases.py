"""What a fitted estimator has released is what it says; nobody guesses attributes."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from curvedp import GDP, Ledger, ReleaseWarning
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators.base import PendingRelease, PrivateEstimator
from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
from curvedp.privacy import Guarantee
from curvedp.records.base import open_records
from curvedp.release.warnings import estimator_warnings
from curvedp.releasing import certificates_of, write
from curvedp.statistics.second_moment import SecondMoment
from support.estimator_cases import MADE, made

pytestmark = pytest.mark.filterwarnings("ignore::curvedp.ReleaseWarning")

# What each estimator releases: titles, and the attributes that hold the values.
RELEASED = {
    "PrivateFrechetMean": {"location": "location_"},
    "PrivateFrechetMedian": {"location": "location_"},
    "PrivateTangentSpace": {"location": "location_"},
    "PrivateTangentPCA": {
        "mean": "mean_",
        "principal directions, each as long as its standard deviation": "components_",
    },
    "PrivateSynthesizer": {"synthetic population": "population_"},
    "PrivateDispersion": {"variance": "variance_"},
    "PrivatePCA": {"components": "components_"},
    "PrivateKMeans": {"center 0": "cluster_centers_", "center 1": "cluster_centers_"},
    "PrivateMDM": {"mean of class 0": "means_", "mean of class 1": "means_"},
    "PrivatePrototypes": {"prototypes of the classes": "means_"},
    "PrivateRecenter": {
        "mean of domain s0": "centers_",
        "mean of domain s1": "centers_",
    },
    "PrivateSoftmax": {"weights of the classes": "classifier_"},
    "PrivateGeodesicRegression": {
        "footpoint, at the lower end of the range of x": "footpoint_",
        "velocity, over the whole range": "velocity_",
    },
}


def test_every_estimator_is_here():
    assert set(RELEASED) == set(MADE)


@pytest.mark.parametrize("name", RELEASED)
def test_releases_are_the_fitted_attributes_with_their_certificates(name):
    model = made(name)
    with pytest.raises(ParameterError, match="not fitted"):
        _ = model.releases
    model.fit(*MADE[name][1])
    titles = [release.title for release in model.releases]
    if name == "PrivateKMeans":  # they end in noisy counts
        titles = [title.partition(" of ")[0] for title in titles]
    assert titles == list(RELEASED[name])
    for number, (title, release) in enumerate(zip(titles, model.releases, strict=True)):
        assert isinstance(release, ReleasedValue)
        assert isinstance(release.certificate, Certificate)
        expected = getattr(model, RELEASED[name][title])
        if name in ("PrivateMDM", "PrivateKMeans"):
            expected = expected[number]
        if name == "PrivateRecenter":
            expected = expected[model.domains_.tolist()[number]]
        if name == "PrivateSoftmax":
            expected = expected.weights
        if name == "PrivateSynthesizer":
            expected = expected.table()
        if name == "PrivateTangentPCA" and number == 1:
            lengths = np.sqrt(model.explained_variance_)
            expected = lengths[:, None, None] * expected
        np.testing.assert_array_equal(np.squeeze(release.value), np.squeeze(expected))
    rows = [np.ravel(release.value) for release in model.releases]
    np.testing.assert_array_equal(model.released_array().ravel(), np.concatenate(rows))


def test_a_reduced_classifier_releases_its_weights():
    model = made("PrivateMDM").set_params(reduce=1, radius=None)
    model.fit(*MADE["PrivateMDM"][1])
    (release,) = model.releases
    assert release.title == "weights of the classes"
    np.testing.assert_array_equal(release.value, model.classifier_.weights)


# ---- a stranger's estimator, whose attribute has another name ---------------------------


@dataclass(eq=False, repr=False)
class PrivateEnergy(PrivateEstimator):
    """The mean squared length of records of length at most 1, in an attribute of its own."""

    _name: ClassVar[str] = "energy"
    title: str = "mean energy"
    guarantee: Guarantee = field(default_factory=lambda: GDP(1.0))
    ledger: Ledger | None = None
    label: str | None = None
    source: None = None

    def fit(self, X, y=None):
        self._validate_params()
        records = open_records(X, (2,))
        statistic = SecondMoment(2, 1.0, records.n)
        mechanism = GaussianMechanism.calibrate(statistic, self.guarantee)
        data = statistic.compute(records)
        choice = Choice(ChoiceRule.ONLY_ONE)
        pending = PendingRelease(mechanism, data, choice, self.title)
        (release,) = self._pay_and_release([pending])
        self.energy_ = float(release.value[:2].sum())
        self.certificate_ = release.certificate
        return self._warn_after_release()


class ListsItsEnergy(PrivateEnergy):
    """One that lists its own number in place of the matrix."""

    @property
    def releases(self):
        (published,) = super().releases
        return [published._replace(value=np.array([self.energy_]))]


class ListsWrongly(PrivateEnergy):
    """One whose list has a slip of the pen."""

    @property
    def releases(self):
        return [ReleasedValue("energy", self.enrgy_, self.certificate_)]


ROWS = np.random.default_rng(0).normal(size=(200, 2)) / 4


@pytest.mark.parametrize("kind", [PrivateEnergy, ListsItsEnergy])
def test_an_attribute_of_another_name_is_released_and_reported(kind, tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    model = kind(ledger=ledger).fit(ROWS)
    assert len(ledger.entries) == 1
    assert [release.title for release in model.releases] == ["mean energy"]
    assert isinstance(estimator_warnings(model), list)
    report = tmp_path / "report.html"
    write(model, tmp_path / "value.csv", tmp_path / "certificate.json", report)
    np.testing.assert_allclose(
        np.loadtxt(tmp_path / "value.csv", delimiter=","), model.released_array()
    )
    assert Certificate.load(tmp_path / "certificate.json") is not None
    assert "certificate" in report.read_text()


def test_what_was_paid_for_is_kept_where_the_list_is_wrong(tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    with pytest.warns(ReleaseWarning, match="could not be checked"):
        model = ListsWrongly(ledger=ledger).fit(ROWS)
    assert len(ledger.entries) == 1
    assert abs(model.energy_ - np.mean(np.sum(ROWS**2, axis=1))) < 1


@pytest.mark.parametrize("title", [7, "two\nlines", b"bytes"], ids=repr)
def test_a_title_that_cannot_be_shown_is_refused_before_anything_is_paid(
    title, tmp_path
):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(1.0))
    with pytest.raises(ParameterError, match="title="):
        PrivateEnergy(title=title, ledger=ledger).fit(ROWS)
    assert ledger.entries == []


def test_one_certificate_of_two_values_is_written_once(tmp_path):
    model = made("PrivateGeodesicRegression").fit(*MADE["PrivateGeodesicRegression"][1])
    assert certificates_of(model) == [model.certificate_]
    write(model, None, tmp_path / "certificate.json", None)
    assert [path.name for path in tmp_path.iterdir()] == ["certificate.json"]


# ---- parameters that are changed after `fit` --------------------------------------------


def outputs(model, data):
    """Everything that a fitted estimator answers, by method and attribute."""
    found = {}
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(type(model), method):
            found[method] = getattr(model, method)(data[0])
    if hasattr(type(model), "score"):
        found["score"] = model.score(*data)
    if hasattr(type(model), "get_feature_names_out"):
        found["names"] = model.get_feature_names_out()
    found["width"] = model.n_features_in_
    found["array"] = model.released_array()
    found["titles"] = [release.title for release in model.releases]
    found["warnings"] = estimator_warnings(model)
    if hasattr(type(model), "predicted_error_"):
        found["error"] = model.predicted_error_
    try:
        found["region"] = repr(model.confidence_region())
    except ParameterError as refusal:
        found["region"] = str(refusal)
    return found


REDUCED = {"reduce": 1, "radius": None}
FITTED = [(name, {}) for name in MADE] + [("PrivateMDM", REDUCED)]


@pytest.mark.parametrize(("name", "changes"), FITTED, ids=str)
def test_parameters_that_are_set_after_fit_change_no_answer(name, changes):
    """Whatever is read of a parameter after `fit` would raise here, or differ."""
    data = MADE[name][1]
    model = made(name).set_params(**changes).fit(*data)
    before = outputs(model, data)
    for parameter in model.get_params(deep=False):
        kept = getattr(model, parameter)
        for value in (object(), None):
            model.set_params(**{parameter: value})
            after = outputs(model, data)
            assert after.keys() == before.keys()
            for key in before:
                np.testing.assert_array_equal(after[key], before[key], f"{parameter}")
        model.set_params(**{parameter: kept})
