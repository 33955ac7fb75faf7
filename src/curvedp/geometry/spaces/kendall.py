"""Kendall's shape space of planar landmarks: what is left of k points after moving, scaling and rotating them."""

import math
from dataclasses import dataclass

import numpy as np

from curvedp.geometry.manifold import Array, fact, orthogonal_square
from curvedp.geometry.spaces.frames import Embedded
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.elementary import cos_sinc, safe_sqrt, versine_quotient


def _turn(x: Array) -> Array:
    """i·x: each landmark turned by a quarter."""
    return namespace(x).stack([-x[..., 1], x[..., 0]], axis=-1)


def _hermitian(x: Array, y: Array) -> Array:
    """⟨x, y⟩ = Σ x̄ⱼ yⱼ, as an array (..., 1, 2) that multiplies landmarks by `_times`."""
    xp = namespace(x, y)
    real = xp.sum(x * y, axis=(-2, -1))
    return xp.stack([real, xp.sum(_turn(x) * y, axis=(-2, -1))], axis=-1)[..., None, :]


def _times(a: Array, x: Array) -> Array:
    """Complex product of a number and landmarks."""
    return a[..., :1] * x + a[..., 1:] * _turn(x)


def _conj(a: Array) -> Array:
    return namespace(a).stack([a[..., 0], -a[..., 1]], axis=-1)


def _modulus(a: Array) -> Array:
    """|a| of a number (..., 1, 2), as (..., 1, 1), with derivative 0 at 0."""
    xp = namespace(a)
    return safe_sqrt(xp, xp.sum(a * a, axis=-1, keepdims=True))


def _phase(a: Array) -> Array:
    """a/|a|, and 1 at a = 0."""
    xp, size = namespace(a), _modulus(a)
    return xp.where(size > 0, a / xp.where(size > 0, size, 1.0), like(a, [1.0, 0.0]))


@dataclass(frozen=True)
class KendallShapes(Embedded):
    """Shapes of k ≥ 3 labeled landmarks in the plane (Kendall 1984): centered k×2 arrays of Frobenius norm 1, modulo
    rotations of the plane. As complex vectors this is the projective space ℂP^{k−2} with the Fubini–Study metric.

    Points are preshapes; a shape is a preshape up to rotation, and tangent vectors are horizontal: centered and
    orthogonal to p and to i·p. Distance arccos|⟨p, q⟩| ∈ [0, π/2], written with the angle's sine and cosine so that it
    keeps its digits at both ends.

    Parameters
    ----------
    k : int
        The number of landmarks.

    Examples
    --------
    >>> M = KendallShapes(3)
    >>> p = M.project(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> turned = p @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> bool(M.dist(p, turned) < 1e-15)
    True
    """

    kind = "kendall"
    k: int
    sizes = (("k", 3),)
    dim = fact(lambda self: 2 * self.k - 4)
    point_shape = fact(lambda self: (self.k, 2))
    # ℂPⁿ has 1 + 3cos²α, α the angle between the plane and its turn by i; ℂP¹ is a sphere of radius ½.
    curvature_bounds = fact(lambda self: (4.0, 4.0) if self.k == 3 else (1.0, 4.0))
    # 4 once, along i·velocity, and 1 otherwise
    jacobi_spectrum = fact(
        lambda self: ((1.0, self.dim - 2), (4.0, 1)) if self.k > 3 else ((4.0, 1),)
    )
    injectivity_radius = math.pi / 2
    is_symmetric = True
    embedded_diameter = float(
        2**0.5
    )  # of the projectors zz*: ‖zz* − ww*‖² = 2 − 2|⟨z, w⟩|²

    @property
    def origin(self) -> Array:
        """The first two landmarks apart, the others half-way between them."""
        base = np.zeros((self.k, 2))
        base[0, 0], base[1, 0] = math.sqrt(0.5), -math.sqrt(0.5)
        return base

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """ℂPⁿ: curvature 1, and 3 more along i·v."""
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        z = np.asarray(self.to_coordinates(p, v))
        turned = z.reshape(*z.shape[:-1], -1, 2)
        turned = np.stack([-turned[..., 1], turned[..., 0]], axis=-1).reshape(z.shape)
        return np.asarray(
            orthogonal_square(z) + 3 * turned[..., :, None] * turned[..., None, :]
        )

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        square = xp.sum(v * v, axis=(-2, -1), keepdims=True)
        return p + (
            v * cos_sinc(xp, square)[1] - p * (square * versine_quotient(xp, square))
        )

    def log(self, p: Array, q: Array) -> Array:
        """Horizontal at p; at distance π/2, where p and q have no best rotation, one of the shortest velocities."""
        xp = namespace(p, q)
        horizontal = self.to_tangent(
            p, q - p
        )  # |horizontal| = sin θ, with the digits of a small q − p
        overlap = _hermitian(p, q)  # |overlap| = cos θ
        sine = safe_sqrt(
            xp, xp.sum(horizontal * horizontal, axis=(-2, -1), keepdims=True)
        )
        cosine = _modulus(overlap)
        safe = xp.where(sine == 0, 1.0, sine)
        stretch = xp.where(sine == 0, 1.0, xp.atan2(safe, cosine) / safe)
        return _times(_conj(_phase(overlap)), horizontal) * stretch

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Parallel along the shortest geodesic: the unitary map that turns p into q in their complex plane."""
        phase = _phase(_hermitian(p, q))
        aligned = _times(_conj(phase), q)
        share = _hermitian(aligned, v) / (1 + _modulus(_hermitian(p, q)))
        return _times(phase, v - _times(share, p + aligned))

    def project(self, x: Array) -> Array:
        """Center and scale to norm 1. Landmarks that are all equal have no shape and go to the origin."""
        xp = namespace(x)
        point, lost = self._preshape(x, 0.0)
        return xp.where(lost & ~xp.isnan(point), like(x, self.origin), point)

    def from_record(self, x: Array) -> Array:
        """Centered and scaled landmarks; those that are all equal to round-off have no shape."""
        xp = namespace(x)
        point, lost = self._preshape(x, self.k * float(xp.finfo(x.dtype).eps))
        return xp.where(lost, xp.nan, point)

    @staticmethod
    def _preshape(x: Array, tolerance: float) -> tuple[Array, Array]:
        """(the preshape, whether all landmarks are equal to a relative tolerance)."""
        xp = namespace(x)
        moved = x - x[..., :1, :]  # exact zeros when all landmarks are equal
        size = xp.max(xp.abs(moved), axis=(-2, -1), keepdims=True)
        lost = ~(size > tolerance * xp.max(xp.abs(x), axis=(-2, -1), keepdims=True))
        moved = moved / xp.where(lost, 1.0, size)
        centered = moved - xp.mean(moved, axis=-2, keepdims=True)
        square = xp.sum(centered * centered, axis=(-2, -1), keepdims=True)
        return centered / xp.sqrt(xp.where(lost, 1.0, square)), lost

    def embedded(self, X: Array) -> np.ndarray:
        X = np.asarray(X)
        z = X[..., 0] + 1j * X[..., 1]
        P = z[..., :, None] * np.conj(z[..., None, :])
        rows, columns = np.triu_indices(self.k, 1)
        above = 2**0.5 * P[..., rows, columns]
        diagonal = np.real(np.diagonal(P, axis1=-2, axis2=-1))
        return np.concatenate([diagonal, above.real, above.imag], axis=-1)

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        rows, columns = np.triu_indices(self.k, 1)
        P = np.zeros((self.k, self.k), dtype=np.complex128)
        real, imaginary = np.split(z[self.k :], 2)
        P[rows, columns] = (real + 1j * imaginary) / 2**0.5
        top = np.linalg.eigh(P + np.conj(P.T) + np.diag(z[: self.k]))[1][:, -1]
        return np.asarray(self.project(np.stack([top.real, top.imag], axis=-1)))

    def to_tangent(self, p: Array, x: Array) -> Array:
        xp = namespace(p, x)
        centered = x - xp.mean(x, axis=-2, keepdims=True)
        return centered - _times(
            _hermitian(p, centered) / xp.sum(p * p, axis=(-2, -1), keepdims=True), p
        )

    def residual(self, p: Array) -> Array:
        """The larger of the distance of the centroid from 0 and of the norm from 1."""
        xp = namespace(p)
        center = xp.mean(p, axis=-2)
        offset = xp.sqrt(xp.sum(center * center, axis=-1))
        return xp.maximum(offset, xp.abs(xp.sqrt(xp.sum(p * p, axis=(-2, -1))) - 1))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Two reflections in O(k): one carries e₁ to the centroid direction, one e₁ of what is left to p."""
        xp = namespace(p, z)
        w = xp.reshape(z, (*z.shape[:-1], self.k - 2, 2))
        w = xp.concat([xp.zeros_like(w[..., :1, :]), w], axis=-2)
        w = self._reflect(self._helmert(p)[..., 1:, :], w)
        return self._helmert(xp.concat([xp.zeros_like(w[..., :1, :]), w], axis=-2))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        w = self._reflect(self._helmert(p)[..., 1:, :], self._helmert(v)[..., 1:, :])[
            ..., 1:, :
        ]
        return xp.reshape(w, (*w.shape[:-2], self.dim))

    def _helmert(self, x: Array) -> Array:
        """The reflection that swaps e₁ and −1/√k: centered vectors are those it sends to a zero first entry."""
        xp = namespace(x)
        root = math.sqrt(self.k)
        first = x[..., :1, :]
        # u = e₁ + 1/√k, |u|² = 2(1 + 1/√k), so 2⟨u,x⟩/|u|² = (x₁ + Σx/√k)/(1 + 1/√k)
        share = (first + xp.sum(x, axis=-2, keepdims=True) / root) / (1 + 1 / root)
        return xp.concat(
            [first - share * (1 + 1 / root), x[..., 1:, :] - share / root], axis=-2
        )

    @staticmethod
    def _reflect(a: Array, w: Array) -> Array:
        """The complex reflection that swaps the lines of e₁ and of the unit vector a, applied to w."""
        xp = namespace(a, w)
        first = a[..., :1, :]
        u = xp.concat(
            [first + _phase(first), a[..., 1:, :]], axis=-2
        )  # |u|² = 2(1 + |a₁|) ≥ 2
        return w - _times(_hermitian(u, w) / (1 + _modulus(first)), u)
