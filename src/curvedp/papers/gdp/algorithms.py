"""Algorithms 1 and 2 of Jiang et al. (2023), as printed and corrected.

They ESTIMATE μ, for reproduction and comparison. As printed both take a maximum over a
grid of ε that leaves out 0 and ends at ε_max, so that they are lower bounds at best
(docs/errata.md, E2). Algorithm 1 uses a formula that is too small (E1), and Algorithm 2
plain Monte Carlo. The paper leaves the error of Algorithm 2 open: `algorithm2_estimate`
returns the variance of its l_ε, and its corrected form an upper confidence bound on μ.
For a release use `gaussian_profile(...).mu`, which is exact.
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

# A function of (rng, which, n): n values of d(η′, y)² − d(η, y)² for y drawn about η
# (which = 0) or about η′ (which = 1).
LossSampler = Callable[[np.random.Generator, int, int], Array]

# The largest δ that μ is computed from; 1 would give an infinite μ.
_LARGEST_DELTA = 1 - 1e-15

# Exponents are cut here, so that e^x stays finite.
_LARGEST_EXPONENT = 300.0


def algorithm1_estimate(
    sigma: float, sensitivity: float, n_eps: int = 1000, *, corrected: bool = False
) -> float:
    """Return μ on the unit circle by Algorithm 1, the maximum of μ_ε over a grid of ε.

    Parameters
    ----------
    sigma : float
        σ.
    sensitivity : float
        Δ ≤ π.
    n_eps : int
        Number of values of ε.
    corrected : bool
        The printed form takes h of Corollary 3.2.1 on {k, 2k, …, ε_max} with
        ε_max = πΔ/2σ². The corrected form takes the true δ, for ε from 0 on and below
        Δ(2π − Δ)/2σ².

    Examples
    --------
    >>> printed = algorithm1_estimate(2.0, 1.0)
    >>> printed <= algorithm1_estimate(2.0, 1.0, corrected=True)
    True
    """
    sigma = _validate.length("sigma", sigma)
    sensitivity = _validate.within(
        "sensitivity", sensitivity, 0.0, math.pi, open_low=True
    )
    n_eps = _validate.integer("n_eps", n_eps, 1)
    if corrected:
        eps_max = sensitivity * (2 * math.pi - sensitivity) / (2 * sigma**2)
        eps = np.linspace(0.0, eps_max, n_eps + 1)[:-1]
        delta_at = circle_gaussian_delta
    else:
        eps = math.pi * sensitivity / (2 * sigma**2) * np.arange(1, n_eps + 1) / n_eps
        delta_at = circle_gaussian_delta_printed
    delta = np.array([delta_at(sigma, sensitivity, float(e)) for e in eps])
    return _largest_mu(eps, delta)


@dataclass(frozen=True)
class Algorithm2Estimate:
    """What Algorithm 2 returns, and what it should say with it.

    Attributes
    ----------
    mu : float
        The estimate.
    eps : array
        The grid.
    delta : array
        l_ε, the estimate of δ at each ε.
    variance : array
        Of l_ε. As printed it is (p(1 − p) + e^{2ε}q(1 − q))/nm; in the corrected form
        that of the mean of (1 − e^{ε−L})₊.
    mu_upper : float
        An upper bound on μ that holds with the stated confidence. It is infinite where
        the samples cannot bound the tail.
    """

    mu: float
    eps: Array
    delta: Array
    variance: Array
    mu_upper: float


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
    """Return μ by Algorithm 2, from samples of the privacy loss L.

    As printed, l_ε = #{L ≥ ε}/n − e^ε·#{L′ ≥ ε}/n, averaged over m batches, on the grid
    {k, …, ε_max}. In the corrected form l_ε is the mean of (1 − e^{ε−L})₊, which is
    unbiased and has the smallest variance, on the grid {0, …, ε_max}.

    Theorem (Maurer and Pontil 2009; Massart 1990). With probability
    1 − failure_probability over the samples δ(ε) ≤ l_ε + ξ_ε at every point of the grid,
    and so on the interval to its right. From `max_loss` on, δ = 0. Hyperbolic spaces
    have no largest loss; there δ(ε) ≤ K·e^{−z²/2} (docs/theory/exact-profiles.md,
    Theorem P2), whose K is all that is taken from `tail`.

    Parameters
    ----------
    sampler : callable
        Draws losses, as `loss_sampler` returns it.
    sigma : float
        σ.
    eps_max : float
        The end of the grid.
    rng : numpy.random.Generator
        The source of randomness.
    n, m : int
        Samples of a batch, and batches.
    n_eps : int
        Number of values of ε.
    corrected : bool
        Which form.
    max_loss : float
        The largest loss there is.
    tail : ConstantCurvatureProfile, optional
        The `gaussian_profile` of the same law, where there is no largest loss.
    failure_probability : float
        Of `mu_upper`.

    Raises
    ------
    ParameterError
        If a sampled loss is not finite.
    """
    eps_max = _validate.positive("eps_max", eps_max)
    n = _validate.integer("n", n, 2)
    m = _validate.integer("m", m, 1)
    n_eps = _validate.integer("n_eps", n_eps, 1)
    beta = _validate.within(
        "failure_probability",
        failure_probability,
        0.0,
        1.0,
        open_low=True,
        open_high=True,
    )
    loss = _draw_losses(sampler, sigma, rng, 0, n, m)
    if not np.all(np.isfinite(loss)):
        raise ParameterError("the sampler gave a loss that is not finite")
    first_step = 0 if corrected else 1
    eps = eps_max * np.arange(first_step, n_eps + 1) / n_eps
    if not corrected:
        other = _draw_losses(sampler, sigma, rng, 1, n, m)
        delta, variance = _counted_delta(loss, other, eps)
        mu = _largest_mu(eps, delta)
        return Algorithm2Estimate(mu, eps, delta, variance, math.inf)

    delta, second_moment = _positive_parts(loss, eps)
    variance = np.maximum(second_moment - delta**2, 0.0) / len(loss)
    bound = delta + _confidence_width(variance, len(loss), beta)
    bound = np.minimum(bound, 1.0)
    mu_upper = math.inf
    if math.isfinite(max_loss) and eps_max >= max_loss:
        mu_upper = _mu_with_largest_loss(eps, bound, eps_max, max_loss)
    elif tail is not None:
        mu_upper = _mu_with_tail(eps, bound, eps_max, tail)
    return Algorithm2Estimate(_largest_mu(eps, delta), eps, delta, variance, mu_upper)


def _draw_losses(
    sampler: LossSampler,
    sigma: float,
    rng: np.random.Generator,
    which: int,
    n: int,
    m: int,
) -> Array:
    """Return m batches of n losses, sorted."""
    batches = [sampler(rng, which, n) for _ in range(m)]
    return np.sort(np.concatenate(batches) / (2 * sigma**2))


def _counted_delta(loss: Array, other: Array, eps: Array) -> tuple[Array, Array]:
    """Return the printed l_ε and its variance, from sorted losses of both neighbors."""
    total = len(loss)
    p = 1 - np.searchsorted(loss, eps) / total
    q = 1 - np.searchsorted(other, eps) / total
    growth = np.exp(np.minimum(eps, _LARGEST_EXPONENT))
    variance = (p * (1 - p) + growth**2 * q * (1 - q)) / total
    return p - growth * q, variance


def _confidence_width(variance: Array, total: int, beta: float) -> Array:
    """Return ξ_ε: an empirical Bernstein bound, or that of the distribution function."""
    share = math.log(2 * len(variance) / beta)
    bernstein = np.sqrt(2 * variance * total / (total - 1) * share)
    bernstein = bernstein + 7 * share / (3 * (total - 1))
    uniform = math.sqrt(math.log(2 / beta) / (2 * total))
    return np.asarray(np.minimum(bernstein, uniform))


def _mu_with_largest_loss(
    eps: Array, bound: Array, eps_max: float, max_loss: float
) -> float:
    """Return the bound on μ where δ is 0 from the largest loss on."""
    right_ends = np.append(eps[1:], eps_max)
    bound = np.where(eps < max_loss, np.minimum(bound, _LARGEST_DELTA), 0.0)
    return _largest_mu(np.minimum(right_ends, max_loss), bound)


def _mu_with_tail(
    eps: Array, bound: Array, eps_max: float, tail: ConstantCurvatureProfile
) -> float:
    """Return the bound on μ where a theorem bounds the tail beyond the grid."""
    (log_k, drift), limit = tail._subgaussian_tail(), tail._tail_mu
    z = np.maximum((eps - drift) / limit - limit / 2, 0.0)
    bound = np.minimum(bound, np.exp(np.minimum(log_k - z * z / 2, 0.0)))
    mu = max(_largest_mu(np.append(eps[1:], eps_max), bound), limit * (1 + 1e-9))
    while mu < math.inf and not tail._large_eps_are_proved(mu, eps_max):
        if mu**2 >= 2 * eps_max:
            return math.inf  # the grid ends too soon
        mu *= 1.001
    return mu


def _largest_mu(eps: Array, delta: Array) -> float:
    """Return the largest μ of the points (ε, δ) with δ > 0; 0 if there is none."""
    is_positive = delta > 0
    delta = np.minimum(delta[is_positive], _LARGEST_DELTA)
    return float(np.max(gdp_mu(eps[is_positive], delta), initial=0.0))


def loss_sampler(
    curvature: float, dim: int, sigma: float, sensitivity: float
) -> LossSampler:
    """Return a sampler of losses on constant curvature, for `algorithm2_estimate`.

    The radius is drawn from a table of 2¹⁶ values of its distribution function, which
    is good for estimates only. The angle is drawn by the inverse incomplete beta
    function.

    Parameters
    ----------
    curvature : float
        Of the space.
    dim : int
        Its dimension, at least 2.
    sigma : float
        σ.
    sensitivity : float
        Δ.

    Returns
    -------
    callable
        A function of a generator, 0 or 1, and a number of samples.

    Examples
    --------
    >>> draw = loss_sampler(1.0, 2, 1.0, 0.5)
    >>> draw(np.random.default_rng(0), 0, 3).shape
    (3,)
    """
    root = math.sqrt(abs(curvature)) or 1.0
    sign = (curvature > 0) - (curvature < 0)
    dim = _validate.integer("dim", dim, 2)
    law = SpaceFormLoss("gaussian", sign, dim, sigma * root, sensitivity * root)
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
    distance, shape = law.distance, (dim - 1) / 2

    def sample(rng: np.random.Generator, which: int, n: int) -> Array:
        r = law.mode + np.interp(rng.random(n), cdf, u)
        squared_sine = betaincinv(shape, shape, rng.random(n))  # sin²(φ/2)
        square = _squared_distance(sign, r, distance, squared_sine)
        difference = (square - r * r) / root**2
        return np.asarray(difference if which == 0 else -difference)

    return sample


def _squared_distance(
    sign: int, r: Array, distance: float, squared_sine: Array
) -> Array:
    """Return the squared third side of triangles with two sides r and d and an angle φ.

    Parameters
    ----------
    sign : {-1, 0, 1}
        The curvature.
    r : array
        One side.
    distance : float
        d.
    squared_sine : array
        sin²(φ/2).
    """
    if sign == 0:
        return (r - distance) ** 2 + 4 * r * distance * squared_sine
    if sign == 1:
        product = np.sin(r) * math.sin(distance)
        half_sine = np.sin((r - distance) / 2) ** 2 + product * squared_sine
        return np.asarray((2 * np.arcsin(np.sqrt(np.minimum(half_sine, 1.0)))) ** 2)
    product = np.sinh(r) * math.sinh(distance)
    half_sine = np.sinh((r - distance) / 2) ** 2 + product * squared_sine
    return np.asarray((2 * np.arcsinh(np.sqrt(half_sine))) ** 2)


def _positive_parts(loss: Array, eps: Array) -> tuple[Array, Array]:
    """Return the means of (1 − e^{ε−L})₊ and of its square, for sorted losses L.

    Sums over the losses above ε are suffix sums. With b the largest loss they are taken
    of e^{b−L} ≥ 1, which never underflows where it matters.
    """
    n = len(loss)
    first_above = np.searchsorted(loss, eps)

    def mean_above(values: Array) -> Array:
        suffix_sums = np.append(np.cumsum(values[::-1])[::-1], 0.0)
        return np.asarray(suffix_sums[first_above] / n)

    base = max(float(loss[-1]), 0.0)
    with np.errstate(over="ignore"):
        powers = np.exp(np.minimum(base - loss, _LARGEST_EXPONENT))
        squares = np.exp(np.minimum(2 * (base - loss), _LARGEST_EXPONENT))
    share_above = (n - first_above) / n
    shrink = np.exp(eps - base)
    mean = np.maximum(share_above - shrink * mean_above(powers), 0.0)
    mean_square = share_above - 2 * shrink * mean_above(powers)
    mean_square = mean_square + shrink**2 * mean_above(squares)
    return mean, np.maximum(mean_square, 0.0)
