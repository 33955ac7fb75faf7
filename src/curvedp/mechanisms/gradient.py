"""One noisy clipped gradient step from the public center: a private mean on every manifold.

v = mean log_c xᵢ + noise, Gaussian or, for pure ε, Laplace, released as exp_c v. Each vector depends on its own record alone
and has length at most r, so the COMPUTED mean moves by at most 2r/n: no curvature, solver error or convexity limit enters.
Its bias is of second order in the distance from the center to the mean.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, isfinite, log2, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.ball import ball_coordinates
from curvedp.mechanisms.base import Draw, Reading, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import grid_of, james_stein
from curvedp.mechanisms.measured import clipped_sums, logs_at, mean_moved
from curvedp.mechanisms.noise import (
    ShrunkMeanMechanism,
    float_noise,
    least_noise,
    spread_of,
)
from curvedp.mechanisms.statistic import Statistic
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.privacy import Guarantee
from curvedp.records.base import Records, open_records


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientMechanism(ShrunkMeanMechanism):
    """A private Fréchet mean by one noisy step from the center of a ball that may be larger than any theorem about means
    allows. Its scale is the standard deviation of a coordinate, or b of the Laplace density ∝ exp(−|y|/b).

    Guarantees
    - exactly μ-GDP with μ = (2r/n and rounding)/σ for replace-one adjacency, or ε-DP with that over b, on any manifold, for
      ANY records.
    """

    name: ClassVar[str] = "gradient-step"
    option: ClassVar[str | None] = "gradient"
    streams: ClassVar[bool] = True

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        law, scale = least_noise(guarantee, _moved(statistic))
        return cls(statistic=statistic, scale=scale, law=law)

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """In a ball that is not convex the mean need not be unique, and a step towards it says little."""
        space, ball = statistic.space, statistic.values
        if (
            ball is not None
            and isfinite(space.curvature_bounds[1])
            and not ball.radius < space.convexity_radius
        ):
            return f"the mean need not be unique in a ball of radius {space.convexity_radius:.6g} or more"
        return None

    # 2r/n, with the rounding of a record's vector and of the mean
    sensitivity = cached_property(lambda self: _moved(self.statistic))
    # of the noise in each coordinate
    deviation = property(
        lambda self: self.scale * spread_of(self.law, self.manifold.dim)
    )
    length = property(
        lambda self: self.deviation * sqrt(self.manifold.dim)
    )  # of the noise, in the mean square
    # a public power of two, so that the grid is fine whatever the records' unit
    unit = property(lambda self: 2.0 ** ceil(log2(self.radius)))

    def accepted(self, data: Any) -> Records:
        """The logarithms at home of records in memory; other records are read when they are wanted."""
        if getattr(data, "where", "memory") == "memory":
            given = data.array() if hasattr(data, "array") else data
            inside = self.statistic.accepted(given)
            return open_records(
                logs_at(self.manifold, self.center, inside), (self.manifold.dim,)
            )
        if data.n != self.statistic.n:
            raise ParameterError(f"{data.n} records, not {self.statistic.n}")
        return data.carried(self.manifold, self.statistic.center)  # type: ignore[no-any-return]  # records

    def draw(self, data: Records, source: Source) -> Draw:
        grid, (draws, noisy) = FixedPoint(2 * self.reach), self.exact_noise(source)
        streamed = partial(
            _sums, self.manifold, self.center, (self.radius, self.reach), grid
        )
        total = data.sums(
            partial(clipped_sums, self.reach, grid)
            if data.where == "memory"
            else streamed
        )
        mean = grid.mean(total.reshape(2, -1), data.n) / self.unit
        return Draw.of(
            self._at(
                self.unit * noisy(mean[None], np.array([self.scale / self.unit]))[0]
            ),
            draws,
        )

    def simulate(
        self, rng: np.random.Generator, records: np.ndarray, size: int
    ) -> np.ndarray:
        """Float releases for records that stand for n of their kind: for predicted error, NOT for release."""
        mean = ball_coordinates(
            self.manifold, self.center, self.radius, records, timed=False
        ).mean(axis=0)
        return self._at(
            mean + self.scale * float_noise(rng, self.law, (size, mean.size))
        )

    def finished(self, points: np.ndarray) -> np.ndarray:
        return super().finished(
            james_stein(self.manifold, self.center, points, self.deviation)
        )

    def value_of(self, certificate: Certificate) -> np.ndarray:
        return np.asarray(
            self.finish(self._at(self._drawn_before(certificate.release["integers"])))
        )

    def reading(self, integers: Any) -> Reading:
        """The drawn vector, about the mean logarithm at the center."""
        v, law = (
            self._drawn_before(integers),
            self.law_of(self.manifold.dim, self.scale),
        )
        cell = self.unit * 2.0 ** -grid_of(self.scale / self.unit)
        return Reading("gradient", law, v, self.center, self.radius, cell=cell)

    def _drawn_before(self, integers: Any) -> np.ndarray:
        return np.asarray(
            self.unit
            * replay(integers)(np.empty(self.manifold.dim), [self.scale / self.unit])
        )

    def _at(self, v: np.ndarray) -> np.ndarray:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # noise beyond what doubles hold becomes inf, not a warning
            return np.asarray(self.manifold.from_normal_coordinates(self.center, v))


def _moved(mean: Any) -> float:
    return mean_moved(mean.reach, FixedPoint(2 * mean.reach), mean.manifold.dim, mean.n)


def _sums(
    manifold: Any,
    center: np.ndarray,
    radii: tuple[float, float],
    grid: FixedPoint,
    block: np.ndarray,
) -> np.ndarray:
    inside = project_to_ball(
        manifold, center, radii[0], np.asarray(block, dtype=np.float64)
    )
    return clipped_sums(radii[1], grid, logs_at(manifold, center, np.asarray(inside)))
