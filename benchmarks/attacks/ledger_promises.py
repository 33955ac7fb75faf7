"""What `benchmarks.ledger_faults` holds the ledger to, and the processes that spend while it is broken."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from curvedp.errors import BudgetExceeded
from curvedp.ledger import Ledger
from curvedp.privacy import PureDP

PART = PureDP(2.0**-6)  # a power of two, so that exactly 64 parts fill PureDP(1.0)


class Broken(AssertionError):
    """A promise of the ledger did not hold."""


def check(path: Path, acknowledged: list[str], unsure: int = 0) -> int:
    """Every acknowledged entry is there, at most `unsure` others are, and the budget is kept. Returns the entries."""
    book = Ledger(path)
    labels = [entry.label for entry in book.entries]
    if missing := set(acknowledged) - set(labels):
        raise Broken(f"acknowledged entries are gone: {sorted(missing)}")
    if len(labels) > len(acknowledged) + unsure or len(set(labels)) != len(labels):
        raise Broken(f"{len(labels)} entries, {len(acknowledged)} acknowledged")
    if book.spent is not None and book.spent.eps > book.budget.eps:
        raise Broken("overspent")
    return len(labels)


@contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A forked process that runs work(pipe) and exits; yields (pid, read end)."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            work(write)
        finally:
            os._exit(0)
    os.close(write)
    try:
        yield pid, read
    finally:
        os.close(read)


def spend_all(book: Ledger, name: str, pipe: int, most: int = 10**6) -> None:
    """Spend until refused; each acknowledged label goes down the pipe AFTER the ledger returned."""
    for number in range(most):
        try:
            book.spend(PART, f"{name}-{number}")
        except BudgetExceeded:
            return
        os.write(pipe, f"{name}-{number}\n".encode())


def told(pipe: int) -> list[str]:
    parts = []
    while part := os.read(pipe, 65536):
        parts.append(part)
    return b"".join(parts).decode().split()
