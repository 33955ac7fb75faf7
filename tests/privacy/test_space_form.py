"""The radial laws and the tails of their losses, by quadrature with many digits."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import betainc

from curvedp.numerics.log_space import log_symmetric_beta
from curvedp.privacy.loss.space_form import SpaceFormLoss

LAWS = [
    ("gaussian", 1, 2, 0.6, 1.0),
    ("gaussian", 1, 5, 2.0, 3.0),
    ("gaussian", 1, 3, 50.0, 2.0),
    ("gaussian", 0, 4, 1.5, 0.7),
    ("gaussian", -1, 2, 0.5, 2.0),
    ("gaussian", -1, 6, 2.5, 1.0),
    ("laplace", 1, 3, 0.4, 1.0),
    ("laplace", 1, 2, 5.0, 2.5),
    ("laplace", 0, 2, 1.0, 1.0),
    ("laplace", -1, 3, 0.3, 0.8),
]


SN = {1: mp.sin, 0: lambda x: x, -1: mp.sinh}


def log_rho(kind, k, d, s, r):
    return (-r * r / (2 * mp.mpf(s) ** 2) if kind == "gaussian" else -r / mp.mpf(s)) + (
        d - 1
    ) * mp.log(SN[k](r))


@pytest.mark.parametrize(("kind", "k", "d", "s", "D"), LAWS)
def test_the_radial_law_and_its_loss(kind, k, d, s, D):
    law = SpaceFormLoss(kind, k, d, s, D).with_enough_nodes()
    assert (
        law.order == 64
    )  # the nodes are where the integrand is: no doubling is needed
    m, w = law.mode, law.width
    with mp.workdps(20):
        slope = mp.diff(lambda r: log_rho(kind, k, d, s, r), m)
        assert abs(slope) * w < 1e-9
        bend = -mp.diff(lambda r: log_rho(kind, k, d, s, r), m, 2)
        expected = float(1 / mp.sqrt(bend))
        if kind == "laplace" and k == -1:
            expected = min(expected, 1 / (1 / s - (d - 1)))
        assert w == pytest.approx(expected, rel=1e-9)
        top = log_rho(kind, k, d, s, mp.mpf(m))
        for u in (
            -0.9 * m,
            -0.3 * w,
            0.0,
            0.7 * w,
            min(5 * w, (math.pi - m) * 0.9 if k == 1 else math.inf),
        ):
            if m + u > 0:
                truth = float(log_rho(kind, k, d, s, mp.mpf(m) + mp.mpf(u)) - top)
                assert float(law.log_rho(np.array(u))) == pytest.approx(
                    truth, rel=1e-9, abs=1e-11
                )
        assert law.log_rho(np.array([-1.5 * m]))[0] == -math.inf or k == 1
        end = (
            mp.pi
            if k == 1
            else mp.mpf(m + 60 * w + (60 * s if kind == "laplace" else 0))
        )
        marks = [
            0,
            *(
                x
                for x in (m - 6 * w, m - 2 * w, m, m + 2 * w, m + 6 * w, m + 20 * w)
                if 0 < x < end
            ),
            end,
        ]
        mass = mp.quad(lambda r: mp.exp(log_rho(kind, k, d, s, r) - top), marks)
        assert law.log_mass == pytest.approx(float(mp.log(mass)), abs=1e-11)
        square = (
            mp.quad(lambda r: r * r * mp.exp(log_rho(kind, k, d, s, r) - top), marks)
            / mass
        )
        assert law.mean_square == pytest.approx(float(square), rel=1e-10)
        fisher = (
            1 / (s * math.sqrt(d))
            if kind == "laplace"
            else math.sqrt(float(square) / d) / s**2
        )
        assert law.root_fisher_information == pytest.approx(fisher, rel=1e-9)
        assert law.loss_scale == pytest.approx(D * fisher, rel=1e-9)
    cap = (
        D / s
        if kind == "laplace"
        else D * (2 * math.pi - D) / (2 * s * s)
        if k == 1
        else math.inf
    )
    assert law.max_loss == pytest.approx(cap, rel=1e-14)


@pytest.mark.parametrize(("kind", "k", "d", "s", "D"), LAWS)
def test_tails_of_the_loss(kind, k, d, s, D):
    """P₁(L > t) by an integral over the radius of the cap of angles with L > t, found by bisection."""
    law = SpaceFormLoss(kind, k, d, s, D).with_enough_nodes()
    t = np.array([0.0, 0.3, 1.0, 2.5]) * law.loss_scale
    t = t[t < 0.95 * law.max_loss]
    upper, lower = law.log_tails(t)
    assert np.exp(upper) + np.exp(lower) == pytest.approx(np.ones(len(t)), abs=1e-12)
    z, w = np.polynomial.legendre.leggauss(60)
    m, width = law.mode, law.width
    end = math.pi if k == 1 else m + 12 * width + (40 * s if kind == "laplace" else 0)
    radii = law._level_set(t).radii
    for i, level in enumerate(t):
        a, b = float(radii[0][i]), float(radii[1][i])
        marks = sorted(
            {
                0.0,
                end,
                *(
                    x
                    for x in (a, b, m - 3 * width, m, m + 3 * width, m + 8 * width)
                    if 0 < x < end
                ),
            }
        )
        share = whole = 0.0
        for low, high in itertools.pairwise(marks):
            theta = math.pi / 2 * (z + 1)
            r = low + (high - low) * np.sin(theta / 2) ** 2
            weight = (
                (high - low)
                * np.pi
                / 4
                * np.sin(theta)
                * w
                * np.exp(law.log_rho(r - m))
            )
            whole += weight.sum()
            share += sum(
                x * cap_share(kind, k, d, s, D, float(y), level)
                for x, y in zip(weight, r, strict=True)
            )
        assert math.exp(upper[i]) == pytest.approx(share / whole, rel=2e-7)


def cap_share(kind, k, d, s, D, r, level):
    """The share of directions with loss above the level: an incomplete beta function of the cosine where it is met."""
    target = (
        math.sqrt(max(r * r + 2 * s * s * level, 0.0))
        if kind == "gaussian"
        else r + s * level
    )
    if k == 0:
        c = (r * r + D * D - target**2) / (2 * r * D)
    elif k == 1:
        if target > math.pi:
            return 0.0
        c = (math.cos(target) - math.cos(r) * math.cos(D)) / (math.sin(r) * math.sin(D))
    else:
        c = (math.cosh(r) * math.cosh(D) - math.cosh(target)) / (
            math.sinh(r) * math.sinh(D)
        )
    c = min(max(c, -1.0), 1.0)  # L > t where cos φ < c
    return float(betainc((d - 1) / 2, (d - 1) / 2, (1 + c) / 2))


@pytest.mark.parametrize("a", [0.5, 1.0, 1.5, 4.0, 60.0])
def test_log_of_the_incomplete_beta_function(a):
    x = np.array([1e-200, 1e-9, 0.1, 0.49, 0.5, 0.7, 1 - 1e-9])
    found = log_symmetric_beta(a, x, 1 - x)
    with mp.workdps(40):
        for value, at in zip(found, x, strict=True):
            truth = mp.log(mp.betainc(a, a, 0, mp.mpf(float(at)), regularized=True))
            assert float(value) == pytest.approx(float(truth), rel=1e-12, abs=1e-14)
    assert log_symmetric_beta(a, np.array([0.0]), np.array([1.0]))[0] == -math.inf
