"""Rounding in a chosen direction, and searches whose answer lies on a chosen side. A
privacy bound may be too large, never too small. So every rounded number is pushed up
(or down) by a bound on its error, and every root search returns a point at which its
condition was evaluated to hold.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy  # scipy.optimize is loaded by its first use: 0.3 s that most never need
from numpy.typing import NDArray

from curvedp.errors import NotResolved, ParameterError

Array = NDArray[np.float64]

# Bounds on relative errors, for `round_up` and `round_down`. The result of one float
# operation is off by at most 2^-53 = 1.1e-16 of itself, which is one rounding. A function
# of the mathematical library counts as a few roundings. A larger bound is always safe; a
# smaller one must be derived again for the formula at hand.
THREE_ROUNDINGS = 4e-16
NINE_ROUNDINGS = 1e-15
EIGHTEEN_ROUNDINGS = 2e-15
THIRTY_SIX_ROUNDINGS = 4e-15
NINETY_ROUNDINGS = 1e-14
NINE_HUNDRED_ROUNDINGS = 1e-13

# The absolute error that is passed to a root search whose relative error matters alone:
# SciPy asks for a positive number.
NO_ABSOLUTE_ERROR = 1e-300

# The largest number of steps of `bracket_sign_change`. Bisection alone takes about 60.
_MOST_STEPS = 100
# Values beyond this are cut before an interpolation sees them; only signs matter there.
_LARGEST_FINITE = 1e300
_SMALLEST_POSITIVE = 5e-324  # the smallest positive double
# The relative distance at which `bracket_sign_change` ends, and the width below which a
# bracket is not shrunk any more, relative to its upper end.
_BRACKET_TOLERANCE = 2.0**-48
_SMALLEST_BRACKET = 2.0**-60
# Bits that the integer square root keeps below 1: more than the smallest double has.
_ROOT_BITS = 1200


def round_up(x: Any, relative: float = 0.0) -> Any:
    """Return the next float above x + |x|·relative: a safe upper bound.

    The result is not below the true value of a number that was computed as `x` with a
    relative error of at most `relative`.

    Parameters
    ----------
    x : float or array
        The computed values.
    relative : float
        A bound on their relative error.

    Returns
    -------
    float or array
        A float for a number, an array for an array. Above the largest double it is inf.
    """
    value = np.asarray(x, dtype=np.float64)
    finite_part = np.where(np.isinf(value), 0.0, value)
    with np.errstate(over="ignore"):
        raised = np.nextafter(value + np.abs(finite_part) * relative, np.inf)
    return raised if raised.ndim else float(raised)


def round_down(x: Any, relative: float = 0.0) -> Any:
    """Return the next float below x − |x|·relative: `round_up`, downwards.

    Parameters
    ----------
    x : float or array
        The computed values.
    relative : float
        A bound on their relative error.

    Returns
    -------
    float or array
        A float for a number, an array for an array.
    """
    return -round_up(-np.asarray(x, dtype=np.float64), relative)


def round_fraction(exact: Fraction, *, up: bool) -> float:
    """Round an exact number to a neighboring float, upwards or downwards.

    It turns bounds that were computed in exact fractions into floats on the safe side.

    Parameters
    ----------
    exact : Fraction
        The number.
    up : bool
        Whether the result must not be below it (True) or not above it (False).

    Returns
    -------
    float
        The closest such float. Above the largest float it is inf, or the largest float.
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if up else math.nextafter(math.inf, 0.0)

    # Move to the neighbor if the nearest float is on the wrong side.
    if up and Fraction(nearest) < exact:
        return math.nextafter(nearest, math.inf)
    if not up and Fraction(nearest) > exact:
        return math.nextafter(nearest, -math.inf)
    return nearest


def round_root(exact: Fraction, power: int = 2, *, up: bool) -> float:
    """Round exact^(1/power) to a neighboring float, upwards or downwards.

    It turns bounds that are roots of exact sums of squares, such as the μ of several
    releases, into floats on the safe side.

    Parameters
    ----------
    exact : Fraction
        An exact number >= 0.
    power : {2, 1}
        2 for the square root, 1 for the number itself.
    up : bool
        Whether the result is at least the exact root; otherwise it is at most that.

    Returns
    -------
    float
        The rounded root.
    """
    if power == 1:
        return round_fraction(exact, up=up)

    # The integer square root of exact·4^bits is the floor of root·2^bits.
    scale = 1 << _ROOT_BITS
    scaled_floor = math.isqrt(exact.numerator * scale**2 // exact.denominator)
    root = round_fraction(Fraction(scaled_floor, scale), up=False)
    if up and Fraction(root) ** 2 < exact:
        return math.nextafter(root, math.inf)
    return root


def bisect_floats(
    holds: Callable[[Array], NDArray[np.bool_]],
    low: Array,
    high: Array,
    *,
    steps: int = 64,
) -> Array:
    """Find the smallest float in [low, high] at which a monotone condition holds.

    The bits of non-negative floats, read as integers, are ordered like the floats, so
    that bisecting the integers ends at two neighboring floats after 64 steps. Rounding
    inside `holds` cannot move the answer to the wrong side: the condition was evaluated
    at the answer, and held.

    Parameters
    ----------
    holds : callable
        The condition, elementwise: false below some number and true from there on. It
        must be true at `high`.
    low, high : array
        0 <= low <= high.
    steps : int
        How often to bisect. With fewer than 64 the answer is near the smallest float.

    Returns
    -------
    array
        Points at which `holds` was evaluated true; `low` where it is true there.
    """
    low = np.asarray(low, np.float64)
    high = np.asarray(high, np.float64)
    low, high = np.broadcast_arrays(low, high)

    # Read both ends as integers.
    holds_at_low = holds(low)
    low_bits = np.array(low).view(np.int64)
    high_bits = np.array(high).view(np.int64)

    # Bisect the integers, elementwise. The condition stays false at `low_bits` (unless it
    # holds at `low`) and true at `high_bits`.
    for _ in range(steps):
        if not np.any(high_bits - low_bits > 1):
            break
        middle_bits = low_bits + (high_bits - low_bits) // 2
        holds_at_middle = holds(middle_bits.view(np.float64))
        low_bits = np.where(holds_at_middle, low_bits, middle_bits)
        high_bits = np.where(holds_at_middle, middle_bits, high_bits)

    return np.where(holds_at_low, low, high_bits.view(np.float64))


def bracket_sign_change(
    decreasing_function: Callable[[Array], Array], lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Shrink brackets around the sign changes of a decreasing function.

    This is the method of Chandrupatla (1997): an inverse quadratic step where the last
    three values fit a parabola, a bisection elsewhere. `scipy.optimize.elementwise` has
    it too, but drops elements as they converge and stops at values that are not finite;
    the functions here keep their shape, and such values are bisected.

    At every step the function is positive at `lower` and not positive at `upper`. The
    callers rely on this.

    Parameters
    ----------
    decreasing_function : callable
        The function, elementwise. It counts as positive at `lower`, whatever its value
        there.
    lower, upper : array
        Ends of the brackets.

    Returns
    -------
    last_positive, first_nonpositive : array
        Evaluated points on either side of the sign change, within 2^-48 of each other
        relative to the larger one.
    """
    f = decreasing_function
    with np.errstate(all="ignore"):
        smallest_width = _SMALLEST_BRACKET * upper
        lower_value = np.fmax(f(lower), _SMALLEST_POSITIVE)
        newest = _Evaluation(lower, lower_value)
        opposite = _Evaluation(upper, f(upper))  # across the sign change from newest
        fraction = np.full_like(lower, 0.5)

        for _ in range(_MOST_STEPS):
            # Evaluate the function at the next point. A point on the side of the newest
            # one replaces it; on the other side, the newest one becomes the opposite one.
            trial_point = newest.point + fraction * (opposite.point - newest.point)
            trial = _Evaluation(trial_point, f(trial_point))
            is_same_side = (trial.value > 0) == (newest.value > 0)
            previous = newest.where(is_same_side, opposite)  # the one that is replaced
            opposite = opposite.where(is_same_side, newest)
            newest = trial

            # Stop if all brackets are short enough.
            is_positive = newest.value > 0
            lower = np.where(is_positive, newest.point, opposite.point)
            upper = np.where(is_positive, opposite.point, newest.point)
            smallest_step = np.maximum(_BRACKET_TOLERANCE * upper, smallest_width)
            tolerance = smallest_step / (upper - lower)
            if np.all(tolerance >= 1):
                break

            # Choose the next point. A step is at least half the tolerance long, so that
            # both ends move.
            fraction = _fraction_of_next_step(newest, opposite, previous)
            margin = np.minimum(tolerance, 1) / 2
            fraction = np.clip(fraction, margin, 1 - margin)
    return lower, upper


class _Evaluation(NamedTuple):
    """Points at which a function was evaluated, one for each search, and its values.

    Attributes
    ----------
    point : array
        The points.
    value : array
        The values of the function at them.
    """

    point: Array
    value: Array

    def where(self, mask: NDArray[np.bool_], other: "_Evaluation") -> "_Evaluation":
        """Return these points and values where the mask holds, and others elsewhere."""
        return _Evaluation(
            np.where(mask, self.point, other.point),
            np.where(mask, self.value, other.value),
        )


def _fraction_of_next_step(
    newest: _Evaluation, opposite: _Evaluation, previous: _Evaluation
) -> Array:
    """Return where to look for a root next, by Chandrupatla's rule (1997).

    A parabola x(f) through three points is evaluated at f = 0 if it is monotone between
    them, which Chandrupatla's criterion says. Otherwise the bracket is halved.

    Parameters
    ----------
    newest : _Evaluation
        The point evaluated last.
    opposite : _Evaluation
        The point across the sign change from it.
    previous : _Evaluation
        The point that was replaced last.

    Returns
    -------
    array
        The next point, as a fraction of the way from the newest to the opposite point.
    """
    f_new = newest.value
    f_opp = opposite.value
    f_prev = previous.value

    # The parabola at f = 0, in Lagrange's form.
    opposite_term = f_new / (f_new - f_opp) * f_prev / (f_prev - f_opp)
    way_to_previous = previous.point - newest.point
    previous_fraction = way_to_previous / (opposite.point - newest.point)
    previous_term = (
        previous_fraction * f_new / (f_prev - f_new) * f_opp / (f_prev - f_opp)
    )
    parabola = opposite_term + previous_term

    # Chandrupatla's criterion.
    position = (newest.point - opposite.point) / (previous.point - opposite.point)
    height = (f_new - f_opp) / (f_prev - f_opp)
    is_monotone = (height**2 < position) & ((1 - height) ** 2 < 1 - position)
    return np.where(is_monotone & np.isfinite(parabola), parabola, 0.5)


def root_rounded_up(
    excess: Callable[[float], float],
    low: float,
    high: float,
    *,
    relative: float = 1e-12,
) -> float:
    """Find the root of a decreasing function, from the side where it is not positive.

    Brent's method closes in on the root. The result is the smallest point at which the
    method evaluated `excess` and found it <= 0. So `excess` is certainly not positive
    at the result, in spite of rounding.

    Parameters
    ----------
    excess : callable
        A decreasing function with excess(high) <= 0.
    low, high : float
        A bracket of the root. If excess(low) <= 0 already, the answer is `low`.
    relative : float
        About how far the answer may lie above the root, relative to it.

    Returns
    -------
    float
        A point at which `excess` was evaluated to be <= 0.

    Raises
    ------
    ParameterError
        If `excess` is still positive at `high`.
    NotResolved
        If `excess` gives NaN, which must never count as "not positive".
    """
    smallest_nonpositive = high

    def evaluate_and_remember(x: float) -> float:
        """Return `excess(x)` for Brent's method, and remember where it is <= 0.

        Parameters
        ----------
        x : float
            A point of the bracket.

        Returns
        -------
        float
            The value, cut to ±1e300, because the method interpolates values.
        """
        nonlocal smallest_nonpositive
        value = _evaluate_number(excess, x)
        if value <= 0:
            smallest_nonpositive = min(smallest_nonpositive, x)
        return min(max(value, -_LARGEST_FINITE), _LARGEST_FINITE)

    # Look at the ends of the bracket first.
    if evaluate_and_remember(low) <= 0:
        return low
    if evaluate_and_remember(high) > 0:
        raise ParameterError(f"no root: excess({high:g}) is still above 0")

    # Search for the root; `evaluate_and_remember` keeps the answer.
    scipy.optimize.brentq(
        evaluate_and_remember,
        low,
        high,
        xtol=NO_ABSOLUTE_ERROR,
        rtol=max(relative, NINE_ROUNDINGS),
        maxiter=500,
    )
    return smallest_nonpositive


def expand_bracket(
    excess: Callable[[float], float], start: float, *, limit: float = 1e300
) -> tuple[float, float]:
    """Bracket the root of a decreasing function by doubling or halving.

    A search for a noise scale starts with this, from a rough guess of the scale.

    Parameters
    ----------
    excess : callable
        The decreasing function.
    start : float
        The point > 0 at which the search starts.
    limit : float
        The search ends beyond it, or below its reciprocal.

    Returns
    -------
    low, high : float
        excess(low) > 0 >= excess(high). `high` is inf if `excess` stays positive up to
        `limit`; `low` is 0 if it stays nonpositive down to 1/`limit`.
    """
    point = start

    # Go up, until the function is not positive.
    if _evaluate_number(excess, point) > 0:
        while point < limit:
            previous = point
            point = point * 2.0
            if _evaluate_number(excess, point) <= 0:
                return previous, point
        return point, math.inf

    # Or go down, until the function is positive.
    while point > 1 / limit:
        previous = point
        point = point / 2.0
        if _evaluate_number(excess, point) > 0:
            return point, previous
    return 0.0, point


def _evaluate_number(function: Callable[[float], float], x: float) -> float:
    """Return function(x) as a float for a root search, and refuse NaN.

    A search for a root looks at the sign of the value. NaN has none, and the search would
    end anywhere.

    Parameters
    ----------
    function : callable
        The function whose root is searched.
    x : float
        Its argument.

    Returns
    -------
    float
        The value, which may be infinite.

    Raises
    ------
    NotResolved
        If the value is NaN, which has no sign.
    """
    value = float(function(x))
    if math.isnan(value):
        raise NotResolved(f"a root search met a function value that is NaN, at {x!r}")
    return value
