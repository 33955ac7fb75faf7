"""Laws on products: the radius of a sum by chi laws and quadrature."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.geometry import (
    Euclidean,
    Product,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.laws import RiemannianGaussian
from curvedp.laws.radial_integrals import radial_moment, radial_support


def test_products_of_flat_spaces_have_the_radius_of_their_sum():
    law = RiemannianGaussian(
        Product(Euclidean(1), SPDLogEuclidean(2), Euclidean(1)), 0.7
    )
    r = np.linspace(0, 4, 200)
    assert law.radial_cdf(r) == pytest.approx(stats.chi.cdf(r / 0.7, 5), abs=1e-5)
    assert law.mean_square_radius == pytest.approx(5 * 0.49, rel=1e-9)
    assert law.mean_radius == pytest.approx(0.7 * stats.chi.mean(5), rel=1e-4)
    assert law.log_normalizer == pytest.approx(
        2.5 * math.log(2 * math.pi * 0.49), rel=1e-12
    )
    assert law.radial_cdf([1e9, -1.0]).tolist() == [1.0, 0.0]
    one = RiemannianGaussian(Product(Euclidean(3)), 0.7)
    assert one.radial_cdf(1.0) == pytest.approx(stats.chi.cdf(1 / 0.7, 3), rel=1e-9)
    matrices = RiemannianGaussian(Product(SPDAffineInvariant(2), Euclidean(1)), 0.5)
    single = RiemannianGaussian(SPDAffineInvariant(2), 0.5)
    assert matrices.mean_square_radius == pytest.approx(
        single.mean_square_radius + 0.25, rel=1e-9
    )
    assert single.mean_radius == pytest.approx(
        integrate.quad(lambda r: 1 - float(single.radial_cdf(r)), 0, 6)[0], rel=1e-6
    )
    low, high = radial_support(lambda r: stats.chi.cdf(np.asarray(r) / 2, 3), 2.0)
    assert stats.chi.cdf(low / 2, 3) <= 1e-13
    assert stats.chi.cdf(1.01 * low / 2, 3) > 1e-13
    assert stats.chi.sf(high / 2, 3) <= 1.01e-13
    assert stats.chi.sf(0.99 * high / 2, 3) > 1e-13
    for order in (1, 2, 3):
        moment = radial_moment(
            lambda r: stats.chi.cdf(np.asarray(r) / 2, 3), order, 2.0
        )
        assert moment == pytest.approx(2**order * stats.chi(3).moment(order), rel=1e-9)
    sphere = RiemannianGaussian(
        Product(Sphere(2), Sphere(1)), 50.0
    )  # all but uniform: the support ends
    assert float(sphere.radial_cdf(1.001 * math.hypot(math.pi, math.pi))) == 1.0
    truth = integrate.quad(
        lambda a: (
            math.sin(a) / 2 * min(math.sqrt(9 - a * a), math.pi) / math.pi
            if a < 3
            else 0
        ),
        0,
        3,
    )
    assert float(sphere.radial_cdf(3.0)) == pytest.approx(truth[0], abs=1e-3)


@pytest.mark.parametrize("scale", [0.03, 1.0, 40.0])
def test_products_of_any_scale(scale):
    law = RiemannianGaussian(Product(Euclidean(2), Euclidean(1)), scale)
    r = scale * np.linspace(0, 5, 60)
    assert law.radial_cdf(r) == pytest.approx(stats.chi.cdf(r / scale, 3), abs=1e-5)
    assert law.mean_radius == pytest.approx(scale * stats.chi.mean(3), rel=1e-4)
