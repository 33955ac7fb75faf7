"""Pages that tell the public about private releases: a label, a worksheet, an entry of
a registry. A page is made from certificates, which state what was promised, and from
the answers of a *curator*, who publishes the releases.

The curator's answers are in a file `study.toml`. From them and the certificates, this
module writes a one-page privacy label, a worksheet by NIST SP 800-226, and an entry for
the OpenDP registry of deployments.

A statement is about one certificate, or about all certificates of a study together. It
keeps three voices apart. What is *recomputed* from the certificate is checked before
anything is written. What the software *recorded* in the certificate holds if that
software ran unchanged. What the *curator* says no software can check.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Context
from enum import Enum
from html import escape
from math import ceil, exp, fsum, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from curvedp.core.certificate import Certificate, Claims, record_space
from curvedp.core.wording import (
    UNIT_WORDS,
    neighbor_words,
    post_processing_sentence,
    protected_unit_sentence,
    sampling_sentence,
    trust_sentence,
)
from curvedp.errors import ParameterError
from curvedp.inference import region_of
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PrivacyUnit,
    PureDP,
    RenyiDP,
    compose,
)

if TYPE_CHECKING:
    from curvedp.ledger import Ledger

# ---- what the curator says ----


class Question(NamedTuple):
    """A question to the curator.

    Attributes
    ----------
    description : str
        What is asked.
    example : str or list of str
        An example answer; a list if the answer may be a list of texts.
    """

    description: str
    example: str | list[str]


# The questions of `study.toml`, by the name of the answer.
QUESTIONS: dict[str, Question] = {
    "slug": Question("a short name for a web address", "my-study-2026"),
    "name": Question("name of what is published", ""),
    "curators": Question("who publishes it", [""]),
    "description": Question("what it is, in a sentence or two", ""),
    "intended_use": Question("what it is for", ""),
    "region": Question("where the data are from, and whose law applies", ""),
    "publication_date": Question("YYYY-MM-DD", ""),
    "sector": Question(
        "Technology, Healthcare, Education, Government, Energy or Finance",
        "Healthcare",
    ),
    "data": Question(
        "which records could have been in the data set, and how they were collected",
        "",
    ),
    "preprocessing": Question(
        "what was done to the data before, and on which data each such step was fitted "
        "(a filter or a template that is fitted on all trials puts every person into "
        "every record, and voids the guarantee); how radius, center and guarantee were "
        "chosen",
        "",
    ),
    "unprotected": Question(
        "what else of these data is or will be published without privacy", ""
    ),
    "actors": Question("who sees the records, and why they are trusted", ""),
    "security": Question("how the records are stored, and who has access", ""),
    "releases": Question("'One release' or 'Many releases'", "One release"),
    "plans": Question(
        "further releases from the same data, and the budget for all of them", ""
    ),
    "source": Question("'Static' or 'Dynamic' data", "Static"),
    "bias": Question(
        "whom the data leave out, and what the noise does to small groups", ""
    ),
    "justification": Question("why this guarantee is good enough", ""),
    "links": Question("where to read more", ""),
    "authors": Question("who filled in this form", [""]),
}
# The answers that the registry's schema allows, where it does not allow any text.
_ALLOWED_ANSWERS = {
    "sector": (
        "Technology",
        "Healthcare",
        "Education",
        "Government",
        "Energy",
        "Finance",
    ),
    "releases": ("One release", "Many releases"),
    "source": ("Static", "Dynamic"),
}
# The most bytes of a `study.toml` that are read.
_MAX_STUDY_BYTES = 1 << 20


def template() -> str:
    """Return the text of a `study.toml` with all questions, for the curator to answer.

    It has an example answer for each question, or an empty one.
    """
    heading = (
        "# Questions that no certificate can answer. The pages show your answers as "
        "stated by you."
    )
    entries = [
        f"# {question.description}\n{name} = {json.dumps(question.example)}"
        for name, question in QUESTIONS.items()
    ]
    return "\n\n".join([heading, *entries]) + "\n"


def read_study(path: str | Path) -> dict[str, Any]:
    """Read the curator's answers from a `study.toml`, by the name of the question.

    Parameters
    ----------
    path : str or Path
        The file, which `template` made and the curator has filled in.

    Returns
    -------
    dict
        The answers: texts, or lists of texts.

    Raises
    ------
    ParameterError
        If the file is not TOML, or if a question is missing, unanswered, unknown, or
        answered by something other than text.
    """
    try:
        with Path(path).open("rb") as file:
            answers = tomllib.loads(file.read(_MAX_STUDY_BYTES).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ParameterError(f"{path} is not a TOML file") from None

    missing_or_unknown = sorted(set(answers) ^ set(QUESTIONS))
    if missing_or_unknown:
        raise ParameterError(
            f"{path} must answer exactly the questions of the template; "
            f"see {', '.join(missing_or_unknown)[:200]}"
        )
    for name in QUESTIONS:
        _check_answer(name, answers[name])
    try:
        date.fromisoformat(answers["publication_date"])
    except ValueError:
        raise ParameterError("publication_date must be a date, YYYY-MM-DD") from None
    return answers


def _check_answer(name: str, answer: Any) -> None:
    """Refuse an answer of the curator that is empty, not text, or not allowed.

    `read_study` calls it for each answer in the file.

    Parameters
    ----------
    name : str
        The name of the question.
    answer : object
        The answer in the file: a text, or a list of texts if the question's example is
        a list.

    Raises
    ------
    ParameterError
        If the answer is not usable. The message names the question.
    """
    question = QUESTIONS[name]
    texts = [answer]
    if isinstance(question.example, list) and isinstance(answer, list):
        texts = answer
    is_answered = bool(texts) and all(
        isinstance(text, str) and text.strip() for text in texts
    )
    if not is_answered:
        raise ParameterError(f"{name} is not answered: {question.description}")
    allowed = _ALLOWED_ANSWERS.get(name)
    if allowed is not None and answer not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}")


# ---- what the certificate says, in words ----

# The registry's names of the definitions of privacy; it calls any other one "Custom".
_VARIANT_NAMES: dict[type[Guarantee], str] = {
    PureDP: "Pure DP",
    ApproxDP: "Approximate DP",
    ZCDP: "Zero-concentrated DP",
    RenyiDP: "Renyi DP",
}
# The δ at which ε is quoted, as officers ask for it; and the part of it that may be
# slack.
_QUOTED_DELTA = 1e-6
_SLACK_PART = 1e-3
# Without a μ, the quoted point of the certified curve is the first with at most this δ.
_LARGEST_QUOTED_DELTA = 1e-5
# Beyond this ε, e^ε is near the largest float, and no δ below 1 is stated.
_MAX_EXPONENT = 700
# Sums of parameters are multiplied by this, which covers their rounding.
_ROUNDING_MARGIN = 1 + 1e-12

Certificates = Certificate | Sequence[Certificate]
"""What a statement is about: one certificate, or all of a study."""


class _Promise(NamedTuple):
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


def _as_list(certificates: Certificates) -> list[Certificate]:
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


def _promise_of(certificates: Sequence[Certificate]) -> _Promise:
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
    _Promise
        The guarantee of all releases, and what it implies in every definition.

    Raises
    ------
    ParameterError
        If records and people are both protected, or adjacencies differ: such
        guarantees do not add up.
    """
    if len(certificates) == 1:
        return _Promise(certificates[0].guarantee, certificates[0].claims)
    _common_unit(certificates)
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
    return _Promise(total, Claims.from_profile(total, slack))


def _common_unit(certificates: Sequence[Certificate]) -> PrivacyUnit:
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

    def largest_of_each_payment(definition: str) -> list[float] | None:
        """Return the largest parameter of each payment; None if a release has none.

        Parameters
        ----------
        definition : str
            The name of the parameter in certificates: "gdp", "pure" or "zcdp".
        """
        parameters = [
            [certificate.claims.parameters()[definition] for certificate in payment]
            for payment in payments
        ]
        if any(value is None for group in parameters for value in group):
            return None
        return [
            max(value for value in group if value is not None) for group in parameters
        ]

    mus = largest_of_each_payment("gdp")
    if mus is not None:
        total = sqrt(fsum(mu * mu for mu in mus))
        return GDP(_ROUNDING_MARGIN * total, adjacency=adjacency)
    epsilons = largest_of_each_payment("pure")
    if epsilons is not None:
        return PureDP(_ROUNDING_MARGIN * fsum(epsilons), adjacency=adjacency)
    rhos = largest_of_each_payment("zcdp")
    if rhos is not None:
        return ZCDP(_ROUNDING_MARGIN * fsum(rhos), adjacency=adjacency)
    return compose(
        certificate.guarantee for payment in payments for certificate in payment
    )


@dataclass(frozen=True)
class _CertificateWords:
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


def _describe_certificates(certificates: Sequence[Certificate]) -> _CertificateWords:
    """Return what certificates say, as texts that the public can read.

    The pages of this module quote these texts.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of one release, or of all releases of a study.

    Returns
    -------
    _CertificateWords
        One text for each fact; together they fill label and worksheet.
    """
    certificate = certificates[0]
    promise = _promise_of(certificates)
    guarantee, claims = promise
    words = UNIT_WORDS[certificate.privacy_unit]
    is_count_public = guarantee.adjacency == "replace-one"
    quoted_eps, quoted_delta = _quoted_point(promise)
    together = ""
    if len(certificates) > 1:
        unit = _common_unit(certificates).words
        together = f"all {len(certificates)} releases together, for one {unit}: "

    # The guarantee, up to which total variation it holds, and its certified points.
    slack_words = ""
    if claims.slack:
        slack_words = f", up to a total variation of {_format_rounded_up(claims.slack)}"
    curve_words = "; ".join(
        f"δ({eps:g}) = {_format_rounded_up(delta)}" for eps, delta in claims.curve
    )

    unprotected = "All public parameters."
    if is_count_public:
        unprotected = f"The number of {words.plural} and all public parameters."
    return _CertificateWords(
        variant=_variant_name(promise),
        parameters=_registry_parameters(promise),
        strength=(
            f"{together}{guarantee}; this implies "
            f"(ε, δ) = ({quoted_eps:g}, {_format_rounded_up(quoted_delta)})"
        ),
        guarantee=f"{together}{guarantee}{slack_words}; {curve_words}",
        attacker=_attacker_sentence(promise, certificate),
        unit=_join_sentences(certificates, _neighbors_sentence),
        unprotected=unprotected,
        statistic=_join_sentences(certificates, _statistic_words),
        mechanism=_join_sentences(certificates, _mechanism_words),
        payment=_payment_sentence(certificates),
        post_processing=_join_sentences(certificates, post_processing_sentence),
        trust_model=_join_sentences(certificates, _trust_name),
    )


def _join_sentences(
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


def _format_rounded_up(value: float) -> str:
    """Return a number as text, rounded up to three significant digits.

    A privacy parameter that was rounded down would promise too much.

    Parameters
    ----------
    value : float
        A privacy parameter or a radius.
    """
    context = Context(prec=3, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):g}"


def _quoted_point(promise: _Promise) -> tuple[float, float]:
    """Return the point (ε, δ) at which the guarantee is quoted to the public.

    With a parameter μ of Gaussian DP it is ε at δ = 10⁻⁶, rounded up, provided that the
    slack s takes only a small part of δ: it turns (ε, δ) into (ε, δ + (1 + e^ε)·s).
    Otherwise it is the first certified point with a small δ, or the last one.

    Parameters
    ----------
    promise : _Promise
        The guarantee of the releases and its slack.

    Returns
    -------
    eps, delta : float
        A point of the certified curve or of the Gaussian profile.
    """
    claims = promise.claims
    mu = claims.gdp
    if mu is not None:
        eps = float(
            _format_rounded_up(GDP(mu).epsilon(_QUOTED_DELTA * (1 - _SLACK_PART)))
        )
        if eps < _MAX_EXPONENT:
            slack = (1 + exp(eps)) * claims.slack
            if slack <= _QUOTED_DELTA * _SLACK_PART:
                return eps, _QUOTED_DELTA
    for eps, delta in claims.curve:
        if delta <= _LARGEST_QUOTED_DELTA:
            return eps, delta
    return claims.curve[-1]


def _variant_name(promise: _Promise) -> str:
    """Return the registry's name of the definition of privacy, such as "Pure DP".

    A pure ε that holds only up to a total variation (the slack) is approximate DP.

    Parameters
    ----------
    promise : _Promise
        The guarantee of the releases and its slack.
    """
    definition = type(promise.guarantee)
    if definition is PureDP and promise.claims.slack:
        definition = ApproxDP
    return _VARIANT_NAMES.get(definition, "Custom")


def _registry_parameters(promise: _Promise) -> dict[str, float]:
    """Return the parameters of the guarantee by the registry's names, such as "rho".

    If the guarantee holds only up to a total variation s (the slack), (ε, δ)-DP becomes
    (ε, δ + (1 + e^ε)·s)-DP. A definition of privacy that the registry does not know is
    quoted at one point (ε, δ).

    Parameters
    ----------
    promise : _Promise
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
        eps, delta = _quoted_point(promise)
        return {"epsilon": eps, "delta": delta}

    delta = 1.0
    if guarantee.eps < _MAX_EXPONENT:
        ideal_delta = guarantee.delta0 if isinstance(guarantee, ApproxDP) else 0.0
        delta = ideal_delta + (1 + exp(guarantee.eps)) * promise.claims.slack
    if delta == 0:
        return {"epsilon": guarantee.eps}
    return {"epsilon": guarantee.eps, "delta": delta}


def _attacker_sentence(promise: _Promise, certificate: Certificate) -> str:
    """Return a sentence on how often the best attacker guesses right.

    The attacker knows everything but whose data one unit has. δ(0) bounds the total
    variation distance TV between the outcomes on neighboring data sets. With equal odds
    the best guess is right with probability (1 + TV)/2.

    Parameters
    ----------
    promise : _Promise
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
    """Return sentences on which entries of a ledger paid for the releases, if any.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.

    Returns
    -------
    str
        Sentences; without a ledger a warning that other releases may add to the loss.
    """
    # The hash of the ledger after each entry, by the number of the entry.
    heads = {}
    n_unpaid = 0
    for certificate in certificates:
        payment = certificate.provenance.ledger
        if payment is None:
            n_unpaid += 1
        else:
            heads[payment["entry"]] = payment["head"]

    sentences = []
    if len(heads) == 1:
        ((entry, head),) = heads.items()
        sentences.append(f"Charged to entry {entry} of a ledger, with hash {head}.")
    elif heads:
        entries = ", ".join(str(entry) for entry in sorted(heads))
        sentences.append(
            f"Charged to entries {entries} of a ledger; the hash of the last one is "
            f"{heads[max(heads)]}."
        )

    if n_unpaid and heads:
        verb = "names" if n_unpaid == 1 else "name"
        sentences.append(f"{n_unpaid} of the releases {verb} no ledger.")
    if n_unpaid and not heads:
        sentences.append(
            "No ledger is named: other releases from these data may add to the loss."
        )
    return " ".join(sentences)


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
    for certificate in _as_list(certificates):
        payment = certificate.provenance.ledger
        if payment is None:
            continue
        number = payment["entry"]
        if number not in entries or entries[number].hash != payment["head"]:
            raise ParameterError(
                f"a certificate names entry {number}, which is not in this ledger"
            )
        stated.add(number)

    # Say what was spent, and on which releases that are not stated here.
    spent = ledger.spent or "nothing"
    counted = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    sentence = (
        f"The ledger has {counted}, which spent {spent} of {ledger.budget} in all."
    )
    missing = [entry.label for number, entry in entries.items() if number not in stated]
    if missing:
        sentence += f" Not stated here: {'; '.join(missing)}."
    if ledger.frozen is not None:
        sentence += f" It was closed for good: {ledger.frozen.reason}."
    return sentence


def _utility_sentence(certificate: Certificate) -> str:
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
            f"within {_format_rounded_up(region.radius)} of {region.description}, "
            f"with probability 95% ({region.theorem})"
        )
    # Where the population has no region for the same reason as the records, it is said
    # once.
    return "; ".join(dict.fromkeys(sentences))


# ---- the registry ----


def registry(certificates: Certificates, study: Mapping[str, Any]) -> dict[str, Any]:
    """Return a draft entry for the OpenDP registry of deployments (its tier 3).

    Parameters
    ----------
    certificates : Certificate or sequence of Certificate
        One release, or all releases of a study.
    study : mapping
        The curator's answers, as `read_study` returns them.

    Returns
    -------
    dict
        The entry by the schema of the registry; `yaml` writes it.
    """
    listed = _as_list(certificates)
    words = _describe_certificates(listed)
    return {
        "url_slug": study["slug"],
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": study["name"],
                "data_curators": study["curators"],
                "intended_use": study["intended_use"],
                "data_product_type": "Summary statistics",
                "data_product_region": study["region"],
                "description": study["description"],
                "publication_date": study["publication_date"],
                "data_product_sector": study["sector"],
            },
            "dp_variant": {
                "variant_name": words.variant,
                "data_domain": study["data"],
                "unprotected_quantities": (
                    f"{words.unprotected} Curator: {study['unprotected']}"
                ),
            },
            "privacy_loss": {
                "privacy_unit": _join_sentences(listed, protected_unit_sentence),
                "privacy_unit_details": words.unit,
                "privacy_parameters": words.parameters,
                "privacy_parameters_details": words.guarantee,
            },
            "deployment_model": {
                "model_name": words.trust_model,
                "model_name_details": _join_sentences(listed, trust_sentence),
                "actors": study["actors"],
                "release_type": study["releases"],
                "release_type_details": study["plans"],
                "data_source_type": study["source"],
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": words.post_processing,
                "composition": words.payment,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": study["preprocessing"],
                "mechanisms": (
                    f"{words.mechanism}. Curator, on security: {study['security']}"
                ),
                "justification": study["justification"],
            },
            "administrative": {
                "sources": study["links"],
                "notes": _registry_notes(listed),
                "registry_authors": study["authors"],
            },
        },
    }


def _registry_notes(certificates: Sequence[Certificate]) -> str:
    """Return a note for the registry's reviewers: who vouches for which part.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.

    Returns
    -------
    str
        A sentence that names the certificates by their hashes.
    """
    hashes = ", ".join(certificate.provenance.sha256 for certificate in certificates)
    noun = "certificate" if len(certificates) == 1 else "certificates"
    return (
        "privacy_loss and the sensitivity in implementation.mechanisms are recomputed "
        f"from the {noun} with SHA-256 {hashes} (curvedp verify); "
        "variant_name, model_name, accounting and the rest of "
        "mechanisms are recorded in it by the software; "
        "everything else is stated by the curator."
    )


def yaml(value: Any, indent: str = "") -> str:
    r"""Write nested values as YAML, with one line for each text or number.

    For {"name": "x", "links": ["y"]} it returns 'name: "x"\nlinks:\n  - "y"\n'.

    Parameters
    ----------
    value : mapping, list of texts, text or number
        Mappings may be nested. Each text and number is written as JSON, which is YAML.
    indent : str
        The spaces before each line.

    Returns
    -------
    str
        The text, which ends with a line end.
    """
    if isinstance(value, Mapping):
        text = ""
        for name, item in value.items():
            separator = "\n" if isinstance(item, Mapping | list) else " "
            text += f"{indent}{name}:{separator}{yaml(item, indent + '  ')}"
        return text
    if isinstance(value, list):
        return "".join(f"{indent}- {yaml(item)}" for item in value)
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:
        # YAML 1.1 reads 1e-06 as a text, and 1.0e-06 as a number.
        text = text.replace("e", ".0e")
    return text + "\n"


# ---- pages ----


class _Voice(Enum):
    """Who vouches for a row of a page; the value is the row's CSS class."""

    RECOMPUTED = "recomputed"
    RECORDED = "recorded"
    CURATOR = "curator"


_VOICE_WORDS = {
    _Voice.RECOMPUTED: "recomputed from the certificate",
    _Voice.RECORDED: "recorded by the software",
    _Voice.CURATOR: "stated by the curator",
}


class _Row(NamedTuple):
    """A row of a page: its heading, who vouches for it, and what is said.

    Attributes
    ----------
    heading : str
        What the row is about.
    voice : _Voice
        Who vouches for it.
    text : str
        What is said.
    """

    heading: str
    voice: _Voice
    text: str


def label(
    certificates: Certificates,
    study: Mapping[str, Any],
    notes: tuple[str, ...] = (),
    ledger_note: str = "",
    signers: Sequence[str] = (),
) -> str:
    """Return a one-page privacy label for the people whose data were used.

    Parameters
    ----------
    certificates : Certificate or sequence of Certificate
        One release, or all releases of a study.
    study : mapping
        The curator's answers, as `read_study` returns them.
    notes : tuple of str
        Claims of the certificates that could not be confirmed.
    ledger_note : str
        What the ledger says (`ledger_sentence`), if it was read.
    signers : sequence of str
        The public keys of those who signed every certificate.

    Returns
    -------
    str
        HTML that makes no request, and is one side of paper when printed.
    """
    listed = _as_list(certificates)
    words = _describe_certificates(listed)
    protected_unit = _join_sentences(listed, protected_unit_sentence)
    trust = _join_sentences(listed, trust_sentence)
    payment = f"{words.payment} {ledger_note}".strip()
    rows = [
        _Row("What is published", _Voice.CURATOR, study["description"]),
        _Row("What was computed", _Voice.RECORDED, words.statistic),
        _Row("Whose data are protected", _Voice.RECORDED, protected_unit),
        _Row("How well", _Voice.RECOMPUTED, words.strength),
        _Row("What an attacker can do", _Voice.RECOMPUTED, words.attacker),
        _Row("Who is trusted", _Voice.RECORDED, trust),
        _Row("Who sees the records", _Voice.CURATOR, study["actors"]),
        _Row("Other releases", _Voice.RECORDED, payment),
        _Row("Plans", _Voice.CURATOR, study["plans"]),
        _Row("Published without protection", _Voice.CURATOR, study["unprotected"]),
    ]
    for note in notes:
        rows.append(_Row("Not confirmed", _Voice.RECOMPUTED, note))
    title = f"Privacy label: {study['name']}"
    return _page(title, study["curators"], listed, rows, signers)


def worksheet(
    certificates: Certificates,
    study: Mapping[str, Any],
    notes: tuple[str, ...] = (),
    ledger_note: str = "",
    signers: Sequence[str] = (),
) -> str:
    """Return a worksheet for an evaluation by NIST SP 800-226.

    Its rows are the components of the pyramid in that document's Figure 1, from top to
    base, each with who vouches for it.

    Parameters
    ----------
    certificates : Certificate or sequence of Certificate
        One release, or all releases of a study.
    study : mapping
        The curator's answers, as `read_study` returns them.
    notes : tuple of str
        Claims of the certificates that could not be confirmed.
    ledger_note : str
        What the ledger says (`ledger_sentence`), if it was read.
    signers : sequence of str
        The public keys of those who signed every certificate.

    Returns
    -------
    str
        HTML that makes no request.
    """
    listed = _as_list(certificates)
    words = _describe_certificates(listed)
    variant = f"{words.variant}: {_promise_of(listed).guarantee}"
    unconfirmed = "; ".join(notes) or "nothing"
    bias = (
        f"post-processing: {words.post_processing}; "
        "records are clipped to the public ball first"
    )
    count = "one release" if len(listed) == 1 else f"{len(listed)} releases"
    query_model = f"not interactive: {count}. {words.payment} {ledger_note}".strip()
    threat_model = (
        f"{words.trust_model.lower()}: {_join_sentences(listed, trust_sentence)}"
    )
    side_channels = (
        "No certificate covers the time a release takes; "
        "do not let an adversary measure it."
    )
    utility = _join_sentences(listed, _utility_sentence)

    curator = _Voice.CURATOR
    recorded = _Voice.RECORDED
    recomputed = _Voice.RECOMPUTED
    rows = [
        _Row("ε and other privacy parameters", recomputed, words.guarantee),
        _Row("Variant of differential privacy", recorded, variant),
        _Row("Why they are small enough", curator, study["justification"]),
        _Row("Unit of privacy", recorded, words.unit),
        _Row("Mixing with other data releases", curator, study["unprotected"]),
        _Row("Algorithms and correctness", recorded, words.mechanism),
        _Row("Not confirmed from the certificate", recomputed, unconfirmed),
        _Row("Choices made from the data", curator, study["preprocessing"]),
        _Row("Utility and accuracy", recomputed, utility),
        _Row("Statistical bias", recorded, bias),
        _Row("Systemic and human bias", curator, study["bias"]),
        _Row("Query model", recorded, query_model),
        _Row("Further releases", curator, study["plans"]),
        _Row("Threat model", recorded, threat_model),
        _Row("Actors", curator, study["actors"]),
        _Row("Side channels", recorded, side_channels),
        _Row("Security and access control", curator, study["security"]),
        _Row("Data collection exposure", curator, study["data"]),
    ]
    title = f"SP 800-226 worksheet: {study['name']}"
    return _page(title, study["curators"], listed, rows, signers)


# The style sheet of a page; it fits on one side of A4 when printed.
_STYLE = (
    "@page{size:A4;margin:14mm}"
    "body{font:15px/1.4 system-ui,sans-serif;max-width:46rem;margin:1.5rem auto;padding:0 1rem;color:#111;background:#fff}"
    "h1{font-size:1.5rem;margin:0}p{margin:.2rem 0 .8rem}small{display:block;font-weight:400}"
    "table{border-collapse:collapse;width:100%;border:2px solid #111}th{width:12rem}"
    "th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #bbb;overflow-wrap:anywhere}"
    ".recomputed{color:#05603a}.recorded{color:#1d4f91}.curator{color:#7a4b00}"
)


def _check_sentence(signers: Sequence[str]) -> str:
    """Return how a reader checks a certificate, and its signature where there is one.

    Parameters
    ----------
    signers : sequence of str
        The public keys of those who signed every certificate.
    """
    if not signers:
        return "curvedp verify certificate.json."
    keys = "; ".join(
        f"curvedp verify certificate.json --key {signer}" for signer in signers
    )
    return (
        f"{keys}, with the signature certificate.json.sig beside the certificate. "
        "Compare the key with the one that the publisher states elsewhere: anybody can "
        "sign with a key of their own."
    )


def _page(
    title: str,
    curators: Sequence[str],
    certificates: Sequence[Certificate],
    rows: Sequence[_Row],
    signers: Sequence[str] = (),
) -> str:
    """Return an HTML page with a table; all texts are escaped.

    The label and the worksheet are such pages.

    Parameters
    ----------
    title : str
        The heading of the page.
    curators : sequence of str
        The names of those who publish the data.
    certificates : sequence of Certificate
        The certificates that the foot of the page names, by their dates and hashes.
    rows : sequence of _Row
        The rows of the table: what each says, and who vouches for it.
    signers : sequence of str
        The public keys of those who signed every certificate.

    Returns
    -------
    str
        HTML that makes no request.
    """
    table_rows = "".join(
        f'<tr><th>{escape(row.heading)}<small class="{row.voice.value}">'
        f"{_VOICE_WORDS[row.voice]}</small></th><td>{escape(row.text)}</td></tr>"
        for row in rows
    )
    named_certificates = " ".join(
        f"Certificate of {escape(str(certificate.provenance.created))}, "
        f"SHA-256 {escape(certificate.provenance.sha256)}."
        for certificate in certificates
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(', '.join(curators))}</p><table>{table_rows}</table>"
        f"<p><small>{named_certificates} "
        f"Check it yourself: {escape(_check_sentence(signers))} "
        "That the software ran unchanged on these records no certificate "
        "can show; what the curator says was not checked by any software."
        "</small></p></body></html>\n"
    )
