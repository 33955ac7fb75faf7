"""The geodesic that fits responses to predictors: private geodesic regression.
A geodesic γ over the predictors x in [0, 1] is described by its middle point p = γ(½)
and its velocity v = γ'(½) there. With predictors centered at ½ the errors of p and v
are nearly independent, and an error of v moves no prediction by more than half of it.
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

# No distance of a prediction and a record exceeds this fraction of the injectivity
# radius, so that logarithms stay away from cut loci.
_INJECTIVITY_SHARE = 0.95
# The domain of the middle point is not widened beyond this radius, in radii of
# curvature, because volume grows exponentially beyond it.
_WIDEST_DOMAIN = 1.5
# The largest distance from the center, in radii of curvature, at which float64 is
# accurate: distances there grow only like logarithms of coordinates.
_FARTHEST = 100.0


class PointAndVelocities(NamedTuple):
    """A geodesic: its middle point p, and one velocity at p for each predictor.

    Attributes
    ----------
    point : array of shape point_shape
        The middle point p.
    velocities : array of shape (predictors, *point_shape)
        Tangent vectors at p.
    """

    point: np.ndarray
    velocities: np.ndarray


class RegressionData(NamedTuple):
    """Prepared data of a regression.

    Attributes
    ----------
    predictors : array of shape (records, predictors)
        The predictors, mapped from their ranges to [−½, ½].
    responses : array of shape (records, *point_shape)
        The responses, clipped into a public ball, in the canonical frame.
    person_index : array of int, shape (records,)
        The index of the person to whom each record belongs.
    """

    predictors: np.ndarray
    responses: np.ndarray
    person_index: np.ndarray


@dataclass(frozen=True, eq=False)
class GeodesicLine(Statistic, BoundsSamplingError):
    """The geodesic x ↦ Exp(p, x·v) that fits the responses of n records.

    Attributes
    ----------
    manifold : Manifold
        The space of the responses, a symmetric space.
    center : point
        The center of the public ball that contains the middle point p.
    radius : float
        The radius of that ball.
    speed : float
        The largest length of the geodesic over the range of one predictor.
    clip : float
        The length to which residuals are clipped.
    n : int
        The number of records, or of people if records are grouped by person.
    x_range : array of shape (predictors, 2)
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
        """Check the fields and that the public domain fits into the manifold.

        Raises
        ------
        ParameterError
            If a range is empty, there are fewer records than unknowns, or residuals
            could cross a cut locus.
        """
        super().__post_init__()
        ranges = check_ranges(self.x_range)
        least_n = 1 + len(ranges)
        assign(self, x_range=ranges, n=_validate.integer("n", self.n, least_n))
        # A domain that reaches beyond the cut locus is refused here.
        _ = self.domain

    @property
    def value_space(self) -> Manifold:
        """The space of the responses."""
        return self.manifold

    @property
    def public_count(self) -> int:
        """The number n of records or people, which is public."""
        return self.n

    @cached_property
    def ball(self) -> Ball:
        """The public ball of the middle point, in the canonical frame.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.
        """
        return Ball(
            np.asarray(canonical_center(self.manifold, self.center)), self.radius
        )

    @property
    def release_ball(self) -> Ball:
        """The public ball of the released point, in the frame of the records."""
        return Ball(self.center, self.radius)

    @cached_property
    def domain(self) -> Domain:
        """The public domain of the middle point and the velocities."""
        return public_domain(
            self.manifold, self.radius, self.speed, self.clip, self.n, len(self.x_range)
        )

    @property
    def sensitivity(self) -> float:
        """The largest move of the mean clipped direction if one record is replaced.

        The direction is the gradient of the fit in point and velocities together, which
        noisy descent releases in each step. `joint_sensitivity` bounds it in exact
        arithmetic, and the rounding of the computed mean is added.
        """
        exact = bounds.joint_sensitivity(self.domain)
        return add_rounding(exact, self.n)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """Point and velocities are projected onto their public bounds."""
        return (PostProcessing.PROJECT_TO_TANGENT_BALL,)

    def sampling_error(self, failure_probability: float) -> float:
        """Bound the mean clipped direction of the records at the population's geodesic.

        The direction of a record has length at most `clip`, and its expectation is 0 at
        the population's geodesic (docs/theory/inference.md, "Regions of the
        population").

        Parameters
        ----------
        failure_probability : float
            The probability that the bound may fail.

        Returns
        -------
        float
            The bound on the length of the mean direction.
        """
        return self.domain.clip * mean_vector_length(self.n, failure_probability)

    def load_data(self, data: Any) -> RegressionData:
        """Return predictors and responses in the form that mechanisms read.

        Predictors are mapped to [−½, ½] and clipped, and responses are clipped into a
        public ball.

        Parameters
        ----------
        data : (predictors, responses) or (predictors, responses, person_index)
            Predictors have the shape (records, predictors), responses (records,
            *point_shape), and person indices (records,). Without indices each record
            belongs to a person of its own.

        Returns
        -------
        RegressionData
            The prepared arrays.

        Raises
        ------
        ParameterError
            If a shape or type is wrong. The contents of a record never raise.
        """
        point_shape = self.manifold.point_shape
        n_predictors = len(self.x_range)
        predictors = to_float_records("x", data[0], (n_predictors,))
        responses = to_float_records("Y", data[1], point_shape)
        if predictors.ndim == 1:
            predictors = predictors.reshape(len(predictors), -1)
        has_person_index = len(data) > 2
        person_index = np.arange(len(predictors))
        if has_person_index:
            person_index = np.asarray(data[2])

        n_rows = len(person_index)
        has_right_shapes = (
            predictors.shape == (n_rows, n_predictors)
            and responses.shape == (n_rows, *point_shape)
            and len(np.unique(person_index)) == self.n
        )
        if not has_right_shapes:
            raise ParameterError(
                f"x has shape {predictors.shape} and Y {responses.shape}; the statistic "
                f"is of {self.n} records"
            )

        canonical = carry_records(self.manifold, self.center, responses)
        clipped = project_to_ball(
            self.manifold, self.ball.center, self.domain.data_radius, canonical
        )
        centered = self._center_predictors(predictors)
        return RegressionData(centered, np.asarray(clipped), person_index)

    def _center_predictors(self, predictors: np.ndarray) -> np.ndarray:
        """Map the public range of each predictor to [−½, ½], and clip to it.

        A predictor that is not finite becomes 0, the middle of its range.

        Parameters
        ----------
        predictors : array of shape (records, predictors)
            The predictors. No content of a record raises or warns.
        """
        low, high = self.x_range.T
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            share_of_range = (predictors - low) / (high - low)
            share_of_range = np.where(
                np.isfinite(predictors), share_of_range, MAX_PREDICTOR
            )
            return np.asarray(np.clip(share_of_range, 0.0, 1.0) - MAX_PREDICTOR)

    def pair_to_data_frame(
        self, point: np.ndarray, velocities: np.ndarray
    ) -> PointAndVelocities:
        """Move a point and velocities from the canonical frame to the records' frame.

        The frames differ by an isometry, which maps geodesics to geodesics. So the end
        points of the geodesics are moved, and the velocities are logarithms of them.

        Parameters
        ----------
        point : array of shape point_shape
            A point in the canonical frame.
        velocities : array of shape (predictors, *point_shape)
            Tangent vectors at the point, one for each predictor.

        Returns
        -------
        PointAndVelocities
            The point and the velocities in the frame of the records.
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
    """Return the public ranges of predictors as an array, after checking them.

    Predictors are clipped to these ranges and mapped to [−½, ½] before anything is
    computed.

    Parameters
    ----------
    x_range : sequence of pairs
        One pair (low, high) for each predictor.

    Returns
    -------
    array of shape (predictors, 2)
        The lower and the upper end of each range.

    Raises
    ------
    ParameterError
        If it has another shape, or a lower end is not below its upper end.
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
    """Return the public domain of a geodesic's middle point and velocities.

    In the domain no residual crosses a cut locus. With one predictor the middle point
    may be up to radius + speed/2 from the center, if the space has room for it; then
    the domain contains every geodesic that starts in the ball. Sensitivities do not
    depend on this radius. In negative curvature the volume grows exponentially with it,
    so there the domain is widened to at most 1.5 radii of curvature.

    Parameters
    ----------
    manifold : Manifold
        The space of the responses.
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

    Returns
    -------
    Domain
        The radius for the middle point, the bounds, and the radius of the ball into
        which responses are clipped.

    Raises
    ------
    ParameterError
        If the radius and the speed are too large for the space.
    """
    check_symmetric(manifold)
    # The distance from the middle point to the farthest prediction.
    arm = n_predictors * speed * MAX_PREDICTOR
    farthest = _INJECTIVITY_SHARE * manifold.injectivity_radius
    room = farthest - arm
    if not room >= 2 * radius:
        arm_text = "speed/2" if n_predictors == 1 else f"{n_predictors}·speed/2"
        raise ParameterError(
            f"and speed {speed!r} are too large on {manifold!r}: 2·radius + {arm_text} "
            f"must be at most {farthest:.6g}, or residuals would cross the cut locus",
            parameter="radius",
            value=radius,
        )
    root_curvature = sqrt(max(0.0, -manifold.curvature_bounds[0]))
    if not root_curvature * (radius + arm + clip) <= _FARTHEST:
        raise ParameterError(
            f", speed {speed!r} and clip {clip!r} reach too far on {manifold!r}: "
            f"their sum must be at most {_FARTHEST / root_curvature:g}",
            parameter="radius",
            value=radius,
        )

    middle_radius = radius
    if n_predictors == 1:
        widest = _WIDEST_DOMAIN / root_curvature if root_curvature > 0 else inf
        wider = max(radius, min(radius + arm, widest))
        middle_radius = min(wider, room / 2)
    data_radius = min(middle_radius + arm + clip, room - middle_radius)
    return Domain(middle_radius, speed, clip, n, data_radius, n_predictors)


def add_rounding(sensitivity: float, n: int) -> float:
    """Return a sensitivity plus a bound on the rounding errors of a computed mean.

    The relative margin 1e-9 covers the terms of one record. The second term covers n
    units in the last place for each of the two sums that are compared.

    Parameters
    ----------
    sensitivity : float
        The bound on the move of the mean in exact arithmetic.
    n : int
        The number of records.

    Returns
    -------
    float
        A slightly larger bound that holds for means computed in doubles.
    """
    return nextafter(sensitivity * (1 + 1e-9 + n * (n + 100) * 2.0**-52), inf)


def project_pair(
    manifold: Manifold,
    ball: Ball,
    domain: Domain,
    point: np.ndarray,
    velocities: np.ndarray,
) -> PointAndVelocities:
    """Project a released point and its velocities into the public domain.

    A point outside its ball is moved to the boundary and the velocities are transported
    there; velocities longer than `domain.speed` are shortened to it. This is
    post-processing, because only released and public numbers are read.

    Parameters
    ----------
    manifold : Manifold
        The space of the responses.
    ball : Ball
        The public ball; only its center is used.
    domain : Domain
        The public domain, as `public_domain` returns it.
    point : array of shape point_shape
        The released middle point.
    velocities : array of shape (predictors, *point_shape)
        The released velocities at the point.

    Returns
    -------
    PointAndVelocities
        The pair inside the domain.
    """
    projected = project_to_ball(manifold, ball.center, domain.radius, point[None])
    inside = np.asarray(projected[0])
    if np.any(inside != point):
        velocities = np.asarray(manifold.transport(point, inside, velocities))
    lengths = np.asarray(manifold.norm(inside, velocities))
    safe_lengths = np.where(lengths > 0, lengths, 1.0)
    factors = np.minimum(1.0, domain.speed / safe_lengths)
    # One factor for each velocity, with trailing axes to multiply whole tangent vectors.
    factors = factors.reshape(-1, *[1] * len(manifold.point_shape))
    return PointAndVelocities(inside, velocities * factors)
