"""What every guarantee shares: dictionaries, costs that add up, numbers and arrays."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.papers.gdp.algorithms import (
    algorithm1_estimate,
    algorithm2_estimate,
    loss_sampler,
)
from curvedp.papers.gdp.circle import circle_gaussian_delta_printed
from curvedp.papers.rao.discrete import (
    discrete_gaussian_rao,
    geometric_rao,
    randomized_response_rao,
)
from curvedp.papers.rao.mechanisms import (
    bernoulli_distance,
    exponential_distance,
    gaussian_distance,
    generalized_gaussian_hellinger,
    generalized_gaussian_information,
    laplace_hellinger,
    mean_square_radius,
    poisson_distance,
    riemannian_gaussian_theta,
    riemannian_laplace_theta,
)
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Composition,
    Guarantee,
    RaoDP,
    RenyiDP,
    compose,
    gaussian_profile,
    subsampled_gaussian,
)
from curvedp.privacy.guarantees.base import additive_kinds, guarantee_from_dict
from curvedp.privacy.guarantees.conversions import randomized_response_renyi
from curvedp.privacy.guarantees.gaussian import gdp_delta, gdp_log_delta, gdp_mu
from curvedp.privacy.guarantees.rao import (
    hellinger_from_affinity,
    rao_delta,
    rao_epsilon,
    rao_tradeoff,
)
from curvedp.privacy.guarantees.renyi import renyi_epsilon, zcdp_epsilon
from curvedp.privacy.profiles.products import product_profile
from privacy.guarantees import ALL, IDS


@pytest.mark.parametrize("g", ALL, ids=IDS)
def test_limits_not_nan(g):
    for eps in (0, 0.0, 1e-300, 1e-16, 1e3, 1e300, math.inf):
        assert 0 <= g.delta(eps) <= 1
    for delta in (5e-324, 1e-300, 1e-16, 0.5, 1 - 1e-16):
        assert g.epsilon(delta) >= 0
    alpha = np.array([0.0, 1e-300, 0.5, 1.0])
    assert np.all((g.tradeoff(alpha) >= 0) & (g.tradeoff(alpha) <= 1 - alpha + 1e-15))


@pytest.mark.parametrize("g", ALL, ids=IDS)
def test_json_round_trip_is_exact(g):
    back = guarantee_from_dict(json.loads(json.dumps(g.to_dict())))
    assert back == g
    assert hash(back) == hash(g)
    assert type(back) is type(g)


def test_json_refuses_what_it_does_not_know():
    for bad in (
        {},
        {"type": "Magic"},
        {"type": "GDP"},
        {"type": "GDP", "mu": -1.0},
        {"type": "GDP", "mu": 1.0, "x": 2},
    ):
        with pytest.raises(ParameterError):
            guarantee_from_dict(bad)
    nested = compose(GDP(0.1), ApproxDP(0.2, 1e-9))
    assert isinstance(nested, Composition)
    assert guarantee_from_dict(nested.to_dict()) == nested


def test_frozen_and_readable():
    with pytest.raises(AttributeError):
        GDP(1.0).mu = 2.0
    assert repr(GDP(0.5)) == "GDP(0.5)"
    assert repr(RaoDP(0.5, angle="hellinger", adjacency="add-remove")) == (
        "RaoDP(0.5, adjacency='add-remove', angle='hellinger')"
    )


def _additive() -> list[Guarantee]:
    values = {"eps": 0.3, "delta0": 1e-5, "rho": 0.2, "order": 3.0, "mu": 0.7, "theta": 0.4,
              "alpha": 0.1, "mean": 0.2, "deviation": 0.6}  # fmt: skip
    kinds = [Guarantee._registry[name] for name in additive_kinds()]
    return [
        kind(
            **{
                f.name: values[f.name]
                for f in dataclasses.fields(kind)
                if f.name in values
            }
        )
        for kind in kinds
    ]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("guarantee", _additive(), ids=lambda g: type(g).__name__)
def test_costs_add_up_exactly_and_lead_back(guarantee, adjacency):
    guarantee = dataclasses.replace(guarantee, adjacency=adjacency)
    kind, cost = type(guarantee), guarantee.cost()
    assert (
        kind.from_cost(cost, up=True, like=guarantee)
        == kind.from_cost(cost, up=False, like=guarantee)
        == guarantee
    )
    for times in (Fraction(3), Fraction(1, 7), Fraction(10) ** 5):
        wanted = tuple(times * c for c in cost)
        try:
            above = kind.from_cost(wanted, up=True, like=guarantee).cost()
            below = kind.from_cost(wanted, up=False, like=guarantee).cost()
        except ParameterError:
            assert (kind, wanted[1] >= 1) == (ApproxDP, True)
            continue
        assert all(b <= w <= a for b, w, a in zip(below, wanted, above, strict=True))
        assert all(
            a - b <= w * Fraction(1, 2**50)
            for b, w, a in zip(below, wanted, above, strict=True)
        )
    assert kind.from_cost(tuple(0 * c for c in cost), up=True, like=guarantee) is None


def test_what_does_not_add_up_has_no_cost():
    for guarantee in (
        RaoDP(0.3, angle="hellinger"),
        compose(GDP(0.5), ApproxDP(0.5, 1e-6)),
    ):
        with pytest.raises(ParameterError, match="does not add up"):
            guarantee.cost()


ULP = 1e-13


def above(found, truth, slack=ULP):
    """Rounded up, and by no more than the slack."""
    return truth * (1 - 1e-16) <= found <= truth * (1 + slack)


def test_numbers_in_floats_out_arrays_in_arrays_out():
    for f in (
        lambda x: gdp_delta(x, 0.5),
        lambda x: gdp_log_delta(x, 0.5),
        lambda x: gdp_mu(x, 0.1),
        lambda x: randomized_response_renyi(x, 2.0),
        lambda x: rao_delta(x, 0.1),
        lambda x: rao_epsilon(1.0, x / 2),
        lambda x: rao_tradeoff(1.0, x),
        lambda x: hellinger_from_affinity(x),
        lambda x: renyi_epsilon(2.0, 0.5, x / 2),
        lambda x: zcdp_epsilon(0.5, x / 2),
        RenyiDP(2.0, 0.5).delta,
        ZCDP(0.5).delta,
        lambda x: gaussian_distance(x, 1.0, 0.0, 1.0),
        lambda x: bernoulli_distance(x, 0.1),
        lambda x: poisson_distance(x, 0.1),
        lambda x: exponential_distance(x, 0.1),
        lambda x: gaussian_profile(1.0, 2, 1.0, 1.0).renyi(1 + x),
        GDP(0.5).delta,
        GDP(0.5).tradeoff,
        gaussian_profile(1.0, 2, 1.0, 1.0).delta,
    ):
        both = f(np.array([[0.3, 0.6]]))
        assert isinstance(both, np.ndarray)
        assert both.shape == (1, 2)
        for x, y in zip((0.3, 0.6), both[0], strict=True):
            assert type(f(x)) is float
            assert f(x) == pytest.approx(float(y), rel=1e-12)


def test_least_counts_are_let_in_and_one_less_is_not():
    sampler = loss_sampler(1.0, 2, 1.0, 1.0)

    def rng():
        return np.random.default_rng(0)

    eps = math.pi / 8
    assert algorithm1_estimate(2.0, 1.0, 1) == pytest.approx(
        gdp_mu(eps, circle_gaussian_delta_printed(2.0, 1.0, eps))
    )
    assert (
        len(algorithm2_estimate(sampler, 1.0, 1.0, rng(), n=2, m=1, n_eps=1).eps) == 1
    )
    assert randomized_response_rao(1.0, 2).theta == randomized_response_rao(1.0).theta
    assert geometric_rao(1.0, 1).theta == geometric_rao(1.0).theta
    assert discrete_gaussian_rao(1.0, 1).theta == discrete_gaussian_rao(1.0).theta
    assert laplace_hellinger(1.0, 1.0, 1) == laplace_hellinger(1.0, 1.0)
    assert riemannian_laplace_theta(1.0, 2.0, 1) == 0.5
    assert riemannian_gaussian_theta(1.0, 2.0, 1) == pytest.approx(0.5)
    assert mean_square_radius(-1.0, 1, 2.0) == pytest.approx(4.0, rel=1e-9)
    assert generalized_gaussian_hellinger(1.0, 1.0, 1.0) == pytest.approx(
        laplace_hellinger(1.0, 1.0), rel=1e-8
    )
    assert subsampled_gaussian(1.0, 0.5, 1).counts == (1,)
    for call in (
        lambda: algorithm1_estimate(2.0, 1.0, 0),
        lambda: algorithm2_estimate(sampler, 1.0, 1.0, rng(), n=1),
        lambda: randomized_response_rao(1.0, 1),
        lambda: geometric_rao(1.0, 0),
        lambda: discrete_gaussian_rao(1.0, 0),
        lambda: laplace_hellinger(1.0, 1.0, 0),
        lambda: riemannian_laplace_theta(1.0, 2.0, 0),
        lambda: riemannian_gaussian_theta(1.0, 2.0, 0),
        lambda: mean_square_radius(1.0, 0, 1.0),
        lambda: generalized_gaussian_hellinger(1.0, 1.0, math.nextafter(1.0, 0.0)),
        lambda: generalized_gaussian_information(1.0, 0.5),
        lambda: loss_sampler(1.0, 1, 1.0, 1.0),
        lambda: subsampled_gaussian(1.0, 0.5, 0),
        lambda: product_profile([(1.0, 0)], 1.0, 1.0),
        lambda: algorithm2_estimate(sampler, 1.0, 0.0, rng()),
    ):
        with pytest.raises(ParameterError):
            call()
