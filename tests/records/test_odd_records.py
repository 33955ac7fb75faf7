"""Odd labels, rows and types: none decides about the others, or about the call."""

import collections

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from curvedp import GDP, PrivateFrechetMean
from curvedp.errors import ParameterError
from curvedp.estimators import (
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PrivateSoftmax,
)
from curvedp.geometry import Euclidean, Rotations, SPDAffineInvariant, Sphere
from curvedp.randomness import GeneratorSource
from curvedp.records import read_records
from curvedp.records.labels import Labels

# ---- labels ------------------------------------------------------------------------------


class Unhashable:
    __hash__ = None


class Raising:
    """What raises whatever it is asked."""

    def __eq__(self, other):
        raise RuntimeError

    def __hash__(self):
        raise MemoryError

    def __array__(self, *arguments, **named):
        raise KeyError

    def __len__(self):
        raise ValueError

    def __float__(self):
        raise OverflowError

    def __str__(self):
        raise AssertionError


class EqualToAll:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("no class")


ODD = {
    "None": None,
    "NaN": float("nan"),
    "list": [1, 2],
    "list of one class": [1],
    "nested list": [[1], [2, 3]],
    "empty list": [],
    "tuple": (1, 2),
    "array": np.array([1, 2]),
    "array of one class": np.array([1]),
    "matrix": np.eye(2),
    "empty array": np.empty(0),
    "masked": np.ma.masked,
    "text": "1",
    "long text": "1" * 1_000_000,
    "bytes": b"1",
    "complex": 1j,
    "infinite": float("inf"),
    "huge": 10**400,
    "date": np.datetime64("2020-01-01"),
    "no date": np.datetime64("NaT"),
    "dictionary": {1: 2},
    "set": {1, 2},
    "type": int,
    "function": len,
    "unhashable": Unhashable(),
    "raising": Raising(),
    "equal to all": EqualToAll(),
    "another number": 7,
    "generator": (i for i in range(2)),
    "frame": collections.namedtuple("Row", "a b")(1, 2),
}
CLASSES = [3, 1, 2]
Y = [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("place", [0, 3, 5])
def test_an_odd_label_is_an_unknown_label(kind, place):
    """In lists, tuples and object arrays, alone and where all labels are odd."""
    unknown = list(Y)
    unknown[place] = 99
    expected = Labels(unknown, 6, CLASSES)
    assert expected.codes[place] == 0

    y = list(Y)
    y[place] = ODD[kind]
    as_objects = np.empty(6, dtype=object)
    for i, label in enumerate(y):
        as_objects[i] = label
    for labels in (y, tuple(y), as_objects):
        found = Labels(labels, 6, CLASSES)
        np.testing.assert_array_equal(found.codes, expected.codes)
        np.testing.assert_array_equal(found.sizes, expected.sizes)
        np.testing.assert_array_equal(found.classes, expected.classes)
    assert Labels([ODD[kind]] * 6, 6, CLASSES).sizes.tolist() == [6, 0, 0]


def test_known_labels_are_known_in_every_container():
    pandas = pytest.importorskip("pandas", reason="a test of pandas' series")
    expected = [0, 1, 2, 0, 1, 2]
    for y in (
        Y,
        np.array(Y),
        np.array(Y, dtype=float),
        [np.int64(label) for label in Y],
        [np.array(label) for label in Y],
        np.array(Y, dtype=object),
        pandas.Series(Y, index=list("fedcba")),
        np.ma.array(Y),
    ):
        assert Labels(y, 6, CLASSES).codes.tolist() == expected
    masked = np.ma.array(Y, mask=[0, 0, 1, 0, 0, 0])
    assert Labels(masked, 6, CLASSES).codes.tolist() == [0, 1, 0, 0, 1, 2]
    texts = ["a", "b", "a"]
    for y in (texts, np.array(texts), pandas.Series(texts)):
        assert Labels(y, 3, ["b", "a"]).codes.tolist() == [0, 1, 0]
    assert Labels(texts, 3).classes.dtype.kind == "U"


@pytest.mark.parametrize("model", [PrivateMDM, PrivateSoftmax])
def test_estimators_take_every_odd_label(model):
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(30, 4, 4))
    X = factor @ factor.swapaxes(1, 2) / 4 + np.eye(4)
    for kind in ("list", "array", "raising", "complex", "dictionary", "text"):
        y = list(np.arange(30) % 2)
        y[4] = ODD[kind]
        made = model(
            SPDAffineInvariant(4), guarantee=GDP(1.0), reduce=2, classes=[0, 1]
        )
        assert made.fit(X, y).classes_.tolist() == [0, 1]


# ---- widths ------------------------------------------------------------------------------


def rows_of(widths):
    return [[0.1] * width for width in widths]


LISTS = {
    "equal": rows_of([2] * 10),
    "tied": rows_of([2] * 5 + [3] * 5),
    "one short": rows_of([3] * 9 + [2]),
    "one odd": [*rows_of([3] * 9), None],
    "first odd": ["text", *rows_of([3] * 9)],
    "numbers": [0.1] * 10,
    "empty": rows_of([0] * 10),
    "matrices": [[[0.1]]] * 10,
}


def test_a_list_has_no_width_whatever_it_holds():
    """One record of a tied list decided about the length of the components."""
    messages = set()
    for rows in (*LISTS.values(), *(tuple(rows) for rows in LISTS.values())):
        with pytest.raises(ParameterError, match="features=") as refusal:
            PrivatePCA(radius=1.0).fit(rows)
        messages.add(str(refusal.value))
    assert len(messages) == 1


@pytest.mark.parametrize("rows", LISTS.values(), ids=list(LISTS))
def test_a_list_with_a_width_is_fitted_whatever_it_holds(rows):
    fitted = PrivatePCA(radius=1.0, features=3).fit(rows)
    assert fitted.components_.shape == (1, 3)
    assert fitted.transform(rows).shape == (10, 1)


def test_plain_lists_of_equal_length_are_fitted_as_their_array_is():
    X = np.random.default_rng(0).normal(size=(50, 3))
    sources = [GeneratorSource(np.random.default_rng(7)) for _ in range(2)]
    by_array = PrivatePCA(radius=2.0, source=sources[0]).fit(X)
    by_list = PrivatePCA(radius=2.0, source=sources[1], features=3).fit(X.tolist())
    np.testing.assert_array_equal(by_array.components_, by_list.components_)
    with pytest.raises(ParameterError, match="the parameter features is 4"):
        PrivatePCA(radius=2.0, features=4).fit(X)
    for bad in (0, -1, 2.5, "3"):
        with pytest.raises(ParameterError, match="features"):
            PrivatePCA(radius=2.0, features=bad).fit(X)


def test_the_range_says_how_many_predictors_a_list_has():
    Y = np.random.default_rng(0).normal(size=(10, 2))
    fixed = {"radius": 1.0, "speed": 1.0, "clip": 1.0, "guarantee": GDP(1.0)}
    for rows in LISTS.values():
        one = PrivateGeodesicRegression(Euclidean(2), x_range=(0, 1), **fixed)
        assert one.fit(rows, Y).n_features_in_ == 1
        two = PrivateGeodesicRegression(Euclidean(2), x_range=[(0, 1)] * 2, **fixed)
        assert two.fit(rows, Y).n_features_in_ == 2


def test_losses_of_ones_own_take_arrays():
    pytest.importorskip("jax", reason="the optimizers need it")
    from curvedp.optim import Problem
    from curvedp.optim._arguments import prepare_start_and_records

    problem = Problem(Sphere(2), lambda w, z: -((w @ z) ** 2))
    start = np.array([1.0, 0.0, 0.0])
    messages = set()
    for rows in LISTS.values():
        with pytest.raises(ParameterError, match=r"numpy\.array") as refusal:
            prepare_start_and_records(problem, rows, start)
        messages.add(str(refusal.value))
    assert len(messages) == 1
    assert prepare_start_and_records(problem, np.ones((10, 3)), start)[1].shape == (
        10,
        3,
    )


# ---- types -------------------------------------------------------------------------------


def test_rotations_of_scipy_are_converted():
    turned = Rotation.random(20, random_state=0)
    matrices = turned.as_matrix()
    np.testing.assert_array_equal(read_records(turned, Rotations(3)), matrices)
    np.testing.assert_array_equal(read_records(list(turned), Rotations(3)), matrices)
    mixed = [*list(turned)[:-1], "no rotation"]
    found = read_records(mixed, Rotations(3))
    np.testing.assert_array_equal(found[:-1], matrices[:-1])
    assert np.isnan(found[-1]).all()
    near = Rotation.from_rotvec(0.01 * np.random.default_rng(0).normal(size=(50, 3)))
    mean = PrivateFrechetMean(Rotations(3), radius=0.5, guarantee=GDP(100.0)).fit(near)
    assert Rotations(3).dist(mean.location_, np.eye(3)) < 0.05


CONTAINERS = [
    {"x": [1, 2, 3]},
    {1, 2, 3},
    collections.deque([[1.0, 0, 0]] * 4),
    iter([[1.0, 0, 0]] * 4),
    "1,0,0",
    b"1,0,0",
    object(),
    collections.OrderedDict(x=1),
]


@pytest.mark.parametrize("X", CONTAINERS, ids=lambda X: type(X).__name__)
def test_what_is_no_array_is_refused_by_its_type(X):
    mean = PrivateFrechetMean(Sphere(2), radius=0.5)
    with pytest.raises(ParameterError) as refusal:
        mean.fit(X)
    named = type(X).__name__ in str(refusal.value)
    assert named or "path" in str(refusal.value)


def test_dictionaries_are_read_one_by_one():
    """The type of one record in a list is data: no list is refused for what it holds."""
    points = [{"x": 1.0, "y": 0.0, "z": float(i)} for i in range(4)]
    expected = [[1.0, 0.0, float(i)] for i in range(4)]
    assert read_records(points, Sphere(2)).tolist() == expected
    columns = ["z", "y", "x"]
    found = read_records(points, Sphere(2), columns=columns)
    assert found.tolist() == [row[::-1] for row in expected]
    for odd in ([1.0, 0.0, 2.0], {"x": 1}, {}, None, {"x": 1, "y": {}, "z": 1}):
        found = read_records([*points[:3], odd], Sphere(2))
        assert found.shape == (4, 3)
        assert found[:3].tolist() == expected[:3]
    all_odd = read_records([{"x": 1}] * 4, Sphere(2))
    assert np.isnan(all_odd).all()
    with pytest.raises(ParameterError, match="columns="):
        read_records(points, Sphere(2), columns=["x", "y"])


@pytest.mark.parametrize("cell", [1j, 2 + 0j, "text", None, np.nan, 10**400, [1], {}])
@pytest.mark.parametrize("kind", ["frame", "series"])
def test_a_cell_never_decides_about_a_column(cell, kind):
    """One complex cell made a complex column, and the column was refused."""
    pandas = pytest.importorskip("pandas", reason="a test of pandas' frames")
    if kind == "frame":
        table = pandas.DataFrame(
            {"x": [1.0, 2.0, cell], "y": [0.0] * 3, "z": [1.0] * 3}
        )
        found = read_records(table, Euclidean(3))
    else:
        found = read_records(pandas.Series([1.0, 2.0, cell]), Euclidean(1))
    assert found[:2, 0].tolist() == [1.0, 2.0]
    if cell == 2:
        assert found[2, 0] == 2.0
    elif kind == "series" and cell == [1]:  # a record that is a list of one number
        assert found[2, 0] == 1.0
    else:
        assert np.isnan(found[2, 0])


def test_columns_of_texts_are_numbers_where_they_can_be():
    """One cell that is no number makes a column of texts of all, as `pandas.read_csv` reads
    it. So a frame of texts cannot be refused without telling something about one record."""
    import io

    pandas = pytest.importorskip("pandas", reason="a test of pandas' frames")
    numbers = pandas.read_csv(io.StringIO("x,y,z\n1,0,0\n2,0,0\n"))
    texts = pandas.read_csv(io.StringIO("x,y,z\n1,0,0\nn.d.,n.d.,n.d.\n"))
    assert not any(pandas.api.types.is_numeric_dtype(texts[name]) for name in "xyz")
    first = read_records(numbers, Euclidean(3))[0]
    np.testing.assert_array_equal(read_records(texts, Euclidean(3))[0], first)
