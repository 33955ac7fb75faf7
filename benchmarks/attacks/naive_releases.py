"""Float64 releases as they are commonly written: the right law, released with its last bits. Controls for the attacks.

`benchmarks.release_attacks` must break each of them: an attack that finds nothing in a release has shown that it can find
something.
"""

import math
from typing import Any

import numpy as np

__all__ = ["naive_lorentz_laplace", "naive_spd_gaussian", "naive_sphere_laplace"]


def naive_sphere_laplace(
    center: Any, scale: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """cos r·p + sin r·w in float64 on S², r from the Laplace radial law: the right law, released with its last bits."""
    p = np.asarray(center, dtype=np.float64)
    r = _accepted(
        n,
        lambda k: (
            r := rng.gamma(2.0, scale, k),
            np.where(r < np.pi, np.sin(r) / r, 0.0),
        ),
        rng,
    )
    g = rng.standard_normal((n, 3))
    w = g - (g @ p)[:, None] * p
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    return np.asarray(np.cos(r)[:, None] * p + np.sin(r)[:, None] * w)


def naive_lorentz_laplace(
    center: Any, scale: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """cosh r·p + sinh r·w in float64 on H²: the right law, released with its last bits."""
    p = np.asarray(center, dtype=np.float64)
    # sinh r·e^{−r/s} = ½e^{−r(1/s−1)}(1 − e^{−2r})
    rate = 1 / scale - 1
    r = _accepted(
        n, lambda k: (r := rng.exponential(1 / rate, k), -np.expm1(-2 * r)), rng
    )
    angle = rng.uniform(0, 2 * np.pi, n)
    u = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    along = u @ p[1:]
    w = np.concatenate(
        [along[:, None], u + np.outer(along / (1 + p[0]), p[1:])], axis=1
    )
    return np.asarray(np.cosh(r)[:, None] * p + np.sinh(r)[:, None] * w)


def naive_spd_gaussian(
    center: Any, sigma: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """P^½ e^V P^½ in float64, e^V made symmetric: the right law on SPD(m), but two products bring asymmetry back."""
    p = np.asarray(center, dtype=np.float64)
    m = len(p)
    values, vectors = np.linalg.eigh(p)
    root = (vectors * np.sqrt(values)) @ vectors.T

    def propose(k: int) -> tuple[np.ndarray, np.ndarray]:
        # ∏ sinhc(x_ij) ≤ exp(Σ x_ij²/6): a Gaussian matrix whose traceless part is wider (entropy.exact_spd_near)
        g = rng.standard_normal((k, m, m))
        g = (g + np.swapaxes(g, 1, 2)) / 2
        g[:, np.arange(m), np.arange(m)] = rng.standard_normal((k, m))
        trace = np.trace(g, axis1=1, axis2=2)[:, None, None] / m * np.eye(m)
        v = (g - trace) / math.sqrt(1 / sigma**2 - m / 12) + sigma * trace
        rho = np.linalg.eigvalsh(v)
        i, j = np.triu_indices(m, 1)
        x = np.maximum((rho[:, j] - rho[:, i]) / 2, 1e-8)
        return v, np.exp((np.log(np.sinh(x) / x) - x**2 / 6).sum(axis=1))

    rho, q = np.linalg.eigh(_accepted(n, propose, rng))
    e = (q * np.exp(rho)[:, None, :]) @ np.swapaxes(q, 1, 2)
    return np.asarray(root @ ((e + np.swapaxes(e, 1, 2)) / 2) @ root)


def _accepted(n: int, propose: Any, rng: np.random.Generator) -> np.ndarray:
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < n:
        x, ratio = propose(n)
        kept.append(x[rng.random(n) < ratio])
    return np.concatenate(kept)[:n]
