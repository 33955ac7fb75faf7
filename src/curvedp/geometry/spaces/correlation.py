"""Correlation matrices: as a product of hyperbolic spaces, and as a flat space."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from array_api_compat import is_numpy_array

from curvedp.geometry.manifold import Array, Inherited, fact
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.hyperbolic import HeldBall
from curvedp.geometry.spaces.lorentz import Lorentz
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_flat import dexp, dlog
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.matrix_functions import (
    below,
    cholesky,
    cholesky_change,
    log1p_sym,
    spread,
    sym,
)

_EXPONENT = 23.0  # 1/λ_min up to e^23 = 1e10: beyond, a correlation matrix in doubles says little about its place
_FLAT_EXPONENT = 9.0  # 1/λ_min up to e^9: there the logarithm of a matrix in doubles has eleven digits

_TAYLOR = 0.78  # norm up to which the polynomial of degree 16 is exact to round-off
_ENTRIES = (
    1 << 14
)  # of the matrices that are worked on at a time, and stay in the cache
_STEPS = 7  # to 1e-10 for S up to 8 long, m to 30 (tests/geometry/test_correlation.py)
_DONE = 1e-10  # an excess that the derivative, good to 4e-4, takes to round-off


@dataclass(frozen=True)
class _Correlations(HeldBall, PullbackManifold, Inherited):
    """Positive definite m×m matrices of unit diagonal, under any metric."""

    carries = True
    m: int

    sizes = (("m", 2),)
    point_shape = fact(lambda self: (self.m, self.m))
    origin = property(lambda self: np.eye(self.m))  # no correlation

    def project(self, x: Array) -> Array:
        return _unit_diagonal(SPDAffineInvariant(self.m).project(x))

    def from_record(self, x: Array) -> Array:
        """The correlation matrix of x's symmetric part, in any units of each variable: covariances are welcome."""
        xp = namespace(x)
        S = sym(x)
        variances = xp.all(xp.linalg.diagonal(S) > 0, axis=-1)[..., None, None]
        S = xp.where(variances, S, like(x, np.eye(self.m)))
        return xp.where(
            variances, SPDAffineInvariant(self.m).from_record(_unit_diagonal(S)), xp.nan
        )

    def to_tangent(self, p: Array, x: Array) -> Array:
        """The symmetric part of x with a diagonal of 0."""
        return sym(x) * (1 - like(p, np.eye(self.m))) + namespace(p, x).zeros_like(p)

    def residual(self, p: Array) -> Array:
        """That of a positive definite matrix, plus how far the diagonal is from 1."""
        xp = namespace(p)
        return SPDAffineInvariant(self.m).residual(p) + xp.max(
            xp.abs(xp.linalg.diagonal(p) - 1), axis=-1
        )


class Correlation(_Correlations):
    """Positive definite m×m matrices of unit diagonal: the poly-hyperbolic-Cholesky metric (Thanwerdas & Pennec 2022).

    Row i of the Cholesky factor is a point of an open hemisphere of dimension i − 1, a model of hyperbolic space:
    divided by its last entry it is the spatial part of a point of the hyperboloid, below the diagonal of a unit lower
    triangular matrix A. So this is H¹ × … × H^{m−1}, a Hadamard manifold of curvature in [−1, 0], and every mechanism
    for products applies. The metric depends on the order of the variables, which is public.

    Parameters
    ----------
    m : int
        The number of variables.

    Examples
    --------
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> float(np.round(Correlation(2).dist(np.eye(2), C), 12))  # Fisher's z, artanh 0.6
    0.69314718056
    """

    kind = "correlation"

    model = fact(lambda self: Product(*(Lorentz(i) for i in range(1, self.m))))
    float_reach = 17.0  # 1 − c² = 1/cosh² r, above an ulp of 1
    # det C = ∏ 1/cosh² rᵢ over the factors' distances from the origin and Σ rᵢ ≤ √(m−1)·r, so λ_min is about
    # e^{−2√(m−1)·r} at least
    held_reach = fact(lambda self: _EXPONENT / (2 * math.sqrt(self.m - 1)))

    def float_spread(self, radius: float) -> float:
        return math.exp(2 * math.sqrt(self.m - 1) * self.held_radius(radius))

    def to_model(self, x: Array) -> Array:
        L = cholesky(x)
        scale = namespace(x).linalg.diagonal(L)
        return self._flat(L / scale[..., None], 1 / scale)

    def from_model(self, y: Array) -> Array:
        A = self._lower(y, 1.0)
        rows = A / euclidean_norm(namespace(y), A)[..., None]
        return _unit_diagonal(sym(rows @ rows.mT))

    def _push(self, p: Array, v: Array) -> Array:
        """dL = L·½low(L⁻¹vL⁻ᵀ), and of A = L/diag(L) from it."""
        xp = namespace(p, v)
        L = cholesky(p)
        dL = cholesky_change(L, v)
        scale = xp.linalg.diagonal(L)[..., None]
        change = xp.linalg.diagonal(dL)[..., None] / scale
        dA = dL / scale - L / scale * change
        return self._flat(dA, -change[..., 0] / scale[..., 0])

    def _pull(self, p: Array, w: Array) -> Array:
        """C = LLᵀ with the rows of A divided by their lengths."""
        xp = namespace(p, w)
        L = cholesky(p)
        scale = xp.linalg.diagonal(L)[..., None]
        dL = scale * self._lower(w, 0.0)  # before the rows are scaled back to length 1
        dL = dL - xp.sum(L * dL, axis=-1, keepdims=True) * L
        change = dL @ L.mT
        return (change + change.mT) * (1 - like(p, np.eye(self.m)))

    def _flat(self, A: Array, times: Array) -> Array:
        """A point (or velocity) of the product: time and space of each row but the first."""
        rows = [[times[..., i : i + 1], A[..., i, :i]] for i in range(1, self.m)]
        return self.model.join([namespace(A).concat(row, axis=-1) for row in rows])

    def _lower(self, y: Array, diagonal: float) -> Array:
        """The lower triangular matrix whose rows are the spatial parts, with this diagonal."""
        xp = namespace(y)
        rows = [xp.zeros_like(y[..., : self.m])]
        for i, part in enumerate(self.model.split(y), 1):
            rows.append(
                xp.concat([part[..., 1:], xp.zeros_like(y[..., : self.m - i])], axis=-1)
            )
        return xp.stack(rows, axis=-2) + diagonal * like(y, np.eye(self.m))


class CorrelationOffLog(_Correlations):
    """Correlation matrices with the off-log metric (Thanwerdas 2024): that of log C off its diagonal, flat and complete.

    The off-diagonal part S of log C is any symmetric matrix of diagonal 0, and there is one diagonal D for which
    exp(S + D) has unit diagonal (Archakov & Hansen 2021, Theorem 1). For two variables S is Fisher's z. The metric does
    not depend on the order of the variables, and noise in the chart is exact.

    Parameters
    ----------
    m : int
        The number of variables.

    Examples
    --------
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> float(np.round(CorrelationOffLog(2).dist(np.eye(2), C) / np.sqrt(2), 12))  # z, counted on both sides
    0.69314718056
    """

    kind = "correlation-offlog"

    model = fact(lambda self: Euclidean(self.m * (self.m - 1) // 2))
    float_reach = 8.0  # beyond, λ_min may be below 1e-7

    # D minimizes tr e^{S+D} − tr D, which is m − tr D there, and m + m·log(tr e^S/m) at the best multiple of I; with
    # tr S = 0, tr e^S ≤ m + Σ_{k≥2} |S|^k/k! = m + e^r − 1 − r. So det C = e^{tr D} ≥ (1 + (e^r − 1 − r)/m)^{−m}, and
    # λ_min ≥ det C·((m−1)/m)^{m−1} ≥ det C/e, the other eigenvalues having a mean of at most m/(m−1).

    def _least_exponent(self, radius: float) -> float:
        """A bound on −log λ_min within `radius` of the origin."""
        return 1 + self.m * math.log1p((math.expm1(radius) - radius) / self.m)

    # lazily: `scipy.optimize` takes long to import; at 18, twice that exponent, the bound is far above it
    held_reach = fact(
        lambda M: scipy.optimize.brentq(
            lambda r: M._least_exponent(r) - _FLAT_EXPONENT, 0.0, 18.0
        )
    )

    def float_spread(self, radius: float) -> float:
        return self.m * math.exp(self._least_exponent(self.held_radius(radius)))

    def to_model(self, x: Array) -> Array:
        return math.sqrt(2) * below(log1p_sym(x - like(x, np.eye(self.m))))

    def from_model(self, y: Array) -> Array:
        """exp(S + D); beyond `float_reach`, of the point at that distance."""
        xp = namespace(y)
        length = euclidean_norm(xp, y)[..., None]
        y = y * xp.where(
            length > self.float_reach,
            self.float_reach / xp.where(length > 0, length, 1.0),
            1.0,
        )
        S = spread(y / math.sqrt(2), 1 - np.eye(self.m))
        if self.m == 2:  # Fisher's z
            return xp.tanh(S) + like(y, np.eye(2))
        C = _unit_diagonal(
            unit_exponential(constant(S), self._least_exponent(self.float_reach))
        )
        return C + self._pull(C, y - constant(y)) if differentiable(y) else C

    def _push(self, p: Array, v: Array) -> Array:
        return math.sqrt(2) * below(dlog(p, v))

    def _pull(self, p: Array, w: Array) -> Array:
        """d exp of W + D', where D' keeps the diagonal."""
        xp = namespace(p, w)
        columns = xp.linalg.diagonal(
            dexp(p[..., None, :, :], _diagonal(like(p, np.eye(self.m))))
        )
        W = spread(w / math.sqrt(2), 1 - np.eye(self.m))
        excess = xp.linalg.diagonal(dexp(p, W))
        kept = W - _diagonal(xp.linalg.solve(columns.mT, excess[..., None])[..., 0])
        return self.to_tangent(p, dexp(p, kept))


def _diagonal(x: Array) -> Array:
    """Diagonal matrices."""
    return x[..., None] * like(x, np.eye(x.shape[-1]))


def _unit_diagonal(S: Array) -> Array:
    """S in units in which its diagonal is 1, exactly."""
    xp = namespace(S)
    root = xp.sqrt(xp.linalg.diagonal(S))
    eye = like(S, np.eye(S.shape[-1]))
    scaled = S / root[..., :, None] / root[..., None, :]
    return scaled * (1 - eye) + xp.where(xp.isnan(scaled), scaled, eye)


def unit_exponential(S: Array, longest: float) -> Array:
    """exp(S + D) for symmetric S, with the diagonal D that makes its diagonal 1 (Archakov & Hansen 2021, Theorem 1), by
    Newton's method on log diag exp(S + diag x) = 0. Exponentials are Taylor's polynomial and squares, and the derivatives
    an integral by the powers that squaring leaves behind: products of matrices alone, of thousands at a time. `longest`
    bounds the norm of S + D, where the work may not depend on S (in public time, under JAX). The work that NumPy does for
    a matrix otherwise depends on it alone, and so does the answer."""
    if not is_numpy_array(S) or in_public_time():
        return _exponential(S, int(_halvings(longest)))
    m = S.shape[-1]
    flat, out = S.reshape(-1, m, m), np.empty(S.shape).reshape(-1, m, m)
    size = np.max(np.sum(np.abs(flat), axis=-1), axis=-1)
    size = 2 * size + np.log1p(np.exp(-2 * size)) - math.log(2)  # |D| ≤ log cosh|S|
    size = np.clip(np.nan_to_num(size), 0.0, longest)
    halvings, order = _halvings(size), np.argsort(size)
    for k in np.unique(halvings):
        rows = order[halvings[order] == k]
        for part in np.split(
            rows, range(_ENTRIES // m**2, len(rows), _ENTRIES // m**2)
        ):
            out[part] = _exponential(flat[part], int(k))
    return out.reshape(S.shape)


def _halvings(norm: Array | float) -> Array:
    """Of a matrix of that norm, until the polynomial serves."""
    return np.maximum(2, np.ceil(np.log2(np.maximum(norm, _TAYLOR) / _TAYLOR))).astype(
        int
    )


def _exponential(S: Array, halvings: int) -> Array:
    xp = namespace(S)
    one = like(S, np.eye(S.shape[-1]))
    x = -0.5 * xp.log1p(xp.sum(S * S, axis=-1))
    public = not is_numpy_array(S) or in_public_time()
    for left in reversed(range(_STEPS)):
        roots = _roots(S + x[..., None] * one, halvings)
        excess = xp.log1p(xp.linalg.diagonal(roots[-1]))
        slopes = sum(
            weight * X * Y for weight, X, Y in _powers(roots)
        )  # ∂(e^A)ᵢᵢ/∂aⱼⱼ = ∫(e^{tA})ᵢⱼ(e^{(1−t)A})ᵢⱼ dt
        step = xp.linalg.solve(slopes, (xp.exp(excess) * excess)[..., None])[..., 0]
        going = xp.any(
            xp.abs(excess) > _DONE, axis=-1, keepdims=True
        )  # a matrix that is done is left alone
        if left == 0 or not (public or np.any(going)):
            break
        x = x - xp.where(going, step, 0.0)
    # the last step along the derivative, ∫ e^{tA}·diag(step)·e^{(1−t)A}dt
    change = sum(
        weight * (X * step[..., None, :]) @ Y for weight, X, Y in _powers(roots)
    )
    return one + roots[-1] - sym(change)


def _factorial(k: int) -> float:
    return float(
        math.factorial(k)
    )  # 16! is no whole number of 32 bits, in which JAX would read it


def _roots(A: Array, halvings: int) -> list[Array]:
    """e^{A/2^k} − I for k = halvings, …, 1, 0, with the digits of a small A: (I + X)² = I + 2X + X². The polynomial
    is one of degree 4 in A⁴ (Paterson & Stockmeyer 1973)."""
    A = A * 2.0**-halvings
    one = like(A, np.eye(A.shape[-1]))
    A2 = A @ A
    A3, A4 = A @ A2, A2 @ A2
    X = A4 / _factorial(16)
    for k in (12, 8, 4):
        X = X + A3 / _factorial(k + 3) + A2 / _factorial(k + 2) + A / _factorial(k + 1)
        X = A4 @ (X + one / _factorial(k))
    roots = [X + A3 / 6 + A2 / 2 + A]
    for _ in range(halvings):
        roots.append(2 * roots[-1] + roots[-1] @ roots[-1])
    return roots


def _powers(roots: list[Array]) -> Iterator[tuple[float, Array, Array]]:
    """Weights, e^{tA} and e^{(1−t)A} of a rule for such integrals, at t = 0, ½, ¼, … and their mirror images."""
    one = like(roots[0], np.eye(roots[0].shape[-1]))
    end, *weights = _weights(len(roots) - 1)
    yield end, one, one + roots[-1]
    rest = one
    for X, weight in zip(reversed(roots[:-1]), weights, strict=True):
        rest = rest + rest @ X  # e^{(1 − 2^-k)A}
        yield weight, rest, one + X


@cache
def _weights(halvings: int) -> list[float]:
    """Of that rule, for ∫₀¹ e^-wt dt = (1 − e^-w)/w, w up to any difference of eigenvalues: least squares, to 4e-4."""
    nodes = np.concatenate([[0.0], 2.0 ** -np.arange(1, halvings + 1)])
    w = np.linspace(1e-3, 2.0**halvings, 400)[:, None]
    values = (np.exp(-w * nodes) + np.exp(-w * (1 - nodes))) * w / -np.expm1(-w)
    return [
        float(2 * c) for c in np.linalg.lstsq(values, np.ones(400))[0]
    ]  # the mirror image's matrix is the same
