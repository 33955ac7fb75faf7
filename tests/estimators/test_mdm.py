"""PrivateMDM and PrivateSoftmax: reduced classes with private labels, private balls, persons; what each certificate says."""

import warnings

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, Ledger, PrivateMDM, PrivateSoftmax
from curvedp.core.codes import ProtectedUnit
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.geometry import Euclidean, Lorentz, SPDAffineInvariant, Sphere
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from curvedp.statistics.noisy_sums import ClippedSum
from support.transcript import pairs, spent

KINDS = {
    "means": lambda **o: PrivateMDM(**{"reduce": 6, **o}),
    "softmax": lambda **o: PrivateSoftmax(**{"reduce": 6, **o}),
}


def trials(n, m, rng):
    """Covariances of m channels, four classes: each raises one of four sources in a background that falls off."""
    mixing = np.linalg.qr(np.random.default_rng(7).normal(size=(m, m)))[
        0
    ] * 0.8 ** np.arange(m)
    y = np.arange(n) % 4
    power = np.ones((n, m))
    power[np.arange(n), y] = 4.0
    signals = mixing @ (rng.normal(size=(n, m, 4 * m)) * np.sqrt(power)[:, :, None])
    return signals @ signals.mT / (4 * m), y


def verified(certificate):
    return all(
        check.holds
        for check in verify_certificate(certificate)
        if "entropy" not in check.claim
    )


@pytest.mark.parametrize(("mu", "least"), [(1.0, 0.8), (2.0, 0.9)])
@pytest.mark.parametrize("name", KINDS)
def test_many_channels_and_few_trials(name, mu, least):
    """32 channels, 160 trials, four classes; on new records, the mean of eight releases, in another unit."""
    scores = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = trials(160, 32, rng)
        model = KINDS[name](
            manifold=SPDAffineInvariant(32),
            guarantee=GDP(mu),
            source=GeneratorSource(rng),
        )
        new, truth = trials(200, 32, rng)
        scores.append(model.fit(1e-12 * X, y).score(1e6 * new, truth))
    assert np.mean(scores) >= least


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("guarantee", [GDP(2.0), ApproxDP(8.0, 1e-5)])
def test_one_charge_one_certificate_private_labels(name, guarantee, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    X, y = trials(120, 6, np.random.default_rng(0))
    y = np.array(["a", "b", "c", "d"])[y]
    model = KINDS[name](
        manifold=SPDAffineInvariant(6), reduce=4, guarantee=guarantee, ledger=ledger
    ).fit(X, y)
    assert len(ledger.entries) == 1
    assert verified(model.certificate_)
    assert model.certificate_.privacy_unit is ProtectedUnit.LABELED_RECORD
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (model.classes_[np.argmax(shares, axis=1)] == model.predict(X)).all()


@pytest.mark.parametrize("name", KINDS)
def test_any_records_are_taken_and_classified(name):
    X, y = trials(120, 4, np.random.default_rng(0))
    X[::7], X[1], X[2], X[3, 0] = np.nan, -np.eye(4), 0.0, np.inf
    model = KINDS[name](
        manifold=SPDAffineInvariant(4), reduce=3, guarantee=GDP(2.0)
    ).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("name", KINDS)
def test_a_person_is_the_unit(name):
    X, y = trials(480, 4, np.random.default_rng(0))
    model = KINDS[name](
        manifold=SPDAffineInvariant(4), reduce=3, guarantee=GDP(3.0)
    ).fit(X, y, groups=np.arange(480) // 3)
    assert model.certificate_.statistic["n"] == 160
    assert model.certificate_.privacy_unit is ProtectedUnit.LABELED_PERSON
    assert verified(model.certificate_)
    assert model.score(X, y) > 0.6


def test_few_records_are_warned_of_before_they_are_paid(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    X, y = trials(60, 4, np.random.default_rng(0))
    with pytest.warns(ReleaseWarning, match="small for"):
        PrivateSoftmax(SPDAffineInvariant(4), reduce=3).fit(X, y)
    with warnings.catch_warnings(action="error"), pytest.raises(ReleaseWarning):
        PrivateSoftmax(SPDAffineInvariant(4), reduce=3, ledger=ledger).fit(X, y)
    assert not ledger.entries


@pytest.mark.parametrize(
    "option",
    [
        {"center": np.eye(4)},
        {"mechanism": "gaussian"},
        {"outer_radius": 9.0},
        {"reduce": 5},
    ],
)
def test_what_reduction_does_not_take(option):
    X, y = trials(200, 4, np.random.default_rng(0))
    with pytest.raises(ParameterError):
        PrivateMDM(**{"manifold": SPDAffineInvariant(4), "reduce": 2, **option}).fit(
            X, y
        )


def test_one_class_is_none():
    X, y = trials(200, 4, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="class"):
        PrivateSoftmax(SPDAffineInvariant(4), reduce=2).fit(X, 0 * y)


# ---- without reduction: public labels, and the certificates say so ----


def directions(n=400):
    rng, y = np.random.default_rng(0), np.arange(n) // (n // 2)
    return Sphere(2).project(
        rng.normal([3.0, 0, 0], 0.4, (n, 3)) + (2 * y - 1)[:, None] * [0, 0, 1]
    ), y


def test_a_private_ball_for_each_class(tmp_path):
    X, y = directions()
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    model = PrivateMDM(Sphere(2), radius="private", ledger=ledger).fit(X, y)
    assert model.score(X, y) > 0.95
    assert len(ledger.entries) == 1
    assert all(map(verified, model.certificates_))
    assert model.certificates_[0].privacy_unit is ProtectedUnit.RECORD_IN_CLASS


def balls(model):
    return [
        [stage for stage in each.release["stages"] if stage["kind"] == "ball"]
        for each in model.certificates_
    ]


@pytest.mark.parametrize("chunked", [False, True])
def test_one_private_ball_for_all_classes(chunked, tmp_path):
    """Found once: every certificate has the same ball and the same integers before it; one charge for all."""
    X, y = directions()
    X = (
        pytest.importorskip("dask.array").from_array(X, chunks=(90, 3))
        if chunked
        else X
    )
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    model = PrivateMDM(Sphere(2), radius="private", ledger=ledger, ball="shared").fit(
        X, y
    )
    assert model.score(np.asarray(X), y) > 0.95
    assert len(ledger.entries) == 1
    assert all(map(verified, model.certificates_))
    assert model.certificates_[0].privacy_unit is ProtectedUnit.RECORD_IN_CLASS
    sentence = protected_unit_sentence(model.certificates_[0])
    assert sentence == (
        "one record within its class, replaced by any other; labels, class sizes and the "
        "number of records are public"
    )
    one, other = (each.release["integers"] for each in model.certificates_)
    assert one[:-1] == other[:-1]
    assert one[-1] != other[-1]  # fresh noise for every class
    assert len(balls(model)[0]) == 1
    assert balls(model)[0] == balls(model)[1]
    assert [
        (each.statistic["n"], each.statistic["size"]) for each in model.certificates_
    ] == [(400, 200), (400, 200)]
    assert len(model.confidence_region(0.9)) == 2
    each = PrivateMDM(Sphere(2), radius="private", ball="each").fit(X, y)
    assert balls(each)[0] != balls(each)[1]


def test_small_classes_share_a_ball_and_large_ones_do_not():
    """nμ >= 40 of the smallest class; the sizes are public."""
    X, y = directions()
    for n, guarantee, shared in (
        (400, GDP(1.0), False),
        (60, GDP(1.0), True),
        (400, GDP(0.15), True),
    ):
        part = np.r_[:n] if n == 400 else np.r_[0:30, 200:230]
        model = PrivateMDM(Sphere(2), radius="private", guarantee=guarantee).fit(
            X[part], y[part]
        )
        assert (balls(model)[0] == balls(model)[1]) == shared


@pytest.mark.parametrize(("half", "holds"), [(1.0, True), (2.0, False)])
def test_a_shared_ball_and_all_classes_move_by_what_is_paid(half, holds):
    """Replacing one record within its class: Σ (difference/noise)² over the stages and the means of ALL classes, without
    any stated sensitivity; a charge of half of what is drawn for is refuted."""
    rng, worst = np.random.default_rng(0), 0.0
    every = slice(
        None
    )  # of twelve pairs, one of every kind; on the last two spaces every other one
    for M, part in (
        (Euclidean(2), every),
        (Sphere(2), every),
        (SPDAffineInvariant(2), slice(0, None, 2)),
        (Lorentz(2), slice(1, None, 2)),
    ):
        for X, Y in list(pairs(M, rng, 12))[part]:
            X, Y = (np.concatenate([Z, Z[:1].repeat(6, axis=0)]) for Z in (X, Y))
            y = np.r_[np.zeros(len(X) - 4), np.ones(4)]
            model = PrivateMDM(M, radius="private", guarantee=GDP(half), ball="shared")
            with warnings.catch_warnings(action="ignore"):
                worst = max(
                    worst,
                    spent(lambda data, model=model, y=y: model.fit(data, y), X, Y),
                )
            if worst > 1.0:  # refuted: no other pair can take that back
                break
        if worst > 1.0:
            break
    assert (worst <= 1.0) == holds
    assert worst > 0.5


def test_balls_that_there_are_not():
    X, y = directions()
    for wrong in ("both", None, 1):
        with pytest.raises(ParameterError, match="ball"):
            PrivateMDM(Sphere(2), radius="private", ball=wrong).fit(X, y)


def test_persons_of_one_class_each():
    X, y = directions()
    model = PrivateMDM(Sphere(2), radius=0.8).fit(X, y, groups=np.arange(400) // 4)
    assert [certificate.statistic["n"] for certificate in model.certificates_] == [
        50,
        50,
    ]
    assert model.certificates_[0].privacy_unit is ProtectedUnit.PERSON_IN_CLASS
    assert all(map(verified, model.certificates_))
    with pytest.raises(ParameterError, match="several classes"):
        PrivateMDM(Sphere(2), radius=0.8).fit(X, y, groups=np.arange(400) % 100)


@pytest.mark.parametrize("radius", [0.8, "private"])
def test_a_person_in_several_classes_is_refused_before_paying(tmp_path, radius):
    """Such a person would be read once per class, so one charge would not cover it."""
    X, y = directions()
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    model = PrivateMDM(Sphere(2), radius=radius, ledger=ledger)
    with pytest.raises(ParameterError, match="several classes"):
        model.fit(X, y, groups=np.arange(400) % 100)
    assert len(ledger.entries) == 0
    assert not hasattr(model, "means_")


# ---- a record is added or removed ----

S2, ADDED = Sphere(2), {"adjacency": "add-remove"}


def hemisphere(n, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return S2.project(
        rng.normal([3.0, 0, 0], 0.4, (n, 3)) + 0.8 * np.eye(3)[y]
    ), np.array(["a", "b", "c"])[y]


def added(**options):
    return PrivateMDM(
        **{"manifold": S2, "radius": 0.8, "guarantee": GDP(1.0, **ADDED), **options}
    )


def test_labels_and_n_are_private_where_a_record_is_added(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0, **ADDED))
    X, y = hemisphere(900)
    model = added(ledger=ledger).fit(X, y)
    assert model.score(X, y) > 0.7  # 0.80 without noise, a third by chance
    assert [len(ledger.entries), ledger.spent.mu] == [1, 1.0]
    few = added().fit(X[:4], y[:4])  # a class of one record is no matter
    for one, other in zip(model.certificates_, few.certificates_, strict=True):
        assert verified(one)
        assert one.privacy_unit is ProtectedUnit.LABELED_RECORD
        assert one.guarantee.adjacency == "add-remove"
        assert "n" not in one.statistic
        assert [one.statistic, one.parameters, one.sensitivity] == [
            other.statistic,
            other.parameters,
            other.sensitivity,
        ]


def moved(first, second):
    """How far all that is noised moves between two datasets, in standard deviations, no stated sensitivity used."""
    found = 0.0
    model = added().fit(*first)
    for label in model.classes_:
        mechanism = model._choose_sum_mechanism(ClippedSum).mechanism
        a, b = (mechanism.prepare_data(X[y == label]) for X, y in (first, second))
        found += float(np.sum((a - b) ** 2)) / mechanism.scale**2
    return np.sqrt(found)


def test_no_added_record_moves_more_than_is_paid():
    X, y = hemisphere(60)
    worst = 0.0
    for record in ([0.0, 0, 1], [-1.0, 0, 0], [np.nan, 0, 0], [1.0, 0, 0]):
        for label in ("a", "b", "c"):
            more = np.concatenate([X, [record]]), np.append(y, label)
            worst = max(worst, moved((X, y), more))
            assert worst <= 1.0
    assert worst > 0.9
    # Another label is a record removed and one added, in two classes: it costs √2 times as much, and is not claimed.
    X[0], other = [0.0, 0, 1], np.append("b", y[1:])
    assert moved((X, y), (X, other)) > 1.0


def test_what_added_records_refuse():
    X, y = hemisphere(60)
    for options, data, says in (
        ({"radius": "private"}, (X, y), "requires replace-one"),
        ({"mechanism": "gaussian"}, (X, y), "mechanism"),
        ({}, (X, y, np.arange(60)), "groups"),
        ({}, (X[:0], y[:0]), "labels"),
        ({}, (X, y[:-1]), "label"),
        (
            {"reduce": 2, "manifold": SPDAffineInvariant(3)},
            (np.tile(np.eye(3), (60, 1, 1)), y),
            "replace-one",
        ),
    ):
        with pytest.raises(ParameterError, match=says) as refusal:
            added(**options).fit(*data)
        assert "60" not in str(refusal.value)


# ---- the set of classes is public: it can be given, and then no label tells it ----

PUBLIC = ["a", "b", "c", "d"]
LABELS = {  # what one record's label may become
    "of a class of its own": "d",
    "of no class": "secret",
    "None": None,
    "NaN": np.nan,
    "a number": 1,
    "a list": [1],
}


@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")  # of few records
@pytest.mark.parametrize("name", [*KINDS, "added"])
@pytest.mark.parametrize("kind", LABELS)
def test_one_label_changes_nothing_but_what_noise_hides(name, kind):
    """Neither the classes nor the shapes nor what is said; read off y, the set of classes tells of the one record."""

    def fit(labels, **options):
        if name == "added":
            return added(**options).fit(X, labels)
        return KINDS[name](manifold=SPDAffineInvariant(4), reduce=2, **options).fit(
            T, labels
        )

    X, y = hemisphere(90)
    T, other = trials(90, 4, np.random.default_rng(0))[0], y.astype(object)
    other[0] = LABELS[kind]
    before, after = fit(y, classes=PUBLIC), fit(other, classes=PUBLIC)
    assert before.classes_.tolist() == after.classes_.tolist() == PUBLIC
    for one, two in zip(before.certificates_, after.certificates_, strict=True):
        assert [one.statistic, one.parameters, one.privacy_unit] == [
            two.statistic,
            two.parameters,
            two.privacy_unit,
        ]
        assert verified(two)
    if kind == "of a class of its own":
        assert len(fit(y).classes_) < len(fit(other).classes_), "the control"


@pytest.mark.parametrize(
    "wrong", [3, "ab", [], ["a"], ["a", None], [["a"], ["b"]], ["a", 1]]
)
def test_classes_that_are_none_are_refused(wrong):
    X, y = trials(90, 4, np.random.default_rng(0))[0], hemisphere(90)[1]
    with pytest.raises(ParameterError, match="class") as refusal:
        PrivateSoftmax(SPDAffineInvariant(4), reduce=2, classes=wrong).fit(X, y)
    assert "\n" not in str(refusal.value)


def test_given_classes_of_chunked_records():
    import dask.array as da

    X, y = hemisphere(90)
    chunked = da.from_array(X, chunks=(40, 3))
    assert added(classes=PUBLIC).fit(chunked, y).classes_.tolist() == PUBLIC
    with pytest.raises(ParameterError, match="y in memory"):
        added(classes=PUBLIC).fit(chunked, da.from_array(y, chunks=40))
    with pytest.raises(ParameterError, match="class d has no records"):
        PrivateMDM(S2, radius=0.8, classes=PUBLIC).fit(X, y)


def two_classes(rng, n=400):
    """Records around two points of SPD(3), in the affine-invariant metric."""
    M = SPDAffineInvariant(3)
    y = np.arange(n) % 2
    shift = np.where(y[:, None] == 0, 0.5, -0.5) * np.eye(6)[0]
    X = M.from_normal_coordinates(M.origin, shift + 0.3 * rng.normal(size=(n, 6)))
    return M, np.asarray(X), np.array(["left", "right"])[y]


@pytest.mark.parametrize("radius", ["private", 6.0])
def test_minimum_distance_to_median(radius, tmp_path):
    """Artifacts in a seventh of a class move its mean far and its median little; all classes cost as much as one."""
    rng = np.random.default_rng(0)
    M, X, y = two_classes(rng)
    artifacts = X.copy()
    artifacts[:114:2] = M.from_normal_coordinates(
        M.origin, np.tile(5.0 * np.eye(6)[1], (57, 1))
    )
    ledger = Ledger(tmp_path / "a.ledger", GDP(4.0))
    model = PrivateMDM(
        M, radius=radius, metric="median", guarantee=GDP(4.0), ledger=ledger
    ).fit(artifacts, y)
    assert ledger.spent == GDP(4.0)
    assert [release.title for release in model.releases] == [
        "median of class left",
        "median of class right",
    ]
    assert [c.privacy_unit for c in model.certificates_] == ["record_in_class"] * 2
    assert all(verified(certificate) for certificate in model.certificates_)
    assert model.score(X, y) > 0.9
    mean = PrivateMDM(M, radius=6.0, guarantee=GDP(4.0)).fit(artifacts, y)
    truth = PrivateMDM(M, radius=6.0, guarantee=GDP(4.0)).fit(X, y)
    assert M.dist(model.means_[0], truth.means_[0]) < 0.5 * M.dist(
        mean.means_[0], truth.means_[0]
    )


def test_one_artifact_moves_no_direction_by_more_than_the_sensitivity():
    """One trial of a class, replaced by anything, is one direction of length 1 among n: with the noise of the same
    source, early answers differ by 2/n of the noise-free scale, and no certificate changes."""
    rng = np.random.default_rng(1)
    M, X, y = two_classes(rng)
    odd = [np.full((3, 3), np.nan), np.zeros((3, 3)), 1e300 * np.eye(3), 5 * X[0]]
    base = None
    for record in odd:
        other = X.copy()
        other[6] = record
        source = GeneratorSource(np.random.default_rng(2))
        model = PrivateMDM(
            M, radius=6.0, metric="median", guarantee=GDP(4.0), source=source
        ).fit(other, y)
        if base is None:
            base = model
        for one, two in zip(base.certificates_, model.certificates_, strict=True):
            assert one.sensitivity == two.sensitivity
            assert one.statistic == two.statistic
        assert np.isfinite(model.means_).all()
        # the other class is read from other records, but shares the random bits
        assert M.dist(model.means_[0], base.means_[0]) < 0.3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "mode"}, "metric"),
        ({"metric": "median", "reduce": 2}, "metric"),
        ({"metric": "median", "ball": "each", "radius": "private"}, "metric"),
        ({"metric": "median", "mechanism": "gradient"}, "mechanism"),
        ({"metric": "median", "radius": None}, "radius"),
        ({"metric": "median", "guarantee": GDP(1.0, adjacency="add-remove")}, "metric"),
    ],
)
def test_refused_medians_spend_nothing(options, said, tmp_path):
    M, X, y = two_classes(np.random.default_rng(3))
    ledger = Ledger(tmp_path / "a.ledger", GDP(4.0))
    with pytest.raises(ParameterError, match=said):
        PrivateMDM(**{"manifold": M, "radius": 3.0, "ledger": ledger, **options}).fit(
            X, y
        )
    assert not ledger.entries


def test_a_median_of_few_records_is_warned_of_before_it_is_paid(tmp_path):
    M, X, y = two_classes(np.random.default_rng(3))
    ledger = Ledger(tmp_path / "a.ledger", GDP(4.0))
    model = PrivateMDM(
        M, radius=3.0, metric="median", guarantee=GDP(0.01), ledger=ledger
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        with pytest.raises(ReleaseWarning, match="small for the median"):
            model.fit(X, y)
    assert not ledger.entries
