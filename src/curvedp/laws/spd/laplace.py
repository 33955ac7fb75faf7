"""Laplace noise on positive definite matrices, with the density ∝ exp(−d/σ) in the
affine-invariant distance d from a center. β is 1 for real symmetric and 2 for Hermitian
m×m matrices. The noise is a mixture of Gaussians of random variance τ; its
log-eigenvalues ρ are proposed from an envelope and accepted with the probability
density/envelope.

With a = 1/σ and hᵢ = (m+1−2i)/2 the law exists for a > β|h|. The integrals over the
variance have closed forms, and the envelope is a near or a far one
(docs/theory/laws.md, Laplace on matrices).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.laws.backend import Floats, LawBackend
from curvedp.laws.isotropic.density import log_sphere_area
from curvedp.laws.spd.envelopes import (
    Envelope,
    Proposals,
    far_envelope_log_ratio,
    log_sinhc,
    most_accepting,
    rejection_sample,
)
from curvedp.laws.spd.normalizer import (
    dimension,
    log_far_acceptance,
    log_volume_constant,
    radial_cdf,
    volume_growth_rate,
)
from curvedp.laws.spd.random_matrices import gaussian_eigenvalues, random_congruence

# The mixture is summed until its weights are below e^-45 of the largest.
_MAX_LOG_DROP = 45.0

# Weights of the mixture that contribute to a distribution function, which is accurate
# to 1e-7.
_SMALLEST_WEIGHT = 1e-9

# Largest distance of a draw from its footpoint. Eigenvalues are a factor of e^{√2·r}
# apart, and beyond 2^52 dense float64 matrices lose the small ones.
_LARGEST_RADIUS = 25.0


@dataclass(frozen=True)
class SPDLaplace(LawBackend):
    """Density ∝ exp(−d(X, W)/σ) on affine-invariant SPD or HPD matrices.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        Real symmetric or Hermitian matrices.
    scale : float
        The scale σ > 0 of the law.

    Raises
    ------
    NotIntegrable
        If the density has infinite mass, or its tail decays too slowly for float64.
    """

    m: int
    beta: int
    scale: float

    def __post_init__(self) -> None:
        """Refuse a scale at which the density has infinite mass, or nearly so."""
        growth_rate = volume_growth_rate(self.m, self.beta)
        # The margin of 2^-40 keeps digits in `tail_rate`, the difference of the decay
        # 1/scale of the density and the growth rate of the volume.
        if not self.scale * growth_rate < 1 - 2.0**-40:
            raise NotIntegrable(
                f"is too large: exp(−d/scale) has infinite mass on matrices of size "
                f"{self.m} unless scale < {1 / growth_rate:.6g}",
                parameter="scale",
                value=self.scale,
            )

    @property
    def tail_rate(self) -> float:
        """The rate a − β|h| at which the tail of the distance d to the center falls.

        P(d > r) is of the order e^{−(a−β|h|)r}. a = 1/σ is the decay of the density,
        and β|h| the growth of the volume (`volume_growth_rate`).
        """
        return 1 / self.scale - volume_growth_rate(self.m, self.beta)

    @property
    def mixing_rate(self) -> float:
        """The rate c = (a² − β²|h|²)/2 of the Gamma law of the far envelope's variance.

        a = 1/σ is the decay of the density, and β|h| the growth rate of the volume. A
        Laplace law is a mixture of Gaussians of random variance.
        """
        a = 1 / self.scale
        growth_rate = volume_growth_rate(self.m, self.beta)  # β|h|
        return (a - growth_rate) * (a + growth_rate) / 2

    @property
    def log_normalizer(self) -> float:
        """log ∫ exp(−d(X, W)/σ) dvol(X), from the mass of the mixture of Gaussians.

        σ is the scale of the law.
        """
        log_mixing = (self.m - 1) / 2 * math.log(2 * math.pi) - math.log(self.scale)
        log_mass = _gaussian_mixture(self).log_mass
        return log_volume_constant(self.m, self.beta) + log_mixing + log_mass

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return the probability P(d ≤ r) that a draw is at most r from the center.

        The law is a mixture of Gaussians, so that it is the average of their
        distribution functions. The error is below 1e-7.

        Parameters
        ----------
        r : array_like
            Distances from the center.

        Returns
        -------
        array
            Probabilities, of the shape of `r`.
        """
        mixture = _gaussian_mixture(self)
        is_heavy = mixture.weights > _SMALLEST_WEIGHT
        gaussian_cdfs = [
            radial_cdf(self.m, math.sqrt(variance), r, self.beta)
            for variance in mixture.variances[is_heavy].tolist()
        ]
        weights = mixture.weights[is_heavy]
        return np.asarray(np.average(gaussian_cdfs, axis=0, weights=weights))

    def moment(self, order: int) -> float:
        """Return E[d] or E[d²], d the distance of a draw from its center.

        The law is a mixture of Gaussians with a random variance τ. With a = 1/scale,
        E[d] = aE[τ] − 1/a and E[d²] = a²E[τ²] − 3E[τ]. Both follow from derivatives,
        with respect to a, of the normalizer ∫exp(−a·d) dvol. Other orders are not
        supported.

        Parameters
        ----------
        order : int
            1 for E[d], 2 for E[d²].

        Returns
        -------
        float
            The moment.
        """
        mixture = _gaussian_mixture(self)
        mean = float(mixture.weights @ mixture.variances)
        if order == 1:
            return mean / self.scale - self.scale
        mean_square = float(mixture.weights @ mixture.variances**2)
        return mean_square / self.scale**2 - 3 * mean

    def check_representable(self) -> None:
        """Raise `ParameterError` if dense float64 matrices cannot hold the draws.

        A matrix too far from its center would lose its smallest eigenvalues. Fewer than
        one draw in 10¹² may be that far.
        """
        # The distance over which the tail falls by 2^-40, which is about 1e-12.
        tail_length = 40 * math.log(2.0) / self.tail_rate
        if self.moment(1) + tail_length > _LARGEST_RADIUS:
            raise ParameterError(
                "is too large: dense matrices lose small eigenvalues; use a smaller "
                "scale",
                parameter="scale",
                value=self.scale,
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` matrices about the center: log-eigenvalues and a random frame.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array
            One footpoint, or one for each draw.
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, *point_shape)
            The draws.
        """
        if self.m == 1:
            rho = rng.laplace(0.0, self.scale, (count, 1))
        else:
            rho = rejection_sample(rng, best_laplace_envelope(self), self.m, count)
        return random_congruence(rng, center, rho, self.beta)


class GaussianMixture(NamedTuple):
    """A Laplace law as a finite mixture of Gaussians."""

    variances: Floats
    """The variances τ of the Gaussians."""
    weights: Floats
    """Their probabilities, of sum 1."""
    log_mass: float
    """The logarithm of the integral over τ."""


@lru_cache(maxsize=64)
def _gaussian_mixture(law: SPDLaplace) -> GaussianMixture:
    """Return a Laplace law on matrices as a finite mixture of Gaussian laws.

    The law is an integral of Gaussians over their variance τ, computed by the
    trapezoidal rule in log τ. With k = (m+1)/2 (`shape` in the code) and c the mixing
    rate (`rate`), the integrand is

        τ^k·e^{−cτ}·P(a proposal of `FarEnvelope` with the variance τ is accepted).

    It is analytic for |Im log τ| < π/2 and grows there at most like
    e^{dim·(Im log τ)²/2}. This also holds if a distribution function multiplies it. So
    the rule errs by the larger of e^{−2π·1.5/step} and e^{−2π²/(dim·step²)}.

    tests/laws/spd/test_laplace.py compares its mass and moments with quadrature.

    Parameters
    ----------
    law : SPDLaplace
        The Laplace law; τ is the variance of the Gaussians.

    Returns
    -------
    GaussianMixture
        The variances with their weights, and the logarithm of the integral.
    """
    shape = (law.m + 1) / 2
    rate = law.mixing_rate
    central_variance = shape / rate  # where the mixing density has its peak
    step = min(0.25, 0.9 / math.sqrt(dimension(law.m, law.beta)))

    def log_integrand(node: int) -> float:
        """Return the log-integrand at log τ = log(central variance) + node·step."""
        log_tau = math.log(central_variance) + node * step
        log_weight = shape * log_tau - rate * math.exp(log_tau)
        return log_weight + log_far_acceptance(law.m, math.exp(log_tau / 2), law.beta)

    # The variances, and their weights in the sum.
    log_values = _values_until_negligible(log_integrand)
    nodes = np.array(sorted(log_values))
    values = np.array([log_values[node] for node in nodes.tolist()])
    log_sum = float(logsumexp(values))
    return GaussianMixture(
        variances=central_variance * np.exp(step * nodes),
        weights=np.exp(values - log_sum),
        log_mass=log_sum + math.log(step),
    )


def _values_until_negligible(log_integrand: Callable[[int], float]) -> dict[int, float]:
    """Return the log-integrand at the nodes …, −1, 0, 1, … where it is not negligible.

    Parameters
    ----------
    log_integrand : callable
        Maps the number of a node to the logarithm of the integrand there.

    Returns
    -------
    dict
        The values by the number of the node. They end on either side with the first
        value that is e^−45 of the largest, or less.
    """
    log_values = {0: log_integrand(0)}
    for direction in (1, -1):
        node = 0
        while log_values[node] > max(log_values.values()) - _MAX_LOG_DROP:
            node += direction
            log_values[node] = log_integrand(node)
    return log_values


@lru_cache(maxsize=64)
def best_laplace_envelope(law: SPDLaplace) -> Envelope:
    """Return the envelope of a Laplace law that accepts most proposals, for m ≥ 2.

    Parameters
    ----------
    law : SPDLaplace
        The Laplace law.

    Returns
    -------
    Envelope
        The near or the far envelope.

    Raises
    ------
    ParameterError
        If even the best envelope would take more than 10^5 trials for one draw.
    """
    envelopes = (NearLaplaceEnvelope(law), FarLaplaceEnvelope(law))
    return most_accepting(envelopes, f"scale={law.scale!r} with m={law.m}")


@dataclass(frozen=True)
class NearLaplaceEnvelope:
    """A uniform direction with a length from Gamma(dim, a − β|h|): good for small σ.

    Let ρ be the log-eigenvalues and hᵢ = (m+1−2i)/2. Since sinh x/x ≤ eˣ, the volume
    factor ∏ sinhc((ρᵢ−ρⱼ)/2)^β is at most e^{β⟨h, ρ⟩} ≤ e^{β|h||ρ|}. The eigenvalues of
    a Gaussian matrix give the direction.

    Parameters
    ----------
    law : SPDLaplace
        The law; a = 1/σ is its decay, and β|h| the growth rate of the volume.
    name : str
        The name of the envelope in messages.
    """

    law: SPDLaplace
    name: str = "near"

    @property
    def log_acceptance(self) -> float:
        """The log-probability that a proposal is accepted: log(Z(target)/Z(envelope)).

        The envelope has the density e^{−(a − β|h|)r} in dimension d, with a = 1/σ,
        hence the mass (area of the unit sphere)·Γ(d)/(a − β|h|)^d.

        β|h| is the growth rate of the volume (`volume_growth_rate`) and σ the scale.
        """
        dim = dimension(self.law.m, self.law.beta)
        log_rate_power = dim * math.log(self.law.tail_rate)
        log_envelope_mass = log_sphere_area(dim) + math.lgamma(dim) - log_rate_power
        return self.law.log_normalizer - log_envelope_mass

    def propose(self, rng: np.random.Generator, n: int) -> Proposals:
        """Return n proposals of log-eigenvalues, and their log-ratios to the target.

        A proposal ρ has the direction of the eigenvalues of a Gaussian matrix and a
        length with a Gamma law. With sinhc x = sinh x/x and hᵢ = (m+1−2i)/2,
        log(target/envelope) is β·Σ_{i<j} log sinhc((ρᵢ−ρⱼ)/2) minus its bound β|h||ρ|.

        β is 1 for real symmetric and 2 for Hermitian matrices.

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
        # The proposals: a direction and a length.
        m = self.law.m
        beta = self.law.beta
        rho = gaussian_eigenvalues(rng, n, m, beta)
        lengths = rng.standard_gamma(dimension(m, beta), n) / self.law.tail_rate
        rho *= (lengths / np.linalg.norm(rho, axis=1))[:, None]

        # Their log-ratios: one column for each pair i < j of eigenvalues.
        i, j = np.triu_indices(m, 1)
        log_volume = beta * np.sum(log_sinhc((rho[:, i] - rho[:, j]) / 2), axis=1)
        log_bound = volume_growth_rate(m, beta) * lengths
        return Proposals(rho, log_volume - log_bound)


@dataclass(frozen=True)
class FarLaplaceEnvelope:
    """Drifted normals of a random variance τ ~ Gamma((m+1)/2, c): good for large σ.

    Parameters
    ----------
    law : SPDLaplace
        The law; c is its `mixing_rate`.
    name : str
        The name of the envelope in messages.
    """

    law: SPDLaplace
    name: str = "far"

    @property
    def log_acceptance(self) -> float:
        """The log-probability that a proposal is accepted, averaged over variances τ.

        τ has the Gamma law of shape (m+1)/2 and rate c; `_gaussian_mixture` has
        integrated the acceptance against its density without the constant
        c^{(m+1)/2}/Γ((m+1)/2).
        """
        shape = (self.law.m + 1) / 2
        log_mass = _gaussian_mixture(self.law).log_mass
        return log_mass + shape * math.log(self.law.mixing_rate) - math.lgamma(shape)

    def propose(self, rng: np.random.Generator, n: int) -> Proposals:
        """Return n proposals of log-eigenvalues, and their log-ratios to the target.

        The proposals are ρ ~ N(βτh, τI) of random variances τ, with hᵢ = (m+1−2i)/2.
        Their log(target/envelope) is β·Σ_{i<j} log(1 − e^{−(ρᵢ−ρⱼ)}).

        β is 1 for real symmetric and 2 for Hermitian matrices.

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
        m = self.law.m
        beta = self.law.beta
        tau = rng.standard_gamma((m + 1) / 2, (n, 1)) / self.law.mixing_rate
        drift = tau * beta * (m - 1 - 2 * np.arange(m)) / 2
        rho = drift + np.sqrt(tau) * rng.standard_normal((n, m))
        return Proposals(rho, far_envelope_log_ratio(rho, beta))
