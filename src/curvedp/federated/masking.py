"""Secure sums: several sites add up integer vectors, and nobody sees a single vector.
A site is a participant, such as a hospital; a server carries all messages and is not
trusted. Each site adds a mask of random-looking numbers to its vector. The masks cancel
in the sum, or are removed with the help of the other sites.

The sums are modulo 2^64. The protocol is that of Bonawitz et al. (2017), "Practical
Secure Aggregation for Privacy-Preserving Machine Learning". This module knows no
transport and no statistic. It is experimental: no outside cryptographer has reviewed
it.

Once per session:

1. announce. Every site sends the server its signed public keys, and commitments to all
   its later secrets. The server passes them on to all sites.
2. share. Every site splits its secrets into shares (Shamir 1979), one for each other
   site, and sends them sealed through the server, which cannot read them.

In every round:

3. mask. Every site sends its vector plus a mask of its own plus, for each other site, a
   mask that the two have in common, with opposite signs. The server sees words that are
   uniform to it.
4. unmask. The surviving sites send shares: of the own mask of every survivor, and of
   the pair key of every lost site. Never both for one site, so that no single vector is
   unmasked.

What is added to the paper: keys and seeds are fresh in every round, pair masks depend
on the roster and on the question asked, every secret is committed to, and each site has
a chain of seeds, of which the one for the number of lost sites is revealed in step 4,
so that the server can remove surplus noise (`noise.py`). The proof is in
`docs/theory/federation.md`.
"""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from curvedp.errors import CurvedpError, FederationRefused, ParameterError
from curvedp.federated.masks import (
    KEY_DIGITS,
    NOISE_CHAIN,
    OWN_MASK,
    PAIR_KEY,
    Announcements,
    announced_commitment,
    commitment_to,
    is_announcement,
    mask_context,
    pair_mask,
)
from curvedp.federated.session import (
    COEFFICIENT_BYTES,
    PROTOCOL,
    SHARE_BYTES,
    Session,
    agree_on_secret,
    derive_key,
    hash_chain,
    keystream,
    mask_words,
    public_key_of,
    split_secret,
)
from curvedp.signing import key_of, signature

# The only things that a site may tell the server about a refusal. A free message could
# contain the site's budget, the names of its files or its true number of records.
REFUSALS = {
    "plan": "the site agreed to another plan",
    "clock": "the plan is not open by the site's clock",
    "declined": "the site will not take part",
    "protocol": "the request is not one that this protocol answers at this point",
    "certificate": "the certificate is not one that the site signs",
    "unavailable": "the site cannot answer, for reasons of its own",
}

# Stages that a site answers once per session; the others come in every round.
_SESSION_STAGES = ("announce", "share")

# A file of the journal begins with this many digits of the session's hash.
_JOURNAL_ID_DIGITS = 32

# ChaCha20-Poly1305 needs a nonce that is new for its key. Every sealing key is derived
# for one sender, one receiver and one session and seals one message: zeros will do.
_NONCE = bytes(12)

Request = Mapping[str, Any]


def refusal_code(error: Exception) -> str:
    """Return the code with which a site tells the server that it refuses.

    Parameters
    ----------
    error : Exception
        The exception that was raised while a request was answered.

    Returns
    -------
    str
        A key of `REFUSALS`; it reveals nothing else about the error.

    Examples
    --------
    >>> refusal_code(FederationRefused("the clock is wrong", "clock"))
    'clock'
    >>> refusal_code(ParameterError("no such file: patients.csv"))
    'unavailable'
    """
    if isinstance(error, FederationRefused):
        return error.code if error.code in REFUSALS else "protocol"
    if isinstance(error, CurvedpError | OSError):
        return "unavailable"
    return "protocol"


class Party:
    """One site's side of a session of masked sums (experimental).

    The protocol has not been reviewed by outside cryptographers. Each public method is
    one answer to the server. It raises `FederationRefused` if the answer would reveal
    more than one sum per round.

    Parameters
    ----------
    session : Session
        The public terms of the session.
    identity : Ed25519PrivateKey
        The site's signing key; its public half is among `session.sites`.
    state : dict, optional
        The state that an earlier `Party` of this site and session left; a new state,
        with a fresh master secret, by default.
    journal : Path, optional
        A folder in which every stage leaves a file before it is answered. If each
        request starts a process, this keeps two processes from answering the same
        stage: two masked vectors of one round would be two releases.

    Attributes
    ----------
    index : int
        The site's place in `session.sites`.
    state : dict
        All that the site remembers, as JSON values. It holds the site's secrets and
        must stay at the site.

    Raises
    ------
    ParameterError
        If the identity is not one of the session's, or the state is of another session.
    """

    def __init__(
        self,
        session: Session,
        identity: Ed25519PrivateKey,
        state: dict[str, Any] | None = None,
        journal: Path | None = None,
    ) -> None:
        """Check that the identity and the state belong to a site of this session.

        Without a state, a new one with a fresh master secret is made. All other secrets
        of the site are derived from the master secret.

        Parameters
        ----------
        session : Session
            The public terms of the session.
        identity : Ed25519PrivateKey
            The site's signing key.
        state : dict, optional
            The state that an earlier `Party` of this site and session left.
        journal : Path, optional
            The folder in which every answered stage leaves a file.

        Raises
        ------
        ParameterError
            If the identity is not one of the session's, or the state is of another
            session.
        """
        if key_of(identity) not in session.sites:
            raise ParameterError("this site's key is not among the session's")
        self.session = session
        self.identity = identity
        self._journal = journal
        self.index = session.sites.index(key_of(identity))

        if state is None:
            state = {
                "session": asdict(session),
                "master": secrets.token_hex(32),
                "masked": {},
                "answered": [],
            }
        self.state: dict[str, Any] = state
        if self.state["session"] != asdict(session):
            raise ParameterError("this state is of another session")

    def answer(self, request: Request) -> dict[str, Any]:
        """Answer one request of the server, after noting it in the site's journal.

        Parameters
        ----------
        request : mapping
            JSON values: the "stage" (the step of the protocol), the number of the
            "round" if the stage belongs to one, and what else the stage needs.

        Returns
        -------
        dict
            JSON values for the server.

        Raises
        ------
        FederationRefused, BudgetExceeded, ParameterError
            If the site does not answer. The server then treats the site as lost.
        """
        try:
            stage = request["stage"]
            round = int(request.get("round", 0))
            answer_stage = self._stages[stage]
            # A site may be asked again to sign the same certificate.
            if self._journal is not None and stage != "sign":
                is_session_stage = stage in _SESSION_STAGES
                entry = stage if is_session_stage else f"{stage}-{round}"
                self._note_in_journal(self._journal, entry)
            return answer_stage(request)
        except ParameterError:
            raise
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            # A malformed request must not crash the site or reveal anything.
            raise FederationRefused(
                f"the request is not one of this protocol's ({type(error).__name__})"
            ) from None

    @property
    def _stages(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        """The methods that answer requests without the site's records, by stage.

        A stage is a step of the protocol.
        """
        return {"share": self._answer_share, "unmask": self._answer_unmask}

    def _answer_share(self, request: Request) -> dict[str, Any]:
        """Answer the stage "share": return encrypted shares of this site's secrets.

        Parameters
        ----------
        request : mapping
            JSON values: the "announcements", which hold the public keys of all sites.

        Returns
        -------
        dict
            "boxes", one encrypted message to each other site.
        """
        announcements = {
            int(site): announcement
            for site, announcement in request["announcements"].items()
        }
        return {"boxes": self.share(announcements)}

    def _answer_unmask(self, request: Request) -> dict[str, Any]:
        """Answer the stage "unmask": return shares of the secrets of a round.

        They let the server remove the masks from the sum of the survivors.

        Parameters
        ----------
        request : mapping
            JSON values: the number of the "round" and "survivors", the sites whose
            masked vectors have arrived.

        Returns
        -------
        dict
            What `unmask` returns.
        """
        survivors = [int(site) for site in request["survivors"]]
        return self.unmask(int(request["round"]), survivors)

    def _note_in_journal(self, journal: Path, stage: str) -> None:
        """Note in the journal that a stage is answered; refuse a second answer.

        The journal is a folder that all processes of this site share. A stage is a step
        of the protocol; answering it twice could reveal more than one sum.

        Parameters
        ----------
        journal : Path
            The folder of the journal.
        stage : str
            The name of the stage, followed by the number of its round.

        Raises
        ------
        FederationRefused
            If a process of this site has entered the stage before, or the journal
            cannot be written.
        """
        entry = journal / f"{self.session.id.hex()[:_JOURNAL_ID_DIGITS]}-{stage}"
        try:
            # The file system lets only one process create the file.
            entry.touch(exist_ok=False)
        except FileExistsError:
            raise FederationRefused(
                "this site has answered this stage of this plan"
            ) from None
        except OSError:
            raise FederationRefused(
                "this site cannot write its journal", "unavailable"
            ) from None

    # ---- once per session ----

    def announce(self) -> dict[str, Any]:
        """Return this site's signed announcement of its public keys (step 1).

        It holds a public key for encrypted messages and, for every round, commitments
        to the site's secrets: the public half of its pair key and hashes of its seeds.
        They reveal nothing about the secrets, but later nobody can pass off another
        secret as the site's. The signature keeps the server from inserting keys of its
        own, with which it could compute the pair masks.

        Returns
        -------
        dict
            The session's identifier, the site's index, all "keys" in one string of
            hexadecimal digits, and the signature.
        """
        keys = [public_key_of(self._secret(b"channel"))]
        for round in range(self.session.rounds):
            for place, secret in enumerate(self._secrets_of_round(round)):
                keys.append(commitment_to(place, secret))
        body = {
            "session": self.session.id.hex(),
            "site": self.index,
            "keys": "".join(keys),
        }
        return {**body, "signature": signature(self.identity, body, PROTOCOL)}

    def share(self, announcements: Announcements) -> dict[str, str]:
        """Return encrypted shares of this site's secrets for the other sites (step 2).

        Any `session.threshold` shares determine a secret; fewer reveal nothing about it
        (Shamir 1979). The other sites can then help if this one is lost. The server
        carries the encrypted boxes and cannot open them: sender and receiver agree on
        the key of each box (X25519) from signed public keys.

        Parameters
        ----------
        announcements : mapping
            The signed public keys of every site that sent them, by the site's index.

        Returns
        -------
        dict
            For every other site, by its index as a string, a box in hexadecimal digits.

        Raises
        ------
        FederationRefused
            If shares were given before, too few sites announced, an announcement is not
            signed by its site, or this site's own was replaced.
        """
        self._refuse_second_answer("announcements")
        self._check_announcements(announcements)
        self.state["announcements"] = {
            str(site): dict(announcement)
            for site, announcement in announcements.items()
        }
        bundles = self._share_bundles(sorted(announcements))
        own_bundle = bundles.pop(self.index)
        self.state["bundles"] = {str(self.index): own_bundle.hex()}

        boxes = {}
        for receiver, bundle in bundles.items():
            cipher = self._sealing_cipher(self.index, receiver)
            boxes[str(receiver)] = cipher.encrypt(_NONCE, bundle, self.session.id).hex()
        return boxes

    def _check_announcements(self, announcements: Announcements) -> None:
        """Check the announcements of all sites, which the server passed on.

        An announcement holds the public keys of a site. With a forged one the server
        could compute masks.

        Parameters
        ----------
        announcements : mapping
            The announcements, by the index of their site.

        Raises
        ------
        FederationRefused
            If there are too few, one is not signed by its site, or this site's own was
            replaced.
        """
        all_sites = set(range(len(self.session.sites)))
        has_enough = len(announcements) >= self.session.threshold
        if not (has_enough and set(announcements) <= all_sites):
            raise FederationRefused(
                f"{len(announcements)} sites announced; "
                f"{self.session.threshold} are needed"
            )
        for site, announcement in announcements.items():
            if not is_announcement(self.session, site, announcement):
                raise FederationRefused(
                    f"the announcement of site {site} is not signed by its key for "
                    "this session"
                )
        if announcements.get(self.index) != self.announce():
            raise FederationRefused(
                "the announcement under this site's name is not its own"
            )

    def open(self, sealed: Mapping[int, str]) -> None:
        """Decrypt the boxes of the other sites and store their shares (end of step 2).

        The senders and this site form the roster: the sites that take part in all
        rounds. This site learns one share of each secret, which alone reveals nothing.

        Parameters
        ----------
        sealed : mapping
            The encrypted box from each sender to this site, in hexadecimal digits.

        Raises
        ------
        FederationRefused
            If boxes were opened before, or too few sites sent one.
        """
        self._refuse_second_answer("roster")
        roster = sorted({*sealed, self.index})
        has_announced = {str(site) for site in roster} <= set(
            self.state["announcements"]
        )
        if not has_announced or len(roster) < self.session.threshold:
            raise FederationRefused(
                f"{len(roster)} sites shared their secrets; "
                f"{self.session.threshold} are needed"
            )
        for sender, box in sealed.items():
            if sender != self.index:
                self.state["bundles"][str(sender)] = self._open_box(sender, box)
        self.state["roster"] = roster

    # ---- every round ----

    def seed(self, round: int) -> bytes:
        """Return the seed of the noise that the server may have to subtract in a round.

        A site draws noise in layers, for the case that other sites are lost. All layers
        but the first are computed from this seed. It is empty if no site may be lost:
        then there is only one layer.

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        bytes
            The first seed of the round's chain, 32 bytes, or an empty text.
        """
        if not self.session.dropouts:
            return b""
        return self._secrets_of_round(round)[NOISE_CHAIN]

    def mask(self, round: int, question_hash: bytes, vector: np.ndarray) -> np.ndarray:
        """Return this site's masked vector of a round (step 3); only once per round.

        Site i has the vector xᵢ, a secret seed bᵢ, and with each other site j a common
        secret kᵢⱼ. PRG expands a seed to uniform words. Site i sends

            yᵢ = xᵢ + PRG(bᵢ) + Σ_{j > i} PRG(kᵢⱼ) − Σ_{j < i} PRG(kᵢⱼ)   (mod 2^64).

        Without bᵢ and a kᵢⱼ with an honest j, yᵢ is uniform to the server. The kᵢⱼ
        depend on the roster and on `question_hash`: if the server tells two sites
        different things, their masks do not cancel and the sum is noise.

        Parameters
        ----------
        round : int
            The number of the round.
        question_hash : bytes
            A hash of the question that all sites were asked.
        vector : array of int
            The site's noisy vector xᵢ.

        Returns
        -------
        array of uint64
            The masked vector yᵢ.

        Raises
        ------
        FederationRefused
            If the round is not one of the session's, or was answered before.
        """
        self._check_round(round)
        if str(round) in self.state["masked"]:
            raise FederationRefused("this round has been answered")
        self.state["masked"][str(round)] = question_hash.hex()

        own_secrets = self._secrets_of_round(round)
        length = len(vector)
        words = np.asarray(vector).astype(np.int64).view(np.uint64)
        masked = words + mask_words(own_secrets[OWN_MASK], length)

        roster = self.state["roster"]
        context = mask_context(self.session, round, roster, question_hash)
        other_sites = [site for site in roster if site != self.index]
        for site in other_sites:
            announcement = self.state["announcements"][str(site)]
            their_key = announced_commitment(
                self.session, announcement, round, PAIR_KEY
            )
            masked = masked + pair_mask(
                own_secrets[PAIR_KEY], their_key, context, self.index, site, length
            )
        return np.asarray(masked)

    def unmask(self, round: int, survivors: Collection[int]) -> dict[str, Any]:
        """Return the shares that unmask the sum over the survivors (step 4); only once.

        For a survivor these are shares of the seed of its own mask and of one seed of
        its chain, the one for this number of lost sites. For a lost site it is a share
        of its pair key. A site never gives both kinds for one site, because together
        they would unmask that site's single vector. Any two sets of `threshold` sites
        have an honest site in common, so the server cannot collect both kinds by naming
        different survivors to different sites.

        Parameters
        ----------
        round : int
            The number of the round.
        survivors : collection of int
            The sites whose masked vectors the server has.

        Returns
        -------
        dict
            The hash of the question that was "asked" in the round, the "survivors", and
            the "shares" by site.

        Raises
        ------
        FederationRefused
            If this site sent no masked vector in the round, gave shares before, or is
            asked to unmask a sum over too few sites.
        """
        surviving_sites = set(survivors)
        self._check_may_unmask(round, surviving_sites)
        self.state["answered"].append(round)

        lost_count = len(self.session.sites) - len(surviving_sites)
        shares_by_site = {}
        for site in self.state["roster"]:
            if site in surviving_sites:
                places = [OWN_MASK, NOISE_CHAIN + lost_count]
            else:
                places = [PAIR_KEY]
            shares = self._shares_of(site, round)
            # There may be no such seed, and no shares of a faulty site.
            shares_by_site[str(site)] = [
                shares[place] for place in places if place < len(shares)
            ]
        return {
            "asked": self.state["masked"][str(round)],
            "survivors": sorted(surviving_sites),
            "shares": shares_by_site,
        }

    def _refuse_second_answer(self, name: str) -> None:
        """Raise `FederationRefused` if the state holds the result of a stage.

        Parameters
        ----------
        name : str
            The key of the stage's result in the state.
        """
        if name in self.state:
            raise FederationRefused("this stage has been answered")

    def _check_may_unmask(self, round: int, surviving_sites: set[int]) -> None:
        """Refuse to help unmask a sum twice, too early, or over too few sites.

        Parameters
        ----------
        round : int
            The number of the round.
        surviving_sites : set of int
            The sites whose vectors are in the sum, as the server states them.
        """
        self._check_round(round)
        has_masked = str(round) in self.state["masked"]
        if not has_masked or round in self.state["answered"]:
            raise FederationRefused(
                "shares are given once a round, and after the masked vector"
            )
        is_in_sum = self.index in surviving_sites and surviving_sites <= set(
            self.state["roster"]
        )
        if not is_in_sum or len(surviving_sites) < self.session.threshold:
            raise FederationRefused(
                f"a sum over {len(surviving_sites)} sites is not unmasked; "
                f"{self.session.threshold} are needed"
            )

    def _check_round(self, round: int) -> None:
        """Raise `FederationRefused` if a round does not exist or has no keys yet.

        Parameters
        ----------
        round : int
            The number of the round in the server's request.
        """
        if "roster" not in self.state or round not in range(self.session.rounds):
            raise FederationRefused(
                "this round is not one of the session's, or its keys were never shared"
            )

    def _secret(self, *name: bytes | int) -> bytes:
        """Return the secret with a given name, derived from the site's master secret.

        So a restarted site has the same secrets.

        Parameters
        ----------
        *name : bytes or int
            A purpose such as b"noise" and, if needed, numbers.

        Returns
        -------
        bytes
            32 bytes.
        """
        return derive_key(bytes.fromhex(self.state["master"]), self.session.id, *name)

    def _secrets_of_round(self, round: int) -> list[bytes]:
        """Return this site's secrets of a round.

        They are, in this order: the private key for the masks that it has in common
        with other sites (place `PAIR_KEY` = 0), the seed of its own mask (`OWN_MASK`
        = 1), and the seeds of its noise (from `NOISE_CHAIN` = 2 on).

        Parameters
        ----------
        round : int
            The number of the round.

        Returns
        -------
        list of bytes
            2 + dropouts secrets of 32 bytes.
        """
        noise_seeds = hash_chain(self._secret(b"noise", round), self.session.dropouts)
        pair_key = self._secret(b"pair", round)
        own_mask_seed = self._secret(b"self", round)
        return [pair_key, own_mask_seed, *noise_seeds]

    def _share_bundles(self, peers: Sequence[int]) -> dict[int, bytes]:
        """Return a bundle of shares of all of this site's secrets for each peer.

        A share is one value of a random polynomial that hides the secret (Shamir 1979).
        A bundle holds the shares one after the other, by round and by the secret's
        place in `_secrets_of_round`. Site j gets the values of Shamir's polynomials at
        the point j + 1. The coefficients are derived from the master secret, so a
        restarted site gives the same shares.

        Parameters
        ----------
        peers : sequence of int
            The sites that get shares, this site included.

        Returns
        -------
        dict
            The bundle of each peer.
        """
        points = [peer + 1 for peer in peers]
        threshold = self.session.threshold
        bundles = dict.fromkeys(peers, b"")
        for round in range(self.session.rounds):
            for place, secret in enumerate(self._secrets_of_round(round)):
                polynomial_key = self._secret(b"polynomial", round, place)
                coefficients = keystream(polynomial_key, COEFFICIENT_BYTES * threshold)
                secret_number = int.from_bytes(secret, "little")
                read_coefficient = BytesIO(coefficients).read
                shares = split_secret(
                    secret_number, points, threshold, read_coefficient
                )
                for peer in peers:
                    bundles[peer] += shares[peer + 1].to_bytes(SHARE_BYTES, "little")
        return bundles

    def _shares_of(self, site: int, round: int) -> list[str]:
        """Return the shares that this site holds of another site's secrets in a round.

        Parameters
        ----------
        site : int
            The other site.
        round : int
            The number of the round.

        Returns
        -------
        list of str
            One share in hexadecimal for each secret, in the order of
            `_secrets_of_round`. The list is empty if that site sent no bundle of the
            right length.
        """
        bundle = self.state["bundles"].get(str(site), "")
        share_digits = 2 * SHARE_BYTES
        count = self.session.secrets
        if len(bundle) != share_digits * count * self.session.rounds:
            return []
        starts = [share_digits * (count * round + place) for place in range(count)]
        return [bundle[start : start + share_digits] for start in starts]

    def _sealing_cipher(self, sender: int, receiver: int) -> ChaCha20Poly1305:
        """Return the cipher for the encrypted message (box) from one site to another.

        This site is the sender or the receiver. Both derive the same key (X25519) from
        the public keys that they announced.

        Parameters
        ----------
        sender, receiver : int
            The sites that send and receive the box.

        Returns
        -------
        ChaCha20Poly1305
            The cipher under a key of this sender, receiver and session.
        """
        other = receiver if sender == self.index else sender
        announcement = self.state["announcements"][str(other)]
        channel_key = announcement["keys"][:KEY_DIGITS]
        shared_secret = agree_on_secret(self._secret(b"channel"), channel_key)
        key = derive_key(shared_secret, self.session.id, b"seal", sender, receiver)
        return ChaCha20Poly1305(key)

    def _open_box(self, sender: int, box: str) -> str:
        """Decrypt a box of shares from another site, as hexadecimal digits.

        A damaged box gives an empty string, as if the sender had shared nothing with
        this site: the shares that other sites hold may still be enough.

        Parameters
        ----------
        sender : int
            The index of the site that sent the box.
        box : str
            The encrypted box in hexadecimal digits.

        Returns
        -------
        str
            The shares in hexadecimal digits, or an empty text.
        """
        try:
            cipher = self._sealing_cipher(sender, self.index)
            return cipher.decrypt(_NONCE, bytes.fromhex(box), self.session.id).hex()
        except (InvalidTag, TypeError, ValueError):
            return ""
