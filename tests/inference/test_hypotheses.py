"""Private permutation tests: the level is kept at every n, a wrong version is found out, and the bit is private."""

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from curvedp import GDP, ApproxDP, Ledger, PureDP
from curvedp.core.certificate import seal
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import BudgetExceeded, ParameterError, VerificationFailed
from curvedp.geometry import Euclidean, Lorentz, Rotations, SPDAffineInvariant, Sphere
from curvedp.inference import k_sample_test, paired_test, two_sample_test
from curvedp.inference.kernel import PairedDistance, SamplesDistance
from curvedp.inference.permutation import NoisyStatistics, PermutationMechanism
from curvedp.randomness import GeneratorSource
from curvedp.records.persons import person_means
from curvedp.release.verify import verify_certificate

LEVEL, RUNS, B = 0.1, 90, 19


def sample(M, rng, n, shift=0.0, spread=0.4):
    return np.asarray(
        M.from_normal_coordinates(
            M.origin, shift / np.sqrt(M.dim) + spread * rng.standard_normal((n, M.dim))
        )
    )


def spoiled(X):
    """Ties, records far outside the ball, and records that are none."""
    X = X.copy()
    X[: len(X) // 2] = X[0]
    X[-1] = np.nan
    X[-2] = np.inf
    X[-3] *= 100
    return X


def rejections(mechanism, M, sizes, runs=RUNS, spoil=False, seed=0):
    rng, source = (
        np.random.default_rng(seed),
        GeneratorSource(np.random.default_rng(seed + 1)),
    )
    count = 0
    for _ in range(runs):
        pooled = sample(M, rng, sum(sizes))
        if spoil:
            pooled = spoiled(pooled)[
                rng.permutation(sum(sizes))
            ]  # one law for both samples
        draw = mechanism.draw(
            mechanism.prepare_data(np.split(pooled, np.cumsum(sizes)[:-1])), source
        )
        count += int(draw.integers[0][0])
    return count


def mechanism_for(M, sizes, guarantee, paired=False, kind=PermutationMechanism):
    statistic = (PairedDistance if paired else SamplesDistance)(M, None, 1.0, sizes)
    return kind.calibrate(statistic, guarantee).at_level(LEVEL, B)


# Every kind of samples on the sphere, and every other space once: a space gives the distances and nothing else.
SETTINGS = [
    (Sphere(2), (5, 5), GDP(1.0), False, False),
    (Sphere(2), (12, 30), GDP(8.0), False, True),
    (Sphere(2), (10, 10), PureDP(2.0), True, False),
    (Sphere(2), (20, 20), GDP(50.0), True, True),
    (Euclidean(2), (5, 5), GDP(1.0), False, False),
    (Lorentz(3), (12, 30), GDP(8.0), False, True),
    (SPDAffineInvariant(2), (10, 10), PureDP(2.0), True, False),
    (Rotations(3), (20, 20), GDP(50.0), True, True),
]


@pytest.mark.parametrize(
    ("M", "sizes", "guarantee", "paired", "spoil"), SETTINGS, ids=str
)
def test_the_level_is_kept(M, sizes, guarantee, paired, spoil):
    hits = rejections(mechanism_for(M, sizes, guarantee, paired), M, sizes, spoil=spoil)
    assert binomtest(hits, RUNS, LEVEL, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize("spoil", [False, True])
def test_the_level_of_three_samples_is_kept(spoil):
    M, sizes = Sphere(2), (5, 8, 12)
    hits = rejections(mechanism_for(M, sizes, GDP(4.0)), M, sizes, spoil=spoil)
    assert binomtest(hits, RUNS, LEVEL, alternative="greater").pvalue > 1e-4


def test_one_of_three_samples_that_differs_is_found():
    M, rng = Sphere(2), np.random.default_rng(2)
    same, too, other = (sample(M, rng, 200, shift, 0.2) for shift in (0.0, 0.0, 0.8))
    found = k_sample_test(M, [same, too, other], radius=1.0)
    assert found.rejected
    assert all(check.holds for check in verify_certificate(found.certificate))
    assert not k_sample_test(
        M,
        [same, too, sample(M, rng, 200, 0.0, 0.2)],
        radius=1.0,
        level=1e-3,
        permutations=999,
    ).rejected


@dataclass(frozen=True, eq=False, init=False)
class NoiseOnTheObservedOnly(PermutationMechanism):
    """What a curator might write who perturbs the statistic and compares it to the usual permutations."""

    def _add_noise(self, values, source):
        noisy, slack = super()._add_noise(values, source)
        integers = [noisy[0], *(int(v * 2**30) for v in values[1:])]
        return NoisyStatistics(integers, slack)


def test_the_level_test_finds_noise_on_the_observed_statistic_only():
    mechanism = mechanism_for(
        Sphere(2), (12, 12), GDP(1.0), kind=NoiseOnTheObservedOnly
    )
    hits = rejections(mechanism, Sphere(2), (12, 12))
    assert binomtest(hits, RUNS, LEVEL, alternative="greater").pvalue < 1e-6


def test_the_level_is_attained_where_there_are_no_ties():
    hits = rejections(
        mechanism_for(Sphere(2), (10, 10), GDP(2.0)),
        Sphere(2),
        (10, 10),
        runs=600,
        seed=5,
    )
    assert binomtest(hits, 600, LEVEL).pvalue > 1e-4


@pytest.mark.parametrize("test", [two_sample_test, paired_test])
@pytest.mark.parametrize(
    "guarantee", [GDP(1.0), PureDP(1.0), ApproxDP(1.0, 1e-6)], ids=str
)
def test_a_clear_difference_is_found_and_certified(test, guarantee):
    M, rng = Sphere(2), np.random.default_rng(2)
    X, Y = sample(M, rng, 200, 0.0, 0.2), sample(M, rng, 200, 0.8, 0.2)
    found = test(M, X, Y, radius=1.0, guarantee=guarantee)
    assert found.rejected
    assert 0 < found.pvalue < 0.05
    assert all(check.holds for check in verify_certificate(found.certificate))
    assert found.certificate.release["integers"] == [[1]]


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [(SamplesDistance, [6, 9]), (SamplesDistance, [4, 6, 9]), (PairedDistance, [6, 6])],
    ids=str,
)
def test_no_replacement_moves_the_statistic_further_than_it_says(kind, sizes):
    """Against the definition, with any records and any permutation; and the bound is nearly attained."""
    M, rng, worst = Euclidean(2), np.random.default_rng(4), 0.0
    statistic, n, total = kind(M, None, 1.0, sizes), sizes[0], sum(sizes)
    corners, parts = (
        np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [0, 0]]),
        np.cumsum(sizes)[:-1],
    )
    for seed in range(200):
        Z = corners[rng.integers(5, size=total)]
        W = Z.copy()
        who = (
            [int(rng.integers(total))]
            if kind is SamplesDistance
            else [k := int(rng.integers(n)), n + k]
        )
        W[who] = corners[rng.integers(5, size=len(who))]
        if (
            kind is SamplesDistance and seed % 2
        ):  # the smallest sample apart from the others, one of it joins them
            Z[:], W[:] = corners[0], corners[0]
            Z[:n], W[1:n] = corners[1], corners[1]
        if (
            kind is PairedDistance and seed % 2
        ):  # members of the pair change places: the worst there is
            Z[:], W[:] = corners[0], corners[0]
            Z[: n - 1], W[: n - 1] = corners[1], corners[1]
            Z[n : 2 * n - 1], W[n : 2 * n - 1] = corners[0], corners[0]
            Z[n - 1], Z[-1], W[n - 1], W[-1] = (
                corners[1],
                corners[0],
                corners[0],
                corners[1],
            )
        values = [
            statistic.permuted(
                statistic.coordinates(np.split(A, parts)),
                30,
                GeneratorSource(np.random.default_rng(seed)),
            )
            for A in (Z, W)
        ]
        worst = max(worst, float(np.max(np.abs(values[0] - values[1]))))
    assert worst <= statistic.exact_sensitivity * (1 + 1e-9)
    assert worst > 0.6 * statistic.exact_sensitivity


def test_the_statistic_is_the_discrepancy_by_its_definition():
    M, rng = Euclidean(3), np.random.default_rng(8)
    X, Y = 0.3 * rng.standard_normal((7, 3)), 0.3 * rng.standard_normal((5, 3))
    statistic = SamplesDistance(M, None, 2.5, [7, 5])
    value = statistic.permuted(statistic.coordinates((X, Y)), 1, GeneratorSource(rng))[
        0
    ]

    def mean(A, B):
        return np.mean(
            [[np.exp(-np.sum((a - b) ** 2) / 2) for b in B] for a in A]
        )  # the bandwidth is 1

    discrepancy = np.sqrt(mean(X, X) + mean(Y, Y) - 2 * mean(X, Y))
    assert value == pytest.approx(np.sqrt(7 * 5) / 12 * discrepancy, rel=1e-9)
    samples = [X, Y, 0.3 * rng.standard_normal((4, 3))]
    every = np.concatenate(samples)
    three = SamplesDistance(M, None, 2.5, [7, 5, 4])
    value = three.permuted(three.coordinates(samples), 1, GeneratorSource(rng))[0]
    squares = [
        len(A) / 16 * (mean(A, A) + mean(every, every) - 2 * mean(A, every))
        for A in samples
    ]
    assert value == pytest.approx(np.sqrt(sum(squares)), rel=1e-9)


def test_the_decision_on_neighbors_is_within_the_tradeoff():
    """Records all but alike, and a neighbor whose record is as far as it can be: β >= G_μ(α), both ways."""
    M, mu, runs = Euclidean(1), 1.0, 600
    mechanism = PermutationMechanism.calibrate(
        SamplesDistance(M, None, 1.0, [2, 2]), GDP(mu)
    ).at_level(0.4, 4)
    rates = []
    for first in (-1.0, 1.0):
        data = mechanism.prepare_data(
            (np.array([[first], [1.0]]), np.array([[-1.0], [-1.0]]))
        )
        source = GeneratorSource(np.random.default_rng(3))
        rates.append(
            sum(int(mechanism.draw(data, source).integers[0][0]) for _ in range(runs))
            / runs
        )
    error = 4 * np.sqrt(0.25 / runs)
    for p, q in (rates, rates[::-1]):
        assert q <= norm.cdf(norm.ppf(min(p + error, 1 - 1e-9)) + mu) + error


def test_the_ledger_is_charged_once_and_a_refusal_costs_nothing(tmp_path):
    M, rng = Sphere(2), np.random.default_rng(0)
    X, Y = sample(M, rng, 20), sample(M, rng, 30)
    ledger = Ledger(tmp_path / "ledger.json", budget=GDP(1.0))
    own = type("Mine", (Sphere,), {})(2)  # a space without a name
    for wrong in (
        {"level": 2},
        {"permutations": 3},
        {"source": 1},
        {"radius": None},
        {"manifold": own},
        {"label": ""},
    ):
        given = {
            "manifold": M,
            "X": X,
            "Y": Y,
            "radius": 1.0,
            "guarantee": GDP(0.8),
            "ledger": ledger,
            **wrong,
        }
        with pytest.raises(ParameterError):
            two_sample_test(**given)
    assert ledger.spent is None
    found = two_sample_test(M, X, Y, radius=1.0, guarantee=GDP(0.8), ledger=ledger)
    assert ledger.spent.mu == pytest.approx(0.8)
    assert found.certificate.provenance.ledger["entry"] >= 1
    with pytest.raises(BudgetExceeded):
        two_sample_test(M, X, Y, radius=1.0, guarantee=GDP(0.8), ledger=ledger)


def test_bad_data_never_raise_and_bad_parameters_do():
    M = Sphere(2)
    two_sample_test(M, np.full((5, 3), np.nan), np.full((4, 3), np.inf), radius=1.0)
    X = np.ones((5, 3))
    for arguments in (
        (M, X[0], X),
        (M, X, np.ones((5, 4))),
        (M, X[:1], X),
        ("sphere", X, X),
    ):
        with pytest.raises(ParameterError) as error:
            two_sample_test(*arguments, radius=1.0)
        assert "\n" not in str(error.value)
    with pytest.raises(ParameterError, match="not form pairs"):
        paired_test(M, X, X[:4], radius=1.0)
    for samples in ([X], [], X, None, [X, X[:, :2]]):
        with pytest.raises(ParameterError, match="sample"):
            k_sample_test(M, samples, radius=1.0)
    with pytest.raises(ParameterError, match="guarantee"):
        two_sample_test(M, X, X, radius=1.0, guarantee=1.0)
    for of in (None, "kernel", Sphere):
        with pytest.raises(ParameterError, match="of="):
            k_sample_test(M, [X, X], radius=1.0, of=of)


def confirmed(certificate):
    try:
        return all(check.holds for check in verify_certificate(certificate))
    except VerificationFailed:
        return False


def test_a_changed_certificate_is_refused():
    M, rng = Sphere(2), np.random.default_rng(0)
    good = two_sample_test(
        M, sample(M, rng, 20), sample(M, rng, 30), radius=1.0
    ).certificate
    assert confirmed(good)
    changed = [
        replace(
            good, parameters={**good.parameters, "scale": good.parameters["scale"] / 2}
        ),
        replace(good, statistic={**good.statistic, "sizes": [40, 30]}),
        replace(good, release={**good.release, "integers": [[2]]}),
        replace(good, sensitivity=good.sensitivity / 2),
    ]
    for certificate in changed:
        assert not confirmed(certificate)
        assert not confirmed(seal(certificate))


def test_the_command_line_verifies_a_test_s_certificate(tmp_path):
    """In a process of its own, where nobody has imported the tests before."""
    M, rng = Sphere(2), np.random.default_rng(0)
    path = tmp_path / "certificate.json"
    two_sample_test(
        M, sample(M, rng, 20), sample(M, rng, 30), radius=1.0
    ).certificate.save(path)
    ran = subprocess.run(
        [sys.executable, "-m", "curvedp", "verify", str(path)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


# ---- persons with several records ---------------------------------------------------------

PER_PERSON = 8


def persons_sample(M, rng, persons):
    """Correlated records: each person has a place of their own, and scatters a little."""
    place = rng.normal(0.0, 0.3, (persons, 1, M.dim))
    scatter = 0.05 * rng.standard_normal((persons, PER_PERSON, M.dim))
    z = (place + scatter).reshape(-1, M.dim)
    ids = np.repeat(np.arange(persons), PER_PERSON)
    shuffled = rng.permutation(len(ids))
    points = np.asarray(M.from_normal_coordinates(M.origin, z))
    return points[shuffled], ids[shuffled]


def rejections_of_persons(test, *, by_person, runs=80, persons=6, seed=0):
    """How often a test at level 0.1 rejects although both samples are of one law."""
    M, rng = Sphere(2), np.random.default_rng(seed)
    options = {"radius": 1.5, "level": LEVEL, "permutations": B, "guarantee": GDP(50.0)}
    count = 0
    for _ in range(runs):
        X, first = persons_sample(M, rng, persons)
        Y, second = persons_sample(M, rng, persons)
        if test is paired_test:
            X, Y = X[np.argsort(first)], Y[np.argsort(second)]
            groups = np.sort(first)
        else:
            groups = (first, second + persons)
        if by_person:
            options["groups"] = groups
        source = GeneratorSource(rng)
        count += test(M, X, Y, source=source, **options).rejected
    return count


@pytest.mark.parametrize("test", [two_sample_test, paired_test])
def test_the_level_is_kept_where_persons_have_several_records(test):
    hits = rejections_of_persons(test, by_person=True)
    assert binomtest(hits, 80, LEVEL, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize("test", [two_sample_test, paired_test])
def test_the_level_test_finds_out_records_that_are_taken_for_persons(test):
    hits = rejections_of_persons(test, by_person=False, runs=40)
    assert binomtest(hits, 40, LEVEL, alternative="greater").pvalue < 1e-6


@pytest.mark.parametrize("paired", [False, True])
def test_persons_are_averaged_as_by_hand_and_certified_as_the_unit(paired, tmp_path):
    """With the same bits, persons' averages give the same decision and certificate."""
    M, rng = Sphere(2), np.random.default_rng(1)
    test = paired_test if paired else two_sample_test
    ball = (np.asarray(M.origin), 0.8)
    samples, averages, ids = [], [], np.repeat(np.arange(12), 3)
    for shift in (0.0, 0.4):
        X = sample(M, rng, 36, shift)
        X[5] = np.nan
        samples.append(X)
        averages.append(person_means(M, ball, X, ids))
    groups = ids if paired else (ids, [f"other {each}" for each in ids])
    unit = ProtectedUnit.PERSON if paired else ProtectedUnit.PERSON_IN_CLASS
    ledger = Ledger(tmp_path / "study.ledger", GDP(1.0), unit=unit.ledger_unit)
    options = {"radius": 0.8, "permutations": 99}

    def run(pair, **more):
        source = GeneratorSource(np.random.default_rng(7))
        return test(M, *pair, source=source, **options, **more)

    by_groups = run(samples, groups=groups, ledger=ledger)
    by_hand = run(averages)
    assert by_groups.pvalue == by_hand.pvalue
    certificate = by_groups.certificate
    assert certificate.privacy_unit is unit
    assert certificate.statistic["sizes"] == [12, 12]
    unit_by_hand = ProtectedUnit.PAIR if paired else ProtectedUnit.RECORD_IN_CLASS
    assert by_hand.certificate.privacy_unit is unit_by_hand
    doubts = [each.claim for each in verify_certificate(certificate) if not each.holds]
    assert all(claim.startswith("entropy") for claim in doubts)  # it was simulated
    assert len(ledger.entries) == 1


def test_all_records_of_a_person_move_the_statistic_as_one_value_does():
    """The sensitivity of persons: every record of one person is replaced."""
    M, rng, worst = Euclidean(2), np.random.default_rng(3), 0.0
    statistic, ids = SamplesDistance(M, None, 1.0, [4, 4]), np.repeat(np.arange(4), 5)
    for seed in range(60):
        X, Y = (rng.uniform(-1, 1, (20, 2)) for _ in range(2))
        Z = X.copy()
        Z[:5] = 3 * rng.standard_normal(2) if seed % 2 else np.nan
        values = []
        for first in (X, Z):
            means = [person_means(M, (np.zeros(2), 1.0), A, ids) for A in (first, Y)]
            source = GeneratorSource(np.random.default_rng(seed))
            values.append(statistic.permuted(statistic.coordinates(means), 20, source))
        worst = max(worst, float(np.max(np.abs(values[0] - values[1]))))
    assert 0.1 * statistic.exact_sensitivity < worst <= statistic.exact_sensitivity


def test_groups_that_are_not_of_the_samples_are_refused_before_anything_is_paid(
    tmp_path,
):
    M, rng = Sphere(2), np.random.default_rng(0)
    X, Y, ids = sample(M, rng, 12), sample(M, rng, 12), np.repeat(np.arange(4), 3)
    ledger = Ledger(tmp_path / "study.ledger", GDP(1.0))
    given = {"radius": 1.0, "ledger": ledger}
    apart = ids + 4
    for groups in (ids, [ids], [ids, apart[:5]], [ids, np.zeros(12)], [ids, None]):
        with pytest.raises(ParameterError, match="groups"):
            two_sample_test(M, X, Y, groups=groups, **given)
    for other in (ids, [str(each) for each in ids], ids + 3.0):
        with pytest.raises(ParameterError, match="two samples"):
            two_sample_test(M, X, Y, groups=[ids, other], **given)
    with pytest.raises(ParameterError, match="groups"):
        paired_test(M, X, Y, groups=ids[:5], **given)
    with pytest.raises(ParameterError, match="one person for each pair"):
        k_sample_test(M, [X, Y], of=PairedDistance, groups=[ids, apart], **given)
    assert ledger.spent is None
    two_sample_test(M, X, Y, groups=[ids, apart], **given)
