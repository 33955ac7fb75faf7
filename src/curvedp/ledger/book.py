"""The ledger as its users see it."""

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.errors import BudgetExceeded, CurvedpError, LedgerCorrupted, ParameterError
from curvedp.ledger.rule import Charge, State, replay, unit_in
from curvedp.ledger.store import (
    Row,
    append,
    check_place,
    create,
    hash_of,
    read,
    read_key,
    transaction,
)
from curvedp.privacy.guarantees.base import ADJACENCIES, Guarantee, guarantee_from_dict
from curvedp.privacy.unit import PrivacyUnit, check_unit

AnyPath = str | os.PathLike[str]

# Of the file. Format 3 states the privacy unit; format 2 is version 0.2's; files of version
# 0.1 have no format written in them. All of them are read.
_FORMAT = 3
_LONGEST = 200  # characters of a text in an entry: labels, groups, spaces, statistics
_ADD_REMOVE = ADJACENCIES[1]  # where the number of records is private


class Entry(NamedTuple):
    """One line of the ledger.

    Attributes
    ----------
    number, label : int, str
        Its place, from 1 on, and what was released.
    guarantee : Guarantee
        What was charged, in the definition that is counted in.
    partition, group : str or None
        Which of disjoint groups of records it is about.
    time : str
        When, for people to read; no decision depends on it.
    hash : str
        The ledger's `head` right after it. Noted elsewhere it is a witness, see `Ledger.extends`.
    unit : PrivacyUnit or None
        Whose data the release protects: one record, or one person with all their records;
        None where that was not stated, as in entries of version 0.2 and before.
    n : int or None
        How many records or persons it is about; None where that is private or not stated.
    space, statistic : str or None
        Where the records live, and what of them was released; None where not stated.

    Examples
    --------
    >>> from curvedp.privacy import GDP
    >>> Entry(1, "mean tensor", GDP(0.6), None, None, "2026-01-01", "ab").label
    'mean tensor'
    """

    number: int
    label: str
    guarantee: Guarantee
    partition: str | None
    group: str | None
    time: str
    hash: str
    unit: PrivacyUnit | None = None
    n: int | None = None
    space: str | None = None
    statistic: str | None = None


class Ledger:
    """A budget that cannot be overspent: a valid filter for adaptively chosen guarantees.

    Guarantees
    - `spend` either commits the whole entry to disk before it returns, or raises and spends nothing;
    - what was released within the budget satisfies the budget, also where each guarantee was chosen after the releases
      before it were seen (docs/ledger.md says by whose theorem), exactly (rational arithmetic);
    - the budget is the file's: no copy, pickle or old object has one of its own;
    - one ledger counts for one privacy unit: what protects records and what protects persons
      is never added up;
    - damage raises `LedgerCorrupted` before anything is spent.

    Parameters
    ----------
    path : path
        The file, readable by its owner only. It is made if `budget` is given and there is none.
    budget : Guarantee, optional
        Of any definition whose cost adds up (the table of docs/ledger.md). For an existing file it must be the file's.
    key : path, optional
        A file with at least 32 random bytes that only its owner may read (`write_key` makes
        one). Entries are then chained by HMAC-SHA-256: nobody without the key can change the
        ledger and not be noticed.
    unit : PrivacyUnit or str, optional
        Whose data the budget protects, "record" or "person". Without it a new ledger takes
        the unit of its first charge that states one. For an existing file it must be the
        file's.
    lazy : bool
        Make a new file only together with its first entry, so that a release that is refused
        leaves none behind.

    Raises
    ------
    ParameterError
        For something other than a path, an unknown or another budget or unit, a missing or a
        superfluous key, a key that others may read, and a folder that others may write.
    LedgerCorrupted
        Where the chain is broken, the file has two names, a file beside it pretends to be its
        journal, or it is another ledger than the one opened.

    Examples
    --------
    >>> import tempfile, os
    >>> from curvedp.privacy import GDP
    >>> ledger = Ledger(os.path.join(tempfile.mkdtemp(), "study.ledger"), budget=GDP(1.0))
    >>> entry = ledger.spend(GDP(0.6), "mean tensor")
    >>> entry.number, round(ledger.remaining.mu, 12), ledger.extends(entry.hash)
    (1, 0.8, True)
    """

    path: Path
    key: Path | None

    def __init__(
        self,
        path: AnyPath,
        budget: Guarantee | None = None,
        *,
        key: AnyPath | None = None,
        unit: PrivacyUnit | str | None = None,
        lazy: bool = False,
    ) -> None:
        self.path = _path("path", path)
        self.key = None if key is None else _path("key", key)
        self._seen: State | None = None  # the file's last state that this object knows
        self._witness: tuple[int, str] | None = (
            None  # number and hash of its last entry
        )
        self._planned: _FirstLine | None = None  # of a file that is not yet made

        unit = check_unit("unit", unit)
        if budget is None and not self.path.exists():
            raise ParameterError(
                f"there is no ledger at {path}; a budget such as GDP(1.0) starts one, or: "
                "curvedp ledger create"
            )
        if budget is not None:
            self._start(budget, unit, lazy)
        if self._planned is None:
            _check_same(self.path, self._state(), budget, unit)

    def spend(
        self,
        guarantee: Guarantee,
        label: str,
        *,
        partition: str | None = None,
        group: str | None = None,
        unit: PrivacyUnit | str | None = None,
        n: int | None = None,
        space: str | None = None,
        statistic: str | None = None,
    ) -> Entry:
        """Charge one release, BEFORE it is sampled; the entry, as written.

        Parameters
        ----------
        guarantee : Guarantee
            What the release satisfies. Another definition than the ledger's is converted, never to a stronger statement.
        label : str
            What is released, for people: at most 200 printable characters.
        partition, group : str, optional
            Both or none: releases on disjoint groups of a partition cost only the most expensive group. Sound when a
            record's group is public and fixed, so that replacing a record keeps it in its group. Where persons are
            protected, all records of a person must be in one group.
        unit : PrivacyUnit or str, optional
            Whose data the guarantee protects, "record" or "person". A ledger that counts for
            the other one refuses. Without it you vouch that the unit is the ledger's.
        n, space, statistic : int, str and str, optional
            How many records or persons it is about, where they live and what of them is
            released, for people to read. n is refused where it is private (adjacency
            'add-remove').

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing is spent.
        ParameterError, UnattainableGuarantee
            For a bad label, another adjacency or unit, or a guarantee that cannot be counted here; nothing is spent.
        """
        if (partition is None) != (group is None):
            raise ParameterError(
                "partition and group go together: parallel composition needs both"
            )
        if partition is not None:
            _check_text("partition", partition)
            _check_text("group", group)
        told = {"unit": unit, "n": n, "space": space, "statistic": statistic}
        return self._spend([guarantee], label, partition, group, told)

    def spend_on_disjoint_groups(
        self,
        guarantees: Sequence[Guarantee],
        label: str,
        *,
        unit: PrivacyUnit | str | None = None,
        n: int | None = None,
        space: str | None = None,
        statistic: str | None = None,
    ) -> Entry:
        """Charge one entry for releases about disjoint groups of records, BEFORE any is sampled.

        Each guarantee is converted to the definition that the ledger counts in, and the whole
        is refused where one of them has none there; the largest of every parameter is charged
        (parallel composition).

        Parameters
        ----------
        guarantees : sequence of Guarantee
            What each of the releases satisfies. As with `spend`'s groups, a record's group
            must be public and fixed, and where persons are protected, all records of a person
            must be in one group.
        label, unit, n, space, statistic
            As of `spend`; n is of all groups together.

        Raises
        ------
        BudgetExceeded, ParameterError, UnattainableGuarantee
            As `spend` does; nothing is spent.
        """
        if not isinstance(guarantees, Sequence) or not guarantees:
            raise ParameterError("guarantees must be a sequence of at least one")
        told = {"unit": unit, "n": n, "space": space, "statistic": statistic}
        return self._spend(guarantees, label, None, None, told)

    def _spend(
        self,
        guarantees: Sequence[Guarantee],
        label: str,
        partition: str | None,
        group: str | None,
        told: dict[str, Any],
    ) -> Entry:
        """Write the entry of releases about disjoint groups; `told` is what people read of it."""
        for guarantee in guarantees:
            if not isinstance(guarantee, Guarantee):
                raise ParameterError(
                    "must be a guarantee, such as GDP(0.5)",
                    parameter="guarantee",
                    value=guarantee,
                )
        _check_text("label", label)
        told = _checked_facts(told, guarantees)

        def entry_after(state: State) -> dict[str, Any]:
            """The body of the entry that follows this state; raises where it does not fit."""
            state.check_unit(told["unit"])
            try:
                charge = state.charge_disjoint(guarantees, partition, group)
            except BudgetExceeded as error:
                asked = ", ".join(map(_validate.shown, dict.fromkeys(guarantees)))
                raise BudgetExceeded(f"{asked} for {label!r} {error}") from None
            return {
                "label": label,
                "partition": partition,
                "group": group,
                "time": datetime.now(UTC).isoformat(),
                **_charge_to_dict(charge),
                **told,
            }

        if self._planned is not None and not self.path.exists():
            entry_after(self._planned.state())  # what is refused here leaves no file
            self._create(self._planned)
        with transaction(self.path) as connection:
            key = read_key(self.key)
            state = self._advance(connection, key)
            body = entry_after(state)
            number, digest = append(connection, body, key)
        self._remember(replay(state, [(number, body, digest)]))
        return _entry(number, body, digest)

    @property
    def budget(self) -> Guarantee:
        """What may be spent in all."""
        return (self._seen or self._state()).budget

    @property
    def unit(self) -> PrivacyUnit | None:
        """Whose data the budget protects; None until the first charge that states it."""
        return self._state().unit

    @property
    def account(self) -> Guarantee:
        """What is counted in: the budget, or what the rest of an (ε, δ) budget was turned into."""
        return self._state().account

    @property
    def entries(self) -> list[Entry]:
        """What has been charged, oldest first; the whole chain is read and checked."""
        if self._is_not_made:
            return []
        with transaction(self.path) as connection:
            key = read_key(self.key)
            self._advance(connection, key)
            return [_entry(*row) for row in read(connection, 0, "", key)[1:]]

    @property
    def spent(self) -> Guarantee | None:
        """The composition of all entries in the budget's definition, rounded up; None where nothing is spent."""
        return self._state().spent

    @property
    def remaining(self) -> Guarantee | None:
        """What can still be spent in one entry outside any partition, rounded down; None where nothing is left. In the
        definition that is counted in: after a GDP release from an (ε, δ) budget that is GDP."""
        return self._state().remaining

    @property
    def head(self) -> str:
        """Hash of the last entry: noted elsewhere, it proves later that no entry was taken back."""
        return self._state().head

    def extends(self, head: str) -> bool:
        """Whether the entry of this hash, noted earlier, is still here: if not, entries were taken back."""
        if self._is_not_made:
            return False
        with transaction(self.path) as connection:
            return any(
                head == digest
                for _, _, digest in read(connection, 0, "", read_key(self.key))
            )

    def verify(self, *heads: str) -> int:
        """Add up every entry anew, and look for every hash that was noted elsewhere; the number of entries.

        Raises
        ------
        LedgerCorrupted
            If the chain is broken, a total is not the sum of its entries, or a noted hash is gone.
        """
        rows: list[Row] = []
        if not self._is_not_made:
            with transaction(self.path) as connection:
                rows = read(connection, 0, "", read_key(self.key))
                self._check_continues(connection)
                replay(_first(rows[0]), rows[1:], exactly=True)
        for head in heads:
            if all(head != digest for _, _, digest in rows):
                raise LedgerCorrupted(
                    f"the entry {_validate.shown(head)} is gone: entries of {self.path} were taken back"
                )
        return max(len(rows) - 1, 0)

    def __repr__(self) -> str:
        try:
            state = self._state()
        except CurvedpError:
            return f"Ledger({str(self.path)!r}: unreadable)"
        return f"Ledger({str(self.path)!r}: {state.remaining or 'nothing'} of {state.budget} remains)"

    def _repr_html_(self) -> str:
        state, entries = self._state(), self.entries
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in entry_row(e))}</tr>"
            for e in entries[-10:]
        )
        header = "".join(f"<th>{escape(name)}</th>" for name in ENTRY_HEADER)
        earlier = (
            f"<p>… and {len(entries) - 10} before</p>" if len(entries) > 10 else ""
        )
        left = escape(str(state.remaining or "nothing"))
        title = (
            f"<p><b>{escape(self.path.name)}</b>: {left} of {escape(str(state.budget))} "
            f"remains; {escape(unit_in_words(state.unit))}</p>"
        )
        return f"{title}<table><tr>{header}</tr>{rows}</table>{earlier}"

    def __getstate__(self) -> dict[str, Any]:
        """Where the file is, and which entry must be in it; totals are read anew."""
        return {
            "path": self.path,
            "key": self.key,
            "witness": self._witness,
            "planned": self._planned,
        }

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.path = fields["path"]
        self.key = fields["key"]
        self._witness = fields.get("witness")  # version 0.2 pickled neither
        self._planned = fields.get("planned")
        self._seen = None

    def _start(self, budget: Guarantee, unit: PrivacyUnit | None, lazy: bool) -> None:
        """Make the file of a new ledger, now or with its first entry."""
        if not isinstance(budget, Guarantee):
            raise ParameterError(
                "must be a guarantee, such as GDP(1.0)",
                parameter="budget",
                value=budget,
            )
        budget.cost()  # refuses what cannot be a budget before a file is made
        if not self.path.parent.is_dir():
            raise ParameterError(
                f"the folder of the ledger, {self.path.parent}, does not exist"
            )
        read_key(self.key)
        if self.path.exists():
            return
        check_place(self.path)
        first_line = _FirstLine(budget, unit)
        if lazy:
            self._planned = first_line
        else:
            self._create(first_line)

    def _create(self, first_line: "_FirstLine") -> None:
        """Make the file; where another process was faster, its file is the ledger."""
        key = read_key(self.key)
        body = {
            "budget": first_line.budget.to_dict(),
            "unit": first_line.unit,
            "format": _FORMAT,
            "id": secrets.token_hex(16),
            "keyed": key is not None,
        }
        create(self.path, body, key)

    @property
    def _is_not_made(self) -> bool:
        """Whether the file is still to be made, with its first entry."""
        return self._planned is not None and not self.path.exists()

    def _state(self) -> State:
        if self._planned is not None and self._is_not_made:
            return self._planned.state()
        with transaction(self.path) as connection:
            return self._advance(connection, read_key(self.key))

    def _advance(self, connection: Connection, key: bytes | None) -> State:
        """The state of the file, from what was seen before and the entries since. Only committed entries are remembered."""
        self._check_continues(connection)
        if self._seen is None:
            first, *rows = read(connection, 0, "", key)
            seen = _first(first)
        else:
            seen = self._seen
            rows = read(connection, seen.number + 1, seen.head, key)
        state = replay(seen, rows)
        if self._planned is not None:
            _check_same(self.path, state, self._planned.budget, self._planned.unit)
            self._planned = None  # a file that is gone later is not made anew
        self._remember(state)
        return state

    def _remember(self, state: State) -> None:
        """Know a state of the file from now on, unless another thread knows a later one."""
        if self._seen is None or state.number >= self._seen.number:
            self._seen = state
            self._witness = (state.number, state.head)

    def _check_continues(self, connection: Connection) -> None:
        """Refuse a file in which the last entry that this object knows is gone."""
        if self._witness is None:
            return
        number, head = self._witness
        if hash_of(connection, number) != head:
            raise LedgerCorrupted(
                f"{self.path} does not continue the ledger that was opened: entries were "
                "taken back, or the file was replaced. Nothing was spent"
            )


class _FirstLine(NamedTuple):
    """What the first line of a ledger that is not yet made is to say."""

    budget: Guarantee
    unit: PrivacyUnit | None

    def state(self) -> State:
        """The ledger before its first entry."""
        return State.new(self.budget, "", self.unit)


ENTRY_HEADER = ("", "what", "charged", "protects", "about")


def entry_row(entry: Entry) -> tuple[str, ...]:
    """What people are shown of an entry, as texts, in the order of `ENTRY_HEADER`."""
    return (
        str(entry.number),
        entry.label,
        str(entry.guarantee),
        "not stated" if entry.unit is None else f"one {entry.unit}",
        _about(entry),
    )


def _about(entry: Entry) -> str:
    """Statistic, n and space of an entry, as far as they were stated."""
    facts = []
    if entry.statistic is not None:
        facts.append(entry.statistic)
    if entry.n is not None:
        facts.append(f"n = {entry.n}")
    if entry.space is not None:
        facts.append(f"on {entry.space}")
    return ", ".join(facts)


def unit_in_words(unit: PrivacyUnit | None) -> str:
    """Whose data a ledger's budget protects, for people to read."""
    if unit is None:
        return "whom it protects is unknown until a charge states it"
    if unit is PrivacyUnit.PERSON:
        return "it protects one person with all their records"
    return "it protects one record"


def _check_same(
    path: Path, state: State, budget: Guarantee | None, unit: PrivacyUnit | None
) -> None:
    """Refuse a ledger that was started with another budget or unit than the one asked for."""
    if budget is not None and budget != state.budget:
        raise ParameterError(
            f"{path} was started with budget {state.budget}, not {budget}; open it without "
            "a budget"
        )
    if unit is not None and state.unit is None:
        raise ParameterError(
            f"{path} does not say whom it protects until a charge states it; open it "
            "without a unit"
        )
    if unit is not None and unit is not state.unit:
        raise ParameterError(
            f"{path} counts what is told about one {state.unit}, not one {unit}"
        )


def _checked_facts(
    told: dict[str, Any], guarantees: Sequence[Guarantee]
) -> dict[str, Any]:
    """What people read of an entry, each checked."""
    unit = check_unit("unit", told["unit"])
    n = told["n"]
    if n is not None:
        n = _validate.integer("n", n, 0)
        if any(each.adjacency == _ADD_REMOVE for each in guarantees):
            raise ParameterError(
                "n is private where records may be added or removed: leave it out"
            )
    for name in ("space", "statistic"):
        if told[name] is not None:
            _check_text(name, told[name])
    return {
        "unit": unit,
        "n": n,
        "space": told["space"],
        "statistic": told["statistic"],
    }


def _charge_to_dict(charge: Charge) -> dict[str, Any]:
    """What an entry says of its cost, as JSON values; fractions are texts."""
    opens, of_group = charge.opens, charge.of_group
    return {
        "guarantee": charge.guarantee.to_dict(),
        "opens": None if opens is None else opens.to_dict(),
        "total": [str(number) for number in charge.total],
        "of_group": None if of_group is None else [str(number) for number in of_group],
    }


def _path(name: str, value: Any) -> Path:
    """Where the file is, links followed."""
    try:
        path = Path(value)
        if "\0" in str(path):
            raise ValueError("it holds a null character")
        path = path.resolve()
        path.exists()
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise ParameterError(
            f"is not the path of a file: {error}", parameter=name, value=value
        ) from None
    return path


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str) or not text:
        raise ParameterError(
            "must be a non-empty text that says what is released",
            parameter=name,
            value=text,
        )
    if len(text) > _LONGEST or not text.isprintable():
        raise ParameterError(
            f"must have at most {_LONGEST} characters, all printable",
            parameter=name,
            value=text,
        )


def _first(row: Row) -> State:
    """The state of a ledger without entries, as its first line says."""
    _, body, head = row
    if body.get("format", 1) not in range(1, _FORMAT + 1):
        raise ParameterError(
            f"the ledger has format {_validate.shown(body['format'])}; this curvedp reads "
            f"up to {_FORMAT}"
        )
    return State.new(guarantee_from_dict(body["budget"]), head, unit_in(body))


def _entry(number: int, body: dict[str, Any], digest: str) -> Entry:
    """An entry from its line; entries of version 0.2 and before say nothing of its facts."""
    n = body.get("n")
    if not (n is None or type(n) is int):
        raise LedgerCorrupted(f"entry {number} of the ledger has no number of records")
    return Entry(
        number,
        _printable(body["label"]) or "",
        guarantee_from_dict(body["guarantee"]),
        _printable(body["partition"]),
        _printable(body["group"]),
        body["time"],
        digest,
        unit_in(body),
        n,
        _printable(body.get("space")),
        _printable(body.get("statistic")),
    )


def _printable(text: str | None) -> str | None:
    """A text of the file, with what is not printed written as escapes."""
    if text is None or text.isprintable():
        return text
    return ascii(text)[1:-1]
