"""Add up what the certificates of several releases promise together, and quote one point
(ε, δ) of it. A certificate states the guarantee of one release; a ledger entry that it
names shows which releases are about disjoint groups of records.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context
from math import exp, fsum, sqrt
from typing import Any, NamedTuple

from curvedp.core.certificate import Certificate, Claims
from curvedp.errors import ParameterError
from curvedp.privacy import GDP, ZCDP, Guarantee, PrivacyUnit, PureDP, compose

__all__ = [
    "MAX_EXPONENT",
    "Certificates",
    "Promise",
    "as_list",
    "common_unit",
    "format_rounded_up",
    "promise_of",
    "quoted_point",
]

# The δ at which ε is quoted, as officers ask for it; and the part of it that may be
# slack.
_QUOTED_DELTA = 1e-6
_SLACK_PART = 1e-3
# Without a μ, the quoted point of the certified curve is the first with at most this δ.
_LARGEST_QUOTED_DELTA = 1e-5
# Beyond this ε, e^ε is near the largest float, and no δ below 1 is stated.
MAX_EXPONENT = 700
# Sums of parameters are multiplied by this, which covers their rounding.
_ROUNDING_MARGIN = 1 + 1e-12

Certificates = Certificate | Sequence[Certificate]
"""What a statement is about: one certificate, or all of a study."""


class Promise(NamedTuple):
    """The privacy that one release, or all releases of a study together, promise.

    Attributes
    ----------
    guarantee : Guarantee
        The guarantee in one definition of privacy, such as μ-GDP.
    claims : Claims
        What it implies in every definition of privacy. The slack in it bounds the total
        variation between the releases and ideal ones.
    """

    guarantee: Guarantee
    claims: Claims


def as_list(certificates: Certificates) -> list[Certificate]:
    """Return one or several certificates as a list that is not empty.

    Parameters
    ----------
    certificates : Certificate or sequence of Certificate
        What the caller passes.

    Raises
    ------
    ParameterError
        If there is no certificate, or one occurs twice and would count twice.
    """
    if isinstance(certificates, Certificate):
        return [certificates]
    listed = list(certificates)
    if not listed:
        raise ParameterError("a statement needs at least one certificate")
    if len({certificate.provenance.sha256 for certificate in listed}) < len(listed):
        raise ParameterError("a certificate is given twice")
    return listed


def promise_of(certificates: Sequence[Certificate]) -> Promise:
    """Return the privacy guarantee of several releases together.

    A ledger records what releases cost. Certificates that name the same entry of a
    ledger are about disjoint groups of records, so that only the largest of their
    parameters counts (McSherry 2009). Apart from that, μ², ε or ρ add up, whichever
    parameter all certificates have. Slacks (bounds on a total variation distance) add
    up too.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of releases that protect the same unit.

    Returns
    -------
    Promise
        The guarantee of all releases, and what it implies in every definition.

    Raises
    ------
    ParameterError
        If records and people are both protected, or adjacencies differ: such
        guarantees do not add up.
    """
    if len(certificates) == 1:
        return Promise(certificates[0].guarantee, certificates[0].claims)
    common_unit(certificates)
    adjacencies = {certificate.guarantee.adjacency for certificate in certificates}
    if len(adjacencies) > 1:
        raise ParameterError(
            "the certificates are for different adjacencies, which do not add up: make "
            "one statement for each"
        )
    groups = _group_by_payment(certificates)
    total = _compose_payments(groups)
    if total.adjacency not in adjacencies:
        raise ParameterError("the certificates cannot be composed")
    slack = _ROUNDING_MARGIN * fsum(
        certificate.claims.slack for certificate in certificates
    )
    return Promise(total, Claims.from_profile(total, slack))


def common_unit(certificates: Sequence[Certificate]) -> PrivacyUnit:
    """Return the privacy unit (a record, a person) for which all guarantees hold.

    A guarantee for one record implies one for a record within its class, but not the
    other way round (`PrivacyUnit.implies`).

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.

    Returns
    -------
    PrivacyUnit
        The strongest unit that all guarantees imply.

    Raises
    ------
    ParameterError
        If there is no such unit, or a certificate does not state its own.
    """
    units = {certificate.privacy_unit.ledger_unit for certificate in certificates}
    for common in PrivacyUnit:
        if all(unit is not None and unit.implies(common) for unit in units):
            return common
    raise ParameterError(
        "some certificates protect records and others people, or do not say whom, and "
        "these do not add up: make one statement for each"
    )


def _group_by_payment(certificates: Sequence[Certificate]) -> list[list[Certificate]]:
    """Group certificates by the ledger entry that paid for them.

    A certificate without a ledger is a group of its own: nothing shows that its records
    are disjoint from those of other releases.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.

    Returns
    -------
    list of lists of Certificate
        One list for each payment.
    """
    payments: dict[Any, list[Certificate]] = {}
    for number, certificate in enumerate(certificates):
        entry: Any = number
        payment = certificate.provenance.ledger
        if payment is not None:
            entry = (payment["entry"], payment["head"])
        payments.setdefault(entry, []).append(certificate)
    return list(payments.values())


def _compose_payments(payments: Sequence[Sequence[Certificate]]) -> Guarantee:
    """Return the guarantee of all payments together.

    Each payment covers releases about disjoint records, so that its largest parameter
    counts. These parameters are added up: as μ² if every release has a μ (Gaussian
    DP), else as ε (pure DP), else as ρ (zCDP). Without a common parameter the
    guarantees are composed one by one.

    Parameters
    ----------
    payments : sequence of sequences of Certificate
        The certificates that each payment covers.

    Returns
    -------
    Guarantee
        The guarantee, rounded up.
    """
    adjacency = payments[0][0].guarantee.adjacency
    mus = _largest_parameters(payments, "gdp")
    if mus is not None:
        total = sqrt(fsum(mu * mu for mu in mus))
        return GDP(_ROUNDING_MARGIN * total, adjacency=adjacency)
    epsilons = _largest_parameters(payments, "pure")
    if epsilons is not None:
        return PureDP(_ROUNDING_MARGIN * fsum(epsilons), adjacency=adjacency)
    rhos = _largest_parameters(payments, "zcdp")
    if rhos is not None:
        return ZCDP(_ROUNDING_MARGIN * fsum(rhos), adjacency=adjacency)
    return compose(
        certificate.guarantee for payment in payments for certificate in payment
    )


def _largest_parameters(
    payments: Sequence[Sequence[Certificate]], definition: str
) -> list[float] | None:
    """Return the largest privacy parameter of each payment.

    Parameters
    ----------
    payments : sequence of sequences of Certificate
        The certificates that each payment covers.
    definition : str
        The name of the parameter in certificates: "gdp", "pure" or "zcdp".

    Returns
    -------
    list of float or None
        One number for each payment; None if a release has no such parameter.
    """
    largest = []
    for payment in payments:
        parameters = []
        for certificate in payment:
            parameter = certificate.claims.parameters()[definition]
            if parameter is None:
                return None
            parameters.append(parameter)
        largest.append(max(parameters))
    return largest


def format_rounded_up(value: float) -> str:
    """Return a number as text, rounded up to three significant digits.

    A privacy parameter that was rounded down would promise too much.

    Parameters
    ----------
    value : float
        A privacy parameter or a radius.
    """
    context = Context(prec=3, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):g}"


def quoted_point(promise: Promise) -> tuple[float, float]:
    """Return the point (ε, δ) at which the guarantee is quoted to the public.

    With a parameter μ of Gaussian DP it is ε at δ = 10⁻⁶. Otherwise it is the first
    certified point with a small δ, or the last one.

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases and its slack.

    Returns
    -------
    eps, delta : float
        A point of the certified curve or of the Gaussian profile.
    """
    eps_of_mu = _quoted_eps_of_mu(promise.claims)
    if eps_of_mu is not None:
        return eps_of_mu, _QUOTED_DELTA
    for eps, delta in promise.claims.curve:
        if delta <= _LARGEST_QUOTED_DELTA:
            return eps, delta
    return promise.claims.curve[-1]


def _quoted_eps_of_mu(claims: Claims) -> float | None:
    """Return the ε of μ-GDP at δ = 10⁻⁶, rounded up; None if it cannot be quoted.

    The slack s turns (ε, δ) into (ε, δ + (1 + e^ε)·s), so that it must take only a
    small part of δ.

    Parameters
    ----------
    claims : Claims
        The claims of a promise: μ, and the slack up to which it holds.
    """
    if claims.gdp is None:
        return None
    ideal_delta = _QUOTED_DELTA * (1 - _SLACK_PART)
    eps = float(format_rounded_up(GDP(claims.gdp).epsilon(ideal_delta)))
    if eps >= MAX_EXPONENT:
        return None
    delta_of_slack = (1 + exp(eps)) * claims.slack
    if delta_of_slack > _QUOTED_DELTA * _SLACK_PART:
        return None
    return eps
