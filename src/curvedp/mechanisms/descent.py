"""Noisy gradients, many times over: what the optimizers release, as mechanisms that `verify` can recompute.

The draws are made by `curvedp.optim`, in floats; here is what they cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
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
from curvedp.mechanisms.sums import PERSON_ADDED, RECORD_ADDED
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, gaussian_profile
from curvedp.privacy.descent import (
    added_guarantee,
    added_rsvrg_guarantee,
    rgd_guarantee,
    rsgd_guarantee,
    rsvrg_guarantee,
)


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


@dataclass(frozen=True, eq=False)
class ClippedGradientSum(Statistic):
    """The sum of gradients, each clipped to a public length, at points that are already released; how many is private.

    Parameters
    ----------
    manifold : Manifold
        Where the iterates live.
    clip : float
        The clipping norm, enlarged by the rounding of what is clipped to whole numbers.
    """

    manifold: Manifold
    clip: float

    name: ClassVar[str] = "sum of clipped gradients, number of records private"
    unit: ClassVar[str] = RECORD_ADDED
    units: ClassVar[tuple[str, ...]] = (PERSON_ADDED,)
    valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_manifold(self.manifold)
        assign(self, clip=_validate.length("clip", self.clip))

    @property
    def space(self) -> Manifold:
        """Where the iterates live."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """C: a record adds one vector."""
        return self.clip


@dataclass(frozen=True, eq=False, kw_only=True)
class _Descent(Mechanism):
    """What all optimizers share: the numbers of steps and their noise, and what they cost. `release` takes a function of the
    source that runs the descent."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    path: ClassVar[str] = FLOAT
    of: ClassVar[Any] = ClippedGradient

    def __post_init__(self) -> None:
        assign(self, **{name: _CHECKED[kind](name, getattr(self, name)) for name, kind in self._kinds().items()})
        if getattr(self, "batch_size", 1) > getattr(self.statistic, "n", 1):
            raise ParameterError("batch_size is more than the number of records")

    @classmethod
    def _kinds(cls) -> dict[str, Any]:
        return {each.name: each.type for each in fields(cls) if each.name != "statistic"}

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """An optimizer chooses the steps: see `curvedp.optim`."""
        raise ParameterError("a descent is calibrated by its optimizer, which knows the number of steps")

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From the numbers of steps and their noise."""
        return cls(statistic=statistic, **{name: parameters[name] for name in cls._kinds()})

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public numbers as JSON values."""
        return {name: getattr(self, name) for name in self._kinds()}

    @property
    def sensitivity(self) -> float:
        """Of one gradient."""
        return self.statistic.sensitivity

    @property
    def gradient(self) -> Any:
        """The statistic, a `ClippedGradient` or a sum of them."""
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


_CHECKED: dict[Any, Callable[[str, Any], Any]] = {
    int: lambda name, value: _validate.integer(name, value, 1),
    float: _validate.length,
    str: lambda name, value: _validate.choice(name, value, ("poisson", "fixed-size")),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentMechanism(_Descent):
    """`steps` noisy mean gradients, the iterates between them post-processing: μ = √T·2C/(n·noise) (Dong, Roth & Su 2022).

    Attributes
    ----------
    steps : int
        T.
    noise : float
        Standard deviation of the noise on a mean gradient.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> step = ClippedGradient(Sphere(2), 1.0, 100)
    >>> round(DescentMechanism(statistic=step, steps=25, noise=0.1).guarantee.mu, 6)
    1.0
    """

    steps: int
    noise: float

    name: ClassVar[str] = "dp-rgd"

    @cached_property
    def profile(self) -> PrivacyProfile:
        """T Gaussian releases are one of √T times the sensitivity."""
        return gaussian_profile(0.0, 1, self.noise, sqrt(self.steps) * self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP."""
        return GDP(self.profile.mu)


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchDescentMechanism(_Descent):
    """`steps` noisy sums over random batches of about `batch_size` records."""

    steps: int
    batch_size: int
    noise: float
    sampling: str

    name: ClassVar[str] = "dp-rsgd"

    @cached_property
    def profile(self) -> Guarantee:
        """The composition of all steps."""
        g = self.gradient
        return rsgd_guarantee(g.n, self.steps, self.batch_size, g.clip, self.noise, self.sampling)

    @cached_property
    def known_batches(self) -> Guarantee:
        """What holds even where the batches are known: for definitions that gain nothing from their chance."""
        return rgd_guarantee(self.batch_size, self.steps, self.gradient.clip, self.noise)


@dataclass(frozen=True, eq=False, kw_only=True)
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

    def _composed(self, known: bool) -> Guarantee:
        clips, noises = (self.gradient.clip, self.difference_clip), (self.full_noise, self.inner_noise)
        sizes = (self.gradient.n, self.epochs, self.inner_steps, self.batch_size)
        return rsvrg_guarantee(*sizes, clips, noises, self.sampling, known)

    @cached_property
    def profile(self) -> Guarantee:
        """The composition of all epochs and steps."""
        return self._composed(known=False)

    @cached_property
    def known_batches(self) -> Guarantee:
        """What holds even where the batches are known."""
        return self._composed(known=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class AddedDescentMechanism(_Descent):
    """`steps` noisy sums over random batches, each record in them with chance `rate`, and one noisy count: the number of
    records is private, and steps are along quotients of released numbers."""

    steps: int
    rate: float
    noise: float
    count_noise: float

    name: ClassVar[str] = "dp-rsgd-sum"
    of: ClassVar[Any] = ClippedGradientSum

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.within("rate", self.rate, 0, 1, open_low=True)

    @cached_property
    def profile(self) -> Guarantee:
        """The composition of all steps and the count."""
        return added_guarantee(self.steps, self.rate, self.gradient.clip, self.noise, self.count_noise)

    @cached_property
    def known_batches(self) -> Guarantee:
        """What holds even where the batches are known."""
        return added_guarantee(self.steps, 1.0, self.gradient.clip, self.noise, self.count_noise)


@dataclass(frozen=True, eq=False, kw_only=True)
class AddedVarianceReducedMechanism(_Descent):
    """One noisy sum of gradients an epoch, noisy sums of clipped differences over random batches, each record in them with
    chance `rate`, and one noisy count: the number of records is private."""

    epochs: int
    inner_steps: int
    rate: float
    difference_clip: float
    full_noise: float
    inner_noise: float
    count_noise: float

    name: ClassVar[str] = "dp-rsvrg-sum"
    of: ClassVar[type[Statistic]] = ClippedGradientSum

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.within("rate", self.rate, 0, 1, open_low=True)

    def _composed(self, rate: float) -> Guarantee:
        clips, noises = (self.gradient.clip, self.difference_clip), (self.full_noise, self.inner_noise)
        return added_rsvrg_guarantee(self.epochs, self.inner_steps, rate, clips, noises, self.count_noise)

    @cached_property
    def profile(self) -> Guarantee:
        """The composition of all epochs, steps and the count."""
        return self._composed(self.rate)

    @cached_property
    def known_batches(self) -> Guarantee:
        """What holds even where the batches are known."""
        return self._composed(1.0)
