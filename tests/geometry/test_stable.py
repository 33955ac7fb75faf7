"""Elementary functions against 50 digits."""

import os

import mpmath as mp
import numpy as np
import pytest

from curvedp.numerics import elementary as stable
from curvedp.numerics import error_free

X = np.concatenate(
    [[0.0], np.geomspace(1e-300, 30, 200), np.geomspace(9e-4, 1.1e-3, 50)]
)


def exact(f, limit, x):
    with mp.workdps(50):
        # the function receives x², rounded: so does the oracle
        root = mp.sqrt(mp.mpf(float(x)))
        return f(root) if root else mp.mpf(limit)


@pytest.mark.parametrize(
    ("actual", "oracle", "limit"),
    [
        (lambda s: stable.cos_sinc(np, s)[0], mp.cos, 1),
        (lambda s: stable.cos_sinc(np, s)[1], lambda x: mp.sin(x) / x, 1),
        (lambda s: stable.cosh_sinhc(np, s)[0], mp.cosh, 1),
        (lambda s: stable.cosh_sinhc(np, s)[1], lambda x: mp.sinh(x) / x, 1),
        (lambda s: stable.tanhc(np, s), lambda x: mp.tanh(x) / x, 1),
        (
            lambda s: stable.versine_quotient(np, s),
            lambda x: 2 * (mp.sin(x / 2) / x) ** 2,
            0.5,
        ),
    ],
    ids=["cos", "sinc", "cosh", "sinhc", "tanhc", "versine"],
)
def test_functions_of_the_square_against_mpmath(actual, oracle, limit):
    square = X**2
    values = actual(square)
    for s, value in zip(square, values, strict=True):
        truth = exact(oracle, limit, s)
        # trigonometric zeros are simple, so an absolute error of x·u is all that any evaluation can promise there
        assert abs(value - float(truth)) <= 4e-16 * max(
            abs(float(truth)), np.sqrt(s), 1e-300
        )


def test_norm_neither_overflows_nor_underflows():
    for scale in (1e-320, 1e-200, 1.0, 1e200, 1e307):
        few_digits = scale < 1e-308  # subnormal
        length = stable.euclidean_norm(np, scale * np.array([3.0, 4.0]))
        np.testing.assert_allclose(
            length, 5 * scale, rtol=1e-2 if few_digits else 1e-15
        )
    assert stable.euclidean_norm(np, np.zeros(3)) == 0
    assert np.isnan(stable.euclidean_norm(np, np.array([1.0, np.nan])))
    assert stable.euclidean_norm(np, np.array([1.0, np.inf])) == np.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_error_free_transformations_are_exact(dtype):
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(size=2000) * 10.0 ** rng.integers(-8, 8, size=2000) for _ in range(2)
    )
    a, b = a.astype(dtype), b.astype(dtype)
    for x, y, (high, low), operation in [
        (a, b, error_free.two_sum(a, b), lambda x, y: x + y),
        (a, b, error_free.two_product(np, a, b), lambda x, y: x * y),
    ]:
        assert high.dtype == low.dtype == dtype
        with mp.workdps(60):
            for i in range(0, 2000, 7):
                unevaluated = mp.mpf(float(high[i])) + mp.mpf(float(low[i]))
                assert unevaluated == operation(
                    mp.mpf(float(x[i])), mp.mpf(float(y[i]))
                )


@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-9, 1e-12, 1e-15])
def test_one_minus_square(n, gap):
    rng = np.random.default_rng(n)
    w = rng.normal(size=(20, n))
    w *= (1 - gap) / np.linalg.norm(w, axis=-1, keepdims=True)
    actual = stable.one_minus_square(np, w)
    with mp.workdps(50):
        for row, value in zip(w, actual, strict=True):
            truth = 1 - mp.fsum(mp.mpf(float(x)) ** 2 for x in row)
            assert abs(value - truth) <= 4e-16 * abs(truth)
    if n > 1 and gap <= 1e-12:  # the control: plain subtraction must fail this test
        plain = 1 - np.sum(w * w, axis=-1)
        assert np.max(np.abs(plain / actual - 1)) > 1e-6


@pytest.mark.parametrize("ratio", [1.0, 1e-5, 1e-12, 1e-15])
def test_reject_keeps_the_digits_of_the_small_part(ratio):
    rng = np.random.default_rng(1)
    base = rng.normal(size=(30, 6))
    v = 3.7 * base + ratio * rng.normal(size=(30, 6))
    actual = stable.orthogonal_part(np, v, base)
    plain = (
        v
        - np.sum(v * base, axis=-1, keepdims=True)
        / np.sum(base**2, axis=-1, keepdims=True)
        * base
    )
    worst = {"ours": 0.0, "plain": 0.0}
    with mp.workdps(50):
        for i in range(30):
            x, y = ([mp.mpf(float(t)) for t in row] for row in (base[i], v[i]))
            c = mp.fdot(x, y) / mp.fdot(x, x)
            truth = [b - c * a for a, b in zip(x, y, strict=True)]
            size = mp.sqrt(mp.fdot(truth, truth))
            for name, value in (("ours", actual[i]), ("plain", plain[i])):
                error = (
                    mp.sqrt(
                        mp.fsum(
                            (mp.mpf(float(a)) - b) ** 2
                            for a, b in zip(value, truth, strict=True)
                        )
                    )
                    / size
                )
                worst[name] = max(worst[name], float(error))
    assert worst["ours"] < 2e-15
    if ratio <= 1e-12:
        assert worst["plain"] > 1e-6


def test_reject_of_parallel_vectors_is_zero_at_any_scale():
    base = np.array([1.0, 2.0, -3.0])
    for scale in (1e-100, 1.0, 1e100):
        assert np.all(stable.orthogonal_part(np, 4 * scale * base, scale * base) == 0)
    np.testing.assert_array_equal(stable.orthogonal_part(np, base, np.zeros(3)), base)


def test_error_free_transformations_survive_compilation():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(2)
    base = rng.normal(size=(50, 5))
    v = 2.3 * base + 1e-13 * rng.normal(size=(50, 5))
    w = rng.normal(size=(50, 5))
    w *= (1 - 1e-12) / np.linalg.norm(w, axis=-1, keepdims=True)
    # Compiled as users' programs are, not quickly as conftest.py has it.
    jax.config.update("jax_disable_most_optimizations", False)
    usual = (
        {"xla_cpu_use_fusion_emitters": True}
        if "fusion_emitters" in os.environ["XLA_FLAGS"]
        else None
    )
    with jax.enable_x64(True):
        reject = jax.jit(
            lambda v, b: stable.orthogonal_part(jax.numpy, v, b), compiler_options=usual
        )(v, base)
        gap = jax.jit(
            lambda w: stable.one_minus_square(jax.numpy, w), compiler_options=usual
        )(w)
    np.testing.assert_allclose(
        reject, stable.orthogonal_part(np, v, base), rtol=0, atol=1e-27
    )
    np.testing.assert_allclose(gap, stable.one_minus_square(np, w), rtol=1e-15)
