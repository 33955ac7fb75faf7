"""exp(S + D) for symmetric S, with the diagonal D that makes its diagonal 1 (Archakov & Hansen 2021, Theorem 1).

Newton's method on log diag exp(S + diag x) = 0. Exponentials are Taylor's polynomial and squares, and the derivatives an
integral by the powers that squaring leaves behind: products of matrices alone, of thousands at a time.
"""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.numerics.namespace import Array, like, namespace
from curvedp.geometry.numerics.public_time import in_public_time
from curvedp.geometry.numerics.spectral import sym

_TAYLOR = 0.78  # norm up to which the polynomial of degree 16 is exact to round-off
_ENTRIES = 1 << 14  # of the matrices that are worked on at a time, and stay in the cache
_STEPS = 7  # to 1e-10 for S up to 8 long, m to 30 (tests/geometry/test_unit_exponential.py)
_DONE = 1e-10  # an excess that the derivative, good to 4e-4, takes to round-off


def unit_exponential(S: Array, longest: float) -> Array:
    """exp(S + D); `longest` bounds the norm of S + D, where the work may not depend on S (in public time, under
    JAX). The work that NumPy does for a matrix otherwise depends on it alone, and so does the answer."""
    if not is_numpy_array(S) or in_public_time():
        return _exponential(S, int(_halvings(longest)))
    m = S.shape[-1]
    flat, out = S.reshape(-1, m, m), np.empty(S.shape).reshape(-1, m, m)
    size = np.max(np.sum(np.abs(flat), axis=-1), axis=-1)
    size = 2 * size + np.log1p(np.exp(-2 * size)) - math.log(2)  # |D| ≤ log cosh|S|
    size = np.clip(np.nan_to_num(size), 0.0, longest)
    halvings, order = _halvings(size), np.argsort(size)
    for k in np.unique(halvings):
        rows = order[halvings[order] == k]
        for part in np.split(rows, range(_ENTRIES // m**2, len(rows), _ENTRIES // m**2)):
            out[part] = _exponential(flat[part], int(k))
    return out.reshape(S.shape)


def _halvings(norm: Array | float) -> Array:
    """Of a matrix of that norm, until the polynomial serves."""
    return np.maximum(2, np.ceil(np.log2(np.maximum(norm, _TAYLOR) / _TAYLOR))).astype(int)


def _exponential(S: Array, halvings: int) -> Array:
    xp = namespace(S)
    one = like(S, np.eye(S.shape[-1]))
    x = -0.5 * xp.log1p(xp.sum(S * S, axis=-1))
    public = not is_numpy_array(S) or in_public_time()
    for left in reversed(range(_STEPS)):
        roots = _roots(S + x[..., None] * one, halvings)
        excess = xp.log1p(xp.linalg.diagonal(roots[-1]))
        slopes = sum(weight * X * Y for weight, X, Y in _powers(roots))  # ∂(e^A)ᵢᵢ/∂aⱼⱼ = ∫(e^{tA})ᵢⱼ(e^{(1−t)A})ᵢⱼ dt
        step = xp.linalg.solve(slopes, (xp.exp(excess) * excess)[..., None])[..., 0]
        going = xp.any(xp.abs(excess) > _DONE, axis=-1, keepdims=True)  # a matrix that is done is left alone
        if left == 0 or not (public or np.any(going)):
            break
        x = x - xp.where(going, step, 0.0)
    # the last step along the derivative, ∫ e^{tA}·diag(step)·e^{(1−t)A}dt
    change = sum(weight * (X * step[..., None, :]) @ Y for weight, X, Y in _powers(roots))
    return one + roots[-1] - sym(change)


def _factorial(k: int) -> float:
    return float(math.factorial(k))  # 16! is no whole number of 32 bits, in which JAX would read it


def _roots(A: Array, halvings: int) -> list[Array]:
    """e^{A/2^k} − I for k = halvings, …, 1, 0, with the digits of a small A: (I + X)² = I + 2X + X². The polynomial
    is one of degree 4 in A⁴ (Paterson & Stockmeyer 1973)."""
    A = A * 2.0**-halvings
    one = like(A, np.eye(A.shape[-1]))
    A2 = A @ A
    A3, A4 = A @ A2, A2 @ A2
    X = A4 / _factorial(16)
    for k in (12, 8, 4):
        X = X + A3 / _factorial(k + 3) + A2 / _factorial(k + 2) + A / _factorial(k + 1)
        X = A4 @ (X + one / _factorial(k))
    roots = [X + A3 / 6 + A2 / 2 + A]
    for _ in range(halvings):
        roots.append(2 * roots[-1] + roots[-1] @ roots[-1])
    return roots


def _powers(roots: list[Array]) -> Iterator[tuple[float, Array, Array]]:
    """Weights, e^{tA} and e^{(1−t)A} of a rule for such integrals, at t = 0, ½, ¼, … and their mirror images."""
    one = like(roots[0], np.eye(roots[0].shape[-1]))
    end, *weights = _weights(len(roots) - 1)
    yield end, one, one + roots[-1]
    rest = one
    for X, weight in zip(reversed(roots[:-1]), weights, strict=True):
        rest = rest + rest @ X  # e^{(1 − 2^-k)A}
        yield weight, rest, one + X


@cache
def _weights(halvings: int) -> list[float]:
    """Of that rule, for ∫₀¹ e^-wt dt = (1 − e^-w)/w, w up to any difference of eigenvalues: least squares, to 4e-4."""
    nodes = np.concatenate([[0.0], 2.0 ** -np.arange(1, halvings + 1)])
    w = np.linspace(1e-3, 2.0**halvings, 400)[:, None]
    values = (np.exp(-w * nodes) + np.exp(-w * (1 - nodes))) * w / -np.expm1(-w)
    return [float(2 * c) for c in np.linalg.lstsq(values, np.ones(400))[0]]  # the mirror image's matrix is the same
