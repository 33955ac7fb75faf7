"""The second moment of records of bounded length, and symmetric matrices as vectors."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np

from curvedp._silence import numerical_silence
from curvedp.core.capabilities import BoundsSamplingError
from curvedp.core.fields import AtLeastTwo, Count, Length
from curvedp.core.statistic import PointStatistic
from curvedp.geometry import Euclidean
from curvedp.numerics.fixed_point import gram_mean, gram_radius, gram_sums
from curvedp.records.base import Records
from curvedp.records.persons import MAX_ROWS_PER_PERSON
from curvedp.statistics.sampling import mean_vector_length


@dataclass(frozen=True, eq=False)
class SecondMoment(PointStatistic, BoundsSamplingError):
    """(1/n)·Σ xᵢxᵢᵀ of n records, in orthonormal coordinates of the symmetric matrices.

    Records longer than the public `radius` are scaled onto it; those that are not
    finite become 0.
    """

    features: Count
    radius: Length
    n: AtLeastTwo

    name: ClassVar[str] = "second moment"

    @property
    def value_space(self) -> Euclidean:
        return Euclidean(self.features * (self.features + 1) // 2)

    @property
    def public_count(self) -> int:
        return self.n

    @cached_property
    def sensitivity(self) -> float:
        """√2·r²/n, enlarged by rounding.

        ‖xxᵀ − yyᵀ‖² = |x|⁴ + |y|⁴ − 2⟨x, y⟩² ≤ 2r⁴. For people: a person's rows,
        divided by the square root of their number, add up to a matrix A ≥ 0 of trace at
        most r², and ‖A − B‖² ≤ 2r⁴ because tr AB ≥ 0. Entries of records are rounded to
        40 bits; the sum is exact, and the mean is rounded at both ends.
        """
        rounded_radius = gram_radius(self.radius, self.features, MAX_ROWS_PER_PERSON)
        rounding_of_mean = 2 * np.finfo(float).eps * self.radius**2 * self.features
        return sqrt(2) * rounded_radius**2 / self.n + rounding_of_mean

    def sampling_error(self, failure_probability: float) -> float:
        """Bound ‖S − Σ‖, S the second moment of the records and Σ the population's.

        E‖S − Σ‖² ≤ r⁴/n, and a record moves S by at most √2·r²/n
        (docs/theory/inference.md, "Regions of the population").
        """
        length = mean_vector_length(self.n, failure_probability, sqrt(0.5))
        return self.radius**2 * length

    def compute(self, records: Records) -> np.ndarray:
        total = records.sums(self._sum_block).reshape(6, self.features, self.features)
        return symmetric_to_vector(gram_mean(total, self.n, self.radius))

    def contrast(self, moment: np.ndarray) -> float:
        """Return how much directions differ.

        This is the length of the moment, as a vector, without its multiple of the
        identity.
        """
        mean_eigenvalue = moment[: self.features].mean()
        identity = symmetric_to_vector(np.eye(self.features))
        return float(np.linalg.norm(moment - mean_eigenvalue * identity))

    def _sum_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the exact sum of xxᵀ over a block of records, as whole numbers."""
        clipped = clip_rows(np.asarray(rows, dtype=np.float64), self.radius)
        return np.asarray(gram_sums(clipped, self.radius).ravel())


def clip_rows(records: np.ndarray, radius: float) -> np.ndarray:
    """Shorten rows that are longer than a radius to that length.

    A row with an entry that is not finite becomes 0.

    Parameters
    ----------
    records : array of shape (n, size)
        The rows.
    radius : float
        The largest length.
    """
    # The float sum of a row's squares depends on the layout of the array in memory.
    records = np.ascontiguousarray(records)
    with numerical_silence():
        is_finite = np.isfinite(records).all(axis=1, keepdims=True)
        rows = np.where(is_finite, records, 0.0)
        # Divide by the largest entry first: the square of a huge row would overflow.
        largest = np.abs(rows).max(axis=1, keepdims=True)
        unit_rows = rows / np.where(largest > 0, largest, 1.0)
        # A length that overflows is infinite, and exceeds every radius.
        unit_lengths = np.linalg.norm(unit_rows, axis=1, keepdims=True)
        lengths = largest * unit_lengths
        on_bound = unit_rows / unit_lengths * radius
        return np.asarray(np.where(lengths <= radius, rows, on_bound))


def symmetric_to_vector(matrix: np.ndarray) -> np.ndarray:
    """Return orthonormal coordinates: the diagonal, then √2 times the upper triangle."""
    upper = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), sqrt(2) * matrix[upper]])


def vector_to_symmetric(coordinates: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix of `symmetric_to_vector`'s coordinates."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = coordinates[size:] / sqrt(2)
    return np.asarray(matrix + matrix.T + np.diag(coordinates[:size]))
