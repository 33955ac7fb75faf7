"""CoinPress for the mean (Biswas, Dong, Kamath & Ullman 2020), written anew from memory of the paper, for comparison.

It is given the covariance (I) and a ball that holds the mean; each step clips to what a Gaussian of that covariance reaches,
releases a noisy mean and shrinks the ball. ρ-zCDP in total, shared as we remember the paper's experiments: three quarters
for the last step. The clipping length is the smaller of r + γ and √(r² + 6r + γ²); the second is right with probability 0.99
and makes the baseline stronger.
"""

from math import log, sqrt

import numpy as np

__all__ = ["coinpress_mean"]

_BETA, _STEPS = 0.01, 10


def coinpress_mean(
    X: np.ndarray,
    center: np.ndarray,
    radius: float,
    rho: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """A ρ-zCDP mean of n records of covariance I whose mean is in the ball."""
    n, d = X.shape
    gamma = sqrt(d + 2 * sqrt(d * log(1 / _BETA)) + 2 * log(1 / _BETA))
    c, r = np.asarray(center, dtype=np.float64), radius
    for share in [rho / (4 * (_STEPS - 1))] * (_STEPS - 1) + [3 * rho / 4]:
        reach = min(r + gamma, sqrt(r * r + 6 * r + gamma * gamma))
        noise = 2 * reach / n / sqrt(2 * share)
        c = clipped_mean(X, c, reach) + noise * rng.standard_normal(d)
        r = gamma * sqrt(1 / n + noise * noise)
    return c


def clipped_mean(X: np.ndarray, c: np.ndarray, reach: float) -> np.ndarray:
    """The mean of the records after moving them into a ball."""
    length = np.linalg.norm(X - c, axis=1, keepdims=True)
    return np.asarray(
        c
        + np.mean((X - c) * np.minimum(1.0, reach / np.maximum(length, 1e-300)), axis=0)
    )
