"""Ed25519 signatures of JSON values, and the canonical spelling that they need.
The same JSON value can be written in many ways, but a hash or signature needs one
spelling: the canonical one (RFC 8785). Certificates and messages between sites are
hashed and signed here. A hash finds an accidental change; only a signature ties a
certificate to the holder of a key.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
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

# How many bytes of a private key's file are read: a key in PEM has about 120.
_LONGEST_KEY_FILE = 1 << 14

# ECMAScript writes a number without an exponent if it is less than 10^21 and at least
# 10^-6.
_MAX_DIGITS_BEFORE_POINT = 21
_MAX_ZEROS_AFTER_POINT = 6

# Ed25519 (RFC 8032): the field's prime, and the second coordinates y of the eight
# points whose order divides 8. These are 1 (the identity), −1 (order 2), 0 (order 4,
# twice) and ±y₈ (order 8, twice each); a test finds them again by the curve's own
# addition.
_FIELD_PRIME = 2**255 - 19
_ORDER_EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset(
    (0, 1, _FIELD_PRIME - 1, _ORDER_EIGHT, _FIELD_PRIME - _ORDER_EIGHT),
)


# ---- one spelling ----


def canonical(value: Any) -> bytes:
    r"""Return a JSON value as bytes in canonical spelling (RFC 8785).

    Equal values give equal bytes, so that they can be hashed and signed.

    Whole numbers beyond 2^53 are an exception: RFC 8785 rounds them, and here they are
    written in full.

    Parameters
    ----------
    value : JSON value
        None, a bool, an int, a float, a str, a list or tuple of such values, or a
        mapping from str to such values.

    Returns
    -------
    bytes
        The text in UTF-8.

    Raises
    ------
    ParameterError
        For a value that has no such spelling: NaN, an infinity, a key or a value of
        another type, half of a surrogate pair, and values that are nested too deeply.

    Examples
    --------
    >>> canonical({"b": [1.0, 1e-7, "é"], "a": None})
    b'{"a":null,"b":[1,1e-7,"\xc3\xa9"]}'
    """
    try:
        return _canonical_text(value).encode()
    except UnicodeEncodeError:
        raise ParameterError("half of a surrogate pair is not text") from None
    except ParameterError:
        raise
    except (RecursionError, ValueError):
        raise ParameterError(
            "the value is nested too deeply, or a whole number has too many digits"
        ) from None


def digest(value: Any) -> bytes:
    """Return the SHA-256 hash of a JSON value in canonical spelling.

    Parameters
    ----------
    value : JSON value
        Such as the fields of a certificate.

    Returns
    -------
    bytes
        32 bytes.
    """
    return hashlib.sha256(canonical(value)).digest()


def _canonical_text(value: Any) -> str:
    """Return a JSON value as text in canonical spelling (RFC 8785).

    There are no spaces, and the members of an object are sorted by name.

    Parameters
    ----------
    value : JSON value
        The value, or a part of it: the function calls itself for the parts.

    Returns
    -------
    str
        The text, from which equal values have the same bytes.

    Raises
    ------
    ParameterError
        If the value is no JSON value.
    """
    if isinstance(value, str):
        return json.encoder.encode_basestring(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _canonical_number(float(value))
    if isinstance(value, list | tuple):
        return _canonical_list(value)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        members = [
            f"{_canonical_text(name)}:{_canonical_text(value[name])}"
            for name in sorted(value, key=_utf16_order)
        ]
        return "{" + ",".join(members) + "}"
    raise ParameterError(f"a {type(value).__name__} is not a JSON value")


def _canonical_list(items: Sequence[Any]) -> str:
    """Return a list of JSON values as text in canonical spelling.

    Parameters
    ----------
    items : list or tuple
        The values.
    """
    # Released integers are most of a long certificate, and need no further look. A bool
    # is an int too, but is spelled differently.
    has_only_integers = set(map(type, items)) == {int}
    if has_only_integers:
        texts = [str(item) for item in items]
    else:
        texts = [_canonical_text(item) for item in items]
    return "[" + ",".join(texts) + "]"


def _utf16_order(name: str) -> bytes:
    """Return a key by which RFC 8785 sorts names: their UTF-16 code units.

    Parameters
    ----------
    name : str
        The name of a member of an object.
    """
    return name.encode("utf-16-be", "surrogatepass")


def _canonical_number(value: float) -> str:
    """Return a float as ECMAScript writes it, such as "1e-7" for 1e-07.

    The text has the fewest digits that read back as the same float, and an exponent if
    the number is at least 1e21 or less than 1e-6.

    Parameters
    ----------
    value : float
        A finite number; whether it is negative zero does not matter.

    Returns
    -------
    str
        Such as "1.5", "0" or "1e+21".

    Raises
    ------
    ParameterError
        If the number is NaN or infinite.
    """
    if not isfinite(value):
        raise ParameterError("NaN and infinities are not JSON numbers")
    python_text = repr(value)
    if value and "e" not in python_text:
        # From 1e-4 to 1e16 Python writes the same, but for a ".0" at the end.
        return python_text.removesuffix(".0")

    is_negative, figures, exponent = Decimal(python_text).as_tuple()
    digits = "".join(map(str, figures)).rstrip("0")
    if not digits:
        return "0"
    text = _place_decimal_point(digits, before_point=len(figures) + int(exponent))
    return f"-{text}" if is_negative else text


def _place_decimal_point(digits: str, before_point: int) -> str:
    """Write the number 0.digits · 10^before_point by the rules of ECMAScript.

    Parameters
    ----------
    digits : str
        The significant digits, without zeros at either end.
    before_point : int
        How many digits come before the decimal point; negative for zeros after it.

    Returns
    -------
    str
        Such as "1500", "0.015" or "1.5e+21".
    """
    if len(digits) <= before_point <= _MAX_DIGITS_BEFORE_POINT:
        return digits.ljust(before_point, "0")
    if 0 < before_point <= _MAX_DIGITS_BEFORE_POINT:
        return f"{digits[:before_point]}.{digits[before_point:]}"
    if -_MAX_ZEROS_AFTER_POINT < before_point <= 0:
        return "0." + "0" * -before_point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{before_point - 1:+d}"


# ---- keys ----


def new_identity() -> Ed25519PrivateKey:
    """Return a new private key.

    Its public half (`key_of`) is what others know its holder by.
    """
    return Ed25519PrivateKey.generate()


def key_of(identity: Ed25519PrivateKey) -> str:
    """Return the public half of a private key in hexadecimal.

    Parameters
    ----------
    identity : Ed25519PrivateKey
        The private key.

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

    Returns
    -------
    Ed25519PublicKey
        The key, for which somebody may hold a private one.

    Raises
    ------
    ParameterError
        If the text is not a key, or if anyone can sign for the key: it is a point of
        small order, or is not written as RFC 8032 (section 5.1.3) asks.

    Notes
    -----
    A signature (R, S) of the message m verifies if [S]B = R + [k]A with k = H(R, A, m).
    Here B is a fixed point of the curve and A the public key. If A has order 1, the
    pair (R, S) = (identity, 0) verifies for every message; if it has order 2, 4 or 8,
    for one message in so many. Nobody holds such a key.
    """
    try:
        raw = bytes.fromhex(text)
        key = Ed25519PublicKey.from_public_bytes(raw)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{_validate.shown(text)} is not a public key (`curvedp key` writes .pub)"
        ) from None

    # The last bit is the sign of the first coordinate.
    y = int.from_bytes(raw, "little") % 2**255
    if y >= _FIELD_PRIME or y in _SMALL_ORDER:
        raise ParameterError(
            f"{_validate.shown(text)} is nobody's public key: anybody can sign for it"
        )
    return key


def write_key(path: str | Path, identity: Ed25519PrivateKey) -> None:
    """Write a private key in PEM to a new file that only its owner can read.

    Parameters
    ----------
    path : str or Path
        The file. One that exists is refused and not touched.
    identity : Ed25519PrivateKey
        The key.

    Raises
    ------
    ParameterError
        If the file exists.
    """
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
    """Read a private key from a PEM file that only its owner can read.

    Parameters
    ----------
    path : str or Path
        The file, which must have no password.

    Returns
    -------
    Ed25519PrivateKey
        The key, with which certificates and ledger entries are signed.

    Raises
    ------
    ParameterError
        If others than the file's owner may read it, or if it does not hold an Ed25519
        key without a password.
    """
    with Path(path).open("rb") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            raise ParameterError(
                f"others may read the private key {path}; chmod 600 {path}"
            )
        text = file.read(_LONGEST_KEY_FILE)
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
    """Sign a JSON value for one purpose, and return the signature.

    Parameters
    ----------
    identity : Ed25519PrivateKey
        The private key of the signer.
    message : JSON value
        The value to sign, in its canonical spelling.
    purpose : str
        What the signature is for. A signature for one purpose is invalid for any other.

    Returns
    -------
    str
        The Ed25519 signature (RFC 8032) in hexadecimal.
    """
    return identity.sign(_signed_bytes(message, purpose)).hex()


def is_signed(key: str, message: Any, sign: Any, purpose: str) -> bool:
    """Return whether the holder of a key signed a message for a purpose.

    Parameters
    ----------
    key : str
        The public key in hexadecimal.
    message : JSON value
        What should be signed.
    sign : str
        The signature, as `signature` returns it. Any other value is not a signature.
    purpose : str
        What it should be signed for.

    Returns
    -------
    bool
        False for anything that is not a valid signature of this message.
    """
    try:
        signature_bytes = bytes.fromhex(sign)
        public_key(key).verify(signature_bytes, _signed_bytes(message, purpose))
    except (InvalidSignature, ParameterError, TypeError, ValueError):
        return False
    return True


def _signed_bytes(message: Any, purpose: str) -> bytes:
    """Return the bytes to sign: the purpose, a line end, and the canonical JSON.

    The purpose keeps a signature of one kind of message from passing as one of another
    kind with the same fields.

    Parameters
    ----------
    message : JSON value
        The value that is signed.
    purpose : str
        Such as the schema of certificates.
    """
    return purpose.encode() + b"\n" + canonical(message)
