"""Bounds and laws that tests of privacy profiles compare with."""

import math

import mpmath as mp
from scipy import stats
from scipy.special import log_ndtr

from curvedp.privacy import gaussian_profile
from curvedp.privacy.loss.law import PrivacyLossLaw


def log_constant(d, s, D):
    """Return log K and the law of the loss, on hyperbolic space of dimension d.

    ρ(m + u) <= e^g·e^{−u²/2s²} with e^g = (1 − e^{−2m})^{−(d−1)}; K is e^g over ∫ρ,
    times s√2π.
    """
    law = gaussian_profile(-1.0, d, s, D).loss_law
    return -(d - 1) * math.log(-math.expm1(-2 * law.mode)) - law.log_mass + math.log(
        s * math.sqrt(2 * math.pi)
    ), law


def delta_lower_bound(mu, eps):
    """Return the log of φ(x)·μ/(y + √2)², which δ_μ(ε) is not below."""
    x, y = eps / mu - mu / 2, eps / mu + mu / 2
    return stats.norm.logpdf(x) + math.log(mu) - 2 * math.log(y + math.sqrt(2))


def first_that_holds(holds, low, high):
    """Return where a condition begins to hold between low and high, by bisection."""
    assert not holds(low)
    assert holds(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def one_minus_delta(mu, eps):
    """Return 1 − δ(ε) of μ-Gaussian DP, to 40 digits."""
    with mp.workdps(40):
        m, e = mp.mpf(mu), mp.mpf(float(eps))
        return mp.ncdf(e / m - m / 2) + mp.exp(e) * mp.ncdf(-e / m - m / 2)


class NormalLoss(PrivacyLossLaw):
    """Losses N(μ²/2, μ²), unbounded."""

    max_loss, loss_scale = math.inf, 0.0

    def __init__(self, mu):
        self.mu = self.loss_scale = mu

    def log_tails(self, t):
        return log_ndtr(self.mu / 2 - t / self.mu), log_ndtr(t / self.mu - self.mu / 2)
