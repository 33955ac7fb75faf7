"""Correlation matrices: as a product of hyperbolic spaces, and as a flat space."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from curvedp.geometry.float_set import BallFloatSet, FloatSet
from curvedp.geometry.manifold import Array, FrozenManifold
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.lorentz import Lorentz
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_flat import dexp, dlog
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.matrix_functions import (
    cholesky,
    cholesky_change,
    log1p_sym,
    lower_triangle,
    sym,
    symmetric_from_triangle,
)
from curvedp.numerics.unit_exponential import unit_exponential

# log(1/λ_min) up to which points of `Correlation` are well represented: beyond 1e10 a
# correlation matrix in doubles says little about its place.
_SAFE_EXPONENT = 23.0

# The same for `CorrelationOffLog`: up to e^9 the logarithm of a matrix in doubles has
# eleven digits.
_SAFE_FLAT_EXPONENT = 9.0

# A radius at which the exponent of `CorrelationOffLog` is far above the safe one.
_SURELY_UNSAFE_RADIUS = 18.0


@dataclass(frozen=True)
class CorrelationMatrices(PullbackManifold, FrozenManifold):
    """The set of positive definite m×m matrices of unit diagonal, under any metric.

    Parameters
    ----------
    m : int
        The number of variables.
    """

    m: int
    sizes = (("m", 2),)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """An m×m matrix."""
        return (self.m, self.m)

    @property
    def origin(self) -> Array:
        """The identity: no correlation."""
        return np.eye(self.m)

    def project(self, x: Array) -> Array:
        """Return the correlation matrix of the nearest positive definite matrix."""
        return _scale_to_unit_diagonal(SPDAffineInvariant(self.m).project(x))

    def from_record(self, x: Array) -> Array:
        """Return the correlation matrix of x's symmetric part, in any units.

        Covariances are welcome; NaN where a variance is not positive or the matrix is
        not definite.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.
        """
        xp = namespace(x)
        S = sym(x)
        has_variances = xp.all(xp.linalg.diagonal(S) > 0, axis=-1)[..., None, None]
        S = xp.where(has_variances, S, like(x, np.eye(self.m)))
        point = SPDAffineInvariant(self.m).from_record(_scale_to_unit_diagonal(S))
        return xp.where(has_variances, point, xp.nan)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the symmetric part of x with a diagonal of 0."""
        off_diagonal = 1 - like(p, np.eye(self.m))
        return sym(x) * off_diagonal + namespace(p, x).zeros_like(p)

    def residual(self, p: Array) -> Array:
        """Return that of a positive definite matrix plus the error of the diagonal."""
        xp = namespace(p)
        diagonal_error = xp.max(xp.abs(xp.linalg.diagonal(p) - 1), axis=-1)
        return SPDAffineInvariant(self.m).residual(p) + diagonal_error


class Correlation(CorrelationMatrices):
    """Correlation matrices with the poly-hyperbolic-Cholesky metric.

    (Thanwerdas & Pennec 2022.) Row i of the Cholesky factor is a point of an open
    hemisphere of dimension i − 1, a model of hyperbolic space: divided by its last
    entry it is the spatial part of a point of the hyperboloid, below the diagonal of a
    unit lower triangular matrix A. So this is H¹ × … × H^{m−1}, a Hadamard manifold of
    curvature in [−1, 0], and every mechanism for products applies. The metric depends
    on the order of the variables, which is public.

    Parameters
    ----------
    m : int
        The number of variables.

    Examples
    --------
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> float(np.round(Correlation(2).dist(np.eye(2), C), 12))  # Fisher's z, artanh 0.6
    0.69314718056
    """

    kind = "correlation"

    @cached_property
    def model(self) -> Product:
        """H¹ × … × H^{m−1}."""
        return Product(*(Lorentz(i) for i in range(1, self.m)))

    @cached_property
    def float_set(self) -> FloatSet:
        """The ball in which λ_min is at least about e^{−_SAFE_EXPONENT}.

        det C = ∏ 1/cosh²rᵢ over the factors' distances rᵢ from the origin and
        Σrᵢ ≤ √(m−1)·r, so λ_min is at least about e^{−2√(m−1)·r}. One entry alone is
        told from 1 while 1 − c² = 1/cosh²r is above an ulp of 1, up to r = 17.
        """
        return BallFloatSet(
            max_distance=17.0,
            amplification=self._roundoff_amplification,
            ball_radius=_SAFE_EXPONENT / (2 * math.sqrt(self.m - 1)),
        )

    def _roundoff_amplification(self, radius: float) -> float:
        """Return e^{2√(m−1)·r} at the largest safe distance r within the radius."""
        safe_radius = self.float_set.safe_radius_within(radius)
        return math.exp(2 * math.sqrt(self.m - 1) * safe_radius)

    def to_model(self, x: Array) -> Array:
        """Return the rows of the Cholesky factor over their last entries."""
        L = cholesky(x)
        diagonal = namespace(x).linalg.diagonal(L)
        return self._join_rows(L / diagonal[..., None], 1 / diagonal)

    def from_model(self, y: Array) -> Array:
        """Return RRᵀ, R the matrix A with its rows scaled to length 1."""
        A = self._lower_matrix(y, 1.0)
        rows = A / euclidean_norm(namespace(y), A)[..., None]
        return _scale_to_unit_diagonal(sym(rows @ rows.mT))

    def differential(self, p: Array, v: Array) -> Array:
        """Return the change of A = L/diag(L) for the change v of p = LLᵀ.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.
        """
        xp = namespace(p, v)
        L = cholesky(p)
        L_change = cholesky_change(L, v)
        diagonal = xp.linalg.diagonal(L)[..., None]
        relative_change = xp.linalg.diagonal(L_change)[..., None] / diagonal
        A_change = L_change / diagonal - L / diagonal * relative_change
        time_change = -relative_change[..., 0] / diagonal[..., 0]
        return self._join_rows(A_change, time_change)

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the change of C = LLᵀ for a change w of the rows of A.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        w : array
            A tangent vector of the model space at the image of p.
        """
        xp = namespace(p, w)
        L = cholesky(p)
        diagonal = xp.linalg.diagonal(L)[..., None]
        # The change before the rows are scaled back to length 1.
        L_change = diagonal * self._lower_matrix(w, 0.0)
        L_change = L_change - xp.sum(L * L_change, axis=-1, keepdims=True) * L
        half = L_change @ L.mT
        return (half + half.mT) * (1 - like(p, np.eye(self.m)))

    def _join_rows(self, A: Array, times: Array) -> Array:
        """Return the point (or velocity) of the product with these rows.

        Row i gives the time coordinate times[i] and the spatial part A[i, :i]; the
        first row has none.

        Parameters
        ----------
        A : array of shape (..., m, m)
            The rows, as a lower triangular matrix.
        times : array of shape (..., m)
            The time coordinates.
        """
        xp = namespace(A)
        rows = []
        for i in range(1, self.m):
            rows.append(xp.concat([times[..., i : i + 1], A[..., i, :i]], axis=-1))
        return self.model.join(rows)

    def _lower_matrix(self, y: Array, diagonal: float) -> Array:
        """Return the lower triangular matrix whose rows are the spatial parts of y.

        Parameters
        ----------
        y : array
            A point or velocity of the product.
        diagonal : float
            The entries on the diagonal.
        """
        xp = namespace(y)
        rows = [xp.zeros_like(y[..., : self.m])]
        for i, part in enumerate(self.model.split(y), 1):
            padding = xp.zeros_like(y[..., : self.m - i])
            rows.append(xp.concat([part[..., 1:], padding], axis=-1))
        return xp.stack(rows, axis=-2) + diagonal * like(y, np.eye(self.m))


class CorrelationOffLog(CorrelationMatrices):
    """Correlation matrices with the off-log metric: flat and complete.

    (Thanwerdas 2024.) It is the metric of log C off its diagonal. The off-diagonal part
    S of log C is any symmetric matrix of diagonal 0, and there is one diagonal D for
    which exp(S + D) has unit diagonal (Archakov & Hansen 2021, Theorem 1). For two
    variables S is Fisher's z. The metric does not depend on the order of the variables,
    and noise in normal coordinates is exact.

    Parameters
    ----------
    m : int
        The number of variables.

    Examples
    --------
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> distance = CorrelationOffLog(2).dist(np.eye(2), C)
    >>> float(np.round(distance / np.sqrt(2), 12))  # z, counted on both sides
    0.69314718056
    """

    kind = "correlation-offlog"

    # Distance beyond which λ_min may be below 1e-7; `from_model` goes no farther.
    _max_distance = 8.0

    @cached_property
    def model(self) -> Euclidean:
        """The entries of S below the diagonal, times √2."""
        return Euclidean(self.m * (self.m - 1) // 2)

    @cached_property
    def float_set(self) -> FloatSet:
        """The ball in which −log λ_min is at most `_SAFE_FLAT_EXPONENT`."""

        def excess(radius: float) -> float:
            return self._largest_exponent(radius) - _SAFE_FLAT_EXPONENT

        # `scipy.optimize` takes long to import, hence not at the top of the module.
        safe_radius = scipy.optimize.brentq(excess, 0.0, _SURELY_UNSAFE_RADIUS)
        return BallFloatSet(
            max_distance=self._max_distance,
            amplification=self._roundoff_amplification,
            ball_radius=safe_radius,
        )

    def _largest_exponent(self, radius: float) -> float:
        """Return a bound on −log λ_min within `radius` r of the origin.

        D minimizes tr e^{S+D} − tr D, which is m − tr D there, and m + m·log(tr e^S/m)
        at the best multiple of I; with tr S = 0, tr e^S ≤ m + Σ_{k≥2} |S|^k/k! =
        m + e^r − 1 − r. So det C = e^{tr D} ≥ (1 + (e^r − 1 − r)/m)^{−m}, and λ_min ≥
        det C·((m−1)/m)^{m−1} ≥ det C/e, since the other eigenvalues have a mean of at
        most m/(m−1).
        """
        return 1 + self.m * math.log1p((math.expm1(radius) - radius) / self.m)

    def _roundoff_amplification(self, radius: float) -> float:
        """Return m/λ_min at the largest safe distance within the radius."""
        safe_radius = self.float_set.safe_radius_within(radius)
        return self.m * math.exp(self._largest_exponent(safe_radius))

    def to_model(self, x: Array) -> Array:
        """Return the entries of log x below the diagonal, times √2."""
        logarithm = log1p_sym(x - like(x, np.eye(self.m)))
        return math.sqrt(2) * lower_triangle(logarithm)

    def from_model(self, y: Array) -> Array:
        """Return exp(S + D) for the S with entries y/√2.

        Beyond `_max_distance` it is that of the point at this distance.

        Parameters
        ----------
        y : array
            A point of the model space.
        """
        xp = namespace(y)
        length = euclidean_norm(xp, y)[..., None]
        shrink = self._max_distance / xp.where(length > 0, length, 1.0)
        y = y * xp.where(length > self._max_distance, shrink, 1.0)
        S = self._symmetric_matrix(y)
        if self.m == 2:  # Fisher's z
            return xp.tanh(S) + like(y, np.eye(2))

        longest = self._largest_exponent(self._max_distance)
        C = _scale_to_unit_diagonal(unit_exponential(constant(S), longest))
        if differentiable(y):
            return C + self.inverse_differential(C, y - constant(y))
        return C

    def differential(self, p: Array, v: Array) -> Array:
        """Return d(log)_p[v] below the diagonal, times √2."""
        return math.sqrt(2) * lower_triangle(dlog(p, v))

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the velocity of the correlation matrix for a velocity w of S, its off-log.

        p = exp(S + D), where the diagonal matrix D keeps the diagonal of p at 1. If S
        changes by W, D changes by the D′ for which d(exp)[W + D′] has a zero diagonal.
        That is a linear system for the entries of D′: column j of its matrix is the
        diagonal of d(exp)[eⱼeⱼᵀ].

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        w : array
            A tangent vector of the model space at the image of p.
        """
        xp = namespace(p, w)
        W = self._symmetric_matrix(w)
        unit_diagonals = _diagonal_matrix(like(p, np.eye(self.m)))
        diagonal_responses = xp.linalg.diagonal(
            dexp(p[..., None, :, :], unit_diagonals)
        )
        diagonal_of_W = xp.linalg.diagonal(dexp(p, W))
        compensation = xp.linalg.solve(diagonal_responses.mT, diagonal_of_W[..., None])[
            ..., 0
        ]
        return self.to_tangent(p, dexp(p, W - _diagonal_matrix(compensation)))

    def _symmetric_matrix(self, y: Array) -> Array:
        """Return the symmetric matrix of diagonal 0 with entries y/√2 below it."""
        return symmetric_from_triangle(y / math.sqrt(2), 1 - np.eye(self.m))


def _diagonal_matrix(x: Array) -> Array:
    """Return the diagonal matrices with entries x."""
    return x[..., None] * like(x, np.eye(x.shape[-1]))


def _scale_to_unit_diagonal(S: Array) -> Array:
    """Return S in units in which its diagonal is 1, exactly.

    Parameters
    ----------
    S : array of shape (..., m, m)
        Positive definite matrices.
    """
    xp = namespace(S)
    root = xp.sqrt(xp.linalg.diagonal(S))
    identity = like(S, np.eye(S.shape[-1]))
    scaled = S / root[..., :, None] / root[..., None, :]
    diagonal = xp.where(xp.isnan(scaled), scaled, identity)
    return scaled * (1 - identity) + diagonal
