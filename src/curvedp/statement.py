"""Tell the public about a release: a registry entry, a one-page label and a worksheet.

The entry is for the OpenDP registry of deployments, and the worksheet follows NIST SP
800-226. They keep three voices apart. What is *recomputed* from the certificate is
checked before anything is written. What the software *recorded* in the certificate
holds if that software ran unchanged. What the *curator* says in `study.toml` no
software can check.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Context
from enum import Enum
from html import escape
from math import ceil, exp
from pathlib import Path
from typing import Any, NamedTuple

from curvedp.core.certificate import Certificate, record_space
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
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP

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
    """Return the questions as a TOML file for the curator to fill in."""
    heading = (
        "# What no certificate can know. Everything here is your word, and is shown as "
        "such."
    )
    entries = [
        f"# {question.description}\n{name} = {json.dumps(question.example)}"
        for name, question in QUESTIONS.items()
    ]
    return "\n\n".join([heading, *entries]) + "\n"


def read_study(path: str | Path) -> dict[str, Any]:
    """Return the curator's answers, by name, from a file that `template` began.

    Parameters
    ----------
    path : str or Path
        The file.

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
    """Refuse an answer that is empty, not text, or not one of the allowed ones.

    Parameters
    ----------
    name : str
        The name of the question.
    answer : object
        What the file says.
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
# The δ at which ε is quoted, as officers ask for it; and the part of it that may be slack.
_QUOTED_DELTA = 1e-6
_SLACK_PART = 1e-3
# Without a μ, the quoted point of the certified curve is the first with at most this δ.
_LARGEST_QUOTED_DELTA = 1e-5
# Beyond this ε, e^ε is near the largest float, and no δ below 1 is stated.
_MAX_EXPONENT = 700


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


def _certificate_words(certificate: Certificate) -> _CertificateWords:
    """Put a certificate into words for the public.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    guarantee = certificate.guarantee
    claims = certificate.claims
    words = UNIT_WORDS[certificate.privacy_unit]
    is_count_public = guarantee.adjacency == "replace-one"
    quoted_eps, quoted_delta = _quoted_point(certificate)

    slack_words = ""
    if claims.slack:
        slack_words = f", up to a total variation of {_rounded_up(claims.slack)}"
    curve_words = "; ".join(
        f"δ({eps:g}) = {_rounded_up(delta)}" for eps, delta in claims.curve
    )
    unprotected = "All public parameters."
    if is_count_public:
        unprotected = f"The number of {words.plural} and all public parameters."
    return _CertificateWords(
        variant=_variant_name(certificate),
        parameters=_registry_parameters(certificate),
        strength=(
            f"{guarantee}; among other things "
            f"(ε, δ) = ({quoted_eps:g}, {_rounded_up(quoted_delta)})"
        ),
        guarantee=f"{guarantee}{slack_words}; {curve_words}",
        attacker=_attacker_sentence(certificate),
        unit=_neighbors_sentence(certificate),
        unprotected=unprotected,
        statistic=f"{certificate.statistic.get('name')} on {record_space(certificate)}",
        mechanism=_mechanism_words(certificate),
        payment=_payment_sentence(certificate),
        post_processing=post_processing_sentence(certificate),
        trust_model=certificate.trust.value.capitalize(),
    )


def _rounded_up(value: float) -> str:
    """Return a number as text, rounded up to three significant digits."""
    context = Context(prec=3, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):g}"


def _quoted_point(certificate: Certificate) -> tuple[float, float]:
    """Return ε at δ = 10⁻⁶, rounded up; without a μ, a certified (ε, δ) with a small δ.

    With a slack s in total variation, (ε, δ) becomes (ε, δ + (1 + e^ε)·s).
    """
    mu = certificate.claims.gdp
    if mu is not None:
        eps = float(_rounded_up(GDP(mu).epsilon(_QUOTED_DELTA * (1 - _SLACK_PART))))
        if eps < _MAX_EXPONENT:
            slack = (1 + exp(eps)) * certificate.claims.slack
            if slack <= _QUOTED_DELTA * _SLACK_PART:
                return eps, _QUOTED_DELTA
    for eps, delta in certificate.claims.curve:
        if delta <= _LARGEST_QUOTED_DELTA:
            return eps, delta
    return certificate.claims.curve[-1]


def _variant_name(certificate: Certificate) -> str:
    """Return the registry's name of the definition that the release satisfies.

    A pure ε that holds up to a slack in total variation is approximate DP.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    kind = type(certificate.guarantee)
    if kind is PureDP and certificate.claims.slack:
        kind = ApproxDP
    return _VARIANT_NAMES.get(kind, "Custom")


def _registry_parameters(certificate: Certificate) -> dict[str, float]:
    """Return the parameters of the guarantee, by the registry's names.

    With a slack s in total variation, (ε, δ)-DP becomes (ε, δ + (1 + e^ε)·s)-DP. A
    definition that the registry does not know is quoted at one point (ε, δ).

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    guarantee = certificate.guarantee
    if isinstance(guarantee, ZCDP):
        return {"rho": guarantee.rho}
    if not isinstance(guarantee, PureDP | ApproxDP):
        eps, delta = _quoted_point(certificate)
        return {"epsilon": eps, "delta": delta}

    delta = 1.0
    if guarantee.eps < _MAX_EXPONENT:
        ideal_delta = guarantee.delta0 if isinstance(guarantee, ApproxDP) else 0.0
        delta = ideal_delta + (1 + exp(guarantee.eps)) * certificate.claims.slack
    if delta == 0:
        return {"epsilon": guarantee.eps}
    return {"epsilon": guarantee.eps, "delta": delta}


def _attacker_sentence(certificate: Certificate) -> str:
    """Say how often the best attacker guesses right.

    δ(0) bounds the total variation distance TV between the outcomes on neighboring data
    sets. With equal odds the best guess is right with probability (1 + TV)/2.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    _, delta_at_zero = certificate.claims.curve[0]
    success = min((1 + delta_at_zero) / 2, 1.0)
    success_percent = ceil(1000 * success) / 10
    noun = UNIT_WORDS[certificate.privacy_unit].noun
    return (
        f"Who knows every other {noun} and must say "
        f"{neighbor_words(certificate).guess} is right with probability "
        f"at most {success_percent}% (50% is guessing)."
    )


def _neighbors_sentence(certificate: Certificate) -> str:
    """Say when two data sets are neighbors, and whether their size is public.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
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
    """Name the mechanism, how its noise was sampled, and the software.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    software = ", ".join(
        f"{name} {version}" for name, version in certificate.software.items()
    )
    return (
        f"{certificate.mechanism}, sensitivity {certificate.sensitivity:.6g}; "
        f"{sampling_sentence(certificate)}, slack {certificate.numerics['slack']}; "
        f"bits: {certificate.entropy['source']}; {software}"
    )


def _payment_sentence(certificate: Certificate) -> str:
    """Say which entry of a ledger paid for the release, if any did.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    entry = certificate.ledger
    if entry is None:
        return "No ledger is named: other releases from these data may add to the loss."
    return (
        f"Paid by entry {entry.get('entry')} of a ledger, "
        f"whose hash there is {entry.get('head')}."
    )


def _utility_sentence(certificate: Certificate) -> str:
    """Say how near the release is to the truth, or why nothing is known about it.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    sentences = []
    for of in ("population", "records"):
        try:
            region = region_of(certificate, of=of)
        except ParameterError as error:
            sentences.append(str(error))
            continue
        sentences.append(
            f"within {_rounded_up(region.radius)} of {region.description}, "
            f"with probability 95% ({region.theorem})"
        )
    # Where the population has no region for the same reason as the records, it is said once.
    return "; ".join(dict.fromkeys(sentences))


# ---- the registry ----


def registry(certificate: Certificate, study: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry for the OpenDP registry of deployments, as a draft of tier 3.

    Parameters
    ----------
    certificate : Certificate
    study : mapping
        The curator's answers, as `read_study` returns them.

    Returns
    -------
    dict
        The entry by the schema of the registry; `yaml` writes it.
    """
    words = _certificate_words(certificate)
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
                "privacy_unit": protected_unit_sentence(certificate),
                "privacy_unit_details": words.unit,
                "privacy_parameters": words.parameters,
                "privacy_parameters_details": words.guarantee,
            },
            "deployment_model": {
                "model_name": words.trust_model,
                "model_name_details": trust_sentence(certificate),
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
                "notes": _registry_notes(certificate),
                "registry_authors": study["authors"],
            },
        },
    }


def _registry_notes(certificate: Certificate) -> str:
    """Tell the registry's reviewers who vouches for which part of an entry.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    """
    return (
        "privacy_loss and the sensitivity in implementation.mechanisms are recomputed "
        f"from the certificate with SHA-256 {certificate.sha256} (curvedp verify); "
        "variant_name, model_name, accounting and the rest of "
        "mechanisms are recorded in it by the software; "
        "all else is the curator's word."
    )


def yaml(value: Any, indent: str = "") -> str:
    """Return nested values as block YAML.

    Parameters
    ----------
    value : mapping, list of texts, text or number
        Mappings may be nested. Each text and number is written as JSON, which is YAML.
    indent : str
        The spaces before each line.
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
    _Voice.CURATOR: "said by the curator",
}


class _Row(NamedTuple):
    """A row of a page: its heading, who vouches for it, and what is said."""

    heading: str
    voice: _Voice
    text: str


def label(
    certificate: Certificate, study: Mapping[str, Any], notes: tuple[str, ...] = ()
) -> str:
    """Return a one-page privacy label for the people whose data were used.

    Parameters
    ----------
    certificate : Certificate
    study : mapping
        The curator's answers, as `read_study` returns them.
    notes : tuple of str
        Claims of the certificate that could not be confirmed.

    Returns
    -------
    str
        HTML that makes no request, and is one side of paper when printed.
    """
    words = _certificate_words(certificate)
    protected_unit = protected_unit_sentence(certificate)
    trust = trust_sentence(certificate)
    rows = [
        _Row("What is published", _Voice.CURATOR, study["description"]),
        _Row("What was computed", _Voice.RECORDED, words.statistic),
        _Row("Whose data are protected", _Voice.RECORDED, protected_unit),
        _Row("How well", _Voice.RECOMPUTED, words.strength),
        _Row("What an attacker can do", _Voice.RECOMPUTED, words.attacker),
        _Row("Who is trusted", _Voice.RECORDED, trust),
        _Row("Who sees the records", _Voice.CURATOR, study["actors"]),
        _Row("Other releases", _Voice.RECORDED, words.payment),
        _Row("Plans", _Voice.CURATOR, study["plans"]),
        _Row("Published without protection", _Voice.CURATOR, study["unprotected"]),
    ]
    for note in notes:
        rows.append(_Row("Not confirmed", _Voice.RECOMPUTED, note))
    title = f"Privacy label: {study['name']}"
    return _page(title, study["curators"], certificate, rows)


def worksheet(
    certificate: Certificate, study: Mapping[str, Any], notes: tuple[str, ...] = ()
) -> str:
    """Return a worksheet for an evaluation by NIST SP 800-226.

    Its rows are the components of the pyramid in that document's Figure 1, from top to
    base, each with who vouches for it.

    Parameters
    ----------
    certificate : Certificate
    study : mapping
        The curator's answers, as `read_study` returns them.
    notes : tuple of str
        Claims of the certificate that could not be confirmed.

    Returns
    -------
    str
        HTML that makes no request.
    """
    words = _certificate_words(certificate)
    variant = f"{words.variant}: {certificate.guarantee}"
    unconfirmed = "; ".join(notes) or "nothing"
    bias = (
        f"post-processing: {words.post_processing}; "
        "records are moved into the public ball first"
    )
    query_model = f"not interactive: one release. {words.payment}"
    threat_model = f"{words.trust_model.lower()}: {trust_sentence(certificate)}"
    side_channels = (
        "No certificate covers the time a release takes; "
        "do not let an adversary measure it."
    )
    utility = _utility_sentence(certificate)
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
    return _page(title, study["curators"], certificate, rows)


# The style sheet of a page; it fits on one side of A4 when printed.
_STYLE = (
    "@page{size:A4;margin:14mm}"
    "body{font:15px/1.4 system-ui,sans-serif;max-width:46rem;margin:1.5rem auto;padding:0 1rem;color:#111;background:#fff}"
    "h1{font-size:1.5rem;margin:0}p{margin:.2rem 0 .8rem}small{display:block;font-weight:400}"
    "table{border-collapse:collapse;width:100%;border:2px solid #111}th{width:12rem}"
    "th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #bbb;overflow-wrap:anywhere}"
    ".recomputed{color:#05603a}.recorded{color:#1d4f91}.curator{color:#7a4b00}"
)


def _page(
    title: str,
    curators: Sequence[str],
    certificate: Certificate,
    rows: Sequence[_Row],
) -> str:
    """Return a page of rows as HTML; all texts are escaped.

    Parameters
    ----------
    title : str
        The heading of the page.
    curators : sequence of str
        Who publishes the data.
    certificate : Certificate
        Named at the foot of the page, by its date and hash.
    rows : sequence of _Row
    """
    table_rows = "".join(
        f'<tr><th>{escape(row.heading)}<small class="{row.voice.value}">'
        f"{_VOICE_WORDS[row.voice]}</small></th><td>{escape(row.text)}</td></tr>"
        for row in rows
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(', '.join(curators))}</p><table>{table_rows}</table>"
        f"<p><small>Certificate of {escape(str(certificate.created))}, "
        f"SHA-256 {escape(certificate.sha256)}. "
        "Check it yourself: curvedp verify certificate.json. "
        "That the software ran unchanged on these records no certificate "
        "can show; what the curator says was not checked by any software."
        "</small></p></body></html>\n"
    )
