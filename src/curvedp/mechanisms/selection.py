"""The mechanism that publishes the best of a random number of private runs.
Each run draws one of the candidates and releases its value with a score. The number of
runs is random and stays secret; the run with the best score is published (Papernot &
Steinke 2022; `curvedp.privacy.selection`). The certificate states the guarantee of ONE
run, for which the caller vouches, and `verify` recomputes the price from it.
`curvedp.release.selection.private_selection` is what users call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from flint import arb

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.core.chart import GRID
from curvedp.core.codes import ProtectedUnit, SamplingPath
from curvedp.core.fields import Count
from curvedp.core.mechanism import (
    Draw,
    Mechanism,
    MechanismInfo,
    check_guarantee,
    check_supported,
    replay_draws,
)
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.enclosures import decide
from curvedp.privacy import Guarantee, NegativeBinomialRuns, PrivacyCurve
from curvedp.privacy.curve import ADJACENCIES
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.randomness import Source
from curvedp.randomness.lazy_reals import LazyUniforms

# By default there are about this many runs for each candidate.
_RUNS_PER_CANDIDATE = 3.0

# Runs a candidate, given by its number, and returns its score and value.
RunCandidate = Callable[[int], tuple[float, Any]]


@dataclass(frozen=True, eq=False)
class BestRelease(Statistic):
    """The best of the releases of several candidates, each private for an adjacency."""

    candidates: Count
    adjacency: Annotated[str, partial(_validate.choice, options=ADJACENCIES)]

    name: ClassVar[str] = "best of repeated releases"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (ProtectedUnit.AS_IN_EACH_RUN,)

    @property
    def value_space(self) -> Manifold:
        """The candidate's number is on a line."""
        return Euclidean(1)

    @property
    def sensitivity(self) -> float:
        """1, which has no effect: each run adds noise for a sensitivity of its own."""
        return 1.0


class BestRun(NamedTuple):
    """The run with the largest score so far: its candidate, the score and the value."""

    number: int
    score: float
    value: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectionMechanism(Mechanism):
    """The best of a random number of runs.

    `release` takes a function that runs a candidate, given by its number.

    Attributes
    ----------
    stop, shape : float
        The parameters of the negative binomial distribution of the number of runs.
    run : mapping
        The guarantee of one run.
    order : float or None
        The Rényi order by which the price was computed.
    """

    if TYPE_CHECKING:
        statistic: BestRelease

    stop: float
    shape: float
    run: Mapping[str, Any]
    order: float | None

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "private-selection", reads="records", sampling=SamplingPath.FLOAT64
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is the best of repeated releases, as is needed."""
        return isinstance(statistic, BestRelease)

    @classmethod
    def calibrate(
        cls,
        statistic: Statistic,
        guarantee: Guarantee,
        runs: NegativeBinomialRuns | None = None,
    ) -> Self:
        """Return the mechanism for which publishing the best run meets a guarantee.

        The guarantee that each single run must then satisfy is in its field `run`.

        Parameters
        ----------
        statistic : BestRelease
            The number of candidates, and the adjacency of neighboring data sets.
        guarantee : Guarantee
            The guarantee that the release of the best run must satisfy.
        runs : NegativeBinomialRuns, optional
            The distribution of the random number of runs. By default it has a mean of
            three runs for each candidate.

        Returns
        -------
        SelectionMechanism
            The mechanism.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, BestRelease)
        check_guarantee(guarantee, *ADJACENCIES)
        run_count = runs
        if run_count is None:
            mean_runs = _RUNS_PER_CANDIDATE * statistic.candidates
            run_count = NegativeBinomialRuns.of_mean(mean_runs)
        run, order = run_count.one_of(replace(guarantee, adjacency=statistic.adjacency))
        return cls(
            statistic=statistic,
            stop=run_count.stop,
            shape=run_count.shape,
            run=run.to_dict(),
            order=order,
        )

    @property
    def run_count_distribution(self) -> NegativeBinomialRuns:
        """The distribution of the number of runs."""
        return NegativeBinomialRuns(self.stop, self.shape)

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The guarantee of the best of a random number of runs (Papernot & Steinke 2022)."""
        run = guarantee_from_dict(self.run)
        if run.adjacency != self.statistic.adjacency:
            raise ParameterError("the runs have another adjacency than is stated")
        return self.run_count_distribution.best(run, self.order)

    def prepare_data(self, data: RunCandidate) -> RunCandidate:
        """Return the function that runs candidates, unchanged.

        Parameters
        ----------
        data : function of a candidate's number
            Makes one private run of that candidate, and returns its score and value.
        """
        return data

    def draw(self, data: RunCandidate, source: Source) -> Draw:
        """Run random candidates a random number of times, and return the best run.

        The best run is the first one with the highest score.

        Parameters
        ----------
        data : function of a candidate's number
            Makes one private run of that candidate, and returns its score and value.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The best run; its integer is the number of its candidate.
        """
        n_candidates = np.uint64(self.statistic.candidates)
        n_runs = draw_run_count(
            self.run_count_distribution, LazyUniforms(source, 1).balls
        )
        best: BestRun | None = None
        for _ in range(n_runs):
            # A random word of 64 bits picks the candidate.
            candidate = int(source.words((1,))[0] % n_candidates)
            score, value = data(candidate)
            if best is None or score > best.score:
                best = BestRun(candidate, score, value)
        assert best is not None  # there is at least one run
        return Draw(best, [np.array([best.number])], None)

    def post_process(self, value: BestRun) -> BestRun:
        """Return the best run unchanged.

        Parameters
        ----------
        value : BestRun
            The run, with the number of its candidate, its score and its value.
        """
        return value

    def reconstruct_value(self, certificate: Certificate) -> int:
        """Return the number of the candidate that was published.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release, which lists this number as its only integer.

        Returns
        -------
        int
            The number, from 0.

        Raises
        ------
        ParameterError
            If the integer is not the number of a candidate.
        """
        next_draw = replay_draws(certificate.release["integers"])
        # A replayed draw is the integer times the grid width 2^-GRID.
        number = float(next_draw(np.empty(1))[0]) * 2.0**GRID
        if number not in range(self.statistic.candidates):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return int(number)


def draw_run_count(
    distribution: NegativeBinomialRuns, uniform: Callable[[int], list[arb]]
) -> int:
    """Draw the number of runs by inversion of its distribution function.

    The count is the least k with P(number of runs ≤ k) > u, where u is a uniform random
    number. All numbers are intervals. If an interval is too wide to decide a
    comparison, the inversion is repeated with more bits of u, so that the count has
    exactly the stated distribution.

    Parameters
    ----------
    distribution : NegativeBinomialRuns
        The truncated negative binomial distribution of the number of runs (at least 1),
        with its parameters `stop` (γ) and `shape` (η).
    uniform : function of a number of bits
        Returns u as an interval of that precision, in a list of length 1.

    Returns
    -------
    int
        The number of runs.
    """

    def invert(bits: int) -> int | None:
        """Return the number of runs, or None if so many bits of u do not decide it.

        Parameters
        ----------
        bits : int
            The precision of the uniform number u.
        """
        (u,) = uniform(bits)
        return _least_count_above(distribution, u)

    return decide(invert)


def _least_count_above(distribution: NegativeBinomialRuns, u: arb) -> int | None:
    """Return the least k with P(number of runs ≤ k) > u, if the interval u decides it.

    The probabilities are added up from P(1 run) on, each from the one before.

    Parameters
    ----------
    distribution : NegativeBinomialRuns
        The distribution of the number of runs.
    u : arb
        An interval that contains a uniform random number.

    Returns
    -------
    int or None
        The number of runs; None if the interval is too wide.
    """
    stop = arb(distribution.stop)
    shape = arb(distribution.shape)
    count = 1
    probability = _probability_of_one_run(stop, shape)
    cumulative = probability
    # A comparison of intervals is true only if it is certain.
    while u > cumulative:
        count += 1
        ratio_to_previous = (1 - stop) * (count - 1 + shape) / count
        probability *= ratio_to_previous
        cumulative += probability
    return count if u < cumulative else None


def _probability_of_one_run(stop: arb, shape: arb) -> arb:
    """Return P(1 run) = (1 − γ)·η/(γ^−η − 1), or its limit for η → 0.

    Parameters
    ----------
    stop, shape : arb
        The parameters γ and η of the distribution of the number of runs.
    """
    if shape == 0:
        normalizer = -1 / stop.log()
    else:
        normalizer = shape / (-shape * stop.log()).expm1()
    return (1 - stop) * normalizer
