"""Privacy loss distributions in exact integer arithmetic: composition without a round-off floor.

A profile δ(ε), known at losses 0, w, 2w, …, is replaced by the piecewise linear function of e^ε through those values
(connect the dots, Doroshenko et al. 2022). It lies above the convex truth, and it is the profile of a discrete pair of
distributions on the multiples of w, so mechanisms compose by multiplying polynomials. With r = e^w, δ_i = δ(iw)
and d_i = δ_{i−1} − δ_i,

    P(loss = iw) = d_i + (d_i − d_{i+1})/(r − 1),    P(loss = −iw) = r^{−i}·P(loss = iw),

the second because adjacency is symmetric. Masses are integers in units of 2^-224, every step is rounded up, and the
products are exact (fmpz_poly): no Fourier transform, no floor at 1e-12. w is a power of 2, so that distributions
on different grids meet, and a distribution that has grown long goes to 2w by connecting every second dot.

Guarantees. Values of δ that are too large, because they were rounded up or the bound is not convex, can make a mass
negative; it is raised to 0. Sound: for measures p⁺ ≥ 0 with Σp⁺_i(1 − e^{ε−L_i})₊ ≥ δ(ε) at all ε, exchanging one
factor of a product at a time shows that the product bounds the composition. So are all roundings: masses only grow,
and losses only grow (the low tail goes to the lowest bin kept, the high tail to infinity).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpz_poly
from numpy.typing import NDArray

from curvedp._numerics import precision, up

__all__ = ["LossDistribution", "discretise"]

Array = NDArray[np.float64]

BITS = 224  # the unit of mass is 2^-224, 4e-68
_WORK = 320  # constants are known to 2^-320
_TRIM = 1 << (BITS - 150)  # mass 2^-150 = 7e-46 may go to infinity at each trimming
LONGEST = 16384  # bins of a factor before it is coarsened: the error is about (range/bins)² relative to the variance


@dataclass(frozen=True)
class LossDistribution:
    """P's masses at the losses (low + i)·2^level, and at infinity, in units of 2^-224; their sum may exceed 1."""

    level: int
    low: int
    masses: tuple[int, ...]
    infinite: int

    def compose(self, other: "LossDistribution", longest: int = LONGEST) -> "LossDistribution":
        """The loss distribution of both mechanisms, also if the second one adapts (Zhu, Dong and Wang 2022)."""
        a, b = self, other
        while a.level != b.level or len(a.masses) + len(b.masses) > 2 * longest:
            if a.level <= b.level:
                a, b = a.coarser(), (b.coarser() if a.level == b.level else b)
            else:
                b = b.coarser()
        product = [_shift_up(int(c)) for c in (fmpz_poly(list(a.masses)) * fmpz_poly(list(b.masses))).coeffs()]
        # The loss is infinite if either one is; totals above 1 count in full.
        infinite = _shift_up(a.infinite * (sum(b.masses) + b.infinite)) + _shift_up(b.infinite * sum(a.masses))
        return _trimmed(a.level, a.low + b.low, product or [0], infinite)

    def power(self, count: int, longest: int = LONGEST) -> "LossDistribution":
        """`count` copies together, by repeated squaring."""
        result, square = None, self
        while True:
            if count & 1:
                result = square if result is None else result.compose(square, longest)
            count >>= 1
            if not count:
                assert result is not None
                return result
            square = square.compose(square, longest)

    def coarser(self) -> "LossDistribution":
        """The same on every second loss: a mass p in between becomes p/(1+r) below and pr/(1+r) above, which keeps
        the total of P and of Q and raises the profile to its chord."""
        below, above = _constants(self.level).below, _constants(self.level).above
        odd = self.low % 2
        low = (self.low - odd) // 2
        size = (len(self.masses) + odd) // 2 + 1
        coarse = [0] * (size + 1)
        for i, p in enumerate(self.masses, start=odd):
            if i % 2:
                coarse[i // 2] += _shift_up(p * below, _WORK)
                coarse[i // 2 + 1] += _shift_up(p * above, _WORK)
            else:
                coarse[i // 2] += p
        return _trimmed(self.level + 1, low, coarse, self.infinite)

    def profile(self) -> Array:
        """δ at losses 0, w, 2w, … up to the last mass, where it stays: δ_j = δ_{j+1} + (r−1)·Σ_{i>j} p_i r^{j−i}."""
        constants = _constants(self.level)
        last = max(self.low + len(self.masses) - 1, 0)
        delta, reach = self.infinite, 0
        values = [delta]
        for j in range(last - 1, -1, -1):
            i = j + 1 - self.low
            reach = _shift_up((reach + (self.masses[i] if 0 <= i < len(self.masses) else 0)) * constants.shrink, _WORK)
            delta += _shift_up(reach * constants.growth, _WORK)
            values.append(delta)
        rounded: Array = np.minimum(up(np.array([float(v) for v in reversed(values)]) * 2.0**-BITS), 1.0)
        return rounded


def discretise(delta: Callable[[Array], Array], top: float, points: int) -> LossDistribution:
    """The pair that `delta`, an upper bound for ε >= 0 in both directions, becomes with about `points` losses to `top`.

    Beyond `top` the bound is kept constant: that δ goes to infinity.
    """
    level = math.floor(math.log2(top / points))
    n = max(2, math.ceil(top * 2.0**-level))
    values = [_fixed(v) for v in np.asarray(delta(np.arange(n + 1, dtype=np.float64) * 2.0**level))]
    constants = _constants(level)

    def mass(first: int, second: int) -> int:
        turn = first - second  # times 1/(r − 1), rounded up whatever its sign
        return max(0, first + _shift_up(turn * (constants.inverse_up if turn > 0 else constants.inverse_down), _WORK))

    drops = [values[i - 1] - values[i] for i in range(1, n + 1)] + [0]
    up_side = [mass(drops[i], drops[i + 1]) for i in range(n)]
    # At 0 the line to the left is the mirror image; the masses' sum is 1.
    middle = max(0, (1 << BITS) - values[0] - (2 * drops[0] * constants.inverse_down >> _WORK))
    down_side, factor = [], 1 << _WORK
    for p in up_side:
        factor = _shift_up(factor * constants.shrink, _WORK)
        down_side.append(_shift_up(p * factor, _WORK))
    return _trimmed(level, -n, [*reversed(down_side), middle, *up_side], values[n])


@dataclass(frozen=True)
class _Constants:
    """Functions of r = e^{2^level} in units of 2^-320, rounded up (`inverse_down`: down)."""

    shrink: int  # 1/r
    growth: int  # r − 1
    inverse_up: int  # 1/(r − 1)
    inverse_down: int
    below: int  # 1/(1 + r)
    above: int  # r/(1 + r)


@functools.lru_cache(maxsize=256)
def _constants(level: int) -> _Constants:
    with precision(_WORK + 64 + 2 * abs(level)):
        w = arb(2) ** level
        growth = w.expm1()
        r = 1 + growth
        return _Constants(
            shrink=_ceil((-w).exp()),
            growth=_ceil(growth),
            inverse_up=_ceil(1 / growth),
            inverse_down=_floor(1 / growth),
            below=_ceil(1 / (1 + r)),
            above=_ceil(r / (1 + r)),
        )


def _ceil(x: arb) -> int:
    """The ball's upper end times 2^320, rounded up."""
    return int((x.upper() * arb(2) ** _WORK).ceil().upper().fmpz())


def _floor(x: arb) -> int:
    """The ball's lower end times 2^320, rounded down."""
    return int((x.lower() * arb(2) ** _WORK).floor().lower().fmpz())


def _trimmed(level: int, low: int, masses: list[int], infinite: int) -> LossDistribution:
    """Small tails cut: the upper one to infinity, the lower one into the lowest bin kept. Both make losses larger."""
    tail, end = 0, len(masses)
    while end > 1 and tail + masses[end - 1] <= _TRIM:
        end -= 1
        tail += masses[end]
    infinite += tail
    tail, start = 0, 0
    while start < end - 1 and tail + masses[start] <= _TRIM:
        tail += masses[start]
        start += 1
    kept = masses[start:end]
    kept[0] += tail
    return LossDistribution(level, low + start, tuple(kept), infinite)


def _fixed(value: float) -> int:
    """value·2^BITS, rounded up."""
    numerator, denominator = float(value).as_integer_ratio()
    return -(-(numerator << BITS) // denominator)


def _shift_up(value: int, bits: int = BITS) -> int:
    return -(-value >> bits)
