"""PrivateRecenter against pyRiemann's TLCenter and TLScale, its units of privacy, its ledger and its files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from curvedp import GDP, ApproxDP, Ledger, PrivateRecenter, geometry
from curvedp.core.certificate import seal
from curvedp.core.codes import ProtectedUnit
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import BudgetExceeded, ParameterError, ReleaseWarning
from curvedp.estimators import recenter as module
from curvedp.geometry import Correlation, Euclidean, SPDAffineInvariant, Sphere
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate

SPD = SPDAffineInvariant(3)
SUBJECTS = np.repeat(["s1", "s2", "s3"], 150)
LABELS = np.tile(["left", "right"], 225)
EXTENDED = np.array(
    [f"{subject}/{label}" for subject, label in zip(SUBJECTS, LABELS, strict=True)]
)


def cohort(seed=0):
    """Trials of three subjects: each has its own mixing, and two classes differ in one channel's power."""
    rng = np.random.default_rng(seed)
    X = np.empty((450, 3, 3))
    for subject in range(3):
        mixing = 2.0**subject * (0.5 * rng.normal(size=(3, 3)) + np.eye(3))
        for k in range(150):
            power = np.array([3.0 if k % 2 else 1.0, 1.0, 1.0])
            signal = mixing @ (np.sqrt(power)[:, None] * rng.normal(size=(3, 60)))
            X[150 * subject + k] = signal @ signal.T / 60
    return X


X = cohort()


def fitted(**options):
    return PrivateRecenter(**{"manifold": SPD, "guarantee": GDP(3.0), **options})


def is_verified(certificate):
    checks = verify_certificate(certificate)
    return all(check.holds is not False for check in checks)


def test_almost_without_noise_it_is_the_centering_of_pyriemann():
    """The same matrices as TLCenter, row by row, in training and for the target domain."""
    TLCenter = pytest.importorskip("pyriemann.transfer").TLCenter
    theirs = TLCenter(target_domain="s2")
    ours = fitted(
        radius=12.0,
        guarantee=GDP(1e9),
        target_domain="s2",
        source=GeneratorSource(np.random.default_rng(0)),
    )
    expected = theirs.fit_transform(X, EXTENDED)
    np.testing.assert_allclose(ours.fit_transform(X, EXTENDED), expected, atol=1e-5)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-5)


def test_almost_without_noise_it_is_the_scaling_of_pyriemann_too():
    transfer = pytest.importorskip("pyriemann.transfer")
    pipeline = make_pipeline(
        transfer.TLCenter("s2"),
        transfer.TLScale("s2", final_dispersion=0.5, centered_data=True),
    )
    expected = X.copy()
    for step in pipeline:
        expected = step.fit_transform(expected, EXTENDED)
    ours = fitted(
        radius=12.0,
        guarantee=GDP(1e9),
        final_dispersion=0.5,
        source=GeneratorSource(np.random.default_rng(0)),
    )
    np.testing.assert_allclose(ours.fit_transform(X, EXTENDED), expected, atol=1e-5)


def test_it_works_in_pipelines_of_pyriemann_and_domains_become_alike():
    transfer = pytest.importorskip("pyriemann.transfer")
    MDM = pytest.importorskip("pyriemann.classification").MDM
    pipeline = make_pipeline(
        fitted(target_domain="s3"),
        transfer.TLClassifier("s3", MDM(), domain_weight={"s1": 1, "s2": 1, "s3": 0}),
    )
    pipeline.fit(X, EXTENDED)
    target = SUBJECTS == "s3"
    accuracy = np.mean(pipeline.predict(X[target]) == LABELS[target])
    raw = MDM().fit(X[~target], LABELS[~target]).predict(X[target])
    assert accuracy > max(0.7, np.mean(raw == LABELS[target]))


def test_one_charge_covers_all_domains_and_each_has_a_certificate(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    model = fitted(guarantee=GDP(0.6), ledger=ledger).fit(X, domains=SUBJECTS)
    assert len(ledger.entries) == 1
    assert ledger.spent == GDP(0.6)
    assert ledger.unit.value == "record_in_class"
    assert [release.title for release in model.releases] == [
        "mean of domain s1",
        "mean of domain s2",
        "mean of domain s3",
    ]
    for certificate in model.certificates_:
        assert certificate.privacy_unit is ProtectedUnit.RECORD_IN_DOMAIN
        assert certificate.statistic["n"] == 150
        assert "one record within its domain" in protected_unit_sentence(certificate)
        assert "labels" not in protected_unit_sentence(certificate)
        assert is_verified(certificate)


def test_a_record_moves_only_the_reference_of_its_own_domain():
    """Parallel composition: with the same noise, a replaced trial of s2 leaves s1 and s3 to the last bit."""
    other = X.copy()
    other[200] = 50 * np.eye(3)
    first, second = (
        fitted(radius=4.0, source=GeneratorSource(np.random.default_rng(5))).fit(
            records, domains=SUBJECTS
        )
        for records in (X, other)
    )
    for domain in ("s1", "s3"):
        np.testing.assert_array_equal(first.centers_[domain], second.centers_[domain])
    moved = float(SPD.dist(first.centers_["s2"], second.centers_["s2"]))
    assert 1e-4 < moved < 1.0


def test_a_release_that_pays_too_little_for_two_parts_is_noticed(tmp_path, monkeypatch):
    """Both parts together cost what was asked for; a share that is spent twice would not fit."""
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    model = fitted(guarantee=GDP(1.0), final_dispersion=1.0, ledger=ledger)
    model.fit(X, domains=SUBJECTS)
    assert [entry.label for entry in ledger.entries] == [
        "domain means",
        "domain means: dispersions",
    ]
    assert len(model.certificates_) == 6
    mu_squared = {c.claims.gdp**2 for c in model.certificates_[::3]}
    assert 0.99 < sum(mu_squared) <= 1.0
    assert all(map(is_verified, model.certificates_))

    monkeypatch.setattr(
        module, "share_of_guarantee", lambda guarantee, share: guarantee
    )
    wrong = Ledger(tmp_path / "b.ledger", GDP(1.0))
    with pytest.raises(BudgetExceeded):
        model.set_params(ledger=wrong).fit(X, domains=SUBJECTS)


def test_two_parts_are_refused_before_the_first_is_paid(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(0.95))
    with pytest.raises(BudgetExceeded, match="recentering"):
        fitted(guarantee=GDP(1.0), final_dispersion=1.0, ledger=ledger).fit(X, EXTENDED)
    assert not ledger.entries
    with pytest.raises(ParameterError, match="guarantee"):
        fitted(guarantee=ApproxDP(1.0, 1e-6), final_dispersion=1.0).fit(X, EXTENDED)


def test_persons_within_their_domain():
    """A site with many people: a person with all records is protected, and each site needs two people."""
    site = np.repeat(["a", "b"], 225)
    person = np.arange(450) // 5
    model = fitted(radius=5.0, final_dispersion=1.0)
    model.fit(X, domains=site, groups=person)
    assert {c.privacy_unit for c in model.certificates_} == {
        ProtectedUnit.PERSON_IN_DOMAIN
    }
    assert [c.statistic["n"] for c in model.certificates_] == [45, 45, 45, 45]
    with pytest.raises(ParameterError, match="several domains"):
        fitted().fit(X, domains=site, groups=np.arange(450) % 90)
    with pytest.raises(ParameterError, match="one person only"):
        fitted().fit(X, domains=SUBJECTS, groups=SUBJECTS)


def test_groups_alone_are_domains_and_a_warning_says_what_is_protected():
    with pytest.warns(ReleaseWarning, match="protects one record within its domain"):
        model = fitted(radius=5.0).fit(X, groups=SUBJECTS)
    assert model.certificates_[0].privacy_unit is ProtectedUnit.RECORD_IN_DOMAIN


@pytest.mark.parametrize(
    ("options", "fit", "said"),
    [
        ({}, {}, "domains are missing"),
        ({}, {"y": LABELS}, "domains are missing"),
        ({"target_domain": "s9"}, {"y": EXTENDED}, "target_domain"),
        ({"target_domain": None}, {"y": EXTENDED}, "target_domain"),
        ({"final_dispersion": 0.0}, {"y": EXTENDED}, "final_dispersion"),
        ({"new_domain": "guess"}, {"y": EXTENDED}, "new_domain"),
        ({}, {"domains": SUBJECTS, "subjects": SUBJECTS}, "subjects"),
        ({"manifold": Sphere(2)}, {"y": EXTENDED}, "recentered"),
        ({"guarantee": GDP(1.0, adjacency="add-remove")}, {"y": EXTENDED}, "adjacency"),
        ({}, {"domains": SUBJECTS[:7]}, "length"),
        ({}, {"domains": ["s1", *["s2"] * 449]}, "domain s1 has one record"),
    ],
)
def test_refusals_spend_nothing(options, fit, said, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(9.0))
    with pytest.raises(ParameterError, match=said):
        fitted(ledger=ledger, **options).fit(X, **fit)
    assert not ledger.entries


def test_records_of_any_kind_are_recentered_without_a_word():
    odd = np.stack([np.full((3, 3), np.nan), -np.eye(3), np.zeros((3, 3)), X[0]])
    model = fitted(radius=5.0).fit(X, EXTENDED)
    moved = model.transform(odd)
    np.testing.assert_array_equal(moved[0], np.eye(3))
    assert np.isfinite(moved).all()
    with pytest.raises(ParameterError, match="no private reference"):
        model.transform(odd, domains=["s1", "s2", "s3", "s9"])


@pytest.mark.parametrize("manifold", [Euclidean(4), Correlation(3)], ids=str)
def test_other_spaces_are_recentered_too(manifold):
    rng = np.random.default_rng(0)
    start = manifold.from_coordinates(manifold.origin, np.full(manifold.dim, 0.3))
    start = manifold.exp(manifold.origin, start)
    steps = 0.1 * rng.normal(size=(400, manifold.dim))
    points = manifold.from_normal_coordinates(np.asarray(start), steps)
    model = PrivateRecenter(manifold, radius=2.0, guarantee=GDP(5.0))
    moved = model.fit_transform(np.asarray(points), domains=np.arange(400) % 2)
    mean = moved.mean(axis=0) - manifold.origin
    assert np.abs(mean).max() < 0.05


def test_a_file_holds_all_that_was_released_and_no_other_value(tmp_path):
    model = fitted(radius=5.0, target_domain="s2", final_dispersion=0.7)
    expected = model.fit_transform(X, EXTENDED)
    model.save(tmp_path / "references.json")
    loaded = PrivateRecenter.load(tmp_path / "references.json")
    np.testing.assert_array_equal(loaded.transform(X, domains=SUBJECTS), expected)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.certificates_ == model.certificates_
    assert loaded.confidence_region().keys() == {"s1", "s2", "s3"}

    content = json.loads((tmp_path / "references.json").read_text())
    content["releases"][1]["value"][0][0] += 0.01
    (tmp_path / "forged.json").write_text(json.dumps(content))
    with pytest.raises(ParameterError, match="not that of its certificate"):
        PrivateRecenter.load(tmp_path / "forged.json")
    for text in ("", "[]", '{"schema": "curvedp-recenter/1"}', '{"schema": "x"}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(ParameterError, match=r"other\.json"):
            PrivateRecenter.load(tmp_path / "other.json")
    with pytest.raises(ParameterError, match="cannot read"):
        PrivateRecenter.load(tmp_path / "absent.json")


def test_references_of_which_certificates_list_no_integers_are_read_back(
    tmp_path, monkeypatch
):
    """Of a very large draw a certificate has the hash alone; the file holds the values."""
    monkeypatch.setattr("curvedp.core.mechanism.MAX_LISTED_INTEGERS", 1)
    model = fitted(radius=12.0).fit(X, domains=SUBJECTS)
    assert model.certificates_[0].release["integers"] is None
    model.save(tmp_path / "references.json")
    loaded = PrivateRecenter.load(tmp_path / "references.json")
    np.testing.assert_array_equal(loaded.transform(X[:9]), model.transform(X[:9]))


def test_a_unit_that_a_statistic_does_not_have_is_refuted():
    certificate = fitted(radius=5.0).fit(X, EXTENDED).certificates_[0]
    forged = replace(certificate, privacy_unit=ProtectedUnit.LABELED_PERSON)
    forged = seal(forged)
    assert any(check.holds is False for check in verify_certificate(forged))


def test_a_new_subject_is_recentered_at_their_own_mean():
    """As MOABB's cross-subject evaluation does: `subjects` of the training trials, one new subject at a time."""
    target = SUBJECTS == "s3"
    model = fitted(radius=5.0, new_domain="own-mean", final_dispersion=0.5)
    model.fit(X[~target], LABELS[~target], subjects=SUBJECTS[~target])
    assert model.target_domain_ is None
    moved = model.transform(X[target])
    mean = geometry.frechet_mean(SPD, moved)
    np.testing.assert_allclose(mean, np.eye(3), atol=1e-6)
    assert np.mean(SPD.dist(np.eye(3), moved) ** 2) == pytest.approx(0.5)
    np.testing.assert_array_equal(
        model.transform(X[target], domains=SUBJECTS[target]), moved
    )


@pytest.mark.parametrize(
    "odd",
    [
        np.full((2, 3, 3), np.nan),
        np.stack([1e-300 * np.eye(3), 1e300 * np.eye(3)]),
        np.stack([np.diag([1e-150, 1.0, 1e150]), np.eye(3)]),
        np.zeros((1, 3, 3)),
    ],
)
def test_odd_records_of_a_new_domain_are_recentered_without_a_word(odd):
    model = fitted(radius=5.0, new_domain="own-mean").fit(X, EXTENDED)
    assert np.isfinite(model.transform(odd)).all()


def test_a_file_keeps_what_happens_to_new_domains(tmp_path):
    model = fitted(radius=5.0, new_domain="own-mean").fit(X, EXTENDED)
    model.save(tmp_path / "references.json")
    loaded = PrivateRecenter.load(tmp_path / "references.json")
    np.testing.assert_array_equal(loaded.transform(X[:9]), model.transform(X[:9]))
    with pytest.raises(ParameterError, match="no private reference"):
        fitted(radius=5.0).fit(X, EXTENDED).transform(X[:2], domains=["s8", "s9"])
