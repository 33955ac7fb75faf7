"""Geodesic regression by one K-norm gradient draw on the tangent bundle, for pure ε."""

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
from curvedp.mechanisms.knorm_gradient import KNormMechanism, check_width, draw_knorm
from curvedp.randomness import Source
from curvedp.regression import bounds
from curvedp.regression.bounds import MAX_PREDICTOR, PREDICTOR_UNIT, Domain
from curvedp.regression.gradient import clipped_gradient, prediction_distances
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
        return self.statistic.prepare(data)

    def post_process(self, value: PointAndVelocities) -> PointAndVelocities:
        """Project a released geodesic into the public domain, in the records' frame.

        Parameters
        ----------
        value : PointAndVelocities
            The drawn middle point and velocities.
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
        super().__post_init__()
        domain = self.domain
        bundle_dimension = 2 * self.manifold.dim
        if domain.predictors > 1:
            raise UnattainableGuarantee(
                "exact K-norm sampling takes one predictor, not "
                f"{domain.predictors}; use the method dp-rgd"
            )
        if bundle_dimension > _MAX_BUNDLE_DIMENSION:
            raise UnattainableGuarantee(
                f"exact K-norm sampling on the tangent bundle of {self.manifold!r} needs "
                f"dimension {bundle_dimension}, at most {_MAX_BUNDLE_DIMENSION} is "
                "possible; use the method dp-rgd"
            )
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
        check_width(bundle, self.scale)

    @classmethod
    def gradient_sensitivity(cls, statistic: GeodesicLine) -> float:
        """Return how far the computed gradient can move, in the endpoint norm.

        Parameters
        ----------
        statistic : GeodesicLine
            The regression that is to be released.
        """
        exact = bounds.endpoint_sensitivity(statistic.manifold, statistic.domain)
        return add_rounding(exact, statistic.domain.n)

    @property
    def parameters(self) -> dict[str, Any]:
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
            The data of the regression.

        Raises
        ------
        ParameterError
            If a person has several records, or a shape is wrong.
        """
        if len(data) > 2 and len(np.unique(data[2])) != len(data[0]):
            raise ParameterError(
                "exact K-norm sampling takes one record a person; use the method dp-rgd"
            )
        return super().prepare_data(data)

    def draw(self, data: RegressionData, source: Source) -> Draw:
        """Draw a point and a velocity with density ∝ exp(−‖gradient‖/scale).

        Parameters
        ----------
        data : RegressionData
            Predictors and responses, as `prepare_data` returns them.
        source : Source
            Where random bits come from.
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
            The responses, in the canonical frame.

        Returns
        -------
        KNormProblem
            The domain, the norm of the gradient and its Lipschitz constants.
        """
        model, unit = self._model
        mapped = self._to_model(responses)
        x = predictors[:, 0]
        domain = self.domain
        scaled = Domain(
            domain.radius * unit,
            domain.speed * unit,
            domain.clip * unit,
            domain.n,
            domain.data_radius * unit,
        )
        clips = bounds.endpoint_clips(scaled.clip, x)
        gradient = clipped_gradient(model, x, mapped, clips, scaled.data_radius)
        distances = np.asarray(model.dist(model.origin, mapped))
        lipschitz_bounds = bounds.gradient_lipschitz_bounds(model, scaled, x, distances)

        def norm(point: np.ndarray, velocity: np.ndarray) -> np.ndarray:
            """Return the norm of the gradient at each pair."""
            return bounds.endpoint_norm(*gradient(point, velocity))

        def constants(
            point: np.ndarray, velocity: np.ndarray, radius: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            """Return Lipschitz constants of the gradient norm near each pair."""
            residuals = prediction_distances(model, x, mapped, point, velocity)
            return lipschitz_bounds.within(residuals, radius)

        bundle = TangentBundleBall(model, model.origin, scaled.radius, scaled.speed)
        return KNormProblem(bundle, self.scale * unit, norm, constants, unit)

    def reconstruct_value(self, certificate: Certificate) -> PointAndVelocities:
        """Compute the released geodesic again from the coordinates in a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        model, unit = self._model
        domain = self.domain
        bundle = TangentBundleBall(
            model, model.origin, domain.radius * unit, domain.speed * unit
        )
        replay = replay_draws(certificate.release["integers"])
        shape = (1, 2, self.manifold.dim)
        coordinates = replay(np.empty(shape), [self.scale * unit])
        point, velocity = (np.asarray(part[0]) for part in bundle.points(coordinates))
        return self.post_process(self._from_model(point, velocity))

    @property
    def _model(self) -> ModelSpace:
        """The model space of this space, with the factor between their lengths."""
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

        Parameters
        ----------
        points : array of shape (..., *point_shape)
            Points of the original space.
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

        Parameters
        ----------
        point : array
            A point of the model space.
        velocity : array
            A tangent vector at that point.
        """
        manifold = self.manifold
        center = self.statistic.ball.center
        model, unit = self._model
        origin = model.origin
        point_log = model.log(origin, point)
        velocity_there = model.transport(point, origin, velocity)
        point_coordinates = np.asarray(model.to_coordinates(origin, point_log)) / unit
        velocity_coordinates = (
            np.asarray(model.to_coordinates(origin, velocity_there)) / unit
        )
        foot = np.asarray(
            manifold.exp(center, manifold.from_coordinates(center, point_coordinates))
        )
        tangent = manifold.from_coordinates(center, velocity_coordinates)
        transported_velocity = np.asarray(manifold.transport(center, foot, tangent))
        return PointAndVelocities(foot, transported_velocity[None])
