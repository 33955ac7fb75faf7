"""The confidence bound of larger SPD matrices: which samples and distances it is made of."""

import math
import struct

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant
from curvedp.laws import RiemannianGaussian, spd_confidence
from curvedp.privacy.spd_confidence import spd_confidence_profile, weyl_net


def test_a_confidence_bound_is_made_of_these_samples_and_distances(monkeypatch):
    monkeypatch.setattr(spd_confidence, "_WORK", 200_000)
    space, sigma, D = SPDAffineInvariant(3), 0.7, 0.4
    found = spd_confidence.spd_confidence.__wrapped__(3, 1, sigma, D)
    net, covering = weyl_net(3, 0.4)
    count = max(1000, 200_000 // (3 * len(net)))
    assert found.samples == count
    assert found.failure_probability == 1e-6
    seed = [3, *struct.unpack("<2Q", struct.pack("<2d", sigma, D))]
    y = RiemannianGaussian(SPDAffineInvariant(3), sigma).sample(
        np.random.default_rng(seed), np.eye(3), count
    )
    own = space.dist(np.eye(3), y)
    others = np.array([space.dist(np.diag(np.exp(D * v)), y) for v in net])
    expected = spd_confidence_profile(sigma, D, own, others, covering, 1e-6)
    assert np.array(found.bounds) == pytest.approx(np.array(expected.bounds), abs=1e-6)
    assert spd_confidence.spd_confidence.__wrapped__(5, 1, 0.3, 0.1).samples == 1000
    monkeypatch.setattr(spd_confidence, "_WORK", 10**9)
    counts = []
    monkeypatch.setattr(
        spd_confidence,
        "turned",
        lambda rng, c, rho, b: counts.append(len(rho)) or np.stack([c] * 4),
    )
    spd_confidence.spd_confidence.__wrapped__(3, 1, 0.3, 0.1)
    assert counts == [20_000]


def test_distances_that_floats_cannot_tell_are_refused():
    assert spd_confidence._distances(np.diag([1.0, 2.0])[None])[0] == pytest.approx(
        math.log(2.0)
    )
    assert spd_confidence._distances(np.diag([1.1e-9, 1.0])[None])[0] == pytest.approx(
        -math.log(1.1e-9), rel=1e-6
    )
    for small in (0.9e-9, 0.0, -1.0):
        with pytest.raises(ParameterError, match="too large"):
            spd_confidence._distances(np.stack([np.eye(2), np.diag([small, 1.0])]))
