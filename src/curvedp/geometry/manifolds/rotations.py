"""Rotation groups SO(n)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device

from curvedp.geometry.base import Array, fact
from curvedp.geometry.manifolds.frames import Frames
from curvedp.geometry.numerics import matrix
from curvedp.geometry.numerics.matrix import (
    det,
    skew,
    skew_from_vector,
    skew_to_vector,
    svd,
)
from curvedp.geometry.numerics.namespace import (
    constant,
    differentiable,
    like,
    namespace,
)
from curvedp.geometry.numerics.stable import cos_sinc, safe_sqrt, versine_quotient


@dataclass(frozen=True)
class Rotations(Frames):
    """Rotation matrices SO(n), n ≥ 2, with the bi-invariant metric ½tr(uᵀv): on SO(3) the distance is the angle.

    Tangent vectors at p are ambient: p times a skew matrix. Distance √Σθ² over the planes of rotation of pᵀq.

    Parameters
    ----------
    n : int
        The dimension of the space that is turned.

    Examples
    --------
    >>> M = Rotations(3)
    >>> turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> round(float(M.dist(M.origin, turn) * 2 / np.pi), 12)
    1.0
    """

    kind = "rotations"
    n: int
    sizes = (("n", 2),)
    dim = fact(lambda self: self.n * (self.n - 1) // 2)
    point_shape = fact(lambda self: (self.n, self.n))
    # K = ¼‖[X, Y]‖²: constant ¼ on SO(3); for n ≥ 4 ‖[X,Y]‖_F ≤ ‖X‖_F‖Y‖_F (Bloch & Iserles 2005; Ge 2014).
    curvature_bounds = fact(
        lambda self: ((0.0, 0.0), (0.25, 0.25), (0.0, 0.5))[min(self.n, 4) - 2]
    )
    # π: exp is injective as long as every plane turns by less than π, and one plane alone has length its angle.
    injectivity_radius = math.pi
    is_symmetric = True
    # Of matrices over √n, the trace of a rotation being at least −n, and 2 − n for an odd n.
    embedded_diameter = fact(
        lambda self: 2.0 * math.sqrt((self.n - self.n % 2) / self.n)
    )
    _curvature_operator = matrix.bracket_operator

    def exp(self, p: Array, v: Array) -> Array:
        return p + p @ _exp(namespace(p, v), skew(p.mT @ v))

    def log(self, p: Array, q: Array) -> Array:
        """p log(pᵀq). Where a plane turns by π, one of the shortest velocities, always the same."""
        return p @ rotation_log(p.mT @ (q - p))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return super().inner(p, u, v) / 2

    def norm(self, p: Array, v: Array) -> Array:
        return super().norm(p, v) * math.sqrt(0.5)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Parallel along the shortest geodesic: p e^{Ω/2} A e^{Ω/2} for v = pA, q = pe^Ω."""
        half = _exp(namespace(p, q, v), rotation_log(p.mT @ (q - p)) / 2)
        middle = (p + p @ half) @ (p.mT @ v)
        return middle + middle @ half

    def project(self, x: Array) -> Array:
        """The nearest rotation: the polar factor with its least certain direction turned where the determinant is −1."""
        return self._polar(x)[0]

    def nearest(self, x: Array) -> Array:
        """`project` at any scale, where the nearest rotation is the only one: σ_{n−1} ± σ_n > 0, the sign that of det x."""
        xp = namespace(x)
        point, s, sign = self._polar(matrix.well_scaled(x))
        only = (
            s[..., -2] + sign * s[..., -1]
            > self.n * float(xp.finfo(s.dtype).eps) * s[..., 0]
        )
        return xp.where(only[..., None, None], point, xp.nan)

    @staticmethod
    def _polar(x: Array) -> tuple[Array, Array, Array]:
        """The nearest rotation, the singular values, and the sign of the determinant."""
        xp = namespace(x)
        U, s, Vh = svd(x)
        parity = det(U) * det(Vh)
        sign = xp.where(parity < 0, -1.0, xp.ones_like(parity))
        last = U[..., :, -1:] * sign[..., None, None]
        return xp.concat([U[..., :, :-1], last], axis=-1) @ Vh, s, sign

    def to_tangent(self, p: Array, x: Array) -> Array:
        return p @ skew(p.mT @ x)

    def residual(self, p: Array) -> Array:
        """Frobenius norm of pᵀp − I, plus the distance of the determinant from 1."""
        return super().residual(p) + namespace(p).abs(det(p) - 1)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return p @ skew_from_vector(z, self.n)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return skew_to_vector(p.mT @ v)


def _exp(xp: Any, omega: Array) -> Array:
    """exp Ω − I: Rodrigues' formula up to n = 3, the eigen-system of Ω beyond."""
    if omega.shape[-1] > 3:
        return matrix.skew_exp(omega)[0]
    square = xp.sum(omega * omega, axis=(-2, -1), keepdims=True) / 2
    return cos_sinc(xp, square)[1] * omega + versine_quotient(xp, square) * (
        omega @ omega
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
    w, Z = matrix.skew_eigen(omega)
    half = w / 2
    sine = matrix.sinc(xp, half[..., :, None] - half[..., None, :])
    usable = (
        xp.abs(sine) > 1e-12
    )  # two directions that turn by +π and −π: the cut locus, no derivative
    size = xp.where(usable, 1 / xp.where(usable, sine, 1.0), 0.0)
    K = xp.astype(size, Z.dtype) * matrix.phase(
        xp, -(half[..., :, None] + half[..., None, :]), Z.dtype
    )
    return skew(matrix.turned(K, Z, change))
