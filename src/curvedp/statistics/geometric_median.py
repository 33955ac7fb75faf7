"""The geometric median: the point with the least mean distance to the records."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

from curvedp.core.capabilities import BoundsSamplingError
from curvedp.errors import ParameterError
from curvedp.geometry.comparison import curvature_roots
from curvedp.statistics.sampling import mean_vector_length
from curvedp.statistics.searched_ball import SearchedBallStatistic


@dataclass(frozen=True, eq=False)
class GeometricMedian(SearchedBallStatistic, BoundsSamplingError):
    """The geometric median of n records in a public ball, which may be generous."""

    name: ClassVar[str] = "geometric median"

    def sampling_error(self, failure_probability: float) -> float:
        """Bound the mean unit direction of the records at the median of the population.

        A record's direction is the unit vector from the population's median to it; the
        mean of the directions is the gradient of the mean distance. Directions have
        length at most 1 and expectation 0 (docs/theory/inference.md, "Regions of the
        population"). Distances must be convex in the outer ball.

        Parameters
        ----------
        failure_probability : float
            The probability with which the bound may be wrong.

        Returns
        -------
        float
            The bound on the length of the mean direction, without a unit.

        Raises
        ------
        ParameterError
            If the outer ball is so wide that distances are not convex in it.
        """
        diameter = 2 * self.outer_radius
        is_convex = (
            diameter * curvature_roots(self.manifold).positive < pi / 2
            and diameter < self.manifold.injectivity_radius
        )
        if not is_convex:
            raise ParameterError(
                f"is too wide for a region of the population on {self.manifold!r}: "
                "distances are not convex in it",
                parameter="outer_radius",
                value=self.outer_radius,
            )
        return mean_vector_length(self.n, failure_probability)
