"""Derivatives of the exponential map of the Bures–Wasserstein metric, which is not a symmetric space, in closed form.

Exp(p, v) = (I+L)p(I+L) with L = L_p[v], Lp + pL = v. The geodesic equation p'' = 2LpL gives the connection: along dp = u,
with K = L_p[u], a parallel v changes by dv = KpL + LpK, hence L by dL = −L_p[pKL + LKp].
"""

import numpy as np

from curvedp.geometry import SPDBuresWasserstein
from curvedp.geometry.base import Manifold

__all__ = ["bures_derivatives", "bures_parallel", "bures_shifted"]


def bures_derivatives(
    manifold: SPDBuresWasserstein, p: np.ndarray, moves: np.ndarray, Y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At q = Exp(p, move) for each of n moves: the residual log(q, y), d_p Exp (v parallel) and d_v Exp, in coordinates.

    Shapes (n, dim), (n, dim, dim), (n, dim, dim); columns belong to the coordinates at p.
    """
    q = np.asarray(manifold.exp(p, moves))
    h = np.asarray(manifold.to_coordinates(q, manifold.log(q, Y)))
    L = _lyapunov(p, moves)[:, None]
    one = np.eye(manifold.m) + L
    u = np.asarray(manifold.from_coordinates(p, np.eye(manifold.dim)))
    K = _lyapunov(p, u)
    turned = _lyapunov(p, -2 * _sym(p @ K @ L))  # dL for dp = u
    foot = one @ u @ one + 2 * _sym(turned @ p @ one)
    shoot = 2 * _sym(K @ p @ one)
    jacobians = (np.asarray(manifold.to_coordinates(q[:, None], part)).mT for part in (foot, shoot))
    return h, *jacobians  # type: ignore[return-value]  # two of them


def bures_parallel(p: np.ndarray, u: np.ndarray, V: np.ndarray) -> np.ndarray:
    """V moved along u by parallel transport, to first order."""
    return np.asarray(V + 2 * _sym(_lyapunov(p, u) @ p @ _lyapunov(p, V)))


def bures_shifted(manifold: Manifold, p: np.ndarray, v: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
    """(γ(time), γ'(time)) of γ(t) = (I+tL)p(I+tL): γ' = v + 2t·LpL."""
    L = _lyapunov(p, v)
    return np.asarray(manifold.exp(p, time * v)), v + 2 * time * _sym(L @ p @ L)


def _lyapunov(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The symmetric L with Lp + pL = v, for one p and any stack of v."""
    values, U = np.linalg.eigh(p)
    return np.asarray(U @ ((U.T @ v @ U) / (values[:, None] + values)) @ U.T)


def _sym(a: np.ndarray) -> np.ndarray:
    return np.asarray((a + a.mT) / 2)
