"""Noise of an accelerator: the stream is ChaCha20's, and the normals are normal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy.stats import kstest, norm

import curvedp.optim._loop as loop
import curvedp.optim._randomness as randomness
from curvedp.geometry import Sphere
from curvedp.optim import LeadingEigenvectorProblem, dp_rsgd
from curvedp.optim._device_noise import _normals, chacha_normals, chacha_words
from curvedp.randomness import GeneratorSource, SecureSource


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def key_words(key: bytes) -> np.ndarray:
    return np.frombuffer(key, dtype="<u4")


def test_the_stream_is_that_of_another_implementation():
    rng = np.random.default_rng(0)
    for key in (bytes(range(32)), bytes(32), rng.bytes(32)):
        stream = (
            Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None)
            .encryptor()
            .update(bytes(64 * 300))
        )
        assert (
            np.asarray(chacha_words(key_words(key), 300)).astype("<u4").tobytes()
            == stream
        )


def test_the_words_become_normals_of_the_right_law():
    drawn = np.asarray(chacha_normals(key_words(bytes(range(32))), 400, 251)).ravel()
    assert drawn.dtype == np.float64
    assert kstest(drawn, norm.cdf).pvalue > 1e-4
    assert (
        kstest(np.abs(drawn), norm(scale=1.02).cdf).pvalue < 1e-6
    )  # the test has power
    assert abs(np.mean(drawn[:-1] * drawn[1:])) < 4 / np.sqrt(len(drawn))


def test_extreme_words_keep_the_tail_and_the_sign():
    words = jnp.asarray(np.array([0, 1, 2, 3, 2**64 - 1, 2**64 - 2], dtype=np.uint64))
    found = np.asarray(_normals(words))
    tail = norm.isf([0.5 * 2.0**-64, 1.5 * 2.0**-64])
    assert found[:4] == pytest.approx([tail[0], -tail[0], tail[1], -tail[1]], rel=1e-12)
    assert np.all(np.abs(found[4:]) < 1e-15)


def test_every_call_has_a_key_of_its_own_and_only_the_system_s_stream_is_drawn_there(
    monkeypatch,
):
    monkeypatch.setattr(randomness, "on_processor", lambda: False)
    random = randomness.Randomness(None)
    first, second = (np.asarray(random.normal(100, 785)) for _ in range(2))
    assert isinstance(random.normal(100, 785), jax.Array)
    assert not np.any(first == second)
    given = randomness.Randomness(GeneratorSource(np.random.default_rng(0)))
    assert isinstance(
        given.normal(100, 785), np.ndarray
    )  # a stream that is replayed stays one
    assert isinstance(
        randomness.Randomness(SecureSource()).normal(1, 3), np.ndarray
    )  # a few are not worth a program


def test_a_run_with_noise_of_the_device(monkeypatch):
    for module in (loop, randomness):
        monkeypatch.setattr(module, "on_processor", lambda: False)
    X = Sphere(785).project(np.random.default_rng(0).normal(size=(50, 786)))
    problem = LeadingEigenvectorProblem(786)
    result = dp_rsgd(
        problem,
        X,
        X[0],
        steps=40,
        batch_size=5,
        clip=1.0,
        learning_rate=0.1,
        noise=1e-2,
    )
    assert np.isfinite(result.point).all()
    assert "ChaCha20" in str(result.certificate.to_json())
