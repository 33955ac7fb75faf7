"""Correlation matrices from symmetric ones: exp(S + D) with a unit diagonal.

Theorem (Archakov and Hansen 2021, Theorem 1). For every symmetric S there is exactly
one diagonal matrix D for which exp(S + D) has the diagonal 1.

D = diag(x) is found by Newton's method on log diag exp(S + diag x) = 0. Exponentials
are computed by Taylor's polynomial and repeated squaring, and their derivatives by a
quadrature over the powers that squaring yields on the way. So all the work is products
of matrices, for thousands of matrices at a time.
"""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.matrix_functions import sym

# Norm up to which Taylor's polynomial of degree 16 is exact to round-off.
_TAYLOR_RADIUS = 0.78

# Entries of the matrices that are worked on at a time, and stay in the cache.
_BLOCK_ENTRIES = 1 << 14

# Newton steps; seven reach 1e-10 for S up to 8 long and m up to 30
# (tests/geometry/test_correlation.py).
_NEWTON_STEPS = 7

# Largest log-diagonal at which the last step, whose derivative is good to 4e-4, reaches
# round-off.
_CONVERGED = 1e-10


def unit_exponential(S: Array, longest: float) -> Array:
    """Return exp(S + D) for symmetric S, D the diagonal that makes its diagonal 1.

    Parameters
    ----------
    S : array, shape (..., m, m)
        Symmetric matrices.
    longest : float
        A bound on the norm of S + D. It sets the work where that may not depend on S,
        in public time and under JAX. Otherwise the work for a matrix depends on it
        alone, and so does the answer.
    """
    if not is_numpy_array(S) or in_public_time():
        return _newton(S, int(_halvings(longest)))

    m = S.shape[-1]
    flat = S.reshape(-1, m, m)
    result = np.empty(S.shape).reshape(-1, m, m)

    # |S + D| ≤ |S| + |D| and |D| ≤ log cosh|S|
    norm = np.max(np.sum(np.abs(flat), axis=-1), axis=-1)
    norm = 2 * norm + np.log1p(np.exp(-2 * norm)) - math.log(2)
    norm = np.clip(np.nan_to_num(norm), 0.0, longest)

    halvings = _halvings(norm)
    order = np.argsort(norm)
    block_size = _BLOCK_ENTRIES // m**2
    for k in np.unique(halvings):
        rows = order[halvings[order] == k]
        for block in np.split(rows, range(block_size, len(rows), block_size)):
            result[block] = _newton(flat[block], int(k))
    return result.reshape(S.shape)


def _halvings(norm: Array | float) -> Array:
    """Return how often a matrix must be halved until Taylor's polynomial is accurate.

    Parameters
    ----------
    norm : float or array
        The norms of the matrices.
    """
    ratio = np.maximum(norm, _TAYLOR_RADIUS) / _TAYLOR_RADIUS
    return np.maximum(2, np.ceil(np.log2(ratio))).astype(int)


def _newton(S: Array, halvings: int) -> Array:
    """Solve log diag exp(S + diag x) = 0 for x, and return exp(S + diag x).

    Parameters
    ----------
    S : array, shape (..., m, m)
        Symmetric matrices.
    halvings : int
        How often S + diag x is halved before Taylor's polynomial is taken.
    """
    xp = namespace(S)
    identity = like(S, np.eye(S.shape[-1]))
    x = -0.5 * xp.log1p(xp.sum(S * S, axis=-1))
    runs_to_the_end = not is_numpy_array(S) or in_public_time()
    for steps_left in reversed(range(_NEWTON_STEPS)):
        roots = _exponential_roots(S + x[..., None] * identity, halvings)
        excess = xp.log1p(xp.linalg.diagonal(roots[-1]))

        # ∂(e^A)ᵢᵢ/∂aⱼⱼ = ∫(e^{tA})ᵢⱼ(e^{(1−t)A})ᵢⱼ dt
        slopes = sum(weight * X * Y for weight, X, Y in _quadrature(roots))
        right_side = (xp.exp(excess) * excess)[..., None]
        step = xp.linalg.solve(slopes, right_side)[..., 0]

        # A matrix that has converged is left alone.
        is_open = xp.any(xp.abs(excess) > _CONVERGED, axis=-1, keepdims=True)
        if steps_left == 0 or not (runs_to_the_end or np.any(is_open)):
            break
        x = x - xp.where(is_open, step, 0.0)

    # The last step is taken along the derivative, ∫ e^{tA}·diag(step)·e^{(1−t)A} dt.
    change = sum(
        weight * (X * step[..., None, :]) @ Y for weight, X, Y in _quadrature(roots)
    )
    return identity + roots[-1] - sym(change)


def _factorial(k: int) -> float:
    """Return k! as a float: 16! does not fit into JAX's integers of 32 bits."""
    return float(math.factorial(k))


def _exponential_roots(A: Array, halvings: int) -> list[Array]:
    """Return e^{A/2^k} − I for k = halvings, …, 1, 0; a small A keeps its digits.

    The first one is Taylor's polynomial of degree 16, written as a polynomial of degree
    4 in A⁴ (Paterson and Stockmeyer 1973). Each next one is the square of the previous
    one: (I + X)² = I + 2X + X².

    Parameters
    ----------
    A : array of shape (..., m, m)
        Matrices.
    halvings : int
        How often A is halved.
    """
    A = A * 2.0**-halvings
    identity = like(A, np.eye(A.shape[-1]))
    A2 = A @ A
    A3 = A @ A2
    A4 = A2 @ A2
    highest_terms = A4 / _factorial(16)
    for order in (12, 8, 4):
        highest_terms = (
            highest_terms
            + A3 / _factorial(order + 3)
            + A2 / _factorial(order + 2)
            + A / _factorial(order + 1)
        )
        highest_terms = A4 @ (highest_terms + identity / _factorial(order))
    roots = [highest_terms + A3 / 6 + A2 / 2 + A]
    for _ in range(halvings):
        roots.append(2 * roots[-1] + roots[-1] @ roots[-1])
    return roots


def _quadrature(roots: list[Array]) -> Iterator[tuple[float, Array, Array]]:
    """Yield the terms of a quadrature rule for integrals over t in [0, 1].

    The nodes are t = 0, ½, ¼, … and their mirror images 1 − t, which share a weight.

    Parameters
    ----------
    roots : list of array
        The result of `_exponential_roots`.

    Yields
    ------
    weight : float
    exponential, complement : array
        e^{tA} and e^{(1−t)A}, in either order.
    """
    identity = like(roots[0], np.eye(roots[0].shape[-1]))
    end_weight, *weights = _quadrature_weights(len(roots) - 1)
    yield end_weight, identity, identity + roots[-1]
    complement = identity
    for X, weight in zip(reversed(roots[:-1]), weights, strict=True):
        complement = complement + complement @ X  # e^{(1 − 2^−k)A}
        yield weight, complement, identity + X


@cache
def _quadrature_weights(halvings: int) -> list[float]:
    """Return the weights of the rule of `_quadrature`; it is exact to 4e-4.

    They fit ∫₀¹ e^{−wt} dt = (1 − e^{−w})/w by least squares, for w up to the largest
    difference of eigenvalues. A node and its mirror image contribute the same matrix,
    hence the factor 2.

    Parameters
    ----------
    halvings : int
        The number of halvings, which decides about the nodes.
    """
    n_fitted = 400
    nodes = np.concatenate([[0.0], 2.0 ** -np.arange(1, halvings + 1)])
    w = np.linspace(1e-3, 2.0**halvings, n_fitted)[:, None]
    integral = -np.expm1(-w)
    values = (np.exp(-w * nodes) + np.exp(-w * (1 - nodes))) * w / integral
    solution = np.linalg.lstsq(values, np.ones(n_fitted))[0]
    return [float(2 * weight) for weight in solution]
