"""KL and mean-concentrated privacy against the exact profiles of the mechanisms they describe; coordinatewise Laplace."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import ParameterError
from curvedp.privacy import GDP, ApproxDP, PureDP, RaoDP, laplace_profile
from reproductions.rao.definitions import KLDP, MeanConcentratedDP
from reproductions.rao.laws import CoordinatewiseLaplace, MultivariateLaplace
from reproductions.rao.mechanisms import parametric_theta


@pytest.mark.parametrize("x", [0.1, 1.0])
def test_both_bound_the_laplace_mechanism(x):
    def loss(y):
        return abs(y - x) - abs(y)

    mean = integrate.quad(lambda y: stats.laplace.pdf(y) * loss(y), -40, 40, points=[0, x])[0]
    assert KLDP(x + math.expm1(-x)).alpha == pytest.approx(mean, rel=1e-9)
    profile, concentrated = laplace_profile(0, 1, 1 / x, 1.0), MeanConcentratedDP(x * math.expm1(x) / 2, x)
    for eps in np.linspace(0, x, 7):
        assert profile.delta(eps) <= KLDP(mean).delta(eps) * (1 + 1e-9)
        assert profile.delta(eps) <= concentrated.delta(eps) * (1 + 1e-9)


@pytest.mark.parametrize("k", [1, 10])
def test_composed_they_bound_composed_gaussians(k):
    exact = GDP(0.3 * math.sqrt(k))
    kl = KLDP.composed([KLDP(0.045)] * k)
    concentrated = MeanConcentratedDP.composed([MeanConcentratedDP(0.045, 0.3)] * k)
    for eps in (0.0, 0.5, 1.0, 3.0):
        assert exact.delta(eps) <= kl.delta(eps)
        assert exact.delta(eps) <= concentrated.delta(eps)
    assert concentrated.delta(concentrated.epsilon(1e-6)) == pytest.approx(1e-6)
    assert exact.delta(1.0) > KLDP.composed([KLDP(0.02)] * k).alpha * 0  # a bound of 0 would be none
    with pytest.raises(ParameterError):
        MeanConcentratedDP(0.1, 0.0)
    with pytest.raises(ParameterError):
        KLDP(math.nan)


def test_parametric_theta_of_the_corollaries():
    assert parametric_theta(ApproxDP(0.5, 1e-6)) == pytest.approx(0.5 / math.sqrt(2 * math.log(1.25e6)))
    for guarantee in (ApproxDP(1.5, 1e-6), RaoDP(0.1)):
        with pytest.raises(ParameterError, match="Corollaries"):
            parametric_theta(guarantee)
    assert parametric_theta(PureDP(0.7)) == 0.7


def test_coordinatewise_laplace_is_a_product_of_laplace_laws():
    law, rng = CoordinatewiseLaplace(3, 2.0), np.random.default_rng(0)
    x = law.sample(rng, np.zeros(3), 4000)
    assert stats.kstest(x.ravel(), stats.laplace(scale=2.0).cdf).pvalue > 1e-4
    point = np.array([0.3, -1.0, 2.0])
    assert law.log_prob(point, np.zeros(3)) == pytest.approx(stats.laplace.logpdf(point, scale=2.0).sum(), rel=1e-12)
    assert law.log_prob(point, np.zeros(3)) != pytest.approx(MultivariateLaplace(3, 2.0).log_prob(point, np.zeros(3)))
    shift = np.array([0.2, 0.1, 0.0])
    loss = law.log_prob(x, np.zeros(3)) - law.log_prob(x, shift)
    assert np.max(np.abs(loss)) <= np.abs(shift).sum() / 2.0 + 1e-12  # pure, at the L1 norm over σ
