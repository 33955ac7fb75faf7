"""Gaussian or Laplace noise in the normal chart at a public base point, on every manifold.

The release is exp_o(log_o f(D) + ξ) at a public base o. Where curvature is at most 0
and the manifold is simply connected, the logarithm does not stretch, so this is the
Euclidean Gaussian mechanism, exactly μ = Δ/σ, with no floor and no integral. On a ball
of radius ρ with curvature at most κ > 0 it stretches by at most ρ√κ/sin(ρ√κ) (Rauch).
The exponential afterwards is post-processing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from curvedp.core.capabilities import HasNoiseLength, NoisyDraw, PostProcessesItself
from curvedp.core.chart import (
    CHART_ERROR,
    MAX_CHART_LENGTH,
    chart_stretch,
    shrink_points,
)
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.statistic import ExternalValue, PointStatistic, Statistic
from curvedp.geometry import Euclidean
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.vector import NoiseKind, std_per_scale
from curvedp.privacy import Guarantee, PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile


@dataclass(frozen=True, eq=False, init=False)
class TangentMechanism(IsotropicMechanism, HasNoiseLength):
    """exp_o of Euclidean noise about the coordinates of log_o f(D), at the public base o."""

    if TYPE_CHECKING:
        statistic: PointStatistic

    scale: float

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        scale: Any = None,
        base: Any = None,
        radius: float | None = None,
        chart_sensitivity: float | None = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        if statistic is None:
            statistic = ExternalValue(
                manifold, sensitivity, base, radius, chart_sensitivity
            )
        super().__init__(scale=scale, statistic=statistic)
        # A chart without a Lipschitz constant is refused here.
        _max_coordinate_length(self.statistic)

    @classmethod
    def calibrated(
        cls,
        manifold: Manifold,
        sensitivity: float,
        guarantee: Guarantee,
        *,
        base: Any = None,
        radius: float | None = None,
        chart_sensitivity: float | None = None,
    ) -> Self:
        """Return the least noise that meets a guarantee, for a stated sensitivity.

        Parameters
        ----------
        manifold, sensitivity, guarantee
            As in `GaussianMechanism.calibrated`.
        base : point, optional
            Where the chart is taken; the origin by default.
        radius : float, optional
            Of a public ball about the base that holds the value; needed where curvature
            is positive.
        chart_sensitivity : float, optional
            How far the value's coordinates can move, where the caller knows it better
            than the stretch of the chart does.
        """
        value = ExternalValue(manifold, sensitivity, base, radius, chart_sensitivity)
        return cls.calibrate(value, guarantee)

    @classmethod
    def charged_sensitivity(cls, statistic: Any) -> float:
        """Return the chart sensitivity with the float error of coordinates at both ends."""
        float_error = 2 * CHART_ERROR * _max_coordinate_length(statistic)
        return nextafter(statistic.chart_sensitivity + float_error, inf)

    @classmethod
    def profile_by_scale(
        cls, space: Manifold, sensitivity: float
    ) -> Callable[[float], PrivacyProfile]:
        """Return the function that gives the privacy profile at each noise scale.

        Noise in a chart has the profile of noise in flat space.

        Parameters
        ----------
        space : Manifold
            Where the noise is drawn.
        sensitivity : float
            How far the value moves if a record is replaced.
        """

        def profile_at(scale: float) -> PrivacyProfile:
            return constant_curvature_profile(
                cls.noise_kind, 0.0, space.dim, scale, sensitivity
            )

        return profile_at

    @property
    def sigma(self) -> float:
        """The scale, under the name that papers give it."""
        return self.scale

    @property
    def base(self) -> np.ndarray:
        """The public point o of the chart."""
        return np.asarray(self.statistic.chart_base)

    @cached_property
    def noise_space(self) -> Manifold:
        return Euclidean(self.manifold.dim)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        return (self.manifold.dim,)

    @property
    def noise_length(self) -> float:
        """The root mean square length of the noise."""
        dim = self.manifold.dim
        return self.scale * std_per_scale(self.noise_kind, dim) * sqrt(dim)

    def draw_center(self, value: np.ndarray) -> tuple[Manifold, np.ndarray]:
        """Return the chart and the coordinates of the value in it."""
        return self.noise_space, self._coordinates(value)

    def noisy_draw(self, integers: Any) -> NoisyDraw:
        """Return the drawn coordinates: those of the statistic, plus noise.

        Parameters
        ----------
        integers : list
            The released integers, as a certificate lists them.
        """
        return NoisyDraw(
            "chart",
            self.noise_law,
            self.replay_coordinates(integers),
            cell=2.0**-self.grid,
            base=self.base,
            reach=_max_coordinate_length(self.statistic),
        )

    def simulate_draws(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draw points about the value by the fast float path. NOT private."""
        coordinates = self._coordinates(value, in_public_time=False)
        return self.point_from_grid(super().simulate_draws(rng, coordinates, size))

    def point_from_grid(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the point with given coordinates in the chart at the base point.

        Parameters
        ----------
        coordinates : array of shape (dim,)
            The drawn coordinates.
        """
        # Noise beyond what doubles hold becomes infinite, without a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(
                self.manifold.from_normal_coordinates(self.base, coordinates)
            )

    def _coordinates(
        self, value: np.ndarray, *, in_public_time: bool = True
    ) -> np.ndarray:
        """Return the coordinates of a value, clipped to the largest public length.

        Parameters
        ----------
        value : array of shape point_shape
            The value of the statistic.
        in_public_time : bool
            Whether the running time must not depend on the value.
        """
        return ball_coordinates(
            self.manifold,
            self.base,
            _max_coordinate_length(self.statistic),
            value,
            timed=in_public_time,
        )


class LogGaussianMechanism(PostProcessesItself, TangentMechanism):
    """exp_o(log_o f(D) + ξ), ξ a tangent Gaussian of standard deviation σ = `scale`.

    Parameters
    ----------
    manifold, sensitivity, statistic
        As in `GaussianMechanism`: where the statistic lives and how far it can move, or
        a statistic that knows both.
    scale : float
        The standard deviation σ of each coordinate.
    base : point, optional
        The public base o; the origin by default.
    radius : float, optional
        Of the public ball about o that holds the statistic. It is needed where
        curvature is positive.
    chart_sensitivity : float, optional
        How far the coordinates of the statistic can move; by default the sensitivity
        times the stretch of the chart.

    Notes
    -----
    Guarantees
    - exactly μ-GDP with μ = (chart sensitivity + 2·float error of the chart)/σ;
    - the coordinates are on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal law.

    Examples
    --------
    >>> from curvedp.geometry import Lorentz
    >>> from curvedp.privacy import GDP
    >>> round(LogGaussianMechanism.calibrated(Lorentz(2), 1.0, GDP(0.5)).scale, 6)
    2.0
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "tangent-gaussian", option="tangent-gaussian"
    )
    noise_kind: ClassVar[NoiseKind] = "gaussian"

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        """Shrink points toward the center of the ball where that helps, then project."""
        if self._is_shrunk:
            points = shrink_points(self.manifold, self.base, points, self.scale)
        return super().post_process_points(points)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        if not self._is_shrunk:
            return self.statistic.post_processing
        return (PostProcessing.SHRINK_TO_CENTER, *self.statistic.post_processing)

    @property
    def _is_shrunk(self) -> bool:
        """Whether James-Stein shrinkage applies: from dimension 3 on, and in a ball."""
        return self.manifold.dim >= 3 and bool(self.statistic.post_processing)


class LogLaplaceMechanism(TangentMechanism):
    """exp_o(log_o f(D) + ξ), ξ of density ∝ exp(−‖ξ‖/scale): pure ε on every manifold.

    Parameters
    ----------
    manifold, sensitivity, scale, base, radius, chart_sensitivity, statistic
        As in `LogGaussianMechanism`.

    Notes
    -----
    Guarantees
    - ε-DP with ε = (chart sensitivity + 2·float error of the chart)/scale, and the
      exact profile of that law.

    Examples
    --------
    >>> from curvedp.geometry import Lorentz
    >>> from curvedp.privacy import PureDP
    >>> round(LogLaplaceMechanism.calibrated(Lorentz(2), 1.0, PureDP(0.5)).scale, 6)
    2.0
    """

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "tangent-laplace", option="tangent-laplace"
    )
    noise_kind: ClassVar[NoiseKind] = "laplace"


def _max_coordinate_length(statistic: PointStatistic) -> float:
    """Return how long coordinates at the base may be.

    Parameters
    ----------
    statistic : PointStatistic
        What is released.

    Raises
    ------
    ParameterError
        Where the chart has no Lipschitz constant.
    """
    ball = statistic.value_ball
    if ball is None:
        chart_stretch(statistic.value_space, None)
        return MAX_CHART_LENGTH
    chart_stretch(statistic.value_space, ball.radius)
    return ball.radius
