"""The Fréchet mean of records in a public ball: the point with the least mean square distance."""

from dataclasses import dataclass
from functools import cached_property
from math import sin
from typing import ClassVar

import numpy as np

from curvedp.core.capabilities import BoundsSamplingError
from curvedp.core.chart import CHART_ERROR, chart_stretch
from curvedp.core.codes import ProtectedUnit
from curvedp.core.statistic import Ball, ClippedToBall, is_drawn_in_coordinates
from curvedp.geometry.capabilities import move_from_origin, move_to_origin
from curvedp.records.base import Records
from curvedp.statistics.sampling import ball_convexity, mean_vector_length
from curvedp.statistics.sensitivity import (
    frechet_mean_sensitivity,
    mean_coordinates_sensitivity,
)


@dataclass(frozen=True, eq=False)
class FrechetMean(ClippedToBall, BoundsSamplingError):
    """The Fréchet mean of n records in a public ball.

    The ball is convex and the mean is unique in it, or the sensitivity raises.
    """

    name: ClassVar[str] = "Fréchet mean"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
        ProtectedUnit.RECORD_IN_CLASS,
        ProtectedUnit.PERSON_IN_CLASS,
        ProtectedUnit.RECORD_IN_DOMAIN,
        ProtectedUnit.PERSON_IN_DOMAIN,
    )

    @cached_property
    def sensitivity(self) -> float:
        """The sensitivity of the computed mean: theorem and solver error.

        With Δ of Theorem S1 and the solver's error η, computed means of neighboring
        data sets are at most Δ + 2η apart. Noise is added to a point of the ball, as
        floats hold it (`stored_radius`): no two of them are farther apart than twice
        that, whatever η is.
        """
        exact = frechet_mean_sensitivity(self.manifold, self.clipping_radius, self.n)
        return min(exact + 2 * self.solver_error, 2 * self.stored_radius)

    @cached_property
    def chart_sensitivity(self) -> float:
        """The sensitivity of the mean's coordinates in the chart at the center.

        The theorem bounds it for exact means; the chart stretches the solver's error by
        its Lipschitz constant. Coordinates are shortened to the radius before noise is
        added: no two of them are farther apart than the diameter.
        """
        stretch = chart_stretch(self.manifold, self.radius)
        exact = mean_coordinates_sensitivity(
            self.manifold, self.clipping_radius, self.n
        )
        diameter = 2 * self.radius * (1 + CHART_ERROR)
        return min(exact + 2 * self.solver_error * stretch, diameter)

    @cached_property
    def stored_radius(self) -> float:
        """A bound on the distance from the center to the point that noise is added to.

        The rounding of the point's coordinates adds to the radius, unless the noise is
        drawn in flat coordinates: these are shortened to the radius last.
        """
        if is_drawn_in_coordinates(self.manifold, self.ball):
            return self.radius * (1 + CHART_ERROR)
        # 8 units in the last place for each coordinate, times what the geometry makes
        # of such an error at this distance from the origin.
        float_set = self.manifold.float_set
        safe_radius = float_set.safe_radius_within(self.radius)
        amplification = float_set.roundoff_amplification(safe_radius)
        rounding = 2.0**-50 * self.manifold.dim * amplification
        return self.radius * (1 + CHART_ERROR) + rounding

    @property
    def value_ball(self) -> Ball:
        """The ball of the records, which is convex."""
        return self.ball

    def sampling_error(self, failure_probability: float) -> float:
        """Bound the distance from the mean of the records to the population's mean.

        Theorem (docs/theory/inference.md, "Regions of the population"). Let b be the
        population's mean, G the mean logarithm of the records at b, and λ the least
        eigenvalue of the Hessian. Then d(mean, b) ≤ |G|/λ and E|G|² ≤ r²/n. A record
        moves |G| by at most 2rS/n, where S = s/sin s bounds the stretch of the
        logarithm.

        Parameters
        ----------
        failure_probability : float
            The probability with which the bound may be wrong.

        Returns
        -------
        float
            The bound on the distance, in units of the manifold's distance.

        Raises
        ------
        ParameterError
            If the ball is so wide that squared distances are not convex in it.
        """
        radius = self.clipping_radius
        convexity = ball_convexity(self.manifold, radius)
        stretch = 1.0
        if convexity.angle > 0:
            stretch = convexity.angle / sin(convexity.angle)
        length = mean_vector_length(self.n, failure_probability, stretch)
        return radius * length / convexity.lowest_hessian

    def to_data_frame(self, points: np.ndarray) -> np.ndarray:
        """Move points by the isometry that maps the canonical center to the ball's center.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Points in the canonical frame, such as drawn means.
        """
        return np.asarray(move_from_origin(self.manifold, self.center, points))

    def to_canonical_frame(self, points: np.ndarray) -> np.ndarray:
        """Move points by the isometry that maps the ball's center to the canonical center.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Points in the frame of the records.
        """
        return np.asarray(move_to_origin(self.manifold, self.center, points))

    def compute(self, records: Records) -> np.ndarray:
        """Return the Fréchet mean of the clipped records (canonical frame). NOT private.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        records : Records
            n records, in memory, on a device or in chunks.
        """
        mean, _ = self.mean_and_variance(records)
        return mean
