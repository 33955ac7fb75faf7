"""Every sentence that a person reads about a local report.
Certificates hold codes and numbers; these sentences may be changed at any time without
voiding one (see `curvedp.core.wording`).
"""

import math

from curvedp.core.codes import SamplingPath
from curvedp.core.wording import SAMPLING_WORDS, TRUST_WORDS
from curvedp.geometry import Torus, parse_manifold
from curvedp.local.certificate import LocalCertificate
from curvedp.local.metric import MetricLaplace
from curvedp.local.spaces import plural

# Two records whose log-ratio is this large count as told apart.
_CLEAR_LOG_RATIO = 10.0

_WEAKER = (
    "This is weaker than the guarantee that a curator gives at the same ε: a curator "
    "hides a person in the statistic of everybody, whereas here everybody sees this "
    "person's own report."
)


def expectation_sentence(mechanism: MetricLaplace) -> str:
    """Say how far reports will lie from their records, and what each one costs.

    The command line and the studio show it before anything is drawn.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that would draw the reports.
    """
    unit = mechanism.space.unit
    largest = mechanism.displacement_quantile(0.95)
    return (
        f"a report lies {mechanism.expected_displacement:.3g} {plural(unit)} from its "
        f"record on average, and within {largest:.3g} with probability 0.95; one report "
        f"of each record costs ε = {mechanism.epsilon:g} per {unit}"
    )


def promise_sentences(certificate: LocalCertificate) -> list[str]:
    """Say what a certificate promises, and what it does not.

    Parameters
    ----------
    certificate : LocalCertificate
        A certificate of local reports.

    Returns
    -------
    list of str
        Sentences about the protection, its limits, trust, and how reports are drawn.
    """
    if certificate.guarantee["kind"] == "metric":
        promise = _metric_sentences(certificate)
    else:
        promise = _local_sentences(certificate)
    sampling_words = SAMPLING_WORDS[SamplingPath(certificate.path)]
    return [
        *promise,
        _WEAKER,
        f"Who is trusted with the records: {TRUST_WORDS[certificate.trust]}.",
        f"How reports are drawn: {sampling_words}.",
        "It is about one report. A second report of the same record costs as much "
        "again.",
    ]


def _metric_sentences(certificate: LocalCertificate) -> list[str]:
    """Say what metric privacy protects, with numbers.

    At distance d the likelihoods of a report differ by a factor of at most e^(ε·d); the
    sentences state it at the distances 0.1/ε, 1/ε and beyond.

    Parameters
    ----------
    certificate : LocalCertificate
        The certificate of a mechanism with metric privacy.
    """
    epsilon = float(certificate.guarantee["epsilon"])
    unit = certificate.guarantee["per"]
    units = plural(unit)
    near = _rounded(0.1 / epsilon)
    middle = _rounded(1 / epsilon)
    return [
        f"Metric privacy, ε = {epsilon:g} per {unit} (geo-indistinguishability): for two "
        f"records at distance d, every report is at most e^({epsilon:g}·d) times as "
        f"likely from one as from the other.",
        f"Records {near} {units} apart can hardly be told apart (a factor of at most "
        f"{math.exp(0.1):.2f}), records {middle} apart only roughly (a factor of at "
        f"most {math.e:.2f}).",
        _unprotected_sentence(epsilon, units, _diameter(certificate)),
    ]


def _unprotected_sentence(epsilon: float, units: str, diameter: float) -> str:
    """Say which records metric privacy does not hide from each other.

    Parameters
    ----------
    epsilon : float
        ε per unit of distance.
    units : str
        The unit of distance, in the plural.
    diameter : float
        The largest distance of two records, in that unit.
    """
    if epsilon * diameter < _CLEAR_LOG_RATIO:
        return (
            f"No two records are more than {_rounded(diameter)} {units} apart: the "
            f"factor is at most {_rounded(math.exp(epsilon * diameter))} for all of them."
        )
    far = _rounded(_CLEAR_LOG_RATIO / epsilon)
    return (
        f"Not protected: about where the record is. Records {far} {units} apart can be "
        f"told apart (a factor of up to {math.exp(_CLEAR_LOG_RATIO):.0f})."
    )


def _diameter(certificate: LocalCertificate) -> float:
    """Return the largest distance of two records, in the unit of the certificate.

    Parameters
    ----------
    certificate : LocalCertificate
        The certificate of a mechanism with metric privacy.

    Returns
    -------
    float
        Kilometers on the Earth, else the manifold's unit; infinite on unbounded spaces.
    """
    unit_length = float(certificate.parameters["unit_length"])
    if certificate.space == "earth":
        return math.pi * unit_length
    manifold = parse_manifold(certificate.space)
    if isinstance(manifold, Torus):
        return math.pi * math.sqrt(manifold.dim)
    # Two-point homogeneous spaces: geodesics end where they stop being shortest.
    return float(manifold.injectivity_radius)


def _local_sentences(certificate: LocalCertificate) -> list[str]:
    """Say what local privacy protects, with the numbers of the guarantee.

    Parameters
    ----------
    certificate : LocalCertificate
        The certificate of a mechanism with local privacy.
    """
    promise = certificate.guarantee["promise"]
    return [
        f"Local privacy, {promise}: whatever the record is, it could have been any other "
        f"of the permitted ones, as far as this bound says.",
        "Protected is the whole record, not only its details.",
    ]


def _rounded(value: float) -> str:
    """Return a number with three significant digits, for a sentence."""
    return f"{value:.3g}"
