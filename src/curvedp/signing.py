"""JSON in one spelling, and Ed25519 signatures over it: what holds a certificate together and says who stands behind it.

A digest finds a change that somebody made without care; whoever makes one on purpose takes the digest again. Only a
signature ties a certificate to the holder of a key.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from curvedp import _validate
from curvedp.errors import ParameterError

_MOST_BYTES = 1 << 14  # of a key's file

# Ed25519 (RFC 8032): the field's prime, and the second coordinates y of the eight points
# whose order divides 8. These are 1 (the identity), −1 (order 2), 0 (order 4, twice) and
# ±y₈ (order 8, twice each); a test finds them again by the curve's own addition.
_PRIME = 2**255 - 19
_ORDER_EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset(
    (0, 1, _PRIME - 1, _ORDER_EIGHT, _PRIME - _ORDER_EIGHT),
)


# ---- one spelling ----


def canonical(value: Any) -> bytes:
    """JSON as RFC 8785 writes it, but for whole numbers beyond 2^53, which that rounds and which stand here in full. What has
    no such spelling is refused: NaN, an infinity, a key or a value that is not of JSON.

    Examples
    --------
    >>> canonical({"b": [1.0, 1e-7, "é"], "a": None})
    b'{"a":null,"b":[1,1e-7,"\\xc3\\xa9"]}'
    """
    try:
        return _spelled(value).encode()
    except UnicodeEncodeError:
        raise ParameterError("half of a surrogate pair is not text") from None
    except ParameterError:
        raise
    except (RecursionError, ValueError):
        raise ParameterError(
            "a value nested so deeply, or a whole number of so many digits, is refused"
        ) from None


def digest(value: Any) -> bytes:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value)).digest()


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return json.encoder.encode_basestring(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_spelled, value)) + "]"
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        names = sorted(
            value, key=lambda name: name.encode("utf-16-be", "surrogatepass")
        )
        return (
            "{"
            + ",".join(f"{_spelled(name)}:{_spelled(value[name])}" for name in names)
            + "}"
        )
    raise ParameterError(f"a {type(value).__name__} is not a JSON value")


def _number(value: float) -> str:
    """A double as ECMAScript writes it: the fewest digits that read back, with an exponent from 1e21 and below 1e-6."""
    if not isfinite(value):
        raise ParameterError("NaN and infinities are not JSON numbers")
    if value and "e" not in (
        text := repr(value)
    ):  # from 1e-4 to 1e16 the two spell alike, but for ".0"
        return text.removesuffix(".0")
    minus, figures, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, figures)).rstrip("0")
    if not digits:
        return "0"
    point = len(figures) + int(exponent)  # digits before the decimal point
    if len(digits) <= point <= 21:
        text = digits.ljust(point, "0")
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return ("-" if minus else "") + text


# ---- keys ----


def new_identity() -> Ed25519PrivateKey:
    """A new key; its public half (`key_of`) is what others know its holder by."""
    return Ed25519PrivateKey.generate()


def key_of(identity: Ed25519PrivateKey) -> str:
    """The public key in hexadecimal.

    Parameters
    ----------
    identity : Ed25519PrivateKey
        Whose public half is wanted.

    Examples
    --------
    >>> len(key_of(new_identity()))
    64
    """
    return identity.public_key().public_bytes_raw().hex()


def public_key(text: Any) -> Ed25519PublicKey:
    """Read an Ed25519 public key from hexadecimal.

    Parameters
    ----------
    text : str
        64 hexadecimal digits, as `key_of` writes them.

    Raises
    ------
    ParameterError
        For anything that is not such a text, and for a key that anybody can sign for: a
        point of small order, or one that is not written as RFC 8032 (section 5.1.3) asks.

    Notes
    -----
    A signature (R, S) of the message m verifies if [S]B = R + [k]A with k = H(R, A, m). For a
    public key A of order 1 the pair (R, S) = (identity, 0) verifies for every message, and
    for one of order 2, 4 or 8 it does for one message in so many. Nobody holds such a key.
    """
    try:
        raw = bytes.fromhex(text)
        key = Ed25519PublicKey.from_public_bytes(raw)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{_validate.shown(text)} is not a public key (`curvedp key` writes .pub)"
        ) from None

    y = int.from_bytes(raw, "little") % 2**255  # the last bit is the sign of x
    if y >= _PRIME or y in _SMALL_ORDER:
        raise ParameterError(
            f"{_validate.shown(text)} is no one's public key: anybody can sign for it"
        )
    return key


def write_key(path: str | Path, identity: Ed25519PrivateKey) -> None:
    """The private key in a file of its own (PEM, mode 0600); one that exists is not touched."""
    text = identity.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError(f"{path} exists; a key is never overwritten") from None
    with os.fdopen(handle, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_key(path: str | Path) -> Ed25519PrivateKey:
    """The private key of a PEM file; refused if it is not an Ed25519 key without a password, or others may read it."""
    with Path(path).open("rb") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            raise ParameterError(
                f"others may read the private key {path}; chmod 600 {path}"
            )
        text = file.read(_MOST_BYTES)
    try:
        identity = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ParameterError(
            f"{path} is not a private key in PEM without a password"
        ) from None
    if not isinstance(identity, Ed25519PrivateKey):
        raise ParameterError(f"{path} is not an Ed25519 key")
    return identity


# ---- signatures ----


def signature(identity: Ed25519PrivateKey, message: Any, purpose: str) -> str:
    """Ed25519 (RFC 8032) over the canonical JSON, in hexadecimal; what is signed for one purpose serves no other."""
    return identity.sign(_signed(message, purpose)).hex()


def is_signed(key: str, message: Any, sign: Any, purpose: str) -> bool:
    """Whether the holder of the key signed the message for this purpose."""
    try:
        public_key(key).verify(bytes.fromhex(sign), _signed(message, purpose))
    except (InvalidSignature, ParameterError, TypeError, ValueError):
        return False
    return True


def _signed(message: Any, purpose: str) -> bytes:
    return purpose.encode() + b"\n" + canonical(message)
