"""Building blocks for secure sums: sites add up vectors and nobody sees a single one.
`Session` holds the public terms that the sites (hospitals, say) and the server agree on
beforehand. The functions are key agreement, key derivation, key streams, hash chains
and Shamir's secret sharing; `masking.py` combines them into the protocol.
"""

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

# The name of the protocol: part of every signature of a message and of every key.
PROTOCOL = "curvedp-masked-sum/2"

# The field of the secret sharing: a Mersenne prime. Secrets have 256 bits, so they fit.
PRIME = 2**521 - 1

# The bytes of an element of the field: 521 bits, rounded up.
SHARE_BYTES = 66

# Random bytes for a coefficient: 1040 bits modulo PRIME are within 2^-518 of uniform.
COEFFICIENT_BYTES = 130

# Secrets, keys and hashes have 32 bytes.
_KEY_BYTES = 32

# ChaCha20 takes a nonce of 16 bytes. Each key is used once, so zeros will do.
_CHACHA_NONCE = bytes(16)

# Lengths and round numbers enter a derived key as this many bytes.
_LENGTH_BYTES = 4
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class Session:
    """The public terms of a few masked sums between the same sites (experimental).

    The protocol has not been reviewed by outside cryptographers.

    There must be more than 2·`dropouts` + `collusion` sites: then two sets of answers
    have an honest site in common, so that no server can have two sums unmasked in one
    round. And at least two honest sites must remain when `dropouts` sites are lost.

    Parameters
    ----------
    sites : sequence of str
        The Ed25519 public keys of the sites in hexadecimal, in an agreed order.
    dropouts : int
        How many sites may be lost, in any stage, before the run stops.
    collusion : int
        How many sites may tell the server everything that they know.
    rounds : int
        The number of sums that are formed.
    terms : str
        A hash of all else that the sites must agree on.

    Raises
    ------
    ParameterError
        If two sites have one key, or there are too few sites.
    """

    sites: Sequence[str]
    dropouts: int
    collusion: int
    rounds: int
    terms: str = ""

    def __post_init__(self) -> None:
        """Check that the terms can be met, and store the sites as a list.

        A site is a participant, named by its public key. `dropouts` is the number of
        sites that may be lost, `collusion` the number that may help the server to
        cheat.

        Raises
        ------
        ParameterError
            If a number is out of range, two sites have the same key, or there are too
            few sites for these numbers of lost and colluding sites.
        """
        object.__setattr__(self, "sites", list(self.sites))
        _validate.integer("dropouts", self.dropouts, 0)
        _validate.integer("collusion", self.collusion, 0)
        _validate.integer("rounds", self.rounds, 1)

        distinct_keys = {public_key(key).public_bytes_raw() for key in self.sites}
        if len(distinct_keys) < len(self.sites):
            raise ParameterError(
                "two sites have the same key; each site needs an identity of its own"
            )
        for_one_sum_per_round = 2 * self.dropouts + self.collusion + 1
        for_two_honest_sites = self.dropouts + self.collusion + 2
        min_sites = max(for_one_sum_per_round, for_two_honest_sites)
        if len(self.sites) < min_sites:
            raise ParameterError(
                f"{len(self.sites)} sites are too few for dropouts={self.dropouts} "
                f"and collusion={self.collusion}; {min_sites} are needed"
            )

    @property
    def threshold(self) -> int:
        """The number of sites that must answer to the end of a round.

        The same number of shares is needed to reconstruct a secret.
        """
        return len(self.sites) - self.dropouts

    @property
    def secrets(self) -> int:
        """The number of secrets that a site has in each round.

        They are a key for masks in common with other sites, the seed of its own mask,
        and one noise seed for each site that may be lost.
        """
        return 2 + self.dropouts

    @cached_property
    def id(self) -> bytes:
        """The SHA-256 hash of all terms, which identifies the session.

        Sites sign it together with their keys, and every derived key depends on it.
        """
        return digest(asdict(self))


def agree_on_secret(secret: bytes, public: str) -> bytes:
    """Return the secret that two parties share after a key exchange (X25519, RFC 7748).

    Both parties get the same 32 bytes: each combines its own private key with the
    other's public key. Nobody else can compute them.

    Parameters
    ----------
    secret : bytes
        The private key of one party, 32 bytes.
    public : str
        The public key of the other party, in hexadecimal.

    Returns
    -------
    bytes
        The shared secret, 32 bytes.

    Raises
    ------
    ValueError
        If the public key does not have 32 bytes, or is of small order.
    """
    public_key_of_other = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
    return X25519PrivateKey.from_private_bytes(secret).exchange(public_key_of_other)


def public_key_of(secret: bytes) -> str:
    """Return the public key (X25519) that belongs to a private key.

    Parameters
    ----------
    secret : bytes
        The private key, 32 bytes.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    private_key = X25519PrivateKey.from_private_bytes(secret)
    return private_key.public_key().public_bytes_raw().hex()


def derive_key(secret: bytes, *info: bytes | int) -> bytes:
    """Derive a key of 32 bytes from a secret (HKDF-SHA256, RFC 5869).

    Parameters
    ----------
    secret : bytes
        The secret.
    *info : bytes or int
        The purpose of the key, such as a name and the number of a round.
        Each part enters with its length, so that different purposes never give the
        same key.

    Returns
    -------
    bytes
        32 bytes, which look random to anyone without the secret.
    """
    parts = [PROTOCOL.encode()]
    for part in info:
        if isinstance(part, int):
            part = part.to_bytes(_NUMBER_BYTES, "little")
        parts.append(part)

    parts_with_lengths = [
        len(part).to_bytes(_LENGTH_BYTES, "little") + part for part in parts
    ]
    purpose = b"".join(parts_with_lengths)
    return HKDF(hashes.SHA256(), _KEY_BYTES, salt=None, info=purpose).derive(secret)


def keystream(key: bytes, size: int) -> bytes:
    """Return `size` pseudorandom bytes that a key determines (ChaCha20, RFC 8439).

    A key must be used only once, because it always gives the same bytes.

    Parameters
    ----------
    key : bytes
        The key, 32 bytes.
    size : int
        The number of bytes.
    """
    cipher = Cipher(algorithms.ChaCha20(key, _CHACHA_NONCE), mode=None)
    return cipher.encryptor().update(bytes(size))


def mask_words(key: bytes, length: int) -> np.ndarray:
    """Return the mask that a key determines: `length` pseudorandom 64-bit words.

    A site adds a mask to its vector, modulo 2^64, to hide the vector.

    Parameters
    ----------
    key : bytes
        The key of the mask, 32 bytes, used for nothing else.
    length : int
        The number of words.

    Returns
    -------
    array of uint64, shape (length,)
        The mask.
    """
    return np.frombuffer(keystream(key, 8 * length), dtype="<u8").astype(np.uint64)


def hash_chain(first_seed: bytes, length: int) -> list[bytes]:
    """Return the seeds s, H(s), H(H(s)), … of a hash chain, where H is SHA-256.

    Each seed determines all later ones, and reveals nothing about the earlier ones. So
    a site can reveal a part of its noise by revealing a single seed.

    Parameters
    ----------
    first_seed : bytes
        The first seed s.
    length : int
        The number of seeds.

    Returns
    -------
    list of bytes
        The seeds in order, 32 bytes each.
    """
    seeds = [first_seed]
    while len(seeds) < length:
        seeds.append(hashlib.sha256(b"curvedp-chain/1" + seeds[-1]).digest())
    return seeds[:length]


def split_secret(
    secret: int,
    points: Sequence[int],
    threshold: int,
    random_bytes: Callable[[int], bytes],
) -> dict[int, int]:
    """Split a secret into shares (Shamir 1979).

    The shares are the values of a random polynomial over the field of PRIME elements.
    Its degree is threshold − 1 and its value at 0 is the secret. Any `threshold` shares
    determine the secret (see `join_shares`); fewer reveal nothing about it.

    Parameters
    ----------
    secret : int
        The secret, an element of the field.
    points : sequence of int
        The points at which the polynomial is evaluated; distinct and not 0.
    threshold : int
        The number of shares that determine the secret.
    random_bytes : callable
        random_bytes(size) returns that many random bytes.

    Returns
    -------
    dict
        The share at each point.

    Raises
    ------
    ParameterError
        If the secret or a point is not usable, or there are too few points.
    """
    secret_is_in_field = 0 <= secret < PRIME
    has_enough_points = 1 <= threshold <= len(set(points))
    has_zero = 0 in (point % PRIME for point in points)
    if not secret_is_in_field or not has_enough_points or has_zero:
        raise ParameterError(
            "the secret must be an element of the field, and there must be at least "
            "`threshold` points, all of them distinct and not 0"
        )

    # The constant coefficient is the secret; the others are random.
    coefficients = [secret]
    for _ in range(threshold - 1):
        random_number = int.from_bytes(random_bytes(COEFFICIENT_BYTES), "little")
        coefficients.append(random_number % PRIME)
    return {point: _evaluate_polynomial(coefficients, point) for point in points}


def _evaluate_polynomial(coefficients: Sequence[int], point: int) -> int:
    """Return Σ_k coefficients[k]·point^k modulo PRIME.

    Parameters
    ----------
    coefficients : sequence of int
        The polynomial's coefficients, the constant one first.
    point : int
        The point at which the polynomial is evaluated.

    Returns
    -------
    int
        The value, from 0 to PRIME − 1.
    """
    terms = (
        coefficient * pow(point, power, PRIME)
        for power, coefficient in enumerate(coefficients)
    )
    return sum(terms) % PRIME


def join_shares(shares: Mapping[int, int]) -> int:
    """Return the secret from which `split_secret` made these shares.

    The shares are values of a polynomial modulo PRIME, and the secret is its value at
    0, which Lagrange's interpolation gives.

    Parameters
    ----------
    shares : mapping
        The share at each point, for exactly as many points as the threshold.

    Returns
    -------
    int
        The secret, an element of the field; a wrong number if a share was wrong.
    """
    weight_at = lagrange_weights(tuple(shares))
    return sum(weight * shares[point] for point, weight in weight_at.items()) % PRIME


def lagrange_weights(points: Sequence[int]) -> dict[int, int]:
    """Return the weight of each point in Lagrange's interpolation at 0, modulo PRIME.

    If a polynomial has degree below the number of points, its value at 0 is the sum of
    its values at the points times these weights. The weight of a point x is ∏ y/(y − x)
    over all other points y.

    Parameters
    ----------
    points : sequence of int
        The points, distinct and not 0.

    Returns
    -------
    dict
        The weight of each point, from 0 to PRIME − 1.
    """
    weight_at = {}
    for x in points:
        others = [y for y in points if y != x]
        inverse_denominator = pow(prod(y - x for y in others), -1, PRIME)
        weight_at[x] = prod(others) * inverse_denominator % PRIME
    return weight_at
