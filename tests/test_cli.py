"""The command line: the main job from a shell, one-line errors, exit codes, JSON."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp.cli import app
from curvedp.geometry import Sphere

runner = CliRunner()


@pytest.fixture
def sphere_file(tmp_path):
    X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (200, 3)))
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", directions=X, other=np.zeros(3))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="x,y,z", comments="")
    return tmp_path


def run(*arguments):
    return runner.invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("name", ["x.npy", "x.csv", "x.npz", "x.parquet"])
def test_release_from_every_format(sphere_file, name):
    extra = {"x.npz": ["--key", "directions"], "x.csv": ["--header"]}.get(name, [])
    if name == "x.parquet":
        import pyarrow
        import pyarrow.parquet

        X = np.load(sphere_file / "x.npy")
        pyarrow.parquet.write_table(pyarrow.table({c: X[:, i] for i, c in enumerate("xyz")}), sphere_file / name)
    result = run("release", sphere_file / name, "-m", "sphere:2", "-r", 0.7, "--mu", 1, "--json", *extra)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert np.linalg.norm(answer["mean"]) == pytest.approx(1.0, abs=1e-8)
    assert answer["certificate"]["statistic"]["n"] == 200


def test_the_whole_round(sphere_file):
    paths = {name: sphere_file / name for name in ("c.json", "m.npy", "r.html", "b.ledger")}
    result = run(
        "release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.7, "--epsilon", 1, "--delta", 1e-6, "--ledger",
        paths["b.ledger"], "--budget-mu", 1.2, "--out", paths["m.npy"], "--certificate", paths["c.json"], "--report",
        paths["r.html"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output  # (1, 1e-6) has no μ; the mechanism that meets it has, and is charged
    result = run(
        "release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.7, "--mu", 0.6, "--ledger", paths["b.ledger"],
        "--out", paths["m.npy"], "--certificate", paths["c.json"], "--report", paths["r.html"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert np.load(paths["m.npy"]).shape == (3,)
    assert "<svg" in paths["r.html"].read_text()
    assert run("verify", paths["c.json"]).exit_code == 0
    shown = run("ledger", "show", paths["b.ledger"], "--json")
    charged = [entry["guarantee"]["mu"] for entry in json.loads(shown.stdout)["entries"]]
    assert charged[1] == 0.6
    assert 0.1 < charged[0] < 0.9
    assert run("ledger", "show", paths["b.ledger"]).exit_code == 0
    again = run(
        "release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.7, "--mu", 0.9, "--ledger", paths["b.ledger"]
    )
    assert again.exit_code == 2
    assert "remains" in again.output
    forged = json.loads(paths["c.json"].read_text())
    forged["claims"]["gdp"] *= 0.9
    paths["c.json"].write_text(json.dumps(forged))
    assert run("verify", paths["c.json"]).exit_code == 1


def test_calibrate():
    result = run("calibrate", "-m", "sphere:2", "--mu", 0.5, "--sensitivity", 0.1, "--json")
    scales = json.loads(result.stdout)["mechanisms"]
    assert scales["riemannian-gaussian"]["scale"] == pytest.approx(0.2, rel=0.05)
    assert run("calibrate", "-m", "lorentz:10", "--mu", 0.5, "--sensitivity", 1).exit_code == 0
    assert run("calibrate", "-m", "sphere:2", "--mu", 0.5, "-r", 0.5, "-n", 100).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["release", "missing.npy", "-m", "sphere:2", "-r", "0.5", "--mu", "1"],
        ["release", "X", "-m", "sfere:2", "-r", "0.5", "--mu", "1"],
        ["release", "X", "-m", "sphere:2", "-r", "nan", "--mu", "1"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "-1"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "1", "--epsilon", "1"],
        ["release", "X", "-m", "spd-affine:3", "-r", "0.5", "--mu", "1"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "1", "--out", "/nonexistent/folder/x.npy"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "1", "--ledger", "missing.ledger"],
        ["release", "X", "-m", "sphere:2", "-r", "0.5", "--mu", "1", "--mechanism", "magic"],
        ["calibrate", "-m", "sphere:2", "--mu", "1"],
        ["verify", "missing.json"],
        ["ledger", "show", "missing.ledger"],
    ],
)
def test_mistakes_are_one_line_and_exit_2(sphere_file, arguments):
    result = run(*[sphere_file / "x.npy" if a == "X" else a for a in arguments])
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1, result.output
    assert "Traceback" not in result.output


def bad_files(folder):
    """Files that cannot be records on Sphere(2), by their form."""
    X = np.load(folder / "x.npy")
    np.save(folder / "one.npy", X[:1])
    np.save(folder / "none.npy", X[:0])
    np.save(folder / "complex.npy", X + 0j)
    np.save(folder / "number.npy", 3.0)
    np.save(folder / "narrow.npy", X[:, :2])
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:200])
    (folder / "damaged.npz").write_bytes(b"PK\x03\x04nothing")
    (folder / "damaged.parquet").write_bytes(b"PAR1nothing")
    (folder / "header.csv").write_text("x,y,z\n")
    (folder / "x.txt").write_text("1,0,0\n")
    return ["one.npy", "none.npy", "complex.npy", "number.npy", "narrow.npy", "cut.npy", "damaged.npz",
            "damaged.parquet", "header.csv", "x.csv", "x.txt", "x.npz", "."]  # fmt: skip


def test_unusable_files_are_one_line_and_nothing_is_made(sphere_file):
    made = [
        "--ledger",
        sphere_file / "l",
        "--budget-mu",
        2,
        "--out",
        sphere_file / "m.npy",
        "--certificate",
        sphere_file / "c",
    ]
    for name in bad_files(sphere_file):
        result = run("release", sphere_file / name, "-m", "sphere:2", "-r", 0.5, "--mu", 1, *made)
        assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1), (name, result.output)
    center = sphere_file / "center.npy"
    np.save(center, np.array([2.0, 0, 0]))
    for more in (["--center", center], ["--mechanism", "magic"], ["--out", sphere_file]):
        result = run("release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.5, "--mu", 1, *made, *more)
        assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1), (more, result.output)
    for given in (["-m", "sphere:2"], ["-r", 0.5]):
        result = run("release", sphere_file / "x.npy", "--mu", 1, *given, *made)
        assert (result.exit_code, "is missing" in result.output) == (2, True), result.output
    assert not [name for name in ("l", "m.npy", "c") if (sphere_file / name).exists()]


def test_bad_records_are_mapped(sphere_file):
    X = np.load(sphere_file / "x.npy")
    X[:5] = [[np.nan] * 3, [np.inf, 0, 0], [5, 5, 5], [0, 0, 0], [-1, 0, 0]]
    np.save(sphere_file / "bad.npy", np.asfortranarray(X, dtype=np.float32))
    center = sphere_file / "center.csv"
    center.write_text("1,0,0\n")
    result = run("release", sphere_file / "bad.npy", "-m", "sphere:2", "-r", 0.5, "--mu", 1, "--center", center)
    assert result.exit_code == 0, result.output


def test_float_draws_are_never_plainly_verified(sphere_file):
    certificate = sphere_file / "c.json"
    kng = ["--mechanism", "kng", "--epsilon", 1, "--certificate", certificate]
    assert run("release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.5, *kng).exit_code == 0
    result = run("verify", certificate)
    assert result.exit_code == 3
    assert "sampler not" in result.output
    forged = json.loads(certificate.read_text())
    forged["parameters"]["scale"] *= 0.9
    certificate.write_text(json.dumps(forged))
    assert run("verify", certificate).exit_code == 1


def test_demo(tmp_path):
    result = run("demo", "--output", tmp_path / "demo", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout[result.stdout.index("{") :])
    assert summary["accuracy"]["private"] > summary["accuracy"]["non-private"] - 0.1
    assert (tmp_path / "demo" / "report.html").exists()
    assert "without paying" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert run("verify", tmp_path / "demo" / "certificate-3.json").exit_code == 0
    first = (tmp_path / "demo" / "digits.ledger").read_bytes()
    again = run("demo", "--output", tmp_path / "demo")
    assert again.exit_code == 0, again.output
    assert "without paying" in again.output, "comparisons that nobody paid for are called so"
    assert (tmp_path / "demo" / "digits.ledger").read_bytes() == first, "a ledger is never deleted nor reused"
    assert (tmp_path / "demo-2" / "digits.ledger").exists()
