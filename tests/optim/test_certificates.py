"""Optimizers return certificates that can be recomputed."""

from dataclasses import replace

import numpy as np
import pytest

from curvedp.geometry import Sphere
from curvedp.mechanisms.verify import verify_certificate
from curvedp.optim import FrechetMeanProblem, dp_rgd, dp_rsgd, dp_rsvrg
from curvedp.privacy import GDP, ApproxDP

M = Sphere(2)
X = M.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (200, 3)))
START, PROBLEM = np.array([1.0, 0, 0]), FrechetMeanProblem(M)
RUNS = {
    "rgd": (lambda g: dp_rgd(PROBLEM, X, START, 5, 0.7, 0.5, guarantee=g), "noise"),
    "rsgd": (lambda g: dp_rsgd(PROBLEM, X, START, 10, 20, 0.7, 0.2, guarantee=g), "noise"),
    "rsvrg": (lambda g: dp_rsvrg(PROBLEM, X, START, 2, 3, (0.7, 0.3), 0.2, guarantee=g, batch_size=20), "inner_noise"),
}


@pytest.mark.parametrize("guarantee", [ApproxDP(2.0, 1e-6), GDP(1.0)], ids=str)
@pytest.mark.parametrize("name", RUNS)
def test_certificates_hold_and_less_noise_is_refuted(name, guarantee):
    run, noise = RUNS[name]
    result = run(guarantee)
    checks = verify_certificate(result.certificate)
    assert all(check.holds is not False for check in checks), [c for c in checks if c.holds is False]
    assert any(check.holds is None and "float64" in check.claim for check in checks)
    parameters = {**result.certificate.parameters, noise: 0.8 * result.certificate.parameters[noise]}
    checks = verify_certificate(replace(result.certificate, parameters=parameters).sealed())
    assert any(check.holds is False for check in checks)
