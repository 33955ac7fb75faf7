"""The set of symmetric positive definite (SPD) matrices, which several metrics share.
Coordinates of a symmetric matrix are its lower triangle, with off-diagonal entries
times √2 (`pack`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, sqrt

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.float_set import FloatSet
from curvedp.geometry.manifold import Array, FrozenManifold
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.matrix_functions import (
    from_spectrum,
    lower_triangle,
    sym,
    symmetric_from_triangle,
    well_scaled,
)

# Matrices are well represented if log(λ_max/λ_min) is at most this number. That is a
# condition number of 1e6, at which a unit of round-off is 3e-10 and `log` has a relative
# accuracy of 1e-12.
_SAFE_LOG_CONDITION = 14.0

# The number of bisection steps. After so many halvings an interval is shorter than the
# spacing of doubles.
_BISECTION_STEPS = 64

# The quick test for positive definite matrices is not used for matrices whose norm is
# above this number, or below its inverse: squares could overflow or underflow.
_LARGEST_NORM = 1e140

# A record is repaired if its least eigenvalue is −c·λ_max with a share c between these
# two numbers. The first one is far above the rounding errors of a singular matrix. The
# second one was measured: correlation matrices of 20 stocks that are rounded to one
# decimal have shares of up to 0.01, and noisy tensor fits have larger ones.
_LEAST_INDEFINITE = 1e-9
_MOST_INDEFINITE = 0.1


def pack(S: Array) -> Array:
    """Return orthonormal coordinates of symmetric matrices under the Frobenius product.

    They are the entries of the lower triangle, row by row. Those off the diagonal are
    multiplied by √2, because they occur twice in the sum of squares.

    Parameters
    ----------
    S : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (..., m(m + 1)/2)
        Vectors whose Euclidean length is the Frobenius norm of the matrix.
    """
    row, column = np.tril_indices(S.shape[-1])
    weights = np.where(row == column, 1.0, sqrt(2))
    return lower_triangle(S, 0) * like(S, weights)


def unpack(z: Array, m: int) -> Array:
    """Return the symmetric matrix with given coordinates: the inverse of `pack`.

    Parameters
    ----------
    z : array of shape (..., m(m + 1)/2)
        The lower triangle, row by row, off-diagonal entries times √2.
    m : int
        The number of rows.

    Returns
    -------
    array of shape (..., m, m)
        Symmetric matrices.
    """
    weights = np.where(np.eye(m, dtype=bool), 1.0, 1 / sqrt(2))
    return symmetric_from_triangle(z, weights, 0)


@dataclass(frozen=True)
class SpectrumFloatSet(FloatSet):
    """SPD matrices whose log-eigenvalues differ by at most `_SAFE_LOG_CONDITION`.

    This is the set of well-represented points of spaces whose coordinates at the
    identity are the matrix logarithm. The log-eigenvalues of a matrix at distance r from
    I differ by at most √2·r. The set contains the means of its points: if all matrices
    are between e^a·I and e^b·I, so is their mean (Lawson & Lim 2011, monotonicity).

    Parameters
    ----------
    m : int
        The number of rows.
    """

    m: int = 1

    @property
    def safe_radius(self) -> float:
        """A distance from I within which every matrix is in the set.

        It is `_SAFE_LOG_CONDITION`/√2, because log-eigenvalues at distance r differ by
        at most √2·r. For m = 1 it is infinite, because there is only one eigenvalue.
        """
        return _SAFE_LOG_CONDITION / sqrt(2) if self.m > 1 else inf

    def shrink_factor(self, z: Array) -> Array:
        """Return the factors by which coordinates are shrunk to lie in the set.

        A matrix is in the set if the difference of its largest and its least
        log-eigenvalue is at most `_SAFE_LOG_CONDITION`.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the identity.

        Returns
        -------
        array of shape (...)
            The factors, at most 1.
        """
        xp = namespace(z)
        log_eigenvalues, _ = eigh(unpack(z, self.m))
        span = log_eigenvalues[..., -1] - log_eigenvalues[..., 0]
        too_wide = span > _SAFE_LOG_CONDITION
        factor = _SAFE_LOG_CONDITION / xp.where(too_wide, span, 1.0)
        return xp.where(too_wide, factor, xp.ones_like(span))

    def project(self, z: Array) -> Array:
        """Return the coordinates of the nearest matrices of the set.

        The set consists of the matrices whose log-eigenvalues differ by at most the
        limit `_SAFE_LOG_CONDITION`. It is convex, so projections to it do not increase
        any distance. The nearest matrix has the same eigenvectors, and log-eigenvalues
        clipped to an interval whose length is the limit (`_clipping_interval_start`).

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the identity.

        Returns
        -------
        array of shape (..., dim)
            Normal coordinates; those of matrices in the set are unchanged.
        """
        xp = namespace(z)
        log_eigenvalues, U = eigh(unpack(z, self.m))
        lower_end = _clipping_interval_start(log_eigenvalues)
        raised = xp.maximum(log_eigenvalues, lower_end)
        clipped = xp.minimum(raised, lower_end + _SAFE_LOG_CONDITION)
        nearest = pack(sym(from_spectrum(clipped, U)))
        span = log_eigenvalues[..., -1:] - log_eigenvalues[..., :1]
        return xp.where(span > _SAFE_LOG_CONDITION, nearest, z)

    def roundoff_amplification(self, radius: float) -> float:
        """Return how far a matrix moves, at most, per unit of relative coordinate error.

        It is the largest condition number of a matrix of the set at distance up to
        `radius` from I. For m = 1 that is 1, and otherwise the smaller one of
        e^(√2·radius) and e^`_SAFE_LOG_CONDITION`.
        """
        if self.m == 1:
            return 1.0
        return exp(min(sqrt(2) * radius, _SAFE_LOG_CONDITION))


def _clipping_interval_start(log_eigenvalues: Array) -> Array:
    """Return the end a of the interval [a, a + limit] that numbers are clipped to.

    The limit is `_SAFE_LOG_CONDITION`. The end a is found by bisection: what clipping
    removes above the interval must equal what it adds below.

    Parameters
    ----------
    log_eigenvalues : array of shape (..., m)
        The numbers, in ascending order.

    Returns
    -------
    array of shape (..., 1)
        The lower ends of the intervals.
    """
    xp = namespace(log_eigenvalues)
    low = log_eigenvalues[..., :1]
    high = log_eigenvalues[..., -1:] - _SAFE_LOG_CONDITION
    for _ in range(_BISECTION_STEPS):
        # The middle is too low if clipping removes more than it adds.
        middle = low / 2 + high / 2
        excess_above = xp.clip(log_eigenvalues - middle - _SAFE_LOG_CONDITION, 0, None)
        excess_below = xp.clip(middle - log_eigenvalues, 0, None)
        imbalance = xp.sum(excess_above - excess_below, axis=-1, keepdims=True)
        low = xp.where(imbalance > 0, middle, low)
        high = xp.where(imbalance > 0, high, middle)
    return low


def spectrum_float_set(m: int) -> FloatSet:
    """Return the set of well-represented points of SPD(m) with the coordinates log P.

    At distance r from the identity, the largest and the least eigenvalue differ by a
    factor of up to e^{√2·r}. Beyond 2^52 = e^36 round-off is larger than the small
    eigenvalues. A single positive number (m = 1) can be much farther out.

    Parameters
    ----------
    m : int
        The number of rows.

    Returns
    -------
    FloatSet
        The matrices of condition number up to 1e6, within distance 25 (or 700).
    """
    return SpectrumFloatSet(max_distance=25.0 if m > 1 else 700.0, m=m)


@dataclass(frozen=True)
class SPD(FrozenManifold):
    """The set of symmetric positive definite m×m matrices; subclasses add a metric.

    Points are real covariance matrices. If some rows and the same columns of a point
    are deleted, such as those of bad channels, a covariance matrix remains.

    Parameters
    ----------
    m : int
        The number of rows.
    """

    m: int
    sizes = (("m", 1),)
    injectivity_radius = inf
    is_homogeneous = True

    @property
    def dim(self) -> int:
        """The dimension m(m + 1)/2, the number of entries on and below the diagonal."""
        return self.m * (self.m + 1) // 2

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is an m×m matrix."""
        return (self.m, self.m)

    @property
    def origin(self) -> Array:
        """The identity matrix."""
        return np.eye(self.m)

    def project(self, x: Array) -> Array:
        """Return the symmetric part of x with its eigenvalues raised above 0.

        They are raised to at least ε times the largest modulus of an eigenvalue, where ε
        is the machine precision. A symmetric part that is positive definite already is
        not changed. The zero matrix becomes the smallest multiple of I that is a normal
        float.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, usually one near the manifold.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        S = sym(x)
        return _unless_clearly_positive(S, S, _raise_eigenvalues)

    def from_record(self, x: Array) -> Array:
        """Return the symmetric part of x at any scale, as a positive definite matrix.

        Let λ_min and λ_max be the extreme eigenvalues, and ε the machine precision.

        - A matrix with λ_min > ε·λ_max is returned as it is.
        - A matrix with 1e-9·λ_max ≤ −λ_min ≤ 0.1·λ_max is repaired, because rounding of
          its entries or a noisy fit may have made it slightly indefinite. Every
          eigenvalue below −λ_min is raised to −λ_min, which is about the error of the
          matrix. The repair depends on the record alone.
        - For any other matrix (of zeros, singular, or clearly indefinite) the result is
          NaN.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        S = sym(x)
        return _unless_clearly_positive(S, S, _repair_or_refuse)

    def norm(self, p: Array, v: Array) -> Array:
        """Return the Riemannian length of v at p: that of its orthonormal coordinates.

        Squares of very large or small coordinates neither overflow nor underflow.
        """
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent matrix at p nearest to x: its symmetric part."""
        return sym(x) + namespace(p, x).zeros_like(p)

    def residual(self, p: Array) -> Array:
        """Return how far a matrix p is from symmetric and positive definite.

        It is ‖p − pᵀ‖, plus the modulus of the least eigenvalue if that is negative, or
        1 if it is 0. Both are relative to the largest entry of p.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals.
        """
        xp = namespace(p)
        p = well_scaled(p)

        def lack_of_definiteness(S: Array) -> Array:
            """Return by how much the least eigenvalue is below 0; 1 where it is 0."""
            eigenvalues, _ = eigh(S)  # in ascending order
            least = eigenvalues[..., 0]
            lack = xp.where(least < 0, -least, 1.0)
            return xp.where(least > 0, 0.0, lack)

        S = sym(p)
        asymmetry = xp.sqrt(xp.sum((p - p.mT) ** 2, axis=(-2, -1)))
        zero = xp.zeros_like(S[..., 0, 0])
        return asymmetry + _unless_clearly_positive(S, zero, lack_of_definiteness)


def _raise_eigenvalues(S: Array) -> Array:
    """Return symmetric matrices, with eigenvalues raised to a positive floor.

    The floor is ε times the largest modulus of an eigenvalue, where ε is the machine
    precision, but at least the smallest normal float.

    Parameters
    ----------
    S : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (..., m, m)
        Positive definite matrices; S itself where no eigenvalue is below the floor.
    """
    xp = namespace(S)
    info = xp.finfo(S.dtype)
    smallest = float(info.smallest_normal)
    eigenvalues, U = eigh(S)
    largest = xp.max(xp.abs(eigenvalues), axis=-1, keepdims=True)
    floor = largest * float(info.eps)
    floor = xp.where(floor > smallest, floor, smallest)
    raised = xp.where(eigenvalues < floor, floor, eigenvalues)
    repaired = sym(from_spectrum(raised, U))
    is_definite = xp.all(eigenvalues >= floor, axis=-1)[..., None, None]
    return xp.where(is_definite, S, repaired)


def _repair_or_refuse(S: Array) -> Array:
    """Return S if it is positive definite, repaired if it is nearly so, otherwise NaN.

    `SPD.from_record` states the rules.

    Parameters
    ----------
    S : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (..., m, m)
        Positive definite matrices, or NaN.
    """
    xp = namespace(S)
    scaled = well_scaled(S)
    eigenvalues, U = eigh(scaled)
    eps = float(xp.finfo(eigenvalues.dtype).eps)
    least = eigenvalues[..., :1]
    largest = eigenvalues[..., -1:]
    is_definite = least > eps * largest
    exceeds_roundoff = -least >= _LEAST_INDEFINITE * largest
    is_repairable = exceeds_roundoff & (-least <= _MOST_INDEFINITE * largest)
    is_repairable = is_repairable & (largest > 0)

    # The number that is added to each eigenvalue, in the units of `scaled`.
    increments = xp.where(eigenvalues < -least, -least - eigenvalues, 0.0)
    increments = xp.where(is_repairable, increments, 0.0)
    repaired = sym(scaled + from_spectrum(increments, U))
    largest_entry = xp.max(xp.abs(S), axis=(-2, -1), keepdims=True)
    point = xp.where(is_repairable[..., None], repaired * largest_entry, S)
    has_point = (is_definite | is_repairable)[..., None]
    return xp.where(has_point, point, xp.nan)


def _unless_clearly_positive(
    S: Array, known_result: Array, by_eigenvalues: Callable[[Array], Array]
) -> Array:
    """Return by_eigenvalues(S), but call it only for matrices that may be indefinite.

    A quick test finds 2×2 and 3×3 matrices that are clearly positive definite. For these
    the result is known without eigenvalues, which saves time. Inside `public_time`,
    where the work must not depend on the data, eigenvalues are computed for all
    matrices.

    Parameters
    ----------
    S : array, shape (..., m, m)
        Symmetric matrices.
    known_result : array
        The result for every matrix that is clearly positive definite. For NumPy arrays
        it may be overwritten.
    by_eigenvalues : callable
        A function of a batch of matrices that computes their eigenvalues.

    Returns
    -------
    array
        The results, in the shape of `known_result`.
    """
    has_shortcut = is_numpy_array(S) and S.dtype == np.float64 and S.shape[-1] in (2, 3)
    if in_public_time() or not has_shortcut:
        return by_eigenvalues(S)

    # The known result for all matrices, overwritten for those that fail the test.
    flat = S.reshape(-1, *S.shape[-2:])
    result = np.asarray(known_result, order="C")
    doubtful = np.flatnonzero(~_is_clearly_positive(flat))
    if len(doubtful):
        flat_result = result.reshape(len(flat), *result.shape[S.ndim - 2 :])
        flat_result[doubtful] = by_eigenvalues(flat[doubtful])
    return result


def _is_clearly_positive(flat: np.ndarray) -> np.ndarray:
    """Return which 2×2 or 3×3 matrices S surely have eigenvalues above ε·‖S‖.

    The test computes the pivots of S − 64ε‖S‖I by Gaussian elimination, whose error is
    less than 16ε‖S‖ (Higham 2002, Theorem 10.3). So positive pivots prove that the
    eigenvalues are above ε·‖S‖. The test takes a tenth of the time of eigenvalues. For
    matrices so large or small that squares of entries could overflow or underflow, the
    answer is False.

    Parameters
    ----------
    flat : array, shape (n, 2, 2) or (n, 3, 3)
        Symmetric float64 matrices (NumPy).

    Returns
    -------
    array of bool, shape (n,)
        False where the test proves nothing.
    """
    with np.errstate(all="ignore"):
        norm = np.sqrt(np.einsum("nij,nij->n", flat, flat))  # Frobenius norms
        shift = 64 * np.finfo(flat.dtype).eps * norm

        # Gaussian elimination of S − shift·I. Its pivots are positive if and only if this
        # matrix is positive definite.
        first_pivot = flat[:, 0, 0] - shift
        entry_10 = flat[:, 1, 0]
        second_pivot = flat[:, 1, 1] - shift - entry_10 * entry_10 / first_pivot
        is_positive = (norm > 1 / _LARGEST_NORM) & (norm < _LARGEST_NORM)
        is_positive &= (first_pivot > 0) & (second_pivot > 0)
        if flat.shape[-1] == 3:
            factor_20 = flat[:, 2, 0] / first_pivot
            entry_21 = flat[:, 2, 1] - factor_20 * entry_10
            entry_22 = flat[:, 2, 2] - shift - factor_20 * flat[:, 2, 0]
            third_pivot = entry_22 - entry_21 * entry_21 / second_pivot
            is_positive &= third_pivot > 0
    return np.asarray(is_positive)
