"""Σ w log A of matrices whose spectra are known to lie in given intervals, in matrix products alone."""

import numpy as np

from curvedp.geometry.base import Array as Matrix
from curvedp.geometry.numerics.spectral import sym


def cheapest(m: int) -> int:
    """The degree beyond which `eigh` is cheaper than the series (measured: 160 at m = 11, 100 at 50, 50 at 100)."""
    return min(160, 5000 // m)


def degree(half_width: float, error: float) -> int:
    """Degree at which `log_sum` is within `error` on log-eigenvalues of the given half-width."""
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if not q < 1:
        return 10**9
    return max(2, int(np.ceil(np.log(max(error, 1e-15) * (1 - q) / 2) / np.log(q))))


def whitened(inverse: Matrix, X: Matrix) -> Matrix:
    """G⁻¹XG⁻ᵀ, symmetric to the last bit."""
    n, m, _ = X.shape
    return sym(inverse @ (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m))


def log_sum(A: Matrix, weights: Matrix, low: Matrix, high: Matrix, degree: int) -> Matrix:
    """Σ w log A from log(cosh σ + y sinh σ) = −log(1−q²) + 2Σ (−1)^{k+1} q^k/k T_k(y), q = tanh(σ/2). A/c, with c
    the geometric middle of its interval, has its spectrum in [e^−σ, e^σ]. The tail beyond degree d is below
    2q^{d+1}/(1−q). Only the sum over the matrices is needed, so with giant steps T_bs the last product of each
    block is one long matrix product (after Paterson & Stockmeyer 1973)."""
    n, m, _ = A.shape
    middle = 0.5 * (low + high)
    sigma = float(np.max(high - low)) / 2
    q = np.tanh(sigma / 2)
    stride = max(2, round((2 * degree) ** 0.5))
    blocks = degree // stride
    k = np.arange(1, (blocks + 1) * stride)
    c = np.concatenate([[-np.log1p(-q * q)], 2 * (-1.0) ** (k + 1) * q**k / k])
    Q = np.zeros((blocks + 1, stride))
    for b in range(blocks, 0, -1):  # Σ c_k T_k = Σ_b T_bs Σ_j Q_bj T_j, as 2 T_bs T_j = T_{bs+j} + T_{bs−j}
        Q[b] = 2 * c[b * stride : (b + 1) * stride]
        Q[b, 0] /= 2
        c[(b - 1) * stride + 1 : b * stride] -= c[b * stride + 1 : (b + 1) * stride][::-1]
    Q[0] = c[:stride]

    Y = A * (np.exp(-middle) / max(np.sinh(sigma), 1e-300))[:, None, None]
    identity = np.eye(m)
    Y -= identity / max(np.tanh(sigma), 1e-300)
    T = np.empty((stride, n, m, m))
    T[0], T[1] = identity, Y
    twice = 2 * Y
    for j in range(2, stride):
        np.matmul(twice, T[j - 1], out=T[j])
        T[j] -= T[j - 2]
    giant = twice @ T[stride - 1] - T[stride - 2]
    T *= weights[:, None, None]
    parts = (Q @ T.reshape(stride, -1)).reshape(blocks + 1, n, m, m)
    total = parts[0].sum(axis=0) + float(weights @ middle) * identity
    before, current = np.broadcast_to(identity, giant.shape), giant
    for b in range(1, blocks + 1):
        total += parts[b].reshape(n * m, m).T @ current.reshape(n * m, m)
        if b < blocks:
            before, current = current, 2 * (giant @ current) - before
    return sym(total)
