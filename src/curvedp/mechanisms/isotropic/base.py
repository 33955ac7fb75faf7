"""Base classes of mechanisms that add Gaussian or Laplace noise to one point.
A `ValueMechanism` takes the value of a statistic and adds noise to it once. The noise
of an `IsotropicMechanism` has a density that depends only on the distance from the
value; it is drawn on the manifold, or in a chart.
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

# A value is clipped to this distance from the origin. The number is so large that only
# infinite or overflowing values are changed.
_UNBOUNDED_RADIUS = 1e300


def noise_law_of(
    kind: NoiseKind, space: Manifold, scale: float
) -> RiemannianGaussian | RiemannianLaplace:
    """Return the Riemannian Gaussian or Laplace distribution on a space.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The kind of noise.
    space : Manifold
        Where the noise is drawn.
    scale : float
        The scale σ: the density at distance d from the center is proportional to
        exp(−d²/2σ²) for "gaussian", and to exp(−d/σ) for "laplace".

    Returns
    -------
    RiemannianGaussian or RiemannianLaplace
        The distribution, which can compute privacy profiles and draw in floats.
    """
    if kind == "laplace":
        return RiemannianLaplace(space, scale)
    return RiemannianGaussian(space, scale)


class NoiseDescription(NamedTuple):
    """The noise of a mechanism, as certified bounds on the privacy loss need it.

    Attributes
    ----------
    kind : {"gaussian", "laplace"}
        The kind of noise.
    space : Manifold
        Where the noise is drawn: the manifold, or Euclidean space for noise in a chart.
    scale : float
        The scale of the noise distribution.
    sensitivity : float
        How far the computed value can move between neighboring data sets. It includes
        float errors.
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
        """Return whether a statistic is a point of a manifold, as this class needs."""
        return isinstance(statistic, PointStatistic)

    @property
    @abstractmethod
    def noise(self) -> NoiseDescription:
        """The noise, for the certified bounds of `verify`."""

    @abstractmethod
    def point_from_grid(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the point of the manifold that drawn grid coordinates stand for.

        Parameters
        ----------
        coordinates : array of shape grid_shape
            The drawn coordinates, which are multiples of 2^-grid.
        """

    @abstractmethod
    def with_scaled_noise(self, factor: float) -> Self:
        """Return the same mechanism with its noise scale multiplied by a factor.

        Audits test themselves with it: they must reject a mechanism that adds less
        noise than it claims.

        Parameters
        ----------
        factor : float
            The factor; below 1 the mechanism adds too little noise.
        """

    @abstractmethod
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
        """

    @property
    def manifold(self) -> Manifold:
        """Where the released value lives."""
        return self.statistic.value_space

    @property
    def grid(self) -> int:
        """The exponent k of the grid: drawn coordinates are multiples of 2^-k."""
        return grid_of(self.noise.scale)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The shape of the array of drawn coordinates."""
        return self.manifold.point_shape

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the value of the statistic as one valid point of the manifold.

        An array of the right shape that is no point (NaN, infinite) becomes the origin,
        because a private value must never cause an exception.

        Parameters
        ----------
        data : array-like of shape point_shape
            The value of the statistic on the private data.

        Returns
        -------
        array of shape point_shape
            The value. NOT private.

        Raises
        ------
        ParameterError
            If the value has the wrong shape or type.
        """
        value = _validate.array("value", data)
        if value.shape != self.manifold.point_shape:
            raise ParameterError(
                f"value has shape {value.shape}; one point has shape "
                f"{self.manifold.point_shape}"
            )
        # A ball of this radius contains all points, so that valid points do not change.
        points = project_to_ball(
            self.manifold, self.manifold.origin, _UNBOUNDED_RADIUS, value[None]
        )
        return np.asarray(points[0])

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Project a drawn point into the public ball, and move it to the records' frame.

        Parameters
        ----------
        value : array of shape point_shape
            The drawn point, in the canonical frame (an isometry has moved the center of
            the statistic's ball to the origin).

        Returns
        -------
        array of shape point_shape
            The released point, in the frame of the records. It is the base point of the
            chart if the drawn point overflowed.
        """
        points = self.post_process_points(value[None])
        point = np.asarray(self.statistic.to_data_frame(points)[0])
        if is_point(self.manifold, point):
            return point
        base = np.asarray(self.statistic.chart_base)[None]
        return np.asarray(self.statistic.to_data_frame(base)[0])

    def check_releasable(self) -> None:
        """Refuse noise that has no known guarantee, or is too large for doubles.

        If the statistic has a public ball, drawn points are projected into it. If it
        has none, they are released as drawn; then at least half of the draws must be
        points that doubles can represent. Only public numbers are read: the noise scale
        and the space.

        Raises
        ------
        ParameterError
            If the noise is refused.
        """
        _ = self.privacy_profile  # refuses where none can be computed
        if self.statistic.post_processing:
            return
        for factor in self.manifold.factors:
            max_distance = factor.float_set.max_distance
            if max_distance < inf and not self._is_representable(factor):
                raise ParameterError(
                    f"{self.info.name} of scale {self.noise.scale:.4g}: most draws are "
                    f"farther than {max_distance:g}, beyond what doubles hold on "
                    f"{factor!r}; use less noise, or a statistic in a public ball"
                )

    def _is_representable(self, factor: Manifold) -> bool:
        """Return whether doubles can represent at least half of the draws on a factor.

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
            # The Laplace law of a chart is not a product over the factors. The length
            # of a factor's share of a draw is estimated instead.
            dim = noise.space.dim
            typical_length = noise.scale * (dim + 1) * sqrt(factor.dim / dim)
            return typical_length <= max_distance
        noise_space = Euclidean(factor.dim) if is_in_chart else factor
        law = noise_law_of(noise.kind, noise_space, noise.scale)
        return float(law.radial_cdf(max_distance)) >= 0.5

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        """Project drawn points into the public ball of the statistic, if it has one.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            The drawn points, in the canonical frame (an isometry has moved the center
            of the ball to the origin).

        Returns
        -------
        array of shape (k, *point_shape)
            The projected points.
        """
        return np.asarray(self.statistic.project(points))

    def replay_coordinates(self, integers: Any) -> np.ndarray:
        """Return the drawn coordinates that a certificate lists as integers.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.
        """
        return replay_draws(integers)(np.empty(self.grid_shape), [self.noise.scale])

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Compute the released point again from the noisy integers in a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        coordinates = self.replay_coordinates(certificate.release["integers"])
        return np.asarray(self.post_process(self.point_from_grid(coordinates)))

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the drawn point of a certificate, with its noise distribution.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.
        """
        law = noise_law_of(self.noise.kind, self.noise.space, self.noise.scale)
        point = self.point_from_grid(self.replay_coordinates(integers))
        return NoisyDraw("point", law, point, grid_width=2.0**-self.grid)


class IsotropicMechanism(ValueMechanism):
    """A mechanism whose noise density depends only on the distance from the value.

    Subclasses are dataclasses with one field, the noise scale. Where a manifold and a
    sensitivity are stated, a guarantee may stand for the scale: it is calibrated then.
    """

    noise_kind: ClassVar[NoiseKind]
    # The name of the scale in certificates and as a parameter.
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
        """State the statistic and the scale of the noise.

        Parameters
        ----------
        manifold : Manifold, optional
            Where the value lives; with `sensitivity` it stands for a statistic that the
            caller computes.
        sensitivity : float, optional
            How far that value can move between neighboring data sets.
        scale : float or Guarantee
            The noise scale; or a guarantee, from which the scale is calibrated (only if
            the manifold and the sensitivity are stated).
        statistic : Statistic, optional
            A statistic of the library, instead of `manifold` and `sensitivity`.
        """
        if statistic is None:
            statistic = ExternalValue(manifold, sensitivity)
            if isinstance(scale, Guarantee):
                scale = type(self).calibrated(manifold, sensitivity, scale).scale
        checked_scale = check_length(self.scale_name, scale)
        assign(self, statistic=statistic, **{self.scale_name: checked_scale})
        self.__post_init__()

    @classmethod
    def calibrated(
        cls, manifold: Manifold, sensitivity: float, guarantee: Guarantee
    ) -> Self:
        """Return the mechanism with the least noise, for a sensitivity that is stated.

        Parameters
        ----------
        manifold : Manifold
            Where the value lives.
        sensitivity : float
            How far the value can move between neighboring data sets. The caller vouches
            for it.
        guarantee : Guarantee
            What the release must satisfy.

        Raises
        ------
        UnattainableGuarantee
            If no amount of noise meets the guarantee. On negatively curved space some
            noise distributions cannot get below a certain privacy loss.
        """
        return cls.calibrate(ExternalValue(manifold, sensitivity), guarantee)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets a guarantee.

        The noise scale is the smallest one whose exact privacy profile meets it.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy.

        Returns
        -------
        IsotropicMechanism
            The mechanism with that scale.
        """
        check_supported(cls, statistic)
        check_guarantee(guarantee)
        sensitivity = cls.calibration_sensitivity(statistic)
        scale_guess = sensitivity
        if cls.noise_kind == "laplace":
            scale_guess = sensitivity / sqrt(statistic.value_space.dim)
        profile_at = cls.profile_by_scale(statistic.value_space, sensitivity)
        scale = smallest_scale(profile_at, guarantee, scale_guess)
        return mechanism_from_parameters(cls, statistic, {cls.scale_name: scale})

    @classmethod
    def calibration_sensitivity(cls, statistic: Any) -> float:
        """Return the sensitivity to which the noise is calibrated, with float errors.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        """
        return float(statistic.sensitivity)

    @classmethod
    def profile_by_scale(
        cls, space: Manifold, sensitivity: float
    ) -> Callable[[float], PrivacyProfile]:
        """Return a function that maps a noise scale to the exact privacy profile.

        Parameters
        ----------
        space : Manifold
            Where the noise is drawn.
        sensitivity : float
            How far the value can move if one record is replaced.

        Returns
        -------
        function of a noise scale
            Returns the profile: δ as a function of ε.
        """

        def profile_at(scale: float) -> PrivacyProfile:
            """Return the exact privacy profile of noise of this scale."""
            return noise_law_of(cls.noise_kind, space, scale).profile(sensitivity)

        return profile_at

    def with_scaled_noise(self, factor: float) -> Self:
        """Return the same mechanism with its noise scale multiplied by a factor.

        Parameters
        ----------
        factor : float
            The factor. Audits use one below 1, to make a mechanism that must fail.
        """
        scaled = {**self.parameters, self.scale_name: factor * self.scale}
        return mechanism_from_parameters(type(self), self.statistic, scaled)

    @property
    def noise_space(self) -> Manifold:
        """The space in which the noise is drawn."""
        return self.manifold

    @property
    def noise(self) -> NoiseDescription:
        """The kind, space, scale and sensitivity of the noise.

        `verify` computes certified bounds on the privacy loss from them, and audits
        choose the values that they attack.
        """
        return NoiseDescription(
            self.noise_kind,
            self.noise_space,
            self.scale,
            self.calibration_sensitivity(self.statistic),
        )

    @cached_property
    def noise_law(self) -> RiemannianGaussian | RiemannianLaplace:
        """The distribution of the noise."""
        return noise_law_of(self.noise_kind, self.noise_space, self.scale)

    @cached_property
    def privacy_profile(self) -> PrivacyProfile:
        """The exact privacy profile of the release: δ as a function of ε."""
        sensitivity = self.calibration_sensitivity(self.statistic)
        return self.profile_by_scale(self.manifold, sensitivity)(self.scale)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Draw exact noise about the value of the statistic.

        The draw is a vector of integers on a public grid. The nearest point of the
        manifold is computed from it, which is post-processing.

        Parameters
        ----------
        data : array of shape point_shape
            The value of the statistic, a point of the manifold.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The noisy point, with its integers on the public grid and a bound on the
            total variation distance of the sampler from the ideal distribution.
        """
        space, center = self.noise_space_and_center(data)
        point_draw = exact_draw(
            self.noise_kind, space, self.scale, center, source=source, grid=self.grid
        )
        point = self.point_from_grid(point_draw.value)
        return Draw(point, [point_draw.integers], point_draw.tau)

    def noise_space_and_center(self, value: np.ndarray) -> tuple[Manifold, np.ndarray]:
        """Return the space in which the noise is drawn, and the center of the noise.

        Parameters
        ----------
        value : array of shape point_shape
            The value of the statistic.

        Returns
        -------
        space : Manifold
            Usually the statistic's own space. It is Euclidean space if the noise is
            drawn in flat coordinates and the statistic has a public ball.
        center : array
            The value; or its coordinates, clipped to the public ball.
        """
        ball = self.statistic.value_ball
        if ball is None or not is_drawn_in_coordinates(self.noise_space, ball):
            return self.noise_space, value
        coordinates = ball_coordinates(
            self.noise_space, ball.center, ball.radius, value
        )
        return Euclidean(self.noise_space.dim), coordinates

    def point_from_grid(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the point of the manifold nearest to drawn ambient coordinates.

        Parameters
        ----------
        coordinates : array of shape grid_shape
            The drawn coordinates, which are multiples of the grid width.
        """
        return np.asarray(point_from_grid(self.manifold, coordinates))

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: Any
    ) -> np.ndarray:
        """Simulate releases in floats, to predict their error. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        data : array of shape point_shape
            The value of the statistic, on a public population.
        size : int or tuple of int
            The number of releases, or the leading shape of the result.

        Returns
        -------
        array of shape (*size, *point_shape)
            Noisy points, projected into the public ball of the statistic.
        """
        return self._post_process_batch(self.simulate_draws(rng, data, size))

    def simulate_draws(
        self, rng: np.random.Generator, value: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draw points about a value in floats, before they are projected. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        value : array of shape point_shape
            The value of the statistic, at the center of the noise.
        size : int or tuple of int
            The number of points, or the leading shape of the result.
        """
        return np.asarray(self.noise_law.sample(rng, value, size))

    def _post_process_batch(self, points: np.ndarray) -> np.ndarray:
        """Project drawn points of shape (*size, *point_shape) into the public ball."""
        flat = points.reshape(-1, *self.manifold.point_shape)
        return self.post_process_points(flat).reshape(points.shape)
