"""A released population: a distribution on a manifold from which synthetic records are
drawn. A *row* is a record's clipped logarithm at a released base point, maybe with a
predictor. A *component* is the normal distribution of the rows of one class or cluster;
*leaves* are cells with their shares of the rows.

`SyntheticPopulation` is the statistic, in public terms. `ReleasedPopulation` is what a
mechanism of `curvedp.mechanisms.staged.population` makes of released numbers; drawing
records from it is post-processing. docs/theory/synthetic-records.md has the theorems.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, pi, sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from curvedp import _validate
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import AtLeastTwo, Count, assign
from curvedp.core.statistic import Ball, Statistic, is_point
from curvedp.errors import ParameterError
from curvedp.geometry import Torus, project_to_ball
from curvedp.geometry.capabilities import canonical_center, move_from_origin
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.geometry.manifold import Manifold
from curvedp.records.base import Records, open_records
from curvedp.statistics.searched_ball import BallSearchStatistic, SearchData
from curvedp.statistics.tangent_moments import check_dimension
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# Draws outside the ball are made again this many times, and then moved into it.
_MAX_REDRAWS = 32

# A draw is no farther from the base point than this share of the injectivity radius.
_SHARE_OF_INJECTIVITY_RADIUS = 0.98

# Normal quantiles are cut here: beyond, doubles have no digits left.
_SMALLEST_PROBABILITY = 1e-12


@dataclass(frozen=True, eq=False)
class SyntheticPopulation(Statistic):
    """The distribution of n records in a public ball, maybe with classes or a predictor.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    center : point
        The center of the public ball into which records are clipped.
    radius : float
        The radius of that ball.
    n : int
        The number of records, or of people if records belong to people.
    classes : int
        The number of classes; 1 without labels.
    x_range : pair of float, or None
        The public range of the predictor; None without one.
    """

    manifold: Manifold
    center: Any
    radius: float
    n: AtLeastTwo
    classes: Count = 1
    x_range: Any = None

    name: ClassVar[str] = "synthetic population"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
        ProtectedUnit.RECORD_IN_CLASS,
        ProtectedUnit.PERSON_IN_CLASS,
        ProtectedUnit.LABELED_RECORD,
        ProtectedUnit.LABELED_PERSON,
        ProtectedUnit.PREDICTOR_AND_RESPONSE,
    )

    def __post_init__(self) -> None:
        """Check the ball and the counts, the dimension, and the predictor's range."""
        super().__post_init__()
        check_dimension(self.manifold)
        assign(self, x_range=check_range(self.x_range))

    @property
    def value_space(self) -> Manifold:
        """The manifold of the synthetic records."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """2/n, the sensitivity of a mean of n vectors of length at most 1.

        Every stage of the mechanism multiplies it by the bound on its own vectors.
        """
        return 2 / self.n

    @property
    def public_count(self) -> int:
        """The number n of records or people, which is public."""
        return self.n

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """The noisy counts of cells are made consistent with each other."""
        return (PostProcessing.CONSISTENT_COUNTS,)

    @cached_property
    def ball(self) -> Ball:
        """The public ball in the canonical frame, in which everything is computed.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.
        """
        center = canonical_center(self.manifold, self.center)
        return Ball(np.asarray(center), self.radius)

    @property
    def is_whole_torus(self) -> bool:
        """Whether the ball holds a whole torus, so that records may be anywhere.

        Then nothing is clipped, and no ball has to be searched.
        """
        if not isinstance(self.manifold, Torus):
            return False
        return self.radius >= pi * sqrt(self.manifold.dim)

    @property
    def row_size(self) -> int:
        """The number of entries of a record's row: its logarithm and its predictor."""
        return self.manifold.dim + (self.x_range is not None)


# The mechanisms by the name of their model.
MECHANISM_OF_MODEL = {
    "wrapped-gaussian": "wrapped-gaussian",
    "mixture": "gaussian-mixture",
    "tree": "cell-tree",
}
MODELS = tuple(MECHANISM_OF_MODEL)


@dataclass(frozen=True, eq=False)
class SearchedPopulation(BallSearchStatistic):
    """The distribution of n records in a private ball.

    Attributes
    ----------
    model : {"wrapped-gaussian", "mixture", "tree"}
        The model: one normal distribution, several, or cells with counts.
    classes : int
        The number of classes; 1 without labels.
    x_range : pair of float, or None
        The public range of the predictor; None without one.
    """

    model: Annotated[str, partial(_validate.choice, options=MODELS)]
    classes: Count = 1
    x_range: Any = None

    name: ClassVar[str] = "synthetic population in a private ball"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        SyntheticPopulation.privacy_units
    )

    def __post_init__(self) -> None:
        """Check the outer ball and the counts, the dimension, and the predictor's range."""
        super().__post_init__()
        check_dimension(self.manifold)
        assign(self, x_range=check_range(self.x_range))

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """The post-processing of the population in the ball that is found."""
        return self.with_ball(self.outer_ball).post_processing

    def with_ball(self, ball: Ball) -> SyntheticPopulation:
        """Return the population of the records clipped to a released ball.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.
        """
        return SyntheticPopulation(
            self.manifold, *ball, self.n, self.classes, self.x_range
        )

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the one mechanism of the chosen model, whatever the kind of noise.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            Not used: the model decides.
        in_memory : bool
            Not used: the model decides.
        """
        return [MECHANISM_OF_MODEL[self.model]]

    def simulated_error(
        self,
        final_mechanism: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the predicted error of the final mechanism in the ball that was found.

        It has a formula, so nothing is drawn; only the ball comes from a simulated
        search.

        Parameters
        ----------
        final_mechanism : Mechanism
            The final mechanism.
        rng : numpy.random.Generator
            Not used.
        records : array
            Not used.
        mean : point
            Not used.

        Returns
        -------
        float
            What the mechanism's `predict_error` returns.
        """
        return float(final_mechanism.predict_error())

    def load_data(self, data: Any) -> "PopulationData":
        """Return the records with their columns; those in memory are clipped.

        Parameters
        ----------
        data : PopulationData, Records or array
            The records, alone or with classes, predictors and person indices.

        Returns
        -------
        PopulationData
            The same columns, with clipped records.

        Raises
        ------
        ParameterError
            If the number of records or people is not n.
        """
        population = as_population_data(self.manifold, data)
        check_size(population, self.n)
        records = population.records
        if records.location == "memory":
            outer = PublicBall(self.manifold, *self.outer_ball)
            clipped = clip_records(outer, records.array())
            records = open_records(clipped, self.manifold.point_shape, min_records=1)
        return population._replace(records=records)

    def split_data(self, data: "PopulationData") -> SearchData:
        """Return the records for the search and for the final release.

        If a person has several records, the ball is found for the first one of each.

        Parameters
        ----------
        data : PopulationData
            The records with their classes, predictors and person indices, as prepared.

        Returns
        -------
        SearchData
            The records for the search; for the final release all data.
        """
        records = data.records
        if data.person_index is not None:
            _, first_of_person = np.unique(data.person_index, return_index=True)
            records = open_records(
                records.array()[first_of_person],
                self.manifold.point_shape,
                min_records=1,
            )
        return SearchData(records, data)


class PopulationData(NamedTuple):
    """Records with what belongs to each of them. NOT private.

    Attributes
    ----------
    records : Records
        The records.
    class_index : array of int, optional
        The class of each record, from 0.
    predictor : array, optional
        The predictor of each record, in [-1, 1].
    person_index : array of int, optional
        The person to whom each record belongs, from 0.
    """

    records: Records
    class_index: Any = None
    predictor: Any = None
    person_index: Any = None


def as_population_data(manifold: Manifold, data: Any) -> PopulationData:
    """Return records, which may have no columns, as `PopulationData`.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    data : PopulationData, Records or array
        What the caller passes.

    Returns
    -------
    PopulationData
        Records of the manifold's point shape, with None for missing columns.
    """
    if isinstance(data, PopulationData):
        return data
    if isinstance(data, Records):
        return PopulationData(data)
    return PopulationData(open_records(data, manifold.point_shape, "records"))


def check_size(data: PopulationData, n: int) -> None:
    """Raise `ParameterError` unless there are n records, or n people.

    Parameters
    ----------
    data : PopulationData
        The records, perhaps with the person to whom each belongs.
    n : int
        The public number of records, or of people.

    Raises
    ------
    ParameterError
        If the data have another number.
    """
    n_units = data.records.n
    if data.person_index is not None:
        n_units = len(np.unique(data.person_index))
    if n_units != n:
        raise ParameterError(f"{n_units} records or people, not {n}")


def check_range(x_range: Any) -> np.ndarray | None:
    """Return the public range of a predictor as an array of two numbers, or None.

    Predictors are clipped to this range before anything is computed.

    Parameters
    ----------
    x_range : pair of float, or None
        What the caller passes.

    Returns
    -------
    array of shape (2,), or None
        The lower and the upper end of the range.

    Raises
    ------
    ParameterError
        Unless it is None or two finite numbers, the smaller first.
    """
    if x_range is None:
        return None
    numbers = _validate.array("x_range", x_range)
    if numbers.shape == (2,) and np.isfinite(numbers).all():
        # Doubles hold squares and inverses of numbers in this range.
        if 1e-100 < numbers[1] - numbers[0] < 1e100:
            return np.array(numbers)
    raise ParameterError(
        "must be two finite numbers, the smaller first",
        parameter="x_range",
        value=x_range,
    )


class RowChart(NamedTuple):
    """The map from a record to a row of numbers: its logarithm, and its predictor.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    base : point
        A released point, at which logarithms are taken.
    radius : float
        A released length. Longer logarithms are shortened to it; it is the unit of the
        rows.
    has_predictor : bool
        Whether the last entry of a row is the predictor, in [-1, 1].
    """

    manifold: Manifold
    base: np.ndarray
    radius: float
    has_predictor: bool

    @property
    def longest_row(self) -> float:
        """A bound on the length of a row: 1, or √2 with a predictor.

        Sensitivities of sums of rows are multiples of it.
        """
        return float(np.sqrt(1.0 + self.has_predictor))

    def rows(self, points: np.ndarray, predictor: np.ndarray) -> np.ndarray:
        """Map records to rows of numbers, which all models of a population describe.

        A row contains the coordinates of the record's logarithm at the released base
        point, clipped in length and divided by the clipping length. If the population
        has a predictor, a number that accompanies each record, it is the last entry.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Points of the ball, in the canonical frame.
        predictor : array, shape (n,)
            The predictor of each record, in [-1, 1]. It is ignored if rows have none.

        Returns
        -------
        array, shape (n, row size)
            The rows. Their length is at most `longest_row`.
        """
        logs = logs_at(self.manifold, self.base, points)
        rows = clip_rows_to(logs, self.radius) / self.radius
        if not self.has_predictor:
            return rows
        return np.concatenate([rows, predictor[:, None]], axis=1)


class Components(NamedTuple):
    """Normal or uniform distributions of rows, one for each component of a population.

    Attributes
    ----------
    class_index : array of int, shape (m,)
        The class of each component.
    means : array, shape (m, k)
        The center of each component's distribution.
    axes : array, shape (m, k, k)
        The principal axes of each, as orthonormal columns.
    scales : array, shape (m, k)
        The standard deviation along each axis; of a uniform distribution, half the side
        of its box.
    is_uniform : bool
        Whether the distributions are uniform in a box about the mean.
    """

    class_index: np.ndarray
    means: np.ndarray
    axes: np.ndarray
    scales: np.ndarray
    is_uniform: bool = False

    def to_unit_cube(self, rows: np.ndarray, component: np.ndarray) -> np.ndarray:
        """Map rows to positions in [0, 1]^k by the distribution functions of their entries.

        A row is expressed along the axes of its component, and each coordinate is
        mapped by its distribution function. If the distribution of the component fits,
        cells of the cube of equal volume contain about equal numbers of records.

        Parameters
        ----------
        rows : array, shape (n, k)
            Rows as `RowChart.rows` returns them.
        component : array of int, shape (n,)
            The component of each row.

        Returns
        -------
        array, shape (n, k)
            Positions between 0 and 1.

        Notes
        -----
        The position of a row depends on this row alone, to the last bit. The result of a
        matrix product may be rounded differently if the number of rows changes. Then a
        record that changes its class could move others across the edge of a cell.
        """
        positions = np.empty(rows.shape)
        for index in range(len(self.means)):
            centered = rows - self.means[index]
            # Coordinates along the component's axes, the columns j of its matrix.
            along_axes = np.einsum("ni,ij->nj", centered, self.axes[index])
            is_in_component = (component == index)[:, None]
            np.copyto(positions, along_axes / self.scales[index], where=is_in_component)
        if self.is_uniform:
            return np.asarray(np.clip((1 + positions) / 2, 0.0, 1.0))
        return np.asarray(ndtr(positions))

    def from_unit_cube(
        self, positions: np.ndarray, component: np.ndarray
    ) -> np.ndarray:
        """Return the rows at positions in [0, 1]^k, the inverse of `to_unit_cube`.

        Synthetic rows are drawn with it: a uniform position in the cube becomes a row
        with the distribution of its component.

        Parameters
        ----------
        positions : array, shape (n, k)
            Positions in [0, 1]^k.
        component : array of int, shape (n,)
            The component of each row.

        Returns
        -------
        array, shape (n, k)
            Rows in the coordinates of the chart.
        """
        if self.is_uniform:
            standard = 2 * positions - 1
        else:
            inner = np.clip(positions, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
            standard = ndtri(inner)
        along_axes = standard * self.scales[component]
        # Row n is its component's matrix times its coordinates along the axes.
        offsets = np.einsum("nij,nj->ni", self.axes[component], along_axes)
        return np.asarray(self.means[component] + offsets)


class Leaves(NamedTuple):
    """The cells of a population that are not divided any further.

    Attributes
    ----------
    component : array of int, shape (m,)
        The component of each leaf.
    lower, upper : arrays, shape (m, k)
        Its corners in [0, 1]^k.
    weights : array, shape (m,)
        The share of the records in it; the shares add up to 1.
    """

    component: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weights: np.ndarray


class SyntheticRecords(NamedTuple):
    """Synthetic records with their classes and predictors.

    Attributes
    ----------
    points : array, shape (n, *point_shape)
        Points of the public ball.
    class_index : array of int, shape (n,)
        The class of each, from 0.
    predictor : array, shape (n,)
        In the public range; zeros without a predictor.
    """

    points: np.ndarray
    class_index: np.ndarray
    predictor: np.ndarray


@dataclass(frozen=True, eq=False)
class ReleasedPopulation:
    """A probability distribution on a manifold that consists of released numbers only.

    To draw a record, a leaf is drawn with the probability of its weight, and then a
    uniform position in the leaf. The position is mapped to a row of numbers, and the row
    to a point of the manifold.

    Attributes
    ----------
    statistic : SyntheticPopulation
        The statistic that was released, with its public parameters.
    chart : RowChart
        The map between points and rows of numbers.
    components : Components
        The distributions of rows, which map them to positions in the unit cube.
    leaves : Leaves
        The cells of the cube, with their released weights.
    """

    statistic: SyntheticPopulation
    chart: RowChart
    components: Components
    leaves: Leaves

    def table(self) -> np.ndarray:
        """Return the cells of the population as a table, with one row for each leaf.

        Certificates and saved files contain the population in this form. A leaf is a
        box in the unit cube that is not divided any further.

        Returns
        -------
        array of shape (leaves, 2 + 2·k)
            The share of the records in each leaf, its class, the k coordinates of its
            lower corner and those of its upper corner.
        """
        leaves = self.leaves
        class_index = self.components.class_index[leaves.component]
        return np.column_stack(
            [leaves.weights, class_index, leaves.lower, leaves.upper]
        )

    def sample(self, n: int, rng: np.random.Generator) -> SyntheticRecords:
        """Draw synthetic records. This is post-processing: it costs no privacy.

        Parameters
        ----------
        n : int
            The number of synthetic records.
        rng : numpy.random.Generator
            The generator of the draws. With the same seed it draws the same records.

        Returns
        -------
        SyntheticRecords
            Points in the frame of the records, with classes and predictors.
        """
        canonical_sample = self.sample_canonical(n, rng)
        moved = move_from_origin(
            self.chart.manifold, self.statistic.center, canonical_sample.points
        )
        return canonical_sample._replace(points=np.asarray(moved))

    def sample_canonical(self, n: int, rng: np.random.Generator) -> SyntheticRecords:
        """Draw synthetic records in the canonical frame, as `sample` does.

        A record outside of the public ball or range is drawn again from the same leaf,
        up to 32 times. If it is still outside, it is moved into the ball.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        n : int
            The number of synthetic records.
        rng : numpy.random.Generator
            The generator of the draws. They may be reproducible, because the population
            is already released.

        Returns
        -------
        SyntheticRecords
            Points in the canonical frame, with classes and predictors.
        """
        leaf = rng.choice(len(self.leaves.weights), size=n, p=self.leaves.weights)
        component = self.leaves.component[leaf]
        rows = np.empty((n, self.statistic.row_size))
        points = np.empty((n, *self.chart.manifold.point_shape))

        # Draw again what lies outside, from the same leaves.
        pending = np.arange(n)
        for _ in range(_MAX_REDRAWS):
            rows[pending] = self._draw_rows(leaf[pending], rng)
            points[pending], is_inside = self._to_points(rows[pending])
            pending = pending[~is_inside]
            if pending.size == 0:
                break

        with np.errstate(all="ignore"):  # these are released numbers
            inside = project_to_ball(self.chart.manifold, *self.statistic.ball, points)
        return SyntheticRecords(
            np.asarray(inside),
            self.components.class_index[component],
            self._to_predictor(rows),
        )

    def _draw_rows(self, leaf: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw one row in each of the given leaves, uniformly in the leaf's box.

        Parameters
        ----------
        leaf : array of int
            The index of the leaf of each row.
        rng : numpy.random.Generator
            The generator of the positions.

        Returns
        -------
        array, shape (k, row size)
            Rows in the coordinates of the chart.
        """
        lower = self.leaves.lower[leaf]
        upper = self.leaves.upper[leaf]
        positions = lower + (upper - lower) * rng.random(lower.shape)
        return self.components.from_unit_cube(positions, self.leaves.component[leaf])

    def _to_points(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points of rows, and whether they are where records can be.

        A row is a logarithm at the chart's base in units of its radius. It gives a
        record if the logarithm is shorter than the injectivity radius, so that the row
        is that of its point, and if point and predictor are in their public bounds.

        Parameters
        ----------
        rows : array, shape (n, k)
            Rows as `_draw_rows` returns them.

        Returns
        -------
        points, is_inside : array of shape (n, *point_shape), array of bool
            A point for every row, and whether it may be kept.
        """
        manifold = self.chart.manifold
        logs = self.chart.radius * rows[:, : manifold.dim]
        reach = _SHARE_OF_INJECTIVITY_RADIUS * (manifold.injectivity_radius or inf)
        lengths = np.linalg.norm(logs, axis=1)
        if isinstance(manifold, Torus):
            # Each angle by itself is at most π; the cut locus is a box, not a sphere.
            reach = np.pi
            lengths = np.abs(logs).max(axis=1)
        reach = min(reach, manifold.float_set.max_distance)
        with np.errstate(all="ignore"):  # these are released numbers
            points = np.asarray(
                manifold.from_normal_coordinates(
                    self.chart.base, _shorten(logs, lengths, min(reach, 1e100))
                )
            )
            center, radius = self.statistic.ball
            distances = np.asarray(manifold.dist(center, points))
        is_inside = (lengths <= reach) & (distances <= radius)
        if self.chart.has_predictor:
            is_inside &= np.abs(rows[:, -1]) <= 1
        return points, is_inside

    def _to_predictor(self, rows: np.ndarray) -> np.ndarray:
        """Map the rows' predictors from [-1, 1] to their public range.

        Parameters
        ----------
        rows : array, shape (n, k)
            Rows, whose last entry is the predictor if there is one.

        Returns
        -------
        array, shape (n,)
            The predictors; zeros if records have none.
        """
        if not self.chart.has_predictor:
            return np.zeros(len(rows))
        low, high = self.statistic.x_range
        share = (np.clip(rows[:, -1], -1.0, 1.0) + 1) / 2
        return np.asarray(low + share * (high - low))


def _shorten(logs: np.ndarray, lengths: np.ndarray, reach: float) -> np.ndarray:
    """Return logarithms, with longer ones shortened to the length `reach`.

    Parameters
    ----------
    logs : array, shape (n, d)
        Coordinates of logarithms.
    lengths : array, shape (n,)
        The length of each, as the manifold measures it: the largest angle on a torus.
    reach : float
        The largest length.
    """
    return np.asarray(logs * (reach / np.maximum(lengths, reach))[:, None])


def base_or_center(
    statistic: SyntheticPopulation, coordinates: np.ndarray
) -> np.ndarray:
    """Return the base point of a chart from its released coordinates at the center.

    It is exp_center(coordinates), clipped into the public ball; where doubles cannot
    hold that point, it is the center. This is post-processing.

    In the canonical frame an isometry has moved the ball's center to where floats are
    most accurate: the origin, or the center itself on a compact space.

    Parameters
    ----------
    statistic : SyntheticPopulation
        The population, whose public ball has the center.
    coordinates : array, shape (dim,)
        Released normal coordinates at the center.

    Returns
    -------
    point
        A point of the ball, in the canonical frame.
    """
    manifold = statistic.manifold
    center, radius = statistic.ball
    with np.errstate(all="ignore"):
        point = manifold.from_normal_coordinates(center, coordinates)
        inside = np.asarray(project_to_ball(manifold, center, radius, point[None]))[0]
    if not is_point(manifold, inside):
        return np.asarray(center)
    return np.array(inside)
