"""Sums of logarithms of 2×2 and 3×3 SPD matrices, by closed formulas. Matrices are packed:
an array holds one coordinate of all matrices in each row, so that sums over the records
are fast. `pack_rows` packs them, and `sums_in_closed_form` sums their logarithms for a
pass of the search for their mean.
"""

import numpy as np

from curvedp.geometry.frechet_mean.backends.spd_sums import (
    LEAST_WELL_CONDITIONED_RATIO,
    WeightedSums,
    add_ill_conditioned_matrices,
)
from curvedp.geometry.manifold import Array as Matrix
from curvedp.geometry.spaces.spd_common import unpack
from curvedp.numerics.spd3 import log_polynomial, squared

# Packed matrices have one coordinate in each row, in the order (0,0), (1,0), (1,1),
# (2,0), (2,1), (2,2), and off-diagonal entries are multiplied by √2.
_INVERSE_SQRT2 = 0.5**0.5
_PACKED_FACTORS3 = np.array([1.0, 2**0.5, 1.0, 2**0.5, 2**0.5, 1.0])
_PACKED_IDENTITY2 = np.array([1.0, 0.0, 1.0])
_PACKED_IDENTITY3 = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])


def pack_rows(X: Matrix) -> Matrix:
    """Return the lower triangles of symmetric matrices with one coordinate in each row.

    Off-diagonal entries are multiplied by √2, so that the length of a packed matrix is
    its Frobenius norm. A row is contiguous in memory, and sums over the records are
    fast.

    Parameters
    ----------
    X : array, shape (n, m, m)
        Symmetric matrices.

    Returns
    -------
    array, shape (m(m + 1)/2, n)
        The packed matrices.
    """
    m = X.shape[-1]
    packed = np.empty((m * (m + 1) // 2, len(X)))
    lower_triangle = zip(*np.tril_indices(m), strict=True)
    for row, (i, j) in zip(packed, lower_triangle, strict=True):
        factor = 1.0 if i == j else 2**0.5
        np.multiply(X[:, i, j], factor, out=row)
    return packed


def packed_inverse3(A: Matrix) -> Matrix:
    """Return the inverses of packed 3×3 matrices, packed, by their cofactors.

    In the code the matrix has the rows (a, b, c), (b, d, e) and (c, e, f).

    Parameters
    ----------
    A : array of shape (6, n)
        Packed matrices: each row holds one entry of the lower triangles, off-diagonal
        ones times √2 (`pack_rows`).

    Returns
    -------
    array of shape (6, n)
        Their inverses, packed in the same way; infinite or NaN for a singular matrix.
    """
    a, b, d, c, e, f = _unscaled_entries3(A)
    cofactors = [
        d * f - e * e,
        c * e - b * f,
        a * f - c * c,
        b * e - c * d,
        b * c - a * e,
        a * d - b * b,
    ]
    determinant = a * cofactors[0] + b * cofactors[1] + c * cofactors[3]
    return np.stack(cofactors) * _PACKED_FACTORS3[:, None] / determinant


def _unscaled_entries3(A: Matrix) -> list[Matrix]:
    """Return the six entries of the lower triangle of packed 3×3 matrices.

    The factor √2 of the off-diagonal entries in `pack_rows` is removed.

    Parameters
    ----------
    A : array, shape (6, n)
        Packed matrices.

    Returns
    -------
    list of six arrays
        The entries (0,0), (1,0), (1,1), (2,0), (2,1), (2,2) of all matrices.
    """
    entries = []
    for row, scale in zip(A, _PACKED_FACTORS3, strict=True):
        entries.append(row if scale == 1 else row * _INVERSE_SQRT2)
    return entries


def sums_in_closed_form(
    roundoff_unit: float, G: Matrix, A: Matrix, X: Matrix, weights: Matrix
) -> WeightedSums:
    """Sum the logarithms of 2×2 or 3×3 matrices, which have a closed form.

    For an ill-conditioned matrix, the ratio of the least to the largest eigenvalue is
    NaN or small. Such matrices are left out at first, and then added by
    `add_ill_conditioned_matrices`.

    Parameters
    ----------
    roundoff_unit : float
        A bound on the error of the logarithm of a whitened matrix near the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    A : array, shape (m(m + 1)/2, n)
        The whitened matrices, packed.
    X, weights : array, shapes (n, m, m) and (n,)
        The same records before whitening, and their weights.

    Returns
    -------
    WeightedSums
        The sums of the logarithms and of their squared lengths, with a bound on the
        error.
    """
    sum_logs = _sum_logs_2x2 if len(G) == 2 else _sum_logs_3x3
    with np.errstate(invalid="ignore", divide="ignore"):
        sums, ratio = sum_logs(A, weights)
        is_well_conditioned = ratio > LEAST_WELL_CONDITIONED_RATIO
        if not is_well_conditioned.all():
            sums, _ = sum_logs(A[:, is_well_conditioned], weights[is_well_conditioned])
        return add_ill_conditioned_matrices(sums, roundoff_unit, G, X, weights, ratio)


def _sum_logs_2x2(A: Matrix, weights: Matrix) -> tuple[WeightedSums, Matrix]:
    """Sum the logarithms of packed 2×2 matrices A with weights w.

    If λ₁ ≤ λ₂ are the eigenvalues, log A = log λ₁·I + log[λ₁, λ₂]·(A − λ₁·I), where
    log[λ₁, λ₂] = (log λ₂ − log λ₁)/(λ₂ − λ₁) is the divided difference. In the code the
    matrix has the rows (a, b) and (b, d), λ₁ is `low`, and λ₂ is `high`.

    Parameters
    ----------
    A : array, shape (3, n)
        Packed matrices: the rows hold the entries (0,0), √2·(1,0) and (1,1).
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    sums : WeightedSums
        Σ w·log A and Σ w‖log A‖².
    ratio : array, shape (n,)
        λ₁/λ₂ of each matrix.
    """
    a = A[0]
    b = A[1] * _INVERSE_SQRT2
    d = A[2]

    # The eigenvalues.
    half_gap = np.sqrt((0.5 * (a - d)) ** 2 + b * b)
    high = 0.5 * (a + d) + half_gap
    low = (a * d - b * b) / high
    gap = 2 * half_gap

    log_low = np.log(low)
    log_gap = np.log1p(gap / low)  # log λ₂ − log λ₁
    log_high = log_low + log_gap
    # The divided difference log[λ₁, λ₂] is the derivative 1/λ₁ if both are equal.
    nonzero_gap = np.where(gap > 0, gap, 1.0)
    divided_difference = np.where(gap > 0, log_gap / nonzero_gap, 1 / low)
    coefficients = weights * divided_difference  # w·log[λ₁, λ₂]

    # Σ w·log A = Σ w·log[λ₁, λ₂]·A + (Σ w·log λ₁ − Σ w·log[λ₁, λ₂]·λ₁)·I.
    identity_coefficient = weights @ log_low - coefficients @ low
    log_sum = A @ coefficients + identity_coefficient * _PACKED_IDENTITY2
    square_sum = float(weights @ (log_low**2 + log_high**2))
    return WeightedSums(unpack(log_sum, 2), square_sum), low / high


def _sum_logs_3x3(A: Matrix, weights: Matrix) -> tuple[WeightedSums, Matrix]:
    """Sum the logarithms of packed 3×3 matrices A with weights w.

    log A = c₀I + c₁A + c₂A² with the coefficients of `log_polynomial`.

    Parameters
    ----------
    A : array, shape (6, n)
        Packed matrices: each row holds one entry of the lower triangles, off-diagonal
        ones times √2.
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    sums : WeightedSums
        Σ w·log A and Σ w‖log A‖².
    ratio : array, shape (n,)
        λ₁/λ₃ of each matrix, its least eigenvalue divided by its largest.
    """
    entries = tuple(_unscaled_entries3(A))
    log = log_polynomial(entries)

    # Σ w·c₂·A², entry by entry; then the sums of the linear and the constant terms.
    weighted_quadratic = weights * log.quadratic
    quadratic_sums = [float(weighted_quadratic @ entry) for entry in squared(entries)]
    log_sum = A @ (weights * log.linear) + _PACKED_FACTORS3 * quadratic_sums
    log_sum += float(weights @ log.constant) * _PACKED_IDENTITY3
    sums = WeightedSums(unpack(log_sum, 3), float(weights @ log.squared_norm))
    return sums, log.least / log.largest
