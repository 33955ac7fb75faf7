"""`curvedp release`: what becomes of a release that cannot be written."""

import json

import numpy as np

from shell import run


def test_what_is_paid_for_is_not_lost_with_a_full_disk(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (40, 3)))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvedp.releasing.write_atomically", full)
    ball = ("-m", "sphere:2", "-r", 0.7, "--mu", 1, "--ledger", tmp_path / "l", "--budget-mu", 2)
    result = run("release", tmp_path / "x.npy", *ball, "--out", tmp_path / "o.npy")
    assert result.exit_code == 2
    told, line = result.stdout.strip(), result.stderr.strip()
    assert len(json.loads(told)["mean"]) == 3
    assert json.loads(told)["certificate"]["guarantee"]
    assert line.startswith("error: an output could not be written (No space left on device)")
