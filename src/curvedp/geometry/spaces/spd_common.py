"""What the four geometries of symmetric positive definite matrices share: the set, its tangent spaces, coordinates."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, sqrt

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.manifold import Array, Inherited, fact
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.matrix_functions import below, spread, sym, well_scaled


def pack(S: Array) -> Array:
    """Orthonormal coordinates of symmetric S under the Frobenius product: lower triangle, off-diagonal times √2."""
    row, column = np.tril_indices(S.shape[-1])
    return below(S, 0) * like(S, np.where(row == column, 1.0, sqrt(2)))


def unpack(z: Array, m: int) -> Array:
    """Inverse of `pack`."""
    return spread(z, np.where(np.eye(m, dtype=bool), 1.0, 1 / sqrt(2)), 0)


# Of log-eigenvalues: a condition of 1e6, whose units of round-off are 3e-10; pairs keep `log` at 1e-12 there.
_SPREAD = 14.0


class Held:
    """What floats hold of an SPD matrix whose coordinates at I are its logarithm: as much as its condition leaves.
    Log-eigenvalues of matrices at distance r from I spread by at most √2·r. Their spread is a convex function along
    geodesics of both metrics: e^a ≤ A, B ≤ e^b stays so in between, and for the mean (Lawson & Lim 2011,
    monotonicity). Beyond `_SPREAD` a record moves along its geodesic to I until its spread is that."""

    m: int

    # Eigenvalues at distance r are a factor e^{√2·r} apart: beyond 2^52 = e^36 the small ones are lost.
    float_reach = fact(lambda self: 25.0 if self.m > 1 else 700.0)
    held_reach = fact(lambda self: _SPREAD / sqrt(2) if self.m > 1 else inf)

    def held_share(self, z: Array) -> Array:
        xp = namespace(z)
        w = eigh(unpack(z, self.m))[0]
        spread = w[..., -1] - w[..., 0]
        far = spread > _SPREAD
        return xp.where(far, _SPREAD / xp.where(far, spread, 1.0), xp.ones_like(spread))

    def held_coordinates(self, z: Array) -> Array:
        """The nearest of the matrices whose eigenvalues have that spread: projections onto convex sets stretch nothing.
        It clips the eigenvalues to [a, a + spread], with a where as much is taken off above as below, by bisection."""
        xp = namespace(z)
        w, U = eigh(unpack(z, self.m))
        low, high = w[..., :1], w[..., -1:] - _SPREAD
        for _ in range(64):
            a = low / 2 + high / 2
            more = (
                xp.sum(
                    xp.clip(w - a - _SPREAD, 0, None) - xp.clip(a - w, 0, None),
                    axis=-1,
                    keepdims=True,
                )
                > 0
            )
            low, high = xp.where(more, a, low), xp.where(more, high, a)
        near = (U * xp.minimum(xp.maximum(w, low), low + _SPREAD)[..., None, :]) @ U.mT
        return xp.where(w[..., -1:] - w[..., :1] > _SPREAD, pack(sym(near)), z)

    def float_spread(self, radius: float) -> float:
        return exp(min(sqrt(2) * radius, _SPREAD)) if self.m > 1 else 1.0


@dataclass(frozen=True)
class SPD(Inherited):
    """Symmetric positive definite m×m matrices, without a metric."""

    m: int
    sizes = (("m", 1),)
    is_cone = True
    reduces = True
    dim = fact(lambda self: self.m * (self.m + 1) // 2)
    point_shape = fact(lambda self: (self.m, self.m))
    origin = property(lambda self: np.eye(self.m))
    injectivity_radius = inf
    is_homogeneous = True

    def project(self, x: Array) -> Array:
        """The symmetric part of x with its eigenvalues raised to at least ε·(largest modulus), ε the machine's. A
        matrix that is positive definite already comes back as its symmetric part, untouched; the zero matrix, which
        has no positive neighbor of its own scale, goes to the smallest normal multiple of I."""
        xp, S = namespace(x), sym(x)
        info = xp.finfo(S.dtype)

        def raised(S: Array) -> Array:
            w, U = eigh(S)
            floor = xp.max(xp.abs(w), axis=-1, keepdims=True) * float(info.eps)
            floor = xp.where(
                floor > float(info.smallest_normal), floor, float(info.smallest_normal)
            )
            lifted = sym((U * xp.where(w < floor, floor, w)[..., None, :]) @ U.mT)
            return xp.where(xp.all(w >= floor, axis=-1)[..., None, None], S, lifted)

        return _unless_clear(S, S, raised)

    def from_record(self, x: Array) -> Array:
        """The symmetric part of x at any scale, where its least eigenvalue is above ε times the largest, as of what `project`
        leaves alone; else there is none."""
        xp, S = namespace(x), sym(x)

        def definite(S: Array) -> Array:
            w = eigh(well_scaled(S))[0]
            return xp.where(
                (w[..., 0] > float(xp.finfo(w.dtype).eps) * w[..., -1])[
                    ..., None, None
                ],
                S,
                xp.nan,
            )

        return _unless_clear(S, S, definite)

    def norm(self, p: Array, v: Array) -> Array:
        """Riemannian length of v, of any size."""
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def to_tangent(self, p: Array, x: Array) -> Array:
        """The symmetric part of x: the nearest tangent vector in the Frobenius norm, at any p."""
        return sym(x) + namespace(p, x).zeros_like(p)

    def residual(self, p: Array) -> Array:
        """‖p − pᵀ‖ plus how far the least eigenvalue is below the positive ones (0 where p is positive definite).
        Both relative to the size of p: these matrices have no scale of their own."""
        xp = namespace(p)
        p = well_scaled(p)
        S = sym(p)

        def lack(S: Array) -> Array:
            least = eigh(S)[0][..., 0]
            return xp.where(least > 0, 0.0, xp.where(least < 0, -least, 1.0))

        return xp.sqrt(xp.sum((p - p.mT) ** 2, axis=(-2, -1))) + _unless_clear(
            S, xp.zeros_like(S[..., 0, 0]), lack
        )


def _unless_clear(S: Array, value: Array, kernel: Callable[[Array], Array]) -> Array:
    """kernel(S), which is `value` where S is clearly positive definite: only the others need their eigenvalues."""
    if (
        in_public_time()
        or not is_numpy_array(S)
        or S.dtype != np.float64
        or S.shape[-1] not in (2, 3)
    ):
        return kernel(S)
    flat = S.reshape(-1, *S.shape[-2:])
    value, rest = np.asarray(value, order="C"), np.flatnonzero(~_clearly_positive(flat))
    if len(rest):
        value.reshape(len(flat), *value.shape[S.ndim - 2 :])[rest] = kernel(flat[rest])
    return value


def _clearly_positive(flat: np.ndarray) -> np.ndarray:
    """Which 2×2 or 3×3 NumPy matrices S have all eigenvalues above ε·‖S‖, by the pivots of S − 64ε‖S‖I. Elimination errs
    by less than 16ε‖S‖ (Higham 2002, Theorem 10.3), so positive pivots prove it, at a tenth of the price of eigenvalues.
    Where squares could underflow or overflow nothing is claimed."""
    with np.errstate(all="ignore"):
        size = np.sqrt(np.einsum("nij,nij->n", flat, flat))
        shift = 64 * np.finfo(flat.dtype).eps * size
        first = flat[:, 0, 0] - shift
        below = flat[:, 1, 0]
        second = flat[:, 1, 1] - shift - below * below / first
        clear = (size > 1e-140) & (size < 1e140) & (first > 0) & (second > 0)
        if flat.shape[-1] == 3:
            left = flat[:, 2, 0] / first
            across = flat[:, 2, 1] - left * below
            clear &= (
                flat[:, 2, 2] - shift - left * flat[:, 2, 0] - across * across / second
                > 0
            )
    return np.asarray(clear)
