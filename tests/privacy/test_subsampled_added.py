"""Subsampled Gaussian steps where a record is added or removed: against quadrature, brute force and dp-accounting."""

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from curvedp.privacy import (
    GDP,
    ApproxDP,
    subsampled_gaussian,
    subsampled_noise_multiplier,
)
from curvedp.privacy.subsampling import PoissonGaussianStep

ADDED = "add-remove"


@mp.workdps(25)
def one_way(sigma, q, eps, removing):
    """E_γ between (1−q)N(0) + qN(1) and N(0), in the order asked for, by quadrature of the densities where it is positive."""
    s, q, g = mp.mpf(sigma), mp.mpf(q), mp.exp(mp.mpf(eps))

    def density(x):
        without = mp.npdf(x, 0, s)
        both = (1 - q) * without + q * mp.npdf(x, 1, s)
        return both - g * without if removing else without - g * both

    ratio = (
        (g - 1 + q) / q if removing else (1 / g - 1 + q) / q
    )  # of N(1) to N(0) where the density is 0
    if ratio <= 0:
        return mp.mpf(0)
    cut = s * s * mp.log(ratio) + mp.mpf(1) / 2
    far = [cut + (k if removing else -k) * s for k in (0, 1, 3, 8, 20)]
    return abs(mp.quad(density, far))


@pytest.mark.parametrize(
    ("sigma", "q"), [(1.0, 0.3), (0.7, 0.02), (2.0, 0.9), (0.5, 1e-3)]
)
def test_adding_and_removing_against_quadrature(sigma, q):
    step = PoissonGaussianStep(sigma, q, adjacency=ADDED)
    for eps in (0.0, 1e-3, 0.5 * q, 0.2, -0.9 * math.log1p(-q), 1.0, 3.0):
        removing, adding = one_way(sigma, q, eps, True), one_way(sigma, q, eps, False)
        assert adding <= removing * (1 + mp.mpf("1e-12"))
        assert step.delta(eps) == pytest.approx(float(removing), rel=1e-9)
        assert step.delta(eps) >= removing * (1 - mp.mpf("1e-13"))
        assert float(step.delta_add(np.array([eps]))[0]) == pytest.approx(
            float(adding), rel=1e-8, abs=1e-14
        )
        assert float(step.delta_add(np.array([eps]))[0]) >= adding * (
            1 - mp.mpf("1e-13")
        )


@pytest.mark.parametrize(
    ("sigma", "q", "steps"),
    [(1.0, 0.01, 1000), (2.0, 0.1, 100), (0.6, 0.001, 5000), (1.0, 0.5, 20)],
)
def test_composed_adding_and_removing_against_dp_accounting(sigma, q, steps):
    peer = pld.from_gaussian_mechanism(
        sigma, sensitivity=1.0, sampling_prob=q, value_discretization_interval=1e-4
    )
    theirs = peer.self_compose(steps).get_epsilon_for_delta(1e-6)
    ours = subsampled_gaussian(sigma, q, steps, adjacency=ADDED)
    assert ours.epsilon(1e-6) == pytest.approx(theirs, rel=2e-5)
    assert ours.delta(theirs * 0.999) > 1e-6  # neither is far from the truth
    assert ours.epsilon(1e-6) < subsampled_gaussian(sigma, q, steps).epsilon(
        1e-6
    )  # replacing costs more


def test_adding_a_record_every_time_is_gaussian():
    assert subsampled_gaussian(1.0, 1.0, 4, adjacency=ADDED) == GDP(
        2.0, adjacency=ADDED
    )
    sigma = subsampled_noise_multiplier(ApproxDP(1.0, 1e-5, adjacency=ADDED), 0.05, 8)
    assert subsampled_gaussian(sigma, 0.05, 8, adjacency=ADDED).delta(1.0) <= 1e-5
    assert subsampled_gaussian(0.99 * sigma, 0.05, 8, adjacency=ADDED).delta(1.0) > 1e-5


def test_three_steps_added_and_removed_by_brute_force():
    """The loss of each step on a fine grid of outputs, all triples; both ways, of which the dearer is charged."""
    sigma, q, n = 0.9, 0.4, 121
    edges = np.linspace(-7, 8, n + 1)
    x, width = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    without, with_one = (
        np.exp(-((x - m) ** 2) / (2 * sigma**2))
        / math.sqrt(2 * math.pi)
        / sigma
        * width
        for m in (0, 1)
    )
    mixed = (1 - q) * without + q * with_one
    ours = subsampled_gaussian(sigma, q, 3, adjacency=ADDED)
    for eps in (0.0, 0.5, 2.0):
        found = []
        for p, w in ((mixed, without), (without, mixed)):
            loss = np.log(p / w)
            mass = (p[:, None, None] * p[None, :, None] * p[None, None, :]).ravel()
            total = (
                loss[:, None, None] + loss[None, :, None] + loss[None, None, :]
            ).ravel()
            found.append(np.sum(mass * np.maximum(-np.expm1(eps - total), 0)))
        assert ours.delta(eps) == pytest.approx(max(found), rel=3e-3)


def contour_delta(q, sigma, steps, eps):
    """δ(ε) of steps that may lack a record: (1/2πi)∫ E[e^{zL}]^steps·e^{−zε}/(z(z + 1)) dz along Re z = 2, at each ε."""
    x = np.linspace(-10 * sigma, 1 + 14 * sigma, 1001)
    ratio = q * np.expm1((x - 0.5) / sigma**2)
    law = (
        np.exp(-((x / sigma) ** 2) / 2)
        / math.sqrt(2 * math.pi)
        / sigma
        * (x[1] - x[0])
        * (1 + ratio)
    )
    loss = np.log1p(ratio)
    u = np.linspace(0, 10, 2501) / math.sqrt(steps * (law @ loss**2))
    z = 2 + 1j * u
    moments = np.array([law @ np.expm1(at * loss) for at in z])
    values = (
        np.exp(steps * np.log(1 + moments) - np.multiply.outer(eps, z)) / (z * (z + 1))
    ).real
    return (np.sum(values, axis=1) - values[:, 0] / 2) * (u[1] - u[0]) / math.pi


@pytest.mark.parametrize("sigma", [0.7, 1.0])
def test_a_million_steps_of_tiny_batches(sigma):
    """Rounding is charged for every step, and rare large losses draw tilts away: δ used to be a thousand times too large."""
    whole = subsampled_gaussian(sigma, 1e-5, 10**6, adjacency="add-remove")
    eps = np.array([0.02, 0.04, 0.06])
    ratio = whole.delta(eps) / contour_delta(1e-5, sigma, 10**6, eps)
    assert np.all((ratio >= 1) & (ratio < 1.03))
