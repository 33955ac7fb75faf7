"""Angles and chords of many short vectors, coordinate by coordinate, so that NumPy's loops run over records.

The same steps as in the manifolds, which have them for every array library, long vectors and public time. Element by element:
a result does not depend on what it is computed beside.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.numerics.public_time import in_public_time

_SHORT = 8  # coordinates
LARGEST_TIME = 8.0
"""Time coordinate up to which the plain chord |y − x|² − (y₀ − x₀)² keeps its digits: it loses a factor of 2·64."""

Columns = list[np.ndarray]


def short(*arrays: Any) -> bool:
    """Whether these are what this module is for."""
    plain = all(is_numpy_array(a) and a.dtype == np.float64 and 1 < a.shape[-1] <= _SHORT for a in arrays)
    return plain and not in_public_time()


def mended(fast: np.ndarray, good: np.ndarray, careful: Callable[..., Any], p: np.ndarray, q: np.ndarray) -> Any:
    """The fast results where they are good, the careful ones of the other pairs."""
    if good.all():
        return fast
    if not good.ndim:
        return careful(p, q)
    p, q = (np.broadcast_to(a, (*good.shape, a.shape[-1])) for a in (p, q))
    out = np.array(fast)
    out[~good] = careful(p[~good], q[~good])
    return out


def sphere_log(p: np.ndarray, q: np.ndarray, twice: bool) -> tuple[np.ndarray, Columns, np.ndarray, np.ndarray]:
    """The angle; the part of q orthogonal to p, cleaned twice where its direction counts, and its length; |p||q| cos."""
    x, y = _columns(p), _columns(q)
    cosine, square = _dot(x, y), _dot(x, x)
    side = np.copysign(1.0, cosine)
    rest = [b - side * a for a, b in zip(x, y, strict=True)]  # exact where it is small
    for _ in range(1 + twice):
        along = _dot(x, rest) / square
        rest = [r - along * a for a, r in zip(x, rest, strict=True)]
    length = np.sqrt(_dot(rest, rest))
    return np.arctan2(length * np.sqrt(square), cosine), rest, length, cosine


def hyperboloid_log(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, Columns, Columns, np.ndarray]:
    """(chord² = 4 sinh²(d/2), largest time coordinate, spatial columns x of p, y − x, time of p)."""
    x, y = _columns(p[..., 1:]), _columns(q[..., 1:])
    x0, y0 = np.sqrt(1 + _dot(x, x)), np.sqrt(1 + _dot(y, y))
    difference = [b - a for a, b in zip(x, y, strict=True)]
    rise = _dot(difference, [a + b for a, b in zip(x, y, strict=True)]) / (x0 + y0)
    square = np.maximum(_dot(difference, difference) - rise * rise, 0.0)
    return square, np.maximum(x0, y0), x, difference, x0


def _columns(p: np.ndarray) -> Columns:
    return [p[..., k] for k in range(p.shape[-1])]


def _dot(x: Columns, y: Columns) -> np.ndarray:
    total = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        total = total + a * b
    return total
