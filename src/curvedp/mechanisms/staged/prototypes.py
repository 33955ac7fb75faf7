"""Private prototypes of classes: all class sums and counts in one release.

With a public ball there is one stage: the sums of clipped logarithms and the counts of
all classes, as one vector. On spheres a ball can be found privately first, in two
stages: the direction of the sum of all records is the center, and a search by noisy
counts finds the radius.
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
from curvedp.mechanisms.staged.budget import StageBudget, StagedMechanism, StagedResult
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
# In many dimensions distances are all alike, and noise is in proportion to the radius,
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
    """Questions about labeled points. The answers are NOT private.

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

        Each record or person contributes a vector x of length at most 1, and if n is
        private `_TOTAL_WEIGHT` beside it. Replacing one moves the sum by at most 2,
        adding one by √(1 + w²).
        """
        statistic = self.statistic
        size = statistic.manifold.dim + 1
        counts_total = statistic.n is None
        rows = 1 if counts_total else 2
        length = sqrt(1 + _TOTAL_WEIGHT**2) if counts_total else 1.0

        total = np.zeros(size + int(counts_total))
        if self.data is not None:
            whole = np.zeros(total.shape, dtype=np.int64)
            for points, _, persons in _blocks(self.data):
                vectors = _person_averages(clip_rows_to(points, 1.0), persons)
                if counts_total:
                    weights = np.full((len(vectors), 1), _TOTAL_WEIGHT)
                    vectors = np.concatenate([vectors, weights], axis=1)
                whole += _whole_rows(vectors).sum(axis=0)
            total = _to_sum(whole)
        return Answer(total, _computed_sensitivity(rows, length, total.size))

    def count_beyond(self, center: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """Return how many records, or people, are farther from a center than each radius.

        Each count has sensitivity 1. A person's distance is the average over their
        records.

        Parameters
        ----------
        center : array of shape point_shape
            A public point.
        radii : array
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

        Theorem B3 (docs/theory/private-ball.md) is about the sensitivity
        (`ClassPrototypes.sum_sensitivity`).

        Parameters
        ----------
        ball : Ball
            Logarithms are taken at its center, and are in units of its radius.

        Returns
        -------
        Answer
            For each class the dim entries of its sum, then its weighted count.
        """
        statistic = self.statistic
        row_size = statistic.manifold.dim + 1
        sums = np.zeros((statistic.classes, row_size))
        if self.data is not None:
            whole = np.zeros(sums.shape, dtype=np.int64)
            for points, classes, persons in _blocks(self.data):
                logs = statistic.to_unit_logs(ball, points)
                weights = np.full((len(logs), 1), statistic.count_weight)
                rows = np.concatenate([logs, weights], axis=1)
                rows, classes = _rows_of_persons(rows, classes, persons)
                np.add.at(whole, classes, _whole_rows(rows))
            sums = _to_sum(whole)
        return Answer(sums.ravel(), statistic.sum_sensitivity)


def _blocks(
    data: LabeledPoints,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield blocks of points with their classes and people; a person is in one block.

    Parameters
    ----------
    data : LabeledPoints
        Sorted by person, if records belong to people.
    """
    points, class_index, person_index = data
    n = len(points)
    at_once = max(1, _BLOCK_SIZE // max(1, points[:1].size))
    start = 0
    while start < n:
        stop = min(n, start + at_once)
        if person_index is not None and stop < n:
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
    persons : array of int, shape (records,), or None
        Sorted.
    """
    if persons is None:
        return rows
    starts = np.flatnonzero(np.diff(persons, prepend=-1))
    sizes = np.diff([*starts, len(rows)])[:, None]
    return np.asarray(np.add.reduceat(rows, starts) / sizes)


def _rows_of_persons(
    rows: np.ndarray, classes: np.ndarray, persons: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what each person contributes to each class, and the classes.

    A person with k records contributes their rows divided by k. The rows of one person
    in one class are added up, so that each entry is rounded once.

    Parameters
    ----------
    rows : array, shape (records, size)
    classes : array of int, shape (records,)
    persons : array of int, shape (records,), or None
        Sorted. None if each row is a person's own.
    """
    if persons is None:
        return rows, classes
    starts = np.flatnonzero(np.diff(persons, prepend=-1))
    sizes = np.diff([*starts, len(rows)])
    scaled = rows / np.repeat(sizes, sizes)[:, None]

    order = np.lexsort((classes, persons))
    persons_in_order = persons[order]
    classes_in_order = classes[order]
    is_new = np.diff(persons_in_order, prepend=-1) != 0
    is_new |= np.diff(classes_in_order.astype(np.int64), prepend=-1) != 0
    cells = np.flatnonzero(is_new)
    return np.add.reduceat(scaled[order], cells), classes_in_order[cells]


def _whole_rows(rows: np.ndarray) -> np.ndarray:
    """Return rows as whole multiples of 2^-20, to which entries are rounded."""
    return np.asarray(np.round(rows * 2.0**ENTRY_BITS).astype(np.int64))


def _to_sum(whole: np.ndarray) -> np.ndarray:
    """Return a whole sum of rows as doubles, which hold it exactly."""
    cut = np.clip(whole, -LARGEST_SUM, LARGEST_SUM)
    return np.asarray(cut.astype(np.float64) * 2.0**-ENTRY_BITS)


def _computed_sensitivity(rows: int, length: float, size: int) -> float:
    """Return how far a computed sum of rows moves if one is added, or replaced.

    Parameters
    ----------
    rows : int
        1 if a row is added or removed, 2 if it is replaced.
    length : float
        The largest length of a row.
    size : int
        The number of its entries.
    """
    rounding = sqrt(size) * 2.0 ** -(ENTRY_BITS + 1)
    return nextafter(rows * (length * (1 + 1e-9) + rounding), inf)


@dataclass(frozen=True, eq=False, kw_only=True)
class PrototypeMechanism(StagedMechanism, PredictsError, NeedsManyRecords):
    """Gaussian noise about the sums and counts of all classes, after a private ball.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale` for replacing a record together with its label, or with a
      private n for adding or removing one, for ANY records and labels;
    - every released number is on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal law.
    """

    if TYPE_CHECKING:
        statistic: ClassPrototypes

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "class-prototypes", reads="array", is_staged=True
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, ClassPrototypes)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets the guarantee.

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
        # The stages state their sensitivities, whatever neighbors are.
        same_numbers = replace(guarantee, adjacency="replace-one")
        scale = smallest_gaussian_scale(same_numbers)
        return cls(statistic=statistic, scale=scale)

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """For replacing a record, or for adding or removing one if n is private."""
        profile = super().privacy_profile
        if self.statistic.n is not None:
            return profile
        return replace(profile, adjacency=ADD_REMOVE)

    @property
    def has_enough_records(self) -> bool:
        """Whether classes of average size stand out of the noise; True if n is private."""
        if self.statistic.n is None:
            return True
        per_class = self.statistic.n / self.statistic.classes
        return bool(per_class / (2 * self.scale) >= _ENOUGH_PER_CLASS)

    def prepare_data(self, data: Any) -> LabeledPoints:
        """Return the points, clipped into the outer ball, with classes and people.

        Parameters
        ----------
        data : (records, class_index) or (records, class_index, person_index)
            The records have shape (k, *point_shape); the indices have shape (k,).

        Raises
        ------
        ParameterError
            For a wrong shape or type, never for what a record holds.
        """
        records, class_index, *rest = data
        statistic = self.statistic
        shape = statistic.manifold.point_shape
        points = statistic.to_points(to_float_records("records", records, shape))
        classes = np.asarray(class_index)
        persons = rest[0] if rest else None
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
        return PrototypeQueries(self.statistic, data)

    def run(self, queries: PrototypeQueries, add_noise: AddNoise) -> StagedResult:
        """Find the ball if it is not public, and release all sums and counts in it.

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

        answer = queries.class_sums(ball)
        noisy, noise_std = budget.release(
            "sums", 1.0, answer.sensitivity, answer.values
        )
        rows = noisy.reshape(self.statistic.classes, -1)
        count_std = noise_std / self.statistic.count_weight
        counts = rows[:, -1] / self.statistic.count_weight
        divisors = pooled_counts(counts, count_std)
        means = rows[:, :-1] / divisors[:, None]
        prototypes = Prototypes(ball, means, counts, noise_std / divisors, count_std)
        return StagedResult(prototypes, budget)

    def _find_ball(self, queries: PrototypeQueries, budget: StageBudget) -> Ball:
        """Find a ball on a sphere: a center, and a radius that many records are within.

        Parameters
        ----------
        queries : PrototypeQueries
        budget : StageBudget
            Is charged for a noisy sum and a search.
        """
        manifold = self.statistic.manifold
        answer = queries.sum_of_points()
        center_share = self._share_for_few(_CENTER_SHARE, _CENTER_ROOT_SHARE)
        noisy_sum = budget.release(
            "center", center_share, answer.sensitivity, answer.values
        )
        total = self.statistic.n
        if total is None:
            total = max(1.0, float(noisy_sum.values[-1]) / _TOTAL_WEIGHT)
        direction = noisy_sum.values[: manifold.dim + 1]
        center = np.asarray(manifold.project(direction))

        outside = _OUTSIDE_IN_FEW_DIMS
        fraction = 1.0
        if manifold.dim >= CONCENTRATION_DIM:
            outside = 0.5
            fraction = _FRACTION_OF_MEDIAN

        def count_beyond(radii: np.ndarray) -> np.ndarray:
            return queries.count_beyond(center, radii)

        radius = _RADIUS_SEARCH.find(
            budget,
            count_beyond,
            pi,
            allowed_outside=outside * total,
            share=self._share_for_few(_RADIUS_SHARE, _COUNT_ROOT_SHARE),
            center=center,
        )
        return Ball(center, fraction * radius)

    def _share_for_few(self, share: float, root_share: float) -> float:
        """Return the fraction of the budget for a stage, raised if few records are public.

        Parameters
        ----------
        share : float
            The fraction with many records, or if n is private.
        root_share : float
            With n records the fraction is at least (root_share/(nμ))², but at most
            0.25.
        """
        if self.statistic.n is None:
            return share
        few = (root_share * self.scale / self.statistic.n) ** 2
        return float(min(_MAX_SHARE, max(share, few)))

    def predict_error(self) -> float:
        """Predict the length of the noise of one prototype, for classes of equal size.

        The radius is the public one, or 1 where it is found privately: embeddings lie
        about that far from their center.

        Raises
        ------
        ParameterError
            If n is private, because the error depends on it.
        """
        statistic = self.statistic
        if statistic.n is None:
            raise ParameterError("the error is not predicted: n is private")
        radius = 1.0 if statistic.searches_ball else statistic.ball_radius
        share = 1.0
        if statistic.searches_ball:
            share -= self._share_for_few(_CENTER_SHARE, _CENTER_ROOT_SHARE)
            share -= self._share_for_few(_RADIUS_SHARE, _COUNT_ROOT_SHARE)
        noise_std = statistic.sum_sensitivity * self.scale / sqrt(share)
        per_class = statistic.n / statistic.classes
        return float(radius * noise_std * sqrt(statistic.manifold.dim) / per_class)
