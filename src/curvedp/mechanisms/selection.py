"""Choosing among private releases: "ten radii, publish the best" at an honest price (`privacy.selection`).

Each run draws one of the candidates and releases its value with a score; how many runs there are is random and never told,
and the one with the best score is published. The certificate states what ONE run was told to meet, which the caller vouches
for; `verify` recomputes the price from there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from flint import arb

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.entropy.bits import LazyUniforms
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import (
    FLOAT,
    Draw,
    Mechanism,
    check_guarantee,
    check_source,
    replay,
)
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.payment import check_payer, pay
from curvedp.mechanisms.statistic import Count, Statistic
from curvedp.numerics.enclosures import decide
from curvedp.privacy import Guarantee, NegativeBinomialRuns, PrivacyUnit
from curvedp.privacy.guarantees.base import ADJACENCIES, guarantee_from_dict
from curvedp.privacy.unit import check_unit


class Selection(NamedTuple):
    """The best run: its candidate, the value and the score that it released, and why they may be published."""

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
    """Release one of several candidates, the best of a random number of private tries, and pay once.

    Parameters
    ----------
    candidates : sequence
        What is chosen from: radii, settings, models. Public; each run draws one, all alike.
    release : function of (candidate, guarantee, source)
        One run: returns (score, value), the larger score the better. Both together must meet the guarantee that it is given,
        for which the caller vouches.
    guarantee : PureDP or ApproxDP
        For all of it.
    runs : NegativeBinomialRuns, optional
        The law of the number of runs; by default logarithmic with a mean of about three for each candidate.
    ledger, label, source : Ledger, str and Source, optional
        Charged once, before the first run, what its entry is called, and where the bits come from.
    unit : PrivacyUnit or str, optional
        Whose data every run protects, "record" or "person", for the ledger's entry; a ledger
        that counts for the other one refuses.

    Notes
    -----
    Guarantees
    - `guarantee` for the candidate, the value and the score together, if every run meets what it is given (Papernot and
      Steinke 2022). How long it takes tells how many runs there were: do not tell it;
    - whatever is refused is refused before anything is run. A certificate of the value itself, where it has one, states the
      price of one run and not of the choice.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.mechanisms import LaplaceMechanism
    >>> from curvedp.privacy import PureDP
    >>> x = np.random.default_rng(0).normal(0.3, 0.1, 500)
    >>> def release(cut, budget, source):
    ...     counted = LaplaceMechanism.calibrated(Euclidean(1), sensitivity=1.0, guarantee=budget)
    ...     return float(counted.release([np.sum(x > cut)], source=source).value[0]), cut
    >>> private_selection([0.1, 0.5], release, PureDP(1.0)).candidate in (0.1, 0.5)
    True
    """
    check_guarantee(guarantee, *ADJACENCIES)
    if runs is not None and not isinstance(runs, NegativeBinomialRuns):
        raise ParameterError(
            "must be NegativeBinomialRuns(stop, shape)", parameter="runs", value=runs
        )
    candidates = (
        list(candidates) if isinstance(candidates, Sequence | np.ndarray) else []
    )
    if not callable(release) or not candidates:
        needed = (
            "a sequence of at least one, and release a function that runs one of them"
        )
        raise ParameterError(f"candidates must be {needed}")
    check_payer(ledger, label)
    unit = check_unit("unit", unit)
    statistic = BestRelease(len(candidates), guarantee.adjacency)
    mechanism = SelectionMechanism.for_statistic(statistic, guarantee, runs=runs)
    run, source = guarantee_from_dict(mechanism.run), check_source(source)
    paid = pay(ledger, label, guarantee, [mechanism], unit)

    def one(number: int) -> tuple[float, Any]:
        found = release(candidates[number], run, source)
        try:
            score, value = found
            score = np.ma.asarray(score, dtype=np.float64).filled(-inf).item()
        except (
            OverflowError,
            TypeError,
            ValueError,
        ):  # whose message may quote what is not yet released
            raise ParameterError(
                "release must return (score, value), and the score must be one number"
            ) from None
        return (score if score == score else -inf), value

    found = mechanism.release(
        one,
        source=source,
        guarantee=guarantee,
        reason="a choice was asked for",
        entry=paid,
    )
    number, score, value = found.value
    return Selection(candidates[number], value, score, found.certificate)


@dataclass(frozen=True, eq=False)
class BestRelease(Statistic):
    """The best of releases of so many candidates, each of which is private for this adjacency."""

    candidates: Count
    adjacency: Annotated[str, partial(_validate.choice, options=ADJACENCIES)]

    name: ClassVar[str] = "best of repeated releases"
    unit: ClassVar[str] = "as in each of the releases that were chosen from"
    units: ClassVar[tuple[str, ...]] = ()
    privacy_unit: ClassVar[PrivacyUnit | None] = None  # that of the runs
    valued: ClassVar[bool] = False

    space = Euclidean(1)  # the candidate's number
    sensitivity = 1.0  # of no meaning here: each run is private on its own


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectionMechanism(Mechanism):
    """The best of a random number of runs. `release` takes a function that runs a candidate, given by its number."""

    stop: float
    shape: float
    run: Mapping[str, Any]
    order: float | None

    name: ClassVar[str] = "private-selection"
    grid = 0  # the candidate's number
    reads: ClassVar[Literal["value", "records"]] = "records"
    path: ClassVar[str] = FLOAT
    of: ClassVar[Any] = BestRelease

    @classmethod
    def for_statistic(
        cls,
        statistic: Any,
        guarantee: Guarantee,
        runs: NegativeBinomialRuns | None = None,
    ) -> Self:
        """Runs that meet what it takes; by default about three for each candidate."""
        law = (
            NegativeBinomialRuns.of_mean(3.0 * statistic.candidates)
            if runs is None
            else runs
        )
        run, order = law.one_of(
            replace(
                check_guarantee(guarantee, *ADJACENCIES), adjacency=statistic.adjacency
            )
        )
        return cls(
            statistic=statistic,
            stop=law.stop,
            shape=law.shape,
            run=run.to_dict(),
            order=order,
        )

    law = property(
        lambda self: NegativeBinomialRuns(self.stop, self.shape)
    )  # of the number of runs

    @cached_property
    def profile(self) -> Any:
        run = guarantee_from_dict(self.run)
        if run.adjacency != self.statistic.adjacency:
            raise ParameterError("the runs have another adjacency than is stated")
        return self.law.best(run, self.order)

    def accepted(
        self, data: Callable[[int], tuple[float, Any]]
    ) -> Callable[[int], tuple[float, Any]]:
        return data

    def draw(self, data: Callable[[int], tuple[float, Any]], source: Source) -> Draw:
        """The best of K runs: the first of the best ones, which is a tie broken by chance, since runs are alike."""
        many = self.statistic.candidates
        best: tuple[int, float, Any] | None = None
        for _ in range(runs_at(self.law, LazyUniforms(source, 1).balls)):
            number = int(source.words((1,))[0] % np.uint64(many))
            score, value = data(number)
            if best is None or score > best[1]:
                best = number, score, value
        assert best is not None  # there is at least one run
        return Draw(best, [np.array([best[0]])], None)

    def finish(self, value: Any) -> Any:
        return value

    def value_of(self, certificate: Certificate) -> int:
        number = (
            float(replay(certificate.release["integers"])(np.empty(1))[0]) * 2.0**GRID
        )
        if number not in range(self.statistic.candidates):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return int(number)


def runs_at(law: NegativeBinomialRuns, uniform: Callable[[int], list[arb]]) -> int:
    """K by inversion of its distribution at a uniform known to any number of bits, every comparison decided with certainty:
    the law is the one that is charged for, and nothing is cut off."""

    def certain(bits: int) -> int | None:
        (u,), stop, shape = uniform(bits), arb(law.stop), arb(law.shape)
        share = shape / (-shape * stop.log()).expm1() if law.shape else -1 / stop.log()
        k, chance = 1, (1 - stop) * share
        total = chance
        while u > total:
            k += 1
            chance *= (1 - stop) * (k - 1 + shape) / k
            total += chance
        return k if u < total else None

    return decide(certain)
