"""Elementary functions that keep their digits and their gradients where the textbook forms lose them.

Bounds: with u the unit round-off, every function below has a relative error of a few u on its whole domain (n·u for a
sum of n terms), and a finite, correct derivative at the removable singularities. Singular branches are cut off with
the double `where`: the unused branch is evaluated at a harmless argument, because reverse-mode differentiation
multiplies its derivative by 0 and 0·inf is NaN.
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

# Below this square, three terms of a Taylor series are exact to 1e-19, far under the round-off of float64.
_SMALL_SQUARE = 1e-6
_SHORT, _COLUMNS = 32, 8  # coordinates

Kernel = Callable[[Any, Any], Any]


def safe_sqrt(xp: Any, x: Array) -> Array:
    """√x with derivative 0 instead of inf at 0; NaN stays NaN."""
    zero = x == 0
    return xp.where(zero, 0.0, xp.sqrt(xp.where(zero, 1.0, x)))


def dot(xp: Any, u: Array, v: Array) -> Array:
    """Products summed over the last axis; column by column where NumPy arrays lie so (`columns`)."""
    if is_numpy_array(u) and u.ndim > 1 and 0 < u.strides[-2] < u.strides[-1]:
        return np.add.reduce(u * v, axis=-1)
    return xp.vecdot(u, v)


def columns(x: Array) -> Array:
    """The same array, laid out in memory column by column where that helps: many short NumPy vectors. NumPy's inner
    loops run along memory: over ten thousand records then, and not over two coordinates."""
    if (
        not is_numpy_array(x)
        or x.ndim < 2
        or x.shape[-1] > _SHORT
        or 0 < x.strides[-2] < x.strides[-1]
    ):
        return x
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)


def fast_path(careful: Kernel, quick: Kernel, p: Array, q: Array) -> Array:
    """careful(p, q) of any arrays. Of short NumPy vectors outside of `public_time` it is quick(p, q) of their coordinates,
    one array each, so that loops run over records; it says where it is good, and the others are done with care. Element
    by element: a result does not depend on what it is computed beside."""
    plain = all(
        is_numpy_array(a) and a.dtype == np.float64 and 1 < a.shape[-1] <= _COLUMNS
        for a in (p, q)
    )
    if not plain or in_public_time():
        return careful(p, q)
    with np.errstate(all="ignore"):
        fast, good = quick(*([a[..., k] for k in range(a.shape[-1])] for a in (p, q)))
        if good.all():
            return fast
        if not good.ndim:
            return careful(p, q)
        p, q = (np.broadcast_to(a, (*good.shape, a.shape[-1])) for a in (p, q))
        out = np.array(fast)
        out[~good] = careful(p[~good], q[~good])
        return out


def dot_lists(x: Sequence[Array], y: Sequence[Array]) -> Array:
    """Products of coordinates, summed in order."""
    return reduce(add, map(mul, x, y))


def euclidean_norm(xp: Any, v: Array) -> Array:
    """Length over the last axis, without overflow or underflow of the squares; derivative 0 at v=0. NumPy scales
    only the vectors whose squares need it."""
    if is_numpy_array(v) and v.dtype == np.float64 and not in_public_time():
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            square = dot(xp, v, v)
        plain = (square > 1e-280) & (square < math.inf)
        if np.all(plain):
            return np.sqrt(square)
        length = np.asarray(np.sqrt(np.where(plain, square, 1.0)))
        length[~plain] = _scaled_norm(xp, v[~plain])
        return length[()]
    return _scaled_norm(xp, v)


def direction(xp: Any, v: Array) -> Array:
    """v/|v| over the last axis at any scale, the subnormal and the largest included; NaN at 0."""
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    unit = xp.where(largest > 0, v, 1.0) / xp.where(largest > 0, largest, 1.0)
    return xp.where(
        largest > 0, unit / xp.sqrt(xp.vecdot(unit, unit))[..., None], xp.nan
    )


def _scaled_norm(xp: Any, v: Array) -> Array:
    largest = xp.max(xp.abs(v), axis=-1, keepdims=True)
    # the length does not depend on the scale: as a constant it has no derivative, which would divide by how many entries
    # equal the largest, none of them when a compiler computes v twice
    scale = constant(xp.where((largest > 0) & (largest < math.inf), largest, 1.0))
    unit = v / scale
    return safe_sqrt(xp, xp.vecdot(unit, unit)) * scale[..., 0]


def cos_sinc(xp: Any, square: Array) -> tuple[Array, Array]:
    """(cos x, sin x / x) as functions of x², smooth at 0."""
    return _even(xp, square, -square, xp.cos, xp.sin)


def cosh_sinhc(xp: Any, square: Array) -> tuple[Array, Array]:
    """(cosh x, sinh x / x) as functions of x², smooth at 0."""
    return _even(xp, square, square, xp.cosh, xp.sinh)


def _even(xp: Any, square: Array, t: Array, cos: Any, sin: Any) -> tuple[Array, Array]:
    small = square < _SMALL_SQUARE
    x = xp.sqrt(xp.where(small, 1.0, square))
    return xp.where(small, 1 + t / 2 * (1 + t / 12), cos(x)), xp.where(
        small, 1 + t / 6 * (1 + t / 20), sin(x) / x
    )


def tanhc(xp: Any, square: Array) -> Array:
    """tanh x / x as a function of x², smooth at 0."""
    small = square < _SMALL_SQUARE
    x = xp.sqrt(xp.where(small, 1.0, square))
    return xp.where(small, 1 - square / 3 * (1 - square * 2 / 5), xp.tanh(x) / x)


def versine_quotient(xp: Any, square: Array) -> Array:
    """(1 - cos x) / x² = ½ sinc²(x/2) as a function of x²: no cancellation, smooth at 0."""
    half = cos_sinc(xp, square / 4)[1]
    return half * half / 2


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as an unevaluated sum (rounded, error), exactly (Knuth 1969, TAOCP 2, Thm 4.2.2B)."""
    total = a + b
    shifted = total - a
    return total, (a - (total - shifted)) + (b - shifted)


def two_product(xp: Any, a: Array, b: Array) -> tuple[Array, Array]:
    """a · b as an unevaluated sum (rounded, error), exactly barring underflow (Dekker 1971). Every partial product
    is exact, so a compiler that contracts them into fused operations changes nothing."""
    product = a * b
    a_high, a_low = _split(xp, a)
    b_high, b_low = _split(xp, b)
    return product, (
        (a_high * b_high - product) + a_high * b_low + a_low * b_high
    ) + a_low * b_low


def _split(xp: Any, a: Array) -> tuple[Array, Array]:
    """Halves of the significand, each short enough that products of halves are exact (Veltkamp 1968)."""
    dtype = (
        a.dtype if xp.isdtype(a.dtype, "real floating") else (1.0 * a).dtype
    )  # whole numbers are split as floats
    bits = round(-math.log2(float(xp.finfo(dtype).eps)))
    shifted = float(2 ** ((bits + 2) // 2) + 1) * a
    high = shifted - (shifted - a)
    return high, a - high


def one_minus_square(xp: Any, w: Array) -> Array:
    """1 - |w|² over the last axis, to a few u even when |w| is next to 1. Squares and their sum are carried in
    twice the working precision, so the error is about n·u² absolute: at |w| = 1 - 1e-12 the difference has 15
    digits where the plain form has 4."""
    high, low = two_product(xp, w, w)
    one = xp.ones_like(high[..., :1])
    high = xp.concat([one, -high], axis=-1)
    low = xp.concat([xp.zeros_like(one), -low], axis=-1)
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        total, error = two_sum(high[..., :half], high[..., half : 2 * half])
        rest = slice(2 * half, high.shape[-1])
        low = xp.concat(
            [low[..., :half] + low[..., half : 2 * half] + error, low[..., rest]],
            axis=-1,
        )
        high = xp.concat([total, high[..., rest]], axis=-1)
    return high[..., 0] + low[..., 0]


def orthogonal_part(xp: Any, v: Array, base: Array) -> Array:
    """The part of v orthogonal to `base` over the last axis, to a few u of ITSELF, however small it is beside v.
    Any multiple of `base` may be taken from v without changing the answer, so the rounded coefficient costs nothing
    as long as the subtraction is exact (a fused multiply-add, emulated); the second pass then works on a vector no
    longer than the answer plus u·|v|. What is left of it below its own round-off, u²·|v|, is 0 in value (so that
    parallel vectors give 0 at any scale) and keeps its derivative. base = 0 takes nothing away."""
    square = dot(xp, base, base)[..., None]
    square = xp.where(square > 0, square, 1.0)
    product, error = two_product(xp, dot(xp, base, v)[..., None] / square, base)
    first = (v - product) - error
    rest = first - dot(xp, base, first)[..., None] / square * base
    bound = (
        (first.shape[-1] + 4)
        * float(xp.finfo(first.dtype).eps)
        * euclidean_norm(xp, first)[..., None]
    )
    return rest - constant(
        xp.where(euclidean_norm(xp, rest)[..., None] < bound, rest, 0.0)
    )
