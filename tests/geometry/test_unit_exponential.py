"""exp(S + D) of unit diagonal against a root search in 40 digits, and no matrix's answer depends on those beside it."""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from curvedp.geometry.numerics.public_time import public_time
from curvedp.geometry.numerics.unit_exponential import unit_exponential


def hollow(rng, m, length):
    S = np.tril(rng.normal(size=(m, m)), -1)
    return (S + S.T) * length / np.linalg.norm(S + S.T)


def truth(S):
    """Newton's method with differences for derivatives."""
    m = len(S)

    def excess(*x):
        E = mp.expm(mp.matrix(S.tolist()) + mp.diag(list(x)))
        return [mp.log(E[i, i]) for i in range(m)]

    with mp.workdps(40):
        x = mp.findroot(excess, [-0.5 * np.log1p(s) for s in np.sum(S * S, axis=1)], tol=1e-50, verify=False)
        E = mp.expm(mp.matrix(S.tolist()) + mp.diag(list(x)))
        return np.array([[float(E[i, j]) for j in range(m)] for i in range(m)])


@pytest.mark.parametrize("length", [1e-8, 0.3, 1.5, 4.0, 7.9])
def test_against_many_digits(length):
    for m in (2, 3):
        S = hollow(np.random.default_rng(m), m, length)
        found, expected = unit_exponential(S, 30.0), truth(S)
        np.testing.assert_allclose(found, expected, atol=3e-14)
        off = ~np.eye(m, dtype=bool)
        np.testing.assert_allclose(found[off], expected[off], rtol=1e-12 + 1e-14 * np.exp(2 * length))
        with public_time():
            np.testing.assert_allclose(unit_exponential(S, 30.0), expected, atol=3e-14)


@pytest.mark.parametrize("m", [2, 4, 9])
def test_each_depends_on_itself_alone(m):
    rng = np.random.default_rng(0)
    S = np.stack([hollow(rng, m, length) for length in rng.uniform(0, 8, 300)])
    S[7] = np.nan
    together = unit_exponential(S, 30.0)
    assert np.isnan(together[7]).all()
    for i in (0, 1, 5, 9, 250):
        np.testing.assert_array_equal(together[i], unit_exponential(S[i : i + 1], 30.0)[0])
    assert unit_exponential(S[:0], 30.0).shape == (0, m, m)
    finite = np.arange(300) != 7
    assert np.max(np.abs(np.diagonal(together[finite], axis1=1, axis2=2) - 1)) < 2e-14


def test_32_bits_of_another_library():
    """16! was read as a whole number of 32 bits, and refused."""
    S = hollow(np.random.default_rng(0), 3, 1.0)
    np.testing.assert_allclose(
        np.asarray(unit_exponential(jnp.asarray(S, dtype=jnp.float32), 30.0)), truth(S), atol=1e-5
    )
