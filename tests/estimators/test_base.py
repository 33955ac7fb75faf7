"""What scikit-learn's tools ask of every estimator, whichever it is."""

import pickle

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from curvedp import estimators
from support.estimator_cases import MADE, N, X, made, y

pytestmark = pytest.mark.filterwarnings("ignore::curvedp.ReleaseWarning")


def test_all_estimators_are_here():
    assert set(MADE) == {
        name for name in estimators.__all__ if name.startswith("Private")
    }


@pytest.mark.parametrize("name", MADE)
def test_the_width_of_a_record_is_known_once_fitted(name):
    model, (_, data, width) = made(name), MADE[name]
    assert not hasattr(model, "n_features_in_")
    assert model.fit(*data).n_features_in_ == width


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in MADE
        if hasattr(getattr(estimators, name), "get_feature_names_out")
    ],
)
def test_what_transforms_does_so_in_any_pipeline(name):
    pytest.importorskip("pandas", reason="a test of pandas' frames")
    data = MADE[name][1]
    pipeline = make_pipeline(made(name)).set_output(transform="pandas")
    frame = pipeline.fit_transform(*data)
    assert list(frame.columns) == list(pipeline.get_feature_names_out())
    assert len(frame) == N


@pytest.mark.parametrize("name", MADE)
def test_a_pickle_says_the_same_to_the_last_bit(name):
    model, data = made(name), MADE[name][1]
    copy = pickle.loads(pickle.dumps(model.fit(*data)))
    for method in {"transform", "predict", "predict_proba"} & set(dir(model)):
        np.testing.assert_array_equal(
            getattr(copy, method)(data[0]), getattr(model, method)(data[0])
        )


def test_nothing_of_an_earlier_fit_is_left():
    """A certificate and weights of the earlier release beside the means of the later one."""
    model = made("PrivateMDM").set_params(reduce=1, radius=None).fit(X, y)
    assert model.set_params(reduce=None, radius=2.0).fit(X, y).n_features_in_ == 4
    fresh = made("PrivateMDM").fit(X, y)
    assert {each for each in vars(model) if each.endswith("_")} == {
        each for each in vars(fresh) if each.endswith("_")
    }
    with pytest.raises(ValueError, match="label"):
        model.fit(X, y[:3])
    assert model.predict(X).shape == (N,)  # a refusal leaves what was released


def test_a_score_reads_responses_as_fit_does():
    model, (_, (x, responses), _) = (
        made("PrivateGeodesicRegression"),
        MADE["PrivateGeodesicRegression"],
    )
    model.fit(x, responses)
    table = pytest.importorskip("pandas").DataFrame(responses.reshape(N, 4))
    assert (
        model.score(list(x), table)
        == model.score(x, responses)
        == model.score(x, list(responses))
    )


@pytest.mark.parametrize("name", MADE)
def test_sparse_arrays_are_named_as_such(name):
    _, data, _ = MADE[name]
    sparse = pytest.importorskip("scipy.sparse").csr_array(X.reshape(N, 4))
    with pytest.raises(ValueError, match="sparse"):
        made(name).fit(*(sparse if each.ndim > 1 else each for each in data))
