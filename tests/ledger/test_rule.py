"""The sums are filters: an adversary who chooses after seeing gains nothing."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats

from curvedp.errors import BudgetExceeded, ParameterError, UnattainableGuarantee
from curvedp.ledger import Ledger
from curvedp.ledger.rule import (
    State,
    largest_account,
)  # a game of many states: a file for each would only be slow
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RaoDP,
    RenyiDP,
    compose,
    convert,
)

NODES = np.linspace(-9.0, 9.0, 4001)
WEIGHTS = stats.norm.pdf(NODES) * (NODES[1] - NODES[0])

# ---- an oracle: mechanisms as (losses under P, their probabilities), a loss of inf where Q has no mass


def losses(g: Guarantee) -> tuple[np.ndarray, np.ndarray]:
    """The worst mechanism of the guarantee's own definition, or one that attains its parameter."""
    if (mu := _shift(g)) is not None:
        return mu * NODES + mu * mu / 2, WEIGHTS
    delta = getattr(g, "delta0", 0.0)
    p = math.exp(g.eps) / (1 + math.exp(g.eps))
    return np.array([math.inf, g.eps, -g.eps]), np.array(
        [delta, (1 - delta) * p, (1 - delta) * (1 - p)]
    )


def _shift(g: Guarantee) -> float | None:
    """μ of the Gaussian N(0, 1) against N(μ, 1) that attains the guarantee; None where a few outcomes do."""
    match g:
        case GDP():
            return g.mu
        case ZCDP():
            return math.sqrt(2 * g.rho)
        case RenyiDP():
            return math.sqrt(2 * g.eps / g.order)
        case RaoDP():  # the line is the geodesic of the family
            return g.theta
    return None


def hockey_stick(eps: np.ndarray, g: Guarantee) -> np.ndarray:
    """E_P (1 − e^{ε − L})₊ of that mechanism for every ε, negative ones too."""
    if (mu := _shift(g)) is not None:
        return stats.norm.cdf(mu / 2 - eps / mu) - np.exp(
            eps + stats.norm.logcdf(-mu / 2 - eps / mu)
        )
    loss, weight = losses(g)
    return np.sum(
        weight * -np.expm1(np.minimum(np.subtract.outer(eps, loss), 0.0)), axis=-1
    )


def after(state: State, guarantee: Guarantee) -> State:
    charge = state.charge(guarantee, None, None)
    account = charge.converts_budget_to
    counting = state if account is None else state.converted_to(account)
    return State(
        state.budget,
        state.number + 1,
        "",
        counting.account,
        charge.total,
        counting.spent_before_conversion,
    )


def largest(state: State, kind) -> Guarantee | None:
    """The largest guarantee of a kind that still fits, by trying."""
    low, high = 1e-6, 50.0
    try:
        account = state.charge(kind(low), None, None).converts_budget_to
    except (BudgetExceeded, UnattainableGuarantee, ParameterError):
        return None
    # The account is the same whatever the size of the release.
    if account is not None:
        state = state.converted_to(account)

    def fits(x: float) -> bool:
        try:
            state.charge(kind(x), None, None)
        except BudgetExceeded:
            return False
        return True

    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return kind(low)


KINDS = {
    "pure": PureDP,
    "approx": lambda x: ApproxDP(x, 1e-4 * min(x, 1.0)),
    "zcdp": ZCDP,
    "renyi": lambda x: RenyiDP(4.0, x),
    "gdp": GDP,
    "rao": RaoDP,
}


@pytest.mark.parametrize(
    ("budget", "kinds"),
    [
        (PureDP(1.0), ("pure",)),
        (ApproxDP(1.0, 1e-3), ("pure", "approx")),
        (ApproxDP(1.0, 1e-3), ("pure", "approx", "gdp")),
        (ApproxDP(2.0, 1e-2), ("approx", "zcdp", "gdp")),
        (ApproxDP(0.5, 1e-2), ("renyi", "gdp", "zcdp", "pure")),
        (ZCDP(0.5), ("zcdp", "gdp", "pure")),
        (RenyiDP(4.0, 1.0), ("renyi", "zcdp", "gdp", "pure")),
        (GDP(1.0), ("gdp", "pure")),
        (RaoDP(1.0), ("rao",)),
    ],
)
def test_two_rounds_chosen_after_seeing_stay_within_the_budget(budget, kinds):
    """First a release of any kind and size; then, at every loss that was seen, whatever hurts most of all that still fits."""
    eps = np.array([0.2, 0.7, 1.0, 2.0])
    promised = budget.delta(eps)
    tried = 0
    for name, share in product(kinds, (0.05, 0.5)):
        whole = largest(State.new(budget, ""), KINDS[name])
        first = KINDS[name](share * _size(whole))
        state = after(State.new(budget, ""), first)
        seconds = [
            g for g in (largest(state, KINDS[k]) for k in kinds) if g is not None
        ]
        loss, weight = losses(first)
        finite = np.isfinite(loss)
        gains = [hockey_stick(np.subtract.outer(eps, loss[finite]), g) for g in seconds]
        value = np.max(gains, axis=0) @ weight[finite] + weight[~finite].sum()
        assert np.all(
            value <= promised * (1 + 1e-5) + 1e-9
        )  # the quadrature of the adversary's kinks
        tried += len(seconds)
    assert tried >= len(kinds)


def _size(g: Guarantee) -> float:
    return next(getattr(g, name) for name in g.additive_fields)


def test_totals_of_each_definition_converted_at_the_end_are_no_filter():
    """Why an (ε, δ) ledger counts in one definition: GDP first, then more GDP or a pure release, whichever serves.

    Either way the totals at the end, GDP(μ) and E, satisfy δ_μ(ε − E) <= δ. The adversary attains 1.8·δ.
    """
    eps, delta = 2.0, 1e-5
    mu = optimize.brentq(lambda m: float(GDP(m).delta(eps)) - delta, 0.01, 10)
    first, more = math.sqrt(0.1) * mu, math.sqrt(0.9) * mu
    pure = optimize.brentq(lambda e: float(GDP(first).delta(eps - e)) - delta, 0, eps)
    loss, weight = losses(GDP(first))
    gains = [hockey_stick(eps - loss, g) for g in (GDP(more), PureDP(pure))]
    assert all(
        gain @ weight <= delta * 1.001 for gain in gains
    )  # each by itself is what the totals promise
    assert np.max(gains, axis=0) @ weight > 1.7 * delta
    # The ledger lets the same adversary have less of the pure release, and its value stays below δ.
    state = after(State.new(ApproxDP(eps, delta), ""), GDP(first))
    allowed = largest(state, PureDP)
    assert allowed.eps < 0.9 * pure
    gains = [hockey_stick(eps - loss, g) for g in (largest(state, GDP), allowed)]
    assert np.max(gains, axis=0) @ weight <= delta * (1 + 1e-5)


# ---- an (ε, δ) budget


@pytest.mark.parametrize(
    ("part", "count"),
    [(GDP(0.05), 25), (ZCDP(0.001), 25), (RenyiDP(12.0, 0.01), 25), (RaoDP(1e-4), 25)],
)
def test_an_approximate_budget_composes_every_definition_tightly(tmp_path, part, count):
    budget = ApproxDP(2.0, 1e-6)
    ledger = Ledger(tmp_path / "x", budget)
    for number in range(count):
        ledger.spend(part, f"{number}")
    spent = ledger.spent
    tight = (
        compose([part] * count)
        if not isinstance(part, RaoDP)
        else RaoDP(part.theta * 5)
    )
    assert spent.delta0 == budget.delta0
    assert (
        float(tight.epsilon(1e-6))
        <= spent.eps
        <= float(tight.epsilon(1e-6)) * (1 + 1e-6) + 1e-9
    )
    assert type(ledger.remaining) is type(part)
    ledger.spend(ledger.remaining, "all the rest")
    assert ledger.spent.eps <= budget.eps
    assert ledger.spent.eps > budget.eps * 0.999
    assert ledger.verify() == count + 1


def test_the_account_is_the_largest_that_implies_what_was_left(tmp_path):
    ledger = Ledger(tmp_path / "x", ApproxDP(1.0, 1e-5))
    ledger.spend(ApproxDP(0.25, 1e-6), "a point")
    ledger.spend(PureDP(0.25), "pure")
    assert ledger.remaining.eps == 0.5
    ledger.spend(GDP(1e-3), "a curve")
    left = math.sqrt(Fraction(ledger.remaining.mu) ** 2 + Fraction(1e-3) ** 2)
    oracle = optimize.brentq(
        lambda m: (
            stats.norm.cdf(m / 2 - 0.5 / m)
            - math.exp(0.5) * stats.norm.cdf(-m / 2 - 0.5 / m)
            - 9e-6
        ),
        0.01,
        1,
    )
    assert left == pytest.approx(oracle, rel=1e-9)
    with pytest.raises(UnattainableGuarantee, match="was turned into GDP"):
        ledger.spend(ApproxDP(0.01, 1e-9), "a point, too late")
    entry = ledger.spend(PureDP(0.01), "pure, counted as GDP")
    assert isinstance(entry.guarantee, GDP)
    reopened = Ledger(tmp_path / "x")
    assert reopened.spent == ledger.spent
    assert reopened.remaining == ledger.remaining
    assert reopened.verify() == 4


def test_a_whole_profile_is_counted_by_its_mu(tmp_path):
    from curvedp.geometry import Sphere
    from curvedp.laws import RiemannianGaussian

    ledger = Ledger(tmp_path / "x", ApproxDP(1.0, 1e-5))
    profile = RiemannianGaussian(Sphere(2), 0.5).profile(0.01)
    assert ledger.spend(profile, "a release").guarantee == convert(profile, to=GDP)


def test_estimators_pay_in_the_definition_that_is_counted_in(tmp_path):
    from curvedp import PrivateFrechetMean
    from curvedp.geometry import Sphere

    ledger = Ledger(tmp_path / "x", ApproxDP(3.0, 1e-4))
    records = np.tile(Sphere(2).origin, (500, 1))
    for guarantee, kind in (
        (ApproxDP(0.5, 1e-6), ApproxDP),
        (GDP(0.2), GDP),
        (ApproxDP(0.5, 1e-6), GDP),
    ):
        PrivateFrechetMean(
            Sphere(2),
            radius=0.5,
            guarantee=guarantee,
            mechanism="gaussian",
            ledger=ledger,
        ).fit(records)
        assert isinstance(ledger.entries[-1].guarantee, kind)
    assert isinstance(ledger.account, GDP)
    assert (
        ledger.entries[-1].guarantee.mu < 0.3
    )  # of a mechanism that is (0.5, 1e-6)-DP


def test_a_divergence_of_another_order_is_paid_by_what_the_mechanism_gives(tmp_path):
    """Of a higher order the asked guarantee says nothing; the mechanism's own profile does, whichever order is counted."""
    from curvedp import PrivateFrechetMean
    from curvedp.geometry import Sphere

    records = np.tile(Sphere(2).origin, (50, 1))
    for order in (2.0, 4.0, 8.0):
        ledger = Ledger(tmp_path / str(order), RenyiDP(order, 5.0))
        model = PrivateFrechetMean(
            Sphere(2),
            radius=0.5,
            guarantee=RenyiDP(4.0, 0.4),
            mechanism="tangent-gaussian",
            ledger=ledger,
        )
        claimed = model.fit(records).certificate_.claims.gdp
        paid = ledger.entries[0].guarantee
        assert paid.order == order
        assert (
            order * claimed**2 / 2 * (1 - 1e-9)
            <= paid.eps
            < order * claimed**2 / 2 * (1 + 1e-6)
        )


def test_what_does_not_fit_opens_nothing(tmp_path):
    ledger = Ledger(tmp_path / "x", ApproxDP(1.0, 1e-5))
    with pytest.raises(BudgetExceeded, match="does not fit"):
        ledger.spend(GDP(3.0), "too much")
    with pytest.raises(ParameterError):
        ledger.spend(RaoDP(0.1, angle="hellinger"), "no filter")
    ledger.spend(ApproxDP(1.0, 1e-5), "all of it, still in points")
    with pytest.raises(BudgetExceeded, match="nothing of"):
        ledger.spend(GDP(1e-9), "nothing is left to open")


def test_pure_releases_use_up_no_delta(tmp_path):
    ledger = Ledger(tmp_path / "x", ApproxDP(1.0, 1e-5))
    ledger.spend(ApproxDP(0.5, 1e-5), "all of δ")
    assert ledger.remaining == PureDP(0.5)
    ledger.spend(PureDP(0.5), "the rest of ε")
    assert ledger.spent == ApproxDP(1.0, 1e-5)
    assert ledger.remaining is None


def test_groups_are_counted_within_their_account(tmp_path):
    """A group's earlier (ε, δ) entries are no part of its GDP entries; of either only the dearest group counts."""
    ledger = Ledger(tmp_path / "x", ApproxDP(2.0, 1e-5))
    for group in "ab":
        ledger.spend(ApproxDP(0.5, 1e-6), group, partition="wards", group=group)
    assert ledger.spent == ApproxDP(0.5, 1e-6)
    for group, mu in (("a", 0.1), ("b", 0.12), ("a", 0.05)):
        ledger.spend(GDP(mu), group, partition="wards", group=group)
    alone = Ledger(tmp_path / "y", ApproxDP(2.0, 1e-5))
    alone.spend(ApproxDP(0.5, 1e-6), "once")
    alone.spend(GDP(0.12), "once")
    assert ledger.spent == alone.spent
    assert Ledger(tmp_path / "x").remaining == alone.remaining
    assert ledger.verify() == 5


def test_a_rest_below_every_guarantee_opens_no_account():
    """Where no guarantee is small enough, or none too large, there is no largest one to name."""
    assert largest_account(RenyiDP(2.0, 1.0), 1e-300, 1e-320) is None
    assert largest_account(RenyiDP(2.0, 1.0), math.inf, 0.5) is None
