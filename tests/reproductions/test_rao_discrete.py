"""Discrete mechanisms: Hellinger angles against direct sums, and every smaller shift is smaller."""

import math

import mpmath as mp
import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.papers.rao.discrete import (
    discrete_gaussian_rao,
    geometric_rao,
    randomized_response_rao,
)
from curvedp.privacy import PureDP, convert


def angle(affinity):
    """2·arccos in 60 digits."""
    return float(2 * mp.acos(affinity))


@pytest.mark.parametrize("eps", [1e-9, 1e-3, 0.5, 2.0, 40.0])
@pytest.mark.parametrize("k", [2, 3, 50])
def test_randomized_response(eps, k):
    with mp.workdps(60):
        e = mp.exp(mp.mpf(eps))
        p, q = e / (e + k - 1), 1 / (e + k - 1)
        truth = angle(2 * mp.sqrt(p * q) + (k - 2) * q)
    found = randomized_response_rao(eps, k)
    assert found.angle == "hellinger"
    assert 0 <= found.theta / truth - 1 < 1e-13
    assert found.theta <= convert(PureDP(eps), to=type(found)).theta * (1 + 1e-13)


@pytest.mark.parametrize("eps", [1e-6, 0.01, 1.0, 5.0])
@pytest.mark.parametrize("s", [1, 2, 7])
def test_geometric(eps, s):
    with mp.workdps(60):
        a = mp.exp(-mp.mpf(eps) / s)
        norm = (1 - a) / (1 + a)

        def affinity(shift):
            inside = mp.fsum(
                a ** (mp.mpf(abs(k) + abs(k - shift)) / 2) for k in range(shift + 1)
            )
            return norm * (inside + 2 * a ** (mp.mpf(shift) / 2) * a / (1 - a))

        truth = [angle(affinity(shift)) for shift in range(1, s + 1)]
    assert 0 <= geometric_rao(eps, s).theta / truth[-1] - 1 < 1e-12
    assert truth == sorted(truth)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.49, 0.51, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("s", [1, 2, 3, 6])
def test_discrete_gaussian(sigma, s):
    with mp.workdps(60):
        v = mp.mpf(sigma) ** 2
        reach = int(60 * sigma) + 20
        norm = mp.fsum(mp.exp(-k * k / (2 * v)) for k in range(-reach, reach + 1))

        def affinity(shift):
            terms = (
                mp.exp(-(k * k + (k - shift) ** 2) / (4 * v))
                for k in range(-reach, reach + shift + 1)
            )
            return mp.fsum(terms) / norm

        truth = max(angle(affinity(shift)) for shift in range(1, s + 1))
    assert 0 <= discrete_gaussian_rao(sigma, s).theta / truth - 1 < 1e-12


def test_direct_sum_would_reject_a_wrong_angle():
    """A continuous formula for an odd shift at small σ is off by far more than the tolerance above."""
    continuous = 2 * math.acos(math.exp(-1 / (8 * 0.3**2)))
    assert abs(discrete_gaussian_rao(0.3, 1).theta / continuous - 1) > 1e-2


def test_limits():
    assert discrete_gaussian_rao(1e-3).theta <= math.pi
    assert discrete_gaussian_rao(1e6).theta == pytest.approx(1e-6, rel=1e-9)
    assert randomized_response_rao(800.0).theta == pytest.approx(math.pi)
    assert np.isfinite(geometric_rao(1e-12, 1000).theta)


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf])
def test_bad_parameters(bad):
    for make in (randomized_response_rao, geometric_rao, discrete_gaussian_rao):
        with pytest.raises(ParameterError):
            make(bad)
        with pytest.raises(ParameterError):
            make(1.0, 0)
        with pytest.raises(ParameterError):
            make(1.0, 1.5)
