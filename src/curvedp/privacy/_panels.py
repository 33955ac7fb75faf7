"""Piecewise Chebyshev series of functions of one variable; panels are halved until the last coefficients vanish."""

from collections.abc import Callable
from typing import Any

import numpy as np

from curvedp.errors import NotResolved
from curvedp.privacy.rounding import Array

RESOLVED = 1e-12  # size of the last coefficients, relative to the largest value in the panel or 1
_N = 24  # Chebyshev nodes a panel
_K = np.arange(_N)
_ANGLES = np.pi * (_K + 0.5) / _N
_NODES = np.cos(_ANGLES)
_TO_COEFFICIENTS = 2.0 / _N * np.cos(np.outer(_K, _ANGLES))
_TO_COEFFICIENTS[0] /= 2


class Panels:
    """Series of several functions of a flat array at once. `ulp` is what a rounding of the argument is worth there: what that
    does to the values is not resolved. `resolution` is their relative error: where it is above `RESOLVED`, halving may end
    before they are resolved. Values of the first function below `deepest` do not matter."""

    def __init__(
        self,
        functions: Callable[[Array], Any],
        ulp: Any,
        resolution: float,
        deepest: float,
    ) -> None:
        self._functions, self._ulp, self._resolution, self._deepest = (
            functions,
            ulp,
            resolution,
            deepest,
        )
        self.edges, self._coefficients = np.empty(0), np.empty(0)
        self.unresolved = 0.0  # the largest last coefficient that halving did not remove: an error of the values

    @property
    def end(self) -> float:
        """The right end of the last panel."""
        return float(self.edges[-1])

    def add(self, edges: Array) -> None:
        """Lay panels between these, the first of which is the end of those before."""
        low, high, c = self._resolved(edges[:-1], edges[1:])
        order = np.argsort(low)
        if len(self.edges):
            self.edges = np.concatenate([self.edges, high[order]])
            self._coefficients = np.concatenate([self._coefficients, c[order]])
        else:
            self.edges, self._coefficients = (
                np.append(low[order], high[order][-1]),
                c[order],
            )

    def like(self, function: Callable[[Array], Array]) -> "Panels":
        """Another function on the panels there are."""
        other = Panels(
            lambda w: (function(w),), self._ulp, self._resolution, self._deepest
        )
        other.edges, other._coefficients = (
            self.edges,
            other._transformed(self.edges[:-1], self.edges[1:])[1],
        )
        return other

    def _transformed(self, lows: Array, highs: Array) -> tuple[Array, Array]:
        """Values at the nodes of each panel, and their coefficients: (panels, functions, nodes)."""
        w = (lows + highs)[:, None] / 2 + (highs - lows)[:, None] / 2 * _NODES
        parts = self._functions(w.ravel())
        values = np.maximum(
            np.stack([part.reshape(w.shape) for part in parts], axis=1), -1e300
        )
        return values, values @ _TO_COEFFICIENTS.T

    def _resolved(self, lows: Array, highs: Array) -> tuple[Array, Array, Array]:
        done: list[tuple[Array, Array, Array]] = []
        rough = self._resolution > RESOLVED
        for level in range(40):
            values, c = self._transformed(lows, highs)
            size = np.maximum(np.abs(values).max(axis=2), 1.0)
            steepness = np.ptp(values, axis=2) / (highs - lows)[:, None]
            allowed = (
                self._resolution * size
                + 2.0**-50 * self._ulp(highs)[:, None] * steepness
            )
            left = np.abs(c[:, :, -3:]).max(axis=2)
            fine = np.all(left <= allowed, axis=1)
            if rough:  # where a bounded loss and a narrow one end, P falls off a cliff
                fine |= values[:, 0].max(axis=1) < 2 * self._deepest
            if rough and level >= 20:  # noise of the density of a summand
                seen = ~fine & (values[:, 0].max(axis=1) > self._deepest)
                self.unresolved = max(
                    self.unresolved, float(np.max(left[seen], initial=0.0))
                )
                fine[:] = True
            done.append((lows[fine], highs[fine], c[fine]))
            if np.all(fine):
                return tuple(np.concatenate(part) for part in zip(*done, strict=True))  # type: ignore[return-value]  # a pair: `done` holds pairs
            mids = (lows + highs)[~fine] / 2
            lows, highs = (
                np.concatenate([lows[~fine], mids]),
                np.concatenate([mids, highs[~fine]]),
            )
        raise NotResolved("the tails of the privacy loss could not be resolved")

    def _locate(self, w: Array) -> tuple[Array, Array, Array, Array]:
        """(panel, z in [−1, 1], 2/width, distance beyond the last panel)."""
        inside = np.minimum(w, self.edges[-1])
        i = np.clip(
            np.searchsorted(self.edges, inside, side="right") - 1,
            0,
            len(self._coefficients) - 1,
        )
        low, high = self.edges[i], self.edges[i + 1]
        z = np.clip((2 * inside - low - high) / (high - low), -1.0, 1.0)
        return i, z, 2 / (high - low), np.where(np.isfinite(w), w - inside, 0.0)

    def value(self, w: Array, which: int) -> Array:
        """Σ c_k·T_k within the panels."""
        i, z, _, _ = self._locate(w)
        c, z2 = self._coefficients[:, which].T, 2 * z
        b0 = b1 = np.zeros_like(z)
        for k in range(_N - 1, 0, -1):
            b0, b1 = c[k].take(i) + z2 * b0 - b1, b0
        return np.asarray(c[0].take(i) + z * b0 - b1)

    def with_slope(self, w: Array, which: int) -> tuple[Array, Array, Array]:
        """The series and its derivative, continued linearly beyond the end, and how far beyond."""
        i, z, scale, beyond = self._locate(w)
        c, z2 = self._coefficients[:, which].T, 2 * z
        b0 = b1 = d0 = d1 = np.zeros_like(z)
        for k in range(_N - 1, 0, -1):
            d0, d1 = 2 * b0 + z2 * d0 - d1, d0
            b0, b1 = c[k].take(i) + z2 * b0 - b1, b0
        slope = (b0 + z * d0 - d1) * scale
        return c[0].take(i) + z * b0 - b1 + slope * beyond, slope, beyond
