"""Sums over whitened SPD matrices, which a pass of the search for their mean needs. A
pass at the point GGᵀ whitens every record X, A = G⁻¹XG⁻ᵀ, and sums w·log A and
w·‖log A‖² over the records with their weights w. The functions here take matrices whose
eigenvalues are known (`spd_closed_form` and `spd_series` do without eigenvectors), and
compute again, to high relative accuracy, the few that double precision does not resolve.
"""

from typing import NamedTuple

import numpy as np

from curvedp.geometry.manifold import Array as Matrix
from curvedp.numerics.matrix_functions import sym
from curvedp.numerics.spd_pencil import log_spectrum

LEAST_WELL_CONDITIONED_RATIO = 1e-5
"""A matrix is well-conditioned if the ratio λ_min/λ_max of its eigenvalues is above this.
Its logarithm is then accurate in plain double precision."""

PLAIN_ERROR = 1e-11
"""A bound on the error of the logarithm of a well-conditioned matrix, in plain doubles."""


class WeightedSums(NamedTuple):
    """Weighted sums over some of the records: what they contribute to a pass.

    The weights of all records sum to 1, so that the sums over all records are means.

    Attributes
    ----------
    log_sum : array of shape (m, m)
        Σ w·log A over the whitened records A with weights w.
    square_sum : float
        Σ w·‖log A‖², or NaN if it was not computed.
    error : float
        A bound on the error of `log_sum`.
    """

    log_sum: Matrix
    square_sum: float
    error: float = 0.0


class SpectralSums(NamedTuple):
    """Weighted sums over matrices whose eigenvalues are known, and their logarithms.

    Attributes
    ----------
    log_eigenvalues : array of shape (n, m)
        In ascending order; 0 for ill-conditioned matrices.
    is_well_conditioned : array of bool, shape (n,)
        True for the matrices whose logarithms plain double precision computes
        accurately.
    sums : WeightedSums
        The sums over all matrices.
    """

    log_eigenvalues: Matrix
    is_well_conditioned: Matrix
    sums: WeightedSums


def whiten(inverse: Matrix, X: Matrix) -> Matrix:
    """Return the whitened matrices G⁻¹XG⁻ᵀ, symmetric to the last bit.

    Parameters
    ----------
    inverse : array of shape (m, m)
        G⁻¹, where GGᵀ is the iterate.
    X : array of shape (n, m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (n, m, m)
        The whitened matrices.
    """
    n, m, _ = X.shape
    right_product = (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m)  # XG⁻ᵀ
    return sym(inverse @ right_product)


def sums_by_spectrum(
    roundoff_unit: float,
    G: Matrix,
    eigenvalues: Matrix,
    U: Matrix,
    X: Matrix,
    weights: Matrix,
) -> SpectralSums:
    """Sum the logarithms of whitened matrices whose eigenvectors are known.

    If the ratio of the extreme eigenvalues of a matrix is too small for plain double
    precision, its spectrum is computed again to high relative accuracy
    (`add_ill_conditioned_matrices`).

    Parameters
    ----------
    roundoff_unit : float
        A bound on the error of the logarithm of a whitened matrix near the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    eigenvalues, U : array, shapes (n, m) and (n, m, m)
        The eigenvalues, in ascending order, and the eigenvectors of the whitened
        matrices G⁻¹XG⁻ᵀ.
    X, weights : array, shapes (n, m, m) and (n,)
        The records and their weights.

    Returns
    -------
    SpectralSums
        The log-eigenvalues, which matrices are well-conditioned, and the sums.
    """
    ratio = eigenvalues[:, 0] / eigenvalues[:, -1]
    is_well_conditioned = ratio > LEAST_WELL_CONDITIONED_RATIO
    safe_eigenvalues = eigenvalues
    safe_weights = weights
    if not is_well_conditioned.all():
        safe_eigenvalues = np.where(is_well_conditioned[:, None], eigenvalues, 1.0)
        safe_weights = np.where(is_well_conditioned, weights, 0.0)

    logs = np.log(safe_eigenvalues)
    well_conditioned_sums = _weighted_sums(logs, U, safe_weights)
    sums = add_ill_conditioned_matrices(
        well_conditioned_sums, roundoff_unit, G, X, weights, ratio
    )
    return SpectralSums(logs, is_well_conditioned, sums)


def add_ill_conditioned_matrices(
    well_conditioned_sums: WeightedSums,
    roundoff_unit: float,
    G: Matrix,
    X: Matrix,
    weights: Matrix,
    ratio: Matrix,
) -> WeightedSums:
    """Add the ill-conditioned matrices to the sums of a pass.

    The eigenvalues of these matrices are computed to high relative accuracy.

    Parameters
    ----------
    well_conditioned_sums : WeightedSums
        The sums over the matrices with ratio > `LEAST_WELL_CONDITIONED_RATIO`.
    roundoff_unit : float
        A bound on the error of the logarithm of a whitened matrix near the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    X, weights : array, shapes (n, m, m) and (n,)
        All matrices and their weights.
    ratio : array, shape (n,)
        The least divided by the largest eigenvalue of each whitened matrix.

    Returns
    -------
    WeightedSums
        The sums over all matrices, with a bound on their error.
    """
    log_sum, square_sum, _ = well_conditioned_sums
    error = PLAIN_ERROR
    is_well_conditioned = ratio > LEAST_WELL_CONDITIONED_RATIO
    if is_well_conditioned.all():
        worst_ratio = float(np.min(ratio, initial=1.0))
        error = min(PLAIN_ERROR, roundoff_unit / worst_ratio)
    else:
        ill_conditioned = _accurate_sums(
            G, X[~is_well_conditioned], weights[~is_well_conditioned]
        )
        log_sum = log_sum + ill_conditioned.log_sum
        square_sum = square_sum + ill_conditioned.square_sum
    return WeightedSums(log_sum, square_sum, error * float(weights.sum()))


def _accurate_sums(G: Matrix, X: Matrix, weights: Matrix) -> WeightedSums:
    """Sum the logarithms of whitened matrices to high relative accuracy.

    These are the few ill-conditioned matrices.

    Parameters
    ----------
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    X, weights : array, shapes (n, m, m) and (n,)
        Matrices before whitening, and their weights.

    Returns
    -------
    WeightedSums
        The sums over these matrices.
    """
    # Spectra of L⁻¹XL⁻ᵀ with the Cholesky factor L of the iterate. `log_spectrum`
    # returns one factor for each record, and all of them are equal.
    factors, logs, U = log_spectrum(sym(G @ G.T), X)
    L = factors[0]
    # L and G are factors of one matrix, so they differ by a rotation, by which the
    # eigenvectors of L⁻¹XL⁻ᵀ become those of G⁻¹XG⁻ᵀ.
    rotation = np.linalg.solve(L, G)
    return _weighted_sums(logs, rotation.T @ U, weights)


def _weighted_sums(logs: Matrix, U: Matrix, weights: Matrix) -> WeightedSums:
    """Return the weighted sums of logarithms and of their squared lengths.

    Logarithms are given by their eigenvalues and eigenvectors.

    Parameters
    ----------
    logs, U : arrays of shape (n, m) and (n, m, m)
        Eigenvalues and eigenvectors of the logarithms.
    weights : array of shape (n,)
        The weights w.

    Returns
    -------
    WeightedSums
        Σ w·U·diag(logs)·Uᵀ and Σ w·|logs|².
    """
    n, m = logs.shape
    # The eigenvectors of all records as columns, side by side: one matrix product then
    # sums over the records.
    eigenvectors = U.transpose(1, 0, 2).reshape(m, n * m)
    weighted_logs = weights[:, None] * logs
    log_sum = (eigenvectors * weighted_logs.ravel()) @ eigenvectors.T
    return WeightedSums(log_sum, float(np.sum(weighted_logs * logs)))
