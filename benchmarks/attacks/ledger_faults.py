"""Faults injected into the ledger: never overspent, no acknowledged entry lost, corruption detected.

`python -m benchmarks.ledger_faults [N]` injects about N faults of each kind's share (2,700 in all by default) and prints a
table; exit code 1 if one of them broke a promise. Every kind below says what it breaks and what must hold afterwards.
"""

import copy
import json
import os
import pickle
import resource
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.ledger_promises import PART, Broken, check, child, spend_all, told
from curvedp.errors import BudgetExceeded, CurvedpError, LedgerCorrupted
from curvedp.ledger import Ledger, book
from curvedp.privacy import PureDP

# ---- the faults: each takes (folder, generator) and returns how many faults it injected


def killed_at_a_random_time(folder: Path, rng: np.random.Generator) -> int:
    """kill −9 after a random time; the next process goes on with the same ledger."""
    book, acknowledged, faults = Ledger(folder / "a", PureDP(1.0)), [], 0
    while book.remaining is not None and faults < 12:
        with child(lambda pipe, n=faults: spend_all(book, f"k{n}", pipe)) as (
            pid,
            read,
        ):
            time.sleep(rng.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            acknowledged += told(read)
        faults += 1
        check(
            book.path, acknowledged, unsure=faults
        )  # each kill may fall between the commit and its acknowledgement
    return faults


class _Suicidal(sqlite3.Connection):
    """Kills its process before or after the k-th statement of this process."""

    countdown = 0

    def execute(self, *args):
        _Suicidal.countdown -= 1
        if _Suicidal.countdown == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = super().execute(*args)
        if (
            _Suicidal.countdown == -1
        ):  # a countdown that started at 0: after the first statement
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def killed_at_a_statement(folder: Path, rng: np.random.Generator) -> int:
    """kill −9 at each statement of a transaction in turn, also the very first one of a ledger that is being made."""
    faults = 0
    for statement in range(20):
        path = folder / f"s{statement}"
        fresh = bool(rng.integers(2))
        if not fresh:
            Ledger(path, PureDP(1.0))

        def work(pipe: int, path: Path = path, statement: int = statement) -> None:
            _Suicidal.countdown = statement
            real = sqlite3.connect
            sqlite3.connect = lambda *a, **k: real(*a, factory=_Suicidal, **k)
            spend_all(Ledger(path, PureDP(1.0)), "x", pipe, most=3)

        with child(work) as (pid, read):
            os.waitpid(pid, 0)
            acknowledged = told(read)
        faults += 1
        book = Ledger(path, PureDP(1.0))
        check(path, acknowledged, unsure=1)
        book.spend(PART, "after the crash")
    return faults


def two_processes(folder: Path, rng: np.random.Generator) -> int:
    """Two processes that race for a budget of a few parts, one of them killed half of the time."""
    parts = int(rng.integers(1, 9))
    Ledger(folder / "r", PureDP(parts * PART.eps))
    kill = bool(rng.integers(2))
    work = [
        lambda pipe, n=n: spend_all(Ledger(folder / "r"), f"p{n}", pipe)
        for n in range(2)
    ]
    with child(work[0]) as (one, read_one), child(work[1]) as (two, read_two):
        if kill:
            time.sleep(rng.uniform(0, 0.02))
            os.kill(one, signal.SIGKILL)
        for pid in (one, two):
            os.waitpid(pid, 0)
        acknowledged = told(read_one) + told(read_two)
    if check(folder / "r", acknowledged, unsure=int(kill)) != parts:
        raise Broken("the budget was not used up")
    return 1


def forked_object(folder: Path, rng: np.random.Generator) -> int:
    """One Ledger object used on both sides of a fork at once."""
    parts = int(rng.integers(1, 9))
    book = Ledger(folder / "f", PureDP(parts * PART.eps))
    with child(lambda pipe: spend_all(book, "child", pipe)) as (pid, read):
        mine_read, mine_write = os.pipe()
        spend_all(book, "parent", mine_write)
        os.close(mine_write)
        os.waitpid(pid, 0)
        acknowledged = told(read) + told(mine_read)
        os.close(mine_read)
    if check(book.path, acknowledged) != parts:
        raise Broken("the budget was not used up")
    return 1


def copies_and_threads(folder: Path, rng: np.random.Generator) -> int:
    """Four threads, each with a copy of the object: itself, copy, deepcopy, pickle."""
    parts = int(rng.integers(1, 9))
    book = Ledger(folder / "t", PureDP(parts * PART.eps))
    copies = [
        book,
        copy.copy(book),
        copy.deepcopy(book),
        pickle.loads(pickle.dumps(book)),
    ]
    read, write = os.pipe()
    threads = [
        threading.Thread(target=spend_all, args=(each, f"t{number}", write))
        for number, each in enumerate(copies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(write)
    acknowledged = told(read)
    os.close(read)
    if check(book.path, acknowledged) != parts:
        raise Broken("the budget was not used up")
    return len(copies)


def disk_full(folder: Path, rng: np.random.Generator) -> int:
    """Writing fails from a random size on: the kernel's file limit, or the database's page limit."""
    book = Ledger(folder / "d", PureDP(1.0))
    filled = [f"before-{number}" for number in range(int(rng.integers(0, 6)))]
    for label in filled:
        book.spend(PART, label)
    size = book.path.stat().st_size

    def work(pipe: int) -> None:
        if rng.integers(2):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (int(rng.integers(1, size + 4096)),) * 2
            )
        else:
            real = sqlite3.connect

            def limited(*args, **kwargs):
                connection = real(*args, **kwargs)
                connection.execute(f"PRAGMA max_page_count={size // 4096}")
                return connection

            sqlite3.connect = limited
        for number in range(40):
            try:
                book.spend(PART, f"full-{number}" + "x" * int(rng.integers(190)))
            except CurvedpError as error:
                if "Nothing was spent" not in str(error):
                    raise
                os.write(pipe, b"refused\n")
                return
            os.write(pipe, f"full-{number}\n".encode())

    with child(work) as (pid, read):
        os.waitpid(pid, 0)
        lines = told(read)
    if lines[-1:] != ["refused"]:
        raise Broken(f"a full disk was not noticed: {lines}")
    labels = [entry.label for entry in book.entries]
    found = [label.rstrip("x") for label in labels]
    if found != filled + lines[:-1]:
        raise Broken(f"{found} on disk, {filled + lines[:-1]} acknowledged")
    book.spend(PART, "room again")
    return 1


def clock_jump(folder: Path, rng: np.random.Generator) -> int:
    """The clock jumps between entries, to any year and backwards: nothing but the time shown may change."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(int(rng.integers(1, 9999)), 1, 1, tzinfo=UTC)

    ledger, real = Ledger(folder / "c", PureDP(4 * PART.eps)), book.datetime
    book.datetime = Clock
    try:
        labels = [ledger.spend(PART, f"{number}").label for number in range(4)]
        try:
            ledger.spend(PART, "too much")
        except BudgetExceeded:
            pass
        else:
            raise Broken("overspent after a clock jump")
    finally:
        book.datetime = real
    check(ledger.path, labels)
    return 4


def corrupted_file(folder: Path, rng: np.random.Generator) -> int:
    """Bytes changed, the file cut, pages zeroed or swapped, rubbish appended, rows changed: detected, or nothing changed."""
    book = Ledger(folder / "x", PureDP(1.0))
    for number in range(int(rng.integers(3, 25))):
        book.spend(PART, f"entry {number} " + "y" * int(rng.integers(180)))
    truth, whole = (
        [(e.label, e.guarantee) for e in book.entries],
        book.path.read_bytes(),
    )
    detected = 0
    for _ in range(25):
        data = bytearray(whole)
        match rng.integers(6):
            case 0 | 1:
                for place in rng.integers(len(data), size=rng.integers(1, 9)):
                    data[place] ^= int(rng.integers(1, 256))
            case 2:
                del data[int(rng.integers(len(data))) :]
            case 3:
                start = 4096 * int(rng.integers(len(data) // 4096))
                data[start : start + 4096] = bytes(4096)
            case 4:
                a, b = (4096 * int(k) for k in rng.integers(len(data) // 4096, size=2))
                data[a : a + 4096], data[b : b + 4096] = (
                    data[b : b + 4096],
                    data[a : a + 4096],
                )
            case 5:
                place = whole.find(b'"eps":0.015625', int(rng.integers(len(whole))))
                data[place : place + 14] = (
                    b'"eps":0.000001'  # an entry made cheaper, in place
                )
        book.path.write_bytes(data)
        try:
            opened = Ledger(book.path, PureDP(1.0))
            entries = [(e.label, e.guarantee) for e in opened.entries]
        except CurvedpError:
            detected += 1
            continue
        if entries != truth:
            raise Broken("a damaged file was read as something else")
    book.path.write_bytes(whole)
    return 25


def rolled_back(folder: Path, rng: np.random.Generator) -> int:
    """An older copy of the file: its chain holds, so that a new object cannot tell.

    A hash noted elsewhere must tell every time, and so must the object that made the last
    entry, its copies and its pickles, whether or not anybody asked them for anything since.
    """
    book = Ledger(folder / "o", PureDP(1.0))
    book.spend(PART, "first")
    older = book.path.read_bytes()
    noted = [
        book.spend(PART, f"later {number}").hash
        for number in range(int(rng.integers(1, 6)))
    ]
    witnesses = [book, copy.copy(book), copy.deepcopy(book)]
    witnesses.append(pickle.loads(pickle.dumps(book)))
    if rng.random() < 0.5 and not all(book.extends(head) for head in noted):
        raise Broken("an honest ledger was called rolled back")
    book.path.write_bytes(older)
    if any(Ledger(book.path).extends(head) for head in noted):
        raise Broken("a rolled back ledger was not noticed")
    for number, witness in enumerate(witnesses):
        try:
            witness.spend(PART, f"again {number}")
        except LedgerCorrupted:
            continue
        raise Broken("an object went on after its own entry was taken back")
    return 1


def second_name(folder: Path, rng: np.random.Generator) -> int:
    """A hard link made at a random moment between spends: refused under both names from then on, and nothing is lost."""
    book, other = Ledger(folder / "h", PureDP(1.0)), folder / "other"
    labels = [
        book.spend(PART, f"{number}").label for number in range(int(rng.integers(1, 5)))
    ]
    os.link(book.path, other)
    for path in rng.permutation([str(book.path), str(other)]):
        try:
            Ledger(path).spend(PART, "by one of two names")
        except LedgerCorrupted:
            continue
        raise Broken("spent from a file with two names")
    other.unlink()
    check(book.path, labels)
    return 1


def replaced_file(folder: Path, rng: np.random.Generator) -> int:
    """Another ledger, of a smaller or larger budget, in the place of the one that was open.

    The object, its copies and its pickles refuse to go on with it.
    """
    book = Ledger(folder / "p", PureDP(1.0))
    book.spend(PART, "first")
    image = pickle.dumps(book)
    book.path.unlink()
    parts = int(rng.integers(1, 5))
    Ledger(book.path, PureDP(parts * PART.eps))
    for witness in (book, copy.deepcopy(book), pickle.loads(image)):
        try:
            witness.spend(PART, "on another ledger")
        except LedgerCorrupted:
            continue
        raise Broken("an object went on with another ledger")
    if check(book.path, []) != 0:
        raise Broken("another ledger was spent from")
    return 1


FAULTS: dict[Callable[[Path, np.random.Generator], int], int] = {
    killed_at_a_random_time: 500,
    killed_at_a_statement: 300,
    two_processes: 150,
    forked_object: 150,
    copies_and_threads: 200,
    disk_full: 250,
    clock_jump: 100,
    corrupted_file: 750,
    rolled_back: 100,
    second_name: 100,
    replaced_file: 100,
}


def inject(share: float, seed: int = 0) -> list[tuple[str, int, list[str]]]:
    """(kind, faults injected, what broke) for every kind, at a share of the full numbers."""
    rows = []
    for kind, goal in FAULTS.items():
        rng, injected, broken = np.random.default_rng([seed, len(rows)]), 0, []
        while injected < share * goal:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    injected += kind(Path(folder), rng)
                except (
                    Exception
                ) as error:  # a broken promise or a crash: both are counted and shown
                    injected += 1
                    broken.append(f"{type(error).__name__}: {error}")
        rows.append((kind.__name__, injected, broken))
    return rows


def main(total: int = 2700, *, as_json: bool = False) -> int:
    rows = inject(total / sum(FAULTS.values()))
    if as_json:
        print(json.dumps(rows))
    else:
        print(f"{'fault':26s} {'injected':>9s} {'broken':>7s}")
        for name, injected, broken in rows:
            print(
                f"{name:26s} {injected:9d} {len(broken):7d}  {broken[0] if broken else ''}"
            )
        print(
            f"{'in all':26s} {sum(r[1] for r in rows):9d} {sum(len(r[2]) for r in rows):7d}"
        )
    return int(any(broken for _, _, broken in rows))


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    sys.exit(main(*numbers[:1], as_json="--json" in sys.argv))
