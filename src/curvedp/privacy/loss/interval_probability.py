"""The probability of an interval |w + c| < R under the law of a random direction on a real
projective space. In dimension d, the direction has a coordinate w in [−1, 1], and
v = (1 + w)/2 has the law Beta(a, a) with a = (d−1)/2. In terms of v, the interval runs
from `left_end` to `right_end`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.privacy.loss.direction_set import DirectionSet

# A Gauss–Legendre rule on (−1, 1), for integrals over an angle.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# If the logarithms of two probabilities are closer than this, their difference would
# lose digits.
_CANCELING_LOG_RATIO = -0.1


def log_probability_inside(d: int, interval: DirectionSet) -> Array:
    """Return the log probability of the interval |w + c| < R.

    It is the probability that the privacy loss of a random direction exceeds a level.
    With the coordinate w of the direction and v = (1 + w)/2, the result is
    log(P(v < right_end) − P(v < left_end)), or an integral where the two probabilities
    nearly cancel. tests/privacy/test_projective.py compares the tails on the rotations
    with integrals in high precision.

    Parameters
    ----------
    d : int
        The dimension of the space.
    interval : DirectionSet
        The interval. Its left end is clipped to [0, 1].

    Returns
    -------
    array
        The logarithms, of the shape of `interval.radius`.
    """
    a = (d - 1) / 2
    clipped = _clip_left_end(interval)
    log_below_right = log_symmetric_beta(a, clipped.right_end, clipped.above_right)
    if a == 1.0:  # w is uniform
        return np.where(clipped.left_end > 0, np.log(clipped.radius), log_below_right)

    # The difference of the two probabilities.
    log_below_left = log_symmetric_beta(a, clipped.left_end, clipped.above_left)
    log_ratio = np.minimum(log_below_left - log_below_right, 0.0)
    log_probability = log_below_right + np.log(-np.expm1(log_ratio))

    # Where that difference would lose digits, integrate over the angle instead.
    is_close = log_below_left - log_below_right > _CANCELING_LOG_RATIO
    cancels = (clipped.left_end > 0) & is_close
    if np.any(cancels):
        log_probability[cancels] = _log_probability_by_quadrature(d, clipped, cancels)
    return log_probability


def log_probability_outside(d: int, interval: DirectionSet) -> Array:
    """Return the log probability that w is not in the interval |w + c| < R.

    It is the probability that the privacy loss of a random direction is at most a
    level. With the coordinate w of the direction and v = (1 + w)/2, the result is
    log(P(v > right_end) + P(v < left_end)).

    Parameters
    ----------
    d : int
        The dimension of the space.
    interval : DirectionSet
        The interval. Its left end is clipped to [0, 1].

    Returns
    -------
    array
        The logarithms, of the shape of `interval.radius`.
    """
    a = (d - 1) / 2
    clipped = _clip_left_end(interval)
    log_below_left = log_symmetric_beta(a, clipped.left_end, clipped.above_left)
    log_beyond_right = log_symmetric_beta(a, clipped.above_right, clipped.right_end)
    return np.logaddexp(log_beyond_right, log_below_left)


def _clip_left_end(interval: DirectionSet) -> DirectionSet:
    """Return the interval with its left end clipped to the range of v, [0, 1]."""
    return interval._replace(
        left_end=np.clip(interval.left_end, 0.0, 1.0),
        above_left=np.clip(interval.above_left, 0.0, 1.0),
    )


def _log_probability_by_quadrature(
    d: int, interval: DirectionSet, selected: NDArray[np.bool_]
) -> Array:
    """Return the log probability of selected intervals, by quadrature over an angle.

    The coordinate is w = cos φ, and φ has the density sin^{d−2} φ / total. It is
    integrated from φ₁ to φ₂, the angles of the two ends of the interval. Their middle
    is (φ₁ + φ₂)/2, and half their difference is arcsin(R/sin(middle)). The result loses
    no digits, however short the interval is.

    Parameters
    ----------
    d : int
        The dimension of the space.
    interval : DirectionSet
        Intervals with both ends in [0, 1].
    selected : array of bool
        The intervals to integrate over.

    Returns
    -------
    array
        One logarithm for each selected interval, in one dimension.
    """
    # With v = cos²(φ/2), half of the angle is arctan(√(1−v)/√v).
    half_angle_of_right_end = np.arctan2(
        np.sqrt(interval.above_right), np.sqrt(interval.right_end)
    )
    half_angle_of_left_end = np.arctan2(
        np.sqrt(interval.above_left), np.sqrt(interval.left_end)
    )
    middle = half_angle_of_right_end + half_angle_of_left_end
    half_width = np.arcsin(np.minimum(interval.radius / np.sin(middle), 1.0))
    middle = middle[selected]
    half_width = half_width[selected]

    # Rows are intervals and columns are nodes.
    phi = middle[:, None] + half_width[:, None] * _NODES
    log_terms = (d - 2) * np.log(np.abs(np.sin(phi))) + np.log(_WEIGHTS)
    a = (d - 1) / 2
    log_total = math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    log_integral = np.log(half_width) + log_sum_exp(log_terms, axis=1)
    return np.asarray(log_integral - log_total)
