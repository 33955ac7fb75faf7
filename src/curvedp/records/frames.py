"""Reading records from the tables (frames) of pandas, polars and pyarrow.
A row of a table is a record. A single cell can change the type of its column: one
complex number makes a column of complex numbers. So the type is private: no column is
refused for it, and a cell that cannot be read affects its own record alone.
"""

from collections.abc import Callable
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np

from curvedp.errors import ParameterError
from curvedp.records.columns import is_range, select_columns
from curvedp.records.conversion import cells_to_floats, object_array, stack_records
from curvedp.records.options import ReadOptions


@runtime_checkable
class PandasFrame(Protocol):
    """The part of a pandas frame that is used here."""

    columns: Any
    iloc: Any


@runtime_checkable
class PandasSeries(Protocol):
    """The part of a pandas series that is used here."""

    iloc: Any


@runtime_checkable
class PolarsFrame(Protocol):
    """The part of a polars frame that is used here."""

    columns: Any

    def get_column(self, name: str) -> Any: ...
    def to_series(self, index: int = 0) -> Any: ...


@runtime_checkable
class ArrowTable(Protocol):
    """The part of a pyarrow table that is used here."""

    columns: Any
    column_names: Any

    def column(self, i: Any) -> Any: ...


Frame = PandasFrame | PolarsFrame | ArrowTable


def frame_records(
    source_name: str, table: Frame, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Convert the records of a frame to an array of floats.

    Parameters
    ----------
    source_name : str
        The name of the frame in error messages.
    table : frame
        A table with one row for each record. Its columns hold the entries of a record
        in row-major order, or one column holds an array or a list for each record.
    shape : tuple of int
        The shape of one record.
    options : ReadOptions
        Its `columns` says which columns hold the record.

    Returns
    -------
    array, shape (n, prod(shape)) or (n, *shape)
        The records, flat if each column is one entry. A cell that is not a number is
        NaN.
    """
    positions = find_record_columns(source_name, table, shape, options)
    if len(positions) < prod(shape):
        return stack_records(_column_at(table, positions[0]), shape)

    columns = [cells_to_floats(_column_at(table, position)) for position in positions]
    return np.stack(columns, axis=1)


def find_record_columns(
    source_name: str, table: Frame, shape: tuple[int, ...], options: ReadOptions
) -> list[int]:
    """Return the positions of the columns that hold the records.

    Usually there is one column for each entry of a record. If a record has several
    entries and there is only one column (or the caller names only one), its cells are
    lists.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    table : frame or pyarrow table
        The table with the records.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the file.

    Returns
    -------
    list of int
        The positions, in the order of the entries of a record; one position if cells
        are lists.
    """
    names = column_names(table)
    columns = options.columns
    if columns is None:
        others = {str(name) for name in options.other_columns}
        columns = [name for name in names if name not in others]
    # A column that is merely left over is not taken for one of lists: its type could
    # tell, but in a column without other values one record decides about the type.
    is_stated = options.columns is not None or len(names) == 1
    is_one_column = len(columns) == 1 and not is_range(columns[0], names)
    if prod(shape) > 1 and is_stated and is_one_column:
        return select_columns(source_name, names, ReadOptions(columns=columns), 1)
    return select_columns(source_name, names, options, prod(shape))


def frame_column(source_name: str, table: Any, column: str | int) -> np.ndarray:
    """Return one column of a frame, by its name or its position from 0.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    table : frame or pyarrow table
        The table with the records.
    column : str or int
        The column, by its name or its position from 0.

    Returns
    -------
    array, shape (n,)
        The cells of the column.

    Raises
    ------
    ParameterError
        If the table is not a frame, or lacks the column.
    """
    if not isinstance(table, Frame):
        raise ParameterError(
            f"{source_name} is of type {type(table).__name__}; a column is read from a frame or "
            "a file"
        )
    names = column_names(table)
    (position,) = select_columns(source_name, names, ReadOptions(columns=[column]), 1)
    return _column_at(table, position)


def column_names(table: Frame) -> list[str]:
    """Return the names of a frame's columns as texts.

    Parameters
    ----------
    table : frame or pyarrow table
        The table.
    """
    if isinstance(table, ArrowTable):
        return [str(name) for name in table.column_names]
    return [str(name) for name in table.columns]


def _column_at(table: Frame, position: int) -> np.ndarray:
    """Return the cells of one column of a frame.

    Parameters
    ----------
    table : object
        A frame of pandas or polars, or a table of pyarrow.
    position : int
        The position of the column, from 0.
    """
    if isinstance(table, PandasFrame):
        return column_cells(table.iloc[:, position])
    if isinstance(table, ArrowTable):
        return column_cells(table.column(position))
    return column_cells(table.to_series(position))


# ---- the cells of a column -----------------------------------------------------------


def is_column(X: Any) -> bool:
    """Return whether X is a series or an array of pandas, polars or pyarrow.

    The type is recognized by its package, so that none of these has to be imported.

    Parameters
    ----------
    X : object
        The object that the caller passes as records or labels.
    """
    return _package_of(X) is not None and not isinstance(X, Frame)


def _package_of(X: Any) -> str | None:
    """Return the name of the package of X: "pandas", "polars", "pyarrow" or None.

    Parameters
    ----------
    X : object
        The object that the caller passes as records.
    """
    for base in type(X).__mro__:
        package = base.__module__.partition(".")[0]
        if package in ("pandas", "polars", "pyarrow"):
            return package
    return None


def column_cells(column: Any) -> np.ndarray:
    """Convert a column to a NumPy array of its cells; no cell makes it fail.

    Libraries convert a column as a whole, and one cell can make that fail: a text that
    is not UTF-8, a time of more than 24 hours, a date beyond Python's range. Then the
    cells are converted one by one, and those that cannot be converted become None.

    Parameters
    ----------
    column : series or array of pandas, polars or pyarrow
        The column.

    Returns
    -------
    array, shape (n,)
        Of objects, or of a type that holds all cells.
    """
    converters: dict[str | None, Callable[[Any], np.ndarray]] = {
        "pyarrow": _arrow_cells,
        "polars": _polars_cells,
    }
    convert = converters.get(_package_of(column), np.asarray)
    try:
        cells = convert(column)
    except BaseException as error:
        if not _is_conversion_error(error):
            raise
        cells = _cells_one_by_one(column)
    # A column of arrays of one length becomes a matrix, of which each row is a cell.
    return cells if cells.ndim == 1 else object_array(cells)


def _cells_one_by_one(column: Any) -> np.ndarray:
    """Convert a column to an array of objects, cell by cell.

    A cell that cannot be converted becomes None.

    Parameters
    ----------
    column : series or array of pandas, polars or pyarrow
        The column.

    Returns
    -------
    array of objects, shape (n,)
        The cells.
    """
    cells = np.full(len(column), None, dtype=object)
    for position in range(len(column)):
        try:
            cells[position] = _cell_at(column, position)
        except BaseException as error:
            if not _is_conversion_error(error):
                raise
    return cells


def _cell_at(column: Any, position: int) -> Any:
    """Return one cell of a column as an object of Python.

    Any exception may be raised if the cell cannot be converted.

    Parameters
    ----------
    column : series or array of pandas, polars or pyarrow
        The column.
    position : int
        The position of the cell, from 0.

    Returns
    -------
    object
        The cell.
    """
    if _package_of(column) == "pyarrow":
        return column[position].as_py()
    if isinstance(column, PandasSeries):
        return column.iloc[position]
    cell = column[position]
    # In polars, a cell that holds a list is returned as a series.
    return cell.to_list() if _package_of(cell) == "polars" else cell


def _is_conversion_error(error: BaseException) -> bool:
    """Return whether an exception means that converting a cell has failed.

    Polars reports some failures by a "PanicException", which is not an `Exception`.
    Exceptions that end the program, such as `KeyboardInterrupt`, do not count.

    Parameters
    ----------
    error : BaseException
        The error that a library raised.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _arrow_cells(column: Any) -> np.ndarray:
    """Convert a column of pyarrow to an array of its cells.

    A dictionary-encoded column stores every distinct value once, and positions in that
    list. It is decoded here, because NumPy's own conversion would read a missing value
    as the first entry of the dictionary. Any exception may be raised.

    Parameters
    ----------
    column : pyarrow array or chunked array
        The column.

    Returns
    -------
    array, shape (n,)
        The cells; None for a missing value of a dictionary-encoded column.
    """
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return np.asarray(column)

    is_chunked = isinstance(column, pyarrow.ChunkedArray)
    chunks = column.chunks if is_chunked else [column]
    cells_of_chunks = [np.empty(0, dtype=object)]
    for chunk in chunks:
        # The last entry stands for missing values.
        values = object_array([*_cells_one_by_one(chunk.dictionary), None])
        # A small type of integers might not hold the position of the last entry.
        indices = chunk.indices.cast(pyarrow.int64())
        cells_of_chunks.append(values[indices.fill_null(len(values) - 1).to_numpy()])
    return np.concatenate(cells_of_chunks)


def _polars_cells(series: Any) -> np.ndarray:
    """Convert a series of polars to an array of its cells.

    Texts are read as bytes and decoded here. For a text that is not UTF-8, polars
    itself would write to the terminal before it raises an error. Any exception may be
    raised.

    Parameters
    ----------
    series : polars.Series
        The column.

    Returns
    -------
    array, shape (n,)
        The cells.
    """
    import polars

    is_text = series.dtype in (polars.String, polars.Categorical, polars.Enum)
    for replaced_types, new_type in (
        ((polars.Categorical, polars.Enum), polars.String),
        ((polars.String,), polars.Binary),
    ):
        dtype = _replace_type(series.dtype, replaced_types, new_type)
        if dtype != series.dtype:
            series = series.cast(dtype)
    cells = np.asarray(series)
    return object_array(map(_decode, cells)) if is_text else cells


def _replace_type(dtype: Any, replaced_types: tuple[Any, ...], new_type: Any) -> Any:
    """Replace some types inside a type of polars, such as a list of texts.

    Parameters
    ----------
    dtype : polars data type
        The type of a series.
    replaced_types : tuple of polars data types
        The types that are replaced, at every depth of lists, arrays and structures.
    new_type : polars data type
        The type that takes their place.

    Returns
    -------
    polars data type
        The type with these replacements.
    """
    import polars

    if dtype in replaced_types:
        return new_type
    if isinstance(dtype, polars.List):
        return polars.List(_replace_type(dtype.inner, replaced_types, new_type))
    if isinstance(dtype, polars.Array):
        # `inner` of an array with several axes is the type of its numbers.
        inner = dtype.inner
        while isinstance(inner, polars.Array):
            inner = inner.inner
        return polars.Array(
            _replace_type(inner, replaced_types, new_type), shape=dtype.shape
        )
    if isinstance(dtype, polars.Struct):
        return polars.Struct(
            {
                field.name: _replace_type(field.dtype, replaced_types, new_type)
                for field in dtype.fields
            }
        )
    return dtype


def _decode(text: bytes | None) -> str | None:
    """Return a text that was read as bytes; None if it is missing or not UTF-8.

    Parameters
    ----------
    text : bytes or None
        The cell of a column of texts.
    """
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None
