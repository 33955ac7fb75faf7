"""Conversion of labels and ids to arrays.
A label is the class of a record, and an id is the person to whom it belongs. Both are
public here, and missing ones are found.
"""

from typing import Any

import numpy as np

from curvedp.numerics.arrays import to_host
from curvedp.records.conversion import object_array
from curvedp.records.frames import column_cells, is_column


def as_label_array(values: Any) -> np.ndarray:
    """Convert public labels or ids of persons to an array, one for each record.

    A list with a text keeps its objects. As an array of texts, 1 and 1.0 would differ,
    1 and "1" would be the same, NaN would be a name, and one long name would take its
    length for every record.

    Parameters
    ----------
    values : array
        The values of a column.

    Returns
    -------
    array of shape (n,)
        The labels: of their own type, or objects.
    """
    if isinstance(values, list | tuple):
        has_text = any(isinstance(value, str | bytes) for value in values)
        if has_text:
            return object_array(values)
    try:
        return np.asarray(to_host(values))
    except Exception:
        # The error of a library may quote a label; a label that cannot be converted
        # is missing.
        if is_column(values):
            return column_cells(values)
        raise


def any_missing(ids: np.ndarray, values: Any) -> bool:
    """Return whether any label or id is missing: masked, NaN, NaT, None or blank.

    Parameters
    ----------
    ids : array
        The labels or ids, as `as_label_array` returns them.
    values : array, list or series
        The same, as the caller passed them: an array of NumPy may have a mask.

    Returns
    -------
    bool
        Whether there is one.
    """
    if np.ma.is_masked(values):
        return True
    kind = ids.dtype.kind
    if kind in "fcmM":  # floats, complex numbers, durations, dates
        return bool(np.isnan(ids).any())
    if kind in "US":
        lengths = np.char.str_len(np.char.strip(ids))
        return bool((lengths == 0).any())
    return kind == "O" and any(_is_missing(value) for value in ids)


def _is_missing(value: Any) -> bool:
    """Return whether a single label or id is None, NaN or a blank text.

    Parameters
    ----------
    value : object
        The label or id; NaN is recognized because it is not equal to itself.
    """
    try:
        if value is None or bool(value != value):
            return True
    except TypeError:  # pandas.NA does not even say whether it equals itself.
        return True
    return isinstance(value, str) and not value.strip()
