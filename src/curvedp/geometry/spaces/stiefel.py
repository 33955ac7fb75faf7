"""The Stiefel manifold: orthonormal r-frames of R^m, metric of the embedding."""

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
from curvedp.numerics.stiefel_log import (
    endpoint,
    generator,
    log_change,
    reduced_log,
)


class _SolvedLog(NamedTuple):
    """A logarithm v = pA + QB and the frame [p Q]; constants for differentiation.

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

    `exp` is the geodesic exponential in closed form. `log` has none: it solves
    exp(p, v) = q by Newton's method with a bounded number of steps from three starts;
    it inverted `exp` in every trial up to 0.97π, and next to π may be NaN. `transport`
    is an isometry of tangent spaces that carries velocities along the geodesic, not the
    parallel transport. Stiefel(m, 1) is the sphere; Stiefel(m, m) is O(m), whose
    components are infinitely far apart (`log` NaN).

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

        The columns of a matrix turn in their span, and out of it.
        """
        return self._n_turns + (self.m - self.r) * self.r

    @cached_property
    def _n_turns(self) -> int:
        """The number r(r − 1)/2 of pairs of columns, whose planes can turn."""
        return self.r * (self.r - 1) // 2

    @cached_property
    def injectivity_radius(self) -> float:
        """The length up to which every geodesic is shortest: π, and √2·π on O(m).

        (Zimmermann & Stoye 2024.) On O(m), where r = m, a plane turned by π has the
        length √2·π, √2 times the one on `Rotations`.
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

        With v = pA + QB, where A is skew and [p Q] is an orthonormal frame, it is
        [p Q]·exp([2A −Bᵀ; B 0])·[I; 0]·exp(−A) (Zimmermann & Hüper 2022, at the
        Euclidean metric; the same curve as Edelman, Arias & Smith 1998, eq. 2.7, with
        skew matrices only).

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
        frame, B = self._frame(p, N)
        step, mean = endpoint(A, B)
        derivative_term = self._derivative_carrier(frame, N, B) @ mean  # 0 in value
        return p + (frame @ step + derivative_term)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity of a geodesic from p to q.

        It is the shortest one if it is shorter than π; a longer one need not be. NaN
        where Newton's method finds none.

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
            """Return the logarithm, with a derivative.

            The velocity is found by iteration, which has none. A term is added that is
            0 in value and whose derivative is that of the velocity, to first order.
            """
            velocity, A, B, frame = self._solved_log(p, q)
            velocity = self.to_tangent(p, velocity)
            return velocity + log_change(A, B, frame, q - self.exp(p, velocity))

        def plain(p: Array, q: Array) -> Array:
            """Return the logarithm by iteration, without a derivative."""
            return self._solved_log(p, q).velocity

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
        rotation_minus_identity = p.mT @ (q - p)
        apart = self._in_different_components(p, q)[..., None, None]
        xp = namespace(rotation_minus_identity)
        omega = rotation_log(xp.where(apart, 0.0, rotation_minus_identity))
        return p @ xp.where(apart, xp.nan, omega)

    def _solved_log(self, p: Array, q: Array) -> _SolvedLog:
        """Solve exp(p, v) = q for v by Newton's method.

        The equation is solved in an orthonormal frame [p Q] whose span contains the
        columns of p and q, for matrices with at most 2r rows instead of m.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Two points.

        Returns
        -------
        _SolvedLog
            The velocity v = pA + QB, A, B and the frame; constants for differentiation.
        """
        change = q - p
        frame, change_outside_p = self._frame(p, self._normal(p, change), complete=True)
        with without_derivatives():
            A, B = reduced_log(constant(p.mT @ change), constant(change_outside_p))
        constant_frame = constant(frame)
        velocity = constant_frame[..., : self.r] @ A + constant_frame[..., self.r :] @ B
        return _SolvedLog(velocity, A, B, constant_frame)

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
        """Return the length of `log`.

        inf between the two components of O(m), NaN where `log` is.

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

        (Huang, Gallivan & Absil 2015.) A geodesic is the orbit t ↦ g_t(p) of isometries
        g_t(x) = F_t·x·exp(−tA), F_t ∈ O(m). The differential of g₁ is a linear isometry
        from T_p to T_q, the identity at p = q, and sends log(p, q) to −log(q, p), as
        parallel transport does; on the sphere (r = 1) it is the parallel transport.

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
        A, N = self._split(p, self.log(p, q))
        frame, B = self._frame(p, N)
        rotation_minus_identity, mean = skew_exp(generator(A, B))
        in_frame = frame.mT @ v

        # Zero in value; these terms carry the derivative out of the span of the frame.
        carrier = self._derivative_carrier(frame, N, B)
        outward = carrier @ (mean[..., : self.r, :] @ in_frame)
        inward = frame @ mean[..., :, : self.r] @ (carrier.mT @ v)

        moved = v + (frame @ (rotation_minus_identity @ in_frame) + (outward - inward))
        return moved + moved @ skew_exp(-A)[0]

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
        turns = skew_from_vector(z[..., : self._n_turns], self.r) * math.sqrt(0.5)
        return p @ turns + self._normal_from_coordinates(p, z[..., self._n_turns :])

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        The first r(r − 1)/2 describe rotations of the columns of p within their span,
        the others their motion out of it.

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
        turns = skew_to_vector(p.mT @ v) * math.sqrt(2)
        normal = self._normal_coordinates_of(p, v)
        return namespace(p, v).concat([turns, normal], axis=-1)

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
        """Return N − QB, which is 0, with its derivative.

        In a frame [p Q] from `_frame`, Q is a constant for differentiation. So
        derivatives in directions out of its span would be lost without this term.

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
            order of singular values. They are constants for differentiation, except for
            what keeps them orthogonal to p.
        B : array, shape (..., k, r)
            The coefficients with QB = N.
        """
        xp = namespace(p, N)
        k = min(self.r, self.m - self.r)
        U, singular_values, _ = svd(constant(N))
        threshold = self.m * xp.finfo(singular_values.dtype).eps
        is_nonzero = (
            singular_values[..., None, :k] > threshold * singular_values[..., None, :1]
        )
        Q = xp.where(is_nonzero, U[..., :k], 0.0)
        p_columns = xp.broadcast_to(p, (*Q.shape[:-2], *p.shape[-2:]))
        if complete:
            Q = self._complete_columns(constant(p_columns), Q)
        Q = self._normal(p, Q)
        return xp.concat([p_columns, Q], axis=-1), Q.mT @ N

    def _complete_columns(self, p: Array, Q: Array) -> Array:
        """Replace zero columns of Q by unit vectors orthogonal to p and to the others.

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
        xp = namespace(p, Q)
        k = Q.shape[-1]
        unit_columns = like(p, np.eye(self.m, 2 * self.r))[:, self.r :]
        spare = reflect(p, unit_columns)  # columns orthogonal to p
        spare = spare - Q @ (Q.mT @ spare)
        # With weights above 1 for Q and ½ for the spare columns, the k largest
        # singular directions are all of Q in their order, then spare ones.
        weights = 1 + xp.arange(k, 0, -1, dtype=p.dtype, device=device(p)) / k
        candidates = xp.concat([Q * weights, spare / 2], axis=-1)
        return svd(candidates)[0][..., :k]
