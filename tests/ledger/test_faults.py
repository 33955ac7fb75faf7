"""The ledger under injected faults: a reduced form of `python -m benchmarks.ledger_faults`."""

import json
import subprocess
import sys
from fractions import Fraction

import pytest

from curvedp.errors import CurvedpError, LedgerCorrupted, ParameterError
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, PureDP


@pytest.mark.slow
def test_no_fault_breaks_a_promise():
    """In a process of its own, which may fork: kills, races, full disks, damage, clock jumps."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.ledger_faults", "60", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(run.stdout)
    assert len(rows) == 11
    assert sum(injected for _, injected, _ in rows) >= 60


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"\0" * 4096])
def test_an_emptied_file_is_damage_and_no_fresh_start(tmp_path, content):
    path = tmp_path / "x"
    Ledger(path, GDP(1.0)).spend(GDP(1.0), "everything")
    path.write_bytes(content)
    for budget in (None, GDP(1.0)):
        with pytest.raises(LedgerCorrupted):
            Ledger(path, budget)


def test_a_lost_tail_is_noticed_and_a_rollback_by_its_head(tmp_path):
    path = tmp_path / "x"
    ledger = Ledger(path, PureDP(1.0))
    ledger.spend(PureDP(0.25), "one")
    older = path.read_bytes()
    ledger.spend(PureDP(0.25), "two")
    noted = ledger.head
    assert ledger.extends(noted)
    ledger.spend(PureDP(0.25), "three")
    assert ledger.extends(noted)
    path.write_bytes(older)
    assert Ledger(path).spent == PureDP(0.25)  # what the file alone cannot tell
    assert not Ledger(path).extends(noted)
    with pytest.raises(LedgerCorrupted, match="does not continue"):
        _ = ledger.spent  # an object that has seen more does tell


def test_nothing_is_left_beside_a_new_ledger(tmp_path):
    Ledger(tmp_path / "x", GDP(1.0)).spend(GDP(0.5), "one")
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("mu", [1e-300, 1e-160, 1e150])
def test_sums_of_squares_of_any_size_are_exact(tmp_path, mu):
    ledger = Ledger(tmp_path / "x", GDP(mu))
    ledger.spend(GDP(mu * 0.6), "one")
    assert Fraction(ledger.spent.mu) >= Fraction(mu * 0.6)
    assert ledger.spent.mu == pytest.approx(mu * 0.6, rel=1e-15)
    assert ledger.remaining.mu == pytest.approx(mu * 0.8, rel=1e-12)


def test_odd_paths_are_refused(tmp_path):
    for path in (tmp_path, "a\0b", 3.5, None):
        with pytest.raises((ParameterError, CurvedpError)):
            Ledger(path, GDP(1.0))


def test_an_entry_says_its_place(tmp_path):
    ledger = Ledger(tmp_path / "x", PureDP(1.0))
    assert [ledger.spend(PureDP(0.25), f"{k}").number for k in range(3)] == [1, 2, 3]
    assert [entry.number for entry in ledger.entries] == [1, 2, 3]
