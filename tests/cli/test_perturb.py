"""`curvedp perturb`: what it says before it draws, what it writes, and what it refuses."""

import csv
import json

import numpy as np
import pytest

from curvedp.local import Earth, LocalCertificate
from support.shell import run

PLACES = "lat,lon\n51.5,-0.1\n48.85,2.35\n,3\nabc,4\n89.9999,10\n10,180\n"
EARTH = ("--as", "latlon-degrees", "--header")


@pytest.fixture
def places(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text(PLACES)
    return path


def test_the_displacement_is_said_before_anything_is_drawn(places):
    result = run("perturb", places, *EARTH, "--epsilon-per-km", 1)
    assert result.exit_code == 0
    assert "a report lies 2 kilometers from its record on average" in result.stdout
    assert "nothing was drawn" in result.stdout
    assert [path.name for path in places.parent.iterdir()] == ["places.csv"]


def test_reports_are_written_with_a_certificate_that_verifies(places, tmp_path):
    out, certificate = tmp_path / "reports.csv", tmp_path / "c.json"
    result = run(
        *("perturb", places, *EARTH, "--epsilon-per-km", 1),
        *("--out", out, "--certificate", certificate),
    )
    assert result.exit_code == 0, result.stderr
    with out.open() as file:
        header, *rows = list(csv.reader(file))
    assert header == ["latitude_degrees", "longitude_degrees"]
    reports = np.array(rows, dtype=float)
    # One report for each row, also for those that cannot be read: near the public place.
    true = [[51.5, -0.1], [48.85, 2.35], [0, 0], [0, 0], [89.9999, 10], [10, 180]]
    assert Earth().dist(true, reports).max() < 40
    assert LocalCertificate.load(certificate).reports["count"] == 6
    assert run("verify", certificate).exit_code == 0
    text = certificate.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5')
    certificate.write_text(text)
    assert run("verify", certificate).exit_code == 1
    again = run("perturb", places, *EARTH, "--epsilon-per-km", 1, "--out", out)
    assert again.exit_code == 0
    with out.open() as file:
        assert list(csv.reader(file))[1:] != rows


def test_json_and_npy(places, tmp_path):
    out = tmp_path / "reports.npy"
    result = run(
        *("perturb", places, *EARTH, "--epsilon-per-km", 2, "--json", "--out", out),
        *("--public-place", "51,0"),
    )
    told = json.loads(result.stdout)
    assert told["expected_displacement"] == pytest.approx(1.0, abs=1e-6)
    assert told["reports"] == 6
    reports = np.load(tmp_path / "reports.npy")
    assert float(Earth().dist([51, 0], reports[2])) < 20


def test_other_spaces(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    out = tmp_path / "r.csv"
    result = run(
        *(
            "perturb",
            tmp_path / "x.npy",
            "-m",
            "sphere:2",
            "--epsilon",
            20,
            "--out",
            out,
        )
    )
    assert result.exit_code == 0, result.stderr
    assert "radians" in result.stdout
    reports = np.loadtxt(out, delimiter=",", skiprows=1)
    assert np.allclose(np.linalg.norm(reports, axis=1), 1)


def test_pictures_show_public_places(places, tmp_path):
    for option, name in (("--map", "m.png"), ("--plot", "p.svg")):
        for epsilon in (1, 0.01, 0.001):
            result = run(
                *("perturb", places, *EARTH, "--epsilon-per-km", epsilon),
                *(option, tmp_path / name),
            )
            assert result.exit_code == 0, result.stderr
            assert (tmp_path / name).stat().st_size > 5000
            (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon-per-km", 1), "--as latlon-degrees"),
        (EARTH, "--epsilon-per-km"),
        ((*EARTH, "--epsilon-per-km", 1, "--epsilon", 1), "--epsilon"),
        ((*EARTH, "--epsilon-per-km", 0), "epsilon"),
        ((*EARTH, "--epsilon-per-km", 1, "-m", "sphere:2"), "--manifold"),
        (("--epsilon", 1), "--manifold"),
        (("--epsilon", 100, "-m", "sphere:383"), "75°"),
        (("--epsilon", 1, "-m", "stiefel:4,2"), "exact Laplace law"),
        ((*EARTH, "--epsilon-per-km", 1, "--public-place", "London"), "--public-place"),
        ((*EARTH, "--epsilon-per-km", 1, "--public-place", "91,0"), "latitude"),
        (("--epsilon", 9, "-m", "sphere:2", "--map", "m.png"), "--map"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_drawn(
    places, tmp_path, arguments, words
):
    out = tmp_path / "never.csv"
    result = run("perturb", places, *arguments, "--out", out)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not out.exists()


def test_the_records_are_not_overwritten(places):
    result = run("perturb", places, *EARTH, "--epsilon-per-km", 1, "--out", places)
    assert result.exit_code == 2
    assert places.read_text() == PLACES
