"""Exact draws on constant curvature: radius by quadrature, direction, footpoint, cells of a coarse grid."""

import functools

import numpy as np
import pytest
from flint import ctx
from scipy import integrate, stats

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    Sphere,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.laws.exact.radial import ExactRadialDensity, draw_radius
from curvedp.randomness import GeneratorSource
from support.goodness import accepts, form, ks, off_origin, rejects, uniform_directions

SN = {0: lambda r: r, 1: np.sin, -1: np.sinh}


def radial_cdf(
    kind: str, curvature: int, dim: int, scale: float, power: int | None = None
):
    """Simpson's rule on a fine grid; `power` other than dim − 1 is a deliberately wrong volume factor."""
    power = dim - 1 if power is None else power
    end = np.pi if curvature == 1 else 60 * scale * max(1, dim) + 40 * scale**2 * dim
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.linspace(0, end, 100_001)[1:-1]
        log = (
            -(r**2) / (2 * scale**2) if kind == "gaussian" else -r / scale
        ) + power * (
            r + np.log(-np.expm1(-2 * r) / 2)
            if curvature == -1
            else np.log(SN[curvature](r))
        )
    keep = log > log.max() - 60
    r, log = r[keep], log[keep]
    mass = integrate.cumulative_simpson(np.exp(log - log.max()), x=r, initial=0)
    return lambda x: np.interp(x, r, mass / mass[-1])


@functools.cache
def radii(
    kind: str, curvature: int, dim: int, scale: float, n: int = 8000
) -> np.ndarray:
    source = GeneratorSource(np.random.default_rng([dim, n]))
    law = ExactRadialDensity(kind, form(curvature, dim), scale)
    with ctx.workprec(64):
        return np.array([float(draw_radius(law, source).ball(64)) for _ in range(n)])


LAWS = [
    ("gaussian", 1, 1, 0.4),
    ("gaussian", 1, 2, 0.5),
    ("gaussian", 1, 2, 3.0),
    ("gaussian", 1, 49, 0.2),
    ("laplace", 1, 2, 0.25),
    ("laplace", 0, 3, 0.7),
    ("gaussian", -1, 2, 0.5),
    ("gaussian", -1, 10, 1.5),
    ("laplace", -1, 3, 0.3),
]


@pytest.mark.parametrize("law", LAWS)
def test_radius(law) -> None:
    kind, curvature, dim, scale = law
    r = radii(*law)
    assert accepts(ks(r, radial_cdf(*law)))
    if (curvature, scale) != (
        1,
        3.0,
    ):  # nearly uniform on the sphere: the scale hardly shows
        assert rejects(ks(r, radial_cdf(kind, curvature, dim, 1.1 * scale)))
    if dim > 1:
        assert rejects(ks(r, radial_cdf(*law, power=dim - 2)))
    if (
        curvature and dim > 1 and scale > 0.28
    ):  # the flat volume r^{d−1} in place of sin or sinh
        assert rejects(ks(r, radial_cdf(kind, 0, dim, scale)))


@pytest.mark.parametrize(
    "law",
    [
        ("gaussian", 1, 10_000, 0.001),
        ("gaussian", -1, 10_000, 2.0),
        ("laplace", 0, 10_000, 1e-3),
        ("gaussian", 1, 3, 1e-200),
        ("laplace", 1, 3, 1e200),
        ("laplace", -1, 2, 0.999),
        ("gaussian", -1, 1, 1e100),
    ],
)
def test_radius_at_extremes(law) -> None:
    r = radii(*law, n=300)
    assert np.all(r > 0)
    if law[1] == 1:
        assert np.all(r < np.pi)
    if law[3] == 0.999:  # sinh r·e^{−r/σ} is a difference of exponentials
        a, b = 1 / 0.999 - 1, 1 / 0.999 + 1
        assert accepts(
            ks(r, lambda x: 1 - (b * np.exp(-a * x) - a * np.exp(-b * x)) / (b - a))
        )
    elif law[3] == 1e100:
        assert accepts(ks(r / 1e100, stats.halfnorm.cdf))
    elif law[3] == 1e-200:  # flat at this scale
        assert accepts(ks(r / 1e-200, stats.chi(3).cdf))
    elif law[3] == 1e200:  # uniform on S³
        assert accepts(ks(r, radial_cdf("gaussian", 1, 3, 1e3)))
    elif law[1] == 0:
        assert accepts(ks(r, stats.gamma(10_000, scale=1e-3).cdf))
    elif law[0] == "gaussian" and law[1] == 1:
        assert accepts(
            ks(
                r / 1e-3,
                lambda x: stats.chi(10_000, scale=(1 + 9999e-6 / 3) ** -0.5).cdf(x),
            )
        )


def test_laplace_beyond_its_limit_is_refused() -> None:
    with pytest.raises(NotIntegrable, match=r"0\.25"):
        exact_laplace(Lorentz(5), 0.5, Lorentz(5).origin)
    with pytest.raises(NotIntegrable):
        exact_laplace(PoincareBall(3), 0.5, np.zeros(3))  # at the limit itself
    exact_laplace(PoincareBall(3), np.nextafter(0.5, 0), np.zeros(3))


DRAWS = [
    (exact_gaussian, Sphere(2), 0.4),
    (exact_laplace, Sphere(2), 0.3),
    (exact_gaussian, Sphere(1), 0.8),
    (exact_gaussian, Sphere(60), 0.1),
    (exact_gaussian, Lorentz(2), 0.6),
    (exact_laplace, Lorentz(3), 0.3),
    (exact_gaussian, PoincareBall(2), 0.6),
    (exact_laplace, PoincareBall(2), 0.3),
    (exact_laplace, Euclidean(2), 0.5),
    (exact_gaussian, Euclidean(3), 0.5),
]


@pytest.mark.parametrize(("sampler", "manifold", "scale"), DRAWS)
def test_draws_have_radius_direction_and_footpoint(sampler, manifold, scale) -> None:
    n = 700
    source = GeneratorSource(np.random.default_rng(11))
    center = off_origin(manifold)
    draws = [sampler(manifold, scale, center, source=source) for _ in range(n)]
    points = manifold.project(np.stack([draw.value for draw in draws]))
    kind = {exact_gaussian: "gaussian", exact_laplace: "laplace"}[sampler]
    curvature = int(manifold.curvature_bounds[0])
    log = manifold.to_coordinates(center, manifold.log(center, points))
    length = np.linalg.norm(log, axis=-1)
    cdf = radial_cdf(kind, curvature, manifold.dim, scale)
    assert accepts(ks(length, cdf))
    assert rejects(ks(1.3 * length, cdf))
    assert accepts(uniform_directions(log / length[:, None]))
    # a footpoint off by half a scale: the directions seen from there lean back
    wrong = manifold.exp(
        center, manifold.from_coordinates(center, 0.5 * scale * np.eye(manifold.dim)[0])
    )
    seen = manifold.to_coordinates(wrong, manifold.log(wrong, points))
    assert (
        rejects(uniform_directions(seen / np.linalg.norm(seen, axis=-1)[:, None]))
        or manifold.dim > 10
    )


PROJECTIVE = [
    (exact_gaussian, RiemannianGaussian, Rotations(3), 0.6),
    (exact_laplace, RiemannianLaplace, Rotations(3), 0.3),
    (exact_gaussian, RiemannianGaussian, Rotations(2), 0.6),
    (exact_gaussian, RiemannianGaussian, Grassmann(2, 1), 0.6),
    (exact_gaussian, RiemannianGaussian, Grassmann(4, 1), 0.4),
    (exact_laplace, RiemannianLaplace, Grassmann(50, 1), 0.01),
    (exact_gaussian, RiemannianGaussian, KendallShapes(3), 0.3),
    (exact_laplace, RiemannianLaplace, KendallShapes(5), 0.1),
    (exact_gaussian, RiemannianGaussian, KendallShapes(26), 0.08),
]


@pytest.mark.parametrize(("sampler", "law", "manifold", "scale"), PROJECTIVE)
def test_draws_on_projective_spaces(sampler, law, manifold, scale) -> None:
    """Radius by the law's own quadrature, uniform directions, and integers that are rounded points."""
    source, center = GeneratorSource(np.random.default_rng(12)), off_origin(manifold)
    draws = [sampler(manifold, scale, center, source=source) for _ in range(800)]
    values = np.stack([draw.value for draw in draws])
    points = np.stack([draw.point for draw in draws])
    assert (
        np.max(np.abs(values - points)) < 2.0**-29
    )  # half a cell, and the way back to the manifold
    log = manifold.to_coordinates(center, manifold.log(center, points))
    length = np.linalg.norm(log, axis=-1)
    cdf = law(manifold, scale).radial_cdf
    assert accepts(ks(length, cdf))
    assert rejects(ks(1.25 * length, cdf))
    assert accepts(uniform_directions(log / length[:, None]))
    wrong = manifold.exp(
        center, manifold.from_coordinates(center, scale * np.eye(manifold.dim)[0])
    )
    seen = manifold.to_coordinates(wrong, manifold.log(wrong, points))
    assert (
        rejects(uniform_directions(seen / np.linalg.norm(seen, axis=-1)[:, None]))
        or manifold.dim > 10
    )


def test_a_line_has_no_sign_and_a_shape_no_rotation() -> None:
    """The same line or shape, written down in another way, has the same law of integers: else ε would be infinite."""
    source = GeneratorSource(np.random.default_rng(13))
    lines, shapes = Grassmann(3, 1), KendallShapes(3)
    p, q = off_origin(lines), off_origin(shapes)
    signs = [
        np.sign(np.sum(p * exact_gaussian(lines, 0.01, p, source=source).value))
        for _ in range(400)
    ]
    assert accepts(stats.binomtest(signs.count(1.0), 400).pvalue)
    turned = q @ np.array([[0.0, -1.0], [1.0, 0.0]])
    phases = []
    for foot in [q, turned] * 300:
        x = exact_gaussian(shapes, 0.01, foot, source=source).value
        z, w = x[:, 0] + 1j * x[:, 1], q[:, 0] + 1j * q[:, 1]
        phases.append(np.angle(np.vdot(w, z)) / (2 * np.pi) + 0.5)
    assert accepts(ks(np.array(phases), lambda x: np.clip(x, 0, 1)))
    assert accepts(stats.ks_2samp(phases[::2], phases[1::2]).pvalue)


def test_the_footpoint_of_a_rotation_is_made_orthonormal() -> None:
    source = GeneratorSource(np.random.default_rng(14))
    p = off_origin(Rotations(3)) + 1e-9 * np.arange(9).reshape(3, 3)
    x = exact_gaussian(Rotations(3), 1e-12, p, source=source, grid=50).value
    assert np.max(np.abs(x.T @ x - np.eye(3))) < 1e-13
    assert np.max(np.abs(x - p)) < 2e-8
    for bad in (-np.eye(3), 2 * np.eye(3), np.zeros((3, 3))):
        with pytest.raises(ParameterError, match="point of"):
            exact_gaussian(Rotations(3), 1.0, bad)


# ---- cells of a coarse grid: the rounded law itself


def cells_by_quadrature(
    points: np.ndarray, weights: np.ndarray, grid: int
) -> dict[tuple[int, ...], float]:
    k = np.floor(points * 2.0**grid + 0.5).astype(np.int64) + 5000
    codes, inverse = np.unique(k @ [10**8, 10**4, 1], return_inverse=True)
    sums = np.bincount(inverse, weights=weights / weights.sum())
    keys = zip(
        codes // 10**8 - 5000,
        codes // 10**4 % 10**4 - 5000,
        codes % 10**4 - 5000,
        strict=True,
    )
    return {
        tuple(map(int, key)): float(share)
        for key, share in zip(keys, sums, strict=True)
    }


def polar(curvature: int, scale: float, power: float = 1.0, n: int = 500):
    """Midpoint rule in polar coordinates about the footpoint: radii, angles, weights."""
    end = np.pi if curvature == 1 else 7 * scale
    r = (np.arange(n) + 0.5) * end / n
    angle = (np.arange(n) + 0.5) * 2 * np.pi / n
    r, angle = np.meshgrid(r, angle, indexing="ij")
    return r, angle, np.exp(-(r**2) / (2 * scale**2)) * SN[curvature](r) ** power


def chi_square(
    draws: list[tuple[int, ...]], expected: dict[tuple[int, ...], float]
) -> float:
    observed: dict[tuple[int, ...], int] = {}
    for key in draws:
        observed[key] = observed.get(key, 0) + 1
    n = len(draws)
    large = [key for key, p in expected.items() if p * n > 20]
    counts = [observed.get(key, 0) for key in large]
    share = [expected[key] for key in large]
    return float(
        stats.chisquare(
            [*counts, n - sum(counts)], n * np.array([*share, 1 - sum(share)])
        ).pvalue
    )


@pytest.mark.parametrize("model", ["sphere", "lorentz"])
def test_cells_of_a_coarse_grid(model: str) -> None:
    scale, grid, n = 0.5, 2, 4000
    if model == "sphere":
        manifold, curvature = Sphere(2), 1
        p, a, b = (
            np.array([1.0, 2.0, 2.0]) / 3,
            np.array([2.0, 1.0, -2.0]) / 3,
            np.array([2.0, -2.0, 1.0]) / 3,
        )

        def place(r, angle):
            w = np.cos(angle)[..., None] * a + np.sin(angle)[..., None] * b
            return np.cos(r)[..., None] * p + np.sin(r)[..., None] * w
    else:
        manifold, curvature = Lorentz(2), -1
        p, a, b = (
            np.array([1.25, 0.75, 0.0]),
            np.array([0.75, 1.25, 0.0]),
            np.array([0.0, 0.0, 1.0]),
        )

        def place(r, angle):
            w = np.cos(angle)[..., None] * a + np.sin(angle)[..., None] * b
            return np.cosh(r)[..., None] * p + np.sinh(r)[..., None] * w

    source = GeneratorSource(np.random.default_rng(2))
    draws = [
        tuple(exact_gaussian(manifold, scale, p, source=source, grid=grid).integers)
        for _ in range(n)
    ]

    def p_value(scale: float, power: float = 1.0) -> float:
        r, angle, weight = polar(curvature, scale, power)
        return chi_square(
            draws,
            cells_by_quadrature(place(r, angle).reshape(-1, 3), weight.ravel(), grid),
        )

    assert accepts(p_value(scale))
    assert rejects(p_value(1.1 * scale))
    assert rejects(p_value(scale, power=0.5))


def test_cells_on_the_line() -> None:
    scale, grid, center, n = 0.4, 3, 0.3, 14_000
    source = GeneratorSource(np.random.default_rng(8))
    draws = [
        exact_gaussian(Euclidean(1), scale, [center], source=source, grid=grid)
        for _ in range(n)
    ]
    integers = [tuple(draw.integers) for draw in draws]

    def cells(scale: float, offset: float = 0.5) -> dict[tuple[int, ...], float]:
        k = np.arange(-40, 41)
        edge = stats.norm(center, scale).cdf
        share = edge((k + offset) / 2.0**grid) - edge((k + offset - 1) / 2.0**grid)
        return {(int(i),): float(s) for i, s in zip(k, share, strict=True)}

    assert accepts(chi_square(integers, cells(scale)))
    assert rejects(chi_square(integers, cells(1.05 * scale)))
    assert rejects(
        chi_square(integers, cells(scale, offset=1.0))
    )  # floor in place of nearest
