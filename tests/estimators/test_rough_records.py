"""After `fit`, records are taken for what they stand for, as in `fit`: few digits and other units change next to nothing."""

import numpy as np
import pytest

from curvedp import GDP, PrivateMDM, PrivateTangentSpace
from curvedp.geometry import (
    Correlation,
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    Sphere,
    Stiefel,
    Torus,
)

SCALED = {
    Sphere(2),
    KendallShapes(5),
    Simplex(3),
    Grassmann(5, 2),
}  # where multiples stand for the same
SPACES = [
    *SCALED, Stiefel(5, 2), Rotations(3), Torus(2), Correlation(3), SPDAffineInvariant(3), Lorentz(2), Euclidean(2),
    Product(Sphere(2), Rotations(3)),
]  # fmt: skip


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_predictions_and_coordinates_of_rough_records(M):
    rng, y = np.random.default_rng(0), np.arange(100) % 2
    z = (
        0.03 * rng.normal(size=(100, M.dim))
        + np.where(y, 0.1, -0.1)[:, None] * np.eye(M.dim)[0]
    )
    X = M.exp(M.origin, M.from_coordinates(M.origin, z))
    rough = np.round(X, 4) * (6371.0 if M in SCALED else 1.0)
    radius = min(0.3, 0.9 * M.convexity_radius)
    classes = PrivateMDM(M, radius=radius, guarantee=GDP(50.0)).fit(rough, y)
    assert classes.score(rough, y) == classes.score(X, y) > 0.9
    np.testing.assert_allclose(
        classes.predict_proba(rough), classes.predict_proba(X), atol=0.01
    )
    np.testing.assert_allclose(
        classes.transform(rough), classes.transform(X), atol=0.01
    )
    space = PrivateTangentSpace(M, radius=radius, guarantee=GDP(50.0)).fit(rough)
    np.testing.assert_allclose(space.transform(rough), space.transform(X), atol=0.01)


def test_a_record_at_the_end_of_the_doubles_is_predicted_without_a_warning():
    M, X = (
        Euclidean(3),
        np.vstack(
            [np.random.default_rng(0).normal(size=(60, 3)), np.full((2, 3), -1e308)]
        ),
    )
    shares = PrivateMDM(M, radius=4.0).fit(X, np.arange(62) % 2).predict_proba(X)
    assert np.allclose(shares.sum(axis=1), 1)
