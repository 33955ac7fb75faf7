"""Mechanisms that release a population, from which synthetic records are drawn.

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
        """Return the mean of the records' logarithms at the center, clipped to a radius.

        Parameters
        ----------
        radius : float
            Longer logarithms are shortened to this length.
        """
        grid = FixedPoint(2 * radius)
        size = self._statistic.manifold.dim
        chart = RowChart(
            self._statistic.manifold, self._statistic.ball.center, radius, False
        )
        return self._mean(partial(_sum_logs, chart, grid), grid, size, radius)

    def count_beyond(self, base: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records are farther from a point than each of several radii.

        Each count has sensitivity 1.

        Parameters
        ----------
        base : array of shape point_shape
            The public point from which distances are measured.
        radii : array
            The public radii.
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
            The map from records to rows of numbers, with the released base point and
            clipping length.
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

        A record has the vector (1, u) in the block of its cluster, where u is its row
        divided by the largest length of a row. Two such vectors differ by at most 2, in
        one block or in two.

        Parameters
        ----------
        chart : RowChart
            The map from records to rows of numbers, with the released base point and
            clipping length.
        assignment : Assignment
            Which component each row belongs to.
        """
        size = len(assignment.centers) * (1 + self._statistic.row_size)
        grid = FixedPoint(2.0)
        sum_block = partial(_sum_clusters, chart, assignment, grid)
        return self._mean(sum_block, grid, size, 1.0)

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
            The map from records to rows of numbers, with the released base point and
            clipping length.
        components : Components
            The released laws of rows: one for each class.
        cells : CellArrays
            The tree, of which the cells are leaves.
        cell_indices : array of int
            The indices of the cells.
        """
        count_block = partial(_count_cells, chart, components, cells, cell_indices)
        return self._count(count_block, len(cell_indices))

    def _mean(
        self, sum_block: Any, grid: FixedPoint, size: int, bound: float
    ) -> Answer:
        """Return the mean of a vector over all records, and its sensitivity.

        Parameters
        ----------
        sum_block : function of (points, class_index, predictor, weights)
            Returns the exact sum over some of the records, in `grid`.
        grid : FixedPoint
            The grid to which entries are rounded, so that sums are exact.
        size : int
            The number of entries of a vector.
        bound : float
            Half of the largest distance between two vectors.
        """
        sensitivity = mean_sensitivity(bound, grid, size, self._n)
        # A person may have many records, and each of them is rounded.
        rounding = MAX_ROWS_PER_PERSON * sqrt(size) * grid.resolution / self._n
        sensitivity += rounding
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
        """
        if self._data is None:
            return np.zeros(size)
        counts = self._sum(count_block) / WEIGHT_ONE
        if self._n_present == self._n:
            return np.asarray(counts)
        return np.asarray(counts * (self._n / self._n_present))

    def _sum(self, sum_block: Any) -> np.ndarray:
        """Return the sum over all records, a block at a time.

        Parameters
        ----------
        sum_block : function of (points, class_index, predictor, weights)
            Returns an array of whole numbers for some of the records.
        """
        assert self._data is not None
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
        """One for each class and cluster."""
        return len(self.centers) * self.classes

    @property
    def class_of_component(self) -> np.ndarray:
        """The class of each component."""
        return np.repeat(np.arange(self.classes), len(self.centers))

    def clusters(self, rows: np.ndarray) -> np.ndarray:
        """Return the index of the nearest center of each row.

        Parameters
        ----------
        rows : array, shape (n, k)
            The rows of n records: their logarithms in units of the clipping length,
            maybe with their predictors.
        """
        if len(self.centers) == 1:
            return np.zeros(len(rows), dtype=np.int64)
        distances = ((rows[:, None, :] - self.centers[None]) ** 2).sum(axis=-1)
        return np.asarray(np.argmin(distances, axis=1))

    def components(self, rows: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Return the component of each row.

        Parameters
        ----------
        rows : array, shape (n, k)
            The rows of n records: their logarithms in units of the clipping length,
            maybe with their predictors.
        class_index : array of int, shape (n,)
            The class of each row.
        """
        return np.asarray(class_index * len(self.centers) + self.clusters(rows))


def person_weights(person_index: np.ndarray) -> np.ndarray:
    """Return how much each record counts, in units of 2^-20.

    A person's records have equal weights that add up to at most 2^20. Records of a
    person beyond the first 2^16 do not count.

    Parameters
    ----------
    person_index : array of int, shape (n,)
        The person to whom each record belongs, from 0.
    """
    order = np.argsort(person_index, kind="stable")
    counts = np.bincount(person_index)
    first_places = np.cumsum(counts) - counts
    place = np.empty(len(person_index), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.repeat(first_places, counts)
    counted = np.minimum(counts, MAX_ROWS_PER_PERSON)[person_index]
    return np.asarray(np.where(place < MAX_ROWS_PER_PERSON, WEIGHT_ONE // counted, 0))


def lifted_size(row_size: int) -> int:
    """Return the number of distinct entries of the lifted second moment of a row."""
    return (row_size + 1) * (row_size + 2) // 2


# ---- kernels: exact sums over a block of records ----


def _apply_to_block(
    manifold: Manifold,
    ball: Ball | None,
    present: tuple[bool, ...],
    kernel: Any,
    block: Any,
    *columns: Any,
) -> np.ndarray:
    """Apply a kernel to a block of records and their class, predictor and weight.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    ball : Ball or None
        The ball into which records are clipped; None if they are clipped already.
    present : three bool
        Which of class, predictor and weight are among the columns. A missing class or
        predictor is 0, a missing weight is 2^20.
    kernel : function of (points, class_index, predictor, weights)
        Returns an array of whole numbers, such as exact sums over these records.
    block : array, shape (k, *point_shape)
        Some of the records.
    *columns : arrays, shape (k,)
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        points = np.asarray(block, dtype=np.float64)
        if ball is not None:
            points = np.asarray(project_to_ball(manifold, *ball, points))
        given = iter([np.asarray(column).reshape(-1) for column in columns])
        size = len(points)
        defaults = (
            np.zeros(size, dtype=np.int64),
            np.zeros(size),
            np.full(size, WEIGHT_ONE),
        )
        class_index, predictor, weights = (
            next(given) if is_present else default
            for is_present, default in zip(present, defaults, strict=True)
        )
        sums = kernel(points, class_index.astype(np.int64), predictor, weights)
        return np.asarray(sums, dtype=np.int64)


def _sum_logs(
    chart: RowChart,
    grid: FixedPoint,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the exact weighted sum of logarithms, clipped to the radius of a chart.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers, with the released base point and
        clipping length.
    grid : FixedPoint
        The grid to which entries are rounded, so that sums are exact.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        How much each record counts, in units of 2^-20.
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
        How much each record counts, in units of 2^-20.
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
    """Return the exact sums of wwᵀ over the rows of each component.

    The entries of a component are λ², √2·λ·u, and the second moment of u in orthonormal
    coordinates.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers, with the released base point and
        clipping length.
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
        How much each record counts, in units of 2^-20.
    """
    rows = chart.rows(points, predictor)
    component = assignment.components(rows, class_index)
    units = rows / chart.longest_row
    size = units.shape[1]
    upper_rows, upper_columns = np.triu_indices(size, 1)
    entries = [
        np.full((len(units), 1), _LIFT_SQUARE),
        sqrt(2 * _LIFT_SQUARE) * units,
        units**2,
        sqrt(2) * units[:, upper_rows] * units[:, upper_columns],
    ]
    terms = np.concatenate(entries, axis=1) * (weights / WEIGHT_ONE)[:, None]
    sums = [
        grid.sums(terms[component == index]) for index in range(assignment.n_components)
    ]
    return np.concatenate(sums, axis=1).ravel()


def _sum_clusters(
    chart: RowChart,
    assignment: Assignment,
    grid: FixedPoint,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the exact sums of (1, u) over the rows of each cluster.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers, with the released base point and
        clipping length.
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
        How much each record counts, in units of 2^-20.
    """
    rows = chart.rows(points, predictor)
    cluster = assignment.clusters(rows)
    ones = np.ones((len(rows), 1))
    terms = np.concatenate([ones, rows / chart.longest_row], axis=1)
    terms = terms * (weights / WEIGHT_ONE)[:, None]
    sums = [
        grid.sums(terms[cluster == index]) for index in range(len(assignment.centers))
    ]
    return np.concatenate(sums, axis=1).ravel()


def _count_cells(
    chart: RowChart,
    components: Components,
    cells: CellArrays,
    wanted: np.ndarray,
    points: np.ndarray,
    class_index: np.ndarray,
    predictor: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the weight of the records in each of the wanted cells.

    Parameters
    ----------
    chart : RowChart
        The map from records to rows of numbers, with the released base point and
        clipping length.
    components : Components
        The released laws of rows: one for each class.
    cells : CellArrays
        The tree, of which the cells are leaves.
    wanted : array of int
        The indices of the cells whose records are counted.
    points : array of shape (k, *point_shape)
        Some of the records.
    class_index : array of int, shape (k,)
        The class of each record.
    predictor : array of shape (k,)
        The predictor of each record, in [-1, 1].
    weights : array of shape (k,)
        How much each record counts, in units of 2^-20.
    """
    rows = chart.rows(points, predictor)
    positions = components.to_unit_cube(rows, class_index)
    leaf = find_leaves(cells, class_index, positions)
    totals = np.zeros(len(cells.left), dtype=np.int64)
    np.add.at(totals, leaf, weights.astype(np.int64))
    return np.asarray(totals[wanted])


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
        return isinstance(statistic, SyntheticPopulation)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.PROJECT_TO_BALL,)

    @property
    def has_enough_records(self) -> bool:
        """Whether nμ suffices for each class."""
        per_class = self.statistic.n / self.statistic.classes
        return bool(per_class / self.scale >= self.enough_n_mu)

    def prepare_data(self, data: Any) -> PopulationData:
        """Return the records with their columns; those in memory are clipped.

        Parameters
        ----------
        data : PopulationData, Records or array
            The records, maybe with their classes, predictors and persons.
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
        """Release a base point and a clipping length.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for what is released here.
        """
        base = self._find_base(queries, budget)
        radius = self._find_radius(queries, budget, base)
        has_predictor = self.statistic.x_range is not None
        return RowChart(self.statistic.manifold, base, radius, has_predictor)

    @abstractmethod
    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the model of the rows. Spends the rest of `budget`.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for what is released here.
        chart : RowChart
            The released base point and clipping length.
        """

    def _find_base(self, queries: PopulationQueries, budget: StageBudget) -> np.ndarray:
        """Take one noisy step from the center of the ball to the records.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            Is charged for the mean logarithm.
        """
        radius = self.statistic.ball.radius
        answer = queries.mean_log(radius)
        unit = 2.0 ** ceil(log2(radius))
        noisy_mean, noise_std = budget.release(
            "location", _LOCATION_SHARE, answer.sensitivity / unit, answer.values / unit
        )
        step = shrink_vector(unit * noisy_mean, unit * noise_std)
        length = float(np.linalg.norm(step))
        return base_or_center(
            self.statistic, step * min(1.0, radius / max(length, radius))
        )

    def _find_radius(
        self, queries: PopulationQueries, budget: StageBudget, base: np.ndarray
    ) -> float:
        """Find a distance from the base point that few records exceed.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            Is charged for a binary search.
        base : array of shape point_shape
            The public point from which distances are measured.
        """
        count_std = _RADIUS_SEARCH.count_std(self.scale, _RADIUS_SHARE)
        if self.noise_kind == "laplace":
            count_std = sqrt(2) * self.scale * _RADIUS_SEARCH.queries / _RADIUS_SHARE
        n = self.statistic.n
        allowed_outside = min(n / 4, max(_CLIPPED_SHARE * n, count_std))
        # Records of the ball are no farther than this from any point (the triangle).
        center, ball_radius = self.statistic.ball
        distance = float(self.statistic.manifold.dist(center, base))
        found = _RADIUS_SEARCH.find(
            budget,
            partial(queries.count_beyond, base),
            ball_radius + min(distance, ball_radius),
            allowed_outside,
            _RADIUS_SHARE,
        )
        return float(found)

    def _release_moments(
        self,
        queries: PopulationQueries,
        budget: StageBudget,
        chart: RowChart,
        assignment: Assignment,
        share: float,
    ) -> NoisyMoments:
        """Release the share, the mean and the covariance of each component.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for what is released here.
        chart : RowChart
            The map from records to rows of numbers, with the released base point and
            clipping length.
        assignment : Assignment
            Which component each row belongs to.
        share : float
            The fraction of the budget.
        """
        answer = queries.lifted_moments(chart, assignment)
        noisy, std = budget.release("moments", share, answer.sensitivity, answer.values)
        blocks = noisy.reshape(assignment.n_components, -1)
        share_std = std / _LIFT_SQUARE
        shares = blocks[:, 0] / _LIFT_SQUARE
        if assignment.n_components == 1:
            shares, share_std = np.ones(1), 0.0
        smallest = _SMALLEST_SHARE / assignment.n_components
        laws = [
            normal_law(block, max(float(part), smallest), std, chart.longest_row)
            for block, part in zip(blocks, shares, strict=True)
        ]
        means, axes, scales = (np.stack(parts) for parts in zip(*laws, strict=True))
        components = Components(assignment.class_of_component, means, axes, scales)
        return NoisyMoments(shares, share_std, components)

    # ---- predicted errors ----

    def predict_error(self) -> float:
        """Predict the energy distance between synthetic and real records.

        Three public populations in the ball are released by simulation: a skewed one,
        two clusters, and a ring. The result is the root mean square of the energy
        distances between synthetic records and others of the same population, raised to
        what so many simulated records can resolve. Distances are those of normal
        coordinates at the center of the ball, which are computed at once.
        """
        statistic = self.statistic
        flat = Euclidean(statistic.manifold.dim)
        center = statistic.ball.center
        rng = np.random.default_rng(_SEED)
        squares = []
        for shape in (_skewed_rows, _two_clusters, _ring):
            size = min(statistic.n, _SIMULATED_RECORDS)
            data = self._public_data(shape, rng, size)
            # A tree fits the very records that it has counted, hence others here.
            others = self._public_data(shape, rng, _COMPARED_RECORDS).records.array()
            real = logs_at(statistic.manifold, center, others)
            for _ in range(_SIMULATED_RUNS):
                simulated = self.run(
                    self.queries(data), self.simulated_noise(rng)
                ).value
                points = simulated.sample_canonical(_COMPARED_RECORDS, rng).points
                synthetic = logs_at(statistic.manifold, center, points)
                squares.append(squared_energy_distance(flat, real, synthetic))
        resolution = float(np.std(squares)) / sqrt(len(squares))
        return sqrt(max(float(np.mean(squares)), resolution))

    def _public_data(
        self, shape: Any, rng: np.random.Generator, size: int
    ) -> PopulationData:
        """Return a public population of records, which stand for n of their kind.

        Parameters
        ----------
        shape : function of (rng, size, dim)
            Draws rows of length about 1.
        rng : numpy.random.Generator
            The generator of the records.
        size : int
            How many records.
        """
        statistic = self.statistic
        center, radius = statistic.ball
        rows = shape(rng, size, statistic.manifold.dim)
        reach = min(radius, 0.9 * (statistic.manifold.injectivity_radius or inf))
        coordinates = clip_rows_to(reach / 2 * rows, reach)
        points = np.asarray(
            statistic.manifold.from_normal_coordinates(center, coordinates)
        )
        records = open_records(points, statistic.manifold.point_shape, min_records=1)
        class_index = np.arange(size) % statistic.classes
        return PopulationData(records, class_index, np.tanh(rows[:, 0]))


def normal_law(
    block: np.ndarray, share: float, std: float, longest_row: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, axes and scales of a component from its noisy lifted moment.

    The mean is shrunk toward the base point, and the covariance toward a multiple of
    the identity, by the rule of James and Stein with the known noise. Variances are
    raised to a small fraction of their mean.

    Parameters
    ----------
    block : array
        The noisy entries of the component (`_sum_lifted`).
    share : float
        The fraction of the records in the component.
    std : float
        The standard deviation of the noise in each entry.
    longest_row : float
        The length by which rows were divided.

    Returns
    -------
    mean, axes, scales : arrays, shapes (k,), (k, k), (k,)
        The mean, the principal axes as columns, and the standard deviation along each,
        in the unit of rows.
    """
    size = round((sqrt(8 * block.size + 1) - 3) / 2)
    mean_unit = sqrt(2 * _LIFT_SQUARE) * share
    mean = shrink_vector(block[1 : size + 1] / mean_unit, std / mean_unit)
    mean = mean / max(1.0, float(np.linalg.norm(mean)))
    second = vector_to_symmetric(block[size + 1 :] / share, size)
    covariance = second - np.outer(mean, mean)

    noise = std / share
    largest = 1.0 / size
    mean_variance = float(np.clip(np.trace(covariance) / size, 1e-6, largest))
    deviation = symmetric_to_vector(covariance - mean_variance * np.eye(size))
    shrunk = vector_to_symmetric(shrink_vector(deviation, noise), size)
    eigenvalues, axes = np.linalg.eigh(shrunk + mean_variance * np.eye(size))
    # The sign of an eigenvector is arbitrary: its largest entry is positive.
    leading = np.argmax(np.abs(axes), axis=0)
    axes = axes * np.sign(axes[leading, np.arange(size)])
    variances = np.clip(eigenvalues, _SMALLEST_VARIANCE_RATIO * mean_variance, 1.0)
    variances *= size * mean_variance / variances.sum()
    return longest_row * mean, axes, longest_row * np.sqrt(variances)


def _normalized(shares: np.ndarray) -> np.ndarray:
    """Return noisy shares as nonnegative numbers that add up to 1."""
    positive = np.maximum(shares, 0.0)
    if positive.sum() <= 0:
        return np.full(len(shares), 1 / len(shares))
    return np.asarray(positive / positive.sum())


def uniform_moments(statistic: SyntheticPopulation) -> NoisyMoments:
    """Return uniform laws on a whole torus, one for each class; they are public.

    The shares of the classes are unknown, which an infinite deviation says.

    Parameters
    ----------
    statistic : SyntheticPopulation
        Of records on a whole torus.
    """
    classes, size = statistic.classes, statistic.row_size
    half_sides = np.ones(size)
    # An angle of π is this part of the longest logarithm.
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
            The privacy budget that is left. It is charged for what is released here.
        chart : RowChart
            The map from records to rows of numbers, with the released base point and
            clipping length.
        """
        one_center = np.zeros((1, self.statistic.row_size))
        assignment = Assignment(one_center, self.statistic.classes)
        moments = self._release_moments(queries, budget, chart, assignment, 1.0)
        return undivided_population(self.statistic, chart, moments)


def undivided_population(
    statistic: SyntheticPopulation, chart: RowChart, moments: NoisyMoments
) -> ReleasedPopulation:
    """Return the population whose cells are whole components.

    Parameters
    ----------
    statistic : SyntheticPopulation
        The population that is released, with its public ball and number of records.
    chart : RowChart
        The map from records to rows of numbers, with the released base point and
        clipping length.
    moments : NoisyMoments
        The released shares, means and covariances of the components.
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
        """How many clusters there are: one for every 60 records over the noise, 2 to 8."""
        per_class = self.statistic.n / self.statistic.classes
        return int(np.clip(per_class / self.scale / 60, 2, 8))

    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the clusters, and then the moments of each with all that is left.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for what is released here.
        chart : RowChart
            The map from records to rows of numbers, with the released base point and
            clipping length.
        """
        one_center = Assignment(np.zeros((1, self.statistic.row_size)), 1)
        overall = self._release_moments(
            queries,
            budget,
            chart,
            one_center._replace(classes=self.statistic.classes),
            _OVERALL_SHARE_OF_MIXTURE,
        )
        centers = clusters_of_normals(overall, self.clusters)
        for _ in range(_STEPS_OF_MIXTURE):
            assignment = Assignment(centers, self.statistic.classes)
            answer = queries.cluster_sums(chart, assignment)
            noisy, std = budget.release(
                "clusters", _STEP_SHARE_OF_MIXTURE, answer.sensitivity, answer.values
            )
            centers = moved_centers(centers, noisy, std, chart.longest_row)
        assignment = Assignment(centers, self.statistic.classes)
        moments = self._release_moments(queries, budget, chart, assignment, 1.0)
        return undivided_population(self.statistic, chart, moments)


def clusters_of_normals(moments: NoisyMoments, n_clusters: int) -> np.ndarray:
    """Return where clusters of the released normal laws are, by Lloyd's algorithm.

    Parameters
    ----------
    moments : NoisyMoments
        The released shares, means and covariances of the components.
    n_clusters : int
        The number of clusters.

    Returns
    -------
    array, shape (n_clusters, k)
    """
    rng = np.random.default_rng(_SEED)
    component = rng.choice(
        len(moments.shares), size=_ROWS_FOR_STARTS, p=_normalized(moments.shares)
    )
    uniform = rng.random((_ROWS_FOR_STARTS, moments.components.means.shape[1]))
    rows = moments.components.from_unit_cube(uniform, component)
    centers = rows[:1]
    while len(centers) < n_clusters:  # the farthest row is the next center
        squares = ((rows[:, None, :] - centers[None]) ** 2).sum(axis=-1)
        centers = np.vstack([centers, rows[np.argmax(squares.min(axis=1))]])
    for _ in range(_STEPS_OF_MIXTURE):
        nearest = Assignment(centers, 1).clusters(rows)
        members = [rows[nearest == index] for index in range(n_clusters)]
        centers = np.array(
            [
                part.mean(axis=0) if len(part) else center
                for part, center in zip(members, centers, strict=True)
            ]
        )
    return centers


def moved_centers(
    centers: np.ndarray, noisy: np.ndarray, std: float, longest_row: float
) -> np.ndarray:
    """Return the quotients of noisy sums and shares of clusters.

    A center whose share is hidden by noise stays where it is. Others are shrunk toward
    where they were, by the rule of James and Stein, and stay in the ball of the rows.

    Parameters
    ----------
    centers : array, shape (clusters, k)
        The centers before the step.
    noisy : array
        The noisy shares and sums (`PopulationQueries.cluster_sums`).
    std : float
        The standard deviation of the noise in each of them.
    longest_row : float
        The length by which rows were divided.
    """
    blocks = noisy.reshape(len(centers), -1)
    moved = centers.copy()
    for index, block in enumerate(blocks):
        share = float(block[0])
        if share < 3 * std:
            continue
        step = longest_row * block[1:] / share - centers[index]
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
        return (PostProcessing.CONSISTENT_COUNTS, PostProcessing.PROJECT_TO_BALL)

    @property
    def level_shares(self) -> np.ndarray:
        """The fraction of the tree's budget that each level has, from public numbers.

        The depth is the largest for which an average cell of the last level holds more
        records than its noise hides.
        """
        statistic = self.statistic
        tree_share = (1 - _LOCATION_SHARE - _RADIUS_SHARE) * (1 - _MOMENT_SHARE_OF_TREE)
        if statistic.is_whole_torus:
            tree_share = 1.0
        is_laplace = self.noise_kind == "laplace"
        exponent = 0.5 if is_laplace else 2 / 3
        best = np.ones(1)
        for depth in range(1, _MAX_DEPTH + 1):
            levels = np.arange(1, depth + 1)
            cells = 2.0**levels
            diameters = 2.0 ** (-levels / statistic.row_size)
            shares = (cells * diameters) ** exponent
            shares = shares / shares.sum()
            last_std = self._count_std(tree_share * float(shares[-1]))
            if statistic.n / 2.0**depth < _WORTHWHILE_COUNT * last_std / 2:
                break
            best = shares
        return best

    def _find_chart(self, queries: PopulationQueries, budget: StageBudget) -> RowChart:
        """Return the public chart of a whole torus; elsewhere release one.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for what is released here.
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
        """Return the standard deviation of a count with a fraction of the budget."""
        if self.noise_kind == "laplace":
            return 2 * sqrt(2) * self.scale / share
        return sqrt(2) * self.scale / sqrt(share)

    def _learn(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the moments of each class, and then counts level by level.

        Parameters
        ----------
        queries : PopulationQueries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for what is released here.
        chart : RowChart
            The map from records to rows of numbers, with the released base point and
            clipping length.
        """
        statistic = self.statistic
        one_center = np.zeros((1, statistic.row_size))
        assignment = Assignment(one_center, statistic.classes)
        if statistic.is_whole_torus:
            moments = uniform_moments(statistic)
        else:
            share = _MOMENT_SHARE_OF_TREE * budget.share_left
            moments = self._release_moments(queries, budget, chart, assignment, share)

        lengths = moments.components.scales
        tree = CellTree(lengths)
        counts = list(statistic.n * moments.shares)
        variances = [(statistic.n * moments.share_std) ** 2] * len(counts)
        frontier = list(range(len(counts)))
        tree_share = budget.share_left
        for level_share in self.level_shares:
            share = min(tree_share * float(level_share), budget.share_left)
            worthwhile = _WORTHWHILE_COUNT * self._count_std(share)
            # A root of unknown count is halved in any case.
            frontier = [
                cell
                for cell in frontier
                if counts[cell] > worthwhile or np.isinf(variances[cell])
            ]
            if not frontier:
                break
            children = tree.split(frontier)
            exact = queries.cell_counts(
                chart, moments.components, tree.arrays(), np.array(children)
            )
            answer = budget.release("cells", share, sqrt(2), exact, l1_sensitivity=2.0)
            counts += answer.values.tolist()
            variances += [answer.std**2] * len(children)
            frontier = children
        return self._population(
            chart, moments, tree, np.array(counts), np.array(variances)
        )

    def _population(
        self,
        chart: RowChart,
        moments: NoisyMoments,
        tree: CellTree,
        counts: np.ndarray,
        variances: np.ndarray,
    ) -> ReleasedPopulation:
        """Return the population that follows from the noisy counts.

        Parameters
        ----------
        chart : RowChart
            The map from records to rows of numbers, with the released base point and
            clipping length.
        moments : NoisyMoments
            The released shares, means and covariances of the components.
        tree : CellTree
            The cells: all that were made by halving.
        counts, variances : arrays
            The noisy counts of all cells, and their variances.
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
    """Return rows of centered Gamma variables with variances ∝ 1/k, of length about 1."""
    rows = rng.gamma(4.0, size=(size, dim)) / 2 - 2.0
    rows = rows / np.sqrt(np.arange(1, dim + 1))
    return np.asarray(rows / sqrt(np.mean(np.sum(rows**2, axis=1))))


def _two_clusters(rng: np.random.Generator, size: int, dim: int) -> np.ndarray:
    """Return rows in two round clusters on either side of 0."""
    rows = 0.35 * rng.standard_normal((size, dim)) / sqrt(dim)
    rows[:, 0] += np.where(rng.random(size) < 0.4, -1.0, 0.7)
    return np.asarray(rows)


def _ring(rng: np.random.Generator, size: int, dim: int) -> np.ndarray:
    """Return rows on a ring about 0; in one dimension, at both ends of an interval."""
    rows = 0.15 * rng.standard_normal((size, dim)) / sqrt(dim)
    angle = 2 * np.pi * rng.random(size)
    rows[:, 0] += np.cos(angle)
    if dim > 1:
        rows[:, 1] += np.sin(angle)
    return np.asarray(rows)
