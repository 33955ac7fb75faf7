"""What the four geometries of symmetric positive definite matrices share: the set, its tangent spaces, coordinates."""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from array_api_compat import device

from .._validate import integer
from ._namespace import namespace
from .base import Array, Manifold
from .small_eigh import eigh
from .spectral import sym

__all__ = ["SPD", "pack", "unpack"]


def _layout(m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where each coordinate lives in the matrix (row-major lower triangle) and back, with its factor."""
    row, col = np.tril_indices(m)
    place = np.empty((m, m), dtype=np.int64)
    place[row, col] = place[col, row] = np.arange(len(row))
    scale = np.where(np.eye(m, dtype=bool), 1.0, 1 / sqrt(2))
    return row * m + col, np.where(row == col, 1.0, sqrt(2)), place.ravel(), scale


def pack(S: Array) -> Array:
    """Orthonormal coordinates of symmetric S under the Frobenius product: lower triangle, off-diagonal times √2."""
    xp = namespace(S)
    m = S.shape[-1]
    flat, scale, _, _ = _layout(m)
    z = xp.take(xp.reshape(S, (*S.shape[:-2], m * m)), xp.asarray(flat, device=device(S)), axis=-1)
    return z * xp.asarray(scale, dtype=S.dtype, device=device(S))


def unpack(z: Array, m: int) -> Array:
    """Inverse of `pack`."""
    xp = namespace(z)
    _, _, place, scale = _layout(m)
    S = xp.reshape(xp.take(z, xp.asarray(place, device=device(z)), axis=-1), (*z.shape[:-1], m, m))
    return S * xp.asarray(scale, dtype=z.dtype, device=device(z))


@dataclass(frozen=True)
class SPD(Manifold):
    """Symmetric positive definite m×m matrices, without a metric."""

    m: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", integer("m", self.m, 1))

    @property
    def dim(self) -> int:
        return self.m * (self.m + 1) // 2

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.m, self.m)

    @property
    def origin(self) -> Array:
        return np.eye(self.m)

    @property
    def injectivity_radius(self) -> float:
        return inf

    @property
    def convexity_radius(self) -> float:
        return inf

    @property
    def is_homogeneous(self) -> bool:
        return True

    def project(self, x: Array) -> Array:
        """The symmetric part of x with its eigenvalues raised to at least ε·(largest modulus), ε the machine's.

        A matrix that is positive definite already comes back as its symmetric part, untouched; the zero matrix,
        which has no positive neighbour of its own scale, goes to the smallest normal multiple of I.
        """
        xp = namespace(x)
        S = sym(x)
        info = xp.finfo(S.dtype)
        w, U = eigh(S)
        floor = xp.max(xp.abs(w), axis=-1, keepdims=True) * float(info.eps)
        floor = xp.where(floor > float(info.smallest_normal), floor, float(info.smallest_normal))
        lifted = sym((U * xp.where(w < floor, floor, w)[..., None, :]) @ U.mT)
        return xp.where(xp.all(w >= floor, axis=-1)[..., None, None], S, lifted)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """The symmetric part of x: the nearest tangent vector in the Frobenius norm, at any p."""
        xp = namespace(p, x)
        return sym(x) + xp.zeros_like(p)

    def residual(self, p: Array) -> Array:
        """‖p − pᵀ‖ plus how far the least eigenvalue is below the positive ones (0 where p is positive definite)."""
        xp = namespace(p)
        w, _ = eigh(sym(p))
        least = w[..., 0]
        tiny = float(xp.finfo(least.dtype).smallest_normal)
        lack = xp.where(least > 0, xp.zeros_like(least), tiny - least)
        return xp.sqrt(xp.sum((p - p.mT) ** 2, axis=(-2, -1))) + lack
