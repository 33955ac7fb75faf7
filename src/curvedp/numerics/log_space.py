"""Sums, complements and distribution functions of numbers given by their logarithms. A
probability below 1e-308 is no float, but its logarithm is. I_x(a, a) is the regularized
incomplete beta function, the distribution function of Beta(a, a).
"""

import math

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import Array

# Below this log I_x(a, a), `betainc` is close to underflow and a series takes over.
_LOG_NEAR_UNDERFLOW = -650.0
# Terms of that series below this part of the sum are smaller than its rounding.
_NEGLIGIBLE_TERM = 1e-17


def log_sum_exp(x: Array, axis: int) -> Array:
    """Return log Σ e^x along an axis; −inf for a sum of zeros.

    Like `scipy.special.logsumexp`, without its overhead, which dominates on the short
    rows of a quadrature.

    Parameters
    ----------
    x : array
        The logarithms of the summands.
    axis : int
        The axis of the sum.

    Returns
    -------
    array
        The logarithms of the sums.
    """
    # The largest summand is factored out, so that no exponential overflows.
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        log_total = np.log(np.sum(np.exp(x - largest), axis=axis))
    return np.asarray(log_total + np.squeeze(largest, axis=axis))


def log_complement(log_p: Array) -> Array:
    """Return log(1 − p) from log p, for probabilities p; −inf where p is 1.

    Parameters
    ----------
    log_p : array
        log p <= 0.

    Returns
    -------
    array
        log(1 − p), of the shape of `log_p`.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(log_p)))


def log_symmetric_beta(a: float, x: Array, y: Array) -> Array:
    """Return log I_x(a, a), the log distribution function of Beta(a, a) at x.

    On a sphere of directions it is the log probability of a cap. I_x(a, a) is the
    regularized incomplete beta function. If it underflows, the series of positive terms

        I_x(a, a) = x^a·(1−x)^a / (a·B(a, a)) · ₂F₁(2a, 1; a+1; x)      (DLMF 8.17.8)

    is summed instead.

    Parameters
    ----------
    a : float
        The shape parameter, a > 0. For a = 1/2 and a = 1 there are closed forms.
    x : array
        The argument, from 0 to 1.
    y : array
        1 − x. It is passed because 1 − x computed from x would lose digits.

    Returns
    -------
    array
        Numbers <= 0; −infinity at x = 0.
    """
    with np.errstate(under="ignore", divide="ignore"):
        if a == 0.5:
            smaller_side = 2 / math.pi * np.arcsin(np.sqrt(np.minimum(x, y)))
            return np.asarray(np.log(np.where(x <= y, smaller_side, 1 - smaller_side)))
        if a == 1.0:
            return np.asarray(np.log(x))
        log_value = np.asarray(np.log(scipy.special.betainc(a, a, x)))

    is_tiny = (x < 0.5) & (log_value < _LOG_NEAR_UNDERFLOW)
    if np.any(is_tiny):
        log_value[is_tiny] = _log_symmetric_beta_series(a, x[is_tiny])
    return log_value


def _log_symmetric_beta_series(a: float, x: Array) -> Array:
    """Return log I_x(a, a) for x < 1/2 by a series that does not underflow.

    I_x(a, a) is the regularized incomplete beta function. It is x^a·(1−x)^a/(a·B(a,
    a))·Σⱼ tⱼ with t₀ = 1 and tⱼ₊₁ = tⱼ·x·(2a + j)/(a + 1 + j). All terms are positive;
    they are added until they are below 1e-17 of the sum.

    Parameters
    ----------
    a : float
        The parameter of the beta function.
    x : array
        Numbers below 1/2.

    Returns
    -------
    array
        One logarithm for each x.
    """
    term = np.ones_like(x)
    total = np.ones_like(x)
    j = 0
    while np.any(term > _NEGLIGIBLE_TERM * total):
        term = term * x * (2 * a + j) / (a + 1 + j)
        total = total + term
        j = j + 1

    with np.errstate(divide="ignore"):
        log_powers = a * (np.log(x) + np.log1p(-x))  # of x^a·(1−x)^a
        log_factor = log_powers - math.log(a) - scipy.special.betaln(a, a)
        return np.asarray(log_factor + np.log(total))
