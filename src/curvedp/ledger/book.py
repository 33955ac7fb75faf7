"""The ledger as its users see it."""

import os
import secrets
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.errors import BudgetExceeded, CurvedpError, LedgerCorrupted, ParameterError
from curvedp.ledger.rule import State, replay
from curvedp.ledger.store import append, create, hash_of, read, read_key, transaction
from curvedp.privacy.guarantees.base import Guarantee, guarantee_from_dict

AnyPath = str | os.PathLike[str]

_FORMAT = (
    2  # of the file; files of version 0.1 have none written in them and are read too
)
_LONGEST = 200  # characters of a label, a partition or a group


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


class Ledger:
    """A budget that cannot be overspent: a valid filter for adaptively chosen guarantees.

    Guarantees
    - `spend` either commits the whole entry to disk before it returns, or raises and spends nothing;
    - what was released within the budget satisfies the budget, also where each guarantee was chosen after the releases
      before it were seen (docs/ledger.md says by whose theorem), exactly (rational arithmetic);
    - the budget is the file's: no copy, pickle or old object has one of its own;
    - damage raises `LedgerCorrupted` before anything is spent.

    Parameters
    ----------
    path : path
        The file, readable by its owner only. It is made if `budget` is given and there is none.
    budget : Guarantee, optional
        Of any definition whose cost adds up (the table of docs/ledger.md). For an existing file it must be the file's.
    key : path, optional
        A file with at least 32 random bytes that only those may read who may spend. Entries are then chained by
        HMAC-SHA-256: nobody without the key can change the ledger and not be noticed.

    Raises
    ------
    ParameterError
        For something other than a path, an unknown or another budget, a missing or a superfluous key.
    LedgerCorrupted
        Where the chain is broken, the file has two names, or it is another ledger than the one opened.

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
    ) -> None:
        self.path, self.key = (
            _path("path", path),
            None if key is None else _path("key", key),
        )
        self._seen: State | None = None
        if budget is None and not self.path.exists():
            raise ParameterError(
                f"there is no ledger at {path}; a budget such as GDP(1.0) starts one, or: curvedp ledger create"
            )
        if budget is not None:
            self._start(budget)
        stored = self._state().budget
        if budget is not None and budget != stored:
            raise ParameterError(
                f"{path} was started with budget {stored}, not {budget}; open it without a budget"
            )

    def spend(
        self,
        guarantee: Guarantee,
        label: str,
        *,
        partition: str | None = None,
        group: str | None = None,
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
            record's group is public and fixed, so that replacing a record keeps it in its group.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing is spent.
        ParameterError, UnattainableGuarantee
            For a bad label, another adjacency, or a guarantee that cannot be counted here; nothing is spent.
        """
        if not isinstance(guarantee, Guarantee):
            raise ParameterError(
                f"guarantee={_validate.shown(guarantee)} must be a guarantee, such as GDP(0.5)"
            )
        _check_text("label", label)
        if (partition is None) != (group is None):
            raise ParameterError(
                "partition and group go together: parallel composition needs both"
            )
        if partition is not None:
            _check_text("partition", partition)
            _check_text("group", group)
        with transaction(self.path) as connection:
            key = read_key(self.key)
            state = self._advance(connection, key)
            try:
                counted, opens, total, of_group = state.charge(
                    guarantee, partition, group
                )
            except BudgetExceeded as error:
                raise BudgetExceeded(
                    f"{_validate.shown(guarantee)} for {label!r} {error}"
                ) from None
            body: dict[str, Any] = {
                "label": label,
                "guarantee": counted.to_dict(),
                "partition": partition,
                "group": group,
                "time": datetime.now(UTC).isoformat(),
                "opens": None if opens is None else opens.to_dict(),
                "total": [str(number) for number in total],
                "of_group": None
                if of_group is None
                else [str(number) for number in of_group],
            }
            number, digest = append(connection, body, key)
        return _entry(number, body, digest)

    @property
    def budget(self) -> Guarantee:
        """What may be spent in all."""
        return (self._seen or self._state()).budget

    @property
    def account(self) -> Guarantee:
        """What is counted in: the budget, or what the rest of an (ε, δ) budget was turned into."""
        return self._state().account

    @property
    def entries(self) -> list[Entry]:
        """What has been charged, oldest first; the whole chain is read and checked."""
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
        with transaction(self.path) as connection:
            rows = read(connection, 0, "", read_key(self.key))
            state = replay(_first(rows[0]), rows[1:], exactly=True)
        for head in heads:
            if all(head != digest for _, _, digest in rows):
                raise LedgerCorrupted(
                    f"the entry {_validate.shown(head)} is gone: entries of {self.path} were taken back"
                )
        return state.number

    def __repr__(self) -> str:
        try:
            state = self._state()
        except CurvedpError:
            return f"Ledger({str(self.path)!r}: unreadable)"
        return f"Ledger({str(self.path)!r}: {state.remaining or 'nothing'} of {state.budget} remains)"

    def _repr_html_(self) -> str:
        state, entries = self._state(), self.entries
        rows = "".join(
            f"<tr><td>{e.number}</td><td>{escape(e.label)}</td><td>{escape(str(e.guarantee))}</td></tr>"
            for e in entries[-10:]
        )
        earlier = (
            f"<p>… and {len(entries) - 10} before</p>" if len(entries) > 10 else ""
        )
        left = escape(str(state.remaining or "nothing"))
        title = f"<p><b>{escape(self.path.name)}</b>: {left} of {escape(str(state.budget))} remains</p>"
        return f"{title}<table><tr><th></th><th>what</th><th>charged</th></tr>{rows}</table>{earlier}"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "key": self.key,
        }  # what was seen is read anew: a pickle carries no totals

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.path, self.key, self._seen = (
            fields["path"],
            fields["key"],
            None,
        )  # where it is used it must be there

    def _start(self, budget: Guarantee) -> None:
        if not isinstance(budget, Guarantee):
            raise ParameterError(
                f"budget={_validate.shown(budget)} must be a guarantee, such as GDP(1.0)"
            )
        budget.cost()  # refuses what cannot be a budget before a file is made
        if not self.path.parent.is_dir():
            raise ParameterError(
                f"the folder of the ledger, {self.path.parent}, does not exist"
            )
        key = read_key(self.key)
        if not self.path.exists():
            first = {
                "budget": budget.to_dict(),
                "format": _FORMAT,
                "id": secrets.token_hex(16),
            }
            create(self.path, first | {"keyed": key is not None}, key)

    def _state(self) -> State:
        with transaction(self.path) as connection:
            return self._advance(connection, read_key(self.key))

    def _advance(self, connection: Connection, key: bytes | None) -> State:
        """The state of the file, from what was seen before and the entries since. Only committed entries are remembered."""
        if self._seen is None:
            first, *rows = read(connection, 0, "", key)
            seen = _first(first)
        else:
            seen = self._seen
            if hash_of(connection, seen.number) != seen.head:
                raise LedgerCorrupted(
                    f"{self.path} does not continue the ledger that was opened: entries were taken back, or the file was "
                    "replaced. Nothing was spent"
                )
            rows = read(connection, seen.number + 1, seen.head, key)
        self._seen = replay(seen, rows)
        return self._seen


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
            f"{name}={_validate.shown(value)} is not the path of a file: {error}"
        ) from None
    return path


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str) or not text:
        raise ParameterError(
            f"{name}={_validate.shown(text)} must be a non-empty text that says what is released"
        )
    if len(text) > _LONGEST or not text.isprintable():
        raise ParameterError(
            f"{name}={_validate.shown(text)} must have at most {_LONGEST} characters, all printable"
        )


def _first(row: tuple[int, dict[str, Any], str]) -> State:
    _, body, head = row
    if body.get("format", 1) not in (1, _FORMAT):
        raise ParameterError(
            f"the ledger has format {_validate.shown(body['format'])}; this curvedp reads up to {_FORMAT}"
        )
    return State.new(guarantee_from_dict(body["budget"]), head)


def _entry(number: int, body: dict[str, Any], digest: str) -> Entry:
    guarantee = guarantee_from_dict(body["guarantee"])
    texts = (body["label"], body["partition"], body["group"])
    label, partition, group = (
        t if t is None or t.isprintable() else ascii(t)[1:-1] for t in texts
    )
    return Entry(number, label, guarantee, partition, group, body["time"], digest)
