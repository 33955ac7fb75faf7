"""Riemannian logarithm of the Stiefel manifold in the span of the two frames: Newton's method on a small problem.

In the frame [p Q] that spans p and q the geodesic from p with velocity pA + QB ends at
E + `endpoint`(A, B), E = [I; 0], a problem of size (r + k)×r with k ≤ r whatever m is. The unknown (A, B) is kept as one
array [A; B]: a tangent vector at E.
"""

import math
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from curvedp.geometry._matrix import bmm, reflect, sinc, skew, skew_exp, skew_from_vector, skew_to_vector
from curvedp.geometry.base import Array
from curvedp.geometry.rotations import rotation_log

__all__ = ["endpoint", "log_change", "reduced_log"]

_NEWTON_STEPS = 10
_KRYLOV_STEPS = 16


def endpoint(A: Array, B: Array) -> tuple[Array, Array]:
    """(exp(G)E exp(−A) − E, mean) with G = [2A −Bᵀ; B 0], every digit of a small (A, B) kept.

    `mean` is ∫₀¹ of the top r×r block of exp(tG) dt · exp(−A): the factor of N in the geodesic's end, for N = QB.
    """
    r = A.shape[-1]
    rise, mean = skew_exp(_generator(A, B))
    turn, _ = skew_exp(-A)
    first = rise[..., :, :r]
    step = first + first @ turn + _pad(turn, B.shape[-2])
    head = mean[..., :r, :r]
    return step, head + head @ turn


def reduced_log(top: Array, bottom: Array) -> tuple[Array, Array]:
    """(A, B) of the shortest geodesic from E to E + [top; bottom]."""
    xp = array_namespace(top, bottom)
    r = top.shape[-1]
    target = xp.concat([top, bottom], axis=-2)
    X = _start(xp, target, r)
    if r > 1:  # on the sphere the start is the solution
        for _ in range(_NEWTON_STEPS):
            X = X + _newton_step(xp, X, target, r)
    return X[..., :r, :], X[..., r:, :]


def log_change(A: Array, B: Array, frame: Array, gap: Array) -> Array:
    """First-order change of the logarithm (A, B) in the frame [p Q] for a small gap between q and the geodesic's end."""
    xp = array_namespace(A, B, gap)
    r, k = A.shape[-1], B.shape[-2]
    flow = _Flow.at(xp, A, B)
    inside = frame.mT @ gap
    dim = r * (r - 1) // 2 + k * r
    basis = _from_vector(xp, xp.eye(dim, dtype=A.dtype), r, k)
    columns = flow.expand().derivative(xp, basis)
    J = _to_vector(xp, columns, r).mT
    change = xp.linalg.solve(J, _to_vector(xp, flow.pull_back(inside), r)[..., None])[..., 0]
    outside = gap - frame @ inside
    _, mean = endpoint(A, B)
    rest = xp.linalg.solve(mean.mT, outside.mT).mT
    return frame @ _from_vector(xp, change, r, k) + rest


class _Flow(NamedTuple):
    """exp(G) = Z e^{iw} Z* and exp(−A) = Y e^{iu} Y* at one (A, B), to differentiate the endpoint there."""

    Z: Array
    w: Array
    Y: Array
    u: Array

    @classmethod
    def at(cls, xp: Any, A: Array, B: Array) -> "_Flow":
        w, Z = _eigen(xp, _generator(A, B))
        u, Y = _eigen(xp, -A)
        return cls(Z, w, Y, u)

    def expand(self) -> "_Flow":
        """The same with an axis to run over directions."""
        return _Flow(self.Z[..., None, :, :], self.w[..., None, :], self.Y[..., None, :, :], self.u[..., None, :])

    def derivative(self, xp: Any, X: Array) -> Array:
        """Derivative of the endpoint in direction X, moved back to E by the isometry x ↦ exp(G)ᵀ x exp(A)."""
        r = self.u.shape[-1]
        a, b = X[..., :r, :], X[..., r:, :]
        inside = _divided(xp, self.Z, self.w, _generator(a, b), -1)
        turn = _divided(xp, self.Y, self.u, -a, 1)
        first = inside[..., :, :r]
        return _tangent(xp, first + _pad(turn, b.shape[-2]), r)

    def pull_back(self, gap: Array) -> Array:
        """The ambient gap at the endpoint as a tangent vector at E, by the same isometry."""
        xp = array_namespace(gap)
        r = self.u.shape[-1]
        back = _apply(xp, self.Z, -self.w, gap)
        return _tangent(xp, _apply(xp, self.Y, self.u, back.mT).mT, r)


def _newton_step(xp: Any, X: Array, target: Array, r: int) -> Array:
    A, B = X[..., :r, :], X[..., r:, :]
    flow = _Flow.at(xp, A, B)
    gap = target - endpoint(A, B)[0]
    return _gmres(xp, flow, flow.pull_back(gap))


def _gmres(xp: Any, flow: _Flow, rhs: Array) -> Array:
    """Solve derivative(X) = rhs by GMRES (Saad & Schultz 1986) with a fixed number of steps."""
    r, rows = rhs.shape[-1], rhs.shape[-2]
    steps = min(_KRYLOV_STEPS, r * (r - 1) // 2 + (rows - r) * r)
    beta = _length(xp, rhs)
    basis = [_unit(xp, rhs, beta)]
    columns = []
    for j in range(steps):
        w = flow.derivative(xp, basis[j])
        column = xp.zeros_like(beta[..., 0])
        entries = []
        for _ in range(2):  # orthogonalise twice: once loses orthogonality to round-off
            shares = [xp.sum(b * w, axis=(-2, -1), keepdims=True) for b in basis]
            for b, share in zip(basis, shares, strict=True):
                w = w - share * b
            entries = [e + s for e, s in zip(entries, shares, strict=True)] if entries else shares
        size = _length(xp, w)
        basis.append(_unit(xp, w, size))
        zero = [column[..., None]] * (steps - 1 - j)
        columns.append(xp.concat([*entries, size, *zero], axis=-2))
    H = xp.concat(columns, axis=-1)
    y = xp.linalg.pinv(H)[..., :, :1] * beta
    solution = xp.zeros_like(rhs)
    for j in range(steps):
        solution = solution + y[..., j : j + 1, :] * basis[j]
    return solution


def _start(xp: Any, target: Array, r: int) -> Array:
    """Complete E + target to a rotation that commutes with the geodesic's as far as it can, and take its logarithm.

    For A = 0 the geodesic's end is [V cos V'; sin V'], completed by [−sin; cos]: with that completion the logarithm is
    exact, whatever the angles. In general the completion nearest to it is a start for Newton's method.
    """
    k = target.shape[-2] - r
    point = target + xp.eye(r + k, r, dtype=target.dtype)
    E = xp.concat([xp.zeros((r, k), dtype=target.dtype), xp.eye(k, dtype=target.dtype)], axis=-2)
    rest = reflect(point, E)
    N = point[..., r:, :]
    W = _rows(xp, N)
    wish = xp.concat([-N.mT, bmm(W, (point[..., :r, :] + point[..., :r, :].mT) / 2, W.mT)], axis=-2)
    U, _, Vh = xp.linalg.svd(rest.mT @ wish, full_matrices=False)
    whole = xp.concat([point, rest @ U @ Vh], axis=-1)
    sign = xp.where(xp.linalg.det(whole) < 0, -1.0, 1.0)[..., None, None]
    turned = xp.concat([U[..., :-1], U[..., -1:] * sign], axis=-1) @ Vh
    whole = xp.concat([point, rest @ turned], axis=-1)
    omega = rotation_log(whole - xp.eye(r + k, dtype=target.dtype))
    return omega[..., :, :r]


def _rows(xp: Any, N: Array) -> Array:
    """The rows of N, which are orthogonal, scaled to length 1."""
    size = xp.sqrt(xp.sum(N * N, axis=-1, keepdims=True))
    return N / xp.where(size > 0, size, xp.ones_like(size))


def _generator(A: Array, B: Array) -> Array:
    xp = array_namespace(A, B)
    zero = xp.zeros((*B.shape[:-2], B.shape[-2], B.shape[-2]), dtype=B.dtype)
    return xp.concat([xp.concat([2 * A, -B.mT], axis=-1), xp.concat([B, zero], axis=-1)], axis=-2)


def _eigen(xp: Any, G: Array) -> tuple[Array, Array]:
    kind = xp.complex64 if G.dtype == xp.float32 else xp.complex128
    w, Z = xp.linalg.eigh(xp.astype(G, kind) * -1j)
    return w, Z


def _phase(xp: Any, w: Array, kind: Any) -> Array:
    return xp.astype(xp.cos(w), kind) + 1j * xp.astype(xp.sin(w), kind)


def _apply(xp: Any, Z: Array, w: Array, x: Array) -> Array:
    """Z e^{iw} Z* x, real."""
    x = xp.astype(x, Z.dtype)
    return xp.real(Z @ (_phase(xp, w, Z.dtype)[..., :, None] * (xp.conj(Z).mT @ x)))


def _divided(xp: Any, Z: Array, w: Array, G: Array, side: int) -> Array:
    """Derivative of the exponential in direction G, carried back to I on the left (side −1) or right (side 1)."""
    half = (w[..., :, None] - w[..., None, :]) / 2
    K = _phase(xp, side * half, Z.dtype) * xp.astype(sinc(xp, half), Z.dtype)
    Zh = xp.conj(Z).mT
    return xp.real(bmm(Z, K * bmm(Zh, xp.astype(G, Z.dtype), Z), Zh))


def _tangent(xp: Any, X: Array, r: int) -> Array:
    return xp.concat([skew(X[..., :r, :]), X[..., r:, :]], axis=-2)


def _pad(turn: Array, k: int) -> Array:
    xp = array_namespace(turn)
    return xp.concat([turn, xp.zeros((*turn.shape[:-2], k, turn.shape[-1]), dtype=turn.dtype)], axis=-2)


def _length(xp: Any, X: Array) -> Array:
    return xp.sqrt(xp.sum(X * X, axis=(-2, -1), keepdims=True))


def _unit(xp: Any, X: Array, size: Array) -> Array:
    return xp.where(size > 0, X / xp.where(size > 0, size, xp.ones_like(size)), xp.zeros_like(X))


def _from_vector(xp: Any, z: Array, r: int, k: int) -> Array:
    turns = r * (r - 1) // 2
    A = skew_from_vector(z[..., :turns], r) * math.sqrt(0.5)
    return xp.concat([A, xp.reshape(z[..., turns:], (*z.shape[:-1], k, r))], axis=-2)


def _to_vector(xp: Any, X: Array, r: int) -> Array:
    B = X[..., r:, :]
    flat = xp.reshape(B, (*B.shape[:-2], B.shape[-2] * r))
    return xp.concat([skew_to_vector(X[..., :r, :]) * math.sqrt(2), flat], axis=-1)
