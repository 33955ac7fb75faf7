"""Rotation groups SO(n)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp.geometry.manifold import Array, bracket_jacobi_operator, fact
from curvedp.geometry.spaces.frames import Frames
from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import cos_sinc, versine_quotient
from curvedp.numerics.matrix_functions import (
    det,
    skew,
    skew_from_vector,
    skew_to_vector,
    svd,
)
from curvedp.numerics.rotation_log import rotation_log


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

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return −¼[[·, V], V] in coordinates (Helgason 1978, IV.4)."""
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        return bracket_jacobi_operator(self, p, v)

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

    def from_record(self, x: Array) -> Array:
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
