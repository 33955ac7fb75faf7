"""The geodesic that fits responses to predictors: private geodesic regression.

Releases act on the middle of the geodesic, (p, v) = (γ(½), γ'(½)): predictors in [0, 1]
are centered at ½, which makes p and v nearly independent and halves the lever of v.
Moving the released pair to γ(0) is post-processing.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import BoundsSamplingError
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import Count, Length, assign
from curvedp.core.statistic import Ball, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import canonical_center, move_from_origin
from curvedp.geometry.manifold import Manifold
from curvedp.records.tables import to_float_records
from curvedp.regression import bounds
from curvedp.regression.bounds import MAX_PREDICTOR, Domain
from curvedp.regression.jacobi import check_symmetric
from curvedp.statistics.sampling import mean_vector_length

# Predictions and records keep this share of the injectivity radius, clear of cut loci.
_INJECTIVITY_SHARE = 0.95
# In radii of curvature: beyond, volume grows exponentially and the domain does not
# widen.
_WIDEST_DOMAIN = 1.5
# In radii of curvature: farther out, distances grow like logarithms of coordinates.
_FARTHEST = 100.0


class PointAndVelocities(NamedTuple):
    """A geodesic: its middle point p, and one velocity at p for each predictor."""

    point: np.ndarray
    velocities: np.ndarray


class RegressionData(NamedTuple):
    """Prepared data of a regression.

    Attributes
    ----------
    predictors : array, shape (records, predictors)
        Centered in [−½, ½].
    responses : array, shape (records, *point_shape)
        Clipped into the ball of responses, in the canonical frame.
    person_index : array, shape (records,)
        Whose record each is, from 0 on.
    """

    predictors: np.ndarray
    responses: np.ndarray
    person_index: np.ndarray


@dataclass(frozen=True, eq=False)
class GeodesicLine(Statistic, BoundsSamplingError):
    """The geodesic x ↦ Exp(p, x·v) that fits n responses, in public terms.

    Attributes
    ----------
    manifold : Manifold
        A symmetric space.
    center, radius : point and float
        The public ball that holds the middle of the geodesic.
    speed : float
        Bounds its length over the range of a predictor.
    clip : float
        Bounds what one residual counts for.
    n : int
        The number of records, or of people.
    x_range : array, shape (predictors, 2)
        The public range of each predictor.
    """

    manifold: Manifold
    center: Any
    radius: float
    speed: Length
    clip: Length
    n: Count
    x_range: Any

    name: ClassVar[str] = "geodesic regression"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.PREDICTOR_AND_RESPONSE,
        ProtectedUnit.PERSON,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        ranges = check_ranges(self.x_range)
        least_n = 1 + len(ranges)
        assign(self, x_range=ranges, n=_validate.integer("n", self.n, least_n))
        # What reaches beyond the cut locus is refused here.
        _ = self.domain

    @property
    def value_space(self) -> Manifold:
        return self.manifold

    @property
    def public_count(self) -> int:
        return self.n

    @cached_property
    def ball(self) -> Ball:
        """The ball of the middle of the geodesic, in the canonical frame."""
        return Ball(
            np.asarray(canonical_center(self.manifold, self.center)), self.radius
        )

    @property
    def release_ball(self) -> Ball:
        """The public ball of the released point, in the frame of the records."""
        return Ball(self.center, self.radius)

    @cached_property
    def domain(self) -> Domain:
        """All public numbers of the regression."""
        return public_domain(
            self.manifold, self.radius, self.speed, self.clip, self.n, len(self.x_range)
        )

    @property
    def sensitivity(self) -> float:
        """How far the mean clipped direction can move."""
        exact = bounds.joint_sensitivity(self.domain)
        return add_rounding(exact, self.n)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.PROJECT_TO_TANGENT_BALL,)

    def sampling_error(self, failure_probability: float) -> float:
        """Bound the mean clipped direction of the records at the population's geodesic.

        Clipped directions have length at most τ and expectation 0 there
        (docs/theory/inference.md, "Regions of the population").
        """
        return self.domain.clip * mean_vector_length(self.n, failure_probability)

    def prepare(self, data: Any) -> RegressionData:
        """Return predictors and responses as mechanisms read them.

        Parameters
        ----------
        data : (predictors, responses) or (predictors, responses, person_index)
            Without the third, each record is its own person.

        Raises
        ------
        ParameterError
            For wrong shapes and types, never for what a record holds.
        """
        point_shape = self.manifold.point_shape
        n_predictors = len(self.x_range)
        predictors = to_float_records("x", data[0], (n_predictors,))
        responses = to_float_records("Y", data[1], point_shape)
        if predictors.ndim == 1:
            predictors = predictors.reshape(len(predictors), -1)
        n_rows = len(predictors)
        person_index = np.asarray(data[2]) if len(data) > 2 else np.arange(n_rows)

        has_right_shapes = (
            predictors.shape == (len(person_index), n_predictors)
            and responses.shape == (len(person_index), *point_shape)
            and len(np.unique(person_index)) == self.n
        )
        if not has_right_shapes:
            raise ParameterError(
                f"x has shape {predictors.shape} and Y {responses.shape}; the statistic "
                f"is of {self.n} records"
            )

        low, high = self.x_range.T
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            unit = (predictors - low) / (high - low)
            unit = np.where(np.isfinite(predictors), unit, MAX_PREDICTOR)
            centered = np.clip(unit, 0.0, 1.0) - MAX_PREDICTOR
        canonical = carry_records(self.manifold, self.center, responses)
        clipped = project_to_ball(
            self.manifold, self.ball.center, self.domain.data_radius, canonical
        )
        return RegressionData(centered, np.asarray(clipped), person_index)

    def pair_to_data_frame(
        self, point: np.ndarray, velocities: np.ndarray
    ) -> PointAndVelocities:
        """Move a point and velocities from the canonical frame to that of the records.

        An isometry carries geodesics to geodesics, so the velocities are logarithms of
        moved end points.

        Parameters
        ----------
        point : array of shape point_shape
            A point in the canonical frame.
        velocities : array
            Tangent vectors at the point, one for each predictor.
        """
        manifold = self.manifold
        if np.array_equal(self.ball.center, self.center):
            return PointAndVelocities(point, velocities)
        moved_point = np.asarray(move_from_origin(manifold, self.center, point))
        ends = np.asarray(manifold.exp(point, velocities))
        moved_ends = move_from_origin(manifold, self.center, ends)
        return PointAndVelocities(
            moved_point, np.asarray(manifold.log(moved_point, moved_ends))
        )


def check_ranges(x_range: Any) -> np.ndarray:
    """Return the public ranges of predictors as pairs (low, high).

    Parameters
    ----------
    x_range : pair or sequence of pairs
        What the caller passes: one pair for each predictor, or a single pair.

    Returns
    -------
    array of shape (predictors, 2)

    Raises
    ------
    ParameterError
        If it has another shape, or a low end is not below its high end.
    """
    ranges = _validate.array("x_range", x_range)
    if ranges.ndim != 2 or ranges.shape[1] != 2 or len(ranges) == 0:
        raise ParameterError(
            "x_range must be pairs of numbers (low, high), one for each predictor"
        )
    low, high = ranges.T
    is_usable = (
        np.all(np.isfinite(ranges))
        and np.all(low < high)
        and np.all(np.isfinite(high - low))
    )
    if not is_usable:
        raise ParameterError(
            "must be finite with low < high", parameter="x_range", value=ranges.tolist()
        )
    return ranges


def public_domain(
    manifold: Manifold,
    radius: float,
    speed: float,
    clip: float,
    n: int,
    n_predictors: int = 1,
) -> Domain:
    """Return where the middle of the geodesic may be, and the ball of the responses.

    Everything stays inside the cut locus. With one predictor the middle may be up to
    radius + speed/2 from the center, if the space has room for it. Then the domain
    contains every geodesic that starts in the ball, and every one whose middle is
    there. Sensitivities do not depend on this radius. In negative curvature the volume
    does, so the domain is widened only while it is small compared with the curvature.

    Parameters
    ----------
    manifold : Manifold
        Where the responses are.
    radius : float
        The radius of the public ball.
    speed : float
        The largest length of the geodesic over the range of the predictors.
    clip : float
        The length to which residuals are clipped.
    n : int
        The number of records.
    n_predictors : int
        The number of predictors.
    """
    check_symmetric(manifold)
    arm = (
        n_predictors * speed * MAX_PREDICTOR
    )  # from the middle to the farthest prediction
    room = _INJECTIVITY_SHARE * manifold.injectivity_radius - arm
    if not room >= 2 * radius:
        arm_text = "speed/2" if n_predictors == 1 else f"{n_predictors}·speed/2"
        raise ParameterError(
            f"and speed {speed!r} are too large on {manifold!r}: 2·radius + {arm_text} "
            f"must be at most {_INJECTIVITY_SHARE * manifold.injectivity_radius:.6g}, or "
            "residuals would cross the cut locus",
            parameter="radius",
            value=radius,
        )
    lower_curvature = manifold.curvature_bounds[0]
    root_curvature = sqrt(max(0.0, -lower_curvature))
    if not root_curvature * (radius + arm + clip) <= _FARTHEST:
        raise ParameterError(
            f", speed {speed!r} and clip {clip!r} reach too far on {manifold!r}: "
            f"their sum must be at most {_FARTHEST / root_curvature:g}",
            parameter="radius",
            value=radius,
        )

    middle_radius = radius
    if n_predictors == 1:
        widest = _WIDEST_DOMAIN / root_curvature if lower_curvature < 0 else inf
        wider = max(radius, min(radius + arm, widest))
        middle_radius = min(wider, room / 2)
    data_radius = min(middle_radius + arm + clip, room - middle_radius)
    return Domain(middle_radius, speed, clip, n, data_radius, n_predictors)


def add_rounding(sensitivity: float, n: int) -> float:
    """Return a sensitivity enlarged by round-off.

    1e-9 covers one record's share, and n units in the last place each of the two sums.
    """
    return nextafter(sensitivity * (1 + 1e-9 + n * (n + 100) * 2.0**-52), inf)


def project_pair(
    manifold: Manifold,
    ball: Ball,
    domain: Domain,
    point: np.ndarray,
    velocities: np.ndarray,
) -> PointAndVelocities:
    """Put a released point and its velocities back into the public domain.

    This is post-processing: it depends on released and public numbers only.

    Parameters
    ----------
    manifold : Manifold
        Where the responses are.
    ball : Ball
        The public ball.
    domain : Domain
        Where the middle of the geodesic may be, see `public_domain`.
    point, velocities : arrays
        The released pair.
    """
    projected = project_to_ball(manifold, ball.center, domain.radius, point[None])
    inside = np.asarray(projected[0])
    if np.any(inside != point):
        velocities = np.asarray(manifold.transport(point, inside, velocities))
    lengths = np.asarray(manifold.norm(inside, velocities))
    safe_lengths = np.where(lengths > 0, lengths, 1.0)
    factors = np.minimum(1.0, domain.speed / safe_lengths)
    factors = factors.reshape(-1, *[1] * len(manifold.point_shape))
    return PointAndVelocities(inside, velocities * factors)
