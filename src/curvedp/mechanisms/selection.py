"""Choosing among private releases: "ten radii, publish the best" at an honest price.

Each run draws one of the candidates and releases its value with a score. How many runs
there are is random and never told, and the run with the best score is published
(Papernot & Steinke 2022; `curvedp.privacy.selection`). The certificate states what ONE
run was told to meet, which the caller vouches for; `verify` recomputes the price from
there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from flint import arb

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ChoiceRule, ProtectedUnit, SamplingPath
from curvedp.core.fields import Count
from curvedp.core.mechanism import (
    Choice,
    Draw,
    Mechanism,
    MechanismInfo,
    ReleaseTerms,
    check_guarantee,
    check_source,
    check_supported,
    replay_draws,
)
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.geometry.manifold import Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.chart import GRID
from curvedp.numerics.enclosures import decide
from curvedp.privacy import Guarantee, NegativeBinomialRuns, PrivacyUnit
from curvedp.privacy.guarantees.base import ADJACENCIES, guarantee_from_dict
from curvedp.privacy.unit import check_unit
from curvedp.randomness import Source
from curvedp.randomness.lazy_reals import LazyUniforms

# By default there are about this many runs for each candidate.
_RUNS_PER_CANDIDATE = 3.0

# Runs a candidate, given by its number, and returns its score and value.
RunCandidate = Callable[[int], tuple[float, Any]]


class Selection(NamedTuple):
    """The best run: its candidate, value and score, and why they may be published."""

    candidate: Any
    value: Any
    score: float
    certificate: Certificate


def private_selection(
    candidates: Sequence[Any],
    release: Callable[[Any, Guarantee, Source], tuple[float, Any]],
    guarantee: Guarantee,
    runs: NegativeBinomialRuns | None = None,
    ledger: Ledger | None = None,
    label: str = "best of several releases",
    source: Source | None = None,
    unit: PrivacyUnit | str | None = None,
) -> Selection:
    """Release the best of a random number of private runs, and pay once.

    Parameters
    ----------
    candidates : sequence
        What is chosen from: radii, settings, models. It is public; each run draws one,
        all with the same probability.
    release : function of (candidate, guarantee, source)
        One run: returns (score, value), the larger score the better. Both together must
        meet the guarantee that it is given, for which the caller vouches.
    guarantee : PureDP or ApproxDP
        For all of it.
    runs : NegativeBinomialRuns, optional
        The law of the number of runs; by default logarithmic with a mean of about three
        for each candidate.
    ledger : Ledger, optional
        Charged once, before the first run.
    label : str
        What the ledger's entry is called.
    source : Source, optional
        Where random bits come from.
    unit : PrivacyUnit or str, optional
        Whose data every run protects, "record" or "person", for the ledger's entry; a
        ledger that counts for the other one refuses.

    Notes
    -----
    Guarantees
    - `guarantee` for the candidate, the value and the score together, if every run meets
      what it is given (Papernot & Steinke 2022). How long it takes tells how many runs
      there were: do not tell it;
    - whatever is refused is refused before anything is run. A certificate of the value
      itself, where it has one, states the price of one run and not of the choice.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LaplaceMechanism
    >>> from curvedp.privacy import PureDP
    >>> x = np.random.default_rng(0).normal(0.3, 0.1, 500)
    >>> def release(cut, budget, source):
    ...     noise = LaplaceMechanism.calibrated(Euclidean(1), sensitivity=1.0, guarantee=budget)
    ...     return float(noise.release([np.sum(x > cut)], source=source).value[0]), cut
    >>> private_selection([0.1, 0.5], release, PureDP(1.0)).candidate in (0.1, 0.5)
    True
    """
    from curvedp.release.pay import check_payer, pay

    check_guarantee(guarantee, *ADJACENCIES)
    if runs is not None and not isinstance(runs, NegativeBinomialRuns):
        raise ParameterError(
            "must be NegativeBinomialRuns(stop, shape)", parameter="runs", value=runs
        )
    is_sequence = isinstance(candidates, Sequence | np.ndarray)
    candidate_list = list(candidates) if is_sequence else []
    if not callable(release) or not candidate_list:
        raise ParameterError(
            "candidates must be a sequence of at least one, and release a function that "
            "runs one of them"
        )
    check_payer(ledger, label)
    statistic = BestRelease(len(candidate_list), guarantee.adjacency)
    mechanism = SelectionMechanism.calibrate(statistic, guarantee, runs=runs)
    run_guarantee = guarantee_from_dict(mechanism.run)
    checked_source = check_source(source)
    ledger_entry = pay(ledger, label, guarantee, [mechanism], check_unit("unit", unit))

    def run_candidate(number: int) -> tuple[float, Any]:
        result = release(candidate_list[number], run_guarantee, checked_source)
        return _score_and_value(result)

    released = mechanism.release(
        run_candidate,
        source=checked_source,
        terms=ReleaseTerms(
            guarantee, choice=Choice(ChoiceRule.ONLY_ONE), ledger_entry=ledger_entry
        ),
    )
    number, score, value = released.value
    return Selection(candidate_list[number], value, score, released.certificate)


def _score_and_value(result: Any) -> tuple[float, Any]:
    """Return the score of a run as a float, NaN as the worst, and its value.

    No message quotes what is not yet released.
    """
    try:
        score, value = result
        score = np.ma.asarray(score, dtype=np.float64).filled(-inf).item()
    except (OverflowError, TypeError, ValueError):
        raise ParameterError(
            "release must return (score, value), and the score must be one number"
        ) from None
    is_nan = score != score
    return (-inf if is_nan else score), value


@dataclass(frozen=True, eq=False)
class BestRelease(Statistic):
    """The best of releases of so many candidates, each private for this adjacency."""

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
        """Of no meaning here: each run is private on its own."""
        return 1.0


class BestRun(NamedTuple):
    """The best run so far."""

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
        Of the law of the number of runs.
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
        return isinstance(statistic, BestRelease)

    @classmethod
    def calibrate(
        cls,
        statistic: Statistic,
        guarantee: Guarantee,
        runs: NegativeBinomialRuns | None = None,
    ) -> Self:
        """Return runs that meet what it takes for the best to meet the guarantee."""
        check_supported(cls, statistic)
        assert isinstance(statistic, BestRelease)
        check_guarantee(guarantee, *ADJACENCIES)
        law = runs
        if law is None:
            law = NegativeBinomialRuns.of_mean(
                _RUNS_PER_CANDIDATE * statistic.candidates
            )
        run, order = law.one_of(replace(guarantee, adjacency=statistic.adjacency))
        return cls(
            statistic=statistic,
            stop=law.stop,
            shape=law.shape,
            run=run.to_dict(),
            order=order,
        )

    @property
    def run_count_law(self) -> NegativeBinomialRuns:
        """The law of the number of runs."""
        return NegativeBinomialRuns(self.stop, self.shape)

    @cached_property
    def privacy_profile(self) -> Guarantee:
        """What the best of a random number of runs promises (Papernot & Steinke 2022)."""
        run = guarantee_from_dict(self.run)
        if run.adjacency != self.statistic.adjacency:
            raise ParameterError("the runs have another adjacency than is stated")
        return self.run_count_law.best(run, self.order)

    def prepare_data(self, data: RunCandidate) -> RunCandidate:
        return data

    def draw(self, data: RunCandidate, source: Source) -> Draw:
        """Make the runs and keep the best; of ties the first, since runs are alike."""
        n_candidates = np.uint64(self.statistic.candidates)
        n_runs = draw_run_count(self.run_count_law, LazyUniforms(source, 1).balls)
        best: BestRun | None = None
        for _ in range(n_runs):
            number = int(source.words((1,))[0] % n_candidates)
            score, value = data(number)
            if best is None or score > best.score:
                best = BestRun(number, score, value)
        assert best is not None  # there is at least one run
        return Draw(best, [np.array([best.number])], None)

    def post_process(self, value: BestRun) -> BestRun:
        return value

    def reconstruct_value(self, certificate: Certificate) -> int:
        """Return the number of the candidate that was published."""
        drawn = replay_draws(certificate.release["integers"])(np.empty(1))
        number = float(drawn[0]) * 2.0**GRID
        if number not in range(self.statistic.candidates):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return int(number)


def draw_run_count(
    law: NegativeBinomialRuns, uniform: Callable[[int], list[arb]]
) -> int:
    """Draw the number of runs by inversion of its distribution function.

    The uniform variate is known to any number of bits, and every comparison is decided
    with certainty: the law is the one that is charged for, and nothing is cut off.

    Parameters
    ----------
    law : NegativeBinomialRuns
    uniform : function of a number of bits
        Returns the variate as an interval of that precision.
    """

    def invert(bits: int) -> int | None:
        """Return the count whose interval of cumulated probability holds u; None if undecided."""
        (u,) = uniform(bits)
        stop = arb(law.stop)
        shape = arb(law.shape)
        if law.shape:
            normalizer = shape / (-shape * stop.log()).expm1()
        else:
            normalizer = -1 / stop.log()
        count = 1
        probability = (1 - stop) * normalizer
        cumulative = probability
        while u > cumulative:
            count += 1
            probability *= (1 - stop) * (count - 1 + shape) / count
            cumulative += probability
        return count if u < cumulative else None

    return decide(invert)
