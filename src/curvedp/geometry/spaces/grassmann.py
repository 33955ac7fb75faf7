"""Grassmann manifold: r-dimensional subspaces of R^m."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.frames import Frames
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.matrix_functions import polar, sinc, svd, sym_function


def _stretch(xp: Any, c: Array) -> Array:
    """θ/sin θ as a function of c = cos θ ∈ [0, 1]: condition number below 1, so round-off in c costs nothing."""
    c = xp.where(c < 1, c, 1.0)
    low, high = xp.sqrt(1 - c), xp.sqrt(1 + c)
    safe = xp.where(low > 0, low, 1.0)
    return xp.where(low > 0, 2 * xp.atan2(safe, high) / (safe * high), 1.0)


def _stretch_divided(xp: Any, c: Array) -> Array:
    """Divided differences of `_stretch`; where two are close the derivative half-way, (cθ/sin θ − 1)/sin² θ, next to 1 its
    series −1/3 − 4x/15 − 6x²/35 in x = 1 − c."""
    x, y = c[..., :, None], c[..., None, :]
    middle, near = (x + y) / 2, xp.abs(x - y) < 1e-5
    rest = 1 - xp.where(middle < 1, middle, 1.0)
    safe = xp.where(rest < 1e-4, 0.0, middle)
    far = (safe * _stretch(xp, safe) - 1) / (1 - safe * safe)
    slope = xp.where(rest < 1e-4, -(1 / 3 + rest * (4 / 15 + rest * (6 / 35))), far)
    return xp.where(
        near, slope, (_stretch(xp, x) - _stretch(xp, y)) / xp.where(near, 1.0, x - y)
    )


@dataclass(frozen=True)
class Grassmann(Frames):
    """r-dimensional subspaces of R^m, 0 < r < m, with distance √Σθ² of the principal angles θ.

    A point is an m×r matrix with orthonormal columns, any basis of the subspace: `dist` does not depend on the basis.
    Tangent vectors at p are horizontal: m×r matrices v with pᵀv = 0, of length their Frobenius norm. Closed forms of
    Edelman, Arias & Smith 1998 and Bendokat, Zimmermann & Absil 2024.

    Parameters
    ----------
    m, r : int
        The dimensions of space and subspaces.

    Examples
    --------
    >>> M = Grassmann(3, 1)
    >>> p, q = np.array([[1.0], [0.0], [0.0]]), np.array([[-1.0], [1e-15], [0.0]])
    >>> float(M.dist(p, q))
    1e-15
    """

    kind = "grassmann"
    m: int
    r: int

    dim = fact(lambda self: (self.m - self.r) * self.r)
    subspaces = fact(
        lambda self: (min(self.r, self.m - self.r), max(self.r, self.m - self.r))
    )
    # Wong 1968: [0, 2]; projective spaces (r = 1 or r = m − 1) have constant curvature 1; a circle is flat.
    curvature_bounds = fact(
        lambda M: (
            (0.0, 0.0)
            if M.dim == 1
            else (1.0, 1.0)
            if M.subspaces[0] == 1
            else (0.0, 2.0)
        )
    )
    injectivity_radius = math.pi / 2
    # Of projectors over √r: ‖P − Q‖² = 2(r − tr PQ) <= 2·min(r, m − r).
    embedded_diameter = fact(
        lambda self: float((2 * self.subspaces[0] / self.r) ** 0.5)
    )
    is_symmetric = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.r >= self.m:
            raise ParameterError(
                f"must be < m={self.m}: the only m-dimensional subspace is a single "
                "point",
                parameter="r",
                value=self.r,
            )

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """R(u, v)v = v(vᵀu) + u(vᵀv) − 2v(uᵀv) (Wong 1968)."""
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        p, v = np.asarray(p)[..., None, :, :], np.asarray(v)[..., None, :, :]
        basis = np.asarray(self.from_coordinates(p, np.eye(self.dim)))
        image = v @ (v.mT @ basis) + basis @ (v.mT @ v) - 2 * v @ (basis.mT @ v)
        return np.asarray(self.to_coordinates(p, image))

    def exp(self, p: Array, v: Array) -> Array:
        """p cos√X + v sinc√X with X = vᵀv (Edelman, Arias & Smith 1998, Thm 2.3), a basis aligned with p."""
        xp = namespace(p, v)
        base = constant(v)
        left, s, Vh = svd(base)

        def cos_divided() -> Array:
            """Divided difference of cos√x at x = s²: −½ sinc((a+b)/2) sinc((a−b)/2)."""
            a, b = s[..., :, None], s[..., None, :]
            return -sinc(xp, (a + b) / 2) * sinc(xp, (a - b) / 2) / 2

        V = Vh.mT
        change = v.mT @ v
        drop = sym_function(change, V, -2 * xp.sin(s / 2) ** 2, cos_divided)
        # Orthonormal factors on both sides: the result is orthonormal to round-off whatever the length of v.
        left = self.to_tangent(
            p, left
        )  # a direction that a long v has by round-off only need not be orthogonal to p
        step = (left * xp.sin(s)[..., None, :]) @ Vh
        if differentiable(v):
            slope = _sinc_divided(xp, s) * (Vh @ (change - constant(change)) @ V)
            step = (
                step
                + ((v - base) @ V * sinc(xp, s)[..., None, :] + base @ V @ slope) @ Vh
            )
        return p + (p @ drop + step)

    def log(self, p: Array, q: Array) -> Array:
        """(I − ppᵀ) q Wᵀ φ(P) with pᵀq = PW polar and φ(cos θ) = θ/sin θ. (I − ppᵀ)q = (q − p) − ppᵀ(q − p) carries
        the digits of small angles, P those of large ones. At the cut locus (an angle π/2) W is not unique and one
        of the shortest velocities is returned."""
        xp, (W, P, c, U) = namespace(p, q), self._align(p, q)
        stretch = sym_function(P, U, _stretch(xp, c), lambda: _stretch_divided(xp, c))
        return self.to_tangent(p, q - p) @ W.mT @ stretch

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Parallel along the shortest geodesic, expressed in the basis q."""
        xp = namespace(p, q, v)
        W, P, _, _ = self._align(p, q)
        aligned = q @ W.mT
        return (
            v
            - (p + aligned)
            @ xp.linalg.solve(like(P, np.eye(self.r)) + P, aligned.mT @ v)
        ) @ W

    def embedded(self, X: Array) -> np.ndarray:
        X = np.asarray(X)
        upper = np.triu_indices(self.m)
        P = X @ np.swapaxes(X, -1, -2)
        return np.asarray(
            P[..., upper[0], upper[1]]
            * np.where(upper[0] == upper[1], 1.0, 2**0.5)
            / self.r**0.5
        )

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        upper, P = np.triu_indices(self.m), np.zeros((self.m, self.m))
        P[upper] = z / np.where(upper[0] == upper[1], 1.0, 2**0.5)
        vectors: np.ndarray = np.linalg.eigh(P + np.triu(P, 1).T)[1]
        return vectors[:, ::-1][:, : self.r]

    def to_tangent(self, p: Array, x: Array) -> Array:
        return x - p @ (p.mT @ x)

    from_coordinates, to_coordinates = Frames._leaving, Frames._leaving_coordinates

    def _align(self, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
        """Polar pᵀq = PW, with the eigen-system (c, U) of P: c the cosines of the principal angles."""
        C = p.mT @ q
        W, c, U = polar(C)
        P = C @ W.mT
        return W, (P + P.mT) / 2, c, U


def _sinc_divided(xp: Any, s: Array) -> Array:
    """Divided difference of sinc√x at x = s²; the derivative (cos s − sinc s)/2s² half-way when they are close."""
    a, b = s[..., :, None], s[..., None, :]
    gap, square = a * a - b * b, (a * a + b * b) / 2
    near, tiny = xp.abs(gap) < 1e-5, square < 1e-3
    root = xp.sqrt(xp.where(tiny, 1.0, square))
    far = (xp.cos(root) - sinc(xp, root)) / (2 * root * root)
    slope = xp.where(tiny, -1 / 6 + square * (1 / 60 - square / 1680), far)
    return xp.where(near, slope, (sinc(xp, a) - sinc(xp, b)) / xp.where(near, 1.0, gap))
