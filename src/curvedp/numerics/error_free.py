"""Error-free transformations: sums and products with their rounding errors."""

from typing import Any

_SPLITTER = (
    134217729.0  # 2^27 + 1: Veltkamp's factor, which halves a 53-bit significand
)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return (s, e) with s + e = a + b exactly, s being the rounded sum (Knuth 1969).

    Works elementwise on arrays, for finite numbers whose sum does not overflow.
    """
    s = a + b
    b_in_sum = s - a
    error = (a - (s - b_in_sum)) + (b - b_in_sum)
    return s, error


def two_prod(a: Any, b: Any) -> tuple[Any, Any]:
    """Return (p, e) with p + e = a·b exactly, p the rounded product (Dekker 1971).

    Works elementwise on arrays, for |a| and |b| below 1e140. Each factor is split into
    two halves of at most 27 bits, whose products are exact.
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
