"""What profiles are computed from, number by number: radial laws, tails, tables and Newton steps against mpmath."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import betainc, log_ndtr, ndtr, ndtri

from curvedp.errors import NotIntegrable, ParameterError
from curvedp.privacy import gaussian_floor, gaussian_profile, laplace_profile
from curvedp.privacy._floor import FloorTails
from curvedp.privacy._loss_sum import LossSum, NormalLoss
from curvedp.privacy._loss_table import LossTable, SmoothTails, log_sum
from curvedp.privacy._space_form import SpaceFormLaw, log_beta
from curvedp.privacy.circle import CircleGaussian, CircleLaplace, LineLaplace, _log_normal_between
from curvedp.privacy.constant_curvature import ConstantCurvatureProfile, FloorProfile
from curvedp.privacy.gaussian import gdp_delta, gdp_log_delta, gdp_mu
from curvedp.privacy.profile import _mills, _mills_difference, _mu_from_log_delta, _mu_from_log_rest
from reproductions.gdp.circle import circle_gaussian_delta

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
    return (-r * r / (2 * mp.mpf(s) ** 2) if kind == "gaussian" else -r / mp.mpf(s)) + (d - 1) * mp.log(SN[k](r))


def second_distance(k, r, D, c):
    if k == 0:
        return mp.sqrt(r * r + D * D - 2 * r * D * c)
    if k == 1:
        return mp.acos(max(min(mp.cos(r) * mp.cos(D) + mp.sin(r) * mp.sin(D) * c, mp.mpf(1)), mp.mpf(-1)))
    return mp.acosh(max(mp.cosh(r) * mp.cosh(D) - mp.sinh(r) * mp.sinh(D) * c, mp.mpf(1)))


@pytest.mark.parametrize(("kind", "k", "d", "s", "D"), LAWS)
def test_the_radial_law_and_its_loss(kind, k, d, s, D):
    law = SpaceFormLaw(kind, k, d, s, D).resolved()
    assert law.order == 64  # the nodes are where the integrand is: no doubling is needed
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
        for u in (-0.9 * m, -0.3 * w, 0.0, 0.7 * w, min(5 * w, (math.pi - m) * 0.9 if k == 1 else math.inf)):
            if m + u > 0:
                truth = float(log_rho(kind, k, d, s, mp.mpf(m) + mp.mpf(u)) - top)
                assert float(law.log_rho(np.array(u))) == pytest.approx(truth, rel=1e-9, abs=1e-11)
        assert law.log_rho(np.array([-1.5 * m]))[0] == -math.inf or k == 1
        end = mp.pi if k == 1 else mp.mpf(m + 60 * w + (60 * s if kind == "laplace" else 0))
        marks = [0, *(x for x in (m - 6 * w, m - 2 * w, m, m + 2 * w, m + 6 * w, m + 20 * w) if 0 < x < end), end]
        mass = mp.quad(lambda r: mp.exp(log_rho(kind, k, d, s, r) - top), marks)
        assert law.log_mass == pytest.approx(float(mp.log(mass)), abs=1e-11)
        square = mp.quad(lambda r: r * r * mp.exp(log_rho(kind, k, d, s, r) - top), marks) / mass
        assert law.mean_square == pytest.approx(float(square), rel=1e-10)
        fisher = 1 / (s * math.sqrt(d)) if kind == "laplace" else math.sqrt(float(square) / d) / s**2
        assert law.fisher == pytest.approx(fisher, rel=1e-9)
        assert law.loss_scale == pytest.approx(D * fisher, rel=1e-9)
    cap = D / s if kind == "laplace" else D * (2 * math.pi - D) / (2 * s * s) if k == 1 else math.inf
    assert law.max_loss == pytest.approx(cap, rel=1e-14)


@pytest.mark.parametrize(("kind", "k", "d", "s", "D"), LAWS)
def test_tails_of_the_loss(kind, k, d, s, D):
    """P₁(L > t) by an integral over the radius of the cap of angles with L > t, found by bisection."""
    law = SpaceFormLaw(kind, k, d, s, D).resolved()
    t = np.array([0.0, 0.3, 1.0, 2.5]) * law.loss_scale
    t = t[t < 0.95 * law.max_loss]
    upper, lower = law.log_tails(t)
    assert np.exp(upper) + np.exp(lower) == pytest.approx(np.ones(len(t)), abs=1e-12)
    z, w = np.polynomial.legendre.leggauss(60)
    m, width = law.mode, law.width
    end = math.pi if k == 1 else m + 12 * width + (40 * s if kind == "laplace" else 0)
    radii = law._breaks(t)
    for i, level in enumerate(t):
        a, b = float(radii[0][i]), float(radii[1][i])
        marks = sorted({0.0, end, *(x for x in (a, b, m - 3 * width, m, m + 3 * width, m + 8 * width) if 0 < x < end)})
        share = whole = 0.0
        for low, high in itertools.pairwise(marks):
            theta = math.pi / 2 * (z + 1)
            r = low + (high - low) * np.sin(theta / 2) ** 2
            weight = (high - low) * np.pi / 4 * np.sin(theta) * w * np.exp(law.log_rho(r - m))
            whole += weight.sum()
            share += sum(x * cap_share(kind, k, d, s, D, float(y), level) for x, y in zip(weight, r, strict=True))
        assert math.exp(upper[i]) == pytest.approx(share / whole, rel=2e-7)


def cap_share(kind, k, d, s, D, r, level):
    """The share of directions with loss above the level: an incomplete beta function of the cosine where it is met."""
    target = math.sqrt(max(r * r + 2 * s * s * level, 0.0)) if kind == "gaussian" else r + s * level
    if k == 0:
        c = (r * r + D * D - target**2) / (2 * r * D)
    elif k == 1:
        if target > math.pi:
            return 0.0
        c = (math.cos(target) - math.cos(r) * math.cos(D)) / (math.sin(r) * math.sin(D))
    else:
        c = (math.cosh(r) * math.cosh(D) - math.cosh(target)) / (math.sinh(r) * math.sinh(D))
    c = min(max(c, -1.0), 1.0)  # L > t where cos φ < c
    return float(betainc((d - 1) / 2, (d - 1) / 2, (1 + c) / 2))


@pytest.mark.parametrize("a", [0.5, 1.0, 1.5, 4.0, 60.0])
def test_log_of_the_incomplete_beta_function(a):
    x = np.array([1e-200, 1e-9, 0.1, 0.49, 0.5, 0.7, 1 - 1e-9])
    found = log_beta(a, x, 1 - x)
    with mp.workdps(40):
        for value, at in zip(found, x, strict=True):
            truth = mp.log(mp.betainc(a, a, 0, mp.mpf(float(at)), regularized=True))
            assert float(value) == pytest.approx(float(truth), rel=1e-12, abs=1e-14)
    assert log_beta(a, np.array([0.0]), np.array([1.0]))[0] == -math.inf


# ---- closed tails


@pytest.mark.parametrize(
    ("a", "b"), [(-40, -39), (-1, 1), (0.5, 0.5001), (3, 30), (-30, -3), (-0.1, 20), (8, 8.2), (-2, 5)]
)
def test_mass_of_a_normal_between(a, b):
    with mp.workdps(60):
        truth = mp.log((mp.erfc(-mp.mpf(b) / mp.sqrt(2)) - mp.erfc(-mp.mpf(a) / mp.sqrt(2))) / 2)
    found = float(_log_normal_between(np.array([float(a)]), np.array([float(b)]))[0])
    assert found == pytest.approx(float(truth), rel=1e-13, abs=2e-14)


@pytest.mark.parametrize(("s", "D"), [(0.3, 1.0), (1.0, 3.0), (5.0, 0.4)])
def test_losses_on_the_circle_and_the_line(s, D):
    y = np.linspace(-math.pi, math.pi, 400_001)[:-1] + math.pi / 400_000
    other = np.abs(y - D)
    other = np.minimum(other, 2 * math.pi - other)
    for law, weight, loss in (
        (CircleGaussian(s, D), np.exp(-(y**2) / (2 * s * s)), (other**2 - y**2) / (2 * s * s)),
        (CircleLaplace(s, D), np.exp(-np.abs(y) / s), (other - np.abs(y)) / s),
    ):
        p = weight / weight.sum()
        assert law.max_loss == pytest.approx(loss.max(), rel=1e-5)
        assert law.fisher**2 == pytest.approx(
            np.sum(p * (y / s**2) ** 2) if isinstance(law, CircleGaussian) else 1 / s**2, rel=1e-4
        )
        assert law.loss_scale == pytest.approx(D * law.fisher, rel=1e-14)
        for t in law.max_loss * np.array([0.0, 0.2, 0.7, 0.95]):
            upper, lower = law.log_tails(np.array([t]))
            assert math.exp(upper[0]) == pytest.approx(p[loss > t].sum(), abs=2e-5)
            assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(1.0, abs=1e-13)
            if isinstance(law, CircleGaussian):
                direct = np.sum(np.maximum(p - math.exp(t) * p * np.exp(-loss), 0.0))
                assert circle_gaussian_delta(s, D, float(t)) == pytest.approx(direct, abs=2e-5)
    assert circle_gaussian_delta(s, D, CircleGaussian(s, D).max_loss) == 0.0
    line = LineLaplace(s, D)
    upper, lower = line.log_tails(np.array([0.0, 0.5 * D / s]))
    assert np.exp(lower) == pytest.approx([math.exp(-D / s / 2) / 2, math.exp(-D / s / 4) / 2], rel=1e-13)
    assert np.exp(upper) == pytest.approx(1 - np.exp(lower), rel=1e-13)
    assert line.closest == max(16.0, math.log(D / s) + 9.5)


@pytest.mark.parametrize(("d", "D"), [(2, 0.5), (3, 2.0), (10, 1.0)])
def test_the_floor_by_its_angle(d, D):
    law = FloorTails(d, D)
    phi = (np.arange(400_000) + 0.5) * math.pi / 400_000
    weight = np.sin(phi) ** (d - 2)
    p = weight / weight.sum()
    loss = (d - 1) * np.log(math.cosh(D) - math.sinh(D) * np.cos(phi))
    assert law.max_loss == pytest.approx(loss.max(), rel=1e-6)
    assert law.loss_scale == pytest.approx((d - 1) * D / math.sqrt(d), rel=1e-14)
    assert float(np.sum(p * np.exp(-loss))) == pytest.approx(1.0, abs=1e-5)  # it is a likelihood ratio
    for t in law.max_loss * np.array([0.0, 0.3, 0.8]):
        upper, lower = law.log_tails(np.array([t]))
        assert math.exp(upper[0]) == pytest.approx(p[loss > t].sum(), abs=2e-5)
        assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(1.0, abs=1e-12)
    profile = FloorProfile(-1.0, d, D)
    assert profile.delta(0.1) == pytest.approx(np.sum(p * np.maximum(1 - np.exp(0.1 - loss), 0.0)), rel=1e-4)
    assert profile.rao == pytest.approx(law.loss_scale, rel=1e-13)


# ---- tables


class Normal(SmoothTails):
    """Losses N(μ²/2, μ²), unbounded."""

    max_loss = math.inf

    def __init__(self, mu):
        self.mu = self.loss_scale = mu

    def log_tails(self, t):
        return log_ndtr(self.mu / 2 - t / self.mu), log_ndtr(t / self.mu - self.mu / 2)


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0, 12.0])
def test_a_table_of_a_normal_loss(mu):
    table = LossTable(Normal(mu))
    t = mu * mu / 2 + mu * np.array([-3.0, -1.0, 0.0, 0.5, 2.0, 6.0, 12.0])
    t = np.append(t[t > 0], [0.0, 1e-9])
    assert table.log_upper(t) == pytest.approx(log_ndtr(mu / 2 - t / mu), rel=1e-11, abs=1e-11)
    assert table.log_lower(t) == pytest.approx(log_ndtr(t / mu - mu / 2), rel=1e-11, abs=1e-11)
    assert table.log_delta(t) == pytest.approx(gdp_log_delta(mu, t), rel=1e-10, abs=1e-10)
    rest = np.array([float(mp.log(one_minus_delta(mu, x))) for x in t])
    assert table.log_one_minus_delta(t) == pytest.approx(rest, rel=1e-9, abs=1e-10)
    assert table.log_second(t) == pytest.approx(log_ndtr(-t / mu - mu / 2), rel=1e-8, abs=1e-8)
    line = np.concatenate([-t, t])
    assert table.log_upper_on_line(line) == pytest.approx(log_ndtr(mu / 2 - line / mu), rel=1e-7, abs=1e-8)
    assert table.log_lower_on_line(line) == pytest.approx(log_ndtr(line / mu - mu / 2), rel=1e-7, abs=1e-8)
    z = line / mu - mu / 2
    density = -z * z / 2 - math.log(mu * math.sqrt(2 * math.pi))
    assert table.log_density_on_line(line) == pytest.approx(density, rel=1e-7, abs=1e-7)
    normal = NormalLoss(mu)
    assert normal.log_density_on_line(line) == pytest.approx(density, rel=1e-13)
    assert normal.log_upper_on_line(line) == pytest.approx(log_ndtr(mu / 2 - line / mu), rel=1e-13)
    assert normal.log_lower_on_line(line) == pytest.approx(log_ndtr(line / mu - mu / 2), rel=1e-13)
    for s in (-0.5, 0.5, 1.0, 7.0):  # E e^{sL} = e^{s(s+1)μ²/2} = 1 + s·J
        truth = math.log(math.expm1(s * (s + 1) * mu * mu / 2) / s) if s * (s + 1) * mu * mu < 1400 else math.nan
        if math.isfinite(truth):
            assert table.log_moment(s) == pytest.approx(truth, rel=1e-10, abs=1e-10)
    assert table.log_moment(0.0) == pytest.approx(math.log(mu * mu / 2), abs=1e-10)
    assert table.log_upper(np.array([table.end]))[0] <= -760.0
    grid = table.grid()
    assert grid[0] == 0.0
    assert grid[-1] == table.end == table.w_end
    assert len(grid) == 12 * (len(table._edges) - 1) + 1
    end = table.end
    table.cover(1.5 * end)
    assert table.end == 2 * end
    assert table.log_upper(np.array([1.5 * end]))[0] == pytest.approx(log_ndtr(mu / 2 - 1.5 * end / mu), rel=1e-10)
    assert np.all(table.cap_noise(t) == 0)


def one_minus_delta(mu, eps):
    with mp.workdps(40):
        m, e = mp.mpf(mu), mp.mpf(float(eps))
        return mp.ncdf(e / m - m / 2) + mp.exp(e) * mp.ncdf(-e / m - m / 2)


@pytest.mark.parametrize("largest", [0.01, 1.0, 9.0])
def test_a_table_of_a_bounded_loss_with_atoms(largest):
    """The Laplace mechanism on the line: everything in closed form."""
    table, T = LossTable(LineLaplace(1.0, largest)), largest
    assert table.T == T
    t = T * np.array([0.0, 0.1, 0.45, 0.55, 0.9, 0.999, 1 - 1e-7])
    lower = -(T - t) / 2 - math.log(2)
    assert table.log_lower(t) == pytest.approx(lower, rel=1e-10, abs=1e-10)
    assert table.log_upper(t) == pytest.approx(np.log1p(-np.exp(lower)), rel=1e-10, abs=1e-10)
    delta = np.log(-np.expm1((t - T) / 2))
    assert table.log_delta(t) == pytest.approx(delta, rel=1e-7, abs=1e-7)
    assert np.all(table.log_delta(t) >= delta - 1e-9)
    assert table.log_one_minus_delta(t) == pytest.approx((t - T) / 2, abs=1e-8)
    last = T * (1 - np.array([1e-7, 1e-10]))  # beyond the last panel: rounded to the side that adds to δ
    assert np.all(table.log_one_minus_delta(last) < (last - T) / 2)
    assert np.all(table.log_delta(last) > np.log(-np.expm1((last - T) / 2)))
    for s in (0.5, 1.0, 6.0):
        a = s + 1
        mean = a / (2 * a - 1) * math.exp(s * T) + s / (2 * a - 1) * math.exp(-a * T)
        assert table.log_moment(s) == pytest.approx(math.log((mean - 1) / s), abs=1e-8)
    assert table.t_of(np.array([0.0, 40.0])) == pytest.approx([0.0, T], abs=1e-12 * T)
    assert table.end < T
    noise = table.cap_noise(np.array([0.0, 0.5 * T, T * (1 - 1e-9)]))
    assert noise[:2].tolist() == [0.0, 0.0]
    assert 1e-8 < noise[2] < 1e-3


@pytest.mark.parametrize(("mu", "nu"), [(0.3, 1.0), (2.0, 1.5)])
def test_a_sum_of_normal_losses_is_normal(mu, nu):
    total = math.hypot(mu, nu)
    for first in (NormalLoss(nu), LossTable(Normal(nu))):
        tails = LossSum(first, NormalLoss(mu), nu, mu)
        assert tails.loss_scale == pytest.approx(total)
        assert tails.max_loss == math.inf
        assert tails.kinks == ()
        t = total * np.array([0.0, 0.5, 1.0, 3.0, 8.0])
        upper, lower = tails.log_tails(t)
        assert upper == pytest.approx(log_ndtr(total / 2 - t / total), rel=1e-8, abs=1e-9)
        assert lower == pytest.approx(log_ndtr(t / total - total / 2), rel=1e-8, abs=1e-9)


def test_a_sum_of_bounded_losses():
    """Two circles: kinks where ends meet, the largest loss, and tails by sampling both on a fine grid."""
    laws = [CircleGaussian(1.2, 1.0), CircleGaussian(0.9, 0.5)]
    a, b = (LossTable(law) for law in laws)
    tails = LossSum(a, b, laws[0].loss_scale, laws[1].loss_scale)
    assert tails.max_loss == pytest.approx(laws[0].max_loss + laws[1].max_loss)
    assert tails.kinks == pytest.approx((abs(laws[0].max_loss - laws[1].max_loss),))
    y = (np.arange(4000) + 0.5) * 2 * math.pi / 4000 - math.pi
    parts = []
    for law in laws:
        other = np.minimum(np.abs(y - law.distance), 2 * math.pi - np.abs(y - law.distance))
        p = np.exp(-(y**2) / (2 * law.s**2))
        parts.append((p / p.sum(), (other**2 - y**2) / (2 * law.s**2)))
    (p, first), (q, second) = parts
    order = np.argsort(second)
    above = np.append(np.cumsum(q[order][::-1])[::-1], 0.0)
    for t in (0.0, 0.4, 1.5):
        truth = np.sum(p * above[np.searchsorted(second[order], t - first, side="right")])
        upper, lower = tails.log_tails(np.array([t]))
        assert math.exp(upper[0]) == pytest.approx(truth, abs=1e-3)
        assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(1.0, abs=1e-12)


def test_logarithms_of_sums():
    assert log_sum(np.array([[0.0, 0.0], [-math.inf, -math.inf]]), axis=1).tolist() == [math.log(2), -math.inf]
    assert log_sum(np.array([1000.0, 1000.0]), axis=0) == pytest.approx(1000 + math.log(2))


# ---- Newton steps


@pytest.mark.parametrize("mu", [1e-6, 0.02, 1.0, 7.0, 40.0])
def test_mu_from_delta_there_and_back(mu):
    """Each by the logarithm that has the digits: of δ below one half, of 1 − δ above."""
    eps = np.array([0.0, 0.1, 1.0, 5.0]) * mu
    log_delta = gdp_log_delta(mu, eps)
    low, high = eps[log_delta < -math.log(2)], eps[log_delta > -math.log(2)]
    rest = np.array([float(mp.log(one_minus_delta(mu, x))) for x in high])
    for start in (None, 1.7 * mu):
        assert _mu_from_log_delta(low, log_delta[log_delta < -math.log(2)], start) == pytest.approx(mu, rel=1e-11)
        assert _mu_from_log_rest(high, rest, start) == pytest.approx(mu, rel=1e-11)
    if mu < 7:
        assert gdp_mu(eps, gdp_delta(mu, eps)) == pytest.approx(mu, rel=1e-9)


def test_mills_ratio():
    x = np.array([-3.0, 0.0, 2.0, 60.0])
    with mp.workdps(60):
        truth = [float(mp.ncdf(-v) / mp.npdf(v)) for v in x]
        assert _mills(x) == pytest.approx(truth, rel=1e-13)
        for a, b in ((0.5, 3.0), (5.0, 5.0001), (150.0, 150.01), (-2.0, -1.9)):
            difference = mp.ncdf(-a) / mp.npdf(a) - mp.ncdf(-b) / mp.npdf(b)
            found = float(_mills_difference(np.array(a), np.array(b)))
            assert found == pytest.approx(float(difference), rel=1e-3)
    assert _mills(np.array(-50.0)) == _mills(np.array(-35.0))


# ---- what is refused, and where


@pytest.mark.parametrize("make", [gaussian_profile, laplace_profile])
def test_ranges_end_where_they_say(make):
    good = [
        (1.0, 2, 1e6, 1.0),
        (0.0, 3, 1e-7, 1.0) if make is laplace_profile else (1.0, 3, 1e-7, 1.0),
        (1.0, 2, 1.0, math.pi),
        (4.0, 1, 1.0, math.pi / 2),
        (0.25, 2, 1.0, 2 * math.pi),
        (-1.0, 2, 0.5, 300.0),
        (-1.0, 1, 1e50, 1e40),
    ]
    for arguments in good:
        assert make(*arguments).dim == arguments[1]
    bad = [
        (1.0, 2, 1.01e6, 1.0),
        (1.0, 2, 1e-7 * (1 - 1e-9), 1.0),
        (1.0, 2, 1.0, 1e-15 * (1 - 1e-9)),
        (1.0, 2, 1.0, math.pi * (1 + 1e-15)),
        (4.0, 1, 1.0, math.pi / 2 * (1 + 1e-15)),
        (-1.0, 2, 0.5, 300.0001),
        (1.0, 2, 1e-21, 1e-22),
        (1.0, 0, 1.0, 1.0),
        (1.0, 1.5, 1.0, 1.0),
        (math.inf, 2, 1.0, 1.0),
        (1.0, 2, 0.0, 1.0),
        (1.0, 2, 1.0, 0.0),
    ]
    for arguments in bad:
        with pytest.raises(ParameterError):
            make(*arguments)


def test_where_laws_end_and_what_spaces_are_called():
    for curvature, dim, limit in ((-1.0, 2, 1.0), (-1.0, 3, 0.5), (-4.0, 2, 0.5)):
        with pytest.raises(NotIntegrable):
            laplace_profile(curvature, dim, limit, 1.0)
        assert laplace_profile(curvature, dim, limit * (1 - 1e-12), 1.0).scale < limit
        assert gaussian_profile(curvature, dim, limit, 1.0).scale == limit
    assert laplace_profile(-1.0, 1, 5.0, 1.0).pure_epsilon == pytest.approx(0.2)
    with pytest.raises(ParameterError, match="kind"):
        ConstantCurvatureProfile("cauchy", 0.0, 1, 1.0, 1.0)
    names = {(0.0, 3): "Euclidean(3)", (1.0, 2): "Sphere(2)", (-1.0, 4): "Lorentz(4)"}
    for (curvature, dim), name in names.items():
        assert gaussian_profile(curvature, dim, 1.0, 1.0).space == name
    assert "curvature 0.5" in gaussian_profile(0.5, 2, 1.0, 1.0).space
    for curvature, dim in ((0.0, 3), (1.0, 3), (-1.0, 1)):
        assert gaussian_floor(curvature, dim, 1.0) == 0.0
        assert gaussian_profile(curvature, dim, 1.0, 1.0).floor is None
    assert gaussian_profile(-1.0, 2, 1.0, 1.0).floor == FloorProfile(-1.0, 2, 1.0)
    assert gaussian_floor(-4.0, 3, 0.5) == pytest.approx(gaussian_floor(-1.0, 3, 1.0), rel=1e-9)
    for curvature, dim, sensitivity in ((0.0, 2, 1.0), (1.0, 2, 1.0), (-1.0, 1, 1.0), (-1.0, 2, 0.0)):
        with pytest.raises(ParameterError):
            FloorProfile(curvature, dim, sensitivity)


@pytest.mark.parametrize(("curvature", "dim"), [(0.0, 3), (-1.0, 1), (0.0, 1)])
def test_flat_gaussians_in_closed_form(curvature, dim):
    profile, mu = gaussian_profile(curvature, dim, 2.0, 1.4), 0.7
    close = {"rel": 1e-13}
    assert profile.mu == pytest.approx(mu, **close)
    assert profile.rho == pytest.approx(mu * mu / 2, **close)
    assert profile.rao == pytest.approx(mu, **close)
    assert profile.renyi(3.0) == pytest.approx(3 * mu * mu / 2, **close)
    assert profile.pure_epsilon == math.inf
    assert profile.hellinger_angle == pytest.approx(2 * math.acos(math.exp(-mu * mu / 8)), rel=1e-12)
    assert profile.delta(0.5) == pytest.approx(gdp_delta(mu, 0.5), rel=1e-12)
    assert profile.tradeoff(0.3) == pytest.approx(ndtr(-ndtri(0.3) - mu), rel=1e-12)
    assert profile.mu_at(np.array([0.0, 9.0])) == pytest.approx([mu, mu], **close)
