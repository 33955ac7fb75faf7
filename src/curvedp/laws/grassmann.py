"""The Riemannian Gaussian on Grassmann(m, r) of rank p = min(r, m − r) ≥ 2.

The density is ∝ exp(−|θ|²/2σ²), where θ are the principal angles to the footpoint. In a
tangent space it is a normal density times the volume of the exponential map, which is
at most 1; tangent normals are accepted by that volume, under the tangent of the concave
function u ↦ log(sin √u/√u). The normalizer is a Pfaffian (docs/theory/laws.md,
Subspaces). `curvedp.laws.exact.grassmann` draws without rounding, for releases.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import Grassmann
from curvedp.geometry.manifold import Manifold
from curvedp.laws.backend import Floats, LawBackend

# Below this acceptance a draw would cost more than 10^5 proposals.
_SMALLEST_ACCEPTANCE = 1e-5

# The largest principal angle.
LARGEST_ANGLE = math.pi / 2

# Gauss–Legendre rule on [-1, 1].
_ORDER = 120
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)


def rank_of(manifold: Manifold) -> int | None:
    """Return the rank min(r, m − r) of Grassmann(m, r); None on other manifolds."""
    if not isinstance(manifold, Grassmann):
        return None
    return min(manifold.r, manifold.m - manifold.r)


@dataclass(frozen=True)
class GrassmannGaussian(LawBackend):
    """Sampler and integrals on subspaces.

    Moments and the distribution function of the distance are known for rank 2 only.

    Parameters
    ----------
    manifold : Grassmann
        The subspaces.
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    scale : float
        The scale σ of the law.
    """

    manifold: Grassmann
    p: int
    q: int
    scale: float

    @property
    def log_normalizer(self) -> float:
        return _log_mass(self.p, self.q, self.scale)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(d ≤ r), by quadrature over the plane of the two angles."""
        radius = np.asarray(r, dtype=np.float64)
        total = self._integral(math.inf)
        values = [self._integral(x) / total for x in radius.ravel().tolist()]
        return np.array(values).reshape(radius.shape)

    def moment(self, order: int) -> float:
        return self._integral(math.inf, order) / self._integral(math.inf)

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` subspaces: tangent normals, accepted by their volume."""
        m, r = self.manifold.point_shape
        dim = self.manifold.dim
        envelope = _envelope(self.p, self.q, self.scale)
        z = np.empty((count, dim))
        n_done = 0
        while n_done < count:
            missing = count - n_done
            n_trials = int(missing / math.exp(envelope.log_acceptance)) + 16
            trial = rng.normal(0.0, envelope.deviation, (n_trials, dim))
            matrices = trial.reshape(n_trials, m - r, r)
            angles: Floats = np.linalg.svd(matrices, compute_uv=False).astype(
                np.float64
            )
            is_inside = angles[:, 0] < LARGEST_ANGLE
            trial = trial[is_inside]
            log_ratio = self._log_ratio(angles[is_inside], envelope)
            if not np.all(log_ratio <= 1e-9):
                raise EnvelopeViolation(
                    f"log ratio {np.max(log_ratio)!r} > 0 on {self.manifold!r}"
                )
            is_accepted = log_ratio > -rng.standard_exponential(len(trial))
            accepted_draws = trial[is_accepted][:missing]
            z[n_done : n_done + len(accepted_draws)] = accepted_draws
            n_done += len(accepted_draws)
        v = self.manifold.from_coordinates(center, z)
        return np.asarray(self.manifold.exp(center, v))

    def _log_ratio(self, angles: Floats, envelope: "_Envelope") -> Floats:
        """Return log(target/envelope) at principal angles, each row in decreasing order."""
        i, j = np.triu_indices(self.p, 1)
        difference = angles[:, i] - angles[:, j]
        total = angles[:, i] + angles[:, j]
        log_ratio = np.sum(_log_sinc(difference) + _log_sinc(total), axis=1)
        log_ratio += (self.q - self.p) * np.sum(_log_sinc(angles), axis=1)
        squares = np.sum(angles * angles, axis=1)
        log_ratio -= (
            self.p * (self.q - 1) * envelope.intercept
            + envelope.slope * (self.p + self.q - 2) * squares
        )
        return np.asarray(log_ratio)

    def _integral(self, r: float, order: int = 0) -> float:
        """Return ∫ d^order·exp(−d²/2σ²)·volume over π/2 > θ₁ > θ₂ with d = |θ| ≤ r.

        It is known up to a constant that does not depend on r and the order.
        """
        if self.p > 2:
            raise ParameterError(
                f"the law of the distance on {self.manifold!r} is known for rank 2 only"
            )
        r = max(min(r, _practical_radius(2, self.q, self.scale)), 0.0)
        # Beyond this θ₁, θ₂ is bounded by the circle |θ| = r and not by θ₁.
        bend = min(r / math.sqrt(2), LARGEST_ANGLE)
        # About ∏ sin θ where the integrand is largest.
        unit = min(1.0, self.scale**2 * max(1.0, (self.q - 2) / math.e))
        total = 0.0
        for low, high in ((0.0, bend), (bend, min(r, LARGEST_ANGLE))):
            first = (low + (high - low) * (_NODES + 1) / 2)[:, None]
            on_circle = np.sqrt(np.maximum(r * r - first * first, 0.0))
            end = np.minimum(first, on_circle)
            second = end * (_NODES + 1) / 2
            square = first**2 + second**2
            value = np.exp(-square / (2 * self.scale**2)) * square ** (order / 2)
            value *= np.sin(first - second) * np.sin(first + second) / unit
            value *= (np.sin(first) * np.sin(second) / unit) ** (self.q - 2)
            integral = float(_WEIGHTS @ (value * end / 2) @ _WEIGHTS)
            total += integral * (high - low) / 2
        return total


def _log_sinc(x: Floats) -> Floats:
    """Return log(sin x/x)."""
    return np.asarray(np.log(np.sinc(x / math.pi)))


def _practical_radius(p: int, q: int, sigma: float) -> float:
    """Return where less than 1e-30 of the tangent normal is left, or the largest distance."""
    return min(sigma * (math.sqrt(p * q) + 12), LARGEST_ANGLE * math.sqrt(p))


class _Envelope(NamedTuple):
    """The bound log(sin x/x) ≤ intercept + slope·x², as a normal of the tangent space."""

    intercept: float
    slope: float
    deviation: float
    log_acceptance: float


@lru_cache(maxsize=64)
def _envelope(p: int, q: int, sigma: float) -> _Envelope:
    """Return the envelope of the tangent that accepts most."""

    def tangent(x: float) -> tuple[float, float, float]:
        """Return intercept, slope and deviation of the tangent at x."""
        slope = (x / math.tan(x) - 1) / (2 * x * x)
        intercept = math.log(math.sin(x) / x) - slope * x * x
        deviation = 1 / math.sqrt(1 / sigma**2 - 2 * slope * (p + q - 2))
        return intercept, slope, deviation

    def log_envelope_mass(x: float) -> float:
        intercept, _, deviation = tangent(x)
        return p * q * math.log(deviation) + p * (q - 1) * intercept

    best = scipy.optimize.minimize_scalar(
        log_envelope_mass, bounds=(1e-3, math.pi - 1e-3), method="bounded"
    ).x
    log_flat_mass = p * q / 2 * math.log(2 * math.pi)
    log_acceptance = _log_mass(p, q, sigma) - log_envelope_mass(best) - log_flat_mass
    if log_acceptance < math.log(_SMALLEST_ACCEPTANCE):
        raise ParameterError(
            f": the envelope accepts {math.exp(log_acceptance):.1e}; use a smaller scale",
            parameter="scale",
            value=sigma,
        )
    return _Envelope(*tangent(best), log_acceptance)


def untilted_acceptance(p: int, q: int, sigma: float) -> float:
    """Return the probability that a tangent normal of scale σ is accepted by its volume.

    Parameters
    ----------
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.
    """
    log_flat_mass = p * q / 2 * math.log(2 * math.pi * sigma * sigma)
    return math.exp(_log_mass(p, q, sigma) - log_flat_mass)


@lru_cache(maxsize=64)
def _log_mass(p: int, q: int, sigma: float) -> float:
    """Return log ∫ exp(−|θ|²/2σ²) dvol, by de Bruijn's Pfaffian."""
    end = min(LARGEST_ANGLE, _practical_radius(p, q, sigma))
    t = end * (_NODES + 1) / 2
    sine = np.sin(t) / math.sin(end)
    density = np.exp(-((t / sigma) ** 2) / 2) * sine ** (q - p)
    weight = _WEIGHTS * end / 2
    # Polynomials orthonormal for the density, P = V·R⁻¹: nothing cancels, and
    # det V = det P·∏ Rᵢᵢ.
    powers = (sine**2)[:, None] ** np.arange(p)
    root = np.sqrt(weight * density)[:, None]
    frame, triangle = np.linalg.qr(root * powers)
    values = frame / root * density[:, None]

    below = end / 2 * _cumulative_matrix() @ values
    pairs = below.T @ (weight[:, None] * values)
    matrix = pairs - pairs.T
    if p % 2:
        border = weight @ values
        corner = np.zeros((1, 1))
        matrix = np.block([[matrix, border[:, None]], [-border[None], corner]])
    log_pfaffian = np.linalg.slogdet(matrix)[1] / 2
    log_ordered = log_pfaffian + float(np.sum(np.log(np.abs(np.diag(triangle)))))
    log_units = (p * (q - p) + p * (p - 1)) * math.log(math.sin(end))
    log_flat_mass = p * q / 2 * math.log(2 * math.pi)
    return float(log_ordered + log_units + log_flat_mass - _log_selberg(p, q))


def _log_selberg(p: int, q: int) -> float:
    """Return Selberg's integral of the singular values of p×q normals.

    The flat limit σ → 0 fixes with it the constant of the volume.
    """
    value = p * (q - 2) / 2 * math.log(2) - math.lgamma(p + 1)
    for j in range(p):
        value += math.lgamma((q - p + 1 + j) / 2)
        value += math.lgamma((3 + j) / 2) - math.lgamma(1.5)
    return value


@lru_cache(maxsize=1)
def _cumulative_matrix() -> Floats:
    """Return the matrix that takes values at the nodes to integrals from −1 to the nodes.

    It integrates the Legendre series term by term.
    """
    legendre = np.polynomial.legendre.legvander(_NODES, _ORDER)
    integrals = np.empty((_ORDER, _ORDER))
    integrals[:, 0] = _NODES + 1
    degree = np.arange(1, _ORDER)
    integrals[:, 1:] = (legendre[:, 2:] - legendre[:, :-2]) / (2 * degree + 1)
    norms = (2 * np.arange(_ORDER) + 1) / 2
    coefficients = norms * legendre[:, :-1] * _WEIGHTS[:, None]
    return np.asarray(integrals @ coefficients.T)
