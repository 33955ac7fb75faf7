import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from curvedp.entropy import GeneratorSource, SecureSource
from curvedp.errors import ParameterError
from goodness import accepts, ks, rejects


@pytest.fixture
def source() -> GeneratorSource:
    return GeneratorSource(np.random.default_rng(20))


def test_secure_source_takes_no_seed() -> None:
    assert not inspect.signature(SecureSource).parameters


def test_secure_sources_do_not_repeat_each_other_or_themselves() -> None:
    a, b = SecureSource(), SecureSource()
    blocks = [s.random_bytes(16) for s in (a, b) for _ in range(4000)]  # 128 kB: eight keys
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_secure_source_cannot_be_duplicated(duplicate) -> None:
    with pytest.raises(TypeError, match="copied or pickled"):
        duplicate(SecureSource())


FORK = """
import os
from curvedp.entropy import SecureSource
from curvedp.entropy import csprng
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
        ("csprng._live_sources.add = lambda s: None; csprng.os.getpid = lambda: 1", "1"),
    ],
)
def test_forked_children_share_no_bits(sabotage: str, distinct: str) -> None:
    # In a fresh interpreter: the test process may hold threads that must not be forked.
    run = subprocess.run(
        [sys.executable, "-c", FORK.format(sabotage=sabotage)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == distinct


def test_stream_is_aes_256_in_counter_mode() -> None:
    source = SecureSource()
    key = source._key
    first = source.random_bytes(100)
    block = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(1 << 14))
    assert first == block[32:132]
    assert source._key == block[:32]  # fast key erasure
    assert key.hex() not in repr(source)


def test_bytes_are_uniform() -> None:
    counts = np.bincount(np.frombuffer(SecureSource().random_bytes(1 << 20), dtype=np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-9  # fresh entropy each run: a false alarm once in 10^9 runs


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
    assert accepts(stats.binomtest(int(np.sum(np.abs(z) > 3.5)), z.size, 2 * stats.norm.sf(3.5)).pvalue)


def test_normal_reaches_beyond_what_53_bits_can() -> None:
    class Zeros(GeneratorSource):
        """Each uniform begins with 100 zero bits."""

        def _leading_zeros(self, shape):
            return np.full(shape, 100)

    z = Zeros(np.random.default_rng(1)).normal(1000)
    assert np.all(np.abs(z) > 11)
    assert np.all(np.isfinite(z))
    assert len(np.unique(np.abs(z))) == 1000


def test_numpy_generator_is_driven_by_the_source(source: GeneratorSource) -> None:
    generator = source.numpy_generator()
    assert accepts(ks(generator.standard_normal(50_000), stats.norm.cdf))
    assert accepts(ks(generator.random(50_000), lambda x: x))
    again = GeneratorSource(np.random.default_rng(20)).numpy_generator()
    assert again.standard_normal() == GeneratorSource(np.random.default_rng(20)).numpy_generator().standard_normal()
    secure = [SecureSource().numpy_generator().integers(0, 2**63) for _ in range(3)]
    assert len(set(secure)) == 3


def test_sources_say_what_they_are(source: GeneratorSource) -> None:
    assert SecureSource().is_cryptographic
    assert not source.is_cryptographic
    assert "NOT private" in source.name
    with pytest.raises(ParameterError):
        GeneratorSource(7)  # a seed is not a generator


def test_switching_distance_counts_keys() -> None:
    source = SecureSource()
    for _ in range(5):
        source.random_bytes(20_000)
    used = 100_000 / (2**14 - 32)
    assert source.switching_distance >= used * (2.0**10) ** 2 / 2.0**129
    assert source.switching_distance < 2 * (used + 1) * 2.0**-109
