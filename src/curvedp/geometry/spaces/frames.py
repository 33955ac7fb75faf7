"""Base classes of the spaces whose points are matrices with orthonormal columns. They
are the Stiefel manifold, the Grassmann manifold, rotations, and (with complex vectors)
Kendall's shapes.
"""

from typing import ClassVar

import numpy as np
from array_api_compat import device

from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.geometry.manifold import Array
from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import like, namespace


class EmbeddedMetric(EmbeddedMean):
    """Homogeneous spaces of matrices with the metric tr(uᵀv) of the ambient space."""

    is_homogeneous = True

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product tr(uᵀv) of u and v, tangent matrices at any point p.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        u, v : arrays of shape (..., *point_shape)
            Tangent vectors at p.

        Returns
        -------
        array of shape (...)
            The inner products.
        """
        xp = namespace(p, u, v)
        _, u, v = xp.broadcast_arrays(p, u, v)
        return xp.sum(u * v, axis=(-2, -1))

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length of v, a tangent matrix at any point p: its Frobenius norm.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (...)
            The lengths.
        """
        _, v = namespace(p, v).broadcast_arrays(p, v)
        return matrix.norm(v)


class OrthonormalFrames(EmbeddedMetric):
    """Spaces whose points are m×r matrices with orthonormal columns, called frames.

    On some of these spaces a point is a class of such matrices, such as all bases of a
    subspace.

    Parameters
    ----------
    m, r : int
        The numbers of rows and of columns.
    """

    m: int
    r: int
    sizes: ClassVar[tuple[tuple[str, int], ...]] = (("m", 2), ("r", 1))

    @property
    def embedded_diameter(self) -> float:
        """The largest distance of two embedded frames: 2, because they are unit vectors."""
        return 2.0

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a matrix of m rows and r columns."""
        return (self.m, self.r)

    @property
    def origin(self) -> Array:
        """The first r columns of the identity."""
        rows, columns = self.point_shape
        return np.eye(rows, columns)

    def project(self, x: Array) -> Array:
        """Return the matrix with orthonormal columns nearest to x.

        It is the polar factor UVᵀ of the singular value decomposition x = U·S·Vᵀ.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, usually one near the manifold.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        U, _, Vh = matrix.svd(x)
        return U @ Vh

    def from_record(self, x: Array) -> Array:
        """Return the frame nearest to a record x, which may have any scale.

        It is the orthogonal polar factor of x. If the columns of x are linearly
        dependent, up to round-off, there is no single nearest frame and the result is
        NaN.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        xp = namespace(x)
        U, singular_values, Vh = matrix.svd(matrix.well_scaled(x))
        eps = float(xp.finfo(singular_values.dtype).eps)
        smallest = singular_values[..., -1]
        largest = singular_values[..., 0]
        has_full_rank = smallest > x.shape[-2] * eps * largest
        return xp.where(has_full_rank[..., None, None], U @ Vh, xp.nan)

    def embed(self, X: Array) -> np.ndarray:
        """Return frames X as unit vectors: their entries, divided by √r (NumPy).

        Parameters
        ----------
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., k)
            Their embeddings (NumPy).
        """
        X = np.asarray(X)
        return np.asarray(X.reshape(*X.shape[:-2], -1) / X.shape[-1] ** 0.5)

    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the frame nearest to a vector z, read as the entries of an m×r matrix."""
        return np.asarray(self.project(z.reshape(*z.shape[:-1], *self.point_shape)))

    def residual(self, p: Array) -> Array:
        """Return how far the columns of p are from orthonormal.

        It is the Frobenius norm of pᵀp − I.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals; 0 on the manifold.
        """
        xp = namespace(p)
        gap = p.mT @ p - like(p, np.eye(p.shape[-1]))
        return xp.sqrt(xp.sum(gap * gap, axis=(-2, -1)))

    def _normal_from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector orthogonal to the columns of p with coordinates z.

        The block reflector of p is an orthogonal matrix that carries the matrices whose
        first r rows are 0 to those whose columns are orthogonal to the columns of p.

        Parameters
        ----------
        p : array of shape (..., m, r)
            A point.
        z : array of shape (..., (m − r)·r)
            The coordinates.

        Returns
        -------
        array of shape (..., m, r)
            A matrix whose columns are orthogonal to those of p.
        """
        # The matrix with r rows of zeros above the coordinates, reflected.
        xp = namespace(p, z)
        block = xp.reshape(z, (*z.shape[:-1], self.m - self.r, self.r))
        top = xp.zeros((*z.shape[:-1], self.r, self.r), dtype=z.dtype, device=device(z))
        return matrix.reflect(p, xp.concat([top, block], axis=-2))

    def _normal_coordinates_of(self, p: Array, v: Array) -> Array:
        """Return the coordinates of the part of v orthogonal to the columns of p.

        This is the inverse of `_normal_from_coordinates`.

        Parameters
        ----------
        p, v : arrays of shape (..., m, r)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., (m − r)·r)
            The coordinates.
        """
        block = matrix.reflect(p, v)[..., self.r :, :]
        n_coordinates = (self.m - self.r) * self.r
        return namespace(p, v).reshape(block, (*block.shape[:-2], n_coordinates))
