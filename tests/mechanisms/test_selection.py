"""Private selection: the law of what is chosen, from its definition; the price, by brute force; what certificates say."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from flint import arb
from scipy import stats

from curvedp.core.certificate import seal
from curvedp.errors import BudgetExceeded, ParameterError, VerificationFailed
from curvedp.ledger import Ledger
from curvedp.mechanisms.selection import (
    BestRelease,
    SelectionMechanism,
    draw_run_count,
)
from curvedp.privacy import GDP, ApproxDP, NegativeBinomialRuns, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.release.selection import private_selection
from curvedp.release.verify import verify_certificate
from support.goodness import generating

LAWS = [
    NegativeBinomialRuns(0.1),
    NegativeBinomialRuns(0.3, 1.0),
    NegativeBinomialRuns(0.05, -0.5),
]


def chances(law, most=3000):
    """P(K = k), k = 0 … most, from the definition."""
    weight = [0.0, 1.0]
    for k in range(2, most):
        weight.append(weight[-1] * (1 - law.stop) * (k - 1 + law.shape) / k)
    return np.array(weight) / sum(weight)


def best_law(masses, law):
    """Of the best of K ordered outcomes with these masses, summed over K."""
    p = chances(law)
    below = np.concatenate([[0.0], np.cumsum(masses)])
    return np.diff([np.sum(p * np.minimum(x, 1.0) ** np.arange(len(p))) for x in below])


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_number_of_runs_has_its_law(law):
    """K changes where the sum of its chances, by mpmath, does: at 1e-30 of it, which floats cannot tell."""
    with mpmath.workdps(60):
        stop, shape = mpmath.mpf(law.stop), mpmath.mpf(law.shape)
        weights = [mpmath.mpf(1)]
        for k in range(2, 4000):
            weights.append(weights[-1] * (1 - stop) * (k - 1 + shape) / k)
        below = [sum(weights[:k]) / sum(weights) for k in (1, 2, 3, 7, 20)]
        for k, edge in zip((1, 2, 3, 7, 20), below, strict=True):
            for off, found in ((-1e-30, k), (1e-30, k + 1)):
                u = mpmath.nstr(edge + off, 50)
                assert draw_run_count(law, lambda bits, u=u: [arb(u)]) == found
    assert draw_run_count(law, lambda bits: [arb("1e-300")]) == 1
    assert draw_run_count(law, lambda bits: [1 - arb(2) ** -100]) < 5000  # it ends


def test_means():
    for mean in (1.5, 6.0, 30.0, 300.0):
        assert NegativeBinomialRuns.of_mean(mean).mean == pytest.approx(mean, rel=1e-6)
    with pytest.raises(ParameterError):
        NegativeBinomialRuns.of_mean(1.0)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_chosen_candidate_has_its_law(law):
    """Candidate k has score k: the best is the largest of K uniform draws."""
    mechanism = SelectionMechanism(
        statistic=BestRelease(4, "replace-one"),
        stop=law.stop,
        shape=law.shape,
        run=PureDP(1.0).to_dict(),
        order=None,
    )
    source = GeneratorSource(np.random.default_rng(0))
    seen = np.bincount(
        [mechanism.draw(lambda k: (float(k), k), source).value[0] for _ in range(4000)],
        minlength=4,
    )
    expected = 4000 * best_law(np.full(4, 0.25), law)
    assert stats.chisquare(seen, expected).pvalue > 1e-4
    fixed = 4000 * np.diff(np.arange(5) / 4) ** 1.0  # as if one run were made
    assert stats.chisquare(seen, fixed * seen.sum() / fixed.sum()).pvalue < 1e-6


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_price_of_pure_runs_by_brute_force(law):
    target, worst = PureDP(1.0), 0.0
    run, order = law.one_of(target)
    assert order is None
    for share in (
        1e-3,
        0.05,
        0.3,
        0.5,
        0.9,
    ):  # two outcomes, the better one with this chance; and three
        for size in (2, 3):
            p = np.append(np.full(size - 1, (1 - share) / (size - 1)), share)
            q = p * np.exp(run.eps * np.append(np.zeros(size - 1), 1.0))
            a, b = best_law(p, law), best_law(q / q.sum(), law)
            worst = max(worst, float(np.max(np.abs(np.log(a / b)))))
    assert worst <= 1.0
    assert worst > 0.5 / (2 + law.shape)
    # Whoever gives every run the whole budget exceeds it.
    p, q = np.array([0.999, 0.001]), np.array([1 - 0.001 * math.e, 0.001 * math.e])
    dear = np.max(np.abs(np.log(best_law(p, LAWS[1]) / best_law(q, LAWS[1]))))
    assert dear > 0.95


def test_the_price_of_gaussian_runs_by_brute_force():
    law, target = LAWS[0], ApproxDP(1.0, 1e-5)
    run, order = law.one_of(target)
    assert isinstance(run, GDP)
    assert law.best(run, order).delta(1.0) <= 1e-5
    assert (
        min(
            law.best(GDP(1.05 * run.mu), k).delta(1.0)
            for k in (order / 1.2, order, order * 1.2)
        )
        > 1e-5
    )
    x = np.linspace(-8, 8 + run.mu, 4001)
    for sign in (1, -1):
        cdf = [stats.norm.cdf(sign * (x - m)) for m in (0.0, run.mu)]
        p, q = (
            np.diff([generating(law, float(min(c, 1.0))) for c in np.sort(each)])
            for each in cdf
        )
        p, q = (p, q) if sign == 1 else (p[::-1], q[::-1])
        for a, b in ((p, q), (q, p)):
            assert np.sum(np.maximum(a - math.e * b, 0)) <= 1e-5


def release(cut, budget, source):
    """A count with Laplace noise: the score is what is released."""
    u = float(source.uniform((1,))[0]) - 0.5
    return 10 * cut - math.copysign(math.log1p(-2 * abs(u)), u) / getattr(
        budget, "eps", 1.0
    ), {"cut": cut}


@pytest.mark.parametrize(
    "target",
    [PureDP(1.0), ApproxDP(2.0, 1e-6), PureDP(1.0, adjacency="add-remove")],
    ids=str,
)
def test_one_charge_and_a_certificate(target, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", target)
    found = private_selection([0.1, 0.5, 9.0], release, target, ledger=ledger)
    assert found.candidate == found.value["cut"]
    assert len(ledger.entries) == 1
    assert found.certificate.guarantee == target
    checks = verify_certificate(found.certificate)
    assert all(check.holds is not False for check in checks), [
        c for c in checks if c.holds is False
    ]
    with pytest.raises(BudgetExceeded):
        private_selection(
            [0.1], lambda *_: pytest.fail("nothing runs"), target, ledger=ledger
        )
    run = dict(found.certificate.parameters["run"])
    number = "eps" if "eps" in run else "mu"
    for lie in ({"run": {**run, number: 2 * run[number]}}, {"shape": 3.0}):
        parameters = {**found.certificate.parameters, **lie}
        checks = verify_certificate(
            seal(replace(found.certificate, parameters=parameters))
        )
        assert any(check.holds is False for check in checks)
    other = {**found.certificate.parameters, "run": {**run, "adjacency": "neither"}}
    with pytest.raises(VerificationFailed):
        verify_certificate(seal(replace(found.certificate, parameters=other)))


def test_nonfinite_scores_are_never_chosen():
    found = private_selection(["bad", "good"], lambda c, *_: (math.nan if c == "bad" else 0.0, c), PureDP(1.0),
                              runs=NegativeBinomialRuns(1e-3, 1.0))  # fmt: skip
    assert found.candidate == "good"
    assert (
        private_selection(np.linspace(0, 1, 5), release, PureDP(1.0)).candidate <= 1.0
    )


def test_refusals():
    for arguments, says in (
        (([], release, PureDP(1.0)), "candidates"),
        (([1], None, PureDP(1.0)), "release"),
        (([1], release, 1.0), "guarantee"),
        (([1], release, GDP(1.0)), "PureDP or ApproxDP"),
        ((3, release, PureDP(1.0)), "candidates"),
        (([1], release, PureDP(1.0), 3), "runs"),
        (([1], release, PureDP(1.0), None, "book.ledger"), "curvedp.Ledger"),
        (([1], release, PureDP(1.0), None, None, 7), "label"),
    ):
        with pytest.raises(ParameterError, match=says):
            private_selection(*arguments)


@pytest.mark.parametrize(
    "score",
    [3, 3.0, np.float32(3), np.array(3), np.array([3.0]), [3.0], np.array([[3]])],
    ids=repr,
)
def test_one_number_is_a_score_however_it_is_written(score):
    assert (
        private_selection([1, 2], lambda *given: (score, None), PureDP(1.0)).score
        == 3.0
    )


@pytest.mark.parametrize(
    "score", [np.nan, -np.inf, None, np.ma.masked, np.array([np.nan])], ids=repr
)
def test_a_score_of_nan_counts_as_the_worst(score):
    assert (
        private_selection([1, 2], lambda *given: (score, None), PureDP(1.0)).score
        == -np.inf
    )


@pytest.mark.parametrize(
    "found",
    [
        None,
        5,
        (1,),
        (1, 2, 3),
        ("text", 1),
        (1j, 1),
        (10**400, 1),
        ([1.0, 2.0], 1),
        ([], 1),
    ],
    ids=str,
)
def test_malformed_candidates_are_refused_without_quoting_them(found):
    with pytest.raises(
        ParameterError,
        match=r"^release must return \(score, value\), and the score must be one number$",
    ):
        private_selection([1, 2], lambda *given: found, PureDP(1.0))
