"""The second moment of records of bounded length, and the symmetric matrices as vectors."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np

from curvedp._silence import numerical_silence
from curvedp.geometry import Euclidean
from curvedp.mechanisms.statistic import Count, Length, Several, Statistic
from curvedp.numerics.fixed_point import gram_mean, gram_radius, gram_sums
from curvedp.records.base import Records
from curvedp.records.persons import MOST_ROWS


@dataclass(frozen=True, eq=False)
class SecondMoment(Statistic):
    """(1/n)Σ xᵢxᵢᵀ of n records of length at most `radius`, in orthonormal coordinates of the symmetric matrices.

    ‖xxᵀ − x'x'ᵀ‖ <= √2·r², so that the moment moves by at most √2·r²/n. Longer records are scaled onto the public bound, and
    those that are not finite become 0.
    """

    features: Count
    radius: Length
    n: Several

    name: ClassVar[str] = "second moment"
    space = property(lambda self: Euclidean(self.features * (self.features + 1) // 2))

    @property
    def public_n(self) -> int:
        return self.n

    @cached_property
    def sensitivity(self) -> float:
        """√2·r²/n with the rounding of the records' entries; the sum is exact, the mean is rounded at both ends. A person's
        rows over the root of their number add up to a matrix A >= 0 of trace at most r² as one record's xxᵀ is, and
        ‖A − B‖² <= 2r⁴ because tr AB >= 0."""
        rounding = 2 * np.finfo(float).eps * self.radius**2 * self.features
        return (
            sqrt(2) * gram_radius(self.radius, self.features, MOST_ROWS) ** 2 / self.n
            + rounding
        )

    def of(self, records: Records) -> np.ndarray:
        total = records.sums(self._sums).reshape(6, self.features, self.features)
        return pack(gram_mean(total, self.n, self.radius))

    def contrast(self, moment: np.ndarray) -> float:
        """How much directions differ: the length of a packed moment without its multiple of the identity."""
        return float(
            np.linalg.norm(
                moment - pack(np.eye(self.features)) * moment[: self.features].mean()
            )
        )

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows, dtype=np.float64)
        return np.asarray(
            gram_sums(clipped_rows(rows, self.radius), self.radius).ravel()
        )


def clipped_rows(records: np.ndarray, radius: float) -> np.ndarray:
    """Rows of length at most `radius`: longer ones are scaled onto it, those that are not finite become 0."""
    # The floating-point sums of a row's length depend on its layout in memory.
    records = np.ascontiguousarray(records)
    with numerical_silence():
        rows = np.where(np.isfinite(records).all(axis=1, keepdims=True), records, 0.0)
        # Divide by the largest entry first: the square of a huge row would overflow.
        largest = np.abs(rows).max(axis=1, keepdims=True)
        unit = rows / np.where(largest > 0, largest, 1.0)
        # A length that overflows is infinite, and exceeds any radius.
        unit_length = np.linalg.norm(unit, axis=1, keepdims=True)
        length = largest * unit_length
        scaled = unit / unit_length * radius
        return np.asarray(np.where(length <= radius, rows, scaled))


def pack(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal coordinates of a symmetric matrix: the diagonal and √2 times what is above it."""
    upper = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), sqrt(2) * matrix[upper]])


def unpack(coordinates: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix of these coordinates."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = coordinates[size:] / sqrt(2)
    return np.asarray(matrix + matrix.T + np.diag(coordinates[:size]))
