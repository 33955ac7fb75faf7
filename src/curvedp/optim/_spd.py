"""A step on SPD matrices in coordinates, affine-invariant metric: no tangent vector is ever formed.

With w = LLᵀ the coordinates of a tangent vector v are those of L⁻¹vL⁻ᵀ, so those of log_w z are log(L⁻¹zL⁻ᵀ), and exp_w of
coordinates S is L·e^S·Lᵀ. The general kernels go to the tangent space and back, two triangular congruences that cancel,
and guard digits that noise drowns.
"""

from typing import Any

import jax
import jax.numpy as jnp

from curvedp.geometry.manifolds.spd_common import pack, unpack
from curvedp.geometry.numerics.small_eigh import eigh

__all__ = ["spd_carry", "spd_logs", "spd_move"]


def spd_logs(w: Any, records: Any) -> Any:
    """Coordinates of log_w z for each record, shape (k, dim): one factorisation of w serves them all."""
    values, vectors = _pencil(jnp.linalg.cholesky(w), records)
    return pack((vectors * jnp.log(values)[..., None, :]) @ vectors.mT)


def spd_move(w: Any, coordinates: Any) -> Any:
    """exp_w of the tangent vector with these coordinates, as GGᵀ: symmetric positive definite by construction."""
    values, vectors = eigh(unpack(coordinates, w.shape[-1]))
    G = jnp.linalg.cholesky(w) @ (vectors * jnp.exp(0.5 * values)[None, :])
    return G @ G.T


def spd_carry(p: Any, q: Any, coordinates: Any) -> Any:
    """Parallel transport in coordinates: S -> QSQᵀ with Q = M⁻¹L·A^½ orthogonal, p = LLᵀ, q = MMᵀ, A = L⁻¹qL⁻ᵀ."""
    L = jnp.linalg.cholesky(p)
    values, vectors = _pencil(L, q)
    root = (vectors * jnp.sqrt(values)[None, :]) @ vectors.T
    Q = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(q), L @ root, lower=True)
    return pack(Q @ unpack(coordinates, p.shape[-1]) @ Q.T)


def _pencil(L: Any, z: Any) -> tuple[Any, Any]:
    """Eigenvalues, vectors of L⁻¹zL⁻ᵀ; values lost to round-off are raised as in `SPD.project`, to eps times the largest."""
    inverse = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)
    whitened = inverse @ z @ inverse.T
    values, vectors = eigh(0.5 * (whitened + whitened.mT))
    return jnp.maximum(values, jnp.finfo(L.dtype).eps * jnp.max(jnp.abs(values), axis=-1, keepdims=True)), vectors
