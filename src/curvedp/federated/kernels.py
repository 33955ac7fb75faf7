"""Statistics that several sites can release together by adding up noisy vectors.
The sites (hospitals, say) add up vectors in a few rounds. A `Kernel` is one statistic,
such as the mean: it says what each round asks of the records (its `Question`), and how
the value follows from the sums. The *public state* is what everybody knows between
rounds, such as the current estimate: a row of numbers for each class.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt, tanh
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.core.chart import shrink_points
from curvedp.core.fields import assign
from curvedp.core.statistic import public_ball
from curvedp.errors import ParameterError
from curvedp.federated.questions import (
    CountDistances,
    FirstCenter,
    PublicBall,
    PublicState,
    Question,
    SecondMomentRows,
    SquaredDistance,
    StepToMean,
)
from curvedp.federated.schedule import FixedSchedule, Schedule
from curvedp.geometry import Euclidean, parse_manifold, project_to_ball
from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.names import manifold_name
from curvedp.records.persons import MAX_ROWS_PER_PERSON, person_means, person_rows
from curvedp.statistics.searched_ball import default_outer_radius
from curvedp.statistics.second_moment import clip_rows, vector_to_symmetric

if TYPE_CHECKING:
    from curvedp.federated.plan import Plan

Array = np.ndarray

# Each step in a ball has this many times the budget of the step before. Early steps
# only bring the point near, and later steps average them in. Chosen by simulation
# (benchmarks/studies/federated.py).
_BUDGET_RATIO = 8.0

# The fractions of the budget μ² that the search for a private ball spends on a first
# center, on counts of distances, and on a coarse step, as in `PrivateBallMechanism`.
_FIRST_CENTER_SHARE = 0.06
_COUNTS_SHARE = 0.08
_COARSE_STEP_SHARE = 0.06

# The largest fraction of μ² that a question of the search may take if there are few
# records.
_MAX_SHARE = 0.2

# The smallest n·μ at which the search for a private ball is useful.
_MIN_RECORDS_TIMES_MU = 50.0

# Two machines compute the same public state up to this relative difference.
_MACHINE_TOLERANCE = 1e-6

# Half of the records are clear in a noisy count if n/2 is at least 2.5 standard
# deviations of its noise, which is 3.4·scale/√share: 17 = 2 · 2.5 · 3.4.
_CLEAR_COUNT_FACTOR = 17

# The numbers at the end of a row of the public state that are not coordinates: a median
# distance, a radius and a step excess.
_SCALARS_PER_STATE = 3

# Three steps toward a mean are enough while curvature times the radius squared is at
# most this, and five in wider balls. Found by simulation
# (benchmarks/studies/federated.py).
_MAX_FLAT_CURVATURE = 1.5
_STEPS_IF_FLAT = 3
_STEPS_IF_CURVED = 5


# The largest number of rounds of a plan whose questions are known in advance.
MAX_FIXED_ROUNDS = 6


@dataclass(frozen=True, eq=False)  # Fields are arrays, which have no plain equality.
class Kernel(ABC):
    """A statistic of records on a manifold, released in rounds (experimental).

    The masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    manifold : Manifold
        The space in which the records lie.
    """

    manifold: Manifold

    # The name in plans and messages.
    name: ClassVar[str]
    # The smallest number of rounds.
    min_rounds: ClassVar[int] = 1
    # All kernels by name, for `kernel_from_dict`.
    registry: ClassVar[dict[str, type["Kernel"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Enter the subclass into the registry under its name, if it has one."""
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Kernel.registry[cls.name] = cls

    @property
    @abstractmethod
    def default_rounds(self) -> int:
        """The number of rounds of a plan that states none."""

    @property
    @abstractmethod
    def max_rounds(self) -> int:
        """The largest number of rounds that a plan can state."""

    @property
    def n_classes(self) -> int:
        """The number of classes of records that have sums of their own."""
        return 1

    @property
    def value_space(self) -> Manifold:
        """The manifold on which the value, or each part of it, lives."""
        return self.manifold

    @abstractmethod
    def schedule(self, plan: "Plan") -> Schedule:
        """Return the schedule of the rounds of a plan with this kernel.

        Parameters
        ----------
        plan : Plan
            The agreed terms.
        """

    @abstractmethod
    def combine_by_person(self, records: Array, codes: Array) -> Any:
        """Return the contributions of persons, each from their own records alone.

        Parameters
        ----------
        records : array of shape (records, *point_shape)
            The records.
        codes : array of int
            The number of the person to whom each record belongs, from 0 on.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as JSON values, for `kernel_from_dict`.

        Returns
        -------
        dict
            The name of the kernel and its public parameters.
        """
        parameters: dict[str, Any] = {}
        for declared in fields(self):
            value = vars(self)[declared.name]
            if isinstance(value, np.ndarray):
                value = value.tolist()
            if value is not None:
                parameters[declared.name] = value
        return {
            **parameters,
            "name": self.name,
            "manifold": manifold_name(self.manifold),
        }


@dataclass(frozen=True, eq=False)
class BallKernel(Kernel):
    """A statistic whose questions are known in advance (experimental).

    Records are clipped into the public ball first. The masking protocol has not been
    reviewed by outside cryptographers.

    Parameters
    ----------
    manifold : Manifold
        The space in which the records lie.
    radius : float or "private"
        The radius of the public ball. With "private", the first rounds find a ball
        privately, inside an outer public one.
    center : array, optional
        The center of the public ball; the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`, the radius of the public outer ball; a generous one by
        default.
    """

    radius: Any
    center: Any = None
    outer_radius: Any = None

    # The largest number of rows of one person that `combine_by_person` returns.
    max_rows_per_person: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Check the public ball, into which records are clipped, and set its defaults.

        Raises
        ------
        ParameterError
            If the ball is not one of the manifold, or `outer_radius` is given for a
            public radius.
        """
        if self.outer_radius is not None and not self.is_private:
            raise ParameterError(
                "is for a private radius",
                parameter="outer_radius",
                value=self.outer_radius,
            )
        if self.is_private:
            _validate.private_radius(self.radius)
            outer_radius = default_outer_radius(self.manifold, self.outer_radius)
            assign(self, outer_radius=outer_radius)

        ball = public_ball(self.manifold, self.ball.center, self.ball.radius)
        assign(self, center=ball.center)
        if self.is_private:
            assign(self, outer_radius=ball.radius)
        else:
            assign(self, radius=ball.radius)

    @property
    def is_private(self) -> bool:
        """Whether the first rounds find the ball privately."""
        return isinstance(self.radius, str)

    @property
    def ball(self) -> PublicBall:
        """The public ball into which records are clipped."""
        radius = self.outer_radius if self.is_private else self.radius
        return PublicBall(self.manifold, self.center, radius)

    @property
    def max_rounds(self) -> int:
        """The largest number of rounds that a plan can state."""
        return MAX_FIXED_ROUNDS

    def schedule(self, plan: "Plan") -> Schedule:
        """Return the questions of a plan, which are known in advance.

        Parameters
        ----------
        plan : Plan
            The agreed terms.
        """
        return FixedSchedule(plan)

    @abstractmethod
    def choose_questions(
        self, rounds: int, hidden_records: float, count_share: float
    ) -> list[Question]:
        """Return the question of each round, with its fraction of the privacy budget.

        A question says which vector each record contributes to the sum of a round.

        Parameters
        ----------
        rounds : int
            The number of rounds.
        hidden_records : float
            The number of records whose effect on the mean is smaller than the noise of
            the whole budget.
        count_share : float
            The fraction of the budget with which a noisy count reliably shows half of
            the records.

        Returns
        -------
        list of Question
            One for each round; their shares of the budget add up to 1.
        """

    @abstractmethod
    def final_value(self, state_rows: Array, noise: float) -> Array:
        """Return the released value, computed from the public numbers after all rounds.

        Parameters
        ----------
        state_rows : array
            The new public state: one row for each class (`PublicState.to_row`).
        noise : float
            The standard deviation of the noise that remains in a coordinate, in units
            of the radius.

        Returns
        -------
        array
            The value that is published, such as a point of the manifold.
        """

    def questions(self, rounds: int, scale: float, n: int) -> list[Question]:
        """Return the question of each round, if there are enough records for them.

        A question says which vector each record contributes to the sum of a round.

        Parameters
        ----------
        rounds : int
            The number of rounds.
        scale : float
            The noise scale 1/μ of the whole privacy budget.
        n : int
            The number of records of the smallest class.

        Returns
        -------
        list of Question
            One for each round; their shares of the budget add up to 1.

        Raises
        ------
        ParameterError
            If there are too few records for a private ball, or another number of rounds
            than its search needs.
        """
        has_enough = n >= _MIN_RECORDS_TIMES_MU * scale
        if self.is_private and (rounds != self.default_rounds or not has_enough):
            raise ParameterError(
                f"a private ball takes {self.default_rounds} rounds and "
                f"n·μ >= {_MIN_RECORDS_TIMES_MU:g}; there are {rounds} and "
                f"{n / scale:.3g}: agree on a radius"
            )
        count_share = min(_MAX_SHARE, (_CLEAR_COUNT_FACTOR * scale / max(n, 1)) ** 2)
        hidden_records = 2 * sqrt(self.manifold.dim) * scale
        return self.choose_questions(rounds, hidden_records, count_share)

    def search_questions(
        self, hidden_records: float, count_share: float
    ) -> list[Question]:
        """Return the questions that find a ball around most of the records privately.

        The search first asks for a center if the manifold allows that, then for coarse
        steps toward the records, and finally how far the records are from the center.
        If all factors of the manifold are embedded in a vector space, the first center
        needs no coarse step. Any other first center needs one, and the center of the
        public ball needs two.

        Parameters
        ----------
        hidden_records : float
            The number of records whose effect on the mean is smaller than the noise of
            the whole budget.
        count_share : float
            The fraction of the budget with which a noisy count reliably shows half of
            the records.

        Returns
        -------
        list of Question
            The questions of the first rounds, in order.
        """
        ball = self.ball
        coarse_step: list[Question] = [
            CountDistances(ball, max(_COUNTS_SHARE / 4, count_share), hidden_records),
            StepToMean(ball, _COARSE_STEP_SHARE, coarse=True),
        ]

        has_embedding = all(
            isinstance(factor, EmbeddedMean) for factor in self.manifold.factors
        )
        questions: list[Question] = []
        if FirstCenter.factor_indices(self.manifold):
            questions.append(FirstCenter(ball, max(_FIRST_CENTER_SHARE, count_share)))
        elif not has_embedding:
            questions += coarse_step
        if not has_embedding:
            questions += coarse_step
        questions.append(
            CountDistances(ball, max(_COUNTS_SHARE, count_share), hidden_records)
        )
        return questions

    def initial_state_rows(self) -> Array:
        """Return the public state before the first round, one row for each class.

        The first estimate is the center of the public ball. Each row also has the
        factor by which steps toward the mean are shortened, less 1: max(1, 2H/3) − 1.
        Here H = s·coth s bounds the Hessian of half the squared distance half way out
        in the ball, where s = √κ·r/2 for the radius r and curvature at least −κ.

        Returns
        -------
        array of shape (n_classes, row length)
            Equal rows, as `PublicState.to_row` writes them.
        """
        s = self._half_radius_angle
        step_excess = 0.0
        if s > 0:
            step_excess = max(1.0, s / (1.5 * tanh(s))) - 1
        center = self.ball.center
        radius = self.ball.radius
        state = PublicState(
            point=center,
            center=center,
            median_distance=radius,
            radius=radius,
            step_excess=step_excess,
        )
        row = state.to_row()
        return np.repeat(row[np.newaxis], self.n_classes, axis=0)

    @property
    def _half_radius_angle(self) -> float:
        """The number s = √κ·r/2, for a ball of radius r and curvature at least −κ.

        It says how strongly the ball is curved. At the distance r/2 from the center the
        Hessian of half the squared distance is at most H = s·coth s. Steps toward the
        mean are divided by 2H/3, which makes them converge.
        """
        kappa = max(-self.manifold.curvature_bounds[0], 0.0)
        return sqrt(kappa) * self.ball.radius / 2

    def update(
        self,
        question: Question,
        state_rows: Array,
        noisy_sum: Array,
        counts: Sequence[int],
        noise: float,
        averaging_weight: float,
    ) -> Array:
        """Return the public state after a round, one row of numbers for each class.

        Parameters
        ----------
        question : Question
            The question that the round asked.
        state_rows : array
            The public state before the round, one row for each class.
        noisy_sum : array
            The noisy sums of all classes, one after the other.
        counts : sequence of int
            The public number of records of each class.
        noise : float
            The standard deviation of the noise in a coordinate of the sum.
        averaging_weight : float
            The weight of this round's answer in the average with earlier rounds that
            asked the same kind of question.

        Returns
        -------
        array of the shape of `state_rows`
            The new public state of each class.
        """
        states = self.read_states(state_rows)
        class_sums = noisy_sum.reshape(self.n_classes, -1)
        rows = []
        for state, class_sum, count in zip(states, class_sums, counts, strict=True):
            n = max(count, 1)  # nothing is divided by 0
            rows.append(question.update(state, class_sum, n, noise, averaging_weight))
        return np.array(rows)

    def read_states(self, state_rows: Array) -> list[PublicState]:
        """Return the public state of each class, read from its row of numbers.

        The state is what everybody knows between rounds: a point, a ball and a scale.

        Parameters
        ----------
        state_rows : array
            One row for each class, as `PublicState.to_row` writes it.

        Returns
        -------
        list of PublicState
            One state for each class.

        Raises
        ------
        ParameterError
            If the array has a wrong shape, or a point is not on the manifold. This
            never depends on records.
        """
        if state_rows.shape != self.initial_state_rows().shape:
            raise ParameterError(
                "at= does not have the shape of the public state of these classes"
            )
        return [PublicState.from_row(self.manifold, row) for row in state_rows]

    def bounded_rows(
        self, question: Question, state_rows: Array, records: Array, label: int
    ) -> Array:
        """Return the row of numbers that each record contributes to a round's sum.

        The rows of two records are at most `question.row_diameter` apart, which bounds
        the sensitivity of the sum. No warning is issued, because a warning that depends
        on the data would reveal something about them.

        Parameters
        ----------
        question : Question
            The question that the round asks.
        state_rows : array
            The public state before the round, one row for each class.
        records : array of shape (n, *point_shape)
            Records of one class.
        label : int
            The index of this class.

        Returns
        -------
        array of shape (n, question.length)
            One row for each record.
        """
        with np.errstate(all="ignore"):
            state = self.read_states(state_rows)[label]
            return np.asarray(question.rows(state, self.clip_to_ball(records)))

    def agrees_up_to_rounding(self, stated: Array, recomputed: Array) -> bool:
        """Return whether two computations of the public state differ only by rounding.

        Coordinates of points are compared relative to the largest coordinate of their
        row. The numbers at the end of a row (two lengths and a factor) are compared
        relative to themselves.

        Parameters
        ----------
        stated, recomputed : arrays
            The public state as another machine states it and as this one computes it;
            one row for each class.

        Returns
        -------
        bool
            Whether all differences are below a relative 1e-6.
        """
        coordinates = np.abs(recomputed[:, :-_SCALARS_PER_STATE])
        scalars = np.abs(recomputed[:, -_SCALARS_PER_STATE:])
        largest_in_row = coordinates.max(axis=1, keepdims=True)
        scale_of_coordinates = np.broadcast_to(largest_in_row, coordinates.shape)
        scale = np.concatenate([scale_of_coordinates, scalars], axis=1)
        if stated.shape != recomputed.shape:
            return False
        differences = np.abs(stated - recomputed)
        return bool(np.all(differences <= _MACHINE_TOLERANCE * scale))

    def clip_to_ball(self, records: Array) -> Array:
        """Return the records, clipped into the public ball.

        Every record has a clipped one: none raises an error or is dropped.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. Entries may be anything.

        Returns
        -------
        array of the same shape
            Points of the ball.
        """
        return np.asarray(project_to_ball(*self.ball, records))

    def combine_by_person(self, records: Array, codes: Array) -> Array:
        """Return one record for each person: the Fréchet mean of their clipped records.

        Parameters
        ----------
        records : array of shape (records, *point_shape)
            The records.
        codes : array of int
            The number of the person to whom each record belongs, from 0 on.

        Returns
        -------
        array of shape (persons, *point_shape)
            One record for each person.
        """
        return person_means(self.manifold, self.ball[1:], records, codes)


def kernel_from_dict(kernel_dict: Mapping[str, Any]) -> Kernel:
    """Rebuild a kernel from the JSON values that `Kernel.to_dict` returns.

    Parameters
    ----------
    kernel_dict : mapping
        The JSON values.

    Returns
    -------
    Kernel
        The kernel, whose constructor has checked every field.

    Raises
    ------
    ParameterError
        If a name is unknown, or a field is missing or unusable.
    """
    try:
        options = {**kernel_dict}
        name = options.pop("name")
        manifold = parse_manifold(options.pop("manifold"))
        # Its kernel enters itself into the registry.
        import curvedp.federated.clusters  # noqa: F401

        kernel_class = Kernel.registry[name]
        return kernel_class(manifold=manifold, **options)
    except (AttributeError, KeyError, TypeError):
        raise ParameterError("this is not a kernel of a federated sum") from None


@dataclass(frozen=True, eq=False)
class MeanKernel(BallKernel):
    """The Fréchet mean of all records, by a few steps toward it (experimental).

    In each round a record x contributes log_w x − log_w c, clipped to the radius, where
    w is the current estimate and c the center of the ball. If curvature is ≤ 0, the
    logarithm does not stretch, so nothing is cut off at any w; elsewhere little is. The
    masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    manifold : Manifold
        The space in which the records lie.
    radius : float or "private"
        The radius of the public ball. With "private", the first rounds find a ball
        privately, inside an outer public one.
    center : array, optional
        The center of the public ball; the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`, the radius of the public outer ball, which only has to
        be large enough; a generous one by default.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> MeanKernel(SPDAffineInvariant(3), 1.0).radius
    1.0
    """

    name = "mean"
    # The question of the last round.
    last_question_class: ClassVar[type[Question]] = StepToMean

    @property
    def default_rounds(self) -> int:
        """The number of rounds after which further steps toward the mean gain little.

        In a ball of radius r and curvature at least −κ, three steps are enough while
        κ·r² <= 1.5, and five in wider balls. A final question other than a step takes a
        round of its own. With a private radius, the rounds of the search come first,
        and one or two steps refine their result. The numbers were found by simulation
        (benchmarks/studies/federated.py).
        """
        if self.is_private:
            # The number of questions does not depend on the shares of the budget.
            search = self.search_questions(hidden_records=0.0, count_share=0.0)
            asks_for_first_center = bool(FirstCenter.factor_indices(self.manifold))
            final_steps = 2 if asks_for_first_center else 1
            return len(search) + final_steps

        curvature_in_ball = 4 * self._half_radius_angle**2
        is_nearly_flat = curvature_in_ball <= _MAX_FLAT_CURVATURE
        step_rounds = _STEPS_IF_FLAT if is_nearly_flat else _STEPS_IF_CURVED
        if self.last_question_class is StepToMean:
            return step_rounds
        return step_rounds + 1

    def choose_questions(
        self, rounds: int, hidden_records: float, count_share: float
    ) -> list[Question]:
        """Return the questions of all rounds: a search, steps to the mean, a last one.

        The search is for a private ball and is left out in a public ball. The budget
        that it leaves is divided among the later rounds in geometric progression.

        Parameters
        ----------
        rounds : int
            The number of rounds.
        hidden_records : float
            The number of records whose effect on the mean is smaller than the noise of
            the whole budget.
        count_share : float
            The fraction of the budget with which a noisy count reliably shows half of
            the records.

        Returns
        -------
        list of Question
            One for each round; their shares of the budget add up to 1.
        """
        search: list[Question] = []
        if self.is_private:
            search = self.search_questions(hidden_records, count_share)

        # Each later round has _BUDGET_RATIO times the budget of the round before.
        ratios = [_BUDGET_RATIO**k for k in range(rounds - len(search))]
        search_share = sum(question.budget_share for question in search)
        unit_share = (1 - search_share) / sum(ratios)
        *step_shares, last_share = [unit_share * ratio for ratio in ratios]
        steps = [StepToMean(self.ball, share) for share in step_shares]
        last_question = self.last_question_class(self.ball, last_share)
        return [*search, *steps, last_question]

    def final_value(self, state_rows: Array, noise: float) -> Array:
        """Return the mean of each class, shrunk toward the center of its ball.

        The more noise remains, the more a mean is shrunk, which reduces its error. If
        there is only one class, the result is one point.

        Parameters
        ----------
        state_rows : array
            The public state after the last round, one row for each class.
        noise : float
            The standard deviation of the noise that remains in a coordinate, in units
            of the radius.

        Returns
        -------
        array
            A point, or an array of one point for each class.
        """
        class_means = []
        for state in self.read_states(state_rows):
            points = state.point[np.newaxis]  # `shrink_points` takes several points
            class_mean = shrink_points(
                self.manifold, state.center, points, noise * state.radius
            )
            class_means.append(class_mean)
        means = np.concatenate(class_means)
        return means[0] if self.n_classes == 1 else means


@dataclass(frozen=True, eq=False)
class ClassMeansKernel(MeanKernel):
    """The mean of each class, for minimum distance to mean (experimental).

    A record's class is public. The masking protocol has not been reviewed by outside
    cryptographers.

    Parameters
    ----------
    manifold : Manifold
        The space in which the records lie.
    radius : float or "private"
        The radius of the public ball. With "private", the first rounds find a ball
        privately, inside an outer public one.
    center : array, optional
        The center of the public ball; the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`, the radius of the public outer ball; a generous one by
        default.
    count : int
        The number of classes.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> ClassMeansKernel(SPDAffineInvariant(3), 1.0, count=4).count
    4
    """

    count: int = field(default=2, kw_only=True)

    name = "class-means"

    def __post_init__(self) -> None:
        """Check the ball and the number of classes."""
        super().__post_init__()
        assign(self, count=_validate.integer("count", self.count, 1))

    @property
    def n_classes(self) -> int:
        """The number of classes, each with sums of its own."""
        return self.count

    def final_value(self, state_rows: Array, noise: float) -> Array:
        """Return the shrunk mean of each class.

        Parameters
        ----------
        state_rows : array
            The public state after the last round, one row for each class.
        noise : float
            The standard deviation of the noise that remains in a coordinate, in units
            of the radius.

        Returns
        -------
        array of shape (count, *point_shape)
            The means, also if there is one class only.
        """
        means = super().final_value(state_rows, noise)
        return means.reshape(self.count, *self.manifold.point_shape)


@dataclass(frozen=True, eq=False)
class DispersionKernel(MeanKernel):
    """The mean square distance to a private mean (experimental).

    After the rounds of a mean, one asks for d² clipped to [0, r²]. The masking protocol
    has not been reviewed by outside cryptographers.

    Parameters
    ----------
    manifold : Manifold
        The space in which the records lie.
    radius : float or "private"
        The radius of the public ball. With "private", the first rounds find a ball
        privately, inside an outer public one.
    center : array, optional
        The center of the public ball; the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`, the radius of the public outer ball; a generous one by
        default.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> DispersionKernel(Sphere(2), 0.5).name
    'dispersion'
    """

    name = "dispersion"
    min_rounds = 2
    last_question_class = SquaredDistance

    @property
    def value_space(self) -> Manifold:
        """The real line: a dispersion is one number."""
        return Euclidean(1)

    def final_value(self, state_rows: Array, noise: float) -> Array:
        """Return the mean square distance that the last round released.

        Parameters
        ----------
        state_rows : array
            The result of the last round, in one row.
        noise : float
            Not used: nothing is shrunk.

        Returns
        -------
        array of shape (1,)
            The mean square distance, in [0, r²].
        """
        return np.asarray(state_rows[0])


@dataclass(frozen=True, eq=False)
class MomentKernel(BallKernel):
    """Principal components, from the second moment xxᵀ of vectors (experimental).

    Vectors are clipped to the radius. The value has all components as rows, the leading
    one first. The masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    manifold : Euclidean
        The space of the vectors.
    radius : float or "private"
        The length to which vectors are clipped. With "private", the first round finds
        it privately.
    center : array, optional
        The origin, which is the default.
    outer_radius : float, optional
        With `radius="private"`, a public bound on it; a generous one by default.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> MomentKernel(Euclidean(5), 1.0).name
    'second-moment'
    """

    name = "second-moment"
    max_rows_per_person = MAX_ROWS_PER_PERSON

    def __post_init__(self) -> None:
        """Check the ball, and that records are vectors around the origin.

        Raises
        ------
        ParameterError
            If the manifold is not Euclidean(d), or the center is not the origin.
        """
        super().__post_init__()
        euclidean_name = manifold_name(Euclidean(self.manifold.dim))
        is_euclidean = manifold_name(self.manifold) == euclidean_name
        if not is_euclidean or np.any(self.center):
            raise ParameterError(
                "the second moment is of vectors: Euclidean(d), about the origin"
            )

    @property
    def default_rounds(self) -> int:
        """One round, or two if the first has to find the radius."""
        return 2 if self.is_private else 1

    def choose_questions(
        self, rounds: int, hidden_records: float, count_share: float
    ) -> list[Question]:
        """Return the question for the second moment of vectors x, the mean of xxᵀ.

        If the radius is private, a question for the distances of the records comes
        first.

        Parameters
        ----------
        rounds : int
            The number of rounds.
        hidden_records : float
            The number of records whose effect on the moment is smaller than the noise
            of the whole budget.
        count_share : float
            The fraction of the budget with which a noisy count reliably shows half of
            the records.

        Returns
        -------
        list of Question
            One or two questions; their shares of the budget add up to 1.

        Raises
        ------
        ParameterError
            If the number of rounds is not the one that these questions take.
        """
        if rounds != self.default_rounds:
            raise ParameterError(
                f": the second moment takes {self.default_rounds}",
                parameter="rounds",
                value=rounds,
            )
        if not self.is_private:
            return [SecondMomentRows(self.ball, 1.0)]
        search_share = max(_COUNTS_SHARE, count_share)
        return [
            CountDistances(self.ball, search_share, hidden_records),
            SecondMomentRows(self.ball, 1 - search_share),
        ]

    def read_states(self, state_rows: Array) -> list[PublicState]:
        """Return the public state of the only class, in a list.

        If the radius is public, it replaces the one that the server states: with rows
        clipped to a smaller radius, a person would contribute more than the sensitivity
        allows.

        Parameters
        ----------
        state_rows : array
            The public state between rounds, as one row of numbers.

        Returns
        -------
        list of PublicState
            The state, in a list of one.
        """
        states = super().read_states(state_rows)
        if self.is_private:
            return states
        return [state._replace(radius=self.radius) for state in states]

    def combine_by_person(self, records: Array, codes: Array) -> Array:
        """Scale vectors so that each person contributes the mean of xxᵀ of their own.

        Parameters
        ----------
        records : array of shape (records, dim)
            The vectors x.
        codes : array of int
            The number of the person to whom each vector belongs, from 0 on.

        Returns
        -------
        array
            At most `max_rows_per_person` vectors for each person.

        Raises
        ------
        ParameterError
            If the radius is found privately, so that vectors cannot be clipped before.
        """
        if self.is_private:
            raise ParameterError("a person's moments need a radius that is agreed on")
        return person_rows(clip_rows(self.clip_to_ball(records), self.radius), codes)

    def final_value(self, state_rows: Array, noise: float) -> Array:
        """Return the eigenvectors of the noisy second moment, the leading one first.

        Parameters
        ----------
        state_rows : array
            The coordinates of the noisy moment, in one row.
        noise : float
            Not used: nothing is shrunk.

        Returns
        -------
        array of shape (dim, dim)
            One unit eigenvector in each row, of arbitrary sign.
        """
        moment = vector_to_symmetric(state_rows[0], self.manifold.dim)
        _, eigenvectors = np.linalg.eigh(moment)
        return np.asarray(eigenvectors[:, ::-1].T)
