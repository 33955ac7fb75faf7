"""What one record moves in a descent of a geodesic, computed, against what is charged for it."""

import numpy as np
import pytest

from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere
from curvedp.mechanisms.geodesic_descent import BundleDescentMechanism
from curvedp.privacy import GDP, PureDP
from curvedp.regression.bounds import PREDICTOR_UNIT
from curvedp.regression.gradient import clipped_direction
from curvedp.regression.linearity import SENSITIVITY_FACTOR
from curvedp.statistics.geodesic import GeodesicLine

N, CLIP = 10, 0.25


@pytest.mark.parametrize(
    "M", [Euclidean(2), Sphere(2), SPDAffineInvariant(2)], ids=repr
)
def test_the_worst_record_moves_the_direction_by_what_is_charged(M):
    """From one end of a clipped residual to the other at the same predictor: all of the charge, and never more of it."""
    line = GeodesicLine(M, None, 0.5, 0.6, CLIP, N, [[0.0, 1.0]])
    p, V = np.asarray(M.origin), np.zeros((1, *M.point_shape))

    def direction(x, z):
        Y = np.repeat(p[None], N, axis=0)
        Y[0] = M.from_normal_coordinates(p, z * np.eye(M.dim)[0])
        x, Y, codes = line.load_data((np.r_[x, np.linspace(0, 1, N - 1)], Y))
        return clipped_direction(
            M, x / PREDICTOR_UNIT, PREDICTOR_UNIT, Y, CLIP, p, V, codes
        ).ravel()

    ends = [direction(x, z) for x in (0.0, 0.3, 1.0) for z in (-0.45, -0.1, 0.0, 0.45)]
    moved = max(float(np.linalg.norm(a - b)) for a in ends for b in ends)
    assert 0.999 * line.sensitivity < moved <= line.sensitivity


@pytest.mark.parametrize("asked", [GDP(0.7), PureDP(1.5)], ids=repr)
def test_the_steps_and_the_last_release_add_up_to_what_was_asked(asked):
    """Each draw as it is made, one after the other, by the rule for independent releases: μ² of Gaussians, ε of Laplace."""
    line = GeodesicLine(Sphere(2), None, 0.5, 0.6, CLIP, 200, [[0.0, 1.0]])
    mechanism = BundleDescentMechanism.calibrate(line, asked)
    drawn = mechanism.release(
        (np.linspace(0, 1, 200), np.repeat(Sphere(2).origin[None], 200, axis=0))
    )
    draws = drawn.certificate.release["integers"]
    assert len(draws) == mechanism.steps + 1
    # the last release holds the direction and the spread of the predictors: no longer than √(1 + ¾η²) of a direction
    moved = [line.sensitivity] * mechanism.steps + [
        SENSITIVITY_FACTOR * line.sensitivity
    ]
    scales = [mechanism.scale] * mechanism.steps + [mechanism.final_scale]
    costs = [one / scale for one, scale in zip(moved, scales, strict=True)]
    if isinstance(asked, PureDP):
        assert 0.999 * asked.eps < sum(costs) <= asked.eps * (1 + 1e-12)
    else:
        assert 0.999 * asked.mu < float(np.linalg.norm(costs)) <= asked.mu * (1 + 1e-12)
