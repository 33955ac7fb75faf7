"""Algorithms 1 and 2 of Jiang et al. (2023), which estimate the μ of Gaussian
differential privacy, as printed and corrected. They compare outputs drawn about two
neighboring centers η and η′ by the privacy loss L, the log-ratio of the two densities,
and δ(ε) is the smallest δ for which the two laws are (ε, δ)-close.

Both algorithms ESTIMATE μ and are here for reproduction and comparison. As printed,
they take a maximum over a grid of ε that leaves out 0 and ends at ε_max, so that they
are lower bounds at best (docs/errata.md, E2). Algorithm 1 uses a formula whose δ is too
small (E1). Algorithm 2 uses plain Monte Carlo, and the paper does not state its error:
`algorithm2_estimate` also returns the variance of its estimate l_ε of δ(ε), and in the
corrected form an upper confidence bound on μ. For a release use
`gaussian_profile(...).mu`, which is exact.
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

# A function of (rng, which, n) that returns n values of d(η′, y)² − d(η, y)², for y drawn
# about η (which = 0) or about η′ (which = 1).
LossSampler = Callable[[np.random.Generator, int, int], Array]

# The largest δ that μ is computed from; 1 would give an infinite μ.
_LARGEST_DELTA = 1 - 1e-15

# Exponents are cut here, so that e^x stays finite.
_LARGEST_EXPONENT = 300.0


def algorithm1_estimate(
    sigma: float, sensitivity: float, n_eps: int = 1000, *, corrected: bool = False
) -> float:
    """Return μ on the unit circle by Algorithm 1, the maximum of μ_ε over a grid of ε.

    μ_ε is the μ of the Gaussian profile that passes through (ε, δ(ε)).

    Parameters
    ----------
    sigma : float
        σ > 0, the scale of the Gaussian on the circle.
    sensitivity : float
        Δ in (0, π], the largest angle between neighboring centers.
    n_eps : int
        The number of values of ε.
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
    """The estimate of Algorithm 2, with its variance and an upper bound on μ.

    Attributes
    ----------
    mu : float
        The estimate of μ, the maximum over the grid.
    eps : array
        The grid of ε.
    delta : array
        l_ε, the estimate of δ at each ε.
    variance : array
        The estimated variance of l_ε. In the printed form, with p and q the shares of
        losses above ε about η and η′, it is (p(1 − p) + e^{2ε}q(1 − q))/nm; in the
        corrected form it is that of the mean of (1 − e^{ε−L})₊.
    mu_upper : float
        An upper bound on μ that holds with the stated confidence. It is infinite if
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

    The algorithm estimates δ(ε) by a number l_ε at each ε of a grid, and returns the
    largest μ of these points. As printed, l_ε = #{L ≥ ε}/n − e^ε·#{L′ ≥ ε}/n, averaged
    over m batches, on the grid {k, …, ε_max}; L and L′ are the losses of outputs drawn
    about η and about η′. In the corrected form l_ε is the mean of (1 − e^{ε−L})₊, which
    is unbiased and has the smallest variance, on the grid {0, …, ε_max}.

    Theorem (Maurer and Pontil 2009; Massart 1990). With probability
    1 − failure_probability over the samples, δ(ε) ≤ l_ε + ξ_ε at every point of the grid
    (`_confidence_width`), and so on the interval to its right. For ε ≥ `max_loss`, δ is
    0. Hyperbolic spaces have no largest loss; there δ(ε) ≤ K·e^{−z²/2}
    (docs/theory/exact-profiles.md, Theorem P2), with constants that are taken from
    `tail`.

    Parameters
    ----------
    sampler : callable
        Draws 2σ²·L, as `loss_sampler` returns it.
    sigma : float
        σ > 0, the scale of the Gaussian.
    eps_max : float
        The end of the grid of ε.
    rng : numpy.random.Generator
        The source of randomness.
    n, m : int
        The number of samples of a batch, and of batches.
    n_eps : int
        The number of values of ε.
    corrected : bool
        Whether to take the corrected form instead of the printed one.
    max_loss : float
        The largest loss that is possible.
    tail : ConstantCurvatureProfile, optional
        The `gaussian_profile` of the same law, for spaces without a largest loss.
    failure_probability : float
        The probability with which `mu_upper` may be below μ.

    Returns
    -------
    Algorithm2Estimate
        The estimate with its grid, its variances and its upper bound.

    Raises
    ------
    ParameterError
        If a sampled loss is not finite, or a parameter is out of its range.
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

    # The printed form, which counts losses on both sides.
    first_step = 0 if corrected else 1
    eps = eps_max * np.arange(first_step, n_eps + 1) / n_eps
    if not corrected:
        other_loss = _draw_losses(sampler, sigma, rng, 1, n, m)
        delta, variance = _counted_delta(loss, other_loss, eps)
        mu = _largest_mu(eps, delta)
        return Algorithm2Estimate(mu, eps, delta, variance, math.inf)

    # The corrected form, with a confidence bound on δ and so on μ.
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
    """Draw m batches of n privacy losses, as one sorted array.

    Parameters
    ----------
    sampler : callable
        Draws 2σ²·L.
    sigma : float
        σ, the scale of the Gaussian.
    rng : numpy.random.Generator
        The source of randomness.
    which : {0, 1}
        Whether outputs are drawn about η or about η′.
    n, m : int
        The number of samples of a batch, and of batches.
    """
    batches = [sampler(rng, which, n) for _ in range(m)]
    return np.sort(np.concatenate(batches) / (2 * sigma**2))


def _counted_delta(loss: Array, other: Array, eps: Array) -> tuple[Array, Array]:
    """Return the printed l_ε = p − e^ε·q and its variance.

    p and q are the shares of losses that are at least ε.

    Parameters
    ----------
    loss, other : array
        Losses of outputs drawn about η and about η′, each sorted.
    eps : array
        The grid of ε.

    Returns
    -------
    delta, variance : arrays
        l_ε, which may be negative, and its variance, one for each ε.
    """
    total = len(loss)
    p = 1 - np.searchsorted(loss, eps) / total
    q = 1 - np.searchsorted(other, eps) / total
    growth = np.exp(np.minimum(eps, _LARGEST_EXPONENT))
    variance = (p * (1 - p) + growth**2 * q * (1 - q)) / total
    return p - growth * q, variance


def _confidence_width(variance: Array, total: int, beta: float) -> Array:
    """Return ξ_ε with P(δ(ε) > l_ε + ξ_ε at some ε of the grid) ≤ β.

    l_ε is the estimate of δ(ε). The width is the smaller of two bounds, each of which
    fails with probability at most β/2. One is the empirical Bernstein bound (Maurer and
    Pontil 2009, Theorem 4) with β/2K at each of K values of ε. The other is the
    one-sided bound of Massart (1990) on the distribution function of the loss. It
    applies because l_ε is the mean of a monotone function of the loss with values in
    [0, 1].

    Parameters
    ----------
    variance : array
        The estimated variance of l_ε, one for each ε.
    total : int
        The number of losses.
    beta : float
        β.
    """
    log_term = math.log(4 * len(variance) / beta)
    sample_variance = variance * total / (total - 1)
    bernstein = np.sqrt(2 * sample_variance * log_term)
    bernstein = bernstein + 7 * log_term / (3 * (total - 1))
    uniform = math.sqrt(math.log(2 / beta) / (2 * total))
    return np.asarray(np.minimum(bernstein, uniform))


def _mu_with_largest_loss(
    eps: Array, bound: Array, eps_max: float, max_loss: float
) -> float:
    """Return an upper bound on μ where no loss exceeds a known one.

    δ decreases in ε, so its bound at a point of the grid holds up to the next point.
    From the largest loss on, δ is 0.

    Parameters
    ----------
    eps, bound : array
        The grid, and upper bounds on δ at its points.
    eps_max : float
        The end of the grid.
    max_loss : float
        The largest loss that is possible.
    """
    right_ends = np.append(eps[1:], eps_max)
    bound = np.where(eps < max_loss, np.minimum(bound, _LARGEST_DELTA), 0.0)
    return _largest_mu(np.minimum(right_ends, max_loss), bound)


def _mu_with_tail(
    eps: Array, bound: Array, eps_max: float, tail: ConstantCurvatureProfile
) -> float:
    """Return an upper bound on μ where a theorem bounds δ beyond the grid.

    Theorem P2 (docs/theory/exact-profiles.md) states δ(ε) ≤ K·e^{−z²/2} with
    z = (ε − drift)/s − s/2, where s is the limit of μ_ε for large ε. The result is the
    smallest μ, up to a factor of 1.001, for which the points of the grid are below the
    profile δ_μ and the theorem proves δ ≤ δ_μ for all ε beyond the grid.

    Parameters
    ----------
    eps, bound : array
        The grid, and upper bounds on δ at its points.
    eps_max : float
        The end of the grid.
    tail : ConstantCurvatureProfile
        The profile whose constants K, drift and s are taken.

    Returns
    -------
    float
        The bound; infinite if the grid ends too soon for the theorem.
    """
    # The bound on δ at the grid: that of the samples, or the theorem's if it is smaller.
    (log_k, drift), limit = tail._subgaussian_tail(), tail._limiting_mu
    z = np.maximum((eps - drift) / limit - limit / 2, 0.0)
    bound = np.minimum(bound, np.exp(np.minimum(log_k - z * z / 2, 0.0)))

    # The μ that the grid needs, raised until the theorem covers all larger ε.
    mu = max(_largest_mu(np.append(eps[1:], eps_max), bound), limit * (1 + 1e-9))
    while mu < math.inf and not tail._large_eps_are_proved(mu, eps_max):
        if mu**2 >= 2 * eps_max:
            return math.inf  # the grid ends too soon
        mu *= 1.001
    return mu


def _largest_mu(eps: Array, delta: Array) -> float:
    """Return the largest μ_ε of the points (ε, δ) with δ > 0; 0 if there is none.

    Parameters
    ----------
    eps, delta : array
        Values of ε, and δ or a bound on it at each; a δ near 1 is cut off just below 1.
    """
    is_positive = delta > 0
    delta = np.minimum(delta[is_positive], _LARGEST_DELTA)
    return float(np.max(gdp_mu(eps[is_positive], delta), initial=0.0))


def loss_sampler(
    curvature: float, dim: int, sigma: float, sensitivity: float
) -> LossSampler:
    """Return a sampler of losses on constant curvature, for `algorithm2_estimate`.

    A loss depends on the output y only through its distance r from the center and the
    angle φ at the center between y and the neighboring center. r is drawn from a table
    of 2¹⁶ values of its distribution function, which is good for estimates only.
    sin²(φ/2) has the law Beta((d − 1)/2, (d − 1)/2) and is drawn by its inverse.

    Parameters
    ----------
    curvature : float
        The sectional curvature of the space.
    dim : int
        d ≥ 2, the dimension of the space.
    sigma : float
        σ > 0, the scale of the Gaussian.
    sensitivity : float
        Δ > 0, the distance of the two centers.

    Returns
    -------
    callable
        A function of a generator, of 0 or 1 (about which center outputs are drawn), and
        of a number n: it returns n values of 2σ²·L = d(η′, y)² − d(η, y)².

    Examples
    --------
    >>> draw = loss_sampler(1.0, 2, 1.0, 0.5)
    >>> draw(np.random.default_rng(0), 0, 3).shape
    (3,)
    """
    # Measure lengths in units in which the curvature is −1, 0 or 1.
    root = math.sqrt(abs(curvature)) or 1.0
    sign = (curvature > 0) - (curvature < 0)
    dim = _validate.integer("dim", dim, 2)
    law = SpaceFormLoss("gaussian", sign, dim, sigma * root, sensitivity * root)
    offsets, cdf = _radial_table(law)
    shape = (dim - 1) / 2

    def sample(rng: np.random.Generator, which: int, n: int) -> Array:
        """Draw n values of d(η′, y)² − d(η, y)² for y about η, or about η′."""
        r = law.mode + np.interp(rng.random(n), cdf, offsets)
        squared_sine = betaincinv(shape, shape, rng.random(n))
        square = _squared_distance(sign, r, law.distance, squared_sine)
        difference = (square - r * r) / root**2
        # About η′ the roles are exchanged, by the isometry that swaps the centers.
        return np.asarray(difference if which == 0 else -difference)

    return sample


def _radial_table(law: SpaceFormLoss) -> tuple[Array, Array]:
    """Return a table of the distribution function of the distance r from the center.

    It is computed by the trapezoidal rule.

    Parameters
    ----------
    law : SpaceFormLoss
        The Gaussian law, with the mode of r.

    Returns
    -------
    offsets, cdf : arrays of shape (65536,)
        Values of r minus its mode, and the probabilities below them.
    """
    left, right = law._find_support_in(
        np.zeros(1),
        np.array([-law.mode]),
        np.array([law._largest_offset]),
        Direction.ALL,
    )
    offsets = np.linspace(left[0], right[0], 2**16)
    density = np.exp(law.log_rho(offsets))
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cdf /= cdf[-1]
    return offsets, cdf


def _squared_distance(
    sign: int, r: Array, distance: float, squared_sine: Array
) -> Array:
    """Return the squared third side of triangles with sides r and D about an angle φ.

    The third side c follows from the law of cosines in its half-angle form, whose terms
    do not cancel: sn²(c/2) = sn²((r − D)/2) + sn(r)·sn(D)·sin²(φ/2), where sn is the
    sine or the hyperbolic sine.

    Parameters
    ----------
    sign : {-1, 0, 1}
        The curvature.
    r : array
        One side.
    distance : float
        D, the other side.
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

    Both are sums over the losses above ε. Because losses are sorted, these are suffix
    sums, which one pass computes for all ε. The powers e^{−L} are computed as e^{b−L},
    where b is the largest loss. They are at least 1 and do not underflow.

    Parameters
    ----------
    loss : array
        Losses, sorted.
    eps : array
        The grid of ε.

    Returns
    -------
    mean, mean_square : arrays
        The estimate of δ(ε) and its second moment, one for each ε.
    """
    n = len(loss)
    first_above = np.searchsorted(loss, eps)

    def mean_above(values: Array) -> Array:
        """Return (1/n)·Σ of the values of the losses above each ε."""
        suffix_sums = np.append(np.cumsum(values[::-1])[::-1], 0.0)
        return np.asarray(suffix_sums[first_above] / n)

    base = max(float(loss[-1]), 0.0)
    with np.errstate(over="ignore"):
        powers = np.exp(np.minimum(base - loss, _LARGEST_EXPONENT))
        squares = np.exp(np.minimum(2 * (base - loss), _LARGEST_EXPONENT))

    # (1 − e^{ε−L})₊ and its square, with e^{ε−L} = e^{ε−b}·e^{b−L}.
    share_above = (n - first_above) / n
    shrink = np.exp(eps - base)
    mean = np.maximum(share_above - shrink * mean_above(powers), 0.0)
    mean_square = share_above - 2 * shrink * mean_above(powers)
    mean_square = mean_square + shrink**2 * mean_above(squares)
    return mean, np.maximum(mean_square, 0.0)
