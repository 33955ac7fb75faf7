"""`curvedp region`: from the published files alone, verified first."""

import functools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PrivateTangentPCA,
)
from curvedp.cli import app
from curvedp.geometry import KendallShapes, Sphere
from curvedp.releasing import OFFERS, write

X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.3, (300, 3)))


def run(*arguments):
    return CliRunner().invoke(app, ["region", *map(str, arguments)])


def published(folder, fitted, value, name="one"):
    certificate, file = folder / f"{name}.json", folder / f"{name}.npy"
    fitted.certificate_.save(certificate)
    np.save(file, value)
    return certificate, file


def mean(data=X):
    return PrivateFrechetMean(Sphere(2), radius=0.7, mechanism="tangent-gaussian").fit(
        data
    )


def test_the_region_is_the_estimator_s(tmp_path):
    fitted = mean()
    files = published(tmp_path, fitted, fitted.location_)
    told = json.loads(run(*files, "--level", 0.9, "--json").stdout)
    own = fitted.confidence_region(0.9)
    assert told["radius"] == own.radius
    assert np.allclose(told["center"], own.center)
    assert "exact" in told["theorem"]
    shown = run(*files, "--of", "population", "--plot", tmp_path / "region.svg")
    assert shown.exit_code == 0
    assert "95% region of the population" in shown.stdout
    assert (tmp_path / "region.svg").stat().st_size > 1000


def test_directions_are_told_by_their_angle(tmp_path):
    fitted = PrivatePCA(2, radius=3.0).fit(
        np.random.default_rng(0).normal(size=(4000, 4)) * [2.0, 1.5, 0.2, 0.2]
    )
    told = json.loads(
        run(*published(tmp_path, fitted, fitted.components_), "--json").stdout
    )
    assert told["radius"] == pytest.approx(fitted.confidence_region().radius)


def test_a_second_release_is_compared(tmp_path):
    one, two, far = mean(), mean(), mean(Sphere(2).project(X + np.array([0, 1.0, 0])))
    files = published(tmp_path, one, one.location_)
    for fitted, name, code in ((two, "two", 0), (far, "far", 1)):
        second, _ = published(tmp_path, fitted, fitted.location_, name)
        assert run(*files, "--level", 0.9999, "--against", second).exit_code == code


def test_a_shape_is_printed_as_the_release_prints_it(tmp_path):
    space = KendallShapes(4)
    z = 0.1 * np.random.default_rng(0).normal(size=(300, space.dim))
    shapes = np.asarray(space.from_normal_coordinates(space.origin, z))
    fitted = PrivateFrechetMean(space, radius=0.5).fit(shapes)
    printed = run(*published(tmp_path, fitted, fitted.location_)).stdout
    first = printed.splitlines()[1].strip("[]").split()
    assert float(first[0]) > 0
    assert float(first[1]) == 0


LABELS, TIMES = np.arange(300) % 2, np.linspace(0, 1, 300)
LINE = {
    "radius": 0.7,
    "speed": 1.0,
    "clip": 0.3,
    "x_range": (0, 1),
    "method": "dp-rgd",
    "guarantee": GDP(4.0),
}
MADE = {
    "mean": lambda: PrivateFrechetMean(Sphere(2), radius=0.7).fit(X),
    "median": lambda: PrivateFrechetMedian(Sphere(2), radius=0.7).fit(X),
    "dispersion": lambda: PrivateDispersion(Sphere(2), radius=0.7).fit(X),
    "pca": lambda: PrivatePCA(2, radius=1.0).fit(X),
    "tangent-pca": lambda: PrivateTangentPCA(Sphere(2), radius=0.7).fit(X),
    "mdm": lambda: PrivateMDM(Sphere(2), radius=0.7).fit(X, LABELS),
    "regression": lambda: PrivateGeodesicRegression(Sphere(2), **LINE).fit(TIMES, X),
}


# No theorem gives a region for the weights of a classifier, for centers of clusters or
# for a synthetic population.
WITHOUT_REGION = ("classifier", "kmeans", "synthetic")


@functools.cache
def made(statistic):
    """One release of it and its region, for all tests: nothing here changes them."""
    fitted = MADE[statistic]()
    return fitted, fitted.confidence_region()


@pytest.mark.parametrize(  # a text has lost its shape; arrays have kept it: one of a value, of several, of a line
    ("statistic", "form"),
    [
        *((name, "csv") for name in OFFERS if name not in WITHOUT_REGION),
        *((name, "npy") for name in ("mean", "mdm", "regression")),
    ],
)
def test_what_a_release_writes_is_read(statistic, form, tmp_path):
    """Every statistic that the command line releases, with the files that it writes for it."""
    (fitted, own), value = made(statistic), tmp_path / f"value.{form}"
    write(fitted, value, tmp_path / "one.json", None)
    regions = list(own.values()) if isinstance(own, dict) else [own]
    # Several certificates are numbered and named after their classes.
    certificates = sorted(tmp_path.glob("one*.json"))
    for certificate, each in zip(certificates, regions, strict=True):
        told = json.loads(
            run(certificate, value, "--level", each.level, "--json").stdout
        )
        assert told["radius"] == pytest.approx(each.radius)
    for other in {"mean", "dispersion", "regression"} - {statistic}:
        write(made(other)[0], value, None, None)
        assert run(certificate, value).exit_code == 1


@pytest.mark.parametrize("name", ["p.txt", "p", "one.json", "none/p.svg"])
def test_a_picture_that_cannot_be_written_is_one_line(name, tmp_path):
    fitted = mean()
    files = published(tmp_path, fitted, fitted.location_)
    before = files[0].read_text()
    ran = run(*files, "--plot", tmp_path / name)
    assert ran.exit_code == 2
    assert ran.stderr.count("\n") == 1
    assert files[0].read_text() == before


@pytest.mark.parametrize(
    "wrong", ["value", "shape", "certificate", "level", "file", "text"]
)
def test_what_does_not_fit_is_one_line(tmp_path, wrong):
    fitted = mean()
    certificate, value = published(tmp_path, fitted, fitted.location_)
    if wrong == "value":
        np.save(value, Sphere(2).origin)
    if wrong == "shape":
        np.save(value, np.zeros((2, 2)))
    if wrong == "certificate":
        certificate.write_text(certificate.read_text().replace('"n": 300', '"n": 600'))
    if wrong == "file":
        value = tmp_path / "none.npy"
    if wrong == "text":
        value.write_text("1,2,3")
    ran = run(certificate, value, *(("--level", 1.5) if wrong == "level" else ()))
    assert ran.exit_code in (1, 2)
    assert ran.stderr.count("\n") == 1


def test_several_certificates_are_drawn_in_one_figure(tmp_path):
    first, second = mean(), mean(X[::-1])
    paths = [published(tmp_path, each, each.location_, name)[0]
             for each, name in ((first, "a"), (second, "b"))]  # fmt: skip

    def draw(*arguments):
        return CliRunner().invoke(app, ["figure", *map(str, [*paths, *arguments])])

    picture = tmp_path / "both.svg"
    drawn = draw("--plot", picture, "--names", "north,south", "--of", "records")
    assert drawn.exit_code == 0, drawn.output
    assert picture.stat().st_size > 1000
    assert draw("--plot", tmp_path / "both.pdf").exit_code == 0
    assert draw("--plot", picture, "--names", "one").exit_code == 2

    # A certificate that was changed is not drawn.
    paths[1].write_text(paths[1].read_text().replace('"n": 300', '"n": 301'))
    assert draw("--plot", picture).exit_code == 1
