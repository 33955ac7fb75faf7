"""A person is the unit: one clipped contribution each, whatever their records and however many."""

import jax
import numpy as np
import pytest
from scipy import stats

from curvedp.core.codes import ProtectedUnit
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere
from curvedp.optim import FrechetMeanProblem, Problem, dp_rgd, dp_rsgd, dp_rsvrg
from curvedp.optim._arguments import prepare_start_and_records
from curvedp.optim._compilation import full_precision
from curvedp.optim._loop import noisy_gradient
from curvedp.optim._persons import rows_per_unit
from curvedp.privacy import GDP, ApproxDP
from curvedp.release.verify import verify_certificate

LINEAR = Problem(
    Euclidean(3), lambda w, z: jax.numpy.sum(w * z)
)  # its gradient is the record itself
C = 0.7


def people(rng, persons=12, most=9):
    """Records of very different lengths, in no order, and whose they are."""
    ids = np.repeat(np.arange(persons), rng.integers(1, most + 1, persons))
    return rng.normal(size=(len(ids), 3)) * 10.0 ** rng.uniform(
        -2, 2, (len(ids), 1)
    ), rng.permutation(ids)


def contributions(X, ids, clip):
    """By the definition: a person's mean, shortened."""
    means = np.array([X[ids == each].mean(axis=0) for each in np.unique(ids)])
    return means * np.minimum(1, clip / np.linalg.norm(means, axis=1, keepdims=True))


def record_by_record(X, ids, clip):
    """The wrong version: every record clipped, so that a person counts as often as they have records."""
    return X * np.minimum(1, clip / np.linalg.norm(X, axis=1, keepdims=True))


@jax.jit
def summed(w, data):
    return noisy_gradient(LINEAR, w, data, None, 1, C)


def total(X, ids):
    with full_precision():
        return np.asarray(
            summed(*prepare_start_and_records(LINEAR, X, np.zeros(3), ids))
        )


def changed(rng, X, ids, person):
    """All records of one person replaced, another number of them, far out and all one way."""
    keep, count = ids != person, int(rng.integers(1, 40))
    far = np.broadcast_to(1e3 * rng.normal(size=3), (count, 3))
    return np.concatenate([X[keep], far]), np.concatenate(
        [ids[keep], np.full(count, person)]
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_person_moves_the_sum_by_twice_the_clip_at_most(seed):
    rng = np.random.default_rng(seed)
    X, ids = people(rng)
    Y, others = changed(rng, X, ids, 5)
    np.testing.assert_allclose(
        total(X, ids), contributions(X, ids, C).sum(axis=0), atol=1e-12
    )
    moved = np.linalg.norm(total(X, ids) - total(Y, others))
    assert moved <= 2 * C * (1 + 1e-12)
    # a person who turns around moves it by exactly that, and record by record by far more
    X[ids == 5] = [1e3, 0, 0]
    Y = np.where((ids == 5)[:, None], -X, X)
    assert np.linalg.norm(total(X, ids) - total(Y, ids)) == pytest.approx(
        2 * C, rel=1e-12
    )
    count = int(np.sum(ids == 5))
    wrong = np.linalg.norm(
        record_by_record(X, ids, C).sum(axis=0)
        - record_by_record(Y, ids, C).sum(axis=0)
    )
    assert wrong == pytest.approx(2 * C * count)


@pytest.mark.parametrize("manifold", [Sphere(2), SPDAffineInvariant(2)], ids=repr)
def test_what_others_contribute_does_not_depend_on_a_person_bit_for_bit(manifold):
    rng = np.random.default_rng(1)
    start = np.asarray(manifold.origin)
    problem, ids = (
        FrechetMeanProblem(manifold),
        np.repeat(np.arange(300), 1 + np.arange(300) % 5),
    )
    X = manifold.exp(
        start,
        manifold.from_coordinates(
            start, 0.4 * rng.normal(size=(len(ids), manifold.dim))
        ),
    )
    Y, others = (
        np.concatenate([X[ids != 7], X[:37]]),
        np.concatenate([ids[ids != 7], np.full(37, 7)]),
    )

    def rows(X, ids):
        with full_precision():
            w, data = prepare_start_and_records(problem, X, start, ids)
            return np.asarray(
                jax.jit(lambda w, d: rows_per_unit(d, lambda z: problem.slopes(w, z)))(
                    w, data
                )
            )

    first, second = rows(X, ids), rows(Y, others)
    assert np.array_equal(np.delete(first, 7, axis=0), np.delete(second, 7, axis=0))
    assert not np.array_equal(first[7], second[7])


def test_bad_records_of_a_person_count_as_zero_and_never_raise():
    X, ids = people(np.random.default_rng(2))
    bad = X.copy()
    bad[np.flatnonzero(ids == 3)[0]] = [np.nan, np.inf, 1.0]
    zero = np.where(np.isfinite(bad).all(axis=1)[:, None], bad, 0.0)
    assert np.array_equal(total(bad, ids), total(zero, ids))
    bad[:] = np.nan
    assert np.array_equal(total(bad, ids), np.zeros(3))


def test_more_persons_than_a_block():
    rng = np.random.default_rng(3)
    ids = rng.permutation(np.repeat(np.arange(5000), rng.integers(1, 4, 5000)))
    X = rng.normal(size=(len(ids), 3))
    order = np.argsort(ids, kind="stable")
    means = (
        np.add.reduceat(X[order], np.flatnonzero(np.diff(ids[order], prepend=-1)))
        / np.bincount(ids)[:, None]
    )
    expected = (
        means * np.minimum(1, C / np.linalg.norm(means, axis=1, keepdims=True))
    ).sum(axis=0)
    np.testing.assert_allclose(total(X, ids), expected, atol=1e-9)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_batches_are_of_persons_with_all_their_records(sampling):
    """Person p's records have mean 4^p: the step says who was in the batch."""
    ids = np.repeat(np.arange(5), [1, 4, 2, 3, 1])
    spread = np.concatenate(
        [np.linspace(-1, 1, k) if k > 1 else [0.0] for k in (1, 4, 2, 3, 1)]
    )
    X = np.stack([4.0**ids * (1 + spread), 0 * ids, 0 * ids], axis=1)
    seen, rng = np.zeros((400, 5), dtype=int), np.random.default_rng(4)
    for run in seen:
        point = dp_rsgd(LINEAR, X, np.zeros(3), steps=1, batch_size=2, clip=1e6, learning_rate=1.0, noise=1e-9, rng=rng,
                        sampling=sampling, groups=ids).point  # fmt: skip
        whole = round(-2 * point[0])
        assert abs(-2 * point[0] - whole) < 1e-5
        run[:] = [whole // 4**k % 4 for k in range(5)]
    assert seen.max() == 1  # once or not at all
    for k in seen.sum(axis=0):
        assert stats.binomtest(int(k), 400, 0.4).pvalue > 1e-4
    if sampling == "fixed-size":
        assert np.all(seen.sum(axis=1) == 2)


M = Sphere(2)
RNG = np.random.default_rng(0)
IDS = np.repeat(np.arange(50), 4)
X = M.project(RNG.normal([3.0, 0, 0], 0.5, (200, 3)))
MEAN, START = FrechetMeanProblem(M), np.array([1.0, 0, 0])
RUNS = {
    "rgd": lambda g, ids: dp_rgd(
        MEAN,
        X,
        START,
        5,
        0.7,
        0.5,
        guarantee=g,
        groups=ids,
        rng=np.random.default_rng(1),
    ),
    "rsgd": lambda g, ids: dp_rsgd(
        MEAN,
        X,
        START,
        10,
        20,
        0.7,
        0.2,
        guarantee=g,
        groups=ids,
        rng=np.random.default_rng(1),
        record_history=5,
    ),
    "rsvrg": lambda g, ids: dp_rsvrg(
        MEAN,
        X,
        START,
        2,
        3,
        (0.7, 0.3),
        0.2,
        guarantee=g,
        batch_size=20,
        groups=ids,
        rng=np.random.default_rng(1),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_certificates_speak_of_persons(name):
    result = RUNS[name](ApproxDP(2.0, 1e-6), IDS)
    assert result.certificate.privacy_unit is ProtectedUnit.PERSON
    assert result.certificate.statistic["n"] == 50
    refuted = [
        check
        for check in verify_certificate(result.certificate)
        if check.holds is False
    ]
    assert [check.claim.split(":")[0] for check in refuted] == [
        "entropy"
    ]  # simulated noise, and nothing else
    assert result.noise != RUNS[name](ApproxDP(2.0, 1e-6), None).noise


@pytest.mark.parametrize("name", RUNS)
def test_persons_of_one_record_are_records(name):
    ours, theirs = RUNS[name](GDP(1.0), np.arange(200)), RUNS[name](GDP(1.0), None)
    np.testing.assert_allclose(ours.point, theirs.point, rtol=1e-12)
    assert ours.noise == theirs.noise
    if name == "rsgd":
        np.testing.assert_allclose(ours.history, theirs.history, rtol=1e-12)


BAD = {
    "another length": IDS[:-1],
    "one person": np.zeros(200, dtype=int),
    "NaN": np.where(np.arange(200) == 3, np.nan, IDS),
    "None": [None, *IDS[1:].tolist()],
    "kinds": [*IDS[1:].tolist(), object()],
    "text": "persons",
}


def test_a_dask_array_of_persons_is_refused():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ParameterError, match="in memory"):
        dp_rgd(
            MEAN, dask.from_array(X), START, 5, 0.7, 0.5, guarantee=GDP(1.0), groups=IDS
        )


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("bad", BAD)
def test_bad_ids_are_refused(name, bad):
    with pytest.raises(ParameterError, match="groups"):
        RUNS[name](GDP(1.0), BAD[bad])
