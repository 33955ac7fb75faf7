"""Reading records from files: npy, npz, csv, parquet. Only what is public about a file (its form) can be refused."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold

__all__ = ["load_records"]


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
    path = Path(path)
    readers = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise ParameterError(f"{path}: the file must end in one of {', '.join(readers)}")
    try:
        table = readers[path.suffix](path, key)
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"cannot read {path}: {error}") from None
    try:
        records = np.asarray(table, dtype=np.float64)
        return records.reshape((len(records), *manifold.point_shape))
    except (TypeError, ValueError):
        shape = getattr(table, "shape", "?")
        raise ParameterError(
            f"{path} holds an array of shape {shape}; {manifold!r} needs (n, {', '.join(map(str, manifold.point_shape))})"
        ) from None


def _npy(path: Path, key: str | None) -> Any:
    return np.load(path, allow_pickle=False)


def _npz(path: Path, key: str | None) -> Any:
    with np.load(path, allow_pickle=False) as archive:
        if key is None and len(archive.files) == 1:
            key = archive.files[0]
        if key not in archive.files:
            raise ParameterError(f"{path} holds the arrays {', '.join(archive.files)}; say which with --key")
        return archive[key]


def _csv(path: Path, key: str | None) -> Any:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and not row[0].lstrip().startswith("#")]
    if not rows:
        raise ParameterError(f"{path} is empty")
    if all(np.isnan(_number(cell)) for cell in rows[0]):
        rows = rows[1:]  # a header
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
    columns = [table.column(name) for name in table.column_names]
    if len(columns) == 1 and pyarrow.types.is_nested(columns[0].type):
        return np.array(columns[0].to_pylist(), dtype=np.float64)
    return np.stack([_float_column(column) for column in columns], axis=1)


def _float_column(column: Any) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in column.to_pylist()], dtype=np.float64)
