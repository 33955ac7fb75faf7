"""The ledger's file: one name, one owner, one journal."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys

import pytest

from curvedp.errors import CurvedpError, LedgerCorrupted
from curvedp.ledger import Ledger, store
from curvedp.privacy import GDP

SPEND = "import sys; from curvedp import GDP, Ledger; Ledger(sys.argv[1]).spend(GDP(0.9), 'x')"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ledger"


def _uses(ledger):
    return (lambda: ledger.spend(GDP(0.1), "x"), lambda: ledger.spent, lambda: ledger.entries, ledger.verify)


def test_a_hard_link_is_refused_under_both_names(path, tmp_path):
    ledger, other = Ledger(path, GDP(1.0)), tmp_path / "b.ledger"
    os.link(path, other)
    for use in (*_uses(ledger), lambda: Ledger(path), lambda: Ledger(other), lambda: Ledger(other, GDP(1.0))):
        with pytest.raises(LedgerCorrupted, match="another name"):
            use()
    other.unlink()
    assert ledger.spent is None


def test_a_file_mounted_by_itself_is_refused(path, tmp_path, monkeypatch):
    folder = tmp_path / "my data"
    folder.mkdir()
    ledger = Ledger(folder / "a.ledger", GDP(1.0))
    mounts = tmp_path / "mountinfo"
    place = str(folder).replace(" ", "\\040")
    for at, refused in ((place, False), (f"{place}/a.ledger", True)):
        mounts.write_text(f"22 28 0:21 / /sys rw,nosuid\n40 28 8:1 /x {at} rw - ext4 /dev/sda1 rw\n")
        monkeypatch.setattr(store, "_MOUNTS", mounts)
        if refused:
            with pytest.raises(LedgerCorrupted, match="mounted by itself"):
                ledger.spend(GDP(0.1), "x")
        else:
            ledger.spend(GDP(0.1), "x")


@pytest.mark.skipif(shutil.which("strace") is None, reason="kills at one system call, which takes strace")
def test_killed_at_the_journals_unlink_no_second_name_loses_an_entry(path, tmp_path):
    """Two names, one file: an entry acknowledged under the second was rolled back by the first and spent twice."""
    other = tmp_path / "b.ledger"
    Ledger(path, GDP(1.0))
    inject = [
        "-P",
        f"{path}-journal",
        "-e",
        "trace=unlink,unlinkat",
        "-e",
        "inject=unlink,unlinkat:error=EIO:signal=KILL",
    ]
    child = subprocess.run(
        ["strace", "-f", "-o", os.devnull, *inject, sys.executable, "-c", SPEND, str(path)], check=False
    )
    assert child.returncode != 0
    assert (tmp_path / "a.ledger-journal").exists(), "the kill did not fall where it should"
    os.link(path, other)
    with pytest.raises(LedgerCorrupted, match="another name"):
        Ledger(other).spend(GDP(0.9), "by the second name")
    other.unlink()
    ledger = Ledger(path)
    assert ledger.spent is None  # it was never acknowledged
    ledger.spend(GDP(0.9), "once")
    assert ledger.verify() == 1


def test_a_symbolic_link_leads_to_the_one_file(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    ledger = Ledger(link, GDP(1.0))  # dangling: the file is made where it points
    assert ledger.path == path
    assert path.exists()
    Ledger(path).spend(GDP(0.6), "by its name")
    assert ledger.spent == GDP(0.6)


def test_only_its_owner_can_read_it(path):
    before = os.umask(0)
    try:
        Ledger(path, GDP(1.0)).spend(GDP(0.1), "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_journal_without_its_ledger_is_no_fresh_start(path, tmp_path):
    (tmp_path / "a.ledger-journal").write_bytes(b"left behind")
    with pytest.raises(LedgerCorrupted, match="put them back together"):
        Ledger(path, GDP(1.0))
    assert not path.exists()


def test_a_maker_killed_between_its_two_names_leaves_a_ledger(path, tmp_path):
    Ledger(path, GDP(1.0))
    os.link(path, tmp_path / "a.ledger.0123456789abcdef.new")
    assert Ledger(path).spent is None
    assert [file.name for file in tmp_path.iterdir()] == ["a.ledger"]


def test_a_file_that_is_gone_is_not_made_anew(path):
    ledger = Ledger(path, GDP(1.0))
    path.unlink()
    for use in _uses(ledger):
        with pytest.raises(CurvedpError, match="cannot open"):
            use()
    assert not path.exists()


@pytest.mark.parametrize("column", ["number", "body", "hash"])
@pytest.mark.parametrize("value", [None, 7, 2.5, b"\xff\x00", "", "x"])
def test_damage_that_changes_a_type_is_damage(path, column, value):
    """Flipped bytes can turn any field into NULL, a number or a blob, whatever the schema says."""
    Ledger(path, GDP(1.0)).spend(GDP(0.5), "one")
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT number, body, hash FROM entries").fetchall()
        connection.execute("DROP TABLE entries")
        connection.execute("CREATE TABLE entries (number, body, hash)")
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        connection.execute(f"UPDATE entries SET {column} = ? WHERE number = 1", (value,))
    connection.close()
    with pytest.raises(LedgerCorrupted):
        Ledger(path)
