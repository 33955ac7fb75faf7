"""The privacy profile δ_μ(ε) of N(0, 1) against N(μ, 1), and its inverse. It is
the profile of Gaussian noise on flat space, and defines μ-Gaussian DP. It is accurate
from δ = 1 down to numbers that are far too small for a float.

Theorem (Balle and Wang 2018; Dong, Roth and Su 2022). With a = ε/μ − μ/2 and
b = ε/μ + μ/2, Φ the normal distribution function and φ its density,

    δ_μ(ε) = Φ(−a) − e^ε·Φ(−b).

In the tail the two terms agree to all digits. Since e^ε·φ(b) = φ(a), the same number is

    δ_μ(ε) = φ(a)·(R(a) − R(b)) = φ(a)·∫₀^∞ (1 − e^{−μs})·e^{−as − s²/2} ds

with Mills' ratio R(x) = Φ(−x)/φ(x). The integral is used if the difference would
cancel. Both factors are computed in extended precision if they need it, so that the
relative error is below `RELATIVE_ERROR`, by which every result is rounded up.
"""

import math
from typing import Any

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import (
    THIRTY_SIX_ROUNDINGS,
    Array,
    bisect_floats,
    round_down,
    round_up,
)
from curvedp.numerics.error_free import two_prod, two_sum

# A bound on the relative error of δ: 1.4e-14. The largest error seen against 60-digit
# arithmetic is 4e-15 (tests/privacy).
RELATIVE_ERROR = 2.0**-46
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_SMALLEST_FLOAT = 5e-324
# A Gauss–Legendre rule on (0, 1).
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES = 0.5 * (_LEGENDRE_NODES + 1)
_WEIGHTS = 0.5 * _LEGENDRE_WEIGHTS
# The number of integrals that are computed at a time, so that a block stays in the
# cache.
_BLOCK = 256
# Twice −log of the relative size at which the tail of an integral is negligible: e^-44.
_TWICE_NEGLIGIBLE = 88.0
# If μ·(length of the interval of integration) is at most this, 64 nodes resolve the
# integral, and it replaces a difference that would lose digits.
_LARGEST_MU_FOR_INTEGRAL = 20.0
# The square of a larger number is beyond the range of `two_prod`, the exact product.
_HUGE = 1e140
# A number near the smallest positive double, to keep denominators and bounds above 0.
_TINY = 1e-300
# No upper bound on μ is tried beyond this number, which is near the largest double.
_LARGEST_MU = 1e300
# The largest number of doublings of an upper bound on μ. From 1 on, so many lead beyond
# the largest float.
_MOST_DOUBLINGS = 1100
# Lower bounds on μ are lowered by this, relative: far more than their rounding errors.
_LOWER_BOUND_MARGIN = 1e-12


def gdp_delta(mu: Any, eps: Any) -> Any:
    """Return δ_μ(ε), the privacy profile of N(0, 1) against N(μ, 1); rounded up.

    Parameters
    ----------
    mu : float or array
        The distance μ > 0 of the means.
    eps : float or array
        ε >= 0; it broadcasts with `mu`.

    Returns
    -------
    float or array
        δ in (0, 1], and 0 for an infinite ε. It underflows to the smallest float, never
        to 0.
    """
    mu, eps = np.broadcast_arrays(
        np.asarray(mu, np.float64), np.asarray(eps, np.float64)
    )
    # δ = exp(exponent + exponent_low)·factor.
    exponent, exponent_low, factor = _factor_delta(mu, eps)
    with np.errstate(under="ignore"):
        # |exponent_low| exceeds 1 only if exp(exponent) is 0.
        correction = np.exp(np.clip(exponent_low, -1.0, 1.0))
        delta = np.exp(exponent) * correction * factor
    delta = np.minimum(round_up(delta, RELATIVE_ERROR), 1.0)
    delta = np.where(eps == np.inf, 0.0, delta)
    return delta if delta.ndim else float(delta)


def gdp_log_delta(mu: Any, eps: Any) -> Any:
    """Return log δ_μ(ε), rounded up, even if δ is far below the smallest float.

    δ_μ(ε) is the privacy profile of N(0, 1) against N(μ, 1).

    Parameters
    ----------
    mu : float or array
        The distance μ > 0 of the means.
    eps : float or array
        ε >= 0; it broadcasts with `mu`.

    Returns
    -------
    float or array
        log δ <= 0; −infinity for an infinite ε.
    """
    mu, eps = np.broadcast_arrays(
        np.asarray(mu, np.float64), np.asarray(eps, np.float64)
    )
    # δ = exp(exponent + exponent_low)·factor.
    exponent, exponent_low, factor = _factor_delta(mu, eps)
    with np.errstate(divide="ignore"):
        log_delta = exponent + (exponent_low + np.log(factor) + RELATIVE_ERROR)
    log_delta = np.minimum(round_up(log_delta), 0.0)
    log_delta = np.where(eps == np.inf, -np.inf, log_delta)
    return log_delta if log_delta.ndim else float(log_delta)


def _factor_delta(mu: Array, eps: Array) -> tuple[Array, Array, Array]:
    """Return three numbers e, e′ and f with δ_μ(ε) = exp(e + e′)·f.

    `gdp_delta` and `gdp_log_delta` are computed from them. In this form a δ far below
    the smallest float does not underflow. δ_μ(ε) = φ(a)·(R(a) − R(a + μ)) is the
    profile of N(0, 1) against N(μ, 1), where a = ε/μ − μ/2, φ is the normal density, Φ
    its distribution function and R(x) = Φ(−x)/φ(x) is Mills' ratio. There are three
    cases:

    - Usually, e + e′ is log φ(a) to twice the precision of a float, and
      f = R(a) − R(a + μ).
    - If that difference would lose digits, f is the same number as an integral,
      ∫₀^∞ (1 − e^{−μs})·e^{−as − s²/2} ds (`use_integral`).
    - If δ is near 1, e = e′ = 0 and f = Φ(−a) − φ(a)·R(a + μ) (`is_near_one`).

    The relative error must stay below `RELATIVE_ERROR`; tests/privacy/test_gaussian.py
    compares with 60-digit arithmetic.

    Parameters
    ----------
    mu, eps : array
        μ > 0 and ε >= 0, of the same shape.

    Returns
    -------
    exponent, exponent_low, factor : array
        e, e′ and f.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, log_phi, log_phi_low = _log_normal_density(mu, eps)
        a_plus_mu = a + mu

        # as + s²/2 = 44 at s = upper_limit. The tail beyond is below 2^-60 of the
        # integral.
        root = np.sqrt(a * a + _TWICE_NEGLIGIBLE)
        upper_limit = np.where(a < 0, -a + root, _TWICE_NEGLIGIBLE / (a + root))

        # Use the integral where the difference would lose digits.
        use_integral = mu * upper_limit <= _LARGEST_MU_FOR_INTEGRAL
        integral = np.zeros_like(upper_limit)
        integral[use_integral] = _mills_integral(
            mu[use_integral], a[use_integral], upper_limit[use_integral]
        )

        # The difference of two Mills' ratios, and δ itself where it is near 1.
        ratio_at_a = _mills_ratio(np.maximum(a, 0.0))
        ratio_at_a_plus_mu = _mills_ratio(a_plus_mu)
        difference = ratio_at_a - ratio_at_a_plus_mu
        is_near_one = ~use_integral & (a < 0)
        delta = scipy.special.ndtr(-a) - np.exp(log_phi) * ratio_at_a_plus_mu

    # Choose among the three cases.
    factor = np.where(is_near_one, delta, difference)
    factor = np.where(use_integral, integral, factor)
    exponent = np.where(is_near_one, 0.0, log_phi)
    exponent_low = np.where(is_near_one, 0.0, log_phi_low)
    return exponent, exponent_low, factor


def _log_normal_density(mu: Array, eps: Array) -> tuple[Array, Array, Array]:
    """Return a = (2ε − μ²)/2μ and log φ(a), the latter as the sum of two floats.

    φ is the normal density. Since log φ(a) contains a²/2, an error of a would be
    multiplied by a. Therefore a is computed to twice the precision of a float: two
    variables such as `a` and `a_low` stand for their unrounded sum. `two_sum` and
    `two_prod` return a sum and a product in this form. If squares would overflow, plain
    floats are used.

    Parameters
    ----------
    mu : array
        Numbers μ > 0.
    eps : array
        Numbers ε >= 0.

    Returns
    -------
    a, log_phi, log_phi_low : array
        log φ(a) is log_phi + log_phi_low.
    """
    # 2ε − μ².
    mu_square, mu_square_low = two_prod(mu, mu)
    numerator, numerator_low = two_sum(2 * eps, -mu_square)
    numerator_low = numerator_low - mu_square_low

    # a: the quotient by 2μ, corrected by its remainder. Then a².
    a = numerator / (2 * mu)
    product, product_low = two_prod(a, 2 * mu)
    a_low = ((numerator - product) - product_low + numerator_low) / (2 * mu)
    a, a_low = two_sum(a, a_low)
    a_square, a_square_low = two_prod(a, a)

    # Plain floats where a square would overflow; δ is 0 or 1 there up to rounding.
    is_huge = (mu > _HUGE) | (eps > _HUGE) | (np.abs(a) > _HUGE) | (mu < 1 / _HUGE)
    a = np.where(is_huge, np.minimum(eps / mu - mu / 2, 1e300), a)
    a_low = np.where(is_huge, 0.0, a_low)

    # log φ(a) = −a²/2 − log(2π)/2.
    log_phi, log_phi_low = two_sum(-a_square / 2, -_HALF_LOG_2PI)
    log_phi, log_phi_low = two_sum(log_phi, log_phi_low - a_square_low / 2 - a * a_low)
    log_phi = np.where(is_huge, -a * a / 2 - _HALF_LOG_2PI, log_phi)
    log_phi_low = np.where(is_huge, 0.0, log_phi_low)
    return a, log_phi, log_phi_low


def _mills_ratio(x: Array) -> Array:
    """Return Mills' ratio Φ(−x)/φ(x) of the normal distribution, elementwise."""
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))


def _mills_integral(mu: Array, a: Array, upper_limit: Array) -> Array:
    """Return R(a) − R(a + μ) = ∫₀^∞ (1 − e^{−μs})·e^{−as − s²/2} ds, for `gdp_delta`.

    R(x) = Φ(−x)/φ(x) is Mills' ratio of the normal distribution. The integral replaces
    the difference where that would lose digits. It is taken over [0, upper_limit] by
    quadrature with fixed nodes. Long arrays are treated in blocks that fit into the
    cache of the processor, which is ten times as fast.

    Parameters
    ----------
    mu : array
        μ > 0, in one dimension.
    a : array
        Real numbers a, of the same shape.
    upper_limit : array
        The s beyond which the integrand is negligible.

    Returns
    -------
    array
        The integrals, of the shape of `mu`.
    """
    # The integral over [0, upper_limit] is upper_limit times a mean over nodes.
    mean_integrand = np.empty_like(upper_limit)
    for start in range(0, len(upper_limit), _BLOCK):
        block = slice(start, start + _BLOCK)
        s = upper_limit[block, None] * _NODES
        weighted_integrand = _WEIGHTS * -np.expm1(-mu[block, None] * s)
        weighted_integrand *= np.exp(-s * (a[block, None] + s / 2))
        mean_integrand[block] = np.sum(weighted_integrand, axis=-1)
    return upper_limit * mean_integrand


def gdp_tradeoff(mu: Any, alpha: Any) -> Any:
    """Return the trade-off curve of N(0, 1) against N(μ, 1), rounded down.

    It is the smallest type II error of a test with the type I error α:
    G_μ(α) = Φ(Φ⁻¹(1−α) − μ), with Φ the normal distribution function (Dong, Roth and Su
    2022, Definition 2.6). To cover rounding errors, the argument of Φ is lowered by
    2⁻⁵⁰ of the size of its terms, and the result by a relative 4e-15.

    Parameters
    ----------
    mu : float or array
        The distance μ > 0 of the means.
    alpha : float or array
        The type I error α in [0, 1].

    Returns
    -------
    float or array
        The type II error β in [0, 1 − α].
    """
    quantile = scipy.special.ndtri(alpha)
    with np.errstate(invalid="ignore"):
        # 2^-50 is eight times the unit roundoff 2^-53: more than the quantile and the
        # difference err by.
        rounding = 2.0**-50 * (np.abs(quantile) + mu)
        lowered_argument = -quantile - mu - rounding
    beta = np.maximum(
        round_down(scipy.special.ndtr(lowered_argument), THIRTY_SIX_ROUNDINGS), 0.0
    )
    beta = np.where(np.asarray(alpha) > 0, beta, 1.0)  # Φ⁻¹(0) is infinite
    return beta if np.ndim(beta) else float(beta)


def gdp_mu_below(eps: Any, log_delta: Any) -> Any:
    """Return a quick lower bound on the μ at which δ_μ(ε) = δ, to start searches.

    δ_μ(ε) is the profile of N(0, 1) against N(μ, 1). The bound is close to that μ
    and increases with δ. Rounding may lift it above μ by a few units of the last digit.
    It is the larger one of two bounds, with the normal distribution function Φ and
    density φ:

    - Because δ_μ(ε) <= Φ(μ/2 − ε/μ), μ is at least the root of μ/2 − ε/μ = z, where
      z = Φ⁻¹(δ). This root is z + √(z² + 2ε), which is the same as
      2ε/(√(z² + 2ε) − z). The form without a difference is used.
    - Because δ_μ(ε) <= μ·φ(0), μ is at least δ/φ(0).

    Parameters
    ----------
    eps : float or array
        Values ε >= 0 of the privacy parameter.
    log_delta : float or array
        log δ < 0; it broadcasts with `eps`.

    Returns
    -------
    float or array
        Lower bounds on μ.
    """
    z = scipy.special.ndtri_exp(log_delta)
    root = np.sqrt(z * z + 2 * eps)
    # The tiny summand only prevents 0/0, for ε = 0 and z = 0.
    mu_if_z_is_negative = 2 * eps / (root - np.minimum(z, 0.0) + _TINY)
    mu = np.where(z < 0, mu_if_z_is_negative, z + root)
    with np.errstate(under="ignore"):
        return np.maximum(mu, math.sqrt(2 * math.pi) * np.exp(log_delta))


def gdp_mu(eps: Any, delta: Any) -> Any:
    """Return the μ of Gaussian DP that has exactly δ at ε; rounded up.

    The result solves δ_μ(ε) = δ, where δ_μ(ε) is the profile of N(0, 1) against
    N(μ, 1). It is found by bisection. A mechanism that has this δ at ε cannot satisfy a
    smaller μ.

    The comparison must be on the safe side: μ may be too large, never too small.

    Parameters
    ----------
    eps : float or array
        Values ε >= 0 of the privacy parameter.
    delta : float or array
        δ in [0, 1); it broadcasts with `eps`.

    Returns
    -------
    float or array
        μ >= 0: 0 for δ = 0, infinity if δ is so close to 1 that no float μ reaches it.
    """
    eps, delta = np.broadcast_arrays(
        np.asarray(eps, np.float64), np.asarray(delta, np.float64)
    )
    is_positive = delta > 0
    target = np.where(is_positive, delta, 0.5)  # for δ = 0, any δ that can be solved
    # gdp_log_delta is rounded up. If it exceeds the target by more than its error, the
    # true δ_μ(ε) has reached the target.
    log_target = np.log(target) + 4 * RELATIVE_ERROR

    def is_large_enough(mu: Array) -> Any:
        """Return where the true δ_μ(ε) has certainly reached δ."""
        return gdp_log_delta(np.maximum(mu, _SMALLEST_FLOAT), eps) >= log_target

    # Enclose μ. Near ε = 0, where the lower bound is 0, the upper one starts at 4δ:
    # there δ_μ is about μ/√(2π), hence μ about 2.5·δ.
    low = _lower_bound_on_mu(eps, target)
    high = np.maximum(2 * low, _TINY) + 4 * target
    for _ in range(_MOST_DOUBLINGS):
        is_too_small = gdp_log_delta(high, eps) < log_target
        is_too_small &= high < _LARGEST_MU
        if not np.any(is_too_small):
            break
        high = np.where(is_too_small, 2 * high, high)

    # The smallest float μ that is certainly large enough.
    mu = bisect_floats(is_large_enough, low, high)
    has_solution = gdp_log_delta(high, eps) >= log_target

    # δ = 0 needs μ = 0, and a δ that is too close to 1 an infinite μ.
    mu = np.where(has_solution, mu, np.inf)
    mu = np.where(is_positive, mu, 0.0)
    return mu if mu.ndim else float(mu)


def _lower_bound_on_mu(eps: Array, delta: Array) -> Array:
    """Return a certain lower bound on the μ with δ_μ(ε) = δ, where `gdp_mu` starts.

    δ_μ(ε) is the profile of N(0, 1) against N(μ, 1). It increases with μ and is at most
    Φ(μ/2 − ε/μ), with the normal distribution function Φ. So μ is at least the root of
    μ/2 − ε/μ = z with z = Φ⁻¹(δ). It is z + √(z² + 2ε) or, without a difference for
    z < 0, 2ε/(√(z² + 2ε) − z).

    Parameters
    ----------
    eps : array
        Values ε >= 0 of the privacy parameter.
    delta : array
        δ in (0, 1), of the same shape.

    Returns
    -------
    array
        The bounds, lowered by 1e-12: far more than the rounding errors.
    """
    z = scipy.special.ndtri(delta)
    root = np.sqrt(z * z + 2 * eps)
    mu_if_z_is_negative = 2 * eps / np.where(z < 0, root - z, 1.0)
    bound = np.where(z < 0, mu_if_z_is_negative, z + root)
    return np.asarray(bound * (1 - _LOWER_BOUND_MARGIN))
