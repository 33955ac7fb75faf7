"""The far envelope of the SPD Gaussian (see `spd`): drifted normal eigenvalues and a Haar rotation.

2·sinh x ≤ eˣ, so ρ ~ N(σ²h, σ²I) with hᵢ = (m+1−2i)/2, kept if decreasing, accepted with ∏_{i<j}(1−e^{−(ρᵢ−ρⱼ)}).
"""

from flint import arb

from curvedp.entropy.bits import LazyNormals, LazyUniforms, accepts
from curvedp.entropy.csprng import Source
from curvedp.laws.exact.spd_turn import TurnedDraw

__all__ = ["draw_far"]


def draw_far(m: int, sigma: float, source: Source) -> TurnedDraw:
    """An exact draw of the eigenvalues and the rotation: rejection until one is accepted, with no cap."""
    while True:
        trial = _FarDraw(m, sigma, LazyNormals(source, m))
        if trial.decreasing() and accepts(LazyUniforms(source, 1), trial.log_ratio):
            trial.turn(source)
            return trial


class _FarDraw(TurnedDraw):
    def __init__(self, m: int, sigma: float, normals: LazyNormals) -> None:
        super().__init__(m)
        self._sigma, self._normals = sigma, normals

    def rho(self, precision: int) -> list[arb]:
        sigma, m = arb(self._sigma), self.m
        return [sigma * (sigma * (m - 1 - 2 * i) / 2 + z) for i, z in enumerate(self._normals.balls(precision))]

    def log_ratio(self, precision: int) -> arb:
        """Σ_{i<j} log(1 − e^{−(ρᵢ−ρⱼ)})"""
        rho = self.rho(precision)
        product = arb(1)
        for i, high in enumerate(rho):
            for low in rho[i + 1 :]:
                product = product * -(low - high).expm1()
        return product.log()
