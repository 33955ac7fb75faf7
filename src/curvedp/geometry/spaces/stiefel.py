"""Stiefel manifold: orthonormal r-frames of R^m, with the metric of the embedding."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from array_api_compat import device

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.frames import Frames
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


@dataclass(frozen=True)
class Stiefel(Frames):
    """m×r matrices with orthonormal columns, r ≤ m, with the Frobenius (Euclidean) metric tr(uᵀv).

    `exp` is the geodesic exponential in closed form. `log` has none: it solves exp(p, v) = q by Newton's method with a
    bounded number of steps from three starts; it inverted `exp` in every trial up to 0.97π, and next to π may be NaN.
    `transport` is an isometry of tangent spaces that carries velocities along the geodesic, not the parallel transport.
    Stiefel(m, 1) is the sphere; Stiefel(m, m) is O(m), whose components are infinitely far apart (`log` NaN).

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

    dim = fact(lambda self: self._turns + (self.m - self.r) * self.r)
    # π (Zimmermann & Stoye 2024); on O(m) a plane turned by π has length √2π, as on `Rotations` times √2.
    injectivity_radius = fact(
        lambda self: math.sqrt(2) * math.pi if self.r == self.m else math.pi
    )
    _turns = fact(lambda self: self.r * (self.r - 1) // 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.r > self.m:
            raise ParameterError(
                f"must be <= m={self.m}: R^m holds at most m orthonormal vectors",
                parameter="r",
                value=self.r,
            )

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """[−½, 1] (Zimmermann & Stoye 2025); the sphere for r = 1; half of that of ½tr(uᵀv) on O(m) for r = m. For r = m − 1
        at most 4/7, and ½ on Stiefel(3, 2): proved in docs/matrix-manifolds.md."""
        if self.dim == 1:
            return (0.0, 0.0)
        if self.r == 1:
            return (1.0, 1.0)
        if self.r == self.m:
            return (0.125, 0.125) if self.m == 3 else (0.0, 0.25)
        return (
            (-0.5, 1.0)
            if self.r < self.m - 1
            else (-0.5, 0.5 if self.m == 3 else 4 / 7)
        )

    def exp(self, p: Array, v: Array) -> Array:
        """[p Q] exp([2A −Bᵀ; B 0]) [I; 0] exp(−A) for v = pA + QB (Zimmermann & Hüper 2022, at the Euclidean metric;
        the same curve as Edelman, Arias & Smith 1998, eq. 2.7, with skew matrices only)."""
        A, N = self._split(p, v)
        frame, B = self._frame(p, N)
        step, mean = endpoint(A, B)
        return p + (frame @ step + self._outside(frame, N, B) @ mean)

    def log(self, p: Array, q: Array) -> Array:
        """The velocity of a geodesic from p to q; the shortest one if it is shorter than π. A longer one need not
        be the shortest. NaN where Newton's method finds none."""
        if self.r == self.m:
            turn, apart = p.mT @ (q - p), self._apart(p, q)[..., None, None]
            xp = namespace(turn)
            return p @ xp.where(apart, xp.nan, rotation_log(xp.where(apart, 0.0, turn)))
        if self.r == 1:
            return Sphere(self.m - 1).log(p[..., 0], q[..., 0])[..., None]

        def smooth(p: Array, q: Array) -> Array:
            """With its first-order change at the end."""
            v, A, B, base = self._solved_log(p, q)
            v = self.to_tangent(p, v)
            return v + log_change(A, B, base, q - self.exp(p, v))

        return with_smooth_derivative(
            smooth, lambda p, q: self._solved_log(p, q)[0], p, q
        )

    def _solved_log(self, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
        """(v, A, B, [p Q]), constants."""
        change = q - p
        frame, bottom = self._frame(p, self._normal(p, change), complete=True)
        with without_derivatives():
            A, B = reduced_log(constant(p.mT @ change), constant(bottom))
        base = constant(frame)
        return base[..., : self.r] @ A + base[..., self.r :] @ B, A, B, base

    @staticmethod
    def _apart(p: Array, q: Array) -> Array:
        """Whether these are in different components of O(m)."""
        return det(p) * det(q) < 0

    def dist(self, p: Array, q: Array) -> Array:
        """Length of `log`; inf between the two components of O(m), NaN where `log` is."""
        length = super().dist(p, q)
        return (
            length
            if self.r < self.m
            else namespace(p, q).where(self._apart(p, q), math.inf, length)
        )

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Isometric vector transport (Huang, Gallivan & Absil 2015) along the shortest geodesic from p to q. A
        geodesic is the orbit t ↦ g_t(p) of isometries g_t(x) = F_t x exp(−tA), F_t ∈ O(m). The differential of g₁
        is a linear isometry from T_p to T_q, the identity at p = q, and sends log(p, q) to −log(q, p), as parallel
        transport does; on the sphere (r = 1) it is the parallel transport."""
        A, N = self._split(p, self.log(p, q))
        frame, B = self._frame(p, N)
        rise, mean = skew_exp(generator(A, B))
        inside, rest = frame.mT @ v, self._outside(frame, N, B)
        leave = rest @ (mean[..., : self.r, :] @ inside) - frame @ mean[
            ..., :, : self.r
        ] @ (rest.mT @ v)
        moved = v + (frame @ (rise @ inside) + leave)
        return moved + moved @ skew_exp(-A)[0]

    def to_tangent(self, p: Array, x: Array) -> Array:
        A, N = self._split(p, x)
        return p @ A + N

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Coordinates: r(r−1)/2 turns inside the span of p (each moves two columns, hence 1/√2), then the rest."""
        inside = p @ (skew_from_vector(z[..., : self._turns], self.r) * math.sqrt(0.5))
        return inside + self._leaving(p, z[..., self._turns :])

    def to_coordinates(self, p: Array, v: Array) -> Array:
        inside = skew_to_vector(p.mT @ v) * math.sqrt(2)
        return namespace(p, v).concat(
            [inside, self._leaving_coordinates(p, v)], axis=-1
        )

    def _normal(self, p: Array, x: Array) -> Array:
        """The part of x orthogonal to the span of p; the second pass takes out what the first one left by round-off."""
        x = x - p @ (p.mT @ x)
        return x - p @ (p.mT @ x)

    def _split(self, p: Array, x: Array) -> tuple[Array, Array]:
        """A and N of the tangent vector pA + N nearest to x."""
        return skew(p.mT @ x), self._normal(p, x)

    def _outside(self, frame: Array, N: Array, B: Array) -> Array:
        """N − QB: zero, but it carries the derivative out of the span of the constant Q."""
        rest = N - frame[..., self.r :] @ B
        return rest - constant(rest)

    def _frame(
        self, p: Array, N: Array, *, complete: bool = False
    ) -> tuple[Array, Array]:
        """([p Q], B) with QB = N and Q orthonormal (a constant) in the order of the singular values of N. Directions
        that N lacks are 0 in Q, or, where Q is to be complete, any that are orthogonal to p and to the rest."""
        xp = namespace(p, N)
        k = min(self.r, self.m - self.r)
        U, s, _ = svd(constant(N))
        used = s[..., None, :k] > self.m * xp.finfo(s.dtype).eps * s[..., None, :1]
        Q = xp.where(used, U[..., :k], 0.0)
        left = xp.broadcast_to(p, (*Q.shape[:-2], *p.shape[-2:]))
        if complete:
            spare = reflect(
                constant(left), like(p, np.eye(self.m, 2 * self.r))[:, self.r :]
            )
            spare = spare - Q @ (Q.mT @ spare)
            # Half the weight: the k largest singular directions are all of Q, in their order, then of the spare ones.
            weights = 1 + xp.arange(k, 0, -1, dtype=p.dtype, device=device(p)) / k
            Q = svd(xp.concat([Q * weights, spare / 2], axis=-1))[0][..., :k]
        Q = self._normal(p, Q)  # Q is a constant but for what keeps it orthogonal to p
        return xp.concat([left, Q], axis=-1), Q.mT @ N
