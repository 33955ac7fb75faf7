"""`curvedp synthesize`: files that can be read again, certificates that repeat them, budgets, refusals."""

import json

import numpy as np
import pytest

from curvedp.core.certificate import Certificate
from curvedp.geometry import SPDAffineInvariant, Sphere
from curvedp.records import read_column, read_records
from support.shell import run

BALL = ("-m", "sphere:2", "-r", "1.5", "--mu", "1", "--model", "wrapped-gaussian")


def ledger_entries(path):
    from curvedp import Ledger

    return len(Ledger(path).entries)


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy"])
def test_a_file_of_every_kind_is_read_again(sphere_file, tmp_path, ending):
    out, again = tmp_path / f"synthetic.{ending}", tmp_path / f"again.{ending}"
    certificate = tmp_path / "c.json"
    result = run(
        *("synthesize", sphere_file / "x.npy", *BALL, "--n", 70, "--seed", 3),
        *("--out", out, "--certificate", certificate),
    )
    assert result.exit_code == 0, result.stderr
    assert "does not know of the noise" in result.stdout.replace("\n", " ")
    header = True if ending == "csv" else None
    points = read_records(out, Sphere(2), header=header)
    assert points.shape == (70, 3)
    assert np.max(Sphere(2).residual(points)) < 1e-9

    result = run("synthesize", certificate, "--n", 70, "--seed", 3, "--out", again)
    assert result.exit_code == 0, result.stderr
    assert again.read_bytes() == out.read_bytes()
    if ending == "csv":
        assert run("verify", certificate).exit_code == 0
    other = run("synthesize", certificate, "--n", 70, "--seed", 4, "--out", again)
    assert other.exit_code == 0
    assert again.read_bytes() != out.read_bytes()


def test_labels_a_predictor_and_a_form_come_back(tmp_path):
    rng = np.random.default_rng(0)
    path, out = tmp_path / "x.csv", tmp_path / "synthetic.csv"
    rows = np.column_stack([rng.normal(10, 5, 300), rng.normal(40, 5, 300)])
    lines = [
        f"{a:.3f},{b:.3f},{'north' if k % 2 else 'south'},{k % 60}"
        for k, (a, b) in enumerate(rows)
    ]
    path.write_text("lat,lon,side,age\n" + "\n".join(lines) + "\n")
    result = run(
        *("synthesize", path, "-m", "sphere:2", "-r", "private", "--mu", "2"),
        *("--as", "latlon-degrees", "--columns", "lat,lon", "--labels", "side"),
        *("--classes", "north,south", "--x", "age", "--x-range", "0,60"),
        *("--header", "--n", 50, "--out", out),
    )
    assert result.exit_code == 0, result.stderr
    header = out.read_text().splitlines()[0]
    assert header == "latitude_degrees,longitude_degrees,side,age"
    ages = np.asarray(read_column(out, "age", header=True), dtype=float)
    assert ages.shape == (50,)
    assert 0 <= ages.min() <= ages.max() <= 60
    assert set(read_column(out, "side", header=True)) <= {"north", "south"}


def test_tensors_are_written_as_a_volume(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    M = SPDAffineInvariant(3)
    rng = np.random.default_rng(1)
    X = np.asarray(M.from_normal_coordinates(M.origin, 0.2 * rng.normal(size=(300, 6))))
    np.save(tmp_path / "x.npy", X)
    out, mask = tmp_path / "synthetic.nii.gz", tmp_path / "mask.nii"
    result = run(
        *("synthesize", tmp_path / "x.npy", "-m", "spd-affine:3", "-r", "private"),
        *("--mu", "2", "--model", "wrapped-gaussian", "--n", 40, "--out", out),
    )
    assert result.exit_code == 0, result.stderr
    nibabel.save(
        nibabel.Nifti1Image(np.ones((40, 1, 1), dtype=np.uint8), np.eye(4)), mask
    )
    tensors = read_records(out, M, mask=mask, form="tensor6-lower")
    assert tensors.shape == (40, 3, 3)
    assert np.all(np.linalg.eigvalsh(tensors) > 0)


def test_a_release_is_charged_once_and_drawing_again_is_free(sphere_file, tmp_path):
    ledger, certificate = tmp_path / "study.ledger", tmp_path / "c.json"
    out, picture = tmp_path / "a.csv", tmp_path / "a.png"
    result = run(
        *("synthesize", sphere_file / "x.npy", *BALL, "--ledger", ledger),
        *("--budget-mu", 1.2, "--certificate", certificate, "--out", out),
        *("--plot", picture),
    )
    assert result.exit_code == 0, result.stderr
    assert ledger_entries(ledger) == 1
    assert picture.stat().st_size > 5000
    for seed in range(3):
        assert (
            run("synthesize", certificate, "--seed", seed, "--out", out).exit_code == 0
        )
    assert ledger_entries(ledger) == 1
    refused = run(
        *("synthesize", sphere_file / "x.npy", *BALL, "--ledger", ledger, "--out", out)
    )
    assert refused.exit_code != 0
    assert ledger_entries(ledger) == 1


def test_json_has_the_certificate(sphere_file, tmp_path):
    result = run(
        *("synthesize", sphere_file / "x.npy", *BALL, "--n", 5, "--json"),
        *("--out", tmp_path / "a.csv"),
    )
    told = json.loads(result.stdout)
    assert told["records"] == 5
    certificate = Certificate.from_json(json.dumps(told["certificate"]))
    assert certificate.manifold == "sphere:2"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "x.txt"), "must end in"),
        (("--out", "nowhere/x.csv"), "folder"),
        (("--out", "x.nii"), "tensors"),
        (("--n", 0, "--out", "a.csv"), "n"),
        (("--labels", "side", "--out", "a.npy"), "no place for labels"),
        (("--plot", "a.gif", "--out", "a.csv"), "plot"),
        (("--x-range", "1;2", "--out", "a.csv"), "comma"),
        ((), "would be lost"),
        (("--plot", "a.svg"), "would be lost"),
    ],
)
def test_mistakes_are_one_line_and_cost_nothing(
    sphere_file, tmp_path, arguments, words
):
    ledger = tmp_path / "study.ledger"
    paths = [
        tmp_path / text if isinstance(text, str) and "." in text else text
        for text in arguments
    ]
    result = run(
        *("synthesize", sphere_file / "x.npy", *BALL, "--ledger", ledger),
        *("--budget-mu", 2, *paths),
    )
    assert result.exit_code != 0
    assert words in result.stderr.replace("\n", " ")
    assert len(result.stderr.strip().splitlines()) <= 3
    assert not ledger.exists()


@pytest.mark.parametrize("output", ["out", "certificate", "plot"])
def test_what_was_paid_for_is_printed_where_it_cannot_be_written(
    sphere_file, tmp_path, monkeypatch, output
):
    def is_full(*_):
        raise OSError("no space left on device")

    writer = {"out": "write_points", "certificate": "write_atomically"}
    where = {"out": "curvedp.records.writing"}.get(output, "curvedp.cli.synthesize")
    monkeypatch.setattr(f"{where}.{writer.get(output, 'save_picture')}", is_full)
    files = {"out": "x.csv", "certificate": "c.json", "plot": "p.svg"}
    asked = {**dict.fromkeys(["certificate"], "c.json"), output: files[output]}
    result = run(
        *("synthesize", sphere_file / "x.npy", *BALL),
        *(part for name in asked for part in (f"--{name}", tmp_path / asked[name])),
    )
    assert result.exit_code != 0
    printed = Certificate.from_json(result.stdout[result.stdout.index("{") :])
    assert printed.mechanism == "wrapped-gaussian"


def test_a_closed_pipe_loses_no_release(sphere_file, tmp_path, monkeypatch):
    """The files are written before a printed line can fail."""
    from curvedp.cli import synthesize

    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(synthesize.console, "print", closed)
    certificate = tmp_path / "c.json"
    result = run(
        "synthesize", sphere_file / "x.npy", *BALL, "--certificate", certificate
    )
    assert result.exit_code != 0
    assert Certificate.from_json(certificate.read_text()).mechanism == BALL[-1]


def test_a_certificate_of_something_else_is_refused(sphere_file, tmp_path):
    certificate = tmp_path / "c.json"
    released = run(
        *("release", "mean", sphere_file / "x.npy", "-m", "sphere:2", "-r", "0.8"),
        *("--mu", "1", "--certificate", certificate),
    )
    assert released.exit_code == 0
    result = run("synthesize", certificate, "--out", tmp_path / "a.csv")
    assert result.exit_code != 0
    assert "synthetic population" in result.stderr.replace("\n", " ")
