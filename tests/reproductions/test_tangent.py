"""Tangent Gaussian noise: its constant, its covariance in the metric, and printed frames that are not isometries."""

import numpy as np
import pytest
from scipy import stats

from curvedp.geometry import (
    Euclidean,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
    Stiefel,
)
from curvedp.papers.opt.tangent import TangentGaussian
from support import goodness

N = 100_000


def test_the_constant_of_the_density():
    """Han et al. 2023, Lemma 1 prints C = (2πσ²)^{1/2} (docs/errata.md, E13); only (2πσ²)^{−d/2} is a density."""
    manifold, scale = PoincareBall(2), 0.2
    law, p = TangentGaussian(manifold, scale), goodness.off_origin(manifold)
    axis = np.linspace(-1.6, 1.6, 201)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    cell = (axis[1] - axis[0]) ** 2
    assert np.sum(
        np.exp(law.log_prob(manifold.from_coordinates(p, z), p))
    ) * cell == pytest.approx(1.0, abs=1e-9)
    printed = (
        np.sqrt(2 * np.pi * scale**2)
        * np.sum(np.exp(-np.sum(z**2, axis=-1) / (2 * scale**2)))
        * cell
    )
    assert printed != pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "manifold", [Sphere(3), PoincareBall(3), SPDAffineInvariant(3), Stiefel(4, 2)]
)
def test_variance_is_the_same_along_every_unit_direction(manifold):
    """The metric decides what a unit direction is, not the ambient coordinates."""
    law, p = TangentGaussian(manifold, 0.3), goodness.off_origin(manifold)
    v = law.sample(np.random.default_rng(0), p, N)
    rng = np.random.default_rng(1)
    for _ in range(3):
        u = manifold.from_coordinates(p, rng.standard_normal(manifold.dim))
        component = manifold.inner(p, v, u) / manifold.norm(p, u)
        assert goodness.accepts(goodness.ks(component / law.scale, stats.norm.cdf))


def test_half_the_noise_in_the_ball_is_rejected():
    """The frame for the printed metric 4/(1−|w|²) is too short by a factor that grows with |w| (docs/errata.md, E8)."""
    manifold = PoincareBall(2)
    law, p = TangentGaussian(manifold, 0.5), goodness.off_origin(manifold)
    z = 0.5 * np.random.default_rng(2).standard_normal((N, 2))
    assert goodness.accepts(
        goodness.ks(manifold.norm(p, manifold.from_coordinates(p, z)), law.radial_cdf)
    )
    printed = z * np.sqrt(1 - p @ p) / 2
    assert goodness.rejects(goodness.ks(manifold.norm(p, printed), law.radial_cdf))


def test_the_printed_basis_of_the_sphere_is_rejected():
    """ēᵢ − w_{i+1}·w is tangent but not orthonormal (docs/errata.md, E10)."""
    manifold = Sphere(3)
    law, p = TangentGaussian(manifold, 0.5), goodness.off_origin(manifold)
    z = 0.5 * np.random.default_rng(3).standard_normal((N, 3))
    printed = np.concatenate([np.zeros((N, 1)), z], axis=-1) - (z @ p[1:])[:, None] * p
    assert np.max(np.abs(printed @ p)) < 1e-12
    assert goodness.rejects(
        goodness.ks(np.linalg.norm(printed, axis=-1), law.radial_cdf)
    )


def test_moments_in_closed_form():
    law = TangentGaussian(Euclidean(3), 2.0)
    assert law.mean_square_radius == 12.0
    assert law.mean_radius == pytest.approx(2.0 * stats.chi(3).mean(), rel=1e-14)
