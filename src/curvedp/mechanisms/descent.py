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
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, compose, gaussian_profile
from curvedp.privacy.descent import rgd_guarantee, rsgd_guarantee

__all__ = ["BatchDescentMechanism", "ClippedGradient", "DescentMechanism", "VarianceReducedMechanism"]


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
class _Descent(Mechanism):
    """What all optimizers share. `release` takes a function of the source that runs the descent, or its result."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    path: ClassVar[str] = FLOAT

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
        """From the numbers of steps and their noise."""
        return cls(
            statistic=statistic, **{name: parameters[name] for name in cls.__annotations__ if name in parameters}
        )

    @property
    def sensitivity(self) -> float:
        """Of one mean gradient."""
        return self.statistic.sensitivity

    @property
    def gradient(self) -> ClippedGradient:
        """The statistic."""
        assert isinstance(self.statistic, ClippedGradient)  # `serves` no other
        return self.statistic

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


@dataclass(frozen=True, eq=False, init=False)
class DescentMechanism(_Descent):
    """`steps` noisy mean gradients, the iterates between them post-processing: μ = √T·2C/(n·noise) (Dong, Roth & Su 2022)."""

    steps: int
    noise: float

    name: ClassVar[str] = "dp-rgd"

    def __init__(self, *, statistic: Statistic, steps: int, noise: float) -> None:
        assign(self, statistic=statistic, steps=_validate.integer("steps", steps, 1))
        assign(self, noise=_validate.length("noise", noise))

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


@dataclass(frozen=True, eq=False, init=False)
class BatchDescentMechanism(_Descent):
    """`steps` noisy sums over random batches of about `batch_size` records."""

    steps: int
    batch_size: int
    noise: float
    sampling: str

    name: ClassVar[str] = "dp-rsgd"

    def __init__(self, *, statistic: Statistic, steps: int, batch_size: int, noise: float, sampling: str) -> None:
        assign(self, statistic=statistic, steps=_validate.integer("steps", steps, 1))
        assign(self, batch_size=_validate.integer("batch_size", batch_size, 1), noise=_validate.length("noise", noise))
        assign(self, sampling=_validate.choice("sampling", sampling, ("poisson", "fixed-size")))
        if self.batch_size > self.gradient.n:
            raise ParameterError(f"batch_size={batch_size!r} is more than the {self.gradient.n} records")

    @cached_property
    def profile(self) -> Guarantee:
        """The composition of all steps."""
        g = self.gradient
        return rsgd_guarantee(g.n, self.steps, self.batch_size, g.clip, self.noise, self.sampling)

    @cached_property
    def known_batches(self) -> Guarantee:
        """What holds even where the batches are known: for definitions that gain nothing from their chance."""
        return rgd_guarantee(self.batch_size, self.steps, self.gradient.clip, self.noise)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public numbers as JSON values."""
        names = ("steps", "batch_size", "noise", "sampling")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False, init=False)
class VarianceReducedMechanism(_Descent):
    """One noisy full gradient an epoch, and noisy sums over random batches of clipped differences."""

    epochs: int
    inner_steps: int
    batch_size: int
    difference_clip: float
    full_noise: float
    inner_noise: float
    sampling: str

    name: ClassVar[str] = "dp-rsvrg"

    def __init__(
        self,
        *,
        statistic: Statistic,
        epochs: int,
        inner_steps: int,
        batch_size: int,
        difference_clip: float,
        full_noise: float,
        inner_noise: float,
        sampling: str,
    ) -> None:
        wholes = {"epochs": epochs, "inner_steps": inner_steps, "batch_size": batch_size}
        lengths = {"difference_clip": difference_clip, "full_noise": full_noise, "inner_noise": inner_noise}
        assign(self, statistic=statistic, **{name: _validate.integer(name, value, 1) for name, value in wholes.items()})
        assign(self, **{name: _validate.length(name, value) for name, value in lengths.items()})
        assign(self, sampling=_validate.choice("sampling", sampling, ("poisson", "fixed-size")))
        if self.batch_size > self.gradient.n:
            raise ParameterError(f"batch_size={batch_size!r} is more than the {self.gradient.n} records")

    def _composed(self, known: bool) -> Guarantee:
        g, steps = self.gradient, self.epochs * self.inner_steps
        full = rgd_guarantee(g.n, self.epochs, g.clip, self.full_noise)
        if known:
            return compose(full, rgd_guarantee(self.batch_size, steps, self.difference_clip, self.inner_noise))
        inner = rsgd_guarantee(g.n, steps, self.batch_size, self.difference_clip, self.inner_noise, self.sampling)
        return compose(full, inner)

    @cached_property
    def profile(self) -> Guarantee:
        """The composition of all epochs and steps."""
        return self._composed(known=False)

    @cached_property
    def known_batches(self) -> Guarantee:
        """What holds even where the batches are known."""
        return self._composed(known=True)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public numbers as JSON values."""
        names = ("epochs", "inner_steps", "batch_size", "difference_clip", "full_noise", "inner_noise", "sampling")
        return {name: getattr(self, name) for name in names}
