"""Private prototypes of classes: all class sums and counts in one release. A
*prototype* is the mean of the clipped logarithms of a class's records at the center of
a ball. The ball is public, or is found privately first, by noisy answers in *stages*.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nextafter, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp.core.capabilities import NeedsManyRecords, PredictsError
from curvedp.core.mechanism import MechanismInfo, check_guarantee, check_supported
from curvedp.core.statistic import Ball, Statistic
from curvedp.errors import ParameterError
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.budget import (
    REMAINING_BUDGET,
    StageBudget,
    StagedMechanism,
    StagedResult,
)
from curvedp.mechanisms.staged.quantile_search import BinarySearch
from curvedp.mechanisms.staged.queries import Answer
from curvedp.mechanisms.vector import AddNoise, smallest_gaussian_scale
from curvedp.privacy import Guarantee, PrivacyCurve
from curvedp.records.tables import to_float_records
from curvedp.statistics.prototypes import (
    ENTRY_BITS,
    LARGEST_SUM,
    ClassPrototypes,
    LabeledPoints,
    Prototypes,
    pooled_counts,
)
from curvedp.statistics.searched_ball import CONCENTRATION_DIM
from curvedp.statistics.tangent_vectors import clip_rows_to

# Fractions of the privacy budget for finding the ball; the class sums have the rest.
_CENTER_SHARE = 0.05
_RADIUS_SHARE = 0.02
_MAX_SHARE = 0.25
# With few records the center takes the fraction (12/(nμ))², and each noisy count of the
# search has a deviation of at most a fifth of n/2.
_CENTER_ROOT_SHARE = 12.0
_COUNT_ROOT_SHARE = 10.0

# 63 public radii, from half of the sphere's circumference down to 4e-5 of it.
_RADIUS_SEARCH = BinarySearch(queries=6, ratio=1.2)
# In many dimensions all distances are about equal, and noise is in proportion to the radius,
# while a clipped logarithm still has its direction: logarithms are clipped to this
# fraction of their median length. In fewer dimensions a tenth of them are clipped.
_FRACTION_OF_MEDIAN = 0.8
_OUTSIDE_IN_FEW_DIMS = 0.1

# The weight of a record in the count beside the sum of all records, where n is private.
_TOTAL_WEIGHT = 0.25

# Half of nμ/C for C classes: below this, classes are hardly told apart (measured).
_ENOUGH_PER_CLASS = 10.0

# How many numbers of a block of records are held in memory at once.
_BLOCK_SIZE = 1 << 22


class PrototypeQueries(NamedTuple):
    """Exact counts and means of labeled points. NOT private.

    Attributes
    ----------
    statistic : ClassPrototypes
        States the manifold, the classes and the kind of neighbors.
    data : LabeledPoints, optional
        Without them all answers are zero, which is what a replay needs.
    """

    statistic: ClassPrototypes
    data: LabeledPoints | None = None

    def sum_of_points(self) -> Answer:
        """Return the sum of all points of a sphere, and maybe their weighted number.

        The center of the private ball is the direction of this sum. Each record or
        person contributes a vector of length at most 1, and the weight w =
        `_TOTAL_WEIGHT` beside it if n is private. Replacing one moves the sum by at
        most 2, adding one by √(1 + w²).

        Returns
        -------
        Answer
            The dim + 1 entries of the sum, then maybe w times the number of records;
            and how far they can move between neighboring data sets.
        """
        size = self.statistic.manifold.dim + 1
        if self.statistic.n is not None:
            total = self._sum_of_rows(size, weight=None)
            # Replacing a record changes two rows, of length 1.
            return Answer(total, _computed_sensitivity(2, 1.0, size))
        total = self._sum_of_rows(size + 1, weight=_TOTAL_WEIGHT)
        # Adding a record changes one row.
        longest_row = sqrt(1 + _TOTAL_WEIGHT**2)
        return Answer(total, _computed_sensitivity(1, longest_row, size + 1))

    def _sum_of_rows(self, size: int, weight: float | None) -> np.ndarray:
        """Return the exact sum of one row for each record or person; 0 without records.

        Parameters
        ----------
        size : int
            The length of a row.
        weight : float or None
            What is appended to each row, to count them; None appends nothing.
        """
        if self.data is None:
            return np.zeros(size)
        integer_sum = np.zeros(size, dtype=np.int64)
        for points, _, persons in _blocks(self.data):
            rows = _person_averages(clip_rows_to(points, 1.0), persons)
            if weight is not None:
                weights = np.full((len(rows), 1), weight)
                rows = np.concatenate([rows, weights], axis=1)
            integer_sum += _to_grid_integers(rows).sum(axis=0)
        return _from_grid_integers(integer_sum)

    def count_beyond(self, center: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records or people are farther from a center than each radius.

        A person's distance is the average over their records. Each count has
        sensitivity 1.

        Parameters
        ----------
        center : array of shape point_shape
            A public point.
        radii : array
            The public radii.

        Returns
        -------
        array, the shape of radii
            The counts; zeros in a replay.
        """
        counts = np.zeros(len(radii))
        if self.data is None:
            return counts
        manifold = self.statistic.manifold
        for points, _, persons in _blocks(self.data):
            distances = np.asarray(manifold.dist(center, points))[:, None]
            distances = _person_averages(distances, persons)[:, 0]
            counts += np.sum(distances[:, None] > radii, axis=0)
        return counts

    def class_sums(self, ball: Ball) -> Answer:
        """Return the sums of clipped logarithms and the weighted counts of all classes.

        A record adds to the row of its class its logarithm at the center of the ball,
        clipped and divided by the radius, and a constant weight. Theorem B3
        (docs/theory/private-ball.md) bounds how far all rows together can move
        (`ClassPrototypes.sum_sensitivity`).

        Parameters
        ----------
        ball : Ball
            Logarithms are taken at its center, and are in units of its radius.

        Returns
        -------
        Answer
            For each class the dim entries of its sum, then its weighted count; and the
            sensitivity of all these numbers.
        """
        statistic = self.statistic
        row_size = statistic.manifold.dim + 1
        sums = np.zeros((statistic.classes, row_size))
        if self.data is not None:
            integer_sums = np.zeros(sums.shape, dtype=np.int64)
            for points, classes, persons in _blocks(self.data):
                logs = statistic.to_unit_logs(ball, points)
                weights = np.full((len(logs), 1), statistic.count_weight)
                rows = np.concatenate([logs, weights], axis=1)
                rows, classes = _rows_of_persons(rows, classes, persons)
                # Unlike `+=`, this adds all rows of the same class.
                np.add.at(integer_sums, classes, _to_grid_integers(rows))
            sums = _from_grid_integers(integer_sums)
        return Answer(sums.ravel(), statistic.sum_sensitivity)


def _blocks(
    data: LabeledPoints,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield blocks of points with their classes and people; a person is in one block.

    Blocks bound the memory that logarithms take. The rows of a person are averaged,
    so they must not be divided between blocks.

    Parameters
    ----------
    data : LabeledPoints
        Points, classes and maybe people; sorted by person, if there are people.

    Yields
    ------
    points : array of shape (k, *point_shape)
        The points of a block.
    class_index : array of int, shape (k,)
        Their classes.
    person_index : array of int, shape (k,), or None
        The people to whom they belong.
    """
    points, class_index, person_index = data
    n = len(points)
    points_at_once = max(1, _BLOCK_SIZE // max(1, points[:1].size))
    start = 0
    while start < n:
        stop = min(n, start + points_at_once)
        if person_index is not None and stop < n:
            # Extend the block to the end of its last person.
            last_person = person_index[stop - 1]
            stop = int(np.searchsorted(person_index, last_person, side="right"))
        persons = None if person_index is None else person_index[start:stop]
        yield points[start:stop], class_index[start:stop], persons
        start = stop


def _person_averages(rows: np.ndarray, persons: np.ndarray | None) -> np.ndarray:
    """Return the average of each person's rows; the rows themselves without people.

    Parameters
    ----------
    rows : array, shape (records, size)
        One row for each record.
    persons : array of int, shape (records,), or None
        The person of each record, in ascending order from 0 or more.

    Returns
    -------
    array, shape (people, size)
        One row for each person.
    """
    if persons is None:
        return rows
    # A person's rows begin where the index changes, and are summed from there on.
    starts = np.flatnonzero(np.diff(persons, prepend=-1))
    records_per_person = np.diff([*starts, len(rows)])[:, None]
    return np.asarray(np.add.reduceat(rows, starts) / records_per_person)


def _rows_of_persons(
    rows: np.ndarray, classes: np.ndarray, persons: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what each person contributes to each class, and the classes.

    A person with k records contributes their rows divided by k, so that all their
    contributions together are no longer than those of one record. The rows of one
    person in one class are added up, so that each entry is rounded once.

    Parameters
    ----------
    rows : array, shape (records, size)
        One row for each record.
    classes : array of int, shape (records,)
        The class of each record.
    persons : array of int, shape (records,), or None
        The person of each record, in ascending order. None if each row is a person's
        own.

    Returns
    -------
    rows : array, shape (pairs, size)
        The sum for each pair of a person and a class that occurs.
    classes : array of int, shape (pairs,)
        The class of each pair.
    """
    if persons is None:
        return rows, classes
    starts = np.flatnonzero(np.diff(persons, prepend=-1))
    records_per_person = np.diff([*starts, len(rows)])
    divisor_of_row = np.repeat(records_per_person, records_per_person)
    scaled = rows / divisor_of_row[:, None]

    # Sort by person (lexsort's last key), then by class. A pair of both begins where
    # either of them changes.
    order = np.lexsort((classes, persons))
    persons_in_order = persons[order]
    classes_in_order = classes[order]
    is_new_pair = np.diff(persons_in_order, prepend=-1) != 0
    is_new_pair |= np.diff(classes_in_order.astype(np.int64), prepend=-1) != 0
    pair_starts = np.flatnonzero(is_new_pair)
    sums_of_pairs = np.add.reduceat(scaled[order], pair_starts)
    return sums_of_pairs, classes_in_order[pair_starts]


def _to_grid_integers(rows: np.ndarray) -> np.ndarray:
    """Return rows as whole multiples of the grid width 2^-20, rounding each entry.

    Integers add up exactly, so that sums do not depend on the order of the records.

    Parameters
    ----------
    rows : array
        Numbers of modulus at most about 1.

    Returns
    -------
    array of int, the shape of rows
        The multiples.
    """
    return np.asarray(np.round(rows * 2.0**ENTRY_BITS).astype(np.int64))


def _from_grid_integers(integer_sums: np.ndarray) -> np.ndarray:
    """Return sums of grid integers as doubles, which hold them exactly.

    Parameters
    ----------
    integer_sums : array of int
        Sums of whole multiples of the grid width 2^-20. They are clipped to ±2^53
        multiples, beyond which doubles do not hold every integer.
    """
    clipped = np.clip(integer_sums, -LARGEST_SUM, LARGEST_SUM)
    return np.asarray(clipped.astype(np.float64) * 2.0**-ENTRY_BITS)


def _computed_sensitivity(changed_rows: int, longest_row: float, size: int) -> float:
    """Return how far a computed sum of rows can move between neighboring data sets.

    To the length of the rows that change, the rounding of each entry to the grid
    2^-20 is added.

    Parameters
    ----------
    changed_rows : int
        1 if a row is added or removed, 2 if one is replaced by another.
    longest_row : float
        The largest length of a row.
    size : int
        The number of entries of a row.
    """
    rounding = sqrt(size) * 2.0 ** -(ENTRY_BITS + 1)
    # Lengths are computed in floats, with a relative error far below 1e-9.
    return nextafter(changed_rows * (longest_row * (1 + 1e-9) + rounding), inf)


@dataclass(frozen=True, eq=False, kw_only=True)
class PrototypeMechanism(StagedMechanism, PredictsError, NeedsManyRecords):
    """Gaussian noise about the sums and counts of all classes, after a private ball.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale` for replacing a record together with its label, or with a
      private n for adding or removing one, for ANY records and labels;
    - every released number is on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal distribution.
    """

    if TYPE_CHECKING:
        statistic: ClassPrototypes

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "class-prototypes", reads="array", is_staged=True
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is prototypes of classes, as this class needs."""
        return isinstance(statistic, ClassPrototypes)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least Gaussian noise that meets a guarantee.

        Parameters
        ----------
        statistic : ClassPrototypes
            The prototypes that are to be released.
        guarantee : Guarantee
            What the release must satisfy if a record is replaced; or, with a private n,
            if one is added or removed.

        Returns
        -------
        PrototypeMechanism
            The mechanism, with its noise scale.

        Raises
        ------
        ParameterError
            If the adjacency is not the statistic's: add-remove where n is private, and
            replace-one where it is public.
        UnattainableGuarantee
            For a guarantee that Gaussian noise does not meet, such as pure ε.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, ClassPrototypes)  # it is supported
        adjacency = "replace-one" if statistic.n is not None else ADD_REMOVE
        check_guarantee(guarantee, adjacency)
        # Each stage states its sensitivity for the adjacency of the statistic, so the
        # same scale serves both. `smallest_gaussian_scale` takes replace-one only.
        same_guarantee = replace(guarantee, adjacency="replace-one")
        scale = smallest_gaussian_scale(same_guarantee)
        return cls(statistic=statistic, scale=scale)

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The profile for replacing a record, or with a private n for adding one."""
        profile = super().privacy_profile
        if self.statistic.n is not None:
            return profile
        return replace(profile, adjacency=ADD_REMOVE)

    @property
    def has_enough_records(self) -> bool:
        """Whether classes of average size stand out of the noise; True if n is private.

        With C classes and μ-GDP the measured threshold is nμ/(2C) ≥ 10.
        """
        if self.statistic.n is None:
            return True
        per_class = self.statistic.n / self.statistic.classes
        return bool(per_class / (2 * self.scale) >= _ENOUGH_PER_CLASS)

    def prepare_data(self, data: Any) -> LabeledPoints:
        """Return the points, clipped into the outer ball, with classes and people.

        `release` calls this before the ledger is charged.

        Parameters
        ----------
        data : (records, class_index) or (records, class_index, person_index)
            The records have shape (k, *point_shape); the indices have shape (k,).

        Returns
        -------
        LabeledPoints
            The data, sorted by person if there are people.

        Raises
        ------
        ParameterError
            For a wrong shape or type, never for what a record holds.
        """
        records, class_index = data[:2]
        persons = data[2] if len(data) > 2 else None
        statistic = self.statistic
        shape = statistic.manifold.point_shape
        points = statistic.clip_to_canonical_ball(
            to_float_records("records", records, shape)
        )
        classes = np.asarray(class_index)

        n_units = len(points)
        if persons is not None:
            order = np.argsort(persons, kind="stable")
            persons = np.asarray(persons)[order]
            points = points[order]
            classes = classes[order]
            n_units = len(np.unique(persons))
        if len(classes) != len(points):
            raise ParameterError(f"{len(classes)} labels for {len(points)} records")
        if statistic.n is not None and n_units != statistic.n:
            raise ParameterError(f"{n_units} records or people, not {statistic.n}")
        return LabeledPoints(points, classes, persons)

    def queries(self, data: LabeledPoints | None = None) -> PrototypeQueries:
        """Return an object that computes counts and sums of points, without noise.

        Parameters
        ----------
        data : LabeledPoints, optional
            The points as `prepare_data` returns them. None in a replay, where all
            answers are zeros.
        """
        return PrototypeQueries(self.statistic, data)

    def run(self, queries: PrototypeQueries, add_noise: AddNoise) -> StagedResult:
        """Find the ball if it is not public, and release all sums and counts in it.

        The same code releases and replays: in a replay the queries know no records, and
        `add_noise` returns the recorded numbers.

        Parameters
        ----------
        queries : PrototypeQueries
            Computes counts and means of the private records, before noise is added. In
            a replay there are no records, and all answers are zeros.
        add_noise : function of (values, scales)
            Draws noise. In a replay it returns the recorded draws.

        Returns
        -------
        StagedResult
            Its value is `Prototypes`.
        """
        budget = StageBudget(self.scale, add_noise)
        ball = self.statistic.outer_ball
        if self.statistic.searches_ball:
            ball = self._find_ball(queries, budget)

        exact_sums = queries.class_sums(ball)
        noisy_sums, noise_std = budget.release(
            "sums", REMAINING_BUDGET, exact_sums.sensitivity, exact_sums.values
        )
        # A row has the sum of a class's logarithms, then its weighted count.
        rows = noisy_sums.reshape(self.statistic.classes, -1)
        counts = rows[:, -1] / self.statistic.count_weight
        count_std = noise_std / self.statistic.count_weight

        class_sizes = pooled_counts(counts, count_std)
        means = rows[:, :-1] / class_sizes[:, None]
        mean_stds = noise_std / class_sizes
        prototypes = Prototypes(ball, means, counts, mean_stds, count_std)
        return StagedResult(prototypes, budget)

    def _find_ball(self, queries: PrototypeQueries, budget: StageBudget) -> Ball:
        """Find a ball on a sphere: a center, and a radius that many records are within.

        The center is the direction of the noisy sum of all records. A binary search by
        noisy counts finds a distance that a tenth of the records exceed; or, in many
        dimensions, 0.8 of their median distance.

        Parameters
        ----------
        queries : PrototypeQueries
            Computes counts and sums of the private records, before noise is added.
        budget : StageBudget
            Is charged for a noisy sum and a search.

        Returns
        -------
        Ball
            The released ball. Logarithms at its center will be clipped to its radius.
        """
        manifold = self.statistic.manifold
        exact_sum = queries.sum_of_points()
        center_share = self._share_for_few_records(_CENTER_SHARE, _CENTER_ROOT_SHARE)
        noisy_sum = budget.release(
            "center", center_share, exact_sum.sensitivity, exact_sum.values
        )
        n_estimate = self.statistic.n
        if n_estimate is None:
            n_estimate = max(1.0, float(noisy_sum.values[-1]) / _TOTAL_WEIGHT)
        direction = noisy_sum.values[: manifold.dim + 1]
        center = np.asarray(manifold.project(direction))

        share_outside = _OUTSIDE_IN_FEW_DIMS
        radius_per_distance = 1.0
        if manifold.dim >= CONCENTRATION_DIM:
            share_outside = 0.5
            radius_per_distance = _FRACTION_OF_MEDIAN

        def count_beyond(radii: np.ndarray) -> np.ndarray:
            """Return how many records are farther from the released center."""
            return queries.count_beyond(center, radii)

        distance = _RADIUS_SEARCH.find(
            budget,
            count_beyond,
            pi,
            allowed_outside=share_outside * n_estimate,
            share=self._share_for_few_records(_RADIUS_SHARE, _COUNT_ROOT_SHARE),
            center=center,
        )
        return Ball(center, radius_per_distance * distance)

    def _share_for_few_records(self, share: float, root_share: float) -> float:
        """Return the fraction of the budget for a stage; few records need more.

        Parameters
        ----------
        share : float
            The fraction with many records, or if n is private.
        root_share : float
            With n records and μ-GDP the fraction is at least (root_share/(nμ))², but at
            most 0.25. The noise of the stage is then in a fixed ratio to its result.
        """
        if self.statistic.n is None:
            return share
        share_of_few = (root_share * self.scale / self.statistic.n) ** 2
        return float(min(_MAX_SHARE, max(share, share_of_few)))

    def predict_error(self) -> float:
        """Predict the length of the noise of one prototype, for classes of equal size.

        The radius is the public one, or 1 where it is found privately: embeddings lie
        about that far from their center.

        Returns
        -------
        float
            The root mean square length, in the unit of distances.

        Raises
        ------
        ParameterError
            If n is private, because the error depends on it.
        """
        statistic = self.statistic
        if statistic.n is None:
            raise ParameterError("the error is not predicted: n is private")
        radius = 1.0 if statistic.searches_ball else statistic.ball_radius
        share_of_sums = 1.0
        if statistic.searches_ball:
            share_of_sums -= self._share_for_few_records(
                _CENTER_SHARE, _CENTER_ROOT_SHARE
            )
            share_of_sums -= self._share_for_few_records(
                _RADIUS_SHARE, _COUNT_ROOT_SHARE
            )
        noise_std = statistic.sum_sensitivity * self.scale / sqrt(share_of_sums)
        class_size = statistic.n / statistic.classes
        return float(radius * noise_std * sqrt(statistic.manifold.dim) / class_size)
