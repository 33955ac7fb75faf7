"""The ledger's file: one SQLite table of entries, chained by hashes, written in exclusive durable transactions.

A rollback journal, not a write-ahead log: an entry that was acknowledged is in the one file; `synchronous=EXTRA` makes that
true across a power cut too. The journal is found by the file's name, so a file with two names is refused: after a crash under
one name, the other would go on without the journal. A new ledger is made aside and linked into place, so that a file at its
path is never half made: an empty one is damage, not a fresh start. Nobody but its owner can read it.
"""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from curvedp.errors import CurvedpError, LedgerCorrupted, ParameterError

Row = tuple[int, dict[str, Any], str]

_SCHEMA = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT
"""
_KEY_BYTES = 32
_LONGEST_KEY = 1 << 14  # bytes
_IS_POSIX = os.name == "posix"  # elsewhere modes and owners say nothing
_BESIDE = ("-journal", "-wal", "-shm")  # files that SQLite looks for beside its own
_ACCESS_LIST = (
    "system.posix_acl_access"  # extended attribute of a file with such a list
)
# what a line that is not one of ours leads to, although its hash is right: whoever can write the file can take hashes anew
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_MOUNTS = Path("/proc/self/mountinfo")


def write_key(path: str | os.PathLike[str]) -> None:
    """Make a new key for ledgers, in a file that only its owner may read.

    Parameters
    ----------
    path : path
        Where to; a file that exists is never overwritten.

    Raises
    ------
    ParameterError
        Where there is a file already, or none can be made.

    Examples
    --------
    >>> import os, tempfile
    >>> from curvedp.ledger import Ledger, write_key
    >>> from curvedp.privacy import GDP
    >>> folder = tempfile.mkdtemp()
    >>> write_key(os.path.join(folder, "study.key"))
    >>> ledger = Ledger(
    ...     os.path.join(folder, "study.ledger"),
    ...     GDP(1.0),
    ...     key=os.path.join(folder, "study.key"),
    ... )
    """
    text = secrets.token_hex(_KEY_BYTES) + "\n"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise ParameterError(f"{path} exists; a key is never overwritten") from None
    except OSError as error:
        raise ParameterError(f"cannot make the ledger's key: {error}") from None


def read_key(path: Path | None) -> bytes | None:
    """Return the key in a file, without white space around it.

    Refused are a key of less than 32 bytes, and one that others than its owner may read:
    whoever has it can rewrite the ledger unnoticed.
    """
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_LONGEST_KEY + 1).strip()
    except OSError as error:
        raise ParameterError(f"cannot read the ledger's key: {error}") from None
    if _IS_POSIX and mode & 0o077:
        raise ParameterError(
            f"others may use the ledger's key {path}; chmod 600 {path}"
        )
    if not _KEY_BYTES <= len(key) <= _LONGEST_KEY:
        raise ParameterError(
            f"the key in {path} has {len(key)} bytes; it needs at least {_KEY_BYTES} "
            f"random ones, and has at most {_LONGEST_KEY}"
        )
    return key


def create(path: Path, first: dict[str, Any], key: bytes | None) -> None:
    """A ledger with its first line and no entries, made under another name and linked into place in one step."""
    check_place(path)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with transaction(fresh) as connection:
            connection.execute(_SCHEMA)
            append(connection, first, key)
        with suppress(
            FileExistsError
        ):  # another process was faster: its ledger is the one
            os.link(fresh, path)
    except OSError as error:
        raise CurvedpError(f"cannot make the ledger {path}: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a place where another user could set the ledger back.

    SQLite undoes an interrupted transaction by copying the pages of the file `-journal` beside
    the ledger into it. So whoever can create files in the folder could plant a journal with
    the pages of an emptier ledger, and the next owner's process would write them. Hence
    nobody else may write to the folder, and a file beside the ledger that SQLite would read
    must be one that the ledger's owner, root or this process has made.

    Raises
    ------
    ParameterError
        For a folder that others may write or own.
    LedgerCorrupted
        For a file beside the ledger that is not its journal, or a journal without a ledger.
    """
    try:
        ledger = path.stat() if path.exists() else None
        _check_folder(path.parent, ledger)
        for suffix in _BESIDE:
            _check_beside(path, path.with_name(path.name + suffix), ledger)
    except OSError as error:
        raise CurvedpError(
            f"cannot open the ledger {path}: {error}. Nothing was spent"
        ) from error


def _check_folder(folder: Path, ledger: os.stat_result | None) -> None:
    """Refuse a folder in which somebody else than the ledger's owner can make files."""
    if not _IS_POSIX:
        return
    info = folder.stat()
    others_write = bool(info.st_mode & stat.S_IWOTH)
    group_writes = bool(info.st_mode & stat.S_IWGRP) and not _is_private_group(
        folder, info
    )
    is_foreign = info.st_uid not in _trusted_owners(ledger)
    if others_write or group_writes or is_foreign:
        remedy = f", or chmod go-w {folder}"
        if is_foreign:
            remedy = f"; this one is user {info.st_uid}'s"
        raise ParameterError(
            f"others can write to {folder}: they could set the ledger back. Keep it in a "
            f"folder of its own (mkdir -m 700){remedy}. Nothing was spent"
        )


def _check_beside(path: Path, beside: Path, ledger: os.stat_result | None) -> None:
    """Refuse a file beside the ledger that SQLite would read and the ledger did not make."""
    try:
        info = beside.lstat()
    except FileNotFoundError:
        return
    if ledger is None:
        raise LedgerCorrupted(
            f"{beside.name} is left over from a ledger that was moved or deleted; put them "
            "back together"
        )
    is_own = (
        beside.name.endswith("-journal")  # a ledger has no other file beside it
        and stat.S_ISREG(info.st_mode)
        and info.st_nlink == 1
    )
    if _IS_POSIX:
        writers = stat.S_IWGRP | stat.S_IWOTH
        more_writers = info.st_mode & ~ledger.st_mode & writers
        is_own = is_own and not more_writers
        is_own = is_own and info.st_uid in _trusted_owners(ledger)
    if not is_own:
        raise LedgerCorrupted(
            f"{beside} is not a journal that {path.name} made; it could set the ledger back. "
            "Find out who put it there. Nothing was spent"
        )


def _trusted_owners(ledger: os.stat_result | None) -> set[int]:
    """Users who can change the ledger anyway: this process's, root, and its owner."""
    owners = {os.geteuid(), 0}
    if ledger is not None:
        owners.add(ledger.st_uid)
    return owners


def _is_private_group(folder: Path, info: os.stat_result) -> bool:
    """Whether the folder's group is its owner alone, as many systems make one per user.

    With an access control list the group's bits are the list's mask, and say nothing.
    """
    import grp
    import pwd

    try:
        owner = pwd.getpwuid(info.st_uid)
        group = grp.getgrgid(info.st_gid)
    except KeyError:
        return False
    if sys.platform == "linux" and _ACCESS_LIST in os.listxattr(folder):
        return False
    is_own_group = owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name
    return is_own_group and set(group.gr_mem) <= {owner.pw_name}


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """One exclusive, durable transaction on a connection of its own: nothing is shared with a fork or a thread."""
    check_place(path)
    try:  # mode=rw: a file that is gone is not made anew
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, timeout=120, isolation_level=None
        )
    except sqlite3.Error as error:
        raise CurvedpError(
            f"cannot open the ledger {path}: {error}. Nothing was spent"
        ) from error
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("BEGIN IMMEDIATE")
        _check_name(path)
        yield connection
        connection.execute("COMMIT")
    except (
        sqlite3.OperationalError
    ) as error:  # locked, full disk, read-only: the transaction rolls back
        raise CurvedpError(
            f"cannot write the ledger {path}: {error}. Nothing was spent"
        ) from error
    except OSError as error:  # the file went away meanwhile
        raise CurvedpError(
            f"cannot open the ledger {path}: {error}. Nothing was spent"
        ) from error
    except CurvedpError:
        raise
    except (sqlite3.DatabaseError, *_DAMAGE) as error:
        raise LedgerCorrupted(f"{path} is not a readable ledger: {error}") from error
    finally:
        connection.close()  # rolls back what was not committed


def read(
    connection: sqlite3.Connection, since: int, previous: str, key: bytes | None
) -> list[Row]:
    """The lines from number `since` on, after checking that numbers are consecutive and each hash covers all before it."""
    _check_table(connection)
    if since == 0:
        _check_keyed(connection, key)
    rows: list[Row] = []
    stored = connection.execute(
        "SELECT number, body, hash FROM entries WHERE number >= ? ORDER BY number",
        (since,),
    )
    for expected, (number, text, digest) in enumerate(stored, since):
        if number != expected or digest != _chain(
            previous, number, text, key
        ):  # damage can leave any type here
            what = (
                "the ledger or its key"
                if expected == 0 and key is not None
                else f"entry {expected} of the ledger"
            )
            raise LedgerCorrupted(
                f"{what} was changed or removed; what was spent is unknown"
            )
        rows.append((number, json.loads(text), digest))
        previous = digest
    if since + len(rows) != connection.execute("PRAGMA user_version").fetchone()[
        0
    ] or not since + len(rows):
        raise LedgerCorrupted(
            "the last entries of the ledger are gone; what was spent is unknown"
        )
    return rows


def hash_of(connection: sqlite3.Connection, number: int) -> str | None:
    """The hash of one line; None where there is no such line."""
    _check_table(connection)
    found = connection.execute(
        "SELECT hash FROM entries WHERE number = ?", (number,)
    ).fetchone()
    return None if found is None else str(found[0])


def append(
    connection: sqlite3.Connection, body: dict[str, Any], key: bytes | None
) -> tuple[int, str]:
    """Write one more line; its number and hash."""
    last = connection.execute(
        "SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1"
    ).fetchone()
    number, previous = (last[0] + 1, last[1]) if last else (0, "")
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = _chain(previous, number, text, key)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, digest))
    connection.execute(
        f"PRAGMA user_version={number + 1}"
    )  # in the file's header: a lost last page is noticed too
    return number, digest


def _chain(previous: str, number: int, body: str, key: bytes | None) -> str:
    text = f"{previous}\n{number}\n{body}".encode()
    return (
        hashlib.sha256(text).hexdigest()
        if key is None
        else hmac.new(key, text, "sha256").hexdigest()
    )


def _check_table(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT name FROM sqlite_master").fetchall() != [
        ("entries",)
    ]:
        raise LedgerCorrupted(
            "the file has lost its entries; what was spent is unknown"
        )


def _check_keyed(connection: sqlite3.Connection, key: bytes | None) -> None:
    """Whether a key was given where one is needed, said before a wrong hash says it less clearly."""
    found = connection.execute("SELECT body FROM entries WHERE number = 0").fetchone()
    if found is None:
        return
    is_keyed = json.loads(found[0]).get("keyed") is True
    if is_keyed and key is None:
        raise ParameterError(
            "is missing: this ledger has a key; give the path of the key's file",
            parameter="key",
        )
    if not is_keyed and key is not None:
        raise ParameterError(
            "this ledger was started without a key; open it without one, or start another"
        )


def _check_name(path: Path) -> None:
    """Refuse a file with a second name. The one that a killed `create` leaves behind is taken away."""
    if path.stat().st_nlink == 2:
        for other in path.parent.iterdir():
            if (
                other.name.startswith(f"{path.name}.")
                and other.name.endswith(".new")
                and other.samefile(path)
            ):
                other.unlink(missing_ok=True)
    if path.stat().st_nlink != 1 or _mounted(path):
        raise LedgerCorrupted(
            f"{path} has another name (a hard link, or it is mounted by itself): after a crash the two would disagree. "
            "Share its folder instead. Nothing was spent"
        )


def _mounted(path: Path) -> bool:
    """Whether the file itself is a mount point (Linux tells)."""
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(
        line.split(" ", 5)[4].replace("\\040", " ") == str(path)
        for line in lines
        if line.count(" ") > 4
    )
