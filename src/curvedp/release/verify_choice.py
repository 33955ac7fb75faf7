"""Check the reason that a certificate states for the choice of its mechanism.
The reason consists of a code, names of mechanisms, and predicted errors. The names must
be in the registry of mechanisms, and the errors are predicted again from public
numbers. So nobody can put words or numbers of their own into a certificate.
"""

from collections.abc import Mapping
from math import isclose, isfinite
from typing import Any

from curvedp.core.capabilities import HasFinalMechanism
from curvedp.core.certificate import Certificate, Check
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Mechanism
from curvedp.core.wording import CHOICE_WORDS
from curvedp.errors import ParameterError
from curvedp.release.choose import mechanism_kinds, rank_mechanisms
from curvedp.statistics.second_moment import SecondMoment
from curvedp.statistics.tangent_moments import TangentMoments, TangentMomentsNearMean

# Statistics that estimators release in one way, although more mechanisms could.
_RELEASED_IN_ONE_WAY = (SecondMoment, TangentMoments, TangentMomentsNearMean)

# The largest relative difference between a stated predicted error and the recomputed
# one. Predictions are simulated: another version of NumPy may draw other random
# numbers, and their standard error is about one percent.
_PREDICTION_TOLERANCE = 0.05


def check_choice(certificate: Certificate, mechanism: Mechanism) -> Check:
    """Check the reason for which a certificate's mechanism was chosen.

    Parameters
    ----------
    certificate : Certificate
        A certificate whose fields have passed `check_form`.
    mechanism : Mechanism
        The mechanism that was rebuilt from it.

    Returns
    -------
    Check
        It holds if the stated rule can lead to this mechanism, and every stated error
        agrees with the recomputed one.

    Raises
    ------
    ParameterError
        If a text is not the name of a mechanism for this statistic. The text is not
        repeated in the message.
    """
    choice = certificate.release["choice"]
    rule = ChoiceRule(choice["rule"])
    _refuse_unknown_names(choice, mechanism)

    if rule is ChoiceRule.SMALLEST_PREDICTED_ERROR:
        holds = _is_smallest_prediction(certificate, mechanism)
        detail = "the errors were predicted again"
    else:
        has_comparison = bool(choice["predicted_errors"] or choice["excluded"])
        holds = not has_comparison and _can_lead_to(rule, certificate, mechanism)
        detail = "a rule that can lead to this mechanism; no errors were compared"
    return Check(f"choice: {CHOICE_WORDS[rule]}", holds, detail)


def _refuse_unknown_names(choice: Mapping[str, Any], mechanism: Mechanism) -> None:
    """Refuse a choice with a name that is no mechanism for the released statistic.

    Parameters
    ----------
    choice : mapping
        The record of the choice in a certificate.
    mechanism : Mechanism
        The mechanism that was built from the certificate.

    Raises
    ------
    ParameterError
        If a name is unknown or occurs twice.
    """
    names = [*choice["predicted_errors"], *choice["excluded"]]
    known_names = mechanism_kinds(mechanism.statistic)
    if not set(names) <= set(known_names):
        raise ParameterError(
            "the choice names something that is no mechanism for this statistic"
        )
    if len(set(names)) != len(names):
        raise ParameterError("the choice names a mechanism twice")


def _is_smallest_prediction(certificate: Certificate, mechanism: Mechanism) -> bool:
    """Return whether the stated errors are right, and the chosen mechanism's is smallest.

    Mechanisms that the certificate excludes must be excluded in the recomputation, too.
    Mechanisms that it does not name may be newer than the certificate; they are
    ignored.

    Parameters
    ----------
    certificate : Certificate
        The certificate with the predicted errors.
    mechanism : Mechanism
        The mechanism that was built from it.

    Returns
    -------
    bool
        False also if a stated error is off by more than 5 %, or a stated name is no
        candidate.
    """
    choice = certificate.release["choice"]
    own_option = mechanism.info.option
    ranking = rank_mechanisms(mechanism.statistic, certificate.guarantee)
    if own_option not in ranking.candidates:
        return False
    if not set(choice["excluded"]) <= set(ranking.excluded):
        return False

    stated_errors = choice["predicted_errors"]
    if not stated_errors:
        # Infinite errors are not written down, so the smallest one must be infinite.
        return not isfinite(ranking.candidates[own_option].error)
    if stated_errors.get(own_option) != min(stated_errors.values()):
        return False
    for name, stated_error in stated_errors.items():
        if name not in ranking.candidates:
            return False
        predicted_error = ranking.candidates[name].error
        if not isclose(stated_error, predicted_error, rel_tol=_PREDICTION_TOLERANCE):
            return False
    return True


def _can_lead_to(
    rule: ChoiceRule, certificate: Certificate, mechanism: Mechanism
) -> bool:
    """Return whether a rule that compares no errors can lead to this mechanism.

    One such rule is that the caller named the mechanism.

    Parameters
    ----------
    rule : ChoiceRule
        The rule that the certificate states.
    certificate : Certificate
        The certificate.
    mechanism : Mechanism
        The mechanism that was built from it.

    Returns
    -------
    bool
        True if the rule is that the caller named the mechanism: a caller may name any.
    """
    if rule is ChoiceRule.PRIVATE_BALL:
        return isinstance(mechanism, HasFinalMechanism)
    if rule is ChoiceRule.PRIVATE_COUNT:
        return certificate.guarantee.adjacency == "add-remove"
    if rule is ChoiceRule.ONLY_ONE:
        return _is_the_only_one(mechanism)
    return True


def _is_the_only_one(mechanism: Mechanism) -> bool:
    """Return whether a mechanism is the only one that is offered for its statistic.

    This is also the case for the statistics from which principal directions are
    released (a second moment, or the moments of logarithms): isotropic noise is always
    used, although other mechanisms could release such a statistic.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was rebuilt from the certificate.

    Returns
    -------
    bool
        Whether no other registered mechanism is offered.
    """
    if isinstance(mechanism.statistic, _RELEASED_IN_ONE_WAY):
        return True
    return set(mechanism_kinds(mechanism.statistic)) <= {mechanism.info.option}
