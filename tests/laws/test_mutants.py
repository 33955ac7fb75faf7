"""Small tests that mutants of the samplers die by: radial laws by adaptive quadrature, isometries by distances."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.radial import RadialLaw, Table, log_sphere_area
from curvedp.laws.spaceform import rays_of, space_form, space_form_factors
from goodness import form

SN = {-1: np.sinh, 0: lambda r: r, 1: np.sin}
CASES = [
    (kind, curvature, dim, scale)
    for kind in ("gaussian", "laplace")
    for curvature, dim, scale in [
        (1, 1, 0.7),
        (1, 2, 2.0),
        (1, 4, 0.2),
        (0, 1, 1.3),
        (0, 3, 1e-3),
        (-1, 2, 0.6),
        (-1, 4, 0.2),
    ]
]


@pytest.mark.parametrize(("kind", "curvature", "dim", "scale"), CASES)
def test_radial_law_by_adaptive_quadrature(kind, curvature, dim, scale):
    law = RadialLaw(kind, form(curvature, dim), scale)
    end = math.pi if curvature > 0 else 60 * scale * max(dim, 1)

    def density(r):
        return np.exp(-((r / scale) ** 2) / 2 if kind == "gaussian" else -r / scale) * SN[curvature](r) ** (dim - 1)

    peak = law._peak()
    points = sorted({min(max(peak + k * scale, 0.0), end) for k in (-6, -2, 0, 2, 6)})

    def integral(f, high):
        marks = [0.0, *(p for p in points if 0 < p < high), high]
        return sum(integrate.quad(f, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in itertools.pairwise(marks))

    mass = integral(density, end)
    assert law.log_normalizer == pytest.approx(math.log(mass) + log_sphere_area(dim), abs=1e-10)
    for r in (peak / 2, peak + scale / 3, min(peak + 3 * scale, end)):
        assert float(law.table.cdf(r)) == pytest.approx(integral(density, r) / mass, rel=1e-9)
    for order in (1, 2):
        assert law.table.moment(order) == pytest.approx(
            integral(lambda r, k=order: r**k * density(r), end) / mass, rel=1e-9
        )
    assert all(density(peak) >= density(max(peak + h * scale, 0.0)) for h in (-0.01, 0.01))
    if law.reach < end:
        assert math.log2(density(law.reach) / density(peak)) == pytest.approx(-40, abs=1e-3)
    assert law.table.cdf(np.array([0.0, end])).tolist() == [0.0, 1.0]
    assert law.table.cdf(np.zeros((2, 3))).shape == (2, 3)


def test_many_radii_are_cut_into_blocks():
    table = RadialLaw("gaussian", form(0, 1), 1.0).table
    r = np.linspace(0, 4, 20_001)
    np.testing.assert_allclose(table.cdf(r), special.erf(r / math.sqrt(2)), rtol=1e-12)
    np.testing.assert_allclose(1 - table.cdf(6.0), special.erfc(6 / math.sqrt(2)), rtol=1e-6)


def test_areas_and_bounded_tables():
    assert [math.exp(log_sphere_area(d)) for d in (1, 2, 3)] == pytest.approx([2, 2 * math.pi, 4 * math.pi])
    flat = Table(lambda r: np.zeros_like(r), 0.0, 0.1, 2.0)
    assert flat.log_mass == pytest.approx(math.log(2.0), rel=1e-12)
    assert flat.radius_where_fallen(5.0) == 2.0


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("space", "center"),
    [
        (Sphere(2), [1.0, 0.0, 0.0]),
        (Sphere(2), [-0.6, 0.0, 0.8]),
        (Sphere(1), [0.0, -1.0]),
        (Lorentz(2), [math.cosh(1.5), 0.0, math.sinh(1.5)]),
        (Lorentz(2), [math.cosh(5.0), math.sinh(5.0), 0.0]),
        (PoincareBall(2), [0.3, -0.4]),
        (PoincareBall(2), [0.0, 0.999]),
        (Euclidean(3), [5.0, 0.0, -1.0]),
        (Euclidean(1), [0.5]),
    ],
)
def test_draws_about_far_and_near_centres(kind, space, center):
    law = (RiemannianGaussian if kind == "gaussian" else RiemannianLaplace)(space, 0.4)
    center, rng = np.array(center), np.random.default_rng(7)
    x = law.sample(rng, center, 3000)
    assert np.max(np.abs(space.project(x) - x) / (1 + np.abs(x))) < 1e-9
    distance = space.dist(center, x)
    assert stats.kstest(distance, lambda r: law.radial_cdf(r)).pvalue > 1e-4
    assert stats.kstest(1.3 * distance, lambda r: law.radial_cdf(r)).pvalue < 1e-6
    coordinates = space.to_coordinates(center, space.log(center, x))  # directions are uniform
    first = coordinates[:, 0] / np.linalg.norm(coordinates, axis=1)
    if space.dim == 1:
        assert stats.binomtest(int(np.sum(first > 0)), 3000).pvalue > 1e-4
    else:
        cdf = (lambda t: 1 - np.arccos(np.clip(t, -1, 1)) / np.pi) if space.dim == 2 else (lambda t: (1 + t) / 2)
        assert stats.kstest(first, cdf).pvalue > 1e-4
        last = coordinates[:, -1] / np.linalg.norm(coordinates, axis=1)
        assert stats.kstest(last, cdf).pvalue > 1e-4
    many = law.sample(np.random.default_rng(8), np.stack([center] * 4))
    assert many.shape == (4, *space.point_shape)
    np.testing.assert_allclose(many, law.sample(np.random.default_rng(8), center, 4), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("space", "reach"),
    [
        (Lorentz(2), 350),
        (PoincareBall(2), 36),
        (SPDLogEuclidean(1), 700),
        (SPDLogCholesky(1), 350),
        (SPDLogEuclidean(2), 25),
        (SPDLogCholesky(2), 18),
        (Product(Euclidean(1), SPDLogCholesky(2)), 18),
    ],
)
def test_what_coordinates_cannot_hold_is_refused(space, reach):
    def refused(scale):
        try:
            space_form("gaussian", space, scale).check_representable()
        except ParameterError:
            return True
        return False

    low, high = 1e-3, 1e3
    assert refused(high)
    assert not refused(low)
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refused(middle) else (middle, high)
    assert space_form("gaussian", space, low).radial.reach == pytest.approx(reach, rel=1e-3)
    space_form("gaussian", Euclidean(3), 1e9).check_representable()


def test_hyperbolic_scales_beyond_doubles_are_refused():
    assert space_form("gaussian", Lorentz(2), 1e8).radial.scale == 1e8
    with pytest.raises(ParameterError, match="smaller scale"):
        _ = space_form("gaussian", Lorentz(2), 1.01e8).radial
    with pytest.raises(ParameterError, match="smaller scale"):
        _ = space_form("gaussian", Lorentz(3), 0.6e8).radial
    assert space_form("gaussian", Sphere(3), 1e9).radial.scale == 1e9


def test_which_spaces_have_constant_curvature():
    assert [rays_of(m).curvature for m in (Sphere(1), Lorentz(2), SPDAffineInvariant(1), Product(Sphere(2)))] == [
        1,
        -1,
        0,
        1,
    ]
    assert [rays_of(m) for m in (SPDAffineInvariant(2), Product(Sphere(2), Sphere(2)))] == [None, None]
    assert space_form_factors(Product(Sphere(2), SPDBuresWasserstein(2))) is None
    assert space_form_factors(SPDAffineInvariant(3)) is None
    assert space_form_factors(Lorentz(4)) == ((-1.0, 4),)
    assert space_form("gaussian", SPDAffineInvariant(2), 1.0) is None


def test_gaussian_law_says_what_it_knows():
    law = RiemannianGaussian(Sphere(2), 0.5)
    north = Sphere(2).origin
    x = np.array([math.cos(0.3), math.sin(0.3), 0.0])
    assert law.log_prob(north, north) == pytest.approx(-law.log_normalizer, rel=1e-14)
    assert law.log_prob(x, north) - law.log_prob(north, north) == pytest.approx(-0.18, rel=1e-12)
    assert law.mean_radius == pytest.approx(law._engine.radial.table.moment(1), rel=1e-14)
    assert law.mean_square_radius > law.mean_radius**2
    assert law.profile(0.1).mu < law.profile(0.2).mu
    low, high = law.certified_delta(0.2, 0.1)
    assert low <= law.profile(0.2).delta(0.1) * (1 + 1e-9)
    assert law.profile(0.2).delta(0.1) <= high * (1 + 1e-6)
    product = RiemannianGaussian(Product(Sphere(2), Euclidean(1)), 0.5)
    assert product.sample(np.random.default_rng(0), Product(Sphere(2), Euclidean(1)).origin, 5).shape == (5, 4)
    with pytest.raises(ParameterError, match="certified"):
        product.certified_delta(0.2, 0.1)
    with pytest.raises(ParameterError, match="no exact sampler"):
        RiemannianGaussian(SPDBuresWasserstein(2), 0.5)
