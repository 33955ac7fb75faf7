"""What the parties of a masked sum agree on beforehand, and its cryptographic pieces: keys, streams, chains, shares."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.signing import digest, public_key

PROTOCOL = "curvedp-masked-sum/2"  # what the sites' signatures of messages are for
PRIME = 2**521 - 1  # a Mersenne prime; secrets of 256 bits fit with room
SHARE_BYTES = 66
CHANCE = (
    130  # bytes for a coefficient: 1040 bits modulo 521 are within 2^-518 of uniform
)


@dataclass(frozen=True)
class Session:
    """The public terms of a few masked sums between the same sites.

    Two sites with one key are refused, and too few sites: `sites` > 2·`dropouts` + `collusion` makes two sets of honest
    answers meet, so that no server can have two sums unmasked in one round, and at least two honest sites must stay.
    """

    sites: Sequence[str]  # their Ed25519 public keys in hexadecimal, in an agreed order
    dropouts: int  # how many may be lost, in any stage, before the run stops
    collusion: int  # how many may tell the server everything they know
    rounds: int  # sums that are formed
    terms: str = ""  # a hash of all else the sites must agree on

    def __post_init__(self) -> None:
        object.__setattr__(self, "sites", list(self.sites))
        for name, least in (("dropouts", 0), ("collusion", 0), ("rounds", 1)):
            _validate.integer(name, getattr(self, name), least)
        if len({public_key(key).public_bytes_raw() for key in self.sites}) < len(
            self.sites
        ):
            raise ParameterError(
                "two sites have the same key; each site needs an identity of its own"
            )
        needed = max(
            2 * self.dropouts + self.collusion + 1, self.dropouts + self.collusion + 2
        )
        if len(self.sites) < needed:
            raise ParameterError(
                f"{len(self.sites)} sites are too few for dropouts={self.dropouts} and collusion={self.collusion}; "
                f"{needed} are needed"
            )

    @property
    def threshold(self) -> int:
        """The sites that must answer to the end, and the shares that give a secret back."""
        return len(self.sites) - self.dropouts

    @property
    def secrets(self) -> int:
        """Of a site in a round: its pair key, the seed of its own mask, and the chain."""
        return 2 + self.dropouts

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of all terms: signed with every key, and part of every derived key."""
        return digest(asdict(self))


def agreed(secret: bytes, public: str) -> bytes:
    """X25519 (RFC 7748); a public key of small order is refused by the primitive."""
    other = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    return X25519PrivateKey.from_private_bytes(secret).exchange(other)


def public_half(secret: bytes) -> str:
    """The X25519 public key, in hexadecimal."""
    return (
        X25519PrivateKey.from_private_bytes(secret)
        .public_key()
        .public_bytes_raw()
        .hex()
    )


def derived(secret: bytes, *info: bytes | int) -> bytes:
    """32 bytes by HKDF-SHA256 (RFC 5869), each part of `info` with its length, so that no two calls share a key."""
    parts = [
        PROTOCOL.encode(),
        *(
            part if isinstance(part, bytes) else part.to_bytes(8, "little")
            for part in info
        ),
    ]
    named = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    return HKDF(hashes.SHA256(), 32, salt=None, info=named).derive(secret)


def keystream(key: bytes, size: int) -> bytes:
    """ChaCha20 (RFC 8439) under a key that serves once."""
    return (
        Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None)
        .encryptor()
        .update(bytes(size))
    )


def mask(key: bytes, length: int) -> np.ndarray:
    """`length` words of Z_{2^64}."""
    return np.frombuffer(keystream(key, 8 * length), dtype="<u8").astype(np.uint64)


def chain(first: bytes, length: int) -> list[bytes]:
    """Seeds of which each gives all later ones and none before: s, H(s), H(H(s)), …"""
    seeds = [first]
    while len(seeds) < length:
        seeds.append(hashlib.sha256(b"curvedp-chain/1" + seeds[-1]).digest())
    return seeds[:length]


def split(
    secret: int,
    points: Sequence[int],
    threshold: int,
    random_bytes: Callable[[int], bytes],
) -> dict[int, int]:
    """Shares of `secret` at distinct non-zero points of the field: any `threshold` determine it, fewer say nothing about it
    (Shamir 1979)."""
    if (
        not 0 <= secret < PRIME
        or not 1 <= threshold <= len(set(points))
        or 0 in (x % PRIME for x in points)
    ):
        raise ParameterError(
            "a secret lies in the field; its points are distinct, not 0, and at least a threshold"
        )
    higher = [
        int.from_bytes(random_bytes(CHANCE), "little") % PRIME
        for _ in range(threshold - 1)
    ]
    return {
        x: sum(c * pow(x, k, PRIME) for k, c in enumerate([secret, *higher])) % PRIME
        for x in points
    }


def join(shares: Mapping[int, int]) -> int:
    """The secret that shares at their points determine: Lagrange's interpolation at 0."""
    return (
        sum(weight * shares[x] for x, weight in weights(tuple(shares)).items()) % PRIME
    )


def weights(points: Sequence[int]) -> dict[int, int]:
    """Lagrange's weights at 0: ∏_{y≠x} y/(y − x)."""
    others = {x: [y for y in points if y != x] for x in points}
    return {
        x: prod(ys) * pow(prod(y - x for y in ys), -1, PRIME) % PRIME
        for x, ys in others.items()
    }
