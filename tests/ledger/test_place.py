"""Where a ledger may lie: no other user can set it back by a file beside it."""

import itertools
import os
import shutil
import sqlite3
import stat
import struct
import subprocess
import sys

import pytest

from curvedp.errors import CurvedpError, LedgerCorrupted, ParameterError
from curvedp.ledger import Ledger, store, write_key
from curvedp.privacy import GDP

NOBODY = 65534
SUFFIXES = ("-journal", "-wal", "-shm")

needs_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can act as another user"
)
needs_modes = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


@pytest.fixture
def path(tmp_path):
    """A ledger in a folder of its own, as `mkdir -m 700` makes it."""
    folder = tmp_path / "budget"
    folder.mkdir(mode=0o700)
    return folder / "study.ledger"


def _uses(path, ledger):
    """Everything that reads or writes the file."""
    return {
        "spend": lambda: ledger.spend(GDP(0.9), "again"),
        "spent": lambda: ledger.spent,
        "remaining": lambda: ledger.remaining,
        "entries": lambda: ledger.entries,
        "head": lambda: ledger.head,
        "unit": lambda: ledger.unit,
        "account": lambda: ledger.account,
        "verify": ledger.verify,
        "extends": lambda: ledger.extends("x"),
        "open": lambda: Ledger(path),
        "reopen": lambda: Ledger(path, GDP(1.0)),
    }


USES = (
    "spend",
    "spent",
    "remaining",
    "entries",
    "head",
    "unit",
    "account",
    "verify",
    "extends",
    "open",
    "reopen",
)


def _planted_journal(folder):
    """A journal that turns a ledger of the same budget into a fresh one.

    In SQLite's format (sqlite.org/fileformat.html, "The Rollback Journal"): a header of one
    sector, then every page with its number and checksum. Whoever writes it needs a fresh
    ledger of his own, and nothing of the one that he sets back.
    """
    fresh = folder / "fresh.ledger"
    Ledger(fresh, GDP(1.0))
    content = fresh.read_bytes()
    fresh.unlink()
    page_size, sector, nonce = int.from_bytes(content[16:18], "big"), 512, 1
    pages = [
        content[start : start + page_size]
        for start in range(0, len(content), page_size)
    ]
    magic = bytes.fromhex("d9d505f920a163d7")
    header = struct.pack(">5I", len(pages), nonce, len(pages), sector, page_size)
    journal = (magic + header).ljust(sector, b"\0")
    for number, page in enumerate(pages, 1):
        checksum = nonce + sum(page[k] for k in range(page_size - 200, 0, -200))
        journal += struct.pack(">I", number) + page + struct.pack(">I", checksum)
    return journal


def test_sqlite_itself_believes_a_planted_journal(path, tmp_path):
    """The attack works where nothing stops it: or the tests below test nothing."""
    Ledger(path, GDP(1.0)).spend(GDP(0.9), "once")
    planted = path.with_name(path.name + "-journal")
    planted.write_bytes(_planted_journal(tmp_path))
    connection = sqlite3.connect(path)
    count = connection.execute("SELECT count(*) FROM entries").fetchone()
    connection.close()
    assert count == (1,)  # the first line alone: the entry is gone


@needs_root
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_another_user_beside_it_is_refused(path, tmp_path, suffix, use):
    ledger = Ledger(path, GDP(1.0))
    ledger.spend(GDP(0.9), "once")
    planted = path.with_name(path.name + suffix)
    planted.write_bytes(_planted_journal(tmp_path))
    os.chown(planted, NOBODY, NOBODY)
    planted.chmod(0o644)
    with pytest.raises(LedgerCorrupted, match="is not a journal that"):
        _uses(path, ledger)[use]()
    planted.unlink()
    assert [entry.label for entry in Ledger(path).entries] == ["once"]


def _symbolic_link(target, planted):
    planted.symlink_to(target)


def _hard_link(target, planted):
    os.link(target, planted)


def _folder(target, planted):
    planted.mkdir()


def _pipe(target, planted):
    os.mkfifo(planted)


def _writable_by_others(target, planted):
    shutil.copy(target, planted)
    planted.chmod(0o606)


def _writable_by_the_group(target, planted):
    shutil.copy(target, planted)
    planted.chmod(0o660)


@needs_modes
@pytest.mark.parametrize(
    "plant",
    [
        _symbolic_link,
        _hard_link,
        _folder,
        _pipe,
        _writable_by_others,
        _writable_by_the_group,
    ],
)
def test_what_sqlite_does_not_make_is_no_journal(path, tmp_path, plant):
    ledger = Ledger(path, GDP(1.0))
    ledger.spend(GDP(0.9), "once")
    target = tmp_path / "target"
    target.write_bytes(_planted_journal(tmp_path))
    target.chmod(0o600)
    plant(target, path.with_name(path.name + "-journal"))
    for use in _uses(path, ledger).values():
        with pytest.raises(LedgerCorrupted, match="is not a journal that"):
            use()


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_ledger_has_no_log_beside_it_whoever_made_it(path, suffix):
    ledger = Ledger(path, GDP(1.0))
    path.with_name(path.name + suffix).write_bytes(b"")
    for use in _uses(path, ledger).values():
        with pytest.raises(LedgerCorrupted, match="is not a journal that"):
            use()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_left_beside_is_no_fresh_start(path, suffix, lazy):
    path.with_name(path.name + suffix).write_bytes(b"left behind")
    with pytest.raises(LedgerCorrupted, match="put them back together"):
        Ledger(path, GDP(1.0), lazy=lazy)
    assert not path.exists()


@needs_modes
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757, 0o703, 0o733])
def test_a_folder_that_others_can_write_is_refused(path, mode):
    ledger = Ledger(path, GDP(1.0))
    folder = path.parent
    folder.chmod(mode)
    for use in _uses(path, ledger).values():
        with pytest.raises(ParameterError, match="others can write to"):
            use()
    for lazy in (False, True):
        with pytest.raises(ParameterError, match="others can write to"):
            Ledger(folder / "other.ledger", GDP(1.0), lazy=lazy)
    folder.chmod(0o700)
    assert ledger.spent is None
    assert [file.name for file in folder.iterdir()] == ["study.ledger"]


@needs_modes
@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o711])
def test_a_folder_that_others_can_only_read_will_do(path, mode):
    path.parent.chmod(mode)
    Ledger(path, GDP(1.0)).spend(GDP(0.5), "once")
    assert Ledger(path).spent == GDP(0.5)


@needs_modes
@pytest.mark.parametrize(
    ("owner", "group", "members", "first_group_of_bob", "fits"),
    [
        (("alice", 7), ("alice", 7), [], 9, True),
        (("alice", 7), ("alice", 7), ["alice"], 9, True),
        (("alice", 7), ("alice", 7), ["alice", "bob"], 9, False),
        (("alice", 7), ("alice", 7), ["bob"], 9, False),
        (("alice", 7), ("alice", 7), [], 7, False),
        (("alice", 7), ("lab", 7), [], 9, False),
        (("alice", 7), ("alice", 8), [], 9, False),
        (None, ("alice", 7), [], 9, False),
        (("alice", 7), None, [], 9, False),
    ],
)
def test_a_group_may_write_only_if_it_is_the_owner(
    path, monkeypatch, owner, group, members, first_group_of_bob, fits
):
    """Many systems make a group for every user, and folders that it can write."""
    import grp
    import pwd
    from types import SimpleNamespace

    def user(_):
        if owner is None:
            raise KeyError("no such user")
        return SimpleNamespace(pw_name=owner[0], pw_gid=owner[1], pw_uid=1)

    def all_users():
        bob = SimpleNamespace(pw_name="bob", pw_gid=first_group_of_bob, pw_uid=2)
        return [user(None), bob]

    def its_group(_):
        if group is None:
            raise KeyError("no such group")
        return SimpleNamespace(gr_name=group[0], gr_gid=group[1], gr_mem=members)

    Ledger(path, GDP(1.0))
    monkeypatch.setattr(pwd, "getpwuid", user)
    monkeypatch.setattr(pwd, "getpwall", all_users)
    monkeypatch.setattr(grp, "getgrgid", its_group)
    path.parent.chmod(0o770)
    if fits:
        Ledger(path).spend(GDP(0.5), "once")
    else:
        with pytest.raises(ParameterError, match="others can write to"):
            Ledger(path)
    monkeypatch.setattr(os, "listxattr", lambda _: [store._ACCESS_LIST])
    with pytest.raises(ParameterError, match="others can write to"):
        Ledger(path)


@needs_root
def test_a_folder_of_somebody_else_is_refused_unless_the_ledger_is_theirs(path):
    Ledger(path, GDP(1.0))
    os.chown(path.parent, NOBODY, NOBODY)
    with pytest.raises(ParameterError, match="others can write to"):
        Ledger(path)
    os.chown(path, NOBODY, NOBODY)  # root looks after a user's ledger
    Ledger(path).spend(GDP(0.5), "once")


# Whatever is imported is imported before rights are given up: the interpreter may lie where
# nobody else can read.
AS_NOBODY = f"""
import grp, os, pwd, sys, tempfile
from curvedp.errors import CurvedpError
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
with tempfile.TemporaryDirectory() as folder:
    Ledger(folder + "/x", GDP(1.0)).spend(GDP(0.5), "x")
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
try:
    {{}}
except (CurvedpError, OSError) as error:
    print(type(error).__name__, error)
else:
    print("done")
"""


def _as_nobody(line, *arguments):
    """Run a line as a user who owns nothing here."""
    run = subprocess.run(
        [sys.executable, "-c", AS_NOBODY.format(line), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.strip() or run.stderr


@pytest.fixture
def reachable(tmp_path_factory):
    """A folder that every user can reach; pytest's own are private to root."""
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_another_user_cannot_set_it_back_from_outside(reachable, tmp_path):
    """As found: a shared folder with the sticky bit, a ledger that only root can read."""
    reachable.chmod(0o1777)
    with pytest.raises(ParameterError, match="others can write to"):
        Ledger(reachable / "study.ledger", GDP(1.0))
    folder = reachable / "budget"
    folder.mkdir(mode=0o755)
    path = folder / "study.ledger"
    ledger = Ledger(path, GDP(1.0))
    ledger.spend(GDP(0.9), "once")
    line = "open(sys.argv[1] + '-journal', 'wb').write(b'x')"
    assert "PermissionError" in _as_nobody(line, path)
    assert Ledger(path).spent == GDP(0.9)


@needs_root
def test_folders_and_files_that_cannot_be_written_spend_nothing(reachable):
    """As a user without rights: one clear error each, and the ledger as it was."""
    path = reachable / "study.ledger"
    Ledger(path, GDP(1.0)).spend(GDP(0.5), "once")
    spend = "Ledger(sys.argv[1]).spend(GDP(0.1), 'x')"
    assert "cannot open" in _as_nobody(spend, path)  # the file is root's
    os.chown(path, NOBODY, NOBODY)
    assert "cannot write" in _as_nobody(spend, path)  # no journal can be made
    assert "done" in _as_nobody("print(Ledger(sys.argv[1]).spent)", path)
    new = reachable / "new.ledger"
    assert "cannot make" in _as_nobody("Ledger(sys.argv[1], GDP(1.0))", new)
    lazy = "Ledger(sys.argv[1], GDP(1.0), lazy=True).spend(GDP(0.1), 'x')"
    assert "cannot make" in _as_nobody(lazy, new)
    assert [file.name for file in reachable.iterdir()] == ["study.ledger"]
    assert Ledger(path).spent == GDP(0.5)


# ---- keys


@needs_modes
def test_a_key_is_made_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        write_key(tmp_path / "key")
    finally:
        os.umask(before)
    mode = stat.S_IMODE((tmp_path / "key").stat().st_mode)
    assert mode == 0o600
    Ledger(tmp_path / "study.ledger", GDP(1.0), key=tmp_path / "key")
    for name in ("key", "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(ParameterError, match="never overwritten"):
            write_key(tmp_path / name)
    with pytest.raises(ParameterError, match="cannot make"):
        write_key(tmp_path / "missing" / "key")


MODES = [0o600 | bits for bits in (0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o044)]


@needs_modes
@pytest.mark.parametrize(("mode", "use"), [*itertools.product(MODES, USES)])
def test_a_key_that_others_may_use_is_refused_at_every_use(tmp_path, mode, use):
    path, key = tmp_path / "study.ledger", tmp_path / "key"
    write_key(key)
    ledger = Ledger(path, GDP(1.0), key=key)
    key.chmod(mode)
    uses = _uses(path, ledger)
    uses["open"] = lambda: Ledger(path, key=key)
    uses["reopen"] = lambda: Ledger(path, GDP(1.0), key=key)
    with pytest.raises(ParameterError, match="chmod 600"):
        uses[use]()
    key.chmod(0o400)
    assert ledger.spent is None


@needs_modes
def test_a_key_that_others_may_use_starts_no_ledger(tmp_path):
    key = tmp_path / "key"
    key.write_text(os.urandom(32).hex())
    key.chmod(0o644)
    for lazy in (False, True):
        with pytest.raises(CurvedpError, match="chmod 600"):
            Ledger(tmp_path / "study.ledger", GDP(1.0), key=key, lazy=lazy)
    assert not (tmp_path / "study.ledger").exists()
