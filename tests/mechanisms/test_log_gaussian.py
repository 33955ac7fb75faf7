"""Coordinates in the chart are floats: what their rounding moves is charged for, too."""

import mpmath as mp
import numpy as np

from curvedp.geometry import Sphere
from curvedp.mechanisms.isotropic.tangent import LogGaussianMechanism


def angle(p, q):
    """Between the directions of two float vectors, to 50 digits."""
    with mp.workdps(50):
        p, q = ([mp.mpf(float(x)) for x in v] for v in (p, q))
        cross = [p[i] * q[j] - p[j] * q[i] for i, j in ((1, 2), (2, 0), (0, 1))]
        return float(
            mp.atan2(
                mp.sqrt(sum(x * x for x in cross)),
                sum(a * b for a, b in zip(p, q, strict=True)),
            )
        )


def test_the_float_error_of_the_chart_is_charged():
    """Neighbors one rounding apart: computed coordinates move by more than the theorem about exact ones allows."""
    M, rng, radius = Sphere(2), np.random.default_rng(0), 1.0
    short = 0
    for z in rng.uniform(-0.7, 0.7, (200, 2)):
        p = np.asarray(M.from_normal_coordinates(M.origin, z))
        q = p.copy()
        q[rng.integers(3)] *= 1 + 2.0**-52
        stated = angle(p, q)
        mechanism = LogGaussianMechanism(M, stated, 1.0, M.origin, radius)
        moved = float(
            np.linalg.norm(mechanism._coordinates(p) - mechanism._coordinates(q))
        )  # before the noise
        assert moved <= mechanism.calibration_sensitivity(mechanism.statistic)
        short += moved > mechanism.statistic.chart_sensitivity
    assert short > 5  # a charge for exact coordinates alone would be too little
