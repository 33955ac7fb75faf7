"""Say what certificates promise in sentences that the public can read: the guarantee, what
an attacker could learn, how noise was added, who paid and who is trusted. The label, the
worksheet and the registry entry quote these sentences.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp
from typing import TYPE_CHECKING

from curvedp.core.certificate import Certificate, record_space
from curvedp.core.wording import (
    UNIT_WORDS,
    neighbor_words,
    post_processing_sentence,
    sampling_sentence,
)
from curvedp.errors import ParameterError
from curvedp.inference import region_of
from curvedp.privacy import ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from curvedp.statement.promise import (
    MAX_EXPONENT,
    Certificates,
    Promise,
    as_list,
    common_unit,
    format_rounded_up,
    promise_of,
    quoted_point,
)

if TYPE_CHECKING:
    from curvedp.ledger import Ledger

__all__ = [
    "CertificateWords",
    "describe_certificates",
    "join_sentences",
    "ledger_sentence",
    "utility_sentence",
]

# The registry's names of the definitions of privacy; it calls any other one "Custom".
_VARIANT_NAMES: dict[type[Guarantee], str] = {
    PureDP: "Pure DP",
    ApproxDP: "Approximate DP",
    ZCDP: "Zero-concentrated DP",
    RenyiDP: "Renyi DP",
}


@dataclass(frozen=True)
class CertificateWords:
    """What a certificate says, as texts for the public.

    Attributes
    ----------
    variant : str
        The registry's name of the definition of privacy.
    parameters : dict
        The parameters of that definition, by the registry's names.
    strength : str
        The guarantee, and one point (ε, δ) of it.
    guarantee : str
        The guarantee, and all certified points of it.
    attacker : str
        How often the best attacker guesses right.
    unit : str
        When two data sets are neighbors.
    unprotected : str
        Which numbers are public.
    statistic : str
        What was computed, and where the records live.
    mechanism : str
        How noise was added and sampled, and with which software.
    payment : str
        Which ledger paid, if any.
    post_processing : str
        What was done to the value after noise was added.
    trust_model : str
        Who is trusted, in one word.
    """

    variant: str
    parameters: dict[str, float]
    strength: str
    guarantee: str
    attacker: str
    unit: str
    unprotected: str
    statistic: str
    mechanism: str
    payment: str
    post_processing: str
    trust_model: str


def describe_certificates(certificates: Sequence[Certificate]) -> CertificateWords:
    """Return what certificates say, as texts that the public can read.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of one release, or of all releases of a study.

    Returns
    -------
    CertificateWords
        One text for each fact; together they fill label and worksheet.
    """
    certificate = certificates[0]
    promise = promise_of(certificates)
    together = _together_words(certificates)
    return CertificateWords(
        variant=_variant_name(promise),
        parameters=_registry_parameters(promise),
        strength=together + _strength_words(promise),
        guarantee=together + _guarantee_words(promise),
        attacker=_attacker_sentence(promise, certificate),
        unit=join_sentences(certificates, _neighbors_sentence),
        unprotected=_unprotected_sentence(promise, certificate),
        statistic=join_sentences(certificates, _statistic_words),
        mechanism=join_sentences(certificates, _mechanism_words),
        payment=_payment_sentence(certificates),
        post_processing=join_sentences(certificates, post_processing_sentence),
        trust_model=join_sentences(certificates, _trust_name),
    )


def _together_words(certificates: Sequence[Certificate]) -> str:
    """Return words that start a sentence on several releases; none for one release.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.
    """
    if len(certificates) == 1:
        return ""
    unit = common_unit(certificates).words
    return f"all {len(certificates)} releases together, for one {unit}: "


def _strength_words(promise: Promise) -> str:
    """Return the guarantee and one point (ε, δ) of it, in words.

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases.
    """
    eps, delta = quoted_point(promise)
    return (
        f"{promise.guarantee}; this implies "
        f"(ε, δ) = ({eps:g}, {format_rounded_up(delta)})"
    )


def _guarantee_words(promise: Promise) -> str:
    """Return the guarantee, its slack and all its certified points, in words.

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases.
    """
    claims = promise.claims
    slack_words = ""
    if claims.slack:
        slack_words = f", up to a total variation of {format_rounded_up(claims.slack)}"
    curve_words = "; ".join(
        f"δ({eps:g}) = {format_rounded_up(delta)}" for eps, delta in claims.curve
    )
    return f"{promise.guarantee}{slack_words}; {curve_words}"


def _unprotected_sentence(promise: Promise, certificate: Certificate) -> str:
    """Say which numbers are public.

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases.
    certificate : Certificate
        One of their certificates; all protect the same unit, such as a person.
    """
    is_count_public = promise.guarantee.adjacency == "replace-one"
    if not is_count_public:
        return "All public parameters."
    words = UNIT_WORDS[certificate.privacy_unit]
    return f"The number of {words.plural} and all public parameters."


def join_sentences(
    certificates: Sequence[Certificate], sentence: Callable[[Certificate], str]
) -> str:
    """Return what is to be said about each certificate, joined by semicolons.

    Words that several certificates have in common are written once.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.
    sentence : callable
        Takes a certificate and returns words about it.

    Returns
    -------
    str
        Such as "Fréchet mean on sphere:2; Fréchet variance on sphere:2".
    """
    sentences = [sentence(certificate) for certificate in certificates]
    return "; ".join(dict.fromkeys(sentences))


def _statistic_words(certificate: Certificate) -> str:
    """Return the name of the statistic and of the space of its records.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    return f"{certificate.statistic.get('name')} on {record_space(certificate)}"


def _trust_name(certificate: Certificate) -> str:
    """Return the model of trust in one word, such as "Central".

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    return certificate.provenance.trust.value.capitalize()


def _variant_name(promise: Promise) -> str:
    """Return the registry's name of the definition of privacy, such as "Pure DP".

    A pure ε that holds only up to a total variation (the slack) is approximate DP.

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases and its slack.
    """
    definition = type(promise.guarantee)
    if definition is PureDP and promise.claims.slack:
        definition = ApproxDP
    return _VARIANT_NAMES.get(definition, "Custom")


def _registry_parameters(promise: Promise) -> dict[str, float]:
    """Return the parameters of the guarantee by the registry's names, such as "rho".

    If the guarantee holds only up to a total variation s (the slack), (ε, δ)-DP becomes
    (ε, δ + (1 + e^ε)·s)-DP. A definition of privacy that the registry does not know is
    quoted at one point (ε, δ).

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases and its slack.

    Returns
    -------
    dict
        One or two numbers by name.
    """
    guarantee = promise.guarantee
    if isinstance(guarantee, ZCDP):
        return {"rho": guarantee.rho}
    if not isinstance(guarantee, PureDP | ApproxDP):
        eps, delta = quoted_point(promise)
        return {"epsilon": eps, "delta": delta}

    delta = 1.0
    if guarantee.eps < MAX_EXPONENT:
        ideal_delta = guarantee.delta0 if isinstance(guarantee, ApproxDP) else 0.0
        delta = ideal_delta + (1 + exp(guarantee.eps)) * promise.claims.slack
    if delta == 0:
        return {"epsilon": guarantee.eps}
    return {"epsilon": guarantee.eps, "delta": delta}


def _attacker_sentence(promise: Promise, certificate: Certificate) -> str:
    """Return a sentence on how often the best attacker guesses right.

    The attacker knows everything but whose data one unit has. δ(0) bounds the total
    variation distance TV between the outcomes on neighboring data sets. With equal odds
    the best guess is right with probability (1 + TV)/2.

    Parameters
    ----------
    promise : Promise
        The guarantee of the releases.
    certificate : Certificate
        One of their certificates; all protect the same unit, such as a person.

    Returns
    -------
    str
        One sentence.
    """
    _, delta_at_zero = promise.claims.curve[0]
    success = min((1 + delta_at_zero) / 2, 1.0)
    success_percent = ceil(1000 * success) / 10
    noun = UNIT_WORDS[certificate.privacy_unit].noun
    return (
        f"An attacker who knows every other {noun} and must guess "
        f"{neighbor_words(certificate).guess} is right with probability "
        f"at most {success_percent}% (50% is guessing)."
    )


def _neighbors_sentence(certificate: Certificate) -> str:
    """Return words on when data sets are neighbors, and whether their size is public.

    It says what the guarantee protects: replacing a record, or adding and removing it.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    str
        A clause without a full stop.
    """
    words = UNIT_WORDS[certificate.privacy_unit]
    adjacency = certificate.guarantee.adjacency
    n = certificate.statistic.get("n")
    count = f"the number of {words.plural}" if n is None else f"n = {n}"
    visibility = "public" if adjacency == "replace-one" else "private"
    return (
        f"two data sets are neighbors if they differ by {words.in_full} "
        f"({adjacency}; {count} is {visibility})"
    )


def _mechanism_words(certificate: Certificate) -> str:
    """Return the names of the mechanism, of the way of sampling and of the software.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    str
        Clauses with semicolons between them.
    """
    provenance = certificate.provenance
    software = ", ".join(
        f"{name} {version}" for name, version in provenance.software.items()
    )
    return (
        f"{certificate.mechanism}, sensitivity {certificate.sensitivity:.6g}; "
        f"{sampling_sentence(certificate)}, slack {provenance.numerics['slack']}; "
        f"bits: {provenance.entropy['source']}; {software}"
    )


def _payment_sentence(certificates: Sequence[Certificate]) -> str:
    """Say which entries of a ledger paid for the releases, if any.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.

    Returns
    -------
    str
        Sentences; without a ledger a warning that other releases may add to the loss.
    """
    hash_by_entry = {}
    n_unpaid = 0
    for certificate in certificates:
        payment = certificate.provenance.ledger
        if payment is None:
            n_unpaid += 1
        else:
            hash_by_entry[payment["entry"]] = payment["head"]

    if not hash_by_entry:
        return "No ledger is named: other releases from these data may add to the loss."
    sentences = [_entries_sentence(hash_by_entry)]
    if n_unpaid:
        verb = "names" if n_unpaid == 1 else "name"
        sentences.append(f"{n_unpaid} of the releases {verb} no ledger.")
    return " ".join(sentences)


def _entries_sentence(hash_by_entry: Mapping[int, str]) -> str:
    """Say which entries of a ledger paid, and the ledger's hash after the last of them.

    Parameters
    ----------
    hash_by_entry : mapping
        The hash of the ledger after each entry, by the number of the entry.
    """
    last_entry = max(hash_by_entry)
    last_hash = hash_by_entry[last_entry]
    if len(hash_by_entry) == 1:
        return f"Charged to entry {last_entry} of a ledger, with hash {last_hash}."
    entries = ", ".join(str(entry) for entry in sorted(hash_by_entry))
    return (
        f"Charged to entries {entries} of a ledger; the hash of the last one is "
        f"{last_hash}."
    )


def ledger_sentence(ledger: "Ledger", certificates: Certificates) -> str:
    """Return sentences on what a ledger has spent, and for which other releases.

    Parameters
    ----------
    ledger : Ledger
        The record of what all releases from the data of the study have cost.
    certificates : Certificate or sequence of Certificate
        The releases that the statement is about. Entries for others are named.

    Returns
    -------
    str
        Sentences for the label and the worksheet.

    Raises
    ------
    ParameterError
        If a certificate names an entry that is not in this ledger.
    """
    entries = {entry.number: entry for entry in ledger.entries}
    stated = set()
    for certificate in as_list(certificates):
        payment = certificate.provenance.ledger
        if payment is None:
            continue
        number = payment["entry"]
        if number not in entries or entries[number].hash != payment["head"]:
            raise ParameterError(
                f"a certificate names entry {number}, which is not in this ledger"
            )
        stated.add(number)
    not_stated = [
        entry.label for number, entry in entries.items() if number not in stated
    ]

    spent = ledger.spent or "nothing"
    n_entries = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    sentences = [
        f"The ledger has {n_entries}, which spent {spent} of {ledger.budget} in all."
    ]
    if not_stated:
        sentences.append(f"Not stated here: {'; '.join(not_stated)}.")
    if ledger.frozen is not None:
        sentences.append(f"It was closed for good: {ledger.frozen.reason}.")
    return " ".join(sentences)


def utility_sentence(certificate: Certificate) -> str:
    """Return words on how near a release is to the truth, or on why that is unknown.

    The truth is the value for the population, or that for the records.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    str
        Clauses joined by semicolons.
    """
    sentences = []
    for target in ("population", "records"):
        try:
            region = region_of(certificate, of=target)
        except ParameterError as error:
            sentences.append(str(error))
            continue
        sentences.append(
            f"within {format_rounded_up(region.radius)} of {region.description}, "
            f"with probability 95% ({region.theorem})"
        )
    # Where the population has no region for the same reason as the records, it is said
    # once.
    return "; ".join(dict.fromkeys(sentences))
