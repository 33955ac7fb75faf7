"""Conversion of records in memory (arrays, frames, lists) to arrays of floats.
The type and the shape of an array are public and may be refused. The contents of lists,
object arrays and frames are private: a record of another shape, or a cell that is not a
number, becomes NaN.
"""

from array import array
from collections.abc import Sequence
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from array_api_compat import is_array_api_obj

from curvedp._validate import refuse_sparse
from curvedp.errors import ParameterError
from curvedp.numerics.arrays import to_host
from curvedp.records.columns import expand_ranges, select_columns
from curvedp.records.conversion import (
    cells_to_floats,
    complex_to_pairs,
    is_scipy_rotation,
    stack_records,
    to_floats,
)
from curvedp.records.frames import Frame, column_cells, frame_records, is_column
from curvedp.records.options import ReadOptions


@runtime_checkable
class ConvertibleToArray(Protocol):
    """An object that can be converted to an array, such as a series of any library."""

    def __array__(self) -> Any: ...


def to_float_records(
    source_name: str,
    X: Any,
    shape: tuple[int, ...],
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen, so one default serves all
) -> np.ndarray:
    """Convert records in memory to an array of 64-bit floats.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    X : array, frame, series, list or rotation of SciPy
        The records. Complex numbers are pairs of numbers if the shape ends in 2.
    shape : tuple of int
        The shape of one record.
    options : ReadOptions, optional
        Its `columns` says which columns of a frame or an array, or which keys of each
        dictionary in a list, hold the record.

    Returns
    -------
    array, shape (n, *shape)
        NaN where there is no number. Records that cannot be arranged in this shape are
        returned in their own shape, and the caller decides whether to refuse them.
    """
    doubles = _convert_by_type(source_name, X, shape, options)
    width = prod(shape)
    is_flat = doubles.ndim == 2 and doubles.shape[1] == width
    if is_flat:
        return doubles.reshape(len(doubles), *shape)
    return doubles


def _convert_by_type(
    source_name: str, X: Any, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Convert records in memory to floats, by the rules for their type.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    X : array-like
        The records.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    options : ReadOptions
        The caller's options for reading the records.

    Returns
    -------
    array of doubles
        The records, flat or of their own shape; NaN where there is no number.
    """
    if isinstance(X, Frame):
        return frame_records(source_name, X, shape, options)
    if isinstance(X, list | tuple):
        return stack_records(X, shape, _record_keys(shape, options.columns))
    if is_column(X):
        return _column_records(X, shape, options)
    if is_scipy_rotation(X):
        X = X.as_matrix()

    values = _to_numpy(source_name, X)
    if values.dtype.kind == "O" and values.ndim == 1:
        return stack_records(values, shape, _record_keys(shape, options.columns))
    if values.dtype.kind == "c" and (*values.shape[1:], 2) == shape:
        return complex_to_pairs(values)
    if options.columns is not None and values.ndim == 2:
        all_positions = list(range(values.shape[1]))
        values = values[
            :, select_columns(source_name, all_positions, options, prod(shape))
        ]
    return to_floats(source_name, values)


def _column_records(
    column: Any, shape: tuple[int, ...], options: ReadOptions
) -> np.ndarray:
    """Convert a series of pandas, polars or pyarrow, with one cell for each record.

    Nothing is refused, because the type of a series is private: one cell can change it.
    If a record is a pair of numbers, a complex number is a pair too, and so is a real
    number, with imaginary part 0: one complex cell makes all numbers complex.

    Parameters
    ----------
    column : series of pandas or polars, or array of pyarrow
        The records: numbers, or arrays, lists and dictionaries.
    shape : tuple of int
        The shape of one record.
    options : ReadOptions
        Its `columns` says which keys of each dictionary hold the record.

    Returns
    -------
    array, shape (n, *shape)
        NaN for each record that is not of this shape.
    """
    cells = column_cells(column)
    keys = _record_keys(shape, options.columns)
    if prod(shape) == 1 and cells.dtype.kind != "O":
        return cells_to_floats(cells).reshape(-1, *shape)

    records = stack_records(cells, shape, keys)
    if shape == (2,) and keys is None:
        pairs = complex_to_pairs(cells)
        is_pair = ~np.isnan(pairs).any(axis=1)
        records[is_pair] = pairs[is_pair]
    return records


def _record_keys(
    shape: tuple[int, ...], columns: Sequence[str | int] | None
) -> list[str | int] | None:
    """Return the keys or positions of the wanted entries of each record in a list.

    The result is None if the whole record is wanted.

    Parameters
    ----------
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    columns : sequence or None
        The columns that the caller names.

    Returns
    -------
    list of str or int, or None
        One key for each entry of a record.

    Raises
    ------
    ParameterError
        If the number of keys differs from the number of entries.
    """
    if columns is None:
        return None
    if isinstance(columns, str):
        columns = [columns]
    keys = expand_ranges(columns, None)
    if len(keys) != prod(shape):
        raise ParameterError(
            f"must be {prod(shape)} names or places", parameter="columns", value=keys
        )
    return keys


def _to_numpy(source_name: str, X: Any) -> np.ndarray:
    """Convert an array of any library to a NumPy array, and refuse other objects.

    NumPy itself would convert an object that is not an array to an array of objects, in
    which every record is unreadable. Its type is public, so it may be refused.

    Parameters
    ----------
    source_name : str
        The name of the records in error messages.
    X : object
        An array of any library.

    Returns
    -------
    array
        The array, in host memory.

    Raises
    ------
    ParameterError
        If X is not an array.
    """
    if isinstance(X, np.ma.MaskedArray):
        return X
    X = refuse_sparse(source_name, X)
    is_convertible = isinstance(
        X, ConvertibleToArray | array | memoryview | range | float | int
    )
    if not is_convertible and not is_array_api_obj(X):
        raise ParameterError(
            f"{source_name} is of type {type(X).__name__}; records are an array, a frame or a "
            "list"
        )
    return to_host(X)
