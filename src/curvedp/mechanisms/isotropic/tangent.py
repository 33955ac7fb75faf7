"""Gaussian or Laplace noise in the *normal chart*: the tangent space at a public base
point o, which works on every manifold. The release is exp_o(log_o f(D) + ξ), with noise
ξ about the logarithm of the value f(D). The logarithm may stretch distances; the
sensitivity is multiplied by that *stretch*.

To map the noisy logarithm back is post-processing. On simply connected spaces of
curvature at most 0 the logarithm does not stretch distances, so this is the Euclidean
Gaussian mechanism: μ = Δ/σ exactly. On a ball of radius ρ with curvature at most κ > 0
it stretches them by at most ρ√κ/sin(ρ√κ) (Rauch).
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
    """Add Euclidean noise to the normal coordinates of a statistic at a public base point.

    `LogGaussianMechanism` and `LogLaplaceMechanism` are the two kinds.
    """

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
        """State the statistic, the noise scale, and the chart in which noise is added.

        Parameters
        ----------
        manifold : Manifold, optional
            Where the value lives; with `sensitivity` it stands for a statistic that the
            caller computes.
        sensitivity : float, optional
            How far that value can move between neighboring data sets.
        scale : float
            The noise scale: σ of a Gaussian coordinate, or b of the Laplace density
            ∝ exp(−‖ξ‖/b).
        base : point, optional
            The public base point of the chart; the origin by default.
        radius : float, optional
            The radius of a public ball about the base that contains the value. It is
            needed where curvature is positive.
        chart_sensitivity : float, optional
            How far the coordinates of the value can move; by default the sensitivity
            times the Lipschitz constant of the chart.
        statistic : Statistic, optional
            A statistic of the library, instead of all parameters but `scale`.

        Raises
        ------
        ParameterError
            If the chart stretches distances without bound.
        """
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
        """Return the mechanism with the least noise for a stated sensitivity.

        Use it for a statistic that the library does not know: you compute its value,
        and state how much one record can change it.

        Parameters
        ----------
        manifold : Manifold
            Where the value lives.
        sensitivity : float
            How far the value can move between neighboring data sets. The caller vouches
            for it.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy.
        base : point, optional
            The public base point of the chart; the origin by default.
        radius : float, optional
            The radius of a public ball about the base that contains the value. It is
            needed where curvature is positive.
        chart_sensitivity : float, optional
            How far the coordinates of the value can move. By default this is the
            sensitivity times the Lipschitz constant of the chart.

        Returns
        -------
        TangentMechanism
            The mechanism; its `release` takes the value.
        """
        value = ExternalValue(manifold, sensitivity, base, radius, chart_sensitivity)
        return cls.calibrate(value, guarantee)

    @classmethod
    def calibration_sensitivity(cls, statistic: Any) -> float:
        """Return how far the computed normal coordinates of the value can move.

        The noise is calibrated to it. To the exact bound, the float errors of the
        values of both neighboring data sets are added.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        """
        float_error = 2 * CHART_ERROR * _max_coordinate_length(statistic)
        return nextafter(statistic.chart_sensitivity + float_error, inf)

    @classmethod
    def profile_by_scale(
        cls, space: Manifold, sensitivity: float
    ) -> Callable[[float], PrivacyProfile]:
        """Return a function that maps a noise scale to the privacy profile.

        Noise is added to normal coordinates, which are flat. Its profile is that of the
        same noise in Euclidean space.

        Parameters
        ----------
        space : Manifold
            The manifold of the value; only its dimension matters.
        sensitivity : float
            How far the coordinates can move if one record is replaced.

        Returns
        -------
        function of a noise scale
            Returns the profile: δ as a function of ε.
        """

        def profile_at(scale: float) -> PrivacyProfile:
            """Return the profile of noise of this scale in space of curvature 0."""
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
        """The public base point o: noise is added to normal coordinates at o."""
        return np.asarray(self.statistic.chart_base)

    @cached_property
    def noise_space(self) -> Manifold:
        """Euclidean space of the manifold's dimension: the normal coordinates."""
        return Euclidean(self.manifold.dim)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The shape of the drawn coordinates: one vector of normal coordinates."""
        return (self.manifold.dim,)

    @property
    def noise_length(self) -> float:
        """The root mean square length of the noise in normal coordinates: std·√dim."""
        dim = self.manifold.dim
        return self.scale * std_per_scale(self.noise_kind, dim) * sqrt(dim)

    def noise_space_and_center(self, value: np.ndarray) -> tuple[Manifold, np.ndarray]:
        """Return Euclidean space, and the coordinates of a value at the base point.

        Parameters
        ----------
        value : array of shape point_shape
            The value of the statistic.
        """
        return self.noise_space, self._coordinates(value)

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the noisy coordinates of a certificate, with their noise distribution.

        Confidence regions follow from them.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.

        Returns
        -------
        NoisyDraw
            The noisy coordinates, the base point of the chart and the length of values.
        """
        return NoisyDraw(
            "chart",
            self.noise_law,
            self.replay_coordinates(integers),
            grid_width=2.0**-self.grid,
            base=self.base,
            max_length=_max_coordinate_length(self.statistic),
        )

    def simulate_draws(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draw noisy points about a value in floats, before post-processing.

        NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        value : array of shape point_shape
            The value of the statistic.
        size : int or tuple of int
            The number of points, or the leading shape of the result.

        Returns
        -------
        array of shape (*size, *point_shape)
            The noisy points.
        """
        coordinates = self._coordinates(value, in_public_time=False)
        return self.point_from_grid(super().simulate_draws(rng, coordinates, size))

    def point_from_grid(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the point with given coordinates in the chart at the base point.

        Parameters
        ----------
        coordinates : array of shape (..., dim)
            The drawn normal coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The points that the exponential map at the base point gives.
        """
        # Noise beyond what doubles hold becomes infinite, without a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(
                self.manifold.from_normal_coordinates(self.base, coordinates)
            )

    def _coordinates(
        self, value: np.ndarray, *, in_public_time: bool = True
    ) -> np.ndarray:
        """Return the normal coordinates of a value, clipped to a public length.

        Parameters
        ----------
        value : array of shape point_shape
            The value of the statistic.
        in_public_time : bool
            Whether the running time must not depend on the value, as for a release.

        Returns
        -------
        array of shape (dim,)
            The coordinates at the base point.
        """
        return ball_coordinates(
            self.manifold,
            self.base,
            _max_coordinate_length(self.statistic),
            value,
            timed=in_public_time,
        )


class LogGaussianMechanism(PostProcessesItself, TangentMechanism):
    """Add Gaussian noise to the normal coordinates of a statistic at a public point.

    The release is exp_o(log_o f(D) + ξ), where f(D) is the statistic, o the public base
    point, and ξ a tangent vector whose coordinates are N(0, σ²) with σ = `scale`.

    Parameters
    ----------
    manifold : Manifold
        Where the statistic lives.
    sensitivity : float
        How far the statistic can move between neighboring data sets. The caller vouches
        for it.
    scale : float
        The standard deviation σ of each coordinate.
    base : point, optional
        The public base point o; the origin by default.
    radius : float, optional
        The radius of a public ball about o that contains the statistic. It is needed
        where curvature is positive.
    chart_sensitivity : float, optional
        How far the coordinates of the statistic can move. By default this is the
        sensitivity times the Lipschitz constant of the chart.
    statistic : Statistic
        A statistic with its space and sensitivity; it is passed instead of all
        parameters but `scale`.

    Notes
    -----
    Guarantees
    - exactly μ-GDP with μ = (chart sensitivity + 2·float error of the chart)/σ;
    - the coordinates are on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal distribution.

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
        """Shrink drawn points toward the center of the ball, and project them into it.

        Shrinkage by the rule of James and Stein reduces the error from dimension 3 on.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            The drawn points, in the canonical frame (an isometry has moved the center
            of the ball to the origin).
        """
        if self._is_shrunk:
            points = shrink_points(self.manifold, self.base, points, self.scale)
        return super().post_process_points(points)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What is done to a drawn point, in order, as the certificate lists it.

        It may be shrunk toward the base point, and it is projected into the public ball
        if there is one.
        """
        if not self._is_shrunk:
            return self.statistic.post_processing
        return (PostProcessing.SHRINK_TO_CENTER, *self.statistic.post_processing)

    @property
    def _is_shrunk(self) -> bool:
        """Whether James-Stein shrinkage applies: from dimension 3 on, and in a ball."""
        return self.manifold.dim >= 3 and bool(self.statistic.post_processing)


class LogLaplaceMechanism(TangentMechanism):
    """Add Laplace noise to the normal coordinates of a statistic at a public point.

    The release is exp_o(log_o f(D) + ξ), where f(D) is the statistic, o the public base
    point, and ξ a tangent vector with the density ∝ exp(−‖ξ‖/scale). It satisfies pure
    ε-DP on every manifold.

    Parameters
    ----------
    manifold : Manifold
        Where the statistic lives.
    sensitivity : float
        How far the statistic can move between neighboring data sets. The caller vouches
        for it.
    scale : float
        The scale b of the density ∝ exp(−‖ξ‖/b).
    base : point, optional
        The public base point o; the origin by default.
    radius : float, optional
        The radius of a public ball about o that contains the statistic. It is needed
        where curvature is positive.
    chart_sensitivity : float, optional
        How far the coordinates of the statistic can move. By default this is the
        sensitivity times the Lipschitz constant of the chart.
    statistic : Statistic
        A statistic with its space and sensitivity; it is passed instead of all
        parameters but `scale`.

    Notes
    -----
    Guarantees
    - ε-DP with ε = (chart sensitivity + 2·float error of the chart)/scale, and the
      exact profile of that distribution.

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
    """Return the length to which the normal coordinates of a value are clipped.

    Parameters
    ----------
    statistic : PointStatistic
        The statistic that is to be released.

    Returns
    -------
    float
        The radius of the statistic's public ball; `MAX_CHART_LENGTH` if it has none.

    Raises
    ------
    ParameterError
        If the chart has no Lipschitz constant.
    """
    ball = statistic.value_ball
    radius = None if ball is None else ball.radius
    # This raises if the logarithm has no Lipschitz constant on the ball.
    chart_stretch(statistic.value_space, radius)
    return MAX_CHART_LENGTH if radius is None else radius
