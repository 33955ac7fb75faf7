"""The heat-kernel mechanism: calibrated in closed form, released exactly, certified, never chosen."""

import math

import numpy as np
import pytest

from curvedp.entropy import GeneratorSource
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.estimators import PrivateFrechetMean
from curvedp.geometry import Lorentz, PoincareBall, SPDAffineInvariant, Sphere
from curvedp.mechanisms import GaussianMechanism
from curvedp.mechanisms.choose import choose_mechanism
from curvedp.mechanisms.heat import HeatKernelMechanism
from curvedp.mechanisms.statistic import FrechetMean
from curvedp.mechanisms.verify import verify_certificate
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP


@pytest.mark.parametrize(
    "M", [Sphere(2), Sphere(7), Lorentz(2), PoincareBall(4)], ids=repr
)
@pytest.mark.parametrize(
    "guarantee", [GDP(0.8), ZCDP(0.3), ApproxDP(1.0, 1e-6)], ids=str
)
def test_the_least_time_that_meets_it(M, guarantee):
    made = HeatKernelMechanism.calibrated(M, 0.1, guarantee)
    if isinstance(guarantee, GDP):
        rho, t = math.copysign(M.dim - 1, M.curvature_bounds[0]), made.scale**2
        assert made.profile.mu == pytest.approx(
            0.1 * math.sqrt(rho / math.expm1(rho * t)), rel=1e-9
        )
        assert 0.8 * (1 - 1e-9) <= made.profile.mu <= 0.8
    assert guarantee.measure(made.profile) <= guarantee.measure(guarantee)
    assert guarantee.measure(made.scaled(0.999).profile) > guarantee.measure(guarantee)


@pytest.mark.parametrize(
    ("M", "D", "mu"),
    [(Sphere(2), 0.5, 1.0), (Lorentz(2), 0.5, 1.0), (PoincareBall(3), 0.3, 0.8)],
)
def test_it_buys_nothing(M, D, mu):
    """Calibrated by its bound it errs by up to half a percent more than the Gaussian by its exact profile, and not less."""
    heat = HeatKernelMechanism.calibrated(M, D, GDP(mu)).law.mean_square_radius
    gaussian = GaussianMechanism.calibrated(M, D, GDP(mu)).law.mean_square_radius
    assert 1 <= math.sqrt(heat / gaussian) < 1.006


def test_by_name_and_never_by_itself():
    M, X = Sphere(2), np.tile(Sphere(2).origin, (50, 1))
    model = PrivateFrechetMean(manifold=M, radius=0.7, mechanism="heat-kernel").fit(X)
    assert model.certificate_.mechanism == "heat-kernel"
    assert model.certificate_.numerics["profile"] == "proved bound"
    assert all(check.holds for check in verify_certificate(model.certificate_))
    choice = choose_mechanism("auto", FrechetMean(M, None, 0.7, 50), GDP(1.0))
    assert "errs as gaussian does" in choice.refused["heat-kernel"]


def test_releases_are_as_far_away_as_the_law_says():
    made, bits = (
        HeatKernelMechanism(Sphere(2), 0.1, 0.3),
        GeneratorSource(np.random.default_rng(0)),
    )
    r = [
        float(
            Sphere(2).dist(
                Sphere(2).origin, made.release(Sphere(2).origin, source=bits).value
            )
        )
        for _ in range(200)
    ]
    assert np.mean(np.square(r)) == pytest.approx(made.law.mean_square_radius, rel=0.25)


def test_refusals():
    with pytest.raises(ParameterError, match="heat kernels need"):
        HeatKernelMechanism(SPDAffineInvariant(2), 0.1, 0.3)
    for M in (SPDAffineInvariant(2), Sphere(1)):
        model = PrivateFrechetMean(manifold=M, radius=1.0, mechanism="heat-kernel")
        with pytest.raises(ParameterError, match="heat kernels need"):
            model.fit(np.stack([M.origin] * 9))
    with pytest.raises(UnattainableGuarantee, match="worth flat noise of at most"):
        HeatKernelMechanism.calibrated(Lorentz(2), 0.5, GDP(0.4))
    with pytest.raises(UnattainableGuarantee, match="loss is unbounded"):
        HeatKernelMechanism.calibrated(Sphere(2), 0.1, PureDP(1.0))
    for scale in (0.0, -1.0, math.nan, math.inf, 3.0):
        with pytest.raises(ParameterError):
            HeatKernelMechanism(Sphere(2), 0.1, scale)
