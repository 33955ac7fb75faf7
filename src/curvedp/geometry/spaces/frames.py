"""What the spaces of matrices with orthonormal columns share."""

from typing import ClassVar

import numpy as np
from array_api_compat import device

from curvedp.geometry.manifold import Array, Manifold, fact
from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import like, namespace


class Embedded(Manifold):
    """Homogeneous spaces of matrices with the metric of the embedding, tr(uᵀv), the same at every point."""

    is_homogeneous = True

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        _, u, v = xp.broadcast_arrays(p, u, v)
        return xp.sum(u * v, axis=(-2, -1))

    def norm(self, p: Array, v: Array) -> Array:
        return matrix.norm(namespace(p, v).broadcast_arrays(p, v)[1])


class Frames(Embedded):
    """Matrices of m rows and r orthonormal columns, or what such matrices stand for."""

    m: int
    r: int
    sizes: ClassVar[tuple[tuple[str, int], ...]] = (("m", 2), ("r", 1))
    embedded_diameter = fact(lambda self: 2.0)
    point_shape = fact(lambda self: (self.m, self.r))
    origin = property(lambda self: np.eye(*self.point_shape))

    def project(self, x: Array) -> Array:
        """The nearest frame, the polar factor of x."""
        U, _, Vh = matrix.svd(x)
        return U @ Vh

    def from_record(self, x: Array) -> Array:
        """The polar factor of x at any scale; columns that are dependent, to round-off, have none."""
        xp = namespace(x)
        U, s, Vh = matrix.svd(matrix.well_scaled(x))
        found = s[..., -1] > x.shape[-2] * float(xp.finfo(s.dtype).eps) * s[..., 0]
        return xp.where(found[..., None, None], U @ Vh, xp.nan)

    def embedded(self, X: Array) -> np.ndarray:
        X = np.asarray(X)
        return np.asarray(X.reshape(*X.shape[:-2], -1) / X.shape[-1] ** 0.5)

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.project(z.reshape(*z.shape[:-1], *self.point_shape)))

    def residual(self, p: Array) -> Array:
        """Frobenius norm of pᵀp − I."""
        xp = namespace(p)
        gap = p.mT @ p - like(p, np.eye(p.shape[-1]))
        return xp.sqrt(xp.sum(gap * gap, axis=(-2, -1)))

    def _leaving(self, p: Array, z: Array) -> Array:
        """The tangent vector orthogonal to the span of p with these coordinates."""
        xp = namespace(p, z)
        block = xp.reshape(z, (*z.shape[:-1], self.m - self.r, self.r))
        top = xp.zeros((*z.shape[:-1], self.r, self.r), dtype=z.dtype, device=device(z))
        return matrix.reflect(p, xp.concat([top, block], axis=-2))

    def _leaving_coordinates(self, p: Array, v: Array) -> Array:
        """Inverse of `_leaving`, of the part of v that is orthogonal to p."""
        block = matrix.reflect(p, v)[..., self.r :, :]
        return namespace(p, v).reshape(
            block, (*block.shape[:-2], (self.m - self.r) * self.r)
        )
