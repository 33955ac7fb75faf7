"""A sum in Z_{2^64} of which nobody sees a summand, after Bonawitz et al. 2017; it knows no engine and no statistic.

Every pair of sites shares a mask that one adds and the other subtracts; every site adds a mask of its own. Once per session
the sites announce keys (signed) and send each other sealed shares of their secrets; then each round takes two messages:
masked vectors, and shares of what takes the masks off. For a site that sent its vector the shares of its own mask are given,
for one that did not those of its pair key, never both. `docs/federation.md` has the proof.

Beyond the paper: keys and seeds are per round, so that a site lost late gives away nothing of its earlier vectors; pair masks
depend on the roster and on what was asked, so that sites told different things cancel nothing; every secret is committed to,
so that a wrong share is noticed; and each site keeps a chain of seeds, of which the one for the number of lost sites is given
with the rest (`noise.py` uses it to take surplus noise off: Jiang et al. 2024).
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated import shamir
from curvedp.federated.session import PROTOCOL, Session, agreed, derived, keystream, mask
from curvedp.signing import digest, is_signed, signature

__all__ = ["Party", "chain", "is_announcement", "is_answer", "recovered"]

Announcements = Mapping[int, Mapping[str, Any]]


class Party:
    """One site's half of a session. All it knows is in `state`, JSON values that stay at the site.

    Each method is one answer to the server, and refuses what would give away more than one sum a round.

    Parameters
    ----------
    session : Session
        The agreed terms.
    identity : Ed25519PrivateKey
        The site's long-lived key, whose public half is one of the session's.
    state : dict, optional
        What an earlier `Party` of the same session left in its `state`; a new one by default.

    Raises
    ------
    FederationRefused
        By every method, where an answer would not be safe.
    """

    def __init__(self, session: Session, identity: Ed25519PrivateKey, state: dict[str, Any] | None = None) -> None:
        key = identity.public_key().public_bytes_raw().hex()
        if key not in session.sites:
            raise ParameterError("this site's key is not among the session's")
        self.session, self.identity, self.index = session, identity, session.sites.index(key)
        fresh = {"session": session.id.hex(), "master": secrets.token_hex(32), "masked": {}, "answered": []}
        self.state: dict[str, Any] = fresh if state is None else state
        if self.state["session"] != session.id.hex():
            raise ParameterError("this state is of another session")

    # ---- once per session ----

    def announce(self) -> dict[str, Any]:
        """Public keys of the channel and of every round, and commitments to the seeds; signed."""
        rounds = range(self.session.rounds)
        body = {
            "session": self.session.id.hex(),
            "site": self.index,
            "channel": _public(self._secret(b"channel")),
            "keys": [_public(self._secret(b"pair", r)) for r in rounds],
            "commitments": [[_commitment(seed) for seed in self._seeds(r)] for r in rounds],
        }
        return {**body, "signature": signature(self.identity, body, PROTOCOL)}

    def share(self, announcements: Announcements) -> dict[int, str]:
        """For every other site that announced its keys, shares of this one's secrets, sealed."""
        self._once("announcements")
        self._check_announcements(announcements)
        self.state["announcements"] = {str(j): dict(said) for j, said in announcements.items()}
        self.state["bundles"] = {}
        bundles = self._bundles(sorted(announcements))
        self.state["bundles"][str(self.index)] = bundles.pop(self.index).hex()
        return {j: self._seal(j, bundle) for j, bundle in bundles.items()}

    def open(self, sealed: Mapping[int, str]) -> None:
        """Take the others' shares. Who sent them, and this site, are the roster of every round."""
        self._once("roster")
        roster = sorted({*sealed, self.index})
        if not set(roster) <= set(self._announced) or len(roster) < self.session.threshold:
            raise FederationRefused(f"{len(roster)} sites shared their secrets; {self.session.threshold} are needed")
        for j, box in sealed.items():
            if j != self.index:
                self.state["bundles"][str(j)] = self._unseal(j, box)
        self.state["roster"] = roster

    # ---- every round ----

    def seed(self, round: int) -> bytes:
        """The first seed of this round's chain; `chain` gives the others."""
        return self._seeds(round)[1] if self.session.dropouts else b""

    def mask(self, round: int, asked: bytes, vector: np.ndarray) -> np.ndarray:
        """The masked vector, once a round; `asked` is a hash of what all sites were asked for."""
        self._check_round(round)
        if str(round) in self.state["masked"]:
            raise FederationRefused("this round has been answered")
        self.state["masked"][str(round)] = asked.hex()
        own = self._seeds(round)[0]
        masked = np.asarray(vector).astype(np.int64).view(np.uint64) + mask(own, len(vector))
        for j in self.state["roster"]:
            if j != self.index:
                shared = agreed(self._secret(b"pair", round), self._announced[j]["keys"][round])
                masked = masked + _pair_mask(
                    self.session, shared, self._context(round, asked), self.index, j, len(vector)
                )
        return np.asarray(masked)

    def unmask(self, round: int, survivors: Collection[int]) -> dict[str, Any]:
        """Shares that take the masks off the sum over `survivors`, once a round."""
        self._check_round(round)
        alive = set(survivors)
        if str(round) not in self.state["masked"] or round in self.state["answered"]:
            raise FederationRefused("shares are given once a round, and after the masked vector")
        if self.index not in alive or not alive <= set(self.state["roster"]) or len(alive) < self.session.threshold:
            raise FederationRefused(
                f"a sum over {len(alive)} sites is not unmasked; {self.session.threshold} are needed"
            )
        self.state["answered"].append(round)
        lost, given = len(self.session.sites) - len(alive), {}
        for j in self.state["roster"]:
            shares = self._shares_of(j, round)
            if shares:
                given[str(j)] = [shares[1], *shares[2 + lost : 3 + lost]] if j in alive else [shares[0]]
        return {"asked": self.state["masked"][str(round)], "survivors": sorted(alive), "shares": given}

    # ---- inside ----

    @property
    def _announced(self) -> dict[int, dict[str, Any]]:
        return {int(j): said for j, said in self.state["announcements"].items()}

    def _once(self, name: str) -> None:
        if name in self.state:
            raise FederationRefused("this stage has been answered")

    def _check_round(self, round: int) -> None:
        if "roster" not in self.state or round not in range(self.session.rounds):
            raise FederationRefused("this round is not one of the session's, or its keys were never shared")

    def _check_announcements(self, announcements: Announcements) -> None:
        check_announcements(self.session, announcements)
        if announcements.get(self.index) != self.announce():
            raise FederationRefused("the announcements hold another one under this site's name")

    def _context(self, round: int, asked: bytes) -> bytes:
        return _context(self.session, round, self.state["roster"], asked)

    def _secret(self, *name: bytes | int) -> bytes:
        return derived(bytes.fromhex(self.state["master"]), self.session.id, *_names(name))

    def _seeds(self, round: int) -> list[bytes]:
        """The seed of the own mask, and the chain."""
        return [self._secret(b"self", round), *chain(self._secret(b"noise", round), self.session.dropouts)]

    def _bundles(self, peers: Sequence[int]) -> dict[int, bytes]:
        """For each peer, its shares of the pair key and of the seeds of every round, one after the other."""
        rest = self.session.threshold - 1
        bundles = {j: bytearray() for j in peers}
        for r in range(self.session.rounds):
            for k, secret in enumerate([self._secret(b"pair", r), *self._seeds(r)]):
                stream = keystream(self._secret(b"polynomial", r, k), 130 * max(rest, 1))
                parts = iter([stream[i : i + 130] for i in range(0, len(stream), 130)])
                value = int.from_bytes(secret, "little")
                shares = shamir.split(value, [j + 1 for j in peers], rest + 1, lambda _, parts=parts: next(parts))  # type: ignore[misc]
                for j in peers:
                    bundles[j] += shares[j + 1].to_bytes(shamir.SHARE_BYTES, "little")
        return {j: bytes(bundle) for j, bundle in bundles.items()}

    def _shares_of(self, j: int, round: int) -> list[str]:
        """This site's shares of site j's secrets in a round: pair key, own seed, chain. None where j sent nonsense."""
        bundle, each = bytes.fromhex(self.state["bundles"].get(str(j), "")), shamir.SHARE_BYTES
        secrets_ = 2 + self.session.dropouts
        if len(bundle) != each * secrets_ * self.session.rounds:
            return []
        start = each * secrets_ * round
        return [bundle[start + each * k : start + each * (k + 1)].hex() for k in range(secrets_)]

    def _box(self, sender: int, receiver: int) -> ChaCha20Poly1305:
        other = receiver if sender == self.index else sender
        shared = agreed(self._secret(b"channel"), self._announced[other]["channel"])
        return ChaCha20Poly1305(derived(shared, self.session.id, b"seal", *_names((sender, receiver))))

    def _seal(self, j: int, bundle: bytes) -> str:
        return self._box(self.index, j).encrypt(bytes(12), bundle, self.session.id).hex()  # a key for one message

    def _unseal(self, j: int, box: str) -> str:
        try:
            return self._box(j, self.index).decrypt(bytes(12), bytes.fromhex(box), self.session.id).hex()
        except (InvalidTag, TypeError, ValueError):
            return ""  # as if j had shared nothing with this site; the others' shares may do


def check_announcements(session: Session, announcements: Announcements) -> None:
    """Refuse unless enough sites announced, each under its own key and for this session."""
    if not set(announcements) <= set(range(len(session.sites))) or len(announcements) < session.threshold:
        raise FederationRefused(f"{len(announcements)} sites announced their keys; {session.threshold} are needed")
    for j, said in announcements.items():
        if not is_announcement(session, j, said):
            raise FederationRefused(f"the announcement of site {j} is not signed by its key for this session")


def is_announcement(session: Session, j: int, said: Any) -> bool:
    """Whether site j announced, for this session, all keys and commitments."""
    if not isinstance(said, Mapping):
        return False
    body = {name: value for name, value in said.items() if name != "signature"}
    mine = body.get("site") == j and body.get("session") == session.id.hex() and _complete(session, body)
    return mine and is_signed(session.sites[j], body, said.get("signature"), PROTOCOL)


def is_answer(session: Session, said: Any) -> bool:
    """Whether this has the form of what `Party.unmask` gives; what the shares are worth, `recovered` finds out."""
    if not isinstance(said, Mapping) or not isinstance(said.get("shares"), Mapping):
        return False
    given = [share for shares in said["shares"].values() for share in (shares if isinstance(shares, list) else [None])]
    return "asked" in said and "survivors" in said and all(_is_hex(share, shamir.SHARE_BYTES) for share in given)


def recovered(
    session: Session,
    round: int,
    asked: bytes,
    announcements: Announcements,
    roster: Sequence[int],
    masked: Mapping[int, np.ndarray],
    answers: Mapping[int, Mapping[str, Any]],
) -> tuple[np.ndarray, dict[int, bytes]]:
    """What the server learns: the sum over the sites in `masked` modulo 2^64, and of each the seed for this number of losses.

    Raises
    ------
    FederationRefused
        Where too few shares came or a secret they give is not the one committed to: the sum is exact or there is none.
    """
    alive = sorted(masked)
    agreeing = {i: a["shares"] for i, a in answers.items() if a["survivors"] == alive and a["asked"] == asked.hex()}
    if len(agreeing) < session.threshold:
        raise FederationRefused(f"{len(agreeing)} sites answered to the end; {session.threshold} are needed")
    lost = len(session.sites) - len(alive)
    context = _context(session, round, sorted(roster), asked)
    length = {len(vector) for vector in masked.values()}
    if len(length) != 1:
        raise FederationRefused("the masked vectors differ in length")
    (size,) = length
    total, seeds = np.zeros(size, dtype=np.uint64), {}
    for j in alive:
        commitments = announcements[j]["commitments"][round]
        total = total + masked[j] - mask(_joined(session, agreeing, j, 0, commitments[0]), size)
        if lost < session.dropouts:
            seeds[j] = _joined(session, agreeing, j, 1, commitments[1 + lost])
    for j in set(roster) - set(alive):
        secret = _joined(session, agreeing, j, 0, announcements[j]["keys"][round], _public)
        for i in alive:
            shared = agreed(secret, announcements[i]["keys"][round])
            total = total - _pair_mask(session, shared, context, i, j, size)
    return total.view(np.int64), seeds


def chain(first: bytes, length: int) -> list[bytes]:
    """Seeds of which each gives all later ones and none before: s, H(s), H(H(s)), …"""
    seeds = [first]
    while len(seeds) < length:
        seeds.append(hashlib.sha256(b"curvedp-chain/1" + seeds[-1]).digest())
    return seeds[:length]


def _joined(
    session: Session,
    answers: Mapping[int, Mapping[str, Any]],
    j: int,
    k: int,
    commitment: str,
    committed: Any = None,
) -> bytes:
    """Site j's secret from shares, if it is the one committed to."""
    shares: dict[int, int] = {}
    for i in sorted(answers):
        given = answers[i].get(str(j), [])
        if len(given) > k and len(shares) < session.threshold:
            shares[i + 1] = int.from_bytes(bytes.fromhex(given[k]), "little") % shamir.PRIME
    value = shamir.join(shares) if len(shares) == session.threshold else -1
    secret = value.to_bytes(32, "little") if 0 <= value < 2**256 else b""
    if len(secret) != 32 or (committed or _commitment)(secret) != commitment:
        raise FederationRefused("the shares of a site's secret do not give what it committed to")
    return secret


def _pair_mask(session: Session, shared: bytes, context: bytes, i: int, j: int, length: int) -> np.ndarray:
    """What site i adds for site j: the same words with either sign."""
    words = mask(derived(shared, session.id, context, *_names((min(i, j), max(i, j)))), length)
    return words if i < j else np.zeros_like(words) - words


def _context(session: Session, round: int, roster: Sequence[int], asked: bytes) -> bytes:
    return digest({"session": session.id.hex(), "round": round, "roster": list(roster), "asked": asked.hex()})


def _complete(session: Session, body: Mapping[str, Any]) -> bool:
    """Whether an announcement has a key and the commitments of every round."""
    keys, commitments = body.get("keys"), body.get("commitments")
    seeds = 1 + session.dropouts
    rows = isinstance(keys, list) and isinstance(commitments, list) and len(keys) == len(commitments) == session.rounds
    texts = (
        [
            body.get("channel"),
            *(keys or []),
            *(text for row in (commitments or []) if isinstance(row, list) for text in row),
        ]
        if rows
        else []
    )
    return (
        rows
        and all(isinstance(row, list) and len(row) == seeds for row in commitments or [])
        and all(_is_hex(text, 32) for text in texts)
    )


def _is_hex(text: Any, size: int) -> bool:
    try:
        return isinstance(text, str) and len(bytes.fromhex(text)) == size
    except ValueError:
        return False


def _public(secret: bytes) -> str:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()


def _commitment(seed: bytes) -> str:
    return hashlib.sha256(b"curvedp-commitment/1" + seed).hexdigest()


def _names(parts: Sequence[bytes | int]) -> list[bytes]:
    return [part if isinstance(part, bytes) else part.to_bytes(4, "little") for part in parts]
