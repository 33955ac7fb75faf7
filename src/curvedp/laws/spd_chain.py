"""The envelope for log-eigenvalues when neither the near nor the far one is good: m large, σ between about 0.3 and 2.

With ρ₁ > … > ρ_m, x ↦ log sinh x is concave, so every pair that is not adjacent is bounded by a tangent line: log
sinh(d/2) ≤ log sinh(d₀/2) + ½coth(d₀/2)(d − d₀). Linear terms only shift the means of the Gaussians. The adjacent
pairs stay exact: what is left is the Markov chain ∏N(ρᵢ; μᵢ, σ²)·∏(1 − e^{−(ρᵢ−ρᵢ₊₁)})₊. On a line cut into cells,
the factor of a pair of cells A ≥ B is at most 1 − e^{−(top of A − bottom of B)}, so the chain of cells is a finite
Markov chain, drawn by backward messages; inside its cell each ρᵢ is a truncated normal. That bound has rank two in
(A, B), so messages and inversion cost O(cells), with nothing tabulated by pairs.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from curvedp.laws.radial import Floats
from curvedp.laws.spd_normalizer import log_pfaffian

_CELLS = 4096  # the cells' own loss is then below 0.1 in log acceptance at m = 20
_STEPS = 12  # of the fixed-point iteration for the tangent points; more change the acceptance by less than 1%


class ChainEnvelope:
    """Gaussians in decreasing order, adjacent ones repelled; other pairs on tangents at the gaps of `positions`."""

    name = "chain"

    def __init__(self, m: int, sigma: float, positions: Floats) -> None:
        self.m, self.sigma, self.positions = m, sigma, positions
        i, j = np.triu_indices(m, 2)
        self._pairs = i, j
        half = (positions[i] - positions[j]) / 2
        self._slope = 0.5 / np.tanh(half)
        self._intercept = (
            half + np.log(-np.expm1(-2 * half)) - math.log(2) - self._slope * 2 * half
        )
        tilt = np.zeros(m)
        tilt[:-1] += 0.5
        tilt[1:] -= 0.5
        np.add.at(tilt, i, self._slope)
        np.subtract.at(tilt, j, self._slope)
        self.means = sigma * sigma * tilt
        reach = self.means[0] + 5 * sigma
        self._edges = np.linspace(-reach, reach, _CELLS - 1)
        self._lower = np.concatenate([[-np.inf], self._edges])
        self._upper = np.concatenate([self._edges, [np.inf]])
        self._weights = self._cell_masses()
        self._messages, log_mass = self._backward()
        self.log_acceptance = (
            sigma * sigma * (m * (m * m - 1) / 24 - float(tilt @ tilt) / 2)
            - (m - 1)
            * (m - 2)
            / 2
            * math.log(2)  # the adjacent pairs' factors ½ stand on both sides
            - float(self._intercept.sum())
            - log_mass
            + log_pfaffian(m, sigma)
        )

    @classmethod
    def tightest(cls, m: int, sigma: float) -> "ChainEnvelope":
        """Tangent points near the best ones, which are the mean gaps under the envelope itself: any points give a valid
        envelope, so a fixed number of steps of the fixed-point iteration is enough."""
        # where the ρᵢ/σ·√2 are as σ → 0; far apart they sit at σ²h
        nodes = np.polynomial.hermite_e.hermegauss(m)[0][::-1]
        where = (
            sigma * nodes / math.sqrt(2)
            + sigma * sigma * (m - 1 - 2 * np.arange(m)) / 2
        )
        envelope = cls(m, sigma, where)
        for _ in range(_STEPS):
            where = (where + envelope._mean_positions()) / 2
            envelope = cls(m, sigma, where)
        return envelope

    def propose(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """n ordered proposals and their log ratios target/envelope."""
        rho = np.empty((n, self.m))
        log_ratio = np.zeros(n)
        cell = np.searchsorted(
            self._first, rng.random(n) * self._first[-1], side="right"
        )
        rho[:, 0] = self._inside(rng, 0, cell)
        for i in range(1, self.m):
            above, cell = cell, self._next_cell(rng, i, cell)
            rho[:, i] = self._inside(rng, i, cell)
            gap = rho[:, i - 1] - rho[:, i]
            with np.errstate(
                divide="ignore"
            ):  # same cell in the wrong order: density 0, log −∞
                log_ratio += np.log(-np.expm1(-np.maximum(gap, 0.0)))
            log_ratio -= np.log(-np.expm1(self._lower[cell] - self._upper[above]))
        first, second = self._pairs
        gap = rho[:, first] - rho[:, second]
        with np.errstate(divide="ignore"):
            log_sinh = gap / 2 + np.log(-np.expm1(-np.maximum(gap, 0.0))) - math.log(2)
        log_ratio += np.sum(log_sinh - (self._intercept + self._slope * gap), axis=1)
        return rho, log_ratio

    def _cell_masses(self) -> Floats:
        """P(N(μᵢ, σ²) in the cell), each from the side where it does not cancel."""
        z_low = (self._lower - self.means[:, None]) / self.sigma
        z_high = (self._upper - self.means[:, None]) / self.sigma
        right = z_low > 0
        return np.asarray(
            ndtr(np.where(right, -z_low, z_high))
            - ndtr(np.where(right, -z_high, z_low))
        )

    def _backward(self) -> tuple[list[tuple[Floats, Floats]], float]:
        """Prefix sums of the messages and the log-mass of the chain of cells."""
        shrink, grow = np.exp(-self._upper), np.exp(self._lower)
        message, log_mass = np.ones(_CELLS), 0.0
        self._betas = [message]
        prefix: list[tuple[Floats, Floats]] = []
        for i in range(self.m - 1, 0, -1):
            value = self._weights[i] * message
            zero, one = np.cumsum(value), np.cumsum(grow * value)
            prefix.append((zero, one))
            # Σ_{B ≤ A} (1 − e^{−(top A − bottom B)})·value(B); rounding may leave −1e-16 where nothing is below
            message = np.maximum(zero - shrink * one, 0.0)
            top = message.max()
            message = message / top
            log_mass += math.log(top)
            self._betas.append(message)
        self._betas.reverse()
        self._first = np.cumsum(self._weights[0] * message)
        return [(np.empty(0), np.empty(0)), *reversed(prefix)], log_mass + math.log(
            self._first[-1]
        )

    def _mean_positions(self) -> Floats:
        """Means of the ρᵢ under the chain of cells (cells by their midpoints), by forward messages."""
        shrink, grow = np.exp(-self._upper), np.exp(self._lower)
        step = self._edges[1] - self._edges[0]
        middle = np.concatenate(
            [[self._edges[0]], self._edges[:-1] + step / 2, [self._edges[-1]]]
        )
        message = np.ones(_CELLS)
        means = np.empty(self.m)
        for i in range(self.m):
            value = self._weights[i] * message
            density = value * self._betas[i]
            means[i] = density @ middle / density.sum()
            zero, one = (
                np.cumsum(value[::-1])[::-1],
                np.cumsum((shrink * value)[::-1])[::-1],
            )
            message = np.maximum(zero - grow * one, 0.0)
            message = message / message.max()
        return (means - means[::-1]) / 2  # the law is symmetric

    def _next_cell(
        self, rng: np.random.Generator, i: int, above: NDArray[Any]
    ) -> NDArray[Any]:
        """The cell of ρᵢ given that of ρᵢ₋₁: inversion by bisection on prefix sums."""
        zero, one = self._messages[i]
        shrink = np.exp(-self._upper[above])
        goal = rng.random(len(above)) * (zero[above] - shrink * one[above])
        low, high = np.zeros_like(above), above.copy()
        for _ in range(_CELLS.bit_length()):
            middle = (low + high) // 2
            enough = zero[middle] - shrink * one[middle] > goal
            high = np.where(enough, middle, high)
            low = np.where(enough, low, np.minimum(middle + 1, high))
        return low

    def _inside(self, rng: np.random.Generator, i: int, cell: NDArray[Any]) -> Floats:
        """N(μᵢ, σ²) restricted to the cell, by inversion in the tail where Φ keeps its digits."""
        z_low = (self._lower[cell] - self.means[i]) / self.sigma
        z_high = (self._upper[cell] - self.means[i]) / self.sigma
        flip = np.where(z_low > 0, -1.0, 1.0)
        a, b = (
            ndtr(np.where(z_low > 0, -z_high, z_low)),
            ndtr(np.where(z_low > 0, -z_low, z_high)),
        )
        z = np.clip(flip * ndtri(a + rng.random(len(cell)) * (b - a)), z_low, z_high)
        return np.asarray(self.means[i] + self.sigma * z)
