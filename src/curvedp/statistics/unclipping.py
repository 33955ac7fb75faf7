"""Estimate a variance from that of clipped records, and from how many were clipped.
Clipping to a ball shortens long distances, so that the variance of clipped records is
too small.
"""

from math import exp, log

import scipy  # scipy.optimize is loaded by its first use
from scipy.special import gammainc, gammaincc, gammaincinv

# Gamma laws of squared distances: from those of normal records on a line, which are of
# shape 1/2, to distances that hardly differ. The relative standard deviation is 1/√a.
_SMALLEST_SHAPE = 0.5
_LARGEST_SHAPE = 64.0


def unclipped_variance(
    variance: float, squared_radius: float, share_outside: float
) -> float:
    """Return the variance of records whose distances were clipped to a radius.

    Let the squared distances of the records to their mean have a Gamma distribution of
    shape a and mean s². Both follow from two numbers: the mean v of the squared
    distances that are cut to r², and the share q of those above r². With x = a·r²/s²
    and the regularized incomplete gamma functions P and Q,

        q = Q(a, x),    v/r² = (a/x)·P(a + 1, x) + q.

    The first equation gives x for every a, and then the second one gives a. With
    longer tails than normal records on a line have, the distribution of these is taken.

    Parameters
    ----------
    variance : float
        v, at least 0.
    squared_radius : float
        r², positive.
    share_outside : float
        q, in (0, 1).

    Returns
    -------
    float
        s², at least v.

    Examples
    --------
    Of an exponential distribution of mean 1, cut at 1, e⁻¹ is outside and 1 −
    e⁻¹ is left.

    >>> import math
    >>> outside = math.exp(-1)
    >>> round(unclipped_variance(1 - outside, 1.0, outside), 6)
    1.0
    """
    if variance <= 0:
        return 0.0
    cut_mean = variance / squared_radius

    def scaled_radius(shape: float) -> float:
        """Return the x = a·r²/s² that the share q of the distribution exceeds."""
        return float(gammaincinv(shape, 1 - share_outside))

    def excess(log_shape: float) -> float:
        """Return by how much the distribution's mean, cut at r², exceeds v, over r²."""
        shape = exp(log_shape)
        x = scaled_radius(shape)
        inside = shape / x * float(gammainc(shape + 1, x))
        return inside + float(gammaincc(shape, x)) - cut_mean

    ends = log(_SMALLEST_SHAPE), log(_LARGEST_SHAPE)
    if excess(ends[0]) >= 0:
        shape = _SMALLEST_SHAPE
    elif excess(ends[1]) <= 0:
        shape = _LARGEST_SHAPE
    else:
        shape = exp(float(scipy.optimize.brentq(excess, *ends, xtol=1e-9)))
    # The ratio of the two means keeps a variance of 0 at 0 at the ends of the range.
    x = scaled_radius(shape)
    law_mean = shape / x
    law_cut_mean = law_mean * float(gammainc(shape + 1, x)) + share_outside
    return max(variance, variance * law_mean / law_cut_mean)
