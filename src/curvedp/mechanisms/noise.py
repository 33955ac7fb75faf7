"""Gaussian noise about vectors, and for pure ε the Laplace law of the Euclidean norm, density ∝ exp(−|y|/b); and what the
mechanisms share that add it to what they read of the records.

A record that moves the vector by Δ moves the exponent by at most Δ/b everywhere: ε = Δ/b in every dimension (the K-norm
mechanism, Hardt & Talwar 2010). |y| has the law b·Gamma(d) and no direction is special, so each coordinate has variance
b²·E|y/b|²/d = (d + 1)b².
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import UnattainableGuarantee
from curvedp.geometry import Euclidean
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import ExactDraw, exact_gaussian, exact_laplace
from curvedp.mechanisms.base import Law as Law
from curvedp.mechanisms.base import Mechanism, check_guarantee
from curvedp.mechanisms.chart import grid_of
from curvedp.mechanisms.statistic import FrechetMean, Length
from curvedp.numerics.directed_rounding import round_down, round_up
from curvedp.privacy import (
    GDP,
    Guarantee,
    PureDP,
    gaussian_profile,
    smallest_scale,
)
from curvedp.privacy.profiles.ricci_bound import PureProfile

LAWS: tuple[Law, ...] = ("gaussian", "laplace")
Noise = Callable[
    [np.ndarray, np.ndarray], np.ndarray
]  # (values, their scales along the first axis) -> noisy values


def least_scale(guarantee: Guarantee, moved: float = 1.0) -> float:
    """The least σ of Gaussian noise about what moves so far that meets the guarantee: 1/μ where it moves by 1."""
    if bounded(check_guarantee(guarantee)):
        raise UnattainableGuarantee(
            f"{guarantee} is not met by Gaussian noise, and this release has no other: ask for GDP, zCDP, or ApproxDP with a "
            "small δ"
        )
    return float(
        smallest_scale(lambda s: gaussian_profile(0.0, 1, s, moved), guarantee, moved)
    )


def least_noise(guarantee: Guarantee, moved: float = 1.0) -> tuple[Law, float]:
    """(law, scale): the least noise about what moves so far that meets the guarantee, Laplace where it is `bounded`."""
    if bounded(check_guarantee(guarantee)):
        return "laplace", round_up(moved / bounded_epsilon(guarantee), 1e-15)
    return "gaussian", least_scale(guarantee, moved)


def bounded(guarantee: Guarantee) -> bool:
    """Whether it follows from bounded losses alone, which Gaussian noise does not have."""
    return guarantee.requires_bounded_loss


def bounded_epsilon(guarantee: Guarantee) -> float:
    """The largest pure ε that meets a `bounded` guarantee."""
    if isinstance(guarantee, PureDP):
        return guarantee.eps
    return round_down(  # type: ignore[no-any-return]  # a float
        1 / smallest_scale(lambda s: PureProfile(round_up(1 / s)), guarantee, 1.0),
        1e-15,
    )


def spread_of(law: str, size: int) -> float:
    """The deviation of a coordinate, over the law's scale."""
    return sqrt(size + 1) if law == "laplace" and size > 0 else 1.0


def float_noise(
    rng: np.random.Generator, law: Law, shape: tuple[int, int]
) -> np.ndarray:
    """Rows of noise of scale 1: for predicted error, NOT for release."""
    normal = rng.standard_normal(shape)
    if law == "gaussian":
        return normal
    return np.asarray(
        normal
        / np.linalg.norm(normal, axis=1, keepdims=True)
        * rng.gamma(shape[1], size=(shape[0], 1))
    )


def _known(name: str, law: Any) -> Law:
    return (
        law  # type: ignore[return-value]  # one of them
        if isinstance(law, str) and law in LAWS
        else _validate.choice(name, law, LAWS)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorMechanism(Mechanism):
    """Gaussian noise, or Laplace noise for pure ε, whose `scale` is for each unit that all vectors together move by."""

    scale: Length
    law: Annotated[Law, _known] = "gaussian"

    reads: ClassVar[Literal["value", "records"]] = "records"
    moved = property(
        lambda self: self.sensitivity
    )  # how far all that is noised can move, as one vector

    @cached_property
    def profile(self) -> Any:
        """That of one Gaussian release, or pure ε."""
        if self.law == "laplace":
            return PureDP(round_up(self.moved / self.scale))
        return gaussian_profile(0.0, 1, self.scale, self.moved)

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP, or pure ε."""
        return (
            self.profile
            if self.law == "laplace"
            else GDP(self.profile.mu, adjacency=self.profile.adjacency)
        )

    def exact_noise(self, source: Source) -> tuple[list[ExactDraw], Noise]:
        """Exact noise, rounded to the public grid, and the list of what it has drawn."""
        draws: list[ExactDraw] = []
        one = exact_laplace if self.law == "laplace" else exact_gaussian

        def noisy(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            space, pairs = (
                Euclidean(values.shape[1]),
                [(row, float(b)) for row, b in zip(values, scales, strict=True)],
            )
            rows = [
                one(space, b, row, source=source, grid=grid_of(b)) for row, b in pairs
            ]
            drawn = [
                ExactDraw(row.integers, grid_of(b), row.tau, space)
                for row, (_, b) in zip(rows, pairs, strict=True)
            ]
            whole, tau = (
                np.concatenate([each.integers for each in drawn]),
                sum(each.tau for each in drawn),
            )
            draws.append(ExactDraw(whole, drawn[0].grid, tau, Euclidean(values.size)))
            return np.concatenate([each.value for each in drawn]).reshape(values.shape)

        return draws, noisy

    def simulated_noise(self, rng: np.random.Generator) -> Noise:
        """The same in floats: for predicted error, NOT for release."""
        return lambda values, scales: (
            values + scales[:, None] * float_noise(rng, self.law, values.shape)
        )

    def law_of(self, size: int, scale: float) -> RiemannianGaussian | RiemannianLaplace:
        """The noise of a vector."""
        return (RiemannianLaplace if self.law == "laplace" else RiemannianGaussian)(
            Euclidean(size), scale
        )


class MeanMechanism(Mechanism):
    """A private Fréchet mean that reads the records."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    of: ClassVar[Any] = FrechetMean
    center = property(
        lambda self: np.asarray(self.statistic.ball.center)
    )  # of the public ball, at home
    radius = property(lambda self: float(self.statistic.radius))  # of the public ball
    reach = property(
        lambda self: float(self.statistic.reach)
    )  # how far from the center the moved records can be


class ShrunkMeanMechanism(VectorMechanism, MeanMechanism):
    """One by noise about vectors, whose value is shrunk towards the center."""

    @property
    def afterwards(self) -> Sequence[str]:
        return (
            *("James-Stein shrinkage towards the center",) * (self.manifold.dim >= 3),
            *super().afterwards,
        )
