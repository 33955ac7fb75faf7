"""`PrivateMDM(reduce=…)` is `PrivateReducedMDM` under another name."""

import numpy as np
import pytest

from curvedp.estimators import PrivateMDM
from curvedp.estimators.reduced_mdm import PrivateReducedMDM
from curvedp.geometry import SPDAffineInvariant
from curvedp.randomness import GeneratorSource

SPACE = SPDAffineInvariant(3)
LABELS = np.arange(400) % 2


def _records():
    rng = np.random.default_rng(0)
    coordinates = 0.3 * rng.normal(size=(400, 6)) + LABELS[:, None]
    return np.asarray(SPACE.from_normal_coordinates(SPACE.origin, coordinates))


def _source():
    return GeneratorSource(np.random.default_rng(11))


@pytest.mark.parametrize("features", ["power", "log"])
def test_both_release_the_same(features):
    X = _records()
    options = {"reduce": 2, "features": features}
    reduced = PrivateReducedMDM(SPACE, source=_source(), **options).fit(X, LABELS)
    alias = PrivateMDM(SPACE, source=_source(), **options).fit(X, LABELS)
    np.testing.assert_array_equal(alias.means_, reduced.means_)
    np.testing.assert_array_equal(alias.classes_, reduced.classes_)
    np.testing.assert_array_equal(alias.transform(X[:9]), reduced.transform(X[:9]))
    np.testing.assert_array_equal(
        alias.predict_proba(X[:9]), reduced.predict_proba(X[:9])
    )
    assert alias.certificate_.release == reduced.certificate_.release


def test_a_second_fit_without_reduction_leaves_nothing_of_the_first():
    X = _records()
    model = PrivateMDM(SPACE, reduce=2, source=_source()).fit(X, LABELS)
    model.set_params(reduce=None, radius=3.0).fit(X, LABELS)
    assert not hasattr(model, "classifier_")
    assert model.means_.shape == (2, 3, 3)
    assert model.transform(X[:5]).shape == (5, 2)
