"""Checks of public parameters. Each is written so that NaN fails it, and names, shows and states the rule."""

import math
import operator
import warnings
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.errors import shown as shown

# Public lengths (scales, radii, sensitivities) outside this range are mistakes: their squares leave the doubles.
_SMALLEST, _LARGEST = 1e-100, 1e100


def positive(name: str, value: Any) -> float:
    """A finite number > 0, as a float."""
    number = _number(name, value)
    if not (0 < number < math.inf):
        raise ParameterError("must be finite and > 0", parameter=name, value=value)
    return number


def nonnegative(name: str, value: Any) -> float:
    """A finite number >= 0, as a float."""
    number = _number(name, value)
    if not (0 <= number < math.inf):
        raise ParameterError("must be finite and >= 0", parameter=name, value=value)
    return number


def within(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """A number in the interval from low to high; each end can be left out."""
    number = _number(name, value)
    above = number > low if open_low else number >= low
    below = number < high if open_high else number <= high
    if not (above and below):
        interval = (
            f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        )
        raise ParameterError(f"must lie in {interval}", parameter=name, value=value)
    return number


def integer(name: str, value: Any, minimum: int) -> int:
    """A whole number >= minimum, as an int. Floats, even whole ones, and booleans are refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        whole = operator.index(value)
    except TypeError:
        raise ParameterError(
            f"must be a whole number >= {minimum}", parameter=name, value=value
        ) from None
    if not minimum <= whole <= 2**53:  # beyond, it is no longer a double
        raise ParameterError(
            f"must be >= {minimum} and at most 2^53", parameter=name, value=value
        )
    return whole


def length(name: str, value: Any) -> float:
    """A number > 0 whose square is a double too: a scale, a radius, a sensitivity."""
    number = positive(name, value)
    if not _SMALLEST <= number <= _LARGEST:
        raise ParameterError(
            f"must lie in [{_SMALLEST:g}, {_LARGEST:g}]", parameter=name, value=value
        )
    return number


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in options:
        raise ParameterError(
            f"must be one of {', '.join(map(repr, options))}",
            parameter=name,
            value=value,
        )
    return value


def private_radius(value: Any) -> None:
    """Of a radius that is a word, only one is known."""
    if value != "private":
        raise ParameterError(
            "must be a number > 0, or 'private'", parameter="radius", value=value
        )


def array(name: str, value: Any) -> np.ndarray:
    """Real numbers as an array of doubles. Only the type can be refused, never a value: NaN is a number here.

    The message tells the type alone, because what is refused may be records.
    """
    try:
        found = np.asarray(value)
        if found.dtype.kind in "biufO":
            return found.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    kind = (
        f"{value.dtype} array"
        if isinstance(value, np.ndarray)
        else type(value).__name__
    )
    raise ParameterError(
        f"{name} must be an array of numbers with rows of one shape; this {kind} is not"
    )


def public_shape(name: str, value: Any, instead: str = "") -> tuple[int, ...]:
    """Return the shape of an array or frame of any library. A list is refused: it has none.

    An array has one shape, whatever its entries are, and its shape is public. The rows of a
    list have lengths of their own, and the length of a row belongs to that record. No rule
    can read a width off a list without telling something about single records: all lists of
    n rows are connected by replacing one row at a time, so a rule that gives two lists
    different widths (or accepts one of them and refuses the other) does so for two lists
    that differ in one row. Only a constant is private. Neither the width of most rows, nor
    that of the first, nor "the same for all, or an error" is one.

    The width therefore comes from a public parameter. Whoever has plain lists of equal length
    names it (`instead` says how) or passes ``numpy.array(rows)``; the message is the same for
    every list.

    Parameters
    ----------
    name : str
        What the message calls the value.
    value : array, frame or list
        The records.
    instead : str
        How the width can be said, such as "say features=".
    """
    if isinstance(value, list | tuple):
        ways = f"give numpy.array({name})" + (f", or {instead}" if instead else "")
        raise ParameterError(
            f"{name} is a list, and how many numbers each of its rows has is data: {ways}"
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            return tuple(np.shape(dense(name, value)))
    except ParameterError:
        raise
    except Exception:  # an object whose __array__ may raise anything
        raise ParameterError(
            f"{name} has no shape; this {type(value).__name__} is not an array"
        ) from None


def dense(name: str, value: Any) -> Any:
    """The same, unless it is one of SciPy's sparse arrays."""
    if hasattr(value, "toarray"):
        raise ParameterError(
            f"{name} is a sparse array; dense records are needed, {name}.toarray() makes them"
        )
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, str | bytes | bool) or value is np.ma.masked:
        raise ParameterError("must be a number", parameter=name, value=value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("must be a number", parameter=name, value=value) from None
