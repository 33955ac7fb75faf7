"""Noisy gradients, many times over: what the optimizers release, as mechanisms that `verify` can recompute.

The draws are made by `curvedp.optim`, in floats; here is what they cost.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, nextafter, sqrt
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.base import FLOAT, Draw, Mechanism
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.statistic import Count, Length, Statistic, length
from curvedp.mechanisms.sums import PERSON_ADDED, RECORD_ADDED
from curvedp.privacy import GDP, Guarantee, gaussian_profile
from curvedp.privacy import optimizer_accounting as costs

Sampling = Annotated[str, partial(_validate.choice, options=("poisson", "fixed-size"))]
Rate = Annotated[float, length, partial(_validate.within, low=0, high=1, open_low=True)]


@dataclass(frozen=True, eq=False)
class ClippedGradient(Statistic):
    """The mean of n gradients, each clipped to a public length (enlarged by the round-off of what is clipped and summed), at
    points that are already released."""

    manifold: Manifold
    clip: Length
    n: Count

    name: ClassVar[str] = "mean clipped gradient"
    valued: ClassVar[bool] = False

    @property
    def public_n(self) -> int:
        return self.n

    # 2C/n: each gradient depends on its own record and on released points only
    sensitivity = property(lambda self: nextafter(2 * self.clip / self.n, inf))


@dataclass(frozen=True, eq=False)
class ClippedGradientSum(Statistic):
    """The sum of gradients, each clipped to a public length (enlarged by its rounding to whole numbers), at points that are
    already released; how many is private."""

    manifold: Manifold
    clip: Length

    name: ClassVar[str] = "sum of clipped gradients, number of records private"
    unit: ClassVar[str] = RECORD_ADDED
    units: ClassVar[tuple[str, ...]] = (PERSON_ADDED,)
    valued: ClassVar[bool] = False
    sensitivity = property(lambda self: self.clip)  # C: a record adds one vector


@dataclass(frozen=True, eq=False, kw_only=True)
class _Descent(Mechanism):
    """What all optimizers share: the numbers of steps and their noise, and what they cost. `release` takes a function of the
    source that runs the descent."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    path: ClassVar[str] = FLOAT
    of: ClassVar[Any] = ClippedGradient

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self, "batch_size", 1) > getattr(self.statistic, "n", 1):
            raise ParameterError("batch_size is more than the number of records")

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """An optimizer chooses the steps: see `curvedp.optim`."""
        raise ParameterError(
            "a descent is calibrated by its optimizer, which knows the number of steps"
        )

    def accepted(
        self, data: Callable[[Source], np.ndarray]
    ) -> Callable[[Source], np.ndarray]:
        return data

    def draw(self, data: Callable[[Source], np.ndarray], source: Source) -> Draw:
        return Draw(np.asarray(data(source)), [], None)

    def finish(self, value: np.ndarray) -> np.ndarray:
        return value

    def value_of(self, certificate: Certificate) -> np.ndarray:
        """A float path has no integers to make it from."""
        if certificate.release["integers"]:
            raise ParameterError("a descent in floats releases no integers")
        return np.empty(0)


class _InBatches(_Descent):
    """One over random batches, whose chance is worth something in some definitions of privacy and nothing in others."""

    @abstractmethod
    def composed(self, known: bool) -> Guarantee:
        """The composition of all steps, where the batches are known or not."""

    profile = cached_property(lambda self: self.composed(known=False))
    # what holds even where the batches are known: for definitions that gain nothing from their chance
    known_batches = cached_property(lambda self: self.composed(known=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentMechanism(_Descent):
    """`steps` noisy mean gradients, the iterates between them post-processing: μ = √T·2C/(n·noise) (Dong, Roth & Su 2022)."""

    steps: Count
    noise: Length  # the standard deviation on a mean gradient

    name: ClassVar[str] = "dp-rgd"

    # T Gaussian releases are one of √T times the sensitivity
    profile = cached_property(
        lambda self: gaussian_profile(
            0.0, 1, self.noise, sqrt(self.steps) * self.sensitivity
        )
    )
    guarantee = property(lambda self: GDP(self.profile.mu))


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchDescentMechanism(_InBatches):
    """`steps` noisy sums over random batches of about `batch_size` records."""

    steps: Count
    batch_size: Count
    noise: Length
    sampling: Sampling

    name: ClassVar[str] = "dp-rsgd"

    def composed(self, known: bool) -> Guarantee:
        clip, n = self.statistic.clip, self.statistic.n
        if known:
            return costs.rgd_guarantee(self.batch_size, self.steps, clip, self.noise)
        return costs.rsgd_guarantee(
            n, self.steps, self.batch_size, clip, self.noise, self.sampling
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class VarianceReducedMechanism(_InBatches):
    """One noisy full gradient an epoch, and noisy sums over random batches of clipped differences."""

    epochs: Count
    inner_steps: Count
    batch_size: Count
    difference_clip: Length
    full_noise: Length
    inner_noise: Length
    sampling: Sampling

    name: ClassVar[str] = "dp-rsvrg"

    def composed(self, known: bool) -> Guarantee:
        clips, noises = (
            (self.statistic.clip, self.difference_clip),
            (self.full_noise, self.inner_noise),
        )
        sizes = (self.statistic.n, self.epochs, self.inner_steps, self.batch_size)
        return costs.rsvrg_guarantee(*sizes, clips, noises, self.sampling, known)


@dataclass(frozen=True, eq=False, kw_only=True)
class AddedDescentMechanism(_InBatches):
    """`steps` noisy sums over random batches, each record in them with chance `rate`, and one noisy count: the number of
    records is private, and steps are along quotients of released numbers."""

    steps: Count
    rate: Rate
    noise: Length
    count_noise: Length

    name: ClassVar[str] = "dp-rsgd-sum"
    of: ClassVar[Any] = ClippedGradientSum

    def composed(self, known: bool) -> Guarantee:
        rate = 1.0 if known else self.rate
        return costs.add_remove_guarantee(
            self.steps, rate, self.statistic.clip, self.noise, self.count_noise
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AddedVarianceReducedMechanism(_InBatches):
    """One noisy sum of gradients an epoch, noisy sums of clipped differences over random batches, each record in them with
    chance `rate`, and one noisy count: the number of records is private."""

    epochs: Count
    inner_steps: Count
    rate: Rate
    difference_clip: Length
    full_noise: Length
    inner_noise: Length
    count_noise: Length

    name: ClassVar[str] = "dp-rsvrg-sum"
    of: ClassVar[Any] = ClippedGradientSum

    def composed(self, known: bool) -> Guarantee:
        clips, noises = (
            (self.statistic.clip, self.difference_clip),
            (self.full_noise, self.inner_noise),
        )
        rate = 1.0 if known else self.rate
        return costs.add_remove_rsvrg_guarantee(
            self.epochs, self.inner_steps, rate, clips, noises, self.count_noise
        )
