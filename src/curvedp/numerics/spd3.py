"""Many 3×3 SPD matrices at a time: one long vector for each of six entries.

Every operation is element by element, and an element that is finished does not change
any more, so that no result depends on the other matrices of the batch. There are two
functions, both for a point p = LLᵀ; cond is the condition number.

- `whitened_logs` is for passes over diffusion tensors. It computes log A for A =
  L⁻¹XL⁻ᵀ as a polynomial c₀ + c₁·A + c₂·A², Newton's interpolation of log at the
  eigenvalues. An error of an eigenvalue changes log A by that error times the distance
  to the other eigenvalues, so that clusters of eigenvalues do no harm. The relative
  error is about u·cond(p)·cond(A), u the unit roundoff, so that the caller sends
  matrices beyond `DOUBTFUL` to the general functions.
- `log_spectrum3` computes the log-eigenvalues of pencils (p, q), q = KKᵀ, in plain
  doubles; it is what `spd_pencil` uses for 3×3 NumPy matrices. Far from q = p, the
  eigenvalues of L⁻¹qL⁻ᵀ are the squared singular values of L⁻¹K, which one-sided Jacobi
  rotations find with a relative error of a few u·(cond(p) + cond(q)), whatever the
  distance (Demmel and Veselić 1992). Near q = p the digits are in q − p. Condition
  numbers above `_LARGEST_CONDITION` are left to pairs of doubles.
"""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.eigen import eigh3, separated_root
from curvedp.numerics.elementary import dot_lists as dot
from curvedp.numerics.matrix_functions import cholesky, lower_solve

Entries = tuple[Array, ...]
"""The lower triangle, row by row: (0,0), (1,0), (1,1), (2,0), (2,1), (2,2)."""

_PLACES = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))
_OFF_DIAGONAL = (1, 3, 4)  # places of the off-diagonal entries among the six
_ROOT2 = 2**0.5  # by which `pack` multiplies them

_BLOCK = 1 << 11  # pairs whose some sixty vectors stay in the cache

# Condition number up to which tests/geometry/test_spd.py finds errors below 3e-13.
_LARGEST_CONDITION = 1e4

_SWEEPS = 10  # of Jacobi rotations, at most; four or five are taken

# Frobenius norm of L⁻¹qL⁻ᵀ − I below which a pair counts as near.
_NEAR = 0.25

# Relative squared cosine below which two columns are orthogonal.
_ORTHOGONAL = 1e-31

DOUBTFUL = 1e3
"""cond(p)·cond(A) up to which the logarithms are good to 1e-12."""


class Factor(NamedTuple):
    """The inverse Cholesky factor of a point p = LLᵀ, and its condition number."""

    inverse: Any  # the lower triangle of L⁻¹, row by row: six numbers, or an array
    condition: float

    @classmethod
    def of(cls, p: np.ndarray) -> "Factor":
        """Return the factor of one 3×3 SPD matrix."""
        inverse = np.asarray(lower_solve(cholesky(p), np.eye(3)))
        return cls(inverse[np.tril_indices(3)].tolist(), float(np.linalg.cond(p)))


class Logs(NamedTuple):
    """Logarithms of whitened matrices."""

    coordinates: list[Array]  # orthonormal, those of `pack`
    square: Array  # squared length
    sure: Array  # where both are accurate


def lower_entries(X: Array) -> tuple[Entries, Array]:
    """Return the entries of the symmetric parts of 3×3 matrices, and how skew they are.

    Parameters
    ----------
    X : array, shape (n, 3, 3)
        The matrices.

    Returns
    -------
    entries : six arrays
        The lower triangles of (X + Xᵀ)/2, row by row.
    skewness : array
        ‖X − Xᵀ‖², the squared Frobenius norm.
    """
    if is_numpy_array(X):
        # Each entry becomes one run of memory.
        X = np.ascontiguousarray(X.reshape(-1, 9).T).T.reshape(-1, 3, 3)
    pairs = [(X[:, i, j], X[:, j, i]) for i, j in ((1, 0), (2, 0), (2, 1))]
    b, c, e = (0.5 * (lower + upper) for lower, upper in pairs)
    skewness = 2 * sum((lower - upper) ** 2 for lower, upper in pairs)
    return (X[:, 0, 0], b, X[:, 1, 1], c, e, X[:, 2, 2]), skewness


def whitened_logs(p: Factor, entries: Entries) -> Logs:
    """Return log(L⁻¹XL⁻ᵀ) for a point p = LLᵀ and matrices X.

    These are the coordinates of the logarithm of X at p under the affine-invariant
    metric.

    Parameters
    ----------
    p : Factor
        The inverse Cholesky factor of the point.
    entries : six arrays
        The lower triangles of the matrices X.
    """
    A = congruence(tuple(p.inverse[i] for i in range(6)), entries)
    log = log_polynomial(A)
    coordinates = []
    for place, (x, y) in enumerate(zip(A, squared(A), strict=True)):
        if place in _OFF_DIAGONAL:
            coordinates.append(_ROOT2 * (log.first * x + log.second * y))
        else:
            coordinates.append(log.zeroth + log.first * x + log.second * y)

    # Written so that NaN, and a matrix that is not positive definite, are not sure.
    is_well_conditioned = p.condition * log.high <= DOUBTFUL * log.low
    return Logs(coordinates, log.square, (log.low > 0) & is_well_conditioned)


class Polynomial(NamedTuple):
    """log A = zeroth + first·A + second·A² for 3×3 matrices A."""

    zeroth: Array
    first: Array
    second: Array
    square: Array  # ‖log A‖²
    low: Array  # least eigenvalue of A
    high: Array  # largest eigenvalue of A


def log_polynomial(A: Entries) -> Polynomial:
    """Return the polynomial c₀ + c₁·A + c₂·A² that equals log A.

    It is Newton's interpolation of the logarithm at the three eigenvalues of A.

    Parameters
    ----------
    A : six arrays
        The lower triangles of SPD matrices.
    """
    xp = namespace(A[0])
    low, middle, high = _eigenvalues(A)
    one = xp.ones_like(A[0])
    lower_gap = middle - low
    upper_gap = high - middle
    gap = high - low

    # Divided differences log[λ₁, λ₂], log[λ₂, λ₃] and log[λ₁, λ₂, λ₃]
    log_low = xp.log(low)
    lower_rise = xp.log1p(lower_gap / low)
    upper_rise = xp.log1p(upper_gap / middle)
    lower_quotient = lower_rise / xp.where(lower_gap > 0, lower_gap, one)
    upper_quotient = upper_rise / xp.where(upper_gap > 0, upper_gap, one)
    lower_slope = xp.where(lower_gap > 0, lower_quotient, 1 / low)
    upper_slope = xp.where(upper_gap > 0, upper_quotient, 1 / middle)
    second = (upper_slope - lower_slope) / xp.where(gap > 0, gap, one)

    log_middle = log_low + lower_rise
    log_high = log_middle + upper_rise
    square = log_low * log_low + log_middle * log_middle + log_high**2
    return Polynomial(
        zeroth=log_low - lower_slope * low + second * low * middle,
        first=lower_slope - second * (low + middle),
        second=second,
        square=square,
        low=low,
        high=high,
    )


def _eigenvalues(A: Entries) -> tuple[Array, Array, Array]:
    """Return the eigenvalues of 3×3 matrices, ascending; see `eigen`.

    Parameters
    ----------
    A : sequence of six arrays
        The lower triangles of the matrices.
    """
    a, b, d, c, e, f = A
    xp = namespace(a)
    one = xp.ones_like(a)
    bb, cc, ee = b * b, c * c, e * e
    mean = (a + d + f) * (1 / 3)
    x, y, z = a - mean, d - mean, f - mean
    p_square = (x * x + y * y + z * z + 2 * (bb + cc + ee)) * (1 / 6)
    p = xp.sqrt(p_square)
    det = x * (y * z - ee) - b * (b * z - 2 * c * e) - cc * y
    r = xp.clip(0.5 * det / xp.where(p_square > 0, p_square * p, one), -1.0, 1.0)

    separated_is_high = r >= 0
    t = separated_root(xp.abs(r))
    p = xp.where(separated_is_high, p, -p)
    half = 0.8660254037844386 * xp.sqrt(xp.clip(4 - t * t, 0.0, None))
    separated = mean + p * t
    middle = mean + p * (-0.5 * t + half)
    other = mean + p * (-0.5 * t - half)
    high = xp.where(separated_is_high, separated, other)
    low = xp.where(separated_is_high, other, separated)
    return low, middle, high


def squared(A: Entries) -> list[Array]:
    """Return the lower triangle of A² for symmetric A, as six arrays.

    Parameters
    ----------
    A : sequence of six arrays
        The lower triangles of the matrices.
    """
    a, b, d, c, e, f = A
    bb, cc, ee = b * b, c * c, e * e
    return [
        a * a + bb + cc,
        b * (a + d) + c * e,
        bb + d * d + ee,
        c * (a + f) + b * e,
        e * (d + f) + b * c,
        cc + ee + f * f,
    ]


def log_spectrum3(
    p: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the spectrum of pencils (p, q) of 3×3 matrices (NumPy).

    Parameters
    ----------
    p, q : array, shape (n or 1, 3, 3)
        SPD matrices.

    Returns
    -------
    L, logs, U : array
        As `spd_pencil.log_spectrum`.
    doubtful : array, shape (n,)
        Which pairs need more precision.
    """
    is_empty = 0 in (len(p), len(q))
    n = 0 if is_empty else max(len(p), len(q))
    L = np.zeros((n, 3, 3))
    logs = np.empty((n, 3))
    U = np.empty((n, 3, 3))
    doubtful = np.empty(n, dtype=bool)
    with np.errstate(all="ignore"):
        for start in range(0, n, _BLOCK):
            rows = slice(start, min(start + _BLOCK, n))
            p_entries = _entries(p if len(p) == 1 else p[rows])
            q_entries = _entries(q if len(q) == 1 else q[rows])
            _fill_block(
                p_entries, q_entries, L[rows], logs[rows], U[rows], doubtful[rows]
            )
    return L, logs, U, doubtful


def _fill_block(
    p: Entries,
    q: Entries,
    L: np.ndarray,
    logs: np.ndarray,
    U: np.ndarray,
    doubtful: np.ndarray,
) -> None:
    """Write the spectra of a block of pencils (p, q) into L, logs, U and doubtful.

    Parameters
    ----------
    p, q : six arrays each
        The lower triangles of SPD matrices.
    L, logs, U, doubtful : array
        What `log_spectrum3` returns, for these pencils; they are overwritten.
    """
    p_factor, q_factor = _cholesky(p), _cholesky(q)
    p_inverse, q_inverse = _inverse(p_factor), _inverse(q_factor)
    for entry, (i, j) in zip(p_factor, _PLACES, strict=True):
        L[:, i, j] = entry

    # E = L⁻¹(q − p)L⁻ᵀ
    difference = tuple(b - a for a, b in zip(p, q, strict=True))
    E = np.broadcast_arrays(*congruence(p_inverse, difference))
    diagonal_square = E[0] ** 2 + E[2] ** 2 + E[5] ** 2
    off_diagonal_square = E[1] ** 2 + E[3] ** 2 + E[4] ** 2
    is_near = diagonal_square + 2 * off_diagonal_square < _NEAR**2

    condition = np.maximum(
        dot(p_factor, p_factor) * dot(p_inverse, p_inverse),
        dot(q_factor, q_factor) * dot(q_inverse, q_inverse),
    )
    # Ratio of the units of q and p, whose square must be a double.
    ratio = dot(q_factor, q_factor) * dot(p_inverse, p_inverse)
    is_usable = (ratio > 1e-100) & (ratio < 1e100)
    doubtful[:] = ~((condition <= _LARGEST_CONDITION) & is_usable)  # NaN is doubtful

    if is_near.any():
        rows = _row_index(is_near)
        values, vectors = eigh3(np, *(entry[rows] for entry in E))
        logs[rows] = np.log1p(np.stack(values, axis=-1))
        U[rows] = np.stack(vectors, axis=-1).reshape(-1, 3, 3)
    is_far = ~is_near & ~doubtful
    if is_far.any():
        rows = _row_index(is_far)
        logs[rows], U[rows] = _far_spectrum(
            _take_rows(p_inverse, rows), _take_rows(q_factor, rows), len(E[0][rows])
        )


def _row_index(mask: np.ndarray) -> Any:
    """Return an index of the rows where a mask holds: a slice if all do."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _far_spectrum(
    inverse: Entries, other: Entries, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-eigenvalues and eigenvectors of L⁻¹qL⁻ᵀ from the columns of L⁻¹K.

    K is the Cholesky factor of q.

    Parameters
    ----------
    inverse : six arrays
        The lower triangle of L⁻¹.
    other : six arrays
        The lower triangle of K.
    size : int
        The number of pencils.
    """
    k0, k1, k2, k3, k4, k5 = inverse
    a, b, d, c, e, f = other
    zero = np.zeros(size)
    entries = [
        [k0 * a, k1 * a + k2 * b, k3 * a + k4 * b + k5 * c],
        [zero, k2 * d, k4 * d + k5 * e],
        [zero, zero, k5 * f],
    ]
    columns = [[np.broadcast_to(x, (size,)) for x in column] for column in entries]
    columns, squares = _one_sided_jacobi(columns)
    units = []
    for column, square in zip(columns, squares, strict=True):
        scale = 1 / np.sqrt(square)
        units.append(np.stack([x * scale for x in column], -1))
    return np.log(np.stack(squares, axis=-1)), np.stack(units, axis=-1)


def _one_sided_jacobi(
    columns: list[list[np.ndarray]],
) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Return columns made orthogonal by Jacobi rotations, and their squared lengths.

    Two columns that are orthogonal to working precision are not rotated.

    Parameters
    ----------
    columns : list of three lists of three arrays
        columns[j][i] is entry i of column j, for all matrices.
    """
    for _ in range(_SWEEPS):
        has_rotated = False
        for i, j in ((0, 1), (0, 2), (1, 2)):
            x, y = columns[i], columns[j]
            a, b, c = dot(x, x), dot(y, y), dot(x, y)
            is_open = c * c > _ORTHOGONAL * (a * b)
            if not is_open.any():
                continue
            has_rotated = True
            gap = b - a
            size = np.abs(gap) + np.sqrt(gap * gap + 4 * c * c)
            size = np.where(is_open, size, np.inf)  # a tangent of 0 turns nothing
            tan = 2 * np.where(gap < 0, -c, c) / size
            cos = 1 / np.sqrt(1 + tan * tan)
            columns[i] = [cos * (u - tan * v) for u, v in zip(x, y, strict=True)]
            columns[j] = [cos * (v + tan * u) for u, v in zip(x, y, strict=True)]
        if not has_rotated:
            break
    return columns, [dot(x, x) for x in columns]


def _entries(X: np.ndarray) -> Entries:
    """Return the first value of `lower_entries`, without the cost of the second one.

    Parameters
    ----------
    X : array of shape (..., 3, 3)
        Symmetric matrices.
    """
    a = np.ascontiguousarray(X.reshape(len(X), 9).T)
    return (
        a[0],
        0.5 * (a[1] + a[3]),
        a[4],
        0.5 * (a[2] + a[6]),
        0.5 * (a[5] + a[7]),
        a[8],
    )


def _take_rows(A: Entries, rows: Any) -> Entries:
    """Return some rows of every entry; a single matrix is returned as it is."""
    return tuple(a if len(a) == 1 else a[rows] for a in A)


def _cholesky(A: Entries) -> Entries:
    """Return the lower triangular L with LLᵀ = A, or NaN if there is none.

    Parameters
    ----------
    A : sequence of six arrays
        The lower triangles of the matrices.
    """
    a, b, d, c, e, f = A
    l0 = np.sqrt(a)
    l1, l3 = b / l0, c / l0
    l2 = np.sqrt(d - l1 * l1)
    l4 = (e - l1 * l3) / l2
    return l0, l1, l2, l3, l4, np.sqrt(f - l3 * l3 - l4 * l4)


def _inverse(L: Entries) -> Entries:
    """Return the lower triangle of L⁻¹ for lower triangular L."""
    l0, l1, l2, l3, l4, l5 = L
    k0, k2, k5 = 1 / l0, 1 / l2, 1 / l5
    k1, k4 = -l1 * k0 * k2, -l4 * k2 * k5
    return k0, k1, k2, -(l3 * k0 + l4 * k1) * k5, k4, k5


def congruence(K: Entries, X: Entries) -> Entries:
    """Return KXKᵀ for lower triangular K and symmetric X.

    Parameters
    ----------
    K : sequence of six arrays
        Lower triangular matrices.
    X : sequence of six arrays
        The lower triangles of symmetric matrices.
    """
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
