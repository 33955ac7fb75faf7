"""Cholesky factors and triangular solves, batched, for array libraries that have none (or raise on bad data).

Each is a loop over the m columns or rows of Array-API operations on the whole batch. JAX has its own, which give NaN where
others raise, and which compile in one piece.
"""

from typing import Any

from array_api_compat import device, is_jax_namespace

from curvedp.geometry.numerics.namespace import Array, namespace


def cholesky(A: Array) -> Array:
    """Lower L with LLᵀ = A; NaN (never an exception) where A is not positive definite."""
    xp = namespace(A)
    if is_jax_namespace(xp):
        return xp.linalg.cholesky(A)
    m = A.shape[-1]
    index = xp.arange(m, device=device(A))
    columns = []
    for j in range(m):
        pivot = A[..., j, j]
        root = xp.where(pivot > 0, xp.sqrt(xp.where(pivot > 0, pivot, 1.0)), xp.nan)
        column = xp.where(index >= j, A[..., :, j] / root[..., None], 0.0)
        columns.append(column)
        A = A - column[..., :, None] * column[..., None, :]
    return xp.stack(columns, axis=-1)


def lower_solve(L: Array, B: Array) -> Array:
    """L⁻¹B by forward substitution."""
    xp = namespace(L, B)
    if is_jax_namespace(xp):
        return _jax_solve(xp, L, B, trans=0)
    rows: list[Array] = []
    for i in range(L.shape[-1]):
        b = B[..., i, :]
        for k, row in enumerate(rows):
            b = b - L[..., i, k, None] * row
        rows.append(b / L[..., i, i, None])
    return xp.stack(xp.broadcast_arrays(*rows), axis=-2)


def upper_solve(L: Array, B: Array) -> Array:
    """L⁻ᵀB by back substitution, L lower triangular."""
    xp = namespace(L, B)
    if is_jax_namespace(xp):
        return _jax_solve(xp, L, B, trans=1)
    return xp.flip(lower_solve(xp.flip(L.mT, axis=(-2, -1)), xp.flip(B, axis=-2)), axis=-2)


def _jax_solve(xp: Any, L: Array, B: Array, trans: int) -> Array:
    import jax

    batch = xp.broadcast_shapes(L.shape[:-2], B.shape[:-2])
    L, B = xp.broadcast_to(L, (*batch, *L.shape[-2:])), xp.broadcast_to(B, (*batch, *B.shape[-2:]))
    return jax.scipy.linalg.solve_triangular(L, B, trans=trans, lower=True)


def whiten(L: Array, S: Array) -> Array:
    """L⁻¹ S L⁻ᵀ for symmetric S, symmetric to the last bit."""
    W = lower_solve(L, lower_solve(L, S).mT)
    return 0.5 * (W + W.mT)


def cholesky_change(L: Array, v: Array) -> Array:
    """X lower triangular with v = LXᵀ + XLᵀ: L(L⁻¹vL⁻ᵀ)_½, with half of the diagonal (Lin 2019, Prop. 4)."""
    xp, A = namespace(L, v), whiten(L, v)
    index = xp.arange(A.shape[-1], device=device(A))
    return L @ xp.where(index[:, None] == index, 0.5 * A, xp.tril(A))


def cholesky_minus_identity(E: Array) -> Array:
    """F lower triangular with (I+F)(I+F)ᵀ = I+E, never adding the identity: small E keeps its digits."""
    xp = namespace(E)
    m = E.shape[-1]
    index = xp.arange(m, device=device(E))
    columns = []
    for j in range(m):
        s = E[..., j, j]
        root = xp.where(s > -1, xp.sqrt(1 + xp.where(s > -1, s, 0.0)), xp.nan)
        diagonal = (s / (1 + root))[..., None]  # √(1+s) − 1
        below = xp.where(index > j, E[..., :, j] / root[..., None], 0.0)
        columns.append(xp.where(index == j, diagonal, below))
        E = E - below[..., :, None] * below[..., None, :]
    return xp.stack(columns, axis=-1)
