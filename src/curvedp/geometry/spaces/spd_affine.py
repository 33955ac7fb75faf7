"""Symmetric positive definite matrices under the affine-invariant metric. A point p is
factored as p = LLᵀ (Cholesky). Whitening at p, S ↦ L⁻¹SL⁻ᵀ, is an isometry that moves p
to the identity, where all kernels are computed.
"""

from functools import cached_property
from typing import Any

import numpy as np

from curvedp.geometry.capabilities import (
    AffineInvariantCone,
    CheapKernels,
    OriginIsometry,
    bracket_jacobi_operator,
)
from curvedp.geometry.float_set import FloatSet
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.spd_common import SPD, pack, spectrum_float_set, unpack
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import with_derivative_of
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import euclidean_norm, safe_sqrt
from curvedp.numerics.matrix_functions import (
    cholesky,
    exp_sym,
    from_spectrum,
    log1p_sym,
    lower_solve,
    sandwich,
    scale_columns,
    sqrt_sym,
    sym,
    whiten,
)
from curvedp.numerics.spd3 import InverseFactor, lower_entries, whitened_logs
from curvedp.numerics.spd_pencil import cholesky_and_whitened, log_spectrum
from curvedp.numerics.threads import blocks

# How many matrices are worked on together: their entries then stay in the cache.
_BLOCK_SIZE = 1 << 12

# Logarithms of 3×3 matrices that are shorter than this are not computed by the fast
# formula, whose absolute error is 1e-12.
_SHORT = 1e-4

# If all log-eigenvalues are below these in modulus, `log` subtracts p from q, and `exp`
# adds a change to p. Both keep the digits of near points.
_NEAR_LOG = 0.2
_NEAR_STEP = 0.5

# Terms of the series of ℓ − expm1(ℓ) that are exact to round-off for |ℓ| < _NEAR_LOG.
_SERIES_TERMS = 13


class SPDAffineInvariant(SPD, AffineInvariantCone, OriginIsometry, CheapKernels):
    """SPD(m) with ⟨U,V⟩_P = tr(P⁻¹U P⁻¹V): a Hadamard manifold, curvature in [−½, 0].

    (Bhatia 2007, ch. 6.) All kernels use the congruence S ↦ L S Lᵀ with P = LLᵀ
    (Cholesky), an isometry that takes I to P.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> M = SPDAffineInvariant(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e, 1.0])))
    1.0
    """

    kind = "spd-affine"
    is_symmetric = True

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds [−½, 0] of sectional curvatures; 0 for m = 1, which is a curve."""
        return (-0.5, 0.0) if self.m > 1 else (0.0, 0.0)

    @cached_property
    def jacobi_spectrum(self) -> tuple[tuple[float, int], ...] | None:
        """The curvatures of planes that contain a unit velocity, with multiplicities.

        They are known for m ≤ 2, where SPD(2) is ℝ × H² with curvature −½. On larger
        matrices they depend on the velocity, and this is None.
        """
        if self.m == 1:
            return ()
        return ((-0.5, 1),) if self.m == 2 else None

    @property
    def cone_size(self) -> tuple[int, int]:
        """The pair (m, 1): m rows of real numbers."""
        return (self.m, 1)

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: matrices of condition number up to 1e6."""
        return spectrum_float_set(self.m)

    def move_to_origin(self, center: Array, X: Array) -> Array:
        """Return L⁻¹XL⁻ᵀ, an isometry of X that takes the center LLᵀ to the identity.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved points.
        """
        if np.array_equal(center, self.origin):
            return X
        _, whitened_X = cholesky_and_whitened(like(X, center), X)
        return whitened_X

    def move_from_origin(self, center: Array, X: Array) -> Array:
        """Return LXLᵀ, an isometry of X that takes the identity to the center LLᵀ.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.
        X : array of shape (..., *point_shape)
            Points, moved by `move_to_origin`.

        Returns
        -------
        array of shape (..., *point_shape)
            The points where they belong.
        """
        if np.array_equal(center, self.origin):
            return X
        return sym(sandwich(cholesky(like(X, center)), X))

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the matrix of the curvature operator u ↦ R(u, v)v in coordinates at p.

        It is −¼[[·, V], V], where V is the symmetric matrix of the coordinates of v and
        [A, B] = AB − BA (Helgason 1978, IV.4).

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., dim, dim)
            Symmetric matrices, in the coordinates of `to_coordinates` (NumPy).
        """
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        return bracket_jacobi_operator(self, p, v)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v: L·exp(A)·Lᵀ.

        Here p = LLᵀ and A = L⁻¹vL⁻ᵀ. After a short step the end is computed as
        p + L(exp(A) − I)Lᵀ, which keeps the digits of the step. After a long one it is
        computed as GGᵀ with G = L·exp(A/2)·U, which is always positive definite; U has
        the eigenvectors of A in its columns.

        Parameters
        ----------
        p : array, shape (..., m, m)
            A point.
        v : array, shape (..., m, m)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        xp = namespace(p, v)

        def smooth(p: Array, v: Array) -> Array:
            """Return the end point by formulas that autodiff can differentiate."""
            L = cholesky(p)
            return sandwich(L, exp_sym(whiten(L, v)))

        def accurate(p: Array, v: Array) -> Array:
            """Return the end point with small round-off, also for short steps."""
            L, A = cholesky_and_whitened(p, v)
            eigenvalues, U = eigh(A)
            frame = L @ U

            # Both formulas; that for short steps is used if all eigenvalues are small.
            near = p + from_spectrum(xp.expm1(eigenvalues), frame)
            G = scale_columns(frame, xp.exp(0.5 * eigenvalues))  # L·exp(A/2)·U
            far = G @ G.mT
            largest = xp.max(xp.abs(eigenvalues), axis=-1)[..., None, None]
            return sym(xp.where(largest < _NEAR_STEP, near, far))

        # The value is that of `accurate`; under JAX the derivative is that of `smooth`.
        return with_derivative_of(smooth, accurate, p, v)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity of the geodesic from p to q: L·log(A)·Lᵀ.

        Here p = LLᵀ and A = L⁻¹qL⁻ᵀ = U·diag(e^ℓ)·Uᵀ. For far points the velocity is
        computed as F·diag(ℓ)·Fᵀ with F = LU. For near points it is computed as

            q − p − F·diag(expm1(ℓ) − ℓ)·Fᵀ.

        The difference q − p has no rounding error, and the second term is of second
        order.

        Parameters
        ----------
        p : array, shape (..., m, m)
            The point at which the velocity is tangent.
        q : array, shape (..., m, m)
            The point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """

        def smooth(p: Array, q: Array) -> Array:
            """Return the logarithm by formulas that autodiff can differentiate."""
            L = cholesky(p)
            return sandwich(L, log1p_sym(whiten(L, q - p)))

        def accurate(p: Array, q: Array) -> Array:
            """Return the logarithm with small round-off, also where q is near p."""
            # The formula for far points, F·diag(ℓ)·Fᵀ with F = LU.
            xp = namespace(p, q)
            L, logs, U = log_spectrum(p, q)
            frame = L @ U
            far = from_spectrum(logs, frame)

            # The formula for near points, q − p − F·diag(expm1(ℓ) − ℓ)·Fᵀ.
            is_near = xp.max(xp.abs(logs), axis=-1, keepdims=True) < _NEAR_LOG
            second_order = _expm1_minus_argument(xp, xp.where(is_near, logs, 0.0))
            near = (q - p) - from_spectrum(second_order, frame)
            return sym(xp.where(is_near[..., None], near, far))

        # The value is that of `accurate`; under JAX the derivative is that of `smooth`.
        return with_derivative_of(smooth, accurate, p, q)

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is √Σ log²λ over the eigenvalues λ of p⁻¹q, which are computed by
        `spd_pencil` to high relative accuracy.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        array of shape (...)
            The distances.
        """

        def smooth(p: Array, q: Array) -> Array:
            """Return the distance by formulas that autodiff can differentiate."""
            S = log1p_sym(whiten(cholesky(p), q - p))
            xp = namespace(S)
            return safe_sqrt(xp, xp.sum(S * S, axis=(-2, -1)))

        def accurate(p: Array, q: Array) -> Array:
            """Return the distance with small round-off: the length of the log-spectrum."""
            _, log_eigenvalues, _ = log_spectrum(p, q)
            return euclidean_norm(namespace(p, q), log_eigenvalues)

        # The value is that of `accurate`; under JAX the derivative is that of `smooth`.
        return with_derivative_of(smooth, accurate, p, q)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product tr(p⁻¹u p⁻¹v) of tangent matrices u and v at p.

        With p = LLᵀ it is the Frobenius product of L⁻¹uL⁻ᵀ and L⁻¹vL⁻ᵀ.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        u, v : arrays of shape (..., *point_shape)
            Tangent vectors at p.

        Returns
        -------
        array of shape (...)
            The inner products.
        """
        products = self._whitened(p, u) * self._whitened(p, v)
        return namespace(p, u, v).sum(products, axis=(-2, -1))

    @staticmethod
    def _whitened(p: Array, v: Array) -> Array:
        """Return L⁻¹vL⁻ᵀ, where p = LLᵀ is the Cholesky factorization.

        The isometry that takes p to the identity maps v to this matrix.

        Parameters
        ----------
        p, v : arrays of shape (..., m, m)
            A positive definite and a symmetric matrix.

        Returns
        -------
        array of shape (..., m, m)
            Symmetric matrices.
        """

        def smooth(p: Array, v: Array) -> Array:
            """Return L⁻¹vL⁻ᵀ by formulas that autodiff can differentiate."""
            return whiten(cholesky(p), v)

        def accurate(p: Array, v: Array) -> Array:
            """Return L⁻¹vL⁻ᵀ with small round-off."""
            _, whitened_v = cholesky_and_whitened(p, v)
            return whitened_v

        # The value is that of `accurate`; under JAX the derivative is that of `smooth`.
        return with_derivative_of(smooth, accurate, p, v)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v transported in parallel from p to q along the geodesic.

        The transported vector is EvEᵀ with E = (qp⁻¹)^½ = L·A^½·L⁻¹, where p = LLᵀ and
        A = L⁻¹qL⁻ᵀ. It is computed as the product of L·A^½, the whitened vector
        L⁻¹vL⁻ᵀ, and the transpose of L·A^½.

        Parameters
        ----------
        p, q : array, shape (..., m, m)
            The point where the vector is, and the point to which it is moved.
        v : array, shape (..., m, m)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved vectors, which are tangent at q.
        """
        L = cholesky(p)
        A = whiten(L, q)
        return sym(sandwich(L @ sqrt_sym(A), whiten(L, v)))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        It is LSLᵀ, where p = LLᵀ and S is the symmetric matrix with the coordinates z.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        z : array, shape (..., dim)
            Coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        return sandwich(cholesky(p), unpack(z, self.m))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        They are those of the symmetric matrix L⁻¹vL⁻ᵀ, where p = LLᵀ.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        return pack(self._whitened(p, v))

    def fast_normal_coordinates(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the normal coordinates at p of many q, to 1e-8 of their length.

        3×3 matrices are computed by a closed formula where it is accurate; all others
        by `normal_coordinates`.

        Parameters
        ----------
        p, q : arrays of shape (..., m, m)
            The point at which the coordinates are taken, and the point they describe.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        if self.m != 3 or q.ndim != 3:
            return np.asarray(self.normal_coordinates(p, q))

        # The closed formula for all matrices, and which results are not accurate.
        coordinates = np.empty((len(q), 6))
        is_inaccurate = np.empty(len(q), dtype=bool)
        factor = InverseFactor.of(p)
        for block in blocks(len(q), _BLOCK_SIZE):
            entries, _ = lower_entries(q[block])
            logs = whitened_logs(factor, entries)
            np.stack(logs.coordinates, axis=-1, out=coordinates[block])
            # The error is 1e-12 whatever the length: too much for a short logarithm.
            is_long = logs.squared_length > _SHORT**2
            is_inaccurate[block] = ~(logs.is_accurate & is_long)
        if is_inaccurate.any():
            coordinates[is_inaccurate] = self.normal_coordinates(p, q[is_inaccurate])
        return coordinates

    # The following methods are for steps to which noise is added. They work with
    # coordinates only. So they need neither the congruences of exp and log, which cancel
    # each other, nor the work that keeps last digits.

    def rough_normal_coordinates(self, p: Array, q: Array) -> Array:
        """Return normal coordinates at p of many q, faster but with fewer digits.

        They are the coordinates of log(L⁻¹qL⁻ᵀ), where p = LLᵀ.

        Parameters
        ----------
        p, q : arrays of shape (..., m, m)
            The point at which the coordinates are taken, and the points they describe.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        eigenvalues, U = _rough_pencil(cholesky(p), q)
        return pack(from_spectrum(namespace(q).log(eigenvalues), U))

    def rough_from_normal_coordinates(self, p: Array, z: Array) -> Array:
        """Return the points with normal coordinates z at p, faster but less accurately.

        With p = LLᵀ and S the symmetric matrix with coordinates z, the point is
        L·exp(S)·Lᵀ. It is computed as GGᵀ with G = L·U·exp(λ/2), S = U·diag(λ)·Uᵀ, and
        so is positive definite.

        Parameters
        ----------
        p : array of shape (..., m, m)
            A point.
        z : array of shape (..., dim)
            Coordinates of tangent vectors at p.

        Returns
        -------
        array of shape (..., m, m)
            The points.
        """
        eigenvalues, U = eigh(unpack(z, self.m))
        root = scale_columns(U, namespace(z).exp(0.5 * eigenvalues))
        G = cholesky(p) @ root
        return G @ G.mT

    def transport_coordinates(self, p: Array, q: Array, z: Array) -> Array:
        """Return the coordinates at q of the transported vector with coordinates z at p.

        With p = LLᵀ, q = KKᵀ and A = L⁻¹qL⁻ᵀ, the matrix Q = K⁻¹L·A^½ (`rotation`) is
        orthogonal. Let S be the symmetric matrix with coordinates z. The results are
        the coordinates of QSQᵀ.

        Parameters
        ----------
        p, q : arrays of shape (..., m, m)
            The point where the vector is, and the point to which it is moved.
        z : array of shape (..., dim)
            The coordinates of the vector at p.

        Returns
        -------
        array of shape (..., dim)
            The coordinates at q.
        """
        L = cholesky(p)
        eigenvalues, U = _rough_pencil(L, q)
        root_of_A = from_spectrum(namespace(q).sqrt(eigenvalues), U)
        rotation = lower_solve(cholesky(q), L @ root_of_A)
        return pack(rotation @ unpack(z, self.m) @ rotation.mT)


def _expm1_minus_argument(xp: Any, x: Array) -> Array:
    """Return e^x − 1 − x for |x| < 0.2, without cancellation.

    (e^x − 1 − x)/x is computed as a power series, by Horner's rule.

    Parameters
    ----------
    xp : module
        The array library.
    x : array
        Numbers.

    Returns
    -------
    array
        The values, of the same shape.
    """
    series = xp.zeros_like(x)
    for order in range(_SERIES_TERMS, 1, -1):
        series = (series + 1) * x / order
    return series * x


def _rough_pencil(L: Array, q: Array) -> tuple[Array, Array]:
    """Return positive eigenvalues and the eigenvectors of L⁻¹qL⁻ᵀ, in plain doubles.

    Eigenvalues that round-off has made too small or negative are raised to ε times the
    largest, with ε the machine precision.

    Parameters
    ----------
    L : array of shape (..., m, m)
        The Cholesky factor of a positive definite matrix.
    q : array of shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    eigenvalues : array of shape (..., m)
        The eigenvalues, in ascending order.
    vectors : array of shape (..., m, m)
        The eigenvectors, as columns.
    """
    xp = namespace(L, q)
    inverse = lower_solve(L, like(L, np.eye(L.shape[-1])))
    eigenvalues, vectors = eigh(sym(inverse @ q @ inverse.mT))
    largest = xp.max(xp.abs(eigenvalues), axis=-1, keepdims=True)
    floor = float(xp.finfo(L.dtype).eps) * largest
    return xp.maximum(eigenvalues, floor), vectors
