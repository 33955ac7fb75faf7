"""The federated release as a mechanism of the house, and the server that runs it.

The certificate is built and verified like any other. The server carries messages, adds up what is masked and learns the noisy
totals; no record is trusted to it.
"""

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
from curvedp.errors import CurvedpError, FederationRefused, ParameterError
from curvedp.federated.experimental import warn_experimental
from curvedp.federated.masking import Party, is_announcement, recovered
from curvedp.federated.noise import surplus
from curvedp.federated.plan import Plan, Round
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.signing import digest

Answers = dict[int, dict[str, Any]]
Ask = Callable[
    [Mapping[int, Mapping[str, Any]]], Answers
]  # requests by site -> answers of those that gave one


@dataclass(frozen=True, eq=False)
class FederatedMechanism(Mechanism, ChecksItself):
    """Sums of whole numbers over sites, masked, with discrete noise in shares. Its statistic is a `Plan`, whose terms are all
    it has; its data are a run of it: the sites themselves.

    Guarantees
    - μ-GDP for replace-one adjacency against the public, the server, and the server with `collusion` of the sites, in the
      computational sense, whoever is lost up to `dropouts`;
    - within total variation τ of a post-processing of real Gaussian noise (docs/federation.md).
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
        return isinstance(statistic, Plan)

    @classmethod
    def calibrate(cls, statistic: Any, guarantee: Guarantee) -> Self:
        """Return the mechanism of a plan, whose guarantee must be the one asked for."""
        check_supported(cls, statistic)
        if guarantee != statistic.guarantee:
            raise ParameterError(
                f"the plan is for {statistic.guarantee}, not {guarantee}"
            )
        return cls(statistic=statistic)

    @property
    def privacy_profile(self) -> Guarantee:
        """That of one Gaussian release."""
        return self.statistic.profile

    def prepare_data(self, data: Any) -> "_Run | _Finished":
        if not isinstance(data, _Run | _Finished):
            raise ParameterError(
                "a federated release is drawn by the sites; see curvedp.federated.coordinate"
            )
        return data

    def draw(self, data: "_Run | _Finished", source: Source) -> Draw:
        """The rounds; the sites draw the noise, each from its own cryptographic bits."""
        rounds = data.finished()
        stages = [stage_of(self.statistic, r, round) for r, round in enumerate(rounds)]
        return Draw(
            self.statistic.value(rounds),
            [np.array(r.total, dtype=object) for r in rounds],
            self.statistic.tau,
            stages,
        )

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Return the value as it is: the plan has made it of the noisy sums."""
        return value

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        plan = self.statistic
        integers, stages = (
            certificate.release["integers"],
            certificate.release["stages"],
        )
        lengths = [plan.length(r) for r in range(plan.session.rounds)]
        if (
            not isinstance(integers, list)
            or [len(part) for part in integers] != lengths
            or len(stages) != len(lengths)
        ):
            raise ParameterError("the released integers are not those of this plan")
        if not all(
            type(k) is int and abs(k) < 2**63 for part in integers for k in part
        ):
            raise ParameterError("the released integers are not 64-bit numbers")
        return plan.value(
            [Round(t, self._alive(s)) for t, s in zip(integers, stages, strict=True)]
        )

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check the rounds, the sites that were lost, and the slack."""
        plan = self.statistic
        stages = [
            stage if isinstance(stage, dict) else {}
            for stage in certificate.release["stages"]
        ]
        same = [
            stage == stage_of(plan, r, Round((), self._alive(stage)))
            for r, stage in enumerate(stages)
        ]
        lost = max(
            (len(stage["lost"]) for stage in stages if "lost" in stage), default=0
        )
        return [
            Check(
                "rounds",
                len(same) == plan.rounds and all(same),
                "noise, sensitivity and grid recomputed",
            ),
            Check(
                f"{lost} of {len(plan.sites)} sites lost",
                lost <= plan.dropouts,
                "no more than the plan allows",
            ),
            check_at_least(
                "slack of the discrete noise", certificate.numerics["slack"], plan.tau
            ),
        ]

    def _alive(self, stage: Mapping[str, Any]) -> list[int]:
        return [
            i
            for i, key in enumerate(self.statistic.sites)
            if key not in stage.get("lost", ())
        ]


def stage_of(plan: Plan, r: int, round: Round) -> dict[str, Any]:
    """What a certificate says of a round."""
    return {
        "lost": [key for i, key in enumerate(plan.sites) if i not in round.alive],
        "variance": str(plan.variance(r)),
        "sensitivity": plan.sensitivity_of(r),
        "exponent": plan.exponents[r],
    }


# ---- the server ----


@dataclass(frozen=True)
class FederatedRelease(Release):
    """What leaves a federated run: the value, the certificate, and who stands behind it."""

    signatures: Mapping[str, str]  # by site key
    rounds: list[Round]


def coordinate(plan: Plan, ask: Ask) -> FederatedRelease:
    """Run a plan over any transport.

    Experimental: the masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    plan : Plan
        The server's copy of the agreed terms.
    ask : callable
        Sends requests (JSON values) to sites by number and returns the answers of those that gave one in time.

    Returns
    -------
    FederatedRelease
        With `value`, `certificate`, `signatures` (by site key, of the certificate's canonical JSON: every site that was there
        to the end) and `rounds` (the noisy sums and who was in them: all the server learned).

    Raises
    ------
    FederationRefused
        Where too few sites are left: nothing has been released beyond the rounds before.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.federated import MeanKernel, Site, key_of, new_identity
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.privacy import GDP
    >>> people = [new_identity() for _ in range(3)]
    >>> plan = Plan(MeanKernel(Euclidean(2), 1.0), [key_of(one) for one in people], [50, 50, 50], GDP(1.0))
    >>> sites = {i: Site(plan, one, np.zeros((50, 2))) for i, one in enumerate(people)}
    >>> release = coordinate(plan, in_process(sites))
    >>> release.value.shape, len(release.signatures)
    ((2,), 3)
    """
    warn_experimental()
    run = _Run(plan, ask)
    release = _release(plan, run)
    return FederatedRelease(
        release.value,
        release.certificate,
        run.signatures(release.certificate),
        run.rounds,
    )


def certificate_of(plan: Plan, rounds: list[Round]) -> Certificate:
    """Return the certificate that follows from a plan and the sums that were released.

    Parameters
    ----------
    plan : Plan
        The agreed terms.
    rounds : list of Round
        The noisy sums of all rounds. Nothing is drawn.
    """
    return _release(plan, _Finished(rounds)).certificate


def _release(plan: Plan, run: "_Run | _Finished") -> Release:
    """Make the release of a run, with no word in it that is not the plan's or the sums'."""
    release = FederatedMechanism(statistic=plan).release(
        run, terms=ReleaseTerms(plan.guarantee, choice=Choice(ChoiceRule.ONLY_ONE))
    )
    # The sites vouch for the version they agreed on, not for packages of the server's.
    software = {"curvedp": plan.software}
    certificate = replace(release.certificate, software=software).sealed()
    return Release(release.value, certificate)


def asked(round: int, at: np.ndarray) -> bytes:
    """A hash of what a round asks of the sites."""
    return digest({"round": round, "at": np.asarray(at).tolist()})


class _Finished:
    """A run whose sums are known: what a site has when it is asked to sign."""

    def __init__(self, rounds: list[Round]) -> None:
        self._rounds = rounds

    def finished(self) -> list[Round]:
        """Return the sums of every round."""
        return self._rounds


class _Run:
    """The server's side of one run."""

    def __init__(self, plan: Plan, ask: Ask) -> None:
        self.plan, self.session, self._carry = plan, plan.session, ask
        self.announcements: Answers = {}
        self.boxes: dict[int, dict[str, str]] = {}
        self.rounds: list[Round] = []
        self.points: list[np.ndarray] = []

    def finished(self) -> list[Round]:
        """Keys, then every round of the plan."""
        alive = self._set_up()
        for r in range(self.session.rounds):
            self.points.append(self.plan.points(self.rounds)[-1])
            alive = self._round(r, alive)
        return self.rounds

    def _ask(self, requests: Mapping[int, Mapping[str, Any]]) -> Answers:
        """Answers of the sites that were asked; another's is late, and of another stage."""
        heard = self._carry(requests)
        return {i: heard[i] for i in requests if i in heard}

    def _set_up(self) -> Collection[int]:
        request = {
            "stage": "announce",
            "plan": self.plan.to_dict(),
            "time": datetime.now(UTC).isoformat(),
        }
        heard = self._ask(dict.fromkeys(range(len(self.session.sites)), request))
        self.announcements = self._enough(
            {i: a for i, a in heard.items() if is_announcement(self.session, i, a)}
        )
        said = {
            "stage": "share",
            "announcements": {str(j): a for j, a in self.announcements.items()},
        }
        answers = self._ask(dict.fromkeys(self.announcements, said))
        self.boxes = self._enough(
            {i: a["boxes"] for i, a in answers.items() if self._are_boxes(i, a)}
        )
        return sorted(self.boxes)

    def _are_boxes(self, i: int, answer: Any) -> bool:
        boxes = answer.get("boxes") if isinstance(answer, Mapping) else None
        others = {str(j) for j in self.announcements if j != i}
        return (
            isinstance(boxes, Mapping)
            and others == set(boxes)
            and all(isinstance(b, str) for b in boxes.values())
        )

    def _round(self, r: int, asking: Collection[int]) -> Collection[int]:
        """Form a round's sum; the sites that answered to its end."""
        masked, question = self._masked(r, asking), asked(r, self.points[-1])
        alive = sorted(masked)
        heard = self._ask(
            {i: {"stage": "unmask", "round": r, "survivors": alive} for i in alive}
        )
        answers = self._enough(
            {i: a for i, a in heard.items() if isinstance(a, Mapping) and "shares" in a}
        )
        total, seeds = recovered(
            self.session,
            r,
            question,
            self.announcements,
            sorted(self.boxes),
            masked,
            answers,
        )
        for seed in seeds.values():
            total = total - surplus(
                self.plan.layers(r),
                len(self.session.sites) - len(alive),
                seed,
                len(total),
            )
        self.rounds.append(Round(total.tolist(), alive))
        return sorted(answers)

    def _masked(self, r: int, asking: Collection[int]) -> dict[int, np.ndarray]:
        common = {"stage": "mask", "round": r, "at": self.points[-1].tolist()}
        sealed = {
            i: {str(j): boxes[str(i)] for j, boxes in self.boxes.items() if j != i}
            for i in asking
        }
        requests = {
            i: {**common, "boxes": sealed[i]} if r == 0 else common for i in asking
        }
        words = {i: _words(answer) for i, answer in self._ask(requests).items()}
        size = 8 * self.plan.length(r)
        return self._enough(
            {
                i: np.frombuffer(w, dtype="<u8")
                for i, w in words.items()
                if len(w) == size
            }
        )

    def signatures(self, certificate: Certificate) -> dict[str, str]:
        """Of the sites that replay the run to the same value."""
        request = {
            "stage": "sign",
            "certificate": certificate.to_dict(),
            "points": [at.tolist() for at in self.points],
            "rounds": [list(round) for round in self.rounds],
        }
        answers = self._ask(dict.fromkeys(self.rounds[-1].alive, request))
        signs = {
            self.session.sites[i]: a.get("signature")
            for i, a in answers.items()
            if isinstance(a, Mapping)
        }
        return {
            key: sign
            for key, sign in signs.items()
            if isinstance(sign, str) and is_certificate_signed(certificate, key, sign)
        }

    def _enough(self, answers: dict[int, Any]) -> dict[int, Any]:
        if len(answers) < self.session.threshold:
            raise FederationRefused(
                f"{len(answers)} of {len(self.session.sites)} sites answered; {self.session.threshold} are needed. "
                "The run has stopped"
            )
        return answers


def _words(answer: Any) -> bytes:
    """A masked vector's bytes; none where the answer is none."""
    try:
        return bytes.fromhex(answer["masked"])
    except (KeyError, TypeError, ValueError):
        return b""


def in_process(
    sites: Mapping[int, Party],
    lost: Callable[[str, int], bool] = lambda stage, i: False,
) -> Ask:
    """An `Ask` for sites in this process, for tests and studies; a site that refuses, or that `lost` names, is lost.

    Parameters
    ----------
    sites : mapping
        Each site by its number.
    lost : callable, optional
        (stage, number) to whether that site is lost there.

    Examples
    --------
    >>> in_process({})({})
    {}
    """

    def ask(requests: Mapping[int, Mapping[str, Any]]) -> Answers:
        answers: Answers = {}
        for i, request in requests.items():
            if i in sites and not lost(request["stage"], i):
                try:
                    answers[i] = sites[i].answer(request)
                except CurvedpError:
                    continue
        return answers

    return ask
