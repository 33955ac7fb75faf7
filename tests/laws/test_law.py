"""What all laws share: shapes of draws, blocks of centers, uniform directions."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    Product,
    Rotations,
    SPDAffineInvariant,
    Sphere,
    Torus,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.law import (
    check_center_and_size,
    sample_blocks,
    uniform_directions,
)


def test_shapes_blocks_and_directions():
    for size, center, shape in (
        (None, np.zeros((5, 2)), (5,)),
        (3, np.zeros(2), (3,)),
        ([4, 5], np.zeros((5, 2)), (4, 5)),
        ((), np.zeros(2), ()),
    ):
        assert check_center_and_size(size, center, (2,))[1] == shape
    for size, center in (
        (3, np.zeros((5, 2))),
        (5, np.zeros(3)),
        (5, 1.0),
        (-1, np.zeros(2)),
        ((5,), np.zeros((2, 5, 2))),
    ):
        with pytest.raises(ParameterError):
            check_center_and_size(size, center, (2,))
    centers = np.arange(70_000.0).reshape(-1, 1)
    seen = [
        (part, points) for part, points in sample_blocks(centers, (70_000,), (1,), 1)
    ]
    assert [part.start for part, _ in seen] == [0, 32_768, 65_536]
    assert seen[-1][0].stop == 70_000
    assert np.array_equal(np.concatenate([points for _, points in seen]), centers)
    assert len(list(sample_blocks(np.zeros(9), (10,), (9,), 40_000))) == 10
    assert [p.shape for _, p in sample_blocks(np.zeros(2), (40_000,), (2,), 2)] == [
        (2,)
    ] * 3
    for dim in (1, 2, 5):
        u = uniform_directions(np.random.default_rng(dim), 4000, dim)
        assert np.linalg.norm(u, axis=1) == pytest.approx(np.ones(4000), rel=1e-12)
        assert abs(u.mean(axis=0)).max() < 5 / math.sqrt(4000)
    for bad in (None, 3, np.random.RandomState(0)):
        with pytest.raises(ParameterError, match="Generator"):
            RiemannianGaussian(Sphere(2), 0.5).sample(bad, Sphere(2).origin, 3)
    with pytest.raises(ParameterError, match="manifold"):
        RiemannianGaussian("S2", 0.5)
    with pytest.raises(NotIntegrable):
        RiemannianLaplace(Lorentz(3), 0.5)


@pytest.mark.parametrize("law", [RiemannianGaussian, RiemannianLaplace])
@pytest.mark.parametrize(
    "M",
    [Sphere(2), Euclidean(2), Lorentz(2), SPDAffineInvariant(2), Rotations(3)],
    ids=repr,
)
def test_what_is_no_point_and_no_length_is_refused_in_one_line(law, M):
    noise, center = law(M, 0.4), M.origin
    for bad in (
        None,
        "1",
        1j,
        object(),
        {},
        10**400,
        np.nan,
        1.0,
        [1.0],
        np.zeros((2, 7)),
        [[1.0], [2.0, 3.0]],
    ):
        for call in (
            lambda bad=bad: noise.log_prob(bad, center),
            lambda bad=bad: noise.log_prob(center, bad),
        ):
            with pytest.raises(ParameterError) as refusal:
                call()
            assert "\n" not in str(refusal.value)
    for bad in (
        None,
        "1",
        1j,
        object(),
        {},
        np.nan,
        [1.0, np.nan],
        [[1.0], [2.0, 3.0]],
    ):
        with pytest.raises(ParameterError):
            noise.radial_cdf(bad)
    assert noise.radial_cdf([0, -1, np.inf]) == pytest.approx([0.0, 0.0, 1.0])


SPACES = [
    Sphere(1), Sphere(30), Euclidean(2), Lorentz(3), Rotations(3), KendallShapes(4), Grassmann(4, 1),
    Torus(2), *map(SPDAffineInvariant, (1, 2, 3, 5, 8)), *map(HPDAffineInvariant, (1, 2, 4)),
    Product(Sphere(2), SPDAffineInvariant(2)),
]  # fmt: skip


def made(law, M, scale):
    try:
        return law(M, scale)
    except ParameterError:  # no such law, or not at this scale
        return None


@pytest.mark.parametrize("law", [RiemannianGaussian, RiemannianLaplace])
@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_at_small_scales_every_space_is_flat(law, M):
    """The radius is a chi variable, or a gamma one. Several were raw errors: singular at few bits, or underflow."""
    flat = (
        stats.chi2(M.dim).cdf
        if law is RiemannianGaussian
        else (lambda square: stats.gamma(M.dim).cdf(np.sqrt(square)))
    )
    for scale in (1e-12, 1e-300):
        noise = made(law, M, scale)
        if noise is None:
            continue
        assert noise.radial_cdf(scale * M.dim) == pytest.approx(
            flat(M.dim**2), abs=1e-6
        )
        assert noise.radial_cdf(scale * math.sqrt(M.dim)) == pytest.approx(
            flat(M.dim), abs=1e-6
        )
        assert np.all(
            M.residual(noise.sample(np.random.default_rng(0), M.origin, 3)) < 1e-9
        )


@pytest.mark.parametrize("law", [RiemannianGaussian, RiemannianLaplace])
@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_at_large_scales_draws_are_points_of_the_law_or_refused(law, M):
    """The Gaussian on SPD(8) gave at scale 2.5 matrices of which two thirds were not positive definite."""
    for scale in (1.5, 2.5, 10.0, 1e300):
        noise = made(law, M, scale)
        if noise is None:
            continue
        try:
            points = noise.sample(np.random.default_rng(0), M.origin, 400)
        except ParameterError:  # one line says so
            continue
        distance = M.dist(M.origin, points)
        assert np.all(np.isfinite(distance)), scale
        if scale < 20:  # the quadrature of a product's distances is for such
            assert stats.kstest(noise.radial_cdf(distance), "uniform").pvalue > 1e-6, (
                scale
            )


@pytest.mark.parametrize("d", [2, 3])
def test_a_torus_is_a_product_of_circles(d):
    """Its Gaussian has independent angles, and the profile of a product where that is known."""
    torus, circles = Torus(d), Product(*[Sphere(1)] * d)
    noise = RiemannianGaussian(torus, 1.0)
    center = np.full(d, 3.0)  # near the cut, where angles wrap around
    X = noise.sample(np.random.default_rng(1), center, 20_000)
    assert stats.kstest(torus.dist(center, X), noise.radial_cdf).pvalue > 1e-3
    on_circles = RiemannianGaussian(circles, 1.0)
    assert noise.log_normalizer == pytest.approx(on_circles.log_normalizer, rel=1e-12)
    turns = np.linspace(0.0, 0.7, 7)
    shifted = center + turns[:, None]
    assert noise.log_prob(shifted, center) == pytest.approx(
        -d * turns**2 / 2 - noise.log_normalizer, abs=1e-9
    )
    mu = noise.profile(1.0).mu
    if d == 2:
        assert mu == on_circles.profile(1.0).mu < 1
    else:
        assert mu == pytest.approx(1.0)  # Theorem P6
