"""Moments and the support of a distance, computed from its distribution function F
alone. F(r) is the probability that a noisy point is at most r from the center of the
noise. The support is the interval of distances outside of which hardly any probability
lies.

Laws whose distance has no tabulated density (matrices, products) use these.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from curvedp.laws.backend import Floats

RadialCDF = Callable[[ArrayLike], Floats]
"""A distribution function: maps distances r to P(distance ≤ r)."""

# Probability that a support may leave out at each end.
_TAIL = 1e-13

# Panels and Gauss–Legendre rule (on [-1, 1]) of the integral for a moment.
_PANELS = 64
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class Support(NamedTuple):
    """An interval of radii outside of which a distance hardly ever lies.

    Attributes
    ----------
    low, high : float
        The ends of the interval.
    """

    low: float
    high: float


def radial_support(cdf: RadialCDF, scale: float) -> Support:
    """Return an interval that leaves out a probability of 1e-13 at each end.

    Its ends are found by 24 bisections and lie on the outer side.

    Parameters
    ----------
    cdf : callable
        Distribution function of a distance.
    scale : float
        Any positive length; the search for the upper end starts with it.

    Returns
    -------
    Support
        The interval.
    """
    upper_limit = scale
    while float(cdf(upper_limit)) < 1.0 - _TAIL:
        upper_limit *= 2.0
    low = _quantile_bracket(cdf, _TAIL, upper_limit).low
    high = _quantile_bracket(cdf, 1.0 - _TAIL, upper_limit).high
    return Support(low, high)


# Bisections of a quantile: they leave 2^−24 of the first bracket.
_BISECTIONS = 24


def _quantile_bracket(cdf: RadialCDF, probability: float, upper: float) -> Support:
    """Bracket the quantile of a probability within [0, upper] by 24 bisections.

    Called by `radial_support` for both ends of a support.

    Parameters
    ----------
    cdf : callable
        Distribution function of a distance.
    probability : float
        The level of the quantile.
    upper : float
        A radius above the quantile.

    Returns
    -------
    Support
        An interval of length 2^−24·upper that contains the quantile.
    """
    below = 0.0
    above = upper
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2
        if float(cdf(middle)) >= probability:
            above = middle
        else:
            below = middle
    return Support(below, above)


def radial_moment(cdf: RadialCDF, order: int, scale: float) -> float:
    """Return the moment E[r^k] of a distance with a given distribution function.

    With the distribution function F, integration by parts gives
    E[r^k] = ∫ k·r^{k−1}·(1 − F(r)) dr.

    Parameters
    ----------
    cdf : callable
        The distribution function F.
    order : int
        The power k ≥ 1.
    scale : float
        Any positive length; the search for the support starts with it.

    Returns
    -------
    float
        E[r^k].
    """
    # Nodes in the support: rows are panels, columns are nodes of the rule.
    support = radial_support(cdf, scale)
    edges = np.linspace(support.low, support.high, _PANELS + 1)
    half_widths = np.diff(edges)[:, None] / 2
    r = edges[:-1, None] + half_widths * (1.0 + _NODES)

    # Below the support 1 − F is 1, and the integral is low^k.
    tail = 1.0 - cdf(r.ravel()).reshape(r.shape)
    integrand = order * r ** (order - 1) * tail
    integral = float(np.sum(integrand * half_widths * _WEIGHTS))
    return support.low**order + integral
