"""The K-norm gradient law: exact draws against quadrature in one to four dimensions, and the geometry of its cells."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.laws.knorm import GeodesicBall, KNormLaw, TangentBundleBall

NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2


def follows(sample, values, weights):
    """KS p-value of the sample against the law that puts `weights` on a fine grid of `values`."""
    # cells at one value (a whole circle of a polar grid) are one cell; each spreads its weight about its value
    value, which = np.unique(np.round(np.ravel(values), 9), return_inverse=True)
    weight = np.bincount(which, np.ravel(weights))
    total = np.cumsum(weight)
    return kstest(
        sample, lambda x: np.interp(x, value, (total - weight / 2) / total[-1])
    ).pvalue


# ---- one and two dimensions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lipschitz", [1.0, 4.0]
)  # the constant decides the cells, not the law
def test_a_line(lipschitz):
    law = KNormLaw(GeodesicBall(Euclidean(1), np.array([2.0]), 1.5), 0.3)
    draws = law.sample(
        np.random.default_rng(0), lambda x: np.abs(x[:, 0] - 2.4), lipschitz, 150_000
    )[:, 0]

    def cdf(scale):
        def mass(x):  # ∫ from 2.4
            return np.sign(x - 2.4) * scale * -np.expm1(-np.abs(x - 2.4) / scale)

        return lambda x: (mass(x) - mass(0.5)) / (mass(3.5) - mass(0.5))

    assert kstest(draws, cdf(0.3)).pvalue > 1e-4
    assert kstest(draws, cdf(0.3 * 1.05)).pvalue < 1e-6


SURFACES = {
    "plane": (Euclidean(2), lambda r: r, 1.2),
    "sphere": (Sphere(2), np.sin, 2.0),
    "hyperboloid": (Lorentz(2), np.sinh, 1.5),
    "disc": (PoincareBall(2), np.sinh, 1.5),
}


def polar(M, center, radius, sn):
    """Points of a polar grid about the center, their coordinates and volumes; the frame does not enter the volume."""
    r, angle = NODES * radius, np.arange(120) * 2 * math.pi / 120
    z = np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle))], axis=-1)
    points = M.exp(center, M.from_coordinates(center, z))
    volume = (WEIGHTS * sn(r))[:, None] * np.ones(120)
    return z, points, volume


def surface_pvalue(name, scale, *, law_scale=None, volume=True):
    M, sn, radius = SURFACES[name]
    center = M.exp(M.origin, M.from_coordinates(M.origin, np.array([0.3, -0.4])))
    a, b = (
        M.exp(center, M.from_coordinates(center, np.array(z)))
        for z in ([0.5, 0.2], [-0.6, 0.1])
    )

    def g(x):
        return 0.7 * M.dist(x, a) + 0.3 * M.dist(x, b)

    domain = GeodesicBall(M, center, radius)
    if not volume:
        domain = type(
            "Flat",
            (GeodesicBall,),
            {"log_volume": lambda s, z: 0.0, "log_volume_bound": lambda s, *_: 0.0},
        )(M, center, radius)
    draws = KNormLaw(domain, scale).sample(np.random.default_rng(7), g, 1.0, 40_000)
    z, points, cells = polar(M, center, radius, sn)
    weight = cells * np.exp(-g(points) / (law_scale or scale))
    w = M.to_coordinates(center, M.log(center, draws))
    return follows(M.dist(draws, a), M.dist(points, a), weight), follows(
        w @ [0.6, 0.8], z @ [0.6, 0.8], weight
    )


@pytest.mark.parametrize("name", ["plane", "sphere", "hyperboloid", "disc"])
def test_surfaces(name):
    assert min(surface_pvalue(name, 0.15)) > 1e-4


@pytest.mark.parametrize("name", ["plane", "sphere", "hyperboloid"])
def test_a_scale_wrong_by_five_percent_is_rejected(name):
    assert min(surface_pvalue(name, 0.15, law_scale=0.15 * 1.05)) < 1e-6


@pytest.mark.parametrize("name", ["sphere", "hyperboloid"])
def test_a_missing_volume_factor_is_rejected(name):
    assert min(surface_pvalue(name, 2.0)) > 1e-4
    assert min(surface_pvalue(name, 2.0, volume=False)) < 1e-6


# ---- three dimensions: SPD(2) = R × H² with κ = −½ ---------------------------------------------------------------


def test_spd2_at_an_asymmetric_center():
    M, radius, scale = SPDAffineInvariant(2), 1.5, 0.4
    lower = np.array([[2.0, 0.0], [0.7, 0.5]])
    center = lower @ lower.T
    target = center + 0.4 * np.array([[1.0, 0.3], [0.3, 0.2]])

    def g(x):
        return M.dist(x, target)

    draws = KNormLaw(GeodesicBall(M, center, radius), scale).sample(
        np.random.default_rng(1), g, 1.0, 25_000
    )
    # Grid: X = L·exp((t·I + h(cos θ·σ_z + sin θ·σ_x))/√2)·Lᵀ, t² + h² ≤ R², dvol = √2·sinh(h/√2) dt dh dθ.
    theta = np.arange(32) * 2 * math.pi / 32
    nodes, weights = np.polynomial.legendre.leggauss(60)
    t, share, q = np.meshgrid(
        (2 * NODES - 1) * radius, (nodes + 1) / 2, theta, indexing="ij"
    )
    h = share * np.sqrt(radius**2 - t**2)
    cosh, sinh, e = (
        np.cosh(h / math.sqrt(2)),
        np.sinh(h / math.sqrt(2)),
        np.exp(t / math.sqrt(2)),
    )
    inner = np.stack(
        [
            np.stack([e * (cosh + sinh * np.cos(q)), e * sinh * np.sin(q)], -1),
            np.stack([e * sinh * np.sin(q), e * (cosh - sinh * np.cos(q))], -1),
        ],
        -2,
    )
    points = lower @ inner @ lower.T
    away, found = g(points), g(draws)
    weight = (
        np.exp(-away / scale)
        * sinh
        * np.sqrt(radius**2 - t**2)
        * np.outer(WEIGHTS, weights)[:, :, None]
    )
    log_det = np.log(np.linalg.det(draws)) - np.log(np.linalg.det(center))
    assert follows(log_det / math.sqrt(2), t, weight) > 1e-4
    assert follows(M.dist(draws, center), np.hypot(t, h), weight) > 1e-4
    assert follows(found, away, weight) > 1e-4
    assert follows(found, away, weight * np.exp(-0.05 * away / scale)) < 1e-6


# ---- four dimensions: tangent bundles ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plane", "sphere", "hyperboloid"])
def test_tangent_bundles(name):
    M, sn, _ = SURFACES[name]
    radius, speed, scale = 0.8, 0.9, 0.12
    center = M.exp(M.origin, M.from_coordinates(M.origin, np.array([0.3, -0.4])))
    q = M.exp(center, M.from_coordinates(center, np.array([0.2, 0.3])))
    # g = d(p,q) + ½‖v − log_p q‖; log_p q moves by at most D·coth D (κ = −1) or 1 times the motion of p
    reach = radius + math.hypot(0.2, 0.3)
    bend = reach / math.tanh(reach) if name == "hyperboloid" else 1.0

    def g(p, v):
        return M.dist(p, q) + 0.5 * M.norm(p, v - M.log(p, q))

    law = KNormLaw(TangentBundleBall(M, center, radius, speed), scale)
    p, v = law.sample(np.random.default_rng(3), g, (1 + 0.5 * bend, 0.5), 8_000)
    assert p.shape == v.shape == (8_000, *M.point_shape)
    assert np.all(M.dist(p, center) <= radius + 1e-12)
    assert np.all(M.norm(p, v) <= speed + 1e-12)
    # The integral over v depends on p through d(p,q) alone: polar grids in both.
    _, points, volume = polar(M, center, radius, sn)
    grid = np.linspace(0, reach, 60)
    u, angle = NODES * speed, np.arange(60) * 2 * math.pi / 60
    length = np.sqrt(
        u[:, None] ** 2
        + grid[:, None, None] ** 2
        - 2 * grid[:, None, None] * u[:, None] * np.cos(angle)
    )
    fibre = (
        np.exp(-0.5 * length / scale) * (u * WEIGHTS)[:, None]
    )  # (distance, speed, angle)
    distance = M.dist(points, q)
    base = volume * np.exp(-distance / scale)
    mass = np.interp(distance, grid, fibre.sum(axis=(1, 2)))
    assert follows(M.dist(p, q), distance, base * mass) > 1e-4
    assert follows(M.dist(p, center), M.dist(points, center), base * mass) > 1e-4
    share = np.array(
        [
            np.sum(base * np.interp(distance, grid, fibre[:, k].sum(axis=1)))
            for k in range(len(u))
        ]
    )
    assert follows(M.norm(p, v), u, share) > 1e-4
    # a scale wrong by 5% would reweight the law by exp(0.05·g/s)
    assert (
        follows(M.dist(p, q), distance, base * np.exp(0.25 * distance / scale) * mass)
        < 1e-6
    )


def test_an_interval_with_a_speed():
    law = KNormLaw(TangentBundleBall(Euclidean(1), np.zeros(1), 1.0, 2.0), 0.5)
    p, v = law.sample(
        np.random.default_rng(4),
        lambda p, v: 0.5 * np.abs(p[:, 0] + v[:, 0]),
        (0.5, 0.5),
        60_000,
    )
    x, y = np.meshgrid(2 * NODES - 1, 4 * NODES - 2, indexing="ij")
    weight = np.exp(-np.abs(x + y)) * np.outer(WEIGHTS, WEIGHTS)
    assert follows(p[:, 0], x, weight) > 1e-4
    assert follows(v[:, 0], y, weight) > 1e-4
    assert follows(np.abs(p + v)[:, 0], np.abs(x + y), weight) > 1e-4
    assert (
        follows(
            np.abs(p + v)[:, 0], np.abs(x + y), weight * np.exp(0.1 * np.abs(x + y))
        )
        < 1e-6
    )  # scale 10% off


# ---- the geometry behind the cells, by finite differences -----------------------------------------------------------

MANIFOLDS = [
    Euclidean(3), Sphere(1), Sphere(2), Sphere(4), Lorentz(3), PoincareBall(2), SPDAffineInvariant(2), SPDLogEuclidean(2),
    KendallShapes(3), KendallShapes(4), Rotations(3),
]  # fmt: skip


@pytest.mark.parametrize("M", MANIFOLDS, ids=repr)
def test_volume_density_and_stretch(M):
    rng = np.random.default_rng(5)
    radius = min(1.5, 0.9 * M.injectivity_radius)
    center = M.exp(
        M.origin, M.from_coordinates(M.origin, 0.3 * rng.standard_normal(M.dim))
    )
    ball = GeodesicBall(M, center, radius)
    z = rng.standard_normal((20, 1, M.dim))
    z *= radius * rng.random((20, 1, 1)) / np.linalg.norm(z, axis=2, keepdims=True)
    step = 1e-5
    p = ball.points(z)[0]
    columns = [
        M.to_coordinates(
            p,
            M.log(p, ball.points(z + step * e)[0])
            - M.log(p, ball.points(z - step * e)[0]),
        )
        / (2 * step)
        for e in np.eye(M.dim)
    ]
    jacobian = np.stack(columns, axis=-1)
    assert np.exp(ball.log_volume(z)) == pytest.approx(
        np.abs(np.linalg.det(jacobian)), rel=1e-6
    )
    largest = np.linalg.norm(jacobian, ord=2, axis=(1, 2))
    assert np.all(largest <= ball.stretch(np.linalg.norm(z, axis=2))[:, 0] * (1 + 1e-7))


@pytest.mark.parametrize(
    "M",
    [Sphere(2), Lorentz(2), PoincareBall(2), KendallShapes(3), Euclidean(2)],
    ids=repr,
)
def test_the_frame_turns_no_faster_than_the_swept_area(M):
    rng = np.random.default_rng(6)
    radius = min(1.5, 0.9 * M.injectivity_radius)
    bundle = TangentBundleBall(M, None, radius, 1.0)
    z = rng.standard_normal((200, 2, 2))
    z *= (
        np.array([radius, 1.0])[:, None]
        * np.sqrt(rng.random((200, 2, 1)))
        / np.linalg.norm(z, axis=2, keepdims=True)
    )
    step = 1e-5 * rng.standard_normal((200, 2))
    moved = z.copy()
    moved[:, 0] += step
    (p, v), (q, w) = bundle.points(z), bundle.points(moved)
    high = np.linalg.norm(z, axis=2)
    turned = M.norm(q, w - M.transport(p, q, v))
    allowed = (bundle.lipschitz((1e-300, 1.0), high)[:, 0]) * np.linalg.norm(
        step, axis=1
    )
    assert np.all(turned <= allowed * (1 + 1e-3) + 1e-14)
    if Euclidean(2) != M:
        assert np.max(turned / allowed) > 0.95  # and the bound is attained


# ---- what must raise --------------------------------------------------------------------------------------------------


def test_a_lipschitz_constant_that_is_too_small_raises():
    M = Sphere(2)
    law = KNormLaw(GeodesicBall(M, None, 1.0), 0.1)
    with pytest.raises(EnvelopeViolation, match="Lipschitz"):
        law.sample(np.random.default_rng(0), lambda x: M.dist(x, M.origin), 0.6, 10)
    bundle = KNormLaw(TangentBundleBall(M, None, 0.5, 1.0), 0.1)
    with pytest.raises(EnvelopeViolation, match="Lipschitz"):
        bundle.sample(
            np.random.default_rng(0), lambda p, v: M.norm(p, v), (1.0, 0.6), 10
        )


@pytest.mark.parametrize(
    "g",
    [
        lambda x: np.full(len(x), np.nan),
        lambda x: -np.ones(len(x)),
        lambda x: np.ones((len(x), 1)),
    ],
)
def test_a_gradient_norm_that_is_none_raises(g):
    with pytest.raises(EnvelopeViolation, match=">= 0"):
        KNormLaw(GeodesicBall(Sphere(2), None, 1.0), 0.1).sample(
            np.random.default_rng(0), g, 1.0, 3
        )


SMALL = [
    Euclidean(1), Euclidean(3), Sphere(1), Sphere(2), Sphere(4), Lorentz(2), PoincareBall(3), Torus(2), SPDAffineInvariant(1),
    SPDAffineInvariant(2), HPDAffineInvariant(2), SPDLogEuclidean(2), SPDLogCholesky(2), KendallShapes(3), KendallShapes(4),
    Rotations(2), Rotations(3), Grassmann(4, 1),
]  # fmt: skip


@pytest.mark.parametrize("M", SMALL, ids=str)
def test_the_volume_is_the_determinant_of_exp(M):
    """By differences of exp alone, at a center that is not the origin: no curvature is asked."""
    rng, h = np.random.default_rng(5), 1e-5
    center = M.from_normal_coordinates(M.origin, 0.2 * rng.standard_normal(M.dim))
    radius = 0.9 * min(M.injectivity_radius, 1.5)
    z = rng.standard_normal((20, M.dim))
    z *= radius * rng.random((20, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
    p, step = M.from_normal_coordinates(center, z), h * np.eye(M.dim)[:, None]
    columns = (
        M.normal_coordinates(p, M.from_normal_coordinates(center, z + step))
        - M.normal_coordinates(p, M.from_normal_coordinates(center, z - step))
    ) / (2 * h)
    found = np.linalg.slogdet(np.moveaxis(columns, 0, -1))[1]
    np.testing.assert_allclose(
        GeodesicBall(M, center, radius).log_volume(z[:, None]), found, atol=1e-7
    )


def test_bad_parameters_are_refused():
    def zero(x):
        return np.zeros(len(x))

    rng = np.random.default_rng(0)
    for radius in (0.0, -1.0, math.nan, math.inf, math.pi):
        with pytest.raises(ParameterError, match="radius"):
            GeodesicBall(Sphere(2), None, radius)
    with pytest.raises(ParameterError, match="center"):
        GeodesicBall(Sphere(2), np.array([2.0, 0.0, 0.0]), 1.0)
    with pytest.raises(ParameterError, match="dimension 5"):
        GeodesicBall(Euclidean(5), None, 1.0)
    with pytest.raises(ParameterError, match="dimension 6"):
        TangentBundleBall(SPDAffineInvariant(2), None, 1.0, 1.0)
    with pytest.raises(ParameterError, match="not available"):
        GeodesicBall(Stiefel(3, 1), None, 0.1)
    with pytest.raises(ParameterError, match="speed"):
        TangentBundleBall(Sphere(2), None, 1.0, 0.0)
    ball = GeodesicBall(Sphere(2), None, 1.0)
    with pytest.raises(ParameterError, match="scale"):
        KNormLaw(ball, math.nan)
    with pytest.raises(ParameterError, match="domain"):
        KNormLaw(Sphere(2), 1.0)
    with pytest.raises(ParameterError, match="lipschitz"):
        KNormLaw(ball, 1.0).sample(rng, zero, math.inf, 1)
    with pytest.raises(ParameterError, match="lipschitz"):
        KNormLaw(ball, 1.0).sample(rng, zero, (1.0, 1.0), 1)
    with pytest.raises(ParameterError, match="scale=1e-12"):
        KNormLaw(ball, 1e-12).sample(rng, zero, 1.0, 1)


def test_shapes():
    def zero(*x):
        return np.zeros(len(x[0]))

    rng = np.random.default_rng(0)
    law = KNormLaw(GeodesicBall(Rotations(3), None, 1.0), 1.0)
    assert law.sample(rng, zero, 1.0).shape == (3, 3)
    assert law.sample(rng, zero, 1.0, (2, 3)).shape == (2, 3, 3, 3)
    assert law.sample(rng, zero, 1.0, 0).shape == (0, 3, 3)
    p, v = KNormLaw(TangentBundleBall(Sphere(2), None, 1.0, 1.0), 1.0).sample(
        rng, zero, 1.0, (4,)
    )
    assert p.shape == v.shape == (4, 3)


def test_a_concentrated_law_in_four_dimensions_is_found():
    """1000 records give a density 10⁻³ wide in a domain of width 1: cells must find it, and stay few."""
    M = Euclidean(2)
    target = np.array([0.31, -0.22]), np.array([0.5, 0.1])
    calls = []

    def g(p, v):
        calls.append(len(p))
        return np.hypot(
            np.linalg.norm(p - target[0], axis=1),
            0.2 * np.linalg.norm(v - target[1], axis=1),
        )

    p, v = KNormLaw(TangentBundleBall(M, None, 0.5, 1.0), 2e-3).sample(
        np.random.default_rng(8), g, (1.0, 0.2), 1
    )
    assert g(p, v)[0] < 0.05
    assert sum(calls) < 20_000


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
    assert (
        len(
            bundle.sample(
                rng(), lambda p, v: np.zeros(len(p)), lipschitz=(1.0, 0.5), size=0
            )
        )
        == 2
    )
    for bad in (math.nextafter(1e8, math.inf), 0.0, -1.0, math.nan, (1.0, 1.0), ()):
        with pytest.raises(ParameterError):
            law.sample(rng(), g, lipschitz=bad, size=0)
    for bad in (-1, 1.5, (2, -1)):
        with pytest.raises(ParameterError):
            law.sample(rng(), g, lipschitz=1.0, size=bad)
    for domain, scale in ((None, 1.0), (law.domain, 0.0)):
        with pytest.raises(ParameterError):
            KNormLaw(domain, scale)
