"""Derivatives of the exponential map by Jacobi fields, in closed form on symmetric
spaces. A Jacobi field is the velocity of a point Exp(p, tv) of a geodesic when p or v
changes. The curvature operator R_v = R(·, v)v at p, a symmetric matrix in orthonormal
coordinates, determines it on a symmetric space.

There the curvature tensor is parallel. So along γ(t) = Exp(p, tv), in a parallel frame,
a Jacobi field satisfies J'' + R_v J = 0 with a constant R_v. With Γ the parallel
transport from p to γ(t),

    d_p Exp(p, tv) = Γ·cos(t√R_v)      and      d_v Exp(p, tv) = t·Γ·sinc(t√R_v).

The adjoints are the same functions after the transport back to p, and negative
eigenvalues turn cos into cosh. Everything here is in the orthonormal coordinates of
`from_coordinates`.
"""

from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.elementary import cos_sinc, cosh_sinhc


def check_symmetric(manifold: Manifold) -> None:
    """Raise an error if the space is not symmetric: its Jacobi fields have no closed form.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.

    Raises
    ------
    ParameterError
        If the manifold is not declared to be a symmetric space.
    """
    if not manifold.is_symmetric:
        raise ParameterError(
            "geodesic regression needs a symmetric space (`is_symmetric`), not "
            f"{manifold!r}"
        )


def jacobi_frame(manifold: Manifold, p: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """Diagonalize the curvature operator R_v = R(·, v)v at p.

    In this frame the differential of the exponential map along v is diagonal: it
    consists of cos and sinc of the square roots of the eigenvalues (`cos_and_sinc`).

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    p : array of shape (..., *point_shape)
        Points.
    v : array of shape (..., *point_shape)
        Tangent vectors at these points.

    Returns
    -------
    eigenvalues : array of shape (..., dim)
        The eigenvalues of R_v, which grow like |v|²; negative in negative curvature.
    eigenvectors : array of shape (..., dim, dim)
        Orthonormal columns, in coordinates at p: the directions of Jacobi fields that
        do not mix.
    """
    operator = manifold.jacobi_operator(p, v)
    # On a flat space, or for v = 0, R_v is 0 and every frame consists of eigenvectors.
    if not operator.any():
        eigenvalues = np.zeros(operator.shape[:-1])
        eigenvectors = np.broadcast_to(np.eye(manifold.dim), operator.shape)
        return eigenvalues, eigenvectors
    eigenvalues, eigenvectors = np.linalg.eigh((operator + operator.mT) / 2)
    return eigenvalues, eigenvectors


def cos_and_sinc(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return cos√u and sin(√u)/√u, which are cosh√−u and sinh(√−u)/√−u where u < 0.

    These are the lengths of Jacobi fields, and hence the factors of the differential of
    the exponential map. Both functions are analytic in u, so that positive and negative
    eigenvalues are treated alike.

    Parameters
    ----------
    square : array
        u, an eigenvalue of the curvature operator R_w = R(·, w)w of a tangent vector w.

    Returns
    -------
    cos : array
        cos√u or cosh√−u, of the shape of `square`.
    sinc : array
        sin(√u)/√u or sinh(√−u)/√−u, and 1 at u = 0.
    """
    # The common case: no curvature is negative.
    if not np.any(square < 0):
        cos, sinc = cos_sinc(np, square)
        return np.asarray(cos), np.asarray(sinc)

    cos, sinc = cos_sinc(np, np.maximum(square, 0.0))
    cosh, sinhc = cosh_sinhc(np, np.maximum(-square, 0.0))
    is_negative = np.asarray(square < 0)
    return (
        np.where(is_negative, np.asarray(cosh), cos),
        np.where(is_negative, np.asarray(sinhc), sinc),
    )
