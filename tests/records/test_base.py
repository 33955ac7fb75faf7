"""One set of questions for records in memory, on a device and in chunks; one answer."""

from functools import partial

import array_api_strict
import dask.array
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere
from curvedp.geometry.capabilities import canonical_center, move_from_origin
from curvedp.geometry.frechet_mean.backends.chunks import block_sums
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.records.base import open_records
from support.rough_records import cloud

HOMES = {
    "memory": np.asarray,
    "device": array_api_strict.asarray,
    "chunks": lambda X: dask.array.from_array(X, chunks=(37, *X.shape[1:])),
}


def _flat(domain, x, X):
    return block_sums(domain, x, X).ravel()


def _class_flat(domain, x, X, codes):
    return np.concatenate(
        [block_sums(domain, x, X[codes == k]).ravel() for k in range(2)]
    )


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("M", [Sphere(2), SPDAffineInvariant(3), Lorentz(3)], ids=str)
def test_every_home_gives_the_same_moments(M, home):
    X, domain, y = (
        cloud(M, 0.4, 200),
        PublicBall(M, np.asarray(M.origin), 0.4),
        np.arange(200) % 2,
    )
    records, here = (
        open_records(HOMES[home](X), M.point_shape),
        open_records(X, M.point_shape),
    )
    assert (records.n, records.location) == (200, home)
    mean, square = records.moments(domain)
    other, same = here.moments(domain)
    assert float(M.dist(mean, other)) <= 2 * solver_error(M, 0.4)
    assert square == pytest.approx(same, rel=1e-8)
    labels = records.labels(y)
    assert labels.classes.tolist() == [0, 1]
    assert labels.sizes.tolist() == [100, 100]
    for k, (mean, square) in enumerate(records.class_moments(domain, labels)):
        other, same = open_records(X[y == k], M.point_shape).moments(domain)
        assert float(M.dist(mean, other)) <= 2 * solver_error(M, 0.4)
        assert square == pytest.approx(same, rel=1e-8)


@pytest.mark.parametrize("home", HOMES)
def test_sums_are_exact_wherever_the_records_lie(home):
    M = SPDAffineInvariant(3)
    X, domain = cloud(M, 0.4, 200), PublicBall(M, np.eye(3), 0.4)
    records = open_records(HOMES[home](X), (3, 3))
    kernel = partial(_flat, domain, np.eye(3))
    assert np.array_equal(records.sums(kernel), kernel(X))
    codes = np.arange(200) % 2
    beside = dask.array.from_array(codes, chunks=37) if home == "chunks" else codes
    both = partial(_class_flat, domain, np.eye(3))
    assert np.array_equal(records.sums(both, beside), both(X, codes))
    assert np.array_equal(records.sums_in_place(kernel), kernel(X))


def test_what_is_chunked_is_not_loaded():
    records = open_records(HOMES["chunks"](np.zeros((10, 3))), (3,))
    with pytest.raises(ParameterError, match="dask array"):
        records.array()


@pytest.mark.parametrize(
    "bad", [np.nan, np.inf, 10**400, "text", "", None, 1j, b"x", {}], ids=repr
)
def test_a_bad_cell_raises_nothing_and_keeps_n(bad):
    records = open_records([[bad, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], (3,))
    assert records.n == 3
    mean, _ = records.moments(PublicBall(Sphere(2), np.array([1.0, 0, 0]), 0.5))
    assert np.all(np.isfinite(mean))


@pytest.mark.parametrize(
    "bad", [[1.0], [], None, 1.0, "text", [[1.0, 0.0, 0.0]], {}], ids=repr
)
def test_a_bad_record_raises_nothing_and_keeps_n(bad):
    records = open_records([[1.0, 0.0, 0.0], bad, [0.0, 1.0, 0.0]], (3,)).array()
    assert np.isfinite(records).all(axis=1).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((5, 4)), "shape"),
        (np.zeros(3), "shape"),
        (np.zeros((1, 3)), "at least 2"),
        (np.zeros((5, 3), dtype=complex), "numbers"),
        (array_api_strict.asarray(np.zeros((5, 3), dtype=bool)), "dtype"),
        (array_api_strict.asarray(np.zeros((5, 2))), "shape"),
        (dask.array.zeros((5, 3), dtype=complex), "dtype"),
        (dask.array.zeros((1, 3)), "at least 2"),
        (None, "type NoneType"),
    ],
)
def test_types_and_shapes_are_refused(X, message):
    with pytest.raises(ParameterError, match=message) as refused:
        open_records(X, (3,), "Z")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("home", HOMES)
def test_records_are_carried_wherever_they_lie(home):
    M = SPDAffineInvariant(3)
    center = np.diag([1e6, 1.0, 1e-6])
    X = np.concatenate(
        [
            np.asarray(move_from_origin(M, center, cloud(M, 0.4, 200)[4:])),
            np.full((1, 3, 3), np.nan),
        ]
    )
    domain = PublicBall(M, np.asarray(canonical_center(M, center)), 0.4)
    mean, square = (
        open_records(HOMES[home](X), (3, 3))
        .to_canonical_frame(M, center)
        .moments(domain)
    )
    other, same = open_records(X, (3, 3)).to_canonical_frame(M, center).moments(domain)
    assert float(M.dist(mean, other)) <= 2 * solver_error(M, 0.4)
    assert square == pytest.approx(same, rel=1e-8)


@pytest.mark.parametrize("count", [7, 231])
def test_a_wrong_shape_is_refused_in_words_that_do_not_tell_how_many_records_there_are(
    count,
):
    """n may be private (adding or removing a record): the message is the same for every n."""
    with pytest.raises(ParameterError) as refused:
        open_records(np.zeros((count, 2)), (3,))
    assert str(refused.value) == "X has shape (n, 2); it must be (n, 3)"
    with pytest.raises(
        ParameterError, match="read_records reads files"
    ):  # `check` takes paths, `fit` does not
        open_records("x.csv", (3,))
