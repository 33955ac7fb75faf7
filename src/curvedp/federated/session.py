"""What the parties of a masked sum agree on beforehand, and the cryptographic primitives they use."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.signing import digest, public_key

__all__ = ["PROTOCOL", "Session", "agreed", "derived", "keystream", "mask"]

PROTOCOL = "curvedp-masked-sum/1"  # what the sites' signatures of messages are for


@dataclass(frozen=True)
class Session:
    """The public terms of a few masked sums between the same sites.

    Any `sites` − `dropouts` of them must answer to the end; that number is also the threshold of the secret sharing.

    Parameters
    ----------
    sites : tuple of str
        The sites' Ed25519 public keys in hexadecimal, in an agreed order.
    dropouts : int
        How many sites may be lost, in any stage, before the run stops.
    collusion : int
        How many sites may tell the server everything they know.
    rounds : int
        How many sums are formed.
    terms : str
        A hash of all else the sites must agree on.

    Raises
    ------
    ParameterError
        Where keys repeat, or where there are too few sites: `sites` > 2·`dropouts` + `collusion` makes two sets of honest
        answers meet, so that no server can have two sums unmasked in one round, and at least two honest sites must stay.
    """

    sites: tuple[str, ...]
    dropouts: int
    collusion: int
    rounds: int
    terms: str = ""

    def __post_init__(self) -> None:
        _validate.integer("dropouts", self.dropouts, 0)
        _validate.integer("collusion", self.collusion, 0)
        _validate.integer("rounds", self.rounds, 1)
        if len({public_key(key).public_bytes_raw() for key in self.sites}) < len(self.sites):
            raise ParameterError("two sites have the same key; each site needs an identity of its own")
        needed = max(2 * self.dropouts + self.collusion + 1, self.dropouts + self.collusion + 2)
        if len(self.sites) < needed:
            raise ParameterError(
                f"{len(self.sites)} sites are too few for dropouts={self.dropouts} and collusion={self.collusion}; "
                f"{needed} are needed"
            )

    @property
    def threshold(self) -> int:
        """The sites that must answer to the end, and the shares that give a secret back."""
        return len(self.sites) - self.dropouts

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of all terms: signed with every key, and part of every derived key."""
        return digest(vars_of(self))


def vars_of(session: Session) -> dict[str, Any]:
    """The terms as JSON values."""
    return {name: getattr(session, name) for name in ("sites", "dropouts", "collusion", "rounds", "terms")}


def derived(secret: bytes, *info: bytes, size: int = 32) -> bytes:
    """HKDF-SHA256 (RFC 5869), each part of `info` with its length, so that no two calls share a key."""
    parts = b"".join(len(part).to_bytes(4, "little") + part for part in (PROTOCOL.encode(), *info))
    return HKDF(hashes.SHA256(), size, salt=None, info=parts).derive(secret)


def agreed(secret: bytes, public: str) -> bytes:
    """X25519 (RFC 7748); a public key of small order is refused by the primitive."""
    return X25519PrivateKey.from_private_bytes(secret).exchange(
        X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    )


def keystream(key: bytes, size: int) -> bytes:
    """ChaCha20 (RFC 8439) under a key that serves once."""
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


def mask(key: bytes, length: int) -> np.ndarray:
    """`length` words of Z_{2^64}."""
    return np.frombuffer(keystream(key, 8 * length), dtype="<u8").astype(np.uint64)
