"""The file of a ledger, which records what private releases have cost.
It is one SQLite table of lines. The hash of each line covers all lines before it, so
that changes are noticed. The first line states the budget, and each later one is an
entry for a release.

Every access is one exclusive and durable transaction. SQLite uses a rollback journal
here and not a write-ahead log, so that an entry which was acknowledged is in the one
file; `synchronous=EXTRA` makes that true across a power cut too. SQLite finds the
journal by the file's name, so a file with two names is refused: after a crash under one
name, the other would go on without the journal. A new ledger is made under another name
and linked into place, so that a file at its path is never half made: an empty one is
damage, not a fresh start. Nobody but its owner can read it.
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
from typing import Any, NamedTuple

from curvedp.errors import CurvedpError, LedgerCorrupted, ParameterError

_SCHEMA = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT
"""

# How many random bytes a new key has, the length of an output of SHA-256, and how many
# bytes a key may have: longer files are not keys.
_KEY_BYTES = 32
_LONGEST_KEY = 1 << 14

# Modes and owners of files mean something on such systems only.
_IS_POSIX = os.name == "posix"

# Endings of the files that SQLite looks for beside its own.
_FILES_BESIDE = ("-journal", "-wal", "-shm")

# The extended attribute of a file with an access control list.
_ACCESS_LIST = "system.posix_acl_access"

# What a line that this library did not write can raise, although its hash is right:
# whoever can write the file can compute the hashes too.
_ERRORS_OF_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)

# Where Linux lists what is mounted.
_MOUNTS = Path("/proc/self/mountinfo")

# How long a transaction waits for another one to end, in seconds.
_LOCK_TIMEOUT = 120


class Row(NamedTuple):
    """One line of the ledger's file.

    Attributes
    ----------
    number : int
        Its position; 0 is the line that states the budget.
    body : dict
        Its content, as JSON values.
    digest : str
        Its hash, which covers this line and all lines before it.
    """

    number: int
    body: dict[str, Any]
    digest: str


def write_key(path: str | os.PathLike[str]) -> None:
    """Make a new key for ledgers, in a file that only its owner may read.

    Parameters
    ----------
    path : path
        The new file; a file that exists is never overwritten.

    Raises
    ------
    ParameterError
        If there is a file already, or none can be made.

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
    """Read the secret key of a ledger's hashes from a file.

    Whoever has the key can rewrite the ledger without being noticed. So a key that
    others than its owner may read is refused. White space around it is ignored.

    Parameters
    ----------
    path : Path or None
        The file; None for a ledger without a key, which gives None.

    Returns
    -------
    bytes or None
        The key.

    Raises
    ------
    ParameterError
        If the file cannot be read, others may use it, or the key is shorter than 32
        bytes.
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


def create(path: Path, first_body: dict[str, Any], key: bytes | None) -> None:
    """Make a ledger with its first line and no entries.

    The file is made under another name and linked into place in one step. If another
    process makes a ledger at the same path first, that one stays.

    Parameters
    ----------
    path : Path
        Where the ledger will be.
    first_body : dict
        The content of the first line: the budget and so on.
    key : bytes or None
        The key of the hashes.

    Raises
    ------
    CurvedpError
        If the file cannot be made.
    """
    check_place(path)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with transaction(unfinished) as connection:
            connection.execute(_SCHEMA)
            append(connection, first_body, key)
        with suppress(FileExistsError):
            os.link(unfinished, path)
    except OSError as error:
        raise CurvedpError(f"cannot make the ledger {path}: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a place where another user could set the ledger back to an earlier state.

    SQLite undoes an interrupted transaction by copying the pages of the file `-journal`
    beside the ledger into it. So whoever can create files in the folder could plant a
    journal with the pages of an emptier ledger, and the owner's next process would
    write them back. Hence nobody else may write to the folder, and a file beside the
    ledger that SQLite would read must have been made by the ledger's owner, root or
    this process.

    Parameters
    ----------
    path : Path
        Where the ledger is, or will be.

    Raises
    ------
    ParameterError
        For a folder that others may write or own.
    LedgerCorrupted
        For a file beside the ledger that is not its journal, or a journal without a
        ledger.
    """
    try:
        ledger_status = path.stat() if path.exists() else None
        _check_folder(path.parent, ledger_status)
        for ending in _FILES_BESIDE:
            beside = path.with_name(path.name + ending)
            _check_file_beside(path, beside, ledger_status)
    except OSError as error:
        raise CurvedpError(
            f"cannot open the ledger {path}: {error}. Nothing was spent"
        ) from error


def _check_folder(folder: Path, ledger_status: os.stat_result | None) -> None:
    """Refuse a folder in which someone else than the ledger's owner can make files.

    Parameters
    ----------
    folder : Path
        The folder of the ledger.
    ledger_status : os.stat_result or None
        The ledger's `stat`; None if there is no ledger yet.

    Raises
    ------
    ParameterError
        If others can make files there. The message says how to prevent that.
    """
    if not _IS_POSIX:
        return
    folder_status = folder.stat()
    others_can_write = bool(folder_status.st_mode & stat.S_IWOTH)
    group_bit = bool(folder_status.st_mode & stat.S_IWGRP)
    group_can_write = group_bit and not _is_group_of_owner_alone(folder, folder_status)
    is_foreign = folder_status.st_uid not in _trusted_owners(ledger_status)
    if not (others_can_write or group_can_write or is_foreign):
        return
    remedy = f", or chmod go-w {folder}"
    if is_foreign:
        remedy = f"; this one is user {folder_status.st_uid}'s"
    raise ParameterError(
        f"others can write to {folder}: they could set the ledger back. Keep it in a "
        f"folder of its own (mkdir -m 700){remedy}. Nothing was spent"
    )


def _check_file_beside(
    path: Path, beside: Path, ledger_status: os.stat_result | None
) -> None:
    """Refuse a file beside the ledger that SQLite would read but did not make.

    Parameters
    ----------
    path : Path
        The ledger.
    beside : Path
        The file, which need not exist.
    ledger_status : os.stat_result or None
        The ledger's `stat`; None if there is no ledger.

    Raises
    ------
    LedgerCorrupted
        If SQLite did not make the file.
    """
    try:
        status = beside.lstat()
    except FileNotFoundError:
        return
    if ledger_status is None:
        raise LedgerCorrupted(
            f"{beside.name} is left over from a ledger that was moved or deleted; put them "
            "back together"
        )
    if not _is_journal_of(beside, status, ledger_status):
        raise LedgerCorrupted(
            f"{beside} is not a journal that {path.name} made; it could set the ledger back. "
            "Find out who put it there. Nothing was spent"
        )


def _is_journal_of(
    beside: Path, status: os.stat_result, ledger_status: os.stat_result
) -> bool:
    """Return whether a file beside a ledger can only be SQLite's journal of it.

    It must be an ordinary file with one name, called a journal (a ledger has no other
    file beside it), of a trusted owner, and nobody may write to it who may not write to
    the ledger.

    Parameters
    ----------
    beside : Path
        The file beside the ledger.
    status, ledger_status : os.stat_result
        The `stat` of that file and of the ledger.

    Returns
    -------
    bool
        Whether it may be left to SQLite.
    """
    is_ordinary_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if not beside.name.endswith("-journal") or not is_ordinary_file:
        return False
    if not _IS_POSIX:
        return True
    shared_writing = stat.S_IWGRP | stat.S_IWOTH
    has_more_writers = bool(status.st_mode & ~ledger_status.st_mode & shared_writing)
    return not has_more_writers and status.st_uid in _trusted_owners(ledger_status)


def _trusted_owners(ledger_status: os.stat_result | None) -> set[int]:
    """Return the ids of users who can change the ledger anyway.

    They are the user of this process, root, and the ledger's owner.

    Parameters
    ----------
    ledger_status : os.stat_result or None
        The ledger's `stat`; None if there is no ledger yet.
    """
    owners = {os.geteuid(), 0}
    if ledger_status is not None:
        owners.add(ledger_status.st_uid)
    return owners


def _is_group_of_owner_alone(folder: Path, status: os.stat_result) -> bool:
    """Return whether a folder's owner is the only member of its group.

    Many systems make such a group for each user. With an access control list the
    group's bits are the mask of the list and tell nothing about the group.

    Parameters
    ----------
    folder : Path
        The folder of the ledger.
    status : os.stat_result
        Its `stat`.
    """
    import grp
    import pwd

    try:
        owner = pwd.getpwuid(status.st_uid)
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    if sys.platform == "linux" and _ACCESS_LIST in os.listxattr(folder):
        return False
    is_own_group = owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name
    if not is_own_group or not set(group.gr_mem) <= {owner.pw_name}:
        return False
    # Users whose first group it is are not among its listed members.
    return all(
        user.pw_uid == owner.pw_uid or user.pw_gid != group.gr_gid
        for user in pwd.getpwall()
    )


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a ledger for one exclusive and durable transaction.

    The connection is new, so that nothing is shared with a fork or a thread. What is
    written is on the disk when the block ends; if it raises, nothing is written.

    Parameters
    ----------
    path : Path
        The file of the ledger.

    Yields
    ------
    sqlite3.Connection
        A connection within the transaction.

    Raises
    ------
    CurvedpError
        If the file cannot be opened or written.
    LedgerCorrupted
        If it is not a readable ledger. Errors of the block that damaged lines can cause
        are turned into this one.
    """
    check_place(path)
    connection = _connect(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("BEGIN IMMEDIATE")
        _check_single_name(path)
        yield connection
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        # The file is locked or read-only, or the disk is full.
        raise CurvedpError(
            f"cannot write the ledger {path}: {error}. Nothing was spent"
        ) from error
    except OSError as error:  # The file went away meanwhile.
        raise CurvedpError(
            f"cannot open the ledger {path}: {error}. Nothing was spent"
        ) from error
    except CurvedpError:
        raise
    except (sqlite3.DatabaseError, *_ERRORS_OF_DAMAGE) as error:
        raise LedgerCorrupted(f"{path} is not a readable ledger: {error}") from error
    finally:
        # Closing rolls back what was not committed.
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file of a ledger with SQLite; a missing file is not made.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    CurvedpError
        If the file cannot be opened.
    """
    try:
        return sqlite3.connect(
            f"{path.as_uri()}?mode=rw",  # "rw" does not create a file, as "rwc" would
            uri=True,
            timeout=_LOCK_TIMEOUT,
            isolation_level=None,
        )
    except sqlite3.Error as error:
        raise CurvedpError(
            f"cannot open the ledger {path}: {error}. Nothing was spent"
        ) from error


def read(
    connection: sqlite3.Connection, since: int, previous: str, key: bytes | None
) -> list[Row]:
    """Return the lines of a ledger from a given number on, after checking them.

    Numbers must be consecutive, and each hash must cover all lines before.

    Parameters
    ----------
    connection : sqlite3.Connection
        An open `transaction` on the ledger.
    since : int
        The number of the first line that is read.
    previous : str
        The hash of the line before it; empty if `since` is 0.
    key : bytes or None
        The key of the hashes.

    Returns
    -------
    list of Row
        The lines, in order.

    Raises
    ------
    LedgerCorrupted
        If numbers are not consecutive, a hash does not cover all lines before, or the
        last lines are missing.
    """
    _check_table(connection)
    if since == 0:
        _check_key_is_needed(connection, key)
    rows: list[Row] = []
    stored = connection.execute(
        "SELECT number, body, hash FROM entries WHERE number >= ? ORDER BY number",
        (since,),
    )
    # Damage can leave values of any type in these columns.
    for expected_number, (number, text, digest) in enumerate(stored, since):
        expected_digest = _chained_hash(previous, number, text, key)
        if number != expected_number or digest != expected_digest:
            raise _changed_line(expected_number, has_key=key is not None)
        rows.append(Row(number, json.loads(text), digest))
        previous = digest

    lines_found = since + len(rows)
    # `append` stores the number of lines in the file's header, too.
    lines_written = connection.execute("PRAGMA user_version").fetchone()[0]
    if lines_found != lines_written or lines_found == 0:
        raise LedgerCorrupted(
            "the last entries of the ledger are gone; what was spent is unknown"
        )
    return rows


def _changed_line(number: int, *, has_key: bool) -> LedgerCorrupted:
    """Return the error for a line whose hash is wrong.

    Parameters
    ----------
    number : int
        The number of the line, from 0.
    has_key : bool
        Whether the hashes have a key. Then a wrong key is another possible reason.
    """
    changed = f"entry {number} of the ledger"
    if number == 0 and has_key:
        changed = "the ledger or its key"
    return LedgerCorrupted(
        f"{changed} was changed or removed; what was spent is unknown"
    )


def read_hash(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the hash of one line of a ledger.

    Parameters
    ----------
    connection : sqlite3.Connection
        An open transaction on the ledger.
    number : int
        The number of the line; the first line, with the budget, has number 0.

    Returns
    -------
    str or None
        None if there is no such line.
    """
    _check_table(connection)
    row = connection.execute(
        "SELECT hash FROM entries WHERE number = ?", (number,)
    ).fetchone()
    return None if row is None else str(row[0])


def append(
    connection: sqlite3.Connection, body: dict[str, Any], key: bytes | None
) -> Row:
    """Write one more line at the end of a ledger, and return it.

    Parameters
    ----------
    connection : sqlite3.Connection
        An open transaction on the ledger.
    body : dict
        The content of the line, as JSON values.
    key : bytes or None
        The key of the hashes, if the ledger has one.

    Returns
    -------
    Row
        The line, with its number and its hash.
    """
    last = connection.execute(
        "SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1"
    ).fetchone()
    number = 0
    previous = ""
    if last is not None:
        last_number, previous = last
        number = last_number + 1
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = _chained_hash(previous, number, text, key)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, digest))
    # The number of lines stands in the file's header too, so that a lost last page is
    # noticed.
    connection.execute(f"PRAGMA user_version={number + 1}")
    return Row(number, body, digest)


def _chained_hash(previous: str, number: int, body: str, key: bytes | None) -> str:
    """Return the hash of a line, which covers the hash of the line before it.

    Parameters
    ----------
    previous : str
        The hash of the line before; empty for the first line.
    number : int
        The number of the line.
    body : str
        The line's JSON text.
    key : bytes or None
        With a key the hash is HMAC-SHA-256, without one SHA-256.

    Returns
    -------
    str
        The hash as hexadecimal digits.
    """
    text = f"{previous}\n{number}\n{body}".encode()
    if key is None:
        return hashlib.sha256(text).hexdigest()
    return hmac.new(key, text, "sha256").hexdigest()


def _check_table(connection: sqlite3.Connection) -> None:
    """Refuse a file that has other tables than the one of a ledger.

    Parameters
    ----------
    connection : sqlite3.Connection
        An open transaction on the file.

    Raises
    ------
    LedgerCorrupted
        If it has other tables, or none.
    """
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    if tables != [("entries",)]:
        raise LedgerCorrupted(
            "the file has lost its entries; what was spent is unknown"
        )


def _check_key_is_needed(connection: sqlite3.Connection, key: bytes | None) -> None:
    """Refuse a missing or a superfluous key of the hashes.

    Without this check a wrong hash would raise an error, which is less clear.

    Parameters
    ----------
    connection : sqlite3.Connection
        An open transaction on the ledger, whose first line says whether it has a key.
    key : bytes or None
        The key that the caller gives.

    Raises
    ------
    ParameterError
        If the ledger has a key and none is given, or the other way round.
    """
    row = connection.execute("SELECT body FROM entries WHERE number = 0").fetchone()
    if row is None:
        return
    has_key = json.loads(row[0]).get("keyed") is True
    if has_key and key is None:
        raise ParameterError(
            "is missing: this ledger has a key; give the path of the key's file",
            parameter="key",
        )
    if not has_key and key is not None:
        raise ParameterError(
            "this ledger was started without a key; open it without one, or start another"
        )


def _check_single_name(path: Path) -> None:
    """Refuse a ledger's file that has a second name.

    SQLite finds the journal of an interrupted transaction by the name, so that after a
    crash the two names would disagree. If `create` was killed between its two steps, it
    has left a second name behind, which is removed here.

    Parameters
    ----------
    path : Path
        The file of the ledger.

    Raises
    ------
    LedgerCorrupted
        If the file has a hard link, or is mounted by itself.
    """
    if path.stat().st_nlink == 2:
        _remove_unfinished_name(path)
    if path.stat().st_nlink != 1 or _is_mount_point(path):
        raise LedgerCorrupted(
            f"{path} has another name (a hard link, or it is mounted by itself): after a "
            "crash the two would disagree. Share its folder instead. Nothing was spent"
        )


def _remove_unfinished_name(path: Path) -> None:
    """Remove the name under which `create` first made a ledger's file.

    Parameters
    ----------
    path : Path
        The ledger, under the name that stays.
    """
    for other in path.parent.iterdir():
        begins_like_ledger = other.name.startswith(f"{path.name}.")
        is_unfinished = begins_like_ledger and other.name.endswith(".new")
        if is_unfinished and other.samefile(path):
            other.unlink(missing_ok=True)


def _is_mount_point(path: Path) -> bool:
    """Return whether a file is mounted by itself, and so has a second name.

    This is known on Linux only; elsewhere the answer is False.

    Parameters
    ----------
    path : Path
        The file of the ledger.
    """
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return False
    for line in lines:
        # The fifth field is the mount point, in which a space is written as \040.
        fields = line.split(" ", 5)
        if len(fields) > 5 and fields[4].replace("\\040", " ") == str(path):
            return True
    return False
