"""Noisy gradients, many times over: what the optimizers release, as mechanisms that `verify` can recompute.

The draws are made by `curvedp.optim`, in floats; here is what they cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry.base import Manifold, check_manifold
from curvedp.mechanisms.base import FLOAT, Draw, Mechanism, assign
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.statistic import Statistic
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, gaussian_profile

__all__ = ["ClippedGradient", "DescentMechanism"]


@dataclass(frozen=True, eq=False)
class ClippedGradient(Statistic):
    """The mean of n gradients, each clipped to a public length, at points that are already released.

    Parameters
    ----------
    manifold : Manifold
        Where the iterates live.
    clip : float
        The clipping norm, enlarged by the round-off of what is clipped and summed.
    n : int
        How many records there are.
    """

    manifold: Manifold
    clip: float
    n: int

    name: ClassVar[str] = "mean clipped gradient"
    valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_manifold(self.manifold)
        assign(self, clip=_validate.length("clip", self.clip), n=_validate.integer("n", self.n, 1))

    @property
    def space(self) -> Manifold:
        """Where the iterates live."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """2C/n: each gradient depends on its own record and on released points only."""
        return nextafter(2 * self.clip / self.n, inf)


@dataclass(frozen=True, eq=False, init=False)
class DescentMechanism(Mechanism):
    """`steps` noisy mean gradients, the iterates between them post-processing: μ = √T·2C/(n·noise) (Dong, Roth & Su 2022).

    `release` takes a function of the source that runs the descent.
    """

    steps: int
    noise: float

    name: ClassVar[str] = "dp-rgd"
    reads: ClassVar[Literal["value", "records"]] = "records"
    path: ClassVar[str] = FLOAT

    def __init__(self, *, statistic: Statistic, steps: int, noise: float) -> None:
        assign(self, statistic=statistic, steps=_validate.integer("steps", steps, 1))
        assign(self, noise=_validate.length("noise", noise))

    @classmethod
    def serves(cls, statistic: Statistic) -> bool:
        """Gradients."""
        return isinstance(statistic, ClippedGradient)

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """An optimizer chooses the steps: see `curvedp.optim`."""
        raise ParameterError("a descent is calibrated by its optimizer, which knows the number of steps")

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From the number of steps and their noise."""
        return cls(statistic=statistic, steps=parameters["steps"], noise=parameters["noise"])

    @property
    def sensitivity(self) -> float:
        """Of one mean gradient."""
        return self.statistic.sensitivity

    @cached_property
    def profile(self) -> PrivacyProfile:
        """T Gaussian releases are one of √T times the sensitivity."""
        return gaussian_profile(0.0, 1, self.noise, sqrt(self.steps) * self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP."""
        return GDP(self.profile.mu)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public numbers as JSON values."""
        return {"steps": self.steps, "noise": self.noise}

    def accepted(self, data: Callable[[Source], np.ndarray]) -> Callable[[Source], np.ndarray]:
        """The function that runs the descent."""
        return data

    def draw(self, data: Callable[[Source], np.ndarray], source: Source) -> Draw:
        """Run it."""
        return Draw(np.asarray(data(source)), [], None)

    def finish(self, value: np.ndarray) -> np.ndarray:
        """The last iterate as it is."""
        return value

    def value_of(self, certificate: Certificate) -> np.ndarray:
        """A float path has no integers to make it from."""
        if certificate.release["integers"]:
            raise ParameterError("a descent in floats releases no integers")
        return np.empty(0)
