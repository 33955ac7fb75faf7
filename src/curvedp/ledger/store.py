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
# what a line that is not one of ours leads to, although its hash is right: whoever can write the file can take hashes anew
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_MOUNTS = Path("/proc/self/mountinfo")


def read_key(path: Path | None) -> bytes | None:
    """The key in a file, without white space around it; at least 32 bytes."""
    if path is None:
        return None
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ParameterError(f"cannot read the ledger's key: {error}") from None
    if len(key) < _KEY_BYTES:
        raise ParameterError(
            f"the key in {path} has {len(key)} bytes; it needs at least {_KEY_BYTES} random ones"
        )
    return key


def create(path: Path, first: dict[str, Any], key: bytes | None) -> None:
    """A ledger with its first line and no entries, made under another name and linked into place in one step."""
    if path.with_name(f"{path.name}-journal").exists():
        raise LedgerCorrupted(
            f"{path.name}-journal is left over from a ledger that was moved or deleted; put them back together"
        )
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


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """One exclusive, durable transaction on a connection of its own: nothing is shared with a fork or a thread."""
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
    found = connection.execute(
        "SELECT body LIKE '%\"keyed\":true}' FROM entries WHERE number = 0"
    ).fetchone()
    if found == (1,) and key is None:
        raise ParameterError(
            "this ledger has a key; give key=, the path of the key's file"
        )
    if found == (0,) and key is not None:
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
