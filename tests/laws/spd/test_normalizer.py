"""Normalizer, moments and radii of the affine-invariant Gaussian by quadrature."""

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy import integrate, stats

from curvedp.errors import ParameterError
from curvedp.laws.spd.normalizer import (
    _evaluate_accurately,
    _half_size_matrix,
    log_normalizer,
    log_pfaffian,
    mean_square_radius,
    radial_cdf,
)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("m", [2, 3])
def test_normalizer_moments_and_radii_by_quadrature(m, sigma):
    """ρ = trace part + r·(direction in the traceless plane): volume C·∏2sinh, C from the flat limit."""
    r = np.linspace(0, 14 * sigma + 5 * m * sigma**2, 40_001)
    if m == 2:
        log_constant, density = (
            math.log(math.sqrt(2) * math.pi),
            2 * np.sinh(r / np.sqrt(2)),
        )
    else:
        t = (np.arange(300) + 0.5) * (np.pi / 3) / 300 + np.pi / 6
        rho = np.cos(t)[:, None] * [1, -1, 0] / np.sqrt(2) + np.sin(t)[:, None] * [
            1,
            1,
            -2,
        ] / np.sqrt(6)
        pairs = ((0, 1), (0, 2), (1, 2))
        flat = (
            np.sum(np.prod([rho[:, i] - rho[:, j] for i, j in pairs], axis=0))
            * np.pi
            / 900
        )
        log_constant = 3 * math.log(2 * math.pi) - math.log(
            3 * math.sqrt(math.pi / 2) * math.sqrt(2 * math.pi) * flat
        )
        density = r * sum(
            np.prod([2 * np.sinh((x[i] - x[j]) * r / 2) for i, j in pairs], axis=0) for x in rho
        ) * (np.pi / 900)  # fmt: skip
    weight = density * np.exp(-(r**2) / (2 * sigma**2))
    mass = integrate.cumulative_simpson(weight, x=r, initial=0)
    total = math.log(mass[-1]) + 0.5 * math.log(2 * math.pi * sigma**2) + log_constant
    assert log_normalizer(m, sigma) == pytest.approx(total, abs=2e-6)
    second = integrate.simpson(r**2 * weight, x=r) / mass[-1]
    assert mean_square_radius(m, sigma) == pytest.approx(second + sigma**2, rel=1e-5)
    # the whole radius: the trace is an independent normal
    for at in (0.4, 0.8, 1.0, 1.4, 2.0):
        radius = at * math.sqrt(second + sigma**2)
        rest = np.sqrt(
            np.maximum(radius**2 - (sigma * np.linspace(-8, 8, 8001)) ** 2, 0.0)
        )
        inner = np.interp(rest, r, mass / mass[-1])
        grid = np.linspace(-8, 8, 8001)
        truth = integrate.simpson(inner * stats.norm.pdf(grid), x=grid)
        assert float(radial_cdf(m, sigma, radius)) == pytest.approx(truth, abs=2e-5)


def pfaffian(matrix):
    """The Pfaffian with its sign, by expansion along the first row."""
    total = 0.0 if len(matrix) else 1.0
    for j in range(1, len(matrix)):
        others = [k for k in range(1, len(matrix)) if k != j]
        minor = matrix[np.ix_(others, others)]
        total += (-1) ** (j - 1) * matrix[0, j] * pfaffian(minor)
    return total


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6])
def test_half_a_determinant_is_the_pfaffian(m):
    f = [0.0, *np.random.default_rng(m).random(m)]
    size = m + m % 2
    full = np.zeros((size, size))
    for j in range(m):
        for k in range(m):
            full[j, k] = f[k - j] if k >= j else -f[j - k]
    if m % 2:
        full[:m, m], full[m, :m] = 1.0, -1.0
    half = np.array(_half_size_matrix(m, f[:m], 1.0), dtype=float)
    assert np.linalg.det(half) == pytest.approx(pfaffian(full), rel=1e-9)
    assert log_pfaffian(2, 1.3) == pytest.approx(math.log(math.erf(0.65)), rel=1e-14)


def test_ends_of_the_radial_law():
    assert radial_cdf(3, 1.0, [0.0, -1.0, 1e-9, 1e3]).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert float(radial_cdf(1, 2.0, 3.0)) == pytest.approx(
        math.erf(1.5 / math.sqrt(2)), rel=1e-14
    )
    with pytest.raises(ParameterError, match="NaN"):
        radial_cdf(2, 1.0, [0.5, math.nan])
    for sigma in (0.05, 1.0, 6.0):
        r = math.sqrt(mean_square_radius(4, sigma)) * np.linspace(0.02, 4, 400)
        cdf = radial_cdf(4, sigma, r)
        assert np.all(np.diff(cdf) >= -1e-9)
        assert cdf.min() < 1e-6
        assert cdf.max() == pytest.approx(1.0, abs=1e-9)
        middle = (np.diff(cdf) * (r[1:] ** 2 + r[:-1] ** 2) / 2).sum()
        assert middle == pytest.approx(mean_square_radius(4, sigma), rel=1e-3)
    with pytest.raises(ParameterError, match="larger scale"):
        log_pfaffian(40, 1e-300)


def test_at_large_scales_the_radius_is_that_of_a_shifted_normal():
    """ρ is nearly N(σ²h, σ²I): at σ = 12, m = 3, where |σ²h| = 144·√2, the radius is within a few σ of it."""
    shift = 144 * math.sqrt(2)
    assert radial_cdf(3, 12.0, shift + np.array([-60.0, 0.0, 60.0])) == pytest.approx(
        stats.norm.cdf([-5.0, 0.0, 5.0]), abs=0.06
    )


def test_a_ball_that_is_too_wide_is_not_taken():
    def value():
        return arb(1) / 3 + arb(0, 2.0 ** -(ctx.prec // 4))

    assert float(_evaluate_accurately(value, 2, 1.0).rad()) < 2**-55
