"""Noise in the tangent space of low-rank matrices (PRISM), recomputed.

PRISM (Wang and Zhang 2026, arXiv 2606.00944) fine-tunes a low-rank update Z = A·Bᵀ.
It clips gradients and adds noise in the tangent space of the matrices of rank r at Z,
so that nothing depends on how Z is factored. The formulas here are written from its
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
    """Return what PRISM's sampler makes of each unit vector of its normal numbers.

    With standard normal U (m × r) and V (n × r) the noise is

        (I − P)·U·(BᵀB)^{−1/2}·Bᵀ + A·(AᵀA)^{−1/2}·Vᵀ.

    Parameters
    ----------
    left, right : array of shape (m, r), array of shape (n, r)
        A and B, of full rank.

    Returns
    -------
    array of shape ((m + n)·r, m·n)
        One row for each normal number.
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


def _inverse_root(gram: np.ndarray) -> np.ndarray:
    """Return G^{−1/2} of a symmetric positive definite matrix G."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def noise_of_factors(left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean square of what unit noise on both factors does to Z, to first order.

    E‖dA·Bᵀ + A·dBᵀ‖² = m‖B‖² + n‖A‖². It depends on how Z is factored: with c·A and B/c
    it grows without bound as c moves away from its best value.

    Parameters
    ----------
    left, right : array of shape (m, r), array of shape (n, r)
        A and B, the factors of Z = A·Bᵀ.
    """
    return float(len(left) * np.sum(right**2) + len(right) * np.sum(left**2))


def realized_batch_sizes(
    epsilon: float, delta: float, n: int, batch_size: int, steps: int
) -> dict[str, float]:
    """Return ε of a run whose batches are drawn by chance and divided by their size.

    A Poisson sampled sum of clipped gradients with noise σC moves by C when a record is
    added. PRISM's published program divides sum and noise by the number of records that
    were drawn. The size of the noise then tells that number, since one step draws
    millions of normal numbers. Given the number, a record of gradient −C in place of
    others of gradient C moves the sum by 2C.

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
        The noise σ/C, and ε at δ for a difference of C and of 2C.
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
    """Return the figures: isotropy, dependence on the factors, and ε of the program.

    Parameters
    ----------
    full : bool
        Whether ε is computed as well, which takes about a minute.

    Returns
    -------
    dict
        Numbers by their names in expected.json.
    """
    rng = np.random.default_rng(0)
    m, n, rank = 9, 7, 2
    left = rng.standard_normal((m, rank))
    right = rng.standard_normal((n, rank))
    mixing = rng.standard_normal((rank, rank))
    other_left = left @ mixing
    other_right = right @ np.linalg.inv(mixing).T

    gradient = rng.standard_normal((m, n))
    here = project_to_tangent_space(left, right, gradient)
    there = project_to_tangent_space(other_left, other_right, gradient)

    # The covariance of the noise must be the projection itself.
    basis = basis_of_tangent_space(left, right)
    units = np.eye(m * n).reshape(-1, m, n)
    projected = [project_to_tangent_space(left, right, unit).ravel() for unit in units]
    covariance = basis.T @ basis
    best = noise_of_factors(left, right)
    figures: dict[str, Any] = {
        "change of a gradient with the factors": float(np.abs(here - there).max()),
        "noise from isotropic": float(np.abs(covariance - np.array(projected)).max()),
        "noise energy": float(np.trace(covariance)),
        "noise energy, r(m + n − r)": float(rank * (m + n - rank)),
        "noise of factors, of 10·A over that of A": (
            noise_of_factors(10 * left, right / 10) / best
        ),
    }
    if full:
        # Math-10K of the published program: 9,919 questions, batches of 64, 300 steps.
        figures["batches"] = realized_batch_sizes(6.0, 1e-5, 9_919, 64, 300)
    return figures
