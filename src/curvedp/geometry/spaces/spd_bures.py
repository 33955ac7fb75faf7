"""SPD(m) with the Bures–Wasserstein metric: optimal transport of Gaussians."""

from math import inf
from typing import NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.spd_common import SPD, pack, unpack
from curvedp.numerics.arrays import namespace
from curvedp.numerics.autodiff import constant, custom_jvp, with_derivative_of
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.matrix_functions import (
    cholesky,
    norm,
    polar,
    sandwich,
    sqrt_sym,
    sym,
    upper_solve,
)
from curvedp.numerics.spd_pencil import condition

# The formula for near points is replaced by the one for far points where its error
# bound is more than this many times the other's.
_ERROR_FACTOR = 100.0


class SPDBuresWasserstein(SPD):
    """SPD(m) with ⟨U,V⟩_W = ½tr(L_W[U]·V), L_W[U] the solution of LW + WL = U.

    (Bhatia, Jain & Lim 2019.) Curvature is ≥ 0 and unbounded above near singular
    matrices; the space is not complete: exp_W(V) is defined where I + L_W[V] is
    positive definite. No Fréchet sensitivity is known, so private means use the
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
        """The bounds [0, ∞) of sectional curvatures; 0 for m = 1, which has no planes."""
        return (0.0, inf) if self.m > 1 else (0.0, 0.0)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        It is (I+L)p(I+L) = p + v + LpL, where L solves Lp + pL = v. The geodesic goes
        so far only while I + L is positive definite; this is not checked.

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
        scaled_product = step.S @ step.G.mT  # (T − I)p in units
        sum_with_transpose = scaled_product + scaled_product.mT
        return sum_with_transpose * step.root_unit * step.top_unit

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

        Parallel transport does so too, but no closed form of it is known. The
        coordinates of v at p are taken as coordinates at q, and rotated in the plane of
        two unit vectors: a, the coordinates at p of the direction in which the geodesic
        leaves, and b, those at q of the direction in which it arrives. The rotation
        takes a to b. With c = a + b it is z ↦ z − 2c⟨c,z⟩/|c|² + 2b⟨a,z⟩.

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

        def dot(x: Array, y: Array) -> Array:
            """Return the dot products of vectors x and y, with a last axis of length 1."""
            return xp.sum(x * y, axis=-1)[..., None]

        def unit(x: Array) -> Array:
            """Return the unit vectors x/|x|, and 0 for x = 0."""
            length = euclidean_norm(xp, x)[..., None]
            return x / xp.where(length > 0, length, 1.0)

        a, b = unit(leaving), unit(arriving)
        c = a + b
        c_square = dot(c, c)

        # Velocities that are opposite, or of length 0, leave z as it is.
        is_defined = c_square > 0
        along_c = 2 * c * (dot(c, z) / xp.where(is_defined, c_square, 1.0))
        rotated = z - along_c + 2 * b * dot(a, z)
        return self.from_coordinates(q, xp.where(is_defined, rotated, z))

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
    sums = eigenvalues[..., :, None] + eigenvalues[..., None, :]
    return namespace(p).sqrt(2 * sums), U


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

    def solve(p: Array, v: Array) -> Array:
        """Return the solution L itself; autodiff takes its derivative from `rule`."""
        eigenvalues, U = eigh(p)
        sums = eigenvalues[..., :, None] + eigenvalues[..., None, :]
        return sym(sandwich(U, (U.mT @ v @ U) / sums))

    def rule(
        arrays: tuple[Array, Array], changes: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return L and its change L', which solves L'p + pL' = v' − Lp' − p'L.

        Parameters
        ----------
        arrays : pair of arrays
            p and v.
        changes : pair of arrays
            Their changes p' and v'.

        Returns
        -------
        L, L' : arrays
            The solution and its change.
        """
        L = _lyapunov(*arrays)
        p_change, v_change = changes
        right_side = sym(v_change) - 2 * sym(L @ sym(p_change))
        return L, _lyapunov(arrays[0], right_side)

    return custom_jvp(solve, rule, p, v)


class _TransportStep(NamedTuple):
    """The step from p to q in scaled factors: p = a²GGᵀ and c·S = (T−I)·aG.

    T is the optimal transport map from p to q.

    Attributes
    ----------
    G : array of shape (..., m, m)
        The Cholesky factor of p/a².
    S : array of shape (..., m, m)
        The step.
    root_unit : array of shape (..., 1, 1)
        a, a power of two of the size of √p.
    top_unit : array of shape (..., 1, 1)
        c, a power of two of the size of the larger of √p and √q.
    """

    G: Array
    S: Array
    root_unit: Array
    top_unit: Array


def _transport_step(p: Array, q: Array) -> _TransportStep:
    """Return the step (T − I)·√p of the transport map T from p to q, in scaled factors.

    The result holds G and S with p = a²GGᵀ and c·S = (T − I)·aG, where a and c are
    units. There are two ways to compute S:

    - From the difference q − p, which keeps the digits of near points. The relative
      error is about u·cond(p), u the unit roundoff.
    - As (bHW − aG)/c, where q = b²HHᵀ and W is the orthogonal matrix that brings H
      nearest to G (Bhatia, Jain and Lim 2019, Theorem 1). The error is u·‖√p‖/distance.
      It is used for NumPy arrays, where it is more than 100 times smaller.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    _TransportStep
        G, S and the units.
    """
    xp = namespace(p, q)
    G, difference, p_unit, top_unit = _root_difference(p, q)
    S = upper_solve(G, difference)
    if not is_numpy_array(S):
        return _TransportStep(G, S, p_unit, top_unit)

    # Both errors in units of u/c: cond(p)·‖S‖, and ‖√p‖. Written so that NaN is
    # doubtful.
    error_from_difference = condition(G) * norm(S)
    error_from_factors = norm(G * (p_unit / top_unit))
    is_doubtful = ~(error_from_difference <= _ERROR_FACTOR * error_from_factors)
    if in_public_time() or np.any(is_doubtful):
        q_unit = _root_unit(q)
        H = cholesky(q / q_unit / q_unit)
        rotation, _, _ = polar(H.mT @ G)
        from_factors = (q_unit / top_unit) * (H @ rotation) - (p_unit / top_unit) * G
        S = xp.where(is_doubtful[..., None, None], from_factors, S)
    return _TransportStep(G, S, p_unit, top_unit)


def _root_difference(p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """Return the difference (KᵀqK)^½ − KᵀK of square roots, in units, for p = KKᵀ.

    It gives the transport map T from p to q, because T − I = K⁻ᵀ((KᵀqK)^½ − KᵀK)K⁻¹.
    Units a and c are powers of two, of the sizes of √p and of the larger of √p and √q.
    With K = aG and the difference a·c·D, the entries of G and D stay in the doubles for
    matrices of any unit.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        Positive definite matrices.

    Returns
    -------
    G : array, shape (..., m, m)
        The Cholesky factor of p/a².
    difference : array, shape (..., m, m)
        D.
    p_unit, top_unit : array, shape (..., 1, 1)
        a and c.
    """
    xp = namespace(p, q)
    p_unit, q_unit = _root_unit(p), _root_unit(q)
    top_unit = xp.maximum(p_unit, q_unit)
    G = cholesky(p / p_unit / p_unit)

    def smooth(G: Array, p: Array, q: Array, p_unit: Array, q_unit: Array) -> Array:
        """Return the difference by formulas that autodiff can differentiate."""
        return q_unit * sqrt_sym(sandwich(G.mT, q)) - p_unit * G.mT @ G

    def accurate(G: Array, p: Array, q: Array, p_unit: Array, q_unit: Array) -> Array:
        """Return the difference with small round-off, by divided differences of √x."""
        gram_eigenvalues, U = eigh(G.mT @ G)
        product_eigenvalues, V = eigh(sym(sandwich(G.mT, q)))
        root = xp.sqrt(xp.where(product_eigenvalues >= 0, product_eigenvalues, xp.nan))
        change = sandwich(G.mT, q_unit * q_unit * q - p_unit * p_unit * p)
        sums = p_unit * gram_eigenvalues[..., :, None] + q_unit * root[..., None, :]
        return sym(sandwich(U, (U.mT @ change @ V) / sums, V))

    difference = with_derivative_of(
        smooth,
        accurate,
        G,
        p / p_unit / p_unit,
        q / q_unit / q_unit,
        p_unit / top_unit,
        q_unit / top_unit,
    )
    return G, difference, p_unit, top_unit


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
