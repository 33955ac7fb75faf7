"""The private geometric median: noisy steps along mean unit directions, whose sensitivity is free of every radius.

The median minimizes mean d(x, xᵢ), and minus its gradient is the mean of log_x xᵢ/‖log_x xᵢ‖. Each has length at most 1, so
a noisy step has sensitivity 2/n wherever the records are: one far record moves the median as little as a near one. Steps are
as long as the records' median distance, released on the way: Weiszfeld's iteration (Weiszfeld 1937; on manifolds Fletcher,
Venkatasubramanian & Joshi 2009), with the harmonic mean of distances replaced by their private median.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.numerics.fixed_point import FixedPoint
from curvedp.laws import RiemannianGaussian
from curvedp.mechanisms.base import Check, Draw, Mechanism, Reading, assign, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.private_ball import (
    Measured,
    OuterBallMean,
    Stages,
    Unmeasured,
    collected,
    least_scale,
    logs_at,
    mean_moved,
    private_radius,
    same_stages,
)
from curvedp.mechanisms.statistic import Statistic
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, gaussian_profile
from curvedp.records.base import Records

__all__ = ["GeometricMedian", "MedianMechanism"]

_RADIUS, _SEARCH = 0.04, 0.05  # shares of μ² of a median distance, and of a step on the way
_SEARCHES, _STEPS, _GROWTH = 3, 5, 1.5  # the last steps share what is left, each with half as much again
_SMOOTH = 0.1  # of the median distance: nearer records pull in proportion to their distance


@dataclass(frozen=True, eq=False)
class GeometricMedian(OuterBallMean):
    """The geometric median of n records in a public ball, as generous as one likes."""

    name: ClassVar[str] = "geometric median"


@dataclass(frozen=True, eq=False, init=False)
class MedianMechanism(Mechanism):
    """All steps as one release.

    Parameters
    ----------
    statistic : GeometricMedian
        What is released.
    scale : float
        1/μ: the noise for each unit of sensitivity over the whole release.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale` for replace-one adjacency, for ANY records.
    """

    scale: float

    name: ClassVar[str] = "noisy-median"
    option: ClassVar[str | None] = "median"
    reads: ClassVar[Literal["value", "records"]] = "records"
    staged: ClassVar[bool] = True
    streams: ClassVar[bool] = True

    def __init__(self, *, statistic: Statistic, scale: float) -> None:
        if not self.serves(statistic):
            raise ParameterError(f"MedianMechanism releases geometric medians, not the {statistic.name}")
        assign(self, statistic=statistic, scale=_validate.positive("scale", scale))

    @classmethod
    def serves(cls, statistic: Statistic) -> bool:
        """Medians."""
        return isinstance(statistic, GeometricMedian)

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The least noise that meets the guarantee."""
        return cls(statistic=statistic, scale=least_scale(guarantee))

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From the scale."""
        return cls(statistic=statistic, scale=parameters["scale"])

    @property
    def _median(self) -> GeometricMedian:
        assert isinstance(self.statistic, GeometricMedian)  # `serves` no other
        return self.statistic

    @property
    def sensitivity(self) -> float:
        """Of a mean of unit vectors."""
        return self.statistic.sensitivity

    @cached_property
    def profile(self) -> PrivacyProfile:
        """That of one Gaussian release of sensitivity 1."""
        return gaussian_profile(0.0, 1, self.scale, 1.0)

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP."""
        return GDP(self.profile.mu)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public number as JSON value."""
        return {"scale": self.scale}

    def accepted(self, data: Any) -> Records:
        """Records wherever they lie, those in memory moved into the ball."""
        return collected(self._median, data)

    def draw(self, data: Records, source: Source) -> Draw:
        """The steps, one after the other."""
        draws, noisy = Stages.exact(source)
        value, stages = self._walk(Measured(self._median, data), noisy)
        return Draw(value, [each.integers for each in draws], sum(each.tau for each in draws), stages.told)

    def finish(self, value: np.ndarray) -> np.ndarray:
        """As it is: the walk has moved it into the ball."""
        return value

    @property
    def afterwards(self) -> list[str]:
        """Projection."""
        return ["projection onto the ball"]

    def value_of(self, certificate: Certificate) -> np.ndarray:
        """What the released integers lead to."""
        return self._walk(Unmeasured(self._median), replay(certificate.release["integers"]))[0]

    def reading(self, integers: Any) -> Reading:
        """The last counts of records beyond a distance, each with its own noise, fresh given those before."""
        counts = self._walk(Unmeasured(self._median), replay(integers))[1].counts
        w, _, _, noise = counts[-1]
        radii, drawn = np.array([(radius, count) for c, radius, count, _ in counts if c is w]).T
        return Reading("counts", RiemannianGaussian(Euclidean(1), noise), drawn, w, *self._median.outer[1:], radii)

    def checks(self, certificate: Certificate) -> list[Check]:
        """Every step follows from the integers before it, and the shares add up to at most 1."""
        _, stages = self._walk(Unmeasured(self._median), replay(certificate.release["integers"]))
        return same_stages(stages.told, certificate.release["stages"])

    def _walk(self, measured: Unmeasured, noisy: Callable[..., np.ndarray]) -> tuple[np.ndarray, Stages]:
        stages, median = Stages(self.scale, noisy), self._median
        w, size = np.asarray(median.center), 0.0
        for _ in range(_SEARCHES):
            size = self._size(measured, stages, w)
            w = self._step(measured, stages, w, size, _SEARCH)
        size = self._size(measured, stages, w)
        weights = [_GROWTH**k for k in range(_STEPS)]
        shares = [stages.left * weight / sum(weights) for weight in weights]
        for share in shares:
            w = self._step(measured, stages, w, size, share)
        return w, stages

    def _size(self, measured: Unmeasured, stages: Stages, w: np.ndarray) -> float:
        """A median distance from w."""
        return private_radius(self._median, measured, stages, w, self._median.n / 2, _RADIUS)

    def _step(self, measured: Unmeasured, stages: Stages, w: np.ndarray, size: float, share: float) -> np.ndarray:
        M, grid = self.manifold, FixedPoint(2.0)
        mean = measured.mean(partial(_directions, w, _SMOOTH * size, grid), grid, M.dim)
        noisy, _ = stages.ask("direction", share, mean_moved(1.0, grid, M.dim, self._median.n), mean)
        length = float(np.linalg.norm(noisy))
        move = size * noisy * min(1.0, 1 / length if length > 0 else 1.0)
        with np.errstate(all="ignore"):  # of released numbers
            point = np.asarray(M.unchart(w, move))
        return np.asarray(project_to_ball(M, *self._median.outer, point[None])[0])


def _directions(w: np.ndarray, smooth: float, grid: FixedPoint, manifold: Manifold, points: np.ndarray) -> np.ndarray:
    """Exact sums of log_w x over its length, or over a public length where it is shorter."""
    z = logs_at(manifold, w, points)
    length = np.linalg.norm(z, axis=-1, keepdims=True)
    unit = z / np.maximum(length, smooth)
    return np.asarray(grid.sums(np.where(np.isfinite(unit).all(axis=-1, keepdims=True), unit, 0.0)).ravel())
