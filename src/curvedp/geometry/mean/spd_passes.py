"""Passes over many SPD matrices, whitened by the iterate: sums of their logarithms (NumPy).

For 2×2 and 3×3, log A is a polynomial in A whose coefficients are divided differences of log at the eigenvalues: no
eigenvectors. Above, an exact pass finds each spectrum by `eigh`; a step of length t moves log-eigenvalues by at most t, so
later passes know an interval and sum a Chebyshev series of log instead, all in matrix products, with an error known
beforehand; records of about the same spread go together, each group with its own degree. Chunks stay in cache; one thread a
core.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from curvedp.geometry.base import Array as Matrix
from curvedp.geometry.manifolds.spd_common import pack, unpack
from curvedp.geometry.numerics.spd_pencil import log_spectrum
from curvedp.geometry.numerics.spectral import sym
from curvedp.geometry.numerics.threads import blocks, in_threads

__all__ = ["TINY", "Newton", "Pass", "Sweep"]

_CHUNK_BYTES = 1 << 17
_SMALL_ROWS = 1 << 13  # of 2×2 and 3×3 matrices, whose entries are vectors
TINY = 1 << 12  # numbers in the data up to which fixed costs rule
_DENSE = 3  # m up to which the Hessian is inverted
_ROUNDS = 1000  # of conjugate gradients, which need a few; the outer steps check what they are given
_FAR = 1e-5  # least ratio of eigenvalues that plain double precision resolves to 1e-11


@dataclass(frozen=True)
class Pass:
    """What one sweep over the data at an iterate gives."""

    gradient: Matrix  # Σ w log A: minus the Riemannian gradient, whitened
    cost: float  # ½ Σ w ‖log A‖²; NaN where it was not computed

    @cached_property
    def residual(self) -> float:
        return float(np.linalg.norm(self.gradient))


class Sweep:
    """Passes over the data in chunks, on as many threads as there are cores."""

    def __init__(self, X: Matrix, weights: Matrix) -> None:
        n, m, _ = X.shape
        self.X, self.weights = X, weights
        small = m in (2, 3) and X.size > TINY
        self.packed = _packed(X) if small else None
        self.parts = blocks(n, _SMALL_ROWS if small else max(1, _CHUNK_BYTES // (8 * m * m)))
        # least and largest log-eigenvalue at the last exact pass
        self.spectra: Matrix = None if small or m <= 3 else np.empty((n, 2))
        self.eigen: Any = None  # of the last chunk of an exact pass
        self.groups: list[Matrix] = []  # records of about the same spread of eigenvalues, from narrow to wide

    def two_means(self, part: slice) -> tuple[Matrix, Matrix]:
        """Σ w X and Σ w X⁻¹ over some of the records; NaN where a matrix has no inverse."""
        w, (m, _) = self.weights[part], self.X.shape[1:]
        if self.packed is not None and m == 3:
            A = self.packed[:, part]
            return unpack(A @ w, m), unpack(_inverse3(A) @ w, m)
        X = self.X[part]
        try:
            inverse = np.linalg.inv(X)
        except np.linalg.LinAlgError:
            inverse = np.full_like(X, np.nan)
        return np.tensordot(w, X, axes=1), np.tensordot(w, inverse, axes=1)

    def exact(self, G: Matrix) -> Pass:
        inverse = np.linalg.inv(G)
        if self.packed is not None:
            packed, m = self.packed, len(G)
            # S ↦ G⁻¹SG⁻ᵀ in packed coordinates: one small matrix times the data
            congruence = pack(inverse @ unpack(np.eye(len(packed)), m) @ inverse.T).T
            return self._total(
                lambda part: _pass_small(G, congruence @ packed[:, part], self.X[part], self.weights[part]), self.parts
            )
        found = self._total(lambda part: self._pass(G, inverse, part), self.parts)
        if self.spectra is not None:
            order = np.argsort(self.spectra[:, 1] - self.spectra[:, 0])
            self.groups = [order[part] for part in self.parts]
        return found

    def _pass(self, G: Matrix, inverse: Matrix, part: slice) -> Pass:
        w, U = self.eigen = np.linalg.eigh(_whitened(inverse, self.X[part]))
        weights, near = self.weights[part], w[:, 0] > _FAR * w[:, -1]
        if near.all():
            logs = np.log(w)
            if self.spectra is not None:
                self.spectra[part] = logs[:, [0, -1]]
            return _sum(logs, U, weights)
        logs = np.log(np.where(near[:, None], w, 1.0))
        if self.spectra is not None:
            self.spectra[part] = np.where(near[:, None], logs[:, [0, -1]], [-np.inf, np.inf])
        far = _pass_far(G, self.X[part][~near], weights[~near])
        return _plus(_sum(logs, U, np.where(near, weights, 0.0)), far)

    def newton(self, G: Matrix) -> "Newton":
        """Newton's steps from some of the records, at the place of the last exact pass."""
        if self.packed is None and len(self.parts) == 1 and self.X.size <= TINY:
            w, U = self.eigen
            return Newton(w, U, self.weights)
        few, shares = _subsample(self.X, self.weights)
        w, U = np.linalg.eigh(_whitened(np.linalg.inv(G), few))
        return Newton(w, U, shares)

    def quick(self, G: Matrix, moved: float, error: float) -> Pass:
        """A pass at a point within `moved` of the last exact one, with an error of the gradient of at most `error`."""
        if not self.groups:
            return self.exact(G)
        low, high = self.spectra[:, 0] - moved, self.spectra[:, 1] + moved
        degrees = [_degree(float(high[group[-1]] - low[group[-1]]) / 2, error) for group in self.groups]
        if degrees[-1] > _MAX_DEGREE:
            return self.exact(G)
        inverse = np.linalg.inv(G)

        def series(work: tuple[Matrix, int]) -> Pass:
            rows, degree = work
            return _pass_series(inverse, self.X[rows], self.weights[rows], low[rows], high[rows], degree)

        return self._total(series, list(zip(self.groups, degrees, strict=True)))

    def _total(self, kernel: Callable[[Any], Pass], parts: Sequence[Any]) -> Pass:
        if len(parts) == 1:
            return kernel(parts[0])
        results = in_threads(kernel, parts)
        return Pass(np.sum([r.gradient for r in results], axis=0), float(np.sum([r.cost for r in results])))


def _pass_far(G: Matrix, X: Matrix, weights: Matrix) -> Pass:
    """With eigenvalues of high relative accuracy, for matrices whose whitened condition is above 1/_FAR."""
    L, logs, U = log_spectrum(sym(G @ G.T), X)
    turn = np.linalg.solve(L[0], G)  # L and G are factors of one matrix: they differ by a rotation
    return _sum(logs, turn.T @ U, weights)


def _packed(X: Matrix) -> Matrix:
    """`pack(X)`, a coordinate a row: each a run of memory."""
    m = X.shape[-1]
    pairs = [(i, j) for i in range(m) for j in range(i + 1)]
    out = np.empty((len(pairs), len(X)))
    for row, (i, j) in zip(out, pairs, strict=True):
        np.multiply(X[:, i, j], 1.0 if i == j else 2**0.5, out=row)
    return out


def _inverse3(A: Matrix) -> Matrix:
    """Packed inverses of packed 3×3 matrices, by cofactors."""
    a, d, f = A[0], A[2], A[5]
    b, c, e = A[1] * _R2, A[3] * _R2, A[4] * _R2
    cofactors = [d * f - e * e, c * e - b * f, a * f - c * c, b * e - c * d, b * c - a * e, a * d - b * b]
    determinant = a * cofactors[0] + b * cofactors[1] + c * cofactors[3]
    root2 = 2**0.5
    return np.stack(cofactors) * np.array([1.0, root2, 1.0, root2, root2, 1.0])[:, None] / determinant


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


def _pass_small(G: Matrix, A: Matrix, X: Matrix, weights: Matrix) -> Pass:
    kernel = _log2 if len(G) == 2 else _log3
    with np.errstate(invalid="ignore", divide="ignore"):  # a matrix too far out shows as NaN or through `_FAR`
        logs, cost, ratio = kernel(A, weights)
        near = ratio > _FAR
        if np.all(near):
            return Pass(unpack(logs, len(G)), cost)
        logs, cost, _ = kernel(A[:, near], weights[near])
    return _plus(Pass(unpack(logs, len(G)), cost), _pass_far(G, X[~near], weights[~near]))


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


# ---- Newton's steps ------------------------------------------------------------------------------------------------------


class Newton:
    """E ↦ H⁻¹E, H the Hessian of whitened matrices UwUᵀ, 1 ≤ H ≤ max K: inverted where small, else by conjugate gradients."""

    def __init__(self, w: Matrix, U: Matrix, weights: Matrix) -> None:
        w = np.log(np.maximum(w, 1e-16 * w[:, -1:]))  # round-off of a far matrix may be negative; H need not be exact
        s = 0.5 * (w[:, :, None] - w[:, None, :])
        self.K = np.where(s == 0, 1.0, s / np.tanh(np.where(s == 0, 1.0, s))) * weights[:, None, None]
        self.U = U
        n, m = w.shape
        self.inverse = None
        if m <= _DENSE:  # H as a matrix: rows U⊗U, weighted by K
            rows = (U[:, :, None, :, None] * U[:, None, :, None, :]).reshape(n, m * m, m * m)
            flat = rows.transpose(0, 2, 1).reshape(n * m * m, m * m)
            self.inverse = np.linalg.inv((flat * self.K.reshape(-1, 1)).T @ flat)
        else:
            self.columns = U.mT.reshape(n * m, m).copy()

    def __call__(self, gradient: Matrix) -> Matrix:
        # symmetric to the last bit, as H's values are: what round-off leaves of the rest would never fall, and where the
        # gradient is all round-off (the start was the mean) the rounds would grow without end
        r = sym(gradient)
        if self.inverse is not None:
            return sym((self.inverse @ r.ravel()).reshape(r.shape))
        x, d, rr = np.zeros_like(r), r, float(np.sum(r * r))
        goal = 1e-8 * rr
        for _ in range(_ROUNDS):
            if not rr > goal:
                break
            Hd = self._times(d)
            bend = float(np.sum(d * Hd))
            if not bend > 0:  # underflow
                break
            a = rr / bend
            x, r = x + a * d, r - a * Hd
            rr, old = float(np.sum(r * r)), rr
            d = r + (rr / old) * d
        return x

    def _times(self, E: Matrix) -> Matrix:
        n, m, _ = self.U.shape
        inner = self.K * (self.U.mT @ (self.columns @ E).reshape(n, m, m).mT)
        return sym((inner @ self.U.mT).reshape(n * m, m).T @ self.columns)


def _subsample(X: Matrix, weights: Matrix) -> tuple[Matrix, Matrix]:
    """Enough matrices for a Hessian, evenly spaced, or the heaviest where the weights are uneven."""
    n, m, _ = X.shape
    size = 1024 if m <= _DENSE else 256 if m <= 32 else 128
    if n <= size:
        return X, weights
    pick = np.linspace(0, n - 1, size).astype(np.int64)
    if weights[pick].sum() * n < 0.5 * size:
        pick = np.argpartition(weights, n - size)[n - size :]
    return X[pick], weights[pick] / weights[pick].sum()


def _whitened(inverse: Matrix, X: Matrix) -> Matrix:
    n, m, _ = X.shape
    return sym(inverse @ (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m))
