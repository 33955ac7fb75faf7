"""The reduced form of every reproduction meets what its expected.json says; some of that again from scratch."""

import functools
import math

import mpmath as mp
import pytest

from curvedp.reproduce import Setting, check_figures, find_reproductions

ALL = find_reproductions()


@functools.cache
def made(name):
    return ALL[name].function()(Setting())


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("opt-fig3",)])
def test_reduced_form(name):
    figures, picture = made(name)
    checks = check_figures(ALL[name], figures, full=False)
    assert checks
    assert [check for check in checks if not check.holds and not check.timing] == []
    assert picture.axes


def test_mu_on_the_circle_by_mpmath():
    """The supremum is at ε = 0, where μ = 2Φ⁻¹((1+TV)/2); TV by integrating |p − q| over the circle."""
    figures, _ = made("gdp-fig1")
    for sigma, mu in zip(figures["sigma"], figures["circle"]["exact"], strict=True):
        with mp.workdps(30):
            mass = mp.sqrt(2 * mp.pi) * sigma * mp.erf(mp.pi / (sigma * mp.sqrt(2)))

            def density(y, s=sigma, mass=mass):
                return mp.exp(-(y**2) / (2 * mp.mpf(s) ** 2)) / mass

            def gap(y, density=density):
                other = y - 1 if y - 1 > -mp.pi else y - 1 + 2 * mp.pi
                return abs(density(y) - density(other))

            # not smooth where the densities cross (½, ½ − π) and opposite the centres (±π, 1 − π)
            cuts = [-mp.pi, mp.mpf(1) / 2 - mp.pi, 1 - mp.pi, -0.5, mp.mpf(1) / 2, 1.5, mp.pi]
            variation = mp.quad(gap, cuts) / 2
            truth = 2 * mp.sqrt(2) * mp.erfinv(variation)
        assert mu == pytest.approx(float(truth), rel=1e-7)


def test_printed_utility_uses_the_conversion_and_ours_does_not():
    """At equal μ the converted ε asks of Laplace more noise than its own profile does, at every σ."""
    use = made("gdp-fig1")[0]["utility"]
    for printed, exact, mu in zip(use["printed"]["epsilon"], use["mu"], use["printed"]["mu"], strict=True):
        assert printed == pytest.approx(math.log((1 + math.erf(mu / 2**1.5)) / (1 - math.erf(mu / 2**1.5))), rel=1e-9)
        assert mu > 0.5 * exact
    assert use["printed"]["ratio"][0] > use["same_sensitivity"]["ratio"][0] > 1
