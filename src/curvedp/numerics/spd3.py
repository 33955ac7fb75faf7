"""Many 3×3 SPD matrices, entry by entry: the six entries of a lower triangle are six long vectors.

Every operation is element by element, and what is done is not touched again: no result depends on what it is computed
beside.

- `whitened_logs`, for passes over diffusion tensors: log A = α + βA + γA², Newton's interpolation of log at the
  eigenvalues of `small_eigh`. An error δ of an eigenvalue moves log A by δ times the distance to the others, so clusters
  do no harm. Digits lost: cond(p)·cond(A), so the caller sends matrices beyond `DOUBTFUL` to the kernels of the manifold.
- `log_spectrum3`, the pencil (p, q) in plain doubles (NumPy's fast way of `spd_pencil`). Far from q = p, with p = LLᵀ and
  q = KKᵀ: the eigenvalues of L⁻¹qL⁻ᵀ are the squared singular values of L⁻¹K, which one-sided Jacobi rotations find with a
  relative error of a few units of round-off times cond(p) + cond(q), whatever their distance (Demmel & Veselić 1992).
  Near q = p the digits are in q − p. Both are for conditions up to `_CONDITION`; the others are left to pairs of doubles.
"""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.eigen import eigh3, separated_root
from curvedp.numerics.elementary import dot_lists as dot
from curvedp.numerics.matrix_functions import cholesky, lower_solve

Entries = tuple[
    Array, ...
]  # of the lower triangle, row by row: (0,0), (1,0), (1,1), (2,0), (2,1), (2,2)

_BLOCK = 1 << 11  # pairs whose some sixty vectors stay in the cache
_CONDITION = 1e4  # where `tests/geometry/test_spd.py` finds errors below 3e-13
_SWEEPS = 10  # at most; four or five are taken
_NEAR = 0.25
DOUBTFUL = 1e3  # cond(p)·cond(A) up to which the logarithms are good to 1e-12
_R2, _OFF = (
    2**0.5,
    (1, 3, 4),
)  # what `pack` multiplies the entries off the diagonal by, and their places


class Factor(NamedTuple):
    """The lower triangle of L⁻¹, row by row, and cond(p), of p = LLᵀ."""

    inverse: Any  # six numbers, or an array of them
    condition: float

    @classmethod
    def of(cls, p: np.ndarray) -> "Factor":
        inverse = np.asarray(lower_solve(cholesky(p), np.eye(3)))
        return cls(inverse[np.tril_indices(3)].tolist(), float(np.linalg.cond(p)))


class Logs(NamedTuple):
    """log A in orthonormal coordinates (those of `pack`), its squared length, and where both are accurate."""

    coordinates: list[Array]
    square: Array
    sure: Array


def lower_entries(X: Array) -> tuple[Entries, Array]:
    """Entries of the symmetric parts of X (n, 3, 3), and ‖X − Xᵀ‖² of each."""
    if is_numpy_array(X):
        X = np.ascontiguousarray(X.reshape(-1, 9).T).T.reshape(
            -1, 3, 3
        )  # each entry one run of memory
    pairs = [(X[:, i, j], X[:, j, i]) for i, j in ((1, 0), (2, 0), (2, 1))]
    b, c, e = (0.5 * (low + up) for low, up in pairs)
    return (X[:, 0, 0], b, X[:, 1, 1], c, e, X[:, 2, 2]), 2 * sum(
        (low - up) ** 2 for low, up in pairs
    )


def whitened_logs(p: Factor, entries: Entries) -> Logs:
    """log(L⁻¹XL⁻ᵀ): the coordinates of log_p X under the affine-invariant metric."""
    A = congruence(tuple(p.inverse[i] for i in range(6)), entries)
    log = log_polynomial(A)
    rows = [_R2 * (log.first * x + log.second * y) if i in _OFF else log.zeroth + log.first * x + log.second * y
            for i, (x, y) in enumerate(zip(A, squared(A), strict=True))]  # fmt: skip
    # Comparisons are written so that NaN, and a matrix that is not positive definite, fail them.
    return Logs(
        rows, log.square, (log.low > 0) & (p.condition * log.high <= DOUBTFUL * log.low)
    )


class Polynomial(NamedTuple):
    """log A = zeroth + first·A + second·A², ‖log A‖², and the ends of A's spectrum."""

    zeroth: Array
    first: Array
    second: Array
    square: Array
    low: Array
    high: Array


def log_polynomial(A: Entries) -> Polynomial:
    """The interpolation of log at the eigenvalues, from those alone."""
    a, b, d, c, e, f = A
    xp = namespace(a)
    one = xp.ones_like(a)
    bb, cc, ee = b * b, c * c, e * e
    mean = (a + d + f) * (1 / 3)
    x, y, z = a - mean, d - mean, f - mean
    p2 = (x * x + y * y + z * z + 2 * (bb + cc + ee)) * (1 / 6)
    p = xp.sqrt(p2)
    det = x * (y * z - ee) - b * (b * z - 2 * c * e) - cc * y
    r = xp.clip(0.5 * det / xp.where(p2 > 0, p2 * p, one), -1.0, 1.0)
    top = r >= 0
    t = separated_root(xp.abs(r))
    p = xp.where(top, p, -p)
    half = 0.8660254037844386 * xp.sqrt(xp.clip(4 - t * t, 0.0, None))
    far, middle, other = (
        mean + p * t,
        mean + p * (-0.5 * t + half),
        mean + p * (-0.5 * t - half),
    )
    high, low = xp.where(top, far, other), xp.where(top, other, far)
    g21, g32, gap = middle - low, high - middle, high - low
    l1 = xp.log(low)
    r21, r32 = xp.log1p(g21 / low), xp.log1p(g32 / middle)
    d21 = xp.where(g21 > 0, r21 / xp.where(g21 > 0, g21, one), 1 / low)
    d32 = xp.where(g32 > 0, r32 / xp.where(g32 > 0, g32, one), 1 / middle)
    second = (d32 - d21) / xp.where(gap > 0, gap, one)
    l2 = l1 + r21
    square = l1 * l1 + l2 * l2 + (l2 + r32) ** 2
    return Polynomial(
        l1 - d21 * low + second * low * middle,
        d21 - second * (low + middle),
        second,
        square,
        low,
        high,
    )


def squared(A: Entries) -> list[Array]:
    """The entries of A²."""
    a, b, d, c, e, f = A
    bb, cc, ee = b * b, c * c, e * e
    return [a * a + bb + cc, b * (a + d) + c * e, bb + d * d + ee,
            c * (a + f) + b * e, e * (d + f) + b * c, cc + ee + f * f]  # fmt: skip


def log_spectrum3(
    p: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(L, logs, U) as `spd_pencil.log_spectrum`, and which pairs are doubtful, of p (n or 1, 3, 3) and q (n or 1, 3, 3)."""
    n = 0 if 0 in (len(p), len(q)) else max(len(p), len(q))
    L, logs, U, doubtful = (
        np.zeros((n, 3, 3)),
        np.empty((n, 3)),
        np.empty((n, 3, 3)),
        np.empty(n, dtype=bool),
    )
    with np.errstate(all="ignore"):
        for start in range(0, n, _BLOCK):
            rows = slice(start, min(start + _BLOCK, n))
            one, two = (_entries(a if len(a) == 1 else a[rows]) for a in (p, q))
            _block(one, two, L[rows], logs[rows], U[rows], doubtful[rows])
    return L, logs, U, doubtful


def _block(
    p: Entries,
    q: Entries,
    L: np.ndarray,
    logs: np.ndarray,
    U: np.ndarray,
    doubtful: np.ndarray,
) -> None:
    factor, other = _cholesky(p), _cholesky(q)
    inverse, back = _inverse(factor), _inverse(other)
    for entry, (i, j) in zip(factor, _PLACES, strict=True):
        L[:, i, j] = entry
    E = np.broadcast_arrays(
        *congruence(inverse, tuple(b - a for a, b in zip(p, q, strict=True)))
    )
    near = (
        E[0] ** 2 + E[2] ** 2 + E[5] ** 2 + 2 * (E[1] ** 2 + E[3] ** 2 + E[4] ** 2)
        < _NEAR**2
    )
    condition = np.maximum(
        dot(factor, factor) * dot(inverse, inverse), dot(other, other) * dot(back, back)
    )
    ratio = dot(other, other) * dot(
        inverse, inverse
    )  # of units: its square must be a double
    doubtful[:] = ~(
        (condition <= _CONDITION) & (ratio > 1e-100) & (ratio < 1e100)
    )  # written so that NaN is doubtful
    for rows, is_near in ((near, True), (~near & ~doubtful, False)):
        if rows.any():
            part: Any = slice(None) if rows.all() else np.flatnonzero(rows)
            if is_near:
                values, vectors = eigh3(np, *(e[part] for e in E))
                logs[part] = np.log1p(np.stack(values, axis=-1))
                U[part] = np.stack(vectors, axis=-1).reshape(-1, 3, 3)
            else:
                logs[part], U[part] = _far(
                    _rows(inverse, part), _rows(other, part), len(E[0][part])
                )


def _far(inverse: Entries, other: Entries, size: int) -> tuple[np.ndarray, np.ndarray]:
    k0, k1, k2, k3, k4, k5 = inverse
    a, b, d, c, e, f = other
    columns = [
        [k0 * a, k1 * a + k2 * b, k3 * a + k4 * b + k5 * c],
        [np.zeros(size), k2 * d, k4 * d + k5 * e],
        [np.zeros(size), np.zeros(size), k5 * f],
    ]
    columns, squares = _jacobi(
        [[np.broadcast_to(x, (size,)) for x in column] for column in columns]
    )
    scaled = zip(columns, [1 / np.sqrt(square) for square in squares], strict=True)
    unit = [np.stack([x * s for x in column], -1) for column, s in scaled]
    return np.log(np.stack(squares, axis=-1)), np.stack(unit, axis=-1)


def _jacobi(
    columns: list[list[np.ndarray]],
) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Columns made orthogonal, and their squared lengths. Two that are orthogonal to working precision are left alone."""
    for _ in range(_SWEEPS):
        turned = False
        for i, j in ((0, 1), (0, 2), (1, 2)):
            x, y = columns[i], columns[j]
            a, b, c = dot(x, x), dot(y, y), dot(x, y)
            open_ = c * c > 1e-31 * (a * b)
            if not open_.any():
                continue
            turned = True
            gap = b - a
            size = np.where(
                open_, np.abs(gap) + np.sqrt(gap * gap + 4 * c * c), np.inf
            )  # t = 0 turns nothing
            t = 2 * np.where(gap < 0, -c, c) / size
            cos = 1 / np.sqrt(1 + t * t)
            columns[i] = [cos * (u - t * v) for u, v in zip(x, y, strict=True)]
            columns[j] = [cos * (v + t * u) for u, v in zip(x, y, strict=True)]
        if not turned:
            break
    return columns, [dot(x, x) for x in columns]


_PLACES = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))


def _entries(X: np.ndarray) -> Entries:
    """`lower_entries` without the skew part, which costs a single pair more than it does many."""
    a = np.ascontiguousarray(X.reshape(len(X), 9).T)
    return (
        a[0],
        0.5 * (a[1] + a[3]),
        a[4],
        0.5 * (a[2] + a[6]),
        0.5 * (a[5] + a[7]),
        a[8],
    )


def _rows(A: Entries, rows: Any) -> Entries:
    return tuple(a if len(a) == 1 else a[rows] for a in A)


def _cholesky(A: Entries) -> Entries:
    """NaN where A is not positive definite."""
    a, b, d, c, e, f = A
    l0 = np.sqrt(a)
    l1, l3 = b / l0, c / l0
    l2 = np.sqrt(d - l1 * l1)
    l4 = (e - l1 * l3) / l2
    return l0, l1, l2, l3, l4, np.sqrt(f - l3 * l3 - l4 * l4)


def _inverse(L: Entries) -> Entries:
    l0, l1, l2, l3, l4, l5 = L
    k0, k2, k5 = 1 / l0, 1 / l2, 1 / l5
    k1, k4 = -l1 * k0 * k2, -l4 * k2 * k5
    return k0, k1, k2, -(l3 * k0 + l4 * k1) * k5, k4, k5


def congruence(K: Entries, X: Entries) -> Entries:
    """KXKᵀ for lower triangular K."""
    a, b, d, c, e, f = X
    k0, k1, k2, k3, k4, k5 = K
    t1, t2 = k1 * a + k2 * b, k1 * b + k2 * d
    u1, u2, u3 = (
        k3 * a + k4 * b + k5 * c,
        k3 * b + k4 * d + k5 * e,
        k3 * c + k4 * e + k5 * f,
    )
    return (
        k0 * k0 * a,
        k0 * t1,
        k1 * t1 + k2 * t2,
        k0 * u1,
        k1 * u1 + k2 * u2,
        k3 * u1 + k4 * u2 + k5 * u3,
    )
