"""The pencil (p, q) of two SPD matrices to high relative accuracy: eigenvalues and vectors of A = L⁻¹qL⁻ᵀ, p = LLᵀ.

Distances and logarithms depend on log λ(A). Near p = q the digits are in q − p: the plain path is log1p of the
eigenvalues of L⁻¹(q−p)L⁻ᵀ, whose error is a few u·cond(p)·cond(A), u the unit round-off. Where that product of condition
numbers is above 100 (measured, never assumed) the careful path takes over:
- Cholesky factor, triangular solves and A itself in twice the working precision (pairs, Dekker 1971): error
  u²·cond(p)·cond(A);
- a Cholesky factor G of A with diagonal pivoting, also in pairs: its columns fall in size and are accurate each on its
  own scale;
- one-sided Jacobi on the columns of G, whose relative error does not depend on that scaling (Demmel & Veselić 1992).
So eigenvalues keep 1e-12 of relative accuracy while cond(p)·cond(A) < 1e19 or so; diagonal and graded matrices longer.
Under JAX the careful path serves m ≤ 3; larger matrices have the plain path's error there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from array_api_compat import device, is_jax_namespace, is_numpy_array

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.autodiff import compiled, repeat_while
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.error_free import two_product, two_sum
from curvedp.numerics.matrix_functions import cholesky, lower_solve, sym, whiten
from curvedp.numerics.spd3 import log_spectrum3

_SWEEPS = 15  # of Jacobi's method, at most
_DOUBTFUL = 100.0
_LARGEST_COMPILED = 3  # under JAX; beyond it compiling the unrolled pair arithmetic takes longer than it is worth


@dataclass(frozen=True)
class _Pair:
    """An unevaluated sum high + low."""

    high: Array
    low: Array

    @classmethod
    def exactly(cls, A: Array) -> "_Pair":
        return cls(A, namespace(A).zeros_like(A))

    @classmethod
    def rounded(cls, s: Array, e: Array) -> "_Pair":
        total = s + e
        return cls(total, e - (total - s))

    def map(self, f: Callable[[Array], Array]) -> "_Pair":
        return _Pair(f(self.high), f(self.low))

    def __getitem__(self, index: Any) -> "_Pair":
        return self.map(lambda part: part[index])

    def where(self, mask: Array) -> "_Pair":
        """0 elsewhere."""
        xp = namespace(self.high)
        return self.map(lambda part: xp.where(mask, part, xp.zeros_like(part)))

    def __add__(self, other: "_Pair") -> "_Pair":
        s, e = two_sum(self.high, other.high)
        return _Pair.rounded(s, e + (self.low + other.low))

    def __sub__(self, other: "_Pair") -> "_Pair":
        return self + other.map(lambda part: -part)

    def __mul__(self, other: "_Pair") -> "_Pair":
        p, e = two_product(namespace(self.high), self.high, other.high)
        return _Pair.rounded(p, e + (self.high * other.low + self.low * other.high))

    def __truediv__(self, other: "_Pair") -> "_Pair":
        q = self.high / other.high
        rest = self - _Pair.exactly(q) * other
        return _Pair.rounded(q, (rest.high + rest.low) / other.high)

    def sqrt(self) -> "_Pair":
        """NaN where it is not positive."""
        xp, good = namespace(self.high), self.high > 0
        root = xp.where(
            good, xp.sqrt(xp.where(good, self.high, xp.ones_like(self.high))), xp.nan
        )
        rest = self - _Pair(*two_product(xp, root, root))
        return _Pair.rounded(root, (rest.high + rest.low) / (2 * root))


def _stacked(parts: list[_Pair], axis: int) -> _Pair:
    xp = namespace(parts[0].high)
    return _Pair(
        xp.stack([part.high for part in parts], axis=axis),
        xp.stack([part.low for part in parts], axis=axis),
    )


def _cholesky(A: Array) -> _Pair:
    """Lower L with LLᵀ = A, in pairs."""
    index = namespace(A).arange(A.shape[-1], device=device(A))
    rest, columns = _Pair.exactly(A), []
    for j in range(A.shape[-1]):
        column = (rest[..., :, j] / rest[..., j, j : j + 1].sqrt()).where(index >= j)
        columns.append(column)
        rest = rest - column[..., :, None] * column[..., None, :]
    return _stacked(columns, -1)


def log_cholesky_change(p: Array, q: Array) -> Array:
    """K − L below the diagonal and log(K_jj/L_jj) on it, for q = KKᵀ and p = LLᵀ, in pairs: the floats of q say more of K
    than a factor of one precision keeps, u·cond(q) less."""
    xp, L, K = namespace(p, q), _cholesky(p), _cholesky(q)
    D, diagonal = K - L, xp.eye(p.shape[-1], dtype=xp.bool, device=device(q))
    share = xp.where(diagonal, D.high / xp.where(diagonal, L.high, 1.0), 0.0)
    ratio = xp.where(diagonal, K.high, 1.0) / xp.where(diagonal, L.high, 1.0)
    logarithm = xp.where(share > -0.5, xp.log1p(xp.maximum(share, -0.5)), xp.log(ratio))
    return xp.where(diagonal, logarithm, D.high)


def _lower_solve(L: _Pair, B: _Pair) -> _Pair:
    """L⁻¹B, in pairs: column-oriented forward substitution."""
    rows: list[_Pair] = []
    for i in range(L.high.shape[-1]):
        rows.append(B[..., i, :] / L[..., i, i, None])
        B = B - L[..., :, i, None] * rows[-1][..., None, :]
    return _stacked(rows, -2)


def _congruence(L: _Pair, S: Array) -> _Pair:
    """L⁻¹ S L⁻ᵀ for symmetric S."""
    return _lower_solve(L, _lower_solve(L, _Pair.exactly(S)).map(lambda half: half.mT))


def _pivoted_cholesky(A: _Pair) -> Array:
    """G, rounded, with GGᵀ = A and columns of falling size: the pivot is the largest diagonal entry left."""
    xp, m = namespace(A.high), A.high.shape[-1]
    index = xp.arange(m, device=device(A.high))
    left = xp.ones_like(A.high[..., 0])  # 1 where the row has not been a pivot
    columns = []
    for _ in range(m):
        diagonal = xp.linalg.diagonal(A.high)
        # NaN and exhausted rows lose every comparison
        j = xp.argmax(
            xp.where((left > 0) & (diagonal == diagonal), diagonal, -xp.inf), axis=-1
        )
        chosen = index == j[..., None]
        column = A.where(chosen[..., None, :]).map(lambda part: xp.sum(part, axis=-1))
        pivot = column.where(chosen).map(
            lambda part: xp.sum(part, axis=-1, keepdims=True)
        )
        column = (column / pivot.sqrt()).where(left > 0)
        columns.append(column.high)
        left = xp.where(chosen, xp.zeros_like(left), left)
        A = A - column[..., :, None] * column[..., None, :]
    return xp.stack(columns, axis=-1)


def _jacobi(xp: Any, G: Array) -> tuple[Array, Array]:
    """(log of σ², U) for G = U σ Vᵀ: columns are made orthogonal pair by pair, all pairs in m−1 rounds (round robin)."""
    m = G.shape[-1]
    if m == 1:
        return 2 * xp.log(G[..., 0]), xp.ones_like(G)
    if m % 2:
        G = xp.concat([G, xp.zeros_like(G[..., :1])], axis=-1)
    k = G.shape[-1] // 2
    order = np.concatenate(
        [[0], [2 * k - 1], np.arange(1, 2 * k - 1)]
    )  # all but the first move on by one place
    turn = xp.asarray(order, device=device(G))
    flip = xp.asarray(np.arange(k)[::-1].copy(), device=device(G))
    u = float(xp.finfo(G.dtype).eps)

    def round_(G: Array) -> tuple[Array, Array]:
        x, y = G[..., :k], xp.take(G[..., k:], flip, axis=-1)
        a, b, c = xp.sum(x * x, axis=-2), xp.sum(y * y, axis=-2), xp.sum(x * y, axis=-2)
        gap = b - a
        size = xp.abs(gap) + xp.sqrt(gap * gap + 4 * c * c)
        t = 2 * xp.where(gap < 0, -c, c) / xp.where(size > 0, size, xp.ones_like(size))
        cos = (1 / xp.sqrt(1 + t * t))[..., None, :]
        t = t[..., None, :]
        angle = xp.max(
            xp.abs(c) / xp.sqrt(xp.where(a * b > 0, a * b, xp.ones_like(a))), axis=-1
        )
        x, y = cos * (x - t * y), cos * (y + t * x)
        return xp.take(
            xp.concat([x, xp.take(y, flip, axis=-1)], axis=-1), turn, axis=-1
        ), angle

    # Sweeps of each matrix until none of its pairs turns by more than the tolerance, or the cap (convergence is quadratic). A
    # matrix that is done is left alone, so that its result does not depend on those it is computed beside.
    def body(
        state: tuple[Array, Array, int | Array],
    ) -> tuple[Array, Array, int | Array]:
        G, active, count = state
        turned, worst = round_(G)
        for _ in range(2 * k - 2):
            turned, angle = round_(turned)
            worst = xp.maximum(worst, angle)
        return (
            xp.where(active[..., None, None], turned, G),
            active & (worst > m * u),
            count + 1,
        )

    def more(state: tuple[Array, Array, int | Array]) -> Array:
        return (xp.any(state[1]) | in_public_time()) & (state[2] < _SWEEPS)

    G = repeat_while(more, body, (G, xp.ones_like(G[..., 0, 0]) > 0, 0))[0]
    square = xp.sum(G * G, axis=-2)
    if (
        m % 2
    ):  # the padding is the one column that is exactly 0 (or NaN with all the rest)
        last = xp.argsort(-square, axis=-1, stable=True)[..., :m]
        square = xp.take_along_axis(square, last, axis=-1)
        G = xp.take_along_axis(G, last[..., None, :], axis=-1)
    return xp.log(square), G / xp.sqrt(square)[..., None, :]


def condition(L: Array) -> Array:
    """An upper bound of cond(LLᵀ) that is 1 at multiples of I: ‖L‖² ≤ ‖L‖₁‖L‖_∞, and the same of L⁻¹."""
    xp = namespace(L)
    inverse = lower_solve(L, like(L, np.eye(L.shape[-1])))
    sums = [xp.sum(xp.abs(A), axis=axis) for A in (L, inverse) for axis in (-2, -1)]
    one, two, three, four = (xp.max(total, axis=-1) for total in sums)
    return one * two * three * four


def _refine(
    doubtful: Array,
    plain: tuple[Array, ...],
    careful: Callable[..., tuple[Array, ...]],
    *args: Array,
) -> Any:
    """The careful results where doubtful; computed for those matrices alone (NumPy) or for all if there are any."""
    xp = namespace(*args)
    batch = doubtful.shape
    args = tuple(xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in args)

    def merge(results: tuple[Array, ...]) -> tuple[Array, ...]:
        masks = (
            xp.reshape(doubtful, (*batch, *(1 for _ in r.shape[len(batch) :])))
            for r in results
        )
        return tuple(map(xp.where, masks, results, plain))

    if is_jax_namespace(xp):
        if args[0].shape[-1] > _LARGEST_COMPILED:
            return plain
        import jax

        return jax.lax.cond(
            xp.any(doubtful), lambda a: merge(careful(*a)), lambda a: plain, args
        )
    if not in_public_time() and not bool(xp.any(doubtful)):
        return plain
    if in_public_time() or not is_numpy_array(doubtful) or batch == ():
        return merge(careful(*args))
    results = careful(*(a[doubtful] for a in args))
    merged = tuple(np.array(old) for old in plain)
    for whole, part in zip(merged, results, strict=True):
        whole[doubtful] = part
    return merged


@compiled
def whitened(p: Array, v: Array) -> tuple[Array, Array]:
    """(L, L⁻¹vL⁻ᵀ) with p = LLᵀ, for a symmetric v."""

    def in_pairs(p: Array, v: Array) -> tuple[Array, Array]:
        factor = _cholesky(p)
        W = _congruence(factor, v)
        return factor.high, sym(W.high + W.low)

    xp, L = namespace(p, v), cholesky(p)
    W = whiten(L, v)
    doubtful = xp.broadcast_to(condition(L) > _DOUBTFUL, W.shape[:-2])
    L, W = _refine(doubtful, (xp.broadcast_to(L, W.shape), W), in_pairs, p, v)
    return L, W


def log_spectrum(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """(L, logs, U): p = LLᵀ and L⁻¹qL⁻ᵀ = U exp(diag(logs)) Uᵀ."""
    # The same for one 3×3 NumPy matrix as for many: a result must not depend on how many are beside it.
    tensors = all(
        is_numpy_array(a) and a.dtype == np.float64 and a.shape[-1] == 3 for a in (p, q)
    )
    if tensors and not in_public_time():
        return _tensors(p, q)
    return _log_spectrum(p, q)


def _tensors(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batch = np.broadcast_shapes(p.shape[:-2], q.shape[:-2])
    # one point stays one
    flat = [
        (a if a.ndim == 2 else np.broadcast_to(a, (*batch, 3, 3))).reshape(-1, 3, 3)
        for a in (p, q)
    ]
    L, logs, U, doubtful = log_spectrum3(*flat)
    if doubtful.any():
        rows = np.flatnonzero(doubtful)
        one, other = (np.broadcast_to(a, (len(doubtful), 3, 3))[rows] for a in flat)
        other, back = match_scale(one, other)
        L[rows], logs[rows], U[rows] = _log_spectrum_in_pairs(one, other)
        logs[rows] += back[:, None]
    return L.reshape(*batch, 3, 3), logs.reshape(*batch, 3), U.reshape(*batch, 3, 3)


@compiled
def _log_spectrum(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """From q − p, which keeps the digits of near points."""
    xp = namespace(p, q)
    L, (q, back) = cholesky(p), match_scale(p, q)
    mu, U = eigh(whiten(L, q - p))
    inside = mu > -1
    logs = xp.where(inside, xp.log1p(xp.where(inside, mu, xp.zeros_like(mu))), xp.nan)
    low, high = xp.min(1 + mu, axis=-1), xp.max(1 + mu, axis=-1)
    doubtful = ~(
        condition(L) * high <= _DOUBTFUL * low
    )  # written so that NaN and a negative eigenvalue are doubtful
    L, logs, U = _refine(
        doubtful, (xp.broadcast_to(L, U.shape), logs, U), _log_spectrum_in_pairs, p, q
    )
    return L, logs + back[..., None], U


def match_scale(p: Array, q: Array) -> tuple[Array, Array]:
    """(q/2^k, k·log 2), of p's size: beside a q in other units p − q would lose the digits of one of them."""
    xp = namespace(p, q)
    tops, bottoms = xp.linalg.trace(q), xp.linalg.trace(p)
    usable = (tops > 0) & (bottoms > 0) & (tops < xp.inf) & (bottoms < xp.inf)
    power = xp.round(
        xp.log2(xp.where(usable, tops, 1.0)) - xp.log2(xp.where(usable, bottoms, 1.0))
    )
    half = xp.round(power / 2)  # 2^power itself may be no double
    return q * (2.0**-half)[..., None, None] * (2.0 ** (half - power))[
        ..., None, None
    ], power * log(2.0)


def _log_spectrum_in_pairs(p: Array, q: Array) -> tuple[Array, Array, Array]:
    xp = namespace(p, q)
    factor = _cholesky(p)
    E = _congruence(factor, q - p)
    mu, near = eigh(sym(E.high + E.low))
    far_logs, far = _jacobi(xp, _pivoted_cholesky(_congruence(factor, q)))
    small = (xp.max(xp.abs(mu), axis=-1) < 0.25)[..., None]
    near_logs = xp.log1p(xp.where(small, mu, xp.zeros_like(mu)))
    return (
        factor.high,
        xp.where(small, near_logs, far_logs),
        xp.where(small[..., None], near, far),
    )
