"""Every sentence that a person reads about a release, by code.
Certificates hold codes (`curvedp.core.codes`); reports, the command line, the studio
and statements print these words. A sentence here may be changed at any time: no
sentence is ever compared, parsed or stored, so that rewording voids no certificate.
"""

from typing import NamedTuple

from curvedp.core.certificate import Certificate
from curvedp.core.codes import (
    ChoiceRule,
    PostProcessing,
    ProfileKind,
    ProtectedUnit,
    SamplingPath,
    TrustModel,
)
from curvedp.privacy.unit import PERSON_IN_FULL


class UnitWords(NamedTuple):
    """How a protected unit is named in a sentence.

    Attributes
    ----------
    noun, plural : str
        The unit in the singular and in the plural.
    in_full : str
        What one neighboring data set has in place of the other's.
    public_facts : tuple of str
        What is public about the data besides public parameters and, for replace-one, n.
    """

    noun: str
    plural: str
    in_full: str
    public_facts: tuple[str, ...] = ()


UNIT_WORDS: dict[ProtectedUnit, UnitWords] = {
    ProtectedUnit.RECORD: UnitWords("record", "records", "one record"),
    ProtectedUnit.PERSON: UnitWords("person", "people", PERSON_IN_FULL),
    ProtectedUnit.RECORD_IN_CLASS: UnitWords(
        "record", "records", "one record within its class", ("labels", "class sizes")
    ),
    ProtectedUnit.PERSON_IN_CLASS: UnitWords(
        "person",
        "people",
        f"{PERSON_IN_FULL}, within their class",
        ("labels", "class sizes"),
    ),
    ProtectedUnit.RECORD_IN_DOMAIN: UnitWords(
        "record",
        "records",
        "one record within its domain (subject, session or site)",
        ("domains", "their sizes"),
    ),
    ProtectedUnit.PERSON_IN_DOMAIN: UnitWords(
        "person",
        "people",
        f"{PERSON_IN_FULL}, within their domain (session or site)",
        ("domains", "their sizes"),
    ),
    ProtectedUnit.LABELED_RECORD: UnitWords(
        "record", "records", "one record with its label", ("the set of classes",)
    ),
    ProtectedUnit.LABELED_PERSON: UnitWords(
        "person",
        "people",
        f"{PERSON_IN_FULL} and labels",
        ("the set of classes",),
    ),
    ProtectedUnit.PREDICTOR_AND_RESPONSE: UnitWords(
        "record", "records", "one record, predictors and response"
    ),
    ProtectedUnit.PAIR: UnitWords("pair", "pairs", "one pair of records"),
    ProtectedUnit.AS_IN_EACH_RUN: UnitWords(
        "record", "records", "as in each of the releases that were chosen from"
    ),
}

TRUST_WORDS: dict[TrustModel, str] = {
    TrustModel.CENTRAL: "a curator holds the records and is trusted with them",
    TrustModel.FEDERATED: (
        "no curator: each site holds its own records, and the server sees masked sums. The "
        "guarantee holds against the public and the server, as far as X25519, ChaCha20, "
        "SHA-256 and Ed25519 hold. A site that does not follow the protocol can spoil the "
        "value, not the others' privacy"
    ),
    TrustModel.LOCAL: "nobody: each person perturbs their own record before it is sent",
}

POST_PROCESSING_WORDS: dict[PostProcessing, str] = {
    PostProcessing.PROJECT_TO_BALL: "projection onto the public ball",
    PostProcessing.SHRINK_TO_CENTER: "James-Stein shrinkage toward the center",
    PostProcessing.SHRINK_IN_EVERY_STEP: "James-Stein shrinkage in every step",
    PostProcessing.DIVIDE_BY_HESSIAN: (
        "division of the step by the Hessian at the released mean square distance"
    ),
    PostProcessing.CLIP_TO_VARIANCE_RANGE: "clipping to [0, radius²]",
    PostProcessing.LEADING_EIGENVECTORS: "leading eigenvectors of the noisy moment",
    PostProcessing.CONSISTENT_COUNTS: "counts of cells made consistent",
    PostProcessing.QUOTIENT_OF_NOISY_SUMS: "quotients of the noisy sums",
    PostProcessing.PROJECT_TO_TANGENT_BALL: (
        "projection of point and velocity onto their public bounds"
    ),
    PostProcessing.FEDERATED_ESTIMATE: "the estimate that follows from the noisy sums",
}

SAMPLING_WORDS: dict[SamplingPath, str] = {
    SamplingPath.EXACT_THEN_ROUND: "drawn exactly, then rounded to a public grid",
    SamplingPath.DISCRETE_NOISE: "whole numbers with discrete noise",
    SamplingPath.FLOAT64: "drawn in float64: the claims hold for the ideal distribution",
}

PROFILE_WORDS: dict[ProfileKind, str] = {
    ProfileKind.EXACT: "exact privacy profile",
    ProfileKind.PROVED_BOUND: "proved bound on the privacy profile",
}

CHOICE_WORDS: dict[ChoiceRule, str] = {
    ChoiceRule.NAMED: "chosen by name",
    ChoiceRule.SMALLEST_PREDICTED_ERROR: "smallest predicted error",
    ChoiceRule.PRIVATE_BALL: "a private ball was requested",
    ChoiceRule.PRIVATE_COUNT: "noisy sums, because the number of records is private",
    ChoiceRule.ONLY_ONE: "the only mechanism for this statistic",
}


class NeighborWords(NamedTuple):
    """How the change between neighboring data sets is described to a reader.

    Attributes
    ----------
    change : str
        What is done, such as "replacing one person".
    guess : str
        What an attacker who knows everyone else must guess.
    """

    change: str
    guess: str


def neighbor_words(certificate: Certificate) -> NeighborWords:
    """Describe which two data sets the guarantee makes hard to distinguish.

    Parameters
    ----------
    certificate : Certificate
        A certificate, whose unit and adjacency decide.

    Returns
    -------
    NeighborWords
        What changes between the two data sets, and what an attacker must guess.
    """
    noun = UNIT_WORDS[certificate.privacy_unit].noun
    if certificate.guarantee.adjacency == "replace-one":
        return NeighborWords(
            f"replacing one {noun}", f"which of two values one {noun} has"
        )
    return NeighborWords(
        f"adding or removing one {noun}", f"whether one {noun} is there at all"
    )


def protected_unit_sentence(certificate: Certificate) -> str:
    """Say in full whose data are protected, and what about the data is public.

    Parameters
    ----------
    certificate : Certificate
        A certificate, whose unit and adjacency decide.

    Returns
    -------
    str
        Such as "one record, replaced by any other; the number of records is public".
    """
    words = UNIT_WORDS[certificate.privacy_unit]
    count = f"the number of {words.plural}"
    if certificate.guarantee.adjacency == "replace-one":
        public_facts = _are_public((*words.public_facts, count))
        return f"{words.in_full}, replaced by any other; {public_facts}"
    sentence = f"{words.in_full}, added or removed; {count} is private"
    if words.public_facts:
        sentence = f"{sentence}; {_are_public(words.public_facts)}"
    return sentence


def _are_public(facts: tuple[str, ...]) -> str:
    """Say of one or several facts that they are public.

    Parameters
    ----------
    facts : tuple of str
        Noun phrases, at least one.
    """
    if len(facts) == 1:
        return f"{facts[0]} is public"
    return f"{', '.join(facts[:-1])} and {facts[-1]} are public"


def trust_sentence(certificate: Certificate) -> str:
    """Say who is trusted with the records.

    Parameters
    ----------
    certificate : Certificate
        A certificate. That of a federated release also tells how many sites may collude
        with the server.

    Returns
    -------
    str
        A clause without a full stop.
    """
    sentence = TRUST_WORDS[certificate.provenance.trust]
    colluding_sites = certificate.statistic.get("collusion")
    if certificate.provenance.trust is TrustModel.FEDERATED and colluding_sites:
        sentence = (
            f"{sentence}. The server may know all of {colluding_sites} other sites"
        )
    return sentence


def post_processing_sentence(certificate: Certificate) -> str:
    """Say what was done to the noisy draw before it was released.

    Parameters
    ----------
    certificate : Certificate
        A certificate, whose codes of post-processing are read.
    """
    codes = certificate.release["post_processing"]
    if not codes:
        return "nothing"
    return ", ".join(POST_PROCESSING_WORDS[PostProcessing(code)] for code in codes)


def sampling_sentence(certificate: Certificate) -> str:
    """Say how the noise was drawn: exactly and then rounded, as integers, or in floats.

    Parameters
    ----------
    certificate : Certificate
        A certificate.
    """
    return SAMPLING_WORDS[SamplingPath(certificate.provenance.numerics["path"])]


def profile_sentence(certificate: Certificate) -> str:
    """Say whether the certificate's privacy profile is exact or a proved bound.

    Parameters
    ----------
    certificate : Certificate
        A certificate.
    """
    return PROFILE_WORDS[ProfileKind(certificate.provenance.numerics["profile"])]


def choice_sentence(certificate: Certificate, *, with_excluded: bool = True) -> str:
    """Say why this mechanism was chosen, with the predicted errors that were compared.

    Parameters
    ----------
    certificate : Certificate
        A certificate.
    with_excluded : bool
        Whether the mechanisms that were not considered are named too.

    Returns
    -------
    str
        Such as "smallest predicted error (gaussian 0.01, laplace 0.02)".
    """
    choice = certificate.release["choice"]
    sentence = CHOICE_WORDS[ChoiceRule(choice["rule"])]
    errors = choice["predicted_errors"]
    if errors:
        ranking = ", ".join(f"{name} {error:.4g}" for name, error in errors.items())
        sentence = f"{sentence} ({ranking})"
    if with_excluded and choice["excluded"]:
        sentence = f"{sentence}; not considered: {', '.join(choice['excluded'])}"
    return sentence
