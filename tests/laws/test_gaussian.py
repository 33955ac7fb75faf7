"""The Riemannian Gaussian against integrals that share nothing with it, at its extremes, and with its factors left out."""

import math
from unittest import mock

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import erf

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import (
    Euclidean,
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
from curvedp.laws import RiemannianGaussian
from curvedp.laws.isotropic.envelope import TangentEnvelope
from curvedp.laws.isotropic.law import two_point_homogeneous_law
from curvedp.laws.product import ProductGaussian
from curvedp.papers.opt.tangent import TangentGaussian
from support import goodness

SPACES = {
    Euclidean: (mpmath.mpf, mpmath.inf),
    Sphere: (mpmath.sin, mpmath.pi),
    Lorentz: (mpmath.sinh, mpmath.inf),
}


def by_mpmath(manifold, scale, upto=None, order=0):
    """∫₀^upto r^order·exp(−r²/2σ²)·sn(r)^{d−1} dr with 22 digits, split around the bulk."""
    sn, end = SPACES[type(manifold)]
    with mpmath.workdps(22):
        s, k = mpmath.mpf(scale), manifold.dim - 1
        top = (
            mpmath.mpf(upto)
            if upto is not None
            else min(end, 60 * s + 2 * k * s * s + 4 * s * mpmath.sqrt(k))
        )
        cuts = [top * i / 12 for i in range(13)]
        return mpmath.quad(
            lambda r: r**order * mpmath.exp(-((r / s) ** 2) / 2) * sn(r) ** k, cuts
        )


CASES = [
    (Euclidean(3), 0.7),
    (Sphere(1), 2.0),
    (Sphere(2), 0.1),
    (Sphere(3), 5.0),
    (Sphere(20), 0.5),
]
CASES += [(Lorentz(1), 1.0), (Lorentz(2), 0.05), (Lorentz(3), 2.0), (Lorentz(12), 1.0)]


@pytest.mark.parametrize(("manifold", "scale"), CASES)
def test_radial_law_against_high_precision(manifold, scale):
    law = RiemannianGaussian(manifold, scale)
    mass = by_mpmath(manifold, scale)
    area = (
        2
        * mpmath.pi ** (mpmath.mpf(manifold.dim) / 2)
        / mpmath.gamma(mpmath.mpf(manifold.dim) / 2)
    )
    assert law.log_normalizer == pytest.approx(
        float(mpmath.log(mass * area)), rel=1e-12, abs=1e-12
    )
    for fraction in (0.2, 0.8, 1.0, 1.5):
        r = fraction * law.mean_radius
        if r < manifold.injectivity_radius:
            expected = float(by_mpmath(manifold, scale, upto=r) / mass)
            assert float(law.radial_cdf(r)) == pytest.approx(expected, rel=1e-11)
    assert law.mean_radius == pytest.approx(
        float(by_mpmath(manifold, scale, order=1) / mass), rel=1e-11
    )
    assert law.mean_square_radius == pytest.approx(
        float(by_mpmath(manifold, scale, order=2) / mass), rel=1e-11
    )


def test_circle_in_closed_form():
    r = np.linspace(0, math.pi, 50)
    for scale in (0.01, 1.0, 30.0):
        expected = erf(r / (math.sqrt(2) * scale)) / erf(
            math.pi / (math.sqrt(2) * scale)
        )
        np.testing.assert_allclose(
            RiemannianGaussian(Sphere(1), scale).radial_cdf(r), expected, atol=1e-14
        )


@pytest.mark.parametrize("dim", [1, 2, 7, 10_000])
@pytest.mark.parametrize("scale", [1e3, 1e200])
def test_wide_on_the_sphere_is_uniform(dim, scale):
    """(1 − cos r)/2 ~ Beta(d/2, d/2) under the uniform law; σ = 1e3 differs from it by (π/σ)² at most."""
    law, r = RiemannianGaussian(Sphere(dim), scale), np.linspace(0.01, 3.13, 200)
    expected = stats.beta(dim / 2, dim / 2).cdf(np.sin(r / 2) ** 2)
    np.testing.assert_allclose(
        law.radial_cdf(r), expected, atol=2e-5 if scale < 1e6 else 1e-10
    )
    x = law.sample(np.random.default_rng(0), goodness.off_origin(law.manifold), 2000)
    assert goodness.accepts(
        goodness.ks(
            x[:, 0],
            lambda c: stats.beta(dim / 2, dim / 2).cdf((1 + np.clip(c, -1, 1)) / 2),
        )
    )


@pytest.mark.parametrize(
    "manifold",
    [Sphere(10_000), Lorentz(10_000), PoincareBall(10_000), Euclidean(10_000)],
)
@pytest.mark.parametrize("scale", [1e-6, 1e-2])
def test_ten_thousand_dimensions(manifold, scale):
    law, center = RiemannianGaussian(manifold, scale), manifold.origin
    x = law.sample(np.random.default_rng(1), center, 150)
    r = manifold.dist(center, x)
    assert goodness.accepts(goodness.ks(r, law.radial_cdf))
    assert goodness.rejects(
        goodness.ks(r, RiemannianGaussian(manifold, 1.05 * scale).radial_cdf)
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize(
    "manifold", [Sphere(2), Sphere(1), Lorentz(3), PoincareBall(2), Euclidean(2)]
)
def test_from_tiny_to_large_scales(manifold, scale):
    law, center = RiemannianGaussian(manifold, scale), manifold.origin
    r = manifold.dist(center, law.sample(np.random.default_rng(2), center, 20_000))
    assert goodness.accepts(goodness.ks(r, law.radial_cdf))
    assert goodness.accepts(goodness.moment(r / scale, law.mean_radius / scale))


@pytest.mark.parametrize(
    "manifold",
    [
        Sphere(2),
        Sphere(6),
        Lorentz(2),
        Lorentz(6),
        PoincareBall(3),
        SPDAffineInvariant(2),
    ],
)
def test_a_missing_volume_factor_is_rejected(manifold):
    """exp_p of a tangent Gaussian leaves out sin(r)/r or sinh(r)/r: the commonest wrong sampler of this law."""
    scale, center = 0.7, goodness.off_origin(manifold)
    law, tangent = RiemannianGaussian(manifold, scale), TangentGaussian(manifold, scale)
    rng = np.random.default_rng(3)
    r = manifold.dist(center, law.sample(rng, center, 100_000))
    assert goodness.accepts(goodness.ks(r, law.radial_cdf))
    assert goodness.rejects(goodness.ks(r, tangent.radial_cdf))
    wrong = manifold.exp(center, tangent.sample(rng, center, 100_000))
    assert goodness.rejects(goodness.ks(manifold.dist(center, wrong), law.radial_cdf))


def test_density_integrates_to_one_over_the_sphere():
    """Over longitude and latitude about the pole, for a footpoint elsewhere."""
    law, center = RiemannianGaussian(Sphere(2), 0.4), goodness.off_origin(Sphere(2))
    node, weight = np.polynomial.legendre.leggauss(200)
    angle = 2 * np.pi * np.arange(400) / 400
    height, turn = np.meshgrid(node, angle, indexing="ij")
    ring = np.sqrt(1 - height**2)
    x = np.stack([height, ring * np.cos(turn), ring * np.sin(turn)], axis=-1)
    total = np.sum(np.exp(law.log_prob(x, center)) * weight[:, None]) * 2 * np.pi / 400
    assert total == pytest.approx(1.0, abs=1e-6)  # log_prob has a cusp at the cut locus


def test_density_integrates_to_one_over_the_disc():
    law, center = (
        RiemannianGaussian(PoincareBall(2), 0.5),
        goodness.off_origin(PoincareBall(2)),
    )
    node, weight = np.polynomial.legendre.leggauss(400)
    radius, turn = np.meshgrid(
        (1 + node) / 2, 2 * np.pi * np.arange(400) / 400, indexing="ij"
    )
    w = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    volume = 4 / (1 - radius**2) ** 2 * radius * weight[:, None] / 2 * 2 * np.pi / 400
    assert np.sum(np.exp(law.log_prob(w, center)) * volume) == pytest.approx(
        1.0, abs=1e-9
    )


@pytest.mark.parametrize(
    "manifold", [SPDAffineInvariant(2), SPDLogEuclidean(2), SPDLogCholesky(2)]
)
def test_density_integrates_to_one_over_spd_matrices(manifold):
    """In the chart X = LLᵀ, L = [[eᵃ, 0], [b, eᶜ]]: the volume form is √det of the metric pulled back by differences."""
    law = RiemannianGaussian(manifold, 0.25)
    center = np.array([[1.2, 0.3], [0.3, 0.8]])
    axis = np.linspace(-1.6, 1.6, 41)
    chart = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(
        -1, 3
    )

    def point(u):
        lower = np.zeros((*u.shape[:-1], 2, 2))
        lower[..., 0, 0], lower[..., 1, 0], lower[..., 1, 1] = (
            np.exp(u[..., 0]),
            u[..., 1],
            np.exp(u[..., 2]),
        )
        return lower @ np.swapaxes(lower, -1, -2)

    x, step = point(chart), 1e-5
    columns = [
        (point(chart + e) - point(chart - e)) / (2 * step) for e in step * np.eye(3)
    ]
    frame = np.stack([manifold.to_coordinates(x, v) for v in columns], axis=-1)
    total = (
        np.sum(np.exp(law.log_prob(x, center)) * np.abs(np.linalg.det(frame)))
        * (axis[1] - axis[0]) ** 3
    )
    assert total == pytest.approx(1.0, abs=1e-5)


def test_product_density_and_marginals():
    manifold = Product(Sphere(2), Lorentz(2))
    law, center = RiemannianGaussian(manifold, 0.5), goodness.off_origin(manifold)
    x = law.sample(np.random.default_rng(5), center, 100_000)
    parts = [RiemannianGaussian(factor, 0.5) for factor in manifold.factors]
    pieces = list(zip(parts, manifold.split(x), manifold.split(center), strict=True))
    np.testing.assert_allclose(
        law.log_prob(x[:9], center),
        sum(p.log_prob(y[:9], c) for p, y, c in pieces),
        rtol=1e-12,
    )
    for part, y, c in pieces:
        assert goodness.accepts(goodness.ks(part.manifold.dist(c, y), part.radial_cdf))
    radii = [part.manifold.dist(c, y) for part, y, c in pieces]
    assert abs(stats.spearmanr(*radii).statistic) < 4 / math.sqrt(100_000)


@pytest.mark.parametrize("dims", [(2, 5), (1, 1), (50, 2), (1, 9999)])
def test_product_radius_against_the_chi_law(dims):
    total, root = sum(dims), math.sqrt(sum(dims))
    r = np.linspace(max(0.0, root - 7), root + 7, 500)
    manifold = Product(*map(Euclidean, dims))
    convolved = ProductGaussian(
        manifold,
        1.0,
        tuple(two_point_homogeneous_law("gaussian", f, 1.0) for f in manifold.factors),
    )
    np.testing.assert_allclose(
        convolved.radial_cdf(r), stats.chi(total).cdf(r), atol=2e-6
    )
    np.testing.assert_allclose(
        RiemannianGaussian(manifold, 1.0).radial_cdf(r),
        stats.chi(total).cdf(r),
        atol=1e-12,
    )


def test_draws_that_coordinates_cannot_hold_are_refused():
    """Public parameters alone decide: distances concentrate at (d−1)σ²."""
    rng = np.random.default_rng(6)
    with pytest.raises(
        ParameterError, match=r"reaches distances of 5.* hold 36; use a smaller scale"
    ):
        RiemannianGaussian(PoincareBall(10), 2.0).sample(rng, np.zeros(10), 5)
    with pytest.raises(ParameterError, match="hold 350; use a smaller scale"):
        RiemannianGaussian(Lorentz(10), 20.0).sample(rng, Lorentz(10).origin, 5)
    with pytest.raises(ParameterError, match="hold 25"):
        RiemannianGaussian(SPDLogEuclidean(3), 5.0).sample(rng, np.eye(3), 5)
    with pytest.raises(ParameterError, match="hold 700"):
        RiemannianGaussian(SPDAffineInvariant(1), 1e3).sample(rng, np.eye(1), 5)
    with pytest.raises(ParameterError, match="beyond double precision"):
        RiemannianGaussian(Lorentz(3), 1e200).radial_cdf(1.0)
    ball = PoincareBall(2)
    far = ball.exp(ball.origin, np.array([14.0, 3.0]))
    x = RiemannianGaussian(ball, 2.9).sample(
        rng, far, 20_000
    )  # beyond the last float the ball keeps points inside
    assert np.max(ball.residual(x)) == 0
    assert np.all(np.isfinite(ball.dist(ball.origin, x)))


@pytest.mark.parametrize(
    ("manifold", "distance"),
    [
        (Sphere(2), 2.5),
        (Sphere(3), math.pi),
        (Lorentz(3), 3.0),
        (Lorentz(3), 25.0),
        (PoincareBall(3), 3.0),
        (PoincareBall(3), 9.0),
        (SPDAffineInvariant(2), 5.0),
    ],
)
def test_a_center_far_out(manifold, distance):
    law, center = (
        RiemannianGaussian(manifold, 0.8),
        goodness.off_origin(manifold, distance),
    )
    x = law.sample(np.random.default_rng(7), center, 50_000)
    assert goodness.accepts(goodness.ks(manifold.dist(center, x), law.radial_cdf))
    z = manifold.to_coordinates(center, manifold.log(center, x))
    assert goodness.accepts(goodness.mean_zero(z))
    if not isinstance(manifold, SPDAffineInvariant):
        assert goodness.accepts(goodness.directions(z))


@pytest.mark.parametrize(
    "manifold", [Stiefel(4, 2), Rotations(4), SPDBuresWasserstein(2)]
)
def test_manifolds_without_an_exact_sampler_name_the_alternative(manifold):
    with pytest.raises(ParameterError, match=r"from_coordinates.*tangent-gaussian"):
        RiemannianGaussian(manifold, 1.0)
    with pytest.raises(ParameterError, match="from_coordinates"):
        RiemannianGaussian(Product(Sphere(2), manifold), 1.0)


class TestHat:
    """The rejection loop raises when its hat is wrong, whatever the way it is wrong."""

    def hat(self, g, slope):
        return TangentEnvelope(g, slope, -30.0, math.inf, 1.0)

    def test_the_right_hat_serves(self):
        t = self.hat(lambda t: -t * t / 2, lambda t: -t).draw(
            np.random.default_rng(0), 100_000
        )
        assert goodness.accepts(goodness.ks(t, stats.norm.cdf))

    @pytest.mark.parametrize(
        ("g", "slope"),
        [
            (lambda t: -t * t / 2, lambda t: -1.2 * t),  # tangents too steep
            (
                lambda t: -(np.abs(t) ** 0.5),
                lambda t: -0.5 * np.sign(t) * np.maximum(np.abs(t), 1e-9) ** -0.5,
            ),  # convex tails
            (
                lambda t: -t * t / 2 * np.where(t > 1, np.nan, 1),
                lambda t: -t,
            ),  # not a number
        ],
    )
    def test_a_wrong_hat_raises(self, g, slope):
        with pytest.raises((EnvelopeViolation, ValueError)):
            self.hat(g, slope).draw(np.random.default_rng(0), 100_000)

    def test_a_swapped_hat_raises(self):
        """The hat of one law with the density of another: pyRiemann's 2×2 sampler had its two envelopes swapped."""
        narrow, wide = (
            self.hat(lambda t, s=s: -((t / s) ** 2) / 2, lambda t, s=s: -t / s**2)
            for s in (1.0, 1.1)
        )
        with (
            mock.patch.object(narrow, "_log_density", wide._log_density),
            pytest.raises(EnvelopeViolation, match="log f − log envelope"),
        ):
            narrow.draw(np.random.default_rng(0), 100_000)


class TestPrivacy:
    """The law and its profile are two derivations of one mechanism."""

    def test_known_values(self):
        """S² and H³ at σ = Δ = 1; the circle of errata E1."""
        assert RiemannianGaussian(Sphere(2), 1.0).profile(1.0).mu == pytest.approx(
            0.82248, abs=1e-5
        )
        assert RiemannianGaussian(Lorentz(3), 1.0).profile(1.0).mu == pytest.approx(
            1.36656, abs=1e-5
        )
        assert RiemannianGaussian(Sphere(1), 2.0).profile(1.0).delta(
            0.3
        ) == pytest.approx(0.0422557, abs=1e-7)

    @pytest.mark.parametrize(
        "manifold",
        [
            SPDLogEuclidean(2),
            SPDLogCholesky(3),
            Product(Euclidean(2), SPDLogEuclidean(2)),
        ],
    )
    def test_flat_spaces_are_euclidean(self, manifold):
        assert RiemannianGaussian(manifold, 0.5).profile(0.2).mu == pytest.approx(
            0.4, rel=1e-12
        )

    @pytest.mark.parametrize("manifold", [Sphere(3), Lorentz(2), PoincareBall(2)])
    def test_rao_distance_from_the_second_moment(self, manifold):
        """θ = Δ·√(E[r²]/d)/σ² (docs/theory/rao.md), with E[r²] from this package's own quadrature."""
        law = RiemannianGaussian(manifold, 0.7)
        expected = 0.2 * math.sqrt(law.mean_square_radius / manifold.dim) / 0.7**2
        assert law.profile(0.2).rao == pytest.approx(expected, rel=1e-6)

    def test_products_and_two_by_two_matrices(self):
        """Everything on the worse factor is one admissible split, so a product costs at least as much as each factor."""
        product = RiemannianGaussian(Product(Euclidean(2), Lorentz(2)), 1.0).profile(
            0.5
        )
        alone = [
            RiemannianGaussian(factor, 1.0).profile(0.5).delta(0.2)
            for factor in (Euclidean(2), Lorentz(2))
        ]
        assert product.delta(0.2) >= max(alone) * (1 - 1e-6)
        law = RiemannianGaussian(SPDAffineInvariant(2), 0.8)
        first = np.array([[1.2, 0.3], [0.3, 0.8]])
        worst = law.profile(0.5).delta(0.3)
        for z in np.eye(
            3
        ):  # every direction of the change is below the supremum over splits
            second = law.manifold.exp(
                first, law.manifold.from_coordinates(first, 0.5 * z)
            )
            x = law.sample(np.random.default_rng(9), first, 100_000)
            loss = law.log_prob(x, first) - law.log_prob(x, second)
            seen = np.maximum(-np.expm1(0.3 - loss), 0.0)
            assert seen.mean() <= worst + 4 * seen.std() / math.sqrt(seen.size)

    def test_no_profile_is_guessed(self):
        for manifold in (Product(Sphere(2), SPDAffineInvariant(3)),):
            with pytest.raises(ParameterError, match="tangent-gaussian"):
                RiemannianGaussian(manifold, 1.0).profile(0.1)
        with pytest.raises(ParameterError, match="no certified profile"):
            RiemannianGaussian(SPDAffineInvariant(2), 1.0).certified_delta(0.1, 0.1)

    @pytest.mark.parametrize(
        "law",
        [RiemannianGaussian(Sphere(2), 0.6), RiemannianGaussian(Lorentz(3), 0.6)],
        ids=repr,
    )
    def test_delta_of_the_draws(self, law):
        """E₁[(1 − e^{ε−L})₊] over exact draws, L from `log_prob`, against the profile and its certificate."""
        manifold, first = law.manifold, goodness.off_origin(law.manifold)
        second = manifold.exp(
            first, manifold.from_coordinates(first, 0.5 * np.eye(1, manifold.dim)[0])
        )
        x = law.sample(np.random.default_rng(8), first, 200_000)
        loss = law.log_prob(x, first) - law.log_prob(x, second)
        for eps in (0.0, 0.5):
            lower, upper = law.certified_delta(0.5, eps)
            assert lower <= law.profile(0.5).delta(eps) <= upper
            assert goodness.accepts(
                goodness.moment(
                    np.maximum(-np.expm1(eps - loss), 0.0), (lower + upper) / 2
                )
            )


def test_larger_spd_matrices_have_no_profile_beyond_the_ricci_bound():
    """Refused with the largest scale that is proved, at which there is a profile."""
    space = SPDAffineInvariant(3)
    with pytest.raises(ParameterError, match=r"ends at 0\.816497") as refused:
        RiemannianGaussian(space, 1.0).profile(0.4)
    largest = float(str(refused.value).split("ends at ")[1].split(";")[0])
    assert RiemannianGaussian(space, largest * (1 - 1e-5)).profile(0.4).mu > 0.4
    with pytest.raises(ParameterError, match="tangent-gaussian"):
        RiemannianGaussian(space, largest * (1 + 1e-5)).profile(0.4)


def test_gaussian_law_says_what_it_knows():
    law = RiemannianGaussian(Sphere(2), 0.5)
    north = Sphere(2).origin
    x = np.array([math.cos(0.3), math.sin(0.3), 0.0])
    assert law.log_prob(north, north) == pytest.approx(-law.log_normalizer, rel=1e-14)
    assert law.log_prob(x, north) - law.log_prob(north, north) == pytest.approx(
        -0.18, rel=1e-12
    )
    assert law.mean_radius == pytest.approx(law._backend.moment(1), rel=1e-14)
    assert law.mean_square_radius > law.mean_radius**2
    assert law.profile(0.1).mu < law.profile(0.2).mu
    low, high = law.certified_delta(0.2, 0.1)
    assert low <= law.profile(0.2).delta(0.1) * (1 + 1e-9)
    assert law.profile(0.2).delta(0.1) <= high * (1 + 1e-6)
    product = RiemannianGaussian(Product(Sphere(2), Euclidean(1)), 0.5)
    assert product.sample(
        np.random.default_rng(0), Product(Sphere(2), Euclidean(1)).origin, 5
    ).shape == (5, 4)
    with pytest.raises(ParameterError, match="certified"):
        product.certified_delta(0.2, 0.1)
    with pytest.raises(ParameterError, match="no exact sampler"):
        RiemannianGaussian(SPDBuresWasserstein(2), 0.5)
