"""The second moment of records of bounded length, and symmetric matrices as vectors.
The second moment is the mean of the matrices xxᵀ over the records x. A matrix is
written as a vector whose Euclidean length is its Frobenius norm, so that noise and
sensitivities may be stated for vectors.
"""

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
    """The second moment (1/n)·Σ xᵢxᵢᵀ of n records, as a vector.

    Records longer than the public `radius` are scaled to that length. A record that is
    not finite becomes 0.

    The coordinates of symmetric matrices are orthonormal (`symmetric_to_vector`).

    Attributes
    ----------
    features : int
        The number d of entries of a record.
    radius : float
        The public bound r on the length of a record.
    n : int
        The public number of records, at least 2.
    """

    features: Count
    radius: Length
    n: AtLeastTwo

    name: ClassVar[str] = "second moment"

    @property
    def value_space(self) -> Euclidean:
        """The Euclidean space of symmetric d × d matrices as vectors."""
        return Euclidean(self.features * (self.features + 1) // 2)

    @property
    def public_count(self) -> int:
        """The number n of records, which is public."""
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
        """Bound the distance of the records' second moment from the population's.

        With S the second moment of the records and Σ the population's, E‖S − Σ‖² ≤
        r⁴/n, and a record moves S by at most √2·r²/n (docs/theory/inference.md,
        "Regions of the population").

        Parameters
        ----------
        failure_probability : float
            The probability that the bound may fail.

        Returns
        -------
        float
            The bound on the Frobenius norm ‖S − Σ‖.
        """
        length = mean_vector_length(self.n, failure_probability, sqrt(0.5))
        return self.radius**2 * length

    def compute(self, records: Records) -> np.ndarray:
        """Return the second moment of the clipped records as a vector. NOT private.

        The sum is exact, so it does not depend on the order of the records.

        Parameters
        ----------
        records : Records
            n records, in memory, on a device or in chunks.
        """
        total = records.sums(self._sum_block).reshape(6, self.features, self.features)
        return symmetric_to_vector(gram_mean(total, self.n, self.radius))

    def contrast(self, moment: np.ndarray) -> float:
        """Return how much the second moment differs between directions.

        This is the length of the moment, as a vector, without its multiple of the
        identity. It is 0 if all directions have the same moment, and then none of them
        is principal.

        Parameters
        ----------
        moment : array of shape (d(d + 1)/2,)
            A moment in the coordinates of `symmetric_to_vector`.
        """
        mean_eigenvalue = moment[: self.features].mean()
        identity = symmetric_to_vector(np.eye(self.features))
        return float(np.linalg.norm(moment - mean_eigenvalue * identity))

    def _sum_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the exact sum of xxᵀ over a block of records, as whole numbers.

        Parameters
        ----------
        rows : array of shape (k, d)
            Some of the records.

        Returns
        -------
        array of int
            Limbs of whole numbers, which add up over blocks without rounding.
        """
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

    Returns
    -------
    array of shape (n, size)
        Rows of length at most `radius`, up to rounding.
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
    """Return a symmetric matrix as a vector of the same length.

    The factor √2 makes the Euclidean length of the vector the Frobenius norm, so that
    sensitivities and noise may be stated for vectors.

    Parameters
    ----------
    matrix : array of shape (d, d)
        A symmetric matrix; entries below the diagonal are not read.

    Returns
    -------
    array of shape (d(d + 1)/2,)
        The diagonal, then √2 times the upper triangle, row by row.
    """
    upper = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), sqrt(2) * matrix[upper]])


def vector_to_symmetric(coordinates: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix with given coordinates: `symmetric_to_vector` reversed.

    Parameters
    ----------
    coordinates : array of shape (d(d + 1)/2,)
        The diagonal, then √2 times the upper triangle, row by row.
    size : int
        d, the number of rows.

    Returns
    -------
    array of shape (d, d)
        The symmetric matrix.
    """
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = coordinates[size:] / sqrt(2)
    return np.asarray(matrix + matrix.T + np.diag(coordinates[:size]))
