"""The server's side: it carries messages, adds up what is masked and learns the noisy totals; no record is trusted to it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from curvedp.errors import CurvedpError, FederationRefused
from curvedp.federated.masking import is_announcement, is_answer, recovered
from curvedp.federated.noise import surplus
from curvedp.federated.plan import Plan, Round
from curvedp.federated.release import FederatedMechanism, FederatedSum
from curvedp.federated.site import Site, asked
from curvedp.mechanisms.base import Release
from curvedp.mechanisms.certificate import Certificate

__all__ = ["Ask", "FederatedRelease", "coordinate", "in_process"]

Answers = dict[int, dict[str, Any]]
Ask = Callable[[Mapping[int, Mapping[str, Any]]], Answers]  # requests by site -> answers of those that gave one


@dataclass(frozen=True)
class FederatedRelease:
    """What leaves a federated run.

    Attributes
    ----------
    value : array
        The released statistic.
    certificate : Certificate
        What it may claim, by everything that is public.
    signatures : dict
        By site key, of the certificate's canonical JSON: every site that was there to the end.
    rounds : list of Round
        The noisy sums and who was in them: all the server learned.
    """

    value: np.ndarray
    certificate: Certificate
    signatures: Mapping[str, str]
    rounds: list[Round]


def coordinate(plan: Plan, ask: Ask) -> FederatedRelease:
    """Run a plan over any transport.

    Parameters
    ----------
    plan : Plan
        The server's copy of the agreed terms.
    ask : callable
        Sends requests (JSON values) to sites by number and returns the answers of those that gave one in time.

    Raises
    ------
    FederationRefused
        Where too few sites are left: nothing has been released beyond the rounds before.
    """
    run = _Run(plan, ask)
    mechanism = FederatedMechanism(statistic=FederatedSum(plan.to_dict()))
    release = mechanism.release(run, guarantee=plan.guarantee, reason="the sites' plan")
    return FederatedRelease(release.value, release.certificate, run.signatures(release), run.rounds)


class _Run:
    def __init__(self, plan: Plan, ask: Ask) -> None:
        self.plan, self.session, self._ask = plan, plan.session, ask
        self.announcements: dict[int, dict[str, Any]] = {}
        self.boxes: dict[int, dict[str, str]] = {}
        self.rounds: list[Round] = []
        self.points: list[np.ndarray] = []

    def rounds_of(self, plan: Plan) -> Sequence[Round]:
        """Keys, then every round of the plan."""
        self._set_up()
        alive: Collection[int] = sorted(self.boxes)
        for r in range(self.session.rounds):
            at = self.plan.points(self.rounds)[-1]
            self.points.append(at)
            released, alive = self._round(r, at, alive)
            self.rounds.append(released)
        return self.rounds

    def _set_up(self) -> None:
        request = {"stage": "announce", "plan": self.plan.to_dict(), "time": datetime.now(UTC).isoformat()}
        heard = self._ask(dict.fromkeys(range(len(self.session.sites)), request))
        self.announcements = self._enough({i: a for i, a in heard.items() if is_announcement(self.session, i, a)})
        said = {"stage": "share", "announcements": {str(j): a for j, a in self.announcements.items()}}
        answers = self._ask(dict.fromkeys(self.announcements, said))
        self.boxes = self._enough({i: a["boxes"] for i, a in answers.items() if self._are_boxes(i, a)})

    def _are_boxes(self, i: int, answer: Any) -> bool:
        boxes = answer.get("boxes") if isinstance(answer, Mapping) else None
        others = {str(j) for j in self.announcements if j != i}
        return isinstance(boxes, Mapping) and others == set(boxes) and all(isinstance(b, str) for b in boxes.values())

    def _round(self, r: int, at: np.ndarray, asking: Collection[int]) -> tuple[Round, Collection[int]]:
        """What the round released, and the sites that answered to its end."""
        masked = self._masked(r, at, asking)
        alive = sorted(masked)
        heard = self._ask({i: {"stage": "unmask", "round": r, "survivors": alive} for i in alive})
        answers = self._enough({i: a for i, a in heard.items() if is_answer(self.session, a)})
        total, seeds = recovered(self.session, r, asked(r, at), self.announcements, sorted(self.boxes), masked, answers)
        lost = len(self.session.sites) - len(alive)
        for seed in seeds.values():
            total = total - surplus(self.plan.layers(r), lost, seed, len(total))
        return Round(total.tolist(), alive), sorted(answers)

    def _masked(self, r: int, at: np.ndarray, asking: Collection[int]) -> dict[int, np.ndarray]:
        common = {"stage": "mask", "round": r, "at": np.asarray(at).tolist()}
        requests = {i: {**common, "boxes": self._boxes_for(i)} if r == 0 else common for i in asking}
        size = 8 * self.plan.kernel.length(r, self.session.rounds)
        words = {i: _words(answer) for i, answer in self._ask(requests).items()}
        return self._enough({i: np.frombuffer(w, dtype="<u8") for i, w in words.items() if len(w) == size})

    def _boxes_for(self, i: int) -> dict[str, str]:
        return {str(j): boxes[str(i)] for j, boxes in self.boxes.items() if j != i}

    def signatures(self, release: Release) -> dict[str, str]:
        """Of the sites that replay the run to the same value."""
        certificate = release.certificate
        request = {
            "stage": "sign",
            "certificate": certificate.to_dict(),
            "value": np.asarray(release.value).tolist(),
            "points": [np.asarray(at).tolist() for at in self.points],
            "rounds": [list(round) for round in self.rounds],
        }
        answers = {
            self.session.sites[i]: a.get("signature") if isinstance(a, Mapping) else None
            for i, a in self._ask(dict.fromkeys(self.rounds[-1].alive, request)).items()
        }
        return {
            key: sign for key, sign in answers.items() if isinstance(sign, str) and certificate.is_signed(key, sign)
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


def in_process(sites: Mapping[int, Site], lost: Callable[[str, int], bool] = lambda stage, i: False) -> Ask:
    """An `Ask` for sites in this process, for tests and studies; a site that refuses, or that `lost` names, is lost."""

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
