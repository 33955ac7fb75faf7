"""Positive definite matrices with the Bures–Wasserstein metric: optimal transport of
Gaussians. The distance of two covariance matrices p and q is the Wasserstein distance
of centered Gaussians. The optimal transport map T from p to q is the positive definite
matrix with TpT = q.
"""

from math import inf
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.spd_common import SPD, pack, unpack
from curvedp.numerics.arrays import namespace
from curvedp.numerics.autodiff import constant, custom_jvp, with_derivative_of
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import column_and_row, euclidean_norm
from curvedp.numerics.matrix_functions import (
    cholesky,
    norm,
    polar,
    sandwich,
    sqrt_sym,
    sym,
    upper_solve,
)
from curvedp.numerics.spd_pencil import condition_bound

# The formula for far points replaces that for near points if the error bound of the
# latter is more than this many times as large.
_ERROR_FACTOR = 100.0


class SPDBuresWasserstein(SPD):
    """SPD(m) with ⟨U,V⟩_W = ½tr(L_W[U]·V), L_W[U] the solution of LW + WL = U.

    (Bhatia, Jain & Lim 2019.) Curvature is ≥ 0, and unbounded near singular matrices.
    The space is not complete: exp_W(V) is defined if I + L_W[V] is positive definite.
    The sensitivity of the Fréchet mean is not known, so private means need the
    mechanism "gradient" or an optimizer.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> M = SPDBuresWasserstein(2)
    >>> float(M.dist(np.eye(2), 4 * np.eye(2)))  # √2·|1 − 2|
    1.4142135623730951
    """

    kind = "spd-bures"
    is_homogeneous = False

    # No radius holds at every point. At W the injectivity radius is √λ_min(W), the
    # distance to the singular matrices (Massart & Absil 2020); inside it, and wherever
    # I + L_W[V] > 0, `log` inverts `exp`.
    injectivity_radius = 0.0

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds [0, ∞) of sectional curvatures; 0 for m = 1, which is a curve."""
        return (0.0, inf) if self.m > 1 else (0.0, 0.0)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        The end is (I+L)p(I+L) = p + v + LpL, where L solves Lp + pL = v. The geodesic
        exists only if I + L is positive definite; this is not checked.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        L = _lyapunov(p, v)
        return p + v + sym(L @ p @ L)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        It is (T−I)p + p(T−I), where T is the optimal transport map: the positive
        definite matrix with TpT = q.

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
        step = _transport_step(p, q)
        scaled_product = step.S @ step.G.mT  # (T − I)p/(p_unit·top_unit)
        sum_with_transpose = scaled_product + scaled_product.mT
        return sum_with_transpose * step.p_unit * step.top_unit

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q.

        It is ‖(T−I)G‖, with p = GGᵀ and the optimal transport map T from p to q. This
        equals √(tr p + tr q − 2tr(p^½qp^½)^½), which would lose the digits of near
        points by cancellation.

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
        step = _transport_step(p, q)
        return norm(step.S) * step.top_unit[..., 0, 0]

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product ½tr(Lv) of u and v at p, where L solves Lp + pL = u."""
        return 0.5 * namespace(p, u, v).sum(_lyapunov(p, u) * v, axis=(-2, -1))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved by an isometry that sends log(p, q) to −log(q, p).

        Parallel transport does so too, but no closed form of it is known. Instead the
        coordinates z of v at p are rotated, and the result is taken as coordinates at
        q. The rotation takes the direction in which the geodesic leaves p to the
        direction in which it arrives at q, both in coordinates (`_rotate_in_plane`).

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        v : array of shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved vectors, which are tangent at q.
        """
        xp = namespace(p, q, v)
        z = self.to_coordinates(p, v)
        leaving = self.to_coordinates(p, self.log(p, q))
        arriving = -self.to_coordinates(q, self.log(q, p))

        rotated = _rotate_in_plane(xp, _unit(xp, leaving), _unit(xp, arriving), z)
        return self.from_coordinates(q, rotated)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        It is U(√(2(λᵣ+λₛ)) ⊙ UᵀSU)Uᵀ, where p = U·diag(λ)·Uᵀ, S is the symmetric matrix
        with the coordinates z, and ⊙ multiplies entry by entry. This does not depend on
        the choice of eigenvectors.

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
        weights, U = _metric_weights(p)
        return sym(sandwich(U, weights * (U.mT @ unpack(z, self.m) @ U)))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        With p = U·diag(λ)·Uᵀ, they are those of the symmetric matrix U(UᵀvU /
        √(2(λᵣ+λₛ)))Uᵀ, divided entry by entry.

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
        weights, U = _metric_weights(p)
        return pack(sym(sandwich(U, (U.mT @ v @ U) / weights)))


def _unit(xp: Any, x: Array) -> Array:
    """Return the unit vectors x/|x| along the last axis, and 0 for x = 0."""
    length = euclidean_norm(xp, x)[..., None]
    return x / xp.where(length > 0, length, 1.0)


def _rotate_in_plane(xp: Any, a: Array, b: Array, z: Array) -> Array:
    """Apply to z the rotation that takes a unit vector a to another, b, in their plane.

    With c = a + b it is z ↦ z − 2c⟨c,z⟩/|c|² + 2b⟨a,z⟩. For b = −a the plane is not
    defined, and z is returned as it is.

    Parameters
    ----------
    xp : module
        The array library.
    a, b : arrays of shape (..., dim)
        Unit vectors, or vectors of zeros.
    z : array of shape (..., dim)
        The vectors to rotate.

    Returns
    -------
    array of shape (..., dim)
        The rotated vectors; z itself for b = −a, and if a and b are 0.
    """
    c = a + b
    c_square = xp.sum(c * c, axis=-1)[..., None]
    c_times_z = xp.sum(c * z, axis=-1)[..., None]
    a_times_z = xp.sum(a * z, axis=-1)[..., None]

    is_defined = c_square > 0
    along_c = 2 * c * (c_times_z / xp.where(is_defined, c_square, 1.0))
    rotated = z - along_c + 2 * b * a_times_z
    return xp.where(is_defined, rotated, z)


def _metric_weights(p: Array) -> tuple[Array, Array]:
    """Return the factors by which coordinates differ from entries in p's eigenbasis.

    The metric at p divides the square of entry (r, s) by 2(λᵣ + λₛ).

    Parameters
    ----------
    p : array of shape (..., m, m)
        Positive definite matrices with eigenvalues λ.

    Returns
    -------
    weights : array of shape (..., m, m)
        √(2(λᵣ + λₛ)) for all pairs r, s.
    U : array of shape (..., m, m)
        The eigenvectors of p, in columns.
    """
    eigenvalues, U = eigh(p)
    column, row = column_and_row(eigenvalues, eigenvalues)
    return namespace(p).sqrt(2 * (column + row)), U


def _lyapunov(p: Array, v: Array) -> Array:
    """Return the symmetric solution L of the Lyapunov equation Lp + pL = v.

    In the eigenbasis of p it divides by the sums λᵣ + λₛ of eigenvalues.

    Parameters
    ----------
    p : array, shape (..., m, m)
        Positive definite matrices.
    v : array, shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array, shape (..., m, m)
        L.
    """
    return custom_jvp(_lyapunov_by_eigenvalues, _lyapunov_with_change, p, v)


def _lyapunov_by_eigenvalues(p: Array, v: Array) -> Array:
    """Return the solution of `_lyapunov`, without a derivative of its own.

    Parameters
    ----------
    p, v : arrays, shape (..., m, m)
        Positive definite matrices, and symmetric matrices.

    Returns
    -------
    array, shape (..., m, m)
        L.
    """
    eigenvalues, U = eigh(p)
    column, row = column_and_row(eigenvalues, eigenvalues)
    return sym(sandwich(U, (U.mT @ v @ U) / (column + row)))


def _lyapunov_with_change(
    arrays: tuple[Array, Array], changes: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return L and its change L', which solves L'p + pL' = v' − Lp' − p'L, for JAX.

    Parameters
    ----------
    arrays : pair of arrays
        p and v.
    changes : pair of arrays
        Their changes p' and v'.

    Returns
    -------
    L, L' : arrays
        The solution of Lp + pL = v, and its change.
    """
    p, v = arrays
    p_change, v_change = changes
    L = _lyapunov(p, v)
    right_side = sym(v_change) - 2 * sym(L @ sym(p_change))
    return L, _lyapunov(p, right_side)


class _TransportStep(NamedTuple):
    """The step from p to q, where T is the optimal transport map and p = a²GGᵀ.

    The step is (T − I)·aG = c·S. The scale factors a (`p_unit`) and c (`top_unit`) keep
    the entries of G and S in the range of doubles.

    Attributes
    ----------
    G : array of shape (..., m, m)
        The Cholesky factor of p/a².
    S : array of shape (..., m, m)
        The step.
    p_unit : array of shape (..., 1, 1)
        a, a power of two of the size of √p.
    top_unit : array of shape (..., 1, 1)
        c, a power of two of the size of the larger of √p and √q.
    """

    G: Array
    S: Array
    p_unit: Array
    top_unit: Array


def _transport_step(p: Array, q: Array) -> _TransportStep:
    """Return the step (T − I)·√p of the transport map T from p to q, in scaled factors.

    The result contains G and S with p = a²GGᵀ and c·S = (T − I)·aG. The scale factors
    a (`p_unit`), b (`q_unit`) and c (`top_unit`) are called units. S is computed in one
    of two ways:

    - From the difference q − p, which keeps the digits of near points. The relative
      error is about u·cond(p), where u is the unit round-off.
    - As (bHW − aG)/c, where q = b²HHᵀ and W (`rotation`) is the orthogonal matrix that
      brings H nearest to G (Bhatia, Jain and Lim 2019, Theorem 1). The relative error is
      u·‖√p‖/distance. This way is used for NumPy arrays if the error is more than 100
      times smaller.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    _TransportStep
        G, S and the units.
    """
    scaled = _root_difference(p, q)
    G = scaled.G
    p_unit = scaled.p_unit
    top_unit = scaled.top_unit
    S = upper_solve(G, scaled.D)
    if not is_numpy_array(S):
        return _TransportStep(G, S, p_unit, top_unit)

    # Both errors, up to a common factor: cond(p)·‖S‖ and ‖√p‖. The comparison is written
    # so that a NaN counts as doubtful.
    p_share = p_unit / top_unit
    error_from_difference = condition_bound(G) * norm(S)
    error_from_factors = norm(G * p_share)
    is_doubtful = ~(error_from_difference <= _ERROR_FACTOR * error_from_factors)
    if in_public_time() or np.any(is_doubtful):
        q_unit = _root_unit(q)
        H = cholesky(q / q_unit / q_unit)
        rotation, _, _ = polar(H.mT @ G)
        from_factors = (q_unit / top_unit) * (H @ rotation) - p_share * G
        S = np.where(is_doubtful[..., None, None], from_factors, S)
    return _TransportStep(G, S, p_unit, top_unit)


class _RootDifference(NamedTuple):
    """The difference (KᵀqK)^½ − KᵀK of square roots for p = KKᵀ, in scaled factors.

    K is p_unit·G, and the difference is p_unit·top_unit·D.

    Attributes
    ----------
    G : array, shape (..., m, m)
        The Cholesky factor of p/p_unit².
    D : array, shape (..., m, m)
        The scaled difference.
    p_unit : array, shape (..., 1, 1)
        A power of two of the size of √p.
    top_unit : array, shape (..., 1, 1)
        A power of two of the size of the larger one of √p and √q.
    """

    G: Array
    D: Array
    p_unit: Array
    top_unit: Array


def _root_difference(p: Array, q: Array) -> _RootDifference:
    """Return the difference (KᵀqK)^½ − KᵀK of square roots for p = KKᵀ, scaled.

    With it the transport map T from p to q can be computed, because T − I =
    K⁻ᵀ((KᵀqK)^½ − KᵀK)K⁻¹.

    K is returned as p_unit·G and the difference as p_unit·top_unit·D, so that the
    entries of G and D are in the range of doubles, however large or small p and q are.
    With q_unit, a power of two of the size of √q, and q' = q/q_unit² (`scaled_q`),

        D = (q_unit/top_unit)·(Gᵀq'G)^½ − (p_unit/top_unit)·GᵀG.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    _RootDifference
        G, D and the units.
    """
    xp = namespace(p, q)
    p_unit = _root_unit(p)
    q_unit = _root_unit(q)
    top_unit = xp.maximum(p_unit, q_unit)
    scaled_p = p / p_unit / p_unit
    scaled_q = q / q_unit / q_unit
    G = cholesky(scaled_p)

    # The value is that of the accurate function; under JAX the derivative is that of the
    # smooth one.
    D = with_derivative_of(
        _smooth_difference,
        _accurate_difference,
        G,
        scaled_p,
        scaled_q,
        p_unit / top_unit,
        q_unit / top_unit,
    )
    return _RootDifference(G, D, p_unit, top_unit)


def _smooth_difference(
    G: Array, scaled_p: Array, scaled_q: Array, p_share: Array, q_share: Array
) -> Array:
    """Return D = q_share·(Gᵀq'G)^½ − p_share·GᵀG in a form that autodiff differentiates.

    Parameters
    ----------
    G : array, shape (..., m, m)
        The Cholesky factor of p'.
    scaled_p, scaled_q : arrays, shape (..., m, m)
        p' and q', which are p and q divided by the squares of their units.
    p_share, q_share : arrays, shape (..., 1, 1)
        The units of √p and √q, divided by the larger one.

    Returns
    -------
    array, shape (..., m, m)
        D, a symmetric matrix.
    """
    return q_share * sqrt_sym(sandwich(G.mT, scaled_q)) - p_share * G.mT @ G


def _accurate_difference(
    G: Array, scaled_p: Array, scaled_q: Array, p_share: Array, q_share: Array
) -> Array:
    """Return D = q_share·(Gᵀq'G)^½ − p_share·GᵀG with small round-off.

    Let X = p_share²·Gᵀp'G and Y = q_share²·Gᵀq'G, so that D = √Y − √X and √X =
    p_share·GᵀG. Let U and V be their eigenvectors, and xᵢ and yⱼ their eigenvalues. The
    entries of Uᵀ(√Y − √X)V are those of Uᵀ(Y − X)V, divided by √xᵢ + √yⱼ.

    Parameters
    ----------
    G : array, shape (..., m, m)
        The Cholesky factor of p'.
    scaled_p, scaled_q : arrays, shape (..., m, m)
        p' and q', which are p and q divided by the squares of their units.
    p_share, q_share : arrays, shape (..., 1, 1)
        The units of √p and √q, divided by the larger one.

    Returns
    -------
    array, shape (..., m, m)
        D, a symmetric matrix; NaN if a matrix is not positive definite.
    """
    xp = namespace(G, scaled_q)
    gram_eigenvalues, U = eigh(G.mT @ G)
    product_eigenvalues, V = eigh(sym(sandwich(G.mT, scaled_q)))
    is_nonnegative = product_eigenvalues >= 0
    product_roots = xp.sqrt(xp.where(is_nonnegative, product_eigenvalues, xp.nan))

    scaled_change = q_share * q_share * scaled_q - p_share * p_share * scaled_p
    change = sandwich(G.mT, scaled_change)  # Y − X
    column, row = column_and_row(gram_eigenvalues, product_roots)
    sums = p_share * column + q_share * row  # √xᵢ + √yⱼ
    return sym(sandwich(U, (U.mT @ change @ V) / sums, V))


def _root_unit(p: Array) -> Array:
    """Return the power of two nearest to the root of the largest entry of each matrix.

    Matrices are divided by the square of this unit before they are factored, so that
    their entries are near 1 and no product over- or underflows. Their square roots are
    then in this unit. Dividing by a power of two has no rounding error.

    Parameters
    ----------
    p : array, shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    array, shape (..., 1, 1)
        The powers of two; 1 for a matrix that is zero or not finite. Automatic
        differentiation treats them as constants: results do not depend on the unit.
    """
    xp = namespace(p)
    largest = constant(xp.max(xp.abs(p), axis=(-2, -1), keepdims=True))
    is_usable = (largest > 0) & (largest < inf)
    return 2.0 ** xp.round(xp.log2(xp.where(is_usable, largest, 1.0)) / 2)
