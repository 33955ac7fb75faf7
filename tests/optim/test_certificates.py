"""Optimizers return certificates that can be recomputed."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from curvedp.core.certificate import seal
from curvedp.geometry import Euclidean, Sphere
from curvedp.optim import FrechetMeanProblem, Problem, dp_rgd, dp_rsgd, dp_rsvrg
from curvedp.optim._loop import noisy_gradient  # what is noised, which no result tells
from curvedp.papers.rao.mean_loss import KLDP
from curvedp.privacy import GDP, ZCDP, ApproxDP, RaoDP, RenyiDP
from curvedp.release.verify import verify_certificate

M = Sphere(2)
X = M.project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (200, 3)))
START, PROBLEM = np.array([1.0, 0, 0]), FrechetMeanProblem(M)
RUNS = {
    "rgd": (lambda g: dp_rgd(PROBLEM, X, START, 5, 0.7, 0.5, guarantee=g), "noise"),
    "rsgd": (
        lambda g: dp_rsgd(PROBLEM, X, START, 10, 20, 0.7, 0.2, guarantee=g),
        "noise",
    ),
    "rsvrg": (
        lambda g: dp_rsvrg(
            PROBLEM, X, START, 2, 3, (0.7, 0.3), 0.2, guarantee=g, batch_size=20
        ),
        "inner_noise",
    ),
}


@pytest.mark.parametrize("guarantee", [ApproxDP(2.0, 1e-6), GDP(1.0)], ids=str)
@pytest.mark.parametrize("name", RUNS)
def test_certificates_hold_and_less_noise_is_refuted(name, guarantee):
    run, noise = RUNS[name]
    result = run(guarantee)
    checks = verify_certificate(result.certificate)
    assert all(check.holds is not False for check in checks), [
        c for c in checks if c.holds is False
    ]
    assert any(check.holds is None and "float64" in check.claim for check in checks)
    parameters = {
        **result.certificate.parameters,
        noise: 0.8 * result.certificate.parameters[noise],
    }
    checks = verify_certificate(
        seal(replace(result.certificate, parameters=parameters))
    )
    assert any(check.holds is False for check in checks)


@pytest.mark.parametrize(
    "guarantee", [ZCDP(0.5), RenyiDP(4.0, 1.0), RaoDP(1.0), KLDP(0.5)], ids=str
)
@pytest.mark.parametrize("name", RUNS)
def test_a_certificate_of_every_definition_holds(name, guarantee):
    checks = verify_certificate(RUNS[name][0](guarantee).certificate)
    assert all(check.holds is not False for check in checks), [
        c for c in checks if c.holds is False
    ]


def test_the_worst_record_moves_a_mean_gradient_by_what_the_certificate_states():
    """From one end of a clipped gradient to the other: all of the sensitivity, and of what T steps claim for it."""
    n, steps, clip, noise = 20, 5, 0.3, 0.05
    problem = Problem(Euclidean(2), lambda w, z: jax.numpy.sum(w * z))
    others = np.random.default_rng(0).normal(size=(n - 1, 2))
    with jax.enable_x64(True):
        ends = [
            noisy_gradient(
                problem, np.zeros(2), np.vstack([others, [x, 0.0]]), None, n, clip
            )
            for x in (-9.0, 0.1, 9.0)
        ]
    moved = max(float(np.linalg.norm(a - b)) for a in ends for b in ends)
    run = dp_rgd(
        problem,
        np.vstack([others, [9.0, 0.0]]),
        np.zeros(2),
        steps,
        clip,
        0.1,
        noise=noise,
    )
    assert 0.999 * run.certificate.sensitivity < moved <= run.certificate.sensitivity
    # T normal draws about means that are all moved the same way: the likelihood ratio of their sum is that of μ = √T·moved/σ
    assert (
        np.sqrt(steps) * moved / noise
        <= run.certificate.claims.gdp
        < 1.001 * np.sqrt(steps) * moved / noise
    )
