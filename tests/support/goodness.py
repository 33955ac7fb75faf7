"""Goodness of fit, shared by every test of a sampler: p-values from laws that share no code with the sampler.

Each function returns a p-value. `accepts` and `rejects` are the two verdicts of the project: a right sampler must give
p > 1e-4 at its fixed seed, and the same test must give p < 1e-6 for a deliberately wrong one.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from curvedp.geometry.manifold import Manifold
from curvedp.laws.isotropic.space import TwoPointHomogeneousSpace

Array = Any


def accepts(p: float) -> bool:
    """Whether a right sampler passes."""
    return bool(p > 1e-4)


def rejects(p: float) -> bool:
    """Whether a wrong sampler is caught."""
    return bool(p < 1e-6)


def off_origin(manifold: Manifold, distance: float = 0.7, seed: int = 7) -> Array:
    """A footpoint at this distance from the origin in no special direction: wrong transports show there."""
    z = np.random.default_rng(seed).standard_normal(manifold.dim)
    origin = manifold.origin
    return manifold.exp(
        origin, manifold.from_coordinates(origin, distance * z / np.linalg.norm(z))
    )


def ks(values: Array, cdf: Callable[[Array], Array]) -> float:
    """Kolmogorov–Smirnov against a continuous distribution function, with the limiting law of √n·D."""
    u = np.sort(cdf(np.ravel(values)))
    rank = np.arange(u.size + 1) / u.size
    gap = max(np.max(rank[1:] - u), np.max(u - rank[:-1]))
    return float(special.kolmogorov(np.sqrt(u.size) * gap)) if gap >= 0 else 0.0


def moment(values: Array, expected: float) -> float:
    """The mean of the values against its expectation: the normal limit, 4 standard errors are p = 6e-5."""
    values = np.ravel(values)
    z = (values.mean() - expected) / (values.std() / np.sqrt(values.size))
    return float(2 * stats.norm.sf(abs(z)))


def uniform_directions(u: Array) -> float:
    """Rows of u against the uniform law on the sphere: means (Rayleigh), second moments (Bingham), two projections."""
    n, d = u.shape
    p = [float(stats.chi2.sf(n * d * np.sum(u.mean(axis=0) ** 2), d))]
    if d > 1:
        second = u.T @ u / n
        bingham = n * d * (d + 2) / 2 * (np.sum(second**2) - 1 / d)
        p.append(float(stats.chi2.sf(bingham, (d - 1) * (d + 2) / 2)))
        oblique = np.arange(1.0, d + 1.0) / np.linalg.norm(np.arange(1.0, d + 1.0))
        half = (d - 1) / 2
        p += [
            ks(w, lambda w: special.betainc(half, half, np.clip((1 + w) / 2, 0, 1)))
            for w in (u[:, 0], u @ oblique)
        ]
    return min(1.0, len(p) * min(p))


def directions(z: Array) -> float:
    """Directions of the rows of z against the uniform law, of all of them and of the far half alone."""
    r = np.linalg.norm(z, axis=-1)
    u = z / r[:, None]
    return min(
        1.0, 2 * min(uniform_directions(u), uniform_directions(u[r > np.median(r)]))
    )


def mean_zero(z: Array) -> float:
    """Whether the rows of z have mean zero: Hotelling's T² in its χ² limit. For z = log_p(x) it tests the footpoint."""
    mean, spread = z.mean(axis=0), np.atleast_2d(np.cov(z, rowvar=False))
    return float(
        stats.chi2.sf(len(z) * mean @ np.linalg.solve(spread, mean), z.shape[1])
    )


def form(
    curvature: float, dim: int, end: float | None = None
) -> TwoPointHomogeneousSpace:
    """The rays of the sphere, Euclidean or hyperbolic space of this curvature, or of a quotient that ends before."""
    closes = math.pi / math.sqrt(curvature) if curvature > 0 else math.inf
    return TwoPointHomogeneousSpace(
        ((float(curvature), dim - 1),) if dim > 1 else (),
        closes if end is None else end,
    )


def generating(runs, x):
    """E[x^K] of a truncated negative binomial K, x in [0, 1]."""
    log_rest, log_stop = math.log1p(-(1 - runs.stop) * x), math.log(runs.stop)
    if runs.shape == 0:
        return log_rest / log_stop
    return math.expm1(-runs.shape * log_rest) / math.expm1(-runs.shape * log_stop)
