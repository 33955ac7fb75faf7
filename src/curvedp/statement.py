"""What a release tells the public: an entry for the deployments registry, a one-page label, an SP 800-226 worksheet.

Three voices, never mixed: what is *recomputed* from the certificate before anything is written; what the software *recorded*
in it, which holds if that software ran unchanged; and what the *curator* says in `study.toml`, which no software can check.
"""

import json
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import ROUND_CEILING, Context
from html import escape
from math import ceil, exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from curvedp.privacy import ZCDP, ApproxDP, PureDP, RenyiDP

QUESTIONS: dict[str, tuple[str, Any]] = {
    "slug": ("a short name for a web address", "my-study-2026"),
    "name": ("name of what is published", ""),
    "curators": ("who publishes it", [""]),
    "description": ("what it is, in a sentence or two", ""),
    "intended_use": ("what it is for", ""),
    "region": ("where the data are from, and whose law applies", ""),
    "publication_date": ("YYYY-MM-DD", ""),
    "sector": (
        "Technology, Healthcare, Education, Government, Energy or Finance",
        "Healthcare",
    ),
    "data": (
        "which records could have been in the data set, and how they were collected",
        "",
    ),
    "preprocessing": (
        "what was done to the data before, and how radius, center and guarantee were chosen",
        "",
    ),
    "unprotected": (
        "what else of these data is or will be published without privacy",
        "",
    ),
    "actors": ("who sees the records, and why they are trusted", ""),
    "security": ("how the records are stored, and who has access", ""),
    "releases": ("'One release' or 'Many releases'", "One release"),
    "plans": (
        "further releases from the same data, and the budget for all of them",
        "",
    ),
    "source": ("'Static' or 'Dynamic' data", "Static"),
    "bias": ("whom the data leave out, and what the noise does to small groups", ""),
    "justification": ("why this guarantee is good enough", ""),
    "links": ("where to read more", ""),
    "authors": ("who filled in this form", [""]),
}
_CHOICES = {
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
_VARIANTS: dict[type, str] = {
    PureDP: "Pure DP",
    ApproxDP: "Approximate DP",
    ZCDP: "Zero-concentrated DP",
    RenyiDP: "Renyi DP",
}


def template() -> str:
    """The questions as a TOML file to fill in."""
    asked = (
        f"# {about}\n{name} = {json.dumps(example)}"
        for name, (about, example) in QUESTIONS.items()
    )
    head = "# What no certificate can know. Everything here is your word, and is shown as such."
    return "\n\n".join([head, *asked]) + "\n"


def read_study(path: str | Path) -> dict[str, Any]:
    """The answers in a file; refused if it is not TOML, or a question is missing, unanswered, unknown, or answered by
    something other than text."""
    try:
        with Path(path).open("rb") as file:
            said = tomllib.loads(file.read(1 << 20).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ParameterError(f"{path} is not a TOML file") from None
    if unknown := sorted(set(said) ^ set(QUESTIONS)):
        line = "must answer exactly the questions of the template"
        raise ParameterError(f"{path} {line}; see {', '.join(unknown)[:200]}")
    for name, (about, example) in QUESTIONS.items():
        answer = said[name]
        texts = (
            answer
            if isinstance(example, list) and isinstance(answer, list)
            else [answer]
        )
        if not texts or not all(
            isinstance(text, str) and text.strip() for text in texts
        ):
            raise ParameterError(f"{name} is not answered: {about}")
        if name in _CHOICES and answer not in _CHOICES[name]:
            raise ParameterError(f"{name} must be one of {', '.join(_CHOICES[name])}")
    try:
        date.fromisoformat(said["publication_date"])
    except ValueError:
        raise ParameterError("publication_date must be a date, YYYY-MM-DD") from None
    return said


# ---- what the certificate proves, in words ----


def _up(value: float) -> str:
    """Three digits, rounded up."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(value)):g}"


def _proved(c: Certificate) -> SimpleNamespace:
    asked, slack, curve, n, entry = (
        c.guarantee,
        c.claims.slack,
        c.claims.curve,
        c.statistic.get("n"),
        c.ledger,
    )
    eps, delta = next((pair for pair in curve if pair[1] <= 1e-5), curve[-1])
    parameters = {"epsilon": eps, "delta": delta}
    if isinstance(asked, ZCDP):
        parameters = {"rho": asked.rho}
    elif isinstance(asked, PureDP | ApproxDP):
        spent = (
            getattr(asked, "delta0", 0.0) + (1 + exp(asked.eps)) * slack
            if asked.eps < 700
            else 1.0
        )
        parameters = {"epsilon": asked.eps, **({"delta": spent} if spent else {})}
    # Pure ε up to a slack is (ε, δ); what has no name in the registry is "Custom".
    kind = ApproxDP if slack and type(asked) is PureDP else type(asked)
    # δ(0) bounds the total variation; with equal odds the best guess is right with probability (1 + TV)/2.
    right = (1 + curve[0][1]) / 2
    counted = asked.adjacency == "replace-one"
    words = UNIT_WORDS[c.privacy_unit]
    count = f"the number of {words.plural}" if n is None else f"n = {n}"
    size = f"{count} is {'public' if counted else 'private'}"
    drawn = f"{sampling_sentence(c)}, slack {c.numerics['slack']}"
    software = ", ".join(f"{name} {version}" for name, version in c.software.items())
    payment = "No ledger is named: other releases from these data may add to the loss."
    if entry is not None:
        payment = f"Paid by entry {entry.get('entry')} of a ledger, whose hash there is {entry.get('head')}."
    return SimpleNamespace(
        variant=_VARIANTS.get(kind, "Custom"),
        parameters=parameters,
        strength=f"{asked}; among other things (ε, δ) = ({eps:g}, {_up(delta)})",
        guarantee=f"{asked}{f', up to a total variation of {_up(slack)}' if slack else ''}; "
        + "; ".join(f"δ({e:g}) = {_up(d)}" for e, d in curve),
        attacker=f"Who knows every other {words.noun} and must say {neighbor_words(c).guess} is right with probability "
        f"at most {ceil(1000 * min(right, 1.0)) / 10}% (50% is guessing).",
        unit=f"two data sets are neighbors if they differ by {words.in_full} ({asked.adjacency}; {size})",
        unprotected=f"The number of {words.plural} and all public parameters."
        if counted
        else "All public parameters.",
        what=f"{c.statistic.get('name')} on {record_space(c)}",
        mechanism=f"{c.mechanism}, sensitivity {c.sensitivity:.6g}; {drawn}; bits: {c.entropy['source']}; {software}",
        payment=payment,
        afterwards=post_processing_sentence(c),
        model=c.trust.value.capitalize(),
    )


def _utility(certificate: Certificate) -> str:
    try:
        region = region_of(certificate)
    except ParameterError as error:
        return str(error)
    return f"within {_up(region.radius)} of {region.description}, with probability 95% ({region.theorem})"


# ---- the registry ----


def registry(certificate: Certificate, study: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of tier 3 by the schema of the OpenDP deployments registry, as a draft for its reviewers."""
    said, proved = study, _proved(certificate)
    return {
        "url_slug": said["slug"],
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": said["name"],
                "data_curators": said["curators"],
                "intended_use": said["intended_use"],
                "data_product_type": "Summary statistics",
                "data_product_region": said["region"],
                "description": said["description"],
                "publication_date": said["publication_date"],
                "data_product_sector": said["sector"],
            },
            "dp_variant": {
                "variant_name": proved.variant,
                "data_domain": said["data"],
                "unprotected_quantities": f"{proved.unprotected} Curator: {said['unprotected']}",
            },
            "privacy_loss": {
                "privacy_unit": protected_unit_sentence(certificate),
                "privacy_unit_details": proved.unit,
                "privacy_parameters": proved.parameters,
                "privacy_parameters_details": proved.guarantee,
            },
            "deployment_model": {
                "model_name": proved.model,
                "model_name_details": trust_sentence(certificate),
                "actors": said["actors"],
                "release_type": said["releases"],
                "release_type_details": said["plans"],
                "data_source_type": said["source"],
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": proved.afterwards,
                "composition": proved.payment,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": said["preprocessing"],
                "mechanisms": f"{proved.mechanism}. Curator, on security: {said['security']}",
                "justification": said["justification"],
            },
            "administrative": {
                "sources": said["links"],
                "notes": "privacy_loss and the sensitivity in implementation.mechanisms are recomputed from the certificate "
                f"with SHA-256 {certificate.sha256} (curvedp verify); variant_name, model_name, accounting and the rest of "
                "mechanisms are recorded in it by the software; all else is the curator's word.",
                "registry_authors": said["authors"],
            },
        },
    }


def yaml(value: Any, indent: str = "") -> str:
    """Block YAML of mappings, lists of texts, texts and numbers: each scalar as JSON writes it, which is YAML."""
    if isinstance(value, Mapping):
        parts = (
            (name, part, "\n" if isinstance(part, Mapping | list) else " ")
            for name, part in value.items()
        )
        return "".join(
            f"{indent}{name}:{gap}{yaml(part, indent + '  ')}"
            for name, part, gap in parts
        )
    if isinstance(value, list):
        return "".join(f"{indent}- {yaml(part)}" for part in value)
    return json.dumps(value, ensure_ascii=False) + "\n"


# ---- pages ----

Row = tuple[str, str, str]  # what, who says so, the words
_PROVED, _KEPT, _SAID = "recomputed", "recorded", "curator"
_VOICES = {
    _PROVED: "recomputed from the certificate",
    _KEPT: "recorded by the software",
    _SAID: "said by the curator",
}


def label(
    certificate: Certificate, study: Mapping[str, Any], notes: tuple[str, ...] = ()
) -> str:
    """One page for those whose data it is: HTML without any request, one side of paper when printed."""
    proved = _proved(certificate)
    rows = [
        ("What is published", _SAID, study["description"]),
        ("What was computed", _KEPT, proved.what),
        ("Whose data are protected", _KEPT, protected_unit_sentence(certificate)),
        ("How well", _PROVED, proved.strength),
        ("What an attacker can do", _PROVED, proved.attacker),
        ("Who is trusted", _KEPT, trust_sentence(certificate)),
        ("Who sees the records", _SAID, study["actors"]),
        ("Other releases", _KEPT, proved.payment),
        ("Plans", _SAID, study["plans"]),
        ("Published without protection", _SAID, study["unprotected"]),
        *(("Not confirmed", _PROVED, note) for note in notes),
    ]
    return _page(
        f"Privacy label: {study['name']}",
        ", ".join(study["curators"]),
        certificate,
        rows,
    )


def worksheet(
    certificate: Certificate, study: Mapping[str, Any], notes: tuple[str, ...] = ()
) -> str:
    """The components of NIST SP 800-226's pyramid (its figure 1), from top to base, with who answers each."""
    proved, moved = _proved(certificate), "records are moved into the public ball first"
    rows = [
        ("ε and other privacy parameters", _PROVED, proved.guarantee),
        (
            "Variant of differential privacy",
            _KEPT,
            f"{proved.variant}: {certificate.guarantee}",
        ),
        ("Why they are small enough", _SAID, study["justification"]),
        ("Unit of privacy", _KEPT, proved.unit),
        ("Mixing with other data releases", _SAID, study["unprotected"]),
        ("Algorithms and correctness", _KEPT, proved.mechanism),
        ("Not confirmed from the certificate", _PROVED, "; ".join(notes) or "nothing"),
        ("Choices made from the data", _SAID, study["preprocessing"]),
        ("Utility and accuracy", _PROVED, _utility(certificate)),
        ("Statistical bias", _KEPT, f"post-processing: {proved.afterwards}; {moved}"),
        ("Systemic and human bias", _SAID, study["bias"]),
        ("Query model", _KEPT, f"not interactive: one release. {proved.payment}"),
        ("Further releases", _SAID, study["plans"]),
        (
            "Threat model",
            _KEPT,
            f"{proved.model.lower()}: {trust_sentence(certificate)}",
        ),
        ("Actors", _SAID, study["actors"]),
        (
            "Side channels",
            _KEPT,
            "No certificate covers the time a release takes; do not let an adversary measure it.",
        ),
        ("Security and access control", _SAID, study["security"]),
        ("Data collection exposure", _SAID, study["data"]),
    ]
    return _page(
        f"SP 800-226 worksheet: {study['name']}",
        ", ".join(study["curators"]),
        certificate,
        rows,
    )


_STYLE = (
    "@page{size:A4;margin:14mm}"
    "body{font:15px/1.4 system-ui,sans-serif;max-width:46rem;margin:1.5rem auto;padding:0 1rem;color:#111;background:#fff}"
    "h1{font-size:1.5rem;margin:0}p{margin:.2rem 0 .8rem}small{display:block;font-weight:400}"
    "table{border-collapse:collapse;width:100%;border:2px solid #111}th{width:12rem}"
    "th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #bbb;overflow-wrap:anywhere}"
    ".recomputed{color:#05603a}.recorded{color:#1d4f91}.curator{color:#7a4b00}"
)


def _page(title: str, by: str, certificate: Certificate, rows: list[Row]) -> str:
    cells = "".join(
        f'<tr><th>{escape(what)}<small class="{voice}">{_VOICES[voice]}</small></th><td>{escape(words)}</td></tr>'
        for what, voice, words in rows
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(by)}</p><table>{cells}</table>"
        f"<p><small>Certificate of {escape(str(certificate.created))}, SHA-256 {escape(certificate.sha256)}. "
        "Check it yourself: curvedp verify certificate.json. That the software ran unchanged on these records no certificate "
        "can show; what the curator says was not checked by any software.</small></p></body></html>\n"
    )
