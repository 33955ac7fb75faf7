"""Ways through the accounting that few inputs take: caps, laws that end, three factors, flat lines, confidence bounds."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from curvedp.errors import UnattainableGuarantee
from curvedp.privacy import (
    GDP,
    ZCDP,
    PureDP,
    RaoDP,
    calibrate,
    compose_profiles,
    constant_curvature,
    convert,
    gaussian_floor,
    gaussian_profile,
    laplace_profile,
    product_profile,
)
from curvedp.privacy._loss_sum import MARGIN, LossSum
from curvedp.privacy._space_form import SpaceFormLaw
from curvedp.privacy.calibrate import smallest_scale
from curvedp.privacy.constant_curvature import ConstantCurvatureProfile
from curvedp.privacy.products import ProductProfile
from curvedp.privacy.spd_confidence import ConfidenceProfile
from reproductions.gdp.algorithms import algorithm2_estimate


def test_what_a_product_costs_is_its_worst_split_raised_by_the_margin(monkeypatch):
    """With the search put aside: every cost is asked of the split, squared where it adds up, and raised."""
    profile, mu = product_profile([(0.0, 1), (1.0, 1)], 1.0, 0.5), 0.5
    monkeypatch.setattr(ProductProfile, "_worst", lambda self, cost: cost(self._at([0.5, 0.0])))
    for found, truth, margin in (
        (profile.rho, mu * mu / 2, MARGIN),
        (profile.renyi(2.0), mu * mu, MARGIN),
        (profile.hellinger_angle, 2 * math.acos(math.exp(-mu * mu / 8)), MARGIN),
        (profile.mu, mu, 2 * MARGIN),
        (profile.rao, mu, 1e-9),
    ):
        assert found == pytest.approx(truth * (1 + margin), rel=1e-10)
    raised = GDP(mu * (1 + 2 * (MARGIN + 1e-9)))
    alpha = np.array([0.05, 0.4])
    assert profile.tradeoff(alpha) == pytest.approx(raised.tradeoff(alpha), rel=1e-10)
    assert profile.delta(0.3) == pytest.approx(raised.delta(0.3), rel=1e-10)


def test_three_factors_of_which_some_end():
    """What a sphere's whole diameter costs is added to what the others do with all of the length."""
    half_turn = gaussian_profile(1.0, 1, 1.0, math.pi).rao ** 2

    def squares(profile):
        return np.array([profile.rao**2])

    some = product_profile([(1.0, 1), (1.0, 1), (0.0, 1)], 1.0, 4.0)
    assert some._worst(squares)[0] == pytest.approx(16 + 2 * half_turn, rel=1e-6)
    none = product_profile([(1.0, 1), (1.0, 1), (1.0, 1)], 1.0, 4.0)
    assert none._worst(squares)[0] == pytest.approx(3 * half_turn, rel=1e-6)
    all_free = product_profile([(1.0, 1), (1.0, 1), (0.0, 1)], 1.0, 0.5)
    assert all_free._worst(squares)[0] == pytest.approx(0.25, rel=1e-5)
    equal = product_profile([(1.0, 1), (1.0, 1)], 1.0, 0.5)
    truth = max(
        gaussian_profile(1.0, 1, 1.0, 0.5 * math.cos(t) + 1e-300).rao ** 2
        + gaussian_profile(1.0, 1, 1.0, max(0.5 * math.sin(t), 1e-90)).rao ** 2
        for t in np.linspace(0, math.pi / 2, 40)
    )
    assert equal._worst(squares)[0] == pytest.approx(truth, rel=1e-6)
    capped = product_profile([(1.0, 1), (4.0, 1)], 1.0, 3.0)  # the second circle ends at π/2
    assert capped._caps == pytest.approx([math.pi, math.pi / 2])
    assert capped._worst(squares)[0] >= gaussian_profile(1.0, 1, 1.0, 3.0).rao ** 2 * (1 - 1e-9)


def test_searches_that_start_where_no_law_is():
    found = smallest_scale(lambda s: laplace_profile(-1.0, 2, s, 0.1), GDP(0.4), 5.0)
    assert found == pytest.approx(calibrate("laplace", -1.0, 2, 0.1, GDP(0.4)), rel=1e-10)
    assert calibrate("laplace", -1.0, 2, 0.1, PureDP(0.2)) == pytest.approx(0.5, rel=1e-10)
    for eps in (0.1, 0.1 * (1 + 1e-14), 0.05):  # it would take a scale that no law has
        with pytest.raises(UnattainableGuarantee):
            calibrate("laplace", -1.0, 2, 0.1, PureDP(eps))
    assert calibrate("laplace", -1.0, 2, 0.1, PureDP(0.1 * (1 + 1e-10))) < 1.0


def test_one_dimension_and_the_uniform_limit():
    line = gaussian_profile(0.0, 1, 2.0, 1.0)
    t = np.array([0.0, 0.3, 1.0])
    upper, lower = line.tails.log_tails(t)
    assert upper == pytest.approx(log_ndtr(0.25 - t / 0.5), rel=1e-9)
    assert lower == pytest.approx(log_ndtr(t / 0.5 - 0.25), rel=1e-9)
    assert SpaceFormLaw("gaussian", 1, 3, 1e6, 1.0).mode == pytest.approx(math.pi / 2, rel=1e-9)
    assert SpaceFormLaw("gaussian", 1, 3, 1e-9, 1.0).mode == pytest.approx(math.sqrt(2) * 1e-9, rel=1e-9)
    assert SpaceFormLaw("gaussian", 1, 2, 3e8, 1.0).mode <= math.pi / 2
    single = compose_profiles([GDP(0.3)])
    assert single == GDP(0.3)
    assert compose_profiles([GDP(3.0), GDP(4.0)]) == GDP(5.0)
    sphere = gaussian_profile(1.0, 2, 1.0, 1.0)
    assert convert(sphere, to=RaoDP) == RaoDP(sphere.hellinger_angle, angle="hellinger")


def test_more_nodes_where_the_table_asks_for_them(monkeypatch):
    orders = []
    original = constant_curvature.LossTable

    def fussy(law):
        orders.append(law.order)
        if law.order < 256:
            raise ArithmeticError("not resolved")
        return original(law)

    monkeypatch.setattr(constant_curvature, "LossTable", fussy)
    profile = ConstantCurvatureProfile("gaussian", 1.0, 2, 1.0, 1.0)
    assert profile.delta(0.2) == pytest.approx(gaussian_profile(1.0, 2, 1.0, 1.0).delta(0.2), rel=1e-9)
    assert orders[:3] == [64, 128, 256]
    monkeypatch.setattr(constant_curvature, "LossTable", lambda law: (_ for _ in ()).throw(ArithmeticError("never")))
    with pytest.raises(ArithmeticError):
        _ = ConstantCurvatureProfile("gaussian", 1.0, 2, 1.0, 1.1)._table


def test_the_curve_of_a_confidence_bound():
    profile = ConfidenceProfile((0.0, 0.5, 1.0), (0.4, 0.2, 0.1), 0.01, 100)
    alpha = np.array([0.0, 0.2, 0.6])
    lines = [1 - d - math.exp(e) * alpha for e, d in ((0.0, 0.4), (0.5, 0.2), (1.0, 0.1))]
    backwards = [math.exp(-e) * (1 - d - alpha) for e, d in ((0.0, 0.4), (0.5, 0.2), (1.0, 0.1))]
    best = np.maximum(np.max([*lines, *backwards], axis=0), 0.0)
    assert np.all(profile.tradeoff(alpha) <= best + 1e-9)
    assert profile.tradeoff(alpha) == pytest.approx(best, abs=0.02)


def test_the_paper_takes_a_hundred_batches_of_a_thousand():
    calls = []

    def sampler(rng, which, n):
        calls.append((which, n))
        return np.zeros(n)

    found = algorithm2_estimate(sampler, 1.0, 1.0, np.random.default_rng(0))
    assert calls == [(0, 1000)] * 100 + [(1, 1000)] * 100
    assert len(found.eps) == 1000


@pytest.mark.parametrize(("d", "s", "D", "order"), [(2, 1.0, 6.0, 64), (2, 3.0, 12.0, 128), (3, 1.0, 10.0, 1024)])
def test_steep_flanks_take_more_nodes(d, s, D, order):
    """On large hyperbolic distances the sum of two losses is taken with more nodes, and only there."""
    profile = gaussian_profile(-1.0, d, s, D)
    scale = profile.tails.loss_scale
    found = LossSum(profile._table, profile._table, scale, scale)
    assert found.order == order
    t = scale * np.array([0.0, 1.0, 4.0])
    upper, lower = found.log_tails(t)
    finest = found._log_tails(t, 1024)
    assert upper == pytest.approx(finest[0], rel=1e-9, abs=1e-9)
    assert lower == pytest.approx(finest[1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "target", "bits"), [("gaussian", GDP(0.4), 40), ("laplace", GDP(0.4), 40), ("laplace", ZCDP(0.05), 30)]
)
def test_scales_lie_on_the_stated_lattice(kind, target, bits):
    """A multiple of 2^-40 of a power of two (2^-30 for zCDP), and of no coarser one by chance in all of five cases."""
    found = [calibrate(kind, 1.0, 2, D, target) for D in (0.1, 0.2, 0.3, 0.37, 0.45)]
    steps = [math.frexp(x)[0] * 2**bits for x in found]
    assert all(step == round(step) for step in steps)
    assert any(step % 2 for step in steps)


def test_angles_of_products_count_each_sphere_up_to_its_diameter():
    profile = product_profile([(4.0, 2), (0.0, 1)], 1.0, 3.0)
    sphere = gaussian_profile(4.0, 2, 1.0, math.pi / 2).rao / (math.pi / 2)
    assert profile.rao == pytest.approx(3.0 * max(1.0, sphere), rel=1e-8)
    small = product_profile([(4.0, 2), (1.0, 2)], 0.2, 2.0)
    per_length = [
        gaussian_profile(4.0, 2, 0.2, math.pi / 2).rao / (math.pi / 2),
        gaussian_profile(1.0, 2, 0.2, 2.0).rao / 2,
    ]
    assert small.rao == pytest.approx(2.0 * max(per_length), rel=1e-8)
    hyperbolic = product_profile([(-1.0, 3), (0.0, 1)], 1.0, 5.0)
    assert hyperbolic.rao == pytest.approx(gaussian_profile(-1.0, 3, 1.0, 5.0).rao, rel=1e-8)
    for dim in (2, 3):
        assert gaussian_floor(-1.0, dim, 1.0) > 0
    assert gaussian_floor(-1.0, 1, 1.0) == 0.0
