"""Logarithms of rotation matrices that keep their digits near 0 and near π."""

from typing import Any

import numpy as np
from array_api_compat import device

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.elementary import safe_sqrt
from curvedp.numerics.matrix_functions import (
    phase,
    sinc,
    skew,
    skew_eigen,
    skew_from_vector,
    svd,
    turned,
)


def rotation_log(D: Array) -> Array:
    """Ω of least norm with exp Ω = I + D, for a rotation I + D; relative to D accurate however small D is."""
    n = D.shape[-1]
    if n == 2:
        sine, cosine = (
            (D[..., 1, 0] - D[..., 0, 1]) / 2,
            1 + (D[..., 0, 0] + D[..., 1, 1]) / 2,
        )
        return skew_from_vector(namespace(D).atan2(sine, cosine)[..., None], 2)
    return D - D if n == 1 else _log3(D) if n == 3 else _log_n(D)


def _log3(D: Array) -> Array:
    """Through the unit quaternion h = (cos θ/2, axis·sin θ/2). All of 4hhᵀ is linear in the rotation; its column
    with the largest diagonal entry (≥ 1) gives h without cancellation (Shepperd 1978): for θ next to π that is the
    symmetric part, for small θ the skew part."""
    xp = namespace(D)
    a, b, c = D[..., 0, 0], D[..., 1, 1], D[..., 2, 2]
    x, y, z = (
        D[..., 2, 1] - D[..., 1, 2],
        D[..., 0, 2] - D[..., 2, 0],
        D[..., 1, 0] - D[..., 0, 1],
    )
    xy, xz, yz = (
        D[..., 0, 1] + D[..., 1, 0],
        D[..., 0, 2] + D[..., 2, 0],
        D[..., 1, 2] + D[..., 2, 1],
    )
    rows = (
        [4 + a + b + c, x, y, z],
        [x, a - b - c, xy, xz],
        [y, xy, b - a - c, yz],
        [z, xz, yz, c - a - b],
    )
    columns = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
    diagonal = xp.linalg.diagonal(columns)
    pick = xp.argmax(diagonal, axis=-1, keepdims=True) == xp.arange(
        4, device=device(diagonal)
    )
    column = xp.sum(xp.where(pick[..., None], columns, 0.0), axis=-2)
    column = xp.where(column[..., :1] < 0, -column, column)
    vector = column[..., 1:]
    length = safe_sqrt(xp, xp.sum(vector * vector, axis=-1, keepdims=True))
    zero = length == 0
    safe = xp.where(zero, 1.0, length)
    turn = xp.where(
        zero,
        2 / xp.where(zero, column[..., :1], safe),
        2 * xp.atan2(safe, column[..., :1]) / safe,
    )
    axis = turn * vector
    return skew_from_vector(
        xp.stack([axis[..., 2], -axis[..., 1], axis[..., 0]], axis=-1), 3
    )


def _log_n(D: Array) -> Array:
    """Through the half-angle rotation, whose angles stay below π/2 where sine and cosine are told apart. (I + R)/2
    = R^{1/2} cos(Θ/2), so its singular values c are the cosines of half the angles and, with K the skew part of D,
    K = 2 sin(Θ/2)cos(Θ/2)J gives the skew part B = K/(2c) of R^{1/2}. The singular vectors of B then span the
    planes of rotation and θ/2 = atan2(sin, cos) in each. Where c is 0 to round-off K has at most the orientation
    left, and neighboring singular vectors (c comes in equal pairs) span planes that turn by π."""
    xp = namespace(D)
    base = constant(D)
    n = D.shape[-1]
    _, c, Vh = svd(like(D, np.eye(n)) + base / 2)
    V = Vh.mT
    K = Vh @ skew(base) @ V
    lost = c < 1e-12
    flat = lost[..., :, None] & lost[..., None, :]
    turns, last = (
        np.zeros((n, n)),
        np.arange(n - 1, 0, -2),
    )  # quarter turns; the first axis is left alone for odd n
    turns[last, last - 1], turns[last - 1, last] = 1.0, -1.0
    quarter = like(D, turns)
    quarter = xp.where(K == 0, quarter, xp.abs(quarter) * xp.sign(K))
    B = xp.where(
        flat, quarter, K / xp.where(flat, 1.0, c[..., :, None] + c[..., None, :])
    )
    left, s, Wh = svd(skew(B))
    cosine = xp.sqrt(xp.sum((c[..., :, None] * Wh.mT) ** 2, axis=-2))
    inner = (left * (2 * xp.atan2(s, cosine))[..., None, :]) @ Wh
    omega = V @ skew(inner) @ Vh
    return omega + _log_change(xp, omega, D - base) if differentiable(D) else omega


def _log_change(xp: Any, omega: Array, change: Array) -> Array:
    """Derivative of the logarithm at exp Ω in direction `change`: the inverse of the one of exp, entry by entry."""
    w, Z = skew_eigen(omega)
    half = w / 2
    sine = sinc(xp, half[..., :, None] - half[..., None, :])
    usable = (
        xp.abs(sine) > 1e-12
    )  # two directions that turn by +π and −π: the cut locus, no derivative
    size = xp.where(usable, 1 / xp.where(usable, sine, 1.0), 0.0)
    K = xp.astype(size, Z.dtype) * phase(
        xp, -(half[..., :, None] + half[..., None, :]), Z.dtype
    )
    return skew(turned(K, Z, change))
