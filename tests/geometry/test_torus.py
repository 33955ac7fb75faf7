"""The flat torus against products of circles, and the cost of its mean."""

import math

import numpy as np
import pytest

from curvedp.geometry import Product, Sphere, Torus, frechet_mean
from curvedp.mechanisms import frechet_mean_sensitivity


def on_circles(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(
        *angles.shape[:-1], -1
    )


def test_distances_are_those_of_circles():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-20, 20, (2, 200, 3))
    circles = Product(Sphere(1), Sphere(1), Sphere(1))
    np.testing.assert_allclose(
        Torus(3).dist(a, b), circles.dist(on_circles(a), on_circles(b)), atol=1e-13
    )


def test_any_number_is_an_angle_and_small_ones_keep_their_digits():
    M = Torus(2)
    np.testing.assert_allclose(
        M.project(np.array([7.0, -7.0])), [7 - 2 * math.pi, 2 * math.pi - 7], atol=1e-15
    )
    assert M.dist(np.zeros(2), np.array([3e-300, 4e-300])) == pytest.approx(
        5e-300, rel=1e-15
    )
    assert np.all(np.abs(M.project(np.array([1e308, -3.3e25]))) <= math.pi)


def test_the_mean_is_that_of_the_plane_across_the_seam():
    rng = np.random.default_rng(1)
    around = np.array([3.1, -3.0])
    plane = around + rng.uniform(-0.9, 0.9, (50, 2))
    found = frechet_mean(
        Torus(2), Torus(2).project(plane), ball=(Torus(2).project(around), 1.4)
    )
    np.testing.assert_allclose(Torus(2).dist(found, plane.mean(axis=0)), 0, atol=1e-12)
    assert frechet_mean_sensitivity(Torus(2), 1.5, 10) == pytest.approx(0.3, rel=1e-15)
