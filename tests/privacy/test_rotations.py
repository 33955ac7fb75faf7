"""Rigorous δ on RP³ beside the float path, which shares no formula with it beyond the level sets, and beside a plain sum."""

import math

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, KendallShapes, Rotations
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.privacy.rotations import certified_rotation_delta


@pytest.mark.parametrize("law", [RiemannianGaussian, RiemannianLaplace])
@pytest.mark.parametrize(("scale", "distance"), [(0.5, 0.1), (0.05, 0.02), (2.0, 1.0), (0.3, math.pi), (1.0, 3.0)])
def test_the_float_path_lies_within(law, scale, distance) -> None:
    profile = law(Rotations(3), scale).profile(distance)
    for eps in (0.0, 0.1, 1.0, 0.9 * profile.pure_epsilon):
        if eps < profile.pure_epsilon:
            lower, upper = law(Rotations(3), scale).certified_delta(distance, eps)
            value = profile.delta(eps)
            assert lower <= value <= upper
            assert upper - lower <= 1e-6 * upper or upper < 1e-290
    assert law(Rotations(3), scale).certified_delta(distance, 1.01 * profile.pure_epsilon)[0] == 0.0


def test_by_integration_over_rotations() -> None:
    """(p₁ − e^ε·p₂)₊ summed over angle and polar angle of the axis, with d₂ the angle of the product of two turns."""
    s, D, eps, n = 0.7, 1.1, 0.4, 1500
    theta, c = (np.arange(n) + 0.5)[:, None] * np.pi / n, -1 + (np.arange(n) + 0.5) * 2 / n
    second = 2 * np.arccos(np.abs(np.cos(theta / 2) * np.cos(D / 2) + np.sin(theta / 2) * np.sin(D / 2) * c))
    weight = np.exp(-(theta**2) / (2 * s**2)) * np.sin(theta / 2) ** 2
    gain = -np.expm1(np.minimum(eps - (second**2 - theta**2) / (2 * s**2), 0.0))
    value = np.sum(weight * gain) / n / np.sum(weight)
    lower, upper = certified_rotation_delta("gaussian", 0.25, s, D, eps)
    assert value == pytest.approx((lower + upper) / 2, rel=1e-5)


def test_lines_in_four_dimensions_are_the_same_space() -> None:
    a = RiemannianGaussian(Rotations(3), 0.8).certified_delta(0.6, 0.3)
    b = RiemannianGaussian(Grassmann(4, 1), 0.4).certified_delta(0.3, 0.3)
    assert a == pytest.approx(b, rel=1e-8)


def test_where_no_certificate_is_known() -> None:
    with pytest.raises(ParameterError, match="dimension 3"):
        RiemannianGaussian(KendallShapes(5), 0.3).certified_delta(0.1, 0.1)
    for bad in (math.nan, -1.0, math.inf):
        with pytest.raises(ParameterError):
            certified_rotation_delta("gaussian", 0.25, 0.5, 0.1, bad)
