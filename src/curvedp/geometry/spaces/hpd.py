"""Hermitian positive definite matrices under the affine-invariant metric. They are
complex covariance matrices, such as cross-spectral matrices. A point is stored as a
real array, with real and imaginary parts on the last axis.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from curvedp.errors import ParameterError
from curvedp.geometry.capabilities import AffineInvariantCone
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.matrix_functions import lower_triangle


@dataclass(frozen=True)
class HPDAffineInvariant(PullbackManifold, AffineInvariantCone):
    """Hermitian positive definite m×m matrices with ⟨U, V⟩_P = Re tr(P⁻¹U P⁻¹V).

    This is a Hadamard manifold with curvature −¼‖[X, Y]‖² in [−½, 0] (Böttcher & Wenzel
    2008), as for real matrices. A point is a real array of shape (m, m, 2), with real
    and imaginary parts on the last axis; `from_complex` and `to_complex` convert.

    If each entry a + ib is replaced by the block [[a, −b], [b, a]], the matrix becomes a
    point of SPD(2m). The images are a totally geodesic part of SPD(2m), in which
    distances are √2 times as large. So all kernels are those of SPD(2m), and as
    accurate.

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

    @cached_property
    def model(self) -> SPDAffineInvariant:
        """The space in which kernels are computed: real SPD matrices with 2m rows."""
        return SPDAffineInvariant(2 * self.m)

    @property
    def dim(self) -> int:
        """The dimension m²: m real diagonal entries, m(m − 1)/2 complex ones below."""
        return self.m**2

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is an m×m matrix of pairs: real and imaginary part of each entry."""
        return (self.m, self.m, 2)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds [−½, 0] of sectional curvatures; 0 for m = 1, which is a curve."""
        return (-0.5, 0.0) if self.m > 1 else (0.0, 0.0)

    @cached_property
    def jacobi_spectrum(self) -> tuple[tuple[float, int], ...] | None:
        """The curvatures of planes that contain a unit velocity, with multiplicities.

        They are known for m ≤ 2, where HPD(2) is ℝ × H³ with curvature −½. On larger
        matrices they depend on the velocity, and this is None.
        """
        if self.m == 1:
            return ()
        return ((-0.5, 2),) if self.m == 2 else None

    @property
    def cone_size(self) -> tuple[int, int]:
        """The pair (m, 2): m rows of complex numbers, of two real dimensions each."""
        return (self.m, 2)

    @staticmethod
    def from_complex(x: Any) -> np.ndarray:
        """Return complex matrices (..., m, m) as points (..., m, m, 2).

        Use it to turn complex covariance matrices into records.

        Parameters
        ----------
        x : array of shape (..., m, m)
            Complex Hermitian matrices.

        Returns
        -------
        array of shape (..., m, m, 2)
            Their real and imaginary parts, on the last axis.

        Raises
        ------
        ParameterError
            If x does not consist of numbers.
        """
        x = np.asarray(x)
        if x.dtype.kind not in "biufc":
            raise ParameterError(
                f"x must be an array of complex numbers, not of {x.dtype}"
            )
        return np.stack([x.real, x.imag], axis=-1).astype(np.float64)

    @staticmethod
    def to_complex(p: Any) -> np.ndarray:
        """Return points as complex NumPy matrices.

        Parameters
        ----------
        p : array of shape (..., m, m, 2)
            Points: real and imaginary parts along the last axis.

        Returns
        -------
        array of complex, shape (..., m, m)
            The matrices.
        """
        p = np.asarray(p)
        return np.asarray(p[..., 0] + 1j * p[..., 1])

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent matrix at p nearest to x: its Hermitian part."""
        return _hermitian_part(x) + namespace(p, x).zeros_like(p)

    # The map to real blocks is linear, so it is its own differential.

    def to_model(self, x: Array) -> Array:
        """Return the real matrix with a block [[a, −b], [b, a]] for each entry a + ib.

        This map to SPD(2m) is an isometry, up to the factor √2.

        Parameters
        ----------
        x : array of shape (..., m, m, 2)
            Points: real and imaginary parts on the last axis.

        Returns
        -------
        array of shape (..., 2m, 2m)
            Points of the model.
        """
        xp = namespace(x)
        a, b = x[..., 0], x[..., 1]
        first_rows = xp.stack([a, -b], axis=-1)
        second_rows = xp.stack([b, a], axis=-1)
        blocks = xp.stack([first_rows, second_rows], axis=-3)  # (…, i, row, j, column)
        return xp.reshape(blocks, (*a.shape[:-2], 2 * self.m, 2 * self.m))

    def from_model(self, y: Array) -> Array:
        """Return the Hermitian matrix whose real blocks are nearest to those of y.

        The real block of an entry a + ib is [[a, −b], [b, a]].

        Parameters
        ----------
        y : array of shape (..., 2m, 2m)
            A point of the model space.

        Returns
        -------
        array of shape (..., m, m, 2)
            Real and imaginary parts, on the last axis.
        """
        xp = namespace(y)
        blocks = xp.reshape(y, (*y.shape[:-2], self.m, 2, self.m, 2))
        real = blocks[..., :, 0, :, 0] + blocks[..., :, 1, :, 1]
        imaginary = blocks[..., :, 1, :, 0] - blocks[..., :, 0, :, 1]
        return _hermitian_part(xp.stack([real, imaginary], axis=-1) / 2)

    def coordinates_to_model(self, z: Array) -> Array:
        """Return the coordinates in SPD(2m) of a vector with coordinates z.

        The real symmetric matrix with 2m rows contains every coordinate of the
        Hermitian matrix twice, up to sign. Both copies are divided by √2, so that the
        length stays the same.

        Parameters
        ----------
        z : array of shape (..., dim)
            Coordinates of a tangent vector.

        Returns
        -------
        array of shape (..., m(2m + 1))
            Coordinates of its image in the model.
        """
        xp = namespace(z)
        pattern = _copy_pattern(self.m)
        source = xp.asarray(pattern.source, device=device(z))
        copies = xp.take(z, source, axis=-1)
        return copies * like(z, pattern.sign * math.sqrt(0.5))

    def coordinates_from_model(self, z: Array) -> Array:
        """Return the coordinates of a vector that has coordinates z in SPD(2m).

        The two copies of each coordinate are added, up to sign, and divided by √2.

        Parameters
        ----------
        z : array of shape (..., m(2m + 1))
            Coordinates of a tangent vector of the model.

        Returns
        -------
        array of shape (..., dim)
            The coordinates here.
        """
        xp = namespace(z)
        pattern = _copy_pattern(self.m)
        weighted = z * like(z, pattern.sign * math.sqrt(0.5))
        copy_indices = xp.asarray(pattern.copy_indices, device=device(z))
        copies = xp.take(weighted, copy_indices, axis=-1)
        return xp.sum(xp.reshape(copies, (*copies.shape[:-1], self.dim, 2)), axis=-1)


class _CopyPattern(NamedTuple):
    """How the coordinates of SPD(2m), in the order of `pack`, copy those of HPD(m).

    Attributes
    ----------
    source : array of int, shape (m(2m + 1),)
        For each coordinate of SPD(2m), the index of the coordinate that it copies.
    sign : array of shape (m(2m + 1),)
        The sign of the copy, 1 or −1; 0 for a coordinate that is always 0.
    copy_indices : array of int, shape (2m²,)
        The indices in SPD(2m) of the two copies of each coordinate of HPD(m), in pairs.
    """

    source: np.ndarray
    sign: np.ndarray
    copy_indices: np.ndarray


@cache
def _copy_pattern(m: int) -> _CopyPattern:
    """Return how coordinates of real 2m×2m matrices copy those of Hermitian m×m ones.

    The coordinates of a Hermitian matrix are its diagonal, then the real parts below the
    diagonal and then the imaginary parts. To find the pattern, a Hermitian matrix whose
    coordinates are 1, 2, 3, … is turned into a real matrix. Up to sign, each entry of
    that matrix is then the number of the coordinate that it copies.

    Parameters
    ----------
    m : int
        The number of rows of the Hermitian matrices.

    Returns
    -------
    _CopyPattern
        The index and the sign of each copy, and the positions of all copies.
    """
    # The Hermitian matrix whose coordinates are their own numbers, from 1 on.
    row, column = np.tril_indices(m, -1)
    n_below = len(row)
    diagonal = np.arange(m)
    real = m + 1 + np.arange(n_below)
    imaginary = m + 1 + n_below + np.arange(n_below)
    numbered = np.zeros((m, m, 2))
    numbered[diagonal, diagonal, 0] = 1 + diagonal
    numbered[row, column, 0] = real
    numbered[column, row, 0] = real
    numbered[row, column, 1] = imaginary
    numbered[column, row, 1] = -imaginary

    # The lower triangle of its real form.
    real_form = HPDAffineInvariant(m).to_model(numbered)
    signed_numbers = np.asarray(lower_triangle(real_form, 0))
    numbers = np.abs(signed_numbers).astype(int)
    return _CopyPattern(
        source=np.maximum(numbers - 1, 0),
        sign=np.sign(signed_numbers),
        # In the order of numbers, the m entries 0, which copy nothing, come first.
        copy_indices=np.argsort(numbers, kind="stable")[m:],
    )


def _hermitian_part(x: Array) -> Array:
    """Return the Hermitian part (x + x*)/2 of complex matrices.

    Parameters
    ----------
    x : array of shape (..., m, m, 2)
        Matrices a + ib, real and imaginary parts along the last axis.

    Returns
    -------
    array of shape (..., m, m, 2)
        The Hermitian parts (a + aᵀ)/2 + i·(b − bᵀ)/2, stored in the same way.
    """
    a, b = x[..., 0], x[..., 1]
    return namespace(x).stack([a + a.mT, b - b.mT], axis=-1) / 2
