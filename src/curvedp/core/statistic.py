"""What is released: a statistic of the records, as a frozen public value. A statistic
knows where its value lives, how it is computed, and how far the computed value can move
between neighboring data sets. A certificate holds it as a dictionary, from which
`verify` builds it again.

The bound on the *computed* value has the theorem, the solver error and the rounding in
one place. Nothing in a statistic is read off the data.

To write one, derive from `ClippedToBall` (a statistic of records in a public ball),
implement `sensitivity`, `value_ball` and `compute`, and let
`curvedp.testing.check_statistic` look for mistakes. docs/project/extending.md has a
worked example.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from math import inf, nextafter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.chart import chart_stretch
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import AtLeastTwo, assign, check_fields
from curvedp.core.registry import statistics
from curvedp.errors import ParameterError
from curvedp.geometry import manifold_name, parse_manifold, project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import canonical_center
from curvedp.geometry.frechet_mean.error_bound import farthest_record, solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.records.base import Records
from curvedp.records.tables import to_float_records

# Where a certificate's statistic says whose contributions its n values are.
UNIT_FIELD = "privacy_unit"


class Ball(NamedTuple):
    """A public geodesic ball.

    Attributes
    ----------
    center : array of shape point_shape
        The center of the ball.
    radius : float
        The geodesic radius.
    """

    center: np.ndarray
    radius: float


@dataclass(frozen=True, eq=False)  # fields may be arrays, which have no truth value
class Statistic(ABC):
    """A statistic of the records, in public terms.

    Subclasses are frozen dataclasses. A subclass with a `name` is registered by it.

    Attributes
    ----------
    name : str
        What certificates call it.
    privacy_units : tuple of ProtectedUnit
        Whose data its sensitivity covers; the first is the default.

    Examples
    --------
    >>> from curvedp.core.registry import statistics
    >>> statistics.find("geometric median").privacy_units[0].value
    'record'
    """

    name: ClassVar[str]
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            statistics.add(cls.name, cls)

    def __post_init__(self) -> None:
        """Check the manifold, the public ball, and every field by its type.

        So a statistic passes the same checks whether a user or a certificate describes
        it. The center of the ball defaults to the manifold's origin.
        """
        values = _validate.field_values(self)
        if "center" in values and "radius" in values:
            ball = public_ball(values["manifold"], values["center"], values["radius"])
            assign(self, center=ball.center, radius=ball.radius)
        elif "manifold" in values:
            check_manifold(values["manifold"])
        check_fields(self)

    @property
    @abstractmethod
    def value_space(self) -> Manifold:
        """The manifold on which the value lives."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The largest distance between the computed values of neighboring data sets.

        It includes the solver's error and rounding, because noise is added to the
        computed value. Mechanisms are calibrated to it.
        """

    @property
    def value_ball(self) -> Ball | None:
        """A public ball that holds the value whatever the records are, or None."""
        return None

    @property
    def public_count(self) -> int | None:
        """The number of records or people in the data; None if that number is private."""
        return None

    def compute(self, records: Records) -> np.ndarray:
        """Compute the value from the records. It is NOT private.

        Mechanisms add noise to it. Some statistics (a median, a descent) have no value
        without noise: their mechanisms read the records in stages, and this method
        raises.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        records : Records
            The records, clipped into the public ball on the way.

        Returns
        -------
        array of shape point_shape
            The value in the canonical frame.

        Raises
        ------
        ParameterError
            If the statistic has no value without noise.
        """
        raise ParameterError(f"the {self.name} is not computed without noise")

    def project(self, points: np.ndarray) -> np.ndarray:
        """Move drawn points to where the value can be: into `value_ball`, if there is one.

        This is post-processing: it costs no privacy.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Noisy values, one in each row.

        Returns
        -------
        array of the same shape
            Points in the ball as they are; any other is moved to the ball's boundary
            along its geodesic to the center.
        """
        if self.value_ball is None:
            return points
        return np.asarray(project_to_ball(self.value_space, *self.value_ball, points))

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What `project` does, as codes for the certificate."""
        if self.value_ball is None:
            return ()
        return (PostProcessing.PROJECT_TO_BALL,)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the public fields as JSON values, for the certificate."""
        record: dict[str, Any] = {"name": self.name}
        for name, value in _validate.field_values(self).items():
            record[name] = _json_value(value)
        return record


# The deepest nesting of lists in a field of a statistic. A file from someone else may nest lists
# deeper than Python can recurse; arrays of points have at most a handful of axes.
_MAX_NESTING = 32


def _json_value(value: Any, nesting: int = 0) -> Any:
    """Return a field of a statistic as a certificate holds it.

    A manifold becomes its name; arrays, tuples and lists become lists; numbers of NumPy
    become those of Python. Anything else is returned as it is.

    Parameters
    ----------
    value : object
        The value of a field.
    nesting : int, default 0
        How many lists the value lies in.

    Returns
    -------
    JSON value
        What a certificate can hold.

    Raises
    ------
    ParameterError
        If lists are nested more than 32 deep.
    """
    if nesting > _MAX_NESTING:
        raise ParameterError(
            f"a field of a statistic nests lists more than {_MAX_NESTING} deep"
        )
    if isinstance(value, Manifold):
        return manifold_name(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_json_value(item, nesting + 1) for item in value]
    return value


class PointStatistic(Statistic):
    """A statistic whose value is one point of a manifold, to which noise can be added.

    Mechanisms that add noise in the normal chart at a public base point use
    `chart_base` and `chart_sensitivity`. A value may be computed in a canonical frame
    (see `ClippedToBall`); `to_data_frame` moves points from there to the frame of the
    records.
    """

    @property
    def chart_base(self) -> np.ndarray:
        """The public point at which charts are taken: the center of `value_ball`."""
        if self.value_ball is None:
            return np.asarray(self.value_space.origin)
        return np.asarray(self.value_ball.center)

    @property
    def chart_sensitivity(self) -> float:
        """The sensitivity of the value's coordinates in the chart at `chart_base`.

        It is the largest distance of the coordinates log(value) between neighboring
        data sets. Noise that is added to coordinates is calibrated to it.
        """
        return self.sensitivity

    def to_data_frame(self, points: np.ndarray) -> np.ndarray:
        """Move points from the canonical frame to the records' frame.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Points in the canonical frame, such as drawn values.
        """
        return points

    def to_canonical_frame(self, points: np.ndarray) -> np.ndarray:
        """Move points from the frame of the records to the canonical frame.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Points in the frame of the records.
        """
        return points


@dataclass(frozen=True, eq=False)
class ClippedToBall(PointStatistic):
    """A statistic of n records in a public ball; each record is clipped into it first.

    **The canonical frame.** Everything is computed after an isometry has moved the
    center of the ball to where floats are most accurate (`canonical_center`). A badly
    scaled center would otherwise cost its condition number in digits.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array of shape point_shape
        The center of the public ball; None stands for the origin.
    radius : float
        The radius of the public ball.
    n : int
        The public number of records, at least 2.
    """

    manifold: Manifold
    center: Any
    radius: float
    n: AtLeastTwo

    @property
    def value_space(self) -> Manifold:
        """The manifold of the records, unless a subclass says otherwise."""
        return self.manifold

    @property
    def public_count(self) -> int:
        """The number n of records, which is public."""
        return self.n

    @cached_property
    def ball(self) -> Ball:
        """The ball that holds the records, in the canonical frame.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.
        """
        return Ball(
            np.asarray(canonical_center(self.manifold, self.center)), self.radius
        )

    @cached_property
    def clipping_radius(self) -> float:
        """How far from the center a clipped record can be.

        This is the radius, or less where float64 cannot represent the whole ball.
        """
        return farthest_record(self.manifold, self.radius)

    @property
    def domain(self) -> PublicBall:
        """The manifold with its public ball (canonical frame), for solvers of means.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.
        """
        return PublicBall(self.manifold, *self.ball)

    @cached_property
    def solver_error(self) -> float:
        """A bound on the distance of the computed Fréchet mean from the true one.

        It is known before any record is read: the solver's number of steps is fixed.
        Sensitivities add it twice, once for each of two neighboring data sets.
        """
        return solver_error(self.manifold, self.radius)

    def mean_and_variance(self, records: Records) -> tuple[np.ndarray, float]:
        """Return the Fréchet mean (canonical frame) and variance. NOT private.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        records : Records
            The records, in the frame of the data.

        Returns
        -------
        mean, variance : array of shape point_shape, float
            The mean of the clipped records and their mean squared distance from it.
        """
        return records.to_canonical_frame(self.manifold, self.center).moments(
            self.domain
        )

    def clip_records(self, records: Any) -> np.ndarray:
        """Return the records as doubles, in the canonical frame, clipped into the ball.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. Entries may be anything.

        Returns
        -------
        array of shape (n, *point_shape)
            The clipped records; one that is not finite is replaced by the center.

        Raises
        ------
        ParameterError
            For a wrong shape or type, never for what a record holds.
        """
        if not isinstance(records, np.ndarray) or records.dtype != np.float64:
            records = to_float_records("records", records, self.manifold.point_shape)
        expected_shape = (self.n, *self.manifold.point_shape)
        if records.shape != expected_shape:
            raise ParameterError(
                f"records have shape {records.shape}, not {expected_shape}"
            )
        canonical = carry_records(self.manifold, self.center, records)
        return clip_records(self.domain, canonical)


@dataclass(frozen=True, eq=False)
class ExternalValue(PointStatistic):
    """A value whose sensitivity the caller states and vouches for.

    No certificate can confirm it. For noise in a chart the caller may add a public ball
    that holds the value, and how far the value's coordinates can move; by default the
    stretch of the chart gives that.

    Attributes
    ----------
    manifold : Manifold
        The manifold on which the value lies.
    stated_sensitivity : float
        The largest distance between the values of neighboring data sets, by the
        caller's word.
    center : array of shape point_shape, optional
        The public base point of the chart; the origin by default.
    radius : float, optional
        The radius of a public ball about it that holds the value.
    stated_chart_sensitivity : float, optional
        The largest distance between the coordinates of such values, by the caller's
        word.
    """

    manifold: Manifold
    stated_sensitivity: float
    center: Any = None
    radius: float | None = None
    stated_chart_sensitivity: float | None = None

    name: ClassVar[str] = "stated by the caller"

    def __post_init__(self) -> None:
        """Check each number that the caller states, and the base point of the chart.

        Error messages name the parameters as `GaussianMechanism` and the like do.
        """
        check_manifold(self.manifold)
        stated = _validate.length("sensitivity", self.stated_sensitivity)
        assign(self, stated_sensitivity=stated)
        if self.center is not None:
            assign(self, center=check_point("base", self.manifold, self.center))
        if self.radius is not None:
            assign(self, radius=_validate.length("radius", self.radius))
        if self.stated_chart_sensitivity is not None:
            in_chart = _validate.length(
                "chart_sensitivity", self.stated_chart_sensitivity
            )
            assign(self, stated_chart_sensitivity=in_chart)

    @property
    def value_space(self) -> Manifold:
        """The manifold that the caller names."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """The sensitivity that the caller vouches for."""
        return self.stated_sensitivity

    @property
    def chart_base(self) -> np.ndarray:
        """The caller's center, or else the origin of the manifold."""
        return np.asarray(self.manifold.origin if self.center is None else self.center)

    @property
    def chart_sensitivity(self) -> float:
        """What the caller states, or the sensitivity times the stretch of the chart."""
        if self.stated_chart_sensitivity is not None:
            return self.stated_chart_sensitivity
        stretch = chart_stretch(self.manifold, self.radius)
        return nextafter(self.stated_sensitivity * stretch, inf)

    @property
    def value_ball(self) -> Ball | None:
        """The public ball that the caller states, or None without a radius."""
        if self.radius is None:
            return None
        return Ball(self.chart_base, self.radius)

    def project(self, points: np.ndarray) -> np.ndarray:
        """Return the points as drawn: whoever states a value may want it unprojected.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Drawn points.
        """
        return points

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """No codes: the value is released as it was drawn."""
        return ()


def statistic_from_dict(record: Any) -> Statistic:
    """Build the statistic that a certificate describes, validated again.

    `curvedp verify` rebuilds the statistic of a release with it and recomputes the
    sensitivity.

    Parameters
    ----------
    record : JSON value
        The certificate's field "statistic", which someone else may have written.

    Returns
    -------
    Statistic
        An instance whose constructor has checked every field.

    Raises
    ------
    ParameterError
        Where the name is unknown, or a field is missing, wrong or one too many.
    """
    name = record.get("name") if isinstance(record, dict) else None
    if not isinstance(name, str) or name not in statistics:
        known_names = ", ".join(statistics.names())
        raise ParameterError(
            "the certificate's statistic is of no package that is installed here. A "
            "package names its statistics in entry points of the group "
            f"curvedp.statistics. Known are: {known_names}"
        )

    statistic_class = statistics.find(name)
    not_of_constructor = ("name", UNIT_FIELD)
    values = {
        key: value for key, value in record.items() if key not in not_of_constructor
    }
    expected = [field.name for field in fields(statistic_class)]
    if sorted(values) != sorted(expected):
        raise ParameterError(
            f"the statistic {name!r} has the fields {', '.join(expected)}"
        )

    if isinstance(values.get("manifold"), str):
        values["manifold"] = parse_manifold(values["manifold"])
    return statistic_class(**values)


def is_point(manifold: Manifold, array: np.ndarray) -> bool:
    """Return whether an array is finite and, to 1e-6, a point of the manifold.

    Parameters
    ----------
    manifold : Manifold
        The manifold, whose `residual` measures how far an array is from its points.
    array : array of shape point_shape
        The candidate.
    """
    if not np.all(np.isfinite(array)):
        return False
    with np.errstate(all="ignore"):  # entries near the largest double
        return float(manifold.residual(array)) <= 1e-6


def is_drawn_in_coordinates(manifold: Manifold, ball: Ball) -> bool:
    """Return whether noise around this ball is drawn in flat coordinates at its center.

    Parameters
    ----------
    manifold : Manifold
        Where the released value lives.
    ball : Ball
        The public ball. Noise is drawn in coordinates only if its center is the origin.

    Returns
    -------
    bool
        True if the distribution of the noise is sampled as a vector of coordinates at
        the origin and then mapped to the manifold.
    """
    # A process of a federated site, which draws no such noise, must not import the
    # package `curvedp.laws`.
    from curvedp.laws.exact.draw import is_released_in_flat_coordinates

    is_at_origin = np.array_equal(ball.center, np.asarray(manifold.origin))
    return is_at_origin and is_released_in_flat_coordinates(manifold)


def check_point(name: str, manifold: Manifold, point: Any) -> np.ndarray:
    """Return a public point of a manifold, with its rounding errors projected away.

    Centers and other points that a user states pass through it.

    Parameters
    ----------
    name : str
        The parameter's name, for error messages.
    manifold : Manifold
        Where the point should be.
    point : array of shape point_shape
        What the caller passes.

    Returns
    -------
    array of shape point_shape
        The nearest point of the manifold, as doubles.

    Raises
    ------
    ParameterError
        If it has the wrong shape or is farther than 1e-6 from the manifold.
    """
    array = _validate.array(name, point)
    if array.shape != manifold.point_shape:
        raise ParameterError(
            f"{name} has shape {array.shape}; points of {manifold!r} have "
            f"{manifold.point_shape}"
        )
    if is_point(manifold, array):
        with np.errstate(all="ignore"):  # entries near the largest double
            projected = np.asarray(manifold.project(array))
        if np.all(np.isfinite(projected)):
            return projected
    raise ParameterError(
        f"{name} is not a point of {manifold!r} (residual above 1e-6); see "
        "manifold.project"
    )


def public_ball(manifold: Any, center: Any, radius: Any) -> Ball:
    """Return the public ball of a statistic, after checking a user's parameters.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records; anything else is refused.
    center : point or None
        The center of the ball. None takes the manifold's origin.
    radius : float
        Chosen from domain knowledge, not from the data.

    Returns
    -------
    Ball
        The center as an array, projected onto the manifold, and the radius as a float.

    Raises
    ------
    ParameterError
        If the radius is missing or is no length, or the center is no point.
    """
    check_manifold(manifold)
    if radius is None:
        raise ParameterError(
            "is missing: a public ball must hold the records; choose it from domain "
            "knowledge, not from the data",
            parameter="radius",
        )
    checked_radius = _validate.length("radius", radius)
    if center is None:
        center = manifold.origin
    return Ball(check_point("center", manifold, center), checked_radius)
