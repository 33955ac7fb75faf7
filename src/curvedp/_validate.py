"""Checks of public parameters. Each is written so that NaN fails it, and names, shows and states the rule."""

import math
import operator
from typing import Any

from curvedp.errors import ParameterError


def positive(name: str, value: Any) -> float:
    """A finite number > 0, as a float."""
    number = _number(name, value)
    if not (0 < number < math.inf):
        raise ParameterError(f"{name}={value!r} must be finite and > 0")
    return number


def nonnegative(name: str, value: Any) -> float:
    """A finite number >= 0, as a float."""
    number = _number(name, value)
    if not (0 <= number < math.inf):
        raise ParameterError(f"{name}={value!r} must be finite and >= 0")
    return number


def within(name: str, value: Any, low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> float:
    """A number in the interval from low to high; each end can be left out."""
    number = _number(name, value)
    above = number > low if open_low else number >= low
    below = number < high if open_high else number <= high
    if not (above and below):
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise ParameterError(f"{name}={value!r} must lie in {interval}")
    return number


def integer(name: str, value: Any, minimum: int) -> int:
    """A whole number >= minimum, as an int. Floats, even whole ones, and booleans are refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        whole = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name}={value!r} must be a whole number >= {minimum}") from None
    if whole < minimum:
        raise ParameterError(f"{name}={value!r} must be >= {minimum}")
    return whole


def _number(name: str, value: Any) -> float:
    if isinstance(value, str | bytes | bool):
        raise ParameterError(f"{name}={value!r} must be a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name}={value!r} must be a number") from None
