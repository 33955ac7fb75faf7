"""What every noise law must satisfy, as one suite: a new law inherits `LawConformance` and names its instances.

The reference (`radial_cdf`, moments, `log_normalizer`) comes from quadrature or closed forms that share no code with the
sampler. Every check of the sampler is paired with a wrong law that the same check must reject.
"""

import zlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.papers.opt.tangent import TangentGaussian
from support import goodness


def size(law):
    """So many draws that a scale wrong by 5% is rejected at p < 1e-6; in dimension 1 that takes most."""
    return 100_000 if law.manifold.dim == 1 else 40_000


@cache
def draws(law):
    """Draws about a footpoint in no special direction; one set for all the tests of a law."""
    center = goodness.off_origin(law.manifold)
    seed = zlib.crc32(
        repr(law).encode()
    )  # its own stream for every law: independent evidence
    return law.sample(np.random.default_rng(seed), center, size(law)), center


@cache
def distances(suite, law):
    x, center = draws(law)
    return suite.distance(law, center, x)


@cache
def coordinates(suite, law):
    """The draws in normal coordinates at the footpoint."""
    x, center = draws(law)
    return suite.coordinates(law, center, x)


def with_name(laws):
    return pytest.mark.parametrize(
        "law", laws, ids=lambda law: f"{law.manifold}-{law.scale:g}".replace(" ", "")
    )


class LawConformance:
    """Inherit, decorate with `with_name(laws)`. `distance` measures what `radial_cdf` is the law of."""

    @staticmethod
    def distance(law, center, x):
        return law.manifold.dist(center, x)

    @staticmethod
    def coordinates(law, center, x):
        return law.manifold.to_coordinates(center, law.manifold.log(center, x))

    def test_draws_follow_the_radial_law(self, law):
        r = distances(type(self), law)
        assert goodness.accepts(goodness.ks(r, law.radial_cdf))

    def test_a_scale_wrong_by_five_percent_is_rejected(self, law):
        r = distances(type(self), law)
        for wrong in (
            replace(law, scale=0.95 * law.scale),
            replace(law, scale=1.05 * law.scale),
        ):
            assert goodness.rejects(goodness.ks(r, wrong.radial_cdf))

    def test_moments(self, law):
        r = distances(type(self), law)
        assert goodness.accepts(goodness.moment(r, law.mean_radius))
        assert goodness.accepts(goodness.moment(r**2, law.mean_square_radius))
        assert goodness.rejects(goodness.moment(r**2, 1.05 * law.mean_square_radius))

    def test_the_footpoint_is_the_center(self, law):
        z = coordinates(type(self), law)
        assert goodness.accepts(goodness.mean_zero(z))
        shift = (
            0.1
            * np.sqrt(law.mean_square_radius / law.manifold.dim)
            * np.eye(1, law.manifold.dim)[0]
        )
        assert goodness.rejects(goodness.mean_zero(z + shift))

    def test_draws_lie_on_the_manifold(self, law):
        x, _ = draws(law)
        assert np.max(law.manifold.residual(x)) < 1e-12

    def test_log_prob_is_symmetric(self, law):
        x, center = draws(law)
        np.testing.assert_allclose(
            law.log_prob(x[:50], center), law.log_prob(center, x[:50]), rtol=1e-9
        )

    def test_radial_cdf_is_a_distribution_function(self, law):
        r = np.linspace(0.0, 40 * np.sqrt(law.mean_square_radius), 400)
        f = law.radial_cdf(r)
        assert f[0] == 0.0
        assert abs(f[-1] - 1.0) < 1e-9
        assert np.all(np.diff(f) >= -1e-12)
        assert law.radial_cdf(r.reshape(20, 20)).shape == (20, 20)
        assert np.shape(law.radial_cdf(0.5)) == ()
        np.testing.assert_array_equal(law.radial_cdf([-1.0, np.inf]), [0.0, 1.0])

    def test_shapes(self, law):
        rng, shape = np.random.default_rng(3), law.manifold.point_shape
        center = goodness.off_origin(law.manifold)
        assert law.sample(rng, center).shape == shape
        assert law.sample(rng, center, None).shape == shape
        assert law.sample(rng, center, 0).shape == (0, *shape)
        assert law.sample(rng, center, 4).shape == (4, *shape)
        assert law.sample(rng, center, (2, 3)).shape == (2, 3, *shape)
        many = law.sample(rng, center, (2, 3))
        assert law.log_prob(many, center).shape == (2, 3)

    def test_centers_broadcast(self, law):
        manifold, rng = law.manifold, np.random.default_rng(4)
        tight = replace(law, scale=1e-6)
        centers = np.stack(
            [goodness.off_origin(manifold, 0.3, seed) for seed in range(3)]
        )
        for x in (tight.sample(rng, centers), tight.sample(rng, centers, (2, 3))):
            assert np.max(self.distance(law, centers, x)) < 1e-4

    def test_the_same_generator_gives_the_same_draws(self, law):
        center = goodness.off_origin(law.manifold)
        first, again = (
            law.sample(np.random.default_rng(5), center, 7) for _ in range(2)
        )
        np.testing.assert_array_equal(first, again)

    def test_bad_parameters_are_refused(self, law):
        center, rng = law.manifold.origin, np.random.default_rng(6)
        for scale in (0.0, -1.0, np.nan, np.inf, "1", None):
            with pytest.raises(ParameterError, match="scale"):
                replace(law, scale=scale)
        for seed in (42, None, np.random.RandomState(0)):
            with pytest.raises(ParameterError, match="rng"):
                law.sample(seed, center, 3)
        for size in (-1, 2.5, (2, -1), True):
            with pytest.raises(ParameterError, match="size"):
                law.sample(rng, center, size)
        with pytest.raises(ParameterError, match="center"):
            law.sample(rng, center[..., :0], 3)


class IsotropicConformance(LawConformance):
    """For laws whose directions from the footpoint are uniform."""

    def test_directions_are_uniform(self, law):
        z = coordinates(type(self), law)
        assert goodness.accepts(goodness.directions(z))
        if law.manifold.dim > 1:
            stretched = z * (1.0 + 0.1 * np.eye(1, law.manifold.dim)[0])
            assert goodness.rejects(goodness.directions(stretched))


GAUSSIANS = [
    RiemannianGaussian(Euclidean(1), 0.1),
    RiemannianGaussian(Euclidean(5), 2.0),
    RiemannianGaussian(Sphere(1), 0.5),
    RiemannianGaussian(Sphere(1), 1.2),
    RiemannianGaussian(Sphere(2), 0.1),
    RiemannianGaussian(Sphere(2), 0.8),
    RiemannianGaussian(Sphere(10), 0.2),
    RiemannianGaussian(Lorentz(1), 0.7),
    RiemannianGaussian(Lorentz(2), 0.3),
    RiemannianGaussian(Lorentz(2), 1.5),
    RiemannianGaussian(Lorentz(6), 1.0),
    RiemannianGaussian(PoincareBall(1), 0.3),
    RiemannianGaussian(PoincareBall(2), 0.3),
    RiemannianGaussian(PoincareBall(3), 1.0),
    RiemannianGaussian(SPDLogEuclidean(2), 0.4),
    RiemannianGaussian(SPDLogEuclidean(3), 1.0),
    RiemannianGaussian(SPDLogCholesky(2), 0.4),
    RiemannianGaussian(SPDLogCholesky(3), 1.0),
    RiemannianGaussian(Rotations(3), 0.3),
    RiemannianGaussian(Rotations(3), 1.0),
    RiemannianGaussian(KendallShapes(3), 0.2),
    RiemannianGaussian(KendallShapes(5), 0.25),
    RiemannianGaussian(Grassmann(4, 1), 0.3),
    RiemannianGaussian(Grassmann(4, 3), 0.3),
]


@with_name(GAUSSIANS)
class TestGaussian(IsotropicConformance):
    pass


COMPOSITE_GAUSSIANS = [
    RiemannianGaussian(SPDAffineInvariant(2), 0.3),
    RiemannianGaussian(SPDAffineInvariant(2), 1.0),
    RiemannianGaussian(SPDAffineInvariant(3), 0.5),
    RiemannianGaussian(SPDAffineInvariant(3), 1.5),
    RiemannianGaussian(Product(Sphere(2), Euclidean(1)), 0.3),
    RiemannianGaussian(Product(Sphere(1), Lorentz(2), SPDAffineInvariant(2)), 0.8),
]


@with_name(COMPOSITE_GAUSSIANS)
class TestCompositeGaussian(LawConformance):
    """Their volume is not isotropic about a point, so the directions have no simple law; radii and footpoints do."""


LAPLACES = [
    RiemannianLaplace(Euclidean(1), 0.1),
    RiemannianLaplace(Euclidean(5), 2.0),
    RiemannianLaplace(Sphere(1), 0.3),
    RiemannianLaplace(Sphere(1), 1.0),
    RiemannianLaplace(Sphere(2), 0.1),
    RiemannianLaplace(Sphere(2), 0.6),
    RiemannianLaplace(Sphere(10), 0.05),
    RiemannianLaplace(Lorentz(1), 0.7),
    RiemannianLaplace(Lorentz(2), 0.2),
    RiemannianLaplace(Lorentz(2), 0.8),
    RiemannianLaplace(Lorentz(6), 0.15),
    RiemannianLaplace(PoincareBall(2), 0.2),
    RiemannianLaplace(PoincareBall(3), 0.3),
    RiemannianLaplace(SPDLogEuclidean(3), 0.3),
    RiemannianLaplace(SPDLogCholesky(2), 0.3),
    RiemannianLaplace(Rotations(3), 0.2),
    RiemannianLaplace(KendallShapes(5), 0.05),
    RiemannianLaplace(Grassmann(4, 1), 0.1),
]


@with_name(LAPLACES)
class TestLaplace(IsotropicConformance):
    pass


TANGENTS = [
    TangentGaussian(manifold, scale)
    for scale in (0.2, 3.0)
    for manifold in (
        Euclidean(3),
        Sphere(1),
        Sphere(4),
        Lorentz(3),
        PoincareBall(3),
        SPDAffineInvariant(3),
        SPDLogEuclidean(2),
        SPDLogCholesky(2),
        SPDBuresWasserstein(2),
        Stiefel(4, 2),
        Grassmann(4, 2),
        Rotations(3),
        KendallShapes(4),
        Product(Sphere(2), SPDAffineInvariant(2)),
    )
]


@with_name(TANGENTS)
class TestTangentGaussian(IsotropicConformance):
    """Tangent vectors instead of points: norms instead of distances."""

    @staticmethod
    def distance(law, center, x):
        return law.manifold.norm(center, x)

    @staticmethod
    def coordinates(law, center, x):
        return law.manifold.to_coordinates(center, x)

    def test_draws_lie_on_the_manifold(self, law):
        v, center = draws(law)
        np.testing.assert_allclose(
            law.manifold.to_tangent(center, v[:1000]), v[:1000], atol=1e-12 * law.scale
        )

    def test_log_prob_is_symmetric(self, law):
        v, center = draws(law)
        np.testing.assert_array_equal(
            law.log_prob(v[:50], center), law.log_prob(-v[:50], center)
        )
