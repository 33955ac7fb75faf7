"""The least and the largest that each door of the accounting lets in, and what is added on the safe side."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.privacy import gaussian_profile, product_profile, subsampled_gaussian
from curvedp.privacy._loss_sum import MARGIN
from curvedp.privacy.gaussian import gdp_mu
from curvedp.privacy.products import _split
from curvedp.privacy.spd_confidence import spd_confidence_profile, weyl_net
from reproductions.gdp.algorithms import algorithm1_estimate, algorithm2_estimate, loss_sampler
from reproductions.gdp.circle import circle_gaussian_delta_printed
from reproductions.rao.discrete import discrete_gaussian_rao, geometric_rao, randomised_response_rao
from reproductions.rao.mechanisms import (
    generalised_gaussian_hellinger,
    generalised_gaussian_information,
    laplace_hellinger,
    mean_square_radius,
    riemannian_gaussian_theta,
    riemannian_laplace_theta,
)


def test_least_counts_are_let_in_and_one_less_is_not():
    sampler = loss_sampler(1.0, 2, 1.0, 1.0)

    def rng():
        return np.random.default_rng(0)

    eps = math.pi / 8
    assert algorithm1_estimate(2.0, 1.0, 1) == pytest.approx(gdp_mu(eps, circle_gaussian_delta_printed(2.0, 1.0, eps)))
    assert len(algorithm2_estimate(sampler, 1.0, 1.0, rng(), n=2, m=1, n_eps=1).eps) == 1
    assert randomised_response_rao(1.0, 2).theta == randomised_response_rao(1.0).theta
    assert geometric_rao(1.0, 1).theta == geometric_rao(1.0).theta
    assert discrete_gaussian_rao(1.0, 1).theta == discrete_gaussian_rao(1.0).theta
    assert laplace_hellinger(1.0, 1.0, 1) == laplace_hellinger(1.0, 1.0)
    assert riemannian_laplace_theta(1.0, 2.0, 1) == 0.5
    assert riemannian_gaussian_theta(1.0, 2.0, 1) == pytest.approx(0.5)
    assert mean_square_radius(-1.0, 1, 2.0) == pytest.approx(4.0, rel=1e-9)
    assert generalised_gaussian_hellinger(1.0, 1.0, 1.0) == pytest.approx(laplace_hellinger(1.0, 1.0), rel=1e-8)
    assert len(weyl_net(2, 1.0)[0]) > 1
    assert spd_confidence_profile(1.0, 1.0, np.ones(3), np.ones((1, 3)), 0.0, 0.5).samples == 3
    assert subsampled_gaussian(1.0, 0.5, 1).counts == (1,)
    for call in (
        lambda: algorithm1_estimate(2.0, 1.0, 0),
        lambda: algorithm2_estimate(sampler, 1.0, 1.0, rng(), n=1),
        lambda: randomised_response_rao(1.0, 1),
        lambda: geometric_rao(1.0, 0),
        lambda: discrete_gaussian_rao(1.0, 0),
        lambda: laplace_hellinger(1.0, 1.0, 0),
        lambda: riemannian_laplace_theta(1.0, 2.0, 0),
        lambda: riemannian_gaussian_theta(1.0, 2.0, 0),
        lambda: mean_square_radius(1.0, 0, 1.0),
        lambda: generalised_gaussian_hellinger(1.0, 1.0, math.nextafter(1.0, 0.0)),
        lambda: generalised_gaussian_information(1.0, 0.5),
        lambda: loss_sampler(1.0, 1, 1.0, 1.0),
        lambda: subsampled_gaussian(1.0, 0.5, 0),
        lambda: product_profile([(1.0, 0)], 1.0, 1.0),
        lambda: algorithm2_estimate(sampler, 1.0, 0.0, rng()),
    ):
        with pytest.raises(ParameterError):
            call()


def test_sums_of_losses_are_raised_by_their_margin_and_single_ones_are_not():
    spheres = ((1.0, 2), (1.0, 2))
    two = _split(spheres, 1.0, 0.0, (0.5, 0.6))
    assert two._margin == pytest.approx(MARGIN + 20 * two._table.unresolved, rel=1e-9)
    one = _split(spheres, 1.0, 0.3, (0.0, 0.6))
    assert one._margin == pytest.approx(20 * one._table.unresolved, abs=1e-15)
    assert len(one.parts) == 1
    eps = np.array([0.2])
    raw = np.exp(two._table.log_delta(eps)) * (1 + 1e-9)
    assert float(two.delta(0.2)) == pytest.approx(float(raw[0]) * (1 + two._margin), rel=1e-12)
    assert type(_split(spheres, 1.0, 0.0, (0.0, 0.6))) is type(gaussian_profile(1.0, 2, 1.0, 0.6))
    flat = _split(spheres, 1.0, 0.7, (0.0, 0.0))
    assert flat.mu == pytest.approx(0.7)


def test_divergences_of_a_thousand_standard_deviations_in_a_thousand_dimensions():
    profile = gaussian_profile(-1.0, 1000, 0.01, 10.0)
    # cos φ is 0 ± 0.03, so d₂ = 10 + log cosh r to within that, r the mode of the radius: E[d₂² − r²]/2σ² by the law of r.
    r = np.linspace(0.2, 0.45, 4001)
    log_law = -r * r / 2e-4 + 999 * np.log(np.sinh(r))
    law = np.exp(log_law - log_law.max())
    divergence = np.sum(law * ((10 + np.log(np.cosh(r))) ** 2 - r * r)) / np.sum(law) / 2e-4
    assert profile.renyi(1.0) == pytest.approx(divergence, rel=1e-3)


@pytest.mark.parametrize(("scale", "sensitivity"), [(1e-3, math.pi), (1e-3, 300.0), (1e-6, 1.0)])
def test_divergences_of_high_orders_are_not_below_those_of_the_tail(scale, sensitivity):
    profile = gaussian_profile(-1.0, 2, scale, sensitivity)
    for order in (1e3, 1e6, 1e8, 1e100):  # hyperbolic distances grow at least as flat ones: order·(Δ/σ)²/2 in the limit
        value = profile.renyi(order) / (order * (sensitivity / scale) ** 2 / 2)
        assert 1 - 1e-8 < value < 1 + 1e-6


def test_gaussians_have_no_pure_epsilon():
    assert gaussian_profile(0.0, 2, 1.0, 1.0).pure_epsilon == math.inf
    assert gaussian_profile(-1.0, 2, 1.0, 1.0).pure_epsilon == math.inf
    assert gaussian_profile(1.0, 2, 1.0, 1.0).pure_epsilon == pytest.approx((2 * math.pi - 1) / 2)  # L <= Δ(2π − Δ)/2σ²
