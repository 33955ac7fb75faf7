"""One private step to the mean of a public ball, then the moments of the records there.
The *moments* are the mean and the mean outer product of the records' logarithms at the
new center. The step is a search for a ball with a single stage: only the center of the
user's ball is improved.

The user's ball already holds the records, and only its center is far from their mean.
Everything after the step is that of `PrivateBallMechanism`.
"""

import json
from math import ceil, log2, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from curvedp.core.chart import shrink_vector
from curvedp.core.mechanism import Mechanism, MechanismInfo
from curvedp.core.statistic import Ball, Statistic
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
from curvedp.mechanisms.isotropic.laplace import LaplaceMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.budget import StageBudget, StagedResult
from curvedp.mechanisms.staged.queries import Queries
from curvedp.mechanisms.staged.scale_search import point_or_fallback
from curvedp.mechanisms.vector import (
    AddNoise,
    NoiseKind,
    needs_bounded_loss,
    std_per_scale,
)
from curvedp.privacy import Guarantee
from curvedp.statistics.populations import population_of_spread
from curvedp.statistics.tangent_moments import (
    SearchedTangentMoments,
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


# Records that stand for real ones in a public ball have this spread, in radii.
_SPREAD_PER_RADIUS = 0.5
# Simulated releases behind a predicted angle at the public center, with a public seed.
_SIMULATED_RELEASES = 16
_SEED = 20230615

# Two steps are compared up to this dimension; beyond, their simulation takes minutes.
_MAX_COMPARED_DIM = 50

# The name of the better mechanism for public numbers that were compared before, and how
# many comparisons are remembered: each takes tenths of a second.
_best_names: dict[tuple[str, bytes, float, int, str], str] = {}
_MAX_REMEMBERED = 256

# The names by which estimators and plans call the two ways to release tangent moments.
ONE_SHOT = "one-shot"
TWO_STEP = "two-step"


class StepToMeanMechanism(PrivateBallMechanism):
    """A mechanism that steps from a public center to the mean, then releases moments.

    Theorem T2 (docs/theory/tangent-pca.md). Records in the ball of radius r about c are
    in the ball of radius r + d(c, m) about every point m. So no record is clipped more
    than the public ball clips it, wherever noise leads the step.
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "step-to-mean", option=TWO_STEP, reads="records", is_staged=True
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is tangent moments at a private mean in a ball."""
        return isinstance(statistic, TangentMomentsNearMean)

    @property
    def step_share(self) -> float:
        """The fraction of the budget for the step: a function of public numbers.

        In a ball of radius r and dimension d, with n records and a μ-GDP budget, the
        step's noise has the length 2r√d/(nμ√share), or 2r√(d(d + 1))/(nε·share) for
        pure ε. The share makes it r/8, within the bounds of this module.
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

        The step is the noisy mean logarithm at the center, shrunk by the rule of James
        and Stein for its noise, and at most as long as the radius.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added. In
            a replay there are no records, and all answers are zeros.
        add_noise : function of (values, scales)
            Draws noise. In a replay it returns the recorded draws.

        Returns
        -------
        StagedResult
            Its value is a `Ball` about the end of the step that holds the public ball.
        """
        budget = StageBudget(self.scale, add_noise, self.noise_kind)
        center, radius = self.statistic.outer_ball
        mean_log = queries.mean_clipped_log(center, radius)
        # A public power of two, so that the grid is fine in any unit of the records.
        unit = 2.0 ** ceil(log2(radius))
        noisy_mean, noise_std = budget.release(
            "location",
            self.step_share,
            mean_log.sensitivity / unit,
            mean_log.values / unit,
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


class MomentRelease(NamedTuple):
    """A mechanism for the tangent moments of records in a public ball, with its error.

    Attributes
    ----------
    mechanism : Mechanism
        It is calibrated.
    angle : float
        The predicted angle of the first direction to the true one, in radians.
    """

    mechanism: Mechanism
    angle: float


def one_shot_mechanism(
    statistic: TangentMoments, guarantee: Guarantee
) -> IsotropicMechanism:
    """Return the mechanism that releases the tangent moments at the public center.

    Parameters
    ----------
    statistic : TangentMoments
        The moments at the public center.
    guarantee : Guarantee
        What the release must satisfy.

    Returns
    -------
    GaussianMechanism or LaplaceMechanism
        Laplace noise if the guarantee needs a bounded privacy loss, as pure ε does.
    """
    kind: type[IsotropicMechanism] = GaussianMechanism
    if needs_bounded_loss(guarantee):
        kind = LaplaceMechanism
    return kind.calibrate(statistic, guarantee)


def two_step_mechanism(
    statistic: TangentMoments, guarantee: Guarantee
) -> StepToMeanMechanism:
    """Return the mechanism that steps to the mean of the records first.

    Parameters
    ----------
    statistic : TangentMoments
        The moments at the public center, whose ball and number of records are used.
    guarantee : Guarantee
        What the step and the release of the moments must satisfy together.

    Returns
    -------
    StepToMeanMechanism
        The calibrated mechanism.
    """
    near_mean = TangentMomentsNearMean(
        statistic.manifold, statistic.center, statistic.radius, statistic.n
    )
    return StepToMeanMechanism.calibrate(near_mean, guarantee)


def releases_in_public_ball(
    statistic: TangentMoments, guarantee: Guarantee
) -> dict[str, MomentRelease]:
    """Return the mechanisms for tangent moments in a public ball, the best first.

    At the center all of the budget goes into the moments. In curved space logarithms
    at a distant center distort what they measure, and a step to the mean may be worth
    its cost. Both are simulated on public records whose spread is half the radius, as
    far from the center.

    Parameters
    ----------
    statistic : TangentMoments
        The moments at the public center.
    guarantee : Guarantee
        What the release must satisfy.

    Returns
    -------
    dict of MomentRelease
        The mechanisms by name, in the order of their predicted angles. There is only one
        on flat space, where a step gains nothing, and in more than 50 dimensions.
    """
    one_shot = one_shot_mechanism(statistic, guarantee)
    candidates = {
        ONE_SHOT: MomentRelease(one_shot, _simulated_angle(statistic, one_shot))
    }
    if _may_gain_from_step(statistic.manifold):
        two_step = two_step_mechanism(statistic, guarantee)
        spread = _SPREAD_PER_RADIUS * statistic.radius
        candidates[TWO_STEP] = MomentRelease(
            two_step, two_step.simulate_releases(spread).error
        )
    return dict(sorted(candidates.items(), key=lambda item: item[1].angle))


def best_mechanism(statistic: TangentMoments, guarantee: Guarantee) -> Mechanism:
    """Return the better of the mechanisms that release tangent moments.

    The comparison simulates both mechanisms, so its result is remembered for public
    numbers that were compared before. Where there is only one, nothing is simulated.

    Parameters
    ----------
    statistic : TangentMoments
        The moments at the public center.
    guarantee : Guarantee
        What the release must satisfy.

    Returns
    -------
    Mechanism
        The calibrated mechanism: one that releases the moments at the public center,
        or one that steps to the mean first.
    """
    if not _may_gain_from_step(statistic.manifold):
        return one_shot_mechanism(statistic, guarantee)
    key = (
        statistic.manifold.name,
        np.asarray(statistic.ball.center).tobytes(),
        statistic.radius,
        statistic.n,
        json.dumps(guarantee.to_dict(), default=repr),
    )
    if key not in _best_names:
        if len(_best_names) >= _MAX_REMEMBERED:
            _best_names.clear()
        _best_names[key] = next(iter(releases_in_public_ball(statistic, guarantee)))
    if _best_names[key] == ONE_SHOT:
        return one_shot_mechanism(statistic, guarantee)
    return two_step_mechanism(statistic, guarantee)


def _may_gain_from_step(manifold: Manifold) -> bool:
    """Return whether a step to the mean may gain anything, and can be simulated.

    Parameters
    ----------
    manifold : Manifold
        The space of the records. A step gains nothing in flat space, and takes
        minutes to simulate in more than 50 dimensions.
    """
    is_curved = manifold.constant_curvature != 0 and manifold.dim > 1
    return is_curved and manifold.dim <= _MAX_COMPARED_DIM


def _simulated_angle(statistic: TangentMoments, mechanism: IsotropicMechanism) -> float:
    """Return the predicted angle of principal directions released at the public center.

    Public records stand for the real ones: their spread is half the radius.

    Parameters
    ----------
    statistic : TangentMoments
        The moments at the public center.
    mechanism : IsotropicMechanism
        It adds noise to the moments.

    Returns
    -------
    float
        The root mean square angle of the first direction to the true one over
        simulated releases, in radians.
    """
    near_mean = SearchedTangentMoments(
        statistic.manifold, statistic.center, statistic.radius, statistic.n
    )
    population = population_of_spread(
        statistic.manifold,
        statistic.center,
        _SPREAD_PER_RADIUS * statistic.radius,
        statistic.n,
    )
    rng = np.random.default_rng(_SEED)
    angles = [
        near_mean.simulated_error(mechanism, rng, *population)
        for _ in range(_SIMULATED_RELEASES)
    ]
    return float(sqrt(np.mean(np.square(angles))))
