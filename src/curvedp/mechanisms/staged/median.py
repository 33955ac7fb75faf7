"""The private geometric median: the point with the least mean distance to the records.
A step moves a point along the noisy mean of the unit vectors that point to the records,
by their noisy median distance. One replaced record changes that mean by at most 2/n,
wherever the records are.

The median minimizes the mean distance of a point x to the records xᵢ. The negative
gradient is the mean of the unit vectors log_x xᵢ/‖log_x xᵢ‖, so a noisy step has
sensitivity 2/n wherever the records are: a far record moves the median no more than a
near one. The length of a step is the median distance of the records, which is released
too. This is Weiszfeld's iteration (Weiszfeld 1937; on manifolds Fletcher,
Venkatasubramanian & Joshi 2009), with the harmonic mean of distances replaced by their
private median.
"""

from functools import partial
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp.core.capabilities import (
    LeadsToRegion,
    NeedsManyRecords,
    NoisyDraw,
    PostProcessesItself,
)
from curvedp.core.chart import grid_of
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.statistic import Statistic
from curvedp.geometry import project_to_ball
from curvedp.mechanisms.staged.budget import (
    StageBudget,
    StagedMechanism,
    StagedResult,
)
from curvedp.mechanisms.staged.quantile_search import (
    MAX_MEDIAN_RATIO,
    BinarySearch,
    ShellHistogram,
)
from curvedp.mechanisms.staged.queries import Queries, mean_sensitivity
from curvedp.mechanisms.vector import NOISE_KINDS, AddNoise, NoiseKind, std_per_scale
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import Records
from curvedp.statistics.geometric_median import GeometricMedian

# The unit vector to a record is shortened in proportion to the record's distance if it
# is nearer than this fraction of the median distance. This smooths the objective.
_SMOOTHING = 0.1


class MedianSchedule(NamedTuple):
    """How the privacy budget of a median is spent. The numbers come from simulations.

    Attributes
    ----------
    distance_share : float
        The fraction of the budget that each median distance takes.
    step_share : float
        The fraction of the budget that each early step takes.
    n_searches : int
        The number of early pairs of a median distance and a step.
    n_final_steps : int
        The number of final steps, which share the rest of the budget.
    growth : float
        The budget of each final step over that of the previous one.
    """

    distance_share: float
    step_share: float
    n_searches: int
    n_final_steps: int
    growth: float


_SCHEDULES: dict[NoiseKind, MedianSchedule] = {
    "gaussian": MedianSchedule(0.04, 0.05, 3, 5, 1.5),
    "laplace": MedianSchedule(0.03, 0.04, 2, 3, 2.0),
}


class ShellRule(NamedTuple):
    """A histogram of distances for pure ε, and its share of the budget for few records.

    Attributes
    ----------
    shells : ShellHistogram
        The shells of the histogram.
    share_times_n : float
        The fraction of the budget is this number divided by nε.
    max_share : float
        The largest fraction of the budget.
    """

    shells: ShellHistogram
    share_times_n: float
    max_share: float


_FIRST_SHELLS = ShellRule(ShellHistogram(63, 1.6), 30.0, 0.25)
_LATER_SHELLS = ShellRule(ShellHistogram(16, 1.6), 20.0, 0.12)


class MedianMechanism(
    StagedMechanism, LeadsToRegion, NeedsManyRecords, PostProcessesItself
):
    """Release the geometric median of records by noisy steps from the public center.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for
      ANY records.
    """

    statistic: GeometricMedian

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "noisy-median", option="median", reads="records", is_staged=True
    )
    noise_kinds: ClassVar[tuple[NoiseKind, ...]] = NOISE_KINDS

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a geometric median, as this class needs."""
        return isinstance(statistic, GeometricMedian)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What is done to the last point: it is projected into the public ball."""
        return (PostProcessing.PROJECT_TO_BALL,)

    @property
    def has_enough_records(self) -> bool:
        """Whether the noise of the last step is shorter than the median distance.

        A step is the median distance times a noisy mean of n unit vectors, which has
        the sensitivity 2/n.
        """
        dim = self.manifold.dim
        # The last step has about a quarter of the budget. This divides its noise by
        # 1/4 for Laplace noise, and by 1/√4 for Gaussian noise.
        noise_divisor = 0.25 if self.noise_kind == "laplace" else 0.5
        noise_length = 2 * sqrt(dim) * std_per_scale(self.noise_kind, dim) * self.scale
        return bool(noise_length <= noise_divisor * self.statistic.n)

    def prepare_data(self, data: Any) -> Records:
        """Return the records in the form in which the stages read them.

        Parameters
        ----------
        data : array of shape (n, *point_shape), or Records
            The records.

        Returns
        -------
        Records
            The records in the canonical frame (an isometry has moved the center of the
            public ball to the origin). Those in memory are clipped into the ball.
        """
        return self.statistic.collect_records(data)

    def queries(self, data: Records | None = None) -> Queries:
        """Return an object that computes counts and means of records, without noise.

        Parameters
        ----------
        data : Records, optional
            The records as `prepare_data` returns them. None in a replay, where all
            answers are zeros.
        """
        return Queries(self.statistic, data)

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the recorded noisy counts of a certificate, with their noise distribution.

        A confidence region for the median distance follows from them. They are the
        counts about the last point from which distances were measured, so that their
        noise is independent of earlier stages. For Gaussian noise each count was
        released alone. For pure ε the k-th count is the sum of the noisy counts of k
        shells.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.

        Returns
        -------
        NoisyDraw
            The noisy counts, the distances, and the point from which they are measured.
        """
        all_counts = self.replay(integers).budget.counts
        last_counts = all_counts[-1]
        radii, counts = last_counts.radii, last_counts.counts
        if self.noise_kind == "gaussian":
            # A binary search has released one count for each distance that it tried.
            same_center = [
                counts for counts in all_counts if counts.center is last_counts.center
            ]
            radii = np.array([counts.radii for counts in same_center])
            counts = np.array([counts.counts for counts in same_center])
        return NoisyDraw(
            "counts",
            self.noise_law(1, last_counts.noise_scale),
            counts,
            grid_width=2.0 ** -grid_of(last_counts.noise_scale),
            base=last_counts.center,
            max_length=self.statistic.outer_radius,
            radii=radii,
        )

    def run(self, queries: Queries, add_noise: AddNoise) -> StagedResult:
        """Find the geometric median by noisy steps from the public center.

        First a median distance of the records from the current point is released, and
        then a step of at most this length, a few times in turn. The final steps share
        the last median distance and the rest of the budget.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added. In
            a replay all answers are zeros.
        add_noise : function of (values, scales)
            Returns the values plus noise. In a replay it returns the recorded draws.

        Returns
        -------
        StagedResult
            The estimated median, with the budget and its transcript.
        """
        budget = StageBudget(self.scale, add_noise, self.noise_kind)
        schedule = _SCHEDULES[self.noise_kind]
        step_share = max(schedule.step_share, self._share_of_few(_LATER_SHELLS))
        point = np.asarray(self.statistic.center)
        distance = 0.0

        for _ in range(schedule.n_searches):
            distance = self._median_distance(queries, budget, point, distance)
            point = self._step(queries, budget, point, distance, step_share)

        distance = self._median_distance(queries, budget, point, distance)
        weights = [schedule.growth**k for k in range(schedule.n_final_steps)]
        shares = [budget.share_left * weight / sum(weights) for weight in weights]
        for share in shares:
            point = self._step(queries, budget, point, distance, share)
        return StagedResult(point, budget)

    def _share_of_few(self, rule: ShellRule) -> float:
        """Return the least share of the budget for a histogram of distances.

        Noise for pure ε has a length in proportion to 1/(nε), so that a histogram of
        few records needs more of the budget.

        Parameters
        ----------
        rule : ShellRule
            The histogram, with the numbers from which its share follows.

        Returns
        -------
        float
            The fraction of the budget. It is 0 for Gaussian noise, which uses no
            histograms.
        """
        if self.noise_kind == "gaussian":
            return 0.0
        return min(rule.max_share, rule.share_times_n * self.scale / self.statistic.n)

    def _median_distance(
        self,
        queries: Queries,
        budget: StageBudget,
        point: np.ndarray,
        previous: float,
    ) -> float:
        """Return a private median of the distances of the records from a point.

        For pure ε it is the typical distance of a noisy histogram, at most four times
        the previous distance.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for one search.
        point : array of shape point_shape
            The current estimate of the median.
        previous : float
            The median distance from the previous estimate; 0 if there is none yet.

        Returns
        -------
        float
            The released distance, for Gaussian noise by a binary search.
        """
        n = self.statistic.n
        largest = self.statistic.outer_radius
        share = _SCHEDULES[self.noise_kind].distance_share
        count_beyond = partial(queries.count_beyond, point)
        if self.noise_kind == "gaussian":
            return BinarySearch().find(
                budget, count_beyond, largest, n / 2, share, point
            )
        # For pure ε: one noisy histogram, in a smaller ball after the first search.
        rule = _FIRST_SHELLS
        if previous > 0:
            rule = _LATER_SHELLS
            largest = min(largest, MAX_MEDIAN_RATIO * previous)
        share = max(share, self._share_of_few(rule))
        estimate = rule.shells.estimate(
            budget, count_beyond, n, largest, 0.0, share, point
        )
        return estimate.typical_distance

    def _step(
        self,
        queries: Queries,
        budget: StageBudget,
        point: np.ndarray,
        distance: float,
        share: float,
    ) -> np.ndarray:
        """Return the next point: a step along the noisy mean direction to the records.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for this step.
        point : array of shape point_shape
            The current estimate of the median.
        distance : float
            The median distance of the records. The step is this long times the length
            of the noisy mean direction, and never longer than this.
        share : float
            The fraction of the budget that the step takes.

        Returns
        -------
        array of shape point_shape
            The next estimate, projected into the outer ball.
        """
        manifold = self.manifold
        grid = FixedPoint(2.0)
        sum_block = partial(_sum_directions, _SMOOTHING * distance, grid)
        mean = queries.mean(sum_block, grid, manifold.dim, point)
        sensitivity = mean_sensitivity(1.0, grid, manifold.dim, self.statistic.n)
        direction = budget.release("direction", share, sensitivity, mean).values

        # Noise can make the mean of unit vectors longer than 1; it is shortened to 1.
        length = float(np.linalg.norm(direction))
        shortening = min(1.0, 1 / length) if length > 0 else 1.0
        step = distance * direction * shortening
        with np.errstate(all="ignore"):  # these are released numbers
            next_point = np.asarray(manifold.from_normal_coordinates(point, step))
        projected = project_to_ball(
            manifold, *self.statistic.outer_ball, next_point[None]
        )
        return np.asarray(projected[0])


def _sum_directions(
    smoothing_length: float, grid: FixedPoint, logs: np.ndarray
) -> np.ndarray:
    """Return the exact sum of the directions from the current point to the records.

    The direction to a record is its logarithm divided by its length, or by
    `smoothing_length` if that is larger.

    Parameters
    ----------
    smoothing_length : float
        A public length. The directions to records nearer than this are shorter than 1.
    grid : FixedPoint
        The grid to which entries are rounded.
    logs : array of shape (records, dim)
        The logarithms of the records; those that are not finite count as zero.

    Returns
    -------
    array of int, shape (2·dim,)
        The high parts of the sums, then the low parts.
    """
    lengths = np.linalg.norm(logs, axis=-1, keepdims=True)
    directions = logs / np.maximum(lengths, smoothing_length)
    is_finite = np.isfinite(directions).all(axis=-1, keepdims=True)
    return np.asarray(grid.sums(np.where(is_finite, directions, 0.0)).ravel())
