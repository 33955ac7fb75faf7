"""Correlation matrices: as a product of hyperbolic spaces, and as a flat space."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy

from curvedp.geometry.base import Array
from curvedp.geometry.manifolds.euclidean import Euclidean
from curvedp.geometry.manifolds.hyperbolic import HeldBall
from curvedp.geometry.manifolds.lorentz import Lorentz
from curvedp.geometry.manifolds.product import Product
from curvedp.geometry.manifolds.pulled import Pulled
from curvedp.geometry.manifolds.spd_affine import SPDAffineInvariant
from curvedp.geometry.manifolds.spd_flat import dexp, dlog
from curvedp.geometry.numerics import matrix
from curvedp.geometry.numerics.namespace import constant, differentiable, like, namespace
from curvedp.geometry.numerics.spectral import log1p_sym, sym
from curvedp.geometry.numerics.stable import euclidean_norm
from curvedp.geometry.numerics.triangular import cholesky, cholesky_change
from curvedp.geometry.numerics.unit_exponential import unit_exponential

_EXPONENT = 23.0  # 1/λ_min up to e^23 = 1e10: beyond, a correlation matrix in doubles says little about its place
_FLAT_EXPONENT = 9.0  # 1/λ_min up to e^9: there the logarithm of a matrix in doubles has eleven digits


@dataclass(frozen=True)
class _Correlations(HeldBall, Pulled):
    """Positive definite m×m matrices of unit diagonal, under any metric."""

    carries: ClassVar[bool] = True
    m: int

    sizes = (("m", 2),)
    point_shape = cached_property(lambda self: (self.m, self.m))
    origin = property(lambda self: np.eye(self.m))  # no correlation

    def project(self, x: Array) -> Array:
        return _unit_diagonal(SPDAffineInvariant(self.m).project(x))

    def nearest(self, x: Array) -> Array:
        """The correlation matrix of x's symmetric part, in any units of each variable: covariances are welcome."""
        xp = namespace(x)
        S = sym(x)
        variances = xp.all(xp.linalg.diagonal(S) > 0, axis=-1)[..., None, None]
        S = xp.where(variances, S, like(x, np.eye(self.m)))
        return xp.where(variances, SPDAffineInvariant(self.m).nearest(_unit_diagonal(S)), xp.nan)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """The symmetric part of x with a diagonal of 0."""
        xp = namespace(p, x)
        return sym(x) * (1 - like(p, np.eye(self.m))) + xp.zeros_like(p)

    def residual(self, p: Array) -> Array:
        """That of a positive definite matrix, plus how far the diagonal is from 1."""
        xp = namespace(p)
        return SPDAffineInvariant(self.m).residual(p) + xp.max(xp.abs(xp.linalg.diagonal(p) - 1), axis=-1)


@dataclass(frozen=True)
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

    kind: ClassVar[str] = "correlation"

    model = cached_property(lambda self: Product(*(Lorentz(i) for i in range(1, self.m))))
    float_reach = 17.0  # 1 − c² = 1/cosh² r, above an ulp of 1
    # det C = ∏ 1/cosh² rᵢ over the factors' distances from the origin and Σ rᵢ ≤ √(m−1)·r, so λ_min is about
    # e^{−2√(m−1)·r} at least
    held_reach = cached_property(lambda self: _EXPONENT / (2 * math.sqrt(self.m - 1)))

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
            space = part[..., 1:]
            rows.append(xp.concat([space, xp.zeros_like(y[..., : self.m - i])], axis=-1))
        return xp.stack(rows, axis=-2) + diagonal * like(y, np.eye(self.m))


@dataclass(frozen=True)
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

    kind: ClassVar[str] = "correlation-offlog"

    model = cached_property(lambda self: Euclidean(self.m * (self.m - 1) // 2))
    float_reach = 8.0  # beyond, λ_min may be below 1e-7

    # D minimizes tr e^{S+D} − tr D, which is m − tr D there, and m + m·log(tr e^S/m) at the best multiple of I; with
    # tr S = 0, tr e^S ≤ m + Σ_{k≥2} |S|^k/k! = m + e^r − 1 − r. So det C = e^{tr D} ≥ (1 + (e^r − 1 − r)/m)^{−m}, and
    # λ_min ≥ det C·((m−1)/m)^{m−1} ≥ det C/e, the other eigenvalues having a mean of at most m/(m−1).

    def _least_exponent(self, radius: float) -> float:
        """A bound on −log λ_min within `radius` of the origin."""
        return 1 + self.m * math.log1p((math.expm1(radius) - radius) / self.m)

    @cached_property
    def held_reach(self) -> float:
        return float(scipy.optimize.brentq(lambda r: self._least_exponent(r) - _FLAT_EXPONENT, 0.0, 2 * _FLAT_EXPONENT))

    def float_spread(self, radius: float) -> float:
        return self.m * math.exp(self._least_exponent(self.held_radius(radius)))

    def to_model(self, x: Array) -> Array:
        return math.sqrt(2) * matrix.below(log1p_sym(x - like(x, np.eye(self.m))))

    def from_model(self, y: Array) -> Array:
        """exp(S + D); beyond `float_reach`, of the point at that distance."""
        xp = namespace(y)
        length = euclidean_norm(xp, y)[..., None]
        y = y * xp.where(length > self.float_reach, self.float_reach / xp.where(length > 0, length, 1.0), 1.0)
        S = matrix.spread(y / math.sqrt(2), 1 - np.eye(self.m))
        if self.m == 2:  # Fisher's z
            return xp.tanh(S) + like(y, np.eye(2))
        C = _unit_diagonal(unit_exponential(constant(S), self._least_exponent(self.float_reach)))
        return C + self._pull(C, y - constant(y)) if differentiable(y) else C

    def _push(self, p: Array, v: Array) -> Array:
        return math.sqrt(2) * matrix.below(dlog(p, v))

    def _pull(self, p: Array, w: Array) -> Array:
        """d exp of W + D', where D' keeps the diagonal."""
        xp = namespace(p, w)
        units = _diagonal(like(p, np.eye(self.m)))
        columns = xp.linalg.diagonal(dexp(p[..., None, :, :], units))
        W = matrix.spread(w / math.sqrt(2), 1 - np.eye(self.m))
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
