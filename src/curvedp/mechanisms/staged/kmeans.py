"""Private k-means: centers of clusters, their sizes and their spreads, in one release.
A *stage* is one noisy answer about the records, which takes a share of the privacy
budget. A *candidate* is a possible center. A record counts with a *weight*, 1 unless
its person has several records.

All noise is Gaussian, so the fractions of μ² that the stages take add up exactly. What
is asked next depends on released numbers alone. docs/theory/clusters.md has the
theorem about the sensitivities, and docs/howto/private-topics.md says what comes out.

The stages:

1. *center*: the sum of the records' vectors, whose quotient by n is a first center;
2. *radius* (not on spheres): a histogram of distances to it, which says how far
   vectors are clipped from there on. Both are done twice, because the public radius of
   the first search may be far too wide, and again while the radius is that of noise;
3. *moment*: the sum of yyᵀ over the clipped vectors y. Its leading eigenvectors are a
   subspace, whose dimension follows from the known spectrum of the noise;
4. *candidates*: a histogram of the candidate that is nearest to each record. Weighted
   k-means on the noisy counts initializes the centers;
5. *spread*: a histogram of distances to the nearest initial center;
6. *step*, a few times: the sum of each cluster's vectors about its center, clipped to
   the released spread, together with their number;
7. *sizes*: the number of records nearest to each final center, and their mean square
   distance to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, inf, log2, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp.core.capabilities import NeedsManyRecords, RefusesRelease
from curvedp.core.mechanism import MechanismInfo, check_guarantee, check_supported
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.budget import (
    NoisyAnswer,
    StageBudget,
    StagedMechanism,
    StagedResult,
)
from curvedp.mechanisms.staged.cluster_starts import (
    NoisyHistogram,
    Subspace,
    choose_number_of_clusters,
    cluster_weighted_points,
    draw_candidates,
    leading_subspace,
)
from curvedp.mechanisms.staged.cluster_sums import (
    MAX_RECORDS,
    MAX_ROWS_PER_PERSON,
    ClusterData,
    ClusterQueries,
    ProjectedChart,
    ProjectedQueries,
    count_nearest,
    distance_histogram,
    residual_histogram,
    sum_residuals,
    sum_sizes,
    sum_vectors,
    to_grid_positions,
)
from curvedp.mechanisms.vector import AddNoise, smallest_gaussian_scale
from curvedp.numerics.arrays import Array
from curvedp.numerics.fixed_point import gram_radius
from curvedp.privacy import Guarantee, PrivacyCurve
from curvedp.records.base import Records, open_records
from curvedp.statistics.clusters import (
    PRIVATE_NUMBER,
    Chart,
    Clustering,
    Clusters,
    round_to_grid,
    vector_size,
)
from curvedp.statistics.second_moment import symmetric_to_vector, vector_to_symmetric

# Fractions of μ² by stage; the steps share what the others leave. They were tuned in
# floats on sentence embeddings (docs/evidence/topics.md).
_CENTER_SHARE = 0.03
_RADIUS_SHARE = 0.02
# On spheres one center is found, and no radius; elsewhere two of each, and a few more
# while the radius becomes smaller by this factor and is still below this multiple of the
# center's error. In flat space the public radius is 10⁶ unless the caller knows better.
_SEARCHES = 2
_MAX_SEARCHES = 5
_SHRINKS = 1 / 4
_RADIUS_OF_NOISE = 3.0
_MOMENT_SHARE = 0.25
_CANDIDATE_SHARE = 0.12
_SPREAD_SHARE = 0.02
_SIZES_SHARE = 0.05

# The number of steps, and of those that follow if clusters of equal size have more
# records than this many lengths of the noise of a sum in one direction.
_LLOYD_STEPS = 4
_STEPS_OF_LARGE_CLUSTERS = 6
_LARGE_CLUSTER = 30.0

# Up to this many dimensions no subspace is needed: the moment serves the candidates,
# and a good start is worth more than precise steps.
_FEW_DIMENSIONS = 8
_MOMENT_SHARE_IN_FEW_DIMENSIONS = 0.05
_CANDIDATE_SHARE_IN_FEW_DIMENSIONS = 0.3

# An eigenvalue counts if it is above this multiple of the largest one of the noise.
_EDGE_MARGIN = 1.0
_MAX_COMPONENTS = 48

_CANDIDATES = 1500
_LEAST_OCCUPIED = 20
_CANDIDATE_DIRECTIONS = 10

# The fraction of records that lie within the released radius, and within the spread.
_WITHIN_RADIUS = 0.95
_WITHIN_SPREAD = 0.7

# Edges of the histogram of distances to the first center, in units of the reach: from
# 2^-10 to 1 in quarter octaves.
_RADIUS_EDGES = 2.0 ** np.linspace(-10, 0, 41)
# Edges of the histogram of distances to the initial centers.
_SPREAD_EDGES = np.linspace(0.0, 1.5, 41)[1:]

# The weight of a count beside a vector of length 1, for adding or removing a record.
# For replacing one, counts of weight 1 cost nothing (Theorem K2).
_COUNT_WEIGHT = 0.35
_FIRST_COUNT_WEIGHT = 0.25

# A center moves if its noisy count is above this many standard deviations, and above
# this multiple of the length of the noise of its sum.
_COUNT_DEVIATIONS = 3.0
_NOISE_LENGTHS = 0.5

# Sensitivities are enlarged by this relative margin (Theorem K3). Truncation changes
# the count of a person by at most 2^12·2^-32, and a sum over at most 2^30 records is
# rounded once, by at most 2^30·2^-53.
_ROUNDING_MARGIN = 3e-6

# A count is released with a 95 % interval.
_NORMAL_95 = 1.96

# Noise is drawn on a grid of 2^-30; sums are divided by a power of two that leaves its
# standard deviation between 2^10 and 2^11 steps of the grid. Certificates stay short.
_GRID_STEPS_OF_NOISE = 19

# A cluster of fewer records than this many lengths of the noise of its sum is not found.
_RESOLUTION = 2.0
# The number of directions in which the noise of a center is counted, before it is known.
_TYPICAL_COMPONENTS = 10


class Sensitivities(NamedTuple):
    """How far the answers of the stages move between neighboring data sets.

    Theorems K1 and K2 (docs/theory/clusters.md) have the proofs.

    Attributes
    ----------
    vector_and_count : function of a weight
        Of (Σy, w·n) for vectors y of length at most 1.
    histogram : float
        Of the numbers of records in bins.
    second_moment : float
        Of Σ yyᵀ.
    steps : function of a weight
        Of (Σ of each cluster's vectors, w·their numbers), over all clusters.
    sizes : float
        Of (numbers, Σ (t − ½) over each cluster) for 0 ≤ t ≤ 1.
    count_weight : float
        The weight w of counts in a step.
    """

    vector_and_count: Callable[[float], float]
    histogram: float
    second_moment: float
    steps: Callable[[float], float]
    sizes: float
    count_weight: float


def _length_with_count(weight: float) -> float:
    """Return the length of (y, w) for a vector y of length 1."""
    return sqrt(1 + weight**2)


def _replaced_vector(weight: float) -> float:
    """Return how far Σy moves if a record is replaced: the number of records stays."""
    return 2.0


def _replaced_in_step(weight: float) -> float:
    """Return how far the sums of a step move if a record is replaced.

    A record within a cluster can move its sum by 2. A record that changes its cluster
    moves the sums and the weighted counts of both.
    """
    return max(2.0, sqrt(2) * _length_with_count(weight))


# Theorem K1: one record is added or removed.
ADDED = Sensitivities(
    vector_and_count=_length_with_count,
    histogram=1.0,
    second_moment=1.0,
    steps=_length_with_count,
    sizes=sqrt(1.25),
    count_weight=_COUNT_WEIGHT,
)
# Theorem K2: one record is replaced.
REPLACED = Sensitivities(
    vector_and_count=_replaced_vector,
    histogram=sqrt(2),
    second_moment=sqrt(2),
    steps=_replaced_in_step,
    sizes=sqrt(2.5),
    count_weight=1.0,
)


class SumParameters(NamedTuple):
    """The public numbers with which a stage releases a sum.

    Attributes
    ----------
    share : float
        The fraction of the whole budget μ² that the stage spends.
    sensitivity : float
        A bound on the change of the sum between neighboring data sets, rounded up.
    noise_scale : float
        The standard deviation of the noise in each entry.
    unit : float
        A power of two by which the sum is divided. Noise in this unit is rounded to the
        grid 2^-30.
    """

    share: float
    sensitivity: float
    noise_scale: float
    unit: float


class NoisyMean(NamedTuple):
    """A released mean vector.

    Attributes
    ----------
    vector : array
        The noisy mean. It is shrunk by the part of its length that is noise, and has
        length at most 1.
    squared_length : float
        An estimate of the squared length of the mean without noise.
    std : float
        The standard deviation of the noise in each entry.
    n : float
        The number of records: public, or noisy.
    """

    vector: np.ndarray
    squared_length: float
    std: float
    n: float


class NoisyStart(NamedTuple):
    """The results of the first stages, which are released.

    Attributes
    ----------
    chart : Chart
        About the released center.
    n : float
        The number of records: public, or noisy.
    subspace : Subspace
        The released principal directions of the vectors.
    """

    chart: Chart
    n: float
    subspace: Subspace

    @property
    def space(self) -> "ProjectedChart":
        """The map from records to vectors in the released subspace."""
        return ProjectedChart(self.chart, self.subspace.directions)


@dataclass(frozen=True, eq=False, kw_only=True)
class KMeansMechanism(StagedMechanism, NeedsManyRecords, RefusesRelease):
    """Private k-means in stages of Gaussian noise.

    Notes
    -----
    Guarantees

    - exactly μ-GDP with μ = 1/`scale` for replacing a record, for ANY records; or, if
      the statistic keeps their number private, for adding or removing one.
    """

    statistic: Clusters

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "kmeans", reads="records", is_staged=True
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether the statistic is the centers and sizes of clusters.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        """
        return isinstance(statistic, Clusters)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets a guarantee.

        Parameters
        ----------
        statistic : Clusters
            The clusters that are to be released.
        guarantee : Guarantee
            The guarantee of all stages together: under add/remove adjacency if the
            number of records is private, else under replace-one adjacency.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, Clusters)
        adjacency = ADD_REMOVE if statistic.n is None else "replace-one"
        check_guarantee(guarantee, adjacency)
        # A sum that moves by 1 needs the same noise whether a record is added, removed
        # or replaced. `smallest_gaussian_scale` takes guarantees for replaced records.
        same_guarantee = replace(guarantee, adjacency="replace-one")
        return cls(statistic=statistic, scale=smallest_gaussian_scale(same_guarantee))

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The profile of one Gaussian release of sensitivity 1.

        It holds under add/remove adjacency if the number of records is private, else
        under replace-one adjacency.
        """
        profile = super().privacy_profile
        if self.statistic.n is not None:
            return profile
        return replace(profile, adjacency=ADD_REMOVE)

    @property
    def stage_sensitivities(self) -> Sensitivities:
        """How far the sums of each stage move if a record is added, removed or replaced."""
        return ADDED if self.statistic.n is None else REPLACED

    def check_releasable(self) -> None:
        """Raise `ParameterError` if there are more clusters than records.

        Nothing is checked if the number of records or of clusters is private.
        """
        n = self.statistic.n
        clusters = self.statistic.clusters
        if n is None or clusters == PRIVATE_NUMBER or clusters <= n:
            return
        raise ParameterError(
            f"is more than the {n} records", parameter="n_clusters", value=clusters
        )

    @property
    def steps_share(self) -> float:
        """The fraction of μ² for all Lloyd steps together.

        It is 1 minus the fractions of all other stages. Outside of spheres these include
        two searches for the first center and for a radius around it. If a run makes
        further searches, their fractions are taken from the steps.
        """
        other_shares = self._moment_share + _SPREAD_SHARE + _SIZES_SHARE
        if self.statistic.starts is None:
            other_shares += self._candidate_share
        if isinstance(self.statistic.manifold, Sphere):
            other_shares += _CENTER_SHARE
        else:
            other_shares += _SEARCHES * (_CENTER_SHARE + _RADIUS_SHARE)
        return 1 - other_shares

    @property
    def step_noise(self) -> float:
        """The standard deviation of the noise in the sums of one of four Lloyd steps.

        A step sums residuals, the differences of records to their nearest centers. The
        unit is the length to which residuals are clipped.
        """
        sensitivities = self.stage_sensitivities
        sensitivity = sensitivities.steps(sensitivities.count_weight)
        return sensitivity * self.scale / sqrt(self.steps_share / _LLOYD_STEPS)

    def number_of_steps(self, n_per_cluster: float) -> int:
        """Return how many steps of Lloyd's algorithm are made.

        Parameters
        ----------
        n_per_cluster : float
            The number of records, public or noisy, over that of clusters.
        """
        if n_per_cluster > _LARGE_CLUSTER * self.step_noise:
            return _STEPS_OF_LARGE_CLUSTERS
        return _LLOYD_STEPS

    @property
    def _has_few_dimensions(self) -> bool:
        """Whether records have so few dimensions that no subspace is needed."""
        return vector_size(self.statistic.manifold) <= _FEW_DIMENSIONS

    @property
    def _moment_share(self) -> float:
        """The fraction of the budget of the second moment."""
        if self._has_few_dimensions:
            return _MOMENT_SHARE_IN_FEW_DIMENSIONS
        return _MOMENT_SHARE

    @property
    def _candidate_share(self) -> float:
        """The fraction of the budget of the histogram of candidates."""
        if self._has_few_dimensions:
            return _CANDIDATE_SHARE_IN_FEW_DIMENSIONS
        return _CANDIDATE_SHARE

    @property
    def center_noise(self) -> float:
        """The length of the noise in the sum of one cluster.

        The length is taken over ten directions, a typical dimension of the subspace.
        Divided by the number of the cluster's records it is about the error of the
        center, in units of the spread of these records.
        """
        n_directions = min(vector_size(self.statistic.manifold), _TYPICAL_COMPONENTS)
        return sqrt(n_directions) * self.step_noise

    @property
    def smallest_cluster(self) -> float:
        """How many records a cluster needs to be found.

        The error of its center is then at most half the spread of its records, in a
        subspace of a typical dimension, and the error of its size less than a third.
        """
        weight = self.stage_sensitivities.count_weight
        records_for_center = _RESOLUTION * self.center_noise
        records_for_size = _COUNT_DEVIATIONS * self.step_noise / weight
        return max(records_for_center, records_for_size)

    def largest_number_of_clusters(self, n: float) -> int:
        """Return how many clusters of equal size can be found among n records.

        Parameters
        ----------
        n : float
            The number of records, public or noisy.
        """
        return max(int(n / self.smallest_cluster), 0)

    @property
    def has_enough_records(self) -> bool:
        """Whether clusters of equal size would be found; True if n is private."""
        if self.statistic.n is None:
            return True
        n_clusters = max(self.statistic.clusters, 2)
        return n_clusters <= self.largest_number_of_clusters(self.statistic.n)

    def prepare_data(self, data: Any) -> ClusterData:
        """Return the records in the form in which `draw` takes them.

        `release` calls this before the ledger is charged.

        Parameters
        ----------
        data : ClusterData, Records or array
            The records. `ClusterData` may state a weight for each record; other records
            count 1 each.

        Returns
        -------
        ClusterData
            The records. Its weights are None if each record counts 1.

        Raises
        ------
        ParameterError
            If the number of records is not the stated one, or is above 2^30.
        """
        weighted = data if isinstance(data, ClusterData) else self._weigh_equally(data)
        if weighted.records.n > MAX_RECORDS:
            raise ParameterError("sums are exact for at most 2^30 records")
        return weighted

    def _weigh_equally(self, data: Any) -> ClusterData:
        """Return records without weights, so that each record counts 1.

        Parameters
        ----------
        data : Records or array
            The records.

        Returns
        -------
        ClusterData
            The records. Its weights are None, which means a weight of 1 for each.

        Raises
        ------
        ParameterError
            If the number of records is not that of the statistic.
        """
        records = data
        if not isinstance(records, Records):
            shape = self.statistic.manifold.point_shape
            records = open_records(data, shape, "records", min_records=0)

        public_n = self.statistic.n
        if public_n is not None and records.n != public_n:
            raise ParameterError(f"{records.n} records, not {public_n}")
        return ClusterData(records, weights=None)

    def queries(self, data: ClusterData | None = None) -> ClusterQueries:
        """Return the sums over the records that the stages add noise to.

        Parameters
        ----------
        data : ClusterData, optional
            The records with their weights. Without them, as in a replay of recorded
            draws, every sum is zero.
        """
        return ClusterQueries(data)

    def run(self, queries: ClusterQueries, add_noise: AddNoise) -> StagedResult:
        """Release a subspace, initial centers, a few Lloyd steps, and the sizes.

        Parameters
        ----------
        queries : ClusterQueries
            Computes counts and means of the private records, before noise is added. In
            a replay all answers are zeros.
        add_noise : function of (values, scales)
            Returns the values plus noise. In a replay it ignores the values and returns
            the recorded draws.

        Returns
        -------
        StagedResult
            Its value is a `Clustering`.
        """
        budget = StageBudget(self.scale, add_noise)
        start = self._find_subspace(queries, budget)
        projected = queries.project(start.space)
        if self.statistic.starts is None:
            centers = self._initial_centers(projected, budget, start)
        else:  # public initial centers, projected into the subspace
            vectors = np.asarray(start.chart.vectors(self.statistic.starts))
            centers = vectors @ start.subspace.directions.T
        # A few noisy steps of Lloyd's algorithm, then the sizes of the final clusters.
        centers = self._refine_centers(projected, budget, start, centers)
        clustering = self._measure_sizes(queries, budget, start, centers)
        return StagedResult(clustering, budget)

    # ---- the stages ----

    def _find_subspace(
        self, queries: ClusterQueries, budget: StageBudget
    ) -> NoisyStart:
        """Release a center, the radius of the records about it, and a subspace.

        The subspace consists of the leading eigenvectors of the noisy second moment.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.

        Returns
        -------
        NoisyStart
            The map from records to vectors about the center, the number of records, and
            the subspace.
        """
        chart, n = self._find_center(queries, budget)
        size = chart.size
        second_moment = symmetric_to_vector(queries.gram(chart))
        sensitivity = self.stage_sensitivities.second_moment
        # Rounding the entries of vectors makes them a little longer than 1.
        sensitivity *= gram_radius(1.0, size, MAX_ROWS_PER_PERSON) ** 2
        sensitivity *= 1 + _ROUNDING_MARGIN
        noisy = self._release_sum(
            budget, "moment", self._moment_share, sensitivity, second_moment
        )
        moment = vector_to_symmetric(noisy.values, size)

        margin = 0.0 if self._has_few_dimensions else _EDGE_MARGIN
        subspace = leading_subspace(moment, noisy.std, n, _MAX_COMPONENTS, margin)
        # Rounding to the grid shortens vectors, so that lengths stay at most 1.
        directions = round_to_grid(subspace.directions)
        return NoisyStart(chart, n, Subspace(directions, subspace.deviations))

    def _find_center(
        self, queries: ClusterQueries, budget: StageBudget
    ) -> tuple[Chart, float]:
        """Release a center of the records, and about how far they are from it.

        On a sphere both follow from one noisy mean. Elsewhere each search releases a
        noisy mean and a noisy histogram of distances. There are two, because the public
        radius of the first one may be far too large, and a few more if the noise in the
        center still hides the radius.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.

        Returns
        -------
        chart : Chart
            The map from records to vectors, about the center and with this radius.
        n : float
            The number of records: public, or noisy.
        """
        if isinstance(self.statistic.first_chart.manifold, Sphere):
            return self._center_on_sphere(queries, budget)

        chart = self.statistic.first_chart
        for search in range(1, _MAX_SEARCHES + 1):
            previous = chart
            mean = self._release_mean(queries, budget, previous)
            (base,) = previous.points(mean.vector[np.newaxis])
            # A ball of twice the radius about the new base contains the old one.
            wide_chart = Chart(previous.manifold, base, 2 * previous.radius)
            radius = self._find_radius(queries, budget, wide_chart)
            chart = Chart(previous.manifold, base, radius)
            # A radius that has become much smaller, and that the noise in the center
            # explains, can be improved by another search from here.
            center_error = sqrt(previous.size) * mean.std * previous.radius
            has_shrunk = radius < _SHRINKS * previous.radius
            is_noise = radius < _RADIUS_OF_NOISE * center_error
            if search >= _SEARCHES and not (has_shrunk and is_noise):
                break
        return chart, mean.n

    def _center_on_sphere(
        self, queries: ClusterQueries, budget: StageBudget
    ) -> tuple[Chart, float]:
        """Release the mean of unit vectors, from which both center and radius follow.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.

        Returns
        -------
        chart : Chart
            The map from records to vectors, about the mean.
        n : float
            The number of records: public, or noisy.
        """
        chart = self.statistic.first_chart
        mean = self._release_mean(queries, budget, chart)
        # The mean squared distance of unit vectors to their mean m is 1 − |m|². The
        # noise in |m|² has a standard deviation of at most about twice `mean.std`. Two
        # of them are added.
        mean_square = 1 - min(mean.squared_length, 1.0) + 4 * mean.std
        radius = min(sqrt(mean_square), 1.0)
        return Chart(chart.manifold, mean.vector, radius), mean.n

    def _release_mean(
        self, queries: ClusterQueries, budget: StageBudget, chart: Chart
    ) -> "NoisyMean":
        """Release the mean of the records' vectors, and maybe the number of records.

        The sum of the vectors is released. If the number n of records is private, the
        sum has one more entry, which is n times a small weight.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : Chart
            The map from records to vectors of length at most 1.

        Returns
        -------
        NoisyMean
            The mean, shrunk for its noise, with the number of records.
        """
        public_n = self.statistic.n
        size = chart.size
        count_weight = _FIRST_COUNT_WEIGHT if public_n is None else 0.0
        exact_sums = queries.sum(partial(sum_vectors, chart, count_weight), size + 1)
        if public_n is not None:
            exact_sums = exact_sums[:size]
        sensitivity = self.stage_sensitivities.vector_and_count(count_weight)
        noisy = self._release_sum(
            budget,
            "center",
            _CENTER_SHARE,
            sensitivity * (1 + _ROUNDING_MARGIN),
            exact_sums,
        )
        if public_n is None:
            n = max(float(noisy.values[-1]) / count_weight, 1.0)
        else:
            n = float(public_n)
        mean = noisy.values[:size] / n
        std = noisy.std / n

        # Subtract the expected squared length of the noise, and shrink accordingly.
        square = float(mean @ mean)
        squared_length = max(square - size * std**2, 0.0)
        # The tiny number stands for 0, where the mean is 0 and stays 0.
        vector = mean * (squared_length / max(square, 1e-300))
        vector = vector / max(1.0, float(np.linalg.norm(vector)))
        return NoisyMean(vector, squared_length, std, n)

    def _find_radius(
        self, queries: ClusterQueries, budget: StageBudget, chart: Chart
    ) -> float:
        """Release a histogram of distances to a center, and return their 95 % quantile.

        Elsewhere than on spheres, vectors are clipped to this radius in all later
        stages.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : Chart
            The map from records to vectors about the center. Its radius is the largest
            distance that the histogram covers.
        """
        terms = partial(distance_histogram, chart, _RADIUS_EDGES)
        quantile = self._release_quantile(
            queries,
            budget,
            "radius",
            _RADIUS_SHARE,
            terms,
            _RADIUS_EDGES,
            _WITHIN_RADIUS,
        )
        return float(quantile * chart.radius)

    def _release_quantile(
        self,
        queries: ClusterQueries,
        budget: StageBudget,
        kind: str,
        share: float,
        terms: Callable[..., Array],
        edges: np.ndarray,
        fraction: float,
    ) -> float:
        """Release a histogram of a number of each record, and return a quantile of it.

        Two stages use it: one for the radius about the center, and one for the spread
        about the initial centers.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        kind : str
            The name of the stage in the transcript.
        share : float
            The fraction of the whole budget for this stage.
        terms : function of (block of records, their weights or None)
            Returns the histogram of the block.
        edges : array of shape (bins,)
            The upper edges of the bins. Numbers beyond the last edge count in the last
            bin.
        fraction : float
            The order of the quantile: the fraction of the records below it.

        Returns
        -------
        float
            The first edge below which at least this fraction of the noisy histogram
            lies.
        """
        noisy = self._release_sum(
            budget,
            kind,
            share,
            self.stage_sensitivities.histogram * (1 + _ROUNDING_MARGIN),
            queries.sum(terms, len(edges)),
        )
        # Bins below two standard deviations are taken as empty. Otherwise the noise of
        # many empty bins would add up.
        counts = np.where(noisy.values > 2 * noisy.std, noisy.values, 0.0)
        cumulative = np.cumsum(counts)
        total = cumulative[-1]
        has_counts = total > 0
        if not has_counts:
            return float(edges[-1])
        index = int(np.searchsorted(cumulative, fraction * total))
        return float(edges[min(index, len(edges) - 1)])

    def _initial_centers(
        self, queries: ProjectedQueries, budget: StageBudget, start: NoisyStart
    ) -> np.ndarray:
        """Release how many records are nearest to each candidate, and cluster them.

        Candidates for centers are drawn from the released covariance. Weighted k-means
        on the candidates and their noisy counts gives the initial centers.

        Parameters
        ----------
        queries : ProjectedQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        start : NoisyStart
            What the first stages have released: the map from records to vectors, the
            number of records, and the subspace.

        Returns
        -------
        array of shape (clusters, components)
            The initial centers, as vectors in the subspace.
        """
        candidates = draw_candidates(start.subspace, _CANDIDATES, _CANDIDATE_DIRECTIONS)
        candidates = to_grid_positions(candidates)
        terms = partial(count_nearest, queries.space, candidates)
        noisy = self._release_sum(
            budget,
            "candidates",
            self._candidate_share,
            self.stage_sensitivities.histogram * (1 + _ROUNDING_MARGIN),
            queries.sum(terms, len(candidates)),
        )
        histogram = NoisyHistogram(noisy.values, noisy.std)
        return self.cluster_candidates(candidates, histogram, start)

    def cluster_candidates(
        self, candidates: np.ndarray, histogram: NoisyHistogram, start: NoisyStart
    ) -> np.ndarray:
        """Return initial centers, from released numbers alone.

        Parameters
        ----------
        candidates : array of shape (count, components)
            The candidates for centers, as vectors in the subspace.
        histogram : NoisyHistogram
            The noisy number of records that are nearest to each candidate.
        start : NoisyStart
            What the first stages have released.

        Returns
        -------
        array of shape (clusters, components)
            The initial centers, as vectors in the subspace.
        """
        n_clusters = self.statistic.clusters
        if n_clusters == PRIVATE_NUMBER:
            largest = max(self.largest_number_of_clusters(start.n), 2)
            n_clusters = choose_number_of_clusters(
                candidates, start.subspace, histogram, largest
            )
        cloud = histogram.occupied_candidates(
            candidates, max(2 * n_clusters, _LEAST_OCCUPIED)
        )
        return cluster_weighted_points(cloud, n_clusters)

    def _refine_centers(
        self,
        queries: ProjectedQueries,
        budget: StageBudget,
        start: NoisyStart,
        centers: np.ndarray,
    ) -> np.ndarray:
        """Make a few noisy steps of Lloyd's algorithm in the subspace.

        A residual is the vector from a center to a record. First their spread is
        released, to which all steps clip residuals.

        Parameters
        ----------
        queries : ProjectedQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for all steps, so that only
            the share for the sizes is left.
        start : NoisyStart
            What the first stages have released: the map from records to vectors, the
            number of records, and the subspace.
        centers : array, shape (clusters, components)
            The initial centers, as vectors in the subspace.

        Returns
        -------
        array of shape (clusters, components)
            The final centers.
        """
        centers = to_grid_positions(centers)
        # The 70% quantile of the distances to the nearest center.
        spread = self._release_quantile(
            queries,
            budget,
            "spread",
            _SPREAD_SHARE,
            partial(residual_histogram, queries.space, centers, _SPREAD_EDGES),
            _SPREAD_EDGES,
            _WITHIN_SPREAD,
        )

        # All steps have equal shares of the budget.
        n_steps = self.number_of_steps(start.n / len(centers))
        steps_share = self.steps_share - _share_of_further_searches(budget)
        for _ in range(n_steps):
            centers = self._lloyd_step(
                queries, budget, steps_share / n_steps, centers, spread
            )
        return centers

    def _lloyd_step(
        self,
        queries: ProjectedQueries,
        budget: StageBudget,
        share: float,
        centers: np.ndarray,
        spread: float,
    ) -> np.ndarray:
        """Move each center by the noisy mean of the residuals of its records.

        The number of records and the sum of clipped residuals are released for each
        cluster. So the noise is proportional to the size of clusters, not to the size
        of the whole data set.

        Parameters
        ----------
        queries : ProjectedQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left.
        share : float
            The fraction of the whole budget for this step.
        centers : array, shape (clusters, components)
            The centers before the step.
        spread : float
            The length to which residuals are clipped.

        Returns
        -------
        array of shape (clusters, components)
            The centers after the step.
        """
        n_clusters, n_components = centers.shape
        weight = self.stage_sensitivities.count_weight
        sensitivity = self.stage_sensitivities.steps(weight) * (1 + _ROUNDING_MARGIN)
        terms = partial(sum_residuals, queries.space, centers, spread, weight)
        exact_sums = queries.sum(terms, n_clusters * (n_components + 1))
        noisy = self._release_sum(budget, "step", share, sensitivity, exact_sums)
        sums_and_counts = noisy.values.reshape(n_clusters, n_components + 1)
        sums = sums_and_counts[:, :-1]
        counts = sums_and_counts[:, -1] / weight

        # The center of a cluster with fewer records would move by its noise.
        smallest_count = max(
            _COUNT_DEVIATIONS * noisy.std / weight,
            _NOISE_LENGTHS * sqrt(n_components) * noisy.std,
        )
        positive_counts = np.maximum(counts, 1.0)
        moves = spread * sums / positive_counts[:, np.newaxis]
        is_large = counts > smallest_count
        moved = np.where(is_large[:, np.newaxis], centers + moves, centers)
        return to_grid_positions(moved)

    def _measure_sizes(
        self,
        queries: ClusterQueries,
        budget: StageBudget,
        start: NoisyStart,
        centers: np.ndarray,
    ) -> Clustering:
        """Release the size of each cluster and the mean squared distance to its center.

        This is the last stage, after the centers are final.

        Parameters
        ----------
        queries : ClusterQueries
            Computes sums over the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. All of it is spent.
        start : NoisyStart
            The results of the first stages: the map from records to vectors, the number
            of records, and the subspace.
        centers : array, shape (clusters, components)
            The final centers, as vectors in the subspace.

        Returns
        -------
        Clustering
            The centers as points, with the noisy size and mean squared distance of each
            cluster, and bounds on their errors.
        """
        points = start.chart.points(centers @ start.subspace.directions)
        longest = start.chart.longest_distance
        manifold = self.statistic.manifold
        terms = partial(sum_sizes, manifold, points, longest)
        noisy = self._release_sum(
            budget,
            "sizes",
            1.0,
            self.stage_sensitivities.sizes * (1 + _ROUNDING_MARGIN),
            queries.sum(terms, 2 * len(points)),
        )
        counts, centered_sums = noisy.values.reshape(len(points), 2).T
        positive_counts = np.maximum(counts, 1.0)
        # A record adds t − ½, where t is its squared distance divided by longest². This
        # is in [−½, ½], which has the smallest sensitivity of all shifts.
        mean_squares = centered_sums / positive_counts + 0.5
        # To first order, noise in both the sum and the count of the quotient.
        std_of_means = noisy.std * np.sqrt(1 + (mean_squares - 0.5) ** 2)
        std_of_means = std_of_means / positive_counts
        # A mean of numbers in [0, 1] has an error of at most 1.
        errors = np.minimum(_NORMAL_95 * std_of_means, 1.0)
        return Clustering(
            centers=points,
            counts=counts,
            count_error=_NORMAL_95 * noisy.std,
            dispersions=longest**2 * np.clip(mean_squares, 0.0, 1.0),
            dispersion_errors=longest**2 * errors,
            directions=start.subspace.directions,
        )

    def _release_sum(
        self,
        budget: StageBudget,
        kind: str,
        share: float,
        sensitivity: float,
        values: np.ndarray,
    ) -> NoisyAnswer:
        """Release a sum with noise, after dividing it by a public unit.

        Noise is drawn as integers on a grid of 2^-30. In this unit its standard
        deviation is one to two thousand grid steps, so that the integers in the
        certificate are short. The unit is a power of two, so that division by it is
        exact.

        Parameters
        ----------
        budget : StageBudget
            The privacy budget that is left. It is charged for this sum.
        kind : str
            The name of the stage in the transcript.
        share : float
            The fraction of the whole budget for this stage. If less is left, the rest
            is spent.
        sensitivity : float
            A bound on the change of the values between neighboring data sets, in the
            Euclidean norm.
        values : array
            The sum. NOT private.

        Returns
        -------
        NoisyAnswer
            The noisy sum, and the standard deviation of its noise.
        """
        terms = self.sum_parameters(budget, share, sensitivity)
        unit = terms.unit
        noisy = budget.release(kind, share, terms.sensitivity / unit, values / unit)
        return NoisyAnswer(unit * noisy.values, unit * noisy.std)

    def sum_parameters(
        self, budget: StageBudget, share: float, sensitivity: float
    ) -> SumParameters:
        """Return the public numbers with which a stage releases a sum.

        Parameters
        ----------
        budget : StageBudget
            The privacy budget that is left. It is not charged here.
        share : float
            The fraction of the whole budget for this stage. If less is left, the stage
            takes what is left.
        sensitivity : float
            A bound on the change of the sum between neighboring data sets, in the
            Euclidean norm.
        """
        available_share = min(share, budget.share_left)
        rounded_up = nextafter(sensitivity, inf)
        noise_scale = rounded_up * self.scale / sqrt(available_share)
        unit = 2.0 ** (ceil(log2(noise_scale)) + _GRID_STEPS_OF_NOISE)
        return SumParameters(available_share, rounded_up, noise_scale, unit)


def _share_of_further_searches(budget: StageBudget) -> float:
    """Return the fraction of μ² that searches for a center beyond the first two took.

    The share of the Lloyd steps is reduced by it.

    Parameters
    ----------
    budget : StageBudget
        The budget, whose transcript lists the stages so far. Each search releases one
        radius.
    """
    kinds = [stage["kind"] for stage in budget.transcript]
    further_searches = max(kinds.count("radius") - _SEARCHES, 0)
    return further_searches * (_CENTER_SHARE + _RADIUS_SHARE)
