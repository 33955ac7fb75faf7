"""The ambient sensitivities of the utility study bound what a search over pairs of points finds, and are attained."""

import numpy as np
import pytest

from benchmarks.utility import arithmetic_sensitivity, embedded_sensitivity
from curvedp.core.statistic import Ball
from curvedp.geometry import PoincareBall, SPDAffineInvariant, Sphere


def points(manifold, center, radius, count, rng):
    z = rng.standard_normal((count, manifold.dim))
    z *= radius / np.linalg.norm(z, axis=1, keepdims=True)
    return manifold.exp(center, manifold.from_coordinates(center, z))


@pytest.mark.parametrize(
    ("manifold", "radius", "attained"),
    [
        (Sphere(2), 0.7, 0.99),
        (PoincareBall(2), 3.0, 0.95),
        (SPDAffineInvariant(2), 1.0, 0.5),
    ],
)
def test_ambient_sensitivities_bound_random_pairs(manifold, radius, attained):
    rng, center = np.random.default_rng(3), manifold.origin
    axes = tuple(range(1, 1 + len(manifold.point_shape)))
    ball = Ball(center, radius)
    x, y = (
        points(manifold, center, radius, 4000, rng),
        points(manifold, center, radius, 4000, rng),
    )
    apart = np.sqrt(np.sum((x - y) ** 2, axis=axes))
    bound = arithmetic_sensitivity(manifold, ball, 1)
    assert attained * bound <= apart.max() <= bound * (1 + 1e-12)

    step = 0.1  # pairs at this distance, around every depth of the ball
    start = np.concatenate(
        [
            points(manifold, center, share * (radius - step), 1000, rng)
            for share in (0.01, 0.3, 0.6, 1.0)
        ]
    )
    z = rng.standard_normal((len(start), manifold.dim))
    z *= step / np.linalg.norm(z, axis=1, keepdims=True)
    moved = np.sqrt(
        np.sum(
            (manifold.exp(start, manifold.from_coordinates(start, z)) - start) ** 2,
            axis=axes,
        )
    )
    bound = embedded_sensitivity(manifold, ball, step)
    assert 0.8 * bound <= moved.max() <= bound * (1 + 1e-12)
