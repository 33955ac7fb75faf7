"""Geodesic regression by one K-norm gradient draw on the tangent bundle, for pure ε. A
*model* is a pair (p, v) of a point and a velocity at it: a point of the tangent bundle.
Models are drawn with density ∝ exp(−‖∇E‖/s), where E is half the mean squared residual.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from curvedp.core.capabilities import PredictsError
from curvedp.core.certificate import Certificate
from curvedp.core.codes import SamplingPath
from curvedp.core.mechanism import Draw, Mechanism, MechanismInfo, replay_draws
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import Euclidean, Lorentz, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.laws.knorm import LocalLipschitzBounds, TangentBundleBall
from curvedp.mechanisms.knorm_gradient import (
    KNormMechanism,
    check_domain_width,
    draw_knorm,
)
from curvedp.randomness import Source
from curvedp.regression import bounds
from curvedp.regression.bounds import MAX_PREDICTOR, PREDICTOR_UNIT, Domain
from curvedp.regression.gradient import descent_direction_function, prediction_distances
from curvedp.statistics.geodesic import (
    GeodesicLine,
    PointAndVelocities,
    RegressionData,
    add_rounding,
    project_pair,
)

# Exact K-norm sampling is possible up to this dimension of the tangent bundle.
_MAX_BUNDLE_DIMENSION = 4
# The largest radius + speed/2, in radii of curvature. In a wider domain the sampler
# would need too many cells.
_WIDEST_BUNDLE = 5.0


class GeodesicMechanism(Mechanism):
    """Base class of the mechanisms that release a geodesic regression."""

    statistic: GeodesicLine

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a geodesic regression, which this releases."""
        return isinstance(statistic, GeodesicLine)

    @property
    def manifold(self) -> Manifold:
        """The space of responses and predictions."""
        return self.statistic.manifold

    @property
    def domain(self) -> Domain:
        """The public domain of the middle point and the velocities."""
        return self.statistic.domain

    def prepare_data(self, data: Any) -> RegressionData:
        """Return predictors and responses in the form in which `draw` takes them.

        Predictors are mapped from their public ranges to [−½, ½] and clipped. Responses
        are clipped into the public ball, in the canonical frame (an isometry has moved
        the center of the ball to the origin).

        Parameters
        ----------
        data : (predictors, responses) or (predictors, responses, person_index)
            The data of the regression: one row of predictors, one response (a point of
            the manifold) and maybe the number of a person for each record.

        Raises
        ------
        ParameterError
            If a shape or the number of records is not the stated one.
        """
        return self.statistic.load_data(data)

    def post_process(self, value: PointAndVelocities) -> PointAndVelocities:
        """Project a released geodesic into the public domain, in the records' frame.

        Parameters
        ----------
        value : PointAndVelocities
            The drawn middle point and the velocities there, in the canonical frame (an
            isometry has moved the center of the public ball to the origin).

        Returns
        -------
        PointAndVelocities
            The nearest middle point and velocities that the public bounds on them
            allow, moved back to the frame of the records.
        """
        pair = project_pair(self.manifold, self.statistic.ball, self.domain, *value)
        return self.statistic.pair_to_data_frame(*pair)


class KNormProblem(NamedTuple):
    """The density of one K-norm draw on a tangent bundle.

    Attributes
    ----------
    bundle : TangentBundleBall
        The domain, in a model space of curvature −1, 0 or 1.
    scale : float
        The scale s of the density ∝ exp(−norm/s).
    norm : function of (point, velocity)
        Returns the norm of the gradient at each pair.
    constants : LocalLipschitzBounds
        Lipschitz constants of the norm, in the point and in the velocity.
    unit : float
        The factor √|κ| by which lengths are multiplied in the model, where κ is the
        curvature of the original space.
    """

    bundle: TangentBundleBall
    scale: float
    norm: Callable[[np.ndarray, np.ndarray], np.ndarray]
    constants: LocalLipschitzBounds
    unit: float


class ModelSpace(NamedTuple):
    """The space of curvature −1, 0 or 1 to which a space is similar.

    Attributes
    ----------
    manifold : Manifold
        The unit sphere, the hyperboloid or Euclidean space.
    unit : float
        A length in the model divided by the same length in the original space: √|κ|,
        where κ ≠ 0 is the curvature of the original space, or 1.
    """

    manifold: Manifold
    unit: float


@dataclass(frozen=True, eq=False, kw_only=True)
class KNGRegressionMechanism(KNormMechanism, GeodesicMechanism, PredictsError):
    """Release a geodesic as one draw of the density ∝ exp(−‖∇E(p, v)‖/s).

    Here (p, v) is a point and a velocity in a ball of the tangent bundle, and E is half
    the mean squared residual of the geodesic. The release satisfies pure ε-DP. It takes
    one predictor, and a space of dimension 1 or 2.
    """

    if TYPE_CHECKING:
        statistic: GeodesicLine

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "k-norm-gradient-regression",
        option="kng",
        reads="array",
        sampling=SamplingPath.FLOAT64,
    )

    def __post_init__(self) -> None:
        """Refuse a problem for which exact K-norm sampling is not feasible.

        The sampler covers the domain, a ball of the tangent bundle, with cells. Their
        number grows with the dimension 2·dim of the bundle and, in negative curvature,
        exponentially with the width of the domain.

        Raises
        ------
        UnattainableGuarantee
            If there is more than one predictor, the dimension is too high, or the
            domain is too wide. The message names an alternative.
        ParameterError
            If the noise scale is too small for the privacy parameter ε, or for draws in
            float64.
        """
        super().__post_init__()
        domain = self.domain
        bundle_dimension = 2 * self.manifold.dim

        # Refuse what the exact sampler cannot draw, or not in reasonable time.
        if domain.n_predictors > 1:
            raise UnattainableGuarantee(
                "exact K-norm sampling takes one predictor, not "
                f"{domain.n_predictors}; use the method dp-rgd"
            )
        if bundle_dimension > _MAX_BUNDLE_DIMENSION:
            raise UnattainableGuarantee(
                f"exact K-norm sampling on the tangent bundle of {self.manifold!r} needs "
                f"dimension {bundle_dimension}, at most {_MAX_BUNDLE_DIMENSION} is "
                "possible; use the method dp-rgd"
            )

        # Predictions are at most this far from the center of the ball.
        lower_curvature = self.manifold.curvature_bounds[0]
        width = domain.radius + domain.speed * MAX_PREDICTOR
        if sqrt(max(0.0, -lower_curvature)) * width > _WIDEST_BUNDLE:
            widest = _WIDEST_BUNDLE / sqrt(-lower_curvature)
            raise UnattainableGuarantee(
                f"radius {domain.radius:g} and speed {domain.speed:g} are too large for "
                f"exact K-norm sampling in curvature {lower_curvature:g}, where volume "
                f"grows exponentially: radius + speed/2 must be at most {widest:g}; use a "
                "smaller domain, or the method dp-rgd"
            )
        bundle = TangentBundleBall(
            self.manifold, self.statistic.ball.center, domain.radius, domain.speed
        )
        check_domain_width(bundle, self.scale)

    @classmethod
    def gradient_sensitivity(cls, statistic: GeodesicLine) -> float:
        """Return how far the computed gradient can move if one record is replaced.

        The gradient is that of half the mean squared clipped residual of the geodesic
        (p, v). With P its part in p and Q its part in v, divided by `PREDICTOR_UNIT`,
        it is measured in the endpoint norm ½(|P + Q| + |P − Q|).

        Parameters
        ----------
        statistic : GeodesicLine
            The regression that is to be released.

        Returns
        -------
        float
            The bound over all geodesics of the public domain, with rounding errors.
        """
        exact = bounds.endpoint_sensitivity(statistic.manifold, statistic.domain)
        return add_rounding(exact, statistic.domain.n)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters in the certificate, with the norm and unit of the gradient."""
        return {**super().parameters, "norm": "endpoint", "unit": PREDICTOR_UNIT}

    def predict_error(self) -> float:
        """Return the root mean square length of the noise in the gradient.

        The gradient has D = 2·dim coordinates: those for the point, and those for the
        velocity divided by `PREDICTOR_UNIT`. A vector y of the density ∝ exp(−|y|/s)
        has E|y|² = D(D + 1)s².
        """
        size = 2 * self.manifold.dim
        return sqrt(size * (size + 1)) * float(self.scale)

    def prepare_data(self, data: Any) -> RegressionData:
        """Return predictors and responses, after checking that each person has one record.

        The sensitivity in the endpoint norm is proved for single records, not for
        averages over the records of a person.

        Parameters
        ----------
        data : (predictors, responses) or (predictors, responses, person_index)
            The data of the regression: one row of predictors, one response (a point of
            the manifold) and maybe the number of a person for each record.

        Raises
        ------
        ParameterError
            If a person has several records, or a shape is wrong.
        """
        has_persons = len(data) > 2
        if has_persons and len(np.unique(data[2])) != len(data[0]):
            raise ParameterError(
                "exact K-norm sampling takes one record a person; use the method dp-rgd"
            )
        return super().prepare_data(data)

    def draw(self, data: RegressionData, source: Source) -> Draw:
        """Draw a point and a velocity with density ∝ exp(−‖gradient‖/scale).

        The gradient is that of half the mean squared residual of the geodesic through
        the point with this velocity.

        Parameters
        ----------
        data : RegressionData
            The centered predictors, and the responses in the canonical frame (an
            isometry has moved the center of the ball to the origin).
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The drawn geodesic, with its coordinates as integers on the public grid.
        """
        problem = self.build_problem(data.predictors, data.responses)
        knorm_draw = draw_knorm(
            problem.bundle, problem.scale, problem.norm, problem.constants, source
        )
        return Draw(self._from_model(*knorm_draw.points), [knorm_draw.integers], None)

    def build_problem(
        self, predictors: np.ndarray, responses: np.ndarray
    ) -> KNormProblem:
        """Return the density of the draw, in a model space of curvature −1, 0 or 1.

        If lengths are multiplied by √|κ|, a ball of a space of constant curvature κ
        becomes a ball of the unit sphere, of the hyperboloid or of ℝ^d about the
        origin. Gradients are multiplied by the same factor.

        Parameters
        ----------
        predictors : array of shape (n, 1)
            The centered predictors.
        responses : array of shape (n, *point_shape)
            The responses, in the canonical frame (an isometry has moved the center of
            the ball to the origin).

        Returns
        -------
        KNormProblem
            The domain, the norm of the gradient and its Lipschitz constants.
        """
        model, unit = self._model
        model_responses = self._to_model(responses)
        predictor = predictors[:, 0]
        model_domain = _scale_lengths(self.domain, unit)
        clips = bounds.endpoint_clips(model_domain.clip, predictor)
        descent_directions = descent_direction_function(
            model, predictor, model_responses, clips, model_domain.data_radius
        )
        distances = np.asarray(model.dist(model.origin, model_responses))
        lipschitz_bounds = bounds.gradient_lipschitz_bounds(
            model, model_domain, predictor, distances
        )

        def norm(point: np.ndarray, velocity: np.ndarray) -> np.ndarray:
            """Return the norm of the gradient at each point with its velocity."""
            return bounds.endpoint_norm(*descent_directions(point, velocity))

        def constants(
            point: np.ndarray, velocity: np.ndarray, radius: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            """Return Lipschitz constants of the norm within a radius of each point.

            Parameters
            ----------
            point : array of shape (k, *model_point_shape)
                Points of the model space.
            velocity : array of shape (k, *model_point_shape)
                A velocity at each of them.
            radius : array of shape (k,)
                How far from each pair the constants must hold.

            Returns
            -------
            two arrays of shape (k,)
                The constants in the point and in the velocity.
            """
            residuals = prediction_distances(
                model, predictor, model_responses, point, velocity
            )
            return lipschitz_bounds.within(residuals, radius)

        bundle = TangentBundleBall(
            model, model.origin, model_domain.radius, model_domain.speed
        )
        return KNormProblem(bundle, self.scale * unit, norm, constants, unit)

    def reconstruct_value(self, certificate: Certificate) -> PointAndVelocities:
        """Compute the released geodesic again from the coordinates in a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release, which lists the drawn coordinates as integers
            on the public grid.

        Returns
        -------
        PointAndVelocities
            The released middle point and velocity, in the frame of the records.
        """
        model, unit = self._model
        domain = self.domain
        bundle = TangentBundleBall(
            model, model.origin, domain.radius * unit, domain.speed * unit
        )
        next_draw = replay_draws(certificate.release["integers"])
        shape = (1, 2, self.manifold.dim)  # one draw, of a point and a velocity
        coordinates = next_draw(np.empty(shape), [self.scale * unit])
        points, velocities = bundle.points(coordinates)
        geodesic = self._from_model(np.asarray(points[0]), np.asarray(velocities[0]))
        return self.post_process(geodesic)

    @property
    def _model(self) -> ModelSpace:
        """The unit sphere, the hyperboloid or ℝ^d, with the factor between the lengths.

        A length of this space times √|κ| is the length in the model, where κ ≠ 0 is the
        curvature. For κ = 0 the factor is 1.
        """
        curvature = self.manifold.constant_curvature
        assert curvature is not None  # TangentBundleBall refuses other spaces
        dim = self.manifold.dim
        if curvature == 0:
            return ModelSpace(Euclidean(dim), 1.0)
        unit = sqrt(abs(curvature))
        if curvature > 0:
            return ModelSpace(Sphere(dim), unit)
        return ModelSpace(Lorentz(dim), unit)

    def _to_model(self, points: np.ndarray) -> np.ndarray:
        """Map points to the model space; the center of the ball goes to its origin.

        The map keeps normal coordinates, up to the factor between the lengths.

        Parameters
        ----------
        points : array of shape (..., *point_shape)
            Points of the original space.

        Returns
        -------
        array of shape (..., *model_point_shape)
            Points of the model space: the unit sphere, the hyperboloid or ℝ^d.
        """
        manifold = self.manifold
        center = self.statistic.ball.center
        model, unit = self._model
        logs = manifold.log(center, points)
        coordinates = unit * np.asarray(manifold.to_coordinates(center, logs))
        tangents = model.from_coordinates(model.origin, coordinates)
        return np.asarray(model.exp(model.origin, tangents))

    def _from_model(
        self, point: np.ndarray, velocity: np.ndarray
    ) -> PointAndVelocities:
        """Map a point and a velocity of the model space back to the original space.

        The geodesic is drawn in a space of curvature −1, 0 or 1, where lengths are in
        other units.

        Parameters
        ----------
        point : array
            A point of the model space (the unit sphere, the hyperboloid or ℝ^d).
        velocity : array
            A tangent vector at that point.

        Returns
        -------
        PointAndVelocities
            The point and the one velocity at it, in the original space.
        """
        manifold = self.manifold
        center = self.statistic.ball.center
        model, unit = self._model
        origin = model.origin

        # Coordinates at the origin of the model are coordinates at the center, times
        # the unit. The velocity is transported to the origin and from the center.
        point_log = model.log(origin, point)
        velocity_at_origin = model.transport(point, origin, velocity)
        point_coordinates = np.asarray(model.to_coordinates(origin, point_log)) / unit
        velocity_coordinates = (
            np.asarray(model.to_coordinates(origin, velocity_at_origin)) / unit
        )

        log_at_center = manifold.from_coordinates(center, point_coordinates)
        velocity_at_center = manifold.from_coordinates(center, velocity_coordinates)
        foot = np.asarray(manifold.exp(center, log_at_center))
        velocity_at_foot = np.asarray(
            manifold.transport(center, foot, velocity_at_center)
        )
        return PointAndVelocities(foot, velocity_at_foot[None])


def _scale_lengths(domain: Domain, unit: float) -> Domain:
    """Return a domain with all lengths multiplied by a factor.

    Parameters
    ----------
    domain : Domain
        The domain of a regression with one predictor.
    unit : float
        The factor.
    """
    return Domain(
        domain.radius * unit,
        domain.speed * unit,
        domain.clip * unit,
        domain.n,
        domain.data_radius * unit,
    )
