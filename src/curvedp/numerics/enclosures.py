"""Real numbers with proved error bounds: a *ball* is a midpoint and a radius, and
contains the true number. A `FloatBall` has float64 midpoints and is fast. Arb balls
(from python-flint) are slower and have as many bits as needed; a comparison is repeated
with more bits until the balls decide it.

`FloatBall` is the fast kind. It uses only + − × ÷ and the square root, which IEEE 754
rounds correctly, so that its radius is a theorem and trusts nobody's `exp`. With
u = 2^-53,

    |fl(a∘b) − a∘b| <= u·|fl(a∘b)|,  plus 2^-1074 at underflow,

and a sum of n products errs, in any order, by at most n·u/(1 − n·u)·Σ|aᵢbᵢ| (Higham
2002, §3.1). Radii are computed in floats too: an expression for a radius has at most 8
roundings (n + 8 with a sum of n products), which `_cover_roundings` covers.

Arb balls (python-flint) are the exact kind: slower, with as many bits as needed.
`decide` makes a comparison with more and more bits, until the balls settle it.

Formulas are written once for both kinds: an object array of Arb balls and a `FloatBall`
share + − × ÷, `dot` and `sqrt`.
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

FILTER_GRID = 40
"""The finest grid, in bits, on which float balls are tried before Arb balls.

On finer grids nearly every float ball reaches the edge of a grid cell.
"""

FILTER_SIZE = 48
"""The fewest numbers for which float balls are tried. For fewer, Arb is faster."""

_UNIT_ROUNDOFF = 2.0**-53  # the unit roundoff of doubles
_TINY = 2.0**-1000  # far above what underflow can lose, far below any grid
_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476
_LAST_ODD_POWER = 21  # of the series of the logarithm; its remainder is in `log`
_GRID_END = arb((1, 1023))  # 2^1023, the end of every grid

T = TypeVar("T")


def _cover_roundings(radius: Any, n: int = 0) -> Any:
    """Return an upper bound on a radius that was computed in floats.

    The radius of every ball passes through it, so that it is a proved bound in spite of
    rounding.

    Parameters
    ----------
    radius : float or array
        The radius, from an expression with at most n + 8 roundings.
    n : int
        The number of additional roundings, such as the length of a sum.

    Returns
    -------
    float or array
        The bound.
    """
    # n + 8 roundings are relative errors of at most 2^-53 each; four times that much is
    # charged for the 8, and twice that much for the n.
    return radius * (1.0 + (n + 16) * 2.0**-52) + _TINY


class FloatBall:
    """An array of real numbers, each known to lie within a radius of a midpoint.

    Operations between balls, and of balls with arrays, return balls that contain the
    exact result for all numbers in the operands. A radius that is NaN or infinite says
    that nothing is known.

    Parameters
    ----------
    mid : array
        The midpoints.
    rad : float or array
        The radii >= 0; 0 for numbers that are known exactly.
    """

    __array_ufunc__ = None  # so that `array + ball` calls `FloatBall.__radd__`
    __slots__ = ("mid", "rad")

    def __init__(self, mid: Any, rad: Any = 0.0) -> None:
        """Store midpoints and radii as arrays of the same shape.

        Parameters
        ----------
        mid : array_like
            The midpoints, which are taken as they are.
        rad : array_like
            The radii >= 0, which broadcast to the shape of the midpoints.
        """
        self.mid = np.asarray(mid, dtype=np.float64)
        radius = np.asarray(rad, dtype=np.float64)
        if radius.shape != self.mid.shape:
            radius = np.broadcast_to(radius, self.mid.shape)
        self.rad = radius

    def __getitem__(self, index: Any) -> "FloatBall":
        """Return some of the balls, by any index of NumPy."""
        return FloatBall(self.mid[index], self.rad[index])

    def reshape(self, *shape: int) -> "FloatBall":
        """Return the same balls as an array of another shape.

        Parameters
        ----------
        *shape : int
            The new lengths of the axes; one of them may be −1.

        Returns
        -------
        FloatBall
            The balls, in the same order.
        """
        return FloatBall(self.mid.reshape(shape), self.rad.reshape(shape))

    @property
    def T(self) -> "FloatBall":
        """The transposed array: balls with their axes in reverse order."""
        return FloatBall(self.mid.T, self.rad.T)

    def __neg__(self) -> "FloatBall":
        """Return −x, which is exact."""
        return FloatBall(-self.mid, self.rad)

    def __add__(self, other: Any) -> "FloatBall":
        """Return x + y. Radii add up, and the sum of the midpoints is rounded once."""
        right = _as_ball(other)
        mid = self.mid + right.mid
        radius = self.rad + right.rad + _UNIT_ROUNDOFF * np.abs(mid)
        return FloatBall(mid, _cover_roundings(radius))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "FloatBall":
        """Return x − y for a ball or an array y."""
        return self + (-_as_ball(other))

    def __rsub__(self, other: Any) -> "FloatBall":
        """Return y − x for an array y."""
        return _as_ball(other) + (-self)

    def __mul__(self, other: Any) -> "FloatBall":
        """Return x·y for a ball or an array y.

        Let a and r be midpoint and radius of the ball x, and b and s those of y. Then
        |xy − ab| <= |a|·s + r·(|b| + s) (`propagated`). The product ab of the midpoints
        is rounded once.
        """
        right = _as_ball(other)
        mid = self.mid * right.mid
        largest_factor = np.abs(right.mid) + right.rad
        propagated = np.abs(self.mid) * right.rad + self.rad * largest_factor
        return FloatBall(
            mid, _cover_roundings(propagated + _UNIT_ROUNDOFF * np.abs(mid))
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "FloatBall":
        """Return x/y for a ball or an array y.

        Let a and r be midpoint and radius of the ball x, and b and s those of y. Then
        x/y − a/b = ((x − a) − (a/b)(y − b))/y, and |y| >= |b| − s. So the error is at
        most (r + |a/b|·s)/(|b| − s), plus one rounding of a/b. If a ball y contains 0,
        the radius is NaN.
        """
        right = _as_ball(other)
        mid = self.mid / right.mid
        smallest_divisor = np.abs(right.mid) - right.rad
        smallest_divisor = np.where(smallest_divisor > 0, smallest_divisor, np.nan)
        # The factor 1 + 4u covers the rounding of a/b.
        numerator = self.rad + np.abs(mid) * (1 + 4 * _UNIT_ROUNDOFF) * right.rad
        propagated = numerator / smallest_divisor
        return FloatBall(
            mid, _cover_roundings(propagated + _UNIT_ROUNDOFF * np.abs(mid))
        )

    def __rtruediv__(self, other: Any) -> "FloatBall":
        """Return y/x for an array y."""
        return _as_ball(other) / self

    def sqrt(self) -> "FloatBall":
        """Return the square roots.

        Let a and r be the midpoint and the radius of the ball x. Then
        |√x − √a| = |x − a|/(√x + √a) <= r/√a.

        Returns
        -------
        FloatBall
            The roots; the radius is NaN or infinite where the midpoint is not positive.
        """
        mid = np.sqrt(self.mid)
        propagated = self.rad / (mid * (1 - 2 * _UNIT_ROUNDOFF))
        return FloatBall(mid, _cover_roundings(propagated + _UNIT_ROUNDOFF * mid))

    def sum(self) -> "FloatBall":
        """Return the sum of a vector of balls, as one ball with a proved radius."""
        return self.dot(np.ones(self.mid.shape))

    def dot(self, other: Any) -> "FloatBall":
        """Return the inner or matrix product of two arrays of balls.

        With midpoints a and b and radii r and s, the result errs by at most |a|·s +
        r·(|b| + s) because of the radii, and by (n + 1)·u·|a|·|b| because of rounding,
        for n terms in any order and the unit roundoff u.

        Parameters
        ----------
        other : FloatBall or array
            The right factor, whose first axis matches the last one of this array.

        Returns
        -------
        FloatBall
            The products.
        """
        right = _as_ball(other)
        n_terms = self.mid.shape[-1]
        left_abs = np.abs(self.mid)
        right_abs = np.abs(right.mid)
        propagated = left_abs.dot(right.rad) + self.rad.dot(right_abs + right.rad)
        rounding = (n_terms + 1) * _UNIT_ROUNDOFF * left_abs.dot(right_abs)
        return FloatBall(
            self.mid.dot(right.mid),
            _cover_roundings(propagated + rounding, 2 * n_terms),
        )

    def sharp_dot(self, other: Any) -> "FloatBall":
        """Return `dot` with hardly any rounding error of its own (Ozaki et al. 2012).

        The midpoints a and b of both factors are split into their leading bits, on one
        scale for the whole factor, and the rest. With (53 − log₂ n)/2 leading bits, the
        sum of n products of leading parts fits into 53 bits, and is exact in any order.
        What is left is smaller by that many bits, and is summed as in `dot`.

        The radius must cover every rounding; tests/numerics/test_enclosures.py compares
        products with 60-digit arithmetic.

        Parameters
        ----------
        other : FloatBall or array
            The right factor, whose first axis matches the last one of this array.

        Returns
        -------
        FloatBall
            The products.
        """
        right = _as_ball(other)
        a = self.mid
        b = right.mid
        n = a.shape[-1]

        # Split both factors; the differences are exact.
        bits = (53 - math.ceil(math.log2(n + 1))) // 2
        a_high = _leading_part(a, bits)
        b_high = _leading_part(b, bits)
        a_low = a - a_high
        b_low = b - b_high
        mid = a_high.dot(b_high) + (a_high.dot(b_low) + a_low.dot(b))

        # The error: of the radii of the operands, of the inexact products, and of the
        # sum of the three products.
        b_abs = np.abs(b)
        propagated = np.abs(a).dot(right.rad) + self.rad.dot(b_abs + right.rad)
        inexact_products = np.abs(a_high).dot(np.abs(b_low)) + np.abs(a_low).dot(b_abs)
        product_rounding = (n + 3) * _UNIT_ROUNDOFF * inexact_products
        radius = propagated + product_rounding + _UNIT_ROUNDOFF * np.abs(mid)
        return FloatBall(mid, _cover_roundings(radius, 2 * n))

    def log(self) -> "FloatBall":
        """Return the natural logarithms, from IEEE operations alone.

        A number x = 2^e·m with m in [√½, √2] has log x = e·log 2 + t, t = 2·artanh f
        and f = (m − 1)/(m + 1). The error is bounded as follows.

        - m − 1 is exact (Sterbenz), so f has two roundings, and |f| <= 0.1716.
        - The odd series of artanh up to f^21 leaves less than 2^-61·|f|, and Horner's
          rule in f² <= 0.0295 adds less than 1.3u. In all t errs by at most 5u·|t|.
        - e·log 2 errs by at most 2u·|e|, and the last sum by u·|log x|.
        - For x within rad of a and q = rad/a < ½, |log x − log a| <= −log(1 − q) <=
          q/(1 − q).

        Each constant belongs to one item of this list;
        tests/numerics/test_enclosures.py compares with 60-digit arithmetic.

        Returns
        -------
        FloatBall
            The logarithms.
        """
        # m and e, with m in [√½, √2].
        mantissa, exponent = np.frexp(self.mid)
        is_below_root_half = mantissa < _ROOT_HALF
        mantissa = np.where(is_below_root_half, 2 * mantissa, mantissa)
        exponent = exponent - is_below_root_half

        # t = 2·artanh f, by Horner's rule in f².
        f = (mantissa - 1) / (mantissa + 1)
        square = f * f
        series = np.full_like(f, 1 / _LAST_ODD_POWER)
        for odd_power in range(_LAST_ODD_POWER - 2, 0, -2):
            series = 1 / odd_power + square * series
        t = 2 * f * series
        mid = exponent * _LN2 + t

        # The error of the argument, and of the roundings: the items of the docstring.
        q = self.rad / self.mid
        propagated = np.where(q < 0.5, q, np.nan) / (1 - q)
        rounding = _UNIT_ROUNDOFF * (5 * np.abs(t) + 2 * np.abs(exponent) + np.abs(mid))
        return FloatBall(mid, _cover_roundings(propagated + rounding))

    def round(self, grid: int) -> tuple[np.ndarray, np.ndarray]:
        """Round to a grid of spacing 2^−grid, where the balls decide it.

        Releases round noise to a grid. Numbers that are not certain are computed again
        with more bits.

        Parameters
        ----------
        grid : int
            The number of binary digits.

        Returns
        -------
        integers : array of int
            The integers nearest to 2^grid·x; 0 where that is not certain.
        is_certain : array of bool
            Whether the ball lies inside one grid cell, for each ball.
        """
        # Scaling is exact but for underflow below 2^-1074, where the nearest integer is
        # 0.
        scaled = np.ldexp(self.mid, grid)
        nearest = np.rint(scaled)
        # Below 2^52 the difference of a float and its nearest integer is exact.
        farthest = np.abs(scaled - nearest) + np.ldexp(_cover_roundings(self.rad), grid)
        # `farthest` was rounded, by less than 2^-50.
        is_certain = (farthest < 0.5 - 2.0**-50) & (np.abs(scaled) < 2.0**52)
        return np.where(is_certain, nearest, 0.0).astype(np.int64), is_certain


def _leading_part(x: np.ndarray, bits: int) -> np.ndarray:
    """Return x rounded to a multiple of 2^−bits times the power of 2 above its maximum.

    Sums of products of such numbers are exact (`FloatBall.sharp_dot`).

    Parameters
    ----------
    x : array
        Numbers.
    bits : int
        The number of leading bits that are kept, on one scale for the whole array.

    Returns
    -------
    array
        The rounded numbers.
    """
    scale = math.ldexp(1.0, int(np.frexp(np.abs(x).max())[1]) - bits)
    return np.asarray(np.rint(x / scale) * scale)


def _as_ball(x: Any) -> FloatBall:
    """Return a ball as it is, and exact numbers as balls of radius 0.

    Parameters
    ----------
    x : FloatBall or array_like
        The right operand of an operation between balls.

    Returns
    -------
    FloatBall
        The operand as a ball.
    """
    return x if isinstance(x, FloatBall) else FloatBall(x)


_precision_lock = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Let Arb compute to so many bits inside this context, in this thread alone.

    python-flint keeps one precision for the whole process. Balls are valid at any
    precision, but not every bound that is derived from one is, and what is cached would
    stay coarse. Threads therefore compute with Arb balls one at a time.

    Parameters
    ----------
    bits : int
        The number of bits of a midpoint.

    Returns
    -------
    context manager
        It yields nothing.
    """
    with _precision_lock:
        previous_bits = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = previous_bits


def _unlock_in_child() -> None:
    """Replace the lock after a fork.

    A thread of the parent process that does not exist in the child may have held it.
    """
    global _precision_lock
    _precision_lock = threading.RLock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_unlock_in_child)


def arb_array(x: Any) -> np.ndarray:
    """Return floats, taken exactly, as an object array of Arb balls.

    Formulas for balls then run with Arb balls, which have as many bits as needed.

    Parameters
    ----------
    x : array_like
        Floats.

    Returns
    -------
    array of arb
        Balls of radius 0, of the shape of `x`.
    """
    array = np.asarray(x, dtype=np.float64)
    balls = np.empty(array.shape, dtype=object)
    balls.ravel()[:] = [arb(value) for value in array.ravel().tolist()]
    return balls


def float_ball(x: Any) -> FloatBall:
    """Return a `FloatBall` that contains one Arb ball, or each of an object array.

    Parameters
    ----------
    x : arb, or object array of arb
        The Arb balls.

    Returns
    -------
    FloatBall
        Balls of the shape of `x`.
    """
    balls = np.asarray(x, dtype=object)
    # Both conversions to float round by at most one unit in the last place.
    midpoints = [float(ball) for ball in balls.ravel()]
    radii = [float(ball.rad()) for ball in balls.ravel()]
    mid = np.array(midpoints).reshape(balls.shape)
    rad = np.array(radii).reshape(balls.shape)
    rounded_rad = rad * (1 + 4 * _UNIT_ROUNDOFF)
    return FloatBall(
        mid, _cover_roundings(rounded_rad + 4 * _UNIT_ROUNDOFF * np.abs(mid))
    )


def round_arb(x: arb, grid: int) -> int | None:
    """Return the integer nearest to 2^grid·x; None if the ball reaches a cell's edge.

    Numbers beyond ±2^1023, the range of float64, go to that end of the grid. This is a
    part of the rounding, not of the law that is rounded.

    Parameters
    ----------
    x : arb
        The real number, enclosed in a ball.
    grid : int
        The grid is the multiples of 2^-grid.

    Returns
    -------
    int or None
        The integer, or None if more bits are needed.
    """
    if x > _GRID_END or x < -_GRID_END:
        # ±2^1023 in units of 2^-grid.
        return (1 if x > 0 else -1) << (1023 + grid)
    if not x.is_finite():
        return None
    scaled = x * arb((1, grid))
    half = arb((1, -1))
    nearest = (scaled + half).floor().unique_fmpz()
    return None if nearest is None else int(nearest)


def float_up(x: arb) -> float:
    """Return a float that is not below any number of an Arb ball.

    Parameters
    ----------
    x : arb
        An interval of real numbers (midpoint and radius).

    Returns
    -------
    float
        The upper end, rounded up.
    """
    value = float(x.upper())
    return value if arb(value) >= x.upper() else math.nextafter(value, math.inf)


def first_precision(grid: int) -> int:
    """Return the bits at which rounding to a grid is first tried.

    It is a multiple of 64, the bits that come with each uniform number, and at least 24
    more than the grid has.

    Parameters
    ----------
    grid : int
        The number of bits after the binary point.

    Returns
    -------
    int
        The number of bits.
    """
    # Adding 63 before the division rounds it up to the next multiple of 64.
    return 64 * ((grid + 24 + 63) // 64)


def decide(evaluate: Callable[[int], T | None], bits: int = 64) -> T:
    """Evaluate a comparison or a rounding with more and more bits, until it is certain.

    Exact samplers call it to accept a proposal or to round a draw. They compute with
    intervals around real numbers, and a decision is certain if all numbers of the
    intervals lead to the same one. A decision stays open at every precision only with
    probability zero, so this ends with probability one. There is no cap: giving up
    would be an event whose probability depends on the data.

    Parameters
    ----------
    evaluate : callable
        Takes the number of bits, to which Arb is set, and returns the decision, such as
        a truth value or an integer; None if the balls are too wide to tell.
    bits : int
        The first precision, which is doubled each time.

    Returns
    -------
    object
        The first decision that is not None.
    """
    while True:
        # These lines do what `precision` does. That context manager is not used,
        # because entering it takes longer than most decisions.
        with _precision_lock:
            previous_bits = ctx.prec
            ctx.prec = bits
            try:
                decision = evaluate(bits)
            finally:
                ctx.prec = previous_bits
        if decision is not None:
            return decision
        bits *= 2
