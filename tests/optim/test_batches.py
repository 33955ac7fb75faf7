"""The law of random batches: every record with its chance, independently; or every subset of a size alike."""

import itertools

import numpy as np
import pytest
from scipy import stats

from curvedp.geometry import Euclidean
from curvedp.optim import FrechetMeanProblem, _batches, _loop, dp_rsgd
from curvedp.optim._batches import fixed_batches, poisson_batches
from curvedp.optim._randomness import Randomness


def inclusion(n, rate, steps, seed):
    flat, first, sizes = poisson_batches(
        Randomness(np.random.default_rng(seed)), n, rate, steps
    )
    table = np.zeros((steps, n), dtype=int)
    for step in range(steps):
        table[step, flat[first[step] : first[step] + sizes[step]]] += 1
    return table


@pytest.mark.parametrize("rate", [1e-9, 1e-17, 1e-18, 1e-19, 1e-30, 1e-300, 5e-324])
def test_batches_are_nearly_empty_at_the_smallest_sampling_rates(rate):
    # A gap of more than 2^63 coins was another number, in or before the row: endless, or a batch of the wrong records.
    flat, _, sizes = poisson_batches(
        Randomness(np.random.default_rng(0)), 1000, rate, 100
    )
    assert len(flat) == 0
    assert not sizes.any()


@pytest.mark.parametrize(("n", "rate"), [(3, 0.3), (8, 0.05), (5, 0.9), (4, 1.0)])
def test_poisson_batches_are_independent_coins(n, rate):
    steps = 20_000
    table = inclusion(n, rate, steps, 0)
    assert table.max() == 1  # no record twice in a batch
    if rate == 1:
        assert table.min() == 1
        return
    hits = table.sum(axis=0)
    for k in hits:
        assert stats.binomtest(int(k), steps, rate).pvalue > 1e-4
    assert (
        stats.binomtest(int(hits.sum()), steps * n, rate * 0.9).pvalue < 1e-6
    )  # a rate wrong by 10% is seen
    # Pairs of records in a step, and a record in neighboring steps, are uncorrelated.
    centered = (table - rate) / np.sqrt(rate * (1 - rate))
    for i, j in itertools.combinations(range(n), 2):
        assert abs(np.mean(centered[:, i] * centered[:, j])) < 4.5 / np.sqrt(steps)
    for i in range(n):
        assert abs(np.mean(centered[1:, i] * centered[:-1, i])) < 4.5 / np.sqrt(steps)
    sizes = np.bincount(table.sum(axis=1), minlength=n + 1)
    expected = steps * stats.binom.pmf(np.arange(n + 1), n, rate)
    keep = expected > 5
    assert stats.chisquare(np.append(sizes[keep], sizes[~keep].sum() + 1e-9),
                           np.append(expected[keep], expected[~keep].sum() + 1e-9)).pvalue > 1e-4  # fmt: skip


def test_rare_batches():
    """Rates far below 1/n: most steps have no record at all, and the count is still right."""
    flat, _, sizes = poisson_batches(
        Randomness(np.random.default_rng(1)), 1000, 1e-6, 100_000
    )
    assert stats.poisson(100).cdf(80) < 0.05
    assert 60 < len(flat) < 145
    assert sizes.sum() == len(flat)
    assert flat.max() < 1000


@pytest.mark.parametrize(
    ("n", "size"), [(4, 2), (9, 2), (4, 3)]
)  # both of the two algorithms
def test_fixed_size_batches_are_uniform_subsets(n, size):
    steps = 12_000
    rows = np.sort(
        fixed_batches(Randomness(np.random.default_rng(2)), n, size, steps), axis=1
    )
    assert rows.shape == (steps, size)
    subsets = list(itertools.combinations(range(n), size))
    counts = dict.fromkeys(subsets, 0)
    for row in rows:
        counts[tuple(row.tolist())] += (
            1  # a KeyError would be a repeated or an unknown record
        )
    observed = np.array(list(counts.values()))
    assert stats.chisquare(observed).pvalue > 1e-4
    skewed = observed + np.arange(len(observed)) * steps // (3 * len(observed) ** 2)
    assert (
        stats.chisquare(
            skewed, skewed.sum() * np.ones(len(observed)) / len(observed)
        ).pvalue
        < 1e-6
    )


def test_batches_of_one_width_are_the_same_batches(monkeypatch):
    """On an accelerator a step's batch is filled up to a common width: the same sums, empty batches included."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    problem = FrechetMeanProblem(Euclidean(3))
    options = {
        "steps": 60,
        "batch_size": 2,
        "clip": 1.0,
        "learning_rate": 0.1,
        "noise": 1e-9,
    }
    ragged = dp_rsgd(
        problem, X, np.zeros(3), rng=np.random.default_rng(4), **options
    ).point
    for module in (_loop, _batches):
        monkeypatch.setattr(module, "on_processor", lambda: False)
    wide = dp_rsgd(
        problem, X, np.zeros(3), rng=np.random.default_rng(4), **options
    ).point
    np.testing.assert_allclose(wide, ragged, rtol=1e-12)
    batches = _batches.draw_batches(
        Randomness(np.random.default_rng(5)), 40, 2, 60, "poisson"
    )
    assert batches["rows"].shape == (60, 2 + 8 + 8)
    assert int(batches["sizes"].min()) == 0
