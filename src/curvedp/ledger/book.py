"""The ledger: a privacy budget in a file, from which private releases are paid.
`Ledger` opens the file, charges an entry for each release before it is drawn, and
reports what is left. A ledger protects a privacy unit, such as one record or one
person.

The arithmetic is in `ledger.rule`, the file in `ledger.store`, and the theorems are in
docs/howto/budget.md.
"""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from curvedp import _validate
from curvedp.errors import BudgetExceeded, CurvedpError, LedgerCorrupted, ParameterError
from curvedp.ledger.rule import (
    Charge,
    Cost,
    Freeze,
    State,
    is_freeze,
    replay,
    unit_in,
)
from curvedp.ledger.store import (
    Row,
    append,
    check_place,
    create,
    read,
    read_hash,
    read_key,
    transaction,
)
from curvedp.privacy.curve import ADJACENCIES, PrivacyCurve
from curvedp.privacy.guarantees.base import Guarantee, guarantee_from_dict
from curvedp.privacy.unit import PERSON_IN_FULL, PrivacyUnit, check_unit

AnyPath = str | os.PathLike[str]

# The format of the files that this version writes. Format 3 states the privacy unit;
# format 2 is version 0.2's; files of version 0.1 have no format written in them. All of
# them are read.
_FORMAT = 3

# How many characters a text in an entry may have: labels, groups, spaces, statistics.
_LONGEST_TEXT = 200

# The adjacency under which the number of records is private.
_ADD_REMOVE = ADJACENCIES[1]

# How many entries the notebook's view of a ledger shows.
_ENTRIES_SHOWN = 10

# What the total of entries about different partitions promises. A guarantee within
# the classes of one partition compares data sets in which the record that differs keeps
# its class there. All of them hold together if it keeps its class in each partition.
SEVERAL_PARTITIONS = (
    "or domain, or sample; if releases differ in these, one that stays in the same one "
    "in each release"
)

# The titles of the columns that `entry_row` fills.
ENTRY_HEADER = ("", "what", "charged", "protects", "about")


class Entry(NamedTuple):
    """One entry of the ledger: what was charged for one release.

    Attributes
    ----------
    number : int
        Its position, from 1 on.
    label : str
        The label of the release.
    guarantee : Guarantee
        The charged guarantee, in the definition in which the ledger counts.
    partition, group : str or None
        The group of a partition of the records that it is about; None if it is about
        all records.
    time : str
        When it was charged, for people to read; no decision depends on it.
    hash : str
        The ledger's `head` right after it. Noted elsewhere it is a witness, see
        `Ledger.extends`.
    unit : PrivacyUnit or None
        Whose data the release protects: one record, or one person with all their
        records; None if that was not stated, as in entries of version 0.2 and before.
    n : int or None
        How many records or people it is about; None if that is private or not stated.
    space, statistic : str or None
        Where the records live, and what of them was released; None if not stated.

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
    """A privacy budget in a file: a valid filter for adaptively chosen guarantees.

    Guarantees
    - `spend` either commits the whole entry to disk before it returns, or raises and
      spends nothing;
    - what was released within the budget satisfies the budget, also if each guarantee
      was chosen after the releases before it were seen (docs/howto/budget.md says by
      whose theorem); the sums are exact, in rational arithmetic;
    - the budget is the file's: no copy, pickle or old object has one of its own;
    - one ledger counts for one privacy unit: a release is charged only if what it
      protects implies that unit (`PrivacyUnit.implies`). Records and people are never
      added up. A ledger for records takes no release that protects a record within its
      class only; a ledger for records within their classes takes both;
    - damage raises `LedgerCorrupted` before anything is spent.

    Parameters
    ----------
    path : path
        The file, which only its owner can read. It is made if `budget` is given and
        there is no file.
    budget : Guarantee, optional
        The whole budget, in any definition whose cost adds up (the table of
        docs/howto/budget.md). For an existing file it must be the file's.
    key : path, optional
        A file with at least 32 random bytes that only its owner may read (`write_key`
        makes one). Entries are then chained by HMAC-SHA-256: nobody without the key can
        change the ledger and not be noticed.
    unit : PrivacyUnit or str, optional
        Whose data the budget protects: "record" or "person", or, if classes are public
        and fixed, "record_in_class" or "person_in_class". Without it a new ledger takes
        the unit of its first charge that states one. For an existing file it must be
        the file's.
    lazy : bool
        Make a new file only together with its first entry, so that a release that is
        refused leaves none behind.

    Raises
    ------
    ParameterError
        For something other than a path, an unknown or another budget or unit, a missing
        or a superfluous key, a key that others may read, and a folder that others may
        write.
    LedgerCorrupted
        Where the chain is broken, the file has two names, a file beside it pretends to
        be its journal, or it is another ledger than the one opened.

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
        """Open the file, or make a new one if a budget is given.

        Parameters
        ----------
        path : path
            The file of the ledger.
        budget : Guarantee, optional
            The whole budget. For an existing file it must be the file's.
        key : path, optional
            A file with the secret key of the hashes that chain the entries.
        unit : PrivacyUnit or str, optional
            Whose data the budget protects. For an existing file it must be the file's.
        lazy : bool
            Whether a new file is made only together with its first entry.
        """
        self.path = _resolve_path("path", path)
        self.key = None if key is None else _resolve_path("key", key)
        # The state of the file when this object last read it.
        self._last_state: State | None = None
        # The number and the hash of the last entry that this object knows.
        self._witness: tuple[int, str] | None = None
        # The file that will be made with the first entry, if it is not yet made.
        self._planned: _PlannedFile | None = None

        unit = check_unit("unit", unit)
        if budget is None and not self.path.exists():
            raise ParameterError(
                f"there is no ledger at {path}; a budget such as GDP(1.0) starts one, or: "
                "curvedp ledger create"
            )
        if budget is not None:
            self._make_or_plan_file(budget, unit, lazy)
        if self._planned is None:
            _check_same(self.path, self._current_state(), budget, unit)

    def spend(
        self,
        guarantee: PrivacyCurve,
        label: str,
        *,
        partition: str | None = None,
        group: str | None = None,
        unit: PrivacyUnit | str | None = None,
        n: int | None = None,
        space: str | None = None,
        statistic: str | None = None,
    ) -> Entry:
        """Charge one release, BEFORE it is sampled, and return the entry.

        Parameters
        ----------
        guarantee : Guarantee or PrivacyProfile
            The guarantee of the release. If it is of another definition than the
            ledger's, it is converted, never to a stronger statement.
        label : str
            A description of the release for people: at most 200 printable characters.
        partition, group : str, optional
            Both or none. Releases about disjoint groups of a partition cost only as
            much as the most expensive group. This is sound if a record's group is
            public and fixed, so that replacing a record keeps it in its group. If
            people are protected, all records of a person must be in one group.
        unit : PrivacyUnit or str, optional
            Whose data the guarantee protects, as for `Ledger`. A ledger that counts for
            a unit which this one does not imply refuses. With a partition, what is
            protected is a record or person within its group, and it is charged so.
            Without a unit you vouch that it is the ledger's.
        n : int, optional
            How many records or people it is about. It is refused if it is private
            (adjacency 'add-remove').
        space, statistic : str, optional
            Where the records live and what of them is released, for people to read.

        Returns
        -------
        Entry
            The entry, which is on the disk by now.

        Raises
        ------
        BudgetExceeded
            If it does not fit, or the ledger is frozen; nothing is spent.
        ParameterError, UnattainableGuarantee
            For a bad label, another adjacency or unit, or a guarantee that cannot be
            counted here; nothing is spent.
        """
        if (partition is None) != (group is None):
            raise ParameterError(
                "partition and group go together: parallel composition needs both"
            )
        if partition is not None:
            _check_text("partition", partition)
            _check_text("group", group)
        facts = _Facts(unit=unit, n=n, space=space, statistic=statistic)
        return self._spend([guarantee], label, partition, group, facts)

    def spend_on_disjoint_groups(
        self,
        guarantees: Sequence[PrivacyCurve],
        label: str,
        *,
        unit: PrivacyUnit | str | None = None,
        n: int | None = None,
        space: str | None = None,
        statistic: str | None = None,
    ) -> Entry:
        """Charge one entry for releases about disjoint groups of records.

        Call this BEFORE any of them is sampled. Each guarantee is converted to the
        definition in which the ledger counts, and all are refused if one of them has no
        expression there. The largest of every parameter is charged (parallel
        composition).

        Parameters
        ----------
        guarantees : sequence of Guarantee or PrivacyProfile
            The guarantee of each release. As with `spend`'s groups, a record's
            group must be public and fixed, and if people are protected, all records of
            a person must be in one group.
        label : str
            A description of the release for people: at most 200 printable characters.
        unit : PrivacyUnit or str, optional
            Whose data each guarantee protects. Of several groups, what is protected is
            a record or person within its group, and it is charged so.
        n : int, optional
            How many records or people all groups have together.
        space, statistic : str, optional
            Where the records live and what of them is released, for people to read.

        Returns
        -------
        Entry
            The entry, which pays for all of the releases.

        Raises
        ------
        BudgetExceeded
            If it does not fit, or the ledger is frozen; nothing is spent.
        ParameterError, UnattainableGuarantee
            For a bad label, another adjacency or unit, or a guarantee that cannot be
            counted here; nothing is spent.
        """
        if not isinstance(guarantees, Sequence) or not guarantees:
            raise ParameterError("guarantees must be a sequence of at least one")
        facts = _Facts(unit=unit, n=n, space=space, statistic=statistic)
        return self._spend(guarantees, label, None, None, facts)

    def _spend(
        self,
        curves: Sequence[PrivacyCurve],
        label: str,
        partition: str | None,
        group: str | None,
        facts: "_Facts",
    ) -> Entry:
        """Charge one entry for one release, or for several about disjoint groups.

        Parameters
        ----------
        curves : sequence of PrivacyCurve
            The guarantee, or the privacy profile, of each release that the entry pays
            for.
        label : str
            A short description of the release.
        partition, group : str or None
            The partition of the records, and the group of it that the release is about.
        facts : _Facts
            Facts that the caller states: unit, n, space and statistic.

        Returns
        -------
        Entry
            The entry that was written.

        Raises
        ------
        ParameterError
            If an argument is unusable. Nothing is written then.
        BudgetExceeded
            If the entry does not fit the budget. Nothing is written then.
        """
        for curve in curves:
            if not isinstance(curve, PrivacyCurve):
                raise ParameterError(
                    "must be a guarantee, such as GDP(0.5)",
                    parameter="guarantee",
                    value=curve,
                )
        guarantees = [curve.guarantee for curve in curves]
        _check_text("label", label)
        checked_facts = _check_facts(facts, guarantees)
        has_groups = partition is not None or len(guarantees) > 1
        if has_groups and checked_facts.unit is not None:
            # Parallel composition is about neighboring data sets in which the record
            # that differs stays in its group.
            checked_facts = checked_facts._replace(unit=checked_facts.unit.in_class)

        def body_after(state: State) -> dict[str, Any]:
            """Return the new entry's line in the file; raise if it does not fit.

            Parameters
            ----------
            state : State
                The ledger before the entry.

            Returns
            -------
            dict
                The content of the line, as JSON values.
            """
            state.check_unit(checked_facts.unit)
            try:
                charge = state.charge_disjoint(guarantees, partition, group)
            except BudgetExceeded as error:
                distinct = dict.fromkeys(guarantees)
                charges_in_words = ", ".join(map(_validate.shown, distinct))
                raise BudgetExceeded(
                    f"{charges_in_words} for {label!r} {error}"
                ) from None
            return {
                "label": label,
                "partition": partition,
                "group": group,
                "time": datetime.now(UTC).isoformat(),
                **_charge_to_dict(charge),
                **checked_facts._asdict(),
            }

        if self._planned is not None and self._is_not_made:
            # An entry that is refused here leaves no file behind.
            body_after(self._planned.state())
            self._make_file(self._planned)
        with transaction(self.path) as connection:
            key = read_key(self.key)
            state = self._read_new_entries(connection, key)
            row = append(connection, body_after(state), key)
        self._remember_state(replay(state, [row]))
        return _row_to_entry(row)

    def freeze(self, reason: str) -> None:
        """Close the ledger for good, so that no release can be charged to it.

        What was spent stays on record, and so does what every entry says. Nothing can
        reopen the ledger. Freezing it once more does nothing.

        Parameters
        ----------
        reason : str
            Why, for people to read: at most 200 printable characters.

        Raises
        ------
        ParameterError
            For a bad reason, and for a lazy ledger without a file.

        Examples
        --------
        >>> import tempfile, os
        >>> from curvedp.privacy import GDP
        >>> path = os.path.join(tempfile.mkdtemp(), "study.ledger")
        >>> ledger = Ledger(path, budget=GDP(1.0))
        >>> ledger.freeze("consent was withdrawn")
        >>> ledger.frozen.reason, ledger.remaining
        ('consent was withdrawn', None)
        """
        _check_text("reason", reason)
        if self._is_not_made:
            raise ParameterError(
                f"{self.path} is made with its first entry; there is nothing to freeze"
            )
        with transaction(self.path) as connection:
            key = read_key(self.key)
            state = self._read_new_entries(connection, key)
            if state.freeze is not None:
                return
            body = {"frozen": reason, "time": datetime.now(UTC).isoformat()}
            row = append(connection, body, key)
        self._remember_state(replay(state, [row]))

    @property
    def frozen(self) -> Freeze | None:
        """When and why the ledger was closed for good; None if it is open."""
        return self._current_state().freeze

    @property
    def budget(self) -> Guarantee:
        """What may be spent in all."""
        return (self._last_state or self._current_state()).budget

    @property
    def unit(self) -> PrivacyUnit | None:
        """The privacy unit that the budget protects, such as one person.

        It is None until a charge states it.
        """
        return self._current_state().unit

    @property
    def account(self) -> Guarantee:
        """The guarantee in which entries are counted.

        It is the budget, or what the rest of an (ε, δ) budget was converted into.
        """
        return self._current_state().account

    @property
    def entries(self) -> list[Entry]:
        """What has been charged, oldest first.

        The whole chain is read and checked, so this takes longer than `spent`. A freeze
        is not an entry.
        """
        if self._is_not_made:
            return []
        with transaction(self.path) as connection:
            key = read_key(self.key)
            self._read_new_entries(connection, key)
            _, *rows = read(connection, 0, "", key)
            return [_row_to_entry(row) for row in rows if not is_freeze(row.body)]

    @property
    def spent(self) -> Guarantee | None:
        """The composition of all entries in the budget's definition, rounded up.

        It is None if nothing is spent.
        """
        return self._current_state().spent

    @property
    def remaining(self) -> Guarantee | None:
        """What can still be spent in one entry outside any partition, rounded down.

        It is None if nothing is left or the ledger is frozen; `remaining_in_words` is
        for printing. Its definition is that of `account`: after a GDP release from an
        (ε, δ) budget it is GDP.
        """
        return self._current_state().remaining

    @property
    def remaining_in_words(self) -> str:
        """What can still be spent, as text: "nothing" where `remaining` is None."""
        state = self._current_state()
        if state.freeze is not None:
            return "nothing (frozen)"
        return str(state.remaining or "nothing")

    @property
    def head(self) -> str:
        """The hash of the last entry.

        Noted elsewhere, it proves later that no entry was taken back; see `extends`.
        """
        return self._current_state().head

    def extends(self, head: str) -> bool:
        """Return whether the ledger still has the entry with a hash that was noted earlier.

        If it is not, entries were taken back.

        Parameters
        ----------
        head : str
            The `head` of the ledger, or the `hash` of an entry, as it was noted.

        Returns
        -------
        bool
            Whether some line of the file has this hash.
        """
        if self._is_not_made:
            return False
        with transaction(self.path) as connection:
            rows = read(connection, 0, "", read_key(self.key))
            return any(row.digest == head for row in rows)

    def verify(self, *heads: str) -> int:
        """Check the whole ledger again, and return the number of its entries.

        Every entry is added up again, and hashes that were noted elsewhere are looked
        for.

        Parameters
        ----------
        *heads : str
            Hashes of entries that were noted elsewhere.

        Returns
        -------
        int
            How many releases were charged.

        Raises
        ------
        LedgerCorrupted
            If the chain is broken, a total is not the sum of its entries, or a noted
            hash is gone.
        """
        rows: list[Row] = []
        if not self._is_not_made:
            with transaction(self.path) as connection:
                rows = read(connection, 0, "", read_key(self.key))
                self._check_continues(connection)
                replay(_state_of_first_line(rows[0]), rows[1:], exactly=True)
        for head in heads:
            if all(row.digest != head for row in rows):
                raise LedgerCorrupted(
                    f"the entry {_validate.shown(head)} is gone: entries of {self.path} "
                    "were taken back"
                )
        # The first line states the budget and is not an entry.
        return sum(not is_freeze(row.body) for row in rows[1:])

    def __repr__(self) -> str:
        """Return the path and the remaining budget; never raise."""
        try:
            state = self._current_state()
        except CurvedpError:
            return f"Ledger({str(self.path)!r}: unreadable)"
        return (
            f"Ledger({str(self.path)!r}: {state.remaining or 'nothing'} of {state.budget} "
            "remains)"
        )

    def _repr_html_(self) -> str:
        """Return the ledger and its last ten entries as HTML, which notebooks show."""
        state = self._current_state()
        entries = self.entries
        rows = "".join(_html_row(entry) for entry in entries[-_ENTRIES_SHOWN:])
        header = "".join(f"<th>{escape(name)}</th>" for name in ENTRY_HEADER)
        earlier = ""
        if len(entries) > _ENTRIES_SHOWN:
            earlier = f"<p>… and {len(entries) - _ENTRIES_SHOWN} before</p>"
        remaining = escape(self.remaining_in_words)
        title = (
            f"<p><b>{escape(self.path.name)}</b>: {remaining} of "
            f"{escape(str(state.budget))} remains; {escape(unit_in_words(state.unit))}</p>"
        )
        return f"{title}<table><tr>{header}</tr>{rows}</table>{earlier}"

    def __copy__(self) -> "Ledger":
        """Return a copy; it shares the plan of a file that is not yet made."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ledger":
        """Return a copy, as `copy.copy` does: the file is the same."""
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: the paths, and an entry that must be in the file.

        Totals are not pickled; they are read from the file again.

        Raises
        ------
        ParameterError
            If the file is not yet made. A pickle of it could not tell a file that was
            never made from one that was made, spent and deleted: it would start the
            budget again.
        """
        if self._is_not_made:
            raise ParameterError(
                f"{self.path} is made with its first entry, and a ledger without a file "
                "cannot be pickled: open it without lazy=True, or pickle it after a charge"
            )
        if self._planned is not None:
            # Another process made the file: the pickle must know its last entry.
            self._current_state()
        return {"path": self.path, "key": self.key, "witness": self._witness}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Restore a ledger from a pickle, also from one of version 0.2.

        Parameters
        ----------
        fields : dict
            What `__getstate__` returned: the paths, and the entry that must be there.
        """
        self.path = fields["path"]
        self.key = fields["key"]
        # Pickles of version 0.2 have no witness.
        self._witness = fields.get("witness")
        self._planned = None
        self._last_state = None

    def _make_or_plan_file(
        self, budget: Guarantee, unit: PrivacyUnit | None, lazy: bool
    ) -> None:
        """Make the file of a new ledger now, or plan to make it with its first entry.

        A file that exists already is left as it is.

        Parameters
        ----------
        budget : Guarantee
            The budget of the ledger.
        unit : PrivacyUnit or None
            Whom the ledger protects; None leaves that to its first entry.
        lazy : bool
            Whether the file is made with the first entry only.

        Raises
        ------
        ParameterError
            If the budget, the folder, the file's place or the key is unusable.
        """
        if not isinstance(budget, Guarantee):
            raise ParameterError(
                "must be a guarantee, such as GDP(1.0)",
                parameter="budget",
                value=budget,
            )
        # A guarantee whose cost does not add up is refused here, before a file is made.
        budget.cost()
        if not self.path.parent.is_dir():
            raise ParameterError(
                f"the folder of the ledger, {self.path.parent}, does not exist"
            )
        read_key(self.key)
        if self.path.exists():
            return
        check_place(self.path)
        planned = _PlannedFile(budget, unit)
        if lazy:
            self._planned = planned
        else:
            self._make_file(planned)

    def _make_file(self, planned: "_PlannedFile") -> None:
        """Make the ledger's file, with a first line that states budget and unit.

        If another process makes the file at the same time, that file is used.

        Parameters
        ----------
        planned : _PlannedFile
            The budget of the new ledger, and the privacy unit that it protects.
        """
        key = read_key(self.key)
        body = {
            "budget": planned.budget.to_dict(),
            "unit": planned.unit,
            "format": _FORMAT,
            "id": secrets.token_hex(16),
            "keyed": key is not None,
        }
        create(self.path, body, key)

    @property
    def _is_not_made(self) -> bool:
        """Whether the file will be made later, with its first entry."""
        if self._planned is None or self._planned.witness is not None:
            return False
        return not self.path.exists()

    def _current_state(self) -> State:
        """Return the current state of the ledger, such as the total of its entries.

        If the file is not yet made, it is the state that it will begin with.
        """
        if self._planned is not None and self._is_not_made:
            return self._planned.state()
        with transaction(self.path) as connection:
            return self._read_new_entries(connection, read_key(self.key))

    def _read_new_entries(self, connection: Connection, key: bytes | None) -> State:
        """Read the entries that are new since the last look, and return the new state.

        The state, such as the total of all entries, is remembered for the next look. It
        covers committed entries only.

        Parameters
        ----------
        connection : Connection
            An open transaction on the file.
        key : bytes or None
            The key of the hashes, if the ledger has one.

        Returns
        -------
        State
            The budget, the totals and the last entry, as of now.

        Raises
        ------
        LedgerCorrupted
            If the file does not continue what this object has seen, or is damaged.
        """
        self._check_continues(connection)
        if self._last_state is None:
            first, *rows = read(connection, 0, "", key)
            known_state = _state_of_first_line(first)
        else:
            known_state = self._last_state
            rows = read(connection, known_state.number + 1, known_state.head, key)
        state = replay(known_state, rows)
        if self._planned is not None:
            _check_same(self.path, state, self._planned.budget, self._planned.unit)
            # From now on, a file that is gone is not made again: neither by this object
            # nor by its copies, which share the plan.
            self._planned.witness = (state.number, state.head)
            self._planned = None
        self._remember_state(state)
        return state

    def _remember_state(self, state: State) -> None:
        """Remember a state of the file, unless a later one is known.

        Another thread may have read the file in between.

        Parameters
        ----------
        state : State
            The state of the file when it was read.
        """
        if self._last_state is None or state.number >= self._last_state.number:
            self._last_state = state
            self._witness = (state.number, state.head)

    def _check_continues(self, connection: Connection) -> None:
        """Refuse a file that lacks the last entry which this object has seen.

        A copy of a ledger that has no file yet shares what its original has seen.

        Parameters
        ----------
        connection : Connection
            An open transaction on the file.

        Raises
        ------
        LedgerCorrupted
            If the entry is gone: the file was replaced, or entries were taken back.
        """
        witness = self._witness
        if witness is None and self._planned is not None:
            witness = self._planned.witness
        if witness is None:
            return
        number, head = witness
        if read_hash(connection, number) != head:
            raise LedgerCorrupted(
                f"{self.path} does not continue the ledger that was opened: entries were "
                "taken back, or the file was replaced. Nothing was spent"
            )


@dataclass
class _PlannedFile:
    """The file of a lazy ledger, before it is made; all copies of the ledger share it.

    Attributes
    ----------
    budget, unit : Guarantee, and PrivacyUnit or None
        The content of the first line of the file.
    witness : (int, str) or None
        Number and hash of an entry that must be in the file, once one of the copies
        has seen the file; None before. A copy that finds no file then knows that it
        was deleted, and does not make it again.
    """

    budget: Guarantee
    unit: PrivacyUnit | None
    witness: tuple[int, str] | None = None

    def state(self) -> State:
        """Return the state of the ledger before its first entry."""
        return State.new(self.budget, "", self.unit)


class _Facts(NamedTuple):
    """What a caller states about a release beside its guarantee; see `Entry`.

    The names of the fields are those in the file.
    """

    unit: PrivacyUnit | str | None
    n: int | None
    space: str | None
    statistic: str | None


class _CheckedFacts(NamedTuple):
    """What a caller states about a release, checked and with the final types."""

    unit: PrivacyUnit | None
    n: int | None
    space: str | None
    statistic: str | None


def entry_row(entry: Entry) -> tuple[str, ...]:
    """Return an entry of a ledger as a row of cells, one for each of `ENTRY_HEADER`.

    Parameters
    ----------
    entry : Entry
        The entry of one release.

    Returns
    -------
    tuple of str
        Number, label, guarantee, whom it protects, and what it is about.
    """
    return (
        str(entry.number),
        entry.label,
        str(entry.guarantee),
        "not stated" if entry.unit is None else f"one {entry.unit.words}",
        _facts_in_words(entry),
    )


def _html_row(entry: Entry) -> str:
    """Return an entry as a row of an HTML table.

    Parameters
    ----------
    entry : Entry
        The entry of one release.
    """
    cells = "".join(f"<td>{escape(text)}</td>" for text in entry_row(entry))
    return f"<tr>{cells}</tr>"


def _facts_in_words(entry: Entry) -> str:
    """Return the facts of an entry as one text, such as "mean, n = 50, on Sphere(2)".

    Facts that the entry does not state are left out.

    Parameters
    ----------
    entry : Entry
        The entry of one release.

    Returns
    -------
    str
        The text; empty if the entry states nothing.
    """
    facts = []
    if entry.statistic is not None:
        facts.append(entry.statistic)
    if entry.n is not None:
        facts.append(f"n = {entry.n}")
    if entry.space is not None:
        facts.append(f"on {entry.space}")
    return ", ".join(facts)


def unit_in_words(unit: PrivacyUnit | None) -> str:
    """Return a sentence that says whose data the budget of a ledger protects.

    Parameters
    ----------
    unit : PrivacyUnit or None
        The unit of the ledger; None if no entry has stated it yet.
    """
    if unit is None:
        return "whom it protects is unknown until a charge states it"
    if unit is PrivacyUnit.PERSON:
        return f"it protects {PERSON_IN_FULL}"
    words = f"it protects one {unit.words}"
    if unit is unit.in_class:
        words += f" ({SEVERAL_PARTITIONS})"
    return words


def _check_same(
    path: Path, state: State, budget: Guarantee | None, unit: PrivacyUnit | None
) -> None:
    """Refuse to open a ledger with a budget or a privacy unit that is not its own.

    Parameters
    ----------
    path : Path
        The file, for messages.
    state : State
        The state of the file: its budget, its unit, and what was spent.
    budget, unit : Guarantee and PrivacyUnit, or None
        The arguments of `Ledger`; None where nothing is passed.

    Raises
    ------
    ParameterError
        If one of them differs from the file's.
    """
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
    if unit is not None and state.unit is not None and unit is not state.unit:
        raise ParameterError(
            f"{path} counts privacy loss per {state.unit.words}, not per {unit.words}"
        )


def _check_facts(facts: _Facts, guarantees: Sequence[Guarantee]) -> _CheckedFacts:
    """Check the facts that a caller states about a release besides its guarantee.

    Parameters
    ----------
    facts : _Facts
        Unit, number of records, space and statistic, each of which may be None.
    guarantees : sequence of Guarantee
        The guarantees of the release. If one of them hides the number of records, a
        stated number is refused.

    Returns
    -------
    _CheckedFacts
        The same facts, in the types in which an entry stores them.

    Raises
    ------
    ParameterError
        If one of them is of a wrong type, or a private number is stated.
    """
    unit = check_unit("unit", facts.unit)
    n = facts.n
    if n is not None:
        n = _validate.integer("n", n, 0)
    n_is_private = any(guarantee.adjacency == _ADD_REMOVE for guarantee in guarantees)
    if n is not None and n_is_private:
        raise ParameterError(
            "n is private where records may be added or removed: leave it out"
        )
    for name, text in (("space", facts.space), ("statistic", facts.statistic)):
        if text is not None:
            _check_text(name, text)
    return _CheckedFacts(unit, n, facts.space, facts.statistic)


def _charge_to_dict(charge: Charge) -> dict[str, Any]:
    """Return the cost of an entry as the JSON values that the file holds.

    Exact fractions are written as texts.

    Parameters
    ----------
    charge : Charge
        The cost of the entry, and the totals after it.

    Returns
    -------
    dict
        The values under the keys of the file's format.
    """
    new_account = None
    if charge.converts_budget_to is not None:
        new_account = charge.converts_budget_to.to_dict()
    group_total = None
    if charge.group_total is not None:
        group_total = _cost_to_list(charge.group_total)
    return {
        "guarantee": charge.guarantee.to_dict(),
        "opens": new_account,
        "total": _cost_to_list(charge.total),
        "of_group": group_total,
    }


def _cost_to_list(cost: Cost) -> list[str]:
    """Return a cost as a list of texts, such as "1/3", which are exact.

    Parameters
    ----------
    cost : tuple of Fraction
        One exact number for each parameter of the ledger's definition of privacy.
    """
    return [str(number) for number in cost]


def _resolve_path(name: str, value: Any) -> Path:
    """Return an absolute path without symbolic links.

    Parameters
    ----------
    name : str
        The parameter's name, for error messages.
    value : object
        The object that the caller passes as a path.

    Returns
    -------
    Path
        The path, by which two objects for one file are recognized.

    Raises
    ------
    ParameterError
        If the value is not a path that the system can look up.
    """
    try:
        path = Path(value)
        if "\0" in str(path):
            raise ValueError("it holds a null character")
        path = path.resolve()
        # This raises for a path that the system cannot look up, such as one too long.
        path.exists()
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise ParameterError(
            f"is not the path of a file: {error}", parameter=name, value=value
        ) from None
    return path


def _check_text(name: str, text: Any) -> None:
    """Refuse a label or another text for people that is empty, long or not printable.

    Parameters
    ----------
    name : str
        The parameter's name, for error messages.
    text : object
        The text that the caller passes, which may be anything.

    Raises
    ------
    ParameterError
        If it is.
    """
    if not isinstance(text, str) or not text:
        raise ParameterError(
            "must be a non-empty text that says what is released",
            parameter=name,
            value=text,
        )
    if len(text) > _LONGEST_TEXT or not text.isprintable():
        raise ParameterError(
            f"must have at most {_LONGEST_TEXT} characters, all printable",
            parameter=name,
            value=text,
        )


def _state_of_first_line(row: Row) -> State:
    """Return the state of a ledger before its first entry, from its first line.

    Parameters
    ----------
    row : Row
        The first line of the file, which states format, budget and privacy unit.

    Returns
    -------
    State
        The budget, of which nothing is spent.

    Raises
    ------
    ParameterError
        If a newer version of the library has written the file.
    """
    file_format = row.body.get("format", 1)
    if file_format not in range(1, _FORMAT + 1):
        raise ParameterError(
            f"the ledger has format {_validate.shown(file_format)}; this curvedp reads up "
            f"to {_FORMAT}"
        )
    budget = guarantee_from_dict(row.body["budget"])
    return State.new(budget, row.digest, unit_in(row.body))


def _row_to_entry(row: Row) -> Entry:
    """Return the entry that a line of the file holds.

    Parameters
    ----------
    row : Row
        A line after the first. Those of version 0.2 and before do not contain facts.

    Returns
    -------
    Entry
        The entry; characters that cannot be printed are escaped.

    Raises
    ------
    LedgerCorrupted
        If the number of records is not an integer.
    """
    body = row.body
    n = body.get("n")
    if not (n is None or type(n) is int):
        raise LedgerCorrupted(
            f"entry {row.number} of the ledger has no number of records"
        )
    return Entry(
        number=row.number,
        label=_printable(body["label"]) or "",
        guarantee=guarantee_from_dict(body["guarantee"]),
        partition=_printable(body["partition"]),
        group=_printable(body["group"]),
        time=body["time"],
        hash=row.digest,
        unit=unit_in(body),
        n=n,
        space=_printable(body.get("space")),
        statistic=_printable(body.get("statistic")),
    )


def _printable(text: str | None) -> str | None:
    """Return a text of the file with escapes for characters that cannot be printed.

    Parameters
    ----------
    text : str or None
        A text that another process wrote, which might hold control characters.
    """
    if text is None or text.isprintable():
        return text
    return ascii(text)[1:-1]
