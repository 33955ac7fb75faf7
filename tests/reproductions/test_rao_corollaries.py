"""The parametric θ of Corollaries 4.5 and 4.9; coordinatewise Laplace."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import ParameterError
from curvedp.papers.rao.laws import CoordinatewiseLaplace, MultivariateLaplace
from curvedp.papers.rao.mechanisms import parametric_theta
from curvedp.privacy import ApproxDP, PureDP, RaoDP


def test_parametric_theta_of_the_corollaries():
    assert parametric_theta(ApproxDP(0.5, 1e-6)) == pytest.approx(
        0.5 / math.sqrt(2 * math.log(1.25e6))
    )
    for guarantee in (ApproxDP(1.5, 1e-6), RaoDP(0.1)):
        with pytest.raises(ParameterError, match="Corollaries"):
            parametric_theta(guarantee)
    assert parametric_theta(PureDP(0.7)) == 0.7


def test_coordinatewise_laplace_is_a_product_of_laplace_laws():
    law, rng = CoordinatewiseLaplace(3, 2.0), np.random.default_rng(0)
    x = law.sample(rng, np.zeros(3), 4000)
    assert stats.kstest(x.ravel(), stats.laplace(scale=2.0).cdf).pvalue > 1e-4
    point = np.array([0.3, -1.0, 2.0])
    assert law.log_prob(point, np.zeros(3)) == pytest.approx(
        stats.laplace.logpdf(point, scale=2.0).sum(), rel=1e-12
    )
    assert law.log_prob(point, np.zeros(3)) != pytest.approx(
        MultivariateLaplace(3, 2.0).log_prob(point, np.zeros(3))
    )
    shift = np.array([0.2, 0.1, 0.0])
    loss = law.log_prob(x, np.zeros(3)) - law.log_prob(x, shift)
    assert (
        np.max(np.abs(loss)) <= np.abs(shift).sum() / 2.0 + 1e-12
    )  # pure, at the L1 norm over σ
