"""Exact draws of Gaussian and Laplace noise on positive definite matrices: real
symmetric (β = 1, SPD) or complex Hermitian ones (β = 2, HPD). A draw Y about the
identity is moved to the center LL* of the noise: X = LYL*. Entries are computed with
error bounds until their rounding to a grid is certain.

Y = e^V is drawn by the near or the far envelope, whichever accepts more;
`laws.spd.envelopes` proves them and knows their acceptance from public numbers alone
(Helgason 1978: the Jacobian of exp). A complex entry a + ib is the real block [[a, −b],
[b, a]], whose sums, products, Cholesky factors and exponentials are those of the
complex numbers.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from curvedp.errors import ParameterError
from curvedp.laws.backend import Kind
from curvedp.laws.exact.spd_far import (
    FarGaussianDraw,
    draw_far_gaussian,
    draw_far_laplace,
)
from curvedp.laws.exact.spd_near import (
    FloatExp,
    LaplaceBound,
    NearDraw,
    draw_near,
    tangent_bound,
)
from curvedp.laws.spd.envelopes import NearEnvelope, best_envelope
from curvedp.laws.spd.laplace import SPDLaplace, best_laplace_envelope
from curvedp.numerics.enclosures import (
    FILTER_GRID,
    FloatBall,
    arb_array,
    decide,
    first_precision,
    float_ball,
    round_arb,
)
from curvedp.randomness.csprng import Source

# Covers the roundings of a few float operations on an upper bound.
_ROUND_UP = 1 + 2.0**-40

# Bits of the Cholesky factor that the float filter starts from.
_FILTER_PRECISION = 128

# Bits at which a pivot that may be zero is decided in rational arithmetic.
_RATIONAL_PRECISION = 2048


def draw_spd(
    kind: Kind,
    m: int,
    beta: int,
    scale: float,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> np.ndarray:
    """Return an exact draw of an SPD or HPD matrix about a center, rounded to a grid.

    A matrix Y = exp(V) is drawn about the identity. Let LL* be the center. The map
    Y ↦ L·Y·L* is an isometry of the affine-invariant metric that takes the identity to
    the center. So L·Y·L* is a draw about the center. Its entries are rounded with
    certainty. Those of large matrices are first computed in float64 with proved error
    radii. All others are computed in Arb, with more and more bits.

    Both ways to round must give the same integers, which
    tests/laws/exact/test_filter.py checks; tests/laws/exact/test_spd.py tests the law
    of the draws.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    m : int
        The size of the matrices.
    beta : {1, 2}
        Symmetric or Hermitian.
    scale : float
        The scale σ of the law.
    center : array
        The footpoint: (m, m), or (m, m, 2) with real and imaginary parts. Its symmetric
        or Hermitian part is used.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    array of Python ints, in the shape of the center
        The entries in units of 2^-grid, symmetric or Hermitian.
    """
    # A draw about the identity; its digits are computed later, as they are needed.
    draw = _identity_sampler(kind, m, beta, scale)(source)
    if beta == 2:
        # Complex numbers are computed with as real 2×2 blocks.
        center = _blocks_from_complex(center)
    # The entries that determine the others by symmetry.
    entries = _free_entries(m, beta)

    # A large matrix is tried in floats first.
    free_integers = None
    if isinstance(draw, NearDraw) and draw.is_large and grid <= FILTER_GRID:
        free_integers = _round_with_floats(center, draw, entries, grid)
    if free_integers is None:
        free_integers = decide(
            lambda precision: _round_with_arb(center, draw, entries, grid, precision),
            first_precision(grid),
        )
    return _fill_hermitian(m, beta, free_integers)


def _round_with_arb(
    center: np.ndarray,
    draw: NearDraw | FarGaussianDraw,
    entries: "MatrixEntries",
    grid: int,
    precision: int,
) -> list[int] | None:
    """Return the rounded free entries of L·Y·L*; None if one is not certain yet.

    Called with more and more bits until all entries are certain.

    Parameters
    ----------
    center : array
        The footpoint LL*, as a real matrix: a complex entry is a 2×2 block.
    draw : NearDraw or FarGaussianDraw
        The draw Y about the identity.
    entries : MatrixEntries
        The rows and columns of the independent entries.
    grid : int
        The grid is 2^-grid.
    precision : int
        The number of bits.

    Returns
    -------
    list of int, or None
        The integers, in the order of `entries`.
    """
    factor = cholesky(center)
    if factor is None:
        return None

    lower = arb_mat(factor.tolist())
    point = lower * draw.exp(precision) * lower.transpose()
    free_integers = []
    for i, j in zip(entries.rows.tolist(), entries.columns.tolist(), strict=True):
        integer = round_arb(point[i, j], grid)
        if integer is None:
            return None
        free_integers.append(integer)
    return free_integers


def _round_with_floats(
    center: np.ndarray, draw: NearDraw, entries: "MatrixEntries", grid: int
) -> list[int] | None:
    """Return the rounded free entries of L·Y·L*; None if one is not certain in floats.

    The entries are computed in float64 with proved error radii.

    Called first for large matrices, because it is faster than Arb.

    Parameters
    ----------
    center : array
        The footpoint LL*, as a real matrix: a complex entry is a 2×2 block.
    draw : NearDraw
        The draw Y about the identity.
    entries : MatrixEntries
        The rows and columns of the independent entries.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    list of int, or None
        The integers, in the order of `entries`.
    """
    with np.errstate(all="ignore"):
        exact_factor = decide(lambda precision: cholesky(center), _FILTER_PRECISION)
        factor = float_ball(exact_factor)
        point = _congruence(factor, draw.float_exp())
        integers, is_certain = point.round(grid)
    index = (entries.rows, entries.columns)
    if not np.all(is_certain[index]):
        return None
    return [int(integer) for integer in integers[index]]


@lru_cache(maxsize=256)
def acceptance_probability(kind: Kind, m: int, beta: int, scale: float) -> float:
    """Return a lower bound on the fraction of proposals that rejection sampling accepts.

    Used to bound the number of random bits of a draw beforehand. The bound depends on
    public numbers only. It is the exact fraction unless that needs many digits.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.
    scale : float
        The scale σ > 0.

    Returns
    -------
    float
        A number from 1e-5 to 1.

    Raises
    ------
    ParameterError
        If a draw would take more than 10^5 proposals.
    """
    if m == 1:
        return 1.0
    if kind == "laplace":
        laplace_envelope = best_laplace_envelope(SPDLaplace(m, beta, scale))
        return math.exp(laplace_envelope.log_acceptance)
    envelope = best_envelope(m, scale, beta)
    if isinstance(envelope, NearEnvelope):
        # The exact acceptance may need many digits; a bound is enough where it is high.
        lower_bound = envelope.log_acceptance_bound
        if lower_bound > math.log(0.5):
            return math.exp(lower_bound)
    return math.exp(envelope.log_acceptance)


@lru_cache(maxsize=64)
def _identity_sampler(
    kind: Kind, m: int, beta: int, scale: float
) -> Callable[[Source], NearDraw | FarGaussianDraw]:
    """Return the function that draws Y about the identity from a source of bits.

    It uses the envelope that accepts more proposals, the near or the far one.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.
    scale : float
        The scale σ > 0 of the law.

    Returns
    -------
    callable
        A function of a `Source` that returns a draw.
    """
    if kind == "laplace":
        if m == 1 or _prefers_near_laplace(m, beta, scale):
            return partial(draw_near, LaplaceBound(m, scale, beta))
        return partial(draw_far_laplace, m, scale, beta)

    if m == 1:
        return partial(draw_near, tangent_bound(1, scale, 1.0, beta))
    envelope = best_envelope(m, scale, beta)
    if isinstance(envelope, NearEnvelope):
        return partial(draw_near, tangent_bound(m, scale, envelope.tangent, beta))
    return partial(draw_far_gaussian, m, scale, beta)


def _prefers_near_laplace(m: int, beta: int, scale: float) -> bool:
    """Return whether the near envelope of a Laplace law accepts more than the far one.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.
    scale : float
        The scale σ.

    Returns
    -------
    bool
        True for small scales.
    """
    return best_laplace_envelope(SPDLaplace(m, beta, scale)).name == "near"


def _blocks_from_complex(center: np.ndarray) -> np.ndarray:
    """Return a complex matrix as a real matrix of 2×2 blocks.

    Used because Arb then needs real matrices only.

    The block [[a, −b], [b, a]] stands for the entry a + ib.

    Parameters
    ----------
    center : array, shape (m, m, 2)
        The real and the imaginary parts of the entries.

    Returns
    -------
    array, shape (2m, 2m)
        The matrix of blocks.
    """
    real_part = np.kron(center[..., 0], np.eye(2))
    imaginary_part = np.kron(center[..., 1], [[0, -1], [1, 0]])
    return np.asarray(real_part + imaginary_part)


def _congruence(factor: FloatBall, inner: FloatExp) -> FloatBall:
    """Return balls around the entries of L·Y·Lᵀ, for every Y that `inner` allows.

    If Y differs from the middle by at most `spectral_error` in the spectral norm, entry
    ij differs by at most spectral_error·|Lᵢ|·|Lⱼ|, where Lᵢ are the rows of L.

    Parameters
    ----------
    factor : FloatBall
        Balls around the entries of the lower triangular L.
    inner : FloatExp
        A float approximation of Y, with a bound on its error.

    Returns
    -------
    FloatBall
        The entries, with their errors.
    """
    point = factor.sharp_dot(inner.matrix).sharp_dot(factor.T)
    largest_entries = np.abs(factor.mid) + factor.rad
    row_norms = np.sqrt((largest_entries**2).sum(axis=1)) * _ROUND_UP
    spectral_part = inner.spectral_error * np.outer(row_norms, row_norms)
    return FloatBall(point.mid, (point.rad + spectral_part) * _ROUND_UP)


class MatrixEntries(NamedTuple):
    """Positions of some entries of a matrix.

    Attributes
    ----------
    rows, columns : arrays of int
        The row and the column of each entry.
    """

    rows: np.ndarray
    columns: np.ndarray


def _free_entries(m: int, beta: int) -> MatrixEntries:
    """Return the positions of the independent entries in the matrix of blocks.

    First come the real parts of the lower triangle. Hermitian matrices (β = 2) also
    have imaginary parts below the diagonal.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    MatrixEntries
        The rows and the columns of the entries.
    """
    row, column = np.tril_indices(m)
    if beta == 1:
        return MatrixEntries(row, column)
    strict_rows, strict_columns = np.tril_indices(m, -1)
    rows = np.concatenate([2 * row, 2 * strict_rows + 1])
    columns = np.concatenate([2 * column, 2 * strict_columns])
    return MatrixEntries(rows, columns)


def _fill_hermitian(m: int, beta: int, free_integers: list[int]) -> np.ndarray:
    """Fill a symmetric or Hermitian matrix of integers from its independent entries.

    Called at the end of a draw, when all independent entries are rounded.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.
    free_integers : list of int
        The independent entries, in the order of `_free_entries`.

    Returns
    -------
    array of Python ints
        The matrix: (m, m), or (m, m, 2) with real and imaginary parts.
    """
    matrix = np.zeros((m, m, 2), dtype=object)
    row, column = np.tril_indices(m)
    real_parts = free_integers[: len(row)]
    matrix[row, column, 0] = real_parts
    matrix[column, row, 0] = real_parts
    if beta == 1:
        return np.asarray(matrix[..., 0])

    strict_rows, strict_columns = np.tril_indices(m, -1)
    imaginary_parts = free_integers[len(row) :]
    matrix[strict_rows, strict_columns, 1] = imaginary_parts
    matrix[strict_columns, strict_rows, 1] = [
        -imaginary_part for imaginary_part in imaginary_parts
    ]
    return matrix


def cholesky(center: np.ndarray) -> np.ndarray | None:
    """Return balls around the Cholesky factor of the symmetric part of a matrix.

    The factor is the lower triangular L with A = LLᵀ, computed column by column: the
    pivot L_jj² is A_jj − Σ_{k<j} L_jk², and L_ij = (A_ij − Σ_{k<j} L_ik·L_jk)/L_jj for
    i > j.

    Parameters
    ----------
    center : array
        A real symmetric matrix, or a Hermitian one as real blocks.

    Returns
    -------
    array of balls, or None
        None if the sign of a pivot is not certain at the current precision.

    Raises
    ------
    ParameterError
        If the matrix is not positive definite.
    """
    matrix = arb_array(center)
    matrix = (matrix + matrix.T) / 2
    size = len(matrix)
    lower = arb_array(np.zeros((size, size)))
    for j in range(size):
        # The dot product of an empty row would not be a ball.
        row = lower[j, :j]
        pivot = matrix[j, j] - row.dot(row) if j else matrix[0, 0]

        # The pivot must be positive, with certainty.
        if pivot <= 0 or _is_exactly_singular(pivot, center):
            raise ParameterError("center must be positive definite")
        if not pivot > 0:
            return None

        # Fill column j of the factor.
        lower[j, j] = pivot.sqrt()
        for i in range(j + 1, size):
            product = lower[i, :j].dot(row) if j else arb(0)
            lower[i, j] = (matrix[i, j] - product) / lower[j, j]
    return lower


def _is_exactly_singular(pivot: arb, center: np.ndarray) -> bool:
    """Return whether a matrix is proved not to be positive definite.

    A Cholesky factorization in intervals fails if the interval of a pivot contains 0.
    More bits separate a positive pivot from 0, but they would never end for a pivot
    that is exactly 0. So at 2048 bits, where such a pivot is likely, the matrix is
    checked in rational arithmetic. At fewer bits another try with more bits is cheaper.

    Parameters
    ----------
    pivot : arb
        A pivot of the Cholesky factorization.
    center : array
        The matrix, whose entries are taken as exact numbers.

    Returns
    -------
    bool
        True if the matrix is not positive definite. False if it is, or if it was not
        checked because the pivot is not near 0 or the precision still low.
    """
    if ctx.prec < _RATIONAL_PRECISION or not pivot.contains(0):
        return False
    return not _is_positive_definite(center)


def _is_positive_definite(center: np.ndarray) -> bool:
    """Return whether the symmetric part of a matrix is positive definite, exactly.

    By Sylvester's criterion a symmetric matrix is positive definite if and only if all
    its leading minors are positive. The minors are computed in rational arithmetic,
    which is slow, so only a singular or nearly singular center is checked in this way.

    Parameters
    ----------
    center : array, shape (m, m)
        A matrix.

    Returns
    -------
    bool
        Whether all leading minors are positive.
    """
    m = len(center)
    # Every float is a fraction. Twice the symmetric part needs no division.
    fractions = [
        [fmpq(*float(entry).as_integer_ratio()) for entry in row] for row in center
    ]
    twice_symmetric = [
        [fractions[i][j] + fractions[j][i] for j in range(m)] for i in range(m)
    ]

    # Sylvester's criterion asks for positive leading minors.
    for size in range(1, m + 1):
        minor = fmpq_mat([row[:size] for row in twice_symmetric[:size]]).det()
        if not minor > 0:
            return False
    return True
