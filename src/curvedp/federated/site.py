"""A site of a federated release: its records, its key, its ledger, its veto. It answers requests, and trusts no server."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated.masking import Party
from curvedp.federated.noise import site_noise
from curvedp.federated.plan import Plan, Round
from curvedp.federated.release import FederatedMechanism, FederatedSum, stage_of
from curvedp.ledger import Ledger
from curvedp.mechanisms.certificate import Certificate, digest_of_integers
from curvedp.mechanisms.verify import verify_certificate
from curvedp.signing import digest

__all__ = ["Site", "asked"]

_WALK = 1e-6  # what another machine's floats may change in a point


def asked(round: int, at: np.ndarray) -> bytes:
    """A hash of what a round asks of the sites."""
    return digest({"round": round, "at": np.asarray(at).tolist()})


class Site:
    """One site's side of a plan.

    Parameters
    ----------
    plan : Plan
        The site's own copy of what was agreed; requests for another plan are refused.
    identity : Ed25519PrivateKey
        The site's key.
    records : array
        Shape (n, *point_shape), n as the plan says. Values are data: they raise nothing.
    labels : array, optional
        Each record's class, 0, 1, …, where the plan has classes.
    ledger : Ledger, optional
        Charged for the whole release before the first vector leaves.
    veto : callable, optional
        Given the plan, returns why the site will not take part, or None.
    state : dict, optional
        `state` of an earlier `Site` of the same plan, where every request starts a process.
    journal : path, optional
        A folder in which each stage that is answered leaves a file, made before the answer. Where requests start processes,
        this is what keeps two of them from answering the same stage: two vectors of a round would be two releases.

    Raises
    ------
    ParameterError
        Where the records are not those the plan speaks of, by number, shape or classes.
    """

    def __init__(
        self,
        plan: Plan,
        identity: Ed25519PrivateKey,
        records: Any,
        labels: Any = None,
        *,
        ledger: Ledger | None = None,
        veto: Callable[[Plan], str | None] | None = None,
        state: dict[str, Any] | None = None,
        journal: Path | None = None,
        source: Source | None = None,
    ) -> None:
        self.plan, self._ledger, self._veto, self._source, self._journal = plan, ledger, veto, source, journal
        self._party = Party(plan.session, identity, state)
        self._groups = self._grouped(_validate.array("records", records), labels)

    @property
    def state(self) -> dict[str, Any]:
        """Secrets and progress, as JSON values: to be kept at the site."""
        return self._party.state

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request of the server.

        Raises
        ------
        FederationRefused, BudgetExceeded, ParameterError
            Where the site will not answer; to the server it is then a lost one.
        """
        stages = {"announce": self._announce, "share": self._share, "mask": self._mask, "unmask": self._unmask}
        stages["sign"] = self._sign
        try:
            self._enter(request["stage"], int(request.get("round", 0)))
            return stages[request["stage"]](request)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ParameterError):
                raise
            raise FederationRefused(f"the request is not one of this protocol's ({type(error).__name__})") from None

    def _enter(self, stage: str, round: int) -> None:
        """Refuse a stage that another process of this site has answered, or is answering."""
        if self._journal is None or stage not in ("announce", "share", "mask", "unmask"):
            return
        try:
            once = stage in ("announce", "share")
            (self._journal / f"{self.plan.id[:32]}-{stage}{'' if once else f'-{round}'}").touch(exist_ok=False)
        except FileExistsError:
            raise FederationRefused("this site has answered this stage of this plan") from None
        except OSError:
            raise FederationRefused("this site cannot write its journal") from None

    def _announce(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if wrong := self.plan.differences(request["plan"]):
            raise FederationRefused(f"this site agreed to another plan; it differs in {', '.join(wrong)}")
        now = datetime.now(UTC)
        if not self.plan.is_open(now) or not self.plan.is_close(datetime.fromisoformat(request["time"]), now):
            raise FederationRefused("the plan is not open by this site's clock, or the server's clock is another")
        if self._veto is not None and (reason := self._veto(self.plan)):
            raise FederationRefused(f"this site will not take part: {reason}")
        return self._party.announce()

    def _share(self, request: Mapping[str, Any]) -> dict[str, Any]:
        boxes = self._party.share({int(j): said for j, said in request["announcements"].items()})
        return {"boxes": {str(j): box for j, box in boxes.items()}}

    def _mask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        round, at = int(request["round"]), np.array(request["at"], dtype=np.float64)
        if "roster" not in self.state:
            self._party.open({int(j): box for j, box in request["boxes"].items()})
        self._pay()
        parts = [self.plan.integers(round, at, group, label) for label, group in enumerate(self._groups)]
        vector = np.sum(parts, axis=0)
        variances = self.plan.layers(round)
        noise = site_noise(variances, self._party.seed(round), len(vector), self._source)
        return {"masked": self._party.mask(round, asked(round, at), vector + noise).astype("<u8").tobytes().hex()}

    def _unmask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._party.unmask(int(request["round"]), [int(i) for i in request["survivors"]])

    def _sign(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sign a certificate that is of this plan and of the sums in which this site took part."""
        certificate, rounds = request["certificate"], [Round(*pair) for pair in request["rounds"]]
        seen, value = self.plan.points(rounds), self.plan.value(rounds)
        for r, question in self.state["masked"].items():
            at = np.array(request["points"][int(r)])
            if asked(int(r), at).hex() != question or not np.allclose(at, seen[int(r)], rtol=_WALK, atol=_WALK):
                raise FederationRefused("the certificate is not of the sums this site took part in")
        same = np.allclose(np.array(request["value"]), value, rtol=_WALK, atol=_WALK)
        if not same or certificate["statistic"]["plan"] != self.plan.to_dict():
            raise FederationRefused("the certificate is of another plan or another value")
        return {"signature": self._checked(certificate, rounds).signature(self._party.identity)}

    def _checked(self, body: Mapping[str, Any], rounds: list[Round]) -> Certificate:
        """The certificate; refuses to vouch for claims that do not hold, or for other sums."""
        certificate = Certificate.from_json(json.dumps(body))
        stages = [stage_of(self.plan, r, round) for r, round in enumerate(rounds)]
        sums = digest_of_integers([round.total for round in rounds])
        if certificate.release["stages"] != stages or certificate.release["sha256"] != sums:
            raise FederationRefused("the certificate is of other sums")
        if any(check.holds is False for check in verify_certificate(certificate)):
            raise FederationRefused("the certificate claims what does not hold")
        return certificate

    def _pay(self) -> None:
        """Once, and before anything is drawn."""
        if self._ledger is not None and "paid" not in self.state:
            mechanism = FederatedMechanism(statistic=FederatedSum(self.plan.to_dict()))
            cost = mechanism.bill(self._ledger.budget, self.plan.guarantee)
            self._ledger.spend(cost, f"federated {self.plan.kernel.name} {self.plan.id[:16]}")
        self.state["paid"] = True

    def _grouped(self, records: np.ndarray, labels: Any) -> list[np.ndarray]:
        kernel, counts = self.plan.kernel, list(self.plan.counts[self._party.index])
        if records.shape[1:] != kernel.manifold.point_shape:
            raise ParameterError(
                f"records have shape {records.shape}; points of {kernel.manifold!r} end in {kernel.manifold.point_shape}"
            )
        if (labels is None) != (kernel.classes == 1):
            raise ParameterError("labels go with a plan of classes, and only with one")
        of = np.zeros(len(records), dtype=int) if labels is None else np.asarray(labels)
        groups = [records[of == label] for label in range(kernel.classes)]
        if [len(group) for group in groups] != counts or len(records) != sum(counts):
            raise ParameterError("this site's numbers of records are not those of the plan")
        return groups
