"""What is released: a statistic of records, as a frozen public value that owns how far it can move.

A statistic says where its value lives, how far the COMPUTED value can move when one record is replaced (theorem, solver
and rounding: this is the only place), how it is computed, and how it is written into a certificate, from which `verify`
builds it again. Nothing in it is read off the data.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from math import inf, nextafter
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

import numpy as np

from curvedp import _lazy, _validate
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, manifold_name, parse_manifold, project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import (
    canonical_center,
    move_from_origin,
    move_to_origin,
)
from curvedp.geometry.frechet_mean.backends.chunks import Domain, into_ball
from curvedp.geometry.frechet_mean.error_bound import farthest_record, solver_error
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.mechanisms.chart import CHART_ERROR, chart_stretch
from curvedp.mechanisms.sensitivity import (
    dispersion_sensitivity,
    frechet_mean_sensitivity,
    mean_chart_sensitivity,
)
from curvedp.privacy.unit import PrivacyUnit
from curvedp.records.base import Records
from curvedp.records.tables import entries

# Where a certificate's statistic says whose contributions its n values are.
UNIT_FIELD = "privacy_unit"
PERSON_UNIT = "one person with all their records, replaced by any other; the number of persons is public"


def assign(frozen: Any, **values: Any) -> None:
    """Set fields of a frozen value while it is being made."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def length(name: str, value: Any) -> float:
    """A length, as `_validate` knows it, which is asked only where it must be: a choice makes many mechanisms."""
    return (
        value
        if type(value) is float and 1e-100 <= value <= 1e100
        else _validate.length(name, value)
    )


# Types of fields, with the check that each passes when a statistic or a mechanism is made.
Length = Annotated[float, length]
Positive = Annotated[float, _validate.positive]
Count = Annotated[int, partial(_validate.integer, minimum=1)]
Several = Annotated[int, partial(_validate.integer, minimum=2)]


def check_fields(made: Any) -> None:
    """Every field of a dataclass becomes what the check beside its type makes of it."""
    named = fields(made)
    as_text = any(
        isinstance(each.type, str) for each in named
    )  # `from __future__ import annotations`
    types = (
        get_type_hints(type(made), include_extras=True)
        if as_text
        else {each.name: each.type for each in named}
    )
    for each in named:
        for check in getattr(types[each.name], "__metadata__", ()):
            assign(made, **{each.name: check(each.name, getattr(made, each.name))})


class Ball(NamedTuple):
    """A public ball."""

    center: np.ndarray
    radius: float


def is_drawn_in_coordinates(manifold: Manifold, ball: Ball) -> bool:
    """Whether noise on this space is drawn in flat coordinates at the ball's center."""
    # A process of a federated site, which draws no such noise, must not import the laws.
    from curvedp.laws.exact.draw import in_chart

    is_at_origin = np.array_equal(ball.center, np.asarray(manifold.origin))
    return is_at_origin and in_chart(manifold)


@dataclass(frozen=True, eq=False)  # fields may be arrays
class Statistic(ABC):
    """What is released, in public terms. Subclasses are frozen dataclasses, registered by their `name`.

    Attributes
    ----------
    name : str
        What certificates call it.
    unit : str
        Whose data may change between two neighbors, in words.
    privacy_unit : PrivacyUnit or None
        The same as a ledger knows it; None where the statistic does not tell. An estimator
        that averages each person's records first states a person instead.

    Examples
    --------
    >>> Statistic.registry["geometric median"].unit
    'one record, replaced by any other'
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "one record, replaced by any other"
    units: ClassVar[tuple[str, ...]] = (
        PERSON_UNIT,
    )  # others that an estimator may state
    privacy_unit: ClassVar[PrivacyUnit | None] = PrivacyUnit.RECORD
    valued: ClassVar[bool] = True  # whether noise can be added to its value
    dearer: ClassVar[float] = (
        inf  # how much more stages by Laplace noise cost, which (ε, δ) may take; inf: untried
    )
    registry: ClassVar[_lazy.Registry[type["Statistic"]]] = _lazy.Registry(
        "curvedp.mechanisms"
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            Statistic.registry[cls.name] = cls

    def __post_init__(self) -> None:
        """Whatever was given is checked: the manifold, the public ball, and every field by its type."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if "center" in given and "radius" in given:
            assign(
                self,
                **public_ball(
                    given["manifold"], given["center"], given["radius"]
                )._asdict(),
            )
        elif "manifold" in given:
            check_manifold(given["manifold"])
        check_fields(self)

    @property
    def space(self) -> Manifold:
        """Where its value lives: with the records, unless it says otherwise."""
        found: Manifold = self.manifold  # type: ignore[attr-defined]  # those without this field say where
        return found

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest distance between the computed values at two neighbors."""

    @property
    def public_n(self) -> int | None:
        """How many records or persons it is about, for the ledger's entry.

        None where that number is private, or where the statistic does not know it.
        """
        return None

    @property
    def values(self) -> Ball | None:
        """A public ball of `space` that holds the value whatever the records; None where there is none."""
        return None

    @property
    def landing(self) -> Ball | None:
        """The public ball of the point that is released, in the frame of the records, where `values` is None."""
        return None

    typical = property(
        lambda self: self.values
    )  # a ball of records for which the error is predicted

    @property
    def kept_in(self) -> Ball | None:
        """The ball that a drawn point is moved into, and shrunk towards the center of."""
        return self.values

    # where the chart is: the center of `values`, or the origin
    base = property(
        lambda self: np.asarray(
            self.space.origin if self.values is None else self.values.center
        )
    )
    # largest distance between the coordinates of the computed values in the chart at the center of `values`
    chart_sensitivity = property(lambda self: self.sensitivity)

    def of(self, records: Records) -> np.ndarray:
        """The value. NOT private."""
        raise ParameterError(f"{self.name} is not computed from records here")

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Drawn points, along the first axis, moved to where the value can be: post-processing."""
        return (
            points
            if self.kept_in is None
            else np.asarray(project_to_ball(self.space, *self.kept_in, points))
        )

    def placed(self, points: np.ndarray) -> np.ndarray:
        """Points of the frame in which the value is computed, in the frame of the records: post-processing."""
        return points

    def unplaced(self, points: np.ndarray) -> np.ndarray:
        """The inverse of `placed`."""
        return points

    @property
    def afterwards(self) -> Sequence[str]:
        """What `inside` does, in words."""
        return () if self.kept_in is None else ("projection onto the ball",)

    def to_dict(self) -> dict[str, Any]:
        """The name and the public fields as JSON values, from which `from_dict` builds the same statistic."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in given.items()
        }
        named = {
            name: manifold_name(value)
            for name, value in given.items()
            if isinstance(value, Manifold)
        }
        return {"name": self.name, **plain, **named}

    @staticmethod
    def from_dict(record: Any) -> "Statistic":
        """The statistic that a certificate describes, validated anew; refuses a field that is missing, wrong or one more."""
        name = record.get("name") if isinstance(record, dict) else None
        if not isinstance(name, str) or name not in Statistic.registry:
            raise ParameterError(
                f"the certificate's statistic is not one of: {', '.join(Statistic.registry)}"
            )
        kind = Statistic.registry[name]
        given = {
            name: value
            for name, value in record.items()
            if name not in ("name", UNIT_FIELD)
        }
        expected = [field.name for field in fields(kind)]
        if sorted(given) != sorted(expected):
            raise ParameterError(
                f"the statistic {kind.name!r} has the fields {', '.join(expected)}"
            )
        if isinstance(given.get("manifold"), str):
            given["manifold"] = parse_manifold(given["manifold"])
        return kind(**given)


def is_point(manifold: Manifold, array: np.ndarray) -> bool:
    """Whether an array is finite and, to 1e-6, a point of the manifold."""
    if not np.all(np.isfinite(array)):
        return False
    with np.errstate(all="ignore"):  # entries near the largest double
        return float(manifold.residual(array)) <= 1e-6


def check_point(name: str, manifold: Manifold, point: Any) -> np.ndarray:
    """A public point of the manifold, or a `ParameterError`; round-off is projected away."""
    array = _validate.array(name, point)
    if array.shape != manifold.point_shape:
        raise ParameterError(
            f"{name} has shape {array.shape}; points of {manifold!r} have {manifold.point_shape}"
        )
    usable = is_point(manifold, array)
    with np.errstate(all="ignore"):  # entries near the largest double
        found = np.asarray(manifold.project(array)) if usable else array
    if not usable or not np.all(np.isfinite(found)):
        raise ParameterError(
            f"{name} is not a point of {manifold!r} (residual above 1e-6); see manifold.project"
        )
    return found


def public_ball(manifold: Any, center: Any, radius: Any) -> Ball:
    """The ball that holds the records; centered at the manifold's origin unless told otherwise."""
    check_manifold(manifold)
    if radius is None:
        raise ParameterError(
            "is missing: a public ball must hold the records; "
            "choose it from domain knowledge, not from the data",
            parameter="radius",
        )
    radius = _validate.length("radius", radius)
    return Ball(
        check_point("center", manifold, manifold.origin if center is None else center),
        radius,
    )


@dataclass(frozen=True, eq=False)
class Stated(Statistic):
    """A value whose sensitivity the caller states and vouches for: no certificate can confirm it. Noise in a chart may have
    a public ball that holds the value, and how far its coordinates can move (by default the chart's stretch tells)."""

    manifold: Manifold
    moved: float
    center: Any = None
    radius: float | None = None
    in_chart: float | None = None

    name: ClassVar[str] = "stated by the caller"
    kept_in = None  # it is released as it is drawn

    def __post_init__(self) -> None:
        check_manifold(self.manifold)
        assign(self, moved=_validate.length("sensitivity", self.moved))
        if self.center is not None:
            assign(self, center=check_point("base", self.manifold, self.center))
        for name, word in (("radius", "radius"), ("in_chart", "chart_sensitivity")):
            if getattr(self, name) is not None:
                assign(self, **{name: _validate.length(word, getattr(self, name))})

    sensitivity = property(lambda self: self.moved)

    @property
    def chart_sensitivity(self) -> float:
        if self.in_chart is not None:
            return self.in_chart
        return nextafter(self.moved * chart_stretch(self.manifold, self.radius), inf)

    values = property(
        lambda self: None if self.radius is None else Ball(self.base, self.radius)
    )
    base = property(
        lambda self: np.asarray(
            self.manifold.origin if self.center is None else self.center
        )
    )


@dataclass(frozen=True, eq=False)
class _OfBall(Statistic):
    """Of n records in a public ball; each is moved into it first, whatever it is.

    Everything is computed after an isometry has carried the ball's center home, where floats are fine (`canonical_center`): a
    center that is badly scaled would cost its condition number in digits.
    """

    manifold: Manifold
    center: Any
    radius: float
    n: Several

    @property
    def public_n(self) -> int:
        return self.n

    # the ball that holds the records, at home
    ball = cached_property(
        lambda self: Ball(
            np.asarray(canonical_center(self.manifold, self.center)), self.radius
        )
    )
    # how far from the center a moved record can be: the radius, or less where floats hold less of the ball
    reach = cached_property(lambda self: farthest_record(self.manifold, self.radius))
    domain = property(
        lambda self: Domain(self.manifold, *self.ball)
    )  # the ball at home and its space
    # how far the computed mean may be from the true one
    solver_error = cached_property(
        lambda self: solver_error(self.manifold, self.radius)
    )

    def moments(self, records: Records) -> tuple[np.ndarray, float]:
        """(Fréchet mean at home, mean square distance to it) of the records in the ball. NOT private."""
        return records.carried(self.manifold, self.center).moments(self.domain)

    def accepted(self, records: Any) -> np.ndarray:
        """The records as doubles, carried home and moved into the ball; only their shape and type can be refused."""
        if not isinstance(records, np.ndarray) or records.dtype != np.float64:
            records = entries("records", records, self.manifold.point_shape)
        if records.shape != (self.n, *self.manifold.point_shape):
            raise ParameterError(
                f"records have shape {records.shape}, not {(self.n, *self.manifold.point_shape)}"
            )
        carried = carry_records(self.manifold, self.center, records)
        return into_ball(self.domain, carried)


@dataclass(frozen=True, eq=False)
class FrechetMean(_OfBall):
    """The Fréchet mean of n records in a public ball."""

    name: ClassVar[str] = "Fréchet mean"
    units: ClassVar[tuple[str, ...]] = (
        "one record, replaced by any other of its class; labels and class sizes are public",
        PERSON_UNIT,
        "one person with all their records, replaced by any other of their class; labels and class sizes are public",
    )

    @cached_property
    def sensitivity(self) -> float:
        """Return the theorem's bound and the solver's error at both ends, at most a diameter.

        Noise is added to a point of the ball, as floats hold it (`stored_reach`): no two of
        them are farther apart than twice that, whatever the solver's error.
        """
        theorem = frechet_mean_sensitivity(self.manifold, self.reach, self.n)
        return min(theorem + 2 * self.solver_error, 2 * self.stored_reach)

    @cached_property
    def chart_sensitivity(self) -> float:
        """Return the theorem's bound for the chart, which stretches the solver's error too.

        Coordinates are shortened to the radius before noise is added: no two of them are
        farther apart than the diameter.
        """
        stretch = chart_stretch(self.manifold, self.radius)
        theorem = mean_chart_sensitivity(self.manifold, self.reach, self.n)
        diameter = 2 * self.radius * (1 + CHART_ERROR)
        return min(theorem + 2 * self.solver_error * stretch, diameter)

    @cached_property
    def stored_reach(self) -> float:
        """How far from the center the point is that noise is added to.

        That is the radius and the rounding of the point's own coordinates; on a space whose
        noise is drawn in flat coordinates these are shortened to the radius, and nothing is
        rounded after that.
        """
        if is_drawn_in_coordinates(self.manifold, self.ball):
            return self.radius * (1 + CHART_ERROR)
        held_radius = self.manifold.float_set.safe_radius_within(self.radius)
        spread = self.manifold.float_set.roundoff_amplification(held_radius)
        return self.radius * (1 + CHART_ERROR) + 2.0**-50 * self.manifold.dim * spread

    values = property(
        lambda self: self.ball
    )  # the ball of the records, which is convex

    def placed(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(move_from_origin(self.manifold, self.center, points))

    def unplaced(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(move_to_origin(self.manifold, self.center, points))

    def of(self, records: Records) -> np.ndarray:
        return self.moments(records)[0]


@dataclass(frozen=True, eq=False)
class FrechetVariance(_OfBall):
    """min over x of mean d²(x, xᵢ), for n records in a public ball: it lies in [0, r²]."""

    name: ClassVar[str] = "Fréchet variance"
    space = Euclidean(1)
    afterwards = ("clipping to [0, r²]",)

    @cached_property
    def sensitivity(self) -> float:
        """The theorem's, and the error of the computed mean and of the computed distances at both ends."""
        r, error = self.reach, self.solver_error
        # A mean off by η raises the mean square by at most 2·2r·η + η²; squares of computed distances are off by twice
        # CHART_ERROR, relative.
        exact = dispersion_sensitivity(self.manifold, r, self.n)
        errors = 4 * r * error + error * error + 2 * CHART_ERROR * 4 * r * r
        # The computed variance is cut to [0, r²] (`of`), so that it moves by no more.
        return min(exact + 2 * errors, self.radius * self.radius)

    @property
    def values(self) -> Ball:
        """[0, r²], an interval about its middle."""
        half = self.radius * self.radius / 2
        return Ball(np.array([half]), half)

    def of(self, records: Records) -> np.ndarray:
        variance = self.moments(records)[1]
        return np.array([min(max(variance, 0.0), self.radius * self.radius)])
