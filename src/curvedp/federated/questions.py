"""What each record contributes to a sum that several sites form with noise.
A private statistic is computed in rounds. The `Question` of a round maps each record to
a bounded row of numbers, and says how the noisy sum of all rows updates the public
state (what everybody knows, such as the current estimate).

See docs/theory/federation.md for the theorems.

A row depends on its own record and on public values only. It is bounded by
construction, whatever the manifold, the record and the point at which the server asks:
no curvature, solver or convergence enters the sensitivity. Rows are in units of the
radius, so that their bound, `row_diameter`, is a public number even where the radius is
found on the way. What happens to the noisy sums is post-processing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from math import inf, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from curvedp.core.chart import shrink_vector
from curvedp.core.statistic import check_point
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.mechanisms.staged.scale_search import (
    Bins,
    edge_weights_of_factor,
    half_bin_count,
    likeliest_position,
    point_or_fallback,
    rescale_factor,
)
from curvedp.statistics.second_moment import clip_rows
from curvedp.statistics.tangent_vectors import logs_at

Array = np.ndarray

# The width of a bin of log scales, for the first center of a cone of matrices.
_BIN_WIDTH = 2.0

# The distances at which records are counted, in units of the outer radius: they fall by
# the factor 1.17, down to 10^-12.
_LENGTHS = 1.17 ** -np.arange(175.0)

# Below this √κ·d, the excess s·coth s − 1 ≈ s²/3 is less than the rounding of a float.
_FLAT_ANGLE = 1e-6

# A divisor that only replaces a sum of zeros.
_TINY = 1e-300

# The numbers at the end of a row of the public state that are not coordinates: a median
# distance, a radius and a step excess.
_SCALARS_PER_STATE = 3

# Counts of records beyond the lengths are prefix sums of a histogram h. The lower
# triangular Toeplitz matrix B with B·B = the matrix of ones on and below the diagonal
# has the coefficients of (1 − x)^{-1/2} in its first column. Then B·(Bh + noise) are
# those counts with noise 3.42σ each, where sums of noisy bins would have σ times the
# root of their number (Fichtenberger, Henzinger & Upadhyay 2023).
_ROOT_COEFFICIENTS = np.cumprod([1.0, *(1 - 0.5 / np.arange(1, len(_LENGTHS)))])


def _lower_toeplitz(coefficients: Array) -> Array:
    """Return the lower triangular Toeplitz matrix with a given first column.

    Parameters
    ----------
    coefficients : array
        The first column.
    """
    size = len(coefficients)
    matrix = np.zeros((size, size))
    for row in range(size):
        matrix[row, : row + 1] = coefficients[row::-1]
    return matrix


_ROOT_MATRIX = _lower_toeplitz(_ROOT_COEFFICIENTS)

# The row of a record by its bin: a column of B. The last bin, of records nearer than
# every length, has a row of zeros.
_BIN_ROWS = np.concatenate([_ROOT_MATRIX.T, np.zeros((1, len(_ROOT_MATRIX)))])

# The largest distance between two of these rows.
_BIN_ROW_DIAMETER = float(
    max(np.linalg.norm(_BIN_ROWS - row, axis=1).max() for row in _BIN_ROWS)
)


class PublicState(NamedTuple):
    """What is public of one class of records between rounds.

    Attributes
    ----------
    point : array
        The point at which the next question is asked.
    center : array
        The center of the current ball.
    median_distance : float
        The distance from the center within which half of the records are.
    radius : float
        The radius of the current ball.
    step_excess : float
        A step that is small compared to the radius is divided by 1 + step_excess,
        because negative curvature makes the Hessian of half the squared distance larger
        than 1.
    """

    point: Array
    center: Array
    median_distance: float
    radius: float
    step_excess: float

    def to_row(self) -> Array:
        """Return all fields as one row of numbers, the form used in messages."""
        scalars = [self.median_distance, self.radius, self.step_excess]
        return np.concatenate([self.point.ravel(), self.center.ravel(), scalars])

    @staticmethod
    def from_row(manifold: Manifold, row: Array) -> "PublicState":
        """Rebuild a public state from the row of numbers that `to_row` returns.

        Parameters
        ----------
        manifold : Manifold
            The space in which the point and the center lie.
        row : array
            The coordinates of point and center, then three numbers.

        Returns
        -------
        PublicState
            The state with checked points; the three numbers are taken as they are.

        Raises
        ------
        ParameterError
            If the point or the center is not on the manifold. This never depends on
            records.
        """
        coordinates = row[:-_SCALARS_PER_STATE]
        scalars = row[-_SCALARS_PER_STATE:]
        point_numbers, center_numbers = np.split(coordinates, 2)
        point_shape = manifold.point_shape
        point = check_point("at", manifold, point_numbers.reshape(point_shape))
        center = check_point("at", manifold, center_numbers.reshape(point_shape))
        median_distance, radius, step_excess = (float(number) for number in scalars)
        return PublicState(point, center, median_distance, radius, step_excess)


class PublicBall(NamedTuple):
    """The public ball into which all records are clipped first.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array of shape point_shape
        The center of the ball.
    radius : float
        The radius of the ball.
    """

    manifold: Manifold
    center: Array
    radius: float


@dataclass(frozen=True)
class Question(ABC):
    """What one round asks of every record (experimental).

    The masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    ball : PublicBall
        The public ball of the records.
    budget_share : float
        The round's share of the budget μ².
    """

    ball: PublicBall
    budget_share: float

    # The largest distance between the rows of two records.
    row_diameter: ClassVar[float]

    @property
    def length(self) -> int:
        """The number of entries of a row: by default the dimension of the manifold."""
        return int(self.ball.manifold.dim)

    @abstractmethod
    def rows(self, state: PublicState, points: Array) -> Array:
        """Return the vector that each record contributes to the sum, as a row.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        points : array of shape (records, *point_shape)
            The records, clipped into the public ball.

        Returns
        -------
        array of shape (records, length)
            Rows at most `row_diameter` apart, which bounds the sensitivity of the sum.
        """

    @abstractmethod
    def update(
        self,
        state: PublicState,
        noisy_sum: Array,
        n: int,
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Return the public state after the round, computed from its noisy sum.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        noisy_sum : array of shape (length,)
            The noisy sum of the rows.
        n : int
            The number of records in the sum.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            This round's share of the budget of all rounds so far that asked the same kind
            of question in this ball. An average of their answers with these weights has
            the least noise.

        Returns
        -------
        array
            The new public state as a row of numbers, see `PublicState.to_row`.
        """


@dataclass(frozen=True)
class FirstCenter(Question):
    """Ask for a first estimate of the center of the records.

    The manifold may be a product. For a factor that is a cone of matrices, the question
    asks for their common scale; for a factor with an embedding in a vector space, for
    the mean of the embedded points. Other factors keep the public center.
    """

    @staticmethod
    def factor_indices(manifold: Manifold) -> list[int]:
        """Return the indices of the factors for which a first center can be found.

        Parameters
        ----------
        manifold : Manifold
            The space of the records. If it is not a product, it has one factor: itself.
        """
        return [
            index
            for index, factor in enumerate(manifold.factors)
            if isinstance(factor, ScalableCone | EmbeddedMean)
        ]

    @property
    def row_diameter(self) -> float:  # type: ignore[override]
        """The square root of the number of factors that are asked about.

        The rows of each single factor are at most 1 apart.
        """
        return sqrt(len(self.factor_indices(self.ball.manifold)))

    @property
    def length(self) -> int:
        """The number of entries of the rows of all factors together."""
        return sum(map(self._factor_length, self.factor_indices(self.ball.manifold)))

    def rows(self, state: PublicState, points: Array) -> Array:
        """Return the vector that each record contributes, with a part for each factor.

        Parameters
        ----------
        state : PublicState
            The public state before the round; not used, because this question is first.
        points : array of shape (records, *point_shape)
            The records, clipped into the public ball.

        Returns
        -------
        array of shape (records, length)
            Rows at most √(number of factors) apart.
        """
        factor_rows = [
            self._factor_rows(index, points)
            for index in self.factor_indices(self.ball.manifold)
        ]
        return np.concatenate(factor_rows, axis=1)

    def update(
        self,
        state: PublicState,
        noisy_sum: Array,
        n: int,
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Move estimate and center to the place that the noisy sums suggest.

        If a factor of the manifold is embedded in a vector space, its new center is the
        noisy mean of the embedded points. For a cone of matrices, the center is
        rescaled to the scale that most records seem to have.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        noisy_sum : array of shape (row_length,)
            The noisy sum of the rows.
        n : int
            The number of records in the sum.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            The weight of this round in an average with earlier rounds of its kind.

        Returns
        -------
        array
            The new public state as a row of numbers.
        """
        manifold = self.ball.manifold
        center = self.ball.center
        indices = self.factor_indices(manifold)
        ends = np.cumsum([self._factor_length(index) for index in indices])[:-1]
        for index, sums in zip(indices, np.split(noisy_sum, ends), strict=True):
            if isinstance(manifold.factors[index], EmbeddedMean):
                center = self._move_factor_to_mean(center, index, sums, n)
            else:
                # Undo the division by √2 that bounds the rows (`_factor_rows`).
                counts = sqrt(2) * sums
                bin_index = likeliest_position(counts, sqrt(2) * noise, n, "gaussian")
                log_scale = _BIN_WIDTH * float(bin_index)
                center = rescale_factor(manifold, center, index, log_scale)
        return state._replace(point=center, center=center).to_row()

    def _move_factor_to_mean(
        self, center: Array, index: int, sums: Array, n: int
    ) -> Array:
        """Return the center with one embedded factor moved to its noisy mean.

        Parameters
        ----------
        center : array, shape point_shape
            The center so far.
        index : int
            The index of a factor that is embedded in a vector space.
        sums : array
            The noisy sum of the embedded points, scaled to diameter 1.
        n : int
            The number of records.
        """
        manifold = self.ball.manifold
        factor = manifold.factors[index]
        assert isinstance(factor, EmbeddedMean)
        embedded_mean = factor.embedded_diameter * sums / n
        factors = list(split_into_factors(manifold, center))
        factors[index] = np.asarray(factor.from_embedding(embedded_mean))
        join = partial(join_factors, manifold, factors)
        return point_or_fallback(manifold, join, center)

    def _factor_length(self, index: int) -> int:
        """Return the number of entries of a record's row that one factor takes.

        These are the coordinates of the embedded point or, for a cone of matrices, one
        number for each bin of scales.

        Parameters
        ----------
        index : int
            The index of the factor of the manifold.
        """
        factor = self.ball.manifold.factors[index]
        if isinstance(factor, EmbeddedMean):
            return int(np.asarray(factor.embed(factor.origin)).size)
        return 2 * half_bin_count(factor, self.ball.radius, _BIN_WIDTH) + 1

    def _factor_rows(self, index: int, points: Array) -> Array:
        """Return the part of each record's row that belongs to one factor.

        Two such rows are at most 1 apart. Embedded points are scaled to diameter 1. For
        a cone of matrices, a record divides a weight of 1 between the two bins of
        scales next to its own scale. Two such rows are at most √2 apart, so they are
        divided by √2.

        Parameters
        ----------
        index : int
            The index of the factor.
        points : array of shape (records, *point_shape)
            The records.

        Returns
        -------
        array of shape (records, length of the factor)
            The part of each row that belongs to the factor.
        """
        manifold = self.ball.manifold
        factor = manifold.factors[index]
        size = self._factor_length(index)
        if isinstance(factor, EmbeddedMean):
            embedded = np.asarray(
                factor.embed(np.asarray(split_into_factors(manifold, points)[index]))
            )
            vectors = embedded.reshape(len(points), size)
            return clip_rows(vectors / factor.embedded_diameter, 0.5)

        bins = Bins(_BIN_WIDTH, size // 2, "gaussian")
        first_bin, shares = edge_weights_of_factor(
            manifold, self.ball.center, index, bins, points
        )
        # Row k of the identity matrix puts a weight into bin k.
        indicators = np.eye(size)[[first_bin, first_bin + 1]]
        weighted = shares[..., np.newaxis] * indicators
        return np.asarray((weighted[0] + weighted[1]) / sqrt(2))


@dataclass(frozen=True)
class CountDistances(Question):
    """Ask how far the records are from the current estimate: all quantiles at once.

    Parameters
    ----------
    hidden_records : float
        The number of records whose effect is smaller than the noise of the last step.
        This many may be outside the ball that is found.
    """

    hidden_records: float

    row_diameter = _BIN_ROW_DIAMETER
    length = len(_LENGTHS)

    def rows(self, state: PublicState, points: Array) -> Array:
        """Return the vector that each record contributes, which encodes its distance.

        Distances from the current estimate are sorted into bins, and each bin has a
        fixed row of numbers. From the sum of the rows `update` computes how many
        records are beyond each distance.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        points : array of shape (records, *point_shape)
            The records, clipped into the outer ball.

        Returns
        -------
        array of shape (records, 175)
            One of the fixed rows for each record.
        """
        logarithms = logs_at(self.ball.manifold, state.point, points)
        distances = np.linalg.norm(logarithms, axis=-1)
        bin_lengths = self.ball.radius * _LENGTHS
        # The lengths fall; their negatives are in the order that searchsorted needs.
        bins = np.searchsorted(-bin_lengths, -distances, side="right")
        return np.asarray(_BIN_ROWS[bins])

    def update(
        self,
        state: PublicState,
        noisy_sum: Array,
        n: int,
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Center the ball at the current estimate, and choose its radius.

        The noisy sum gives the number of records beyond each distance. The radius is
        the smallest distance beyond which there are few records: as many as the noise
        of the last step hides, plus two standard deviations of a count, but at most
        n/2.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        noisy_sum : array of shape (row_length,)
            The noisy sum of the rows.
        n : int
            The number of records in the sum.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            The weight of this round in an average with earlier rounds of its kind.

        Returns
        -------
        array
            The new public state as a row of numbers.
        """
        lengths = self.ball.radius * _LENGTHS
        counts_beyond = _make_monotone(_ROOT_MATRIX @ noisy_sum)

        count_noise = noise * float(np.linalg.norm(_ROOT_COEFFICIENTS))
        allowed_outside = min(n / 2, self.hidden_records + 2 * count_noise)
        median_distance = _length_with_at_most(counts_beyond, lengths, n / 2)
        radius = _length_with_at_most(counts_beyond, lengths, allowed_outside)

        step_excess = self._step_excess(np.minimum(lengths, radius), counts_beyond / n)
        next_state = PublicState(
            point=state.point,
            center=state.point,
            median_distance=median_distance,
            radius=radius,
            step_excess=step_excess,
        )
        return next_state.to_row()

    def _step_excess(self, lengths: Array, fractions_beyond: Array) -> float:
        """Return the relative excess of a step to the mean in negative curvature.

        It is 0 unless the space has constant curvature −κ < 0. There a record at
        distance d has the Hessian s·coth s of half its squared distance, where s =
        √κ·d, except in its own direction, where the Hessian is 1. So this returns the
        mean of s·coth s − 1 over the records, times 1 − 1/dim.

        Parameters
        ----------
        lengths : array
            The decreasing distances at which records are counted.
        fractions_beyond : array
            The fraction of the records beyond each of these distances.

        Returns
        -------
        float
            At least 0; steps are divided by 1 plus it.
        """
        manifold = self.ball.manifold
        # The fraction of the records between one distance and the next smaller one.
        fractions = np.clip(np.diff(np.append(fractions_beyond, 1.0)), 0.0, None)
        kappa = max(-(manifold.constant_curvature or 0.0), 0.0)
        s = sqrt(kappa) * lengths
        excesses = np.where(
            s > _FLAT_ANGLE, s / np.tanh(np.maximum(s, _FLAT_ANGLE)) - 1, 0.0
        )
        mean_excess = float(fractions @ excesses / max(fractions.sum(), _TINY))
        return mean_excess * (1 - 1 / manifold.dim)


def _make_monotone(counts: Array) -> Array:
    """Return an increasing sequence close to noisy counts that should be increasing.

    It is the mean of the smallest increasing sequence above the counts and the largest
    one below them.

    Parameters
    ----------
    counts : array
        Noisy counts of records beyond decreasing lengths.

    Returns
    -------
    array
        The increasing counts, of the same shape.
    """
    majorant = np.maximum.accumulate(counts)
    minorant = np.minimum.accumulate(counts[::-1])[::-1]
    return np.asarray((majorant + minorant) / 2)


def _length_with_at_most(counts_beyond: Array, lengths: Array, count: float) -> float:
    """Return the smallest length beyond which there are at most `count` records.

    Parameters
    ----------
    counts_beyond : array
        The increasing number of records beyond each length.
    lengths : array
        The decreasing lengths.
    count : float
        The number of records that may be beyond. If there are more beyond every length,
        the largest length is returned.

    Returns
    -------
    float
        A length from the list.
    """
    n_suitable_lengths = int(np.sum(counts_beyond <= count))
    # The suitable lengths come first, because lengths decrease and counts increase.
    return float(lengths[max(n_suitable_lengths, 1) - 1])


@dataclass(frozen=True)
class StepToMean(Question):
    """Ask for a step from the current estimate toward the mean of the records.

    The step is the mean of the logarithms of the records at the estimate: the vectors
    that point to them. Each is clipped to a public length.

    Parameters
    ----------
    coarse : bool
        In a coarse step, which is part of a search for a ball, logarithms are clipped
        at the median distance of the records, and the ball moves along.
    """

    coarse: bool = False

    row_diameter = 2.0

    def _clip_length(self, state: PublicState) -> float:
        """Return the length to which logarithms are clipped, the unit of the rows.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        """
        return state.median_distance if self.coarse else state.radius

    def rows(self, state: PublicState, points: Array) -> Array:
        """Return the clipped vector log_w x − log_w c for each record x.

        Here w is the current estimate (`state.point`) and c the center of the ball. The
        vectors are divided by the length to which they are clipped.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        points : array of shape (records, *point_shape)
            The records, clipped into the public ball.

        Returns
        -------
        array of shape (records, dim)
            Rows of length at most 1.
        """
        manifold = self.ball.manifold
        to_records = logs_at(manifold, state.point, points)
        to_center = logs_at(manifold, state.point, state.center[np.newaxis])
        return _clip_to_unit(to_records - to_center, self._clip_length(state))

    def update(
        self,
        state: PublicState,
        noisy_sum: Array,
        n: int,
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Move the current estimate by the noisy mean of the logarithms.

        A step goes the fraction `averaging_weight` of the mean logarithm. So earlier
        steps in the same ball are averaged in: in flat space, all of them together have
        the noise of a single release. The step is shortened if curvature would make it
        too long. A coarse step moves the ball as well.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        noisy_sum : array of shape (row_length,)
            The noisy sum of the rows.
        n : int
            The number of records in the sum.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            The weight of this round in an average with earlier rounds of its kind.

        Returns
        -------
        array
            The new public state as a row of numbers.
        """
        manifold = self.ball.manifold
        clip_length = self._clip_length(state)
        to_center = logs_at(manifold, state.point, state.center[np.newaxis])[0]
        mean_log = clip_length * noisy_sum / n + to_center
        longest = 2 * clip_length
        if self.coarse:
            mean_log = shrink_vector(mean_log, clip_length * noise / n)
            longest = clip_length
        mean_log = clip_rows(mean_log[np.newaxis], longest)[0]

        relative_length = min(float(np.linalg.norm(mean_log)) / clip_length, 1.0)
        shortening = 1 + state.step_excess * (1 - relative_length**2)
        step = partial(
            manifold.from_normal_coordinates,
            state.point,
            averaging_weight * mean_log / shortening,
        )
        next_point = point_or_fallback(manifold, step, state.point)
        if self.coarse:
            return state._replace(point=next_point, center=next_point).to_row()

        in_ball = project_to_ball(
            manifold, state.center, state.radius, next_point[np.newaxis]
        )
        return state._replace(point=np.asarray(in_ball)[0]).to_row()


@dataclass(frozen=True)
class SquaredDistance(Question):
    """Ask for the mean square distance of the records to the current estimate."""

    row_diameter = 1.0
    length = 1

    def rows(self, state: PublicState, points: Array) -> Array:
        """Return d²/r² − 1/2 for each record, a number between −1/2 and 1/2.

        Here d is its distance from the current estimate, clipped to the ball's radius
        r.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        points : array of shape (records, *point_shape)
            The records, clipped into the public ball.

        Returns
        -------
        array of shape (records, 1)
            One number for each record.
        """
        logarithms = logs_at(self.ball.manifold, state.point, points)
        clipped = _clip_to_unit(logarithms, state.radius)
        squares = np.sum(clipped**2, axis=1, keepdims=True)
        return np.asarray(np.minimum(squares, 1.0) - 0.5)

    def update(
        self,
        state: PublicState,
        noisy_sum: Array,
        n: int,
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Return the mean square distance, in [0, r²].

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        noisy_sum : array of shape (row_length,)
            The noisy sum of the rows.
        n : int
            The number of records in the sum.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            The weight of this round in an average with earlier rounds of its kind.

        Returns
        -------
        array of shape (1,)
            The released value itself: this question is the last.
        """
        return np.asarray(np.clip(noisy_sum / n + 0.5, 0.0, 1.0) * state.radius**2)


@dataclass(frozen=True)
class SecondMomentRows(Question):
    """Ask for the second moment xxᵀ, as coordinates of a symmetric matrix."""

    # ‖A − B‖² ≤ ‖A‖² + ‖B‖² − 2⟨A, B⟩, and ⟨A, B⟩ ≥ 0 for positive semidefinite A, B.
    row_diameter = sqrt(2)

    @property
    def length(self) -> int:
        """The number d(d + 1)/2 of coordinates of a symmetric d × d matrix."""
        dim = super().length
        return dim * (dim + 1) // 2

    def rows(self, state: PublicState, points: Array) -> Array:
        """Return the distinct entries of xxᵀ for each record x, in units of r².

        These are the squares of its coordinates and √2 times the products of two
        different ones, so that the rows have the distances of the matrices. Records are
        first clipped to the length r.

        Parameters
        ----------
        state : PublicState
            The public state before the round, with the radius r.
        points : array of shape (records, d)
            The records, which are vectors.

        Returns
        -------
        array of shape (records, d(d + 1)/2)
            Rows of length at most 1.
        """
        x = _clip_to_unit(points, state.radius)
        first, second = np.triu_indices(self.ball.manifold.dim, 1)
        products = sqrt(2) * x[:, first] * x[:, second]
        return np.concatenate([x * x, products], axis=1)

    def update(
        self,
        state: PublicState,
        noisy_sum: Array,
        n: int,
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Return the mean of xxᵀ over the records, in the unit of the records.

        Parameters
        ----------
        state : PublicState
            The public state before the round.
        noisy_sum : array of shape (row_length,)
            The noisy sum of the rows.
        n : int
            The number of records in the sum.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            The weight of this round in an average with earlier rounds of its kind.

        Returns
        -------
        array of shape (d(d + 1)/2,)
            The coordinates of the mean matrix.
        """
        return np.asarray(noisy_sum / n * state.radius**2)


def _clip_to_unit(rows: Array, radius: float) -> Array:
    """Return rows divided by the radius and clipped to length 1.

    Parameters
    ----------
    rows : array of shape (records, length)
        Vectors, one for each record.
    radius : float
        The radius, which comes from the server. If it is not positive and finite, all
        rows are 0: no radius can make a row longer than 1.
    """
    if not 0 < radius < inf:
        return clip_rows(np.zeros_like(rows), 1.0)
    return clip_rows(rows / radius, 1.0)
