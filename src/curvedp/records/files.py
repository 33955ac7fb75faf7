"""Reading records from files: npy, npz, csv, parquet. Only what is public about a file (its form) can be refused."""

import csv
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold

__all__ = ["load_point", "load_records"]


def load_records(path: str | Path, manifold: Manifold, key: str | None = None) -> np.ndarray:
    """Records of shape (n, *point_shape). Rows of csv and parquet tables hold a point's entries in row-major order.

    A cell that is not a number is read as NaN: the record is then mapped into the public ball like any bad record.

    >>> import tempfile
    >>> from curvedp.geometry import Sphere
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = path.write_text("a,b,c\\n1,0,0\\n0,1,oops\\n")
    >>> load_records(path, Sphere(2)).shape
    (2, 3)
    """
    numbers = _numbers(Path(path), key)
    if numbers.ndim == 0 or prod(numbers.shape[1:]) != prod(manifold.point_shape):
        needed = ", ".join(map(str, manifold.point_shape))
        raise ParameterError(f"{path} holds an array of shape {numbers.shape}; {manifold!r} needs (n, {needed})")
    return numbers.reshape((len(numbers), *manifold.point_shape))


def load_point(path: str | Path, manifold: Manifold) -> np.ndarray:
    """One point, such as the ball's centre: an array of the point's shape, or a file with one record.

    >>> import tempfile
    >>> from curvedp.geometry import Sphere
    >>> path = Path(tempfile.mkdtemp()) / "center.csv"
    >>> _ = path.write_text("1,0,0\\n")
    >>> load_point(path, Sphere(2))
    array([1., 0., 0.])
    """
    numbers = _numbers(Path(path), None)
    if numbers.size != prod(manifold.point_shape):
        raise ParameterError(f"{path} holds an array of shape {numbers.shape}, not one point of {manifold!r}")
    return numbers.reshape(manifold.point_shape)


def _numbers(path: Path, key: str | None) -> np.ndarray:
    readers = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise ParameterError(f"{path}: the file must end in one of {', '.join(readers)}")
    try:
        table = np.asarray(readers[path.suffix](path, key))
    except ParameterError:
        raise
    except FileNotFoundError:
        raise ParameterError(f"{path} does not exist") from None
    except (
        Exception
    ) as error:  # a damaged file makes the readers raise anything: BadZipFile, zlib.error, ArrowInvalid, …
        raise ParameterError(f"cannot read {path}: {error}") from None
    if table.dtype.kind not in "fiub":
        raise ParameterError(f"{path} holds values of type {table.dtype}; real numbers are needed")
    return table.astype(np.float64, copy=False)


def _npy(path: Path, key: str | None) -> Any:
    with path.open("rb") as file:  # closed here: NumPy leaves a file that it cannot read open
        return np.load(file, allow_pickle=False)


def _npz(path: Path, key: str | None) -> Any:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if key is None and len(archive.files) == 1:
            key = archive.files[0]
        if key not in archive.files:
            raise ParameterError(f"{path} holds the arrays {', '.join(archive.files)}; say which with --key")
        return archive[key]


def _csv(path: Path, key: str | None) -> Any:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].lstrip().startswith("#")]
    if rows and all(np.isnan(_number(cell)) for cell in rows[0]):
        rows = rows[1:]  # a header
    if not rows:
        raise ParameterError(f"{path} holds no records")
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise ParameterError(f"{path} has rows of different lengths ({', '.join(map(str, sorted(widths)))} cells)")
    return np.array([[_number(cell) for cell in row] for row in rows])


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _parquet(path: Path, key: str | None) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ParameterError("reading parquet needs pyarrow: pip install 'curvedp[parquet]'") from None
    table = pyarrow.parquet.read_table(path)
    if table.num_columns == 1 and pyarrow.types.is_nested(table.schema.field(0).type):
        return _nested(path, table.column(0).to_pylist())
    for field in table.schema:
        if not (pyarrow.types.is_integer(field.type) or pyarrow.types.is_floating(field.type)):
            raise ParameterError(f"{path}: column {field.name!r} is of type {field.type}; numbers are needed")
    columns = [column.cast("float64").fill_null(float("nan")).to_numpy() for column in table.columns]
    return np.stack(columns, axis=1) if columns else np.empty((0, 0))


def _nested(path: Path, rows: list[Any]) -> np.ndarray:
    """One list (of lists) a record; a missing record, or one with a missing entry, is NaN."""
    flat = [None if row is None else _flattened(row) for row in rows]
    widths = {len(row) for row in flat if row is not None}
    if len(widths) != 1:
        raise ParameterError(f"{path} has records of different lengths ({', '.join(map(str, sorted(widths)))} entries)")
    missing = [float("nan")] * widths.pop()
    return np.array([missing if row is None else row for row in flat], dtype=np.float64)


def _flattened(row: Any) -> list[float]:
    if isinstance(row, list):
        return [entry for part in row for entry in _flattened(part)]
    return [float("nan") if row is None else float(row)]
