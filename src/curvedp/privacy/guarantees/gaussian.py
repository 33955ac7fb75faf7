"""The privacy profile of N(0, 1) against N(μ, 1), to full relative precision from δ = 1 down to any log δ.

Balle and Wang 2018; Dong, Roth and Su 2022: δ_μ(ε) = Φ(−a) − e^ε Φ(−b), a = ε/μ − μ/2, b = ε/μ + μ/2.
The two terms agree to all digits in the tail. Since e^ε φ(b) = φ(a), the same number is φ(a)·(R(a) − R(b)) with Mills'
ratio R(x) = Φ(−x)/φ(x), and φ(a)·∫₀^∞ (1 − e^{−μs}) e^{−as − s²/2} ds, whose integrand is positive. The integral
serves where R(a) − R(b) would cancel, the difference everywhere else. Both factors are computed in extended precision
where they need it, so the relative error is below `RELATIVE_ERROR`, which every result is rounded up by.
"""

import math
from typing import Any

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import (
    Array,
    bisect_floats,
    round_down,
    round_up,
)
from curvedp.numerics.error_free import two_prod, two_sum

RELATIVE_ERROR = (
    2.0**-46
)  # 1.4e-14; the largest seen against 60-digit arithmetic is 4e-15 (tests/privacy)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
_BLOCK = 256  # integrals at a time


def gdp_delta(mu: Any, eps: Any) -> Any:
    """δ_μ(ε) for μ > 0 and ε >= 0, arrays broadcast; rounded up. Underflows to the smallest float, never to 0."""
    mu, eps = np.broadcast_arrays(
        np.asarray(mu, np.float64), np.asarray(eps, np.float64)
    )
    exponent, low, factor = _factors(mu, eps)
    with np.errstate(under="ignore"):
        delta = (
            np.exp(exponent) * np.exp(np.clip(low, -1.0, 1.0)) * factor
        )  # |low| > 1 only where exp(exponent) is 0
    delta = np.where(
        eps == np.inf, 0.0, np.minimum(round_up(delta, RELATIVE_ERROR), 1.0)
    )
    return delta if delta.ndim else float(delta)


def gdp_log_delta(mu: Any, eps: Any) -> Any:
    """log δ_μ(ε), for δ far below the smallest float; rounded up."""
    mu, eps = np.broadcast_arrays(
        np.asarray(mu, np.float64), np.asarray(eps, np.float64)
    )
    exponent, low, factor = _factors(mu, eps)
    with np.errstate(divide="ignore"):
        log_delta = exponent + (low + np.log(factor) + RELATIVE_ERROR)
    log_delta = np.where(eps == np.inf, -np.inf, np.minimum(round_up(log_delta), 0.0))
    return log_delta if log_delta.ndim else float(log_delta)


def _factors(mu: Array, eps: Array) -> tuple[Array, Array, Array]:
    """(e, e', f) with δ = exp(e + e')·f; e + e' = log φ(a) to twice the precision, or 0 where δ is near 1."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # a = (2ε − μ²)/2μ as an unevaluated sum: its square is the exponent, so an error in a is multiplied by a.
        square, square_low = two_prod(mu, mu)
        top, top_low = two_sum(2 * eps, -square)
        top_low = top_low - square_low
        a = top / (2 * mu)
        back, back_low = two_prod(a, 2 * mu)
        a_low = ((top - back) - back_low + top_low) / (2 * mu)
        a, a_low = two_sum(a, a_low)
        half, half_low = two_prod(a, a)
        huge = (mu > 1e140) | (eps > 1e140) | (np.abs(a) > 1e140) | (mu < 1e-140)
        a = np.where(huge, np.minimum(eps / mu - mu / 2, 1e300), a)
        a_low = np.where(huge, 0.0, a_low)
        log_phi, rest = two_sum(-half / 2, -_HALF_LOG_2PI)
        log_phi, rest = two_sum(log_phi, rest - half_low / 2 - a * a_low)
        log_phi = np.where(huge, -a * a / 2 - _HALF_LOG_2PI, log_phi)
        rest = np.where(huge, 0.0, rest)

        b = a + mu
        reach = 88.0 / (
            a + np.sqrt(a * a + 88.0)
        )  # as + s²/2 = 44 there: the tail beyond is below 2^-60 of the whole
        reach = np.where(a < 0, -a + np.sqrt(a * a + 88.0), reach)
        smooth = mu * reach <= 20.0
        integral = np.zeros_like(reach)
        integral[smooth] = _integral(mu[smooth], a[smooth], reach[smooth])

        mills_b = math.sqrt(math.pi / 2) * scipy.special.erfcx(b / math.sqrt(2))
        difference = (
            math.sqrt(math.pi / 2)
            * scipy.special.erfcx(np.maximum(a, 0.0) / math.sqrt(2))
            - mills_b
        )
        near_one = ~smooth & (a < 0)
        direct = scipy.special.ndtr(-a) - np.exp(log_phi) * mills_b
    factor = np.where(smooth, integral, np.where(near_one, direct, difference))
    return np.where(near_one, 0.0, log_phi), np.where(near_one, 0.0, rest), factor


def _integral(mu: Array, a: Array, reach: Array) -> Array:
    """∫ (1 − e^{−μs}) e^{−as − s²/2} ds to `reach`, in blocks that stay in the cache: ten times as fast for long arrays."""
    total = np.empty_like(reach)
    for block in (
        slice(start, start + _BLOCK) for start in range(0, len(reach), _BLOCK)
    ):
        s = reach[block, None] * _NODES
        share = _WEIGHTS * -np.expm1(-mu[block, None] * s)
        share *= np.exp(-s * (a[block, None] + s / 2))
        total[block] = np.sum(share, axis=-1)
    return reach * total


def gdp_tradeoff(mu: Any, alpha: Any) -> Any:
    """G_μ(α) = Φ(Φ⁻¹(1−α) − μ), the smallest type II error at type I error α (Dong, Roth and Su 2022, Def. 2.6), rounded
    down: Φ⁻¹ and Φ err by a few units in the last place, of which the argument's are multiplied by its size."""
    z = scipy.special.ndtri(alpha)
    with np.errstate(invalid="ignore"):
        lowered = -z - mu - 2.0**-50 * (np.abs(z) + mu)
    beta = np.where(
        np.asarray(alpha) > 0,
        np.maximum(round_down(scipy.special.ndtr(lowered), 4e-15), 0.0),
        1.0,
    )
    return beta if np.ndim(beta) else float(beta)


def gdp_mu_below(eps: Any, log_delta: Any) -> Any:
    """Near the μ at which δ_μ(ε) = δ, but for round-off not above it, and growing with δ: δ_μ(ε) ≤ Φ(−a), δ_μ(ε) ≤ μ·φ(0)."""
    z = scipy.special.ndtri_exp(log_delta)
    root = np.sqrt(z * z + 2 * eps)
    low = np.where(z < 0, 2 * eps / (root - np.minimum(z, 0.0) + 1e-300), z + root)
    with np.errstate(under="ignore"):
        return np.maximum(low, math.sqrt(2 * math.pi) * np.exp(log_delta))


def gdp_mu(eps: Any, delta: Any) -> Any:
    """The μ at which δ_μ(ε) = δ in [0, 1), rounded up: no mechanism whose profile passes through (ε, δ) has less. Arrays
    broadcast; δ = 0 gives 0."""
    eps, delta = np.broadcast_arrays(
        np.asarray(eps, np.float64), np.asarray(delta, np.float64)
    )
    positive = delta > 0
    target = np.where(positive, delta, 0.5)
    # gdp_log_delta is rounded up, so it has to pass the target by its own error: then the true δ_μ(ε) has reached it.
    log_target = np.log(target) + 4 * RELATIVE_ERROR
    # δ_μ increases with μ and is at most Φ(−a), so the root is not below the μ at which Φ(−a) = δ.
    z = scipy.special.ndtri(target)
    bend = np.sqrt(z * z + 2 * eps)
    low = np.where(z < 0, 2 * eps / np.where(z < 0, bend - z, 1.0), z + bend) * (
        1 - 1e-12
    )
    high = np.maximum(2 * low, 1e-300) + 4 * target
    for _ in range(1100):
        short = (gdp_log_delta(high, eps) < log_target) & (high < 1e300)
        if not np.any(short):
            break
        high = np.where(short, 2 * high, high)
    root = bisect_floats(
        lambda m: gdp_log_delta(np.maximum(m, 5e-324), eps) >= log_target, low, high
    )
    # A δ that no float tells from 1 is reached by no finite μ that could be vouched for.
    root = np.where(gdp_log_delta(high, eps) >= log_target, root, np.inf)
    mu = np.where(positive, root, 0.0)
    return mu if mu.ndim else float(mu)
