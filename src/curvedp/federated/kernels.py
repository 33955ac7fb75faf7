"""What sites release together: the questions of the rounds, and what the last noisy sums are made into."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt, tanh
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.core.fields import assign
from curvedp.core.statistic import public_ball
from curvedp.errors import ParameterError
from curvedp.federated.questions import (
    Distances,
    Moment,
    Outer,
    Place,
    Question,
    Square,
    Step,
    Where,
)
from curvedp.geometry import Euclidean, parse_manifold, project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.names import manifold_name
from curvedp.mechanisms.chart import shrink_points
from curvedp.records.persons import MAX_ROWS_PER_PERSON, person_means, person_rows
from curvedp.statistics.searched_ball import default_outer_radius
from curvedp.statistics.second_moment import clip_rows, vector_to_symmetric

Array = np.ndarray

# Each step in a ball has so many times the budget of the one before: early ones only bring the point near, and averaging
# keeps what they paid for. Chosen by simulation (benchmarks/federated.py).
_RATIO = 8.0
_PLACE, _COUNTS, _LOCATION = (
    0.06,
    0.08,
    0.06,
)  # shares of μ² of a private ball, as in `PrivateBallMechanism`
_MOST = 0.2  # of a question where records are few
_ENOUGH = 50.0  # nμ from which the questions of a private ball are of use


@dataclass(frozen=True, eq=False)  # a field is an array
class Kernel(ABC):
    """What is released of records on `manifold`, mapped into the public ball B(`center`, `radius`) first."""

    manifold: Manifold
    radius: Any
    center: Any = None
    outer_radius: Any = None

    name: ClassVar[str]
    least_rounds: ClassVar[int] = 1
    rows_of_a_person: ClassVar[int] = 1  # at most, in `by_person`
    registry: ClassVar[dict[str, type["Kernel"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Kernel.registry[cls.name] = cls

    def __post_init__(self) -> None:
        if self.outer_radius is not None and not self.is_private:
            raise ParameterError(
                "is for a private radius",
                parameter="outer_radius",
                value=self.outer_radius,
            )
        if self.is_private:
            _validate.private_radius(self.radius)
            assign(
                self,
                outer_radius=default_outer_radius(self.manifold, self.outer_radius),
            )
        ball = public_ball(self.manifold, *self.ball[1:])
        assign(
            self,
            center=ball.center,
            **{"outer_radius" if self.is_private else "radius": ball.radius},
        )

    @property
    def is_private(self) -> bool:
        """Whether the ball is found in the first rounds."""
        return isinstance(self.radius, str)

    @property
    def ball(self) -> Outer:
        """The public ball that holds the records."""
        return Outer(
            self.manifold,
            self.center,
            self.outer_radius if self.is_private else self.radius,
        )

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many rounds there are by default."""

    @property
    def classes(self) -> int:
        """How many groups of records have sums of their own."""
        return 1

    @property
    def space(self) -> Manifold:
        """Where the value, or each part of it, lives."""
        return self.manifold

    @abstractmethod
    def asked(self, rounds: int, hidden: float, few: float) -> list[Question]:
        """One question a round. `hidden` are so many records as the noise of the whole budget hides, `few` the share that
        makes half of the records clear in a count."""

    @abstractmethod
    def finished(self, at: Array, noise: float) -> Array:
        """The value, from the last numbers and the noise left in a coordinate, in units of the radius."""

    def questions(self, rounds: int, scale: float, n: int) -> list[Question]:
        """Those of the rounds; 1/`scale` is the whole budget and n the number of records. Raises `ParameterError` where
        records are too few for a private ball, or the rounds are not its own."""
        if self.is_private and (rounds != self.rounds or n < _ENOUGH * scale):
            raise ParameterError(
                f"a private ball takes {self.rounds} rounds and n·μ >= {_ENOUGH:g}; there are {rounds} and {n / scale:.3g}: "
                "agree on a radius"
            )
        few = min(
            _MOST, (17 * scale / max(n, 1)) ** 2
        )  # 17 = 2·2.5 standard deviations · 3.3, a count's noise
        return self.asked(rounds, 2 * sqrt(self.manifold.dim) * scale, few)

    def search(self, hidden: float, few: float) -> list[Question]:
        """The questions that find a ball: no step where embedded points give a center, two where nothing gives one."""
        ball, embedded = (
            self.ball,
            all(isinstance(f, EmbeddedMean) for f in self.manifold.factors),
        )
        step = [
            Distances(ball, max(_COUNTS / 4, few), hidden),
            Step(ball, _LOCATION, coarse=True),
        ]
        again = [] if embedded else step
        first = [Place(ball, max(_PLACE, few))] if Place.parts(self.manifold) else again
        return [*first, *again, Distances(ball, max(_COUNTS, few), hidden)]

    def start(self) -> Array:
        """The first public numbers, a row a class."""
        s, (_, center, radius) = self._half_way, self.ball
        bend = max(1.0, s / (1.5 * tanh(s))) - 1 if s > 0 else 0.0
        return np.repeat(
            Where(center, center, radius, radius, bend).row()[None],
            self.classes,
            axis=0,
        )

    @property
    def _half_way(self) -> float:
        """s, where H = s·coth s is the Hessian of ½d² half way out; steps are cut by 3/2H, so that they converge."""
        return sqrt(max(-self.manifold.curvature_bounds[0], 0.0)) * self.ball.radius / 2

    def update(
        self,
        question: Question,
        at: Array,
        total: Array,
        counts: Sequence[int],
        noise: float,
        part: float,
    ) -> Array:
        """The public numbers after a round, from its noisy sums and the classes' public counts."""
        parts = zip(
            self.places(at), total.reshape(self.classes, -1), counts, strict=True
        )
        return np.array(
            [
                question.update(where, sums, max(n, 1), noise, part)
                for where, sums, n in parts
            ]
        )

    def places(self, at: Array) -> list[Where]:
        """The public numbers of each class; raises `ParameterError` where they are none, whatever the records."""
        if at.shape != self.start().shape:
            raise ParameterError("at= are not the numbers of these classes")
        return [Where.read(self.manifold, row) for row in at]

    def terms(self, question: Question, at: Array, records: Array, label: int) -> Array:
        """One row a record of class `label`; rows lie within the question's largest change of each other."""
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            return np.asarray(
                question.rows(self.places(at)[label], self.inside(records))
            )

    def is_same(self, one: Array, other: Array) -> bool:
        """Whether two sets of public numbers differ by no more than another machine's floats."""
        points = np.abs(other[:, :-3]).max(axis=1, keepdims=True)
        scale = np.concatenate(
            [np.broadcast_to(points, other[:, :-3].shape), np.abs(other[:, -3:])],
            axis=1,
        )
        return one.shape == other.shape and bool(
            np.all(np.abs(one - other) <= 1e-6 * scale)
        )

    def inside(self, records: Array) -> Array:
        """Records in the public ball; none raises, none is dropped."""
        return np.asarray(project_to_ball(*self.ball, records))

    def by_person(self, records: Array, codes: Array) -> Array:
        """What stands for each person, of whom code 0, 1, … says which records are theirs: their own mean."""
        return person_means(self.manifold, self.ball[1:], records, codes)

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which `kernel_from_dict` makes it again."""
        stated = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) is not None
        }
        return {
            **stated,
            "name": self.name,
            "manifold": manifold_name(self.manifold),
            "center": self.center.tolist(),
        }


def kernel_from_dict(stated: Mapping[str, Any]) -> Kernel:
    """The inverse of `Kernel.to_dict`; raises `ParameterError` where a name is unknown, or a field missing or unusable."""
    try:
        rest = {
            key: value
            for key, value in stated.items()
            if key not in ("name", "manifold")
        }
        return Kernel.registry[stated["name"]](
            manifold=parse_manifold(stated["manifold"]), **rest
        )
    except (AttributeError, KeyError, TypeError):
        raise ParameterError("this is not a kernel of a federated sum") from None


@dataclass(frozen=True, eq=False)
class MeanKernel(Kernel):
    """Steps to the Fréchet mean: log_w x − log_w center, clipped to the radius.

    Where curvature is <= 0 the logarithm does not stretch, so nothing is cut off at any w; elsewhere little is.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    radius : float or "private"
        Of the public ball; or the first rounds find a ball privately, inside an outer one.
    center : array, optional
        Of the public ball; the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`, of the public outer ball, which only has to be large enough; a generous one by default.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> MeanKernel(SPDAffineInvariant(3), 1.0).radius
    1.0
    """

    name = "mean"
    last: ClassVar[type[Question]] = Step  # asked in the last round

    @property
    def rounds(self) -> int:
        """Enough to come near by simulation: where the ball is wide for its curvature, steps shorten the way less."""
        if self.is_private:
            return len(self.search(0.0, 0.0)) + (2 if Place.parts(self.manifold) else 1)
        return (3 if 4 * self._half_way**2 <= 1.5 else 5) + (self.last is not Step)

    def asked(self, rounds: int, hidden: float, few: float) -> list[Question]:
        search = self.search(hidden, few) if self.is_private else []
        weights = [_RATIO**k for k in range(rounds - len(search))]
        left = (1 - sum(question.weight for question in search)) / sum(weights)
        steps = [Step(self.ball, left * weight) for weight in weights[:-1]]
        return [*search, *steps, self.last(self.ball, left * weights[-1])]

    def finished(self, at: Array, noise: float) -> Array:
        places = [
            (where.center, where.point[None], noise * where.radius)
            for where in self.places(at)
        ]
        means = np.concatenate(
            [shrink_points(self.manifold, *place) for place in places]
        )
        return means[0] if self.classes == 1 else means


@dataclass(frozen=True, eq=False)
class ClassMeansKernel(MeanKernel):
    """The mean of each of `count` classes, for minimum distance to mean. A record's class is public.

    Parameters
    ----------
    manifold, radius, center, outer_radius
        As of a `MeanKernel`.
    count : int
        Number of classes.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> ClassMeansKernel(SPDAffineInvariant(3), 1.0, count=4).count
    4
    """

    count: int = field(default=2, kw_only=True)

    name = "class-means"

    def __post_init__(self) -> None:
        super().__post_init__()
        assign(self, count=_validate.integer("count", self.count, 1))

    @property
    def classes(self) -> int:
        return self.count

    def finished(self, at: Array, noise: float) -> Array:
        return (
            super().finished(at, noise).reshape(self.count, *self.manifold.point_shape)
        )


@dataclass(frozen=True, eq=False)
class DispersionKernel(MeanKernel):
    """The mean square distance to a private mean: rounds of a mean, then one of d² clipped to [0, r²].

    Parameters
    ----------
    manifold, radius, center, outer_radius
        As of a `MeanKernel`.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> DispersionKernel(Sphere(2), 0.5).name
    'dispersion'
    """

    name = "dispersion"
    least_rounds = 2
    last = Square

    @property
    def space(self) -> Manifold:
        return Euclidean(1)

    def finished(self, at: Array, noise: float) -> Array:
        return np.asarray(at[0])


@dataclass(frozen=True, eq=False)
class MomentKernel(Kernel):
    """The second moment xxᵀ of vectors of length at most the radius, for principal components; its value are all of them, the
    leading one first, as rows.

    Parameters
    ----------
    manifold, radius, center, outer_radius
        As of a `MeanKernel`; the manifold is Euclidean, the center the origin.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> MomentKernel(Euclidean(5), 1.0).name
    'second-moment'
    """

    name = "second-moment"
    rows_of_a_person = MAX_ROWS_PER_PERSON

    def __post_init__(self) -> None:
        super().__post_init__()
        if manifold_name(self.manifold) != manifold_name(
            Euclidean(self.manifold.dim)
        ) or np.any(self.center):
            raise ParameterError(
                "the second moment is of vectors: Euclidean(d), about the origin"
            )

    @property
    def rounds(self) -> int:
        """One; before it, one that finds the radius."""
        return 1 + self.is_private

    def asked(self, rounds: int, hidden: float, few: float) -> list[Question]:
        if rounds != self.rounds:
            raise ParameterError(
                f": the second moment takes {self.rounds}",
                parameter="rounds",
                value=rounds,
            )
        spent = max(_COUNTS, few) * self.is_private
        return [
            *[Distances(self.ball, spent, hidden)] * self.is_private,
            Moment(self.ball, 1 - spent),
        ]

    def places(self, at: Array) -> list[Where]:
        """With the radius that is agreed on, whatever a server says: rows cut to a smaller one would add up to more than a
        person has."""
        found = super().places(at)
        return (
            found
            if self.is_private
            else [where._replace(radius=self.radius) for where in found]
        )

    def by_person(self, records: Array, codes: Array) -> Array:
        if self.is_private:
            raise ParameterError("a person's moments need a radius that is agreed on")
        return person_rows(clip_rows(self.inside(records), self.radius), codes)

    def finished(self, at: Array, noise: float) -> Array:
        return np.asarray(
            np.linalg.eigh(vector_to_symmetric(at[0], self.manifold.dim))[1][:, ::-1].T
        )
