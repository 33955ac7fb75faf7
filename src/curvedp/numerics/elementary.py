"""Elementary functions that keep their digits and their derivatives. The textbook forms
lose them at removable singularities, such as sin(x)/x at 0. Functions take arrays of
any library, `xp` (see `arrays.namespace`), and vectors lie along the last axis.

With u the unit roundoff, every function here has a relative error of a few u on its
whole domain (n·u for a sum of n terms), and a finite, correct derivative at those
points.

Where two formulas are needed, both are evaluated everywhere and `where` chooses. The
formula that is not chosen gets a harmless argument: reverse-mode differentiation
multiplies its derivative by 0, and 0·inf would be NaN.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.numerics.arrays import Array
from curvedp.numerics.autodiff import constant
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.error_free import two_product, two_sum

# Below this square three terms of a Taylor series are exact to 1e-19, far under the
# round-off of float64.
_SMALL_SQUARE = 1e-6

# A sum of squares above this number has lost nothing to underflow.
_SMALLEST_SAFE_SQUARE = 1e-280

# Coordinates of a vector up to which its layout in memory by columns helps, and up to
# which kernels work on one array per coordinate.
_SHORT_VECTOR = 32
_FEW_COORDINATES = 8

CarefulKernel = Callable[[Array, Array], Array]
FastKernel = Callable[[list[Array], list[Array]], tuple[Array, Array]]


def safe_sqrt(xp: Any, x: Array) -> Array:
    """Return √x, with the derivative 0 instead of infinity at 0; NaN stays NaN.

    Parameters
    ----------
    xp : module
        The array library of x.
    x : array
        Numbers x >= 0.

    Returns
    -------
    array
        √x.
    """
    is_zero = x == 0
    return xp.where(is_zero, 0.0, xp.sqrt(xp.where(is_zero, 1.0, x)))


def dot(xp: Any, u: Array, v: Array) -> Array:
    """Return the inner products Σ uᵢvᵢ of vectors along the last axis.

    NumPy arrays in the memory layout of `columns` are added column by column, which is
    faster for short vectors.

    Parameters
    ----------
    xp : module
        The array library of the vectors.
    u : array, shape (..., n)
        Vectors.
    v : array, shape (..., n)
        Vectors; they broadcast with `u`.

    Returns
    -------
    array, shape (...)
        The inner products.
    """
    if is_numpy_array(u) and u.ndim > 1 and 0 < u.strides[-2] < u.strides[-1]:
        return np.add.reduce(u * v, axis=-1)
    return xp.vecdot(u, v)


def column_and_row(x: Array, y: Array) -> tuple[Array, Array]:
    """Return x as a column and y as a row, which broadcast to all pairs (xᵢ, yⱼ).

    Functions of pairs of eigenvalues take them in this form.

    Parameters
    ----------
    x : array, shape (..., m)
        Numbers along the last axis.
    y : array, shape (..., n)
        Other numbers, or the same.

    Returns
    -------
    column : array, shape (..., m, 1)
        x.
    row : array, shape (..., 1, n)
        y.
    """
    return x[..., :, None], y[..., None, :]


def columns(x: Array) -> Array:
    """Return the same array, laid out by columns in memory if that makes loops faster.

    It does for many short NumPy vectors, such as ten thousand records of two
    coordinates: the inner loops of NumPy then run over the records, not over the two
    coordinates. All other arrays are returned as they are.

    Parameters
    ----------
    x : array, shape (..., d)
        Vectors along the last axis.

    Returns
    -------
    array, shape (..., d)
        The same values.
    """
    if not is_numpy_array(x) or x.ndim < 2 or x.shape[-1] > _SHORT_VECTOR:
        return x
    lies_by_columns = 0 < x.strides[-2] < x.strides[-1]
    if lies_by_columns:
        return x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)


def fast_path(careful: CarefulKernel, fast: FastKernel, p: Array, q: Array) -> Array:
    """Evaluate a function of two vectors by a fast formula where that is accurate.

    The remaining vectors are evaluated by the careful one, each by itself, so that a
    result does not depend on the other vectors of the batch. In public time the fast
    formula is not used, because the time would show which vectors needed care.

    Parameters
    ----------
    careful : callable
        The function of p and q, accurate for all arrays.
    fast : callable
        Takes the coordinates of p and of q, as lists with one array per coordinate.
        Returns the result, and a boolean array that says where it is accurate. It is
        called for short float64 NumPy vectors only.
    p, q : array
        The vectors, along the last axis.

    Returns
    -------
    array
        The values of the function.
    """
    has_fast_form = _are_short_vectors(p) and _are_short_vectors(q)
    if not has_fast_form or in_public_time():
        return careful(p, q)

    # Evaluate the fast formula on one array per coordinate.
    with np.errstate(all="ignore"):
        p_coordinates = [p[..., i] for i in range(p.shape[-1])]
        q_coordinates = [q[..., i] for i in range(q.shape[-1])]
        result, is_accurate = fast(p_coordinates, q_coordinates)
        if is_accurate.all():
            return result
        if not is_accurate.ndim:
            return careful(p, q)

        # Evaluate the other vectors by the careful formula.
        p = np.broadcast_to(p, (*is_accurate.shape, p.shape[-1]))
        q = np.broadcast_to(q, (*is_accurate.shape, q.shape[-1]))
        result = np.array(result)
        result[~is_accurate] = careful(p[~is_accurate], q[~is_accurate])
        return result


def _are_short_vectors(x: Array) -> bool:
    """Return whether these are NumPy vectors of two to eight doubles each."""
    is_double = is_numpy_array(x) and x.dtype == np.float64
    return bool(is_double and 1 < x.shape[-1] <= _FEW_COORDINATES)


def dot_lists(x: Sequence[Array], y: Sequence[Array]) -> Array:
    """Return Σ xᵢyᵢ of two vectors, each a list with one array per coordinate.

    Parameters
    ----------
    x : sequence of array
        The coordinates of the first vector.
    y : sequence of array
        Those of the second vector.

    Returns
    -------
    array
        The inner products.
    """
    return reduce(add, map(mul, x, y))


def euclidean_norm(xp: Any, v: Array) -> Array:
    """Return the length |v| of vectors, without overflow or underflow of the squares.

    The derivative at v = 0 is taken to be 0. NumPy rescales only the vectors that need
    it.

    Parameters
    ----------
    xp : module
        The array library of v.
    v : array of shape (..., n)
        Vectors.

    Returns
    -------
    array, shape (...)
        The lengths.
    """
    if is_numpy_array(v) and v.dtype == np.float64 and not in_public_time():
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            square = dot(xp, v, v)
        is_plain = (square > _SMALLEST_SAFE_SQUARE) & (square < math.inf)
        if np.all(is_plain):
            return np.sqrt(square)

        # Rescale the vectors whose squares are too small or too large.
        length = np.asarray(np.sqrt(np.where(is_plain, square, 1.0)))
        length[~is_plain] = _scaled_norm(xp, v[~is_plain])
        return length[()]
    return _scaled_norm(xp, v)


def direction(xp: Any, v: Array) -> Array:
    """Return the unit vectors v/|v|; NaN at v = 0.

    Vectors of the smallest (subnormal) and the largest floats are normalized
    accurately.

    Parameters
    ----------
    xp : module
        The array library of v.
    v : array of shape (..., n)
        Vectors.

    Returns
    -------
    array, shape (..., n)
        The unit vectors.
    """
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    is_nonzero = largest > 0
    scaled = xp.where(is_nonzero, v, 1.0) / xp.where(is_nonzero, largest, 1.0)
    length = xp.sqrt(xp.vecdot(scaled, scaled))[..., None]
    return xp.where(is_nonzero, scaled / length, xp.nan)


def _scaled_norm(xp: Any, v: Array) -> Array:
    """Return the length |v|, computed from v divided by its largest entry.

    The length does not depend on that divisor, which is therefore a constant for
    differentiation. Its own derivative would involve the number of entries that equal
    the largest one; a compiler that computes v twice can make that number 0.

    Parameters
    ----------
    xp : module
        The array library of v.
    v : array of shape (..., n)
        Vectors.

    Returns
    -------
    array, shape (...)
        The lengths.
    """
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    is_usable = (largest > 0) & (largest < math.inf)
    scale = constant(xp.where(is_usable, largest, 1.0))
    scaled = v / scale
    return safe_sqrt(xp, xp.vecdot(scaled, scaled)) * scale[..., 0]


def cos_sinc(xp: Any, square: Array) -> tuple[Array, Array]:
    """Return cos x and sin x/x as functions of x², smooth at x = 0.

    Parameters
    ----------
    xp : module
        The array library.
    square : array
        x² >= 0.

    Returns
    -------
    cosine, sinc : array
        cos x and sin x/x, of the shape of `square`.
    """
    return _even_functions(xp, square, -square, xp.cos, xp.sin)


def cosh_sinhc(xp: Any, square: Array) -> tuple[Array, Array]:
    """Return cosh x and sinh x/x as functions of x², smooth at x = 0.

    Parameters
    ----------
    xp : module
        The array library.
    square : array
        x² >= 0.

    Returns
    -------
    cosine, sinc : array
        cosh x and sinh x/x, of the shape of `square`.
    """
    return _even_functions(xp, square, square, xp.cosh, xp.sinh)


def _even_functions(
    xp: Any, square: Array, t: Array, cosine: Any, sine: Any
) -> tuple[Array, Array]:
    """Return (cosine(x), sine(x)/x) as functions of x².

    Near 0 they are the series 1 + t/2 + t²/24 and 1 + t/6 + t²/120.

    Parameters
    ----------
    xp : module
        The array library.
    square : array
        x² >= 0.
    t : array
        −x² for the circular functions, x² for the hyperbolic ones.
    cosine : callable
        cos or cosh.
    sine : callable
        sin or sinh.

    Returns
    -------
    cosine, sinc : array
        The two functions.
    """
    is_small = square < _SMALL_SQUARE
    x = xp.sqrt(xp.where(is_small, 1.0, square))
    # Taylor's series: cos x = 1 + t/2! + t²/4! and sin x/x = 1 + t/3! + t²/5!, t = −x².
    cosine_series = 1 + t / 2 * (1 + t / 12)
    sinc_series = 1 + t / 6 * (1 + t / 20)
    return (
        xp.where(is_small, cosine_series, cosine(x)),
        xp.where(is_small, sinc_series, sine(x) / x),
    )


def tanhc(xp: Any, square: Array) -> Array:
    """Return tanh x/x as a function of x², smooth at x = 0.

    Near 0 it is the series 1 − x²/3 + 2x⁴/15.

    Parameters
    ----------
    xp : module
        The array library.
    square : array
        x² >= 0.

    Returns
    -------
    array
        tanh x/x, of the shape of `square`.
    """
    is_small = square < _SMALL_SQUARE
    x = xp.sqrt(xp.where(is_small, 1.0, square))
    series = 1 - square / 3 * (1 - square * 2 / 5)
    return xp.where(is_small, series, xp.tanh(x) / x)


def versine_quotient(xp: Any, square: Array) -> Array:
    """Return (1 − cos x)/x² as a function of x², without cancellation and smooth at 0.

    It is ½·(sin(x/2)/(x/2))².

    Parameters
    ----------
    xp : module
        The array library.
    square : array
        x² >= 0.

    Returns
    -------
    array
        The quotient, which is ½ at x = 0.
    """
    half_sinc = cos_sinc(xp, square / 4)[1]
    return half_sinc * half_sinc / 2


def one_minus_square(xp: Any, w: Array) -> Array:
    """Return 1 − |w|² for vectors w, to a few u of itself even if |w| is close to 1.

    Squares and their sum are carried in twice the working precision, so that the
    absolute error is about n·u² for n coordinates. At |w| = 1 − 1e-12 the difference
    has 15 correct digits; the plain formula would have 4. Terms are added in pairs.

    Parameters
    ----------
    xp : module
        The array library of w.
    w : array of shape (..., n)
        Vectors of length at most 1.

    Returns
    -------
    array, shape (...)
        1 − |w|².
    """
    # Compute 1, −w₁², −w₂², … in twice the working precision.
    high, low = two_product(xp, w, w)
    one = xp.ones_like(high[..., :1])
    high = xp.concat([one, -high], axis=-1)
    low = xp.concat([xp.zeros_like(one), -low], axis=-1)

    # Add them in pairs: the first half to the second half.
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        total, error = two_sum(high[..., :half], high[..., half : 2 * half])
        low_total = low[..., :half] + low[..., half : 2 * half] + error
        unpaired = slice(2 * half, high.shape[-1])
        low = xp.concat([low_total, low[..., unpaired]], axis=-1)
        high = xp.concat([total, high[..., unpaired]], axis=-1)
    return high[..., 0] + low[..., 0]


def orthogonal_part(xp: Any, v: Array, base: Array) -> Array:
    """Return the part of v that is orthogonal to `base`, to a few u of its own length.

    This holds however small the part is beside v. Gram–Schmidt is applied twice:

    1. Subtract a multiple of `base`. Its coefficient may be rounded, because any
       multiple may be subtracted without changing the answer; the subtraction itself is
       exact, by `two_product`. The remainder is the answer plus at most u·|v| along
       `base`.
    2. Subtract the remaining multiple of `base`.

    A result below the roundoff of the second pass, about u²·|v|, is set to 0, so that
    parallel vectors give 0 at any scale; its derivative is kept.

    Parameters
    ----------
    xp : module
        The array library.
    v : array, shape (..., n)
        Vectors.
    base : array, shape (..., n)
        Vectors; where one is 0, v is returned.

    Returns
    -------
    array, shape (..., n)
        The part of v orthogonal to `base`.
    """
    square = dot(xp, base, base)[..., None]
    square = xp.where(square > 0, square, 1.0)

    # Subtract the multiple of `base`, and then what is left of it.
    coefficient = dot(xp, base, v)[..., None] / square
    product, error = two_product(xp, coefficient, base)
    first_pass = (v - product) - error
    remaining_coefficient = dot(xp, base, first_pass)[..., None] / square
    second_pass = first_pass - remaining_coefficient * base

    # A remainder at the level of roundoff is set to 0.
    eps = float(xp.finfo(first_pass.dtype).eps)
    first_length = euclidean_norm(xp, first_pass)[..., None]
    roundoff = (first_pass.shape[-1] + 4) * eps * first_length
    is_roundoff = euclidean_norm(xp, second_pass)[..., None] < roundoff
    return second_pass - constant(xp.where(is_roundoff, second_pass, 0.0))
