"""The affine-invariant Laplace law on SPD (β = 1) and HPD (β = 2) matrices, density ∝ exp(−d(X, W)/σ), as a mixture.

It is a mixture of the Gaussians of `spd_gaussian` of variances τ, whose integrals are closed; with hᵢ = (m+1−2i)/2 it
exists for 1/σ > β|h|. The log-eigenvalues are drawn by rejection from a far and a near envelope (docs/laws.md, Laplace on
matrices).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.laws.radial import Engine, Floats, log_sphere_area
from curvedp.laws.spd_gaussian import (
    Envelope,
    accepted,
    best_of,
    far_log_ratio,
    gaussian_eigenvalues,
    log_sinhc,
    turned,
)
from curvedp.laws.spd_normalizer import (
    dimension,
    log_ordered_share,
    log_volume_constant,
    radial_cdf,
)

_FALL = 45.0
_REACH = 25.0  # eigenvalues are a factor e^{√2·r} apart: beyond 2^52 dense doubles lose the small ones


def half_sum(m: int, beta: int) -> float:
    """β|h|, the rate at which volumes grow."""
    return beta * math.sqrt(m * (m * m - 1) / 12)


@dataclass(frozen=True)
class MatrixLaplace(Engine):
    """The engine: exp(−d(X, W)/σ) on m×m matrices."""

    m: int
    beta: int
    scale: float

    def __post_init__(self) -> None:
        growth = half_sum(self.m, self.beta)
        if not self.scale * growth < 1 - 2.0**-40:  # and a rate that has digits
            raise NotIntegrable(
                f": exp(−d/scale) has infinite mass on matrices of size {self.m} "
                f"unless scale < {1 / growth:.6g}",
                parameter="scale",
                value=self.scale,
            )

    @property
    def rates(self) -> tuple[float, float]:
        """(a − β|h|, c)."""
        a, h = 1 / self.scale, half_sum(self.m, self.beta)
        return a - h, (a - h) * (a + h) / 2

    @property
    def log_normalizer(self) -> float:
        mixing = (self.m - 1) / 2 * math.log(2 * math.pi) - math.log(self.scale)
        return log_volume_constant(self.m, self.beta) + mixing + _mixture(self)[2]

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(d ≤ r): the Gaussians', averaged. Absolute error below 1e-7."""
        tau, weight, _ = _mixture(self)
        some = weight > 1e-9
        parts = [
            radial_cdf(self.m, math.sqrt(t), r, self.beta) for t in tau[some].tolist()
        ]
        return np.asarray(np.average(parts, axis=0, weights=weight[some]))

    def moment(self, order: int) -> float:
        """E[d] = aE[τ] − 1/a and E[d²] = a²E[τ²] − 3E[τ]: derivatives of the normalizer by a."""
        tau, weight, _ = _mixture(self)
        first, second = float(weight @ tau), float(weight @ tau**2)
        return (
            first / self.scale - self.scale
            if order == 1
            else second / self.scale**2 - 3 * first
        )

    def check_representable(self) -> None:
        """Farther out than `_REACH` may be one draw in 10¹²; the tail falls as e^{−(a − β|h|)r}."""
        if self.moment(1) + 40 * math.log(2.0) / self.rates[0] > _REACH:
            raise ParameterError(
                ": dense matrices lose small eigenvalues; use a smaller scale",
                parameter="scale",
                value=self.scale,
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        if self.m == 1:
            return turned(
                rng, center, rng.laplace(0.0, self.scale, (count, 1)), self.beta
            )
        return turned(
            rng, center, accepted(rng, best_laplace(self), self.m, count), self.beta
        )


@lru_cache(maxsize=64)
def _mixture(law: MatrixLaplace) -> tuple[Floats, Floats, float]:
    """Nodes τ, weights of sum 1, and the log of the whole mass, by the trapezoidal rule in log τ.

    The integrand is analytic for |Im log τ| < π/2 and grows there as e^{dim·Im²/2} at most, a distribution function in it
    included: the rule errs by e^{−2π·1.5/step}, and by e^{−2π²/(dim·step²)} where that is more.
    """
    shape, (_, c) = (law.m + 1) / 2, law.rates
    step = min(0.25, 0.9 / math.sqrt(dimension(law.m, law.beta)))

    def log_density(k: int) -> float:
        log_tau = math.log(shape / c) + k * step
        return (
            shape * log_tau
            - c * math.exp(log_tau)
            + log_ordered_share(law.m, math.exp(log_tau / 2), law.beta)
        )

    found = {0: log_density(0)}
    for way in (1, -1):
        k = 0
        while found[k] > max(found.values()) - _FALL:
            k += way
            found[k] = log_density(k)
    steps = np.array(sorted(found))
    values = np.array([found[k] for k in steps.tolist()])
    mass = float(logsumexp(values))
    return (
        shape / c * np.exp(step * steps),
        np.exp(values - mass),
        mass + math.log(step),
    )


@lru_cache(maxsize=64)
def best_laplace(law: MatrixLaplace) -> Envelope:
    """The envelope to draw from, m ≥ 2. Raises where even the best would take more than 10^5 trials a draw."""
    return best_of(
        (NearLaplace(law), FarLaplace(law)), f"scale={law.scale!r} with m={law.m}"
    )


@dataclass(frozen=True)
class NearLaplace:
    """Direction of the eigenvalues of a Gaussian matrix, length of the law Gamma(dim, a − β|h|)."""

    law: MatrixLaplace
    name: str = "near"

    @property
    def log_acceptance(self) -> float:
        dim = dimension(self.law.m, self.law.beta)
        flat = (
            log_sphere_area(dim) + math.lgamma(dim) - dim * math.log(self.law.rates[0])
        )
        return self.law.log_normalizer - flat

    def propose(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        m, beta = self.law.m, self.law.beta
        rho = gaussian_eigenvalues(rng, n, m, beta)
        radius = rng.standard_gamma(dimension(m, beta), n) / self.law.rates[0]
        rho *= (radius / np.linalg.norm(rho, axis=1))[:, None]
        i, j = np.triu_indices(m, 1)
        return rho, beta * np.sum(
            log_sinhc((rho[:, i] - rho[:, j]) / 2), axis=1
        ) - half_sum(m, beta) * radius


@dataclass(frozen=True)
class FarLaplace:
    """The drifted normals of a random variance."""

    law: MatrixLaplace
    name: str = "far"

    @property
    def log_acceptance(self) -> float:
        shape, (_, c) = (self.law.m + 1) / 2, self.law.rates
        return _mixture(self.law)[2] + shape * math.log(c) - math.lgamma(shape)

    def propose(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        m, beta = self.law.m, self.law.beta
        tau = rng.standard_gamma((m + 1) / 2, (n, 1)) / self.law.rates[1]
        rho = tau * beta * (m - 1 - 2 * np.arange(m)) / 2 + np.sqrt(
            tau
        ) * rng.standard_normal((n, m))
        return rho, far_log_ratio(rho, beta)
