"""Radial laws of constant curvature: mass, quantiles and moments by adaptive quadrature."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

from curvedp.laws.isotropic.density import (
    RadialDensity,
    TabulatedDensity,
    log_sphere_area,
)
from curvedp.laws.isotropic.space import TwoPointHomogeneousSpace
from support.goodness import form

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
    law = RadialDensity(kind, form(curvature, dim), scale)
    end = math.pi if curvature > 0 else 60 * scale * max(dim, 1)

    def density(r):
        return np.exp(
            -((r / scale) ** 2) / 2 if kind == "gaussian" else -r / scale
        ) * SN[curvature](r) ** (dim - 1)

    peak = law._peak()
    points = sorted({min(max(peak + k * scale, 0.0), end) for k in (-6, -2, 0, 2, 6)})

    def integral(f, high):
        marks = [0.0, *(p for p in points if 0 < p < high), high]
        return sum(
            integrate.quad(f, a, b, epsabs=0, epsrel=1e-12)[0]
            for a, b in itertools.pairwise(marks)
        )

    mass = integral(density, end)
    assert law.log_normalizer == pytest.approx(
        math.log(mass) + log_sphere_area(dim), abs=1e-10
    )
    for r in (peak / 2, peak + scale / 3, min(peak + 3 * scale, end)):
        assert float(law.table.cdf(r)) == pytest.approx(
            integral(density, r) / mass, rel=1e-9
        )
    for order in (1, 2):
        assert law.table.moment(order) == pytest.approx(
            integral(lambda r, k=order: r**k * density(r), end) / mass, rel=1e-9
        )
    assert all(
        density(peak) >= density(max(peak + h * scale, 0.0)) for h in (-0.01, 0.01)
    )
    if law.practical_radius < end:
        assert math.log2(
            density(law.practical_radius) / density(peak)
        ) == pytest.approx(-40, abs=1e-3)
    assert law.table.cdf(np.array([0.0, end])).tolist() == [0.0, 1.0]
    assert law.table.cdf(np.zeros((2, 3))).shape == (2, 3)


def test_many_radii_are_cut_into_blocks():
    table = RadialDensity("gaussian", form(0, 1), 1.0).table
    r = np.linspace(0, 4, 20_001)
    np.testing.assert_allclose(table.cdf(r), special.erf(r / math.sqrt(2)), rtol=1e-12)
    np.testing.assert_allclose(
        1 - table.cdf(6.0), special.erfc(6 / math.sqrt(2)), rtol=1e-6
    )


def test_areas_and_bounded_tables():
    assert [math.exp(log_sphere_area(d)) for d in (1, 2, 3)] == pytest.approx(
        [2, 2 * math.pi, 4 * math.pi]
    )
    flat = TabulatedDensity(lambda r: np.zeros_like(r), 0.0, 0.1, 2.0)
    assert flat.log_mass == pytest.approx(math.log(2.0), rel=1e-12)
    assert flat.radius_at_log_drop(5.0) == 2.0


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("k", [-9.0, -0.25, 4.0])
def test_a_space_of_another_size_has_the_same_law(kind, k):
    """Lengths in units of 1/√|κ|."""
    unit, sign = math.sqrt(abs(k)), math.copysign(1.0, k)
    one = RadialDensity(kind, form(int(sign), 4), 0.2)
    other = RadialDensity(
        kind,
        TwoPointHomogeneousSpace(((k, 3.0),), math.pi / unit if k > 0 else math.inf),
        0.2 / unit,
    )
    r = np.linspace(0.05, 1.5, 8)
    np.testing.assert_allclose(
        other.radial_cdf(r / unit), one.radial_cdf(r), rtol=1e-11
    )
    assert other.log_normalizer + 4 * math.log(unit) == pytest.approx(
        one.log_normalizer, abs=1e-11
    )
    assert other.moment(2) * unit**2 == pytest.approx(one.moment(2), rel=1e-11)
