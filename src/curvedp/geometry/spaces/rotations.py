"""Rotation groups SO(n)."""

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

    On SO(3) the distance is the angle; in general it is √Σθ² over the planes of
    rotation of pᵀq. Tangent vectors at p are ambient: p times a skew matrix.

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
        """The range of ¼‖[X, Y]‖² over orthonormal X, Y.

        Constant ¼ on SO(3); for n ≥ 4 at most ½, because ‖[X,Y]‖_F ≤ ‖X‖_F‖Y‖_F (Bloch
        & Iserles 2005; Ge 2014).
        """
        if self.n == 2:
            return (0.0, 0.0)
        if self.n == 3:
            return (0.25, 0.25)
        return (0.0, 0.5)

    @property
    def embedded_diameter(self) -> float:
        """Largest distance of rotations divided by √n.

        The trace of a rotation is at least −n, and 2 − n for odd n.
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
        return p @ rotation_log(p.mT @ (q - p))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the inner product ½tr(uᵀv) of tangent matrices u and v at p."""
        return super().inner(p, u, v) / 2

    def norm(self, p: Array, v: Array) -> Array:
        """Return the length of the tangent matrix v: its Frobenius norm over √2.

        A unit vector so turns a plane by one radian in unit time.
        """
        return super().norm(p, v) * math.sqrt(0.5)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v transported in parallel along the shortest geodesic.

        For v = pA and q = p·e^Ω it is p·e^{Ω/2}·A·e^{Ω/2}.

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
        omega = rotation_log(p.mT @ (q - p))
        # exp(Ω/2) − I, which keeps the digits of a small rotation
        root_minus_identity = _exp_minus_identity(namespace(p, q, v), omega / 2)
        left_product = (p + p @ root_minus_identity) @ (p.mT @ v)  # p·e^{Ω/2}·A
        return left_product + left_product @ root_minus_identity

    def project(self, x: Array) -> Array:
        """Return the rotation nearest to x.

        It is the polar factor of x. If that is a reflection (determinant −1), the
        direction of the smallest singular value is reversed.
        """
        return self._polar(x)[0]

    def from_record(self, x: Array) -> Array:
        """Return the rotation nearest to a record x, which may have any scale.

        It is unique if σ_{n−1} + s·σ_n > 0, where σ_{n−1} and σ_n are the smallest
        singular values of x, and s is the sign of det x. Otherwise the result is NaN.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN where there is none.
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

    Up to 3×3 matrices Rodrigues' formula sinc(θ)·Ω + (1 − cos θ)/θ²·Ω² is used, with
    the angle θ, θ² = ½‖Ω‖²; for larger ones the eigenvalues of Ω.

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
        return matrix.skew_exp(omega)[0]
    angle_square = xp.sum(omega * omega, axis=(-2, -1), keepdims=True) / 2
    _, sinc = cos_sinc(xp, angle_square)
    return sinc * omega + versine_quotient(xp, angle_square) * (omega @ omega)
