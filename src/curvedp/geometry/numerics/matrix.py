"""Matrix functions the matrix manifolds share, with first derivatives that survive repeated singular values.

Each function computes its value from a decomposition of a copy cut off from differentiation and then adds a term that
is zero in value and carries the exact first derivative, written with divided differences (Daleckii & Krein 1965):
f(A) = f(A₀) + Df(A₀)[A − A₀], A₀ = constant(A). A decomposition itself has no derivative where values repeat, and at
p = q they all do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device

from curvedp.geometry.numerics.namespace import Array, constant, differentiable, like, namespace
from curvedp.geometry.numerics.stable import safe_sqrt


def bmm(*factors: Array) -> Array:
    """Product of matrices from the left, so that thin factors stay thin."""
    product = factors[0]
    for factor in factors[1:]:
        product = product @ factor
    return product


def norm(v: Array) -> Array:
    """√tr(vᵀv) without overflow or underflow; NaN stays NaN."""
    xp = namespace(v)
    largest = constant(xp.max(xp.abs(v), axis=(-2, -1), keepdims=True))
    scale = xp.where(largest == 0, 1.0, largest)
    unit = v / scale
    return safe_sqrt(xp, xp.sum(unit * unit, axis=(-2, -1))) * scale[..., 0, 0]  # its derivative at 0 is taken to be 0


def skew(x: Array) -> Array:
    """Skew-symmetric part."""
    return (x - x.mT) / 2


def sinc(xp: Any, x: Array) -> Array:
    """sin(x)/x, 1 at 0."""
    zero = x == 0
    safe = xp.where(zero, 1.0, x)
    return xp.where(zero, 1.0, xp.sin(safe) / safe)


def svd(x: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition (U, s, Vᵀ); all NaN for a matrix that is not finite, where LAPACK would raise."""
    xp = namespace(x)
    x, finite = _finite(xp, x)
    U, s, Vh = xp.linalg.svd(x, full_matrices=False)
    return xp.where(finite, U, xp.nan), xp.where(finite[..., 0], s, xp.nan), xp.where(finite, Vh, xp.nan)


def well_scaled(x: Array) -> Array:
    """Matrices divided by their largest entry in modulus, so that no square overflows or vanishes; 0 stays 0."""
    xp = namespace(x)
    largest = xp.max(xp.abs(x), axis=(-2, -1), keepdims=True)
    return x / xp.where(largest > 0, largest, 1.0)


def det(x: Array) -> Array:
    """Determinant; NaN, without a warning, for a matrix that is not finite."""
    xp = namespace(x)
    x, finite = _finite(xp, x)
    return xp.where(finite[..., 0, 0], xp.linalg.det(x), xp.nan)


def skew_eigen(W: Array) -> tuple[Array, Array]:
    """(w, Z) with W = Z diag(iw) Z*, Z unitary, for skew W; w is NaN for a matrix that is not finite."""
    xp = namespace(W)
    W, finite = _finite(xp, W)
    kind = xp.complex64 if W.dtype == xp.float32 else xp.complex128
    w, Z = xp.linalg.eigh(xp.astype(W, kind) * -1j)
    return xp.where(finite[..., 0], w, xp.nan), Z


def _finite(xp: Any, x: Array) -> tuple[Array, Array]:
    finite = xp.all(xp.isfinite(x), axis=(-2, -1), keepdims=True)
    return xp.where(finite, x, 0.0), finite


def sym_function(A: Array, U: Array, values: Array, divided: Callable[[], Array]) -> Array:
    """f(A) for symmetric A with eigenvectors U, f's `values` and `divided` differences at its eigenvalues, all constants."""
    value = (U * values[..., None, :]) @ U.mT
    if not differentiable(A):
        return value
    return value + bmm(U, divided() * bmm(U.mT, A - constant(A), U), U.mT)


def polar(C: Array) -> tuple[Array, Array, Array]:
    """(W, c, U): the orthogonal polar factor W of a square C = U diag(c) Uᵀ W; c descending, (c, U) constants.
    Where singular values vanish W is one of several, always the same. The derivative solves Ωᵢⱼ(cᵢ + cⱼ) = Xᵢⱼ −
    Xⱼᵢ, X = Uᵀ dC V, dW = U Ω Vᵀ (Higham 2008, Functions of Matrices, §8.2)."""
    xp = namespace(C)
    base = constant(C)
    U, c, Vh = svd(base)
    W = U @ Vh
    if not differentiable(C):
        return W, c, U
    X = bmm(U.mT, C - base, Vh.mT)
    total = c[..., :, None] + c[..., None, :]
    omega = xp.where(total > 0, (X - X.mT) / xp.where(total > 0, total, 1.0), 0.0)
    return W + bmm(U, omega, Vh), c, U


def skew_exp(W: Array) -> tuple[Array, Array]:
    """(exp W − I, φ₁(W)) for skew W, φ₁(z) = (e^z − 1)/z, from the Hermitian eigen-system of −iW. Unitary
    eigenvectors make exp W orthogonal to round-off whatever the size of W, and exp W − I keeps the digits of a small
    W. φ₁ is returned as a constant; exp carries its derivative (Fréchet derivative by divided differences)."""
    xp = namespace(W)
    base = constant(W)
    w, Z = skew_eigen(base)
    value, mean = skew_exp_eigen(w, Z)
    if differentiable(W):
        half, Zh = w / 2, xp.conj(Z).mT
        turn = phase(xp, half, Z.dtype)
        K = turn[..., :, None] * turn[..., None, :]
        K = K * xp.astype(sinc(xp, half[..., :, None] - half[..., None, :]), Z.dtype)
        value = value + xp.real(bmm(Z, K * bmm(Zh, xp.astype(W - base, Z.dtype), Z), Zh))
    return value, mean


def skew_exp_eigen(w: Array, Z: Array) -> tuple[Array, Array]:
    """The values of `skew_exp` from the eigen-system of `skew_eigen`."""
    xp = namespace(w, Z)
    half, Zh = w / 2, xp.conj(Z).mT
    phi1 = phase(xp, half, Z.dtype) * xp.astype(sinc(xp, half), Z.dtype)
    value = xp.real((Z * (phi1 * xp.astype(w, Z.dtype) * 1j)[..., None, :]) @ Zh)
    return value, xp.real((Z * phi1[..., None, :]) @ Zh)


def phase(xp: Any, w: Array, kind: Any) -> Array:
    """e^{iw}, of that complex type."""
    return xp.astype(xp.cos(w), kind) + 1j * xp.astype(xp.sin(w), kind)


def reflect(p: Array, x: Array) -> Array:
    """H x with the block reflector H of the orthonormal m×r frame p, in O(mr²) (Schreiber & Parlett 1988). With E
    the first r columns of I and W the polar factor of the top block of p, Y = pWᵀ + E gives the symmetric
    orthogonal H = I − Y (I + EᵀpWᵀ)⁻¹ Yᵀ. It sends E to −pWᵀ, so it carries the complement of span E to the
    complement of span p. I + EᵀpWᵀ has its eigenvalues in [1, 2]: nothing cancels."""
    xp = namespace(p, x)
    m, r = p.shape[-2:]
    W, _, _ = polar(p[..., :r, :])
    E = like(p, np.eye(m, r))
    Y = p @ W.mT + E
    top = Y[..., :r, :]
    return x - Y @ xp.linalg.solve((top + top.mT) / 2, Y.mT @ x)


def spread(z: Array, factor: np.ndarray) -> Array:
    """Symmetric matrices whose entries below the diagonal, row by row, are the last axis of z, times `factor`, which is 0 on
    the diagonal, entry by entry."""
    xp, n = namespace(z), len(factor)
    place = np.zeros((n, n), dtype=np.int64)
    place[np.tril_indices(n, -1)] = np.arange(n * (n - 1) // 2)
    full = xp.take(z, xp.asarray((place + place.T).ravel(), device=device(z)), axis=-1)
    return xp.reshape(full, (*z.shape[:-1], n, n)) * like(z, factor)


def below(A: Array) -> Array:
    """The entries below the diagonal, row by row."""
    xp, n = namespace(A), A.shape[-1]
    flat = xp.asarray(np.flatnonzero(np.tri(n, k=-1)), device=device(A))
    return xp.take(xp.reshape(A, (*A.shape[:-2], n * n)), flat, axis=-1)


def skew_from_vector(z: Array, n: int) -> Array:
    """The skew n×n matrix with these entries below the diagonal."""
    lower = np.tri(n, k=-1)
    return spread(z, lower - lower.T) if n > 1 else like(z, np.zeros((*z.shape[:-1], 1, 1)))


def skew_to_vector(A: Array) -> Array:
    """Inverse of `skew_from_vector` on skew matrices; the skew part is taken."""
    return below(skew(A)) if A.shape[-1] > 1 else A[..., 0, :0]


def bracket_operator(M: Any, p: Array, v: Array) -> np.ndarray:
    """−¼[[·, V], V] at the identity, to which an isometry that keeps coordinates carries p: `curvature_operator` of a
    symmetric space of matrices."""
    one = M.origin
    basis = np.asarray(M.from_coordinates(one, np.eye(M.dim)))
    V = np.asarray(M.from_coordinates(one, np.asarray(M.to_coordinates(p, v))))[..., None, :, :]
    bracket = basis @ V - V @ basis
    return np.asarray(M.to_coordinates(one, (V @ bracket - bracket @ V) / 4))
