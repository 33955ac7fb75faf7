"""Publish the best of several private releases, with one guarantee and one charge.

"Try ten radii and publish the best" costs more privacy than one release does.
`private_selection` makes a random number of runs and pays for all of them at once
(Papernot & Steinke 2022). `curvedp.mechanisms.selection` has the mechanism.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.certificate import Certificate
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Choice, ReleaseTerms, check_guarantee, check_source
from curvedp.errors import ParameterError
from curvedp.ledger import Ledger
from curvedp.mechanisms.selection import BestRelease, SelectionMechanism
from curvedp.privacy import Guarantee, NegativeBinomialRuns, PrivacyUnit
from curvedp.privacy.curve import ADJACENCIES
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.privacy.unit import check_unit
from curvedp.randomness import Source
from curvedp.release.pay import check_payer, pay


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
        Whose data every run protects, for the ledger's entry: "record", "person",
        "record_in_class" or "person_in_class", as of a run with public classes. A
        ledger that counts for what this does not imply refuses. Without it you vouch
        that it is the ledger's.

    Notes
    -----
    Guarantees
    - `guarantee` for the candidate, the value and the score together, if every run
      meets what it is given (Papernot & Steinke 2022). How long it takes tells how many
      runs there were: do not tell it;
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
    """Return the score of a run as a float, and its value.

    A NaN counts as the worst score. No message quotes what is not yet released.

    Parameters
    ----------
    result : object
        What the caller's function returned, which should be (score, value).

    Raises
    ------
    ParameterError
        If it is no pair, or the score is not one number.
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
