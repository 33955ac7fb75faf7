"""The Gaussian on Grassmann manifolds of rank two and more: volumes in closed form, cubature, draws with power."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import Euclidean, Grassmann, Lorentz, Product, Rotations, Sphere
from curvedp.laws import RiemannianGaussian, grassmann
from curvedp.laws.exact import exact_gaussian
from curvedp.mechanisms import GaussianMechanism
from curvedp.papers.opt.tangent import TangentGaussian
from curvedp.privacy import GDP
from curvedp.randomness.csprng import GeneratorSource
from curvedp.release.verify import verify_certificate
from support.goodness import accepts, off_origin, rejects


def log_volume_of_rotations(n):
    """O(n), a product of spheres."""
    return sum(
        math.log(2) + k / 2 * math.log(math.pi) - math.lgamma(k / 2)
        for k in range(1, n + 1)
    )


@pytest.mark.parametrize(("m", "r"), [(4, 2), (5, 2), (5, 3), (6, 3), (8, 3), (8, 4)])
def test_normalizer_between_its_two_limits(m, r) -> None:
    """Wide: the volume of O(m)/O(r)O(m−r). Narrow: that of a tangent normal, less Ricci curvature·σ²·dim/6."""
    wide = RiemannianGaussian(Grassmann(m, r), 1e6).log_normalizer
    parts = log_volume_of_rotations(r) + log_volume_of_rotations(m - r)
    assert wide == pytest.approx(log_volume_of_rotations(m) - parts, abs=1e-9)
    dim, sigma = r * (m - r), 1e-3
    narrow = RiemannianGaussian(
        Grassmann(m, r), sigma
    ).log_normalizer - dim / 2 * math.log(2 * math.pi * sigma**2)
    assert narrow == pytest.approx(-dim * (m - 2) * sigma**2 / 6, rel=1e-5)


@pytest.mark.parametrize(
    ("m", "r", "sigma"), [(4, 2, 0.4), (6, 2, 1.0), (6, 3, 0.5), (7, 4, 0.8)]
)
def test_normalizer_by_cubature(m, r, sigma) -> None:
    p = min(r, m - r)
    x, w = np.polynomial.legendre.leggauss(24)

    def weight(theta, s):
        out = math.exp(-sum(t * t for t in theta) / (2 * s**2)) * math.prod(
            map(math.sin, theta)
        ) ** (m - 2 * p)
        pairs = itertools.combinations(theta, 2)
        return out * math.prod(math.sin(a) ** 2 - math.sin(b) ** 2 for a, b in pairs)

    def nested(top, above, s):
        """Over top > θ > … below the angles above."""
        if len(above) == p:
            return weight(above, s)
        return (
            float(w @ [nested(t, (*above, t), s) for t in top * (x + 1) / 2]) * top / 2
        )

    # the constant of the volume drops out
    ratio = [math.log(nested(math.pi / 2, (), s)) for s in (sigma, 3 * sigma)]
    M = Grassmann(m, r)
    found = (
        RiemannianGaussian(M, sigma).log_normalizer
        - RiemannianGaussian(M, 3 * sigma).log_normalizer
    )
    assert found == pytest.approx(ratio[0] - ratio[1], abs=1e-8)


@pytest.mark.parametrize(
    ("m", "r", "sigma"), [(4, 2, 0.3), (4, 2, 1.0), (5, 3, 0.7), (7, 2, 50.0)]
)
def test_draws_follow_the_law(m, r, sigma) -> None:
    M = Grassmann(m, r)
    law, rng, center = (
        RiemannianGaussian(M, sigma),
        np.random.default_rng([m, r]),
        np.asarray(off_origin(M)),
    )
    x = law.sample(rng, center, 4000)
    assert np.max(M.residual(x)) < 1e-12
    distance, knots = (
        np.asarray(M.dist(center, x)),
        np.linspace(0, 1.1 * math.pi / 2 * math.sqrt(min(r, m - r)), 200),
    )
    heights = law.radial_cdf(
        knots
    )  # an integral each; straight lines between them are off by 1e-4

    def cdf(distance):
        return np.interp(distance, knots, heights)

    assert accepts(stats.kstest(cdf(distance), "uniform").pvalue)
    assert rejects(stats.kstest(cdf(1.06 * distance), "uniform").pvalue)
    assert abs(distance.mean() - law.mean_radius) < 5 * distance.std() / 63
    assert (
        abs((distance**2).mean() - law.mean_square_radius)
        < 5 * (distance**2).std() / 63
    )
    if sigma >= 0.7:  # exp of a tangent normal, the commonest wrong sampler
        wrong = M.exp(
            center, TangentGaussian(M, min(sigma, 2.0)).sample(rng, center, 4000)
        )
        assert rejects(
            stats.kstest(cdf(np.asarray(M.dist(center, wrong))), "uniform").pvalue
        )
    several = law.sample(rng, x[:6].reshape(2, 3, m, r), (2, 3))
    assert several.shape == (2, 3, m, r)


def test_wide_draws_of_rank_three_are_uniform() -> None:
    """The angle of a uniform 3-plane to a fixed line: cos² is Beta(3/2, 4/2)."""
    M = Grassmann(7, 3)
    x = RiemannianGaussian(M, 1e3).sample(np.random.default_rng(3), M.origin, 3000)
    share = np.sum(x[:, 5, :] ** 2, axis=-1)
    assert accepts(stats.kstest(share, stats.beta(1.5, 2.0).cdf).pvalue)
    narrow = RiemannianGaussian(M, 0.5).sample(np.random.default_rng(3), M.origin, 3000)
    assert rejects(
        stats.kstest(
            np.sum(narrow[:, 5, :] ** 2, axis=-1), stats.beta(1.5, 2.0).cdf
        ).pvalue
    )


def test_cdf_by_a_double_integral() -> None:
    law, r, sigma = RiemannianGaussian(Grassmann(5, 2), 0.6), 1.1, 0.6

    def mass(radius):
        def density(b, a):
            volume = math.sin(a) * math.sin(b) * math.sin(a - b) * math.sin(a + b)
            return (
                math.exp(-(a * a + b * b) / (2 * sigma**2)) * volume
                if a * a + b * b <= radius**2
                else 0.0
            )

        def top(a):
            return min(a, math.sqrt(max(radius**2 - a * a, 0.0)))

        return integrate.dblquad(
            density, 0, min(radius, math.pi / 2), 0, top, epsabs=1e-10
        )[0]

    assert law.radial_cdf(r) == pytest.approx(mass(r) / mass(10.0), abs=1e-7)


@pytest.mark.parametrize(("m", "sigma"), [(4, 0.5), (5, 0.4)])
def test_exact_draws_follow_the_law(m, sigma) -> None:
    """Accepting every tangent normal, or accepting nearly all, is noticed."""
    M = Grassmann(m, 2)
    law, center = RiemannianGaussian(M, sigma), np.asarray(off_origin(M))
    draws = [
        exact_gaussian(
            M, sigma, center, source=GeneratorSource(np.random.default_rng(k))
        )
        for k in range(700)
    ]
    points = np.array([draw.point for draw in draws])
    assert np.max(M.residual(points)) < 1e-12
    uniform = law.radial_cdf(np.asarray(M.dist(center, points)))
    assert accepts(stats.kstest(uniform, "uniform").pvalue)
    wide = 2.0 * sigma
    rng = np.random.default_rng(0)
    wrong = M.exp(center, TangentGaussian(M, wide).sample(rng, center, 700))
    wrong_distances = np.asarray(M.dist(center, wrong))
    wide_law = RiemannianGaussian(M, wide)
    assert rejects(stats.kstest(wide_law.radial_cdf(wrong_distances), "uniform").pvalue)


def test_the_released_basis_tells_nothing_about_the_basis_of_the_footpoint() -> None:
    """Its angle within the plane is uniform, although the footpoint's never changes."""
    M = Grassmann(4, 2)
    center = np.eye(4, 2)
    draws = [
        exact_gaussian(
            M, 1e-3, center, source=GeneratorSource(np.random.default_rng(k))
        ).value
        for k in range(500)
    ]
    angles = [math.atan2(draw[1, 0], draw[0, 0]) / (2 * math.pi) for draw in draws]
    assert accepts(stats.kstest(np.array(angles) % 1.0, "uniform").pvalue)
    handedness = np.array([np.linalg.det(draw[:2]) > 0 for draw in draws])
    assert 200 < np.sum(handedness) < 300


@pytest.mark.parametrize(
    ("m", "r", "sigma", "delta"),
    [(4, 2, 0.3, 0.3), (4, 2, 1.0, 1.0), (5, 2, 0.6, 0.3), (6, 3, 0.4, 0.5)],
)
def test_theorem_p6_by_likelihood_ratio_tests(m, r, sigma, delta) -> None:
    """No likelihood-ratio test does better than μ = Δ/σ; 0.8·Δ/σ is refuted at small scales.

    The densities at two centers are compared directly, so that nothing of the proof or
    of the profile is used.
    """
    M = Grassmann(m, r)
    law, rng, n = RiemannianGaussian(M, sigma), np.random.default_rng(m + r), 40_000
    direction = np.asarray(M.from_coordinates(M.origin, rng.normal(size=M.dim)))
    direction *= delta / float(M.norm(M.origin, direction))
    other = np.asarray(M.exp(M.origin, direction))
    losses = []
    for center in (M.origin, other):
        x = law.sample(rng, center, n)
        losses.append(law.log_prob(x, other) - law.log_prob(x, M.origin))
    found = []
    for threshold in np.quantile(losses[0], [0.05, 0.2, 0.5, 0.8, 0.95]):
        false_positive, power = (np.mean(loss > threshold) for loss in losses)
        found.append(stats.norm.ppf(power) - stats.norm.ppf(false_positive))
    noise = 4 * math.sqrt(2 / n) * 2.2  # four standard errors at the 5 % quantile
    mu = law.profile(delta).mu
    assert mu == pytest.approx(delta / sigma, rel=1e-12)
    assert max(found) <= mu + noise
    if sigma <= 0.4:
        assert max(found) > 0.8 * mu + noise


def squared_distances_of_planes(center, planes):
    """Return Σθ² by the singular values of 2×2 matrices in closed form."""
    products = np.einsum("mi,nmj->nij", center, planes)
    square_sum = np.sum(products**2, axis=(1, 2))
    product = np.abs(np.linalg.det(products))
    root = np.sqrt(np.maximum(square_sum**2 - 4 * product**2, 0.0))
    larger = np.sqrt(np.clip((square_sum + root) / 2, 0.0, 1.0))
    smaller = np.sqrt(np.clip((square_sum - root) / 2, 0.0, 1.0))
    return np.arccos(larger) ** 2 + np.arccos(smaller) ** 2


@pytest.mark.parametrize("m", [4, 5])
@pytest.mark.parametrize(("sigma", "delta"), [(0.6, 0.5), (1.0, 1.0), (0.5, 1.5)])
@pytest.mark.parametrize("turns", [(1.0, 0.0), (0.9, 0.436), (0.7071, 0.7071)])
def test_theorem_p6_by_integration_over_uniform_planes(m, sigma, delta, turns):
    """δ(ε) = ∫(p − e^ε·q)₊ with uniform planes as nodes, and no code of the library.

    The second center is a turn of one plane, of both by one angle, or between.
    """
    rng = np.random.default_rng(7)
    planes, _ = np.linalg.qr(rng.standard_normal((60_000, m, 2)))
    center = np.eye(m, 2)
    first, second = delta * np.array(turns) / np.hypot(*turns)
    other = np.zeros((m, 2))
    other[[0, 2], 0] = np.cos(first), np.sin(first)
    other[[1, 3], 1] = np.cos(second), np.sin(second)

    squares = squared_distances_of_planes(center, planes)
    weights = np.exp(-squares / (2 * sigma**2))
    weights /= weights.sum()
    loss = squared_distances_of_planes(other, planes) - squares
    loss /= 2 * sigma**2
    profile = RiemannianGaussian(Grassmann(m, 2), sigma).profile(delta)
    for eps in (0.0, 0.5, 1.0, 2.0):
        excess = np.maximum(1 - np.exp(eps - loss), 0.0)
        found = float(weights @ excess)
        error = math.sqrt(float(weights**2 @ (excess - found) ** 2))
        assert found <= profile.delta(eps) + 4 * error
        # It is a bound of the right size, not a far one, where noise is small.
        if eps == 0.0 and sigma == 0.6:
            assert found > 0.7 * profile.delta(eps)


@pytest.mark.parametrize(("m", "r"), [(4, 2), (5, 3), (7, 3)])
def test_the_convex_order_of_theorem_p6(m, r) -> None:
    """E(⟨u, log y⟩ − k)₊ is at most that of a normal of scale σ, for every k."""
    M, sigma, n = Grassmann(m, r), 0.8, 30_000
    law, rng = RiemannianGaussian(M, sigma), np.random.default_rng(m)
    y = law.sample(rng, M.origin, n)
    coordinates = np.asarray(M.to_coordinates(M.origin, M.log(M.origin, y)))
    u = rng.normal(size=M.dim)
    s = coordinates @ (u / np.linalg.norm(u))
    for k in (0.0, 0.4, 0.8):
        excess = np.maximum(s - k, 0.0)
        z = k / sigma
        normal_excess = sigma * (stats.norm.pdf(z) - z * stats.norm.sf(z))
        assert excess.mean() <= normal_excess + 4 * excess.std() / math.sqrt(n)


def test_the_mechanism_releases_planes_and_verifies() -> None:
    M = Grassmann(5, 2)
    mechanism = GaussianMechanism.calibrated(M, 0.01, GDP(0.5))
    assert mechanism.sigma == pytest.approx(0.02, rel=1e-9)
    release = mechanism.release(np.asarray(off_origin(M)))
    assert all(
        check.holds is not False for check in verify_certificate(release.certificate)
    )


def test_scales_without_an_exact_draw_are_refused_before_a_release() -> None:
    with pytest.raises(ParameterError, match="too wide"):
        GaussianMechanism(Grassmann(30, 2), 0.1, 3.0)
    with pytest.raises(ParameterError, match="tangent-gaussian"):
        GaussianMechanism(Grassmann(6, 3), 0.1, 0.3)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ParameterError, match="rank 2"):
        RiemannianGaussian(Grassmann(6, 3), 0.3).radial_cdf(0.5)
    with pytest.raises(ParameterError, match="accepts"):
        RiemannianGaussian(Grassmann(40, 20), 5.0).sample(
            np.random.default_rng(0), np.eye(40, 20)
        )


def test_an_envelope_below_its_target_raises(monkeypatch) -> None:
    right = grassmann._best_envelope(2, 3, 0.3)
    wrong = right._replace(intercept=right.intercept - 0.05)
    monkeypatch.setattr(grassmann, "_best_envelope", lambda *_: wrong)
    with pytest.raises(EnvelopeViolation):
        RiemannianGaussian(Grassmann(5, 2), 0.3).sample(
            np.random.default_rng(0), np.eye(5, 2), 200
        )


def test_planes_of_a_space_of_many_dimensions() -> None:
    """σ = 1/100 in 402 dimensions: the tangent normal of 2·400 dimensions, whose powers of a sine leave the doubles."""
    law = RiemannianGaussian(Grassmann(402, 2), 0.01)
    assert law.radial_cdf(0.01 * math.sqrt(800)) == pytest.approx(
        stats.chi2.cdf(800, 800), abs=0.2
    )
    assert law.radial_cdf(0.01 * math.sqrt(1000)) > 0.999
    assert law.radial_cdf(0.01 * math.sqrt(600)) < 0.01


@pytest.mark.parametrize("split", [(1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (3.0, 2.0, 1.0)])
def test_theorem_p6_on_three_spheres_by_integration(split):
    """δ(ε) = ∫(p − e^ε·q)₊ over uniform triples of S², for several splits of Δ."""
    rng, sigma, delta = np.random.default_rng(3), 0.8, 0.6
    points = rng.standard_normal((100_000, 3, 3))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    angles = delta * np.array(split) / np.linalg.norm(split)
    other = np.stack([np.cos(angles), np.sin(angles), np.zeros(3)], axis=-1)

    squares = np.sum(np.arccos(np.clip(points[..., 0], -1, 1)) ** 2, axis=1)
    cosines = np.clip(np.sum(points * other, axis=-1), -1, 1)
    loss = (np.sum(np.arccos(cosines) ** 2, axis=1) - squares) / (2 * sigma**2)
    weights = np.exp(-squares / (2 * sigma**2))
    weights /= weights.sum()

    product = Product(Sphere(2), Sphere(2), Sphere(2))
    profile = RiemannianGaussian(product, sigma).profile(delta)
    assert not profile.is_exact
    assert profile.mu == pytest.approx(delta / sigma, rel=1e-12)
    for eps in (0.0, 0.5, 1.0):
        excess = np.maximum(1 - np.exp(eps - loss), 0.0)
        found = float(weights @ excess)
        error = math.sqrt(float(weights**2 @ (excess - found) ** 2))
        assert found <= profile.delta(eps) + 4 * error


@pytest.mark.parametrize(
    "manifold",
    [
        Product(Sphere(2), Sphere(2), Sphere(2)),
        Product(Grassmann(4, 2), Euclidean(2)),
        Product(Rotations(3), Euclidean(3)),
    ],
    ids=["spheres", "planes", "poses"],
)
def test_products_of_nonnegative_curvature_release_and_verify(manifold):
    mechanism = GaussianMechanism.calibrated(manifold, 0.01, GDP(0.5))
    assert mechanism.sigma == pytest.approx(0.02, rel=1e-9)
    release = mechanism.release(np.asarray(manifold.origin))
    assert all(
        check.holds is not False for check in verify_certificate(release.certificate)
    )


def test_theorem_p6_is_not_taken_where_a_curvature_is_negative():
    product = Product(Sphere(2), Lorentz(2), Sphere(2))
    with pytest.raises(ParameterError, match="no exact profile"):
        RiemannianGaussian(product, 0.5).profile(0.1)
