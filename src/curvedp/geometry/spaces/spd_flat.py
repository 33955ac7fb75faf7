"""The two flat metrics on positive definite matrices: Log-Euclidean and Log-Cholesky.
Each is the Euclidean metric of a chart φ, a map from matrices to vectors: the matrix
logarithm (Arsigny et al. 2007), or the Cholesky factor with the logarithm of its
diagonal (Lin 2019).
"""

from abc import abstractmethod
from functools import cached_property, partial
from math import comb, factorial, inf, sqrt

import numpy as np
from array_api_compat import device, is_numpy_array

from curvedp.geometry.capabilities import CheapKernels, OriginIsometry, ScalableCone
from curvedp.geometry.float_set import FloatSet
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.spd_common import SPD, pack, spectrum_float_set, unpack
from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import custom_jvp, jvp, with_derivative_of
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import column_and_row
from curvedp.numerics.matrix_functions import (
    cholesky,
    cholesky_change,
    from_spectrum,
    log_divided_difference,
    log_sym,
    sandwich,
    sym,
)
from curvedp.numerics.spd_pencil import log_cholesky_change, match_scale

# Into how many cells `_log_cholesky_amplification` divides the range of an angle.
_ANGLE_CELLS = 24

# After steps and relative changes shorter than this, the end is computed as p plus a
# change.
_NEAR = 0.5

# Two matrices are not subtracted from each other if the logarithm of the ratio of their
# scales exceeds this number: the difference would lose digits.
_OTHER_UNITS = 2.0


def dlog(p: Array, v: Array) -> Array:
    """Return d(log)_p[v], the derivative of the matrix logarithm at p along v.

    In the eigenbasis of p, entry (r, s) of v is multiplied by the divided difference
    (log λᵣ − log λₛ)/(λᵣ − λₛ) of the eigenvalues, or by 1/λᵣ if they are equal.

    Parameters
    ----------
    p : array, shape (..., m, m)
        Positive definite matrices.
    v : array, shape (..., m, m)
        Symmetric matrices, directions at p.

    Returns
    -------
    array, shape (..., m, m)
        Symmetric matrices.
    """
    return custom_jvp(_dlog_by_eigenvalues, _dlog_with_change, p, v)


def _dlog_by_eigenvalues(p: Array, v: Array) -> Array:
    """Return d(log)_p[v], which is `dlog` without a derivative of its own.

    Parameters
    ----------
    p, v : arrays, shape (..., m, m)
        Positive definite matrices, and symmetric matrices.

    Returns
    -------
    array, shape (..., m, m)
        Symmetric matrices.
    """
    eigenvalues, U = eigh(p)
    differences = log_divided_difference(*column_and_row(eigenvalues, eigenvalues))
    return sym(sandwich(U, differences * (U.mT @ v @ U)))


def _dlog_with_change(
    arrays: tuple[Array, Array], changes: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return s = d(log)_p[v] and its change s' when p and v change, for JAX.

    By definition d(exp)_{log p}[s] = v. This equation is differentiated along p with s
    fixed, and solved for s'.

    Parameters
    ----------
    arrays : pair of arrays
        p and v.
    changes : pair of arrays
        The changes of p and of v.

    Returns
    -------
    s, s' : arrays
        The derivative of the logarithm and its change.
    """
    p, v = arrays
    p_change, v_change = changes
    s = _dlog_by_eigenvalues(p, v)
    _, change_with_p = jvp(lambda p: _block_dexp(p, s), (p,), (p_change,))
    return s, _dlog_by_eigenvalues(p, sym(v_change) - change_with_p)


def dexp(p: Array, s: Array) -> Array:
    """Return d(exp)_{log p}[s], the derivative of the matrix exponential at log p along s.

    It is the inverse of `dlog`: in the eigenbasis of p, entry (i, j) of s is divided by
    (log λᵢ − log λⱼ)/(λᵢ − λⱼ), where λ are the eigenvalues of p.

    Parameters
    ----------
    p : array, shape (..., m, m)
        Positive definite matrices.
    s : array, shape (..., m, m)
        Symmetric matrices, directions at log p.

    Returns
    -------
    array, shape (..., m, m)
        Symmetric matrices.
    """

    def value(p: Array, s: Array) -> Array:
        """Return d(exp)_{log p}[s] itself; autodiff differentiates `_block_dexp`."""
        eigenvalues, U = eigh(p)
        differences = log_divided_difference(*column_and_row(eigenvalues, eigenvalues))
        return sym(sandwich(U, (U.mT @ s @ U) / differences))

    # The result is that of `value`; under JAX the derivative is that of `_block_dexp`.
    return with_derivative_of(_block_dexp, value, p, s)


def _block_dexp(p: Array, s: Array) -> Array:
    """Return d(exp)_{log p}[s] by a formula that JAX can differentiate.

    It is the upper right block of exp([[log p, s], [0, log p]]) (Najfeld & Havel 1995),
    which is smooth also at repeated eigenvalues.

    Parameters
    ----------
    p : array of shape (..., m, m)
        A positive definite matrix.
    s : array of shape (..., m, m)
        A symmetric matrix.

    Returns
    -------
    array of shape (..., m, m)
        Symmetric matrices.
    """
    import jax

    xp = namespace(p, s)
    m = p.shape[-1]
    log_p = log_sym(p) + xp.zeros_like(s)
    s = s + xp.zeros_like(log_p)
    top = xp.concat([log_p, s], axis=-1)
    bottom = xp.concat([xp.zeros_like(s), log_p], axis=-1)
    exponential = jax.scipy.linalg.expm(xp.concat([top, bottom], axis=-2))
    return sym(exponential[..., :m, m:])


class FlatSPD(SPD, ScalableCone, OriginIsometry):
    """SPD(m) with the Euclidean metric of a chart φ into symmetric or lower matrices.

    A subclass defines φ by its differential, the inverse of the differential, and
    differences φ(q) − φ(p). These methods take a `_frame` of the point p, such as its
    Cholesky factor, so that it is computed only once for each p.
    """

    curvature_bounds = (0.0, 0.0)
    is_symmetric = True

    @abstractmethod
    def _frame(self, p: Array) -> Array:
        """Return the matrix that the other methods of the chart need of a point p.

        Parameters
        ----------
        p : array of shape (..., m, m)
            A point.

        Returns
        -------
        array of shape (..., m, m)
            The argument `frame` of the other functions: p itself, or its Cholesky
            factor.
        """

    @abstractmethod
    def _differential(self, frame: Array, v: Array) -> Array:
        """Return dφ_p(v), the velocity in the chart φ for a velocity v at p.

        Parameters
        ----------
        frame : array of shape (..., m, m)
            The result of `_frame` for the point p.
        v : array of shape (..., m, m)
            Symmetric matrices, tangent vectors at p.

        Returns
        -------
        array of shape (..., m, m)
            Matrices of the chart: symmetric, or lower triangular.
        """

    @abstractmethod
    def _inverse_differential(self, frame: Array, X: Array) -> Array:
        """Return the tangent vector v at p with dφ_p(v) = X.

        Parameters
        ----------
        frame : array of shape (..., m, m)
            The result of `_frame` for the point p.
        X : array of shape (..., m, m)
            Velocities in the chart φ.

        Returns
        -------
        array of shape (..., m, m)
            Symmetric matrices.
        """

    @abstractmethod
    def _difference(self, frame: Array, p: Array, q: Array) -> Array:
        """Return φ(q) − φ(p), accurate to its last digits also where q is near p.

        Parameters
        ----------
        frame : array of shape (..., m, m)
            The result of `_frame` for p.
        p, q : arrays of shape (..., m, m)
            Two points.

        Returns
        -------
        array of shape (..., m, m)
            Matrices of the chart φ.
        """

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        In the chart φ geodesics are straight lines. So the velocity is
        dφ⁻¹(φ(q) − φ(p)).

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        q : array, shape (..., *point_shape)
            Another point.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        frame = self._frame(p)
        return self._inverse_differential(frame, self._difference(frame, p, q))

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is ‖φ(q) − φ(p)‖ in the chart φ.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        q : array, shape (..., *point_shape)
            Another point.

        Returns
        -------
        array of shape (...)
            The distances.
        """
        return matrix.norm(self._difference(self._frame(p), p, q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product of tangent vectors u and v at p: tr(dφ(u)ᵀ·dφ(v)).

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
        frame = self._frame(p)
        products = self._differential(frame, u) * self._differential(frame, v)
        return namespace(p, u, v).sum(products, axis=(-2, -1))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport.

        It is the vector at q with the same velocity dφ in the chart φ, because the
        space is flat.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        q : array, shape (..., *point_shape)
            Another point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved vectors, which are tangent at q.
        """
        return self._inverse_differential(
            self._frame(q), self._differential(self._frame(p), v)
        )

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p whose dφ is the symmetric matrix `unpack(z)`."""
        return self._inverse_differential(self._frame(p), unpack(z, self.m))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the coordinates of v at p: the entries of the symmetric matrix dφ(v).

        Off-diagonal ones are multiplied by √2 (`pack`).
        """
        return pack(self._differential(self._frame(p), v))


class SPDLogEuclidean(FlatSPD):
    """SPD(m) with the Euclidean metric of log P: flat and complete.

    Mechanisms for Euclidean space are exact on this space, in the chart log P. The
    differential d(log)_P and its inverse are computed in the eigenbasis of P (Arsigny et
    al. 2007).

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> M = SPDLogEuclidean(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e, 1.0])))
    1.0
    """

    kind = "spd-log-euclidean"

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: matrices of condition number up to 1e6."""
        return spectrum_float_set(self.m)

    def _frame(self, p: Array) -> Array:
        """Return p itself, which is all that the logarithm's differential needs."""
        return p

    def _differential(self, frame: Array, v: Array) -> Array:
        """Return the velocity d(log)_p[v] of log p where p has velocity v.

        The frame of this chart is p itself.
        """
        return dlog(frame, v)

    def _inverse_differential(self, frame: Array, X: Array) -> Array:
        """Return the velocity d(exp)_{log p}[X] of p where log p has velocity X.

        The frame of this chart is p itself.
        """
        return dexp(frame, X)

    def _difference(self, frame: Array, p: Array, q: Array) -> Array:
        """Return log q − log p, accurate also for q near p.

        With the eigen-systems p = U·diag(α)·Uᵀ and q = V·diag(β)·Vᵀ (Daleckii and Krein
        1965),

            log q − log p = U(K ⊙ Uᵀ(q − p)V)Vᵀ,      Kᵣₛ = (log αᵣ − log βₛ)/(αᵣ − βₛ),

        where ⊙ multiplies entry by entry. In the code α and β are `p_eigenvalues` and
        `q_eigenvalues`, and K is `differences`. This formula keeps all digits of a small
        difference q − p. If q is much larger or smaller than p, it is scaled to the size
        of p first.

        Parameters
        ----------
        frame : array
            Not used: the frame of p.
        p, q : array, shape (..., m, m)
            Two points.

        Returns
        -------
        array, shape (..., m, m)
            Symmetric matrices.
        """

        def smooth(p: Array, q: Array) -> Array:
            """Return log q − log p by formulas that autodiff can differentiate."""
            return log_sym(q) - log_sym(p)

        # The value is that of the accurate function; under JAX the derivative is that of
        # the smooth one.
        return with_derivative_of(smooth, _accurate_log_difference, p, q)

    def exp(self, p: Array, v: Array) -> Array:
        """Return exp(log p + d(log)_p[v]), the end of the geodesic from p with velocity v.

        Short steps are p plus a difference of exponentials by divided differences,
        which keeps the digits of the step.

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

        def smooth(p: Array, v: Array) -> Array:
            """Return the end point by formulas that autodiff can differentiate."""
            return matrix.exp_sym(log_sym(p) + dlog(p, v))

        def accurate(p: Array, v: Array) -> Array:
            """Return the end point with small round-off, also for short steps."""
            return _accurate_exp_of_sum(p, dlog(p, v))

        # The value is that of `accurate`; under JAX the derivative is that of `smooth`.
        return with_derivative_of(smooth, accurate, p, v)


def _accurate_log_difference(p: Array, q: Array) -> Array:
    """Return log q − log p with small round-off, also where q is near p.

    The difference is computed from q − p by divided differences of the logarithm
    (`numerics.matrix_functions`).

    Parameters
    ----------
    p, q : arrays, shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    array, shape (..., m, m)
        Symmetric matrices.
    """
    q, log_scale = match_scale(p, q)
    p_eigenvalues, U = eigh(p)
    q_eigenvalues, V = eigh(q)
    pairs = column_and_row(p_eigenvalues, q_eigenvalues)
    differences = log_divided_difference(*pairs)
    change_in_bases = U.mT @ (q - p) @ V
    log_difference = sym(sandwich(U, differences * change_in_bases, V))
    identity = like(log_difference, np.eye(log_difference.shape[-1]))
    return log_difference + log_scale[..., None, None] * identity


def _accurate_exp_of_sum(p: Array, step: Array) -> Array:
    """Return exp(log p + step) with small round-off, also for short steps.

    After a short step it is p plus a difference of exponentials, by divided differences
    (`numerics.matrix_functions`).

    Parameters
    ----------
    p : array, shape (..., m, m)
        Positive definite matrices; others give NaN.
    step : array, shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array, shape (..., m, m)
        Positive definite matrices.
    """
    # The eigensystem of log p, and that of log p + step.
    xp = namespace(p, step)
    p_eigenvalues, U = eigh(p)
    is_positive = p_eigenvalues > 0
    log_eigenvalues = xp.log(xp.where(is_positive, p_eigenvalues, xp.nan))
    end_log_eigenvalues, V = eigh(from_spectrum(log_eigenvalues, U) + step)

    # For short steps p plus a difference of exponentials.
    pairs = column_and_row(log_eigenvalues, end_log_eigenvalues)
    differences = matrix.exp_divided_difference(*pairs)
    near = p + sandwich(U, differences * (U.mT @ step @ V), V)

    # For long steps the exponential of the logarithm.
    far = from_spectrum(xp.exp(end_log_eigenvalues), V)
    is_short = xp.max(xp.abs(step), axis=(-2, -1), keepdims=True) < _NEAR
    return sym(xp.where(is_short, near, far))


class SPDLogCholesky(FlatSPD, CheapKernels):
    """SPD(m) with the metric of the Cholesky factor: flat and complete (Lin 2019).

    The chart of a point LLᵀ is the strict lower part of L and the logarithm of its
    diagonal.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> M = SPDLogCholesky(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e**2, 1.0])))
    1.0
    """

    kind = "spd-log-cholesky"

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: all points up to a distance from I.

        At distance r the diagonal entries of the Cholesky factor L differ by a factor
        of up to e^r, and those of LLᵀ by up to its square.
        """
        # e^{2·18} is 2^52: beyond this distance LLᵀ loses its small entries. For m = 1
        # the only entry has to be in the range of doubles.
        return FloatSet(
            max_distance=18.0 if self.m > 1 else 350.0,
            amplification=partial(_log_cholesky_amplification, self.m),
        )

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        The chart φ of p = LLᵀ consists of the strict lower part of L and the logarithm
        of its diagonal. Geodesics are straight lines in it, so that the chart of the
        end is φ(p) + dφ(v). Let K be the Cholesky factor of the end and D = K − L
        (`factor_change`). The end is KKᵀ. After short steps the same matrix is computed
        as p + DLᵀ + LDᵀ + DDᵀ, which keeps more digits.

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
        L = cholesky(p)
        chart_velocity = self._differential(L, v)
        is_diagonal = _is_diagonal(L)

        # D: the change below the diagonal is the velocity; on the diagonal the
        # logarithm changes by it.
        log_change = xp.where(is_diagonal, chart_velocity, 0.0)
        factor_change = xp.where(is_diagonal, L * xp.expm1(log_change), chart_velocity)
        near = p + sym(2 * factor_change @ L.mT) + factor_change @ factor_change.mT
        K = L + factor_change
        far = K @ K.mT
        is_short = xp.max(xp.abs(chart_velocity), axis=(-2, -1), keepdims=True) < _NEAR
        return sym(xp.where(is_short, near, far))

    def _frame(self, p: Array) -> Array:
        """Return the Cholesky factor of p, which other methods receive as `frame`."""
        return cholesky(p)

    def _differential(self, frame: Array, v: Array) -> Array:
        """Return dφ(v), the velocity in the chart φ for the velocity v of the matrix.

        The chart of a point LLᵀ is the strict lower part of L and the logarithm of its
        diagonal. So dφ(v) is the derivative of the Cholesky factor along v, with its
        diagonal divided by that of L.

        Parameters
        ----------
        frame : array, shape (..., m, m)
            The Cholesky factor L of the point.
        v : array, shape (..., m, m)
            A tangent vector at the point.

        Returns
        -------
        array, shape (..., m, m)
            Lower triangular matrices.
        """
        xp = namespace(frame, v)
        factor_change = cholesky_change(frame, v)
        is_diagonal = _is_diagonal(frame)
        relative_change = factor_change / xp.where(is_diagonal, frame, 1.0)
        return xp.where(is_diagonal, relative_change, factor_change)

    def _inverse_differential(self, frame: Array, X: Array) -> Array:
        """Return the velocity of the matrix LLᵀ for a velocity X in the chart.

        The factor L changes by Y (`factor_change`), which is X with the diagonal
        multiplied by that of L. Then the matrix changes by LYᵀ + YLᵀ.

        Parameters
        ----------
        frame : array, shape (..., m, m)
            The Cholesky factor L.
        X : array, shape (..., m, m)
            A lower triangular matrix, the velocity in the chart.

        Returns
        -------
        array, shape (..., m, m)
            The tangent vector, a symmetric matrix.
        """
        factor_change = namespace(frame, X).where(_is_diagonal(X), X * frame, X)
        product = frame @ factor_change.mT
        return product + product.mT

    def _difference(self, frame: Array, p: Array, q: Array) -> Array:
        """Return the chart of q minus the chart of p.

        Let p = LLᵀ and q = KKᵀ. The difference is K − L below the diagonal, and
        log(Kⱼⱼ/Lⱼⱼ) on the diagonal. For near points it is computed from the matrix F
        (`relative_change`) with K = L(I + F): then K − L = LF and log(Kⱼⱼ/Lⱼⱼ) =
        log1p(Fⱼⱼ), and I + F is the Cholesky factor of I + L⁻¹(q − p)L⁻ᵀ. For far
        points, and for a q that is much larger or smaller than p, K itself is computed.

        Parameters
        ----------
        frame : array, shape (..., m, m)
            The Cholesky factor L of p.
        p, q : array, shape (..., m, m)
            Two points.

        Returns
        -------
        array, shape (..., m, m)
            Lower triangular matrices.
        """
        L = frame
        xp = namespace(frame, q)
        is_diagonal = _is_diagonal(frame)

        # Near points, by F.
        _, log_scale = match_scale(p, q)
        has_other_units = (xp.abs(log_scale) > _OTHER_UNITS)[..., None, None]
        whitened_difference = matrix.whiten(L, xp.where(has_other_units, 0.0, q - p))
        relative_change = matrix.cholesky_minus_identity(whitened_difference)
        log_ratio = xp.log1p(xp.where(is_diagonal, relative_change, 0.0))
        near = xp.where(is_diagonal, log_ratio, L @ relative_change)

        # Far points, by K.
        large_change = is_diagonal & ~(xp.abs(relative_change) < _NEAR)
        is_far = has_other_units | xp.any(large_change, axis=(-2, -1), keepdims=True)
        K = cholesky(xp.where(is_far, q, p))
        ratio = xp.where(is_diagonal, K, 1.0) / xp.where(is_diagonal, L, 1.0)
        far = xp.where(is_diagonal, xp.log(ratio), K - L)
        return xp.where(is_far, far, near)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        Its velocity in the chart φ is the lower triangular matrix with entries z, row
        by row.

        Parameters
        ----------
        p : array, shape (..., m, m)
            A point.
        z : array, shape (..., dim)
            Coordinates.

        Returns
        -------
        array, shape (..., m, m)
            The tangent vectors, symmetric matrices.
        """
        # `unpack` divides off-diagonal entries by √2, which is undone here.
        S = unpack(z, self.m)
        xp = namespace(z)
        lower = xp.where(_is_diagonal(S), S, xp.tril(S * 2**0.5))
        return self._inverse_differential(cholesky(p), lower)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the coordinates of v at p: the lower triangle of dφ(v), row by row."""
        return _pack_lower(self._differential(cholesky(p), v))

    def normal_coordinates(self, p: Array, q: Array) -> Array:
        """Return the normal coordinates of q at p, in twice the precision for NumPy arrays.

        They are the entries of φ(q) − φ(p), where φ is the chart of the Cholesky factor.
        Mechanisms add noise to these coordinates. Also far from the identity, round-off
        must not move them by more than a change of q does, and this needs the precision.

        Parameters
        ----------
        p, q : arrays, shape (..., m, m)
            The point at which the coordinates are taken, and the point they describe.

        Returns
        -------
        array, shape (..., dim)
            The coordinates.
        """
        if is_numpy_array(q):
            return _pack_lower(log_cholesky_change(p, q))
        return super().normal_coordinates(p, q)

    def fast_normal_coordinates(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the normal coordinates at p of points q in plain doubles.

        They are the lower triangle of φ(q) − φ(p), in the chart φ of the Cholesky
        factor and its log-diagonal; `normal_coordinates` has twice the precision.

        Parameters
        ----------
        p : array of shape (m, m)
            The point at which the coordinates are taken.
        q : array of shape (n, m, m)
            The points that they describe.

        Returns
        -------
        array of shape (n, dim)
            The coordinates.
        """
        return np.asarray(super().normal_coordinates(p, q))


def _log_cholesky_amplification(m: int, radius: float) -> float:
    """Bound how far a matrix moves per unit of relative error of its entries.

    Distances are those of the Log-Cholesky metric, and the proof is in
    docs/theory/geometry.md. Consider the Cholesky factor of the matrix. The bound grows
    with three lengths: `plus` and `minus`, of the vectors of the positive and of the
    negative logarithms of its diagonal, and `strict`, of the entries below the diagonal.
    The sum of the squares of these lengths is radius². This part of a sphere is covered
    by cells, and in each cell the largest value of each length is used.

    Parameters
    ----------
    m : int
        The number of rows.
    radius : float
        Distance of the matrix from the identity.

    Returns
    -------
    float
        The bound; inf where it overflows.
    """
    if m == 1:
        return 1.0  # only the logarithm of one number moves, by ½

    # The lengths in polar coordinates, with one row and one column for the cells of the
    # two angles. In a cell the sine is largest at the larger end, the cosine at the other.
    angle = np.arange(_ANGLE_CELLS + 1) / _ANGLE_CELLS * (np.pi / 2)
    largest_sine = np.sin(angle[1:])
    largest_cosine = np.cos(angle[:-1])
    plus = radius * largest_cosine[:, None]
    minus = radius * largest_sine[:, None] * largest_cosine
    strict = radius * largest_sine[:, None] * largest_sine

    # At distances at which matrices are not in the range of doubles, terms overflow and
    # the bound is infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        trace = m + sqrt(m) * np.expm1(2 * plus) + strict**2  # bounds tr P = ‖L‖²
        inverse_norm = sqrt(m) * np.exp(minus)  # bounds ‖L⁻¹‖
        for power in range(1, m):
            coefficient = sqrt(comb(m - 2, power - 1) / factorial(power))
            term = coefficient * np.exp(sqrt(power + 1) * minus) * strict**power
            inverse_norm = inverse_norm + term
        bound = np.max(sqrt(2) * (1 + np.sqrt(trace)) * trace * inverse_norm**2)
    return float(bound) if np.isfinite(bound) else inf


def _pack_lower(X: Array) -> Array:
    """Return the entries on and below the diagonal of X, row by row.

    Parameters
    ----------
    X : array of shape (..., m, m)
        Lower triangular matrices.

    Returns
    -------
    array of shape (..., m(m + 1)/2)
        The entries.
    """
    return pack(namespace(X).where(_is_diagonal(X), X, X / 2**0.5))


def _is_diagonal(L: Array) -> Array:
    """Return a mask of the diagonal entries of one m×m matrix.

    Parameters
    ----------
    L : array of shape (..., m, m)
        Matrices, which give the size, the array library and the device.

    Returns
    -------
    array of bool, shape (m, m)
        True on the diagonal.
    """
    index = namespace(L).arange(L.shape[-1], device=device(L))
    return index[:, None] == index
