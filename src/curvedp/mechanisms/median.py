"""The private geometric median: noisy steps along mean unit directions, whose sensitivity is free of every radius.

The median minimizes mean d(x, xᵢ), and minus its gradient is the mean of log_x xᵢ/‖log_x xᵢ‖. Each has length at most 1, so
a noisy step has sensitivity 2/n wherever the records are: one far record moves the median as little as a near one. Steps are
as long as the records' median distance, released on the way: Weiszfeld's iteration (Weiszfeld 1937; on manifolds Fletcher,
Venkatasubramanian & Joshi 2009), with the harmonic mean of distances replaced by their private median.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp.geometry import project_to_ball
from curvedp.mechanisms.base import Reading
from curvedp.mechanisms.chart import grid_of
from curvedp.mechanisms.measured import Measured, OuterBall, mean_moved
from curvedp.mechanisms.noise import LAWS, Law, Noise, spread_of
from curvedp.mechanisms.stages import WIDER, Search, Shells, StagedMechanism, Stages
from curvedp.numerics.fixed_point import FixedPoint


class _Plan(NamedTuple):
    """Shares of a median distance and of a step on the way, how many of both, and of the last steps, which share what is
    left, each with `growth` times as much as the one before."""

    radius: float
    search: float
    searches: int
    steps: int
    growth: float


_PLANS = {
    "gaussian": _Plan(0.04, 0.05, 3, 5, 1.5),
    "laplace": _Plan(0.03, 0.04, 2, 3, 2.0),
}
# Of pure ε: the shells of the first and of later distances, and their shares where records are few, times 1/(nε) and at most.
_FIRST, _LATER = (Shells(63, 1.6), 30.0, 0.25), (Shells(16, 1.6), 20.0, 0.12)
_SMOOTH = (
    0.1  # of the median distance: nearer records pull in proportion to their distance
)


@dataclass(frozen=True, eq=False)
class GeometricMedian(OuterBall):
    """The geometric median of n records in a public ball, as generous as one likes."""

    name: ClassVar[str] = "geometric median"


class MedianMechanism(StagedMechanism):
    """All steps as one release.

    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for ANY records.
    """

    laws: ClassVar[tuple[Law, ...]] = LAWS
    name: ClassVar[str] = "noisy-median"
    option: ClassVar[str | None] = "median"
    of: ClassVar[Any] = GeometricMedian

    afterwards = ("projection onto the ball",)

    @property
    def enough(self) -> bool:
        """Whether the last step, which has about a quarter of the budget, has noise shorter than the median distance."""
        d, worth = self.manifold.dim, 0.25 if self.law == "laplace" else 0.5
        return bool(
            2 * sqrt(d) * spread_of(self.law, d) * self.scale
            <= worth * self.statistic.n
        )

    def reading(self, integers: Any) -> Reading:
        """The last counts of records beyond a distance, each with its own noise, fresh given those before; for pure ε sums of
        one, two, … such."""
        counts = self.replayed(integers)[1].counts
        w, radii, drawn, noise = counts[-1]
        if self.law == "gaussian":
            radii, drawn = np.array(
                [(radius, count) for c, radius, count, _ in counts if c is w]
            ).T
        cell, reach = 2.0 ** -grid_of(noise), self.statistic.outer_radius
        return Reading(
            "counts", self.law_of(1, noise), drawn, w, reach, radii, cell=cell
        )

    def walk(self, measured: Measured, noisy: Noise) -> tuple[np.ndarray, Stages]:
        stages, plan = Stages(self.scale, noisy, self.law), _PLANS[self.law]
        w, size = np.asarray(self.statistic.center), 0.0
        for _ in range(plan.searches):
            size = self._size(measured, stages, w, size)
            w = self._step(
                measured, stages, w, size, max(plan.search, self._few(_LATER))
            )
        size = self._size(measured, stages, w, size)
        weights = [plan.growth**k for k in range(plan.steps)]
        shares = [stages.left * weight / sum(weights) for weight in weights]
        for share in shares:
            w = self._step(measured, stages, w, size, share)
        return w, stages

    def _few(self, rule: tuple[Shells, float, float]) -> float:
        """The share of a stage of pure ε where records are few."""
        _, times, most = rule
        return (
            min(most, times * self.scale / self.statistic.n)
            if self.law == "laplace"
            else 0.0
        )

    def _size(
        self, measured: Measured, stages: Stages, w: np.ndarray, before: float
    ) -> float:
        """A median distance from w, or for pure ε a typical one, not far from the one before."""
        beyond, n, top = (
            partial(measured.beyond, w),
            self.statistic.n,
            self.statistic.outer_radius,
        )
        share = _PLANS[self.law].radius
        if self.law == "gaussian":
            return Search().quantile(stages, beyond, top, n / 2, share, w)
        rule, top = (_LATER, min(top, WIDER * before)) if before > 0 else (_FIRST, top)
        return rule[0].read(
            stages, beyond, n, top, 0.0, max(share, self._few(rule)), w
        )[0]

    def _step(
        self,
        measured: Measured,
        stages: Stages,
        w: np.ndarray,
        size: float,
        share: float,
    ) -> np.ndarray:
        M, grid = self.manifold, FixedPoint(2.0)
        mean = measured.mean(partial(_directions, _SMOOTH * size, grid), grid, M.dim, w)
        noisy, _ = stages.ask(
            "direction", share, mean_moved(1.0, grid, M.dim, self.statistic.n), mean
        )
        length = float(np.linalg.norm(noisy))
        move = size * noisy * min(1.0, 1 / length if length > 0 else 1.0)
        with np.errstate(all="ignore"):  # of released numbers
            point = np.asarray(M.from_normal_coordinates(w, move))
        return np.asarray(
            project_to_ball(
                M, self.statistic.center, self.statistic.outer_radius, point[None]
            )[0]
        )


def _directions(smooth: float, grid: FixedPoint, z: np.ndarray) -> np.ndarray:
    """Exact sums of logarithms over their lengths, or over a public length where they are shorter."""
    unit = z / np.maximum(np.linalg.norm(z, axis=-1, keepdims=True), smooth)
    return np.asarray(
        grid.sums(
            np.where(np.isfinite(unit).all(axis=-1, keepdims=True), unit, 0.0)
        ).ravel()
    )
