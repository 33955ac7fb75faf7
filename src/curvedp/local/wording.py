"""Every sentence that a person reads about a local report.

Certificates hold codes and numbers; these sentences may be changed at any time without
voiding one (see `curvedp.core.wording`).
"""

import math

from curvedp.core.codes import SamplingPath
from curvedp.core.wording import SAMPLING_WORDS, TRUST_WORDS
from curvedp.local.certificate import LocalCertificate

_WEAKER = (
    "This is weaker than the guarantee that a curator gives at the same ε: a curator "
    "hides a person in the statistic of everybody, whereas here everybody sees this "
    "person's own report."
)


def promise_sentences(certificate: LocalCertificate) -> list[str]:
    """Say what a certificate promises, and what it does not.

    Parameters
    ----------
    certificate : LocalCertificate
        A certificate.
    """
    if certificate.guarantee["kind"] == "metric":
        promise = _metric_sentences(certificate)
    else:
        promise = _local_sentences(certificate)
    drawn = SAMPLING_WORDS[SamplingPath(certificate.path)]
    return [
        *promise,
        _WEAKER,
        f"Who is trusted with the records: {TRUST_WORDS[certificate.trust]}.",
        f"How reports are drawn: {drawn}.",
        "It is about one report. A second report of the same record costs as much "
        "again.",
    ]


def _metric_sentences(certificate: LocalCertificate) -> list[str]:
    """Say what metric privacy protects, with numbers.

    Parameters
    ----------
    certificate : LocalCertificate
        Of a mechanism with metric privacy.
    """
    epsilon = float(certificate.guarantee["epsilon"])
    unit = certificate.guarantee["per"]
    near = _rounded(0.1 / epsilon)
    middle = _rounded(1 / epsilon)
    far = _rounded(10 / epsilon)
    return [
        f"Metric privacy, ε = {epsilon:g} per {unit} (geo-indistinguishability): for two "
        f"records at distance d, every report is at most e^({epsilon:g}·d) times as "
        f"likely from one as from the other.",
        f"Records {near} {unit}s apart can hardly be told apart (a factor of at most "
        f"{math.exp(0.1):.2f}), records {middle} apart only roughly (a factor of at "
        f"most {math.e:.2f}).",
        f"Not protected: about where the record is. Records {far} {unit}s apart can be "
        f"told apart (a factor of up to {math.exp(10):.0f}).",
    ]


def _local_sentences(certificate: LocalCertificate) -> list[str]:
    """Say what local privacy protects, with numbers.

    Parameters
    ----------
    certificate : LocalCertificate
        Of a mechanism with local privacy.
    """
    promise = certificate.guarantee["promise"]
    return [
        f"Local privacy, {promise}: whatever the record is, it could have been any other "
        f"of the permitted ones, as far as this bound says.",
        "Protected is the whole record, not only its details.",
    ]


def _rounded(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.3g}"
