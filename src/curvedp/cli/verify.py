"""`curvedp verify`: a stranger's certificate, recomputed in a process of its own.
Every claim of the certificate is recomputed and printed with its result. The process
has limits on time and memory, because the file may come from anybody.
"""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from curvedp.cli.console import console, errors, escape_markup, print_table, waiting
from curvedp.cli.options import JsonOption, command
from curvedp.verification import (
    DEFAULT_SECONDS,
    ClaimCheck,
    raise_if_refuted,
    verify_file,
)

# What the table says about a claim: whether it holds, or None if nobody can know.
_ANSWERS = {
    True: "[green]yes[/]",
    False: "[bold red]NO[/]",
    None: "[bold yellow]not known[/]",
}


@command
def verify(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    key: Annotated[
        str | None,
        typer.Option(
            help="public key, or its file, of the required signer "
            "(certificate.json.sig)"
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="time limit; large spaces may need more")
    ] = DEFAULT_SECONDS,
    json: JsonOption = False,
) -> None:
    """Recompute every claim of a certificate, by certified bounds.

    Exit 0 if every claim holds; 1 if one cannot be confirmed; 2 if the file is no
    certificate, or verification takes more than its time or 2 GB. Exit 3 if every claim
    holds except for what no certificate can vouch for: the release was drawn in
    float64, its sensitivity is the caller's word, or its statistic does not say whom it
    protects.
    """
    with waiting("recomputing every claim"):
        verification = verify_file(certificate, public_key=key, seconds=seconds)
    if json:
        print(json_module.dumps([check._asdict() for check in verification.checks]))
    else:
        _print_checks(verification.checks, verification.notes)
    raise_if_refuted(verification.checks)

    unknown = [check for check in verification.checks if check.holds is None]
    if unknown:
        first = unknown[0]
        subject = first.claim.split()[0].rstrip(":")
        errors.print(
            f"[bold yellow]claims confirmed, {escape_markup(subject)} not[/]: "
            f"{escape_markup(first.claim)}; {escape_markup(first.detail)}",
            soft_wrap=True,
        )
        raise typer.Exit(3)


def _print_checks(checks: list[ClaimCheck], notes: list[str]) -> None:
    """Print one row for each claim, and below them the notes about the release.

    Parameters
    ----------
    checks : list of ClaimCheck
        The result for each claim.
    notes : list of str
        Warnings about the release, and facts that nobody can recompute.
    """
    print_table(
        ("claim", "holds", "how"),
        (
            (
                escape_markup(check.claim),
                _ANSWERS[check.holds],
                escape_markup(check.detail),
            )
            for check in checks
        ),
    )
    if all(check.holds for check in checks):
        console.print(
            "[bold green]verified[/]: every claim that can be recomputed was, and holds",
            soft_wrap=True,
        )
    for line in notes:
        console.print(
            f"[yellow]note[/]: {escape_markup(line)}", soft_wrap=True, highlight=False
        )
