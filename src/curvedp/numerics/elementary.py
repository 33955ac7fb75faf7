"""Elementary functions that keep their digits and their gradients.

The textbook forms lose them at removable singularities. With u the unit round-off,
every function here has a relative error of a few u on its whole domain (n·u for a sum
of n terms), and a finite, correct derivative at those points. Singular branches are cut
off with the double `where`: the unused branch is evaluated at a harmless argument,
because reverse-mode differentiation multiplies its derivative by 0, and 0·inf is NaN.
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

# Coordinates of a vector up to which its layout in memory by columns helps, and up to
# which kernels work on one array per coordinate.
_SHORT_VECTOR = 32
_FEW_COORDINATES = 8

CarefulKernel = Callable[[Array, Array], Array]
FastKernel = Callable[[list[Array], list[Array]], tuple[Array, Array]]


def safe_sqrt(xp: Any, x: Array) -> Array:
    """Return √x with derivative 0 instead of inf at 0; NaN stays NaN."""
    is_zero = x == 0
    return xp.where(is_zero, 0.0, xp.sqrt(xp.where(is_zero, 1.0, x)))


def dot(xp: Any, u: Array, v: Array) -> Array:
    """Return Σ uᵢvᵢ over the last axis.

    NumPy arrays that lie in memory by columns (`columns`) are added column by column.
    """
    if is_numpy_array(u) and u.ndim > 1 and 0 < u.strides[-2] < u.strides[-1]:
        return np.add.reduce(u * v, axis=-1)
    return xp.vecdot(u, v)


def columns(x: Array) -> Array:
    """Return the same array, laid out in memory by columns where that helps.

    It helps for many short NumPy vectors: the inner loops run along memory, over ten
    thousand records then, and not over two coordinates.
    """
    if not is_numpy_array(x) or x.ndim < 2 or x.shape[-1] > _SHORT_VECTOR:
        return x
    lies_by_columns = 0 < x.strides[-2] < x.strides[-1]
    if lies_by_columns:
        return x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)


def fast_path(careful: CarefulKernel, fast: FastKernel, p: Array, q: Array) -> Array:
    """Evaluate a kernel of two vectors by a fast form where that is accurate.

    Parameters
    ----------
    careful : callable
        The kernel, for any arrays.
    fast : callable
        Takes the coordinates of short NumPy vectors, one array each, so that loops run
        over records, and returns the result and where it is accurate. The other records
        are done with care, element by element: a result does not depend on what it is
        computed beside. It is not used in public time.
    p, q : array
        The vectors, along the last axis.
    """
    has_fast_form = all(
        is_numpy_array(a)
        and a.dtype == np.float64
        and 1 < a.shape[-1] <= _FEW_COORDINATES
        for a in (p, q)
    )
    if not has_fast_form or in_public_time():
        return careful(p, q)
    with np.errstate(all="ignore"):
        p_coordinates = [p[..., k] for k in range(p.shape[-1])]
        q_coordinates = [q[..., k] for k in range(q.shape[-1])]
        result, is_accurate = fast(p_coordinates, q_coordinates)
        if is_accurate.all():
            return result
        if not is_accurate.ndim:
            return careful(p, q)
        p = np.broadcast_to(p, (*is_accurate.shape, p.shape[-1]))
        q = np.broadcast_to(q, (*is_accurate.shape, q.shape[-1]))
        result = np.array(result)
        result[~is_accurate] = careful(p[~is_accurate], q[~is_accurate])
        return result


def dot_lists(x: Sequence[Array], y: Sequence[Array]) -> Array:
    """Return Σ xᵢyᵢ for vectors given by one array per coordinate, added in order."""
    return reduce(add, map(mul, x, y))


def euclidean_norm(xp: Any, v: Array) -> Array:
    """Return |v| over the last axis without overflow or underflow of the squares.

    The derivative at v = 0 is 0. NumPy scales only the vectors whose squares need it.
    """
    if is_numpy_array(v) and v.dtype == np.float64 and not in_public_time():
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            square = dot(xp, v, v)
        is_plain = (square > 1e-280) & (square < math.inf)
        if np.all(is_plain):
            return np.sqrt(square)
        length = np.asarray(np.sqrt(np.where(is_plain, square, 1.0)))
        length[~is_plain] = _scaled_norm(xp, v[~is_plain])
        return length[()]
    return _scaled_norm(xp, v)


def direction(xp: Any, v: Array) -> Array:
    """Return v/|v| over the last axis at any scale; NaN at 0.

    The subnormal and the largest scales are included.
    """
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    is_nonzero = largest > 0
    scaled = xp.where(is_nonzero, v, 1.0) / xp.where(is_nonzero, largest, 1.0)
    length = xp.sqrt(xp.vecdot(scaled, scaled))[..., None]
    return xp.where(is_nonzero, scaled / length, xp.nan)


def _scaled_norm(xp: Any, v: Array) -> Array:
    """Return |v| after dividing by the largest entry.

    The length does not depend on that scale. As a constant it has no derivative, which
    would divide by how many entries equal the largest, none of them when a compiler
    computes v twice.
    """
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    is_usable = (largest > 0) & (largest < math.inf)
    scale = constant(xp.where(is_usable, largest, 1.0))
    scaled = v / scale
    return safe_sqrt(xp, xp.vecdot(scaled, scaled)) * scale[..., 0]


def cos_sinc(xp: Any, square: Array) -> tuple[Array, Array]:
    """Return (cos x, sin x / x) as functions of x², smooth at 0."""
    return _even_functions(xp, square, -square, xp.cos, xp.sin)


def cosh_sinhc(xp: Any, square: Array) -> tuple[Array, Array]:
    """Return (cosh x, sinh x / x) as functions of x², smooth at 0."""
    return _even_functions(xp, square, square, xp.cosh, xp.sinh)


def _even_functions(
    xp: Any, square: Array, t: Array, cosine: Any, sine: Any
) -> tuple[Array, Array]:
    """Return (cosine(x), sine(x)/x) as functions of x².

    Near 0 by their series 1 + t/2 + t²/24 and 1 + t/6 + t²/120, with t = −x² for the
    circular and x² for the hyperbolic functions.
    """
    is_small = square < _SMALL_SQUARE
    x = xp.sqrt(xp.where(is_small, 1.0, square))
    cosine_series = 1 + t / 2 * (1 + t / 12)
    sinc_series = 1 + t / 6 * (1 + t / 20)
    return (
        xp.where(is_small, cosine_series, cosine(x)),
        xp.where(is_small, sinc_series, sine(x) / x),
    )


def tanhc(xp: Any, square: Array) -> Array:
    """Return tanh x / x as a function of x², smooth at 0."""
    is_small = square < _SMALL_SQUARE
    x = xp.sqrt(xp.where(is_small, 1.0, square))
    series = 1 - square / 3 * (1 - square * 2 / 5)
    return xp.where(is_small, series, xp.tanh(x) / x)


def versine_quotient(xp: Any, square: Array) -> Array:
    """Return (1 − cos x)/x² = ½sinc²(x/2) as a function of x².

    It has no cancellation and is smooth at 0.
    """
    half_sinc = cos_sinc(xp, square / 4)[1]
    return half_sinc * half_sinc / 2


def one_minus_square(xp: Any, w: Array) -> Array:
    """Return 1 − |w|² over the last axis, to a few u even when |w| is next to 1.

    Squares and their sum are carried in twice the working precision, so the error is
    about n·u² absolute: at |w| = 1 − 1e-12 the difference has 15 digits where the plain
    form has 4. Terms are added in pairs.
    """
    high, low = two_product(xp, w, w)
    one = xp.ones_like(high[..., :1])
    high = xp.concat([one, -high], axis=-1)
    low = xp.concat([xp.zeros_like(one), -low], axis=-1)
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        total, error = two_sum(high[..., :half], high[..., half : 2 * half])
        low_total = low[..., :half] + low[..., half : 2 * half] + error
        unpaired = slice(2 * half, high.shape[-1])
        low = xp.concat([low_total, low[..., unpaired]], axis=-1)
        high = xp.concat([total, high[..., unpaired]], axis=-1)
    return high[..., 0] + low[..., 0]


def orthogonal_part(xp: Any, v: Array, base: Array) -> Array:
    """Return the part of v orthogonal to `base`, to a few u of itself.

    It is accurate however small it is beside v. Any multiple of `base` may be taken
    from v without changing the answer, so the rounded coefficient costs nothing as long
    as the subtraction is exact (a fused multiply-add, emulated); the second pass then
    works on a vector no longer than the answer plus u·|v|. What is left of it below its
    own round-off, u²·|v|, is 0 in value (so that parallel vectors give 0 at any scale)
    and keeps its derivative. base = 0 takes nothing away.
    """
    square = dot(xp, base, base)[..., None]
    square = xp.where(square > 0, square, 1.0)
    coefficient = dot(xp, base, v)[..., None] / square
    product, error = two_product(xp, coefficient, base)
    first_pass = (v - product) - error
    second_pass = first_pass - dot(xp, base, first_pass)[..., None] / square * base

    eps = float(xp.finfo(first_pass.dtype).eps)
    first_length = euclidean_norm(xp, first_pass)[..., None]
    roundoff = (first_pass.shape[-1] + 4) * eps * first_length
    is_roundoff = euclidean_norm(xp, second_pass)[..., None] < roundoff
    return second_pass - constant(xp.where(is_roundoff, second_pass, 0.0))
