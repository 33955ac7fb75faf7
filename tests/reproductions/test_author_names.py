"""Names and shorthands by which authors of the papers redo their own experiments."""

import subprocess
import sys

import numpy as np
import pytest

from curvedp import GDP, ApproxDP
from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.mechanisms import GaussianMechanism, LaplaceMechanism
from curvedp.optim import FrechetMeanProblem, dp_rsvrg
from curvedp.papers.rao import GeneralizedGaussianMechanism
from curvedp.privacy import RaoDP


@pytest.mark.parametrize("mechanism", [GaussianMechanism, LaplaceMechanism])
def test_a_guarantee_may_stand_for_the_scale(mechanism):
    M = Sphere(2)
    calibrated = mechanism.calibrated(M, 0.1, GDP(0.5))
    stated = mechanism(M, 0.1, GDP(0.5))
    assert stated.scale == stated.sigma == calibrated.scale
    with pytest.raises(ParameterError, match="must be a number"):
        mechanism(M, 0.1, "GDP(0.5)")


def test_outputs_of_algorithm_11_by_the_papers_numerals():
    M = Sphere(2)
    rng = np.random.default_rng(0)
    X = M.project(rng.normal([3.0, 0, 0], 0.5, (60, 3)))

    def run(output):
        return dp_rsvrg(
            FrechetMeanProblem(M),
            X,
            M.origin,
            epochs=2,
            inner_steps=4,
            clip=(0.7, 0.3),
            learning_rate=0.2,
            guarantee=ApproxDP(1.0, 1e-5),
            output=output,
            rng=np.random.default_rng(1),
        ).point

    np.testing.assert_array_equal(run("I"), run("last"))
    np.testing.assert_array_equal(run("II"), run("random"))
    with pytest.raises(ParameterError, match="output"):
        run("III")


def test_the_generalized_gaussian_mechanism_meets_its_rao_distance():
    mechanism = GeneralizedGaussianMechanism.calibrated(1.0, RaoDP(0.5), power=4.0)
    assert mechanism.theta == pytest.approx(0.5)
    assert mechanism.hellinger_angle <= mechanism.theta
    # δ(0) is the total variation distance, which the angle bounds: sin(θ/2)·… ≤ θ/2.
    assert mechanism.delta(0.0) <= mechanism.theta / 2


@pytest.mark.parametrize(
    ("power", "eps"), [(1.0, 0.3), (1.5, 0.5), (2.0, 0.0), (4.0, 1.0)]
)
def test_delta_of_the_generalized_gaussian_by_quadrature(power, eps):
    """∫(p − e^ε·q)₊ on a grid, which shares nothing with the closed form."""
    shift, scale = 0.8, 1.3
    mechanism = GeneralizedGaussianMechanism(shift, scale, power)
    x = np.linspace(-30, 30, 2_000_001)
    weights = np.exp(-((np.abs(x) / scale) ** power))
    total = np.trapezoid(weights, x)
    neighbor = np.exp(-((np.abs(x + shift) / scale) ** power))
    excess = np.maximum(weights - np.exp(eps) * neighbor, 0.0)
    expected = np.trapezoid(excess, x) / total
    assert mechanism.delta(eps) == pytest.approx(expected, abs=1e-8)
    assert mechanism.delta(eps) >= expected - 1e-8


@pytest.mark.parametrize("module", ["rsvrg", "fig3", "timing"])
def test_without_jax_the_descent_names_the_extra(module):
    """What needs JAX says how to get it, and is no bare ModuleNotFoundError."""
    program = (
        "import sys; sys.modules['jax'] = None\n"
        "from curvedp.errors import MissingExtra\n"
        "try:\n"
        f"    import curvedp.papers.opt.{module}\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "curvedp[jax]" in run.stdout
