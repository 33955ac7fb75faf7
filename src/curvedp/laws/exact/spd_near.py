"""The near envelope of the SPD Gaussian (see `spd`): a Gaussian symmetric matrix.

φ(y) = log sinhc √y is concave, so φ(x²) ≤ a + b·x² for any tangent, and Σ_{i<j} x_ij² = (m/4)·|V₀|² with V₀ the
traceless part of V: the envelope is a Gaussian matrix whose traceless part has variance s² = 1/(1/σ² − m·b/2) in place
of σ².
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, arb_mat

from curvedp.entropy.balls import FILTER_SIZE, FloatBall, arb_array, float_ball, float_up
from curvedp.entropy.bits import LazyNormals, LazyUniforms, accepts
from curvedp.entropy.csprng import Source
from curvedp.entropy.precision import precision as at_precision

__all__ = ["NearDraw", "draw_near", "near_envelope"]


@dataclass(frozen=True)
class TangentBound:
    """log sinhc x ≤ offset + tilt·x² for every x, its constants rounded up; the envelope that follows from it."""

    m: int
    sigma: float
    spread: float  # s, the standard deviation of the traceless part
    offset: float  # a

    def tilt(self) -> arb:
        """b = (2/m)·(1/σ² − 1/s²)"""
        return 2 * (1 / arb(self.sigma) ** 2 - 1 / arb(self.spread) ** 2) / self.m


@lru_cache(maxsize=256)
def near_envelope(m: int, sigma: float, tangent: float) -> TangentBound:
    """The envelope of the tangent that touches at x = `tangent`; any place is valid."""
    if m == 1:  # one dimension, no curvature
        return TangentBound(1, sigma, sigma, 0.0)
    with at_precision(256):
        touch = arb(tangent)
        b = (touch.coth() - 1 / touch) / (2 * touch)
        # Rounded up, s makes `tilt` at least this tangent's b, so that a + tilt·x² is above it for every x.
        spread = float_up(1 / (1 / arb(sigma) ** 2 - m * b / 2).sqrt())
        offset = float_up((touch.sinh() / touch).log() - b * touch * touch)
    return TangentBound(m, sigma, spread, offset)


def draw_near(envelope: TangentBound, source: Source) -> "NearDraw":
    while True:
        trial = NearDraw(envelope, LazyNormals(source, envelope.m * (envelope.m + 1) // 2))
        coin = LazyUniforms(source, 1)
        if accepts(coin, trial.log_ratio):
            return trial


class NearDraw:
    """One trial: the matrix V as a function of lazy normals."""

    def __init__(self, envelope: TangentBound, normals: LazyNormals) -> None:
        self._envelope, self._normals = envelope, normals
        self._eigen: tuple[np.ndarray, np.ndarray, float, float] | None = None

    def _matrix(self, z: Any, off: Any, eye: Any, sigma: Any, spread: Any) -> Any:
        """s·G + (σ−s)·(tr G/m)·I: the traceless part of the Gaussian matrix G scaled by s, its trace by σ."""
        m = self._envelope.m
        trace = z[:m].sum()
        return z[_layout(m)] * off * spread + eye * (trace * (sigma - spread) / m)

    def _balls(self, precision: int) -> arb_mat:
        m, eye = self._envelope.m, np.eye(self._envelope.m)
        off = np.where(eye == 1, arb(1), arb(0.5).sqrt())
        sigma, spread = arb(self._envelope.sigma), arb(self._envelope.spread)
        matrix = self._matrix(self._normals.balls(precision), off, arb_array(eye), sigma, spread)
        return arb_mat(m, m, matrix.ravel().tolist())

    def _float_eigen(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """About the eigenvalues and vectors of V, how far off the values can be, and the vectors from orthogonal.

        With Q̂ = U·P (polar) and η ≥ |Q̂ᵀQ̂ − I| ≥ |P − I|: |V − U D Uᵀ| ≤ |V − Q̂DQ̂ᵀ| + (2η+η²)|D| =: e, and by Weyl
        each eigenvalue of V is within e of its partner in D. Nothing is assumed of `eigh`.
        """
        if self._eigen is None:
            eye = np.eye(self._envelope.m)
            off = FloatBall(np.where(eye == 1, 1.0, math.sqrt(0.5)), 2.0**-53)
            sigma, spread = FloatBall(self._envelope.sigma), FloatBall(self._envelope.spread)
            matrix = self._matrix(self._normals.floats(), off, FloatBall(eye), sigma, spread)
            values, vectors = np.linalg.eigh(matrix.mid)
            q = FloatBall(vectors)
            eta = _frobenius(q.T.sharp_dot(q) - eye)
            error = _frobenius(matrix - (q * values).sharp_dot(q.T)) + (2 * eta + eta**2) * float(np.abs(values).max())
            self._eigen = values, vectors, error * (1 + 2.0**-40), eta
        return self._eigen

    def _eigenvalues(self, precision: int) -> list[arb] | None:
        m = self._envelope.m
        if m == 1:
            return [self._balls(precision)[0, 0]]
        if m * (m + 1) // 2 >= FILTER_SIZE and precision == 64:
            with np.errstate(all="ignore"):
                values, _, error, _ = self._float_eigen()
            return [arb(value, error) for value in values.tolist()]
        try:
            return [value.real for value in self._balls(precision).eig()]
        except ValueError:  # two eigenvalues not yet told apart
            return None

    def log_ratio(self, precision: int) -> arb:
        """Σ_{i<j} φ(x_ij²) − a − b·x_ij², x_ij = (ρᵢ−ρⱼ)/2"""
        rho = self._eigenvalues(precision)
        if rho is None:
            return arb.nan()
        product, blur, squares = arb(1), arb(0), arb(0)
        for i, first in enumerate(rho):
            for second in rho[:i]:
                x = (first - second) / 2
                # Evaluated at the midpoint, since sinh x/x cannot be at a ball around 0. |d log sinhc| ≤ |x|/3.
                mid, rad = x.mid(), x.rad()
                if mid != 0:
                    product = product * mid.sinh() / mid
                blur = blur + rad * (abs(mid) + rad) / 3
                squares = squares + x * x
        pairs = len(rho) * (len(rho) - 1) // 2
        bound = self._envelope.tilt() * squares + pairs * arb(self._envelope.offset)
        return product.log() + arb(0, 1) * blur - bound

    def exp(self, precision: int) -> arb_mat:
        return self._balls(precision).exp()

    def float_exp(self) -> tuple[FloatBall, float]:
        """Q̂e^DQ̂ᵀ, and how far it can be from e^V in the spectral norm.

        |e^V − Q̂e^DQ̂ᵀ| ≤ |e^V − Ue^DUᵀ| + |U e^D Uᵀ − Q̂e^DQ̂ᵀ| ≤ e·exp(max D + e) + (2η+η²)·exp(max D)
        """
        values, vectors, error, eta = self._float_eigen()
        with at_precision(64):
            growth = float_ball(np.array([arb(value).exp() for value in values.tolist()], dtype=object))
            top = float(arb(float(values.max()) + error).exp().upper())
        q = FloatBall(vectors)
        return (q * growth).sharp_dot(q.T), (error + 2 * eta + eta**2) * top * (1 + 2.0**-40)


@lru_cache(maxsize=64)
def _layout(m: int) -> np.ndarray:
    """Which normal stands where: the first m on the diagonal, the rest above and below."""
    index = np.diag(np.arange(m))
    rows, columns = np.triu_indices(m, 1)
    index[rows, columns] = index[columns, rows] = np.arange(m, m * (m + 1) // 2)
    return index


def _frobenius(x: FloatBall) -> float:
    """An upper bound of the Frobenius norm."""
    size = np.abs(x.mid) + x.rad
    return float(np.sqrt((size * size).sum())) * (1 + 2.0**-40) + 2.0**-500
