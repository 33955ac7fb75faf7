"""Persons reach `fit` through scikit-learn's tools, or the tools refuse.

Without metadata routing `cross_validate(..., groups=person)` gives the ids to the splitter
alone, and what is released protects records. docs/howto/integrations.md tells users so.
"""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from curvedp import GDP, Ledger
from curvedp.errors import CurvedpError
from curvedp.privacy.unit import PrivacyUnit
from curvedp.releasing import certificates_of
from support.estimator_cases import MADE, N, made

pytestmark = pytest.mark.filterwarnings("ignore::curvedp.ReleaseWarning")

# Twelve persons with five records each, of one class each, as PrivateMDM wants them.
PERSONS = np.arange(N) % 12
FOLDS = GroupKFold(3)


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def validate(model, data, **options):
    """Fit three folds, and return the models: nothing is scored."""
    found = cross_validate(
        model,
        *data,
        cv=FOLDS,
        scoring=lambda *_: 0.0,
        return_estimator=True,
        error_score="raise",
        **options,
    )
    return found["estimator"]


def protected(model):
    """Whether the certificates of a model protect records or people, as the ledger counts."""
    units = {each.privacy_unit for each in certificates_of(model)}
    return {unit.privacy_unit for unit in units}


@pytest.mark.parametrize("name", MADE)
def test_persons_arrive_at_every_estimator_that_asks_for_them(name):
    model = made(name).set_fit_request(groups=True)
    for fitted in validate(model, MADE[name][1], params={"groups": PERSONS}):
        assert protected(fitted) == {PrivacyUnit.PERSON}


@pytest.mark.parametrize("name", MADE)
def test_persons_that_nobody_asked_for_are_refused_and_not_dropped(name):
    with pytest.raises(UnsetMetadataPassedError, match="groups"):
        validate(made(name), MADE[name][1], params={"groups": PERSONS})


def test_persons_arrive_through_a_pipeline_and_a_search():
    data = MADE["PrivateMDM"][1]
    step = made("PrivateMDM").set_fit_request(groups=True)
    pipeline = make_pipeline(FunctionTransformer(), step)
    for fitted in validate(pipeline, data, params={"groups": PERSONS}):
        assert protected(fitted[-1]) == {PrivacyUnit.PERSON}
    search = GridSearchCV(pipeline, {"privatemdm__radius": [1.5, 2.0]}, cv=FOLDS)
    best = search.fit(*data, groups=PERSONS).best_estimator_
    assert protected(best[-1]) == {PrivacyUnit.PERSON}


def test_without_routing_groups_reach_the_splitter_alone():
    """The trap that the documentation warns of: should scikit-learn close it, say so."""
    with sklearn.config_context(enable_metadata_routing=False):
        models = validate(made("PrivateMDM"), MADE["PrivateMDM"][1], groups=PERSONS)
    assert all(protected(fitted) == {PrivacyUnit.RECORD} for fitted in models)


def test_a_ledger_of_persons_refuses_what_protects_records(tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", GDP(9.0), unit="person")
    model = made("PrivateMDM").set_params(ledger=ledger)
    with (
        sklearn.config_context(enable_metadata_routing=False),
        pytest.raises(CurvedpError, match="person"),
    ):
        validate(model, MADE["PrivateMDM"][1], groups=PERSONS)
    assert ledger.spent is None


def lost_groups_warnings(caught):
    """Return the warnings that say that persons never arrived at `fit`."""
    return [item for item in caught if "gave them to the splitter" in str(item.message)]


@pytest.mark.parametrize("name", MADE)
def test_persons_that_never_arrive_are_noticed(name):
    model, data = made(name), MADE[name][1]
    with sklearn.config_context(enable_metadata_routing=False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            validate(model, data, groups=PERSONS)
        assert len(lost_groups_warnings(caught)) == 3  # one a fold

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cross_validate(model, *data, cv=3, scoring=lambda *_: 0.0)
        assert not lost_groups_warnings(caught)


def test_a_search_without_routing_is_noticed_and_one_with_routing_is_not():
    name = next(iter(MADE))
    model, data = made(name), MADE[name][1]
    grid = {"guarantee": [GDP(1.0)]}
    with (
        sklearn.config_context(enable_metadata_routing=False),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        search = GridSearchCV(model, grid, cv=FOLDS, scoring=lambda *_: 0.0)
        search.fit(*data, groups=PERSONS)
    assert lost_groups_warnings(caught)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        validate(model.set_fit_request(groups=True), data, params={"groups": PERSONS})
    assert not lost_groups_warnings(caught)
