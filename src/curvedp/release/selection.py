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
    """The best run of a private selection, which may be published.

    Attributes
    ----------
    candidate : Any
        The candidate of the run.
    value : Any
        The value that the run released.
    score : float
        The score of the run.
    certificate : Certificate
        The certificate of the selection, with the guarantee of everything above.
    """

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
        The public candidates: radii, settings or models. Each run draws one of them,
        all with the same probability.
    release : function of (candidate, guarantee, source)
        Makes one run and returns (score, value); a larger score is better. Score and
        value together must satisfy the guarantee that is passed to it. The caller
        vouches for this.
    guarantee : PureDP or ApproxDP
        The guarantee of the whole selection.
    runs : NegativeBinomialRuns, optional
        The distribution of the number of runs. By default it is logarithmic, with a
        mean of about three runs for each candidate.
    ledger : Ledger, optional
        The ledger that is charged, once and before the first run.
    label : str
        The name of the ledger's entry.
    source : Source, optional
        Where random bits come from; the operating system by default.
    unit : PrivacyUnit or str, optional
        The unit of privacy of every run, for the ledger's entry: "record", "person",
        "record_in_class" or "person_in_class". The ledger refuses a unit that does not
        imply its own. If it is None, the caller vouches that the unit is the ledger's.

    Returns
    -------
    Selection
        The candidate, value and score of the best run, with the certificate.

    Notes
    -----
    Guarantees
    - `guarantee` holds for the candidate, the value and the score together, if every
      run satisfies the guarantee that is passed to it (Papernot & Steinke 2022). The
      running time reveals the number of runs, so it must stay secret;
    - wrong parameters are refused before the first run. If the value has a certificate
      of its own, that states the price of one run and not of the selection.

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
    candidate_list = _check_request(candidates, release, guarantee, runs)
    check_payer(ledger, label)
    statistic = BestRelease(len(candidate_list), guarantee.adjacency)
    mechanism = SelectionMechanism.calibrate(statistic, guarantee, runs=runs)
    run_guarantee = guarantee_from_dict(mechanism.run)
    checked_source = check_source(source)

    # Everything that can be refused has been refused: pay, then run.
    ledger_entry = pay(ledger, label, guarantee, [mechanism], check_unit("unit", unit))
    terms = ReleaseTerms(
        guarantee, choice=Choice(ChoiceRule.ONLY_ONE), ledger_entry=ledger_entry
    )

    def run_candidate(number: int) -> tuple[float, Any]:
        """Run the candidate with this number, and return its score and value.

        Parameters
        ----------
        number : int
            The index of a candidate, which the mechanism has drawn.
        """
        result = release(candidate_list[number], run_guarantee, checked_source)
        return _score_and_value(result)

    released = mechanism.release(run_candidate, source=checked_source, terms=terms)
    number, score, value = released.value
    return Selection(candidate_list[number], value, score, released.certificate)


def _check_request(
    candidates: Any, release: Any, guarantee: Guarantee, runs: Any
) -> list[Any]:
    """Return the candidates of a selection as a list, after checking its parameters.

    Parameters
    ----------
    candidates : object
        What the caller passes as candidates.
    release : object
        What the caller passes as the function that makes one run.
    guarantee : Guarantee
        The guarantee of the whole selection.
    runs : object
        What the caller passes as the distribution of the number of runs, or None.

    Raises
    ------
    ParameterError
        If one of them is not usable.
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
    return candidate_list


def _score_and_value(result: Any) -> tuple[float, Any]:
    """Return the score of a run as a float, and its value.

    A score that is NaN becomes −∞, the worst score. Messages do not quote the score,
    which is not released yet.

    Parameters
    ----------
    result : object
        The result of the caller's function, which should be a pair (score, value).

    Returns
    -------
    score, value : float, object
        The score as a float, and the value as it was returned.

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
