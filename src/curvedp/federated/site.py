"""One site (a hospital, say) of a release that several sites compute together.
The site holds its records, its signing key and its ledger, and may refuse to take part.
It answers the requests of a server that it does not trust. The plan states in advance
which noisy sums are formed, or from which public rule they follow (experimental).
"""

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
from curvedp.federated.plan import Plan
from curvedp.federated.release import (
    FederatedMechanism,
    build_certificate,
    hash_question,
)
from curvedp.federated.schedule import Round, RoundTerms
from curvedp.ledger import Ledger
from curvedp.randomness import Source
from curvedp.records.persons import encode_persons
from curvedp.records.tables import to_float_records
from curvedp.release.pay import pay

# The relative difference by which one number may differ between two machines.
_LAST_DIGITS = 1e-9

# A file of the journal begins with this many digits of the session's hash.
_JOURNAL_ID_DIGITS = 32


class Site(Party):
    """One site's side of a plan (experimental).

    The masking protocol has not been reviewed by outside cryptographers.

    Parameters
    ----------
    plan : Plan
        The site's own copy of the agreed plan; requests for another plan are refused.
    identity : Ed25519PrivateKey
        The site's key.
    records : array of shape (n, *point_shape)
        The site's records, as many as the plan says. Their values never raise an error.
    labels : array of length n, optional
        The class 0, 1, … of each record, if the plan has classes.
    groups : array of length n, optional
        The person to whom each record belongs, if the plan protects persons. All
        records of a person must be of one class.
    ledger : Ledger, optional
        The ledger that is charged for the whole release before the first vector leaves.
    veto : callable, optional
        veto(plan) returns why the site will not take part, or None.
    state : dict, optional
        The `state` of an earlier `Site` of the same plan, if every request starts a new
        process.
    journal : path, optional
        A folder of the site's own that keeps two processes from answering the same
        stage; see `Party`.
    source : Source, optional
        The bits of the noise that nobody else learns; the system's cryptographic source
        by default.

    Raises
    ------
    ParameterError
        If the number, shape, classes or persons of the records are not as in the plan.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.federated import MeanKernel, key_of, new_identity
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.privacy import GDP
    >>> identity, other = new_identity(), new_identity()
    >>> keys = [key_of(identity), key_of(other)]
    >>> plan = Plan(MeanKernel(Euclidean(2), 1.0), keys, [50, 30], GDP(1.0))
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
        """Check that the records match the plan, and sort them by class.

        The first use in a process issues an `ExperimentalWarning`.

        Parameters
        ----------
        plan : Plan
            The site's own copy of the agreed plan.
        identity : Ed25519PrivateKey
            The site's signing key.
        records : array of shape (n, *point_shape)
            The site's records, as many as the plan says.
        labels : array of length n, optional
            The class of each record, if the plan has classes.
        groups : array of length n, optional
            The person of each record, if the plan protects persons.
        ledger : Ledger, optional
            The ledger that is charged before the first vector leaves.
        veto : callable, optional
            veto(plan) returns why the site will not take part, or None.
        state : dict, optional
            The state of an earlier `Site` of the same plan.
        journal : Path, optional
            The folder in which every answered stage leaves a file.
        source : Source, optional
            The bits of the noise that nobody else learns.
        """
        warn_experimental()
        super().__init__(plan.session, identity, state, journal)
        self.plan = plan
        self._ledger = ledger
        self._veto = veto
        self._source = source
        with quiet_about_records():
            table = to_float_records(
                "records", records, plan.kernel.manifold.point_shape
            )
            # One array of rows for each class.
            self._class_rows = self._rows_by_class(table, labels, groups)

    @property
    def _stages(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        """The methods that answer the server's requests, by stage.

        A stage is a step of the protocol, such as "announce" or "sign".
        """
        return {
            **super()._stages,
            "announce": self._announce,
            "mask": self._mask,
            "sign": self._sign,
        }

    def _announce(self, request: Request) -> dict[str, Any]:
        """Answer the stage "announce": agree to the plan and return the site's keys.

        This is the site's answer to the first request of the server. It is where the
        site may refuse to take part.

        Parameters
        ----------
        request : mapping
            The server's "plan", as JSON values, and the "time" of its clock.

        Returns
        -------
        dict
            The signed announcement of the site's keys.

        Raises
        ------
        FederationRefused
            If the plan differs from the one this site agreed to, is not open now, or
            the site vetoes it.
        """
        differing_terms = self.plan.differences(request["plan"])
        if differing_terms:
            raise FederationRefused(
                "this site agreed to another plan; it differs in "
                f"{', '.join(differing_terms)}",
                "plan",
            )
        server_time = datetime.fromisoformat(request["time"])
        if not self.plan.is_open(datetime.now(UTC), server_time):
            raise FederationRefused(
                "by this site's clock the plan is not open, or the server's clock "
                "differs from it",
                "clock",
            )
        reason = self._veto(self.plan) if self._veto is not None else None
        if reason:
            raise FederationRefused(
                f"this site will not take part: {reason}", "declined"
            )
        return self.announce()

    def _mask(self, request: Request) -> dict[str, Any]:
        """Answer the stage "mask": return this site's masked noisy sum of a round.

        The mask hides the sum from the server; masks cancel in the total over all
        sites. In the first round the ledger is charged. Everything that can be refused
        is refused before the charge, and no noise is drawn before it.

        Parameters
        ----------
        request : mapping
            The number of the "round"; "at", the public state, computed from earlier
            rounds, on which its question depends; and in the first round
            "boxes", the encrypted messages of the other sites to this one.

        Returns
        -------
        dict
            "masked", the words of the masked sum as hexadecimal digits.
        """
        round = int(request["round"])
        if "roster" not in self.state:
            self.open({int(sender): box for sender, box in request["boxes"].items()})

        # The server may have delayed the run until after the plan's end.
        now = datetime.now(UTC)
        if not self.plan.is_open(now, now):
            raise FederationRefused(
                "the plan is not open by this site's clock", "clock"
            )
        self._check_round(round)
        if str(round) in self.state["masked"]:
            raise FederationRefused("this round has been answered")
        # This raises if the server states what cannot be public before this round.
        *earlier, round_terms = self.plan.schedule.read_questions(round, request["at"])
        self._check_earlier_rounds(earlier)
        question_hash = hash_question(round_terms)
        self._charge_ledger()

        with quiet_about_records():
            site_sum = self.plan.schedule.site_sum(round_terms, self._class_rows)
        masked = self.mask(round, question_hash, site_sum + self._noise(round_terms))
        return {"masked": masked.astype("<u8").tobytes().hex()}

    def _check_earlier_rounds(self, earlier_questions: list[RoundTerms]) -> None:
        """Refuse a question that contradicts what this site was asked before.

        If the question of a round follows from all earlier sums, the shares of the
        budget add up only along one sequence of sums. So a server must not state one
        past in one round and another past in the next.

        Parameters
        ----------
        earlier_questions : list of RoundTerms
            The terms of earlier rounds, as it follows from the server's
            statement; empty if questions do not depend on earlier sums.

        Raises
        ------
        FederationRefused
            If this site has not answered the same questions in all these rounds.
        """
        for round_terms in earlier_questions:
            answered_hash = self.state["masked"].get(str(round_terms.index))
            if answered_hash != hash_question(round_terms).hex():
                raise FederationRefused(
                    "the stated sums are not those on which earlier questions depended"
                )

    def _noise(self, round_terms: RoundTerms) -> np.ndarray:
        """Return this site's part of the noise of a round.

        Parameters
        ----------
        round_terms : RoundTerms
            The terms of the round's sum.

        Returns
        -------
        array of int64, shape (length,)
            The noise, in units of the grid.
        """
        seed = self.seed(round_terms.index)
        return site_noise(round_terms.layers, seed, round_terms.length, self._source)

    def _charge_ledger(self) -> None:
        """Charge the ledger for the whole release, unless that was done before.

        The site's state remembers the payment, so that later rounds cost nothing more.
        """
        if "paid" not in self.state:
            label = f"federated {self.plan.kernel.name} {self.plan.id[:16]}"
            mechanism = FederatedMechanism(statistic=self.plan)
            pay(self._ledger, label, self.plan.guarantee, [mechanism])
        self.state["paid"] = True

    def _sign(self, request: Request) -> dict[str, Any]:
        """Answer the stage "sign": sign the certificate of the finished release.

        The site computes the certificate itself, from the plan and the released sums.
        The server's copy must agree with it, except for the time, which must be within
        the plan's hours. A site signs only one certificate per session, but it may be
        asked to sign it again.

        Parameters
        ----------
        request : mapping
            The server's "certificate", the noisy sums of all "rounds", and "points",
            the public numbers on which the question of each round depended.

        Returns
        -------
        dict
            "signature", in hexadecimal digits.

        Raises
        ------
        FederationRefused
            If the certificate is not the one that follows from these sums.
        """
        # The import takes half a second, which other requests need not wait for.
        from curvedp.release.verify import verify_certificate

        certificate = Certificate.from_json(json.dumps(request["certificate"]))
        rounds = [Round(*pair) for pair in request["rounds"]]
        if not self._contributed_to(rounds, request["points"]):
            raise _refuse_to_sign(
                "the certificate is not of the sums this site took part in"
            )
        if not self._agrees_with(certificate, rounds):
            raise _refuse_to_sign(
                "the certificate is not the one that follows from the sums"
            )
        if not self.plan.is_within_hours(certificate.provenance.created):
            raise _refuse_to_sign(
                "the certificate's time is not within the plan's hours"
            )
        if any(check.holds is False for check in verify_certificate(certificate)):
            raise _refuse_to_sign("the certificate claims what does not hold")
        self._sign_once(certificate)
        return {"signature": sign_certificate(certificate, self.identity)}

    def _contributed_to(self, rounds: list[Round], stated_points: Any) -> bool:
        """Return whether this site contributed to the sums that the server states.

        The site has stored a hash of every question that it answered. Each hash must
        come from the stated sums, and a sum that claims to contain this site's vector
        must be one that it answered.

        Parameters
        ----------
        rounds : list of Round
            The noisy sum of each round and the sites in it, as the server states them.
        stated_points : list
            The public numbers on which the question of each round depended, as the
            server states them. They must follow from the sums.

        Returns
        -------
        bool
            Whether every answered question is confirmed, and this site is in a sum.
        """
        questions = self.plan.schedule.confirmed_questions(rounds, stated_points)
        confirmed_hashes = {
            str(round_terms.index): hash_question(round_terms).hex()
            for round_terms in questions
        }

        # Every sum that names this site, and every question it answered, must be
        # confirmed.
        answered_hashes = self.state["masked"]
        rounds_with_this_site = {
            str(index)
            for index, round in enumerate(rounds)
            if self.index in round.surviving_sites
        }
        if not rounds_with_this_site:
            return False
        if not rounds_with_this_site <= set(answered_hashes):
            return False
        return all(
            confirmed_hashes.get(index) == question_hash
            for index, question_hash in answered_hashes.items()
        )

    def _agrees_with(self, certificate: Certificate, rounds: list[Round]) -> bool:
        """Return whether this site computes the same certificate from the noisy sums.

        The time of the certificate is not compared, nor its hash, which depends on the
        time.

        Parameters
        ----------
        certificate : Certificate
            The server's certificate.
        rounds : list of Round
            The noisy sums, as the server states them.

        Returns
        -------
        bool
            False also if this site runs another version of the software.
        """
        if installed_software()["curvedp"] != self.plan.software:
            # Another version of the software might write another certificate.
            return False
        own_record = build_certificate(self.plan, rounds).to_dict()
        stated_record = certificate.to_dict()
        for record in (own_record, stated_record):
            del record["created"], record["sha256"]
        return _is_same_record(own_record, stated_record)

    def _sign_once(self, certificate: Certificate) -> None:
        """Record which certificate this site signs, and refuse to sign another one.

        The hash of the certificate goes into the site's state and into its journal, a
        folder that all processes of this site share.

        Parameters
        ----------
        certificate : Certificate
            The certificate that this site has checked.

        Raises
        ------
        FederationRefused
            If this site has signed a different certificate of this session, or the
            journal cannot be written.
        """
        signed_hash = self.state.setdefault("signed", certificate.provenance.sha256)
        if signed_hash != certificate.provenance.sha256:
            raise _refuse_to_sign(
                "this site has signed another certificate of this session"
            )
        if self._journal is None:
            return

        session_name = self.session.id.hex()[:_JOURNAL_ID_DIGITS]
        path = self._journal / f"{session_name}-sign"
        try:
            with path.open("x", encoding="ascii") as file:
                file.write(certificate.provenance.sha256)
        except FileExistsError:
            if path.read_text(encoding="ascii") != certificate.provenance.sha256:
                raise _refuse_to_sign(
                    "this site has signed another certificate of this session"
                ) from None
        except OSError:
            raise FederationRefused(
                "this site cannot write its journal", "unavailable"
            ) from None

    def _rows_by_class(
        self, records: np.ndarray, labels: Any, groups: Any
    ) -> list[Any]:
        """Return, for each class, the rows that enter the sums.

        A row is a record, or, if the plan protects persons, what a person's records
        are combined to.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            All records of the site.
        labels, groups : arrays of length n, or None
            The class of each record, and the person to whom it belongs.

        Returns
        -------
        list of arrays
            One array of rows for each class.

        Raises
        ------
        ParameterError
            If shapes, classes, persons or counts are not as in the plan, or a person
            has records in several classes.
        """
        kernel = self.plan.kernel
        self._check_inputs(records, labels, groups)
        n = len(records)

        # Without labels all records are of class 0; without groups each is a person.
        class_of_record = np.zeros(n, dtype=int)
        if labels is not None:
            class_of_record = np.asarray(labels)
        person_of_record = np.arange(n)
        if groups is not None:
            person_of_record = encode_persons(groups, n, min_persons=0)
        if class_of_record.shape != (n,):
            raise ParameterError("labels does not match the records in length")

        class_masks = [class_of_record == label for label in range(kernel.n_classes)]
        unit_counts = [len(np.unique(person_of_record[mask])) for mask in class_masks]
        record_count = sum(int(np.count_nonzero(mask)) for mask in class_masks)
        if unit_counts != self.plan.counts[self.index] or record_count != n:
            raise ParameterError(
                "this site's numbers of records or persons are not those of the plan"
            )
        if sum(unit_counts) != len(np.unique(person_of_record)):
            raise ParameterError("groups has a person with records of several classes")

        if self.plan.protects == "record":
            return [records[mask] for mask in class_masks]
        return [
            kernel.combine_by_person(records[mask], person_of_record[mask])
            for mask in class_masks
        ]

    def _check_inputs(self, records: np.ndarray, labels: Any, groups: Any) -> None:
        """Refuse records, labels or groups that do not suit the plan.

        Labels are required exactly if the plan has classes, and groups exactly if it
        protects persons.

        Parameters
        ----------
        records : array
            The site's records.
        labels, groups : arrays or None
            The class of each record, and the person to whom it belongs.

        Raises
        ------
        ParameterError
            If a record is not of the manifold's shape, or labels or groups are missing
            or superfluous.
        """
        manifold = self.plan.kernel.manifold
        if records.shape[1:] != manifold.point_shape:
            raise ParameterError(
                f"each record has shape {records.shape[1:]}; "
                f"a point of {manifold!r} has {manifold.point_shape}"
            )
        needs_labels = self.plan.kernel.n_classes != 1
        needs_groups = self.plan.protects != "record"
        has_labels = labels is not None
        has_groups = groups is not None
        if has_labels != needs_labels or has_groups != needs_groups:
            raise ParameterError(
                "labels must be given exactly if the plan has several classes, and "
                "groups exactly if it protects persons"
            )


def _refuse_to_sign(message: str) -> FederationRefused:
    """Return the exception that refuses to sign a certificate, with the reason.

    Parameters
    ----------
    message : str
        The reason, which is logged at the site; the server gets a code.
    """
    return FederationRefused(message, "certificate")


def _is_same_record(own_record: Any, stated_record: Any) -> bool:
    """Return whether two JSON values are equal, except for the last digits of floats.

    Different machines may compute floats that differ in their last digits. Nested
    mappings and lists are compared item by item.

    Parameters
    ----------
    own_record, stated_record : object
        JSON values: what this site computed, and what the server states.

    Returns
    -------
    bool
        Whether all texts and integers are equal, and all floats nearly.
    """
    if isinstance(own_record, Mapping):
        return (
            isinstance(stated_record, Mapping)
            and set(own_record) == set(stated_record)
            and all(
                _is_same_record(own_record[name], stated_record[name])
                for name in own_record
            )
        )
    if isinstance(own_record, list | tuple):
        return (
            isinstance(stated_record, list | tuple)
            and len(own_record) == len(stated_record)
            and all(map(_is_same_record, own_record, stated_record))
        )
    if isinstance(own_record, float):
        return isinstance(stated_record, float) and isclose(
            own_record, stated_record, rel_tol=_LAST_DIGITS
        )
    return type(own_record) is type(stated_record) and bool(own_record == stated_record)
