"""A public ball as generous as one likes, for statistics whose stages find a smaller one."""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar

from curvedp import _validate
from curvedp.geometry.base import Manifold
from curvedp.mechanisms.statistic import Ball, FrechetMean, Several, Statistic, assign, check_fields, public_ball


def outer_radius_of(manifold: Manifold, given: Any = None) -> float:
    """The given radius, or a generous one: all of a compact space, any unit of measurement on a cone of matrices, distance
    25 in hyperbolic space, 10⁶ in flat space."""
    if given is not None:
        return _validate.length("outer_radius", given)
    return sqrt(sum(_default(factor) ** 2 for factor in manifold.factors))


def _default(manifold: Manifold) -> float:
    if 0 < manifold.injectivity_radius < inf:
        return 2 * manifold.injectivity_radius
    if manifold.is_cone:
        return 100 * sqrt(manifold.point_shape[0])
    return 1e6 if manifold.constant_curvature == 0 else 25.0


@dataclass(frozen=True, eq=False)
class OuterBall(Statistic):
    """A statistic of n records in a public outer ball, which only has to be large enough: by default about the origin, and as
    wide as `outer_radius_of` says."""

    manifold: Manifold
    center: Any
    outer_radius: Any
    n: Several

    units: ClassVar[tuple[str, ...]] = FrechetMean.units
    valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        ball = public_ball(self.manifold, self.center, outer_radius_of(self.manifold, self.outer_radius))
        assign(self, center=ball.center, outer_radius=ball.radius)
        check_fields(self)

    @property
    def outer(self) -> Ball:
        """The public outer ball."""
        return Ball(self.center, self.outer_radius)

    @property
    def typical(self) -> Ball:
        """Records within distance 1, or a quarter of what is injective (at I where that has no bound, as of Bures and
        Wasserstein's metric): the stages are made for any spread."""
        return Ball(self.center, min(1.0, (self.manifold.injectivity_radius or 1.0) / 4, self.outer_radius / 2))

    @property
    def sensitivity(self) -> float:
        """Of a mean of vectors of unit length: every stage scales it by its own radius."""
        return 2 / self.n
