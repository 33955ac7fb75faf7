"""The sequential sampler of *Differentially private geodesic regression*, by two readings. NOT PRIVATE: for comparison only.

A random walk for the footpoint with the fitted velocity held fixed, then one for the velocity at that footpoint, ε = 1 each.
App. A begins with the gradient's norm over Δ/ε and ends, after an "=", with the energy: exp{−‖Σd²‖/(2τ‖J‖)} (E26). Both are
here, `law="gradient"` and `law="displayed"`. In either
- τ is the largest residual of the data (E21), the Jacobi norms are cos 1 and sin 1 (E20), the scale is Δ/ε (E23);
- the footpoint's density depends on the data through v̂ as well, which is not charged (E22);
- the bound is taken at the optimum only: residuals elsewhere are not clipped (E24);
- a Markov chain stopped after any number of steps does not follow its law.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from curvedp.geometry import Euclidean, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.regression import GeodesicFit, fit_geodesic
from curvedp.regression.gradient import clipped_gradient

NO_CLIP = 1e9
BURN = 400  # steps before the first sample, which the paper does not give
VARIANCE = 0.001  # of the ambient noise


class Samples(NamedTuple):
    """NOT PRIVATE. m footpoints, and m velocities at each: (m, dim+1) and (m, m, dim+1)."""

    fit: GeodesicFit
    footpoints: np.ndarray
    velocities: np.ndarray


def sphere_data(
    n: int, speed: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """§4.1: points on a geodesic, sampled uniformly in t, ambient Gaussian noise, projected. Its middle is the origin."""
    M = Sphere(2)
    direction = rng.standard_normal(2)
    v = np.asarray(
        M.from_coordinates(M.origin, speed * direction / np.linalg.norm(direction))
    )
    x = rng.random(n)
    clean = np.asarray(M.exp(M.origin, (x - 0.5)[:, None] * v))
    return x, np.asarray(
        M.project(clean + np.sqrt(VARIANCE) * rng.standard_normal((n, 3)))
    )


def jacobi_norms(manifold: Sphere | Euclidean) -> tuple[float, float]:
    """‖J_p(1)‖ and ‖J_v(1)‖ as printed (App. A, §4.2)."""
    return (
        (float(np.cos(1)), float(np.sin(1)))
        if isinstance(manifold, Sphere)
        else (1.0, 1.0)
    )


def sequential_sampler(
    manifold: Sphere | Euclidean,
    x: np.ndarray,
    Y: np.ndarray,
    rng: np.random.Generator,
    m: int,
    velocities: int | None = None,
    thin: int = 10,
    law: str = "gradient",
) -> Samples:
    """App. A: m footpoints at ε = 1, then `velocities` (m) velocities at ε = 1 at each of them. NOT PRIVATE."""
    M, count, n = manifold, m if velocities is None else velocities, len(x)
    fit = fit_geodesic(M, x, Y)
    foot, shoot = _potentials(M, x, Y, fit, law)
    tau = float(fit.residuals(x, Y).max())
    if law == "gradient":  # the norm grows like |p − p̂|, and like a third of |v − v̂|
        scales = [2 * tau * norm / n for norm in jacobi_norms(M)]
        reach = [2 * scales[0], 6 * scales[1]]
    else:  # the energy grows like n|p − p̂|², and like n|v − v̂|²/3
        scales = [2 * tau * norm for norm in jacobi_norms(M)]
        reach = [
            2.4 * np.sqrt(scales[0] / (2 * n)),
            2.4 * np.sqrt(3 * scales[1] / (2 * n)),
        ]

    def along(p: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.asarray(M.exp(p, M.from_coordinates(p, z)))

    feet = _walk(
        fit.footpoint[None], foot, scales[0], reach[0], m, thin, rng, along, M.dim
    )[:, 0]

    def straight(v: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.asarray(v + np.asarray(M.from_coordinates(feet, z)))

    start = np.asarray(M.transport(fit.footpoint, feet, fit.velocity))
    shots = _walk(
        start,
        lambda v: shoot(feet, v),
        scales[1],
        reach[1],
        count,
        thin,
        rng,
        straight,
        M.dim,
    )
    return Samples(fit, feet, shots.swapaxes(0, 1))


def _potentials(
    M: Sphere | Euclidean, x: np.ndarray, Y: np.ndarray, fit: GeodesicFit, law: str
) -> tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    """What stands in the exponent for p (v̂ carried along) and for v at p: a gradient's norm, or the energy Σd²."""
    gradient = clipped_gradient(M, x, Y, NO_CLIP, 1.0)

    def energy(p: np.ndarray, v: np.ndarray) -> np.ndarray:
        distances = M.dist(M.exp(p[:, None], x[:, None] * v[:, None]), Y)
        return np.asarray(np.sum(np.asarray(distances) ** 2, axis=1))

    def norm(p: np.ndarray, v: np.ndarray, which: int) -> np.ndarray:
        return (
            energy(p, v)
            if law == "displayed"
            else np.linalg.norm(gradient(p, v)[which], axis=1)
        )

    return lambda p: norm(
        p, np.asarray(M.transport(fit.footpoint, p, fit.velocity)), 0
    ), lambda p, v: norm(p, v, 1)


def imposed(
    M: Sphere,
    fit: GeodesicFit,
    rng: np.random.Generator,
    m: int,
    distance: float,
    degrees: float,
) -> Samples:
    """No sampler: isotropic normal noise of the footpoint (its mean distance) and of the velocity (its sd of angles)."""
    z = rng.standard_normal((m, 2)) * distance / np.sqrt(np.pi / 2)
    feet = np.asarray(M.exp(fit.footpoint, M.from_coordinates(fit.footpoint, z)))
    v = np.asarray(M.transport(fit.footpoint, feet, fit.velocity))[:, None]
    noise = (
        np.radians(degrees)
        * np.linalg.norm(fit.velocity)
        * rng.standard_normal((m, m, 2))
    )
    return Samples(fit, feet, v + np.asarray(M.from_coordinates(feet[:, None], noise)))


def _walk(
    state: np.ndarray,
    norm: Callable[[np.ndarray], np.ndarray],
    scale: float,
    reach: float,
    count: int,
    thin: int,
    rng: np.random.Generator,
    move: Callable[[np.ndarray, np.ndarray], np.ndarray],
    dim: int,
) -> np.ndarray:
    """Metropolis–Hastings on exp(−norm/scale), proposals uniform in a ball of radius `reach` ∝ σ; all rows at once."""
    value, kept = norm(state), []
    for step in range(BURN + count * thin):
        z = rng.standard_normal((len(state), dim))
        z *= (reach * rng.random(len(state)) ** (1 / dim) / np.linalg.norm(z, axis=1))[
            :, None
        ]
        trial = move(state, z)
        found = norm(trial)
        accepted = np.log(rng.random(len(state))) < (value - found) / scale
        state, value = (
            np.where(accepted[:, None], trial, state),
            np.where(accepted, found, value),
        )
        if step >= BURN and (step - BURN) % thin == thin - 1:
            kept.append(state)
    return np.stack(kept)


def errors(
    manifold: Manifold, samples: Samples, x: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """E_ij: the mean absolute error of every private pair, (m, velocities)."""
    M = manifold
    p = samples.footpoints[:, None, None]
    moves = x[:, None] * samples.velocities[:, :, None]
    return np.asarray(np.asarray(M.dist(M.exp(p, moves), Y)).mean(axis=-1))


def angles(M: Manifold, fit: GeodesicFit, p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Signed angles in degrees from the fitted velocity, carried to p, to each v."""
    carried = np.asarray(
        M.to_coordinates(p, M.transport(fit.footpoint, p, fit.velocity))
    )
    z = np.asarray(M.to_coordinates(p, v))
    cross = carried[0] * z[..., 1] - carried[1] * z[..., 0]
    return np.asarray(np.degrees(np.arctan2(cross, z @ carried)))
