"""Sums that do not depend on the order of their terms.

A sum of floats depends on its order: on how a data set is cut into chunks and on which worker is done first. Here every term
is rounded once, to a multiple of a public 2^-k, and whole numbers add up exactly: any grouping, any order, any number of
machines give the same bits. A public bound on the terms keeps them below 2^52. Each is cut into a high and a low half of 26
bits, so that float sums of up to 2^26 of either are exact, and int64 sums of up to 2^36.
"""

from dataclasses import dataclass
from math import frexp

import numpy as np

from ._namespace import namespace
from .base import Array

__all__ = ["MOST_TERMS", "FixedPoint"]

_BITS, _HALF = 52, 2.0**26
MOST_TERMS = 1 << 36


@dataclass(frozen=True)
class FixedPoint:
    """Terms of modulus at most `bound`, a public number, written as multiples of `resolution`.

    >>> grid = FixedPoint(1.0)
    >>> x = np.array([0.1, 0.2, 0.3, -0.7])
    >>> parts = grid.sums(x[:1]) + grid.sums(x[1:])
    >>> bool(grid.mean(parts, 4) == grid.mean(grid.sums(x[::-1]), 4))
    True
    """

    bound: float

    @property
    def exponent(self) -> int:
        """k: the terms are multiples of 2^-k, of modulus at most 2^52 · 2^-k."""
        return _BITS - frexp(self.bound)[1]

    @property
    def resolution(self) -> float:
        """2^-k. Rounding moves a term, and so a mean of terms, by at most half of it."""
        return float(2.0**-self.exponent)

    def sums(self, terms: Array, axis: int = 0) -> Array:
        """Exact sums of at most 2^26 terms along an axis: int64, the high halves' sums stacked over the low halves'."""
        xp = namespace(terms)
        whole = xp.round(terms * 2.0**self.exponent)
        high = xp.round(whole * (1 / _HALF))
        halves = [xp.sum(high, axis=axis), xp.sum(whole - high * _HALF, axis=axis)]
        return xp.astype(xp.stack(halves), xp.int64)

    def mean(self, sums: Array, n: int) -> np.ndarray:
        """The correctly rounded mean of n terms from (added up) `sums`."""
        high, low = (np.asarray(half, dtype=object) for half in np.asarray(sums, dtype=np.int64).tolist())
        above, below = 1 << max(-self.exponent, 0), n << max(self.exponent, 0)
        quotients = [(h * int(_HALF) + low_) * above / below for h, low_ in zip(high.flat, low.flat, strict=True)]
        return np.array(quotients, dtype=np.float64).reshape(high.shape)
