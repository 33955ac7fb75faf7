"""A search for records that move the regression's gradient most.

It looks for adjacent data sets and places (p, v) of the domain at which one record
moves a norm of the gradient most: random search, then gradient ascent. A sensitivity
below what is found is refuted.
"""

from typing import Any

import numpy as np

from curvedp.geometry.manifold import Manifold
from curvedp.regression.bounds import PREDICTOR_UNIT, endpoint_clips, endpoint_norm
from curvedp.regression.gradient import residuals_at
from curvedp.regression.jacobi import cos_and_sinc, jacobi_frame

NORMS = ("foot", "velocity", "joint", "endpoint")


def contribution(M: Manifold, p: Any, v: Any, x: Any, Y: Any) -> Any:
    """(−∇_p, −∇_v) of one record for each row, and the length of its residual."""
    h = residuals_at(M, p, x.reshape(-1, *[1] * len(M.point_shape)) * v, Y)
    values, frame = jacobi_frame(M, p, v)
    cos, sinc = cos_and_sinc(values * (x * x)[:, None])
    local = np.einsum("ni,nij->nj", h, frame)
    foot, shoot = (
        np.einsum("nij,nj->ni", frame, f * local) for f in (cos, x[:, None] * sinc)
    )
    return foot, shoot, np.linalg.norm(h, axis=1)


def change(
    M: Manifold,
    which: str,
    z: Any,
    speed: float,
    clip: float,
    span: tuple[float, float],
) -> Any:
    """How far one replaced record moves a norm of the gradient, for n = 1: a row of z is p, v, and the two records."""
    d = M.dim
    p = M.exp(M.origin, M.from_coordinates(M.origin, 0.3 * np.tanh(z[:, :d])))
    w = z[:, d : 2 * d]
    v = M.from_coordinates(
        p, w * np.minimum(speed / np.linalg.norm(w, axis=1), 1.0)[:, None]
    )
    sides = []
    for k in (0, 1):
        x = span[0] + (span[1] - span[0]) * np.clip(z[:, 2 * d + k], 0, 1)
        q = M.exp(p, x.reshape(-1, *[1] * len(M.point_shape)) * v)
        e = z[:, 2 * d + 2 + k * d : 2 * d + 2 + (k + 1) * d]
        e = (
            1.2 * clip * e / np.linalg.norm(e, axis=1, keepdims=True)
        )  # longer than the clip
        foot, shoot, length = contribution(
            M, p, v, x, M.exp(q, M.transport(p, q, M.from_coordinates(p, e)))
        )
        if (
            which == "joint"
        ):  # the whole contribution is clipped, in the units of descent
            shoot = shoot / PREDICTOR_UNIT
            length = np.hypot(
                np.linalg.norm(foot, axis=1), np.linalg.norm(shoot, axis=1)
            )
        most = endpoint_clips(clip, x) if which == "endpoint" else clip
        share = np.minimum(1.0, most / length)[:, None]
        sides.append((share * foot, share * shoot))
    foot, shoot = (a - b for a, b in zip(*sides, strict=True))
    if which == "endpoint":
        return endpoint_norm(foot, shoot)
    lengths = {
        "foot": np.linalg.norm(foot, axis=1),
        "velocity": np.linalg.norm(shoot, axis=1),
    }
    return (
        np.hypot(lengths["foot"], lengths["velocity"])
        if which == "joint"
        else lengths[which]
    )


def attack(
    M: Manifold,
    speed: float,
    clip: float,
    span: tuple[float, float],
    seed: int,
    pairs: int,
    ascent: int = 0,
) -> tuple[dict[str, float], int]:
    """Largest change found of ∇_p, ∇_v, the clipped whole and the endpoint norm, and how many adjacent pairs were tried.

    First `pairs` at random and twelve rounds of moving the best tenth about; then `ascent` steps of gradient ascent (central
    differences, each start with its own step) from the best 32.
    """
    rng, d = np.random.default_rng(seed), M.dim
    found, tried = {}, 0
    for which in NORMS:

        def measure(z: Any, which: str = which) -> Any:
            nonlocal tried
            tried += len(z)
            return change(M, which, z, speed, clip, span)

        z = 2 * rng.standard_normal((pairs, 4 * d + 2))
        ends = (
            np.round(2 * rng.random((pairs, 2))) / 2
        )  # predictors start at the ends and the middle
        z[:, 2 * d : 2 * d + 2] = ends + 0.1 * rng.standard_normal((pairs, 2))
        value = measure(z)
        for r in range(12):
            best = np.argsort(-value)[: pairs // 10]
            z = np.concatenate([z[best], np.repeat(z[best], 9, axis=0)])
            z[len(best) :] += (
                0.5 * 0.7**r * rng.standard_normal((len(z) - len(best), z.shape[1]))
            )
            value = measure(z)
        z, value = z[np.argsort(-value)[:32]], np.sort(value)[::-1][:32]
        step, h = np.full((len(z), 1), 0.1), 1e-6
        for _ in range(ascent):
            moves = h * np.concatenate([np.eye(z.shape[1]), -np.eye(z.shape[1])])
            sides = measure((z[:, None] + moves).reshape(-1, z.shape[1])).reshape(
                len(z), 2, -1
            )
            slope = sides[:, 0] - sides[:, 1]
            size = np.linalg.norm(slope, axis=1, keepdims=True)
            trial = z + step * slope / np.where(size > 0, size, 1.0)
            reached = measure(trial)
            better = (reached > value)[:, None]
            z, value, step = (
                np.where(better, trial, z),
                np.maximum(reached, value),
                step * np.where(better, 1.5, 0.5),
            )
        found[which] = float(value.max())
    return found, tried
