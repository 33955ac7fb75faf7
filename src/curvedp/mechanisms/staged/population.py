"""Mechanisms that release a population: a law from which synthetic records are drawn. A
*row* is a record as a vector: its clipped logarithm at a released base point, maybe
with a predictor. A *component* holds the rows of one class and cluster. A *block* is a
part of the records, read at once.

All three begin alike: a noisy step from the public center to a base point, a private
length to which logarithms are clipped there, and noisy counts, means and second moments
of the resulting rows. `WrappedGaussian` ends there, `GaussianMixture` divides the rows
into private clusters first, and `CellTreeMechanism` goes on with noisy counts in cells
that are halved again and again. docs/theory/synthetic-records.md has the theorems.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, log2, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from curvedp.core.capabilities import (
    NeedsManyRecords,
    PostProcessesItself,
    PredictsError,
)
from curvedp.core.chart import shrink_vector
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.statistic import Ball, Statistic
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.budget import (
    ALL_THAT_IS_LEFT,
    StageBudget,
    StagedMechanism,
    StagedResult,
)
from curvedp.mechanisms.staged.quantile_search import BinarySearch
from curvedp.mechanisms.staged.queries import Answer, mean_sensitivity
from curvedp.mechanisms.vector import NOISE_KINDS, AddNoise, NoiseKind
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import open_records
from curvedp.records.persons import MAX_ROWS_PER_PERSON
from curvedp.statistics.cell_tree import (
    CellArrays,
    CellTree,
    consistent_counts,
    find_leaves,
)
from curvedp.statistics.energy import squared_energy_distance
from curvedp.statistics.population import (
    Components,
    Leaves,
    PopulationData,
    ReleasedPopulation,
    RowChart,
    SyntheticPopulation,
    as_population_data,
    base_or_center,
    check_size,
)
from curvedp.statistics.second_moment import symmetric_to_vector, vector_to_symmetric
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# Fractions of the privacy budget, by stage; the last stage has what is left. Measured
# (benchmarks/studies/synthetic.py).
_LOCATION_SHARE = 0.03
_RADIUS_SHARE = 0.06
_MOMENT_SHARE_OF_TREE = 0.4
_OVERALL_SHARE_OF_MIXTURE = 0.1
_STEP_SHARE_OF_MIXTURE = 0.06
_STEPS_OF_MIXTURE = 4
# Clusters start where those of so many rows of the released normal law are.
_ROWS_FOR_STARTS = 512

# The search for the clipping length, down to 1.25^-31 = 1/1000 of the largest.
_RADIUS_SEARCH = BinarySearch(queries=5, ratio=1.25)
# This fraction of the records may be clipped, or as many as the noise of a count hides.
_CLIPPED_SHARE = 0.01

# λ² of the lift: the square of the constant entry beside a row of length at most 1.
_LIFT_SQUARE = 0.5

# The weights of one person's records are whole multiples of 2^-20.
WEIGHT_ONE = 1 << 20

# A cell is halved if its noisy count exceeds this many standard deviations of a count
# of the next level. Measured on real sets (benchmarks/studies/synthetic.py).
_WORTHWHILE_COUNT = 1.0
# No tree is deeper than this.
_MAX_DEPTH = 18
# A component is taken to hold at least this part of an equal share of the records.
_SMALLEST_SHARE = 0.25
# No variance of a component is below this fraction of the mean variance.
_SMALLEST_VARIANCE_RATIO = 0.01
# A center of a mixture moves only if the noisy share of its cluster is at least this
# many standard deviations of its noise.
_SMALLEST_SHARE_PER_STD = 3

# An error is predicted by this many simulated releases of each public population, for
# at most so many records, with a public seed.
_SIMULATED_RUNS = 2
_SIMULATED_RECORDS = 2048
# They are compared by this many other records, and as many synthetic ones.
_COMPARED_RECORDS = 1024
_SEED = 20230615


class PopulationQueries:
    """Counts and means of n records in a public ball. They are NOT private.

    Parameters
    ----------
    statistic : SyntheticPopulation
        The population that is released, with its public ball and number of records.
    data : PopulationData, optional
        The records. Without them, as in a replay, all answers are zeros, with the same
        shapes and sensitivities. In a simulation there may be k < n records; counts are
        then multiplied by n/k.
    """

    def __init__(
        self, statistic: SyntheticPopulation, data: PopulationData | None = None
    ) -> None:
        """Count the records or persons, and compute the weights of persons' records.

        Parameters
        ----------
        statistic : SyntheticPopulation
            The population that is released, with its public number of records.
        data : PopulationData, optional
            The records, maybe with classes, predictors and persons. None in a replay.
        """
        self._statistic = statistic
        self._data = data
        self._n = statistic.n
        # Arrays beside the records: their classes, predictors and weights, if any.
        self._columns: tuple[Any, ...] = ()
        self._has_columns: tuple[bool, ...] = (False, False, False)
        # The number of records or persons that are present.
        self._n_present = self._n
        if data is not None:
            weights = None
            self._n_present = data.records.n
            if data.person_index is not None:
                weights = person_weights(data.person_index)
                self._n_present = self._n
            columns = (data.class_index, data.predictor, weights)
            self._has_columns = tuple(column is not None for column in columns)
            self._columns = tuple(column for column in columns if column is not None)

    def mean_log(self, radius: float) -> Answer:
        """Return the mean of the records' clipped logarithms at the center.

        The private base point of the model follows from it.

        Parameters
        ----------
        radius : float
            Longer logarithms are shortened to this length.

        Returns
        -------
        Answer
            The mean, in coordinates at the center of the public ball, and how far it
            can move if one record is replaced.
        """
        grid = FixedPoint(2 * radius)
        size = self._statistic.manifold.dim
        chart = RowChart(
            self._statistic.manifold, self._statistic.ball.center, radius, False
        )
        return self._mean(partial(_sum_logs, chart, grid), grid, size, radius)

    def count_beyond(self, base: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records are farther from a point than each of several radii.

        The private clipping length follows from such counts. Each of them has
        sensitivity 1.

        Parameters
        ----------
        base : array of shape point_shape
            The public point from which distances are measured.
        radii : array
            The public radii.

        Returns
        -------
        array of float, the shape of radii
            The counts. A person's records count 1 together.
        """
        count_block = partial(_count_longer, self._statistic.manifold, base, radii)
        return self._count(count_block, len(radii))

    def lifted_moments(self, chart: RowChart, assignment: "Assignment") -> Answer:
        """Return the lifted second moment of the rows of each component.

        Theorem Y1 (docs/theory/synthetic-records.md). Let u be a row divided by the
        largest length of a row, and w = (λ, u) with a public constant λ. The mean of
        the matrices wwᵀ, each in the block of the record's component, moves by at most
        √2·(1 + λ²)/n if one record is replaced, as ‖A − B‖² ≤ ‖A‖² + ‖B‖² for positive
        semidefinite A and B. From it follow the share of each component, its mean and
        its second moment.

        Parameters
        ----------
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.
        assignment : Assignment
            Which component each row belongs to.

        Returns
        -------
        Answer
            The distinct entries of the matrices of all components, and their
            sensitivity.
        """
        size = assignment.n_components * lifted_size(self._statistic.row_size)
        bound = 1 + _LIFT_SQUARE
        grid = FixedPoint(2 * bound)
        sum_block = partial(_sum_lifted, chart, assignment, grid)
        # Two such matrices are at most √2·(1 + λ²) apart, not 2·(1 + λ²).
        return self._mean(sum_block, grid, size, bound / sqrt(2))

    def cluster_sums(self, chart: RowChart, assignment: "Assignment") -> Answer:
        """Return the share of the records in each cluster, and the sum of their rows.

        One step of Lloyd's algorithm reads them. A record has the vector (1, u) in the
        block of its cluster, where u is its row divided by the largest length of a row.
        Two such vectors are at most 2 apart, in one block or in two.

        Parameters
        ----------
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.
        assignment : Assignment
            Which cluster each row belongs to.

        Returns
        -------
        Answer
            For each cluster its share and the sum of the u, both divided by n; and the
            sensitivity of all these numbers together.
        """
        size = len(assignment.centers) * (1 + self._statistic.row_size)
        grid = FixedPoint(2.0)
        sum_block = partial(_sum_clusters, chart, assignment, grid)
        return self._mean(sum_block, grid, size, bound=1.0)

    def cell_counts(
        self,
        chart: RowChart,
        components: Components,
        cells: CellArrays,
        cell_indices: np.ndarray,
    ) -> np.ndarray:
        """Return how many records are in each of several cells of a tree.

        A record is in at most one of them, so replacing a record moves the counts by √2
        in the Euclidean norm and by 2 in the ℓ₁ norm.

        Parameters
        ----------
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.
        components : Components
            The released laws of rows: one for each class.
        cells : CellArrays
            The tree, of which the cells are leaves.
        cell_indices : array of int
            The indices of the cells.

        Returns
        -------
        array of float, the shape of cell_indices
            The counts. A person's records count 1 together.
        """
        count_block = partial(_count_cells, chart, components, cells, cell_indices)
        return self._count(count_block, len(cell_indices))

    def _mean(
        self, sum_block: Any, grid: FixedPoint, size: int, bound: float
    ) -> Answer:
        """Return the mean of a vector over all records, and its sensitivity.

        Two vectors are at most 2·bound apart, so the mean of n moves by at most
        2·bound/n if one record is replaced, plus rounding errors.

        Parameters
        ----------
        sum_block : function of (points, class_index, predictor, weights)
            Returns the exact sum over some of the records, in `grid`.
        grid : FixedPoint
            The grid to which entries are rounded, so that sums are exact.
        size : int
            The number of entries of a vector.
        bound : float
            Half of the largest distance between the vectors of two records.

        Returns
        -------
        Answer
            The mean (zeros in a replay), and its sensitivity.
        """
        # A person may have many records, and each of them is rounded.
        rounding = MAX_ROWS_PER_PERSON * sqrt(size) * grid.resolution / self._n
        sensitivity = mean_sensitivity(bound, grid, size, self._n) + rounding
        if self._data is None:
            return Answer(np.zeros(size), sensitivity)
        high_and_low_sums = self._sum(sum_block).reshape(2, size)
        return Answer(grid.mean(high_and_low_sums, self._n_present), sensitivity)

    def _count(self, count_block: Any, size: int) -> np.ndarray:
        """Return weighted counts over all records, or zeros if there are no records.

        Parameters
        ----------
        count_block : function of (points, class_index, predictor, weights)
            Returns counts among some of the records, in units of 2^-20.
        size : int
            The number of counts.

        Returns
        -------
        array of float, shape (size,)
            The counts. In a simulation with k < n records they are multiplied by n/k.
        """
        if self._data is None:
            return np.zeros(size)
        counts = self._sum(count_block) / WEIGHT_ONE
        if self._n_present == self._n:
            return np.asarray(counts)
        return np.asarray(counts * (self._n / self._n_present))

    def _sum(self, sum_block: Any) -> np.ndarray:
        """Add up the exact sums over all blocks of records.

        Records are read a block at a time, because they need not fit in memory.

        Parameters
        ----------
        sum_block : function of (points, class_index, predictor, weights)
            Returns an array of exact integer sums over a block of records. It gets the
            records of the block, clipped into the public ball, with their classes,
            their predictors, and their weights in units of 2^-20.

        Returns
        -------
        array of int
            The sum of these arrays over all blocks.
        """
        assert self._data is not None
        # `prepare_data` has clipped records in memory. Records that are read in chunks
        # are clipped when they are read.
        is_clipped = self._data.records.location == "memory"
        ball = None if is_clipped else self._statistic.ball
        sum_clipped_block = partial(
            _apply_to_block,
            self._statistic.manifold,
            ball,
            self._has_columns,
            sum_block,
        )
        return self._data.records.sums(sum_clipped_block, *self._columns)


class Assignment(NamedTuple):
    """Which component a row belongs to: that of its class and of the nearest center.

    Attributes
    ----------
    centers : array, shape (clusters, k)
        The cluster centers, one row each.
    classes : int
        The number of classes.
    """

    centers: np.ndarray
    classes: int

    @property
    def n_components(self) -> int:
        """The number of components: one for each pair of a class and a cluster."""
        return len(self.centers) * self.classes

    @property
    def class_of_component(self) -> np.ndarray:
        """The class of each component; the clusters of one class are adjacent."""
        return np.repeat(np.arange(self.classes), len(self.centers))

    def clusters(self, rows: np.ndarray) -> np.ndarray:
        """Return the index of the cluster center that is nearest to each row.

        Parameters
        ----------
        rows : array, shape (n, k)
            The rows of n records: their logarithms in units of the clipping length,
            maybe with their predictors.

        Returns
        -------
        array of int, shape (n,)
            Indices into `centers`.
        """
        if len(self.centers) == 1:
            return np.zeros(len(rows), dtype=np.int64)
        differences = rows[:, None, :] - self.centers[None]
        squared_distances = (differences**2).sum(axis=-1)
        return np.asarray(np.argmin(squared_distances, axis=1))

    def components(self, rows: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Return the component of each row: the number of its class and cluster.

        Parameters
        ----------
        rows : array, shape (n, k)
            The rows of n records: their logarithms in units of the clipping length,
            maybe with their predictors.
        class_index : array of int, shape (n,)
            The class of each row.

        Returns
        -------
        array of int, shape (n,)
            class · (number of clusters) + cluster.
        """
        return np.asarray(class_index * len(self.centers) + self.clusters(rows))


def person_weights(person_index: np.ndarray) -> np.ndarray:
    """Return how much each record counts, so that each person counts at most once.

    A person's records have equal weights that add up to at most 2^20, which stands
    for 1. Weights are integers, so that weighted counts add up exactly. Records of
    a person beyond the first 2^16 do not count.

    Parameters
    ----------
    person_index : array of int, shape (n,)
        The person to whom each record belongs, from 0.

    Returns
    -------
    array of int, shape (n,)
        The weights, in units of 2^-20.
    """
    # A stable sort puts the records of each person together, in their old order. The
    # rank of a record among its person's is its position minus that of the first one.
    order = np.argsort(person_index, kind="stable")
    records_per_person = np.bincount(person_index)
    first_positions = np.cumsum(records_per_person) - records_per_person
    rank = np.empty(len(person_index), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(first_positions, records_per_person)

    n_counted = np.minimum(records_per_person, MAX_ROWS_PER_PERSON)[person_index]
    is_counted = rank < MAX_ROWS_PER_PERSON
    return np.asarray(np.where(is_counted, WEIGHT_ONE // n_counted, 0))


def lifted_size(row_size: int) -> int:
    """Return the number of distinct entries of the lifted second moment of a row.

    The lifted second moment is the symmetric matrix wwᵀ of w = (λ, u), where u is a
    row and λ a constant. It has row_size + 1 rows.

    Parameters
    ----------
    row_size : int
        The number of entries of a row u.
    """
    return (row_size + 1) * (row_size + 2) // 2


# ---- exact sums over a block of records ----


def _apply_to_block(
    manifold: Manifold,
    ball: Ball | None,
    has_columns: tuple[bool, ...],
    sum_block: Any,
    block: Any,
    *columns: Any,
) -> np.ndarray:
    """Clip a block of records into the public ball, and apply a sum function to it.

    A missing class or predictor is replaced by 0, and a missing weight by 2^20, which
    stands for 1.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    ball : Ball or None
        The ball into which records are clipped; None if they are clipped already.
    has_columns : three bool
        Which of class, predictor and weight are among the columns.
    sum_block : function of (points, class_index, predictor, weights)
        Returns an array of whole numbers, such as exact sums over these records.
    block : array, shape (k, *point_shape)
        Some of the records.
    *columns : arrays, shape (k,)
        The class, predictor and weight of each record, as far as they are present.

    Returns
    -------
    array of int
        The value of `sum_block`.
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        points = np.asarray(block, dtype=np.float64)
        if ball is not None:
            points = np.asarray(project_to_ball(manifold, *ball, points))

        size = len(points)
        class_index = np.zeros(size, dtype=np.int64)
        predictor = np.zeros(size)
        weights = np.full(size, WEIGHT_ONE)
        has_class, has_predictor, has_weight = has_columns
        present_columns = iter([np.asarray(column).reshape(-1) for column in columns])
        if has_class:
            class_index = next(present_columns).astype(np.int64)
        if has_predictor:
            predictor = next(present_columns)
        if has_weight:
            weights = next(present_columns)
        sums = sum_block(points, class_index, predictor, weights)
        return np.asarray(sums, dtype=np.int64)


def _sum_logs(
    chart: RowChart,
    grid: FixedPoint,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the exact weighted sum of the clipped logarithms of a block of records.

    The query `mean_log` adds these sums up. `_apply_to_block` passes the last four
    arguments to every such function; the class and the predictor are not used here.

    Parameters
    ----------
    chart : RowChart
        The point at which logarithms are taken, and the length to which they are
        clipped.
    grid : FixedPoint
        The grid to which entries are rounded, so that sums are exact.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        The weight of each record: an integer, of which 2^20 stands for 1.

    Returns
    -------
    array of int, shape (2·dim,)
        The sums of the high halves of all entries, then those of the low halves. An
        entry is high·2^26 + low in units of `grid.resolution`.
    """
    logs = clip_rows_to(logs_at(chart.manifold, chart.base, points), chart.radius)
    return np.asarray(grid.sums(logs * (weights / WEIGHT_ONE)[:, None]).ravel())


def _count_longer(
    manifold: Manifold,
    base: np.ndarray,
    radii: np.ndarray,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the weight of the records farther from a base point than each radius.

    The query `count_beyond` adds these weights up over blocks of records.
    `_apply_to_block` passes the last four arguments to every such function; the class
    and the predictor are not used here.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    base : point
        The public point from which distances are measured.
    radii : array
        The public radii.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        The weight of each record: an integer, of which 2^20 stands for 1.

    Returns
    -------
    array of int, the shape of radii
        The sums of weights, in units of 2^-20.
    """
    lengths = np.linalg.norm(logs_at(manifold, base, points), axis=-1)
    is_longer = lengths[:, None] > radii[None]
    return np.asarray((is_longer * weights[:, None].astype(np.int64)).sum(axis=0))


def _sum_lifted(
    chart: RowChart,
    assignment: Assignment,
    grid: FixedPoint,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the lifted second moments of a block of records: exact sums of wwᵀ.

    The query `lifted_moments` adds these sums up. Here w = (λ, u), where u is a row
    divided by the largest length of a row, and λ² is `_LIFT_SQUARE`. There is one sum
    for each component. Its entries are λ², √2·λ·u, the squares u_i², and √2·u_i·u_j for
    i < j. The factors √2 make the Euclidean length of these entries the Frobenius norm
    of wwᵀ, for which the sensitivity is proved.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers: clipped logarithms at a released
        point, each followed by the record's predictor if it has one.
    assignment : Assignment
        Which component each row belongs to.
    grid : FixedPoint
        The grid to which entries are rounded, so that sums are exact.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        The weight of each record: an integer, of which 2^20 stands for 1.

    Returns
    -------
    array of int
        Each sum is a whole number of units of `grid.resolution`, kept as two integers:
        sum = high·2^26 + low (`FixedPoint.sums`). First come the high ones of all
        entries of all components, then the low ones.
    """
    rows = chart.rows(points, predictor)
    component = assignment.components(rows, class_index)

    u = rows / chart.longest_row
    i, j = np.triu_indices(u.shape[1], 1)  # all pairs i < j
    entries = [
        np.full((len(u), 1), _LIFT_SQUARE),
        sqrt(2 * _LIFT_SQUARE) * u,
        u**2,
        sqrt(2) * u[:, i] * u[:, j],
    ]
    weight_of_row = (weights / WEIGHT_ONE)[:, np.newaxis]
    terms = np.concatenate(entries, axis=1) * weight_of_row

    sums_by_component = [
        grid.sums(terms[component == index]) for index in range(assignment.n_components)
    ]
    return np.concatenate(sums_by_component, axis=1).ravel()


def _sum_clusters(
    chart: RowChart,
    assignment: Assignment,
    grid: FixedPoint,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return, for a block of records, the exact sum of (1, u) in each cluster.

    A block is a part of the records that is read at once. Here u is a record's row,
    divided by the largest length of a row, and (1, u) is the row with a 1 in front. So
    a sum holds the number of the cluster's records, and then the sum of their u. The
    query `cluster_sums` calls this for every block and adds the results up.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers: clipped logarithms at a released
        point, each followed by the record's predictor if it has one.
    assignment : Assignment
        Which cluster each row belongs to.
    grid : FixedPoint
        The grid to which entries are rounded, so that sums are exact.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record; not used.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        The weight of each record: an integer, of which 2^20 stands for 1.

    Returns
    -------
    array of int
        Each sum is a whole number of units of `grid.resolution`, kept as two integers:
        sum = high·2^26 + low (`FixedPoint.sums`). First come the high ones of all
        entries of all clusters, then the low ones.
    """
    rows = chart.rows(points, predictor)
    cluster = assignment.clusters(rows)
    ones = np.ones((len(rows), 1))
    terms = np.concatenate([ones, rows / chart.longest_row], axis=1)
    terms = terms * (weights / WEIGHT_ONE)[:, None]

    sums_by_cluster = [
        grid.sums(terms[cluster == index]) for index in range(len(assignment.centers))
    ]
    return np.concatenate(sums_by_cluster, axis=1).ravel()


def _count_cells(
    chart: RowChart,
    components: Components,
    cells: CellArrays,
    cell_indices: np.ndarray,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the weight of a block's records in each of several cells of a tree.

    The query `cell_counts` adds these weights up. A released law of rows maps the rows
    of each class to the unit cube, in which the cells are boxes.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers: clipped logarithms at a released
        point, each followed by the record's predictor if it has one.
    components : Components
        The released law of the rows of each class, which maps them to the unit cube.
    cells : CellArrays
        The tree, of which the cells are leaves.
    cell_indices : array of int
        The indices of the cells whose records are counted.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        The weight of each record: an integer, of which 2^20 stands for 1.

    Returns
    -------
    array of int, the shape of cell_indices
        The sums of weights, in units of 2^-20.
    """
    rows = chart.rows(points, predictor)
    positions = components.to_unit_cube(rows, class_index)
    leaf_of_record = find_leaves(cells, class_index, positions)

    weight_of_cell = np.zeros(len(cells.left), dtype=np.int64)
    # Unlike `+=`, this adds the weights of all records in the same leaf.
    np.add.at(weight_of_cell, leaf_of_record, weights.astype(np.int64))
    return np.asarray(weight_of_cell[cell_indices])


# ---- mechanisms ----


class NoisyMoments(NamedTuple):
    """The released shares, means and covariances of the components.

    Attributes
    ----------
    shares : array, shape (m,)
        The noisy fraction of the records in each component.
    share_std : float
        The standard deviation of the noise in a share; 0 where it is known.
    components : Components
        The released laws of rows: one for each class.
    """

    shares: np.ndarray
    share_std: float
    components: Components


@dataclass(frozen=True, eq=False, kw_only=True)
class PopulationMechanism(
    StagedMechanism, PredictsError, NeedsManyRecords, PostProcessesItself
):
    """The base class of mechanisms that release a population.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replacing one record with its
      class and predictor, or one person with all their records, for ANY records.
    """

    if TYPE_CHECKING:
        statistic: SyntheticPopulation

    noise_kinds: ClassVar[tuple[NoiseKind, ...]] = NOISE_KINDS
    # The smallest nμ with which the model was of use.
    enough_n_mu: ClassVar[float] = 50.0

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a synthetic population, as this class needs."""
        return isinstance(statistic, SyntheticPopulation)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What is done to synthetic records: projection into the public ball."""
        return (PostProcessing.PROJECT_TO_BALL,)

    @property
    def has_enough_records(self) -> bool:
        """Whether nμ suffices for each class, with n records in it and μ-GDP.

        The error by noise falls with nμ = n/`scale`. In experiments the model was of no
        use below `enough_n_mu`.
        """
        per_class = self.statistic.n / self.statistic.classes
        return bool(per_class / self.scale >= self.enough_n_mu)

    def prepare_data(self, data: Any) -> PopulationData:
        """Return the records with their columns; those in memory are clipped.

        Columns are the classes, predictors and persons of the records. `release` calls
        this before the ledger is charged.

        Parameters
        ----------
        data : PopulationData, Records or array
            The records, maybe with their classes, predictors and persons.

        Returns
        -------
        PopulationData
            The records in the canonical frame (an isometry has moved the center of
            the public ball to the origin). Records in chunks are clipped when they are
            read.
        """
        statistic = self.statistic
        population = as_population_data(statistic.manifold, data)
        check_size(population, statistic.n)
        records = population.records.to_canonical_frame(
            statistic.manifold, statistic.center
        )
        if records.location == "chunks":
            return population._replace(records=records)
        domain = PublicBall(statistic.manifold, *statistic.ball)
        clipped = clip_records(domain, records.array())
        opened = open_records(clipped, statistic.manifold.point_shape, min_records=1)
        return population._replace(records=opened)

    def queries(self, data: PopulationData | None = None) -> PopulationQueries:
        """Return an object that computes counts and means of records, without noise.

        Parameters
        ----------
        data : PopulationData, optional
            The records as `prepare_data` returns them. None in a replay, where all
            answers are zeros.
        """
        return PopulationQueries(self.statistic, data)

    def run(self, queries: PopulationQueries, add_noise: AddNoise) -> StagedResult:
        """Release a base point and a clipping length, and then the model.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added. In
            a replay there are no records, and all answers are zeros.
        add_noise : function of (values, scales)
            Draws noise. In a replay it returns the recorded draws.

        Returns
        -------
        StagedResult
            Its value is a `ReleasedPopulation`.
        """
        budget = StageBudget(self.scale, add_noise, self.noise_kind)
        chart = self._find_chart(queries, budget)
        return StagedResult(self._learn(queries, budget, chart), budget)

    def _find_chart(self, queries: PopulationQueries, budget: StageBudget) -> RowChart:
        """Release a base point and a clipping length: the map from records to rows.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.

        Returns
        -------
        RowChart
            The map. A row has the coordinates of a record's logarithm at the base
            point, clipped to that length, and maybe its predictor.
        """
        base = self._find_base(queries, budget)
        radius = self._find_radius(queries, budget, base)
        has_predictor = self.statistic.x_range is not None
        return RowChart(self.statistic.manifold, base, radius, has_predictor)

    @abstractmethod
    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the model of the rows, and spend the rest of `budget`.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : RowChart
            The released base point and clipping length.

        Returns
        -------
        ReleasedPopulation
            The model, from which synthetic records are drawn.
        """

    def _find_base(self, queries: PopulationQueries, budget: StageBudget) -> np.ndarray:
        """Take one noisy step from the center of the ball to the records.

        The step is the mean logarithm of the records at the center, with noise. It is
        shrunk by the rule of James and Stein, and is at most as long as the radius.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            Is charged for the mean logarithm.

        Returns
        -------
        array of shape point_shape
            The released base point.
        """
        radius = self.statistic.ball.radius
        mean_log = queries.mean_log(radius)
        # In a public unit near the radius the noise grid suits any unit of records.
        unit = 2.0 ** ceil(log2(radius))
        noisy_mean, noise_std = budget.release(
            "location",
            _LOCATION_SHARE,
            mean_log.sensitivity / unit,
            mean_log.values / unit,
        )
        step = shrink_vector(unit * noisy_mean, unit * noise_std)
        length = float(np.linalg.norm(step))
        shortening = min(1.0, radius / max(length, radius))
        return base_or_center(self.statistic, step * shortening)

    def _find_radius(
        self, queries: PopulationQueries, budget: StageBudget, base: np.ndarray
    ) -> float:
        """Find a distance from the base point that few records exceed.

        Logarithms are clipped to this length. A binary search by noisy counts finds it:
        about 1 % of the records may be farther, or as many as the noise of a count
        hides, but no more than a quarter.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            Is charged for a binary search.
        base : array of shape point_shape
            The public point from which distances are measured.

        Returns
        -------
        float
            The released clipping length.
        """
        count_std = _RADIUS_SEARCH.count_std(self.scale, _RADIUS_SHARE)
        if self.noise_kind == "laplace":
            # A Laplace variable of scale b has the standard deviation √2·b.
            count_std = sqrt(2) * self.scale * _RADIUS_SEARCH.queries / _RADIUS_SHARE
        n = self.statistic.n
        allowed_outside = min(n / 4, max(_CLIPPED_SHARE * n, count_std))

        # By the triangle inequality no record of the ball is farther from the base.
        center, ball_radius = self.statistic.ball
        base_distance = float(self.statistic.manifold.dist(center, base))
        longest_distance = ball_radius + min(base_distance, ball_radius)
        clipping_length = _RADIUS_SEARCH.find(
            budget,
            partial(queries.count_beyond, base),
            longest_distance,
            allowed_outside,
            _RADIUS_SHARE,
        )
        return float(clipping_length)

    def _release_moments(
        self,
        queries: PopulationQueries,
        budget: StageBudget,
        chart: RowChart,
        assignment: Assignment,
        share: float,
    ) -> NoisyMoments:
        """Release the share, the mean and the covariance of each component.

        They follow from the noisy mean of the matrices wwᵀ of the records, w = (λ, u),
        where u is a record's row divided by the largest length of a row
        (`lifted_moments`, Theorem Y1 in docs/theory/synthetic-records.md).

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.
        assignment : Assignment
            Which component each row belongs to.
        share : float
            The fraction of the whole budget that is spent here, at most what is left.

        Returns
        -------
        NoisyMoments
            The noisy shares, and a normal law of rows for each component.
        """
        exact_moments = queries.lifted_moments(chart, assignment)
        noisy, std = budget.release(
            "moments", share, exact_moments.sensitivity, exact_moments.values
        )
        entries_by_component = noisy.reshape(assignment.n_components, -1)

        # The first entry of a component is λ² times its share.
        shares = entries_by_component[:, 0] / _LIFT_SQUARE
        share_std = std / _LIFT_SQUARE
        if assignment.n_components == 1:
            shares = np.ones(1)
            share_std = 0.0

        smallest_share = _SMALLEST_SHARE / assignment.n_components
        laws = [
            normal_law(
                entries, max(float(noisy_share), smallest_share), std, chart.longest_row
            )
            for entries, noisy_share in zip(entries_by_component, shares, strict=True)
        ]
        means, axes, scales = (np.stack(arrays) for arrays in zip(*laws, strict=True))
        components = Components(assignment.class_of_component, means, axes, scales)
        return NoisyMoments(shares, share_std, components)

    # ---- predicted errors ----

    def predict_error(self) -> float:
        """Predict the energy distance between synthetic and real records.

        Three public populations in the ball are released by simulation: a skewed one,
        two clusters, and a ring. Distances are those of normal coordinates at the
        center of the ball, which are fast to compute.

        Returns
        -------
        float
            The root mean square, over all simulations, of the energy distance between
            synthetic records and other records of the same population. A mean square
            below its own standard error is raised to that.
        """
        statistic = self.statistic
        flat = Euclidean(statistic.manifold.dim)
        center = statistic.ball.center
        rng = np.random.default_rng(_SEED)
        n_records = min(statistic.n, _SIMULATED_RECORDS)
        squared_distances = []
        for draw_rows in (_skewed_rows, _two_clusters, _ring):
            data = self._public_data(draw_rows, rng, n_records)
            # A tree fits the very records that it has counted, hence others here.
            other_data = self._public_data(draw_rows, rng, _COMPARED_RECORDS)
            real = logs_at(statistic.manifold, center, other_data.records.array())
            for _ in range(_SIMULATED_RUNS):
                released = self.run(self.queries(data), self.simulated_noise(rng)).value
                points = released.sample_canonical(_COMPARED_RECORDS, rng).points
                synthetic = logs_at(statistic.manifold, center, points)
                squared_distances.append(squared_energy_distance(flat, real, synthetic))

        # A mean of squares below its own standard error cannot be told from zero.
        standard_error = float(np.std(squared_distances)) / sqrt(len(squared_distances))
        return sqrt(max(float(np.mean(squared_distances)), standard_error))

    def _public_data(
        self, draw_rows: Any, rng: np.random.Generator, size: int
    ) -> PopulationData:
        """Return records of a public population in the ball, for simulated releases.

        Parameters
        ----------
        draw_rows : function of (rng, size, dim)
            Draws rows of length about 1, such as `_skewed_rows`.
        rng : numpy.random.Generator
            The generator of the records.
        size : int
            How many records are drawn. They stand for the n records of the statistic.

        Returns
        -------
        PopulationData
            The records, whose distances from the center are about half the radius of
            the ball, with classes and predictors.
        """
        statistic = self.statistic
        center, radius = statistic.ball
        rows = draw_rows(rng, size, statistic.manifold.dim)
        # Within 0.9 injectivity radii normal coordinates are unique.
        longest = min(radius, 0.9 * (statistic.manifold.injectivity_radius or inf))
        coordinates = clip_rows_to(longest / 2 * rows, longest)
        points = np.asarray(
            statistic.manifold.from_normal_coordinates(center, coordinates)
        )
        records = open_records(points, statistic.manifold.point_shape, min_records=1)
        class_index = np.arange(size) % statistic.classes
        return PopulationData(records, class_index, np.tanh(rows[:, 0]))


def normal_law(
    entries: np.ndarray, share: float, std: float, longest_row: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate the normal law of a component from its noisy lifted second moment.

    The lifted second moment is the sum of the matrices wwᵀ over the records of the
    component, divided by n, where w = (λ, u). The vector u is a record's row divided by
    `longest_row`, and λ a constant. So it contains the sums of λ², of √2·λ·u and of uuᵀ.
    Divided by the share of the component they are the mean and the second moment of u.

    These estimates are improved in four steps, which are post-processing:

    1. The mean is shrunk toward the row 0, which is the base point, by the rule of
       James and Stein, and projected into the unit ball, in which all u lie.
    2. The mean variance is clipped to its possible values.
    3. The covariance is shrunk toward a multiple of the identity, by the same rule.
    4. Its eigenvalues are raised to a small fraction of the mean variance, and scaled
       so that their mean stays the same.

    Parameters
    ----------
    entries : array
        The noisy entries of the component, in the order of `_sum_lifted`.
    share : float
        The fraction of the records in the component.
    std : float
        The standard deviation of the noise in each entry.
    longest_row : float
        The largest possible length of a row, by which rows were divided.

    Returns
    -------
    mean, axes, scales : arrays, shapes (k,), (k, k), (k,)
        The mean, the principal axes as columns, and the standard deviation along each
        axis. They describe the rows themselves, not the vectors u.
    """
    # Solve (k + 1)(k + 2)/2 = number of entries for the size k of a row.
    size = round((sqrt(8 * entries.size + 1) - 3) / 2)
    # The entries after the first are √2·λ·share times the mean of u.
    mean_factor = sqrt(2 * _LIFT_SQUARE) * share
    mean = shrink_vector(entries[1 : size + 1] / mean_factor, std / mean_factor)
    mean = mean / max(1.0, float(np.linalg.norm(mean)))
    second_moment = vector_to_symmetric(entries[size + 1 :] / share, size)
    covariance = second_moment - np.outer(mean, mean)

    # The length of u is at most 1, so the variances of its k entries add up to at most
    # 1. The lower limit only keeps the variance positive.
    noise_std = std / share
    largest_variance = 1.0 / size
    mean_variance = float(np.clip(np.trace(covariance) / size, 1e-6, largest_variance))
    isotropic_part = mean_variance * np.eye(size)
    deviation = symmetric_to_vector(covariance - isotropic_part)
    shrunk_deviation = vector_to_symmetric(shrink_vector(deviation, noise_std), size)
    eigenvalues, axes = np.linalg.eigh(shrunk_deviation + isotropic_part)

    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    largest_entry = np.argmax(np.abs(axes), axis=0)
    axes = axes * np.sign(axes[largest_entry, np.arange(size)])
    variances = np.clip(eigenvalues, _SMALLEST_VARIANCE_RATIO * mean_variance, 1.0)
    variances *= size * mean_variance / variances.sum()
    return longest_row * mean, axes, longest_row * np.sqrt(variances)


def _normalized(shares: np.ndarray) -> np.ndarray:
    """Return noisy shares as nonnegative numbers that add up to 1.

    Negative shares become 0. If no share is positive, all become equal.

    Parameters
    ----------
    shares : array, shape (m,)
        Noisy fractions of the records.
    """
    positive = np.maximum(shares, 0.0)
    if positive.sum() <= 0:
        return np.full(len(shares), 1 / len(shares))
    return np.asarray(positive / positive.sum())


def uniform_moments(statistic: SyntheticPopulation) -> NoisyMoments:
    """Return the uniform law on a whole torus for each class, in place of moments.

    A tree starts from these public laws if the public ball is the whole torus, so that
    no budget is spent for moments.

    Parameters
    ----------
    statistic : SyntheticPopulation
        A population of records on a whole torus.

    Returns
    -------
    NoisyMoments
        Equal shares with infinite standard deviation, because the shares of the
        classes are unknown, and the uniform laws.
    """
    classes, size = statistic.classes, statistic.row_size
    # Half the side of the box of rows: 1 for a predictor. An angle of π is 1/√dim of
    # the longest logarithm, by which rows are divided.
    half_sides = np.ones(size)
    half_sides[: statistic.manifold.dim] = 1 / sqrt(statistic.manifold.dim)
    components = Components(
        np.arange(classes),
        np.zeros((classes, size)),
        np.tile(np.eye(size), (classes, 1, 1)),
        np.tile(half_sides, (classes, 1)),
        is_uniform=True,
    )
    return NoisyMoments(np.full(classes, 1 / classes), inf, components)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrappedGaussian(PopulationMechanism):
    """One normal law of logarithms for each class, at a private base point."""

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "wrapped-gaussian", option="wrapped-gaussian", reads="records", is_staged=True
    )

    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the moments of each class with all that is left.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.

        Returns
        -------
        ReleasedPopulation
            One normal law of rows for each class.
        """
        one_center = np.zeros((1, self.statistic.row_size))
        assignment = Assignment(one_center, self.statistic.classes)
        moments = self._release_moments(
            queries, budget, chart, assignment, ALL_THAT_IS_LEFT
        )
        return undivided_population(self.statistic, chart, moments)


def undivided_population(
    statistic: SyntheticPopulation, chart: RowChart, moments: NoisyMoments
) -> ReleasedPopulation:
    """Return a population whose components are the released laws themselves.

    In the general model a component is divided into cells with a share each. Here every
    component is one cell.

    Parameters
    ----------
    statistic : SyntheticPopulation
        The population that is released, with its public ball and number of records.
    chart : RowChart
        The map from records to rows of numbers: clipped logarithms at a released
        point, each followed by the record's predictor if it has one.
    moments : NoisyMoments
        The released shares, means and covariances of the components.

    Returns
    -------
    ReleasedPopulation
        The model: synthetic rows are drawn from the law of each component, in the
        proportion of the shares.
    """
    n_components = len(moments.shares)
    size = statistic.row_size
    leaves = Leaves(
        np.arange(n_components),
        np.zeros((n_components, size)),
        np.ones((n_components, size)),
        _normalized(moments.shares),
    )
    return ReleasedPopulation(statistic, chart, moments.components, leaves)


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianMixture(PopulationMechanism):
    """Several normal laws of logarithms, in clusters that are found privately.

    The moments of all rows are released first. The clusters start where those of the
    released normal law are, which is post-processing; then noisy steps of Lloyd's
    algorithm move them. With classes, each cluster has a normal law for each class.
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "gaussian-mixture", option="mixture", reads="records", is_staged=True
    )
    enough_n_mu: ClassVar[float] = 150.0

    @property
    def clusters(self) -> int:
        """The number of clusters: nμ/60 for the n records of a class, between 2 and 8.

        Here μ = 1/`scale`. The number 60 was chosen by experiments.
        """
        per_class = self.statistic.n / self.statistic.classes
        return int(np.clip(per_class / self.scale / 60, 2, 8))

    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the clusters, and then the moments of each with all that is left.

        Clusters start where those of a released normal law are. Each of a few steps
        moves the centers to the noisy means of their rows.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.

        Returns
        -------
        ReleasedPopulation
            One normal law of rows for each class and cluster.
        """
        # First the moments of each class as a whole; clusters start from them.
        one_center = np.zeros((1, self.statistic.row_size))
        undivided = Assignment(one_center, self.statistic.classes)
        overall = self._release_moments(
            queries, budget, chart, undivided, _OVERALL_SHARE_OF_MIXTURE
        )
        centers = clusters_of_normals(overall, self.clusters)

        for _ in range(_STEPS_OF_MIXTURE):
            assignment = Assignment(centers, self.statistic.classes)
            exact_sums = queries.cluster_sums(chart, assignment)
            noisy, std = budget.release(
                "clusters",
                _STEP_SHARE_OF_MIXTURE,
                exact_sums.sensitivity,
                exact_sums.values,
            )
            centers = moved_centers(centers, noisy, std, chart.longest_row)
        assignment = Assignment(centers, self.statistic.classes)
        moments = self._release_moments(
            queries, budget, chart, assignment, ALL_THAT_IS_LEFT
        )
        return undivided_population(self.statistic, chart, moments)


def clusters_of_normals(moments: NoisyMoments, n_clusters: int) -> np.ndarray:
    """Return the cluster centers from which the private steps of a mixture start.

    They are found by Lloyd's algorithm among rows that are drawn from the released
    normal laws with a public seed. So this is post-processing.

    Parameters
    ----------
    moments : NoisyMoments
        The released shares, means and covariances of the components.
    n_clusters : int
        The number of clusters.

    Returns
    -------
    array, shape (n_clusters, k)
        The cluster centers, as rows of k numbers.
    """
    rng = np.random.default_rng(_SEED)
    component = rng.choice(
        len(moments.shares), size=_ROWS_FOR_STARTS, p=_normalized(moments.shares)
    )
    uniform = rng.random((_ROWS_FOR_STARTS, moments.components.means.shape[1]))
    rows = moments.components.from_unit_cube(uniform, component)

    centers = _rows_far_apart(rows, n_clusters)
    for _ in range(_STEPS_OF_MIXTURE):
        centers = _means_of_nearest_rows(rows, centers)
    return centers


def _rows_far_apart(rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return rows of which each is as far as possible from those before it.

    Parameters
    ----------
    rows : array, shape (n, k)
        The rows to choose from. The first one is taken.
    n_rows : int
        The number of rows to return.
    """
    chosen = rows[:1]
    while len(chosen) < n_rows:
        differences = rows[:, np.newaxis, :] - chosen[np.newaxis, :, :]
        squared_distances = (differences**2).sum(axis=-1)
        farthest = np.argmax(squared_distances.min(axis=1))
        chosen = np.vstack([chosen, rows[farthest]])
    return chosen


def _means_of_nearest_rows(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Move each center to the mean of the rows nearest to it: a step of Lloyd's algorithm.

    Parameters
    ----------
    rows : array, shape (n, k)
        The rows.
    centers : array, shape (clusters, k)
        The cluster centers. One without rows stays where it is.
    """
    nearest_center = Assignment(centers, 1).clusters(rows)
    moved = centers.copy()
    for index in range(len(centers)):
        members = rows[nearest_center == index]
        if len(members):
            moved[index] = members.mean(axis=0)
    return moved


def moved_centers(
    centers: np.ndarray, noisy: np.ndarray, std: float, longest_row: float
) -> np.ndarray:
    """Move cluster centers to the noisy means of their rows, one step of Lloyd's method.

    The noisy mean of a cluster is the quotient of its noisy sum and its noisy share. A
    center does not move if its share is below three standard deviations of the noise.
    Otherwise its step is shrunk by the rule of James and Stein, and its new position is
    projected into the ball that contains all rows.

    Parameters
    ----------
    centers : array, shape (clusters, k)
        The centers before the step.
    noisy : array, shape (clusters·(1 + k),)
        The noisy shares and sums (`PopulationQueries.cluster_sums`).
    std : float
        The standard deviation of the noise in each of them.
    longest_row : float
        The length by which rows were divided.

    Returns
    -------
    array, shape (clusters, k)
        The centers after the step.
    """
    shares_and_sums = noisy.reshape(len(centers), -1)
    moved = centers.copy()
    for index, share_and_sum in enumerate(shares_and_sums):
        share = float(share_and_sum[0])
        if share < _SMALLEST_SHARE_PER_STD * std:  # hidden by noise
            continue
        step = longest_row * share_and_sum[1:] / share - centers[index]
        center = centers[index] + shrink_vector(step, longest_row * std / share)
        length = float(np.linalg.norm(center))
        moved[index] = center * min(1.0, longest_row / max(length, longest_row))
    return moved


@dataclass(frozen=True, eq=False, kw_only=True)
class CellTreeMechanism(PopulationMechanism):
    """Noisy counts in cells that are halved where records are, made consistent.

    The cells are boxes in coordinates in which the released normal law of a class is
    uniform, so that an undivided cell is filled by that law. A cell is halved along its
    longest side. Level j has the fraction ∝ (m·Δ)^{2/3} of the budget for Gaussian
    noise, and (m·Δ)^{1/2} for Laplace noise, with m cells of diameter Δ: that minimizes
    the sum of the levels' transport costs (He, Vershynin & Zhu 2023, for Laplace
    noise).

    On a whole torus the boxes are those of the angles at the public center, and all of
    the budget is for counts: a normal law there would say little and cost much.
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "cell-tree", option="tree", reads="records", is_staged=True
    )

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What is done to noisy counts and to synthetic records, in order.

        The counts of all levels are made consistent with each other, and synthetic
        records are projected into the public ball.
        """
        return (PostProcessing.CONSISTENT_COUNTS, PostProcessing.PROJECT_TO_BALL)

    @property
    def level_shares(self) -> np.ndarray:
        """The fraction of the tree's budget that each level has, from public numbers.

        Level j has m = 2^j cells of relative diameter Δ = 2^(−j/k), where k is the size
        of a row. Its fraction is ∝ (m·Δ)^{2/3} for Gaussian noise and ∝ (m·Δ)^{1/2} for
        Laplace noise. The depth is the largest for which an average cell of the last
        level holds more records than its noise hides.
        """
        statistic = self.statistic
        tree_share = (1 - _LOCATION_SHARE - _RADIUS_SHARE) * (1 - _MOMENT_SHARE_OF_TREE)
        if statistic.is_whole_torus:
            tree_share = 1.0

        shares_of_deepest = np.ones(1)
        for depth in range(1, _MAX_DEPTH + 1):
            shares = self._shares_at_depth(depth)
            last_std = self._count_std(tree_share * float(shares[-1]))
            average_count = statistic.n / 2.0**depth
            if average_count < _WORTHWHILE_COUNT * last_std / 2:
                break
            shares_of_deepest = shares
        return shares_of_deepest

    def _shares_at_depth(self, depth: int) -> np.ndarray:
        """Return the fraction of the tree's budget for each level of a tree.

        Parameters
        ----------
        depth : int
            The number of levels below the root.
        """
        levels = np.arange(1, depth + 1)
        cells = 2.0**levels
        diameters = 2.0 ** (-levels / self.statistic.row_size)
        exponent = 0.5 if self.noise_kind == "laplace" else 2 / 3
        shares = (cells * diameters) ** exponent
        return np.asarray(shares / shares.sum())

    def _find_chart(self, queries: PopulationQueries, budget: StageBudget) -> RowChart:
        """Return the public chart of a whole torus; elsewhere release one.

        On a whole torus the base point is the public center, and the clipping length is
        the largest length π·√dim of a vector of angles.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.

        Returns
        -------
        RowChart
            The map from records to rows of numbers.
        """
        statistic = self.statistic
        if not statistic.is_whole_torus:
            return super()._find_chart(queries, budget)
        longest = pi * sqrt(statistic.manifold.dim)
        has_predictor = statistic.x_range is not None
        return RowChart(
            statistic.manifold, statistic.ball.center, longest, has_predictor
        )

    def _count_std(self, share: float) -> float:
        """Return the standard deviation of the noise in the count of a cell.

        Replacing a record moves the counts of all cells together by √2 in the Euclidean
        norm and by 2 in the ℓ₁ norm. A Laplace variable of scale b has the standard
        deviation √2·b.

        Parameters
        ----------
        share : float
            The fraction of the whole privacy budget that the counts of a level take.
        """
        if self.noise_kind == "laplace":
            return 2 * sqrt(2) * self.scale / share
        return sqrt(2) * self.scale / sqrt(share)

    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the moments of each class, and then counts level by level.

        A cell is halved if its noisy count exceeds the noise of the next level. The
        counts of all new halves are one stage: a record is in one of them at most.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.

        Returns
        -------
        ReleasedPopulation
            The cells with their consistent counts, from which records are drawn.
        """
        statistic = self.statistic
        moments = self._root_moments(queries, budget, chart)
        # The roots are the components; counts and variances are listed by cell.
        tree = CellTree(moments.components.scales)
        counts = list(statistic.n * moments.shares)
        variances = [(statistic.n * moments.share_std) ** 2] * len(counts)
        last_level = list(range(len(counts)))
        tree_share = budget.share_left
        for level_share in self.level_shares:
            share = min(tree_share * float(level_share), budget.share_left)
            smallest_count = _WORTHWHILE_COUNT * self._count_std(share)
            # A root of unknown count is halved in any case.
            cells_to_halve = [
                cell
                for cell in last_level
                if counts[cell] > smallest_count or np.isinf(variances[cell])
            ]
            if not cells_to_halve:
                break
            last_level = tree.split(cells_to_halve)
            exact_counts = queries.cell_counts(
                chart, moments.components, tree.to_arrays(), np.array(last_level)
            )
            noisy_counts = budget.release(
                "cells", share, sqrt(2), exact_counts, l1_sensitivity=2.0
            )
            counts += noisy_counts.values.tolist()
            variances += [noisy_counts.std**2] * len(last_level)
        return self._population(
            chart, moments, tree, np.array(counts), np.array(variances)
        )

    def _root_moments(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> NoisyMoments:
        """Release the moments of each class, which are the roots of the tree.

        On a whole torus the roots need no moments, and nothing is charged.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left.
        chart : RowChart
            The map from records to rows of numbers.
        """
        statistic = self.statistic
        if statistic.is_whole_torus:
            return uniform_moments(statistic)
        one_center = np.zeros((1, statistic.row_size))
        assignment = Assignment(one_center, statistic.classes)
        share = _MOMENT_SHARE_OF_TREE * budget.share_left
        return self._release_moments(queries, budget, chart, assignment, share)

    def _population(
        self,
        chart: RowChart,
        moments: NoisyMoments,
        tree: CellTree,
        counts: np.ndarray,
        variances: np.ndarray,
    ) -> ReleasedPopulation:
        """Return the population that follows from the noisy counts: post-processing.

        The noisy count of a cell differs from the sum of the noisy counts of its
        halves. The counts are made consistent: halves add up to their cell, and the
        roots to n. Then the cells that were not halved describe the population.

        Parameters
        ----------
        chart : RowChart
            The map from records to rows of numbers: clipped logarithms at a released
            point, each followed by the record's predictor if it has one.
        moments : NoisyMoments
            The released shares, means and covariances of the components.
        tree : CellTree
            All cells, those that were halved and those that were not.
        counts : array, shape (cells,)
            The noisy counts of all cells.
        variances : array, shape (cells,)
            The variances of their noise.

        Returns
        -------
        ReleasedPopulation
            The cells that were not halved, with their shares of the records.
        """
        n = float(self.statistic.n)
        consistent = consistent_counts(tree, counts, variances, n)
        is_leaf = np.array(tree.left) < 0
        leaves = Leaves(
            np.array(tree.component)[is_leaf],
            np.array(tree.lower)[is_leaf],
            np.array(tree.upper)[is_leaf],
            _normalized(consistent[is_leaf]),
        )
        return ReleasedPopulation(self.statistic, chart, moments.components, leaves)


# ---- public populations, on which errors are predicted ----


def _skewed_rows(rng: np.random.Generator, size: int, dim: int) -> np.ndarray:
    """Return rows of centered Gamma variables with variances ∝ 1/k, of length about 1.

    One of three public populations on which errors are predicted.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the rows.
    size : int
        The number of rows.
    dim : int
        The number of entries of a row; entry k has the variance ∝ 1/k.
    """
    # A Gamma variable of shape 4 has mean 4 and standard deviation 2.
    rows = rng.gamma(4.0, size=(size, dim)) / 2 - 2.0
    rows = rows / np.sqrt(np.arange(1, dim + 1))
    return np.asarray(rows / sqrt(np.mean(np.sum(rows**2, axis=1))))


def _two_clusters(rng: np.random.Generator, size: int, dim: int) -> np.ndarray:
    """Return rows in two round clusters of different size on either side of 0.

    One of three public populations on which errors are predicted.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the rows.
    size : int
        The number of rows.
    dim : int
        The number of entries of a row; the first one separates the clusters.
    """
    rows = 0.35 * rng.standard_normal((size, dim)) / sqrt(dim)
    rows[:, 0] += np.where(rng.random(size) < 0.4, -1.0, 0.7)
    return np.asarray(rows)


def _ring(rng: np.random.Generator, size: int, dim: int) -> np.ndarray:
    """Return rows on a ring about 0; in one dimension, at both ends of an interval.

    One of three public populations on which errors are predicted.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the rows.
    size : int
        The number of rows.
    dim : int
        The number of entries of a row; the ring is in the plane of the first two.
    """
    rows = 0.15 * rng.standard_normal((size, dim)) / sqrt(dim)
    angle = 2 * np.pi * rng.random(size)
    rows[:, 0] += np.cos(angle)
    if dim > 1:
        rows[:, 1] += np.sin(angle)
    return np.asarray(rows)
