"""Correlation matrices: positive definite matrices whose diagonal is 1, with two
metrics. `Correlation` is isometric to a product of hyperbolic spaces, and
`CorrelationOffLog` to a flat space. Kernels are computed in that other space, the
model.
"""

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

# Points of `Correlation` are well represented if −log λ_min is at most this number, with
# λ_min the least eigenvalue. Beyond, at condition numbers of 1e10, round-off of the
# entries moves a correlation matrix too far.
_SAFE_EXPONENT = 23.0

# The same number for `CorrelationOffLog`. Up to a condition number of e^9 the logarithm
# of a matrix in doubles has eleven digits.
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
        """A point is an m×m matrix."""
        return (self.m, self.m)

    @property
    def origin(self) -> Array:
        """The identity matrix: no variables are correlated."""
        return np.eye(self.m)

    def project(self, x: Array) -> Array:
        """Return a correlation matrix near x.

        The nearest positive definite matrix is scaled to a diagonal of 1.
        """
        return _scale_to_unit_diagonal(SPDAffineInvariant(self.m).project(x))

    def from_record(self, x: Array) -> Array:
        """Return the correlation matrix of a record, which may be a covariance matrix.

        The symmetric part of the record is scaled to unit diagonal. If a variance is
        not positive, or the matrix is not positive definite, there is no point and the
        result is NaN.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        xp = namespace(x)
        S = sym(x)

        # A record without positive variances is replaced by I here, and by NaN below.
        has_variances = xp.all(xp.linalg.diagonal(S) > 0, axis=-1)[..., None, None]
        S = xp.where(has_variances, S, like(x, np.eye(self.m)))
        point = SPDAffineInvariant(self.m).from_record(_scale_to_unit_diagonal(S))
        return xp.where(has_variances, point, xp.nan)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent matrix at p nearest to x.

        It is the symmetric part of x with a diagonal of 0, because that of p stays 1.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        x : array of shape (..., *point_shape)
            Any array.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        off_diagonal = 1 - like(p, np.eye(self.m))
        return sym(x) * off_diagonal + namespace(p, x).zeros_like(p)

    def residual(self, p: Array) -> Array:
        """Return how far p is from a correlation matrix.

        It is the residual as a positive definite matrix, plus the largest error of a
        diagonal entry, which must be 1.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals; 0 on the manifold.
        """
        xp = namespace(p)
        diagonal_error = xp.max(xp.abs(xp.linalg.diagonal(p) - 1), axis=-1)
        return SPDAffineInvariant(self.m).residual(p) + diagonal_error


class Correlation(CorrelationMatrices):
    """Correlation matrices with the poly-hyperbolic-Cholesky metric.

    (Thanwerdas & Pennec 2022.) Row i of the Cholesky factor is a unit vector with a
    positive last entry: a point of an open hemisphere of dimension i − 1, which is a
    model of hyperbolic space. Divided by its last entry it is a row of a lower
    triangular matrix A with unit diagonal; the entries below the diagonal are the
    spatial part of a point of the hyperboloid H^{i−1}. So this space is isometric to
    H¹ × … × H^{m−1}, a Hadamard manifold of curvature in [−1, 0], and all mechanisms
    for products can be used. The metric depends on the order of the variables, which is
    public.

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
        """The space in which kernels are computed: H¹ × … × H^{m−1}.

        Row i of the Cholesky factor is a unit vector, and so a point of hyperbolic
        space.
        """
        return Product(*(Lorentz(i) for i in range(1, self.m)))

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: a ball in which λ_min ≥ about 1e-10.

        With the factors' distances rᵢ from the origin, det C = ∏ 1/cosh²rᵢ and Σrᵢ ≤
        √(m−1)·r, so that the least eigenvalue λ_min is at least about e^{−2√(m−1)·r}.
        Doubles distinguish a correlation c from 1 as long as 1 − c² = 1/cosh²r is above
        their spacing at 1: up to r = 17.
        """
        return BallFloatSet(
            max_distance=17.0,
            amplification=self._roundoff_amplification,
            ball_radius=_SAFE_EXPONENT / (2 * math.sqrt(self.m - 1)),
        )

    def _roundoff_amplification(self, radius: float) -> float:
        """Return how far a point moves, at most, per unit of relative coordinate error.

        The bound is e^{2√(m−1)·r}, where r is `radius` or the radius of the float set
        if that is smaller.

        Parameters
        ----------
        radius : float
            The bound holds for points within this distance of the identity.

        Returns
        -------
        float
            The amplification.
        """
        safe_radius = self.float_set.safe_radius_within(radius)
        return math.exp(2 * math.sqrt(self.m - 1) * safe_radius)

    def to_model(self, x: Array) -> Array:
        """Return the image of a correlation matrix in the product of hyperbolic spaces.

        Row i of the Cholesky factor, divided by its last entry, is the spatial part of
        a point of H^{i−1}.

        Parameters
        ----------
        x : array of shape (..., m, m)
            Correlation matrices.

        Returns
        -------
        array of shape (..., *model.point_shape)
            The images.
        """
        L = cholesky(x)
        diagonal = namespace(x).linalg.diagonal(L)
        return self._join_rows(L / diagonal[..., None], 1 / diagonal)

    def from_model(self, y: Array) -> Array:
        """Return the correlation matrix whose image in the model is y.

        It is RRᵀ, where R is the unit lower triangular matrix A, whose rows are the
        spatial parts of y, with its rows scaled to length 1.

        Parameters
        ----------
        y : array of shape (..., *model.point_shape)
            Points of the product of hyperbolic spaces.

        Returns
        -------
        array of shape (..., m, m)
            The correlation matrices.
        """
        A = self._lower_matrix(y, 1.0)
        R = A / euclidean_norm(namespace(y), A)[..., None]
        return _scale_to_unit_diagonal(sym(R @ R.mT))

    def differential(self, p: Array, v: Array) -> Array:
        """Return the differential of `to_model` at p, applied to v.

        The model's points are the rows of A = L/diag(L), where p = LLᵀ. The result is
        the change of A for the change v of p.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., *model.point_shape)
            A tangent vector of the model at the image of p.
        """
        xp = namespace(p, v)
        L = cholesky(p)
        L_change = cholesky_change(L, v)

        # Row i of A is row i of L over L_ii, and the time coordinate is 1/L_ii.
        diagonal = xp.linalg.diagonal(L)[..., None]
        A = L / diagonal
        relative_change = xp.linalg.diagonal(L_change)[..., None] / diagonal
        A_change = L_change / diagonal - A * relative_change
        time_change = -relative_change[..., 0] / diagonal[..., 0]
        return self._join_rows(A_change, time_change)

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the tangent vector at p that `differential` maps to w.

        It is the change of p = LLᵀ for a change w of the rows of A = L/diag(L).

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        w : array of shape (..., *model.point_shape)
            A tangent vector of the model space at the image of p.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vector, a symmetric matrix with diagonal 0.
        """
        xp = namespace(p, w)
        L = cholesky(p)
        diagonal = xp.linalg.diagonal(L)[..., None]

        # The change of the rows of L, without its part along them: they stay unit
        # vectors.
        L_change = diagonal * self._lower_matrix(w, 0.0)
        L_change = L_change - xp.sum(L * L_change, axis=-1, keepdims=True) * L
        one_sided_change = L_change @ L.mT  # the change of LLᵀ is this + its transpose
        off_diagonal = 1 - like(p, np.eye(self.m))
        return (one_sided_change + one_sided_change.mT) * off_diagonal

    def _join_rows(self, A: Array, times: Array) -> Array:
        """Join the rows of a lower triangular matrix into one vector of the model.

        The model is the product of the hyperboloids H¹, …, H^{m−1}. Row i, counted from
        0, gives the point of Hⁱ with time coordinate times[i] and spatial part
        A[i, :i]. Row 0 gives none.

        Parameters
        ----------
        A : array of shape (..., m, m)
            The rows, as a lower triangular matrix.
        times : array of shape (..., m)
            The time coordinates.

        Returns
        -------
        array of shape (..., *model.point_shape)
            A point of the model, or a velocity if A and `times` are changes.
        """
        xp = namespace(A)
        points = []  # time and spatial coordinates of the point of each hyperboloid
        for i in range(1, self.m):
            points.append(xp.concat([times[..., i : i + 1], A[..., i, :i]], axis=-1))
        return self.model.join(points)

    def _lower_matrix(self, y: Array, diagonal: float) -> Array:
        """Return the lower triangular matrix whose rows are the spatial parts of y.

        This is the inverse of `_join_rows`, without the time coordinates.

        Parameters
        ----------
        y : array of shape (..., *model.point_shape)
            A point or velocity of the product of hyperboloids H¹, …, H^{m−1}.
        diagonal : float
            The entries on the diagonal: 1 for a point, 0 for a velocity.

        Returns
        -------
        array of shape (..., m, m)
            The matrix; row i, counted from 0, holds the spatial part in Hⁱ.
        """
        xp = namespace(y)
        rows = [xp.zeros_like(y[..., : self.m])]
        for i, part in enumerate(self.model.split(y), 1):
            padding = xp.zeros_like(y[..., : self.m - i])
            rows.append(xp.concat([part[..., 1:], padding], axis=-1))
        return xp.stack(rows, axis=-2) + diagonal * like(y, np.eye(self.m))


class CorrelationOffLog(CorrelationMatrices):
    """Correlation matrices with the off-log metric: flat and complete.

    (Thanwerdas 2024.) The distance of two correlation matrices is the Frobenius distance
    of the off-diagonal parts of their logarithms. The off-diagonal part S of log C can
    be any symmetric matrix with diagonal 0, and there is exactly one diagonal matrix D
    for which exp(S + D) has unit diagonal (Archakov & Hansen 2021, Theorem 1). For two
    variables the entry of S is Fisher's z. The metric does not depend on the order of
    the variables, and noise in normal coordinates is exact.

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

    # Beyond this distance from I the least eigenvalue may be below 1e-7. `from_model`
    # moves points beyond it back to this distance.
    _max_distance = 8.0

    @cached_property
    def model(self) -> Euclidean:
        """The space in which kernels are computed: R^{m(m−1)/2}.

        Its vectors are the entries below the diagonal of log x, times √2.
        """
        return Euclidean(self.m * (self.m - 1) // 2)

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: a ball about the identity.

        In this ball −log λ_min is at most `_SAFE_FLAT_EXPONENT`, where λ_min is the
        least eigenvalue of a matrix.
        """

        def excess(radius: float) -> float:
            """Return how far −log λ_min can be above the safe exponent in a ball."""
            return self._largest_exponent(radius) - _SAFE_FLAT_EXPONENT

        # SciPy loads its slow submodule `optimize` at this first use, not on import.
        safe_radius = scipy.optimize.brentq(excess, 0.0, _SURELY_UNSAFE_RADIUS)
        return BallFloatSet(
            max_distance=self._max_distance,
            amplification=self._roundoff_amplification,
            ball_radius=safe_radius,
        )

    def _largest_exponent(self, radius: float) -> float:
        """Return a bound on −log λ_min of the correlation matrices near the origin.

        Proof. Such a matrix is C = exp(S + D), where S has diagonal 0 and Frobenius norm
        at most r, and the diagonal matrix D is such that C has unit diagonal.

        - D minimizes tr e^{S+D} − tr D. Its value there is m − tr D. At the best
          multiple of I the value is m + m·log(tr e^S/m), which is not smaller.
        - Because tr S = 0, tr e^S ≤ m + Σ_{k≥2} |S|^k/k! = m + e^r − 1 − r.
        - So det C = e^{tr D} ≥ (1 + (e^r − 1 − r)/m)^{−m}.
        - The eigenvalues of C other than λ_min have a mean of at most m/(m−1). So λ_min
          ≥ det C·((m−1)/m)^{m−1} ≥ det C/e.

        Parameters
        ----------
        radius : float
            r, the largest distance from the origin.

        Returns
        -------
        float
            1 + m·log(1 + (e^r − 1 − r)/m).
        """
        return 1 + self.m * math.log1p((math.expm1(radius) - radius) / self.m)

    def _roundoff_amplification(self, radius: float) -> float:
        """Return how far a point moves, at most, per unit of relative coordinate error.

        The bound is m/λ_min, where λ_min is the least eigenvalue that a point of the
        float set within `radius` of the identity may have.

        Parameters
        ----------
        radius : float
            The bound holds for points within this distance of the identity.

        Returns
        -------
        float
            The amplification.
        """
        safe_radius = self.float_set.safe_radius_within(radius)
        return self.m * math.exp(self._largest_exponent(safe_radius))

    def to_model(self, x: Array) -> Array:
        """Return φ(x): the entries of log x below the diagonal, times √2.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Points of this manifold.

        Returns
        -------
        array of shape (..., *model.point_shape)
            Points of the model.
        """
        logarithm = log1p_sym(x - like(x, np.eye(self.m)))
        return math.sqrt(2) * lower_triangle(logarithm)

    def from_model(self, y: Array) -> Array:
        """Return the correlation matrix exp(S + D) for an off-diagonal part S.

        S has the entries y/√2 below and above its diagonal of 0, and D is the diagonal
        matrix for which the result has unit diagonal. Beyond `_max_distance` from the
        origin the result is that of the point at this distance on the same ray.

        Parameters
        ----------
        y : array of shape (..., m(m − 1)/2)
            A point of the model space.

        Returns
        -------
        array of shape (..., m, m)
            The correlation matrices.
        """
        # Move points beyond the largest distance back to it.
        xp = namespace(y)
        length = euclidean_norm(xp, y)[..., None]
        shrink = self._max_distance / xp.where(length > 0, length, 1.0)
        y = y * xp.where(length > self._max_distance, shrink, 1.0)

        S = self._symmetric_matrix(y)
        if self.m == 2:  # Fisher's z
            return xp.tanh(S) + like(y, np.eye(2))

        # D is found by iteration in `unit_exponential`. Autodiff does not follow the
        # iteration: `constant` cuts S off from it.
        largest_exponent = self._largest_exponent(self._max_distance)
        C = _scale_to_unit_diagonal(unit_exponential(constant(S), largest_exponent))
        if differentiable(y):
            # The second term has the value 0, and gives autodiff the derivative of the
            # result.
            return C + self.inverse_differential(C, y - constant(y))
        return C

    def differential(self, p: Array, v: Array) -> Array:
        """Return dφ_p(v): the entries of d(log)_p[v] below the diagonal, times √2."""
        return math.sqrt(2) * lower_triangle(dlog(p, v))

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the velocity of a correlation matrix for a velocity of its logarithm.

        p = exp(S + D), where S has diagonal 0, and the diagonal matrix D keeps the
        diagonal of p at 1. If S changes by W, D changes by the D′ for which
        d(exp)[W + D′] has a zero diagonal. That is a linear system for the entries of
        D′: column j of its matrix is the diagonal of d(exp)[eⱼeⱼᵀ].

        Parameters
        ----------
        p : array, shape (..., m, m)
            A point.
        w : array, shape (..., m(m − 1)/2)
            The entries of W below the diagonal, times √2.

        Returns
        -------
        array, shape (..., m, m)
            The tangent vector at p, a symmetric matrix with diagonal 0.
        """
        xp = namespace(p, w)
        W = self._symmetric_matrix(w)
        unit_diagonals = _diagonal_matrix(like(p, np.eye(self.m)))  # eⱼeⱼᵀ for each j
        responses = dexp(p[..., None, :, :], unit_diagonals)
        response_diagonals = xp.linalg.diagonal(responses)  # one row for each j

        # Solve for −D′: its response must cancel the diagonal that W alone gives.
        diagonal_without_D = xp.linalg.diagonal(dexp(p, W))
        solution = xp.linalg.solve(response_diagonals.mT, diagonal_without_D[..., None])
        minus_D_change = _diagonal_matrix(solution[..., 0])
        return self.to_tangent(p, dexp(p, W - minus_D_change))

    def _symmetric_matrix(self, y: Array) -> Array:
        """Return the symmetric matrix with diagonal 0 and entries y/√2 below it.

        Parameters
        ----------
        y : array of shape (..., m(m − 1)/2)
            √2 times the entries below the diagonal, row by row.

        Returns
        -------
        array of shape (..., m, m)
            The matrices; their Frobenius norm is |y|.
        """
        return symmetric_from_triangle(y / math.sqrt(2), 1 - np.eye(self.m))


def _diagonal_matrix(x: Array) -> Array:
    """Return diagonal matrices from their diagonals.

    Parameters
    ----------
    x : array of shape (..., m)
        The diagonal entries.

    Returns
    -------
    array of shape (..., m, m)
        The matrices.
    """
    return x[..., None] * like(x, np.eye(x.shape[-1]))


def _scale_to_unit_diagonal(S: Array) -> Array:
    """Return the correlation matrix of a covariance matrix: entries S_ij/√(S_ii·S_jj).

    The diagonal of the result is set to 1 exactly.

    Parameters
    ----------
    S : array of shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    array of shape (..., m, m)
        The scaled matrices. If a variance is not positive, the entries of its row and
        column are NaN, also that on the diagonal.
    """
    xp = namespace(S)
    standard_deviations = xp.sqrt(xp.linalg.diagonal(S))
    identity = like(S, np.eye(S.shape[-1]))
    scaled = S / standard_deviations[..., :, None] / standard_deviations[..., None, :]

    # Off the diagonal the result is `scaled`. On the diagonal it is 1, or NaN where
    # `scaled` is NaN.
    identity_or_nan = xp.where(xp.isnan(scaled), scaled, identity)
    return scaled * (1 - identity) + identity_or_nan
