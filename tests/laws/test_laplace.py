"""The Riemannian Laplace law against integrals that share nothing with it, and where it stops to exist."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.laws import RiemannianLaplace
from support import goodness

SPACES = {
    Euclidean: (mpmath.mpf, mpmath.inf),
    Sphere: (mpmath.sin, mpmath.pi),
    Lorentz: (mpmath.sinh, mpmath.inf),
}


def by_mpmath(manifold, scale, upto=None, order=0):
    """∫₀^upto r^order·exp(−r/σ)·sn(r)^{d−1} dr with 22 digits."""
    sn, end = SPACES[type(manifold)]
    with mpmath.workdps(22):
        s, k = mpmath.mpf(scale), manifold.dim - 1
        rate = 1 / s - (k if isinstance(manifold, Lorentz) else 0)
        top = mpmath.mpf(upto) if upto is not None else min(end, (70 + 8 * k) / rate)
        cuts = [top * i / 12 for i in range(13)]
        return mpmath.quad(lambda r: r**order * mpmath.exp(-r / s) * sn(r) ** k, cuts)


CASES = [
    (Euclidean(4), 0.7),
    (Sphere(1), 2.0),
    (Sphere(2), 0.1),
    (Sphere(3), 5.0),
    (Sphere(20), 0.5),
]
CASES += [
    (Lorentz(1), 1.0),
    (Lorentz(2), 0.05),
    (Lorentz(3), 0.45),
    (Lorentz(12), 0.08),
]


@pytest.mark.parametrize(("manifold", "scale"), CASES)
def test_radial_law_against_high_precision(manifold, scale):
    law = RiemannianLaplace(manifold, scale)
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


@pytest.mark.parametrize(
    ("manifold", "limit"),
    [
        (Lorentz(5), 0.25),
        (PoincareBall(5), 0.25),
        (Lorentz(2), 1.0),
        (SPDAffineInvariant(3), math.sqrt(0.5)),
    ],
)
def test_the_limit_of_integrability_is_named(manifold, limit):
    """1/σ > d − 1 on H^d, 1/σ > √(m(m²−1)/12) on SPD(m): the volume outgrows the weight beyond."""
    for scale in (2 * limit, limit):
        with pytest.raises(NotIntegrable, match=f"unless scale < {limit:.6g}"):
            RiemannianLaplace(manifold, scale)
    assert issubclass(NotIntegrable, ParameterError)


def test_next_to_the_limit_the_law_is_still_right():
    """σ → 1/(d−1): the radius tends to the exponential law of rate 1/σ − (d−1), which doubles cannot subtract."""
    scale = math.nextafter(1 / 3, 0.0)
    with mpmath.workdps(40):
        rate = float(1 / mpmath.mpf(scale) - 3)
    law = RiemannianLaplace(Lorentz(4), scale)
    assert law.mean_radius == pytest.approx(1 / rate, rel=1e-6)
    with pytest.raises(ParameterError, match="reaches distances"):
        law.sample(np.random.default_rng(0), Lorentz(4).origin, 3)
    near = RiemannianLaplace(Lorentz(4), 0.31)
    r = Lorentz(4).dist(
        Lorentz(4).origin,
        near.sample(np.random.default_rng(0), Lorentz(4).origin, 50_000),
    )
    assert goodness.accepts(goodness.ks(r, near.radial_cdf))
    assert goodness.rejects(
        goodness.ks(r, RiemannianLaplace(Lorentz(4), 0.306).radial_cdf)
    )


def test_without_negative_curvature_every_scale_exists():
    """0.4 is too large for H⁵ and SPD(4), not for flat or round spaces of the same dimension."""
    for manifold in (
        Euclidean(5),
        Sphere(5),
        Lorentz(1),
        SPDLogEuclidean(2),
        SPDLogCholesky(2),
        SPDAffineInvariant(1),
    ):
        law = RiemannianLaplace(manifold, 0.4)
        center = goodness.off_origin(manifold)
        assert goodness.accepts(
            goodness.ks(
                manifold.dist(
                    center, law.sample(np.random.default_rng(1), center, 20_000)
                ),
                law.radial_cdf,
            )
        )


def test_wide_on_the_sphere_is_uniform():
    r = np.linspace(0.01, 3.13, 100)
    for dim in (1, 2, 50):
        expected = stats.beta(dim / 2, dim / 2).cdf(np.sin(r / 2) ** 2)
        np.testing.assert_allclose(
            RiemannianLaplace(Sphere(dim), 1e9).radial_cdf(r), expected, atol=1e-8
        )


@pytest.mark.parametrize(
    "manifold", [Sphere(10_000), Lorentz(10_000), Euclidean(10_000)]
)
def test_ten_thousand_dimensions(manifold):
    law, center = RiemannianLaplace(manifold, 5e-5), manifold.origin
    r = manifold.dist(center, law.sample(np.random.default_rng(2), center, 300))
    assert goodness.accepts(goodness.ks(r, law.radial_cdf))
    assert goodness.rejects(
        goodness.ks(r, RiemannianLaplace(manifold, 4.75e-5).radial_cdf)
    )


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(6), Lorentz(3), Lorentz(6)])
def test_a_missing_volume_factor_is_rejected(manifold):
    scale, center = 0.18, goodness.off_origin(manifold)
    r = manifold.dist(
        center,
        RiemannianLaplace(manifold, scale).sample(
            np.random.default_rng(3), center, 200_000
        ),
    )
    assert goodness.rejects(
        goodness.ks(r, stats.gamma(manifold.dim, scale=scale).cdf)
    )  # r^{d−1} for sn(r)^{d−1}


def test_density_integrates_to_one_over_the_disc():
    law, center = (
        RiemannianLaplace(PoincareBall(2), 0.1),
        goodness.off_origin(PoincareBall(2), 0.3),
    )
    node, weight = np.polynomial.legendre.leggauss(1000)
    radius, turn = np.meshgrid(
        (1 + node) / 2, 2 * np.pi * np.arange(1000) / 1000, indexing="ij"
    )
    w = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    volume = 4 / (1 - radius**2) ** 2 * radius * weight[:, None] / 2 * 2 * np.pi / 1000
    assert np.sum(np.exp(law.log_prob(w, center)) * volume) == pytest.approx(
        1.0, abs=1e-3
    )  # a cusp at the center


@pytest.mark.parametrize(
    "manifold",
    [Stiefel(4, 2), Rotations(4), Product(Sphere(2), Sphere(2)), Grassmann(4, 2)],
)
def test_manifolds_without_an_exact_sampler_are_refused(manifold):
    with pytest.raises(ParameterError, match="no exact sampler"):
        RiemannianLaplace(manifold, 0.1)


def test_delta_of_the_draws_against_the_profile():
    """E₁[(1 − e^{ε−L})₊] over exact draws, L from `log_prob`; no loss exceeds the pure Δ/σ."""
    law = RiemannianLaplace(Lorentz(3), 0.3)
    manifold, first = law.manifold, goodness.off_origin(law.manifold)
    second = manifold.exp(
        first, manifold.from_coordinates(first, np.array([0.2, 0.0, 0.0]))
    )
    x = law.sample(np.random.default_rng(8), first, 200_000)
    loss = law.log_prob(x, first) - law.log_prob(x, second)
    assert np.max(np.abs(loss)) <= 0.2 / 0.3 * (1 + 1e-9)
    for eps in (0.0, 0.3):
        lower, upper = law.certified_delta(0.2, eps)
        assert lower <= law.profile(0.2).delta(eps) <= upper
        assert goodness.accepts(
            goodness.moment(np.maximum(-np.expm1(eps - loss), 0.0), (lower + upper) / 2)
        )
