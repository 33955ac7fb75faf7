"""Turn proved bounds, which are balls of ball arithmetic, into floats. A *ball* (arb, from
Arb in python-flint) is a number with an error bound. All rounding goes outward, so that
the floats are bounds too.
"""

import math

from flint import arb

# The relative amount by which bounds are widened: a little more than the margin by
# which the fast computation in floats rounds up, so that its results lie inside.
OUTWARD_MARGIN = 3e-9


def outward_floats(ball: arb) -> tuple[float, float]:
    """Return floats (lower, upper) around a ball of numbers >= 0.

    Both ends are moved outward by the relative margin 3e-9. So the results of the fast
    computation in floats, which are rounded up by a little less, lie between them.

    Parameters
    ----------
    ball : arb
        A ball: all numbers between two ends.

    Returns
    -------
    lower, upper : float
        The enclosing floats.
    """
    lower = float_below(ball.lower()) * (1 - OUTWARD_MARGIN)
    upper = float_above(ball.upper()) * (1 + OUTWARD_MARGIN)

    # The products were rounded, so the ends are moved one float further. At 1 and above
    # the margin alone covers the rounding.
    lower = math.nextafter(lower, -math.inf)
    if upper < 1:
        upper = math.nextafter(upper, math.inf)
    return max(lower, 0.0), upper


def float_below(x: arb) -> float:
    """Return a float below a number: the one before the float nearest to it."""
    return math.nextafter(float(x), -math.inf)


def float_above(x: arb) -> float:
    """Return a float above a number: the one after the float nearest to it."""
    return math.nextafter(float(x), math.inf)
