"""The groups SO(n) of rotation matrices. Tangent vectors at a rotation p are the
matrices p·A with a skew-symmetric matrix A, and p·exp(A) is the end of the geodesic
with this velocity.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp.geometry.capabilities import bracket_jacobi_operator
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.frames import OrthonormalFrames
from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import namespace
from curvedp.numerics.elementary import cos_sinc, versine_quotient
from curvedp.numerics.matrix_functions import (
    det,
    skew,
    skew_from_vector,
    skew_to_vector,
    svd,
)
from curvedp.numerics.rotation_log import rotation_log


@dataclass(frozen=True)
class Rotations(OrthonormalFrames):
    """Rotation matrices SO(n), n ≥ 2, with the bi-invariant metric ½tr(uᵀv).

    On SO(3) the distance of p and q is the angle of the rotation pᵀq. In general it is
    √Σθ², the sum over the planes that pᵀq rotates by angles θ. Tangent vectors at p are
    n×n matrices: p times a skew-symmetric matrix.

    Parameters
    ----------
    n : int
        The dimension of the space that is turned.

    Examples
    --------
    >>> M = Rotations(3)
    >>> turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> round(float(M.dist(M.origin, turn) * 2 / np.pi), 12)
    1.0
    """

    kind = "rotations"
    n: int
    sizes = (("n", 2),)
    is_symmetric = True

    # exp is injective as long as every plane turns by less than π, and the length of a
    # turn in one plane alone is its angle.
    injectivity_radius = math.pi

    @property
    def dim(self) -> int:
        """The dimension n(n − 1)/2, the number of planes of two axes."""
        return self.n * (self.n - 1) // 2

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is an n×n matrix."""
        return (self.n, self.n)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds of sectional curvatures, ¼‖[X, Y]‖² for orthonormal X and Y.

        The curvature is ¼ on SO(3). For n ≥ 4 it is between 0 and ½, because
        ‖[X,Y]‖_F ≤ ‖X‖_F‖Y‖_F (Bloch & Iserles 2005; Ge 2014).
        """
        if self.n == 2:
            return (0.0, 0.0)
        if self.n == 3:
            return (0.25, 0.25)
        return (0.0, 0.5)

    @property
    def embedded_diameter(self) -> float:
        """The largest distance of two embedded rotations, which are divided by √n.

        It follows from the trace of a rotation, which is at least −n for even n and at
        least 2 − n for odd n.
        """
        n_turned = self.n - self.n % 2
        return 2.0 * math.sqrt(n_turned / self.n)

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the matrix of the curvature operator u ↦ R(u, v)v in coordinates at p.

        It is −¼[[·, V], V], where V = pᵀv is skew and [A, B] = AB − BA (Helgason 1978,
        IV.4).

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
        """Return the end of the geodesic from p with velocity v.

        It is p·exp(pᵀv), where pᵀv is skew-symmetric.

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
        return p + p @ _exp_minus_identity(namespace(p, v), skew(p.mT @ v))

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        It is p·log(pᵀq), with the principal logarithm of a rotation. If pᵀq rotates a
        plane by π, there are several shortest velocities; one is chosen, always the
        same.

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
        rotation_minus_identity = p.mT @ (q - p)  # pᵀq − I
        return p @ rotation_log(rotation_minus_identity)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product ½tr(uᵀv) of tangent matrices u and v at p."""
        return super().inner(p, u, v) / 2

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length of the tangent matrix v: its Frobenius norm over √2.

        With this factor a unit vector turns a plane by one radian in unit time.
        """
        return super().norm(p, v) * math.sqrt(0.5)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v transported in parallel along the shortest geodesic.

        Let v = pA and q = p·e^Ω with skew-symmetric matrices A and Ω. The transported
        vector is p·e^{Ω/2}·A·e^{Ω/2}.

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
        rotation_minus_identity = p.mT @ (q - p)  # pᵀq − I
        omega = rotation_log(rotation_minus_identity)

        # Products with exp(Ω/2) as products with I plus exp(Ω/2) − I, which keeps the
        # digits of a small rotation.
        root_minus_identity = _exp_minus_identity(namespace(p, q, v), omega / 2)
        left_product = (p + p @ root_minus_identity) @ (p.mT @ v)  # p·e^{Ω/2}·A
        return left_product + left_product @ root_minus_identity

    def project(self, x: Array) -> Array:
        """Return the rotation nearest to x.

        It is the polar factor of x. If that is a reflection (determinant −1), the
        direction of the smallest singular value is reversed.
        """
        rotation, _, _ = self._polar(x)
        return rotation

    def from_record(self, x: Array) -> Array:
        """Return the rotation nearest to a record x, which may have any scale.

        Let σ_{n−1} ≥ σ_n be the two smallest singular values of x, and s the sign of
        det x. The nearest rotation is unique if σ_{n−1} + s·σ_n > 0. Otherwise the
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
        point, singular_values, sign = self._polar(matrix.well_scaled(x))
        eps = float(xp.finfo(singular_values.dtype).eps)
        margin = singular_values[..., -2] + sign * singular_values[..., -1]
        is_unique = margin > self.n * eps * singular_values[..., 0]
        return xp.where(is_unique[..., None, None], point, xp.nan)

    @staticmethod
    def _polar(x: Array) -> tuple[Array, Array, Array]:
        """Return the rotation nearest to x, by a singular value decomposition.

        `project` returns it, and `from_record` also checks that it is unique.

        Parameters
        ----------
        x : array of shape (..., n, n)
            Matrices.

        Returns
        -------
        rotation : array of shape (..., n, n)
            The nearest rotation: U·diag(1, …, 1, sign)·Vᵀ for x = U·diag(σ)·Vᵀ.
        singular_values : array of shape (..., n)
            σ, in descending order.
        sign : array of shape (...)
            The sign of det x, which says whether the last direction is reversed.
        """
        xp = namespace(x)
        U, singular_values, Vh = svd(x)
        parity = det(U) * det(Vh)
        sign = xp.where(parity < 0, -1.0, xp.ones_like(parity))
        last_column = U[..., :, -1:] * sign[..., None, None]
        oriented = xp.concat([U[..., :, :-1], last_column], axis=-1)
        return oriented @ Vh, singular_values, sign

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent matrix at p nearest to x: p times the skew part of pᵀx."""
        return p @ skew(p.mT @ x)

    def residual(self, p: Array) -> Array:
        """Return how far a matrix p is from being a rotation.

        It is the Frobenius norm of pᵀp − I plus |det p − 1|.
        """
        return super().residual(p) + namespace(p).abs(det(p) - 1)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        It is p times the skew matrix with entries z below the diagonal.

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
        return p @ skew_from_vector(z, self.n)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        They are the entries of pᵀv below the diagonal.

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
        return skew_to_vector(p.mT @ v)


def _exp_minus_identity(xp: Any, omega: Array) -> Array:
    """Return exp Ω − I for skew-symmetric Ω, accurate also for small Ω.

    For 2×2 and 3×3 matrices this is Rodrigues' formula sinc(θ)·Ω + (1 − cos θ)/θ²·Ω²
    with the angle θ, where θ² = ½‖Ω‖². For larger matrices the eigenvalues of Ω are
    used.

    Parameters
    ----------
    xp : module
        The array library.
    omega : array of shape (..., n, n)
        Skew matrices Ω.

    Returns
    -------
    array of shape (..., n, n)
        The matrices exp Ω − I.
    """
    if omega.shape[-1] > 3:
        rotation_minus_identity, _ = matrix.skew_exp(omega)
        return rotation_minus_identity
    angle_square = xp.sum(omega * omega, axis=(-2, -1), keepdims=True) / 2
    _, sinc = cos_sinc(xp, angle_square)
    return sinc * omega + versine_quotient(xp, angle_square) * (omega @ omega)
