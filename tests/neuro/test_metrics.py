"""Means and medians by pyRiemann's names of metrics."""

import numpy as np
import pytest

from curvedp import GDP, Ledger
from curvedp.errors import ParameterError
from curvedp.geometry import HPDAffineInvariant, frechet_mean
from curvedp.neuro import gmean, gmedian, space_of_metric
from curvedp.release.verify import verify_certificate

RNG = np.random.default_rng(0)
SIGNALS = (np.eye(3) + 0.4 * RNG.normal(size=(3, 3))) @ RNG.normal(size=(600, 3, 40))
X = SIGNALS @ SIGNALS.swapaxes(1, 2) / 40


@pytest.mark.parametrize("metric", ["riemann", "logeuclid", "logchol", "wasserstein"])
def test_the_metric_is_pyriemanns(metric):
    """With next to no noise the release is the mean that pyRiemann computes."""
    geometry = pytest.importorskip("pyriemann.geometry.mean")
    theirs = geometry.gmean(X, metric=metric)
    released = gmean(X, metric=metric, guarantee=GDP(1e3))
    np.testing.assert_allclose(released.value, theirs, atol=2e-2)
    space = space_of_metric(metric, 3)
    np.testing.assert_allclose(frechet_mean(space, X), theirs, atol=1e-4)


def test_the_median_is_pyriemanns_and_artifacts_hardly_move_it():
    geometry = pytest.importorskip("pyriemann.geometry.median")
    theirs = geometry.median_riemann(X)
    np.testing.assert_allclose(gmedian(X, guarantee=GDP(1e3)).value, theirs, atol=0.05)
    artifacts = X.copy()
    artifacts[:50] *= 100.0
    space = space_of_metric("riemann", 3)
    moved = space.dist(gmedian(artifacts, guarantee=GDP(20.0)).value, theirs)
    assert moved < 0.5 * space.dist(frechet_mean(space, artifacts), theirs)


def test_one_release_with_its_certificate_and_charge(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    released = gmean(X, groups=np.arange(600) // 2, ledger=ledger, label="motor")
    assert [entry.label for entry in ledger.entries] == ["motor"]
    assert released.certificate.privacy_unit == "person"
    checks = verify_certificate(released.certificate)
    assert all(check.holds is not False for check in checks)


def test_refusals_spend_nothing(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    assert space_of_metric("riemann", 2, is_complex=True) == HPDAffineInvariant(2)
    with pytest.raises(ParameterError, match="metric"):
        space_of_metric("logeuclid", 2, is_complex=True)
    for function in (gmean, gmedian):
        with pytest.raises(ParameterError, match="metric"):
            function(X, metric="euclid", ledger=ledger)
        with pytest.raises(ParameterError, match="shape"):
            function(X[0], ledger=ledger)
        with pytest.raises(ParameterError, match="radius"):
            function(X, radius="wide", ledger=ledger)
    assert not ledger.entries
