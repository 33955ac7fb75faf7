"""Sums over records whose number is private: means are quotients of released sums.

Adding or removing a record moves a sum by one vector of bounded length, half of what
replacing costs, and the number of records is one of the sums, so n is told nowhere.
Every entry of a record's vector is rounded to a multiple of 2^-20; whole numbers add up
exactly, in any order, and are cut at 2^53, which moves no two sums farther apart.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import inf, log2, nextafter, sqrt
from typing import Any, ClassVar

import numpy as np

from curvedp.core.chart import shrink_vector
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import Count, Length
from curvedp.core.statistic import Ball, Statistic, is_point
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.frechet_mean.error_bound import farthest_record
from curvedp.geometry.manifold import Manifold
from curvedp.records.base import Records
from curvedp.statistics.second_moment import clip_rows, vector_to_symmetric
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# Entries of a record's vector, of length about 1, are multiples of 2^-20.
_ENTRY_BITS = 20
_LARGEST_SUM = 2**53


@dataclass(frozen=True, eq=False)
class SumStatistic(Statistic):
    """A sum over records of vectors of bounded length, and what is made of it."""

    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
        ProtectedUnit.LABELED_RECORD,
    )

    @property
    @abstractmethod
    def vector_size(self) -> int:
        """The number of entries of a record's vector."""

    @property
    @abstractmethod
    def vector_length(self) -> float:
        """The largest length of a record's vector, before rounding."""

    @property
    @abstractmethod
    def record_shape(self) -> tuple[int, ...]:
        """The shape of one record."""

    @abstractmethod
    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return each record's vector, shape (records, vector_size)."""

    @abstractmethod
    def read_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return what a noisy sum says about the records. This is post-processing."""

    @property
    def value_space(self) -> Manifold:
        return Euclidean(self.vector_size)

    @property
    def sensitivity(self) -> float:
        """The largest length of a rounded vector, with 1e-9 for the rounding of lengths."""
        rounding = sqrt(self.vector_size) * 2.0 ** -(_ENTRY_BITS + 1)
        return nextafter(self.vector_length * (1 + 1e-9) + rounding, inf)

    @property
    def release_ball(self) -> Ball | None:
        """The public ball of the released point, where it is a point in one."""
        return None

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.QUOTIENT_OF_NOISY_SUMS,)

    def compute_sum(self, records: Records) -> np.ndarray:
        """Return the exact sum. It is NOT private."""
        total = np.clip(records.sums(self._sum_block), -_LARGEST_SUM, _LARGEST_SUM)
        return np.asarray(total.astype(np.float64) * 2.0**-_ENTRY_BITS)

    def _sum_block(self, block: Any) -> np.ndarray:
        """Return the sum over a block of records, as whole multiples of 2^-20."""
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            vectors = self.to_vectors(np.asarray(block, dtype=np.float64))
            whole_numbers = np.round(vectors * 2.0**_ENTRY_BITS).astype(np.int64)
            return np.asarray(whole_numbers.sum(axis=0))


@dataclass(frozen=True, eq=False)
class ClippedSum(SumStatistic):
    """(Σ clip_r(log_c x)/r, w·n): a mean is one step along the quotient from the center c.

    With σ for each unit of length the error of the mean is σ·r/n·√(1 + w²)·√(d +
    t²/w²), t the distance of the mean from the center in radii. At t = ½ the best
    weight is w² = 1/(2√d). It is rounded to a power of two, so that w·n is exact.
    """

    manifold: Manifold
    center: Any
    radius: float

    name: ClassVar[str] = "Fréchet mean, number of records private"
    # Further entries of length at most 1 that a subclass adds to the vector.
    n_further_entries: ClassVar[int] = 0

    @property
    def count_weight(self) -> float:
        """The weight w of the count in a record's vector."""
        best = 1 / sqrt(2 * sqrt(self.manifold.dim))
        return float(2.0 ** round(log2(best)))

    @property
    def vector_size(self) -> int:
        return self.manifold.dim + 1 + self.n_further_entries

    @property
    def vector_length(self) -> float:
        return sqrt(1 + self.n_further_entries + self.count_weight**2)

    @property
    def record_shape(self) -> tuple[int, ...]:
        return self.manifold.point_shape

    @property
    def release_ball(self) -> Ball | None:
        return Ball(self.center, self.radius)

    @cached_property
    def clipping_radius(self) -> float:
        """The radius, or less where float64 cannot represent the whole ball."""
        return farthest_record(self.manifold, self.radius)

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return a row for each record: its clipped logarithm at the center, and a weight.

        Logarithms are in units of the clipping radius. The last entry is `count_weight`
        for every record, so that the sum of the rows contains a count.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.
        """
        inside = np.asarray(
            project_to_ball(self.manifold, self.center, self.radius, records)
        )
        logs = logs_at(self.manifold, self.center, inside)
        unit_logs = clip_rows_to(logs, self.clipping_radius) / self.clipping_radius
        counts = np.full((len(unit_logs), 1), self.count_weight)
        return np.concatenate([unit_logs, counts], axis=1)

    def read_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the private mean, computed from the noisy sum and the noisy count.

        With c the center and q the quotient of both, shrunk for its noise, it is
        exp_c(q), clipped into the ball. In a ball that is wider than the range of
        doubles, the step ends at the edge of that range. A result that is still no
        point is replaced by the center.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`.
        noise_std : float
            The standard deviation of the noise in each entry.
        """
        coordinates = self.clipping_radius * self.mean_step(noisy_sum, noise_std)
        length = float(np.linalg.norm(coordinates))
        max_distance = self.manifold.float_set.max_distance
        if length > max_distance:
            coordinates = coordinates * (max_distance / length)
        point = np.asarray(
            self.manifold.from_normal_coordinates(self.center, coordinates)
        )
        if not is_point(self.manifold, point):
            return np.asarray(self.center)
        return point

    def mean_step(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the estimated mean of clip_r(log_c x)/r, shrunk, of length at most 1."""
        count = self.noisy_count(noisy_sum)
        mean = noisy_sum[: self.manifold.dim] / count
        step = shrink_vector(mean, noise_std / count)
        return np.asarray(step / max(1.0, float(np.linalg.norm(step))))

    def noisy_count(self, noisy_sum: np.ndarray) -> float:
        """Return the estimated number of records, at least 1."""
        return max(float(noisy_sum[self.manifold.dim]) / self.count_weight, 1.0)


@dataclass(frozen=True, eq=False)
class SpreadSum(ClippedSum):
    """(Σ clip_r(log_c x)/r, w·n, Σ min(d(c, x), r)²/r²): a variance is their quotient.

    The variance is the mean square distance less the squared step. This is exact in
    flat space, and elsewhere right to second order in the distance from the center to
    the mean.
    """

    name: ClassVar[str] = "Fréchet variance, number of records private"
    n_further_entries: ClassVar[int] = 1

    @property
    def release_ball(self) -> Ball | None:
        return None

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        vectors = super().to_vectors(records)
        squares = np.sum(vectors[:, :-1] ** 2, axis=1, keepdims=True)
        return np.concatenate([vectors, squares], axis=1)

    def read_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the private variance, in [0, r²]."""
        mean_square = noisy_sum[-1] / self.noisy_count(noisy_sum)
        square_of_mean = float(np.sum(self.mean_step(noisy_sum, noise_std) ** 2))
        share = float(np.clip(mean_square - square_of_mean, 0.0, 1.0))
        return np.array([self.clipping_radius**2 * share])


@dataclass(frozen=True, eq=False)
class GramSum(SumStatistic):
    """Σ xxᵀ/r² of records of length at most r: its eigenvectors need no n.

    ‖xxᵀ‖ ≤ r². Longer records are scaled onto the bound, and those that are not finite
    become 0.
    """

    features: Count
    radius: Length

    name: ClassVar[str] = "second moment, number of records private"

    @property
    def vector_size(self) -> int:
        return self.features * (self.features + 1) // 2

    @property
    def vector_length(self) -> float:
        return 1.0

    @property
    def record_shape(self) -> tuple[int, ...]:
        return (self.features,)

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return xxᵀ/r² as the diagonal and √2 times the upper triangle."""
        x = clip_rows(records, self.radius) / self.radius
        i, j = np.triu_indices(self.features, 1)
        return np.concatenate([x * x, sqrt(2) * x[:, i] * x[:, j]], axis=1)

    def read_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the symmetric matrix Σ xxᵀ."""
        return self.radius**2 * vector_to_symmetric(noisy_sum, self.features)
