"""Logarithms of many 3×3 SPD matrices, matrix by matrix, without eigenvectors: for passes over diffusion tensors.

log A = α + βA + γA², Newton's interpolation of log at the eigenvalues, which are those of `small_eigh`. An error δ of an
eigenvalue moves log A by δ times the distance to the others, so clusters do no harm. The six entries are six long vectors and
every operation is element by element: a matrix's result does not depend on its neighbors. Plain double precision loses
cond(p)·cond(A) of its digits, so the caller sends matrices beyond `_DOUBTFUL` to the kernels of the manifold.
"""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.numerics.namespace import Array, namespace
from curvedp.geometry.numerics.small_eigh import separated_root
from curvedp.geometry.numerics.spd3_pencil import congruence
from curvedp.geometry.numerics.triangular import cholesky, lower_solve

Entries = tuple[Array, ...]  # of the lower triangle, row by row: (0,0), (1,0), (1,1), (2,0), (2,1), (2,2)

DOUBTFUL = 1e3  # cond(p)·cond(A) up to which the logarithms are good to 1e-12
_R2, _OFF = 2**0.5, (1, 3, 4)  # what `pack` multiplies the entries off the diagonal by, and their places


class Factor(NamedTuple):
    """The lower triangle of L⁻¹, row by row, and cond(p), of p = LLᵀ."""

    inverse: Any  # six numbers, or an array of them
    condition: float

    @classmethod
    def of(cls, p: np.ndarray) -> "Factor":
        inverse = np.asarray(lower_solve(cholesky(p), np.eye(3)))
        return cls(inverse[np.tril_indices(3)].tolist(), float(np.linalg.cond(p)))


class Logs(NamedTuple):
    """log A in orthonormal coordinates (those of `pack`), its squared length, and where both are accurate."""

    coordinates: list[Array]
    square: Array
    sure: Array


def lower_entries(X: Array) -> tuple[Entries, Array]:
    """Entries of the symmetric parts of X (n, 3, 3), and ‖X − Xᵀ‖² of each."""
    if is_numpy_array(X):
        X = np.ascontiguousarray(X.reshape(-1, 9).T).T.reshape(-1, 3, 3)  # each entry one run of memory
    pairs = [(X[:, i, j], X[:, j, i]) for i, j in ((1, 0), (2, 0), (2, 1))]
    b, c, e = (0.5 * (low + up) for low, up in pairs)
    skew = 2 * sum((low - up) ** 2 for low, up in pairs)
    return (X[:, 0, 0], b, X[:, 1, 1], c, e, X[:, 2, 2]), skew


def whitened_logs(p: Factor, entries: Entries) -> Logs:
    """log(L⁻¹XL⁻ᵀ): the coordinates of log_p X under the affine-invariant metric."""
    A = congruence(tuple(p.inverse[i] for i in range(6)), entries)
    log = log_polynomial(A)
    rows = [_R2 * (log.first * x + log.second * y) if i in _OFF else log.zeroth + log.first * x + log.second * y
            for i, (x, y) in enumerate(zip(A, squared(A), strict=True))]  # fmt: skip
    # Comparisons are written so that NaN, and a matrix that is not positive definite, fail them.
    return Logs(rows, log.square, (log.low > 0) & (p.condition * log.high <= DOUBTFUL * log.low))


class Polynomial(NamedTuple):
    """log A = zeroth + first·A + second·A², ‖log A‖², and the ends of A's spectrum."""

    zeroth: Array
    first: Array
    second: Array
    square: Array
    low: Array
    high: Array


def log_polynomial(A: Entries) -> Polynomial:
    """The interpolation of log at the eigenvalues, from those alone."""
    a, b, d, c, e, f = A
    xp = namespace(a)
    one = xp.ones_like(a)
    bb, cc, ee = b * b, c * c, e * e
    mean = (a + d + f) * (1 / 3)
    x, y, z = a - mean, d - mean, f - mean
    p2 = (x * x + y * y + z * z + 2 * (bb + cc + ee)) * (1 / 6)
    p = xp.sqrt(p2)
    det = x * (y * z - ee) - b * (b * z - 2 * c * e) - cc * y
    r = xp.clip(0.5 * det / xp.where(p2 > 0, p2 * p, one), -1.0, 1.0)
    top = r >= 0
    t = separated_root(xp.abs(r))
    p = xp.where(top, p, -p)
    half = 0.8660254037844386 * xp.sqrt(xp.clip(4 - t * t, 0.0, None))
    far, middle, other = mean + p * t, mean + p * (-0.5 * t + half), mean + p * (-0.5 * t - half)
    high, low = xp.where(top, far, other), xp.where(top, other, far)
    g21, g32, gap = middle - low, high - middle, high - low
    l1 = xp.log(low)
    r21, r32 = xp.log1p(g21 / low), xp.log1p(g32 / middle)
    d21 = xp.where(g21 > 0, r21 / xp.where(g21 > 0, g21, one), 1 / low)
    d32 = xp.where(g32 > 0, r32 / xp.where(g32 > 0, g32, one), 1 / middle)
    second = (d32 - d21) / xp.where(gap > 0, gap, one)
    l2 = l1 + r21
    square = l1 * l1 + l2 * l2 + (l2 + r32) ** 2
    return Polynomial(l1 - d21 * low + second * low * middle, d21 - second * (low + middle), second, square, low, high)


def squared(A: Entries) -> list[Array]:
    """The entries of A²."""
    a, b, d, c, e, f = A
    bb, cc, ee = b * b, c * c, e * e
    return [a * a + bb + cc, b * (a + d) + c * e, bb + d * d + ee,
            c * (a + f) + b * e, e * (d + f) + b * c, cc + ee + f * f]  # fmt: skip
