"""Codes that certificates hold: short names of facts, such as who is trusted. A code
never changes its meaning; `curvedp.core.wording` says it in words.

A code never changes its meaning; `wording` says it in words.
"""

from enum import StrEnum

from curvedp.privacy.unit import PrivacyUnit


class ProtectedUnit(StrEnum):
    """The part of the data in which two neighboring data sets may differ.

    Whether it is replaced by any other, or added and removed, is the adjacency of the
    guarantee. Labels are either public (a record changes within its class) or private
    (a record changes together with its label). A domain is a public part of the data
    without labels: a subject, a session or a site.
    """

    RECORD = "record"
    PERSON = "person"
    RECORD_IN_CLASS = "record_in_class"
    PERSON_IN_CLASS = "person_in_class"
    RECORD_IN_DOMAIN = "record_in_domain"
    PERSON_IN_DOMAIN = "person_in_domain"
    LABELED_RECORD = "labeled_record"
    LABELED_PERSON = "labeled_person"
    PREDICTOR_AND_RESPONSE = "predictor_and_response"
    PAIR = "pair"
    AS_IN_EACH_RUN = "as_in_each_run"

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """Whether records or people are protected, whatever is public about them."""
        if self in _UNITS_OF_PEOPLE:
            return PrivacyUnit.PERSON
        return PrivacyUnit.RECORD

    @property
    def ledger_unit(self) -> PrivacyUnit | None:
        """The privacy unit of the ledgers that may charge a release for this unit.

        A ledger adds up the privacy losses of all releases from a data set, and its own
        unit is either a whole row ("record") or all rows of one person ("person").

        - A record with its label, or a response with its predictors, is a whole row. A
          release that protects it is charged to a ledger for records.
        - A release that protects a pair of records also protects each record of it,
          because replacing one of the two is one way to change the pair.
        - A release that lets a record change only within its class, or within its
          subject, session or site, protects less than a whole row. It can be charged
          only to a ledger whose unit is a record within its class.

        None for `AS_IN_EACH_RUN`: the release is one of several runs, each with its own
        unit.
        """
        if self is ProtectedUnit.AS_IN_EACH_RUN:
            return None
        if self in _UNITS_IN_A_CLASS:
            return self.privacy_unit.in_class
        return self.privacy_unit


_UNITS_OF_PEOPLE = frozenset(
    (
        ProtectedUnit.PERSON,
        ProtectedUnit.PERSON_IN_CLASS,
        ProtectedUnit.PERSON_IN_DOMAIN,
        ProtectedUnit.LABELED_PERSON,
    )
)
_UNITS_IN_A_CLASS = frozenset(
    (
        ProtectedUnit.RECORD_IN_CLASS,
        ProtectedUnit.PERSON_IN_CLASS,
        ProtectedUnit.RECORD_IN_DOMAIN,
        ProtectedUnit.PERSON_IN_DOMAIN,
    )
)


class TrustModel(StrEnum):
    """Who sees the records before noise is added."""

    CENTRAL = "central"  # a curator holds all records
    FEDERATED = "federated"  # each site holds its own; the server sees masked sums
    LOCAL = "local"  # nobody: each person perturbs their own record


class PostProcessing(StrEnum):
    """What is done to a draw before it is released. It costs no privacy."""

    PROJECT_TO_BALL = "project_to_ball"
    SHRINK_TO_CENTER = "shrink_to_center"
    SHRINK_IN_EVERY_STEP = "shrink_in_every_step"
    DIVIDE_BY_HESSIAN = "divide_by_hessian"
    CLIP_TO_VARIANCE_RANGE = "clip_to_variance_range"
    LEADING_EIGENVECTORS = "leading_eigenvectors"
    CONSISTENT_COUNTS = "consistent_counts"
    QUOTIENT_OF_NOISY_SUMS = "quotient_of_noisy_sums"
    PROJECT_TO_TANGENT_BALL = "project_to_tangent_ball"
    FEDERATED_ESTIMATE = "federated_estimate"


class SamplingPath(StrEnum):
    """How noise is drawn."""

    EXACT_THEN_ROUND = "exact_then_round"  # real numbers, rounded to a public grid
    DISCRETE_NOISE = "discrete_noise"  # whole numbers with discrete noise
    FLOAT64 = "float64"  # in floats: the claims hold for the ideal law only


class ProfileKind(StrEnum):
    """What is known of a mechanism's privacy profile."""

    EXACT = "exact"
    PROVED_BOUND = "proved_bound"


class ChoiceRule(StrEnum):
    """Why a mechanism was taken."""

    NAMED = "named"  # the caller asked for it by name
    SMALLEST_PREDICTED_ERROR = "smallest_predicted_error"
    PRIVATE_BALL = "private_ball"  # radius="private" was asked for
    PRIVATE_COUNT = "private_count"  # the number of records is private
    ONLY_ONE = "only_one"  # the estimator has no other
