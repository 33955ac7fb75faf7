"""What mechanisms share that add Gaussian or Laplace noise to vectors which they read of the records; and those of means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.geometry import Euclidean
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import ExactDraw, exact_gaussian, exact_laplace
from curvedp.mechanisms.base import Draw, Mechanism
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.noise import LAWS, Law, float_noise
from curvedp.mechanisms.statistic import FrechetMean, Length
from curvedp.privacy import GDP, Guarantee, PureDP, gaussian_profile
from curvedp.privacy.rounding import up

Noise = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (values, their scales along the first axis) -> noisy values


def _known(name: str, law: Any) -> Law:
    return law if isinstance(law, str) and law in LAWS else _validate.choice(name, law, LAWS)  # type: ignore[return-value]  # one of them


def exact_noise(source: Source, law: Law) -> tuple[list[ExactDraw], Noise]:
    """Exact noise, rounded to the public grid, and the list of what it has drawn."""
    draws: list[ExactDraw] = []

    def noisy(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
        one, space = exact_laplace if law == "laplace" else exact_gaussian, Euclidean(values.shape[1])
        rows = [one(space, float(b), row, source=source, grid=GRID) for row, b in zip(values, scales, strict=True)]
        whole = np.concatenate([row.integers for row in rows])
        draws.append(ExactDraw(whole, GRID, sum(row.tau for row in rows), Euclidean(values.size)))
        return draws[-1].value.reshape(values.shape)

    return draws, noisy


def simulated_noise(rng: np.random.Generator, law: Law) -> Noise:
    """The same in floats: for predicted error, NOT for release."""
    return lambda values, scales: values + scales[:, None] * float_noise(rng, law, values.shape)


def drawn(value: Any, draws: Sequence[ExactDraw], stages: Sequence[Mapping[str, Any]] = ()) -> Draw:
    """A value that was made of these draws."""
    return Draw(value, [each.integers for each in draws], sum(each.tau for each in draws), stages)


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorMechanism(Mechanism):
    """Gaussian noise, or Laplace noise for pure ε, whose `scale` is for each unit that all vectors together move by."""

    scale: Length
    law: Annotated[Law, _known] = "gaussian"

    reads: ClassVar[Literal["value", "records"]] = "records"

    @property
    def moved(self) -> float:
        """How far all that is noised can move, as one vector."""
        return self.sensitivity

    @cached_property
    def profile(self) -> Any:
        """That of one Gaussian release, or pure ε."""
        if self.law == "laplace":
            return PureDP(up(self.moved / self.scale))
        return gaussian_profile(0.0, 1, self.scale, self.moved)

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP, or pure ε."""
        return self.profile if self.law == "laplace" else GDP(self.profile.mu, adjacency=self.profile.adjacency)

    def law_of(self, size: int, scale: float) -> RiemannianGaussian | RiemannianLaplace:
        """The noise of a vector."""
        return (RiemannianLaplace if self.law == "laplace" else RiemannianGaussian)(Euclidean(size), scale)


class MeanMechanism(Mechanism):
    """A private Fréchet mean that reads the records."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    of: ClassVar[Any] = FrechetMean

    @property
    def center(self) -> np.ndarray:
        """Of the public ball, at home."""
        return np.asarray(self.statistic.ball.center)

    @property
    def radius(self) -> float:
        """Of the public ball."""
        return float(self.statistic.radius)

    @property
    def reach(self) -> float:
        """How far from the center the moved records can be."""
        return float(self.statistic.reach)

    def accepted(self, data: Any) -> Any:
        return self.statistic.accepted(data)


class ShrunkMeanMechanism(VectorMechanism, MeanMechanism):
    """One by noise about vectors, whose value is shrunk towards the center."""

    @property
    def afterwards(self) -> Sequence[str]:
        return (*("James-Stein shrinkage towards the center",) * (self.manifold.dim >= 3), *super().afterwards)
