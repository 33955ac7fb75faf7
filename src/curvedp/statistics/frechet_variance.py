"""The Fréchet variance of records in a public ball: their least mean square distance."""

from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import ClassVar

import numpy as np

from curvedp.core.capabilities import BoundsSamplingError
from curvedp.core.chart import CHART_ERROR
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.statistic import Ball, ClippedToBall
from curvedp.geometry import Euclidean
from curvedp.records.base import Records
from curvedp.statistics.sampling import ball_convexity
from curvedp.statistics.sensitivity import dispersion_sensitivity

_REAL_LINE = Euclidean(1)


@dataclass(frozen=True, eq=False)
class FrechetVariance(ClippedToBall, BoundsSamplingError):
    """The Fréchet variance min over x of mean d²(x, xᵢ) of records in a public ball.

    For n records in a ball of radius r it lies in [0, r²].
    """

    name: ClassVar[str] = "Fréchet variance"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
        ProtectedUnit.RECORD_IN_DOMAIN,
        ProtectedUnit.PERSON_IN_DOMAIN,
    )

    @property
    def value_space(self) -> Euclidean:
        """The real line, on which a variance lives."""
        return _REAL_LINE

    @cached_property
    def sensitivity(self) -> float:
        """The sensitivity of the computed variance: theorem and numerical errors.

        Numerical errors occur in both of two neighboring data sets. A mean that is off
        by η raises the mean square by at most 2·2r·η + η². Squares of computed
        distances are off by a relative error of twice CHART_ERROR.
        """
        radius = self.clipping_radius
        mean_error = self.solver_error
        exact = dispersion_sensitivity(self.manifold, radius, self.n)
        error_of_mean = 4 * radius * mean_error + mean_error * mean_error
        error_of_squares = 2 * CHART_ERROR * 4 * radius * radius
        # The computed variance is cut to [0, r²], so it moves by no more than that.
        largest = self.radius * self.radius
        return min(exact + 2 * (error_of_mean + error_of_squares), largest)

    @property
    def value_ball(self) -> Ball:
        """The interval [0, r²] of possible variances, as a ball about its middle."""
        half_width = self.radius * self.radius / 2
        return Ball(np.array([half_width]), half_width)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """A drawn variance is clipped to [0, r²]."""
        return (PostProcessing.CLIP_TO_VARIANCE_RANGE,)

    def sampling_error(self, failure_probability: float) -> float:
        """Bound the distance of the records' variance from the population's variance.

        By McDiarmid's inequality: replacing one record moves the variance by at most
        its sensitivity c, so that it is within c·√(n·log(2/a)/2) of its expectation
        with probability 1 − a. The expectation is at most r²/(nλ) below the
        population's variance, λ the least eigenvalue of the Hessian of ½d² in the ball
        (docs/theory/inference.md, "Regions of the population").

        Parameters
        ----------
        failure_probability : float
            The probability with which the bound may be wrong.

        Returns
        -------
        float
            The bound, in squared units of the manifold's distance.
        """
        radius = self.clipping_radius
        convexity = ball_convexity(self.manifold, radius)
        one_record = dispersion_sensitivity(self.manifold, radius, self.n)
        deviation = one_record * sqrt(self.n * log(2 / failure_probability) / 2)
        bias = radius * radius / (self.n * convexity.lowest_hessian)
        return deviation + bias

    def compute(self, records: Records) -> np.ndarray:
        """Return the variance as an array of one number, clipped to [0, r²]. NOT private.

        Parameters
        ----------
        records : Records
            n records, in memory, on a device or in chunks.
        """
        _, variance = self.mean_and_variance(records)
        return np.array([min(max(variance, 0.0), self.radius * self.radius)])
