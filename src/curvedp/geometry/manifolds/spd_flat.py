"""The two flat metrics on SPD(m): Log-Euclidean (Arsigny et al. 2007) and Log-Cholesky (Lin 2019)."""

from dataclasses import dataclass
from functools import cached_property
from math import comb, factorial, sqrt
from typing import Any, ClassVar

import numpy as np
from array_api_compat import device, is_jax_namespace

from curvedp.geometry.base import Array
from curvedp.geometry.manifolds.spd_common import SPD, Held, pack, unpack
from curvedp.geometry.numerics.matrix import embedded_norm
from curvedp.geometry.numerics.namespace import namespace
from curvedp.geometry.numerics.small_eigh import eigh
from curvedp.geometry.numerics.spd_pencil import alike
from curvedp.geometry.numerics.spectral import (
    differentiate_as,
    divided_exp,
    divided_log,
    exp_sym,
    log_sym,
    sandwich,
    sym,
)
from curvedp.geometry.numerics.triangular import cholesky, cholesky_minus_identity, whiten


@dataclass(frozen=True)
class SPDLogEuclidean(Held, SPD):
    """SPD(m) with the Euclidean metric of log P: flat, complete, Euclidean mechanisms are exact.

    d(log)_P and its inverse multiply by divided differences in the eigenbasis of P (SPEC §1, E7).

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> M = SPDLogEuclidean(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e, 1.0])))
    1.0
    """

    carries = True
    kind: ClassVar[str] = "spd-log-euclidean"

    curvature_bounds = (0.0, 0.0)
    is_symmetric = True

    @cached_property
    def float_reach(self) -> float:
        """Eigenvalues are a factor e^{√2·r} apart: beyond 2^52 = e^36 the small ones are lost."""
        return 25.0 if self.m > 1 else 700.0

    def exp(self, p: Array, v: Array) -> Array:
        def smooth(p: Array, v: Array) -> Array:
            return exp_sym(log_sym(p) + dlog(p, v))

        return differentiate_as(smooth, _le_exp, p, v)

    def log(self, p: Array, q: Array) -> Array:
        def smooth(p: Array, q: Array) -> Array:
            return dexp(p, log_sym(q) - log_sym(p))

        return differentiate_as(smooth, lambda p, q: dexp(p, _log_difference(p, q)), p, q)

    def dist(self, p: Array, q: Array) -> Array:
        D = differentiate_as(lambda p, q: log_sym(q) - log_sym(p), _log_difference, p, q)
        return embedded_norm(D, D)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        return xp.sum(dlog(p, u) * dlog(p, v), axis=(-2, -1))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return dexp(q, dlog(p, v))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return dexp(p, unpack(z, self.m))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return pack(dlog(p, v))


def dlog(p: Array, v: Array) -> Array:
    """d(log)_p[v]."""

    def value(p: Array, v: Array) -> Array:
        w, U = eigh(p)
        return sym(sandwich(U, divided_log(w[..., :, None], w[..., None, :]) * (U.mT @ v @ U)))

    if not is_jax_namespace(namespace(p, v)):
        return value(p, v)
    import jax

    def rule(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
        p, v = primals
        s = value(p, v)  # dexp_{log p}[s] = v, differentiated along p with s held fixed, then solved for s'
        turned = jax.jvp(lambda p: _block_dexp(p, s), (p,), (tangents[0],))[1]
        return s, value(p, sym(tangents[1]) - turned)

    function: Any = jax.custom_jvp(value)
    function.defjvp(rule)
    return function(p, v)


def dexp(p: Array, s: Array) -> Array:
    """d(exp)_{log p}[s], the inverse of d(log)_p: (λr−λs)/(log λr−log λs) in the eigenbasis of p."""

    def value(p: Array, s: Array) -> Array:
        w, U = eigh(p)
        return sym(sandwich(U, (U.mT @ s @ U) / divided_log(w[..., :, None], w[..., None, :])))

    return differentiate_as(_block_dexp, value, p, s)


def _block_dexp(p: Array, s: Array) -> Array:
    """The same as a block of exp([[log p, s], [0, log p]]) (Najfeld & Havel 1995): smooth also at repeated eigenvalues."""
    import jax

    xp = namespace(p, s)
    log_p = log_sym(p) + xp.zeros_like(s)
    s = s + xp.zeros_like(log_p)
    m = p.shape[-1]
    rows = [xp.concat([log_p, s], axis=-1), xp.concat([xp.zeros_like(s), log_p], axis=-1)]
    return sym(jax.scipy.linalg.expm(xp.concat(rows, axis=-2))[..., :m, m:])


def _log_difference(p: Array, q: Array) -> Array:
    """log q − log p, every digit kept when q is near p."""
    q, back = alike(p, q)
    a, U = eigh(p)
    b, V = eigh(q)
    D = sym(sandwich(U, divided_log(a[..., :, None], b[..., None, :]) * (U.mT @ (q - p) @ V), V))
    return D + back[..., None, None] * namespace(D).eye(D.shape[-1], dtype=D.dtype, device=device(D))


def _le_exp(p: Array, v: Array) -> Array:
    xp = namespace(p, v)
    step = dlog(p, v)
    a, U = eigh(p)
    a = xp.log(xp.where(a > 0, a, xp.nan))
    b, V = eigh((U * a[..., None, :]) @ U.mT + step)
    near = p + sandwich(U, divided_exp(a[..., :, None], b[..., None, :]) * (U.mT @ step @ V), V)
    far = (V * xp.exp(b)[..., None, :]) @ V.mT
    small = xp.max(xp.abs(step), axis=(-2, -1), keepdims=True) < 0.5
    return sym(xp.where(small, near, far))


@dataclass(frozen=True)
class SPDLogCholesky(SPD):
    """SPD(m) with the metric of (strict lower part of L, log of its diagonal), P = LLᵀ (Lin 2019): flat, complete.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> M = SPDLogCholesky(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e**2, 1.0])))
    1.0
    """

    carries = True
    kind: ClassVar[str] = "spd-log-cholesky"

    curvature_bounds = (0.0, 0.0)
    is_symmetric = True

    @cached_property
    def float_reach(self) -> float:
        """Diagonals of L are a factor e^r apart, squared in LLᵀ."""
        return 18.0 if self.m > 1 else 350.0

    def float_spread(self, radius: float) -> float:
        """Proof. A = LLᵀ, entries off by one part: ‖ΔA‖ ≤ ‖A‖ ≤ ‖L‖² (all norms Frobenius), E = L⁻¹ΔA L⁻ᵀ, ‖E‖ ≤ ‖L⁻¹‖²‖L‖².
        To first order L moves by L·(½diag E + strict lower E), the bracket at most ‖E‖/√2 long, and log diag L by ½diag E:
        together (1 + ‖L‖)‖E‖/√2; higher orders are below that again while the whole is below ¼, hence √2.
        Let d₊, d₋ be the lengths of the positive and negative log-diagonals, N that of the strict part, d₊² + d₋² + N² ≤ r².
        - ‖L‖² ≤ m + √m(e^{2d₊} − 1) + N², since e^{2d} − 1 ≤ d(e^{2d₊} − 1)/d₊ and Σd ≤ √m d₊.
        - L⁻¹ is, up to signs, a sum over chains i₀ > … > i_k of Π|N_e|·e^{−Σd_i}, its exponent at most √(k+1) d₋. A chain is
          a set of k entries, so that ΠN_e² adds up to at most N^{2k}/k! over all chains, and there are C(m−2, k−1) of them
          between two ends: by Cauchy and Schwarz ‖L⁻¹‖ ≤ √m e^{d₋} + Σ_k √(C(m−2, k−1)/k!) e^{√(k+1) d₋} N^k.
        The bound grows with each of d₊, d₋, N: its largest value at the far corners of cells that cover the sphere of
        radius r is above every value in the ball."""
        if self.m == 1:
            return 1.0  # only the logarithm of one number moves, by ½
        cells = 24
        angle = np.arange(cells + 1) / cells * (np.pi / 2)
        near, far = np.sin(angle[1:]), np.cos(angle[:-1])  # the larger end of each cell of an angle
        plus, minus = radius * far[:, None], radius * near[:, None] * far
        strict = radius * near[:, None] * near
        size = self.m + sqrt(self.m) * np.expm1(2 * plus) + strict**2
        inverse = sqrt(self.m) * np.exp(minus)
        for k in range(1, self.m):
            inverse = inverse + sqrt(comb(self.m - 2, k - 1) / factorial(k)) * np.exp(sqrt(k + 1) * minus) * strict**k
        with np.errstate(over="ignore"):  # so far out no double is near: infinite
            return float(np.max(sqrt(2) * (1 + np.sqrt(size)) * size * inverse**2))

    def exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        L = cholesky(p)
        X = _flat(L, _factor_tangent(L, v))
        D = _unflat_difference(L, X)  # K − L
        near = p + sym(2 * D @ L.mT) + D @ D.mT
        K = L + D
        small = xp.max(xp.abs(X), axis=(-2, -1), keepdims=True) < 0.5
        return sym(xp.where(small, near, K @ K.mT))

    def log(self, p: Array, q: Array) -> Array:
        L = cholesky(p)
        return _factor_push(L, _unflatten(L, _flat_difference(L, p, q)))

    def dist(self, p: Array, q: Array) -> Array:
        D = _flat_difference(cholesky(p), p, q)
        return embedded_norm(D, D)

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        xp = namespace(p, u, v)
        L = cholesky(p)
        return xp.sum(_flat(L, _factor_tangent(L, u)) * _flat(L, _factor_tangent(L, v)), axis=(-2, -1))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        L, K = cholesky(p), cholesky(q)
        return _factor_push(K, _unflatten(K, _flat(L, _factor_tangent(L, v))))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        L = cholesky(p)
        return _factor_push(L, _unflatten(L, _lower(z, self.m)))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        L = cholesky(p)
        return _lower_coordinates(_flat(L, _factor_tangent(L, v)))


def _mask(L: Array) -> tuple[Array, Array]:
    """Boolean masks of the diagonal and of the strict lower triangle."""
    xp = namespace(L)
    index = xp.arange(L.shape[-1], device=device(L))
    return index[:, None] == index[None, :], index[:, None] > index[None, :]


def _lower_coordinates(X: Array) -> Array:
    """Inverse of `_lower`."""
    xp = namespace(X)
    return pack(xp.where(_mask(X)[0], X, X / 2**0.5))


def _lower(z: Array, m: int) -> Array:
    """Lower triangular matrix with coordinates z: orthonormal, since only one triangle counts."""
    xp = namespace(z)
    S = unpack(z, m)
    diagonal, strict = _mask(S)
    return xp.where(diagonal, S, xp.where(strict, S * 2**0.5, xp.zeros_like(S)))


def _factor_tangent(L: Array, v: Array) -> Array:
    """X lower triangular with v = L Xᵀ + X Lᵀ: X = L (L⁻¹vL⁻ᵀ)_½ (Lin 2019, Prop. 4)."""
    xp = namespace(L, v)
    A = whiten(L, v)
    diagonal, strict = _mask(A)
    return L @ xp.where(diagonal, 0.5 * A, xp.where(strict, A, xp.zeros_like(A)))


def _factor_push(L: Array, X: Array) -> Array:
    Y = L @ X.mT
    return Y + Y.mT


def _flat(L: Array, X: Array) -> Array:
    """Tangent vector of the factor in flat coordinates: the diagonal divided by that of L."""
    xp = namespace(L, X)
    diagonal, _ = _mask(X)
    return xp.where(diagonal, X / xp.where(diagonal, L, xp.ones_like(L)), X)


def _unflatten(L: Array, X: Array) -> Array:
    xp = namespace(L, X)
    diagonal, _ = _mask(X)
    return xp.where(diagonal, X * L, X)


def _flat_difference(L: Array, p: Array, q: Array) -> Array:
    """Flat coordinates of q minus those of p = LLᵀ. K = L(I+F), so K − L = LF and log(K_jj/L_jj) = log1p(F_jj)."""
    xp = namespace(L, q)
    units = (xp.abs(alike(p, q)[1]) > 2)[..., None, None]
    F = cholesky_minus_identity(whiten(L, xp.where(units, xp.zeros_like(q), q - p)))
    diagonal, _ = _mask(F)
    near = xp.where(diagonal, xp.log1p(xp.where(diagonal, F, xp.zeros_like(F))), L @ F)
    # A q of another size than p: q − p would lose its digits, its own factor has them.
    far = units | xp.any(diagonal & ~(xp.abs(F) < 0.5), axis=(-2, -1), keepdims=True)
    K = cholesky(xp.where(far, q, p))
    ratio = xp.where(diagonal, K, xp.ones_like(K)) / xp.where(diagonal, L, xp.ones_like(L))
    return xp.where(far, xp.where(diagonal, xp.log(ratio), K - L), near)


def _unflat_difference(L: Array, X: Array) -> Array:
    """K − L where K has flat coordinates X more than L."""
    xp = namespace(L, X)
    diagonal, _ = _mask(X)
    return xp.where(diagonal, L * xp.expm1(xp.where(diagonal, X, xp.zeros_like(X))), X)
