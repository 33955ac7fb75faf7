"""The two flat metrics on SPD(m): Log-Euclidean (Arsigny et al. 2007) and Log-Cholesky (Lin 2019)."""

from collections.abc import Callable
from math import comb, factorial, inf, sqrt

import numpy as np
from array_api_compat import device, is_numpy_array

from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.spd_common import SPD, Held, pack, unpack
from curvedp.numerics import matrix_functions as matrix
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import custom_jvp, jvp, with_derivative_of
from curvedp.numerics.eigen import eigh
from curvedp.numerics.matrix_functions import (
    cholesky,
    cholesky_change,
    divided_log,
    log_sym,
    sandwich,
    sym,
)
from curvedp.numerics.spd_pencil import alike, log_cholesky_change


def dlog(p: Array, v: Array) -> Array:
    """d(log)_p[v]."""

    def value(p: Array, v: Array) -> Array:
        w, U = eigh(p)
        return sym(
            sandwich(U, divided_log(w[..., :, None], w[..., None, :]) * (U.mT @ v @ U))
        )

    def rule(
        arrays: tuple[Array, Array], changes: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        s = value(
            *arrays
        )  # dexp_{log p}[s] = v, differentiated along p with s held fixed, then solved for s'
        turned = jvp(lambda p: _block_dexp(p, s), arrays[:1], changes[:1])[1]
        return s, value(arrays[0], sym(changes[1]) - turned)

    return custom_jvp(value, rule, p, v)


def dexp(p: Array, s: Array) -> Array:
    """d(exp)_{log p}[s], the inverse of d(log)_p: (λr−λs)/(log λr−log λs) in the eigenbasis of p."""

    def value(p: Array, s: Array) -> Array:
        w, U = eigh(p)
        return sym(
            sandwich(U, (U.mT @ s @ U) / divided_log(w[..., :, None], w[..., None, :]))
        )

    return with_derivative_of(_block_dexp, value, p, s)


def _block_dexp(p: Array, s: Array) -> Array:
    """The same as a block of exp([[log p, s], [0, log p]]) (Najfeld & Havel 1995): smooth also at repeated eigenvalues."""
    import jax

    xp, m = namespace(p, s), p.shape[-1]
    log_p = log_sym(p) + xp.zeros_like(s)
    s = s + xp.zeros_like(log_p)
    rows = [
        xp.concat([log_p, s], axis=-1),
        xp.concat([xp.zeros_like(s), log_p], axis=-1),
    ]
    return sym(jax.scipy.linalg.expm(xp.concat(rows, axis=-2))[..., :m, m:])


class _Flat(SPD):
    """What a flat metric on SPD(m) is made of: a chart φ of matrices, read at a `_frame` of the footpoint."""

    carries = True
    curvature_bounds = (0.0, 0.0)
    is_symmetric = True

    _frame: Callable[[Array], Array]  # what the others need of a point p
    _push: Callable[[Array, Array], Array]  # dφ at p
    _pull: Callable[[Array, Array], Array]  # its inverse
    _difference: Callable[
        [Array, Array, Array], Array
    ]  # φ(q) − φ(p), every digit kept when q is near p

    def log(self, p: Array, q: Array) -> Array:
        frame = self._frame(p)
        return self._pull(frame, self._difference(frame, p, q))

    def dist(self, p: Array, q: Array) -> Array:
        return matrix.norm(self._difference(self._frame(p), p, q))

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        frame = self._frame(p)
        return namespace(p, u, v).sum(
            self._push(frame, u) * self._push(frame, v), axis=(-2, -1)
        )

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        return self._pull(self._frame(q), self._push(self._frame(p), v))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        return self._pull(self._frame(p), unpack(z, self.m))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return pack(self._push(self._frame(p), v))


class SPDLogEuclidean(Held, _Flat):
    """SPD(m) with the Euclidean metric of log P: flat, complete, Euclidean mechanisms are exact.

    d(log)_P and its inverse multiply by divided differences in the eigenbasis of P (SPEC §1, E7).

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> M = SPDLogEuclidean(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e, 1.0])))
    1.0
    """

    kind = "spd-log-euclidean"
    _frame = staticmethod(lambda p: p)
    _push, _pull = staticmethod(dlog), staticmethod(dexp)

    def _difference(self, frame: Array, p: Array, q: Array) -> Array:
        def accurate(p: Array, q: Array) -> Array:
            q, back = alike(p, q)
            a, U = eigh(p)
            b, V = eigh(q)
            D = sym(
                sandwich(
                    U,
                    divided_log(a[..., :, None], b[..., None, :])
                    * (U.mT @ (q - p) @ V),
                    V,
                )
            )
            return D + back[..., None, None] * like(D, np.eye(D.shape[-1]))

        return with_derivative_of(lambda p, q: log_sym(q) - log_sym(p), accurate, p, q)

    def exp(self, p: Array, v: Array) -> Array:
        def accurate(p: Array, v: Array) -> Array:
            xp, step = namespace(p, v), dlog(p, v)
            a, U = eigh(p)
            a = xp.log(xp.where(a > 0, a, xp.nan))
            b, V = eigh((U * a[..., None, :]) @ U.mT + step)
            near = p + sandwich(
                U,
                matrix.divided_exp(a[..., :, None], b[..., None, :])
                * (U.mT @ step @ V),
                V,
            )
            far = (V * xp.exp(b)[..., None, :]) @ V.mT
            small = xp.max(xp.abs(step), axis=(-2, -1), keepdims=True) < 0.5
            return sym(xp.where(small, near, far))

        return with_derivative_of(
            lambda p, v: matrix.exp_sym(log_sym(p) + dlog(p, v)), accurate, p, v
        )


class SPDLogCholesky(_Flat):
    """SPD(m) with the metric of (strict lower part of L, log of its diagonal), P = LLᵀ (Lin 2019): flat, complete.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> M = SPDLogCholesky(2)
    >>> float(M.dist(np.eye(2), np.diag([np.e**2, 1.0])))
    1.0
    """

    kind = "spd-log-cholesky"
    # Diagonals of L are a factor e^r apart, squared in LLᵀ.
    float_reach = fact(lambda self: 18.0 if self.m > 1 else 350.0)

    def float_spread(self, radius: float) -> float:
        """The proof is in docs/geometry.md: a bound that grows with the lengths `plus`, `minus`, `strict` of the positive and
        negative log-diagonals and of the strict part, at the far corners of cells that cover the sphere of that radius."""
        if self.m == 1:
            return 1.0  # only the logarithm of one number moves, by ½
        cells = 24
        angle = np.arange(cells + 1) / cells * (np.pi / 2)
        near, far = (
            np.sin(angle[1:]),
            np.cos(angle[:-1]),
        )  # the larger end of each cell of an angle
        plus, minus = radius * far[:, None], radius * near[:, None] * far
        strict = radius * near[:, None] * near
        # Where nothing near that far out is a double, the bound is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            size = self.m + sqrt(self.m) * np.expm1(2 * plus) + strict**2
            inverse = sqrt(self.m) * np.exp(minus)
            for k in range(1, self.m):
                weight = sqrt(comb(self.m - 2, k - 1) / factorial(k))
                inverse = inverse + weight * np.exp(sqrt(k + 1) * minus) * strict**k
            bound = np.max(sqrt(2) * (1 + np.sqrt(size)) * size * inverse**2)
        return float(bound) if np.isfinite(bound) else inf

    def exp(self, p: Array, v: Array) -> Array:
        xp, L = namespace(p, v), cholesky(p)
        X, diagonal = self._push(L, v), _diagonal(L)
        # K − L, where K has flat coordinates X more than L
        D = xp.where(diagonal, L * xp.expm1(xp.where(diagonal, X, 0.0)), X)
        near = p + sym(2 * D @ L.mT) + D @ D.mT
        K = L + D
        small = xp.max(xp.abs(X), axis=(-2, -1), keepdims=True) < 0.5
        return sym(xp.where(small, near, K @ K.mT))

    _frame = staticmethod(cholesky)

    def _push(self, frame: Array, v: Array) -> Array:
        """The change of the factor, its diagonal divided by that of L."""
        xp, X, diagonal = (
            namespace(frame, v),
            cholesky_change(frame, v),
            _diagonal(frame),
        )
        return xp.where(diagonal, X / xp.where(diagonal, frame, 1.0), X)

    def _pull(self, frame: Array, X: Array) -> Array:
        Y = frame @ namespace(frame, X).where(_diagonal(X), X * frame, X).mT
        return Y + Y.mT

    def _difference(self, frame: Array, p: Array, q: Array) -> Array:
        """K = L(I+F), so K − L = LF and log(K_jj/L_jj) = log1p(F_jj)."""
        L, xp, diagonal = frame, namespace(frame, q), _diagonal(frame)
        units = (xp.abs(alike(p, q)[1]) > 2)[..., None, None]
        F = matrix.cholesky_minus_identity(
            matrix.whiten(L, xp.where(units, 0.0, q - p))
        )
        near = xp.where(diagonal, xp.log1p(xp.where(diagonal, F, 0.0)), L @ F)
        # A q of another size than p: q − p would lose its digits, its own factor has them.
        far = units | xp.any(
            diagonal & ~(xp.abs(F) < 0.5), axis=(-2, -1), keepdims=True
        )
        K = cholesky(xp.where(far, q, p))
        ratio = xp.where(diagonal, K, 1.0) / xp.where(diagonal, L, 1.0)
        return xp.where(far, xp.where(diagonal, xp.log(ratio), K - L), near)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        S = unpack(z, self.m)  # only one triangle counts
        xp = namespace(z)
        return self._pull(cholesky(p), xp.where(_diagonal(S), S, xp.tril(S * 2**0.5)))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        return _packed(self._push(cholesky(p), v))

    def normal_coordinates(self, p: Array, q: Array) -> Array:
        """With NumPy in pairs: what noise is added to may move by no more than q does, far out as well."""
        return (
            _packed(log_cholesky_change(p, q))
            if is_numpy_array(q)
            else super().normal_coordinates(p, q)
        )

    def quick_chart(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.asarray(super().normal_coordinates(p, q))


def _packed(X: Array) -> Array:
    return pack(namespace(X).where(_diagonal(X), X, X / 2**0.5))


def _diagonal(L: Array) -> Array:
    index = namespace(L).arange(L.shape[-1], device=device(L))
    return index[:, None] == index
