"""The pencil of many pairs of 3×3 SPD matrices in plain double precision, entry by entry: NumPy's fast way (`spd_pencil`).

Far from q = p, with p = LLᵀ and q = KKᵀ: the eigenvalues of L⁻¹qL⁻ᵀ are the squared singular values of C = L⁻¹K, which
one-sided Jacobi rotations find with a relative error of a few units of round-off times cond(p) + cond(q), whatever their
distance (Demmel & Veselić 1992). Near q = p the digits are in q − p. Both are for conditions up to `_CONDITION`, measured;
the others are left to pairs of doubles. Every operation is element by element and a pair that is done is not turned again,
so that no result depends on what it is computed beside.
"""

from typing import Any

import numpy as np

from curvedp.geometry.numerics.small_eigh import eigh3

_BLOCK = 1 << 11  # pairs whose some sixty vectors stay in the cache
_CONDITION = 1e4  # where `tests/geometry/test_spd.py` finds errors below 3e-13
_SWEEPS = 10  # at most; four or five are taken
_NEAR = 0.25

Entries = tuple[Any, ...]  # arrays: of a lower triangle, row by row


def log_spectrum3(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(L, logs, U) as `spd_pencil.log_spectrum`, and which pairs are doubtful, of p (n or 1, 3, 3) and q (n or 1, 3, 3)."""
    n = 0 if 0 in (len(p), len(q)) else max(len(p), len(q))
    L, logs, U, doubtful = np.zeros((n, 3, 3)), np.empty((n, 3)), np.empty((n, 3, 3)), np.empty(n, dtype=bool)
    with np.errstate(all="ignore"):
        for start in range(0, n, _BLOCK):
            rows = slice(start, min(start + _BLOCK, n))
            one, two = (_entries(a if len(a) == 1 else a[rows]) for a in (p, q))
            _block(one, two, L[rows], logs[rows], U[rows], doubtful[rows])
    return L, logs, U, doubtful


def _block(p: Entries, q: Entries, L: np.ndarray, logs: np.ndarray, U: np.ndarray, doubtful: np.ndarray) -> None:
    factor, other = _cholesky(p), _cholesky(q)
    inverse = _inverse(factor)
    for entry, (i, j) in zip(factor, _PLACES, strict=True):
        L[:, i, j] = entry
    E = np.broadcast_arrays(*congruence(inverse, tuple(b - a for a, b in zip(p, q, strict=True))))
    near = E[0] ** 2 + E[2] ** 2 + E[5] ** 2 + 2 * (E[1] ** 2 + E[3] ** 2 + E[4] ** 2) < _NEAR**2
    condition = np.maximum(_square(factor) * _square(inverse), _square(other) * _square(_inverse(other)))
    ratio = _square(other) * _square(inverse)  # of units: its square must be a double
    doubtful[:] = ~((condition <= _CONDITION) & (ratio > 1e-100) & (ratio < 1e100))  # written so that NaN is doubtful
    for rows, find in ((near, _near), (~near & ~doubtful, _far)):
        if rows.all():
            logs[:], U[:] = find(inverse, other, E, slice(None))
        elif rows.any():
            logs[rows], U[rows] = find(inverse, other, E, np.flatnonzero(rows))


def _near(inverse: Entries, other: Entries, E: Entries, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = eigh3(np, *(e[rows] for e in E))
    return np.log1p(np.stack(values, axis=-1)), np.stack(vectors, axis=-1).reshape(-1, 3, 3)


def _far(inverse: Entries, other: Entries, E: Entries, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k0, k1, k2, k3, k4, k5 = (_rows(a, rows) for a in inverse)
    a, b, d, c, e, f = (_rows(a, rows) for a in other)
    size = len(E[0][rows])
    columns = [
        [k0 * a, k1 * a + k2 * b, k3 * a + k4 * b + k5 * c],
        [np.zeros(size), k2 * d, k4 * d + k5 * e],
        [np.zeros(size), np.zeros(size), k5 * f],
    ]
    squares = _jacobi([[np.broadcast_to(x, (size,)) for x in column] for column in columns])
    return np.log(np.stack(squares[1], axis=-1)), _unit(*squares)


def _jacobi(columns: list[list[np.ndarray]]) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Columns made orthogonal, and their squared lengths. Two that are orthogonal to working precision are left alone."""
    for _ in range(_SWEEPS):
        turned = False
        for i, j in ((0, 1), (0, 2), (1, 2)):
            x, y = columns[i], columns[j]
            a, b, c = _dot(x, x), _dot(y, y), _dot(x, y)
            open_ = c * c > 1e-31 * (a * b)
            if not open_.any():
                continue
            turned = True
            gap = b - a
            size = np.where(open_, np.abs(gap) + np.sqrt(gap * gap + 4 * c * c), np.inf)  # t = 0 turns nothing
            t = 2 * np.where(gap < 0, -c, c) / size
            cos = 1 / np.sqrt(1 + t * t)
            columns[i] = [cos * (u - t * v) for u, v in zip(x, y, strict=True)]
            columns[j] = [cos * (v + t * u) for u, v in zip(x, y, strict=True)]
        if not turned:
            break
    return columns, [_dot(x, x) for x in columns]


def _unit(columns: list[list[np.ndarray]], squares: list[np.ndarray]) -> np.ndarray:
    scale = [1 / np.sqrt(square) for square in squares]
    return np.stack([np.stack([x * s for x in column], -1) for column, s in zip(columns, scale, strict=True)], axis=-1)


_PLACES = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))


def _entries(X: np.ndarray) -> Entries:
    """Of the symmetric parts' lower triangles: each a run of memory."""
    flat = np.ascontiguousarray(X.reshape(len(X), 9).T)
    return flat[0], 0.5 * (flat[1] + flat[3]), flat[4], 0.5 * (flat[2] + flat[6]), 0.5 * (flat[5] + flat[7]), flat[8]


def _rows(a: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
    return a if len(a) == 1 else a[rows]


def _dot(x: list[np.ndarray], y: list[np.ndarray]) -> np.ndarray:
    return np.asarray(x[0] * y[0] + x[1] * y[1] + x[2] * y[2])


def _square(A: Entries) -> np.ndarray:
    a, b, d, c, e, f = A
    return np.asarray(a * a + b * b + d * d + c * c + e * e + f * f)


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
    u1, u2, u3 = k3 * a + k4 * b + k5 * c, k3 * b + k4 * d + k5 * e, k3 * c + k4 * e + k5 * f
    return k0 * k0 * a, k0 * t1, k1 * t1 + k2 * t2, k0 * u1, k1 * u1 + k2 * u2, k3 * u1 + k4 * u2 + k5 * u3
