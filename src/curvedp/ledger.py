"""The privacy budget of one data set, on disk.

The whole state is a SQLite file: copies, pickles, threads, forks and other processes of a `Ledger` all spend from the
same budget. Amounts are exact rationals, so no rounding ever admits one release too many. Entries are chained by
SHA-256: a changed, removed or reordered entry is detected before anything more is spent. What a chain cannot detect is
its last entries being cut off, or the whole file put back to an older copy: note `head` elsewhere if that is a threat, and
ask `extends`.

A rollback journal, not a write-ahead log: an entry that was acknowledged is in the one file, so that no second file can be
lost with it; `synchronous=EXTRA` makes that true across a power cut too. A new ledger is made aside and linked into place,
so that a file at its path is never half made: an empty one is damage, not a fresh start.
"""

import dataclasses
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import inf, isqrt, nextafter
from pathlib import Path
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.errors import BudgetExceeded, CurvedpError, LedgerCorrupted, ParameterError
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, RenyiDP, convert, guarantee_from_dict

__all__ = ["Entry", "Ledger"]

Cost = tuple[Fraction, ...]

_SCHEMA = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT
"""


class Entry(NamedTuple):
    """One line of the ledger."""

    number: int
    label: str
    guarantee: Guarantee
    partition: str | None
    group: str | None
    time: str


@dataclass(frozen=True)
class Ledger:
    """A budget that cannot be overspent.

    `Ledger(path, budget=GDP(2.0))` makes the file, or opens it and checks that the budget is the same;
    `Ledger(path)` opens an existing one. Everything is composed in the budget's own definition: a guarantee in another
    one is converted first, never to a weaker statement.

    Guarantees
    - `spend` either commits the whole entry to disk before it returns, or raises and spends nothing;
    - the composition of all entries never exceeds the budget, exactly (rational arithmetic);
    - a broken chain raises `LedgerCorrupted` before anything is spent.

    >>> import tempfile, os
    >>> ledger = Ledger(os.path.join(tempfile.mkdtemp(), "study.ledger"), budget=GDP(1.0))
    >>> _ = ledger.spend(GDP(0.6), "mean tensor")
    >>> round(ledger.remaining.mu, 12)
    0.8
    """

    path: Path
    budget: Guarantee

    def __init__(self, path: str | os.PathLike[str], budget: Guarantee | None = None) -> None:
        try:
            object.__setattr__(self, "path", Path(path).absolute())
            if "\0" in str(self.path):
                raise ValueError("it holds a null character")
            exists = self.path.exists()
        except (TypeError, ValueError, OSError) as error:
            raise ParameterError(f"path={_validate.shown(path)} is no path of a file: {error}") from None
        if budget is None and not exists:
            raise ParameterError(f"there is no ledger at {path}; give a budget, e.g. GDP(1.0), to start one")
        if budget is not None:
            _definition(budget)  # refuses what cannot be a budget before a file is made
            if not self.path.parent.is_dir():
                raise ParameterError(f"the folder of the ledger, {self.path.parent}, does not exist")
            if not exists:
                _create(self.path, budget)
        stored = guarantee_from_dict(self._bodies()[0]["budget"])
        if budget is not None and budget != stored:
            raise ParameterError(f"{path} was started with budget {stored}, not {budget}; open it without a budget")
        object.__setattr__(self, "budget", stored)

    def spend(
        self, guarantee: Guarantee, label: str, *, partition: str | None = None, group: str | None = None
    ) -> Entry:
        """Charge one release, BEFORE it is sampled; raises `BudgetExceeded` (and spends nothing) if it does not fit.

        Releases on disjoint groups of records cost only the dearest group: give all of them the same `partition` and
        each its `group`. This is sound when a record's group is public and fixed, so that replacing a record keeps it in
        its group.
        """
        if not isinstance(guarantee, Guarantee):
            raise ParameterError(f"guarantee={_validate.shown(guarantee)} must be a guarantee, such as GDP(0.5)")
        if not isinstance(label, str) or not label:
            raise ParameterError(f"label={_validate.shown(label)} must be a non-empty text that says what is released")
        if (partition is None) != (group is None):
            raise ParameterError("partition and group go together: parallel composition needs both")
        if partition is not None and not (isinstance(partition, str) and isinstance(group, str)):
            raise ParameterError(
                f"partition={_validate.shown(partition)} and group={_validate.shown(group)} must be texts"
            )
        definition = _definition(self.budget)
        charged = _in_definition(self.budget, guarantee)
        body: dict[str, Any] = {
            "label": label,
            "guarantee": charged.to_dict(),
            "partition": partition,
            "group": group,
            "time": datetime.now(UTC).isoformat(),  # for people; no decision reads it
        }
        with _transaction(self.path) as connection:
            bodies = _verified_bodies(connection)
            if _exceeds(self._total([*bodies[1:], body]), definition.cost(self.budget)):
                left = self._left(self._total(bodies[1:]))
                rest = "nothing" if left is None else str(left)
                raise BudgetExceeded(f"{charged} for {label!r} does not fit: {rest} of {self.budget} remains")
            number = _append(connection, body)
        return _entry(number, body)

    @property
    def entries(self) -> list[Entry]:
        """What has been charged, oldest first."""
        return [_entry(number, body) for number, body in enumerate(self._bodies()) if number > 0]

    @property
    def spent(self) -> Guarantee | None:
        """The composition of all entries in the budget's definition, rounded up; None where nothing is spent."""
        return _guarantee(self.budget, self._total(self._bodies()[1:]), up=True)

    @property
    def remaining(self) -> Guarantee | None:
        """What can still be spent in one entry outside any partition, rounded down; None where nothing is left."""
        return self._left(self._total(self._bodies()[1:]))

    @property
    def head(self) -> str:
        """Hash of the last entry: noted elsewhere, it proves later that no entry was taken back."""
        with _transaction(self.path) as connection:
            _verified_bodies(connection)
            return str(connection.execute("SELECT hash FROM entries ORDER BY number DESC LIMIT 1").fetchone()[0])

    def extends(self, head: str) -> bool:
        """Whether the entry of this hash, a `head` noted earlier, is still here: if not, entries were taken back."""
        with _transaction(self.path) as connection:
            _verified_bodies(connection)
            return connection.execute("SELECT 1 FROM entries WHERE hash = ?", (head,)).fetchone() is not None

    def _bodies(self) -> list[dict[str, Any]]:
        with _transaction(self.path) as connection:
            return _verified_bodies(connection)

    def _left(self, total: Cost) -> Guarantee | None:
        budget = _definition(self.budget).cost(self.budget)
        return _guarantee(self.budget, tuple(b - t for b, t in zip(budget, total, strict=True)), up=False)

    def _total(self, bodies: list[dict[str, Any]]) -> Cost:
        """Sequential entries add up; of a partition only its dearest group counts, component by component."""
        definition = _definition(self.budget)
        zero = tuple(Fraction(0) for _ in definition.cost(self.budget))
        groups: dict[tuple[str | None, str | None], Cost] = {}
        for body in bodies:
            key = (body["partition"], body["group"])
            groups[key] = _add(groups.get(key, zero), definition.cost(guarantee_from_dict(body["guarantee"])))
        total = groups.pop((None, None), zero)
        for name in {partition for partition, _ in groups}:
            members = [cost for (partition, _), cost in groups.items() if partition == name]
            total = _add(total, tuple(max(component) for component in zip(*members, strict=True)))
        return total


def _create(path: Path, budget: Guarantee) -> None:
    """A ledger with its budget and no entries, made under another name and linked into place in one step."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        with _transaction(fresh) as connection:
            connection.execute(_SCHEMA)
            _append(connection, {"budget": budget.to_dict()})
        with suppress(FileExistsError):  # another process was faster: its ledger is the one
            os.link(fresh, path)
    except OSError as error:
        raise CurvedpError(f"cannot make the ledger {path}: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def _transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """One exclusive, durable transaction on a connection of its own: nothing is shared with a fork or a thread."""
    try:
        connection = sqlite3.connect(path, timeout=120, isolation_level=None)
    except sqlite3.Error as error:
        raise CurvedpError(f"cannot open the ledger {path}: {error}. Nothing was spent") from error
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:  # locked, full disk, read-only: the transaction rolls back
        raise CurvedpError(f"cannot write the ledger {path}: {error}. Nothing was spent") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise LedgerCorrupted(f"{path} is not a readable ledger: {error}") from error
    finally:
        connection.close()  # rolls back what was not committed


class _Definition(NamedTuple):
    """How guarantees of one definition add up: an additive exact cost, and the way back as fields."""

    cost: Callable[[Any], Cost]
    fields: Callable[[Cost, bool], tuple[float, ...]]  # rounded up (True) or down


_DEFINITIONS: dict[type, _Definition] = {
    PureDP: _Definition(lambda g: (Fraction(g.eps),), lambda c, up: (_float(c[0], up),)),
    ApproxDP: _Definition(
        lambda g: (Fraction(g.eps), Fraction(g.delta0)), lambda c, up: (_float(c[0], up), _float(c[1], up))
    ),
    ZCDP: _Definition(lambda g: (Fraction(g.rho),), lambda c, up: (_float(c[0], up),)),
    RenyiDP: _Definition(lambda g: (Fraction(g.eps),), lambda c, up: (_float(c[0], up),)),
    GDP: _Definition(lambda g: (Fraction(g.mu) ** 2,), lambda c, up: (_root(c[0], up),)),
    RaoDP: _Definition(lambda g: (Fraction(g.theta) ** 2,), lambda c, up: (_root(c[0], up),)),
}


def _definition(budget: Guarantee) -> _Definition:
    if type(budget) not in _DEFINITIONS or getattr(budget, "angle", "parametric") != "parametric":
        names = ", ".join(sorted(kind.__name__ for kind in _DEFINITIONS))
        raise ParameterError(f"a budget must be one of {names} (Rao: parametric), not {budget!r}")
    return _DEFINITIONS[type(budget)]


def _guarantee(budget: Guarantee, cost: Cost, *, up: bool) -> Guarantee | None:
    """The guarantee of the budget's kind that costs this much; None where a part of it is 0."""
    if min(cost) <= 0:
        return None
    values = _definition(budget).fields(cost, up)
    if min(values) <= 0:  # rounded down to nothing
        return None
    names = [f.name for f in dataclasses.fields(budget) if f.name not in ("order", "adjacency", "angle")]
    changes: dict[str, Any] = dict(zip(names, values, strict=True))
    return dataclasses.replace(budget, **changes)


def _in_definition(budget: Guarantee, guarantee: Guarantee) -> Guarantee:
    """The guarantee in the budget's own definition, never stronger than it is; refused where that is not possible."""
    if guarantee.adjacency != budget.adjacency:
        raise ParameterError(
            f"the ledger counts {budget.adjacency} adjacency; {guarantee} is for {guarantee.adjacency}"
        )
    charged, order = guarantee, getattr(budget, "order", None)
    if isinstance(budget, ApproxDP) and not isinstance(guarantee, ApproxDP):
        # Pure ε is (ε, δ) for every δ; other definitions have a whole curve, of which the caller must name a point.
        if not isinstance(guarantee, PureDP):
            raise ParameterError(
                f"the ledger counts (ε, δ), and {guarantee} is a whole curve of them; "
                "spend one of its points, such as convert(guarantee, to=ApproxDP, delta=1e-6)"
            )
        charged = convert(guarantee, to=ApproxDP, eps=guarantee.eps)
    elif type(guarantee) is not type(budget) or getattr(guarantee, "order", order) != order:
        charged = convert(guarantee, to=type(budget), order=order)
    for rule in ("order", "angle"):
        if getattr(charged, rule, None) != getattr(budget, rule, None):
            raise ParameterError(f"the ledger counts {rule}={getattr(budget, rule)!r}; {guarantee} has another")
    return charged


def _add(left: Cost, right: Cost) -> Cost:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _exceeds(cost: Cost, budget: Cost) -> bool:
    return any(c > b for c, b in zip(cost, budget, strict=True))


def _float(exact: Fraction, up: bool) -> float:
    """The float next to an exact value, not below it (up) or not above it."""
    near = float(exact)
    if up:
        return near if Fraction(near) >= exact else nextafter(near, inf)
    return near if Fraction(near) <= exact else nextafter(near, -inf)


def _root(square: Fraction, up: bool) -> float:
    """The float next to the square root of an exact value, not below it (up) or not above it."""
    scale = 1 << 1200  # bits beyond the smallest double's, so the integer root decides the last one
    floor = isqrt(square.numerator * scale**2 // square.denominator)
    root = _float(Fraction(floor, scale), up=False)
    return root if not up or Fraction(root) ** 2 >= square else nextafter(root, inf)


def _verified_bodies(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Every entry's body, after checking that numbers are consecutive and each hash covers all before it."""
    if connection.execute("SELECT name FROM sqlite_master").fetchall() != [("entries",)]:
        raise LedgerCorrupted("the file has lost its entries; what was spent is unknown")
    bodies, previous = [], ""
    for number, (stored, body, digest) in enumerate(
        connection.execute("SELECT number, body, hash FROM entries ORDER BY number")
    ):
        if stored != number or digest != _chain(previous, number, body):
            raise LedgerCorrupted(f"entry {number} of the ledger was changed or removed; what was spent is unknown")
        previous = digest
        bodies.append(json.loads(body))
    if len(bodies) != connection.execute("PRAGMA user_version").fetchone()[0] or not bodies:
        raise LedgerCorrupted("the last entries of the ledger are gone; what was spent is unknown")
    return bodies


def _append(connection: sqlite3.Connection, body: dict[str, Any]) -> int:
    last = connection.execute("SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1").fetchone()
    number, previous = (last[0] + 1, last[1]) if last else (0, "")
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, _chain(previous, number, text)))
    connection.execute(f"PRAGMA user_version={number + 1}")  # in the file's header: a lost last page is noticed too
    return number


def _chain(previous: str, number: int, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{number}\n{body}".encode()).hexdigest()


def _entry(number: int, body: dict[str, Any]) -> Entry:
    guarantee = guarantee_from_dict(body["guarantee"])
    return Entry(number, body["label"], guarantee, body["partition"], body["group"], body["time"])
