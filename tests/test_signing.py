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

from curvedp import verification
from curvedp.errors import ParameterError
from curvedp.signing import (
    canonical,
    is_signed,
    key_of,
    new_identity,
    public_key,
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


# ---- public keys that anybody can sign for


PRIME = 2**255 - 19
CURVE_D = -121665 * pow(121666, -1, PRIME) % PRIME
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
BASE_POINT_Y = 4 * pow(5, -1, PRIME) % PRIME


def _x_from_y(y):
    """A root x of −x² + y² = 1 + d x² y², or None where there is no such point."""
    square = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, PRIME) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    for x in (root, root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME):
        if x * x % PRIME == square:
            return x
    return None


def _add(first, second):
    """The sum of two points of edwards25519 (RFC 8032, section 5.1.4)."""
    (x1, y1), (x2, y2) = first, second
    both = CURVE_D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + both, -1, PRIME)
    y = (y1 * y2 + x1 * x2) * pow(1 - both, -1, PRIME)
    return x % PRIME, y % PRIME


def _times(number, point):
    total = (0, 1)
    for bit in bin(number)[2:]:
        total = _add(total, total)
        if bit == "1":
            total = _add(total, point)
    return total


def _torsion():
    """The eight points whose order divides 8: a point of order 8 and its multiples.

    [L]P has an order that divides 8 for every P; the first of order 8 generates them all.
    """
    for y in range(2, 100):
        x = _x_from_y(y)
        if x is None:
            continue
        generator = _times(GROUP_ORDER, (x, y))
        multiples = [_times(k, generator) for k in range(8)]
        if len(set(multiples)) == 8:
            return multiples
    raise AssertionError("no point of order 8")


def _spellings(x, y):
    """Every 32 bytes that decode to the point: y or y + p, and for x = 0 either sign."""
    signs = (0, 1) if x == 0 else (x % 2,)
    for number in (y, y + PRIME):
        for sign in signs:
            if number < 2**255:
                yield (number | sign << 255).to_bytes(32, "little").hex()


WEAK_KEYS = sorted({text for point in _torsion() for text in _spellings(*point)})
NOT_REDUCED = [
    (PRIME + k | sign << 255).to_bytes(32, "little").hex()
    for k in range(19)
    for sign in (0, 1)
]


def test_the_weak_keys_are_all_fourteen():
    """Four spellings of the identity, two of −1, two of each with y = 0, four of order 8."""
    assert len(WEAK_KEYS) == 14
    assert _times(GROUP_ORDER, (_x_from_y(BASE_POINT_Y), BASE_POINT_Y)) == (0, 1)


@pytest.mark.parametrize("key", [*WEAK_KEYS, *NOT_REDUCED])
def test_a_key_of_small_order_is_refused(key):
    with pytest.raises(ParameterError, match="anybody can sign"):
        public_key(key)
    identity = "01" + "00" * 31
    for point in (identity, key):  # (R, S) = (the point, 0) holds for one message in 8
        for number in range(16):
            assert not is_signed(key, {"number": number}, point + "00" * 32, "a")


@pytest.mark.parametrize("key", WEAK_KEYS)
def test_every_reader_of_a_public_key_refuses_a_weak_one(key, tmp_path):
    """`verify --key`, as text and as a file, and a site of a federated plan."""
    from curvedp.federated import MeanKernel, Plan
    from curvedp.geometry import Sphere
    from curvedp.mechanisms import GaussianMechanism
    from curvedp.privacy import GDP
    from curvedp.verification import verify_file

    mechanism = GaussianMechanism.calibrated(Sphere(2), 0.01, GDP(0.5))
    certificate = mechanism.release(Sphere(2).origin).certificate
    path, key_file = tmp_path / "certificate.json", tmp_path / "key.pub"
    certificate.save(path)
    signatures = {key: "01" + "00" * 63}
    schema = "curvedp-signature/1"
    (tmp_path / "certificate.json.sig").write_text(
        json.dumps({"schema": schema, "signatures": signatures})
    )
    key_file.write_text(key + "\n")
    for given in (key, key.upper(), str(key_file)):
        with pytest.raises(ParameterError, match="anybody can sign"):
            verify_file(path, public_key=given)

    sites = [key_of(new_identity()), key_of(new_identity()), key]
    with pytest.raises(ParameterError, match="anybody can sign"):
        Plan(MeanKernel(Sphere(2), 0.5), sites, [50, 50, 50], GDP(1.0))


def test_ordinary_keys_are_read():
    for _ in range(50):
        key = key_of(new_identity())
        assert public_key(key).public_bytes_raw().hex() == key


def test_no_file_stands_for_a_key_that_is_given_in_digits(tmp_path, monkeypatch):
    """A stranger's folder may hold a file whose name is the key that we trust."""
    trusted, other = (key_of(new_identity()) for _ in range(2))
    monkeypatch.chdir(tmp_path)
    (tmp_path / trusted).write_text(other)
    (tmp_path / "friend.pub").write_text(other)
    assert verification._parse_public_key(trusted) == trusted
    assert verification._parse_public_key(trusted.upper()) == trusted
    assert verification._parse_public_key("friend.pub") == other
