"""What the Gaussian and Laplace mechanisms share, on the manifold or in a chart.

A value mechanism takes the statistic's value and adds noise to it once. An isotropic
one has a density that depends on the distance from the value alone.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import (
    LeadsToRegion,
    NoisyDraw,
    RefusesRelease,
    SimulatesRelease,
)
from curvedp.core.certificate import Certificate
from curvedp.core.chart import grid_of
from curvedp.core.fields import assign, check_length
from curvedp.core.mechanism import (
    Draw,
    Mechanism,
    check_guarantee,
    check_supported,
    mechanism_from_parameters,
    replay_draws,
)
from curvedp.core.statistic import (
    ExternalValue,
    PointStatistic,
    Statistic,
    is_drawn_in_coordinates,
    is_point,
)
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import exact_draw, point_from_grid
from curvedp.mechanisms.vector import NoiseKind
from curvedp.privacy import Guarantee, PrivacyProfile, smallest_scale
from curvedp.randomness import Source

# A value is clipped to this distance from the origin: every value of use is inside.
_UNBOUNDED_RADIUS = 1e300


def noise_law_of(
    kind: NoiseKind, space: Manifold, scale: float
) -> RiemannianGaussian | RiemannianLaplace:
    """Return the Riemannian Gaussian or Laplace law on a space.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The kind of noise.
    space : Manifold
        Where the noise is drawn.
    scale : float
        The scale of the law.
    """
    if kind == "laplace":
        return RiemannianLaplace(space, scale)
    return RiemannianGaussian(space, scale)


class NoiseDescription(NamedTuple):
    """What certified bounds on the privacy loss need to know of the noise.

    Attributes
    ----------
    kind : {"gaussian", "laplace"}
    space : Manifold
        On which the noise lives: the manifold, or Euclidean space for noise in a chart.
    scale : float
    sensitivity : float
        How far what is noised can move, as computed.
    """

    kind: NoiseKind
    space: Manifold
    scale: float
    sensitivity: float


@dataclass(frozen=True, eq=False)
class ValueMechanism(Mechanism, SimulatesRelease, LeadsToRegion, RefusesRelease):
    """A mechanism that adds noise once to the statistic's value."""

    statistic: PointStatistic = field(kw_only=True, repr=False)

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, PointStatistic)

    @property
    @abstractmethod
    def noise(self) -> NoiseDescription:
        """The noise, for the certified bounds of `verify`."""

    @abstractmethod
    def point_from_grid(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the drawn point of these grid coordinates: post-processing."""

    @abstractmethod
    def with_scaled_noise(self, factor: float) -> Self:
        """Return the same mechanism with its noise multiplied, for audits of a cheat."""

    @abstractmethod
    def simulate_draws(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draw points about the value in floats, before post-processing. NOT private."""

    @property
    def manifold(self) -> Manifold:
        """Where the released value lives."""
        return self.statistic.value_space

    @property
    def grid(self) -> int:
        """The k for which draws are whole multiples of 2^-k."""
        return grid_of(self.noise.scale)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The shape of what is drawn."""
        return self.manifold.point_shape

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the value of the statistic as one point.

        Something that is not a point becomes the origin.

        Parameters
        ----------
        data : object
            The value.
        """
        value = _validate.array("value", data)
        if value.shape != self.manifold.point_shape:
            raise ParameterError(
                f"value has shape {value.shape}; one point has shape "
                f"{self.manifold.point_shape}"
            )
        points = project_to_ball(
            self.manifold, self.manifold.origin, _UNBOUNDED_RADIUS, value[None]
        )
        return np.asarray(points[0])

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Project a drawn point to where the value can be, in the frame of the records.

        A draw outside the range of doubles becomes the public base point of the chart.

        Parameters
        ----------
        value : array of shape point_shape
            The drawn point.
        """
        points = self.post_process_points(value[None])
        point = np.asarray(self.statistic.to_data_frame(points)[0])
        if is_point(self.manifold, point):
            return point
        base = np.asarray(self.statistic.chart_base)[None]
        return np.asarray(self.statistic.to_data_frame(base)[0])

    def check_releasable(self) -> None:
        """Refuse noise without a known guarantee, or beyond what doubles hold.

        Where a ball holds the statistic, drawn points are moved into it. Where none
        does, they are released as they are drawn, and at least every other draw must be
        a point that doubles hold. This follows from public numbers: the scale and the
        space.
        """
        _ = self.privacy_profile  # refuses where none can be computed
        if self.statistic.post_processing:
            return
        for factor in self.manifold.factors:
            max_distance = factor.float_set.max_distance
            if max_distance < inf and not self._stays_within(factor):
                raise ParameterError(
                    f"{self.info.name} of scale {self.noise.scale:.4g}: most draws are "
                    f"farther than {max_distance:g}, beyond what doubles hold on "
                    f"{factor!r}; use less noise, or a statistic in a public ball"
                )

    def _stays_within(self, factor: Manifold) -> bool:
        """Return whether half of the draws are within the range of doubles on a factor.

        Parameters
        ----------
        factor : Manifold
            A factor of the space, or the space itself.
        """
        noise = self.noise
        max_distance = factor.float_set.max_distance
        if noise.scale > max_distance:
            return False
        is_in_chart = isinstance(noise.space, Euclidean)
        is_whole_chart = is_in_chart and noise.space.dim == self.manifold.dim
        if is_whole_chart and noise.kind == "laplace":
            dim = noise.space.dim
            typical_length = noise.scale * (dim + 1) * sqrt(factor.dim / dim)
            return typical_length <= max_distance
        noise_space = Euclidean(factor.dim) if is_in_chart else factor
        law = noise_law_of(noise.kind, noise_space, noise.scale)
        return float(law.radial_cdf(max_distance)) >= 0.5

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        """Project drawn points, along the first axis, in the canonical frame."""
        return np.asarray(self.statistic.project(points))

    def replay_coordinates(self, integers: Any) -> np.ndarray:
        """Return the drawn coordinates, from a certificate's grid integers."""
        return replay_draws(integers)(np.empty(self.grid_shape), [self.noise.scale])

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        coordinates = self.replay_coordinates(certificate.release["integers"])
        return np.asarray(self.post_process(self.point_from_grid(coordinates)))

    def noisy_draw(self, integers: Any) -> NoisyDraw:
        """Return the drawn point, about the statistic itself."""
        law = noise_law_of(self.noise.kind, self.noise.space, self.noise.scale)
        point = self.point_from_grid(self.replay_coordinates(integers))
        return NoisyDraw("point", law, point, cell=2.0**-self.grid)


class IsotropicMechanism(ValueMechanism):
    """Noise whose density depends on the distance from the value alone.

    Subclasses are dataclasses with one field, the noise scale.
    """

    noise_kind: ClassVar[NoiseKind]
    # What certificates and users call the scale.
    scale_name: ClassVar[str] = "scale"
    scale: float

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        scale: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        if statistic is None:
            statistic = ExternalValue(manifold, sensitivity)
        checked_scale = check_length(self.scale_name, scale)
        assign(self, statistic=statistic, **{self.scale_name: checked_scale})
        self.__post_init__()

    @classmethod
    def calibrated(
        cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee
    ) -> Self:
        """Return the least noise that meets a guarantee, for a stated sensitivity.

        Parameters
        ----------
        manifold : Manifold
            Where the value lives.
        sensitivity : float
            How far the value can move between neighboring data sets; the caller vouches
            for it.
        guarantee : Guarantee

        Raises
        ------
        UnattainableGuarantee
            Below the floor that curved space has for some laws.
        """
        return cls.calibrate(ExternalValue(manifold, sensitivity), guarantee)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets a guarantee.

        The exact privacy profile decides.

        Parameters
        ----------
        statistic : Statistic
            What is released.
        guarantee : Guarantee
            What the release must satisfy.
        """
        check_supported(cls, statistic)
        check_guarantee(guarantee)
        sensitivity = cls.charged_sensitivity(statistic)
        first_guess = sensitivity
        if cls.noise_kind == "laplace":
            first_guess = sensitivity / sqrt(statistic.value_space.dim)
        profile_at = cls.profile_by_scale(statistic.value_space, sensitivity)
        scale = smallest_scale(profile_at, guarantee, first_guess)
        return mechanism_from_parameters(cls, statistic, {cls.scale_name: scale})

    @classmethod
    def charged_sensitivity(cls, statistic: Any) -> float:
        """Return how far what is noised can move, as computed."""
        return float(statistic.sensitivity)

    @classmethod
    def profile_by_scale(
        cls, space: Manifold, sensitivity: float
    ) -> Callable[[float], PrivacyProfile]:
        """Return the function that gives the exact privacy profile at each noise scale.

        Parameters
        ----------
        space : Manifold
            Where the noise is drawn.
        sensitivity : float
            How far the value moves if a record is replaced.
        """

        def profile_at(scale: float) -> PrivacyProfile:
            return noise_law_of(cls.noise_kind, space, scale).profile(sensitivity)

        return profile_at

    def with_scaled_noise(self, factor: float) -> Self:
        scaled = {self.scale_name: factor * self.scale}
        return mechanism_from_parameters(type(self), self.statistic, scaled)

    @property
    def noise_space(self) -> Manifold:
        """Where the noise lives."""
        return self.manifold

    @property
    def noise(self) -> NoiseDescription:
        """The kind, space, scale and sensitivity of the noise."""
        return NoiseDescription(
            self.noise_kind,
            self.noise_space,
            self.scale,
            self.charged_sensitivity(self.statistic),
        )

    @cached_property
    def noise_law(self) -> RiemannianGaussian | RiemannianLaplace:
        """The law of the noise."""
        return noise_law_of(self.noise_kind, self.noise_space, self.scale)

    @cached_property
    def privacy_profile(self) -> PrivacyProfile:
        sensitivity = self.charged_sensitivity(self.statistic)
        return self.profile_by_scale(self.manifold, sensitivity)(self.scale)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Draw exactly, and return the point nearest to the drawn grid point.

        Taking the nearest point is post-processing.

        Parameters
        ----------
        data : array of shape point_shape
            The value.
        source : Source
            The random bits.
        """
        space, center = self.draw_center(data)
        drawn = exact_draw(
            self.noise_kind, space, self.scale, center, source=source, grid=self.grid
        )
        point = self.point_from_grid(drawn.value)
        return Draw(point, [drawn.integers], drawn.tau)

    def draw_center(self, value: np.ndarray) -> tuple[Manifold, np.ndarray]:
        """Return the space in which the noise is drawn, and the point around which.

        Usually these are the statistic's own space and its value. If such noise is
        drawn in flat coordinates and a ball holds the statistic, the point is given by
        its coordinates, clipped to that ball.

        Parameters
        ----------
        value : array of shape point_shape
            The value of the statistic.
        """
        ball = self.statistic.value_ball
        if ball is None or not is_drawn_in_coordinates(self.noise_space, ball):
            return self.noise_space, value
        coordinates = ball_coordinates(
            self.noise_space, ball.center, ball.radius, value
        )
        return Euclidean(self.noise_space.dim), coordinates

    def point_from_grid(self, coordinates: np.ndarray) -> np.ndarray:
        return np.asarray(point_from_grid(self.manifold, coordinates))

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: Any
    ) -> np.ndarray:
        return self._post_process_batch(self.simulate_draws(rng, data, size))

    def simulate_draws(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        return np.asarray(self.noise_law.sample(rng, value, size))

    def _post_process_batch(self, points: np.ndarray) -> np.ndarray:
        """Post-process points of any leading shape."""
        flat = points.reshape(-1, *self.manifold.point_shape)
        return self.post_process_points(flat).reshape(points.shape)
