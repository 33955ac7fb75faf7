"""The affine-invariant Fréchet mean in few and cheap passes over matrices in memory (NumPy): docs/frechet-mean.md.

A place is a factor G of the iterate GGᵀ, and a step S leads to G·exp(S/2). A pass whitens every matrix, A_i = G⁻¹X_iG⁻ᵀ,
and sums w_i log A_i: by a polynomial for 2×2 and 3×3; above, by `eigh` when careful, else by the series of `_log_sum`
on intervals that hold each spectrum, since moving from G to H shifts log-eigenvalues by at most twice the ends of log
σ(H⁻¹G) (Ostrowski 1959).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from curvedp.geometry.frechet_mean.solver import SLOW, Asked, Course, Moments
from curvedp.geometry.manifold import Array as Matrix
from curvedp.geometry.spaces.spd_common import pack, unpack
from curvedp.numerics.eigen import eigh
from curvedp.numerics.matrix_functions import sym
from curvedp.numerics.spd3 import log_polynomial, squared
from curvedp.numerics.spd_pencil import log_spectrum
from curvedp.numerics.threads import blocks, in_threads

_CHUNK_BYTES = 1 << 17
_SMALL_ROWS = 1 << 13  # of 2×2 and 3×3 matrices, whose entries are vectors
TINY = 1 << 12  # numbers in the data up to which fixed costs rule
_KEPT = 1 << 23  # numbers in eigenvectors that are kept of a careful pass
_FAR, _ERROR = (
    1e-5,
    1e-11,
)  # least ratio of eigenvalues that plain double precision resolves, and to what

_DENSE = 3  # m up to which the Hessian is inverted
_ROUNDS = (
    1000  # of conjugate gradients, which need a few; the search checks what it is given
)
_REFINED = 2  # rounds with all matrices, each worth two digits


class Eigen(NamedTuple):
    """Whitened matrices UwUᵀ, and their weights."""

    w: Matrix
    U: Matrix
    weights: Matrix


def few_of(n: int, m: int) -> Matrix | None:
    """Which of n records make a Hessian, evenly spaced; None: all."""
    size = 1024 if m <= _DENSE else 256 if m <= 32 else 128
    return None if n <= size else np.linspace(0, n - 1, size).astype(np.int64)


class Newton:
    """E ↦ H⁻¹E: inverted where small, else by conjugate gradients with a few matrices, refined with all. H is the mean of
    E ↦ U(K ⊙ UᵀEU)Uᵀ over whitened matrices A = UwUᵀ, K = (s/2)coth(s/2), s = log wᵣ − log wₛ (a symmetric space). It is at
    least 1 and varies little from matrix to matrix, so that a few hundred give it to a percent. All of them, applied a few
    times to what those leave, cost a tenth of a pass and give three to six digits a step."""

    def __init__(self, parts: Sequence[Eigen]) -> None:
        self.total = sum(float(part.weights.sum()) for part in parts)
        whole = (
            Eigen(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))
            if len(parts) > 1
            else parts[0]
        )
        few, pick = whole, few_of(*whole.w.shape)
        if pick is not None:
            few = Eigen(
                whole.w[pick],
                whole.U[pick],
                whole.weights[pick] / whole.weights[pick].sum(),
            )
        self.few = _Hessian(few)
        self.inverse = (
            np.linalg.inv(self.few.matrix()) if few.w.shape[1] <= _DENSE else None
        )
        refines = self.inverse is None and len(few.w) < len(whole.w)
        self.parts = [_Hessian(part) for part in parts] if refines else []

    def __call__(self, gradient: Matrix) -> Matrix:
        # symmetric to the last bit, as H's values are: what round-off leaves of the rest would never fall, and where the
        # gradient is all round-off (the start was the mean) the rounds would grow without end
        r = sym(gradient)
        if self.inverse is not None:
            return sym((self.inverse @ r.ravel()).reshape(r.shape))
        x = self._conjugate_gradients(r)
        for _ in range(_REFINED if self.parts else 0):
            whole = (
                np.sum(in_threads(methodcaller("times", x), self.parts), axis=0)
                / self.total
            )
            x = x + self._conjugate_gradients(r - whole)
        return x

    def _conjugate_gradients(self, r: Matrix) -> Matrix:
        x, d, rr = np.zeros_like(r), r, float(np.sum(r * r))
        goal = 1e-6 * rr if self.parts else 1e-8 * rr
        for _ in range(_ROUNDS):
            if not rr > goal:
                break
            Hd = self.few.times(d)
            bend = float(np.sum(d * Hd))
            if not bend > 0:  # underflow
                break
            a = rr / bend
            x, r = x + a * d, r - a * Hd
            rr, old = float(np.sum(r * r)), rr
            d = r + (rr / old) * d
        return x


class _Hessian:
    def __init__(self, eigen: Eigen) -> None:
        w, self.U, weights = eigen
        w = np.log(
            np.maximum(w, 1e-16 * w[:, -1:])
        )  # round-off of a far matrix may be negative; H need not be exact
        s = 0.5 * (w[:, :, None] - w[:, None, :])
        self.K = (
            np.where(s == 0, 1.0, s / np.tanh(np.where(s == 0, 1.0, s)))
            * weights[:, None, None]
        )
        self.columns = self.U.mT.reshape(-1, w.shape[1])

    def times(self, E: Matrix) -> Matrix:
        n, m, _ = self.U.shape
        inner = self.K * (self.U.mT @ (self.columns @ E).reshape(n, m, m).mT)
        return sym((inner @ self.U.mT).reshape(n * m, m).T @ self.columns)

    def matrix(self) -> Matrix:
        """H in the m² entries of E: columns U⊗U, weighted by K; the records run along the last axis."""
        U, K = (np.ascontiguousarray(a.transpose(1, 2, 0)) for a in (self.U, self.K))
        columns = (U[:, None, :, None] * U[None, :, None, :]).reshape(len(U) ** 2, -1)
        return np.asarray((columns * K.reshape(1, -1)) @ columns.T)


class Sweep(Course):
    """Passes over matrices X (n, m, m) float64 with weights (n,) that sum to 1, for a search that ends at `enough`."""

    def __init__(self, X: Matrix, weights: Matrix, enough: float = 1e-9) -> None:
        n, m, _ = X.shape
        self.X, self.weights = X, weights
        self.small = m in (2, 3) and X.size > TINY
        self.parts = blocks(
            n, _SMALL_ROWS if self.small else max(1, _CHUNK_BYTES // (8 * m * m))
        )
        self.packed = _packed(X) if self.small else None
        self.spectra: Matrix = (
            None if m <= 3 else np.empty((n, 2))
        )  # ends of the log-eigenvalues at `self.seen`
        self.seen: Matrix = None  # the factor of the last careful pass
        self.eigen: dict[
            int, Eigen
        ] = {}  # and what `eigh` gave there, part by part, for those that are
        self.kept = {part.start for part in self.parts[:: -(-X.size // _KEPT)]}
        self.groups: list[
            Matrix
        ] = []  # records of about the same spread, from narrow to wide
        self.least, self.last, self.rate = max(0.1 * enough, 1e-15), 1.0, 1e-3
        self.unit = np.inf  # of round-off at `self.seen`

    @cached_property
    def start(self) -> Matrix:
        """A factor of the geometric mean of the arithmetic and the harmonic mean; NaN where the data are."""
        parts = in_threads(self._two_means, self.parts)
        arithmetic, inverse = (
            sym(np.sum([part[i] for part in parts], axis=0)) for i in (0, 1)
        )
        try:
            L = np.linalg.cholesky(arithmetic)
        except np.linalg.LinAlgError:  # not positive definite to working precision
            return np.full_like(arithmetic, np.nan)
        whitened = sym(L.T @ inverse @ L)
        if not np.all(np.isfinite(whitened)):
            return L
        w, U = np.linalg.eigh(whitened)  # the whitened harmonic mean, inverted
        return (
            L @ (U * w**-0.25) if np.all(w > 0) else L
        )  # or too ill-conditioned for the harmonic mean

    def move(self, G: Matrix, step: Matrix) -> Matrix:
        """G·exp(S/2)."""
        w, U = np.linalg.eigh(step)
        return G @ ((U * np.exp(0.5 * w)) @ U.T)

    def newton(self, G: Matrix, gain: float) -> Newton | None:
        """From the matrices of the last careful pass, or from a few where that was elsewhere; anew where a step was slow."""
        if not gain > SLOW:
            return None
        if self.seen is G and self.eigen:
            return Newton(
                [
                    self.eigen[part.start]
                    for part in self.parts
                    if part.start in self.eigen
                ]
            )
        pick = few_of(len(self.X), len(G))
        X, weights = (
            (self.X, self.weights)
            if pick is None
            else (self.X[pick], self.weights[pick])
        )
        return Newton(
            [Eigen(*eigh(_whitened(np.linalg.inv(G), X)), weights / weights.sum())]
        )

    def moments(self, asked: Asked) -> Moments:
        """A pass: by `eigh` where care is asked for, else by series, good to a hundredth of what is to be expected of it."""
        G = asked.x
        if not np.all(np.isfinite(G)):
            return Moments(G, np.nan)
        error = max(self.least, 1e-2 * self.last * max(self.rate * self.rate, 1e-6))
        found = (
            self.exact(G) if asked.careful or not self.groups else self.quick(G, error)
        )
        self.rate, self.last = (
            found.residual / self.last if self.seen is not G else 1e-3,
            found.residual,
        )
        return found

    def at(self, p: Matrix) -> Matrix:
        return np.linalg.cholesky(p)

    def point(self, G: Matrix) -> Matrix:
        return sym(G @ G.T)

    def exact(self, G: Matrix) -> Moments:
        """A pass in which every spectrum is found."""
        inverse, self.seen = np.linalg.inv(G), G
        if (
            self.least < _ERROR
        ):  # where that is not enough: what round-off does near the identity
            self.unit = 16 * len(G) * 2.0**-53 * float(np.linalg.cond(G)) ** 2
        if self.packed is not None:
            packed, m = self.packed, len(G)
            # S ↦ G⁻¹SG⁻ᵀ in packed coordinates: one small matrix times the data
            congruence = pack(inverse @ unpack(np.eye(len(packed)), m) @ inverse.T).T
            return _total(
                lambda part: _small(
                    self.unit,
                    G,
                    congruence @ packed[:, part],
                    self.X[part],
                    self.weights[part],
                ),
                self.parts,
            )
        found = _total(lambda part: self._spectra(G, inverse, part), self.parts)
        if self.spectra is not None:
            order = np.argsort(self.spectra[:, 1] - self.spectra[:, 0])
            self.groups = [order[part] for part in self.parts]
        return found

    def _spectra(self, G: Matrix, inverse: Matrix, part: slice) -> Moments:
        w, U = np.linalg.eigh(_whitened(inverse, self.X[part]))
        if part.start in self.kept:
            self.eigen[part.start] = Eigen(w, U, self.weights[part])
        logs, near, found = _by_spectrum(
            self.unit, G, w, U, self.X[part], self.weights[part]
        )
        if self.spectra is not None:
            self.spectra[part] = np.where(
                near[:, None], logs[:, [0, -1]], [-np.inf, np.inf]
            )
        return found

    def quick(self, G: Matrix, error: float) -> Moments:
        """A pass at any place, with an error of the gradient of at most `error`; NaN for the mean square."""
        ends = 2 * np.log(
            np.linalg.svd(np.linalg.solve(G, self.seen), compute_uv=False)
        )
        low, high = self.spectra[:, 0] + ends[-1], self.spectra[:, 1] + ends[0]
        inverse = np.linalg.inv(G)

        def summed(rows: Matrix) -> Moments:
            A, weights = _whitened(inverse, self.X[rows]), self.weights[rows]
            terms = _degree(float(high[rows[-1]] - low[rows[-1]]) / 2, error)
            if terms > min(
                160, 5000 // len(G)
            ):  # measured: 160 at m = 11, 100 at 50, 50 at 100; `eigh` is cheaper
                return _by_spectrum(
                    self.unit, G, *np.linalg.eigh(A), self.X[rows], weights
                )[2]
            return Moments(
                _log_sum(A, weights, low[rows], high[rows], terms),
                np.nan,
                error * float(weights.sum()),
            )

        return _total(summed, self.groups)

    def _two_means(self, part: slice) -> tuple[Matrix, Matrix]:
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


def _total(kernel: Callable[[Any], Moments], parts: Sequence[Any]) -> Moments:
    if len(parts) == 1:
        return kernel(parts[0])
    results = in_threads(kernel, parts)
    velocity = np.sum([found.velocity for found in results], axis=0)
    return Moments(
        velocity,
        sum(found.square for found in results),
        sum(found.error for found in results),
    )


def _by_spectrum(
    unit: float, G: Matrix, w: Matrix, U: Matrix, X: Matrix, weights: Matrix
) -> tuple[Matrix, Matrix, Moments]:
    """The log-eigenvalues, which matrices plain double precision resolves, and the sums; with care over the others."""
    ratio = w[:, 0] / w[:, -1]
    near = ratio > _FAR
    logs = np.log(w if near.all() else np.where(near[:, None], w, 1.0))
    found = _sum(logs, U, weights if near.all() else np.where(near, weights, 0.0))
    return logs, near, _with_far(found, unit, G, X, weights, ratio)


def _with_far(
    found: Moments, unit: float, G: Matrix, X: Matrix, weights: Matrix, ratio: Matrix
) -> Moments:
    """Sums over near matrices, their error, and the far ones', with eigenvalues of high relative accuracy."""
    near = ratio > _FAR
    error = (
        min(_ERROR, unit / float(np.min(ratio, initial=1.0))) if near.all() else _ERROR
    )
    if not near.all():
        L, logs, U = log_spectrum(sym(G @ G.T), X[~near])
        turn = np.linalg.solve(
            L[0], G
        )  # L and G are factors of one matrix: they differ by a rotation
        far = _sum(logs, turn.T @ U, weights[~near])
        found = Moments(found.velocity + far.velocity, found.square + far.square)
    return Moments(found.velocity, found.square, error * float(weights.sum()))


def _sum(logs: Matrix, U: Matrix, weights: Matrix) -> Moments:
    n, m = logs.shape
    flat = U.transpose(1, 0, 2).reshape(m, n * m)
    velocity = (flat * (weights[:, None] * logs).ravel()) @ flat.T
    return Moments(velocity, float(np.sum(weights[:, None] * logs * logs)))


def _degree(half_width: float, error: float) -> int:
    """Degree at which `_log_sum` is within `error` on log-eigenvalues of the given half-width."""
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if not q < 1:
        return 10**9
    return max(2, int(np.ceil(np.log(max(error, 1e-15) * (1 - q) / 2) / np.log(q))))


def _whitened(inverse: Matrix, X: Matrix) -> Matrix:
    """G⁻¹XG⁻ᵀ, symmetric to the last bit."""
    n, m, _ = X.shape
    return sym(inverse @ (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m))


def _log_sum(
    A: Matrix, weights: Matrix, low: Matrix, high: Matrix, degree: int
) -> Matrix:
    """Σ w log A from log(cosh σ + y sinh σ) = −log(1−q²) + 2Σ (−1)^{k+1} q^k/k T_k(y), q = tanh(σ/2). A/c, with c
    the geometric middle of its interval, has its spectrum in [e^−σ, e^σ]. The tail beyond degree d is below
    2q^{d+1}/(1−q). Only the sum over the matrices is needed, so with giant steps T_bs the last product of each
    block is one long matrix product (after Paterson & Stockmeyer 1973)."""
    n, m, _ = A.shape
    middle = 0.5 * (low + high)
    sigma = float(np.max(high - low)) / 2
    q = np.tanh(sigma / 2)
    stride = max(2, round((2 * degree) ** 0.5))
    blocks = degree // stride
    k = np.arange(1, (blocks + 1) * stride)
    c = np.concatenate([[-np.log1p(-q * q)], 2 * (-1.0) ** (k + 1) * q**k / k])
    Q = np.zeros((blocks + 1, stride))
    for b in range(
        blocks, 0, -1
    ):  # Σ c_k T_k = Σ_b T_bs Σ_j Q_bj T_j, as 2 T_bs T_j = T_{bs+j} + T_{bs−j}
        Q[b] = 2 * c[b * stride : (b + 1) * stride]
        Q[b, 0] /= 2
        c[(b - 1) * stride + 1 : b * stride] -= c[b * stride + 1 : (b + 1) * stride][
            ::-1
        ]
    Q[0] = c[:stride]

    Y = A * (np.exp(-middle) / max(np.sinh(sigma), 1e-300))[:, None, None]
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
    return sym(total)


_R2, _SCALE = (
    0.5**0.5,
    np.array([1.0, 2**0.5, 1.0, 2**0.5, 2**0.5, 1.0]),
)  # what `pack` multiplies 3×3 entries by


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
    a, b, d, c, e, f = _entries(A)
    cofactors = [
        d * f - e * e,
        c * e - b * f,
        a * f - c * c,
        b * e - c * d,
        b * c - a * e,
        a * d - b * b,
    ]
    determinant = a * cofactors[0] + b * cofactors[1] + c * cofactors[3]
    return np.stack(cofactors) * _SCALE[:, None] / determinant


def _entries(A: Matrix) -> list[Matrix]:
    return [
        row if scale == 1 else row * _R2 for row, scale in zip(A, _SCALE, strict=True)
    ]


def _small(unit: float, G: Matrix, A: Matrix, X: Matrix, weights: Matrix) -> Moments:
    kernel = _log2 if len(G) == 2 else _log3
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # a matrix too far out shows as NaN or through `_FAR`
        found, ratio = kernel(A, weights)
        near = ratio > _FAR
        if not near.all():
            found, _ = kernel(A[:, near], weights[near])
        return _with_far(found, unit, G, X, weights, ratio)


def _log2(A: Matrix, weights: Matrix) -> tuple[Moments, Matrix]:
    """Σ w log A, Σ w‖log A‖² and each λ₁/λ₂: log A = log λ₁ + log[λ₁,λ₂](A − λ₁)."""
    a, b, d = A[0], A[1] * _R2, A[2]
    root = np.sqrt((0.5 * (a - d)) ** 2 + b * b)
    high = 0.5 * (a + d) + root
    low = (a * d - b * b) / high
    gap = 2 * root
    log_low = np.log(low)
    rise = np.log1p(gap / low)
    first = weights * np.where(gap > 0, rise / np.where(gap > 0, gap, 1.0), 1 / low)
    log_high = log_low + rise
    logs = A @ first + (weights @ log_low - first @ low) * np.array([1.0, 0.0, 1.0])
    return Moments(
        unpack(logs, 2), float(weights @ (log_low**2 + log_high**2))
    ), low / high


def _log3(A: Matrix, weights: Matrix) -> tuple[Moments, Matrix]:
    """Σ w log A, Σ w‖log A‖² and each λ₁/λ₃, by `log_polynomial`."""
    entries = _entries(A)
    log = log_polynomial(tuple(entries))
    second = weights * log.second
    logs = A @ (weights * log.first) + _SCALE * [
        float(second @ s) for s in squared(tuple(entries))
    ]
    logs += float(weights @ log.zeroth) * np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    return Moments(unpack(logs, 3), float(weights @ log.square)), log.low / log.high
