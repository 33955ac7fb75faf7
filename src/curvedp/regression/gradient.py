"""The gradient of E(p, v; D) = (1/2n) Σ d²(Exp(p, xᵢv), yᵢ) with every residual clipped to length τ, at many (p, v) at once.

∇_p E = −(1/n) Σ cos(xᵢ√R_v)·hᵢ and ∇_v E = −(1/n) Σ xᵢ·sinc(xᵢ√R_v)·hᵢ, where hᵢ is the clipped residual
log(Exp(p, xᵢv), yᵢ) carried back to p (Fletcher 2011, with the Jacobi fields of `jacobi.py`).

`clipped_direction` clips each record's whole contribution instead, which is what a Gaussian release wants.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from curvedp.geometry.capabilities import UnitQuadric
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.regression.jacobi import cos_and_sinc, jacobi_frame

# (p, v) of shapes (N, *point_shape) -> mean clipped descent directions (−∇_p E, −∇_v E), coordinates (N, dim) each
Gradient = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_FAST_REACH = 4.0
_WORK = 1 << 15  # records times parameters held at once: arrays stay in the cache


def clipped_gradient(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: float | np.ndarray,
    reach: float,
) -> Gradient:
    """The mean clipped descent direction of the records, as a function of (p, v); one clip for all, or one for each.

    `reach` bounds how far records and predictions are from the manifold's origin; far out on the hyperboloid the ambient
    products of the fast path would cancel, e^(2·reach) times the float spacing.
    """
    kappa = manifold.constant_curvature or 0.0
    fast = isinstance(manifold, UnitQuadric) and (
        kappa > 0 or (kappa < 0 and reach <= _FAST_REACH)
    )
    each = (
        _on_quadric if fast else _flat if isinstance(manifold, Euclidean) else _anywhere
    )
    rows = max(1, _WORK // len(x))
    clip = np.broadcast_to(clip, x.shape)

    def gradient(p: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [
            each(manifold, x, Y, clip, p[i : i + rows], v[i : i + rows])
            for i in range(0, len(p), rows)
        ]
        foot, shoot = zip(*parts, strict=True)
        return np.concatenate(foot), np.concatenate(shoot)

    return gradient


def prediction_distances(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray, p: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """d(Exp(p, xᵢv), yᵢ) at every (p, v), shape (N, n)."""
    axes, rows = (1,) * len(manifold.point_shape), max(1, _WORK // len(x))
    parts, x = (
        (slice(i, i + rows) for i in range(0, len(p), rows)),
        x.reshape(-1, *axes),
    )
    return np.concatenate(
        [
            np.asarray(manifold.dist(manifold.exp(p[i, None], x * v[i, None]), Y))
            for i in parts
        ]
    )


def clipped_direction(
    manifold: Manifold,
    t: np.ndarray,
    unit: float,
    Y: np.ndarray,
    clip: float,
    p: np.ndarray,
    V: np.ndarray,
    codes: np.ndarray | None = None,
) -> np.ndarray:
    """The mean of (C·h, t₁S·h, …, t_kS·h) over records, each clipped to length τ as ONE vector, or over persons; (k+1, dim).

    t: centered predictors in a public unit, (n, k); V: (k, *point_shape). C = cos√R, S = sinc√R of the record's own move
    Σ t_j·unit·v_j. It is the descent direction in the parameters (p, v₁·unit, …, v_k·unit). One record, or one person with
    all theirs, moves it by at most 2τ/n, whatever the curvature and the number of predictors; `codes` say whose each is.
    """
    rows = _clipped(contributions(manifold, t, unit, Y, p, V).whole, clip)
    return mean_over_persons(rows, clip, codes).reshape(-1, manifold.dim)


class Contributions(NamedTuple):
    """Of each record: (C·h, t₁S·h, …), unclipped and in one row; the lengths of its move and of its residual h."""

    whole: np.ndarray
    moves: np.ndarray
    residuals: np.ndarray


def contributions(
    manifold: Manifold,
    t: np.ndarray,
    unit: float,
    Y: np.ndarray,
    p: np.ndarray,
    V: np.ndarray,
) -> Contributions:
    """What `clipped_direction` clips, and what bounds how it changes."""
    moves = np.tensordot(unit * t, V, axes=1)
    h = residuals_at(manifold, p, moves, Y)
    if (
        len(V) == 1
    ):  # all moves share a direction, so one frame serves, with the square of x as its time
        values, frame = jacobi_frame(manifold, p, V[0])
        values, frame = values * (unit * t) ** 2, frame[None]
    else:
        values, frame = jacobi_frame(manifold, p, moves)
    local = (h[:, None] @ frame)[:, 0]
    foot, shoot = (
        (frame @ (factor * local)[:, :, None])[:, :, 0]
        for factor in cos_and_sinc(values)
    )
    whole = np.concatenate([foot[:, None], t[:, :, None] * shoot[:, None]], axis=1)
    return Contributions(
        whole.reshape(len(t), -1),
        np.asarray(manifold.norm(p, moves)),
        np.linalg.norm(h, axis=-1),
    )


def mean_over_persons(
    rows: np.ndarray, longest: float, codes: np.ndarray | None
) -> np.ndarray:
    """The mean over persons of the mean of each one's rows, none of which is longer than `longest`."""
    if codes is not None and len(np.unique(codes)) < len(codes):
        totals = np.zeros((codes.max() + 1, rows.shape[1]))
        np.add.at(totals, codes, rows)  # each person's in their own order
        rows = _clipped(
            totals / np.bincount(codes)[:, None], longest
        )  # a mean of rounded rows may be a little longer
    return np.asarray(rows.mean(axis=0))


def residuals_at(
    manifold: Manifold, p: np.ndarray, moves: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """log(Exp(p, move), y) carried back to p, in coordinates."""
    q = manifold.exp(p, moves)
    return np.asarray(
        manifold.to_coordinates(p, manifold.transport(q, p, manifold.log(q, Y)))
    )


def _anywhere(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    axes = (1,) * len(manifold.point_shape)
    h = residuals_at(
        manifold, p[:, None], x.reshape(-1, *axes) * v[:, None], Y
    )  # (N, n, dim)
    h = _clipped(h, clip[:, None])
    values, frame = jacobi_frame(manifold, p, v)
    h = h @ frame
    cos, sinc = cos_and_sinc(values[:, None, :] * (x * x)[:, None])
    foot, shoot = np.mean(cos * h, axis=1), np.mean(x[:, None] * sinc * h, axis=1)
    return np.einsum("nij,nj->ni", frame, foot), np.einsum("nij,nj->ni", frame, shoot)


def _flat(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Linear regression: the Jacobi fields are 1 and x."""
    h = _clipped(Y - p[:, None] - x[:, None] * v[:, None], clip[:, None])
    return np.mean(h, axis=1), np.einsum("n,mnd->md", x, h) / len(x)


def _clipped(h: np.ndarray, clip: float | np.ndarray) -> np.ndarray:
    """Rows of length at most `clip`; one that is not finite is data as well, and counts for 0."""
    length = np.sqrt(np.sum(h * h, axis=-1, keepdims=True))
    usable = np.isfinite(length)
    shares = np.where(length > clip, clip / np.where(length > 0, length, 1.0), 1.0)
    return np.where(usable, np.where(usable, h, 0.0) * shares, 0.0)


def _on_quadric(
    manifold: Manifold,
    x: np.ndarray,
    Y: np.ndarray,
    clip: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sphere and hyperboloid: with e = v/|v| only ⟨p,y⟩ and ⟨e,y⟩ are needed, and matrix products do the rest.

    At q = cos·p + sin·e with velocity t = cos·e ∓ sin·p, the residual is f·(y's part along t, y's part across both),
    f = min(d, τ)/sin d (sinh d). The part across is carried back unchanged, and is that of y itself.
    """
    n = len(x)
    speed = np.asarray(manifold.norm(p, v))
    moving = speed > 0
    e = np.where(
        moving[:, None],
        v,
        np.asarray(manifold.from_coordinates(p, np.eye(manifold.dim)[0])),
    )
    e = e / np.asarray(manifold.norm(p, e))[:, None]
    assert isinstance(manifold, UnitQuadric)  # the caller has asked
    metric = (Y * manifold.embedding_signature).T
    a, b = p @ metric, e @ metric
    angle = speed[:, None] * x
    if manifold.constant_curvature == -1:
        cos, sin = np.cosh(angle), np.sinh(angle)
        along, level = (
            cos * b + sin * a,
            cos * a + sin * b,
        )  # ⟨t, y⟩ and ⟨q, y⟩ = −cosh d
        sine = np.sqrt(np.maximum(level * level - 1, 0.0))
        d = np.arcsinh(sine)
    else:
        cos, sin = np.cos(angle), np.sin(angle)
        along, level = cos * b - sin * a, cos * a + sin * b
        sine = np.sqrt(np.maximum(1 - level * level, 0.0))
        d = np.arctan2(sine, level)
    f = np.minimum(d, clip) / np.where(sine > 0, sine, 1.0)
    f = np.where(sine > 0, f, 1.0)
    lever = np.where(moving[:, None], sin / np.where(moving, speed, 1.0)[:, None], x)
    unit = np.asarray(manifold.to_coordinates(p, e))

    def collected(tangential: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = np.asarray(
            manifold.to_coordinates(p, manifold.to_tangent(p, weights @ Y))
        )
        across = total - np.sum(total * unit, axis=1, keepdims=True) * unit
        return np.asarray((across + tangential[:, None] * unit) / n)

    along = f * along
    return collected(along.sum(axis=1), f * cos), collected(along @ x, f * lever)
