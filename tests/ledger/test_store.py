"""The ledger's file: one name, one owner, one journal."""

import hashlib
import json
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys

import pytest

from curvedp.errors import CurvedpError, LedgerCorrupted, ParameterError
from curvedp.ledger import Ledger, store
from curvedp.privacy import GDP, ApproxDP, PureDP

SPEND = "import sys; from curvedp import GDP, Ledger; Ledger(sys.argv[1]).spend(GDP(0.9), 'x')"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ledger"


def _uses(ledger):
    return (
        lambda: ledger.spend(GDP(0.1), "x"),
        lambda: ledger.spent,
        lambda: ledger.entries,
        ledger.verify,
    )


def test_a_hard_link_is_refused_under_both_names(path, tmp_path):
    ledger, other = Ledger(path, GDP(1.0)), tmp_path / "b.ledger"
    os.link(path, other)
    for use in (
        *_uses(ledger),
        lambda: Ledger(path),
        lambda: Ledger(other),
        lambda: Ledger(other, GDP(1.0)),
    ):
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
        mounts.write_text(
            f"22 28 0:21 / /sys rw,nosuid\n40 28 8:1 /x {at} rw - ext4 /dev/sda1 rw\n"
        )
        monkeypatch.setattr(store, "_MOUNTS", mounts)
        if refused:
            with pytest.raises(LedgerCorrupted, match="mounted by itself"):
                ledger.spend(GDP(0.1), "x")
        else:
            ledger.spend(GDP(0.1), "x")


@pytest.mark.skipif(
    shutil.which("strace") is None,
    reason="kills at one system call, which takes strace",
)
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
        [
            "strace",
            "-f",
            "-o",
            os.devnull,
            *inject,
            sys.executable,
            "-c",
            SPEND,
            str(path),
        ],
        check=False,
    )
    assert child.returncode != 0
    assert (tmp_path / "a.ledger-journal").exists(), (
        "the kill did not fall where it should"
    )
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
        connection.execute(
            f"UPDATE entries SET {column} = ? WHERE number = 1", (value,)
        )
    connection.close()
    with pytest.raises(LedgerCorrupted):
        Ledger(path)


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE entries SET body = replace(body, '0.5', '0.1') WHERE number = 1",
        "DELETE FROM entries WHERE number = 1",
        "UPDATE entries SET number = 9 WHERE number = 2",
        "UPDATE entries SET hash = 'x' WHERE number = 2",
        "DELETE FROM entries WHERE number = 0",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries",
    ],
)
def test_tampering_is_detected_and_nothing_is_spent(path, tamper):
    ledger = Ledger(path, GDP(2.0))
    ledger.spend(GDP(0.5), "one")
    ledger.spend(GDP(0.5), "two")
    with sqlite3.connect(path) as connection:
        connection.execute(tamper)
    connection.close()
    for use in (
        lambda: ledger.entries,
        ledger.verify,
        lambda: ledger.extends("x"),
        lambda: Ledger(path),
    ):
        with pytest.raises(LedgerCorrupted):
            use()


@pytest.mark.parametrize("tamper", ["hash = 'x'", "body = replace(body, '0.5', '0.1')"])
def test_a_live_ledger_checks_what_came_since(path, tamper):
    """What it has seen it has added up; what others wrote since is checked before it is believed."""
    ledger = Ledger(path, GDP(2.0))
    ledger.spend(GDP(0.5), "one")
    assert ledger.spent == GDP(0.5)
    Ledger(path).spend(GDP(0.5), "two, by another")
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE entries SET {tamper} WHERE number = 2")
    connection.close()
    for use in (
        lambda: ledger.spend(GDP(0.1), "three"),
        lambda: ledger.spent,
        lambda: ledger.remaining,
    ):
        with pytest.raises(LedgerCorrupted, match="entry 2"):
            use()


def test_a_file_that_is_no_ledger(path):
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(LedgerCorrupted):
        Ledger(path, GDP(1.0))


def test_a_ledger_of_version_0_1_opens_and_goes_on(path):
    bodies = [{"budget": PureDP(1.0).to_dict()}]
    for label, group in (
        ("one", None),
        ("a\x1b[8m", "a"),
        ("b", "b"),
        ("a again", "a"),
    ):
        partition = None if group is None else "wards"
        guarantee = PureDP(0.125).to_dict()
        bodies.append(
            {
                "label": label,
                "guarantee": guarantee,
                "partition": partition,
                "group": group,
                "time": "",
            }
        )
    connection, previous = sqlite3.connect(path), ""
    connection.execute(
        "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL) STRICT"
    )
    for number, body in enumerate(bodies):
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(f"{previous}\n{number}\n{text}".encode()).hexdigest()
        connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?)", (number, text, previous)
        )
    connection.execute(f"PRAGMA user_version={len(bodies)}")
    connection.commit()
    connection.close()
    ledger = Ledger(path)
    assert ledger.spent == PureDP(0.375)
    assert "\x1b" not in ledger.entries[1].label
    ledger.spend(PureDP(0.125), "b again", partition="wards", group="b")
    assert ledger.spent == PureDP(0.375)
    ledger.spend(PureDP(0.625), "the rest")
    assert Ledger(path).remaining is None
    assert ledger.verify() == 6


def test_a_newer_format_is_named(path):
    Ledger(path, GDP(1.0))
    with sqlite3.connect(path) as connection:
        body = (
            connection.execute("SELECT body FROM entries")
            .fetchone()[0]
            .replace('"format":3', '"format":4')
        )
        digest = hashlib.sha256(f"\n0\n{body}".encode()).hexdigest()
        connection.execute("UPDATE entries SET body = ?, hash = ?", (body, digest))
    connection.close()
    with pytest.raises(ParameterError, match="format 4"):
        Ledger(path)


def _rewrite(path, change):
    """Somebody who can write the file: change the bodies, recompute every hash, keep the count."""
    with sqlite3.connect(path) as connection:
        bodies = [
            json.loads(body)
            for (body,) in connection.execute(
                "SELECT body FROM entries ORDER BY number"
            )
        ]
        bodies, previous = change(bodies), ""
        connection.execute("DELETE FROM entries")
        for number, body in enumerate(bodies):
            text = json.dumps(body, sort_keys=True, separators=(",", ":"))
            previous = hashlib.sha256(
                f"{previous}\n{number}\n{text}".encode()
            ).hexdigest()
            connection.execute(
                "INSERT INTO entries VALUES (?, ?, ?)", (number, text, previous)
            )
        connection.execute(f"PRAGMA user_version={len(bodies)}")
    connection.close()


def _without_the_second(bodies):
    return bodies[:2] + bodies[3:]


def _cheaper(bodies):
    bodies[2]["guarantee"]["eps"] = 0.001
    return bodies


@pytest.mark.parametrize(
    "change", [_without_the_second, _cheaper, lambda bodies: bodies[:2]]
)
def test_whoever_can_write_the_file_is_caught_by_a_key_or_a_witness(
    path, tmp_path, change
):
    key = tmp_path / "key"
    key.write_bytes(b"\n" + os.urandom(32).hex().encode() + b"\n")
    key.chmod(0o600)
    for number, name in enumerate((None, key)):
        file = tmp_path / f"{number}.ledger"
        ledger = Ledger(file, PureDP(1.0), key=name)
        entries = [ledger.spend(PureDP(0.25), f"{k}") for k in range(3)]
        assert ledger.verify(*(entry.hash for entry in entries)) == 3
        _rewrite(file, change)
        if name is not None:
            with pytest.raises(LedgerCorrupted):
                Ledger(file, key=key)
        else:
            reopened = Ledger(file)  # the file alone cannot tell
            assert not reopened.extends(entries[-1].hash)
            with pytest.raises(LedgerCorrupted):
                reopened.verify(*(entry.hash for entry in entries))
        with pytest.raises(LedgerCorrupted, match="does not continue"):
            ledger.spend(PureDP(0.125), "by one who has seen it")


def test_a_total_that_is_not_the_sum_is_found(path):
    ledger = Ledger(path, PureDP(1.0))
    ledger.spend(PureDP(0.25), "one")
    ledger.spend(PureDP(0.25), "two")

    def less(bodies):
        bodies[2]["total"] = ["1/4"]
        return bodies

    _rewrite(path, less)
    with pytest.raises(LedgerCorrupted, match="add up"):
        Ledger(path).verify()


def test_an_account_larger_than_what_was_left_is_found(path):
    Ledger(path, ApproxDP(1.0, 1e-6)).spend(GDP(0.01), "one")

    def larger(bodies):
        bodies[1]["opens"]["mu"] *= 1.01
        return bodies

    _rewrite(path, larger)
    with pytest.raises(LedgerCorrupted, match="more than the ledger had left"):
        Ledger(path).verify()


ODD = (None, -1, "x", [], {"type": "GDP"}, ["1", "2", "3"])


def test_lines_that_are_none_of_ours_are_damage_whatever_their_hashes(path):
    """Every field of every kind of line, odd or missing, and bodies that are none: an answer or one clear error, never a
    Python one."""
    ledger = Ledger(path, ApproxDP(3.0, 1e-3))
    ledger.spend(ApproxDP(0.1, 1e-5), "in a group", partition="p", group="g")
    ledger.spend(GDP(0.2), "opens an account")
    whole, refused = path.read_bytes(), 0
    with sqlite3.connect(path) as connection:
        fields = [
            list(json.loads(body))
            for (body,) in connection.execute(
                "SELECT body FROM entries ORDER BY number"
            )
        ]
    connection.close()
    for number, names in enumerate(fields):
        strange = [
            {name: odd}
            for turn, name in enumerate(names)
            for odd in (*ODD[(turn + number) % 3 :: 3], "gone")
        ]
        for made in (*strange, None, [], 1, "x"):
            path.write_bytes(whole)

            def change(bodies, number=number, made=made):
                body = made
                if isinstance(made, dict):
                    body = {
                        name: odd
                        for name, odd in {**bodies[number], **made}.items()
                        if odd != "gone"
                    }
                return [*bodies[:number], body, *bodies[number + 1 :]]

            _rewrite(path, change)
            try:
                opened = Ledger(path)
                _ = opened.spent, opened.remaining, opened.entries, opened.verify()
            except CurvedpError:
                refused += 1
    assert refused > 40  # times, names and ids are words


def test_keys_are_asked_for_and_checked(path, tmp_path):
    good, other, short = (tmp_path / name for name in ("good", "other", "short"))
    for file, size in ((good, 32), (other, 32), (short, 8)):
        file.write_bytes(os.urandom(size).hex().encode())
        file.chmod(0o600)
    with pytest.raises(ParameterError, match="16 bytes"):
        Ledger(path, GDP(1.0), key=short)
    with pytest.raises(ParameterError, match="cannot read"):
        Ledger(path, GDP(1.0), key=tmp_path / "missing")
    assert not path.exists()
    ledger = Ledger(path, GDP(1.0), key=good)
    ledger.spend(GDP(0.5), "one")
    assert pickle.loads(pickle.dumps(ledger)).spent == GDP(0.5)
    with pytest.raises(ParameterError, match="has a key"):
        Ledger(path)
    with pytest.raises(LedgerCorrupted, match="key"):
        Ledger(path, key=other)
    plain = tmp_path / "plain.ledger"
    Ledger(plain, GDP(1.0))
    with pytest.raises(ParameterError, match="without a key"):
        Ledger(plain, key=good)
