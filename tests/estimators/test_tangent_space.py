"""Coordinates at a private mean: as the manifold's own, in pipelines, for any data."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from curvedp import GDP, Ledger, PrivateTangentSpace
from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant, Sphere

RNG = np.random.default_rng(0)
S2, SPD = Sphere(2), SPDAffineInvariant(2)
X = S2.project(RNG.normal([3.0, 0, 0], 0.5, (200, 3)))


def test_coordinates_are_an_isometry_at_the_reference():
    """Oracle: lengths are distances to the reference, and exp of the vector is the record."""
    model = PrivateTangentSpace(S2, radius=0.7).fit(X)
    Z = model.transform(X)
    angle = np.arccos(np.clip(X @ model.location_, -1, 1))
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), angle, atol=1e-7)
    back = S2.exp(model.location_, S2.from_coordinates(model.location_, Z))
    np.testing.assert_allclose(back, X, atol=1e-12)


def test_in_a_pipeline_with_frames():
    pandas = pytest.importorskip("pandas")
    y = (X[:, 1] > 0).astype(int)
    ledger_free = make_pipeline(
        PrivateTangentSpace(S2, radius=0.7), LogisticRegression()
    ).fit(X, y)
    assert ledger_free.score(X, y) > 0.9
    model = PrivateTangentSpace(S2, radius=0.7).set_output(transform="pandas")
    frame = model.fit_transform(X)
    assert isinstance(frame, pandas.DataFrame)
    assert (
        list(frame.columns)
        == list(model.get_feature_names_out())
        == ["tangent0", "tangent1"]
    )
    assert model.n_features_in_ == 3


def test_it_is_paid_once_and_bad_records_are_the_reference(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    T = np.asarray(
        SPD.from_normal_coordinates(np.eye(2), 0.3 * RNG.normal(size=(50, 3)))
    )
    T[0], T[1] = np.nan, -np.eye(2)
    model = PrivateTangentSpace(SPD, radius=1.0, ledger=ledger).fit(T)
    Z = model.transform(T)
    assert len(ledger.entries) == 1
    assert np.isfinite(Z).all()
    assert not Z[:2].any()
    assert Z[2:].all(axis=1).all()


def test_dask_arrays_stay_chunked():
    array = pytest.importorskip("dask.array")
    model = PrivateTangentSpace(S2, radius=0.7).fit(X)
    lazy = model.transform(array.from_array(X, chunks=(70, 3)))
    np.testing.assert_array_equal(lazy.compute(), model.transform(X))


def test_records_of_another_shape_are_refused():
    model = PrivateTangentSpace(S2, radius=0.7).fit(X)
    with pytest.raises(ParameterError, match="shape"):
        model.transform(X[:, :2])
