"""Sums of matrix logarithms by Chebyshev series, without eigenvectors. If an interval is
known that contains the eigenvalues of a matrix, its logarithm is a polynomial of the
matrix, up to an error that falls geometrically with the degree. `series_degree` chooses
the degree for a wanted error, and `log_sum_by_series` sums the logarithms of many
matrices with few matrix products.
"""

import numpy as np

from curvedp.geometry.manifold import Array as Matrix
from curvedp.numerics.matrix_functions import sym

ROUNDOFF = 1e-15
"""A few units of round-off: no series is computed more accurately than this."""

# Divisors are at least this: matrices that are multiples of I have a span of 0.
_LEAST_DIVISOR = 1e-300


def series_degree(half_width: float, error: float) -> int | None:
    """Return the degree at which a Chebyshev series of the logarithm may be cut off.

    With σ half the span of the log-eigenvalues and q = tanh(σ/2), the terms of the
    series of `log_sum_by_series` beyond degree d add up to less than 2q^{d+1}/(1−q).

    Parameters
    ----------
    half_width : float
        σ.
    error : float
        The largest allowed sum of the terms that are cut off.

    Returns
    -------
    int or None
        The degree, at least 2; None if the series does not converge.
    """
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if not q < 1:  # the width is infinite or NaN
        return None
    allowed_power = max(error, ROUNDOFF) * (1 - q) / 2  # the largest allowed q^{d+1}
    degree = np.log(allowed_power) / np.log(q)
    return max(2, int(np.ceil(degree)))


def log_sum_by_series(
    A: Matrix, weights: Matrix, low: Matrix, high: Matrix, degree: int
) -> Matrix:
    """Return Σ w·log A over matrices A with weights w, by a Chebyshev series.

    Let c be the geometric middle of the interval that contains the spectrum of A. Then
    A/c has its spectrum in [e^−σ, e^σ], and with y = (A/c − cosh σ)/sinh σ and
    q = tanh(σ/2),

        log(cosh σ + y·sinh σ) = −log(1−q²) + 2Σ_k (−1)^{k+1} q^k/k · T_k(y).

    The terms are grouped into blocks of s terms. The polynomials T_k with k < s are
    computed one by one (baby steps), and T_{bs} for each block b by the recurrence with
    T_s (giant steps). Only the sum over the matrices is needed, so the last product of
    each block is one long matrix product for all records (after Paterson & Stockmeyer
    1973).

    Parameters
    ----------
    A : array, shape (n, m, m)
        Whitened matrices.
    weights : array, shape (n,)
        Their weights.
    low, high : array, shape (n,)
        Ends of intervals that contain their log-eigenvalues.
    degree : int
        Degree of the series.

    Returns
    -------
    array, shape (m, m)
        The weighted sum of the logarithms, symmetric.
    """
    sigma = float(np.max(high - low)) / 2
    stride = max(2, round((2 * degree) ** 0.5))  # s, with the fewest matrix products
    n_blocks = degree // stride
    coefficients = _block_coefficients(sigma, stride, n_blocks)

    middle = 0.5 * (low + high)  # log c
    Y = _rescale(A, middle, sigma)
    baby_steps, giant_step = _chebyshev_polynomials(Y, stride)

    # Σ_j w·Q_bj·T_j(Y) for each block b and each record.
    baby_steps *= weights[:, None, None]
    block_sums = coefficients @ baby_steps.reshape(stride, -1)
    block_sums = block_sums.reshape(n_blocks + 1, *A.shape)

    # Block 0, with Σ w·log c for the division of A by c; then the other blocks.
    identity = np.eye(A.shape[-1])
    total = block_sums[0].sum(axis=0) + float(weights @ middle) * identity
    _add_giant_steps(total, block_sums[1:], giant_step)
    return sym(total)


def _rescale(A: Matrix, middle: Matrix, sigma: float) -> Matrix:
    """Return the matrices Y = (A/c − cosh σ)/sinh σ, with eigenvalues in [−1, 1].

    On [−1, 1] all Chebyshev polynomials are between −1 and 1.

    Parameters
    ----------
    A : array, shape (n, m, m)
        Whitened matrices.
    middle : array, shape (n,)
        log c for each matrix, the middle of its log-eigenvalues.
    sigma : float
        σ, half the largest span of log-eigenvalues.

    Returns
    -------
    array, shape (n, m, m)
        The matrices Y.
    """
    factors = np.exp(-middle) / max(np.sinh(sigma), _LEAST_DIVISOR)  # 1/(c·sinh σ)
    Y = A * factors[:, None, None]
    Y -= np.eye(A.shape[-1]) / max(np.tanh(sigma), _LEAST_DIVISOR)
    return Y


def _add_giant_steps(total: Matrix, block_sums: Matrix, giant_step: Matrix) -> None:
    """Add Σ_b Σ_records T_{bs}(Y)·(the sum of block b), for the blocks b = 1, 2, ….

    This is the second half of `log_sum_by_series`, for all blocks but the first.

    Parameters
    ----------
    total : array, shape (m, m)
        The matrix to which the products are added, in place.
    block_sums : array, shape (n_blocks, n, m, m)
        The sum of each block after the first, for each record.
    giant_step : array, shape (n, m, m)
        T_s(Y), the step of the recurrence T_{(b+1)s} = 2·T_s·T_{bs} − T_{(b−1)s}.
    """
    n, m, _ = giant_step.shape
    previous = np.broadcast_to(np.eye(m), giant_step.shape)
    current = giant_step  # T_{bs}(Y)
    n_blocks = len(block_sums)
    for b in range(n_blocks):
        # One matrix product adds up the products of all records.
        total += block_sums[b].reshape(n * m, m).T @ current.reshape(n * m, m)
        is_last = b == n_blocks - 1
        if not is_last:
            following = 2 * (giant_step @ current) - previous
            previous = current
            current = following


def _chebyshev_polynomials(Y: Matrix, stride: int) -> tuple[Matrix, Matrix]:
    """Return the first Chebyshev polynomials of matrices, T_0(Y) up to T_stride(Y).

    They follow from the recurrence T_{j+1} = 2Y·T_j − T_{j−1}.

    Parameters
    ----------
    Y : array, shape (n, m, m)
        Symmetric matrices.
    stride : int
        The largest degree, at least 2.

    Returns
    -------
    polynomials : array, shape (stride, n, m, m)
        T_0(Y), …, T_{stride−1}(Y).
    last : array, shape (n, m, m)
        T_stride(Y).
    """
    T = np.empty((stride, *Y.shape))
    T[0] = np.eye(Y.shape[-1])
    T[1] = Y
    twice_Y = 2 * Y
    for j in range(2, stride):
        np.matmul(twice_Y, T[j - 1], out=T[j])
        T[j] -= T[j - 2]
    return T, twice_Y @ T[stride - 1] - T[stride - 2]


def _block_coefficients(sigma: float, stride: int, n_blocks: int) -> Matrix:
    """Regroup the Chebyshev series of the logarithm into blocks of s terms.

    Let T_k be the Chebyshev polynomials, q = tanh(σ/2) and c_k the coefficients of

        log(cosh σ + y·sinh σ) = Σ_k c_k T_k(y),  c_0 = −log(1−q²),
        c_k = 2·(−1)^{k+1}·q^k/k.

    The result is the matrix Q with Σ_k c_k T_k = Σ_b T_{bs} Σ_{j<s} Q_bj T_j. The
    regrouping starts at the highest block and uses 2·T_{bs}·T_j = T_{bs+j} + T_{bs−j}.

    Parameters
    ----------
    sigma : float
        Half the span σ of the log-eigenvalues.
    stride, n_blocks : int
        The number s of terms in a block, and the number of blocks after the first.

    Returns
    -------
    array, shape (n_blocks + 1, stride)
        The matrix Q.
    """
    # The coefficients c_0, c_1, …
    q = np.tanh(sigma / 2)
    k = np.arange(1, (n_blocks + 1) * stride)
    constant_term = -np.log1p(-q * q)
    c = np.concatenate([[constant_term], 2 * (-1.0) ** (k + 1) * q**k / k])

    Q = np.zeros((n_blocks + 1, stride))
    for b in range(n_blocks, 0, -1):
        # c_{bs+j}·T_{bs+j} = 2c_{bs+j}·T_{bs}·T_j − c_{bs+j}·T_{bs−j} for j > 0.
        block_start = b * stride
        Q[b] = 2 * c[block_start : block_start + stride]
        Q[b, 0] /= 2  # j = 0: T_{bs} itself
        reflected = c[block_start + 1 : block_start + stride][::-1]
        c[block_start - stride + 1 : block_start] -= reflected
    Q[0] = c[:stride]
    return Q
