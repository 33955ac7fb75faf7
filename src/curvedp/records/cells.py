"""One cell, one record: what anything found in a table or a list is as numbers. Total: what is not a number is NaN."""

import warnings
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.numerics.namespace import to_host

_REAL, _TEXT = "biuf", "OUST"


def number(cell: Any) -> float:
    """The number in a cell, NaN where there is none. Never raises, never warns.

    >>> number(" 1.5"), number("#N/A"), number(None), number(10**400)
    (1.5, nan, nan, nan)
    """
    try:
        several = isinstance(cell, np.ndarray) and (cell.ndim > 0 or cell is np.ma.masked)
        return float("nan" if several else cell)
    except Exception:  # a cell may be any object, and its __float__ may raise anything
        return float("nan")


def numbers(where: str, values: Any) -> np.ndarray:
    """An array as doubles, entry by entry. Its dtype alone can be refused: dates and complex numbers are."""
    if isinstance(values, np.ma.MaskedArray):
        hidden, values = np.ma.getmaskarray(values), values.data
        return np.where(hidden, np.nan, numbers(where, values))
    found = np.asarray(values)
    if found.dtype.kind in _REAL:
        with np.errstate(all="ignore"):  # a long double beyond the doubles is an infinity
            return found.astype(np.float64, copy=False)
    if found.dtype.kind not in _TEXT:
        raise ParameterError(f"{where} holds values of type {found.dtype}; real numbers are needed")
    return np.fromiter(map(number, found.ravel()), np.float64, found.size).reshape(found.shape)


def rows(records: Iterable[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Records that come one by one, each of the shape given or flat; what is neither is NaN.

    >>> rows([[1, 2], None, [1, 2, 3], ["4", 5]], (2,)).tolist()
    [[1.0, 2.0], [nan, nan], [nan, nan], [4.0, 5.0]]
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that a value causes is a release
        return np.array([_row(record, shape) for record in records], dtype=np.float64).reshape(-1, *shape)


def _row(record: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        if not isinstance(record, np.ma.MaskedArray):
            record = np.asarray(record)
            if record.dtype.kind == "O" and record.ndim:  # arrays in arrays, as tables give lists of lists
                record = np.asarray(record.tolist())
        found = numbers("a record", record)
    except Exception:  # ragged, complex, or an object that is no array
        found = np.empty(0)
    return found.reshape(shape) if found.shape in (shape, (prod(shape),)) else np.full(shape, np.nan)


def names(values: Any) -> np.ndarray:
    """Public names of any kind as an array. A list of texts and others keeps its objects: as texts 1 and 1.0 would differ,
    1 and "1" be the same, and NaN be a name."""
    found = np.asarray(to_host(values))
    if found.dtype.kind in "US" and isinstance(values, list | tuple) and found.ndim == 1:
        return np.array(values, dtype=object) if len({type(each) for each in values}) > 1 else found
    return found


def any_missing(ids: np.ndarray, values: Any) -> bool:
    """Whether one of these names is masked, NaN, NaT, None or a blank text."""
    if np.ma.is_masked(values):
        return True
    if ids.dtype.kind in "fcmM":
        return bool(np.isnan(ids).any())
    if ids.dtype.kind in "US":
        return bool((np.char.str_len(np.char.strip(ids)) == 0).any())
    return ids.dtype.kind == "O" and any(_is_missing(each) for each in ids)


def _is_missing(each: Any) -> bool:
    try:
        return each is None or bool(each != each) or (isinstance(each, str) and not each.strip())
    except TypeError:  # a missing value that will not even say whether it equals itself
        return True
