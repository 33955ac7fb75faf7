"""Sums that do not depend on the order of their terms.

A sum of floats depends on its order: on how a data set is cut into chunks and on which
worker is done first. Here every term is rounded once, to a multiple of a public 2^−k,
and whole numbers add up exactly: any grouping, any order, any number of machines give
the same bits. A public bound on the terms keeps them below 2^52. Each is cut into a
high and a low half of 26 bits, so that float sums of up to 2^26 of either are exact,
and int64 sums of up to 2^36.
"""

from dataclasses import dataclass
from math import frexp, sqrt

import numpy as np

from curvedp.numerics.arrays import Array, namespace

_BITS = 52  # of a term
_HALF_BITS = 26
_HALF = 2.0**_HALF_BITS

MOST_TERMS = 1 << 36
"""The largest number of terms whose sums are exact."""

# Bits of half an entry of `gram_sums`, and rows whose products of halves add up to less
# than 2^53.
_SLICE_BITS = 20
_SLICE_ROWS = 1 << 12

# No exponent beyond what a float can represent.
_LARGEST_EXPONENT = 1000


@dataclass(frozen=True)
class FixedPoint:
    """A grid of multiples of `resolution` for terms of modulus at most `bound`.

    Parameters
    ----------
    bound : float
        A public number.
    """

    bound: float

    @property
    def exponent(self) -> int:
        """The k for which terms are multiples of 2^−k, of modulus at most 2^52·2^−k."""
        return min(_BITS - frexp(self.bound)[1], _LARGEST_EXPONENT)

    @property
    def resolution(self) -> float:
        """2^−k; rounding moves a term, and so a mean, by at most half of it."""
        return float(2.0**-self.exponent)

    def sums(self, terms: Array, axis: int = 0) -> Array:
        """Return exact sums of at most 2^26 terms along an axis.

        Returns
        -------
        array, int64
            The sums of the high halves stacked over those of the low halves.
        """
        xp = namespace(terms)
        integers = xp.round(terms * 2.0**self.exponent)
        high = xp.round(integers * (1 / _HALF))
        low = integers - high * _HALF
        halves = [xp.sum(high, axis=axis), xp.sum(low, axis=axis)]
        return xp.astype(xp.stack(halves), xp.int64)

    def mean(self, sums: Array, n: int) -> np.ndarray:
        """Return the correctly rounded mean of n terms from (added up) `sums`."""
        high, low = np.asarray(sums, dtype=np.int64).astype(object)
        return _rounded_quotient(high * int(_HALF) + low, n, self.exponent)


def _rounded_quotient(total: np.ndarray, n: int, exponent: int) -> np.ndarray:
    """Return total·2^−exponent/n of Python integers, correctly rounded."""
    numerator_factor = 1 << max(-exponent, 0)
    denominator = n << max(exponent, 0)
    quotient = np.asarray(total) * numerator_factor / denominator
    return np.asarray(quotient, dtype=np.float64)


def gram_radius(radius: float, dim: int, rows: int = 1) -> float:
    """Return the length that a record may have once `gram_sums` has rounded it.

    Parameters
    ----------
    radius : float
        Length of a record; or, with several rows of one person, the square root of the
        sum of their squared lengths.
    dim : int
        Entries of a row.
    rows : int
        Rows of one person.
    """
    return radius * (1 + sqrt(rows * dim) * 2.0 ** -(2 * _SLICE_BITS - 1))


def gram_sums(rows: np.ndarray, radius: float) -> np.ndarray:
    """Return the exact sum Σ xxᵀ over rows x, each entry first rounded to 40 bits.

    An entry is h·2^20 + l with halves of 20 bits. Matrix products of 4096 halves with
    halves are whole numbers below 2^53, so the fast float product is exact in any order
    (Ozaki et al. 2012). The three products hh, hl + lh, ll are stored separately, each
    as a high and a low part, so that int64 sums of any number of blocks are exact too.

    Parameters
    ----------
    rows : array, shape (n, d)
        Rows of length at most `radius`.
    radius : float
        A public number.

    Returns
    -------
    array, shape (6, d, d), int64
    """
    d = rows.shape[1]
    total = np.zeros((6, d, d), dtype=np.int64)
    for start in range(0, len(rows), _SLICE_ROWS):
        block = rows[start : start + _SLICE_ROWS]
        integers = np.round(block * 2.0 ** _gram_exponent(radius))
        high = np.round(integers * 2.0**-_SLICE_BITS)
        low = integers - high * 2.0**_SLICE_BITS
        cross = high.T @ low
        float_products = np.stack([high.T @ high, cross + cross.T, low.T @ low])
        products = float_products.astype(np.int64)
        total[::2] += products >> _HALF_BITS
        total[1::2] += products & ((1 << _HALF_BITS) - 1)
    return total


def gram_mean(sums: np.ndarray, n: int, radius: float) -> np.ndarray:
    """Return the correctly rounded mean of n terms xxᵀ from (added up) `gram_sums`."""
    parts = np.asarray(sums, dtype=np.int64).astype(object)
    high_high, cross, low_low = parts[::2] * (1 << _HALF_BITS) + parts[1::2]
    total = high_high * (1 << 2 * _SLICE_BITS) + cross * (1 << _SLICE_BITS) + low_low
    return _rounded_quotient(total, n, 2 * _gram_exponent(radius))


def _gram_exponent(radius: float) -> int:
    """Return the k for which entries are rounded to multiples of 2^−k."""
    return 2 * _SLICE_BITS - frexp(radius)[1]
