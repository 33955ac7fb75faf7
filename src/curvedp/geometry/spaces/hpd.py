"""Hermitian positive definite matrices under the affine-invariant metric: complex covariances."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import device

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.matrix_functions import below


@dataclass(frozen=True)
class HPDAffineInvariant(PullbackManifold):
    """Hermitian positive definite m×m matrices with ⟨U, V⟩_P = Re tr(P⁻¹U P⁻¹V): Hadamard, curvature in [−½, 0].

    A point is a real array (m, m, 2), real and imaginary parts on the last axis; `from_complex` and `to_complex`
    translate. Replacing each entry a + ib by the block [[a, −b], [b, a]] makes it a point of SPD(2m), a totally
    geodesic part of it at √2 times the distance, and a real Cholesky factor of these blocks is that of the complex
    one: every kernel is SPD's, with its digits. Curvature is −¼‖[X, Y]‖² ≥ −½ (Böttcher & Wenzel 2008), as for real
    matrices.

    Parameters
    ----------
    m : int
        The size of the matrices.

    Examples
    --------
    >>> M = HPDAffineInvariant(2)
    >>> x = M.from_complex(np.array([[2.0, 1.0j], [-1.0j, 2.0]]))
    >>> float(np.round(M.dist(M.origin, x), 12))  # eigenvalues 1 and 3
    1.098612288668
    """

    kind = "hpd-affine"
    scale = 1 / math.sqrt(2)
    m: int
    sizes = (("m", 1),)
    carries = True
    is_cone = True
    model = fact(lambda self: SPDAffineInvariant(2 * self.m))
    dim = fact(lambda self: self.m**2)
    point_shape = fact(lambda self: (self.m, self.m, 2))
    curvature_bounds = fact(lambda self: (-0.5, 0.0) if self.m > 1 else (0.0, 0.0))
    # HPD(2) is ℝ × H³ with κ = −½; on larger matrices the curvatures depend on the velocity.
    jacobi_spectrum = fact(
        lambda self: () if self.m == 1 else ((-0.5, 2),) if self.m == 2 else None
    )
    positive_matrices = fact(lambda self: (self.m, 2))
    euclidean_factor = SPDAffineInvariant.euclidean_factor

    @staticmethod
    def from_complex(x: Any) -> np.ndarray:
        """Complex matrices (..., m, m) as points (..., m, m, 2)."""
        x = np.asarray(x)
        if x.dtype.kind not in "biufc":
            raise ParameterError(
                f"x must be an array of complex numbers, not of {x.dtype}"
            )
        return np.stack([x.real, x.imag], axis=-1).astype(np.float64)

    @staticmethod
    def to_complex(p: Any) -> np.ndarray:
        """Inverse of `from_complex`."""
        p = np.asarray(p)
        return np.asarray(p[..., 0] + 1j * p[..., 1])

    def to_tangent(self, p: Array, x: Array) -> Array:
        """The Hermitian part of x."""
        return _hermitian(x) + namespace(p, x).zeros_like(p)

    # To real blocks and back: linear, so the differentials are the same.

    def to_model(self, x: Array) -> Array:
        xp = namespace(x)
        a, b = x[..., 0], x[..., 1]
        blocks = xp.stack(
            [xp.stack([a, -b], axis=-1), xp.stack([b, a], axis=-1)], axis=-3
        )  # (..., i, row, j, column)
        return xp.reshape(blocks, (*a.shape[:-2], 2 * self.m, 2 * self.m))

    def from_model(self, y: Array) -> Array:
        xp = namespace(y)
        y = xp.reshape(y, (*y.shape[:-2], self.m, 2, self.m, 2))
        a = y[..., :, 0, :, 0] + y[..., :, 1, :, 1]
        return _hermitian(
            xp.stack([a, y[..., :, 1, :, 0] - y[..., :, 0, :, 1]], axis=-1) / 2
        )

    def _lift(self, z: Array) -> Array:
        xp, (number, sign, _) = namespace(z), _blocks(self.m)
        return xp.take(z, xp.asarray(number, device=device(z)), axis=-1) * like(
            z, sign * math.sqrt(0.5)
        )

    def _drop(self, z: Array) -> Array:
        xp, (_, sign, copies) = namespace(z), _blocks(self.m)
        z = xp.take(
            z * like(z, sign * math.sqrt(0.5)),
            xp.asarray(copies, device=device(z)),
            axis=-1,
        )
        return xp.sum(xp.reshape(z, (*z.shape[:-1], self.dim, 2)), axis=-1)


@cache
def _blocks(m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each coordinate in SPD(2m), in the order of `pack`: which coordinate of a Hermitian matrix it copies (diagonal,
    real and imaginary parts below it) and with which sign, 0 where it copies none. And where the two copies of each are."""
    row, col = np.tril_indices(m, -1)
    real, imaginary = m + 1 + np.arange(2 * len(row)).reshape(2, -1)
    x = np.zeros((m, m, 2))
    x[np.arange(m), np.arange(m), 0] = 1 + np.arange(m)
    x[row, col, 0] = x[col, row, 0] = real
    x[row, col, 1], x[col, row, 1] = imaginary, -imaginary
    numbers = np.asarray(below(HPDAffineInvariant(m).to_model(x), 0))
    number = np.abs(numbers).astype(int)
    return (
        np.maximum(number - 1, 0),
        np.sign(numbers),
        np.argsort(number, kind="stable")[m:],
    )


def _hermitian(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    return namespace(x).stack([a + a.mT, b - b.mT], axis=-1) / 2
