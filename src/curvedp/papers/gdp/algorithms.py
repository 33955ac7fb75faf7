"""Algorithms 1 and 2 of Jiang et al. 2023, as printed and corrected, for reproduction and comparison: ESTIMATES of μ.

As printed both take a maximum over a grid of ε that leaves out 0 and ends at ε_max, so they are lower bounds at best
(E2); Algorithm 1 uses a formula that is too small (E1), Algorithm 2 plain Monte Carlo. The paper leaves the error of
Algorithm 2 open: `algorithm2_estimate` returns the variance of its l_ε, and the corrected form a confidence upper
bound on μ. For a release use `gaussian_profile(...).mu`, which is exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.papers.gdp.circle import (
    circle_gaussian_delta,
    circle_gaussian_delta_printed,
)
from curvedp.privacy.guarantees.gaussian import gdp_mu
from curvedp.privacy.loss.space_form import Direction, SpaceFormLoss
from curvedp.privacy.profiles.constant_curvature import ConstantCurvatureProfile

__all__ = [
    "Algorithm2Estimate",
    "algorithm1_estimate",
    "algorithm2_estimate",
    "loss_sampler",
]

Array = NDArray[np.float64]

# sampler(rng, which, n): n values of d(η′, y)² − d(η, y)² for y drawn about η (which = 0) or η′ (which = 1)
LossSampler = Callable[[np.random.Generator, int, int], Array]


def algorithm1_estimate(
    sigma: float, sensitivity: float, n_eps: int = 1000, *, corrected: bool = False
) -> float:
    """μ on the unit circle by Algorithm 1: the maximum of μ_ε over a grid of ε.

    Printed: h of Cor. 3.2.1 on {k, 2k, …, ε_max}, ε_max = πΔ/2σ². Corrected: the true δ, ε from 0 to Δ(2π−Δ)/2σ².

    >>> algorithm1_estimate(2.0, 1.0) <= algorithm1_estimate(2.0, 1.0, corrected=True)
    True
    """
    sigma = _validate.length("sigma", sigma)
    sensitivity = _validate.within(
        "sensitivity", sensitivity, 0.0, math.pi, open_low=True
    )
    n_eps = _validate.integer("n_eps", n_eps, 1)
    if corrected:
        eps = np.linspace(
            0.0, sensitivity * (2 * math.pi - sensitivity) / (2 * sigma**2), n_eps + 1
        )[:-1]
        delta = np.array(
            [circle_gaussian_delta(sigma, sensitivity, float(e)) for e in eps]
        )
    else:
        eps = math.pi * sensitivity / (2 * sigma**2) * np.arange(1, n_eps + 1) / n_eps
        delta = np.array(
            [circle_gaussian_delta_printed(sigma, sensitivity, float(e)) for e in eps]
        )
    return _max_mu(eps, delta)


@dataclass(frozen=True)
class Algorithm2Estimate:
    """What Algorithm 2 returns, and what it should say with it."""

    mu: float
    eps: Array
    delta: Array  # l_ε
    variance: Array  # of l_ε: (p(1−p) + e^{2ε}q(1−q))/nm as printed, that of (1 − e^{ε−L})₊ corrected
    mu_upper: float  # holds with the stated confidence; infinite where the samples cannot bound the tail


def algorithm2_estimate(
    sampler: LossSampler,
    sigma: float,
    eps_max: float,
    rng: np.random.Generator,
    *,
    n: int = 1000,
    n_eps: int = 1000,
    m: int = 100,
    corrected: bool = False,
    max_loss: float = math.inf,
    tail: ConstantCurvatureProfile | None = None,
    failure_probability: float = 0.01,
) -> Algorithm2Estimate:
    """μ by Algorithm 2: l_ε = #{L >= ε}/n − e^ε·#{L′ >= ε}/n averaged over m batches, on the grid {k, …, ε_max}.

    Corrected: l_ε = mean of (1 − e^{ε−L})₊, unbiased with the smallest variance, on the grid {0, …, ε_max}.
    `mu_upper`: with probability 1 − failure_probability over the samples, δ(ε) <= l_ε + ξ_ε at every grid point
    (Maurer and Pontil 2009; Massart 1990), hence on the interval to its right; from `max_loss` on δ = 0.
    On hyperbolic spaces the loss has no largest value: there `tail`, the `gaussian_profile` of the same law, lends its
    theorem on the tail, δ(ε) <= K·e^{−z²/2} (docs/theory/exact-profiles.md, Theorem P2), and nothing that was
    integrated but K. With neither it is infinite.
    """
    eps_max = _validate.positive("eps_max", eps_max)
    beta = _validate.within(
        "failure_probability",
        failure_probability,
        0.0,
        1.0,
        open_low=True,
        open_high=True,
    )
    n, m, n_eps = (
        _validate.integer("n", n, 2),
        _validate.integer("m", m, 1),
        _validate.integer("n_eps", n_eps, 1),
    )
    total = n * m
    loss = np.sort(
        np.concatenate([sampler(rng, 0, n) for _ in range(m)]) / (2 * sigma**2)
    )
    if not np.all(np.isfinite(loss)):
        raise ParameterError("the sampler gave a loss that is not finite")
    steps = np.arange(0 if corrected else 1, n_eps + 1)
    eps = eps_max * steps / n_eps
    if not corrected:
        other = np.sort(
            np.concatenate([sampler(rng, 1, n) for _ in range(m)]) / (2 * sigma**2)
        )
        p = 1 - np.searchsorted(loss, eps) / total
        q = 1 - np.searchsorted(other, eps) / total
        growth = np.exp(np.minimum(eps, 300.0))
        delta = p - growth * q
        variance = (p * (1 - p) + growth**2 * q * (1 - q)) / total
        return Algorithm2Estimate(_max_mu(eps, delta), eps, delta, variance, math.inf)
    delta, second = _positive_parts(loss, eps)
    variance = np.maximum(second - delta**2, 0.0) / total
    share = math.log(2 * len(eps) / beta)
    bernstein = np.sqrt(2 * variance * total / (total - 1) * share) + 7 * share / (
        3 * (total - 1)
    )
    bound = np.minimum(
        delta + np.minimum(bernstein, math.sqrt(math.log(2 / beta) / (2 * total))), 1.0
    )
    mu_upper = math.inf
    if math.isfinite(max_loss) and eps_max >= max_loss:
        right = np.append(eps[1:], eps_max)
        mu_upper = _max_mu(
            np.minimum(right, max_loss),
            np.where(eps < max_loss, np.minimum(bound, 1 - 1e-15), 0.0),
        )
    elif tail is not None:
        (log_k, drift), limit = tail._subgaussian_tail(), tail._tail_mu
        z = np.maximum((eps - drift) / limit - limit / 2, 0.0)
        bound = np.minimum(bound, np.exp(np.minimum(log_k - z * z / 2, 0.0)))
        mu_upper = max(_max_mu(np.append(eps[1:], eps_max), bound), limit * (1 + 1e-9))
        while mu_upper < math.inf and not tail._tail_is_closed(
            mu_upper, eps_max
        ):  # beyond the grid
            mu_upper = (
                mu_upper * 1.001 if mu_upper**2 < 2 * eps_max else math.inf
            )  # the grid ends too soon
    return Algorithm2Estimate(_max_mu(eps, delta), eps, delta, variance, mu_upper)


def _max_mu(eps: Array, delta: Array) -> float:
    good = delta > 0
    return float(
        np.max(gdp_mu(eps[good], np.minimum(delta[good], 1 - 1e-15)), initial=0.0)
    )


def loss_sampler(
    curvature: float, dim: int, sigma: float, sensitivity: float
) -> LossSampler:
    """Return an exact i.i.d. sampler for `algorithm2_estimate` on constant curvature.

    It needs dim >= 2. The radius is drawn from a fine table of its distribution, the angle
    from the inverse incomplete beta function; a table of 2^16 entries, for estimates only.
    """
    root = math.sqrt(abs(curvature)) or 1.0
    k = (curvature > 0) - (curvature < 0)
    law = SpaceFormLoss(
        "gaussian",
        k,
        _validate.integer("dim", dim, 2),
        sigma * root,
        sensitivity * root,
    )
    left, right = law._find_support_in(
        np.zeros(1),
        np.array([-law.mode]),
        np.array([law._largest_offset]),
        Direction.ALL,
    )
    u = np.linspace(left[0], right[0], 2**16)
    density = np.exp(law.log_rho(u))
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cdf /= cdf[-1]
    D, a = law.distance, (dim - 1) / 2

    def sample(rng: np.random.Generator, which: int, n: int) -> Array:
        r = law.mode + np.interp(rng.random(n), cdf, u)
        half = betaincinv(a, a, rng.random(n))  # sin²(φ/2)
        if k == 0:
            square = (r - D) ** 2 + 4 * r * D * half
        elif k == 1:
            square = (
                2
                * np.arcsin(
                    np.sqrt(
                        np.minimum(
                            np.sin((r - D) / 2) ** 2 + np.sin(r) * math.sin(D) * half,
                            1.0,
                        )
                    )
                )
            ) ** 2
        else:
            square = (
                2
                * np.arcsinh(
                    np.sqrt(
                        np.sinh((r - D) / 2) ** 2 + np.sinh(r) * math.sinh(D) * half
                    )
                )
            ) ** 2
        difference = (square - r * r) / root**2
        return np.asarray(difference if which == 0 else -difference)

    return sample


def _positive_parts(loss: Array, eps: Array) -> tuple[Array, Array]:
    """Means of (1 − e^{ε−L})₊ and of its square, from suffix sums over the sorted losses."""
    n = len(loss)
    first = np.searchsorted(loss, eps)

    def suffix(x: Array) -> Array:
        return np.append(np.cumsum(x[::-1])[::-1], 0.0)[first] / n

    base = max(
        float(loss[-1]), 0.0
    )  # e^{base − L} >= 1 never underflows where it matters
    with np.errstate(over="ignore"):
        one, two = (
            np.exp(np.minimum(base - loss, 300.0)),
            np.exp(np.minimum(2 * (base - loss), 300.0)),
        )
    count, shrink = (n - first) / n, np.exp(eps - base)
    mean = np.maximum(count - shrink * suffix(one), 0.0)
    return mean, np.maximum(
        count - 2 * shrink * suffix(one) + shrink**2 * suffix(two), 0.0
    )
