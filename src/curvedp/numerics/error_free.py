"""Error-free transformations: sums and products with their rounding errors."""

import math
from typing import Any

_SPLITTER = (
    134217729.0  # 2^27 + 1: Veltkamp's factor, which halves a 53-bit significand
)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return (s, e) with s + e = a + b exactly, s being the rounded sum (Knuth 1969).

    Works elementwise on arrays, for finite numbers whose sum does not overflow.

    Parameters
    ----------
    a, b : float or array
        The summands.
    """
    s = a + b
    b_in_sum = s - a
    error = (a - (s - b_in_sum)) + (b - b_in_sum)
    return s, error


def two_prod(a: Any, b: Any) -> tuple[Any, Any]:
    """Return (p, e) with p + e = a·b exactly, p the rounded product (Dekker 1971).

    Works elementwise on arrays, for |a| and |b| below 1e140. Each factor is split into
    two halves of at most 27 bits, whose products are exact.

    Parameters
    ----------
    a, b : float or array
        The factors.
    """
    p = a * b
    a_scaled = _SPLITTER * a
    b_scaled = _SPLITTER * b
    a_high = a_scaled - (a_scaled - a)
    b_high = b_scaled - (b_scaled - b)
    a_low = a - a_high
    b_low = b - b_high
    error = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
    return p, error


def two_product(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return (p, e) with p + e = a·b exactly, for arrays of any floating type.

    Exact barring underflow (Dekker 1971). Every partial product is exact, so a compiler
    that contracts them into fused operations changes nothing. `xp` is the array
    library.

    Parameters
    ----------
    xp : module
        The array library.
    a, b : arrays
        The factors.
    """
    p = a * b
    a_high, a_low = _split_significand(xp, a)
    b_high, b_low = _split_significand(xp, b)
    error = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
    return p, error


def _split_significand(xp: Any, a: Any) -> tuple[Any, Any]:
    """Return halves of the significand whose products are exact (Veltkamp 1968).

    Integers are split as floats.

    Parameters
    ----------
    xp : namespace
        The array library.
    a : array
        The numbers to split.

    Returns
    -------
    high, low : array
        a = high + low exactly.
    """
    is_floating = xp.isdtype(a.dtype, "real floating")
    dtype = a.dtype if is_floating else (1.0 * a).dtype
    bits = round(-math.log2(float(xp.finfo(dtype).eps)))
    scaled = float(2 ** ((bits + 2) // 2) + 1) * a
    high = scaled - (scaled - a)
    return high, a - high
