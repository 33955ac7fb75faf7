"""No private label decides which class the labels beside it are in."""

import io

import numpy as np
import pandas as pd
import pytest

from curvedp.errors import ParameterError
from curvedp.records import read_column
from curvedp.records.labels import Labels

DATES = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]


@pytest.mark.parametrize(
    "classes",
    [
        [2**53, 2**53 + 1],
        [1, 2**53],
        [-(2**60), 0],
        DATES,
        [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")],
        [1 + 0j, 2.0],
    ],
    ids=repr,
)
def test_classes_that_a_type_of_column_could_change_are_refused(classes):
    with pytest.raises(ParameterError, match="classes"):
        Labels([1, 1], 2, classes)


@pytest.mark.parametrize("odd", [None, 0.5, "x", 2**53 + 1, True], ids=repr)
@pytest.mark.parametrize(
    "classes", [[3, 7], [3.0, 7.5], [2**53 - 1, 2], ["a", "b"]], ids=repr
)
def test_one_odd_label_changes_its_own_class_only(classes, odd):
    labels = [classes[0], classes[1]] * 3
    usual = Labels(pd.Series(labels), 6, classes).codes
    changed = Labels(pd.Series([*labels[:-1], odd]), 6, classes).codes
    assert np.array_equal(usual[:-1], changed[:-1])


# ---- files in which one label decides how the column is read ---------------------------


def by_pandas(text, folder):
    return pd.read_csv(io.StringIO(text))["y"]


def by_pandas_with_arrow(text, folder):
    pytest.importorskip("pyarrow", reason="a test of pandas' Arrow types")
    return pd.read_csv(io.StringIO(text), dtype_backend="pyarrow")["y"]


def by_polars(text, folder):
    polars = pytest.importorskip("polars", reason="a test of polars' reader")
    return polars.read_csv(io.BytesIO(text.encode()))["y"]


def by_arrow(text, folder):
    csv = pytest.importorskip("pyarrow.csv", reason="a test of Arrow's reader")
    return csv.read_csv(io.BytesIO(text.encode())).column("y")


def by_numpy(text, folder):
    return np.genfromtxt(
        io.StringIO(text), delimiter=",", names=True, dtype=None, encoding="utf-8"
    )["y"]


def by_curvedp(text, folder):
    path = folder / "labels.csv"
    path.write_text(text)
    return read_column(path, "y", header=True)


READERS = [
    by_pandas,
    by_pandas_with_arrow,
    by_polars,
    by_arrow,
    by_numpy,
    by_curvedp,
]
# The cells of a column, and its classes as numbers and as texts.
COLUMNS = [
    (["1", "2"], [1, 2]),
    (["1", "2"], ["1", "2"]),
    (["01", "02"], ["01", "02"]),
    (["-1", "1"], [-1, 1]),
    (["0.1", "0.123456789"], [0.1, 0.123456789]),
    (["0.1", "0.2"], ["0.1", "0.2"]),
    (["1e3", "1"], [1, 1000]),
    (["True", "False"], [True, False]),
    (["true", "false"], ["true", "false"]),
    (["a", "b"], ["a", "b"]),
]
ODD_CELLS = ["x", "", "2.5", "-0", "99999999999999999999", "1e400", "nan", "true", "1j"]


@pytest.mark.parametrize("odd", ODD_CELLS)
@pytest.mark.parametrize(("cells", "classes"), COLUMNS, ids=repr)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_one_label_does_not_decide_how_the_others_are_read(
    tmp_path, read, cells, classes, odd
):
    """Beside "x" a column of numbers is one of texts: the classes are still the same."""
    column = cells * 3

    def read_cells(column):
        text = "n,y\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(column))
        return read(text, tmp_path)

    usual = Labels(read_cells(column), 6, classes).codes
    assert len(set(usual.tolist())) == 2
    try:
        labels = read_cells([*column[:-1], odd])
    except (OverflowError, TypeError, ValueError):
        pytest.skip("this reader refuses the file by itself")
    changed = Labels(labels, 6, classes).codes
    assert np.array_equal(usual[:-1], changed[:-1])


@pytest.mark.parametrize(
    "classes",
    [["1", "01"], ["1", "1.0"], ["a", "a "], ["true", "1"], ["x", "nan"]],
    ids=repr,
)
def test_classes_that_are_one_class_in_a_column_of_numbers_are_refused(classes):
    with pytest.raises(ParameterError, match="classes"):
        Labels(["a", "b"], 2, classes)
