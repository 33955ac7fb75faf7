"""Grassmann manifold: r-dimensional subspaces of R^m."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from array_api_compat import device

from curvedp._validate import integer
from curvedp.errors import ParameterError
from curvedp.geometry.base import Array, Manifold
from curvedp.geometry.numerics.matrix import (
    bmm,
    embedded_inner,
    embedded_norm,
    frobenius,
    nearest_frame,
    polar,
    reflect,
    sinc,
    svd,
    sym_function,
)
from curvedp.geometry.numerics.namespace import constant, differentiable, namespace


def _stretch(xp: Any, c: Array) -> Array:
    """θ/sin θ as a function of c = cos θ ∈ [0, 1]: condition number below 1, so round-off in c costs nothing."""
    c = xp.where(c < 1, c, xp.ones_like(c))
    low, high = xp.sqrt(1 - c), xp.sqrt(1 + c)
    safe = xp.where(low > 0, low, xp.ones_like(low))
    return xp.where(low > 0, 2 * xp.atan2(safe, high) / (safe * high), xp.ones_like(c))


def _stretch_slope(xp: Any, c: Array) -> Array:
    """Derivative of `_stretch`, (cθ/sin θ − 1)/sin² θ; its series −1/3 − 4x/15 − 6x²/35 in x = 1 − c next to 1."""
    rest = 1 - xp.where(c < 1, c, xp.ones_like(c))
    near = rest < 1e-4
    safe = xp.where(near, xp.zeros_like(c), c)
    far = (safe * _stretch(xp, safe) - 1) / (1 - safe * safe)
    return xp.where(near, -(1 / 3 + rest * (4 / 15 + rest * (6 / 35))), far)


def _stretch_divided(xp: Any, x: Array, y: Array) -> Array:
    """Divided difference of `_stretch`; the derivative half-way when x and y are close."""
    gap = x - y
    near = xp.abs(gap) < 1e-5
    safe = xp.where(near, xp.ones_like(gap), gap)
    return xp.where(near, _stretch_slope(xp, (x + y) / 2), (_stretch(xp, x) - _stretch(xp, y)) / safe)


@dataclass(frozen=True)
class Grassmann(Manifold):
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

    kind: ClassVar[str] = "grassmann"
    m: int
    r: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", integer("m", self.m, 2))
        object.__setattr__(self, "r", integer("r", self.r, 1))
        if self.r >= self.m:
            raise ParameterError(f"r={self.r} must be < m={self.m}: the only m-dimensional subspace is a single point")

    @cached_property
    def dim(self) -> int:
        return (self.m - self.r) * self.r

    @property
    def subspaces(self) -> tuple[int, int]:
        return min(self.r, self.m - self.r), max(self.r, self.m - self.r)

    @cached_property
    def point_shape(self) -> tuple[int, ...]:
        return (self.m, self.r)

    @property
    def origin(self) -> Array:
        return np.eye(self.m, self.r)

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """Wong 1968: [0, 2]; projective spaces (r = 1 or r = m − 1) have constant curvature 1; a circle is flat."""
        if self.dim == 1:
            return (0.0, 0.0)
        return (1.0, 1.0) if min(self.r, self.m - self.r) == 1 else (0.0, 2.0)

    injectivity_radius = math.pi / 2
    # min(injectivity/2, π/(2√κ)) (Chavel 2006, Thm IX.6.1).
    is_homogeneous = True
    is_symmetric = True

    def _curvature_operator(self, p: Array, v: Array) -> np.ndarray:
        """R(u, v)v = v(vᵀu) + u(vᵀv) − 2v(uᵀv) (Wong 1968)."""
        p, v = np.asarray(p)[..., None, :, :], np.asarray(v)[..., None, :, :]
        basis = np.asarray(self.from_coordinates(p, np.eye(self.dim)))
        image = v @ (v.mT @ basis) + basis @ (v.mT @ v) - 2 * v @ (basis.mT @ v)
        return np.asarray(self.to_coordinates(p, image))

    def exp(self, p: Array, v: Array) -> Array:
        """p cos√X + v sinc√X with X = vᵀv (Edelman, Arias & Smith 1998, Thm 2.3), a basis aligned with p."""
        xp = namespace(p, v)
        base = constant(v)
        left, s, Vh = svd(base)
        V = Vh.mT
        square, change = s * s, v.mT @ v
        drop = sym_function(
            change, square, V, lambda xp, x: -2 * xp.sin(s / 2) ** 2, lambda xp, x, y: _cos_divided(xp, s)
        )
        # Orthonormal factors on both sides: the result is orthonormal to round-off whatever the length of v.
        left = self.to_tangent(p, left)  # a direction that a long v has by round-off only need not be orthogonal to p
        step = (left * xp.sin(s)[..., None, :]) @ Vh
        if differentiable(v):
            slope = _sinc_divided(xp, s) * bmm(Vh, change - constant(change), V)
            step = step + bmm((v - base) @ V * sinc(xp, s)[..., None, :] + bmm(base, V, slope), Vh)
        return p + (p @ drop + step)

    def log(self, p: Array, q: Array) -> Array:
        """(I − ppᵀ) q Wᵀ φ(P) with pᵀq = PW polar and φ(cos θ) = θ/sin θ.

        (I − ppᵀ)q = (q − p) − ppᵀ(q − p) carries the digits of small angles, P those of large ones. At the cut locus
        (an angle π/2) W is not unique and one of the shortest velocities is returned.
        """
        W, P, c, U = self._align(p, q)
        return bmm(self.to_tangent(p, q - p), W.mT, sym_function(P, c, U, _stretch, _stretch_divided))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return embedded_inner(p, u, v)

    def norm(self, p: Array, v: Array) -> Array:
        return embedded_norm(p, v)

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Parallel along the shortest geodesic, expressed in the basis q."""
        xp = namespace(p, q, v)
        W, P, _, _ = self._align(p, q)
        aligned = q @ W.mT
        one = xp.eye(self.r, dtype=P.dtype, device=device(P))
        return (v - (p + aligned) @ xp.linalg.solve(one + P, aligned.mT @ v)) @ W

    def project(self, x: Array) -> Array:
        """Orthonormal basis of the column space nearest to x (its polar factor)."""
        U, _, Vh = svd(x)
        return U @ Vh

    def nearest(self, x: Array) -> Array:
        """The polar factor of x at any scale; dependent columns have none."""
        return nearest_frame(x)

    @cached_property
    def embedded_diameter(self) -> float:
        """Of projectors over √r: ‖P − Q‖² = 2(r − tr PQ) <= 2·min(r, m − r)."""
        return float((2 * min(self.r, self.m - self.r) / self.r) ** 0.5)

    def embedded(self, X: Array) -> np.ndarray:
        X = np.asarray(X)
        upper = np.triu_indices(self.m)
        P = X @ np.swapaxes(X, -1, -2)
        return np.asarray(P[..., upper[0], upper[1]] * np.where(upper[0] == upper[1], 1.0, 2**0.5) / self.r**0.5)

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        upper, P = np.triu_indices(self.m), np.zeros((self.m, self.m))
        P[upper] = z / np.where(upper[0] == upper[1], 1.0, 2**0.5)
        vectors: np.ndarray = np.linalg.eigh(P + np.triu(P, 1).T)[1]
        return vectors[:, ::-1][:, : self.r]

    def to_tangent(self, p: Array, x: Array) -> Array:
        return x - p @ (p.mT @ x)

    def residual(self, p: Array) -> Array:
        """Frobenius norm of pᵀp − I."""
        xp = namespace(p)
        gap = p.mT @ p - xp.eye(self.r, dtype=p.dtype, device=device(p))
        return xp.sqrt(frobenius(xp, gap, gap))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        xp = namespace(p, z)
        block = xp.reshape(z, (*z.shape[:-1], self.m - self.r, self.r))
        top = xp.zeros((*z.shape[:-1], self.r, self.r), dtype=z.dtype, device=device(z))
        return reflect(p, xp.concat([top, block], axis=-2))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        block = reflect(p, v)[..., self.r :, :]
        return xp.reshape(block, (*block.shape[:-2], self.dim))

    def _align(self, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
        """Polar pᵀq = PW, with the eigen-system (c, U) of P: c the cosines of the principal angles."""
        C = p.mT @ q
        W, c, U = polar(C)
        P = C @ W.mT
        return W, (P + P.mT) / 2, c, U


def _cos_divided(xp: Any, s: Array) -> Array:
    """Divided difference of cos√x at x = s²: −½ sinc((a+b)/2) sinc((a−b)/2)."""
    a, b = s[..., :, None], s[..., None, :]
    return -sinc(xp, (a + b) / 2) * sinc(xp, (a - b) / 2) / 2


def _sinc_divided(xp: Any, s: Array) -> Array:
    """Divided difference of sinc√x at x = s²; the derivative (cos s − sinc s)/2s² half-way when they are close."""
    a, b = s[..., :, None], s[..., None, :]
    gap = a * a - b * b
    near = xp.abs(gap) < 1e-5
    safe = xp.where(near, xp.ones_like(gap), gap)
    square = (a * a + b * b) / 2
    tiny = square < 1e-3
    x = xp.where(tiny, xp.ones_like(square), square)
    root = xp.sqrt(x)
    slope = xp.where(tiny, -1 / 6 + square * (1 / 60 - square / 1680), (xp.cos(root) - sinc(xp, root)) / (2 * x))
    return xp.where(near, slope, (sinc(xp, a) - sinc(xp, b)) / safe)
