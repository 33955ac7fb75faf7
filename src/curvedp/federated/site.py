"""A site of a federated release: its records, its key, its ledger, its veto. It answers requests, and trusts no server."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate, installed_software, sign_certificate
from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated.experimental import warn_experimental
from curvedp.federated.masking import Party, Request
from curvedp.federated.noise import site_noise
from curvedp.federated.plan import Plan, Round
from curvedp.federated.release import FederatedMechanism, asked, certificate_of
from curvedp.ledger import Ledger
from curvedp.randomness import Source
from curvedp.records.persons import encode_persons
from curvedp.records.tables import to_float_records
from curvedp.release.pay import pay

_LAST_DIGITS = 1e-9  # by which the same number may differ between two machines


class Site(Party):
    """One site's side of a plan.

    Experimental: the masking protocol has not been reviewed by outside cryptographers.

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
        warn_experimental()
        super().__init__(plan.session, identity, state, journal)
        self.plan, self._ledger, self._veto, self._source = plan, ledger, veto, source
        with quiet_about_records():
            self._classes = self._by_class(
                to_float_records("records", records, plan.kernel.manifold.point_shape),
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
                f"this site agreed to another plan; it differs in {', '.join(wrong)}",
                "plan",
            )
        if not self.plan.is_open(
            datetime.now(UTC), datetime.fromisoformat(request["time"])
        ):
            raise FederationRefused(
                "the plan is not open by this site's clock, or the server's clock is another",
                "clock",
            )
        if self._veto is not None and (reason := self._veto(self.plan)):
            raise FederationRefused(
                f"this site will not take part: {reason}", "declined"
            )
        return self.announce()

    def _mask(self, request: Request) -> dict[str, Any]:
        round, at = int(request["round"]), np.array(request["at"], dtype=np.float64)
        if "roster" not in self.state:
            self.open({int(j): box for j, box in request["boxes"].items()})
        # a run that a server drew out is over for this site too
        if not self.plan.is_open(now := datetime.now(UTC), now):
            raise FederationRefused(
                "the plan is not open by this site's clock", "clock"
            )
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
                [FederatedMechanism(statistic=self.plan)],
            )
        self.state["paid"] = True

    def _sign(self, request: Request) -> dict[str, Any]:
        """Sign the one certificate that follows from this plan and the sums of this run.

        Every word of it is the site's own: it is made here from the sums, and what the
        server sends must be the same, but for the time, which lies within the plan's hours.
        A site signs one certificate a session; the same one may be asked for again.
        """
        # Half a second, of which other requests need nothing.
        from curvedp.release.verify import verify_certificate

        certificate = Certificate.from_json(json.dumps(request["certificate"]))
        rounds = [Round(*pair) for pair in request["rounds"]]
        if not self._took_part_in(rounds, request["points"]):
            raise _unsigned("the certificate is not of the sums this site took part in")
        if not self._agrees_with(certificate, rounds):
            raise _unsigned("the certificate is not the one that follows from the sums")
        if not self.plan.covers(certificate.created):
            raise _unsigned("the certificate's time is not within the plan's hours")
        if any(check.holds is False for check in verify_certificate(certificate)):
            raise _unsigned("the certificate claims what does not hold")
        self._sign_once(certificate)
        return {"signature": sign_certificate(certificate, self.identity)}

    def _took_part_in(self, rounds: list[Round], points: Any) -> bool:
        """Whether this site's answers are of these sums, asked for at these points."""
        walked = zip(points, self.plan.points(rounds), strict=False)
        question_at = {
            str(r): asked(r, stated).hex()
            for r, (stated, own) in enumerate(walked)
            if self.plan.kernel.is_same(np.asarray(stated), own)
        }
        answered = self.state["masked"]
        summed = {str(r) for r, round in enumerate(rounds) if self.index in round.alive}
        if not summed or not summed <= set(answered):
            return False
        return all(question_at.get(r) == question for r, question in answered.items())

    def _agrees_with(self, certificate: Certificate, rounds: list[Round]) -> bool:
        """Whether a certificate is the one this site makes of the sums, but for its time."""
        if installed_software()["curvedp"] != self.plan.software:
            return False  # this site cannot say what the plan's software would have written
        own = certificate_of(self.plan, rounds).to_dict()
        stated = certificate.to_dict()
        for record in (own, stated):
            del record["created"], record["sha256"]
        return _is_same_record(own, stated)

    def _sign_once(self, certificate: Certificate) -> None:
        """Refuse a second certificate, of another process of this site too."""
        if self.state.setdefault("signed", certificate.sha256) != certificate.sha256:
            raise _unsigned("this site has signed another certificate of this session")
        if self._journal is None:
            return
        path = self._journal / f"{self.session.id.hex()[:32]}-sign"
        try:
            with path.open("x", encoding="ascii") as file:
                file.write(certificate.sha256)
        except FileExistsError:
            if path.read_text(encoding="ascii") != certificate.sha256:
                raise _unsigned(
                    "this site has signed another certificate of this session"
                ) from None
        except OSError:
            raise FederationRefused(
                "this site cannot write its journal", "unavailable"
            ) from None

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
        codes = (
            np.arange(n) if groups is None else encode_persons(groups, n, min_persons=0)
        )
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


def _unsigned(message: str) -> FederationRefused:
    return FederationRefused(message, "certificate")


def _is_same_record(own: Any, stated: Any) -> bool:
    """Whether two JSON values are equal; other machines may differ in last digits."""
    if isinstance(own, Mapping):
        return (
            isinstance(stated, Mapping)
            and set(own) == set(stated)
            and all(_is_same_record(own[name], stated[name]) for name in own)
        )
    if isinstance(own, list | tuple):
        return (
            isinstance(stated, list | tuple)
            and len(own) == len(stated)
            and all(map(_is_same_record, own, stated))
        )
    if isinstance(own, float):
        return isinstance(stated, float) and isclose(own, stated, rel_tol=_LAST_DIGITS)
    return type(own) is type(stated) and bool(own == stated)
