"""The server of a release that several sites compute together (experimental).
In each round the server asks the sites (hospitals, say) for masked vectors and adds
them up; it learns only the noisy total. The plan states in advance which sums are
formed. The server builds a certificate like that of any other release.
"""

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from curvedp.core.capabilities import ChecksItself
from curvedp.core.certificate import (
    Certificate,
    Check,
    Release,
    check_at_least,
    is_certificate_signed,
    seal,
)
from curvedp.core.codes import ChoiceRule, SamplingPath, TrustModel
from curvedp.core.mechanism import (
    Choice,
    Draw,
    Mechanism,
    MechanismInfo,
    ReleaseTerms,
    check_supported,
)
from curvedp.core.statistic import Statistic
from curvedp.errors import (
    CurvedpError,
    FederationRefused,
    ParameterError,
    ReleaseWarning,
)
from curvedp.federated.experimental import warn_experimental
from curvedp.federated.masking import Party
from curvedp.federated.masks import is_announcement
from curvedp.federated.noise import surplus_noise
from curvedp.federated.plan import Plan
from curvedp.federated.schedule import Round, RoundTerms
from curvedp.federated.unmasking import unmask_sum
from curvedp.privacy import Guarantee, PrivacyCurve
from curvedp.randomness import Source
from curvedp.signing import digest

# The answer of each site that gave one, by the site's index.
Answers = dict[int, dict[str, Any]]

# A transport: sends a request to each site and returns the answers that came in time.
Ask = Callable[[Mapping[int, Mapping[str, Any]]], Answers]


@dataclass(frozen=True, eq=False)
class FederatedMechanism(Mechanism, ChecksItself):
    """Masked sums of integers over sites, with discrete noise in shares (experimental).

    The masking protocol has not been reviewed by outside cryptographers. The
    mechanism's statistic is a `Plan`, whose terms are all its parameters. Its data are
    a run of the plan: the sites themselves.

    Guarantees:

    - μ-GDP for replace-one adjacency against the public, the server, and the server
      together with `collusion` of the sites, in the computational sense, whichever
      sites are lost, up to `dropouts`;
    - within total variation τ of a post-processing of real Gaussian noise
      (docs/theory/federation.md).
    """

    if TYPE_CHECKING:
        statistic: Plan

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "federated-sum",
        reads="records",
        sampling=SamplingPath.DISCRETE_NOISE,
        trust=TrustModel.FEDERATED,
        is_staged=True,
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether the statistic is a federated plan.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is released.
        """
        return isinstance(statistic, Plan)

    @classmethod
    def calibrate(cls, statistic: Any, guarantee: Guarantee) -> Self:
        """Return the mechanism of a plan.

        Parameters
        ----------
        statistic : Plan
            The plan, which states its guarantee.
        guarantee : Guarantee
            The same guarantee.

        Returns
        -------
        FederatedMechanism
            The mechanism, whose noise the plan determines.

        Raises
        ------
        ParameterError
            If the guarantee is not the one of the plan.
        """
        check_supported(cls, statistic)
        if guarantee != statistic.guarantee:
            raise ParameterError(
                f"the plan is for {statistic.guarantee}, not {guarantee}"
            )
        return cls(statistic=statistic)

    @property
    def privacy_profile(self) -> PrivacyCurve:
        """The privacy profile of all rounds: that of one Gaussian release."""
        return self.statistic.profile

    def prepare_data(self, data: Any) -> "_Run | _FinishedRun":
        """Return the run unchanged, after checking that it is one.

        In a federated release the sites hold the records, so that the mechanism's data
        are a run of the protocol with them.

        Parameters
        ----------
        data : object
            A run of the plan.

        Returns
        -------
        _Run or _FinishedRun
            The same run.

        Raises
        ------
        ParameterError
            If the data are records: those stay at the sites.
        """
        if not isinstance(data, _Run | _FinishedRun):
            raise ParameterError(
                "a federated release is drawn by the sites; "
                "see curvedp.federated.coordinate"
            )
        return data

    def draw(self, data: "_Run | _FinishedRun", source: Source) -> Draw:
        """Run all rounds with the sites, and return the value and the noisy sums.

        Parameters
        ----------
        data : _Run or _FinishedRun
            A run of the plan. A `_Run` sends its requests to the sites now; a
            `_FinishedRun` has the sums already.
        source : Source
            Not used: each site draws its noise from its own cryptographic bits.

        Returns
        -------
        Draw
            The value, the noisy sums as integers, the slack τ, and one stage for each
            round.
        """
        plan = self.statistic
        rounds = data.collect_rounds()
        totals = [np.array(round.total, dtype=object) for round in rounds]
        terms_of_rounds = plan.schedule.terms_of_rounds(rounds)
        stages = [
            stage_record(plan, round_terms, round.surviving_sites)
            for round_terms, round in zip(terms_of_rounds, rounds, strict=True)
        ]
        return Draw(
            value=plan.value(rounds), integers=totals, slack=plan.tau, stages=stages
        )

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Return the value unchanged: the plan has computed it from the noisy sums.

        Parameters
        ----------
        value : array
            The value that `draw` returned.
        """
        return value

    def reconstruct_value(self, certificate: Certificate) -> Any:
        """Recompute the released value from the noisy sums that a certificate records.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a federated release.

        Returns
        -------
        array or Clustering
            The released value.

        Raises
        ------
        ParameterError
            If the integers do not have the form of this plan's sums.
        """
        plan = self.statistic
        rounds = self._rounds_of(certificate)
        terms_of_rounds = plan.schedule.terms_of_rounds(rounds)
        lengths = [len(round.total) for round in rounds]
        if lengths != [round_terms.length for round_terms in terms_of_rounds]:
            raise ParameterError("the released integers are not those of this plan")
        return plan.value(rounds)

    def _rounds_of(self, certificate: Certificate) -> list[Round]:
        """Return the rounds that a certificate records.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a federated release.

        Raises
        ------
        ParameterError
            If its integers are not one list of 64-bit numbers for each stage.
        """
        integers = certificate.release["integers"]
        stages = certificate.release["stages"]
        has_right_form = (
            isinstance(integers, list)
            and all(isinstance(total, list) for total in integers)
            and len(integers) == len(stages)
        )
        if not has_right_form:
            raise ParameterError("the released integers are not those of this plan")

        rounds = []
        for total, stage in zip(integers, stages, strict=True):
            if not all(type(number) is int and abs(number) < 2**63 for number in total):
                raise ParameterError("the released integers are not 64-bit numbers")
            record = stage if isinstance(stage, dict) else {}
            rounds.append(Round(total, self._surviving_sites(record)))
        return rounds

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check the statements of a certificate about rounds, lost sites and slack.

        The slack bounds how far the discrete noise is from ideal noise, in total
        variation.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a federated release.

        Returns
        -------
        list of Check
            For each statement, whether it agrees with what follows from the plan.
        """
        plan = self.statistic
        stages = certificate.release["stages"]
        rounds = self._rounds_of(certificate)
        terms_of_rounds = plan.schedule.terms_of_rounds(rounds)
        recomputed_stages = [
            stage_record(plan, round_terms, round.surviving_sites)
            for round_terms, round in zip(terms_of_rounds, rounds, strict=False)
        ]
        lost_counts = [len(plan.sites) - len(round.surviving_sites) for round in rounds]
        most_lost = max(lost_counts, default=0)
        return [
            Check(
                "rounds",
                len(terms_of_rounds) == len(rounds) and stages == recomputed_stages,
                "noise, sensitivity and grid recomputed",
            ),
            Check(
                f"{most_lost} of {len(plan.sites)} sites lost",
                most_lost <= plan.dropouts,
                "no more than the plan allows",
            ),
            check_at_least(
                "slack of the discrete noise",
                certificate.provenance.numerics["slack"],
                plan.tau,
            ),
        ]

    def _surviving_sites(self, stage: Mapping[str, Any]) -> list[int]:
        """Return the indices of the sites that were not lost in a round.

        Parameters
        ----------
        stage : mapping
            The record of the round in a certificate. Its field "lost" has the keys of
            the lost sites.
        """
        lost_keys = stage.get("lost", ())
        return [
            site
            for site, key in enumerate(self.statistic.sites)
            if key not in lost_keys
        ]


def stage_record(
    plan: Plan, round_terms: RoundTerms, surviving_sites: Collection[int]
) -> dict[str, Any]:
    """Return the record of one round in a certificate, apart from its noisy sum.

    Parameters
    ----------
    plan : Plan
        The agreed terms of the release.
    round_terms : RoundTerms
        The terms of the round's sum.
    surviving_sites : collection of int
        The indices of the sites in the sum.

    Returns
    -------
    dict
        The public keys of the "lost" sites, the noise "variance" and the "sensitivity"
        in units of the grid, the "exponent" k of the grid 2^-k, and further details.
    """
    return {
        "lost": [
            key for site, key in enumerate(plan.sites) if site not in surviving_sites
        ],
        "variance": str(round_terms.variance),
        "sensitivity": round_terms.sensitivity,
        "exponent": round_terms.exponent,
        **round_terms.details,
    }


# ---- the server ----


@dataclass(frozen=True)
class FederatedRelease(Release):
    """The result of a federated run: value, certificate, signatures and noisy sums.

    The masking protocol has not been reviewed by outside cryptographers.

    This part of the library is experimental.

    Attributes
    ----------
    value : array
        The released value.
    certificate : Certificate
        The certificate of the release.
    signatures : mapping
        By the site's key, the signatures of the certificate by the sites that were
        there to the end.
    rounds : list of Round
        The noisy sums, as they are released, and the sites in them.
    """

    signatures: Mapping[str, str]
    rounds: list[Round]


def coordinate(plan: Plan, ask: Ask) -> FederatedRelease:
    """Run a plan over any transport, as the server (experimental).

    Experimental: the masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    plan : Plan
        The server's copy of the agreed terms.
    ask : callable
        The transport. It sends a request (JSON values) to each of several sites, given
        by their indices, and returns the answers that came in time.

    Returns
    -------
    FederatedRelease
        The value, the certificate, the sites' signatures of it, and the noisy sums.

    Raises
    ------
    FederationRefused
        If too few sites are left. Nothing but the sums of earlier rounds has been
        released then.

    Warns
    -----
    ReleaseWarning
        Before the sites are asked anything, if there are too few records for so many
        clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.federated import MeanKernel, Site, key_of, new_identity
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.privacy import GDP
    >>> identities = [new_identity() for _ in range(3)]
    >>> keys = [key_of(identity) for identity in identities]
    >>> plan = Plan(MeanKernel(Euclidean(2), 1.0), keys, [50, 50, 50], GDP(1.0))
    >>> sites = {
    ...     index: Site(plan, identity, np.zeros((50, 2)))
    ...     for index, identity in enumerate(identities)
    ... }
    >>> release = coordinate(plan, in_process(sites))
    >>> release.value.shape, len(release.signatures)
    ((2,), 3)
    """
    warn_experimental()
    few_records_warning = plan.schedule.few_records_warning()
    if few_records_warning is not None:
        warnings.warn(few_records_warning, ReleaseWarning, stacklevel=2)
    run = _Run(plan, ask)
    release = _release_run(plan, run)
    signatures = run.signatures(release.certificate)
    return FederatedRelease(release.value, release.certificate, signatures, run.rounds)


def build_certificate(plan: Plan, rounds: list[Round]) -> Certificate:
    """Return the certificate that follows from a plan and its noisy sums.

    No noise is drawn. A site calls this to compare the server's certificate with its
    own.

    Parameters
    ----------
    plan : Plan
        The agreed terms.
    rounds : list of Round
        The noisy sums of all rounds.

    Returns
    -------
    Certificate
        Server and sites compute the same certificate, except for its time.
    """
    return _release_run(plan, _FinishedRun(rounds)).certificate


def _release_run(plan: Plan, run: "_Run | _FinishedRun") -> Release:
    """Return the value and the certificate of a run of a plan.

    Parameters
    ----------
    plan : Plan
        The agreed terms of the release.
    run : _Run or _FinishedRun
        A `_Run` asks the sites now; a `_FinishedRun` has the noisy sums already.

    Returns
    -------
    Release
        The value, and the certificate with the plan's version of the software.
    """
    terms = ReleaseTerms(plan.guarantee, choice=Choice(ChoiceRule.ONLY_ONE))
    release = FederatedMechanism(statistic=plan).release(run, terms=terms)
    # The sites vouch for the version they agreed on, not for the server's packages.
    software = {"curvedp": plan.software}
    provenance = replace(release.certificate.provenance, software=software)
    certificate = seal(replace(release.certificate, provenance=provenance))
    return Release(release.value, certificate)


def hash_question(round_terms: RoundTerms) -> bytes:
    """Return a hash of the question that a round asks of the sites.

    It covers the public state before the round, and how much noise the sum gets. The
    masks of two sites cancel only if both have the same hash (`Party.mask`).

    Parameters
    ----------
    round_terms : RoundTerms
        The terms of the round's sum.

    Returns
    -------
    bytes
        A SHA-256 hash of 32 bytes.
    """
    return digest(
        {
            "round": round_terms.index,
            "at": round_terms.public_state,
            "length": round_terms.length,
            "variance": str(round_terms.variance),
        }
    )


class _FinishedRun:
    """A run whose sums are known already, as when a site is asked to sign."""

    def __init__(self, rounds: list[Round]) -> None:
        """Store the sums of all rounds.

        Parameters
        ----------
        rounds : list of Round
            The released sums of the rounds.
        """
        self._rounds = rounds

    def collect_rounds(self) -> list[Round]:
        """Return the sums of all rounds."""
        return self._rounds


class _Run:
    """The server's side of one run of a plan.

    Attributes
    ----------
    plan, session : Plan and Session
        The agreed terms.
    announcements : dict
        The signed announcement of each site.
    boxes : dict
        The sealed shares of each sender, by receiver.
    rounds : list of Round
        The sums so far.
    public_states : list of JSON values
        The public state before each round.
    """

    def __init__(self, plan: Plan, ask: Ask) -> None:
        """Start a run; no message is sent yet.

        Parameters
        ----------
        plan : Plan
            The agreed terms.
        ask : callable
            The transport, see `coordinate`.
        """
        self.plan = plan
        self.session = plan.session
        self._send_requests = ask
        self.announcements: Answers = {}
        self.boxes: dict[int, dict[str, str]] = {}
        self.rounds: list[Round] = []
        self.public_states: list[Any] = []

    def collect_rounds(self) -> list[Round]:
        """Exchange keys with the sites, run all rounds, and return the noisy sums.

        Sets `public_states` and `rounds`.

        Returns
        -------
        list of Round
            The noisy sum of each round, with the sites in it.

        Raises
        ------
        FederationRefused
            If too few sites answer; the run stops.
        """
        surviving_sites = self._exchange_keys()
        schedule = self.plan.schedule
        while (round_terms := schedule.next_sum(self.rounds)) is not None:
            self.public_states.append(round_terms.public_state)
            surviving_sites = self._run_round(round_terms, surviving_sites)
        return self.rounds

    def _ask(self, requests: Mapping[int, Mapping[str, Any]]) -> Answers:
        """Send requests to sites, and return the answers that came in time.

        An answer of a site that was not asked is late and belongs to an earlier stage,
        so it is ignored.

        Parameters
        ----------
        requests : mapping
            The request to each site, by the site's index.

        Returns
        -------
        dict
            The answers, by the site's index.
        """
        answers = self._send_requests(requests)
        return {site: answers[site] for site in requests if site in answers}

    def _exchange_keys(self) -> Collection[int]:
        """Let the sites exchange keys, and return the sites that took part to the end.

        First every site announces its public keys. Then it sends an encrypted box of
        shares of its secrets to each other site, which the server cannot open. Sets
        `announcements` and `boxes`.

        Returns
        -------
        list of int
            The sites that take part in the first round, in ascending order.

        Raises
        ------
        FederationRefused
            If too few sites answer.
        """
        announce_request = {
            "stage": "announce",
            "plan": self.plan.to_dict(),
            "time": datetime.now(UTC).isoformat(),
        }

        all_sites = range(len(self.session.sites))
        answers = self._ask(dict.fromkeys(all_sites, announce_request))
        valid_announcements = {
            site: answer
            for site, answer in answers.items()
            if is_announcement(self.session, site, answer)
        }
        self.announcements = self._require_enough(valid_announcements)

        announcement_of_site = {
            str(site): announcement for site, announcement in self.announcements.items()
        }
        share_request = {"stage": "share", "announcements": announcement_of_site}
        answers = self._ask(dict.fromkeys(self.announcements, share_request))
        complete_boxes = {
            site: answer["boxes"]
            for site, answer in answers.items()
            if self._has_boxes_for_all(site, answer)
        }
        self.boxes = self._require_enough(complete_boxes)
        return sorted(self.boxes)

    def _has_boxes_for_all(self, sender: int, answer: Any) -> bool:
        """Return whether an answer has one encrypted box for each other site.

        Only sites that announced their keys count.

        Parameters
        ----------
        sender : int
            The site that answered.
        answer : object
            The site's answer, which may be anything.

        Returns
        -------
        bool
            False for anything that is not an answer, too.
        """
        boxes = answer.get("boxes") if isinstance(answer, Mapping) else None
        if not isinstance(boxes, Mapping):
            return False
        receivers = {str(site) for site in self.announcements if site != sender}
        has_all_receivers = receivers == set(boxes)
        return has_all_receivers and all(isinstance(box, str) for box in boxes.values())

    def _run_round(
        self, round_terms: RoundTerms, sites: Collection[int]
    ) -> Collection[int]:
        """Form the noisy sum of a round, and return the sites that answered to its end.

        The sites send masked vectors, and then what is needed to remove the masks from
        their sum. Appends the sum to `rounds`.

        Parameters
        ----------
        round_terms : RoundTerms
            The terms of the sum.
        sites : collection of int
            The sites that are asked.

        Returns
        -------
        list of int
            The sites that are asked in the next round, in ascending order.

        Raises
        ------
        FederationRefused
            If too few sites answer.
        """
        index = round_terms.index
        masked = self._collect_masked(round_terms, sites)
        surviving_sites = sorted(masked)
        unmask_request = {
            "stage": "unmask",
            "round": index,
            "survivors": surviving_sites,
        }
        unmask_answers = self._ask(dict.fromkeys(surviving_sites, unmask_request))
        answers = self._require_enough(
            {
                site: answer
                for site, answer in unmask_answers.items()
                if isinstance(answer, Mapping) and "shares" in answer
            }
        )
        total, seeds = unmask_sum(
            self.session,
            index,
            question_hash=hash_question(round_terms),
            announcements=self.announcements,
            roster=sorted(self.boxes),
            masked=masked,
            answers=answers,
        )

        # Fewer sites were lost than the noise allows for: its surplus is subtracted.
        lost_count = len(self.session.sites) - len(surviving_sites)
        for seed in seeds.values():
            total = total - surplus_noise(
                round_terms.layers, lost_count, seed, len(total)
            )
        released = self.plan.schedule.released_integers(round_terms, total.tolist())
        self.rounds.append(Round(released, surviving_sites))
        return sorted(answers)

    def _collect_masked(
        self, round_terms: RoundTerms, sites: Collection[int]
    ) -> dict[int, np.ndarray]:
        """Ask sites for their masked vectors, and return those of the right length.

        The requests of the first round also deliver the sealed shares of the other
        sites.

        Parameters
        ----------
        round_terms : RoundTerms
            The terms of the sum.
        sites : collection of int
            The sites that are asked.

        Returns
        -------
        dict
            The masked vector of each site that sent one.
        """
        request = {
            "stage": "mask",
            "round": round_terms.index,
            "at": round_terms.public_state,
        }
        requests: dict[int, Mapping[str, Any]] = dict.fromkeys(sites, request)
        if round_terms.index == 0:
            requests = {
                site: {**request, "boxes": self._boxes_for(site)} for site in sites
            }

        byte_count = 8 * round_terms.length
        masked = {}
        for site, answer in self._ask(requests).items():
            words = _masked_bytes(answer)
            if len(words) == byte_count:
                masked[site] = np.frombuffer(words, dtype="<u8")
        return self._require_enough(masked)

    def _boxes_for(self, receiver: int) -> dict[str, str]:
        """Return the encrypted boxes that other sites sent to one site, by sender.

        Parameters
        ----------
        receiver : int
            The index of the site.

        Returns
        -------
        dict
            Each box in hexadecimal digits, by the sender's index as a text.
        """
        return {
            str(sender): boxes[str(receiver)]
            for sender, boxes in self.boxes.items()
            if sender != receiver
        }

    def signatures(self, certificate: Certificate) -> dict[str, str]:
        """Ask the sites of the last round to sign, and return the valid signatures.

        A site signs if its own replay of the run gives the same certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of this run.

        Returns
        -------
        dict
            The signature in hexadecimal, by the site's public key.
        """
        request = {
            "stage": "sign",
            "certificate": certificate.to_dict(),
            "points": self.plan.schedule.stated_states(self.public_states),
            "rounds": [list(round) for round in self.rounds],
        }
        answers = self._ask(dict.fromkeys(self.rounds[-1].surviving_sites, request))
        signatures = {}
        for site, answer in answers.items():
            key = self.session.sites[site]
            signature = answer.get("signature") if isinstance(answer, Mapping) else None
            if isinstance(signature, str) and is_certificate_signed(
                certificate, key, signature
            ):
                signatures[key] = signature
        return signatures

    def _require_enough(self, answers: dict[int, Any]) -> dict[int, Any]:
        """Return the answers if enough sites gave one.

        Parameters
        ----------
        answers : dict
            The answers of the sites, by their indices.

        Returns
        -------
        dict
            The same answers.

        Raises
        ------
        FederationRefused
            If there are fewer than the threshold. The run stops.
        """
        if len(answers) < self.session.threshold:
            raise FederationRefused(
                f"{len(answers)} of {len(self.session.sites)} sites answered; "
                f"{self.session.threshold} are needed. The run has stopped"
            )
        return answers


def _masked_bytes(answer: Any) -> bytes:
    """Return the bytes of the masked vector in a site's answer.

    Parameters
    ----------
    answer : object
        The site's answer, which may be anything.

    Returns
    -------
    bytes
        Empty if the answer contains no such bytes.
    """
    try:
        return bytes.fromhex(answer["masked"])
    except (KeyError, TypeError, ValueError):
        return b""


def _never_lost(stage: str, site: int) -> bool:
    """Return False: no site is lost in any stage.

    Parameters
    ----------
    stage : str
        The name of the stage. Not used.
    site : int
        The index of the site. Not used.
    """
    return False


def in_process(
    sites: Mapping[int, Party], lost: Callable[[str, int], bool] = _never_lost
) -> Ask:
    """Return a transport for sites in this process, for tests and studies.

    Parameters
    ----------
    sites : mapping
        Each site by its index.
    lost : callable, optional
        lost(stage, index) says whether a site is lost in a stage; none by default. A
        site that refuses is lost too.

    Returns
    -------
    callable
        The `ask` of `coordinate`.

    Examples
    --------
    >>> in_process({})({})
    {}
    """

    def ask(requests: Mapping[int, Mapping[str, Any]]) -> Answers:
        """Return the answers of the sites that are not lost and do not refuse.

        Parameters
        ----------
        requests : mapping
            The request to each site, by the site's index.

        Returns
        -------
        dict
            The answers, by the site's index.
        """
        answers: Answers = {}
        for site, request in requests.items():
            if site not in sites or lost(request["stage"], site):
                continue
            try:
                answers[site] = sites[site].answer(request)
            except CurvedpError:
                continue
        return answers

    return ask
