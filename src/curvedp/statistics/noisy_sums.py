"""Sums over records whose number is private: means are quotients of released sums. A
record's vector has a bounded length and contains a constant, so that the sums contain a
count. Neighboring data sets differ by one added or removed record, which moves the sums
by at most one such vector.

That is half of what replacing a record costs. The count is one of the noisy sums, so n
is not stated anywhere else. Every entry of a record's vector is rounded to a multiple
of 2^-20; whole numbers add up exactly, in any order, and are cut at 2^53, which moves
no two sums farther apart.
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
    """A sum of one bounded vector for each record, and the estimate from it."""

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
        """A bound on the Euclidean length of a record's vector, before rounding."""

    @property
    @abstractmethod
    def record_shape(self) -> tuple[int, ...]:
        """The shape of one record."""

    @abstractmethod
    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return the bounded vector that each record adds to the sum.

        Parameters
        ----------
        records : array of shape (n, *record_shape)
            The records. Entries may be anything.

        Returns
        -------
        array of shape (n, vector_size)
            One row for each record, of length at most `vector_length`.
        """

    @abstractmethod
    def estimate_from_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the estimate that a noisy sum leads to, such as a mean. Post-processing.

        Parameters
        ----------
        noisy_sum : array of shape (vector_size,)
            The sum of all vectors, with Gaussian noise.
        noise_std : float
            The standard deviation of the noise in each entry.

        Returns
        -------
        array
            The estimate, in the frame of the records.
        """

    @property
    def value_space(self) -> Manifold:
        """The Euclidean space of the sums."""
        return Euclidean(self.vector_size)

    @property
    def sensitivity(self) -> float:
        """The largest length of a rounded vector, by which one added record moves the sum.

        The length may be computed too small by a relative error of 1e-9, and rounding
        to multiples of 2^-20 moves each entry by at most 2^-21.
        """
        rounding = sqrt(self.vector_size) * 2.0 ** -(_ENTRY_BITS + 1)
        return nextafter(self.vector_length * (1 + 1e-9) + rounding, inf)

    @property
    def release_ball(self) -> Ball | None:
        """The public ball of the released point; None if no point is released."""
        return None

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """Estimates are quotients of the noisy sums."""
        return (PostProcessing.QUOTIENT_OF_NOISY_SUMS,)

    def compute_sum(self, records: Records) -> np.ndarray:
        """Return the exact sum of all records' vectors. It is NOT private.

        Entries are added as whole multiples of 2^-20, so the sum does not depend on the
        order of the records.

        Parameters
        ----------
        records : Records
            The records, in memory or elsewhere.

        Returns
        -------
        array of shape (vector_size,)
            The sum, cut at ±2^53 multiples of 2^-20.
        """
        total = np.clip(records.sums(self._sum_block), -_LARGEST_SUM, _LARGEST_SUM)
        return np.asarray(total.astype(np.float64) * 2.0**-_ENTRY_BITS)

    def _sum_block(self, block: Any) -> np.ndarray:
        """Return the sum of vectors over a block of records, in whole multiples of 2^-20.

        Parameters
        ----------
        block : array of shape (k, *record_shape)
            Some of the records.
        """
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            vectors = self.to_vectors(np.asarray(block, dtype=np.float64))
            whole_numbers = np.round(vectors * 2.0**_ENTRY_BITS).astype(np.int64)
            return np.asarray(whole_numbers.sum(axis=0))


@dataclass(frozen=True, eq=False)
class ClippedSum(SumStatistic):
    """The sum (Σ clip_r(log_c x)/r, w·n), whose quotient leads to a private mean.

    One step along the quotient from the center c ends at about the mean of the records
    x, which are clipped to a ball of radius r about c. The number n of records is
    private.

    With noise of deviation σ for a sensitivity of 1, the error of the mean is
    σ·r/n·√(1 + w²)·√(d + t²/w²), t the distance of the mean from the center in radii.
    At t = ½ the best weight is w² = 1/(2√d). It is rounded to a power of two, so that
    w·n is exact.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array of shape point_shape
        The center c of the public ball.
    radius : float
        The radius r of the public ball.
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
        """The coordinates of a logarithm, a count, and what a subclass adds."""
        return self.manifold.dim + 1 + self.n_further_entries

    @property
    def vector_length(self) -> float:
        """√(1 + w² + m): a logarithm, the weight w of the count, and m further entries."""
        return sqrt(1 + self.n_further_entries + self.count_weight**2)

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of a point of the manifold."""
        return self.manifold.point_shape

    @property
    def release_ball(self) -> Ball | None:
        """The public ball, into which the released mean is clipped."""
        return Ball(self.center, self.radius)

    @cached_property
    def clipping_radius(self) -> float:
        """The length to which logarithms are clipped; the unit of a record's vector.

        It is the radius, or less if float64 cannot represent the whole ball.
        """
        return farthest_record(self.manifold, self.radius)

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return a row for each record: its clipped logarithm at the center, and a weight.

        Logarithms are in units of the clipping radius. The last entry is `count_weight`
        for every record, so that the sum of the rows contains a count.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, dim + 1)
            A clipped logarithm of length at most 1 and the weight, in each row.
        """
        inside = np.asarray(
            project_to_ball(self.manifold, self.center, self.radius, records)
        )
        logs = logs_at(self.manifold, self.center, inside)
        unit_logs = clip_rows_to(logs, self.clipping_radius) / self.clipping_radius
        counts = np.full((len(unit_logs), 1), self.count_weight)
        return np.concatenate([unit_logs, counts], axis=1)

    def estimate_from_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the private mean, computed from the noisy sum and the noisy count.

        Let q be the noisy sum of the logarithms at the center c over the noisy count,
        shrunk for its noise and at most as long as the radius. The mean is exp_c(q). In
        a ball that is wider than the range of doubles, the step ends at the edge of
        that range. A result that is still no point is replaced by the center.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`.
        noise_std : float
            The standard deviation of the noise in each entry.

        Returns
        -------
        array of shape point_shape
            The private mean.
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
        """Return the estimated mean of clip_r(log_c x)/r, shrunk, of length at most 1.

        The noisy sum of logarithms is divided by the noisy count, and shrunk toward 0
        by the rule of James and Stein.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`.
        noise_std : float
            The standard deviation of the noise in each entry of the sum.

        Returns
        -------
        array of shape (dim,)
            Coordinates at the center c in units of the clipping radius.
        """
        count = self.noisy_count(noisy_sum)
        mean = noisy_sum[: self.manifold.dim] / count
        step = shrink_vector(mean, noise_std / count)
        return np.asarray(step / max(1.0, float(np.linalg.norm(step))))

    def noisy_count(self, noisy_sum: np.ndarray) -> float:
        """Return the estimated number of records, at least 1 so that it can divide.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`, whose entry after the logarithm
            is the weight times the count.
        """
        return max(float(noisy_sum[self.manifold.dim]) / self.count_weight, 1.0)


@dataclass(frozen=True, eq=False)
class SpreadSum(ClippedSum):
    """The sum (Σ clip_r(log_c x)/r, w·n, Σ min(d(c, x), r)²/r²) for a variance.

    The variance is the mean square distance less the squared step. This is exact in
    flat space, and elsewhere right to second order in the distance from the center to
    the mean.
    """

    name: ClassVar[str] = "Fréchet variance, number of records private"
    n_further_entries: ClassVar[int] = 1

    @property
    def release_ball(self) -> Ball | None:
        """None: a variance is no point of the ball."""
        return None

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return the logarithm, the weight, and the squared length of the logarithm.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, dim + 2)
            One row for each record, in units of the clipping radius and of its square.
        """
        vectors = super().to_vectors(records)
        unit_logs = vectors[:, :-1]  # the last entry is the count's weight
        squares = np.sum(unit_logs**2, axis=1, keepdims=True)
        return np.concatenate([vectors, squares], axis=1)

    def estimate_from_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the private variance, in [0, r²].

        The variance is the mean square distance to the center less the squared length
        of the mean logarithm.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`.
        noise_std : float
            The standard deviation of the noise in each entry of the sum.

        Returns
        -------
        array of shape (1,)
            The variance in squared units of the manifold's distance.
        """
        mean_square = noisy_sum[-1] / self.noisy_count(noisy_sum)
        square_of_mean = float(np.sum(self.mean_step(noisy_sum, noise_std) ** 2))
        share = float(np.clip(mean_square - square_of_mean, 0.0, 1.0))
        return np.array([self.clipping_radius**2 * share])


@dataclass(frozen=True, eq=False)
class GramSum(SumStatistic):
    """The sum Σ xxᵀ/r² of records of length at most r; its eigenvectors need no n.

    ‖xxᵀ‖ ≤ r². Longer records are scaled to the length r, and a record that is not
    finite becomes 0.

    Attributes
    ----------
    features : int
        The number of entries of a record.
    radius : float
        The public bound r on the length of a record.
    """

    features: Count
    radius: Length

    name: ClassVar[str] = "second moment, number of records private"

    @property
    def vector_size(self) -> int:
        """d(d + 1)/2, the number of entries of a symmetric matrix of d features."""
        return self.features * (self.features + 1) // 2

    @property
    def vector_length(self) -> float:
        """1, because ‖xxᵀ‖/r² = |x|²/r² ≤ 1."""
        return 1.0

    @property
    def record_shape(self) -> tuple[int, ...]:
        """A row of features."""
        return (self.features,)

    def to_vectors(self, records: np.ndarray) -> np.ndarray:
        """Return xxᵀ/r² of each clipped record, as a vector.

        The vector has the diagonal and √2 times the upper triangle, so that its length
        is the Frobenius norm of the matrix.

        Parameters
        ----------
        records : array of shape (n, features)
            The records.

        Returns
        -------
        array of shape (n, features·(features + 1)/2)
            One row for each record.
        """
        x = clip_rows(records, self.radius) / self.radius
        i, j = np.triu_indices(self.features, 1)
        return np.concatenate([x * x, sqrt(2) * x[:, i] * x[:, j]], axis=1)

    def estimate_from_sum(self, noisy_sum: np.ndarray, noise_std: float) -> np.ndarray:
        """Return the noisy symmetric matrix Σ xxᵀ, whose eigenvectors are released.

        Parameters
        ----------
        noisy_sum : array
            The noisy sum of the rows of `to_vectors`.
        noise_std : float
            Not used: nothing is shrunk here.

        Returns
        -------
        array of shape (features, features)
            The matrix in squared units of the records.
        """
        return self.radius**2 * vector_to_symmetric(noisy_sum, self.features)
