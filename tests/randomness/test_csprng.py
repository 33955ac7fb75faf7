import copy
import inspect
import math
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats
from scipy.special import ndtri

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.laws.exact import exact_gaussian
from curvedp.randomness import GeneratorSource, SecureSource, Source, csprng
from curvedp.randomness.csprng import check_source
from support.goodness import accepts, ks, rejects


def stream_of(source: SecureSource) -> csprng._KeyStream:
    """The stream of a source that one thread uses: the only way to see what is left of used bytes."""
    (stream,) = source._idle
    return stream


@pytest.fixture
def source() -> GeneratorSource:
    return GeneratorSource(np.random.default_rng(20))


def test_secure_source_takes_no_seed() -> None:
    assert not inspect.signature(SecureSource).parameters


def test_secure_sources_do_not_repeat_each_other_or_themselves() -> None:
    a, b = SecureSource(), SecureSource()
    blocks = [
        s.random_bytes(16) for s in (a, b) for _ in range(4000)
    ]  # 128 kB: eight keys
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_secure_source_cannot_be_duplicated(duplicate) -> None:
    with pytest.raises(TypeError, match="copied or pickled"):
        duplicate(SecureSource())


FORK = """
import os
from curvedp.randomness import SecureSource
from curvedp.randomness import csprng
{sabotage}
source = SecureSource()
source.random_bytes(5)
seen = []
for _ in range(3):
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, source.random_bytes(32))
        os._exit(0)
    seen.append(os.read(r, 32))
    os.wait()
seen.append(source.random_bytes(32))
print(len(set(seen)))
"""


@pytest.mark.parametrize(
    ("sabotage", "distinct"),
    [
        ("", "4"),
        # either guard alone is enough ...
        ("csprng._live_sources.add = lambda s: None", "4"),
        ("csprng.os.getpid = lambda: 1", "4"),
        # ... and without both the test sees the repeated bits
        (
            "csprng._live_sources.add = lambda s: None; csprng.os.getpid = lambda: 1",
            "1",
        ),
    ],
)
def test_forked_children_share_no_bits(sabotage: str, distinct: str) -> None:
    # In a fresh interpreter: the test process may hold threads that must not be forked.
    run = subprocess.run(
        [sys.executable, "-c", FORK.format(sabotage=sabotage)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == distinct


def test_stream_is_aes_256_in_counter_mode() -> None:
    source = SecureSource()
    source.random_bytes(0)
    key = bytes(stream_of(source).key)
    first = source.random_bytes(100)
    block = (
        Cipher(algorithms.AES(key), modes.CTR(bytes(16)))
        .encryptor()
        .update(bytes(1 << 14))
    )
    assert first == block[32:132]
    assert stream_of(source).key == block[:32]  # fast key erasure
    assert (
        stream_of(source).buffer == bytes(132) + block[132:]
    )  # used bytes and the key's are erased
    assert key.hex() not in repr(source)


def test_bytes_are_uniform() -> None:
    counts = np.bincount(
        np.frombuffer(SecureSource().random_bytes(1 << 20), dtype=np.uint8),
        minlength=256,
    )
    assert (
        stats.chisquare(counts).pvalue > 1e-9
    )  # fresh entropy each run: a false alarm once in 10^9 runs


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 200])
def test_bits_cover_their_range(source: GeneratorSource, n: int) -> None:
    draws = [source.bits(n) for _ in range(200)]
    assert all(0 <= k < 2**n for k in draws)
    if n:
        assert max(draws).bit_length() == n


@pytest.mark.parametrize("full", [False, True])
def test_uniform(source: GeneratorSource, full: bool) -> None:
    u = source.uniform(200_000, full_precision=full)
    assert 0 < u.min() < u.max() < 1
    assert accepts(ks(u, lambda x: x))
    assert rejects(ks(u**1.05, lambda x: x))


def test_full_precision_keeps_digits_in_the_left_tail(source: GeneratorSource) -> None:
    u = source.uniform(200_000, full_precision=True)
    small = u[u < 2.0**-10]
    assert np.any(np.ldexp(small, 52) % 1 != 0)  # finer than the 2^-52 lattice
    assert accepts(ks(small * 2.0**10, lambda x: x))
    coarse = source.uniform(200_000)
    assert not np.any(np.ldexp(coarse, 53) % 1 != 0)


def test_normal(source: GeneratorSource) -> None:
    z = source.normal(200_000)
    assert accepts(ks(z, stats.norm.cdf))
    assert rejects(ks(1.05 * z, stats.norm.cdf))
    assert accepts(
        stats.binomtest(
            int(np.sum(np.abs(z) > 3.5)), z.size, 2 * stats.norm.sf(3.5)
        ).pvalue
    )


def test_normal_reaches_beyond_what_53_bits_can() -> None:
    class Zeros(GeneratorSource):
        """Each uniform begins with 100 zero bits."""

        def _leading_zeros(self, shape):
            return np.full(shape, 100)

    z = Zeros(np.random.default_rng(1)).normal(1000)
    assert np.all(np.abs(z) > 11)
    assert np.all(np.isfinite(z))
    assert len(np.unique(np.abs(z))) == 1000


def test_sources_say_what_they_are(source: GeneratorSource) -> None:
    assert SecureSource().is_cryptographic
    assert not source.is_cryptographic
    assert "NOT private" in source.name
    with pytest.raises(ParameterError):
        GeneratorSource(7)  # a seed is not a generator


# ---- known bytes in, known numbers out


class Given(Source):
    """Hands out these bytes, in order."""

    name, is_cryptographic = "given", False

    def __init__(self, *words: int) -> None:
        self.left = b"".join(w.to_bytes(8, "little") for w in words)

    def random_bytes(self, n: int) -> bytes:
        out, self.left = self.left[:n], self.left[n:]
        assert len(out) == n
        return out


TOP = (1 << 64) - 1


def test_bits_and_words_are_the_bytes():
    assert Given(TOP).bits(5) == 31
    assert Given(0b10100000).bits(3) == 0b101
    assert Given(0x0180).bits(9) == 0b11
    assert Given(7).bits(0) == 0
    assert Given(1, 2, 3, 4).words((2, 2)).tolist() == [[1, 2], [3, 4]]
    assert Given(5).words(1).dtype == np.uint64
    assert Given().child().left == b""
    for bad in (-1, 1.5, "3"):
        with pytest.raises(ParameterError):
            Given(1).bits(bad)


def test_uniform_cells():
    assert Given(0, TOP, 1 << 63).uniform(3).tolist() == [
        2.0**-53,
        1 - 2.0**-53,
        0.5 + 2.0**-53,
    ]
    # cell 0, then a word that begins with k zeros: 2^-(k+1)·(1 + 2^-53)
    for k in (0, 1, 31, 32, 33, 63):
        assert Given(0, 1 << (63 - k)).uniform(1, full_precision=True)[0] == math.ldexp(
            1 + 2.0**-53, -1 - k
        )
        assert Given(0, TOP >> k).uniform(1, full_precision=True)[0] == math.ldexp(
            1 + 2.0**-53, -1 - k
        )
    # 64 zeros go on into the next word; only the open run takes it
    assert Given(0, 0, 0, TOP, 1 << 61).uniform(
        2, full_precision=True
    ).tolist() == pytest.approx([2.0**-67, 0.5])
    assert Given(TOP, TOP).uniform(1, full_precision=True)[0] == 1 - 2.0**-53


def test_normals_are_the_signed_lower_tail():
    u = math.ldexp(1 + 2.0**-53, -3)
    assert Given(0, 1 << 61, TOP).normal(1)[0] == ndtri(0.5 * u)
    assert Given(0, 1 << 61, TOP >> 1).normal(1)[0] == -ndtri(0.5 * u)


def test_stream_across_keys():
    """Any cutting of the stream reads it once: no byte is skipped, repeated, or taken from what became a key."""
    whole, cut = SecureSource(), SecureSource()
    for s in (whole, cut):
        s.random_bytes(0)
    stream_of(cut).key[:] = stream_of(whole).key
    sizes = [0, 1, 16_351, 1, 16_352, 5, 40_000, 3]  # 2^14 − 32 = 16352 bytes a key
    parts = b"".join(cut.random_bytes(n) for n in sizes)
    assert parts == whole.random_bytes(sum(sizes))
    assert len(parts) == sum(sizes)
    assert csprng.EPOCH_BYTES == 16_352
    assert csprng.EPOCH_DISTANCE == 2.0**-109


def test_a_new_process_number_is_a_new_key(monkeypatch):
    source = SecureSource()
    source.random_bytes(10)
    before = stream_of(source)
    monkeypatch.setattr("curvedp.randomness.csprng.os.getpid", lambda: -1)
    source.random_bytes(10)
    after = stream_of(source)
    assert after.pid == -1
    assert after.key != before.key
    source.random_bytes(10)
    assert stream_of(source) is after  # once only


# ---- what an image of the process, a signal, a snapshot or a thread gets


class Remembering(csprng._KeyStream):
    """Hands out the same bytes and does not erase them: the control."""

    def _take_from_epoch(self, n: int) -> bytes:
        start, self.used = self.used, self.used + n
        return bytes(self.buffer[start : self.used])


class Image(Source):
    """The bytes of a memory image, in order."""

    name, is_cryptographic = "image", False

    def __init__(self, image: bytes) -> None:
        self._image = image * 2

    def random_bytes(self, n: int) -> bytes:
        out, self._image = self._image[:n], self._image[n:]
        return out


@pytest.mark.parametrize(("kind", "found"), [(csprng._KeyStream, 0), (Remembering, 40)])
def test_an_image_of_a_reused_source_gives_no_earlier_noise_away(
    monkeypatch, kind, found
) -> None:
    monkeypatch.setattr(csprng, "_KeyStream", kind)
    source = SecureSource()
    used = [0]
    starts, draws = [], []
    original = SecureSource.random_bytes

    def counted(self, n):
        used[0] += n
        return original(self, n)

    monkeypatch.setattr(SecureSource, "random_bytes", counted)
    for _ in range(40):
        starts.append(used[0])
        draws.append(
            exact_gaussian(
                Euclidean(2), 1.0, [5.0, -5.0], source=source
            ).integers.tolist()
        )
    assert used[0] < csprng.EPOCH_BYTES  # all in one buffer
    image = bytes(stream_of(source).buffer)
    again = [
        exact_gaussian(
            Euclidean(2), 1.0, [5.0, -5.0], source=Image(image[32 + s :])
        ).integers
        for s in starts
    ]
    assert sum(a.tolist() == b for a, b in zip(again, draws, strict=True)) == found


class Shared(SecureSource):
    """One stream for every caller: the control."""

    def _take_stream(self):
        if not self._idle:
            self._idle.append(csprng._KeyStream())
        return self._idle[0]


def interrupt_everywhere(source: SecureSource) -> None:
    """Draw from the source at every instruction of its own code while it draws; no bytes may come twice."""
    chunks: list[bytes] = []

    def trace(frame, event, _):
        if frame.f_code.co_filename != csprng.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            sys.settrace(None)
            chunks.append(source.random_bytes(16))
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in range(200):
            chunks.append(source.random_bytes(16))
        long = source.random_bytes(40_000)
    finally:
        sys.settrace(before)
    chunks += [long[i : i + 16] for i in range(0, 40_000, 16)]
    assert len(chunks) > 5000
    assert len(set(chunks)) == len(chunks)
    assert bytes(16) not in chunks  # nobody is given what was erased


def test_a_signal_at_any_instruction_gets_bytes_of_its_own() -> None:
    interrupt_everywhere(SecureSource())
    with pytest.raises((AssertionError, BufferError)):
        interrupt_everywhere(Shared())


@pytest.mark.parametrize("mixes", [True, False])
def test_a_restored_snapshot_repeats_nothing_after_a_refresh(mixes: bool) -> None:
    source, clone = SecureSource(), SecureSource()
    for s in (source, clone):
        s.random_bytes(100)
    a, b = stream_of(source), stream_of(clone)
    b.key[:], b.buffer[:], b.used = a.key, a.buffer, a.used
    if mixes:
        for s in (source, clone):
            s.refresh()
    assert (source.random_bytes(64) == clone.random_bytes(64)) == (not mixes)


def test_refresh_keeps_what_the_old_key_had(monkeypatch) -> None:
    """Even from a system without entropy the new key differs from what the system gave, and the old bytes are gone."""
    source = SecureSource()
    source.random_bytes(100)
    stream = stream_of(source)
    key = bytes(stream.key)
    monkeypatch.setattr("curvedp.randomness.csprng.os.urandom", lambda n: b"\x0f" * n)
    source.refresh()
    assert stream_of(source) is stream
    assert bytes(stream.key) == bytes(k ^ 0x0F for k in key)
    assert not any(stream.buffer)
    GeneratorSource(np.random.default_rng(0)).refresh()  # has no key


def test_threads_share_a_source_and_no_bytes() -> None:
    source, chunks = SecureSource(), []

    def work() -> None:
        for _ in range(3000):
            chunks.append(source.random_bytes(16))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(set(chunks)) == len(chunks) == 12_000


@pytest.mark.parametrize(
    "wrong", [np.random.default_rng(0), 7, "os", b"", SecureSource, object()]
)
def test_what_is_not_a_source_is_refused(wrong) -> None:
    with pytest.raises(ParameterError, match="must be a SecureSource"):
        check_source(wrong)


def test_no_source_is_a_new_secure_one(source: GeneratorSource) -> None:
    assert check_source(source) is source
    assert isinstance(check_source(None), SecureSource)
    assert check_source(None) is not check_source(None)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_a_generator_s_bytes_are_its_own(kind):
    source, rng = (
        make(np.random.Generator(getattr(np.random, kind)(5)))
        for make in (GeneratorSource, lambda rng: rng)
    )
    sizes = (8, 4096, 16, 12, 0)
    assert [source.random_bytes(n) for n in sizes] == [rng.bytes(n) for n in sizes]
