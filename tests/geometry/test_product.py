"""Products against their factors."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Product,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)


def test_constants_follow_from_the_factors():
    M = Product(Sphere(2), SPDAffineInvariant(2), Euclidean(1))
    assert M.dim == 2 + 3 + 1
    assert M.point_shape == (3 + 4 + 1,)
    assert M.curvature_bounds == (-0.5, 1.0)
    assert M.injectivity_radius == math.pi
    assert M.convexity_radius == math.pi / 2
    assert M.is_homogeneous
    # planes across factors are flat, so 0 is within the bounds of any product of two
    assert Product(Sphere(2), Sphere(3)).curvature_bounds == (0.0, 1.0)
    assert Product(Lorentz(2), Lorentz(2)).curvature_bounds == (-1.0, 0.0)
    assert Product(Sphere(2)).curvature_bounds == (1.0, 1.0)


def test_split_and_join_are_inverse():
    M = Product(Sphere(2), Rotations(3), Product(Euclidean(1), Lorentz(1)))
    x = np.random.default_rng(0).normal(size=(4, 2, *M.point_shape))
    parts = M.split(x)
    assert [part.shape[2:] for part in parts] == [(3,), (3, 3), (3,)]
    np.testing.assert_array_equal(M.join(parts), x)
    # leading axes of the parts are broadcast
    assert M.join([parts[0][0, 0], parts[1], parts[2][:, :1]]).shape == x.shape


def test_kernels_act_factor_by_factor():
    rng = np.random.default_rng(1)
    factors = (Sphere(2), SPDAffineInvariant(3))
    M = Product(*factors)
    p, q = M.exp(
        M.origin, M.from_coordinates(M.origin, 0.5 * rng.normal(size=(2, 7, M.dim)))
    )
    squares = [
        f.dist(a, b) ** 2
        for f, a, b in zip(factors, M.split(p), M.split(q), strict=True)
    ]
    np.testing.assert_allclose(M.dist(p, q), np.sqrt(sum(squares)), rtol=1e-14)
    for f, a, b, v in zip(
        factors, M.split(p), M.split(q), M.split(M.log(p, q)), strict=True
    ):
        np.testing.assert_allclose(v, f.log(a, b), rtol=0, atol=1e-15)


def test_one_bad_factor_is_seen_in_the_residual():
    M = Product(Sphere(2), Euclidean(2))
    x = M.origin
    x[0] = 1.5
    assert M.residual(x) == pytest.approx(0.5)


@pytest.mark.parametrize("factors", [(), (Sphere(2), 3), ("sphere",)])
def test_factors_are_manifolds(factors):
    with pytest.raises(ParameterError, match="must be one or more manifolds"):
        Product(*factors)


def test_values_compare_by_their_factors():
    assert Product(Sphere(2), Euclidean(1)) == Product(Sphere(2), Euclidean(1))
    assert Product(Sphere(2), Euclidean(1)) != Product(Euclidean(1), Sphere(2))
    assert (
        repr(Product(Sphere(2), Euclidean(1))) == "Product(Sphere(d=2), Euclidean(d=1))"
    )
