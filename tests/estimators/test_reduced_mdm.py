"""`PrivateMDM(reduce=…)` is `PrivateReducedMDM` under another name."""

import numpy as np
import pytest

from curvedp import GDP, ReleaseWarning
from curvedp.errors import ParameterError
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
    np.testing.assert_array_equal(alias.channel_means(), reduced.channel_means())
    np.testing.assert_array_equal(
        alias.patterns().channels, reduced.patterns().channels
    )
    assert alias.certificate_.release == reduced.certificate_.release


def test_a_second_fit_without_reduction_leaves_nothing_of_the_first():
    X = _records()
    model = PrivateMDM(SPACE, reduce=2, source=_source()).fit(X, LABELS)
    model.set_params(reduce=None, radius=3.0).fit(X, LABELS)
    assert not hasattr(model, "classifier_")
    with pytest.raises(ParameterError, match="reduce is None"):
        model.patterns()
    assert model.means_.shape == (2, 3, 3)
    assert model.transform(X[:5]).shape == (5, 2)


# ---- means and patterns of the classes, which are post-processing


def _sources(n=3000, channels=6):
    """Class 0 has twice the amplitude in channel 0, class 1 in channel 1."""
    labels = np.arange(n) % 2
    scales = (1.0 + np.eye(channels)[labels])[:, :, None]
    signals = np.random.default_rng(3).normal(size=(n, channels, 60)) * scales
    return signals @ signals.mT / 60, labels


def _precise(features):
    model = PrivateReducedMDM(
        SPDAffineInvariant(6),
        reduce=3,
        features=features,
        guarantee=GDP(50.0),
        source=_source(),
    )
    X, labels = _sources()
    return model.fit(X, labels), X, labels


@pytest.mark.parametrize("features", ["power", "log"])
def test_mean_matrices_are_means_of_reduced_records(features):
    """Against the power mean and the log-Euclidean mean, computed from eigenvalues."""
    model, X, labels = _precise(features)
    directions = model.classifier_.reduction.directions
    unit = X / np.trace(X, axis1=1, axis2=2)[:, None, None]
    reduced = directions @ unit @ directions.T
    values, vectors = np.linalg.eigh(reduced)
    forward, backward = (
        (np.sqrt, np.square) if features == "power" else (np.log, np.exp)
    )
    mapped = (vectors * forward(values)[:, None, :]) @ vectors.mT
    for code, mean in enumerate(model.mean_matrices_):
        values, vectors = np.linalg.eigh(mapped[labels == code].mean(axis=0))
        expected = (vectors * backward(values)) @ vectors.T
        np.testing.assert_allclose(mean, expected, atol=2e-3)
        in_channels = model.channel_means()[code]
        np.testing.assert_allclose(directions @ in_channels @ directions.T, mean)


def test_matrices_have_the_features_that_they_came_from():
    model, X, _ = _precise("power")
    reduction = model.classifier_.reduction
    unit = X[:50] / np.trace(X[:50], axis1=1, axis2=2)[:, None, None]
    expected = reduction.directions @ unit @ reduction.directions.T
    found = reduction.from_features(reduction.to_features(unit))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("features", ["power", "log"])
def test_patterns_say_where_a_class_differs(features):
    model, _, _ = _precise(features)
    patterns = model.patterns()
    assert patterns.channels.shape == (2, 3, 6)
    assert np.all(np.diff(patterns.power_ratios, axis=1) <= 0)
    # Twice the amplitude is four times the power; the average has (1 + 4)/2.
    for code in range(2):
        assert np.abs(patterns.channels[code, 0]).argmax() == code
        assert patterns.power_ratios[code, 0] == pytest.approx(1.6, abs=0.15)
        assert np.abs(patterns.channels[code, -1]).argmax() == 1 - code


def test_patterns_of_noise_are_finite():
    model = PrivateReducedMDM(
        SPDAffineInvariant(6), reduce=4, guarantee=GDP(0.02), source=_source()
    )
    X, labels = _sources(n=200)
    with pytest.warns(ReleaseWarning):
        model.fit(X, labels)
    assert np.all(np.isfinite(model.patterns().channels))
    assert np.all(np.linalg.eigvalsh(model.channel_means()) > -1e-12)
