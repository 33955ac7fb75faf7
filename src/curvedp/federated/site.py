"""A site of a federated release: its records, its key, its ledger, its veto. It answers requests, and trusts no server."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp._silence import quiet_about_records
from curvedp.entropy import Source
from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated.masking import Party, Request
from curvedp.federated.noise import site_noise
from curvedp.federated.plan import Plan, Round
from curvedp.federated.release import FederatedMechanism, asked, stage_of
from curvedp.ledger import Ledger
from curvedp.mechanisms.certificate import Certificate, digest_of_integers
from curvedp.mechanisms.payment import pay
from curvedp.records.persons import person_codes
from curvedp.records.tables import entries


class Site(Party):
    """One site's side of a plan.

    Parameters
    ----------
    plan : Plan
        The site's own copy of what was agreed; requests for another plan are refused.
    identity : Ed25519PrivateKey
        The site's key.
    records : array
        Shape (n, *point_shape), n as the plan says. Values are data: they raise nothing.
    labels, groups : arrays of length n, optional
        Each record's class, 0, 1, …, where the plan has classes; whose it is, where the plan is of persons, one class each.
    ledger : Ledger, optional
        Charged for the whole release before the first vector leaves.
    veto : callable, optional
        Given the plan, returns why the site will not take part, or None.
    state : dict, optional
        `state` of an earlier `Site` of the same plan, where every request starts a process.
    journal : path, optional
        A folder of the site's own that keeps two processes from answering the same stage; see `Party`.

    Raises
    ------
    ParameterError
        Where the records are not those the plan speaks of, by number, shape, classes or persons.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.federated import MeanKernel, key_of, new_identity
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.privacy import GDP
    >>> identity, other = new_identity(), new_identity()
    >>> plan = Plan(MeanKernel(Euclidean(2), 1.0), [key_of(identity), key_of(other)], [50, 30], GDP(1.0))
    >>> Site(plan, identity, np.zeros((50, 2))).index
    0
    """

    def __init__(
        self,
        plan: Plan,
        identity: Ed25519PrivateKey,
        records: Any,
        labels: Any = None,
        *,
        groups: Any = None,
        ledger: Ledger | None = None,
        veto: Callable[[Plan], str | None] | None = None,
        state: dict[str, Any] | None = None,
        journal: Path | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(plan.session, identity, state, journal)
        self.plan, self._ledger, self._veto, self._source = plan, ledger, veto, source
        with quiet_about_records():
            self._classes = self._by_class(
                entries("records", records, plan.kernel.manifold.point_shape),
                labels,
                groups,
            )

    @property
    def _stages(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        """All of them."""
        return {
            **super()._stages,
            "announce": self._announce,
            "mask": self._mask,
            "sign": self._sign,
        }

    def _announce(self, request: Request) -> dict[str, Any]:
        if wrong := self.plan.differences(request["plan"]):
            raise FederationRefused(
                f"this site agreed to another plan; it differs in {', '.join(wrong)}"
            )
        if not self.plan.is_open(
            datetime.now(UTC), datetime.fromisoformat(request["time"])
        ):
            raise FederationRefused(
                "the plan is not open by this site's clock, or the server's clock is another"
            )
        if self._veto is not None and (reason := self._veto(self.plan)):
            raise FederationRefused(f"this site will not take part: {reason}")
        return self.announce()

    def _mask(self, request: Request) -> dict[str, Any]:
        round, at = int(request["round"]), np.array(request["at"], dtype=np.float64)
        if "roster" not in self.state:
            self.open({int(j): box for j, box in request["boxes"].items()})
        # a run that a server drew out is over for this site too
        if not self.plan.is_open(now := datetime.now(UTC), now):
            raise FederationRefused("the plan is not open by this site's clock")
        self._check_round(
            round
        )  # refused before it is paid for, as places and what is no number are
        self.plan.kernel.places(at)
        question = asked(round, at)
        self._pay()
        with quiet_about_records():
            parts = [
                self.plan.integers(round, at, records, label)
                for label, records in enumerate(self._classes)
            ]
        noise = site_noise(
            self.plan.layers(round),
            self.seed(round),
            self.plan.length(round),
            self._source,
        )
        masked = self.mask(round, question, np.sum(parts, axis=0) + noise)
        return {"masked": masked.astype("<u8").tobytes().hex()}

    def _pay(self) -> None:
        """Once, and before anything is drawn."""
        if "paid" not in self.state:
            label = f"federated {self.plan.kernel.name} {self.plan.id[:16]}"
            pay(
                self._ledger,
                label,
                self.plan.guarantee,
                FederatedMechanism(statistic=self.plan),
            )
        self.state["paid"] = True

    def _sign(self, request: Request) -> dict[str, Any]:
        """Sign a certificate of this plan, and of the sums in which this site took part, whose claims hold."""
        from curvedp.mechanisms.verify import (
            verify_certificate,
        )  # half a second, of which other requests need nothing

        certificate = Certificate.from_json(json.dumps(request["certificate"]))
        rounds = [Round(*pair) for pair in request["rounds"]]
        walked = enumerate(
            zip(request["points"], self.plan.points(rounds), strict=False)
        )
        same = {
            r: one
            for r, (one, mine) in walked
            if self.plan.kernel.is_same(np.asarray(one), mine)
        }
        at = {str(r): asked(r, one).hex() for r, one in same.items()}
        masked, summed = (
            self.state["masked"],
            {str(r) for r, round in enumerate(rounds) if self.index in round.alive},
        )
        if (
            not summed
            or not summed <= set(masked)
            or any(at.get(r) != question for r, question in masked.items())
        ):
            raise FederationRefused(
                "the certificate is not of the sums this site took part in"
            )
        stages = [stage_of(self.plan, r, round) for r, round in enumerate(rounds)]
        sums = digest_of_integers([round.total for round in rounds])
        if (certificate.release["stages"], certificate.release["sha256"]) != (
            stages,
            sums,
        ):
            raise FederationRefused("the certificate is of other sums")
        if certificate.statistic != self.plan.to_dict():
            raise FederationRefused("the certificate is of another plan")
        if any(check.holds is False for check in verify_certificate(certificate)):
            raise FederationRefused("the certificate claims what does not hold")
        return {"signature": certificate.signature(self.identity)}

    def _by_class(
        self, records: np.ndarray, labels: Any, groups: Any
    ) -> list[np.ndarray]:
        """What stands for the records, or the persons, of each class."""
        kernel = self.plan.kernel
        if records.shape[1:] != kernel.manifold.point_shape:
            raise ParameterError(
                f"each record has shape {records.shape[1:]}; a point of {kernel.manifold!r} has {kernel.manifold.point_shape}"
            )
        if (labels is None) != (kernel.classes == 1) or (groups is None) != (
            self.plan.protects == "record"
        ):
            raise ParameterError(
                "labels go with a plan of classes, groups with a plan of persons, and only with one"
            )
        n = len(records)
        of = np.zeros(n, dtype=int) if labels is None else np.asarray(labels)
        codes = np.arange(n) if groups is None else person_codes(groups, n, least=0)
        if of.shape != (n,):
            raise ParameterError("labels does not match the records in length")
        classes = [
            (records[of == label], codes[of == label])
            for label in range(kernel.classes)
        ]
        counts = [len(np.unique(code)) for _, code in classes]
        if (
            counts != self.plan.counts[self.index]
            or sum(len(part) for part, _ in classes) != n
        ):
            raise ParameterError(
                "this site's numbers of records or persons are not those of the plan"
            )
        if sum(counts) != len(np.unique(codes)):
            raise ParameterError("groups has a person with records of several classes")
        return [
            kernel.by_person(*pair) if self.plan.protects == "person" else pair[0]
            for pair in classes
        ]
