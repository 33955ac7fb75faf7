"""Sums of floats that do not depend on the order of their terms. Every term is first
rounded to a multiple of a public number 2^−k, and integers add up exactly. An integer
is cut into a high and a low half, because float sums of halves are exact.

A sum of floats depends on its order: on how a data set is cut into chunks, and on which
worker is done first. Here any grouping, any order and any number of machines give the
same bits.

A public bound on the terms keeps these integers below 2^52. Each of them is cut into a
high and a low half of 26 bits. Float sums of up to 2^26 halves are then exact, and
int64 sums of up to 2^36.
"""

from dataclasses import dataclass
from math import frexp, sqrt

import numpy as np
from array_api_compat import device, is_numpy_array

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.threads import blocks

_BITS = 52  # bits of a term
_HALF_BITS = 26  # bits of its low half
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
        A public bound on the modulus of the terms.
    """

    bound: float

    @property
    def exponent(self) -> int:
        """The k for which terms are rounded to multiples of 2^−k.

        It is the largest one for which a term of modulus `bound` is less than 2^52 such
        multiples, but at most 1000.
        """
        return min(_BITS - frexp(self.bound)[1], _LARGEST_EXPONENT)

    @property
    def resolution(self) -> float:
        """2^−k, the spacing of the grid; rounding moves a term by at most half."""
        return float(2.0**-self.exponent)

    def sums(self, terms: Array, axis: int = 0) -> Array:
        """Return exact sums of at most 2^26 terms along an axis, as two integers each.

        Parameters
        ----------
        terms : array
            Numbers of modulus at most `bound`; each is rounded to the grid first.
        axis : int
            The axis along which the terms are added.

        Returns
        -------
        array of int64, shape (2, ...)
            The sums of the high halves, and the sums of the low halves. Such arrays of
            several chunks are added up before `mean` is taken.
        """
        xp = namespace(terms)
        # integers = high·2^26 + low, with |low| <= 2^25. All these floats are exact.
        integers = xp.round(terms * 2.0**self.exponent)
        high = xp.round(integers * (1 / _HALF))
        low = integers - high * _HALF
        halves = [xp.sum(high, axis=axis), xp.sum(low, axis=axis)]
        return xp.astype(xp.stack(halves), xp.int64)

    def mean(self, sums: Array, n: int) -> np.ndarray:
        """Return the correctly rounded mean of terms from their `sums`.

        Parameters
        ----------
        sums : array of int64
            The result of `sums`, or the total of these results over several chunks.
        n : int
            The number of terms.

        Returns
        -------
        array
            The mean; rounding it is the only rounding after the terms.
        """
        # Python's integers, which do not overflow.
        high, low = np.asarray(sums, dtype=np.int64).astype(object)
        return _rounded_quotient(high * int(_HALF) + low, n, self.exponent)


def _rounded_quotient(total: np.ndarray, n: int, exponent: int) -> np.ndarray:
    """Return total·2^−exponent/n of Python integers, correctly rounded.

    It is the mean of n numbers with the exact sum `total`. Python divides integers of
    any size with a single rounding.

    Parameters
    ----------
    total : array of Python int
        Exact sums, in units of 2^−exponent.
    n : int
        The number of terms.
    exponent : int
        The exponent of the unit, possibly negative.

    Returns
    -------
    array
        The quotients.
    """
    numerator_factor = 1 << max(-exponent, 0)
    denominator = n << max(exponent, 0)
    quotient = np.asarray(total) * numerator_factor / denominator
    return np.asarray(quotient, dtype=np.float64)


def gram_radius(radius: float, dim: int, rows: int = 1) -> float:
    """Return a bound on the length of a record whose entries `gram_sums` has rounded.

    Sensitivities are computed from this bound instead of `radius`. Rounding moves an
    entry by at most 2^-40 of the radius; twice that is charged for each of the rows·dim
    entries, whose errors add up as in a root of a sum of squares.

    Parameters
    ----------
    radius : float
        A bound on the length of a record before rounding. If a person has several rows,
        it bounds the square root of the sum of their squared lengths.
    dim : int
        The number of entries of a row.
    rows : int
        The number of rows of one person.

    Returns
    -------
    float
        The bound.
    """
    return radius * (1 + sqrt(rows * dim) * 2.0 ** -(2 * _SLICE_BITS - 1))


def gram_sums(rows: Array, radius: float) -> Array:
    """Return the exact sum of the products xxᵀ over rows x, as six arrays of integers.

    Second moments of private records are computed from it, with the same bits for every
    order of the records. Each entry is first rounded to 40 bits and written as
    h·2^20 + l with halves of 20 bits. Matrix products of 4096 halves with halves are
    whole numbers below 2^53, so the fast float product is exact in any order (Ozaki et
    al. 2012). The three products hh, hl + lh, ll are stored separately, each as a high
    and a low part, so that int64 sums of any number of blocks are exact too.

    Parameters
    ----------
    rows : array, shape (n, d)
        Rows of length at most `radius`, in an array of any library.
    radius : float
        A public bound on the lengths of the rows. It determines the grid to which the
        entries are rounded.

    Returns
    -------
    array of int64, shape (6, d, d)
        High and low parts of the three products, alternately.
    """
    xp = namespace(rows)
    n, d = rows.shape
    total = xp.zeros((6, d, d), dtype=xp.int64, device=device(rows))
    n_slices = n // _SLICE_ROWS
    if n_slices > 0 and not is_numpy_array(rows):
        # A device multiplies the matrices of all full slices in one call.
        full = rows[: n_slices * _SLICE_ROWS, :]
        slices = xp.reshape(full, (n_slices, _SLICE_ROWS, d))
        total = total + _gram_of_slices(slices, radius)
        rows = rows[n_slices * _SLICE_ROWS :, :]
    for part in blocks(rows.shape[0], _SLICE_ROWS):
        total = total + _gram_of_slices(rows[None, part, :], radius)
    return total


def _gram_of_slices(slices: Array, radius: float) -> Array:
    """Return the exact sum of xxᵀ over the rows x of several slices (see `gram_sums`).

    Parameters
    ----------
    slices : array, shape (k, m, d)
        k slices of m rows each. With m at most 4096 the float products are exact.
    radius : float
        A public bound on the lengths of the rows.

    Returns
    -------
    array of int64, shape (6, d, d)
        High and low parts of the products hh, hl + lh and ll, alternately.
    """
    # x in units of 2^−k is high·2^20 + low.
    xp = namespace(slices)
    integers = xp.round(slices * 2.0 ** _gram_exponent(radius))
    high = xp.round(integers * 2.0**-_SLICE_BITS)
    low = integers - high * 2.0**_SLICE_BITS

    # The three products hh, hl + lh and ll, as integers; the matrices are d×d.
    cross = high.mT @ low
    float_products = xp.stack([high.mT @ high, cross + cross.mT, low.mT @ low])
    products = xp.astype(float_products, xp.int64)

    # Cut each product into high part·2^26 + low part; the mask keeps the last 26 bits.
    parts = [products >> _HALF_BITS, products & ((1 << _HALF_BITS) - 1)]
    # Axes: the three products, their high and low parts, the slices, rows, columns.
    sums = xp.sum(xp.stack(parts, axis=1), axis=2)
    d = slices.shape[2]
    return xp.reshape(sums, (6, d, d))


def gram_mean(sums: np.ndarray, n: int, radius: float) -> np.ndarray:
    """Return the correctly rounded mean of n terms xxᵀ from their `gram_sums`.

    `gram_sums` has rounded each entry of x to an integer h·2^20 + l, in units of 2^−k
    with a public k. So an entry of the sum of xxᵀ is, in units of 2^−2k,

        hh·2^40 + (hl + lh)·2^20 + ll,

    where hh, hl + lh and ll are sums of products of halves. Each of the three sums is
    stored as a high part and a low part, so that it fits into int64: the sum is
    high·2^26 + low. Integers add up exactly in any order, so the mean does not depend
    on how the records were divided into chunks; it is rounded once, at the end.

    Parameters
    ----------
    sums : array of int64, shape (6, d, d)
        The result of `gram_sums`, or the total of these results over several chunks. It
        consists of the high and the low part of hh, of hl + lh, and of ll.
    n : int
        The number of terms.
    radius : float
        The public bound that was given to `gram_sums`; it determines k.

    Returns
    -------
    array, shape (d, d)
        The mean of xxᵀ.
    """
    # The matrices are symmetric, so the entries on and above the diagonal are enough.
    upper = np.triu_indices(np.shape(sums)[-1])

    # Python's integers do not overflow. Even rows are high parts, odd rows low parts.
    parts = np.asarray(sums, dtype=np.int64)[:, *upper].astype(object)
    high_parts, low_parts = parts[::2], parts[1::2]
    high_high, cross, low_low = high_parts * (1 << _HALF_BITS) + low_parts
    total = high_high * (1 << 2 * _SLICE_BITS) + cross * (1 << _SLICE_BITS) + low_low

    mean = np.zeros(np.shape(sums)[1:])
    mean[upper] = _rounded_quotient(total, n, 2 * _gram_exponent(radius))
    mean.T[upper] = mean[upper]  # the entries below the diagonal
    return mean


def _gram_exponent(radius: float) -> int:
    """Return the k for which entries of `gram_sums` are rounded to multiples of 2^−k.

    Entries of modulus at most `radius` then have 40 bits: two halves of 20 bits.

    Parameters
    ----------
    radius : float
        A public bound on the length of a row.

    Returns
    -------
    int
        The number of binary digits after the point; negative for a huge radius.
    """
    return 2 * _SLICE_BITS - frexp(radius)[1]
