"""What is charged for mechanisms on disjoint groups, in every kind of budget.

Two oracles. What is charged must bound the true privacy profile of each mechanism, so a
budget of pure ε never pays for Gaussian noise; and a pair is refused exactly where one of the
two is refused alone.
"""

import contextlib
import functools
import itertools

import numpy as np
import pytest

from curvedp import Ledger, PrivateFrechetMean, PrivateMDM
from curvedp.core import registry
from curvedp.core.statistic import Statistic
from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry import Euclidean, Sphere
from curvedp.ledger import rule
from curvedp.ledger.rule import State
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PrivacyUnit,
    PureDP,
    RaoDP,
    RenyiDP,
)
from curvedp.privacy.curve import PrivacyCurve
from curvedp.privacy.guarantees.base import additive_kinds
from curvedp.privacy.guarantees.renyi import DefinedByEpsilon
from curvedp.release.pay import pay
from curvedp.statistics.frechet_mean import FrechetMean

BUDGETS = {
    "PureDP": PureDP(40.0),
    "ApproxDP": ApproxDP(40.0, 0.9),
    "ZCDP": ZCDP(40.0),
    "RenyiDP": RenyiDP(4.0, 40.0),
    "KLDP": KLDP(40.0),
    "MeanConcentratedDP": MeanConcentratedDP(40.0, 40.0),
    "GDP": GDP(40.0),
    "RaoDP": RaoDP(40.0),
}
ASKED = {
    "PureDP": PureDP(1.0),
    "ApproxDP": ApproxDP(1.0, 0.1),
    "ZCDP": ZCDP(0.5),
    "RenyiDP": RenyiDP(8.0, 0.5),
    "KLDP": KLDP(0.3),
    "MeanConcentratedDP": MeanConcentratedDP(0.4, 1.0),
    "GDP": GDP(1.0),
    "RaoDP": RaoDP(0.5),
}
EPSILONS = (0.0, 0.3, 1.0, 1.4, 2.0, 5.0)


def test_every_definition_with_a_cost_is_here():
    # The documentation's tests may have registered definitions of their own.
    kinds = [
        name
        for name in additive_kinds()
        if PrivacyCurve._registry[name].__module__.startswith("curvedp.")
    ]
    assert sorted(BUDGETS) == kinds == sorted(ASKED)


@functools.cache
def _mechanisms(asked):
    """Every mechanism for a mean that can be calibrated to this, for classes of two sizes."""
    made = []
    for number, kind in enumerate(registry.mechanisms):
        statistic = FrechetMean(Euclidean(2), None, 0.5, (8, 30)[number % 2])
        if not kind.supports(statistic):
            continue
        with contextlib.suppress(CurvedpError):
            made.append(kind.calibrate(statistic, ASKED[asked]))
    return made


@functools.cache
def _deltas(guarantee):
    return guarantee.delta(np.array(EPSILONS))


@functools.cache
def _true_deltas(mechanism):
    return mechanism.privacy_profile.delta(np.array(EPSILONS))


@functools.cache
def _is_bounded(mechanism, guarantee):
    """Whether the true δ(ε) of a mechanism is at most that of a guarantee.

    Some definitions give ε(δ), and search for its inverse in seconds. There δ(ε) >= t
    is the same as ε(δ) > ε for every δ below t.
    """
    largest = _true_deltas(mechanism) * (1 - 1e-9)
    if not isinstance(guarantee, DefinedByEpsilon):
        return bool(np.all(_deltas(guarantee) >= largest))
    is_positive = largest > 0
    epsilons = guarantee.epsilon(largest[is_positive])
    return bool(np.all(epsilons > np.array(EPSILONS)[is_positive]))


@pytest.fixture(autouse=True, scope="module")
def _open_accounts_once():
    """Every pair opens the same account of an (ε, δ) budget, which takes seconds to find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "largest_account", functools.cache(rule.largest_account))
        yield


def _charged(folder, budget, asked, mechanisms):
    """What a fresh ledger is charged, as a guarantee; None where it refuses."""
    path = folder / "study.ledger"
    path.unlink(missing_ok=True)
    ledger = Ledger(path, BUDGETS[budget])
    try:
        pay(ledger, "means", ASKED[asked], mechanisms)
    except (ParameterError, UnattainableGuarantee):
        assert ledger.entries == []
        return None
    (entry,) = ledger.entries
    return entry.guarantee


@pytest.mark.parametrize("asked", sorted(ASKED))
@pytest.mark.parametrize("budget", sorted(BUDGETS))
def test_every_pair_is_charged_what_bounds_both(tmp_path, budget, asked):
    mechanisms = _mechanisms(asked)
    assert len(mechanisms) >= 2
    alone = [_charged(tmp_path, budget, asked, [each]) for each in mechanisms]
    for first, second in itertools.combinations(range(len(mechanisms)), 2):
        pair = [mechanisms[first], mechanisms[second]]
        singles = [alone[first], alone[second]]
        charged = _charged(tmp_path, budget, asked, pair)
        assert (charged is None) == (None in singles)
        if charged is None:
            continue
        # The largest of every parameter, of which all are of one definition.
        assert {type(single) for single in singles} == {type(charged)}
        for name in charged.additive_fields:
            largest = max(getattr(single, name) for single in singles)
            assert getattr(charged, name) == largest
        # And a bound on what each of the two really tells.
        for mechanism in pair:
            assert _is_bounded(mechanism, charged)


def test_the_order_of_the_groups_does_not_matter(tmp_path):
    mechanisms = _mechanisms("ApproxDP")
    for budget in BUDGETS:
        forward = _charged(tmp_path, budget, "ApproxDP", mechanisms)
        backward = _charged(tmp_path, budget, "ApproxDP", mechanisms[::-1])
        assert forward == backward
        assert (forward is None) == (
            budget in ("PureDP", "RaoDP", "MeanConcentratedDP")
        )


def _lexicographic(counted):
    """The old rule, which compared bare numbers of any definition. Wrong on purpose."""
    return max(counted, key=lambda guarantee: guarantee.cost())


@pytest.mark.parametrize(
    ("budget", "charges"),
    [
        (ApproxDP(9.0, 0.5), (ApproxDP(1.0, 1e-3), ApproxDP(0.5, 1e-2))),
        (
            MeanConcentratedDP(9.0, 9.0),
            (MeanConcentratedDP(1.0, 0.1), MeanConcentratedDP(0.5, 2.0)),
        ),
        (ApproxDP(9.0, 0.5), (PureDP(2.0), ApproxDP(0.5, 1e-2))),
    ],
)
def test_two_parameters_have_no_order(budget, charges):
    """(1, 10⁻³) and (½, 10⁻²): neither bounds the other, and both are bounded by (1, 10⁻²)."""
    charge = State.new(budget, "").charge_disjoint(charges, None, None)
    for each in charges:
        for eps in EPSILONS:
            assert charge.guarantee.delta(eps) >= each.delta(eps) * (1 - 1e-12)
    wrong = _lexicographic(charges)
    assert any(
        wrong.delta(eps) < each.delta(eps) * (1 - 1e-6)
        for each in charges
        for eps in EPSILONS
    )
    assert charge == State.new(budget, "").charge_disjoint(charges[::-1], None, None)


@pytest.mark.parametrize("sizes", [(8, 30), (30, 8), (8, 8, 30)])
def test_a_pure_budget_never_pays_for_gaussian_classes(tmp_path, sizes):
    """By default the mechanism depends on a class's size: Laplace noise for small ones."""
    ledger = Ledger(tmp_path / "study.ledger", PureDP(20.0))
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(len(y), 2)) * 0.1
    model = PrivateMDM(
        Euclidean(2), radius=1.0, guarantee=ApproxDP(1.0, 0.1), ledger=ledger
    )
    with pytest.raises(UnattainableGuarantee, match="implies no PureDP"):
        model.fit(X, y)
    assert ledger.entries == []
    other = Ledger(tmp_path / "other.ledger", GDP(20.0))
    model.set_params(ledger=other).fit(X, y)
    kinds = {each.mechanism for each in model.certificates_}
    assert len(kinds) == 2  # or the test tests nothing
    (entry,) = other.entries
    assert entry.guarantee.mu >= max(c.claims.gdp for c in model.certificates_)


# ---- whom an entry protects, and of what it is


def test_every_statistic_says_how_many_it_is_about():
    """A statistic with a public number of records says it; one without says None."""
    import dataclasses

    numbers = {"n", "size", "sizes", "counts"}
    for kind in registry.statistics:
        name = kind.name
        if not name.startswith("stated"):
            counted = {each.name for each in dataclasses.fields(kind)} & numbers
            states = kind.public_count is not Statistic.public_count
            assert bool(counted) == states, name
        assert kind.privacy_units, name


def test_entries_say_whom_they_protect_and_what_they_are_about(tmp_path):
    rng = np.random.default_rng(0)
    X = Sphere(2).exp(
        np.array([0.0, 0.0, 1.0]), np.c_[rng.normal(size=(40, 2)) * 0.1, np.zeros(40)]
    )
    in_class = PrivacyUnit.RECORD_IN_CLASS
    ledger = Ledger(tmp_path / "records.ledger", GDP(9.0), unit=in_class)
    PrivateFrechetMean(Sphere(2), radius=0.7, ledger=ledger).fit(X)
    PrivateMDM(Sphere(2), radius=0.7, ledger=ledger).fit(X, np.repeat([0, 1], 20))
    assert ledger.unit is in_class
    mean, classes = ledger.entries
    assert (mean.unit, mean.n) == (PrivacyUnit.RECORD, 40)
    assert (mean.space, mean.statistic) == ("sphere:2", "Fréchet mean")
    assert (classes.unit, classes.n) == (in_class, 40)
    assert classes.statistic == "Fréchet mean, of each of 2 public classes"


def test_a_private_number_of_records_is_in_no_entry(tmp_path):
    budget = GDP(9.0, adjacency="add-remove")
    ledger = Ledger(tmp_path / "study.ledger", budget)
    X = np.random.default_rng(0).normal(size=(41, 2)) * 0.1
    guarantee = GDP(1.0, adjacency="add-remove")
    mean = PrivateFrechetMean(
        Euclidean(2), radius=1.0, guarantee=guarantee, ledger=ledger
    )
    mean.fit(X)
    (entry,) = ledger.entries
    assert entry.n is None
    assert "41" not in str(entry._replace(hash="", time=""))
