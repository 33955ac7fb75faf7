"""Records in memory, in whatever another library holds them: frames, series, masked arrays, lists, objects."""

from math import prod
from typing import Any

import numpy as np

from curvedp.geometry.numerics.namespace import to_host
from curvedp.records.cells import numbers, rows
from curvedp.records.tables import Choices, chosen, frame, is_frame


def entries(where: str, X: Any, shape: tuple[int, ...], choices: Choices = Choices()) -> np.ndarray:  # noqa: B008
    """X as doubles: (n, *shape), unless X is an array of another shape, which is for the caller to judge.

    The dtype and the shape of an array are public; complex numbers are pairs where the shape ends in 2. What lists, object
    arrays and tables hold is data: a record that is not of the shape, or a cell that is no number, is NaN.

    >>> entries("X", [[1, 2], "oops", [3, None]], (2,)).tolist()
    [[1.0, 2.0], [nan, nan], [3.0, nan]]
    """
    found = _doubles(where, X, shape, choices)
    return found.reshape(len(found), *shape) if found.ndim == 2 and found.shape[1] == prod(shape) else found


def _doubles(where: str, X: Any, shape: tuple[int, ...], choices: Choices) -> np.ndarray:
    if is_frame(X):
        return frame(where, X, shape, choices)
    if isinstance(X, list | tuple):
        return rows(X, shape)
    found = X if isinstance(X, np.ma.MaskedArray) else to_host(X)
    if found.dtype.kind == "O" and found.ndim == 1:
        return rows(found, shape)
    if found.dtype.kind == "c" and (*found.shape[1:], 2) == shape:
        found = np.stack([found.real, found.imag], axis=-1)
    if choices.columns is not None and found.ndim == 2:
        found = found[:, chosen(where, list(range(found.shape[1])), choices.columns, prod(shape))]
    return numbers(where, found)
