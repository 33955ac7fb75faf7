"""What one record moves in a gradient step from the center, computed, against what is charged for it."""

import numpy as np
import pytest

from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere, Stiefel
from curvedp.mechanisms.gradient import GradientMechanism
from curvedp.mechanisms.statistic import FrechetMean

N, RADIUS = 10, 0.6


@pytest.mark.parametrize("M", [Euclidean(2), Sphere(2), SPDAffineInvariant(2), Stiefel(3, 2)], ids=repr)
def test_the_worst_record_moves_the_step_by_what_is_charged(M):
    """From one end of the ball to the other: all of the charge, and never more of it."""
    mechanism = GradientMechanism(statistic=FrechetMean(M, None, RADIUS, N), scale=1.0)
    others = np.repeat(np.asarray(M.origin)[None], N - 1, axis=0)

    def step(z):
        records = mechanism.accepted(np.concatenate([M.unchart(M.origin, z * np.eye(M.dim)[:1]), others]))
        return mechanism._divided(records.sums(mechanism._sums), N)  # what is noised is never released

    ends = [step(z) for z in (-RADIUS, 0.0, RADIUS)]
    moved = max(float(np.linalg.norm(a - b)) for a in ends for b in ends)
    assert 0.999 * mechanism.sensitivity < moved <= mechanism.sensitivity
