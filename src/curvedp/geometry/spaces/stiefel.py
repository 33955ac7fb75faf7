"""The Stiefel manifold of m×r matrices with orthonormal columns, called frames. A
tangent vector at a frame p is v = pA + QB. The skew-symmetric matrix A turns the
columns of p within their span, and QB moves them out of it, where Q has orthonormal
columns that are orthogonal to those of p.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.frames import OrthonormalFrames
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import (
    constant,
    with_smooth_derivative,
    without_derivatives,
)
from curvedp.numerics.matrix_functions import (
    det,
    reflect,
    skew,
    skew_exp,
    skew_from_vector,
    skew_to_vector,
    svd,
)
from curvedp.numerics.rotation_log import rotation_log
from curvedp.numerics.stiefel_geodesic import endpoint, generator
from curvedp.numerics.stiefel_log import log_change, reduced_log


class _LogInFrame(NamedTuple):
    """A logarithm v = pA + QB at p, and the frame [p Q] in which it was computed.

    Automatic differentiation treats all four arrays as constants.

    Attributes
    ----------
    velocity : array of shape (..., m, r)
        v.
    A : array of shape (..., r, r)
        The skew-symmetric turn of the columns of p within their span.
    B : array of shape (..., k, r)
        The coefficients of v with respect to Q.
    frame : array of shape (..., m, r + k)
        The orthonormal columns of p and Q.
    """

    velocity: Array
    A: Array
    B: Array
    frame: Array


@dataclass(frozen=True)
class Stiefel(OrthonormalFrames):
    """m×r matrices with orthonormal columns, r ≤ m, with the metric tr(uᵀv).

    `exp` has a closed form. `log` has none: it solves exp(p, v) = q by Newton's method,
    with a bounded number of steps from three starts. In all trials it inverted `exp` for
    velocities of length up to 0.97π; next to π it may be NaN. `transport` is an isometry
    of tangent spaces that carries velocities along the geodesic, but not the parallel
    transport. Stiefel(m, 1) is the sphere. Stiefel(m, m) is O(m), which has two
    components that no geodesic connects: between them `log` is NaN and `dist` infinite.

    Parameters
    ----------
    m, r : int
        The numbers of rows and columns.

    Examples
    --------
    >>> M = Stiefel(4, 2)
    >>> v = M.from_coordinates(M.origin, np.array([0.3, -0.2, 0.5, 0.1, 0.4]))
    >>> bool(np.allclose(M.log(M.origin, M.exp(M.origin, v)), v, rtol=0, atol=1e-14))
    True
    """

    kind = "stiefel"
    m: int
    r: int

    def __post_init__(self) -> None:
        """Check that m and r are whole numbers ≥ 1, and that r ≤ m."""
        super().__post_init__()
        if self.r > self.m:
            raise ParameterError(
                f"must be <= m={self.m}: R^m holds at most m orthonormal vectors",
                parameter="r",
                value=self.r,
            )

    @cached_property
    def dim(self) -> int:
        """The dimension r(r − 1)/2 + (m − r)·r.

        The first term counts rotations of the columns within their span, the second
        their motions out of the span.
        """
        return self._n_plane_rotations + (self.m - self.r) * self.r

    @cached_property
    def _n_plane_rotations(self) -> int:
        """The number r(r − 1)/2 of planes of two columns, each of which can be rotated."""
        return self.r * (self.r - 1) // 2

    @cached_property
    def injectivity_radius(self) -> float:
        """The length up to which every geodesic is shortest: π, and √2·π on O(m).

        (Zimmermann & Stoye 2024.) On O(m), where r = m, the rotation of a plane by π has
        the length √2·π, which is √2 times its length on `Rotations`.
        """
        return math.sqrt(2) * math.pi if self.r == self.m else math.pi

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """Bounds on the sectional curvatures of Stiefel(m, r), r-frames in R^m.

        In general they are −½ and 1 (Zimmermann & Stoye 2025). In these cases they are
        tighter:

        - A curve (dimension 1) has no curvature.
        - Stiefel(m, 1) is the unit sphere, of curvature 1.
        - Stiefel(m, m) is the orthogonal group O(m), with twice the metric ½tr(uᵀv) and
          so half of its curvature: from 0 to ¼, and ⅛ everywhere for m = 3.
        - On Stiefel(m, m − 1) it is at most 4/7, and at most ½ for m = 3 (proved in
          docs/theory/matrix-manifolds.md).
        """
        if self.dim == 1:
            return (0.0, 0.0)
        if self.r == 1:
            return (1.0, 1.0)
        if self.r == self.m:
            return (0.125, 0.125) if self.m == 3 else (0.0, 0.25)
        if self.r == self.m - 1:
            return (-0.5, 0.5) if self.m == 3 else (-0.5, 4 / 7)
        return (-0.5, 1.0)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        Let v = pA + QB, where A is skew-symmetric and [p Q] is an orthonormal frame. The
        end is [p Q]·exp([2A −Bᵀ; B 0])·[I; 0]·exp(−A) (Zimmermann & Hüper 2022, for the
        Euclidean metric). This is the curve of Edelman, Arias & Smith 1998, eq. 2.7,
        written with skew-symmetric matrices only. It is computed as p plus a change,
        which keeps the digits of a short step.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        A, N = self._split(p, v)
        frame, B = self._frame(p, N)  # [p Q], and B with QB = N
        step, mean = endpoint(A, B)  # the end has the part N @ mean
        derivative_term = self._derivative_carrier(frame, N, B) @ mean  # 0 in value
        return p + (frame @ step + derivative_term)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity of a geodesic from p to q.

        The geodesic is the shortest one if it is shorter than π; a longer one need not
        be the shortest. The velocity is NaN if Newton's method does not converge.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        if self.r == self.m:
            return self._log_of_orthogonal_group(p, q)
        if self.r == 1:
            return Sphere(self.m - 1).log(p[..., 0], q[..., 0])[..., None]

        def smooth(p: Array, q: Array) -> Array:
            """Return the logarithm, in a form that autodiff can differentiate.

            The velocity is found by iteration, which is not differentiated. A term is
            added that is 0 in value and has the derivative of the velocity.
            """
            solution = self._solve_for_log(p, q)
            velocity = self.to_tangent(p, solution.velocity)
            miss = q - self.exp(p, velocity)  # 0 in value, up to round-off
            zero = log_change(solution.A, solution.B, solution.frame, miss)
            return velocity + zero

        def plain(p: Array, q: Array) -> Array:
            """Return the same logarithm without the term for derivatives."""
            return self._solve_for_log(p, q).velocity

        # The value is that of `plain`. If derivatives are asked for, autodiff takes them
        # from `smooth`.
        return with_smooth_derivative(smooth, plain, p, q)

    def _log_of_orthogonal_group(self, p: Array, q: Array) -> Array:
        """Return p·log(pᵀq) for square matrices p and q.

        Parameters
        ----------
        p, q : arrays of shape (..., m, m)
            Two orthogonal matrices.

        Returns
        -------
        array of shape (..., m, m)
            The velocities, tangent at p; NaN if the determinants of p and q have
            different signs, because no geodesic connects them.
        """
        rotation_minus_identity = p.mT @ (q - p)  # pᵀq − I
        apart = self._in_different_components(p, q)[..., None, None]
        xp = namespace(rotation_minus_identity)
        omega = rotation_log(xp.where(apart, 0.0, rotation_minus_identity))
        return p @ xp.where(apart, xp.nan, omega)

    def _solve_for_log(self, p: Array, q: Array) -> _LogInFrame:
        """Solve exp(p, v) = q for v by Newton's method.

        The equation is solved in an orthonormal frame [p Q] whose span contains the
        columns of p and q, for matrices with at most 2r rows instead of m. Automatic
        differentiation does not follow the iteration: the inputs of Newton's method are
        cut off from it (`constant`), and so the results are constants for it. `log` adds
        a term that has the derivative.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        _LogInFrame
            The velocity v = pA + QB, the matrices A and B, and the frame [p Q].
        """
        # The frame [p Q], and the coefficients of q − p with respect to Q.
        change = q - p
        frame, change_outside_p = self._frame(p, self._normal(p, change), complete=True)

        # A and B from the coefficients of q − p with respect to p and Q. Nothing here is
        # differentiated, so terms that only carry derivatives are left out.
        with without_derivatives():
            A, B = reduced_log(constant(p.mT @ change), constant(change_outside_p))
        constant_frame = constant(frame)
        constant_p = constant_frame[..., : self.r]
        Q = constant_frame[..., self.r :]
        return _LogInFrame(constant_p @ A + Q @ B, A, B, constant_frame)

    @staticmethod
    def _in_different_components(p: Array, q: Array) -> Array:
        """Return whether orthogonal matrices p and q have determinants of different signs.

        No geodesic joins a rotation and a reflection.

        Parameters
        ----------
        p, q : arrays of shape (..., m, m)
            Points of O(m).

        Returns
        -------
        array of bool, shape (...)
            Whether one is a rotation and the other is not.
        """
        return det(p) * det(q) < 0

    def dist(self, p: Array, q: Array) -> Array:
        """Return the distance of p and q, the length of log(p, q).

        It is infinite between the two components of O(m), and NaN if `log` does not
        converge.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        array of shape (...)
            The distances.
        """
        length = super().dist(p, q)
        if self.r < self.m:
            return length
        apart = self._in_different_components(p, q)
        return namespace(p, q).where(apart, math.inf, length)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved along the shortest geodesic by an isometric vector transport.

        (Huang, Gallivan & Absil 2015.) The geodesic from p to q is the orbit t ↦ g_t(p)
        of p under isometries g_t(x) = F_t·x·exp(−tA) with F_t ∈ O(m). The differential
        of g₁ is a linear isometry from the tangent space at p to that at q. Like
        parallel transport it is the identity for p = q, and it takes log(p, q) to
        −log(q, p). On the sphere (r = 1) it is the parallel transport.

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
        # The velocity of the geodesic is pA + N, and N = QB in the frame F = [p Q]. The
        # rotation is F₁ = I + F(e^G − I)Fᵀ with the generator G, and `mean` is the mean
        # of e^{tG} over t in [0, 1].
        A, N = self._split(p, self.log(p, q))
        frame, B = self._frame(p, N)
        rotation_minus_identity, mean = skew_exp(generator(A, B))
        in_frame = frame.mT @ v

        # Terms that are 0 in value and carry derivatives. In the whole space the
        # generator is K = F·G·Fᵀ. If N gets a part D orthogonal to the frame, K changes
        # by Dpᵀ − pDᵀ. To first order e^K then changes by D·(the first r rows of
        # mean)·Fᵀ, `outward`, minus F·(the first r columns of mean)·Dᵀ, `inward`.
        carrier = self._derivative_carrier(frame, N, B)
        outward = carrier @ (mean[..., : self.r, :] @ in_frame)
        inward = frame @ mean[..., :, : self.r] @ (carrier.mT @ v)

        # F₁·v, and then times exp(−A).
        change_in_span = frame @ (rotation_minus_identity @ in_frame)
        moved = v + (change_in_span + (outward - inward))
        back_rotation_minus_identity, _ = skew_exp(-A)
        return moved + moved @ back_rotation_minus_identity

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent vector at p nearest to x: p·A + N.

        A is the skew part of pᵀx, and N the part of x orthogonal to the columns of p.

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
        A, N = self._split(p, x)
        return p @ A + N

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        The first r(r − 1)/2 coordinates rotate the columns of p within their span (each
        rotation moves two columns, hence the factor 1/√2), the others move them out of
        the span.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        z : array of shape (..., dim)
            Coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        k = self._n_plane_rotations
        A = skew_from_vector(z[..., :k], self.r) * math.sqrt(0.5)
        return p @ A + self._normal_from_coordinates(p, z[..., k:])

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        The first r(r − 1)/2 coordinates are for rotations of the columns of p within
        their span: the entries of pᵀv below the diagonal, times √2. The others are for
        motions of the columns out of the span.

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
        within_span = skew_to_vector(p.mT @ v) * math.sqrt(2)
        out_of_span = self._normal_coordinates_of(p, v)
        return namespace(p, v).concat([within_span, out_of_span], axis=-1)

    def _normal(self, p: Array, x: Array) -> Array:
        """Return the part of x orthogonal to the columns of p, a matrix like x.

        The projection is done twice, because the first one leaves round-off.

        Parameters
        ----------
        p : array of shape (..., m, r)
            Matrices with orthonormal columns.
        x : array of shape (..., m, r)
            Any matrices.

        Returns
        -------
        array of shape (..., m, r)
            Matrices N with pᵀN = 0.
        """
        x = x - p @ (p.mT @ x)
        return x - p @ (p.mT @ x)

    def _split(self, p: Array, x: Array) -> tuple[Array, Array]:
        """Return the parts A and N of the tangent vector pA + N at p that is nearest to x.

        Parameters
        ----------
        p, x : arrays of shape (..., m, r)
            A point, and any matrix.

        Returns
        -------
        A : array of shape (..., r, r)
            The skew-symmetric matrix that rotates columns within the span of p.
        N : array of shape (..., m, r)
            The part of x orthogonal to the columns of p.
        """
        return skew(p.mT @ x), self._normal(p, x)

    def _derivative_carrier(self, frame: Array, N: Array, B: Array) -> Array:
        """Return N − QB, which is 0 in value, with its derivative.

        Automatic differentiation treats the columns of Q in a frame [p Q] from `_frame`
        as constants. Without this term, derivatives in directions out of the span of
        the frame would be lost.

        Parameters
        ----------
        frame : array of shape (..., m, r + k)
            The frame [p Q].
        N : array of shape (..., m, r)
            A matrix whose columns are in the span of Q.
        B : array of shape (..., k, r)
            The coefficients with QB = N.

        Returns
        -------
        array of shape (..., m, r)
            Zeros that have the derivative of N − QB.
        """
        difference = N - frame[..., self.r :] @ B
        return difference - constant(difference)

    def _frame(
        self, p: Array, N: Array, *, complete: bool = False
    ) -> tuple[Array, Array]:
        """Complete p to an orthonormal frame [p Q] whose span contains the columns of N.

        The problem of a geodesic is solved in this frame, with at most 2r coordinates.

        Parameters
        ----------
        p : array, shape (..., m, r)
            A point.
        N : array, shape (..., m, r)
            A matrix whose columns are orthogonal to those of p.
        complete : bool
            If the rank of N is below k = min(r, m − r), some columns of Q are not
            determined by N. They are 0, or, with True, unit vectors orthogonal to p and
            to the other columns.

        Returns
        -------
        frame : array, shape (..., m, r + k)
            The frame [p Q]. The columns of Q are left singular vectors of N, in the
            order of singular values. Automatic differentiation treats them as constants
            before their last projection, which makes them orthogonal to p.
        B : array, shape (..., k, r)
            The coefficients with QB = N.
        """
        xp = namespace(p, N)
        k = min(self.r, self.m - self.r)
        U, singular_values, _ = svd(constant(N))
        threshold = self.m * xp.finfo(singular_values.dtype).eps
        is_nonzero = singular_values[..., :k] > threshold * singular_values[..., :1]
        Q = xp.where(is_nonzero[..., None, :], U[..., :k], 0.0)

        # Complete Q if asked for, and remove its round-off along p.
        p_columns = xp.broadcast_to(p, (*Q.shape[:-2], *p.shape[-2:]))
        if complete:
            Q = self._complete_columns(constant(p_columns), Q)
        Q = self._normal(p, Q)
        return xp.concat([p_columns, Q], axis=-1), Q.mT @ N

    def _complete_columns(self, p: Array, Q: Array) -> Array:
        """Replace zero columns of Q by unit vectors orthogonal to p and to the others.

        Newton's method for `log` needs a complete frame.

        Parameters
        ----------
        p : array, shape (..., m, r)
            Orthonormal columns.
        Q : array, shape (..., m, k)
            Orthonormal columns, orthogonal to those of p, and then zero columns.

        Returns
        -------
        array, shape (..., m, k)
            Orthonormal columns: those of Q, up to sign, and then new ones.
        """
        # Spare columns, orthogonal to p and to Q.
        xp = namespace(p, Q)
        k = Q.shape[-1]
        unit_columns = like(p, np.eye(self.m, 2 * self.r))[:, self.r :]
        spare = reflect(p, unit_columns)
        spare = spare - Q @ (Q.mT @ spare)

        # The columns of Q get decreasing weights above 1, and the spare ones ½. Then the
        # first k left singular vectors are the columns of Q in their order, followed by
        # spare directions.
        weights = 1 + xp.arange(k, 0, -1, dtype=p.dtype, device=device(p)) / k
        candidates = xp.concat([Q * weights, spare / 2], axis=-1)
        return svd(candidates)[0][..., :k]
