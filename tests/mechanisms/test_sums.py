"""Adding or removing a record: sums move by what is paid for, n is nowhere told, and audits of pairs of different n hold."""

import json
from math import sqrt

import numpy as np
import pytest

from curvedp import (
    GDP,
    ApproxDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivatePCA,
    PureDP,
)
from curvedp.audit import audit_scores
from curvedp.core.codes import ProtectedUnit
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import CurvedpError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.mechanisms.noisy_sum import SumMechanism
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from curvedp.statistics.noisy_sums import ClippedSum, GramSum, SpreadSum
from support.transcript import leaked, spent

ADDED = GDP(1.0, adjacency="add-remove")
SPACES = [Euclidean(3), Sphere(2), Lorentz(3), SPDAffineInvariant(2)]
MAKERS = {
    "mean": lambda M: PrivateFrechetMean(M, radius=0.8, guarantee=ADDED),
    "variance": lambda M: PrivateDispersion(M, radius=0.8, guarantee=ADDED),
}


def cloud(M, n, rng, spread=0.2):
    return np.asarray(
        M.from_normal_coordinates(
            M.origin, spread * rng.normal(size=(n, M.dim)) / sqrt(M.dim)
        )
    )


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("M", SPACES, ids=str)
def test_adding_a_record_moves_what_is_drawn_by_what_is_paid_for(M, kind):
    rng, worst = np.random.default_rng(0), 0.0
    for trial in range(30):
        X = cloud(M, int(rng.integers(1, 40)), rng, 10.0 ** rng.uniform(-3, 0.5))
        added = [
            np.full(M.point_shape, np.nan),
            cloud(M, 1, rng, 5.0)[0],
            1e3 * X[-1],
            M.origin,
        ][trial % 4]
        Y = np.concatenate([X, np.asarray(added)[None]])
        worst = max(worst, spent(MAKERS[kind](M).fit, X, Y, trial))
    assert 0.3 < worst <= 1.0


def test_a_second_moment_too():
    rng, worst = np.random.default_rng(1), 0.0
    for trial in range(30):
        X = rng.normal(size=(int(rng.integers(1, 40)), 4)) * 10.0 ** rng.uniform(-3, 3)
        Y = np.concatenate([X, rng.normal(size=(1, 4)) * 10.0 ** rng.uniform(-3, 6)])
        worst = max(
            worst, spent(PrivatePCA(radius=2.0, guarantee=ADDED).fit, X, Y, trial)
        )
    assert 0.9 < worst <= 1.0


STATISTICS = {
    "mean": ClippedSum(Sphere(2), None, 0.8),
    "variance": SpreadSum(Sphere(2), None, 0.8),
    "moment": GramSum(3, 1.0),
}


@pytest.mark.parametrize(
    ("less", "found"), [(1.0, False), (0.6, True)], ids=["as it is", "too little noise"]
)
@pytest.mark.parametrize("name", STATISTICS)
def test_an_audit_of_pairs_of_different_n(name, less, found):
    """Ten records against eleven: what the outputs prove is at most what is claimed, and more where noise is missing."""
    statistic, rng = STATISTICS[name], np.random.default_rng(2)
    mechanism = SumMechanism.calibrate(statistic, ADDED)
    drawn = SumMechanism(statistic=statistic, scale=less * mechanism.scale)
    far = np.array([np.cos(0.8), np.sin(0.8), 0.0])
    ten = np.broadcast_to(Sphere(2).origin, (10, 3))
    totals = [drawn.prepare_data(X) for X in (ten, np.concatenate([ten, far[None]]))]
    across, source = totals[1] - totals[0], GeneratorSource(rng)
    scores = [
        np.array([drawn.draw(total, source).value @ across for _ in range(2500)])
        for total in totals
    ]
    assert audit_scores(ADDED, *scores).holds is not found


@pytest.mark.parametrize("kind", [*MAKERS, "components"])
def test_a_private_number_of_records_is_nowhere_revealed(kind, monkeypatch):
    """Data sets of different n that are led to the same numbers publish the same bytes; no message quotes n."""
    M, seen = Sphere(2), set()
    for n in (0, 1, 2, 17, 400):
        monkeypatch.setattr("curvedp.mechanisms.vector.exact_gaussian", _led)
        X = cloud(M, n, np.random.default_rng(3)) if n else np.empty((0, 3))
        maker = MAKERS.get(kind, lambda M: PrivatePCA(radius=1.0, guarantee=ADDED))(M)
        model = maker.set_params(source=GeneratorSource(np.random.default_rng(0))).fit(
            X
        )
        certificate = {**model.certificate_.to_dict(), "created": ""}
        assert "n" not in certificate["statistic"]
        sentence = protected_unit_sentence(model.certificate_)
        assert "the number of records is private" in sentence
        told = {
            k: np.asarray(v).tolist()
            for k, v in vars(model).items()
            if k in ("location_", "variance_", "components_")
        }
        seen.add(json.dumps([certificate, told]))
    assert len(seen) == 1


def _led(manifold, scale, center, *, source=None, grid=30):
    from curvedp.laws.exact import ExactDraw

    integers = (np.arange(1, np.size(center) + 1) * 2**grid).astype(object)
    return ExactDraw(integers, grid, 2.0**-100, manifold)


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_the_release_is_near_the_truth_and_verifies(M):
    X = cloud(M, 800, np.random.default_rng(4))
    mean = PrivateFrechetMean(M, radius=0.8, guarantee=ADDED).fit(X)
    assert (
        float(M.dist(mean.location_, frechet_mean(M, X)))
        < 6 * 0.8 * sqrt(M.dim + 1) / 800 + 0.01
    )
    variance = PrivateDispersion(M, radius=0.8, guarantee=ADDED).fit(X)
    truth = float(np.mean(np.asarray(M.dist(frechet_mean(M, X), X)) ** 2))
    assert abs(variance.variance_ - truth) < 6 * 0.64 * 2 / 800 + 0.05 * truth
    for model in (mean, variance):
        assert all(check.holds for check in verify_certificate(model.certificate_))
        assert model.certificate_.guarantee.adjacency == "add-remove"


def test_components_are_found_and_other_guarantees_serve():
    X = np.random.default_rng(5).normal(size=(3000, 4)) * [3.0, 1, 1, 1]
    for guarantee in (ADDED, ApproxDP(1.0, 1e-6, adjacency="add-remove")):
        model = PrivatePCA(radius=5.0, guarantee=guarantee).fit(X)
        assert abs(model.components_[0, 0]) > 0.98
        assert all(check.holds for check in verify_certificate(model.certificate_))


def test_a_ledger_counts_one_kind_of_neighbors(tmp_path):
    X = cloud(Sphere(2), 50, np.random.default_rng(6))
    ledger = Ledger(tmp_path / "a.ledger", GDP(2.0, adjacency="add-remove"))
    PrivateFrechetMean(Sphere(2), radius=0.8, guarantee=ADDED, ledger=ledger).fit(X)
    with pytest.raises(CurvedpError):
        PrivateFrechetMean(Sphere(2), radius=0.8, ledger=ledger).fit(X)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivateFrechetMean(Sphere(2), radius="private", guarantee=ADDED),
        lambda: PrivateFrechetMean(
            Sphere(2), radius=0.8, mechanism="newton", guarantee=ADDED
        ),
        lambda: PrivatePCA(radius=1.0, method="dp-rgd", guarantee=ADDED),
    ],
)
def test_options_that_would_reveal_n_are_refused(make):
    with pytest.raises(CurvedpError):
        make().fit(cloud(Sphere(2), 50, np.random.default_rng(7)))


@pytest.mark.parametrize("scale", [1.0, 0.8])
def test_adding_a_record_keeps_the_loss_within_pure_epsilon(scale):
    """A record at the end of the ball adds a vector as long as is paid for; with less noise that is seen."""
    worst, asked = 0.0, PureDP(1.0 / scale, adjacency="add-remove")
    for M in SPACES:
        X = np.asarray(
            M.from_normal_coordinates(
                M.origin, np.vstack([np.zeros((9, M.dim)), 3.0 * np.eye(M.dim)[:1]])
            )
        )
        for kind in (PrivateFrechetMean, PrivateDispersion):
            worst = max(
                worst, leaked(kind(M, radius=0.8, guarantee=asked).fit, X, X[:-1])[0]
            )
    assert 0.95 / scale < worst <= 1 / scale
    moment = leaked(
        PrivatePCA(radius=1.0, guarantee=asked).fit, 9 * np.eye(4), 9 * np.eye(4)[1:]
    )[0]
    assert 0.95 / scale < moment <= 1 / scale


def test_persons_are_added_or_removed_too():
    M, rng = Sphere(2), np.random.default_rng(8)
    X, ids = cloud(M, 60, rng), np.repeat(np.arange(20), 3)
    model = PrivateFrechetMean(M, radius=0.8, guarantee=ADDED)

    def fit(data):
        model.fit(*data[:1], groups=data[1])

    assert spent(fit, (X, ids), (X[:-3], ids[:-3])) <= 1.0
    assert model.certificate_.privacy_unit is ProtectedUnit.PERSON
    assert all(
        check.holds
        for check in verify_certificate(model.fit(X, groups=ids).certificate_)
    )


def test_persons_of_a_second_moment_count_once():
    rng = np.random.default_rng(9)
    X, ids = rng.normal(size=(60, 3)), np.repeat(np.arange(20), 3)
    Y = X.copy()
    Y[-3:] = 50 * rng.normal(size=(3, 3))
    model = PrivatePCA(radius=2.0)
    whole = spent(lambda data: model.fit(data), X, Y)
    assert spent(lambda data: model.fit(data, groups=ids), X, Y) <= 1.0 < whole
    certificate = model.fit(X, groups=ids).certificate_
    assert certificate.statistic["n"] == 20
    assert all(check.holds for check in verify_certificate(certificate))
    mean = (
        sum(np.mean([np.outer(x, x) for x in X[ids == k]], axis=0) for k in range(20))
        / 20
    )
    from curvedp.records.base import open_records
    from curvedp.records.persons import person_rows
    from curvedp.statistics.second_moment import SecondMoment, vector_to_symmetric

    found = vector_to_symmetric(
        SecondMoment(3, 10.0, 20).compute(open_records(person_rows(X, ids), (3,))), 3
    )
    np.testing.assert_allclose(found, mean, rtol=1e-9)
