"""Write pages of HTML about private releases: a one-page privacy label for the people
whose data were used, and a worksheet for an evaluation by NIST SP 800-226. Each row of a
page says who vouches for it: a recomputation, the software, or the *curator*, who
publishes the releases.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from html import escape
from typing import Any, NamedTuple

from curvedp.core.certificate import Certificate
from curvedp.core.wording import protected_unit_sentence, trust_sentence
from curvedp.statement.promise import Certificates, as_list, promise_of
from curvedp.statement.words import (
    describe_certificates,
    join_sentences,
    utility_sentence,
)

__all__ = ["label", "worksheet"]


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
    listed = as_list(certificates)
    words = describe_certificates(listed)
    protected_unit = join_sentences(listed, protected_unit_sentence)
    trust = join_sentences(listed, trust_sentence)
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
    listed = as_list(certificates)
    rows = _worksheet_rows(listed, study, notes, ledger_note)
    title = f"SP 800-226 worksheet: {study['name']}"
    return _page(title, study["curators"], listed, rows, signers)


def _worksheet_rows(
    certificates: list[Certificate],
    study: Mapping[str, Any],
    notes: tuple[str, ...],
    ledger_note: str,
) -> list[_Row]:
    """Return the rows of a worksheet, in the order of the document's pyramid.

    Parameters
    ----------
    certificates : list of Certificate
        The certificates of the releases.
    study : mapping
        The curator's answers.
    notes : tuple of str
        Claims of the certificates that could not be confirmed.
    ledger_note : str
        What the ledger says, if it was read.
    """
    words = describe_certificates(certificates)
    n_releases = len(certificates)
    count = "one release" if n_releases == 1 else f"{n_releases} releases"
    variant = f"{words.variant}: {promise_of(certificates).guarantee}"
    unconfirmed = "; ".join(notes) or "nothing"
    bias = (
        f"post-processing: {words.post_processing}; "
        "records are clipped to the public ball first"
    )
    query_model = f"not interactive: {count}. {words.payment} {ledger_note}".strip()
    trust = join_sentences(certificates, trust_sentence)
    threat_model = f"{words.trust_model.lower()}: {trust}"
    side_channels = (
        "No certificate covers the time a release takes; "
        "do not let an adversary measure it."
    )
    utility = join_sentences(certificates, utility_sentence)

    curator, recorded, recomputed = _Voice.CURATOR, _Voice.RECORDED, _Voice.RECOMPUTED
    return [
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
    """Return an HTML page with a table of rows, for a label or a worksheet.

    All texts are escaped.

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
