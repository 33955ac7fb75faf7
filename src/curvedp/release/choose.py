"""Which mechanism releases a statistic: the named one, or the one that errs least.
Errors are predicted by simulated releases of public points in the ball. No data are
read, so the choice costs no privacy.
"""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.core.capabilities import SometimesExcluded
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Choice, Mechanism, check_guarantee
from curvedp.core.registry import mechanisms
from curvedp.core.statistic import Statistic
from curvedp.errors import NotResolved, ParameterError, UnattainableGuarantee
from curvedp.privacy import Guarantee
from curvedp.release.predict import predicted_error

# A mechanism that is expected to err by more than this times the best is not
# calibrated.
_HOPELESS_RATIO = 1.03

# Other accepted names of options: those of certificates, and earlier ones.
OPTION_ALIASES = {
    "log-gaussian": "tangent-gaussian",
    "log-laplace": "tangent-laplace",
    "noisy-newton": "newton",
    "gradient-step": "gradient",
    "k-norm-gradient": "kng",
    "riemannian-gaussian": "gaussian",
    "riemannian-laplace": "laplace",
}


class ChosenMechanism(NamedTuple):
    """A calibrated mechanism, and the reason for which it was chosen.

    Attributes
    ----------
    mechanism : Mechanism
        The calibrated mechanism.
    choice : Choice
        The reason, as certificates state it.
    """

    mechanism: Mechanism
    choice: Choice


class Ranking(NamedTuple):
    """Candidates with their predicted errors, best first, and why others were left out.

    Attributes
    ----------
    candidates : dict
        The calibrated mechanisms by their options, the smallest predicted error first.
    excluded : dict
        Why each of the others is no candidate.
    """

    candidates: "dict[str, Candidate]"
    excluded: dict[str, str]


class Candidate(NamedTuple):
    """A calibrated mechanism and its predicted error.

    Attributes
    ----------
    error : float
        The predicted error.
    mechanism : Mechanism
        The calibrated mechanism.
    """

    error: float
    mechanism: Mechanism


def mechanism_kinds(
    statistic: Statistic, *, in_memory: bool = True
) -> dict[str, type[Mechanism]]:
    """Return the mechanisms that can release a statistic, by their names as options.

    A user names one of them as `mechanism=`.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.
    in_memory : bool
        Whether the records are in memory. If they are not, only mechanisms that need
        the value of the statistic alone are returned, because the others read the
        records several times.

    Returns
    -------
    dict
        The class of each usable mechanism, in the order in which they are registered.
    """
    kinds: dict[str, type[Mechanism]] = {}
    for mechanism_class in mechanisms:
        option = mechanism_class.info.option
        is_usable = in_memory or mechanism_class.info.reads == "value"
        if option is not None and is_usable and mechanism_class.supports(statistic):
            kinds[option] = mechanism_class
    return kinds


def mechanism_options(statistic: Statistic, *, in_memory: bool = True) -> list[str]:
    """Return the names that `mechanism=` takes for this statistic, besides "auto".

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.
    in_memory : bool
        Whether the records are in memory, so that they can be read several times.
    """
    return list(mechanism_kinds(statistic, in_memory=in_memory))


def choose_mechanism(
    name: Any, statistic: Statistic, guarantee: Guarantee, *, in_memory: bool = True
) -> ChosenMechanism:
    """Return the named mechanism, or with "auto" the best by predicted error.

    Used by estimators and plans, before anything is paid.

    Parameters
    ----------
    name : str
        One of `mechanism_options` or `OPTION_ALIASES`, or "auto".
    statistic : Statistic
        The statistic that is released.
    guarantee : Guarantee
        The guarantee to which the mechanism is calibrated.
    in_memory : bool
        Whether the records are in memory, so that mechanisms can read them several
        times.

    Returns
    -------
    ChosenMechanism
        The calibrated mechanism, and the reason that its certificates will state.

    Raises
    ------
    ParameterError
        For a name that is none for this statistic.
    UnattainableGuarantee
        Where the named mechanism, or with "auto" none, can meet the guarantee.
    """
    check_guarantee(guarantee)
    if isinstance(name, str):
        name = OPTION_ALIASES.get(name, name)
    if not isinstance(name, str) or name != "auto":
        options = ("auto", *mechanism_options(statistic, in_memory=in_memory))
        _validate.choice("mechanism", name, options)
        mechanism = _calibrate_named(
            _HashableStatistic.wrap(statistic), name, guarantee
        )
        return ChosenMechanism(mechanism, Choice(ChoiceRule.NAMED))

    ranking = rank_mechanisms(statistic, guarantee, in_memory=in_memory)
    if not ranking.candidates:
        # Where the statistic has no sensitivity, that is the reason to give.
        _ = statistic.sensitivity
        reasons = "; ".join(f"{name}: {why}" for name, why in ranking.excluded.items())
        raise UnattainableGuarantee(
            f"no mechanism meets {guarantee} on {statistic.value_space!r}: {reasons}"
        )
    errors = {option: entry.error for option, entry in ranking.candidates.items()}
    best = next(iter(ranking.candidates.values()))  # they are sorted by error
    choice = Choice(ChoiceRule.SMALLEST_PREDICTED_ERROR, errors, ranking.excluded)
    return ChosenMechanism(best.mechanism, choice)


def rank_mechanisms(
    statistic: Statistic, guarantee: Guarantee, *, in_memory: bool = True
) -> Ranking:
    """Calibrate every mechanism for a statistic, and rank them by predicted error.

    Only public numbers are used. Rankings are cached, because the next data set often
    has the same public parameters.

    Parameters
    ----------
    statistic : Statistic
        The statistic that is released.
    guarantee : Guarantee
        The guarantee to which the mechanisms are calibrated.
    in_memory : bool
        Whether the records are in memory; see `mechanism_kinds`.

    Returns
    -------
    Ranking
        The candidates, best first, and why others were excluded.
    """
    cached_ranking = _rank(_HashableStatistic.wrap(statistic), guarantee, in_memory)
    # Copies: what a caller does to its ranking must not change the next caller's.
    return Ranking(dict(cached_ranking.candidates), dict(cached_ranking.excluded))


@dataclass(frozen=True)
class _HashableStatistic:
    """A statistic that is compared by its class, its space and its dictionary.

    Attributes
    ----------
    kinds : (type, type)
        The class of the statistic and that of its space.
    record : str
        Its public fields as JSON.
    statistic : Statistic
        The statistic itself, which is not compared.
    """

    kinds: tuple[type, type]
    record: str
    statistic: Statistic = field(compare=False)

    @classmethod
    def wrap(cls, statistic: Statistic) -> "_HashableStatistic":
        """Return a statistic in a form that is hashable, as a key of the caches below.

        Two statistics are equal keys if their classes, their spaces' classes and their
        public fields agree: they then have the same mechanisms.

        Parameters
        ----------
        statistic : Statistic
            The statistic, whose fields may be arrays.
        """
        kinds = (type(statistic), type(statistic.value_space))
        record = json.dumps(statistic.to_dict(), sort_keys=True)
        return cls(kinds, record, statistic)


@lru_cache(maxsize=64)
def _calibrate_named(
    wrapped: _HashableStatistic, name: str, guarantee: Guarantee
) -> Mechanism:
    """Return the mechanism that an option names, calibrated. The result is cached.

    Parameters
    ----------
    wrapped : _HashableStatistic
        The statistic that is released.
    name : str
        The name of the mechanism as an option.
    guarantee : Guarantee
        The guarantee to which it is calibrated.
    """
    mechanism_class = mechanism_kinds(wrapped.statistic)[name]
    return mechanism_class.calibrate(wrapped.statistic, guarantee)


@lru_cache(maxsize=64)
def _rank(
    wrapped: _HashableStatistic, guarantee: Guarantee, in_memory: bool
) -> Ranking:
    """Calibrate every candidate and sort by predicted error. The result is cached.

    Parameters
    ----------
    wrapped : _HashableStatistic
        The statistic, in a form that a cache can use as a key.
    guarantee : Guarantee
        The guarantee to which the mechanisms are calibrated.
    in_memory : bool
        Whether the records are in memory.

    Returns
    -------
    Ranking
        The candidates, best first, and the reason of each exclusion.
    """
    statistic = wrapped.statistic
    kinds = mechanism_kinds(statistic, in_memory=in_memory)
    # A mechanism that is similar to another comes last, when the other's error is known.
    ordered = sorted(
        kinds.items(), key=lambda item: item[1].info.similar_to is not None
    )
    candidates: dict[str, Candidate] = {}
    excluded: dict[str, str] = {}
    for option, mechanism_class in ordered:
        reason = _reason_excluded(mechanism_class, statistic, candidates)
        if reason is not None:
            excluded[option] = reason
            continue
        try:
            mechanism = mechanism_class.calibrate(statistic, guarantee)
            candidates[option] = Candidate(predicted_error(mechanism), mechanism)
        except (ParameterError, UnattainableGuarantee, NotResolved) as error:
            # Public parameters alone decide about these refusals.
            excluded[option] = str(error).splitlines()[0]
    by_error = sorted(candidates.items(), key=lambda item: item[1].error)
    return Ranking(dict(by_error), excluded)


def _reason_excluded(
    mechanism_class: type[Mechanism], statistic: Any, candidates: dict[str, Candidate]
) -> str | None:
    """Return why a mechanism need not be calibrated, or None.

    A mechanism can exclude itself. Otherwise it is excluded to save its calibration, if
    it is similar to another one that was calibrated already and is expected to be worse
    than the best so far. Noise of one kind has about the same error on the manifold and
    in the chart, for each unit of sensitivity, so the expected error is the similar
    one's times the ratio of the two sensitivities.

    Parameters
    ----------
    mechanism_class : type
        The class of the mechanism.
    statistic : Statistic
        The statistic that is released.
    candidates : dict
        The calibrated mechanisms so far, by their names as options.

    Returns
    -------
    str or None
        A sentence for the user, which certificates do not hold.
    """
    if issubclass(mechanism_class, SometimesExcluded):
        reason = mechanism_class.reason_excluded(statistic)
        if reason is not None:
            return reason
    similar = candidates.get(mechanism_class.info.similar_to or "")
    if similar is None:
        return None
    ratio = min(1.0, statistic.sensitivity / statistic.chart_sensitivity)
    expected = similar.error * ratio
    best = min(candidate.error for candidate in candidates.values())
    if not expected > _HOPELESS_RATIO * best:
        return None
    # The best error is 0 where doubles do not tell the noise from none.
    times = expected / best if best else inf
    return f"its error is about {times:.3g} times that of the best"
