"""Geodesics of the Stiefel manifold of orthonormal frames, in coordinates. The frame p at
which a geodesic starts becomes E = [I; 0], the r×r identity above k rows of zeros. A
velocity at E is X = [A; B], with A skew (r×r) and B any k×r matrix, and the geodesic
ends at E + `endpoint`(A, B). A `GeodesicFlow` also has the derivative of the end.

These coordinates are those of a frame [p Q] with r + k columns, k <= r, so that a problem
has the size (r + k)×r, however many rows p has. `stiefel_log` solves for the velocity
that leads to a wanted end.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.elementary import column_and_row
from curvedp.numerics.matrix_functions import skew, skew_eigen, skew_exp, skew_exp_eigen


def endpoint(A: Array, B: Array) -> tuple[Array, Array]:
    """Return the end of a geodesic that starts at E = [I; 0], relative to E.

    E has r + k rows: the r×r identity above k rows of zeros. With the velocity [A; B],
    the end is exp(G)·E·exp(−A), where G = [2A −Bᵀ; B 0] is the `generator`. A small
    (A, B) keeps its digits.

    Parameters
    ----------
    A : array, shape (..., r, r)
        The skew part of the velocity.
    B : array, shape (..., k, r)
        The other part.

    Returns
    -------
    step : array, shape (..., r + k, r)
        The end minus E.
    mean : array, shape (..., r, r)
        The top left block of ∫₀¹ exp(tG) dt, times exp(−A). For a velocity pA + N with
        N orthogonal to p, the end of the geodesic has the part N·mean.
    """
    r = A.shape[-1]
    left_change, mean = skew_exp(generator(A, B))
    right_change, _ = skew_exp(-A)
    step = _end_minus_start(left_change[..., :, :r], right_change)
    mean_block = mean[..., :r, :r]
    return step, mean_block + mean_block @ right_change


def generator(A: Array, B: Array) -> Array:
    """Return the skew matrix [2A −Bᵀ; B 0].

    Its exponential moves the frame [p Q] along the geodesic with velocity pA + QB.

    Parameters
    ----------
    A : array of shape (..., r, r)
        Skew-symmetric matrices.
    B : array of shape (..., k, r)
        The parts of the velocity orthogonal to p.

    Returns
    -------
    array of shape (..., r + k, r + k)
        The matrix G of `endpoint`.
    """
    xp = namespace(A, B)
    k = B.shape[-2]
    zero = xp.zeros((*B.shape[:-2], k, k), dtype=B.dtype, device=device(B))
    top = xp.concat([2 * A, -B.mT], axis=-1)
    bottom = xp.concat([B, zero], axis=-1)
    return xp.concat([top, bottom], axis=-2)


class GeodesicFlow(NamedTuple):
    """The geodesic with velocity X = [A; B], by the eigen-systems of its generators.

    exp(G) = Z·e^{iw}·Z* and exp(−A) = Y·e^{iu}·Y*, with G the `generator` of (A, B), Z
    and Y unitary, and w and u real. Its end, its derivative and the transport of
    vectors along it follow from these without another decomposition.
    """

    Z: Array  # complex, shape (..., r + k, r + k)
    w: Array  # shape (..., r + k)
    Y: Array  # complex, shape (..., r, r)
    u: Array  # shape (..., r)

    @classmethod
    def at(cls, A: Array, B: Array) -> "GeodesicFlow":
        """Compute the eigen-systems for the velocity (A, B).

        Parameters
        ----------
        A : array, shape (..., r, r)
            The skew block of the velocity.
        B : array, shape (..., k, r)
            The other block.

        Returns
        -------
        GeodesicFlow
            The geodesic from E with this velocity.
        """
        w, Z = skew_eigen(generator(A, B))
        u, Y = skew_eigen(-A)
        return cls(Z, w, Y, u)

    def endpoint(self) -> Array:
        """Return the end of the geodesic minus E, which is exp(G)·E·exp(−A) − E.

        Returns
        -------
        array, shape (..., r + k, r)
            The difference, with all digits of a short geodesic.
        """
        left_change = skew_exp_eigen(self.w, self.Z)[0]
        right_change = skew_exp_eigen(self.u, self.Y)[0]
        return _end_minus_start(left_change[..., :, : self.u.shape[-1]], right_change)

    def derivative(self, xp: Any, X: Array) -> Array:
        """Return the derivative of the endpoint in the direction X, moved to E.

        The result is a tangent vector at E, moved there from the end of the geodesic by
        the isometry x ↦ exp(G)ᵀ·x·exp(A).

        Parameters
        ----------
        xp : module
            The array library.
        X : array, shape (..., r + k, r)
            A change of the velocity.

        Returns
        -------
        array, shape (..., r + k, r)
            The change of the end, to first order. For a short geodesic it is about X.
        """
        # X = [a; b], as the velocity is [A; B].
        r = self.u.shape[-1]
        a = X[..., :r, :]
        b = X[..., r:, :]

        left = _exp_derivative(xp, self.Z, self.w, generator(a, b), -1)
        right = _exp_derivative(xp, self.Y, self.u, -a, 1)
        change = left[..., :, :r] + _append_zero_rows(right, b.shape[-2])
        return tangent_part(xp, change, r)

    def jacobian(self, xp: Any) -> Array:
        """Return `derivative` as a matrix, in the coordinates of `to_vector`.

        Newton's method solves a linear system with it, if the system is small.

        Parameters
        ----------
        xp : module
            The array library.

        Returns
        -------
        array, shape (..., d, d)
            The Jacobian of the end with respect to the velocity; d is the number of
            unknowns.
        """
        r = self.u.shape[-1]
        k = self.w.shape[-1] - r
        basis = like(self.w, np.eye(n_unknowns(r + k, r)))
        # One more axis, along which the derivatives in all d directions are computed.
        with_direction_axis = GeodesicFlow(
            self.Z[..., None, :, :],
            self.w[..., None, :],
            self.Y[..., None, :, :],
            self.u[..., None, :],
        )
        images = with_direction_axis.derivative(xp, from_vector(xp, basis, r, k))
        return to_vector(xp, images, r).mT

    def pull_back(self, gap: Array) -> Array:
        """Return a gap at the end of the geodesic as a tangent vector at E.

        E is the start of the geodesic, the identity above rows of zeros. The isometry
        that moves E to the end is reversed.

        Parameters
        ----------
        gap : array, shape (..., r + k, r)
            A difference of frames, in the coordinates of the frame [p Q].

        Returns
        -------
        array, shape (..., r + k, r)
            The tangent part of exp(G)ᵀ·gap·exp(A).
        """
        xp = namespace(gap)

        at_start = _apply_exponential(xp, self.Z, -self.w, gap)  # exp(G)ᵀ·gap
        at_start = _apply_exponential(xp, self.Y, self.u, at_start.mT).mT
        return tangent_part(xp, at_start, self.u.shape[-1])


def _exp_derivative(xp: Any, Z: Array, w: Array, direction: Array, side: int) -> Array:
    """Return the derivative of the exponential of a skew matrix M, carried back to I.

    In the eigenbasis, exp(M)⁻¹·Dexp(M) (side −1) and Dexp(M)·exp(M)⁻¹ (side 1)
    multiply the entries by e^{±i(w_r − w_s)/2}·sinc((w_r − w_s)/2).

    Parameters
    ----------
    xp : module
        The array library.
    Z : complex array, shape (..., n, n)
        The eigenvectors of the skew matrix M.
    w : array, shape (..., n)
        Real numbers: the eigenvalues of M are iw.
    direction : array, shape (..., n, n)
        A skew matrix, the change of M.
    side : {−1, 1}
        Whether exp(M)⁻¹ is multiplied from the left (−1) or the right (1).

    Returns
    -------
    array, shape (..., n, n)
        A skew matrix.
    """
    column, row = column_and_row(w, w)
    half_gap = (column - row) / 2
    rotation = matrix.phase(xp, side * half_gap, Z.dtype)
    factors = rotation * xp.astype(matrix.sinc(xp, half_gap), Z.dtype)
    return matrix.divided_difference_map(factors, Z, direction)


def _apply_exponential(xp: Any, Z: Array, w: Array, x: Array) -> Array:
    """Return Re Z·e^{iw}·Z*·x: the exponential of a skew matrix, times x.

    Parameters
    ----------
    xp : module
        The array library.
    Z : complex array, shape (..., n, n)
        The eigenvectors of the skew matrix.
    w : array, shape (..., n)
        Real numbers: the eigenvalues of the skew matrix are iw.
    x : array, shape (..., n, k)
        A matrix.

    Returns
    -------
    array, shape (..., n, k)
        The product.
    """
    in_eigenbasis = xp.conj(Z).mT @ xp.astype(x, Z.dtype)
    rotated = matrix.phase(xp, w, Z.dtype)[..., :, None] * in_eigenbasis
    return xp.real(Z @ rotated)


def _end_minus_start(left_change: Array, right_change: Array) -> Array:
    """Return (E + left change)(I + right change) − E, with all digits of small changes.

    E is the identity above rows of zeros; it is never added.

    Parameters
    ----------
    left_change : array, shape (..., r + k, r)
        The first r columns of exp(G) − I.
    right_change : array, shape (..., r, r)
        exp(−A) − I.

    Returns
    -------
    array, shape (..., r + k, r)
        left_change + left_change·right_change + [right_change; 0], the end of a
        geodesic minus E.
    """
    k = left_change.shape[-2] - right_change.shape[-2]
    right_rows = _append_zero_rows(right_change, k)
    return left_change + left_change @ right_change + right_rows


def _append_zero_rows(x: Array, k: int) -> Array:
    """Return [x; 0] with k rows of zeros.

    Parameters
    ----------
    x : array of shape (..., r, r)
        Matrices.
    k : int
        The number of rows to add.

    Returns
    -------
    array of shape (..., r + k, r)
        The taller matrices.
    """
    xp = namespace(x)
    shape = (*x.shape[:-2], k, x.shape[-1])
    zero = xp.zeros(shape, dtype=x.dtype, device=device(x))
    return xp.concat([x, zero], axis=-2)


# ---- tangent vectors at E -------------------------------------------------------------


def n_unknowns(rows: int, r: int) -> int:
    """Return the number of unknowns of Newton's method.

    It is the dimension of the space of matrices [A; B] with a skew r×r block A.

    Parameters
    ----------
    rows : int
        r + k, the number of rows of a frame.
    r : int
        The number of its columns.

    Returns
    -------
    int
        r(r−1)/2 entries of the skew block and kr entries of the other one.
    """
    return r * (r - 1) // 2 + (rows - r) * r


def tangent_part(xp: Any, X: Array, r: int) -> Array:
    """Return the tangent vector at E that is nearest to a matrix [A; B].

    E is the identity above rows of zeros. The result is [skew part of A; B].

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array, shape (..., r + k, r)
        Any matrix.
    r : int
        The number of rows of A.

    Returns
    -------
    array, shape (..., r + k, r)
        The tangent vector.
    """
    return xp.concat([skew(X[..., :r, :]), X[..., r:, :]], axis=-2)


def from_vector(xp: Any, z: Array, r: int, k: int) -> Array:
    """Return the tangent vector [A; B] at E with the orthonormal coordinates z.

    E is the r×r identity above k rows of zeros. At E, tangent vectors are the matrices
    with a skew block A (r×r) above any block B (k×r).

    Parameters
    ----------
    xp : namespace
        The array library.
    z : array, shape (..., r(r−1)/2 + kr)
        The coordinates of A, and then those of B.
    r, k : int
        The numbers of rows of A and of B.

    Returns
    -------
    array, shape (..., r + k, r)
        The tangent vector, whose Frobenius norm is the length of z.
    """
    n_skew_entries = r * (r - 1) // 2
    A = matrix.skew_from_vector(z[..., :n_skew_entries], r) * math.sqrt(0.5)
    B = xp.reshape(z[..., n_skew_entries:], (*z.shape[:-1], k, r))
    return xp.concat([A, B], axis=-2)


def to_vector(xp: Any, X: Array, r: int) -> Array:
    """Return the orthonormal coordinates of a tangent vector [A; B] at E.

    E is the r×r identity above k rows of zeros, A is skew and B any k×r matrix. The
    coordinates are the entries of A below the diagonal, times √2, and all entries of B.
    As a vector they are as long as the Frobenius norm of [A; B].

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array, shape (..., r + k, r)
        Tangent vectors.
    r : int
        The number of rows of A.

    Returns
    -------
    array, shape (..., r(r−1)/2 + kr)
        The coordinates; `from_vector` reverses the map.
    """
    A, B = X[..., :r, :], X[..., r:, :]
    skew_coordinates = matrix.skew_to_vector(A) * math.sqrt(2)
    flat = xp.reshape(B, (*B.shape[:-2], B.shape[-2] * r))
    return xp.concat([skew_coordinates, flat], axis=-1)


def frobenius_norm(xp: Any, X: Array) -> Array:
    """Return the Frobenius norms of matrices, as an array of shape (..., 1, 1)."""
    return xp.sqrt(xp.sum(X * X, axis=(-2, -1), keepdims=True))


def divide_by_length(xp: Any, X: Array, length: Array) -> Array:
    """Return X divided by its length, and 0 where the length is 0.

    Parameters
    ----------
    xp : namespace
        The array library.
    X : array
        Vectors or matrices.
    length : array
        Their lengths, in a shape that broadcasts with X.

    Returns
    -------
    array
        Vectors of length 1, or 0.
    """
    is_nonzero = length > 0
    return xp.where(is_nonzero, X / xp.where(is_nonzero, length, 1.0), 0.0)
