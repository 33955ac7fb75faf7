"""Exact draws of the heat kernel: against its quadrature, which shares no formula with them, and with parts left out."""

import math

import numpy as np
import pytest
from flint import arb
from scipy import stats

from curvedp.entropy import GeneratorSource
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, Sphere
from curvedp.laws import HeatKernel
from curvedp.laws.exact import curved, exact_draw
from curvedp.laws.exact.heat import HeatHop, heat_hop
from curvedp.laws.spaceform import rays_of


def source(seed):
    return GeneratorSource(np.random.default_rng(seed))


def drawn(M, scale, n, center=None):
    center = np.asarray(M.origin) if center is None else center
    bits = source(3)
    points = np.stack(
        [exact_draw("heat", M, scale, center, source=bits).point for _ in range(n)]
    )
    return np.asarray(M.dist(center, points)), points


@pytest.mark.parametrize(
    ("M", "scale", "n"),
    [(Sphere(2), 0.1, 300), (Sphere(2), 0.5, 100), (Sphere(9), 0.2, 100), (Lorentz(2), 1.5, 300),
     (Lorentz(7), 0.9, 300), (PoincareBall(3), 0.4, 300), (Sphere(60), 0.05, 60)],
    ids=str,
)  # fmt: skip
def test_draws_follow_the_kernel(M, scale, n):
    r, _ = drawn(M, scale, n)
    assert stats.kstest(HeatKernel(M, scale).radial_cdf(r), "uniform").pvalue > 1e-4
    assert (
        stats.kstest(HeatKernel(M, 0.6 * scale).radial_cdf(r), "uniform").pvalue < 1e-4
    )


def hop_lengths(M, scale, n):
    hop, bits = HeatHop(rays_of(M), scale, 1), source(5)
    return np.array([float(hop.draw(bits).ball(64)) for _ in range(n)])


@pytest.mark.parametrize(
    ("M", "scale", "n"), [(Lorentz(9), 1.0, 2500), (Sphere(25), 0.29, 2000)], ids=str
)
def test_the_killing_is_needed_and_is_right(M, scale, n):
    """By the log ratio of the kernel and of what is proposed, the best of all tests between them, at one long hop; on the
    sphere 4e-6 of the paths go where the potential is not its own."""
    law, sn = HeatKernel(M, scale), np.sin if isinstance(M, Sphere) else np.sinh
    half = (M.dim - 1) / 2

    def ratio(r):
        return (
            law._engine.log_weight(r)
            + r * r / (2 * scale**2)
            + half * np.log(sn(r) / r)
        )

    r = np.linspace(
        1e-4, min(law._engine._end, 3.0 if sn is np.sin else np.inf), 20_001
    )
    proposed = half * np.log(r * sn(r)) - r * r / (2 * scale**2)
    right, wrong = (
        np.average(ratio(r), weights=np.exp(h - h.max()))
        for h in (proposed + ratio(r), proposed)
    )
    drawn_ratio = ratio(hop_lengths(M, scale, n))
    error = np.std(drawn_ratio) / math.sqrt(n)
    assert abs(np.mean(drawn_ratio) - right) < 3.5 * error
    assert abs(np.mean(drawn_ratio) - wrong) > 4 * error


@pytest.mark.parametrize("M", [Sphere(2), Sphere(5), Lorentz(2), Lorentz(6)], ids=repr)
def test_the_rate_of_killing_is_between_its_bounds(M):
    hop = HeatHop(rays_of(M), 0.1, 1)
    for r in (0.01, 0.5, 1.0, 1.9, 2.0, 2.5, 3.1):
        rate, most = hop._rates(arb(r))
        assert 0 <= float(rate) <= float(most) * (1 + 1e-12)
    rates = [float(hop._rates(arb(r))[0]) for r in (0.001, 0.5, 1.5)]
    assert rates == sorted(
        rates, reverse=M.dim == 2
    )  # g grows, and c changes its sign at d = 3


def test_what_is_cut_off_has_the_stated_chance():
    for d in (2, 3, 10, 100, 785):
        hop = heat_hop(rays_of(Sphere(d)), 0.3 if d < 40 else d**-0.5)
        t = hop.scale**2
        log_a = (d - 1) ** 2 * t / 8 + t / 8
        assert (
            math.log(6) + log_a + stats.chi2.logsf(4 / t, d)
            <= math.log(hop.tau / hop.count) + 1e-9
        )
        assert hop.tau < 2.0**-100
        assert hop.count == 1 or not HeatHop(hop.rays, 2 * hop.scale, 1).feasible
    assert heat_hop(rays_of(Lorentz(3)), 2.0).tau == 0.0


def test_time_is_cut_exactly():
    for M, scale in ((Sphere(2), 0.77), (Lorentz(12), 1.1)):
        hop = heat_hop(rays_of(M), scale)
        assert hop.count > 1
        assert hop.scale * math.isqrt(hop.count) == scale
    assert heat_hop(rays_of(Sphere(2)), 1e-3).count == 1


def test_many_hops_are_as_good_as_one(monkeypatch):
    law = HeatKernel(Lorentz(4), 0.8)
    monkeypatch.setattr(HeatHop, "feasible", property(lambda self: self.count == 4))
    heat_hop.cache_clear()
    r, _ = drawn(Lorentz(4), 0.8, 200)
    heat_hop.cache_clear()
    assert stats.kstest(law.radial_cdf(r), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("M", [Sphere(3), Lorentz(3), PoincareBall(3)], ids=repr)
def test_directions_are_uniform_away_from_the_origin(M):
    center = np.asarray(
        M.exp(M.origin, M.from_coordinates(M.origin, np.array([0.7, -0.4, 0.2])))
    )
    _, points = drawn(M, 0.14, 300, center)
    z = np.asarray(M.to_coordinates(center, M.log(center, points)))
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    for i in range(
        3
    ):  # of a uniform direction in three dimensions each coordinate is uniform
        assert stats.kstest((u[:, i] + 1) / 2, "uniform").pvalue > 1e-3


def test_the_filter_changes_no_integer(monkeypatch):
    with_filter = [
        exact_draw(
            "heat", Sphere(60), 0.05, Sphere(60).origin, source=source(i)
        ).integers
        for i in range(5)
    ]
    monkeypatch.setattr(curved, "FILTER_SIZE", 10**9)
    without = [
        exact_draw(
            "heat", Sphere(60), 0.05, Sphere(60).origin, source=source(i)
        ).integers
        for i in range(5)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(with_filter, without, strict=True))


def test_refusals():
    for M, scale in (
        (Euclidean(2), 0.5),
        (Sphere(1), 0.5),
        (Sphere(2), 2.5),
        (Sphere(2), math.nan),
        (Lorentz(2), 0.0),
    ):
        with pytest.raises(ParameterError):
            exact_draw("heat", M, scale, M.origin)
