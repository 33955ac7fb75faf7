"""Enclosures of real numbers: float64 midpoints with proven radii in front, Arb balls behind.

`FloatBall` uses only + - * / and the square root, which IEEE 754 rounds correctly, so
its radius is a theorem and not a trust in somebody's `exp`: |fl(a∘b) − a∘b| ≤
u·|fl(a∘b)|, u = 2^-53, plus 2^-1074 at underflow, and a sum of n products in any order
errs by at most n·u/(1−n·u)·Σ|aᵢbᵢ| (Higham 2002, §3.1). Radii are computed in floats
too; each radius expression has at most 8 roundings (n + 8 with an inner product), which
`_grow` covers.

Formulas are written once for both kinds: an object array of Arb balls and a `FloatBall`
share + - * / .dot .sqrt.
"""

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from flint import arb, ctx

FILTER_GRID = 40  # on finer grids float64 settles almost nothing
FILTER_SIZE = (
    48  # with fewer numbers than this, Arb at 64 bits is the faster first stage
)

_U = 2.0**-53
_TINY = 2.0**-1000  # far above what underflow can lose, far below any grid
_LN2 = 0.6931471805599453
_END = arb((1, 1023))

T = TypeVar("T")


def _grow(radius: Any, n: int = 0) -> Any:
    """An upper bound of a radius whose expression in floats had at most n + 8 roundings."""
    return radius * (1.0 + (n + 16) * 2.0**-52) + _TINY


class FloatBall:
    """Real arrays known to lie within `rad` of `mid`, elementwise. A NaN or infinite radius means nothing is known."""

    __array_ufunc__ = None  # ndarray ∘ FloatBall comes here
    __slots__ = ("mid", "rad")

    def __init__(self, mid: Any, rad: Any = 0.0) -> None:
        self.mid = np.asarray(mid, dtype=np.float64)
        radius = np.asarray(rad, dtype=np.float64)
        self.rad = (
            radius
            if radius.shape == self.mid.shape
            else np.broadcast_to(radius, self.mid.shape)
        )

    def __getitem__(self, index: Any) -> "FloatBall":
        return FloatBall(self.mid[index], self.rad[index])

    def reshape(self, *shape: int) -> "FloatBall":
        return FloatBall(self.mid.reshape(shape), self.rad.reshape(shape))

    @property
    def T(self) -> "FloatBall":
        return FloatBall(self.mid.T, self.rad.T)

    def __neg__(self) -> "FloatBall":
        return FloatBall(-self.mid, self.rad)

    def __add__(self, other: Any) -> "FloatBall":
        b = _ball(other)
        mid = self.mid + b.mid
        return FloatBall(mid, _grow(self.rad + b.rad + _U * np.abs(mid)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "FloatBall":
        return self + (-_ball(other))

    def __rsub__(self, other: Any) -> "FloatBall":
        return _ball(other) + (-self)

    def __mul__(self, other: Any) -> "FloatBall":
        b = _ball(other)
        mid = self.mid * b.mid
        spread = np.abs(self.mid) * b.rad + self.rad * (np.abs(b.mid) + b.rad)
        return FloatBall(mid, _grow(spread + _U * np.abs(mid)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "FloatBall":
        # x/y − a/b = ((x−a) − (a/b)(y−b))/y and |y| ≥ |b| − rad b
        b = _ball(other)
        mid = self.mid / b.mid
        room = np.abs(b.mid) - b.rad
        spread = (self.rad + np.abs(mid) * (1 + 4 * _U) * b.rad) / np.where(
            room > 0, room, np.nan
        )
        return FloatBall(mid, _grow(spread + _U * np.abs(mid)))

    def __rtruediv__(self, other: Any) -> "FloatBall":
        return _ball(other) / self

    def sqrt(self) -> "FloatBall":
        """|√x − √a| = |x−a|/(√x+√a) ≤ rad/√a"""
        mid = np.sqrt(self.mid)
        return FloatBall(mid, _grow(self.rad / (mid * (1 - 2 * _U)) + _U * mid))

    def sum(self) -> "FloatBall":
        return self.dot(np.ones(self.mid.shape))

    def dot(self, other: Any) -> "FloatBall":
        """Inner or matrix product, summed in whatever order the library likes."""
        b = _ball(other)
        n = self.mid.shape[-1]
        a_abs, b_abs = np.abs(self.mid), np.abs(b.mid)
        spread = a_abs.dot(b.rad) + self.rad.dot(b_abs + b.rad)
        return FloatBall(
            self.mid.dot(b.mid), _grow(spread + (n + 1) * _U * a_abs.dot(b_abs), 2 * n)
        )

    def sharp_dot(self, other: Any) -> "FloatBall":
        """`dot` with hardly any rounding error of its own (Ozaki et al. 2012). The leading b bits of each factor, on one
        scale per factor, have products whose sum of n terms fits into 53 bits: it is exact in any order. The rest is 2^-b
        times smaller and is summed as in `dot`."""
        right = _ball(other)
        a, b, n = self.mid, right.mid, self.mid.shape[-1]
        bits = (53 - math.ceil(math.log2(n + 1))) // 2
        a_high, b_high = _leading(a, bits), _leading(b, bits)
        a_low, b_low = a - a_high, b - b_high  # exact
        mid = a_high.dot(b_high) + (a_high.dot(b_low) + a_low.dot(b))
        a_abs, b_abs = np.abs(a), np.abs(b)
        rest = np.abs(a_high).dot(np.abs(b_low)) + np.abs(a_low).dot(b_abs)
        spread = a_abs.dot(right.rad) + self.rad.dot(b_abs + right.rad)
        return FloatBall(
            mid, _grow(spread + (n + 3) * _U * rest + _U * np.abs(mid), 2 * n)
        )

    def log(self) -> "FloatBall":
        """Natural logarithm from IEEE operations alone: x = 2^e·m, m in [√½, √2], log m = 2·artanh((m−1)/(m+1)). m−1 is
        exact (Sterbenz), f = (m−1)/(m+1) has |f| ≤ 0.1716 and two roundings; the odd series to f^21 leaves less than
        2^-61·|f|; Horner in f² ≤ 0.0295 adds less than 1.3u. So t = 2·artanh f errs by at most 5u|t|, e·ln 2 by at most
        2u|e|, the last sum by u|log x|."""
        mantissa, exponent = np.frexp(self.mid)
        low = mantissa < 0.7071067811865476
        mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
        f = (mantissa - 1) / (mantissa + 1)
        square = f * f
        series = np.full_like(f, 1 / 21)
        for k in range(19, 0, -2):
            series = 1 / k + square * series
        t = 2 * f * series
        mid = exponent * _LN2 + t
        relative = (
            self.rad / self.mid
        )  # |log x − log a| ≤ −log(1 − q) ≤ q/(1−q), q = rad/a
        spread = np.where(relative < 0.5, relative, np.nan) / (1 - relative)
        return FloatBall(
            mid,
            _grow(spread + _U * (5 * np.abs(t) + 2 * np.abs(exponent) + np.abs(mid))),
        )

    def round(self, grid: int) -> tuple[np.ndarray, np.ndarray]:
        """The integers nearest to 2^grid·x, and where that is certain: the ball does not reach the edge of its cell."""
        scaled = np.ldexp(
            self.mid, grid
        )  # exact, but for underflow below 2^-1074, where the nearest integer is 0
        nearest = np.rint(scaled)
        # Below 2^52 the difference of a float and its nearest integer is exact.
        inside = (
            np.abs(scaled - nearest) + np.ldexp(_grow(self.rad), grid) < 0.5 - 2.0**-50
        )
        certain = inside & (np.abs(scaled) < 2.0**52)
        return np.where(certain, nearest, 0.0).astype(np.int64), certain


def _leading(x: np.ndarray, bits: int) -> np.ndarray:
    """x rounded to a multiple of 2^-bits times the power of 2 above its largest entry."""
    scale = math.ldexp(1.0, int(np.frexp(np.abs(x).max())[1]) - bits)
    return np.asarray(np.rint(x / scale) * scale)


def _ball(x: Any) -> FloatBall:
    return x if isinstance(x, FloatBall) else FloatBall(x)


_precision_lock = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """`with precision(bits):` Arb computes to so many bits, and no other thread can change that meanwhile. python-flint keeps
    one precision for the whole process. Balls are valid at any precision, but not every bound that is derived from one is,
    and what is cached would stay coarse. Threads therefore compute with balls one at a time."""
    with _precision_lock:
        old, ctx.prec = ctx.prec, bits
        try:
            yield
        finally:
            ctx.prec = old


def _unlock_in_child() -> None:
    global _precision_lock
    _precision_lock = (
        threading.RLock()
    )  # a thread of the parent that is not here may have held it


if sys.platform != "win32":  # Windows cannot fork.
    os.register_at_fork(after_in_child=_unlock_in_child)


def arb_array(x: Any) -> np.ndarray:
    """Floats, taken exactly, as an object array of Arb balls."""
    array = np.asarray(x, dtype=np.float64)
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [arb(value) for value in array.ravel().tolist()]
    return out


def float_ball(x: Any) -> FloatBall:
    """One Arb ball, or an object array of them, as a FloatBall."""
    array = np.asarray(x, dtype=object)
    mid = np.array([float(value) for value in array.ravel()]).reshape(
        array.shape
    )  # rounded by at most an ulp
    rad = np.array([float(value.rad()) for value in array.ravel()]).reshape(array.shape)
    return FloatBall(mid, _grow(rad * (1 + 4 * _U) + 4 * _U * np.abs(mid)))


def round_arb(x: arb, grid: int) -> int | None:
    """The integer nearest to 2^grid·x, or None if the ball reaches the edge of its cell. Numbers beyond ±2^1023, the
    range of float64, go to that end of the grid: a part of the rounding, not of the law."""
    if x > _END or x < -_END:
        return (1 if x > 0 else -1) << (1023 + grid)
    cell = (
        (x * arb((1, grid)) + arb((1, -1))).floor().unique_fmpz()
        if x.is_finite()
        else None
    )
    return None if cell is None else int(cell)


def float_up(x: arb) -> float:
    """A float64 not below any number of the ball."""
    value = float(x.upper())
    return value if arb(value) >= x.upper() else math.nextafter(value, math.inf)


def first_precision(grid: int) -> int:
    """A multiple of the 64 bits that come with each uniform, at least 24 beyond the grid."""
    return 64 * ((grid + 24 + 63) // 64)


def decide(evaluate: Callable[[int], T | None], bits: int = 64) -> T:
    """Evaluate at doubling precision until the answer is certain. Every question asked here is undecided forever only on
    a null set, so this ends with probability one; there is no cap, because giving up would be an event whose probability
    depends on the data."""
    while True:
        with (
            _precision_lock
        ):  # as `precision` does, which takes longer than many a question
            old, ctx.prec = ctx.prec, bits
            try:
                answer = evaluate(bits)
            finally:
                ctx.prec = old
        if answer is not None:
            return answer
        bits *= 2
