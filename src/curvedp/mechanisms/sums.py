"""Adding or removing a record: noisy sums, of which the number of records is one, so that n is nowhere told.

A record adds one vector of bounded length to a sum, so the sum moves by that length: half of what replacing costs. Means are
quotients of released numbers. Every entry of a record's vector is first rounded to a multiple of 2^-20; whole numbers add up
exactly, in any order, and are cut at 2^53, which moves no two sums further apart: the computed sums are those of the theorem.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log2, nextafter, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from curvedp.entropy import Source
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.frechet_mean.error_bound import farthest_record
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.base import Draw, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import shrunk
from curvedp.mechanisms.measured import clip, logs_at
from curvedp.mechanisms.noise import VectorMechanism, least_noise, spread_of
from curvedp.mechanisms.second_moment import clipped_rows, unpack
from curvedp.mechanisms.statistic import Ball, Count, Length, Statistic, is_point
from curvedp.privacy import Guarantee
from curvedp.records.base import Records, open_records

ADDED = "add-remove"
RECORD_ADDED = "one record, added or removed; the number of records is private"
PERSON_ADDED = "one person with all their records, added or removed; the number of persons is private"
LABEL_ADDED = "one record with its label, added or removed; the number of records is private, the set of classes public"
_BITS = 20  # of an entry of a record's vector, whose length is about 1


@dataclass(frozen=True, eq=False)
class SumStatistic(Statistic):
    """A sum over records of vectors of bounded length, and what is made of it."""

    unit: ClassVar[str] = RECORD_ADDED
    units: ClassVar[tuple[str, ...]] = (PERSON_ADDED, LABEL_ADDED)
    valued: ClassVar[bool] = False
    size: ClassVar[Any]  # how many entries a record's vector has
    length: ClassVar[
        Any
    ]  # the largest length of a record's vector, before it is rounded
    point_shape: ClassVar[Any]  # the shape of one record
    space = property(lambda self: Euclidean(self.size))

    @abstractmethod
    def vectors(self, records: np.ndarray) -> np.ndarray:
        """One row a record."""

    @abstractmethod
    def read(self, total: np.ndarray, noise: float) -> np.ndarray:
        """What a noisy sum says: post-processing."""

    @property
    def sensitivity(self) -> float:
        """The largest length of a rounded vector; 1e-9 of it for the rounding of its length."""
        return nextafter(
            self.length * (1 + 1e-9) + sqrt(self.size) * 2.0 ** -(_BITS + 1), inf
        )

    def total(self, records: Records) -> np.ndarray:
        """The exact sum. NOT private."""
        return np.asarray(
            np.clip(records.sums(self._whole), -(2**53), 2**53).astype(np.float64)
            * 2.0**-_BITS
        )

    def _whole(self, block: Any) -> np.ndarray:
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            rows = self.vectors(np.asarray(block, dtype=np.float64))
            return np.asarray(np.round(rows * 2.0**_BITS).astype(np.int64).sum(axis=0))


@dataclass(frozen=True, eq=False)
class ClippedSum(SumStatistic):
    """(Σ clip_r(log_c x)/r, w·n): a private mean is one step along the quotient, from the center of a public ball.

    With σ for each unit of length the mean's error is σ·r/n·√(1 + w²)·√(d + t²/w²), t the mean's distance from the center in
    radii; at t = ½ the best w² is 1/(2√d). It is rounded to a power of two, so that w·n is exact."""

    manifold: Manifold
    center: Any
    radius: float

    name: ClassVar[str] = "Fréchet mean, number of records private"
    more: ClassVar[int] = 0  # entries of length at most 1 that follow
    landing = property(lambda self: Ball(self.center, self.radius))
    weight = property(
        lambda self: float(2.0 ** round(log2(1 / sqrt(2 * sqrt(self.manifold.dim)))))
    )  # w
    size = property(lambda self: self.manifold.dim + 1 + self.more)
    length = property(lambda self: sqrt(1 + self.more + self.weight**2))
    point_shape = property(lambda self: self.manifold.point_shape)
    # r: the radius, or less where floats hold less of the ball
    reach = cached_property(lambda self: farthest_record(self.manifold, self.radius))

    def vectors(self, records: np.ndarray) -> np.ndarray:
        inside = np.asarray(
            project_to_ball(self.manifold, self.center, self.radius, records)
        )
        z = clip(logs_at(self.manifold, self.center, inside), self.reach) / self.reach
        return np.concatenate([z, np.full((len(z), 1), self.weight)], axis=1)

    def read(self, total: np.ndarray, noise: float) -> np.ndarray:
        """Return exp_c of the quotient, shrunk and in the ball.

        In a ball that is wider than what doubles hold, the step ends where they do; what is
        no point all the same becomes the center.
        """
        coordinates = self.reach * self.step(total, noise)
        length = float(np.linalg.norm(coordinates))
        if length > self.manifold.float_set.max_distance:
            coordinates = coordinates * (self.manifold.float_set.max_distance / length)
        point = np.asarray(
            self.manifold.from_normal_coordinates(self.center, coordinates)
        )
        return point if is_point(self.manifold, point) else np.asarray(self.center)

    def step(self, total: np.ndarray, noise: float) -> np.ndarray:
        """The mean of clip_r(log_c x)/r, as far as it is known."""
        count = max(total[self.manifold.dim] / self.weight, 1.0)
        v = shrunk(total[: self.manifold.dim] / count, noise / count)
        return np.asarray(v / max(1.0, float(np.linalg.norm(v))))


@dataclass(frozen=True, eq=False)
class SpreadSum(ClippedSum):
    """(Σ clip_r(log_c x)/r, w·n, Σ min(d(c, x), r)²/r²): the variance is the mean square less the step's square, exact in
    flat space and elsewhere right to second order in the distance from the center to the mean."""

    name: ClassVar[str] = "Fréchet variance, number of records private"
    more: ClassVar[int] = 1
    landing = None

    def vectors(self, records: np.ndarray) -> np.ndarray:
        rows = super().vectors(records)
        return np.concatenate(
            [rows, np.sum(rows[:, :-1] ** 2, axis=1, keepdims=True)], axis=1
        )

    def read(self, total: np.ndarray, noise: float) -> np.ndarray:
        """In [0, r²]."""
        count = max(total[self.manifold.dim] / self.weight, 1.0)
        square = float(np.sum(self.step(total, noise) ** 2))
        return np.array(
            [self.reach**2 * float(np.clip(total[-1] / count - square, 0.0, 1.0))]
        )


@dataclass(frozen=True, eq=False)
class GramSum(SumStatistic):
    """Σ xxᵀ/r² of records of `features` numbers and of length at most `radius`: its eigenvectors need no n. ‖xxᵀ‖ <= r².
    Longer records are scaled onto it, and those that are not finite become 0."""

    features: Count
    radius: Length

    name: ClassVar[str] = "second moment, number of records private"

    length = 1.0  # in units of r²
    size = property(lambda self: self.features * (self.features + 1) // 2)
    point_shape = property(lambda self: (self.features,))

    def vectors(self, records: np.ndarray) -> np.ndarray:
        """xxᵀ/r² in orthonormal coordinates: the diagonal and √2 times what is above it."""
        x = clipped_rows(records, self.radius) / self.radius
        i, j = np.triu_indices(self.features, 1)
        return np.concatenate([x * x, sqrt(2) * x[:, i] * x[:, j]], axis=1)

    def read(self, total: np.ndarray, noise: float) -> np.ndarray:
        """The symmetric matrix Σ xxᵀ."""
        return self.radius**2 * unpack(total, self.features)


@dataclass(frozen=True, eq=False, kw_only=True)
class SumMechanism(VectorMechanism):
    """Gaussian noise, or for pure ε Laplace noise, about a sum over records, for adding or removing one. Its scale is the
    standard deviation of each entry of the sum, or b of the density ∝ exp(−|y|/b).

    Guarantees
    - exactly μ-GDP with μ = (length of a record's vector)/σ for add-remove adjacency, or ε-DP with that over b, for ANY
      records; n is nowhere told.
    """

    name: ClassVar[str] = "gaussian-sum"
    option: ClassVar[str | None] = "sum"
    afterwards = ("what is made of the noisy sum",)
    streams: ClassVar[bool] = True
    of: ClassVar[Any] = SumStatistic

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        check_guarantee(guarantee, ADDED)
        law, scale = least_noise(
            replace(guarantee, adjacency="replace-one"), statistic.sensitivity
        )
        return cls(statistic=statistic, scale=scale, law=law)

    @cached_property
    def profile(self) -> Any:
        """For adding or removing a record."""
        return replace(super().profile, adjacency=ADDED)

    def accepted(self, data: Any) -> np.ndarray:
        """The exact sum; records may be none at all, and only their shape and type can be refused."""
        summed: SumStatistic = self.statistic
        given = (
            data
            if hasattr(data, "sums")
            else open_records(data, summed.point_shape, "records", least=0)
        )
        return summed.total(given)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        draws, noisy = self.exact_noise(source)
        return Draw.of(noisy(data[None], np.array([self.scale]))[0], draws)

    def finish(self, value: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # of released numbers
            return np.asarray(
                self.statistic.read(value, self.scale * spread_of(self.law, value.size))
            )

    def value_of(self, certificate: Certificate) -> np.ndarray:
        return self.finish(
            replay(certificate.release["integers"])(
                np.empty(self.statistic.size), [self.scale]
            )
        )
