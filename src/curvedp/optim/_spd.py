"""A step on SPD matrices in coordinates, affine-invariant metric: no tangent vector is ever formed.

With w = LLᵀ the coordinates of a tangent vector v are those of L⁻¹vL⁻ᵀ, so those of log_w z are log(L⁻¹zL⁻ᵀ), and exp_w of
coordinates S is L·e^S·Lᵀ. The general kernels go to the tangent space and back, two triangular congruences that cancel,
and guard digits that noise drowns.
"""

from typing import Any

import jax
import jax.numpy as jnp

from curvedp.geometry.small_eigh import eigh
from curvedp.geometry.spd_common import pack, unpack

__all__ = ["spd_logs", "spd_move"]


def spd_logs(w: Any, records: Any) -> Any:
    """Coordinates of log_w z for each record, shape (k, dim): one factorisation of w serves them all."""
    L = jnp.linalg.cholesky(w)
    inverse = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)
    whitened = inverse @ records @ inverse.T
    values, vectors = eigh(0.5 * (whitened + whitened.mT))
    # Eigenvalues lost to round-off are raised as in `SPD.project`: to eps times the largest.
    least = jnp.finfo(L.dtype).eps * jnp.max(jnp.abs(values), axis=-1, keepdims=True)
    logs = jnp.log(jnp.maximum(values, least))
    return pack((vectors * logs[..., None, :]) @ vectors.mT)


def spd_move(w: Any, coordinates: Any) -> Any:
    """exp_w of the tangent vector with these coordinates, as GGᵀ: symmetric positive definite by construction."""
    values, vectors = eigh(unpack(coordinates, w.shape[-1]))
    G = jnp.linalg.cholesky(w) @ (vectors * jnp.exp(0.5 * values)[None, :])
    return G @ G.T
