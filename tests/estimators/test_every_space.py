"""Every estimator and test on every space: an answer near the truth, or one line of ours; never a warning of NumPy's."""

import warnings

import numpy as np
import pytest

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateMDM,
)
from curvedp.errors import CurvedpError, ReleaseWarning
from curvedp.geometry import SPDBuresWasserstein, frechet_mean
from curvedp.inference import two_sample_test
from curvedp.randomness import GeneratorSource
from support.spaces import SPACES

N = 300


def source(seed=0):
    return GeneratorSource(np.random.default_rng(seed))


def records(M, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((N, M.dim)) * 0.2 / np.sqrt(M.dim)
    return np.asarray(M.from_normal_coordinates(M.origin, z))


@pytest.fixture(autouse=True)
def only_our_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReleaseWarning)
        yield


# Each space has both kinds of balls, one in each of the next two tests.
@pytest.mark.parametrize(
    ("M", "radius"),
    [(M, (0.5, "private")[i % 2]) for i, M in enumerate(SPACES)],
    ids=repr,
)
def test_the_predicted_error_of_a_mean_is_of_the_size_of_the_error(M, radius):
    X = records(M)
    truth, found, foreseen = frechet_mean(M, X), [], []
    for seed in range(3):
        mean = PrivateFrechetMean(M, radius=radius, source=source(seed)).fit(X)
        found.append(float(M.dist(truth, mean.location_)))
        foreseen.append(mean.predicted_error_)
    assert all(np.isfinite(foreseen))
    assert max(found) < 0.2
    assert (
        0.2 < np.median(foreseen) / np.median(found) < 5
    )  # it was 0, nan, or 40 times too large after a private ball


@pytest.mark.parametrize(
    ("M", "radius"),
    [(M, ("private", 0.5)[i % 2]) for i, M in enumerate(SPACES)],
    ids=repr,
)
def test_dispersions_and_classes(M, radius):
    X, labels = records(M), np.arange(N) % 2
    if isinstance(M, SPDBuresWasserstein):
        with pytest.raises(CurvedpError, match="no a-priori bound"):
            PrivateDispersion(M, radius=radius).fit(X)
    else:
        assert (
            0.01
            < PrivateDispersion(M, radius=radius, source=source()).fit(X).variance_
            < 0.1
        )
    assert PrivateMDM(M, radius=radius).fit(X, labels).predict_proba(X).shape == (N, 2)


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_medians_and_two_samples(M):
    X = records(M)
    assert (
        float(
            M.dist(
                M.origin,
                PrivateFrechetMedian(M, radius=1.0, source=source()).fit(X).location_,
            )
        )
        < 0.2
    )
    far = np.asarray(
        M.from_normal_coordinates(M.origin, np.tile(np.eye(M.dim)[0] * 0.3, (N, 1)))
    )
    assert two_sample_test(
        M, X[:100], far[:100], radius=0.6, guarantee=GDP(3.0), source=source()
    ).rejected
    for radius in (0.1, 4.0):  # every record outside, and a ball beyond every limit
        assert two_sample_test(M, X[:50], X[:50], radius=radius).pvalue > 0
