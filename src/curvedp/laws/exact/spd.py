"""The affine-invariant Gaussian and Laplace on SPD(m) and HPD(m), exactly: X = LYL* with LL* the footpoint, Y about I.

Y = e^V, and V has the density exp(−|V|²/2σ²)·∏_{i<j} sinhc((ρᵢ−ρⱼ)/2)^β on symmetric (β = 1) or Hermitian (β = 2) matrices,
ρ the eigenvalues of V (Helgason 1978: the Jacobian of exp). A complex entry a + ib is the real block [[a, −b], [b, a]]:
sums, products, Cholesky factors and exponentials of such matrices are those of the complex ones, so one code serves both.

Of three envelopes the best is used: `spd_gaussian` has their acceptance in closed form, by public
numbers alone. Their proofs are there too; here the same envelopes are drawn from without rounding.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from curvedp.entropy.csprng import Source
from curvedp.errors import ParameterError
from curvedp.laws.exact.spd_chain import ChainEnvelope, TurnedDraw, draw_chain, draw_far
from curvedp.laws.exact.spd_near import LaplaceBound, NearDraw, draw_near, near_envelope
from curvedp.laws.radial import Kind
from curvedp.laws.spd_chain import ChainEnvelope as FloatChain
from curvedp.laws.spd_gaussian import NearEnvelope, best_envelope
from curvedp.laws.spd_laplace import MatrixLaplace, best_laplace
from curvedp.numerics.enclosures import (
    FILTER_GRID,
    FloatBall,
    arb_array,
    decide,
    first_precision,
    float_ball,
    round_arb,
)


def draw_spd(
    kind: Kind,
    m: int,
    beta: int,
    scale: float,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> np.ndarray:
    """Integers of the exact draw rounded to the grid: a symmetric or Hermitian matrix of Python ints."""
    draw = _sampler(kind, m, beta, scale)(source)
    center = (
        center
        if beta == 1
        else np.kron(center[..., 0], np.eye(2))
        + np.kron(center[..., 1], [[0, -1], [1, 0]])
    )
    places = _free_entries(m, beta)

    if isinstance(draw, NearDraw) and draw.is_large and grid <= FILTER_GRID:
        with np.errstate(all="ignore"):
            factor = float_ball(decide(lambda p: cholesky(center), 128))
            integers, certain = _congruence(factor, *draw.float_exp()).round(grid)
        if np.all(certain[places]):
            return _mirrored(m, beta, [int(k) for k in integers[places]])

    def balls(precision: int) -> np.ndarray | None:
        if (factor := cholesky(center)) is None:
            return None
        lower = arb_mat(factor.tolist())
        point = lower * draw.exp(precision) * lower.transpose()
        cells = [
            round_arb(point[i, j], grid)
            for i, j in zip(*(p.tolist() for p in places), strict=True)
        ]
        return (
            None
            if None in cells
            else _mirrored(m, beta, [k for k in cells if k is not None])
        )

    return decide(balls, first_precision(grid))


@lru_cache(maxsize=256)
def acceptance(kind: Kind, m: int, beta: int, scale: float) -> float:
    """About the share of trials that is accepted. Raises where a draw would take more than 10^5 of them."""
    if m == 1:
        return 1.0
    if kind == "laplace":
        return math.exp(best_laplace(MatrixLaplace(m, beta, scale)).log_acceptance)
    best = best_envelope(m, scale, beta)
    least = best.log_least if isinstance(best, NearEnvelope) else -math.inf
    return math.exp(
        least if least > math.log(0.5) else best.log_acceptance
    )  # the latter may need many digits


@lru_cache(maxsize=64)
def _sampler(
    kind: Kind, m: int, beta: int, scale: float
) -> Callable[[Source], NearDraw | TurnedDraw]:
    if kind == "laplace":
        if m == 1 or best_laplace(MatrixLaplace(m, beta, scale)).name == "near":
            return lambda source: draw_near(LaplaceBound(m, scale, beta), source)
        return lambda source: draw_far(m, scale, source, beta, laplace=True)
    best = best_envelope(m, scale, beta) if m > 1 else NearEnvelope(1, scale, 1.0, beta)
    if isinstance(best, NearEnvelope):
        return lambda source: draw_near(
            near_envelope(m, scale, best.tangent, beta), source
        )
    if isinstance(best, FloatChain):
        chain = ChainEnvelope(m, scale, best.positions)
        return lambda source: draw_chain(chain, source)
    return lambda source: draw_far(m, scale, source, beta)


def _congruence(factor: FloatBall, inner: FloatBall, error: float) -> FloatBall:
    """L Y Lᵀ for every Y within `error` of `inner` in the spectral norm: entry ij moves by at most error·|Lᵢ|·|Lⱼ|."""
    point = factor.sharp_dot(inner).sharp_dot(factor.T)
    rows = np.sqrt(((np.abs(factor.mid) + factor.rad) ** 2).sum(axis=1)) * (
        1 + 2.0**-40
    )
    return FloatBall(
        point.mid, (point.rad + error * np.outer(rows, rows)) * (1 + 2.0**-40)
    )


def _free_entries(m: int, beta: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the lower triangle stands among the blocks: real parts, then imaginary ones below the diagonal."""
    (i, j), (k, n) = np.tril_indices(m), np.tril_indices(m, -1 if beta == 2 else -m)
    return np.concatenate([beta * i, 2 * k + 1]), np.concatenate([beta * j, 2 * n])


def _mirrored(m: int, beta: int, free: list[int]) -> np.ndarray:
    out = np.zeros((m, m, 2), dtype=object)
    i, j = np.tril_indices(m)
    out[i, j, 0] = out[j, i, 0] = free[: len(i)]
    if beta == 1:
        return np.asarray(out[..., 0])
    k, n = np.tril_indices(m, -1)
    out[k, n, 1], out[n, k, 1] = free[len(i) :], [-b for b in free[len(i) :]]
    return out


def cholesky(center: np.ndarray) -> np.ndarray | None:
    """Balls around the Cholesky factor of the symmetric part, or None if a pivot's sign is open at this precision."""
    a = arb_array(center)
    a = (a + a.T) / 2
    m = len(a)
    lower = arb_array(np.zeros((m, m)))
    for j in range(m):
        row = lower[j, :j]
        pivot = a[j, j] - row.dot(row) if j else a[0, 0]
        if pivot <= 0 or (
            ctx.prec >= 2048 and pivot.contains(0) and not _is_positive_definite(center)
        ):
            raise ParameterError("center must be positive definite")
        if not pivot > 0:
            return None
        lower[j, j] = pivot.sqrt()
        for i in range(j + 1, m):
            above = lower[i, :j].dot(row) if j else arb(0)
            lower[i, j] = (a[i, j] - above) / lower[j, j]
    return lower


def _is_positive_definite(center: np.ndarray) -> bool:
    """In rational arithmetic: only a singular or nearly singular footpoint comes here."""
    m = len(center)
    exact = [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in center]
    twice = [[exact[i][j] + exact[j][i] for j in range(m)] for i in range(m)]
    return all(
        fmpq_mat([row[:k] for row in twice[:k]]).det() > 0 for k in range(1, m + 1)
    )
