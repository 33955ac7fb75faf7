"""Reading records from frames in memory: pandas, polars and tables of pyarrow."""

from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np

from curvedp._validate import shown
from curvedp.errors import ParameterError
from curvedp.records.columns import is_range, select_columns
from curvedp.records.conversion import column_to_floats, object_array, stack_records
from curvedp.records.options import ReadOptions


@runtime_checkable
class PandasFrame(Protocol):
    """What is used of a frame of pandas."""

    columns: Any
    iloc: Any


@runtime_checkable
class PolarsFrame(Protocol):
    """What is used of a frame of polars."""

    columns: Any

    def get_column(self, name: str) -> Any: ...
    def to_series(self, index: int = 0) -> Any: ...


@runtime_checkable
class ArrowTable(Protocol):
    """What is used of a table of pyarrow."""

    columns: Any
    column_names: Any

    def column(self, i: Any) -> Any: ...


Frame = PandasFrame | PolarsFrame | ArrowTable


def frame_records(
    where: str, table: Frame, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Return the records of a frame as doubles.

    Parameters
    ----------
    where : str
        What error messages call the frame.
    table : frame
        Its columns hold the entries of a record in row-major order; or one column holds
        an array or a list for each record.
    shape : tuple of int
        The shape of one record.
    options : ReadOptions
        Its `columns` says which columns hold the record.

    Returns
    -------
    array, shape (n, prod(shape)) or (n, *shape)
        Flat where each column is one entry. A cell that is not a number is NaN.
    """
    positions = find_record_columns(where, table, shape, options)
    if len(positions) < prod(shape):
        return stack_records(_column_at(table, positions[0]), shape)

    names = column_names(table)
    columns = []
    for position in positions:
        column_in_words = f"{where}, column {shown(names[position])},"
        columns.append(column_to_floats(column_in_words, _column_at(table, position)))
    return np.stack(columns, axis=1)


def find_record_columns(
    where: str, table: Frame, shape: tuple[int, ...], options: ReadOptions
) -> list[int]:
    """Return the positions of the columns that hold the records.

    There is one for each entry of a record; or only one, if the frame has one column
    (or the caller names one) and a record has several entries. That column then holds
    lists.
    """
    names = column_names(table)
    columns = names if options.columns is None else options.columns
    is_column_of_lists = (
        prod(shape) > 1 and len(columns) == 1 and not is_range(columns[0], names)
    )
    if is_column_of_lists:
        return select_columns(where, names, ReadOptions(columns=options.columns), 1)
    return select_columns(where, names, options, prod(shape))


def frame_column(where: str, table: Any, column: str | int) -> np.ndarray:
    """Return one column of a frame, by its name or its position from 0."""
    if not isinstance(table, Frame):
        raise ParameterError(
            f"{where} is of type {type(table).__name__}; a column is read from a frame or "
            "a file"
        )
    names = column_names(table)
    (position,) = select_columns(where, names, ReadOptions(columns=[column]), 1)
    return _column_at(table, position)


def column_names(table: Frame) -> list[str]:
    """Return the names of a frame's columns as texts."""
    if isinstance(table, ArrowTable):
        return [str(name) for name in table.column_names]
    return [str(name) for name in table.columns]


def _column_at(table: Frame, position: int) -> np.ndarray:
    """Return one column of a frame as an array, by its position from 0."""
    if isinstance(table, PandasFrame):
        return np.asarray(table.iloc[:, position])
    if isinstance(table, ArrowTable):
        return _arrow_column(table.column(position))
    return np.asarray(table.to_series(position))


def _arrow_column(column: Any) -> np.ndarray:
    """Return a column of pyarrow (a `ChunkedArray`) as an array.

    In a dictionary-encoded column every distinct value is built once and shared by its
    rows. NumPy's own conversion would take a missing value for the first entry of the
    dictionary.
    """
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return np.asarray(column)
    parts = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        # The last entry stands for missing values.
        values = object_array([*chunk.dictionary.to_pylist(), None])
        indices = chunk.indices.fill_null(len(values) - 1).to_numpy()
        parts.append(values[indices])
    return np.concatenate(parts)
