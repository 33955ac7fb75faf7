"""What the sites add up: bounded terms of single records at public points, and what the sums are made into.

A term depends on its own record and on public values only, and is bounded by construction, whatever the manifold and the
record: no curvature, solver or convergence enters the sensitivity. What happens to the noisy sums is post-processing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt, tanh
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, parse_manifold, project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.geometry.names import manifold_name
from curvedp.mechanisms.second_moment import clipped_rows, unpack
from curvedp.mechanisms.shrink import james_stein
from curvedp.mechanisms.statistic import public_ball
from curvedp.records.persons import MOST_ROWS, person_means, person_rows

Array = np.ndarray

# Each round of a mean has so many times the budget of the one before: early ones only bring the point near, and averaging
# keeps what they paid for. Chosen by simulation (benchmarks/federated.py).
_RATIO = 8.0


@dataclass(frozen=True, eq=False)  # a field is an array
class Kernel(ABC):
    """Terms of records on `manifold`, mapped into the public ball B(`center`, `radius`) first.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    radius : float
        Of the public ball.
    center : array, optional
        Of the public ball; the manifold's origin by default.
    """

    manifold: Manifold
    radius: Any
    center: Any = None

    name: ClassVar[str]
    afterwards: ClassVar[Sequence[str]]  # what is done to the noisy sums, in words
    least_rounds: ClassVar[int] = 1
    rows_of_a_person: ClassVar[int] = 1  # at most, in `by_person`
    registry: ClassVar[dict[str, type["Kernel"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Kernel.registry[cls.name] = cls

    def __post_init__(self) -> None:
        if isinstance(self.radius, str):
            raise ParameterError("sites find no ball privately: agree on a radius, or have it released by one of them")
        ball = public_ball(self.manifold, self.center, self.radius)
        object.__setattr__(self, "center", ball.center)
        object.__setattr__(self, "radius", ball.radius)

    @property
    def rounds(self) -> int:
        """How many rounds there are by default."""
        return 1

    @property
    def classes(self) -> int:
        """How many groups of records have sums of their own."""
        return 1

    @property
    def space(self) -> Manifold:
        """Where the value, or each part of it, lives."""
        return self.manifold

    @abstractmethod
    def length(self, last: bool) -> int:
        """Numbers in a term; of the last round it may be another."""

    @abstractmethod
    def diameter(self, last: bool) -> float:
        """Largest distance between the terms of two records."""

    @abstractmethod
    def terms(self, last: bool, at: Array, records: Array, label: int) -> Array:
        """One row a record of class `label`; rows lie in a ball of that diameter."""

    @abstractmethod
    def moved(self, last: bool, weight: float, at: Array, total: Array, counts: Sequence[int]) -> Array:
        """The public point after a round, from the noisy sum of the terms and the classes' public counts; `weight` is the
        round's share of the budget that was spent so far."""

    @abstractmethod
    def finished(self, at: Array, noise: float) -> Array:
        """The value, from the last point and the scale of the noise left in it."""

    def start(self) -> Array:
        """The first public points, one a class."""
        return np.repeat(np.asarray(self.center)[None], self.classes, axis=0)

    def shares(self, rounds: int) -> list[float]:
        """Shares of μ² of the rounds."""
        weights = [_RATIO**step for step in range(rounds)]
        return [weight / sum(weights) for weight in weights]

    def by_person(self, records: Array, codes: Array) -> Array:
        """What stands for each person, of whom code 0, 1, … says which records are theirs: their own mean."""
        return person_means(self.manifold, (self.center, self.radius), records, codes)

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which `kernel_from_dict` makes it again."""
        ball = {"center": self.center.tolist(), "radius": self.radius}
        return {"name": self.name, "manifold": manifold_name(self.manifold), **ball}

    def inside(self, records: Array) -> Array:
        """Records in the ball; none raises, none is dropped."""
        return np.asarray(project_to_ball(self.manifold, self.center, self.radius, records))


@dataclass(frozen=True, eq=False)
class MeanKernel(Kernel):
    """Steps to the Fréchet mean: log_w x − log_w center, clipped to the radius.

    Where curvature is <= 0 the logarithm does not stretch, so nothing is cut off at any w; elsewhere little is.
    """

    name = "mean"
    afterwards = ("steps in the tangent space", "projection onto the ball", "shrinkage towards the center")

    @property
    def rounds(self) -> int:
        """Enough to come near by simulation: where the ball is wide for its curvature, steps shorten the way less."""
        return 3 if -self.manifold.curvature_bounds[0] * self.radius**2 <= 1.5 else 5

    def length(self, last: bool) -> int:
        return self.manifold.dim * self.classes

    def diameter(self, last: bool) -> float:
        return 2 * float(self.radius)

    def terms(self, last: bool, at: Array, records: Array, label: int) -> Array:
        rows = np.zeros((len(records), self.classes, self.manifold.dim))
        steps = self._logs(at[label], self.inside(records)) - self._logs(at[label], self.center)
        rows[:, label] = clipped_rows(steps, self.radius)
        return np.asarray(rows.reshape(len(records), -1))

    def moved(self, last: bool, weight: float, at: Array, total: Array, counts: Sequence[int]) -> Array:
        # Earlier rounds are averaged in by their budgets: in flat space the noise left is that of one release.
        points = []
        for w, sums, count in zip(at, total.reshape(self.classes, -1), counts, strict=True):
            mean = clipped_rows((sums / max(count, 1) + self._logs(w, self.center))[None], 2 * self.radius)[0]
            points.append(self.manifold.exp(w, self.manifold.from_coordinates(w, self._step * weight * mean)))
        return self.inside(np.asarray(points))

    def finished(self, at: Array, noise: float) -> Array:
        return np.asarray(james_stein(self.manifold, self.center, at, noise)[0])

    @property
    def _step(self) -> float:
        """min(1, 3/2H), H = s·coth s the Hessian of ½d² half way out, so that steps converge in hyperbolic space too."""
        s = sqrt(max(-self.manifold.curvature_bounds[0], 0.0)) * self.radius / 2
        return min(1.0, 1.5 * tanh(s) / s) if s > 0 else 1.0

    def _logs(self, w: Array, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.manifold.to_coordinates(w, self.manifold.log(w, x)))


@dataclass(frozen=True, eq=False)
class ClassMeansKernel(MeanKernel):
    """The mean of each of `count` classes, for minimum distance to mean. A record's class is public."""

    count: int = field(default=2, kw_only=True)

    name = "class-means"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count", _validate.integer("count", self.count, 1))

    @property
    def classes(self) -> int:
        """As many as there are means."""
        return self.count

    def finished(self, at: Array, noise: float) -> Array:
        return np.asarray(james_stein(self.manifold, self.center, at, noise))

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "count": self.count}


@dataclass(frozen=True, eq=False)
class DispersionKernel(MeanKernel):
    """The mean square distance to a private mean: rounds of a mean, then one of d² clipped to [0, r²]."""

    name = "dispersion"
    afterwards = ("steps in the tangent space", "projection onto the ball", "clipping to [0, r²]")
    least_rounds = 2

    @property
    def space(self) -> Manifold:
        """The line."""
        return Euclidean(1)

    @property
    def rounds(self) -> int:
        """Those of the mean, and one."""
        return super().rounds + 1

    def length(self, last: bool) -> int:
        return 1 if last else super().length(last)

    def diameter(self, last: bool) -> float:
        return self.radius**2 if last else super().diameter(last)

    def terms(self, last: bool, at: Array, records: Array, label: int) -> Array:
        if not last:
            return super().terms(last, at, records, label)
        steps = clipped_rows(self._logs(at[0], self.inside(records)), self.radius)
        square = np.sum(steps**2, axis=1, keepdims=True)
        return np.asarray(np.clip(square, 0.0, self.radius**2) - self.radius**2 / 2)

    def moved(self, last: bool, weight: float, at: Array, total: Array, counts: Sequence[int]) -> Array:
        if not last:
            return super().moved(last, weight, at, total, counts)
        return np.asarray(total / max(sum(counts), 1) + self.radius**2 / 2)

    def finished(self, at: Array, noise: float) -> Array:
        return np.asarray(np.clip(at, 0.0, self.radius**2))


@dataclass(frozen=True, eq=False)
class MomentKernel(Kernel):
    """The second moment xxᵀ of vectors of length at most the radius, for principal components; its value are all of them, the
    leading one first, as rows."""

    name = "second-moment"
    afterwards = ("eigenvectors",)
    rows_of_a_person = MOST_ROWS

    def __post_init__(self) -> None:
        super().__post_init__()
        if manifold_name(self.manifold) != manifold_name(Euclidean(self.manifold.dim)) or np.any(self.center):
            raise ParameterError("the second moment is of vectors: Euclidean(d), about the origin")

    def length(self, last: bool) -> int:
        return self.manifold.dim * (self.manifold.dim + 1) // 2

    def diameter(self, last: bool) -> float:
        return sqrt(2) * float(self.radius) ** 2  # ‖A − B‖² <= |A|² + |B|² − 2⟨A, B⟩, and ⟨A, B⟩ >= 0 for A, B >= 0

    def by_person(self, records: Array, codes: Array) -> Array:
        return person_rows(clipped_rows(self.inside(records), self.radius), codes)

    def terms(self, last: bool, at: Array, records: Array, label: int) -> Array:
        x = clipped_rows(self.inside(records), self.radius)
        upper = np.triu_indices(self.manifold.dim, 1)
        return np.concatenate([x * x, sqrt(2) * x[:, upper[0]] * x[:, upper[1]]], axis=1)

    def moved(self, last: bool, weight: float, at: Array, total: Array, counts: Sequence[int]) -> Array:
        return unpack(total / max(sum(counts), 1), self.manifold.dim)

    def finished(self, at: Array, noise: float) -> Array:
        return np.asarray(np.linalg.eigh(at)[1][:, ::-1].T)


def kernel_from_dict(fields: Mapping[str, Any]) -> Kernel:
    """The inverse of `Kernel.to_dict`.

    Raises
    ------
    ParameterError
        Where the name is unknown or a field is missing or unusable.
    """
    try:
        rest = {key: value for key, value in fields.items() if key not in ("name", "manifold")}
        return Kernel.registry[fields["name"]](manifold=parse_manifold(fields["manifold"]), **rest)
    except (AttributeError, KeyError, TypeError):
        raise ParameterError("this is not a kernel of a federated sum") from None
