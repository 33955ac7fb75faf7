"""Fréchet means, arg min of Σ w_i d(x, x_i)², on every space: to ‖mean log‖ ≤ 1e-9, or in a fixed number of public steps."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj, is_numpy_array, to_device

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.base import Array, Manifold, check_manifold
from curvedp.geometry.manifolds.lorentz import Lorentz
from curvedp.geometry.manifolds.poincare import PoincareBall
from curvedp.geometry.manifolds.product import Product
from curvedp.geometry.manifolds.pulled import Pulled
from curvedp.geometry.manifolds.spd_affine import SPDAffineInvariant
from curvedp.geometry.manifolds.spd_common import SPD
from curvedp.geometry.manifolds.sphere import Sphere
from curvedp.geometry.mean.bound import contraction, mean_error_bound, mean_iterations, tolerance
from curvedp.geometry.mean.spd import TOLERANCE, affine_invariant_mean, affine_invariant_moments
from curvedp.geometry.mean.spd_passes import Sweep
from curvedp.geometry.mean.streamed import Domain, into_ball
from curvedp.geometry.numerics.namespace import namespace
from curvedp.geometry.numerics.threads import blocks, in_threads
from curvedp.geometry.numerics.triangular import cholesky

__all__ = ["frechet_mean", "mean_error_bound", "mean_iterations", "memory_moments"]

_CHUNK_BYTES = 1 << 22
_BLOCK = 1 << 16  # records in a block: large enough that threads seldom meet at the lock, small beside the data
_DENSE = 256  # dimension up to which Newton's equations are formed
_MEMORY = 8  # pairs kept by the quasi-Newton method
_SWEEP_ERROR = 1e-11  # of a logarithm in an exact pass of `spd_passes`, whose plain eigenvalues have a ratio above 1e-5
_STEPS = 500  # in all
_PATIENCE = 30  # steps without progress after which round-off is taken to rule


def frechet_mean(
    M: Manifold, X: Array, weights: Array | None = None, *, ball: tuple[Array, float] | None = None
) -> Array:
    """The (weighted) Fréchet mean of the points X (n, *M.point_shape): one point, ‖Σ w log_mean(x_i)‖ ≤ 1e-9.

    The residual is met wherever float64 coordinates can hold the mean to that accuracy. Data of fewer digits are
    averaged in float64 and the mean is returned so (where the array library has float64). On spaces of positive
    curvature it is the mean of data in a ball of radius < ½ min(injectivity radius, π/√κ), where it is unique
    (Afsari 2011); otherwise a local minimum.

    With ball=(center, radius), both public: the records are first mapped into the ball (`project_to_ball`), then a
    number of gradient steps that depends on M and radius alone is taken from the center. No data-dependent stopping.

    *Guarantees* (with `ball`). The result is within `mean_error_bound(M, radius)` of the true mean, whatever the data.

    >>> from curvedp.geometry import Sphere
    >>> x = frechet_mean(Sphere(2), np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    >>> np.round(x, 12) + 0.0
    array([0.70710678, 0.70710678, 0.        ])
    """
    shape = check_manifold(M).point_shape
    if not is_array_api_obj(X):
        X = _validate.array("X", X)
    X = X.detach() if hasattr(X, "detach") else X  # torch: nothing here is differentiated
    xp = namespace(X)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ParameterError(f"X has dtype {X.dtype}; it must be real numbers")
    if X.ndim != len(shape) + 1 or tuple(X.shape[1:]) != shape or X.shape[0] == 0:
        raise ParameterError(f"X has shape {tuple(X.shape)}; it must be (n, {', '.join(map(str, shape))}) with n >= 1")
    w = _weights(weights, X.shape[0])
    if ball is not None:
        return _ball_mean(xp, M, X, w, ball)
    data = _host(X)
    if not np.all(w > 0):
        data, w = data[w > 0], w[w > 0]
    return _like(xp, X, _mean(M, data, w))


def _weights(weights: Array | None, n: int) -> np.ndarray:
    """Public weights, normalised; the sum is checked so that NaN fails."""
    if weights is None:
        return np.full(n, 1 / n)
    w = _validate.array(
        "weights", weights if not is_array_api_obj(weights) or is_numpy_array(weights) else _host(weights)
    )
    if w.shape != (n,):
        raise ParameterError(f"weights has shape {w.shape}; it must be ({n},), one weight a point")
    if not (np.all(w >= 0) and np.all(np.isfinite(w))):
        bad = w[~((w >= 0) & np.isfinite(w))][0]
        raise ParameterError(f"weights contain {bad!r}; each must be finite and >= 0")
    largest = float(np.max(w))
    if not largest > 0:
        raise ParameterError("weights are all 0; their sum must be > 0")
    w = w / largest  # so that the sum cannot overflow
    return w / np.sum(w)


def _host(X: Array) -> np.ndarray:
    """X as a NumPy float64 array."""
    if not is_numpy_array(X):
        X = X.detach() if hasattr(X, "detach") else X  # torch: nothing here is differentiated
        X = to_device(X, "cpu") if hasattr(X, "is_cuda") else X
        X = X.get() if hasattr(X, "get") else X
    return np.asarray(X, dtype=np.float64)


def _like(xp: Any, X: Array, x: np.ndarray) -> Array:
    """x as an array of X's library, float64 where it has it."""
    return x if is_numpy_array(X) else xp.asarray(x, device=device(X))


def _mean(M: Manifold, X: np.ndarray, w: np.ndarray, enough: float = TOLERANCE) -> np.ndarray:
    if isinstance(M, Pulled):  # the mean is the model's: φ is an isometry onto a convex part of it, up to a factor
        return np.asarray(M.from_model(_mean(M.model, np.asarray(M.to_model(X)), w, enough / M.scale)))
    if isinstance(M, Product):
        parts = [
            _mean(factor, part, w, enough / math.sqrt(len(M.factors)))
            for factor, part in zip(M.factors, M.split(X), strict=True)
        ]
        return np.asarray(M.join(parts))
    if isinstance(M, SPDAffineInvariant):
        return np.asarray(affine_invariant_mean(X, w, enough))
    # Points written with few digits (float32, text) miss the manifold's equations by more than a residual of 1e-9 allows.
    # Symmetric matrices have no such equation.
    return _minimise(M, X if isinstance(M, SPD) else np.asarray(M.project(X)), w, enough)


# ---- as a statistic: off by no more than a number known before the records are ---------------------------------------------


def memory_moments(domain: Domain, X: np.ndarray) -> tuple[np.ndarray, float]:
    """(x, mean d²(x, xᵢ)) of NumPy records after mapping them into the ball; x is within `solver_error` of their mean.

    The fast solver's answer x is kept if its residual and its mean square distance are small enough: the gradient flow from
    x then ends at the mean after a length of at most ‖∇f(x)‖ over the convexity (`bound`, step 3). Otherwise the fixed
    number of contracting steps is taken. Either way the value is within `solver_error`; only the time depends on which.
    """
    M, center, radius = domain
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        inside = into_ball(domain, X)
        enough = tolerance(M, radius)
        x, residual, square = _measured_mean(M, inside, min(enough / 2, TOLERANCE))
        if residual <= enough and square <= radius**2 and float(M.dist(center, x)) <= radius:
            return x, square
        x = np.asarray(frechet_mean(M, inside, ball=(center, radius)))
        return x, _mean_moments(M, x, inside)[1]


def _measured_mean(M: Manifold, X: np.ndarray, enough: float) -> tuple[np.ndarray, float, float]:
    if isinstance(M, SPDAffineInvariant):
        x, residual, square = affine_invariant_moments(X, enough)
        return x, residual + _SWEEP_ERROR, square
    x = _mean(M, X, np.full(len(X), 1 / len(X)), enough)
    return x, *_mean_moments(M, x, X)


def _mean_moments(M: Manifold, x: np.ndarray, X: np.ndarray) -> tuple[float, float]:
    """(‖mean log_x‖, mean d²(x, ·))."""

    def moments(part: slice) -> tuple[np.ndarray, float]:
        with np.errstate(all="ignore"):  # the setting is a thread's own
            logs = np.asarray(M.log(x, X[part]))
            return logs.sum(axis=0), float(np.sum(np.asarray(M.inner(x, logs, logs))))

    sums = in_threads(moments, blocks(len(X), _BLOCK))
    velocity = np.sum([velocity for velocity, _ in sums], axis=0) / len(X)
    return float(M.norm(x, velocity)), sum(square for _, square in sums) / len(X)


# ---- any space: Newton where the Hessian is known, a quasi-Newton method elsewhere -----------------------------------------


class _State:
    """Gradient, cost and (on spaces of constant curvature) Hessian at a point, all in orthonormal coordinates there."""

    def __init__(self, M: Manifold, X: np.ndarray, w: np.ndarray, x: np.ndarray) -> None:
        self.x = x
        curvature = _constant_curvature(M)
        gradient, cost = np.zeros(M.dim), 0.0
        self.hessian = np.zeros((M.dim, M.dim)) if curvature is not None and M.dim <= _DENSE else None
        for part in _chunks(M, len(X)):
            Z = M.to_coordinates(x, M.log(x, X[part]))
            gradient += w[part] @ Z
            squares = np.sum(Z * Z, axis=-1)
            cost += 0.5 * float(w[part] @ squares)
            if self.hessian is not None:
                h = _tangential(curvature, squares)
                scale = w[part] * (1 - h) / np.where(squares > 0, squares, 1.0)
                self.hessian += (Z * scale[:, None]).T @ Z
                self.hessian[np.diag_indices(M.dim)] += w[part] @ h
        self.gradient, self.cost = gradient, cost  # the gradient with its sign turned: Σ w log
        self.residual = float(np.linalg.norm(gradient))


def _constant_curvature(M: Manifold) -> float | None:
    return {Sphere: 1.0, Lorentz: -1.0, PoincareBall: -1.0}.get(type(M))


def _tangential(curvature: float | None, squares: np.ndarray) -> np.ndarray:
    """Eigenvalue of the Hessian of ½d² across the geodesic: s·cot s or s·coth s."""
    s = np.sqrt(squares)
    safe = np.where(s > 1e-8, s, 1.0)
    value = safe / np.tan(safe) if curvature == 1.0 else safe / np.tanh(safe)
    return np.where(s > 1e-8, value, 1.0)


def _chunks(M: Manifold, n: int) -> list[slice]:
    rows = max(1, _CHUNK_BYTES // (8 * max(M.dim, math.prod(M.point_shape))))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def _minimise(M: Manifold, X: np.ndarray, w: np.ndarray, enough: float) -> np.ndarray:
    """Descent with Armijo's rule from the best of three starts."""
    state = _start(M, X, w)
    best, stalled = state, 0
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(_STEPS):
        if not (best.residual > 0 and stalled < _PATIENCE):
            break
        direction = _direction(state, pairs)
        slope = float(direction @ state.gradient)
        if not slope > 0:  # not a direction of descent: the Hessian is indefinite here, or the memory is stale
            direction, slope, pairs = state.gradient, state.residual**2, []
        new = _search(M, X, w, state, direction, slope)
        if new is None:
            break
        pairs = _carry(M, state, new, direction, pairs)
        state = new
        stalled = 0 if state.residual < 0.9 * best.residual else stalled + 1
        done = best.residual <= enough  # one step beyond the tolerance, kept if it helped
        best = state if state.residual < best.residual else best
        if done:
            break
    return np.full_like(best.x, np.nan) if math.isnan(best.residual) else best.x  # never the start in place of a mean


def _start(M: Manifold, X: np.ndarray, w: np.ndarray) -> _State:
    heaviest = X[int(np.argmax(w))]
    state = _State(M, X, w, heaviest)
    starts = [M.exp(heaviest, M.from_coordinates(heaviest, state.gradient)), M.project(np.tensordot(w, X, axes=1))]
    for x in starts:
        if np.all(np.isfinite(x)):
            other = _State(M, X, w, x)
            state = other if other.cost < state.cost else state
    return state


def _direction(state: _State, pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    if state.hessian is not None:
        return np.linalg.lstsq(state.hessian, state.gradient, rcond=None)[0]
    # two-loop recursion of L-BFGS (Nocedal 1980) on pairs (s, y); without pairs it is the gradient step of length 1
    q, alphas = state.gradient, []
    for s, y in reversed(pairs):
        alpha = float(s @ q) / float(s @ y)
        alphas.append(alpha)
        q = q - alpha * y
    if pairs:
        s, y = pairs[-1]
        q = q * (float(s @ y) / float(y @ y))
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q = q + (alpha - float(y @ q) / float(s @ y)) * s
    return q


def _search(
    M: Manifold, X: np.ndarray, w: np.ndarray, state: _State, direction: np.ndarray, slope: float
) -> _State | None:
    """The first of the steps 1, ½, ¼, … that satisfies Armijo's rule; None if none does above round-off."""
    for scale in 0.5 ** np.arange(64):
        x = M.exp(state.x, M.from_coordinates(state.x, scale * direction))
        new = _State(M, X, w, x) if np.all(np.isfinite(x)) else None
        if new is not None and new.cost <= state.cost - 1e-4 * scale * slope:
            return new
        if scale * slope <= 1e-12 * state.cost:
            # a change of cost below its round-off cannot be seen: there the residual decides
            return new if new is not None and new.residual < 2 * state.residual else None
    return None


def _carry(
    M: Manifold, old: _State, new: _State, direction: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The memory of L-BFGS moved to the new point by the isometric transport."""
    if new.hessian is not None:
        return []

    kept = [z for pair in pairs[-_MEMORY + 1 :] for z in pair]
    moved = np.asarray(M.carry(old.x, new.x, np.stack([old.gradient, *kept])))
    s, y = -np.asarray(M.chart(new.x, old.x)), moved[0] - new.gradient
    carried = list(zip(moved[1::2], moved[2::2], strict=True))
    if float(s @ y) > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
        carried.append((s, y))
    return carried


# ---- a fixed number of steps on a public ball ------------------------------------------------------------------------------


def _ball_mean(xp: Any, M: Manifold, X: Array, w: np.ndarray, ball: tuple[Array, float]) -> Array:
    if not isinstance(ball, tuple | list) or len(ball) != 2:
        raise ParameterError(f"ball={_validate.shown(ball)} must be a pair (center, radius)")
    center, radius = ball[0], _validate.length("radius", ball[1])
    if np.shape(center) != M.point_shape:
        raise ParameterError(f"ball center has shape {np.shape(center)}; it must be {M.point_shape}")
    steps = mean_iterations(M, radius)
    X = xp.astype(X, xp.asarray(0.0, dtype=xp.float64).dtype)
    X = project_to_ball(M, center, radius, X)
    x = xp.asarray(center, dtype=X.dtype, device=device(X))
    w = xp.asarray(w, dtype=X.dtype, device=device(X))
    return _descend(xp, M, X, w, x, radius, steps)


def _descend(xp: Any, M: Manifold, X: Array, w: Array, x: Array, radius: float, steps: int) -> Array:
    if isinstance(M, Product):
        means = [
            _descend(xp, factor, part, w, start, radius, steps)
            for factor, part, start in zip(M.factors, M.split(X), M.split(x), strict=True)
        ]
        return M.join(means)
    step = contraction(M, radius).step
    mean_log = _mean_log(xp, M, X, w)
    for _ in range(steps):
        x = M.exp(x, step * mean_log(x))
    return x


def _mean_log(xp: Any, M: Manifold, X: Array, w: Array) -> Callable[[Array], Array]:
    if isinstance(M, SPDAffineInvariant) and is_numpy_array(X):
        sweep = Sweep(X, w)

        def whitened(x: Array) -> Array:
            L = cholesky(x)
            return L @ sweep.exact(L).gradient @ L.mT

        return whitened
    axes = tuple(range(1, 1 + len(M.point_shape)))

    def plain(x: Array) -> Array:
        total = xp.zeros_like(x)
        for part in _chunks(M, X.shape[0]):
            share = xp.reshape(w[part], (-1, *(1 for _ in axes)))
            total = total + xp.sum(share * M.log(x, X[part, ...]), axis=0)
        return total

    return plain
