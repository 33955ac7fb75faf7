"""Masks and announcements of secure sums: what sites and server both compute.
Each pair of sites (hospitals, say) has a common mask, which one adds to its vector and
the other subtracts. A site *announces* its public keys and commitments to its secrets,
signed; `curvedp.federated.masking` explains the protocol.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curvedp.federated.session import (
    PROTOCOL,
    Session,
    agree_on_secret,
    derive_key,
    mask_words,
    public_key_of,
)
from curvedp.signing import digest, is_signed

Announcements = Mapping[int, Mapping[str, Any]]

# A site has several secrets in a round. Their places in the list of its secrets: the
# private key for masks that it shares with another site, the seed of the mask of its
# own, and from NOISE_CHAIN on the chain of noise seeds.
PAIR_KEY = 0
OWN_MASK = 1
NOISE_CHAIN = 2

# Keys, commitments and hashes have 32 bytes: 64 hexadecimal digits.
KEY_BYTES = 32
KEY_DIGITS = 64


def is_announcement(session: Session, site: int, announcement: Any) -> bool:
    """Return whether a value is a complete announcement that a site has signed.

    An announcement holds a site's public keys and the commitments to its secrets. The
    server and all sites call this for what they receive, before they use a key.

    Parameters
    ----------
    session : Session
        The public terms.
    site : int
        The index of the site under whose name the value arrived.
    announcement : object
        The value that arrived, which may be anything.

    Returns
    -------
    bool
        Whether it names session and site, holds all keys and commitments, has a valid
        signature, and all its keys can be used.
    """
    if not isinstance(announcement, Mapping):
        return False
    body = dict(announcement)
    signature_of_body = body.pop("signature", None)
    key_count = 1 + session.rounds * session.secrets
    if not is_hex(body.get("keys"), KEY_BYTES * key_count):
        return False
    if body.get("site") != site or body.get("session") != session.id.hex():
        return False
    if not is_signed(session.sites[site], body, signature_of_body, PROTOCOL):
        return False

    # Keys that cannot be used would make other sites fail in the middle of a round.
    channel_key = body["keys"][:KEY_DIGITS]
    pair_keys = [
        announced_commitment(session, announcement, round, PAIR_KEY)
        for round in range(session.rounds)
    ]
    return all(_is_usable_key(key) for key in [channel_key, *pair_keys])


def _is_usable_key(public: str) -> bool:
    """Return whether a public key (X25519) can be used to agree on a secret.

    With a key of small order the agreement fails for every private key. A site that
    announced one would make the others fail in the middle of a round, after they have
    charged their ledgers.

    Parameters
    ----------
    public : str
        The public key in hexadecimal.

    Returns
    -------
    bool
        False also for a key of the wrong length.
    """
    any_private_key = bytes(32)
    try:
        return bool(agree_on_secret(any_private_key, public))
    except ValueError:
        return False


def pair_mask(
    secret: bytes, public: str, context: bytes, adder: int, other: int, length: int
) -> np.ndarray:
    """Return the mask that a site adds to its vector on account of one other site.

    The two masks of a pair of sites cancel in the sum: the site with the lower index
    adds pseudorandom words, and the other one subtracts the same words.

    Parameters
    ----------
    secret, public : bytes and str
        The private key of one of the two sites and the public key of the other; either
        combination gives the same words.
    context : bytes
        A hash of the circumstances of the round, from `mask_context`.
    adder, other : int
        The site that adds the mask, and the other site.
    length : int
        The number of words.

    Returns
    -------
    array of uint64, shape (length,)
        The words to add, modulo 2^64.
    """
    shared_secret = agree_on_secret(secret, public)
    lower, higher = sorted((adder, other))
    words = mask_words(derive_key(shared_secret, context, lower, higher), length)
    if adder < other:
        return words
    return np.asarray(np.zeros_like(words) - words)


def mask_context(
    session: Session, round: int, roster: Sequence[int], question_hash: bytes
) -> bytes:
    """Return a hash of everything on which two sites must agree so that masks cancel.

    The masks that two sites have in common are computed from it. If the server tells
    them different things, the masks do not cancel and the sum is useless.

    Parameters
    ----------
    session : Session
        The public terms.
    round : int
        The number of the round.
    roster : sequence of int
        The sites that shared their secrets.
    question_hash : bytes
        A hash of the question that the sites were asked.

    Returns
    -------
    bytes
        32 bytes, from which pair masks are derived.
    """
    return digest(
        {
            "session": session.id.hex(),
            "round": round,
            "roster": sorted(roster),
            "asked": question_hash.hex(),
        }
    )


def commitment_to(place: int, secret: bytes) -> str:
    """Return the public commitment to a site's secret, in hexadecimal digits.

    A commitment reveals nothing about the secret, but shows later whether it was
    replaced. For the private key of a site's pair masks it is the public key, which the
    other sites need. For any other secret it is a SHA-256 hash.

    Parameters
    ----------
    place : int
        Which secret it is: its place in the list of the site's secrets.
    secret : bytes
        The secret.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    if place == PAIR_KEY:
        return public_key_of(secret)
    return hashlib.sha256(b"curvedp-commitment/1" + secret).hexdigest()


def announced_commitment(
    session: Session, announcement: Mapping[str, Any], round: int, place: int
) -> str:
    """Return a site's commitment to one of its secrets, read from its announcement.

    The "keys" of an announcement are one string of hexadecimal digits. A public key for
    encrypted messages comes first, then the commitments, round by round.

    Parameters
    ----------
    session : Session
        The public terms.
    announcement : mapping
        The site's announcement.
    round : int
        The number of the round.
    place : int
        Which secret it is: its place in the list of the site's secrets.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    start = KEY_DIGITS * (1 + round * session.secrets + place)
    return str(announcement["keys"][start : start + KEY_DIGITS])


def is_hex(text: Any, size: int) -> bool:
    """Return whether a value is a string of hexadecimal digits for `size` bytes.

    Parameters
    ----------
    text : object
        Any JSON value.
    size : int
        The number of bytes.

    Returns
    -------
    bool
        Whether it is, with exactly two digits for each byte.
    """
    if not isinstance(text, str) or len(text) != 2 * size:
        return False
    try:
        return len(bytes.fromhex(text)) == size
    except ValueError:
        return False
