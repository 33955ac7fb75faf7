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
from curvedp.mechanisms.shrink import james_stein
from curvedp.mechanisms.statistic import check_point

__all__ = ["ClassMeansKernel", "DispersionKernel", "Kernel", "MeanKernel", "MomentKernel", "kernel_from_dict"]

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
    radius: float
    center: Any = None

    name: ClassVar[str]
    least_rounds: ClassVar[int] = 1
    _registry: ClassVar[dict[str, type["Kernel"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            Kernel._registry[cls.name] = cls

    def __post_init__(self) -> None:
        origin = self.manifold.origin if self.center is None else self.center
        object.__setattr__(self, "center", check_point("center", self.manifold, origin))
        object.__setattr__(self, "radius", _validate.length("radius", self.radius))

    @property
    def rounds(self) -> int:
        """How many rounds there are by default."""
        return self.least_rounds

    @property
    def classes(self) -> int:
        """How many groups of records have sums of their own."""
        return 1

    @property
    def space(self) -> Manifold:
        """Where the value, or each part of it, lives."""
        return self.manifold

    @property
    def afterwards(self) -> list[str]:
        """What is done to the noisy sums, in words."""
        return ["steps in the tangent space", "projection onto the ball", "shrinkage towards the center"]

    @abstractmethod
    def length(self, round: int, rounds: int) -> int:
        """Numbers in a term."""

    @abstractmethod
    def diameter(self, round: int, rounds: int) -> float:
        """Largest distance between the terms of two records."""

    @abstractmethod
    def terms(self, round: int, rounds: int, at: np.ndarray, records: np.ndarray, label: int) -> np.ndarray:
        """One row a record of class `label`; rows lie in a ball of that diameter about 0."""

    @abstractmethod
    def moved(
        self, round: int, shares: Sequence[float], at: np.ndarray, total: np.ndarray, counts: Sequence[int]
    ) -> np.ndarray:
        """The public point after a round, from the noisy sum of the terms and the classes' public counts."""

    @abstractmethod
    def finished(self, at: np.ndarray, noise: float) -> np.ndarray:
        """The value, from the last point and the scale of the noise left in it."""

    def start(self) -> np.ndarray:
        """The first public point."""
        return np.asarray(self.center)[None]

    def shares(self, rounds: int) -> list[float]:
        """Shares of μ² of the rounds."""
        weights = [_RATIO**step for step in range(rounds)]
        return [weight / sum(weights) for weight in weights]

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which `kernel_from_dict` makes it again."""
        return {
            "name": self.name,
            "manifold": manifold_name(self.manifold),
            "center": self.center.tolist(),
            "radius": self.radius,
        }

    def inside(self, records: np.ndarray) -> np.ndarray:
        """Records in the ball; none raises, none is dropped."""
        return np.asarray(project_to_ball(self.manifold, self.center, self.radius, records))


@dataclass(frozen=True, eq=False)
class MeanKernel(Kernel):
    """Steps to the Fréchet mean: log_w x − log_w center, clipped to the radius.

    Where curvature is <= 0 the logarithm does not stretch, so nothing is cut off at any w; elsewhere little is.
    """

    name = "mean"

    @property
    def rounds(self) -> int:
        """Enough to come near by simulation: where the ball is wide for its curvature, steps shorten the way less."""
        return 3 if -self.manifold.curvature_bounds[0] * self.radius**2 <= 1.5 else 5

    def length(self, round: int, rounds: int) -> int:
        return self.manifold.dim * self.classes

    def diameter(self, round: int, rounds: int) -> float:
        return 2 * self.radius

    def terms(self, round: int, rounds: int, at: np.ndarray, records: np.ndarray, label: int) -> np.ndarray:
        rows = np.zeros((len(records), self.classes, self.manifold.dim))
        rows[:, label] = clipped(
            self._logs(at[label], self.inside(records)) - self._logs(at[label], self.center), self.radius
        )
        return np.asarray(rows.reshape(len(records), -1))

    def moved(
        self, round: int, shares: Sequence[float], at: np.ndarray, total: np.ndarray, counts: Sequence[int]
    ) -> np.ndarray:
        # Earlier rounds are averaged in by their budgets: in flat space the noise left is that of one release.
        weight = self._step * shares[round] / sum(shares[: round + 1])
        points = []
        for w, sums, count in zip(at, total.reshape(self.classes, -1), counts, strict=True):
            mean = sums / max(count, 1) + self._logs(w, self.center)
            move = self.manifold.from_coordinates(w, weight * clipped(mean, 2 * self.radius))
            points.append(project_to_ball(self.manifold, self.center, self.radius, self.manifold.exp(w, move)))
        return np.asarray(points)

    def finished(self, at: np.ndarray, noise: float) -> np.ndarray:
        return np.asarray(james_stein(self.manifold, self.center, at, noise)[0])

    @property
    def _step(self) -> float:
        """min(1, 3/2H), H = s·coth s the Hessian of ½d² half way out, so that steps converge in hyperbolic space too."""
        s = sqrt(max(-self.manifold.curvature_bounds[0], 0.0)) * self.radius / 2
        return min(1.0, 1.5 * tanh(s) / s) if s > 0 else 1.0

    def _logs(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.manifold.to_coordinates(w, self.manifold.log(w, x)))


@dataclass(frozen=True, eq=False)
class ClassMeansKernel(MeanKernel):
    """The mean of each of `count` classes, for minimum distance to mean. A record's class is public."""

    count: int = field(default=2, kw_only=True)

    name = "class-means"

    @property
    def classes(self) -> int:
        """As many as there are means."""
        return self.count

    def start(self) -> np.ndarray:
        return np.repeat(np.asarray(self.center)[None], self.count, axis=0)

    def finished(self, at: np.ndarray, noise: float) -> np.ndarray:
        return np.asarray(james_stein(self.manifold, self.center, at, noise))

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "count": self.count}


@dataclass(frozen=True, eq=False)
class DispersionKernel(MeanKernel):
    """The mean square distance to a private mean: rounds of a mean, then one of d² clipped to [0, r²]."""

    name = "dispersion"
    least_rounds = 2

    @property
    def space(self) -> Manifold:
        """The line."""
        return Euclidean(1)

    @property
    def afterwards(self) -> list[str]:
        """What is done to the noisy sums, in words."""
        return ["steps in the tangent space", "projection onto the ball", "clipping to [0, r²]"]

    @property
    def rounds(self) -> int:
        """Those of the mean, and one."""
        return super().rounds + 1

    def length(self, round: int, rounds: int) -> int:
        return 1 if round == rounds - 1 else super().length(round, rounds)

    def diameter(self, round: int, rounds: int) -> float:
        return self.radius**2 if round == rounds - 1 else super().diameter(round, rounds)

    def terms(self, round: int, rounds: int, at: np.ndarray, records: np.ndarray, label: int) -> np.ndarray:
        if round < rounds - 1:
            return super().terms(round, rounds, at, records, label)
        square = np.sum(clipped(self._logs(at[0], self.inside(records)), self.radius) ** 2, axis=1, keepdims=True)
        return np.asarray(np.clip(square, 0.0, self.radius**2) - self.radius**2 / 2)

    def moved(
        self, round: int, shares: Sequence[float], at: np.ndarray, total: np.ndarray, counts: Sequence[int]
    ) -> np.ndarray:
        if round < len(shares) - 1:
            return super().moved(round, shares, at, total, counts)
        return np.asarray(total / max(sum(counts), 1) + self.radius**2 / 2)

    def finished(self, at: np.ndarray, noise: float) -> np.ndarray:
        return np.asarray(np.clip(at, 0.0, self.radius**2))


@dataclass(frozen=True, eq=False)
class MomentKernel(Kernel):
    """The second moment xxᵀ of vectors of length at most the radius, for principal components."""

    name = "second-moment"

    @property
    def afterwards(self) -> list[str]:
        """What is done to the noisy sums, in words."""
        return ["eigenvectors"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if manifold_name(self.manifold) != manifold_name(Euclidean(self.manifold.dim)) or np.any(self.center):
            raise ParameterError("the second moment is of vectors: Euclidean(d), about the origin")

    def length(self, round: int, rounds: int) -> int:
        return self.manifold.dim * (self.manifold.dim + 1) // 2

    def diameter(self, round: int, rounds: int) -> float:
        return sqrt(2) * self.radius**2  # ‖xxᵀ − yyᵀ‖² = |x|⁴ + |y|⁴ − 2⟨x,y⟩²

    def terms(self, round: int, rounds: int, at: np.ndarray, records: np.ndarray, label: int) -> np.ndarray:
        x = clipped(self.inside(records), self.radius)
        upper = np.triu_indices(self.manifold.dim, 1)
        return np.concatenate([x * x, sqrt(2) * x[:, upper[0]] * x[:, upper[1]]], axis=1)

    def moved(
        self, round: int, shares: Sequence[float], at: np.ndarray, total: np.ndarray, counts: Sequence[int]
    ) -> np.ndarray:
        d = self.manifold.dim
        matrix = np.zeros((d, d))
        matrix[np.triu_indices(d, 1)] = total[d:] / sqrt(2)
        return np.asarray((matrix + matrix.T + np.diag(total[:d])) / max(sum(counts), 1))

    def finished(self, at: np.ndarray, noise: float) -> np.ndarray:
        """All principal components, the leading one first, as rows."""
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
        return Kernel._registry[fields["name"]](manifold=parse_manifold(fields["manifold"]), **rest)
    except (KeyError, TypeError):
        raise ParameterError("this is not a kernel of a federated sum") from None


def clipped(rows: np.ndarray, radius: float) -> np.ndarray:
    """Rows shortened to the radius; one that is not finite is 0."""
    with np.errstate(all="ignore"):
        length = np.linalg.norm(rows, axis=-1, keepdims=True)
        short = rows * np.where(length > radius, radius / length, 1.0)
        return np.where(np.isfinite(length), short, 0.0)
