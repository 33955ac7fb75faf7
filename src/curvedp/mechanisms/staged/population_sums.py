"""Exact counts, sums and means of the records, which a release of a population makes
noisy. A *row* is a record as a vector: its clipped logarithm at a released base point,
maybe with a predictor. A *component* holds the rows of one class and cluster. A *block*
is a part of the records, read at once.
"""

from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.statistic import Ball
from curvedp.geometry import project_to_ball
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.queries import Answer, mean_sensitivity
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.persons import MAX_ROWS_PER_PERSON
from curvedp.statistics.cell_tree import CellArrays, find_leaves
from curvedp.statistics.population import (
    Components,
    PopulationData,
    RowChart,
    SyntheticPopulation,
)
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

__all__ = [
    "LIFT_SQUARE",
    "WEIGHT_ONE",
    "Assignment",
    "PopulationQueries",
    "lifted_size",
    "person_weights",
]

# λ² of the lift: the square of the constant entry beside a row of length at most 1.
LIFT_SQUARE = 0.5

# The weights of one person's records are whole multiples of 2^-20.
WEIGHT_ONE = 1 << 20


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
        # Arrays beside the records: their classes, predictors and weights, if there are any.
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
        bound = 1 + LIFT_SQUARE
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
            The released distributions of rows: one for each class.
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
        """Return the component of each row: an index of its class and its cluster.

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

    Here w = (λ, u), where u is a row divided by the largest length of a row, and λ² is
    `LIFT_SQUARE`. There is one sum for each component. Its entries are λ², √2·λ·u, the squares u_i², and √2·u_i·u_j for
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
        np.full((len(u), 1), LIFT_SQUARE),
        sqrt(2 * LIFT_SQUARE) * u,
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
    """Return the exact sum of (1, u) over a block of records, for each cluster.

    Here u is a record's row, divided by the largest length of a row. So a sum holds the
    number of the cluster's records, and then the sum of their u.

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

    The query `cell_counts` adds these weights up. A released distribution of rows maps
    the rows of each class to the unit cube, in which the cells are boxes.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers: clipped logarithms at a released
        point, each followed by the record's predictor if it has one.
    components : Components
        The released distribution of the rows of each class, which maps them to the unit
        cube.
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
