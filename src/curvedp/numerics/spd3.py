"""Logarithms and eigenvalues of many 3×3 positive definite matrices at a time. A matrix
is given by the six entries of its lower triangle. Each entry is one long array, with an
element for each matrix, so that all operations are element by element.

An element that is finished does not change any more, so that no result depends on the
other matrices of the batch. There are two functions, both for a point p = LLᵀ; cond is
the condition number.

- `whitened_logs` is for passes over diffusion tensors. It computes log A for A =
  L⁻¹XL⁻ᵀ as a polynomial c₀ + c₁·A + c₂·A², Newton's interpolation of log at the
  eigenvalues. An error of an eigenvalue changes log A by that error times the distance
  to the other eigenvalues, so that clusters of eigenvalues do no harm. The relative
  error is about u·cond(p)·cond(A), u the unit roundoff, so that the caller sends
  matrices beyond `DOUBTFUL` to the general functions.
- `log_spectrum3` computes the log-eigenvalues of pairs (p, q), q = KKᵀ, in plain
  doubles; it is what `spd_pencil` uses for 3×3 NumPy matrices. Far from q = p, the
  eigenvalues of L⁻¹qL⁻ᵀ are the squared singular values of L⁻¹K, which one-sided Jacobi
  rotations find with a relative error of a few u·(cond(p) + cond(q)), whatever the
  distance (Demmel and Veselić 1992). Near q = p the digits are in q − p. Condition
  numbers above `_LARGEST_CONDITION` are left to pairs of doubles.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.eigen import eigh3, separated_root
from curvedp.numerics.elementary import dot_lists as dot
from curvedp.numerics.matrix_functions import cholesky, lower_solve

Entries = tuple[Array, ...]
"""The lower triangle, row by row: (0,0), (1,0), (1,1), (2,0), (2,1), (2,2).

Locals of the functions below carry these indices: `a10` is the entry of a matrix A in
row 1 and column 0.
"""

_POSITIONS = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))  # (row, column)
_OFF_DIAGONAL = (1, 3, 4)  # indices of the off-diagonal entries among the six
_ROOT2 = 2**0.5  # by which `pack` multiplies them

_PAIRS_PER_BLOCK = 1 << 11  # pairs whose some sixty vectors stay in the cache

# Condition number up to which tests/geometry/test_spd.py finds errors below 3e-13.
_LARGEST_CONDITION = 1e4

_SWEEPS = 10  # of Jacobi rotations, at most; four or five are taken

# Frobenius norm of L⁻¹qL⁻ᵀ − I below which a pair counts as near.
_LARGEST_NEAR_NORM = 0.25

# Largest ratio of the units of q and p, either way: its square must be a double.
_LARGEST_RATIO = 1e100

# Relative squared cosine below which two columns are orthogonal.
_ORTHOGONAL = 1e-31

_HALF_ROOT3 = 0.8660254037844386  # √3/2

DOUBTFUL = 1e3
"""cond(p)·cond(A) up to which the logarithms are good to 1e-12."""


class InverseFactor(NamedTuple):
    """The inverse Cholesky factor of a point p = LLᵀ, and the condition number of p.

    Attributes
    ----------
    inverse : six numbers, or array of shape (6,)
        The lower triangle of L⁻¹, row by row.
    condition : float
        The condition number of p.
    """

    inverse: Any
    condition: float

    @classmethod
    def of(cls, p: np.ndarray) -> "InverseFactor":
        """Return the inverse Cholesky factor and the condition number of a matrix p.

        Parameters
        ----------
        p : array of shape (3, 3)
            An SPD matrix.

        Returns
        -------
        InverseFactor
            The lower triangle of L⁻¹, where p = LLᵀ, and the condition number of p.
        """
        inverse = np.asarray(lower_solve(cholesky(p), np.eye(3)))
        return cls(inverse[np.tril_indices(3)].tolist(), float(np.linalg.cond(p)))


class WhitenedLogs(NamedTuple):
    """Logarithms of whitened matrices, one for each entry of the arrays."""

    coordinates: list[Array]  # six, those of `pack`: off-diagonal entries times √2
    squared_length: Array
    is_accurate: Array  # whether the coordinates and the length are, to 1e-12


def lower_entries(X: Array) -> tuple[Entries, Array]:
    """Return the entries of the symmetric parts of 3×3 matrices, and how skew they are.

    The functions of this module work on six arrays, one for each entry of the lower
    triangle, with an element for each matrix.

    Parameters
    ----------
    X : array, shape (n, 3, 3)
        The matrices.

    Returns
    -------
    entries : six arrays
        The lower triangles of (X + Xᵀ)/2, row by row; each array has shape (n,).
    skewness : array, shape (n,)
        ‖X − Xᵀ‖², the squared Frobenius norm.
    """
    if is_numpy_array(X):
        # A copy in which each of the nine entries is contiguous in memory.
        X = np.ascontiguousarray(X.reshape(-1, 9).T).T.reshape(-1, 3, 3)
    pairs = [(X[:, i, j], X[:, j, i]) for i, j in ((1, 0), (2, 0), (2, 1))]
    x10, x20, x21 = (0.5 * (lower + upper) for lower, upper in pairs)
    skewness = 2 * sum((lower - upper) ** 2 for lower, upper in pairs)
    return (X[:, 0, 0], x10, X[:, 1, 1], x20, x21, X[:, 2, 2]), skewness


def whitened_logs(p: InverseFactor, entries: Entries) -> WhitenedLogs:
    """Return log(L⁻¹XL⁻ᵀ) for a point p = LLᵀ and matrices X.

    These are the coordinates of the logarithm of X at p under the affine-invariant
    metric. The closed formula serves passes over many diffusion tensors.

    Parameters
    ----------
    p : InverseFactor
        The inverse Cholesky factor of the point.
    entries : six arrays
        The lower triangles of the matrices X.

    Returns
    -------
    WhitenedLogs
        The logarithms: their lower triangles with off-diagonal entries times √2 (which
        makes the coordinates orthonormal), their squared lengths, and where both are
        accurate to 1e-12.
    """
    A = congruence(tuple(p.inverse[i] for i in range(6)), entries)
    log = log_polynomial(A)
    coordinates = []
    for index, (entry, entry_of_square) in enumerate(zip(A, squared(A), strict=True)):
        linear_term = log.linear * entry
        quadratic_term = log.quadratic * entry_of_square
        if index in _OFF_DIAGONAL:
            coordinates.append(_ROOT2 * (linear_term + quadratic_term))
        else:
            coordinates.append(log.constant + linear_term + quadratic_term)

    # Written so that NaN, and a matrix that is not positive definite, are False.
    is_well_conditioned = p.condition * log.largest <= DOUBTFUL * log.least
    is_accurate = (log.least > 0) & is_well_conditioned
    return WhitenedLogs(coordinates, log.squared_norm, is_accurate)


class Polynomial(NamedTuple):
    """log A = constant + linear·A + quadratic·A² for 3×3 matrices A."""

    constant: Array
    linear: Array
    quadratic: Array
    squared_norm: Array  # ‖log A‖²
    least: Array  # least eigenvalue of A
    largest: Array  # largest eigenvalue of A


def log_polynomial(A: Entries) -> Polynomial:
    """Return the polynomial c₀ + c₁·A + c₂·A² that equals log A.

    It is Newton's interpolation of the logarithm at the eigenvalues λ₁ <= λ₂ <= λ₃ of
    A,

        log A = log λ₁ + log[λ₁, λ₂]·(A − λ₁) + log[λ₁, λ₂, λ₃]·(A − λ₁)(A − λ₂).

    The divided difference log[λ, μ] is (log μ − log λ)/(μ − λ), or 1/λ for equal
    arguments, and log[λ₁, λ₂, λ₃] is (log[λ₂, λ₃] − log[λ₁, λ₂])/(λ₃ − λ₁). If all
    three eigenvalues are equal, the last factor is 0 and its coefficient does not
    matter.

    Only quotients of positive numbers appear, so that nothing cancels;
    tests/geometry/test_spd.py compares the result with high-precision arithmetic.

    Parameters
    ----------
    A : six arrays
        The lower triangles of SPD matrices.

    Returns
    -------
    Polynomial
        The coefficients c₀, c₁ and c₂, the squared Frobenius norm of log A, and the
        least and largest eigenvalue of A; an array with an element per matrix for each.
    """
    xp = namespace(A[0])
    low, middle, high = _eigenvalues(A)  # λ₁, λ₂, λ₃
    one = xp.ones_like(A[0])
    lower_gap = middle - low
    upper_gap = high - middle
    gap = high - low

    log_low = xp.log(low)
    lower_log_gap = xp.log1p(lower_gap / low)  # log λ₂ − log λ₁
    upper_log_gap = xp.log1p(upper_gap / middle)  # log λ₃ − log λ₂
    lower_quotient = lower_log_gap / xp.where(lower_gap > 0, lower_gap, one)
    upper_quotient = upper_log_gap / xp.where(upper_gap > 0, upper_gap, one)

    # The divided differences log[λ₁, λ₂], log[λ₂, λ₃] and log[λ₁, λ₂, λ₃].
    lower_slope = xp.where(lower_gap > 0, lower_quotient, 1 / low)
    upper_slope = xp.where(upper_gap > 0, upper_quotient, 1 / middle)
    curvature = (upper_slope - lower_slope) / xp.where(gap > 0, gap, one)

    log_middle = log_low + lower_log_gap
    log_high = log_middle + upper_log_gap
    return Polynomial(
        constant=log_low - lower_slope * low + curvature * low * middle,
        linear=lower_slope - curvature * (low + middle),
        quadratic=curvature,
        squared_norm=log_low * log_low + log_middle * log_middle + log_high**2,
        least=low,
        largest=high,
    )


def _eigenvalues(A: Entries) -> tuple[Array, Array, Array]:
    """Return the three eigenvalues of symmetric 3×3 matrices, in ascending order.

    The logarithm of a matrix is interpolated at them. The formula is closed. With
    mean = tr(A)/3 and scale² = ‖A − mean·I‖²/6, the matrix B = (A − mean·I)/scale has
    the characteristic equation t³ − 3t = det B. One of its roots is farther from the
    other two than they are from each other. It has the sign of det B, and its modulus
    is `root`, which `separated_root` computes from ½|det B|. The other two are −root/2
    ± (√3/2)·√(4 − root²), times that sign.

    Parameters
    ----------
    A : six arrays
        The lower triangles of the matrices.

    Returns
    -------
    low, middle, high : array
        The eigenvalues.
    """
    a00, a10, a11, a20, a21, a22 = A
    xp = namespace(a00)
    one = xp.ones_like(a00)
    square10, square20, square21 = a10 * a10, a20 * a20, a21 * a21
    mean = (a00 + a11 + a22) * (1 / 3)

    # The diagonal of A − mean·I, and the scale of this matrix.
    diagonal0 = a00 - mean
    diagonal1 = a11 - mean
    diagonal2 = a22 - mean
    diagonal_square = (
        diagonal0 * diagonal0 + diagonal1 * diagonal1 + diagonal2 * diagonal2
    )
    off_diagonal_square = square10 + square20 + square21
    scale_square = (diagonal_square + 2 * off_diagonal_square) * (1 / 6)
    scale = xp.sqrt(scale_square)

    # ½·det B, cut to [−1, 1] in spite of rounding.
    first_term = diagonal0 * (diagonal1 * diagonal2 - square21)
    second_term = a10 * (a10 * diagonal2 - 2 * a20 * a21)
    det = first_term - second_term - square20 * diagonal1
    scale_cube = xp.where(scale_square > 0, scale_square * scale, one)
    half_det_B = xp.clip(0.5 * det / scale_cube, -1.0, 1.0)

    # Multiplied by this signed scale, the separated root comes out with its sign.
    separated_is_high = half_det_B >= 0
    signed_scale = xp.where(separated_is_high, scale, -scale)
    root = separated_root(xp.abs(half_det_B))

    # The other two eigenvalues lie at equal distances from −root/2.
    half_gap = _HALF_ROOT3 * xp.sqrt(xp.clip(4 - root * root, 0.0, None))
    separated = mean + signed_scale * root
    middle = mean + signed_scale * (-0.5 * root + half_gap)
    opposite = mean + signed_scale * (-0.5 * root - half_gap)
    high = xp.where(separated_is_high, separated, opposite)
    low = xp.where(separated_is_high, opposite, separated)
    return low, middle, high


def squared(A: Entries) -> list[Array]:
    """Return the lower triangle of A² for symmetric A, as `log_polynomial` needs it.

    Parameters
    ----------
    A : six arrays
        The lower triangles of the matrices A.

    Returns
    -------
    list of six arrays
        The entries of A², in the order of `Entries`.
    """
    a00, a10, a11, a20, a21, a22 = A
    square10, square20, square21 = a10 * a10, a20 * a20, a21 * a21
    return [
        a00 * a00 + square10 + square20,
        a10 * (a00 + a11) + a20 * a21,
        square10 + a11 * a11 + square21,
        a20 * (a00 + a22) + a10 * a21,
        a21 * (a11 + a22) + a10 * a20,
        square20 + square21 + a22 * a22,
    ]


class LogSpectrum3(NamedTuple):
    """The log-eigenvalues of n pairs (p, q) of 3×3 matrices, with p = LLᵀ.

    The eigenvalues are those of A = L⁻¹qL⁻ᵀ.

    Attributes
    ----------
    L : array, shape (n, 3, 3)
        The Cholesky factors of p.
    logs : array, shape (n, 3)
        The logarithms of the eigenvalues of A, in no particular order.
    U : array, shape (n, 3, 3)
        The eigenvectors of A, as columns.
    is_doubtful : array of bool, shape (n,)
        Whether a pair needs more precision than doubles have; its rows of `logs` and
        `U` may be anything.
    """

    L: np.ndarray
    logs: np.ndarray
    U: np.ndarray
    is_doubtful: np.ndarray


def log_spectrum3(p: np.ndarray, q: np.ndarray) -> LogSpectrum3:
    """Return the log-eigenvalues of pairs of 3×3 matrices (p, q), for NumPy arrays.

    For p = LLᵀ these are the logarithms of the eigenvalues of A = L⁻¹qL⁻ᵀ, which are
    the generalized eigenvalues of q relative to p. The pairs are worked on in blocks.

    Parameters
    ----------
    p, q : array, shape (n or 1, 3, 3)
        SPD matrices. A single matrix is paired with all of the other array.

    Returns
    -------
    LogSpectrum3
        The Cholesky factors, log-eigenvalues and eigenvectors of all pairs.
    """
    # Make room for the results of all pairs.
    is_empty = 0 in (len(p), len(q))
    n = 0 if is_empty else max(len(p), len(q))
    L = np.zeros((n, 3, 3))
    logs = np.empty((n, 3))
    U = np.empty((n, 3, 3))
    is_doubtful = np.empty(n, dtype=bool)

    # Work on blocks of pairs; a single matrix stands beside all of them.
    with np.errstate(all="ignore"):
        for start in range(0, n, _PAIRS_PER_BLOCK):
            rows = slice(start, min(start + _PAIRS_PER_BLOCK, n))
            p_entries = _entries(p if len(p) == 1 else p[rows])
            q_entries = _entries(q if len(q) == 1 else q[rows])
            _write_log_spectra(
                p_entries, q_entries, L[rows], logs[rows], U[rows], is_doubtful[rows]
            )
    return LogSpectrum3(L, logs, U, is_doubtful)


def _write_log_spectra(
    p: Entries,
    q: Entries,
    L: np.ndarray,
    logs: np.ndarray,
    U: np.ndarray,
    is_doubtful: np.ndarray,
) -> None:
    """Write the log-eigenvalues of a block of pairs (p, q) into given arrays.

    Where q is near p, eigenvalues λ of E = L⁻¹(q − p)L⁻ᵀ are computed and log(1 + λ) is
    taken, because the digits are in q − p. Elsewhere `_log_spectrum_by_jacobi` is used.

    Parameters
    ----------
    p, q : six arrays each
        The lower triangles of SPD matrices.
    L : array, shape (n, 3, 3)
        It is overwritten with the Cholesky factors of p.
    logs : array, shape (n, 3)
        It is overwritten with the logarithms of the eigenvalues of L⁻¹qL⁻ᵀ.
    U : array, shape (n, 3, 3)
        It is overwritten with the eigenvectors, as columns.
    is_doubtful : array of bool, shape (n,)
        It is overwritten with whether a pair needs more precision than doubles have.
    """
    p_factor = _cholesky(p)
    q_factor = _cholesky(q)
    p_inverse = _inverse(p_factor)
    for entry, (i, j) in zip(p_factor, _POSITIONS, strict=True):
        L[:, i, j] = entry
    is_doubtful[:] = _is_doubtful(p_factor, p_inverse, q_factor)

    # Near pairs: the eigenvalues of E.
    difference = tuple(q_entry - p_entry for p_entry, q_entry in zip(p, q, strict=True))
    E = np.broadcast_arrays(*congruence(p_inverse, difference))
    is_near = _squared_norm(E) < _LARGEST_NEAR_NORM**2
    if is_near.any():
        rows = _row_index(is_near)
        values, vectors = eigh3(np, *(entry[rows] for entry in E))
        logs[rows] = np.log1p(np.stack(values, axis=-1))
        U[rows] = np.stack(vectors, axis=-1).reshape(-1, 3, 3)

    # Far pairs: singular values of L⁻¹K, with the Cholesky factor K of q.
    is_far = ~is_near & ~is_doubtful
    if is_far.any():
        rows = _row_index(is_far)
        logs[rows], U[rows] = _log_spectrum_by_jacobi(
            _take_rows(p_inverse, rows), _take_rows(q_factor, rows), len(E[0][rows])
        )


def _is_doubtful(
    p_factor: Entries, p_inverse: Entries, q_factor: Entries
) -> np.ndarray:
    """Return which pairs (p, q) need more precision than doubles have.

    They do if a condition number is large, or if p and q are in very different units.
    The squared Frobenius norms of the factors and their inverses bound both.

    Parameters
    ----------
    p_factor, p_inverse : six arrays each
        The lower triangles of L and L⁻¹, where p = LLᵀ.
    q_factor : six arrays
        The lower triangle of K, where q = KKᵀ.

    Returns
    -------
    array of bool
        The answer for each pair; True for a matrix that is not positive definite.
    """
    q_inverse = _inverse(q_factor)
    p_inverse_square = dot(p_inverse, p_inverse)
    q_square = dot(q_factor, q_factor)
    p_condition = dot(p_factor, p_factor) * p_inverse_square
    q_condition = q_square * dot(q_inverse, q_inverse)
    condition = np.maximum(p_condition, q_condition)

    unit_ratio = q_square * p_inverse_square
    is_representable = (unit_ratio > 1 / _LARGEST_RATIO) & (unit_ratio < _LARGEST_RATIO)
    # Written so that NaN is doubtful.
    return np.asarray(~((condition <= _LARGEST_CONDITION) & is_representable))


def _squared_norm(E: Sequence[np.ndarray]) -> np.ndarray:
    """Return the squared Frobenius norms of symmetric matrices, from their six entries."""
    diagonal_square = E[0] ** 2 + E[2] ** 2 + E[5] ** 2
    off_diagonal_square = E[1] ** 2 + E[3] ** 2 + E[4] ** 2
    return np.asarray(diagonal_square + 2 * off_diagonal_square)


def _row_index(mask: np.ndarray) -> Any:
    """Return an index of the rows where a mask holds: a slice if it holds everywhere.

    Parameters
    ----------
    mask : array of bool
        One truth value for each row.

    Returns
    -------
    slice or array of int
        Indexing with a slice makes no copy.
    """
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _log_spectrum_by_jacobi(
    p_inverse: Entries, q_factor: Entries, n_pairs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-eigenvalues and eigenvectors of A = L⁻¹qL⁻ᵀ for p and q far apart.

    With the Cholesky factor K of q, A = GGᵀ for G = L⁻¹K. Rotations that make the
    columns of G orthogonal leave A as it is. Then the squared lengths of the columns
    are the eigenvalues, and their directions the eigenvectors.

    Parameters
    ----------
    p_inverse : six arrays
        The lower triangle of L⁻¹, where p = LLᵀ.
    q_factor : six arrays
        The lower triangle of K, where q = KKᵀ.
    n_pairs : int
        The number of pairs (p, q).

    Returns
    -------
    logs : array, shape (n_pairs, 3)
        The logarithms of the eigenvalues, in no particular order.
    eigenvectors : array, shape (n_pairs, 3, 3)
        The eigenvectors, as columns.
    """
    # Entries of M = L⁻¹ and of K; the suffix 10 stands for row 1 and column 0.
    m00, m10, m11, m20, m21, m22 = p_inverse
    k00, k10, k11, k20, k21, k22 = q_factor
    zero = np.zeros(n_pairs)
    # The columns of G = MK, which is lower triangular.
    products = [
        [m00 * k00, m10 * k00 + m11 * k10, m20 * k00 + m21 * k10 + m22 * k20],
        [zero, m11 * k11, m21 * k11 + m22 * k21],
        [zero, zero, m22 * k22],
    ]

    # Make the columns orthogonal.
    columns = [
        [np.broadcast_to(entry, (n_pairs,)) for entry in column] for column in products
    ]
    columns, eigenvalues = _one_sided_jacobi(columns)

    # The directions of the columns are the eigenvectors.
    eigenvectors = []
    for column, squared_length in zip(columns, eigenvalues, strict=True):
        inverse_length = 1 / np.sqrt(squared_length)
        eigenvectors.append(np.stack([entry * inverse_length for entry in column], -1))
    return np.log(np.stack(eigenvalues, axis=-1)), np.stack(eigenvectors, axis=-1)


def _one_sided_jacobi(
    columns: list[list[np.ndarray]],
) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Make the three columns of matrices orthogonal by rotating them pair by pair.

    The rotation of two columns x and y by the angle with the tangent tan is

        x ← cos·(x − tan·y),    y ← cos·(y + tan·x),

    where tan is the smaller root of tan² + tan·(|y|² − |x|²)/⟨x, y⟩ = 1. Two columns
    that are orthogonal to working precision are not rotated. Sweeps over the three pairs
    are repeated until no matrix needs a rotation.

    Columns must be rotated, not scaled: the product of the matrix with its transpose
    must not change.

    Parameters
    ----------
    columns : list of three lists of three arrays
        columns[j][i] is entry i of column j, for all matrices. The outer list is
        overwritten.

    Returns
    -------
    columns : list of three lists of three arrays
        The rotated columns.
    squares : list of three arrays
        Their squared lengths.
    """
    for _ in range(_SWEEPS):
        has_rotated = False
        for i, j in ((0, 1), (0, 2), (1, 2)):
            x = columns[i]
            y = columns[j]
            x_square = dot(x, x)
            y_square = dot(y, y)
            product = dot(x, y)

            # Columns that are orthogonal already are not rotated.
            must_rotate = product * product > _ORTHOGONAL * (x_square * y_square)
            if not must_rotate.any():
                continue
            has_rotated = True

            # Rotate both columns by the angle that makes them orthogonal.
            gap = y_square - x_square
            tan = _rotation_tangent(gap, product, must_rotate)
            cos = 1 / np.sqrt(1 + tan * tan)
            columns[i] = [
                cos * (x_entry - tan * y_entry)
                for x_entry, y_entry in zip(x, y, strict=True)
            ]
            columns[j] = [
                cos * (y_entry + tan * x_entry)
                for x_entry, y_entry in zip(x, y, strict=True)
            ]

        # Stop if no matrix needed a rotation.
        if not has_rotated:
            break
    return columns, [dot(x, x) for x in columns]


def _rotation_tangent(
    gap: np.ndarray, product: np.ndarray, must_rotate: np.ndarray
) -> np.ndarray:
    """Return the tangent of the angle by which a Jacobi rotation turns two columns.

    The rotated columns are orthogonal. The tangent is the root of smaller modulus of
    tan² + tan·gap/product = 1.

    Parameters
    ----------
    gap : array
        |y|² − |x|² for columns x and y.
    product : array
        ⟨x, y⟩.
    must_rotate : array of bool
        Whether a matrix is rotated, for each matrix.

    Returns
    -------
    array
        The tangents; 0 where nothing is rotated.
    """
    denominator = np.abs(gap) + np.sqrt(gap * gap + 4 * product * product)

    # An infinite divisor gives the tangent 0.
    denominator = np.where(must_rotate, denominator, np.inf)
    return np.asarray(2 * np.where(gap < 0, -product, product) / denominator)


def _entries(X: np.ndarray) -> Entries:
    """Return the lower triangles of the symmetric parts of 3×3 matrices.

    This is the first value of `lower_entries`, without the cost of the second one.

    Parameters
    ----------
    X : array, shape (n, 3, 3)
        Symmetric matrices.

    Returns
    -------
    six arrays of shape (n,)
        The entries (0,0), (1,0), (1,1), (2,0), (2,1), (2,2).
    """
    # Nine arrays, each contiguous in memory; the digits are row and column.
    nine_entries = np.ascontiguousarray(X.reshape(len(X), 9).T)
    x00, x01, x02, x10, x11, x12, x20, x21, x22 = nine_entries
    return (
        x00,
        0.5 * (x01 + x10),
        x11,
        0.5 * (x02 + x20),
        0.5 * (x12 + x21),
        x22,
    )


def _take_rows(A: Entries, rows: Any) -> Entries:
    """Return some of the matrices of a batch; a single matrix is returned as it is.

    Parameters
    ----------
    A : six arrays
        The lower triangles of matrices, with one element for each matrix.
    rows : slice or array of int
        The indices of the wanted matrices.

    Returns
    -------
    six arrays
        The lower triangles of these matrices.
    """
    return tuple(a if len(a) == 1 else a[rows] for a in A)


def _cholesky(A: Entries) -> Entries:
    """Return the lower triangular L with LLᵀ = A, or NaN if there is none.

    It works on six arrays, one for each entry, for all matrices at once.

    Parameters
    ----------
    A : six arrays
        The lower triangles of symmetric matrices.

    Returns
    -------
    six arrays
        The lower triangle of L.
    """
    # Column by column: the root of the diagonal entry, and the entries below it.
    a00, a10, a11, a20, a21, a22 = A
    l00 = np.sqrt(a00)
    l10, l20 = a10 / l00, a20 / l00
    l11 = np.sqrt(a11 - l10 * l10)
    l21 = (a21 - l10 * l20) / l11
    l22 = np.sqrt(a22 - l20 * l20 - l21 * l21)
    return l00, l10, l11, l20, l21, l22


def _inverse(L: Entries) -> Entries:
    """Return the lower triangle of L⁻¹ for lower triangular L.

    It works on six arrays, one for each entry, for all matrices at once.

    Parameters
    ----------
    L : six arrays
        The lower triangles of invertible lower triangular matrices.

    Returns
    -------
    six arrays
        The lower triangles of their inverses.
    """
    # Entries of L and of M = L⁻¹, by forward substitution in LM = I.
    l00, l10, l11, l20, l21, l22 = L
    m00, m11, m22 = 1 / l00, 1 / l11, 1 / l22
    m10 = -l10 * m00 * m11
    m21 = -l21 * m11 * m22
    m20 = -(l20 * m00 + l21 * m10) * m22
    return m00, m10, m11, m20, m21, m22


def congruence(K: Entries, X: Entries) -> Entries:
    """Return KXKᵀ for lower triangular K and symmetric X.

    With K = L⁻¹ this whitens X by the point LLᵀ.

    Parameters
    ----------
    K : six arrays
        Lower triangular matrices.
    X : six arrays
        The lower triangles of symmetric matrices.

    Returns
    -------
    tuple of six arrays
        The lower triangles of the products.
    """
    x00, x10, x11, x20, x21, x22 = X
    k00, k10, k11, k20, k21, k22 = K
    # Rows 1 and 2 of the product KX, as far as they are needed.
    kx10 = k10 * x00 + k11 * x10
    kx11 = k10 * x10 + k11 * x11
    kx20 = k20 * x00 + k21 * x10 + k22 * x20
    kx21 = k20 * x10 + k21 * x11 + k22 * x21
    kx22 = k20 * x20 + k21 * x21 + k22 * x22
    return (
        k00 * k00 * x00,
        k00 * kx10,
        k10 * kx10 + k11 * kx11,
        k00 * kx20,
        k10 * kx20 + k11 * kx21,
        k20 * kx20 + k21 * kx21 + k22 * kx22,
    )
