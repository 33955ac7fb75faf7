"""Noise about a statistic's value; and what Gaussian and Laplace mechanisms share, on the space or in a chart."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import drawn_point, exact_draw
from curvedp.mechanisms.base import Draw, Mechanism, Reading, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import grid_of
from curvedp.mechanisms.statistic import (
    Stated,
    Statistic,
    assign,
    is_drawn_in_coordinates,
    is_point,
    length,
)
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, PureDP, smallest_scale

_LAWS: dict[str, Any] = {
    "gaussian": RiemannianGaussian,
    "laplace": RiemannianLaplace,
}


@dataclass(frozen=True, eq=False)
class ValueMechanism(Mechanism):
    """Noise about the statistic's value."""

    @classmethod
    def serves(cls, statistic: Statistic) -> bool:
        return statistic.valued

    @abstractmethod
    def at(self, coordinates: np.ndarray) -> np.ndarray:
        """The drawn point of these grid coordinates: post-processing."""

    drawn_shape = property(
        lambda self: self.manifold.point_shape
    )  # the shape of what is drawn

    def value_of(self, certificate: Certificate) -> np.ndarray:
        return np.asarray(
            self.finish(self.at(self.drawn_before(certificate.release["integers"])))
        )

    @property
    def grid(self) -> int:
        return grid_of(self.noise[2])

    def drawn_before(self, integers: Any) -> np.ndarray:
        """The drawn coordinates, from a certificate's grid integers."""
        return replay(integers)(np.empty(self.drawn_shape), self.noise[2:3])

    def reading(self, integers: Any) -> Reading:
        kind, space, scale, _ = self.noise
        return Reading(
            "point",
            _LAWS[kind](space, scale),
            self.at(self.drawn_before(integers)),
            cell=2.0**-self.grid,
        )

    @property
    @abstractmethod
    def noise(self) -> tuple[str, Manifold, float, float]:
        """Kind ("gaussian" or "laplace"), space, scale and sensitivity of the law, for the certified path."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same with its noise multiplied: what a cheat draws."""

    @abstractmethod
    def simulate(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draws of this size (a shape, too) by the fast float path: for simulation and predicted error, NOT for release."""

    def finish(self, value: Any) -> Any:
        """Post-process a draw; what doubles do not hold becomes the chart's public base."""
        finished = np.asarray(super().finish(value))
        if is_point(self.manifold, finished):
            return finished
        return self.statistic.placed(np.asarray(self.statistic.base)[None])[0]

    def described(self) -> dict[str, Any]:
        """As of every mechanism; refuses noise of which no guarantee is known, and noise that
        leads beyond what doubles hold.

        Where a ball holds the statistic, drawn points are moved into it. Where none does, they
        are released as they are drawn, and at least every other draw must be a point that
        doubles hold. This follows from public numbers: the scale and the space.
        """
        _ = self.profile  # refuses where none can be computed
        if self.statistic.kept_in is None:
            for factor in self.manifold.factors:
                if factor.float_set.max_distance < inf and not self._stays_within(
                    factor
                ):
                    raise ParameterError(
                        f"{self.name} of scale {self.noise[2]:.4g}: most draws are farther than "
                        f"{factor.float_set.max_distance:g}, beyond what doubles hold on {factor!r}; use less "
                        "noise, or a statistic in a public ball"
                    )
        return super().described()

    def _stays_within(self, factor: Manifold) -> bool:
        """Whether half of the draws, or more, are within the reach of doubles on a factor."""
        kind, space, scale, _ = self.noise
        if scale > factor.float_set.max_distance:
            return False
        if (
            space.dim == self.manifold.dim
            and isinstance(space, Euclidean)
            and kind == "laplace"
        ):
            typical = scale * (space.dim + 1) * sqrt(factor.dim / space.dim)
            return typical <= factor.float_set.max_distance
        noised = Euclidean(factor.dim) if isinstance(space, Euclidean) else factor
        law = _LAWS[kind](noised, scale)
        return float(law.radial_cdf(factor.float_set.max_distance)) >= 0.5

    def accepted(self, data: Any) -> np.ndarray:
        """One point; what is not a point becomes the origin."""
        value = _validate.array("value", data)
        if value.shape != self.manifold.point_shape:
            raise ParameterError(
                f"value has shape {value.shape}; one point has shape {self.manifold.point_shape}"
            )
        return np.asarray(
            project_to_ball(self.manifold, self.manifold.origin, 1e300, value[None])[0]
        )


class IsotropicMechanism(ValueMechanism):
    """Noise whose density depends on the distance alone."""

    scale: float  # a field, where `word` does not name another
    kind: ClassVar[Any]  # which law: "gaussian" or "laplace"
    word: ClassVar[str] = "scale"  # what certificates and users call the scale

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        scale: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        given = {self.word: length(self.word, scale)}
        assign(self, statistic=statistic or Stated(manifold, sensitivity), **given)
        self.__post_init__()

    @classmethod
    def calibrated(
        cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee
    ) -> Self:
        """The smallest noise that meets the guarantee, for a sensitivity that the caller states; an `UnattainableGuarantee`
        below the floor of curved space."""
        return cls.for_statistic(Stated(manifold, sensitivity), guarantee)

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The smallest noise that meets the guarantee, by the exact profile."""
        check_guarantee(guarantee)
        moved = cls.charged(statistic)
        about = (
            moved / sqrt(statistic.space.dim) if cls.kind == "laplace" else moved
        )  # there θ = 1
        scale = smallest_scale(cls.profile_at(statistic.space, moved), guarantee, about)
        return cls.rebuilt(statistic, {cls.word: scale})

    @classmethod
    def charged(cls, statistic: Statistic) -> float:
        """How far what is noised can move, as computed."""
        return statistic.sensitivity

    @classmethod
    def profile_at(
        cls, space: Manifold, moved: float
    ) -> Callable[[float], PrivacyProfile]:
        """The exact profile by scale."""
        return lambda scale: _LAWS[cls.kind](space, scale).profile(moved)

    def scaled(self, factor: float) -> Self:
        return self.rebuilt(self.statistic, {self.word: factor * self.scale})

    noised = property(lambda self: self.manifold)  # where the noise lives
    noise = property(
        lambda self: (self.kind, self.noised, self.scale, self.charged(self.statistic))
    )
    law = cached_property(
        lambda self: _LAWS[self.kind](self.noised, self.scale)
    )  # the noise law
    profile = cached_property(
        lambda self: self.profile_at(self.manifold, self.charged(self.statistic))(
            self.scale
        )
    )

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP for Gaussian noise, pure ε for Laplace noise."""
        if self.kind == "laplace":
            return PureDP(self.profile.pure_epsilon)
        return GDP(self.profile.mu)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """One exact draw; the point nearest to its grid point is post-processing."""
        space, center = self.drawn_about(data)
        drawn = exact_draw(
            self.kind, space, self.scale, center, source=source, grid=self.grid
        )
        return Draw(self.at(drawn.value), [drawn.integers], drawn.tau)

    def drawn_about(self, data: np.ndarray) -> tuple[Manifold, np.ndarray]:
        """Return where the noise is drawn, and the point it is drawn about.

        That is the statistic's value on its own space; or, where such noise is drawn in flat
        coordinates and a ball holds the statistic, its coordinates, shortened to that ball.
        """
        ball = self.statistic.values
        if ball is None or not is_drawn_in_coordinates(self.noised, ball):
            return self.noised, data
        coordinates = ball_coordinates(self.noised, ball.center, ball.radius, data)
        return Euclidean(self.noised.dim), coordinates

    def at(self, coordinates: np.ndarray) -> np.ndarray:
        return np.asarray(drawn_point(self.manifold, coordinates))

    def simulate(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        return np.asarray(self.law.sample(rng, value, size))
