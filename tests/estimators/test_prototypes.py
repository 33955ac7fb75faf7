"""PrivatePrototypes: Theorem B3 by search, transcripts, certificates, persons, and accuracy on embeddings."""

import json
import warnings
from functools import partial
from math import sqrt

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, Ledger, PrivateMDM, PrivatePrototypes, PureDP
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import CurvedpError, ParameterError, ReleaseWarning
from curvedp.geometry import SPDAffineInvariant, Sphere
from curvedp.mechanisms import Certificate
from curvedp.mechanisms.staged.prototypes import PrototypeMechanism, PrototypeQueries
from curvedp.randomness import GeneratorSource
from curvedp.release.rebuild import mechanism_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics.prototypes import (
    ClassPrototypes,
    LabeledPoints,
    pooled_counts,
)
from support.transcript import spent

CLASSES = 3
ADD_REMOVE_GDP = partial(GDP, adjacency="add-remove")


def embeddings(n, dim, n_classes, rng, angle=1.0, between=0.5):
    """Unit vectors `angle` from their mean, in classes; `between` is the share of their variance."""
    directions = np.random.default_rng(99).normal(size=(n_classes, dim + 1))
    y = np.arange(n) % n_classes
    noise = rng.normal(size=(n, dim + 1))
    offsets = sqrt(between) * directions[y] + sqrt(1 - between) * noise
    x = np.eye(dim + 1)[0] + np.tan(angle) / sqrt(dim) * offsets
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


def drawn(statistic, scale=1.0):
    """A function of data that draws all stages, without the certificate of a release."""

    @np.errstate(all="ignore")
    def draw(data):
        mechanism = PrototypeMechanism(statistic=statistic, scale=scale)
        mechanism.draw(mechanism.prepare_data(data), None)

    return draw


def replaced(data, record, label):
    """The same data with another last record and label."""
    X, y, *persons = data
    X, y = X.copy(), y.copy()
    X[-1], y[-1] = record, label
    return (X, y, *persons)


def removed(data):
    """The same data without the last record."""
    return tuple(part[:-1] for part in data)


def hard_pairs(dim, n, rng):
    """Data and neighbors: records of one place, the last one replaced by all kinds of others."""
    size = dim + 1
    others = np.asarray(Sphere(dim).project(rng.normal(size=(n, size)) + 3))
    others[: n // 2] = others[0]
    y = rng.integers(0, CLASSES, n)
    data = (others, y)
    records = [-others[0], np.full(size, np.nan), np.zeros(size), 1e200 * others[1]]
    records += list(rng.normal(size=(4, size)))
    for record in records:
        yield data, replaced(data, record, int(rng.integers(CLASSES)))


# ---- Theorem B3


def class_vector(statistic, records, labels):
    """The computed vector of all sums and counts."""
    data = LabeledPoints(
        statistic.clip_to_canonical_ball(np.asarray(records)), np.asarray(labels)
    )
    return PrototypeQueries(statistic, data).class_sums(statistic.outer_ball).values


@pytest.mark.parametrize("n", [4, None], ids=["replaced", "added"])
@pytest.mark.parametrize("M", [Sphere(3), SPDAffineInvariant(2)], ids=repr)
def test_theorem_b3_holds_and_is_attained(M, n):
    """Hill climbing over a record, its replacement and both labels; √2 for the whole would be found out."""
    statistic = ClassPrototypes(M, None, 0.8, CLASSES, n)
    rng = np.random.default_rng(0)
    others = np.repeat(np.asarray(M.origin)[None], 3, axis=0)

    def point(coordinates):
        return np.asarray(M.from_normal_coordinates(M.origin, coordinates))[None]

    def moved(pair, labels):
        one = np.concatenate([others, point(pair[0])])
        first = class_vector(statistic, one, [0, 0, 1, labels[0]])
        if n is None:
            return np.linalg.norm(first - class_vector(statistic, others, [0, 0, 1]))
        two = np.concatenate([others, point(pair[1])])
        second = class_vector(statistic, two, [0, 0, 1, labels[1]])
        return np.linalg.norm(first - second)

    worst = 0.0
    for labels in ((0, 0), (0, 2)):
        pair = 0.1 * rng.normal(size=(2, M.dim))
        best = moved(pair, labels)
        for step in range(100):
            size = 0.7 if step < 50 else 0.1
            trial = pair + size * rng.normal(size=pair.shape)
            if moved(trial, labels) >= best:
                pair, best = trial, moved(trial, labels)
        worst = max(worst, best)
        assert best <= statistic.sum_sensitivity
    assert worst > 0.97 * statistic.sum_sensitivity
    if n is not None:
        assert worst > 1.3 * sqrt(2)


@pytest.mark.parametrize("kind", ["record", "added", "person"])
@pytest.mark.parametrize("dim", [2, 40])
def test_transcripts_of_neighbors_differ_by_what_is_paid(dim, kind):
    """All stages together: Σ (difference/noise)² is at most μ² = 1, for any record, label and person."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for seed, (data, neighbor) in enumerate(hard_pairs(dim, 30, rng)):
        n = None if kind == "added" else 30
        if kind == "added":
            data = removed(neighbor)
        if kind == "person":
            persons = np.arange(30) // 3
            data, neighbor = (*data, persons), (*neighbor, persons)
            X, y = neighbor[0].copy(), neighbor[1].copy()
            X[27:], y[27:] = neighbor[0][-1], [0, 1, 2]
            neighbor = (X, y, persons)
            n = 10
        statistic = ClassPrototypes(Sphere(dim), None, None, CLASSES, n)
        worst = max(worst, spent(drawn(statistic), data, neighbor, seed))
    assert 0.2 < worst <= 1.0


def opposite_pair(dim):
    """All records in one place but the last, which is at opposite ends of the sphere."""
    X = np.zeros((40, dim + 1))
    X[:, 0] = 1.0
    X[-1] = np.eye(dim + 1)[1]
    return (X, np.zeros(40, dtype=int)), replaced((X, np.zeros(40, int)), -X[-1], 0)


def test_too_little_noise_is_found_out(monkeypatch):
    """0.9 of the noise; √2 for the whole; the sensitivity of an added record for a replaced one."""
    one, two = opposite_pair(40)
    statistic = ClassPrototypes(Sphere(40), None, None, CLASSES, 40)
    honest = spent(drawn(statistic), one, two)
    assert 0.9 < honest <= 1.0
    assert spent(drawn(statistic, scale=0.9), one, two) > 1.0
    added = ClassPrototypes(Sphere(40), None, None, CLASSES, None)
    assert spent(drawn(added), one, two) > 1.0
    wrong = ClassPrototypes(Sphere(40), None, None, CLASSES, 40)
    vars(wrong)["sum_sensitivity"] = sqrt(2)
    assert spent(drawn(wrong), one, two) > 1.0


# ---- certificates and charges


def fitted(dim=40, seed=3, groups=None, **options):
    X, y = embeddings(600, dim, 4, np.random.default_rng(seed))
    source = GeneratorSource(np.random.default_rng(seed))
    options = {"guarantee": GDP(1.0), "source": source, **options}
    return PrivatePrototypes(Sphere(dim), **options).fit(X, y, groups=groups)


def holds(certificate):
    return all(
        check.holds
        for check in verify_certificate(certificate)
        if "entropy" not in check.claim
    )


@pytest.mark.parametrize("dim", [3, 40])
@pytest.mark.parametrize(
    "guarantee", [GDP(1.0), ADD_REMOVE_GDP(1.0), ApproxDP(2.0, 1e-6)]
)
def test_one_certificate_that_is_replayed(dim, guarantee, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0, adjacency=guarantee.adjacency))
    model = fitted(dim, guarantee=guarantee, ledger=ledger)
    certificate = model.certificate_
    assert len(ledger.entries) == 1
    assert certificate.privacy_unit is ProtectedUnit.LABELED_RECORD
    assert holds(Certificate.from_json(certificate.to_json()))
    if guarantee.adjacency == "add-remove":
        assert certificate.statistic["n"] is None
        with pytest.raises(AttributeError, match="private"):
            _ = model.predicted_error_


def rewritten(certificate, change):
    """A certificate with another content."""
    content = json.loads(certificate.to_json())
    change(content)
    return Certificate.from_json(json.dumps(content))


def claim_fewer_classes(content):
    content["statistic"]["classes"] = 3


def claim_half_the_noise(content):
    content["parameters"]["scale"] /= 2


def claim_add_remove(content):
    content["statistic"]["n"] = None


def claim_another_share(content):
    content["release"]["stages"][-1]["share"] = 0.5


def change_one_integer(content):
    content["release"]["integers"][-1][5] += 1


@pytest.mark.parametrize(
    "change",
    [
        claim_fewer_classes,
        claim_half_the_noise,
        claim_add_remove,
        claim_another_share,
        change_one_integer,
    ],
    ids=lambda change: change.__name__,
)
def test_a_forged_certificate_does_not_verify(change):
    certificate = fitted().certificate_
    assert holds(certificate)
    try:
        forged = rewritten(certificate, change)
        assert not holds(forged)
    except CurvedpError:
        pass  # refused before it is checked


def test_the_released_means_follow_from_the_integers():
    model = fitted()
    replayed = mechanism_of(model.certificate_).reconstruct_value(model.certificate_)
    np.testing.assert_array_equal(replayed.means, model.classifier_.means)
    np.testing.assert_array_equal(replayed.counts, model.counts_)


# ---- what goes in


def test_any_record_and_any_label_is_taken(recwarn):
    """Records that are no points and labels outside the classes are data: nothing is said, n stays."""
    X, y = embeddings(400, 40, 4, np.random.default_rng(0))
    X[0], X[1], X[2] = np.nan, 0.0, 1e308
    labels = y.astype(object)
    labels[3], labels[4], labels[5] = None, "7", [1]
    model = PrivatePrototypes(Sphere(40), classes=[0, 1, 2, 3]).fit(X, labels)
    assert model.certificate_.statistic["n"] == 400
    assert not recwarn.list
    assert np.isfinite(model.transform(X[:3])).all()
    assert set(model.predict(X[:3])) <= {0, 1, 2, 3}


def test_persons_weigh_as_one_record():
    """A person with 200 records counts as one; the order of records does not matter."""
    X, y = embeddings(600, 40, 4, np.random.default_rng(0))
    persons = np.arange(600)
    persons[:200] = 0
    source = GeneratorSource(np.random.default_rng(5))
    model = PrivatePrototypes(Sphere(40), guarantee=GDP(200.0), source=source)
    model.fit(X, y, groups=persons)
    assert model.certificate_.privacy_unit is ProtectedUnit.LABELED_PERSON
    assert model.certificate_.statistic["n"] == 401
    np.testing.assert_allclose(model.counts_.sum(), 401, atol=1)
    order = np.random.default_rng(1).permutation(600)
    again = PrivatePrototypes(
        Sphere(40),
        guarantee=GDP(200.0),
        source=GeneratorSource(np.random.default_rng(5)),
    ).fit(X[order], y[order], groups=persons[order])
    np.testing.assert_allclose(again.means_, model.means_, atol=1e-5)


@pytest.mark.parametrize("options", [
    {"guarantee": PureDP(1.0)}, {"radius": None}, {"radius": -1.0}, {"classes": [0]},
    {"guarantee": ADD_REMOVE_GDP(1.0), "radius": "large"},
], ids=str)  # fmt: skip
def test_bad_parameters_cost_nothing(options, tmp_path):
    X, y = embeddings(60, 40, 2, np.random.default_rng(0))
    adjacency = options.get("guarantee", GDP(1.0)).adjacency
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0, adjacency=adjacency))
    with pytest.raises(CurvedpError):
        PrivatePrototypes(Sphere(40), ledger=ledger, **options).fit(X, y)
    assert not ledger.entries


def test_a_private_ball_is_for_spheres():
    with pytest.raises(ParameterError, match="spheres"):
        PrivatePrototypes(SPDAffineInvariant(2)).fit(
            np.repeat(np.eye(2)[None], 8, 0), np.arange(8) % 2
        )


def test_few_records_are_warned_of_before_paying(tmp_path):
    X, y = embeddings(30, 40, 3, np.random.default_rng(0))
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        with pytest.raises(ReleaseWarning, match="small for 3 classes"):
            PrivatePrototypes(Sphere(40), ledger=ledger).fit(X, y)
    assert not ledger.entries


# ---- what comes out


def plain_class_sums(X, y, mu, sensitivity, rng):
    """The directions of noisy sums of unit vectors, one a class."""
    sums = np.zeros((y.max() + 1, X.shape[1]))
    np.add.at(sums, y, X)
    sums += sensitivity / mu * rng.normal(size=sums.shape)
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


@pytest.mark.parametrize(("guarantee", "sensitivity"), [
    (GDP(0.5), 2.0), (ADD_REMOVE_GDP(0.35), 1.0),
], ids=str)  # fmt: skip
def test_better_than_plain_noisy_class_sums(guarantee, sensitivity):
    """40 classes of 50 embeddings; the unseen records are of the same classes."""
    rng = np.random.default_rng(0)
    X, y = embeddings(2000, 127, 40, rng, between=0.2)
    new, truth = embeddings(1000, 127, 40, rng, between=0.2)
    ours = []
    plain = []
    for seed in range(4):
        source = GeneratorSource(np.random.default_rng(seed))
        model = PrivatePrototypes(Sphere(127), guarantee=guarantee, source=source)
        ours.append(model.fit(X, y).score(new, truth))
        centers = plain_class_sums(
            X, y, guarantee.mu, sensitivity, np.random.default_rng(seed)
        )
        plain.append(np.mean(np.argmax(new @ centers.T, axis=1) == truth))
    assert np.mean(ours) > np.mean(plain) + 0.03


def test_counts_and_prototypes_are_right_without_noise():
    X, y = embeddings(900, 40, 3, np.random.default_rng(0))
    model = PrivatePrototypes(Sphere(40), guarantee=GDP(1e4)).fit(X, y)
    np.testing.assert_allclose(model.counts_, 300, atol=0.1)
    directions = np.stack([X[y == label].mean(axis=0) for label in range(3)])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # Clipped logarithms shorten a prototype: it is between the center and the class.
    assert (np.argmax(directions @ model.means_.T, axis=0) == np.arange(3)).all()
    assert model.score(X, y) > 0.95


def test_the_noise_is_as_long_as_predicted():
    """Of the prototypes of classes of equal size, against a release without noise."""
    X, y = embeddings(4000, 60, 8, np.random.default_rng(0))
    exact = PrivatePrototypes(Sphere(60), guarantee=GDP(1e4)).fit(X, y)
    noisy = PrivatePrototypes(Sphere(60), guarantee=GDP(2.0)).fit(X, y)
    M = Sphere(60)
    errors = np.asarray(M.dist(exact.means_, noisy.means_))
    assert noisy.predicted_error_ == pytest.approx(np.mean(errors), rel=0.5)


def test_noisy_counts_are_pooled_for_divisors():
    """Equal classes have equal sizes; where sizes differ by more than noise, each keeps its own."""
    rng = np.random.default_rng(0)
    equal = pooled_counts(50 + 20 * rng.normal(size=200), 20.0)
    assert np.std(equal) < 8
    sizes = np.linspace(10, 2000, 40)
    different = pooled_counts(sizes + 20 * rng.normal(size=40), 20.0)
    assert np.max(np.abs(different - sizes)) < 80
    assert pooled_counts(np.full(5, -30.0), 20.0).min() >= 1.0


def test_a_class_without_records_is_never_predicted():
    X, y = embeddings(900, 40, 3, np.random.default_rng(0))
    labels = np.array(["a", "b", "c"])[y]
    model = PrivatePrototypes(Sphere(40), classes=["a", "b", "c", "empty"])
    model.fit(X, labels)
    assert not model.is_known_[3]
    assert "empty" not in set(model.predict(X))


# ---- PrivateMDM


def test_mdm_takes_prototypes_for_embeddings_only():
    X, y = embeddings(600, 40, 4, np.random.default_rng(0))
    seeds = [GeneratorSource(np.random.default_rng(2)) for _ in range(2)]
    model = PrivateMDM(Sphere(40), radius="private", source=seeds[0]).fit(X, y)
    same = PrivatePrototypes(Sphere(40), source=seeds[1]).fit(X, y)
    np.testing.assert_array_equal(model.means_, same.means_)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert model.certificate_.privacy_unit is ProtectedUnit.LABELED_RECORD
    assert len(model.certificates_) == 1

    low = Sphere(3)
    few = np.asarray(low.project(X[:, :4]))
    assert len(PrivateMDM(low, radius="private").fit(few, y).certificates_) == 4
    for ball in ("shared", "each"):
        model = PrivateMDM(Sphere(40), radius="private", ball=ball).fit(X, y)
        assert len(model.certificates_) == 4
    with pytest.raises(ParameterError, match="ball"):
        PrivateMDM(Sphere(40), radius="private", ball="prototypes", center=X[0]).fit(
            X, y
        )
