"""What mechanisms share that release a Fréchet mean from the records themselves."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from curvedp.errors import ParameterError
from curvedp.mechanisms.base import Mechanism, assign
from curvedp.mechanisms.statistic import FrechetMean, Statistic
from curvedp.privacy import GDP, Guarantee, PureDP


class MeanMechanism(Mechanism):
    """A private Fréchet mean that reads the records."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    of: ClassVar[Any] = FrechetMean

    def _take(self, statistic: Statistic | None, *ball: Any) -> None:
        """The statistic, or the mean in a ball (manifold, center, radius, n)."""
        statistic = FrechetMean(*ball) if statistic is None else statistic
        if not self.serves(statistic):
            raise ParameterError(f"{type(self).__name__} releases Fréchet means, not the {statistic.name}")
        assign(self, statistic=statistic)

    @property
    def mean(self) -> FrechetMean:
        """The statistic."""
        assert isinstance(self.statistic, FrechetMean)  # `serves` no other
        return self.statistic

    @property
    def center(self) -> np.ndarray:
        """Of the public ball."""
        return self.mean.ball.center

    @property
    def radius(self) -> float:
        """Of the public ball."""
        return self.mean.radius

    @property
    def n(self) -> int:
        """How many records there are."""
        return self.mean.n

    def accepted(self, data: Any) -> Any:
        """The records, shape (n, *point_shape), moved into the ball."""
        return self.mean.accepted(data)


class GaussianMeanMechanism(MeanMechanism):
    """One with Gaussian noise, or Laplace noise for pure ε, whose value is shrunk towards the center."""

    @property
    @abstractmethod
    def profile(self) -> Any:
        """Of one Gaussian release, or pure ε."""

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP, or pure ε."""
        return self.profile if isinstance(self.profile, PureDP) else GDP(self.profile.mu)

    @property
    def afterwards(self) -> list[str]:
        """Shrinkage, where there is any, and projection."""
        return ["James-Stein shrinkage towards the center"] * (self.manifold.dim >= 3) + self.statistic.afterwards
