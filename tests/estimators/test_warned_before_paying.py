"""Releases of little use are told of before anything is spent, from public numbers."""

import warnings

import numpy as np
import pytest

from curvedp import (
    GDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateMDM,
    PrivateTangentSpace,
    PureDP,
    ReleaseWarning,
    plan,
)
from curvedp.geometry import (
    Correlation,
    Euclidean,
    KendallShapes,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.release.warnings import certificate_warnings
from curvedp.statistics.searched_ball import SearchedMean

EEG = SPDAffineInvariant(32)  # 528 dimensions
REGIONS = Correlation(28)  # 378 dimensions
HOPELESS = [
    # 32 channels of EEG and 28 regions of a brain, as in the reviews.
    (PrivateFrechetMean(EEG, radius="private"), 216),
    (PrivateFrechetMean(REGIONS, radius="private"), 86),
    (
        PrivateFrechetMean(EEG, 9.0, mechanism="tangent-gaussian", guarantee=GDP(0.25)),
        216,
    ),
    (PrivateMDM(EEG, radius="private"), 216),
    (PrivateMDM(EEG, radius=9.0, mechanism="tangent-gaussian"), 216),
    (PrivateTangentSpace(EEG, radius="private"), 216),
    (PrivateDispersion(EEG, radius="private"), 216),
    (PrivateDispersion(Sphere(2), radius=1.0, guarantee=GDP(0.01)), 20),
]
USEFUL = [
    (PrivateFrechetMean(Sphere(2), radius="private"), 216),
    (PrivateFrechetMean(Sphere(2), radius=0.8), 216),
    (PrivateFrechetMean(SPDAffineInvariant(4), radius="private"), 400),
    (PrivateMDM(SPDAffineInvariant(4), radius=2.0), 800),
    (PrivateDispersion(SPDAffineInvariant(4), radius="private"), 400),
    (PrivateDispersion(Sphere(2), radius=1.0), 2000),
]


def fitted_at_no_price(model, n, ledger, seed=0):
    """Fit where a `ReleaseWarning` is an error: what it says, and what was spent."""
    M = model.manifold
    rng = np.random.default_rng(seed)
    z = 0.2 / np.sqrt(M.dim) * rng.standard_normal((n, M.dim)) + 0.3 * np.eye(1, M.dim)
    X = np.asarray(M.from_normal_coordinates(M.origin, z))
    labels = [np.arange(n) % 4] if isinstance(model, PrivateMDM) else []
    model.set_params(ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        try:
            model.fit(X, *labels)
        except ReleaseWarning as warning:
            return str(warning), len(ledger.entries)
    return None, len(ledger.entries)


def named(case):
    model, n = case
    return f"{type(model).__name__}-{model.manifold.name}-{model.radius}-{n}"


@pytest.mark.parametrize("case", HOPELESS, ids=named)
def test_a_hopeless_release_is_told_of_before_it_is_paid_for(case, tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(10.0))
    text, entries = fitted_at_no_price(*case, ledger)
    assert text is not None
    assert entries == 0
    assert "budget" in text
    if case[0].manifold is EEG and not isinstance(case[0], PrivateDispersion):
        assert "reduce=6" in text
        assert "fewer dimensions (channels, regions)" in text
    # Other records of the same public parameters: the same words.
    assert fitted_at_no_price(*case, ledger, seed=1)[0] == text


@pytest.mark.parametrize("case", USEFUL, ids=named)
def test_a_useful_release_is_made_without_a_word(case, tmp_path):
    ledger = Ledger(tmp_path / "study.ledger", budget=GDP(10.0))
    assert fitted_at_no_price(*case, ledger) == (None, 1)


def test_what_was_said_before_paying_is_not_said_again():
    M = SPDAffineInvariant(3)
    X = np.asarray(M.from_normal_coordinates(np.eye(3), np.full((9, 6), 0.1)))
    model = PrivateFrechetMean(M, radius=3, guarantee=GDP(0.05))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    texts = [str(each.message) for each in caught]
    assert (
        sum("center of the ball is an equally good estimate" in text for text in texts)
        == 1
    )
    assert any(
        "equally good" in text
        for text in [
            warning.text for warning in certificate_warnings(model.certificate_)
        ]
    )


@pytest.mark.parametrize(
    "M",
    [Sphere(2), Euclidean(40), Euclidean(400), SPDAffineInvariant(4), KendallShapes(9)],
    ids=repr,
)
def test_the_noise_is_about_what_a_plan_simulates(M):
    """The formula against simulated releases, of whatever number and guarantee."""
    for n in (150, 400, 1000):
        for guarantee in (GDP(1.0), GDP(0.4), PureDP(3.0)):
            statistic = SearchedMean(M, None, None, n)
            search = PrivateBallMechanism.calibrate(statistic, guarantee)
            if search.has_enough_records:
                study = plan(M, n, "private", guarantee)
                share = study.error / study.spread
                # Shrinkage keeps the error below the distance to the center.
                noise = min(search.noise_share, 1.0)
                assert 1 / 3 < noise / share < 3, (n, guarantee)
                if not 0.15 < search.noise_share < 0.4:
                    assert (search.noise_share >= 0.25) == study.too_small
