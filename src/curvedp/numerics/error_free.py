"""Error-free transformations: a sum or a product of floats together with its rounding
error. Both parts are floats, and their unevaluated sum is exactly the true result.
Calculations in twice the usual precision are made of them.
"""

import math
from typing import Any

# Veltkamp's factor 2^27 + 1, which splits the 53 bits of a double's significand in
# half.
_SPLITTER = 134217729.0


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded sum s of two numbers, and its error e: s + e = a + b exactly.

    Sums in twice the usual precision are made of it. This is Knuth's algorithm (1969).
    It works elementwise on arrays, for finite numbers whose sum does not overflow.

    Parameters
    ----------
    a : float or array
        The first summand.
    b : float or array
        The second summand.

    Returns
    -------
    total, error : float or array
        The rounded sum s, and its error e.
    """
    total = a + b
    b_in_total = total - a
    a_in_total = total - b_in_total
    error = (a - a_in_total) + (b - b_in_total)
    return total, error


def two_prod(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded product p and its error e: p + e = a·b exactly.

    It is for doubles; `two_product` is for other floating types. This is Dekker's
    algorithm (1971). It works elementwise on arrays, for |a| and |b| below 1e140. Each
    factor is split into two halves of at most 27 bits, whose products are exact.

    Parameters
    ----------
    a : float or array
        The first factor.
    b : float or array
        The second factor.

    Returns
    -------
    product, error : float or array
        The rounded product p, and its error e.
    """
    product = a * b
    a_scaled = _SPLITTER * a
    b_scaled = _SPLITTER * b
    a_high = a_scaled - (a_scaled - a)
    b_high = b_scaled - (b_scaled - b)
    a_low = a - a_high
    b_low = b - b_high
    error = (a_high * b_high - product) + a_high * b_low + a_low * b_high
    error = error + a_low * b_low
    return product, error


def two_product(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded product p and its error e, for any floating type.

    This is exact barring underflow (Dekker 1971). Every partial product is exact, so a
    compiler that contracts them into fused operations changes nothing.

    Parameters
    ----------
    xp : module
        The array library.
    a : array
        The first factor.
    b : array
        The second factor.

    Returns
    -------
    product, error : array
        The rounded product p, and its error e.
    """
    product = a * b
    a_high, a_low = _split_significand(xp, a)
    b_high, b_low = _split_significand(xp, b)
    error = (a_high * b_high - product) + a_high * b_low + a_low * b_high
    error = error + a_low * b_low
    return product, error


def _split_significand(xp: Any, a: Any) -> tuple[Any, Any]:
    """Return a number as the sum of two halves whose products are exact.

    Each half has at most half of the bits of the significand (Veltkamp 1968). Integers
    are split as floats.

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
    # A significand has `stored_bits` bits and a leading 1; half of them, rounded up.
    stored_bits = round(-math.log2(float(xp.finfo(dtype).eps)))
    half_bits = (stored_bits + 2) // 2
    scaled = float(2**half_bits + 1) * a
    high = scaled - (scaled - a)
    return high, a - high
