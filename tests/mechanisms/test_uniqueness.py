"""Where records need not have one mean, every release says so, from released numbers."""

import json
import re
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivateTangentSpace,
    ReleaseWarning,
)
from curvedp.cli import app
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.geometry import Simplex, SPDBuresWasserstein, Sphere, Torus
from curvedp.release.warnings import certificate_warnings
from curvedp.report import write_report
from support.releases import warning_texts
from support.spaces import EDGES, SPACES

N = 600
WARNING = "is known to be unique only for records in a ball of radius below"
# O(3), Stiefel(3, 3) here, has two components: the first stage may end in the one
# without records, which is on the edge of the outer ball.
WORDS = (WARNING, "on the edge of the outer ball")

# All points of a simplex are in one convex ball, so its means are always unique.
COMPACT = [
    M
    for M in SPACES + EDGES
    if 0 < M.convexity_radius < np.inf and not isinstance(M, Simplex)
]


def unimodal(M, n=N, seed=0):
    rng = np.random.default_rng(seed)
    width = 0.2 * M.convexity_radius / np.sqrt(M.dim)
    return np.asarray(
        M.from_normal_coordinates(M.origin, width * rng.standard_normal((n, M.dim)))
    )


def bimodal(M, n=N):
    """Two clusters, nearly as far apart as geodesics are unique."""
    away = 0.98 * M.injectivity_radius * np.eye(1, M.dim)[0]
    other = np.asarray(M.from_normal_coordinates(M.origin, away))
    rng = np.random.default_rng(1)
    width = 0.2 * M.convexity_radius / np.sqrt(M.dim)
    z = width * rng.standard_normal((n // 2, M.dim))
    return np.concatenate(
        [unimodal(M, n - n // 2), np.asarray(M.from_normal_coordinates(other, z))]
    )


def everywhere(M, n=N):
    """Records as far from the origin as geodesics are unique, in all directions."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((n, M.dim))
    lengths = 0.98 * M.injectivity_radius * rng.uniform(size=(n, 1)) ** (1 / M.dim)
    z *= lengths / np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(M.from_normal_coordinates(M.origin, z))


def fit_warnings(estimator, *data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = estimator.fit(*data)
    texts = [str(each.message) for each in caught if each.category is ReleaseWarning]
    return fitted, [text for text in texts if any(words in text for words in WORDS)]


ESTIMATORS = [PrivateFrechetMean, PrivateDispersion, PrivateMDM]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("M", COMPACT, ids=repr)
def test_every_compact_space_warns_of_wide_records_and_of_no_others(M, estimator):
    labels = [np.arange(N) % 2] if estimator is PrivateMDM else []
    for records, expected in ((bimodal(M), 1), (everywhere(M), 1), (unimodal(M), 0)):
        fitted, found = fit_warnings(estimator(M, radius="private"), records, *labels)
        assert min(len(found), 1) == expected, found
        if expected:
            # What is said follows from the certificate alone.
            certificates = getattr(fitted, "certificates_", None)
            first = certificates[0] if certificates else fitted.certificate_
            again = Certificate.from_json(first.to_json())
            assert set(found) & {
                warning.text for warning in certificate_warnings(again)
            }


def test_the_prediction_is_not_wrong_in_silence_on_a_torus():
    """Against the mean by brute force: an error of many predictions comes with words."""
    M, rng = Torus(2), np.random.default_rng(0)
    clusters = np.where(rng.uniform(size=(N, 1)) < 0.55, [[0.0, 0.0]], [[0.0, 3.0]])
    records = clusters + 0.6 * rng.standard_normal((N, 2))
    grid = np.linspace(-np.pi, np.pi, 721)
    apart = np.angle(np.exp(1j * (grid[:, None, None] - records)))
    truth = grid[np.argmin(np.mean(apart**2, axis=1), axis=0)]
    ratios = []
    for _ in range(5):
        fitted, found = fit_warnings(PrivateFrechetMean(M, radius="private"), records)
        assert found
        with pytest.warns(ReleaseWarning, match=WARNING):
            predicted = fitted.predicted_error_
        ratios.append(float(M.dist(truth, fitted.location_)) / predicted)
        with pytest.raises(ParameterError, match="so spread out"):
            fitted.confidence_region()
    assert max(ratios) > 3


def test_a_public_ball_in_which_means_are_not_unique_is_told_of_too():
    M = Sphere(2)
    model = PrivateFrechetMean(M, radius=2.5, mechanism="gradient", guarantee=GDP(1.0))
    assert fit_warnings(model, bimodal(M))[1]
    model = PrivateFrechetMean(M, radius=1.2, mechanism="gradient", guarantee=GDP(1.0))
    assert not fit_warnings(model, bimodal(M))[1]


def test_other_estimators_of_a_private_ball_warn_as_well():
    M = Sphere(2)
    assert fit_warnings(PrivateTangentSpace(M, radius="private"), bimodal(M))[1]
    line = PrivateGeodesicRegression(M, radius="private", guarantee=GDP(1.0))
    predictor = np.linspace(0, 1, N)
    assert fit_warnings(line.set_params(x_range=(0.0, 1.0)), predictor, bimodal(M))[1]


def test_means_of_bures_and_wasserstein_are_unique():
    M = SPDBuresWasserstein(2)
    records = np.asarray(M.from_normal_coordinates(M.origin, unimodal(Sphere(2))))
    assert not fit_warnings(PrivateFrechetMean(M, radius="private"), records)[1]


def test_the_report_and_the_shell_say_it(tmp_path):
    M = Torus(2)
    table = tmp_path / "angles.npy"
    np.save(table, bimodal(M))
    fitted, _ = fit_warnings(PrivateFrechetMean(M, radius="private"), bimodal(M))
    assert any(WARNING in text for text in warning_texts(fitted))
    write_report(tmp_path / "report.html", fitted)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert WARNING in page
    assert "predicted error</div>" not in page
    given = ["release", str(table), "-m", "torus:2", "-r", "private", "--mu", "1"]
    shown = CliRunner().invoke(app, given)
    assert shown.exit_code == 0, shown.output
    assert WARNING in re.sub(r"\s+", " ", shown.output)
    told = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert any(WARNING in text for text in told["alarms"])
