"""Functions of balls against direct sums."""

import math

import mpmath as mp
import pytest
from flint import acb, arb, ctx

from curvedp.privacy import _ball_functions as balls


@pytest.mark.parametrize("m", range(7))
def test_integrals_of_powers_of_the_sine(m):
    with mp.workdps(30), ctx.workprec(128):
        for phi in (0.2, 1.2, 2.0, 3.0):
            x, y = mp.cos(mp.mpf(phi) / 2) ** 2, mp.sin(mp.mpf(phi) / 2) ** 2
            truth = float(mp.quad(lambda t: mp.sin(t) ** m, [phi, mp.pi]))
            for analytic in (True, False):
                found = balls.sine_integral(m, acb(str(x)), acb(str(y)), analytic)
                assert float(found.real) == pytest.approx(truth, rel=1e-13)
    for k, sn, ct in (
        (0, 0.7, 1 / 0.7),
        (1, math.sin(0.7), 1 / math.tan(0.7)),
        (-1, math.sinh(0.7), 1 / math.tanh(0.7)),
    ):
        assert float(balls.sn(k, acb(0.7)).real) == pytest.approx(sn, rel=1e-14)
        assert float(balls.ct(k, arb(0.7))) == pytest.approx(ct, rel=1e-14)


def test_gaussian_pieces_in_balls():
    with mp.workdps(40), ctx.workprec(160):
        for x in (-8.0, 0.0, 3.0):
            assert float(balls.phi(arb(x))) == pytest.approx(float(mp.ncdf(x)), rel=1e-14)
        for eps, z in ((0.0, 0.5), (3.0, 5.0), (4.5e4, 300.0), (2e12, 2e6), (0.5e12, 1e6)):
            tail = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
            truth = mp.exp(mp.mpf(eps)) * tail
            found = balls.lifted_tail(arb(eps), arb(z))
            assert float(found) == pytest.approx(float(truth), rel=1e-9)
            assert float(found.rad()) < 1e-10 * float(found)
        for mu, eps in ((0.5, 0.0), (2.0, 1.3)):
            value, slope = balls.gdp_ball(arb(mu), arb(eps))
            truth = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-eps / mu - mu / 2)
            assert float(value) == pytest.approx(float(truth), rel=1e-13)
            derivative = mp.diff(
                lambda u, m=mu: mp.ncdf(m / 2 - mp.log(u) / m) - u * mp.ncdf(-mp.log(u) / m - m / 2), mp.exp(eps)
            )
            assert float(slope) == pytest.approx(float(derivative), rel=1e-12)
            lower = balls.mu_lower(value, eps)
            assert mu * (1 - 1e-14) < lower <= mu
        high = balls.mu_lower(balls.gdp_ball(arb(9.5), arb(0.2))[0], 0.2)
        assert high == pytest.approx(9.5, rel=1e-12)
