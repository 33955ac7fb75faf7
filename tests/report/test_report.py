"""The page about a release: self-contained, complete, and drawn by a real browser without a blank picture."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.image import imread

from curvedp import GDP, Ledger, PrivateFrechetMean, PrivateMDM, PureDP
from curvedp.core.wording import neighbor_words
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.report import write_report
from curvedp.statement.pages import label
from curvedp.statement.study import QUESTIONS

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)


def released(manifold, radius=0.5, ledger=None, mechanism="auto"):
    rng = np.random.default_rng(0)
    z = 0.2 * rng.normal(size=(60, manifold.dim))
    X = np.asarray(
        manifold.exp(manifold.origin, manifold.from_coordinates(manifold.origin, z))
    )
    return PrivateFrechetMean(
        manifold, radius=radius, guarantee=GDP(1.0), ledger=ledger, mechanism=mechanism
    ).fit(X)


@pytest.mark.parametrize(
    "manifold",
    [
        Sphere(2),
        PoincareBall(2),
        Lorentz(2),
        SPDAffineInvariant(3),
        Rotations(3),
        Euclidean(1),
        Sphere(1),
    ],
    ids=str,
)
def test_a_page_for_every_kind_of_picture(tmp_path, manifold):
    ledger = Ledger(tmp_path / "x.ledger", GDP(2.0))
    estimator = released(manifold, ledger=ledger)
    path = tmp_path / "report.html"
    write_report(path, estimator.location_, estimator.certificate_, ledger)
    page = path.read_text()
    assert page.count("<svg") == 6
    assert "error bar of the population" in page
    assert "region of the records" not in page
    assert not re.search(r'(src|href)="https?://', page)  # nothing is fetched
    assert "curvedp verify" in page
    assert "GDP(1.0)" in page


def test_a_draw_in_floats_is_said_on_the_page(tmp_path):
    X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.3, (40, 3)))
    estimator = PrivateFrechetMean(
        Sphere(2), 0.5, guarantee=PureDP(1.0), mechanism="kng"
    ).fit(X)
    write_report(tmp_path / "r.html", estimator.location_, estimator.certificate_)
    page = (tmp_path / "r.html").read_text()
    assert "not certified" in page
    assert page.count("<svg") == 2


def test_text_is_escaped(tmp_path):
    estimator = released(Sphere(2))
    rows = [("<script>alert(1)</script>", "x")]
    write_report(
        tmp_path / "r.html",
        estimator.location_,
        estimator.certificate_,
        tables=[("<b>", ("a", "b"), rows)],
    )
    assert "<script>alert" not in (tmp_path / "r.html").read_text()


@pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium on this machine; .ci/run installs one where it can",
)
def test_a_browser_draws_it(tmp_path):
    estimator = released(Sphere(2))
    page, picture = tmp_path / "report.html", tmp_path / "page.png"
    write_report(page, estimator.location_, estimator.certificate_)
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1100,2000",
    ]
    command = [CHROMIUM, *flags, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    image = imread(picture)[..., :3]
    assert image.shape[:2] == (2000, 1100)
    # The upper half holds the pictures: there is ink in each quarter of it, in the colors that we draw with.
    for top in (0, 500):
        for left in (0, 550):
            part = image[top : top + 500, left : left + 550].reshape(-1, 3)
            assert (np.ptp(part, axis=0) > 0.5).all()
    assert (
        np.abs(image - np.array([0x0B, 0x6E, 0x99]) / 255).max(axis=2) < 0.02
    ).sum() > 500
    dark = subprocess.run(
        [*command, "--blink-settings=preferredColorScheme=0"],
        capture_output=True,
        timeout=120,
    )
    assert dark.returncode == 0
    assert imread(picture)[..., :3].mean() < 0.3 < image.mean()


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("persons", [False, True])
def test_the_page_and_the_statement_say_what_the_guarantee_is_about(
    adjacency, persons, tmp_path
):
    """Replacing a record costs twice what adding one does, and a person has many: no page may promise the other."""
    X, groups = np.zeros((40, 3)), np.arange(40) // 2 if persons else None
    mean = PrivateFrechetMean(
        Euclidean(3), radius=1.0, guarantee=GDP(1.0, adjacency=adjacency)
    ).fit(X, groups=groups)
    write_report(tmp_path / "report.html", mean)
    told, made = (tmp_path / "report.html").read_text(), mean.certificate_
    whose, plural = ("person", "people") if persons else ("record", "records")
    added = adjacency == "add-remove"
    for one, other in (
        (f"replacing one {whose}", f"adding or removing one {whose}"),
        ("which of two", "at all"),
    ):
        assert ((one in told), (other in told)) == (not added, added)
    assert f"every other {whose}" in told
    assert "on euclidean:3" in told  # where the records are, not their sums
    assert (f"{plural}, a public number" in told) is not added
    assert neighbor_words(made).guess in label(made, dict.fromkeys(QUESTIONS, "said"))
    if not added:
        assert f"mean of the {plural}" in mean.confidence_region().description


def test_what_was_not_fitted_has_no_page(tmp_path):
    for wrong in (
        PrivateFrechetMean(Euclidean(3), radius=1.0),
        PrivateMDM(SPDAffineInvariant(2), reduce=1),
        "x",
        None,
    ):
        with pytest.raises(ParameterError, match="fitted"):
            write_report(tmp_path / "report.html", wrong)


def test_a_page_about_classes_names_each_and_has_the_warnings_of_all(tmp_path):
    """The first class's mean stood there without its name, and what was odd about the others was not told."""
    X = np.random.default_rng(0).normal(0.0, 0.1, (400, 2))
    X[200:] += 9.0  # outside the ball: their mean lies on its edge
    with pytest.warns(ReleaseWarning, match="edge"):
        model = PrivateMDM(Euclidean(2), radius=1.0, guarantee=GDP(5.0)).fit(
            X, np.repeat(["a", "b"], 200)
        )
    write_report(tmp_path / "x.html", model)
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Private Fréchet mean on euclidean:2: 2 released values" in page
    assert "These are 2 statistics, of 200, 200 records" in page
    assert "The released value: mean of class a" in page
    assert "mean of class b" in page
    assert "on the edge of the ball" in page


def test_a_page_shows_points_as_the_records_were_written(tmp_path):
    X = np.tile(np.eye(3)[1], (200, 1))
    mean = PrivateFrechetMean(Sphere(2), radius="private").fit(X)
    classes = PrivateMDM(Sphere(2), radius="private").fit(X, np.arange(200) % 2)
    for fitted in (mean, classes):
        write_report(tmp_path / "x.html", fitted, form="latlon-degrees")
        page = (tmp_path / "x.html").read_text(encoding="utf-8")
        assert "latitude " in page
        assert "longitude " in page
    assert "95% of the population" in page
    assert page.count("within ") >= 4
