"""The Riemannian Gaussian on SPD(m), affine-invariant, exactly: X = L Y Lᵀ with L Lᵀ the footpoint, Y centred at I.

Y = e^V, and V has the density exp(−|V|²/2σ²)·∏_{i<j} sinhc((ρᵢ−ρⱼ)/2) on symmetric matrices, ρ the eigenvalues of V
(Helgason 1978: the Jacobian of exp). Of three envelopes the one with the smaller mass is used.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from curvedp.entropy.balls import (
    FILTER_GRID,
    FILTER_SIZE,
    FloatBall,
    arb_array,
    decide,
    first_precision,
    float_ball,
    round_arb,
)
from curvedp.entropy.csprng import Source
from curvedp.errors import ParameterError
from curvedp.laws.exact.spd_chain import ChainEnvelope, draw_chain
from curvedp.laws.exact.spd_far import draw_far, far_log_mass
from curvedp.laws.exact.spd_near import NearDraw, draw_near, near_envelope
from curvedp.laws.exact.spd_turn import TurnedDraw, log_weyl_constant

__all__ = ["draw_spd"]

_LEAST_ACCEPTANCE = 1e-5


def draw_spd(m: int, sigma: float, center: np.ndarray, source: Source, grid: int) -> np.ndarray:
    """Integers of the exact draw rounded to the grid: a symmetric matrix of Python ints."""
    draw = _plan(m, sigma)(source)

    if isinstance(draw, NearDraw) and m * (m + 1) // 2 >= FILTER_SIZE and grid <= FILTER_GRID:
        with np.errstate(all="ignore"):
            factor = float_ball(decide(lambda p: cholesky(center), 128))
            integers, certain = _congruence(factor, *draw.float_exp()).round(grid)
        if np.all(certain[np.tril_indices(m)]):
            return _mirrored(m, [int(k) for k in integers[np.tril_indices(m)]])

    def balls(precision: int) -> np.ndarray | None:
        factor = cholesky(center)
        inner = draw.exp(precision)
        if factor is None or inner is None:
            return None
        lower = arb_mat(factor.tolist())
        point = lower * inner * lower.transpose()
        cells = [round_arb(point[i, j], grid) for i, j in zip(*np.tril_indices(m), strict=True)]
        return None if None in cells else _mirrored(m, [k for k in cells if k is not None])

    return decide(balls, first_precision(grid))


@lru_cache(maxsize=64)
def _plan(m: int, sigma: float) -> Callable[[Source], NearDraw | TurnedDraw]:
    """The envelope to use, by public numbers alone. Acceptance is the target's mass over the envelope's."""
    near = near_envelope(m, sigma)
    best = min(near.log_mass, far_log_mass(m, sigma))
    if m > 2 and 0.05 < sigma < 10:  # outside, near and far accept nearly always
        target, positions = _about_target(m, sigma)
        if target - best < math.log(0.3):
            chain = ChainEnvelope(m, sigma, positions)
            if target - min(best, chain.log_mass) < math.log(_LEAST_ACCEPTANCE):
                raise ParameterError(
                    f"sigma={sigma!r} on SPDAffineInvariant({m}) would take more than {1 / _LEAST_ACCEPTANCE:.0g} trials a "
                    "draw; exact_log_gaussian has no such limit"
                )
            if chain.log_mass < best:
                return lambda source: draw_chain(chain, source)
    if near.log_mass <= best:
        return lambda source: draw_near(near, source)
    return lambda source: draw_far(m, sigma, source)


def _about_target(m: int, sigma: float) -> tuple[float, np.ndarray]:
    """About the logarithm of the target's mass, and its mode: Laplace's approximation of ∫e^f, f concave, by Newton.

    Off by a factor of a few; it chooses between correct samplers.
    """
    upper = np.triu_indices(m, 1)

    def value(rho: np.ndarray) -> float:
        x = (rho[:, None] - rho)[upper] / 2
        return (
            -math.inf
            if np.any(x <= 0)
            else float(-(rho @ rho) / (2 * sigma**2) + np.sum(x + np.log(-np.expm1(-2 * x))))
        )

    rho = (m - 1 - 2 * np.arange(m)) / 2 * max(sigma**2, 2 * sigma / math.sqrt(m))
    for _ in range(50):
        x = np.abs(rho[:, None] - rho) / 2 + np.eye(m)
        sign = np.sign(rho[:, None] - rho)
        curvature = (4 * np.exp(-2 * x) / np.expm1(-2 * x) ** 2) * (1 - np.eye(m))  # 1/sinh²
        gradient = -rho / sigma**2 + (sign / np.tanh(x)).sum(axis=1) / 2
        hessian = np.eye(m) / sigma**2 + (np.diag(curvature.sum(axis=1)) - curvature) / 4
        step = np.linalg.solve(hessian, gradient)
        while not value(rho + step) >= value(rho) and np.abs(step).max() > 1e-9 * sigma:
            step = step / 2
        rho = rho + step
        if np.abs(step).max() < 1e-9 * sigma:
            break
    log_det = float(np.linalg.slogdet(hessian)[1])
    return log_weyl_constant(m) + value(rho) + 0.5 * m * math.log(2 * math.pi) - 0.5 * log_det, rho


def _congruence(factor: FloatBall, inner: FloatBall, error: float) -> FloatBall:
    """L Y Lᵀ for every Y within `error` of `inner` in the spectral norm: entry ij moves by at most error·|Lᵢ|·|Lⱼ|."""
    point = factor.sharp_dot(inner).sharp_dot(factor.T)
    rows = np.sqrt(((np.abs(factor.mid) + factor.rad) ** 2).sum(axis=1)) * (1 + 2.0**-40)
    return FloatBall(point.mid, (point.rad + error * np.outer(rows, rows)) * (1 + 2.0**-40))


def _mirrored(m: int, lower: list[int]) -> np.ndarray:
    out = np.empty((m, m), dtype=object)
    i, j = np.tril_indices(m)
    out[i, j] = out[j, i] = lower
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
        if pivot <= 0 or (ctx.prec >= 2048 and pivot.contains(0) and not _is_positive_definite(center)):
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
    return all(fmpq_mat([row[:k] for row in twice[:k]]).det() > 0 for k in range(1, m + 1))
