"""What one record moves in a gradient step from the center, computed, against what is charged for it."""

import numpy as np
import pytest

from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere, Stiefel
from curvedp.laws.exact import exact_gaussian
from curvedp.mechanisms import vector
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.statistics.frechet_mean import FrechetMean

N, RADIUS = 10, 0.6


@pytest.mark.parametrize(
    "M", [Euclidean(2), Sphere(2), SPDAffineInvariant(2), Stiefel(3, 2)], ids=repr
)
def test_the_worst_record_moves_the_step_by_what_is_charged(M, monkeypatch):
    """From one end of the ball to the other: all of the charge, and never more of it."""
    mechanism = GradientMechanism(statistic=FrechetMean(M, None, RADIUS, N), scale=1.0)
    others, noised = np.repeat(np.asarray(M.origin)[None], N - 1, axis=0), []

    def draw(space, scale, value, **options):
        noised.append(value / scale)  # in units of the noise, which is 1
        return exact_gaussian(space, scale, value, **options)

    monkeypatch.setattr(vector, "exact_gaussian", draw)
    for z in (
        (-5 * RADIUS, -RADIUS, 0.0, RADIUS, 5 * RADIUS)
        if M.injectivity_radius > 4
        else (-RADIUS, 0.0, RADIUS)
    ):
        mechanism.release(
            np.concatenate(
                [M.from_normal_coordinates(M.origin, z * np.eye(M.dim)[:1]), others]
            )
        )
    moved = max(float(np.linalg.norm(a - b)) for a in noised for b in noised)
    assert 0.999 * mechanism.sensitivity < moved <= mechanism.sensitivity
