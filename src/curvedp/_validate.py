"""Checks of public parameters, such as a radius: `name` and `value` of a parameter.
A check returns the value, converted to one type, or raises a `ParameterError` that
names the parameter, shows its value and states the rule. Each check is written so that
NaN fails it.
"""

import math
import operator
import warnings
from collections.abc import Sized
from dataclasses import fields
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.errors import shown as shown

# Public lengths (scales, radii, sensitivities) outside this range are mistakes. Their
# squares could overflow or underflow.
_SMALLEST_LENGTH = 1e-100
_LARGEST_LENGTH = 1e100

# All whole numbers up to this one are exact as floats.
_LARGEST_INTEGER = 2**53


def positive(name: str, value: Any) -> float:
    """Return a finite number > 0 as a float.

    Parameters
    ----------
    name : str
        The name of the parameter in the error message.
    value : object
        What the caller passes.

    Raises
    ------
    ParameterError
        If it is no such number; NaN is none.
    """
    number = _number(name, value)
    if not (0 < number < math.inf):
        raise ParameterError("must be finite and > 0", parameter=name, value=value)
    return number


def nonnegative(name: str, value: Any) -> float:
    """Return a finite number >= 0 as a float.

    Parameters
    ----------
    name : str
        The name of the parameter in the error message.
    value : object
        What the caller passes.

    Raises
    ------
    ParameterError
        If it is no such number; NaN is none.
    """
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
    """Return a number in an interval as a float.

    Parameters
    ----------
    name : str
        The name of the number in error messages.
    value : number
        The number.
    low, high : float
        The ends of the interval.
    open_low, open_high : bool
        Whether this end does not belong to the interval.

    Returns
    -------
    float
        The number.

    Raises
    ------
    ParameterError
        If it lies outside, or is no number.
    """
    number = _number(name, value)
    is_above = number > low if open_low else number >= low
    is_below = number < high if open_high else number <= high
    if not (is_above and is_below):
        left_bracket = "(" if open_low else "["
        right_bracket = ")" if open_high else "]"
        interval = f"{left_bracket}{low:g}, {high:g}{right_bracket}"
        raise ParameterError(f"must lie in {interval}", parameter=name, value=value)
    return number


def integer(name: str, value: Any, minimum: int) -> int:
    """Return a whole number >= minimum as an int, or raise `ParameterError`.

    Floats are refused, even whole ones, and so are booleans. Numbers beyond 2^53 are
    refused because floats cannot hold all of them.

    Parameters
    ----------
    name : str
        The name of the parameter in the error message.
    value : object
        What the caller passes.
    minimum : int
        The smallest number that is allowed.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ParameterError
        If it is no such number.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ParameterError(
            f"must be a whole number >= {minimum}", parameter=name, value=value
        ) from None
    if not minimum <= number <= _LARGEST_INTEGER:
        raise ParameterError(
            f"must be >= {minimum} and at most 2^53", parameter=name, value=value
        )
    return number


def length(name: str, value: Any) -> float:
    """Return a length (a scale, a radius, a sensitivity) as a float.

    It must be > 0, and so far from 0 and ∞ that its square is a float too. Anything
    else raises `ParameterError`.

    Parameters
    ----------
    name : str
        The name of the parameter in the error message.
    value : object
        What the caller passes.

    Returns
    -------
    float
        Between 1e-100 and 1e100.
    """
    number = positive(name, value)
    if not _SMALLEST_LENGTH <= number <= _LARGEST_LENGTH:
        raise ParameterError(
            f"must lie in [{_SMALLEST_LENGTH:g}, {_LARGEST_LENGTH:g}]",
            parameter=name,
            value=value,
        )
    return number


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return a text after checking that it is one of a few options.

    Parameters
    ----------
    name : str
        The name of the parameter in the error message.
    value : object
        What the caller passes.
    options : tuple of str
        The texts that are allowed.

    Returns
    -------
    str
        The same text.

    Raises
    ------
    ParameterError
        If it is none of them.
    """
    if not isinstance(value, str) or value not in options:
        raise ParameterError(
            f"must be one of {', '.join(map(repr, options))}",
            parameter=name,
            value=value,
        )
    return value


def private_radius(value: Any) -> None:
    """Refuse a radius that is a word other than "private".

    Parameters
    ----------
    value : object
        The radius, which is no number.

    Raises
    ------
    ParameterError
        If it is not the text "private".
    """
    if value != "private":
        raise ParameterError(
            "must be a number > 0, or 'private'", parameter="radius", value=value
        )


def array(name: str, value: Any) -> np.ndarray:
    """Return real numbers as an array of 64-bit floats, or raise `ParameterError`.

    Only the type can be refused, never a value: NaN counts as a number. The message
    states the type and no value, because the refused object may contain records.

    Parameters
    ----------
    name : str
        The name of the value in the error message.
    value : object
        An array, a list of numbers, or anything that NumPy converts.

    Returns
    -------
    array of float64
        The numbers, not copied if they have this type already.
    """
    try:
        numbers: np.ndarray = np.asarray(value)
        if numbers.dtype.kind in "biufO":
            return numbers.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype} array"
    else:
        kind = type(value).__name__
    raise ParameterError(
        f"{name} must be an array of numbers with rows of one shape; this {kind} is not"
    )


def public_shape(name: str, value: Any, instead: str = "") -> tuple[int, ...]:
    """Return the shape of an array or frame of any library; refuse every list.

    An array has one shape, whatever its entries are, and its shape is public. A column
    that does not tell a shape, such as an array of pyarrow, has one entry for each of
    its cells; it is not converted, because a single cell can make that fail. The rows
    of a list have lengths of their own, and the length of a row belongs to that record.
    No rule can read a width off a list without telling something about single records:
    all lists of n rows are connected by replacing one row at a time. So a rule that
    gives two lists different widths, or accepts one of them and refuses the other, does
    so for two lists that differ in one row. Only a constant answer is private. The
    width of most rows is not constant, nor is that of the first, nor "the same for all,
    or an error".

    The width therefore comes from a public parameter. A caller with plain lists of
    equal length names it (`instead` says how) or passes ``numpy.array(rows)``. The
    message is the same for every list.

    Parameters
    ----------
    name : str
        The name of the value in the error message.
    value : array, frame or list
        The records.
    instead : str
        How the width can be said, such as "say features=".

    Returns
    -------
    tuple of int
        The shape, which is public.

    Raises
    ------
    ParameterError
        If it is a list, a sparse array, or has no shape.
    """
    if isinstance(value, list | tuple):
        remedy = f"give numpy.array({name})"
        if instead:
            remedy += f", or {instead}"
        raise ParameterError(
            f"{name} is a list, and how many numbers each of its rows has is data: "
            f"{remedy}"
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            array = refuse_sparse(name, value)
            has_length_alone = isinstance(array, Sized) and not hasattr(array, "shape")
            if has_length_alone and not isinstance(array, str | bytes):
                return (len(array),)
            return tuple(np.shape(array))
    except ParameterError:
        raise
    except Exception:  # The __array__ of an object may raise anything.
        raise ParameterError(
            f"{name} has no shape; this {type(value).__name__} is not an array"
        ) from None


def refuse_sparse(name: str, value: Any) -> Any:
    """Return an array unchanged, but refuse SciPy's sparse arrays.

    They are recognized by their method `toarray`, so that SciPy need not be imported.

    Parameters
    ----------
    name : str
        The name of the value in the error message.
    value : object
        Any object.
    """
    if hasattr(value, "toarray"):
        raise ParameterError(
            f"{name} is a sparse array; dense records are needed, {name}.toarray() makes "
            "them"
        )
    return value


def field_values(instance: Any) -> dict[str, Any]:
    """Return the values of a dataclass instance by the names of its fields.

    Unlike `dataclasses.asdict`, it does not copy them.

    Parameters
    ----------
    instance : dataclass instance
        Such as a statistic or a mechanism.
    """
    return {entry.name: getattr(instance, entry.name) for entry in fields(instance)}


def _number(name: str, value: Any) -> float:
    """Return a number as a float; texts, booleans and masked values are refused.

    Parameters
    ----------
    name : str
        The name of the parameter in the error message.
    value : object
        What the caller passes.

    Raises
    ------
    ParameterError
        If it is no number.
    """
    if isinstance(value, str | bytes | bool) or value is np.ma.masked:
        raise ParameterError("must be a number", parameter=name, value=value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("must be a number", parameter=name, value=value) from None
