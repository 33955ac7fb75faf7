"""What the rounds of a plan ask, one after the other, and what follows from their sums.
Several sites release a statistic together, by one noisy sum per round. A `Schedule`
tells server and sites which sum is formed next. It depends only on the plan and on the
sums that were released so far.

In a `FixedSchedule` the questions of all rounds are known in advance, and only the
points at which they are asked depend on earlier rounds.
`curvedp.federated.cluster_schedule` has the other kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from curvedp.federated.plan import Plan


class Round(NamedTuple):
    """What a round has released.

    Attributes
    ----------
    total : sequence of int
        The noisy sum, in units of the round's grid.
    surviving_sites : sequence of int
        The indices of the sites in the sum.
    """

    total: Sequence[int]
    surviving_sites: Sequence[int]


@dataclass(frozen=True)
class RoundTerms:
    """The public terms of the noisy sum that one round forms.

    Attributes
    ----------
    index : int
        The number of the round.
    public_state : JSON value
        The public state before the round. The question depends on it, and the server
        sends it to all sites.
    length : int
        The number of entries of the sum.
    sensitivity : float
        The ℓ₂ sensitivity of the sum, in units of the grid.
    variance : int
        The variance of the honest sites' noise together, in units of the grid.
    layers : list of Fraction
        The variances of the layers in which a site draws its noise.
    exponent : int
        The k of the grid 2^-k.
    details : mapping
        Further facts about the round for its record in a certificate.
    """

    index: int
    public_state: Any
    length: int
    sensitivity: float
    variance: int
    layers: Sequence[Fraction]
    exponent: int
    details: Mapping[str, Any] = field(default_factory=dict)


class Schedule(ABC):
    """The sums that the rounds of a plan form (experimental).

    The masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    plan : Plan
        The agreed terms.
    """

    def __init__(self, plan: "Plan") -> None:
        """Store the plan.

        Parameters
        ----------
        plan : Plan
            The agreed terms.
        """
        self.plan = plan

    @property
    @abstractmethod
    def exponents(self) -> list[int]:
        """The exponent k of the grid 2^-k of each round."""

    @property
    @abstractmethod
    def slack(self) -> float:
        """A bound on the total variation between the noise of all rounds and its ideal."""

    @abstractmethod
    def check(self) -> None:
        """Raise `ParameterError` if the noise of a round cannot be drawn or added up."""

    def few_records_warning(self) -> str | None:
        """Return why the released value will be mostly noise, or None if it need not be.

        It follows from the plan alone.
        """
        return None

    @abstractmethod
    def next_sum(self, rounds: Sequence[Round]) -> RoundTerms | None:
        """Return the terms of the sum that is formed next, or None after the last one.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of the rounds so far.
        """

    @abstractmethod
    def terms_of_rounds(self, rounds: Sequence[Round]) -> list[RoundTerms]:
        """Return the terms of all sums of a finished run.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds.

        Raises
        ------
        ParameterError
            If these are not the rounds of a finished run.
        """

    @abstractmethod
    def read_questions(self, index: int, stated: Any) -> list[RoundTerms]:
        """Return the terms of a round, after the terms of all rounds before it.

        Parameters
        ----------
        index : int
            The number of the round.
        stated : object
            The public state before the round, as it arrived from the server, which may
            send anything.

        Returns
        -------
        list of RoundTerms
            The last one is the question of the round. Those before it are the questions
            of earlier rounds that follow from the stated state, if there are such: a site that
            has answered other ones was told another past.

        Raises
        ------
        ParameterError
            If nothing is asked after this state. This never depends on records.
        """

    @abstractmethod
    def site_sum(
        self, round_terms: RoundTerms, class_rows: Sequence[Any]
    ) -> np.ndarray:
        """Return a site's part of a sum, before noise and masks. It is NOT private.

        Parameters
        ----------
        round_terms : RoundTerms
            What `read_questions` returned for the round.
        class_rows : sequence
            The site's contributions, one entry for each class.

        Returns
        -------
        array of int64, shape (asked.length,)
            The sum over the site's records, in units of the grid.
        """

    @abstractmethod
    def value(self, rounds: Sequence[Round]) -> Any:
        """Return the released value, computed from the noisy sums of all rounds.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds.

        Raises
        ------
        ParameterError
            If these are not the rounds of a finished run.
        """

    @abstractmethod
    def confirmed_questions(
        self, rounds: Sequence[Round], stated_states: Sequence[Any]
    ) -> list[RoundTerms]:
        """Return the questions that follow from the sums of a run.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds, as the server states them.
        stated_states : sequence
            The public states as the server states them.

        Returns
        -------
        list of RoundTerms
            The question of each round. A round whose stated state does not follow from
            the sums is left out.
        """

    def stated_states(self, public_states: Sequence[Any]) -> list[Any]:
        """Return the public states that the server sends to sites that are to sign.

        Parameters
        ----------
        public_states : sequence
            The public state before each round.
        """
        return list(public_states)

    def released_integers(
        self, round_terms: RoundTerms, total: Sequence[int] | np.ndarray
    ) -> list[int]:
        """Return the integers that are released of a noisy sum.

        Parameters
        ----------
        round_terms : RoundTerms
            The terms of the sum.
        total : sequence of int
            The noisy sum, in units of the grid.
        """
        return [int(number) for number in total]


class FixedSchedule(Schedule):
    """Rounds whose questions are known in advance, for a kernel with a public ball.

    The public state before a round is an array of numbers: the point at which it asks,
    for each class.
    """

    @property
    def exponents(self) -> list[int]:
        """The exponent k of the grid 2^-k of each round."""
        return [self.plan.grid_exponent(index) for index in self._indices]

    @property
    def slack(self) -> float:
        """A bound on the total variation between the noise of all rounds and its ideal."""
        return sum(
            self.plan.slack_of(self.plan.sum_length(index)) for index in self._indices
        )

    @property
    def _indices(self) -> range:
        """The numbers of all rounds."""
        return range(self.plan.rounds or 0)

    def check(self) -> None:
        """Raise `ParameterError` if the noise of a round cannot be drawn."""
        for index in self._indices:
            self.plan.noise_layers(index)

    def next_sum(self, rounds: Sequence[Round]) -> RoundTerms | None:
        """Return the terms of the sum that is formed next, or None after the last one.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of the rounds so far.
        """
        if len(rounds) >= len(self._indices):
            return None
        return self._round_terms(len(rounds), self.plan.replay(rounds)[-1].tolist())

    def terms_of_rounds(self, rounds: Sequence[Round]) -> list[RoundTerms]:
        """Return the terms of all sums of a finished run, without public states.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds. Not used: all terms are known in advance.
        """
        return [self._round_terms(index, None) for index in self._indices]

    def read_questions(self, index: int, stated: Any) -> list[RoundTerms]:
        """Return the terms of a round for a public state that the server states.

        Parameters
        ----------
        index : int
            The number of the round.
        stated : object
            The server's message, which may be anything.

        Raises
        ------
        ParameterError
            If a point in it is not on the manifold, or its shape is another one.
        """
        state_rows = np.array(stated, dtype=np.float64)
        self.plan.ball_kernel.read_states(state_rows)
        return [self._round_terms(index, state_rows.tolist())]

    def site_sum(
        self, round_terms: RoundTerms, class_rows: Sequence[Any]
    ) -> np.ndarray:
        """Return a site's sums over its records of each class.

        Parameters
        ----------
        round_terms : RoundTerms
            The question of the round.
        class_rows : sequence of arrays
            The records of each class.
        """
        state_rows = np.array(round_terms.public_state, dtype=np.float64)
        class_sums = [
            self.plan.rounded_sum(round_terms.index, state_rows, records, label)
            for label, records in enumerate(class_rows)
        ]
        return np.asarray(np.sum(class_sums, axis=0))

    def value(self, rounds: Sequence[Round]) -> Any:
        """Return the released value, computed from the noisy sums of all rounds.

        The last rounds that ask the same kind of question are averaged with weights
        inverse to their variances. The noise that remains in the average determines how
        far the value is shrunk toward the center of the ball.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds.
        """
        plan = self.plan
        precisions = []
        for index in plan.rounds_averaged_with(len(rounds) - 1):
            surviving_sites = rounds[index].surviving_sites
            smallest_class = max(min(plan.class_counts(surviving_sites)), 1)
            noise_of_mean = plan.noise_std(index, surviving_sites) / smallest_class
            precisions.append(noise_of_mean**-2.0)

        final_state = plan.replay(rounds)[-1]
        remaining_noise = sum(precisions) ** -0.5
        return plan.ball_kernel.final_value(final_state, remaining_noise)

    def confirmed_questions(
        self, rounds: Sequence[Round], stated_states: Sequence[Any]
    ) -> list[RoundTerms]:
        """Return the questions at stated points that agree with a replay, up to rounding.

        Parameters
        ----------
        rounds : sequence of Round
            The released sums of all rounds, as the server states them.
        stated_states : sequence
            The public states as the server states them.
        """
        kernel = self.plan.ball_kernel
        recomputed_states = self.plan.replay(rounds)[: len(self._indices)]
        confirmed = []
        for index, (stated, recomputed) in enumerate(
            zip(stated_states, recomputed_states, strict=False)
        ):
            state_rows = np.array(stated, dtype=np.float64)
            if kernel.agrees_up_to_rounding(state_rows, recomputed):
                confirmed.append(self._round_terms(index, state_rows.tolist()))
        return confirmed

    def _round_terms(self, index: int, public_state: Any) -> RoundTerms:
        """Return the terms of the sum of a round.

        Parameters
        ----------
        index : int
            The number of the round.
        public_state : JSON value
            The public state before the round.
        """
        plan = self.plan
        return RoundTerms(
            index=index,
            public_state=public_state,
            length=plan.sum_length(index),
            sensitivity=plan.sensitivity_of(index),
            variance=plan.noise_variance(index),
            layers=plan.noise_layers(index),
            exponent=plan.exponents[index],
        )
