"""`curvedp release`: what becomes of a release that cannot be written, and what is said of one that may be of nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

from curvedp import PrivateFrechetMean, signing
from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.ledger import Ledger, write_key
from curvedp.privacy import GDP
from support.shell import run

# What can end the writing of an output after the ledger was charged, and what is said.
FAILURES = {
    "full disk": (OSError(28, "No space left on device"), "No space left on device"),
    "refusal": (ParameterError("no figure of this"), "no figure of this"),
    "any other": (RuntimeError("latex failed"), "RuntimeError: latex failed"),
    "memory": (MemoryError(), "MemoryError"),
    "Ctrl-C": (KeyboardInterrupt(), None),
}


@pytest.mark.parametrize("output", ["out", "certificate", "report"])
@pytest.mark.parametrize("failure", FAILURES)
def test_what_is_paid_for_is_not_lost(tmp_path, monkeypatch, output, failure):
    error, reason = FAILURES[failure]

    def fail(*_arguments, **_options):
        raise error

    writer = "releasing.write_atomically"
    if output == "report":
        writer = "report.write_report"
    monkeypatch.setattr(f"curvedp.{writer}", fail)
    records = np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (40, 3))
    np.save(tmp_path / "x.npy", records)
    folder = tmp_path / "ledger"
    folder.mkdir(mode=0o700)
    endings = {"out": "o.npy", "certificate": "c.json", "report": "r.html"}
    result = run(
        *("release", tmp_path / "x.npy", "-m", "sphere:2", "-r", 0.7, "--mu", 1),
        *("--ledger", folder / "l", "--budget-mu", 2),
        *(f"--{output}", tmp_path / endings[output]),
    )
    assert len(Ledger(folder / "l").entries) == 1
    told = json.loads(result.stdout.strip().splitlines()[0])
    assert len(told["mean"]) == 3
    assert told["certificate"]["guarantee"]
    if reason is not None:
        assert result.exit_code == 2
        line = f"error: an output could not be written ({reason}"
        assert result.stderr.strip().splitlines()[-1].startswith(line)


@pytest.fixture
def keyed(tmp_path):
    """The arguments of a release that is paid from a keyed ledger, and its key."""
    tmp_path.chmod(0o700)
    np.save(tmp_path / "x.npy", np.tile([1.0, 0.0, 0.0], (40, 1)))
    write_key(tmp_path / "key")
    write_key(tmp_path / "other key")
    ball = ("-m", "sphere:2", "-r", 0.7, "--mu", 1, "--ledger", tmp_path / "l")
    return ("release", tmp_path / "x.npy", *ball), tmp_path / "key"


def test_a_keyed_ledger_pays(keyed):
    """It is started with its key, and goes on with it."""
    arguments, key = keyed
    started = run(*arguments, "--budget-mu", 3, "--ledger-key", key)
    assert started.exit_code == 0, started.stderr
    assert run(*arguments, "--ledger-key", key).exit_code == 0
    ledger = Ledger(key.with_name("l"), key=key)
    assert ledger.verify() == 2


def test_a_keyed_ledger_pays_nobody_without_its_key(keyed):
    arguments, key = keyed
    book = Ledger(key.with_name("l"), GDP(3.0), key=key)
    missing = run(*arguments)
    assert missing.exit_code == 2
    line = " ".join(missing.stderr.split())
    assert line.startswith("error: --ledger-key is missing: this ledger has a key")
    for wrong in (key.with_name("other key"), key.with_name("none"), "x.npy"):
        assert run(*arguments, "--ledger-key", wrong).exit_code == 2
    overwriting = run(*arguments, "--ledger-key", key, "--certificate", key)
    assert overwriting.exit_code == 2
    assert book.entries == []
    without_ledger = run(*arguments[:-2], "--ledger-key", key)
    assert "goes with --ledger" in without_ledger.stderr


def test_a_report_does_not_overwrite_a_numbered_certificate(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    result = run(
        *("release", "mdm", tmp_path / "x.npy", "-m", "sphere:2", "-r", 0.7),
        *("--mu", 1, "--certificate", tmp_path / "c.json"),
        *("--report", tmp_path / "c-1.json"),
    )
    assert result.exit_code == 2
    assert "would be overwritten" in " ".join(result.stderr.split())


def test_a_file_that_was_misread_is_doubted_and_one_that_was_read_is_not(tmp_path):
    """Of the release alone: with decimal commas no record is read, and the mean is the public center and noise."""
    X = np.random.default_rng(0).normal([3.0, 1.0, 0], 0.3, (2000, 3))
    (tmp_path / "x.csv").write_text(
        "\n".join(";".join(f"{v:.4f}" for v in row) for row in X).replace(".", ",")
    )
    asked = (
        "release",
        tmp_path / "x.csv",
        "--no-header",
        "--sep",
        ";",
        "-m",
        "sphere:2",
        "-r",
        0.7,
        "--mu",
        3,
    )
    doubt = "the 95% region contains the public center"
    assert (
        sum(doubt in run(*asked).stderr for _ in range(3)) > 0
    )  # all three miss once in 8000 times
    assert doubt not in run(*asked, "--decimal", ",").stderr


@pytest.mark.parametrize(
    "wrong",
    [
        ("--mu", 9),  # more than the budget
        ("--mu", 1, "--mechanism", "nonsense"),
        ("--mu", 1, "--outer-radius", 3),
        ("--mu", 1, "--groups", 7),  # no such column
    ],
)
def test_a_refused_release_neither_leaves_nor_takes_a_ledger(
    tmp_path, monkeypatch, wrong
):
    """Another process makes the ledger, spends and has its certificate, at any moment."""
    X = np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (40, 3))
    np.save(tmp_path / "x.npy", X)
    path = tmp_path / "l"
    asked = ("release", tmp_path / "x.npy", "-m", "sphere:2", "-r", 0.7)
    paid = ("--ledger", path, "--budget-mu", 1)
    deleted, delete = [], Path.unlink

    def unlink(file, *args, **options):
        deleted.append(file)
        delete(file, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        assert run(*asked, *wrong, *paid).exit_code == 2
    assert not path.exists()
    assert path not in deleted  # between a look and a deletion another could have spent

    real = PrivateFrechetMean.fit

    def meanwhile(estimator, *args, **options):
        Ledger(path, GDP(1.0)).spend(GDP(0.9), "by another process")
        return real(estimator, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(PrivateFrechetMean, "fit", meanwhile)
        assert run(*asked, *wrong, *paid).exit_code == 2
    if not path.exists():  # it was refused before anything was fitted
        Ledger(path, GDP(1.0)).spend(GDP(0.9), "by another process")
        assert run(*asked, *wrong, *paid).exit_code == 2
    labels = [entry.label for entry in Ledger(path).entries]
    assert labels == ["by another process"]
    third = run(*asked, "--mu", 0.9, *paid)
    assert third.exit_code == 2
    assert "does not fit" in third.output


def test_a_ledger_that_protects_persons_refuses_records(tmp_path):
    X = np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (40, 3))
    rows = [f"{a},{b},{c},{k // 2}" for k, (a, b, c) in enumerate(X)]
    (tmp_path / "x.csv").write_text("x,y,z,who\n" + "\n".join(rows))
    asked = ("release", tmp_path / "x.csv", "-m", "sphere:2", "-r", 0.7, "--mu", 1)
    read = ("--header", "--columns", "x,y,z")
    paid = ("--ledger", tmp_path / "l")
    whose = ("--groups", "who")
    first = run(*asked, *read, *whose, *paid, "--budget-mu", 2)
    assert first.exit_code == 0, first.output
    second = run(*asked, *read, *paid)
    assert second.exit_code == 2
    assert "do not add up" in second.output
    (entry,) = Ledger(tmp_path / "l").entries
    assert (entry.unit, entry.n, entry.space) == ("person", 20, "sphere:2")


@pytest.mark.parametrize("output", ["out", "certificate", "report"])
def test_no_output_overwrites_a_ledger_or_a_key(tmp_path, output):
    """Whatever they are called: they are known by their content."""
    tmp_path.chmod(0o700)
    np.save(tmp_path / "x.npy", np.tile([1.0, 0.0, 0.0], (40, 1)))
    name = {"out": "o.npy", "certificate": "c.json", "report": "r.html"}[output]
    Ledger(tmp_path / name, GDP(1.0)).spend(GDP(0.5), "spent")
    (tmp_path / "keys").mkdir()
    signing.write_key(tmp_path / "keys" / name, signing.new_identity())
    for target in (tmp_path / name, tmp_path / "keys" / name):
        content = target.read_bytes()
        ball = ("-m", "sphere:2", "-r", 0.7, "--mu", 1)
        result = run("release", tmp_path / "x.npy", *ball, f"--{output}", target)
        assert result.exit_code == 2
        assert "never overwritten" in " ".join(result.stderr.split())
        assert target.read_bytes() == content


def test_an_entry_says_what_it_is_and_who_made_it(tmp_path):
    np.save(tmp_path / "x.npy", Sphere(2).project(np.eye(3)[[0] * 60] + 0.1))
    path = tmp_path / "study.ledger"
    command = ["release", tmp_path / "x.npy", "-m", "sphere:2", "-r", 0.7, "--mu", 0.3]
    command += [
        "--ledger",
        path,
        "--budget-mu",
        2,
        "--as-user",
        "Jo\x1b[8m " + "x" * 99,
    ]
    for label in (["--label", "long " * 99], []):
        result = run(*command, *label)
        assert result.exit_code == 0, result.output
    for entry in Ledger(path).entries:
        assert ", by Jo?[8m x" in entry.label
        assert entry.label.isprintable()
        assert len(entry.label) <= 200


def test_reduced_class_means_need_no_ball_and_others_do(tmp_path):
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(300, 4, 30))
    np.savez(tmp_path / "x.npz", X=signals @ signals.mT / 30, y=np.arange(300) % 2)
    typed = ["release", "mdm", tmp_path / "x.npz", "--key", "X", "--labels", "y"]
    typed += ["-m", "spd-affine:4", "--mu", 1]
    assert run(*typed, "--reduce", 2).exit_code == 0
    refused = run(*typed)
    assert refused.exit_code == 2
    assert "--radius is missing" in refused.output
