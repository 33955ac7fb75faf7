"""Draws on spaces of constant curvature: distances and directions about near and far centers, and what floats cannot hold."""

import math

import numpy as np
import pytest
from scipy import stats

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
from curvedp.laws.isotropic.law import two_point_homogeneous_law
from curvedp.laws.isotropic.space import (
    constant_curvature_factors,
    two_point_homogeneous_space,
)


def stated_space(spectrum, diameter, **constants):
    """A symmetric space of a stranger, reduced to the constants that laws ask for."""
    dim = 1 + sum(count for _, count in spectrum)
    members = {
        "jacobi_spectrum": spectrum,
        "injectivity_radius": diameter,
        "dim": dim,
        "is_homogeneous": True,
        "is_symmetric": True,
    }
    return type("Stated", (), {**members, **constants})()


@pytest.mark.parametrize(
    ("spectrum", "diameter"),
    [
        (((1.0, 3),), math.pi),  # sphere
        (((1.0, 3),), math.pi / 2),  # real projective
        (((4.0, 1), (1.0, 2)), math.pi / 2),  # complex projective
        (((1.0, 1), (0.25, 4)), math.pi),  # the same in other units
        (((-1.0, 3),), math.inf),  # hyperbolic
    ],
)
def test_spaces_with_a_proved_profile_have_a_law(spectrum, diameter):
    space = two_point_homogeneous_space(stated_space(spectrum, diameter))
    assert space.jacobi_spectrum == spectrum


@pytest.mark.parametrize(
    ("spectrum", "diameter"),
    [
        (((4.0, 3), (1.0, 4)), math.pi / 2),  # quaternionic projective
        (((4.0, 7), (1.0, 8)), math.pi / 2),  # the octonionic plane
        (((-4.0, 1), (-1.0, 2)), math.inf),  # complex hyperbolic
        (((4.0, 1), (1.0, 2)), math.pi),  # no such space
        (((1.0, 3),), math.pi / 3),  # a lens space is not two-point homogeneous
        (((3.0, 1), (1.0, 2)), math.pi / 2),  # no such space
    ],
)
def test_spaces_without_a_proved_profile_have_no_law(spectrum, diameter):
    """Their noise would be certified by the profile of another space."""
    assert two_point_homogeneous_space(stated_space(spectrum, diameter)) is None


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
def test_draws_about_far_and_near_centers(kind, space, center):
    law = (RiemannianGaussian if kind == "gaussian" else RiemannianLaplace)(space, 0.4)
    center, rng = np.array(center), np.random.default_rng(7)
    x = law.sample(rng, center, 3000)
    assert np.max(np.abs(space.project(x) - x) / (1 + np.abs(x))) < 1e-9
    distance = space.dist(center, x)
    assert stats.kstest(distance, lambda r: law.radial_cdf(r)).pvalue > 1e-4
    assert stats.kstest(1.3 * distance, lambda r: law.radial_cdf(r)).pvalue < 1e-6
    coordinates = space.to_coordinates(
        center, space.log(center, x)
    )  # directions are uniform
    first = coordinates[:, 0] / np.linalg.norm(coordinates, axis=1)
    if space.dim == 1:
        assert stats.binomtest(int(np.sum(first > 0)), 3000).pvalue > 1e-4
    else:
        cdf = (
            (lambda t: 1 - np.arccos(np.clip(t, -1, 1)) / np.pi)
            if space.dim == 2
            else (lambda t: (1 + t) / 2)
        )
        assert stats.kstest(first, cdf).pvalue > 1e-4
        last = coordinates[:, -1] / np.linalg.norm(coordinates, axis=1)
        assert stats.kstest(last, cdf).pvalue > 1e-4
    many = law.sample(np.random.default_rng(8), np.stack([center] * 4))
    assert many.shape == (4, *space.point_shape)
    np.testing.assert_allclose(
        many, law.sample(np.random.default_rng(8), center, 4), rtol=1e-12, atol=1e-12
    )


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
            two_point_homogeneous_law("gaussian", space, scale).check_representable()
        except ParameterError:
            return True
        return False

    low, high = 1e-3, 1e3
    assert refused(high)
    assert not refused(low)
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refused(middle) else (middle, high)
    assert two_point_homogeneous_law(
        "gaussian", space, low
    ).practical_radius == pytest.approx(reach, rel=1e-3)
    two_point_homogeneous_law("gaussian", Euclidean(3), 1e9).check_representable()


def test_hyperbolic_scales_beyond_doubles_are_refused():
    assert two_point_homogeneous_law("gaussian", Lorentz(2), 1e8).table.log_mass > 0
    with pytest.raises(ParameterError, match="smaller scale"):
        _ = two_point_homogeneous_law("gaussian", Lorentz(2), 1.01e8).table
    with pytest.raises(ParameterError, match="smaller scale"):
        _ = two_point_homogeneous_law("gaussian", Lorentz(3), 0.6e8).table
    assert two_point_homogeneous_law("gaussian", Sphere(3), 1e9).table.cdf(math.pi) == 1


def test_which_spaces_have_constant_curvature():
    assert [
        two_point_homogeneous_space(m).curvature
        for m in (Sphere(1), Lorentz(2), SPDAffineInvariant(1), Product(Sphere(2)))
    ] == [
        1,
        -1,
        0,
        1,
    ]
    assert [
        two_point_homogeneous_space(m)
        for m in (SPDAffineInvariant(2), Product(Sphere(2), Sphere(2)))
    ] == [None, None]
    assert (
        constant_curvature_factors(Product(Sphere(2), SPDBuresWasserstein(2))) is None
    )
    assert constant_curvature_factors(SPDAffineInvariant(3)) is None
    assert constant_curvature_factors(Lorentz(4)) == ((-1.0, 4),)
    assert two_point_homogeneous_law("gaussian", SPDAffineInvariant(2), 1.0) is None


def test_draws_about_centers_too_far_for_a_boost():
    """Beyond the limit of the boost the exponential map carries the draw: the distance is the same."""
    for space, center in (
        (Lorentz(2), Lorentz(2).exp(Lorentz(2).origin, np.array([0.0, 9.0, 0.0]))),
        (Sphere(3), None),
    ):
        at = space.origin if center is None else center
        law = RiemannianGaussian(space, 0.2)
        x = law.sample(np.random.default_rng(3), at, 2000)
        assert (
            stats.kstest(space.dist(at, x), lambda r, law=law: law.radial_cdf(r)).pvalue
            > 1e-4
        )
    south = np.array([-1.0, 0.0, 0.0])
    x = RiemannianGaussian(Sphere(2), 1e-3).sample(np.random.default_rng(0), south, 10)
    assert np.all(x[:, 0] < -0.99)
    both = np.stack([south, -south])
    x = RiemannianGaussian(Sphere(2), 1e-3).sample(
        np.random.default_rng(0), both, (5, 2)
    )
    assert x[..., 0] == pytest.approx(np.broadcast_to([-1.0, 1.0], (5, 2)), abs=1e-3)


def test_three_curved_factors_are_too_many():
    assert len(constant_curvature_factors(Product(Sphere(2), Lorentz(2))) or ()) == 2
    assert constant_curvature_factors(Product(Sphere(2), Sphere(3), Sphere(2))) is None
    assert (
        constant_curvature_factors(Product(Sphere(2), Lorentz(2), Euclidean(1))) is None
    )
