"""`curvedp release`: what becomes of a release that cannot be written, and what is said of one that may be of nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

from curvedp import PrivateFrechetMean
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
from support.shell import run


def test_what_is_paid_for_is_not_lost_with_a_full_disk(tmp_path, monkeypatch):
    np.save(
        tmp_path / "x.npy", np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (40, 3))
    )

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvedp.releasing.write_atomically", full)
    ball = (
        "-m",
        "sphere:2",
        "-r",
        0.7,
        "--mu",
        1,
        "--ledger",
        tmp_path / "l",
        "--budget-mu",
        2,
    )
    result = run("release", tmp_path / "x.npy", *ball, "--out", tmp_path / "o.npy")
    assert result.exit_code == 2
    told, line = result.stdout.strip(), result.stderr.strip()
    assert len(json.loads(told)["mean"]) == 3
    assert json.loads(told)["certificate"]["guarantee"]
    assert line.startswith(
        "error: an output could not be written (No space left on device)"
    )


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
    doubt = "the 95% region holds the public center"
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
