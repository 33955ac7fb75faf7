"""Poses: a rotation and a translation, weighed by a public length."""

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Rotations, SpecialEuclidean, frechet_mean, parse_manifold


def pose(M, rng, n):
    return M.from_normal_coordinates(M.origin, 0.5 * rng.normal(size=(n, M.dim)))


def test_distance_is_angle_and_translation():
    M, rng = SpecialEuclidean(3, length=0.2), np.random.default_rng(0)
    p, q = pose(M, rng, 10), pose(M, rng, 10)
    turn = Rotations(3).dist(p[:, :3, :3], q[:, :3, :3])
    move = np.linalg.norm(p[:, :3, 3] - q[:, :3, 3], axis=-1) / 0.2
    np.testing.assert_allclose(M.dist(p, q), np.hypot(turn, move), rtol=1e-13)
    np.testing.assert_array_equal(M.exp(p, np.zeros_like(p)), p)


def test_invariance_and_the_mean():
    """Under g·p for rotations and translations g; the mean is that of the parts."""
    M, rng = SpecialEuclidean(3, length=2.0), np.random.default_rng(1)
    X, g = pose(M, rng, 30), pose(M, rng, 1)[0]
    np.testing.assert_allclose(
        M.dist(g @ X[0], g @ X[1]), M.dist(X[0], X[1]), rtol=1e-12
    )
    mean = frechet_mean(M, X)
    np.testing.assert_allclose(mean[:3, 3], X[:, :3, 3].mean(axis=0), atol=1e-9)
    assert (
        Rotations(3).dist(mean[:3, :3], frechet_mean(Rotations(3), X[:, :3, :3])) < 1e-8
    )


def test_the_length_is_part_of_the_name():
    M = SpecialEuclidean(3, 0.05)
    assert parse_manifold(M.name) == M
    assert parse_manifold("product(special-euclidean:2,1e-3,sphere:2)").factors[
        0
    ] == SpecialEuclidean(2, 1e-3)
    for bad in (0.0, -1.0, float("nan"), float("inf"), "1"):
        with pytest.raises(ParameterError, match="length="):
            SpecialEuclidean(3, bad)
    with pytest.raises(ParameterError, match="must be special-euclidean:n,length"):
        parse_manifold("special-euclidean:3,long")
