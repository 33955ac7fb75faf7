"""Calibration: met at the answer, missed just below it, monotone in the target, refused where impossible."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RaoDP,
    RenyiDP,
    calibrate,
    gaussian_floor,
    gaussian_profile,
    laplace_profile,
    meets,
    smallest_scale,
    spd2_gaussian_profile,
)

TARGETS = [GDP(0.5), ApproxDP(1.0, 1e-6), ZCDP(0.1), RenyiDP(2.0, 0.5), RaoDP(0.5)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "case", [("gaussian", 1, 2, 0.3), ("gaussian", -1, 3, 0.1), ("gaussian", 0, 3, 1.0), ("laplace", 1, 3, 0.2)]
)
def test_smallest_scale(target, case):
    kind, k, d, D = case
    make = gaussian_profile if kind == "gaussian" else laplace_profile
    scale = calibrate(kind, k, d, D, target)
    assert meets(make(k, d, scale, D), target)
    assert not meets(make(k, d, scale * (1 - 1e-8), D), target)


def test_closed_forms():
    assert calibrate("gaussian", 0, 3, 1.0, GDP(0.5)) == pytest.approx(2.0, rel=1e-11)
    assert calibrate("laplace", 0, 3, 1.0, PureDP(0.5)) == pytest.approx(2.0, rel=1e-11)
    # the sphere's Gaussian has a pure ε
    assert calibrate("gaussian", 1, 2, 1.0, PureDP(1.0)) == pytest.approx(math.sqrt((2 * math.pi - 1) / 2), rel=1e-11)


def test_monotone_in_the_target():
    scales = [calibrate("gaussian", 1, 3, 0.4, GDP(mu)) for mu in np.linspace(0.3, 0.31, 12)]
    assert np.all(np.diff(scales) < 0)
    close = [calibrate("gaussian", 1, 3, 0.4, GDP(0.3 * (1 + i * 1e-13))) for i in range(6)]
    assert np.all(np.diff(close) <= 0)


def test_below_the_floor():
    message = (
        "GDP(0.5) is below the floor μ=2.862 of the Riemannian Gaussian on Lorentz(10) at sensitivity 1.0;"
        " use LogGaussianMechanism"
    )
    with pytest.raises(UnattainableGuarantee) as error:
        calibrate("gaussian", -1, 10, 1.0, GDP(0.5))
    assert str(error.value) == message
    for target in TARGETS:
        with pytest.raises(UnattainableGuarantee, match="floor"):
            calibrate("gaussian", -1, 10, 1.0, target)
    assert meets(gaussian_profile(-1, 10, calibrate("gaussian", -1, 10, 1.0, GDP(2.9)), 1.0), GDP(2.9))
    with pytest.raises(UnattainableGuarantee, match="floor"):
        calibrate("laplace", -1, 10, 1.0, PureDP(1.0))


def test_unbounded_losses_have_no_pure_epsilon():
    for k in (0, -1):
        with pytest.raises(UnattainableGuarantee, match="unbounded"):
            calibrate("gaussian", k, 3, 1.0, PureDP(1.0))


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (("laplace", -1e-6, 1, 1e-4), ApproxDP(1000.0, 1e-6)),  # δ leaves 0 within 2e-9 of the scale
        (("laplace", -1.0, 3, 0.1), GDP(gaussian_floor(-1.0, 3, 0.1) * 1.0001)),  # next to the end of the law
        (("gaussian", 1.0, 10_000, 0.5), ZCDP(0.1)),
        (("gaussian", -1e-6, 100, 1e-12), RenyiDP(1e4, 1e8)),
        (("gaussian", 100.0, 2, 0.31), GDP(1e-8)),
        (("gaussian", 0.0, 2, 1e-12), ApproxDP(1e-8, 1e-30)),
    ],
)
def test_extremes(case, target):
    kind, k, d, D = case
    make = gaussian_profile if kind == "gaussian" else laplace_profile
    scale = calibrate(kind, k, d, D, target)
    assert meets(make(k, d, scale, D), target)
    assert not meets(make(k, d, scale * (1 - 1e-8), D), target)


def test_the_laplace_line_in_closed_form():
    """δ(ε) = 1 − e^{(ε − Δ/σ)/2} on the line."""
    scale = calibrate("laplace", 0.0, 1, 1.0, ApproxDP(10.0, 1e-3))
    assert scale == pytest.approx(1 / (10.0 - 2 * math.log1p(-1e-3)), rel=1e-9)


def test_what_is_not_a_target():
    with pytest.raises(ParameterError):
        calibrate("gaussian", 1, 2, 0.5, gaussian_profile(1, 2, 1.0, 1.0))


def test_spd2_by_its_profile():
    scale = smallest_scale(lambda s: spd2_gaussian_profile(s, 0.1), ApproxDP(1.0, 1e-5), 0.1)
    assert meets(spd2_gaussian_profile(scale, 0.1), ApproxDP(1.0, 1e-5))
    with pytest.raises(UnattainableGuarantee, match=r"SPDAffineInvariant\(2\)"):
        smallest_scale(lambda s: spd2_gaussian_profile(s, 1.0), GDP(0.1), 1.0)
