"""Eigen-systems of batches of symmetric matrices, w ascending and A V = V diag(w)."""

from ._namespace import namespace
from .base import Array

__all__ = ["eigh"]


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and orthonormal eigenvectors (columns) of the symmetric matrices A (..., m, m)."""
    xp = namespace(A)
    # LAPACK raises on NaN; a data-dependent exception would be a release, so NaN goes in as 0 and comes out as NaN.
    finite = xp.all(xp.isfinite(A), axis=(-2, -1), keepdims=True)
    w, V = xp.linalg.eigh(xp.where(finite, A, xp.zeros_like(A)))
    return xp.where(finite[..., 0], w, xp.nan), xp.where(finite, V, xp.nan)
