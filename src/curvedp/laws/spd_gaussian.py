"""Exact i.i.d. draws from the affine-invariant Gaussian on SPD and HPD matrices, density ∝ exp(−d(X, W)²/2σ²).

X = L·Q·diag(e^ρ)·Q*·L* with W = LL*, Q uniform, and ρ ∝ exp(−|ρ|²/2σ²) ∏_{i<j} sinh(|ρᵢ−ρⱼ|/2)^β (Said et al. 2017; β = 2 on
Hermitian matrices). Only ρ is hard. It is drawn by rejection from one of three envelopes, near, far and chain (`spd_chain`),
each proved by a concavity (docs/spd-gaussian.md). The acceptance probability of each is a ratio of two normalizers, hence
known beforehand, by (m, σ) alone: the best is taken, and the number of trials tells nothing about the footpoint.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp._validate import integer, positive
from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.laws.logconcave import radius_sampler
from curvedp.laws.radial import Floats, Rays
from curvedp.laws.spd_chain import ChainEnvelope
from curvedp.laws.spd_normalizer import dimension, log_normalizer, log_ordered_share

_LEAST_ACCEPTANCE = 1e-5  # below this a draw costs more than 10^5 proposals: refused before sampling, by public numbers
_CHUNK = 1 << 20  # numbers in the largest temporary array


class Envelope(Protocol):
    """A proposal and its log acceptance ratio, which must not be positive."""

    @property
    def name(self) -> str: ...
    @property
    def log_acceptance(self) -> float: ...

    def propose(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """n proposals, each sorted from large to small, and their log ratios target/envelope."""
        ...


def turned(rng: np.random.Generator, center: Floats, rho: Floats, beta: int) -> Floats:
    """L·Q·diag(e^ρ)·Q*·L* of each row of ρ, Q uniform, W = LL* the center or as many of them; points of the manifold."""
    (n, m), whole = (
        rho.shape,
        center if beta == 1 else center[..., 0] + 1j * center[..., 1],
    )
    try:
        lower = np.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        raise ParameterError("center must be positive definite") from None
    if m == 2:
        return _turned_two(rng, lower, rho, beta)
    out = np.empty((n, m, m), dtype=lower.dtype)
    rows = max(1, _CHUNK // (m * m))
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        # F = L·Q·diag(e^{ρ/2}); X = F·F* is positive semidefinite by construction
        part = lower if lower.ndim == 2 else lower[start:stop]
        factor = part @ (
            _haar(rng, stop - start, m, beta) * np.exp(rho[start:stop, None, :] / 2)
        )
        np.matmul(factor, np.conj(np.swapaxes(factor, -1, -2)), out=out[start:stop])
    return out if beta == 1 else np.stack([out.real, out.imag], axis=-1)


def _turned_two(
    rng: np.random.Generator, lower: NDArray[Any], rho: Floats, beta: int
) -> Floats:
    """The same for m = 2, entry by entry: Q = [[c, −s·z*], [s·z, c]] up to phases of its columns; FF* as above.

    For β = 2 c² is uniform (Archimedes: a coordinate of a uniform point of the sphere), and z is a uniform phase.
    """
    a, b, d = lower[..., 0, 0].real, lower[..., 1, 0], lower[..., 1, 1].real
    angle = rng.uniform(0, 2 * math.pi, len(rho))
    z: Any = np.float64(1.0)
    c, s = np.cos(angle), np.sin(angle)
    if beta == 2:
        share, z = rng.random(len(rho)), c + 1j * s
        c, s = np.sqrt(share), np.sqrt(1 - share)
    large, small = np.exp(rho.T)
    first, second = b * c + d * s * z, d * c - b * s * np.conj(z)
    out = np.empty((len(rho), 2, 2), dtype=lower.dtype)
    out[:, 0, 0] = a * a * (c * c * large + s * s * small)
    out[:, 1, 0] = a * (c * large * first - s * small * z * second)
    out[:, 0, 1] = np.conj(out[:, 1, 0])
    one, two = (entry.real**2 + entry.imag**2 for entry in (first, second))
    out[:, 1, 1] = one * large + two * small
    return out if beta == 1 else out.view(np.float64).reshape(len(rho), 2, 2, 2)


def sample_log_eigenvalues(
    rng: np.random.Generator, m: int, sigma: float, n: int, *, beta: int = 1
) -> Floats:
    """n draws of ρ, the log-eigenvalues of W^{−½}XW^{−½}, each sorted from large to small; shape (n, m)."""
    m, sigma, n = integer("m", m, 1), positive("sigma", sigma), integer("n", n, 0)
    if m == 1:
        return rng.normal(0.0, sigma, (n, 1))
    if (
        m == 2
    ):  # ℝ × H^{1+β} with κ = −½: the trace is free, and the gap is √2 times a radius
        mode, hat = radius_sampler("gaussian", Rays(((-0.5, beta),)), sigma)
        trace, gap = (
            rng.normal(0.0, sigma / math.sqrt(2), n),
            (hat.draw(rng, n) + mode) / math.sqrt(2),
        )
        return np.stack([trace + gap, trace - gap], axis=-1)
    return accepted(rng, best_envelope(m, sigma, beta), m, n)


def accepted(rng: np.random.Generator, envelope: Envelope, m: int, n: int) -> Floats:
    """n draws by rejection: the ρ of each, sorted from large to small."""
    share = math.exp(envelope.log_acceptance)
    parts: list[Floats] = []
    while (left := n - sum(map(len, parts))) > 0 or not parts:
        batch = min(max(1, _CHUNK // (m * m)), int(left / share * 1.05) + 16)
        rho, log_ratio = envelope.propose(rng, batch)
        # the ratio of terms of about |ρ| in size, one a pair, lifted by rounding
        if not np.all(
            log_ratio <= m * m * (np.max(np.abs(rho), initial=0.0) + 40) * 2.0**-50
        ):
            raise EnvelopeViolation(
                f"log ratio {np.max(log_ratio)!r} > 0 for {envelope!r}"
            )
        parts.append(rho[log_ratio > -rng.standard_exponential(batch)][:left])
    return np.concatenate(parts)


def acceptance(m: int, sigma: float, beta: int = 1) -> dict[str, float]:
    """Exact acceptance probability of each envelope considered, from public numbers only."""
    m, sigma = integer("m", m, 2), positive("sigma", sigma)
    return {e.name: math.exp(e.log_acceptance) for e in _envelopes(m, sigma, beta)}


@lru_cache(maxsize=64)
def _envelopes(m: int, sigma: float, beta: int) -> tuple[Envelope, ...]:
    simple: tuple[Envelope, ...] = (
        NearEnvelope.tightest(m, sigma, beta),
        FarEnvelope(m, sigma, beta),
    )
    # set-up of the chain takes up to 0.1 s and its proposals cost more than the far ones: only where it helps
    if beta == 2 or max(e.log_acceptance for e in simple) > math.log(0.5):
        return simple
    return (*simple, ChainEnvelope.tightest(m, sigma))


def best_envelope(m: int, sigma: float, beta: int = 1) -> Envelope:
    """The envelope to draw from, m ≥ 2. Raises where even the best would take more than 10^5 trials a draw."""
    near = NearEnvelope.tightest(m, sigma, beta)
    if near.log_least > math.log(
        0.5
    ):  # no normalizer is needed to see that; with σ tiny it would be a lot of digits
        return near
    return best_of(_envelopes(m, sigma, beta), f"sigma={sigma!r} with m={m}")


def best_of(envelopes: Sequence[Envelope], named: str) -> Envelope:
    """The one that accepts most. Raises where even it would take more than 10^5 trials a draw."""
    best = max(envelopes, key=lambda e: e.log_acceptance)
    if best.log_acceptance < math.log(_LEAST_ACCEPTANCE):
        raise ParameterError(
            f"{named}: the best envelope accepts {math.exp(best.log_acceptance):.1e} of its "
            "proposals; use SPDLogEuclidean or noise in a chart (the log-map Gaussian), which need no rejection"
        )
    return best


@dataclass(frozen=True)
class NearEnvelope:
    """Eigenvalues of a Gaussian symmetric matrix; tangent of log(sinh x/x) in x² at x = `tangent`."""

    m: int
    sigma: float
    tangent: float
    beta: int = 1
    name: str = "near"

    @staticmethod
    def tightest(m: int, sigma: float, beta: int = 1) -> "NearEnvelope":
        """The tangent with the largest acceptance.

        There the mean of x² under the envelope is the tangent's x², i.e. s²(½ + βm/4) = x² with 1/s² = 1/σ² − βb·m/2,
        that is 1/2x² + βm·coth(x)/4x = 1/σ²; the left side decreases from ∞ to 0.
        """

        def excess(log_x: float) -> float:
            x = math.exp(log_x)
            return math.log(
                0.5 / (x * x) + beta * m / (4 * x * math.tanh(x))
            ) + 2 * math.log(sigma)

        # Between the roots for coth x = 1/x alone and for both bounds 1/x ≤ coth x ≤ 1 + 1/x.
        low = math.log(sigma * math.sqrt((beta * m + 2) / 4))
        high = math.log(
            sigma * math.sqrt((beta * m + 2) / 2) + sigma * sigma * beta * m
        )
        return NearEnvelope(
            m,
            sigma,
            math.exp(scipy.optimize.brentq(excess, low - 1e-9, high, xtol=1e-12)),
            beta,
        )

    @property
    def _slope(self) -> float:
        return _coth_minus_inverse(self.tangent) / (2 * self.tangent)

    @property
    def _scale(self) -> float:
        return 1 / math.sqrt(1 / self.sigma**2 - self.beta * self._slope * self.m / 2)

    @property
    def _intercept(self) -> float:
        return float(log_sinhc(self.tangent)) - self._slope * self.tangent**2

    @property
    def log_least(self) -> float:
        """A lower bound of `log_acceptance`: sinh x / x ≥ 1 bounds the target's mass by that of the flat Gaussian."""
        dim = dimension(self.m, self.beta)
        return (dim - 1) * math.log(self.sigma / self._scale) - self._intercept * (
            dim - self.m
        )

    @property
    def log_acceptance(self) -> float:
        # Z(target)/Z(envelope); both carry the same constant of the volume, and Z of a flat Gaussian of scale s in
        # dimension d is (2πs²)^{d/2}, of which one direction, the trace, keeps its scale σ.
        m, dim = self.m, dimension(self.m, self.beta)
        flat = (
            0.5 * dim * math.log(2 * math.pi)
            + (dim - 1) * math.log(self._scale)
            + math.log(self.sigma)
        )
        return (
            log_normalizer(m, self.sigma, self.beta)
            - flat
            - self._intercept * (dim - m)
        )

    def propose(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        m, s = self.m, self._scale
        rho = gaussian_eigenvalues(rng, n, m, self.beta) * s
        # the trace is independent of the differences and is not touched by sinh: it keeps the scale σ
        rho += rng.normal(0.0, self.sigma / math.sqrt(m), (n, 1)) - rho.mean(
            axis=1, keepdims=True
        )
        i, j = np.triu_indices(m, 1)
        x = (rho[:, i] - rho[:, j]) / 2
        slope, intercept = self._slope, self._intercept
        return rho, self.beta * np.sum(
            log_sinhc(x) - (intercept + slope * x * x), axis=1
        )


@dataclass(frozen=True)
class FarEnvelope:
    """N(βσ²h, σ²I), accepted with ∏(1 − e^{−(ρᵢ−ρⱼ)})^β where ρ is ordered."""

    m: int
    sigma: float
    beta: int = 1
    name: str = "far"

    @property
    def log_acceptance(self) -> float:
        return log_ordered_share(
            self.m, self.sigma, self.beta
        )  # the normalizer is the envelope's mass times this

    def propose(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        m, sigma = self.m, self.sigma
        rho = self.beta * sigma * sigma * (
            m - 1 - 2 * np.arange(m)
        ) / 2 + sigma * rng.standard_normal((n, m))
        return rho, far_log_ratio(rho, self.beta)


def far_log_ratio(rho: Floats, beta: int) -> Floats:
    """β·Σ log(1 − e^{−(ρᵢ−ρⱼ)}); −∞ where ρ is not ordered."""
    i, j = np.triu_indices(rho.shape[1], 1)
    gap = rho[:, i] - rho[:, j]
    ordered = np.all(gap > 0, axis=1)
    log_ratio = np.full(len(rho), -np.inf)
    log_ratio[ordered] = beta * np.sum(np.log(-np.expm1(-gap[ordered])), axis=1)
    return log_ratio


def _coth_minus_inverse(x: float) -> float:
    """coth x − 1/x for x > 0 (the Langevin function); its series where the difference would lose digits."""
    return 1 / math.tanh(x) - 1 / x if x > 0.03 else x / 3 - x**3 / 45 + 2 * x**5 / 945


def log_sinhc(x: Floats | float) -> Floats:
    """log(sinh x/x) for x ≥ 0 without overflow; absolute error a few ulp of 1 + x."""
    x = np.asarray(x)
    safe = np.where(x > 1e-2, x, 1.0)
    u = x * x
    return np.where(
        x > 1e-2,
        safe + np.log(-np.expm1(-2 * safe) / (2 * safe)),
        u / 6 - u * u / 180 + u**3 / 2835,
    )


def gaussian_eigenvalues(
    rng: np.random.Generator, n: int, m: int, beta: int = 1
) -> Floats:
    """Eigenvalues, sorted from large to small, of symmetric or Hermitian matrices with density ∝ exp(−tr S²/2)."""
    if m == 2:  # ((S₁₁−S₂₂)/2)² + |S₁₂|² is half a χ² of 1 + β degrees of freedom
        trace, gap = (
            rng.standard_normal(n) / math.sqrt(2),
            np.sqrt(rng.standard_gamma((1 + beta) / 2, n)),
        )
        return np.stack([trace + gap, trace - gap], axis=1)
    if m == 3:
        # In the plane of the differences the chamber is 60° wide, and ∏(λᵢ−λⱼ) = q³·sin 3θ/√2: the length q is χ with
        # 2 + 3β degrees of freedom and cos 3θ is uniform, or (β = 2) like a coordinate of a uniform point of the disc.
        # 2·arcsin √u = arccos(1 − 2u) keeps its digits at both walls.
        u = rng.random(n) if beta == 1 else rng.beta(1.5, 1.5, n)
        length = 2 * np.sqrt(rng.standard_gamma(1 + 1.5 * beta, n))
        upper = length * np.sin(2 / 3 * np.arcsin(np.sqrt(u)))
        lower = length * np.sin(2 / 3 * np.arcsin(np.sqrt(1 - u)))
        middle = rng.normal(0.0, math.sqrt(1 / 3), n) + (lower - upper) / 3
        return np.stack([middle + upper, middle, middle - lower], axis=1)
    s = _normals(rng, n, m, beta) / 2
    return np.asarray(
        np.linalg.eigvalsh(s + np.conj(np.swapaxes(s, 1, 2)))[:, ::-1], dtype=np.float64
    )


def _normals(rng: np.random.Generator, n: int, m: int, beta: int) -> Floats:
    """Matrices of independent normals, complex for β = 2."""
    real = rng.standard_normal((n, m, beta * m))
    return real if beta == 1 else np.asarray(real.view(np.complex128))


def _haar(rng: np.random.Generator, n: int, m: int, beta: int = 1) -> Floats:
    """Q uniform on O(m) or U(m), up to the signs or phases of its columns, which Q·diag·Q* does not see."""
    if m == 3 and beta == 1:  # a uniform unit quaternion is a uniform rotation
        q = rng.standard_normal((4, n))
        q *= math.sqrt(2) / np.sqrt(np.sum(q * q, axis=0))
        w, x, y, z = q
        out = np.empty((n, 3, 3))
        out[:, 0, 0], out[:, 0, 1], out[:, 0, 2] = (
            1 - y * y - z * z,
            x * y - w * z,
            x * z + w * y,
        )
        out[:, 1, 0], out[:, 1, 1], out[:, 1, 2] = (
            x * y + w * z,
            1 - x * x - z * z,
            y * z - w * x,
        )
        out[:, 2, 0], out[:, 2, 1], out[:, 2, 2] = (
            x * z - w * y,
            y * z + w * x,
            1 - x * x - y * y,
        )
        return out
    if m == 3:  # Gram and Schmidt's method, and the cross product
        first, second = np.moveaxis(_normals(rng, n, 3, 2)[:, :2], 1, 0)
        first = first / np.linalg.norm(first, axis=1, keepdims=True)
        second = second - first * np.sum(np.conj(first) * second, axis=1, keepdims=True)
        second = second / np.linalg.norm(second, axis=1, keepdims=True)
        return np.stack([first, second, np.conj(np.cross(first, second))], axis=-1)
    return np.asarray(np.linalg.qr(_normals(rng, n, m, beta))[0])
