"""The far envelope of the SPD Gaussian (see `spd`), and what the chain shares: eigenvalues, then a Haar rotation.

Far: 2·sinh x ≤ eˣ, so ρ ~ N(βσ²h, σ²I) with hᵢ = (m+1−2i)/2, kept if decreasing, accepted with ∏_{i<j}(1−e^{−(ρᵢ−ρⱼ)})^β.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from flint import arb, arb_mat

from curvedp.entropy.balls import arb_array, decide
from curvedp.entropy.bits import LazyNormals, LazyUniforms, accepts
from curvedp.entropy.csprng import Source


class TurnedDraw(ABC):
    """Decreasing eigenvalues ρ as lazy reals, and the reflections that turn diag(e^ρ)."""

    def __init__(self, m: int, beta: int = 1) -> None:
        self.m, self.beta = m, beta
        self._turns: list[LazyNormals] = []

    @abstractmethod
    def rho(self, precision: int) -> list[arb]:
        """The eigenvalues of V."""

    @abstractmethod
    def log_ratio(self, precision: int) -> arb:
        """Log of target over envelope: at most 0."""

    def decreasing(self) -> bool:
        def certain(precision: int) -> bool | None:
            rho = self.rho(precision)
            gaps = [a - b for a, b in itertools.pairwise(rho)]
            if any(gap < 0 for gap in gaps):
                return False
            return True if all(gap > 0 for gap in gaps) else None

        return decide(certain)

    def turn(self, source: Source) -> None:
        """Normals for reflections in dimensions 2, …, m (Stewart 1980).

        Their product is Haar up to the signs or phases of its columns, which Q·diag(e^ρ)·Q* does not see.
        """
        self._turns = [LazyNormals(source, self.beta * k) for k in range(2, self.m + 1)]

    def exp(self, precision: int) -> arb_mat:
        """Q·diag(e^ρ)·Q*, complex numbers as blocks. I − 2uu*/|u|² with u = g + (g₁/|g₁|)·|g|·e₁ carries g to e₁."""
        size, beta = self.beta * self.m, self.beta
        point = arb_mat(size, size)
        for i, value in enumerate(self.rho(precision)):
            for k in range(beta * i, beta * (i + 1)):
                point[k, k] = value.exp()
        for normals in self._turns:
            g = normals.balls(precision)
            g[:beta] = g[:beta] * (1 + (g.dot(g) / g[:beta].dot(g[:beta])).sqrt())
            u = arb_array(np.zeros((size, beta)))
            u[size - len(g) :, 0] = g
            if beta == 2:
                u[size - len(g) :: 2, 1], u[size - len(g) + 1 :: 2, 1] = -g[1::2], g[::2]
            mirror = arb_mat((np.eye(size) - u.dot(u.T) * (2 / g.dot(g))).tolist())
            point = mirror * point * mirror
        return point


T = TypeVar("T", bound=TurnedDraw)


def accepted(propose: Callable[[], T], source: Source) -> T:
    """An exact draw of the eigenvalues and the rotation: rejection until one is accepted, with no cap."""
    while True:
        trial = propose()
        if trial.decreasing() and accepts(LazyUniforms(source, 1), trial.log_ratio):
            trial.turn(source)
            return trial


def draw_far(m: int, sigma: float, source: Source, beta: int = 1) -> TurnedDraw:
    """From the far envelope."""
    return accepted(lambda: _FarDraw(m, sigma, LazyNormals(source, m), beta), source)


def draw_far_laplace(m: int, scale: float, source: Source, beta: int = 1) -> TurnedDraw:
    """From the far envelope of the Laplace law."""
    return accepted(lambda: _FarLaplace(m, scale, LazyNormals(source, 2 * m + 1), beta), source)


class _FarDraw(TurnedDraw):
    def __init__(self, m: int, sigma: float, normals: LazyNormals, beta: int = 1) -> None:
        super().__init__(m, beta)
        self._sigma, self._normals = sigma, normals

    def _deviation(self, normals: np.ndarray) -> arb:
        return arb(self._sigma)

    def rho(self, precision: int) -> list[arb]:
        normals, m, beta = self._normals.balls(precision), self.m, self.beta
        sigma = self._deviation(normals)
        return [sigma * (sigma * beta * (m - 1 - 2 * i) / 2 + z) for i, z in enumerate(normals[:m])]

    def log_ratio(self, precision: int) -> arb:
        """β·Σ_{i<j} log(1 − e^{−(ρᵢ−ρⱼ)})"""
        rho = self.rho(precision)
        product = arb(1)
        for i, high in enumerate(rho):
            for low in rho[i + 1 :]:
                product = product * -(low - high).expm1()
        return self.beta * product.log()


class _FarLaplace(_FarDraw):
    """The variance is Gamma((m+1)/2, c), a χ² of m + 1 degrees of freedom over 2c = 1/scale² − β²|h|² (`spd_laplace`)."""

    def _deviation(self, normals: np.ndarray) -> arb:
        rest, m = normals[self.m :], self.m
        return (rest.dot(rest) / (1 / arb(self._sigma) ** 2 - arb(self.beta**2 * m * (m * m - 1)) / 12)).sqrt()
