"""The chain envelope of the SPD Gaussian (see `spd`), for σ between near and far: gaps of neighbors kept exact.

On ρ₁ > … > ρ_m, x ↦ log 2 sinh x is concave: a tangent at a public x⁰ bounds each pair that is not adjacent, and is
linear in ρ. Adjacent pairs are eˣ(1 − e^{−2x}). So the envelope is ∏ N(ρᵢ; μᵢ, σ²)·∏(1 − e^{−(ρᵢ−ρᵢ₊₁)})₊, a Markov chain.
With the line cut into cells, 1 − e^{−(top of A − bottom of B)} bounds the factor of neighbors in cells A ≥ B: a finite
Markov chain, sampled by messages from the last coordinate to the first; then each ρᵢ is a normal restricted to its cell.

Every constant is an exact real number, evaluated in balls as far as a decision needs.
"""

import itertools
from functools import lru_cache

import numpy as np
from flint import arb

from curvedp.entropy.balls import decide
from curvedp.entropy.bits import LazyUniforms
from curvedp.entropy.csprng import Source
from curvedp.entropy.precision import precision as at_precision
from curvedp.laws.exact.spd_turn import TurnedDraw, accepted

_CELLS = 1024


class ChainEnvelope:
    """The public constants for one (m, σ), and their balls at each precision."""

    def __init__(self, m: int, sigma: float, positions: np.ndarray) -> None:
        self.m, self.sigma = m, sigma
        self._touch = {(i, j): float(positions[i] - positions[j]) / 2 for i in range(m) for j in range(i + 2, m)}
        with at_precision(64):
            means = [float(mean) for mean in self.means()]
            edges = np.linspace(min(means) - 7 * sigma, max(means) + 7 * sigma, _CELLS - 1)
            self._edges = edges.tolist()  # cells: below the first, between, above the last

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
    def tables(self, precision: int) -> tuple[list[list[arb]], list[arb], list[list[arb]], list[list[arb]]]:
        """For each coordinate the normal CDF at the edges; e^edge; and the messages' prefix sums Σz and Σz·e^bottom."""
        with at_precision(precision + 32):
            root = arb(2).sqrt() * arb(self.sigma)
            inner = [[(1 + ((arb(e) - mean) / root).erf()) / 2 for e in self._edges] for mean in self.means()]
            cdf = [[arb(0), *row, arb(1)] for row in inner]
            growth = [arb(0), *(arb(e).exp() for e in self._edges)]  # e^bottom of each cell
            plain: list[list[arb]] = []
            tilted: list[list[arb]] = []
            for i in reversed(range(self.m)):
                sums, weighted, s, t = [], [], arb(0), arb(0)
                for k in range(_CELLS):
                    z = cdf[i][k + 1] - cdf[i][k]
                    if plain:
                        z = z * self._prefix(plain[0][k], tilted[0][k], growth, k)
                    s, t = s + z, t + z * growth[k]
                    sums.append(s)
                    weighted.append(t)
                plain.insert(0, sums)
                tilted.insert(0, weighted)
        return cdf, growth, plain, tilted

    @staticmethod
    def _prefix(plain: arb, tilted: arb, growth: list[arb], above: int) -> arb:
        """Σ (1 − e^{bottom − top of the cell above})·z over the cells summed so far; e^-top of the last cell is 0."""
        return plain - tilted / growth[above + 1] if above + 1 < _CELLS else plain

    def pick(self, i: int, above: int, u: LazyUniforms) -> int:
        """The cell of coordinate i below the cell `above` of its neighbor (the last cell for i = 0: no neighbor)."""

        def certain(precision: int) -> int | None:
            _, growth, plain, tilted = self.tables(precision)
            top = above if i else _CELLS - 1

            def mass(k: int) -> arb:
                return self._prefix(plain[i][k], tilted[i][k], growth, top)

            goal = u.balls(precision)[0] * mass(top)
            low, high = 0, top
            while low < high:
                middle = (low + high) // 2
                value = mass(middle)
                if goal < value:
                    high = middle
                elif goal > value:
                    low = middle + 1
                else:
                    return None
            return low

        return decide(certain)

    def log_bounds(self, cells: list[int], precision: int) -> arb:
        """Σ log(1 − e^{−(top of A − bottom of B)}) over neighbors."""
        growth = self.tables(precision)[1]
        total = arb(0)
        for a, b in itertools.pairwise(cells):
            if a + 1 < _CELLS:
                total = total + (1 - growth[b] / growth[a + 1]).log()
        return total

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
            above = self._cells[-1] if i else 0
            self._cells.append(envelope.pick(i, above, LazyUniforms(source, 1)))
        self._places = LazyUniforms(source, envelope.m)

    def rho(self, precision: int) -> list[arb]:
        cdf = self._envelope.tables(precision)[0]
        root = arb(2).sqrt() * arb(self._envelope.sigma)
        places = self._places.balls(precision, range(self.m))
        out = []
        for i, (k, u, mean) in enumerate(zip(self._cells, places, self._envelope.means(), strict=True)):
            share = cdf[i][k] + u * (cdf[i][k + 1] - cdf[i][k])
            out.append(mean + root * (2 * share - 1).erfinv())
        return out

    def log_ratio(self, precision: int) -> arb:
        rho = self.rho(precision)
        gaps = arb(1)
        for a, b in itertools.pairwise(rho):
            gaps = gaps * -(b - a).expm1()
        return gaps.log() - self._envelope.log_bounds(self._cells, precision) + self._envelope.log_rest(rho)
