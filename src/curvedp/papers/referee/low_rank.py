"""Noise in the tangent space of low-rank matrices (PRISM), recomputed. A matrix Z of
rank r is given by factors A and B with Z = A·Bᵀ, and the same Z has many pairs of
factors.

PRISM (Wang and Zhang 2026, arXiv 2606.00944) fine-tunes a low-rank update Z of a model.
It clips gradients and adds noise in the tangent space of the matrices of rank r at Z,
so that nothing depends on the factors of Z. The formulas here are written from its
abstract and its published program; the rest of the text could not be read.
"""

from typing import Any

import numpy as np

from curvedp.privacy import ApproxDP
from curvedp.privacy.subsampling import subsampled_gaussian, subsampled_noise_multiplier

__all__ = [
    "basis_of_tangent_space",
    "low_rank",
    "noise_of_factors",
    "project_to_tangent_space",
    "realized_batch_sizes",
]


def project_to_tangent_space(
    left: np.ndarray, right: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """Return a matrix projected to the tangent space of rank-r matrices at Z = A·Bᵀ.

    It is PG + GQ − PGQ for the matrix G, where P and Q project to the columns of A and
    of B.

    Parameters
    ----------
    left, right : array of shape (m, r), array of shape (n, r)
        A and B, of full rank.
    gradient : array of shape (m, n)
        G.

    Returns
    -------
    array of shape (m, n)
        The projection, which does not depend on how Z is factored.
    """
    columns, _ = np.linalg.qr(left)
    rows, _ = np.linalg.qr(right)
    by_columns = columns @ (columns.T @ gradient)
    by_rows = (gradient @ rows) @ rows.T
    by_both = columns @ (columns.T @ by_rows)
    return np.asarray(by_columns + by_rows - by_both)


def basis_of_tangent_space(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the linear map from PRISM's standard normal numbers to its noise.

    From independent standard normal matrices U (m × r) and V (n × r) PRISM computes

        (I − P)·U·(BᵀB)^{−1/2}·Bᵀ + A·(AᵀA)^{−1/2}·Vᵀ,

    where P projects to the columns of A. The rows of the map are the images of the unit
    vectors. The noise is isotropic in the tangent space if they are orthonormal.

    Parameters
    ----------
    left, right : array of shape (m, r), array of shape (n, r)
        A and B, of full rank.

    Returns
    -------
    array of shape ((m + n)·r, m·n)
        The image of each normal number's unit vector, as a flattened matrix.
    """
    m, rank = left.shape
    n = len(right)
    columns, _ = np.linalg.qr(left)
    orthonormal_left = left @ _inverse_root(left.T @ left)
    orthonormal_right = right @ _inverse_root(right.T @ right)
    rows = []
    for unit in np.eye(m * rank).reshape(-1, m, rank):
        outside = unit - columns @ (columns.T @ unit)
        rows.append((outside @ orthonormal_right.T).ravel())
    for unit in np.eye(n * rank).reshape(-1, n, rank):
        rows.append((orthonormal_left @ unit.T).ravel())
    return np.array(rows)


def _projection_matrix(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the matrix of `project_to_tangent_space`, for flattened matrices.

    Parameters
    ----------
    left, right : array of shape (m, r), array of shape (n, r)
        A and B, of full rank.
    """
    m, n = len(left), len(right)
    unit_matrices = np.eye(m * n).reshape(-1, m, n)
    return np.array(
        [project_to_tangent_space(left, right, unit).ravel() for unit in unit_matrices]
    )


def _inverse_root(gram: np.ndarray) -> np.ndarray:
    """Return G^{−1/2} of a symmetric positive definite matrix G."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def noise_of_factors(left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean square of the noise in Z = A·Bᵀ if unit noise is added to A and B.

    To first order it is E‖dA·Bᵀ + A·dBᵀ‖² = m‖B‖² + n‖A‖². It depends on the factors of
    Z: for the factors c·A and B/c it grows without bound as c → 0 or c → ∞.

    Parameters
    ----------
    left, right : array of shape (m, r), array of shape (n, r)
        A and B, the factors of Z = A·Bᵀ.
    """
    return float(len(left) * np.sum(right**2) + len(right) * np.sum(left**2))


def realized_batch_sizes(
    epsilon: float, delta: float, n: int, batch_size: int, steps: int
) -> dict[str, float]:
    """Return the ε of Poisson batches that are divided by their realized size.

    The usual analysis adds noise of standard deviation σC to the sum of the gradients
    of a Poisson sample, each clipped to the norm C. A further record changes the sum by
    at most C. PRISM's published program divides the sum and the noise by the number of
    records that were drawn. The scale of the noise then reveals this number, because
    one step draws millions of normal numbers. Given the number, a further record of
    gradient −C takes the place of one of gradient C, which changes the sum by 2C.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee that the noise is chosen for.
    n : int
        The number of records.
    batch_size : int
        The expected number of records in a batch.
    steps : int
        The number of batches.

    Returns
    -------
    dict
        The noise multiplier σ/C, and ε at δ if the sum changes by C and by 2C.
    """
    rate = batch_size / n
    target = ApproxDP(epsilon, delta, adjacency="add-remove")
    noise = subsampled_noise_multiplier(target, rate, steps)
    expected = subsampled_gaussian(noise, rate, steps, adjacency="add-remove")
    realized = subsampled_gaussian(noise / 2, rate, steps, adjacency="add-remove")
    return {
        "noise multiplier": noise,
        "ε, divided by the expected size": float(expected.epsilon(delta)),
        "ε, divided by the size drawn": float(realized.epsilon(delta)),
    }


def low_rank(full: bool) -> dict[str, Any]:
    """Test three claims about low-rank noise: isotropy, invariance to factors, and ε.

    Parameters
    ----------
    full : bool
        Whether ε is computed as well, which takes about a minute.

    Returns
    -------
    dict
        The numbers of all three tests, by their names in expected.json.
    """
    # A matrix Z of rank 2, by two pairs of factors.
    rng = np.random.default_rng(0)
    m, n, rank = 9, 7, 2
    left = rng.standard_normal((m, rank))
    right = rng.standard_normal((n, rank))
    mixing = rng.standard_normal((rank, rank))
    other_left = left @ mixing
    other_right = right @ np.linalg.inv(mixing).T

    # A projected gradient must not depend on the factors.
    gradient = rng.standard_normal((m, n))
    projected_gradient = project_to_tangent_space(left, right, gradient)
    by_other_factors = project_to_tangent_space(other_left, other_right, gradient)
    gradient_change = float(np.abs(projected_gradient - by_other_factors).max())

    # Isotropic noise of the tangent space has its projection matrix as covariance.
    noise_map = basis_of_tangent_space(left, right)
    covariance = noise_map.T @ noise_map
    projection = _projection_matrix(left, right)
    factor_noise = noise_of_factors(left, right)
    figures: dict[str, Any] = {
        "change of a gradient with the factors": gradient_change,
        "noise from isotropic": float(np.abs(covariance - projection).max()),
        "noise energy": float(np.trace(covariance)),
        "noise energy, r(m + n − r)": float(rank * (m + n - rank)),
        "noise of factors, of 10·A over that of A": (
            noise_of_factors(10 * left, right / 10) / factor_noise
        ),
    }
    if full:
        # Math-10K of the published program: 9,919 questions, batches of 64, 300 steps.
        figures["batches"] = realized_batch_sizes(6.0, 1e-5, 9_919, 64, 300)
    return figures
