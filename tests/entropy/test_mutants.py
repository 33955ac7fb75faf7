"""Small tests that mutants of the random source and of the exact path's doors die by: known bytes in, known numbers out."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from curvedp.entropy import SecureSource
from curvedp.entropy.csprng import GeneratorSource, Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, Product, SPDLogEuclidean, Sphere, Stiefel
from curvedp.laws.exact import exact_gaussian, exact_laplace, exact_log_gaussian
from curvedp.laws.exact.draw import ExactDraw


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
    assert Given(0, TOP, 1 << 63).uniform(3).tolist() == [2.0**-53, 1 - 2.0**-53, 0.5 + 2.0**-53]
    # cell 0, then a word that begins with k zeros: 2^-(k+1)·(1 + 2^-53)
    for k in (0, 1, 31, 32, 33, 63):
        assert Given(0, 1 << (63 - k)).uniform(1, full_precision=True)[0] == math.ldexp(1 + 2.0**-53, -1 - k)
        assert Given(0, TOP >> k).uniform(1, full_precision=True)[0] == math.ldexp(1 + 2.0**-53, -1 - k)
    # 64 zeros go on into the next word; only the open run takes it
    assert Given(0, 0, 0, TOP, 1 << 61).uniform(2, full_precision=True).tolist() == pytest.approx([2.0**-67, 0.5])
    assert Given(TOP, TOP).uniform(1, full_precision=True)[0] == 1 - 2.0**-53


def test_normals_are_the_signed_lower_tail():
    u = math.ldexp(1 + 2.0**-53, -3)
    assert Given(0, 1 << 61, TOP).normal(1)[0] == ndtri(0.5 * u)
    assert Given(0, 1 << 61, TOP >> 1).normal(1)[0] == -ndtri(0.5 * u)


def test_generator_reads_whole_words():
    assert Given(0xDEADBEEF12345678).numpy_generator().bit_generator.capsule is not None
    draws = GeneratorSource(np.random.default_rng(3)).numpy_generator().random(2000)
    assert 0 <= draws.min() < 0.01
    assert 0.99 < draws.max() < 1
    words = np.frombuffer(GeneratorSource(np.random.default_rng(4)).random_bytes(8), "<u8")
    assert GeneratorSource(np.random.default_rng(4)).numpy_generator().random() == (int(words[0]) >> 11) * 2.0**-53


def test_stream_across_keys():
    """Any cutting of the stream reads it once: no byte is skipped, repeated, or taken from what became a key."""
    whole, cut = SecureSource(), SecureSource()
    cut._key = whole._key
    sizes = [0, 1, 16_351, 1, 16_352, 5, 40_000, 3]  # 2^14 − 32 = 16352 bytes a key
    parts = b"".join(cut.random_bytes(n) for n in sizes)
    assert parts == whole.random_bytes(sum(sizes))
    assert len(parts) == sum(sizes)
    epochs = math.ceil(sum(sizes) / 16_352)
    assert whole.switching_distance == cut.switching_distance == epochs * 2.0**-109
    assert SecureSource().switching_distance == 0.0
    assert SecureSource.epoch_distance == 2.0**-109


def test_a_new_process_number_is_a_new_key(monkeypatch):
    source = SecureSource()
    source.random_bytes(10)
    key = source._key
    monkeypatch.setattr("curvedp.entropy.csprng.os.getpid", lambda: -1)
    source.random_bytes(10)
    assert source._pid == -1
    assert source._key != key
    kept = source._buffer
    source.random_bytes(10)
    assert source._buffer is kept  # once only


# ---- exact.py


def source():
    return GeneratorSource(np.random.default_rng(5))


@pytest.mark.parametrize("draw", [exact_gaussian, exact_laplace])
@pytest.mark.parametrize(
    ("space", "center"),
    [
        (Euclidean(2), [0.25, -3.0]),
        (Sphere(2), [0.6, 0.0, 0.8]),
        (Lorentz(2), [1.25, 0.75, 0.0]),
        (PoincareBall(2), [0.5, 0.0]),
    ],
)
def test_tiny_noise_stays_at_the_centre(draw, space, center):
    found = draw(space, 1e-12, center, source=source(), grid=20)
    assert found.integers.tolist() == [round(c * 2**20) for c in center]
    assert found.value.tolist() == [round(c * 2**20) / 2**20 for c in center]
    assert found.grid == 20
    assert found.tau == 0.0
    assert draw(space, 0.1, center).tau >= 2.0**-109


def test_products_and_charts_go_back_to_points():
    space = Product(Sphere(1), SPDLogEuclidean(2), Euclidean(1))
    center = space.join([np.array([0.0, 1.0]), np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([4.0])])
    found = exact_gaussian(space, 1e-12, center, source=source(), grid=40)
    assert found.integers.shape == (2 + 3 + 1,)
    np.testing.assert_allclose(found.point, center, atol=1e-9)
    chart = exact_log_gaussian(Stiefel(3, 2), 1e-12, np.eye(3, 2), [0.1, 0.2, -0.3], source=source(), grid=40)
    frame = Stiefel(3, 2)
    expected = frame.exp(np.eye(3, 2), frame.from_coordinates(np.eye(3, 2), np.array([0.1, 0.2, -0.3])))
    np.testing.assert_allclose(chart.point, expected, atol=1e-9)
    pair, step = Product(Sphere(2), Euclidean(1)), np.array([0.1, 0.2, -0.3])
    moved = exact_log_gaussian(pair, 1e-12, pair.origin, step, source=source(), grid=40)
    np.testing.assert_allclose(moved.point, pair.exp(pair.origin, pair.from_coordinates(pair.origin, step)), atol=1e-9)
    assert ExactDraw(np.array([3, -5], dtype=object), 1, 0.0, Euclidean(2)).value.tolist() == [1.5, -2.5]


def test_many_coordinates_have_the_same_law_as_one():
    """The filter in floats settles most of 400 coordinates; the sum of squares is χ²."""
    found = exact_gaussian(Euclidean(400), 2.0, np.full(400, 7.0), source=source()).value
    assert 300 < np.sum(((found - 7) / 2) ** 2) < 510
    fine = exact_gaussian(Euclidean(3), 2.0, np.zeros(3), source=source(), grid=200)
    assert max(abs(int(k)) for k in fine.integers).bit_length() > 190


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0], grid=201),
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0], grid=0),
        lambda: exact_gaussian(Euclidean(1), 1e-291, [0.0]),
        lambda: exact_gaussian(Euclidean(1), 1e291, [0.0]),
        lambda: exact_gaussian(Lorentz(2), 1e13, [1.0, 0.0, 0.0]),
        lambda: exact_gaussian(Euclidean(1), 1.0, [math.nan]),
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0, 1.0]),
        lambda: exact_gaussian(Sphere(2), 1.0, [0.0, 0.0, 0.0]),
        lambda: exact_gaussian(PoincareBall(2), 1.0, [1.0, 0.0]),
        lambda: exact_gaussian(Product(Euclidean(1), PoincareBall(1)), 1.0, [0.0, 1.5]),
        lambda: exact_gaussian("S2", 1.0, [0.0]),
        lambda: exact_gaussian(Euclidean(1), 1.0, [0.0], source=np.random.default_rng(0)),
        lambda: exact_gaussian(Stiefel(3, 2), 1.0, np.eye(3, 2)),
        lambda: exact_laplace(SPDLogEuclidean(2), 1.0, np.eye(2)),
    ],
)
def test_what_has_no_exact_draw_is_refused(call):
    with pytest.raises(ParameterError):
        call()
