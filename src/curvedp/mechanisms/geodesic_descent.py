"""Geodesic regression by private descent. The geodesic that fits responses to
predictors is a pair of a point p and velocities at p. Noisy gradient steps move the
pair, and their iterates are averaged. A last noisy release, as costly as all steps
together, refines it and gives a confidence region.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, nextafter, sqrt, tanh
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp.core.capabilities import LeadsToRegion, NoisyDraw, PredictsError
from curvedp.core.certificate import Certificate
from curvedp.core.chart import grid_of
from curvedp.core.fields import Count
from curvedp.core.mechanism import (
    Draw,
    MechanismInfo,
    check_guarantee,
    check_supported,
    replay_draws,
)
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.geodesic_knorm import GeodesicMechanism
from curvedp.mechanisms.vector import (
    ExactNoise,
    VectorMechanism,
    largest_pure_epsilon,
    needs_bounded_loss,
)
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy import (
    Guarantee,
    PrivacyCurve,
    PureDP,
    gaussian_profile,
    smallest_scale,
)
from curvedp.randomness import Source
from curvedp.regression.bounds import (
    MAX_PREDICTOR,
    PREDICTOR_UNIT,
    Domain,
    exp_differential_bounds,
)
from curvedp.regression.gradient import (
    clipped_direction,
    contributions,
    mean_over_persons,
)
from curvedp.regression.linearity import SENSITIVITY_FACTOR, Neighborhood
from curvedp.statistics.geodesic import (
    GeodesicLine,
    PointAndVelocities,
    RegressionData,
    project_pair,
)

# The final Newton step raises eigenvalues of the normal matrix below this number to it.
# They are 1 if predictors are spread evenly over their ranges.
_SMALLEST_EIGENVALUE = 0.5
# The largest number of warm-up steps.
_MAX_WARM_UP_STEPS = 1000
# Relative margin against the rounding of one operation.
_ROUNDING = 1e-15


class EstimateVariances(NamedTuple):
    """The noise variances of two estimates of a geodesic.

    Attributes
    ----------
    average : float
        The variance of the averaged iterates.
    final : float
        The variance of the estimate after the final Newton step.
    """

    average: float
    final: float


@dataclass(frozen=True, eq=False, kw_only=True)
class BundleDescentMechanism(
    VectorMechanism, GeodesicMechanism, PredictsError, LeadsToRegion
):
    """Release a geodesic by noisy gradient descent and one final Newton step.

    The descent (DP-RGD) is on the tangent bundle: T noisy releases of the mean clipped
    direction are made, and the last 2T/3 iterates are averaged. At the average the
    linearization of the problem (`Neighborhood`) is released: the direction once more,
    and its derivative. The Newton step and a confidence region follow from it. Noise is
    Gaussian, or Laplace for pure ε.

    Attributes
    ----------
    steps : int
        The number T of steps.
    """

    if TYPE_CHECKING:
        statistic: GeodesicLine

    steps: Count

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "tangent-bundle-descent", option="dp-rgd", reads="array"
    )

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the descent with the least noise that meets the guarantee.

        Half of the budget is for all steps together, and half for the final release.
        The noise is Laplace if the guarantee needs a bounded privacy loss (pure ε), and
        otherwise Gaussian.

        Parameters
        ----------
        statistic : GeodesicLine
            The regression that is to be released.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy.

        Returns
        -------
        BundleDescentMechanism
            The mechanism, with its noise scale and its number of steps.
        """
        check_supported(cls, statistic)
        check_guarantee(guarantee)
        assert isinstance(statistic, GeodesicLine)  # it is supported
        domain = statistic.domain
        sensitivity = statistic.sensitivity
        warm_up_steps = _warm_up_steps(statistic.value_space, domain)

        if needs_bounded_loss(guarantee):
            # The ε of Laplace steps add up, so that more steps to average over would
            # cost more accuracy than they gain.
            epsilon = largest_pure_epsilon(guarantee)
            scale = round_up(2 * warm_up_steps * sensitivity / epsilon, _ROUNDING)
            return cls(
                statistic=statistic,
                scale=scale,
                steps=warm_up_steps,
                noise_kind="laplace",
            )

        # T Gaussian releases cost as much as one with √T times the sensitivity (Dong,
        # Roth & Su 2022). The factor 2 is for the final release. The first third of the
        # steps warms up, and the iterates of the other two thirds are averaged.
        steps = 3 * warm_up_steps
        total_sensitivity = sqrt(2 * steps) * sensitivity

        def profile_at(scale: float) -> Any:
            """Return the privacy profile at a noise scale."""
            return gaussian_profile(0.0, 1, scale, total_sensitivity)

        sigma = smallest_scale(profile_at, guarantee, total_sensitivity)
        # The margin covers the rounding of the total sensitivity.
        return cls(
            statistic=statistic,
            scale=nextafter(sigma * (1 + 1e-14), inf),
            steps=steps,
            noise_kind="gaussian",
        )

    @cached_property
    def final_scale(self) -> float:
        """The noise scale of the final release, which costs as much as all steps.

        All T steps together cost as much as one release with less noise: the scale of a
        step divided by T for Laplace noise, and by √T for Gaussian noise. The
        sensitivity of the final release is `SENSITIVITY_FACTOR` times that of a step.
        """
        composition_factor = float(self.steps)
        if self.noise_kind == "gaussian":
            composition_factor = sqrt(self.steps)
        final_scale = SENSITIVITY_FACTOR * self.scale / composition_factor
        return float(round_up(final_scale, _ROUNDING))

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The guarantee of all steps and the final release together.

        The final release costs as much as all steps. The total ε (of Laplace noise), or
        the total μ² (of Gaussian noise, with the parameter μ of Gaussian differential
        privacy), is therefore twice that of the steps.
        """
        if self.noise_kind == "laplace":
            epsilon = 2 * self.steps * self.sensitivity / self.scale
            return PureDP(round_up(epsilon, _ROUNDING))
        total_sensitivity = sqrt(2 * self.steps) * self.sensitivity
        return gaussian_profile(0.0, 1, self.scale, total_sensitivity)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters in the certificate, with the norm and the unit of the noise.

        The noise is in coordinates of the point and of the velocity times the unit
        `PREDICTOR_UNIT`; their Euclidean norm is the one in which sensitivity is
        bounded.
        """
        return {
            "scale": self.scale,
            "steps": self.steps,
            "noise_kind": self.noise_kind,
            "norm": "euclidean",
            "unit": PREDICTOR_UNIT,
        }

    @cached_property
    def neighborhood(self) -> Neighborhood:
        """The layout of the final release, and where its linearization is valid.

        The final release is one vector of a descent direction and its derivatives.
        `Neighborhood` packs and unpacks it, and bounds the error of the linearization.
        """
        return Neighborhood(self.manifold, self.domain, self.final_scale)

    def predict_error(self) -> float:
        """Return the root mean square error by noise of the released geodesic.

        The release is an average of two estimates, weighted by precision (inverse
        variance), so their precisions add up.
        """
        return 1 / sqrt(sum(1 / variance for variance in self._variances))

    @property
    def _variances(self) -> EstimateVariances:
        """The noise variances of the averaged iterates and of the final estimate.

        One coordinate of Laplace noise of scale s in D dimensions has the variance
        (D + 1)s², and one of Gaussian noise s².
        """
        direction_size = self.neighborhood.direction_size
        step_factor, final_factor = 1, 1
        if self.noise_kind == "laplace":
            step_factor = direction_size + 1
            final_factor = self.neighborhood.release_size + 1
        n_averaged = self.steps * 2 / 3
        return EstimateVariances(
            average=direction_size * step_factor * self.scale**2 / n_averaged,
            final=direction_size * final_factor * self.final_scale**2,
        )

    def draw(self, data: RegressionData, source: Source) -> Draw:
        """Descend by noisy steps, then release the linearization and take a Newton step.

        The averaged iterates and the Newton step give two estimates of the geodesic.
        The released geodesic is their average, weighted by precision.

        Parameters
        ----------
        data : RegressionData
            Predictors and responses.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The released geodesic (its middle point and its velocities there), with the
            noisy integers on the public grid.
        """
        noise = ExactNoise(self.noise_kind, source)

        def add_noise(values: np.ndarray, scale: float) -> np.ndarray:
            """Flatten the values and return them with noise of this scale."""
            return np.asarray(noise(values.reshape(1, -1), np.array([scale]))[0])

        def noisy_direction(point: np.ndarray, velocities: np.ndarray) -> np.ndarray:
            """Return the noisy descent direction at a point with these velocities."""
            return add_noise(self._direction(data, point, velocities), self.scale)

        average = self._descend(noisy_direction)
        exact_linearization = self.final_values(data, *average)
        noisy_linearization = add_noise(exact_linearization, self.final_scale)
        refined = self._newton_refine(average, noisy_linearization)
        return Draw(refined, noise.integers, noise.slack)

    def _direction(
        self, data: RegressionData, point: np.ndarray, velocities: np.ndarray
    ) -> np.ndarray:
        """Return the mean clipped descent direction of the records. NOT private.

        Parameters
        ----------
        data : RegressionData
            Predictors and responses.
        point : array of shape point_shape
            The middle point p of the current geodesic.
        velocities : array of shape (predictors, *point_shape)
            The velocity of the geodesic at p for each predictor.

        Returns
        -------
        array of shape (1 + predictors, dim)
            The direction for p and for each velocity, in coordinates at p.
        """
        return clipped_direction(
            self.manifold,
            data.predictors / PREDICTOR_UNIT,
            PREDICTOR_UNIT,
            data.responses,
            self.domain.clip,
            point,
            velocities,
            data.person_index,
        )

    def final_values(
        self, data: RegressionData, point: np.ndarray, velocities: np.ndarray
    ) -> np.ndarray:
        """Return the numbers to which the final release adds noise. NOT private.

        They are the mean descent direction at the averaged geodesic, and the
        linearization of the least-squares problem there: how the direction changes if
        the geodesic moves.

        Parameters
        ----------
        data : RegressionData
            Predictors and responses.
        point : array of shape point_shape
            The middle point p of the averaged geodesic.
        velocities : array of shape (predictors, *point_shape)
            The velocity of the geodesic at p for each predictor.

        Returns
        -------
        array of shape (release_size,)
            The numbers, in the order that `Neighborhood.unpack` reads.
        """
        scaled_predictors = data.predictors / PREDICTOR_UNIT
        terms = contributions(
            self.manifold,
            scaled_predictors,
            PREDICTOR_UNIT,
            data.responses,
            point,
            velocities,
        )
        rows_of_records = self.neighborhood.linearization_rows(scaled_predictors, terms)
        direction = self._direction(data, point, velocities).ravel()
        linearization = mean_over_persons(
            rows_of_records, self.neighborhood.max_row_length, data.person_index
        )
        return np.concatenate([direction, linearization])

    def reconstruct_value(self, certificate: Certificate) -> PointAndVelocities:
        """Repeat the descent and the final step with the recorded noisy numbers.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        average, final = self._replay(certificate.release["integers"])
        return self.post_process(self._newton_refine(average, final))

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the recorded linearization of a certificate, with its noise distribution.

        A confidence region for the geodesic follows from it. Given the averaged
        geodesic at which the linearization was made, its noise is independent of the
        noise of all steps.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.

        Returns
        -------
        NoisyDraw
            The noisy numbers of the final release, and the averaged geodesic.
        """
        (point, velocities), linearization = self._replay(integers)
        return NoisyDraw(
            "line",
            self.noise_law(linearization.size, self.final_scale),
            linearization,
            grid_width=2.0 ** -grid_of(self.final_scale),
            base=np.stack([point, *velocities]),
        )

    def _replay(self, integers: Any) -> tuple[PointAndVelocities, np.ndarray]:
        """Repeat a released descent without records, from the integers of a certificate.

        Used to verify a certificate, and to compute confidence regions.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.

        Returns
        -------
        average : PointAndVelocities
            The average of the last iterates.
        noisy_linearization : array of shape (release_size,)
            The noisy numbers of the final release at that average.

        Raises
        ------
        ParameterError
            If the number of recorded draws does not match the number of steps.
        """
        next_draw = replay_draws(integers)
        if len(integers) != self.steps + 1:
            raise ParameterError(
                f"the certificate lists {len(integers)} noisy draws; {self.steps} steps "
                f"and the final release make {self.steps + 1}"
            )
        direction_size = self.neighborhood.direction_size
        release_size = self.neighborhood.release_size

        def recorded_direction(point: np.ndarray, velocities: np.ndarray) -> np.ndarray:
            """Return the next recorded direction; it already includes its noise."""
            return next_draw(np.empty(direction_size), [self.scale])

        average = self._descend(recorded_direction)
        noisy_linearization = next_draw(np.empty(release_size), [self.final_scale])
        return average, noisy_linearization

    def _newton_refine(
        self, average: PointAndVelocities, noisy_linearization: np.ndarray
    ) -> PointAndVelocities:
        """Take a Newton step from the averaged geodesic, and return the refined one.

        The full step is the inverse of the released normal matrix times the released
        direction. Small eigenvalues of the matrix are first raised above its noise.
        The geodesic before the step and the one after it are two estimates; the step is
        shortened so that it ends at their average, weighted by precision.

        Parameters
        ----------
        average : PointAndVelocities
            The average of the last iterates.
        noisy_linearization : array of shape (release_size,)
            The noisy numbers of the final release at that average.

        Returns
        -------
        PointAndVelocities
            The released geodesic, in the public domain.
        """
        direction, normal_matrix, _ = self.neighborhood.unpack(noisy_linearization)
        eigenvalues, eigenvectors = np.linalg.eigh(normal_matrix)
        # Laplace noise in D dimensions is about √D times as large per coordinate.
        variance_factor = 1
        if self.noise_kind == "laplace":
            variance_factor = self.neighborhood.release_size
        # Eigenvalues below three scales of the noise in the matrix are not known.
        noise_level = (
            3
            * self.final_scale
            * self.neighborhood.units.normal_matrix
            * sqrt(variance_factor)
        )
        smallest_eigenvalue = max(_SMALLEST_EIGENVALUE, noise_level)
        raised_eigenvalues = np.maximum(eigenvalues, smallest_eigenvalue)

        variances = self._variances
        weight = variances.average / (variances.average + variances.final)
        scaled_vectors = eigenvectors / raised_eigenvalues
        step = weight * scaled_vectors @ eigenvectors.T @ direction
        return self._apply_step(*average, step[0], step[1:] / PREDICTOR_UNIT)

    def _descend(
        self, noisy_direction: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> PointAndVelocities:
        """Make all steps from the center, and average the last two thirds of the iterates.

        An iterate is a geodesic, given by its middle point and its velocities there.
        Velocities are measured in units of the standard deviation of a predictor that
        is spread evenly over its range. In these units the curvature of the energy is
        about the same in all coordinates, so that all can have the same noise. With k
        predictors each velocity moves by 1/(2k) of its direction, so that point and
        velocities together do not overshoot.

        Parameters
        ----------
        noisy_direction : function of (point, velocities)
            Returns the noisy descent direction at a geodesic: an array of shape
            (1 + predictors)·dim with the coordinates for the point, then those for
            each velocity.

        Returns
        -------
        PointAndVelocities
            The average of the last iterates, in the public domain.
        """
        domain = self.domain
        rate = _step_rate(self.manifold, domain)
        rate_of_velocities = rate / (2 * domain.n_predictors)
        point = self.statistic.ball.center
        velocities = np.zeros((domain.n_predictors, *self.manifold.point_shape))
        iterates: list[PointAndVelocities] = []

        for step in range(self.steps):
            direction = noisy_direction(point, velocities)
            move = direction.reshape(1 + domain.n_predictors, self.manifold.dim)
            point_move = rate * move[0]
            velocity_move = rate_of_velocities * move[1:] / PREDICTOR_UNIT
            point, velocities = self._apply_step(
                point, velocities, point_move, velocity_move
            )
            if step >= self.steps // 3:
                iterates.append(PointAndVelocities(point, velocities))
        return self._average(iterates)

    def _average(self, iterates: list[PointAndVelocities]) -> PointAndVelocities:
        """Return the average of several geodesics, in the public domain.

        The points are averaged in the tangent space at the last one. The velocities are
        then transported to the mean point and averaged there.

        Parameters
        ----------
        iterates : list of PointAndVelocities
            The middle points of the geodesics, and their velocities there.
        """
        manifold = self.manifold
        last_point = iterates[-1].point
        points = np.stack([pair.point for pair in iterates])
        velocities = np.stack([pair.velocities for pair in iterates])
        mean_log = np.mean(np.asarray(manifold.log(last_point, points)), axis=0)
        middle = np.asarray(manifold.exp(last_point, mean_log))
        # One point for all velocities of a geodesic.
        base_points = points[:, np.newaxis]
        transported = manifold.transport(base_points, middle, velocities)
        mean_velocities = np.mean(np.asarray(transported), axis=0)
        return project_pair(
            manifold, self.statistic.ball, self.domain, middle, mean_velocities
        )

    def _apply_step(
        self,
        point: np.ndarray,
        velocities: np.ndarray,
        point_move: np.ndarray,
        velocity_move: np.ndarray,
    ) -> PointAndVelocities:
        """Return the geodesic after a step, projected into the public domain.

        If the step leaves the range of doubles, the geodesic is returned unchanged.

        Parameters
        ----------
        point : array of shape point_shape
            The middle point p of a geodesic.
        velocities : array of shape (predictors, *point_shape)
            The velocity of the geodesic at p for each predictor.
        point_move : array of shape (dim,)
            The move of the point, in coordinates at p.
        velocity_move : array of shape (predictors, dim)
            The change of each velocity, in coordinates at p.

        Returns
        -------
        PointAndVelocities
            The middle point and the velocities there.
        """
        unmoved = PointAndVelocities(point, velocities)
        velocity_change = self.manifold.from_coordinates(point, velocity_move)
        changed_velocities = velocities + np.asarray(velocity_change)
        with np.errstate(all="ignore"):  # these are released numbers only
            try:
                moved = self._move(
                    point, changed_velocities, self._shorten_move(point_move)
                )
            except np.linalg.LinAlgError:
                # Some decompositions raise where others give NaN.
                return unmoved
        is_finite = all(np.all(np.isfinite(array)) for array in moved)
        return moved if is_finite else unmoved

    def _shorten_move(self, point_move: np.ndarray) -> np.ndarray:
        """Return a move of the point, shortened to the diameter of the domain.

        No two points of the domain are farther apart, and `exp` may overflow for longer
        moves.

        Parameters
        ----------
        point_move : array of shape (dim,)
            The move, in coordinates.
        """
        length = float(np.linalg.norm(point_move))
        if length == 0:
            return point_move
        return point_move * min(1.0, 2 * self.domain.radius / length)

    def _move(
        self, point: np.ndarray, velocities: np.ndarray, point_move: np.ndarray
    ) -> PointAndVelocities:
        """Move a geodesic's middle point, and take its velocities along.

        Parameters
        ----------
        point : array of shape point_shape
            The middle point p of a geodesic.
        velocities : array of shape (predictors, *point_shape)
            The velocities of the geodesic at p.
        point_move : array of shape (dim,)
            The move of the point, in coordinates at p.

        Returns
        -------
        PointAndVelocities
            The moved geodesic, projected into the public domain.
        """
        manifold = self.manifold
        tangent = manifold.from_coordinates(point, point_move)
        next_point = np.asarray(manifold.exp(point, tangent))
        transported = np.asarray(manifold.transport(point, next_point, velocities))
        return project_pair(
            manifold, self.statistic.ball, self.domain, next_point, transported
        )


def _warm_up_steps(manifold: Manifold, domain: Domain) -> int:
    """Return how many steps it takes to get from the center to anywhere in the domain.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    domain : Domain
        The public domain of the middle point and the velocities.

    Returns
    -------
    int
        The number of steps, at most 1000.
    """
    n_predictors = domain.n_predictors
    rate = _step_rate(manifold, domain)
    # The farthest point from the center that a geodesic of the domain reaches.
    farthest = domain.radius + n_predictors * domain.speed * MAX_PREDICTOR
    longest_step = rate * domain.clip
    # The factor 1.5 and the 6 extra steps per predictor come from experiments.
    n_steps = ceil(1.5 * farthest / longest_step) + 6 * n_predictors
    return min(n_steps, _MAX_WARM_UP_STEPS)


def _step_rate(manifold: Manifold, domain: Domain) -> float:
    """Return the step rate: one over a bound on the second derivative of the energy.

    The energy is half the mean squared residual. Its second derivative is at most
    a²·s·coth s. Here a bounds how much a prediction moves if the middle point moves by
    1, and s = √(−λ)·c for the lower curvature bound λ < 0 and the clipping length c of
    residuals. The rate is 1 if the curvature is at least 0.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    domain : Domain
        The public domain of the middle point and the velocities.

    Returns
    -------
    float
        The fraction of a direction by which each step moves, at most 1.
    """
    # How far a prediction can be from the middle point of its geodesic.
    longest_prediction = domain.n_predictors * domain.speed * MAX_PREDICTOR
    stretch = exp_differential_bounds(manifold, longest_prediction).point
    s = sqrt(max(0.0, -manifold.curvature_bounds[0])) * domain.clip
    # The limit of s·coth s for s → 0 is 1, which doubles reach before s is this small.
    smallest_s = 1e-6
    hessian_bound = s / tanh(s) if s > smallest_s else 1.0
    return 1 / (stretch * stretch * hessian_bound)
