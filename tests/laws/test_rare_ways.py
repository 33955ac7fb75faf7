"""Ways through the samplers that few inputs take."""

import math
import struct

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import Euclidean, Lorentz, Product, SPDAffineInvariant, Sphere
from curvedp.laws import RiemannianGaussian, spd_confidence, spd_gaussian
from curvedp.laws.cells import CellSampler
from curvedp.laws.domains import GeodesicBall, TangentBundleBall
from curvedp.laws.knorm import KNormLaw
from curvedp.privacy.spd_confidence import spd_confidence_profile, weyl_net


def test_a_level_target_needs_no_cells():
    """g constant: the root cell has no excess, so nothing is split and the draw is uniform."""
    ball = GeodesicBall(Euclidean(2), radius=2.0)
    sampler = CellSampler(ball, 1.0, lambda x: np.full(len(x), 3.0), (0.0,), np.random.default_rng(0))
    assert not sampler._refine()
    z = sampler.draw(3000)[:, 0]
    assert sampler.built == 1
    assert stats.kstest(np.linalg.norm(z, axis=1) / 2, lambda r: np.clip(r, 0, 1) ** 2).pvalue > 1e-4
    assert stats.kstest(np.arctan2(z[:, 1], z[:, 0]) / (2 * math.pi) + 0.5, "uniform").pvalue > 1e-4


def test_the_steepest_gradient_norm_that_is_drawn_from():
    law = KNormLaw(GeodesicBall(Euclidean(2), radius=1.0), 1.0)

    def g(x):
        return np.zeros(len(x))

    def rng():
        return np.random.default_rng(0)

    assert law.sample(rng(), g, lipschitz=1e8, size=0).shape == (0, 2)
    assert law.sample(rng(), g, lipschitz=1.0).shape == (2,)
    assert law.sample(rng(), g, lipschitz=(1.0,), size=(2, 3)).shape == (2, 3, 2)
    bundle = KNormLaw(TangentBundleBall(Euclidean(1), radius=1.0, speed=2.0), 1.0)
    p, v = bundle.sample(rng(), lambda p, v: np.zeros(len(p)), lipschitz=1.0, size=4)
    assert p.shape == v.shape == (4, 1)
    assert len(bundle.sample(rng(), lambda p, v: np.zeros(len(p)), lipschitz=(1.0, 0.5), size=0)) == 2
    for bad in (math.nextafter(1e8, math.inf), 0.0, -1.0, math.nan, (1.0, 1.0), ()):
        with pytest.raises(ParameterError):
            law.sample(rng(), g, lipschitz=bad, size=0)
    for bad in (-1, 1.5, (2, -1)):
        with pytest.raises(ParameterError):
            law.sample(rng(), g, lipschitz=1.0, size=bad)
    for domain, scale in ((None, 1.0), (law.domain, 0.0)):
        with pytest.raises(ParameterError):
            KNormLaw(domain, scale)


def test_a_confidence_bound_is_made_of_these_samples_and_distances(monkeypatch):
    monkeypatch.setattr(spd_confidence, "_WORK", 200_000)
    space, sigma, D = SPDAffineInvariant(3), 0.7, 0.4
    found = spd_confidence.spd_confidence.__wrapped__(3, sigma, D)
    net, covering = weyl_net(3, 0.4)
    count = max(1000, 200_000 // (3 * len(net)))
    assert found.samples == count
    assert found.failure_probability == 1e-6
    seed = [3, *struct.unpack("<2Q", struct.pack("<2d", sigma, D))]
    y = spd_gaussian.sample_spd(np.random.default_rng(seed), 3, sigma, np.eye(3), count)
    own = space.dist(np.eye(3), y)
    others = np.array([space.dist(np.diag(np.exp(D * v)), y) for v in net])
    expected = spd_confidence_profile(sigma, D, own, others, covering, 1e-6)
    assert np.array(found.bounds) == pytest.approx(np.array(expected.bounds), abs=1e-6)
    assert spd_confidence.spd_confidence.__wrapped__(5, 0.3, 0.1).samples == 1000
    monkeypatch.setattr(spd_confidence, "_WORK", 10**9)
    counts = []
    monkeypatch.setattr(
        spd_confidence, "sample_spd", lambda rng, m, s, c, n: counts.append(n) or np.stack([np.eye(m)] * 4)
    )
    spd_confidence.spd_confidence.__wrapped__(3, 0.3, 0.1)
    assert counts == [20_000]


def test_distances_that_floats_cannot_tell_are_refused():
    assert spd_confidence._distances(np.diag([1.0, 2.0])[None])[0] == pytest.approx(math.log(2.0))
    assert spd_confidence._distances(np.diag([1.1e-9, 1.0])[None])[0] == pytest.approx(-math.log(1.1e-9), rel=1e-6)
    for small in (0.9e-9, 0.0, -1.0):
        with pytest.raises(ParameterError, match="too large"):
            spd_confidence._distances(np.stack([np.eye(2), np.diag([small, 1.0])]))


def test_draws_about_centres_too_far_for_a_boost():
    """Beyond the limit of the boost the exponential map carries the draw: the distance is the same."""
    for space, center in (
        (Lorentz(2), Lorentz(2).exp(Lorentz(2).origin, np.array([0.0, 9.0, 0.0]))),
        (Sphere(3), None),
    ):
        at = space.origin if center is None else center
        law = RiemannianGaussian(space, 0.2)
        x = law.sample(np.random.default_rng(3), at, 2000)
        assert stats.kstest(space.dist(at, x), lambda r, law=law: law.radial_cdf(r)).pvalue > 1e-4
    south = np.array([-1.0, 0.0, 0.0])
    x = RiemannianGaussian(Sphere(2), 1e-3).sample(np.random.default_rng(0), south, 10)
    assert np.all(x[:, 0] < -0.99)
    both = np.stack([south, -south])
    x = RiemannianGaussian(Sphere(2), 1e-3).sample(np.random.default_rng(0), both, (5, 2))
    assert x[..., 0] == pytest.approx(np.broadcast_to([-1.0, 1.0], (5, 2)), abs=1e-3)


@pytest.mark.parametrize("scale", [0.03, 1.0, 40.0])
def test_products_of_any_scale(scale):
    law = RiemannianGaussian(Product(Euclidean(2), Euclidean(1)), scale)
    r = scale * np.linspace(0, 5, 60)
    assert law.radial_cdf(r) == pytest.approx(stats.chi.cdf(r / scale, 3), abs=1e-5)
    assert law.mean_radius == pytest.approx(scale * stats.chi.mean(3), rel=1e-4)


def test_a_bump_that_is_too_steep_is_seen_while_cells_are_split():
    """Before anything is drawn: a child's value against its parent's, over the distance between them."""
    ball, top = GeodesicBall(Euclidean(2), radius=1.0), np.array([0.7, 0.7])

    def g(x):
        return 10 * np.maximum(0.2 - np.linalg.norm(x - top, axis=-1), 0.0)

    sampler = CellSampler(ball, 0.05, g, (1.0,), np.random.default_rng(0))
    with pytest.raises(EnvelopeViolation, match="Lipschitz"):
        [sampler._refine() for _ in range(4)]
    gentle = CellSampler(ball, 0.05, g, (10.0,), np.random.default_rng(0))
    for _ in range(4):
        assert gentle._refine()
