"""The last-bit attacks break naive float64 releases and learn nothing beyond the claimed ε from exact-then-round ones."""

import numpy as np
import pytest
from scipy import integrate

from benchmarks.naive_releases import (
    naive_lorentz_laplace,
    naive_spd_gaussian,
    naive_sphere_laplace,
)
from benchmarks.release_attacks import (
    distinguish,
    lowest_bit,
    norm_residual,
    symmetry_residual,
)
from curvedp.errors import ParameterError
from curvedp.geometry import Lorentz, SPDAffineInvariant, Sphere
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.randomness import GeneratorSource

EPS, DISTANCE = 2.0, 0.5
SCALE = DISTANCE / EPS  # the Laplace law on a homogeneous space is pure Δ/σ-DP

SPHERE = np.array([1.0, 0.0, 0.0]), np.array([np.cos(DISTANCE), np.sin(DISTANCE), 0.0])
HYPERBOLIC = (
    np.array([1.0, 0.0, 0.0]),
    np.array([np.cosh(DISTANCE), np.sinh(DISTANCE), 0.0]),
)
SHIFT = np.array([0.2, -0.1, 0.12])
SPD = np.eye(3), np.diag(np.exp(SHIFT))
SPD_SIGMA, SPD_DELTA = 1.0, 1e-4


def spd_epsilon() -> float:
    """A valid ε at δ = 1e-4 for the Gaussian on SPD(3): L ≤ (2d₁Δ + Δ²)/2σ², so δ(ε) ≤ P(d₁ > (2σ²ε − Δ²)/2Δ).

    The tail of d₁ by quadrature over the eigenvalues in spherical coordinates.
    """
    rng = np.random.default_rng(0)
    u = rng.standard_normal((2000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    r = np.linspace(0, 25, 5001)
    factor = np.prod(
        [
            np.sinh(np.abs(u[:, i] - u[:, j])[:, None] * r / 2)
            for i, j in ((0, 1), (0, 2), (1, 2))
        ],
        axis=0,
    )
    density = factor.mean(axis=0) * r**2 * np.exp(-(r**2) / (2 * SPD_SIGMA**2))
    mass = integrate.cumulative_trapezoid(density, r, initial=0)
    edge = r[np.searchsorted(mass / mass[-1], 1 - SPD_DELTA)]
    distance = np.linalg.norm(SHIFT)
    return float((2 * edge * distance + distance**2) / (2 * SPD_SIGMA**2))


def attacks(space: str, x: np.ndarray) -> dict[str, np.ndarray]:
    features = {
        f"lowest bit {i}": lowest_bit(x[..., i] if space != "spd" else x[:, i, 2])
        for i in range(3)
    }
    if space == "spd":
        return features | {"symmetry": symmetry_residual(x)}
    return features | {
        "norm": norm_residual(x, [1, 1, 1] if space == "sphere" else [-1, 1, 1])
    }


def best(
    space: str, a: np.ndarray, b: np.ndarray, delta: float = 0.0
) -> dict[str, float]:
    first, second = attacks(space, a), attacks(space, b)
    return {
        name: distinguish(first[name], second[name], delta=delta, confidence=0.9999)
        for name in first
    }


def test_naive_releases_are_broken() -> None:
    rng, n = np.random.default_rng(1), 40_000
    sphere = best("sphere", *(naive_sphere_laplace(p, SCALE, n, rng) for p in SPHERE))
    hyperbolic = best(
        "hyperbolic", *(naive_lorentz_laplace(p, SCALE, n, rng) for p in HYPERBOLIC)
    )
    spd = best(
        "spd", *(naive_spd_gaussian(p, SPD_SIGMA, n, rng) for p in SPD), delta=SPD_DELTA
    )
    assert sphere["lowest bit 1"] > EPS + 1.5
    assert sphere["norm"] > EPS
    assert hyperbolic["lowest bit 1"] > EPS + 1.5
    assert hyperbolic["norm"] > EPS
    assert spd["symmetry"] > spd_epsilon() + 1.5


def test_exact_releases_hold() -> None:
    n = 1500
    source = GeneratorSource(np.random.default_rng(2))

    def sample(
        sampler, manifold, scale, centers
    ) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        values = tuple(
            np.stack(
                [sampler(manifold, scale, p, source=source).value for _ in range(n)]
            )
            for p in centers
        )
        return values, tuple(
            manifold.project(x) for x in values
        )  # what is released, and its post-processing

    for x in sample(exact_laplace, Sphere(2), SCALE, SPHERE):
        assert max(best("sphere", *x).values()) <= EPS
    for x in sample(exact_laplace, Lorentz(2), SCALE, HYPERBOLIC):
        assert max(best("hyperbolic", *x).values()) <= EPS
    for x in sample(exact_gaussian, SPDAffineInvariant(3), SPD_SIGMA, SPD):
        found = best("spd", *x, delta=SPD_DELTA)
        assert max(found.values()) <= spd_epsilon()
        assert found["symmetry"] == 0


def test_controls_follow_the_law_they_claim() -> None:
    # Broken by their last bits only: E r on S² and H² against quadrature.
    rng, n = np.random.default_rng(3), 100_000
    r = np.linspace(0, np.pi, 100_001)
    weight = np.sin(r) * np.exp(-r / SCALE)
    angle = np.arccos(
        np.clip(naive_sphere_laplace(SPHERE[1], SCALE, n, rng) @ SPHERE[1], -1, 1)
    )
    assert (
        abs(
            angle.mean()
            - integrate.simpson(r * weight, r) / integrate.simpson(weight, r)
        )
        < 4 * angle.std() / n**0.5
    )
    r = np.linspace(0, 40, 400_001)
    weight = -np.expm1(-2 * r) * np.exp(-r * (1 / SCALE - 1))
    x, p = naive_lorentz_laplace(HYPERBOLIC[1], SCALE, n, rng), HYPERBOLIC[1]
    far = np.arccosh(np.maximum(1, x[:, 0] * p[0] - x[:, 1:] @ p[1:]))
    assert (
        abs(
            far.mean() - integrate.simpson(r * weight, r) / integrate.simpson(weight, r)
        )
        < 4 * far.std() / n**0.5
    )
    trace = np.linalg.slogdet(naive_spd_gaussian(SPD[1], 1.0, n, rng))[1]
    assert abs(trace.mean() - SHIFT.sum()) < 4 * (3 / n) ** 0.5


# ---- the tools


def test_lowest_bit_against_integer_arithmetic() -> None:
    x = np.random.default_rng(0).standard_normal(500) * 2.0 ** np.random.default_rng(
        1
    ).integers(-300, 300, 500)
    for value, place in zip(x, lowest_bit(x), strict=True):
        numerator, denominator = float(value).as_integer_ratio()
        expected = (
            1 - denominator.bit_length()
            if denominator > 1
            else (numerator & -numerator).bit_length() - 1
        )
        assert place == expected
    assert lowest_bit(0.0) == 9999


def test_distinguish_is_valid_and_finds_randomized_response() -> None:
    rng = np.random.default_rng(4)
    truth = np.log(0.8 / 0.2)
    bounds = []
    for _ in range(200):
        a, b = rng.random(2000) < 0.8, rng.random(2000) < 0.2
        bounds.append(distinguish(a.astype(int), b.astype(int), confidence=0.95))
    assert np.mean(np.array(bounds) > truth) <= 0.05 + 4 * (0.05 * 0.95 / 200) ** 0.5
    assert np.median(bounds) > truth - 0.4
    # δ is given away first: mass δ on a value that only one side shows proves nothing
    a = np.where(rng.random(20_000) < 0.01, 1, 0)
    assert distinguish(a, np.zeros(20_000, int), delta=0.015) == 0
    assert distinguish(a, np.zeros(20_000, int)) > 1


@pytest.mark.parametrize(
    "bad",
    [{"delta": -1.0}, {"delta": np.nan}, {"confidence": 1.0}, {"confidence": 0.0}],
)
def test_distinguish_refuses_bad_parameters(bad: dict) -> None:
    with pytest.raises(ParameterError):
        distinguish(np.arange(10), np.arange(10), **bad)
    with pytest.raises(ParameterError):
        distinguish([1], [2])


def test_orthonormality_residual_and_its_control() -> None:
    """exp in floats at the statistic leaves XᵀX off the identity in a way that depends on the footpoint; one grid not."""
    from benchmarks.release_attacks import orthonormality_residual
    from curvedp.geometry import Rotations

    M, rng, n = Rotations(3), np.random.default_rng(0), 20_000
    ends = (
        M.origin,
        M.exp(M.origin, M.from_coordinates(M.origin, np.array([0.5, 0.0, 0.0]))),
    )
    naive = [
        M.exp(p, M.from_coordinates(p, 0.25 * rng.standard_normal((n, 3))))
        for p in ends
    ]
    assert distinguish(*(orthonormality_residual(x) for x in naive), delta=1e-4) > 0
    exact = np.stack([np.eye(3)] * 8)
    assert len(set(orthonormality_residual(exact))) == 1


def test_orthogonality_bits_break_frames_that_were_rounded_before_they_were_moved() -> (
    None
):
    """On St(3, 2), where the signs of the residuals show nothing: 0.03 apart, and frames on the grid before the turn."""
    from benchmarks.release_attacks import orthogonality_bits
    from benchmarks.release_red_team import GRID, moved, naive_chart, pair
    from curvedp.geometry import Stiefel

    M, rng = Stiefel(3, 2), np.random.default_rng(0)
    ends, draw = pair(M), naive_chart(M, 1.0)
    rounded = [np.rint(draw(M.origin, 1000, rng) * GRID) / GRID for _ in ends]
    assert (
        distinguish(
            *(
                orthogonality_bits(moved(M, p, x))
                for p, x in zip(ends, rounded, strict=True)
            ),
            delta=1e-4,
        )
        > 3
    )
    assert (
        distinguish(*(orthogonality_bits(x) for x in rounded), delta=1e-4) == 0
    )  # nothing moved, nothing to see


def test_welch_t_on_made_up_times() -> None:
    from benchmarks.release_attacks import welch_t

    rng = np.random.default_rng(5)
    same = rng.gamma(4, 1, 4000), rng.gamma(4, 1, 4000)
    assert abs(welch_t(*same)) < 4.5
    assert abs(welch_t(same[0], 1.1 * same[1])) > 4.5
    slow = same[0].copy()
    slow[::200] *= 1000  # what else the machine does is cut off
    assert abs(welch_t(slow, same[1])) < 4.5
    with pytest.raises(ParameterError):
        welch_t([1.0], [2.0])
