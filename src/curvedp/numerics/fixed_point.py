"""Sums that do not depend on the order of their terms.

A sum of floats depends on its order: on how a data set is cut into chunks and on which worker is done first. Here every term
is rounded once, to a multiple of a public 2^-k, and whole numbers add up exactly: any grouping, any order, any number of
machines give the same bits. A public bound on the terms keeps them below 2^52. Each is cut into a high and a low half of 26
bits, so that float sums of up to 2^26 of either are exact, and int64 sums of up to 2^36.
"""

from dataclasses import dataclass
from math import frexp, sqrt

import numpy as np

from curvedp.numerics.arrays import Array, namespace

_BITS, _HALF = 52, 2.0**26
MOST_TERMS = 1 << 36


@dataclass(frozen=True)
class FixedPoint:
    """Terms of modulus at most `bound`, a public number, written as multiples of `resolution`."""

    bound: float

    @property
    def exponent(self) -> int:
        """k: the terms are multiples of 2^-k, of modulus at most 2^52 · 2^-k."""
        return min(
            _BITS - frexp(self.bound)[1], 1000
        )  # not beyond what a float can hold

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
        high, low = np.asarray(sums, dtype=np.int64).astype(object)
        return _quotient(high * int(_HALF) + low, n, self.exponent)


def _quotient(total: np.ndarray, n: int, exponent: int) -> np.ndarray:
    """total·2^-exponent/n of Python's whole numbers, correctly rounded."""
    above, below = 1 << max(-exponent, 0), n << max(exponent, 0)
    return np.asarray(np.asarray(total) * above / below, dtype=np.float64)


_SLICE, _ROWS = (
    20,
    1 << 12,
)  # bits of half an entry; rows whose products of halves add up to less than 2^53


def gram_radius(radius: float, dim: int, rows: int = 1) -> float:
    """The length that a record of length `radius` may have once `gram_sums` has rounded its entries; or so many rows of one
    person together, the square root of the sum of their squared lengths."""
    return radius * (1 + sqrt(rows * dim) * 2.0 ** -(2 * _SLICE - 1))


def gram_sums(rows: np.ndarray, radius: float) -> np.ndarray:
    """Exact Σ xxᵀ, int64 (6, d, d), of rows x of length at most `radius`, each entry first rounded to 40 bits. An
    entry is h·2^20 + l with halves of 20 bits. Matrix products of 4096 halves with halves are whole numbers below
    2^53, so the fast float product is exact in any order (Ozaki et al. 2012). The three products hh, hl + lh, ll
    are kept apart, each as a high and a low part, so that int64 sums of any number of blocks are exact too."""
    d = rows.shape[1]
    total = np.zeros((6, d, d), dtype=np.int64)
    for i in range(0, len(rows), _ROWS):
        whole = np.round(rows[i : i + _ROWS] * 2.0 ** _gram_exponent(radius))
        high = np.round(whole * 2.0**-_SLICE)
        low = whole - high * 2.0**_SLICE
        cross = high.T @ low
        products = np.stack([high.T @ high, cross + cross.T, low.T @ low]).astype(
            np.int64
        )
        total[::2] += products >> 26
        total[1::2] += products & ((1 << 26) - 1)
    return total


def gram_mean(sums: np.ndarray, n: int, radius: float) -> np.ndarray:
    """The correctly rounded mean of n terms xxᵀ from (added up) `gram_sums`."""
    parts = np.asarray(sums, dtype=np.int64).astype(object)
    products = parts[::2] * (1 << 26) + parts[1::2]
    total = (
        (products[0] * (1 << 2 * _SLICE)) + products[1] * (1 << _SLICE) + products[2]
    )
    return _quotient(total, n, 2 * _gram_exponent(radius))


def _gram_exponent(radius: float) -> int:
    return 2 * _SLICE - frexp(radius)[1]
