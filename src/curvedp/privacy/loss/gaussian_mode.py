"""The most likely distance of Gaussian noise from its center, on curved spaces. It is the
root of an equation with one unknown, which is searched for.
"""

import math

import scipy

from curvedp.numerics.directed_rounding import NO_ABSOLUTE_ERROR


def solve_m_tan_m(target: float) -> float:
    """Return the root m in (0, π/2) of m·tan m = target.

    It is the most likely distance of Gaussian noise on a sphere from its center, if
    `target` is (d−1)s², with the dimension d and the scale s. The equation is solved in
    the form m·sin m − target·cos m = 0, which has no pole. Because m² <= m·tan m, the
    root is at most √target; if rounding hides any difference, that bound is returned.

    Parameters
    ----------
    target : float
        A positive number.

    Returns
    -------
    float
        The root m.
    """
    scale = max(target, 1.0)
    upper = min(math.sqrt(target), math.pi / 2)
    if upper * math.sin(upper) <= target * math.cos(upper):
        return upper  # the bound is the root, up to rounding

    def difference(m: float) -> float:
        """Return m·sin m − target·cos m, divided by the larger of target and 1."""
        return (m * math.sin(m) - target * math.cos(m)) / scale

    return float(scipy.optimize.brentq(difference, 0.0, upper, xtol=NO_ABSOLUTE_ERROR))


def solve_m_tanh_m(target: float) -> float:
    """Return the root m > 0 of m·tanh m = target.

    It is the most likely distance of Gaussian noise on a hyperbolic space from its
    center, if `target` is (d−1)s², with the dimension d and the scale s. Because
    m·tanh m >= m²/(1+m), the root is at most target + √target.

    Parameters
    ----------
    target : float
        A positive number.

    Returns
    -------
    float
        The root m.
    """
    # Twice the bound, so that rounding cannot put it left of the root. It is never 0.
    upper = 2 * (target + math.sqrt(target) + NO_ABSOLUTE_ERROR)

    def difference(m: float) -> float:
        """Return m·tanh m/target − 1."""
        return m * math.tanh(m) / target - 1.0

    return float(scipy.optimize.brentq(difference, 0.0, upper, xtol=NO_ABSOLUTE_ERROR))
