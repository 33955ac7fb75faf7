"""Symmetric positive definite matrices under the affine-invariant metric."""

import math

import numpy as np

from curvedp.geometry.manifold import Array, bracket_jacobi_operator, fact
from curvedp.geometry.spaces.spd_common import SPD, Held, pack, unpack
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import with_derivative_of
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import euclidean_norm, safe_sqrt
from curvedp.numerics.matrix_functions import (
    cholesky,
    exp_sym,
    log1p_sym,
    lower_solve,
    sandwich,
    sqrt_sym,
    sym,
    whiten,
)
from curvedp.numerics.spd3 import Factor, lower_entries, whitened_logs
from curvedp.numerics.spd_pencil import log_spectrum, whitened

_ROWS, _NEAR = (
    1 << 12,
    1e-4,
)  # matrices whose entries stay in the cache; below that length logarithms need care


class SPDAffineInvariant(Held, SPD):
    """SPD(m) with ⟨U,V⟩_P = tr(P⁻¹U P⁻¹V): a Hadamard manifold, curvature in [−½, 0] (Bhatia 2007, ch. 6; SPEC §2).

    Everything goes through the congruence S ↦ L S Lᵀ with P = LLᵀ (Cholesky), an isometry that carries I to P.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> M = SPDAffineInvariant(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e, 1.0])))
    1.0
    """

    kind = "spd-affine"
    carries = True
    is_symmetric = True
    curvature_bounds = fact(lambda self: (-0.5, 0.0) if self.m > 1 else (0.0, 0.0))
    # SPD(2) is ℝ × H² with κ = −½; on larger matrices the curvatures depend on the velocity.
    jacobi_spectrum = fact(
        lambda self: () if self.m == 1 else ((-0.5, 1),) if self.m == 2 else None
    )
    positive_matrices = fact(lambda self: (self.m, 1))

    def to_origin(self, center: Array, X: Array) -> Array:
        """L⁻¹XL⁻ᵀ with center = LLᵀ."""
        return (
            X
            if np.array_equal(center, self.origin)
            else whitened(like(X, center), X)[1]
        )

    def from_origin(self, center: Array, X: Array) -> Array:
        """LXLᵀ."""
        return (
            X
            if np.array_equal(center, self.origin)
            else sym(sandwich(cholesky(like(X, center)), X))
        )

    def euclidean_factor(self, p: Array) -> np.ndarray:
        """The multiples of p: SPD(m) = ℝ × SL(m)/SO(m)."""
        return (
            np.asarray(self.to_coordinates(p, p / math.sqrt(self.m)))[None]
            if self.m > 1
            else np.zeros((0, 1))
        )

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return −¼[[·, V], V] in coordinates (Helgason 1978, IV.4)."""
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        return bracket_jacobi_operator(self, p, v)

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)

        def smooth(p: Array, v: Array) -> Array:
            L = cholesky(p)
            return sandwich(L, exp_sym(whiten(L, v)))

        def accurate(p: Array, v: Array) -> Array:
            L, A = whitened(p, v)
            w, U = eigh(A)
            frame = L @ U
            near = p + (frame * xp.expm1(w)[..., None, :]) @ frame.mT
            half = frame * xp.exp(0.5 * w)[..., None, :]
            small = xp.max(xp.abs(w), axis=-1)[..., None, None] < 0.5
            return sym(xp.where(small, near, half @ half.mT))

        return with_derivative_of(smooth, accurate, p, v)

    def log(self, p: Array, q: Array) -> Array:
        def smooth(p: Array, q: Array) -> Array:
            L = cholesky(p)
            return sandwich(L, log1p_sym(whiten(L, q - p)))

        def accurate(p: Array, q: Array) -> Array:
            xp = namespace(p, q)
            L, logs, U = log_spectrum(p, q)
            frame = L @ U
            far = (frame * logs[..., None, :]) @ frame.mT
            # near q = p the answer is q − p, which is exact, and a second-order rest: ℓ − expm1(ℓ) at ℓ = log λ
            small = xp.max(xp.abs(logs), axis=-1, keepdims=True) < 0.2
            ell = xp.where(small, logs, 0.0)
            rest = xp.zeros_like(ell)
            for k in range(13, 1, -1):
                rest = (rest + 1) * ell / k
            near = (q - p) - (frame * (rest * ell)[..., None, :]) @ frame.mT
            return sym(xp.where(small[..., None], near, far))

        return with_derivative_of(smooth, accurate, p, q)

    def dist(self, p: Array, q: Array) -> Array:
        """√Σ log²λ(p⁻¹q); relative error as of `spd_pencil`."""

        def smooth(p: Array, q: Array) -> Array:
            S = log1p_sym(whiten(cholesky(p), q - p))
            return safe_sqrt(namespace(S), namespace(S).sum(S * S, axis=(-2, -1)))

        return with_derivative_of(
            smooth,
            lambda p, q: euclidean_norm(namespace(p, q), log_spectrum(p, q)[1]),
            p,
            q,
        )

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return namespace(p, u, v).sum(
            self._whitened(p, u) * self._whitened(p, v), axis=(-2, -1)
        )

    @staticmethod
    def _whitened(p: Array, v: Array) -> Array:
        return with_derivative_of(
            lambda p, v: whiten(cholesky(p), v), lambda p, v: whitened(p, v)[1], p, v
        )

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Parallel along the geodesic: v ↦ E v Eᵀ with E = (qp⁻¹)^½ = L A^½ L⁻¹, A = L⁻¹qL⁻ᵀ."""
        L = cholesky(p)
        return sym(sandwich(L @ sqrt_sym(whiten(L, q)), whiten(L, v)))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return sandwich(cholesky(p), unpack(z, self.m))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return pack(self._whitened(p, v))

    def quick_chart(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        if self.m != 3 or q.ndim != 3:
            return np.asarray(self.normal_coordinates(p, q))
        z, careful = np.empty((len(q), 6)), np.empty(len(q), dtype=bool)
        factor = Factor.of(p)
        for start in range(0, len(q), _ROWS):
            rows = slice(start, start + _ROWS)
            logs = whitened_logs(factor, lower_entries(q[rows])[0])
            np.stack(logs.coordinates, axis=-1, out=z[rows])
            careful[rows] = ~(
                logs.sure & (logs.square > _NEAR**2)
            )  # good to 1e-12, whatever their length
        if careful.any():
            z[careful] = self.normal_coordinates(p, q[careful])
        return z

    # Steps in coordinates, without the two congruences that cancel and the care for digits that noise drowns.

    def rough_chart(self, p: Array, q: Array) -> Array:
        """log(L⁻¹qL⁻ᵀ), p = LLᵀ: one factorization of p serves every q."""
        values, vectors = _pencil(cholesky(p), q)
        return pack((vectors * namespace(q).log(values)[..., None, :]) @ vectors.mT)

    def rough_unchart(self, p: Array, z: Array) -> Array:
        """L·e^S·Lᵀ as GGᵀ: symmetric positive definite by construction."""
        values, vectors = eigh(unpack(z, self.m))
        G = cholesky(p) @ (vectors * namespace(z).exp(0.5 * values)[..., None, :])
        return G @ G.mT

    def carry(self, p: Array, q: Array, z: Array) -> Array:
        """S ↦ QSQᵀ with Q = M⁻¹L·A^½ orthogonal, p = LLᵀ, q = MMᵀ, A = L⁻¹qL⁻ᵀ."""
        L = cholesky(p)
        values, vectors = _pencil(L, q)
        root = (vectors * namespace(q).sqrt(values)[..., None, :]) @ vectors.mT
        Q = lower_solve(cholesky(q), L @ root)
        return pack(Q @ unpack(z, self.m) @ Q.mT)


def _pencil(L: Array, q: Array) -> tuple[Array, Array]:
    """Eigenvalues, vectors of L⁻¹qL⁻ᵀ; values lost to round-off are raised as in `SPD.project`, to eps times the largest."""
    xp = namespace(L, q)
    inverse = lower_solve(L, like(L, np.eye(L.shape[-1])))
    values, vectors = eigh(sym(inverse @ q @ inverse.mT))
    return xp.maximum(
        values,
        float(xp.finfo(L.dtype).eps) * xp.max(xp.abs(values), axis=-1, keepdims=True),
    ), vectors
