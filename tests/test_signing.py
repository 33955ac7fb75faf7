"""One spelling of JSON, keys and signatures."""

import json
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from curvedp.errors import ParameterError
from curvedp.signing import (
    canonical,
    is_signed,
    key_of,
    new_identity,
    read_key,
    signature,
    write_key,
)

# RFC 8785, appendix B: the bits of a double and how it is written
NUMBERS = """
0000000000000000 0
8000000000000000 0
0000000000000001 5e-324
8000000000000001 -5e-324
7fefffffffffffff 1.7976931348623157e+308
ffefffffffffffff -1.7976931348623157e+308
4340000000000000 9007199254740992
c340000000000000 -9007199254740992
4430000000000000 295147905179352830000
44b52d02c7e14af5 9.999999999999997e+22
44b52d02c7e14af6 1e+23
44b52d02c7e14af7 1.0000000000000001e+23
444b1ae4d6e2ef4e 999999999999999700000
444b1ae4d6e2ef4f 999999999999999900000
444b1ae4d6e2ef50 1e+21
3eb0c6f7a0b5ed8c 9.999999999999997e-7
3eb0c6f7a0b5ed8d 0.000001
41b3de4355555553 333333333.3333332
41b3de4355555554 333333333.33333325
41b3de4355555555 333333333.3333333
41b3de4355555556 333333333.3333334
41b3de4355555557 333333333.33333343
becbf647612f3696 -0.0000033333333333333333
43143ff3c1cb0959 1424953923781206.2
"""


def test_numbers_as_in_the_standard():
    for line in NUMBERS.split("\n")[1:-1]:
        bits, text = line.split()
        assert canonical(struct.unpack(">d", bytes.fromhex(bits))[0]) == text.encode()


def test_keys_and_texts_as_in_the_standard():
    """RFC 8785, sections 3.2.2 and 3.2.3: order by UTF-16 units, only what must be is escaped."""
    keys = {
        "\u20ac": 1,
        "\r": 2,
        "\ufb33": 3,
        "1": 4,
        "\U0001f600": 5,
        "\u0080": 6,
        "\u00f6": 7,
    }
    assert [*json.loads(canonical(keys))] == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f"
    assert canonical(text).decode() == r'''"€$\u000f\nA'B\"\\\\\"/"'''
    assert canonical([True, None, (2**70,)]) == b"[true,null,[1180591620717411303424]]"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1: 2}, {1, 2}, "\ud800", {"\ud800": 1}, b"x", 1j],
)
def test_what_has_no_spelling_is_refused(value):
    with pytest.raises(ParameterError):
        canonical({"a": [value]})


def test_a_signature_is_of_one_message_key_and_purpose():
    mine, other = new_identity(), new_identity()
    message = {"mu": 1.0, "n": 40}
    sign = signature(mine, message, "a")
    assert is_signed(key_of(mine), {"n": 40, "mu": 1}, sign, "a")
    assert not is_signed(key_of(other), message, sign, "a")
    assert not is_signed(key_of(mine), message, sign, "b")
    assert not is_signed(key_of(mine), {"mu": 1.0000000000000002, "n": 40}, sign, "a")
    for bad in (None, "", "zz", sign[:-2], 3, sign[:-1] + "g", float("nan")):
        assert not is_signed(key_of(mine), message, bad, "a")
        assert not is_signed(bad, message, sign, "a")
    assert not is_signed(key_of(mine), {"mu": float("nan")}, sign, "a")


def test_private_keys_are_for_their_owner(tmp_path):
    mine, path = new_identity(), tmp_path / "key.pem"
    write_key(path, mine)
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_of(read_key(path)) == key_of(mine)
    with pytest.raises(ParameterError, match="never overwritten"):
        write_key(path, new_identity())
    path.chmod(0o644)
    with pytest.raises(ParameterError, match="chmod 600"):
        read_key(path)


def test_files_that_are_no_key(tmp_path):
    path = tmp_path / "key.pem"
    curve = generate_private_key(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for content in (
        b"",
        b"\xff\x00",
        b"-----BEGIN PRIVATE KEY-----",
        b"a" * 100_000,
        curve,
    ):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ParameterError) as caught:
            read_key(path)
        assert "\n" not in str(caught.value)
