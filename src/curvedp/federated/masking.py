"""A sum in Z_{2^64} of which nobody sees a summand, after Bonawitz et al. 2017; it knows no engine and no statistic.

Once per session the sites announce keys (signed) and send each other sealed shares of their secrets; then each round
takes two messages: masked vectors, and shares of what takes the masks off. Beyond the paper keys and seeds are per round,
pair masks depend on the roster and on what was asked, every secret is committed to, and each site keeps a chain of seeds,
of which the one for the number of lost sites is given with the rest (`noise.py`). docs/federation.md has the proof.
"""

import hashlib
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
from curvedp.federated import session as p
from curvedp.federated.session import (
    PROTOCOL,
    Session,
    agreed,
    derived,
    mask,
    public_half,
)
from curvedp.signing import digest, is_signed, key_of, signature

# What a site may tell the server of a refusal, and nothing else: a message could hold the
# site's budget, the names of its files or its true number of records.
REFUSALS = {
    "plan": "the site agreed to another plan",
    "clock": "the plan is not open by the site's clock",
    "declined": "the site will not take part",
    "protocol": "the request is not one that this protocol answers at this point",
    "certificate": "the certificate is not one that the site signs",
    "unavailable": "the site cannot answer, for reasons of its own",
}

_ONCE = ("announce", "share")  # stages of a session; the others come every round

Announcements = Mapping[int, Mapping[str, Any]]
Request = Mapping[str, Any]


def refusal_code(error: Exception) -> str:
    """Return what the server is told of an error at a site: one of `REFUSALS`.

    Parameters
    ----------
    error : Exception
        Whatever answering a request has raised.

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
    """One site's half of a session. Each method is one answer to the server, and raises `FederationRefused` where it would
    give away more than one sum a round.

    All it knows is in `state`, JSON values that stay at the site and from which the next `Party` goes on. In the folder
    `journal` each stage leaves a file before it is answered: where requests start processes, this keeps two of them from
    answering the same stage, since two vectors of a round would be two releases.
    """

    def __init__(
        self,
        session: Session,
        identity: Ed25519PrivateKey,
        state: dict[str, Any] | None = None,
        journal: Path | None = None,
    ) -> None:
        if key_of(identity) not in session.sites:
            raise ParameterError("this site's key is not among the session's")
        self.session, self.identity, self._journal = session, identity, journal
        self.index = session.sites.index(key_of(identity))
        fresh = {
            "session": asdict(session),
            "master": secrets.token_hex(32),
            "masked": {},
            "answered": [],
        }
        self.state: dict[str, Any] = fresh if state is None else state
        if self.state["session"] != asdict(session):
            raise ParameterError("this state is of another session")

    def answer(self, request: Request) -> dict[str, Any]:
        """The answer to one request of the server, JSON to JSON. It raises `FederationRefused`, `BudgetExceeded` or
        `ParameterError` where the site will not answer; to the server it is then a lost one."""
        try:
            stage, round = request["stage"], int(request.get("round", 0))
            answers = self._stages[stage]
            if self._journal is not None and stage != "sign":
                self._enter(
                    self._journal, stage if stage in _ONCE else f"{stage}-{round}"
                )
            return answers(request)
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
            raise FederationRefused(
                f"the request is not one of this protocol's ({type(error).__name__})"
            ) from None

    @property
    def _stages(self) -> dict[str, Callable[[Request], dict[str, Any]]]:
        """What can be answered without records."""
        return {
            "share": lambda asked: {
                "boxes": self.share(
                    {int(j): a for j, a in asked["announcements"].items()}
                )
            },
            "unmask": lambda asked: self.unmask(
                int(asked["round"]), [int(i) for i in asked["survivors"]]
            ),
        }

    def _enter(self, journal: Path, stage: str) -> None:
        """Refuse a stage that another process of this site has answered, or is answering."""
        try:
            (journal / f"{self.session.id.hex()[:32]}-{stage}").touch(exist_ok=False)
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
        """The channel's public key, and commitments to the secrets of every round, one after the other; signed."""
        said = [public_half(self._secret(b"channel"))]
        for r in range(self.session.rounds):
            said += [_committed(k, secret) for k, secret in enumerate(self._secrets(r))]
        body = {
            "session": self.session.id.hex(),
            "site": self.index,
            "keys": "".join(said),
        }
        return {**body, "signature": signature(self.identity, body, PROTOCOL)}

    def share(self, announcements: Announcements) -> dict[str, str]:
        """For every other site that announced its keys, shares of this one's secrets, sealed."""
        self._once("announcements")
        if (
            not set(announcements) <= set(range(len(self.session.sites)))
            or len(announcements) < self.session.threshold
        ):
            raise FederationRefused(
                f"{len(announcements)} sites announced; {self.session.threshold} are needed"
            )
        for j, said in announcements.items():
            if not is_announcement(self.session, j, said):
                raise FederationRefused(
                    f"the announcement of site {j} is not signed by its key for this session"
                )
        if announcements.get(self.index) != self.announce():
            raise FederationRefused(
                "the announcements hold another one under this site's name"
            )
        self.state["announcements"] = {
            str(j): dict(said) for j, said in announcements.items()
        }
        bundles = self._bundles(sorted(announcements))
        self.state["bundles"] = {str(self.index): bundles.pop(self.index).hex()}
        boxes = {
            j: self._box(self.index, j).encrypt(bytes(12), sealed, self.session.id)
            for j, sealed in bundles.items()
        }
        return {
            str(j): box.hex() for j, box in boxes.items()
        }  # each key seals one message

    def open(self, sealed: Mapping[int, str]) -> None:
        """Take the others' shares. Who sent them, and this site, are the roster of every round."""
        self._once("roster")
        roster = sorted({*sealed, self.index})
        if (
            not {str(j) for j in roster} <= set(self.state["announcements"])
            or len(roster) < self.session.threshold
        ):
            raise FederationRefused(
                f"{len(roster)} sites shared their secrets; {self.session.threshold} are needed"
            )
        opened = {
            str(j): self._unsealed(j, box)
            for j, box in sealed.items()
            if j != self.index
        }
        self.state["bundles"].update(opened)
        self.state["roster"] = roster

    # ---- every round ----

    def seed(self, round: int) -> bytes:
        """The first seed of this round's chain; `chain` gives the others."""
        return self._secrets(round)[2] if self.session.dropouts else b""

    def mask(self, round: int, asked: bytes, vector: np.ndarray) -> np.ndarray:
        """The masked vector, once a round; `asked` is a hash of what all sites were asked for."""
        self._check_round(round)
        if str(round) in self.state["masked"]:
            raise FederationRefused("this round has been answered")
        self.state["masked"][str(round)] = asked.hex()
        pair, own, *_ = self._secrets(round)
        masked = np.asarray(vector).astype(np.int64).view(np.uint64) + mask(
            own, len(vector)
        )
        context = _context(self.session, round, self.state["roster"], asked)
        for j in self.state["roster"]:
            if j != self.index:
                public = _said(
                    self.session, self.state["announcements"][str(j)], round, 0
                )
                masked = masked + _pair_mask(
                    pair, public, context, self.index, j, len(vector)
                )
        return np.asarray(masked)

    def unmask(self, round: int, survivors: Collection[int]) -> dict[str, Any]:
        """Shares that take the masks off the sum over `survivors`, once a round."""
        self._check_round(round)
        alive = set(survivors)
        if str(round) not in self.state["masked"] or round in self.state["answered"]:
            raise FederationRefused(
                "shares are given once a round, and after the masked vector"
            )
        if (
            self.index not in alive
            or not alive <= set(self.state["roster"])
            or len(alive) < self.session.threshold
        ):
            raise FederationRefused(
                f"a sum over {len(alive)} sites is not unmasked; {self.session.threshold} are needed"
            )
        self.state["answered"].append(round)
        lost, given = len(self.session.sites) - len(alive), {}
        for j in self.state["roster"]:
            shares = self._shares_of(j, round)
            given[str(j)] = (
                [*shares[1:2], *shares[2 + lost : 3 + lost]]
                if j in alive
                else shares[:1]
            )
        return {
            "asked": self.state["masked"][str(round)],
            "survivors": sorted(alive),
            "shares": given,
        }

    def _once(self, name: str) -> None:
        if name in self.state:
            raise FederationRefused("this stage has been answered")

    def _check_round(self, round: int) -> None:
        if "roster" not in self.state or round not in range(self.session.rounds):
            raise FederationRefused(
                "this round is not one of the session's, or its keys were never shared"
            )

    def _secret(self, *name: bytes | int) -> bytes:
        return derived(bytes.fromhex(self.state["master"]), self.session.id, *name)

    def _secrets(self, round: int) -> list[bytes]:
        """Pair key, seed of the own mask, chain."""
        rest = p.chain(self._secret(b"noise", round), self.session.dropouts)
        return [self._secret(b"pair", round), self._secret(b"self", round), *rest]

    def _bundles(self, peers: Sequence[int]) -> dict[int, bytes]:
        """For each peer, its shares of the secrets of every round, one after the other."""
        points, threshold, bundles = (
            [j + 1 for j in peers],
            self.session.threshold,
            dict.fromkeys(peers, b""),
        )
        for r in range(self.session.rounds):
            for k, secret in enumerate(self._secrets(r)):
                chance = BytesIO(
                    p.keystream(self._secret(b"polynomial", r, k), p.CHANCE * threshold)
                )
                shares = p.split(
                    int.from_bytes(secret, "little"), points, threshold, chance.read
                )
                for j in peers:
                    bundles[j] += shares[j + 1].to_bytes(p.SHARE_BYTES, "little")
        return bundles

    def _shares_of(self, j: int, round: int) -> list[str]:
        """This site's shares of site j's secrets in a round; none where j sent nonsense."""
        bundle, each, count = (
            self.state["bundles"].get(str(j), ""),
            2 * p.SHARE_BYTES,
            self.session.secrets,
        )
        if len(bundle) != each * count * self.session.rounds:
            return []
        return [
            bundle[each * k : each * (k + 1)]
            for k in range(count * round, count * (round + 1))
        ]

    def _box(self, sender: int, receiver: int) -> ChaCha20Poly1305:
        other = self.state["announcements"][
            str(receiver if sender == self.index else sender)
        ]
        shared = agreed(self._secret(b"channel"), other["keys"][:64])
        return ChaCha20Poly1305(
            derived(shared, self.session.id, b"seal", sender, receiver)
        )

    def _unsealed(self, j: int, box: str) -> str:
        try:
            return (
                self._box(j, self.index)
                .decrypt(bytes(12), bytes.fromhex(box), self.session.id)
                .hex()
            )
        except (InvalidTag, TypeError, ValueError):
            return ""  # as if j had shared nothing with this site; the others' shares may do


# ---- the server ----


def is_announcement(session: Session, j: int, said: Any) -> bool:
    """Whether site j announced, for this session, all keys and commitments."""
    if not isinstance(said, Mapping):
        return False
    body = {name: value for name, value in said.items() if name != "signature"}
    complete = _is_hex(body.get("keys"), 32 * (1 + session.rounds * session.secrets))
    mine = (
        complete and body.get("site") == j and body.get("session") == session.id.hex()
    )
    if not (
        mine and is_signed(session.sites[j], body, said.get("signature"), PROTOCOL)
    ):
        return False
    return all(
        map(
            _is_key,
            [
                body["keys"][:64],
                *(_said(session, said, r, 0) for r in range(session.rounds)),
            ],
        )
    )


def _is_key(public: str) -> bool:
    """Whether others can agree on a secret with it. One of small order would fail them when they mask, and have paid."""
    try:
        return bool(agreed(bytes(32), public))  # any secret tells
    except ValueError:
        return False


def recovered(
    session: Session,
    round: int,
    asked: bytes,
    announcements: Announcements,
    roster: Sequence[int],
    masked: Mapping[int, np.ndarray],
    answers: Mapping[int, Any],
) -> tuple[np.ndarray, dict[int, bytes]]:
    """What the server learns: the sum over the sites in `masked` modulo 2^64, and of each the seed for this number of losses.

    It raises `FederationRefused` where too few shares came or a secret they give is not the one committed to: the sum is
    exact or there is none.
    """
    alive, told = sorted(masked), asked.hex()
    agreeing = {i: a["shares"] for i, a in answers.items() if _agrees(a, alive, told)}
    if len(agreeing) < session.threshold:
        raise FederationRefused(
            f"{len(agreeing)} sites answered to the end; {session.threshold} are needed"
        )
    if len({len(vector) for vector in masked.values()}) != 1:
        raise FederationRefused("the masked vectors differ in length")
    lost, size = len(session.sites) - len(alive), len(masked[alive[0]])
    context = _context(session, round, roster, asked)

    def joined(j: int, k: int, place: int) -> bytes:
        """Site j's k-th secret, from the shares that stand at `place`, if it is the one committed to."""
        given = [
            (i + 1, _share(agreeing[i].get(str(j)), place)) for i in sorted(agreeing)
        ]
        shares = dict(
            [(x, share) for x, share in given if share is not None][: session.threshold]
        )
        value = p.join(shares) if len(shares) == session.threshold else -1
        secret = value.to_bytes(32, "little") if 0 <= value < 2**256 else b""
        if not secret or _committed(k, secret) != _said(
            session, announcements[j], round, k
        ):
            raise FederationRefused(
                "the shares of a site's secret do not give what it committed to"
            )
        return secret

    total = np.sum(
        [masked[j] - mask(joined(j, 1, 0), size) for j in alive],
        axis=0,
        dtype=np.uint64,
    )
    for j in set(roster) - set(alive):
        secret = joined(j, 0, 0)
        for i in alive:
            total = total - _pair_mask(
                secret, _said(session, announcements[i], round, 0), context, i, j, size
            )
    seeds = (
        {j: joined(j, 2 + lost, 1) for j in alive} if lost < session.dropouts else {}
    )
    return np.asarray(total).view(np.int64), seeds


def _agrees(answer: Any, alive: list[int], asked: str) -> bool:
    same = (
        isinstance(answer, Mapping)
        and answer.get("survivors") == alive
        and answer.get("asked") == asked
    )
    return same and isinstance(answer.get("shares"), Mapping)


def _share(given: Any, place: int) -> int | None:
    """A share of a site's answer; None where there is none."""
    if (
        not isinstance(given, list)
        or len(given) <= place
        or not _is_hex(given[place], p.SHARE_BYTES)
    ):
        return None
    return int.from_bytes(bytes.fromhex(given[place]), "little") % p.PRIME


# ---- what both sides compute ----


def _pair_mask(
    secret: bytes, public: str, context: bytes, i: int, j: int, length: int
) -> np.ndarray:
    """What site i adds for site j: the same words with either sign."""
    words = mask(derived(agreed(secret, public), context, min(i, j), max(i, j)), length)
    return words if i < j else np.zeros_like(words) - words


def _context(
    session: Session, round: int, roster: Sequence[int], asked: bytes
) -> bytes:
    return digest(
        {
            "session": session.id.hex(),
            "round": round,
            "roster": sorted(roster),
            "asked": asked.hex(),
        }
    )


def _committed(k: int, secret: bytes) -> str:
    """The public half of a pair key, the hash of a seed."""
    return (
        hashlib.sha256(b"curvedp-commitment/1" + secret).hexdigest()
        if k
        else public_half(secret)
    )


def _said(session: Session, announcement: Mapping[str, Any], round: int, k: int) -> str:
    """A site's commitment to the k-th secret of a round."""
    place = 64 * (1 + round * session.secrets + k)
    return str(announcement["keys"][place : place + 64])


def _is_hex(text: Any, size: int) -> bool:
    try:
        return (
            isinstance(text, str)
            and len(text) == 2 * size
            and len(bytes.fromhex(text)) == size
        )
    except ValueError:
        return False
