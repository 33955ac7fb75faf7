"""Solve δ_μ(ε) = δ for μ, where δ_μ is the profile of N(0, 1) against N(μ, 1). So δ at one
ε is expressed as the distance μ between two normal laws. The solver is Newton's method;
it starts from log δ for small δ, and from log(1 − δ) for δ > ½.

Notation: Φ is the normal distribution function, φ its density, R(x) = Φ(−x)/φ(x)
Mills' ratio, a = ε/μ − μ/2 and b = ε/μ + μ/2.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import Array
from curvedp.privacy.guarantees.gaussian import gdp_log_delta, gdp_mu_below

# The largest number of Newton steps. Few are taken, except where each step doubles μ.
_MOST_NEWTON_STEPS = 60
# The relative step below which Newton's method ends: a few hundred roundings.
_NEWTON_TOLERANCE = 1e-13
# The smallest first iterate: close to the smallest normal double (2e-308), so that ε/μ
# is defined.
_SMALLEST_MU = 1e-305
# log(1 − δ) is at most this. At 0 itself the quantile of the normal law is infinite.
_LARGEST_LOG_COMPLEMENT = -1e-300
# Mills' ratio is not evaluated left of this point, where it would overflow.
_LEFTMOST_MILLS_ARGUMENT = -35.0
# A difference of two Mills' ratios is used as it is if it exceeds this part of the
# larger one: then at most three digits are lost.
_SMALLEST_RELATIVE_DIFFERENCE = 1e-3
# From this x on, 1 − x·R(x) is replaced by its asymptotic form 1/x².
_LARGE_MILLS_ARGUMENT = 100


def _solve_for_mu(
    eps: Array, mu: Array, newton_step: Callable[[Array, Array, Array], Array]
) -> Array:
    """Solve δ_μ(ε) = δ for μ by Newton's method, elementwise, with a given step.

    `mu_of_small_delta` and `mu_of_large_delta` supply the first iterates and the step.
    δ_μ(ε) is the profile of N(0, 1) against N(μ, 1). A step is cut if it would more
    than double μ, or remove more than half of it. The iteration ends when all steps are
    below 1e-13·μ.

    The cut keeps μ positive. tests/privacy/test_profile.py computes δ from the result
    again.

    Parameters
    ----------
    eps : array
        Values ε >= 0 of the privacy parameter.
    mu : array
        The first iterates μ > 0.
    newton_step : callable
        The step to the next iterate, as a function of μ, a = ε/μ − μ/2 and
        b = ε/μ + μ/2.

    Returns
    -------
    array
        The solutions μ, of the shape of `eps`.
    """
    for _ in range(_MOST_NEWTON_STEPS):
        a = eps / mu - mu / 2
        b = eps / mu + mu / 2
        step = np.clip(newton_step(mu, a, b), -mu / 2, mu)
        mu = mu + step
        if np.all(np.abs(step) <= _NEWTON_TOLERANCE * mu):
            break
    return np.asarray(mu)


def mu_of_small_delta(eps: Array, log_delta: Array, start: float | None) -> Array:
    """Return the μ with δ_μ(ε) = δ, elementwise, for δ <= ½ given as log δ.

    δ_μ(ε) is the privacy profile of μ-GDP: the smallest δ with which N(0, 1) and
    N(μ, 1) are (ε, δ)-indistinguishable. Let Φ and φ be the normal distribution
    function and density, R(x) = Φ(−x)/φ(x) Mills' ratio, a = ε/μ − μ/2 and
    b = ε/μ + μ/2. Then

        δ_μ(ε) = φ(a)·(R(a) − R(b)),      ∂δ_μ(ε)/∂μ = φ(a).

    Newton's method solves f(μ) = log δ_μ(ε) − log δ = 0. The derivative of f is
    φ(a)/δ_μ(ε) = 1/(R(a) − R(b)), so its step is −f(μ)·(R(a) − R(b)). Logarithms keep a
    tiny δ from underflowing. Since log δ_μ is increasing and concave in μ, the iterates
    converge from below.

    Parameters
    ----------
    eps : array
        Values ε >= 0 of the privacy parameter.
    log_delta : array
        log δ with δ <= ½.
    start : float or None
        The first iterate; by default a lower bound on each μ.

    Returns
    -------
    array
        The solutions μ, of the shape of `eps`.
    """
    # The first iterates, from below: then no step leads to a negative μ.
    if start is None:
        first_mu = np.maximum(gdp_mu_below(eps, log_delta), _SMALLEST_MU)
    else:
        first_mu = np.full_like(eps, start)

    def newton_step(mu: Array, a: Array, b: Array) -> Array:
        """Return the Newton step (log δ − log δ_μ(ε))·(R(a) − R(b)).

        Parameters
        ----------
        mu : array
            The iterates.
        a, b : array
            ε/μ − μ/2 and ε/μ + μ/2, which the caller has computed.
        """
        log_delta_gap = log_delta - gdp_log_delta(mu, eps)
        return np.asarray(log_delta_gap * mills_difference(a, b))

    return _solve_for_mu(eps, first_mu, newton_step)


def mu_of_large_delta(
    eps: Array, log_complement_of_delta: Array, start: float | None
) -> Array:
    """Return the μ with δ_μ(ε) = δ, elementwise, for δ > ½ given as log(1 − δ).

    δ_μ(ε) is the profile of N(0, 1) against N(μ, 1). With a = ε/μ − μ/2,
    b = ε/μ + μ/2, the normal distribution function Φ and density φ, and Mills' ratio
    R(x) = Φ(−x)/φ(x),

        1 − δ_μ(ε) = Φ(a) + e^ε·Φ(−b) = φ(a)·(R(−a) + R(b)),

    and the derivative of this number in μ is −φ(a). Newton's method is applied to
    f(μ) = log(1 − δ_μ(ε)) − log(1 − δ) = 0. Since f′(μ) = −1/(R(−a) + R(b)) < 0, the
    step −f/f′ is +f(μ)·(R(−a) + R(b)): it raises μ as long as δ_μ(ε) is below δ.

    Parameters
    ----------
    eps : array
        Values ε >= 0 of the privacy parameter.
    log_complement_of_delta : array
        log(1 − δ) with δ > ½.
    start : float or None
        The first iterate; by default the solution of Φ(a) = 1 − δ.

    Returns
    -------
    array
        The solutions μ, of the shape of `eps`.
    """
    if start is None:
        # With the quantile z of 1 − δ, the equation Φ(a) = 1 − δ is ε/μ − μ/2 = z. It
        # is quadratic in μ, with the positive root −z + √(z² + 2ε). For z >= 0 the root
        # is written without a difference.
        z = scipy.special.ndtri_exp(
            np.minimum(log_complement_of_delta, _LARGEST_LOG_COMPLEMENT)
        )
        root = np.sqrt(z * z + 2 * eps)
        first_mu = np.where(z < 0, -z + root, 2 * eps / (np.abs(z) + root))
        first_mu = np.maximum(first_mu, _SMALLEST_MU)
    else:
        first_mu = np.full_like(eps, start)

    def newton_step(mu: Array, a: Array, b: Array) -> Array:
        """Return the Newton step (log(1 − δ_μ(ε)) − log(1 − δ))·(R(−a) + R(b)).

        Parameters
        ----------
        mu : array
            The iterates; they enter through a and b only.
        a, b : array
            ε/μ − μ/2 and ε/μ + μ/2, which the caller has computed.
        """
        log_first_term = scipy.special.log_ndtr(a)
        log_second_term = eps + scipy.special.log_ndtr(-b)
        log_value = np.logaddexp(log_first_term, log_second_term)
        gap = log_value - log_complement_of_delta
        return np.asarray(gap * (mills_ratio(-a) + mills_ratio(b)))

    return _solve_for_mu(eps, first_mu, newton_step)


def mills_ratio(x: Array) -> Array:
    """Return Mills' ratio R(x) = Φ(−x)/φ(x), which Newton steps for μ contain.

    Φ is the normal distribution function and φ its density; R(x) = √(π/2)·erfcx(x/√2).
    Left of −35, where R would overflow, its value at −35 is returned. The caller is
    Newton's method, whose step is cut there anyway, so that only its sign matters.

    Parameters
    ----------
    x : array
        Real numbers.

    Returns
    -------
    array
        Positive numbers, of the shape of `x`.
    """
    argument = np.maximum(x, _LEFTMOST_MILLS_ARGUMENT) / math.sqrt(2)
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(argument))


def mills_difference(a: Array, b: Array) -> Array:
    """Return R(a) − R(b) for a <= b, to three digits or more, for a Newton step.

    R(x) = Φ(−x)/φ(x) is Mills' ratio of the normal distribution. If R(a) and R(b) agree
    in too many digits, their difference is approximated by −(b − a)·R′(z) at the
    midpoint z = (a + b)/2. There −R′(z) = 1 − z·R(z), which is about 1/z² for large z.

    Parameters
    ----------
    a, b : array
        Real numbers, a <= b.

    Returns
    -------
    array
        The differences, >= 0.
    """
    # The derivative at the midpoint, for the approximation.
    z = (a + b) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        negative_slope = np.where(
            z > _LARGE_MILLS_ARGUMENT, 1 / (z * z), 1 - z * mills_ratio(z)
        )

        # The difference itself, where enough of its digits are left.
        difference = mills_ratio(a) - mills_ratio(b)
        has_enough_digits = difference > _SMALLEST_RELATIVE_DIFFERENCE * mills_ratio(a)
        return np.where(has_enough_digits, difference, (b - a) * negative_slope)
