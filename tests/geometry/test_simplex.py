"""The simplex against Bhattacharyya's angle, Fisher's information, and its boundary."""

import mpmath
import numpy as np
import pytest

from curvedp.geometry import Simplex, Sphere, frechet_mean


def test_distance_is_twice_the_angle_of_bhattacharyya():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), (2, 20))
    found = Simplex(3).dist(p, q)
    with mpmath.workdps(40):
        for a, b, d in zip(p, q, found, strict=True):
            a, b = ([mpmath.mpf(float(x)) for x in row] for row in (a, b))
            cosine = sum(
                mpmath.sqrt(x * y) for x, y in zip(a, b, strict=True)
            ) / mpmath.sqrt(sum(a) * sum(b))
            assert d == pytest.approx(float(2 * mpmath.acos(cosine)), rel=1e-13)


def test_the_metric_is_fishers_information():
    """Var of the score of a multinomial draw along v: Σ p (v/p)²."""
    rng = np.random.default_rng(1)
    p, v = rng.dirichlet(np.ones(3)), np.array([0.3, -0.1, -0.2])
    assert Simplex(2).norm(p, v) ** 2 == pytest.approx(
        np.sum(p * (v / p) ** 2), rel=1e-13
    )


def test_zero_entries_are_allowed():
    M = Simplex(2)
    face = np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    middle = frechet_mean(M, face)
    assert middle[2] <= 1e-16
    assert M.dist(middle, face[0]) == pytest.approx(M.dist(middle, face[1]), rel=1e-9)
    corner = np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(
        M.from_normal_coordinates(M.origin, M.normal_coordinates(M.origin, corner)),
        corner,
        atol=1e-15,
    )
    z = M.normal_coordinates(
        corner, np.array([0.2, 0.3, 0.5])
    )  # a footpoint in a corner loses nothing in the chart
    np.testing.assert_allclose(
        M.from_normal_coordinates(corner, z), [0.2, 0.3, 0.5], atol=1e-15
    )


def test_points_outside_the_orthant_move_to_the_nearest_point():
    M, rng = Simplex(2), np.random.default_rng(2)
    z = 3.0 * rng.normal(size=(500, 2))
    out = M.from_normal_coordinates(M.origin, z)
    assert np.all(out >= 0)
    np.testing.assert_allclose(out.sum(axis=-1), 1, atol=1e-15)
    beyond = M.model.from_normal_coordinates(np.sqrt(M.origin), z / 2)
    left = np.any(beyond < 0, axis=-1) & np.any(beyond > 0.1, axis=-1)
    grid = np.sqrt(rng.dirichlet(np.ones(3), 4000))
    for point, image in zip(beyond[left][:20], np.sqrt(out[left][:20]), strict=True):
        assert M.model.dist(point, image) <= np.min(M.model.dist(point, grid)) + 1e-12


def test_counts_and_percentages_stand_for_proportions():
    np.testing.assert_allclose(
        Simplex(2).from_record(np.array([[3, 0, 1], [75, 0, 25]])),
        [[0.75, 0, 0.25]] * 2,
    )
    assert np.all(np.isnan(Simplex(2).from_record(np.array([-1.0, 0.0, 0.0]))))


def test_rounding_in_the_model_counts_in_distances_of_the_simplex():
    """A point of the sphere that moves by u moves the distribution by 2u."""
    model = Sphere(3).float_set
    assert Simplex(3).float_set.roundoff_amplification(0.5) == (
        2 * model.roundoff_amplification(0.25)
    )
