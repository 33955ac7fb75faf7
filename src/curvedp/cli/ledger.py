"""`curvedp ledger create | key | spend | show | verify | freeze`: a data set's budget.
A ledger is a file with a privacy budget. Every release from the data set is charged to
it as an entry; these commands make, read and check such files.
"""

import json as json_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvedp.cli.console import console, escape_markup, print_table
from curvedp.cli.options import JsonOption, command
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    from curvedp.ledger import Ledger

ledger_app = typer.Typer(
    no_args_is_help=True, help="Keep the privacy budget of a data set."
)

KeyOption = Annotated[
    Path | None, typer.Option("--key", help="file with the key of a keyed ledger")
]


UnitOption = Annotated[
    str | None,
    typer.Option(
        "--unit", help="what is protected: record, or person with all their records"
    ),
]


@ledger_app.command("create")
@command
def create(
    path: Path,
    guarantee: Any = None,
    key: KeyOption = None,
    unit: UnitOption = None,
) -> None:
    """Start a ledger with this budget; a file that exists is never touched."""
    from curvedp.ledger import Ledger

    if path.exists():
        raise ParameterError(f"{path} exists; curvedp ledger show {path} prints it")
    _print_balance(Ledger(path, guarantee, key=key, unit=unit))


@ledger_app.command("key")
@command
def make_key(
    path: Annotated[
        Path, typer.Argument(help="file for the key; an existing file is not changed")
    ],
) -> None:
    """Make the key of a keyed ledger, in a file that only you may read."""
    from curvedp.ledger import write_key

    write_key(path)
    console.print(escape_markup(f"{path}: for --key"), soft_wrap=True)


@ledger_app.command("spend")
@command
def spend(
    path: Path,
    label: Annotated[
        str | None, typer.Argument(help="description of the release")
    ] = None,
    guarantee: Any = None,
    partition: Annotated[
        str | None,
        typer.Option(
            help="name of a partition; releases on its disjoint groups compose in parallel"
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="goes with --partition")] = None,
    key: KeyOption = None,
    named: Annotated[
        str | None, typer.Option("--label", help="the same as the argument LABEL")
    ] = None,
    unit: UnitOption = None,
) -> None:
    """Charge a release that other software makes, BEFORE it is made.

    Exit 2 if it does not fit into the budget; nothing is spent then.
    """
    from curvedp.ledger import Ledger

    if (label is None) == (named is None):
        raise ParameterError(
            "state what is released once: curvedp ledger spend LEDGER 'mean of my study'"
        )
    book = Ledger(path, key=key)
    entry = book.spend(
        guarantee,
        label or named or "",
        partition=partition,
        group=group,
        unit=unit,
    )
    console.print(
        f"entry {entry.number}: {entry.guarantee}; hash {entry.hash}", soft_wrap=True
    )
    _print_balance(book)


@ledger_app.command("show")
@command
def show(path: Path, key: KeyOption = None, json: JsonOption = False) -> None:
    """Show what has been spent, on whom and on what, and what remains.

    The hash chain is verified first.
    """
    from curvedp.ledger import Ledger
    from curvedp.ledger.book import ENTRY_HEADER, entry_row, unit_in_words

    book = Ledger(path, key=key)
    if json:
        print(json_module.dumps(_ledger_to_dict(book)))
        return

    rows = []
    for entry in book.entries:
        number, label, *other_cells = entry_row(entry)
        if entry.partition is not None:
            label = f"{label} ({entry.partition}: {entry.group})"
        minute = entry.time[:16].replace("T", " ")
        cells = (number, minute, label, *other_cells)
        rows.append([escape_markup(text) for text in cells])
    number_column, *other_columns = ENTRY_HEADER
    print_table(
        (number_column, "when (UTC)", *other_columns),
        rows,
        escape_markup(f"{path}: {book.budget}; {unit_in_words(book.unit)}"),
    )
    _print_balance(book)
    _print_time_remarks(book)
    console.print(f"head {book.head}", soft_wrap=True)


def _print_time_remarks(ledger: "Ledger") -> None:
    """Remark on entries whose times cannot all be right; the order of entries stands.

    The time of an entry is what the clock of the machine said that wrote it.

    Parameters
    ----------
    ledger : Ledger
        The ledger, whose entries are read.
    """
    from curvedp.core.certificate_form import lies_in_future, read_time

    entries = ledger.entries
    remarks = []
    for entry, next_entry in pairwise(entries):
        time = read_time(entry.time)
        next_time = read_time(next_entry.time)
        if time is not None and next_time is not None and next_time < time:
            remarks.append(
                f"entry {next_entry.number} is dated before entry {entry.number}"
            )
    for entry in entries:
        if lies_in_future(entry.time):
            remarks.append(f"entry {entry.number} is dated in the future")
    for remark in remarks:
        console.print(
            f"[yellow]note[/]: {remark}: a clock was wrong; the hash chain, not the "
            "time, proves the order",
            soft_wrap=True,
        )


def _ledger_to_dict(ledger: "Ledger") -> dict[str, Any]:
    """Return the budget, the rest of it and all entries of a ledger as JSON values.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    """
    remaining = ledger.remaining
    frozen = ledger.frozen
    entries = []
    for entry in ledger.entries:
        entries.append({**entry._asdict(), "guarantee": entry.guarantee.to_dict()})
    return {
        "budget": ledger.budget.to_dict(),
        "unit": ledger.unit,
        "remaining": None if remaining is None else remaining.to_dict(),
        "frozen": None if frozen is None else frozen._asdict(),
        "entries": entries,
    }


@ledger_app.command("freeze")
@command
def freeze(
    path: Path,
    reason: Annotated[str, typer.Argument(help="reason, recorded in the ledger")],
    key: KeyOption = None,
) -> None:
    """Close a ledger for good: no later charge is accepted, and it cannot be reopened."""
    from curvedp.ledger import Ledger

    book = Ledger(path, key=key)
    book.freeze(reason)
    _print_balance(book)


@ledger_app.command("verify")
@command
def verify(
    path: Path,
    hashes: Annotated[
        list[str] | None,
        typer.Argument(
            help="hashes of entries that you noted elsewhere, such as in certificates"
        ),
    ] = None,
    key: KeyOption = None,
) -> None:
    """Add every entry up again, and look for each hash that was noted elsewhere."""
    from curvedp.ledger import Ledger

    book = Ledger(path, key=key)
    count = book.verify(*(hashes or ()))
    console.print(f"{count} entries add up; {len(hashes or ())} noted hashes found")
    _print_time_remarks(book)


def _print_balance(ledger: "Ledger") -> None:
    """Print the spent and the remaining budget.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    """
    spent = ledger.spent or "nothing"
    remaining = ledger.remaining_in_words
    balance = f"spent {spent}, remaining {remaining} of {ledger.budget}"
    frozen = ledger.frozen
    if frozen is not None:
        balance += f"; frozen on {frozen.time[:10]}: {frozen.reason}"
    console.print(escape_markup(balance), soft_wrap=True)
