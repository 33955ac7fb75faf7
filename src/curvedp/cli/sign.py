"""`curvedp key | sign | statement`: who stands behind a certificate, as Ed25519 signatures beside it, and what it tells.

Signed is the whole certificate in one spelling (RFC 8785): released integers or their
SHA-256, every public number, and the ledger's entry with its hash, which is the head of
the chain at that time.
"""

from pathlib import Path
from typing import Annotated

import typer

from curvedp._files import write_atomically
from curvedp.cli.console import console, escape_markup, waiting
from curvedp.cli.options import command
from curvedp.errors import ParameterError
from curvedp.verification import DEFAULT_SECONDS, sign_file, verify_file


@command
def key(
    path: Annotated[
        Path, typer.Argument(help="for the private key; one that exists is not touched")
    ],
) -> None:
    """Make a new key.

    The private half goes into a file that only you may read. The public half goes into a
    file of that name with .pub, and is printed.
    """
    from curvedp.signing import key_of, new_identity, write_key

    public, identity = path.with_name(path.name + ".pub"), new_identity()
    if public.exists():
        raise ParameterError(f"{public} exists; a key is never overwritten")
    write_key(path, identity)
    write_atomically(public, key_of(identity) + "\n")
    console.print(f"public key {key_of(identity)}", soft_wrap=True)


@command
def sign(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    key: Annotated[Path, typer.Option(help="private key, as `curvedp key` writes it")],
    seconds: Annotated[
        float, typer.Option(help="how long verification may take")
    ] = DEFAULT_SECONDS,
) -> None:
    """Verify a certificate and sign it.

    The signature goes into certificate.json.sig. Exit 1 if a claim is not confirmed.
    """
    from curvedp.signing import key_of, read_key

    identity = read_key(key)
    with waiting("recomputing every claim"):
        target = sign_file(certificate, identity, seconds)
    console.print(
        f"signed by {key_of(identity)}: {escape_markup(target)}", soft_wrap=True
    )


@command
def statement(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    study: Annotated[
        Path,
        typer.Option(
            help="the curator's answers; written as a form where it does not exist"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="folder for registry.yaml, label.html and worksheet.html"),
    ],
    seconds: Annotated[
        float, typer.Option(help="how long verification may take")
    ] = DEFAULT_SECONDS,
) -> None:
    """Write what the public is told of a release.

    This is a registry entry, a privacy label and an SP 800-226 worksheet, from a
    certificate that is verified first. Exit 1 if a claim is not confirmed.
    """
    from curvedp import statement as words

    if not study.exists():
        write_atomically(study, words.template())
        raise ParameterError(
            f"{study} was written: answer its questions, then run this again"
        )
    said = words.read_study(study)
    with waiting("recomputing every claim"):
        found = verify_file(certificate, seconds=seconds)
        held = found.certificate("no statement: ")
    open_ = tuple(
        f"{check.claim}: {check.detail}"
        for check in found.checks
        if check.holds is None
    )
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "registry.yaml", words.yaml(words.registry(held, said)))
    write_atomically(out / "label.html", words.label(held, said, open_))
    write_atomically(out / "worksheet.html", words.worksheet(held, said, open_))
    console.print(
        f"registry.yaml, label.html and worksheet.html are in {escape_markup(out)}",
        soft_wrap=True,
    )
