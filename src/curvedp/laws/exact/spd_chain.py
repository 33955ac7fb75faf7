"""The far and the chain envelope of the SPD Gaussian (see `spd`), which draw eigenvalues, then a Haar rotation.

Far: ρ ~ N(βσ²h, σ²I) with hᵢ = (m+1−2i)/2, kept if decreasing, accepted with ∏_{i<j}(1−e^{−(ρᵢ−ρⱼ)})^β. Chain:
`laws.spd_chain` has the proof. Every constant is an exact real number, evaluated in balls as far as a decision needs.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np
from flint import arb, arb_mat

from curvedp.entropy.bits import LazyNormals, LazyUniforms, accepts
from curvedp.entropy.csprng import Source
from curvedp.numerics.enclosures import arb_array, decide
from curvedp.numerics.enclosures import precision as at_precision

_CELLS = 1024


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
            gaps = [a - b for a, b in itertools.pairwise(self.rho(precision))]
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
                u[size - len(g) :: 2, 1], u[size - len(g) + 1 :: 2, 1] = (
                    -g[1::2],
                    g[::2],
                )
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


def draw_far(
    m: int, scale: float, source: Source, beta: int = 1, *, laplace: bool = False
) -> TurnedDraw:
    """From the far envelope of either law."""
    kind, normals = (_FarLaplace, 2 * m + 1) if laplace else (_FarDraw, m)
    return accepted(lambda: kind(m, scale, LazyNormals(source, normals), beta), source)


class _FarDraw(TurnedDraw):
    def __init__(
        self, m: int, sigma: float, normals: LazyNormals, beta: int = 1
    ) -> None:
        super().__init__(m, beta)
        self._sigma, self._normals = sigma, normals

    def _deviation(self, normals: np.ndarray) -> arb:
        return arb(self._sigma)

    def rho(self, precision: int) -> list[arb]:
        normals, m, beta = self._normals.balls(precision), self.m, self.beta
        sigma = self._deviation(normals)
        return [
            sigma * (sigma * beta * (m - 1 - 2 * i) / 2 + z)
            for i, z in enumerate(normals[:m])
        ]

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
        return (
            rest.dot(rest)
            / (1 / arb(self._sigma) ** 2 - arb(self.beta**2 * m * (m * m - 1)) / 12)
        ).sqrt()


class ChainEnvelope:
    """The public constants for one (m, σ), and their balls at each precision."""

    def __init__(self, m: int, sigma: float, positions: np.ndarray) -> None:
        self.m, self.sigma = m, sigma
        self._touch = {
            (i, j): float(positions[i] - positions[j]) / 2
            for i in range(m)
            for j in range(i + 2, m)
        }
        with at_precision(64):
            means = [float(mean) for mean in self.means()]
            edges = np.linspace(
                min(means) - 7 * sigma, max(means) + 7 * sigma, _CELLS - 1
            )
            self._edges = (
                edges.tolist()
            )  # cells: below the first, between, above the last

    def means(self) -> list[arb]:
        """μ = σ²·(slopes of all the linear bounds)."""
        slopes = [arb(0) for _ in range(self.m)]
        for i in range(self.m - 1):
            slopes[i], slopes[i + 1] = slopes[i] + arb(0.5), slopes[i + 1] - arb(0.5)
        for (i, j), x in self._touch.items():
            half = arb(x).coth() / 2
            slopes[i], slopes[j] = slopes[i] + half, slopes[j] - half
        return [arb(self.sigma) ** 2 * slope for slope in slopes]

    @lru_cache(maxsize=8)  # noqa: B019  (an envelope is itself cached for the life of the process)
    def tables(
        self, precision: int
    ) -> tuple[list[list[arb]], list[arb], list[list[arb]], list[list[arb]]]:
        """For each coordinate the normal CDF at the edges; e^edge; and the messages' prefix sums Σz and Σz·e^bottom."""
        with at_precision(precision + 32):
            root = arb(2).sqrt() * arb(self.sigma)
            inner = [
                [(1 + ((arb(e) - mean) / root).erf()) / 2 for e in self._edges]
                for mean in self.means()
            ]
            cdf = [[arb(0), *row, arb(1)] for row in inner]
            growth = [
                arb(0),
                *(arb(e).exp() for e in self._edges),
            ]  # e^bottom of each cell
            plain: list[list[arb]] = []
            tilted: list[list[arb]] = []
            for row in reversed(cdf):
                z = [high - low for low, high in itertools.pairwise(row)]
                if plain:
                    z = [
                        each * self._prefix(plain[0][k], tilted[0][k], growth, k)
                        for k, each in enumerate(z)
                    ]
                plain.insert(0, list(itertools.accumulate(z)))
                tilted.insert(
                    0,
                    list(
                        itertools.accumulate(
                            each * e for each, e in zip(z, growth, strict=True)
                        )
                    ),
                )
        return cdf, growth, plain, tilted

    @staticmethod
    def _prefix(plain: arb, tilted: arb, growth: list[arb], above: int) -> arb:
        """Σ (1 − e^{bottom − top of the cell above})·z over the cells summed so far; e^-top of the last cell is 0."""
        return plain - tilted / growth[above + 1] if above + 1 < _CELLS else plain

    def pick(self, i: int, above: int, u: LazyUniforms) -> int:
        """The cell of coordinate i below the cell `above` of its neighbor."""

        def certain(precision: int) -> int | None:
            _, growth, plain, tilted = self.tables(precision)

            def mass(k: int) -> arb:
                return self._prefix(plain[i][k], tilted[i][k], growth, above)

            goal = u.balls(precision)[0] * mass(above)
            low, high = 0, above
            while low < high:
                value = mass(middle := (low + high) // 2)
                if not (goal < value or goal > value):
                    return None
                low, high = (low, middle) if goal < value else (middle + 1, high)
            return low

        return decide(certain)

    def log_bounds(self, cells: list[int], precision: int) -> arb:
        """Σ log(1 − e^{−(top of A − bottom of B)}) over neighbors."""
        growth = self.tables(precision)[1]
        pairs = [(a, b) for a, b in itertools.pairwise(cells) if a + 1 < _CELLS]
        return sum(((1 - growth[b] / growth[a + 1]).log() for a, b in pairs), arb(0))

    def log_rest(self, rho: list[arb]) -> arb:
        """Σ log 2 sinh x − its tangent, over the pairs that are not adjacent: at most 0."""
        total = arb(0)
        for (i, j), touch in self._touch.items():
            x, x0 = (rho[i] - rho[j]) / 2, arb(touch)
            total = total + (x.sinh() / x0.sinh()).log() - x0.coth() * (x - x0)
        return total


def draw_chain(envelope: ChainEnvelope, source: Source) -> TurnedDraw:
    """From the chain."""
    return accepted(lambda: _ChainDraw(envelope, source), source)


class _ChainDraw(TurnedDraw):
    """One trial: the cells, and a lazy uniform for the place in each."""

    def __init__(self, envelope: ChainEnvelope, source: Source) -> None:
        super().__init__(envelope.m)
        self._envelope = envelope
        self._cells: list[int] = []
        for i in range(envelope.m):
            above = self._cells[-1] if i else _CELLS - 1  # the first has no neighbor
            self._cells.append(envelope.pick(i, above, LazyUniforms(source, 1)))
        self._places = LazyUniforms(source, envelope.m)

    def rho(self, precision: int) -> list[arb]:
        cdf = self._envelope.tables(precision)[0]
        root = arb(2).sqrt() * arb(self._envelope.sigma)
        places = self._places.balls(precision, range(self.m))
        out = []
        for i, (k, u, mean) in enumerate(
            zip(self._cells, places, self._envelope.means(), strict=True)
        ):
            share = cdf[i][k] + u * (cdf[i][k + 1] - cdf[i][k])
            out.append(mean + root * (2 * share - 1).erfinv())
        return out

    def log_ratio(self, precision: int) -> arb:
        rho = self.rho(precision)
        gaps = arb(1)
        for a, b in itertools.pairwise(rho):
            gaps = gaps * -(b - a).expm1()
        return (
            gaps.log()
            - self._envelope.log_bounds(self._cells, precision)
            + self._envelope.log_rest(rho)
        )
