"""Conversion of the cells of tables and arrays, of any type, to 64-bit floats.
Whatever is not a number becomes NaN. Converting a private cell never raises and never
warns, and the result depends on that cell alone. Only the type of a whole array is
public and may be refused.
"""

import sys
import warnings
from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from curvedp.errors import ParameterError

# Kinds of NumPy types (`dtype.kind`): real numbers, which are converted as they are,
# and objects or texts, which are converted one by one.
_REAL_KINDS = "biuf"
_OBJECT_AND_TEXT_KINDS = "OUST"

# The largest number that is a character (`sys.maxunicode`) may be exceeded in damaged
# texts; this replacement character stands for such a number.
_REPLACEMENT_CHARACTER = 0xFFFD

# The most characters that a number may have, and that a name keeps (`text_tables`). A
# number in full precision has fewer than 30; reading a text of many megabytes as one
# takes minutes.
LONGEST_CELL = 1 << 12


def to_float(cell: Any) -> float:
    """Return the number in a cell, or NaN if there is none; never raise and never warn.

    A complex number is a number if its imaginary part is 0. An array with several
    entries, a masked cell and a text of more than `LONGEST_CELL` characters are not
    numbers.

    Parameters
    ----------
    cell : object
        The content of a cell: a number, a text, or anything else.

    Returns
    -------
    float
        The number, or NaN.
    """
    try:
        if isinstance(cell, np.ndarray):
            # An array without axes holds one value; any other array is not a number.
            cell = cell[()] if cell.ndim == 0 else None
        if isinstance(cell, complex | np.complexfloating):
            return float(cell.real) if cell.imag == 0 else float("nan")

        is_too_long = isinstance(cell, str | bytes) and len(cell) > LONGEST_CELL
        if cell is np.ma.masked or is_too_long:
            return float("nan")
        if isinstance(cell, bytes):
            # The same characters are the same number as in a text.
            return float(cell.decode())
        return float(cell)
    except Exception:  # A cell may be any object, whose __float__ may raise anything.
        return float("nan")


def to_floats(source_name: str, values: Any) -> np.ndarray:
    """Convert an array of numbers or texts to floats, and refuse any other array.

    Parameters
    ----------
    source_name : str
        The name of the array in error messages.
    values : array
        Of any shape. Its type has to be public: this is so for an array of NumPy, but
        not for a column of a frame, whose type a single cell can change.

    Returns
    -------
    array of doubles, of the same shape
        See `cells_to_floats`.

    Raises
    ------
    ParameterError
        For the type of the array alone: complex numbers, dates and named fields.
    """
    kind = np.asanyarray(values).dtype.kind
    if kind not in _REAL_KINDS + _OBJECT_AND_TEXT_KINDS:
        dtype = np.asanyarray(values).dtype
        raise ParameterError(
            f"{source_name} holds values of type {dtype}; real numbers are needed"
        )
    return cells_to_floats(values)


def cells_to_floats(values: Any) -> np.ndarray:
    """Convert an array of any type to floats, cell by cell; never refuse it.

    Parameters
    ----------
    values : array
        Of any shape and type, such as a column of a frame.

    Returns
    -------
    array of doubles, of the same shape
        Each is what `to_float` returns for its cell; masked cells are NaN. Dates,
        durations and values with named fields are not numbers, hence NaN.
    """
    if isinstance(values, np.ma.MaskedArray):
        is_masked = np.ma.getmaskarray(values)
        return np.where(is_masked, np.nan, cells_to_floats(values.data))

    cells: np.ndarray = np.asarray(values)
    kind = cells.dtype.kind
    with np.errstate(all="ignore"):
        if kind in _REAL_KINDS:
            # A longer float that is larger than every 64-bit float becomes infinite.
            return cells.astype(np.float64, copy=False)
        if kind == "c":
            real_numbers = np.where(cells.imag == 0, cells.real, np.nan)
            return real_numbers.astype(np.float64)
    if kind not in _OBJECT_AND_TEXT_KINDS:
        return np.full(cells.shape, np.nan)

    texts = replace_invalid_characters(cells)
    floats = np.fromiter(map(to_float, texts.ravel()), np.float64, cells.size)
    return floats.reshape(cells.shape)


def replace_invalid_characters(cells: np.ndarray) -> np.ndarray:
    """Repair an array of texts that has numbers which are not characters.

    NumPy stores each character of a text as a number of 4 bytes. It raises an error
    when a number that is not a character is converted to a text of Python. Here such a
    number is replaced by U+FFFD, the replacement character. Arrays of other types are
    returned unchanged.

    Parameters
    ----------
    cells : array
        The cells of a column.

    Returns
    -------
    array of the same shape and type
        The repaired texts.
    """
    if cells.dtype.kind != "U" or cells.dtype.itemsize == 0:
        return cells
    order = cells.dtype.byteorder
    characters = np.ascontiguousarray(cells).reshape(-1).view(f"{order}u4")
    is_invalid = characters > sys.maxunicode
    if not is_invalid.any():
        return cells
    repaired = np.where(is_invalid, _REPLACEMENT_CHARACTER, characters)
    repaired = repaired.astype(f"{order}u4")
    return repaired.view(cells.dtype).reshape(cells.shape)


def complex_to_pairs(values: np.ndarray) -> np.ndarray:
    """Return the real and imaginary parts of numbers as pairs.

    Parameters
    ----------
    values : array
        Of any shape and type. A real number has the imaginary part 0.

    Returns
    -------
    array of doubles, shape (*values.shape, 2)
        Both entries are NaN where `values` has no number.
    """
    if values.dtype.kind == "c":
        pairs = np.stack([values.real, values.imag], axis=-1).astype(np.float64)
    elif values.dtype.kind == "O":
        pairs = np.array([_to_pair(cell) for cell in values.ravel()], dtype=np.float64)
        pairs = pairs.reshape(*values.shape, 2)
    else:
        real_parts = cells_to_floats(values)
        pairs = np.stack([real_parts, np.zeros_like(real_parts)], axis=-1)
    pairs[np.isnan(pairs).any(axis=-1)] = np.nan
    return pairs


def _to_pair(cell: Any) -> tuple[float, float]:
    """Return the real and the imaginary part of the number in a cell.

    The real part is NaN if the cell holds no number.

    Parameters
    ----------
    cell : object
        The content of a cell: a number, a text, or anything else.
    """
    if isinstance(cell, complex | np.complexfloating):
        return float(cell.real), float(cell.imag)
    return to_float(cell), 0.0


def stack_records(
    records: Iterable[Any],
    shape: tuple[int, ...],
    columns: Sequence[str | int] | None = None,
) -> np.ndarray:
    """Convert records that come one by one to one array of shape (n, *shape).

    Parameters
    ----------
    records : iterable
        Each is of the given shape or flat, or a dictionary, or a rotation of SciPy,
        which is read as its matrix. Anything else becomes NaN: the type of a record is
        data too, as a list may hold one record that is a list and one that is a
        dictionary.
    shape : tuple of int
        The shape of one record.
    columns : sequence of str or int, optional
        The keys to read from each record. Without it a dictionary is read as its values,
        in its own order.

    Returns
    -------
    array of doubles, shape (n, *shape)
        The records; one that cannot be read is NaN.
    """
    doubles = array("d")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # A warning that a record causes would tell something about it.
        warnings.simplefilter("ignore")
        for record in records:
            doubles.frombytes(_record_to_floats(record, shape, columns).tobytes())
    return np.array(doubles, dtype=np.float64).reshape(-1, *shape)


def _record_to_floats(
    record: Any, shape: tuple[int, ...], columns: Sequence[str | int] | None
) -> np.ndarray:
    """Convert one record of any type to an array of floats; NaN if that is impossible.

    Parameters
    ----------
    record : object
        One record of any type.
    shape : tuple of int
        The shape of one record in this form, such as (2,) for a pair of numbers.
    columns : sequence or None
        The keys of the wanted entries.

    Returns
    -------
    array of doubles, of that shape
        The record.
    """
    width = prod(shape)
    try:
        cells = _as_array(record, columns)
        # The shape comes first: an array of another shape may be a view of one number
        # that would fill the memory once it is converted.
        is_single_number = cells.shape == () and width == 1
        is_flat = cells.shape == (width,)
        if not (is_single_number or is_flat or cells.shape == shape):
            return np.full(shape, np.nan)
        floats = cells_to_floats(cells)
    except Exception:  # The record is ragged, or an object that is not an array.
        return np.full(shape, np.nan)
    return np.ascontiguousarray(floats, dtype=np.float64).reshape(shape)


def _as_array(record: Any, columns: Sequence[str | int] | None) -> np.ndarray:
    """Return one record of any type as an array of any shape.

    With `columns`, the array has the record's values for these keys. Any exception may
    be raised, because a record may be any object.

    Parameters
    ----------
    record : object
        One record: an array, a list, a dictionary, a rotation.
    columns : sequence or None
        The keys of the wanted entries.

    Returns
    -------
    array
        Numbers, texts or objects: one for each entry of the record.
    """
    if columns is not None:
        record = [record[column] for column in columns]
    elif isinstance(record, Mapping):
        record = list(record.values())
    elif is_scipy_rotation(record):
        record = record.as_matrix()

    if isinstance(record, list | tuple):
        # An array of objects: in an array of texts, every cell would take as much
        # memory as the longest text.
        record = np.array(record, dtype=object)
    if isinstance(record, np.ma.MaskedArray):
        return record
    values = np.asarray(record)
    if values.dtype.kind == "O" and values.ndim:
        # Tables give lists of lists as arrays of arrays, which this makes one array.
        return np.array(values.tolist(), dtype=object)
    return values


def is_scipy_rotation(X: Any) -> bool:
    """Return whether X is a `Rotation` or a `RigidTransform` of SciPy, one or many.

    The type is recognized by its name, so that SciPy's module is not imported for it.

    Parameters
    ----------
    X : object
        The object that the caller passes as records.
    """
    if "scipy.spatial.transform" not in sys.modules:
        return False
    kind = type(X)
    is_known_name = kind.__name__ in ("Rotation", "RigidTransform")
    return is_known_name and kind.__module__.startswith("scipy.spatial.transform")


def object_array(values: Iterable[Any]) -> np.ndarray:
    """Return a one-dimensional array of objects that holds values unchanged.

    NumPy's own conversion would look for a common type, and would turn lists into a
    matrix.

    Parameters
    ----------
    values : iterable
        The values, of any types.
    """
    items = list(values)
    objects = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        objects[index] = item
    return objects
