"""Derivatives of the exponential map by Jacobi fields, in closed form on symmetric spaces.

There the curvature tensor is parallel, so that along γ(t) = Exp(p, tv), in a parallel frame, J'' + R_v J = 0 with a constant
R_v = R(·, v)v at p. With Γ the parallel transport from p to γ(t), d_p Exp(p, tv) = Γ·cos(t√R_v) and d_v Exp(p, tv) =
t·Γ·sinc(t√R_v); the adjoints are the same functions after the transport back to p, and negative eigenvalues turn cos into
cosh. Everything below is in the orthonormal coordinates of `from_coordinates`.
"""

from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.elementary import cos_sinc, cosh_sinhc


def check_symmetric(manifold: Manifold) -> None:
    """Refuse spaces whose Jacobi fields have no closed form here."""
    if not manifold.is_symmetric:
        raise ParameterError(
            f"geodesic regression needs a symmetric space (`is_symmetric`), not {manifold!r}"
        )


def jacobi_frame(manifold: Manifold, p: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (..., dim) and orthonormal eigenvectors (..., dim, dim) of R_v; columns are Jacobi directions."""
    operator = manifold.jacobi_operator(p, v)
    if not operator.any():
        return np.zeros(operator.shape[:-1]), np.broadcast_to(
            np.eye(manifold.dim), operator.shape
        )
    values, vectors = np.linalg.eigh((operator + operator.mT) / 2)
    return values, vectors


def cos_and_sinc(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """cos√u and sin√u/√u, which are cosh√−u and sinh√−u/√−u where u < 0."""
    if not np.any(square < 0):
        cos, sinc = cos_sinc(np, square)
        return np.asarray(cos), np.asarray(sinc)
    cos, sinc = cos_sinc(np, np.maximum(square, 0.0))
    cosh, sinhc = cosh_sinhc(np, np.maximum(-square, 0.0))
    negative = np.asarray(square < 0)
    return np.where(negative, np.asarray(cosh), cos), np.where(
        negative, np.asarray(sinhc), sinc
    )
