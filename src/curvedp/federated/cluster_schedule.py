"""The rounds of private k-means over several sites: which noisy sum is asked for next.
The sites (hospitals, say) add up noisy vectors, one sum per round. A *stage* is a sum
that k-means needs, such as the records of each cluster. To find the next stage, the
sums of the earlier rounds are replayed, until k-means needs one that is not released.

`KMeansMechanism.run` is written once. For a release it computes sums over the records
and adds noise; for a replay it takes recorded sums and no records. Here it does both:
the run stops at the first stage whose sum has not been released. The part of a site is
that stage's sum over the site's own records.

So the question of a round follows from the earlier sums, whoever states them. A server
can state wrong sums, but along any sequence of sums a run spends the budget once
(Theorem K4 in docs/theory/clusters.md). Sites refuse a sequence that contradicts the
one they were told before (`Schedule.read_questions`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import floor, inf, log2, nextafter, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from curvedp.core.chart import grid_of
from curvedp.core.mechanism import replay_draws
from curvedp.errors import ParameterError
from curvedp.federated.clusters import ClustersKernel
from curvedp.federated.noise import total_variance_for
from curvedp.federated.schedule import Round, RoundTerms, Schedule
from curvedp.mechanisms.staged.budget import NoisyAnswer, StageBudget
from curvedp.mechanisms.staged.cluster_starts import NoisyHistogram
from curvedp.mechanisms.staged.cluster_sums import (
    ClusterData,
    ClusterQueries,
    ProjectedChart,
    ProjectedQueries,
)
from curvedp.mechanisms.staged.kmeans import KMeansMechanism, NoisyStart, SumParameters
from curvedp.numerics.arrays import Array
from curvedp.records.base import open_records
from curvedp.statistics.clusters import MAX_CLUSTERS, Chart, Clustering, vector_size

if TYPE_CHECKING:
    from curvedp.federated.plan import Plan

# Sites add up multiples of 2^-32. What a record contributes to a stage is a multiple of
# it, except for the second moment, which a site rounds once.
_EXPONENT = 32

# At most this many records: entries of at most 1 then add up to 2^60 units of 2^-32.
_MAX_RECORDS = 2**28

# A stage's noise is at most this multiple of the scale: its sensitivity is at most 2
# (and a margin), and its share of the budget at least 0.02.
_LARGEST_NOISE = 16.0

# Sites with 64 standard deviations of their noise stay below 2^60 units.
_NOISE_DEVIATIONS = 64
_MAX_NOISE_BITS = 60

# A step has a sum of at most this many entries for each cluster: 48 directions (or the
# dimensions, if these are 8 at most), and a count.
_ENTRIES_PER_CLUSTER = 49

# The largest histogram has one bin for each candidate.
_CANDIDATES = 1500

# Integers of a sum are below this in size.
_MAX_INTEGER = 2**63

# A relative margin above the rounding errors of the few operations of a bound.
_SENSITIVITY_MARGIN = 1 + 1e-15


class ClusterStage(NamedTuple):
    """The public terms of one stage.

    Attributes
    ----------
    kind : str
        Its name, as in the transcript of a central release.
    terms : SumParameters
        Its share of the budget, its sensitivity, and the unit of released integers.
    length : int
        The number of entries of its sum.
    """

    kind: str
    terms: SumParameters
    length: int


class _StageLog:
    """The stages that a run has reached.

    Attributes
    ----------
    n_released : int
        The number of stages whose sums have been released.
    stages : list of ClusterStage
        The stages so far; one more than there are released sums, if the run stopped.
    """

    def __init__(self, n_released: int) -> None:
        """Start an empty list of stages.

        Parameters
        ----------
        n_released : int
            The number of stages whose sums have been released.
        """
        self.n_released = n_released
        self.stages: list[ClusterStage] = []

    @property
    def is_replaying(self) -> bool:
        """Whether the sum of the next stage has been released."""
        return len(self.stages) < self.n_released


class _SumNotReleased(Exception):
    """The run has reached a stage whose sum has not been released yet.

    Attributes
    ----------
    values : array
        The sum over the records of the queries. NOT private.
    """

    def __init__(self, values: np.ndarray) -> None:
        """Store the sum over the records of the queries.

        Parameters
        ----------
        values : array
            The sum.
        """
        super().__init__("the sum of this stage has not been released")
        self.values = values


@dataclass(frozen=True, eq=False, kw_only=True)
class _InterruptedKMeans(KMeansMechanism):
    """k-means that stops at the first stage whose sum has not been released.

    Attributes
    ----------
    log : _StageLog
        The stages that the run has reached.
    initial_centers : dict
        The initial centers of the last run, by a hash of what they follow from.
    """

    log: _StageLog
    initial_centers: dict[bytes, np.ndarray]

    def cluster_candidates(
        self, candidates: np.ndarray, histogram: NoisyHistogram, start: NoisyStart
    ) -> np.ndarray:
        """Return initial centers, which are computed once for each noisy histogram.

        Every round replays the stages before it, and this takes most of the time.

        Parameters
        ----------
        candidates : array of shape (count, components)
            The candidates for centers.
        histogram : NoisyHistogram
            The noisy number of records that are nearest to each candidate.
        start : NoisyStart
            The results that the first stages have released.
        """
        arrays = (candidates, histogram.counts, *start.subspace)
        content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        numbers = repr((histogram.std, start.n)).encode()
        cache_key = sha256(content + numbers).digest()
        if cache_key not in self.initial_centers:
            centers = super().cluster_candidates(candidates, histogram, start)
            self.initial_centers.clear()  # no more than one run is replayed at a time
            self.initial_centers[cache_key] = centers
        return self.initial_centers[cache_key].copy()

    def _release_sum(
        self,
        budget: StageBudget,
        kind: str,
        share: float,
        sensitivity: float,
        values: np.ndarray,
    ) -> NoisyAnswer:
        """Return the released sum of a stage, or stop the run if there is none.

        Parameters
        ----------
        budget : StageBudget
            The privacy budget that is left. It is charged for this sum.
        kind : str
            The name of the stage.
        share : float
            The fraction of the whole budget for this stage.
        sensitivity : float
            A bound on the change of the sum between neighboring data sets.
        values : array
            The sum over the records of the queries; zeros in a replay.

        Raises
        ------
        _SumNotReleased
            If the sum of this stage has not been released yet.
        """
        is_replaying = self.log.is_replaying
        terms = self.sum_parameters(budget, share, sensitivity)
        self.log.stages.append(ClusterStage(kind, terms, values.size))
        if not is_replaying:
            raise _SumNotReleased(values)
        return super()._release_sum(budget, kind, share, sensitivity, values)


class _OneStageQueries(ClusterQueries):
    """Sums over records for the stage that is asked, and zeros for those before it.

    Parameters
    ----------
    data : ClusterData or None
        The records.
    log : _StageLog
        The stages that the run has reached.
    """

    def __init__(self, data: ClusterData | None, log: _StageLog) -> None:
        """Keep the records and the log of the run."""
        super().__init__(data)
        self._log = log

    def sum(self, sum_block: Callable[..., Array], size: int) -> np.ndarray:
        """Return a sum over all records, or zeros in the stages that are replayed.

        Parameters
        ----------
        sum_block : function of (block of records, their weights or None)
            Returns the sum over a block of records, in units of 2^-32.
        size : int
            The number of entries of the sum.
        """
        if self._log.is_replaying:
            return np.zeros(size)
        return super().sum(sum_block, size)

    def gram(self, chart: Chart) -> np.ndarray:
        """Return Σ yyᵀ over all records, or zeros if the stage is replayed.

        Parameters
        ----------
        chart : Chart
            The map from records to vectors y.
        """
        if self._log.is_replaying:
            return np.zeros((chart.size, chart.size))
        return super().gram(chart)

    def project(self, space: ProjectedChart) -> ProjectedQueries:
        """Return queries about the projected vectors of the records.

        Parameters
        ----------
        space : ProjectedChart
            The map from records to vectors in the released subspace.
        """
        return _OneStageProjectedQueries(self._data, space, self._log)


class _OneStageProjectedQueries(ProjectedQueries):
    """Sums over projected vectors for the stage that is asked, and zeros before it.

    Parameters
    ----------
    data : ClusterData or None
        The records.
    space : ProjectedChart
        The map from records to vectors in the released subspace.
    log : _StageLog
        The stages that the run has reached.
    """

    def __init__(
        self, data: ClusterData | None, space: ProjectedChart, log: _StageLog
    ) -> None:
        """Keep the records, the projection, and the log of the run."""
        super().__init__(data, space)
        self._log = log

    def sum(self, sum_block: Callable[..., Array], size: int) -> np.ndarray:
        """Return a sum over all records, or zeros in the stages that are replayed.

        Parameters
        ----------
        sum_block : function of (block of records, their weights or None)
            Returns the sum over a block of records, in units of 2^-32.
        size : int
            The number of entries of the sum.
        """
        if self._log.is_replaying:
            return np.zeros(size)
        return super().sum(sum_block, size)


@dataclass(frozen=True)
class InterruptedRun:
    """How far the released sums lead.

    Attributes
    ----------
    stages : list of ClusterStage
        The stages so far. If there is no clustering, the last one has no released sum.
    clustering : Clustering or None
        The result, if all stages have been released.
    values : array
        The sum of the last stage over the given records. NOT private. It is empty if
        all stages have been released.
    """

    stages: Sequence[ClusterStage]
    clustering: Clustering | None = None
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))


class ClusterSchedule(Schedule):
    """The stages of private k-means, one sum over the sites for each (experimental).

    The public state before a round is all that earlier rounds have released. The
    masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    plan : Plan
        The agreed terms.
    kernel : ClustersKernel
        The public parameters of k-means.
    """

    def __init__(self, plan: "Plan", kernel: ClustersKernel) -> None:
        """Store the plan and its kernel.

        Parameters
        ----------
        plan : Plan
            The agreed terms.
        kernel : ClustersKernel
            The public parameters of k-means.
        """
        super().__init__(plan)
        self.kernel = kernel
        self._initial_centers: dict[bytes, np.ndarray] = {}

    # ---- what the plan's terms allow ----

    @property
    def exponents(self) -> list[int]:
        """32 for each round: the grid is 2^-32."""
        return [_EXPONENT] * (self.plan.rounds or 0)

    @property
    def slack(self) -> float:
        """A bound on the total variation between the noise of all rounds and its ideal.

        It is for the largest number of rounds and the longest sums.
        """
        return self.kernel.max_rounds * self.plan.slack_of(self._longest_sum)

    @property
    def _longest_sum(self) -> int:
        """The largest number of entries of a sum that any stage can have."""
        size = vector_size(self.kernel.manifold)
        if self.kernel.has_private_number:
            n_clusters = MAX_CLUSTERS
        else:
            n_clusters = int(self.kernel.n_clusters)
        second_moment = size * (size + 1) // 2  # the distinct entries of a matrix
        mean_with_count = size + 1
        sums_of_clusters = n_clusters * _ENTRIES_PER_CLUSTER
        return max(second_moment, mean_with_count, _CANDIDATES, sums_of_clusters)

    def check(self) -> None:
        """Refuse a plan whose sums or noise do not fit, or with too few records.

        Raises
        ------
        ParameterError
            If there are fewer than two records, fewer records than clusters, or too
            many records; or the guarantee needs too much or too little noise.
        """
        n = self.plan.public_count
        if n > _MAX_RECORDS:
            raise ParameterError("sums over sites are exact for at most 2^28 records")
        self._mechanism_for(n, _StageLog(0)).check_releasable()

        largest_noise = _LARGEST_NOISE * self.replay_scale * 2.0**_EXPONENT
        sites = len(self.plan.sites)
        if not _NOISE_DEVIATIONS * sites * largest_noise < 2.0**_MAX_NOISE_BITS:
            raise ParameterError(
                f"{self.plan.guarantee} needs noise that is too large for these sums"
            )
        # Every stage has at least the noise of a sensitivity of 1 and the whole budget.
        self.plan.layers_of(floor((self.plan.scale * 2.0**_EXPONENT) ** 2))

    def few_records_warning(self) -> str | None:
        """Return a warning if there are too few records for so many clusters, or None."""
        n = self.plan.public_count
        mechanism = self._mechanism_for(n, _StageLog(0))
        if mechanism.has_enough_records:
            return None
        largest = mechanism.largest_number_of_clusters(n)
        possible = f"at most {largest} clusters" if largest > 1 else "no clusters"
        return (
            f"n = {n} at {self.plan.guarantee} carries {possible} of equal size: expect "
            "centers that are mostly noise"
        )

    @cached_property
    def replay_scale(self) -> float:
        """The scale 1/μ at which a mechanism would have the noise of all sites.

        Colluding sites add noise too, on which privacy does not rely: with S sites, of
        which d may be lost and c collude, the noise is up to √((S − d)/(S − d − c))
        times as large as a curator's.
        """
        remaining = len(self.plan.sites) - self.plan.dropouts
        honest = remaining - self.plan.collusion
        return self.plan.scale * sqrt(remaining / honest)

    # ---- the run ----

    def replay(
        self, rounds: Sequence[Round], data: ClusterData | None = None
    ) -> InterruptedRun:
        """Run k-means on released sums, up to the first stage that has none.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of the rounds so far.
        data : ClusterData, optional
            Records, over which the sum of that stage is computed.

        Raises
        ------
        ParameterError
            If no run has these sums. This never depends on records.
        """
        log = _StageLog(len(rounds))
        mechanism = self._mechanism_for(self._record_count(rounds), log)
        released_sums = replay_draws([list(round.total) for round in rounds])
        try:
            result = mechanism.run(_OneStageQueries(data, log), released_sums)
        except _SumNotReleased as interruption:
            return InterruptedRun(log.stages, values=interruption.values)
        if len(log.stages) != len(rounds):
            raise ParameterError("there are more sums than k-means has stages")
        return InterruptedRun(log.stages, result.value)

    def _mechanism_for(self, n: int, log: _StageLog) -> _InterruptedKMeans:
        """Return the mechanism for a number of records.

        Parameters
        ----------
        n : int
            The public number of records, or people.
        log : _StageLog
            Where the run notes its stages.
        """
        statistic = self.kernel.statistic(n)
        return _InterruptedKMeans(
            statistic=statistic,
            scale=self.replay_scale,
            log=log,
            initial_centers=self._initial_centers,
        )

    def _record_count(self, rounds: Sequence[Round]) -> int:
        """Return the number of records of the sites in the first sum.

        If sites are lost later, the means are over a few records less than this number.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of the rounds so far.
        """
        if not rounds:
            return self.plan.public_count
        (count,) = self.plan.class_counts(rounds[0].surviving_sites)
        # Two records are the least that the statistic is defined for.
        return max(count, 2)

    def _round_terms(
        self, index: int, stage: ClusterStage, public_state: Any
    ) -> RoundTerms:
        """Return the terms of the sum of a stage over all sites.

        A site rounds each entry of its sum to the grid. So two neighboring sums differ
        by at most √length more than the sensitivity of the stage.

        Parameters
        ----------
        index : int
            The number of the round.
        stage : ClusterStage
            The stage.
        public_state : JSON value
            The public state before the round.

        Raises
        ------
        ParameterError
            If the sum is longer than the slack of the plan allows for.
        """
        if stage.length > self._longest_sum:
            raise ParameterError("the sum of this stage is too long for this plan")
        sensitivity = stage.terms.sensitivity * 2.0**_EXPONENT + sqrt(stage.length)
        sensitivity = nextafter(sensitivity * _SENSITIVITY_MARGIN, inf)
        share = stage.terms.share
        variance = total_variance_for(sensitivity, self.plan.mu_of(share))
        return RoundTerms(
            index=index,
            public_state=public_state,
            length=stage.length,
            sensitivity=sensitivity,
            variance=variance,
            layers=self.plan.layers_of(variance),
            exponent=_EXPONENT,
            details={
                "kind": stage.kind,
                "share": share,
                "unit": _released_bits(stage.terms) - _EXPONENT,
            },
        )

    # ---- the schedule ----

    def next_sum(self, rounds: Sequence[Round]) -> RoundTerms | None:
        """Return the terms of the next stage's sum, or None after the last stage.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of the rounds so far.
        """
        run = self.replay(rounds)
        if run.clustering is not None:
            return None
        return self._round_terms(len(rounds), run.stages[-1], _state_of(rounds))

    def terms_of_rounds(self, rounds: Sequence[Round]) -> list[RoundTerms]:
        """Return the terms of the sums of all stages, without public states.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds.

        Raises
        ------
        ParameterError
            If stages are missing, or sums are not those of a run.
        """
        run = self.replay(rounds)
        if run.clustering is None:
            raise ParameterError("k-means has further stages after these sums")
        return [
            self._round_terms(index, stage, None)
            for index, stage in enumerate(run.stages)
        ]

    def read_questions(self, index: int, stated: Any) -> list[RoundTerms]:
        """Return the terms of all rounds up to one, for sums that the server states.

        Parameters
        ----------
        index : int
            The number of the round.
        stated : object
            The server's message: the sums of all earlier rounds.

        Raises
        ------
        ParameterError
            If it is not one sum of the right length for each earlier round, or k-means
            has no further stage after these sums.
        """
        if not isinstance(stated, list) or len(stated) != index:
            raise ParameterError("at= does not have one sum for each earlier round")
        rounds = [self._read_round(pair) for pair in stated]
        run = self.replay(rounds)
        if run.clustering is not None:
            raise ParameterError("k-means has no further stage after these sums")
        return self._questions(run.stages, rounds)

    def _questions(
        self, stages: Sequence[ClusterStage], rounds: Sequence[Round]
    ) -> list[RoundTerms]:
        """Return the terms of the sum of each stage, with the public state before it.

        Parameters
        ----------
        stages : sequence of ClusterStage
            The stages of a run.
        rounds : sequence of Round
            The released sums that led to them.
        """
        state = _state_of(rounds)
        return [
            self._round_terms(index, stage, state[:index])
            for index, stage in enumerate(stages)
        ]

    def _read_round(self, pair: Any) -> Round:
        """Return a round that the server states, after checking its form.

        Parameters
        ----------
        pair : object
            The server's message: a list of the sum and of the sites in it.

        Raises
        ------
        ParameterError
            If it is something else.
        """
        sites = range(len(self.plan.sites))
        is_pair = isinstance(pair, list | tuple) and len(pair) == 2
        if not is_pair or not all(map(_is_list_of_integers, pair)):
            raise ParameterError(
                "a stated sum is not a list of integers with its sites"
            )
        total, surviving_sites = pair
        if any(abs(number) >= _MAX_INTEGER for number in total):
            raise ParameterError("a stated sum has integers of more than 64 bits")
        if surviving_sites != sorted(set(surviving_sites)) or not set(
            surviving_sites
        ) <= set(sites):
            raise ParameterError("a stated sum is not over sites of this plan")
        return Round(total, surviving_sites)

    def site_sum(
        self, round_terms: RoundTerms, class_rows: Sequence[Any]
    ) -> np.ndarray:
        """Return a site's part of the sum of a stage, rounded to the grid.

        Parameters
        ----------
        round_terms : RoundTerms
            The question of the round.
        class_rows : sequence
            One entry: the site's records, or `ClusterData` with persons' weights.
        """
        (records,) = class_rows
        if not isinstance(records, ClusterData):
            point_shape = self.kernel.manifold.point_shape
            records = ClusterData(open_records(records, point_shape, min_records=0))
        rounds = [Round(*pair) for pair in round_terms.public_state]
        run = self.replay(rounds, records)
        return np.round(run.values * 2.0**_EXPONENT).astype(np.int64)

    def value(self, rounds: Sequence[Round]) -> Clustering:
        """Return the released clustering.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds.

        Raises
        ------
        ParameterError
            If stages are missing, or sums are not those of a run.
        """
        clustering = self.replay(rounds).clustering
        if clustering is None:
            raise ParameterError("k-means has further stages after these sums")
        return clustering

    def confirmed_questions(
        self, rounds: Sequence[Round], stated_states: Sequence[Any]
    ) -> list[RoundTerms]:
        """Return the terms of each round, which follow from the sums before it.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds, as the server states them.
        stated_states : sequence
            Not used: the rounds are the public state.

        Raises
        ------
        ParameterError
            If a round is not a list of integers with its sites, or the sums are not
            those of a run.
        """
        checked_rounds = [self._read_round(list(round)) for round in rounds]
        return self._questions(self.replay(checked_rounds).stages, checked_rounds)

    def stated_states(self, public_states: Sequence[Any]) -> list[Any]:
        """Return nothing: the rounds, which sites also get, are the public states.

        Parameters
        ----------
        public_states : sequence
            The public state before each round.
        """
        return []

    def released_integers(
        self, round_terms: RoundTerms, total: Sequence[int] | np.ndarray
    ) -> list[int]:
        """Return a noisy sum rounded to the grid of a central release.

        The noise has about a thousand steps of that grid. So the integers are those
        that a curator would release with the same noise, and as short.

        Parameters
        ----------
        round_terms : RoundTerms
            The terms of the sum.
        total : sequence of int
            The noisy sum, in units of 2^-32.
        """
        dropped_bits = round_terms.details["unit"] + _EXPONENT
        if dropped_bits <= 0:
            return [int(number) << -dropped_bits for number in total]
        half = 1 << (dropped_bits - 1)
        return [(int(number) + half) >> dropped_bits for number in total]


def _released_bits(terms: SumParameters) -> int:
    """Return how many bits of a sum in units of 2^-32 are below the released grid.

    Parameters
    ----------
    terms : SumParameters
        The terms of a stage. A central release rounds the sum, in its unit, to
        multiples of 2^-g, where g follows from the noise.
    """
    grid = grid_of(terms.noise_scale / terms.unit)
    return int(log2(terms.unit)) - grid + _EXPONENT


def _state_of(rounds: Sequence[Round]) -> list[Any]:
    """Return the released sums of rounds as JSON values.

    Parameters
    ----------
    rounds : sequence of Round
        The rounds so far.
    """
    state = []
    for round in rounds:
        total = [int(number) for number in round.total]
        surviving_sites = [int(site) for site in round.surviving_sites]
        state.append([total, surviving_sites])
    return state


def _is_list_of_integers(value: Any) -> bool:
    """Return whether a JSON value that the server sent is a list of integers.

    Parameters
    ----------
    value : JSON value
        Anything. Truth values do not count as integers.
    """
    return isinstance(value, list) and all(type(number) is int for number in value)
