"""The near envelope of the SPD Gaussian (see `spd`): a Gaussian symmetric matrix.

φ(y) = log sinhc √y is concave, so φ(x²) ≤ a + b·x² for any tangent, and Σ_{i<j} x_ij² = (m/4)·|V₀|² with V₀ the
traceless part of V: the envelope is a Gaussian matrix whose traceless part has variance s² = 1/(1/σ² − m·b/2) in place
of σ². On Hermitian matrices (β = 2) sinhc is squared, and b comes with a factor β.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import acb, acb_mat, arb, arb_mat

from curvedp.entropy.bits import LazyNormals, LazyUniforms, accepts
from curvedp.entropy.csprng import Source
from curvedp.laws.spd_normalizer import dimension
from curvedp.numerics.enclosures import FILTER_SIZE, FloatBall, float_ball, float_up
from curvedp.numerics.enclosures import precision as at_precision


@dataclass(frozen=True)
class TangentBound:
    """log sinhc x ≤ offset + tilt·x² for every x, its constants rounded up; the envelope that follows from it."""

    m: int
    sigma: float
    spread: float  # s, the standard deviation of the traceless part
    offset: float  # a
    beta: int = 1

    def tilt(self) -> arb:
        """b = (2/βm)·(1/σ² − 1/s²)"""
        return (
            2
            * (1 / arb(self.sigma) ** 2 - 1 / arb(self.spread) ** 2)
            / (self.beta * self.m)
        )

    @property
    def numbers(self) -> int:
        """How many normals make the matrix."""
        return dimension(self.m, self.beta)

    def scales(self, z: Any) -> tuple[Any, Any]:
        """Of the trace and of the traceless part."""
        number = FloatBall if isinstance(z, FloatBall) else arb
        return number(self.sigma), number(self.spread)

    def log_bound(self, squares: arb, z: Any) -> arb:
        """Of ∏ sinhc x, given Σx²."""
        return self.tilt() * squares + self.m * (self.m - 1) // 2 * arb(self.offset)


@dataclass(frozen=True)
class LaplaceBound:
    """The near envelope of the Laplace law: sinhc x ≤ eˣ, so ∏ sinhc ≤ e^{|h||V|} (`spd_laplace`).

    V has a uniform direction and a length of the law Gamma(dim, 1/scale − β|h|), half a χ² of 2·dim degrees of freedom over
    the rate: all is made of normals.
    """

    m: int
    scale: float
    beta: int = 1

    @property
    def numbers(self) -> int:
        """For the direction, and for the length."""
        return 3 * dimension(self.m, self.beta)

    def _growth(self) -> arb:
        return (arb(self.m * (self.m**2 - 1)) / 12).sqrt()

    def _length(self, z: Any) -> Any:
        rest, rate = (
            z[dimension(self.m, self.beta) :],
            1 / arb(self.scale) - self.beta * self._growth(),
        )
        return rest.dot(rest) / (
            float_ball(2 * rate) if isinstance(z, FloatBall) else 2 * rate
        )

    def scales(self, z: Any) -> tuple[Any, Any]:
        """|V|/|G| for both."""
        g = z[: dimension(self.m, self.beta)]
        return (self._length(z) / g.dot(g).sqrt(),) * 2

    def log_bound(self, squares: arb, z: Any) -> arb:
        """|h||V|."""
        return self._growth() * self._length(z)


@lru_cache(maxsize=256)
def near_envelope(m: int, sigma: float, tangent: float, beta: int = 1) -> TangentBound:
    """The envelope of the tangent that touches at x = `tangent`; any place is valid."""
    if m == 1:  # one dimension, no curvature
        return TangentBound(1, sigma, sigma, 0.0, beta)
    with at_precision(256):
        touch = arb(tangent)
        b = (touch.coth() - 1 / touch) / (2 * touch)
        # Rounded up, s makes `tilt` at least this tangent's b, so that a + tilt·x² is above it for every x.
        spread = float_up(1 / (1 / arb(sigma) ** 2 - beta * m * b / 2).sqrt())
        offset = float_up((touch.sinh() / touch).log() - b * touch * touch)
    return TangentBound(m, sigma, spread, offset, beta)


def draw_near(envelope: TangentBound | LaplaceBound, source: Source) -> "NearDraw":
    while True:
        trial = NearDraw(envelope, LazyNormals(source, envelope.numbers))
        if accepts(LazyUniforms(source, 1), trial.log_ratio):
            return trial


class NearDraw:
    """One trial: the matrix V as a function of lazy normals."""

    def __init__(
        self, envelope: TangentBound | LaplaceBound, normals: LazyNormals
    ) -> None:
        self._envelope, self._normals = envelope, normals
        self._eigen: tuple[np.ndarray, np.ndarray, float, float] | None = None
        self._index, self._sign = _layout(envelope.m, envelope.beta)

    @property
    def is_large(self) -> bool:
        """Whether floats are worth a try before Arb."""
        return self._envelope.numbers >= FILTER_SIZE

    def _matrix(self, z: Any, half: Any) -> Any:
        """s·G + (σ−s)·(tr G/m)·I: the traceless part of the Gaussian matrix G scaled by s, its trace by σ. half = √½."""
        (m, eye), (sigma, spread) = (
            (self._envelope.m, np.eye(len(self._index))),
            self._envelope.scales(z),
        )
        trace, size = z[:m].sum(), self._sign * (1 - eye) * half + eye
        return z[self._index] * size * spread + eye * (trace * (sigma - spread) / m)

    def _balls(self, precision: int) -> arb_mat:
        return arb_mat(
            self._matrix(self._normals.balls(precision), arb(0.5).sqrt()).tolist()
        )

    def _float_eigen(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """About the eigenvalues and vectors of V, how far off the values can be, and the vectors from orthogonal.

        With Q̂ = U·P (polar) and η ≥ |Q̂ᵀQ̂ − I| ≥ |P − I|: |V − U D Uᵀ| ≤ |V − Q̂DQ̂ᵀ| + (2η+η²)|D| =: e, and by Weyl
        each eigenvalue of V is within e of its partner in D. Nothing is assumed of `eigh`.
        """
        if self._eigen is None:
            half = FloatBall(math.sqrt(0.5), 2.0**-53)
            matrix = self._matrix(self._normals.floats(), half)
            values, vectors = np.linalg.eigh(matrix.mid)
            q = FloatBall(vectors)
            eta = _frobenius(q.T.sharp_dot(q) - np.eye(len(values)))
            error = _frobenius(matrix - (q * values).sharp_dot(q.T)) + (
                2 * eta + eta**2
            ) * float(np.abs(values).max())
            self._eigen = values, vectors, error * (1 + 2.0**-40), eta
        return self._eigen

    def _eigenvalues(self, precision: int) -> list[arb] | None:
        m, beta = self._envelope.m, self._envelope.beta
        if m == 1:
            return [self._balls(precision)[0, 0]]
        if self.is_large and precision == 64:
            with np.errstate(all="ignore"):
                values, _, error, _ = self._float_eigen()
            return [
                arb(value, error) for value in values[::beta].tolist()
            ]  # those of blocks come in pairs
        matrix = self._balls(precision)
        if beta == 2:  # as a complex matrix it has each eigenvalue once
            matrix = acb_mat(
                [
                    [acb(matrix[i, j], matrix[i + 1, j]) for j in range(0, 2 * m, 2)]
                    for i in range(0, 2 * m, 2)
                ]
            )
        try:
            return [value.real for value in matrix.eig()]
        except ValueError:  # two eigenvalues not yet told apart
            return None

    def log_ratio(self, precision: int) -> arb:
        """β·(Σ_{i<j} φ(x_ij²) − its bound), x_ij = (ρᵢ−ρⱼ)/2"""
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
        bound = self._envelope.log_bound(squares, self._normals.balls(precision))
        return self._envelope.beta * (product.log() + arb(0, 1) * blur - bound)

    def exp(self, precision: int) -> arb_mat:
        return self._balls(precision).exp()

    def float_exp(self) -> tuple[FloatBall, float]:
        """Q̂e^DQ̂ᵀ, and how far it can be from e^V in the spectral norm.

        |e^V − Q̂e^DQ̂ᵀ| ≤ |e^V − Ue^DUᵀ| + |U e^D Uᵀ − Q̂e^DQ̂ᵀ| ≤ e·exp(max D + e) + (2η+η²)·exp(max D)
        """
        values, vectors, error, eta = self._float_eigen()
        with at_precision(64):
            growth = float_ball(
                np.array([arb(value).exp() for value in values.tolist()], dtype=object)
            )
            top = float(arb(float(values.max()) + error).exp().upper())
        q = FloatBall(vectors)
        return (q * growth).sharp_dot(q.T), (error + 2 * eta + eta**2) * top * (
            1 + 2.0**-40
        )


@lru_cache(maxsize=64)
def _layout(m: int, beta: int) -> tuple[np.ndarray, np.ndarray]:
    """Which normal stands where, and its sign: the first m on the diagonal, real parts off it, then imaginary ones."""
    index, turn = np.diag(np.arange(m)), np.zeros((m, m), dtype=int)
    i, j = np.triu_indices(m, 1)
    index[i, j] = index[j, i] = m + np.arange(len(i))
    turn[i, j] = turn[j, i] = m + len(i) + np.arange(len(i))
    sign = np.triu(np.ones((m, m)), 1) - np.tril(np.ones((m, m)), -1)
    if beta == 1:
        return index, np.ones((m, m))
    eye, swap, quarter = (
        np.eye(2, dtype=int),
        1 - np.eye(2, dtype=int),
        np.array([[0, -1], [1, 0]]),
    )
    return np.kron(index, eye) + np.kron(turn, swap), np.kron(
        np.ones((m, m)), eye
    ) + np.kron(sign, quarter)


def _frobenius(x: FloatBall) -> float:
    """An upper bound of the Frobenius norm."""
    size = np.abs(x.mid) + x.rad
    return float(np.sqrt((size * size).sum())) * (1 + 2.0**-40) + 2.0**-500
