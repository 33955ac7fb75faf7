"""What the far and the chain envelope of the SPD Gaussian share: eigenvalues first, then a Haar rotation."""

import itertools
from abc import ABC, abstractmethod

import numpy as np
from flint import arb, arb_mat

from curvedp.entropy.balls import decide
from curvedp.entropy.bits import LazyNormals
from curvedp.entropy.csprng import Source

__all__ = ["TurnedDraw"]


class TurnedDraw(ABC):
    """Decreasing eigenvalues ρ as lazy reals, and the reflections that turn diag(e^ρ)."""

    def __init__(self, m: int) -> None:
        self.m = m
        self._turns: list[tuple[LazyNormals, int]] = []

    @abstractmethod
    def rho(self, precision: int) -> list[arb]:
        """The eigenvalues of V."""

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

        Their product is Haar up to the signs of its columns, which Q·diag(e^ρ)·Qᵀ does not see. u = g ± |g|e₁ with the
        sign that does not cancel, read off the leading bits once so that it is the same at every precision; either is
        correct.
        """
        self._turns = []
        for k in range(2, self.m + 1):
            g = LazyNormals(source, k)
            self._turns.append((g, g.first_sign()))

    def exp(self, precision: int) -> arb_mat:
        m = self.m
        point = arb_mat(m, m)
        for i, value in enumerate(self.rho(precision)):
            point[i, i] = value.exp()
        for k, (normals, sign) in enumerate(self._turns, start=2):
            g = normals.balls(precision)
            g[0] = g[0] + sign * g.dot(g).sqrt()
            u = arb_mat(m, 1, [arb(0)] * (m - k) + g.tolist())
            mirror = arb_mat(np.eye(m).tolist()) - u * u.transpose() * (2 / g.dot(g))
            point = mirror * point * mirror
        return point
