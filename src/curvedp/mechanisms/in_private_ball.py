"""Statistics of the records in a ball that is found privately: what each is in the ball, and what may release it there."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, pi, sqrt
from typing import Any, ClassVar

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.base import Mechanism
from curvedp.mechanisms.bundle_descent import BundleDescentMechanism
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.gradient import GradientMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.measured import OuterBall
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.noise import Law
from curvedp.mechanisms.regression import GeodesicLine
from curvedp.mechanisms.statistic import (
    Ball,
    FrechetMean,
    FrechetVariance,
    Several,
    Statistic,
    assign,
)
from curvedp.records.base import Records, open_records
from curvedp.regression.jacobi import check_symmetric

_CLEAR = 0.75  # of the largest ball in which a mean is unique, or a geodesic is clear of its cut locus
_SQUARED = 1e-40, 1e45  # radii of which doubles hold the square's noise too
_CLOSE = 1e-6  # of the radius: how well the mean must be known for its variance


@dataclass(frozen=True, eq=False)
class InPrivateBall(OuterBall):
    """A statistic of the records in a ball that is itself found privately, inside a public outer ball."""

    fewest: ClassVar[float] = (
        1.0  # times the records of a mean, where the noise is Gaussian: how many are enough
    )

    @abstractmethod
    def within(self, ball: Ball) -> Statistic:
        """The statistic of the records in a ball that was found."""

    @abstractmethod
    def lasts(
        self, law: Law = "gaussian", *, in_memory: bool = True
    ) -> list[type[Mechanism]]:
        """The mechanisms that may come last, by the law of the noise, the best first."""

    @abstractmethod
    def missed(
        self, last: Any, rng: np.random.Generator, records: np.ndarray, mean: np.ndarray
    ) -> float:
        """Return how far one simulated release by this final mechanism is from the truth."""

    def parts(self, data: Any) -> tuple[Any, Any, list[ExactDraw] | None]:
        """What the ball is found for, what the last mechanism reads, and what was drawn for a ball that others share."""
        return data, data, None


def simulated_mean(
    final: Any, rng: np.random.Generator, records: np.ndarray
) -> np.ndarray:
    """Return one float release, in the records' frame; for predictions, NOT for release."""
    space = final.manifold
    canonical = carry_records(space, final.statistic.center, records)
    center, radius = final.statistic.ball
    inside = project_to_ball(space, center, radius, canonical)
    drawn = final.finished(final.simulate(rng, np.asarray(inside), 1))
    return np.asarray(final.statistic.placed(drawn)[0])


@dataclass(frozen=True, eq=False)
class OuterBallMean(InPrivateBall):
    """The Fréchet mean of the records in a private ball."""

    name: ClassVar[str] = "Fréchet mean in a private ball"
    dearer: ClassVar[float] = (
        2.0  # measured: storms on S², tensors (as good by either at 1.6)
    )

    def within(self, ball: Ball) -> FrechetMean:
        return FrechetMean(self.manifold, *ball, self.n)

    def missed(
        self, last: Any, rng: np.random.Generator, records: np.ndarray, mean: np.ndarray
    ) -> float:
        """Return the distance of one simulated release to the mean of all records."""
        released = simulated_mean(last, rng, records)
        return float(self.manifold.dist(mean, released))

    @property
    def afterwards(self) -> Sequence[str]:
        return ("James-Stein shrinkage in every step",) * (self.manifold.dim >= 3) + (
            "projection onto the ball",
        )

    def lasts(
        self, law: Law = "gaussian", *, in_memory: bool = True
    ) -> list[type[Mechanism]]:
        """Noisy Newton steps where the Hessian is large, else one gradient step."""
        bent = (self.manifold.constant_curvature or 0.0) < 0 and self.manifold.dim > 1
        return (
            [NewtonMechanism, GradientMechanism]
            if bent and in_memory
            else [GradientMechanism]
        )


@dataclass(eq=False)
class Classmates:
    """Records of all classes, which of them are of one class, and what was drawn for the ball, which all classes share."""

    everyone: Records
    mine: Records
    draws: list[ExactDraw]


@dataclass(frozen=True, eq=False)
class OuterBallClassMean(OuterBallMean):
    """The Fréchet mean of one class in a private ball that is found once, for the records of all classes.

    A record is in one class, so that replacing it within its class changes the stages of the ball and ONE last mechanism: the
    guarantee of the means of all classes together is that of one.
    """

    size: Several  # of the class; n is of all

    name: ClassVar[str] = "Fréchet mean of a class in a private ball"
    unit: ClassVar[str] = FrechetMean.units[0]  # no other: sizes are public
    units: ClassVar[tuple[str, ...]] = FrechetMean.units[2:]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size > self.n:
            raise ParameterError(
                f"a class of {self.size} records is larger than all {self.n}"
            )

    @property
    def public_n(self) -> int:
        return self.size

    @property
    def sensitivity(self) -> float:
        return 2 / self.size

    def within(self, ball: Ball) -> FrechetMean:
        return FrechetMean(self.manifold, *ball, self.size)

    def parts(self, data: Classmates) -> tuple[Any, Any, list[ExactDraw] | None]:
        return data.everyone, data.mine, data.draws

    def accepted(self, data: Any) -> Classmates:
        """As they are, moved into the outer ball before."""
        if not isinstance(data, Classmates) or (data.everyone.n, data.mine.n) != (
            self.n,
            self.size,
        ):
            raise ParameterError(
                f"not {self.size} of {self.n} records in classes: PrivateMDM makes them"
            )
        return data


@dataclass(frozen=True, eq=False)
class OuterBallVariance(InPrivateBall):
    """The Fréchet variance of the records in a private ball, cut where the mean need not be unique or cannot be computed."""

    name: ClassVar[str] = "Fréchet variance in a private ball"
    fewest: ClassVar[float] = (
        2.5  # what noise hides is cut off: 0.6 to 0.8 is left at nμ = 50, 0.9 at 200
    )
    dearer: ClassVar[float] = (
        1.0  # measured: S², H², SPD, tensors; Laplace noise cuts off less, of a number
    )
    afterwards = FrechetVariance.afterwards

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.within(
            self.outer
        ).sensitivity  # refuses spaces without one here, not after the first stages

    def within(self, ball: Ball) -> FrechetVariance:
        space, upper = self.manifold, self.manifold.curvature_bounds[1]
        limit = space.injectivity_radius / 2 if space.injectivity_radius > 0 else inf
        convex = (
            min(limit, pi / (2 * sqrt(upper)))
            if upper > 0 and isfinite(upper)
            else limit
        )
        radius = min(max(ball.radius, _SQUARED[0]), _SQUARED[1], _CLEAR * convex)
        while (
            radius > 1 and solver_error(space, radius) > _CLOSE * radius
        ):  # doubles cannot tell the mean so far out
            radius /= 2
        return FrechetVariance(space, ball.center, radius, self.n)

    def missed(
        self, last: Any, rng: np.random.Generator, records: np.ndarray, mean: np.ndarray
    ) -> float:
        """How far a simulated release of such records, by this last mechanism, is from the truth; for predictions."""
        value = last.statistic.of(open_records(records, self.manifold.point_shape))
        truth = float(np.mean(np.asarray(self.manifold.dist(mean, records)) ** 2))
        return abs(float(last.finished(last.simulate(rng, value, (1,)))[0, 0]) - truth)

    def lasts(
        self, law: Law = "gaussian", *, in_memory: bool = True
    ) -> list[type[Mechanism]]:
        return [LaplaceMechanism if law == "laplace" else GaussianMechanism]


@dataclass(frozen=True, eq=False)
class OuterBallLine(InPrivateBall):
    """The geodesic through responses in a private ball: its middle is in the ball, no prediction is farther from it than the
    radius, and residuals are clipped to the radius."""

    x_range: Any  # the public range of each predictor

    name: ClassVar[str] = "geodesic regression in a private ball"
    afterwards = BundleDescentMechanism.afterwards
    unit: ClassVar[str] = GeodesicLine.unit
    units: ClassVar[tuple[str, ...]] = GeodesicLine.units

    def __post_init__(self) -> None:
        check_symmetric(self.manifold)
        super().__post_init__()
        assign(
            self, x_range=self.within(self.outer).x_range
        )  # refuses anything but a range, and too few records

    def within(self, ball: Ball) -> GeodesicLine:
        """Their geodesic, with 2·radius + speed/2 inside the cut locus and at most as far out as lengths are computed."""
        arms = 2 + len(np.atleast_2d(self.x_range))
        reach = min(
            self.manifold.injectivity_radius,
            100 / sqrt(max(-self.manifold.curvature_bounds[0], 1e-300)),
        )
        r = min(ball.radius, _CLEAR * reach / arms)
        return GeodesicLine(
            self.manifold, ball.center, r, 2 * r, r, self.n, self.x_range
        )

    def missed(
        self, last: Any, rng: np.random.Generator, records: np.ndarray, mean: np.ndarray
    ) -> float:
        """By noise, in a ball that no middle leaves, and by as much as the ball is beside the records."""
        center, r = last.statistic.center, last.statistic.radius
        beside = max(0.0, float(self.manifold.dist(center, mean)) - r)
        return float(np.hypot(min(last.predicted_error(), 2 * r), beside))

    def lasts(
        self, law: Law = "gaussian", *, in_memory: bool = True
    ) -> list[type[Mechanism]]:
        return [BundleDescentMechanism]

    def parts(self, data: Any) -> tuple[Any, Any, list[ExactDraw] | None]:
        """The ball is found for the responses, or the first of each person."""
        first = (
            slice(None) if len(data) < 3 else np.unique(data[2], return_index=True)[1]
        )
        return self.collected(np.asarray(data[1])[first]), data, None

    def accepted(self, data: Any) -> Any:
        """(predictors, responses, whose), as they are: the last mechanism moves them where they belong."""
        self.within(self.outer).accepted(data)
        return data
