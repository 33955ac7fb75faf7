"""One private step to the mean of a public ball, then the moments of the records there.

It is a search for a ball with a single stage: the user's ball already holds the
records, and only its center is far from their mean. Everything after the step is that
of `PrivateBallMechanism`.
"""

from math import ceil, log2, sqrt
from typing import ClassVar

import numpy as np

from curvedp.core.chart import shrink_vector
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.statistic import Ball, Statistic
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.budget import StageBudget, StagedResult
from curvedp.mechanisms.staged.queries import Queries, point_or_fallback
from curvedp.mechanisms.vector import AddNoise, NoiseKind, std_per_scale
from curvedp.statistics.tangent_moments import (
    TangentMoments,
    TangentMomentsNearMean,
)

# The step takes so much of the budget that its noise is this fraction of the radius,
# within these bounds.
_NOISE_PER_RADIUS = 1 / 8
_SMALLEST_SHARE: dict[NoiseKind, float] = {"gaussian": 0.02, "laplace": 0.05}
_LARGEST_SHARE = 0.3

# Relative margin for the rounding of the distance from the old center to the new one.
_ROUNDING_OF_DISTANCE = 1e-9


# How much the noise of the moments grows by the step, about: the ball about the mean is
# wider by half, and a little of the budget is spent.
_NOISE_GROWTH = 2.4
# The first of the variances is taken as this fraction of the squared radius.
_TYPICAL_VARIANCE = 1 / 8


def step_is_worthwhile(statistic: TangentMoments, noise_std: float) -> bool:
    """Return whether a step to the mean is predicted to gain more than it costs.

    If the mean is r/2 from the center, logarithms at the center distort a variance by
    the fraction κr²/12, to first order in the larger modulus κ of the curvature bounds
    (Jacobi fields). Noise of deviation s in each entry moves the first variance, taken
    as r²/8, by about r²·s·√(2d); the step multiplies that by 2.4. All of these are
    public numbers.

    Parameters
    ----------
    statistic : TangentMoments
        The moments at the public center.
    noise_std : float
        s, the standard deviation of the noise in each entry.
    """
    manifold = statistic.manifold
    curvature = max(abs(bound) for bound in manifold.curvature_bounds)
    if manifold.dim == 1:
        return False
    distortion = min(1.0, curvature * statistic.radius**2 / 12)
    noise = noise_std * sqrt(2 * manifold.dim) / _TYPICAL_VARIANCE
    return bool(distortion > (_NOISE_GROWTH - 1) * noise)


class StepToMeanMechanism(PrivateBallMechanism):
    """A mechanism that steps from a public center to the mean, then releases moments.

    Theorem T2 (docs/theory/tangent-pca.md). Records in the ball of radius r about c are
    in the ball of radius r + d(c, m) about every point m. So no record is clipped more
    than the public ball clips it, wherever noise leads the step.
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "step-to-mean", option="two-step", reads="records", is_staged=True
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, TangentMomentsNearMean)

    @property
    def step_share(self) -> float:
        """The fraction of the budget for the step: a function of public numbers.

        The step's noise has the length 2r√d/(nμ√share), or 2r√(d(d + 1))/(nε·share)
        for pure ε.
        """
        dim = self.manifold.dim
        noise_std = std_per_scale(self.noise_kind, dim) * self.scale
        noise_length = 2 * sqrt(dim) * noise_std / self.statistic.n
        share = noise_length / _NOISE_PER_RADIUS
        if self.noise_kind == "gaussian":
            share = share**2
        return min(max(share, _SMALLEST_SHARE[self.noise_kind]), _LARGEST_SHARE)

    def run(self, queries: Queries, add_noise: AddNoise) -> StagedResult:
        """Take one noisy step from the public center toward the mean of the records.

        Parameters
        ----------
        queries : Queries
            Answers questions about the records. In a replay it knows no records.
        add_noise : function of (values, scales)
            Draws noise. In a replay it returns the recorded draws.

        Returns
        -------
        StagedResult
            Its value is a `Ball` about the end of the step that holds the public ball.
        """
        budget = StageBudget(self.scale, add_noise, self.noise_kind)
        center, radius = self.statistic.outer_ball
        answer = queries.mean_clipped_log(center, radius)
        # A public power of two, so that the grid is fine in any unit of the records.
        unit = 2.0 ** ceil(log2(radius))
        noisy_mean, noise_std = budget.release(
            "location", self.step_share, answer.sensitivity / unit, answer.values / unit
        )
        step = shrink_vector(unit * noisy_mean, unit * noise_std)
        length = float(np.linalg.norm(step))
        step = step * min(1.0, radius / max(length, radius))

        point = point_or_fallback(
            self.manifold,
            lambda: self.manifold.from_normal_coordinates(center, step),
            fallback=center,
        )
        distance = float(self.manifold.dist(center, point))
        enclosing_radius = (radius + distance) * (1 + _ROUNDING_OF_DISTANCE)
        return StagedResult(Ball(point, enclosing_radius), budget)
