"""Releases of several parts, paid one after another, lose nothing to a warning.

Where a user turns warnings into errors, a warning between two payments would end the
release with the first part paid for and lost.
"""

import warnings

import numpy as np
import pytest

from curvedp import GDP, Ledger, PrivateRecenter, PrivateTangentPCA, ReleaseWarning
from curvedp.errors import CurvedpError
from curvedp.estimators.comparison import compare_groups
from curvedp.geometry import (
    Correlation,
    Euclidean,
    Lorentz,
    PoincareBall,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
)
from curvedp.neuro import PrivateStarterKit, starter_kit
from curvedp.neuro.class_centers import ShrunkCenters

SPACE = SPDAffineInvariant(2)


def matrices(n):
    """Return n random matrices near the identity."""
    normals = 0.3 * np.random.default_rng(0).normal(size=(n, 3))
    return np.asarray(SPACE.from_normal_coordinates(SPACE.origin, normals))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "study.ledger", GDP(9.0))


@pytest.mark.parametrize("radius", [2.0, "private"])
@pytest.mark.parametrize("mu", [0.3, 1.0])
@pytest.mark.parametrize("n", [20, 60])
def test_references_are_kept_where_dispersions_warn(ledger, radius, mu, n):
    estimator = PrivateRecenter(
        SPACE, guarantee=GDP(mu), radius=radius, ledger=ledger, final_dispersion=1.0
    )
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(ReleaseWarning),
    ):
        estimator.fit(matrices(n), domains=np.arange(n) % 2)
    assert len(ledger.entries) == 2  # references and dispersions, of disjoint domains
    assert len(estimator.releases) == 4
    assert set(estimator.centers_) == set(estimator.scales_) == {0, 1}


@pytest.mark.parametrize(
    ("unit", "n_payments", "n_releases"), [("subject", 1, 1), ("trial", 2, 6 + 2)]
)
def test_a_starter_kit_is_kept_where_a_part_warns(
    ledger, unit, n_payments, n_releases, monkeypatch
):
    """Warnings that follow from the release come when all of it is paid for and stored."""
    monkeypatch.setattr(PrivateStarterKit, "_warnings_before_paying", lambda *_: [])
    monkeypatch.setattr(starter_kit, "_centers_in", all_noise)
    kit = PrivateStarterKit(guarantee=GDP(0.5), unit=unit, ledger=ledger)
    subjects = np.arange(60) % 6
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(ReleaseWarning),
    ):
        kit.fit(matrices(60), np.arange(60) // 2 % 2, subjects)
    assert len(ledger.entries) == n_payments
    assert len(kit.releases) == n_releases
    assert len(kit.means_) == 2


def all_noise(release, n_classes):
    """Return class centers as if their differences were noise alone."""
    logs = np.asarray(release.value).reshape(n_classes, -1)
    return ShrunkCenters(logs, are_noise=True)


@pytest.mark.parametrize("radius", [2.0, "private"])
def test_a_comparison_is_returned_where_a_part_warns(tmp_path, radius):
    ledger = Ledger(tmp_path / "study.ledger", GDP(9.0), unit="record_in_class")
    with warnings.catch_warnings(action="error"):
        comparison = compare_groups(
            SPACE, [matrices(20), matrices(25)], radius, None, GDP(0.3), ledger=ledger
        )
    assert comparison.warnings
    assert len(comparison.means.certificates_) == 2


def test_few_persons_on_a_small_simplex_are_no_division_by_zero():
    rng = np.random.default_rng(1)
    for n_persons in (3, 4, 5):
        persons = np.arange(20) % n_persons
        with warnings.catch_warnings(action="ignore", category=ReleaseWarning):
            PrivateTangentPCA(manifold=Simplex(2), radius=1.0, guarantee=GDP(1.0)).fit(
                rng.dirichlet(np.ones(3), 20), groups=persons
            )


RECENTERED = [
    SPDAffineInvariant(2),
    SPDLogEuclidean(2),
    SPDLogCholesky(2),
    SPDBuresWasserstein(2),
    Euclidean(2),
    Lorentz(2),
    PoincareBall(2),
    Correlation(3),
    Simplex(2),
]
BALLS = [
    {},
    {"outer_radius": 1e3},
    {"outer_radius": 1e30},
    {"radius": 0.5},
    {"radius": 1e3},
    {"radius": 1e30},
]


# A found ball and the two widest with every space; each other ball with every third.
SPACES_AND_BALLS = [
    (space, ball)
    for number, space in enumerate(RECENTERED)
    for ball in [*BALLS[::5], BALLS[2], [BALLS[1], BALLS[3], BALLS[4]][number % 3]]
]


@pytest.mark.parametrize(("space", "ball"), SPACES_AND_BALLS, ids=repr)
def test_dispersions_are_not_refused_after_references_were_paid(ledger, space, ball):
    """Records as far out as a ball reaches, so that wide balls are found."""
    scale = 1.5 if isinstance(space, Simplex) else 50.0
    normals = scale * np.random.default_rng(0).normal(size=(60, space.dim))
    records = np.asarray(space.from_normal_coordinates(space.origin, normals))
    estimator = PrivateRecenter(
        space, guarantee=GDP(4.0), ledger=ledger, final_dispersion=1.0, **ball
    )
    try:
        with warnings.catch_warnings(action="ignore", category=ReleaseWarning):
            estimator.fit(records, domains=np.arange(60) % 2)
    except CurvedpError:
        assert not ledger.entries
    else:
        assert len(ledger.entries) == 2
