"""Draws of the log-eigenvalues of random positive definite matrices, by rejection. X is
Gaussian noise of scale σ about a center W, and ρ are the logarithms of the eigenvalues
of W^{−½}XW^{−½}; β is 1 for real symmetric and 2 for Hermitian m×m matrices. ρ is
proposed from a near or a far envelope, which is good for small or for large σ.

The density of ρ is ∝ exp(−|ρ|²/2σ²)·∏_{i<j} sinh(|ρᵢ−ρⱼ|/2)^β (Said et al. 2017). The
near envelope follows from a concavity, the far one from 2·sinh(x/2) = e^{x/2}(1 −
e^{−x}) (docs/theory/spd-gaussian.md). The acceptance probability of each is a ratio of
two normalizers, known from (m, σ) alone: the number of trials tells nothing about the
center W.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import scipy

from curvedp._validate import integer, positive
from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.laws.backend import Floats
from curvedp.laws.isotropic.envelope import radius_sampler
from curvedp.laws.isotropic.space import TwoPointHomogeneousSpace
from curvedp.laws.spd.normalizer import (
    dimension,
    log_far_acceptance,
    log_normalizer,
)
from curvedp.laws.spd.random_matrices import (
    MAX_TEMPORARY_ENTRIES,
    gaussian_eigenvalues,
)

# Below this acceptance probability a draw would cost more than 10^5 proposals. Such
# parameters are refused before sampling, by public numbers.
_SMALLEST_ACCEPTANCE = 1e-5

# Proposals of one batch, beyond the expected number that is needed: one batch usually
# suffices. Only the speed depends on them.
_SPARE_FRACTION = 1.05
_SPARE_PROPOSALS = 16

# A log-ratio may exceed 0 by rounding: 8 roundings of 2^-53 for each term of the sum, a
# term being at most |ρ| + 40 in size.
_ROUNDING_OF_TERM = 2.0**-50
_LARGEST_OTHER_TERM = 40


class Proposals(NamedTuple):
    """Proposed log-eigenvalues with the logarithms of target/envelope."""

    rho: Floats
    """Shape (n, m), each row in decreasing order wherever its ratio is positive."""
    log_ratio: Floats
    """Shape (n,); at most 0 up to rounding."""


class Envelope(Protocol):
    """A proposal distribution with an upper bound of target/proposal density."""

    @property
    def name(self) -> str:
        """The envelope's name, "near" or "far", by which `acceptance` lists it."""
        ...

    @property
    def log_acceptance(self) -> float:
        """The logarithm of the probability that a proposal is accepted."""
        ...

    def propose(self, rng: np.random.Generator, n: int) -> Proposals:
        """Return independent proposals of log-eigenvalues, and their log-ratios.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        n : int
            The number of proposals.

        Returns
        -------
        Proposals
            n rows of log-eigenvalues, with log(target/envelope) ≤ 0 for each.
        """
        ...


def sample_log_eigenvalues(
    rng: np.random.Generator, m: int, sigma: float, n: int, *, beta: int = 1
) -> Floats:
    """Return n draws of the log-eigenvalues ρ of a Gaussian matrix about its center.

    With the center W and a draw X, these are the logarithms of the eigenvalues of
    W^{−½}XW^{−½}. Their law does not depend on W.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    n : int
        The number of draws.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array of shape (n, m)
        One draw in each row, in decreasing order.
    """
    m = integer("m", m, 1)
    sigma = positive("sigma", sigma)
    n = integer("n", n, 0)
    if m == 1:
        return rng.normal(0.0, sigma, (n, 1))
    if m == 2:
        return _sample_two_log_eigenvalues(rng, sigma, n, beta)
    return rejection_sample(rng, best_envelope(m, sigma, beta), m, n)


def _sample_two_log_eigenvalues(
    rng: np.random.Generator, sigma: float, n: int, beta: int
) -> Floats:
    """Return n draws of the two log-eigenvalues of a Gaussian 2×2 matrix, shape (n, 2).

    The positive definite 2×2 matrices are ℝ × H^{1+β} with curvature −½: the center
    (ρ₁+ρ₂)/2 is normal, and half the gap is a hyperbolic radius divided by √2.

    Used for 2×2 matrices, because their law is known in closed form and needs no
    envelope.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    sigma : float
        The scale σ > 0.
    n : int
        The number of draws.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array, shape (n, 2)
        The log-eigenvalues, in decreasing order.
    """
    hyperbolic_space = TwoPointHomogeneousSpace(((-0.5, beta),))
    sampler = radius_sampler("gaussian", hyperbolic_space, sigma)
    center = rng.normal(0.0, sigma / math.sqrt(2), n)
    half_gap = sampler.draw(rng, n) / math.sqrt(2)
    return np.stack([center + half_gap, center - half_gap], axis=-1)


def rejection_sample(
    rng: np.random.Generator, envelope: Envelope, m: int, n: int
) -> Floats:
    """Return n accepted proposals of an envelope, shape (n, m), each row decreasing.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of proposals and of acceptance.
    envelope : Envelope
        Proposes log-eigenvalues with their log(target/envelope).
    m : int
        The size of the matrices.
    n : int
        The number of draws.

    Returns
    -------
    array, shape (n, m)
        The accepted proposals.

    Raises
    ------
    EnvelopeViolation
        If a ratio exceeds 1 by more than rounding explains.
    """
    # Propose in batches until enough proposals are accepted.
    acceptance_probability = math.exp(envelope.log_acceptance)
    largest_batch = max(1, MAX_TEMPORARY_ENTRIES // (m * m))
    batches: list[Floats] = []
    missing = n
    while missing > 0 or not batches:
        expected_trials = int(missing / acceptance_probability * _SPARE_FRACTION)
        expected_trials += _SPARE_PROPOSALS
        batch_size = min(largest_batch, expected_trials)
        rho, log_ratio = envelope.propose(rng, batch_size)
        _check_envelope(envelope, rho, log_ratio)

        # Minus an exponential variate is the logarithm of a uniform one.
        is_accepted = log_ratio > -rng.standard_exponential(batch_size)
        batches.append(rho[is_accepted][:missing])
        missing -= len(batches[-1])
    return np.concatenate(batches)


def _check_envelope(envelope: Envelope, rho: Floats, log_ratio: Floats) -> None:
    """Raise `EnvelopeViolation` if a target exceeds its envelope at a proposal.

    Called for every batch of proposals: with a wrong envelope, draws would follow
    another law.

    Parameters
    ----------
    envelope : Envelope
        The envelope, for the message.
    rho : array, shape (n, m)
        Proposed log-eigenvalues.
    log_ratio : array, shape (n,)
        log(target/envelope) at them, which may exceed 0 by rounding.
    """
    # The ratio is a sum with one term per pair, each about |ρ| in size.
    m = rho.shape[1]
    largest_term = np.max(np.abs(rho), initial=0.0) + _LARGEST_OTHER_TERM
    rounding = m * m * largest_term * _ROUNDING_OF_TERM
    if not np.all(log_ratio <= rounding):
        raise EnvelopeViolation(f"log ratio {np.max(log_ratio)!r} > 0 for {envelope!r}")


def acceptance(m: int, sigma: float, beta: int = 1) -> dict[str, float]:
    """Return the probability with which proposals of each envelope are accepted.

    It is exact and depends on public numbers only.

    Parameters
    ----------
    m : int
        The size of the matrices, at least 2.
    sigma : float
        The scale σ > 0.
    beta : {1, 2}
        Symmetric or Hermitian.

    Returns
    -------
    dict
        The probability by the name of the envelope.
    """
    m = integer("m", m, 2)
    sigma = positive("sigma", sigma)
    envelopes = _envelopes(m, sigma, beta)
    return {envelope.name: math.exp(envelope.log_acceptance) for envelope in envelopes}


@lru_cache(maxsize=64)
def _envelopes(m: int, sigma: float, beta: int) -> tuple[Envelope, ...]:
    """Return the envelopes of the Gaussian law that `best_envelope` chooses from.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    tuple of Envelope
        The near and the far one.
    """
    return (NearEnvelope.tightest(m, sigma, beta), FarEnvelope(m, sigma, beta))


def best_envelope(m: int, sigma: float, beta: int = 1) -> Envelope:
    """Return the envelope of the Gaussian that accepts most proposals.

    Parameters
    ----------
    m : int
        The size of the matrices, at least 2.
    sigma : float
        The scale σ > 0.
    beta : {1, 2}
        Symmetric or Hermitian.

    Returns
    -------
    Envelope
        The near or the far envelope.

    Raises
    ------
    ParameterError
        If even the best envelope would take more than 10^5 trials for one draw.
    """
    near = NearEnvelope.tightest(m, sigma, beta)
    # This lower bound needs no normalizer, which for tiny σ would take many digits.
    if near.log_acceptance_bound > math.log(0.5):
        return near
    return most_accepting(_envelopes(m, sigma, beta), f"sigma={sigma!r} with m={m}")


def most_accepting(envelopes: Sequence[Envelope], parameters: str) -> Envelope:
    """Return the envelope that accepts most.

    Parameters
    ----------
    envelopes : sequence of Envelope
        The candidates.
    parameters : str
        The parameters in words, for the error message.

    Returns
    -------
    Envelope
        One of the candidates.

    Raises
    ------
    ParameterError
        If even the best envelope would take more than 10^5 trials for one draw.
    """
    best = max(envelopes, key=_log_acceptance)
    if best.log_acceptance < math.log(_SMALLEST_ACCEPTANCE):
        raise ParameterError(
            f"{parameters}: the best envelope accepts "
            f"{math.exp(best.log_acceptance):.1e} of its proposals; use SPDLogEuclidean"
            " or noise in a chart (the log-map Gaussian), which need no rejection"
        )
    return best


def _log_acceptance(envelope: Envelope) -> float:
    """Return the log-probability that a proposal is accepted: a key for `max`."""
    return envelope.log_acceptance


@dataclass(frozen=True)
class NearEnvelope:
    """Eigenvalues of a Gaussian matrix: good where σ is small.

    The function φ(y) = log(sinh √y/√y) is concave, so every tangent bounds it:
    log(sinh x/x) ≤ a + b·x². With x = (ρᵢ−ρⱼ)/2 summed over the pairs, the bound is a
    Gaussian matrix whose traceless part has the variance s² = 1/(1/σ² − βbm/2) in place
    of σ²; the trace keeps the scale σ.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ of the target.
    tangent : float
        The x where the tangent touches; every x > 0 gives a valid envelope.
    beta : {1, 2}
        Real symmetric or Hermitian matrices.
    """

    m: int
    sigma: float
    tangent: float
    beta: int = 1
    name: str = "near"

    @staticmethod
    def tightest(m: int, sigma: float, beta: int = 1) -> "NearEnvelope":
        """Return the near envelope whose tangent gives the largest acceptance.

        The tangent touches log(sinh x/x) at some x, and the envelope is a Gaussian
        matrix whose traceless part has the scale s. The best x is the root mean square
        of half a difference of eigenvalues under the envelope itself: s²(½ + βm/4) =
        x². With the s of the class docstring this is 1/2x² + βm·coth(x)/4x = 1/σ²,
        whose left side decreases from ∞ to 0.

        Parameters
        ----------
        m : int
            The size of the matrices.
        sigma : float
            The scale σ > 0.
        beta : {1, 2}
            1 for real symmetric, 2 for Hermitian matrices.

        Returns
        -------
        NearEnvelope
            The envelope.
        """

        def log_excess(log_x: float) -> float:
            """Return the log of the left side minus that of the right side, at x."""
            x = math.exp(log_x)
            left_side = 0.5 / (x * x) + beta * m / (4 * x * math.tanh(x))
            return math.log(left_side) + 2 * math.log(sigma)

        # 1/x ≤ coth x ≤ 1 + 1/x gives the two ends of a bracket.
        low = math.log(sigma * math.sqrt((beta * m + 2) / 4))
        high = math.log(
            sigma * math.sqrt((beta * m + 2) / 2) + sigma * sigma * beta * m
        )
        # The margin of 1e-9 covers round-off where the lower end is the root.
        root = scipy.optimize.brentq(log_excess, low - 1e-9, high, xtol=1e-12)
        return NearEnvelope(m, sigma, math.exp(root), beta)

    @property
    def _slope(self) -> float:
        """The slope b of the tangent a + b·x² of log(sinh x/x), in x²."""
        return _langevin_function(self.tangent) / (2 * self.tangent)

    @property
    def _scale(self) -> float:
        """The scale s of the traceless part of the envelope: 1/s² = 1/σ² − βbm/2.

        σ is the scale of the target, b the slope of the tangent, m the size of the
        matrices, and β = 1 for real symmetric and 2 for Hermitian ones.
        """
        return 1 / math.sqrt(1 / self.sigma**2 - self.beta * self._slope * self.m / 2)

    @property
    def _intercept(self) -> float:
        """The intercept a of the tangent a + b·x² of log(sinh x/x), at x = 0."""
        return float(log_sinhc(self.tangent)) - self._slope * self.tangent**2

    @property
    def log_acceptance_bound(self) -> float:
        """A lower bound of `log_acceptance` that needs no normalizer.

        Since sinh x/x ≥ 1, the mass of the target is at least that of the flat
        Gaussian. With d the dimension, s the scale of the traceless part and a the
        intercept of the tangent, the bound is (d − 1)·log(σ/s) − a·(d − m).
        """
        dim = dimension(self.m, self.beta)
        log_scale_ratio = (dim - 1) * math.log(self.sigma / self._scale)
        return log_scale_ratio - self._intercept * (dim - self.m)

    @property
    def log_acceptance(self) -> float:
        """The log-probability log(Z(target)/Z(envelope)) that a proposal is accepted.

        A flat Gaussian of scale s in dimension d has the mass (2πs²)^{d/2}; here one of
        the d directions, the trace, has the scale σ. The envelope is e^{a·(d − m)}
        times that mass, with a the intercept of the tangent.
        """
        dim = dimension(self.m, self.beta)
        log_flat_mass = (
            0.5 * dim * math.log(2 * math.pi)
            + (dim - 1) * math.log(self._scale)
            + math.log(self.sigma)
        )
        log_target_mass = log_normalizer(self.m, self.sigma, self.beta)
        return log_target_mass - log_flat_mass - self._intercept * (dim - self.m)

    def propose(self, rng: np.random.Generator, n: int) -> Proposals:
        """Return n proposals of log-eigenvalues, and their log-ratios to the target.

        The proposals ρ are eigenvalues of a Gaussian random matrix. With x = (ρᵢ−ρⱼ)/2
        and the tangent a + b·x² of log(sinh x/x), log(target/envelope) is β·Σ_{i<j}
        (log(sinh x/x) − a − b·x²), β = 1 for symmetric and 2 for Hermitian matrices.

        The log-ratio must not be positive; `rejection_sample` raises
        `EnvelopeViolation` otherwise.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        n : int
            The number of proposals.

        Returns
        -------
        Proposals
            n rows of m log-eigenvalues each, and their log-ratios.
        """
        # The eigenvalues. Their mean is drawn separately, because it has another scale.
        m = self.m
        rho = gaussian_eigenvalues(rng, n, m, self.beta) * self._scale
        mean = rng.normal(0.0, self.sigma / math.sqrt(m), (n, 1))
        rho += mean - rho.mean(axis=1, keepdims=True)

        # The log-ratio: one column for each pair i < j of eigenvalues.
        i, j = np.triu_indices(m, 1)
        x = (rho[:, i] - rho[:, j]) / 2
        tangent = self._intercept + self._slope * x * x
        log_ratio = self.beta * np.sum(log_sinhc(x) - tangent, axis=1)
        return Proposals(rho, log_ratio)


@dataclass(frozen=True)
class FarEnvelope:
    """Drifted normals N(βσ²h, σ²I), hᵢ = (m+1−2i)/2: good where σ is large.

    The target has the density ∝ exp(−|ρ|²/2σ²)·∏_{i<j} (2·sinh((ρᵢ−ρⱼ)/2))^β on
    decreasing ρ. Since 2·sinh(x/2) = e^{x/2}(1 − e^{−x}), the product is e^{β⟨h, ρ⟩}
    times ∏ (1 − e^{−(ρᵢ−ρⱼ)})^β. Completing the square turns the first factor into the
    drift βσ²h of the proposals. The second is at most 1, and is the probability with
    which a decreasing proposal is accepted.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ.
    beta : {1, 2}
        Real symmetric or Hermitian matrices.
    """

    m: int
    sigma: float
    beta: int = 1
    name: str = "far"

    @property
    def log_acceptance(self) -> float:
        """The log-probability that a proposal is accepted, by a Pfaffian or a product.

        The normalizer of the target is the envelope's mass times this probability.
        """
        return log_far_acceptance(self.m, self.sigma, self.beta)

    def propose(self, rng: np.random.Generator, n: int) -> Proposals:
        """Return n proposals of log-eigenvalues, and their log-ratios to the target.

        With the scale σ, the size m and hᵢ = (m+1−2i)/2, the proposals are ρ ~ N(βσ²h,
        σ²I), where β is 1 for symmetric and 2 for Hermitian matrices.

        The log-ratio must not be positive; `rejection_sample` raises
        `EnvelopeViolation` otherwise.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        n : int
            The number of proposals.

        Returns
        -------
        Proposals
            n rows of m log-eigenvalues each, and their log-ratios.
        """
        sigma = self.sigma
        drift = self.beta * sigma * sigma * (self.m - 1 - 2 * np.arange(self.m)) / 2
        rho = drift + sigma * rng.standard_normal((n, self.m))
        return Proposals(rho, far_envelope_log_ratio(rho, self.beta))


def far_envelope_log_ratio(rho: Floats, beta: int) -> Floats:
    """Return log(target/envelope) of the far envelope at proposed log-eigenvalues.

    At the log-eigenvalues ρ it is β·Σ_{i<j} log(1 − e^{−(ρᵢ−ρⱼ)}), by the identity of
    `FarEnvelope`.

    Parameters
    ----------
    rho : array, shape (n, m)
        Proposed log-eigenvalues ρ, one proposal in each row.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array, shape (n,)
        −∞ where a row is not decreasing.
    """
    i, j = np.triu_indices(rho.shape[1], 1)
    gaps = rho[:, i] - rho[:, j]
    is_decreasing = np.all(gaps > 0, axis=1)
    log_ratio = np.full(len(rho), -np.inf)
    log_factors = np.log(-np.expm1(-gaps[is_decreasing]))
    log_ratio[is_decreasing] = beta * np.sum(log_factors, axis=1)
    return log_ratio


def _langevin_function(x: float) -> float:
    """Return Langevin's function coth x − 1/x, which is the slope of log(sinh x/x).

    Up to x = 0.03, where the difference would lose digits, it is the power series
    x/3 − x³/45 + 2x⁵/945.

    Parameters
    ----------
    x : float
        A number > 0.

    Returns
    -------
    float
        A number from 0 to 1.
    """
    if x > 0.03:  # below, the next term of the series is below 1e-12, relatively
        return 1 / math.tanh(x) - 1 / x
    return x / 3 - x**3 / 45 + 2 * x**5 / 945


def log_sinhc(x: Floats | float) -> Floats:
    """Return log(sinh x/x) for x ≥ 0 without overflow, to a few ulp of 1 + x.

    Near 0 it is the power series x²/6 − x⁴/180 + x⁶/2835.

    Parameters
    ----------
    x : array
        Numbers x >= 0.

    Returns
    -------
    Floats
        One number for each x.
    """
    x = np.asarray(x)
    is_large = x > 1e-2  # below, the next term of the series is below 1e-18

    # Use the closed form away from 0.
    safe_x = np.where(is_large, x, 1.0)
    closed_form = safe_x + np.log(-np.expm1(-2 * safe_x) / (2 * safe_x))

    # Use the series near 0.
    square = x * x
    series = square / 6 - square * square / 180 + square**3 / 2835
    return np.where(is_large, closed_form, series)
