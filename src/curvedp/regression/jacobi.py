"""Derivatives of the exponential map by Jacobi fields, in closed form on symmetric spaces.

Along γ(t) = Exp(p, tv) a Jacobi field obeys J'' + R(J, γ')γ' = 0. On a symmetric space the curvature tensor is parallel, so
in a parallel frame this is the constant-coefficient equation J'' + R_v J = 0 with R_v = R(·, v)v at p, and with Γ the
parallel transport from p to γ(t):

    d_p Exp(p, tv) = Γ·cos(t√R_v),      d_v Exp(p, tv) = t·Γ·sinc(t√R_v).

R_v is symmetric, so the adjoints are the same functions after the transport back to p. A negative eigenvalue (negative
curvature) turns cos into cosh. Everything below is in the orthonormal coordinates of `from_coordinates`.
"""

from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.geometry.base import Manifold
from curvedp.geometry.numerics.stable import cos_sinc, cosh_sinhc

__all__ = ["check_symmetric", "constant_curvature", "cos_and_sinc", "curvature_operator", "jacobi_frame"]

_SYMMETRIC = (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
)


def check_symmetric(manifold: Manifold) -> None:
    """Refuse spaces whose Jacobi fields have no closed form here."""
    factors = manifold.factors if isinstance(manifold, Product) else (manifold,)
    for factor in factors:
        if isinstance(factor, Product):
            check_symmetric(factor)
        elif not isinstance(factor, _SYMMETRIC):
            names = ", ".join(kind.__name__ for kind in _SYMMETRIC)
            raise ParameterError(f"geodesic regression needs a symmetric space ({names}, Product), not {factor!r}")


def constant_curvature(manifold: Manifold) -> float | None:
    """κ where every plane has it (0 on curves), else None."""
    low, high = manifold.curvature_bounds
    if manifold.dim == 1:
        return 0.0
    return low if low == high else None


def curvature_operator(manifold: Manifold, p: Any, v: Any) -> np.ndarray:
    """R_v = R(·, v)v at p as symmetric matrices (..., dim, dim) in coordinates."""
    z = np.asarray(manifold.to_coordinates(p, v))
    curvature = constant_curvature(manifold)
    if curvature is not None:
        return np.asarray(curvature * _across(z))
    match manifold:
        case SPDAffineInvariant() | Rotations():
            # The congruence (translation) that carries the identity to p is an isometry: compute at the identity.
            one = manifold.origin
            basis = np.asarray(manifold.from_coordinates(one, np.eye(manifold.dim)))
            S = np.asarray(manifold.from_coordinates(one, z))[..., None, :, :]
            bracket = basis @ S - S @ basis
            return np.asarray(manifold.to_coordinates(one, (S @ bracket - bracket @ S) / 4))  # −¼[[E, S], S]
        case KendallShapes():  # ℂPⁿ: curvature 1, and 3 more along i·v
            turned = z.reshape(*z.shape[:-1], -1, 2)
            turned = np.stack([-turned[..., 1], turned[..., 0]], axis=-1).reshape(z.shape)
            return np.asarray(_across(z) + 3 * turned[..., :, None] * turned[..., None, :])
        case Grassmann():
            p, v = np.asarray(p)[..., None, :, :], np.asarray(v)[..., None, :, :]
            basis = np.asarray(manifold.from_coordinates(p, np.eye(manifold.dim)))
            image = v @ (v.mT @ basis) + basis @ (v.mT @ v) - 2 * v @ (basis.mT @ v)
            return np.asarray(manifold.to_coordinates(p, image))
        case Product():
            blocks = [
                curvature_operator(factor, a, b)
                for factor, a, b in zip(manifold.factors, manifold.split(p), manifold.split(v), strict=True)
            ]
            whole = np.zeros((*z.shape, manifold.dim))
            start = 0
            for factor, block in zip(manifold.factors, blocks, strict=True):
                part = slice(start, start + factor.dim)
                whole[..., part, part] = block
                start += factor.dim
            return whole
    raise ParameterError(f"no Jacobi fields in closed form on {manifold!r}")


def jacobi_frame(manifold: Manifold, p: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (..., dim) and orthonormal eigenvectors (..., dim, dim) of R_v; columns are Jacobi directions."""
    operator = curvature_operator(manifold, p, v)
    if not operator.any():
        return np.zeros(operator.shape[:-1]), np.broadcast_to(np.eye(manifold.dim), operator.shape)
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
    return np.where(negative, np.asarray(cosh), cos), np.where(negative, np.asarray(sinhc), sinc)


def _across(z: np.ndarray) -> np.ndarray:
    """|z|²I − zzᵀ."""
    square = np.sum(z * z, axis=-1)[..., None, None]
    return np.asarray(square * np.eye(z.shape[-1]) - z[..., :, None] * z[..., None, :])
