"""Products: flat ones in closed form, one of H³'s by Monte Carlo over both factors, SPD(2), the splits."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_ndtr

from curvedp.errors import NotResolved, ParameterError
from curvedp.papers.gdp.algorithms import loss_sampler
from curvedp.papers.gdp.circle import circle_gaussian_delta
from curvedp.privacy import GDP, gaussian_floor, gaussian_profile
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.sum import RELATIVE_ERROR_OF_SUM
from curvedp.privacy.loss.table import TabulatedLossLaw
from curvedp.privacy.profiles import worst_split
from curvedp.privacy.profiles.products import ProductProfile, product_profile
from curvedp.privacy.profiles.split import split_profile
from support.privacy import delta_lower_bound, first_that_holds, log_constant


def spd2(sigma, sensitivity):
    """The Gaussian on SPD(2), which is ℝ × H² of curvature −½."""
    return product_profile([(0.0, 1), (-0.5, 2)], sigma, sensitivity)


def test_flat_products_are_flat():
    profile = product_profile([(0.0, 2), (0.0, 3), (-1.0, 1)], 2.0, 1.0)
    assert profile.mu == pytest.approx(0.5, rel=1e-12)
    assert profile.delta(0.3) == pytest.approx(GDP(0.5).delta(0.3), rel=1e-12)


def test_nearly_flat_sum_is_a_gaussian():
    """ℝ and a barely curved plane with lengths 0.6 and 0.8: the convolution must give δ of μ = 1."""
    profile = split_profile(((-1e-10, 2),), 1.0, 0.6, (0.8,))
    eps = np.array([0.0, 0.5, 3.0, 8.0])
    assert profile.delta(eps) == pytest.approx(GDP(1.0).delta(eps), rel=1e-8)


@pytest.mark.parametrize("factors", [((-1.0, 3), (1.0, 2)), ((-1.0, 2), (-1.0, 2))])
def test_convolution_against_samples_of_both_factors(factors):
    """i.i.d. losses of the two factors added up; 4·10⁵ draws, five standard errors."""
    rng, sigma, lengths = np.random.default_rng(3), 0.8, (0.7, 0.9)
    losses = sum(
        loss_sampler(k, d, sigma, x)(rng, 0, 400_000) / (2 * sigma**2)
        for (k, d), x in zip(factors, lengths, strict=True)
    )
    profile = split_profile(factors, sigma, 0.0, lengths)
    for eps in (0.0, 0.7, 2.0):
        terms = np.maximum(-np.expm1(np.minimum(eps - losses, 0.0)), 0.0)
        error = terms.std() / math.sqrt(len(terms))
        assert abs(profile.delta(eps) - terms.mean()) < 5 * error
        # one factor alone is far outside
        assert (
            abs(
                gaussian_profile(*factors[0], sigma, lengths[0]).delta(eps)
                - terms.mean()
            )
            > 20 * error
        )


def test_spd2_is_as_private_as_its_hyperbolic_factor():
    """The worst split puts everything on H² of curvature −½."""
    for sigma, D in ((0.3, 0.5), (5.0, 4.0)):
        spd, plane = spd2(sigma, D), gaussian_profile(-0.5, 2, sigma, D)
        assert (
            plane.mu <= spd.mu <= plane.mu * (1 + 2e-8)
        )  # a sum of losses is rounded up by more
        assert plane.delta(1.0) <= spd.delta(1.0) <= plane.delta(1.0) * (1 + 1e-7)
        assert spd.rao == pytest.approx(plane.rao, rel=1e-8)


def circle_product_delta(sigma, first, second, eps):
    """δ(ε) on S¹ × S¹: the closed form of one circle, integrated over the other in its own angle."""
    cap = first * (2 * math.pi - first) / (2 * sigma**2)

    def one(e):
        d = circle_gaussian_delta(sigma, first, abs(e)) if abs(e) < cap else 0.0
        return d if e >= 0 else -math.expm1(e) + math.exp(e) * d

    def other_loss(y):
        gap = min(abs(y - second), 2 * math.pi - abs(y - second))
        return (gap**2 - y**2) / (2 * sigma**2)

    far, marks = (
        2 * math.pi - second,
        {-math.pi, second - math.pi, math.pi, *np.linspace(-3, 3, 13)},
    )
    for level in (eps - cap, eps, eps + cap):  # where the integrand has a kink
        c = 2 * sigma**2 * level
        marks |= {
            y
            for y in ((second**2 - c) / (2 * second), (c - far**2) / (2 * far))
            if abs(y) < math.pi
        }

    def total(f):
        weighed = lambda y: math.exp(-(y**2) / (2 * sigma**2)) * f(y)  # noqa: E731 - a weight in a line
        return sum(
            quad(weighed, a, b, epsabs=1e-15, epsrel=1e-11)[0]
            for a, b in pairwise(sorted(marks))
        )

    return total(lambda y: one(eps - other_loss(y))) / total(lambda y: 1.0)


@pytest.mark.parametrize(
    ("sigma", "lengths", "eps"),
    [
        (1.0, (0.7, 0.7), 0.5),
        (0.5, (2.3, 1.6), 2.0),
        (4.0, (3.0, 2.2), 0.1),
        (0.8, (1.5, 0.02), 3.0),
    ],
)
def test_two_circles_by_brute_force(sigma, lengths, eps):
    """Both losses are bounded, and their sum has a kink where an end of one meets an end of the other."""
    ours, truth = (
        split_profile(((1.0, 1), (1.0, 1)), sigma, 0.0, lengths).delta(eps),
        circle_product_delta(sigma, *lengths, eps),
    )
    assert truth <= ours <= truth * (1 + 1e-8)


def test_two_spheres_are_never_below_any_split():
    """Every split is exceeded, the worst one by rounding only; equal halves are worst on two equal spheres."""
    sigma, D, eps = 1.0, 1.2, np.array([0.0, 0.7, 2.0])
    profile = product_profile([(1.0, 2), (1.0, 2)], sigma, D)
    delta, worst = profile.delta(eps), np.zeros(3)
    for theta in (0.0, 0.1, 0.33, 0.6, 0.77, math.pi / 4):
        at = np.asarray(
            split_profile(
                ((1.0, 2),) * 2, sigma, 0.0, (D * math.cos(theta), D * math.sin(theta))
            ).delta(eps)
        )
        assert np.all(delta >= at * (1 - 6e-9))  # each split is itself rounded up
        worst = np.maximum(worst, at)
    assert delta == pytest.approx(worst, rel=2e-7)
    assert profile.pure_epsilon == pytest.approx(
        D * (2 * math.sqrt(2) * math.pi - D) / (2 * sigma**2), rel=1e-12
    )


def test_the_worst_split_can_be_inside():
    """H² × H², Δ = σ = 3: no corner is the worst, so corners alone would understate μ."""
    profile = product_profile([(-1.0, 2), (-1.0, 2)], 3.0, 3.0)
    corner = gaussian_profile(-1.0, 2, 3.0, 3.0).mu
    assert profile.mu > corner * 1.002


def test_round_trip_and_refusals():
    profile = spd2(1.0, 0.5)
    assert guarantee_from_dict(profile.to_dict()) == profile.guarantee
    for bad in ([], [(1.0,)], [(1.0, 0)], [(math.nan, 2)]):
        with pytest.raises(ParameterError):
            product_profile(bad, 1.0, 1.0)
    with pytest.raises(ParameterError, match="diameter"):
        product_profile([(1.0, 2), (1.0, 2)], 1.0, 1.01 * math.pi * math.sqrt(2))
    with pytest.raises(ParameterError):
        spd2(math.nan, 1.0)


@pytest.mark.parametrize("factors", [((1.0, 2), (0.0, 1)), ((0.0, 1), (-0.5, 2))])
def test_tradeoff_of_a_product_at_every_alpha(factors):
    """No α, however close to an end, spoils the others; the curve is dual to δ(ε)."""
    profile = product_profile(factors, 0.8, 0.6)
    ends = (
        [] if factors[0][0] else [5e-324, 1 - 2.0**-53]
    )  # seconds each, more on the sphere: the code is the same
    alpha = np.array(sorted([0.0, *ends, 0.1, 0.5, 0.9, 1.0]))
    found = profile.tradeoff(alpha)
    assert np.all((found >= 0) & (found <= 1 - alpha))
    assert np.all(np.diff(found) <= 0)
    middle = (alpha >= 0.1) & (alpha <= 0.9)
    several = (0.0, 0.5)
    best = stats.norm.cdf(
        -np.array(several) / profile.mu - profile.mu / 2
    )  # where the Gaussian of this μ has it
    fine = np.add.outer(best, np.linspace(-0.02, 0.02, 17))
    again = profile.tradeoff(
        np.concatenate([alpha[middle], *fine])
    )  # together: the search over splits is shared
    assert found[middle] == pytest.approx(again[: middle.sum()], rel=1e-6)
    assert np.all(found >= GDP(profile.mu).tradeoff(alpha) * (1 - 1e-6))
    for eps, at, value in zip(
        several, fine, again[middle.sum() :].reshape(fine.shape), strict=True
    ):
        assert np.max(1 - value - np.exp(eps) * at) == pytest.approx(
            profile.delta(eps), abs=1e-5
        )


def test_products_know_their_ends():
    with pytest.raises(ParameterError, match="more than two parts"):
        product_profile([(1.0, 2), (0.0, 3), (-1.0, 2), (-2.0, 1)], 1.0, 0.5)
    profile = product_profile([(1.0, 2), (0.0, 3), (-2.0, 1)], 1.0, 0.5)
    assert profile._has_flat_factor
    assert profile._curved_factors == ((1.0, 2),)
    assert profile._part_diameters == [math.inf, math.pi]
    assert len(profile.extreme_splits) == 2
    assert profile.pure_epsilon == math.inf == profile.renyi(math.inf)
    spheres = product_profile([(1.0, 2), (4.0, 2)], 2.0, 1.0)
    diameter = math.hypot(math.pi, math.pi / 2)
    assert spheres.pure_epsilon == pytest.approx((2 * diameter - 1) / 8, rel=1e-12)
    assert product_profile([(1.0, 2), (4.0, 2)], 2.0, diameter).sensitivity == diameter
    with pytest.raises(ParameterError, match="diameter"):
        product_profile([(1.0, 2), (4.0, 2)], 2.0, diameter * (1 + 2e-15))
    for k, d in ((1.0, 2), (-1.0, 3), (0.0, 4)):
        one, own = product_profile([(k, d)], 1.0, 0.6), gaussian_profile(k, d, 1.0, 0.6)
        assert one.mu == own.mu
        assert one.delta(0.3) == own.delta(0.3)
        assert one.tradeoff(0.2) == own.tradeoff(0.2)
        assert one.rao == pytest.approx(own.rao, rel=1e-8)
    assert spd2(1.0, 0.5).space == "SPDAffineInvariant(2)"
    assert "dimension 2 curvature 4" in spheres.space
    assert spheres.floor is None
    assert (
        product_profile([(-1.0, 2), (0.0, 1)], 1.0, 0.5).floor
        == gaussian_profile(-1.0, 2, 1.0, 0.5).floor
    )
    assert product_profile([(-1.0, 2), (-1.0, 2)], 1.0, 0.5).floor is None
    pieces = [
        gaussian_profile(1.0, 2, 2.0, 1.0).rao,
        gaussian_profile(4.0, 2, 2.0, 1.0).rao,
    ]
    assert spheres.rao == pytest.approx(max(pieces), rel=1e-8)
    flat = product_profile([(0.0, 1), (1.0, 2)], 1.0, 0.5)
    assert flat.tradeoff(np.array([0.0, 1.0])).tolist() == [1.0, 0.0]
    assert flat.delta(math.inf) == 0.0
    both = flat._profile_of_split([0.3, 0.4])
    assert both.rao == pytest.approx(
        math.hypot(0.3, gaussian_profile(1.0, 2, 1.0, 0.4).rao), rel=1e-8
    )
    assert both._limiting_mu == pytest.approx(0.3)


def test_sums_of_losses_are_raised_by_their_margin_and_single_ones_are_not():
    spheres = ((1.0, 2), (1.0, 2))
    two = split_profile(spheres, 1.0, 0.0, (0.5, 0.6))
    assert two._relative_error == pytest.approx(
        RELATIVE_ERROR_OF_SUM + 20 * two.loss_table.series.unresolved, rel=1e-9
    )
    one = split_profile(spheres, 1.0, 0.3, (0.0, 0.6))
    assert one._relative_error == pytest.approx(
        20 * one.loss_table.series.unresolved, abs=1e-15
    )
    assert len(one.curved_profiles) == 1
    eps = np.array([0.2])
    raw = np.exp(two.loss_table.log_delta(eps)) * (1 + 1e-9)
    assert float(two.delta(0.2)) == pytest.approx(
        float(raw[0]) * (1 + two._relative_error), rel=1e-12
    )
    assert type(split_profile(spheres, 1.0, 0.0, (0.0, 0.6))) is type(
        gaussian_profile(1.0, 2, 1.0, 0.6)
    )
    flat = split_profile(spheres, 1.0, 0.7, (0.0, 0.0))
    assert flat.mu == pytest.approx(0.7)


class CuspLoss(PrivacyLossLaw):
    """Losses that are nearly N(½, 1), but whose tails are not smooth at one of them."""

    max_loss, loss_scale, resolution = math.inf, 1.0, 1e-9

    def __init__(self, cusp, height, power):
        self.cusp, self.height, self.power = cusp, height, power

    def log_tails(self, t):
        bump = self.height * np.abs(t - self.cusp) ** self.power
        log_upper = log_ndtr(0.5 - t) - bump
        return log_upper, np.log1p(-np.exp(log_upper))

    def discounted_integrals(self, eps):
        """δ(ε) and 1 − δ(ε), by quadrature on short intervals about the cusp."""
        near = 10.0 ** np.arange(-14, 0.5, 0.25)
        marks = [eps + np.linspace(0, 60, 400), self.cusp - near, self.cusp + near]
        marks = np.unique(np.concatenate([[eps, self.cusp], *marks]))
        marks = marks[marks >= eps]
        nodes, weights = np.polynomial.legendre.leggauss(60)
        half = np.diff(marks)[:, None] / 2
        t = marks[:-1, None] + half * (1 + nodes)
        return [
            np.sum(half * weights * np.exp(eps - t + tail.reshape(t.shape)))
            for tail in self.log_tails(t.ravel())
        ]


@pytest.mark.parametrize(("height", "power"), [(0.05, 0.1), (1e-2, 0.3), (1e-2, 0.5)])
def test_unresolved_panels_change_integrals_by_far_less_than_is_charged(height, power):
    law = CuspLoss(1.2345, height, power)
    table = TabulatedLossLaw(law)
    assert table.series.unresolved > 1e-9
    for eps in (0.0, 0.6, 1.2345, 1.2345 * (1 + 1e-9), 2.0):
        found = np.exp(
            [
                f(np.array([eps]))[0]
                for f in (table.log_delta, table.log_one_minus_delta)
            ]
        )
        error = np.abs(found / law.discounted_integrals(eps) - 1)
        assert np.all(error < 0.02 * table.series.unresolved + 1e-12)


def test_a_table_that_is_not_resolved_is_refused_for_every_parameter():
    split = split_profile(((1.0, 2), (1.0, 2)), 1.1, 0.0, (0.5, 0.6))
    split.loss_table.series.unresolved = 1e-5
    for parameter in (
        lambda: split.delta(0.1),
        lambda: split.mu,
        lambda: split.mu_at(np.array([0.1])),
        lambda: split.mu_of_tradeoff(np.array([0.1])),
    ):
        with pytest.raises(NotResolved, match="could not be computed accurately"):
            parameter()


def test_an_error_of_delta_changes_mu_by_less_than_twice_as_much():
    """The lemma of docs/theory/exact-profiles.md: the two derivatives exceed ½."""
    mu, eps = np.meshgrid(np.geomspace(1e-3, 30, 400), np.geomspace(1e-4, 60, 400))
    a, b = eps / mu - mu / 2, eps / mu + mu / 2
    with np.errstate(over="ignore"):
        density = np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
        small = np.exp(log_ndtr(-a)) - np.exp(eps + log_ndtr(-b))
        large = np.exp(log_ndtr(a)) + np.exp(eps + log_ndtr(-b))
    below = (small <= 0.5) & (small > 1e-6)  # below, digits are lost
    above = (small >= 0.5) & (large > 1e-300)
    slope_of_delta = (mu * density)[below] / small[below]
    slope_of_complement = (mu * density)[above] / large[above]
    assert 0.79 < slope_of_delta.min() < 0.9
    assert 0.51 < slope_of_complement.min() < 0.9


def test_tails_of_products_close_where_two_bounds_meet():
    """H³ × S²: Chernoff's K·e^{−z²/2} with the sphere's largest loss in its shift."""
    factors, s, distances = ((-1.0, 3), (1.0, 2)), 1.5, (0.6, 0.5)
    split = split_profile(factors, s, 0.0, distances)
    log_k, law = log_constant(3, s, 0.6)
    sphere = gaussian_profile(1.0, 2, s, 0.5)
    shift = law.mode * 0.6 / s**2 + (0.6 / s) ** 2 / 2 + sphere.pure_epsilon
    limit = 0.6 / s
    assert split._limiting_mu == pytest.approx(limit)
    mu = 1.3 * limit
    eps = first_that_holds(lambda e: split._large_eps_are_proved(mu, e), 1e-6, 1e6)
    z = (eps - shift) / limit
    excess = log_k - z * z / 2 - delta_lower_bound(mu, eps)
    slope = (
        z / limit
        - (eps / mu - mu / 2) / mu
        - 2 / (mu * (eps / mu + mu / 2 + math.sqrt(2)))
    )
    assert min(abs(excess), abs(slope)) < 1e-6
    assert excess <= 1e-6
    assert slope >= -1e-6
    assert not split._large_eps_are_proved(limit, 1e9)
    rho = limit**2 / 2 * 1.2
    order = first_that_holds(
        lambda a: split._no_larger_order_matters(a, rho), 1.0 + 1e-9, 1e9
    )
    drift = law.mode * 0.6 / s**2 + sphere.pure_epsilon
    assert limit**2 / 2 + (log_k / (order - 1) + drift) / order == pytest.approx(
        rho, rel=1e-6
    )


def test_what_a_product_costs_is_its_worst_split_raised_by_the_margin(monkeypatch):
    """With the search put aside: every cost is asked of the split, squared where it adds up, and raised."""
    profile, mu = product_profile([(0.0, 1), (1.0, 1)], 1.0, 0.5), 0.5
    monkeypatch.setattr(
        ProductProfile,
        "_largest_over_splits",
        lambda self, cost: cost(self._profile_of_split([0.5, 0.0])),
    )
    for found, truth, margin in (
        (profile.rho, mu * mu / 2, RELATIVE_ERROR_OF_SUM),
        (profile.renyi(2.0), mu * mu, RELATIVE_ERROR_OF_SUM),
        (
            profile.hellinger_angle,
            2 * math.acos(math.exp(-mu * mu / 8)),
            RELATIVE_ERROR_OF_SUM,
        ),
        (profile.mu, mu, 2 * RELATIVE_ERROR_OF_SUM),
        (profile.rao, mu, 1e-9),
    ):
        assert found == pytest.approx(truth * (1 + margin), rel=1e-10)
    raised = GDP(mu * (1 + 2 * (RELATIVE_ERROR_OF_SUM + 1e-9)))
    alpha = np.array([0.05, 0.4])
    assert profile.tradeoff(alpha) == pytest.approx(raised.tradeoff(alpha), rel=1e-10)
    assert profile.delta(0.3) == pytest.approx(raised.delta(0.3), rel=1e-10)


def test_factors_of_which_some_end():
    def squares(profile):
        return np.array([profile.rao**2])

    equal = product_profile([(1.0, 1), (1.0, 1)], 1.0, 0.5)
    truth = max(
        gaussian_profile(1.0, 1, 1.0, 0.5 * math.cos(t) + 1e-300).rao ** 2
        + gaussian_profile(1.0, 1, 1.0, max(0.5 * math.sin(t), 1e-90)).rao ** 2
        for t in np.linspace(0, math.pi / 2, 40)
    )
    assert equal._largest_over_splits(squares)[0] == pytest.approx(truth, rel=1e-6)
    capped = product_profile(
        [(1.0, 1), (4.0, 1)], 1.0, 3.0
    )  # the second circle ends at π/2
    assert capped._part_diameters == pytest.approx([math.pi, math.pi / 2])
    assert capped._largest_over_splits(squares)[0] >= gaussian_profile(
        1.0, 1, 1.0, 3.0
    ).rao ** 2 * (1 - 1e-9)


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
    assert hyperbolic.rao == pytest.approx(
        gaussian_profile(-1.0, 3, 1.0, 5.0).rao, rel=1e-8
    )
    for dim in (2, 3):
        assert gaussian_floor(-1.0, dim, 1.0) > 0
    assert gaussian_floor(-1.0, 1, 1.0) == 0.0


@pytest.mark.parametrize("factors", [((0.0, 1), (-0.5, 2)), ((0.0, 2), (0.0, 3))])
def test_epsilon_is_the_smallest_that_delta_allows(factors):
    profile = product_profile(factors, 0.9, 0.5)
    most = float(profile.delta(0.0))
    for delta in (most, most / 2):
        eps = profile.epsilon(delta)
        assert profile.delta(eps) <= delta  # as computed, to the last bit
        assert eps == 0 if delta >= most else profile.delta(eps * (1 - 1e-12)) > delta
    assert profile.epsilon(np.array([[0.9, most]])).tolist() == [[0.0, 0.0]]


def test_pieces_of_the_search():
    assert worst_split._direction(math.pi / 2).tolist() == [0.0, 1.0]
    assert worst_split._direction(0.0).tolist() == [1.0, 0.0]
    assert worst_split._direction(0.3) == pytest.approx([math.cos(0.3), math.sin(0.3)])
    parabola = np.array([3 - 0.12345**2 - 0.5, 2 * 0.12345, -0.5])  # 3 − (x − 0.12345)²
    peak = worst_split._climb_to_maximum(parabola, 0.12)
    assert peak == pytest.approx(3.0, abs=1e-12)
    assert worst_split._climb_to_maximum(np.array([3.0, 1.0]), 0.9999) == pytest.approx(
        4.0, abs=1e-6
    )


def test_the_largest_of_known_functions():
    c, tilt = np.array([1.0, 1.4]), np.array([0.2, 0.9])

    def value(u):
        w = np.asarray(u) ** 2
        return np.array([w @ c, math.exp(w @ tilt) / (1 + w @ tilt)])

    asked = []
    found = worst_split.largest_over_splits(lambda u: (asked.append(1), value(u))[1])
    truth = np.array([1.4, math.exp(0.9) / 1.9])
    assert np.all(found >= truth * (1 - 1e-12))
    assert found == pytest.approx(truth, rel=1e-5)
    assert len(asked) <= 33
    for low, high, best in (
        (0.0, 0.5, 0.5),
        (1.0, 1.5, 1.0),
    ):  # linear in u itself: harder than what is spent
        part = worst_split.largest_over_splits(
            lambda u: np.array([u @ [1.0, 1.0]]), low, high
        )
        truth = math.cos(best) + math.sin(best)
        assert truth * (1 - 1e-12) <= part[0] <= truth * (1 + 2e-7)
    kink = worst_split.largest_over_splits(
        lambda u: np.array([math.exp(40 * min(1.2 * u[0], u[1]))])
    )
    corner = math.sin(math.atan(1.2))
    assert kink[0] >= math.exp(40 * corner) * (1 - 1e-12)
    assert kink[0] <= math.exp(40 * corner) * 1.01


@pytest.mark.parametrize(
    "factors",
    [
        [(1.0, 2), (0.0, 2)],
        [(1.0, 2), (-1.0, 2)],
        [(0.0, 1), (-0.5, 2)],
        [(4.0, 1), (0.0, 1)],
    ],
    ids=str,
)
def test_one_factor_without_an_end_leaves_no_pure_epsilon(factors):
    assert product_profile(factors, 1.0, 0.1).pure_epsilon == math.inf


@pytest.mark.parametrize("D", [0.1, 2.0, 4.0])
def test_pure_epsilon_of_compact_factors_by_all_splits(D):
    """The loss of a factor is largest toward the antipode, D(2π − D)/2σ²; the worst split by brute force."""
    angle = np.linspace(0.0, math.pi / 2, 20_001)
    moved = np.stack([np.cos(angle), np.sin(angle)]) * D
    moved = moved[:, np.all(moved <= math.pi, axis=0)]
    worst = np.max(np.sum(moved * (2 * math.pi - moved), axis=0)) / 2 / 0.7**2
    found = product_profile([(1.0, 2), (1.0, 3)], 0.7, D).pure_epsilon
    assert worst <= found <= worst * (1 + 1e-6)


def test_the_worst_split_is_found_on_the_second_factor():
    """S² × H³: all on H³, in the half of the splits that equal factors need not look at."""
    angle = product_profile(((1.0, 2), (-1.0, 3)), 1.0, 1.0).hellinger_angle
    assert angle == pytest.approx(
        gaussian_profile(-1.0, 3, 1.0, 1.0).hellinger_angle, rel=2e-8
    )


def test_a_delta_below_all_floats_needs_no_search():
    """SPD(2), σ = 3, Δ = 0.02 at ε = 1 took half a minute of splits for 5e-324."""
    profile = product_profile([(-0.5, 2), (0.0, 1)], 3.0, 0.02)
    split_profile.cache_clear()
    assert profile.delta(1.0) == 5e-324
    assert split_profile.cache_info().misses <= 1
    # Where δ is a float, the search is made, and the bound does not cut it off.
    assert profile.delta(0.2) == pytest.approx(9.09e-177, rel=1e-3)
