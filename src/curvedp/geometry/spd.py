"""Symmetric positive definite matrices under the affine-invariant metric; the other three metrics re-exported."""

from dataclasses import dataclass

from ._namespace import namespace
from .base import Array
from .spd_bures import SPDBuresWasserstein
from .spd_common import SPD, pack, unpack
from .spd_flat import SPDLogCholesky, SPDLogEuclidean
from .spectral import apply, divided_exp, log1p_sym, sandwich, sqrt_sym, sym
from .triangular import cholesky, whiten

__all__ = ["SPDAffineInvariant", "SPDBuresWasserstein", "SPDLogCholesky", "SPDLogEuclidean"]


@dataclass(frozen=True)
class SPDAffineInvariant(SPD):
    """SPD(m) with ⟨U,V⟩_P = tr(P⁻¹U P⁻¹V): a Hadamard manifold, curvature in [−½, 0] (Bhatia 2007, ch. 6; SPEC §2).

    Everything goes through the congruence S ↦ L S Lᵀ with P = LLᵀ (Cholesky), an isometry that carries I to P.

    >>> import numpy as np
    >>> M = SPDAffineInvariant(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e, 1.0])))
    1.0
    """

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (-0.5, 0.0) if self.m > 1 else (0.0, 0.0)

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        L = cholesky(p)
        A = whiten(L, v)
        near = p + sandwich(L, apply(A, xp.expm1, divided_exp))
        half = L @ apply(0.5 * A, xp.exp, divided_exp)
        small = xp.max(xp.abs(A), axis=(-2, -1), keepdims=True) < 0.5
        return sym(xp.where(small, near, half @ half.mT))

    def log(self, p: Array, q: Array) -> Array:
        L = cholesky(p)
        return sym(sandwich(L, log1p_sym(whiten(L, q - p))))

    def dist(self, p: Array, q: Array) -> Array:
        return self.norm(p, self.log(p, q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        L = cholesky(p)
        return xp.sum(whiten(L, u) * whiten(L, v), axis=(-2, -1))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Parallel along the geodesic: v ↦ E v Eᵀ with E = (qp⁻¹)^½ = L A^½ L⁻¹, A = L⁻¹qL⁻ᵀ."""
        L = cholesky(p)
        R = sqrt_sym(whiten(L, q))
        return sym(sandwich(L @ R, whiten(L, v)))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return sandwich(cholesky(p), unpack(z, self.m))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return pack(whiten(cholesky(p), v))
