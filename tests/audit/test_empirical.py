"""The audit proves what it says: honest mechanisms pass and come close, dishonest ones are caught."""

import dataclasses

import numpy as np
import pytest

from curvedp.audit import audit_mechanism
from curvedp.geometry import Euclidean, KendallShapes, Lorentz, SPDAffineInvariant, Sphere
from curvedp.mechanisms import GaussianMechanism, LaplaceMechanism, LogGaussianMechanism

CASES = [
    GaussianMechanism(Euclidean(3), 0.5, 0.5),
    GaussianMechanism(Sphere(2), 0.5, 0.5),
    GaussianMechanism(Lorentz(2), 0.5, 0.5),
    LaplaceMechanism(Sphere(2), 0.3, 0.2),
    LogGaussianMechanism(SPDAffineInvariant(3), 0.5, 0.5, np.eye(3)),
    LogGaussianMechanism(KendallShapes(4), 0.3, 0.3, KendallShapes(4).origin, 0.5),
]


@pytest.mark.parametrize("mechanism", CASES, ids=lambda m: f"{m.name}-{m.manifold}")
def test_honest_claims_hold_and_are_approached(mechanism):
    result = audit_mechanism(mechanism, samples=60_000, rng=np.random.default_rng(1))
    assert result.holds
    assert result.audited > 0.4 * result.claimed  # an audit that proves nothing is no audit


@pytest.mark.parametrize("mechanism", CASES[:4], ids=lambda m: f"{m.name}-{m.manifold}")
def test_too_little_noise_is_caught(mechanism):
    scale = "sigma" if isinstance(mechanism, GaussianMechanism) else "scale"
    less = dataclasses.replace(mechanism, **{scale: 0.5 * getattr(mechanism, scale)})
    assert not audit_mechanism(mechanism, samples=60_000, rng=np.random.default_rng(1), sampler=less).holds
