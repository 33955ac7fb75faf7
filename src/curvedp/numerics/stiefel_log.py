"""Riemannian logarithm of the Stiefel manifold in the span of the two frames: Newton's method on a small problem.

In the frame [p Q] that spans p and q the geodesic from p with velocity pA + QB ends at E + `endpoint`(A, B), E = [I; 0]: a
problem of size (r + k)×r with k ≤ r whatever m is. The unknown (A, B) is one array X = [A; B], a tangent vector at E.
Newton's method solves endpoint(X) = target, the largest linear systems by GMRES: in the frame carried along the geodesic
the derivative is the identity plus curvature, so that few Krylov steps are enough unless the point is far.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_jax_array

from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import Array, like, map_in_blocks, namespace
from curvedp.numerics.autodiff import repeat_while
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.matrix_functions import skew, skew_eigen, skew_exp, skew_exp_eigen
from curvedp.numerics.rotation_log import rotation_log
from curvedp.numerics.threads import blocks

_NEWTON_STEPS = 20  # from each start: up to half the injectivity radius 5 are enough, up to 0.97 of it 8
_DIRECT = 200  # unknowns: linear systems up to here are solved exactly, larger ones by GMRES with so many
_KRYLOV_STEPS = (
    40  # steps. Inexact steps are enough up to 0.9π or so, not always beyond.
)
_JAX_BLOCK = (
    1 << 15
)  # entries of Jacobians at once in a JAX program, see `map_in_blocks`
_BLOCK = 1 << 21  # numbers in the derivatives of a block of points


def endpoint(A: Array, B: Array) -> tuple[Array, Array]:
    """(exp(G)E exp(−A) − E, mean) with G = [2A −Bᵀ; B 0], every digit of a small (A, B) kept. `mean` is ∫₀¹ of the
    top r×r block of exp(tG) dt · exp(−A): the factor of N in the geodesic's end, for N = QB."""
    r = A.shape[-1]
    rise, mean = skew_exp(generator(A, B))
    turn, _ = skew_exp(-A)
    head = mean[..., :r, :r]
    return _joined(rise[..., :, :r], turn), head + head @ turn


def reduced_log(top: Array, bottom: Array) -> tuple[Array, Array]:
    """(A, B) of a geodesic from E to E + [top; bottom], the shortest inside the injectivity radius; NaN if none is found.
    Newton's method from the chord, and from logarithms of rotations that complete both frames: the chord is a good start
    except next to points that it does not lead to, such as a column turned by π. The shortest solution is the answer. The
    loop ends with the last point that converges, and the other starts are for points without a geodesic shorter than π,
    which no other can undercut (`Stiefel.injectivity_radius`). In `public_time` it is all starts and all steps."""
    xp = namespace(top, bottom)
    target = xp.concat([top, bottom], axis=-2)
    rows, r = target.shape[-2:]
    count = math.prod(target.shape[:-2])
    flat, size = (
        xp.reshape(target, (count, rows, r)),
        max(1, _BLOCK // (rows * rows * _dim(rows, r))),
    )
    if count <= 1:
        X = _log(xp, target)
    elif is_jax_array(target):
        X = xp.reshape(
            map_in_blocks(
                partial(_log, xp), flat, max(1, _JAX_BLOCK // _dim(rows, r) ** 2)
            ),
            target.shape,
        )
    else:  # in blocks, so that memory stays flat
        X = xp.reshape(
            xp.concat([_log(xp, flat[part, ...]) for part in blocks(count, size)]),
            target.shape,
        )
    return X[..., :r, :], X[..., r:, :]


def _log(xp: Any, target: Array) -> Array:
    """X with endpoint(X) = target, as `reduced_log` says."""
    # The chord made tangent, as long as an arc of the unit sphere over it (Zimmermann & Hüper 2022, Alg. 2).
    X = _tangent(xp, target, target.shape[-1])
    half = _length(xp, target) / 2
    arc = 2 * xp.asin(xp.where(half < 1, half, 1.0))
    chord = _unit(xp, X, _length(xp, X)) * xp.where(half < 1, arc, 2 * half)

    def attempt(best: Array, start: Array) -> Array:
        far = ~(_length(xp, best) < math.pi)
        # Where it is not wanted, a start that is nearly the answer is none: a point's logarithm depends on it alone.
        return xp.where(
            far, _shorter(xp, best, _newton(xp, start, target, wanted=far)), best
        )

    none = xp.full_like(chord, xp.nan)
    if is_jax_array(target) or in_public_time():
        starts = xp.concat([chord[None, ...], _turned_starts(xp, target)])
    if is_jax_array(target):
        import jax

        return jax.lax.scan(
            lambda best, start: (attempt(best, start), None), none, starts
        )[0]
    if in_public_time():
        found = _newton(
            xp, starts, target, wanted=xp.ones_like(starts[..., :1, :1], dtype=xp.bool)
        )
        return _shorter(xp, _shorter(xp, found[0, ...], found[1, ...]), found[2, ...])
    X = attempt(none, chord)
    if bool(xp.all(_length(xp, X) < math.pi)):
        return X
    turned = _turned_starts(xp, target)
    return attempt(attempt(X, turned[0, ...]), turned[1, ...])


def log_change(A: Array, B: Array, frame: Array, gap: Array) -> Array:
    """First-order change of the logarithm (A, B) in the frame [p Q] for a small gap between q and the geodesic's end."""
    xp = namespace(A, B, gap)
    r, k = A.shape[-1], B.shape[-2]
    flow = _Flow.at(A, B)
    inside = frame.mT @ gap
    change = xp.linalg.solve(
        flow.jacobian(xp), _to_vector(xp, flow.pull_back(inside), r)[..., None]
    )[..., 0]
    outside = gap - frame @ inside
    _, mean = endpoint(A, B)
    return (
        frame @ _from_vector(xp, change, r, k) + xp.linalg.solve(mean.mT, outside.mT).mT
    )


class _Flow(NamedTuple):
    """exp(G) = Z e^{iw} Z* and exp(−A) = Y e^{iu} Y* at one (A, B): the endpoint and its derivative there."""

    Z: Array
    w: Array
    Y: Array
    u: Array

    @classmethod
    def at(cls, A: Array, B: Array) -> "_Flow":
        w, Z = skew_eigen(generator(A, B))
        u, Y = skew_eigen(-A)
        return cls(Z, w, Y, u)

    def endpoint(self) -> Array:
        """The first value of `endpoint`."""
        rise, turn = (
            skew_exp_eigen(self.w, self.Z)[0],
            skew_exp_eigen(self.u, self.Y)[0],
        )
        return _joined(rise[..., :, : self.u.shape[-1]], turn)

    def derivative(self, xp: Any, X: Array) -> Array:
        """Derivative of the endpoint in direction X, moved back to E by the isometry x ↦ exp(G)ᵀ x exp(A)."""
        r = self.u.shape[-1]
        a, b = X[..., :r, :], X[..., r:, :]

        def divided(Z: Array, w: Array, G: Array, side: int) -> Array:
            """Derivative of the exponential in direction G, carried back to I on the left (side −1) or right (side 1)."""
            half = (w[..., :, None] - w[..., None, :]) / 2
            K = matrix.phase(xp, side * half, Z.dtype) * xp.astype(
                matrix.sinc(xp, half), Z.dtype
            )
            return matrix.divided_difference_map(K, Z, G)

        first = divided(self.Z, self.w, generator(a, b), -1)[..., :, :r]
        return _tangent(
            xp, first + _pad(divided(self.Y, self.u, -a, 1), b.shape[-2]), r
        )

    def jacobian(self, xp: Any) -> Array:
        """`derivative` as a matrix, in orthonormal coordinates of the tangent space at E."""
        r, k = self.u.shape[-1], self.w.shape[-1] - self.u.shape[-1]
        basis = like(self.w, np.eye(_dim(r + k, r)))
        many = _Flow(
            self.Z[..., None, :, :],
            self.w[..., None, :],
            self.Y[..., None, :, :],
            self.u[..., None, :],
        )
        return _to_vector(xp, many.derivative(xp, _from_vector(xp, basis, r, k)), r).mT

    def pull_back(self, gap: Array) -> Array:
        """The ambient gap at the endpoint as a tangent vector at E, by the same isometry."""
        xp = namespace(gap)

        def times(Z: Array, w: Array, x: Array) -> Array:
            """Z e^{iw} Z* x, real."""
            return xp.real(
                Z
                @ (
                    matrix.phase(xp, w, Z.dtype)[..., :, None]
                    * (xp.conj(Z).mT @ xp.astype(x, Z.dtype))
                )
            )

        return _tangent(
            xp,
            times(self.Y, self.u, times(self.Z, -self.w, gap).mT).mT,
            self.u.shape[-1],
        )


class _State(NamedTuple):
    """X, its flow, target − endpoint(X) and the `size` of that gap (`_look`); X moves on where it is `active`."""

    X: Array
    flow: _Flow
    gap: Array
    size: Array
    active: Array
    step: Any


def _newton(xp: Any, X: Array, target: Array, *, wanted: Array) -> Array:
    """Newton's method from X, where it is wanted: endpoint(X) = target, or NaN. What has converged stays where it is."""
    eps = float(xp.finfo(target.dtype).eps)
    scale = _length(xp, target)
    enough, floor = math.sqrt(eps) * scale, 4 * eps * target.shape[-2] * scale

    def body(state: _State) -> _State:
        X, flow, gap, size = _damped_step(xp, state, target)
        stalled = (size > state.size / 2) & (size <= enough)
        return _State(
            X, flow, gap, size, state.active & (size > floor) & ~stalled, state.step + 1
        )

    def more(state: _State) -> Array:
        return (xp.any(state.active) | in_public_time()) & (state.step < _NEWTON_STEPS)

    flow, gap, size = _look(xp, X, target)
    end = repeat_while(
        more, body, _State(X, flow, gap, size, (size > floor) & wanted, 0)
    )
    return xp.where(end.size <= enough, end.X, xp.nan)


def _damped_step(
    xp: Any, state: _State, target: Array
) -> tuple[Array, _Flow, Array, Array]:
    """The best of the Newton step (at most 1 long), of a quarter and a sixteenth of it, and of no step. What has
    converged does the same work with a step of no meaning: decompositions of zero take less time than others."""
    rhs = state.flow.pull_back(state.gap)
    rows, r = rhs.shape[-2:]
    if _dim(rows, r) > _DIRECT:
        step = _gmres(xp, state.flow, rhs)
    else:
        vector = _least_squares(
            xp, state.flow.jacobian(xp), _to_vector(xp, rhs, r)[..., None]
        )[..., 0]
        step = _from_vector(xp, vector, r, rows - r)
    size = _length(xp, step)
    step = step / xp.where(size > 1, size, 1.0)
    entries = xp.cos(
        xp.arange(rows * r, dtype=rhs.dtype, device=device(rhs)) ** 2
    )  # without structure
    step = xp.where(state.active, step, _tangent(xp, xp.reshape(entries, (rows, r)), r))
    trial = xp.stack([state.X + step / share for share in (1, 4, 16)])
    flow, gap, size = _look(xp, trial, target)
    seen, best = (
        (trial, gap, size, *flow),
        (state.X, state.gap, state.size, *state.flow),
    )
    for index in range(trial.shape[0]):
        better = (size[index, ...] < best[2]) & state.active
        any_ = better | ~state.active
        masks = (better, better, better, any_, any_[..., 0], any_, any_[..., 0])
        best = tuple(
            xp.where(mask, new[index, ...], old)
            for mask, new, old in zip(masks, seen, best, strict=True)
        )
    return best[0], _Flow(*best[3:]), best[1], best[2]


def _look(xp: Any, X: Array, target: Array) -> tuple[_Flow, Array, Array]:
    """The flow at X, target − endpoint(X), and the size of that gap: its part tangent at the end, and what a frame
    off by round-off cannot explain. Two frames 1e-15 apart are no nearer to being orthonormal than that; no
    geodesic closes such a gap."""
    rows, r = X.shape[-2:]
    flow = _Flow.at(X[..., :r, :], X[..., r:, :])
    end = flow.endpoint()
    frame = end + like(X, np.eye(rows, r))
    gap = target - end
    normal = frame.mT @ gap
    normal = (normal + normal.mT) / 2
    beyond = xp.clip(
        _length(xp, normal) - math.sqrt(float(xp.finfo(X.dtype).eps)), 0.0, None
    )
    return flow, gap, xp.hypot(_length(xp, gap - frame @ normal), beyond)


def _shorter(xp: Any, X: Array, other: Array) -> Array:
    """The shorter of the two; NaN is longer than anything."""
    size, than = _length(xp, X), _length(xp, other)
    return xp.where((than < size) | xp.isnan(size), other, X)


def _least_squares(xp: Any, H: Array, rhs: Array) -> Array:
    """(HᵀH + λ)⁻¹Hᵀ rhs: λ, at the round-off of HᵀH, leaves out directions that H does not see (conjugate points, a Krylov
    space that ended early). What it costs in digits the next Newton step repairs."""
    square = H.mT @ H
    n = square.shape[-1]
    one = like(H, np.eye(n))
    level = (
        n
        * float(xp.finfo(H.dtype).eps)
        * xp.sum(square * one, axis=(-2, -1), keepdims=True)
    )
    level = xp.where(
        level == 0, 1.0, level
    )  # H = 0 of two equal frames: LAPACK would raise
    return xp.linalg.solve(square + level * one, H.mT @ rhs)


def _gmres(xp: Any, flow: _Flow, rhs: Array) -> Array:
    """Solve derivative(X) = rhs by GMRES (Saad & Schultz 1986) with a fixed number of steps."""
    rows, r = rhs.shape[-2:]
    batch, steps = rhs.shape[:-2], _KRYLOV_STEPS
    beta = _length(xp, rhs)
    basis = xp.reshape(_unit(xp, rhs, beta), (*batch, 1, rows * r))
    columns = []
    for j in range(steps):
        w = xp.reshape(
            flow.derivative(xp, xp.reshape(basis[..., j, :], rhs.shape)),
            (*batch, 1, rows * r),
        )
        entries = w @ basis.mT
        w = w - entries @ basis
        again = (
            w @ basis.mT
        )  # a second pass: the first loses orthogonality to round-off
        w = w - again @ basis
        size = _length(xp, w)
        basis = xp.concat([basis, _unit(xp, w, size)], axis=-2)
        zeros = xp.zeros(
            (*batch, 1, steps - 1 - j), dtype=rhs.dtype, device=device(rhs)
        )
        columns.append(xp.concat([entries + again, size, zeros], axis=-1))
    H = xp.concat(columns, axis=-2).mT
    first = xp.concat(
        [beta, xp.zeros((*batch, steps, 1), dtype=rhs.dtype, device=device(rhs))],
        axis=-2,
    )
    return xp.reshape(
        _least_squares(xp, H, first).mT @ basis[..., :steps, :], rhs.shape
    )


def _turned_starts(xp: Any, target: Array) -> Array:
    """First columns of logarithms of rotations [point C] that complete both frames, C near two wishes."""
    rows, r = target.shape[-2:]
    one = like(target, np.eye(rows))
    rest = one[:, r:]
    point = target + one[:, :r]
    # For A = 0 the geodesic ends at [V cos Vᵀ; sin Vᵀ], completed by [−V sin; cos].
    tail, head = target[..., r:, :], point[..., :r, :]
    unit = _unit(xp, tail, xp.sqrt(xp.sum(tail * tail, axis=-1, keepdims=True)))
    signed = xp.concat([-tail.mT, unit @ (head + head.mT) @ unit.mT / 2], axis=-2)
    wishes = xp.stack([xp.broadcast_to(rest, signed.shape), signed])
    free = matrix.reflect(point, rest)
    U, _, Vh = matrix.svd(free.mT @ wishes)
    twice = xp.broadcast_to(point, (2, *point.shape))
    parity = matrix.det(xp.concat([twice, free @ U @ Vh], axis=-1))
    sign = xp.where(parity < 0, -1.0, xp.ones_like(parity))[..., None, None]
    turned = free @ xp.concat([U[..., :-1], U[..., -1:] * sign], axis=-1) @ Vh
    return rotation_log(xp.concat([twice, turned], axis=-1) - one)[..., :, :r]


def generator(A: Array, B: Array) -> Array:
    """The skew matrix [2A −Bᵀ; B 0] whose exponential moves the frame [p Q] along the geodesic."""
    xp = namespace(A, B)
    zero = xp.zeros(
        (*B.shape[:-2], B.shape[-2], B.shape[-2]), dtype=B.dtype, device=device(B)
    )
    return xp.concat(
        [xp.concat([2 * A, -B.mT], axis=-1), xp.concat([B, zero], axis=-1)], axis=-2
    )


def _dim(rows: int, r: int) -> int:
    """Number of unknowns: of tangent directions at E."""
    return r * (r - 1) // 2 + (rows - r) * r


def _tangent(xp: Any, X: Array, r: int) -> Array:
    return xp.concat([skew(X[..., :r, :]), X[..., r:, :]], axis=-2)


def _joined(rise: Array, turn: Array) -> Array:
    """(E + rise)(I + turn) − E."""
    return rise + rise @ turn + _pad(turn, rise.shape[-2] - turn.shape[-2])


def _pad(turn: Array, k: int) -> Array:
    xp = namespace(turn)
    zero = xp.zeros(
        (*turn.shape[:-2], k, turn.shape[-1]), dtype=turn.dtype, device=device(turn)
    )
    return xp.concat([turn, zero], axis=-2)


def _length(xp: Any, X: Array) -> Array:
    return xp.sqrt(xp.sum(X * X, axis=(-2, -1), keepdims=True))


def _unit(xp: Any, X: Array, size: Array) -> Array:
    return xp.where(size > 0, X / xp.where(size > 0, size, 1.0), 0.0)


def _from_vector(xp: Any, z: Array, r: int, k: int) -> Array:
    turns = r * (r - 1) // 2
    A = matrix.skew_from_vector(z[..., :turns], r) * math.sqrt(0.5)
    return xp.concat([A, xp.reshape(z[..., turns:], (*z.shape[:-1], k, r))], axis=-2)


def _to_vector(xp: Any, X: Array, r: int) -> Array:
    B = X[..., r:, :]
    flat = xp.reshape(B, (*B.shape[:-2], B.shape[-2] * r))
    return xp.concat(
        [matrix.skew_to_vector(X[..., :r, :]) * math.sqrt(2), flat], axis=-1
    )
