"""The far envelope of the SPD Gaussian (see exact_spd): drifted normal eigenvalues and a Haar rotation.

2·sinh x ≤ eˣ, so ρ ~ N(σ²h, σ²I) with hᵢ = (m+1−2i)/2, kept if decreasing, accepted with ∏_{i<j}(1−e^{−(ρᵢ−ρⱼ)}).
"""

import itertools
import math

import numpy as np
from flint import arb, arb_mat
from scipy.special import gammaln

from curvedp.entropy.balls import decide
from curvedp.entropy.bits import LazyNormals, LazyUniforms, accepts
from curvedp.entropy.csprng import Source

__all__ = ["FarDraw", "draw_far", "far_log_mass"]


def far_log_mass(m: int, sigma: float) -> float:
    """log of C_m (2πσ²)^{m/2} e^{σ²|h|²/2}: C_m turns ∏(ρᵢ−ρⱼ)dρ into dV (Mehta's integral for the Gaussian weight)."""
    j = np.arange(1, m + 1)
    log_c = math.lgamma(m + 1) - float(np.sum(gammaln(1 + j / 2) - gammaln(1.5)))
    log_c += 0.25 * m * (m - 1) * math.log(2 * math.pi)
    drift = sigma**2 * m * (m**2 - 1) / 24
    return log_c + 0.5 * m * math.log(2 * math.pi) + m * math.log(sigma) + drift


def draw_far(m: int, sigma: float, source: Source) -> "FarDraw":
    while True:
        trial = FarDraw(m, sigma, LazyNormals(source, m))
        if not trial.decreasing():
            continue
        coin = LazyUniforms(source, 1)
        if accepts(coin, trial.log_ratio):
            trial.turn(source)
            return trial


class FarDraw:
    """One trial: ρ as a function of lazy normals, and the reflections that turn it."""

    def __init__(self, m: int, sigma: float, normals: LazyNormals) -> None:
        self._m, self._sigma, self._normals = m, sigma, normals

    def _rho(self, precision: int) -> list[arb]:
        sigma, m = arb(self._sigma), self._m
        return [sigma * (sigma * (m - 1 - 2 * i) / 2 + z) for i, z in enumerate(self._normals.balls(precision))]

    def decreasing(self) -> bool:
        def certain(precision: int) -> bool | None:
            rho = self._rho(precision)
            gaps = [a - b for a, b in itertools.pairwise(rho)]
            if any(gap < 0 for gap in gaps):
                return False
            return True if all(gap > 0 for gap in gaps) else None

        return decide(certain)

    def log_ratio(self, precision: int) -> arb:
        """Σ_{i<j} log(1 − e^{−(ρᵢ−ρⱼ)})"""
        rho = self._rho(precision)
        product = arb(1)
        for i, high in enumerate(rho):
            for low in rho[i + 1 :]:
                product = product * -(low - high).expm1()
        return product.log()

    def turn(self, source: Source) -> None:
        """Normals for reflections in dimensions 2, …, m (Stewart 1980).

        Their product is Haar up to the signs of its columns, which Q·diag(e^ρ)·Qᵀ does not see. u = g ± |g|e₁ with the
        sign that does not cancel, read off the leading bits once so that it is the same at every precision; either is
        correct.
        """
        self._turns = []
        for k in range(2, self._m + 1):
            g = LazyNormals(source, k)
            with np.errstate(all="ignore"):
                sign = 1 if g.floats().mid[0] >= 0 else -1
            self._turns.append((g, sign))

    def exp(self, precision: int) -> arb_mat:
        m = self._m
        point = arb_mat(m, m)
        for i, value in enumerate(self._rho(precision)):
            point[i, i] = value.exp()
        for k, (normals, sign) in enumerate(self._turns, start=2):
            g = normals.balls(precision)
            g[0] = g[0] + sign * g.dot(g).sqrt()
            u = arb_mat(m, 1, [arb(0)] * (m - k) + g.tolist())
            mirror = arb_mat(np.eye(m).tolist()) - u * u.transpose() * (2 / g.dot(g))
            point = mirror * point * mirror
        return point
