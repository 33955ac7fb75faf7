"""Rounding that errs on the private side, and root searches that return the private side."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # scipy.optimize by its first use: 0.3 s that most processes never need
from numpy.typing import NDArray

from curvedp.errors import NotResolved, ParameterError

Array = NDArray[np.float64]


def up(x: Any, relative: float = 0.0) -> Any:
    """The next float above x + |x|·relative: never below the truth of a result whose relative error is at most that."""
    value = np.asarray(x, dtype=np.float64)
    with np.errstate(
        over="ignore"
    ):  # above the largest double the next one is inf, which is not below the truth
        out = np.nextafter(
            value + np.abs(np.where(np.isinf(value), 0.0, value)) * relative, np.inf
        )
    return out if out.ndim else float(out)


def down(x: Any, relative: float = 0.0) -> Any:
    """The next float below x·(1 − relative): never above the truth."""
    return -up(-np.asarray(x, dtype=np.float64), relative)


def float_of(exact: Fraction, *, up: bool) -> float:
    """The float next to an exact value, not below it (up) or not above it; beyond the floats inf or the largest."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if up else math.nextafter(math.inf, 0.0)
    if up:
        return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def root_of(exact: Fraction, power: int = 2, *, up: bool) -> float:
    """The same of the square root of an exact value >= 0, or of itself where `power` is 1."""
    if power == 1:
        return float_of(exact, up=up)
    scale = (
        1 << 1200
    )  # bits beyond the smallest double's, so the integer root decides the last one
    floor = math.isqrt(exact.numerator * scale**2 // exact.denominator)
    root = float_of(Fraction(floor, scale), up=False)
    return (
        root
        if not up or Fraction(root) ** 2 >= exact
        else math.nextafter(root, math.inf)
    )


def smallest_float(
    holds: Callable[[Array], NDArray[np.bool_]],
    low: Array,
    high: Array,
    *,
    steps: int = 64,
) -> Array:
    """Elementwise, a float x in [low, high] at which `holds` was evaluated true and whose predecessor it was false at; of
    fewer steps, one near it.

    `holds` is false then true as its argument grows, and true at `high`; 0 <= low <= high; where `holds(low)` is true the
    answer is `low`. Bits of non-negative floats order like the floats, so bisecting them ends at neighbors after 64 steps.
    Rounding inside `holds` cannot move the answer to the unsafe side: it was seen to hold there.
    """
    low, high = np.broadcast_arrays(
        np.asarray(low, np.float64), np.asarray(high, np.float64)
    )
    at_low = holds(low)
    lo, hi = np.array(low).view(np.int64), np.array(high).view(np.int64)
    for _ in range(steps):
        if not np.any(hi - lo > 1):
            break
        mid = lo + (hi - lo) // 2
        true = holds(mid.view(np.float64))
        lo, hi = np.where(true, lo, mid), np.where(true, mid, hi)
    return np.where(at_low, low, hi.view(np.float64))


def bracketed(
    f: Callable[[Array], Array], low: Array, high: Array
) -> tuple[Array, Array]:
    """Where f, which falls, is last found above zero and first not (Chandrupatla 1997: by halves, or an inverse parabola)."""
    with np.errstate(all="ignore"):  # what is not finite is taken by halves
        least, part = 2.0**-60 * high, np.full_like(low, 0.5)
        x1, x2, f1, f2 = low, high, np.fmax(f(low), 5e-324), f(high)
        for _ in range(100):
            x = x1 + part * (x2 - x1)
            value = f(x)
            same = (value > 0) == (f1 > 0)
            x2, x3, f2, f3 = np.where(same, [x2, x1, f2, f1], [x1, x2, f1, f2])
            x1, f1 = x, value
            low, high = np.where(f1 > 0, [x1, x2], [x2, x1])
            close = np.maximum(2.0**-48 * high, least) / (high - low)
            if np.all(close >= 1):
                break
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            parabola = f1 / (f1 - f2) * f3 / (f3 - f2) + (x3 - x1) / (x2 - x1) * f1 / (
                f3 - f1
            ) * f2 / (f3 - f2)
            smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(parabola)
            part = np.clip(
                np.where(smooth, parabola, 0.5),
                np.minimum(close, 1) / 2,
                1 - np.minimum(close, 1) / 2,
            )
    return low, high


def private_side(
    excess: Callable[[float], float],
    low: float,
    high: float,
    *,
    relative: float = 1e-12,
) -> float:
    """x in [low, high] with excess(x) <= 0 as evaluated, at most about `relative`·x above a point where it was > 0.
    `excess` falls as x grows: excess(low) > 0 >= excess(high), or the answer is low. Brent's method brackets the root;
    the end returned was evaluated on the private side. NaN from `excess` raises: it must never count as private."""
    best = high

    def seen(x: float) -> float:
        nonlocal best
        value = _number(excess, x)
        if value <= 0:
            best = min(best, x)
        # Brent's interpolation needs finite values; only signs matter to the bracket.
        return min(max(value, -1e300), 1e300)

    if seen(low) <= 0:
        return low
    if seen(high) > 0:
        raise ParameterError(f"no root: excess({high:g}) is still above 0")
    scipy.optimize.brentq(
        seen, low, high, xtol=1e-300, rtol=max(relative, 1e-15), maxiter=500
    )
    return best


def bracket(
    excess: Callable[[float], float], start: float, *, limit: float = 1e300
) -> tuple[float, float]:
    """(low, high) around the root of a falling `excess`, by growing or shrinking a positive start geometrically; low = 0 or
    high = inf says that there is no root down to 1/`limit` or up to `limit`."""
    x = start
    if _number(excess, x) > 0:
        while x < limit:
            x, last = x * 2.0, x
            if _number(excess, x) <= 0:
                return last, x
        return x, math.inf
    while x > 1 / limit:
        x, last = x / 2.0, x
        if _number(excess, x) > 0:
            return x, last
    return 0.0, x


def _number(f: Callable[[float], float], x: float) -> float:
    value = float(f(x))
    if math.isnan(value):
        raise NotResolved(f"the function searched gave NaN at {x!r}")
    return value
