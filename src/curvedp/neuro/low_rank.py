"""Reduce a noisy symmetric matrix to low rank: post-processing, which costs no privacy."""

import numpy as np

# The diagonal of a matrix of edges is unknown. It is filled in from the reduced matrix
# this many times, after which it hardly changes.
_FILLS = 10


def reduce_rank(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    """Return the symmetric matrix of low rank of which a noisy one is likely a draw.

    Let Y = S + W be k×k, where W is symmetric with independent normal entries of
    standard deviation σ. The eigenvalues of W alone fill [−2σ√k, 2σ√k]. An eigenvalue λ
    of Y beyond that belongs to an eigenvalue θ of S with λ = θ + kσ²/θ, and its vector
    has the squared cosine 1 − kσ²/θ² with that of S. So the least squared error has
    η(λ) = sign(λ)·√(λ² − 4kσ²) in place of λ, and 0 in place of those within
    (Benaych-Georges & Nadakuditi 2011; Gavish & Donoho 2017 for other matrices). Both
    are limits for large k; how well it does is estimated for each release.

    Parameters
    ----------
    noisy : array of shape (k, k)
        The matrix Y of released edges. Its diagonal is not used.
    noise_std : float
        The standard deviation σ of the noise of an edge.

    Returns
    -------
    array of shape (k, k)
        The reduced matrix; its diagonal has no meaning, because no edge is there.
    """
    k = len(noisy)
    bulk = 2 * noise_std * np.sqrt(k)
    filled = noisy - np.diag(np.diag(noisy))
    reduced = np.zeros_like(filled)
    for _ in range(_FILLS):
        eigenvalues, vectors = np.linalg.eigh(filled)
        beyond = np.maximum(eigenvalues**2 - bulk**2, 0.0)
        shrunk = np.sign(eigenvalues) * np.sqrt(beyond)
        reduced = (vectors * shrunk) @ vectors.T
        np.fill_diagonal(filled, np.diag(reduced))
    return np.asarray(reduced)
