"""Riemannian logarithm of the Stiefel manifold in the span of the two frames: Newton's method on a small problem.

In the frame [p Q] that spans p and q the geodesic from p with velocity pA + QB ends at E + `endpoint`(A, B), E = [I; 0]: a
problem of size (r + k)×r with k ≤ r whatever m is. The unknown (A, B) is one array X = [A; B], a tangent vector at E.
Newton's method solves endpoint(X) = target, large linear systems by GMRES: in the frame carried along the geodesic the
derivative is the identity plus curvature, so few Krylov steps are enough.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from array_api_compat import is_jax_array

from curvedp.geometry._matrix import (
    bmm,
    det,
    reflect,
    sinc,
    skew,
    skew_eigen,
    skew_exp,
    skew_from_vector,
    skew_to_vector,
    svd,
)
from curvedp.geometry._namespace import namespace
from curvedp.geometry.base import Array
from curvedp.geometry.rotations import rotation_log

__all__ = ["endpoint", "generator", "log_change", "reduced_log"]

_NEWTON_STEPS = 30  # a cap for each start: inside half the injectivity radius 5 are enough
_KRYLOV_STEPS = 40


def endpoint(A: Array, B: Array) -> tuple[Array, Array]:
    """(exp(G)E exp(−A) − E, mean) with G = [2A −Bᵀ; B 0], every digit of a small (A, B) kept.

    `mean` is ∫₀¹ of the top r×r block of exp(tG) dt · exp(−A): the factor of N in the geodesic's end, for N = QB.
    """
    r = A.shape[-1]
    rise, mean = skew_exp(generator(A, B))
    turn, _ = skew_exp(-A)
    first = rise[..., :, :r]
    step = first + first @ turn + _pad(turn, B.shape[-2])
    head = mean[..., :r, :r]
    return step, head + head @ turn


def reduced_log(top: Array, bottom: Array) -> tuple[Array, Array]:
    """(A, B) of a geodesic from E to E + [top; bottom], the shortest inside the injectivity radius; NaN if none is found.

    The chord is a good start except next to points that it does not lead to, such as a column turned by π. What has
    not converged from there starts again from logarithms of rotations that complete both frames.
    """
    xp = namespace(top, bottom)
    r, k = top.shape[-1], bottom.shape[-2]
    target = xp.concat([top, bottom], axis=-2)
    point = target + xp.eye(r + k, r, dtype=target.dtype)
    rest = xp.concat([xp.zeros((r, k), dtype=target.dtype), xp.eye(k, dtype=target.dtype)], axis=-2)
    # For A = 0 the geodesic ends at [V cos Vᵀ; sin Vᵀ], completed by [−V sin; cos].
    rows = _rows(xp, bottom)
    signed = xp.concat([-bottom.mT, bmm(rows, point[..., :r, :] + point[..., :r, :].mT, rows.mT) / 2], axis=-2)
    starts = [_start(xp, target, r), *(_completed_log(xp, point, rest, wish) for wish in (rest, signed))]
    X, solved = _newton(xp, starts, target)
    X = xp.where(solved, X, xp.full_like(X, xp.nan))
    return X[..., :r, :], X[..., r:, :]


def log_change(A: Array, B: Array, frame: Array, gap: Array) -> Array:
    """First-order change of the logarithm (A, B) in the frame [p Q] for a small gap between q and the geodesic's end."""
    xp = namespace(A, B, gap)
    r, k = A.shape[-1], B.shape[-2]
    flow = _Flow.at(xp, A, B)
    inside = frame.mT @ gap
    change = xp.linalg.solve(flow.jacobian(xp), _to_vector(xp, flow.pull_back(inside), r)[..., None])[..., 0]
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
        w, Z = skew_eigen(generator(A, B))
        u, Y = skew_eigen(-A)
        return cls(Z, w, Y, u)

    def derivative(self, xp: Any, X: Array) -> Array:
        """Derivative of the endpoint in direction X, moved back to E by the isometry x ↦ exp(G)ᵀ x exp(A)."""
        r = self.u.shape[-1]
        a, b = X[..., :r, :], X[..., r:, :]
        inside = _divided(xp, self.Z, self.w, generator(a, b), -1)
        turn = _divided(xp, self.Y, self.u, -a, 1)
        first = inside[..., :, :r]
        return _tangent(xp, first + _pad(turn, b.shape[-2]), r)

    def jacobian(self, xp: Any) -> Array:
        """`derivative` as a matrix, in orthonormal coordinates of the tangent space at E."""
        r, k = self.u.shape[-1], self.w.shape[-1] - self.u.shape[-1]
        basis = _from_vector(xp, xp.eye(r * (r - 1) // 2 + k * r, dtype=self.w.dtype), r, k)
        many = _Flow(self.Z[..., None, :, :], self.w[..., None, :], self.Y[..., None, :, :], self.u[..., None, :])
        return _to_vector(xp, many.derivative(xp, basis), r).mT

    def pull_back(self, gap: Array) -> Array:
        """The ambient gap at the endpoint as a tangent vector at E, by the same isometry."""
        xp = namespace(gap)
        r = self.u.shape[-1]
        back = _apply(xp, self.Z, -self.w, gap)
        return _tangent(xp, _apply(xp, self.Y, self.u, back.mT).mT, r)


class _State(NamedTuple):
    X: Array
    gap: Array
    size: Array  # of the gap, see `_gap`
    active: Array
    step: Any


def _newton(xp: Any, starts: list[Array], target: Array) -> tuple[Array, Array]:
    """X after Newton's method, and whether it solves endpoint(X) = target; what does not solve it in time starts anew."""
    eps = float(xp.finfo(target.dtype).eps)
    scale = _length(xp, target)
    enough, floor = math.sqrt(eps) * scale, 4 * eps * target.shape[-2] * scale

    def begin(X: Array, step: Any) -> _State:
        gap, size = _gap(xp, X, target)
        return _State(X, gap, size, size > floor, step)

    def body(state: _State) -> _State:
        better = _damped_step(xp, state, target)
        stalled = (better.size > state.size / 2) & (better.size <= enough)
        X = better.X
        for index, start in enumerate(starts[1:], 1):
            X = xp.where((state.step + 1 == index * _NEWTON_STEPS) & (better.size > enough), start, X)
        fresh = begin(X, state.step + 1)
        return fresh._replace(active=fresh.active & ~stalled)

    end = _repeat(xp, body, begin(starts[0], xp.asarray(0)), len(starts) * _NEWTON_STEPS)
    return end.X, end.size <= enough


def _repeat(xp: Any, body: Callable[[_State], _State], state: _State, steps: int) -> _State:
    if is_jax_array(state.X):
        import jax

        end: _State = jax.lax.while_loop(lambda s: xp.any(s.active) & (s.step < steps), body, state)
        return end
    while state.step < steps and xp.any(state.active):
        state = body(state)
    return state


def _damped_step(xp: Any, state: _State, target: Array) -> _State:
    """The best of the Newton step (at most 1 long), of shorter ones, and of no step."""
    X, r = state.X, state.X.shape[-1]
    flow = _Flow.at(xp, X[..., :r, :], X[..., r:, :])
    step = _solve(xp, flow, flow.pull_back(state.gap))
    size = _length(xp, step)
    step = step / xp.where(size > 1, size, xp.ones_like(size))
    trial = xp.stack([X + share * step for share in (1.0, 0.5, 0.25, 0.0625)])
    _, sizes = _gap(xp, trial, target)
    X, least = state.X, state.size
    for index in range(trial.shape[0]):
        better = sizes[index, ...] < least
        X, least = xp.where(better, trial[index, ...], X), xp.where(better, sizes[index, ...], least)
    return state._replace(X=X, size=least)


def _gap(xp: Any, X: Array, target: Array) -> tuple[Array, Array]:
    """target − endpoint(X), and its size: the part tangent at the end, and what a frame off by round-off cannot explain.

    Two frames 1e-15 apart are no nearer to being orthonormal than that; no geodesic closes such a gap.
    """
    rows, r = X.shape[-2:]
    end, _ = endpoint(X[..., :r, :], X[..., r:, :])
    frame = end + xp.eye(rows, r, dtype=X.dtype)
    gap = target - end
    normal = frame.mT @ gap
    normal = (normal + normal.mT) / 2
    beyond = _length(xp, normal) - math.sqrt(float(xp.finfo(X.dtype).eps))
    beyond = xp.where(beyond > 0, beyond, xp.zeros_like(beyond))
    return gap, xp.hypot(_length(xp, gap - frame @ normal), beyond)


def _solve(xp: Any, flow: _Flow, rhs: Array) -> Array:
    """The tangent vector whose `derivative` is nearest to rhs."""
    rows, r = rhs.shape[-2:]
    if r * (r - 1) // 2 + (rows - r) * r > _KRYLOV_STEPS:
        return _gmres(xp, flow, rhs)
    vector = _to_vector(xp, rhs, r)[..., None]
    return _from_vector(xp, _least_squares(xp, flow.jacobian(xp), vector)[..., 0], r, rows - r)


def _least_squares(xp: Any, H: Array, rhs: Array) -> Array:
    U, s, Vh = svd(H)
    kept = s > float(xp.finfo(s.dtype).eps) * s[..., :1]
    inverse = xp.where(kept, 1 / xp.where(kept, s, xp.ones_like(s)), xp.zeros_like(s))
    return Vh.mT @ (inverse[..., None] * (U.mT @ rhs))


def _gmres(xp: Any, flow: _Flow, rhs: Array) -> Array:
    """Solve derivative(X) = rhs by GMRES (Saad & Schultz 1986) with a fixed number of steps."""
    rows, r = rhs.shape[-2:]
    batch = rhs.shape[:-2]
    steps = _KRYLOV_STEPS
    beta = _length(xp, rhs)
    basis = xp.reshape(_unit(xp, rhs, beta), (*batch, 1, rows * r))
    columns = []
    for j in range(steps):
        w = flow.derivative(xp, xp.reshape(basis[..., j, :], rhs.shape))
        w = xp.reshape(w, (*batch, 1, rows * r))
        entries = w @ basis.mT
        w = w - entries @ basis
        again = w @ basis.mT  # a second pass: the first loses orthogonality to round-off
        w = w - again @ basis
        size = _length(xp, w)
        basis = xp.concat([basis, _unit(xp, w, size)], axis=-2)
        zeros = xp.zeros((*batch, 1, steps - 1 - j), dtype=rhs.dtype)
        columns.append(xp.concat([entries + again, size, zeros], axis=-1))
    H = xp.concat(columns, axis=-2).mT
    first = xp.concat([beta, xp.zeros((*batch, steps, 1), dtype=rhs.dtype)], axis=-2)
    weights = _least_squares(xp, H, first)  # a Krylov space that ended early leaves zero columns
    return xp.reshape(weights.mT @ basis[..., :steps, :], rhs.shape)


def _start(xp: Any, target: Array, r: int) -> Array:
    """The chord made tangent, as long as an arc of the unit sphere over it (Zimmermann & Hüper 2022, Alg. 2)."""
    X = _tangent(xp, target, r)
    size, chord = _length(xp, X), _length(xp, target) / 2
    arc = 2 * xp.asin(xp.where(chord < 1, chord, xp.ones_like(chord)))
    return _unit(xp, X, size) * xp.where(chord < 1, arc, 2 * chord)


def _completed_log(xp: Any, point: Array, rest: Array, wish: Array) -> Array:
    """First columns of the logarithm of a rotation [point C], C an orthonormal completion near the `wish`."""
    free = reflect(point, rest)
    U, _, Vh = svd(free.mT @ wish)
    parity = det(xp.concat([point, free @ U @ Vh], axis=-1))
    sign = xp.where(parity < 0, -xp.ones_like(parity), xp.ones_like(parity))[..., None, None]
    turned = free @ xp.concat([U[..., :-1], U[..., -1:] * sign], axis=-1) @ Vh
    whole = xp.concat([point, turned], axis=-1)
    omega = rotation_log(whole - xp.eye(whole.shape[-1], dtype=whole.dtype))
    return omega[..., :, : point.shape[-1]]


def _rows(xp: Any, N: Array) -> Array:
    """The rows of N scaled to length 1, and 0 where they are 0."""
    size = xp.sqrt(xp.sum(N * N, axis=-1, keepdims=True))
    return N / xp.where(size > 0, size, xp.ones_like(size))


def generator(A: Array, B: Array) -> Array:
    """The skew matrix [2A −Bᵀ; B 0] whose exponential moves the frame [p Q] along the geodesic."""
    xp = namespace(A, B)
    zero = xp.zeros((*B.shape[:-2], B.shape[-2], B.shape[-2]), dtype=B.dtype)
    return xp.concat([xp.concat([2 * A, -B.mT], axis=-1), xp.concat([B, zero], axis=-1)], axis=-2)


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
    xp = namespace(turn)
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
