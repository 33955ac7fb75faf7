"""What a round asks of the sites: a bounded row for each record, and what their noisy sum tells (docs/federation.md).

A row depends on its own record and on public values only, and is bounded by construction, whatever the manifold, the record
and the place the server asks about: no curvature, solver or convergence enters the sensitivity. Rows are in units of the
radius, so that the bound, `change`, is a public number even where the radius is found on the way. What happens to the noisy
sums is post-processing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from math import inf, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from curvedp.core.statistic import check_point
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.chart import shrink_vector
from curvedp.mechanisms.staged.queries import (
    Bins,
    edge_shares_of_factor,
    half_bin_count,
    likeliest_bin,
    logs_at,
    point_or_fallback,
    rescale_factor,
)
from curvedp.statistics.second_moment import clip_rows

Array = np.ndarray

_BIN = 2.0  # width of a bin of scales
_LENGTHS = 1.17 ** -np.arange(175.0)  # of the outer radius: down to 10^-12 of it
# Counts beyond the lengths are prefix sums of a histogram h. B, lower triangular, has B·B = all ones below the diagonal, so
# that B·(Bh + noise) are those counts with noise 3.42σ each, where sums of noisy bins have σ times the root of their number
# (Fichtenberger, Henzinger & Upadhyay 2023). The coefficients are those of (1 − x)^{-1/2}.
_ROOT = np.cumprod([1.0, *(1 - 0.5 / np.arange(1, len(_LENGTHS)))])
_B = np.array(
    [
        np.concatenate([_ROOT[k::-1], np.zeros(len(_ROOT) - 1 - k)])
        for k in range(len(_ROOT))
    ]
)
_ROWS = np.concatenate(
    [_B.T, np.zeros((1, len(_B)))]
)  # by bin; the last is nearer than every length
_CHANGE = float(max(np.linalg.norm(_ROWS - row, axis=1).max() for row in _ROWS))


class Where(NamedTuple):
    """What is public of one class of records between rounds."""

    point: Array  # where the next question is asked
    center: Array  # of the ball
    near: float  # the distance within which half of the records are
    radius: float  # of the ball
    bend: float  # by what a step that is small beside the radius is too long: H − 1

    def row(self) -> Array:
        """As numbers, for messages."""
        return np.concatenate(
            [
                self.point.ravel(),
                self.center.ravel(),
                [self.near, self.radius, self.bend],
            ]
        )

    @staticmethod
    def read(manifold: Manifold, row: Array) -> "Where":
        """The inverse of `row`; raises `ParameterError` where the points are none, whatever the records."""
        parts = np.split(row[:-3], 2)
        points = [
            check_point("at", manifold, part.reshape(manifold.point_shape))
            for part in parts
        ]
        return Where(points[0], points[1], *(float(x) for x in row[-3:]))


class Outer(NamedTuple):
    """The public ball that holds the records."""

    manifold: Manifold
    center: Array
    radius: float


@dataclass(frozen=True)
class Question(ABC):
    """One of a round, for a weight of the budget."""

    ball: Outer
    weight: float

    change: ClassVar[float]  # the largest distance between the rows of two records

    @property
    def length(self) -> int:
        """Numbers in a row."""
        return int(self.ball.manifold.dim)

    @abstractmethod
    def rows(self, where: Where, points: Array) -> Array:
        """One row a record, which has been moved into the outer ball."""

    @abstractmethod
    def moved(
        self, where: Where, total: Array, n: int, noise: float, part: float
    ) -> Array:
        """The public numbers after a round, from the noisy sum over n records, the noise's standard deviation in a
        coordinate, and the round's part of the budget that was spent in this ball so far."""


@dataclass(frozen=True)
class Place(Question):
    """A first center: the scale of every cone, the mean of embedded points of every factor that has an embedding."""

    @staticmethod
    def parts(M: Manifold) -> list[int]:
        """The factors of which there is something to know."""
        return [
            k
            for k, f in enumerate(M.factors)
            if isinstance(f, ScalableCone | EmbeddedMean)
        ]

    @property
    def change(self) -> float:  # type: ignore[override]  # each part has changes of at most 1
        return sqrt(len(self.parts(self.ball.manifold)))

    @property
    def length(self) -> int:
        return sum(map(self._length, self.parts(self.ball.manifold)))

    def rows(self, where: Where, points: Array) -> Array:
        return np.concatenate(
            [self._rows(k, points) for k in self.parts(self.ball.manifold)], axis=1
        )

    def moved(
        self, where: Where, total: Array, n: int, noise: float, part: float
    ) -> Array:
        (M, c, _), parts = self.ball, self.parts(self.ball.manifold)
        ends = np.cumsum([self._length(k) for k in parts])[:-1]
        for k, sums in zip(parts, np.split(total, ends), strict=True):
            factor, factors = M.factors[k], list(M.split(c))
            if not isinstance(factor, EmbeddedMean):
                place = likeliest_bin(sqrt(2) * sums, sqrt(2) * noise, n, "gaussian")
                c = rescale_factor(M, c, k, _BIN * float(place))
            else:
                factors[k] = np.asarray(
                    factor.from_embedding(factor.embedded_diameter * sums / n)
                )
                c = point_or_fallback(M, partial(M.join, factors), c)
        return Where(c, c, *where[2:]).row()

    def _length(self, k: int) -> int:
        factor = self.ball.manifold.factors[k]
        if not isinstance(factor, EmbeddedMean):
            return 2 * half_bin_count(factor, self.ball.radius, _BIN) + 1
        return int(np.asarray(factor.embed(factor.origin)).size)

    def _rows(self, k: int, points: Array) -> Array:
        M, size = self.ball.manifold, self._length(k)
        factor = M.factors[k]
        if not isinstance(factor, EmbeddedMean):
            first, shares = edge_shares_of_factor(
                M, self.ball.center, k, Bins(_BIN, size // 2, "gaussian"), points
            )
            each = shares[..., None] * np.eye(size)[[first, first + 1]]
            return np.asarray((each[0] + each[1]) / sqrt(2))
        embedded = np.asarray(factor.embed(np.asarray(M.split(points)[k])))
        return clip_rows(
            embedded.reshape(len(points), size) / factor.embedded_diameter, 0.5
        )


@dataclass(frozen=True)
class Distances(Question):
    """How far the records are from the center: all quantiles at once. `hidden` are so many as the last step's noise hides."""

    hidden: float

    change = _CHANGE
    length = len(_LENGTHS)

    def rows(self, where: Where, points: Array) -> Array:
        lengths = np.linalg.norm(
            logs_at(self.ball.manifold, where.point, points), axis=-1
        )
        return np.asarray(
            _ROWS[np.searchsorted(-self.ball.radius * _LENGTHS, -lengths, side="right")]
        )

    def moved(
        self, where: Where, total: Array, n: int, noise: float, part: float
    ) -> Array:
        beyond, lengths = _B @ total, self.ball.radius * _LENGTHS
        beyond = (
            np.maximum.accumulate(beyond) + np.minimum.accumulate(beyond[::-1])[::-1]
        ) / 2
        outside = min(n / 2, self.hidden + 2 * noise * float(np.linalg.norm(_ROOT)))
        near, most = (
            float(lengths[max(int(np.sum(beyond <= count)), 1) - 1])
            for count in (n / 2, outside)
        )
        bend = self._bend(np.minimum(lengths, most), beyond / n)
        return Where(where.point, where.point, near, most, bend).row()

    def _bend(self, lengths: Array, beyond: Array) -> float:
        """The mean of s·coth s − 1 across a direction in hyperbolic space."""
        M, masses = (
            self.ball.manifold,
            np.clip(np.diff(np.append(beyond, 1.0)), 0.0, None),
        )
        s = sqrt(max(-(M.constant_curvature or 0.0), 0.0)) * lengths
        each = np.where(s > 1e-6, s / np.tanh(np.maximum(s, 1e-6)) - 1, 0.0)
        return float(masses @ each / max(masses.sum(), 1e-300)) * (1 - 1 / M.dim)


@dataclass(frozen=True)
class Step(Question):
    """A step towards the mean. With `coarse` it is clipped at half of the records' distance, and the ball moves with it."""

    coarse: bool = False

    change = 2.0

    def rows(self, where: Where, points: Array) -> Array:
        M = self.ball.manifold
        steps = logs_at(M, where.point, points) - logs_at(
            M, where.point, where.center[None]
        )
        return _clipped(steps, where.near if self.coarse else where.radius)

    def moved(
        self, where: Where, total: Array, n: int, noise: float, part: float
    ) -> Array:
        # Earlier steps in the ball are averaged in by their budgets: in flat space the noise left is that of one release.
        M, w, r = (
            self.ball.manifold,
            where.point,
            where.near if self.coarse else where.radius,
        )
        v = r * total / n + logs_at(M, w, where.center[None])[0]
        v = shrink_vector(v, r * noise / n) if self.coarse else v
        v = clip_rows(v[None], (1 if self.coarse else 2) * r)[0]
        length = min(float(np.linalg.norm(v)) / r, 1.0)
        found = point_or_fallback(
            M,
            lambda: M.from_normal_coordinates(
                w, part * v / (1 + where.bend * (1 - length**2))
            ),
            w,
        )
        if self.coarse:
            return Where(found, found, *where[2:]).row()
        return where._replace(
            point=np.asarray(
                project_to_ball(M, where.center, where.radius, found[None])
            )[0]
        ).row()


@dataclass(frozen=True)
class Square(Question):
    """The mean square distance to the point."""

    change, length = 1.0, 1

    def rows(self, where: Where, points: Array) -> Array:
        steps = _clipped(logs_at(self.ball.manifold, where.point, points), where.radius)
        return np.asarray(
            np.minimum(np.sum(steps**2, axis=1, keepdims=True), 1.0) - 0.5
        )

    def moved(
        self, where: Where, total: Array, n: int, noise: float, part: float
    ) -> Array:
        return np.asarray(np.clip(total / n + 0.5, 0.0, 1.0) * where.radius**2)


@dataclass(frozen=True)
class Moment(Question):
    """The second moment, as coordinates of a symmetric matrix."""

    change = sqrt(2)  # ‖A − B‖² <= |A|² + |B|² − 2⟨A, B⟩, and ⟨A, B⟩ >= 0 for A, B >= 0

    @property
    def length(self) -> int:
        return super().length * (super().length + 1) // 2

    def rows(self, where: Where, points: Array) -> Array:
        x, upper = (
            _clipped(points, where.radius),
            np.triu_indices(self.ball.manifold.dim, 1),
        )
        return np.concatenate(
            [x * x, sqrt(2) * x[:, upper[0]] * x[:, upper[1]]], axis=1
        )

    def moved(
        self, where: Where, total: Array, n: int, noise: float, part: float
    ) -> Array:
        return np.asarray(total / n * where.radius**2)


def _clipped(rows: Array, radius: float) -> Array:
    """Rows over the radius, of length at most 1, whatever the radius."""
    return clip_rows(rows / radius if 0 < radius < inf else np.zeros_like(rows), 1.0)
