"""Correlation matrices: as a product of hyperbolic spaces, and as a flat space."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy
from array_api_compat import device

from curvedp._validate import integer
from curvedp.geometry.base import Array
from curvedp.geometry.manifolds.euclidean import Euclidean
from curvedp.geometry.manifolds.lorentz import Lorentz
from curvedp.geometry.manifolds.product import Product
from curvedp.geometry.manifolds.pulled import Pulled
from curvedp.geometry.manifolds.spd_affine import SPDAffineInvariant
from curvedp.geometry.manifolds.spd_flat import dexp, dlog
from curvedp.geometry.numerics.namespace import constant, namespace
from curvedp.geometry.numerics.small_eigh import eigh
from curvedp.geometry.numerics.spectral import apply, divided_exp, log1p_sym, sym
from curvedp.geometry.numerics.stable import euclidean_norm
from curvedp.geometry.numerics.triangular import cholesky, whiten

_EXPONENT = 23.0  # 1/λ_min up to e^23 = 1e10: beyond, a correlation matrix in doubles says little about its place
_FLAT_EXPONENT = 9.0  # 1/λ_min up to e^9: there the logarithm of a matrix in doubles has eleven digits
_FIXED_POINT_STEPS, _NEWTON_STEPS = 2, 6  # to 1e-13 within `float_reach`, m to 30 (tests/geometry/test_correlation.py)


@dataclass(frozen=True)
class _Correlations(Pulled):
    """Positive definite m×m matrices of unit diagonal, under any metric."""

    carries: ClassVar[bool] = True
    m: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", integer("m", self.m, 2))

    @cached_property
    def point_shape(self) -> tuple[int, ...]:
        return (self.m, self.m)

    @property
    def origin(self) -> Array:
        """No correlation."""
        return np.eye(self.m)

    def held_share(self, z: Array) -> Array:
        """Onto the ball of radius `held_reach`, which is convex."""
        xp = namespace(z)
        length = euclidean_norm(xp, z)
        far = length > self.held_reach
        return xp.where(far, self.held_reach / xp.where(far, length, xp.ones_like(length)), xp.ones_like(length))

    def held_coordinates(self, z: Array) -> Array:
        return z * self.held_share(z)[..., None]

    def held_radius(self, radius: float) -> float:
        return min(radius, self.held_reach)

    def project(self, x: Array) -> Array:
        return _unit_diagonal(SPDAffineInvariant(self.m).project(x))

    def nearest(self, x: Array) -> Array:
        """The correlation matrix of x's symmetric part, in any units of each variable: covariances are welcome."""
        xp = namespace(x)
        S = sym(x)
        variances = xp.all(xp.linalg.diagonal(S) > 0, axis=-1)[..., None, None]
        S = xp.where(variances, S, xp.eye(self.m, dtype=x.dtype, device=device(x)))
        return xp.where(variances, SPDAffineInvariant(self.m).nearest(_unit_diagonal(S)), xp.nan)

    def to_tangent(self, p: Array, x: Array) -> Array:
        """The symmetric part of x with a diagonal of 0."""
        xp = namespace(p, x)
        return sym(x) * (1 - xp.eye(self.m, dtype=p.dtype, device=device(p))) + xp.zeros_like(p)

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
    >>> import numpy as np
    >>> from curvedp.geometry import Correlation
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> float(np.round(Correlation(2).dist(np.eye(2), C), 12))  # Fisher's z, artanh 0.6
    0.69314718056
    """

    kind: ClassVar[str] = "correlation"

    @cached_property
    def model(self) -> Product:
        return Product(*(Lorentz(i) for i in range(1, self.m)))

    float_reach = 17.0  # 1 − c² = 1/cosh² r, above an ulp of 1

    # det C = ∏ 1/cosh² rᵢ over the factors' distances from the origin and Σ rᵢ ≤ √(m−1)·r, so λ_min is about
    # e^{−2√(m−1)·r} at least

    @cached_property
    def held_reach(self) -> float:
        return _EXPONENT / (2 * math.sqrt(self.m - 1))

    def float_spread(self, radius: float) -> float:
        return math.exp(2 * math.sqrt(self.m - 1) * self.held_radius(radius))

    # ---- to the product and back ---------------------------------------------------------------------------------

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
        dL = L @ _half(whiten(L, v))
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
        return (change + change.mT) * (1 - xp.eye(self.m, dtype=p.dtype, device=device(p)))

    def _flat(self, A: Array, times: Array) -> Array:
        """A point (or velocity) of the product: time and space of each row but the first."""
        return self.model.join(
            [namespace(A).concat([times[..., i : i + 1], A[..., i, :i]], axis=-1) for i in range(1, self.m)]
        )

    def _lower(self, y: Array, diagonal: float) -> Array:
        """The lower triangular matrix whose rows are the spatial parts, with this diagonal."""
        xp = namespace(y)
        rows = [xp.zeros_like(y[..., : self.m])]
        for i, part in enumerate(self.model.split(y), 1):
            space = part[..., 1:]
            rows.append(xp.concat([space, xp.zeros_like(y[..., : self.m - i])], axis=-1))
        return xp.stack(rows, axis=-2) + diagonal * xp.eye(self.m, dtype=y.dtype, device=device(y))


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
    >>> import numpy as np
    >>> from curvedp.geometry import CorrelationOffLog
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> float(np.round(CorrelationOffLog(2).dist(np.eye(2), C) / np.sqrt(2), 12))  # z, counted on both sides
    0.69314718056
    """

    kind: ClassVar[str] = "correlation-offlog"

    @cached_property
    def model(self) -> Euclidean:
        return Euclidean(self.m * (self.m - 1) // 2)

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

    # ---- to the flat space and back ------------------------------------------------------------------------------

    def to_model(self, x: Array) -> Array:
        return self._below(log1p_sym(x - namespace(x).eye(self.m, dtype=x.dtype, device=device(x))))

    def from_model(self, y: Array) -> Array:
        """exp(S + D); beyond `float_reach`, of the point at that distance."""
        xp = namespace(y)
        length = euclidean_norm(xp, y)[..., None]
        S = self._hollow(
            y * xp.where(length > self.float_reach, self.float_reach / xp.where(length > 0, length, 1.0), 1.0)
        )
        quick = is_numpy_array(y) and not in_public_time()
        s = None if quick else self._most_squarings
        D, slopes = _unit_diagonals(constant(S), s)
        if not quick:
            # one more Newton step, through which JAX sees the derivative of the implicit function
            excess = xp.linalg.diagonal(_roots(S + _diagonal(D), self._most_squarings)[-1])
            D = D - _solved(slopes, excess)
        C = _roots(S + _diagonal(D), squarings)[-1]
        return _unit_diagonal(C + xp.eye(self.m, dtype=y.dtype, device=device(y)))

    def _push(self, p: Array, v: Array) -> Array:
        return self._below(dlog(p, v))

    def _pull(self, p: Array, w: Array) -> Array:
        """d exp of W + D', where D' keeps the diagonal."""
        xp = namespace(p, w)
        units = _diagonal(xp.eye(self.m, dtype=p.dtype, device=device(p)))
        columns = xp.linalg.diagonal(dexp(p[..., None, :, :], units))
        W = self._hollow(w)
        excess = xp.linalg.diagonal(dexp(p, W))
        kept = W - _diagonal(xp.linalg.solve(columns.mT, excess[..., None])[..., 0])
        return self.to_tangent(p, dexp(p, kept))

    def _below(self, S: Array) -> Array:
        """√2 times the entries below the diagonal."""
        xp = namespace(S)
        row, col = np.tril_indices(self.m, -1)
        flat = xp.reshape(S, (*S.shape[:-2], self.m**2))
        return math.sqrt(2) * xp.take(flat, xp.asarray(row * self.m + col, device=device(S)), axis=-1)

    def _hollow(self, y: Array) -> Array:
        """The symmetric matrix of diagonal 0 with these entries."""
        xp = namespace(y)
        place = np.zeros((self.m, self.m), dtype=np.int64)
        place[np.tril_indices(self.m, -1)] = np.arange(self.dim)
        S = xp.take(y, xp.asarray((place + place.T).ravel(), device=device(y)), axis=-1) / math.sqrt(2)
        S = xp.reshape(S, (*y.shape[:-1], self.m, self.m))
        return S * (1 - xp.eye(self.m, dtype=y.dtype, device=device(y)))


def _unit_diagonals(S: Array, squarings: int | None) -> tuple[Array, Array]:
    """(x, J): diag exp(S + diag x) = 1 to round-off, and the matrix J of its derivatives by x, to a thousandth.

    x ← x − log diag exp(S + diag x) contracts to the solution (Archakov & Hansen 2021); Newton's steps on the same
    equation end it. Without a public number of squarings the points say how much is enough.
    """
    xp = namespace(S)
    x, J = xp.zeros_like(S[..., 0]), S
    for step in range(_FIXED_POINT_STEPS + _NEWTON_STEPS):
        A = S + _diagonal(x)
        roots = _roots(A, _squarings(A) if squarings is None else squarings)
        excess = xp.log1p(xp.linalg.diagonal(roots[-1]))
        J = _slopes(roots)
        x = x - (excess if step < _FIXED_POINT_STEPS else _solved(J, xp.exp(excess) * excess))
        if squarings is None and np.max(np.abs(excess), initial=0.0) < _DONE:
            break
    return x, J


def _squarings(A: np.ndarray) -> int:
    """Halvings of A after which Taylor's polynomial serves: by the largest sum of a row, as far as there are numbers."""
    sums = np.nan_to_num(np.max(np.sum(np.abs(A), axis=-1), initial=_TAYLOR), posinf=_TAYLOR)
    return max(2, math.ceil(math.log2(sums / _TAYLOR)))


def _roots(A: Array, squarings: int) -> list[Array]:
    """e^{A/2^k} − I for k = squarings, …, 1, 0, with the digits of a small A: (I + X)² = I + 2X + X².

    Taylor's polynomial of degree 16 in A⁴ (Paterson & Stockmeyer 1973), to round-off for norms up to `_TAYLOR`.
    """
    xp = namespace(A)
    A = A * 2.0**-squarings
    one = xp.eye(A.shape[-1], dtype=A.dtype, device=device(A))
    A2 = _times(A, A)
    A3, A4 = _times(A, A2), _times(A2, A2)
    X = A4 / math.factorial(16)
    for k in (12, 8, 4):
        X = X + A3 / math.factorial(k + 3) + A2 / math.factorial(k + 2) + A / math.factorial(k + 1)
        X = _times(A4, X + one / math.factorial(k))
    roots = [X + A3 / 6 + A2 / 2 + A]
    for _ in range(squarings):
        roots.append(2 * roots[-1] + _times(roots[-1], roots[-1]))
    return roots


def _slopes(roots: list[Array]) -> Array:
    """∂(e^A)ᵢᵢ/∂aⱼⱼ = ∫₀¹ (e^{tA})ᵢⱼ(e^{(1−t)A})ᵢⱼ dt, by the values at t = 0, 2^-k and their mirror images."""
    xp = namespace(roots[0])
    one = xp.eye(roots[0].shape[-1], dtype=roots[0].dtype, device=device(roots[0]))
    end, half, *weights = _weights(len(roots) - 1)
    rest = one + roots[-2]
    J = end * one * (one + roots[-1]) + half * rest * rest
    for X, weight in zip(reversed(roots[:-2]), weights, strict=True):
        rest = rest + _times(rest, X)  # e^{(1 − 2^-k)A}
        J = J + weight * rest * (one + X)
    return J


@cache
def _weights(squarings: int) -> list[float]:
    """For (1 − e^-w)/w, which is ∫₀¹ e^-wt dt, as it is needed for differences w of eigenvalues; least squares."""
    nodes = np.concatenate([[0.0], 2.0 ** -np.arange(1, squarings + 1)])
    w = np.linspace(1e-3, 2.0**squarings, 400)[:, None]
    values = (np.exp(-w * nodes) + np.exp(-w * (1 - nodes))) * w / -np.expm1(-w)
    return [float(2 * c) for c in np.linalg.lstsq(values, np.ones(400))[0]]  # the image's matrix is the same


def _times(A: Array, B: Array) -> Array:
    """AB; of small NumPy matrices by sums over whole batches, which are laid out entry by entry (`from_model`)."""
    if not is_numpy_array(A) or A.shape[-1] > _SMALL:
        return A @ B
    total = A[..., :, :1] * B[..., :1, :]
    for k in range(1, A.shape[-1]):
        total += A[..., :, k : k + 1] * B[..., k : k + 1, :]
    return total


def _solved(J: Array, b: Array) -> Array:
    """J⁻¹b for positive definite J; Gauss and Jordan's method where LAPACK would take longer to call."""
    xp, m = namespace(J, b), J.shape[-1]
    if not is_numpy_array(J) or m > _SMALL:
        return xp.linalg.solve(J, b[..., None])[..., 0]
    A = np.concatenate([J, b[..., None]], axis=-1)
    for k in range(m):
        A = A - (A[..., :, k : k + 1] - np.eye(m)[:, k : k + 1]) * (A[..., k : k + 1, :] / A[..., k : k + 1, k : k + 1])
    return A[..., -1]


def _diagonal(x: Array) -> Array:
    """Diagonal matrices."""
    return x[..., None] * namespace(x).eye(x.shape[-1], dtype=x.dtype, device=device(x))


def _half(S: Array) -> Array:
    """The strictly lower triangle and half of the diagonal."""
    xp = namespace(S)
    return xp.tril(S) - 0.5 * S * xp.eye(S.shape[-1], dtype=S.dtype, device=device(S))


def _unit_diagonal(S: Array) -> Array:
    """S in units in which its diagonal is 1, exactly."""
    xp = namespace(S)
    root = xp.sqrt(xp.linalg.diagonal(S))
    eye = xp.eye(S.shape[-1], dtype=S.dtype, device=device(S))
    scaled = S / root[..., :, None] / root[..., None, :]
    return scaled * (1 - eye) + xp.where(xp.isnan(scaled), scaled, eye)
