"""Correlation matrices from symmetric ones: exp(S + D), with the diagonal matrix D for
which the result has the diagonal 1. D is found by Newton's method. An exponential e^A
is computed as a repeated square of e^{A/2^k}, whose *roots* e^{A/2^k} − I are kept for
derivatives.

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
from curvedp.numerics.matrix_functions import scale_columns, sym

# Norm up to which Taylor's polynomial of degree 16 is exact to round-off.
_TAYLOR_RADIUS = 0.78

# Entries of the matrices that are worked on at a time, and stay in the cache.
_ENTRIES_PER_BLOCK = 1 << 14

# Newton steps; seven reach 1e-10 for S up to 8 long and m up to 30
# (tests/geometry/test_correlation.py).
_NEWTON_STEPS = 7

# Largest log-diagonal at which the last step, whose derivative is good to 4e-4, reaches
# round-off.
_CONVERGED = 1e-10

# The quadrature rule is fitted to integrals of e^{−wt}. The first number says how many
# exponents w are used, and the second one is the smallest of them.
_N_FITTED = 400
_LEAST_FITTED = 1e-3


def unit_exponential(S: Array, largest_norm: float) -> Array:
    """Return exp(S + D) for symmetric S, D the diagonal that makes its diagonal 1.

    S is a symmetric matrix whose diagonal is 0, and D = diag x is the only diagonal
    matrix for which the exponential has ones on its diagonal. Newton's method finds x
    (`_solve_by_newton`).

    Parameters
    ----------
    S : array, shape (..., m, m)
        Symmetric matrices with diagonal 0.
    largest_norm : float
        A bound on the norm of S + D. Inside `public_time` and under JAX the work must
        not depend on S, and this bound determines it. Otherwise the norm of each matrix
        determines the work for it, and its result does not depend on the others.

    Returns
    -------
    array, shape (..., m, m)
        Symmetric matrices with diagonal 1.
    """
    if not is_numpy_array(S) or in_public_time():
        return _solve_by_newton(S, int(_n_squarings(largest_norm)))

    m = S.shape[-1]
    flat = S.reshape(-1, m, m)
    result = np.empty(S.shape).reshape(-1, m, m)

    norms = np.clip(_norm_bounds(flat), 0.0, largest_norm)

    # Matrices that need equally many squarings are worked on together, in blocks.
    squarings = _n_squarings(norms)
    order = np.argsort(norms)
    block_size = _ENTRIES_PER_BLOCK // m**2
    for n_squarings in np.unique(squarings):
        rows = order[squarings[order] == n_squarings]
        for block in np.split(rows, range(block_size, len(rows), block_size)):
            result[block] = _solve_by_newton(flat[block], int(n_squarings))
    return result.reshape(S.shape)


def _norm_bounds(S: np.ndarray) -> np.ndarray:
    """Bound the norms of the matrices S + D whose exponentials have unit diagonal.

    The bound says how many squarings the exponential needs. The norm, the largest sum of
    the moduli of a row, is at most |S| + |D|. The entries of D are not positive (Jensen),
    and |D| ≤ log cosh|S| is attained by 2×2 matrices. In general the last bound was
    checked on random matrices and is not proved. It affects only the accuracy of the
    exponential.

    Parameters
    ----------
    S : array, shape (n, m, m)
        Symmetric matrices with diagonal 0.

    Returns
    -------
    array, shape (n,)
        The bounds; 0 for NaN.
    """
    norm = np.max(np.sum(np.abs(S), axis=-1), axis=-1)
    # log cosh x is x + log(1 + e^{−2x}) − log 2.
    return np.asarray(
        np.nan_to_num(2 * norm + np.log1p(np.exp(-2 * norm)) - math.log(2))
    )


def _n_squarings(norm: Array | float) -> Array:
    """Return how many squarings the exponential of a matrix takes.

    The exponential of A is computed as the 2^k-th power of the exponential of A/2^k.
    The norm of A/2^k is so small that Taylor's polynomial is accurate.

    Parameters
    ----------
    norm : float or array
        The norms of matrices A.

    Returns
    -------
    int or array of int
        The numbers k, at least 2.
    """
    ratio = np.maximum(norm, _TAYLOR_RADIUS) / _TAYLOR_RADIUS
    return np.maximum(2, np.ceil(np.log2(ratio))).astype(int)


def _solve_by_newton(S: Array, n_squarings: int) -> Array:
    """Solve log diag exp(S + diag x) = 0 for x, and return exp(S + diag x).

    Newton's method takes at most `_NEWTON_STEPS` steps. After the last one, the
    exponential is changed along its derivative, so that it need not be computed again.
    A NumPy matrix that has converged is not moved any more. With other libraries, and
    where the running time must not depend on the matrices (`in_public_time`), all steps
    are taken.

    tests/geometry/test_correlation.py compares the result with many digits.

    Parameters
    ----------
    S : array, shape (..., m, m)
        Symmetric matrices.
    n_squarings : int
        How often the exponential of (S + diag x)/2^n_squarings is squared.

    Returns
    -------
    array, shape (..., m, m)
        The exponentials, with diagonal 1.
    """
    xp = namespace(S)
    identity = like(S, np.eye(S.shape[-1]))
    x = -0.5 * xp.log1p(xp.sum(S * S, axis=-1))
    takes_all_steps = not is_numpy_array(S) or in_public_time()
    for steps_left in reversed(range(_NEWTON_STEPS)):
        # The last root is e^A − I for A = S + diag x.
        roots = _exponential_roots(S + x[..., None] * identity, n_squarings)
        log_diagonal = xp.log1p(xp.linalg.diagonal(roots[-1]))
        step = _newton_step(roots, log_diagonal)

        # A matrix that has converged is not moved.
        is_active = xp.any(xp.abs(log_diagonal) > _CONVERGED, axis=-1, keepdims=True)
        if steps_left == 0 or not (takes_all_steps or np.any(is_active)):
            break
        x = x - xp.where(is_active, step, 0.0)

    # The last step is taken along the derivative, ∫ e^{tA}·diag(step)·e^{(1−t)A} dt.
    change = sum(
        weight * scale_columns(X, step) @ Y for weight, X, Y in _quadrature(roots)
    )
    return identity + roots[-1] - sym(change)


def _newton_step(roots: list[Array], log_diagonal: Array) -> Array:
    """Return the Newton step for the equation log diag e^A = 0, in the diagonal of A.

    The derivatives ∂(e^A)ᵢᵢ/∂aⱼⱼ are ∫(e^{tA})ᵢⱼ(e^{(1−t)A})ᵢⱼ dt.

    Parameters
    ----------
    roots : list of arrays of shape (..., m, m)
        e^{A/2^k} − I for k = n, …, 1, 0.
    log_diagonal : array of shape (..., m)
        The logarithm of the diagonal of e^A.

    Returns
    -------
    array of shape (..., m)
        The numbers to subtract from the diagonal of A.
    """
    xp = namespace(log_diagonal)
    slopes = sum(weight * X * Y for weight, X, Y in _quadrature(roots))
    right_side = (xp.exp(log_diagonal) * log_diagonal)[..., None]
    return xp.linalg.solve(slopes, right_side)[..., 0]


def _factorial(k: int) -> float:
    """Return k! as a float: 16! does not fit into JAX's integers of 32 bits."""
    return float(math.factorial(k))


def _exponential_roots(A: Array, n_squarings: int) -> list[Array]:
    """Return e^A − I, and before it the roots e^{A/2^k} − I from which it is computed.

    The first one, with k = n_squarings, is Taylor's polynomial of degree 16 of a small
    matrix, written as a polynomial of degree 4 in its fourth power (Paterson and
    Stockmeyer 1973). Each next one is the square of the previous one: (I + X)² =
    I + 2X + X². The identity is left out, so that a small A keeps its digits.

    Parameters
    ----------
    A : array of shape (..., m, m)
        Matrices.
    n_squarings : int
        How often the exponential of A/2^n_squarings is squared.

    Returns
    -------
    list of arrays of shape (..., m, m)
        e^{A/2^k} − I for k = n_squarings, …, 1, 0.
    """
    # The powers of the scaled matrix.
    A = A * 2.0**-n_squarings
    identity = like(A, np.eye(A.shape[-1]))
    square = A @ A
    cube = A @ square
    fourth_power = square @ square

    # Taylor's polynomial by Horner's rule in A⁴, four terms at a time.
    highest_terms = fourth_power / _factorial(16)
    for order in (12, 8, 4):
        highest_terms = (
            highest_terms
            + cube / _factorial(order + 3)
            + square / _factorial(order + 2)
            + A / _factorial(order + 1)
        )
        highest_terms = fourth_power @ (highest_terms + identity / _factorial(order))

    # Square the first root repeatedly.
    roots = [highest_terms + cube / 6 + square / 2 + A]
    for _ in range(n_squarings):
        roots.append(2 * roots[-1] + roots[-1] @ roots[-1])
    return roots


def _quadrature(roots: list[Array]) -> Iterator[tuple[float, Array, Array]]:
    """Yield the terms of a quadrature rule for ∫₀¹ f(e^{tA}, e^{(1−t)A}) dt.

    Here f is bilinear, and f(X, Y) and f(Y, X) count as the same. The nodes are t = 0,
    ½, ¼, … and their mirror images 1 − t, which share a weight. The integral is about
    the sum of weight·f(X, Y).

    Parameters
    ----------
    roots : list of arrays of shape (..., m, m)
        e^{A/2^k} − I for k = n, …, 1, 0, as `_exponential_roots` returns them.

    Yields
    ------
    weight : float
        The weight of the node t and its mirror image together.
    X, Y : arrays of shape (..., m, m)
        e^{tA} and e^{(1−t)A}, in either order.
    """
    identity = like(roots[0], np.eye(roots[0].shape[-1]))
    end_weight, *weights = _quadrature_weights(len(roots) - 1)
    yield end_weight, identity, identity + roots[-1]

    # Then come the nodes ½, ¼, …, with their mirror images.
    mirror_image = identity
    for X, weight in zip(reversed(roots[:-1]), weights, strict=True):
        mirror_image = mirror_image + mirror_image @ X  # e^{(1 − 2^−k)A}
        yield weight, mirror_image, identity + X


@cache
def _quadrature_weights(n_squarings: int) -> list[float]:
    """Return the weights of the quadrature rule of `_quadrature` on [0, 1].

    Its nodes t are 0, ½, ¼, … and their mirror images 1 − t. The weights are fitted to
    ∫₀¹ e^{−wt} dt = (1 − e^{−w})/w by least squares, for w up to 2^n_squarings. Relative
    errors are then below 4e-4. Here w stands for a difference of two eigenvalues. Larger
    differences, up to twice the norm, are possible; there the derivative is less
    accurate, and Newton's method needs more steps. A node and its mirror image
    contribute the same matrix, hence the factor 2.

    Parameters
    ----------
    n_squarings : int
        The smallest node but 0 is 2^−n_squarings.

    Returns
    -------
    list of float
        The weights of the nodes 0, ½, ¼, …, each together with its mirror image.
    """
    # Evaluate the terms of the rule for e^{−wt}, relative to the integral. Rows are
    # values of w.
    nodes = np.concatenate([[0.0], 2.0 ** -np.arange(1, n_squarings + 1)])
    w = np.linspace(_LEAST_FITTED, 2.0**n_squarings, _N_FITTED)[:, None]
    integral_times_w = -np.expm1(-w)
    node_values = np.exp(-w * nodes) + np.exp(-w * (1 - nodes))
    relative_values = node_values * w / integral_times_w

    # Fit weights for which all sums are close to 1.
    solution = np.linalg.lstsq(relative_values, np.ones(_N_FITTED))[0]
    return [float(2 * weight) for weight in solution]
