"""The affine-invariant Fréchet mean in few and cheap passes over the data (NumPy).

A pass whitens every matrix by the Cholesky factor of the iterate, A_i = L⁻¹X_iL⁻ᵀ, and sums w_i log A_i: minus the gradient.

Few: the start is the geometric mean of the arithmetic and the harmonic mean (exact for two matrices), and each step is
Newton's. The Hessian is the mean of E ↦ U(K ⊙ UᵀEU)Uᵀ with K = (s/2)coth(s/2), s = log λr − log λs (a symmetric space); it
is at least 1 and varies little from matrix to matrix, so a subsample gives it well enough for two to three digits a pass,
where the plain fixed point gains one.

Cheap: for 2×2 and 3×3, log A is a polynomial in A whose coefficients are divided differences of log at the eigenvalues: no
eigenvectors. Above, the first pass finds each spectrum by `eigh`; a step of length t moves log-eigenvalues by at most t, so
later passes know an interval and sum a Chebyshev series of log instead, all in matrix products, with an error known
beforehand. Chunks stay in cache; one thread a core.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from curvedp.geometry.base import Array as Matrix
from curvedp.geometry.manifolds.spd_common import pack, unpack
from curvedp.geometry.numerics.small_eigh import eigh
from curvedp.geometry.numerics.spd_pencil import log_spectrum
from curvedp.geometry.numerics.spectral import sym
from curvedp.geometry.numerics.threads import blocks, in_threads
from curvedp.geometry.numerics.triangular import cholesky, lower_solve

__all__ = ["TOLERANCE", "Sweep", "affine_invariant_mean"]

TOLERANCE = 5e-10  # residual seen before the last step, half of what is promised; the last step improves on it
_CHUNK_BYTES = 1 << 18
_STEPS = 100  # in all; a handful are needed where double precision resolves the data
_ROUNDS = 1000  # of conjugate gradients, which need a few; the outer steps check what they are given
_FAR = 1e-5  # least ratio of eigenvalues that plain double precision resolves to 1e-11


@dataclass(frozen=True)
class Pass:
    """What one sweep over the data at an iterate gives."""

    gradient: Matrix  # Σ w log A: minus the Riemannian gradient, whitened
    cost: float  # ½ Σ w ‖log A‖²; NaN where it was not computed

    @property
    def residual(self) -> float:
        return float(np.linalg.norm(self.gradient))


def affine_invariant_mean(X: Matrix, weights: Matrix, enough: float = TOLERANCE) -> Matrix:
    """The Fréchet mean of X (n, m, m) float64 with weights (n,) that sum to 1."""
    sweep = Sweep(X, weights)
    x = _start(X, weights)
    L = cholesky(x)
    state = sweep.exact(L)
    if not np.isfinite(state.residual):
        return np.full_like(x, np.nan)
    solve = _hessian_solver(L, *_subsample(X, weights))
    rate, moved = 1e-2, 0.0
    for _ in range(_STEPS):
        step = solve(state.gradient)
        length = float(np.linalg.norm(step))
        y = _move(L, step)
        if state.residual <= enough:
            return y
        K = cholesky(y)
        new = sweep.quick(K, moved + length, max(min(1e-11, 0.1 * enough), 1e-2 * state.residual * max(rate, 1e-3)))
        if not new.residual < 0.1 * state.residual:
            x, L, new, solve = _careful(X, weights, sweep, x, L, state, step)
            if new is state:
                return x
            moved = 0.0
        else:
            x, L, moved = y, K, moved + length
        rate, state = new.residual / state.residual, new
    return x


def _careful(
    X: Matrix, weights: Matrix, sweep: "Sweep", x: Matrix, L: Matrix, state: Pass, step: Matrix
) -> tuple[Matrix, Matrix, Pass, Callable[[Matrix], Matrix]]:
    """A damped Newton step, exact pass and fresh Hessian: Armijo's rule on the convex cost; the old state if stuck."""
    solve = _hessian_solver(L, *_subsample(X, weights))
    step = solve(state.gradient)
    if np.isnan(state.cost):
        state = sweep.exact(L)
    slope = float(np.sum(state.gradient * step))
    for scale in 0.5 ** np.arange(64):
        y = _move(L, scale * step)
        K = cholesky(y)
        new = sweep.exact(K)
        # A change of cost below its round-off cannot be seen: then the residual decides.
        if new.cost <= state.cost - 1e-4 * scale * slope or (
            scale * slope <= 1e-12 * state.cost and new.residual < state.residual
        ):
            return y, K, new, _hessian_solver(K, *_subsample(X, weights))
        if scale * slope <= 1e-16 * state.cost:
            break
    return x, L, state, solve


def _move(L: Matrix, step: Matrix) -> Matrix:
    w, U = eigh(step)
    half = L @ (U * np.exp(0.5 * w))
    return half @ half.T


def _subsample(X: Matrix, weights: Matrix) -> tuple[Matrix, Matrix]:
    """Enough matrices for a Hessian, evenly spaced, or the heaviest where the weights are uneven."""
    n, m, _ = X.shape
    size = min(1024, max(128, 500_000 // (m * m)))
    if n <= size:
        return X, weights
    pick = np.linspace(0, n - 1, size).astype(np.int64)
    if weights[pick].sum() * n < 0.5 * size:
        pick = np.argpartition(weights, n - size)[n - size :]
    return X[pick], weights[pick] / weights[pick].sum()


def _start(X: Matrix, weights: Matrix) -> Matrix:
    """The geometric mean of the arithmetic and the harmonic mean."""
    n, m, _ = X.shape
    arithmetic = (weights @ X.reshape(n, m * m)).reshape(m, m)
    rows = max(1, _CHUNK_BYTES // (8 * m * m))
    inverse = sum(
        np.tensordot(weights[part], np.linalg.inv(X[part]), axes=1)
        for part in (slice(i, i + rows) for i in range(0, n, rows))
    )
    L = cholesky(sym(arithmetic))
    w, U = eigh(sym(L.T @ inverse @ L))  # the whitened harmonic mean, inverted
    if not np.all(w > 0):  # too ill-conditioned for the harmonic mean
        return sym(arithmetic)
    half = L @ (U * w**-0.25)
    return half @ half.T


def _hessian_solver(L: Matrix, X: Matrix, weights: Matrix) -> Callable[[Matrix], Matrix]:
    """E ↦ H⁻¹E by conjugate gradients, H the Hessian of X at LLᵀ, 1 ≤ H ≤ max K: a few rounds."""
    w, U = eigh(_whitened(_inverse(L), X))
    n, m = w.shape
    w = np.maximum(w, 1e-16 * w[:, -1:])  # round-off of a far matrix may be negative; the Hessian need not be exact
    s = 0.5 * (np.log(w)[:, :, None] - np.log(w)[:, None, :])
    K = np.where(s == 0, 1.0, s / np.tanh(np.where(s == 0, 1.0, s))) * weights[:, None, None]
    columns = U.mT.reshape(n * m, m).copy()

    def hessian(E: Matrix) -> Matrix:
        inner = K * (U.mT @ (E @ U))
        return sym((inner @ U.mT).reshape(n * m, m).T @ columns)

    def solve(gradient: Matrix) -> Matrix:
        # symmetric to the last bit, as H's values are: what round-off leaves of the rest would never fall, and where the
        # gradient is all round-off (the start was the mean) the rounds would grow without end
        x, r = np.zeros_like(gradient), sym(gradient)
        d, rr = r, float(np.sum(r * r))
        goal = rr * min(max(rr, 1e-6), 1e-4)
        for _ in range(_ROUNDS):
            if not rr > goal:
                break
            Hd = hessian(d)
            bend = float(np.sum(d * Hd))
            if not bend > 0:  # underflow
                break
            a = rr / bend
            x, r = x + a * d, r - a * Hd
            rr, old = float(np.sum(r * r)), rr
            d = r + (rr / old) * d
        return x

    return solve


def _inverse(L: Matrix) -> Matrix:
    return lower_solve(L, np.eye(len(L)))


def _whitened(inverse: Matrix, X: Matrix) -> Matrix:
    n, m, _ = X.shape
    return sym(inverse @ (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m))


# ---- one pass -----------------------------------------------------------------------------------------------------------


class Sweep:
    """Passes over the data in chunks, on as many threads as there are cores."""

    def __init__(self, X: Matrix, weights: Matrix) -> None:
        n, m, _ = X.shape
        self.X, self.weights, self.small = X, weights, m in (2, 3)
        self.packed = np.ascontiguousarray(pack(X).T) if self.small else None
        rows = max(1, (4 * _CHUNK_BYTES if self.small else _CHUNK_BYTES) // (8 * m * m))
        self.parts = blocks(n, rows)
        # least and largest log-eigenvalue at the last exact pass
        self.spectra: Matrix = None if self.small else np.empty((n, 2))

    def exact(self, L: Matrix) -> Pass:
        inverse = _inverse(L)
        if self.packed is not None:
            packed, m = self.packed, len(L)
            # S ↦ L⁻¹SL⁻ᵀ in packed coordinates: one small matrix times the data
            congruence = pack(inverse @ unpack(np.eye(len(packed)), m) @ inverse.T).T
            return self._total(
                lambda part: _pass_small(L, congruence @ packed[:, part], self.X[part], self.weights[part])
            )
        return self._total(lambda part: _pass(L, inverse, self.X[part], self.weights[part], self.spectra[part]))

    def quick(self, L: Matrix, moved: float, error: float) -> Pass:
        """A pass at a point within `moved` of the last exact one, with an error of the gradient of at most `error`."""
        if self.spectra is None:
            return self.exact(L)
        low, high = self.spectra[:, 0] - moved, self.spectra[:, 1] + moved
        degree = _degree(float(np.max(high - low)) / 2, error)
        if degree > _MAX_DEGREE:
            return self.exact(L)
        inverse = _inverse(L)
        return self._total(
            lambda part: _pass_series(inverse, self.X[part], self.weights[part], low[part], high[part], degree)
        )

    def _total(self, kernel: Callable[[slice], Pass]) -> Pass:
        results = in_threads(kernel, self.parts)
        return Pass(np.sum([r.gradient for r in results], axis=0), float(np.sum([r.cost for r in results])))


def _pass(L: Matrix, inverse: Matrix, X: Matrix, weights: Matrix, spectra: Matrix) -> Pass:
    w, U = eigh(_whitened(inverse, X))
    near = w[:, 0] > _FAR * w[:, -1]
    logs = np.log(np.where(near[:, None], w, 1.0))
    spectra[:] = np.where(near[:, None], logs[:, [0, -1]], [-np.inf, np.inf])
    result = _sum(logs, U, np.where(near, weights, 0.0))
    return result if np.all(near) else _plus(result, _pass_far(L, X[~near], weights[~near]))


def _pass_far(L: Matrix, X: Matrix, weights: Matrix) -> Pass:
    """With eigenvalues of high relative accuracy, for matrices whose whitened condition is above 1/_FAR."""
    _, logs, U = log_spectrum(L @ L.T, X)
    return _sum(logs, U, weights)


def _plus(a: Pass, b: Pass) -> Pass:
    return Pass(a.gradient + b.gradient, a.cost + b.cost)


def _sum(logs: Matrix, U: Matrix, weights: Matrix) -> Pass:
    n, m = logs.shape
    flat = U.transpose(1, 0, 2).reshape(m, n * m)
    gradient = (flat * (weights[:, None] * logs).ravel()) @ flat.T
    return Pass(gradient, 0.5 * float(np.sum(weights[:, None] * logs * logs)))


_MAX_DEGREE = 160  # beyond it `eigh` is cheaper


def _degree(half_width: float, error: float) -> int:
    """Degree at which the series below is within `error` on log-eigenvalues of the given half-width."""
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if q == 1:
        return _MAX_DEGREE + 1
    return max(2, int(np.ceil(np.log(max(error, 1e-15) * (1 - q) / 2) / np.log(q))))


def _pass_series(inverse: Matrix, X: Matrix, weights: Matrix, low: Matrix, high: Matrix, degree: int) -> Pass:
    """Σ w log A from log(cosh σ + y sinh σ) = −log(1−q²) + 2Σ (−1)^{k+1} q^k/k T_k(y), q = tanh(σ/2).

    A/c, with c the geometric middle of its interval, has its spectrum in [e^−σ, e^σ]. The tail beyond degree d is below
    2q^{d+1}/(1−q). Only the sum over the matrices is needed, so with giant steps T_bs the last product of each block
    is one long matrix product (after Paterson & Stockmeyer 1973).
    """
    n, m, _ = X.shape
    middle = 0.5 * (low + high)
    sigma = float(np.max(high - low)) / 2
    q = np.tanh(sigma / 2)
    stride = max(2, round((2 * degree) ** 0.5))
    blocks = degree // stride
    k = np.arange(1, (blocks + 1) * stride)
    c = np.concatenate([[-np.log1p(-q * q)], 2 * (-1.0) ** (k + 1) * q**k / k])
    Q = np.zeros((blocks + 1, stride))
    for b in range(blocks, 0, -1):  # Σ c_k T_k = Σ_b T_bs Σ_j Q_bj T_j, as 2 T_bs T_j = T_{bs+j} + T_{bs−j}
        Q[b] = 2 * c[b * stride : (b + 1) * stride]
        Q[b, 0] /= 2
        c[(b - 1) * stride + 1 : b * stride] -= c[b * stride + 1 : (b + 1) * stride][::-1]
    Q[0] = c[:stride]

    Y = _whitened(inverse, X) * (np.exp(-middle) / max(np.sinh(sigma), 1e-300))[:, None, None]
    identity = np.eye(m)
    Y -= identity / max(np.tanh(sigma), 1e-300)
    T = np.empty((stride, n, m, m))
    T[0], T[1] = identity, Y
    twice = 2 * Y
    for j in range(2, stride):
        np.matmul(twice, T[j - 1], out=T[j])
        T[j] -= T[j - 2]
    giant = twice @ T[stride - 1] - T[stride - 2]
    T *= weights[:, None, None]
    parts = (Q @ T.reshape(stride, -1)).reshape(blocks + 1, n, m, m)
    total = parts[0].sum(axis=0) + float(weights @ middle) * identity
    before, current = np.broadcast_to(identity, giant.shape), giant
    for b in range(1, blocks + 1):
        total += parts[b].reshape(n * m, m).T @ current.reshape(n * m, m)
        if b < blocks:
            before, current = current, 2 * (giant @ current) - before
    return Pass(sym(total), np.nan)


def _pass_small(L: Matrix, A: Matrix, X: Matrix, weights: Matrix) -> Pass:
    kernel = _log2 if len(L) == 2 else _log3
    with np.errstate(invalid="ignore", divide="ignore"):  # a matrix too far out shows as NaN or through `_FAR`
        logs, cost, ratio = kernel(A, weights)
        near = ratio > _FAR
        if np.all(near):
            return Pass(unpack(logs, len(L)), cost)
        logs, cost, _ = kernel(A[:, near], weights[near])
    return _plus(Pass(unpack(logs, len(L)), cost), _pass_far(L, X[~near], weights[~near]))


_R2 = 0.5**0.5


def _log2(A: Matrix, weights: Matrix) -> tuple[Matrix, float, Matrix]:
    """Σ w log A (packed), ½Σ w‖log A‖² and each λ₁/λ₂: log A = log λ₁ + log[λ₁,λ₂](A − λ₁)."""
    a, b, d = A[0], A[1], A[2]
    b = b * _R2
    root = np.sqrt((0.5 * (a - d)) ** 2 + b * b)
    high = 0.5 * (a + d) + root
    low = (a * d - b * b) / high
    gap = 2 * root
    log_low = np.log(low)
    rise = np.log1p(gap / low)
    first = weights * np.where(gap > 0, rise / np.where(gap > 0, gap, 1.0), 1 / low)
    identity = weights @ log_low - first @ low
    log_high = log_low + rise
    logs = A @ first + identity * np.array([1.0, 0.0, 1.0])
    return logs, 0.5 * float(weights @ (log_low**2 + log_high**2)), low / high


def _log3(A: Matrix, weights: Matrix) -> tuple[Matrix, float, Matrix]:
    """Σ w log A (packed), ½Σ w‖log A‖² and each λ₁/λ₃, by Newton's interpolation of log at the eigenvalues λ₁ ≤ λ₂ ≤ λ₃.

    An error δ of an eigenvalue moves log A by δ times the distance to the others, so clusters do no harm.
    """
    a, d, f = A[0], A[2], A[5]
    b, c, e = A[1] * _R2, A[3] * _R2, A[4] * _R2
    bb, cc, ee = b * b, c * c, e * e
    mean = (a + d + f) * (1 / 3)
    x, y, z = a - mean, d - mean, f - mean
    p2 = (x * x + y * y + z * z + 2 * (bb + cc + ee)) * (1 / 6)
    p = np.sqrt(p2)
    det = x * (y * z - ee) - b * (b * z - 2 * c * e) - cc * y
    r = np.clip(0.5 * det / np.where(p2 > 0, p2 * p, 1.0), -1.0, 1.0)
    sign = np.copysign(1.0, r)
    r = np.abs(r)
    t = 1.7320508075688772 + r * (0.3333333333333333 - r * 0.0653841409021)  # see small_eigh: t³ − 3t = 2r
    for _ in range(3):
        tt = t * t
        t = (2 * (tt * t + r)) / (3 * (tt - 1))
    p *= sign
    half = 0.8660254037844386 * np.sqrt(np.maximum(4 - t * t, 0.0))
    far = mean + p * t
    one, two = mean + p * (-0.5 * t + half), mean + p * (-0.5 * t - half)
    top = sign > 0
    high, middle, low = np.where(top, far, two), np.where(top, one, one), np.where(top, two, far)
    g21, g32 = middle - low, high - middle
    l1 = np.log(low)
    r21, r32 = np.log1p(g21 / low), np.log1p(g32 / middle)
    d21 = np.where(g21 > 0, r21 / np.where(g21 > 0, g21, 1.0), 1 / low)
    d32 = np.where(g32 > 0, r32 / np.where(g32 > 0, g32, 1.0), 1 / middle)
    gap = high - low
    second = weights * np.where(gap > 0, (d32 - d21) / np.where(gap > 0, gap, 1.0), 0.0)
    first = weights * d21 - second * (low + middle)
    zeroth = weights @ l1 - (weights * d21) @ low + (second * low) @ middle
    logs = A @ first
    root2 = 2**0.5
    squares = [a * a + bb + cc, root2 * (b * (a + d) + c * e), bb + d * d + ee]
    squares += [root2 * (c * (a + f) + b * e), root2 * (e * (d + f) + b * c), cc + ee + f * f]
    logs += [float(second @ s) for s in squares]
    logs += zeroth * np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    l2 = l1 + r21
    return logs, 0.5 * float(weights @ (l1 * l1 + l2 * l2 + (l2 + r32) ** 2)), low / high
