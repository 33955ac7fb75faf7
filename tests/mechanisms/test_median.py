"""The private median: what one record can move, what a tenth of them cannot, walks that read back."""

from math import sqrt

import numpy as np
import pytest

from curvedp import (
    GDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PureDP,
)
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.geometry import Euclidean, Lorentz, Rotations, SPDAffineInvariant, Sphere
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.release.verify import verify_certificate
from curvedp.statistics.geometric_median import GeometricMedian
from support.transcript import spent

SPACES = [
    (Euclidean(3), 20.0),
    (Sphere(2), 1.5),
    (Lorentz(2), 10.0),
    (SPDAffineInvariant(2), 20.0),
    (Rotations(3), 2.0),
]


def cloud(M, spread, n, rng):
    return np.asarray(
        M.from_normal_coordinates(
            M.origin, rng.normal(size=(n, M.dim)) * spread / sqrt(M.dim)
        )
    )


@pytest.mark.parametrize(("M", "radius"), SPACES, ids=str)
def test_privacy_loss_between_neighbors_is_within_the_charge(M, radius):
    rng, worst = np.random.default_rng(0), 0.0
    for trial in range(16):
        n = int(rng.integers(2, 60))
        mechanism = MedianMechanism.calibrate(
            GeometricMedian(M, None, radius, n), GDP(1.0)
        )
        X = cloud(M, 10.0 ** rng.uniform(-3, 0), n, rng)
        Y = X.copy()
        Y[-1] = [
            np.full_like(X[-1], np.nan),
            cloud(M, 3.0, 1, rng)[0],
            -X[-1],
            1e3 * X[-1],
        ][trial % 4]
        worst = max(worst, spent(mechanism.release, X, Y, trial))
    assert 0.05 < worst <= 1.0


@pytest.mark.parametrize(("M", "radius"), SPACES, ids=str)
def test_the_median_verifies_and_is_robust(M, radius):
    rng = np.random.default_rng(1)
    X = cloud(M, 0.2, 600, rng)
    X[:60] = M.from_normal_coordinates(
        M.origin, 0.9 * radius * np.eye(M.dim)[0]
    )  # a tenth of them, as far away as they can be
    model = PrivateFrechetMedian(M, radius=radius).fit(X)
    assert all(check.holds for check in verify_certificate(model.certificate_))
    moved = float(M.dist(M.origin, model.location_))
    assert moved < 0.12
    assert (
        moved
        < 0.5
        * float(
            M.dist(M.origin, PrivateFrechetMean(M, radius="private").fit(X).location_)
        )
        + 0.05
    )


def test_persons_are_the_unit(tmp_path):
    M, rng = Sphere(2), np.random.default_rng(2)
    X, ids = cloud(M, 0.3, 300, rng), np.repeat([f"p{k}" for k in range(60)], 5)
    ledger = Ledger(tmp_path / "a.ledger", GDP(3.0))
    for kind in (PrivateFrechetMedian, PrivateFrechetMean, PrivateDispersion):
        estimator = kind(M, radius=1.0, ledger=ledger)
        certificate = estimator.fit(X, groups=ids).certificate_
        assert certificate.statistic["n"] == 60
        assert certificate.privacy_unit is ProtectedUnit.PERSON
        assert all(check.holds for check in verify_certificate(certificate))
    for bad in (
        ids[:-1],
        np.full(300, "one"),
        np.where(np.arange(300) == 5, np.nan, 1.0),
    ):
        with pytest.raises(ParameterError):
            PrivateFrechetMean(M, radius=1.0, ledger=ledger).fit(X, groups=bad)
    assert len(ledger.entries) == 3  # nothing is spent on a refusal


def test_a_person_counts_once_whatever_their_records():
    """All of one person's records change, and their number: one record of the persons' means does."""
    from curvedp.records.persons import person_means

    M, rng = SPDAffineInvariant(2), np.random.default_rng(3)
    ball = (M.origin, 3.0)
    X, codes = cloud(M, 0.5, 40, rng), np.repeat(np.arange(10), 4)
    other = np.concatenate([X[:-4], np.full((9, 2, 2), np.nan), 1e9 * X[:2]])
    changed = np.concatenate([codes[:-4], np.full(11, 9)])
    one, two = person_means(M, ball, X, codes), person_means(M, ball, other, changed)
    assert np.array_equal(one[:-1], two[:-1])
    assert one.shape == two.shape


@pytest.mark.parametrize(
    ("guarantee", "few", "many"), [(GDP(1.0), 3, 60), (PureDP(1.0), 10, 200)], ids=str
)
def test_few_records_are_warned_of_before_anything_is_spent(
    guarantee, few, many, tmp_path
):
    """By public numbers alone, whatever the records."""
    rng = np.random.default_rng(0)
    ledger = Ledger(tmp_path / "ledger.json", guarantee)
    with pytest.warns(ReleaseWarning, match="small for a median"):
        PrivateFrechetMedian(Euclidean(3), radius=5.0, guarantee=guarantee).fit(
            rng.normal(size=(few, 3))
        )
    PrivateFrechetMedian(
        Euclidean(3), radius=5.0, guarantee=guarantee, ledger=ledger
    ).fit(rng.normal(size=(many, 3)))
    assert len(ledger.entries) == 1
