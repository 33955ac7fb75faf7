"""The Gaussian on Grassmann(m, r) of rank p = min(r, m − r) ≥ 2: density ∝ exp(−|θ|²/2σ²) of the principal angles θ.

Tangent normals are accepted by their volume, under the envelope of a tangent of u ↦ log(sin √u/√u); the normalizer is a
Pfaffian (docs/laws.md, Subspaces).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.laws.radial import Engine, Floats

_LEAST_ACCEPTANCE = 1e-5
_TOP = math.pi / 2
_ORDER = 120
_X, _W = np.polynomial.legendre.leggauss(_ORDER)


@dataclass(frozen=True)
class GrassmannGaussian(Engine):
    """The engine. Moments and the distribution function of the distance are for rank 2."""

    manifold: Manifold
    p: int
    q: int
    scale: float

    @property
    def log_normalizer(self) -> float:
        return _log_mass(self.p, self.q, self.scale)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(d ≤ r), by quadrature over the plane of the angles."""
        radius = np.asarray(r, dtype=np.float64)
        whole = self._integral(math.inf)
        return np.array(
            [self._integral(x) / whole for x in radius.ravel().tolist()]
        ).reshape(radius.shape)

    def moment(self, order: int) -> float:
        return self._integral(math.inf, order) / self._integral(math.inf)

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Tangent normals, accepted by their volume."""
        (m, r), (a, b, deviation, log_acceptance) = (
            self.manifold.point_shape,
            _envelope(self.p, self.q, self.scale),
        )
        z = np.empty((count, self.manifold.dim))
        todo = np.arange(count)
        while len(todo):
            trial = rng.normal(
                0.0,
                deviation,
                (int(len(todo) / math.exp(log_acceptance)) + 16, self.manifold.dim),
            )
            theta = np.linalg.svd(
                trial.reshape(len(trial), m - r, r), compute_uv=False
            ).astype(np.float64)
            inside = theta[:, 0] < _TOP
            trial, theta = trial[inside], theta[inside]
            i, j = np.triu_indices(self.p, 1)
            ratio = np.sum(
                _log_sinc(theta[:, i] - theta[:, j])
                + _log_sinc(theta[:, i] + theta[:, j]),
                axis=1,
            )
            ratio += (self.q - self.p) * np.sum(_log_sinc(theta), axis=1)
            ratio -= self.p * (self.q - 1) * a + b * (self.p + self.q - 2) * np.sum(
                theta * theta, axis=1
            )
            if not np.all(ratio <= 1e-9):
                raise EnvelopeViolation(
                    f"log ratio {np.max(ratio)!r} > 0 on {self.manifold!r}"
                )
            kept = trial[ratio > -rng.standard_exponential(len(trial))][: len(todo)]
            z[todo[: len(kept)]], todo = kept, todo[len(kept) :]
        return np.asarray(
            self.manifold.exp(center, self.manifold.from_coordinates(center, z))
        )

    def _integral(self, r: float, order: int = 0) -> float:
        """∫ d^order·exp(−d²/2σ²)·volume over π/2 > θ₁ > θ₂ with d = |θ| ≤ r, up to a constant."""
        if self.p > 2:
            raise ParameterError(
                f"the law of the distance on {self.manifold!r} is known for rank 2 only"
            )
        r = max(min(r, _reach(2, self.q, self.scale)), 0.0)
        total, bend = (
            0.0,
            min(r / math.sqrt(2), _TOP),
        )  # beyond, θ₂ is bounded by the circle
        unit = min(
            1.0, self.scale**2 * max(1.0, (self.q - 2) / math.e)
        )  # of ∏ sin θ where the integrand is largest
        for low, high in ((0.0, bend), (bend, min(r, _TOP))):
            first = (low + (high - low) * (_X + 1) / 2)[:, None]
            end = np.minimum(first, np.sqrt(np.maximum(r * r - first * first, 0.0)))
            second = end * (_X + 1) / 2
            square = first**2 + second**2
            value = (
                np.exp(-square / (2 * self.scale**2))
                * square ** (order / 2)
                * np.sin(first - second)
            )
            value *= (
                np.sin(first + second)
                / unit
                * (np.sin(first) * np.sin(second) / unit) ** (self.q - 2)
            )
            total += float(_W @ (value * end / 2) @ _W) * (high - low) / 2
        return total


def _log_sinc(x: Floats) -> Floats:
    return np.asarray(np.log(np.sinc(x / math.pi)))


def _reach(p: int, q: int, sigma: float) -> float:
    """Where less than 1e-30 of the tangent normal is left, or the farthest plane."""
    return min(sigma * (math.sqrt(p * q) + 12), _TOP * math.sqrt(p))


@lru_cache(maxsize=64)
def _envelope(p: int, q: int, sigma: float) -> tuple[float, float, float, float]:
    """(a, b, deviation, log acceptance) of the tangent that accepts most."""

    def tangent(x: float) -> tuple[float, float, float]:
        b = (x / math.tan(x) - 1) / (2 * x * x)
        return (
            math.log(math.sin(x) / x) - b * x * x,
            b,
            1 / math.sqrt(1 / sigma**2 - 2 * b * (p + q - 2)),
        )

    def log_excess(x: float) -> float:
        a, _, deviation = tangent(x)
        return p * q * math.log(deviation) + p * (q - 1) * a

    best = scipy.optimize.minimize_scalar(
        log_excess, bounds=(1e-3, math.pi - 1e-3), method="bounded"
    ).x
    log_acceptance = (
        _log_mass(p, q, sigma) - log_excess(best) - p * q / 2 * math.log(2 * math.pi)
    )
    if log_acceptance < math.log(_LEAST_ACCEPTANCE):
        raise ParameterError(
            f": the envelope accepts {math.exp(log_acceptance):.1e}; use a smaller "
            "scale",
            parameter="scale",
            value=sigma,
        )
    return (*tangent(best), log_acceptance)


@lru_cache(maxsize=64)
def _log_mass(p: int, q: int, sigma: float) -> float:
    """log ∫ exp(−|θ|²/2σ²) dvol."""
    end = min(_TOP, _reach(p, q, sigma))
    t = end * (_X + 1) / 2
    density = np.exp(-((t / sigma) ** 2) / 2) * (np.sin(t) / math.sin(end)) ** (q - p)
    x = (np.sin(t) / math.sin(end)) ** 2
    weight = _W * end / 2
    # polynomials orthonormal for the density, P = V·R⁻¹: nothing cancels, and det V = det P·∏ Rᵢᵢ
    frame, triangle = np.linalg.qr(
        np.sqrt(weight * density)[:, None] * x[:, None] ** np.arange(p)
    )
    values = frame / np.sqrt(weight * density)[:, None] * density[:, None]
    below = end / 2 * _cumulative() @ values
    pairs = below.T @ (weight[:, None] * values)
    matrix = pairs - pairs.T
    if p % 2:
        border = weight @ values
        matrix = np.block(
            [[matrix, border[:, None]], [-border[None], np.zeros((1, 1))]]
        )
    ordered = np.linalg.slogdet(matrix)[1] / 2 + float(
        np.sum(np.log(np.abs(np.diag(triangle))))
    )
    units = (p * (q - p) + p * (p - 1)) * math.log(math.sin(end))
    # The constant of the volume from the flat limit, by Selberg's integral of the singular values of p×q normals.
    selberg = p * (q - 2) / 2 * math.log(2) - math.lgamma(p + 1)
    for j in range(p):
        selberg += (
            math.lgamma((q - p + 1 + j) / 2)
            + math.lgamma((3 + j) / 2)
            - math.lgamma(1.5)
        )
    return float(ordered + units + p * q / 2 * math.log(2 * math.pi) - selberg)


@lru_cache(maxsize=1)
def _cumulative() -> Floats:
    """∫₋₁^x of a function, from its values at the nodes to those at the nodes, by Legendre's series."""
    legendre = np.polynomial.legendre.legvander(_X, _ORDER)
    rise = np.empty((_ORDER, _ORDER))
    rise[:, 0] = _X + 1
    degree = np.arange(1, _ORDER)
    rise[:, 1:] = (legendre[:, 2:] - legendre[:, :-2]) / (2 * degree + 1)
    return np.asarray(
        rise @ ((2 * np.arange(_ORDER) + 1) / 2 * legendre[:, :-1] * _W[:, None]).T
    )
