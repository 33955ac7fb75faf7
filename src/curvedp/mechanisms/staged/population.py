"""Mechanisms that release a population: a distribution from which synthetic records are
drawn. A *row* is a record as a vector: its clipped logarithm at a released base point,
maybe with a predictor. A *component* holds the rows of one class and cluster. A *block*
is a part of the records, read at once.

All three begin in the same way: a noisy step from the public center to a base point, a private
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
from curvedp.core.statistic import Statistic
from curvedp.geometry import Euclidean
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.mechanisms.staged.budget import (
    REMAINING_BUDGET,
    StageBudget,
    StagedMechanism,
    StagedResult,
)
from curvedp.mechanisms.staged.population_sums import (
    LIFT_SQUARE,
    Assignment,
    PopulationQueries,
)
from curvedp.mechanisms.staged.quantile_search import BinarySearch
from curvedp.mechanisms.vector import NOISE_KINDS, AddNoise, NoiseKind
from curvedp.records.base import open_records
from curvedp.statistics.cell_tree import (
    CellTree,
    consistent_counts,
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
# Clusters start at those of this many rows of the released normal distribution.
_ROWS_FOR_STARTS = 512

# The search for the clipping length, down to 1.25^-31 = 1/1000 of the largest.
_RADIUS_SEARCH = BinarySearch(queries=5, ratio=1.25)
# This fraction of the records may be clipped, or as many as the noise of a count hides.
_CLIPPED_SHARE = 0.01

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


class NoisyMoments(NamedTuple):
    """The released shares, means and covariances of the components.

    Attributes
    ----------
    shares : array, shape (m,)
        The noisy fraction of the records in each component.
    share_std : float
        The standard deviation of the noise in a share; 0 where it is known.
    components : Components
        The released distributions of rows: one for each class.
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
        return StagedResult(self._release_model(queries, budget, chart), budget)

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
    def _release_model(
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
            The noisy shares, and a normal distribution of rows for each component.
        """
        exact_moments = queries.lifted_moments(chart, assignment)
        noisy, std = budget.release(
            "moments", share, exact_moments.sensitivity, exact_moments.values
        )
        entries_by_component = noisy.reshape(assignment.n_components, -1)

        # The first entry of a component is λ² times its share.
        shares = entries_by_component[:, 0] / LIFT_SQUARE
        share_std = std / LIFT_SQUARE
        if assignment.n_components == 1:
            shares = np.ones(1)
            share_std = 0.0

        smallest_share = _SMALLEST_SHARE / assignment.n_components
        laws = [
            estimate_normal(
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


def estimate_normal(
    entries: np.ndarray, share: float, std: float, longest_row: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate the normal distribution of a component from its noisy moments.

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
    mean_factor = sqrt(2 * LIFT_SQUARE) * share
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
    """Return the uniform distribution on a whole torus for each class.

    A tree starts from these public distributions if the public ball is the whole torus,
    so that no budget is spent for moments.

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
    """One normal distribution of logarithms for each class, at a private base point."""

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "wrapped-gaussian", option="wrapped-gaussian", reads="records", is_staged=True
    )

    def _release_model(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the moments of each class with the remaining budget.

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
            One normal distribution of rows for each class.
        """
        one_center = np.zeros((1, self.statistic.row_size))
        assignment = Assignment(one_center, self.statistic.classes)
        moments = self._release_moments(
            queries, budget, chart, assignment, REMAINING_BUDGET
        )
        return population_without_cells(self.statistic, chart, moments)


def population_without_cells(
    statistic: SyntheticPopulation, chart: RowChart, moments: NoisyMoments
) -> ReleasedPopulation:
    """Return a population whose components are the released distributions themselves.

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
        The model: synthetic rows are drawn from the distribution of each component, in
        the proportion of the shares.
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
    """Several normal distributions of logarithms, in clusters that are found privately.

    The moments of all rows are released first. The clusters start where those of the
    released normal distribution are, which is post-processing; then noisy steps of
    Lloyd's algorithm move them. With classes, each cluster has a normal distribution
    for each class.
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

    def _release_model(
        self, queries: PopulationQueries, budget: StageBudget, chart: RowChart
    ) -> ReleasedPopulation:
        """Release the clusters, and then their moments with the remaining budget.

        Clusters start where those of a released normal distribution are. Each of a few
        steps moves the centers to the noisy means of their rows.

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
            One normal distribution of rows for each class and cluster.
        """
        # First the moments of each class as a whole; clusters start from them.
        one_center = np.zeros((1, self.statistic.row_size))
        undivided = Assignment(one_center, self.statistic.classes)
        overall = self._release_moments(
            queries, budget, chart, undivided, _OVERALL_SHARE_OF_MIXTURE
        )
        centers = starting_centers(overall, self.clusters)

        for _ in range(_STEPS_OF_MIXTURE):
            assignment = Assignment(centers, self.statistic.classes)
            exact_sums = queries.cluster_sums(chart, assignment)
            noisy, std = budget.release(
                "clusters",
                _STEP_SHARE_OF_MIXTURE,
                exact_sums.sensitivity,
                exact_sums.values,
            )
            centers = move_centers(centers, noisy, std, chart.longest_row)
        assignment = Assignment(centers, self.statistic.classes)
        moments = self._release_moments(
            queries, budget, chart, assignment, REMAINING_BUDGET
        )
        return population_without_cells(self.statistic, chart, moments)


def starting_centers(moments: NoisyMoments, n_clusters: int) -> np.ndarray:
    """Return the cluster centers from which the private steps of a mixture start.

    They are found by Lloyd's algorithm among rows that are drawn from the released
    normal distributions with a public seed. So this is post-processing.

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
        rows_of_center = rows[nearest_center == index]
        if len(rows_of_center):
            moved[index] = rows_of_center.mean(axis=0)
    return moved


def move_centers(
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

    The cells are boxes in coordinates in which the released normal distribution of a
    class is uniform, so that an undivided cell is filled by that distribution. A cell
    is halved along its longest side. Level j has the fraction ∝ (m·Δ)^{2/3} of the
    budget for Gaussian noise, and (m·Δ)^{1/2} for Laplace noise, with m cells of
    diameter Δ: that minimizes the sum of the levels' transport costs (He, Vershynin &
    Zhu 2023, for Laplace noise).

    On a whole torus the boxes are those of the angles at the public center, and all of
    the budget is for counts: a normal distribution there would say little and cost
    much.
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

    def _release_model(
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
