"""Intake: a record is taken for its nearest point relative to its own scale; only what has none becomes the center."""

import numpy as np
import pytest

from curvedp.geometry import (
    Correlation,
    Grassmann,
    KendallShapes,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
    Stiefel,
    frechet_mean,
    project_to_ball,
)
from curvedp.geometry.spaces.spd_common import SPD
from support import spaces

SPACES = spaces.SPACES + spaces.EDGES
SCALE_FREE = [
    M
    for M in SPACES
    if isinstance(M, Sphere | Stiefel | Grassmann | Rotations | KendallShapes)
]
every = pytest.mark.parametrize("M", SPACES, ids=repr)


def records(M, n=40):
    rng = np.random.default_rng(7)
    z = rng.normal(size=(n, M.dim))
    z *= (
        0.6
        * spaces.reach(M)
        * rng.uniform(0.2, 1, size=(n, 1))
        / np.linalg.norm(z, axis=-1, keepdims=True)
    )
    return M.exp(M.origin, M.from_coordinates(M.origin, z))


def mean(M, X):
    inside = project_to_ball(M, M.origin, 0.7 * spaces.reach(M), X)
    return np.asarray(frechet_mean(M, inside))


def rounding(M, X, written):
    """The mean length of what rounding did to the records, to first order and by the metric alone."""
    return float(np.mean(M.norm(X, M.to_tangent(X, written.astype(np.float64) - X))))


@every
@pytest.mark.parametrize("decimals", [8, 6, 3])
def test_decimals_cost_no_more_than_their_rounding(M, decimals):
    X = records(M)
    written = np.round(X, decimals)
    assert M.dist(mean(M, written), mean(M, X)) <= 3 * rounding(M, X, written) + 1e-9


@every
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_short_floats_cost_no_more_than_their_rounding(M, dtype):
    X = records(M)
    written = X.astype(dtype)
    assert (
        M.dist(mean(M, written.astype(np.float64)), mean(M, X))
        <= 3 * rounding(M, X, written) + 1e-9
    )
    inside = project_to_ball(M, M.origin, 0.7 * spaces.reach(M), written)  # as they are
    assert np.all(np.isfinite(inside))


@pytest.mark.parametrize("M", SCALE_FREE, ids=repr)
@pytest.mark.parametrize("scale", [6371.0, 1e-9, 1e200, 1e-300])
def test_scaling_a_record_does_not_change_its_point(M, scale):
    X = records(M)
    np.testing.assert_allclose(M.dist(M.from_record(scale * X), X), 0, atol=1e-14)


@pytest.mark.parametrize(
    "M",
    [
        M
        for M in SPACES
        if isinstance(M, SPD) and not isinstance(M, SPDBuresWasserstein)
    ],
    ids=repr,
)
@pytest.mark.parametrize("scale", [1e-10, 1e4, 1e12, 1e-100])
def test_positive_matrices_are_kept_in_any_unit(M, scale):
    """EEG in V² or µV², tensors in mm²/s: good records in any unit, float32 and slightly unsymmetric ones too."""
    X = records(M)
    rough = (
        (scale * X).astype(np.float32).astype(np.float64)
        if 1e-30 < scale < 1e30
        else scale * X
    )
    mixing = np.eye(M.m) + 0.3 * np.random.default_rng(1).normal(size=(M.m, M.m))
    rough = (
        mixing
        @ rough
        @ mixing.T
        * (1 + 1e-5 * np.random.default_rng(2).normal(size=X.shape))
    )
    found = M.from_record(rough)
    assert np.all(np.isfinite(found))
    assert (
        np.max(SPDAffineInvariant(M.m).dist(found, scale * mixing @ X @ mixing.T))
        < 1e-3
    )
    center = scale * np.eye(M.m)
    np.testing.assert_array_equal(
        project_to_ball(M, center, 1.0, -1e-3 * found), np.broadcast_to(center, X.shape)
    )


def test_records_without_a_nearest_point_become_the_center():
    rank_one = np.ones((3, 3))
    cases = [
        (Sphere(2), np.zeros(3)),
        (SPDAffineInvariant(3), rank_one),
        (SPDAffineInvariant(3), np.diag([1.0, 1.0, -0.2])),
        (SPDAffineInvariant(3), np.zeros((3, 3))),
        (Rotations(3), rank_one),
        (
            Rotations(3),
            np.diag([1.0, 1.0, -1.0]),
        ),  # a reflection is as near to many rotations
        (Stiefel(3, 2), rank_one[:, :2]),
        (Grassmann(3, 2), rank_one[:, :2]),
        (KendallShapes(4), np.full((4, 2), 512.3)),
    ]
    for M, x in cases:
        assert not np.any(np.isfinite(M.from_record(x))), M
        for scale in (1e-200, 1.0, 1e200):
            np.testing.assert_array_equal(
                project_to_ball(M, M.origin, 0.3, scale * x), M.origin
            )


def test_from_record_returns_the_nearest_point():
    """Against a search in the ambient space: no other point of the manifold is closer to the record."""
    rng = np.random.default_rng(3)
    for M in (Sphere(2), Rotations(3), Stiefel(4, 2)):
        x = records(M, 20) + 0.2 * rng.normal(size=(20, *M.point_shape))
        x *= np.where(np.arange(20) % 2, 1.0, 0.9).reshape(
            -1, *(1,) * len(M.point_shape)
        )
        p = M.from_record(x)
        best = np.linalg.norm((x - p).reshape(20, -1), axis=-1)
        for size in (1.0, 0.1, 1e-3):
            q = M.exp(
                p,
                M.from_coordinates(
                    p, size * rng.normal(size=(500, 20, M.dim)) / np.sqrt(M.dim)
                ),
            )
            assert np.all(
                np.linalg.norm((x - q).reshape(500, 20, -1), axis=-1) >= best - 1e-12
            )


def test_rounded_onto_the_boundary_of_the_disc():
    M = PoincareBall(2)
    far = np.array([[np.tanh(4.0), 0.0], [0.0, -np.tanh(4.5)]])
    for outside in (np.round(far, 3), np.round(far, 2) * 7, 1e308 * np.sign(far)):
        inside = project_to_ball(M, M.origin, 2.0, outside)
        np.testing.assert_allclose(inside, np.tanh(1.0) * np.sign(far), rtol=1e-12)


def test_one_bad_factor_makes_the_record_the_center():
    M = Product(Sphere(2), SPDAffineInvariant(2))
    x = np.concatenate([[0.0, 6371.0, 0.0], np.ravel([[1e-10, 0], [0, 1e-10]])])
    np.testing.assert_allclose(M.from_record(x)[:3], [0, 1, 0])
    assert np.all(np.isfinite(M.from_record(x)))
    bad = np.concatenate([np.zeros(3), np.ravel(np.eye(2))])
    np.testing.assert_array_equal(project_to_ball(M, M.origin, 1.0, bad), M.origin)


@every
def test_each_record_is_mapped_independently_of_the_others(M):
    """Bit for bit, whatever else is in the batch."""
    rng = np.random.default_rng(4)
    X = records(M, 30) * np.exp(
        rng.normal(size=(30, *(1,) * len(M.point_shape)))
    ) + 0.05 * rng.normal(size=(30, *M.point_shape))
    with np.errstate(all="ignore"):
        whole = M.from_record(X)
        order = rng.permutation(30)
        np.testing.assert_array_equal(M.from_record(X[order]), whole[order])
        np.testing.assert_array_equal(M.from_record(X[:7]), whole[:7])


def test_a_matrix_that_rounding_made_indefinite_goes_near_to_what_it_was():
    """In every unit, and nearer than the identity, which stood for such records before."""
    rng = np.random.default_rng(5)
    A = rng.normal(size=(200, 12, 1)) + 0.3 * rng.normal(size=(200, 12, 40))
    true = Correlation(12).from_record(A @ A.swapaxes(1, 2))
    rounded = np.round(true, 1)
    is_indefinite = np.linalg.eigvalsh(rounded)[:, 0] < -1e-6
    assert is_indefinite.sum() > 20

    M = Correlation(12)
    repaired = M.from_record(rounded[is_indefinite])
    errors = M.dist(repaired, true[is_indefinite])
    errors_of_identity = M.dist(np.eye(12), true[is_indefinite])
    assert np.median(errors) < 0.6 * np.median(errors_of_identity)

    S = SPDAffineInvariant(12)
    in_units = S.from_record(1e-9 * rounded[is_indefinite])
    np.testing.assert_allclose(
        1e9 * in_units, S.from_record(rounded[is_indefinite]), rtol=1e-9, atol=1e-12
    )
    assert np.linalg.eigvalsh(in_units)[:, 0].min() > 0


def test_singular_and_clearly_indefinite_matrices_have_no_nearest_point():
    M = SPDAffineInvariant(3)
    v = np.array([1.0, 2.0, 3.0])
    for matrix in (
        np.outer(v, v),
        np.diag([1.0, 0.0, 2.0]),
        np.diag([1.0, 1.0, -0.11]),
    ):
        assert np.isnan(M.from_record(matrix)).all()
    assert np.isfinite(M.from_record(np.diag([1.0, 1.0, -0.09]))).all()
