"""Confidence bounds by hand."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.privacy.guarantees.gaussian import gdp_mu
from curvedp.privacy.spd_confidence import (
    ConfidenceProfile,
    positive_parts,
    spd_confidence_profile,
    weyl_net,
)
from reproductions.gdp.algorithms import _max_mu


def testpositive_parts_by_hand():
    loss, eps = (
        np.sort(np.random.default_rng(0).normal(0.3, 1.0, 500)),
        np.array([0.0, 0.4, 2.0, 9.0]),
    )
    mean, square = positive_parts(loss, eps)
    parts = np.maximum(1 - np.exp(eps[:, None] - loss), 0.0)
    assert mean == pytest.approx(parts.mean(axis=1), abs=1e-14)
    assert square == pytest.approx((parts**2).mean(axis=1), abs=1e-14)
    low = positive_parts(np.array([-3.0, -1.0]), np.array([0.0]))
    assert low[0].tolist() == low[1].tolist() == [0.0]
    assert _max_mu(np.array([0.0, 0.5]), np.array([0.3, -0.1])) == pytest.approx(
        gdp_mu(0.0, 0.3)
    )
    assert _max_mu(np.array([0.0]), np.array([0.0])) == 0.0


def test_confidence_profiles_by_hand():
    rng = np.random.default_rng(3)
    own, net = rng.random(2000) + 1, rng.random((3, 2000)) + 1
    profile = spd_confidence_profile(0.9, 0.4, own, net, 0.1, 0.05)
    losses = ((net + 0.04) ** 2 - own**2) / (2 * 0.81)
    eps = np.array(profile.eps)
    assert len(eps) == 400
    assert (eps[0], eps[-1]) == pytest.approx(
        (0.0, losses[:, :200].max())
    )  # the grid is not of the samples averaged
    losses = losses[:, 200:]
    massart = math.sqrt(math.log(2 * 3 / 0.05) / 3600)
    share = math.log(4 * 3 * 400 / 0.05)
    worst = np.zeros(400)
    for row in losses:
        parts = np.maximum(1 - np.exp(eps[:, None] - row), 0.0)
        bernstein = np.sqrt(2 * parts.var(axis=1) * share / 1799) + 7 * share / (
            3 * 1799
        )
        worst = np.maximum(worst, parts.mean(axis=1) + np.minimum(bernstein, massart))
    bounds = np.minimum.accumulate(np.minimum(worst, 1.0))
    assert np.array(profile.bounds) == pytest.approx(bounds, rel=1e-12)
    assert profile.delta(eps[7]) == profile.bounds[7]
    assert profile.delta((eps[7] + eps[8]) / 2) == profile.bounds[7]
    assert profile.delta(1e9) == profile.bounds[-1]
    assert profile.hellinger_angle == pytest.approx(
        2 * math.acos(1 - profile.bounds[0]), rel=1e-14
    )
    assert (
        profile.label
        == "confidence bound from 2000 samples, wrong with probability at most 0.05"
    )
    infinite = (
        profile.mu,
        profile.rho,
        profile.rao,
        profile.pure_epsilon,
        profile.renyi(2.0),
    )
    assert set(infinite) == {math.inf}
    many = spd_confidence_profile(
        0.9, 0.4, np.ones(40_000), np.ones((1, 40_000)), 0.0, 0.05
    )
    assert many.bounds[-1] < 7e-4  # Bernstein where nothing varies
    for own_bad, net_bad, h, beta in (
        (own[:1], net[:, :1], 0.1, 0.05),
        (own, net[0], 0.1, 0.05),
        (own[None], net, 0.1, 0.05),
        (own, net[:, :9], 0.1, 0.05),
        (own, net * math.nan, 0.1, 0.05),
        (own * math.inf, net, 0.1, 0.05),
        (own, net, -0.1, 0.05),
        (own, net, 0.1, 1.0),
    ):
        with pytest.raises(ParameterError):
            spd_confidence_profile(0.9, 0.4, own_bad, net_bad, h, beta)
    points, h = weyl_net(2, 0.7)  # three steps
    assert h == pytest.approx(math.sqrt(2) / 3, abs=1e-10)
    assert np.all(np.diff(points, axis=1) >= 0)
    assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-11
    assert len(points) == 10
    for m, spacing in ((1, 0.5), (3, 0.0), (3, 2.1)):
        with pytest.raises(ParameterError):
            weyl_net(m, spacing)
    assert len(weyl_net(2, 2.0)[0]) == 3


def test_the_curve_of_a_confidence_bound():
    profile = ConfidenceProfile((0.0, 0.5, 1.0), (0.4, 0.2, 0.1), 0.01, 100)
    alpha = np.array([0.0, 0.2, 0.6])
    lines = [
        1 - d - math.exp(e) * alpha for e, d in ((0.0, 0.4), (0.5, 0.2), (1.0, 0.1))
    ]
    backwards = [
        math.exp(-e) * (1 - d - alpha) for e, d in ((0.0, 0.4), (0.5, 0.2), (1.0, 0.1))
    ]
    best = np.maximum(np.max([*lines, *backwards], axis=0), 0.0)
    assert np.all(profile.tradeoff(alpha) <= best + 1e-9)
    assert profile.tradeoff(alpha) == pytest.approx(best, abs=0.02)
