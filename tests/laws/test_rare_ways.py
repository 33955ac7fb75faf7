"""Ways through the samplers that few inputs take."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.geometry import Euclidean
from curvedp.laws.cells import CellSampler
from curvedp.laws.domains import GeodesicBall
from curvedp.laws.euclidean import GeneralizedGaussian, MultivariateGaussian, MultivariateLaplace


def test_coordinates_of_a_gaussian_have_their_distribution_function():
    x = np.array([-3.0, 0.0, 0.4, 5.0])
    assert MultivariateGaussian(3, 2.0).cdf(x) == pytest.approx(stats.norm.cdf(x, scale=2.0), rel=1e-12)
    assert GeneralizedGaussian(3, 2.0, 1.0).cdf(x) == pytest.approx(stats.laplace.cdf(x, scale=2.0), rel=1e-12)


def test_moments_of_the_flat_laws():
    for dim in (1, 2, 5):
        laplace = MultivariateLaplace(dim, 0.5)
        assert laplace.moment(3) == pytest.approx(0.125 * math.gamma(dim + 3) / math.gamma(dim), rel=1e-12)
        assert laplace.radial_cdf([-1.0, 0.0, 0.7]) == pytest.approx(stats.gamma.cdf([0.0, 0.0, 1.4], dim), rel=1e-12)
        assert laplace.fisher_information == pytest.approx(4 / dim, rel=1e-12)


def test_a_level_target_needs_no_cells():
    """g constant: the root cell has no excess, so nothing is split and the draw is uniform."""
    ball = GeodesicBall(Euclidean(2), radius=2.0)
    sampler = CellSampler(ball, 1.0, lambda x: np.full(len(x), 3.0), (0.0,), np.random.default_rng(0))
    assert not sampler._refine()
    z = sampler.draw(3000)[:, 0]
    assert sampler.built == 1
    assert stats.kstest(np.linalg.norm(z, axis=1) / 2, lambda r: np.clip(r, 0, 1) ** 2).pvalue > 1e-4
    assert stats.kstest(np.arctan2(z[:, 1], z[:, 0]) / (2 * math.pi) + 0.5, "uniform").pvalue > 1e-4
