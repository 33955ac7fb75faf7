"""Hats of tangents lie above their target, touch it and draw from it."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import EnvelopeViolation
from curvedp.laws.isotropic.density import RadialDensity
from curvedp.laws.isotropic.envelope import (
    TangentEnvelope,
    _tangent_crossings,
    radial_mode,
    radius_sampler,
)
from support.goodness import form


@pytest.mark.parametrize(
    ("kind", "curvature", "dim", "scale"),
    [
        ("gaussian", 1, 1, 0.5),
        ("gaussian", 1, 3, 0.3),
        ("gaussian", 1, 50, 5.0),
        ("gaussian", -1, 1, 2.0),
        ("gaussian", -1, 4, 1.5),
        ("laplace", 1, 2, 0.5),
        ("laplace", 1, 5, 40.0),
        ("laplace", -1, 3, 0.4),
    ],
)
def test_hats_lie_above_touch_and_draw(kind, curvature, dim, scale):
    mode, hat = radius_sampler(kind, form(curvature, dim), scale)
    sn = np.sin if curvature > 0 else np.sinh

    def log_density(r):
        return (-(r**2) / (2 * scale**2) if kind == "gaussian" else -r / scale) + (
            dim - 1
        ) * np.log(sn(r))

    if dim > 1:
        for step in (-1e-4, 1e-4):
            assert log_density(mode * (1 + step)) < log_density(mode)
    else:
        assert mode == 0.0
    end = math.pi if curvature > 0 else mode + 40 * scale * (1 + scale * dim)
    r = np.linspace(0, end, 4001)[1:-1]
    truth = log_density(r) - (log_density(mode) if mode else 0.0)
    assert hat._log_density(r - mode) == pytest.approx(truth, rel=1e-9, abs=1e-9)
    mass = integrate.quad(
        lambda x: math.exp(min(float(hat._log_density(np.array([x]))[0]), 0.0)),
        -mode,
        min(end - mode, 30 * scale * dim),
        points=sorted({max(-mode, -scale), 0.0, min(scale, end - mode)}),
        limit=400,
    )[0]
    assert (
        1 - 1e-6 <= hat._cumulative_mass[-1] / mass < 1.01
    )  # rejects a few in a thousand
    draws = mode + hat.draw(np.random.default_rng(dim), 4000)
    law = RadialDensity(kind, form(curvature, dim), scale)
    assert stats.kstest(draws, lambda x: law.table.cdf(x)).pvalue > 1e-4
    assert (
        stats.kstest(np.minimum(1.1 * draws, end), lambda x: law.table.cdf(x)).pvalue
        < 1e-6
        or scale > 1
    )


def test_a_hat_on_an_interval():
    """A level density, a rising one, one that is not concave; ends on either side of 0."""
    for tilt, low, high in (
        (0.0, -1.0, 2.0),
        (3.0, -2.0, 0.0),
        (-3.0, 0.0, 2.0),
        (-1e-20, -1.0, 1.0),
    ):
        hat = TangentEnvelope(
            lambda t, k=tilt: k * t,
            lambda t, k=tilt: np.full_like(t, k),
            low,
            high,
            0.1,
        )
        draws = hat.draw(np.random.default_rng(1), 3000)
        assert low <= draws.min() < low + 0.2 * (high - low) + (tilt > 0)
        assert draws.max() <= high

        def cdf(t, tilt=tilt, low=low, high=high):
            if abs(tilt) < 1e-9:
                return (t - low) / (high - low)
            return np.expm1(tilt * (t - low)) / np.expm1(tilt * (high - low))

        assert stats.kstest(draws, cdf).pvalue > 1e-4
    with pytest.raises(EnvelopeViolation):
        TangentEnvelope(lambda t: t**2 - 1e-3, lambda t: 2 * t, -1.0, 1.0, 0.1).draw(
            np.random.default_rng(0), 100
        )
    knots, height, rise = (
        np.array([-1.0, 0.0, 2.0]),
        np.array([-0.5, 0.0, -2.0]),
        np.array([1.0, 0.0, -2.0]),
    )
    assert _tangent_crossings(knots, height, rise) == pytest.approx(
        [-0.5, 1.0]
    )  # −t²/2
    assert _tangent_crossings(knots, np.zeros(3), np.zeros(3)) == pytest.approx(
        [-0.5, 1.0]
    )
    assert radial_mode("gaussian", form(1, 1), 1.0) == 0.0
    assert radial_mode("gaussian", form(1, 4), 1e9) == pytest.approx(math.pi / 2)
